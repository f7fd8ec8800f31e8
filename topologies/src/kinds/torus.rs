//! `torus-XxY-HOSTS`: a mesh whose ends are joined. A dimension of two switches has two cables
//! between them, one each way round.

use core::fmt;

use super::numbers::join;
use super::{Generator, Kind, grid};
use crate::error::TopologyError;
use crate::graph::Graph;

pub(super) const KIND: Kind = Kind {
    name: "torus",
    form: "torus-XxY-HOSTS",
    read: |numbers| {
        let (sizes, hosts) = numbers.sizes_and_hosts()?;
        Ok(Box::new(Torus { sizes, hosts }))
    },
};

struct Torus {
    /// Switches along each dimension.
    sizes: Vec<u64>,
    /// Hosts at each switch.
    hosts: u64,
}

impl fmt::Display for Torus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "torus-{}-{}", join(&self.sizes, "x"), self.hosts)
    }
}

impl Generator for Torus {
    fn graph(&self) -> Result<Graph, TopologyError> {
        grid::graph(self, &self.sizes, self.hosts, true)
    }
}

#[cfg(test)]
mod tests {
    use crate::kinds::tests::{cables, graph, neighbours, refused};

    #[test]
    fn the_ends_of_each_dimension_are_joined() {
        assert_eq!(cables("torus-3x3-1").len(), 18);
        assert_eq!(cables("torus-2x3-1").len(), 6 + 6);
        assert!(cables("torus-1x1-3").is_empty());
        // s5 of a 3x3 torus is row 1, column 2: neighbours in both directions, around the end.
        let torus = graph("torus-3x3-1");
        assert_eq!(neighbours(&torus, "s5")[1..], ["s2", "s3", "s4", "s8"]);
    }

    #[test]
    fn impossible_numbers_are_refused_with_the_reason() {
        refused("torus-300x300-1", "need 180000 LIDs");
        refused("torus-3x3-251", "a switch would need 255 ports");
    }
}
