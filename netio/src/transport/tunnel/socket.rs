//! The socket of a tunnel, made by the daemon itself or by the process that starts it.
//!
//! A socket stays in the network namespace in which it was made, so a daemon in a namespace of its own can have one of the machine's
//! network: who starts it binds the socket, and the daemon inherits it.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::SocketType;
use rustix::net::sockopt::{socket_protocol, socket_type};

use crate::NetError;
use crate::transport::Medium;

/// Where the socket of a tunnel comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelSocketAt {
    /// The daemon binds this local address; port 0 leaves the port to the kernel.
    Address(SocketAddr),
    /// The daemon has inherited it at this descriptor.
    Descriptor(RawFd),
}

/// What a descriptor is written with.
const DESCRIPTOR: &str = "fd:";

impl TunnelSocketAt {
    /// Reads what [`std::fmt::Display`] writes; an address alone has port 0.
    pub(in crate::transport) fn parse(text: &str) -> Result<Self, &'static str> {
        if let Some(number) = text.strip_prefix(DESCRIPTOR) {
            return match number.parse() {
                Ok(descriptor) if descriptor > 2 => Ok(Self::Descriptor(descriptor)),
                _ => Err("the descriptor is not a number above 2"),
            };
        }
        text.parse()
            .or_else(|_| text.parse().map(|ip: IpAddr| SocketAddr::new(ip, 0)))
            .map(Self::Address)
            .map_err(|_| "the address is not a numeric IP address")
    }

    pub(super) fn open(self) -> Result<UdpSocket, NetError> {
        match self {
            Self::Address(address) => UdpSocket::bind(address)
                .map_err(|source| NetError::new(format!("open a UDP socket on {address}"), source)),
            Self::Descriptor(descriptor) => inherited(descriptor).map_err(|source| {
                NetError::new(
                    format!("use descriptor {descriptor} as the UDP socket of a tunnel"),
                    source,
                )
            }),
        }
    }
}

impl std::fmt::Display for TunnelSocketAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Descriptor(descriptor) => write!(f, "{DESCRIPTOR}{descriptor}"),
        }
    }
}

/// A copy of the socket at that descriptor, if there is one and it is a bound one of UDP.
fn inherited(descriptor: RawFd) -> io::Result<UdpSocket> {
    // SAFETY: the descriptor is not closed here, and nothing else of this process closes one that was inherited. If there is
    // none the calls below fail.
    let inherited = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let socket: OwnedFd = fcntl_dupfd_cloexec(inherited, 3)?;
    fcntl_setfd(inherited, FdFlags::CLOEXEC)?;
    let is_udp = socket_type(&socket)? == SocketType::DGRAM
        && socket_protocol(&socket)? == Some(rustix::net::ipproto::UDP);
    let socket = UdpSocket::from(socket);
    match is_udp && socket.local_addr()?.port() != 0 {
        true => Ok(socket),
        false => Err(Errno::PROTOTYPE.into()),
    }
}

/// A socket that a daemon will inherit.
#[derive(Debug)]
pub struct TunnelSocket(UdpSocket);

impl TunnelSocket {
    /// Binds one in the network namespace of this thread.
    ///
    /// # Errors
    /// If there is no such address, or no socket is to be had.
    pub fn bind(address: SocketAddr) -> Result<Self, NetError> {
        TunnelSocketAt::Address(address).open().map(Self)
    }

    /// Has the process that `command` starts inherit it, and no other one; what to tell it. The socket must stay until the process
    /// has been started.
    #[must_use]
    pub fn inherit(&self, command: &mut Command) -> Medium {
        let descriptor = self.0.as_raw_fd();
        let keep = move || {
            // SAFETY: the descriptor is open: it is a copy of one that stays until the process has been started.
            let socket = unsafe { BorrowedFd::borrow_raw(descriptor) };
            fcntl_setfd(socket, FdFlags::empty()).map_err(io::Error::from)
        };
        // SAFETY: between fork and exec only fcntl(2) is called, which is async-signal-safe and allocates nothing.
        unsafe { command.pre_exec(keep) };
        Medium::Tunnel(TunnelSocketAt::Descriptor(descriptor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_started_inherits_the_socket_and_the_next_one_does_not() {
        let socket = TunnelSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let shows = |command: &mut Command| command.output().unwrap().status.success();
        let mut heir = Command::new("test");
        let Medium::Tunnel(TunnelSocketAt::Descriptor(number)) = socket.inherit(&mut heir) else {
            panic!("no descriptor");
        };
        let path = format!("/proc/self/fd/{number}");
        assert!(shows(heir.args(["-S", &path])));
        assert!(!shows(Command::new("test").args(["-S", &path])));
    }

    #[test]
    fn an_inherited_descriptor_must_be_a_bound_udp_socket() {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = TunnelSocketAt::Descriptor(udp.as_raw_fd());
        let copy = at.open().unwrap();
        assert_eq!(copy.local_addr().unwrap(), udp.local_addr().unwrap());
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let file = std::fs::File::open("/proc/self/status").unwrap();
        for descriptor in [tcp.as_raw_fd(), file.as_raw_fd(), 1_000_000] {
            let error = TunnelSocketAt::Descriptor(descriptor).open().unwrap_err();
            assert!(error.to_string().contains("as the UDP socket"), "{error}");
        }
    }
}
