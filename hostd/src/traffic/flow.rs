//! One flow at its source: when it may send, and what its sink has reported.

use link::Time;
use transport::{DirectQp, DirectSend, Engine, Partition, Prepared, SendDrop};
use wire::convert::saturate;
use wire::{Format, GlobalRoute, Lid, Qpn, TrafficKind, Vl};

use super::queries::Patience;
use crate::control::{FlowReport, FlowState, Latency, PerfRequest, SERVICE_QKEY, SINK_QPN};
use crate::service::{FlowHead, SinkCounts};

/// A running flow whose sink has been silent for so long queries it.
const QUERY_NS: u64 = 500_000_000;
/// A flow that drains, or that has a number of packets and no other end than its last one, is abandoned when its sink has been
/// silent for so long: in a fabric without other traffic that is seven queries.
const SILENCE_NS: u64 = 15_750_000_000;
/// But not before so many queries have had no reply.
const QUERIES_MIN: u32 = 3;
/// Bytes of a packet besides its payload: LRH, BTH, DETH, ICRC, VCRC.
const OVERHEAD: usize = 34;
/// Those of a GRH.
const GRH: usize = 40;
const PS_PER_S: u128 = 1_000_000_000_000;

/// What the packets of a flow to a multicast group have that others have not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToGroup {
    pub(crate) global: GlobalRoute,
    pub(crate) qkey: u32,
    pub(crate) pkey: u16,
}

/// One flow at its source.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) request: PerfRequest,
    pub(super) state: FlowState,
    /// Its packet; number and time are written for each.
    packet: Prepared,
    /// Whether it goes to a multicast group: nobody acknowledges its packets then.
    is_to_group: bool,
    /// What its packets count as; `None` if they go to a queue pair that is no sink.
    pub(super) kind: Option<TrafficKind>,
    pub(super) run: u32,
    ack_every: u16,
    /// The next packet's number: packets sent.
    pub(super) next: u64,
    /// Everything below this number is delivered or lost, as the sink has acknowledged.
    known: u64,
    counts: SinkCounts,
    latency: Latency,
    started: Time,
    ends: Time,
    /// Packets that were due before the end may be sent until this long after it, because a source
    /// sends in bursts.
    grace_ns: u64,
    /// Picoseconds a packet at the flow's rate; 0 without a rate.
    interval_ps: u128,
    /// When the sink last replied, or from when on a reply is awaited.
    last_reply_at: Time,
    queried_at: Time,
    /// Queries since the last reply.
    queries: u32,
    /// Since when it drains.
    drained_at: Time,
    stalls: u64,
    /// Whether it may send at all: a flow that waits for grants may send only with one.
    granted: bool,
    /// What it waits for before it begins: so many flows have not got far enough.
    pub(super) awaited: usize,
    /// Where its packets go now.
    dlid: Lid,
    /// Whether the flow is in a ring of the source.
    pub(super) in_ring: bool,
    /// Whether it is due to query its sink, and waits for its turn.
    pub(super) waits_to_ask: bool,
    /// Its entry in the source's timers.
    pub(super) timer: Option<Time>,
}

/// Fills the payload behind the header with pseudo-random bytes.
fn noise(seed: u64, out: &mut [u8]) {
    let mut state = seed;
    for chunk in out.chunks_mut(8) {
        // SplitMix64: any sequence without a period in sight would do.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        chunk.copy_from_slice(&(word ^ (word >> 31)).to_le_bytes()[..chunk.len()]);
    }
}

/// The packet of a flow, but for what is written for each; `size` is its length, LRH to VCRC.
fn packet_of(
    (request, group): (&PerfRequest, Option<ToGroup>),
    run: u32,
    ack_every: u16,
    size: u16,
    (engine, from): (&Engine, DirectQp),
) -> Result<Prepared, SendDrop> {
    let grh = group.map_or(0, |_| GRH);
    let mut payload = vec![0; usize::from(size) - grh - OVERHEAD];
    noise(request.seed, &mut payload);
    let head = FlowHead {
        kind: TrafficKind::Data,
        ack_every,
        flow: request.flow,
        run,
        sequence: 0,
        sent_at_ns: 0,
    };
    head.emit(&mut payload);
    let send = DirectSend {
        dlid: request.dlid,
        src_path_bits: 0,
        sl: request.sl,
        global: group.map(|group| group.global),
        partition: group.map_or(Partition::First, |group| Partition::Of(group.pkey)),
        dest_qp: request.qpn,
        qkey: group.map_or(SERVICE_QKEY, |group| group.qkey),
        payload: &payload,
    };
    engine.prepare(from, &send)
}

impl Flow {
    /// A flow that starts at `starts`. `size` is the packet's length from LRH to VCRC, already rounded;
    /// `tick_ns` the time between two bursts of its source.
    pub(super) fn new(
        starts: Time,
        (request, group): (PerfRequest, Option<ToGroup>),
        run: u32,
        size: u16,
        tick_ns: u64,
        queue_pair: (&Engine, DirectQp),
    ) -> Result<Self, SendDrop> {
        let ack_every = saturate::<u16>(request.window / 4);
        let bits = u128::from(size) * 8;
        let interval_ps = match request.rate {
            0 => 0,
            rate => (bits * PS_PER_S / u128::from(rate)).max(1),
        };
        // Flows of one rate do not send in step: the first packet's phase is the seed's.
        let phase_ns = u64::try_from(u128::from(request.seed) % (interval_ps / 1000).max(1));
        let ends = match request.duration_ms {
            0 => Time::NEVER,
            ms => starts + u64::from(ms) * 1_000_000,
        };
        Ok(Self {
            state: FlowState::Running,
            kind: (request.qpn == SINK_QPN).then_some(TrafficKind::Data),
            packet: packet_of((&request, group), run, ack_every, size, queue_pair)?,
            is_to_group: group.is_some(),
            run,
            ack_every,
            next: 0,
            known: 0,
            counts: SinkCounts::default(),
            latency: Latency::default(),
            started: starts + phase_ns.unwrap_or(0),
            ends,
            grace_ns: 2 * tick_ns,
            interval_ps,
            last_reply_at: starts,
            queried_at: starts,
            queries: 0,
            drained_at: Time::ZERO,
            stalls: 0,
            granted: true,
            awaited: 0,
            dlid: request.dlid,
            in_ring: false,
            waits_to_ask: false,
            timer: None,
            request,
        })
    }

    /// Packet length, LRH to VCRC.
    pub(super) fn size(&self) -> usize {
        self.packet.packet_len()
    }

    /// Packets that the sink has received, as far as it has said.
    pub(super) fn delivered(&self) -> u64 {
        self.counts.received
    }

    /// When the next packet is due by the rate.
    fn due_ps(&self) -> u128 {
        u128::from(self.started.0) * 1000 + u128::from(self.next) * self.interval_ps
    }

    fn is_window_closed(&self) -> bool {
        self.request.window != 0 && self.next - self.known >= u64::from(self.request.window)
    }

    /// Whether all of its packets are sent, if it has so many and no more.
    pub(super) fn is_count_reached(&self) -> bool {
        self.request.count != 0 && self.next >= self.request.count
    }

    /// Whether the flow has a rate, and its next packet is due before its end.
    fn has_due_packets(&self) -> bool {
        self.interval_ps != 0 && self.due_ps() < u128::from(self.ends.0) * 1000
    }

    /// When sending ends for good.
    fn send_until(&self) -> Time {
        if self.has_due_packets() {
            self.ends + self.grace_ns
        } else {
            self.ends
        }
    }

    /// Whether a packet may go now.
    #[inline]
    pub(super) fn may_send(&self, now: Time) -> bool {
        self.granted
            && self.awaited == 0
            && self.state == FlowState::Running
            && !self.is_window_closed()
            && self.started <= now
            && now < self.send_until()
            && (self.interval_ps == 0 || self.due_ps() <= u128::from(now.0) * 1000)
    }

    /// Writes the next packet, and counts it. The packet and its virtual lane.
    ///
    /// # Errors
    /// [`SendDrop`].
    #[inline]
    pub(super) fn next_packet(
        &mut self,
        now: Time,
        engine: &mut Engine,
    ) -> Result<(&[u8], Vl), SendDrop> {
        let number = self.next;
        if self.next == self.known {
            // Nothing was awaited until now.
            self.last_reply_at = now;
        }
        self.next += 1;
        if self.is_count_reached() {
            self.drain(now);
        }
        engine.send_prepared(&mut self.packet, |payload| {
            payload[FlowHead::SEQUENCE_AT..][..8].copy_from_slice(&number.to_be_bytes());
            payload[FlowHead::SENT_AT..][..8].copy_from_slice(&now.0.to_be_bytes());
        })
    }

    /// Ends sending; packets in flight are still awaited.
    pub(super) fn drain(&mut self, now: Time) {
        if self.state == FlowState::Running {
            self.state = if self.next == 0 || self.is_to_group() || self.is_settled() {
                FlowState::Finished
            } else {
                FlowState::Draining
            };
            self.queries = 0;
            self.drained_at = now;
            self.ends = self.ends.min(now);
        }
    }

    /// Whether the sink has told of all packets, and of all latencies.
    fn is_settled(&self) -> bool {
        self.known == self.next && self.latency.samples == self.counts.received
    }

    /// Whether its packets go to a multicast group.
    fn is_to_group(&self) -> bool {
        self.is_to_group
    }

    /// Abandons the flow.
    pub(super) fn abandon(&mut self, now: Time) {
        self.ends = self.ends.min(now);
        self.state = FlowState::Abandoned;
    }

    /// When the sink is to be queried.
    fn ask_at(&self, patience: Patience) -> Time {
        let heard_at = self.last_reply_at.max(self.drained_at);
        let last = self.last_reply_at.max(self.queried_at);
        match self.state {
            FlowState::Finished | FlowState::Abandoned => Time::NEVER,
            // Only latencies are missing, which nobody sends unasked.
            FlowState::Draining if self.queries == 0 && self.known == self.next => self.drained_at,
            FlowState::Draining if self.queries == 0 => heard_at + patience.drain_ns(),
            FlowState::Draining => self.queried_at + patience.stall_ns(self.queries),
            FlowState::Running if self.next == self.known || self.is_to_group() => Time::NEVER,
            FlowState::Running if self.is_window_closed() => last + patience.stall_ns(self.queries),
            FlowState::Running => last + QUERY_NS,
        }
    }

    /// When a flow that runs can send what it cannot send now. `rate_from`: a packet that is due by the rate waits until
    /// then, so that many go in one burst.
    fn send_at(&self, rate_from: Time) -> Time {
        let waits = !self.granted || self.awaited > 0 || self.is_window_closed();
        if self.in_ring || waits {
            Time::NEVER
        } else if self.interval_ps == 0 {
            // Only its beginning is a matter of time.
            match self.next {
                0 => self.started,
                _ => Time::NEVER,
            }
        } else {
            let due = self.due_ps().div_ceil(1000);
            Time(saturate::<u64>(due)).max(rate_from)
        }
    }

    /// When something is to be done for the flow without input; `rate_from` as for [`Self::send_at`].
    pub(super) fn deadline(&self, rate_from: Time, patience: Patience) -> Option<Time> {
        let ask_at = match self.waits_to_ask {
            true => Time::NEVER,
            false => self.ask_at(patience),
        };
        let at = match self.state {
            FlowState::Running => ask_at.min(self.send_at(rate_from)).min(self.send_until()),
            _ => ask_at,
        };
        (at < Time::NEVER).then_some(at)
    }

    /// Does what is due. Returns whether the sink is to be queried.
    pub(super) fn tick(&mut self, now: Time, patience: Patience) -> bool {
        if self.state == FlowState::Running && self.send_until() <= now {
            self.drain(now);
        }
        self.ask_at(patience) <= now
    }

    /// Queries the sink, or gives up. Returns whether it queries.
    pub(super) fn ask(&mut self, now: Time) -> bool {
        if self.queries >= QUERIES_MIN && self.is_given_up(now) {
            self.abandon(now);
            return false;
        }
        let is_stalled = self.state == FlowState::Running && self.is_window_closed();
        self.stalls += u64::from(is_stalled);
        self.queried_at = now;
        self.queries += 1;
        true
    }

    /// Whether a flow that has asked often enough ends without a reply.
    fn is_given_up(&self, now: Time) -> bool {
        let heard_at = self.last_reply_at.max(self.drained_at);
        let must_end = match self.state {
            FlowState::Draining => true,
            FlowState::Running => self.request.count != 0,
            FlowState::Finished | FlowState::Abandoned => false,
        };
        must_end && heard_at + SILENCE_NS <= now
    }

    /// The header of a query to the sink.
    pub(super) fn query(&self, now: Time) -> FlowHead {
        FlowHead {
            kind: TrafficKind::Query,
            ack_every: self.ack_every,
            flow: self.request.flow,
            run: self.run,
            sequence: self.next,
            sent_at_ns: now.0,
        }
    }

    /// Handles a reply of the sink; that to a query has the latency, an acknowledgement only if it was not urgent.
    /// How long it has taken is what later ones are waited for.
    pub(super) fn handle_reply(
        &mut self,
        now: Time,
        head: &FlowHead,
        counts: SinkCounts,
        latency: Option<Latency>,
        patience: &mut Patience,
    ) {
        let known = head.sequence;
        if known > self.next || counts.received < self.counts.received {
            // Invalid, or older than what is known; unless it answers the last query. Then the sink has
            // been started anew, and will never know more.
            let is_report = head.kind == TrafficKind::Report;
            let is_answer = is_report && head.sent_at_ns == self.queried_at.0;
            let must_end = self.state == FlowState::Draining || self.request.count != 0;
            if must_end && is_answer && known == self.next {
                self.abandon(now);
            }
            return;
        }
        match head.kind {
            TrafficKind::Report => patience.learn(now.since_ns(Time(head.sent_at_ns))),
            _ if self.queries == 0 && self.known < self.next => {
                patience.learn(now.since_ns(self.last_reply_at));
            }
            _ => {}
        }
        self.last_reply_at = now;
        self.queries = 0;
        self.known = self.known.max(known);
        self.counts = counts;
        self.latency = latency.unwrap_or(self.latency);
        if self.state == FlowState::Draining && self.is_settled() {
            self.state = FlowState::Finished;
        }
    }

    /// Packets that rate, count and duration have asked for so far.
    fn offered(&self, now: Time) -> u64 {
        if self.interval_ps == 0 {
            return self.next;
        }
        let until = now.min(self.ends);
        if until < self.started {
            return 0;
        }
        let elapsed_ps = u128::from(until.since_ns(self.started)) * 1000;
        // A packet due exactly at the end of the flow is not offered.
        let due = match until < self.ends {
            true => elapsed_ps / self.interval_ps + 1,
            false => elapsed_ps.div_ceil(self.interval_ps),
        };
        let due = saturate::<u64>(due);
        let due = if self.request.count == 0 {
            due
        } else {
            due.min(self.request.count)
        };
        due.max(self.next)
    }

    pub(super) fn report(&self, now: Time) -> FlowReport {
        let ended = matches!(self.state, FlowState::Finished | FlowState::Abandoned);
        let under_way = self.next - self.known;
        let missing = self.known.saturating_sub(self.counts.received);
        let elapsed_ns = match self.counts.received {
            0 => 0,
            _ => Time(self.counts.last_at_ns).since_ns(self.started),
        };
        let size = saturate::<u16>(self.size());
        let offered = self.offered(now);
        let abandoned = match self.state {
            FlowState::Abandoned => self.request.count.saturating_sub(offered),
            _ => 0,
        };
        FlowReport {
            flow: self.request.flow,
            dlid: self.dlid,
            state: self.state,
            size,
            offered: offered + abandoned,
            abandoned,
            sent: self.next,
            delivered: self.counts.received,
            in_flight: if ended { 0 } else { under_way },
            lost: if ended { missing + under_way } else { missing },
            duplicates: self.counts.duplicates,
            reordered: self.counts.reordered,
            bytes_delivered: self.counts.received * u64::from(size),
            elapsed_ns,
            began_ns: self.started.0,
            last_arrival_ns: self.counts.last_at_ns,
            latency: self.latency,
            stalls: self.stalls,
        }
    }

    /// Where queries go: on the path of the latest data.
    pub(super) fn destination(&self) -> (Lid, Qpn) {
        (self.dlid, self.request.qpn)
    }

    /// Packets sent.
    pub(super) fn sent(&self) -> u64 {
        self.next
    }

    /// It begins no sooner than `starts`, and when so many other flows have got far enough.
    pub(super) fn begin_at(&mut self, starts: Time, awaited: usize) {
        self.started = starts;
        self.last_reply_at = starts;
        self.queried_at = starts;
        self.awaited = awaited;
    }

    /// Whether it has not begun because others have not got far enough.
    pub(super) fn is_waiting(&self) -> bool {
        self.awaited > 0 && self.state == FlowState::Running
    }

    /// One of the flows that it waits for has got far enough; the last one lets it begin.
    pub(super) fn let_begin(&mut self, now: Time) {
        self.awaited = self.awaited.saturating_sub(1);
        if self.awaited == 0 {
            self.started = self.started.max(now);
            self.last_reply_at = now;
            self.queried_at = now;
        }
    }

    /// Lets the flow send to this LID of its destination, or not at all.
    pub(super) fn apply_grant(&mut self, dlid: Option<Lid>) {
        self.granted = dlid.is_some();
        if let Some(dlid) = dlid {
            self.dlid = dlid;
            self.packet.set_dlid(dlid);
        }
    }
}
