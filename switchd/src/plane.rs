//! The state of the dataplane: ports, tables, and what waits between them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use link::{Deadline, Packet, Pool, Port, PortConfig, PortSet, Time, Why};
use mad::sma::Identity;
use wire::attr::NodeType;
use wire::{Lid, PortNum, Vl};

use crate::ports::Ports;
use crate::tables::{LinearTable, MulticastTable};
use crate::{SwitchConfig, SwitchError, Timing};

/// Vendor id shown in NodeInfo: locally administered, nobody's.
const VENDOR_ID: u32 = 0x02_1b_ed;
/// Device id shown in NodeInfo.
const DEVICE_ID: u16 = 1;

/// A lane of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LaneId {
    pub(crate) port: PortNum,
    pub(crate) vl: Vl,
}

/// What the head of an input lane is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Head {
    /// It may move on.
    #[default]
    Free,
    /// It is in the queue of one or more output lanes for room there.
    Waiting,
    /// A timer lets it move on.
    Timed,
}

/// What happens to an input lane at a certain time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// Its head has been looked up.
    Routed,
    /// The packet that left it is through the crossbar: so many blocks are free.
    Through(u16),
}

/// The dataplane of a switch.
///
/// The fields stand in the order of how often packets need them, and in that order in memory.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Plane {
    /// External ports: port n at n - 1.
    pub(crate) ports: Ports,
    /// Data lanes of every port.
    vls: usize,
    /// By [`Plane::place`]: what the head of an input lane is doing.
    pub(crate) heads: Box<[Head]>,
    pub(crate) timers: BinaryHeap<Reverse<(Time, LaneId, Due)>>,
    pub(crate) timing: Timing,
    pub(crate) linear: LinearTable,
    /// LID of port 0.
    pub(crate) lid: Lid,
    /// By port: its output lanes with a queue of input lanes.
    pub(crate) wanted: Box<[u16]>,
    /// The ports with such a lane.
    pub(crate) wanting: PortSet,
    /// By [`Plane::place`] of the output lane: the input lanes whose head wants in, in the order
    /// in which they came. Each holds an input lane once at most.
    pub(crate) queues: Box<[VecDeque<LaneId>]>,
    /// Packets for port 0, with the port that they came in on.
    pub(crate) inbox: VecDeque<(PortNum, Packet)>,
    /// Answers of port 0 on data lanes that found no room yet.
    pub(crate) replies: VecDeque<Packet>,
    pub(crate) pool: Pool,
    /// By [`Plane::place`], of a multicast head: the ports that are still to get their copy.
    pub(crate) owed: Box<[PortSet]>,
    pub(crate) multicast: MulticastTable,
    pub(crate) identity: Identity,
    /// What every external port was built with.
    pub(crate) port_config: PortConfig,
    /// Copies that multicast packets were owed, made or dropped.
    pub(crate) copied: u64,
    /// Multicast packets that have gone with their last copy.
    pub(crate) absorbed: u64,
}

impl Plane {
    pub(crate) fn new(config: &SwitchConfig) -> Result<Self, SwitchError> {
        config.check()?;
        let vls = usize::from(config.port.vls);
        let lanes = usize::from(config.ports) * vls;
        let ports = (1..=config.ports)
            .map(|number| {
                let port = PortConfig {
                    node_guid: config.guid,
                    // Far apart, so that no port ever uses another one's numbers.
                    epoch_seed: config
                        .port
                        .epoch_seed
                        .wrapping_add(u32::from(number).wrapping_mul(0x0100_0193)),
                    ..config.port
                };
                Port::new(PortNum::new(number), port, config.ports)
            })
            .collect::<Result<Vec<_>, _>>()?;
        // Slots are up to twice as large as the blocks that are accounted for.
        let pool_bytes = config.port.bytes_max().saturating_mul(ports.len() * 2);
        Ok(Self {
            identity: Identity {
                node_type: NodeType::Switch,
                description: config.name.clone(),
                node_guid: config.guid,
                system_image_guid: config.guid,
                ports: config.ports,
                vendor_id: VENDOR_ID,
                device_id: DEVICE_ID,
                revision: 1,
            },
            port_config: config.port,
            timing: config.timing,
            pool: Pool::new(pool_bytes),
            lid: Lid::ZERO,
            linear: LinearTable::default(),
            multicast: MulticastTable::default(),
            vls,
            heads: vec![Head::default(); lanes].into_boxed_slice(),
            owed: vec![PortSet::EMPTY; lanes].into_boxed_slice(),
            queues: vec![VecDeque::new(); lanes].into_boxed_slice(),
            wanted: vec![0; ports.len()].into_boxed_slice(),
            wanting: PortSet::EMPTY,
            timers: BinaryHeap::new(),
            inbox: VecDeque::new(),
            copied: 0,
            absorbed: 0,
            replies: VecDeque::new(),
            ports: Ports::new(ports),
        })
    }

    /// The place of a data lane in a list of all data lanes of all external ports.
    #[inline]
    pub(crate) fn place(&self, lane: LaneId) -> usize {
        (lane.port.index() - 1) * self.vls + lane.vl.index()
    }

    /// An external port, if there is one of this number.
    #[inline]
    pub(crate) fn port(&self, number: PortNum) -> Option<&Port> {
        self.ports.get(number.index().checked_sub(1)?)
    }

    /// An external port, if there is one of this number.
    #[inline]
    pub(crate) fn port_mut(&mut self, number: PortNum) -> Option<&mut Port> {
        self.ports.get_mut(number.index().checked_sub(1)?)
    }

    /// When something is due; [`Time::NEVER`] if nothing is.
    #[inline]
    pub(crate) fn due_at(&self) -> Time {
        let timer = self.timers.peek().map(|Reverse((at, ..))| *at);
        timer.map_or(self.ports.due_at(), |at| at.min(self.ports.due_at()))
    }

    pub(crate) fn deadline(&self) -> Option<Deadline> {
        let timer = self.timers.peek().map(|Reverse((at, lane, _))| Deadline {
            at: *at,
            why: Why::Crossbar(lane.port),
        });
        let limit = timer.map_or(Time::NEVER, |timer| timer.at);
        self.ports.deadline_before(limit).or(timer)
    }
}
