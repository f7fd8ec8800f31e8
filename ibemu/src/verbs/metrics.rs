//! `ibemu metrics`: all that is known of the fabric as metrics, once.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use monitor::{Format, Options, Snapshot, render};

use crate::cli::Metrics;
use crate::dir::FabricDir;
use crate::names::FabricName;
use crate::state::FabricState;
use crate::{output, sampling};

/// How long a sample may take to come about.
const LIMIT: Duration = Duration::from_secs(30);
/// From one attempt to the next.
const INTERVAL: Duration = Duration::from_millis(200);

/// Samples the fabric and prints the metrics.
///
/// # Errors
/// If there is no such fabric, or it cannot be sampled.
pub async fn run(fabric: &FabricName, options: &Metrics) -> Result<()> {
    let dir = FabricDir::of(fabric);
    let state = FabricState::require(&dir)?;
    let processes = sampling::processes(&dir, &state).await?;
    let sampler = Options {
        interval: INTERVAL,
        devices_max: state.devices().len(),
        ..Options::default()
    };
    let sampler = sampling::start(&dir, &state, sampler).await?;
    sampler.set_processes(processes);
    let mut samples = sampler.subscribe();
    let is_whole = |now: &Arc<Snapshot>| now.sequence > 0 && !now.processes.is_empty();
    let whole = tokio::time::timeout(LIMIT, samples.wait_for(is_whole)).await;
    let Ok(whole) = whole else {
        let failure = sampler.current().collection.failure.clone();
        bail!(failure.unwrap_or_else(|| format!("no sample within {LIMIT:?}")));
    };
    let snapshot = Arc::clone(&*whole.context("the sampler has ended")?);
    let format = match options.text {
        true => Format::Text,
        false => Format::OpenMetrics,
    };
    output::text(&render(&snapshot, format))
}
