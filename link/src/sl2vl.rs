//! From service level to virtual lane (IBA 7.6.6, 14.2.5.8).
//!
//! The VL on which a packet leaves depends on its service level, on the port that it came in on
//! and on the port that it leaves by. Management writes one row of 16 VLs for each pair of
//! ports; until it does, VLs are the service level modulo the number of data VLs.

use wire::{PortNum, Sl, Vl};

/// The rows of one output port: one for each input port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlToVl {
    /// The content of all rows as long as they are the same, which saves looking a row up.
    every: Option<[Vl; 16]>,
    ports_in: u8,
    /// One an input port; none while all are the same.
    rows: Box<[[Vl; 16]]>,
}

impl SlToVl {
    /// Rows for input ports `0..=ports_in`; a channel adapter has only row 0.
    #[must_use]
    pub fn new(ports_in: u8, vls: u8) -> Self {
        let row = Self::default_row(vls);
        Self {
            every: Some(row),
            ports_in,
            rows: Box::default(),
        }
    }

    /// The row that holds until management writes one: service level modulo data VLs.
    #[must_use]
    pub fn default_row(vls: u8) -> [Vl; 16] {
        let mut row = [Vl::default(); 16];
        for (sl, vl) in (0u8..).zip(&mut row) {
            *vl = Vl::constant(sl % vls.max(1));
        }
        row
    }

    /// The VL for `sl` of a packet that came in on `input`; VL15, "drop", for a port that has no
    /// row.
    #[inline]
    #[must_use]
    pub fn map(&self, input: PortNum, sl: Sl) -> Vl {
        if let Some(every) = &self.every
            && input.get() <= self.ports_in
        {
            return every[sl.index()];
        }
        self.rows
            .get(input.index())
            .map_or(Vl::MANAGEMENT, |row| row[sl.index()])
    }

    /// The row for packets that came in on `input`, if there is one.
    #[must_use]
    pub fn row(&self, input: PortNum) -> Option<&[Vl; 16]> {
        match &self.every {
            Some(every) => (input.get() <= self.ports_in).then_some(every),
            None => self.rows.get(input.index()),
        }
    }

    /// Writes the row for packets that came in on `input`; `false` if the port has no row.
    pub fn set_row(&mut self, input: PortNum, row: [Vl; 16]) -> bool {
        if input.get() > self.ports_in {
            return false;
        }
        if let Some(every) = self.every {
            if every == row {
                return true;
            }
            self.rows = vec![every; usize::from(self.ports_in) + 1].into_boxed_slice();
            self.every = None;
        }
        if let Some(old) = self.rows.get_mut(input.index()) {
            *old = row;
        }
        if self.rows.iter().all(|other| *other == row) {
            self.set_all(row);
        }
        true
    }

    /// Writes the rows of all inputs at once: as much work as there are rows.
    pub fn set_all(&mut self, row: [Vl; 16]) {
        self.rows = Box::default();
        self.every = Some(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vl_depends_on_the_service_level_and_the_port_in() {
        let mut table = SlToVl::new(2, 4);
        let sl = Sl::constant(6);
        assert_eq!(table.map(PortNum::new(2), sl), Vl::constant(2));
        let mut row = SlToVl::default_row(4);
        row[6] = Vl::constant(1);
        assert!(table.set_row(PortNum::new(2), row));
        assert_eq!(table.map(PortNum::new(2), sl), Vl::constant(1));
        assert_eq!(table.map(PortNum::new(1), sl), Vl::constant(2));
    }

    #[test]
    fn one_row_for_all_inputs_serves_like_rows_of_their_own() {
        let (mut table, sl) = (SlToVl::new(2, 4), Sl::constant(6));
        let vls =
            |table: &SlToVl| [0, 1, 2, 3].map(|input| table.map(PortNum::new(input), sl).get());
        let row = [Vl::constant(3); 16];
        let mut seen = vec![vls(&table)];
        for input in [1, 0, 2] {
            assert!(table.set_row(PortNum::new(input), row));
            seen.push(vls(&table));
        }
        table.set_row(PortNum::new(0), SlToVl::default_row(4));
        seen.push(vls(&table));
        table.set_all(row);
        seen.push(vls(&table));
        assert_eq!(table.row(PortNum::new(0)), Some(&row));
        let drop = Vl::MANAGEMENT.get();
        let expected = [
            [2, 2, 2],
            [2, 3, 2],
            [3, 3, 2],
            [3, 3, 3],
            [2, 3, 3],
            [3, 3, 3],
        ];
        assert_eq!(seen, expected.map(|[a, b, c]| [a, b, c, drop]));
    }

    #[test]
    fn a_port_without_a_row_drops() {
        let mut table = SlToVl::new(2, 4);
        assert_eq!(table.map(PortNum::new(3), Sl::constant(0)), Vl::MANAGEMENT);
        assert!(!table.set_row(PortNum::new(3), SlToVl::default_row(4)));
    }
}
