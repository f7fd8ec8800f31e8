//! From VL output queues to a frame: the order of packets, under credits and pacing.

use wire::{Delimiter, FlowOp, Format, Lrh, RecordKind, Training, Vl};

use crate::credits::flow_control_packet;
use crate::port::Port;
use crate::vl_buffer::VlBuffers;
use crate::{FrameBuf, Pool, PortState, Time};

/// A VL without credits repeats its credit update this many times a keep-alive.
const STARVED_UPDATE_FRACTION: u64 = 16;
/// Keep-alives fall on multiples of this fraction of their interval, so that a device's ports wake
/// it together.
const KEEPALIVE_GRID: u64 = 4;

/// When a port is to be polled next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollTimes {
    /// From when on [`Port::transmit`] would put something into a frame; [`Time::NEVER`]: never.
    pub ready_at: Time,
    /// When [`Port::tick`] is due; [`Time::NEVER`]: never.
    pub due_at: Time,
}

impl Port {
    /// Whether [`Port::transmit`] would now put something into a frame.
    #[inline]
    #[must_use]
    pub fn is_ready(&self, now: Time) -> bool {
        self.ready_at() <= now
    }

    /// From when on [`Port::transmit`] would put something into a frame, if nothing else happens;
    /// [`Time::NEVER`] if it never would.
    #[inline]
    #[must_use]
    pub fn ready_at(&self) -> Time {
        if self.training.is_up() {
            self.poll_times_up().ready_at
        } else {
            self.poll_times_down().ready_at
        }
    }

    /// When [`Port::transmit`] and [`Port::tick`] are to be called next: [`Port::ready_at`] and the
    /// moment of [`Port::deadline`], computed together.
    #[inline]
    #[must_use]
    pub fn poll_times(&self) -> PollTimes {
        if self.training.is_up() {
            self.poll_times_up()
        } else {
            self.poll_times_down()
        }
    }

    #[inline]
    fn poll_times_up(&self) -> PollTimes {
        let update_at = self.full_update_at.min(self.training.next_at());
        let mut times = PollTimes {
            ready_at: update_at,
            due_at: update_at.min(self.training.silence_deadline_up()),
        };
        if self.waiting != 0 || self.management_waits {
            times = self.poll_times_of_packets(times);
        }
        if self.updates_due != 0 {
            times.ready_at = Time::ZERO;
        }
        if let Some((_, _, gone_at)) = self.leaving {
            times.due_at = times.due_at.min(gone_at);
        }
        times
    }

    /// The same where packets wait.
    #[inline]
    fn poll_times_of_packets(&self, mut times: PollTimes) -> PollTimes {
        if self.has_starved_vl() {
            times.ready_at = times.ready_at.min(self.starved_update_at);
            times.due_at = times.due_at.min(self.starved_update_at);
        }
        if self.has_sendable() {
            times.ready_at = times.ready_at.min(self.pacer.open_at());
            if self.pacer.is_paced() {
                times.due_at = times.due_at.min(self.pacer.wake_at());
            }
        }
        if self.waiting != 0 && self.has_lifetimes() {
            times.due_at = times.due_at.min(self.expires_at());
        }
        times
    }

    #[cold]
    fn poll_times_down(&self) -> PollTimes {
        let updates = self.updates_due != 0 && self.training.is_configured();
        let next_at = self.training.next_at();
        PollTimes {
            ready_at: if self.link_down_pending || updates {
                Time::ZERO
            } else {
                next_at
            },
            due_at: next_at.min(self.training.silence_deadline()),
        }
    }

    /// Fills a frame: link control first, then packets in the order of the arbiter, under credits
    /// and pacing, as far as the frame has room. Returns how many records were added.
    pub fn transmit(&mut self, now: Time, frame: &mut FrameBuf<'_>, pool: &mut Pool) -> usize {
        let before = frame.records();
        self.begin_frame(now, frame);
        while self.send_next(now, frame, pool).is_some() {}
        frame.records() - before
    }

    /// Puts link control that is due into a frame: the first step of [`Port::transmit`], for a
    /// device that refills the VL output queues between the packets.
    #[inline]
    pub fn begin_frame(&mut self, now: Time, frame: &mut FrameBuf<'_>) {
        self.settle(now);
        if self.link_down_pending && frame.push_record(RecordKind::LinkDown, 0).is_some() {
            self.link_down_pending = false;
        }
        if self.training.next_at() <= now {
            self.push_training(now, frame);
            if self.training.is_configured() {
                // The peer may be where this port is: only flow control is missing.
                self.updates_due = self.all_vls();
            }
        }
        if !self.training.is_configured() {
            return;
        }
        let mut vls = self.updates_due;
        if self.full_update_at <= now || self.takes_keepalive_along(now) {
            vls = self.all_vls();
            self.full_update_at = self.keepalive_after(now);
        }
        if self.has_starved_vl() && self.starved_update_at <= now {
            vls |= self.waiting & !self.sendable;
            self.starved_update_at = now + self.starved_update_ns();
        }
        if self.has_sendable() {
            vls |= self.piggyback_vls();
        }
        if vls != 0 {
            self.push_credit_updates(vls, frame);
        }
    }

    /// Puts the next packet into a frame and returns its VL; `None` if nothing is to be sent, no
    /// credits or pacing let it go, or it does not fit.
    #[inline]
    pub fn send_next(
        &mut self,
        now: Time,
        frame: &mut FrameBuf<'_>,
        pool: &mut Pool,
    ) -> Option<Vl> {
        if !self.pacer.is_open(now) {
            return None;
        }
        if self.management_waits
            && let Some(packet) = self.management_out.front()
        {
            let out = frame.push_record(RecordKind::Data, packet.bytes())?;
            packet.emit(pool, out);
            let packet = self.management_out.pop_front()?;
            self.management_waits = !self.management_out.is_empty();
            self.sent(now, packet.lrh, packet.tail, frame);
            packet.release(pool);
            self.answer_sent(now, pool);
            return Some(Vl::MANAGEMENT);
        }
        if self.sendable == 0 || !self.state.sends_data() {
            return None;
        }
        let vl = self.arbiter.pick(self.sendable)?;
        let buffer = &mut self.vl_buffers[vl.index()].output;
        let packet = buffer.head()?;
        let (lrh, tail) = (packet.lrh, packet.tail);
        let bytes = lrh.packet_bytes();
        match packet.handed() {
            Some(handed) => frame.hand(handed).then_some(())?,
            None => {
                let out = frame.push_record(RecordKind::Data, bytes)?;
                packet.emit(pool, out);
            }
        }
        let blocks = packet.blocks();
        buffer.credits.spend(blocks);
        pool.release(buffer.pop_payload(now)?);
        let gone_at = self.sent(now, lrh, tail, frame);
        if gone_at > now && self.pacer.is_exact() {
            self.leaving = Some((vl, blocks, gone_at));
        } else {
            self.vl_buffers[vl.index()].output.free(blocks);
        }
        self.arbiter.spend(bytes);
        self.refresh(vl);
        self.note_stall(now);
        Some(vl)
    }

    /// Frees the buffer of the packet whose last byte has left by `now`.
    #[inline]
    pub(super) fn settle(&mut self, now: Time) {
        if let Some((vl, blocks, gone_at)) = self.leaving
            && gone_at <= now
        {
            self.leaving = None;
            self.vl_buffers[vl.index()].output.free(blocks);
        }
    }

    /// Counts a packet that has been put into a frame, whose last byte comes in at `tail`. Returns when
    /// that leaves.
    #[inline]
    fn sent(&mut self, now: Time, lrh: Lrh, tail: Time, frame: &mut FrameBuf<'_>) -> Time {
        let gone_at = self.pacer.spend(now, lrh.packet_bytes(), tail);
        frame.set_tail(gone_at);
        let spec = &mut self.counts.spec;
        spec.xmit_pkts += 1;
        spec.xmit_data_words += u64::from(lrh.pkt_len_words);
        if lrh.vl == Vl::MANAGEMENT {
            spec.vl15_xmit_pkts += 1;
            spec.vl15_xmit_data_words += u64::from(lrh.pkt_len_words);
        }
        if lrh.dlid.is_multicast() {
            spec.multicast_xmit_pkts += 1;
        } else {
            spec.unicast_xmit_pkts += 1;
        }
        self.counts.details.count_sent(&lrh);
        gone_at
    }

    fn push_training(&mut self, now: Time, frame: &mut FrameBuf<'_>) {
        let Some(out) = frame.push_record(RecordKind::Training, Training::LEN) else {
            return;
        };
        let rates = self.offer_rates();
        let (epoch, heard_epoch) = self.training.record(now);
        Training {
            rates,
            guid: self.config.node_guid,
            port: self.number,
            epoch,
            heard_epoch,
        }
        .emit(out);
    }

    /// Puts the credit updates of `vls` into the frame; those that do not fit stay due.
    fn push_credit_updates(&mut self, vls: u16, frame: &mut FrameBuf<'_>) {
        let op = match self.state {
            PortState::Down | PortState::Init => FlowOp::Init,
            PortState::Armed | PortState::Active => FlowOp::Normal,
        };
        self.updates_due |= vls;
        let mut vls = self.updates_due;
        while let Some(vl) = Vl::lowest(vls) {
            let bit = 1 << vl.get();
            vls &= !bit;
            let Some(VlBuffers { input, output }) = self.vl_buffers.get_mut(vl.index()) else {
                return;
            };
            if !frame.fits(Delimiter::LEN + wire::FlowControl::LEN) {
                return;
            }
            let packet = flow_control_packet(op, vl, &output.credits, &mut input.credits);
            frame.push_credits(packet);
            self.counts.details.xmit_flow_pkts += 1;
            self.updates_due &= !bit;
        }
    }

    #[inline]
    pub(super) fn has_sendable(&self) -> bool {
        self.management_waits
            || (self.sendable & self.arbiter.weighted_vls() != 0 && self.state.sends_data())
    }

    #[inline]
    pub(super) fn has_starved_vl(&self) -> bool {
        self.waiting & !self.sendable != 0 && self.state.sends_data()
    }

    fn starved_update_ns(&self) -> u64 {
        self.config.timeouts.keepalive_ns / STARVED_UPDATE_FRACTION
    }

    fn all_vls(&self) -> u16 {
        (1 << self.config.vls) - 1
    }

    #[inline]
    fn piggyback_vls(&self) -> u16 {
        let mut vls = u16::from(self.vl_buffers[0].input.credits.should_piggyback());
        for vl in 1..self.config.vls {
            let buffer = &self.vl_buffers[usize::from(vl)];
            vls |= u16::from(buffer.input.credits.should_piggyback()) << vl;
        }
        vls
    }

    /// Whether a frame that packets are about to fill takes the next keep-alive along, which is not due yet: a link that carries
    /// something now and then wakes nobody for keep-alives alone.
    #[inline]
    fn takes_keepalive_along(&self, now: Time) -> bool {
        let half_ns = self.config.timeouts.keepalive_ns / 2;
        self.full_update_at <= now + half_ns && self.has_sendable() && self.pacer.is_open(now)
    }

    /// The keep-alive after one at `now`: not later than the interval, on the grid. Each node has
    /// a grid of its own, or a whole fabric would wake at once.
    fn keepalive_after(&self, now: Time) -> Time {
        let interval = self.config.timeouts.keepalive_ns;
        let grid = (interval / KEEPALIVE_GRID).max(1);
        let scattered = self.config.node_guid.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let offset = (scattered >> 32) % grid;
        let latest = now + interval;
        Time((latest - offset).0 / grid * grid) + offset
    }
}
