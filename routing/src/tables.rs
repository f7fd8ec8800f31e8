//! The result of a routing engine.

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use topologies::{Endpoint, Graph, NodeId, NodeKind};
use wire::{Guid, Lid, PortNum};

use crate::error::Warning;
use crate::fat_tree::FatTreeLabels;
use crate::lids::{LidRange, Lids};
use crate::network::Network;
use crate::routing_engine::RoutingEngine;
use crate::vl_assignment::VlAssignment;

/// How many entries a LinearForwardingTable attribute carries (IBA 14.2.5.8).
pub const BLOCK: usize = 64;

/// A linear forwarding table: by LID, the port that leads on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lft(Vec<PortNum>);

impl Lft {
    /// A table without ports, for LIDs up to `top`.
    #[must_use]
    pub fn new(top: Lid) -> Self {
        Self(vec![PortNum::NONE; top.index() + 1])
    }

    /// The port for a LID: 0 is the switch itself, 255 ([`PortNum::NONE`]) drops.
    #[must_use]
    pub fn get(&self, lid: Lid) -> PortNum {
        self.0.get(lid.index()).copied().unwrap_or(PortNum::NONE)
    }

    /// Sets the port for a LID; a LID above the table's end makes the table longer.
    pub fn set(&mut self, lid: Lid, port: PortNum) {
        if lid.index() >= self.0.len() {
            self.0.resize(lid.index() + 1, PortNum::NONE);
        }
        self.0[lid.index()] = port;
    }

    /// All entries from LID 0 on.
    #[must_use]
    pub fn entries(&self) -> &[PortNum] {
        &self.0
    }

    pub(crate) fn entries_mut(&mut self) -> &mut [PortNum] {
        &mut self.0
    }

    /// How many blocks of 64 entries hold the table.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.0.len().div_ceil(BLOCK)
    }

    /// Block `number` as it is sent to a switch, filled up with [`PortNum::NONE`].
    #[must_use]
    pub fn block(&self, number: usize) -> [PortNum; BLOCK] {
        let mut block = [PortNum::NONE; BLOCK];
        let entries = self.0.get(number.saturating_mul(BLOCK)..).unwrap_or(&[]);
        for (to, from) in block.iter_mut().zip(entries) {
            *to = *from;
        }
        block
    }
}

/// Properties that tables promise, for [`crate::verify`] to check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promises {
    /// No packet from a host goes up again after it went down, in the order of [`Tables::order`].
    pub up_down: bool,
    /// No path from a host is longer than the shortest in the graph.
    pub minimal: bool,
    /// There is no credit loop.
    pub deadlock_free: bool,
    /// Switches without hosts need to reach base LIDs only; every other switch reaches every LID.
    pub from_hosts_only: bool,
}

/// LIDs and forwarding tables of a fabric.
#[derive(Clone, Debug)]
pub struct Tables {
    /// The engine that computed them; never `auto`.
    pub engine: RoutingEngine,
    /// Why `auto` took that engine and no other.
    pub because: Option<String>,
    /// The LIDs of all ports.
    pub lids: Lids,
    /// The properties that the tables promise.
    pub promises: Promises,
    /// Labels of a fat tree, to be given back in [`crate::Options::labels`] when the fabric has
    /// changed.
    pub labels: Option<FatTreeLabels>,
    /// Warnings for the user.
    pub warnings: Vec<Warning>,
    /// Service levels and SL-to-VL tables, if the engine needs more than SL 0 on VL 0.
    pub vl_assignment: Option<VlAssignment>,
    pub(crate) lfts: Vec<Lft>,
    pub(crate) order: Option<Vec<u32>>,
    pub(crate) selection: Arc<dyn PathSelection>,
}

/// How a source picks one of a destination's LIDs.
pub(crate) trait PathSelection: fmt::Debug + Send + Sync {
    /// The offset from the destination's base LID, to be taken modulo its number of LIDs. Both
    /// ports are given by GUID.
    fn offset(&self, source: Guid, destination: Guid) -> u32;
}

/// The number of the source among all host ports.
#[derive(Debug)]
struct BySource(BTreeMap<Guid, u32>);

impl BySource {
    fn new(lids: &Lids) -> Self {
        let is_host =
            |range: &&LidRange| range.end.is_some_and(|end| end.port != PortNum::MANAGEMENT);
        let guids: BTreeSet<Guid> = lids
            .iter()
            .filter(is_host)
            .map(|range| range.guid)
            .collect();
        Self(guids.into_iter().zip(0..).collect())
    }
}

impl PathSelection for BySource {
    fn offset(&self, source: Guid, _: Guid) -> u32 {
        self.0.get(&source).copied().unwrap_or(0)
    }
}

impl Tables {
    /// The forwarding table of a switch; an empty one for a host.
    #[must_use]
    pub fn lft(&self, switch: NodeId) -> &Lft {
        static EMPTY: Lft = Lft(Vec::new());
        self.lfts.get(switch.index()).unwrap_or(&EMPTY)
    }

    /// Gives the further LIDs of switches (an enhanced port 0 with an LMC) the paths and service levels of the first: engines
    /// look at that only.
    pub(crate) fn complete_switches(&mut self, network: &Network) {
        let is_switch = |range: &&LidRange| {
            let port = range.end.map(|end| end.port);
            port == Some(PortNum::MANAGEMENT) && range.lmc.get() > 0
        };
        let several: Vec<LidRange> = self.lids.iter().filter(is_switch).cloned().collect();
        for range in several {
            for lid in range.lids().skip(1) {
                for &switch in network.switches() {
                    let row = &mut self.lfts[switch.index()];
                    row.set(lid, row.get(range.base));
                }
                if let Some(assignment) = &mut self.vl_assignment {
                    assignment.copy(range.base, lid);
                }
            }
        }
    }

    /// The same, to change it: for tests of what notices the change, or for tables of one's own.
    pub fn lft_mut(&mut self, switch: NodeId) -> Option<&mut Lft> {
        self.lfts.get_mut(switch.index())
    }

    /// Where a switch stands in the order by which cables lead up (to a smaller number) or down,
    /// if the engine has such an order.
    #[must_use]
    pub fn order(&self, switch: NodeId) -> Option<u32> {
        self.order.as_ref()?.get(switch.index()).copied()
    }

    /// The last LID in use: SwitchInfo's LinearFDBTop.
    #[must_use]
    pub fn top(&self) -> Lid {
        self.lids.top()
    }

    /// The LID by which a packet from one port, given by GUID, is to address another: the scheme's
    /// path selection.
    ///
    /// For `mlid` that is MLID04 section 4.2 in its capped form: the rank of the source in the
    /// group of hosts that share one digit more with it than the destination does, modulo the
    /// destination's number of LIDs. Other engines number all sources by GUID and take that number
    /// modulo the number of LIDs, so that neighbours use different paths. A switch as source or
    /// destination uses the base LID. `None` if the destination has no LID.
    #[must_use]
    pub fn dlid_for(&self, source: Guid, destination: Guid) -> Option<Lid> {
        let range = self.lids.of_guid(destination)?;
        Some(range.at_offset(self.selection.offset(source, destination)))
    }

    /// [`Self::dlid_for`] between two nodes, by their first ports that have LIDs.
    #[must_use]
    pub fn dlid_between(&self, source: NodeId, destination: NodeId) -> Option<Lid> {
        let from = self.lids.of_node(source)?;
        self.dlid_for(from.guid, self.lids.of_node(destination)?.guid)
    }

    /// The path of a packet from a port with a destination LID, hop by hop, as the tables say.
    #[must_use]
    pub fn path(&self, graph: &Graph, source: Endpoint, dlid: Lid) -> Path {
        let owner = self.lids.owner(dlid).and_then(|range| range.end);
        let mut hops: Vec<Hop> = Vec::new();
        let mut at = source;
        // A path that visits more nodes than there are has begun to repeat.
        for _ in 0..=graph.len() {
            let entry = if hops.is_empty() {
                PortNum::MANAGEMENT
            } else {
                at.port
            };
            let exit = match graph.node(at.node).kind {
                NodeKind::Switch => self.lft(at.node).get(dlid),
                NodeKind::Host if hops.is_empty() => source.port,
                NodeKind::Host => PortNum::MANAGEMENT,
            };
            hops.push(Hop {
                node: at.node,
                entry,
                exit,
            });
            if exit == PortNum::MANAGEMENT {
                let arrives = owner.is_some_and(|owner| match graph.node(at.node).kind {
                    NodeKind::Switch => owner.node == at.node,
                    NodeKind::Host => owner == at,
                });
                return Path { hops, arrives };
            }
            let out = Endpoint {
                node: at.node,
                port: exit,
            };
            let Some(peer) = graph.peer(out) else {
                break;
            };
            at = peer;
        }
        Path {
            hops,
            arrives: false,
        }
    }

    /// Tables of an engine for any fabric, from rows by switch.
    pub(crate) fn generic(
        engine: RoutingEngine,
        network: &Network,
        lids: Lids,
        rows: Vec<Lft>,
        promises: Promises,
    ) -> Self {
        let mut lfts = vec![Lft::default(); network.nodes()];
        for (node, row) in network.switches().iter().zip(rows) {
            lfts[node.index()] = row;
        }
        Self {
            engine,
            because: None,
            selection: Arc::new(BySource::new(&lids)),
            lids,
            promises,
            labels: None,
            vl_assignment: None,
            warnings: Vec::new(),
            lfts,
            order: None,
        }
    }

    /// Sets [`Self::order`]: switches of the network, each with its place.
    pub(crate) fn set_order(
        &mut self,
        network: &Network,
        places: impl IntoIterator<Item = (usize, u32)>,
    ) {
        let mut order = vec![u32::MAX; network.nodes()];
        for (switch, place) in places {
            order[network.switches()[switch].index()] = place;
        }
        self.order = Some(order);
    }
}

/// A node that a packet visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The node.
    pub node: NodeId,
    /// The port by which the packet comes in; 0 where it starts.
    pub entry: PortNum,
    /// The port by which it leaves; 0 where it ends.
    pub exit: PortNum,
}

/// The path of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The nodes from source to where it ended.
    pub hops: Vec<Hop>,
    /// Whether it ended at the owner of the LID.
    pub arrives: bool,
}
