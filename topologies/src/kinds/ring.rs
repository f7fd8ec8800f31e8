//! `ring-S-HOSTS`: a torus of one dimension.

use core::fmt;

use super::{Generator, Kind, grid};
use crate::error::{NODES_MAX, TopologyError};
use crate::graph::Graph;

pub(super) const KIND: Kind = Kind {
    name: "ring",
    form: "ring-S-HOSTS",
    read: |numbers| {
        let [switches, hosts] = numbers.all()?;
        Ok(Box::new(Ring { switches, hosts }))
    },
};

struct Ring {
    /// Switches in the ring.
    switches: u64,
    /// Hosts at each switch.
    hosts: u64,
}

impl fmt::Display for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ring-{}-{}", self.switches, self.hosts)
    }
}

impl Generator for Ring {
    fn graph(&self) -> Result<Graph, TopologyError> {
        self.check_range("S (switches)", self.switches, 2, NODES_MAX)?;
        grid::graph(self, &[self.switches], self.hosts, true)
    }
}

#[cfg(test)]
mod tests {
    use crate::kinds::tests::{cables, refused};

    #[test]
    fn neighbours_and_the_two_ends_are_joined() {
        assert_eq!(
            cables("ring-4-2"),
            ["s0:3-s1:3", "s0:4-s3:3", "s1:4-s2:3", "s2:4-s3:4"]
        );
        assert_eq!(cables("ring-2-1"), ["s0:2-s1:2", "s0:3-s1:3"]);
    }

    #[test]
    fn impossible_numbers_are_refused_with_the_reason() {
        refused("ring-1-1", "S (switches) is 1, allowed is 2 to");
    }
}
