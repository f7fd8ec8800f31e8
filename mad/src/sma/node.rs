//! The interface between a switch or channel adapter and its subnet management agent.
//!
//! The agent ([`Sma`](super::Sma)) keeps the attributes that the dataplane does not use (M_Key, GID
//! prefix, P_Key table, SwitchInfo's plain numbers) and the rules of the specification: which
//! values are legal, what a zero leaves unchanged, which state follows which. The node keeps what
//! the dataplane reads for each packet; the agent passes it checked values.

use std::collections::BTreeMap;

use link::{Arbiter, Hardware, LinkCommand, PhysicalState, PortState, Time};
use wire::attr::{NodeType, VlArbEntry};
use wire::{Guid, Lid, LinkRate, LinkRates, Lmc, Mtu, PortNum, Sl, Vl};

/// A switch or a channel adapter, as its subnet management agent sees it.
///
/// Ports are 1..=[`Identity::ports`]; port 0 of a switch is the agent's own, and the node is asked
/// about it only where a method says so. The agent never names a port that does not exist.
pub trait Node {
    /// The node's fixed properties.
    fn identity(&self) -> &Identity;

    /// The port's capabilities. Asked for port 0 of a switch too, whose link is internal.
    fn capabilities(&self, port: PortNum) -> PortCapabilities;

    /// The status of the port's link. Not asked for port 0 of a switch: that is always Active.
    fn link(&self, port: PortNum) -> LinkStatus;

    /// A `Set(PortInfo)` has been accepted: `settings` hold from now on. Called for port 0 of a
    /// switch too (LID, LMC, subnet manager). Called before [`Node::command_link`], if the same
    /// request asks for both. What holds before the first call is what the new agent's
    /// [`Sma::settings`](super::Sma::settings) says: the port's own MTU and VLs, no limits.
    fn configure(&mut self, now: Time, port: PortNum, settings: &PortSettings);

    /// A legal change of the port's state is asked for (IBA 14.2.5.6, table of PortState and
    /// PortPhysicalState). Not called for port 0 of a switch.
    fn command_link(&mut self, now: Time, port: PortNum, command: LinkCommand);

    /// The VLs that the 16 service levels take on output `output` for packets that came in on
    /// `input`. On a channel adapter `input` is 0; on a switch 0 stands for packets of its own.
    fn sl_to_vl(&self, input: PortNum, output: PortNum) -> [Vl; 16];

    /// Sets such a row. [`Vl::MANAGEMENT`] as a VL: drop (IBA 7.6.6).
    fn set_sl_to_vl(&mut self, input: PortNum, output: PortNum, vls: &[Vl; 16]);

    /// Sets the SL-to-VL mapping from every port of a switch, port 0 included, to port `output`.
    fn set_sl_to_vl_of_all_inputs(&mut self, output: PortNum, vls: &[Vl; 16]);

    /// A table of the port's arbiter, filled up with entries of weight 0.
    fn arbitration(&self, port: PortNum, priority: Priority) -> [VlArbEntry; 64];

    /// Sets a table of the port's arbiter. Entries of weight 0 are skipped, as are VLs that are not
    /// operational (IBA 7.6.9).
    fn set_arbitration(&mut self, port: PortNum, priority: Priority, entries: &[VlArbEntry; 64]);

    /// Sets the partitions of an external port of a switch: the keys that its packets may have where
    /// [`PortSettings::partitions_in`] or [`PortSettings::partitions_out`] asks for it. Not called for port
    /// 0, nor on a channel adapter, which reads [`Sma::pkeys`](super::Sma::pkeys).
    fn set_pkeys(&mut self, port: PortNum, keys: &[u16; 32]);

    /// The switch's forwarding tables; `None` on a channel adapter.
    fn forwarding(&mut self) -> Option<&mut dyn Forwarding>;
}

/// The forwarding tables of a switch.
pub trait Forwarding {
    /// How many LIDs the linear table covers, from LID 0: a multiple of 64, at most 49,152.
    fn linear_capacity(&self) -> u16;

    /// The ports of the 64 LIDs from `block * 64`; [`PortNum::NONE`] drops. `block` is below
    /// [`Forwarding::linear_capacity`] / 64.
    fn linear_block(&self, block: u16) -> [PortNum; 64];

    /// Sets the ports of 64 LIDs.
    fn set_linear_block(&mut self, block: u16, ports: &[PortNum; 64]);

    /// The highest LID that is looked up (LinearFDBTop); packets to higher ones are dropped.
    fn set_linear_top(&mut self, top: Lid);

    /// How many multicast LIDs the multicast table covers, from 0xc000: a multiple of 32, at most
    /// 16,352.
    fn multicast_capacity(&self) -> u16;

    /// The masks of the 32 multicast LIDs from `0xc000 + block * 32`: bit `i` of a mask is port
    /// `16 * position + i`. `block` is below [`Forwarding::multicast_capacity`] / 32, `position`
    /// at most the number of ports / 16.
    fn multicast_block(&self, block: u16, position: u8) -> [u16; 32];

    /// Sets the masks of 32 multicast LIDs.
    fn set_multicast_block(&mut self, block: u16, position: u8, masks: &[u16; 32]);

    /// The highest multicast LID that is looked up (MulticastFDBTop); `None`: no limit was set.
    fn set_multicast_top(&mut self, top: Option<Lid>);

    /// Where packets to a multicast LID without entry go: the default multicast primary port, and
    /// the one for packets that came in on the primary port. [`PortNum::NONE`] drops.
    fn set_multicast_default(&mut self, primary: PortNum, not_primary: PortNum);

    /// How long a packet may stay in the switch: LifeTimeValue, 0..=31, is 4.096 us times two to this
    /// power; above 19 without limit (IBA 18.2.5.4).
    fn set_life_time(&mut self, value: u8);
}

/// The fixed properties of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// A channel adapter or router (ports with LIDs of their own) or a switch (one LID, that of port 0).
    pub node_type: NodeType,
    /// Node description, cut to 64 bytes of UTF-8 on the wire.
    pub description: String,
    /// GUID of the node.
    pub node_guid: Guid,
    /// GUID of the box that holds the node.
    pub system_image_guid: Guid,
    /// External ports, 1..=254.
    pub ports: u8,
    /// GUIDs of a channel adapter's ports other than node GUID + port number, by port. A switch's only one
    /// is the node's.
    pub port_guids: BTreeMap<u8, Guid>,
    /// Whether a switch has an enhanced port 0 (SwitchInfo:EnhancedPort0).
    pub enhanced_port0: bool,
    /// Vendor of the device, 24 bits (an OUI).
    pub vendor_id: u32,
    /// The vendor's number of the device.
    pub device_id: u16,
    /// Revision of the device.
    pub revision: u32,
}

impl Identity {
    /// The properties of the device called `name` with this node GUID and so many external ports.
    #[must_use]
    pub fn of(
        hardware: &Hardware,
        node_type: NodeType,
        name: &str,
        node_guid: Guid,
        ports: u8,
    ) -> Self {
        Self {
            node_type: match node_type {
                NodeType::ChannelAdapter if hardware.is_router => NodeType::Router,
                other => other,
            },
            description: hardware.description(name),
            node_guid,
            system_image_guid: hardware.system_image_guid.unwrap_or(node_guid),
            ports,
            port_guids: hardware.port_guids.clone(),
            enhanced_port0: hardware.enhanced_port0,
            vendor_id: hardware.vendor_id,
            device_id: hardware.device_id,
            revision: 1,
        }
    }

    /// Whether the node is a switch.
    #[must_use]
    pub fn is_switch(&self) -> bool {
        self.node_type == NodeType::Switch
    }

    /// The GUID of a port.
    #[must_use]
    pub fn port_guid(&self, port: PortNum) -> Guid {
        match self.is_switch() {
            true => self.node_guid,
            false => {
                let known = self.port_guids.get(&port.get()).copied();
                known.unwrap_or(Guid(self.node_guid.0.wrapping_add(u64::from(port.get()))))
            }
        }
    }
}

/// The capabilities of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortCapabilities {
    /// The widths and speeds that its link can have.
    pub rates: LinkRates,
    /// MTUCap.
    pub mtu: Mtu,
    /// Data VLs, 1..=15. PortInfo can say 1, 2, 4, 8 and 15 only: the agent shows the largest of
    /// these that is not above.
    pub vls: u8,
    /// Entries of the arbiter's high-priority table, 0..=64.
    pub arbitration_high: u8,
    /// Entries of the arbiter's low-priority table, 0..=64.
    pub arbitration_low: u8,
}

/// The status of a port's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkStatus {
    /// Logical state.
    pub state: PortState,
    /// Physical state.
    pub physical: PhysicalState,
    /// Width and speed in use.
    pub rate: LinkRate,
}

/// The configuration of a port by the subnet manager, as far as the dataplane uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortSettings {
    /// Base LID (port 0 of a switch, ports of a channel adapter; elsewhere 0).
    pub lid: Lid,
    /// LID mask control.
    pub lmc: Lmc,
    /// LID of the subnet manager.
    pub sm_lid: Lid,
    /// Service level towards the subnet manager.
    pub sm_sl: Sl,
    /// NeighborMTU: the longest payload that may be sent.
    pub mtu: Mtu,
    /// Operational data VLs: 1, 2, 4, 8 or 15.
    pub operational_vls: u8,
    /// HOQLife, 0..=31: a packet may stay at the head of an output VL for 4.096 us times two to
    /// this power; above 19 for ever (IBA 18.2.5.4). For ever on a channel adapter.
    pub hoq_life: u8,
    /// VLStallCount, 0..=7: that many packets dropped in a row stall the VL; 0: never.
    pub vl_stall_count: u8,
    /// LimitOfHighPriority: units of 4096 bytes; 255 is unlimited, 0 one packet (IBA 7.6.9.2).
    pub vl_high_limit: u8,
    /// PartitionEnforcementInbound: an external port of a switch lets packets in only with a P_Key of its
    /// table.
    pub partitions_in: bool,
    /// PartitionEnforcementOutbound: the same of what goes out.
    pub partitions_out: bool,
    /// Widths and speeds enabled: the link may have them from its next training on.
    pub rates: LinkRates,
}

impl PortSettings {
    /// No LID, the least MTU, one VL, no limits.
    pub const INITIAL: Self = Self {
        lid: Lid::ZERO,
        lmc: Lmc::constant(0),
        sm_lid: Lid::ZERO,
        sm_sl: Sl::constant(0),
        mtu: Mtu::Mtu256,
        operational_vls: 1,
        hoq_life: 31,
        vl_stall_count: 0,
        vl_high_limit: 0,
        partitions_in: false,
        partitions_out: false,
        rates: LinkRates::ALL,
    };
}

/// Which of an arbiter's two tables (IBA 7.6.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// The low-priority table.
    Low,
    /// The high-priority table.
    High,
}

impl Priority {
    /// This table of an arbiter, filled up with entries of weight 0.
    #[must_use]
    pub fn entries(self, arbiter: &Arbiter) -> [VlArbEntry; 64] {
        let table = match self {
            Self::Low => arbiter.low(),
            Self::High => arbiter.high(),
        };
        core::array::from_fn(|at| table.get(at).copied().unwrap_or_default())
    }

    /// Writes this table of an arbiter.
    pub fn set_entries(self, arbiter: &mut Arbiter, entries: &[VlArbEntry; 64]) {
        match self {
            Self::Low => arbiter.set_low(entries.iter().copied()),
            Self::High => arbiter.set_high(entries.iter().copied()),
        }
    }
}
