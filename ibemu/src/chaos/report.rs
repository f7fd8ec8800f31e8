//! The report of a campaign: a line an event as it goes, heal times, the verdict.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;
use tokio::time::Instant;
use wire::convert::{saturate, u64_of};

use super::checks::Violation;
use super::kind::FaultKind;
use crate::output::{self, Align, Table};

/// Events that are kept; further ones are printed only.
const EVENTS_MAX: usize = 100_000;

/// An event and when it was, milliseconds from the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Event {
    at_ms: u64,
    round: u32,
    what: String,
}

/// The events so far, printed as they come unless the report is JSON.
#[derive(Debug)]
pub(super) struct Timeline {
    started: Instant,
    round: u32,
    events: Vec<Event>,
    is_printed: bool,
    failed: Option<anyhow::Error>,
}

impl Timeline {
    pub(super) fn new(is_printed: bool) -> Self {
        Self {
            started: Instant::now(),
            round: 0,
            events: Vec::new(),
            is_printed,
            failed: None,
        }
    }

    /// Events are of this round from now on.
    pub(super) fn enter(&mut self, round: u32) {
        self.round = round;
    }

    /// Adds what happens now.
    pub(super) fn add(&mut self, what: impl Into<String>) {
        let event = Event {
            at_ms: saturate(self.started.elapsed().as_millis()),
            round: self.round,
            what: what.into(),
        };
        if self.is_printed {
            let line = format!("{} {}", seconds_column(event.at_ms), event.what);
            if let Err(error) = output::line(line) {
                self.failed.get_or_insert(error);
            }
        }
        if self.events.len() < EVENTS_MAX {
            self.events.push(event);
        }
    }

    /// The last round and the events, at the end.
    ///
    /// # Errors
    /// If standard output has failed.
    pub(super) fn take(&mut self) -> Result<(u32, Vec<Event>)> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => Ok((self.round, std::mem::take(&mut self.events))),
        }
    }
}

/// Milliseconds as seconds in a column.
fn seconds_column(ms: u64) -> String {
    format!("{:>8}.{:03}", ms / 1000, ms % 1000)
}

/// Milliseconds as seconds.
pub(super) fn seconds(ms: u64) -> String {
    format!("{}.{:03} s", ms / 1000, ms % 1000)
}

/// From when on healing is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Since {
    /// From the moment before the faults, until all pairs that the rest of the fabric connects.
    Fault,
    /// From the moment before they are taken back, until all pairs.
    Return,
}

impl Since {
    const fn name(self) -> &'static str {
        match self {
            Self::Fault => "fault",
            Self::Return => "return",
        }
    }
}

/// One measurement of healing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Heal {
    pub round: u32,
    pub kinds: Vec<FaultKind>,
    pub since: Since,
    /// Milliseconds; 0 if nothing was missed.
    pub ms: u64,
    /// Pairs that have missed an echo.
    pub broken_pairs: usize,
    /// Echo requests that were judged.
    pub echoes: usize,
    /// The longest time in which a host has sent none, milliseconds: what is shorter may have been
    /// overlooked.
    pub gap_ms: u64,
    /// How much of the time until then something on this machine was ready to run and had no processor,
    /// milliseconds; `None` where the kernel does not tell.
    pub waited_ms: Option<u64>,
    /// The sweep that ended last before traffic had healed.
    pub sweep: Option<String>,
}

/// Heal times of those measurements in which traffic broke.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Times {
    /// Measurements in which no echo was missed.
    pub unbroken: usize,
    /// Measurements in which one was.
    pub broken: usize,
    /// Half of them are at most this, milliseconds.
    pub p50_ms: u64,
    /// 99 % of them are at most this, milliseconds.
    pub p99_ms: u64,
    /// The longest, milliseconds.
    pub worst_ms: u64,
}

impl Times {
    fn of<'a>(heals: impl Iterator<Item = &'a Heal>) -> Self {
        let (broken, unbroken): (Vec<&Heal>, Vec<&Heal>) =
            heals.partition(|heal| heal.broken_pairs > 0);
        let mut times: Vec<u64> = broken.iter().map(|heal| heal.ms).collect();
        times.sort_unstable();
        Self {
            unbroken: unbroken.len(),
            broken: times.len(),
            p50_ms: percentile(&times, 50),
            p99_ms: percentile(&times, 99),
            worst_ms: times.last().copied().unwrap_or(0),
        }
    }
}

/// The smallest of sorted values that at least `percent` of them do not exceed; 0 of none.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

/// Heal times by name: of a kind of fault, with what was measured. A round of several kinds counts
/// for each.
fn by_kind(heals: &[Heal]) -> BTreeMap<String, Times> {
    let mut kinds: Vec<(FaultKind, Since)> = heals
        .iter()
        .flat_map(|heal| heal.kinds.iter().map(|&kind| (kind, heal.since)))
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    let times = |&(kind, since): &(FaultKind, Since)| {
        let of = heals
            .iter()
            .filter(move |heal| heal.since == since && heal.kinds.contains(&kind));
        (format!("{kind} {}", since.name()), Times::of(of))
    };
    kinds.iter().map(times).collect()
}

/// A campaign that has ended.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub fabric: String,
    pub topology: String,
    pub transport: &'static str,
    pub seed: u64,
    pub rounds: u32,
    pub seconds: f64,
    pub interrupted: bool,
    /// Packets of the background flows: sent, and of those delivered.
    pub packets_sent: u64,
    pub packets_delivered: u64,
    /// Faults done, by kind.
    pub faults: BTreeMap<FaultKind, u32>,
    /// Heal times of all kinds.
    pub heal: Times,
    pub heal_by_kind: BTreeMap<String, Times>,
    pub heals: Vec<Heal>,
    pub violations: Vec<Violation>,
    /// The command that repeats the round that failed.
    pub replay: Option<String>,
    pub timeline: Vec<Event>,
    pub held: bool,
}

impl Report {
    /// Computes the figures from the measurements.
    pub(super) fn with_heals(mut self, heals: Vec<Heal>) -> Self {
        self.heal = Times::of(heals.iter());
        self.heal_by_kind = by_kind(&heals);
        self.heals = heals;
        self
    }

    /// Prints figures and verdict.
    ///
    /// # Errors
    /// If standard output fails.
    pub(super) fn print(&self) -> Result<()> {
        let mut table = Table::new(&[
            ("FAULT", Align::Left),
            ("HEALED SINCE", Align::Left),
            ("UNBROKEN", Align::Right),
            ("BROKEN", Align::Right),
            ("P50", Align::Right),
            ("P99", Align::Right),
            ("WORST", Align::Right),
        ]);
        for (name, times) in &self.heal_by_kind {
            let (kind, since) = name.split_once(' ').unwrap_or((name, ""));
            let shown = |ms: u64| match times.broken {
                0 => "-".to_owned(),
                _ => seconds(ms),
            };
            table.row([
                kind.to_owned(),
                since.to_owned(),
                times.unbroken.to_string(),
                times.broken.to_string(),
                shown(times.p50_ms),
                shown(times.p99_ms),
                shown(times.worst_ms),
            ]);
        }
        output::line(table)?;
        output::line(format!(
            "background traffic: {} packets sent, {} delivered",
            self.packets_sent, self.packets_delivered
        ))?;
        let times = &self.heal;
        output::line(format!(
            "heal time: p50 {}, p99 {}, worst {} ({} measurements; in {} more nothing broke)",
            seconds(times.p50_ms),
            seconds(times.p99_ms),
            seconds(times.worst_ms),
            times.broken,
            times.unbroken
        ))?;
        let echoes: usize = self.heals.iter().map(|heal| heal.echoes).sum();
        let gap = self.heals.iter().map(|heal| heal.gap_ms).max().unwrap_or(0);
        output::line(format!(
            "measured by {echoes} echoes; no host has sent none for longer than {}",
            seconds(gap)
        ))?;
        for violation in &self.violations {
            output::line(format!("broken: {}: {}", violation.rule, violation.what))?;
        }
        if let Some(replay) = &self.replay {
            output::line(format!("replay: {replay}"))?;
        }
        output::line(self.verdict())
    }

    fn verdict(&self) -> String {
        let faults: u32 = self.faults.values().sum();
        let (held, ended) = match (self.held, self.interrupted) {
            (true, false) => ("held", ""),
            (true, true) => ("held", ", interrupted"),
            (false, false) => ("NOT HELD", ""),
            (false, true) => ("NOT HELD", ", interrupted"),
        };
        format!(
            "verdict: {held}{ended}: {} rounds with {faults} faults of {} kinds in {:.0} s, seed {}",
            self.rounds,
            u64_of(self.faults.len()),
            self.seconds,
            self.seed
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heal(kinds: &[FaultKind], since: Since, ms: u64) -> Heal {
        Heal {
            round: 1,
            kinds: kinds.to_vec(),
            since,
            ms,
            broken_pairs: usize::from(ms > 0),
            echoes: 10,
            gap_ms: 80,
            waited_ms: None,
            sweep: None,
        }
    }

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let sorted: Vec<u64> = (1..=200).collect();
        assert_eq!(percentile(&sorted, 50), 100);
        assert_eq!(percentile(&sorted, 99), 198);
        assert_eq!(percentile(&[7], 99), 7);
        assert_eq!(percentile(&[], 50), 0);
    }

    #[test]
    fn times_are_those_of_broken_traffic_and_a_round_counts_for_each_of_its_kinds() {
        let (switch, cable) = (FaultKind::SwitchKill, FaultKind::CablePull);
        let heals = [
            heal(&[switch], Since::Fault, 300),
            heal(&[switch, cable], Since::Fault, 500),
            heal(&[switch], Since::Return, 0),
        ];
        let all = Times::of(heals.iter());
        assert_eq!((all.unbroken, all.broken), (1, 2));
        assert_eq!((all.p50_ms, all.worst_ms), (300, 500));
        let by_kind = by_kind(&heals);
        let broken = |name: &str| by_kind[name].broken;
        assert_eq!(
            (broken("switch-kill fault"), broken("cable-pull fault")),
            (2, 1)
        );
        assert_eq!(by_kind["switch-kill return"].unbroken, 1);
    }
}
