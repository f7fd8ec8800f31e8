//! Messages between hosts and the controller beyond the specification: connections with
//! promised bandwidth (VLARB01) and windows without interference (CLOS04).
//!
//! Datagrams of one management class of the range whose classes carry an OUI (IBA 16.5):
//!
//! ```text
//! byte   0  common header: class 0x30, class version 1
//!       24  RMPP header (12), all zero: not used
//!       36  reserved (1)
//!       37  OUI (3): 02-1b-ed, locally administered
//!       40  data (216)
//! ```
//!
//! | attribute | method | from, to | data | answered with |
//! |---|---|---|---|---|
//! | [`QOS_CONNECTION`] | Set | host, controller | the request | the connection, or the cause of refusal |
//! | [`QOS_CONNECTION`] | Get | host, controller | - | the first connection whose id is the modifier or higher |
//! | [`QOS_CONNECTION`] | Delete | host, controller | the id | the released connection |
//! | [`QOS_CHANGE`] | Set | controller, host of the source | the change of the connection | the same |
//! | [`WINDOW_REQUEST`] | Set | host, controller | pairs | the same |
//! | [`WINDOW_STATE`] | Get | host, controller | - | the state of the windows |
//! | [`WINDOW_GRANT`] | Set | controller, host | the host's DLID | the same |

mod qos;
mod window;

pub use qos::{QosCause, QosChange, QosConnection};
pub use window::{PAIRS_MAX, WindowGrant, WindowRequest, WindowState};

use crate::mad::{AttributeId, Mad, MadHeader, Method, MgmtClass};
use crate::{Format, ParseError};

/// The class of these datagrams.
pub const CLASS: MgmtClass = MgmtClass::VENDOR2_FIRST;
/// The organisation that gives them their meaning: locally administered, no vendor's.
pub const OUI: u32 = 0x02_1bed;

/// [`QosConnection`].
pub const QOS_CONNECTION: AttributeId = AttributeId(0x0010);
/// [`QosChange`].
pub const QOS_CHANGE: AttributeId = AttributeId(0x0011);
/// [`WindowRequest`].
pub const WINDOW_REQUEST: AttributeId = AttributeId(0x0020);
/// [`WindowState`].
pub const WINDOW_STATE: AttributeId = AttributeId(0x0021);
/// [`WindowGrant`].
pub const WINDOW_GRANT: AttributeId = AttributeId(0x0022);

const OUI_AT: usize = 37;
const DATA_AT: usize = 40;
/// The bytes of data that one datagram holds.
pub const DATA_LEN: usize = 216;

/// An attribute of these datagrams.
pub trait VendorAttribute: Format {
    /// The id by which datagrams ask for it.
    const ID: AttributeId;
}

/// The datagram behind a MAD.
impl Mad {
    /// A request with this attribute.
    #[must_use]
    pub fn vendor<A: VendorAttribute>(method: Method, modifier: u32, tid: u64, value: &A) -> Self {
        let header = MadHeader::request(CLASS, method, A::ID, modifier, tid);
        let mut mad = Self::new(&header);
        let [_, oui @ ..] = OUI.to_be_bytes();
        mad.0[OUI_AT..DATA_AT].copy_from_slice(&oui);
        mad.set_vendor_attribute(value);
        mad
    }

    /// Whether class, version and OUI say that this datagram is one of these.
    #[must_use]
    pub fn is_vendor(&self) -> bool {
        let [_, oui @ ..] = OUI.to_be_bytes();
        self.class() == CLASS && self.header().class_version == 1 && self.0[OUI_AT..DATA_AT] == oui
    }

    /// The attribute. Whether class and attribute id fit is not looked at.
    ///
    /// # Errors
    /// What the attribute's [`parse`](Format::parse) says.
    pub fn vendor_attribute<A: VendorAttribute>(&self) -> Result<A, ParseError> {
        A::parse(&self.0[DATA_AT..]).map(|(value, _)| value)
    }

    /// Puts an attribute into the datagram and zeroes what is left of the 216 bytes.
    pub fn set_vendor_attribute<A: VendorAttribute>(&mut self, value: &A) {
        self.0[DATA_AT + A::LEN..].fill(0);
        value.emit(&mut self.0[DATA_AT..]);
    }
}
