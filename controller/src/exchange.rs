//! Requests that wait for their answers: many at a time, each repeated when it stays unanswered.
//!
//! A request is known here by what it is for (`J`); its bytes are built when it is sent, so that
//! a long queue is small. Requests go out in the order in which they were pushed, at most a
//! window of them unanswered; a repetition goes before new ones and keeps its transaction id, so
//! that the answer to any copy counts.
//!
//! How long a request waits for its answer follows the round trips (`round_trip`): on a host where a thousand
//! devices share two processors an answer may take its time, and repetitions would only make the queue longer.
//! Requests to devices that are known to be there wait twice as long with each repetition, as in RFC 6298, up to 0.4 s:
//! one that is slow for a while is not lost. Probes, which find out whether a device is there, do not, since others
//! wait for them. A patient probe waits as long in all as a request to a device, and is sent more often instead: with
//! each repetition the caller can look whether there is still something to wait for.

mod round_trip;

use std::collections::VecDeque;

use link::Time;
use mad::transaction::{Due, Timing, Transactions};
use wire::convert::saturate;

use round_trip::RoundTrip;

/// No repetition waits longer because of those before it, nanoseconds.
const GROWN_TIMEOUT_NS_MAX: u64 = 400_000_000;

/// How long the repetitions of a request wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// As long as the first one.
    Steady,
    /// Each twice as long as the one before, up to [`GROWN_TIMEOUT_NS_MAX`].
    Growing,
    /// As long as the first one, so often that all together are as long as under [`Waits::Growing`].
    Patient,
}

impl Waits {
    /// How often a request is sent at most that waits `timeout_ns` first.
    fn attempts(self, retries: u8, timeout_ns: u64) -> u8 {
        let attempts = retries.saturating_add(1);
        if self != Self::Patient {
            return attempts;
        }
        let (mut all_ns, mut wait_ns) = (0u64, timeout_ns);
        for _ in 0..attempts {
            all_ns = all_ns.saturating_add(wait_ns);
            wait_ns = all_ns
                .saturating_add(timeout_ns)
                .min(GROWN_TIMEOUT_NS_MAX.max(timeout_ns));
        }
        saturate(all_ns.div_ceil(timeout_ns.max(1)))
    }
}

/// A request that has had no answer in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expired<J> {
    /// It is sent again.
    Repeated(J),
    /// It is not sent any more.
    GivenUp(J),
}

/// A window of requests. `J` is the purpose of a request.
#[derive(Debug)]
pub(crate) struct Exchange<J> {
    window: usize,
    queue: VecDeque<(J, u8, Waits)>,
    repeat: VecDeque<u64>,
    in_flight: Transactions<InFlight<J>>,
    last_transaction: u32,
    round_trip: RoundTrip,
    sent: u64,
    timed_out: u64,
}

#[derive(Clone, Copy, Debug)]
struct InFlight<J> {
    job: J,
    first_sent: Time,
    timeout_ns: u64,
    waits: Waits,
}

impl<J> InFlight<J> {
    /// How long a repetition that is sent now waits: all waits so far together and the first one, which is twice
    /// the last one.
    fn grown_timeout_ns(&self, now: Time) -> u64 {
        let grown = now
            .since_ns(self.first_sent)
            .saturating_add(self.timeout_ns);
        grown.min(GROWN_TIMEOUT_NS_MAX.max(self.timeout_ns))
    }
}

impl<J: Copy> Exchange<J> {
    /// Nothing asked yet. No request waits shorter than `timeout_ns`.
    pub(crate) fn new(window: usize, timeout_ns: u64) -> Self {
        Self {
            window,
            queue: VecDeque::new(),
            repeat: VecDeque::new(),
            in_flight: Transactions::new(window),
            last_transaction: 0,
            round_trip: RoundTrip::new(timeout_ns),
            sent: 0,
            timed_out: 0,
        }
    }

    /// Adds a request to a device that is there. It is sent again at most `retries` times, and waits longer each
    /// time.
    pub(crate) fn push(&mut self, job: J, retries: u8) {
        self.queue.push_back((job, retries, Waits::Growing));
    }

    /// Adds a request that finds out whether a device is there. It is sent again at most `retries` times.
    pub(crate) fn push_probe(&mut self, job: J, retries: u8) {
        self.queue.push_back((job, retries, Waits::Steady));
    }

    /// Adds a probe of a device that was there before and may be slow: it is given as much time as one that is there.
    pub(crate) fn push_patient_probe(&mut self, job: J, retries: u8) {
        self.queue.push_back((job, retries, Waits::Patient));
    }

    /// The next request to send, with its transaction id. The caller sends it or calls
    /// [`Self::withdraw`].
    pub(crate) fn next(&mut self, now: Time) -> Option<(u64, J)> {
        while let Some(transaction) = self.repeat.pop_front() {
            if let Some(in_flight) = self.in_flight.get(transaction) {
                self.sent += 1;
                return Some((transaction, in_flight.job));
            }
        }
        if self.in_flight.len() >= self.window {
            return None;
        }
        let (job, retries, waits) = self.queue.pop_front()?;
        let timeout_ns = self.round_trip.timeout_ns();
        let transaction = self.single_transaction();
        let timing = Timing {
            timeout_ns,
            attempts: waits.attempts(retries, timeout_ns),
        };
        let in_flight = InFlight {
            job,
            first_sent: now,
            timeout_ns,
            waits,
        };
        self.in_flight
            .start(now, transaction, timing, in_flight)
            .ok()?;
        self.sent += 1;
        Some((transaction, job))
    }

    /// The transaction id of a MAD that is sent once and whose answer is dropped.
    pub(crate) fn single_transaction(&mut self) -> u64 {
        // The host keeps the upper half of a transaction id for itself.
        self.last_transaction = self.last_transaction.wrapping_add(1).max(1);
        u64::from(self.last_transaction)
    }

    /// Takes a request out that was not sent after all.
    pub(crate) fn withdraw(&mut self, transaction: u64) {
        self.in_flight.finish(transaction);
        self.sent -= 1;
    }

    /// Takes a request out whose answer has come; `None` if none is in flight with that id (any more).
    pub(crate) fn answered(&mut self, now: Time, transaction: u64) -> Option<J> {
        let in_flight = self.in_flight.finish(transaction)?;
        // Of an answer to a request that was repeated it is not known to which copy it is (Karn's rule).
        let round_trip_ns = now.since_ns(in_flight.first_sent);
        if round_trip_ns < in_flight.timeout_ns {
            self.round_trip.measured(round_trip_ns);
        }
        Some(in_flight.job)
    }

    /// The next request that has expired: it is marked for repetition, or given up. Call until `None`.
    pub(crate) fn expire(&mut self, now: Time) -> Option<Expired<J>> {
        let due = self.in_flight.poll(now)?;
        self.timed_out += 1;
        Some(match due {
            Due::Retry { tid, request } => {
                let request = *request;
                self.repeat.push_back(tid);
                if request.waits == Waits::Growing {
                    self.in_flight
                        .set_timeout(now, tid, request.grown_timeout_ns(now));
                }
                Expired::Repeated(request.job)
            }
            Due::TimedOut { request, .. } => Expired::GivenUp(request.job),
        })
    }

    /// Takes out all requests that `is_over` selects, sent or not: their answers are not needed any more.
    pub(crate) fn end_where(&mut self, is_over: impl Fn(&J) -> bool) {
        self.queue.retain(|(job, ..)| !is_over(job));
        self.in_flight.finish_where(|request| is_over(&request.job));
    }

    /// When the next request expires.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.in_flight.deadline()
    }

    /// Whether nothing waits, neither to be sent nor to be answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.in_flight.is_empty()
    }

    /// Forgets all requests: answers to them are no longer waited for.
    pub(crate) fn clear(&mut self) {
        self.queue.clear();
        self.repeat.clear();
        self.in_flight = Transactions::new(self.window);
    }

    /// Requests sent since the start, repetitions included.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Requests that expired since the start.
    pub(crate) fn timed_out(&self) -> u64 {
        self.timed_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(exchange: &mut Exchange<char>, now: u64) -> Vec<(u64, char)> {
        core::iter::from_fn(|| exchange.next(Time(now))).collect()
    }

    /// What is given up next; what is to be repeated before is marked for that.
    fn given_up(exchange: &mut Exchange<char>, now: Time) -> Option<char> {
        loop {
            match exchange.expire(now)? {
                Expired::GivenUp(job) => return Some(job),
                Expired::Repeated(_) => {}
            }
        }
    }

    #[test]
    fn no_more_than_the_window_is_unanswered_at_a_time() {
        let mut exchange = Exchange::new(2, 100);
        for job in ['a', 'b', 'c'] {
            exchange.push(job, 0);
        }
        assert_eq!(sent(&mut exchange, 0), [(1, 'a'), (2, 'b')]);
        assert_eq!(exchange.answered(Time(1), 2), Some('b'));
        assert_eq!(exchange.answered(Time(1), 2), None, "a second copy");
        assert_eq!(sent(&mut exchange, 1), [(3, 'c')]);
        assert!(!exchange.is_idle());
    }

    #[test]
    fn an_unanswered_request_is_repeated_under_its_id_and_then_given_up() {
        let mut exchange = Exchange::new(1, 100);
        exchange.push_probe('a', 1);
        exchange.push('b', 1);
        assert_eq!(sent(&mut exchange, 0), [(1, 'a')]);
        assert_eq!(exchange.deadline(), Some(Time(100)));
        assert_eq!(given_up(&mut exchange, Time(99)), None);
        assert_eq!(sent(&mut exchange, 99), []);
        assert_eq!(given_up(&mut exchange, Time(100)), None);
        assert_eq!(sent(&mut exchange, 100), [(1, 'a')]);
        assert_eq!(given_up(&mut exchange, Time(200)), Some('a'));
        assert_eq!(sent(&mut exchange, 200), [(2, 'b')]);
        assert_eq!((exchange.sent(), exchange.timed_out()), (3, 2));
    }

    #[test]
    fn an_answer_between_expiry_and_repetition_counts() {
        let mut exchange = Exchange::new(1, 100);
        exchange.push('a', 3);
        sent(&mut exchange, 0);
        assert_eq!(given_up(&mut exchange, Time(100)), None);
        assert_eq!(exchange.answered(Time(100), 1), Some('a'));
        assert_eq!(sent(&mut exchange, 100), []);
        assert!(exchange.is_idle());
        assert_eq!(exchange.deadline(), None);
    }

    #[test]
    fn a_device_that_is_there_is_given_twice_as_long_with_each_repetition_up_to_a_limit() {
        const MS: u64 = 1_000_000;
        let mut exchange = Exchange::new(1, 200 * MS);
        exchange.push('a', 4);
        sent(&mut exchange, 0);
        for at in [200, 600, 1000, 1400] {
            assert_eq!(exchange.deadline(), Some(Time(at * MS)));
            assert_eq!(given_up(&mut exchange, Time(at * MS)), None);
            assert_eq!(sent(&mut exchange, at * MS), [(1, 'a')]);
        }
        assert_eq!(given_up(&mut exchange, Time(1800 * MS)), Some('a'));
    }

    #[test]
    fn the_time_out_follows_the_round_trips() {
        let mut exchange = Exchange::new(1, 100);
        exchange.push('a', 0);
        exchange.push('b', 0);
        sent(&mut exchange, 0);
        exchange.answered(Time(50), 1);
        sent(&mut exchange, 50);
        assert_eq!(exchange.deadline(), Some(Time(50 + 50 + 4 * 25)));
    }
}
