//! ARP for IPv4 addresses over InfiniBand (RFC 826; RFC 4391, 9.1.1).
//!
//! ```text
//! +-------------------------------+-------------------------------+
//! |       hardware type 32        |        protocol 0x0800        |
//! +---------------+---------------+-------------------------------+
//! |      20       |       4       |           operation           |
//! +---------------+---------------+-------------------------------+
//! |    sender: link-layer address (20), IPv4 address (4)          |
//! |    target: link-layer address (20), IPv4 address (4)          |
//! ```

use std::net::Ipv4Addr;

use super::{LinkAddress, ethertype};
use crate::format::{array, put, put_u16, u16_at};
use crate::{Format, ParseError};

/// The type of InfiniBand's link-layer addresses.
const HARDWARE_INFINIBAND: u16 = 32;
const IPV4_LEN: u8 = 4;
const LINK_ADDRESS_LEN: u8 = 20;

/// What an ARP packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum ArpOperation {
    /// Who has the target's IPv4 address?
    Request = 1,
    /// The sender has.
    Reply = 2,
}

/// An ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arp {
    /// What it is.
    pub operation: ArpOperation,
    /// The sender's link-layer address.
    pub sender: LinkAddress,
    /// The sender's IPv4 address.
    pub sender_ip: Ipv4Addr,
    /// The target's link-layer address; of no meaning in a request.
    pub target: LinkAddress,
    /// The target's IPv4 address.
    pub target_ip: Ipv4Addr,
}

impl Arp {
    /// The length in bytes.
    pub const LEN: usize = 56;
}

impl Format for Arp {
    const NAME: &'static str = "ARP";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        let bad = |what, value: u16| ParseError::BadValue {
            what,
            value: value.into(),
        };
        for (what, at, wanted) in [
            ("ARP hardware type", 0, HARDWARE_INFINIBAND),
            ("ARP protocol", 2, ethertype::IPV4),
            (
                "ARP lengths of addresses",
                4,
                u16::from_be_bytes([LINK_ADDRESS_LEN, IPV4_LEN]),
            ),
        ] {
            if u16_at(raw, at) != wanted {
                return Err(bad(what, u16_at(raw, at)));
            }
        }
        let operation = match u16_at(raw, 6) {
            1 => ArpOperation::Request,
            2 => ArpOperation::Reply,
            other => return Err(bad("ARP operation", other)),
        };
        Ok(Self {
            operation,
            sender: LinkAddress::read(&raw[8..28])?,
            sender_ip: Ipv4Addr::from(array::<4>(raw, 28)),
            target: LinkAddress::read(&raw[32..52])?,
            target_ip: Ipv4Addr::from(array::<4>(raw, 52)),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u16(raw, 0, HARDWARE_INFINIBAND);
        put_u16(raw, 2, ethertype::IPV4);
        put(raw, 4, [LINK_ADDRESS_LEN, IPV4_LEN]);
        put_u16(raw, 6, self.operation as u16);
        self.sender.write(&mut raw[8..28]);
        put(raw, 28, self.sender_ip.octets());
        self.target.write(&mut raw[32..52]);
        put(raw, 52, self.target_ip.octets());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Gid, Guid, Qpn};

    fn sample() -> Arp {
        Arp {
            operation: ArpOperation::Reply,
            sender: LinkAddress {
                qpn: Qpn::constant(0x1b4),
                gid: Gid::new(Gid::DEFAULT_PREFIX, Guid(7)),
            },
            sender_ip: Ipv4Addr::new(10, 73, 0, 1),
            target: LinkAddress::default(),
            target_ip: Ipv4Addr::new(10, 73, 0, 2),
        }
    }

    #[test]
    fn a_packet_reads_as_it_was_written() {
        let mut bytes = [0xa5; Arp::LEN];
        sample().emit(&mut bytes);
        assert_eq!(bytes[..8], [0, 32, 8, 0, 20, 4, 0, 2]);
        assert_eq!(bytes[28..32], [10, 73, 0, 1]);
        assert_eq!(Arp::parse(&bytes), Ok((sample(), &[][..])));
        for len in 0..Arp::LEN {
            assert!(Arp::parse(&bytes[..len]).is_err(), "{len}");
        }
    }

    #[test]
    fn what_is_of_another_network_is_refused() {
        let mut bytes = [0; Arp::LEN];
        sample().emit(&mut bytes);
        for (at, value) in [(1, 1), (2, 6), (4, 6), (5, 16), (7, 0), (7, 3)] {
            let mut other = bytes;
            other[at] = value;
            assert!(Arp::parse(&other).is_err(), "byte {at} {value}");
        }
    }
}
