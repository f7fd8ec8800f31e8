//! The state of the dataplane: ports, tables, and the queues between them.

use std::collections::VecDeque;

use link::{
    Counts, Deadline, DeadlineCause, LinkCommand, Packet, Pool, Port, PortConfig, PortSet, Time,
};
use mad::sma::Identity;
use wire::attr::NodeType;
use wire::convert::u64_of;
use wire::{Lid, LinkRate, Lmc, PortNum, Vl};

use crate::partitions::Partitions;
use crate::ports::Ports;
use crate::tables::{LinearTable, MulticastTable};
use crate::timers::Timers;
use crate::{SwitchConfig, SwitchError, Timing};

/// A virtual lane of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PortVl {
    pub(crate) port: PortNum,
    pub(crate) vl: Vl,
}

/// The state of the packet at the head of an input VL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Head {
    /// It may move on.
    #[default]
    Free,
    /// It is queued for one or more output VLs that have no room.
    Waiting,
    /// It waits for a timer.
    Timed,
}

/// The dataplane of a switch.
///
/// The fields are in memory in order of how often packets need them: a visit to a switch touches the first few cache lines.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Plane {
    /// External ports: port n at n - 1.
    pub(crate) ports: Ports,
    /// By [`Plane::index`]: the state of the head of an input VL.
    pub(crate) heads: Box<[Head]>,
    pub(crate) timers: Timers,
    /// By port: the output VLs with a queue of input VLs.
    pub(crate) waiting_vls: Box<[u16]>,
    /// Data VLs of every port.
    vls: usize,
    pub(crate) timing: Timing,
    pub(crate) linear: LinearTable,
    /// Packets for port 0, with the port that they came in on.
    pub(crate) inbox: VecDeque<(PortNum, Packet)>,
    /// Responses of port 0 on data VLs that found no room yet.
    pub(crate) replies: VecDeque<(PortNum, Packet)>,
    /// The ports with VLs in `waiting_vls`.
    pub(crate) waiting_ports: PortSet,
    pub(crate) partitions: Partitions,
    /// First LID of port 0.
    pub(crate) lid: Lid,
    /// There are `2^lmc` of them; 0 unless it is an enhanced port 0.
    pub(crate) lmc: Lmc,
    pub(crate) pool: Pool,
    /// By [`Plane::index`] of the output VL: the input VLs whose head waits for room, in order of
    /// arrival. Each holds an input VL once at most.
    pub(crate) queues: Box<[VecDeque<PortVl>]>,
    /// By [`Plane::index`], of a multicast head: the ports that are still to get their copy.
    pub(crate) pending_copies: Box<[PortSet]>,
    /// The ports that a row of the multicast table can name: those that the switch has.
    pub(crate) external_ports: PortSet,
    pub(crate) multicast: MulticastTable,
    /// A command of the agent that takes a link down. The response to it leaves first.
    pub(crate) link_command: Option<(PortNum, LinkCommand)>,
    pub(crate) identity: Identity,
    /// What every external port was built with, but for its rate.
    pub(crate) port_config: PortConfig,
    /// Width and speed that every port supports.
    pub(crate) supported: LinkRate,
    /// Copies of multicast packets, made or dropped.
    pub(crate) copies_made: u64,
    /// Multicast packets whose last copy is made or dropped.
    pub(crate) replicated: u64,
    /// What port 0 counts: packets of this switch's own that were dropped before any port had them.
    pub(crate) own_counts: Counts,
}

impl Plane {
    pub(crate) fn new(config: &SwitchConfig) -> Result<Self, SwitchError> {
        config.check()?;
        let vls = usize::from(config.port.vls);
        let data_vls = usize::from(config.ports) * vls;
        let ports = (1..=config.ports)
            .map(|number| {
                let port = PortConfig {
                    node_guid: config.guid,
                    // Far apart, so that no two ports use the same epochs.
                    epoch_seed: config
                        .port
                        .epoch_seed
                        .wrapping_add(u32::from(number).wrapping_mul(0x0100_0193)),
                    ..config
                        .hardware
                        .port_config(PortNum::new(number), config.port)
                };
                Port::new(PortNum::new(number), port, config.ports)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let pool_bytes = Pool::limit_for(config.port.bytes_max().saturating_mul(ports.len()));
        Ok(Self {
            identity: Identity::of(
                &config.hardware,
                NodeType::Switch,
                &config.name,
                config.guid,
                config.ports,
            ),
            supported: config.hardware.supported(config.port.rate),
            port_config: config.port,
            timing: config.timing,
            pool: Pool::new(pool_bytes),
            external_ports: PortSet::external(config.ports),
            lid: Lid::ZERO,
            lmc: Lmc::default(),
            linear: LinearTable::default(),
            multicast: MulticastTable::default(),
            partitions: Partitions::new(config.ports),
            link_command: None,
            vls,
            heads: vec![Head::default(); data_vls].into_boxed_slice(),
            pending_copies: vec![PortSet::EMPTY; data_vls].into_boxed_slice(),
            queues: vec![VecDeque::new(); data_vls].into_boxed_slice(),
            waiting_vls: vec![0; ports.len()].into_boxed_slice(),
            waiting_ports: PortSet::EMPTY,
            timers: Timers::default(),
            inbox: VecDeque::new(),
            copies_made: 0,
            replicated: 0,
            replies: VecDeque::new(),
            ports: Ports::new(ports),
            own_counts: Counts::default(),
        })
    }

    /// The index of a data VL in a list of all data VLs of all external ports.
    #[inline]
    pub(crate) fn index(&self, port_vl: PortVl) -> usize {
        (port_vl.port.index() - 1) * self.vls + port_vl.vl.index()
    }

    /// Reads what a packet needs of the plane and of a port, see [`Switch::read_ahead`](crate::Switch::read_ahead).
    #[inline]
    pub(crate) fn read_ahead(&self, number: PortNum) -> u64 {
        let waiting = u64::from(self.timing.crossbar_ps_per_byte > 0)
            ^ u64_of(self.inbox.len())
            ^ u64_of(self.replies.len())
            ^ u64::from(self.waiting_ports.is_empty())
            ^ u64::from(self.lid.get())
            ^ u64_of(self.pool.handles());
        let timed = self.timers.next();
        let number = match number {
            PortNum::MANAGEMENT => timed.map_or(number, |(_, from, _)| from.port),
            number => number,
        };
        let head = self.heads.first().is_some_and(|&head| head == Head::Free);
        waiting ^ u64::from(head) ^ self.ports.read_ahead(number)
    }

    /// An external port, if there is one of this number.
    #[inline]
    pub(crate) fn port(&self, number: PortNum) -> Option<&Port> {
        self.ports.by_number(number)
    }

    /// An external port, if there is one of this number.
    #[inline]
    pub(crate) fn port_mut(&mut self, number: PortNum) -> Option<&mut Port> {
        self.ports.by_number_mut(number)
    }

    /// When something is due; [`Time::NEVER`] if nothing is.
    #[inline]
    pub(crate) fn due_at(&self) -> Time {
        self.ports.due_at().min(self.timers.next_at())
    }

    /// Carries out the agent's command that takes a link down, once the response has left.
    pub(crate) fn execute_link_command(&mut self, now: Time) {
        let Some((number, command)) = self.link_command.take() else {
            return;
        };
        if let Some(port) = self.ports.by_number_mut(number) {
            port.execute_after_management(now, command, &mut self.pool);
        }
    }

    pub(crate) fn deadline(&self) -> Option<Deadline> {
        let timer = self.timers.next().map(|(at, port_vl, _)| Deadline {
            at,
            cause: DeadlineCause::Crossbar(port_vl.port),
        });
        let limit = timer.map_or(Time::NEVER, |timer| timer.at);
        self.ports.deadline_before(limit).or(timer)
    }
}
