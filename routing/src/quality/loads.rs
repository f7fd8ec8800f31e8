//! How many flows of a pattern meet on a link.

use std::collections::BTreeMap;

use topologies::{Endpoint, Graph};
use wire::Lid;
use wire::convert::{real, u64_of};

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
    let walker = Walker::new(graph, tables);
    let mut result = LinkLoads::default();
    // Sources at one switch with one LID travel together.
    let mut bundles: BTreeMap<(usize, Lid, usize), u64> = BTreeMap::new();
    for (source, destination) in pattern.pairs(walker.hosts()) {
        result.flows += 1;
        match walker.dlid(source, destination) {
            Some(lid) => {
                let switch = walker.network.hosts()[source].switch;
                *bundles.entry((destination, lid, switch)).or_default() += 1;
            }
            None => result.undelivered += 1,
        }
    }
    let mut loads = vec![0u64; walker.network.channels().len()];
    let mut path = Vec::new();
    for ((destination, lid, switch), flows) in bundles {
        path.clear();
        if walker.walk(switch, destination, lid, |channel| path.push(channel)) {
            for &channel in &path {
                loads[channel] += flows;
            }
        } else {
            result.undelivered += flows;
        }
    }
    for (channel, &load) in loads.iter().enumerate() {
        *result.histogram.entry(load).or_default() += 1;
        if load > result.max {
            result.max = load;
            result.busiest = Some(walker.network.endpoint(channel));
        }
        let ends = walker.network.channels()[channel];
        let order = |switch: usize| tables.order(walker.network.switches()[switch]);
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
    result
}
