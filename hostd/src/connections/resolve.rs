//! Which port has the internet address of a peer: as for packets of IP, the port's neighbours know or are asked (ARP,
//! neighbour discovery). The answer comes as an event.

use std::net::IpAddr;

use link::Time;
use uverbs::cm::{SocketAddress, errno as more};
use uverbs::errno;
use wire::Gid;
use wire::ipoib::LinkAddress;

use super::administration::PATIENCE_MS;
use super::commands::Done;
use super::events::event;
use super::{Connections, IdState};
use crate::addresses::HostNumber;
use crate::ipoib::Unresolved;

/// An address that is being asked for.
#[derive(Debug)]
pub(super) struct Resolution {
    /// Whose peer has it.
    pub(super) id: u32,
    /// When its program has waited for long enough.
    pub(super) end: Time,
}

impl Connections {
    /// Whether an address is the port's own, or the loopback's.
    pub(super) fn is_own(&self, ip: IpAddr) -> bool {
        ip == IpAddr::from([127, 0, 0, 1])
            || ip == IpAddr::V6(std::net::Ipv6Addr::LOCALHOST)
            || self.port.addresses.contains(&ip)
    }

    /// An address of the port in the family of `like`.
    pub(super) fn own_address(&self, like: IpAddr) -> Option<IpAddr> {
        let mut all = self.port.addresses.iter();
        all.find(|ip| ip.is_ipv4() == like.is_ipv4()).copied()
    }

    pub(super) fn resolve_address(
        &mut self,
        now: Time,
        number: u32,
        (source, destination): (Option<SocketAddress>, SocketAddress),
        timeout_ms: u32,
    ) -> Done {
        let id = self.id(number)?;
        if !matches!(id.state, IdState::Idle | IdState::Bound) {
            return Err(errno::EINVAL);
        }
        let bound = id.source;
        let wanted = source.or(bound);
        let is_any = |address: SocketAddress| address.ip.is_unspecified();
        let own = match wanted.filter(|address| !is_any(*address)) {
            Some(address) if self.is_own(address.ip) => address.ip,
            Some(_) => return Err(more::EADDRNOTAVAIL),
            None => match self.own_address(destination.ip) {
                Some(own) => own,
                None if self.is_own(destination.ip) => destination.ip,
                None => return Err(more::ENODEV),
            },
        };
        let to = destination.ip;
        let gid = match (to.is_multicast(), self.is_own(to)) {
            (true, _) => Some(super::groups::group_of(to, self.port.own_pkey)),
            (false, true) => Some(self.port.gid),
            // There are no routers.
            (false, false) if !self.reaches(to) => return Err(more::ENETUNREACH),
            (false, false) => None,
        };
        if bound.is_none() {
            let port = source.map_or(0, |source| source.port);
            self.take_port(number, SocketAddress { ip: own, port })?;
        }
        let id = self.id(number)?;
        if let Some(source) = &mut id.source {
            source.ip = own;
        }
        id.destination = Some(destination);
        match gid {
            Some(gid) => self.peer_found(number, gid),
            None => {
                id.state = IdState::AddressQuery;
                self.ask_neighbours(now, number, to, timeout_ms);
            }
        }
        Ok(Vec::new())
    }

    /// Whether an address is in a network of the port's.
    fn reaches(&self, to: IpAddr) -> bool {
        let shares = |own: &IpAddr| match (*own, to) {
            (IpAddr::V4(own), IpAddr::V4(to)) => {
                let beyond = 32 - u32::from(HostNumber::IPV4_PREFIX_LEN);
                own.to_bits() >> beyond == to.to_bits() >> beyond
            }
            (IpAddr::V6(own), IpAddr::V6(to)) => {
                let beyond = 128 - u32::from(HostNumber::IPV6_PREFIX_LEN);
                own.to_bits() >> beyond == to.to_bits() >> beyond
            }
            _ => false,
        };
        self.port.addresses.iter().any(shares)
    }

    fn ask_neighbours(&mut self, now: Time, number: u32, ip: IpAddr, timeout_ms: u32) {
        let patience = timeout_ms.clamp(*PATIENCE_MS.start(), *PATIENCE_MS.end());
        let resolution = Resolution {
            id: number,
            end: now + u64::from(patience) * 1_000_000,
        };
        self.last_resolution += 1;
        self.resolutions.insert(self.last_resolution, resolution);
        self.to_resolve.push_back((self.last_resolution, ip));
    }

    /// The next address that the port's neighbours are to be asked for, with the number of the question.
    pub(crate) fn poll_resolve(&mut self) -> Option<(u64, IpAddr)> {
        self.to_resolve.pop_front()
    }

    /// A question has been answered.
    pub(crate) fn resolved(&mut self, question: u64, answer: Result<LinkAddress, Unresolved>) {
        let Some(Resolution { id, .. }) = self.resolutions.remove(&question) else {
            return;
        };
        match answer {
            Ok(link) => self.peer_found(id, link.gid),
            Err(Unresolved::NoAnswer) => self.peer_not_found(id, more::EHOSTUNREACH),
            Err(Unresolved::Full) => self.peer_not_found(id, errno::ENOMEM),
        }
    }

    /// Gives up what has waited for long enough.
    pub(super) fn tick_resolutions(&mut self, now: Time) {
        let is_over = |_: &u64, one: &mut Resolution| one.end <= now;
        let over: Vec<Resolution> = self
            .resolutions
            .extract_if(.., is_over)
            .map(|(_, one)| one)
            .collect();
        for Resolution { id, .. } in over {
            self.peer_not_found(id, more::ETIMEDOUT);
        }
    }

    fn peer_found(&mut self, number: u32, gid: Gid) {
        if let Some(id) = self.ids.get_mut(&number) {
            id.peer_gid = gid;
            id.on_device = true;
            id.state = IdState::Resolved;
            self.tell(number, (event::ADDR_RESOLVED, 0), None);
        }
    }

    fn peer_not_found(&mut self, number: u32, errno: u16) {
        if let Some(id) = self.ids.get_mut(&number) {
            id.state = IdState::Bound;
            self.tell(number, (event::ADDR_ERROR, -i32::from(errno)), None);
        }
    }
}
