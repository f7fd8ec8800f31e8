//! A fabric of two hosts at one switch, which answers subnet management.

use std::collections::BTreeMap;

use mad::local::MadMessage;
use wire::attr::{
    NodeDescription, NodeInfo, NodeType, PortInfo, PortPhysState, PortState, SmInfo, SwitchInfo,
    VlCount,
};
use wire::{AttributeId, Format as _, Guid, Lid, Mad, MadStatus, Method, MgmtClass, Mtu, PortNum};

/// The nodes: the manager's host, the switch, the other host.
pub(super) const HOST: usize = 0;
pub(super) const SWITCH: usize = 1;
pub(super) const OTHER: usize = 2;

/// The state of the devices.
pub(super) struct Fabric {
    pub(super) ports: BTreeMap<(usize, u8), PortInfo>,
    /// Other attributes that were set, by node, attribute and modifier.
    pub(super) tables: BTreeMap<(usize, u16, u32), [u8; 64]>,
    /// The manager beside the other host, if there is one.
    pub(super) other_manager: Option<SmInfo>,
    /// Whether the other host's cable is plugged.
    pub(super) plugged: bool,
}

impl Fabric {
    pub(super) fn new() -> Self {
        Self {
            ports: BTreeMap::new(),
            tables: BTreeMap::new(),
            other_manager: None,
            plugged: true,
        }
    }

    /// The node at the end of a request's path, and the port by which the request comes in.
    fn find(&self, message: &MadMessage, mad: &Mad) -> Option<(usize, u8)> {
        if mad.class() != MgmtClass::SUBN_DIR {
            let of = |&(&(node, port), info): &(&(usize, u8), &PortInfo)| {
                info.lid == message.lid && info.lid != Lid::ZERO && (node, port) != (SWITCH, 1)
            };
            let ((node, port), _) = self.ports.iter().find(of)?;
            return Some((*node, *port));
        }
        let hops = usize::from(mad.hop_count());
        let path = mad.initial_path().get(1..=hops)?;
        let mut at = (HOST, 1);
        for &exit in path {
            at = match (at.0, exit) {
                (HOST, 1) => (SWITCH, 1),
                (OTHER, 1) if self.plugged => (SWITCH, 2),
                (SWITCH, 1) => (HOST, 1),
                (SWITCH, 2) if self.plugged => (OTHER, 1),
                _ => return None,
            };
        }
        Some(at)
    }

    /// A port as it is before a manager has written into it.
    fn port(&self, node: usize, port: u8) -> PortInfo {
        if let Some(info) = self.ports.get(&(node, port)) {
            return *info;
        }
        let connected = match (node, port) {
            (SWITCH, 0) => true,
            (SWITCH, 2) | (OTHER, _) => self.plugged,
            (SWITCH, 1) | (HOST, _) => true,
            _ => false,
        };
        let states = match connected {
            true => (PortState::Init, PortPhysState::LinkUp),
            false => (PortState::Down, PortPhysState::Polling),
        };
        PortInfo {
            port_state: states.0,
            port_phys_state: states.1,
            local_port_num: PortNum::new(port),
            capability_mask: wire::attr::capability::IS_TRAP
                | wire::attr::capability::IS_SL_MAPPING
                | wire::attr::capability::IS_CLIENT_REREGISTRATION,
            link_width_enabled: 2,
            link_width_supported: 3,
            link_width_active: 2,
            link_speed_supported: 1,
            link_speed_active: 1,
            link_speed_enabled: 1,
            neighbor_mtu: Some(Mtu::Mtu2048),
            mtu_cap: Some(Mtu::Mtu2048),
            vl_cap: Some(VlCount::Eight),
            operational_vls: Some(VlCount::Eight),
            vl_arbitration_high_cap: 64,
            vl_arbitration_low_cap: 64,
            guid_cap: 1,
            ..PortInfo::default()
        }
    }

    fn set_port(&mut self, node: usize, port: u8, wanted: &PortInfo) -> PortInfo {
        let old = self.port(node, port);
        let state = match wanted.port_state {
            PortState::NoChange => old.port_state,
            // The link is trained anew.
            PortState::Down => PortState::Init,
            state => state,
        };
        let new = PortInfo {
            m_key: wanted.m_key,
            gid_prefix: wanted.gid_prefix,
            lid: wanted.lid,
            lmc: wanted.lmc,
            master_sm_lid: wanted.master_sm_lid,
            master_sm_sl: wanted.master_sm_sl,
            m_key_protect_bits: wanted.m_key_protect_bits,
            m_key_lease_period: wanted.m_key_lease_period,
            port_state: state,
            hoq_life: wanted.hoq_life,
            vl_high_limit: wanted.vl_high_limit,
            neighbor_mtu: wanted.neighbor_mtu.or(old.neighbor_mtu),
            operational_vls: wanted.operational_vls.or(old.operational_vls),
            subnet_timeout: wanted.subnet_timeout,
            ..old
        };
        self.ports.insert((node, port), new);
        new
    }

    /// Writes the answer into `mad`; `false` if the attribute is not there.
    fn fill(&mut self, (node, port): (usize, u8), mad: &mut Mad) -> bool {
        let is_switch = node == SWITCH;
        let modifier = mad.attr_mod();
        let set = mad.method() == Method::SET;
        match mad.attr_id() {
            AttributeId::NODE_INFO => mad.set_smp_attribute(&node_info(node, port)),
            AttributeId::NODE_DESCRIPTION => {
                mad.set_smp_attribute(&NodeDescription::new(["h0", "s0", "h1"][node]));
            }
            AttributeId::PORT_INFO => {
                let [.., low] = modifier.to_be_bytes();
                let number = if is_switch { low } else { 1 };
                let mut info = match mad.smp_attribute::<PortInfo>() {
                    Ok(wanted) if set => self.set_port(node, number, &wanted),
                    _ => self.port(node, number),
                };
                if node == OTHER && self.other_manager.is_some() || node == HOST {
                    info.capability_mask |= wire::attr::capability::IS_SM;
                }
                mad.set_smp_attribute(&info);
            }
            AttributeId::SM_INFO => match self.other_manager {
                Some(info) if node == OTHER => mad.set_smp_attribute(&info),
                _ => return false,
            },
            AttributeId::SWITCH_INFO if !is_switch => return false,
            id => self.table((node, id.0, modifier), set, mad),
        }
        true
    }

    /// Answers from a table that holds what was last written.
    fn table(&mut self, key: (usize, u16, u32), set: bool, mad: &mut Mad) {
        if set {
            self.tables.insert(key, *mad.smp_data());
        }
        if let Some(data) = self.tables.get(&key) {
            *mad.smp_data_mut() = *data;
            return;
        }
        if AttributeId(key.1) == AttributeId::SWITCH_INFO {
            return mad.set_smp_attribute(&switch_info());
        }
        mad.smp_data_mut().fill(0);
        if AttributeId(key.1) == AttributeId::LINEAR_FORWARDING_TABLE {
            mad.smp_data_mut().fill(0xff);
        }
    }

    /// The answer to a request; `None` if no device is there.
    pub(super) fn answer(&mut self, message: &MadMessage) -> Option<MadMessage> {
        let mut mad = Mad::from_bytes(*message.mad);
        let at = self.find(message, &mad)?;
        let known = self.fill(at, &mut mad);
        if !known {
            mad.set_status(MadStatus::BAD_METHOD_ATTRIBUTE);
        }
        mad.set_method(Method::GET_RESP);
        mad.set_returning(mad.class() == MgmtClass::SUBN_DIR);
        let mad = Box::new(*mad.as_bytes());
        Some(MadMessage {
            mad,
            ..message.clone()
        })
    }
}

/// SwitchInfo of a switch that has not been configured.
fn switch_info() -> SwitchInfo {
    let zero = SwitchInfo::parse(&[0; SwitchInfo::LEN]).map(|(info, _)| info);
    SwitchInfo {
        linear_fdb_cap: 49_152,
        multicast_fdb_cap: 1024,
        partition_enforcement_cap: 32,
        ..zero.expect("zeros are a SwitchInfo")
    }
}

fn node_info(node: usize, port: u8) -> NodeInfo {
    let guid = Guid(0x100 * (node as u64 + 1));
    let is_switch = node == SWITCH;
    NodeInfo {
        base_version: 1,
        class_version: 1,
        node_type: match is_switch {
            true => NodeType::Switch,
            false => NodeType::ChannelAdapter,
        },
        num_ports: if is_switch { 4 } else { 1 },
        system_image_guid: guid,
        node_guid: guid,
        port_guid: Guid(guid.0 + u64::from(!is_switch)),
        partition_cap: 32,
        device_id: 1,
        revision: 1,
        local_port_num: PortNum::new(port),
        vendor_id: 1,
    }
}
