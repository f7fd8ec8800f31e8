//! IP over InfiniBand at one port, without IO: packets of the host's interface to and from datagrams (RFC 4391, 4392).
//!
//! ```text
//!  interface ---packet--> handle_packets ---> Neighbours ---> Paths ---> outgoing ---> the port, when its VL has room
//!                              |  (ARP, neighbour discovery)   (SA)          ^
//!                              +-----------> Groups (SA) --------------------+
//!  interface <--packet--- receive <--- datagrams to QP 0x1b4 and to groups
//! ```
//!
//! The interface is one of layer 3, so all that the kernel would do for a link-layer address is done here: resolving,
//! answering, and joining the groups of which the kernel reports that programs listen to them. Where there is no
//! interface (programs share the machine's loopback interface) addresses are resolved and answered all the same, for whoever
//! asks by [`Ipoib::resolve`].
//!
//! What is left out: connected mode, addresses that are added to the interface by hand (nobody answers for them), routers.
//! Owners of IPv6 addresses are asked by the group of all interfaces, not by groups of their own, so that a host joins one group
//! as long as no program listens to others.

mod agenda;
mod counts;
mod groups;
mod listeners;
mod neighbours;
mod paths;
mod reports;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bincode::{Decode, Encode};
use link::Time;
use wire::ipoib::{
    Arp, ArpOperation, Discovery, DiscoveryKind, Encapsulation, LinkAddress, ethertype, link_local,
    solicited_node,
};
use wire::mad::Mad;
use wire::sa::McMemberRecord;
use wire::{Format as _, Gid, Guid, Lid, Mtu, PortNum, Qpn, Sl};

use crate::addresses::{HostNumber, Network};
use counts::{IpCounts, IpDrop};
use groups::{Group, Groups, Route};
use neighbours::{Due, Neighbours, Question};
use paths::{Known, Path, Paths};
use reports::{Report, Reports};

/// The queue pair of every interface.
pub(crate) const IPOIB_QPN: Qpn = Qpn::constant(0x1b4);
/// Bytes in front of every packet of the interface, for the headers of whoever has it.
pub const HEADROOM: usize = 12;
/// Packets that wait for the port at most. The shell hands in no more than the port has taken.
pub const OUTGOING_MAX: usize = 1024;
/// The highest MTU of the interface before the group of all interfaces tells its own.
pub const MTU_FIRST: u16 = Mtu::Mtu2048.bytes() - ENCAPSULATION_BYTES;

/// Attempts of a request to subnet administration.
const ATTEMPTS: u32 = 10;
/// The bit that tells transaction ids of these requests from those of [`crate::multicast`]; the one above it is of
/// [`crate::connections`].
const TID: u32 = 1 << 30;
/// Bytes of the encapsulation.
const ENCAPSULATION_BYTES: u16 = 4;
/// Requests to resolve that have an answer at most.
const RESOLVED_MAX: usize = 4096;
/// How many packets the shell learns at once that the port has taken, at least, while more wait.
const TAKEN_MIN: u32 = 64;

/// How long an attempt of a request waits for its answer: 0.1 s, then twice as long each time up to 1.6 s.
fn answer_timeout_ns(attempts: u32) -> u64 {
    100_000_000 << attempts.min(4)
}

/// A port with addresses.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct IpPort {
    /// The port.
    pub port: PortNum,
    /// Its number among those of the fabric.
    pub number: HostNumber,
    /// Its interface; none where all hosts share the loopback interface.
    pub interface: Option<String>,
}

impl IpPort {
    /// In which network its IPv4 address is.
    #[must_use]
    pub const fn network(&self) -> Network {
        match self.interface {
            Some(_) => Network::Interfaces,
            None => Network::Loopback,
        }
    }
}

/// From the interface.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum ToIp {
    /// Packets, each behind [`HEADROOM`] bytes, no more than the port has room for ([`FromIp::Taken`]).
    Packets(Vec<Vec<u8>>),
}

/// For the interface.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum FromIp {
    /// A packet behind [`HEADROOM`] bytes.
    Packet(Vec<u8>),
    /// So many packets have left the queue, which holds [`OUTGOING_MAX`].
    Taken(u32),
    /// The longest packet that can be sent now.
    Mtu(u16),
}

/// Why an address has not been resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unresolved {
    /// Nobody has answered, within 4 s.
    NoAnswer,
    /// Too many requests wait.
    Full,
}

/// Who has asked for an address to be resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// A client of the control socket, by the token of its request.
    Control(u64),
    /// A connection of a program, by the number of its question.
    Connection(u64),
}

/// The answer to who has asked.
pub(crate) type Resolved = (Asker, Result<LinkAddress, Unresolved>);

/// How the port stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortView {
    pub(crate) is_active: bool,
    pub(crate) sm_lid: Lid,
    pub(crate) lid: Lid,
    pub(crate) gid: Gid,
    pub(crate) pkey: u16,
    pub(crate) mtu: Mtu,
}

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

/// IP over InfiniBand at one port.
#[derive(Debug)]
pub(crate) struct Ipoib {
    ipv4: Ipv4Addr,
    ipv6: Ipv6Addr,
    link_local: Ipv6Addr,
    has_interface: bool,
    /// Whether packets to that IPv4 address are for all.
    broadcast: Ipv4Addr,
    port: PortView,
    mtu: u16,
    groups: Groups,
    neighbours: Neighbours,
    paths: Paths,
    reports: Reports,
    outgoing: VecDeque<Outgoing>,
    /// Packets that have left the queue, which the shell does not know.
    taken: u32,
    events: VecDeque<FromIp>,
    resolved: VecDeque<Resolved>,
    last_tid: u32,
    counts: IpCounts,
}

/// Whether a transaction id is of a request made here.
pub(crate) fn is_own(tid: u64) -> bool {
    tid >> 30 == 1
}

/// A packet behind room for headers.
fn with_headroom(packet: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADROOM + packet.len());
    bytes.resize(HEADROOM, 0);
    bytes.extend_from_slice(packet);
    bytes
}

impl Ipoib {
    /// A port with that GUID that is not Active yet.
    pub(crate) fn new(config: &IpPort, guid: Guid) -> Self {
        let [a, b, ..] = config.number.ipv4(config.network()).octets();
        let port = PortView {
            is_active: false,
            sm_lid: Lid::ZERO,
            lid: Lid::ZERO,
            gid: Gid::new(Gid::DEFAULT_PREFIX, guid),
            pkey: wire::p_key::DEFAULT_PARTITION | wire::p_key::FULL,
            mtu: Mtu::Mtu256,
        };
        Self {
            ipv4: config.number.ipv4(config.network()),
            ipv6: config.number.ipv6(),
            link_local: link_local(port.gid),
            has_interface: config.interface.is_some(),
            broadcast: Ipv4Addr::new(a, b, u8::MAX, u8::MAX),
            port,
            mtu: MTU_FIRST,
            groups: Groups::new(port.pkey),
            neighbours: Neighbours::default(),
            paths: Paths::default(),
            reports: Reports::default(),
            outgoing: VecDeque::new(),
            taken: 0,
            events: VecDeque::new(),
            resolved: VecDeque::new(),
            last_tid: 0,
            counts: IpCounts::default(),
        }
    }

    /// The port's own addresses: IPv4, and where there is an interface, IPv6.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let ipv6 = [self.ipv6, self.link_local].map(IpAddr::from);
        let ipv6 = ipv6.into_iter().filter(|_| self.has_interface);
        std::iter::once(self.ipv4.into()).chain(ipv6)
    }

    /// The port's own link-layer address.
    pub(crate) fn link_address(&self) -> LinkAddress {
        LinkAddress {
            qpn: IPOIB_QPN,
            gid: self.port.gid,
        }
    }

    /// What was counted.
    pub(crate) fn counts(&self) -> &IpCounts {
        &self.counts
    }

    /// The port has been set anew, or its state has changed; `reregister`: the subnet manager may have lost what it
    /// knew of it.
    pub(crate) fn set_port(&mut self, now: Time, port: PortView, reregister: bool) {
        let was = std::mem::replace(&mut self.port, port);
        self.link_local = link_local(port.gid);
        self.groups.set_pkey(port.pkey);
        if !port.is_active || port.sm_lid == Lid::ZERO {
            if was.is_active {
                self.groups.rest();
                self.reports.rest();
                self.paths.forget_all();
            }
            return;
        }
        let is_changed = PortView {
            mtu: port.mtu,
            ..was
        } != port;
        if is_changed || reregister {
            self.paths.forget_all();
            self.groups.rejoin(now);
            self.reports.renew(now);
        }
    }

    /// Resolves an address: [`Self::poll_resolved`] has the answer, after 4 s at the latest. It is who has the address
    /// now, or who had it a moment ago.
    pub(crate) fn resolve(&mut self, now: Time, asker: Asker, ip: IpAddr) {
        if self.addresses().any(|own| own == ip) {
            let own = self.link_address();
            return self.push_resolved(asker, Ok(own));
        }
        match self.neighbours.find(now, ip) {
            Some(link) => self.push_resolved(asker, Ok(link)),
            None => {
                if !self.neighbours.wait(ip, asker) {
                    self.push_resolved(asker, Err(Unresolved::Full));
                }
            }
        }
    }

    /// The next answer to [`Self::resolve`].
    pub(crate) fn poll_resolved(&mut self) -> Option<Resolved> {
        self.resolved.pop_front()
    }

    fn push_resolved(&mut self, asker: Asker, result: Result<LinkAddress, Unresolved>) {
        // Who asks without taking answers loses the oldest.
        if self.resolved.len() >= RESOLVED_MAX {
            self.resolved.pop_front();
        }
        self.resolved.push_back((asker, result));
    }

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

    fn path(&mut self, now: Time, link: LinkAddress) -> Known {
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

    fn send_to_all(&mut self, bytes: Vec<u8>, counts: bool) -> Result<(), IpDrop> {
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

    fn unicast(
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

    fn push(&mut self, outgoing: Outgoing) -> Result<(), IpDrop> {
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

    /// Which group's packets are taken, and by which queue key.
    pub(crate) fn hears(&self, mgid: Gid) -> Option<u32> {
        self.groups.hears(mgid)
    }

    /// Whether the interface needs a membership in a group.
    pub(crate) fn holds(&self, mgid: Gid, join_state: u8) -> bool {
        self.groups.holds(mgid, join_state)
    }

    /// The queue key of the interface, if the port is a member of the group of all.
    pub(crate) fn qkey(&self) -> Option<u32> {
        self.groups.broadcast().map(|record| record.qkey)
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

    /// Refuses a sender that tells another link-layer address than it has, or an address of this port.
    fn check_sender(
        &self,
        incoming: Incoming<'_>,
        ip: IpAddr,
        link: LinkAddress,
    ) -> Result<(), IpDrop> {
        let is_other = incoming.sgid.is_some_and(|sgid| sgid != link.gid);
        let is_port = !link.gid.is_multicast() && link.gid != self.port.gid;
        if link.qpn != incoming.src_qp || is_other || !is_port {
            return Err(IpDrop::Lie);
        }
        match self.addresses().any(|own| own == ip) {
            true => Err(IpDrop::Conflict),
            false => Ok(()),
        }
    }

    fn take_arp(&mut self, now: Time, incoming: Incoming<'_>, arp: &Arp) -> Result<(), IpDrop> {
        let sender: IpAddr = arp.sender_ip.into();
        self.check_sender(incoming, sender, arp.sender)?;
        let is_for_us = arp.target_ip == self.ipv4;
        let is_answer = arp.operation == ArpOperation::Reply && is_for_us;
        let asks_us = arp.operation == ArpOperation::Request && is_for_us;
        self.hear(now, sender, arp.sender, is_answer, asks_us);
        if asks_us {
            let answer = Arp {
                operation: ArpOperation::Reply,
                sender: self.link_address(),
                sender_ip: self.ipv4,
                target: arp.sender,
                target_ip: arp.sender_ip,
            };
            let bytes = with_headroom(&answer.to_bytes::<{ Arp::LEN }>());
            self.answer(now, sender, arp.sender, bytes, ethertype::ARP);
        }
        Ok(())
    }

    fn take_discovery(
        &mut self,
        now: Time,
        incoming: Incoming<'_>,
        message: &Discovery,
    ) -> Result<(), IpDrop> {
        let solicits = message.kind == DiscoveryKind::Solicitation;
        let sender = if solicits {
            message.source
        } else {
            message.target
        };
        let Some(link) = message.link.filter(|_| !sender.is_unspecified()) else {
            // Who has no address yet asks whether it is free: an answer would go to all.
            return Ok(());
        };
        self.check_sender(incoming, sender.into(), link)?;
        let is_own = [self.ipv6, self.link_local].contains(&message.target);
        let asks_us = solicits && is_own && self.has_interface;
        let solicited = matches!(
            message.kind,
            DiscoveryKind::Advertisement {
                solicited: true,
                ..
            }
        );
        self.hear(now, sender.into(), link, solicited, asks_us);
        if asks_us {
            let answer = Discovery {
                kind: DiscoveryKind::Advertisement {
                    router: false,
                    solicited: true,
                    replaces: true,
                },
                source: message.target,
                destination: message.source,
                target: message.target,
                link: Some(self.link_address()),
            };
            let mut out = [0; Discovery::LEN_MAX];
            let len = answer.emit(&mut out);
            let bytes = with_headroom(&out[..len]);
            self.answer(now, sender.into(), link, bytes, ethertype::IPV6);
        }
        Ok(())
    }

    /// Somebody has told its link-layer address.
    fn hear(&mut self, now: Time, ip: IpAddr, link: LinkAddress, is_answer: bool, asks_us: bool) {
        let dropped = self.neighbours.hear(now, ip, link, is_answer, asks_us);
        self.drop_many(IpDrop::Full, dropped);
        self.settle_evicted();
        if self.neighbours.is_known(ip, link) {
            for asker in self.neighbours.take_resolvers(ip) {
                self.push_resolved(asker, Ok(link));
            }
            self.send_waiting(now, ip, link);
        }
    }

    /// Sends what has waited for a neighbour, if the way is known.
    fn send_waiting(&mut self, now: Time, ip: IpAddr, link: LinkAddress) {
        if !self.neighbours.has_waiting(ip) {
            return;
        }
        match self.path(now, link) {
            Known::Path(path) => {
                while let Some(bytes) = self.neighbours.take_waiting(ip) {
                    let pushed = self
                        .unicast(path, link, bytes, false)
                        .and_then(|outgoing| self.push(outgoing));
                    match pushed {
                        Ok(()) => self.counts.sent += 1,
                        Err(reason) => self.drop_many(reason, 1),
                    }
                }
            }
            Known::Asked => {}
            Known::Refused => {
                let dropped = self.neighbours.drop_waiting(ip);
                self.drop_many(IpDrop::NoPath, dropped);
            }
        }
    }

    /// Answers a neighbour that has asked; now, or once the way to it is known.
    fn answer(&mut self, now: Time, ip: IpAddr, link: LinkAddress, mut bytes: Vec<u8>, kind: u16) {
        encapsulate(&mut bytes, kind);
        let sent = match self.path(now, link) {
            Known::Path(path) => self
                .unicast(path, link, bytes, false)
                .and_then(|outgoing| self.push(outgoing)),
            Known::Refused => Err(IpDrop::NoPath),
            Known::Asked => {
                let dropped = self.neighbours.hold(ip, bytes);
                self.drop_many(IpDrop::Full, dropped);
                Ok(())
            }
        };
        if let Err(reason) = sent {
            self.drop_many(reason, 1);
        }
    }

    /// Asks who has an address.
    fn ask(&mut self, now: Time, Question { ip, link }: Question) {
        let own = self.link_address();
        let (packet, kind) = match ip {
            IpAddr::V4(ip) => {
                let request = Arp {
                    operation: ArpOperation::Request,
                    sender: own,
                    sender_ip: self.ipv4,
                    target: LinkAddress::default(),
                    target_ip: ip,
                };
                let packet = request.to_bytes::<{ Arp::LEN }>();
                (with_headroom(&packet), ethertype::ARP)
            }
            IpAddr::V6(ip) => {
                let source = match ip.is_unicast_link_local() {
                    true => self.link_local,
                    false => self.ipv6,
                };
                let request = Discovery {
                    kind: DiscoveryKind::Solicitation,
                    source,
                    destination: solicited_node(ip),
                    target: ip,
                    link: Some(own),
                };
                let mut out = [0; Discovery::LEN_MAX];
                let len = request.emit(&mut out);
                (with_headroom(&out[..len]), ethertype::IPV6)
            }
        };
        let mut bytes = packet;
        encapsulate(&mut bytes, kind);
        let known = link.map(|link| (link, self.path(now, link)));
        let sent = match known {
            Some((link, Known::Path(path))) => self
                .unicast(path, link, bytes, false)
                .and_then(|outgoing| self.push(outgoing)),
            _ => self.send_to_all(bytes, false),
        };
        if let Err(reason) = sent {
            self.drop_many(reason, 1);
        }
    }

    /// Does what is due, and takes the next request to subnet administration.
    pub(crate) fn poll_request(&mut self, now: Time) -> Option<Mad> {
        while let Some(due) = self.neighbours.poll(now) {
            match due {
                Due::Ask(question) => self.ask(now, question),
                Due::Lost(lost) => {
                    // Its LID may be another one's now.
                    if let Some(link) = lost.link {
                        self.paths.forget(link.gid);
                    }
                    self.drop_many(IpDrop::Unreachable, lost.dropped);
                    for asker in lost.resolvers {
                        self.push_resolved(asker, Err(Unresolved::NoAnswer));
                    }
                }
            }
        }
        if !self.port.is_active || self.port.sm_lid == Lid::ZERO {
            return None;
        }
        loop {
            let deadlines = [
                self.groups.deadline(),
                self.paths.deadline(),
                self.reports.deadline(),
            ];
            if !deadlines.into_iter().flatten().any(|at| at <= now) {
                return None;
            }
            self.last_tid = self.last_tid.wrapping_add(1);
            let tid = self.last_tid & (TID - 1) | TID;
            if let Some(mad) = self.groups.poll(now, tid, &self.port) {
                return Some(mad);
            }
            match self.paths.poll(now, tid, self.port.gid, self.port.pkey) {
                Some(Ok(mad)) => return Some(mad),
                Some(Err(gid)) => self.settle_path(now, gid),
                None => {}
            }
            if let Some(mad) = self.reports.poll(now, tid) {
                return Some(mad);
            }
        }
    }

    /// Takes an answer of subnet administration to a request made here.
    pub(crate) fn answered(&mut self, now: Time, mad: &Mad) {
        if let Some((group, dropped)) = self.groups.answered(now, mad) {
            self.drop_many(IpDrop::NoGroup, dropped);
            if group == Group::Broadcast {
                self.settle_mtu();
            }
            while let Some((record, bytes)) = self.groups.take_waiting(group) {
                match self.push(to_group(record, bytes, false)) {
                    Ok(()) => self.counts.sent += 1,
                    Err(reason) => self.drop_many(reason, 1),
                }
            }
        } else if let Some(gid) = self.paths.answered(now, mad) {
            self.settle_path(now, gid);
        } else {
            let _of_subscription = self.reports.answered(mad);
        }
    }

    /// Whether reports of subnet administration are for the interface.
    pub(crate) fn wants_reports(&self) -> bool {
        self.reports.is_wanted()
    }

    /// Takes a report of subnet administration.
    pub(crate) fn reported(&mut self, now: Time, mad: &Mad) {
        match reports::read(mad) {
            Some(Report::Port(gid)) => self.paths.forget(gid),
            Some(Report::Group(mgid)) => {
                let dropped = self.groups.deleted(now, mgid);
                self.drop_many(IpDrop::NoGroup, dropped);
            }
            None => {}
        }
    }

    /// Something is known now of the way to a port: what waits for it goes.
    fn settle_path(&mut self, now: Time, gid: Gid) {
        for ip in self.neighbours.waiting_at(gid) {
            if let Some(link) = self.neighbours.link(ip) {
                self.send_waiting(now, ip, link);
            }
        }
    }

    fn settle_evicted(&mut self) {
        for asker in self.neighbours.take_evicted() {
            self.push_resolved(asker, Err(Unresolved::Full));
        }
    }

    /// The MTU follows that of the group of all.
    fn settle_mtu(&mut self) {
        let Some(group) = self
            .groups
            .broadcast()
            .and_then(|record| Mtu::from_code(record.mtu))
        else {
            return;
        };
        let mtu = group.min(self.port.mtu).bytes() - ENCAPSULATION_BYTES;
        if mtu != self.mtu {
            self.mtu = mtu;
            self.events.push_back(FromIp::Mtu(mtu));
        }
    }

    /// The next message for the interface.
    pub(crate) fn poll_event(&mut self) -> Option<FromIp> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        if self.taken >= TAKEN_MIN || self.taken > 0 && self.outgoing.is_empty() {
            return Some(FromIp::Taken(std::mem::take(&mut self.taken)));
        }
        None
    }

    /// When something is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let requests = [
            self.groups.deadline(),
            self.paths.deadline(),
            self.reports.deadline(),
        ];
        let requests = requests.into_iter().flatten();
        let requests = requests.filter(|_| self.port.is_active && self.port.sm_lid != Lid::ZERO);
        requests.chain(self.neighbours.deadline()).min()
    }

    fn drop_many(&mut self, reason: IpDrop, packets: usize) {
        if packets > 0 {
            self.counts.drop_many(reason, packets);
        }
    }
}

/// Writes the encapsulation in front of a packet.
fn encapsulate(bytes: &mut [u8], ethertype: u16) {
    if let Some(room) = bytes.get_mut(HEADROOM - Encapsulation::LEN..HEADROOM) {
        Encapsulation { ethertype }.emit(room);
    }
}

fn to_group(record: McMemberRecord, bytes: Vec<u8>, counts: bool) -> Outgoing {
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
