//! How many flows of a pattern meet on a link.

use std::collections::BTreeMap;

use topologies::{Endpoint, Graph};
use wire::convert::{real, saturate, u64_of, usize_of};

use super::pattern::Pattern;
use super::walk::Walker;
use crate::tables::Tables;

/// Flows on the links between switches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkLoads {
    /// Flows of the pattern.
    pub flows: u64,
    /// Flows that do not arrive, which are counted on no link.
    pub undelivered: u64,
    /// The most flows on a link.
    pub max: u64,
    /// The output port of the first such link.
    pub busiest: Option<Endpoint>,
    /// The most on a link that leads up in the tables' order, if they have one.
    pub max_up: Option<u64>,
    /// The most on a link that leads down.
    pub max_down: Option<u64>,
    /// The mean over all links.
    pub mean: f64,
    /// By number of flows, how many links carry so many.
    pub histogram: BTreeMap<u64, u32>,
}

/// The loads under a pattern when every source picks the LID that the tables' path selection says.
///
/// Cost: pairs of the pattern, and for each LID in use the switches of its sources times hops.
#[must_use]
pub fn link_loads(graph: &Graph, tables: &Tables, pattern: Pattern) -> LinkLoads {
    loads(&Walker::new(graph, tables), pattern)
}

/// The same for tables that are being walked already.
pub(super) fn loads(walker: &Walker<'_>, pattern: Pattern) -> LinkLoads {
    let mut result = LinkLoads::default();
    let mut flows = Flows::new(walker);
    if pattern == Pattern::AllToAll {
        let hosts = walker.hosts();
        for destination in 0..hosts {
            flows.add_all(destination, &mut result);
            flows.flush(destination, &mut result);
        }
    } else {
        // By destination, so that sources at one switch with one LID travel together.
        let mut pairs: Vec<(usize, usize)> = pattern
            .pairs(walker.hosts())
            .map(|(source, destination)| (destination, source))
            .collect();
        pairs.sort_unstable();
        for of_one in pairs.chunk_by(|a, b| a.0 == b.0) {
            for &(destination, source) in of_one {
                flows.add(source, destination, &mut result);
            }
            flows.flush(of_one[0].0, &mut result);
        }
    }
    summarise(walker, &flows.loads, &mut result);
    result
}

/// Flows to one destination, and the loads that follow from those before.
struct Flows<'w, 'a> {
    walker: &'w Walker<'a>,
    /// By channel.
    loads: Vec<u64>,
    /// By offset of the LID and switch of the source: flows to the destination at hand.
    bundles: Vec<u64>,
    /// Which of them are not 0.
    used: Vec<usize>,
    path: Vec<usize>,
}

impl<'w, 'a> Flows<'w, 'a> {
    fn new(walker: &'w Walker<'a>) -> Self {
        Self {
            walker,
            loads: vec![0; walker.network.channels().len()],
            bundles: Vec::new(),
            used: Vec::new(),
            path: Vec::new(),
        }
    }

    fn add(&mut self, source: usize, destination: usize, result: &mut LinkLoads) {
        result.flows += 1;
        let Some((offset, _)) = self.walker.dlid(source, destination) else {
            result.undelivered += 1;
            return;
        };
        let network = &self.walker.network;
        let place = usize_of(offset) * network.switches().len() + network.hosts()[source].switch;
        if place >= self.bundles.len() {
            self.bundles.resize(place + 1, 0);
        }
        if self.bundles[place] == 0 {
            self.used.push(place);
        }
        self.bundles[place] += 1;
    }

    /// A flow from every other host.
    fn add_all(&mut self, destination: usize, result: &mut LinkLoads) {
        let network = &self.walker.network;
        let range = self.walker.range(destination);
        if range.is_none_or(|range| range.lmc.get() > 0) {
            let hosts = 0..self.walker.hosts();
            for source in hosts.filter(|&source| source != destination) {
                self.add(source, destination, result);
            }
            return;
        }
        // One LID: all sources at one switch send on one path.
        let own = network.hosts()[destination].switch;
        self.bundles
            .resize(self.bundles.len().max(network.switches().len()), 0);
        for (switch, hosts) in network.hosts_at().iter().enumerate() {
            let flows = u64_of(hosts.len()) - u64::from(switch == own);
            if flows > 0 {
                result.flows += flows;
                self.bundles[switch] = flows;
                self.used.push(switch);
            }
        }
    }

    /// Sends what was added to that destination.
    fn flush(&mut self, destination: usize, result: &mut LinkLoads) {
        let switches = self.walker.network.switches().len();
        for place in self.used.drain(..) {
            let flows = core::mem::take(&mut self.bundles[place]);
            let (offset, switch) = (place / switches, place % switches);
            let range = self.walker.range(destination);
            let lid = range.map(|range| range.at_offset(saturate(offset)));
            self.path.clear();
            let path = &mut self.path;
            let arrives = lid.is_some_and(|lid| {
                self.walker
                    .walk(switch, destination, lid, |channel| path.push(channel))
            });
            if arrives {
                for &channel in &self.path {
                    self.loads[channel] += flows;
                }
            } else {
                result.undelivered += flows;
            }
        }
    }
}

fn summarise(walker: &Walker<'_>, loads: &[u64], result: &mut LinkLoads) {
    for (channel, &load) in loads.iter().enumerate() {
        *result.histogram.entry(load).or_default() += 1;
        if load > result.max {
            result.max = load;
            result.busiest = Some(walker.network.endpoint(channel));
        }
        let ends = walker.network.channels()[channel];
        let order = |switch: usize| walker.tables.order(walker.network.switches()[switch]);
        if let (Some(from), Some(to)) = (order(ends.from), order(ends.to)) {
            let side = if to < from {
                &mut result.max_up
            } else {
                &mut result.max_down
            };
            *side = (*side).max(Some(load));
        }
    }
    let links = real(u64_of(loads.len().max(1)));
    result.mean = loads.iter().map(|&load| real(load)).sum::<f64>() / links;
}
