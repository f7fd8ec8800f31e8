//! Where a map draws the devices and cables of a fabric.
//!
//! Switches are placed by what is recognised in the cables, whatever the names: a tree by its levels
//! ([`routing::Tiers`]), a mesh, torus or hypercube by its coordinates ([`routing::dor::Grid`]), anything else by
//! forces between them. Hosts stand around or below the switch of their first cable. The result is a function of the graph:
//! no clock, no random numbers; a thousand devices take milliseconds.
//!
//! One unit is the side of a device as a map draws it. `y` grows downwards.
//!
//! ```
//! let graph = topologies::parse("fat-tree-4-3")?.graph;
//! let layout = layout::of(&graph);
//! assert_eq!(layout.arrangement, layout::Arrangement::Levels);
//! assert_eq!(layout.places.len(), 36);
//! # Ok::<(), topologies::TopologyError>(())
//! ```

mod forces;
mod grid;
mod hosts;
mod levels;

use routing::Tiers;
use routing::dor::Grid;
use routing::network::Network;
use topologies::Graph;

use hosts::Attached;

/// How switches are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// A tree: one row a level, hosts below.
    Levels,
    /// By coordinates.
    Grid,
    /// By forces.
    Forces,
}

/// Where a device is drawn: the middle of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Place {
    /// To the right.
    pub x: f64,
    /// Downwards.
    pub y: f64,
}

/// A map.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// How switches are placed.
    pub arrangement: Arrangement,
    /// By node of the graph.
    pub places: Vec<Place>,
    /// By cable in the order of [`Graph::links`]: how far its middle is drawn beside the straight line, to the left
    /// of the way from its first end to its second one. Parallel cables, and those that pass by devices, are bent.
    pub bends: Vec<f64>,
}

/// Places the devices of a fabric.
#[must_use]
pub fn of(graph: &Graph) -> Layout {
    let network = Network::new(graph);
    let attached = Attached::of(graph);
    let tiers = Tiers::of(&network);
    let (arrangement, mut places, round) = if let Some(tiers) = tiers {
        let places = levels::places(graph, &network, &tiers, &attached);
        (Arrangement::Levels, places, Vec::new())
    } else if network.switches().len() > 1
        && let Ok(found) = Grid::recognise(&network)
    {
        let (places, round) = grid::places(graph, &network, &found, &attached);
        (Arrangement::Grid, places, round)
    } else {
        let places = forces::places(graph, &network, &attached);
        (Arrangement::Forces, places, Vec::new())
    };
    hosts::place_loose(graph, &attached, &mut places);
    for place in &mut places {
        *place = Place {
            x: rounded(place.x),
            y: rounded(place.y),
        };
    }
    Layout {
        arrangement,
        bends: bends(graph, &places, &round),
        places,
    }
}

/// To hundredths: what a map shows, and shorter as text. There is no negative zero.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0 + 0.0
}

/// How far apart parallel cables are.
const PARALLEL: f64 = 0.5;
/// How far a cable round a ring is drawn beside the devices between its ends, for each unit of its length.
const ROUND: f64 = 0.12;

/// By cable: parallel ones beside each other, and those that go `round` a ring beside its other cables.
fn bends(graph: &Graph, places: &[Place], round: &[bool]) -> Vec<f64> {
    let ends: Vec<(usize, usize)> = graph
        .links()
        .map(|(a, b)| (a.node.index(), b.node.index()))
        .collect();
    let mut parallel = std::collections::BTreeMap::<(usize, usize), (usize, usize)>::new();
    for ends in &ends {
        parallel.entry(*ends).or_default().0 += 1;
    }
    let bend = |(cable, ends): (usize, &(usize, usize))| {
        let (count, next) = parallel.entry(*ends).or_default();
        let beside = (*next as f64 - (*count as f64 - 1.0) / 2.0) * PARALLEL;
        *next += 1;
        let (a, b) = (places[ends.0], places[ends.1]);
        let length = (b.x - a.x).hypot(b.y - a.y);
        let round = round.get(cable).copied().unwrap_or_default();
        rounded(beside + if round { length * ROUND } else { 0.0 })
    };
    ends.iter().enumerate().map(bend).collect()
}
