//! `clos-LEAVES-HOSTS-SPINES[-LINKS]`: every leaf has LINKS cables to every spine.

use core::fmt;

use super::wiring::Wiring;
use super::{Generator, Kind};
use crate::error::{SWITCH_PORTS_MAX, TopologyError};
use crate::graph::Graph;

pub(super) const KIND: Kind = Kind {
    name: "clos",
    form: "clos-LEAVES-HOSTS-SPINES[-LINKS]",
    read: |numbers| {
        let [leaves, hosts, spines, links] = match numbers.count() {
            3 => {
                let [leaves, hosts, spines] = numbers.all()?;
                [leaves, hosts, spines, 1]
            }
            _ => numbers.all()?,
        };
        Ok(Box::new(Clos {
            leaves,
            hosts,
            spines,
            links,
        }))
    },
};

struct Clos {
    /// Leaf switches.
    leaves: u64,
    /// Hosts at each leaf.
    hosts: u64,
    /// Spine switches.
    spines: u64,
    /// Cables between a leaf and a spine.
    links: u64,
}

impl fmt::Display for Clos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "clos-{}-{}-{}", self.leaves, self.hosts, self.spines)?;
        if self.links == 1 {
            return Ok(());
        }
        write!(f, "-{}", self.links)
    }
}

impl Generator for Clos {
    fn graph(&self) -> Result<Graph, TopologyError> {
        self.check_range("LEAVES", self.leaves, 1, SWITCH_PORTS_MAX)?;
        self.check_range("HOSTS", self.hosts, 1, SWITCH_PORTS_MAX)?;
        self.check_range("SPINES", self.spines, 1, SWITCH_PORTS_MAX)?;
        self.check_range("LINKS", self.links, 1, SWITCH_PORTS_MAX)?;
        self.check_ports("a leaf", self.hosts + self.spines * self.links)?;
        self.check_ports("a spine", self.leaves * self.links)?;
        let mut wiring = Wiring::with_spines(self, self.leaves, self.hosts, self.spines)?;
        for leaf in 0..wiring.leaves() {
            for spine in wiring.leaves()..wiring.switches() {
                wiring.connect(leaf, spine, self.links);
            }
        }
        wiring.graph()
    }
}

#[cfg(test)]
mod tests {
    use crate::kinds::tests::{cables, refused};

    #[test]
    fn parallel_cables_stand_side_by_side() {
        assert_eq!(
            cables("clos-2-1-2-2"),
            [
                "leaf0:2-spine0:1",
                "leaf0:3-spine0:2",
                "leaf0:4-spine1:1",
                "leaf0:5-spine1:2",
                "leaf1:2-spine0:3",
                "leaf1:3-spine0:4",
                "leaf1:4-spine1:3",
                "leaf1:5-spine1:4",
            ]
        );
    }

    #[test]
    fn impossible_numbers_are_refused_with_the_reason() {
        refused("clos-0-1-1", "LEAVES is 0");
        refused("clos-4-200-30-2", "a leaf would need 260 ports");
        refused("clos-200-4-4-2", "a spine would need 400 ports");
    }
}
