//! Slots of the arbitration frame (VLARB01, section 4.2).
//!
//! A table has 64 entries of weight at most 255, and a weight of one lets 64 bytes pass, so a
//! frame holds `64 * 255 = 16320` slots. A connection owns as many of them as its rate is of the
//! link's. All arithmetic is in integers: in floating point many exact multiples round up to one
//! slot too many.

use strum::{EnumMessage, IntoStaticStr, VariantArray};

use super::QosError;

/// Entries of one arbitration table (IBA 7.6.9.2).
pub const ENTRIES: usize = 64;
/// The largest weight of an entry.
pub const WEIGHT_MAX: u8 = 255;
/// Bytes that a weight of one lets pass.
pub const SLOT_BYTES: u32 = 64;
/// Slots of a frame: every entry at its largest weight.
pub const FRAME_SLOTS: u32 = 64 * 255;

/// The rate of a link as VLARB01 counts it (Table 1): 2.5 Gbit/s for each of its physical lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
pub enum LinkRate {
    /// 2.5 Gbit/s.
    #[strum(serialize = "1x")]
    X1,
    /// 10 Gbit/s.
    #[strum(serialize = "4x")]
    X4,
    /// 30 Gbit/s.
    #[strum(serialize = "12x")]
    X12,
}
wire::choice!(LinkRate, "link rate");

impl LinkRate {
    /// Bits a second.
    #[must_use]
    pub const fn bps(self) -> u64 {
        match self {
            Self::X1 => link_rate::X1,
            Self::X4 => link_rate::X4,
            Self::X12 => link_rate::X12,
        }
    }
}

/// Link rates of VLARB01, Table 1, in bits per second.
pub mod link_rate {
    /// One physical lane of 2.5 Gbps.
    pub const X1: u64 = 2_500_000_000;
    /// Four physical lanes.
    pub const X4: u64 = 10_000_000_000;
    /// Twelve physical lanes.
    pub const X12: u64 = 30_000_000_000;
}

/// The time in nanoseconds that a link of `link_bps` bits per second needs for a whole frame
/// (VLARB01, Table 1): `64 * 255 * 64 * 8 / link_bps`, rounded up.
///
/// # Errors
/// [`QosError::NoRate`] if the link's rate is 0.
pub fn frame_ns(link_bps: u64) -> Result<u64, QosError> {
    if link_bps == 0 {
        return Err(QosError::NoRate);
    }
    let bits = u128::from(FRAME_SLOTS) * u128::from(SLOT_BYTES) * 8;
    let ns = (bits * 1_000_000_000).div_ceil(u128::from(link_bps));
    u64::try_from(ns).map_err(|_| QosError::NoRate)
}

/// How many slots a connection of mean rate `rate_bps` needs on a link of `link_bps` (both in
/// bits per second): `ceil(rate * 64 * 255 / link)`.
///
/// # Errors
/// [`QosError::NoRate`] if either is 0, [`QosError::RateAboveLink`] if the rate is above the
/// link's.
pub fn slots(rate_bps: u64, link_bps: u64) -> Result<u32, QosError> {
    if rate_bps == 0 || link_bps == 0 {
        return Err(QosError::NoRate);
    }
    if rate_bps > link_bps {
        return Err(QosError::RateAboveLink { rate_bps, link_bps });
    }
    let slots = (u128::from(rate_bps) * u128::from(FRAME_SLOTS)).div_ceil(u128::from(link_bps));
    u32::try_from(slots).map_err(|_| QosError::RateAboveLink { rate_bps, link_bps })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn frame_times_are_those_of_table_1() {
        assert_eq!(frame_ns(link_rate::X1), Ok(3_342_336));
        assert_eq!(frame_ns(link_rate::X4), Ok(835_584));
        assert_eq!(frame_ns(link_rate::X12), Ok(278_528));
    }

    #[test]
    fn slots_at_1x_are_those_of_the_four_bands() {
        let at_1x = |rate| slots(rate, link_rate::X1).unwrap();
        assert_eq!(at_1x(64_000), 1);
        assert_eq!(at_1x(1_550_000), 11);
        assert_eq!(at_1x(64_000_000), 418);
        assert_eq!(at_1x(300_000_000), 1959);
    }

    #[test]
    fn an_exact_multiple_of_a_slot_is_not_rounded_up() {
        // One slot of a link of 16320 Mbps is 1 Mbps.
        let link = 16_320_000_000;
        for slot in 1..=u64::from(FRAME_SLOTS) {
            assert_eq!(u64::from(slots(slot * 1_000_000, link).unwrap()), slot);
        }
    }

    #[test]
    fn a_rate_of_nothing_or_above_the_link_is_refused() {
        assert_eq!(slots(0, 10), Err(QosError::NoRate));
        assert_eq!(slots(1, 0), Err(QosError::NoRate));
        assert_eq!(frame_ns(0), Err(QosError::NoRate));
        assert_eq!(
            slots(11, 10),
            Err(QosError::RateAboveLink {
                rate_bps: 11,
                link_bps: 10
            })
        );
    }

    proptest! {
        #[test]
        fn slots_are_the_least_that_carry_the_rate(link in 1u64..=30_000_000_000, share in 1u64..=1_000_000) {
            let rate = (link * share / 1_000_000).max(1);
            let slots = u128::from(slots(rate, link).unwrap());
            let frame = u128::from(FRAME_SLOTS);
            prop_assert!(slots * u128::from(link) >= u128::from(rate) * frame);
            prop_assert!((slots - 1) * u128::from(link) < u128::from(rate) * frame);
        }
    }
}
