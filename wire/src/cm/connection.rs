//! The messages that make a connection (IBA 12.6.5 to 12.6.9).

use super::{CmMessage, MESSAGE_LEN, id};
use crate::format::{
    array, nibbles, put, put_u16, put_u24, put_u32, put_u64, u16_at, u24_at, u32_at, u64_at,
};
use crate::mad::AttributeId;
use crate::{Format, Gid, Guid, Lid, ParseError, Psn, Qpn, Sl};

/// A path of a connection, as [`Req`] and [`Lap`](super::Lap) carry it. All zero where there is none.
///
/// ```text
///  0 local LID | 2 remote LID | 4 local GID (16) | 20 remote GID (16)
/// 36 flow label:20, 0:6, packet rate:6
/// 40 traffic class | 41 hop limit | 42 SL:4, subnet local:1, 0:3 | 43 local ACK timeout:5, 0:3
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CmPath {
    /// LID of the sender of the message.
    pub local_lid: Lid,
    /// LID of its receiver.
    pub remote_lid: Lid,
    /// GID of the sender.
    pub local_gid: Gid,
    /// GID of the receiver.
    pub remote_gid: Gid,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Rate: code of [`LinkRate`](crate::rate::LinkRate), 6 bits.
    pub packet_rate: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Service level.
    pub sl: Sl,
    /// Both ends are in one subnet.
    pub subnet_local: bool,
    /// ACK timeout of the sender's queue pair: 4.096 us times two to this power, 5 bits.
    pub local_ack_timeout: u8,
}

impl CmPath {
    /// The length in bytes.
    pub(super) const LEN: usize = 44;

    pub(super) fn read(raw: &[u8]) -> Self {
        let word = u32_at(raw, 36);
        Self {
            local_lid: Lid::new(u16_at(raw, 0)),
            remote_lid: Lid::new(u16_at(raw, 2)),
            local_gid: Gid(array(raw, 4)),
            remote_gid: Gid(array(raw, 20)),
            flow_label: word >> 12,
            packet_rate: raw[39] & 0x3f,
            traffic_class: raw[40],
            hop_limit: raw[41],
            sl: Sl::truncate(raw[42] >> 4),
            subnet_local: raw[42] & 0x08 != 0,
            local_ack_timeout: raw[43] >> 3,
        }
    }

    pub(super) fn write(&self, raw: &mut [u8]) {
        put_u16(raw, 0, self.local_lid.get());
        put_u16(raw, 2, self.remote_lid.get());
        put(raw, 4, self.local_gid.0);
        put(raw, 20, self.remote_gid.0);
        put_u32(
            raw,
            36,
            (self.flow_label << 12) | u32::from(self.packet_rate & 0x3f),
        );
        raw[40] = self.traffic_class;
        raw[41] = self.hop_limit;
        raw[42] = nibbles(self.sl.get(), u8::from(self.subnet_local) << 3);
        raw[43] = self.local_ack_timeout << 3;
    }
}

/// Asks for a connection (IBA 12.6.5).
///
/// ```text
///   0 local communication id | 8 service id (8) | 16 local CA GUID (8) | 28 local Q_Key
///  32 local QPN:24, responder resources:8 | 36 local EECN:24, initiator depth:8
///  40 remote EECN:24, remote CM response timeout:5, transport service:2, end-to-end flow control:1
///  44 starting PSN:24, local CM response timeout:5, retry count:3
///  48 P_Key:16 | 50 path MTU:4, RDC exists:1, RNR retry count:3 | 51 max CM retries:4, SRQ:1, 0:3
///  52 primary path (44) | 96 alternate path (44) | 140 private data (92)
/// ```
///
/// Fields of reliable datagrams (end-to-end contexts) and of extended transports are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Req {
    /// The sender's number of the connection.
    pub local_comm_id: u32,
    /// Which service is asked for.
    pub service_id: u64,
    /// GUID of the sender's adapter.
    pub local_ca_guid: Guid,
    /// The sender's Q_Key; datagrams only.
    pub local_qkey: u32,
    /// The sender's queue pair.
    pub local_qpn: Qpn,
    /// READs and atomics that the sender answers at a time.
    pub responder_resources: u8,
    /// READs and atomics that the sender has under way at a time.
    pub initiator_depth: u8,
    /// How long the receiver may take to answer: 4.096 us times two to this power, 5 bits.
    pub remote_cm_response_timeout: u8,
    /// 0 reliable, 1 unreliable connection; 2 bits.
    pub transport_service: u8,
    /// The sender's queue pair issues credits.
    pub end_to_end_flow_control: bool,
    /// Where the receiver's packets shall start.
    pub starting_psn: Psn,
    /// How long the sender may take to answer; 5 bits.
    pub local_cm_response_timeout: u8,
    /// Repetitions of packets, 3 bits.
    pub retry_count: u8,
    /// Partition key.
    pub pkey: u16,
    /// Code of [`Mtu`](crate::mtu::Mtu), 4 bits.
    pub path_mtu: u8,
    /// Repetitions after RNR NAKs, 3 bits.
    pub rnr_retry_count: u8,
    /// Repetitions of messages of communication management, 4 bits.
    pub max_cm_retries: u8,
    /// The sender's queue pair uses a shared receive queue.
    pub srq: bool,
    /// The path.
    pub primary: CmPath,
    /// The path for migration; all zero for none.
    pub alternate: CmPath,
    /// For the service.
    pub private_data: [u8; Self::PRIVATE_LEN],
}

impl Req {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 92;
}

impl Format for Req {
    const NAME: &'static str = "CM REQ";
    const LEN: usize = MESSAGE_LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            local_comm_id: u32_at(raw, 0),
            service_id: u64_at(raw, 8),
            local_ca_guid: Guid(u64_at(raw, 16)),
            local_qkey: u32_at(raw, 28),
            local_qpn: Qpn::truncate(u24_at(raw, 32)),
            responder_resources: raw[35],
            initiator_depth: raw[39],
            remote_cm_response_timeout: raw[43] >> 3,
            transport_service: raw[43] >> 1 & 3,
            end_to_end_flow_control: raw[43] & 1 != 0,
            starting_psn: Psn::truncate(u24_at(raw, 44)),
            local_cm_response_timeout: raw[47] >> 3,
            retry_count: raw[47] & 7,
            pkey: u16_at(raw, 48),
            path_mtu: raw[50] >> 4,
            rnr_retry_count: raw[50] & 7,
            max_cm_retries: raw[51] >> 4,
            srq: raw[51] & 0x08 != 0,
            primary: CmPath::read(&raw[52..96]),
            alternate: CmPath::read(&raw[96..140]),
            private_data: array(raw, 140),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u32(raw, 0, self.local_comm_id);
        put_u64(raw, 8, self.service_id);
        put_u64(raw, 16, self.local_ca_guid.0);
        put_u32(raw, 28, self.local_qkey);
        put_u24(raw, 32, self.local_qpn.get());
        raw[35] = self.responder_resources;
        raw[39] = self.initiator_depth;
        raw[43] = self.remote_cm_response_timeout << 3
            | (self.transport_service & 3) << 1
            | u8::from(self.end_to_end_flow_control);
        put_u24(raw, 44, self.starting_psn.get());
        raw[47] = self.local_cm_response_timeout << 3 | self.retry_count & 7;
        put_u16(raw, 48, self.pkey);
        raw[50] = self.path_mtu << 4 | self.rnr_retry_count & 7;
        raw[51] = self.max_cm_retries << 4 | u8::from(self.srq) << 3;
        self.primary.write(&mut raw[52..52 + CmPath::LEN]);
        self.alternate.write(&mut raw[96..96 + CmPath::LEN]);
        put(raw, 140, self.private_data);
    }
}

impl CmMessage for Req {
    const ID: AttributeId = id::REQ;
}

/// Which message [`Mra`] and [`Rej`] answer; 2 bits, 3 is no message's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Subject {
    /// [`Req`].
    #[default]
    Req = 0,
    /// [`Rep`].
    Rep = 1,
    /// [`Lap`](super::Lap); in a [`Rej`] no message: the connection ends for another reason.
    Other = 2,
}

impl Subject {
    fn of_bits(bits: u8, what: &'static str) -> Result<Self, ParseError> {
        match bits {
            0 => Ok(Self::Req),
            1 => Ok(Self::Rep),
            2 => Ok(Self::Other),
            value => Err(ParseError::BadValue {
                what,
                value: value.into(),
            }),
        }
    }
}

/// The receiver has the message and needs longer for its answer (IBA 12.6.6).
///
/// ```text
///  0 local communication id | 4 remote communication id | 8 message:2, 0:6 | 9 service timeout:5, 0:3
/// 10 private data (222)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mra {
    /// The sender's number of the connection.
    pub local_comm_id: u32,
    /// The receiver's number of the connection.
    pub remote_comm_id: u32,
    /// Which message.
    pub message: Subject,
    /// How long the answer takes: 4.096 us times two to this power, 5 bits.
    pub service_timeout: u8,
    /// For the consumer.
    pub private_data: [u8; 222],
}

impl Format for Mra {
    const NAME: &'static str = "CM MRA";
    const LEN: usize = MESSAGE_LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            local_comm_id: u32_at(raw, 0),
            remote_comm_id: u32_at(raw, 4),
            message: Subject::of_bits(raw[8] >> 6, "CM MRA:MessageMRAed")?,
            service_timeout: raw[9] >> 3,
            private_data: array(raw, 10),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u32(raw, 0, self.local_comm_id);
        put_u32(raw, 4, self.remote_comm_id);
        raw[8] = (self.message as u8) << 6;
        raw[9] = self.service_timeout << 3;
        put(raw, 10, self.private_data);
    }
}

impl CmMessage for Mra {
    const ID: AttributeId = id::MRA;
}

/// Why a connection is refused or ends (IBA table 109).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RejReason(pub u16);

impl RejReason {
    /// No queue pair.
    pub const NO_QP: Self = Self(1);
    /// No resources.
    pub const NO_RESOURCES: Self = Self(3);
    /// A message has not come in time.
    pub const TIMEOUT: Self = Self(4);
    /// The request names this queue pair or communication id, which another connection has.
    pub const STALE_CONNECTION: Self = Self(10);
    /// A communication id does not exist.
    pub const INVALID_COMM_ID: Self = Self(6);
    /// No such transport service.
    pub const INVALID_TRANSPORT: Self = Self(9);
    /// No such service.
    pub const INVALID_SERVICE_ID: Self = Self(8);
    /// The consumer says no; the private data may say why.
    pub const CONSUMER: Self = Self(28);
}

/// Refuses a connection, or ends one that is not established (IBA 12.6.7).
///
/// ```text
///  0 local communication id | 4 remote communication id | 8 message:2, 0:6 | 9 info length:7, 0:1 | 10 reason
/// 12 additional information (72) | 84 private data (148)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rej {
    /// The sender's number of the connection; 0 if it has none.
    pub local_comm_id: u32,
    /// The receiver's number of the connection.
    pub remote_comm_id: u32,
    /// Which message.
    pub message: Subject,
    /// Bytes of additional information, 7 bits.
    pub info_len: u8,
    /// Why.
    pub reason: RejReason,
    /// What the reason needs to be understood.
    pub info: [u8; 72],
    /// For the consumer.
    pub private_data: [u8; Self::PRIVATE_LEN],
}

impl Rej {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 148;
}

impl Format for Rej {
    const NAME: &'static str = "CM REJ";
    const LEN: usize = MESSAGE_LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            local_comm_id: u32_at(raw, 0),
            remote_comm_id: u32_at(raw, 4),
            message: Subject::of_bits(raw[8] >> 6, "CM REJ:MessageREJected")?,
            info_len: raw[9] >> 1,
            reason: RejReason(u16_at(raw, 10)),
            info: array(raw, 12),
            private_data: array(raw, 84),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u32(raw, 0, self.local_comm_id);
        put_u32(raw, 4, self.remote_comm_id);
        raw[8] = (self.message as u8) << 6;
        raw[9] = self.info_len << 1;
        put_u16(raw, 10, self.reason.0);
        put(raw, 12, self.info);
        put(raw, 84, self.private_data);
    }
}

impl CmMessage for Rej {
    const ID: AttributeId = id::REJ;
}

/// Grants a connection (IBA 12.6.8).
///
/// ```text
///  0 local communication id | 4 remote communication id | 8 local Q_Key | 12 local QPN:24, 0:8
/// 16 local EECN:24, 0:8 | 20 starting PSN:24, 0:8 | 24 responder resources | 25 initiator depth
/// 26 target ACK delay:5, failover accepted:2, end-to-end flow control:1 | 27 RNR retry count:3, SRQ:1, 0:4
/// 28 local CA GUID (8) | 36 private data (196)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rep {
    /// The sender's number of the connection.
    pub local_comm_id: u32,
    /// The receiver's number of the connection.
    pub remote_comm_id: u32,
    /// The sender's Q_Key; datagrams only.
    pub local_qkey: u32,
    /// The sender's queue pair.
    pub local_qpn: Qpn,
    /// Where the receiver's packets shall start.
    pub starting_psn: Psn,
    /// READs and atomics that the sender answers at a time.
    pub responder_resources: u8,
    /// READs and atomics that the sender has under way at a time.
    pub initiator_depth: u8,
    /// How long an acknowledgement may take: 4.096 us times two to this power, 5 bits.
    pub target_ack_delay: u8,
    /// 0 the alternate path is accepted, 1 not supported, 2 refused; 2 bits.
    pub failover_accepted: u8,
    /// The sender's queue pair issues credits.
    pub end_to_end_flow_control: bool,
    /// Repetitions after RNR NAKs, 3 bits.
    pub rnr_retry_count: u8,
    /// The sender's queue pair uses a shared receive queue.
    pub srq: bool,
    /// GUID of the sender's adapter.
    pub local_ca_guid: Guid,
    /// For the consumer.
    pub private_data: [u8; Self::PRIVATE_LEN],
}

impl Rep {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 196;
}

impl Format for Rep {
    const NAME: &'static str = "CM REP";
    const LEN: usize = MESSAGE_LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            local_comm_id: u32_at(raw, 0),
            remote_comm_id: u32_at(raw, 4),
            local_qkey: u32_at(raw, 8),
            local_qpn: Qpn::truncate(u24_at(raw, 12)),
            starting_psn: Psn::truncate(u24_at(raw, 20)),
            responder_resources: raw[24],
            initiator_depth: raw[25],
            target_ack_delay: raw[26] >> 3,
            failover_accepted: raw[26] >> 1 & 3,
            end_to_end_flow_control: raw[26] & 1 != 0,
            rnr_retry_count: raw[27] >> 5,
            srq: raw[27] & 0x10 != 0,
            local_ca_guid: Guid(u64_at(raw, 28)),
            private_data: array(raw, 36),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u32(raw, 0, self.local_comm_id);
        put_u32(raw, 4, self.remote_comm_id);
        put_u32(raw, 8, self.local_qkey);
        put_u24(raw, 12, self.local_qpn.get());
        put_u24(raw, 20, self.starting_psn.get());
        raw[24] = self.responder_resources;
        raw[25] = self.initiator_depth;
        raw[26] = self.target_ack_delay << 3
            | (self.failover_accepted & 3) << 1
            | u8::from(self.end_to_end_flow_control);
        raw[27] = self.rnr_retry_count << 5 | u8::from(self.srq) << 4;
        put_u64(raw, 28, self.local_ca_guid.0);
        put(raw, 36, self.private_data);
    }
}

impl CmMessage for Rep {
    const ID: AttributeId = id::REP;
}

/// The connection stands (IBA 12.6.9).
///
/// ```text
///  0 local communication id | 4 remote communication id | 8 private data (224)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rtu {
    /// The sender's number of the connection.
    pub local_comm_id: u32,
    /// The receiver's number of the connection.
    pub remote_comm_id: u32,
    /// For the consumer.
    pub private_data: [u8; 224],
}

impl Format for Rtu {
    const NAME: &'static str = "CM RTU";
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

impl CmMessage for Rtu {
    const ID: AttributeId = id::RTU;
}
