//! Promised bandwidth as the tables of a link's output port hold it.

use routing::qos::{Admission, Entry, LinkState};
use topologies::{Endpoint, NodeId};
use wire::PortNum;
use wire::attr::{SlToVlTable, VlArbEntry, VlArbTable};

/// SL-to-VL table of an output port whose link promises bandwidth.
pub(crate) fn sl2vl(
    admission: Option<&Admission>,
    output: (usize, PortNum),
) -> Option<SlToVlTable> {
    link(admission, output)?;
    let options = admission?.options();
    Some(SlToVlTable(options.service_levels.sl2vl(options.data_vls)))
}

/// A block of the arbitration of such a port.
pub(crate) fn vl_arbitration(
    admission: Option<&Admission>,
    output: (usize, PortNum),
    block: u8,
) -> Option<VlArbTable> {
    let link = link(admission, output)?;
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
pub(crate) fn high_limit(admission: Option<&Admission>, output: (usize, PortNum)) -> Option<u8> {
    Some(link(admission, output)?.high_limit())
}

fn link(admission: Option<&Admission>, (index, port): (usize, PortNum)) -> Option<&LinkState> {
    let node = NodeId::from_index(index);
    admission?.link(Endpoint { node, port })
}
