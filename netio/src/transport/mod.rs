//! How the frames of one link travel: veth pairs, UDP, shared memory or a tunnel, chosen per link at run time.
//!
//! A [`Link`] is one end of one cable. It receives into and sends from batches that all links of a
//! daemon share, and reads and writes the header in front of the records. Nothing here blocks.
//!
//! | | veth | UDP | shared memory | tunnel |
//! |---|---|---|---|---|
//! | below | `AF_PACKET` socket, one EtherType, bound to the interface | connected socket | a ring each way, and a doorbell | connected UDP socket |
//! | header | Ethernet, 14 bytes | link header, 24 bytes: secret, epoch and sequence | none | 32 bytes, and a seal of 16 |
//! | carrier | the interface's, reported by rtnetlink | whether the peer is known | whether the rings are there | whether the peer is known |
//! | privileges | `CAP_NET_RAW` in its namespace | none | none | none |
//! | others that can send | root, inside the namespace | every process, but without the secret | none | every machine, but without the key |
//!
//! A frame is at most [`FRAME_BYTES_MAX`] long: what fits into a datagram, and into a veth pair's MTU. A tunnel has no frames: its
//! records are a stream ([`tunnel`]).

mod batch;
mod carrier;
mod counters;
mod medium;
mod shm;
pub mod tunnel;
mod udp;
mod veth;

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use link::Time;
use rustix::net::sockopt;
use wire::PortNum;
use wire::convert::usize_of;
use wire::udplink::UdpEndpoint;

pub(crate) use batch::{RECEIVE_MAX, ReceiveBatch, SendBatch};
pub(crate) use carrier::{Carriers, InterfaceChange};
pub use counters::{LinkCounter, LinkCounters};
pub use medium::{LinkSpec, Medium, Transport};
pub(crate) use shm::ShmLink;
pub use shm::{Cable, CableEnd};
pub(crate) use tunnel::TunnelLink;
pub use tunnel::{JobSecret, TunnelOptions, TunnelPeer, TunnelSocket, TunnelSocketAt};
pub(crate) use udp::UdpLink;
use udp::discard_waiting;
pub(crate) use veth::VethLink;
pub use wire::tunnel::LinkSecurity;

use crate::NetError;

/// The longest frame that is sent, bytes, with its header. Received are up to 65,535.
pub const FRAME_BYTES_MAX: usize = 65_000;

/// What is asked of a socket as room for received frames, bytes. Without privileges the system's
/// limit (`net.core.rmem_max`) holds.
pub(crate) const RECEIVE_BUFFER_BYTES: usize = 8 << 20;

/// The result of an attempt to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// All frames have gone, or were dropped and counted.
    All,
    /// From this frame on, all wait until the socket is writable.
    UntilWritable(usize),
    /// From this frame on, all wait for a moment: the system is short of queue room and will not
    /// say when there is some.
    UntilLater(usize),
    /// From this frame on, all wait until the peer has made room.
    UntilRoom(usize),
}

/// One end of one cable.
#[derive(Debug)]
pub struct Link {
    port: PortNum,
    socket: Socket,
    counters: Arc<LinkCounters>,
}

/// What a link has of its transport.
#[derive(Debug)]
enum Socket {
    Veth(VethLink),
    Udp(UdpLink),
    Shm(ShmLink),
    Tunnel(Box<TunnelLink>),
}

impl Link {
    /// Opens the link: its socket stands, its carrier is not known yet.
    ///
    /// # Errors
    /// Without the right to open the socket, or if there is no such interface, address or inherited socket.
    pub fn open(spec: &LinkSpec, tunnels: TunnelOptions) -> Result<Self, NetError> {
        let counters = Arc::new(LinkCounters::default());
        let socket = match &spec.medium {
            Medium::Veth(name) => Socket::Veth(VethLink::open(name)?),
            Medium::Udp(address) => Socket::Udp(UdpLink::open(*address)?),
            Medium::Shm => Socket::Shm(ShmLink::default()),
            Medium::Tunnel(at) => Socket::Tunnel(Box::new(TunnelLink::open(*at, tunnels)?)),
        };
        Ok(Self {
            port: spec.port,
            socket,
            counters,
        })
    }

    /// The port that the cable is in.
    #[must_use]
    pub fn port(&self) -> PortNum {
        self.port
    }

    /// The address and numbers of this end that its peer needs (UDP, tunnel).
    #[must_use]
    pub fn endpoint(&self) -> Option<UdpEndpoint> {
        match &self.socket {
            Socket::Veth(_) | Socket::Shm(_) => None,
            Socket::Udp(link) => Some(link.endpoint()),
            Socket::Tunnel(link) => Some(link.endpoint()),
        }
    }

    /// How it is made.
    #[must_use]
    pub fn transport(&self) -> Transport {
        match &self.socket {
            Socket::Veth(_) => Transport::Veth,
            Socket::Udp(_) => Transport::Udp,
            Socket::Shm(_) => Transport::Shm,
            Socket::Tunnel(_) => Transport::Tunnel,
        }
    }

    pub(crate) fn tunnel(&mut self) -> Option<(&mut TunnelLink, &LinkCounters)> {
        match &mut self.socket {
            Socket::Tunnel(link) => Some((link, &self.counters)),
            Socket::Veth(_) | Socket::Udp(_) | Socket::Shm(_) => None,
        }
    }

    /// When a tunnel has to send at the latest.
    pub(crate) fn deadline(&self) -> Option<Time> {
        match &self.socket {
            Socket::Tunnel(link) => link.deadline(),
            Socket::Veth(_) | Socket::Udp(_) | Socket::Shm(_) => None,
        }
    }

    /// Another number once frames that were made for this link do not fit it any more.
    pub(crate) fn paths(&self) -> u64 {
        match &self.socket {
            Socket::Tunnel(link) => link.paths(),
            Socket::Veth(_) | Socket::Udp(_) | Socket::Shm(_) => 0,
        }
    }

    /// Its rings, if it is one of shared memory.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        matches!(self.socket, Socket::Shm(_))
    }

    pub(crate) fn shared(&mut self) -> Option<(&mut ShmLink, &LinkCounters)> {
        match &mut self.socket {
            Socket::Shm(link) => Some((link, &self.counters)),
            Socket::Veth(_) | Socket::Udp(_) | Socket::Tunnel(_) => None,
        }
    }

    /// Bytes of memory that received frames may fill before the kernel drops further ones; `None`
    /// while there is no socket. Shared memory drops none: the sender waits for room. A tunnel repeats what is dropped.
    #[must_use]
    pub fn receive_buffer_bytes(&self) -> Option<usize> {
        if matches!(self.transport(), Transport::Shm | Transport::Tunnel) {
            return None;
        }
        sockopt::socket_recv_buffer_size(self.fd()?).ok()
    }

    /// Counters of frames, below the records.
    #[must_use]
    pub fn counters(&self) -> &Arc<LinkCounters> {
        &self.counters
    }

    /// Whether rtnetlink reports a carrier of this link.
    pub(crate) fn has_interface(&self) -> bool {
        matches!(self.socket, Socket::Veth(_))
    }

    /// The socket, or the doorbell; `None` while there is none.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.socket {
            Socket::Veth(link) => link.fd(),
            Socket::Udp(link) => Some(link.fd()),
            Socket::Shm(link) => link.doorbell(),
            Socket::Tunnel(link) => Some(link.fd()),
        }
    }

    /// Bytes in front of a frame's records.
    pub(crate) fn header_bytes(&self) -> usize {
        match &self.socket {
            Socket::Veth(_) => veth::HEADER_BYTES,
            Socket::Udp(_) => udp::HEADER_BYTES,
            Socket::Shm(_) | Socket::Tunnel(_) => 0,
        }
    }

    /// Writes the header of the next frame; `header` has [`Self::header_bytes`] bytes.
    pub(crate) fn write_header(&mut self, header: &mut [u8]) {
        match &mut self.socket {
            Socket::Veth(link) => link.write_header(header),
            Socket::Udp(link) => link.write_header(header),
            Socket::Shm(_) | Socket::Tunnel(_) => {}
        }
    }

    /// The records of the `index`th received frame; `None` if there are none, or it is dropped (and counted).
    pub(crate) fn records<'a>(
        &mut self,
        now: Time,
        batch: &'a mut ReceiveBatch,
        index: usize,
    ) -> Option<&'a [u8]> {
        let counters = &self.counters;
        if let Socket::Tunnel(link) = &mut self.socket {
            return link.records(now, batch, index, counters);
        }
        let frame = batch.frame(index);
        counters.add(LinkCounter::FramesReceived);
        if frame.truncated {
            counters.add(LinkCounter::Truncated);
            return None;
        }
        let checked = match &mut self.socket {
            Socket::Veth(_) => veth::records(frame.bytes).map(|records| (records, 0)),
            Socket::Udp(link) => link.records(frame.bytes),
            Socket::Shm(_) | Socket::Tunnel(_) => Ok((frame.bytes, 0)),
        };
        match checked {
            Ok((records, missing)) => {
                if missing > 0 {
                    let missing = usize_of(missing);
                    counters.add_many(LinkCounter::Missing, missing);
                }
                Some(records)
            }
            Err(why) => {
                counters.add(why);
                if why == LinkCounter::WrongSecret {
                    // Only the peer has been sent the secret. The log bounds how often this is written.
                    tracing::warn!(
                        port = self.port.get(),
                        "a datagram without this end's secret was dropped: its sender has the \
                         peer's port, and is not the peer"
                    );
                }
                None
            }
        }
    }

    /// Takes what waits into `batch`; how many frames. Nothing, or a link without a socket, is 0.
    pub(crate) fn receive(&mut self, batch: &mut ReceiveBatch) -> usize {
        // A pending error of the socket (a peer that is not there yet, an interface that went
        // down) is reported once, ahead of frames that may still wait.
        for _ in 0..2 {
            let Some(fd) = self.fd() else { return 0 };
            let received = match &self.socket {
                Socket::Tunnel(_) => batch.receive_bundles(fd),
                Socket::Veth(_) | Socket::Udp(_) | Socket::Shm(_) => batch.receive(fd),
            };
            match received {
                Ok(count) => return count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return 0,
                Err(error) => self.note(&error),
            }
        }
        0
    }

    /// Sends the frames of `batch` from the `first`th on.
    pub(crate) fn send(&mut self, batch: &mut SendBatch, first: usize) -> Sent {
        if let Socket::Shm(link) = &mut self.socket {
            return link.send(batch, first, &self.counters);
        }
        let mut next = first;
        let mut retried = false;
        while next < batch.len() {
            let Some(fd) = self.fd() else { break };
            match batch.send(fd, next) {
                Ok(count) => {
                    let sent = self.datagrams(batch, next..next + count);
                    self.counters.add_many(LinkCounter::FramesSent, sent);
                    next += count;
                    retried = false;
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => return Sent::UntilWritable(next),
                    Some(libc::ENOBUFS | libc::ENOMEM) => {
                        self.counters.add(LinkCounter::SendQueueFull);
                        return Sent::UntilLater(next);
                    }
                    Some(libc::EINTR) => {}
                    _ => {
                        let waiting = self.datagrams(batch, next..batch.len());
                        if self.path_refused(&error) {
                            // They are cut anew.
                            self.counters.add_many(LinkCounter::SendFailed, waiting);
                            return Sent::All;
                        }
                        self.note(&error);
                        // The error of an earlier frame is reported in place of sending this one; if
                        // it comes twice it is this frame's own.
                        if retried {
                            let lost = self.datagrams(batch, next..next + 1);
                            self.counters.add_many(LinkCounter::SendFailed, lost);
                            next += 1;
                        }
                        retried = !retried;
                    }
                },
            }
        }
        let lost = self.datagrams(batch, next..batch.len());
        self.counters.add_many(LinkCounter::SendFailed, lost);
        Sent::All
    }

    /// How many frames, or datagrams, these of `batch` are.
    fn datagrams(&self, batch: &SendBatch, frames: Range<usize>) -> usize {
        match &self.socket {
            Socket::Tunnel(link) => frames.map(|index| link.datagrams(batch, index)).sum(),
            Socket::Veth(_) | Socket::Udp(_) | Socket::Shm(_) => frames.len(),
        }
    }

    /// Whether the system has refused a datagram for its length, so that all are to be cut anew.
    fn path_refused(&mut self, error: &io::Error) -> bool {
        match &mut self.socket {
            Socket::Tunnel(link) => link.path_refused(error, &self.counters),
            Socket::Veth(_) | Socket::Udp(_) | Socket::Shm(_) => false,
        }
    }

    /// A pending error of the socket.
    fn note(&mut self, error: &io::Error) {
        match error.raw_os_error() {
            // The path has become shorter, and what was cut for it does not arrive.
            Some(libc::EMSGSIZE) if self.path_refused(error) => {}
            Some(libc::ECONNREFUSED) => self.counters.add(LinkCounter::PeerAbsent),
            Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => {
                self.counters.add(LinkCounter::InterfaceDown);
            }
            _ => tracing::warn!(port = self.port.get(), "the link's socket failed: {error}"),
        }
    }

    /// UDP: connects to `peer`. Whether it is another one than before, so that the link must start
    /// anew.
    pub(crate) fn connect(&mut self, peer: UdpEndpoint) -> Result<bool, NetError> {
        match &mut self.socket {
            Socket::Udp(link) => link.connect(peer),
            Socket::Veth(_) | Socket::Shm(_) | Socket::Tunnel(_) => Err(NetError::refused(
                format!("connect port {} to {}", self.port, peer.address),
                "the port's cable needs no address",
            )),
        }
    }

    /// veth: takes in a notification of rtnetlink. Its effect on this link: `None` if it has none.
    pub(crate) fn interface_changed(&mut self, change: &InterfaceChange<'_>) -> Option<Attached> {
        match &mut self.socket {
            Socket::Veth(link) => link.interface_changed(change),
            Socket::Udp(_) | Socket::Shm(_) | Socket::Tunnel(_) => None,
        }
    }
}

/// The effect of a change of an interface on its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attached {
    /// Whether the interface is there and its peer up.
    pub carrier: bool,
    /// Whether the socket is a new one.
    pub reopened: bool,
}

/// Makes room for received frames: forced past the system's limit where that is allowed.
pub(crate) fn size_buffers(fd: BorrowedFd<'_>) {
    // What is asked for without privileges is cut to the system's limit without an error.
    if sockopt::set_socket_recv_buffer_size_force(fd, RECEIVE_BUFFER_BYTES).is_err() {
        let _ = sockopt::set_socket_recv_buffer_size(fd, RECEIVE_BUFFER_BYTES);
    }
    if sockopt::set_socket_send_buffer_size_force(fd, RECEIVE_BUFFER_BYTES).is_err() {
        let _ = sockopt::set_socket_send_buffer_size(fd, RECEIVE_BUFFER_BYTES);
    }
}
