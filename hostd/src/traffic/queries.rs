//! Whose turn it is to query a sink.
//!
//! All flows of a host may have to ask at once: when they end together, or when the fabric is so full that no answer comes in
//! time. Their queries and the answers would then be most of what the fabric carries, and the later they are answered the more
//! are asked. So few are under way at a time, and the others wait in order: most of those need not ask any more when
//! their turn has come.

use std::collections::VecDeque;

use link::Time;

/// Queries of a host under way at most.
const QUERIES_MAX: usize = 8;
/// A flow whose window has been closed without a reply for this long queries its sink, or for longer where replies take long.
/// A draining one repeats its query then.
const STALL_NS: u64 = 250_000_000;
/// A draining flow, whose last packets are acknowledged by themselves, queries its sink when nothing has come for so long, or
/// for longer where replies take long.
const DRAIN_NS: u64 = 20_000_000;
/// So many times as long as replies take is waited for them.
const MARGIN: u64 = 4;
/// The longest interval between two queries.
const WAIT_NS_MAX: u64 = 4_000_000_000;

/// How long a host's flows wait for replies, which take as long as the fabric is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Patience {
    /// How long replies take, smoothed, nanoseconds.
    reply_ns: u64,
}

impl Patience {
    /// A reply has taken so long.
    pub(super) fn learn(&mut self, took_ns: u64) {
        let took_ns = took_ns.min(WAIT_NS_MAX);
        self.reply_ns = self.reply_ns - self.reply_ns / 8 + took_ns / 8;
    }

    /// How long a reply is waited for after so many queries without one: after each twice as long as before.
    pub(super) fn stall_ns(self, queries: u32) -> u64 {
        let first = (MARGIN * self.reply_ns).max(STALL_NS);
        let doubled = first.saturating_mul(1 << queries.saturating_sub(1).min(16));
        doubled.min(WAIT_NS_MAX)
    }

    /// How long the acknowledgement of last packets is waited for.
    pub(super) fn drain_ns(self) -> u64 {
        (MARGIN * self.reply_ns).clamp(DRAIN_NS, WAIT_NS_MAX)
    }
}

/// The flows of a host that have to query their sinks, or have.
#[derive(Debug, Default)]
pub(super) struct Queries {
    waiting: VecDeque<u32>,
    /// Those that are under way in order, and when each is no longer waited for.
    under_way: VecDeque<(Time, u32)>,
}

impl Queries {
    /// A flow waits for its turn.
    pub(super) fn wait(&mut self, flow: u32) {
        self.waiting.push_back(flow);
    }

    /// The next flow whose turn it is.
    pub(super) fn next(&mut self, now: Time) -> Option<u32> {
        while self
            .under_way
            .front()
            .is_some_and(|&(until, _)| until <= now)
        {
            self.under_way.pop_front();
        }
        match self.under_way.len() < QUERIES_MAX {
            true => self.waiting.pop_front(),
            false => None,
        }
    }

    /// A flow has sent its query, which is waited for until then.
    pub(super) fn begin(&mut self, until: Time, flow: u32) {
        self.under_way.push_back((until, flow));
    }

    /// A flow's query has been answered.
    pub(super) fn end(&mut self, flow: u32) {
        self.under_way.retain(|&(_, other)| other != flow);
    }

    /// When it is the turn of a flow that waits.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.waiting.front()?;
        match self.under_way.front() {
            Some(&(until, _)) if self.under_way.len() >= QUERIES_MAX => Some(until),
            _ => Some(Time::ZERO),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_ask_at_a_time_in_order_and_what_is_not_answered_gives_way() {
        let mut queries = Queries::default();
        for flow in 0..20 {
            queries.wait(flow);
        }
        assert_eq!(queries.deadline(), Some(Time::ZERO));
        let mut at = Time(1000);
        for flow in 0..8 {
            assert_eq!(queries.next(at), Some(flow));
            queries.begin(at + STALL_NS, flow);
            at = at + 1;
        }
        assert_eq!(queries.next(at), None);
        assert_eq!(queries.deadline(), Some(Time(1000 + STALL_NS)));
        queries.end(5);
        assert_eq!(queries.deadline(), Some(Time::ZERO));
        assert_eq!(queries.next(at), Some(8));
        queries.begin(at + STALL_NS, 8);
        assert_eq!(queries.next(Time(999 + STALL_NS)), None);
        assert_eq!(queries.next(Time(1000 + STALL_NS)), Some(9));
    }

    #[test]
    fn replies_are_waited_for_as_long_as_they_take() {
        let mut patience = Patience::default();
        let waits =
            |patience: Patience| [0, 1, 2, 3, 5, 9].map(|n| patience.stall_ns(n) / 1_000_000);
        assert_eq!(waits(patience), [250, 250, 500, 1000, 4000, 4000]);
        assert_eq!(patience.drain_ns(), DRAIN_NS);
        for _ in 0..50 {
            patience.learn(500_000_000);
        }
        assert!((1900..=2000).contains(&waits(patience)[0]), "{patience:?}");
        assert_eq!(patience.drain_ns(), patience.stall_ns(0));
        for _ in 0..100 {
            patience.learn(1_000_000);
        }
        assert_eq!(waits(patience)[0], 250);
        patience.learn(u64::MAX);
        assert!(patience.reply_ns <= WAIT_NS_MAX);
    }
}
