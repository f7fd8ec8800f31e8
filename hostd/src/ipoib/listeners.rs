//! Which multicast addresses programs listen to, as the kernel reports on its interface: IGMP (RFC 3376, 2236, 1112) and
//! multicast listener discovery (RFC 3810, 2710).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::groups::is_for_all;

/// A change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Some program listens.
    Joined(IpAddr),
    /// None does any more.
    Left(IpAddr),
}

const IGMP: u8 = 2;
const ICMPV6: u8 = 58;
const HOP_BY_HOP: u8 = 0;
/// Records of one report that are looked at.
const RECORDS_MAX: usize = 256;

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let pair = bytes.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*pair))
}

fn ipv4_at(bytes: &[u8], at: usize) -> Option<IpAddr> {
    let four = bytes.get(at..)?.first_chunk::<4>()?;
    Some(Ipv4Addr::from(*four).into())
}

fn ipv6_at(bytes: &[u8], at: usize) -> Option<IpAddr> {
    let sixteen = bytes.get(at..)?.first_chunk::<16>()?;
    Some(Ipv6Addr::from(*sixteen).into())
}

/// The changes that a packet reports; `None` if it is no report.
pub(super) fn changes(packet: &[u8]) -> Option<Vec<Change>> {
    let changes = match packet.first()? >> 4 {
        4 => of_igmp(packet)?,
        6 => of_mld(packet)?,
        _ => return None,
    };
    let is_followed = |change: &Change| {
        let (Change::Joined(address) | Change::Left(address)) = change;
        address.is_multicast() && !is_for_all(*address)
    };
    Some(changes.into_iter().filter(is_followed).collect())
}

fn of_igmp(packet: &[u8]) -> Option<Vec<Change>> {
    let header_len = usize::from(packet.first()? & 0x0f) * 4;
    if *packet.get(9)? != IGMP {
        return None;
    }
    let message = packet.get(header_len..)?;
    Some(match message.first()? {
        0x12 | 0x16 => ipv4_at(message, 4)
            .map(Change::Joined)
            .into_iter()
            .collect(),
        0x17 => ipv4_at(message, 4).map(Change::Left).into_iter().collect(),
        0x22 => records(message, 4, ipv4_at),
        _ => Vec::new(),
    })
}

fn of_mld(packet: &[u8]) -> Option<Vec<Change>> {
    // The router alert option stands in front of the message.
    let (next, message) = match *packet.get(6)? {
        HOP_BY_HOP => {
            let options = packet.get(40..)?;
            let len = usize::from(*options.get(1)?) * 8 + 8;
            (*options.first()?, options.get(len..)?)
        }
        next => (next, packet.get(40..)?),
    };
    if next != ICMPV6 {
        return None;
    }
    Some(match message.first()? {
        131 => ipv6_at(message, 8)
            .map(Change::Joined)
            .into_iter()
            .collect(),
        132 => ipv6_at(message, 8).map(Change::Left).into_iter().collect(),
        143 => records(message, 16, ipv6_at),
        _ => return None,
    })
}

/// The records of a report of IGMPv3 or MLDv2, which have the same form but for the length of addresses.
fn records(
    message: &[u8],
    address_len: usize,
    address_at: fn(&[u8], usize) -> Option<IpAddr>,
) -> Vec<Change> {
    let mut changes = Vec::new();
    let count = usize::from(u16_at(message, 6).unwrap_or(0)).min(RECORDS_MAX);
    let mut at = 8;
    for _ in 0..count {
        let (Some(&kind), Some(&extra)) = (message.get(at), message.get(at + 1)) else {
            break;
        };
        let (Some(sources), Some(address)) = (u16_at(message, at + 2), address_at(message, at + 4))
        else {
            break;
        };
        let sources = usize::from(sources);
        let change = match (kind, sources) {
            // Is, or becomes, a filter that excludes sources; includes or allows some.
            (2 | 4 | 5, _) | (1 | 3, 1..) => Some(Change::Joined(address)),
            (1 | 3, 0) => Some(Change::Left(address)),
            _ => None,
        };
        changes.extend(change);
        at += 4 + address_len * (1 + sources) + usize::from(extra) * 4;
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn igmp(message: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x46, 0, 0, 0, 0, 0, 0, 0, 1, IGMP, 0, 0];
        packet.extend([0; 8]);
        packet.extend([0x94, 4, 0, 0]);
        packet.extend(message);
        packet
    }

    fn mld(message: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, HOP_BY_HOP, 1];
        packet.extend([0; 32]);
        packet.extend([ICMPV6, 0, 5, 2, 0, 0, 1, 0]);
        packet.extend(message);
        packet
    }

    fn v4(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn reports_of_all_versions_tell_who_listens() {
        let group = v4("239.1.2.3");
        let v2 = |kind: u8| changes(&igmp(&[kind, 0, 0, 0, 239, 1, 2, 3]));
        assert_eq!(v2(0x16), Some(vec![Change::Joined(group)]));
        assert_eq!(v2(0x17), Some(vec![Change::Left(group)]));
        let v3 = [
            0x22, 0, 0, 0, 0, 0, 0, 3, 4, 0, 0, 0, 239, 1, 2, 3, 3, 1, 0, 0, 239, 1, 2, 3, 9, 9, 9,
            9, 5, 0, 0, 1, 239, 1, 2, 3, 10, 0, 0, 1,
        ];
        assert_eq!(
            changes(&igmp(&v3)),
            Some(vec![
                Change::Joined(group),
                Change::Left(group),
                Change::Joined(group)
            ])
        );
        let address: Ipv6Addr = "ff05::1234".parse().expect("an address");
        let mut message = vec![143, 0, 0, 0, 0, 0, 0, 1, 4, 0, 0, 0];
        message.extend(address.octets());
        assert_eq!(
            changes(&mld(&message)),
            Some(vec![Change::Joined(address.into())])
        );
    }

    #[test]
    fn groups_of_all_hosts_and_packets_that_end_early_change_nothing() {
        let all = igmp(&[0x16, 0, 0, 0, 224, 0, 0, 1]);
        assert_eq!(changes(&all), Some(Vec::new()));
        let node: Ipv6Addr = "ff02::1:ff00:7".parse().expect("an address");
        let mut message = vec![131, 0, 0, 0, 0, 0, 0, 0];
        message.extend(node.octets());
        assert_eq!(changes(&mld(&message)), Some(Vec::new()));
        let v3 = igmp(&[
            0x22, 0, 0, 0, 0, 0, 0xff, 0xff, 4, 0, 0xff, 0xff, 239, 1, 2, 3,
        ]);
        for len in 0..v3.len() {
            let _ = changes(&v3[..len]);
        }
        assert_eq!(changes(&v3), Some(vec![Change::Joined(v4("239.1.2.3"))]));
        assert_eq!(changes(&[0x45; 20]), None, "of another protocol");
        assert_eq!(changes(&[]), None);
    }
}
