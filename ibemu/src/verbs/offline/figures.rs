//! How good tables are, as `verify` and `compare` print it.

use std::collections::BTreeMap;

use routing::Tables;
use routing::quality::{LinkLoads, Pattern, Quality, usage};
use serde::Serialize;
use topologies::Graph;
use wire::convert::real;

/// Random permutations and pairings whose loads are averaged.
const DRAWS: u32 = 16;
/// Random pairings for the effective bisection bandwidth.
const PAIRINGS: u32 = 100;

/// LIDs and entries in use.
#[derive(Debug, Serialize)]
pub(super) struct UsageJson {
    pub(super) host_lids: u32,
    pub(super) switch_lids: u32,
    pub(super) top: u16,
    pub(super) entries: u64,
    pub(super) entries_max: u32,
    pub(super) data_vls: u8,
}

impl UsageJson {
    pub(super) fn of(graph: &Graph, tables: &Tables) -> Self {
        let usage = usage(graph, tables);
        Self {
            host_lids: usage.host_lids,
            switch_lids: usage.switch_lids,
            top: usage.top.get(),
            entries: usage.entries,
            entries_max: usage.entries_max,
            data_vls: usage.data_vls,
        }
    }

    pub(super) fn lids(&self) -> u32 {
        self.host_lids + self.switch_lids
    }
}

/// An output port.
#[derive(Debug, Serialize)]
struct PortJson {
    node: String,
    port: u8,
}

/// Loads of the cables between switches under one pattern.
#[derive(Debug, Serialize)]
pub(super) struct LoadJson {
    pub(super) flows: u64,
    undelivered: u64,
    pub(super) max: u64,
    pub(super) max_up: Option<u64>,
    max_down: Option<u64>,
    pub(super) mean: f64,
    busiest: Option<PortJson>,
    /// By number of flows: how many cables, each direction for itself, carry so many.
    histogram: BTreeMap<u64, u32>,
}

impl LoadJson {
    fn new(graph: &Graph, loads: LinkLoads) -> Self {
        Self {
            flows: loads.flows,
            undelivered: loads.undelivered,
            max: loads.max,
            max_up: loads.max_up,
            max_down: loads.max_down,
            mean: loads.mean,
            busiest: loads.busiest.map(|end| PortJson {
                node: graph.node(end.node).name.clone(),
                port: end.port.get(),
            }),
            histogram: loads.histogram,
        }
    }
}

/// The busiest cable over several draws of one pattern.
#[derive(Debug, Serialize)]
pub(super) struct DrawsJson {
    draws: u32,
    pub(super) max_mean: f64,
    pub(super) max: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct BisectionJson {
    pairings: u32,
    pub(super) mean: f64,
    worst: f64,
    best: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct DiversityJson {
    min: u32,
    max: u32,
    pub(super) mean: f64,
}

/// All figures.
#[derive(Debug, Serialize)]
pub(super) struct QualityJson {
    /// By pattern.
    pub(super) loads: BTreeMap<String, LoadJson>,
    pub(super) permutations: DrawsJson,
    pub(super) pairings: DrawsJson,
    pub(super) shifts: DrawsJson,
    pub(super) effective_bisection_bandwidth: BisectionJson,
    pub(super) path_diversity: DiversityJson,
}

/// The pattern whose loads are first in a line.
pub(super) const ALL_TO_ALL: Pattern = Pattern::AllToAll;
/// Every other host to the first.
pub(super) const TO_ONE: Pattern = Pattern::AllToOne { host: 0 };

impl QualityJson {
    /// Counts everything; random patterns begin with that seed.
    pub(super) fn of(graph: &Graph, tables: &Tables, seed: u64, patterns: &[Pattern]) -> Self {
        let always = [
            ALL_TO_ALL,
            TO_ONE,
            Pattern::Permutation { seed },
            Pattern::Bisection { seed },
            Pattern::Shift { by: 1 },
        ];
        let measured = Quality::of(graph, tables);
        let loads = |&pattern: &Pattern| {
            let loads = LoadJson::new(graph, measured.link_loads(pattern));
            (pattern.to_string(), loads)
        };
        let seeds = || (0..u64::from(DRAWS)).map(|draw| seed.wrapping_add(draw));
        let hosts = graph.hosts().count();
        let doubled = core::iter::successors(Some(1), |by: &usize| by.checked_mul(2));
        let bisection = measured.effective_bisection_bandwidth(PAIRINGS, seed);
        let diversity = measured.path_diversity();
        Self {
            loads: always.iter().chain(patterns).map(loads).collect(),
            permutations: draws(&measured, seeds().map(|seed| Pattern::Permutation { seed })),
            pairings: draws(&measured, seeds().map(|seed| Pattern::Bisection { seed })),
            shifts: draws(
                &measured,
                doubled
                    .take_while(|&by| by < hosts)
                    .map(|by| Pattern::Shift { by }),
            ),
            effective_bisection_bandwidth: BisectionJson {
                pairings: bisection.pairings,
                mean: bisection.mean,
                worst: bisection.worst,
                best: bisection.best,
            },
            path_diversity: DiversityJson {
                min: diversity.min,
                max: diversity.max,
                mean: diversity.mean,
            },
        }
    }

    /// The load of one of the patterns that are always counted.
    pub(super) fn load(&self, pattern: Pattern) -> Option<&LoadJson> {
        self.loads.get(&pattern.to_string())
    }

    /// Headings and values of a line.
    pub(super) fn cells(&self) -> [(&'static str, String); 7] {
        let all = self.load(ALL_TO_ALL).map_or(0, |load| load.max);
        let one = self.load(TO_ONE);
        let one = one.map_or(0, |load| load.max_up.unwrap_or(load.max));
        [
            ("ALL-TO-ALL", all.to_string()),
            ("TO-ONE", one.to_string()),
            ("SHIFT", self.shifts.max.to_string()),
            ("RANDOM", format!("{:.2}", self.permutations.max_mean)),
            ("PAIRS", format!("{:.2}", self.pairings.max_mean)),
            (
                "EBB",
                format!("{:.3}", self.effective_bisection_bandwidth.mean),
            ),
            ("PATHS", format!("{:.2}", self.path_diversity.mean)),
        ]
    }
}

fn draws(measured: &Quality<'_>, patterns: impl Iterator<Item = Pattern>) -> DrawsJson {
    let mut found = DrawsJson {
        draws: 0,
        max_mean: 0.0,
        max: 0,
    };
    for pattern in patterns {
        let max = measured.link_loads(pattern).max;
        found.draws += 1;
        found.max = found.max.max(max);
        found.max_mean += real(max);
    }
    found.max_mean /= f64::from(found.draws.max(1));
    found
}
