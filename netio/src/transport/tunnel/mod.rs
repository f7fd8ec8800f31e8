//! Tunnels: cables over a network that others share, between machines.
//!
//! A tunnel is UDP with what a network lacks beside a cable:
//!
//! | a network | a tunnel |
//! |---|---|
//! | takes packets of some length only | cuts the stream of records anew wherever the path's MTU is reached (`path`) |
//! | loses, reorders, repeats | repeats until the peer has it ([`link::retry`]) |
//! | carries what others forge, damage, send again | seals every datagram (`keys`), and takes each number once (`replay`) |
//!
//! `session` is all of that without sockets; here are the sockets. The records of a tunnel are the same as those of other links, so a
//! port knows nothing of it.

mod keys;
mod path;
mod replay;
mod session;
mod socket;

#[cfg(test)]
mod tests;

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};

use link::Time;
use wire::tunnel::{CableSecret, LinkSecurity};
use wire::udplink::{LinkSecret, UdpEndpoint};

pub use keys::JobSecret;
pub use path::MTU_LEAST;
use path::Path;
use session::Past;
pub use session::{Broken, OVERHEAD_BYTES, RECORD_ROOM, Session};
pub use socket::{TunnelSocket, TunnelSocketAt};

use super::{LinkCounter, LinkCounters, ReceiveBatch, SendBatch, discard_waiting, size_buffers};
use crate::NetError;
use crate::random;

/// How the tunnels of a device are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TunnelOptions {
    /// How datagrams are protected.
    pub security: LinkSecurity,
    /// The longest IP packet, bytes; `None`: what the path takes.
    pub mtu: Option<u16>,
}

/// The peer of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelPeer {
    /// Its end.
    pub end: UdpEndpoint,
    /// What the keys of the cable are made of.
    pub secret: CableSecret,
}

/// One end of a tunnel.
#[derive(Debug)]
pub(crate) struct TunnelLink {
    socket: UdpSocket,
    own: UdpEndpoint,
    options: TunnelOptions,
    session: Option<Session>,
    past: Past,
    path: Path,
    can_bundle: bool,
    /// How often the path has changed.
    paths: u64,
    /// The peer's stream makes no sense.
    is_broken: bool,
}

impl TunnelLink {
    pub(super) fn open(at: TunnelSocketAt, options: TunnelOptions) -> Result<Self, NetError> {
        let socket = at.open()?;
        let failed = |source| NetError::new("set up the UDP socket of a tunnel", source);
        socket.set_nonblocking(true).map_err(failed)?;
        path::prepare(&socket).map_err(failed)?;
        size_buffers(socket.as_fd());
        let own = UdpEndpoint {
            address: socket.local_addr().map_err(failed)?,
            secret: LinkSecret(random::number()?),
            epoch: random::number()?,
        };
        let mut can_bundle = true;
        let path = Path::of(&socket, options.mtu, &mut can_bundle);
        Ok(Self {
            socket,
            own,
            options,
            session: None,
            past: Past::default(),
            path,
            can_bundle,
            paths: 0,
            is_broken: false,
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn endpoint(&self) -> UdpEndpoint {
        self.own
    }

    /// Connects to `peer`; whether it is another one, or another life of it, than before.
    pub(crate) fn connect(&mut self, peer: &TunnelPeer) -> Result<bool, NetError> {
        let what = || format!("connect {} to {}", self.own.address, peer.end.address);
        let session = Session::new(self.options.security, &peer.secret, self.own, peer.end);
        let number = session.number();
        if self.session.as_ref().map(Session::number) == Some(number) && !self.is_broken {
            return Ok(false);
        }
        if self.past.holds(number) {
            let why = "this life of the peer was replaced by another one";
            return Err(NetError::refused(what(), why).with_remedy("restart one of the devices"));
        }
        self.socket
            .connect(peer.end.address)
            .map_err(|source| NetError::new(what(), source))?;
        discard_waiting(&self.socket);
        self.past.add(number);
        self.session = Some(session);
        self.is_broken = false;
        self.path = Path::of(&self.socket, self.options.mtu, &mut self.can_bundle);
        self.paths += 1;
        Ok(true)
    }

    /// Whether the peer has sent what makes no sense, so that there is no cable any more.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Room for records; `None` if too many wait for their acknowledgement, or there is no peer.
    pub(crate) fn room(&mut self) -> Option<&mut [u8]> {
        self.session.as_mut()?.retry().room()
    }

    /// Whether the peer has been silent for so long that records are of no use to it.
    pub(crate) fn is_silent(&mut self) -> bool {
        let session = self.session.as_mut();
        session.is_some_and(|session| session.retry().is_silent())
    }

    /// Takes records over that were put into the room.
    pub(crate) fn commit(&mut self, length: usize) {
        if let Some(session) = &mut self.session {
            session.retry().commit(length);
        }
    }

    /// When something has to be sent at the latest.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.session.as_ref().and_then(Session::deadline)
    }

    /// Has sent again what a timeout has passed for.
    pub(crate) fn tick(&mut self, now: Time, counters: &LinkCounters) {
        if let Some(session) = &mut self.session
            && session.retry().tick(now)
        {
            counters.add(LinkCounter::TunnelTimeouts);
        }
    }

    /// Fills `batch` with bundles of datagrams; whether there are any.
    pub(crate) fn fill(
        &mut self,
        now: Time,
        batch: &mut SendBatch,
        counters: &LinkCounters,
    ) -> bool {
        let Some(session) = &mut self.session else {
            return false;
        };
        let each = self.path.datagram_bytes;
        let bundle_bytes = each * self.path.bundled;
        while let Some(room) = batch.room(bundle_bytes) {
            let mut used = 0;
            for datagram in room.chunks_exact_mut(each) {
                let Some(length) = session.write(now, datagram, counters) else {
                    break;
                };
                used += length;
                if length < each {
                    // The last of a bundle may be shorter.
                    break;
                }
            }
            if used == 0 {
                break;
            }
            batch.commit(used);
        }
        batch.len() > 0
    }

    /// How many datagrams the `index`th bundle of `batch` has.
    pub(super) fn datagrams(&self, batch: &SendBatch, index: usize) -> usize {
        batch.frame(index).len().div_ceil(self.path.datagram_bytes)
    }

    /// The system has refused a datagram as too long, or a bundle. Whether what was cut has to be cut anew.
    pub(super) fn path_refused(&mut self, error: &io::Error, counters: &LinkCounters) -> bool {
        let is_bundle = self.path.bundled > 1;
        if is_bundle && self.review_path(counters) {
            return true;
        }
        match error.raw_os_error() {
            Some(libc::EMSGSIZE) => self.review_path(counters),
            Some(libc::EINVAL | libc::EIO) if is_bundle => {
                tracing::info!(
                    "the system takes no bundles of datagrams ({error}): they are sent one by one"
                );
                self.can_bundle = false;
                self.review_path(counters)
            }
            _ => false,
        }
    }

    /// Looks what the path takes now; whether that is something else than before.
    pub(super) fn review_path(&mut self, counters: &LinkCounters) -> bool {
        let Some(session) = &mut self.session else {
            return false;
        };
        let path = Path::of(&self.socket, self.options.mtu, &mut self.can_bundle);
        if path == self.path {
            return false;
        }
        self.path = path;
        self.paths += 1;
        counters.add(LinkCounter::TunnelPathChanges);
        session.retry().rewind();
        true
    }

    /// Datagrams that were cut when this was another number do not fit any more.
    pub(crate) fn paths(&self) -> u64 {
        self.paths
    }

    /// The records of the `index`th bundle in `batch`.
    pub(super) fn records<'a>(
        &mut self,
        now: Time,
        batch: &'a mut ReceiveBatch,
        index: usize,
        counters: &LinkCounters,
    ) -> Option<&'a [u8]> {
        let (memory, datagrams, each) = batch.bundle(index);
        let Some(session) = &mut self.session else {
            counters.add_many(
                LinkCounter::FramesReceived,
                datagrams.len().div_ceil(each.max(1)),
            );
            counters.add_many(LinkCounter::Foreign, datagrams.len().div_ceil(each.max(1)));
            return None;
        };
        match session.receive(now, memory, datagrams, each, counters) {
            Ok(records) => (!records.is_empty()).then_some(records),
            Err(broken) => {
                self.give_up(broken, counters);
                None
            }
        }
    }

    #[cold]
    fn give_up(&mut self, broken: Broken, counters: &LinkCounters) {
        counters.add(LinkCounter::TunnelBroken);
        tracing::error!(
            "the peer of a tunnel has sent what makes no sense ({broken}): the link is down until one of the devices is restarted"
        );
        self.session = None;
        self.is_broken = true;
    }

    /// Gives memory back that a busy time has taken, and looks whether the path takes more again.
    pub(crate) fn review(&mut self, counters: &LinkCounters) {
        self.review_path(counters);
        if let Some(session) = &mut self.session {
            session.retry().review();
        }
    }
}
