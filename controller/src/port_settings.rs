//! The settings of the ports of a subnet: PortInfo, SL-to-VL tables, VL arbitration.

use topologies::{NodeId, NodeKind};
use wire::attr::{
    PortInfo, PortPhysState, PortState, SlToVlTable, VlArbEntry, VlArbTable, VlCount,
};
use wire::{Gid, PortNum, Sl, Vl};

use routing::qos::Admission;

use crate::plan::Plan;
use crate::qos;
use crate::subnet::{Index, Subnet};

/// The inputs of port settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Basis<'a> {
    /// The devices and their links.
    pub(crate) subnet: &'a Subnet,
    /// LIDs and tables.
    pub(crate) plan: &'a Plan,
    /// The bandwidth promised on each link, if any is promised.
    pub(crate) admission: Option<&'a Admission>,
}

/// How long a packet may stay in a switch, and at the head of a VL's queue: 4.096 us * 2^18, about a
/// second.
pub(crate) const LIFE_TIME: u8 = 18;
/// Expected time through the subnet: 4.096 us * 2^18, about a second.
const SUBNET_TIMEOUT: u8 = 18;
/// How many packets may be dropped in a row before a VL stalls: the largest value.
const STALL_COUNT: u8 = 7;
/// Weight of each VL in the arbitration of a port, in units of 64 bytes: one packet of the
/// largest MTU.
const VL_WEIGHT: u8 = 64;

/// The first entry of the second block of an arbitration table.
const SECOND_BLOCK: u8 = 32;

/// PortInfo that sets what makes a device addressable; `None` if its port is not known.
pub(crate) fn end_port(subnet: &Subnet, plan: &Plan, index: Index) -> Option<PortInfo> {
    let device = subnet.devices.get(index)?;
    let mut wanted = untouched(device.end_port_info()?);
    let (lid, lmc) = plan.lid(index)?;
    wanted.lid = lid;
    wanted.lmc = lmc;
    wanted.master_sm_lid = plan.sm_lid(subnet);
    wanted.master_sm_sl = Sl::default();
    wanted.gid_prefix = Gid::DEFAULT_PREFIX;
    wanted.subnet_timeout = SUBNET_TIMEOUT;
    if let Some(protection) = &subnet.protection {
        protection.apply(&mut wanted);
    }
    Some(wanted)
}

/// PortInfo that sets up a port with a link, and moves it from Init to Armed; `None` if the port
/// or its peer is not known.
pub(crate) fn link_port(basis: &Basis<'_>, (index, port): (Index, PortNum)) -> Option<PortInfo> {
    let &Basis {
        subnet,
        plan,
        admission,
    } = basis;
    let device = subnet.devices.get(index)?;
    let slot = device.ports.get(port.index())?;
    let info = slot.info.as_ref()?;
    let (peer, peer_port) = slot.peer?;
    let peer_info = subnet.devices.get(peer)?.port_info(peer_port)?;
    let mut wanted = if device.end_port() == port {
        end_port(subnet, plan, index)?
    } else {
        untouched(info)
    };
    wanted.neighbor_mtu = info.mtu_cap.min(peer_info.mtu_cap);
    wanted.operational_vls = info.vl_cap.min(peer_info.vl_cap);
    if let Some(limit) = qos::high_limit(admission, (index, port)) {
        wanted.vl_high_limit = limit;
    }
    if device.kind == NodeKind::Switch {
        wanted.hoq_life = LIFE_TIME;
        wanted.vl_stall_count = STALL_COUNT;
        let (inbound, outbound) = plan.pkeys.enforced(subnet, (index, port));
        wanted.partition_enforcement_inbound = inbound;
        wanted.partition_enforcement_outbound = outbound;
    }
    if info.port_state == PortState::Init {
        wanted.port_state = PortState::Armed;
    }
    Some(wanted)
}

/// A value of a counter of violations that leaves it as it is: only a 0 resets one.
const KEEP: u16 = u16::MAX;

/// The port's own PortInfo as a Set that changes nothing.
fn untouched(info: &PortInfo) -> PortInfo {
    PortInfo {
        port_state: PortState::NoChange,
        port_phys_state: PortPhysState::NoChange,
        link_down_default_state: 0,
        link_width_enabled: 0,
        link_speed_enabled: 0,
        link_speed_ext_enabled: 0,
        client_reregister: false,
        m_key_violations: KEEP,
        p_key_violations: KEEP,
        q_key_violations: KEEP,
        ..*info
    }
}

/// Whether a port must be written to have these settings. States are not compared.
pub(crate) fn differs(info: &PortInfo, wanted: &PortInfo) -> bool {
    let settings = |info: &PortInfo| {
        (
            (info.lid, info.lmc, info.master_sm_lid, info.master_sm_sl),
            (info.gid_prefix, info.subnet_timeout),
            (info.m_key, info.m_key_protect_bits, info.m_key_lease_period),
            (
                info.partition_enforcement_inbound,
                info.partition_enforcement_outbound,
            ),
            (info.neighbor_mtu, info.operational_vls),
            (info.hoq_life, info.vl_stall_count, info.vl_high_limit),
        )
    };
    settings(info) != settings(wanted)
}

/// How many data VLs both ends of a port's cable have; `None` if only one, so that there is
/// nothing to map or to arbitrate.
pub(crate) fn shared_vls(subnet: &Subnet, (index, port): (Index, PortNum)) -> Option<u8> {
    let slot = subnet.devices.get(index)?.ports.get(port.index())?;
    let (peer, peer_port) = slot.peer?;
    let peer_info = subnet.devices.get(peer)?.port_info(peer_port)?;
    let count = slot.info.as_ref()?.vl_cap.min(peer_info.vl_cap)?;
    (count > VlCount::One).then(|| count.vls())
}

/// How many data VLs every cable has at both its ends; 1 without cables.
pub(crate) fn data_vls(subnet: &Subnet) -> u8 {
    let devices = subnet.devices.iter().enumerate();
    let ends = devices.flat_map(|(index, device)| {
        device
            .cables()
            .map(move |(port, _)| shared_vls(subnet, (index, port)))
    });
    ends.map(|vls| vls.unwrap_or(1)).min().unwrap_or(1)
}

/// As the input of an SL-to-VL table: all inputs at once, where a switch can do that and
/// [`sl2vl_by_input`] says that all are alike.
pub(crate) const ALL_INPUTS: PortNum = PortNum::NONE;

/// SL-to-VL table from an input of a device to a port: that of promised bandwidth, or that of the
/// routing engine, else SL modulo the number of VLs.
pub(crate) fn sl2vl(
    basis: &Basis<'_>,
    input: PortNum,
    output: (Index, PortNum),
) -> Option<SlToVlTable> {
    let vls = shared_vls(basis.subnet, output)?;
    if let Some(table) = qos::sl2vl(basis.admission, output) {
        return Some(table);
    }
    if let Some(engine) = basis.plan.vls() {
        let (node, output) = (NodeId::from_index(output.0), output.1);
        let input = match input {
            ALL_INPUTS => PortNum::MANAGEMENT,
            input => input,
        };
        return Some(SlToVlTable(*engine.table(node, input, output)));
    }
    let mut table = SlToVlTable::default();
    for (sl, vl) in (0u8..).zip(&mut table.0) {
        *vl = Vl::constant(sl % vls);
    }
    Some(table)
}

/// Whether the SL-to-VL table of an output depends on the input.
pub(crate) fn sl2vl_by_input(basis: &Basis<'_>, (index, output): (Index, PortNum)) -> bool {
    let device = basis.subnet.devices.get(index);
    let Some((engine, device)) = basis.plan.vls().zip(device) else {
        return false;
    };
    engine.differs_by_input(NodeId::from_index(index), device.info.num_ports, output)
        && qos::sl2vl(basis.admission, (index, output)).is_none()
}

/// A block of the arbitration of a port: that of promised bandwidth, else all VLs alike in
/// the low-priority table and nothing in the high. `None`: the port has no such block.
pub(crate) fn vl_arbitration(
    basis: &Basis<'_>,
    end: (Index, PortNum),
    block: u8,
) -> Option<VlArbTable> {
    let vls = shared_vls(basis.subnet, end)?;
    if let Some(table) = qos::vl_arbitration(basis.admission, end, block) {
        return Some(table);
    }
    let info = basis.subnet.devices[end.0].port_info(end.1)?;
    let is_beyond = |entries: u8| entries <= SECOND_BLOCK;
    match block {
        VlArbTable::LOW_SECOND if is_beyond(info.vl_arbitration_low_cap) => return None,
        VlArbTable::HIGH_SECOND if is_beyond(info.vl_arbitration_high_cap) => return None,
        _ => {}
    }
    let mut table = VlArbTable::default();
    if block == VlArbTable::LOW_FIRST {
        let entries = info.vl_arbitration_low_cap.min(vls);
        for (vl, entry) in Vl::data(entries).zip(&mut table.0) {
            *entry = VlArbEntry {
                vl,
                weight: VL_WEIGHT,
            };
        }
    }
    Some(table)
}
