//! The messages that end a connection, and those that load an alternate path (IBA 12.6.10, 12.6.11, 12.8).

use super::connection::CmPath;
use super::{CmMessage, MESSAGE_LEN, id};
use crate::format::{array, put, put_u24, put_u32, u24_at, u32_at};
use crate::mad::AttributeId;
use crate::{Format, ParseError, Qpn};

/// Ends a connection (IBA 12.6.10).
///
/// ```text
///  0 local communication id | 4 remote communication id | 8 remote QPN:24, 0:8 | 12 private data (220)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dreq {
    /// The sender's number of the connection.
    pub local_comm_id: u32,
    /// The receiver's number of the connection.
    pub remote_comm_id: u32,
    /// The receiver's queue pair.
    pub remote_qpn: Qpn,
    /// For the consumer.
    pub private_data: [u8; 220],
}

impl Format for Dreq {
    const NAME: &'static str = "CM DREQ";
    const LEN: usize = MESSAGE_LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            local_comm_id: u32_at(raw, 0),
            remote_comm_id: u32_at(raw, 4),
            remote_qpn: Qpn::truncate(u24_at(raw, 8)),
            private_data: array(raw, 12),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u32(raw, 0, self.local_comm_id);
        put_u32(raw, 4, self.remote_comm_id);
        put_u24(raw, 8, self.remote_qpn.get());
        put(raw, 12, self.private_data);
    }
}

impl CmMessage for Dreq {
    const ID: AttributeId = id::DREQ;
}

/// The connection has ended (IBA 12.6.11).
///
/// ```text
///  0 local communication id | 4 remote communication id | 8 private data (224)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Drep {
    /// The sender's number of the connection.
    pub local_comm_id: u32,
    /// The receiver's number of the connection.
    pub remote_comm_id: u32,
    /// For the consumer.
    pub private_data: [u8; 224],
}

impl Format for Drep {
    const NAME: &'static str = "CM DREP";
    const LEN: usize = MESSAGE_LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            local_comm_id: u32_at(raw, 0),
            remote_comm_id: u32_at(raw, 4),
            private_data: array(raw, 8),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u32(raw, 0, self.local_comm_id);
        put_u32(raw, 4, self.remote_comm_id);
        put(raw, 8, self.private_data);
    }
}

impl CmMessage for Drep {
    const ID: AttributeId = id::DREP;
}

/// Loads a path for migration (IBA 12.8.1); only what names the connection and the path is kept.
///
/// ```text
///  0 local communication id | 4 remote communication id | 12 remote QPN:24, ... | 20 alternate path (44)
/// 64 private data (168)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lap {
    /// The sender's number of the connection.
    pub local_comm_id: u32,
    /// The receiver's number of the connection.
    pub remote_comm_id: u32,
    /// The receiver's queue pair.
    pub remote_qpn: Qpn,
    /// For the consumer.
    pub private_data: [u8; 168],
}

impl Format for Lap {
    const NAME: &'static str = "CM LAP";
    const LEN: usize = MESSAGE_LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            local_comm_id: u32_at(raw, 0),
            remote_comm_id: u32_at(raw, 4),
            remote_qpn: Qpn::truncate(u24_at(raw, 12)),
            private_data: array(raw, 20 + CmPath::LEN),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u32(raw, 0, self.local_comm_id);
        put_u32(raw, 4, self.remote_comm_id);
        put_u24(raw, 12, self.remote_qpn.get());
        put(raw, 20 + CmPath::LEN, self.private_data);
    }
}

impl CmMessage for Lap {
    const ID: AttributeId = id::LAP;
}

/// The answer to [`Lap`] (IBA 12.8.2).
///
/// ```text
///  0 local communication id | 4 remote communication id | 8 info length | 9 status
/// 12 additional information (72) | 84 private data (148)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Apr {
    /// The sender's number of the connection.
    pub local_comm_id: u32,
    /// The receiver's number of the connection.
    pub remote_comm_id: u32,
    /// Bytes of additional information.
    pub info_len: u8,
    /// 0 accepted, otherwise why not.
    pub status: u8,
    /// What the status needs to be understood.
    pub info: [u8; 72],
    /// For the consumer.
    pub private_data: [u8; 148],
}

impl Apr {
    /// Status: alternate paths are not supported.
    pub const NOT_SUPPORTED: u8 = 2;
}

impl Format for Apr {
    const NAME: &'static str = "CM APR";
    const LEN: usize = MESSAGE_LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            local_comm_id: u32_at(raw, 0),
            remote_comm_id: u32_at(raw, 4),
            info_len: raw[8],
            status: raw[9],
            info: array(raw, 12),
            private_data: array(raw, 84),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u32(raw, 0, self.local_comm_id);
        put_u32(raw, 4, self.remote_comm_id);
        raw[8] = self.info_len;
        raw[9] = self.status;
        put(raw, 12, self.info);
        put(raw, 84, self.private_data);
    }
}

impl CmMessage for Apr {
    const ID: AttributeId = id::APR;
}
