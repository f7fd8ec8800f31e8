//! What a switch or a channel adapter shows its subnet management agent, and what the agent does
//! to it.
//!
//! The agent (`Sma`) keeps the attributes that mean nothing to the dataplane (M_Key,
//! GID prefix, P_Key table, SwitchInfo's plain numbers) and the rules of the specification: which
//! values are legal, what a zero leaves unchanged, which state follows which. The node keeps what
//! the dataplane reads for each packet and is told of it in values that have been checked.

use link::Time;
use wire::{Guid, Lid, Lmc, PortNum, Sl, Vl};

/// A switch or a channel adapter, as its subnet management agent sees it.
///
/// Ports are 1..=[`Identity::ports`]; port 0 of a switch is the agent's own affair and is asked of
/// the node only where a method says so. The agent never names a port that does not exist.
pub trait Node {
    /// What never changes.
    fn identity(&self) -> &Identity;

    /// What the port could do. Asked for port 0 of a switch too, whose link is internal.
    fn capabilities(&self, port: PortNum) -> PortCapabilities;

    /// How the port's link is. Not asked for port 0 of a switch: that is always Active.
    fn link(&self, port: PortNum) -> LinkStatus;

    /// A `Set(PortInfo)` has been accepted: `config` holds from now on. Called for port 0 of a
    /// switch too (LID, LMC, subnet manager). Called before [`Node::command_link`], if the same
    /// request asks for both.
    fn configure(&mut self, now: Time, port: PortNum, config: &PortConfig);

    /// A legal change of the port's state is asked for (IBA 14.2.5.6, table of PortState and
    /// PortPhysicalState). Not called for port 0 of a switch.
    fn command_link(&mut self, now: Time, port: PortNum, command: LinkCommand);

    /// The lane that service level `sl` takes on output `output` for packets that came in on
    /// `input`. On a channel adapter both are 1; on a switch `input` 0 stands for packets of the
    /// switch's own.
    fn sl_to_vl(&self, input: PortNum, output: PortNum, sl: Sl) -> Vl;

    /// Sets the lanes of all 16 service levels from `input` to `output`. [`Vl::MANAGEMENT`] as a
    /// lane: drop (IBA 7.6.6).
    fn set_sl_to_vl(&mut self, input: PortNum, output: PortNum, lanes: &[Vl; 16]);

    /// Half a table of the port's arbiter: 32 entries, behind the table's end as weight 0.
    fn arbitration(&self, port: PortNum, half: ArbitrationHalf) -> [LaneWeight; 32];

    /// Sets half a table of the port's arbiter.
    fn set_arbitration(&mut self, port: PortNum, half: ArbitrationHalf, entries: &[LaneWeight; 32]);

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
    /// `16 * position + i`.
    fn multicast_block(&self, block: u16, position: u8) -> [u16; 32];

    /// Sets the masks of 32 multicast LIDs.
    fn set_multicast_block(&mut self, block: u16, position: u8, masks: &[u16; 32]);

    /// The highest multicast LID that is looked up (MulticastFDBTop); `None`: no limit was set.
    fn set_multicast_top(&mut self, top: Option<Lid>);

    /// Where packets to a multicast LID without entry go: the default multicast primary and
    /// non-primary ports of SwitchInfo. [`PortNum::NONE`] drops.
    fn set_multicast_default(&mut self, primary: PortNum, other: PortNum);

    /// How long a packet may stay in the switch: SwitchInfo's LifeTimeValue, 0..=31, a packet
    /// lives 4.096 us * 2^value; above 19 for ever (IBA 18.2.5.4).
    fn set_life_time(&mut self, value: u8);
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A channel adapter: ports with LIDs of their own.
    ChannelAdapter,
    /// A switch: one LID, that of port 0.
    Switch,
}

/// What never changes about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// What it is.
    pub kind: NodeKind,
    /// Node description, UTF-8; cut to 63 bytes on the wire.
    pub description: String,
    /// GUID of the node. Port GUIDs follow from it: a switch's only one is the same, a channel
    /// adapter's are node GUID + port number.
    pub node_guid: Guid,
    /// GUID of the box that holds the node.
    pub system_image_guid: Guid,
    /// External ports, 1..=254.
    pub ports: u8,
    /// Vendor of the device, 24 bits (an OUI).
    pub vendor_id: u32,
    /// The vendor's number of the device.
    pub device_id: u16,
    /// Revision of the device.
    pub revision: u32,
}

/// What a port could do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortCapabilities {
    /// LinkWidthSupported: bits 1x = 1, 4x = 2, 8x = 4, 12x = 8.
    pub widths: u8,
    /// LinkSpeedSupported: bits SDR = 1, DDR = 2, QDR = 4.
    pub speeds: u8,
    /// LinkSpeedExtSupported: bits FDR = 1, EDR = 2.
    pub extended_speeds: u8,
    /// MTUCap as a code: 1 = 256 bytes, 2 = 512, 3 = 1024, 4 = 2048, 5 = 4096.
    pub mtu: u8,
    /// Data lanes, 1..=15. PortInfo can say 1, 2, 4, 8 and 15 only: the agent shows the largest of
    /// these that is not above.
    pub vls: u8,
    /// Entries of the arbiter's high-priority table, 0..=64.
    pub arbitration_high: u8,
    /// Entries of the arbiter's low-priority table, 0..=64.
    pub arbitration_low: u8,
}

/// Logical state of a port (IBA 7.2.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum PortState {
    /// No link.
    Down = 1,
    /// Link, but subnet management packets only.
    Init = 2,
    /// Receives data, sends none of its own.
    Armed = 3,
    /// Everything passes.
    Active = 4,
}

/// Physical state of a port (IBA 5.9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum PhysicalState {
    /// Neither drives nor listens.
    Sleep = 1,
    /// Looks for a peer.
    Polling = 2,
    /// Switched off.
    Disabled = 3,
    /// A peer was found, lanes are being trained.
    Training = 4,
    /// Up.
    LinkUp = 5,
    /// Recovering from errors.
    Recovery = 6,
}

/// How a port's link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkStatus {
    /// Logical state.
    pub state: PortState,
    /// Physical state.
    pub physical: PhysicalState,
    /// LinkWidthActive: one bit, as in [`PortCapabilities::widths`].
    pub width: u8,
    /// LinkSpeedActive: one bit, as in [`PortCapabilities::speeds`].
    pub speed: u8,
    /// LinkSpeedExtActive: one bit, as in [`PortCapabilities::extended_speeds`], or 0.
    pub extended_speed: u8,
}

/// What a subnet manager asks of a port's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkCommand {
    /// PortState := Down: the link starts anew, into the state that
    /// [`PortConfig::down_default`] names.
    Down,
    /// PortState := Armed; the port is in Init.
    Arm,
    /// PortState := Active; the port is in Armed.
    Activate,
    /// PortPhysicalState := Sleep.
    Sleep,
    /// PortPhysicalState := Polling.
    Poll,
    /// PortPhysicalState := Disabled.
    Disable,
}

/// What a subnet manager has configured for a port, as far as the dataplane cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Base LID (port 0 of a switch, ports of a channel adapter; elsewhere 0).
    pub lid: Lid,
    /// LID mask control.
    pub lmc: Lmc,
    /// LID of the subnet manager.
    pub sm_lid: Lid,
    /// Service level towards the subnet manager.
    pub sm_sl: Sl,
    /// NeighborMTU as a code (see [`PortCapabilities::mtu`]): the longest payload that may be sent.
    pub mtu: u8,
    /// Operational data lanes: 1, 2, 4, 8 or 15.
    pub operational_vls: u8,
    /// HOQLife, 0..=31: a packet may stay at the head of an output lane for 4.096 us * 2^value;
    /// above 19 for ever (IBA 18.2.5.4).
    pub hoq_life: u8,
    /// VLStallCount, 0..=7: that many packets dropped in a row stall the lane; 0 is not legal for
    /// switches and never arrives here.
    pub vl_stall_count: u8,
    /// LimitOfHighPriority: units of 4096 bytes; 255 is unlimited, 0 one packet (IBA 7.6.9.2).
    pub vl_high_limit: u8,
    /// LinkWidthEnabled, as bits.
    pub widths_enabled: u8,
    /// LinkSpeedEnabled, as bits.
    pub speeds_enabled: u8,
    /// LinkSpeedExtEnabled, as bits.
    pub extended_speeds_enabled: u8,
    /// Where [`LinkCommand::Down`] and a lost link lead: [`PhysicalState::Sleep`] or
    /// [`PhysicalState::Polling`].
    pub down_default: PhysicalState,
}

/// Half a table of an arbiter, as VLArbitrationTable's modifier names it (IBA 14.2.5.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ArbitrationHalf {
    /// Entries 0..32 of the low-priority table.
    LowLower = 1,
    /// Entries 32..64 of the low-priority table.
    LowUpper = 2,
    /// Entries 0..32 of the high-priority table.
    HighLower = 3,
    /// Entries 32..64 of the high-priority table.
    HighUpper = 4,
}

/// One entry of an arbiter's table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneWeight {
    /// The lane, 0..=14.
    pub vl: Vl,
    /// Weight in units of 64 bytes; 0 skips the entry.
    pub weight: u8,
}
