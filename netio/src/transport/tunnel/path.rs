//! What a path takes: how long a datagram may be, and how many the system takes at once.
//!
//! Datagrams are never fragmented: one lost fragment loses all, and a fragment's number wraps within seconds. The system learns the path's
//! MTU and refuses what is longer (`IP_PMTUDISC_DO`); `IP_MTU` says what it has learnt. Several datagrams of one length leave in one call
//! (`UDP_SEGMENT`) and come in one (`UDP_GRO`), where the system can: mostly the bundle stays whole down to the network's card, or
//! to the other namespace.

use std::io;
use std::mem::size_of;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use wire::convert::saturate;

use super::session::OVERHEAD_BYTES;
use crate::error::check;

/// Bytes that one call takes at most: of one datagram, and of a bundle.
pub(super) const CALL_BYTES: usize = 65_507;

/// Datagrams that one call takes at most, in kernels from 4.18 on.
const CALL_DATAGRAMS: usize = 64;

/// The least that is believed of a path, bytes of an IP packet: every network of IPv4 takes it (RFC 791).
pub const MTU_LEAST: u16 = 576;

/// What a path takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Path {
    /// Bytes of a datagram.
    pub(super) datagram_bytes: usize,
    /// Datagrams of that length in one call.
    pub(super) bundled: usize,
}

impl Path {
    /// A path of that MTU.
    fn new(mtu: usize, is_v6: bool, can_bundle: bool) -> Self {
        let headers = if is_v6 { 40 + 8 } else { 20 + 8 };
        let mtu = mtu.max(usize::from(MTU_LEAST));
        let datagram_bytes = (mtu - headers).clamp(2 * OVERHEAD_BYTES, CALL_BYTES);
        let bundled = match can_bundle {
            true => (CALL_BYTES / datagram_bytes).min(CALL_DATAGRAMS),
            false => 1,
        };
        Self {
            datagram_bytes,
            bundled,
        }
    }

    /// What the path to the socket's peer takes now, IP packets being `limit` bytes long at most. The socket is set to it.
    pub(super) fn of(socket: &UdpSocket, limit: Option<u16>, can_bundle: &mut bool) -> Self {
        let is_v6 = socket.local_addr().is_ok_and(|own| own.is_ipv6());
        // Without an answer: what nearly every path takes (RFC 8200).
        let learnt = mtu(socket, is_v6).unwrap_or(1280);
        let limit = usize::from(limit.unwrap_or(u16::MAX));
        let path = Self::new(learnt.min(limit), is_v6, *can_bundle);
        let bundle = if path.bundled > 1 {
            path.datagram_bytes
        } else {
            0
        };
        if set(socket, libc::SOL_UDP, libc::UDP_SEGMENT, saturate(bundle)).is_err() {
            // A kernel before 4.18: one by one.
            *can_bundle = false;
            return Self::new(learnt.min(limit), is_v6, false);
        }
        path
    }
}

/// Sets a socket up: no fragments; bundles are received where the system can.
pub(super) fn prepare(socket: &UdpSocket) -> io::Result<()> {
    match socket.local_addr()? {
        SocketAddr::V4(_) => set(
            socket,
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            libc::IP_PMTUDISC_DO,
        )?,
        SocketAddr::V6(_) => set(
            socket,
            libc::IPPROTO_IPV6,
            libc::IPV6_MTU_DISCOVER,
            libc::IPV6_PMTUDISC_DO,
        )?,
    }
    // Without it (kernels before 5.0) datagrams come one by one.
    let _ = set(socket, libc::SOL_UDP, libc::UDP_GRO, 1);
    Ok(())
}

/// The path's MTU as the system knows it. The socket is connected.
fn mtu(socket: &UdpSocket, is_v6: bool) -> io::Result<usize> {
    let (level, option) = match is_v6 {
        false => (libc::IPPROTO_IP, libc::IP_MTU),
        true => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    let mut value: libc::c_int = 0;
    let mut length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(0);
    // rustix and socket2 do not have these options.
    // SAFETY: `value` is writable for `length` bytes, and `length` itself is writable.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw mut value).cast(),
            &raw mut length,
        )
    })?;
    usize::try_from(value).map_err(io::Error::other)
}

fn set(
    socket: &UdpSocket,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(0);
    // SAFETY: `value` is readable for its length.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            length,
        )
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_fit_into_the_path_and_bundles_into_a_call() {
        for (mtu, is_v6, datagram_bytes, bundled) in [
            (1500, false, 1472, 44),
            (1500, true, 1452, 45),
            (9000, false, 8972, 7),
            (65_536, false, 65_507, 1),
            (576, false, 548, 64),
            (0, false, 548, 64),
        ] {
            let path = Path::new(mtu, is_v6, true);
            assert_eq!(
                (path.datagram_bytes, path.bundled),
                (datagram_bytes, bundled)
            );
            assert!(path.datagram_bytes * path.bundled <= CALL_BYTES);
            assert_eq!(Path::new(mtu, is_v6, false).bundled, 1);
        }
    }

    #[test]
    fn the_path_over_loopback_is_long_unless_it_is_limited() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        prepare(&socket).unwrap();
        socket.connect("127.0.0.1:9").unwrap();
        let mut can_bundle = true;
        let path = Path::of(&socket, None, &mut can_bundle);
        assert!(path.datagram_bytes > 16_000, "{path:?}");
        let path = Path::of(&socket, Some(1500), &mut can_bundle);
        assert_eq!(path.datagram_bytes, 1472);
        assert_eq!(path.bundled, if can_bundle { 44 } else { 1 });
    }
}
