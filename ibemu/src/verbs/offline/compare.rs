//! `ibemu compare`: several engines on one topology, in one table.

use anyhow::Result;
use routing::{Choice, Options, RoutingEngine, RoutingError, Tables};
use serde::Serialize;
use topologies::Topology;

use super::args::Compare;
use super::figures::{QualityJson, UsageJson};
use super::judge::judged;
use super::tables::{self, Routed};
use crate::engines::{self, effort, side_by_side};
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
    /// Why `auto` takes what it takes, if it is among the engines.
    because: Option<String>,
    engines: Vec<EngineJson>,
    cannot: Vec<CannotJson>,
}

/// Compares engines.
///
/// # Errors
/// If there is no such topology.
pub fn run(options: &Compare) -> Result<()> {
    if options.routing.contains(&RoutingEngine::File) {
        let text = "file needs tables; `ibemu verify --tables` says what they are worth";
        return Err(UsageError(text.to_owned()).into());
    }
    let topology = usage::ordered_topology(&options.topology)?;
    let how = tables::options(&topology.graph, &options.scheme)?;
    let mut report = Report {
        topology: topology.name.clone(),
        seed: options.scheme.seed,
        because: None,
        engines: Vec::new(),
        cannot: Vec::new(),
    };
    let jobs = report.jobs(&given(&options.routing), &topology, &how);
    let seed = report.seed;
    let effort = |(engine, tables): &Job| match tables {
        Some(_) => 0,
        None => effort(*engine),
    };
    let lines = side_by_side(jobs, effort, |(engine, tables)| {
        let tables = tables.unwrap_or_else(|| engine.route(&topology.graph, &how));
        line(engine, &topology, tables, seed)
    });
    for line in lines {
        match line {
            Ok(engine) => report.engines.push(engine),
            Err(cannot) => report.cannot.push(cannot),
        }
    }
    if options.json {
        output::json(&report)
    } else {
        print(&report)
    }
}

/// The engines that are asked for, each once; none given: what `auto` takes and measures.
fn given(engines: &[RoutingEngine]) -> Vec<RoutingEngine> {
    let mut once = Vec::new();
    for &engine in engines {
        if !once.contains(&engine) {
            once.push(engine);
        }
    }
    if once.is_empty() {
        once.push(RoutingEngine::Auto);
    }
    once
}

/// An engine, and its tables if they have been computed already.
type Job = (RoutingEngine, Option<Result<Tables, RoutingError>>);

impl Report {
    /// What is to have a line: the engines `asked` for, and behind `auto` those that it has measured.
    fn jobs(&mut self, asked: &[RoutingEngine], topology: &Topology, how: &Options) -> Vec<Job> {
        let mut jobs: Vec<Job> = Vec::new();
        for &engine in asked {
            if engine != RoutingEngine::Auto {
                jobs.push((engine, None));
                continue;
            }
            match engines::choose(&topology.graph, how) {
                Ok(Choice { taken, others }) => {
                    self.because.clone_from(&taken.because);
                    jobs.push((engine, Some(Ok(taken))));
                    let is_told = |(engine, tables): &(RoutingEngine, Result<_, _>)| {
                        let is_for_others = matches!(
                            tables,
                            Err(RoutingError::NotFatTree { .. }
                                | RoutingError::NotApplicable { .. })
                        );
                        !is_for_others && !asked.contains(engine)
                    };
                    let others = others.into_iter().filter(is_told);
                    jobs.extend(others.map(|(engine, tables)| (engine, Some(tables))));
                }
                Err(error) => jobs.push((engine, Some(Err(error)))),
            }
        }
        jobs
    }
}

/// The line of an engine, or why it has none.
fn line(
    engine: RoutingEngine,
    topology: &Topology,
    tables: Result<Tables, RoutingError>,
    seed: u64,
) -> Result<EngineJson, CannotJson> {
    match tables {
        Ok(tables) => {
            let topology = topology.clone();
            Ok(measured(engine, &Routed { topology, tables }, seed))
        }
        Err(error) => Err(cannot(engine, &error)),
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
    if let Some(because) = &report.because {
        output::line(format!("auto: {because}"))?;
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
