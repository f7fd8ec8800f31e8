//! The state of the dataplane: ports, tables, and what waits between them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use link::{DATA_VLS_MAX, Deadline, Packet, Pool, Port, PortConfig, PortSet, Time, Why};
use mad::sma::Identity;
use wire::attr::NodeType;
use wire::{Lid, PortNum, Vl};

use crate::ports::Ports;
use crate::tables::{LinearTable, MulticastTable};
use crate::{SwitchConfig, SwitchError, Timing};

/// Lanes of one port that packets may wait in.
const LANES: usize = DATA_VLS_MAX as usize;
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

impl LaneId {
    /// Its place in a vector of all lanes of all external ports.
    #[inline]
    pub(crate) fn place(self) -> usize {
        (self.port.index() - 1) * LANES + self.vl.index()
    }
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

/// The crossbar's side of one input lane.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InputSide {
    pub(crate) head: Head,
    /// A multicast head: the ports that are still to get their copy.
    pub(crate) owed: PortSet,
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
#[derive(Debug)]
pub(crate) struct Plane {
    pub(crate) identity: Identity,
    /// What every external port was built with.
    pub(crate) port_config: PortConfig,
    pub(crate) timing: Timing,
    /// External ports: port n at n - 1.
    pub(crate) ports: Ports,
    pub(crate) pool: Pool,
    /// LID of port 0.
    pub(crate) lid: Lid,
    pub(crate) linear: LinearTable,
    pub(crate) multicast: MulticastTable,
    /// By [`LaneId::place`].
    pub(crate) inputs: Vec<InputSide>,
    /// By [`LaneId::place`] of the output lane: the input lanes whose head wants in, in the order
    /// in which they came. Each holds an input lane once at most.
    pub(crate) queues: Vec<VecDeque<LaneId>>,
    /// By port: its output lanes with a queue of input lanes.
    pub(crate) wanted: Vec<u16>,
    pub(crate) timers: BinaryHeap<Reverse<(Time, LaneId, Due)>>,
    /// Packets for port 0, with the port that they came in on.
    pub(crate) inbox: VecDeque<(PortNum, Packet)>,
    /// Copies that multicast packets were owed, made or dropped.
    pub(crate) copied: u64,
    /// Multicast packets that have gone with their last copy.
    pub(crate) absorbed: u64,
}

impl Plane {
    pub(crate) fn new(config: &SwitchConfig) -> Result<Self, SwitchError> {
        config.check()?;
        let lanes = usize::from(config.ports) * LANES;
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
                Port::new(PortNum::truncate(number), port, config.ports)
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
            inputs: vec![InputSide::default(); lanes],
            queues: vec![VecDeque::new(); lanes],
            wanted: vec![0; ports.len()],
            timers: BinaryHeap::new(),
            inbox: VecDeque::new(),
            copied: 0,
            absorbed: 0,
            ports: Ports::new(ports),
        })
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

    pub(crate) fn deadline(&self) -> Option<Deadline> {
        let timer = self.timers.peek().map(|Reverse((at, lane, _))| Deadline {
            at: *at,
            why: Why::Crossbar(lane.port),
        });
        let limit = timer.map_or(Time::NEVER, |timer| timer.at);
        self.ports.deadline_before(limit).or(timer)
    }
}
