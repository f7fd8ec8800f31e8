//! What `auto` takes is chosen once and kept.
//!
//! | the fabric | the engine | LIDs |
//! |---|---|---|
//! | is seen for the first time | chosen, or what the file names that gives no fabric | those that ports have, if any do |
//! | is the whole one, or a part of it | the one that was chosen | stay |
//! | grows while it is brought up | chosen anew | the engine's |
//! | grows later | chosen anew among those that keep LIDs | stay |
//! | is a part of a whole one that nothing was chosen for | chosen for this part, or one that serves for now; chosen anew for the whole | stay |
//! | is large, and is to be chosen for | for now the one before or updn; chosen when it is up ([`super::measuring`]) | stay then |
//!
//! A fabric counts as brought up when a light sweep has found it as the sweep before has left it.
//! The choice stands in the file `guid2lid`, so that a manager that is restarted or takes over keeps
//! it. An engine that no longer applies keeps its LIDs too: its tables are repaired ([`super::route`]).

use topologies::Graph;

use routing::{KnownLids, LidRange, Options, RoutingEngine, RoutingError, Tables};

use super::{Planner, is_part};
use crate::guid2lid::KeptChoice;

impl Planner {
    /// The tables of the engine that is asked for, or that `auto` has taken or takes now.
    pub(super) fn compute(&self, graph: &Graph, options: &Options) -> Result<Tables, RoutingError> {
        let Some(KeptChoice { engine, because }) = self.kept_choice(graph) else {
            return self.routing.route(graph, options);
        };
        let mut tables = engine.route(graph, options)?;
        if !because.is_empty() {
            tables.because = Some(because.clone());
        }
        Ok(tables)
    }

    /// What `auto` has taken, if that holds for this graph.
    pub(super) fn kept_choice(&self, graph: &Graph) -> Option<&KeptChoice> {
        let choice = self.memory.choice.as_ref()?;
        let whole = &self.memory.fabric;
        let holds = self.routing == RoutingEngine::Auto
            && !self.measurement.is_due()
            && (whole.is_empty() || is_part(graph, whole));
        holds.then_some(choice)
    }

    /// The engine that is asked for, or that `auto` has taken.
    pub(super) fn taken(&self) -> RoutingEngine {
        match &self.memory.choice {
            Some(choice) if self.routing == RoutingEngine::Auto => choice.engine,
            _ => self.routing,
        }
    }

    /// Whether ports are to keep the LIDs that they have, whatever engine would number them otherwise.
    pub(super) fn keeps_lids(&self, graph: &Graph) -> bool {
        let whole = &self.memory.fabric;
        let is_first = whole.is_empty();
        self.routing == RoutingEngine::Auto
            && (is_first || self.is_settled || is_part(graph, whole))
    }

    /// Remembers the engine of tables that were computed for this graph, unless that is what is left of a
    /// whole fabric for which nothing has been chosen.
    pub(super) fn remember_choice(&mut self, graph: &Graph, tables: &Tables, is_rest: bool) {
        let is_new = self.routing == RoutingEngine::Auto && self.kept_choice(graph).is_none();
        if is_new && !self.defer_to_measurement(graph, tables, is_rest) && !is_rest {
            self.memory.choice = Some(KeptChoice {
                engine: tables.engine,
                because: tables.because.clone().unwrap_or_default(),
            });
        }
    }
}

/// Whether tables give ports that are here other LIDs than they have.
pub(super) fn moves_lids(tables: &Tables, known: &KnownLids) -> bool {
    let is_moved = |range: &LidRange| {
        let known = known.get(&range.guid);
        range.end.is_some() && known.is_some_and(|&known| known != (range.base, range.lmc))
    };
    tables.lids.iter().any(is_moved)
}
