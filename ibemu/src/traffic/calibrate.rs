//! Calibration: whether a machine keeps the pace of a fabric's links, and at which time scale it does.
//!
//! Virtual time says what the links would carry of the same traffic if the machine took no time. Where a live fabric delivers less,
//! the machine is what holds it up: it moves as many bits a second at any time scale, so links that are slower by as
//! much as is missing are links that it keeps up with.

use serde::Serialize;
use wire::convert::real;

use crate::quantity::bit_rate;

/// A fabric that delivers this part of what its links would carry keeps the pace.
const KEPT: f64 = 0.95;
/// How much slower than measured links should be, so that a machine that has other things to do keeps up.
const MARGIN: f64 = 1.1;
/// The time scale in virtual time for a fabric whose links are not paced.
pub(crate) const REFERENCE: f64 = 100.0;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Calibration {
    /// That of the fabric; `None` if its links are not paced.
    fabric_time_scale: Option<f64>,
    /// What the fabric has delivered.
    bits_per_second: u64,
    /// In virtual time.
    reference_time_scale: f64,
    reference_bits_per_second: u64,
    /// Whether the machine keeps the pace of the fabric as it is.
    keeps_pace: Option<bool>,
    /// A time scale at which it does.
    time_scale: f64,
}

impl Calibration {
    /// By what a fabric delivers, and what the same one delivers in virtual time at a time scale. `None` if one of them
    /// delivers nothing.
    pub(crate) fn new(
        fabric_time_scale: Option<f64>,
        bits_per_second: u64,
        (reference_time_scale, reference_bits_per_second): (f64, u64),
    ) -> Option<Self> {
        if bits_per_second == 0 || reference_bits_per_second == 0 {
            return None;
        }
        let part = real(bits_per_second) / real(reference_bits_per_second);
        let keeps_pace = fabric_time_scale.map(|_| part >= KEPT);
        let time_scale = match keeps_pace {
            Some(true) => reference_time_scale,
            _ => reference_time_scale * MARGIN / part,
        };
        Some(Self {
            fabric_time_scale,
            bits_per_second,
            reference_time_scale,
            reference_bits_per_second,
            keeps_pace,
            time_scale,
        })
    }

    /// One line.
    pub(super) fn line(&self) -> String {
        let carried = format!(
            "{} of {} that links carry at --time-scale {}",
            bit_rate(self.bits_per_second),
            bit_rate(self.reference_bits_per_second),
            self.reference_time_scale
        );
        let verdict = match self.keeps_pace {
            Some(true) => "this machine keeps the pace".to_owned(),
            _ => format!(
                "this machine keeps the pace at --time-scale {:.1}",
                self.time_scale
            ),
        };
        format!("calibration: {carried}: {verdict}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_falls_behind_needs_slower_links_by_what_is_missing() {
        let calibration = |scale, live| Calibration::new(scale, live, (200.0, 1_000_000));
        let behind = calibration(Some(200.0), 250_000).expect("traffic");
        assert_eq!(behind.keeps_pace, Some(false));
        assert!((behind.time_scale - 880.0).abs() < 1e-6, "{behind:?}");
        assert!(
            behind
                .line()
                .ends_with("keeps the pace at --time-scale 880.0")
        );
        let with_it = calibration(Some(200.0), 960_000).expect("traffic");
        assert_eq!(with_it.keeps_pace, Some(true));
        assert!((with_it.time_scale - 200.0).abs() < 1e-6);
        assert!(with_it.line().ends_with("this machine keeps the pace"));
        let unpaced = calibration(None, 2_000_000).expect("traffic");
        assert_eq!(unpaced.keeps_pace, None);
        assert!((unpaced.time_scale - 110.0).abs() < 1e-6, "{unpaced:?}");
        assert_eq!(calibration(None, 0), None);
    }
}
