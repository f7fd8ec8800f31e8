//! How packets get from input lanes to output lanes.
//!
//! The head of each input lane looks for room in its output lane (multicast: in several). Where
//! there is none it queues up there: one queue an output lane, served in the order of arrival, so
//! that inputs share an output fairly. Behind a head that waits its lane stands still, as in a
//! switch of hardware; other lanes pass. Whenever an output lane gets room its queue is served,
//! and each input lane whose head leaves moves on.

use std::cmp::Reverse;

use link::{Admission, DropReason, Packet, PortSet, Time};
use tracing::trace;
use wire::{PortNum, Vl};

use crate::plane::{Due, Head, LaneId, Plane};

/// Packets for port 0 that wait at most.
const INBOX_MAX: usize = 64;

/// What became of the head of an input lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It has gone; the next one may follow.
    Gone,
    /// It stays.
    Stays,
}

impl Plane {
    /// Moves packets of an input lane on as far as they go.
    pub(crate) fn advance(&mut self, now: Time, lane: LaneId) {
        let place = self.place(lane);
        while self.heads[place] == Head::Free {
            let port = &self.ports[lane.port.index() - 1];
            let Some(head) = port.input(lane.vl) else {
                return;
            };
            let routed_at = head.head + self.timing.routing_delay_ns;
            if routed_at > now {
                self.heads[place] = Head::Timed;
                self.timers.push(Reverse((routed_at, lane, Due::Routed)));
                return;
            }
            let step = if port.has_outlived(now, head.entered) {
                self.drop_head(now, lane, lane.port, DropReason::Lifetime);
                Step::Gone
            } else if head.lrh.dlid.is_multicast() {
                let ports = self.multicast.lookup(head.lrh.dlid, lane.port);
                self.forward_to_group(now, lane, ports)
            } else {
                self.forward(now, lane)
            };
            if step == Step::Stays {
                return;
            }
        }
    }

    /// One unicast head: by the linear table to its output lane.
    #[inline]
    fn forward(&mut self, now: Time, lane: LaneId) -> Step {
        let Some(head) = self.ports[lane.port.index() - 1].input(lane.vl) else {
            return Step::Stays;
        };
        let (lrh, bytes) = (head.lrh, head.bytes());
        let output = self.linear.lookup(lrh.dlid);
        if output == PortNum::MANAGEMENT || (output == PortNum::NONE && lrh.dlid == self.lid) {
            self.deliver(now, lane);
            return Step::Gone;
        }
        if output == lane.port {
            self.drop_head(now, lane, lane.port, DropReason::LoopBack);
            return Step::Gone;
        }
        let Some(port) = self.ports.get(output.index() - 1) else {
            self.drop_head(now, lane, lane.port, DropReason::NoRoute);
            return Step::Gone;
        };
        let vl = port.sl_to_vl().map(lane.port, lrh.sl);
        match self.room(LaneId { port: output, vl }, bytes) {
            Admission::Room => {
                self.move_head(now, lane, LaneId { port: output, vl });
                Step::Gone
            }
            Admission::Full => {
                self.queue_up(lane, LaneId { port: output, vl });
                Step::Stays
            }
            Admission::Drop(reason) => {
                self.drop_head(now, lane, output, reason);
                Step::Gone
            }
        }
    }

    /// One multicast head, by its row of the multicast table. A row without any port is lost as a
    /// unicast packet without entry is (IBA 18.2.4.3); one with the port that it came in on and no
    /// other is where a branch of the tree ends.
    #[inline]
    fn forward_to_group(&mut self, now: Time, lane: LaneId, mut ports: PortSet) -> Step {
        if ports.is_empty() {
            self.drop_head(now, lane, lane.port, DropReason::NoRoute);
            return Step::Gone;
        }
        ports.remove(lane.port);
        self.spread(now, lane, ports)
    }

    /// One multicast head: a copy to every port that is owed one and has room.
    fn spread(&mut self, now: Time, lane: LaneId, owed: PortSet) -> Step {
        let Some(head) = self.ports[lane.port.index() - 1].input(lane.vl) else {
            return Step::Stays;
        };
        let (sl, bytes) = (head.lrh.sl, head.bytes());
        let mut waits = PortSet::EMPTY;
        for output in owed.iter() {
            let Some(port) = output
                .index()
                .checked_sub(1)
                .and_then(|at| self.ports.get(at))
            else {
                // Port 0 and ports that are not there have no use for it.
                continue;
            };
            let vl = port.sl_to_vl().map(lane.port, sl);
            match self.room(LaneId { port: output, vl }, bytes) {
                Admission::Room => self.copy_head(now, lane, LaneId { port: output, vl }),
                Admission::Full => {
                    waits.insert(output);
                    self.queue_up(lane, LaneId { port: output, vl });
                }
                Admission::Drop(reason) => {
                    self.copied += 1;
                    self.count_drop(output, reason);
                }
            }
        }
        let place = self.place(lane);
        self.owed[place] = waits;
        if waits.is_empty() {
            self.finish_head(now, lane);
            Step::Gone
        } else {
            Step::Stays
        }
    }

    /// Whether an output lane takes a packet now: it has room, and nobody was there before.
    #[inline]
    fn room(&self, output: LaneId, bytes: usize) -> Admission {
        if output.vl == Vl::MANAGEMENT {
            return Admission::Drop(DropReason::SlToVl);
        }
        let place = output.port.index() - 1;
        match self.ports[place].admits(output.vl, bytes) {
            Admission::Room if self.wanted[place] & (1 << output.vl.get()) != 0 => Admission::Full,
            admission => admission,
        }
    }

    fn queue_up(&mut self, lane: LaneId, output: LaneId) {
        let (input, queue) = (self.place(lane), self.place(output));
        self.heads[input] = Head::Waiting;
        self.queues[queue].push_back(lane);
        self.wanted[output.port.index() - 1] |= 1 << output.vl.get();
        self.wanting.insert(output.port);
    }

    /// Nobody waits for an output lane any more.
    fn is_unwanted(&mut self, output: LaneId) {
        let wanted = &mut self.wanted[output.port.index() - 1];
        *wanted &= !(1 << output.vl.get());
        if *wanted == 0 {
            self.wanting.remove(output.port);
        }
    }

    /// Serves the queue of an output lane that may have got room.
    pub(crate) fn serve(&mut self, now: Time, output: LaneId) {
        let queue = self.place(output);
        while let Some(&lane) = self.queues[queue].front() {
            let input = &self.ports[lane.port.index() - 1];
            // A lane that queues has a head; without one it has nothing to wait for.
            let admission = match input.input(lane.vl) {
                Some(head) if input.has_outlived(now, head.entered) => {
                    Admission::Drop(DropReason::Lifetime)
                }
                Some(head) => self.ports[output.port.index() - 1].admits(output.vl, head.bytes()),
                None => Admission::Room,
            };
            if admission == Admission::Full {
                return;
            }
            self.queues[queue].pop_front();
            if self.queues[queue].is_empty() {
                self.is_unwanted(output);
            }
            self.settle_debt(now, lane, output, admission);
            self.advance(now, lane);
        }
        self.is_unwanted(output);
    }

    /// Serves the queues of all output lanes of a port.
    pub(crate) fn serve_all(&mut self, now: Time, port: PortNum) {
        let mut lanes = self.wanted[port.index() - 1];
        while lanes != 0 {
            let vl = lanes.trailing_zeros();
            lanes &= lanes - 1;
            let vl = Vl::truncate(u8::try_from(vl).unwrap_or_default());
            self.serve(now, LaneId { port, vl });
        }
    }

    /// The head of `lane` reaches the front of the queue of `output`, which takes or drops it.
    fn settle_debt(&mut self, now: Time, lane: LaneId, output: LaneId, admission: Admission) {
        let place = self.place(lane);
        let owed = &mut self.owed[place];
        if owed.is_empty() {
            self.heads[place] = Head::Free;
            match admission {
                Admission::Drop(reason) => self.drop_head(now, lane, output.port, reason),
                Admission::Room | Admission::Full => self.move_head(now, lane, output),
            }
            return;
        }
        owed.remove(output.port);
        let was_last = owed.is_empty();
        match admission {
            Admission::Drop(reason) => {
                self.copied += 1;
                self.count_drop(output.port, reason);
            }
            Admission::Room | Admission::Full => self.copy_head(now, lane, output),
        }
        if was_last {
            self.heads[place] = Head::Free;
            self.finish_head(now, lane);
        }
    }

    /// Moves a unicast head into an output lane.
    #[inline]
    fn move_head(&mut self, now: Time, lane: LaneId, output: LaneId) {
        let Some(mut packet) = self.ports[lane.port.index() - 1].take(lane.vl) else {
            return;
        };
        self.cross(now, &mut packet);
        self.vacate(now, lane, packet.blocks(), packet.tail);
        self.ports[output.port.index() - 1].enqueue(now, output.vl, packet);
    }

    /// Puts a copy of a multicast head into an output lane.
    fn copy_head(&mut self, now: Time, lane: LaneId, output: LaneId) {
        let Some(head) = self.ports[lane.port.index() - 1].input(lane.vl) else {
            return;
        };
        let mut copy = head.share(&mut self.pool);
        self.copied += 1;
        self.cross(now, &mut copy);
        self.ports[output.port.index() - 1].enqueue(now, output.vl, copy);
    }

    /// A multicast head has gone to all ports that it was for.
    fn finish_head(&mut self, now: Time, lane: LaneId) {
        let Some(mut packet) = self.ports[lane.port.index() - 1].take(lane.vl) else {
            return;
        };
        self.absorbed += 1;
        self.cross(now, &mut packet);
        self.vacate(now, lane, packet.blocks(), packet.tail);
        packet.release(&mut self.pool);
    }

    /// Books the way through the crossbar: the packet's last byte comes out when it has come in
    /// and when the crossbar has had time for all of it. As on a link, the VCRC counts where the
    /// ports' configuration says so.
    #[inline]
    fn cross(&self, now: Time, packet: &mut Packet) {
        let ps_per_byte = self.timing.crossbar_ps_per_byte;
        packet.head = now;
        if ps_per_byte != 0 {
            let vcrc = if self.port_config.vcrc_takes_time {
                0
            } else {
                wire::packet::VCRC_LEN
            };
            let bytes = u64::try_from(packet.bytes() - vcrc).unwrap_or(u64::MAX);
            let through = now + bytes.saturating_mul(ps_per_byte) / 1000;
            packet.tail = packet.tail.max(through);
        }
    }

    /// Frees the buffer of a packet that leaves its input lane, at once or when its tail has gone.
    #[inline]
    fn vacate(&mut self, now: Time, lane: LaneId, blocks: u16, tail: Time) {
        if tail <= now {
            self.ports[lane.port.index() - 1].free(lane.vl, blocks);
        } else {
            let place = self.place(lane);
            self.heads[place] = Head::Timed;
            self.timers
                .push(Reverse((tail, lane, Due::Through(blocks))));
        }
    }

    /// Drops the head of an input lane; `blame` is the port that counts it.
    fn drop_head(&mut self, now: Time, lane: LaneId, blame: PortNum, reason: DropReason) {
        self.count_drop(blame, reason);
        if let Some(packet) = self.ports[lane.port.index() - 1].take(lane.vl) {
            self.vacate(now, lane, packet.blocks(), packet.tail);
            packet.release(&mut self.pool);
        }
    }

    /// Counts a drop at a port.
    pub(crate) fn count_drop(&mut self, port: PortNum, reason: DropReason) {
        trace!(port = port.get(), reason = reason.name(), "packet dropped");
        if let Some(port) = self.port_mut(port) {
            port.counts_mut().drop_one(reason);
        }
    }

    /// Puts a head that is for port 0 aside.
    fn deliver(&mut self, now: Time, lane: LaneId) {
        if self.inbox.len() >= INBOX_MAX {
            self.drop_head(now, lane, lane.port, DropReason::ReceiverFull);
            return;
        }
        if let Some(packet) = self.ports[lane.port.index() - 1].take(lane.vl) {
            self.vacate(now, lane, packet.blocks(), packet.tail);
            self.inbox.push_back((lane.port, packet));
        }
    }

    /// Does what timers have come for.
    pub(crate) fn run_timers(&mut self, now: Time) {
        while let Some(&Reverse((at, lane, due))) = self.timers.peek()
            && at <= now
        {
            self.timers.pop();
            if let Due::Through(blocks) = due {
                self.ports[lane.port.index() - 1].free(lane.vl, blocks);
            }
            let place = self.place(lane);
            self.heads[place] = Head::Free;
            self.advance(now, lane);
        }
    }

    /// Moves what has come in on the data lanes of a port.
    pub(crate) fn advance_arrived(&mut self, now: Time, port: PortNum) {
        let mut lanes = self.ports[port.index() - 1].arrived() & !(1 << Vl::MANAGEMENT.get());
        while lanes != 0 {
            let vl = lanes.trailing_zeros();
            lanes &= lanes - 1;
            let vl = Vl::truncate(u8::try_from(vl).unwrap_or_default());
            self.advance(now, LaneId { port, vl });
        }
    }
}
