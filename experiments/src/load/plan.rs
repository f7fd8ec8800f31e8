//! A sweep of loads as its plan says it: the networks, schemes, loads and what is expected.

use routing::RoutingEngine;
use serde::{Deserialize, Deserializer};
use sim::{CreditReturn, FaultPlan, Model, Pattern, SlChoice};

use crate::checks::{self, Refusal, between, bounds, graph};
use crate::network::{PlannedFault, fault_plan, model};

/// A run is no longer than this, nanoseconds.
const SPAN_NS_MAX: u64 = 1_000_000_000;
/// The greatest load, bytes/ns and host.
const LOAD_MAX: f64 = 100.0;

/// A sweep of loads.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadPlan {
    /// Names of topologies.
    pub topologies: Vec<String>,
    /// Routing engines, the one to compare with first.
    pub schemes: Vec<RoutingEngine>,
    /// Numbers of data VLs.
    pub vls: Vec<u8>,
    /// Bytes of a packet, LRH to ICRC.
    pub packet_bytes: u16,
    /// How credits get back.
    #[serde(default)]
    pub credits: CreditReturn,
    /// How packets get their service levels, and with them their VLs: `engine` if left out.
    #[serde(default)]
    pub vl_choice: SlChoice,
    /// Offered loads, bytes/ns and host, ascending.
    pub loads: Vec<f64>,
    /// Nanoseconds before measurement.
    pub warmup_ns: u64,
    /// Nanoseconds of measurement.
    pub measure_ns: u64,
    /// Runs of each point, with seeds of their own.
    #[serde(default = "one")]
    pub runs: u32,
    /// Workloads.
    #[serde(deserialize_with = "patterns")]
    pub traffic: Vec<Pattern>,
    /// The faults of every run.
    #[serde(default)]
    pub fault: Vec<PlannedFault>,
    /// HOQLife and LifeTimeValue of switches, 0 to 19; left out: packets wait for ever.
    pub lifetime: Option<u8>,
    /// Ranges that results should be in.
    #[serde(default)]
    pub band: Vec<Band>,
    /// Which observations of the paper are checked, by number.
    #[serde(default)]
    pub observations: Vec<u8>,
}

fn one() -> u32 {
    1
}

/// How a plan writes a [`Pattern`]; the compiler compares the two.
#[derive(Deserialize)]
#[serde(
    remote = "Pattern",
    rename_all = "kebab-case",
    deny_unknown_fields,
    tag = "pattern"
)]
enum PatternTable {
    Uniform {},
    Centric {
        percent: u8,
        #[serde(default)]
        target: u32,
    },
    Permutation {},
    Shift {
        by: u32,
    },
    AllToAll {},
    Bursty {
        packets: u32,
    },
}

fn patterns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Pattern>, D::Error> {
    #[derive(Deserialize)]
    struct Entry(#[serde(with = "PatternTable")] Pattern);
    let entries = Vec::<Entry>::deserialize(deserializer)?;
    Ok(entries.into_iter().map(|Entry(pattern)| pattern).collect())
}

/// A range that a result should be in: the saturation of a scheme (the most traffic accepted at
/// any load) in bytes/ns and host, or its ratio to that of another scheme.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Band {
    /// The scheme.
    pub scheme: RoutingEngine,
    /// The scheme to divide by; left out: the saturation itself.
    pub over: Option<RoutingEngine>,
    /// Data VLs.
    pub vls: u8,
    /// Name of the workload.
    pub traffic: String,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

impl LoadPlan {
    pub(super) fn check(&self) -> Result<(), Refusal> {
        for name in &self.topologies {
            let graph = graph("topologies", name)?;
            let faults = self.faults(0).check(&graph);
            faults.map_err(|error| ("fault", format!("{name}: {error}")))?;
            let hosts = graph.hosts().count();
            for traffic in &self.traffic {
                let fits = traffic.check(hosts);
                fits.map_err(|error| ("traffic", format!("{name}: {error}")))?;
            }
        }
        for &vls in &self.vls {
            checks::model("vls", &self.model(vls))?;
        }
        let what = "bytes/ns and host, above 0 and at most 100";
        checks::loads(&self.loads, LOAD_MAX, what)?;
        between("warmup_ns", self.warmup_ns, (0, SPAN_NS_MAX))?;
        between("measure_ns", self.measure_ns, (1, SPAN_NS_MAX))?;
        let mut bands = self.band.iter();
        bands.try_for_each(|band| bounds(band.min, band.max))?;
        match self.observations.iter().find(|n| !(1..=5).contains(*n)) {
            Some(number) => Err(("observations", format!("{number}: MLID04 has 1 to 5"))),
            None => Ok(()),
        }
    }

    /// The faults of a run of that seed.
    pub(super) fn faults(&self, seed: u64) -> FaultPlan {
        fault_plan(&self.fault, seed)
    }

    /// The network's model with so many VLs.
    pub(super) fn model(&self, vls: u8) -> Model {
        model(vls, self.packet_bytes, self.credits, self.lifetime)
    }
}

#[cfg(test)]
mod tests;
