//! Packets of the interface to and from datagrams: where each goes, and what is dropped.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use link::Time;
use wire::ipoib::{Arp, Discovery, Encapsulation, LinkAddress, ethertype};
use wire::sa::McMemberRecord;
use wire::{Format as _, Gid, Lid, Qpn, Sl};

use super::counts::IpDrop;
use super::groups::{self, Route};
use super::listeners;
use super::paths::{Known, Path};
use super::{FromIp, HEADROOM, Ipoib, OUTGOING_MAX, ToIp};

/// A datagram to be sent.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) dlid: Lid,
    pub(crate) sl: Sl,
    pub(crate) qpn: Qpn,
    pub(crate) qkey: u32,
    pub(crate) pkey: u16,
    /// The group's record, if it is for one.
    pub(crate) group: Option<McMemberRecord>,
    /// The packet behind [`HEADROOM`] bytes, of which the last are the encapsulation's.
    bytes: Vec<u8>,
    /// Whether it came from the interface.
    counts: bool,
}

impl Outgoing {
    /// The datagram's payload.
    pub(crate) fn payload(&self) -> &[u8] {
        self.bytes
            .get(HEADROOM - Encapsulation::LEN..)
            .unwrap_or_default()
    }
}

/// Who has sent a datagram, and to whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming<'a> {
    pub(crate) src_qp: Qpn,
    /// Of its global route header.
    pub(crate) sgid: Option<Gid>,
    pub(crate) payload: &'a [u8],
}

impl Ipoib {
    /// Takes packets of the interface.
    pub(crate) fn handle_packets(&mut self, now: Time, message: ToIp) {
        let ToIp::Packets(packets) = message;
        for packet in packets {
            let before = self.outgoing.len();
            if let Err(reason) = self.send_packet(now, packet) {
                self.drop_many(reason, 1);
            }
            if self.outgoing.len() == before {
                self.taken += 1;
            }
        }
    }

    fn send_packet(&mut self, now: Time, mut bytes: Vec<u8>) -> Result<(), IpDrop> {
        let packet = bytes.get(HEADROOM..).ok_or(IpDrop::NotIp)?;
        let to = destination(packet).ok_or(IpDrop::NotIp)?;
        if packet.len() > usize::from(self.mtu) {
            return Err(IpDrop::TooLong);
        }
        if let Some(changes) = listeners::changes(packet) {
            self.follow(now, changes);
            return Ok(());
        }
        if matches!(Discovery::of_packet(packet), Ok(Some(_)) | Err(_)) {
            // The kernel has no link-layer address to tell.
            return Ok(());
        }
        let kind = match to {
            IpAddr::V4(_) => ethertype::IPV4,
            IpAddr::V6(_) => ethertype::IPV6,
        };
        encapsulate(&mut bytes, kind);
        if groups::is_for_all(to) || to == IpAddr::V4(self.broadcast) {
            return self.send_to_all(bytes, true);
        }
        if to.is_multicast() {
            self.reports.want(now);
            return match self.groups.route(now, to, &mut bytes) {
                Route::To(record) => self.push(to_group(record, bytes, true)),
                Route::Waits { dropped: false } => Ok(()),
                Route::Waits { dropped: true } | Route::None => Err(IpDrop::NoGroup),
            };
        }
        if self.groups.broadcast().is_none() {
            return Err(IpDrop::NotJoined);
        }
        let link = self.neighbours.find(now, to);
        match link.map(|link| (link, self.path(now, link))) {
            Some((link, Known::Path(path))) => self.push_unicast(path, link, bytes),
            Some((_, Known::Refused)) => Err(IpDrop::NoPath),
            Some((_, Known::Asked)) | None => {
                let dropped = self.neighbours.hold(to, bytes);
                self.drop_many(IpDrop::Full, dropped);
                Ok(())
            }
        }
    }

    pub(super) fn path(&mut self, now: Time, link: LinkAddress) -> Known {
        self.reports.want(now);
        self.paths.find(now, link.gid)
    }

    /// Joins and leaves groups as the kernel reports.
    fn follow(&mut self, now: Time, changes: Vec<listeners::Change>) {
        for change in changes {
            match change {
                listeners::Change::Joined(address) => {
                    self.reports.want(now);
                    if !self.groups.join(now, address) {
                        self.drop_many(IpDrop::NoGroup, 1);
                    }
                }
                listeners::Change::Left(address) => self.groups.leave(now, address),
            }
        }
    }

    pub(super) fn send_to_all(&mut self, bytes: Vec<u8>, counts: bool) -> Result<(), IpDrop> {
        let record = *self.groups.broadcast().ok_or(IpDrop::NotJoined)?;
        self.push(to_group(record, bytes, counts))
    }

    fn push_unicast(
        &mut self,
        path: Path,
        link: LinkAddress,
        bytes: Vec<u8>,
    ) -> Result<(), IpDrop> {
        let outgoing = self.unicast(path, link, bytes, true)?;
        self.push(outgoing)
    }

    pub(super) fn unicast(
        &self,
        path: Path,
        link: LinkAddress,
        bytes: Vec<u8>,
        counts: bool,
    ) -> Result<Outgoing, IpDrop> {
        let record = self.groups.broadcast().ok_or(IpDrop::NotJoined)?;
        if bytes.len() > usize::from(path.mtu) + HEADROOM - Encapsulation::LEN {
            return Err(IpDrop::TooLong);
        }
        Ok(Outgoing {
            dlid: path.dlid,
            sl: path.sl,
            qpn: link.qpn,
            qkey: record.qkey,
            pkey: record.pkey,
            group: None,
            bytes,
            counts,
        })
    }

    pub(super) fn push(&mut self, outgoing: Outgoing) -> Result<(), IpDrop> {
        if self.outgoing.len() >= 2 * OUTGOING_MAX {
            return Err(IpDrop::Full);
        }
        self.outgoing.push_back(outgoing);
        Ok(())
    }

    /// The service level of the next datagram to be sent.
    pub(crate) fn next_sl(&self) -> Option<Sl> {
        self.outgoing.front().map(|next| next.sl)
    }

    /// Takes the next datagram to be sent.
    pub(crate) fn next_outgoing(&mut self) -> Option<Outgoing> {
        let next = self.outgoing.pop_front()?;
        if next.counts {
            self.counts.sent += 1;
            self.taken += 1;
        }
        Some(next)
    }

    /// Takes a datagram to the interface's queue pair or to a group that it hears.
    pub(crate) fn receive(&mut self, now: Time, incoming: Incoming<'_>) {
        if let Err(reason) = self.take(now, incoming) {
            self.drop_many(reason, 1);
        }
    }

    fn take(&mut self, now: Time, incoming: Incoming<'_>) -> Result<(), IpDrop> {
        let malformed = |_| IpDrop::Malformed;
        let (header, packet) = Encapsulation::parse(incoming.payload).map_err(malformed)?;
        match header.ethertype {
            ethertype::ARP => {
                let (arp, _) = Arp::parse(packet).map_err(malformed)?;
                self.take_arp(now, incoming, &arp)
            }
            ethertype::IPV4 => {
                let packet = whole_ipv4(packet).ok_or(IpDrop::Malformed)?;
                self.deliver(packet)
            }
            ethertype::IPV6 => {
                let packet = whole_ipv6(packet).ok_or(IpDrop::Malformed)?;
                match Discovery::of_packet(packet).map_err(|_| IpDrop::BadDiscovery)? {
                    Some(message) => self.take_discovery(now, incoming, &message),
                    None => self.deliver(packet),
                }
            }
            _ => Err(IpDrop::UnknownType),
        }
    }

    fn deliver(&mut self, packet: &[u8]) -> Result<(), IpDrop> {
        if !self.has_interface {
            return Err(IpDrop::NoInterface);
        }
        if self.events.len() >= OUTGOING_MAX {
            return Err(IpDrop::Full);
        }
        self.counts.received += 1;
        self.events.push_back(FromIp::Packet(with_headroom(packet)));
        Ok(())
    }
}

/// A packet behind room for headers.
pub(super) fn with_headroom(packet: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADROOM + packet.len());
    bytes.resize(HEADROOM, 0);
    bytes.extend_from_slice(packet);
    bytes
}

/// Writes the encapsulation in front of a packet.
pub(super) fn encapsulate(bytes: &mut [u8], ethertype: u16) {
    if let Some(room) = bytes.get_mut(HEADROOM - Encapsulation::LEN..HEADROOM) {
        Encapsulation { ethertype }.emit(room);
    }
}

pub(super) fn to_group(record: McMemberRecord, bytes: Vec<u8>, counts: bool) -> Outgoing {
    Outgoing {
        dlid: record.mlid,
        sl: record.sl,
        qpn: Qpn::MULTICAST,
        qkey: record.qkey,
        pkey: record.pkey,
        group: Some(record),
        bytes,
        counts,
    }
}

/// Where an IP packet of a program is to go.
fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => {
            let packet = whole_ipv4(packet)?;
            let octets = packet.get(16..)?.first_chunk::<4>()?;
            Some(Ipv4Addr::from(*octets).into())
        }
        6 => {
            let packet = whole_ipv6(packet)?;
            let octets = packet.get(24..)?.first_chunk::<16>()?;
            Some(Ipv6Addr::from(*octets).into())
        }
        _ => None,
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<usize> {
    let pair = bytes.get(at..)?.first_chunk::<2>()?;
    Some(usize::from(u16::from_be_bytes(*pair)))
}

/// An IPv4 packet without what is behind it.
fn whole_ipv4(bytes: &[u8]) -> Option<&[u8]> {
    let first = *bytes.first()?;
    let header_len = usize::from(first & 0x0f) * 4;
    let len = u16_at(bytes, 2)?;
    if first >> 4 != 4 || header_len < 20 || len < header_len {
        return None;
    }
    bytes.get(..len)
}

/// An IPv6 packet without what is behind it.
fn whole_ipv6(bytes: &[u8]) -> Option<&[u8]> {
    if bytes.first()? >> 4 != 6 {
        return None;
    }
    bytes.get(..40 + u16_at(bytes, 4)?)
}
