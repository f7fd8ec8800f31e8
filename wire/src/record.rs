//! Records: how several link packets share one Ethernet frame or datagram.
//!
//! InfiniBand distinguishes a data packet from a flow-control packet by the symbol before it, which is no
//! byte of the packet; a record puts a delimiter of four bytes in its place.
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! |     Kind      |       0       |    length in bytes behind     |
//! +---------------+---------------+-------------------------------+
//! ```
//!
//! | kind | behind the delimiter |
//! |---|---|
//! | 0 | padding: the rest of the frame is no record (short Ethernet frames are filled with zeros) |
//! | 1 | data packet, LRH to VCRC; PktLen must agree with the length |
//! | 2 | flow-control packet, 6 bytes |
//! | 3 | [`Training`], 24 bytes |
//! | 4 | link down, nothing |
//!
//! A record that is wrong in itself is dropped alone; one whose length runs past the frame ends
//! the frame, since nothing behind it can be found.

use crate::format::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};
use crate::lrh::Lrh;
use crate::{FlowControl, Format, Guid, LinkRates, ParseError, PortNum, crc};

/// The content of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RecordKind {
    /// A data packet.
    Data = 1,
    /// A flow-control packet.
    FlowControl = 2,
    /// The opening of a link.
    Training = 3,
    /// The sender's port goes down.
    LinkDown = 4,
}

/// The delimiter in front of every link packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Delimiter {
    /// What follows.
    pub kind: RecordKind,
    /// How many bytes follow.
    pub len: u16,
}

impl Delimiter {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 4;
}

/// Besides truncation, parsing refuses a kind that is not one of [`RecordKind`]. The reserved byte
/// is not looked at.
impl Format for Delimiter {
    const NAME: &'static str = "record delimiter";
    const LEN: usize = Self::LEN;

    #[inline]
    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        let kind = match raw[0] {
            1 => RecordKind::Data,
            2 => RecordKind::FlowControl,
            3 => RecordKind::Training,
            4 => RecordKind::LinkDown,
            other => {
                return Err(ParseError::BadValue {
                    what: "record kind",
                    value: u64::from(other),
                });
            }
        };
        Ok(Self {
            kind,
            len: u16_at(raw, 2),
        })
    }

    #[inline]
    fn write(&self, raw: &mut [u8]) {
        raw[0] = self.kind as u8;
        put_u16(raw, 2, self.len);
    }
}

/// One record of a frame: its length agrees with what the kind or PktLen says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// What it holds.
    pub kind: RecordKind,
    /// The link packet.
    pub bytes: &'a [u8],
}

/// The records of a frame, in order.
///
/// Yields an error for each record that is to be dropped. After an error the iterator goes on if
/// the length of the bad record is known, and ends otherwise.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    /// The records in `frame`, which starts behind the transport's header.
    #[inline]
    #[must_use]
    pub const fn new(frame: &'a [u8]) -> Self {
        Self { rest: frame }
    }

    /// The record at the front of the frame, which is not empty.
    #[inline]
    fn take(&mut self) -> Result<Record<'a>, ParseError> {
        let frame = core::mem::take(&mut self.rest);
        let Some((raw, behind)) = frame.split_first_chunk::<{ Delimiter::LEN }>() else {
            return Err(ParseError::Truncated {
                what: Delimiter::NAME,
                need: Delimiter::LEN,
                have: frame.len(),
            });
        };
        let len = usize::from(u16_at(raw, 2));
        let Some((bytes, rest)) = behind.split_at_checked(len) else {
            return Err(ParseError::Truncated {
                what: "record",
                need: len,
                have: behind.len(),
            });
        };
        self.rest = rest;
        let Delimiter { kind, .. } = Delimiter::read(raw)?;
        let stated = match kind {
            RecordKind::Data => match bytes.get(4..6) {
                Some(field) => usize::from(u16_at(field, 0) & Lrh::PKT_LEN_MAX) * 4 + 2,
                None => Lrh::LEN,
            },
            RecordKind::FlowControl => FlowControl::LEN,
            RecordKind::Training => Training::LEN,
            RecordKind::LinkDown => 0,
        };
        if stated != len {
            let what = match kind {
                RecordKind::Data => "data record",
                RecordKind::FlowControl => "flow-control record",
                RecordKind::Training => "training record",
                RecordKind::LinkDown => "link-down record",
            };
            return Err(ParseError::LengthMismatch {
                what,
                stated,
                actual: len,
            });
        }
        Ok(Record { kind, bytes })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, ParseError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.first().is_none_or(|&kind| kind == 0) {
            self.rest = &[];
            return None;
        }
        Some(self.take())
    }
}

impl core::iter::FusedIterator for Records<'_> {}

/// The longest record that a stream of records may hold, bytes with its delimiter: a data packet of the greatest PktLen.
pub const STREAM_RECORD_MAX: usize = Delimiter::LEN + Lrh::PKT_LEN_MAX as usize * 4 + 2;

/// How far the whole records at the front of a stream reach, in bytes; what is left is the beginning of one more. Here
/// every record counts, whatever its kind, but padding: a stream has none.
///
/// # Errors
/// [`ParseError::BadValue`] for padding; [`ParseError::LengthMismatch`] for a record longer than any may be. What follows cannot
/// be made sense of.
#[inline]
pub fn whole_records(stream: &[u8]) -> Result<usize, ParseError> {
    let mut end = 0;
    while let Some(raw) = stream[end..].first_chunk::<{ Delimiter::LEN }>() {
        let length = record_length(raw)?;
        if length > stream.len() - end {
            break;
        }
        end += length;
    }
    Ok(end)
}

/// The length of the record with this delimiter, and with it, in a stream of records.
///
/// # Errors
/// As [`whole_records`].
#[inline]
pub fn record_length(delimiter: &[u8; Delimiter::LEN]) -> Result<usize, ParseError> {
    if delimiter[0] == 0 {
        return Err(ParseError::BadValue {
            what: "record kind",
            value: 0,
        });
    }
    let length = Delimiter::LEN + usize::from(u16_at(delimiter, 2));
    if length > STREAM_RECORD_MAX {
        return Err(ParseError::LengthMismatch {
            what: "record of a stream",
            stated: length,
            actual: STREAM_RECORD_MAX,
        });
    }
    Ok(length)
}

/// The content of a training record: the sender, the widths and speeds that it may use, its epoch, and
/// the peer's epoch that it has received. Both ends send it until each has received its own epoch back from the other; then flow
/// control starts. An epoch that changes means that the peer has restarted and that its old credits
/// are void.
///
/// ```text
/// +---------------+---------------+-------------------------------+
/// |    Version    |     Port      |    Widths     |       0       |
/// +---------------+---------------+-------------------------------+
/// |                         NodeGUID (8)                          |
/// +---------------------------------------------------------------+
/// |                            Epoch                              |
/// +---------------------------------------------------------------+
/// |                          HeardEpoch                           |
/// +-------------------------------+-------------------------------+
/// |            Speeds             |        CRC, as LPCRC          |
/// +-------------------------------+-------------------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Training {
    /// GUID of the sending node.
    pub guid: Guid,
    /// The sending port.
    pub port: PortNum,
    /// Chosen anew by the sender each time its port starts to open the link; never 0.
    pub epoch: u32,
    /// The epoch last received from the peer; 0 is none yet.
    pub heard_epoch: u32,
    /// The widths and speeds that the link may have: LinkWidthEnabled's bits, and a bit for each speed from
    /// SDR (0) to XDR (8). They stay the same within an epoch. [`LinkRates::NONE`]: the sender leaves the
    /// choice to the receiver.
    pub rates: LinkRates,
}

impl Training {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 24;
    /// The version of this layout.
    pub const VERSION: u8 = 1;
    const CRC_AT: usize = 22;
}

/// Besides truncation, parsing refuses a wrong check sum, another version and epoch 0.
impl Format for Training {
    const NAME: &'static str = "training record";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        let (stated, computed) = (u16_at(raw, Self::CRC_AT), crc::lpcrc(&raw[..Self::CRC_AT]));
        if stated != computed {
            return Err(ParseError::BadCrc {
                what: "training record",
                stated: u32::from(stated),
                computed: u32::from(computed),
            });
        }
        ParseError::check_version(Self::NAME, raw[0], Self::VERSION)?;
        let epoch = u32_at(raw, 12);
        if epoch == 0 {
            return Err(ParseError::BadValue {
                what: "training epoch",
                value: 0,
            });
        }
        Ok(Self {
            guid: Guid(u64_at(raw, 4)),
            port: PortNum::new(raw[1]),
            epoch,
            heard_epoch: u32_at(raw, 16),
            rates: LinkRates::from_bits(raw[2], u16_at(raw, 20)),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        raw[0] = Self::VERSION;
        raw[1] = self.port.get();
        put_u64(raw, 4, self.guid.0);
        put_u32(raw, 12, self.epoch);
        put_u32(raw, 16, self.heard_epoch);
        raw[2] = self.rates.width_bits();
        put_u16(raw, 20, self.rates.speed_bits());
        let crc = crc::lpcrc(&raw[..Self::CRC_AT]);
        put_u16(raw, Self::CRC_AT, crc);
    }
}
