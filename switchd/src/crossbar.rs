//! The crossbar: how packets get from input VLs to output VLs.
//!
//! The packet at the head of each input VL needs room in its output VL (multicast: in several).
//! Where there is none the input VL joins the queue of that output VL, which is served in order of
//! arrival, so that inputs share an output fairly. A waiting head blocks the packets behind it
//! (head-of-line blocking), as in a hardware switch; other VLs are not blocked. When an output VL
//! gets room its queue is served, and each input VL whose head leaves advances.

use link::{Admission, DropReason, Packet, PortSet, Time};
use tracing::trace;
use wire::convert::u64_of;
use wire::{PortNum, TrafficKind, Vl};

use crate::partitions::{INBOUND, OUTBOUND};
use crate::plane::{Head, Plane, PortVl};
use crate::timers::Due;

/// Packets for port 0 that wait at most.
const INBOX_MAX: usize = 64;

/// The result of forwarding the head of an input VL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It has left; the next one may follow.
    Moved,
    /// It waits for room.
    Blocked,
}

/// The port at which a drop on the way to `output` is counted.
fn dropping_port(from: PortVl, output: PortNum, reason: DropReason) -> PortNum {
    match reason {
        DropReason::SlToVl => from.port,
        _ => output,
    }
}

impl Plane {
    /// Forwards packets of an input VL until one must wait.
    pub(crate) fn advance(&mut self, now: Time, from: PortVl) {
        let index = self.index(from);
        while self.heads[index] == Head::Free {
            let port = &self.ports[from.port.index() - 1];
            let Some(head) = port.input(from.vl) else {
                return;
            };
            let routed_at = head.head + self.timing.routing_delay_ns;
            if routed_at > now {
                self.heads[index] = Head::Timed;
                self.timers.push(routed_at, from, Due::Routed);
                return;
            }
            let step = if port.is_expired(now, head.entered) {
                self.drop_head(now, from, from.port, DropReason::Lifetime);
                Step::Moved
            } else if self.partitions.checks_in(from.port)
                && !self.partitions.lets_in(from.port, head, &self.pool)
            {
                self.drop_head(now, from, from.port, INBOUND);
                Step::Moved
            } else if head.lrh.dlid.is_multicast() {
                let ports = self.multicast.lookup(head.lrh.dlid, from.port);
                self.forward_multicast(now, from, ports)
            } else {
                self.forward(now, from)
            };
            if step == Step::Blocked {
                return;
            }
        }
    }

    /// Forwards a unicast head by the linear table to its output VL.
    #[inline]
    fn forward(&mut self, now: Time, from: PortVl) -> Step {
        let Some(head) = self.ports[from.port.index() - 1].input(from.vl) else {
            return Step::Blocked;
        };
        let (lrh, bytes) = (head.lrh, head.bytes());
        let output = self.linear.lookup(lrh.dlid);
        if output == PortNum::MANAGEMENT || (output == PortNum::NONE && lrh.dlid == self.lid) {
            self.deliver(now, from);
            return Step::Moved;
        }
        if output == from.port {
            self.drop_head(now, from, from.port, DropReason::LoopBack);
            return Step::Moved;
        }
        let Some(port) = self.ports.get(output.index() - 1) else {
            self.drop_head(now, from, from.port, DropReason::NoRoute);
            return Step::Moved;
        };
        if self.timing.routing_delay_ns > 0 {
            // One of many switches in virtual time: the output port is in no cache.
            core::hint::black_box(port.read_ahead());
        }
        let vl = port.sl_to_vl().map(from.port, lrh.sl);
        if self.partitions.checks_out(output) && !self.may_leave(from, output) {
            self.drop_head(now, from, output, OUTBOUND);
            return Step::Moved;
        }
        match self.room(PortVl { port: output, vl }, bytes) {
            Admission::Room => {
                self.move_head(now, from, PortVl { port: output, vl });
                Step::Moved
            }
            Admission::Full => {
                self.queue_up(from, PortVl { port: output, vl });
                Step::Blocked
            }
            Admission::Drop(reason) => {
                self.drop_head(now, from, dropping_port(from, output, reason), reason);
                Step::Moved
            }
        }
    }

    /// Whether the partitions of a port let the head of an input VL out.
    fn may_leave(&mut self, from: PortVl, output: PortNum) -> bool {
        let head = self.ports[from.port.index() - 1].input(from.vl);
        head.is_none_or(|head| self.partitions.lets_out(output, head, &self.pool))
    }

    /// Forwards a multicast head by its row of the multicast table. It is dropped if the row names
    /// no port that the switch has, like a unicast packet without an entry (IBA 18.2.4.3). A row with
    /// the input port only is the end of a branch of the tree.
    #[inline]
    fn forward_multicast(&mut self, now: Time, from: PortVl, row: PortSet) -> Step {
        let mut ports = row.intersection(&self.external_ports);
        if ports.is_empty() {
            self.drop_head(now, from, from.port, DropReason::NoRoute);
            return Step::Moved;
        }
        ports.remove(from.port);
        if self.partitions.checks_any_out() {
            for output in ports.iter() {
                if self.partitions.checks_out(output) && !self.may_leave(from, output) {
                    ports.remove(output);
                    self.copies_made += 1;
                    self.count_drop(output, OUTBOUND, None);
                }
            }
        }
        self.replicate(now, from, ports)
    }

    /// Copies a multicast head to each of `ports` that has room, and queues it for the others.
    fn replicate(&mut self, now: Time, from: PortVl, pending_copies: PortSet) -> Step {
        let Some(head) = self.ports[from.port.index() - 1].input(from.vl) else {
            return Step::Blocked;
        };
        let (sl, bytes) = (head.lrh.sl, head.bytes());
        let mut waits = PortSet::EMPTY;
        for output in pending_copies.iter() {
            let Some(port) = self.ports.by_number(output) else {
                // Port 0 and ports that do not exist get no copy.
                continue;
            };
            let vl = port.sl_to_vl().map(from.port, sl);
            match self.room(PortVl { port: output, vl }, bytes) {
                Admission::Room => self.copy_head(now, from, PortVl { port: output, vl }),
                Admission::Full => {
                    waits.insert(output);
                    self.queue_up(from, PortVl { port: output, vl });
                }
                Admission::Drop(reason) => {
                    self.copies_made += 1;
                    self.count_drop(dropping_port(from, output, reason), reason, None);
                }
            }
        }
        let index = self.index(from);
        self.pending_copies[index] = waits;
        if waits.is_empty() {
            self.finish_head(now, from);
            Step::Moved
        } else {
            Step::Blocked
        }
    }

    /// Whether an output VL takes a packet now: it has room, and no other input waits for it.
    #[inline]
    fn room(&self, output: PortVl, bytes: usize) -> Admission {
        if output.vl == Vl::MANAGEMENT {
            return Admission::Drop(DropReason::SlToVl);
        }
        let index = output.port.index() - 1;
        match self.ports[index].admits(output.vl, bytes) {
            // The table maps to a VL that the output does not operate.
            Admission::Drop(DropReason::OutputVl) => Admission::Drop(DropReason::SlToVl),
            Admission::Room if self.waiting_vls[index] & (1 << output.vl.get()) != 0 => {
                Admission::Full
            }
            admission => admission,
        }
    }

    fn queue_up(&mut self, from: PortVl, output: PortVl) {
        let (input, queue) = (self.index(from), self.index(output));
        self.heads[input] = Head::Waiting;
        self.queues[queue].push_back(from);
        self.waiting_vls[output.port.index() - 1] |= 1 << output.vl.get();
        self.waiting_ports.insert(output.port);
    }

    /// Marks the queue of an output VL as empty.
    fn clear_waiting(&mut self, output: PortVl) {
        let waiting_vls = &mut self.waiting_vls[output.port.index() - 1];
        *waiting_vls &= !(1 << output.vl.get());
        if *waiting_vls == 0 {
            self.waiting_ports.remove(output.port);
        }
    }

    /// Serves the queue of an output VL that may have got room.
    pub(crate) fn serve(&mut self, now: Time, output: PortVl) {
        let queue = self.index(output);
        if self.queues[queue].len() == 1 && self.serve_only(now, output, queue) {
            return;
        }
        while let Some(&from) = self.queues[queue].front() {
            let input = &self.ports[from.port.index() - 1];
            // A queued input VL has a head; without one it waits for nothing.
            let admission = match input.input(from.vl) {
                Some(head) if input.is_expired(now, head.entered) => {
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
                self.clear_waiting(output);
            }
            if admission == Admission::Drop(DropReason::Lifetime) {
                let counts = self.ports[output.port.index() - 1].counts_mut();
                counts
                    .details
                    .level_mut(output.vl.index())
                    .expired_pkts_of_vl += 1;
            }
            self.admit_queued(now, from, output, admission);
            self.advance(now, from);
        }
        self.clear_waiting(output);
    }

    /// Serves a queue that one input VL is in: as long as its heads want this output VL they go without
    /// leaving and joining the queue each time. Returns whether that is all: the output VL has no room for the next.
    #[inline]
    fn serve_only(&mut self, now: Time, output: PortVl, queue: usize) -> bool {
        let Some(&from) = self.queues[queue].front() else {
            return false;
        };
        let index = self.index(from);
        let is_plain = self.timing.crossbar_ps_per_byte == 0
            && !self.partitions.checks_any_out()
            && !self.partitions.checks_in(from.port)
            && self.pending_copies[index].is_empty();
        let mut moved = false;
        while is_plain && self.leads_to(now, from, output) {
            let head = self.ports[from.port.index() - 1].input(from.vl);
            let bytes = head.map_or(0, Packet::bytes);
            match self.ports[output.port.index() - 1].admits(output.vl, bytes) {
                Admission::Full => return true,
                Admission::Drop(_) => break,
                Admission::Room => self.move_head(now, from, output),
            }
            moved = true;
        }
        if moved {
            // What is at the head now has not waited here.
            self.queues[queue].pop_front();
            self.clear_waiting(output);
            self.heads[index] = Head::Free;
            self.advance(now, from);
        }
        false
    }

    /// Whether the head of an input VL is whole, and a unicast packet that leaves by an output VL now.
    #[inline]
    fn leads_to(&self, now: Time, from: PortVl, output: PortVl) -> bool {
        let input = &self.ports[from.port.index() - 1];
        input.input(from.vl).is_some_and(|head| {
            let sl_to_vl = self.ports[output.port.index() - 1].sl_to_vl();
            head.tail <= now
                && head.head + self.timing.routing_delay_ns <= now
                && !input.is_expired(now, head.entered)
                && self.linear.lookup(head.lrh.dlid) == output.port
                && !head.lrh.dlid.is_multicast()
                && sl_to_vl.map(from.port, head.lrh.sl) == output.vl
        })
    }

    /// Serves the queues of all output VLs of a port.
    pub(crate) fn serve_all(&mut self, now: Time, port: PortNum) {
        let mut vls = self.waiting_vls[port.index() - 1];
        while let Some(vl) = Vl::lowest(vls) {
            vls &= vls - 1;
            self.serve(now, PortVl { port, vl });
        }
    }

    /// The head of `from` is at the front of the queue of `output`, which takes or drops it.
    fn admit_queued(&mut self, now: Time, from: PortVl, output: PortVl, admission: Admission) {
        let index = self.index(from);
        let pending_copies = &mut self.pending_copies[index];
        if pending_copies.is_empty() {
            self.heads[index] = Head::Free;
            match admission {
                Admission::Drop(reason) => self.drop_head(now, from, output.port, reason),
                Admission::Room | Admission::Full => self.move_head(now, from, output),
            }
            return;
        }
        pending_copies.remove(output.port);
        let was_last = pending_copies.is_empty();
        match admission {
            Admission::Drop(reason) => {
                self.copies_made += 1;
                self.count_drop(output.port, reason, None);
            }
            Admission::Room | Admission::Full => self.copy_head(now, from, output),
        }
        if was_last {
            self.heads[index] = Head::Free;
            self.finish_head(now, from);
        }
    }

    /// Moves a unicast head into an output VL.
    #[inline]
    fn move_head(&mut self, now: Time, from: PortVl, output: PortVl) {
        let Some(packet) = self.ports[from.port.index() - 1].take(from.vl) else {
            return;
        };
        let tail = self.crossed_at(now, &packet);
        self.release_buffer(now, from, packet.blocks(), tail);
        let port = &mut self.ports[output.port.index() - 1];
        port.enqueue_crossed(now, output.vl, packet, now, tail);
    }

    /// Puts a copy of a multicast head into an output VL.
    fn copy_head(&mut self, now: Time, from: PortVl, output: PortVl) {
        let Some(head) = self.ports[from.port.index() - 1].input(from.vl) else {
            return;
        };
        let tail = self.crossed_at(now, head);
        let copy = head.share(&mut self.pool);
        self.copies_made += 1;
        let port = &mut self.ports[output.port.index() - 1];
        port.enqueue_crossed(now, output.vl, copy, now, tail);
    }

    /// Removes a multicast head that has gone to all its ports.
    fn finish_head(&mut self, now: Time, from: PortVl) {
        let Some(packet) = self.ports[from.port.index() - 1].take(from.vl) else {
            return;
        };
        self.replicated += 1;
        let tail = self.crossed_at(now, &packet);
        self.release_buffer(now, from, packet.blocks(), tail);
        packet.release(&mut self.pool);
    }

    /// When the last byte of a packet that enters the crossbar now comes out: when it has come in
    /// and when the crossbar has had time for all of it. As on a link, the VCRC counts if the
    /// ports' configuration says so.
    #[inline]
    fn crossed_at(&self, now: Time, packet: &Packet) -> Time {
        let ps_per_byte = self.timing.crossbar_ps_per_byte;
        if ps_per_byte == 0 {
            return packet.tail;
        }
        let vcrc = if self.port_config.vcrc_takes_time {
            0
        } else {
            wire::packet::VCRC_LEN
        };
        let bytes = u64_of(packet.bytes() - vcrc);
        packet
            .tail
            .max(now + bytes.saturating_mul(ps_per_byte) / 1000)
    }

    /// Frees the buffer of a packet that leaves its input VL, now or when its tail has left.
    #[inline]
    fn release_buffer(&mut self, now: Time, from: PortVl, blocks: u16, tail: Time) {
        if tail <= now {
            self.ports[from.port.index() - 1].free(from.vl, blocks);
        } else {
            let index = self.index(from);
            self.heads[index] = Head::Timed;
            self.timers.push(tail, from, Due::Through(blocks));
        }
    }

    /// Drops the head of an input VL; `counter_port` is the port that counts it.
    fn drop_head(&mut self, now: Time, from: PortVl, counter_port: PortNum, reason: DropReason) {
        let Some(packet) = self.ports[from.port.index() - 1].take(from.vl) else {
            return;
        };
        self.count_drop(counter_port, reason, packet.traffic_kind(&self.pool));
        self.release_buffer(now, from, packet.blocks(), packet.tail);
        packet.release(&mut self.pool);
    }

    /// Counts the drop of a packet at a port, at port 0 if it is no external one; `kind` if it is of the hosts' traffic, which knows no
    /// multicast.
    pub(crate) fn count_drop(
        &mut self,
        port: PortNum,
        reason: DropReason,
        kind: Option<TrafficKind>,
    ) {
        trace!(port = port.get(), reason = reason.name(), "packet dropped");
        match self.port_mut(port) {
            Some(port) => port.counts_mut().drop_packet(reason, kind),
            None => self.own_counts.drop_packet(reason, kind),
        }
    }

    /// Moves a head that is for port 0 to the inbox.
    fn deliver(&mut self, now: Time, from: PortVl) {
        if self.inbox.len() >= INBOX_MAX {
            self.drop_head(now, from, from.port, DropReason::ReceiverFull);
            return;
        }
        if let Some(packet) = self.ports[from.port.index() - 1].take(from.vl) {
            self.release_buffer(now, from, packet.blocks(), packet.tail);
            self.inbox.push_back((from.port, packet));
        }
    }

    /// Runs the timers that are due.
    pub(crate) fn run_timers(&mut self, now: Time) {
        while let Some((from, due)) = self.timers.take(now) {
            if let Due::Through(blocks) = due {
                self.ports[from.port.index() - 1].free(from.vl, blocks);
            }
            let index = self.index(from);
            self.heads[index] = Head::Free;
            self.advance(now, from);
        }
    }

    /// Forwards packets that have arrived on the data VLs of a port.
    pub(crate) fn advance_arrived(&mut self, now: Time, port: PortNum) {
        let mut vls = self.ports[port.index() - 1].arrived() & !(1 << Vl::MANAGEMENT.get());
        while let Some(vl) = Vl::lowest(vls) {
            vls &= vls - 1;
            self.advance(now, PortVl { port, vl });
        }
    }
}
