//! `ibemu place`: shows what would run on which of several machines, and which cables would join them.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use cluster::placement::Placement;
use serde::Serialize;
use topologies::{Endpoint, Graph, Topology};

use crate::adapters::AdapterNames;
use crate::cli::LeaveOut;
use crate::machines::{Placed, place};
use crate::output::{self, Align, Table};
use crate::usage::{self, UsageError};

/// `ibemu place`.
#[derive(Debug, Args)]
pub struct Place {
    /// A generated topology or a file, as for `up`
    pub topology: String,
    #[command(flatten)]
    /// What of it is left out.
    pub leave_out: LeaveOut,
    /// How many machines, 1 to 1024
    #[arg(short = 'N', long, value_name = "NUMBER", required_unless_present = "cpus",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub nodes: Option<u16>,
    /// Processors of each machine, with commas between: its share of the fabric is in proportion [default: all have
    /// as many]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub cpus: Vec<u32>,
    /// What adapters are called at this site, as for `up`: adapters of one host stay together
    #[arg(long, value_name = "GLOB")]
    pub adapter_names: Vec<String>,
    /// A placement by hand, lines MACHINE NODE: MACHINE is a number from 0, NODE a device or a pattern (* any
    /// characters, ? one); of several lines for one device the last counts, and hosts without a line follow their
    /// switch [default: computed by METIS]
    #[arg(long, value_name = "FILE")]
    pub placement: Option<PathBuf>,
    /// Print the placement as lines that --placement reads, to be changed by hand
    #[arg(long, conflicts_with = "json")]
    pub lines: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// One machine.
#[derive(Debug, Serialize)]
struct Machine {
    machine: usize,
    cpus: u32,
    switches: usize,
    hosts: usize,
    ports: usize,
    devices: Vec<String>,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Report {
    topology: String,
    cables: usize,
    machines: Vec<Machine>,
    cut: Vec<Cut>,
}

/// A cable between two machines.
#[derive(Debug, Serialize)]
struct Cut {
    ends: [String; 2],
    machines: [usize; 2],
}

/// Shows the placement.
///
/// # Errors
/// If there is no such topology, or it cannot be placed so.
pub fn run(options: &Place) -> Result<()> {
    let Topology { graph, name, .. } =
        usage::part_of_topology(&options.topology, &options.leave_out)?;
    let cpus = cpus(options)?;
    let placement = place(&Placed {
        graph: &graph,
        adapter_names: AdapterNames(&options.adapter_names),
        first: graph.hosts().next(),
        cpus: &cpus,
        names: &vec![None; cpus.len()],
        by_hand: options.placement.as_deref(),
    })?;
    if options.lines {
        return output::text(&placement.lines(&graph));
    }
    let report = report(name, &graph, &cpus, &placement);
    match options.json {
        true => output::json(&report),
        false => print(&report),
    }
}

/// The processors of each machine.
fn cpus(options: &Place) -> Result<Vec<u32>, UsageError> {
    match options.nodes {
        None => Ok(options.cpus.clone()),
        Some(nodes) if options.cpus.is_empty() => Ok(vec![1; usize::from(nodes)]),
        Some(nodes) if usize::from(nodes) == options.cpus.len() => Ok(options.cpus.clone()),
        Some(nodes) => Err(UsageError(format!(
            "--cpus has {} numbers, and there are {nodes} machines (-N): give one for each",
            options.cpus.len()
        ))),
    }
}

fn report(topology: String, graph: &Graph, cpus: &[u32], placement: &Placement) -> Report {
    let end = |end: Endpoint| format!("{}:{}", graph.node(end.node).name, end.port);
    let cut = placement.cut(graph).map(|(a, b)| Cut {
        ends: [a, b].map(end),
        machines: [a, b].map(|end| placement.machine(end.node)),
    });
    let devices = |machine: usize| {
        let ids = graph.ids().filter(|&id| placement.machine(id) == machine);
        ids.map(|id| graph.node(id).name.clone()).collect()
    };
    let loads = placement.loads(graph).into_iter().zip(cpus).enumerate();
    Report {
        topology,
        cables: graph.links().count(),
        machines: loads
            .map(|(machine, (load, &cpus))| Machine {
                machine,
                cpus,
                switches: load.switches,
                hosts: load.hosts,
                ports: load.ports,
                devices: devices(machine),
            })
            .collect(),
        cut: cut.collect(),
    }
}

fn print(report: &Report) -> Result<()> {
    output::line(format!(
        "{} on {} machines: {} of {} cables between them",
        report.topology,
        report.machines.len(),
        report.cut.len(),
        report.cables
    ))?;
    let all: usize = report.machines.iter().map(|machine| machine.ports).sum();
    let mut table = Table::new(&[
        ("MACHINE", Align::Right),
        ("CPUS", Align::Right),
        ("SWITCHES", Align::Right),
        ("HOSTS", Align::Right),
        ("PORTS", Align::Right),
        ("SHARE", Align::Right),
        ("DEVICES", Align::Left),
    ]);
    for machine in &report.machines {
        table.row([
            machine.machine.to_string(),
            machine.cpus.to_string(),
            machine.switches.to_string(),
            machine.hosts.to_string(),
            machine.ports.to_string(),
            format!("{} %", (machine.ports * 100 + all / 2) / all.max(1)),
            machine.devices.join(" "),
        ]);
    }
    output::line(table)?;
    for cut in &report.cut {
        let ([a, b], [here, there]) = (&cut.ends, cut.machines);
        output::line(format!("cut {a} - {b}, machines {here} and {there}"))?;
    }
    Ok(())
}
