//! The random fabrics of LID07, in each interpretation (reading) of the paper's description.
//!
//! The paper says: random irregular topologies, so many switches and hosts, nodal degree 8, 32 of
//! them. It leaves open whether every switch has just 8 neighbours or 8 on the average, which
//! hosts are at which switch (the order of hosts is the order in which shortest widest paths are
//! found), which switch is the root of up*/down* routing, and how much longer than the shortest the
//! alternatives of path selection may be.
//!
//! What it changes, 32 graphs each (the paper, regular graphs with hosts in blocks, with hosts at
//! random switches):
//!
//! | greedy, shortest widest | LID07 | in blocks | random |
//! | --- | --- | --- | --- |
//! | 128/16 | 478.7 | 477.6 | 497.1 |
//! | 512/16 | 2218.3 | 2114.0 | 2387.8 |
//! | 128/32 | 451.5 | 373.6 | 435.8 |
//! | 512/32 | 2428.7 | 1733.1 | 2372.8 |
//! | 128/64 | 422.8 | 319.2 | 393.0 |
//! | 512/64 | 2325.8 | 1723.7 | 2173.3 |
//!
//! With hosts at random switches all rows are 2 to 8 % from the paper's, so that is the default. In blocks,
//! neighbours in the order of hosts meet nearly the same loads and take the same paths, which then share a
//! LID.
//!
//! The paper names path selection (Koibuchi et al.) without saying how alternatives are weighed. By count
//! of alternatives ([`Selection::Count`]) separate assignment balances worse than renaming on 16 switches,
//! where paths have one or two hops and one more costs most. By the load that results, among four
//! alternatives of each pair ([`Selection::Load`], the default), all statements about loads and LIDs of the
//! three routing schemes hold on all nine sizes (hosts at random switches, 32 graphs):
//!
//! | load, LIDs | 128/16 | 256/16 | 512/32 | 512/64 |
//! | --- | --- | --- | --- | --- |
//! | LID07, renaming | 3.84, 477.8 | 7.52, 1044.9 | 13.24, 2422.8 | 10.55, 2323.4 |
//! | LID07, separate | 3.70, 466.0 | 7.35, 851.2 | 12.37, 1688.7 | 9.54, 1786.6 |
//! | renaming | 2.83, 497.1 | 5.21, 1110.2 | 11.38, 2372.8 | 10.75, 2173.3 |
//! | separate, by count | 3.41, 508.1 | 6.50, 1097.3 | 11.35, 1753.8 | 9.46, 1576.4 |
//! | separate, by load | 2.53, 439.9 | 4.77, 953.9 | 10.04, 1797.0 | 8.60, 1749.7 |
//!
//! The LIDs of the five heuristics over nine sizes are 14 % from the paper's by load, on the average of
//! absolute differences, and 17 % by count. On the other side, by load the heuristics differ less from each
//! other on 64 switches than in the paper: color-s over color-l is 1.14 to 1.17 there, by count 1.20 to
//! 1.21, in the paper 1.28 to 1.30.

use core::fmt;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use routing::lid_assignment::{
    LidError, PATHS_MAX, PathScheme, Routes, load_selection, path_selection_among,
};
use routing::network::{Network, PathLimit, UpDown};
use serde::Deserialize;
use sim::index;
use strum::{EnumMessage, IntoStaticStr, VariantArray};
use topologies::{Endpoint, Graph, Node, NodeKind, SWITCH_PORTS_MAX, host_guid, switch_guid};
use wire::PortNum;
use wire::convert::saturate;

use crate::ExperimentError;
use crate::lids::size::Size;

/// How many random graphs are discarded because they are not connected. With 8 neighbours on the
/// average nearly all are connected.
const ATTEMPTS_MAX: u32 = 10_000;

/// An interpretation of what the paper leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Interpretation {
    /// How switches are joined.
    pub(super) cables: Cables,
    /// Which hosts are at which switch.
    pub(super) hosts: Hosts,
    /// The root of up*/down* routing.
    pub(super) root: Root,
    /// Of path selection: how many hops longer than the shortest an alternative may be.
    pub(super) detour: u32,
    /// Of path selection: how alternatives are weighed.
    pub(super) selection: Selection,
}

impl Default for Interpretation {
    fn default() -> Self {
        Self {
            cables: Cables::default(),
            hosts: Hosts::default(),
            root: Root::default(),
            detour: 1,
            selection: Selection::default(),
        }
    }
}

/// How switches are joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Cables {
    /// Each has the plan's number of neighbours.
    #[default]
    Regular,
    /// That number on the average: of all pairs of switches as many as that takes.
    Random,
}
wire::choice!(Cables, "way of joining switches");

/// Which hosts are at which switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Hosts {
    /// As many at each, those of the first switch first.
    InBlocks,
    /// As many at each, in random order.
    Shuffled,
    /// Each at a switch drawn at random.
    #[default]
    Random,
}
wire::choice!(Hosts, "placement of hosts");

/// The root of up*/down* routing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Root {
    /// The switch in the middle, see [`UpDown::new`].
    #[default]
    Centre,
    /// The first switch.
    First,
}
wire::choice!(Root, "choice of the root");

/// How path selection weighs alternatives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Selection {
    /// By the load that results, among the first four of each pair ([`load_selection`]).
    #[default]
    Load,
    /// By counting all alternatives
    /// ([`path_selection`](routing::lid_assignment::path_selection())).
    Count,
}
wire::choice!(Selection, "weighing of alternatives");

/// The alternatives of a pair that are weighed by load.
const ALTERNATIVES_MAX: usize = 4;

impl fmt::Display for Interpretation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cables = match self.cables {
            Cables::Regular => "regular graphs",
            Cables::Random => "random graphs",
        };
        let hosts = match self.hosts {
            Hosts::InBlocks => "hosts in blocks",
            Hosts::Shuffled => "hosts shuffled",
            Hosts::Random => "hosts anywhere",
        };
        let root = match self.root {
            Root::Centre => "root in the middle",
            Root::First => "root at the first switch",
        };
        let detour = self.detour;
        let selection = match self.selection {
            Selection::Load => "by load",
            Selection::Count => "by count",
        };
        write!(
            f,
            "{cables}, {hosts}, {root}, alternatives {detour} longer, {selection}"
        )
    }
}

impl Interpretation {
    /// The connected graph of a seed. Regular graphs with hosts in blocks are those of
    /// `irregular-SWITCHES-HOSTS-DEGREE-SEED`.
    pub(super) fn graph(
        self,
        size: Size,
        degree: u32,
        seed: u64,
    ) -> Result<Graph, ExperimentError> {
        let Size { hosts, switches } = size;
        let each = hosts / switches.max(1);
        let named = topologies::parse(&format!("irregular-{switches}-{each}-{degree}-{seed}"))?;
        if self.cables == Cables::Regular && self.hosts == Hosts::InBlocks {
            return Ok(named.graph);
        }
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut attempts = 0;
        loop {
            let cables = match self.cables {
                Cables::Regular => switch_cables(&Network::new(&named.graph)),
                Cables::Random => random_cables(switches, degree, &mut random),
            };
            let graph = build(switches, &cables, &self.host_switches(size, &mut random))?;
            if UpDown::new(&Network::new(&graph)).is_some() {
                return Ok(graph);
            }
            attempts += 1;
            if attempts == ATTEMPTS_MAX {
                return Err(LidError::NotConnected.into());
            }
        }
    }

    /// The switch of each host.
    fn host_switches(self, size: Size, random: &mut ChaCha8Rng) -> Vec<usize> {
        let switches = index(size.switches);
        let each = index(size.hosts / size.switches.max(1));
        let mut switch_of: Vec<usize> = (0..switches)
            .flat_map(|switch| core::iter::repeat_n(switch, each))
            .collect();
        match self.hosts {
            Hosts::InBlocks => {}
            Hosts::Shuffled => switch_of.shuffle(random),
            Hosts::Random => {
                for switch in &mut switch_of {
                    *switch = random.random_range(0..switches);
                }
            }
        }
        switch_of
    }

    /// The paths of every pair of hosts.
    pub(super) fn routes(self, routing: PathScheme, network: &Network) -> Result<Routes, LidError> {
        let updown = self.updown(network)?;
        match routing {
            PathScheme::PathSelection => {
                let limit = PathLimit {
                    detour: self.detour,
                    paths_max: PATHS_MAX,
                };
                match self.selection {
                    Selection::Load => load_selection(network, &updown, limit, ALTERNATIVES_MAX),
                    Selection::Count => path_selection_among(network, &updown, limit),
                }
            }
            other => other.routes(network, &updown),
        }
    }

    /// The up*/down* order of such a graph.
    fn updown(self, network: &Network) -> Result<UpDown, LidError> {
        let updown = match self.root {
            Root::Centre => UpDown::new(network),
            Root::First => UpDown::from_root(network, 0),
        };
        updown.ok_or(LidError::NotConnected)
    }
}

/// The cables between switches, each once.
fn switch_cables(network: &Network) -> Vec<(usize, usize)> {
    let channels = network.channels().iter();
    channels
        .filter(|channel| channel.from < channel.to)
        .map(|channel| (channel.from, channel.to))
        .collect()
}

/// Cables between random pairs of switches, `degree` of them at a switch on the average.
fn random_cables(switches: u32, degree: u32, random: &mut ChaCha8Rng) -> Vec<(usize, usize)> {
    let switches = index(switches);
    let mut pairs: Vec<(usize, usize)> = (0..switches)
        .flat_map(|from| (from + 1..switches).map(move |to| (from, to)))
        .collect();
    pairs.shuffle(random);
    pairs.truncate(switches * index(degree) / 2);
    pairs.sort_unstable();
    pairs
}

/// A graph of these cables between switches, with hosts at these switches.
fn build(
    switches: u32,
    cables: &[(usize, usize)],
    host_switches: &[usize],
) -> Result<Graph, ExperimentError> {
    let mut graph = Graph::new();
    let ports = saturate::<u8>(SWITCH_PORTS_MAX);
    let mut ends = Vec::new();
    for switch in 0..index(switches) {
        let name = format!("s{switch}");
        let guid = switch_guid(switch);
        let node = graph.add(Node::new(name, NodeKind::Switch, guid, ports))?;
        ends.push((node, 0u8));
    }
    let mut next = |switch: usize| {
        let (node, used) = &mut ends[switch];
        *used = used.saturating_add(1);
        Endpoint {
            node: *node,
            port: PortNum::new(*used),
        }
    };
    for &(from, to) in cables {
        let (from, to) = (next(from), next(to));
        graph.connect(from, to)?;
    }
    for (host, &switch) in host_switches.iter().enumerate() {
        let name = format!("h{host}");
        let node = graph.add(Node::new(name, NodeKind::Host, host_guid(host), 1))?;
        let port = PortNum::new(1);
        graph.connect(Endpoint { node, port }, next(switch))?;
    }
    Ok(graph)
}
