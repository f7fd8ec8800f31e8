//! `ibemu up`: brings a fabric up and verifies it; leaves nothing behind if that fails.

mod combinations;
mod levels;
mod m_key;
mod memory;
mod partitions;
mod phases;
mod several;
mod tables;

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use daemon::signals::ShutdownSignals;
use routing::Warning;
use topologies::Topology;

use crate::addresses;
use crate::cli::{Sm, Up};
use crate::dir::FabricDir;
use crate::engines;
use crate::logs;
use crate::names::FabricName;
use crate::output;
use crate::process::ProcessRecord;
use crate::progress::Progress;
use crate::recordings;
use crate::setup;
use crate::shape;
use crate::state::{FabricState, Stage};
use crate::supervisor;
use crate::teardown;
use crate::tunnels;
use crate::usage::{self, UsageError};
pub(super) use combinations::{separate, unroutable};
use phases::{Failed, Summary};

/// Brings the fabric up.
///
/// # Errors
/// If it cannot be brought up as asked; nothing but a copy of the logs is then left behind.
pub async fn run(fabric: &FabricName, options: &Up) -> Result<()> {
    netio::process::survive_file_size_limit();
    // From here on an interrupt cleans up.
    let mut leave = ShutdownSignals::new().context("cannot listen to signals")?;
    let topology = usage::part_of_topology(&options.topology, &options.leave_out)?;
    let tables = tables::given(&topology, options)?;
    let m_key = m_key::given(options)?;
    let sa_key = m_key::given_sa_key(options)?;
    let remembered = memory::given(options)?;
    let kept = remembered.as_ref().and_then(|given| given.choice.clone());
    let taken = combinations::check(&topology.graph, options, kept)?;
    let partitions = partitions::given(options)?;
    let levels = options.levels.guids(&topology.graph)?;
    let shape = shape::lines(&topology.graph);
    let dir = FabricDir::of(fabric);
    let slurm = options.several.slurm;
    let mut options = options.clone();
    if slurm {
        several::choose_transport(&mut options);
    }
    let options = &options;
    let graph = slurm.then(|| topology.graph.clone());
    let mut state = plan(&dir, topology, options)?;
    supervisor::check_programs()?;
    if options.transport.has_namespaces() && !slurm {
        setup::check_prerequisites()?;
        setup::check_names(&state)?;
    }
    if let Some(folder) = &options.record {
        state.options.record = Some(recordings::prepare(folder)?);
    }
    let mut progress = Progress::new();
    let wants_interfaces = options.transport.has_namespaces() && !options.no_ip && !slurm;
    if wants_interfaces && let Err(error) = addresses::check_interfaces() {
        progress.print(&format!(
            "/dev/net/tun cannot be used ({error}): hosts have no interface ib0 (modprobe tun, or --no-ip)"
        ));
        state.options.no_ip = true;
    }
    let asked = match &graph {
        Some(graph) => Some(several::place(&dir, &mut state, graph, options, &mut leave).await?),
        None => None,
    };
    if let Err(error) = dir.create() {
        if let Some(asked) = asked {
            asked.give_back().await;
        }
        return Err(error);
    }
    progress.print(&headline(&state));
    if tables.as_ref().is_some_and(|given| given.levels.is_empty()) {
        progress.print(&format!("tables: {}", Warning::OneVl));
    }
    let limit = Duration::from_secs(u64::from(state.timeout_s()));
    let work = async {
        tables::keep(&dir, tables.as_ref())?;
        m_key::keep(&dir, m_key, sa_key)?;
        tunnels::keep(&dir, &state)?;
        partitions::keep(&dir, partitions.as_deref())?;
        levels::keep(&dir, &levels)?;
        memory::keep(&dir, remembered.as_ref(), taken.as_ref())?;
        addresses::keep(&dir, &state)?;
        bring_up(&dir, &mut state, &mut progress, limit).await
    };
    let result = tokio::select! {
        result = work => result,
        () = leave.next() => Err(Failed::interrupted()),
    };
    progress.clear();
    match result {
        Ok(summary) => {
            // The fabric is up, even if standard output fails.
            if let Err(error) = announce(&dir, &state, &shape, &summary, &progress) {
                progress.print(&format!(
                    "fabric {} is up, but its summary could not be written: {error:#}",
                    state.fabric
                ));
            }
            Ok(())
        }
        Err(failed) => {
            let error = clean_up(&dir, failed).await;
            if let Some(asked) = asked {
                asked.give_back().await;
            }
            Err(error)
        }
    }
}

/// Plans the fabric; an impossible plan is a usage error.
fn plan(dir: &FabricDir, topology: Topology, options: &Up) -> Result<FabricState> {
    let own = ProcessRecord::own()?;
    let planned = FabricState::plan(dir.fabric(), &topology.graph, topology.name, options, own);
    planned
        .and_then(|state| {
            supervisor::check_link_options(&state)?;
            Ok(state)
        })
        .map_err(|error| UsageError(format!("{error:#}")).into())
}

async fn bring_up(
    dir: &FabricDir,
    state: &mut FabricState,
    progress: &mut Progress,
    limit: Duration,
) -> Result<Summary, Failed> {
    // Written before anything else is created: `down` removes what it names.
    state.save(dir)?;
    let deadline = tokio::time::Instant::now() + limit;
    let summary = phases::all(dir, state, progress, deadline).await?;
    state.stage = Stage::Up;
    state.save(dir)?;
    Ok(summary)
}

/// Removes what was created and reports the error.
async fn clean_up(dir: &FabricDir, failed: Failed) -> anyhow::Error {
    let kept = if failed.interrupted {
        Ok(None)
    } else {
        logs::keep(dir)
    };
    let log = match kept {
        Ok(Some(kept)) => match &failed.handle {
            Some(handle) if kept.join(format!("{handle}.log")).exists() => {
                format!("\nlog: {}", kept.join(format!("{handle}.log")).display())
            }
            _ => format!("\nlogs: {}", kept.display()),
        },
        Ok(None) => String::new(),
        Err(error) => format!("\nthe logs could not be kept: {error:#}"),
    };
    let left = match teardown::down(dir).await {
        Ok(_) => String::new(),
        Err(error) => format!(
            "\nnot everything could be removed ({error:#}); run: ibemu down --fabric {}",
            dir.fabric()
        ),
    };
    anyhow!("{:#}{log}{left}", failed.error)
}

fn headline(state: &FabricState) -> String {
    format!(
        "fabric {}: {}, {}",
        state.fabric,
        state.topology,
        contents(state)
    )
}

fn contents(state: &FabricState) -> String {
    let transport = state.options.transport;
    let text = format!(
        "{} switches, {} hosts, {} cables over {transport}",
        state.switches().count(),
        state.devices().len() - state.switches().count(),
        state.links.len()
    );
    let Some(job) = &state.job else { return text };
    let cut = state.links.iter().filter(|&&ends| state.is_cut(ends));
    format!(
        "{text}, on the {} machines of job {} ({} cables between them)",
        job.machines.len(),
        job.id,
        cut.count()
    )
}

/// Prints a summary of the fabric and how to use it.
fn announce(
    dir: &FabricDir,
    state: &FabricState,
    shape: &[String],
    summary: &Summary,
    progress: &Progress,
) -> Result<()> {
    output::line(format!(
        "fabric {} is up: {}, {}",
        state.fabric,
        state.topology,
        contents(state)
    ))?;
    for line in shape {
        output::line(format!("  {}", line.replacen(": ", " ", 1)))?;
    }
    match &summary.subnet {
        Some(subnet) => {
            let hosts: Vec<&str> = state
                .controllers()
                .map(|(sm_node, _)| state.nodes[sm_node.node].name.as_str())
                .collect();
            let node = hosts.join(", ");
            output::line(format!(
                "  subnet    {}, LMC {}, {} LIDs; the controller runs beside {node}",
                engines::name(&subnet.engine),
                subnet.lmc,
                subnet.lids_used
            ))?;
        }
        None => output::line(
            "  subnet    none: every link is in Init and waits for a subnet manager of yours",
        )?,
    }
    if let Some(protection) = state.m_key_protection() {
        output::line(format!(
            "  M_Key     protection {protection}; the key is in {}",
            dir.m_key_file().display()
        ))?;
    }
    for warning in summary.subnet.iter().flat_map(|subnet| &subnet.warnings) {
        output::line(format!("  note      {warning}"))?;
    }
    if let Some(verified) = &summary.verified {
        output::line(format!("  verified  {verified}"))?;
    }
    output::line(format!("  seconds   {}", progress.seconds()))?;
    how_to_use(state)
}

fn how_to_use(state: &FabricState) -> Result<()> {
    let fabric = if state.fabric.as_str() == "ib" {
        String::new()
    } else {
        format!(" --fabric {}", state.fabric)
    };
    // Handles, because names may hold blanks; both are understood.
    let mut hosts = state
        .real_hosts()
        .filter(|&node| state.nodes[node].device.is_none())
        .map(|node| state.nodes[node].handle.as_str());
    let first = hosts.next();
    let last = hosts.last().or(first);
    let (Some(first), Some(last)) = (first, last) else {
        return output::line(format!("use it:  ibemu status{fabric}"));
    };
    let mut lines = vec![
        format!("ibemu status{fabric}"),
        format!("ibemu ping{fabric} {first} {last}"),
        format!("ibemu path{fabric} {first} {last}"),
        format!("ibemu perf{fabric} --all --seconds 5"),
        format!("ibemu exec{fabric} {first} ibnetdiscover"),
        format!("ibemu down{fabric}"),
    ];
    if state.options.sm == Sm::None {
        lines.insert(0, format!("ibemu exec{fabric} {first} opensm"));
    }
    for (number, line) in lines.iter().enumerate() {
        let heading = if number == 0 { "use it:" } else { "" };
        output::line(format!("{heading:<8} {line}"))?;
    }
    Ok(())
}
