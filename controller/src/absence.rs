//! Has this manager been away? A process that was stopped (SIGSTOP, a debugger, a machine without
//! processor time) sees time jump. Meanwhile the managers in standby have had no answer to their polls
//! (IBA 14.4.1.5), and one of them may be master by now: who was away asks before it writes.
//!
//! Time is looked at with every input, and at least every half of the time after which a manager in
//! standby takes over, so that a long step from one look to the next is an absence and no idleness.

use link::Time;

use crate::SmConfig;

/// When this manager was last seen at work.
#[derive(Debug)]
pub(crate) struct Absence {
    /// The shortest time in which another manager may have taken over, nanoseconds.
    limit_ns: u64,
    last: Option<Time>,
}

impl Absence {
    /// A manager in standby takes over when the last repetition of a poll has had no answer: others are
    /// taken to be configured as this one is.
    pub(crate) fn new(config: &SmConfig) -> Self {
        let polls_ns = config
            .timeout_ns
            .saturating_mul(u64::from(config.poll_retries) + 1);
        Self {
            limit_ns: config.poll_interval_ns.saturating_add(polls_ns),
            last: None,
        }
    }

    /// The manager is at work. Whether it was away so long before that another may have taken over.
    pub(crate) fn ends(&mut self, now: Time) -> bool {
        let last = self.last.replace(now);
        last.is_some_and(|last| now.since_ns(last) >= self.limit_ns)
    }

    /// When it is to be at work next, so that idleness is no absence.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.last.map(|last| last + self.limit_ns / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_works_at_its_deadlines_is_never_away_and_a_longer_step_is_an_absence() {
        let config = SmConfig {
            timeout_ns: 100,
            poll_retries: 2,
            poll_interval_ns: 700,
            ..SmConfig::default()
        };
        let mut absence = Absence::new(&config);
        assert_eq!(absence.deadline(), None);
        assert!(!absence.ends(Time(1_000_000)));
        for _ in 0..5 {
            let at = absence.deadline().unwrap();
            assert!(!absence.ends(at));
        }
        let last = absence.deadline().unwrap().0 - 500;
        assert!(!absence.ends(Time(last + 999)));
        assert!(absence.ends(Time(last + 999 + 1000)));
        assert!(!absence.ends(Time(last + 999 + 1001)));
    }
}
