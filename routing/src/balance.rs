//! Choosing among equal ways so that cables carry equal loads.
//!
//! An engine says, for each destination switch, by which cables each switch may send on
//! ([`Ways`]). For each destination LID in turn, the way with the least load is taken: from the
//! destination outwards every switch picks the cable that makes the sum of loads to the
//! destination smallest (ties: the neighbour with the smallest GUID, then the lowest port); then
//! every cable's load grows by the number of host ports whose packets to this LID it carries. The
//! load of a cable is thus the number of (source, LID) pairs that cross it.
//!
//! The LIDs of one port take different ways as far as there are any: a cable that an earlier LID
//! of the same port uses counts more than any load.
//!
//! Switches' own LIDs follow the least load, and add none.
//!
//! Cost: for each LID, the number of cables that may be chosen; memory is the tables'.

use wire::{Lid, PortNum};

use crate::lids::{LidRange, Lids};
use crate::net::{NOWHERE, Net};
use crate::tables::Lft;

/// More than the load of any cable: at most 2^16 LIDs, each from 2^16 sources.
const USED_BEFORE: u64 = 1 << 40;

/// Which cables lead towards one destination switch.
#[derive(Default)]
pub(crate) struct Ways {
    /// By switch: hops to the destination; [`NOWHERE`] if it cannot be reached.
    pub(crate) hops: Vec<u32>,
    /// By switch: where its choices begin and end.
    choices: Vec<(u32, u32)>,
    /// (cable, the switch it leads to).
    cables: Vec<(u32, u32)>,
    /// Switches that reach the destination, nearest first.
    pub(crate) nearest: Vec<u32>,
}

impl Ways {
    /// Forgets everything: nobody reaches `destination` but itself.
    pub(crate) fn start(&mut self, switches: u32, destination: u32) {
        self.hops.clear();
        self.hops.resize(switches as usize, NOWHERE);
        self.hops[destination as usize] = 0;
        self.choices.clear();
        self.choices.resize(switches as usize, (0, 0));
        self.cables.clear();
        self.nearest.clear();
    }

    /// Gives a switch that is `hops` away its choices, of which there must be one at least:
    /// numbers of cables as in [`Net::links`] counted through all switches, and where each leads.
    pub(crate) fn give(
        &mut self,
        switch: u32,
        hops: u32,
        cables: impl Iterator<Item = (u32, u32)>,
    ) {
        let count = |cables: &Vec<_>| u32::try_from(cables.len()).unwrap_or(NOWHERE);
        let first = count(&self.cables);
        self.cables.extend(cables);
        self.choices[switch as usize] = (first, count(&self.cables));
        self.hops[switch as usize] = hops;
    }

    /// Sorts [`Self::nearest`].
    pub(crate) fn finish(&mut self) {
        let hops = &self.hops;
        self.nearest.extend(
            (0..)
                .take(hops.len())
                .filter(|&s: &u32| hops[s as usize] != NOWHERE),
        );
        self.nearest.sort_by_key(|&switch| hops[switch as usize]);
    }

    fn choices(&self, switch: u32) -> &[(u32, u32)] {
        let (first, end) = self.choices[switch as usize];
        &self.cables[first as usize..end as usize]
    }
}

/// Numbers of cables: [`Net::links`] counted through all switches.
pub(crate) fn first_cables(net: &Net<'_>) -> Vec<u32> {
    let mut next = 0;
    net.links
        .iter()
        .map(|links| {
            let first = next;
            next += u32::try_from(links.len()).unwrap_or(NOWHERE);
            first
        })
        .collect()
}

/// Tables by switch for all LIDs. `ways` is asked once for each switch, in order.
pub(crate) fn balanced(
    net: &Net<'_>,
    lids: &Lids,
    mut ways: impl FnMut(u32, &mut Ways),
) -> Vec<Lft> {
    let mut balancer = Balancer::new(net, lids);
    let mut found = Ways::default();
    for (destination, ranges) in (0..).zip(ranges_by_switch(net, lids)) {
        found.start(net.len(), destination);
        ways(destination, &mut found);
        found.finish();
        for (range, exit) in ranges {
            balancer.port(destination, range, exit, &found);
        }
    }
    balancer.rows
}

/// By switch: the LIDs that are there, and the port to their owner.
fn ranges_by_switch<'l>(net: &Net<'_>, lids: &'l Lids) -> Vec<Vec<(&'l LidRange, PortNum)>> {
    let mut ranges = vec![Vec::new(); net.switches.len()];
    for range in lids.iter() {
        let Some(end) = range.end else { continue };
        let switch = net.place(end.node);
        if let Some(own) = ranges.get_mut(switch as usize) {
            own.push((range, PortNum::MANAGEMENT));
        } else if let Some(peer) = net.graph.peer(end)
            && let Some(there) = ranges.get_mut(net.place(peer.node) as usize)
        {
            there.push((range, peer.port));
        }
    }
    ranges
}

struct Balancer {
    rows: Vec<Lft>,
    /// By cable: its port at the switch that sends.
    ports: Vec<PortNum>,
    /// By cable: the switch that receives.
    targets: Vec<u32>,
    /// By cable.
    loads: Vec<u64>,
    /// By switch, for the LID at hand: load on the way to the destination, cable chosen, sources.
    costs: Vec<u64>,
    chosen: Vec<u32>,
    flows: Vec<u64>,
    sources: Vec<u64>,
}

impl Balancer {
    fn new(net: &Net<'_>, lids: &Lids) -> Self {
        let ports: Vec<PortNum> = net.links.iter().flatten().map(|link| link.port).collect();
        let switches = net.switches.len();
        Self {
            rows: vec![Lft::new(lids.top()); switches],
            loads: vec![0; ports.len()],
            ports,
            targets: net.links.iter().flatten().map(|link| link.to).collect(),
            costs: vec![0; switches],
            chosen: vec![NOWHERE; switches],
            flows: vec![0; switches],
            sources: net.hosts.iter().map(|&hosts| u64::from(hosts)).collect(),
        }
    }

    /// All LIDs of one port, which is behind port `exit` of the destination switch.
    fn port(&mut self, destination: u32, range: &LidRange, exit: PortNum, ways: &Ways) {
        let several = range.lmc.get() > 0;
        let mut used = Vec::new();
        for lid in range.lids() {
            self.rows[destination as usize].set(lid, exit);
            self.choose(lid, ways);
            if exit == PortNum::MANAGEMENT {
                continue;
            }
            self.add_load(ways);
            if several {
                for &switch in &ways.nearest[1..] {
                    let cable = self.chosen[switch as usize];
                    self.loads[cable as usize] += USED_BEFORE;
                    used.push(cable);
                }
            }
        }
        for cable in used {
            self.loads[cable as usize] -= USED_BEFORE;
        }
    }

    fn choose(&mut self, lid: Lid, ways: &Ways) {
        let (first, others) = ways.nearest.split_first().unwrap_or((&0, &[]));
        self.costs[*first as usize] = 0;
        for &switch in others {
            let mut best = (u64::MAX, 0);
            for &(cable, to) in ways.choices(switch) {
                let cost = self.loads[cable as usize] + self.costs[to as usize];
                if cost < best.0 {
                    best = (cost, cable);
                }
            }
            self.costs[switch as usize] = best.0;
            self.chosen[switch as usize] = best.1;
            self.rows[switch as usize].set(lid, self.ports[best.1 as usize]);
        }
    }

    fn add_load(&mut self, ways: &Ways) {
        self.flows.copy_from_slice(&self.sources);
        for &switch in ways.nearest.iter().skip(1).rev() {
            let cable = self.chosen[switch as usize];
            let flow = self.flows[switch as usize];
            self.loads[cable as usize] += flow;
            self.flows[self.targets[cable as usize] as usize] += flow;
        }
    }
}
