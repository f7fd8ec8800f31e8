//! The routings of LID07 as engines.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use topologies::Graph;

use super::assignment::{Assignment, Scheme};
use super::explicit::fully_explicit;
use super::path_selection::path_selection;
use super::routes::Routes;
use super::shortest_widest::shortest_widest;
use super::tables::tables;
use super::{LidError, PATHS_MAX};
use crate::engine::{Engine, Options};
use crate::error::{EngineError, RoutingError};
use crate::network::{Network, UpDown};
use crate::routing_engine::RoutingEngine;
use crate::tables::Tables;

impl From<LidError> for RoutingError {
    fn from(error: LidError) -> Self {
        Self::Engine(EngineError::new(error))
    }
}

/// How paths are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum PathScheme {
    /// The least loaded shortest up*/down* path for each pair.
    ShortestWidest,
    /// Balanced up*/down* paths for each pair that take few LIDs.
    PathSelection,
    /// One up*/down* tree for each host.
    FullyExplicit,
}
wire::choice!(PathScheme, "path computation");

impl PathScheme {
    /// The paths for every pair of hosts: [`shortest_widest`], [`path_selection`],
    /// [`fully_explicit`].
    ///
    /// # Errors
    /// [`LidError::NotConnected`], [`LidError::Paths`].
    pub fn routes(self, network: &Network, updown: &UpDown) -> Result<Routes, LidError> {
        match self {
            Self::ShortestWidest => shortest_widest(network, updown, PATHS_MAX),
            Self::PathSelection => path_selection(network, updown, PATHS_MAX),
            Self::FullyExplicit => fully_explicit(network, updown),
        }
    }
}

/// A path computation with an assignment of LIDs.
pub(crate) struct Separate {
    engine: RoutingEngine,
    paths: PathScheme,
    assignment: Scheme,
}

impl Separate {
    /// The paper's best: path selection, then colouring.
    pub(crate) const PATH_SELECTION: Self = Self {
        engine: RoutingEngine::PathSelection,
        paths: PathScheme::PathSelection,
        assignment: Scheme::ColorL,
    };
    /// Shortest widest paths, then colouring.
    pub(crate) const SHORTEST_WIDEST: Self = Self {
        engine: RoutingEngine::ShortestWidest,
        paths: PathScheme::ShortestWidest,
        assignment: Scheme::ColorL,
    };
    /// Destination renaming: shortest widest paths, a new LID at each conflict.
    pub(crate) const RENAMING: Self = Self {
        engine: RoutingEngine::Renaming,
        paths: PathScheme::ShortestWidest,
        assignment: Scheme::Greedy,
    };
    /// One LID a host.
    pub(crate) const FULLY_EXPLICIT: Self = Self {
        engine: RoutingEngine::FullyExplicit,
        paths: PathScheme::FullyExplicit,
        assignment: Scheme::Greedy,
    };
}

impl Engine for Separate {
    fn takes_lmc(&self) -> bool {
        false
    }

    fn keeps_lids(&self) -> bool {
        self.paths == PathScheme::FullyExplicit
    }

    fn route(
        &self,
        _graph: &Graph,
        network: &Network,
        options: &Options,
    ) -> Result<Tables, RoutingError> {
        let updown = UpDown::new(network).ok_or(LidError::NotConnected)?;
        let routes = self.paths.routes(network, &updown)?;
        let assignment = Assignment::new(network, &routes, self.assignment)?;
        tables(
            self.engine,
            (network, &updown),
            (&routes, &assignment),
            options,
        )
    }
}
