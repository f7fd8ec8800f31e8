//! IP over InfiniBand: what is in the payload of its datagrams (RFC 4391).
//!
//! ```text
//! +-------------------------------+-------------------------------+
//! |     type, as of Ethernet      |           reserved            |
//! +-------------------------------+-------------------------------+
//! |                 ARP, IPv4 or IPv6 packet                      |
//! ```
//! A link-layer address has 20 bytes: a queue pair and the GID of its port. IPv4 addresses are resolved by ARP, IPv6
//! addresses by neighbour discovery ([`Discovery`]), both to all interfaces of a partition by its broadcast group.

mod arp;
mod discovery;

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::format::{array, put, put_u16, u16_at, u32_at};
use crate::p_key::FULL;
use crate::{Format, Gid, ParseError, Qpn};

pub use arp::{Arp, ArpOperation};
pub use discovery::{Discovery, DiscoveryError, DiscoveryKind, solicited_node};

/// The queue key of a broadcast group that its creator may choose (RFC 4391, 4.1): that of other implementations.
pub const BROADCAST_QKEY: u32 = 0x0000_0b1b;

/// Types of packets, as of Ethernet.
pub mod ethertype {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
}

/// What stands in front of each packet (RFC 4391, 6). Reserved bits are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Encapsulation {
    /// The type of the packet behind it.
    pub ethertype: u16,
}

impl Encapsulation {
    /// The length in bytes.
    pub const LEN: usize = 4;
}

impl Format for Encapsulation {
    const NAME: &'static str = "IPoIB encapsulation";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            ethertype: u16_at(raw, 0),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u16(raw, 0, self.ethertype);
    }
}

/// A link-layer address (RFC 4391, 9.1.1): the first byte is reserved, and ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkAddress {
    /// The queue pair.
    pub qpn: Qpn,
    /// The GID of its port.
    pub gid: Gid,
}

impl LinkAddress {
    /// The length in bytes.
    pub const LEN: usize = 20;
}

impl Format for LinkAddress {
    const NAME: &'static str = "IPoIB link-layer address";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            qpn: Qpn::truncate(u32_at(raw, 0)),
            gid: Gid(array(raw, 4)),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put(raw, 0, self.qpn.get().to_be_bytes());
        put(raw, 4, self.gid.0);
    }
}

/// Signatures of the groups of IPv4 and IPv6 (RFC 4391, 4).
const SIGNATURE_IPV4: u16 = 0x401b;
const SIGNATURE_IPV6: u16 = 0x601b;

/// A GID of a group: flags of a transient one, scope, signature, partition.
fn group_gid(signature: u16, pkey: u16, scope: u8) -> [u8; 16] {
    let mut gid = [0; 16];
    put(&mut gid, 0, [0xff, 0x10 | scope & 0x0f]);
    put_u16(&mut gid, 2, signature);
    put_u16(&mut gid, 4, pkey | FULL);
    gid
}

/// The group of all interfaces of a partition, in a scope (2: of this subnet).
#[must_use]
pub fn broadcast_gid(pkey: u16, scope: u8) -> Gid {
    let mut gid = group_gid(SIGNATURE_IPV4, pkey, scope);
    put(&mut gid, 12, [0xff; 4]);
    Gid(gid)
}

/// The group of an IPv4 multicast address: the lower 28 bits name it.
#[must_use]
pub fn ipv4_group_gid(address: Ipv4Addr, pkey: u16, scope: u8) -> Gid {
    let mut gid = group_gid(SIGNATURE_IPV4, pkey, scope);
    let [a, b, c, d] = address.octets();
    put(&mut gid, 12, [a & 0x0f, b, c, d]);
    Gid(gid)
}

/// The group of an IPv6 multicast address: the lower 80 bits name it.
#[must_use]
pub fn ipv6_group_gid(address: Ipv6Addr, pkey: u16, scope: u8) -> Gid {
    let mut gid = group_gid(SIGNATURE_IPV6, pkey, scope);
    gid[6..].copy_from_slice(&address.octets()[6..]);
    Gid(gid)
}

/// The link-local IPv6 address of a port with this GID: its GUID is the interface's identifier, with the bit that says that
/// it is unique everywhere (RFC 4391, 8).
#[must_use]
pub fn link_local(gid: Gid) -> Ipv6Addr {
    let mut address = [0; 16];
    put(&mut address, 0, [0xfe, 0x80]);
    address[8..].copy_from_slice(&gid.0[8..]);
    address[8] |= 0x02;
    Ipv6Addr::from(address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Guid;

    #[test]
    fn groups_are_named_by_partition_and_address() {
        let told = |gid: Gid| Ipv6Addr::from(gid.0).to_string();
        assert_eq!(told(broadcast_gid(0xffff, 2)), "ff12:401b:ffff::ffff:ffff");
        assert_eq!(
            told(broadcast_gid(0x0005, 5)),
            "ff15:401b:8005::ffff:ffff",
            "full members and limited ones share it"
        );
        let ipv4 = ipv4_group_gid(Ipv4Addr::new(239, 1, 2, 3), 0xffff, 2);
        assert_eq!(told(ipv4), "ff12:401b:ffff::f01:203");
        let ipv6: Ipv6Addr = "ff02::1:ff00:7".parse().expect("an address");
        assert_eq!(
            told(ipv6_group_gid(ipv6, 0x7fff, 2)),
            "ff12:601b:ffff::1:ff00:7"
        );
    }

    #[test]
    fn a_link_local_address_has_the_guid() {
        let gid = Gid::new(Gid::DEFAULT_PREFIX, Guid(0x0002_c903_0000_1001));
        assert_eq!(link_local(gid).to_string(), "fe80::202:c903:0:1001");
    }

    #[test]
    fn a_link_layer_address_is_a_queue_pair_and_a_gid() {
        let gid = Gid::new(Gid::DEFAULT_PREFIX, Guid(0x0102_0304_0506_0708));
        let address = LinkAddress {
            qpn: Qpn::constant(0x00ab_cdef),
            gid,
        };
        let mut bytes = [0xa5; LinkAddress::LEN];
        address.emit(&mut bytes);
        assert_eq!(bytes[..4], [0, 0xab, 0xcd, 0xef]);
        assert_eq!(bytes[4..], gid.0);
        bytes[0] = 0xc0;
        assert_eq!(LinkAddress::parse(&bytes), Ok((address, &[][..])));
        for len in 0..LinkAddress::LEN {
            assert!(LinkAddress::parse(&bytes[..len]).is_err(), "{len}");
        }
    }

    #[test]
    fn an_encapsulation_is_a_type() {
        let header = Encapsulation {
            ethertype: ethertype::IPV6,
        };
        let mut bytes = [0xa5; 4];
        header.emit(&mut bytes);
        assert_eq!(bytes, [0x86, 0xdd, 0, 0]);
        assert_eq!(Encapsulation::parse(&bytes), Ok((header, &[][..])));
    }
}
