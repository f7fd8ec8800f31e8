//! How long the machine had more to do than it has processors: what a fabric waits for them is no fault of
//! its own.
//!
//! The kernel counts the time in which a task that is ready has no processor (pressure stall information,
//! `/proc/pressure/cpu`, the line `some`; not in every kernel). The count is read at intervals and drawn as
//! a line between them.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;
use wire::convert::saturate;

/// The kernel's count.
const FILE: &str = "/proc/pressure/cpu";
/// Readings that are remembered: longer than a round takes.
const READINGS_MAX: usize = 4096;

/// The last count, and its time.
#[derive(Clone, Debug, Default)]
pub(super) struct Pressure {
    readings: VecDeque<(Instant, Duration)>,
}

/// The count in the text of the kernel's file.
fn parse(text: &str) -> Option<Duration> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let mut words = some.split_whitespace();
    let total = words.find_map(|word| word.strip_prefix("total="))?;
    total.parse().ok().map(Duration::from_micros)
}

impl Pressure {
    /// Reads the count now; nothing where the kernel has none.
    pub(super) fn read(&mut self) {
        if let Some(count) = std::fs::read_to_string(FILE)
            .ok()
            .as_deref()
            .and_then(parse)
        {
            self.note(Instant::now(), count);
        }
    }

    fn note(&mut self, now: Instant, count: Duration) {
        if self.readings.len() == READINGS_MAX {
            self.readings.pop_front();
        }
        self.readings.push_back((now, count));
    }

    /// The count at a moment; the nearest reading outside the time of them.
    fn at(&self, moment: Instant) -> Option<Duration> {
        let after = self.readings.partition_point(|&(at, _)| at <= moment);
        let next = self.readings.get(after).copied();
        let before = after.checked_sub(1).and_then(|at| self.readings.get(at));
        match (before.copied(), next) {
            (Some((from, low)), Some((to, high))) => {
                let share = moment.duration_since(from).as_secs_f64()
                    / to.duration_since(from).as_secs_f64();
                Some(low + high.saturating_sub(low).mul_f64(share.clamp(0.0, 1.0)))
            }
            (one, other) => one.or(other).map(|(_, count)| count),
        }
    }

    /// How much of the time between two moments a task that was ready had no processor, milliseconds; `None`
    /// where the kernel does not tell.
    pub(super) fn between_ms(&self, from: Instant, to: Instant) -> Option<u64> {
        let waited = self.at(to)?.saturating_sub(self.at(from)?);
        Some(saturate(waited.as_millis()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_that_of_the_line_some() {
        let text = "some avg10=98.36 avg60=98.10 avg300=98.48 total=32271388584\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(parse(text), Some(Duration::from_micros(32_271_388_584)));
        assert_eq!(parse("full total=7\n"), None);
        assert_eq!(parse("some avg10=1.00 total=x\n"), None);
    }

    #[test]
    fn between_readings_the_count_is_a_line() {
        let mut pressure = Pressure::default();
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(pressure.between_ms(at(0), at(100)), None);
        pressure.note(at(100), Duration::from_millis(10));
        pressure.note(at(200), Duration::from_millis(60));
        pressure.note(at(400), Duration::from_millis(60));
        assert_eq!(pressure.between_ms(at(0), at(100)), Some(0));
        assert_eq!(pressure.between_ms(at(150), at(300)), Some(25));
        assert_eq!(pressure.between_ms(at(100), at(900)), Some(50));
    }
}
