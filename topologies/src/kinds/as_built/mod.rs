//! `as-built-LEAVES-HOSTS-SPINES-CORES-SEED`: a fat tree with the irregularities of machine rooms.
//!
//! The other kinds are as regular as their definitions. Fabrics in use are not: leaves have more hosts
//! than cables upwards and not all of them equally many, some cables have failed, ports are taken in the
//! order in which cables were pulled, service hosts stand on spines, switches bring aggregation nodes
//! along, hosts have two rails. [`AsBuilt`] draws such fabrics from a seed; what a name gives has
//! some of everything.
//!
//! ```text
//!           core 0      core 1           (CORES; none: one pod)
//!          /  |  \     /  |  \
//!     spine 0   spine 1   spine 2  ..    spine j in pod j mod 2, a cable to each core
//!        |  \  /  |
//!     leaf 0   leaf 2 ..                 leaf i in pod i mod 2, cables to each spine of its pod
//!      hosts    hosts
//! ```

use core::fmt;

use super::{Generator, Kind};
use crate::error::{NODES_MAX, SWITCH_PORTS_MAX, TopologyError};
use crate::graph::Graph;

mod draft;

pub(super) const KIND: Kind = Kind {
    name: "as-built",
    form: "as-built-LEAVES-HOSTS-SPINES-CORES-SEED",
    read: |numbers| {
        let [leaves, hosts, spines, cores, seed] = numbers.all()?;
        Ok(Box::new(AsBuilt::new(leaves, hosts, spines, cores, seed)))
    },
};

/// A fabric as machine rooms have them, drawn from a seed: the same numbers give the same graph.
///
/// ```
/// use topologies::AsBuilt;
///
/// let fabric = AsBuilt { failed_percent: 30, ..AsBuilt::new(8, 6, 4, 2, 7) };
/// assert_eq!(fabric.graph()?, fabric.graph()?);
/// # Ok::<(), topologies::TopologyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AsBuilt {
    /// Leaf switches, `leaf<i>`, 1 to 254.
    pub leaves: u64,
    /// Hosts at a leaf at most, 1 to 254; each leaf has half of that to all of it. `h<i>`.
    pub hosts: u64,
    /// Spine switches, `spine<i>`, 1 to 254. There are two pods if there are cores, two spines and two leaves.
    pub spines: u64,
    /// Core switches, `core<i>`, 0 to 254.
    pub cores: u64,
    /// Cables between a leaf and a spine of its pod at most, 1 to 254; each pair has 1 to so many.
    pub uplinks_max: u64,
    /// How many of a hundred cables between switches, and of a hundred second cables of hosts, have failed, 0 to
    /// 100. Cables without which the fabric would fall apart never fail.
    pub failed_percent: u32,
    /// Hosts on spines and cores: storage, management, gateways; `service<i>`, 0 to 254.
    pub service_hosts: u64,
    /// Whether each switch has an aggregation node (SHARP's channel adapter) at its last port,
    /// `aggregation<i>`.
    pub has_aggregation_nodes: bool,
    /// How many of a hundred hosts have a second port, with a cable to the next leaf, 0 to 100.
    pub dual_rail_percent: u32,
    /// Cables of which both ends are in one switch, 0 to 254.
    pub loopbacks: u64,
    /// Whether devices are of three generations, EDR, HDR and NDR, a cable runs at the speed of its slower end, and a
    /// few have lost physical lanes; otherwise nothing is said about width and speed.
    pub has_mixed_speeds: bool,
    /// What the random numbers start from.
    pub seed: u64,
}

impl AsBuilt {
    /// What the name `as-built-LEAVES-HOSTS-SPINES-CORES-SEED` gives: up to two cables for a leaf
    /// and a spine, 5% of the cables failed, two service hosts, aggregation nodes, a quarter of the
    /// hosts with two rails, one loopback cable, devices of three generations.
    #[must_use]
    pub fn new(leaves: u64, hosts: u64, spines: u64, cores: u64, seed: u64) -> Self {
        Self {
            leaves,
            hosts,
            spines,
            cores,
            uplinks_max: 2,
            failed_percent: 5,
            service_hosts: 2,
            has_aggregation_nodes: true,
            dual_rail_percent: 25,
            loopbacks: 1,
            has_mixed_speeds: true,
            seed,
        }
    }

    /// The fabric.
    ///
    /// # Errors
    /// [`TopologyError`] for numbers outside their ranges, a switch with more than 254 ports, more nodes than
    /// a subnet has LIDs.
    pub fn graph(&self) -> Result<Graph, TopologyError> {
        self.check()?;
        let draft = draft::Draft::of(self);
        let (name, ports) = draft.largest_switch();
        self.check_ports(name, ports)?;
        draft.graph().map_err(|source| TopologyError::Graph {
            topology: self.to_string(),
            source,
        })
    }

    fn check(&self) -> Result<(), TopologyError> {
        for (what, value, min) in [
            ("LEAVES", self.leaves, 1),
            ("HOSTS", self.hosts, 1),
            ("SPINES", self.spines, 1),
            ("CORES", self.cores, 0),
            ("cables for a leaf and a spine", self.uplinks_max, 1),
            ("service hosts", self.service_hosts, 0),
            ("loopback cables", self.loopbacks, 0),
        ] {
            self.check_range(what, value, min, SWITCH_PORTS_MAX)?;
        }
        for (what, value) in [
            ("percentage of failed cables", self.failed_percent),
            ("percentage of hosts with two rails", self.dual_rail_percent),
        ] {
            self.check_range(what, u64::from(value), 0, 100)?;
        }
        let switches = self.leaves + self.spines + self.cores;
        let aggregation = u64::from(self.has_aggregation_nodes) * switches;
        let hosts = self.leaves * self.hosts + self.service_hosts + aggregation;
        if hosts + switches > NODES_MAX {
            return Err(TopologyError::TooManyNodes {
                topology: self.to_string(),
                hosts,
                switches,
            });
        }
        let spines = self.spines.div_ceil(self.pods());
        self.check_ports("a leaf", self.hosts.div_ceil(2) + spines)?;
        self.check_ports("a spine", self.leaves / self.pods() + self.cores)?;
        self.check_ports("a core", self.spines)
    }

    /// Pods: groups of leaves and spines that only the cores connect.
    fn pods(&self) -> u64 {
        if self.cores > 0 && self.spines > 1 && self.leaves > 1 {
            2
        } else {
            1
        }
    }
}

impl fmt::Display for AsBuilt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            leaves,
            hosts,
            spines,
            cores,
            seed,
            ..
        } = self;
        write!(f, "as-built-{leaves}-{hosts}-{spines}-{cores}-{seed}")
    }
}

impl Generator for AsBuilt {
    fn graph(&self) -> Result<Graph, TopologyError> {
        Self::graph(self)
    }
}

#[cfg(test)]
mod tests;
