//! Send queues of a host: one a service level, and the VLs that they feed.
//!
//! Service levels that share a VL take turns, packet by packet; so do backlogged flows that share
//! a service level. A message holds its place at the head of its queue until its last packet has
//! gone.

use std::collections::VecDeque;
use std::sync::Arc;

use link::{Admission, Port, Time};
use routing::Tables;
use topologies::NodeId;
use wire::convert::saturate;
use wire::packet::VCRC_LEN;
use wire::{Lid, PortNum, Sl, Vl};

use crate::generator::{Generator, NO_FLOW, QueuedSend};
use crate::numbers::{index, next_in_turn, number};
use crate::workload::Destination;

/// Service levels.
const LEVELS: usize = 16;

/// Groups as all sources of a run use them.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// By group: its members.
    pub(crate) members: Vec<Vec<u32>>,
}

/// The destination of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Host(u32),
    Group(u32),
}

/// A packet that is to be put into the port's output VL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Injected {
    pub(crate) sequence: u64,
    pub(crate) generated: Time,
    pub(crate) to: Target,
    pub(crate) dlid: Lid,
    pub(crate) sl: Sl,
    pub(crate) bytes: u16,
    pub(crate) flow: u32,
    /// How many hosts are to get it.
    pub(crate) copies: u32,
    /// Whether the DLID is another than the scheme's for these hosts.
    pub(crate) has_explicit_dlid: bool,
}

/// Packets that were generated; refused if their queue was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generated {
    pub(crate) at: Time,
    pub(crate) flow: u32,
    pub(crate) packets: u64,
    /// How many deliveries that makes, if they are not refused.
    pub(crate) deliveries: u64,
    pub(crate) refused: bool,
}

/// What a host's packets are addressed by.
#[derive(Clone, Debug)]
pub(crate) struct Addressing {
    /// By destination: the DLID for it.
    pub(crate) dlids: Arc<[Lid]>,
    /// By group: the multicast LID to which this host sends.
    pub(crate) mlids: Arc<[Lid]>,
    pub(crate) groups: Arc<Groups>,
    /// The tables whose service levels packets have that ask for none.
    pub(crate) tables: Arc<Tables>,
    /// The switch at which the host is.
    pub(crate) switch: Option<NodeId>,
}

impl Addressing {
    /// The engine's service level for a DLID; 0 for multicast LIDs and if the engine has none.
    fn sl(&self, dlid: Lid) -> Sl {
        let assignment = self.tables.vl_assignment.as_ref().zip(self.switch);
        assignment.map_or_else(Sl::default, |(assignment, switch)| {
            assignment.sl(switch, dlid)
        })
    }
}

/// What a host sends.
#[derive(Debug)]
pub(crate) struct SourceQueues {
    generator: Generator,
    own: u32,
    addressing: Addressing,
    /// By service level.
    queues: [VecDeque<QueuedSend>; LEVELS],
    /// Service levels with something that waits: bit n for level n.
    levels: u16,
    /// By VL: the service levels that take it, and the one that had the last turn.
    vls: Vec<(u16, u32)>,
    waiting: usize,
    /// Of those, backlogged flows.
    endless: usize,
    backlog: usize,
    sequence: u64,
    /// Packets generated, and those of them that found the queue full.
    pub(crate) offered: u64,
    pub(crate) refused: u64,
    /// What was generated for counted flows and has not been collected yet.
    pub(crate) generated: Vec<Generated>,
}

impl SourceQueues {
    /// A source of host `own`, whose port is `port`; at most `backlog` requests wait.
    pub(crate) fn new(
        own: u32,
        generator: Generator,
        addressing: Addressing,
        port: &Port,
        backlog: usize,
    ) -> Self {
        let mut vls = vec![(0u16, 0u32); usize::from(port.config().vls)];
        for level in 0..16u8 {
            let vl = port
                .sl_to_vl()
                .map(PortNum::MANAGEMENT, Sl::constant(level));
            if let Some((levels, _)) = vls.get_mut(vl.index()) {
                *levels |= 1 << level;
            }
        }
        Self {
            generator,
            own,
            addressing,
            queues: Default::default(),
            levels: 0,
            vls,
            waiting: 0,
            endless: 0,
            backlog,
            sequence: 0,
            offered: 0,
            refused: 0,
            generated: Vec::new(),
        }
    }

    /// Whether packets wait.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting > self.endless
    }

    /// Whether everything that ends has been generated and put into the port.
    pub(crate) fn is_done(&self) -> bool {
        !self.is_waiting() && !self.generator.has_finite()
    }

    /// When the next request is due.
    #[inline]
    pub(crate) fn next_at(&self) -> Time {
        self.generator.next_at()
    }

    /// Generates what is due.
    #[inline]
    pub(crate) fn generate(&mut self, now: Time) {
        while self.generator.next_at() <= now {
            let Some(send) = self.generator.next() else {
                return;
            };
            self.add(send);
        }
    }

    fn add(&mut self, send: QueuedSend) {
        let receivers = self.receivers_of(send.to);
        // Backlogged flows are as many as there are traffic sources: each has its place.
        let refused = !send.endless && self.waiting - self.endless >= self.backlog;
        if receivers == 0 {
            // A group whose only member is the sender.
            return;
        }
        if !send.endless {
            self.note(&send, send.packets, refused);
        }
        if refused {
            return;
        }
        self.waiting += 1;
        self.endless += usize::from(send.endless);
        let mut send = send;
        if matches!(send.to, Destination::Each(_)) {
            self.skip_sender(&mut send);
        }
        self.enqueue(send);
    }

    /// Puts a send behind all others of its service level.
    fn enqueue(&mut self, send: QueuedSend) {
        let level = self.level_of(&send).index();
        self.queues[level].push_back(send);
        self.levels |= 1 << level;
    }

    /// The service level of a send's next packet.
    fn level_of(&self, send: &QueuedSend) -> Sl {
        send.sl
            .unwrap_or_else(|| self.addressing.sl(self.destination(send).1))
    }

    fn note(&mut self, send: &QueuedSend, packets: u32, refused: bool) {
        let deliveries = u64::from(packets) * u64::from(self.receivers_of(send.to));
        let packets = match send.to {
            Destination::Host(_) | Destination::Group(_) => u64::from(packets),
            Destination::Each(_) => deliveries,
        };
        self.offered += packets;
        self.refused += if refused { packets } else { 0 };
        if send.flow != NO_FLOW {
            self.generated.push(Generated {
                at: send.generated,
                flow: send.flow,
                packets,
                deliveries,
                refused,
            });
        }
    }

    fn receivers_of(&self, to: Destination) -> u32 {
        match to {
            Destination::Host(_) => 1,
            Destination::Group(group) | Destination::Each(group) => self.receivers(group),
        }
    }

    /// Members of a group but the host itself.
    fn receivers(&self, group: u32) -> u32 {
        let members = self.addressing.groups.members.get(index(group));
        let others = members.map_or(0, |members| {
            members.iter().filter(|&&member| member != self.own).count()
        });
        crate::numbers::number(others)
    }

    fn member(&self, send: &QueuedSend) -> Option<u32> {
        let Destination::Each(group) = send.to else {
            return None;
        };
        let members = self.addressing.groups.members.get(index(group))?;
        members.get(index(send.member)).copied()
    }

    fn skip_sender(&self, send: &mut QueuedSend) {
        while self.member(send) == Some(self.own) {
            send.member += 1;
        }
    }

    /// The service level whose turn it is on a VL, if something waits for the VL.
    #[inline]
    fn turn(&self, vl: usize) -> Option<usize> {
        let &(levels, last) = self.vls.get(vl)?;
        next_in_turn(levels & self.levels, last).map(index)
    }

    /// Whether a VL has both a packet that waits and room for it.
    #[inline]
    pub(crate) fn can_fill(&self, port: &Port) -> bool {
        self.levels != 0 && (0..self.vls.len()).any(|vl| self.admitted(port, vl).is_some())
    }

    /// The service level that can put a packet on a VL now.
    #[inline]
    fn admitted(&self, port: &Port, vl: usize) -> Option<usize> {
        let level = self.turn(vl)?;
        let head = self.queues[level].front()?;
        let bytes = usize::from(head.next_bytes()) + VCRC_LEN;
        let vl = Vl::new(saturate(vl)).ok()?;
        (port.admits(vl, bytes) == Admission::Room).then_some(level)
    }

    /// The next packet for a VL with room. It must be put into the port.
    #[inline]
    pub(crate) fn take(&mut self, now: Time, port: &Port, vl: usize) -> Option<Injected> {
        let level = self.admitted(port, vl)?;
        self.vls[vl].1 = number(level);
        let mut send = *self.queues[level].front()?;
        let bytes = send.next_bytes();
        let (to, dlid) = self.destination(&send);
        let injected = Injected {
            sequence: self.sequence,
            generated: send.generated,
            to,
            dlid,
            sl: Sl::new(saturate(level)).ok()?,
            bytes,
            flow: send.flow,
            copies: match to {
                Target::Host(_) => 1,
                Target::Group(group) => self.receivers(group),
            },
            has_explicit_dlid: send.dlid != Lid::ZERO || matches!(to, Target::Group(_)),
        };
        self.sequence += 1;
        if send.endless {
            self.note(&send, 1, false);
            self.queues[level].pop_front();
            send.generated = now;
            self.queues[level].push_back(send);
            return Some(injected);
        }
        self.advance(level, send);
        Some(injected)
    }

    /// One packet of the send at the head of a queue has gone.
    fn advance(&mut self, level: usize, mut send: QueuedSend) {
        send.left -= 1;
        if send.left == 0 && matches!(send.to, Destination::Each(_)) {
            send.member += 1;
            self.skip_sender(&mut send);
            if self.member(&send).is_some() {
                send.left = send.packets;
            }
        }
        let goes_on = send.left > 0;
        // The next member may be reached on another service level.
        let stays = goes_on && self.level_of(&send).index() == level;
        let queue = &mut self.queues[level];
        if stays {
            if let Some(head) = queue.front_mut() {
                *head = send;
            }
            return;
        }
        queue.pop_front();
        if queue.is_empty() {
            self.levels &= !(1 << level);
        }
        if goes_on {
            self.enqueue(send);
        } else {
            self.waiting -= 1;
        }
    }

    /// The destination of a send's next packet, and its DLID.
    fn destination(&self, send: &QueuedSend) -> (Target, Lid) {
        let dlid_of = |lids: &[Lid], at: u32| lids.get(index(at)).copied().unwrap_or(Lid::ZERO);
        match send.to {
            Destination::Host(host) if send.dlid == Lid::ZERO => {
                (Target::Host(host), dlid_of(&self.addressing.dlids, host))
            }
            Destination::Host(host) => (Target::Host(host), send.dlid),
            Destination::Group(group) => {
                let mlid = dlid_of(&self.addressing.mlids, group);
                (Target::Group(group), mlid)
            }
            Destination::Each(_) => {
                let host = self.member(send).unwrap_or(self.own);
                (Target::Host(host), dlid_of(&self.addressing.dlids, host))
            }
        }
    }
}
