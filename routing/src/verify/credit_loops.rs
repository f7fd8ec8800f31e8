//! Credit loops: the channel dependency graph of the packets that travel on data VLs.
//!
//! Each packet is followed from its source with its service level: a node of the graph is one VL of
//! one direction of a cable, and what a packet holds depends on what it needs next. Tables without a
//! [`VlAssignment`] send everything on VL 0. There is one definition for all tables, judged twice:
//!
//! | packets | judged as |
//! |---|---|
//! | from every host's port to every LID of every other host | [`Report::cycle`](super::Report::cycle) |
//! | those, and all from and to port 0 of switches (general management; their SL is that of the tables, or 0) | [`Report::switch_cycle`](super::Report::switch_cycle) |
//!
//! Subnet management is left out: VL15 has no credits.

use topologies::Endpoint;
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
            switches: None,
        };
    }
    walker.follow_all(Packets::OfSwitches);
    CreditLoops {
        hosts: None,
        switches: walker.cycle(),
    }
}

/// Which packets are followed.
#[derive(Clone, Copy, PartialEq)]
enum Packets {
    /// From hosts to hosts.
    BetweenHosts,
    /// From switches to everybody, and from hosts to switches.
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
        let alike = assignment.is_none_or(|assignment| assignment.by_ports.is_empty());
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
                    let sl = self
                        .assignment
                        .map_or_else(Sl::default, |a| a.sl(node, lid));
                    if from_hosts {
                        for place in 0..self.entries[switch].len() {
                            self.follow(switch, self.entries[switch][place], lid, sl);
                        }
                    }
                    if packets == Packets::OfSwitches {
                        self.follow(switch, PortNum::MANAGEMENT, lid, sl);
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
