//! The room that a shell offers a core for one outgoing frame.

use crate::Time;

/// One frame being filled: records (delimiter and link packet) back to back.
///
/// The shell owns the memory and what stands in front of the records (an Ethernet header, the UDP
/// link header); the core sees only the room that is left.
#[derive(Debug)]
pub struct FrameBuf<'a> {
    bytes: &'a mut [u8],
    used: usize,
    records: usize,
    records_max: usize,
    tail: Time,
}

impl<'a> FrameBuf<'a> {
    /// A frame with room for `bytes.len()` bytes and at most `records_max` records.
    #[must_use]
    pub fn new(bytes: &'a mut [u8], records_max: usize) -> Self {
        Self {
            bytes,
            used: 0,
            records: 0,
            records_max,
            tail: Time::ZERO,
        }
    }

    /// Whether a record of `len` bytes (delimiter and link packet) still fits.
    #[must_use]
    pub fn fits(&self, len: usize) -> bool {
        self.records < self.records_max && len <= self.bytes.len() - self.used
    }

    /// The remaining room: bytes, and records.
    #[must_use]
    pub fn room(&self) -> (usize, usize) {
        (
            self.bytes.len() - self.used,
            self.records_max - self.records,
        )
    }

    /// Adds one record of `len` bytes and returns its bytes to be written; `None` if it does not
    /// fit. The caller writes every byte.
    pub fn push(&mut self, len: usize) -> Option<&mut [u8]> {
        if !self.fits(len) {
            return None;
        }
        let start = self.used;
        self.used += len;
        self.records += 1;
        Some(&mut self.bytes[start..self.used])
    }

    /// How many bytes are used.
    #[must_use]
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether no record was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// How many records were added.
    #[must_use]
    pub fn records(&self) -> usize {
        self.records
    }

    /// When the last bit of the frame leaves at the link's rate; [`Time::ZERO`] if it holds link
    /// control only, which takes no time. Virtual time delivers by this; a daemon has no use for
    /// it.
    #[must_use]
    pub fn tail(&self) -> Time {
        self.tail
    }

    /// Notes that the packet just pushed leaves until `tail`.
    pub fn set_tail(&mut self, tail: Time) {
        self.tail = self.tail.max(tail);
    }

    /// The bytes written so far.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_takes_records_until_bytes_or_count_run_out() {
        let mut memory = [0u8; 10];
        let mut frame = FrameBuf::new(&mut memory, 2);
        assert!(frame.push(11).is_none());
        frame.push(4).unwrap().fill(1);
        frame.push(5).unwrap().fill(2);
        assert!(frame.push(1).is_none(), "two records are the limit");
        assert_eq!(frame.as_bytes(), [1, 1, 1, 1, 2, 2, 2, 2, 2]);
    }
}
