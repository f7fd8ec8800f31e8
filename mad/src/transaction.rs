//! Outstanding requests: which answers are awaited, when a request is sent again, and when it is
//! given up.
//!
//! The table is bounded; a caller that finds it full waits until something is answered. What is
//! due is reported in order of its moment, then of its transaction id, so that the same inputs
//! give the same outputs. A retry counts its timeout from the moment it is taken out, not from
//! when it was due: a process that has slept gives the answers a chance to be read first.

use std::collections::{BTreeMap, BTreeSet};

use link::Time;
use thiserror::Error;

/// How long to wait for an answer and how often to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Wait for each answer, nanoseconds.
    pub timeout_ns: u64,
    /// How often the request is sent in all, at least 1.
    pub attempts: u8,
}

/// The table holds as many requests as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{limit} requests are outstanding already")]
pub struct Full {
    /// How many that is.
    pub limit: usize,
}

/// A request that is due, from [`Transactions::poll`].
#[derive(Debug, PartialEq, Eq)]
pub enum Due<'a, T> {
    /// To be sent again; the next timeout runs.
    Retry {
        /// Its transaction id.
        tid: u64,
        /// The caller's data of it.
        request: &'a T,
    },
    /// All attempts are used up; it has been removed from the table.
    TimedOut {
        /// Its transaction id.
        tid: u64,
        /// The caller's data of it.
        request: T,
    },
}

#[derive(Debug)]
struct Outstanding<T> {
    request: T,
    due: Time,
    timing: Timing,
    sent: u8,
}

/// Outstanding requests, at most a fixed number. `T` is what the caller stores with each: the
/// message to send again, and where the answer goes.
#[derive(Debug)]
pub struct Transactions<T> {
    by_tid: BTreeMap<u64, Outstanding<T>>,
    by_due: BTreeSet<(Time, u64)>,
    limit: usize,
}

impl<T> Transactions<T> {
    /// An empty table for at most `limit` requests.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            by_tid: BTreeMap::new(),
            by_due: BTreeSet::new(),
            limit,
        }
    }

    /// How many requests are outstanding.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_tid.len()
    }

    /// Whether none is outstanding.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_tid.is_empty()
    }

    /// How many more the table takes.
    #[must_use]
    pub fn room(&self) -> usize {
        self.limit - self.by_tid.len()
    }

    /// Notes a request that is sent now under `tid`. One that had the same `tid` is replaced and
    /// returned.
    ///
    /// # Errors
    /// [`Full`] if the table holds as many as it may; `request` is dropped.
    pub fn start(
        &mut self,
        now: Time,
        tid: u64,
        timing: Timing,
        request: T,
    ) -> Result<Option<T>, Full> {
        let replaced = self.finish(tid);
        if self.room() == 0 {
            return Err(Full { limit: self.limit });
        }
        let due = now + timing.timeout_ns;
        self.by_due.insert((due, tid));
        self.by_tid.insert(
            tid,
            Outstanding {
                request,
                due,
                timing,
                sent: 1,
            },
        );
        Ok(replaced)
    }

    /// The caller's data of an outstanding request.
    #[must_use]
    pub fn get(&self, tid: u64) -> Option<&T> {
        self.by_tid
            .get(&tid)
            .map(|outstanding| &outstanding.request)
    }

    /// From now on a request waits so long for its answer: as one does that has just been taken out to be sent
    /// again, and each further time.
    pub fn set_timeout(&mut self, now: Time, tid: u64, timeout_ns: u64) {
        if let Some(outstanding) = self.by_tid.get_mut(&tid) {
            self.by_due.remove(&(outstanding.due, tid));
            outstanding.timing.timeout_ns = timeout_ns;
            outstanding.due = now + timeout_ns;
            self.by_due.insert((outstanding.due, tid));
        }
    }

    /// Takes out a request: it was answered, or its answer is not needed any more.
    pub fn finish(&mut self, tid: u64) -> Option<T> {
        let outstanding = self.by_tid.remove(&tid)?;
        self.by_due.remove(&(outstanding.due, tid));
        Some(outstanding.request)
    }

    /// Removes all requests that `gone` selects, in order of transaction id.
    pub fn finish_where(&mut self, mut gone: impl FnMut(&T) -> bool) -> Vec<T> {
        let tids: Vec<u64> = self
            .by_tid
            .iter()
            .filter(|(_, outstanding)| gone(&outstanding.request))
            .map(|(&tid, _)| tid)
            .collect();
        tids.into_iter()
            .filter_map(|tid| self.finish(tid))
            .collect()
    }

    /// The next event that is due at `now`. Call until it returns `None`.
    pub fn poll(&mut self, now: Time) -> Option<Due<'_, T>> {
        let &(due, tid) = self.by_due.first()?;
        if due > now {
            return None;
        }
        self.by_due.pop_first();
        let again = self
            .by_tid
            .get(&tid)
            .is_some_and(|outstanding| outstanding.sent < outstanding.timing.attempts);
        if !again {
            let outstanding = self.by_tid.remove(&tid)?;
            return Some(Due::TimedOut {
                tid,
                request: outstanding.request,
            });
        }
        let outstanding = self.by_tid.get_mut(&tid)?;
        outstanding.sent += 1;
        outstanding.due = now + outstanding.timing.timeout_ns.max(1);
        self.by_due.insert((outstanding.due, tid));
        Some(Due::Retry {
            tid,
            request: &outstanding.request,
        })
    }

    /// When the next request is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.by_due.first().map(|&(due, _)| due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMING: Timing = Timing {
        timeout_ns: 200,
        attempts: 3,
    };

    /// The events when the table is polled at the moments that `next` gives.
    fn trace(
        mut next: impl FnMut(&Transactions<char>, Time) -> Option<Time>,
    ) -> Vec<(u64, String)> {
        let mut table = Transactions::new(4);
        table.start(Time(0), 7, TIMING, 'a').unwrap();
        table.start(Time(0), 3, TIMING, 'b').unwrap();
        table.start(Time(50), 9, TIMING, 'c').unwrap();
        let (mut seen, mut now) = (Vec::new(), Time(50));
        while let Some(at) = next(&table, now) {
            now = at;
            while let Some(due) = table.poll(now) {
                seen.push((now.0, format!("{due:?}")));
            }
            if now == Time(250) {
                assert_eq!(table.finish(9), Some('c'));
            }
        }
        seen
    }

    #[test]
    fn jumping_from_deadline_to_deadline_and_ticking_finely_give_the_same_trace() {
        let jumped = trace(|table, _| table.deadline());
        let ticked = trace(|_, now| (now < Time(1000)).then(|| now + 1));
        assert_eq!(jumped, ticked);
        let moments: Vec<u64> = jumped.iter().map(|&(at, _)| at).collect();
        assert_eq!(moments, [200, 200, 250, 400, 400, 600, 600]);
        assert_eq!(jumped[0].1, "Retry { tid: 3, request: 'b' }");
        assert_eq!(jumped[6].1, "TimedOut { tid: 7, request: 'a' }");
    }

    #[test]
    fn a_full_table_refuses_and_a_reused_id_hands_back_what_it_replaces() {
        let mut table = Transactions::new(1);
        assert_eq!(table.start(Time(0), 1, TIMING, 'a'), Ok(None));
        assert_eq!(table.start(Time(0), 2, TIMING, 'b'), Err(Full { limit: 1 }));
        assert_eq!(table.start(Time(5), 1, TIMING, 'c'), Ok(Some('a')));
        assert_eq!(
            table.deadline(),
            Some(Time(205)),
            "the replaced one is not due"
        );
    }

    #[test]
    fn a_late_poll_asks_once_and_waits_anew() {
        let mut table = Transactions::new(1);
        table.start(Time(0), 1, TIMING, 'a').unwrap();
        assert!(matches!(table.poll(Time(10_000)), Some(Due::Retry { .. })));
        assert_eq!(table.poll(Time(10_000)), None);
        assert_eq!(table.deadline(), Some(Time(10_200)));
    }

    #[test]
    fn requests_of_one_asker_are_taken_out_together() {
        let mut table = Transactions::new(4);
        for (tid, asker) in [(4, 'x'), (2, 'y'), (1, 'x')] {
            table.start(Time(0), tid, TIMING, (asker, tid)).unwrap();
        }
        assert_eq!(
            table.finish_where(|&(asker, _)| asker == 'x'),
            [('x', 1), ('x', 4)]
        );
        assert_eq!((table.len(), table.deadline()), (1, Some(Time(200))));
    }
}
