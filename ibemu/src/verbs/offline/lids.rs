//! `ibemu lids`: paths for every pair of hosts, and how many LIDs it takes to realise them (LID07).

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use routing::RoutingEngine;
use routing::lid_assignment::{Assignment, LidError, PathScheme, Routes, Scheme};
use routing::network::{Network, UpDown};
use serde::Serialize;
use topologies::Graph;
use wire::choice::{Choice, UnknownName};
use wire::convert::{real, u64_of};

use super::args::Lids;
use crate::output::{self, Align, Table};
use crate::usage::{self, UsageError};

/// The result of an assignment.
#[derive(Debug, Serialize)]
struct SchemeJson {
    assign: &'static str,
    paths: PathScheme,
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
struct FailedJson {
    assign: &'static str,
    error: String,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    topology: &'a str,
    paths: PathScheme,
    hosts: usize,
    schemes: Vec<SchemeJson>,
    failed: Vec<FailedJson>,
}

/// What `--assign` takes: an assignment to the paths of `--paths`, or one with paths of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assign {
    /// The assignment, to the paths of `--paths`.
    To(Scheme),
    /// One LID a host.
    FullyExplicit,
    /// Destination renaming.
    Renaming,
}

/// The assignments with paths of their own.
const WITH_OWN_PATHS: [Assign; 2] = [Assign::FullyExplicit, Assign::Renaming];

impl Assign {
    fn name(self) -> &'static str {
        match self {
            Self::To(scheme) => scheme.name(),
            Self::FullyExplicit => PathScheme::FullyExplicit.name(),
            Self::Renaming => RoutingEngine::Renaming.name(),
        }
    }

    fn from_name(name: &str) -> Result<Self, UnknownName> {
        match WITH_OWN_PATHS.into_iter().find(|one| one.name() == name) {
            Some(own) => Ok(own),
            None => Ok(Self::To(Scheme::from_name(name)?)),
        }
    }

    /// Where the paths come from, and how LIDs are assigned to them.
    fn parts(self, paths: PathScheme) -> (PathScheme, Scheme) {
        match self {
            Self::To(scheme) => (paths, scheme),
            Self::FullyExplicit => (PathScheme::FullyExplicit, Scheme::Greedy),
            Self::Renaming => (PathScheme::ShortestWidest, Scheme::Greedy),
        }
    }
}

/// Takes the name of an assignment.
pub(super) fn assign_parser() -> impl TypedValueParser<Value = Assign> {
    let own = WITH_OWN_PATHS.into_iter().map(Assign::name);
    PossibleValuesParser::new(Scheme::names().chain(own)).try_map(|name| Assign::from_name(&name))
}

/// Takes the name of a path computation with several LIDs a host.
pub(super) fn path_parser() -> impl TypedValueParser<Value = PathScheme> {
    let several = [PathScheme::ShortestWidest, PathScheme::PathSelection];
    PossibleValuesParser::new(several.map(Choice::name))
        .try_map(|name| PathScheme::from_name(&name))
}

/// Assigns LIDs by each scheme and prints what it takes.
///
/// # Errors
/// If there are no such schemes, no paths, or a scheme finds no assignment.
pub fn run(options: &Lids) -> Result<()> {
    let topology = usage::ordered_topology(&options.topology)?;
    let graph = &topology.graph;
    let network = Network::new(graph);
    let refused = |error: LidError| UsageError(error.to_string());
    let updown = UpDown::new(&network).ok_or_else(|| refused(LidError::NotConnected))?;
    let mut routes: Vec<(PathScheme, Routes)> = Vec::new();
    let mut report = Report {
        topology: &topology.name,
        paths: options.paths,
        hosts: network.hosts().len(),
        schemes: Vec::new(),
        failed: Vec::new(),
    };
    for &assign in &options.assign {
        let (paths, scheme) = assign.parts(options.paths);
        let assign = assign.name();
        if !routes.iter().any(|(known, _)| *known == paths) {
            let computed = paths.routes(&network, &updown).map_err(refused)?;
            routes.push((paths, computed));
        }
        let Some((_, routes)) = routes.iter().find(|(known, _)| *known == paths) else {
            continue;
        };
        match Assignment::new(&network, routes, scheme) {
            Ok(assignment) => {
                let whose = (assign, paths);
                let figures = figures(whose, graph, &network, routes, &assignment);
                report.schemes.push(figures);
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
    (assign, paths): (&'static str, PathScheme),
    graph: &Graph,
    network: &Network,
    routes: &Routes,
    assignment: &Assignment,
) -> SchemeJson {
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
        assign,
        paths,
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
