//! How communication management names services by IP addresses and ports (IBA annex A11).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::format::{array, put, put_u16, u16_at};
use crate::{Format, ParseError};

/// The port space of TCP: its services are connections.
pub const PORT_SPACE_TCP: u16 = 0x0106;
/// The port space of UDP: its services are queue pairs of datagrams.
pub const PORT_SPACE_UDP: u16 = 0x0111;

/// The service with a port of a port space: `0x0000000001PPpppp`, P the protocol's number.
#[must_use]
pub fn ip_service(port_space: u16, port: u16) -> u64 {
    u64::from(port_space) << 16 | u64::from(port)
}

/// Port space and port of a service; `None` if it is none of RDMA IP CM's.
#[must_use]
pub fn ip_service_parts(service_id: u64) -> Option<(u16, u16)> {
    let [0, 0, 0, 0, one, protocol, high, low] = service_id.to_be_bytes() else {
        return None;
    };
    let space = u16::from_be_bytes([one, protocol]);
    (one == 1).then_some((space, u16::from_be_bytes([high, low])))
}

/// The front of the private data of a request to such a service (A11.7.3).
///
/// ```text
///  0 major version:4, minor version:4 | 1 IP version:4, 0:4 | 2 source port
///  4 source address (16) | 20 destination address (16); IPv4 in the last four bytes
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IpCmHeader {
    /// Port of the sender.
    pub source_port: u16,
    /// Address of the sender; of the same family as the other one.
    pub source: IpAddr,
    /// Address that the sender asks for.
    pub destination: IpAddr,
}

impl IpCmHeader {
    /// The length in bytes.
    pub const LEN: usize = 36;

    fn bytes(address: IpAddr) -> [u8; 16] {
        match address {
            IpAddr::V4(address) => {
                let mut bytes = [0; 16];
                bytes[12..].copy_from_slice(&address.octets());
                bytes
            }
            IpAddr::V6(address) => address.octets(),
        }
    }
}

impl Format for IpCmHeader {
    const NAME: &'static str = "IP CM header";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        ParseError::check_version(Self::NAME, raw[0] >> 4, 0)?;
        let address = |at: usize| match raw[1] >> 4 {
            4 => Ok(IpAddr::V4(Ipv4Addr::from(array::<4>(raw, at + 12)))),
            6 => Ok(IpAddr::V6(Ipv6Addr::from(array::<16>(raw, at)))),
            version => Err(ParseError::BadValue {
                what: "IP CM header:IPVersion",
                value: version.into(),
            }),
        };
        Ok(Self {
            source_port: u16_at(raw, 2),
            source: address(4)?,
            destination: address(20)?,
        })
    }

    fn write(&self, raw: &mut [u8]) {
        raw[1] = match self.destination {
            IpAddr::V4(_) => 4 << 4,
            IpAddr::V6(_) => 6 << 4,
        };
        put_u16(raw, 2, self.source_port);
        put(raw, 4, Self::bytes(self.source));
        put(raw, 20, Self::bytes(self.destination));
    }
}
