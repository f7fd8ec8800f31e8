//! `ibemu verify`: a verdict on tables, computed here or given.

use anyhow::{Result, bail};
use routing::{
    Channel, DeliveryFailure, PROBLEMS_SHOWN, Problem, Promises, Report, RoutingEngine, verify,
};
use serde::Serialize;
use topologies::Graph;

use super::args::Verify;
use super::delivery;
use super::extras::Extra;
use super::figures::{QualityJson, UsageJson};
use super::tables::Routed;
use crate::output::{self, Align, Table};

#[derive(Debug, Serialize)]
struct ChannelJson<'a> {
    switch: &'a str,
    port: u8,
    vl: u8,
}

#[derive(Debug, Serialize)]
struct ProblemJson {
    kind: &'static str,
    text: String,
}

#[derive(Debug, Serialize)]
struct PromisesJson {
    minimal: bool,
    up_down: bool,
}

#[derive(Debug, Serialize)]
struct ReportJson<'a> {
    topology: &'a str,
    routing: RoutingEngine,
    ok: bool,
    paths: u64,
    hops_max: u32,
    not_minimal: u64,
    promises: PromisesJson,
    problem_count: u64,
    problems: Vec<ProblemJson>,
    cycle: Option<Vec<ChannelJson<'a>>>,
    answer_cycle: Option<Vec<ChannelJson<'a>>>,
    switch_cycle: Option<Vec<ChannelJson<'a>>>,
    usage: UsageJson,
    quality: Option<QualityJson>,
    warnings: Vec<String>,
}

/// Holds tables against everything that tables should do: what the engine promises, that every
/// LID arrives, and that packets between hosts form no credit loop, promised or not.
pub(super) fn judged(routed: &Routed) -> Report {
    let promises = Promises {
        deadlock_free: true,
        ..routed.tables.promises
    };
    verify(routed.graph(), &routed.tables, promises)
}

/// Verifies tables and prints the verdict.
///
/// # Errors
/// If there can be no such tables, or something is wrong with them.
pub fn run(options: &Verify) -> Result<()> {
    let mut routed = Routed::new(
        &options.topology,
        options.routing.unwrap_or(RoutingEngine::File),
        options.tables.as_deref(),
        &options.scheme,
    )?;
    if options.tables.is_some() {
        routed.give_levels(&options.sls, options.scheme.vls)?;
    }
    let routed = routed;
    let graph = routed.graph();
    let extra = Extra::new(&routed, &options.extras)?;
    let found = judged(&routed);
    let mut others = extra.problems(graph);
    if let Some(path) = &options.mft {
        others.extend(delivery::of_tables(graph, &delivery::read(graph, path)?));
    }
    let report = report(&routed, options, &found, others);
    if options.json {
        output::json(&report)?;
    } else {
        print(&report, &credit_loops(graph, &found))?;
        if let Some(cycle) = &found.answer_cycle {
            let cycle = found.describe_cycle(graph, cycle);
            output::line(format!(
                "warning: credit loop of packets between hosts and answers on their service level: {cycle}"
            ))?;
        }
    }
    match report.problem_count {
        0 => Ok(()),
        1 => bail!("there is 1 problem"),
        count => bail!("there are {count} problems"),
    }
}

/// The verdict in words and numbers; `others`: problems beside those that the verifier has found.
fn report<'a>(
    routed: &'a Routed,
    options: &Verify,
    found: &Report,
    others: Vec<String>,
) -> ReportJson<'a> {
    let (graph, tables) = (routed.graph(), &routed.tables);
    let problems = found.problem_count + others.len() as u64;
    let found_by_verifier = found.problems.iter().map(|problem| ProblemJson {
        kind: kind(problem),
        text: found.describe_problem(graph, problem),
    });
    let others = others.into_iter().map(|text| ProblemJson {
        kind: if text.starts_with("multicast") {
            "multicast"
        } else {
            "capacity"
        },
        text,
    });
    let seed = options.scheme.seed;
    let cycle = |found: &Option<Vec<Channel>>| found.as_ref().map(|cycle| channels(graph, cycle));
    ReportJson {
        topology: &routed.topology.name,
        routing: tables.engine,
        ok: problems == 0,
        paths: found.pairs,
        hops_max: found.hops_max,
        not_minimal: found.not_minimal,
        promises: PromisesJson {
            minimal: tables.promises.minimal,
            up_down: tables.promises.up_down,
        },
        problem_count: problems,
        problems: found_by_verifier
            .chain(others.take(PROBLEMS_SHOWN))
            .collect(),
        cycle: cycle(&found.cycle),
        answer_cycle: cycle(&found.answer_cycle),
        switch_cycle: cycle(&found.switch_cycle),
        usage: UsageJson::of(graph, tables),
        quality: (!options.no_quality)
            .then(|| QualityJson::of(graph, tables, seed, &options.patterns)),
        warnings: tables.warnings.iter().map(ToString::to_string).collect(),
    }
}

fn kind(problem: &Problem) -> &'static str {
    match problem {
        Problem::Unreachable {
            failure: DeliveryFailure::Loop(_),
            ..
        } => "loop",
        Problem::Unreachable { .. } => "unreachable",
        Problem::NotMinimal { .. } => "not-minimal",
        Problem::UpAfterDown { .. } => "up-after-down",
        Problem::NoLid(_) => "no-lid",
        Problem::Deadlock(_) => "deadlock",
    }
}

fn channels<'a>(graph: &'a Graph, cycle: &[Channel]) -> Vec<ChannelJson<'a>> {
    let channel = |channel: &Channel| ChannelJson {
        switch: &graph.node(channel.switch).name,
        port: channel.port.get(),
        vl: channel.vl.get(),
    };
    cycle.iter().map(channel).collect()
}

/// What is said about credit loops: which packets were followed, and the verdict.
fn credit_loops(graph: &Graph, found: &Report) -> [String; 2] {
    let between = match found.cycle {
        Some(_) => "yes",
        None => "none",
    };
    let switches = match (&found.switch_cycle, &found.cycle) {
        (Some(cycle), _) => found.describe_cycle(graph, cycle),
        (None, Some(_)) => "as between hosts".to_owned(),
        (None, None) => "none".to_owned(),
    };
    [
        format!(
            "credit loops, packets from every host to every LID of every other host: {between}"
        ),
        format!("credit loops, these and packets from and to port 0 of switches: {switches}"),
    ]
}

fn print(report: &ReportJson<'_>, credit_loops: &[String; 2]) -> Result<()> {
    output::line(format!("{}, routing {}", report.topology, report.routing))?;
    let mut cells: Vec<(&str, String)> = vec![
        ("FOLLOWED", report.paths.to_string()),
        ("HOPS", report.hops_max.to_string()),
        ("NOT MINIMAL", report.not_minimal.to_string()),
        ("LIDS", report.usage.lids().to_string()),
        ("ENTRIES", report.usage.entries.to_string()),
        ("VLS", report.usage.data_vls.to_string()),
    ];
    line(&cells)?;
    if let Some(quality) = &report.quality {
        cells = quality.cells().to_vec();
        line(&cells)?;
        let mut loads = Table::new(&[
            ("PATTERN", Align::Left),
            ("FLOWS", Align::Right),
            ("BUSIEST CABLE", Align::Right),
            ("MEAN", Align::Right),
        ]);
        for (pattern, load) in &quality.loads {
            loads.row([
                pattern.clone(),
                load.flows.to_string(),
                load.max.to_string(),
                format!("{:.2}", load.mean),
            ]);
        }
        output::line(loads)?;
    }
    for line in credit_loops {
        output::line(line)?;
    }
    for warning in &report.warnings {
        output::line(format!("warning: {warning}"))?;
    }
    for problem in &report.problems {
        output::line(format!("{}: {}", problem.kind, problem.text))?;
    }
    if report.ok {
        output::line("nothing is wrong")?;
    }
    Ok(())
}

fn line(cells: &[(&str, String)]) -> Result<()> {
    let headings: Vec<(&str, Align)> = cells.iter().map(|cell| (cell.0, Align::Right)).collect();
    let mut table = Table::new(&headings);
    table.row(cells.iter().map(|cell| cell.1.clone()));
    output::line(table)
}
