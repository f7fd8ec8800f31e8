//! The list of routing engines: the only place that knows all of them.

use topologies::Graph;

use crate::clos::ClosEngine;
use crate::dfsssp::Dfsssp;
use crate::dor::Dor;
use crate::engine::{Engine, Options};
use crate::error::{RoutingError, Warning};
use crate::fat_tree::{FatTreeLabels, recognise};
use crate::file::File;
use crate::lid_assignment::Separate;
use crate::minhop::Minhop;
use crate::mlid::{Mlid, Slid};
use crate::network::Network;
use crate::routing_engine::RoutingEngine;
use crate::tables::Tables;
use crate::updn::Updn;

impl RoutingEngine {
    fn engine(self) -> &'static dyn Engine {
        match self {
            Self::Auto => &Auto,
            Self::Mlid => &Mlid,
            Self::Slid => &Slid,
            Self::Updn => &Updn,
            Self::Minhop => &Minhop,
            Self::Dfsssp => &Dfsssp,
            Self::Dor => &Dor,
            Self::Clos => &ClosEngine,
            Self::PathSelection => &Separate::PATH_SELECTION,
            Self::ShortestWidest => &Separate::SHORTEST_WIDEST,
            Self::Renaming => &Separate::RENAMING,
            Self::FullyExplicit => &Separate::FULLY_EXPLICIT,
            Self::File => &File,
        }
    }

    /// LIDs and tables for a fabric.
    ///
    /// # Errors
    /// [`RoutingError`] if the engine cannot apply, or LIDs do not suffice.
    pub fn route(self, graph: &Graph, options: &Options) -> Result<Tables, RoutingError> {
        self.engine().route(graph, &Network::new(graph), options)
    }
}

/// `mlid` (or `slid` where the number of paths is no power of two) on a fat tree, else `updn`.
struct Auto;

impl Engine for Auto {
    fn route(
        &self,
        graph: &Graph,
        network: &Network,
        options: &Options,
    ) -> Result<Tables, RoutingError> {
        let known: Option<&FatTreeLabels> = options
            .labels
            .as_ref()
            .filter(|labels| labels.fit(graph).is_ok());
        let labels = match known {
            Some(labels) => labels.clone(),
            None => match recognise(graph) {
                Ok(labels) => labels,
                Err(reason) => {
                    let mut tables = Updn.route(graph, network, options)?;
                    tables.because = Some(format!("not a fat tree: {reason}"));
                    return Ok(tables);
                }
            },
        };
        let (m, n) = (labels.tree().ports(), labels.tree().levels());
        let paths = labels.tree().power(n - 1);
        let options = Options {
            labels: Some(labels),
            ..options.clone()
        };
        let mut tables = if paths.is_power_of_two() {
            Mlid.route(graph, network, &options)?
        } else {
            let mut tables = Slid.route(graph, network, &options)?;
            tables.warnings.push(Warning::SlidInstead { paths });
            tables
        };
        tables.because = Some(format!("FT({m},{n})"));
        Ok(tables)
    }
}
