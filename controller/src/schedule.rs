//! When sweeps are due.
//!
//! * A heavy sweep (discovery, plan, programming) is due at once at the start, after a trap, a
//!   request or a change that a light sweep has seen, and some time after a sweep that left
//!   something incomplete. That time doubles from [`RETRY_NS`] to [`RETRY_NS_MAX`].
//! * A light sweep is due one interval after the end of the sweep before; while the subnet is not
//!   up at the latest after [`NOT_UP_INTERVAL_NS`]. In standby it is a poll of the master, at the
//!   interval configured for that.
//! * A glance at the own port is due at the interval of polls while this manager is master. It costs no packet on a cable, and
//!   shows what no trap tells: the switch at the other end was restarted, so that traps find no way to this host, or
//!   another manager is master, too, and has written that port.
//! * A heavy sweep that falls due aborts what is under way, at most [`ABORTS_MAX`] times in a row:
//!   then one is let through, so that a flapping link does not keep the rest of the subnet down.

use std::collections::BTreeSet;

use link::Time;
use wire::Lid;

/// How often in a row a sweep may be aborted by the next.
const ABORTS_MAX: u32 = 8;
/// How often the first discovery is repeated because links are still coming up.
const INITIAL_REPEATS_MAX: u32 = 50;
/// After how many light sweeps without a link at the own host a warning is given; the host is then
/// discovered anew, and each time after as many more.
const UNLINKED_SWEEPS_MAX: u32 = 5;
/// Time to the first sweep after one that was incomplete, nanoseconds; it doubles each time.
const RETRY_NS: u64 = 200_000_000;
/// The longest that it becomes, nanoseconds.
const RETRY_NS_MAX: u64 = 10_000_000_000;
/// Time between light sweeps while the subnet is not up, nanoseconds, unless the configured
/// interval is shorter.
const NOT_UP_INTERVAL_NS: u64 = 100_000_000;

/// Why a heavy sweep was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The manager has started.
    Start,
    /// A trap of the port with that LID.
    Trap(u16, Lid),
    /// Somebody has asked for it.
    Request,
    /// A light sweep, or a look at the own port, has seen a change.
    Change,
    /// The subnet has changed while it was discovered or written.
    Overtaken,
    /// A sweep before has left something incomplete, or something cannot be reached.
    Incomplete,
    /// The own host was restarted, or its port has no link.
    OwnHost,
    /// Another manager has gone, has handed the subnet over, or is to take it.
    Managers,
    /// Another routing engine was chosen by measurement.
    Measured,
}

/// A sweep that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Discovery, plan and programming.
    HeavySweep(Cause),
    /// Only a check for changes, or a poll of another manager.
    LightSweep,
    /// Only a look at the own port.
    Glance,
}

/// The times of the next sweeps, and what they depend on.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// Time between light sweeps while the subnet is up; 0 for none.
    interval_ns: u64,
    heavy_sweep: Option<(Time, Cause)>,
    light_sweep_at: Option<Time>,
    glance_at: Option<Time>,
    aborts: u32,
    initial_repeats: u32,
    incomplete_sweeps: u32,
    /// Names of what the latest complete sweep could not manage.
    unreachable: BTreeSet<String>,
    unlinked_sweeps: u32,
}

impl Schedule {
    /// Nothing due. `interval_ns`: time between light sweeps while the subnet is up; 0 for none.
    pub(crate) fn new(interval_ns: u64) -> Self {
        Self {
            interval_ns,
            heavy_sweep: None,
            light_sweep_at: None,
            glance_at: None,
            aborts: 0,
            initial_repeats: 0,
            incomplete_sweeps: 0,
            unreachable: BTreeSet::new(),
            unlinked_sweeps: 0,
        }
    }

    /// A heavy sweep is to start at `at`, if none is due earlier.
    pub(crate) fn request_sweep(&mut self, at: Time, cause: Cause) {
        let earlier = self.heavy_sweep.filter(|(earlier, _)| *earlier <= at);
        self.heavy_sweep = Some(earlier.unwrap_or((at, cause)));
    }

    /// A light sweep is to start after the interval, if there are any.
    pub(crate) fn schedule_light_sweep(&mut self, now: Time, is_up: bool) {
        let interval_ns = match (self.interval_ns, is_up) {
            (interval_ns, true) => interval_ns,
            (0, false) => NOT_UP_INTERVAL_NS,
            (interval_ns, false) => interval_ns.min(NOT_UP_INTERVAL_NS),
        };
        self.light_sweep_at = (interval_ns > 0).then(|| now + interval_ns);
    }

    /// Another manager is to be polled at `at`: that is a light sweep.
    pub(crate) fn schedule_poll(&mut self, at: Time) {
        self.light_sweep_at = Some(at);
    }

    /// The own port is to be looked at then; `None`: only by light sweeps.
    pub(crate) fn schedule_glance(&mut self, at: Option<Time>) {
        self.glance_at = at;
    }

    /// No sweep is due any more.
    pub(crate) fn withdraw(&mut self) {
        self.heavy_sweep = None;
        self.light_sweep_at = None;
        self.glance_at = None;
        self.aborts = 0;
    }

    /// When the next sweep that may start is due. `is_idle`: whether nothing is under way.
    pub(crate) fn deadline(&self, is_idle: bool) -> Option<Time> {
        let heavy = self
            .heavy_sweep
            .filter(|_| is_idle || self.aborts < ABORTS_MAX)
            .map(|(at, _)| at);
        let light = self.light_sweep_at.filter(|_| is_idle);
        let glance = self.glance_at.filter(|_| is_idle);
        heavy.into_iter().chain(light).chain(glance).min()
    }

    /// Whether a heavy sweep is due at some time.
    pub(crate) fn is_heavy_sweep_due(&self) -> bool {
        self.heavy_sweep.is_some()
    }

    /// Whether a sweep may be aborted, or enough of them were in a row.
    pub(crate) fn may_abort(&self) -> bool {
        self.aborts < ABORTS_MAX
    }

    /// Whether a heavy sweep is due that may abort what is under way.
    pub(crate) fn aborts_others(&self, now: Time) -> bool {
        self.heavy_sweep.is_some_and(|(at, _)| at <= now) && self.may_abort()
    }

    /// A discovery, or the programming after one, was aborted.
    pub(crate) fn count_abort(&mut self) {
        self.aborts += 1;
    }

    /// Takes out the sweep that is due at `now`. A heavy one makes a light one needless, and that a glance.
    pub(crate) fn take_due(&mut self, now: Time) -> Option<Due> {
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if let Some((_, cause)) = self.heavy_sweep.filter(|(at, _)| *at <= now) {
            self.heavy_sweep = None;
            self.light_sweep_at = None;
            self.glance_at = None;
            return Some(Due::HeavySweep(cause));
        }
        if is_due(self.light_sweep_at) {
            self.light_sweep_at = None;
            self.glance_at = None;
            return Some(Due::LightSweep);
        }
        if is_due(self.glance_at) {
            self.glance_at = None;
            return Some(Due::Glance);
        }
        None
    }

    /// Before the first plan: `true` if a light sweep is to confirm the discovery first, because
    /// links may still be coming up.
    pub(crate) fn confirm_discovery(&mut self) -> bool {
        let confirm = self.initial_repeats < INITIAL_REPEATS_MAX;
        self.initial_repeats += u32::from(confirm);
        confirm
    }

    /// A heavy sweep has ended. An incomplete one is followed by another. `unreachable`: names of what
    /// it could not discover or write; where they are others than before, retries begin at their
    /// shortest time again.
    pub(crate) fn sweep_done(
        &mut self,
        now: Time,
        incomplete: bool,
        unreachable: BTreeSet<String>,
    ) {
        self.aborts = 0;
        if unreachable != self.unreachable {
            self.incomplete_sweeps = 0;
            self.unreachable = unreachable;
        }
        if incomplete {
            let delay_ns = RETRY_NS << self.incomplete_sweeps.min(8);
            self.incomplete_sweeps += 1;
            self.request_sweep(now + delay_ns.min(RETRY_NS_MAX), Cause::Incomplete);
        } else {
            self.incomplete_sweeps = 0;
        }
    }

    /// A light sweep found nothing new; `has_links`: whether the own host has a link. `true` if it
    /// is time to warn that it has none: at the start it may take a while.
    pub(crate) fn warns_of_no_link(&mut self, has_links: bool) -> bool {
        self.unlinked_sweeps = match has_links {
            true => 0,
            false => self.unlinked_sweeps.saturating_add(1),
        };
        self.unlinked_sweeps == UNLINKED_SWEEPS_MAX
    }

    /// Whether the own host has had no link for so many light sweeps, or for a multiple of them, that
    /// it is to be discovered anew.
    pub(crate) fn is_unlinked_for_long(&self) -> bool {
        self.unlinked_sweeps > 0 && self.unlinked_sweeps.is_multiple_of(UNLINKED_SWEEPS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn a_host_without_a_link_is_discovered_anew_after_some_sweeps_and_again_after_as_many() {
        let mut schedule = Schedule::new(10 * SECOND_NS);
        let noticed: Vec<u32> = (1..=12)
            .filter(|_| {
                schedule.warns_of_no_link(false);
                schedule.is_unlinked_for_long()
            })
            .collect();
        assert_eq!(noticed, [5, 10]);
        schedule.warns_of_no_link(true);
        assert!(!schedule.is_unlinked_for_long());
    }

    #[test]
    fn the_earliest_request_counts_and_a_heavy_sweep_replaces_a_light_one() {
        let mut schedule = Schedule::new(10 * SECOND_NS);
        schedule.schedule_light_sweep(Time(0), true);
        schedule.request_sweep(Time(300), Cause::Request);
        schedule.request_sweep(Time(200), Cause::Request);
        schedule.request_sweep(Time(400), Cause::Request);
        assert_eq!(schedule.deadline(true), Some(Time(200)));
        assert_eq!(schedule.take_due(Time(199)), None);
        assert_eq!(
            schedule.take_due(Time(200)),
            Some(Due::HeavySweep(Cause::Request))
        );
        assert_eq!(schedule.deadline(true), None);
    }

    #[test]
    fn light_sweeps_follow_the_interval_and_come_sooner_while_the_subnet_is_not_up() {
        let at = |interval_ns, is_up| {
            let mut schedule = Schedule::new(interval_ns);
            schedule.schedule_light_sweep(Time(0), is_up);
            schedule.deadline(true)
        };
        assert_eq!(at(10 * SECOND_NS, true), Some(Time(10 * SECOND_NS)));
        assert_eq!(at(10 * SECOND_NS, false), Some(Time(NOT_UP_INTERVAL_NS)));
        assert_eq!(at(1_000, false), Some(Time(1_000)));
        assert_eq!(at(0, true), None);
        assert_eq!(at(0, false), Some(Time(NOT_UP_INTERVAL_NS)));
    }

    #[test]
    fn after_so_many_aborts_one_sweep_is_let_through() {
        let mut schedule = Schedule::new(0);
        schedule.request_sweep(Time(5), Cause::Request);
        assert!(!schedule.aborts_others(Time(4)));
        for _ in 0..ABORTS_MAX {
            assert!(schedule.aborts_others(Time(5)));
            schedule.count_abort();
        }
        assert!(!schedule.aborts_others(Time(5)));
        assert_eq!(schedule.deadline(false), None);
        assert_eq!(schedule.deadline(true), Some(Time(5)));
        schedule.sweep_done(Time(6), false, BTreeSet::new());
        assert!(schedule.aborts_others(Time(6)));
    }

    #[test]
    fn incomplete_sweeps_are_retried_at_growing_intervals() {
        let mut schedule = Schedule::new(0);
        let mut delay_ns = || {
            schedule.sweep_done(Time(0), true, BTreeSet::from(["h2".to_owned()]));
            let at = schedule.deadline(true).map(|at| at.0);
            schedule.take_due(Time(u64::MAX));
            at
        };
        assert_eq!(delay_ns(), Some(RETRY_NS));
        assert_eq!(delay_ns(), Some(2 * RETRY_NS));
        for _ in 0..10 {
            delay_ns();
        }
        assert_eq!(delay_ns(), Some(RETRY_NS_MAX));
        schedule.sweep_done(Time(0), true, BTreeSet::from(["h3".to_owned()]));
        assert_eq!(schedule.deadline(true), Some(Time(RETRY_NS)));
    }

    #[test]
    fn a_missing_link_is_warned_of_once() {
        let mut schedule = Schedule::new(0);
        let warned = (0..20).filter(|_| schedule.warns_of_no_link(false)).count();
        assert_eq!(warned, 1);
        assert!(!schedule.warns_of_no_link(true));
    }

    #[test]
    fn the_first_discovery_is_confirmed_a_bounded_number_of_times() {
        let mut schedule = Schedule::new(0);
        let confirmed = (0..200).filter(|_| schedule.confirm_discovery()).count();
        assert_eq!(confirmed, 50);
    }
}
