//! `mesh-XxY-HOSTS`: a grid of 1 to 8 dimensions.

use core::fmt;

use super::numbers::join;
use super::{Generator, Kind, grid};
use crate::error::TopologyError;
use crate::graph::Graph;

pub(super) const KIND: Kind = Kind {
    name: "mesh",
    form: "mesh-XxY-HOSTS",
    read: |numbers| {
        let (sizes, hosts) = numbers.sizes_and_hosts()?;
        Ok(Box::new(Mesh { sizes, hosts }))
    },
};

struct Mesh {
    /// Switches along each dimension.
    sizes: Vec<u64>,
    /// Hosts at each switch.
    hosts: u64,
}

impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mesh-{}-{}", join(&self.sizes, "x"), self.hosts)
    }
}

impl Generator for Mesh {
    fn graph(&self) -> Result<Graph, TopologyError> {
        grid::graph(self, &self.sizes, self.hosts, false)
    }
}

#[cfg(test)]
mod tests {
    use crate::kinds::tests::{cables, refused};

    #[test]
    fn neighbours_along_each_dimension_have_a_cable() {
        assert_eq!(cables("mesh-2x3-1").len(), 3 + 4);
        assert_eq!(cables("mesh-2x2x2-1").len(), 12);
    }

    #[test]
    fn impossible_numbers_are_refused_with_the_reason() {
        refused(
            "mesh-0x0-1",
            "the size of a dimension is 0, allowed is 1 to",
        );
        refused("mesh-2x2-0", "HOSTS is 0, allowed is 1 to 254");
        refused(
            "mesh-1x1x1x1x1x1x1x1x1-1",
            "the number of dimensions is 9, allowed is 1 to 8",
        );
    }
}
