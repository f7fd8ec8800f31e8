//! The internet addresses of the hosts of a fabric: every port of a host has a number, from 1 on in the order of the
//! topology, and its addresses are that number in networks that are the same in all fabrics.
//!
//! | network | number 1 | number 258 | whose |
//! |---|---|---|---|
//! | 10.73.0.0/16 | 10.73.0.1 | 10.73.1.2 | `ib0`, where a host has a network namespace |
//! | fd73::/64 | fd73::1 | fd73::102 | the same |
//! | 127.73.0.0/16 | 127.73.0.1 | 127.73.1.2 | where there is none: an address of the loopback interface |

use std::net::{Ipv4Addr, Ipv6Addr};

use bincode::{Decode, Encode};

/// The two upper bytes of the addresses of interfaces.
const INTERFACES: [u8; 2] = [10, 73];
/// The two upper bytes of addresses of the loopback interface.
const LOOPBACK: [u8; 2] = [127, 73];
/// The upper half of the IPv6 addresses.
const IPV6_PREFIX: u16 = 0xfd73;

/// The number of a host's port among all of its fabric, 1..=65534: the last is the broadcast address of its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct HostNumber(u16);

/// In which IPv4 network the hosts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Network {
    /// Each host has a network namespace, and an interface there.
    Interfaces,
    /// All hosts share the loopback interface of the machine.
    Loopback,
}

impl HostNumber {
    /// The largest.
    pub const MAX: u16 = u16::MAX - 1;
    /// The length of the IPv4 network's prefix.
    pub const IPV4_PREFIX_LEN: u8 = 16;
    /// The length of the IPv6 network's prefix.
    pub const IPV6_PREFIX_LEN: u8 = 64;

    /// The number; `None` if it is out of range.
    #[must_use]
    pub const fn new(number: u16) -> Option<Self> {
        match number {
            1..=Self::MAX => Some(Self(number)),
            _ => None,
        }
    }

    /// The number of the port at `position`, from 0 on; `None` beyond the last.
    #[must_use]
    pub fn of_position(position: usize) -> Option<Self> {
        Self::new(u16::try_from(position).ok()?.checked_add(1)?)
    }

    /// The number itself.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The IPv4 address.
    #[must_use]
    pub const fn ipv4(self, network: Network) -> Ipv4Addr {
        let [a, b] = match network {
            Network::Interfaces => INTERFACES,
            Network::Loopback => LOOPBACK,
        };
        let [c, d] = self.0.to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    }

    /// The IPv6 address, of interfaces only: the loopback interface has no such network.
    #[must_use]
    pub const fn ipv6(self) -> Ipv6Addr {
        Ipv6Addr::new(IPV6_PREFIX, 0, 0, 0, 0, 0, 0, self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_follow_the_number() {
        let told = |number: u16| {
            let number = HostNumber::new(number).expect("in range");
            let [a, b] = [Network::Interfaces, Network::Loopback].map(|of| number.ipv4(of));
            format!("{a} {b} {}", number.ipv6())
        };
        assert_eq!(told(1), "10.73.0.1 127.73.0.1 fd73::1");
        assert_eq!(told(258), "10.73.1.2 127.73.1.2 fd73::102");
        assert_eq!(
            told(HostNumber::MAX),
            "10.73.255.254 127.73.255.254 fd73::fffe"
        );
    }

    #[test]
    fn neither_the_network_nor_its_broadcast_address_is_of_a_host() {
        assert_eq!(HostNumber::new(0), None);
        assert_eq!(HostNumber::new(u16::MAX), None);
        assert_eq!(HostNumber::of_position(0), HostNumber::new(1));
        assert_eq!(
            HostNumber::of_position(65_533),
            HostNumber::new(HostNumber::MAX)
        );
        for position in [65_534, 65_535, usize::MAX] {
            assert_eq!(HostNumber::of_position(position), None);
        }
    }
}
