//! `ibemu traffic`: traffic by a pattern or a plan.

use std::path::Path;

use anyhow::{Context, Result};

use super::virtual_traffic;
use crate::cli::Traffic;
use crate::dir::FabricDir;
use crate::lids;
use crate::names::FabricName;
use crate::quantity::Rate;
use crate::state::FabricState;
use crate::traffic::{
    self, About, ByteText, Calibration, GroupPlan, Participants, REFERENCE, RateText, TrafficPlan,
    What,
};
use crate::usage::UsageError;

/// Sends traffic and reports on it, as [`super::perf`].
///
/// # Errors
/// If the plan is wrong, flows cannot be started, or were abandoned.
pub async fn run(fabric: &FabricName, options: &Traffic) -> Result<()> {
    let mut plan = plan(options)?;
    let dir = FabricDir::of(fabric);
    let state = FabricState::require(&dir)?;
    if !state.options.links.unpaced {
        plan.time_scale = state.options.links.time_scale;
    }
    let (hosts, left_out) = lids::reachable(&dir, &state, state.hosts()).await;
    let names: Vec<&str> = hosts
        .iter()
        .map(|host| host.identity.name.as_str())
        .collect();
    let resolved = plan.resolve(&names).context("traffic")?;
    let participants = async {
        Ok(Participants {
            groups: u32::try_from(resolved.groups.len())?,
            jitter_of: resolved.constants.iter().map(|run| run.group).collect(),
            flows: resolved.flows,
            hosts,
            left_out,
            has_lines: true,
        })
    };
    let ran = traffic::run(&dir, &state, participants).await?;
    let calibration = match options.calibrate {
        true => Some(calibration(&state, plan, traffic::bits_per_second(&ran)).await?),
        false => None,
    };
    let about = About {
        groups: &resolved.groups,
        collectives: &resolved.collectives,
        constants: &resolved.constants,
        calibration,
    };
    traffic::print(&ran, &about, options.json)?;
    if let Some(folder) = &options.report {
        traffic::write(folder, &options.what, &ran, &about)?;
    }
    traffic::verdict(&ran, &resolved.collectives)
}

/// Compares what the fabric has delivered with what its links would carry.
async fn calibration(state: &FabricState, plan: TrafficPlan, bits: u64) -> Result<Calibration> {
    let links = &state.options.links;
    let fabric = (!links.unpaced).then_some(links.time_scale);
    let scale = fabric.unwrap_or(REFERENCE);
    let reference = virtual_traffic::reference(state, plan, scale).await;
    let reference = reference.context("the same fabric in virtual time")?;
    let calibration = Calibration::new(fabric, bits, (scale, reference));
    calibration.context("nothing was delivered: no calibration")
}

/// The plan that the command line names, with its options.
pub(super) fn plan(options: &Traffic) -> Result<TrafficPlan> {
    let is_file = options.what.contains(['.', '/']);
    let mut plan = if is_file {
        TrafficPlan::read(Path::new(&options.what))?
    } else {
        let pattern = options.what.parse::<What>();
        let pattern = pattern.map_err(|error| UsageError(error.to_string()))?;
        TrafficPlan {
            seed: 1,
            warmup: 0.0,
            time_scale: 1.0,
            flows: vec![GroupPlan {
                pattern: Some(pattern),
                ..GroupPlan::default()
            }],
        }
    };
    if is_file && !(options.hosts.is_empty() && options.target.is_none()) {
        let what = "--hosts and --target belong to a pattern: a plan has them as keys";
        return Err(UsageError(what.to_owned()).into());
    }
    plan.seed = options.seed.unwrap_or(plan.seed);
    plan.warmup = options.warmup.unwrap_or(plan.warmup);
    for group in &mut plan.flows {
        replace(group, options);
    }
    Ok(plan)
}

/// Puts what the command line gives in place of what the plan says.
fn replace(group: &mut GroupPlan, options: &Traffic) {
    if !options.hosts.is_empty() {
        group.hosts.clone_from(&options.hosts);
    }
    if options.target.is_some() {
        group.target.clone_from(&options.target);
    }
    if options.count.is_some() || options.seconds.is_some() {
        group.count = options.count;
        group.seconds = options.seconds;
    }
    group.bytes = options.bytes.map(ByteText).or(group.bytes);
    group.iterations = options.iterations.or(group.iterations);
    group.size = options.size.or(group.size);
    group.rate = options.rate.map(|Rate(bits)| RateText(bits)).or(group.rate);
    group.window = options.window.or(group.window);
    group.sl = options.sl.or(group.sl);
    group.dlid_offset = options.dlid_offset.or(group.dlid_offset);
}
