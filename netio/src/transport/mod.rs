//! How the frames of one link travel: veth pairs, UDP or shared memory, chosen per link at run time.
//!
//! A [`Link`] is one end of one cable. It receives into and sends from batches that all links of a
//! daemon share, and reads and writes the header in front of the records. Nothing here blocks.
//!
//! | | veth | UDP | shared memory |
//! |---|---|---|---|
//! | below | `AF_PACKET` socket, one EtherType, bound to the interface | connected socket | a ring each way, and a doorbell |
//! | header | Ethernet, 14 bytes | link header, 24 bytes: secret, epoch and sequence | none |
//! | carrier | the interface's, reported by rtnetlink | whether the peer is known | whether the rings are there |
//! | privileges | `CAP_NET_RAW` in its namespace | none | none |
//! | others that can send | root, inside the namespace | every process, but without the secret | none |
//!
//! A frame is at most [`FRAME_BYTES_MAX`] long: what fits into a datagram, and into a veth pair's MTU.

mod batch;
mod carrier;
mod counters;
mod shm;
mod udp;
mod veth;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::str::FromStr;
use std::sync::Arc;

use rustix::net::sockopt;
use strum::{EnumMessage, IntoStaticStr, VariantArray};
use wire::PortNum;
use wire::convert::usize_of;
use wire::udplink::UdpEndpoint;

pub(crate) use batch::{RECEIVE_MAX, ReceiveBatch, SendBatch};
pub(crate) use carrier::{Carriers, InterfaceChange};
pub use counters::{LinkCounter, LinkCounters};
pub(crate) use shm::ShmLink;
pub use shm::{Cable, CableEnd};
pub(crate) use udp::UdpLink;
pub(crate) use veth::VethLink;

use crate::NetError;

/// The longest frame that is sent, bytes, with its header. Received are up to 65,535.
pub const FRAME_BYTES_MAX: usize = 65_000;

/// What is asked of a socket as room for received frames, bytes. Without privileges the system's
/// limit (`net.core.rmem_max`) holds.
pub(crate) const RECEIVE_BUFFER_BYTES: usize = 8 << 20;

/// How cables are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Transport {
    /// A veth pair a cable, a network namespace a device; needs root.
    Veth,
    /// UDP on loopback; needs no privileges.
    Udp,
    /// Memory that both ends share; needs no privileges.
    Shm,
}
wire::choice!(Transport, "transport");

impl Transport {
    /// Whether a cable joins two network namespaces, each device being in one of its own.
    #[must_use]
    pub fn has_namespaces(self) -> bool {
        self == Self::Veth
    }
}

/// The transport of one link and where its frames go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Medium {
    /// The interface of this name in the daemon's namespace.
    Veth(String),
    /// A UDP socket on this local address; port 0 leaves the port to the kernel.
    Udp(SocketAddr),
    /// Memory that is handed over later.
    Shm,
}

/// One link of a daemon: `PORT=veth:INTERFACE`, `PORT=udp:ADDRESS[:UDPPORT]` or `PORT=shm`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// The port that the cable is in.
    pub port: PortNum,
    /// How its frames travel.
    pub medium: Medium,
}

impl Medium {
    /// Reads what [`fmt::Display`] writes; an address alone has port 0.
    fn parse(text: &str) -> Result<Self, &'static str> {
        let (transport, to) = text.split_once(':').unwrap_or((text, ""));
        match transport.parse() {
            // IFNAMSIZ counts the NUL.
            Ok(Transport::Veth) if (1..=15).contains(&to.len()) => Ok(Self::Veth(to.to_owned())),
            Ok(Transport::Veth) => Err("an interface's name has 1 to 15 bytes"),
            Ok(Transport::Udp) => to
                .parse()
                .or_else(|_| to.parse().map(|ip: IpAddr| SocketAddr::new(ip, 0)))
                .map(Self::Udp)
                .map_err(|_| "the address is not a numeric IP address"),
            Ok(Transport::Shm) if text == transport => Ok(Self::Shm),
            Ok(Transport::Shm) => Err("nothing follows shm"),
            Err(_) => Err("the transport is neither veth nor udp nor shm"),
        }
    }
}

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Veth(name) => write!(f, "{}:{name}", Transport::Veth),
            Self::Udp(address) => write!(f, "{}:{address}", Transport::Udp),
            Self::Shm => Transport::Shm.fmt(f),
        }
    }
}

impl FromStr for LinkSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| {
            format!("{what}; write PORT=veth:INTERFACE, PORT=udp:ADDRESS[:UDPPORT] or PORT=shm")
        };
        let (port, medium) = text
            .split_once('=')
            .ok_or_else(|| wrong("there is no '='"))?;
        let port = port
            .parse()
            .ok()
            .and_then(|port: u8| (1..=254).contains(&port).then_some(PortNum::new(port)))
            .ok_or_else(|| wrong("the port is not a number from 1 to 254"))?;
        let medium = Medium::parse(medium).map_err(wrong)?;
        Ok(Self { port, medium })
    }
}

impl fmt::Display for LinkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.port, self.medium)
    }
}

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
}

impl Link {
    /// Opens the link: its socket stands, its carrier is not known yet.
    ///
    /// # Errors
    /// Without the right to open the socket, or if there is no such interface or address.
    pub fn open(spec: &LinkSpec) -> Result<Self, NetError> {
        let counters = Arc::new(LinkCounters::default());
        let socket = match &spec.medium {
            Medium::Veth(name) => Socket::Veth(VethLink::open(name)?),
            Medium::Udp(address) => Socket::Udp(UdpLink::open(*address)?),
            Medium::Shm => Socket::Shm(ShmLink::default()),
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

    /// The address and numbers of this end that its peer needs (UDP).
    #[must_use]
    pub fn endpoint(&self) -> Option<UdpEndpoint> {
        match &self.socket {
            Socket::Veth(_) | Socket::Shm(_) => None,
            Socket::Udp(link) => Some(link.endpoint()),
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
            Socket::Veth(_) | Socket::Udp(_) => None,
        }
    }

    /// Bytes of memory that received frames may fill before the kernel drops further ones; `None`
    /// while there is no socket. Shared memory drops none: the sender waits for room.
    #[must_use]
    pub fn receive_buffer_bytes(&self) -> Option<usize> {
        if self.is_shared() {
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
        }
    }

    /// Bytes in front of a frame's records.
    pub(crate) fn header_bytes(&self) -> usize {
        match &self.socket {
            Socket::Veth(_) => veth::HEADER_BYTES,
            Socket::Udp(_) => udp::HEADER_BYTES,
            Socket::Shm(_) => 0,
        }
    }

    /// Writes the header of the next frame; `header` has [`Self::header_bytes`] bytes.
    pub(crate) fn write_header(&mut self, header: &mut [u8]) {
        match &mut self.socket {
            Socket::Veth(link) => link.write_header(header),
            Socket::Udp(link) => link.write_header(header),
            Socket::Shm(_) => {}
        }
    }

    /// The records of a received frame; `None` if it is dropped (and counted).
    pub(crate) fn records<'a>(&mut self, frame: &batch::Received<'a>) -> Option<&'a [u8]> {
        let counters = &self.counters;
        counters.add(LinkCounter::FramesReceived);
        if frame.truncated {
            counters.add(LinkCounter::Truncated);
            return None;
        }
        let checked = match &mut self.socket {
            Socket::Veth(_) => veth::records(frame.bytes).map(|records| (records, 0)),
            Socket::Udp(link) => link.records(frame.bytes),
            Socket::Shm(_) => Ok((frame.bytes, 0)),
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
            match batch.receive(fd) {
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
                    self.counters.add_many(LinkCounter::FramesSent, count);
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
                        self.note(&error);
                        // The error of an earlier frame is reported in place of sending this one; if
                        // it comes twice it is this frame's own.
                        if retried {
                            self.counters.add(LinkCounter::SendFailed);
                            next += 1;
                        }
                        retried = !retried;
                    }
                },
            }
        }
        self.counters
            .add_many(LinkCounter::SendFailed, batch.len() - next);
        Sent::All
    }

    /// A pending error of the socket.
    fn note(&self, error: &io::Error) {
        match error.raw_os_error() {
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
            Socket::Veth(_) | Socket::Shm(_) => Err(NetError::refused(
                format!("connect port {} to {}", self.port, peer.address),
                "the port's cable needs no address",
            )),
        }
    }

    /// veth: takes in a notification of rtnetlink. Its effect on this link: `None` if it has none.
    pub(crate) fn interface_changed(&mut self, change: &InterfaceChange<'_>) -> Option<Attached> {
        match &mut self.socket {
            Socket::Veth(link) => link.interface_changed(change),
            Socket::Udp(_) | Socket::Shm(_) => None,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_written_as_it_is_read() {
        for text in [
            "1=veth:p1",
            "36=udp:127.0.0.1:0",
            "254=udp:[::1]:7000",
            "2=shm",
        ] {
            let spec: LinkSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), text);
        }
    }

    #[test]
    fn an_address_alone_leaves_the_port_to_the_kernel() {
        for text in ["1=udp:127.0.0.1", "1=udp:::1"] {
            let spec: LinkSpec = text.parse().unwrap();
            assert!(matches!(spec.medium, Medium::Udp(at) if at.port() == 0));
        }
    }

    #[test]
    fn a_wrong_link_says_what_is_wrong() {
        for (text, what) in [
            ("1", "no '='"),
            ("0=veth:p0", "1 to 254"),
            ("x=veth:p0", "1 to 254"),
            ("1=veth:", "1 to 15 bytes"),
            ("1=veth:abcdefghijklmnop", "1 to 15 bytes"),
            ("1=udp:localhost", "numeric"),
            ("1=tcp:127.0.0.1", "neither veth nor udp"),
            ("1=shm:", "nothing follows"),
        ] {
            let error = text.parse::<LinkSpec>().unwrap_err();
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
