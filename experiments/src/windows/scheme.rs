//! Path selection schemes.

use core::fmt;

use rand::RngExt;
use routing::RoutingEngine;
use routing::clos::{Clos, Controller, Mode};
use routing::network::{HostPort, Network};
use serde::Deserialize;
use strum::{EnumMessage, IntoStaticStr, VariantArray};
use topologies::{Graph, NodeId};
use wire::Lid;
use wire::choice::{Choice, UnknownName};
use wire::convert::u64_of;

use crate::ExperimentError;
use crate::windows::pattern::{Pattern, WindowPaths, window_rng};
use sim::RoutedFabric;
use sim::SetupError;
use sim::{index, number};

/// How paths are selected on the tables of CLOS04.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum TreeChoice {
    /// CLOS04's connection controller gives each connection of a window a tree.
    Controller,
    /// Each connection uses a random tree in each window.
    RandomTree,
    /// Each packet uses a random tree.
    RandomPacket,
}
wire::choice!(TreeChoice, "choice of trees");

/// A path selection scheme, written by the name of a choice of trees or of a routing engine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Scheme {
    /// The tables of CLOS04.
    Trees(TreeChoice),
    /// The tables and the path selection of a routing engine.
    Engine(RoutingEngine),
}

impl TryFrom<String> for Scheme {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        if let Ok(choice) = name.parse() {
            return Ok(Self::Trees(choice));
        }
        name.parse()
            .map(Self::Engine)
            .map_err(|error: UnknownName| {
                let choices: Vec<&str> = TreeChoice::names().collect();
                format!("{error}; or {}", choices.join(", "))
            })
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trees(choice) => choice.fmt(f),
            Self::Engine(engine) => engine.fmt(f),
        }
    }
}

impl Scheme {
    /// CLOS04's connection controller.
    pub(super) const CONTROLLER: Self = Self::Trees(TreeChoice::Controller);

    /// The fabric with the tables of the scheme.
    pub(super) fn prepare(&self, graph: &Graph) -> Result<RoutedFabric, SetupError> {
        match self {
            Self::Trees(_) => RoutedFabric::new(graph, RoutingEngine::Clos),
            Self::Engine(engine) => RoutedFabric::new(graph, *engine),
        }
    }
}

/// The paths of connections, window by window.
pub(super) struct Paths<'a> {
    prepared: &'a RoutedFabric,
    hosts: Vec<NodeId>,
    trees: u32,
    selection: Selection,
}

enum Selection {
    /// With the number of each host in the controller's network, and the inverse mapping.
    Controller(Box<Controller>, Vec<usize>, Vec<usize>),
    /// A random tree for each connection, from this seed.
    Tree(u64),
    Packet,
    Tables,
}

impl<'a> Paths<'a> {
    /// Before the first window.
    pub(super) fn new(
        scheme: &Scheme,
        prepared: &'a RoutedFabric,
        seed: u64,
    ) -> Result<Self, ExperimentError> {
        let graph = prepared.graph();
        let hosts: Vec<NodeId> = graph.hosts().collect();
        let network = Network::new(graph);
        let clos = Clos::recognise(graph, &network);
        let clos = clos.map_err(|error| SetupError::Routing(error.into()))?;
        let selection = match scheme {
            Scheme::Trees(TreeChoice::Controller) => {
                let leaves = clos.leaf_of().to_vec();
                let controller = Controller::new(leaves, clos.trees(), Mode::Rearrange);
                let controller = controller.map_err(control_violation)?;
                let place = |port: &HostPort| hosts.iter().position(|&host| host == port.end.node);
                let places: Vec<usize> = network.hosts().iter().filter_map(place).collect();
                let mut numbers = vec![0; places.len()];
                for (number, &place) in places.iter().enumerate() {
                    numbers[place] = number;
                }
                Selection::Controller(Box::new(controller), numbers, places)
            }
            Scheme::Trees(TreeChoice::RandomTree) => Selection::Tree(seed),
            Scheme::Trees(TreeChoice::RandomPacket) => Selection::Packet,
            Scheme::Engine(_) => Selection::Tables,
        };
        Ok(Self {
            prepared,
            hosts,
            trees: number(clos.trees()),
            selection,
        })
    }

    /// The paths of the next window.
    ///
    /// # Errors
    /// [`ExperimentError::Violation`]: the controller has not admitted an admissible request.
    pub(super) fn next(
        &mut self,
        at: u32,
        pattern: &Pattern,
    ) -> Result<WindowPaths, ExperimentError> {
        let mut dlids = Vec::with_capacity(pattern.len());
        let mut moved = 0;
        let mut drawn = match &self.selection {
            Selection::Tree(seed) => Some(window_rng(*seed, at)),
            _ => None,
        };
        let trees = match &mut self.selection {
            Selection::Controller(controller, numbers, places) => {
                let (trees, moves) = admit(controller, (numbers, places), pattern)?;
                moved = moves;
                trees
            }
            _ => Vec::new(),
        };
        for (source, &to) in pattern.iter().enumerate() {
            let to = index(to);
            let tree = match &mut drawn {
                Some(random) => Some(random.random_range(0..self.trees)),
                None => trees.get(source).copied(),
            };
            dlids.push(match (tree, &self.selection) {
                (Some(tree), _) => vec![self.lid(to, tree)?],
                (None, Selection::Packet) => {
                    let all = (0..self.trees).map(|tree| self.lid(to, tree));
                    all.collect::<Result<_, _>>()?
                }
                (None, _) => vec![self.prepared.dlids(source)[to]],
            });
        }
        Ok(WindowPaths { dlids, moved })
    }

    fn lid(&self, to: usize, tree: u32) -> Result<Lid, ExperimentError> {
        let host = self.hosts[to];
        let range = self.prepared.tables().lids.of_node(host);
        let range = range.ok_or_else(|| {
            let name = self.prepared.graph().node(host).name.clone();
            SetupError::NoLid(name)
        })?;
        Ok(range.at_offset(tree))
    }
}

/// The tree of each source by the controller, and how many connections were moved.
fn admit(
    controller: &mut Controller,
    (numbers, places): (&[usize], &[usize]),
    pattern: &Pattern,
) -> Result<(Vec<u32>, u64), ExperimentError> {
    let pairs = pattern.iter().enumerate();
    let requests: Vec<(usize, usize)> = pairs
        .map(|(source, &to)| (numbers[source], numbers[index(to)]))
        .collect();
    let window = controller.window(&requests).map_err(control_violation)?;
    if let Some(deferred) = window.deferred.first() {
        return Err(ExperimentError::Violation(format!(
            "an admissible request was not admitted: {deferred:?}"
        )));
    }
    let mut trees = vec![0; pattern.len()];
    for admitted in &window.admitted {
        trees[places[admitted.source]] = number(admitted.tree);
    }
    let moved = u64_of(window.moved.len());
    Ok((trees, moved))
}

fn control_violation(error: routing::clos::ControlError) -> ExperimentError {
    ExperimentError::Violation(error.to_string())
}
