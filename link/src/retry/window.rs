//! How much may be under way.

/// Bytes that may be under way: less after a loss, more while there is none.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, PartialOrd, Ord))]
pub struct Window {
    bytes: usize,
    /// Below this it grows by as much as is acknowledged.
    threshold: usize,
    most: usize,
}

impl Window {
    /// The least, bytes.
    pub const LEAST_BYTES: usize = 16 * 1024;
    /// What it grows by each time that all of it has been acknowledged, bytes.
    pub const STEP_BYTES: usize = 16 * 1024;
    /// What it begins with, bytes.
    const FIRST_BYTES: usize = 64 * 1024;

    pub(super) fn new(most: usize) -> Self {
        Self {
            bytes: Self::FIRST_BYTES.min(most),
            threshold: most,
            most,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn acknowledged(&mut self, bytes: usize) {
        let more = match self.bytes < self.threshold {
            true => bytes,
            false => (bytes.min(self.most) * Self::STEP_BYTES / self.bytes.max(1)).max(1),
        };
        self.bytes = self.bytes.saturating_add(more).min(self.most);
    }

    /// The peer has told of a gap.
    pub(super) fn lost(&mut self) {
        self.bytes = (self.bytes / 10 * 7).max(Self::LEAST_BYTES).min(self.most);
        self.threshold = self.bytes;
    }

    /// The peer has been silent.
    pub(super) fn timed_out(&mut self) {
        self.lost();
        self.bytes = Self::LEAST_BYTES.min(self.most);
    }
}
