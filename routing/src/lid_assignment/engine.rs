//! The routings of LID07 as engines.

use topologies::Graph;

use super::assignment::{Assignment, Scheme};
use super::explicit::fully_explicit;
use super::path_selection::path_selection;
use super::routes::Routes;
use super::shortest_widest::shortest_widest;
use super::tables::tables;
use super::{LidError, PATHS_MAX};
use crate::engines::{Engine, Options};
use crate::error::RoutingError;
use crate::network::{Network, UpDown};
use crate::tables::Tables;

/// How paths are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathScheme {
    /// See [`shortest_widest`].
    ShortestWidest,
    /// See [`path_selection`].
    PathSelection,
    /// See [`fully_explicit`].
    FullyExplicit,
}

impl PathScheme {
    /// All of them.
    pub const ALL: [Self; 3] = [
        Self::ShortestWidest,
        Self::PathSelection,
        Self::FullyExplicit,
    ];

    /// The name by which it is chosen.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ShortestWidest => "shortest-widest",
            Self::PathSelection => "path-selection",
            Self::FullyExplicit => "fully-explicit",
        }
    }

    /// The scheme of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.name() == name)
    }

    /// The paths for every pair of hosts.
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
    name: &'static str,
    summary: &'static str,
    paths: PathScheme,
    assignment: Scheme,
}

impl Separate {
    /// The paper's best: path selection, then colouring.
    pub(crate) const PATH_SELECTION: Self = Self {
        name: "path-selection",
        summary: "any fabric: balanced up*/down* paths for each pair, as few LIDs as that takes (LID07)",
        paths: PathScheme::PathSelection,
        assignment: Scheme::ColorL,
    };
    /// Shortest widest paths, then colouring.
    pub(crate) const SHORTEST_WIDEST: Self = Self {
        name: "shortest-widest",
        summary: "any fabric: least loaded shortest up*/down* path for each pair (LID07)",
        paths: PathScheme::ShortestWidest,
        assignment: Scheme::ColorL,
    };
    /// Destination renaming: shortest widest paths, a new LID at each conflict.
    pub(crate) const RENAMING: Self = Self {
        name: "renaming",
        summary: "as shortest-widest, with a new LID whenever a path conflicts (LID07, to compare)",
        paths: PathScheme::ShortestWidest,
        assignment: Scheme::Greedy,
    };
    /// One LID a host.
    pub(crate) const FULLY_EXPLICIT: Self = Self {
        name: "fully-explicit",
        summary: "any fabric: one up*/down* tree for each host, one LID (LID07, to compare)",
        paths: PathScheme::FullyExplicit,
        assignment: Scheme::Greedy,
    };
}

impl Engine for Separate {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn route(&self, graph: &Graph, options: &Options) -> Result<Tables, RoutingError> {
        let network = Network::new(graph);
        let updown = UpDown::new(&network).ok_or(LidError::NotConnected)?;
        let routes = self.paths.routes(&network, &updown)?;
        let assignment = Assignment::new(&network, &routes, self.assignment)?;
        tables(
            self.name,
            graph,
            (&network, &updown),
            (&routes, &assignment),
            options,
        )
    }
}
