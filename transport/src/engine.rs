//! The engine of one port: objects, packets, time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use link::Time;
use wire::packet::Transport;
use wire::{DataPacket, Gid, IbaPacket, Lrh, Qpn, Sl, Vl};

use crate::direct::{DirectQueuePairs, DirectSet, Taken};
use crate::event::Event;
use crate::ids::{QUEUE_PAIRS_MAX, place_of_qpn};
use crate::memory::Memory;
use crate::qp::{Context, Incoming, QueuePair};
use crate::shared::{Limits, PacketDrop, PortAttributes, Shared};
use crate::slab::{Place, Slab};

/// The transport layer of one port: all queue pairs and what belongs to them.
#[derive(Debug)]
pub struct Engine {
    pub(crate) shared: Shared,
    pub(crate) qps: Slab<QueuePair>,
    /// By service level, the indexes of queue pairs that may have a packet to send.
    rings: [VecDeque<u32>; 16],
    timers: BTreeSet<(Time, u32)>,
    /// By group, the queue pairs that are attached to it.
    pub(crate) groups: BTreeMap<Gid, Vec<Qpn>>,
    pub(crate) direct: DirectQueuePairs,
}

/// A packet that has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmitted {
    /// Its length in bytes, LRH to VCRC.
    pub len: usize,
    /// The virtual lane that it is for.
    pub vl: Vl,
}

impl Engine {
    /// An engine without objects.
    #[must_use]
    pub fn new(limits: Limits, port: PortAttributes) -> Self {
        Self {
            qps: Slab::new(limits.queue_pairs.min(QUEUE_PAIRS_MAX)),
            shared: Shared::new(limits, port),
            rings: Default::default(),
            timers: BTreeSet::new(),
            groups: BTreeMap::new(),
            direct: DirectQueuePairs::default(),
        }
    }

    /// Takes the attributes of the port that the subnet manager has set. Packets from now on follow them.
    pub fn set_port(&mut self, port: PortAttributes) {
        self.shared.port = port;
        self.shared.port_version = self.shared.port_version.wrapping_add(1);
    }

    /// The attributes of the port that the subnet manager has set.
    #[must_use]
    pub fn port(&self) -> &PortAttributes {
        &self.shared.port
    }

    /// The next event. Call until `None` after every input.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.shared.events.pop_front()
    }

    pub(crate) fn qp_mut(&mut self, qpn: Qpn) -> Option<&mut QueuePair> {
        self.qps.get_mut(place_of_qpn(qpn)?)
    }

    /// Whether a queue pair of this number exists.
    #[must_use]
    pub fn has_queue_pair(&self, qpn: Qpn) -> bool {
        place_of_qpn(qpn).is_some_and(|place| self.qps.get(place).is_some())
    }

    /// Whether any queue pair is attached to a group.
    #[must_use]
    pub fn is_attached(&self, mgid: Gid) -> bool {
        self.groups.contains_key(&mgid) || self.direct.is_attached(mgid, None)
    }

    /// Puts a queue pair into the ring of those that may send, and sets its timer.
    pub(crate) fn reschedule(&mut self, now: Time, index: u32) {
        let Some(qp) = self.qps.at_mut(index) else {
            return;
        };
        if qp.in_ring.is_none() && qp.has_output(now) {
            let sl = qp.sl(&self.shared).unwrap_or_default();
            qp.in_ring = Some(sl);
            self.rings[sl.index()].push_back(index);
        }
        // A timer that is too early stays: it finds nothing to do and is set anew.
        let Some(due) = qp.deadline() else {
            return;
        };
        if qp.timer.is_some_and(|timer| timer <= due) {
            return;
        }
        if let Some(late) = qp.timer.replace(due) {
            self.timers.remove(&(late, index));
        }
        self.timers.insert((due, index));
    }

    /// Takes a queue pair that is destroyed out of rings and timers.
    pub(crate) fn forget(&mut self, index: u32, qp: &QueuePair) {
        if let Some(sl) = qp.in_ring {
            self.rings[sl.index()].retain(|&other| other != index);
        }
        if let Some(timer) = qp.timer {
            self.timers.remove(&(timer, index));
        }
    }

    /// Takes in a packet that has come to the port, or that was looped back to it, with its transport headers. Its CRCs and
    /// the port's partitions have been checked, and that it is to one of the port's GIDs if it has a global route.
    ///
    /// # Errors
    /// [`PacketDrop`]: why it was dropped, to be counted. A reliable connection has then done what the
    /// specification says: answered a duplicate, refused a violation, asked for what is missing.
    #[inline]
    pub fn receive(
        &mut self,
        now: Time,
        memory: &mut dyn Memory,
        packet: &DataPacket<'_>,
        transport: &Transport<'_>,
    ) -> Result<Taken, PacketDrop> {
        let to = transport.bth.dest_qp;
        if packet.lrh().dlid.is_multicast() != (to == Qpn::MULTICAST) {
            return Err(PacketDrop::NoQueuePair);
        }
        match place_of_qpn(to) {
            None => self.direct.receive(transport),
            Some(place) => self.receive_at(now, memory, packet.lrh(), (place, transport)),
        }
    }

    /// Takes in a packet to a group, or to the queue pair at a place.
    fn receive_at(
        &mut self,
        now: Time,
        memory: &mut dyn Memory,
        lrh: &Lrh,
        (place, transport): (Place, &Transport<'_>),
    ) -> Result<Taken, PacketDrop> {
        if transport.bth.dest_qp == Qpn::MULTICAST {
            return self.receive_multicast(now, memory, lrh, transport);
        }
        let qp = self.qps.get_mut(place).ok_or(PacketDrop::NoQueuePair)?;
        let incoming = incoming(lrh, transport)?;
        let service = transport.bth.opcode.parts().map(|(service, _)| service);
        if service != Some(qp.config.service) {
            return Err(PacketDrop::Service);
        }
        let mut cx = Context {
            now,
            shared: &mut self.shared,
            memory,
        };
        let received = qp.receive(&mut cx, &incoming);
        self.reschedule(now, place.index);
        received.map(|()| Taken::BY_QUEUE_PAIRS)
    }

    /// A datagram to a group: each member gets it.
    fn receive_multicast(
        &mut self,
        now: Time,
        memory: &mut dyn Memory,
        lrh: &Lrh,
        transport: &Transport<'_>,
    ) -> Result<Taken, PacketDrop> {
        let mgid = transport.grh.map(|grh| grh.dgid);
        let mgid = mgid.filter(|mgid| mgid.is_multicast());
        let mgid = mgid.ok_or(PacketDrop::NoMember)?;
        let direct = self.direct.receive_group(mgid, transport);
        let (mut is_taken, mut missed) = (false, None);
        let members = self.groups.get(&mgid);
        if members.is_none() && direct.is_none() {
            return Err(PacketDrop::NoMember);
        }
        let members = members.map_or(&[][..], Vec::as_slice);
        let incoming = incoming(lrh, transport)?;
        for &qpn in members {
            let qp = place_of_qpn(qpn).and_then(|place| self.qps.get_mut(place));
            let Some(qp) = qp else {
                continue;
            };
            let mut cx = Context {
                now,
                shared: &mut self.shared,
                memory: &mut *memory,
            };
            match qp.receive(&mut cx, &incoming) {
                Ok(()) => is_taken = true,
                Err(drop) => missed = Some(drop),
            }
        }
        let direct = match direct {
            Some(Ok(direct)) => direct,
            Some(Err(drop)) => {
                missed = missed.or(Some(drop));
                DirectSet::EMPTY
            }
            None => DirectSet::EMPTY,
        };
        match missed {
            Some(drop) if !is_taken && direct.is_empty() => Err(drop),
            missed => Ok(Taken { direct, missed }),
        }
    }

    /// Whether [`Self::transmit`] may have a packet of one of these service levels (a bit each).
    #[must_use]
    pub fn is_ready(&self, sls: u16) -> bool {
        self.ready_sls() & sls != 0
    }

    /// The service levels of which packets may wait, a bit each.
    #[must_use]
    pub fn ready_sls(&self) -> u16 {
        let waits = |sl: &usize| !self.rings[*sl].is_empty();
        (0..16).filter(waits).map(|sl| 1 << sl).sum()
    }

    /// Writes the next packet of one of these service levels (a bit each) to the front of `out`, which holds the
    /// longest packet of the port's MTU. Queue pairs of a service level take turns. `None` if there is none.
    pub fn transmit(
        &mut self,
        now: Time,
        memory: &mut dyn Memory,
        sls: u16,
        out: &mut [u8],
    ) -> Option<Transmitted> {
        for sl in Sl::all().filter(|sl| sls & (1 << sl.get()) != 0) {
            while let Some(index) = self.rings[sl.index()].pop_front() {
                let Some(qp) = self.qps.at_mut(index) else {
                    continue;
                };
                qp.in_ring = None;
                let written = match qp.sl(&self.shared).is_none_or(|own| own == sl) {
                    true => {
                        let mut cx = Context {
                            now,
                            shared: &mut self.shared,
                            memory: &mut *memory,
                        };
                        qp.transmit(&mut cx, out)
                    }
                    // Its path has changed: to another ring.
                    false => None,
                };
                self.reschedule(now, index);
                if let Some(len) = written {
                    let vl = self.shared.vl(sl);
                    return Some(Transmitted { len, vl });
                }
            }
        }
        None
    }

    /// Gives memory that a busy time has taken, and that is not in use, back to the allocator.
    pub fn release_memory(&mut self) {
        self.shared.stages.release_memory();
    }

    /// When [`Self::tick`] has something to do.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.timers.first().map(|&(at, _)| at)
    }

    /// Does what is due: waits that are over, answers that are overdue.
    pub fn tick(&mut self, now: Time, memory: &mut dyn Memory) {
        while let Some(&(at, index)) = self.timers.first() {
            if at > now {
                return;
            }
            self.timers.pop_first();
            if let Some(qp) = self.qps.at_mut(index) {
                qp.timer = None;
                let mut cx = Context {
                    now,
                    shared: &mut self.shared,
                    memory: &mut *memory,
                };
                qp.tick(&mut cx);
                self.reschedule(now, index);
            }
        }
    }
}

fn incoming<'a>(lrh: &Lrh, transport: &Transport<'a>) -> Result<Incoming<'a>, PacketDrop> {
    let read = IbaPacket::of_transport(lrh, transport);
    let (headers, payload) = read.map_err(|_| PacketDrop::Malformed)?;
    let (_, operation) = headers.bth.opcode.parts().ok_or(PacketDrop::Malformed)?;
    Ok(Incoming {
        headers,
        operation,
        payload,
    })
}
