//! Which datagrams have come before: a window of numbers behind the highest one (after RFC 6479).

use wire::convert::{u64_of, usize_of};

/// Bits of a word of the window.
const WORD_BITS: u64 = 64;
/// Words of the window; one more than what it covers, so that it moves word by word.
const WORDS: usize = 33;

/// What a number is, among those that have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    /// It is ahead of all others, and so many before it have not come.
    Ahead {
        /// How many.
        missing: u64,
    },
    /// It comes after a later one.
    Late,
    /// It has come before, or is so old that this is not known.
    Repeated,
}

/// The numbers that have come.
#[derive(Clone, Debug)]
pub(super) struct ReplayWindow {
    /// The number that follows the highest one that has come.
    next: u64,
    words: [u64; WORDS],
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self {
            next: 0,
            words: [0; WORDS],
        }
    }
}

impl ReplayWindow {
    /// How far behind the highest number a late one is still taken.
    pub(super) const REACH: u64 = u64_of(WORDS - 1) * WORD_BITS;

    fn place(number: u64) -> (usize, u64) {
        (Self::word(number / WORD_BITS), 1 << (number % WORD_BITS))
    }

    fn word(word: u64) -> usize {
        usize_of(word % u64_of(WORDS))
    }

    /// What `number` is. Nothing changes: it may be a stranger's.
    #[inline]
    pub(super) fn check(&self, number: u64) -> Number {
        if number >= self.next {
            return Number::Ahead {
                missing: number - self.next,
            };
        }
        let (word, bit) = Self::place(number);
        if self.next - number > Self::REACH || self.words[word] & bit != 0 {
            return Number::Repeated;
        }
        Number::Late
    }

    /// `number`, which is not [`Number::Repeated`], has come from the peer. The last number of all is never taken.
    #[inline]
    pub(super) fn take(&mut self, number: u64) {
        if let Some(last) = self.next.checked_sub(1) {
            let (from, to) = (last / WORD_BITS, number / WORD_BITS);
            for word in from + 1..=to.min(from + u64_of(WORDS)) {
                self.words[Self::word(word)] = 0;
            }
        }
        let (word, bit) = Self::place(number);
        self.words[word] |= bit;
        self.next = self.next.max(number.saturating_add(1));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_is_taken_once_and_within_reach() {
        let mut window = ReplayWindow::default();
        assert_eq!(window.check(0), Number::Ahead { missing: 0 });
        window.take(0);
        assert_eq!(window.check(0), Number::Repeated);
        assert_eq!(window.check(5), Number::Ahead { missing: 4 });
        window.take(5);
        assert_eq!(window.check(3), Number::Late);
        window.take(3);
        assert_eq!(window.check(3), Number::Repeated);
        window.take(10_000);
        assert_eq!(window.check(4), Number::Repeated, "too old to know");
        let oldest = 10_001 - ReplayWindow::REACH;
        assert_eq!(window.check(oldest), Number::Late);
        assert_eq!(window.check(oldest - 1), Number::Repeated);
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_set_of_all_numbers(
            steps in prop::collection::vec((any::<bool>(), 0u64..5000), 1..300),
        ) {
            let mut window = ReplayWindow::default();
            let mut seen = BTreeSet::new();
            for (ahead, distance) in steps {
                let next = seen.last().map_or(0, |last| last + 1);
                let number = match ahead {
                    true => next + distance % 200,
                    false => next.saturating_sub(distance),
                };
                let expected = match () {
                    () if number >= next => Number::Ahead { missing: number - next },
                    () if seen.contains(&number) || next - number > ReplayWindow::REACH => Number::Repeated,
                    () => Number::Late,
                };
                prop_assert_eq!(window.check(number), expected);
                if expected != Number::Repeated {
                    window.take(number);
                    seen.insert(number);
                }
            }
        }
    }
}
