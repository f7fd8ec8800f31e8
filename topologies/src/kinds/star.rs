//! `star-HOSTS`: one switch.

use core::fmt;

use super::wiring::Wiring;
use super::{Generator, Kind};
use crate::error::{SWITCH_PORTS_MAX, TopologyError};
use crate::graph::Graph;

pub(super) const KIND: Kind = Kind {
    name: "star",
    form: "star-HOSTS",
    read: |numbers| {
        let [hosts] = numbers.all()?;
        Ok(Box::new(Star { hosts }))
    },
};

struct Star {
    /// Hosts in all.
    hosts: u64,
}

impl fmt::Display for Star {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "star-{}", self.hosts)
    }
}

impl Generator for Star {
    fn graph(&self) -> Result<Graph, TopologyError> {
        self.check_range("HOSTS", self.hosts, 1, SWITCH_PORTS_MAX)?;
        Wiring::new(self, 1, self.hosts)?.graph()
    }
}

#[cfg(test)]
mod tests {
    use crate::kinds::tests::{graph, neighbours, refused};

    #[test]
    fn all_hosts_are_at_one_switch() {
        let star = graph("star-3");
        assert_eq!(star.switches().count(), 1);
        assert_eq!(neighbours(&star, "s0"), ["h0", "h1", "h2"]);
    }

    #[test]
    fn impossible_numbers_are_refused_with_the_reason() {
        refused("star-0", "HOSTS is 0, allowed is 1 to 254");
        refused("star-255", "HOSTS is 255, allowed is 1 to 254");
    }
}
