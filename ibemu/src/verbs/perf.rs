//! `ibemu perf`: traffic between two hosts, or between all.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use hostd::control::FLOWS_MAX;
use wire::Sl;
use wire::convert::saturate;

use crate::cli::Perf;
use crate::dir::FabricDir;
use crate::lids::{self, LeftOut};
use crate::names::FabricName;
use crate::quantity::Rate;
use crate::state::FabricState;
use crate::traffic::{self, About, DURATION_MS, FlowSpec, Participants, Share, seed_of};
use crate::usage::UsageError;
use crate::verify::{self, Pair};

/// How long to send at most, seconds: what 32 bits of milliseconds hold.
const SECONDS_MAX: f64 = 4_294_967.0;

/// Sends traffic and reports on it. An interrupt (SIGINT, SIGTERM) ends the flows, and what they have
/// delivered is reported; a second one does not wait for packets that are under way.
///
/// # Errors
/// If flows cannot be started, or were abandoned.
pub async fn run(fabric: &FabricName, options: &Perf) -> Result<()> {
    let dir = FabricDir::of(fabric);
    let state = FabricState::require(&dir)?;
    check(options)?;
    let ran = traffic::run(&dir, &state, participants(&dir, &state, options)).await?;
    if options.perftest {
        traffic::print_perftest(&ran)?;
    } else {
        traffic::print(&ran, &About::default(), options.json)?;
    }
    traffic::verdict(&ran, &[])
}

fn check(options: &Perf) -> Result<()> {
    if options.window == Some(0) && options.rate.is_none() {
        return Err(UsageError("--window 0 needs --rate".to_owned()).into());
    }
    if options.seconds.is_some_and(|seconds| seconds > SECONDS_MAX) {
        return Err(UsageError(format!("--seconds: at most {SECONDS_MAX}")).into());
    }
    Ok(())
}

async fn participants(
    dir: &FabricDir,
    state: &FabricState,
    options: &Perf,
) -> Result<Participants> {
    let (hosts, left_out) = match (&options.source, &options.destination) {
        (Some(source), Some(destination)) => {
            let source = lids::of_host(dir, state, state.find_host(source)?).await?;
            let destination = lids::of_host(dir, state, state.find_host(destination)?).await?;
            (vec![source, destination], Vec::new())
        }
        _ => lids::reachable(dir, state, state.hosts()).await,
    };
    if hosts.len() < 2 {
        LeftOut::print(&left_out)?;
        bail!(
            "--all needs two hosts that can be reached, and of {} there are {} (ibemu status)",
            state.hosts().count(),
            hosts.len()
        );
    }
    if hosts.len() > FLOWS_MAX {
        bail!(
            "--all among {} hosts is more than the {FLOWS_MAX} flows that a host holds",
            hosts.len()
        );
    }
    let pairs = match options.all {
        true => verify::all_pairs(hosts.len()),
        false => vec![(0, 1)],
    };
    let share = Share {
        parts: 1,
        of: saturate::<u32>(hosts.len() - 1),
    };
    let flows = pairs.into_iter().map(|pair| flow(pair, share, options));
    let flows = flows.collect::<Result<_>>()?;
    Ok(Participants {
        hosts,
        left_out,
        flows,
        groups: 1,
        jitter_of: BTreeSet::new(),
        has_lines: options.all,
    })
}

fn flow(pair: Pair, share: Share, options: &Perf) -> Result<FlowSpec> {
    let rate = options.rate.map_or(0, |Rate(rate)| share.rate(rate));
    Ok(FlowSpec {
        pair,
        group: 0,
        size: options.size,
        window: options.window.unwrap_or_else(|| share.window()),
        rate,
        sl: options.sl.map(Sl::new).transpose()?,
        dlid_offset: options.dlid_offset,
        count: options.count.unwrap_or(0),
        start_ms: 0,
        duration_ms: match (options.count, options.seconds) {
            (Some(_), _) => 0,
            (None, None) => DURATION_MS,
            (None, Some(seconds)) => traffic::milliseconds(seconds).max(1),
        },
        seed: seed_of(options.seed, pair),
        step: None,
        mgid: None,
        is_warm_up: false,
    })
}
