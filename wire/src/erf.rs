//! Captures: ERF records in a pcap file, which stock Wireshark and tshark decode.
//!
//! pcap's own link type for InfiniBand has no decoder there; ERF (link type 197) has, with record
//! type 21 for packets that start with an LRH and 25 for flow-control packets.
//!
//! ```text
//! pcap record (16): seconds, microseconds, bytes captured, bytes on the wire; little endian
//! ERF record  (16): timestamp (8, little endian, seconds in 1/2^32), type, flags,
//!                   record length (2), loss counter (2), bytes on the wire (2); big endian
//! ```
//! Flow-control packets are filled up to 48 bytes: tshark 4.0 reads on behind their six, as if an
//! LRH stood there, and calls what ends too early malformed.

use std::io::{self, Write};

use crate::record::RecordKind;

const PCAP_MAGIC: u32 = 0xa1b2_c3d4;
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

    /// Adds one link packet, seen `time_ns` nanoseconds after 1970 (or after any other origin).
    /// Training and link-down records are no InfiniBand packets and are left out. Seconds wrap
    /// at 2^32.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a packet above 65,519 bytes; errors of writing.
    pub fn write(&mut self, time_ns: u64, kind: RecordKind, packet: &[u8]) -> io::Result<()> {
        let (erf_type, fill) = match kind {
            RecordKind::Data => (TYPE_INFINIBAND, &[][..]),
            RecordKind::FlowControl => (
                TYPE_INFINIBAND_LINK,
                FILL.get(packet.len()..).unwrap_or_default(),
            ),
            RecordKind::Training | RecordKind::LinkDown => return Ok(()),
        };
        let too_long = || io::Error::new(io::ErrorKind::InvalidInput, "link packet too long");
        let wire_len = u16::try_from(packet.len() + fill.len()).map_err(|_| too_long())?;
        let record_len = wire_len.checked_add(ERF_HEADER_LEN).ok_or_else(too_long)?;

        let (seconds, nanos) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
        let [s0, s1, s2, s3, ..] = seconds.to_le_bytes();
        let fraction = (nanos << 32) / 1_000_000_000;
        let micros = nanos / 1000;

        let mut header = [0; 32];
        header[0..4].copy_from_slice(&[s0, s1, s2, s3]);
        header[4..8].copy_from_slice(&micros.to_le_bytes()[..4]);
        header[8..12].copy_from_slice(&u32::from(record_len).to_le_bytes());
        header[12..16].copy_from_slice(&u32::from(record_len).to_le_bytes());
        header[16..20].copy_from_slice(&fraction.to_le_bytes()[..4]);
        header[20..24].copy_from_slice(&[s0, s1, s2, s3]);
        header[24] = erf_type;
        header[25] = FLAG_VARYING_LENGTH;
        header[26..28].copy_from_slice(&record_len.to_be_bytes());
        header[30..32].copy_from_slice(&wire_len.to_be_bytes());
        self.out.write_all(&header)?;
        self.out.write_all(packet)?;
        self.out.write_all(fill)
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
