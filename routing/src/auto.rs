//! `auto`: the engine that serves this fabric best, by measurement.
//!
//! 1. A whole m-port n-tree, or one that was recognised when it was whole ([`Options::labels`]): `mlid`,
//!    or `slid` where the number of paths is no power of two. Nothing else is computed: every cable
//!    carries the same there, and no tables do better.
//! 2. Elsewhere every engine that [`Engine::is_candidate`] computes its tables. Those are left out
//!    that do not apply, that need more VLs than there are, in which [`verify`] finds anything wrong or a
//!    credit loop of any kind ([`Report::credit_loops`]), or, with
//!    [`Options::keep_lids`], that would give ports other LIDs. Where nothing is left, those with a loop among packets
//!    of switches' own ports come back, with a warning. Of the others the one with the best
//!    [`Score`] is taken; an earlier one in the list stands unless a later one is better by more than
//!    [`MARGIN`].
//!
//! With [`Options::unmeasured`] the second step is left out, for callers that measure later.
//!
//! Nothing is random but the pairings of the bisection, whose seed is fixed, so that the same fabric gives
//! the same choice.
//!
//! **Bound.** A candidate costs its own computation, a verification and [`Score::of`]. The pairings
//! are as many as [`WALKS_MAX`] walks allow. A fabric of more than [`ENTRIES_MAX`] entries (switches times
//! LIDs) is not measured: the first candidate that applies is taken, which [`Tables::because`] says.
//!
//! What becomes of a candidate depends on no other one, so that callers with threads compute them side by side
//! ([`choose`]); the choice is the same. Memory: the tables of all candidates.

use topologies::Graph;
use wire::convert::{real, saturate};

use crate::engine::{Engine, Options};
use crate::error::{RoutingError, Warning};
use crate::fat_tree::{FatTreeLabels, NotFatTree, recognise};
use crate::network::Network;
use crate::quality::{Pattern, Quality};
use crate::routing_engine::RoutingEngine;
use crate::tables::Tables;
use crate::verify::{LoopOf, Report, verify};

/// By how much a later candidate's score must be above an earlier one's.
const MARGIN: f64 = 1.02;
/// Paths that are followed for the bisection of a candidate.
const WALKS_MAX: usize = 40_000;
/// Pairings for the bisection, at most and at least.
const PAIRINGS: (usize, usize) = (4, 40);
/// Switches times LIDs of the largest fabric that is measured.
const ENTRIES_MAX: usize = 1 << 24;

/// The engine.
pub(crate) struct Auto;

impl Engine for Auto {
    fn route(
        &self,
        graph: &Graph,
        network: &Network,
        options: &Options,
    ) -> Result<Tables, RoutingError> {
        let found = Candidates::default();
        take(graph, network, options, found, |engines, attempt| {
            engines.iter().map(|&engine| attempt(engine)).collect()
        })?
        .best()
    }
}

/// What `auto` takes, and what it has measured that against.
#[derive(Debug)]
pub struct Choice {
    /// What it takes.
    pub taken: Tables,
    /// The other engines that it has computed, in the order in which it prefers equals: their tables, or why
    /// there are none. Empty for a fat tree and for a fabric too large to be measured.
    pub others: Vec<(RoutingEngine, Result<Tables, RoutingError>)>,
}

/// What an engine gives for a fabric, and what that is worth.
#[derive(Debug)]
pub struct Attempt {
    engine: RoutingEngine,
    tables: Result<(Tables, Verdict), RoutingError>,
}

/// Makes the attempt with an engine. From any thread, in any order.
pub type Attempting<'a> = dyn Fn(RoutingEngine) -> Attempt + Sync + 'a;

/// As [`RoutingEngine::Auto`], with the tables of all engines that it measures. `attempts` makes the attempts with all
/// of the engines that it is given, on as many threads as it likes.
///
/// # Errors
/// As [`RoutingEngine::route`].
pub fn choose(
    graph: &Graph,
    options: &Options,
    attempts: impl FnOnce(&[RoutingEngine], &Attempting<'_>) -> Vec<Attempt>,
) -> Result<Choice, RoutingError> {
    let found = Candidates {
        computed: Some(Vec::new()),
        ..Candidates::default()
    };
    let mut found = take(
        graph,
        &Network::new(graph),
        options,
        found,
        |engines, attempt| {
            let mut made = attempts(engines, attempt);
            made.sort_by_key(|attempt| attempt.engine);
            made
        },
    )?;
    let mut others = found.computed.take().unwrap_or_default();
    let taken = found.best()?;
    others.retain(|&(engine, _)| engine != taken.engine);
    Ok(Choice { taken, others })
}

/// Fills in what there is to choose from. `attempts` makes the attempts with these engines, in their order.
fn take(
    graph: &Graph,
    network: &Network,
    options: &Options,
    mut found: Candidates,
    attempts: impl FnOnce(&[RoutingEngine], &Attempting<'_>) -> Vec<Attempt>,
) -> Result<Candidates, RoutingError> {
    found.reason = match fat_tree(graph, options) {
        Ok(labels) => match tree(graph, network, options, labels)? {
            Ok(tables) => return Ok(found.without_measuring(tables)),
            Err(moved) => moved,
        },
        Err(reason) => format!("not a fat tree: {reason}"),
    };
    if let Some(engine) = options.unmeasured {
        let tables = unmeasured(graph, network, options, engine, &found.reason)?;
        return Ok(found.without_measuring(tables));
    }
    let (lids, moved_anyway) = options.assign(network)?;
    let fabric = Fabric {
        graph,
        network,
        options,
        moved_anyway,
    };
    let engines: Vec<RoutingEngine> = RoutingEngine::candidates().collect();
    if network.switches().len() * lids.top().index() > ENTRIES_MAX {
        found.take_first(&fabric, &engines);
        return Ok(found);
    }
    for attempt in attempts(&engines, &|engine| fabric.attempt(engine)) {
        found.take(attempt);
    }
    Ok(found)
}

/// The labels of the fat tree that the fabric is, or was when it was whole.
fn fat_tree(graph: &Graph, options: &Options) -> Result<FatTreeLabels, NotFatTree> {
    let known = options.labels.as_ref();
    match known.filter(|labels| labels.fit(graph).is_ok()) {
        Some(labels) => Ok(labels.clone()),
        None => recognise(graph),
    }
}

/// Tables of a fat tree; in words why not if they would give ports other LIDs, or have fewer than are asked for.
fn tree(
    graph: &Graph,
    network: &Network,
    options: &Options,
    labels: FatTreeLabels,
) -> Result<Result<Tables, String>, RoutingError> {
    let (m, n) = (labels.tree().ports(), labels.tree().levels());
    let paths = labels.tree().power(n - 1);
    let is_mlid = paths.is_power_of_two();
    let options = Options {
        labels: Some(labels),
        ..options.clone()
    };
    let engine = if is_mlid {
        RoutingEngine::Mlid
    } else {
        RoutingEngine::Slid
    };
    let mut tables = match engine.on(graph, network, &options) {
        Ok(tables) => tables,
        Err(error @ RoutingError::LmcTooLarge { .. }) => {
            return Ok(Err(format!("FT({m},{n}), but {error}")));
        }
        Err(error) => return Err(error),
    };
    let moved = if options.keep_lids {
        options.moved(&tables.lids)
    } else {
        0
    };
    if moved > 0 {
        return Ok(Err(format!(
            "FT({m},{n}), but {engine} would give {moved} ports other LIDs"
        )));
    }
    if !is_mlid {
        tables.warnings.push(Warning::SlidInstead { paths });
    }
    tables.because = Some(format!("FT({m},{n})"));
    Ok(Ok(tables))
}

/// Tables of that engine, else of updn.
fn unmeasured(
    graph: &Graph,
    network: &Network,
    options: &Options,
    engine: RoutingEngine,
    reason: &str,
) -> Result<Tables, RoutingError> {
    let tables = engine.on(graph, network, options);
    let mut tables = tables.or_else(|error| match engine {
        RoutingEngine::Updn => Err(error),
        _ => RoutingEngine::Updn.on(graph, network, options),
    })?;
    tables.because = Some(format!("{reason}; not measured yet"));
    Ok(tables)
}

/// How well tables serve a fabric.
#[derive(Clone, Copy, Debug)]
struct Score {
    /// Flows on the busiest cable when every host sends to every other.
    busiest: u64,
    /// The mean effective bisection bandwidth.
    bisection: f64,
}

impl Score {
    fn of(network: &Network, tables: &Tables) -> Self {
        let quality = Quality::on(network, tables);
        let hosts = network.hosts().len().max(1);
        let pairings = (2 * WALKS_MAX / hosts).clamp(PAIRINGS.0, PAIRINGS.1);
        let pairings = saturate::<u32>(pairings);
        Self {
            busiest: quality.link_loads(Pattern::AllToAll).max,
            bisection: quality.effective_bisection_bandwidth(pairings, 1).mean,
        }
    }

    /// The greater the better.
    fn value(self) -> f64 {
        self.bisection / real(self.busiest.max(1))
    }
}

impl core::fmt::Display for Score {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} / {:.2}", self.busiest, self.bisection)
    }
}

/// Why tables are not taken although the engine gives them, and whether they do where no others are left.
fn refusal(report: &Report) -> Option<(String, bool)> {
    if let Some((packets, _)) = report.credit_loops().next() {
        let serve_hosts = packets == LoopOf::Switches && report.is_ok();
        return Some((format!("{packets} could deadlock"), serve_hosts));
    }
    (!report.is_ok()).then(|| {
        (
            format!("{} problems in its tables", report.problem_count),
            false,
        )
    })
}

/// What tables are worth.
#[derive(Debug)]
struct Verdict {
    /// If they may be taken, be it where no others are left.
    score: Option<Score>,
    /// Why they are not taken where there are others.
    refusal: Option<String>,
}

/// What candidates are wanted for.
struct Fabric<'a> {
    graph: &'a Graph,
    network: &'a Network,
    options: &'a Options,
    /// Ports that no engine could leave their LIDs.
    moved_anyway: usize,
}

impl Fabric<'_> {
    fn attempt(&self, engine: RoutingEngine) -> Attempt {
        let tables = engine.on(self.graph, self.network, self.options);
        let judged = tables.map(|tables| {
            let verdict = self.verdict(&tables);
            (tables, verdict)
        });
        Attempt {
            engine,
            tables: judged,
        }
    }

    fn verdict(&self, tables: &Tables) -> Verdict {
        let score = || Some(Score::of(self.network, tables));
        if let Some(reason) = self.moves(tables) {
            return Verdict {
                score: None,
                refusal: Some(reason),
            };
        }
        let report = verify(self.graph, tables, tables.promises);
        match refusal(&report) {
            None => Verdict {
                score: score(),
                refusal: None,
            },
            Some((reason, is_last_resort)) => Verdict {
                score: is_last_resort.then(score).flatten(),
                refusal: Some(reason),
            },
        }
    }

    /// That tables give ports other LIDs than they are to keep.
    fn moves(&self, tables: &Tables) -> Option<String> {
        let moved = self.options.moved(&tables.lids);
        let is_refused = self.options.keep_lids && moved > self.moved_anyway;
        is_refused.then(|| format!("it would give {moved} ports other LIDs"))
    }
}

/// What has been computed so far.
#[derive(Default)]
struct Candidates {
    /// Why the fabric is not taken for a fat tree.
    reason: String,
    /// Tables that are taken without any measuring.
    unmeasured: Option<Tables>,
    /// What each engine has computed, if that is wanted.
    computed: Option<Vec<(RoutingEngine, Result<Tables, RoutingError>)>>,
    best: Option<(Tables, Option<Score>)>,
    /// The best in which only packets of switches' own ports have a credit loop.
    last_resort: Option<(Tables, Option<Score>)>,
    /// Engines with their scores.
    measured: Vec<(RoutingEngine, Score)>,
    /// Engines that were left out, each with the reason.
    left_out: Vec<(RoutingEngine, String)>,
    /// The first error, if nothing else is found.
    error: Option<RoutingError>,
}

/// Takes tables if nothing stands yet or they are better by more than [`MARGIN`].
fn take_better(best: &mut Option<(Tables, Option<Score>)>, tables: Tables, score: Score) {
    let is_better = match &best {
        Some((_, Some(best))) => score.value() > best.value() * MARGIN,
        _ => true,
    };
    if is_better {
        *best = Some((tables, Some(score)));
    }
}

impl Candidates {
    fn without_measuring(mut self, tables: Tables) -> Self {
        self.unmeasured = Some(tables);
        self
    }

    /// Takes the first candidate that applies.
    fn take_first(&mut self, fabric: &Fabric<'_>, engines: &[RoutingEngine]) {
        for &engine in engines {
            match engine.on(fabric.graph, fabric.network, fabric.options) {
                Ok(tables) => match fabric.moves(&tables) {
                    Some(reason) => self.left_out.push((engine, reason)),
                    None => {
                        self.best = Some((tables, None));
                        return;
                    }
                },
                Err(error) => self.note_error(engine, error),
            }
        }
    }

    fn take(&mut self, Attempt { engine, tables }: Attempt) {
        if let Some(computed) = &mut self.computed {
            let tables = tables.as_ref().map(|(tables, _)| tables.clone());
            computed.push((engine, tables.map_err(Clone::clone)));
        }
        let (tables, verdict) = match tables {
            Ok(judged) => judged,
            Err(error) => return self.note_error(engine, error),
        };
        match (verdict.score, verdict.refusal) {
            (Some(score), None) => {
                self.measured.push((engine, score));
                take_better(&mut self.best, tables, score);
            }
            (score, refusal) => {
                self.left_out.extend(refusal.map(|reason| (engine, reason)));
                if let Some(score) = score {
                    take_better(&mut self.last_resort, tables, score);
                }
            }
        }
    }

    fn note_error(&mut self, engine: RoutingEngine, error: RoutingError) {
        // That an engine is for another kind of fabric is not reported.
        let is_reported = matches!(error, RoutingError::VlsExhausted { .. });
        self.left_out
            .extend(is_reported.then(|| (engine, error.to_string())));
        self.error.get_or_insert(error);
    }

    fn best(self) -> Result<Tables, RoutingError> {
        if let Some(tables) = self.unmeasured {
            return Ok(tables);
        }
        let reason = self.reason;
        let last_resort = self.last_resort.map(|(mut tables, score)| {
            tables.warnings.push(Warning::SwitchLoop);
            (tables, score)
        });
        let Some((mut tables, score)) = self.best.or(last_resort) else {
            return Err(self.error.unwrap_or_else(|| {
                let left_out = self.left_out.iter();
                let reasons = left_out.map(|(engine, reason)| format!("{engine}: {reason}"));
                RoutingError::NoCandidate(reasons.collect::<Vec<_>>().join("; "))
            }));
        };
        let mut because = match score {
            None => format!("{reason}; too large to be measured"),
            Some(score) => format!("{reason}; busiest cable / bisection {score}"),
        };
        let others = self.measured.iter();
        let others: Vec<String> = others
            .filter(|(engine, _)| *engine != tables.engine)
            .map(|(engine, score)| format!("{engine} {score}"))
            .collect();
        if !others.is_empty() {
            because += &format!(" against {}", others.join(", "));
        }
        for (engine, reason) in &self.left_out {
            because += &format!("; not {engine}: {reason}");
        }
        tables.because = Some(because);
        Ok(tables)
    }
}
