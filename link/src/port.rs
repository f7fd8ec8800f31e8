//! One port: reception, transmission and the state of the link.
//!
//! ```text
//!             receive                                        offer, enqueue
//!  frame ---> checks ---> VL input buffers ---> the device ---> VL output queues ---> arbiter --> frame
//!                ^          | freed blocks                                           | credits, pacing
//!                |          v                                                        v
//!  frame ---> training, flow control <------------------------------------> flow control
//! ```
//!
//! A device owns its ports and one [`Pool`] for their packets. It hands received frames to
//! [`Port::receive`], takes packets from the VL input buffers ([`Port::arrived`], [`Port::input`],
//! [`Port::take`], [`Port::free`]), puts packets into the VL output queues ([`Port::offer`]) and lets
//! the port fill frames ([`Port::transmit`]). Time passes by [`Port::tick`]; [`Port::deadline`]
//! says when.

mod receive;
mod supervise;
#[cfg(test)]
mod tests;
mod transmit;

use std::collections::VecDeque;

use wire::{Guid, Mtu, PortNum, TrafficKind, Vl};

pub use receive::Arrival;
pub use supervise::SetState;
pub use transmit::PollTimes;

use crate::config::blocks;
use crate::pacing::Pacer;
use crate::training::Training;
use crate::vl_buffer::{VlBuffer, VlBuffers, VlQueue};
use crate::{
    Arbiter, ConfigError, Counts, DropReason, Packet, PhysicalState, Pool, PortConfig, PortState,
    SlToVl, Time,
};

/// How many events a port keeps for its device; beyond, the newest is merged into the last.
const EVENTS_MAX: usize = 16;

/// An event of a port, for its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortEvent {
    /// The logical state has changed.
    StateChanged {
        /// The state before.
        from: PortState,
        /// The state now.
        to: PortState,
        /// The cause.
        cause: Cause,
    },
}

/// The cause of a change of a port's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The link: cable, peer, silence. IBA 14.3.7 wants a trap for it (from a switch).
    Link,
    /// Management set it.
    Management,
    /// A data packet came in while the port was armed.
    Data,
}

/// The port at the other end of the cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// GUID of its node.
    pub guid: Guid,
    /// Its number there.
    pub port: PortNum,
}

/// Why a port did not take a packet to send.
#[derive(Debug)]
pub enum Refusal {
    /// The VL's queue has no room now; here is the packet.
    Full(Packet),
    /// The port will not take such a packet; it has been counted and dropped.
    Dropped(DropReason),
}

/// Whether a port would take a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It has room.
    Room,
    /// Not now.
    Full,
    /// It must be dropped.
    Drop(DropReason),
}

/// One port of a device.
///
/// The fields stand in the order of how often they are looked at, and in that order in memory: a
/// packet that goes through a port touches its first few cache lines and its VL, and what
/// management writes lies behind.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Port {
    /// VLs with something in their input buffers; bit 15 is VL15.
    arrived: u16,
    /// Data VLs with something in their output queues.
    waiting: u16,
    /// Those of them that have credits for it.
    sendable: u16,
    /// VLs whose credit update is due now.
    updates_due: u16,

    number: PortNum,
    state: PortState,
    operational_vls: u8,
    neighbor_mtu: Mtu,
    /// The transport sees the cable's other end.
    carrier: bool,
    /// The local control side has the cable plugged.
    plugged: bool,
    /// Management has the port switched on.
    enabled: bool,
    /// A link-down record is still to be sent.
    link_down_pending: bool,

    /// When credit updates of all VLs are due.
    full_update_at: Time,
    /// When VLs without credits repeat their update, in case packets were lost.
    starved_update_at: Time,
    training: Training,
    arbiter: Arbiter,
    vl_buffers: Box<[VlBuffers]>,
    head_life_ns: u64,
    device_life_ns: u64,
    pacer: Pacer,
    /// Where time is exact: VL and blocks of the packet on its way out, and when it has left.
    leaving: Option<(Vl, u16, Time)>,
    /// Since when data waits and no credit lets any of it go.
    stalled_since: Option<Time>,
    management_out: VecDeque<Packet>,
    counts: Counts,
    sl_to_vl: SlToVl,

    config: PortConfig,
    management_in: VecDeque<Packet>,
    events: VecDeque<PortEvent>,
    /// The sender of the last training record.
    peer: Option<Peer>,
}

impl Port {
    /// A port without a cable: [`Port::set_carrier`] plugs one in. `ports_in` is the highest port
    /// number that packets leaving here can have come in on: the last port of a switch, 0 for a
    /// channel adapter.
    ///
    /// # Errors
    /// [`ConfigError`]: which setting is out of range.
    pub fn new(number: PortNum, config: PortConfig, ports_in: u8) -> Result<Self, ConfigError> {
        config.check()?;
        let packet = blocks(config.packet_bytes_max());
        let output_blocks = u32::from(blocks(config.output_bytes)).max(u32::from(packet));
        let vls = 0..config.vls;
        Ok(Self {
            number,
            training: Training::new(config.epoch_seed, config.timeouts),
            state: PortState::Down,
            carrier: false,
            plugged: true,
            enabled: true,
            link_down_pending: false,
            peer: None,
            vl_buffers: vls
                .map(|_| VlBuffers {
                    input: VlBuffer::new(config.buffer_blocks(), packet),
                    output: VlQueue::new(output_blocks),
                })
                .collect(),
            management_in: VecDeque::new(),
            arrived: 0,
            management_out: VecDeque::new(),
            waiting: 0,
            sendable: 0,
            leaving: None,
            stalled_since: None,
            updates_due: 0,
            full_update_at: Time::NEVER,
            starved_update_at: Time::ZERO,
            operational_vls: config.vls,
            neighbor_mtu: config.mtu,
            head_life_ns: u64::MAX,
            device_life_ns: u64::MAX,
            arbiter: Arbiter::new(config.vls),
            sl_to_vl: SlToVl::new(ports_in, config.vls),
            pacer: Pacer::new(&config),
            counts: Counts::default(),
            events: VecDeque::new(),
            config,
        })
    }

    /// The port's number.
    #[must_use]
    pub fn number(&self) -> PortNum {
        self.number
    }

    /// The configuration that the port was built with.
    #[must_use]
    pub fn config(&self) -> &PortConfig {
        &self.config
    }

    /// The logical state.
    #[inline]
    #[must_use]
    pub fn state(&self) -> PortState {
        self.state
    }

    /// The state of the physical link.
    #[must_use]
    pub fn physical(&self) -> PhysicalState {
        self.training.physical()
    }

    /// The number of the present link-up, never 0: transports may carry it so that a restarted
    /// peer is never taken for the one before.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.training.epoch()
    }

    /// The port at the other end of the cable, as far as a link has come up or is coming up.
    #[must_use]
    pub fn peer(&self) -> Option<Peer> {
        self.peer.filter(|_| self.training.has_peer())
    }

    /// Counters and drops.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Counters and drops, for the device's own drops and for clearing.
    pub fn counts_mut(&mut self) -> &mut Counts {
        &mut self.counts
    }

    /// Data VLs in use, 1..=15.
    #[must_use]
    pub fn operational_vls(&self) -> u8 {
        self.operational_vls
    }

    /// Sets how many data VLs are in use; the port has no more than it was built with.
    pub fn set_operational_vls(&mut self, vls: u8) {
        self.operational_vls = vls.clamp(1, self.config.vls);
    }

    /// The largest payload that may be sent.
    #[must_use]
    pub fn neighbor_mtu(&self) -> Mtu {
        self.neighbor_mtu
    }

    /// Sets the largest payload that may be sent, at most the port's own MTU.
    pub fn set_neighbor_mtu(&mut self, mtu: Mtu) {
        self.neighbor_mtu = mtu.min(self.config.mtu);
    }

    /// Sets how long a packet may be at the head of an output queue (HOQLife), in nanoseconds of
    /// link-layer time; `None`: for ever.
    pub fn set_head_of_queue_life_ns(&mut self, life_ns: Option<u64>) {
        self.head_life_ns = life_ns.map_or(u64::MAX, |ns| self.config.pacing.scale_ns(ns));
    }

    /// Sets how long a packet may be in the device, in nanoseconds of link-layer time; `None`: for
    /// ever.
    pub fn set_device_life_ns(&mut self, life_ns: Option<u64>) {
        self.device_life_ns = life_ns.map_or(u64::MAX, |ns| self.config.pacing.scale_ns(ns));
    }

    /// Whether a packet that entered the device at `entered` has outlived its limit.
    #[inline]
    #[must_use]
    pub fn has_outlived(&self, now: Time, entered: Time) -> bool {
        entered + self.device_life_ns <= now
    }

    /// The VL arbitration tables.
    #[must_use]
    pub fn arbiter(&self) -> &Arbiter {
        &self.arbiter
    }

    /// The VL arbitration tables, to be written.
    pub fn arbiter_mut(&mut self) -> &mut Arbiter {
        &mut self.arbiter
    }

    /// The SL-to-VL rows of packets that leave here.
    #[inline]
    #[must_use]
    pub fn sl_to_vl(&self) -> &SlToVl {
        &self.sl_to_vl
    }

    /// The SL-to-VL rows, to be written.
    pub fn sl_to_vl_mut(&mut self) -> &mut SlToVl {
        &mut self.sl_to_vl
    }

    /// The next event, oldest first.
    pub fn poll_event(&mut self) -> Option<PortEvent> {
        self.events.pop_front()
    }

    fn push_event(&mut self, event: PortEvent) {
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(event);
            return;
        }
        let PortEvent::StateChanged { to, cause, .. } = event;
        if let Some(PortEvent::StateChanged {
            to: last_to,
            cause: last_cause,
            ..
        }) = self.events.back_mut()
        {
            *last_to = to;
            *last_cause = cause;
        }
    }

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
            return Admission::Drop(DropReason::SlToVl);
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
    pub fn enqueue(&mut self, now: Time, vl: Vl, mut packet: Packet) {
        packet.set_vl(vl);
        if vl == Vl::MANAGEMENT {
            self.management_out.push_back(packet);
            return;
        }
        self.vl_buffers[vl.index()].output.push(now, packet);
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
        for VlBuffers { input, output } in &mut self.vl_buffers {
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
    #[must_use]
    pub fn credits(&self, vl: Vl) -> u16 {
        self.vl_buffers
            .get(vl.index())
            .map_or(0, |buffer| buffer.output.credits.available())
    }

    /// Recomputes whether a data VL waits and may send.
    #[inline]
    fn refresh(&mut self, vl: Vl) {
        let bit = 1 << vl.get();
        let buffer = &self.vl_buffers[vl.index()].output;
        self.waiting = (self.waiting & !bit) | if buffer.is_empty() { 0 } else { bit };
        self.sendable = (self.sendable & !bit) | if buffer.can_send() { bit } else { 0 };
    }
}
