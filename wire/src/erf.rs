//! Captures: ERF records in a pcap file, which stock Wireshark and tshark decode.
//!
//! pcap's own link type for InfiniBand has no decoder there; ERF (link type 197) has, with record
//! type 21 for packets that start with an LRH and 25 for flow-control packets.
//!
//! ```text
//! pcap record (16): seconds, nanoseconds, bytes captured, bytes on the wire; little endian
//! ERF record  (16): timestamp (8, little endian, seconds in 1/2^32), type, flags,
//!                   record length (2), loss counter (2), bytes on the wire (2); big endian
//! ```
//! The number of an ERF record's interface is the direction: 0 for a packet that the port has received, 1 for one that it has sent.
//! Flow-control packets are filled up to 48 bytes: tshark 4.0 reads on behind their six, as if an
//! LRH stood there, and calls what ends too early malformed.

use std::io::{self, Write};

use crate::capture::Direction;
use crate::convert;
use crate::record::RecordKind;

/// pcap with times in nanoseconds.
const PCAP_MAGIC: u32 = 0xa1b2_3c4d;
const LINKTYPE_ERF: u32 = 197;
const SNAP_LEN: u32 = 65_535;
const ERF_HEADER_LEN: u16 = 16;
const TYPE_INFINIBAND: u8 = 21;
const TYPE_INFINIBAND_LINK: u8 = 25;
/// The length to which flow-control packets are filled up, and with what: no opcode, so that
/// tshark does not name one.
const FLOW_CONTROL_LEN: usize = 48;
const FILL: [u8; FLOW_CONTROL_LEN] = [0xff; FLOW_CONTROL_LEN];
/// Records vary in length.
const FLAG_VARYING_LENGTH: u8 = 0x04;
/// The record has fewer bytes than the packet.
const FLAG_TRUNCATED: u8 = 0x08;
/// What pcap and ERF put before the bytes of a packet.
const HEADERS_LEN: usize = 32;

/// What is said of a packet beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When, nanoseconds after 1970 (or after any other origin). Seconds wrap at 2^32.
    pub time_ns: u64,
    /// What the packet is.
    pub kind: RecordKind,
    /// Which way it went, if that is known.
    pub direction: Option<Direction>,
    /// How many bytes it has on the link; there may be fewer of them here.
    pub wire_len: usize,
    /// Packets that should stand between the one before and this one, and are lost.
    pub lost: u64,
}

/// Writes link packets as a capture file.
#[derive(Debug)]
pub struct ErfWriter<W> {
    out: W,
}

impl<W: Write> ErfWriter<W> {
    /// Starts a capture file.
    ///
    /// # Errors
    /// Errors of writing to `out`.
    pub fn new(mut out: W) -> io::Result<Self> {
        let mut header = [0; 24];
        header[0..4].copy_from_slice(&PCAP_MAGIC.to_le_bytes());
        header[4..6].copy_from_slice(&2u16.to_le_bytes());
        header[6..8].copy_from_slice(&4u16.to_le_bytes());
        header[16..20].copy_from_slice(&SNAP_LEN.to_le_bytes());
        header[20..24].copy_from_slice(&LINKTYPE_ERF.to_le_bytes());
        out.write_all(&header)?;
        Ok(Self { out })
    }

    /// Adds one whole link packet, seen `time_ns` nanoseconds after 1970 (or after any other origin).
    /// Training and link-down records are no InfiniBand packets and are left out. Seconds wrap
    /// at 2^32.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a packet above 65,519 bytes; errors of writing.
    pub fn write(&mut self, time_ns: u64, kind: RecordKind, packet: &[u8]) -> io::Result<()> {
        let seen = Seen {
            time_ns,
            kind,
            direction: None,
            wire_len: packet.len(),
            lost: 0,
        };
        self.add(&seen, packet).map(drop)
    }

    /// Adds one link packet, of which `packet` are the first bytes. Training and link-down records are left out. How many bytes
    /// were written.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn add(&mut self, seen: &Seen, packet: &[u8]) -> io::Result<usize> {
        let (erf_type, fill) = match seen.kind {
            RecordKind::Data => (TYPE_INFINIBAND, &[][..]),
            RecordKind::FlowControl => (
                TYPE_INFINIBAND_LINK,
                FILL.get(packet.len()..).unwrap_or_default(),
            ),
            RecordKind::Training | RecordKind::LinkDown => return Ok(0),
        };
        let too_long = || io::Error::new(io::ErrorKind::InvalidInput, "link packet too long");
        let with_header = |len: usize| {
            let len = u16::try_from(len).map_err(|_| too_long())?;
            let record = len.checked_add(ERF_HEADER_LEN).ok_or_else(too_long)?;
            Ok::<_, io::Error>((len, record))
        };
        let (wire_len, whole_len) = with_header(seen.wire_len.max(packet.len()) + fill.len())?;
        let (_, record_len) = with_header(packet.len() + fill.len())?;

        let (seconds, nanos) = (seen.time_ns / 1_000_000_000, seen.time_ns % 1_000_000_000);
        let [s0, s1, s2, s3, ..] = seconds.to_le_bytes();
        let fraction = (nanos << 32) / 1_000_000_000;
        let interface = u8::from(seen.direction == Some(Direction::Sent));
        let truncated = if record_len < whole_len {
            FLAG_TRUNCATED
        } else {
            0
        };

        let mut header = [0; HEADERS_LEN];
        header[0..4].copy_from_slice(&[s0, s1, s2, s3]);
        header[4..8].copy_from_slice(&nanos.to_le_bytes()[..4]);
        header[8..12].copy_from_slice(&u32::from(record_len).to_le_bytes());
        header[12..16].copy_from_slice(&u32::from(whole_len).to_le_bytes());
        header[16..20].copy_from_slice(&fraction.to_le_bytes()[..4]);
        header[20..24].copy_from_slice(&[s0, s1, s2, s3]);
        header[24] = erf_type;
        header[25] = FLAG_VARYING_LENGTH | truncated | interface;
        header[26..28].copy_from_slice(&record_len.to_be_bytes());
        header[28..30].copy_from_slice(&convert::saturate::<u16>(seen.lost).to_be_bytes());
        header[30..32].copy_from_slice(&wire_len.to_be_bytes());
        self.out.write_all(&header)?;
        self.out.write_all(packet)?;
        self.out.write_all(fill)?;
        Ok(HEADERS_LEN + packet.len() + fill.len())
    }

    /// Hands on what is buffered.
    ///
    /// # Errors
    /// Errors of flushing.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Flushes and gives back what was written to.
    ///
    /// # Errors
    /// Errors of flushing.
    pub fn into_inner(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}
