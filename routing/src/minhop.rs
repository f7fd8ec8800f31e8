//! Shortest paths in any fabric, balanced.
//!
//! Nothing keeps packets from waiting for each other in a circle: on a ring of five switches or
//! more, say, the channel dependency graph has cycles, which [`crate::verify()`] prints. Use it to
//! compare with, or where the fabric has no cycles.

use std::collections::VecDeque;

use topologies::Graph;

use crate::balance::{Ways, balanced, first_cables};
use crate::engines::{Engine, Options};
use crate::error::{RoutingError, Warning};
use crate::lids::assign;
use crate::net::{NOWHERE, Net};
use crate::tables::{Lft, Promises, Tables};

/// The engine.
pub(crate) struct Minhop;

impl Engine for Minhop {
    fn name(&self) -> &'static str {
        "minhop"
    }

    fn summary(&self) -> &'static str {
        "any fabric: shortest paths, balanced; may deadlock"
    }

    fn route(&self, graph: &Graph, options: &Options) -> Result<Tables, RoutingError> {
        let net = Net::new(graph);
        let (lids, changed) = assign(
            &net,
            options.lmc.unwrap_or_default(),
            options.lid_base,
            &options.known,
        )?;
        let first = first_cables(&net);
        let rows = balanced(&net, &lids, |destination, ways| {
            shortest(&net, &first, destination, ways);
        });
        let promises = Promises {
            up_down: false,
            minimal: true,
            deadlock_free: false,
            from_hosts_only: false,
        };
        let mut tables = Tables::generic(self.name(), &net, lids, rows, promises);
        tables
            .warnings
            .extend((changed > 0).then_some(Warning::LidsChanged { ports: changed }));
        Ok(tables)
    }
}

fn shortest(net: &Net<'_>, first: &[u32], destination: u32, ways: &mut Ways) {
    let hops = distances(net, destination);
    for switch in 0..net.len() {
        let own = hops[switch as usize];
        if own == NOWHERE || own == 0 {
            continue;
        }
        let cables = (first[switch as usize]..)
            .zip(&net.links[switch as usize])
            .filter(|(_, link)| hops[link.to as usize] == own - 1)
            .map(|(cable, link)| (cable, link.to));
        ways.give(switch, own, cables);
    }
}

/// By switch: hops to `from`; [`NOWHERE`] where no cable leads.
pub(crate) fn distances(net: &Net<'_>, from: u32) -> Vec<u32> {
    let mut hops = vec![NOWHERE; net.switches.len()];
    hops[from as usize] = 0;
    let mut open = VecDeque::from([from]);
    while let Some(switch) = open.pop_front() {
        for link in &net.links[switch as usize] {
            if hops[link.to as usize] == NOWHERE {
                hops[link.to as usize] = hops[switch as usize] + 1;
                open.push_back(link.to);
            }
        }
    }
    hops
}

impl Tables {
    /// Tables of an engine for any fabric, from rows by switch.
    pub(crate) fn generic(
        engine: &'static str,
        net: &Net<'_>,
        lids: crate::lids::Lids,
        rows: Vec<Lft>,
        promises: Promises,
    ) -> Self {
        let mut lfts = vec![Lft::default(); net.graph.len()];
        for (node, row) in net.switches.iter().zip(rows) {
            lfts[node.index()] = row;
        }
        Self {
            engine,
            because: None,
            selection: Self::spread_selection(&lids, net.graph),
            lids,
            promises,
            labels: None,
            lanes: None,
            warnings: Vec::new(),
            lfts,
            order: None,
        }
    }
}
