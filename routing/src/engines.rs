//! The list of routing engines: the only place that knows all of them.

use strum::VariantArray as _;
use topologies::Graph;

use crate::auto::Auto;
use crate::clos::ClosEngine;
use crate::dfsssp::Dfsssp;
use crate::dor::Dor;
use crate::engine::{Engine, Options};
use crate::error::RoutingError;
use crate::file::File;
use crate::ftree::Ftree;
use crate::lash::Lash;
use crate::lid_assignment::Separate;
use crate::minhop::Minhop;
use crate::mlid::{Mlid, Slid};
use crate::network::Network;
use crate::nue::Nue;
use crate::routing_engine::RoutingEngine;
use crate::tables::Tables;
use crate::torus_2qos::Torus2Qos;
use crate::updn::Updn;

impl RoutingEngine {
    fn engine(self) -> &'static dyn Engine {
        match self {
            Self::Auto => &Auto,
            Self::Mlid => &Mlid,
            Self::Slid => &Slid,
            Self::Ftree => &Ftree,
            Self::Updn => &Updn,
            Self::Minhop => &Minhop,
            Self::Dfsssp => &Dfsssp,
            Self::Nue => &Nue,
            Self::Lash => &Lash,
            Self::Dor => &Dor,
            Self::Torus2Qos => &Torus2Qos,
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
        self.on(graph, &Network::new(graph), options)
    }

    /// Whether [`Options::lmc`] counts; if not, the tables give each port as many LIDs as they need.
    #[must_use]
    pub fn takes_lmc(self) -> bool {
        self.engine().takes_lmc()
    }

    /// Whether ports keep their LIDs while the fabric changes; if not, how many each needs depends on paths.
    #[must_use]
    pub fn keeps_lids(self) -> bool {
        self.engine().keeps_lids()
    }

    /// The same as [`Self::route`] for a fabric that is numbered already.
    pub(crate) fn on(
        self,
        graph: &Graph,
        network: &Network,
        options: &Options,
    ) -> Result<Tables, RoutingError> {
        let mut tables = self.engine().route(graph, network, options)?;
        if self != Self::File {
            tables.complete_switches(network);
        }
        Ok(tables)
    }

    /// The engines that `auto` measures, in the order in which it prefers equals.
    pub(crate) fn candidates() -> impl Iterator<Item = Self> {
        let all = Self::VARIANTS.iter().copied();
        all.filter(|engine| engine.engine().is_candidate())
    }
}
