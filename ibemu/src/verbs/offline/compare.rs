//! `ibemu compare`: several engines on one topology, in one table.

use anyhow::Result;
use routing::{RoutingEngine, RoutingError};
use serde::Serialize;

use super::args::Compare;
use super::figures::{QualityJson, UsageJson};
use super::judge::judged;
use super::tables::{self, Routed};
use crate::output::{self, Align, Table};
use crate::usage::{self, UsageError};

#[derive(Debug, Serialize)]
struct EngineJson {
    routing: RoutingEngine,
    /// What computed the tables: for `auto` the engine that it took.
    engine: RoutingEngine,
    lmc: u8,
    usage: UsageJson,
    hops_max: u32,
    not_minimal: u64,
    deadlock: bool,
    problem_count: u64,
    quality: QualityJson,
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct CannotJson {
    routing: RoutingEngine,
    error: String,
}

#[derive(Debug, Serialize)]
struct Report {
    topology: String,
    seed: u64,
    engines: Vec<EngineJson>,
    cannot: Vec<CannotJson>,
}

/// Compares engines.
///
/// # Errors
/// If there is no such topology, or an engine's name is unknown.
pub fn run(options: &Compare) -> Result<()> {
    if options.routing.contains(&RoutingEngine::File) {
        let text = "file needs tables; `ibemu verify --tables` says what they are worth";
        return Err(UsageError(text.to_owned()).into());
    }
    let topology = usage::ordered_topology(&options.topology)?;
    let how = tables::options(&options.scheme)?;
    let mut report = Report {
        topology: topology.name.clone(),
        seed: options.scheme.seed,
        engines: Vec::new(),
        cannot: Vec::new(),
    };
    for &engine in &options.routing {
        match engine.route(&topology.graph, &how) {
            Ok(computed) => {
                let routed = Routed {
                    topology: topology.clone(),
                    tables: computed,
                };
                report
                    .engines
                    .push(measured(engine, &routed, options.scheme.seed));
            }
            Err(error) => report.cannot.push(cannot(engine, &error)),
        }
    }
    if options.json {
        output::json(&report)
    } else {
        print(&report)
    }
}

fn cannot(routing: RoutingEngine, error: &RoutingError) -> CannotJson {
    CannotJson {
        routing,
        error: error.to_string(),
    }
}

fn measured(routing: RoutingEngine, routed: &Routed, seed: u64) -> EngineJson {
    let (graph, tables) = (routed.graph(), &routed.tables);
    let found = judged(routed);
    let deadlock = found.cycle.is_some();
    EngineJson {
        routing,
        engine: tables.engine,
        lmc: tables::lmc(tables),
        usage: UsageJson::of(graph, tables),
        hops_max: found.hops_max,
        not_minimal: found.not_minimal,
        deadlock,
        problem_count: found.problem_count - u64::from(deadlock),
        quality: QualityJson::of(graph, tables, seed, &[]),
        warnings: tables.warnings.iter().map(ToString::to_string).collect(),
    }
}

fn print(report: &Report) -> Result<()> {
    output::line(&report.topology)?;
    if let Some(first) = report.engines.first() {
        let headings = cells(first);
        let headings: Vec<(&str, Align)> = headings
            .iter()
            .map(|&(name, _)| match name {
                "ROUTING" => (name, Align::Left),
                _ => (name, Align::Right),
            })
            .collect();
        let mut table = Table::new(&headings);
        for engine in &report.engines {
            table.row(cells(engine).into_iter().map(|(_, cell)| cell));
        }
        output::line(table)?;
    }
    for engine in &report.engines {
        for warning in &engine.warnings {
            output::line(format!("{}: {warning}", engine.routing))?;
        }
    }
    for cannot in &report.cannot {
        output::line(format!("{}: {}", cannot.routing, cannot.error))?;
    }
    Ok(())
}

fn cells(engine: &EngineJson) -> Vec<(&'static str, String)> {
    let name = match engine.routing == engine.engine {
        true => engine.routing.to_string(),
        false => format!("{} ({})", engine.routing, engine.engine),
    };
    let deadlock = if engine.deadlock { "yes" } else { "no" };
    let mut cells = vec![
        ("ROUTING", name),
        ("LMC", engine.lmc.to_string()),
        ("LIDS", engine.usage.lids().to_string()),
        ("ENTRIES", engine.usage.entries.to_string()),
        ("HOPS", engine.hops_max.to_string()),
        ("NOT MINIMAL", engine.not_minimal.to_string()),
        ("VLS", engine.usage.data_vls.to_string()),
        ("DEADLOCK", deadlock.to_owned()),
        ("PROBLEMS", engine.problem_count.to_string()),
    ];
    cells.extend(engine.quality.cells());
    cells
}
