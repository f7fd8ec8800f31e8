//! `auto` measures a large fabric apart from the plan, so that no sweep waits for it.
//!
//! While the fabric is being brought up or grows it is routed by the engine that was taken before, else by
//! updn; a fat tree, which `auto` does not measure, by its engine. When all of it is up, it is measured once
//! ([`Measuring::run`], on a thread of the shell's); the next sweep routes it by what was chosen, to the LIDs
//! that ports have. A manager that computes everything at once ([`crate::SmConfig::computes_apart`]) measures
//! at once too. What is measured is the whole fabric, also while a part of it is missing.

use topologies::Graph;

use routing::{Options, RoutingEngine, Tables};

use super::{Planner, is_part};
use crate::guid2lid::KeptChoice;
use crate::subnet::Subnet;

/// Switches times hosts of the largest fabric that is measured within a plan: that takes some tens of
/// milliseconds.
const AT_ONCE_MAX: usize = 1 << 12;

/// Whether there is something to measure.
#[derive(Clone, Debug)]
pub(super) struct Measurement {
    is_apart: bool,
    /// Counts the whole fabrics that there have been.
    fabric: u64,
    /// Whether the whole fabric is routed by an engine that was not chosen for it.
    is_due: bool,
}

impl Measurement {
    pub(super) fn new(is_apart: bool) -> Self {
        Self {
            is_apart,
            fabric: 0,
            is_due: false,
        }
    }

    /// There is another whole fabric.
    pub(super) fn fabric_changed(&mut self) {
        self.fabric += 1;
    }

    /// Whether the whole fabric is to be measured.
    pub(super) fn is_due(&self) -> bool {
        self.is_due
    }
}

/// A measurement to be made.
#[derive(Debug)]
pub(crate) struct Measuring {
    fabric: u64,
    graph: Graph,
    options: Options,
}

/// What has been measured.
#[derive(Debug)]
pub(crate) struct Measured {
    fabric: u64,
    choice: Result<KeptChoice, String>,
}

impl Measuring {
    /// Measures the engines.
    pub(crate) fn run(self) -> Measured {
        let tables = RoutingEngine::Auto.route(&self.graph, &self.options);
        Measured {
            fabric: self.fabric,
            choice: tables
                .map(|tables| KeptChoice {
                    engine: tables.engine,
                    because: tables.because.unwrap_or_default(),
                })
                .map_err(|error| error.to_string()),
        }
    }
}

impl Planner {
    /// The engine that routes this graph until the engines have been measured; `None` if a plan measures
    /// them itself, or they have been.
    pub(super) fn unmeasured(&self, graph: &Graph) -> Option<RoutingEngine> {
        // A part is left to the measurement of its whole.
        let whole = &self.memory.fabric;
        let measured = if is_part(graph, whole) { whole } else { graph };
        let entries = measured.switches().count() * measured.hosts().count();
        let is_apart = self.measurement.is_apart && entries > AT_ONCE_MAX;
        let is_open = self.routing == RoutingEngine::Auto && self.kept_choice(graph).is_none();
        (is_apart && is_open).then(|| match &self.memory.choice {
            Some(choice) if !of_trees(choice.engine) => choice.engine,
            _ => RoutingEngine::Updn,
        })
    }

    /// Whether these tables are only to serve until the engines have been measured; notes that. A tree that is left
    /// of another fabric (`is_rest`) does not settle what is to be chosen for that.
    pub(super) fn defer_to_measurement(
        &mut self,
        graph: &Graph,
        tables: &Tables,
        is_rest: bool,
    ) -> bool {
        let is_settled = of_trees(tables.engine) && !is_rest;
        self.measurement.is_due = self.unmeasured(graph).is_some() && !is_settled;
        self.measurement.is_due
    }

    /// What is to be measured, if anything is.
    pub(crate) fn measuring(&self, subnet: &Subnet) -> Option<Measuring> {
        if !self.measurement.is_due {
            return None;
        }
        let graph = self.memory.fabric.clone();
        let options = Options {
            unmeasured: None,
            keep_lids: true,
            ..self.options(subnet, &graph, self.labels.clone())
        };
        Some(Measuring {
            fabric: self.measurement.fabric,
            graph,
            options,
        })
    }

    /// Keeps what was chosen. Whether it is for the fabric as it is now.
    pub(crate) fn take_measured(&mut self, measured: Measured) -> bool {
        if !self.measurement.is_due || measured.fabric != self.measurement.fabric {
            return false;
        }
        self.measurement.is_due = false;
        self.memory.choice = Some(measured.choice.unwrap_or_else(|error| KeptChoice {
            engine: RoutingEngine::Updn,
            because: format!("the engines could not be measured: {error}"),
        }));
        true
    }
}

/// Whether `auto` takes the engine for fat trees alone, without measuring.
fn of_trees(engine: RoutingEngine) -> bool {
    matches!(engine, RoutingEngine::Mlid | RoutingEngine::Slid)
}
