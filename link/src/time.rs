//! Time as the cores see it: nanoseconds since an origin that the shell chooses.

use core::fmt;
use core::ops::{Add, Sub};

/// A moment, in nanoseconds since the shell's origin (start of the daemon, or of virtual time).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// The origin.
    pub const ZERO: Self = Self(0);
    /// Later than everything that happens: "never".
    pub const NEVER: Self = Self(u64::MAX);

    /// Nanoseconds from `earlier` until this moment; 0 if it is not earlier.
    #[must_use]
    pub const fn since_ns(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<u64> for Time {
    type Output = Self;
    /// The moment `ns` nanoseconds later; never past [`Time::NEVER`].
    fn add(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }
}

impl Sub<u64> for Time {
    type Output = Self;
    /// The moment `ns` nanoseconds earlier; never before [`Time::ZERO`].
    fn sub(self, ns: u64) -> Self {
        Self(self.0.saturating_sub(ns))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{:09}s",
            self.0 / 1_000_000_000,
            self.0 % 1_000_000_000
        )
    }
}
