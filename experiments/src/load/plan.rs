//! A sweep of loads as its plan says it: the networks, schemes, loads and what is expected.

use routing::RoutingEngine;
use serde::Deserialize;
use sim::{CreditReturn, FaultPlan, Model, Pattern, SlChoice};
use strum::IntoStaticStr;

use crate::checks::bounds;
use crate::experiment::Refusal;
use crate::network::{PlannedFault, fault_plan, model};

/// A run is no longer than this, nanoseconds.
const SPAN_NS_MAX: u64 = 1_000_000_000;

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
    #[serde(default, alias = "lanes")]
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
    pub traffic: Vec<Traffic>,
    /// What goes wrong in every run.
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

/// A workload.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, IntoStaticStr)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, tag = "pattern")]
#[strum(serialize_all = "kebab-case")]
pub enum Traffic {
    /// To everybody.
    Uniform {},
    /// A part to one host.
    Centric {
        /// Percent of the packets.
        percent: u8,
        /// Which host.
        #[serde(default)]
        target: u32,
    },
    /// To one other host each.
    Permutation {},
    /// To the host so far on.
    Shift {
        /// How far.
        by: u32,
    },
    /// To all others in turn.
    AllToAll {},
    /// In bursts.
    Bursty {
        /// Packets a burst.
        packets: u32,
    },
}

impl Traffic {
    /// Its name in tables and plots.
    #[must_use]
    pub fn name(&self) -> String {
        let pattern: &str = self.into();
        match self {
            Self::Centric { percent, .. } => format!("{percent}%-{pattern}"),
            Self::Shift { by } => format!("{pattern}-{by}"),
            Self::Bursty { packets } => format!("bursts-of-{packets}"),
            Self::Uniform {} | Self::Permutation {} | Self::AllToAll {} => pattern.to_owned(),
        }
    }

    pub(super) fn pattern(&self) -> Pattern {
        match *self {
            Self::Uniform {} => Pattern::Uniform,
            Self::Centric { percent, target } => Pattern::Centric { percent, target },
            Self::Permutation {} => Pattern::Permutation,
            Self::Shift { by } => Pattern::Shift { by },
            Self::AllToAll {} => Pattern::AllToAll,
            Self::Bursty { packets } => Pattern::Bursty { packets },
        }
    }
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
            let topology = topologies::parse(name);
            let topology = topology.map_err(|error| ("topologies", error.to_string()))?;
            let faults = self.faults(0).check(&topology.graph);
            faults.map_err(|error| ("fault", format!("{name}: {error}")))?;
            let hosts = topology.graph.hosts().count();
            for traffic in &self.traffic {
                let fits = traffic.pattern().check(hosts);
                fits.map_err(|error| ("traffic", format!("{name}: {error}")))?;
            }
        }
        for &vls in &self.vls {
            let model = self.model(vls).check();
            model.map_err(|error| ("vls", error.to_string()))?;
        }
        let is_load = |load: &f64| *load > 0.0 && *load <= 100.0;
        if !self.loads.iter().all(is_load) || !self.loads.is_sorted() {
            let what = "bytes/ns and host, above 0 and at most 100, ascending";
            return Err(("loads", what.to_owned()));
        }
        for (key, ns, least) in [
            ("warmup_ns", self.warmup_ns, 0),
            ("measure_ns", self.measure_ns, 1),
        ] {
            if !(least..=SPAN_NS_MAX).contains(&ns) {
                return Err((key, format!("{ns}: {least} to {SPAN_NS_MAX} nanoseconds")));
            }
        }
        let mut bands = self.band.iter();
        bands.try_for_each(|band| bounds(band.min, band.max))?;
        match self.observations.iter().find(|n| !(1..=5).contains(*n)) {
            Some(number) => Err(("observations", format!("{number}: MLID04 has 1 to 5"))),
            None => Ok(()),
        }
    }

    /// What goes wrong in a run of that seed.
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
