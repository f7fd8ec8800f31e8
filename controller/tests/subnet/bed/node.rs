//! A node without a dataplane: it keeps what it is configured to, and a list of changes.

use std::collections::BTreeMap;

use link::{PhysicalState, PortState, Time};
use mad::sma::{
    Forwarding, Identity, LinkCommand, LinkStatus, Node, PortCapabilities, PortSettings, Priority,
};
use topologies::NodeKind;
use wire::attr::{NodeType, VlArbEntry};
use wire::{Lid, LinkRate, LinkRates, LinkSpeed, LinkWidth, Mtu, PortNum, Vl};

const LINEAR_CAPACITY: u16 = 49_152;
const RATE: LinkRate = LinkRate {
    width: LinkWidth::X4,
    speed: LinkSpeed::Qdr,
};

/// What a manager has changed in a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Set(PortInfo) to something else than before.
    Port(PortNum, PortSettings),
    /// The state of a link.
    Link(PortNum, LinkCommand),
    /// A forwarding block.
    Block(u16),
    /// A multicast block (block, position).
    Groups(u16, u8),
    /// LinearFDBTop.
    Top(Lid),
    /// MulticastFDBTop.
    MulticastTop(Lid),
    /// An SL-to-VL table.
    Sl2Vl(PortNum, PortNum),
    /// A table of an arbiter.
    Arbitration(PortNum, Priority),
    /// The partitions of an external port.
    Partitions(PortNum),
}

/// A switch or host.
pub struct BedNode {
    identity: Identity,
    settings: BTreeMap<PortNum, PortSettings>,
    states: Vec<PortState>,
    vls: u8,
    sl_to_vl: BTreeMap<(PortNum, PortNum), [Vl; 16]>,
    arbitration: BTreeMap<(PortNum, Priority), [VlArbEntry; 64]>,
    lft: Vec<PortNum>,
    mft: BTreeMap<(u16, u8), [u16; 32]>,
    top: Lid,
    multicast_top: Option<Lid>,
    pkeys: BTreeMap<PortNum, [u16; 32]>,
    /// Since last taken.
    pub changes: Vec<Change>,
}

impl BedNode {
    pub fn new(node: &topologies::Node, vls: u8) -> Self {
        let (node_type, entries) = match node.kind {
            NodeKind::Switch => (NodeType::Switch, usize::from(LINEAR_CAPACITY)),
            NodeKind::Host => (NodeType::ChannelAdapter, 0),
        };
        Self {
            identity: Identity {
                node_type,
                description: node.name.clone(),
                node_guid: node.guid,
                system_image_guid: node.guid,
                ports: node.ports,
                port_guids: BTreeMap::new(),
                enhanced_port0: false,
                vendor_id: 0,
                device_id: 0,
                revision: 0,
            },
            settings: BTreeMap::new(),
            states: vec![PortState::Down; usize::from(node.ports) + 1],
            vls,
            sl_to_vl: BTreeMap::new(),
            arbitration: BTreeMap::new(),
            lft: vec![PortNum::NONE; entries],
            mft: BTreeMap::new(),
            top: Lid::ZERO,
            multicast_top: None,
            pkeys: BTreeMap::new(),
            changes: Vec::new(),
        }
    }

    pub fn is_switch(&self) -> bool {
        self.identity.is_switch()
    }

    /// Whether the state is a new one.
    pub fn set_state(&mut self, port: PortNum, state: PortState) -> bool {
        core::mem::replace(&mut self.states[port.index()], state) != state
    }

    pub fn state(&self, port: PortNum) -> PortState {
        self.states[port.index()]
    }

    /// The port by which a packet to that LID leaves.
    pub fn exit(&self, lid: Lid) -> PortNum {
        if lid > self.top {
            return PortNum::NONE;
        }
        self.lft[lid.index()]
    }

    /// The ports of a multicast LID.
    pub fn group(&self, mlid: Lid) -> Vec<PortNum> {
        if self.multicast_top.is_some_and(|top| mlid > top) {
            return Vec::new();
        }
        let row = mlid.get() - Lid::MULTICAST_FIRST.get();
        let member = |port: &u8| {
            let block = self.mft.get(&(row / 32, port / 16));
            block.is_some_and(|masks| masks[usize::from(row % 32)] >> (port % 16) & 1 == 1)
        };
        let ports = (0..=self.identity.ports).filter(member);
        ports.map(PortNum::new).collect()
    }

    pub fn lft(&self) -> &[PortNum] {
        &self.lft
    }

    pub fn top(&self) -> Lid {
        self.top
    }
}

impl Node for BedNode {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn capabilities(&self, _: PortNum) -> PortCapabilities {
        PortCapabilities {
            rates: LinkRates::up_to(RATE),
            mtu: Mtu::Mtu2048,
            vls: self.vls,
            arbitration_high: 64,
            arbitration_low: 64,
        }
    }

    fn link(&self, port: PortNum) -> LinkStatus {
        let state = self.state(port);
        LinkStatus {
            state,
            physical: match state {
                PortState::Down => PhysicalState::Polling,
                _ => PhysicalState::LinkUp,
            },
            rate: RATE,
        }
    }

    fn configure(&mut self, _: Time, port: PortNum, settings: &PortSettings) {
        if self.settings.insert(port, *settings) != Some(*settings) {
            self.changes.push(Change::Port(port, *settings));
        }
    }

    fn command_link(&mut self, _: Time, port: PortNum, command: LinkCommand) {
        self.changes.push(Change::Link(port, command));
        self.states[port.index()] = match command {
            LinkCommand::Arm => PortState::Armed,
            LinkCommand::Activate => PortState::Active,
            LinkCommand::Down | LinkCommand::Poll | LinkCommand::Disable => PortState::Down,
        };
    }

    fn sl_to_vl(&self, input: PortNum, output: PortNum) -> [Vl; 16] {
        let row = self.sl_to_vl.get(&(input, output));
        row.copied().unwrap_or([Vl::default(); 16])
    }

    fn set_sl_to_vl(&mut self, input: PortNum, output: PortNum, table: &[Vl; 16]) {
        self.changes.push(Change::Sl2Vl(input, output));
        self.sl_to_vl.insert((input, output), *table);
    }

    fn set_sl_to_vl_of_all_inputs(&mut self, output: PortNum, table: &[Vl; 16]) {
        for input in (0..=self.identity.ports).map(PortNum::new) {
            self.set_sl_to_vl(input, output, table);
        }
    }

    fn arbitration(&self, port: PortNum, priority: Priority) -> [VlArbEntry; 64] {
        let table = self.arbitration.get(&(port, priority));
        table.copied().unwrap_or([VlArbEntry::default(); 64])
    }

    fn set_arbitration(&mut self, port: PortNum, priority: Priority, entries: &[VlArbEntry; 64]) {
        self.changes.push(Change::Arbitration(port, priority));
        self.arbitration.insert((port, priority), *entries);
    }

    fn set_pkeys(&mut self, port: PortNum, keys: &[u16; 32]) {
        if self.pkeys.insert(port, *keys) != Some(*keys) {
            self.changes.push(Change::Partitions(port));
        }
    }

    fn forwarding(&mut self) -> Option<&mut dyn Forwarding> {
        self.identity.is_switch().then_some(self)
    }
}

impl Forwarding for BedNode {
    fn linear_capacity(&self) -> u16 {
        LINEAR_CAPACITY
    }

    fn linear_block(&self, block: u16) -> [PortNum; 64] {
        let start = usize::from(block) * 64;
        core::array::from_fn(|entry| self.lft[start + entry])
    }

    fn set_linear_block(&mut self, block: u16, ports: &[PortNum; 64]) {
        self.changes.push(Change::Block(block));
        let start = usize::from(block) * 64;
        self.lft[start..start + 64].copy_from_slice(ports);
    }

    fn set_linear_top(&mut self, top: Lid) {
        if top != self.top {
            self.changes.push(Change::Top(top));
        }
        self.top = top;
    }

    fn multicast_capacity(&self) -> u16 {
        128
    }

    fn multicast_block(&self, block: u16, position: u8) -> [u16; 32] {
        let held = self.mft.get(&(block, position));
        held.copied().unwrap_or([0; 32])
    }

    fn set_multicast_block(&mut self, block: u16, position: u8, masks: &[u16; 32]) {
        self.changes.push(Change::Groups(block, position));
        self.mft.insert((block, position), *masks);
    }

    fn set_multicast_top(&mut self, top: Option<Lid>) {
        if top != self.multicast_top {
            self.changes
                .push(Change::MulticastTop(top.unwrap_or_default()));
        }
        self.multicast_top = top;
    }

    fn set_multicast_default(&mut self, _: PortNum, _: PortNum) {}

    fn set_life_time(&mut self, _: u8) {}
}
