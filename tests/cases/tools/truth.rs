//! What is true of a fabric, by other ways than the tools': the topology that was asked for, what
//! devices say on their control sockets, and the tables that are installed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use e2e::{Fabric, named, within};
use topologies::{Endpoint, Graph, Node, NodeId, NodeKind};
use wire::attr::{LinearForwardingTable, MulticastForwardingTable};
use wire::control::PortStatus;
use wire::{Lid, PortNum};

/// The subnet manager of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manager {
    /// Our controller.
    Ours,
    /// Stock OpenSM.
    OpenSm,
}

/// The counters of a port by name.
pub(crate) type Counters = BTreeMap<String, u64>;

/// Multicast packets that `here` sends to the group before any tool runs.
pub(crate) const COPIES: u64 = 25;
/// How long tables of a new group may take to be written.
const GROUP_TIMEOUT: Duration = Duration::from_secs(20);
/// The first multicast LID.
const MULTICAST_LID_FIRST: u16 = 0xc000;

/// A fabric as it is.
pub(crate) struct Truth<'a> {
    pub(crate) fabric: &'a Fabric,
    pub(crate) manager: Manager,
    pub(crate) graph: Graph,
    /// Where the subnet manager is.
    pub(crate) sm: NodeId,
    /// Where the tools run.
    pub(crate) here: NodeId,
    /// A host that is not beside the same switch.
    pub(crate) far: NodeId,
    /// A switch with a cable in port 1.
    pub(crate) switch: NodeId,
    /// Base LID and LMC by node.
    lids: Vec<(u16, u8)>,
    /// Linear forwarding tables by node, LID for LID; 255 drops. Empty for a host.
    linear: Vec<Vec<u8>>,
    /// Masks of ports by node and multicast LID, those without ports left out.
    multicast: Vec<BTreeMap<u16, u32>>,
    /// The multicast LID of the group that `here` and `far` are in.
    pub(crate) group_lid: u16,
}

impl<'a> Truth<'a> {
    /// Asks the devices of a fabric with this topology, where `sm` is the host of the manager. Lets
    /// hosts join a group.
    ///
    /// # Panics
    /// If one does not answer.
    #[track_caller]
    pub(crate) fn of(fabric: &'a Fabric, topology: &str, manager: Manager, sm: &str) -> Self {
        let graph = topologies::parse(topology).expect("a topology").graph;
        let hosts: Vec<NodeId> = graph.hosts().collect();
        let switch = graph.switches().next().expect("a switch");
        let (here, far) = (hosts[hosts.len() / 4], hosts[hosts.len() - 1]);
        let names = [here, far].map(|id| graph.node(id).name.clone());
        let joined = fabric
            .call(&["mcast", "join", &names[0], &names[1]])
            .success();
        let group_lid = joined
            .stdout
            .rsplit_once("multicast LID 0x")
            .and_then(|(_, digits)| u16::from_str_radix(digits.trim(), 16).ok())
            .unwrap_or_else(|| panic!("no multicast LID in {joined}"));
        let mut truth = Self {
            fabric,
            manager,
            sm: graph.find(sm).expect("the manager's host"),
            here,
            far,
            switch,
            lids: Vec::new(),
            linear: Vec::new(),
            multicast: Vec::new(),
            group_lid,
            graph,
        };
        truth.lids = truth
            .graph
            .ids()
            .map(|id| {
                let ports = truth.ports(id);
                (ports[0].lid, ports[0].lmc)
            })
            .collect();
        within(GROUP_TIMEOUT, "the group has its tables", || {
            truth.read_tables();
            match truth.leads_to_far() {
                true => Ok(()),
                false => Err(format!("{:?}", truth.multicast)),
            }
        });
        let copies = COPIES.to_string();
        let send = ["mcast", "send", &names[0], "--count", &copies];
        let _ = fabric.call(&send).success();
        let far = Endpoint {
            node: truth.far,
            port: PortNum::new(1),
        };
        within(GROUP_TIMEOUT, "every copy comes", || {
            match truth.counters(far)["PortMultiCastRcvPkts"] {
                COPIES => Ok(()),
                counted => Err(counted.to_string()),
            }
        });
        truth
    }

    /// Whether the group's tables lead from `here` to `far`.
    fn leads_to_far(&self) -> bool {
        let mut seen = BTreeSet::from([self.here]);
        let mut rim = vec![self.here];
        while let Some(at) = rim.pop() {
            let mask = match self.node(at).kind {
                NodeKind::Host => u32::MAX,
                NodeKind::Switch => self.multicast[at.index()]
                    .get(&self.group_lid)
                    .copied()
                    .unwrap_or(0),
            };
            let cables = self.graph.cables(at);
            let out = cables.filter(|(port, _)| mask & 1 << port.get() != 0);
            rim.extend(out.map(|(_, end)| end.node).filter(|id| seen.insert(*id)));
        }
        seen.contains(&self.far)
    }

    fn read_tables(&mut self) {
        self.linear.clear();
        self.multicast.clear();
        let mut smps = self.fabric.smps(&self.name(self.here));
        let last = self.graph.ids().map(|id| *self.lid_range(id).end()).max();
        let blocks = last.unwrap_or(0) / 64 + 1;
        for id in self.graph.ids() {
            let (mut linear, mut multicast) = (Vec::new(), BTreeMap::new());
            if self.node(id).kind == NodeKind::Switch {
                let lid = Lid::new(self.lid(id));
                for block in 0..blocks {
                    let table: LinearForwardingTable = smps.get(lid, block.into());
                    linear.extend(table.0.map(PortNum::get));
                }
                for position in 0..=self.node(id).ports / 16 {
                    let modifier = MulticastForwardingTable::modifier(position, 0);
                    let table: MulticastForwardingTable = smps.get(lid, modifier);
                    for (lid, mask) in (MULTICAST_LID_FIRST..).zip(table.0) {
                        if mask != 0 {
                            let all = multicast.entry(lid).or_insert(0);
                            *all |= u32::from(mask) << (16 * u32::from(position));
                        }
                    }
                }
            }
            self.linear.push(linear);
            self.multicast.push(multicast);
        }
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        self.graph.node(id)
    }

    pub(crate) fn name(&self, id: NodeId) -> String {
        self.node(id).name.clone()
    }

    pub(crate) fn guid(&self, id: NodeId) -> u64 {
        self.node(id).guid.0
    }

    /// The GUID of the port that has the node's LID.
    pub(crate) fn port_guid(&self, id: NodeId) -> u64 {
        self.node(id).port_guid(PortNum::new(1)).0
    }

    /// The base LID.
    pub(crate) fn lid(&self, id: NodeId) -> u16 {
        self.lids[id.index()].0
    }

    pub(crate) fn lmc(&self, id: NodeId) -> u8 {
        self.lids[id.index()].1
    }

    pub(crate) fn lid_range(&self, id: NodeId) -> std::ops::RangeInclusive<u16> {
        let (lid, lmc) = self.lids[id.index()];
        lid..=lid + (1 << lmc) - 1
    }

    /// The node that a LID belongs to.
    pub(crate) fn owner(&self, lid: u16) -> Option<NodeId> {
        self.graph
            .ids()
            .find(|&id| self.lid_range(id).contains(&lid))
    }

    /// The ports of a device as it tells them now.
    pub(crate) fn ports(&self, id: NodeId) -> Vec<PortStatus> {
        match self.node(id).kind {
            NodeKind::Switch => self.fabric.switch_ports(&self.node(id).name),
            NodeKind::Host => self.fabric.host_ports(&self.node(id).name),
        }
    }

    /// The counters of a port now.
    pub(crate) fn counters(&self, end: Endpoint) -> Counters {
        let ports = self.ports(end.node);
        let port = ports.iter().find(|status| status.port == end.port);
        named(port.expect("a port"))
    }

    /// The other end of a node's cable.
    pub(crate) fn peer(&self, node: NodeId, port: u8) -> Option<Endpoint> {
        let port = PortNum::new(port);
        self.graph.peer(Endpoint { node, port })
    }

    /// The installed entries of a switch that lead somewhere: the port by LID.
    pub(crate) fn linear(&self, switch: NodeId) -> BTreeMap<u16, u8> {
        let entries = (0..).zip(&self.linear[switch.index()]);
        entries
            .filter(|&(_, &port)| port != PortNum::NONE.get())
            .map(|(lid, &port)| (lid, port))
            .collect()
    }

    /// The ports of a switch by multicast LID.
    pub(crate) fn multicast(&self, switch: NodeId) -> &BTreeMap<u16, u32> {
        &self.multicast[switch.index()]
    }

    /// The way that packets take from one host to a LID by the installed tables: at each step the port
    /// out, and where that leads.
    pub(crate) fn path(&self, from: NodeId, lid: u16) -> Vec<(u8, Endpoint)> {
        let mut hops = Vec::new();
        let (mut at, mut out) = (from, 1);
        while hops.len() <= self.graph.len() {
            let Some(end) = self.peer(at, out) else {
                break;
            };
            hops.push((out, end));
            if self.lid_range(end.node).contains(&lid) {
                break;
            }
            at = end.node;
            out = self.linear[at.index()][usize::from(lid)];
        }
        hops
    }

    /// The ends of all cables, each as (node, port, node behind it, its port).
    pub(crate) fn cable_ends(&self) -> BTreeSet<(NodeId, u8, NodeId, u8)> {
        let both = |(a, b): (Endpoint, Endpoint)| [(a, b), (b, a)];
        let ends = self.graph.links().flat_map(both);
        ends.map(|(a, b)| (a.node, a.port.get(), b.node, b.port.get()))
            .collect()
    }

    /// The same as `ibnetdiscover -p` names ends: `LID port port-GUID - LID port port-GUID`.
    pub(crate) fn cable_ends_by_lid(&self) -> BTreeSet<String> {
        let end = |node, port| format!("{} {port} {:#018x}", self.lid(node), self.port_guid(node));
        let ends = self.cable_ends().into_iter();
        ends.map(|(a, p, b, q)| format!("{} - {}", end(a, p), end(b, q)))
            .collect()
    }

    /// How many cables the farthest node is away.
    pub(crate) fn eccentricity(&self, from: NodeId) -> usize {
        let mut seen = BTreeSet::from([from]);
        let mut rim = vec![from];
        for hops in 0.. {
            let behind = rim.iter().flat_map(|&id| self.graph.cables(id));
            let new: BTreeSet<NodeId> = behind
                .map(|(_, end)| end.node)
                .filter(|id| !seen.contains(id))
                .collect();
            if new.is_empty() {
                return hops;
            }
            seen.extend(&new);
            rim = new.into_iter().collect();
        }
        unreachable!("a graph ends")
    }

    /// Node GUIDs of one kind.
    pub(crate) fn guids(&self, kind: NodeKind) -> BTreeSet<u64> {
        let ids = self.graph.ids();
        ids.filter(|&id| self.node(id).kind == kind)
            .map(|id| self.guid(id))
            .collect()
    }

    /// The line with each `{word}` replaced.
    ///
    /// # Panics
    /// If a word is unknown.
    pub(crate) fn fill(&self, line: &str) -> String {
        let mut filled = String::new();
        let mut rest = line;
        while let Some((before, behind)) = rest.split_once('{') {
            let (word, after) = behind.split_once('}').expect("a closing brace");
            filled.push_str(before);
            filled.push_str(&self.word(word));
            rest = after;
        }
        filled + rest
    }

    /// What a word in braces stands for: `node` its LID, `node.name`, `node.guid`, `node.port-guid`,
    /// `node.gid` what they say; `mlid` the multicast LID of the group.
    fn word(&self, word: &str) -> String {
        let (node, what) = word.split_once('.').unwrap_or((word, "lid"));
        let id = match node {
            "mlid" => return format!("{:#x}", self.group_lid),
            "here" => self.here,
            "far" => self.far,
            "switch" => self.switch,
            "sm" => self.sm,
            _ => panic!("{{{word}}} stands for nothing"),
        };
        match what {
            "lid" => self.lid(id).to_string(),
            "name" => self.name(id),
            "guid" => format!("{:#018x}", self.guid(id)),
            "port-guid" => format!("{:#018x}", self.port_guid(id)),
            "gid" => self.gid(id),
            _ => panic!("{{{word}}} stands for nothing"),
        }
    }

    /// The GID of the port that has the node's LID, as an IPv6 address.
    pub(crate) fn gid(&self, id: NodeId) -> String {
        let bits = 0xfe80_u128 << 112 | u128::from(self.port_guid(id));
        std::net::Ipv6Addr::from(bits).to_string()
    }

    /// The node with this GUID.
    pub(crate) fn by_guid(&self, guid: u64) -> Option<NodeId> {
        self.graph.find_guid(wire::Guid(guid))
    }
}
