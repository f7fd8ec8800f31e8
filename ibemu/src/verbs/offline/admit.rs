//! `ibemu admit`: how many random connections a fabric can promise bandwidth to (VLARB01, 5.2).

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use routing::qos::{
    Admission, Band, Cause, Class, FillOptions, FillReport, Layout, LinkRate, Options, QosError,
    fill,
};
use routing::{LidBase, RoutingEngine};
use serde::Serialize;
use topologies::Graph;

use super::args::{Admit, Scheme};
use super::extras::{audited, refusal};
use super::tables::{self, Routed};
use crate::levels::Levels;
use crate::output::{self, Align, Table};
use crate::usage::UsageError;

#[derive(Debug, Serialize)]
struct RefusalJson<'a> {
    cause: &'static str,
    wanted: u64,
    left: u64,
    node: &'a str,
    port: u8,
}

#[derive(Debug, Serialize)]
struct Refused {
    bandwidth: u32,
    entries: u32,
}

#[derive(Debug, Serialize)]
struct Load {
    mean: f64,
    max: f64,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    topology: &'a str,
    routing: RoutingEngine,
    rate: LinkRate,
    layout: Layout,
    seed: u64,
    tries: u32,
    retries: u32,
    tried: u32,
    /// By service level.
    established: BTreeMap<u8, u32>,
    total: u32,
    load: Load,
    refused: Refused,
    first_refusal: Option<RefusalJson<'a>>,
}

/// Fills a fabric with connections and prints how far it came.
///
/// # Errors
/// If there are no tables, or a link has promised more than it has.
pub fn run(options: &Admit) -> Result<()> {
    let scheme = Scheme {
        lid_base: LidBase::Aligned,
        lmc: None,
        // Connections need the VLs.
        vls: match options.routing {
            RoutingEngine::Auto => 1,
            _ => routing::DATA_VLS,
        },
        seed: options.seed,
        levels: Levels::default(),
    };
    let routed = Routed::new(&options.topology, options.routing, None, &scheme)?;
    let (graph, tables) = (routed.graph(), &routed.tables);
    let qos = Options {
        layout: options.layout,
        ..Options::default()
    };
    let refused = |error: QosError| UsageError(refusal(graph, &error));
    let mut fabric = Admission::new(graph, qos, |_| options.rate.bps()).map_err(refused)?;
    let hosts = tables::hosts(graph);
    if hosts.len() < 2 {
        return Err(UsageError("connections need two hosts with cables".to_owned()).into());
    }
    let path = |source: usize, to: usize| tables::outputs(graph, tables, hosts[source], hosts[to]);
    let how = FillOptions {
        tries: options.tries,
        retries: options.retries,
        seed: options.seed,
    };
    let filled = fill(&mut fabric, hosts.len(), path, how).map_err(refused)?;
    let report = report(&routed, options, &qos, &filled);
    if options.json {
        output::json(&report)?;
    } else {
        print(graph, &report, &filled)?;
    }
    match audited(graph, &fabric).first() {
        None => Ok(()),
        Some(fault) => bail!("{fault}"),
    }
}

fn report<'a>(
    routed: &'a Routed,
    options: &Admit,
    qos: &Options,
    filled: &FillReport,
) -> Report<'a> {
    let level = |band| qos.service_levels.sl(Class::Dedicated(band)).get();
    let first_refusal = match filled.first_refusal {
        Some(QosError::Refused { at, cause }) => {
            let (cause, wanted, left) = match cause {
                Cause::Bandwidth { wanted, left } => {
                    ("bandwidth", u64::from(wanted), u64::from(left))
                }
                Cause::Entries { wanted, free } => ("entries", wanted as u64, free as u64),
            };
            Some(RefusalJson {
                cause,
                wanted,
                left,
                node: &routed.graph().node(at.node).name,
                port: at.port.get(),
            })
        }
        _ => None,
    };
    Report {
        topology: &routed.topology.name,
        routing: routed.tables.engine,
        rate: options.rate,
        layout: options.layout,
        seed: options.seed,
        tries: options.tries,
        retries: options.retries,
        tried: filled.tried,
        established: Band::ALL
            .map(level)
            .into_iter()
            .zip(filled.established)
            .collect(),
        total: filled.total(),
        load: Load {
            mean: filled.load_mean,
            max: filled.load_max,
        },
        refused: Refused {
            bandwidth: filled.refused_bandwidth,
            entries: filled.refused_entries,
        },
        first_refusal,
    }
}

fn print(graph: &Graph, report: &Report<'_>, filled: &FillReport) -> Result<()> {
    output::line(format!(
        "{}, routing {}, links {}: {} of {} tried connections stand",
        report.topology, report.routing, report.rate, report.total, report.tried
    ))?;
    let mut table = Table::new(&[("SL", Align::Right), ("ESTABLISHED", Align::Right)]);
    for (level, established) in &report.established {
        table.row([level.to_string(), established.to_string()]);
    }
    output::line(table)?;
    output::line(format!(
        "load of a link: {:.1} % in the mean, {:.1} % at most",
        100.0 * report.load.mean,
        100.0 * report.load.max
    ))?;
    output::line(format!(
        "draws refused: {} for bandwidth, {} for table entries",
        report.refused.bandwidth, report.refused.entries
    ))?;
    match &filled.first_refusal {
        None => Ok(()),
        Some(error) => output::line(format!("first refusal {}", refusal(graph, error))),
    }
}
