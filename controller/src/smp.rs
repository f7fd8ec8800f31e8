//! One subnet management packet (SMP) to a device, and its outcome.

use wire::attr::Attribute;
use wire::mad::{AttributeId, Mad, MadStatus, Method};
use wire::{Lid, ParseError, PortNum, Qpn, Sl};

use mad::local::MadMessage;

/// A Get or Set of one attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// The exit port of each hop, from this manager's host on.
    pub(crate) route: Vec<PortNum>,
    method: Method,
    attribute: AttributeId,
    modifier: u32,
    data: [u8; 64],
}

impl Request {
    /// Asks for an attribute.
    pub(crate) fn get<A: Attribute>(route: Vec<PortNum>, modifier: u32) -> Self {
        Self {
            route,
            method: Method::GET,
            attribute: A::ID,
            modifier,
            data: [0; 64],
        }
    }

    /// Sets an attribute.
    pub(crate) fn set<A: Attribute>(route: Vec<PortNum>, modifier: u32, value: &A) -> Self {
        let mut data = [0; 64];
        value.emit(&mut data);
        Self {
            route,
            method: Method::SET,
            attribute: A::ID,
            modifier,
            data,
        }
    }

    /// The directed-route SMP with that M_Key, ready for the host's MAD socket; `None` if the route has
    /// more hops than an SMP holds.
    pub(crate) fn message(&self, transaction: u64, m_key: u64) -> Option<MadMessage> {
        let mut mad = Mad::directed_smp(
            self.method,
            self.attribute,
            self.modifier,
            transaction,
            &self.route,
        )
        .ok()?;
        mad.set_m_key(m_key);
        *mad.smp_data_mut() = self.data;
        Some(message(Lid::PERMISSIVE, Qpn::SMI, &mad))
    }
}

/// A MAD with its addressing, on service level 0.
pub(crate) fn message(lid: Lid, qpn: Qpn, mad: &Mad) -> MadMessage {
    MadMessage {
        lid,
        qpn,
        sl: Sl::default(),
        mad: Box::new(*mad.as_bytes()),
        way: None,
    }
}

/// The answer to a datagram of QP1, on service level 0 and by the way by which it has come: from the LID that it was
/// sent to, in its partition, and behind a GRH if it had one (IBA 13.5.4).
pub(crate) fn answer(to: &MadMessage, mad: &Mad) -> MadMessage {
    MadMessage {
        way: to.way,
        ..message(to.lid, to.qpn, mad)
    }
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer<'a> {
    /// No answer to any of its repetitions.
    Timeout,
    /// The answer.
    Mad(&'a Mad),
}

/// Why a request has failed. Its text completes "the device ...".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// No answer came.
    #[error("does not answer")]
    Timeout,
    /// No answer came to a Set, and an M_Key protects the device.
    #[error("ignores what is set without its M_Key")]
    Locked,
    /// The device refused.
    #[error("refuses {attribute} with status {status}")]
    Refused {
        /// What was asked.
        attribute: AttributeId,
        /// Its status.
        status: MadStatus,
    },
    /// The answer cannot be read.
    #[error("sends a damaged answer: {0}")]
    BadAnswer(#[from] ParseError),
}

impl Answer<'_> {
    /// The attribute that the device has answered with.
    pub(crate) fn attribute<A: Attribute>(self) -> Result<A, Failure> {
        match self {
            Self::Timeout => Err(Failure::Timeout),
            Self::Mad(mad) if mad.attr_id() != A::ID => Err(ParseError::BadValue {
                what: "AttributeID of an answer",
                value: u64::from(mad.attr_id().0),
            }
            .into()),
            Self::Mad(mad) => match mad.status().without_direction() {
                MadStatus::OK => Ok(mad.smp_attribute()?),
                status => Err(Failure::Refused {
                    attribute: A::ID,
                    status,
                }),
            },
        }
    }
}
