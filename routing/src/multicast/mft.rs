//! Multicast forwarding tables: by multicast LID a set of ports.

use std::collections::BTreeMap;

use wire::{Lid, PortNum};

/// Rows of a block of the table (IBA 14.2.5.10).
pub const BLOCK_ROWS: usize = 32;
/// Ports of a block: one position.
pub const PORTS_A_POSITION: usize = 16;

/// A set of ports, 0 to 255.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortSet([u64; 4]);

impl PortSet {
    /// Puts a port in.
    pub fn insert(&mut self, port: PortNum) {
        self.0[port.index() / 64] |= 1 << (port.index() % 64);
    }

    /// Whether a port is in.
    #[must_use]
    pub fn contains(&self, port: PortNum) -> bool {
        self.0[port.index() / 64] >> (port.index() % 64) & 1 == 1
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// The ports in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = PortNum> + '_ {
        (0..=u8::MAX)
            .map(PortNum::new)
            .filter(|&port| self.contains(port))
    }

    /// Ports `16 * position` to `16 * position + 15` as the mask of a block: the lowest port is bit
    /// 0. Positions run from 0 to 15.
    #[must_use]
    pub fn mask(&self, position: usize) -> u16 {
        let word = self.0.get(position / 4).copied().unwrap_or(0);
        let [a, b, c, d, e, f, g, h] = word.to_le_bytes();
        let masks = [[a, b], [c, d], [e, f], [g, h]];
        u16::from_le_bytes(masks[position % 4])
    }
}

impl FromIterator<PortNum> for PortSet {
    fn from_iter<I: IntoIterator<Item = PortNum>>(ports: I) -> Self {
        let mut set = Self::default();
        for port in ports {
            set.insert(port);
        }
        set
    }
}

/// The multicast forwarding table of a switch. Rows without ports are not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mft(BTreeMap<Lid, PortSet>);

impl Mft {
    /// A table without ports.
    #[must_use]
    pub const fn empty() -> Self {
        Self(BTreeMap::new())
    }

    /// The ports of a multicast LID.
    #[must_use]
    pub fn get(&self, mlid: Lid) -> PortSet {
        self.0.get(&mlid).copied().unwrap_or_default()
    }

    /// Sets the ports of a multicast LID.
    pub fn set(&mut self, mlid: Lid, ports: PortSet) {
        if ports.is_empty() {
            self.0.remove(&mlid);
        } else {
            self.0.insert(mlid, ports);
        }
    }

    /// The rows with ports, in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = (Lid, PortSet)> + '_ {
        self.0.iter().map(|(&mlid, &ports)| (mlid, ports))
    }

    /// Which block a multicast LID is in: 0 for 0xc000 to 0xc01f. `None` for other LIDs.
    #[must_use]
    pub fn block_of(mlid: Lid) -> Option<usize> {
        let row = mlid.index().checked_sub(Lid::MULTICAST_FIRST.index())?;
        mlid.is_multicast().then_some(row / BLOCK_ROWS)
    }

    /// A block as it is sent to a switch: for each of 32 LIDs the mask of 16 ports.
    #[must_use]
    pub fn block(&self, number: usize, position: usize) -> [u16; BLOCK_ROWS] {
        let first = Lid::MULTICAST_FIRST.index() + number * BLOCK_ROWS;
        let mut block = [0; BLOCK_ROWS];
        for (row, mask) in (first..).zip(&mut block) {
            if let Ok(mlid) = u16::try_from(row) {
                *mask = self.get(Lid::new(mlid)).mask(position);
            }
        }
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(numbers: &[u8]) -> PortSet {
        numbers.iter().copied().map(PortNum::new).collect()
    }

    #[test]
    fn a_block_holds_32_rows_of_16_ports() {
        let mut mft = Mft::default();
        mft.set(Lid::new(0xc000), ports(&[0, 1, 15]));
        mft.set(Lid::new(0xc021), ports(&[16, 31, 40, 254]));
        let block = mft.block(0, 0);
        assert_eq!(block[0], 0b1000_0000_0000_0011);
        assert!(block[1..].iter().all(|&mask| mask == 0));
        assert_eq!(mft.block(1, 0)[1], 0);
        assert_eq!(mft.block(1, 1)[1], 0b1000_0000_0000_0001);
        assert_eq!(mft.block(1, 2)[1], 1 << 8);
        assert_eq!(mft.block(1, 15)[1], 1 << 14);
        assert_eq!(mft.block(99_999, 3), [0; 32]);
    }

    #[test]
    fn blocks_number_multicast_lids_only() {
        assert_eq!(Mft::block_of(Lid::new(0xbfff)), None);
        assert_eq!(Mft::block_of(Lid::new(0xc01f)), Some(0));
        assert_eq!(Mft::block_of(Lid::new(0xfffe)), Some(511));
        assert_eq!(Mft::block_of(Lid::PERMISSIVE), None);
    }

    #[test]
    fn a_row_without_ports_is_no_row() {
        let mut mft = Mft::default();
        mft.set(Lid::new(0xc005), ports(&[7]));
        mft.set(Lid::new(0xc005), PortSet::default());
        assert_eq!(mft.rows().len(), 0);
        assert_eq!(
            ports(&[3, 200])
                .iter()
                .map(PortNum::get)
                .collect::<Vec<_>>(),
            [3, 200]
        );
    }
}
