//! Recognising a Clos fabric.

use thiserror::Error;
use topologies::{Endpoint, Graph};

use crate::network::Network;

/// Two stages of switches, every leaf with the same number of cables to every spine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clos {
    /// Switch numbers of the [`Network`], in order.
    leaves: Vec<usize>,
    spines: Vec<usize>,
    links: usize,
    /// `up[leaf][tree]`: the channel from the leaf into the tree.
    up: Vec<Vec<usize>>,
    /// By host of the network: the place of its leaf.
    leaf_of: Vec<usize>,
}

/// How a fabric is none of that.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotClos {
    /// No switch without hosts.
    #[error("every switch has hosts, so there is no spine")]
    NoSpine,
    /// No switch with hosts.
    #[error("no switch has hosts, so there is no leaf")]
    NoLeaf,
    /// A cable within a stage.
    #[error("a cable joins {a:?} and {b:?}, which are both {stage}")]
    WithinStage {
        /// One switch.
        a: String,
        /// The other.
        b: String,
        /// `leaves` or `spines`.
        stage: &'static str,
    },
    /// A pair with another number of cables than the first pair.
    #[error("{have} cables join {leaf:?} and {spine:?}, others are joined by {want}")]
    Uneven {
        /// The leaf.
        leaf: String,
        /// The spine.
        spine: String,
        /// How many there are.
        have: usize,
        /// How many the first leaf and the first spine have.
        want: usize,
    },
}

/// What a Clos fabric promises to admissible traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NonBlocking {
    /// Nothing: there are fewer trees than hosts at a leaf.
    Not,
    /// Every connection can be made if others may be moved: `trees >= n`.
    Rearrangeably,
    /// Every connection can be made without moving others: `trees >= 2n - 1`.
    Strictly,
}

impl NonBlocking {
    /// What `trees` promise where a leaf has `hosts` hosts at most.
    #[must_use]
    pub const fn of(trees: usize, hosts: usize) -> Self {
        if trees + 1 >= 2 * hosts && trees >= hosts {
            Self::Strictly
        } else if trees >= hosts {
            Self::Rearrangeably
        } else {
            Self::Not
        }
    }
}

impl Clos {
    /// Leaves are the switches with hosts, spines the others; both in order of GUID. The cables of
    /// a pair are numbered by the leaf's ports.
    ///
    /// # Errors
    /// [`NotClos`] with what is different.
    pub fn recognise(graph: &Graph, network: &Network) -> Result<Self, NotClos> {
        let (leaves, spines): (Vec<usize>, Vec<usize>) =
            (0..network.switches().len()).partition(|&switch| network.has_hosts(switch));
        let is_leaf = |switch: usize| network.has_hosts(switch);
        let name = |switch: usize| graph.node(network.switches()[switch]).name.clone();
        let &first_leaf = leaves.first().ok_or(NotClos::NoLeaf)?;
        let &first_spine = spines.first().ok_or(NotClos::NoSpine)?;
        for channel in network.channels() {
            if is_leaf(channel.from) == is_leaf(channel.to) {
                return Err(NotClos::WithinStage {
                    a: name(channel.from),
                    b: name(channel.to),
                    stage: if is_leaf(channel.from) {
                        "leaves"
                    } else {
                        "spines"
                    },
                });
            }
        }
        let cables = |leaf: usize, spine: usize| -> Vec<usize> {
            network
                .leaving(leaf)
                .filter(|&channel| network.channels()[channel].to == spine)
                .collect()
        };
        let links = cables(first_leaf, first_spine).len();
        let mut up = Vec::with_capacity(leaves.len());
        for &leaf in &leaves {
            let mut trees = Vec::with_capacity(spines.len() * links);
            for &spine in &spines {
                let own = cables(leaf, spine);
                if own.len() != links || links == 0 {
                    return Err(NotClos::Uneven {
                        leaf: name(leaf),
                        spine: name(spine),
                        have: own.len(),
                        want: links.max(1),
                    });
                }
                trees.extend(own);
            }
            up.push(trees);
        }
        let leaf_of = network
            .hosts()
            .iter()
            .filter_map(|host| leaves.binary_search(&host.switch).ok())
            .collect();
        Ok(Self {
            leaves,
            spines,
            links,
            up,
            leaf_of,
        })
    }

    /// The leaves, as switch numbers of the network.
    #[must_use]
    pub fn leaves(&self) -> &[usize] {
        &self.leaves
    }

    /// The spines, as switch numbers of the network.
    #[must_use]
    pub fn spines(&self) -> &[usize] {
        &self.spines
    }

    /// Cables between a leaf and a spine.
    #[must_use]
    pub fn links(&self) -> usize {
        self.links
    }

    /// Routing trees: spines times cables.
    #[must_use]
    pub fn trees(&self) -> usize {
        self.spines.len() * self.links
    }

    /// The place among the spines of a tree's spine.
    #[must_use]
    pub fn spine_of(&self, tree: usize) -> usize {
        tree / self.links
    }

    /// The place among the leaves of each host's leaf, by host number of the network.
    #[must_use]
    pub fn leaf_of(&self) -> &[usize] {
        &self.leaf_of
    }

    /// The channel by which a leaf (by place) sends into a tree. Its reverse is the one by which the
    /// tree's spine sends to the leaf.
    #[must_use]
    pub fn up(&self, leaf: usize, tree: usize) -> usize {
        self.up[leaf][tree]
    }

    /// The most hosts at a leaf: n.
    #[must_use]
    pub fn hosts_max(&self) -> usize {
        hosts_max(&self.leaf_of)
    }

    /// What the fabric promises.
    #[must_use]
    pub fn non_blocking(&self) -> NonBlocking {
        NonBlocking::of(self.trees(), self.hosts_max())
    }

    /// The links of a connection in a tree: the leaf's output port, then the spine's.
    #[must_use]
    pub fn path(&self, network: &Network, from: usize, to: usize, tree: usize) -> [Endpoint; 2] {
        let down = network.channels()[self.up(to, tree)].reverse;
        [
            network.endpoint(self.up(from, tree)),
            network.endpoint(down),
        ]
    }
}

/// How often the most frequent leaf stands in the list.
pub(super) fn hosts_max(leaf_of: &[usize]) -> usize {
    let leaves = leaf_of.iter().max().map_or(0, |&last| last + 1);
    let mut counts = vec![0; leaves];
    for &leaf in leaf_of {
        counts[leaf] += 1;
    }
    counts.into_iter().max().unwrap_or(0)
}
