//! The forwarding tables: from DLID to output ports (IBA 18.2.4.3).
//!
//! Both grow to the highest block that was ever written with something in it, so that a small
//! subnet costs a switch little memory. Beyond its end, and above the top that management has set,
//! no port is found.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use link::PortSet;
use wire::{Lid, PortNum};

/// LIDs of one block of the linear table.
pub(crate) const LINEAR_BLOCK: usize = 64;
/// LIDs of one block of the multicast table.
pub(crate) const MULTICAST_BLOCK: usize = 32;
/// LIDs that the linear table covers: all unicast LIDs.
pub(crate) const LINEAR_CAPACITY: u16 = 0xc000;
/// Multicast LIDs that the multicast table covers, from 0xc000: whole blocks below the permissive
/// LID.
pub(crate) const MULTICAST_CAPACITY: u16 = 0x3fe0;

/// The entries of a linear table: of the switch alone, or shared with switches that have the same ones.
#[derive(Debug)]
enum Entries {
    Own(Vec<PortNum>),
    Shared(Arc<[PortNum]>),
}

impl Default for Entries {
    fn default() -> Self {
        Self::Own(Vec::new())
    }
}

impl Deref for Entries {
    type Target = [PortNum];

    #[inline]
    fn deref(&self) -> &[PortNum] {
        match self {
            Self::Own(ports) => ports,
            Self::Shared(ports) => ports,
        }
    }
}

impl Entries {
    /// The entries to be written: of the switch alone from now on.
    fn own(&mut self) -> &mut Vec<PortNum> {
        if let Self::Shared(ports) = self {
            *self = Self::Own(ports.to_vec());
        }
        match self {
            Self::Own(ports) => ports,
            Self::Shared(_) => unreachable!("it has just been made the switch's own"),
        }
    }
}

/// The linear forwarding table.
#[derive(Debug, Default)]
pub(crate) struct LinearTable {
    ports: Entries,
    /// Entries that are looked up: those below the top, as far as they are there.
    active: usize,
    /// The highest LID that is looked up.
    top: usize,
}

impl LinearTable {
    /// The output port for a unicast DLID; [`PortNum::NONE`] where there is none.
    #[inline]
    pub(crate) fn lookup(&self, dlid: Lid) -> PortNum {
        match self.ports[..self.active].get(dlid.index()) {
            Some(&port) => port,
            None => PortNum::NONE,
        }
    }

    pub(crate) fn block(&self, block: u16) -> [PortNum; LINEAR_BLOCK] {
        let start = usize::from(block) * LINEAR_BLOCK;
        core::array::from_fn(|at| self.ports.get(start + at).copied().unwrap_or(PortNum::NONE))
    }

    pub(crate) fn set_block(&mut self, block: u16, ports: &[PortNum; LINEAR_BLOCK]) {
        let start = usize::from(block) * LINEAR_BLOCK;
        let end = start + LINEAR_BLOCK;
        if end > usize::from(LINEAR_CAPACITY) {
            return;
        }
        if end > self.ports.len() {
            if ports.iter().all(|&port| port == PortNum::NONE) {
                return;
            }
            self.ports.own().resize(end, PortNum::NONE);
        }
        self.ports.own()[start..end].copy_from_slice(ports);
        self.set_active();
    }

    /// Shares the entries with all switches that have the same.
    pub(crate) fn share(&mut self, tables: &mut BTreeSet<Arc<[PortNum]>>) {
        let shared = match tables.get(&*self.ports) {
            Some(shared) => Arc::clone(shared),
            None => Arc::from(&*self.ports),
        };
        tables.insert(Arc::clone(&shared));
        self.ports = Entries::Shared(shared);
    }

    pub(crate) fn set_top(&mut self, top: Lid) {
        self.top = top.index();
        self.set_active();
    }

    fn set_active(&mut self) {
        self.active = self.ports.len().min(self.top + 1);
    }
}

/// The multicast forwarding table.
#[derive(Debug)]
pub(crate) struct MulticastTable {
    masks: Vec<PortSet>,
    top: Option<Lid>,
    primary: PortNum,
    not_primary: PortNum,
}

impl Default for MulticastTable {
    fn default() -> Self {
        Self {
            masks: Vec::new(),
            top: None,
            primary: PortNum::NONE,
            not_primary: PortNum::NONE,
        }
    }
}

impl MulticastTable {
    /// The ports for a multicast DLID that came in on `input`: the members, or where there are none
    /// the default port, or nothing. `input` may be among them; packets do not go back there.
    pub(crate) fn lookup(&self, dlid: Lid, input: PortNum) -> PortSet {
        let mut ports = self.entry(dlid);
        if ports.is_empty() {
            let default = if input == self.primary {
                self.not_primary
            } else {
                self.primary
            };
            if default != PortNum::NONE {
                ports.insert(default);
            }
        }
        ports
    }

    fn entry(&self, dlid: Lid) -> PortSet {
        if self.top.is_some_and(|top| dlid > top) {
            return PortSet::EMPTY;
        }
        let at = dlid.get().checked_sub(Lid::MULTICAST_FIRST.get());
        at.and_then(|at| self.masks.get(usize::from(at)))
            .copied()
            .unwrap_or(PortSet::EMPTY)
    }

    pub(crate) fn block(&self, block: u16, position: u8) -> [u16; MULTICAST_BLOCK] {
        let start = usize::from(block) * MULTICAST_BLOCK;
        core::array::from_fn(|at| {
            self.masks
                .get(start + at)
                .map_or(0, |set| set.mask16(position))
        })
    }

    pub(crate) fn set_block(&mut self, block: u16, position: u8, masks: &[u16; MULTICAST_BLOCK]) {
        let start = usize::from(block) * MULTICAST_BLOCK;
        let end = start + MULTICAST_BLOCK;
        if end > usize::from(MULTICAST_CAPACITY) {
            return;
        }
        if end > self.masks.len() {
            if masks.iter().all(|&mask| mask == 0) {
                return;
            }
            self.masks.resize(end, PortSet::EMPTY);
        }
        for (set, &mask) in self.masks[start..end].iter_mut().zip(masks) {
            set.set_mask16(position, mask);
        }
    }

    pub(crate) fn set_top(&mut self, top: Option<Lid>) {
        self.top = top;
    }

    pub(crate) fn set_default(&mut self, primary: PortNum, not_primary: PortNum) {
        self.primary = primary;
        self.not_primary = not_primary;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(number: u8) -> PortNum {
        PortNum::new(number)
    }

    #[test]
    fn a_lid_above_the_top_or_never_written_has_no_port() {
        let mut table = LinearTable::default();
        let mut block = [PortNum::NONE; LINEAR_BLOCK];
        block[5] = port(3);
        block[9] = port(4);
        table.set_block(1, &block);
        assert_eq!(table.lookup(Lid::new(69)), PortNum::NONE, "no top was set");
        table.set_top(Lid::new(69));
        assert_eq!(table.lookup(Lid::new(69)), port(3));
        assert_eq!(table.lookup(Lid::new(73)), PortNum::NONE, "above the top");
        assert_eq!(table.lookup(Lid::new(5)), PortNum::NONE);
        assert_eq!(table.lookup(Lid::PERMISSIVE), PortNum::NONE);
        assert_eq!(table.block(1), block);
        assert_eq!(table.block(700), [PortNum::NONE; LINEAR_BLOCK]);
    }

    #[test]
    fn switches_share_a_table_until_one_is_written() {
        let [mut one, mut other] = [(); 2].map(|()| LinearTable::default());
        let mut block = [PortNum::NONE; LINEAR_BLOCK];
        block[5] = port(3);
        let mut tables = BTreeSet::new();
        for table in [&mut one, &mut other] {
            table.set_block(0, &block);
            table.set_top(Lid::new(63));
            table.share(&mut tables);
        }
        assert_eq!(tables.len(), 1);
        block[5] = port(4);
        other.set_block(0, &block);
        assert_eq!(one.lookup(Lid::new(5)), port(3));
        assert_eq!(other.lookup(Lid::new(5)), port(4));
    }

    #[test]
    fn a_table_grows_only_to_blocks_that_hold_something() {
        let mut table = LinearTable::default();
        table.set_block(767, &[PortNum::NONE; LINEAR_BLOCK]);
        table.set_block(768, &[port(1); LINEAR_BLOCK]);
        assert!(table.ports.is_empty());
        table.set_block(767, &[port(1); LINEAR_BLOCK]);
        table.set_top(Lid::UNICAST_LAST);
        assert_eq!(table.lookup(Lid::UNICAST_LAST), port(1));
    }

    #[test]
    fn a_row_of_the_multicast_table_is_put_together_from_its_positions() {
        let mut table = MulticastTable::default();
        let mut masks = [0; MULTICAST_BLOCK];
        masks[2] = 0b1010;
        table.set_block(0, 0, &masks);
        let group = Lid::new(0xc002);
        let out: Vec<u8> = table
            .lookup(group, port(3))
            .iter()
            .map(PortNum::get)
            .collect();
        assert_eq!(out, [1, 3]);
        masks[2] = 1;
        table.set_block(0, 1, &masks);
        assert!(table.lookup(group, port(3)).contains(port(16)));
        assert_eq!(table.block(0, 0)[2], 0b1010);
    }

    #[test]
    fn a_group_without_an_entry_goes_to_the_default_ports() {
        let mut table = MulticastTable::default();
        let group = Lid::new(0xc100);
        assert!(table.lookup(group, port(1)).is_empty());
        table.set_default(port(4), port(5));
        assert_eq!(table.lookup(group, port(1)).first(), Some(port(4)));
        assert_eq!(table.lookup(group, port(4)).first(), Some(port(5)));
        table.set_block(8, 0, &[0b10; MULTICAST_BLOCK]);
        assert_eq!(table.lookup(group, port(4)).first(), Some(port(1)));
        table.set_top(Some(Lid::new(0xc0ff)));
        assert_eq!(table.lookup(group, port(4)).first(), Some(port(5)));
    }
}
