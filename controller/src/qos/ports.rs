//! What the books of a link are in its port's tables.

use routing::qos::{Entry, LinkState};
use topologies::{Endpoint, NodeId};
use wire::PortNum;
use wire::attr::{SlToVlTable, VlArbEntry, VlArbTable};

use crate::plan::Plan;

/// Service levels to lanes on the way out of a port whose link promises bandwidth.
pub(crate) fn sl2vl(plan: &Plan, output: (usize, PortNum)) -> Option<SlToVlTable> {
    link(plan, output)?;
    let options = plan.admission.as_ref()?.options();
    Some(SlToVlTable(options.service_levels.sl2vl(options.data_vls)))
}

/// A block of the arbitration of such a port.
pub(crate) fn vl_arbitration(
    plan: &Plan,
    output: (usize, PortNum),
    block: u8,
) -> Option<VlArbTable> {
    let link = link(plan, output)?;
    let (table, first) = match block {
        VlArbTable::LOW_FIRST => (link.low(), 0),
        VlArbTable::LOW_SECOND => (link.low(), 32),
        VlArbTable::HIGH_FIRST => (link.high(), 0),
        VlArbTable::HIGH_SECOND => (link.high(), 32),
        _ => return None,
    };
    let mut block = VlArbTable::default();
    for (to, from) in block.0.iter_mut().zip(&table.entries()[first..]) {
        let Entry { vl, weight } = *from;
        *to = VlArbEntry { vl, weight };
    }
    Some(block)
}

/// LimitOfHighPriority of such a port.
pub(crate) fn high_limit(plan: &Plan, output: (usize, PortNum)) -> Option<u8> {
    Some(link(plan, output)?.high_limit())
}

fn link(plan: &Plan, (index, port): (usize, PortNum)) -> Option<&LinkState> {
    let node = NodeId::from_index(index);
    plan.admission.as_ref()?.link(Endpoint { node, port })
}
