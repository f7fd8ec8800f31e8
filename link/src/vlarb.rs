//! Which VL sends next: two-level weighted round robin (IBA 7.6.9).
//!
//! A port has two tables of up to 64 entries (VL, weight in units of 64 bytes). The entry whose
//! turn it is sends while it has weight left; a packet may overdraw the weight, so that weights
//! round up to whole packets; an entry of weight 0 is passed over. When the entry's VL has
//! nothing to send, or no weight is left, the turn moves on and the next entry starts with its
//! full weight.
//!
//! The high-priority table goes first, until `LimitOfHighPriority` x 4096 bytes have gone without
//! the low-priority table getting its chance: then one low-priority packet goes, if there is one,
//! and the count starts anew. Limit 255 is no limit; limit 0 is one high-priority packet.
//!
//! VL15 is not in the tables: it always goes before.

use wire::Vl;
use wire::attr::VlArbEntry;
use wire::convert::saturate;

/// How many entries a table has at most.
pub const VLARB_ENTRIES_MAX: usize = 64;

/// Bytes of one unit of weight.
const WEIGHT_UNIT_BYTES: usize = 64;
/// Bytes of one unit of LimitOfHighPriority.
const LIMIT_UNIT_BYTES: i64 = 4096;

/// The arbiter's state in one table.
#[derive(Clone, Debug, Default)]
struct RoundRobin {
    /// The VLs that have weight in some entry.
    vls: u16,
    /// The VL, if only one entry can have a turn: then it always has it.
    only: Option<Vl>,
    /// Weight units that the entry at `at` has left in this turn.
    left: i32,
    at: usize,
    /// Those of the entries that can have a turn.
    entries: Box<[VlArbEntry]>,
    written: Box<[VlArbEntry]>,
}

impl RoundRobin {
    fn set(&mut self, entries: impl IntoIterator<Item = VlArbEntry>) {
        self.written = entries.into_iter().take(VLARB_ENTRIES_MAX).collect();
        self.entries = self
            .written
            .iter()
            .filter(|entry| entry.weight > 0 && entry.vl != Vl::MANAGEMENT)
            .copied()
            .collect();
        self.vls = self
            .entries
            .iter()
            .fold(0, |vls, entry| vls | (1 << entry.vl.get()));
        self.only = match *self.entries {
            [entry] => Some(entry.vl),
            _ => None,
        };
        self.at = 0;
        self.left = self
            .entries
            .first()
            .map_or(0, |entry| i32::from(entry.weight));
    }

    /// The entry's VL that sends next, of those in `sendable`; moves the turn to it.
    fn pick(&mut self, sendable: u16) -> Option<Vl> {
        let sendable = sendable & self.vls;
        if sendable == 0 {
            return None;
        }
        if self.only.is_some() {
            return self.only;
        }
        // One round and the entry itself again, with fresh weight: some VL of `vls` is met.
        for _ in 0..=self.entries.len() {
            let entry = self.entries[self.at];
            if self.left > 0 && sendable & (1 << entry.vl.get()) != 0 {
                return Some(entry.vl);
            }
            self.at += 1;
            if self.at == self.entries.len() {
                self.at = 0;
            }
            self.left = i32::from(self.entries[self.at].weight);
        }
        None
    }

    fn spend(&mut self, bytes: usize) {
        let units = bytes.div_ceil(WEIGHT_UNIT_BYTES);
        // The turn of a lone entry never ends, so nothing refills its weight.
        self.left = self.left.saturating_sub(saturate(units));
    }
}

/// The arbiter of one output port.
#[derive(Clone, Debug)]
pub struct Arbiter {
    /// The VLs with weight in some table: asked for whenever a port is looked at, the tables
    /// only when a packet is sent.
    weighted: u16,
    /// The VL, if it alone has weight, in one entry of the low-priority table: then the tables need not be looked at.
    lone: Option<Vl>,
    /// It has sent since the tables were written.
    lone_has_sent: bool,
    state: Box<ArbiterState>,
}

/// The tables, and whose turn it is.
#[derive(Clone, Debug)]
struct ArbiterState {
    high: RoundRobin,
    low: RoundRobin,
    limit: u8,
    /// Bytes that high priority may still send before low priority gets its chance.
    high_left: i64,
    /// The table of the last choice.
    chose_high: bool,
}

impl Arbiter {
    /// An arbiter that shares the link equally among the first `vls` data VLs: what holds until
    /// management writes the tables.
    #[must_use]
    pub fn new(vls: u8) -> Self {
        let mut arbiter = Self {
            weighted: 0,
            lone: None,
            lone_has_sent: false,
            state: Box::new(ArbiterState {
                high: RoundRobin::default(),
                low: RoundRobin::default(),
                limit: 255,
                high_left: 0,
                chose_high: false,
            }),
        };
        arbiter.set_low(Vl::data(vls).map(|vl| VlArbEntry { vl, weight: 64 }));
        arbiter
    }

    /// Writes the high-priority table; entries past the 64th are left out. Its turn starts anew.
    pub fn set_high(&mut self, entries: impl IntoIterator<Item = VlArbEntry>) {
        self.settle();
        self.state.high.set(entries);
        self.look_at_tables();
    }

    /// Writes the low-priority table; entries past the 64th are left out. Its turn starts anew.
    pub fn set_low(&mut self, entries: impl IntoIterator<Item = VlArbEntry>) {
        self.settle();
        self.state.low.set(entries);
        self.look_at_tables();
    }

    /// Books what a lone VL has sent: that gives high priority its bytes.
    fn settle(&mut self) {
        if core::mem::take(&mut self.lone_has_sent) {
            self.state.chose_high = false;
            self.state.refill();
        }
    }

    fn look_at_tables(&mut self) {
        let ArbiterState { high, low, .. } = &*self.state;
        self.weighted = high.vls | low.vls;
        self.lone = low.only.filter(|_| high.vls == 0);
    }

    /// Writes LimitOfHighPriority, in units of 4096 bytes; 255: no limit, 0: one packet.
    pub fn set_limit(&mut self, limit: u8) {
        self.state.limit = limit;
        self.state.refill();
    }

    /// The high-priority table as written.
    #[must_use]
    pub fn high(&self) -> &[VlArbEntry] {
        &self.state.high.written
    }

    /// The low-priority table as written.
    #[must_use]
    pub fn low(&self) -> &[VlArbEntry] {
        &self.state.low.written
    }

    /// LimitOfHighPriority.
    #[must_use]
    pub fn limit(&self) -> u8 {
        self.state.limit
    }

    /// The VLs that can ever have a turn: those with weight in some table.
    #[inline]
    #[must_use]
    pub fn weighted_vls(&self) -> u16 {
        self.weighted
    }

    /// The VL that sends next among `sendable` (bit n: VL n has a packet, and credits for
    /// it). The packet that is sent must be booked with [`Arbiter::spend`]; choosing again
    /// without that gives the same VL.
    #[inline]
    pub fn pick(&mut self, sendable: u16) -> Option<Vl> {
        match self.lone {
            Some(vl) => (sendable & self.weighted != 0).then_some(vl),
            None => self.state.pick(sendable),
        }
    }

    /// Books the packet of `bytes` (LRH to VCRC) that the chosen VL has sent.
    #[inline]
    pub fn spend(&mut self, bytes: usize) {
        match self.lone {
            Some(_) => self.lone_has_sent = true,
            None => self.state.spend(bytes),
        }
    }
}

impl ArbiterState {
    #[inline]
    fn pick(&mut self, sendable: u16) -> Option<Vl> {
        let high_waits = sendable & self.high.vls != 0;
        let low_waits = sendable & self.low.vls != 0;
        if high_waits && low_waits && self.is_high_spent() {
            self.chose_high = false;
        } else {
            if high_waits && self.is_high_spent() {
                // Low priority had its chance and nothing to send.
                self.refill();
            }
            self.chose_high = high_waits;
        }
        if self.chose_high {
            self.high.pick(sendable)
        } else {
            self.low.pick(sendable)
        }
    }

    #[inline]
    fn spend(&mut self, bytes: usize) {
        if self.chose_high {
            self.high.spend(bytes);
            self.high_left = self.high_left.saturating_sub(saturate(bytes));
        } else {
            self.low.spend(bytes);
            self.refill();
        }
    }

    fn is_high_spent(&self) -> bool {
        self.limit != 255 && self.high_left <= 0
    }

    fn refill(&mut self) {
        // Limit 0 leaves one byte, which any one packet uses up.
        self.high_left = (i64::from(self.limit) * LIMIT_UNIT_BYTES).max(1);
    }
}

#[cfg(test)]
mod tests;
