//! `ibemu sim traffic`: the traffic of `ibemu traffic` in virtual time.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use clap::Args;
use controller::SmConfig;
use daemon::choice::{choice, plain_choice};
use link::{Pacing, PortConfig};
use routing::RoutingEngine;
use sim::TwinConfig;
use topologies::Graph;
use wire::attr::VlCount;
use wire::{LinkRate, LinkSpeed, LinkWidth, Lmc, Mtu};

use super::up::{separate, unroutable};
use crate::cli::{LeaveOut, Traffic, Up};
use crate::levels::{LevelGuids, Levels};
use crate::quantity;
use crate::state::FabricState;
use crate::traffic::{self, About, TrafficPlan, VirtualFabric, What};
use crate::usage::{self, UsageError};

/// For how long links send in virtual time for a calibration, seconds at full speed, and at most.
const REFERENCE_SECONDS: f64 = 0.000_5;
const REFERENCE_SECONDS_MAX: f64 = 10.0;

/// The fabric, and what is sent through it.
#[derive(Debug, Args)]
#[command(after_help = "\
What is sent and reported is that of `ibemu traffic`, and options of the fabric are those of `ibemu up` with the same \
defaults. The manager, the hosts and the switches are those of a live fabric; a packet takes its time on the link \
(at --time-scale) and --flight on the cable, and the machine takes none. The same command prints the same on any \
machine.")]
pub struct VirtualTraffic {
    /// A generated topology or a file, as for `up`
    topology: String,
    #[command(flatten)]
    traffic: Traffic,
    #[command(flatten)]
    leave_out: LeaveOut,
    /// Routing engine
    #[arg(long, value_parser = choice::<RoutingEngine>(), default_value_t = RoutingEngine::Auto,
          value_name = "ENGINE", help_heading = "Fabric")]
    routing: RoutingEngine,
    /// LID mask control of the hosts, 0 to 7: each answers to 2^LMC LIDs [default: what the routing engine wants]
    #[arg(long, value_name = "LMC", help_heading = "Fabric",
          value_parser = clap::value_parser!(u8).range(0..=7))]
    lmc: Option<u8>,
    #[command(flatten)]
    levels: Levels,
    /// Data VLs that every port supports, 1 to 15
    #[arg(long, default_value_t = routing::DATA_VLS, value_name = "VLS", help_heading = "Links",
          value_parser = clap::value_parser!(u8).range(1..=15))]
    vls: u8,
    /// Largest payload of a packet, bytes
    #[arg(long, default_value_t = Mtu::Mtu2048, value_name = "BYTES", help_heading = "Links",
          value_parser = plain_choice::<Mtu>())]
    mtu: Mtu,
    /// Link width, where the topology says nothing of it: physical lanes of the cable
    #[arg(long, default_value_t = LinkWidth::X4, value_name = "WIDTH", help_heading = "Links",
          value_parser = plain_choice::<LinkWidth>())]
    width: LinkWidth,
    /// Speed of a physical lane, where the topology says nothing of it
    #[arg(long, default_value_t = LinkSpeed::Qdr, value_name = "SPEED", help_heading = "Links",
          value_parser = choice::<LinkSpeed>())]
    speed: LinkSpeed,
    /// Links run this many times slower than real ones; above 0
    #[arg(long, default_value_t = 100.0, value_name = "FACTOR", help_heading = "Links",
          value_parser = quantity::positive)]
    time_scale: f64,
    /// Input buffer of each data VL of a port, bytes (k and M are understood): at least one packet of the MTU, at
    /// most 131072
    #[arg(long, default_value = "65536", value_name = "BYTES", help_heading = "Links",
          value_parser = quantity::buffer_bytes)]
    buffer: u32,
    /// How long a bit is on a cable, nanoseconds
    #[arg(long, default_value_t = 1_000, value_name = "NS", help_heading = "Links",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    flight: u64,
}

/// Sends traffic in virtual time and reports on it.
///
/// # Errors
/// If the plan or the fabric is wrong, flows were abandoned, or a checker of the simulator has found something.
pub(super) fn run(options: &VirtualTraffic) -> Result<()> {
    if options.traffic.calibrate {
        let what = "--calibrate compares a live fabric with virtual time: ibemu traffic has it";
        return Err(UsageError(what.to_owned()).into());
    }
    let mut plan = super::traffic::plan(&options.traffic)?;
    plan.time_scale = options.time_scale;
    let config = config(options)?;
    let topology = usage::part_of_topology(&options.topology, &options.leave_out)?;
    let levels = options.levels.guids(&topology.graph)?;
    check(&topology.graph, options, &levels)?;
    let config = TwinConfig {
        manager: SmConfig {
            roots: levels.roots,
            io_guids: levels.io_guids,
            compute_guids: levels.compute_guids,
            ..config.manager
        },
        ..config
    };
    let fabric = VirtualFabric::new(&topology.graph, &config)?;
    let names = fabric.hosts.iter().map(|host| host.identity.name.as_str());
    let names: Vec<&str> = names.collect();
    let resolved = plan.resolve(&names).context("traffic")?;
    let groups = u32::try_from(resolved.groups.len())?;
    let about = About {
        groups: &resolved.groups,
        collectives: &resolved.collectives,
        constants: &resolved.constants,
        calibration: None,
    };
    let jitter_of: BTreeSet<u32> = resolved.constants.iter().map(|run| run.group).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")?;
    let ran = runtime.block_on(fabric.run(resolved.flows, groups, &jitter_of))?;
    traffic::print(&ran.outcome, &about, options.traffic.json)?;
    if let Some(folder) = &options.traffic.report {
        let title = format!("{} in virtual time", options.traffic.what);
        traffic::write(folder, &title, &ran.outcome, &about)?;
    }
    if let Some(first) = ran.findings.first() {
        bail!(
            "{} findings of the simulator's checkers, the first: {first}",
            ran.findings.len()
        );
    }
    traffic::verdict(&ran.outcome, about.collectives)
}

/// What the links of a live fabric would deliver of a plan, bits a second, if they are paced so and the machine takes no time. Tables of
/// one's own are those of [`RoutingEngine::Auto`] here.
///
/// # Errors
/// If the fabric cannot be built in virtual time.
pub(super) async fn reference(
    state: &FabricState,
    mut plan: TrafficPlan,
    time_scale: f64,
) -> Result<u64> {
    plan.time_scale = time_scale;
    // As long as it takes for about as many packets at any time scale.
    let seconds = (REFERENCE_SECONDS * time_scale).min(REFERENCE_SECONDS_MAX);
    for group in &mut plan.flows {
        if !matches!(group.pattern, Some(What::Collective(_))) {
            group.count = None;
            group.seconds = Some(seconds);
        }
    }
    let Up {
        links,
        routing,
        lmc,
        levels,
        leave_out,
        ..
    } = &state.options;
    let topology = usage::part_of_topology(&state.topology, leave_out)?;
    let levels = levels.guids(&topology.graph)?;
    let port = PortConfig {
        mtu: links.mtu,
        vls: links.vls,
        rate: LinkRate {
            width: links.width,
            speed: links.speed,
        },
        pacing: Pacing::exact(time_scale)?,
        buffer_bytes: usize::try_from(links.buffer)?,
        ..PortConfig::default()
    };
    let config = TwinConfig {
        port,
        manager: SmConfig {
            routing: match routing {
                RoutingEngine::File => RoutingEngine::Auto,
                &engine => engine,
            },
            lmc: lmc.map(Lmc::new).transpose()?,
            roots: levels.roots,
            io_guids: levels.io_guids,
            compute_guids: levels.compute_guids,
            ..SmConfig::default()
        },
        ..TwinConfig::default()
    };
    let fabric = VirtualFabric::new(&topology.graph, &config)?;
    let names = fabric.hosts.iter().map(|host| host.identity.name.as_str());
    let resolved = plan
        .resolve(&names.collect::<Vec<_>>())
        .context("traffic")?;
    let groups = u32::try_from(resolved.groups.len())?;
    let ran = fabric.run(resolved.flows, groups, &BTreeSet::new()).await?;
    Ok(traffic::bits_per_second(&ran.outcome))
}

/// Refuses what the subnet manager would not bring up.
fn check(graph: &Graph, options: &VirtualTraffic, levels: &LevelGuids) -> Result<()> {
    if let Some(problem) = separate(graph) {
        return Err(UsageError(problem).into());
    }
    // What `auto` takes it has tried.
    if options.routing == RoutingEngine::Auto {
        return Ok(());
    }
    let how = routing::Options {
        lmc: options.lmc.map(Lmc::new).transpose()?,
        data_vls: VlCount::at_most(options.vls).map(VlCount::vls),
        ..routing::Options::default()
    };
    match options
        .routing
        .route(graph, &levels.clone().into_options(how))
    {
        Ok(_) => Ok(()),
        Err(error) => Err(UsageError(unroutable(options.routing, &error)).into()),
    }
}

/// The fabric but for its levels.
fn config(options: &VirtualTraffic) -> Result<TwinConfig> {
    let refused = |error: link::ConfigError| UsageError(error.to_string());
    let port = PortConfig {
        mtu: options.mtu,
        vls: options.vls,
        rate: LinkRate {
            width: options.width,
            speed: options.speed,
        },
        pacing: Pacing::exact(options.time_scale).map_err(refused)?,
        buffer_bytes: usize::try_from(options.buffer)?,
        ..PortConfig::default()
    };
    port.check().map_err(refused)?;
    if options.routing == RoutingEngine::File {
        let text = "--routing file needs tables, which ibemu sim traffic does not take";
        return Err(UsageError(text.to_owned()).into());
    }
    Ok(TwinConfig {
        flight_ns: options.flight,
        port,
        manager: SmConfig {
            routing: options.routing,
            lmc: options.lmc.map(Lmc::new).transpose()?,
            ..SmConfig::default()
        },
        ..TwinConfig::default()
    })
}
