//! Performance management: counters of a port (IBA 16.1), and ClassPortInfo (IBA 13.4.8.1).
//!
//! The attribute follows 40 reserved bytes behind the common header: 192 bytes from byte 64.

mod class_port_info;
mod counter_array;
mod counters;
mod details;
mod extended_speeds;
mod samples;

pub use class_port_info::{ClassPortInfo, capability};
pub use counter_array::{COUNTERS_MAX, CounterArray, CounterArrayId, CounterWidth};
pub use counters::{PortCounters, PortCountersExtended, select, select_extended, select2};
pub use details::{PortRcvErrorDetails, PortXmitDiscardDetails};
pub use extended_speeds::{PHYSICAL_LANES, PortExtendedSpeedsCounters};
pub use samples::{
    PortSamplesControl, PortSamplesResult, SAMPLE_COUNTERS, SampleStatus, sample_select,
};

use crate::mad::{AttributeId, Mad, MadHeader, Method, MgmtClass};
use crate::{Format, ParseError};

const DATA_AT: usize = 64;

/// The bytes of a performance attribute.
pub const DATA_LEN: usize = 192;

/// Performance management: the datagram behind a MAD.
impl Mad {
    /// A performance management request.
    #[must_use]
    pub fn pma(method: Method, attr_id: AttributeId, attr_mod: u32, tid: u64) -> Self {
        Self::new(&MadHeader::request(
            MgmtClass::PERF,
            method,
            attr_id,
            attr_mod,
            tid,
        ))
    }

    /// The attribute's bytes.
    #[must_use]
    pub fn pma_data(&self) -> &[u8] {
        &self.0[DATA_AT..]
    }

    /// The attribute's bytes, to be changed.
    pub(crate) fn pma_data_mut(&mut self) -> &mut [u8] {
        &mut self.0[DATA_AT..]
    }

    /// The datagram's attribute, of which the caller knows the type.
    ///
    /// # Errors
    /// What the attribute's [`parse`](Format::parse) says.
    pub fn pma_attribute<A: Format>(&self) -> Result<A, ParseError> {
        A::parse(self.pma_data()).map(|(attribute, _)| attribute)
    }

    /// Puts an attribute into the datagram and zeroes what is left of the 192 bytes.
    pub fn set_pma_attribute<A: Format>(&mut self, attribute: &A) {
        const { assert!(A::LEN <= DATA_LEN, "the attribute must fit") };
        let data = &mut self.0[DATA_AT..];
        data[A::LEN..].fill(0);
        attribute.emit(data);
    }
}
