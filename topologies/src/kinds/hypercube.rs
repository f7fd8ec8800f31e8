//! `hypercube-D-HOSTS`: 2^D switches; those whose numbers differ in one bit are neighbours.

use core::fmt;

use super::wiring::Wiring;
use super::{Generator, Kind};
use crate::error::{SWITCH_PORTS_MAX, TopologyError};
use crate::graph::Graph;

pub(super) const KIND: Kind = Kind {
    name: "hypercube",
    form: "hypercube-D-HOSTS",
    read: |numbers| {
        let [dimensions, hosts] = numbers.all()?;
        Ok(Box::new(Hypercube { dimensions, hosts }))
    },
};

struct Hypercube {
    /// D, neighbours of a switch.
    dimensions: u64,
    /// Hosts at each switch.
    hosts: u64,
}

impl fmt::Display for Hypercube {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hypercube-{}-{}", self.dimensions, self.hosts)
    }
}

impl Generator for Hypercube {
    fn graph(&self) -> Result<Graph, TopologyError> {
        self.check_range("D (dimensions)", self.dimensions, 1, 15)?;
        self.check_range("HOSTS", self.hosts, 1, SWITCH_PORTS_MAX)?;
        self.check_ports("a switch", self.hosts + self.dimensions)?;
        let mut wiring = Wiring::new(self, 1 << self.dimensions, self.hosts)?;
        for switch in 0..wiring.switches() {
            for dimension in 0..self.dimensions {
                let other = switch ^ (1 << dimension);
                if switch < other {
                    wiring.connect(switch, other, 1);
                }
            }
        }
        wiring.graph()
    }
}

#[cfg(test)]
mod tests {
    use crate::kinds::tests::{graph, neighbours, refused};

    #[test]
    fn switches_that_differ_in_one_bit_are_neighbours() {
        let cube = graph("hypercube-3-2");
        assert_eq!(cube.hosts().count(), 16);
        assert_eq!(neighbours(&cube, "s5")[2..], ["s1", "s4", "s7"]);
    }

    #[test]
    fn impossible_numbers_are_refused_with_the_reason() {
        refused("hypercube-16-1", "D (dimensions) is 16, allowed is 1 to 15");
        refused("hypercube-15-1", "need 65536 LIDs, a subnet has 49151");
    }
}
