//! A connection with promised bandwidth: the request and its answer.

use super::{QOS_CHANGE, QOS_CONNECTION, VendorAttribute};
use crate::format::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};
use crate::mad::AttributeId;
use crate::{Format, Guid, Lid, ParseError, PortNum, Sl};

/// Why a request was refused: the first cause met on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum QosCause {
    /// It was not.
    #[default]
    Granted = 0,
    /// The controller fills no arbitration tables.
    Off = 1,
    /// The subnet is not up.
    NotUp = 2,
    /// A port that the subnet does not have.
    NoSuchPort = 3,
    /// No path joins the two ports.
    NoPath = 4,
    /// A rate of 0, or above the link's.
    Rate = 5,
    /// A link's bandwidth is promised already.
    Bandwidth = 6,
    /// A port's arbitration table is full.
    Entries = 7,
    /// A port's table cannot hold the VL's entries as close together as requested.
    Distance = 8,
    /// No connection has this id.
    NoSuchConnection = 9,
    /// The controller holds as many connections as it can.
    TooMany = 10,
}

impl QosCause {
    const ALL: [Self; 11] = [
        Self::Granted,
        Self::Off,
        Self::NotUp,
        Self::NoSuchPort,
        Self::NoPath,
        Self::Rate,
        Self::Bandwidth,
        Self::Entries,
        Self::Distance,
        Self::NoSuchConnection,
        Self::TooMany,
    ];

    fn from_code(code: u8) -> Result<Self, ParseError> {
        let known = Self::ALL.get(usize::from(code)).copied();
        known.ok_or(ParseError::BadValue {
            what: "QosConnection:Cause",
            value: u64::from(code),
        })
    }
}

/// A connection with promised bandwidth (VLARB01).
///
/// ```text
/// byte   0  id (4); 0 in a request
///        4  class (1): 0 dedicated bandwidth, 1 and time sensitive
///        5  distance (1), entries; 0 for any
///        6  service level (1), answer
///        7  cause (1), answer
///        8  source port's GUID (8)
///       16  destination port's GUID (8)
///       24  mean rate (8), bits a second
///       32  DLID (2), answer
///       34  reserved (1)
///       35  port at which it was refused (1), answer
///       36  slots or entries wanted there (4), answer
///       40  node at which it was refused (8), answer
///       48  slots or entries left there (4), answer
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct QosConnection {
    /// Its id, never 0; in a request 0, or the one that is to be released.
    pub id: u32,
    /// Time sensitive (DBTS), not only of dedicated bandwidth (DB).
    pub time_sensitive: bool,
    /// The most entries of an arbitration table between two turns of its VL; 0 for any.
    pub distance: u8,
    /// Answer: the service level of its packets.
    pub sl: Sl,
    /// Answer: whether it is established.
    pub cause: QosCause,
    /// Port that sends.
    pub source: Guid,
    /// Port that receives.
    pub destination: Guid,
    /// Mean rate in bits a second of a link at its full speed.
    pub rate_bps: u64,
    /// Answer: the destination LID of its packets.
    pub dlid: Lid,
    /// Refusal: the output port that cannot take it.
    pub port: PortNum,
    /// Refusal: slots or entries wanted there.
    pub wanted: u32,
    /// Refusal: the node of that port.
    pub node: Guid,
    /// Refusal: slots or entries left there.
    pub left: u32,
}

impl QosConnection {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 52;
}

/// Refuses a class above 1 and a cause above 10.
impl Format for QosConnection {
    const NAME: &'static str = "QosConnection";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            id: u32_at(raw, 0),
            time_sensitive: match raw[4] {
                0 => false,
                1 => true,
                other => {
                    return Err(ParseError::BadValue {
                        what: "QosConnection:Class",
                        value: u64::from(other),
                    });
                }
            },
            distance: raw[5],
            sl: Sl::truncate(raw[6]),
            cause: QosCause::from_code(raw[7])?,
            source: Guid(u64_at(raw, 8)),
            destination: Guid(u64_at(raw, 16)),
            rate_bps: u64_at(raw, 24),
            dlid: Lid::new(u16_at(raw, 32)),
            port: PortNum::new(raw[35]),
            wanted: u32_at(raw, 36),
            node: Guid(u64_at(raw, 40)),
            left: u32_at(raw, 48),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u32(raw, 0, self.id);
        raw[4] = u8::from(self.time_sensitive);
        raw[5] = self.distance;
        raw[6] = self.sl.get();
        raw[7] = self.cause as u8;
        put_u64(raw, 8, self.source.0);
        put_u64(raw, 16, self.destination.0);
        put_u64(raw, 24, self.rate_bps);
        put_u16(raw, 32, self.dlid.get());
        raw[35] = self.port.get();
        put_u32(raw, 36, self.wanted);
        put_u64(raw, 40, self.node.0);
        put_u32(raw, 48, self.left);
    }
}

impl VendorAttribute for QosConnection {
    const ID: AttributeId = QOS_CONNECTION;
}

/// A change of an established connection: the controller notifies the host of its source.
///
/// In the form of a [`QosConnection`]. With [`QosCause::Granted`] it remains established, but its
/// packets need the service level and the DLID given here from now on. With another cause it is
/// dropped for that cause, and its VL may have no arbitration entries any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct QosChange(pub QosConnection);

/// Refuses what [`QosConnection`] does.
impl Format for QosChange {
    const NAME: &'static str = "QosChange";
    const LEN: usize = QosConnection::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        QosConnection::read(raw).map(Self)
    }

    fn write(&self, raw: &mut [u8]) {
        self.0.write(raw);
    }
}

impl VendorAttribute for QosChange {
    const ID: AttributeId = QOS_CHANGE;
}
