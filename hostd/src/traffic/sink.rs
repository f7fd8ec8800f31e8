//! The sink: counts the packets of each flow, finds lost, duplicate and reordered ones, and reports
//! to the source.
//!
//! Of each flow it keeps the number after the highest received and which of the 1024 numbers below
//! it have been received: a packet below them counts as a duplicate.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use link::Time;
use wire::convert::usize_of;
use wire::{Lid, Qpn, Sl, TrafficKind};

use crate::control::{Histogram, Latency, PERF_REPORTS_MAX, SINK_FLOWS_MAX, SinkFlow};
use crate::latency::Durations;
use crate::service::{FlowHead, SinkCounts};

/// How long a packet may stay unacknowledged.
const ACK_DELAY_NS: u64 = 1_000_000;
/// A flow without packets for this long may be replaced by another.
const QUIET_NS: u64 = 10_000_000_000;
/// Numbers below the highest whose arrival is recorded.
const SEEN: u64 = 1024;
const SEEN_WORDS: usize = 16;

/// Where a datagram of a flow comes from, and on what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) lid: Lid,
    pub(crate) qpn: Qpn,
    pub(crate) sl: Sl,
    /// The LID that was addressed.
    pub(crate) to: Lid,
}

/// A reply to the source of a flow.
#[derive(Debug)]
pub(crate) struct SinkReply {
    pub(crate) to: Peer,
    pub(crate) head: FlowHead,
    pub(crate) counts: SinkCounts,
    pub(crate) latency: Option<Latency>,
}

type Key = (Lid, u32);

#[derive(Debug)]
struct SourceCounts {
    from: Peer,
    run: u32,
    /// The number after the highest one received or reported as sent by the source.
    next: u64,
    /// Bit `n % SEEN`: number `n`, of the last [`SEEN`] below `next`, has been received.
    seen: [u64; SEEN_WORDS],
    counts: SinkCounts,
    bytes: u64,
    first_at: Time,
    last_at: Time,
    unacknowledged: u32,
    /// A query that is not answered yet: when it was sent. A later one takes its place.
    unanswered: Option<u64>,
    /// What [`Sink::acks`] holds for the flow. It stays there when the flow is acknowledged
    /// sooner, so that a busy flow touches the timers once a delay and not once a window.
    ack_at: Option<Time>,
    latency: Durations,
    /// By how much latencies of packets differ from those before them.
    jitter: Durations,
    /// The latency of the latest packet.
    last_latency_ns: Option<u64>,
}

fn bit_of(number: u64) -> (usize, u64) {
    let at = number % SEEN;
    // Below 16, so no narrowing.
    (usize::try_from(at / 64).unwrap_or(0), 1 << (at % 64))
}

impl SourceCounts {
    fn new(from: Peer, run: u32, now: Time) -> Self {
        Self {
            from,
            run,
            next: 0,
            seen: [0; SEEN_WORDS],
            counts: SinkCounts::default(),
            bytes: 0,
            first_at: now,
            last_at: now,
            unacknowledged: 0,
            unanswered: None,
            ack_at: None,
            latency: Durations::new(),
            jitter: Durations::new(),
            last_latency_ns: None,
        }
    }

    /// Moves `next` up, and forgets what was seen of the numbers that its window then covers anew.
    fn advance(&mut self, next: u64) {
        if next - self.next >= SEEN {
            self.seen = [0; SEEN_WORDS];
        } else {
            for number in self.next..next {
                let (word, bit) = bit_of(number);
                self.seen[word] &= !bit;
            }
        }
        self.next = next;
    }

    #[inline]
    fn take(&mut self, at: Time, head: &FlowHead, bytes: usize) {
        let number = head.sequence;
        let (word, bit) = bit_of(number);
        if number >= self.next {
            self.advance(number.saturating_add(1));
        } else if self.next - number > SEEN || self.seen[word] & bit != 0 {
            self.counts.duplicates += 1;
            return;
        } else {
            self.counts.reordered += 1;
        }
        self.seen[word] |= bit;
        self.counts.received += 1;
        self.counts.last_at_ns = at.0;
        self.bytes += u64::try_from(bytes).unwrap_or(0);
        self.last_at = at;
        let latency_ns = at.since_ns(Time(head.sent_at_ns));
        self.latency.record(latency_ns);
        if let Some(last) = self.last_latency_ns.replace(latency_ns) {
            self.jitter.record(latency_ns.abs_diff(last));
        }
    }

    /// A reply. What nobody waits for also has the latency: when a flow ends, its last packets are acknowledged so, and
    /// the source need not ask.
    fn reply(&mut self, flow: u32, kind: TrafficKind, sent_at_ns: u64, urgent: bool) -> SinkReply {
        self.unacknowledged = 0;
        if kind == TrafficKind::Report {
            self.unanswered = None;
        }
        SinkReply {
            to: self.from,
            head: FlowHead {
                kind,
                ack_every: 0,
                flow,
                run: self.run,
                sequence: self.next,
                sent_at_ns,
            },
            counts: self.counts,
            latency: (!urgent).then(|| self.latency.summary()),
        }
    }
}

/// Counters of one host's received packets, by flow.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    flows: BTreeMap<Key, SourceCounts>,
    acks: BTreeSet<(Time, Key)>,
}

impl Sink {
    /// Handles a data packet or query that arrived at `at`. Returns the reply to send now, if any.
    /// With `hold` there is none: [`Sink::poll`] gives one for all packets of the flow until then.
    ///
    /// # Errors
    /// The table of flows is full: the packet is not counted.
    pub(crate) fn receive(
        &mut self,
        at: Time,
        from: Peer,
        head: &FlowHead,
        bytes: usize,
        hold: bool,
    ) -> Result<Option<SinkReply>, Full> {
        let key = (from.lid, head.flow);
        let counted = self.counted(at, from, head)?;
        let wait_ns = if head.kind == TrafficKind::Query {
            counted.advance(counted.next.max(head.sequence));
            if !hold {
                return Ok(Some(counted.reply(
                    head.flow,
                    TrafficKind::Report,
                    head.sent_at_ns,
                    false,
                )));
            }
            counted.unanswered = Some(head.sent_at_ns);
            0
        } else {
            counted.take(at, head, bytes);
            counted.unacknowledged += 1;
            ACK_DELAY_NS
        };
        let enough = head.ack_every > 0 && counted.unacknowledged >= u32::from(head.ack_every);
        if enough && !hold {
            return Ok(Some(counted.reply(
                head.flow,
                TrafficKind::Acknowledgement,
                head.sent_at_ns,
                true,
            )));
        }
        if counted.ack_at.is_none() {
            let ack_at = at + wait_ns;
            counted.ack_at = Some(ack_at);
            self.acks.insert((ack_at, key));
        }
        Ok(None)
    }

    /// Counts a data packet to a multicast group that arrived at `at`: nobody is told.
    ///
    /// # Errors
    /// The table of flows is full: the packet is not counted.
    pub(crate) fn hear(
        &mut self,
        at: Time,
        from: Peer,
        head: &FlowHead,
        bytes: usize,
    ) -> Result<(), Full> {
        self.counted(at, from, head)?.take(at, head, bytes);
        Ok(())
    }

    /// The counts of the flow that a packet belongs to, those of its latest run.
    fn counted(
        &mut self,
        at: Time,
        from: Peer,
        head: &FlowHead,
    ) -> Result<&mut SourceCounts, Full> {
        let key = (from.lid, head.flow);
        if !self.flows.contains_key(&key) {
            self.make_room(at)?;
        }
        let counted = self
            .flows
            .entry(key)
            .or_insert_with(|| SourceCounts::new(from, head.run, at));
        if counted.run != head.run {
            let ack_at = counted.ack_at;
            *counted = SourceCounts {
                ack_at,
                ..SourceCounts::new(from, head.run, at)
            };
        }
        Ok(counted)
    }

    /// Packets received of a flow, without duplicates.
    pub(crate) fn received(&self, source: Lid, flow: u32) -> u64 {
        let counted = self.flows.get(&(source, flow));
        counted.map_or(0, |counted| counted.counts.received)
    }

    /// Forgets the flow that has been quiet for longest, if the table is full.
    fn make_room(&mut self, now: Time) -> Result<(), Full> {
        if self.flows.len() < SINK_FLOWS_MAX {
            return Ok(());
        }
        let quiet = self.flows.iter().min_by_key(|(_, counted)| counted.last_at);
        let key = quiet
            .filter(|(_, counted)| counted.last_at + QUIET_NS <= now)
            .map(|(&key, _)| key)
            .ok_or(Full)?;
        if let Some(ack_at) = self.flows.remove(&key).and_then(|gone| gone.ack_at) {
            self.acks.remove(&(ack_at, key));
        }
        Ok(())
    }

    /// The next acknowledgement or report that has waited long enough at `now`. Call until `None`.
    pub(crate) fn poll(&mut self, now: Time) -> Option<SinkReply> {
        while let Some(&(at, key)) = self.acks.first() {
            if at > now {
                return None;
            }
            self.acks.pop_first();
            let Some(counted) = self.flows.get_mut(&key) else {
                continue;
            };
            counted.ack_at = None;
            if let Some(sent_at_ns) = counted.unanswered {
                let report = TrafficKind::Report;
                return Some(counted.reply(key.1, report, sent_at_ns, false));
            }
            if counted.unacknowledged > 0 {
                let acknowledgement = TrafficKind::Acknowledgement;
                return Some(counted.reply(key.1, acknowledgement, 0, false));
            }
        }
        None
    }

    /// The latencies of the flows with numbers in `flows` from these LIDs, together.
    pub(crate) fn durations(
        &self,
        sources: &BTreeSet<Lid>,
        flows: RangeInclusive<u32>,
    ) -> Histogram {
        self.together(sources, flows, |counted| &counted.latency)
    }

    /// Their jitter, together.
    pub(crate) fn jitter(&self, sources: &BTreeSet<Lid>, flows: RangeInclusive<u32>) -> Histogram {
        self.together(sources, flows, |counted| &counted.jitter)
    }

    fn together(
        &self,
        sources: &BTreeSet<Lid>,
        flows: RangeInclusive<u32>,
        of: impl Fn(&SourceCounts) -> &Durations,
    ) -> Histogram {
        let mut together = Histogram::default();
        for (&(source, flow), counted) in &self.flows {
            if sources.contains(&source) && flows.contains(&flow) {
                together.add(&of(counted).histogram());
            }
        }
        together
    }

    /// When an acknowledgement is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.acks.first().map(|&(at, _)| at)
    }

    /// Forgets what has come from these LIDs.
    pub(crate) fn clear(&mut self, sources: &BTreeSet<Lid>) {
        self.flows
            .retain(|(source, _), _| !sources.contains(source));
        self.acks
            .retain(|(_, (source, _))| !sources.contains(source));
    }

    pub(crate) fn reports(&self, skip: u32) -> Vec<SinkFlow> {
        let skip = usize_of(skip);
        let flows = self.flows.iter().skip(skip).take(PERF_REPORTS_MAX);
        flows
            .map(|(&(source, flow), counted)| SinkFlow {
                source,
                flow,
                received: counted.counts.received,
                lost: counted.next.saturating_sub(counted.counts.received),
                duplicates: counted.counts.duplicates,
                reordered: counted.counts.reordered,
                bytes: counted.bytes,
                elapsed_ns: counted.last_at.since_ns(counted.first_at),
                latency: counted.latency.summary(),
            })
            .collect()
    }
}

/// The table of flows is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: Peer = Peer {
        lid: Lid::new(3),
        qpn: Qpn::constant(0x1b3),
        sl: Sl::constant(0),
        to: Lid::new(4),
    };

    fn data(sequence: u64) -> FlowHead {
        FlowHead {
            kind: TrafficKind::Data,
            ack_every: 4,
            flow: 1,
            run: 1,
            sequence,
            sent_at_ns: 1000 * sequence,
        }
    }

    fn feed(sink: &mut Sink, numbers: &[u64]) -> Vec<SinkReply> {
        let take = |&number: &u64| {
            let at = Time(1000 * number + 500);
            sink.receive(at, FROM, &data(number), 290, false).unwrap()
        };
        numbers.iter().filter_map(take).collect()
    }

    #[test]
    fn lost_duplicate_and_reordered_packets_are_told_apart() {
        let mut sink = Sink::default();
        feed(&mut sink, &[0, 1, 4, 2, 2, 5, 0]);
        let report = &sink.reports(0)[0];
        assert_eq!((report.received, report.lost), (5, 1), "3 is missing");
        assert_eq!((report.duplicates, report.reordered), (2, 1));
        assert_eq!(report.bytes, 5 * 290);
        assert_eq!((report.latency.min_ns, report.latency.max_ns), (500, 500));
    }

    #[test]
    fn every_fourth_packet_is_acknowledged_and_the_rest_after_a_while() {
        let mut sink = Sink::default();
        let reply = feed(&mut sink, &[0, 1, 2, 3, 4]);
        assert_eq!(reply.len(), 1);
        assert_eq!((reply[0].head.sequence, reply[0].counts.received), (4, 4));
        let due = sink.deadline().unwrap();
        assert!(sink.poll(due - 1).is_none());
        assert_eq!(sink.poll(due).unwrap().head.sequence, 5);
        assert_eq!((sink.poll(due).is_none(), sink.deadline()), (true, None));
    }

    #[test]
    fn a_query_makes_missing_packets_lost() {
        let mut sink = Sink::default();
        feed(&mut sink, &[0, 1]);
        let query = FlowHead {
            kind: TrafficKind::Query,
            ..data(10)
        };
        let reply = sink.receive(Time(9), FROM, &query, 98, false);
        let reply = reply.unwrap().unwrap();
        assert_eq!(
            (reply.head.kind, reply.head.sequence),
            (TrafficKind::Report, 10)
        );
        assert_eq!(
            (reply.counts.received, reply.latency.unwrap().samples),
            (2, 2)
        );
        assert_eq!(sink.reports(0)[0].lost, 8);
        let due = sink.deadline().unwrap();
        assert!(sink.poll(due).is_none(), "nothing is left to report");
        assert_eq!(sink.deadline(), None);
    }

    #[test]
    fn replies_that_are_held_back_become_one() {
        let mut sink = Sink::default();
        for number in 0..100 {
            let query = FlowHead {
                kind: TrafficKind::Query,
                ..data(number)
            };
            for head in [data(number), query] {
                let reply = sink.receive(Time(number), FROM, &head, 290, true);
                assert!(reply.unwrap().is_none());
            }
        }
        let later = Time(ACK_DELAY_NS + 100);
        let reply = sink.poll(later).unwrap();
        assert_eq!(reply.head.kind, TrafficKind::Report);
        assert_eq!((reply.head.sequence, reply.head.sent_at_ns), (100, 99_000));
        assert!(sink.poll(later).is_none());
        assert_eq!(sink.deadline(), None);
    }

    #[test]
    fn packets_to_a_group_are_counted_by_source_and_nobody_is_told() {
        let mut sink = Sink::default();
        let other = Peer {
            lid: Lid::new(9),
            ..FROM
        };
        for (from, numbers) in [(FROM, &[0, 1, 1, 3, 2][..]), (other, &[0, 0])] {
            for &number in numbers {
                let at = Time(1000 * number + 500);
                assert_eq!(sink.hear(at, from, &data(number), 290), Ok(()));
            }
        }
        assert_eq!(sink.deadline(), None);
        let counts: Vec<_> = sink
            .reports(0)
            .iter()
            .map(|one| {
                (
                    one.source,
                    one.received,
                    one.lost,
                    one.duplicates,
                    one.reordered,
                )
            })
            .collect();
        assert_eq!(counts, [(FROM.lid, 4, 0, 1, 1), (other.lid, 1, 0, 1, 0)]);
        assert_eq!(sink.reports(0)[0].latency.max_ns, 500);
    }

    #[test]
    fn a_new_run_of_a_flow_starts_from_nothing() {
        let mut sink = Sink::default();
        feed(&mut sink, &[0, 1, 2]);
        let again = FlowHead { run: 2, ..data(0) };
        sink.receive(Time(0), FROM, &again, 290, false).unwrap();
        assert_eq!(sink.reports(0)[0].received, 1);
        assert_eq!(sink.acks.len(), 1, "one timer a flow");
    }

    #[test]
    fn a_jump_beyond_the_window_of_memory_forgets_it() {
        let mut sink = Sink::default();
        feed(&mut sink, &[5, 5 + SEEN * 3, 5 + SEEN * 2]);
        let report = &sink.reports(0)[0];
        assert_eq!(
            (report.received, report.duplicates),
            (2, 1),
            "too old to be judged"
        );
        feed(&mut sink, &[1 << 50]);
        assert_eq!(sink.reports(0)[0].lost, (1 << 50) + 1 - 3);
    }

    #[test]
    fn flows_are_bounded_and_quiet_ones_make_room() {
        let mut sink = Sink::default();
        let flow = |flow| FlowHead { flow, ..data(0) };
        for id in 0..u32::try_from(SINK_FLOWS_MAX).unwrap() {
            let at = Time(u64::from(id));
            sink.receive(at, FROM, &flow(id), 290, false).unwrap();
        }
        let last = flow(u32::MAX);
        let too_soon = sink.receive(Time(5000), FROM, &last, 290, false);
        assert_eq!(too_soon.err(), Some(Full));
        assert!(
            sink.receive(Time(QUIET_NS), FROM, &last, 290, false)
                .is_ok()
        );
        assert_eq!(sink.flows.len(), SINK_FLOWS_MAX);
        assert!(
            !sink.flows.contains_key(&(FROM.lid, 0)),
            "the quietest has gone"
        );
    }
}
