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
mod packets;
mod paths;
mod reports;
mod resolution;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bincode::{Decode, Encode};
use link::Time;
use wire::ipoib::{LinkAddress, link_local};
use wire::mad::Mad;
use wire::{Gid, Guid, Lid, Mtu, PortNum, Qpn};

use crate::addresses::{HostNumber, Network};
use counts::{IpCounts, IpDrop};
use groups::{Group, Groups};
use neighbours::{Due, Neighbours};
use packets::to_group;
use paths::Paths;
use reports::{Report, Reports};

pub(crate) use packets::{Incoming, Outgoing};

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

    /// The groups whose packets are taken, with their queue keys.
    pub(crate) fn heard(&self) -> impl Iterator<Item = (Gid, u32)> {
        self.groups.heard()
    }

    /// What [`Self::take_changed`] would tell.
    pub(crate) const fn has_changed(&self) -> bool {
        self.groups.has_changed()
    }

    /// Whether [`Self::heard`] or [`Self::qkey`] may have changed since this was called.
    pub(crate) fn take_changed(&mut self) -> bool {
        self.groups.take_changed()
    }

    /// Whether the interface needs a membership in a group.
    pub(crate) fn holds(&self, mgid: Gid, join_state: u8) -> bool {
        self.groups.holds(mgid, join_state)
    }

    /// The queue key of the interface, if the port is a member of the group of all.
    pub(crate) fn qkey(&self) -> Option<u32> {
        self.groups.broadcast().map(|record| record.qkey)
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
