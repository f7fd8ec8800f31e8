//! A verdict on tables, from the graph and the entries alone: nothing here knows how they were
//! computed.
//!
//! For each LID the entries of all switches make a function from switch to next switch. It is
//! walked once: every switch ends at the owner, or at a dropped packet, a dead port, a wrong
//! place, or in a loop. The same walk gives hops, turns, and what waits for what.
//!
//! Cost: switches x LIDs, and one search of the graph for each switch with hosts.

use core::fmt;

mod describe;
mod lanes;

use topologies::{Endpoint, Graph, NodeId, NodeKind};
use wire::{Lid, PortNum, Vl};

use crate::channels::Channels;
use crate::lids::LidRange;
use crate::minhop::distances;
use crate::net::{NOWHERE, Net};
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
    /// The virtual lane. Tables without [`Tables::lanes`] use lane 0 only.
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
        /// What becomes of them.
        trouble: Trouble,
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
    /// Channels that wait for each other in a circle.
    Deadlock(Vec<Channel>),
}

/// Why a packet does not arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A switch has no port for the LID.
    NoEntry(NodeId),
    /// The port for the LID has no cable.
    DeadPort(NodeId, PortNum),
    /// It comes to a host or management port that does not own the LID.
    WrongPlace(NodeId),
    /// It goes round these switches.
    Loop(Vec<NodeId>),
}

/// What [`verify`] found.
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
    /// Channels that wait for each other in a circle, if any do, promised or not.
    pub cycle: Option<Vec<Channel>>,
    /// Broken promises and unreachable LIDs in all.
    pub problem_count: u64,
    /// The first [`PROBLEMS_SHOWN`] of them.
    pub problems: Vec<Problem>,
}

impl Report {
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
/// Minimality and up*/down* are about packets between hosts. The latter needs
/// [`Tables::order`]; tables that promise it without having an order break it everywhere. Where
/// tables have lanes, only packets between hosts count for circles, each with its service level.
#[must_use]
pub fn verify(graph: &Graph, tables: &Tables, promises: Promises) -> Report {
    let net = Net::new(graph);
    let mut checker = Checker::new(&net, tables, promises);
    checker.nameless();
    for range in tables.lids.iter() {
        checker.port(range);
    }
    checker.deadlock();
    checker.report
}

/// What a switch does with a packet.
#[derive(Clone, Copy, PartialEq)]
enum Step {
    To(u32),
    Arrived,
    NoEntry,
    DeadPort,
    WrongPlace,
}

/// What is behind a port.
#[derive(Clone, Copy)]
enum Behind {
    Nothing,
    Switch(u32),
    Host(Endpoint),
}

struct Checker<'a, 'g> {
    net: &'a Net<'g>,
    tables: &'a Tables,
    promises: Promises,
    /// By switch and port.
    behind: Vec<Vec<Behind>>,
    /// By switch; 0 everywhere if the tables have no order.
    order: Vec<u32>,
    channels: Channels,
    report: Report,
    /// By switch, for the LID at hand.
    steps: Vec<Step>,
    walked: Vec<Walked>,
    /// Shortest distances to the switch named first.
    shortest: (u32, Vec<u32>),
}

#[derive(Clone, Copy, PartialEq)]
enum Walked {
    No,
    OnPath,
    Arrives(u32),
    Fails,
}

impl<'a, 'g> Checker<'a, 'g> {
    fn new(net: &'a Net<'g>, tables: &'a Tables, promises: Promises) -> Self {
        let graph = net.graph;
        let behind = net
            .switches
            .iter()
            .map(|&node| {
                let mut ports = vec![Behind::Nothing; usize::from(graph.node(node).ports) + 1];
                for (port, peer) in graph.cables(node) {
                    ports[port.index()] = match graph.node(peer.node).kind {
                        NodeKind::Switch => Behind::Switch(net.place(peer.node)),
                        NodeKind::Host => Behind::Host(peer),
                    };
                }
                ports
            })
            .collect();
        let order = net
            .switches
            .iter()
            .map(|&node| tables.order(node).unwrap_or(0))
            .collect();
        Self {
            net,
            tables,
            promises,
            behind,
            order,
            channels: Channels::new(net),
            report: Report::default(),
            steps: vec![Step::NoEntry; net.switches.len()],
            walked: vec![Walked::No; net.switches.len()],
            shortest: (NOWHERE, Vec::new()),
        }
    }

    /// Switches and hosts' connected ports that have no LID at all.
    fn nameless(&mut self) {
        let management = PortNum::MANAGEMENT;
        let switches = self.net.switches.iter().map(|&node| Endpoint {
            node,
            port: management,
        });
        let hosts = self.net.ends.iter().filter(|host| host.switch != NOWHERE);
        for end in switches.chain(hosts.map(|host| host.end)) {
            if self.tables.lids.of(end).is_none() {
                self.report.add(|| Problem::NoLid(end));
            }
        }
    }

    fn port(&mut self, range: &LidRange) {
        let Some(owner) = range.end else { return };
        let own = self.net.place(owner.node);
        let is_host = own == NOWHERE;
        let switch = if is_host {
            self.net
                .graph
                .peer(owner)
                .map_or(NOWHERE, |peer| self.net.place(peer.node))
        } else {
            own
        };
        if switch == NOWHERE {
            return;
        }
        if is_host && self.shortest.0 != switch {
            self.shortest = (switch, distances(self.net, switch));
        }
        for lid in range.lids() {
            self.steps(lid, owner);
            self.walk(lid, switch, is_host, range.base);
            self.waits(lid);
            if is_host && self.promises.up_down {
                self.turns(lid);
            }
        }
    }

    fn steps(&mut self, lid: Lid, owner: Endpoint) {
        for (switch, &node) in self.net.switches.iter().enumerate() {
            let port = self.tables.lft(node).get(lid);
            self.steps[switch] = if port == PortNum::NONE {
                Step::NoEntry
            } else if port == PortNum::MANAGEMENT {
                if owner.node == node {
                    Step::Arrived
                } else {
                    Step::WrongPlace
                }
            } else {
                match self.behind[switch].get(port.index()) {
                    None | Some(Behind::Nothing) => Step::DeadPort,
                    Some(Behind::Switch(next)) => Step::To(*next),
                    Some(Behind::Host(end)) if *end == owner => Step::Arrived,
                    Some(Behind::Host(_)) => Step::WrongPlace,
                }
            };
        }
    }

    /// Finds out for every switch whether packets arrive, and over how many hops.
    fn walk(&mut self, lid: Lid, destination: u32, is_host: bool, base: Lid) {
        self.walked.fill(Walked::No);
        let part = self.net.part[destination as usize];
        let mut path: Vec<u32> = Vec::new();
        for from in 0..self.net.len() {
            if self.net.part[from as usize] != part {
                continue;
            }
            let mut end = self.follow(from, &mut path);
            for &switch in path.iter().rev() {
                if let Walked::Arrives(hops) = &mut end {
                    *hops += 1;
                }
                self.walked[switch as usize] = end;
            }
            path.clear();
            let may_fail =
                self.promises.from_hosts_only && lid != base && self.net.hosts[from as usize] == 0;
            if !may_fail {
                self.judge(from, lid, is_host);
            }
        }
    }

    /// Walks on until it is known what becomes of the packet; `path` is what was walked. Hops are
    /// those from the last switch of the path, plus one.
    fn follow(&mut self, from: u32, path: &mut Vec<u32>) -> Walked {
        let mut at = from;
        loop {
            match self.walked[at as usize] {
                Walked::No => {}
                Walked::OnPath => return Walked::Fails,
                known => return known,
            }
            self.walked[at as usize] = Walked::OnPath;
            path.push(at);
            match self.steps[at as usize] {
                Step::To(next) => at = next,
                Step::Arrived => {
                    path.pop();
                    self.walked[at as usize] = Walked::Arrives(0);
                    return Walked::Arrives(0);
                }
                Step::NoEntry | Step::DeadPort | Step::WrongPlace => return Walked::Fails,
            }
        }
    }

    fn judge(&mut self, from: u32, lid: Lid, is_host: bool) {
        self.report.pairs += 1;
        let between_hosts = is_host && self.net.hosts[from as usize] > 0;
        let node = self.net.switches[from as usize];
        let Walked::Arrives(hops) = self.walked[from as usize] else {
            if between_hosts {
                self.report.hosts_unreachable += 1;
            } else {
                self.report.switches_unreachable += 1;
            }
            let trouble = self.trouble(from, lid);
            self.report.loops += u64::from(matches!(trouble, Trouble::Loop(_)));
            self.report.add(|| Problem::Unreachable {
                from: node,
                lid,
                trouble,
            });
            return;
        };
        self.report.hops_max = self.report.hops_max.max(hops);
        let shortest = self.shortest.1.get(from as usize).copied();
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
    fn trouble(&self, from: u32, lid: Lid) -> Trouble {
        let node = |switch: u32| self.net.switches[switch as usize];
        let mut path = vec![from];
        let mut at = from;
        loop {
            match self.steps[at as usize] {
                Step::To(next) => {
                    if let Some(first) = path.iter().position(|&switch| switch == next) {
                        return Trouble::Loop(path[first..].iter().map(|&s| node(s)).collect());
                    }
                    path.push(next);
                    at = next;
                }
                Step::NoEntry => return Trouble::NoEntry(node(at)),
                Step::DeadPort => {
                    let port = self.tables.lft(node(at)).get(lid);
                    return Trouble::DeadPort(node(at), port);
                }
                Step::Arrived | Step::WrongPlace => return Trouble::WrongPlace(node(at)),
            }
        }
    }

    /// Turns upwards after going down, on paths from hosts.
    fn turns(&mut self, lid: Lid) {
        let mut seen = vec![false; self.net.switches.len()];
        for from in 0..self.net.len() {
            if self.net.hosts[from as usize] == 0 {
                continue;
            }
            let mut at = from;
            while !core::mem::replace(&mut seen[at as usize], true) {
                let Step::To(next) = self.steps[at as usize] else {
                    break;
                };
                if let Step::To(after) = self.steps[next as usize] {
                    let order = |switch: u32| self.order[switch as usize];
                    if order(at) <= order(next) && order(next) >= order(after) {
                        let at = self.net.switches[next as usize];
                        self.report.add(|| Problem::UpAfterDown { at, lid });
                    }
                }
                at = next;
            }
        }
    }

    fn waits(&mut self, lid: Lid) {
        for (switch, &node) in (0..).zip(&self.net.switches) {
            let Step::To(next) = self.steps[switch as usize] else {
                continue;
            };
            if !matches!(self.steps[next as usize], Step::To(_)) {
                continue;
            }
            let here = self.channels.at(switch, self.tables.lft(node).get(lid));
            let next_node = self.net.switches[next as usize];
            let onward = self.channels.at(next, self.tables.lft(next_node).get(lid));
            if let (Some(here), Some(onward)) = (here, onward) {
                self.channels.wait(here, onward);
            }
        }
    }

    fn deadlock(&mut self) {
        let found = match &self.tables.lanes {
            Some(lanes) => lanes::cycle(self.net, self.tables, lanes),
            None => self.cycle(),
        };
        let Some(cycle) = found else { return };
        if self.promises.deadlock_free {
            self.report.add(|| Problem::Deadlock(cycle.clone()));
        }
        self.report.cycle = Some(cycle);
    }

    /// A circle where every packet is on lane 0.
    fn cycle(&self) -> Option<Vec<Channel>> {
        let channels = self.channels.cycle()?.into_iter();
        let named = channels.map(|channel| {
            let ends = self.channels.ends(channel);
            Channel {
                switch: self.net.switches[ends.from as usize],
                port: ends.port,
                vl: Vl::default(),
            }
        });
        Some(named.collect())
    }
}
