//! A verdict on tables, from the graph and the entries alone, whatever engine computed them.
//!
//! For each LID the entries of all switches make a function from switch to next switch. It is
//! walked once: every switch ends at the owner, or at a dropped packet, a dead port, a port that
//! does not own the LID, or in a loop. The same walk gives hops and turns. Credit loops have a walk of
//! their own, packet by packet with its service level ([`credit_loops`]).
//!
//! Cost: switches x LIDs, and one search of the graph for each switch with hosts.

use core::fmt;

mod credit_loops;
mod describe;

use topologies::{Endpoint, Graph, NodeId};
use wire::{Lid, PortNum, Vl};

use crate::lids::LidRange;
use crate::network::Network;
use crate::tables::{Promises, Tables};

/// How many problems a report describes; all are counted.
pub const PROBLEMS_SHOWN: usize = 20;

/// One direction of a cable, on one virtual lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// The switch that sends.
    pub switch: NodeId,
    /// Its port.
    pub port: PortNum,
    /// The virtual lane. Tables without [`Tables::vl_assignment`] use VL 0 only.
    pub vl: Vl,
}

/// Something that tables should not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Packets for a LID that cables could bring to its owner do not arrive.
    Unreachable {
        /// Where they start, or pass.
        from: NodeId,
        /// The LID.
        lid: Lid,
        /// Why they do not arrive.
        failure: DeliveryFailure,
    },
    /// A path between hosts that is longer than promised.
    NotMinimal {
        /// The switch of the source.
        from: NodeId,
        /// The LID.
        lid: Lid,
        /// Switches passed after the first.
        hops: u32,
        /// The least possible.
        shortest: u32,
    },
    /// A path between hosts that goes up after it went down.
    UpAfterDown {
        /// Where it turns.
        at: NodeId,
        /// The LID.
        lid: Lid,
    },
    /// A connected port without a LID, or a switch.
    NoLid(Endpoint),
    /// A credit loop: channels that depend on each other in a cycle.
    Deadlock(Vec<Channel>),
}

/// Why a packet does not arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryFailure {
    /// A switch has no port for the LID.
    NoEntry(NodeId),
    /// The port for the LID has no cable.
    DeadPort(NodeId, PortNum),
    /// It comes to a host or management port that does not own the LID.
    NotOwner(NodeId),
    /// It goes round these switches.
    Loop(Vec<NodeId>),
}

/// The result of [`verify`].
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// (switch, LID) pairs that cables join, and whose paths were followed.
    pub pairs: u64,
    /// How many of them fail where the switch has hosts and the LID is a host's.
    pub hosts_unreachable: u64,
    /// How many others fail: switches' own packets, and packets to switches.
    pub switches_unreachable: u64,
    /// How many of both fail because the packet goes round in a loop.
    pub loops: u64,
    /// Switches passed after the first, on the longest path.
    pub hops_max: u32,
    /// (switch with hosts, host LID) pairs whose path is longer than the shortest, promised or not.
    pub not_minimal: u64,
    /// A credit loop of packets between hosts, if there is one, promised or not: from every host to
    /// every LID of every other, on the VLs of [`Tables::vl_assignment`] or else on VL 0.
    pub cycle: Option<Vec<Channel>>,
    /// A credit loop of those packets together with the answers to them, which take the service level of
    /// what they answer; `None` also where [`Self::cycle`] is one already, and where all packets have one
    /// service level. It is no problem by itself: our engines avoid it, those of others
    /// may not.
    pub answer_cycle: Option<Vec<Channel>>,
    /// A credit loop of packets between hosts together with packets from and to port 0 of switches (general
    /// management); `None` also where [`Self::cycle`] is one already. It is no problem by itself: engines
    /// that use service levels give them to hosts only.
    pub switch_cycle: Option<Vec<Channel>>,
    /// Broken promises and unreachable LIDs in all.
    pub problem_count: u64,
    /// The first [`PROBLEMS_SHOWN`] of them.
    pub problems: Vec<Problem>,
}

/// Packets among which there is a credit loop, in the order in which they are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopOf {
    /// Those between hosts ([`Report::cycle`]).
    Hosts,
    /// Those and answers to them ([`Report::answer_cycle`]).
    Answers,
    /// Those between hosts, and those from and to switches' own ports ([`Report::switch_cycle`]).
    Switches,
}

impl fmt::Display for LoopOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hosts => "packets between hosts",
            Self::Answers => "packets between hosts and answers on their service level",
            Self::Switches => "packets between hosts and of switches' port 0",
        })
    }
}

impl Report {
    /// The credit loops that there are, the gravest first: what "free of deadlock" means wherever tables
    /// are chosen, repaired or taken from a file.
    pub fn credit_loops(&self) -> impl Iterator<Item = (LoopOf, &[Channel])> {
        let all = [
            (LoopOf::Hosts, &self.cycle),
            (LoopOf::Answers, &self.answer_cycle),
            (LoopOf::Switches, &self.switch_cycle),
        ];
        all.into_iter()
            .filter_map(|(packets, cycle)| Some((packets, cycle.as_deref()?)))
    }

    /// Whether there is no problem.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.problem_count == 0
    }

    fn add(&mut self, problem: impl FnOnce() -> Problem) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_SHOWN {
            self.problems.push(problem());
        }
    }

    /// One of its problems in words.
    #[must_use]
    pub fn describe_problem(&self, graph: &Graph, problem: &Problem) -> String {
        describe::Described {
            report: self,
            graph,
        }
        .problem(problem)
    }

    /// The channels of a credit loop in words.
    #[must_use]
    pub fn describe_cycle(&self, graph: &Graph, cycle: &[Channel]) -> String {
        describe::Described {
            report: self,
            graph,
        }
        .channels(cycle)
    }

    /// The report in words, a line for each problem shown.
    #[must_use]
    pub fn describe<'a>(&'a self, graph: &'a Graph) -> impl fmt::Display + 'a {
        describe::Described {
            report: self,
            graph,
        }
    }
}

/// Follows every LID from every switch, and holds the paths against the promises. LIDs whose
/// owner is missing, or not connected to a switch, are not asked for, nor are switches that no
/// cables join to the owner.
///
/// Minimality, up*/down* and freedom from deadlock are about packets between hosts. Up*/down* needs
/// [`Tables::order`]; tables that promise it without having an order break it everywhere. Packets from and
/// to switches themselves are judged apart ([`Report::switch_cycle`]).
#[must_use]
pub fn verify(graph: &Graph, tables: &Tables, promises: Promises) -> Report {
    let network = Network::new(graph);
    let mut checker = Checker::new(graph, &network, tables, promises);
    checker.ports_without_lid();
    for range in tables.lids.iter() {
        checker.port(range);
    }
    checker.credit_loops();
    checker.report
}

/// The next step of a packet at a switch.
#[derive(Clone, Copy, PartialEq)]
enum Step {
    To(usize),
    Arrived,
    NoEntry,
    DeadPort,
    NotOwner,
}

/// The node behind a port, if there is one.
#[derive(Clone, Copy)]
enum Behind {
    Nothing,
    Switch(usize),
    Host(Endpoint),
}

struct Checker<'a> {
    network: &'a Network,
    tables: &'a Tables,
    promises: Promises,
    /// By switch and port: what its cable leads to.
    behind: Vec<Vec<Behind>>,
    /// By switch; 0 everywhere if the tables have no order.
    order: Vec<u32>,
    report: Report,
    /// By switch, for the LID at hand.
    steps: Vec<Step>,
    walked: Vec<Walked>,
    /// Shortest distances to the switch named first.
    shortest: Option<(usize, Vec<Option<u32>>)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Walked {
    No,
    OnPath,
    Arrives(u32),
    Fails,
}

impl<'a> Checker<'a> {
    fn new(graph: &Graph, network: &'a Network, tables: &'a Tables, promises: Promises) -> Self {
        let behind = network
            .switches()
            .iter()
            .map(|&node| {
                let mut ports = vec![Behind::Nothing; usize::from(graph.node(node).ports) + 1];
                for (port, peer) in graph.cables(node) {
                    ports[port.index()] = match network.switch(peer.node) {
                        Some(switch) => Behind::Switch(switch),
                        None => Behind::Host(peer),
                    };
                }
                ports
            })
            .collect();
        let order = network
            .switches()
            .iter()
            .map(|&node| tables.order(node).unwrap_or(0))
            .collect();
        Self {
            network,
            tables,
            promises,
            behind,
            order,
            report: Report::default(),
            steps: vec![Step::NoEntry; network.switches().len()],
            walked: vec![Walked::No; network.switches().len()],
            shortest: None,
        }
    }

    /// Switches and hosts' connected ports that have no LID at all.
    fn ports_without_lid(&mut self) {
        let management = PortNum::MANAGEMENT;
        let switches = self.network.switches().iter().map(|&node| Endpoint {
            node,
            port: management,
        });
        let hosts = self.network.hosts().iter().map(|host| host.end);
        for end in switches.chain(hosts) {
            if self.tables.lids.of(end).is_none() {
                self.report.add(|| Problem::NoLid(end));
            }
        }
    }

    fn port(&mut self, range: &LidRange) {
        let Some(owner) = range.end else { return };
        let Some((switch, _)) = self.network.last_hop(owner) else {
            return;
        };
        let is_host = self.network.switch(owner.node).is_none();
        let known = self.shortest.as_ref().map(|&(target, _)| target);
        if is_host && known != Some(switch) {
            self.shortest = Some((switch, self.network.hops_to(switch)));
        }
        for lid in range.lids() {
            self.steps(lid, owner);
            self.walk(lid, switch, is_host, range.base);
            if is_host && self.promises.up_down {
                self.turns(lid);
            }
        }
    }

    fn steps(&mut self, lid: Lid, owner: Endpoint) {
        for (switch, &node) in self.network.switches().iter().enumerate() {
            let port = self.tables.lft(node).get(lid);
            self.steps[switch] = if port == PortNum::NONE {
                Step::NoEntry
            } else if port == PortNum::MANAGEMENT {
                if owner.node == node {
                    Step::Arrived
                } else {
                    Step::NotOwner
                }
            } else {
                match self.behind[switch].get(port.index()) {
                    None | Some(Behind::Nothing) => Step::DeadPort,
                    Some(Behind::Switch(next)) => Step::To(*next),
                    Some(Behind::Host(end)) if *end == owner => Step::Arrived,
                    Some(Behind::Host(_)) => Step::NotOwner,
                }
            };
        }
    }

    /// Finds out for every switch whether packets arrive, and over how many hops.
    fn walk(&mut self, lid: Lid, destination: usize, is_host: bool, base: Lid) {
        self.walked.fill(Walked::No);
        let component = self.network.component(destination);
        let mut path: Vec<usize> = Vec::new();
        for from in 0..self.steps.len() {
            if self.network.component(from) != component {
                continue;
            }
            let mut end = self.follow(from, &mut path);
            for &switch in path.iter().rev() {
                if let Walked::Arrives(hops) = &mut end {
                    *hops += 1;
                }
                self.walked[switch] = end;
            }
            path.clear();
            let may_fail =
                self.promises.from_hosts_only && lid != base && !self.network.has_hosts(from);
            if !may_fail {
                self.count(from, lid, is_host);
            }
        }
    }

    /// Walks on until it is known what becomes of the packet; `path` is what was walked. Hops are
    /// those from the last switch of the path, plus one.
    fn follow(&mut self, from: usize, path: &mut Vec<usize>) -> Walked {
        let mut at = from;
        loop {
            match self.walked[at] {
                Walked::No => {}
                Walked::OnPath => return Walked::Fails,
                known => return known,
            }
            self.walked[at] = Walked::OnPath;
            path.push(at);
            match self.steps[at] {
                Step::To(next) => at = next,
                Step::Arrived => {
                    path.pop();
                    self.walked[at] = Walked::Arrives(0);
                    return Walked::Arrives(0);
                }
                Step::NoEntry | Step::DeadPort | Step::NotOwner => return Walked::Fails,
            }
        }
    }

    fn count(&mut self, from: usize, lid: Lid, is_host: bool) {
        self.report.pairs += 1;
        let between_hosts = is_host && self.network.has_hosts(from);
        let node = self.network.switches()[from];
        let Walked::Arrives(hops) = self.walked[from] else {
            if between_hosts {
                self.report.hosts_unreachable += 1;
            } else {
                self.report.switches_unreachable += 1;
            }
            let failure = self.failure(from, lid);
            self.report.loops += u64::from(matches!(failure, DeliveryFailure::Loop(_)));
            self.report.add(|| Problem::Unreachable {
                from: node,
                lid,
                failure,
            });
            return;
        };
        self.report.hops_max = self.report.hops_max.max(hops);
        let shortest = self.shortest.as_ref().and_then(|(_, hops)| hops[from]);
        if let Some(shortest) = shortest.filter(|&shortest| between_hosts && hops != shortest) {
            self.report.not_minimal += 1;
            if self.promises.minimal {
                self.report.add(|| Problem::NotMinimal {
                    from: node,
                    lid,
                    hops,
                    shortest,
                });
            }
        }
    }

    /// Follows a packet that does not arrive.
    fn failure(&self, from: usize, lid: Lid) -> DeliveryFailure {
        let node = |switch: usize| self.network.switches()[switch];
        let mut path = vec![from];
        let mut at = from;
        loop {
            match self.steps[at] {
                Step::To(next) => {
                    if let Some(first) = path.iter().position(|&switch| switch == next) {
                        let nodes = path[first..].iter().map(|&switch| node(switch));
                        return DeliveryFailure::Loop(nodes.collect());
                    }
                    path.push(next);
                    at = next;
                }
                Step::NoEntry => return DeliveryFailure::NoEntry(node(at)),
                Step::DeadPort => {
                    let port = self.tables.lft(node(at)).get(lid);
                    return DeliveryFailure::DeadPort(node(at), port);
                }
                Step::Arrived | Step::NotOwner => return DeliveryFailure::NotOwner(node(at)),
            }
        }
    }

    /// Turns upwards after going down, on paths from hosts.
    fn turns(&mut self, lid: Lid) {
        let mut seen = vec![false; self.steps.len()];
        for from in 0..self.steps.len() {
            if !self.network.has_hosts(from) {
                continue;
            }
            let mut at = from;
            while !core::mem::replace(&mut seen[at], true) {
                let Step::To(next) = self.steps[at] else {
                    break;
                };
                if let Step::To(after) = self.steps[next] {
                    let order = |switch: usize| self.order[switch];
                    if order(at) <= order(next) && order(next) >= order(after) {
                        let at = self.network.switches()[next];
                        self.report.add(|| Problem::UpAfterDown { at, lid });
                    }
                }
                at = next;
            }
        }
    }

    fn credit_loops(&mut self) {
        let found = credit_loops::credit_loops(self.network, self.tables);
        self.report.switch_cycle = found.switches;
        self.report.answer_cycle = found.answers;
        let Some(cycle) = found.hosts else { return };
        if self.promises.deadlock_free {
            self.report.add(|| Problem::Deadlock(cycle.clone()));
        }
        self.report.cycle = Some(cycle);
    }
}
