//! A sweep of loads as its plan says it: the networks, schemes, loads and what is expected.

use serde::Deserialize;
use wire::PortNum;

use crate::study::{Head, Refusal, check_head, check_lists};
use sim::{CableEnd, Fault, FaultKind, FaultPlan};
use sim::{CreditReturn, Model};
use sim::{Pattern, SlChoice};

/// The most points of one plan.
const POINTS_MAX: usize = 20_000;
/// A run is no longer than this, nanoseconds.
const SPAN_NS_MAX: u64 = 1_000_000_000;

/// A sweep of loads.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadPlan {
    /// `load`, or left out.
    pub kind: Option<String>,
    /// Name of the plan and of the files of its results.
    pub name: String,
    /// What the report is headed.
    pub title: String,
    /// Key of the paper whose result this is.
    pub paper: String,
    /// Names of topologies.
    pub topologies: Vec<String>,
    /// Routing engines, the one to compare with first.
    pub schemes: Vec<String>,
    /// Numbers of data lanes.
    pub vls: Vec<u8>,
    /// Bytes of a packet, LRH to ICRC.
    pub packet_bytes: u16,
    /// How credits get back.
    #[serde(default)]
    pub credits: Credits,
    /// How packets get their lanes.
    #[serde(default)]
    pub lanes: Lanes,
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
    /// What the reduced plan does otherwise.
    #[serde(default)]
    pub quick: Quick,
    /// Ranges that results should be in.
    #[serde(default)]
    pub band: Vec<Band>,
    /// Which observations of the paper are checked, by number.
    #[serde(default)]
    pub observations: Vec<u8>,
    /// What a reader of the report should know, a sentence or two each.
    #[serde(default)]
    pub notes: Vec<String>,
}

fn one() -> u32 {
    1
}

/// How credits get back, see [`CreditReturn`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Credits {
    /// At once.
    #[default]
    Ideal,
    /// As flow-control packets.
    Packets,
}

/// How packets get their lanes, see [`SlChoice`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lanes {
    /// Drawn for each packet.
    #[default]
    Random,
    /// Drawn for each pair of hosts.
    Connection,
}

/// A workload.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, tag = "pattern")]
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
        match self {
            Self::Uniform {} => "uniform".to_owned(),
            Self::Centric { percent, .. } => format!("{percent}%-centric"),
            Self::Permutation {} => "permutation".to_owned(),
            Self::Shift { by } => format!("shift-{by}"),
            Self::AllToAll {} => "all-to-all".to_owned(),
            Self::Bursty { packets } => format!("bursts-of-{packets}"),
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

/// Something that goes wrong, see [`Trouble`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedFault {
    /// When, in nanoseconds after the fabric has come up.
    pub at_ns: u64,
    /// What.
    pub what: Misfortune,
    /// The device.
    pub node: String,
    /// The port; of a switch that crashes, none.
    #[serde(default)]
    pub port: u8,
    /// Packets or flow control lost, per million.
    #[serde(default)]
    pub loss_ppm: u32,
    /// Packets damaged, per million.
    #[serde(default)]
    pub corruption_ppm: u32,
    /// From one packet that a slow host takes in to the next, nanoseconds; 0: at once.
    #[serde(default)]
    pub ns_per_packet: u64,
}

/// What goes wrong, see [`Trouble`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Misfortune {
    /// A cable is pulled.
    LinkDown,
    /// It is put in again.
    LinkUp,
    /// Packets are lost and damaged.
    Rates,
    /// Flow control is lost.
    CreditLoss,
    /// A switch crashes.
    Crash,
    /// It is started again.
    Restart,
    /// A host takes packets in slowly.
    SlowDrain,
}

impl PlannedFault {
    pub(crate) fn fault(&self) -> Fault {
        let end = CableEnd {
            node: self.node.clone(),
            port: PortNum::new(self.port),
        };
        let (loss_ppm, corruption_ppm) = (self.loss_ppm, self.corruption_ppm);
        Fault {
            at_ns: self.at_ns,
            what: match self.what {
                Misfortune::LinkDown => FaultKind::LinkDown(end),
                Misfortune::LinkUp => FaultKind::LinkUp(end),
                Misfortune::Rates => FaultKind::Rates {
                    end,
                    loss_ppm,
                    corruption_ppm,
                },
                Misfortune::CreditLoss => FaultKind::CreditLoss { end, loss_ppm },
                Misfortune::Crash => FaultKind::Crash(end.node),
                Misfortune::Restart => FaultKind::Restart(end.node),
                Misfortune::SlowDrain => FaultKind::SlowDrain {
                    node: end.node,
                    ns_per_packet: self.ns_per_packet,
                },
            },
        }
    }
}

/// What the reduced plan does otherwise; what is not said stays.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quick {
    /// Instead of the plan's topologies.
    pub topologies: Option<Vec<String>>,
    /// Instead of the plan's numbers of lanes.
    pub vls: Option<Vec<u8>>,
    /// Instead of the plan's loads.
    pub loads: Option<Vec<f64>>,
    /// Instead of the plan's time.
    pub warmup_ns: Option<u64>,
    /// Instead of the plan's time.
    pub measure_ns: Option<u64>,
    /// Instead of one run of each point.
    pub runs: Option<u32>,
}

/// A range that a result should be in: the saturation of a scheme (the most traffic accepted at
/// any load) in bytes/ns and host, or its ratio to that of another scheme.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Band {
    /// The scheme.
    pub scheme: String,
    /// The scheme to divide by; left out: the saturation itself.
    pub over: Option<String>,
    /// Data lanes.
    pub vls: u8,
    /// Name of the workload.
    pub traffic: String,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

impl LoadPlan {
    pub(super) fn head(&self) -> Head<'_> {
        Head {
            name: &self.name,
            title: &self.title,
            paper: &self.paper,
        }
    }

    pub(super) fn check(&self) -> Result<(), Refusal> {
        check_head(self.head())?;
        check_lists(&[
            ("topologies", self.topologies.is_empty()),
            ("schemes", self.schemes.is_empty()),
            ("vls", self.vls.is_empty()),
            ("loads", self.loads.is_empty()),
            ("traffic", self.traffic.is_empty()),
        ])?;
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
        for name in &self.schemes {
            routing::engine(name).map_err(|error| ("schemes", error.to_string()))?;
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
        if self.runs == 0 || self.count() > POINTS_MAX {
            let what = format!("{} points: 1 to {POINTS_MAX}", self.count());
            return Err(("runs", what));
        }
        if let Some(band) = self.band.iter().find(|band| band.min > band.max) {
            return Err(("min", format!("{} is above max, {}", band.min, band.max)));
        }
        match self.observations.iter().find(|n| !(1..=5).contains(*n)) {
            Some(number) => Err(("observations", format!("{number}: MLID04 has 1 to 5"))),
            None => Ok(()),
        }
    }

    /// How many runs the plan has.
    pub(super) fn count(&self) -> usize {
        let series = self.topologies.len() * self.schemes.len() * self.vls.len();
        let runs = usize::try_from(self.runs).unwrap_or(usize::MAX);
        (series * self.traffic.len() * self.loads.len()).saturating_mul(runs)
    }

    /// The reduced plan.
    pub(super) fn shrunk(&self) -> Self {
        let quick = self.quick.clone();
        let mut plan = self.clone();
        plan.topologies = quick.topologies.unwrap_or(plan.topologies);
        plan.vls = quick.vls.unwrap_or(plan.vls);
        plan.loads = quick.loads.unwrap_or(plan.loads);
        plan.warmup_ns = quick.warmup_ns.unwrap_or(plan.warmup_ns);
        plan.measure_ns = quick.measure_ns.unwrap_or(plan.measure_ns);
        plan.runs = quick.runs.unwrap_or(1);
        plan
    }

    /// What goes wrong in a run of that seed.
    pub(super) fn faults(&self, seed: u64) -> FaultPlan {
        FaultPlan {
            faults: self.fault.iter().map(PlannedFault::fault).collect(),
            seed,
        }
    }

    /// The network's model with so many lanes.
    pub(super) fn model(&self, vls: u8) -> Model {
        Model {
            packet_bytes: self.packet_bytes,
            credits: match self.credits {
                Credits::Ideal => CreditReturn::Ideal,
                Credits::Packets => CreditReturn::Packets,
            },
            lifetime: self.lifetime,
            ..Model::mlid04(vls)
        }
    }

    pub(super) fn lane_choice(&self) -> SlChoice {
        match self.lanes {
            Lanes::Random => SlChoice::Random,
            Lanes::Connection => SlChoice::Connection,
        }
    }
}

#[cfg(test)]
mod tests;
