//! Neighbour discovery of IPv6 addresses over InfiniBand (RFC 4861; RFC 4391, 9.3): solicitations and advertisements, as
//! whole IPv6 packets.
//!
//! ```text
//! | IPv6 (40) | type 135 or 136, code 0, checksum, flags | target (16) | option: 1 or 2, 3, reserved (2), link-layer address (20) |
//! ```

use std::net::Ipv6Addr;

use thiserror::Error;

use super::LinkAddress;
use crate::Format as _;
use crate::format::{array, put, put_u16, u16_at};

/// Bytes of an IPv6 header.
const IPV6_LEN: usize = 40;
/// The next header of ICMPv6.
const ICMPV6: u8 = 58;
/// A packet of neighbour discovery has not passed a router.
const HOP_LIMIT: u8 = 255;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// Bytes of a message without options.
const MESSAGE_LEN: usize = 24;
/// Options with the link-layer address of the source and of the target.
const OPTION_SOURCE: u8 = 1;
const OPTION_TARGET: u8 = 2;
/// Bytes of such an option; its length counts units of 8.
const OPTION_LEN: usize = 24;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiscoveryKind {
    /// Who has the target's address?
    Solicitation,
    /// The sender has.
    Advertisement {
        /// The sender is a router.
        router: bool,
        /// It answers a solicitation.
        solicited: bool,
        /// It replaces what was known.
        replaces: bool,
    },
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Discovery {
    /// What it is.
    pub kind: DiscoveryKind,
    /// The sender's address; none if it has not got one yet.
    pub source: Ipv6Addr,
    /// To whom it is sent.
    pub destination: Ipv6Addr,
    /// The address in question.
    pub target: Ipv6Addr,
    /// The sender's link-layer address.
    pub link: Option<LinkAddress>,
}

/// Why a message makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DiscoveryError {
    /// It, or an option, ends too early, or does not end where it says.
    #[error("it does not have the length that it states")]
    Length,
    /// It has passed a router.
    #[error("its hop limit is {0}, not 255")]
    HopLimit(u8),
    /// Its checksum is wrong.
    #[error("its checksum is wrong")]
    Checksum,
    /// Its code is not 0, or an address is not of its kind.
    #[error("a field has no meaning")]
    Field,
}

/// The multicast address by which the owner of an address is asked.
#[must_use]
pub fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    let low = u16::from_be_bytes([b, c]);
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), low)
}

/// The sum of 16-bit words, as of internet checksums.
fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(2).map(|word| match *word {
        [high, low] => u32::from(u16::from_be_bytes([high, low])),
        [high] => u32::from(high) << 8,
        _ => 0,
    });
    words.fold(0, |sum, word| sum.wrapping_add(word))
}

/// The checksum of an ICMPv6 message between two addresses; 0xffff taken in as it is if it is right there.
fn checksum(source: Ipv6Addr, destination: Ipv6Addr, message: &[u8]) -> u16 {
    let len = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let pseudo = sum(&source.octets()) + sum(&destination.octets());
    let mut total = pseudo + (len >> 16) + (len & 0xffff) + u32::from(ICMPV6) + sum(message);
    while total > 0xffff {
        total = (total >> 16) + (total & 0xffff);
    }
    // It fits now.
    !u16::try_from(total).unwrap_or(u16::MAX)
}

impl Discovery {
    /// The most bytes of a message: header, message and one option.
    pub const LEN_MAX: usize = IPV6_LEN + MESSAGE_LEN + OPTION_LEN;

    /// Reads an IPv6 packet, from its first byte on. `None` if it is no solicitation and no advertisement.
    ///
    /// # Errors
    /// [`DiscoveryError`] for one that makes no sense (RFC 4861, 7.1).
    pub fn of_packet(packet: &[u8]) -> Result<Option<Self>, DiscoveryError> {
        let Some((header, rest)) = packet.split_at_checked(IPV6_LEN) else {
            return Ok(None);
        };
        let kind = rest.first().copied();
        if header[6] != ICMPV6 || !matches!(kind, Some(SOLICITATION | ADVERTISEMENT)) {
            return Ok(None);
        }
        let message = rest.get(..usize::from(u16_at(header, 4)));
        let message = message.filter(|message| message.len() >= MESSAGE_LEN);
        let message = message.ok_or(DiscoveryError::Length)?;
        let source = Ipv6Addr::from(array::<16>(header, 8));
        let destination = Ipv6Addr::from(array::<16>(header, 24));
        let target = Ipv6Addr::from(array::<16>(message, 8));
        if header[7] != HOP_LIMIT {
            return Err(DiscoveryError::HopLimit(header[7]));
        }
        if checksum(source, destination, message) != 0 {
            return Err(DiscoveryError::Checksum);
        }
        if message[1] != 0 || target.is_multicast() || source.is_multicast() {
            return Err(DiscoveryError::Field);
        }
        let (kind, option) = if message[0] == SOLICITATION {
            (DiscoveryKind::Solicitation, OPTION_SOURCE)
        } else {
            let flags = message[4];
            let kind = DiscoveryKind::Advertisement {
                router: flags & 0x80 != 0,
                solicited: flags & 0x40 != 0,
                replaces: flags & 0x20 != 0,
            };
            (kind, OPTION_TARGET)
        };
        Ok(Some(Self {
            kind,
            source,
            destination,
            target,
            link: link_option(&message[MESSAGE_LEN..], option)?,
        }))
    }

    /// Writes it as an IPv6 packet into `out`. How many bytes of that it is.
    #[must_use]
    pub fn emit(&self, out: &mut [u8; Self::LEN_MAX]) -> usize {
        let options = self.link.map_or(0, |_| OPTION_LEN);
        let message_len = MESSAGE_LEN + options;
        out.fill(0);
        let (header, message) = out.split_at_mut(IPV6_LEN);
        let message = &mut message[..message_len];
        let (kind, flags, option) = match self.kind {
            DiscoveryKind::Solicitation => (SOLICITATION, 0, OPTION_SOURCE),
            DiscoveryKind::Advertisement {
                router,
                solicited,
                replaces,
            } => {
                let flags =
                    u8::from(router) << 7 | u8::from(solicited) << 6 | u8::from(replaces) << 5;
                (ADVERTISEMENT, flags, OPTION_TARGET)
            }
        };
        put(message, 0, [kind, 0, 0, 0, flags]);
        put(message, 8, self.target.octets());
        if let Some(link) = &self.link {
            // Units of 8 bytes.
            put(message, MESSAGE_LEN, [option, 3]);
            link.write(&mut message[MESSAGE_LEN + 4..]);
        }
        let checksum = checksum(self.source, self.destination, message);
        put_u16(message, 2, checksum);
        header[0] = 0x60;
        // At most 48.
        put_u16(header, 4, u16::try_from(message_len).unwrap_or_default());
        put(header, 6, [ICMPV6, HOP_LIMIT]);
        put(header, 8, self.source.octets());
        put(header, 24, self.destination.octets());
        IPV6_LEN + message_len
    }
}

/// The link-layer address in the first option of that type that has one.
fn link_option(mut options: &[u8], wanted: u8) -> Result<Option<LinkAddress>, DiscoveryError> {
    while let Some(&[kind, units]) = options.first_chunk::<2>() {
        let len = usize::from(units) * 8;
        let whole = options.split_at_checked(len).filter(|_| len > 0);
        let (option, rest) = whole.ok_or(DiscoveryError::Length)?;
        if kind == wanted && len == OPTION_LEN {
            let parsed = LinkAddress::parse(&option[4..]);
            return Ok(parsed.ok().map(|(link, _)| link));
        }
        options = rest;
    }
    match options {
        [] => Ok(None),
        _ => Err(DiscoveryError::Length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Gid, Guid, Qpn};

    fn address(text: &str) -> Ipv6Addr {
        text.parse().expect("an address")
    }

    fn solicitation() -> Discovery {
        let target = address("fd73::12:3456");
        Discovery {
            kind: DiscoveryKind::Solicitation,
            source: address("fd73::1"),
            destination: solicited_node(target),
            target,
            link: Some(LinkAddress {
                qpn: Qpn::constant(0x1b4),
                gid: Gid::new(Gid::DEFAULT_PREFIX, Guid(9)),
            }),
        }
    }

    fn bytes(message: &Discovery) -> Vec<u8> {
        let mut out = [0xa5; Discovery::LEN_MAX];
        let len = message.emit(&mut out);
        out[..len].to_vec()
    }

    #[test]
    fn a_message_reads_as_it_was_written() {
        let advertisement = Discovery {
            kind: DiscoveryKind::Advertisement {
                router: false,
                solicited: true,
                replaces: true,
            },
            link: None,
            ..solicitation()
        };
        for message in [solicitation(), advertisement] {
            let packet = bytes(&message);
            assert_eq!(Discovery::of_packet(&packet), Ok(Some(message)));
            let with_padding = [&packet[..], &[0; 3]].concat();
            assert_eq!(Discovery::of_packet(&with_padding), Ok(Some(message)));
            for len in 41..packet.len() {
                let cut = Discovery::of_packet(&packet[..len]);
                assert_eq!(cut, Err(DiscoveryError::Length), "{len}");
            }
        }
    }

    #[test]
    fn the_checksum_is_as_computed_elsewhere() {
        // fe80::1 asks for fe80::2, with an Ethernet address; the checksum is of another program.
        let mut packet = vec![0x60, 0, 0, 0, 0, 32, 58, 255];
        packet.extend(address("fe80::1").octets());
        packet.extend(solicited_node(address("fe80::2")).octets());
        packet.extend([135, 0, 0x7c, 0x97, 0, 0, 0, 0]);
        packet.extend(address("fe80::2").octets());
        packet.extend([1, 1, 0, 0, 0, 0, 0, 1]);
        let read = Discovery::of_packet(&packet).expect("a message");
        let read = read.expect("a solicitation");
        assert_eq!(read.link, None, "not of InfiniBand");
    }

    #[test]
    fn what_a_router_or_a_liar_has_sent_is_refused() {
        let packet = bytes(&solicitation());
        let changed = |at: usize, value: u8| {
            let mut packet = packet.clone();
            packet[at] = value;
            Discovery::of_packet(&packet)
        };
        assert_eq!(changed(7, 254), Err(DiscoveryError::HopLimit(254)));
        assert_eq!(changed(50, 1), Err(DiscoveryError::Checksum));
        assert_eq!(changed(6, 17), Ok(None), "another protocol");
        assert_eq!(changed(40, 134), Ok(None), "a router's");
        let of_group = Discovery {
            target: address("ff02::1"),
            ..solicitation()
        };
        assert_eq!(
            Discovery::of_packet(&bytes(&of_group)),
            Err(DiscoveryError::Field)
        );
    }

    #[test]
    fn options_that_do_not_end_are_refused() {
        let link = |options: &[u8]| link_option(options, OPTION_SOURCE);
        assert_eq!(link(&[1, 0, 0, 0, 0, 0, 0, 0]), Err(DiscoveryError::Length));
        assert_eq!(link(&[1, 3, 0, 0, 0, 0, 0, 0]), Err(DiscoveryError::Length));
        assert_eq!(link(&[1]), Err(DiscoveryError::Length));
        assert_eq!(link(&[5, 1, 0, 0, 0, 0, 0, 0]), Ok(None));
        let mut own = vec![5, 1, 0, 0, 0, 0, 0, 0, 1, 3];
        own.resize(32, 7);
        assert!(link(&own).is_ok_and(|link| link.is_some()));
    }

    #[test]
    fn an_address_is_asked_for_by_its_last_three_bytes() {
        assert_eq!(
            solicited_node(address("fd73::12:3456")),
            address("ff02::1:ff12:3456")
        );
    }
}
