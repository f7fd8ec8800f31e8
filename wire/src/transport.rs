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

impl Aeth {
    /// The syndrome; `None` if its value is reserved.
    #[must_use]
    pub const fn decoded(&self) -> Option<Syndrome> {
        Syndrome::from_bits(self.syndrome)
    }
}

/// Why a responder refuses a request (IBA 9.7.5.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum NakCode {
    /// A packet before this one is missing.
    PsnSequenceError = 0,
    /// The request breaks the protocol, or the queue pair does not serve it.
    InvalidRequest = 1,
    /// The remote key, the access right or a bound is wrong.
    RemoteAccessError = 2,
    /// The responder cannot complete the request because of an error of its own.
    RemoteOperationalError = 3,
    /// Reliable datagrams only: an invalid request of that service.
    InvalidRdRequest = 4,
}

/// The meaning of [`Aeth::syndrome`] (IBA 9.7.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Syndrome {
    /// Acknowledge. The credit code, 0..=31: see [`Syndrome::credits`].
    Ack(u8),
    /// Receiver not ready. The timer code, 0..=31: see [`Syndrome::rnr_ns`].
    RnrNak(u8),
    /// Negative acknowledge.
    Nak(NakCode),
}

impl Syndrome {
    /// The credit code that says nothing of credits: there is no end-to-end flow control.
    pub const CREDITS_INVALID: u8 = 31;

    /// The meaning of a syndrome's bits; `None` if they are reserved.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match (bits >> 5, bits & 0x1f) {
            (0, code) => Some(Self::Ack(code)),
            (1, code) => Some(Self::RnrNak(code)),
            (3, 0) => Some(Self::Nak(NakCode::PsnSequenceError)),
            (3, 1) => Some(Self::Nak(NakCode::InvalidRequest)),
            (3, 2) => Some(Self::Nak(NakCode::RemoteAccessError)),
            (3, 3) => Some(Self::Nak(NakCode::RemoteOperationalError)),
            (3, 4) => Some(Self::Nak(NakCode::InvalidRdRequest)),
            _ => None,
        }
    }

    /// The bits. Of a code only the low five are used.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::Ack(code) => code & 0x1f,
            Self::RnrNak(code) => 0x20 | (code & 0x1f),
            Self::Nak(code) => 0x60 | code as u8,
        }
    }

    /// How many receive work requests a credit code stands for (IBA table 47); `None` for
    /// [`Self::CREDITS_INVALID`] and above.
    #[must_use]
    pub const fn credits(code: u8) -> Option<u32> {
        match code {
            0..=3 => Some(code as u32),
            // Two codes a power of two: 4, 6, 8, 12, 16, 24, ...
            4..=30 if code.is_multiple_of(2) => Some(4 << ((code - 4) / 2)),
            4..=30 => Some(6 << ((code - 5) / 2)),
            _ => None,
        }
    }

    /// The largest credit code that promises no more than `available` receive work requests.
    #[must_use]
    pub fn credit_code(available: u32) -> u8 {
        let fits = |code: &u8| Self::credits(*code).is_some_and(|credits| credits <= available);
        (0..Self::CREDITS_INVALID).rev().find(fits).unwrap_or(0)
    }

    /// How long a requester waits after an RNR NAK with this timer code (IBA table 45), in nanoseconds.
    #[must_use]
    pub const fn rnr_ns(code: u8) -> u64 {
        let hundredths_of_a_ms = match code & 0x1f {
            0 => 65_536,
            code @ 1..=4 => code as u64,
            // Two codes a power of two: 0.06, 0.08, 0.12, 0.16, ... ms.
            code if code % 2 == 1 => 6 << ((code - 5) / 2),
            code => 8 << ((code - 6) / 2),
        };
        hundredths_of_a_ms * 10_000
    }
}

/// Atomic extended transport header (IBA 9.3.4): compare and swap, or fetch and add.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AtomicEth {
    /// Virtual address in the responder's memory; a multiple of 8.
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// What is stored if the comparison holds, or what is added.
    pub swap_or_add: u64,
    /// What the memory is compared with; without meaning when adding.
    pub compare: u64,
}

impl AtomicEth {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 28;
}

impl Format for AtomicEth {
    const NAME: &'static str = "AtomicETH";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            va: u64_at(raw, 0),
            rkey: u32_at(raw, 8),
            swap_or_add: u64_at(raw, 12),
            compare: u64_at(raw, 20),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u64(raw, 0, self.va);
        put_u32(raw, 8, self.rkey);
        put_u64(raw, 12, self.swap_or_add);
        put_u64(raw, 20, self.compare);
    }
}

/// Atomic ACK extended transport header (IBA 9.3.5.3): what the memory held before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AtomicAckEth {
    /// The original value.
    pub original: u64,
}

impl AtomicAckEth {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 8;
}

impl Format for AtomicAckEth {
    const NAME: &'static str = "AtomicAckETH";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            original: u64_at(raw, 0),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u64(raw, 0, self.original);
    }
}
