//! Extended transport headers, which follow the BTH as its opcode says (IBA 9.3).

use crate::format::{put_u24, put_u32, put_u64, u24_at, u32_at, u64_at};
use crate::{Format, ParseError, Qpn};

/// Datagram extended transport header (IBA 9.3.2).
///
/// ```text
/// +---------------------------------------------------------------+
/// |                            Q_Key                              |
/// +---------------+-----------------------------------------------+
/// |       0       |                    SrcQP                      |
/// +---------------+-----------------------------------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Deth {
    /// The key that opens the receiving queue pair.
    pub qkey: u32,
    /// The queue pair that sent this.
    pub src_qp: Qpn,
}

impl Deth {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 8;
    /// The Q_Key of QP1 (IBA 10.2.4): general services.
    pub const QKEY_GSI: u32 = 0x8001_0000;
}

impl Format for Deth {
    const NAME: &'static str = "DETH";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            qkey: u32_at(raw, 0),
            src_qp: Qpn::truncate(u24_at(raw, 5)),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u32(raw, 0, self.qkey);
        put_u24(raw, 5, self.src_qp.get());
    }
}

/// RDMA extended transport header (IBA 9.3.3): virtual address, remote key and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reth {
    /// Virtual address in the responder's memory.
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// Length of the whole operation in bytes.
    pub dma_len: u32,
}

impl Reth {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 16;
}

impl Format for Reth {
    const NAME: &'static str = "RETH";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            va: u64_at(raw, 0),
            rkey: u32_at(raw, 8),
            dma_len: u32_at(raw, 12),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u64(raw, 0, self.va);
        put_u32(raw, 8, self.rkey);
        put_u32(raw, 12, self.dma_len);
    }
}

/// ACK extended transport header (IBA 9.3.5): syndrome and message sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Aeth {
    /// ACK with credits, RNR NAK or NAK with its code (IBA 9.7.5.1).
    pub syndrome: u8,
    /// Message sequence number, 24 bits (emitting drops higher ones).
    pub msn: u32,
}

impl Aeth {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 4;
}

impl Format for Aeth {
    const NAME: &'static str = "AETH";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            syndrome: raw[0],
            msn: u24_at(raw, 1),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        raw[0] = self.syndrome;
        put_u24(raw, 1, self.msn);
    }
}
