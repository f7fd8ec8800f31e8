//! `Get` and `Set` of the attributes of a node and its ports (IBA 14.2.5): which ones there are, and
//! what a request does to them. Table blocks are in [`super::tables`], the rules of PortInfo's components in
//! [`super::port_info`].

use link::Time;
use wire::attr::{
    Attribute, ExtendedPortInfo, FecModes, NodeDescription, NodeInfo, PortInfo, PortInfoExtended,
    SwitchInfo,
};
use wire::mad::{AttributeId, Mad, MadHeader, MadStatus, Method};
use wire::{Lid, LinkSpeed, PortNum};

use super::node::{Identity, LinkStatus, Node};
use super::port_info::{BadField, PKEYS, Role};
use super::{Sma, tables};

/// SwitchInfo: the SL-to-VL table may be set for all ports at once.
const OPTIMIZED_SL_TO_VL: u8 = 1;

/// Why a request is answered with an error status.
pub(super) enum Refusal {
    Status(MadStatus),
    Field(BadField),
}

impl From<BadField> for Refusal {
    fn from(field: BadField) -> Self {
        Self::Field(field)
    }
}

impl Sma {
    /// Does what `mad` asks and puts the attribute into it.
    pub(super) fn execute(
        &mut self,
        now: Time,
        node: &mut impl Node,
        mad: &mut Mad,
        arrival: PortNum,
    ) -> Result<(), Refusal> {
        let header = mad.header();
        if header.base_version != MadHeader::BASE_VERSION || header.class_version != 1 {
            return Err(Refusal::Status(MadStatus::BAD_VERSION));
        }
        let set = match header.method {
            Method::GET => false,
            Method::SET => true,
            _ => return Err(Refusal::Status(MadStatus::BAD_METHOD)),
        };
        let is_switch = node.identity().is_switch();
        match header.attr_id {
            AttributeId::NODE_DESCRIPTION if !set => {
                mad.set_smp_attribute(&NodeDescription::new(&node.identity().description));
            }
            AttributeId::NODE_INFO if !set => {
                mad.set_smp_attribute(&node_info(node.identity(), arrival));
            }
            AttributeId::SWITCH_INFO if is_switch => self.switch_info(node, mad, set)?,
            AttributeId::PORT_INFO => self.port_info(now, node, mad, set, arrival)?,
            AttributeId::EXTENDED_PORT_INFO => {
                self.extended_port_info(now, node, mad, set, arrival)?;
            }
            AttributeId::PORT_INFO_EXTENDED => {
                self.port_info_extended(node, mad, set, arrival)?;
            }
            AttributeId::GUID_INFO => self.guid_info(node.identity(), mad, set, arrival)?,
            AttributeId::PKEY_TABLE => self.pkey_table(node, mad, set, arrival)?,
            AttributeId::SL_TO_VL_TABLE => tables::sl_to_vl(node, mad, set, arrival)?,
            AttributeId::VL_ARB_TABLE => tables::vl_arbitration(node, mad, set, arrival)?,
            AttributeId::LINEAR_FORWARDING_TABLE if is_switch => tables::linear(node, mad, set)?,
            AttributeId::MULTICAST_FORWARDING_TABLE if is_switch => {
                tables::multicast(node, mad, set)?;
            }
            _ => return Err(Refusal::Status(MadStatus::BAD_METHOD_ATTRIBUTE)),
        }
        Ok(())
    }

    fn port_info(
        &mut self,
        now: Time,
        node: &mut impl Node,
        mad: &mut Mad,
        set: bool,
        arrival: PortNum,
    ) -> Result<(), BadField> {
        // Bit 31: the manager supports extended speeds (IBA 14.2.5.6).
        let [_, high, low, number] = mad.attr_mod().to_be_bytes();
        let identity = node.identity();
        let number = if number == 0 && !identity.is_switch() {
            arrival.get()
        } else {
            number
        };
        let port = PortNum::new(number);
        let elsewhere = set && !identity.is_switch() && port != self.own;
        if high != 0 || low != 0 || number > identity.ports || elsewhere {
            return Err(BadField("AttributeModifier"));
        }
        let role = Role::of(identity, port);
        let capabilities = node.capabilities(port);
        let link_of = |node: &dyn Fn(PortNum) -> LinkStatus| role.has_link().then(|| node(port));
        if set {
            let requested = read::<PortInfo>(mad)?;
            let link = link_of(&|port| node.link(port));
            let (next, command) =
                self.ports[port.index()].after_set(role, &capabilities, link, &requested)?;
            let before = core::mem::replace(&mut self.ports[port.index()], next).settings;
            let settings = &self.ports[port.index()].settings;
            if (before.sm_lid, before.lid) != (settings.sm_lid, settings.lid) {
                self.traps.readdress(now, port, settings);
            }
            node.configure(now, port, settings);
            if let Some(command) = command {
                node.command_link(now, port, command);
            }
        }
        let link = link_of(&|port| node.link(port));
        let presented = mad.m_key();
        let port = &self.ports[port.index()];
        let response = port.port_info(role, &capabilities, link, arrival, presented);
        mad.set_smp_attribute(&response);
        Ok(())
    }

    /// ExtendedPortInfo: whether a port may use FDR10, and does.
    fn extended_port_info(
        &mut self,
        now: Time,
        node: &mut impl Node,
        mad: &mut Mad,
        set: bool,
        arrival: PortNum,
    ) -> Result<(), BadField> {
        let identity = node.identity();
        let port = tables::link_port(identity, mad, arrival)?;
        if set && !identity.is_switch() && port != self.own {
            return Err(BadField("AttributeModifier"));
        }
        let is_supported = node.capabilities(port).rates.has(LinkSpeed::Fdr10);
        if set {
            let requested = read::<ExtendedPortInfo>(mad)?;
            if requested.fdr10_enabled && !is_supported {
                return Err(BadField("LinkSpeedEnabled"));
            }
            if requested.fdr10_change {
                let settings = &mut self.ports[port.index()].settings;
                settings.rates = settings.rates.with_fdr10(requested.fdr10_enabled);
                node.configure(now, port, settings);
            }
        }
        mad.set_smp_attribute(&ExtendedPortInfo {
            fdr10_change: false,
            fdr10_supported: is_supported,
            fdr10_enabled: self.settings(port).rates.has(LinkSpeed::Fdr10),
            fdr10_active: node.link(port).rate.speed == LinkSpeed::Fdr10,
        });
        Ok(())
    }

    /// PortInfoExtended: a link has no forward error correction, which is the one mode at each speed.
    fn port_info_extended(
        &self,
        node: &impl Node,
        mad: &mut Mad,
        set: bool,
        arrival: PortNum,
    ) -> Result<(), BadField> {
        let identity = node.identity();
        let port = tables::link_port(identity, mad, arrival)?;
        if set && !identity.is_switch() && port != self.own {
            return Err(BadField("AttributeModifier"));
        }
        let rates = node.capabilities(port).rates;
        let speeds = [
            LinkSpeed::Fdr,
            LinkSpeed::Edr,
            LinkSpeed::Hdr,
            LinkSpeed::Ndr,
        ];
        let modes = speeds.map(|speed| match rates.has(speed) {
            true => FecModes {
                supported: PortInfoExtended::NO_FEC,
                enabled: PortInfoExtended::NO_FEC,
            },
            false => FecModes::default(),
        });
        if set {
            let requested = read::<PortInfoExtended>(mad)?;
            let mut pairs = requested.modes.iter().zip(&modes);
            if pairs.any(|(asked, have)| asked.enabled & !have.supported != 0) {
                return Err(BadField("FECModeEnabled"));
            }
        }
        mad.set_smp_attribute(&PortInfoExtended {
            capability_mask: PortInfoExtended::IS_FEC_MODE,
            fec_mode_active: 0,
            modes,
        });
        Ok(())
    }

    fn switch_info(
        &mut self,
        node: &mut impl Node,
        mad: &mut Mad,
        set: bool,
    ) -> Result<(), BadField> {
        let enhanced_port0 = node.identity().enhanced_port0;
        let Some(tables) = node.forwarding() else {
            return Err(BadField("SwitchInfo"));
        };
        let numbers = &mut self.switch;
        if set {
            let requested = read::<SwitchInfo>(mad)?;
            let (linear, multicast) = (tables.linear_capacity(), tables.multicast_capacity());
            if requested.linear_fdb_top >= linear {
                return Err(BadField("LinearFDBTop"));
            }
            let top = requested.multicast_fdb_top.get();
            if top != 0 && !(Lid::UNICAST_LAST.get()..0xc000 + multicast).contains(&top) {
                return Err(BadField("MulticastFDBTop"));
            }
            numbers.linear_top = requested.linear_fdb_top;
            numbers.default_port = requested.default_port;
            numbers.multicast_primary = requested.default_multicast_primary_port;
            numbers.multicast_not_primary = requested.default_multicast_not_primary_port;
            numbers.multicast_top = requested.multicast_fdb_top;
            numbers.life_time = requested.life_time_value;
            numbers.port_state_change &= !requested.port_state_change;
            tables.set_linear_top(Lid::new(numbers.linear_top));
            tables.set_multicast_top((top != 0).then_some(requested.multicast_fdb_top));
            tables.set_multicast_default(numbers.multicast_primary, numbers.multicast_not_primary);
            tables.set_life_time(numbers.life_time);
        }
        mad.set_smp_attribute(&SwitchInfo {
            linear_fdb_cap: tables.linear_capacity(),
            random_fdb_cap: 0,
            multicast_fdb_cap: tables.multicast_capacity(),
            linear_fdb_top: numbers.linear_top,
            default_port: numbers.default_port,
            default_multicast_primary_port: numbers.multicast_primary,
            default_multicast_not_primary_port: numbers.multicast_not_primary,
            life_time_value: numbers.life_time,
            port_state_change: numbers.port_state_change,
            optimized_sl_to_vl: OPTIMIZED_SL_TO_VL,
            lids_per_port: 0,
            partition_enforcement_cap: PKEYS,
            inbound_enforcement_cap: true,
            outbound_enforcement_cap: true,
            filter_raw_inbound_cap: false,
            filter_raw_outbound_cap: false,
            enhanced_port0,
            multicast_fdb_top: numbers.multicast_top,
        });
        Ok(())
    }
}

fn node_info(identity: &Identity, arrival: PortNum) -> NodeInfo {
    NodeInfo {
        base_version: MadHeader::BASE_VERSION,
        class_version: 1,
        node_type: identity.node_type,
        num_ports: identity.ports,
        system_image_guid: identity.system_image_guid,
        node_guid: identity.node_guid,
        port_guid: identity.port_guid(arrival),
        partition_cap: PKEYS,
        device_id: identity.device_id,
        revision: identity.revision,
        local_port_num: arrival,
        vendor_id: identity.vendor_id,
    }
}

/// The attribute of a `Set`.
pub(super) fn read<A: Attribute>(mad: &Mad) -> Result<A, BadField> {
    mad.smp_attribute().map_err(|_| BadField(A::NAME))
}
