//! `dragonfly-GROUPS-SWITCHES-HOSTS[-LINKS]`: groups of switches that are all joined to each other, and LINKS
//! cables between any two groups, which the switches of a group have in turn.

use core::fmt;

use wire::convert::usize_of;

use super::wiring::Wiring;
use super::{Generator, Kind};
use crate::error::{NODES_MAX, SWITCH_PORTS_MAX, TopologyError};
use crate::graph::Graph;

pub(super) const KIND: Kind = Kind {
    name: "dragonfly",
    form: "dragonfly-GROUPS-SWITCHES-HOSTS[-LINKS]",
    read: |numbers| {
        let [groups, switches, hosts, links] = match numbers.count() {
            3 => {
                let [groups, switches, hosts] = numbers.all()?;
                [groups, switches, hosts, 1]
            }
            _ => numbers.all()?,
        };
        Ok(Box::new(Dragonfly {
            groups,
            switches,
            hosts,
            links,
        }))
    },
};

struct Dragonfly {
    /// Groups.
    groups: u64,
    /// Switches of a group.
    switches: u64,
    /// Hosts at each switch.
    hosts: u64,
    /// Cables between two groups.
    links: u64,
}

impl fmt::Display for Dragonfly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            groups,
            switches,
            hosts,
            links,
        } = self;
        write!(f, "dragonfly-{groups}-{switches}-{hosts}")?;
        if *links == 1 {
            return Ok(());
        }
        write!(f, "-{links}")
    }
}

impl Generator for Dragonfly {
    fn graph(&self) -> Result<Graph, TopologyError> {
        self.check_range("GROUPS", self.groups, 1, NODES_MAX)?;
        self.check_range("SWITCHES", self.switches, 1, SWITCH_PORTS_MAX)?;
        self.check_range("HOSTS", self.hosts, 1, SWITCH_PORTS_MAX)?;
        self.check_range("LINKS", self.links, 1, SWITCH_PORTS_MAX)?;
        let to_groups = ((self.groups - 1) * self.links).div_ceil(self.switches);
        self.check_ports("a switch", self.hosts + self.switches - 1 + to_groups)?;
        let mut wiring = Wiring::new(self, self.groups * self.switches, self.hosts)?;
        let switch =
            |group: u64, place: u64| usize_of(group * self.switches + place % self.switches);
        for group in 0..self.groups {
            for place in 0..self.switches {
                for other in place + 1..self.switches {
                    wiring.connect(switch(group, place), switch(group, other), 1);
                }
            }
            for other in group + 1..self.groups {
                for link in 0..self.links {
                    // In each group the other groups are counted without its own.
                    let here = switch(group, (other - 1) * self.links + link);
                    let there = switch(other, group * self.links + link);
                    wiring.connect(here, there, 1);
                }
            }
        }
        wiring.graph()
    }
}

#[cfg(test)]
mod tests {
    use crate::kinds::tests::{cables, graph, neighbours, refused};

    #[test]
    fn groups_are_complete_and_each_pair_of_them_has_its_cables() {
        assert_eq!(
            cables("dragonfly-3-2-1"),
            [
                "s0:2-s1:2",
                "s0:3-s2:2",
                "s1:3-s4:2",
                "s2:3-s3:2",
                "s3:3-s5:2",
                "s4:3-s5:3",
            ]
        );
        let graph = graph("dragonfly-3-4-1-2");
        assert_eq!(graph.links().count(), 12 + 3 * 6 + 3 * 2);
        assert_eq!(neighbours(&graph, "s0"), ["h0", "s1", "s2", "s3", "s4"]);
    }

    #[test]
    fn impossible_numbers_are_refused_with_the_reason() {
        refused("dragonfly-0-4-1", "GROUPS is 0");
        refused("dragonfly-400-4-160", "a switch would need 263 ports");
    }
}
