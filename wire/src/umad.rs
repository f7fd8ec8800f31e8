//! The header of a user MAD: what stands before a management datagram where a program hands it to the
//! kernel's `ib_umad`, and gets it from there (`struct ib_user_mad`, ABI version 5).
//!
//! ```text
//! offset 0 agent | 4 status | 8 timeout, ms | 12 retries | 16 length, header and MAD
//!       20 QP (4) | 24 Q_Key (4) | 28 LID (2) | 30 SL | 31 path bits
//!       32 GRH present | 33 GID index | 34 hop limit | 35 traffic class | 36 GID (16) | 52 flow label (4)
//!       56 P_Key index (2) | 58 reserved (6) | 64 MAD
//! ```
//!
//! The numbers up to the length, and the P_Key index, are in host byte order; only little-endian hosts are
//! covered. The others are in network byte order.

use crate::format::{array, put, put_u16, put_u32, u16_at, u32_at};
use crate::{Format, Gid, ParseError};

/// The header of a user MAD. Every value is allowed: the handler decides what it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct UserMadHeader {
    /// The agent that sends it, or is given it.
    pub agent: u32,
    /// 0, or the number of an error (errno) with which a MAD comes back: [`Self::TIMED_OUT`].
    pub status: u32,
    /// How long a request waits for its answer, milliseconds; 0: for none.
    pub timeout_ms: u32,
    /// How often a request without an answer is sent again.
    pub retries: u32,
    /// Bytes of header and MAD, on the way to the program.
    pub length: u32,
    /// Remote queue pair.
    pub qpn: u32,
    /// Remote Q_Key.
    pub qkey: u32,
    /// Remote LID.
    pub lid: u16,
    /// Service level.
    pub sl: u8,
    /// The low bits of the local LID.
    pub path_bits: u8,
    /// Whether there is a GRH: the fields up to the flow label count.
    pub grh_present: u8,
    /// Which of the local GIDs it names.
    pub gid_index: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Remote GID.
    pub gid: Gid,
    /// Flow label.
    pub flow_label: u32,
    /// Index of the P_Key in the port's table.
    pub pkey_index: u16,
}

impl UserMadHeader {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 64;
    /// Status of a request that has had no answer: `ETIMEDOUT`.
    pub const TIMED_OUT: u32 = 110;
    /// Status of a MAD that is not sent: `EINVAL`.
    pub const INVALID: u32 = 22;
    /// Status of a MAD that there is no room for: `ENOMEM`.
    pub const NO_ROOM: u32 = 12;
}

fn host_u32_at(raw: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(raw, at))
}

fn put_host_u32(raw: &mut [u8], at: usize, value: u32) {
    put(raw, at, value.to_le_bytes());
}

impl Format for UserMadHeader {
    const NAME: &'static str = "user MAD header";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            agent: host_u32_at(raw, 0),
            status: host_u32_at(raw, 4),
            timeout_ms: host_u32_at(raw, 8),
            retries: host_u32_at(raw, 12),
            length: host_u32_at(raw, 16),
            qpn: u32_at(raw, 20),
            qkey: u32_at(raw, 24),
            lid: u16_at(raw, 28),
            sl: raw[30],
            path_bits: raw[31],
            grh_present: raw[32],
            gid_index: raw[33],
            hop_limit: raw[34],
            traffic_class: raw[35],
            gid: Gid(array(raw, 36)),
            flow_label: u32_at(raw, 52),
            pkey_index: u16::from_le_bytes(array(raw, 56)),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_host_u32(raw, 0, self.agent);
        put_host_u32(raw, 4, self.status);
        put_host_u32(raw, 8, self.timeout_ms);
        put_host_u32(raw, 12, self.retries);
        put_host_u32(raw, 16, self.length);
        put_u32(raw, 20, self.qpn);
        put_u32(raw, 24, self.qkey);
        put_u16(raw, 28, self.lid);
        raw[30] = self.sl;
        raw[31] = self.path_bits;
        raw[32] = self.grh_present;
        raw[33] = self.gid_index;
        raw[34] = self.hop_limit;
        raw[35] = self.traffic_class;
        put(raw, 36, self.gid.0);
        put_u32(raw, 52, self.flow_label);
        put(raw, 56, self.pkey_index.to_le_bytes());
    }
}
