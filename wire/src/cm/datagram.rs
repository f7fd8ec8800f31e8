//! The messages that find a service's queue pair of datagrams (IBA 12.11).

use super::{CmMessage, MESSAGE_LEN, id};
use crate::format::{
    array, put, put_u16, put_u24, put_u32, put_u64, u16_at, u24_at, u32_at, u64_at,
};
use crate::mad::AttributeId;
use crate::{Format, ParseError, Qpn};

/// Asks for the queue pair of a service (IBA 12.11.1).
///
/// ```text
///  0 request id | 4 P_Key | 8 service id (8) | 16 private data (216)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SidrReq {
    /// The sender's number of the request.
    pub request_id: u32,
    /// Partition key.
    pub pkey: u16,
    /// Which service.
    pub service_id: u64,
    /// For the service.
    pub private_data: [u8; Self::PRIVATE_LEN],
}

impl SidrReq {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 216;
}

impl Format for SidrReq {
    const NAME: &'static str = "CM SIDR_REQ";
    const LEN: usize = MESSAGE_LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            request_id: u32_at(raw, 0),
            pkey: u16_at(raw, 4),
            service_id: u64_at(raw, 8),
            private_data: array(raw, 16),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u32(raw, 0, self.request_id);
        put_u16(raw, 4, self.pkey);
        put_u64(raw, 8, self.service_id);
        put(raw, 16, self.private_data);
    }
}

impl CmMessage for SidrReq {
    const ID: AttributeId = id::SIDR_REQ;
}

/// What became of a [`SidrReq`] (IBA table 131).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SidrStatus(pub u8);

impl SidrStatus {
    /// The queue pair is there.
    pub const VALID: Self = Self(0);
    /// No such service.
    pub const UNSUPPORTED: Self = Self(1);
    /// The service refuses.
    pub const REJECTED: Self = Self(2);
    /// No queue pair.
    pub const NO_QP: Self = Self(3);
}

/// The queue pair of a service (IBA 12.11.2).
///
/// ```text
///  0 request id | 4 status | 5 info length | 8 QPN:24, 0:8 | 12 service id (8) | 20 Q_Key
/// 24 additional information (72) | 96 private data (136)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SidrRep {
    /// The request's number.
    pub request_id: u32,
    /// Whether there is one.
    pub status: SidrStatus,
    /// Bytes of additional information.
    pub info_len: u8,
    /// The queue pair.
    pub qpn: Qpn,
    /// The service.
    pub service_id: u64,
    /// The queue pair's Q_Key.
    pub qkey: u32,
    /// What the status needs to be understood.
    pub info: [u8; 72],
    /// For the consumer.
    pub private_data: [u8; Self::PRIVATE_LEN],
}

impl SidrRep {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 136;
}

impl Format for SidrRep {
    const NAME: &'static str = "CM SIDR_REP";
    const LEN: usize = MESSAGE_LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            request_id: u32_at(raw, 0),
            status: SidrStatus(raw[4]),
            info_len: raw[5],
            qpn: Qpn::truncate(u24_at(raw, 8)),
            service_id: u64_at(raw, 12),
            qkey: u32_at(raw, 20),
            info: array(raw, 24),
            private_data: array(raw, 96),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u32(raw, 0, self.request_id);
        raw[4] = self.status.0;
        raw[5] = self.info_len;
        put_u24(raw, 8, self.qpn.get());
        put_u64(raw, 12, self.service_id);
        put_u32(raw, 20, self.qkey);
        put(raw, 24, self.info);
        put(raw, 96, self.private_data);
    }
}

impl CmMessage for SidrRep {
    const ID: AttributeId = id::SIDR_REP;
}
