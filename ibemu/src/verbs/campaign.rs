//! `ibemu sim campaign`: fault campaigns in virtual time.

use std::ops::{Range, RangeInclusive};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use campaign::{Failure, Limits, Outcome, Schedule};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::output;
use crate::usage::UsageError;

/// Runs that shrinking one failure takes at most.
const SHRINK_RUNS_MAX: u32 = 200;
/// Failures that are shrunk; further ones are only reported.
const SHRUNK_MAX: usize = 10;

/// The schedules that are run, and how.
#[derive(Debug, Args)]
pub struct Campaign {
    /// Seeds of schedules, the last one not included; the same seed is the same schedule on any
    /// machine
    #[arg(long, value_name = "FIRST..END", default_value = "0..100", value_parser = seeds)]
    seeds: Range<u64>,
    /// Switches and hosts of a fabric together, least and most
    #[arg(long, value_name = "MIN..MAX", default_value = "3..24", value_parser = devices)]
    devices: RangeInclusive<usize>,
    /// Begin no schedule after so many minutes
    #[arg(long, value_name = "NUMBER")]
    minutes: Option<u32>,
    /// Schedules run side by side, 1 to 1024 [default: one a core]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Run this one schedule, as a failure was printed, and none of seeds
    #[arg(long, value_name = "WORDS", conflicts_with_all = ["seeds", "devices"])]
    schedule: Option<String>,
    /// Print failures as they are, without looking for smaller schedules that fail in the same way
    #[arg(long)]
    no_shrink: bool,
    /// Write a JSON object
    #[arg(long)]
    json: bool,
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let (first, end) = numbers::<u64>(text)?;
    if first >= end {
        return Err(format!("no seed is in {text}"));
    }
    Ok(first..end)
}

fn devices(text: &str) -> Result<RangeInclusive<usize>, String> {
    let (least, most) = numbers::<usize>(text)?;
    if least < 2 || least > most || most > 10_000 {
        return Err("2 to 10000 devices, the least first".to_owned());
    }
    Ok(least..=most)
}

fn numbers<T: FromStr>(text: &str) -> Result<(T, T), String> {
    let pair = text.split_once("..");
    let pair = pair.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    pair.ok_or_else(|| "write two numbers with two dots between them, as 0..100".to_owned())
}

/// A failure as it is reported.
#[derive(Debug, Serialize)]
struct Reported {
    seed: Option<u64>,
    failure: String,
    replay: String,
    shrunk: bool,
}

/// The result of a campaign.
#[derive(Debug, Serialize)]
struct Summary {
    schedules: u64,
    failed: usize,
    digest: String,
    virtual_seconds: u64,
    events: u64,
    datagrams: u64,
    seconds: f64,
    threads: usize,
    failures: Vec<Reported>,
}

/// Runs schedules and prints what fails.
///
/// # Errors
/// A schedule that cannot be read; a failure of any schedule.
pub(super) fn run(asked: &Campaign) -> Result<()> {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = asked.threads.map_or_else(cores, usize::from);
    let started = Instant::now();
    let outcomes = match &asked.schedule {
        Some(text) => {
            let schedule = Schedule::from_str(text);
            let schedule = schedule.map_err(|error| UsageError(error.to_string()))?;
            vec![(None, campaign::run(&schedule), schedule)]
        }
        None => {
            let minutes = asked.minutes.map(|minutes| 60 * u64::from(minutes));
            let end = minutes.map(|seconds| started + Duration::from_secs(seconds));
            let limits = Limits {
                devices: asked.devices.clone(),
            };
            let outcomes = run_seeds(asked.seeds.clone(), &limits, threads, end);
            outcomes
                .into_iter()
                .map(|(seed, outcome)| (Some(seed), outcome, Schedule::from_seed(seed, &limits)))
                .collect()
        }
    };
    let elapsed = started.elapsed();
    let mut failures = Vec::new();
    for (seed, outcome, schedule) in &outcomes {
        if let Some(failure) = &outcome.failure {
            let is_shrunk = !asked.no_shrink && failures.len() < SHRUNK_MAX;
            failures.push(report(*seed, failure, schedule, is_shrunk));
        }
    }
    let summary = Summary {
        schedules: wire::convert::u64_of(outcomes.len()),
        failed: failures.len(),
        digest: format!(
            "{:016x}",
            digest(outcomes.iter().map(|(_, outcome, _)| outcome))
        ),
        virtual_seconds: outcomes
            .iter()
            .map(|(_, o, _)| o.virtual_ns / 1_000_000_000)
            .sum(),
        events: outcomes.iter().map(|(_, o, _)| o.events).sum(),
        datagrams: outcomes.iter().map(|(_, o, _)| o.datagrams).sum(),
        seconds: elapsed.as_secs_f64(),
        threads,
        failures,
    };
    print(&summary, asked.json)?;
    if summary.failed > 0 {
        bail!(
            "{} of {} schedules failed",
            summary.failed,
            summary.schedules
        );
    }
    Ok(())
}

/// The outcomes of seeds, in their order; of those that were begun before `end`.
fn run_seeds(
    seeds: Range<u64>,
    limits: &Limits,
    threads: usize,
    end: Option<Instant>,
) -> Vec<(u64, Outcome)> {
    let bar = ProgressBar::new(seeds.end - seeds.start);
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} schedules, {eta} left")
    {
        bar.set_style(style);
    }
    let next = AtomicU64::new(seeds.start);
    let outcomes = Mutex::new(Vec::new());
    let work = || {
        while end.is_none_or(|end| Instant::now() < end) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            let outcome = campaign::run(&Schedule::from_seed(seed, limits));
            let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
            outcomes.push((seed, outcome));
            bar.inc(1);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.max(1) {
            scope.spawn(work);
        }
        work();
    });
    bar.finish_and_clear();
    let mut outcomes = outcomes
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    outcomes.sort_by_key(|&(seed, _)| seed);
    outcomes
}

/// One number over all outcomes, in order.
fn digest<'o>(outcomes: impl Iterator<Item = &'o Outcome>) -> u64 {
    outcomes.fold(0, |digest, outcome| sim::split_mix(digest, outcome.digest))
}

fn report(seed: Option<u64>, failure: &Failure, schedule: &Schedule, shrink: bool) -> Reported {
    let schedule = match shrink {
        true => campaign::shrink(schedule, failure.kind, SHRINK_RUNS_MAX, campaign::run),
        false => schedule.clone(),
    };
    Reported {
        seed,
        failure: failure.to_string(),
        replay: format!("ibemu sim campaign --schedule '{schedule}'"),
        shrunk: shrink,
    }
}

fn print(summary: &Summary, json: bool) -> Result<()> {
    if json {
        return output::json(summary);
    }
    for failure in &summary.failures {
        let seed = failure.seed.map(|seed| format!("seed {seed}: "));
        output::line(format!("{}{}", seed.unwrap_or_default(), failure.failure))?;
        output::line(&failure.replay)?;
    }
    output::line(format!(
        "{} schedules, {} failed; {} s of virtual time, {} events, {} datagrams in {:.1} s on {} \
         threads; digest {}",
        summary.schedules,
        summary.failed,
        summary.virtual_seconds,
        summary.events,
        summary.datagrams,
        summary.seconds,
        summary.threads,
        summary.digest,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_threads_gives_the_same_outcomes() {
        let limits = Limits { devices: 3..=8 };
        let [one, three] = [1, 3].map(|threads| run_seeds(0..8, &limits, threads, None));
        assert_eq!(one, three);
        assert_eq!(one.len(), 8);
    }

    #[test]
    fn ranges_have_two_numbers_in_order() {
        assert_eq!(seeds("3..9"), Ok(3..9));
        assert_eq!(devices("2..2"), Ok(2..=2));
        for text in ["", "3", "9..3", "3..3", "a..b", "3-9"] {
            assert!(seeds(text).is_err(), "{text}");
        }
        assert!(devices("1..3").is_err() && devices("3..20000").is_err());
    }
}
