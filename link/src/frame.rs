//! The room that a shell offers a core for one outgoing frame.

use wire::{Delimiter, FlowControl, Format, RecordKind};

use crate::{HandedPacket, Time};

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
    handing: Option<Handing>,
}

/// What a frame takes as values.
#[derive(Debug, Default)]
struct Handing {
    packet: Option<HandedPacket>,
    credits: Option<FlowControl>,
}

impl<'a> FrameBuf<'a> {
    /// A frame with room for `bytes.len()` bytes and at most `records_max` records.
    #[inline]
    #[must_use]
    pub fn new(bytes: &'a mut [u8], records_max: usize) -> Self {
        Self {
            bytes,
            used: 0,
            records: 0,
            records_max,
            tail: Time::ZERO,
            handing: None,
        }
    }

    /// A frame that takes one packet without bytes, and the first flow control, as values; all else as bytes.
    #[inline]
    #[must_use]
    pub fn for_handing(bytes: &'a mut [u8]) -> Self {
        Self {
            handing: Some(Handing::default()),
            ..Self::new(bytes, usize::MAX)
        }
    }

    /// Adds a packet without bytes. `false` if the frame does not take it: it has one, or it is made of bytes.
    #[inline]
    pub fn hand(&mut self, packet: HandedPacket) -> bool {
        match &mut self.handing {
            Some(handing) if handing.packet.is_none() => {
                handing.packet = Some(packet);
                self.records += 1;
                true
            }
            _ => false,
        }
    }

    /// The packet that was added without bytes. It stands behind all records.
    #[inline]
    #[must_use]
    pub fn handed(&self) -> Option<&HandedPacket> {
        self.handing.as_ref()?.packet.as_ref()
    }

    /// Takes the flow control that was added as a value and stands alone: `None` where the frame has records.
    #[inline]
    pub fn take_credits(&mut self) -> Option<FlowControl> {
        match &mut self.handing {
            Some(handing) if self.used == 0 => handing.credits.take(),
            _ => None,
        }
    }

    /// Adds flow control, as a value where that is taken and nothing else is in the frame. `false` if it does not fit.
    #[inline]
    pub(crate) fn push_credits(&mut self, packet: FlowControl) -> bool {
        if let Some(handing) = &mut self.handing
            && self.used == 0
        {
            match handing.credits.take() {
                None => {
                    handing.credits = Some(packet);
                    self.records += 1;
                    return true;
                }
                Some(first) => {
                    // More than one: bytes after all.
                    self.records -= 1;
                    self.push_flow_control(first);
                }
            }
        }
        self.push_flow_control(packet)
    }

    fn push_flow_control(&mut self, packet: FlowControl) -> bool {
        self.push_record(RecordKind::FlowControl, FlowControl::LEN)
            .map(|out| packet.emit(out))
            .is_some()
    }

    /// Room for a record of `len` bytes behind its delimiter.
    #[inline]
    pub(crate) fn push_record(&mut self, kind: RecordKind, len: usize) -> Option<&mut [u8]> {
        let out = self.push(Delimiter::LEN + len)?;
        let (delimiter, rest) = out.split_at_mut(Delimiter::LEN);
        Delimiter {
            kind,
            len: u16::try_from(len).ok()?,
        }
        .emit(delimiter);
        Some(rest)
    }

    /// Whether a record of `len` bytes (delimiter and link packet) still fits.
    #[inline]
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
    #[inline]
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
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether no record was added.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// How many records were added.
    #[inline]
    #[must_use]
    pub fn records(&self) -> usize {
        self.records
    }

    /// When the last bit of the frame leaves at the link's rate; [`Time::ZERO`] if it holds link
    /// control only, which takes no time. Virtual time delivers by this; a daemon has no use for
    /// it.
    #[inline]
    #[must_use]
    pub fn tail(&self) -> Time {
        self.tail
    }

    /// Notes that the packet just pushed leaves until `tail`.
    #[inline]
    pub fn set_tail(&mut self, tail: Time) {
        self.tail = self.tail.max(tail);
    }

    /// The bytes written so far, to be changed.
    #[inline]
    #[must_use]
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.used]
    }

    /// The bytes written so far.
    #[inline]
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

    #[test]
    fn flow_control_is_a_value_as_long_as_it_is_alone() {
        let credits = |vl| FlowControl {
            op: wire::FlowOp::Normal,
            fctbs: 3,
            vl: wire::Vl::constant(vl),
            fccl: 9,
        };
        let mut memory = [0u8; 64];
        let mut frame = FrameBuf::for_handing(&mut memory);
        assert!(frame.push_credits(credits(0)));
        assert_eq!((frame.records(), frame.len()), (1, 0));
        assert_eq!(frame.take_credits(), Some(credits(0)));

        let mut frame = FrameBuf::for_handing(&mut memory);
        assert!((0..3).all(|vl| frame.push_credits(credits(vl))));
        assert_eq!((frame.records(), frame.take_credits()), (3, None));
        let as_value = frame.as_bytes().to_vec();
        let mut memory = [0u8; 64];
        let mut frame = FrameBuf::new(&mut memory, usize::MAX);
        assert!((0..3).all(|vl| frame.push_credits(credits(vl))));
        assert_eq!(frame.as_bytes(), as_value);
    }
}
