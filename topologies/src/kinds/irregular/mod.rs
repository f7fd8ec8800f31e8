//! `irregular-SWITCHES-HOSTS-DEGREE-SEED`: a random connected graph in which every switch has DEGREE
//! neighbours (LID07).

use core::fmt;

use wire::convert::usize_of;

use super::wiring::Wiring;
use super::{Generator, Kind};
use crate::error::{NODES_MAX, SWITCH_PORTS_MAX, TopologyError};
use crate::graph::Graph;

mod pairing;

pub(super) const KIND: Kind = Kind {
    name: "irregular",
    form: "irregular-SWITCHES-HOSTS-DEGREE-SEED",
    read: |numbers| {
        let [switches, hosts, degree, seed] = numbers.all()?;
        Ok(Box::new(Irregular {
            switches,
            hosts,
            degree,
            seed,
        }))
    },
};

struct Irregular {
    /// Switches.
    switches: u64,
    /// Hosts at each switch.
    hosts: u64,
    /// Neighbours of each switch.
    degree: u64,
    /// What the random numbers start from.
    seed: u64,
}

impl fmt::Display for Irregular {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            switches,
            hosts,
            degree,
            seed,
        } = self;
        write!(f, "irregular-{switches}-{hosts}-{degree}-{seed}")
    }
}

impl Irregular {
    fn check(&self) -> Result<(), TopologyError> {
        let (switches, degree) = (self.switches, self.degree);
        self.check_range("SWITCHES", switches, 1, NODES_MAX)?;
        self.check_range("HOSTS", self.hosts, 1, SWITCH_PORTS_MAX)?;
        if degree >= switches {
            return Err(self.impossible(format!(
                "DEGREE is {degree}, but a switch among {switches} has at most {} neighbours",
                switches - 1
            )));
        }
        if degree < 2 && switches > degree + 1 {
            return Err(self.impossible(format!(
                "with DEGREE {degree} the {switches} switches cannot be connected; allowed is 2 to \
                 {}",
                switches - 1
            )));
        }
        if switches * degree % 2 == 1 {
            return Err(self.impossible(format!(
                "{switches} switches with {degree} neighbours each make an odd number of cable \
                 ends; one of the two must be even"
            )));
        }
        self.check_ports("a switch", self.hosts + degree)
    }
}

impl Generator for Irregular {
    fn graph(&self) -> Result<Graph, TopologyError> {
        self.check()?;
        let mut wiring = Wiring::new(self, self.switches, self.hosts)?;
        let degree = usize_of(self.degree);
        let cables = pairing::connected(wiring.switches(), degree, self.seed).ok_or_else(|| {
            self.impossible("no connected graph was found from this SEED; take another".to_owned())
        })?;
        for (a, b) in cables {
            wiring.connect(a, b, 1);
        }
        wiring.graph()
    }
}

#[cfg(test)]
mod tests {
    use crate::kinds::tests::{graph, refused};

    #[test]
    fn each_switch_has_its_hosts_and_neighbours() {
        let irregular = graph("irregular-16-8-8-1");
        for switch in irregular.switches() {
            let cables: Vec<_> = irregular.cables(switch).collect();
            assert_eq!(cables.len(), 16);
            let neighbours: Vec<_> = cables[8..].iter().map(|(_, peer)| peer.node).collect();
            assert!(neighbours.is_sorted_by(|a, b| a < b));
        }
        assert_eq!(irregular, graph("irregular-16-8-8-1"));
        assert_ne!(irregular, graph("irregular-16-8-8-2"));
    }

    #[test]
    fn impossible_numbers_are_refused_with_the_reason() {
        refused("irregular-8-1-8-0", "at most 7 neighbours");
        refused("irregular-7-1-3-0", "one of the two must be even");
        refused(
            "irregular-8-1-1-0",
            "cannot be connected; allowed is 2 to 7",
        );
        refused("irregular-0-1-1-0", "SWITCHES is 0");
        refused("irregular-300-1-254-0", "a switch would need 255 ports");
    }
}
