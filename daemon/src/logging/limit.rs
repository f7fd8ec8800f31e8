//! How much each place of the program may log.
//!
//! Each place has a bucket of [`BURST`] lines that fills by one every [`INTERVAL`], kept as the
//! moment at which it is full again (the generic cell rate algorithm of ATM). There are as many
//! places as the program has log statements.

use std::collections::HashMap;
use std::time::Duration;

use tracing::Metadata;
use tracing::callsite::Identifier;

/// Lines that a place of the program may write at once.
pub const BURST: u32 = 200;

/// The time in which it may write one more.
pub const INTERVAL: Duration = Duration::from_millis(100);

/// The places that have logged something.
#[derive(Debug, Default)]
pub(super) struct Limiter {
    places: HashMap<Identifier, Place>,
}

#[derive(Debug)]
struct Place {
    /// File and line, for messages.
    name: String,
    /// When its bucket is full again.
    full_at: Duration,
    left_out: u64,
}

impl Limiter {
    /// Whether a line of this place may be written at `now`: how many were left out since the last
    /// one, or `None` if this one is left out too.
    pub(super) fn admit(&mut self, metadata: &Metadata<'_>, now: Duration) -> Option<u64> {
        let place = self.places.entry(metadata.callsite());
        let place = place.or_insert_with(|| Place {
            name: format!(
                "{}:{}",
                metadata.file().unwrap_or_else(|| metadata.target()),
                metadata.line().unwrap_or(0)
            ),
            full_at: Duration::ZERO,
            left_out: 0,
        });
        place.admit(now)
    }

    /// The places that have left lines out, in order, and how many each.
    pub(super) fn take_all(&mut self) -> Vec<(String, u64)> {
        let places = self.places.values_mut();
        let mut left_out: Vec<(String, u64)> = places
            .filter(|place| place.left_out > 0)
            .map(|place| (place.name.clone(), std::mem::take(&mut place.left_out)))
            .collect();
        left_out.sort();
        left_out
    }
}

impl Place {
    fn admit(&mut self, now: Duration) -> Option<u64> {
        if self.full_at > now + INTERVAL * (BURST - 1) {
            self.left_out = self.left_out.saturating_add(1);
            return None;
        }
        self.full_at = self.full_at.max(now) + INTERVAL;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place {
            name: String::new(),
            full_at: Duration::ZERO,
            left_out: 0,
        }
    }

    #[test]
    fn a_burst_passes_and_then_one_line_an_interval_with_the_count_of_those_before() {
        let mut place = place();
        let begin = Duration::from_secs(5);
        for _ in 0..BURST {
            assert_eq!(place.admit(begin), Some(0));
        }
        for _ in 0..7 {
            assert_eq!(place.admit(begin), None);
        }
        assert_eq!(place.admit(begin + INTERVAL), Some(7));
        assert_eq!(place.admit(begin + INTERVAL), None);
        assert_eq!(place.admit(begin + 3 * INTERVAL), Some(1));
        assert_eq!(place.admit(begin + 3 * INTERVAL), Some(0));
        assert_eq!(place.admit(begin + 3 * INTERVAL), None);
    }

    #[test]
    fn a_place_that_rests_has_its_whole_burst_again_and_no_more() {
        let mut place = place();
        while place.admit(Duration::ZERO).is_some() {}
        let later = Duration::from_secs(3600);
        let passed = (0..2 * BURST).filter(|_| place.admit(later).is_some());
        assert_eq!(passed.count(), wire::convert::usize_of(BURST));
    }
}
