//! PortInfo: a port's identity, capabilities, state and settings (IBA 14.2.5.6).
//!
//! Field offsets stand beside the code; the layout is 64 bytes of mostly 4- and 8-bit fields.

mod values;

use crate::attr::Attribute;
use crate::format::{nibbles, put_u16, put_u24, put_u32, put_u64, u16_at, u24_at, u32_at, u64_at};
use crate::mad::AttributeId;
use crate::mtu::Mtu;
use crate::rate::{LinkSpeed, LinkWidth};
use crate::{Format, Lid, Lmc, ParseError, PortNum, Sl};
pub use values::{PortPhysState, PortState, VlCount, capability};
use values::{port_phys_state, port_state, vl_count};

/// A port's identity, capabilities, state and settings. Fields narrower than their type lose their
/// higher bits when emitted; their widths stand in the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortInfo {
    /// Management key that SMPs must carry.
    pub m_key: u64,
    /// Subnet prefix.
    pub gid_prefix: u64,
    /// Base LID.
    pub lid: Lid,
    /// LID of the master subnet manager.
    pub master_sm_lid: Lid,
    /// What the port can do: bits of [`capability`].
    pub capability_mask: u32,
    /// Diagnostic code.
    pub diag_code: u16,
    /// M_KeyLeasePeriod: how long the M_Key holds without its manager, seconds; 0 is for ever.
    pub m_key_lease_period: u16,
    /// The port that the request came in on.
    pub local_port_num: PortNum,
    /// Widths that may be used: bits of [`LinkWidth`]; in a Set 0 is no change, 255 all supported.
    pub link_width_enabled: u8,
    /// Widths that can be used.
    pub link_width_supported: u8,
    /// The width in use: one bit of [`LinkWidth`].
    pub link_width_active: u8,
    /// Speeds that can be used, 4 bits: 1 SDR, 2 DDR, 4 QDR.
    pub link_speed_supported: u8,
    /// Logical state.
    pub port_state: PortState,
    /// Physical state.
    pub port_phys_state: PortPhysState,
    /// What follows link down, 4 bits: 1 sleep, 2 polling; in a Set 0 is no change.
    pub link_down_default_state: u8,
    /// What a wrong M_Key may still read, 2 bits.
    pub m_key_protect_bits: u8,
    /// LID mask control.
    pub lmc: Lmc,
    /// The speed in use, 4 bits.
    pub link_speed_active: u8,
    /// Speeds that may be used, 4 bits; in a Set 0 is no change, 15 all supported.
    pub link_speed_enabled: u8,
    /// Payload size in use; `None` where the field is 0.
    pub neighbor_mtu: Option<Mtu>,
    /// Service level to the master subnet manager.
    pub master_sm_sl: Sl,
    /// VLs that can be used; `None` where the field is 0.
    pub vl_cap: Option<VlCount>,
    /// Initialisation wanted, 4 bits.
    pub init_type: u8,
    /// Limit of the high-priority table in units of 4096 bytes; 255 is no limit, 0 one packet.
    pub vl_high_limit: u8,
    /// Entries of the high-priority arbitration table.
    pub vl_arbitration_high_cap: u8,
    /// Entries of the low-priority arbitration table.
    pub vl_arbitration_low_cap: u8,
    /// Initialisation done, 4 bits.
    pub init_type_reply: u8,
    /// Largest payload that can be used; `None` where the field is 0.
    pub mtu_cap: Option<Mtu>,
    /// Packets dropped in a row that make a VL stall, 3 bits.
    pub vl_stall_count: u8,
    /// How long a packet may wait at the head of a VL: 4.096 us times two to this power, 5 bits;
    /// above 19 without limit.
    pub hoq_life: u8,
    /// VLs in use; `None` where the field is 0: in a Set no change.
    pub operational_vls: Option<VlCount>,
    /// Partitions are enforced on what comes in.
    pub partition_enforcement_inbound: bool,
    /// Partitions are enforced on what goes out.
    pub partition_enforcement_outbound: bool,
    /// Raw packets coming in are dropped.
    pub filter_raw_inbound: bool,
    /// Raw packets going out are dropped.
    pub filter_raw_outbound: bool,
    /// SMPs with a wrong M_Key.
    pub m_key_violations: u16,
    /// Packets with a wrong P_Key.
    pub p_key_violations: u16,
    /// Packets with a wrong Q_Key.
    pub q_key_violations: u16,
    /// Entries of the GUID table.
    pub guid_cap: u8,
    /// The clients are to register again with the SA.
    pub client_reregister: bool,
    /// Suppression of P_Key traps for multicast, 2 bits.
    pub mcast_pkey_trap_suppression: u8,
    /// Expected time through the subnet: 4.096 us times two to this power, 5 bits; also the rate
    /// limit of traps.
    pub subnet_timeout: u8,
    /// Longest time to a response: 4.096 us times two to this power, 5 bits.
    pub resp_time_value: u8,
    /// Threshold of local physical errors, 4 bits.
    pub local_phy_errors: u8,
    /// Threshold of buffer overruns, 4 bits.
    pub overrun_errors: u8,
    /// Largest number of credits that the link can use.
    pub max_credit_hint: u16,
    /// Round trip on the link in units of 4 symbol times, 24 bits.
    pub link_round_trip_latency: u32,
    /// More capabilities.
    pub capability_mask2: u16,
    /// The second extended speed in use, 2 bits: 1 XDR. This and the next two count where
    /// [`Self::capability_mask2`] has [`capability::IS_EXTENDED_SPEEDS_2`].
    pub link_speed_ext2_active: u8,
    /// Second extended speeds that can be used, 2 bits.
    pub link_speed_ext2_supported: u8,
    /// Second extended speeds that may be used, 3 bits.
    pub link_speed_ext2_enabled: u8,
    /// The extended speed in use, 4 bits: 1 FDR, 2 EDR, 4 HDR, 8 NDR.
    pub link_speed_ext_active: u8,
    /// Extended speeds that can be used, 4 bits.
    pub link_speed_ext_supported: u8,
    /// Extended speeds that may be used, 5 bits.
    pub link_speed_ext_enabled: u8,
}

/// Everything zero, which in a Set changes nothing.
impl Default for PortInfo {
    fn default() -> Self {
        Self {
            m_key: 0,
            gid_prefix: 0,
            lid: Lid::ZERO,
            master_sm_lid: Lid::ZERO,
            capability_mask: 0,
            diag_code: 0,
            m_key_lease_period: 0,
            local_port_num: PortNum::default(),
            link_width_enabled: 0,
            link_width_supported: 0,
            link_width_active: 0,
            link_speed_supported: 0,
            port_state: PortState::NoChange,
            port_phys_state: PortPhysState::NoChange,
            link_down_default_state: 0,
            m_key_protect_bits: 0,
            lmc: Lmc::default(),
            link_speed_active: 0,
            link_speed_enabled: 0,
            neighbor_mtu: None,
            master_sm_sl: Sl::default(),
            vl_cap: None,
            init_type: 0,
            vl_high_limit: 0,
            vl_arbitration_high_cap: 0,
            vl_arbitration_low_cap: 0,
            init_type_reply: 0,
            mtu_cap: None,
            vl_stall_count: 0,
            hoq_life: 0,
            operational_vls: None,
            partition_enforcement_inbound: false,
            partition_enforcement_outbound: false,
            filter_raw_inbound: false,
            filter_raw_outbound: false,
            m_key_violations: 0,
            p_key_violations: 0,
            q_key_violations: 0,
            guid_cap: 0,
            client_reregister: false,
            mcast_pkey_trap_suppression: 0,
            subnet_timeout: 0,
            resp_time_value: 0,
            local_phy_errors: 0,
            overrun_errors: 0,
            max_credit_hint: 0,
            link_round_trip_latency: 0,
            capability_mask2: 0,
            link_speed_ext2_active: 0,
            link_speed_ext2_supported: 0,
            link_speed_ext2_enabled: 0,
            link_speed_ext_active: 0,
            link_speed_ext_supported: 0,
            link_speed_ext_enabled: 0,
        }
    }
}

impl PortInfo {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 64;

    /// The width in use.
    #[must_use]
    pub const fn width(&self) -> Option<LinkWidth> {
        LinkWidth::from_code(self.link_width_active)
    }

    /// The speed in use.
    #[must_use]
    pub const fn speed(&self) -> Option<LinkSpeed> {
        let (speed, extended) = (self.link_speed_active, self.link_speed_ext_active);
        LinkSpeed::from_codes(speed, extended, self.link_speed_ext2_active)
    }
}

const fn bad(what: &'static str, value: u8) -> ParseError {
    ParseError::BadValue {
        what,
        value: value as u64,
    }
}

fn mtu(what: &'static str, code: u8) -> Result<Option<Mtu>, ParseError> {
    match (code, Mtu::from_code(code)) {
        (0, _) => Ok(None),
        (_, Some(mtu)) => Ok(Some(mtu)),
        (_, None) => Err(bad(what, code)),
    }
}

/// Besides truncation, parsing refuses reserved codes of the states, of NeighborMTU, MTUCap, VLCap
/// and OperationalVLs.
impl Format for PortInfo {
    const NAME: &'static str = "PortInfo";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            m_key: u64_at(raw, 0),
            gid_prefix: u64_at(raw, 8),
            lid: Lid::new(u16_at(raw, 16)),
            master_sm_lid: Lid::new(u16_at(raw, 18)),
            capability_mask: u32_at(raw, 20),
            diag_code: u16_at(raw, 24),
            m_key_lease_period: u16_at(raw, 26),
            local_port_num: PortNum::new(raw[28]),
            link_width_enabled: raw[29],
            link_width_supported: raw[30],
            link_width_active: raw[31],
            link_speed_supported: raw[32] >> 4,
            port_state: port_state(raw[32] & 0x0f)?,
            port_phys_state: port_phys_state(raw[33] >> 4)?,
            link_down_default_state: raw[33] & 0x0f,
            m_key_protect_bits: raw[34] >> 6,
            lmc: Lmc::truncate(raw[34]),
            link_speed_active: raw[35] >> 4,
            link_speed_enabled: raw[35] & 0x0f,
            neighbor_mtu: mtu("PortInfo:NeighborMTU", raw[36] >> 4)?,
            master_sm_sl: Sl::truncate(raw[36]),
            vl_cap: vl_count("PortInfo:VLCap", raw[37] >> 4)?,
            init_type: raw[37] & 0x0f,
            vl_high_limit: raw[38],
            vl_arbitration_high_cap: raw[39],
            vl_arbitration_low_cap: raw[40],
            init_type_reply: raw[41] >> 4,
            mtu_cap: mtu("PortInfo:MTUCap", raw[41] & 0x0f)?,
            vl_stall_count: raw[42] >> 5,
            hoq_life: raw[42] & 0x1f,
            operational_vls: vl_count("PortInfo:OperationalVLs", raw[43] >> 4)?,
            partition_enforcement_inbound: raw[43] & 8 != 0,
            partition_enforcement_outbound: raw[43] & 4 != 0,
            filter_raw_inbound: raw[43] & 2 != 0,
            filter_raw_outbound: raw[43] & 1 != 0,
            m_key_violations: u16_at(raw, 44),
            p_key_violations: u16_at(raw, 46),
            q_key_violations: u16_at(raw, 48),
            guid_cap: raw[50],
            client_reregister: raw[51] & 0x80 != 0,
            mcast_pkey_trap_suppression: (raw[51] >> 5) & 3,
            subnet_timeout: raw[51] & 0x1f,
            resp_time_value: raw[52] & 0x1f,
            local_phy_errors: raw[53] >> 4,
            overrun_errors: raw[53] & 0x0f,
            max_credit_hint: u16_at(raw, 54),
            link_round_trip_latency: u24_at(raw, 57),
            capability_mask2: u16_at(raw, 60),
            link_speed_ext2_active: (raw[56] >> 5) & 3,
            link_speed_ext2_supported: (raw[56] >> 3) & 3,
            link_speed_ext2_enabled: raw[56] & 7,
            link_speed_ext_active: raw[62] >> 4,
            link_speed_ext_supported: raw[62] & 0x0f,
            link_speed_ext_enabled: raw[63] & 0x1f,
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u64(raw, 0, self.m_key);
        put_u64(raw, 8, self.gid_prefix);
        put_u16(raw, 16, self.lid.get());
        put_u16(raw, 18, self.master_sm_lid.get());
        put_u32(raw, 20, self.capability_mask);
        put_u16(raw, 24, self.diag_code);
        put_u16(raw, 26, self.m_key_lease_period);
        raw[28] = self.local_port_num.get();
        raw[29] = self.link_width_enabled;
        raw[30] = self.link_width_supported;
        raw[31] = self.link_width_active;
        raw[32] = nibbles(self.link_speed_supported, self.port_state as u8);
        raw[33] = nibbles(self.port_phys_state as u8, self.link_down_default_state);
        raw[34] = (self.m_key_protect_bits << 6) | self.lmc.get();
        raw[35] = nibbles(self.link_speed_active, self.link_speed_enabled);
        raw[36] = nibbles(
            self.neighbor_mtu.map_or(0, Mtu::code),
            self.master_sm_sl.get(),
        );
        raw[37] = nibbles(self.vl_cap.map_or(0, VlCount::code), self.init_type);
        raw[38] = self.vl_high_limit;
        raw[39] = self.vl_arbitration_high_cap;
        raw[40] = self.vl_arbitration_low_cap;
        raw[41] = nibbles(self.init_type_reply, self.mtu_cap.map_or(0, Mtu::code));
        raw[42] = (self.vl_stall_count << 5) | (self.hoq_life & 0x1f);
        let enforcement = (u8::from(self.partition_enforcement_inbound) << 3)
            | (u8::from(self.partition_enforcement_outbound) << 2)
            | (u8::from(self.filter_raw_inbound) << 1)
            | u8::from(self.filter_raw_outbound);
        raw[43] = nibbles(self.operational_vls.map_or(0, VlCount::code), enforcement);
        put_u16(raw, 44, self.m_key_violations);
        put_u16(raw, 46, self.p_key_violations);
        put_u16(raw, 48, self.q_key_violations);
        raw[50] = self.guid_cap;
        raw[51] = (u8::from(self.client_reregister) << 7)
            | ((self.mcast_pkey_trap_suppression & 3) << 5)
            | (self.subnet_timeout & 0x1f);
        raw[52] = self.resp_time_value & 0x1f;
        raw[53] = nibbles(self.local_phy_errors, self.overrun_errors);
        put_u16(raw, 54, self.max_credit_hint);
        raw[56] = ((self.link_speed_ext2_active & 3) << 5)
            | ((self.link_speed_ext2_supported & 3) << 3)
            | (self.link_speed_ext2_enabled & 7);
        put_u24(raw, 57, self.link_round_trip_latency);
        put_u16(raw, 60, self.capability_mask2);
        raw[62] = nibbles(self.link_speed_ext_active, self.link_speed_ext_supported);
        raw[63] = self.link_speed_ext_enabled & 0x1f;
    }
}

impl Attribute for PortInfo {
    const ID: AttributeId = AttributeId::PORT_INFO;
}
