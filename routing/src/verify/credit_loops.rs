//! Credit loops: the channel dependency graph of the packets that travel on data VLs.
//!
//! Each packet is followed from its source with its service level: a node of the graph is one VL of
//! one direction of a cable, and what a packet holds depends on what it needs next. Tables without a
//! [`VlAssignment`] send everything on VL 0; with a second level of service each packet is followed on both. There is one definition for all tables, judged twice:
//!
//! | packets | judged as |
//! |---|---|
//! | from every host's port to every LID of every other host | [`Report::cycle`](super::Report::cycle) |
//! | those, and answers to them: from every LID asked to every LID of the hosts at the asker's switch, with the SL of what is answered (IBA 13.5.4) | [`Report::answer_cycle`](super::Report::answer_cycle) |
//! | packets between hosts, and all from and to port 0 of switches (general management; their SL is that of the tables, or 0) | [`Report::switch_cycle`](super::Report::switch_cycle) |
//!
//! Subnet management is left out: VL15 has no credits.

use topologies::{Endpoint, NodeId};
use wire::convert::saturate;
use wire::{Lid, PortNum, Sl, Vl};

use super::Channel;
use crate::dependencies::find_cycle;
use crate::network::Network;
use crate::tables::Tables;
use crate::vl_assignment::VlAssignment;

/// VLs of a channel, data and management.
const VLS: usize = 16;

/// Credit loops of tables.
#[derive(Debug, Default)]
pub(super) struct CreditLoops {
    /// Among packets between hosts.
    pub(super) hosts: Option<Vec<Channel>>,
    /// With the answers to them; not searched for if the packets themselves have one.
    pub(super) answers: Option<Vec<Channel>>,
    /// With those of switches' own ports; not searched for if hosts alone have one.
    pub(super) switches: Option<Vec<Channel>>,
}

/// The credit loops of tables. Cost: LIDs times sources times hops at most; equal packets are
/// followed once.
pub(super) fn credit_loops(network: &Network, tables: &Tables) -> CreditLoops {
    let mut walker = Walker::new(network, tables);
    walker.follow_all(Packets::BetweenHosts);
    if let Some(cycle) = walker.cycle() {
        return CreditLoops {
            hosts: Some(cycle),
            answers: None,
            switches: None,
        };
    }
    // Answers on the level of their own path are packets between hosts.
    let answers = tables.vl_assignment.as_ref().and_then(|assignment| {
        if assignment.sl_max() == Sl::default() {
            return None;
        }
        let mut walker = Walker::new(network, tables);
        walker.follow_all(Packets::BetweenHosts);
        walker.follow_answers();
        walker.cycle()
    });
    walker.follow_all(Packets::OfSwitches);
    CreditLoops {
        hosts: None,
        answers,
        switches: walker.cycle(),
    }
}

/// Which packets are followed.
#[derive(Clone, Copy, PartialEq)]
enum Packets {
    /// From hosts to hosts.
    BetweenHosts,
    /// From switches to hosts and to other switches, and from hosts to switches.
    OfSwitches,
}

struct Walker<'a> {
    network: &'a Network,
    tables: &'a Tables,
    assignment: Option<&'a VlAssignment>,
    /// By switch: the ports by which hosts' packets come in, one for all whose packets go on alike.
    entries: Vec<Vec<PortNum>>,
    /// By channel and VL (`16 * channel + vl`): what it depends on.
    dependencies: Vec<Vec<usize>>,
    /// By channel and VL: a bit for each SL that was followed there to the LID at hand.
    followed: Vec<u16>,
    /// Which of them are not 0.
    touched: Vec<usize>,
}

impl<'a> Walker<'a> {
    fn new(network: &'a Network, tables: &'a Tables) -> Self {
        let channels = network.channels().len();
        let assignment = tables.vl_assignment.as_ref();
        let alike = assignment.is_none_or(VlAssignment::is_alike_for_hosts);
        let entries = network.hosts_at().iter().map(|hosts| {
            let ports = hosts.iter().map(|&host| network.hosts()[host].port);
            ports.take(if alike { 1 } else { usize::MAX }).collect()
        });
        Self {
            network,
            tables,
            assignment,
            entries: entries.collect(),
            dependencies: vec![Vec::new(); channels * VLS],
            followed: vec![0; channels * VLS],
            touched: Vec::new(),
        }
    }

    /// Follows packets of that SL, and of the second level of service where there is one.
    fn follow_levels(&mut self, switch: usize, port: PortNum, lid: Lid, sl: Sl) {
        for sl in self.levels(sl) {
            self.follow(switch, port, lid, sl);
        }
    }

    fn levels(&self, sl: Sl) -> impl Iterator<Item = Sl> + use<> {
        let levels = self.assignment.map(|a| a.levels(sl));
        let single = levels.is_none().then_some(sl);
        levels.into_iter().flatten().chain(single)
    }

    fn follow_all(&mut self, packets: Packets) {
        let (network, tables) = (self.network, self.tables);
        for range in tables.lids.iter() {
            let Some(end) = range.end else { continue };
            let is_host = network.switch(end.node).is_none();
            if packets == Packets::BetweenHosts && !is_host {
                continue;
            }
            let from_hosts = packets == Packets::BetweenHosts || !is_host;
            for lid in range.lids() {
                for node in self.touched.drain(..) {
                    self.followed[node] = 0;
                }
                for (switch, &node) in network.switches().iter().enumerate() {
                    if from_hosts {
                        for place in 0..self.entries[switch].len() {
                            let port = self.entries[switch][place];
                            self.follow_levels(switch, port, lid, self.sl(node, port, lid));
                        }
                    }
                    if packets == Packets::OfSwitches {
                        let port = PortNum::MANAGEMENT;
                        self.follow_levels(switch, port, lid, self.sl(node, port, lid));
                    }
                }
            }
        }
    }

    /// The SL of packets from the host at a port of a switch, or from the switch itself.
    fn sl(&self, node: NodeId, port: PortNum, lid: Lid) -> Sl {
        let at = Endpoint { node, port };
        self.assignment
            .map_or_else(Sl::default, |a| a.sl_at(at, lid))
    }

    /// What hosts answer to each other. Cost: pairs of switches times LIDs times hops at most.
    fn follow_answers(&mut self) {
        let (network, tables) = (self.network, self.tables);
        let count = network.switches().len();
        // By switch of the requester and switch of the responder: a bit for each SL of the requests.
        let mut levels = vec![0u16; count * count];
        let owned: Vec<(usize, Lid)> = (tables.lids.iter())
            .filter_map(|range| {
                let end = range.end.filter(|end| network.switch(end.node).is_none())?;
                Some((network.last_hop(end)?.0, range))
            })
            .flat_map(|(switch, range)| range.lids().map(move |lid| (switch, lid)))
            .collect();
        for &(answering, lid) in &owned {
            for asking in 0..count {
                for &port in &self.entries[asking] {
                    let sl = self.sl(network.switches()[asking], port, lid);
                    for sl in self.levels(sl) {
                        levels[asking * count + answering] |= 1 << sl.get();
                    }
                }
            }
        }
        for &(asking, lid) in &owned {
            for node in self.touched.drain(..) {
                self.followed[node] = 0;
            }
            for answering in 0..count {
                let used = levels[asking * count + answering];
                for sl in Sl::all().filter(|sl| used & 1 << sl.get() != 0) {
                    for place in 0..self.entries[answering].len() {
                        self.follow(answering, self.entries[answering][place], lid, sl);
                    }
                }
            }
        }
    }

    /// A packet of that SL that comes into a switch by a port; ends where it leaves the switches,
    /// or where one like it was followed before.
    fn follow(&mut self, switch: usize, port: PortNum, lid: Lid, sl: Sl) {
        let (mut at, mut entry) = (switch, port);
        let mut held: Option<usize> = None;
        loop {
            let node = self.network.switches()[at];
            let exit = self.tables.lft(node).get(lid);
            let Some(channel) = self.network.channel_by_port(at, exit) else {
                return;
            };
            let vl = self
                .assignment
                .map_or_else(Vl::default, |a| a.vl(node, entry, exit, sl));
            let needed = channel * VLS + vl.index();
            if let Some(held) = held.replace(needed) {
                let dependencies = &mut self.dependencies[held];
                if !dependencies.contains(&needed) {
                    dependencies.push(needed);
                }
            }
            let followed = &mut self.followed[needed];
            let bit = 1 << sl.get();
            if *followed & bit != 0 {
                return;
            }
            if *followed == 0 {
                self.touched.push(needed);
            }
            *followed |= bit;
            let ends = self.network.channels()[channel];
            (at, entry) = (ends.to, ends.to_port);
        }
    }

    /// VLs of channels that depend on each other in a cycle, if any do. Searched in the order of
    /// [`Network::channels_by_neighbour`], as [`crate::dependencies::Dependencies`] are.
    fn cycle(&self) -> Option<Vec<Channel>> {
        let channels = self.network.channels_by_neighbour();
        let mut rank = vec![0; channels.len()];
        for (place, &channel) in channels.iter().enumerate() {
            rank[channel] = place;
        }
        let next = |node: usize, from: usize| {
            let held = channels[node / VLS] * VLS + node % VLS;
            let onward = *self.dependencies[held].get(from)?;
            Some((rank[onward / VLS] * VLS + onward % VLS, from + 1))
        };
        let found = find_cycle(self.dependencies.len(), next)?;
        let named = found.into_iter().map(|node| {
            let Endpoint { node: switch, port } = self.network.endpoint(channels[node / VLS]);
            Channel {
                switch,
                port,
                vl: Vl::constant(saturate::<u8>(node % VLS)),
            }
        });
        Some(named.collect())
    }
}
