//! `ibemu lids`: paths for every pair of hosts, and how many LIDs it takes to realise them (LID07).

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use routing::lid_assignment::{Assignment, LidError, PathScheme, Routes, Scheme};
use routing::network::{Network, UpDown};
use serde::Serialize;
use topologies::Graph;

use wire::convert::{real, u64_of};

use super::args::Lids;
use crate::output::{self, Align, Table};
use crate::usage::{self, UsageError};

/// The result of an assignment.
#[derive(Debug, Serialize)]
struct SchemeJson<'a> {
    assign: &'a str,
    paths: &'static str,
    /// The sum over all hosts, each rounded up to a power of two.
    lids: u32,
    lids_per_destination: f64,
    lids_per_destination_max: u32,
    /// By host port: its LIDs, not rounded.
    destinations: BTreeMap<String, u32>,
    flows_max: u32,
    load_max: f64,
}

#[derive(Debug, Serialize)]
struct FailedJson<'a> {
    assign: &'a str,
    error: String,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    topology: &'a str,
    paths: &'a str,
    hosts: usize,
    schemes: Vec<SchemeJson<'a>>,
    failed: Vec<FailedJson<'a>>,
}

/// Where a scheme's paths come from, and how they are assigned.
fn parts(assign: &str, paths: PathScheme) -> Result<(PathScheme, Scheme), UsageError> {
    match assign {
        "fully-explicit" => Ok((PathScheme::FullyExplicit, Scheme::Greedy)),
        "renaming" => Ok((PathScheme::ShortestWidest, Scheme::Greedy)),
        name => Scheme::by_name(name)
            .map(|scheme| (paths, scheme))
            .ok_or_else(|| {
                let known = Scheme::ALL.map(Scheme::name).join(", ");
                UsageError(format!(
                    "no assignment is called {name:?}; there are {known}, fully-explicit, renaming"
                ))
            }),
    }
}

/// Assigns LIDs by each scheme and prints what it takes.
///
/// # Errors
/// If there are no such schemes, no paths, or a scheme finds no assignment.
pub fn run(options: &Lids) -> Result<()> {
    let topology = usage::topology(&options.topology)?;
    let graph = &topology.graph;
    let unknown = || UsageError(format!("no paths are called {:?}", options.paths));
    let paths = PathScheme::by_name(&options.paths).ok_or_else(unknown)?;
    let schemes = options
        .assign
        .iter()
        .map(|assign| Ok((assign.as_str(), parts(assign, paths)?)))
        .collect::<Result<Vec<_>, UsageError>>()?;
    let network = Network::new(graph);
    let refused = |error: LidError| UsageError(error.to_string());
    let updown = UpDown::new(&network).ok_or_else(|| refused(LidError::NotConnected))?;
    let mut routes: Vec<(PathScheme, Routes)> = Vec::new();
    let mut report = Report {
        topology: &topology.name,
        paths: &options.paths,
        hosts: network.hosts().len(),
        schemes: Vec::new(),
        failed: Vec::new(),
    };
    for (assign, (paths, scheme)) in schemes {
        if !routes.iter().any(|(known, _)| *known == paths) {
            let computed = paths.routes(&network, &updown).map_err(refused)?;
            routes.push((paths, computed));
        }
        let Some((_, routes)) = routes.iter().find(|(known, _)| *known == paths) else {
            continue;
        };
        match Assignment::new(&network, routes, scheme) {
            Ok(assignment) => {
                let figures = figures(graph, &network, routes, &assignment);
                report.schemes.push(SchemeJson {
                    assign,
                    paths: paths.name(),
                    ..figures
                });
            }
            Err(error) => report.failed.push(FailedJson {
                assign,
                error: error.to_string(),
            }),
        }
    }
    if options.json {
        output::json(&report)?;
    } else {
        print(&report)?;
    }
    match report.failed.first() {
        None => Ok(()),
        Some(first) => bail!("{}: {}", first.assign, first.error),
    }
}

fn figures(
    graph: &Graph,
    network: &Network,
    routes: &Routes,
    assignment: &Assignment,
) -> SchemeJson<'static> {
    let counts: Vec<u32> = (0..routes.hosts())
        .map(|host| assignment.count(host))
        .collect();
    let name = |host: usize| {
        let end = network.hosts()[host].end;
        let node = graph.node(end.node);
        match node.ports {
            1 => node.name.clone(),
            _ => format!("{}:{}", node.name, end.port),
        }
    };
    let lids = assignment.lids();
    let hosts = real(u64_of(routes.hosts().max(1)));
    SchemeJson {
        assign: "",
        paths: "",
        lids,
        lids_per_destination: f64::from(lids) / hosts,
        lids_per_destination_max: counts
            .iter()
            .map(|count| count.next_power_of_two())
            .max()
            .unwrap_or(0),
        destinations: (0..routes.hosts()).map(name).zip(counts).collect(),
        flows_max: routes.loads(network).into_iter().max().unwrap_or(0),
        load_max: routes.load_max(network),
    }
}

fn print(report: &Report<'_>) -> Result<()> {
    output::line(format!(
        "{}, {} hosts, paths {}",
        report.topology, report.hosts, report.paths
    ))?;
    let mut table = Table::new(&[
        ("ASSIGN", Align::Left),
        ("LIDS", Align::Right),
        ("PER DESTINATION", Align::Right),
        ("FLOWS", Align::Right),
        ("LOAD", Align::Right),
    ]);
    for scheme in &report.schemes {
        table.row([
            scheme.assign.to_owned(),
            scheme.lids.to_string(),
            format!(
                "{:.2}, at most {}",
                scheme.lids_per_destination, scheme.lids_per_destination_max
            ),
            scheme.flows_max.to_string(),
            format!("{:.2}", scheme.load_max),
        ]);
    }
    output::line(table)
}
