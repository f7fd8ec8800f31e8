//! The packets in a port: what has come in and the device takes, what the device gives to be sent.

use wire::control::{LaneStatus, PortLanes};
use wire::{Mtu, TrafficKind, Vl};

use crate::config::blocks;
use crate::port::{Admission, Port, Refusal};
use crate::vl_buffer::VlBuffers;
use crate::{DropReason, Packet, Pool, Time};

/// The counters `queued.KIND` of a device: its packets of the hosts' traffic by kind
/// ([`TrafficKind::index`]). Kinds without packets are left out.
pub fn queued_counters(queued: [u64; TrafficKind::COUNT]) -> impl Iterator<Item = (String, u64)> {
    let queued = TrafficKind::ALL.into_iter().zip(queued);
    let queued = queued.filter(|&(_, count)| count > 0);
    queued.map(|(kind, count)| (format!("queued.{}", kind.name()), count))
}

impl Port {
    // VL input buffers: what the device takes.

    /// The VLs with a packet in their input buffer: bit n for VL n, bit 15 for VL15.
    #[inline]
    #[must_use]
    pub fn arrived(&self) -> u16 {
        self.arrived
    }

    /// The packet at the head of a VL's input buffer.
    #[inline]
    #[must_use]
    pub fn input(&self, vl: Vl) -> Option<&Packet> {
        match self.vl_buffers.get(vl.index()) {
            Some(buffer) => buffer.input.queue.front(),
            None if vl == Vl::MANAGEMENT => self.management_in.front(),
            None => None,
        }
    }

    /// Takes the packet at the head of a VL's input buffer. Its blocks stay taken until
    /// [`Port::free`].
    #[inline]
    pub fn take(&mut self, vl: Vl) -> Option<Packet> {
        let (packet, is_last) = match self.vl_buffers.get_mut(vl.index()) {
            Some(buffer) => (
                buffer.input.queue.pop_front(),
                buffer.input.queue.is_empty(),
            ),
            None if vl == Vl::MANAGEMENT => (
                self.management_in.pop_front(),
                self.management_in.is_empty(),
            ),
            None => return None,
        };
        if is_last {
            self.arrived &= !(1 << vl.get());
        }
        packet
    }

    /// Frees the blocks of a packet that was taken from a VL: the peer may send as many more.
    #[inline]
    pub fn free(&mut self, vl: Vl, blocks: u16) {
        if let Some(buffer) = self.vl_buffers.get_mut(vl.index()) {
            buffer.input.credits.release(blocks);
            if buffer.input.credits.needs_update() {
                self.updates_due |= 1 << vl.get();
            }
        }
    }

    /// Takes the packet at the head of a VL's input buffer and frees its blocks.
    #[inline]
    pub fn consume(&mut self, vl: Vl) -> Option<Packet> {
        let packet = self.take(vl)?;
        self.free(vl, packet.blocks());
        Some(packet)
    }

    // VL output queues: what the device gives.

    /// Whether a packet of `bytes` (LRH to VCRC) would be taken on VL `vl`.
    #[inline]
    #[must_use]
    pub fn admits(&self, vl: Vl, bytes: usize) -> Admission {
        if vl == Vl::MANAGEMENT {
            return if !self.state.passes_management() {
                Admission::Drop(DropReason::OutputInactive)
            } else if self.management_out.len() < self.config.vl15_packets {
                Admission::Room
            } else {
                Admission::Full
            };
        }
        if !self.state.sends_data() {
            return Admission::Drop(DropReason::OutputInactive);
        }
        if vl.get() >= self.operational_vls {
            return Admission::Drop(DropReason::OutputVl);
        }
        if bytes > usize::from(self.neighbor_mtu.bytes()) + Mtu::OVERHEAD_MAX {
            return Admission::Drop(DropReason::NeighborMtu);
        }
        if self.vl_buffers[vl.index()].output.has_room(blocks(bytes)) {
            Admission::Room
        } else {
            Admission::Full
        }
    }

    /// Puts a packet into the output queue of VL `vl`, whose room [`Port::admits`] has shown.
    #[inline]
    pub fn enqueue(&mut self, now: Time, vl: Vl, packet: Packet) {
        let (head, tail) = (packet.head, packet.tail);
        self.enqueue_crossed(now, vl, packet, head, tail);
    }

    /// The same for a packet that has passed a crossbar: its first byte can be sent on at `head`, its
    /// last comes out at `tail`.
    #[inline(always)]
    pub fn enqueue_crossed(&mut self, now: Time, vl: Vl, packet: Packet, head: Time, tail: Time) {
        // Changed where it lies: a packet of which parts have just been written is slow to move.
        let packet = if vl == Vl::MANAGEMENT {
            self.management_out.push_back_mut(packet)
        } else {
            self.vl_buffers[vl.index()].output.push(now, packet)
        };
        packet.set_vl(vl);
        packet.head = head;
        packet.tail = tail;
        if vl == Vl::MANAGEMENT {
            self.management_waits = true;
            return;
        }
        self.refresh(vl);
        self.note_stall(now);
    }

    /// Puts a packet into the output queue of VL `vl`, if it is taken.
    ///
    /// # Errors
    /// [`Refusal::Full`] with the packet where there is no room now, [`Refusal::Dropped`] where it
    /// was dropped and counted.
    pub fn offer(
        &mut self,
        now: Time,
        vl: Vl,
        packet: Packet,
        pool: &mut Pool,
    ) -> Result<(), Refusal> {
        match self.admits(vl, packet.bytes()) {
            Admission::Room => {
                self.enqueue(now, vl, packet);
                Ok(())
            }
            Admission::Full => Err(Refusal::Full(packet)),
            Admission::Drop(reason) => {
                packet.discard(pool, &mut self.counts, reason);
                Err(Refusal::Dropped(reason))
            }
        }
    }

    /// Gives memory of buffers and queues that have been long back.
    pub fn release_memory(&mut self) {
        for VlBuffers { input, output } in self.vl_buffers.iter_mut() {
            input.queue.release_memory();
            output.release_memory();
        }
        self.management_in.shrink_to_fit();
        self.management_out.shrink_to_fit();
    }

    /// How many packets of the hosts' traffic are in the port's buffers and queues, by kind
    /// ([`TrafficKind::index`]). Looks into each packet: for reports.
    #[must_use]
    pub fn queued_traffic(&self, pool: &Pool) -> [u64; TrafficKind::COUNT] {
        let mut queued = [0; TrafficKind::COUNT];
        let buffers = self.vl_buffers.iter();
        let packets =
            buffers.flat_map(|buffer| buffer.input.queue.iter().chain(buffer.output.packets()));
        for kind in packets.filter_map(|packet| packet.traffic_kind(pool)) {
            queued[kind.index()] += 1;
        }
        queued
    }

    /// Whether a VL's output queue is empty.
    #[must_use]
    pub fn is_idle(&self, vl: Vl) -> bool {
        match self.vl_buffers.get(vl.index()) {
            Some(buffer) => buffer.output.is_empty(),
            None => self.management_out.is_empty(),
        }
    }

    /// The blocks that the peer's buffer still takes on a data VL.
    #[inline]
    #[must_use]
    pub fn credits(&self, vl: Vl) -> u16 {
        self.vl_buffers
            .get(vl.index())
            .map_or(0, |buffer| buffer.output.credits.available())
    }

    /// The blocks that the input buffer of a data VL has.
    #[inline]
    #[must_use]
    pub fn buffer_blocks(&self, vl: Vl) -> u32 {
        let buffer = self.vl_buffers.get(vl.index());
        buffer.map_or(0, |buffer| buffer.input.credits.free_of().1)
    }

    /// What is in the buffers and queues of the port's operational data VLs, and their credits.
    #[must_use]
    pub fn lanes(&self) -> PortLanes {
        let buffers = self.vl_buffers.iter().take(self.operational_vls.into());
        let details = &self.counts.details;
        let words = details.by_level(|level| level.xmit_words_of_vl);
        let waits = details.by_level(|level| level.xmit_wait_ns_of_vl);
        let counted = words.into_iter().zip(waits);
        let lanes = buffers.zip(counted).map(|(buffer, (words, wait_ns))| {
            let (free, input_capacity) = buffer.input.credits.free_of();
            let (output_used, output_capacity) = buffer.output.used_of();
            LaneStatus {
                input_used: input_capacity - free,
                input_capacity,
                output_used,
                output_capacity,
                credits: buffer.output.credits.available(),
                xmit_words: words,
                xmit_wait_ns: wait_ns,
            }
        });
        PortLanes {
            port: self.number,
            lanes: lanes.collect(),
        }
    }

    /// Recomputes whether a data VL waits and may send.
    #[inline]
    pub(super) fn refresh(&mut self, vl: Vl) {
        let bit = 1 << vl.get();
        let buffer = &self.vl_buffers[vl.index()].output;
        self.waiting = (self.waiting & !bit) | if buffer.is_empty() { 0 } else { bit };
        self.sendable = (self.sendable & !bit) | if buffer.can_send() { bit } else { 0 };
    }
}
