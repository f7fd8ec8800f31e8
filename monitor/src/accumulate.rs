//! Counters of a device as sums that never run backwards.
//!
//! A device's counter is smaller than before when somebody has cleared it or the device was restarted: what it shows
//! then has been counted since, and is added. Both can hide in a counter that has passed its old value again by the
//! next reading; nothing in-band tells these apart, for no monitor.

use crate::model::{Counter, Counters};

/// The counters of one port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accumulator {
    sums: Counters,
    /// What the device showed last.
    last: Counters,
}

impl Accumulator {
    /// A new reading of a counter. Whether it has begun anew since the last one.
    pub(crate) fn read(&mut self, counter: Counter, raw: u64) -> bool {
        let last = core::mem::replace(&mut self.last[counter], raw);
        let is_reset = raw < last;
        let more = if is_reset { raw } else { raw - last };
        let sum = &mut self.sums[counter];
        *sum = sum.saturating_add(more);
        is_reset
    }

    /// The sums.
    pub(crate) const fn sums(&self) -> &Counters {
        &self.sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_after_a_reset_is_added_and_the_sum_never_falls() {
        let mut counters = Accumulator::default();
        let counter = Counter::RcvPkts;
        let mut seen = Vec::new();
        for raw in [7, 7, 10, 0, 2, 2, 1, u64::MAX, 0, 5] {
            seen.push((counters.read(counter, raw), counters.sums()[counter]));
        }
        assert!(seen.is_sorted_by_key(|&(_, sum)| sum), "{seen:?}");
        let sums: Vec<u64> = seen.iter().map(|&(_, sum)| sum).collect();
        assert_eq!(sums[..7], [7, 7, 10, 10, 12, 12, 13]);
        assert_eq!(sums[7..], [u64::MAX; 3], "saturates");
        let resets: Vec<bool> = seen.iter().map(|&(is_reset, _)| is_reset).collect();
        let expected = [3, 6, 8].map(|at| resets[at]);
        assert_eq!(expected, [true; 3]);
        assert_eq!(resets.iter().filter(|&&is_reset| is_reset).count(), 3);
        assert_eq!(counters.sums()[Counter::XmitPkts], 0);
    }
}
