//! PortInfo: what `Get` returns for a port, and what a `Set` may change (IBA 14.2.5.6).
//!
//! A `Set` is checked as a whole before anything is changed: one illegal value refuses it all
//! (status "invalid field", IBA 13.4.7). What a zero leaves as it is, and what a kind of port has
//! no use for (the state of port 0, the LID of a switch's external port, the head-of-queue limit
//! of a channel adapter), is ignored.

use link::{LinkCommand, PhysicalState};
use wire::attr::{PKeyTable, PortInfo, PortPhysState, PortState, VlCount, capability};
use wire::{Gid, Guid, Lid, LinkRates, LinkSpeed, LinkWidth, PortNum};

use crate::key_guard::KeyGuard;

use super::node::{Identity, LinkStatus, PortCapabilities, PortSettings};

/// LinkWidthEnabled: all supported.
const ALL_WIDTHS: u8 = 0xff;
/// LinkSpeedEnabled: all supported.
const ALL_SPEEDS: u8 = 0x0f;
/// LinkSpeedExtEnabled: none.
const NO_EXTENDED_SPEEDS: u8 = 30;
/// LinkSpeedExtEnabled: all supported.
const ALL_EXTENDED_SPEEDS: u8 = 31;
/// LinkDownDefaultState: polling.
const POLLING: u8 = 2;
/// SubnetTimeOut at the start: about a second.
const DEFAULT_SUBNET_TIMEOUT: u8 = 18;
/// RespTimeValue: about 0.27 s.
const RESP_TIME_VALUE: u8 = 16;

/// Entries of a P_Key table: one block.
pub const PKEYS: u16 = 32;
/// Entries of a port's GUID table: one block.
pub const GUIDS: u8 = 8;

/// The component of a `Set` that has an illegal value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadField(pub(super) &'static str);

/// Which rules hold for a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A port of a channel adapter.
    Adapter,
    /// Port 0 of a switch (a base port: LMC 0, no state of its own).
    SwitchBase,
    /// Port 0 of a switch that may have several LIDs (an enhanced port 0).
    SwitchEnhanced,
    /// An external port of a switch.
    SwitchExternal,
}

impl Role {
    pub(super) fn of(identity: &Identity, port: PortNum) -> Self {
        match (identity.is_switch(), port) {
            (false, _) => Self::Adapter,
            (true, PortNum::MANAGEMENT) if identity.enhanced_port0 => Self::SwitchEnhanced,
            (true, PortNum::MANAGEMENT) => Self::SwitchBase,
            (true, _) => Self::SwitchExternal,
        }
    }

    /// Whether the port has a LID, and with it keys and a subnet manager.
    fn is_addressed(self) -> bool {
        self != Self::SwitchExternal
    }

    /// Whether the port has a link.
    pub(super) fn has_link(self) -> bool {
        !matches!(self, Self::SwitchBase | Self::SwitchEnhanced)
    }
}

/// The agent's state of one port.
#[derive(Clone, Debug)]
pub(super) struct Port {
    pub(super) settings: PortSettings,
    pub(super) m_key: KeyGuard,
    /// Packets with a P_Key that the port does not take.
    pub(super) p_key_violations: u16,
    /// Packets with a Q_Key that their queue pair does not take.
    pub(super) q_key_violations: u16,
    pub(super) gid_prefix: u64,
    pub(super) is_sm: bool,
    pub(super) subnet_timeout: u8,
    pub(super) pkeys: [u16; PKEYS as usize],
    pub(super) guids: [Guid; GUIDS as usize],
    local_phy_errors: u8,
    overrun_errors: u8,
}

/// Chooses among supported bits: 0 keeps the present choice, `all` enables everything supported.
fn choose_enabled(
    requested: u8,
    all: u8,
    now: u8,
    supported: u8,
    name: &'static str,
) -> Result<u8, BadField> {
    match requested {
        0 => Ok(now),
        _ if requested == all => Ok(supported),
        _ if requested & !supported == 0 => Ok(requested),
        _ => Err(BadField(name)),
    }
}

/// The widths and speeds that a `Set` enables. Both extended fields are one choice: what one names, the other
/// does not leave as it is.
fn choose_rates(
    now: LinkRates,
    supported: LinkRates,
    requested: &PortInfo,
) -> Result<LinkRates, BadField> {
    let widths = choose_enabled(
        requested.link_width_enabled,
        ALL_WIDTHS,
        now.width_bits(),
        supported.width_bits(),
        "LinkWidthEnabled",
    )?;
    let speeds = choose_enabled(
        requested.link_speed_enabled,
        ALL_SPEEDS,
        now.base_speeds(),
        supported.base_speeds(),
        "LinkSpeedEnabled",
    )?;
    let wanted = (
        requested.link_speed_ext_enabled,
        requested.link_speed_ext2_enabled,
    );
    let (extended, extended2) = match wanted {
        (0, 0) => (now.extended_speeds(), now.extended2_speeds()),
        (ALL_EXTENDED_SPEEDS, _) => (supported.extended_speeds(), supported.extended2_speeds()),
        (NO_EXTENDED_SPEEDS, _) => (0, 0),
        (extended, _) if extended & !supported.extended_speeds() != 0 => {
            return Err(BadField("LinkSpeedExtEnabled"));
        }
        (_, extended2) if extended2 & !supported.extended2_speeds() != 0 => {
            return Err(BadField("LinkSpeedExtEnabled2"));
        }
        chosen => chosen,
    };
    let rates = now.with_widths(widths).with_base_speeds(speeds);
    Ok(rates.with_extended_speeds(extended, extended2))
}

impl Port {
    pub(super) fn new(guid: Guid, role: Role, caps: &PortCapabilities) -> Self {
        let mut pkeys = [0; PKEYS as usize];
        let mut guids = [Guid::default(); GUIDS as usize];
        if role.is_addressed() {
            pkeys[0] = PKeyTable::DEFAULT_FULL;
            guids[0] = guid;
        }
        Self {
            settings: PortSettings {
                mtu: caps.mtu,
                operational_vls: VlCount::at_most(caps.vls).map_or(1, VlCount::vls),
                rates: caps.rates,
                ..PortSettings::INITIAL
            },
            m_key: KeyGuard::default(),
            p_key_violations: 0,
            q_key_violations: 0,
            gid_prefix: if role.is_addressed() {
                Gid::DEFAULT_PREFIX
            } else {
                0
            },
            is_sm: false,
            subnet_timeout: DEFAULT_SUBNET_TIMEOUT,
            pkeys,
            guids,
            local_phy_errors: 0,
            overrun_errors: 0,
        }
    }

    /// CapabilityMask.
    pub(super) fn capability_mask(&self, role: Role, caps: &PortCapabilities) -> u32 {
        let optional = |yes: bool, bit: u32| if yes { bit } else { 0 };
        let common = capability::IS_TRAP
            | capability::IS_SL_MAPPING
            | capability::IS_SYSTEM_IMAGE_GUID
            | optional(
                caps.rates.extended_speeds() != 0,
                capability::IS_EXTENDED_SPEEDS,
            )
            | capability::IS_CAPABILITY_MASK2;
        match role {
            Role::Adapter => {
                common
                    | capability::IS_CLIENT_REREGISTRATION
                    | capability::IS_CAPABILITY_MASK_NOTICE
                    | optional(self.is_sm, capability::IS_SM)
            }
            Role::SwitchBase | Role::SwitchEnhanced => common | capability::IS_MULTICAST_FDB_TOP,
            Role::SwitchExternal => 0,
        }
    }

    /// CapabilityMask2.
    fn capability_mask2(role: Role, rates: LinkRates) -> u16 {
        if role == Role::SwitchExternal {
            return 0;
        }
        let optional = |yes: bool, bit: u16| if yes { bit } else { 0 };
        let is_2x = rates.width_bits() & LinkWidth::X2.code() != 0;
        capability::IS_PORT_INFO_EXTENDED
            | optional(is_2x, capability::IS_LINK_WIDTH_2X)
            | optional(rates.has(LinkSpeed::Hdr), capability::IS_LINK_SPEED_HDR)
            | optional(rates.has(LinkSpeed::Ndr), capability::IS_LINK_SPEED_NDR)
            | optional(
                rates.extended2_speeds() != 0,
                capability::IS_EXTENDED_SPEEDS_2,
            )
    }

    /// PortInfo as `Get` returns it to a request that came in on `arrival` and gave `presented` as
    /// M_Key. `link` is `None` for port 0 of a switch.
    pub(super) fn port_info(
        &self,
        role: Role,
        caps: &PortCapabilities,
        link: Option<LinkStatus>,
        arrival: PortNum,
        presented: u64,
    ) -> PortInfo {
        let (supported, enabled) = (caps.rates, self.settings.rates);
        // Port 0 has no link: it shows the best that the switch can do.
        let rate = link.map_or(caps.rates.best(), |link| Some(link.rate));
        let speed = rate.map(|rate| rate.speed);
        let mut info = PortInfo {
            capability_mask: self.capability_mask(role, caps),
            local_port_num: arrival,
            link_width_enabled: enabled.width_bits(),
            link_width_supported: supported.width_bits(),
            link_width_active: rate.map_or(0, |rate| rate.width.code()),
            link_speed_supported: supported.base_speeds(),
            link_speed_enabled: enabled.base_speeds(),
            link_speed_active: speed.map_or(0, LinkSpeed::code),
            link_speed_ext_supported: supported.extended_speeds(),
            link_speed_ext_enabled: enabled.extended_speeds(),
            link_speed_ext_active: speed.map_or(0, LinkSpeed::extended_code),
            link_speed_ext2_supported: supported.extended2_speeds(),
            link_speed_ext2_enabled: enabled.extended2_speeds(),
            link_speed_ext2_active: speed.map_or(0, LinkSpeed::extended2_code),
            capability_mask2: Self::capability_mask2(role, supported),
            port_state: link.map_or(PortState::Active, |link| port_state(link.state)),
            port_phys_state: link.map_or(PortPhysState::LinkUp, |link| phys_state(link.physical)),
            link_down_default_state: POLLING,
            neighbor_mtu: Some(self.settings.mtu),
            vl_cap: VlCount::at_most(caps.vls),
            vl_high_limit: self.settings.vl_high_limit,
            vl_arbitration_high_cap: caps.arbitration_high,
            vl_arbitration_low_cap: caps.arbitration_low,
            mtu_cap: Some(caps.mtu),
            operational_vls: VlCount::at_most(self.settings.operational_vls),
            local_phy_errors: self.local_phy_errors,
            overrun_errors: self.overrun_errors,
            p_key_violations: self.p_key_violations,
            q_key_violations: self.q_key_violations,
            ..PortInfo::default()
        };
        if role == Role::SwitchExternal {
            info.vl_stall_count = self.settings.vl_stall_count;
            info.hoq_life = self.settings.hoq_life;
            info.partition_enforcement_inbound = self.settings.partitions_in;
            info.partition_enforcement_outbound = self.settings.partitions_out;
        }
        if role.is_addressed() {
            self.m_key.show(&mut info, presented);
            info.gid_prefix = self.gid_prefix;
            info.lid = self.settings.lid;
            info.lmc = self.settings.lmc;
            info.master_sm_lid = self.settings.sm_lid;
            info.master_sm_sl = self.settings.sm_sl;
            info.guid_cap = GUIDS;
            info.subnet_timeout = self.subnet_timeout;
            info.resp_time_value = RESP_TIME_VALUE;
        }
        info
    }

    /// The port's state after a `Set`, and the command for its link.
    pub(super) fn after_set(
        &self,
        role: Role,
        caps: &PortCapabilities,
        link: Option<LinkStatus>,
        requested: &PortInfo,
    ) -> Result<(Self, Option<LinkCommand>), BadField> {
        let mut next = self.clone();
        if role.is_addressed() {
            next.set_address(role, requested)?;
        }
        let mut command = None;
        if let Some(link) = link.filter(|_| role.has_link()) {
            next.set_link(role, caps, requested)?;
            command = link_command(link, requested)?;
        }
        next.set_vls(caps, requested)?;
        // Only a 0 resets a counter.
        if requested.p_key_violations == 0 {
            next.p_key_violations = 0;
        }
        if requested.q_key_violations == 0 {
            next.q_key_violations = 0;
        }
        Ok((next, command))
    }

    /// LID, keys and subnet manager.
    fn set_address(&mut self, role: Role, requested: &PortInfo) -> Result<(), BadField> {
        let lid = requested.lid.get();
        if requested.lid > Lid::UNICAST_LAST || lid & (requested.lmc.lids() - 1) != 0 {
            return Err(BadField("LID"));
        }
        if role == Role::SwitchBase && requested.lmc.get() != 0 {
            return Err(BadField("LMC"));
        }
        if requested.master_sm_lid > Lid::UNICAST_LAST {
            return Err(BadField("MasterSMLID"));
        }
        self.settings.lid = requested.lid;
        self.settings.lmc = requested.lmc;
        self.settings.sm_lid = requested.master_sm_lid;
        self.settings.sm_sl = requested.master_sm_sl;
        self.m_key.set(requested);
        self.gid_prefix = requested.gid_prefix;
        self.subnet_timeout = requested.subnet_timeout;
        Ok(())
    }

    /// What the two ends of a link agree on, and the limits of a switch's output.
    fn set_link(
        &mut self,
        role: Role,
        caps: &PortCapabilities,
        requested: &PortInfo,
    ) -> Result<(), BadField> {
        self.settings.rates = choose_rates(self.settings.rates, caps.rates, requested)?;
        if !matches!(requested.link_down_default_state, 0 | POLLING) {
            return Err(BadField("LinkDownDefaultState"));
        }
        self.local_phy_errors = requested.local_phy_errors;
        self.overrun_errors = requested.overrun_errors;
        if role == Role::SwitchExternal {
            self.settings.hoq_life = requested.hoq_life;
            self.settings.partitions_in = requested.partition_enforcement_inbound;
            self.settings.partitions_out = requested.partition_enforcement_outbound;
            if requested.vl_stall_count != 0 {
                self.settings.vl_stall_count = requested.vl_stall_count;
            }
        }
        Ok(())
    }

    /// MTU, VLs and the limit of their arbiter.
    fn set_vls(&mut self, caps: &PortCapabilities, requested: &PortInfo) -> Result<(), BadField> {
        if let Some(mtu) = requested.neighbor_mtu {
            if mtu > caps.mtu {
                return Err(BadField("NeighborMTU"));
            }
            self.settings.mtu = mtu;
        }
        if let Some(vls) = requested.operational_vls {
            if vls.vls() > caps.vls {
                return Err(BadField("OperationalVLs"));
            }
            self.settings.operational_vls = vls.vls();
        }
        self.settings.vl_high_limit = requested.vl_high_limit;
        Ok(())
    }
}

/// The legal transitions of a port's state (IBA 14.2.5.6, PortState and PortPhysicalState). Setting
/// the state that the port is in already is no transition.
fn link_command(link: LinkStatus, requested: &PortInfo) -> Result<Option<LinkCommand>, BadField> {
    use link::PortState as Now;
    match (requested.port_phys_state, requested.port_state) {
        (PortPhysState::NoChange, PortState::NoChange) => Ok(None),
        (PortPhysState::NoChange, PortState::Down) => Ok(Some(LinkCommand::Down)),
        (PortPhysState::NoChange, PortState::Armed) => match link.state {
            Now::Init => Ok(Some(LinkCommand::Arm)),
            Now::Armed => Ok(None),
            Now::Down | Now::Active => Err(BadField("PortState")),
        },
        (PortPhysState::NoChange, PortState::Active) => match link.state {
            Now::Armed => Ok(Some(LinkCommand::Activate)),
            Now::Active => Ok(None),
            Now::Down | Now::Init => Err(BadField("PortState")),
        },
        (PortPhysState::Polling, PortState::NoChange | PortState::Down) => {
            Ok(Some(LinkCommand::Poll))
        }
        (PortPhysState::Disabled, PortState::NoChange | PortState::Down) => {
            Ok(Some(LinkCommand::Disable))
        }
        (PortPhysState::NoChange | PortPhysState::Polling | PortPhysState::Disabled, _) => {
            Err(BadField("PortState"))
        }
        _ => Err(BadField("PortPhysicalState")),
    }
}

fn port_state(state: link::PortState) -> PortState {
    match state {
        link::PortState::Down => PortState::Down,
        link::PortState::Init => PortState::Init,
        link::PortState::Armed => PortState::Armed,
        link::PortState::Active => PortState::Active,
    }
}

fn phys_state(state: PhysicalState) -> PortPhysState {
    match state {
        PhysicalState::Polling => PortPhysState::Polling,
        PhysicalState::Disabled => PortPhysState::Disabled,
        PhysicalState::Training => PortPhysState::ConfigurationTraining,
        PhysicalState::LinkUp => PortPhysState::LinkUp,
    }
}
