//! The Ethernet II header in front of the records of a link over veth.

use etherparse::{EtherType, Ethernet2Header};

use crate::format::put;
use crate::{Format, ParseError};

/// An Ethernet II header with our EtherType.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkEthernet {
    /// Destination address.
    pub destination: [u8; 6],
    /// Source address.
    pub source: [u8; 6],
}

impl LinkEthernet {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = Ethernet2Header::LEN;
    /// EtherType "IEEE 802 local experimental 1".
    pub const ETHER_TYPE: u16 = 0x88b5;
    /// The address of every station.
    pub const BROADCAST: [u8; 6] = [0xff; 6];
}

/// Besides truncation, parsing refuses another EtherType.
impl Format for LinkEthernet {
    const NAME: &'static str = "Ethernet header";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        let Ok((header, _)) = Ethernet2Header::from_slice(raw) else {
            return Err(ParseError::Truncated {
                what: Self::NAME,
                need: Self::LEN,
                have: raw.len(),
            });
        };
        if header.ether_type != EtherType(Self::ETHER_TYPE) {
            return Err(ParseError::BadValue {
                what: "EtherType",
                value: u64::from(header.ether_type.0),
            });
        }
        Ok(Self {
            destination: header.destination,
            source: header.source,
        })
    }

    fn write(&self, raw: &mut [u8]) {
        let header = Ethernet2Header {
            source: self.source,
            destination: self.destination,
            ether_type: EtherType(Self::ETHER_TYPE),
        };
        put(raw, 0, header.to_bytes());
    }
}
