//! Mirrors of the devices' tables, as last read from or written to them.

use std::collections::BTreeMap;

use wire::attr::{
    GuidInfo, LinearForwardingTable, MulticastForwardingTable, PKeyTable, SlToVlTable, SwitchInfo,
    VlArbTable,
};
use wire::{Guid, PortNum};

use crate::port_settings::ALL_INPUTS;

/// The known contents of the tables of a device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mirror {
    /// Whether the device had never been programmed when it was first seen: a forwarding block
    /// that was not written since routes nothing, and no other table is worth reading.
    pub(crate) unprogrammed: bool,
    /// Forwarding blocks read or written; `None`: a write is under way or was lost.
    pub(crate) lft: BTreeMap<u16, Option<Box<LinearForwardingTable>>>,
    /// Multicast blocks read or written, by block and position; `None`: a write is under way or was
    /// lost.
    pub(crate) mft: BTreeMap<(u16, u8), Option<Box<MulticastForwardingTable>>>,
    /// LinearFDBTop as last set or seen.
    pub(crate) top: u16,
    /// SL-to-VL tables, by input (or [`ALL_INPUTS`]) and output.
    pub(crate) sl2vl: BTreeMap<(PortNum, PortNum), SlToVlTable>,
    /// P_Key tables of ports.
    pub(crate) pkeys: BTreeMap<PortNum, PKeyTable>,
    /// Blocks of the end port's GUIDs; `None`: a write is under way or was lost.
    pub(crate) guids: BTreeMap<u8, Option<GuidInfo>>,
    /// Blocks of the arbitration of a port.
    pub(crate) arbitration: BTreeMap<(PortNum, u8), VlArbTable>,
}

/// The mirrors of all devices, by node GUID.
pub(crate) type Mirrors = BTreeMap<Guid, Mirror>;

const EMPTY_LFT: LinearForwardingTable = LinearForwardingTable([PortNum::NONE; 64]);
const EMPTY_MFT: MulticastForwardingTable = MulticastForwardingTable([0; 32]);

impl Mirror {
    /// A mirror of a switch of which nothing else is known.
    pub(crate) fn of(switch: &SwitchInfo) -> Self {
        Self {
            unprogrammed: switch.linear_fdb_top == 0,
            top: switch.linear_fdb_top,
            ..Self::default()
        }
    }

    /// The contents of a block, if known.
    pub(crate) fn lft_block(&self, block: u16) -> Option<&LinearForwardingTable> {
        match self.lft.get(&block) {
            Some(held) => held.as_deref(),
            None => self.unprogrammed.then_some(&EMPTY_LFT),
        }
    }

    /// The contents of a multicast block, if known.
    pub(crate) fn mft_block(&self, at: (u16, u8)) -> Option<&MulticastForwardingTable> {
        match self.mft.get(&at) {
            Some(held) => held.as_deref(),
            None => self.unprogrammed.then_some(&EMPTY_MFT),
        }
    }

    /// An SL-to-VL table is about to be written: it, and tables of all inputs that include it, are
    /// no longer known.
    pub(crate) fn forget_sl2vl(&mut self, input: PortNum, output: PortNum) {
        self.sl2vl.retain(|&(other, towards), _| {
            let same = other == input || input == ALL_INPUTS || other == ALL_INPUTS;
            towards != output || !same
        });
    }

    /// Whether the table of an output is known for a single input.
    pub(crate) fn knows_single_sl2vl(&self, output: PortNum) -> bool {
        let mut known = self.sl2vl.keys();
        known.any(|&(input, towards)| towards == output && input != ALL_INPUTS)
    }

    /// The last multicast block that is known to hold something.
    pub(crate) fn last_mft_block(&self) -> Option<u16> {
        let mut known = self.mft.iter().rev();
        let holds = |table: &Option<Box<MulticastForwardingTable>>| {
            table.as_deref().is_none_or(|table| *table != EMPTY_MFT)
        };
        known
            .find(|(_, table)| holds(table))
            .map(|(&(block, _), _)| block)
    }
}
