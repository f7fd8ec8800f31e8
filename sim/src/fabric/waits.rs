//! Which input VL waits for which.

use topologies::NodeId;
use wire::{PortNum, Vl};

use super::Fabric;
use crate::deadlock::{Deadlock, InputVl, cycle_in};
use crate::node::Node;

/// LIDs of a block of a forwarding table.
const BLOCK: usize = routing::BLOCK;

impl Fabric {
    /// Looks for input VLs that wait for each other in a cycle.
    pub(crate) fn find_deadlock(&self) -> Option<Deadlock> {
        let vls = self.model.vls;
        let mut first = Vec::with_capacity(self.nodes.len());
        let mut input_vls = Vec::new();
        for id in self.graph.ids() {
            first.push(input_vls.len());
            if !self.nodes[id.index()].is_switch() {
                continue;
            }
            for port in (0..=self.graph.node(id).ports).map(PortNum::new) {
                input_vls.extend(Vl::data(vls).map(|vl| (id, port, vl)));
            }
        }
        let place = |node: usize, port: PortNum, vl: Vl| {
            first[node] + port.index() * usize::from(vls) + vl.index()
        };
        let next: Vec<Option<usize>> = input_vls
            .iter()
            .map(|&(id, port, vl)| {
                let (node, port, vl) = self.waits_for(id, port, vl)?;
                Some(place(node, port, vl))
            })
            .collect();
        let cycle = cycle_in(&next)?;
        let cycle = cycle.into_iter().map(|at| {
            let (id, port, vl) = input_vls[at];
            InputVl {
                switch: self.graph.node(id).name.clone(),
                port,
                vl,
            }
        });
        Some(Deadlock {
            cycle: cycle.collect(),
        })
    }

    /// The input VL of the next switch that a head waits for, if it stands still.
    fn waits_for(&self, id: NodeId, port: PortNum, vl: Vl) -> Option<(usize, PortNum, Vl)> {
        let node = id.index();
        let Node::Switch(switch) = &self.nodes[node] else {
            return None;
        };
        let head = switch.port(port)?.input(vl)?;
        if head.entered > self.stalled_before() || head.lrh.dlid.is_multicast() {
            return None;
        }
        let dlid = usize::from(head.lrh.dlid.get());
        let block = u16::try_from(dlid / BLOCK).ok()?;
        let out = switch.linear_block(block)[dlid % BLOCK];
        let output = switch.port(out)?;
        let output_vl = output.sl_to_vl().map(port, head.lrh.sl);
        if output.is_idle(output_vl) || output.credits(output_vl) >= head.blocks() {
            return None;
        }
        let (next, next_port) = self.next_switch(node, out)?;
        Some((next, next_port, output_vl))
    }
}
