//! `directors-EDGES-HOSTS-DIRECTORS-LEAVES-SPINES`: edge switches of HOSTS hosts with a cable to each of DIRECTORS
//! director switches. A director is one chassis: LEAVES leaf boards, each with a cable to each of SPINES
//! spine boards, all with one system image GUID. Edge switches are at its leaf boards in turn.

use core::fmt;

use wire::convert::usize_of;

use super::wiring::Wiring;
use super::{Generator, Kind};
use crate::error::{NODES_MAX, SWITCH_PORTS_MAX, TopologyError};
use crate::graph::Graph;

pub(super) const KIND: Kind = Kind {
    name: "directors",
    form: "directors-EDGES-HOSTS-DIRECTORS-LEAVES-SPINES",
    read: |numbers| {
        let [edges, hosts, directors, leaves, spines] = numbers.all()?;
        Ok(Box::new(Directors {
            edges,
            hosts,
            directors,
            leaves,
            spines,
        }))
    },
};

struct Directors {
    /// Edge switches.
    edges: u64,
    /// Hosts at each of them.
    hosts: u64,
    /// Chassis.
    directors: u64,
    /// Leaf boards of a chassis.
    leaves: u64,
    /// Spine boards of a chassis.
    spines: u64,
}

impl fmt::Display for Directors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            edges,
            hosts,
            directors,
            leaves,
            spines,
        } = self;
        write!(f, "directors-{edges}-{hosts}-{directors}-{leaves}-{spines}")
    }
}

impl Generator for Directors {
    fn graph(&self) -> Result<Graph, TopologyError> {
        self.check_range("EDGES", self.edges, 1, NODES_MAX)?;
        self.check_range("HOSTS", self.hosts, 1, SWITCH_PORTS_MAX)?;
        self.check_range("DIRECTORS", self.directors, 1, SWITCH_PORTS_MAX)?;
        self.check_range("LEAVES", self.leaves, 1, SWITCH_PORTS_MAX)?;
        self.check_range("SPINES", self.spines, 1, SWITCH_PORTS_MAX)?;
        self.check_ports("an edge switch", self.hosts + self.directors)?;
        let edges = self.edges.div_ceil(self.leaves);
        self.check_ports("a leaf board", edges + self.spines)?;
        let boards = self.leaves + self.spines;
        let mut wiring =
            Wiring::with_spines(self, self.edges, self.hosts, self.directors * boards)?;
        for director in 0..self.directors {
            let first = wiring.leaves() + usize_of(director * boards);
            let board = |number: u64| first + usize_of(number);
            for number in 0..boards {
                wiring.put_into_box(board(number), first);
            }
            for leaf in 0..self.leaves {
                for spine in self.leaves..boards {
                    wiring.connect(board(leaf), board(spine), 1);
                }
            }
            for edge in 0..self.edges {
                wiring.connect(usize_of(edge), board(edge % self.leaves), 1);
            }
        }
        wiring.graph()
    }
}

#[cfg(test)]
mod tests {
    use crate::kinds::tests::{graph, neighbours, refused};

    #[test]
    fn boards_of_a_chassis_show_one_image_and_edge_switches_are_at_each_chassis() {
        let graph = graph("directors-4-3-2-2-1");
        assert_eq!(
            neighbours(&graph, "leaf3"),
            ["h9", "h10", "h11", "spine1", "spine4"]
        );
        assert_eq!(neighbours(&graph, "spine5"), ["spine3", "spine4"]);
        let image = |name: &str| graph.node(graph.find(name).unwrap()).system_image_guid;
        let guid = |name: &str| graph.node(graph.find(name).unwrap()).guid;
        for board in ["spine0", "spine1", "spine2"] {
            assert_eq!(image(board), guid("spine0"));
        }
        assert_eq!(image("spine5"), guid("spine3"));
        assert_eq!(image("leaf1"), guid("leaf1"));
    }

    #[test]
    fn impossible_numbers_are_refused_with_the_reason() {
        refused("directors-0-3-2-2-1", "EDGES is 0");
        refused(
            "directors-4-250-5-2-1",
            "an edge switch would need 255 ports",
        );
        refused("directors-4-3-2-2-254", "a leaf board would need 256 ports");
    }
}
