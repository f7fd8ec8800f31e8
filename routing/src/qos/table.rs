//! One arbitration table and how it is filled (VLARB01, section 4.2).
//!
//! Connections of one VL share entries: an entry is topped up to 255 before another is begun,
//! so a VL has at most one entry below 255. Entries never move while they are in use, so
//! admitting or releasing a connection changes entries of its own VL only.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use wire::Vl;
use wire::convert::{saturate, usize_of};

use super::slots::{ENTRIES, WEIGHT_MAX};

/// Where a VL's next entry in an arbitration table goes. Contiguous entries (the paper's "another
/// free table entry") make a VL wait for all others between two of its turns; with interleaved
/// ones its longest wait shrinks with its share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Layout {
    /// The first free one, as VLARB01.
    #[default]
    Contiguous,
    /// The free one farthest from the VL's others, round the table.
    Interleaved,
}
wire::choice!(Layout, "entry layout");

/// An entry of a table: a VL and how many slots of 64 bytes it may send. Weight 0 is no entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The VL.
    pub vl: Vl,
    /// Slots, 0..=255.
    pub weight: u8,
}

/// There are not entries enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoEntries {
    /// Further entries wanted.
    pub wanted: usize,
    /// Entries that are free.
    pub free: usize,
}

/// A table of 64 entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    entries: [Entry; ENTRIES],
    layout: Layout,
    /// `order[vl]`: the VL's entries as they were begun; all but the last have weight 255.
    order: [Vec<u8>; 16],
}

impl Table {
    /// An empty table.
    #[must_use]
    pub fn new(layout: Layout) -> Self {
        Self {
            entries: [Entry::default(); ENTRIES],
            layout,
            order: Default::default(),
        }
    }

    /// The entries, as they go into the device.
    #[must_use]
    pub fn entries(&self) -> &[Entry; ENTRIES] {
        &self.entries
    }

    /// How many entries are free.
    #[must_use]
    pub fn free(&self) -> usize {
        self.entries
            .iter()
            .filter(|entry| entry.weight == 0)
            .count()
    }

    /// The sum of a VL's weights.
    #[must_use]
    pub fn slots(&self, vl: Vl) -> u32 {
        self.order[vl.index()]
            .iter()
            .map(|&at| u32::from(self.entries[usize::from(at)].weight))
            .sum()
    }

    /// How many further entries `slots` slots more would take for a VL.
    #[must_use]
    pub fn wanted(&self, vl: Vl, slots: u32) -> usize {
        let partial = self.order[vl.index()].last().map_or(0, |&at| {
            u32::from(WEIGHT_MAX - self.entries[usize::from(at)].weight)
        });
        let further = slots.saturating_sub(partial);
        usize_of(further.div_ceil(u32::from(WEIGHT_MAX)))
    }

    /// Gives a VL `slots` slots more.
    ///
    /// # Errors
    /// [`NoEntries`]; the table is then as it was.
    pub fn add(&mut self, vl: Vl, slots: u32) -> Result<(), NoEntries> {
        let (wanted, free) = (self.wanted(vl, slots), self.free());
        if wanted > free {
            return Err(NoEntries { wanted, free });
        }
        let mut left = slots;
        while left > 0 {
            let at = match self.order[vl.index()].last() {
                Some(&at) if self.entries[usize::from(at)].weight < WEIGHT_MAX => usize::from(at),
                _ => {
                    let Some(at) = self.place(vl) else {
                        return Err(NoEntries { wanted, free });
                    };
                    self.entries[at].vl = vl;
                    self.order[vl.index()].extend(u8::try_from(at));
                    at
                }
            };
            let entry = &mut self.entries[at];
            let room = u32::from(WEIGHT_MAX - entry.weight);
            let step = saturate::<u8>(left.min(room));
            entry.weight += step;
            left -= u32::from(step);
        }
        Ok(())
    }

    /// Takes `slots` slots from a VL, or all that it has; its youngest entries go first.
    pub fn remove(&mut self, vl: Vl, slots: u32) {
        let mut left = slots;
        while left > 0 {
            let Some(&at) = self.order[vl.index()].last() else {
                return;
            };
            let entry = &mut self.entries[usize::from(at)];
            let step = saturate::<u8>(left).min(entry.weight);
            entry.weight -= step;
            left -= u32::from(step);
            if entry.weight == 0 {
                *entry = Entry::default();
                self.order[vl.index()].pop();
            }
        }
    }

    fn place(&self, vl: Vl) -> Option<usize> {
        let mut free = (0..ENTRIES).filter(|&at| self.entries[at].weight == 0);
        match self.layout {
            Layout::Contiguous => free.next(),
            Layout::Interleaved => free.max_by_key(|&at| {
                let nearest = self.order[vl.index()]
                    .iter()
                    .map(|&other| {
                        let away = at.abs_diff(usize::from(other));
                        away.min(ENTRIES - away)
                    })
                    .min();
                (nearest, core::cmp::Reverse(at))
            }),
        }
    }
}

#[cfg(test)]
mod tests;
