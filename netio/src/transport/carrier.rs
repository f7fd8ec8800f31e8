//! Which interfaces of the namespace come, go, and have a peer that is up: one rtnetlink socket a
//! daemon.
//!
//! Messages are taken apart by netlink-packet-core and netlink-packet-route, but only as far as the
//! header (`ifinfomsg`) and the name, rtnetlink(7): an attribute that the library reads otherwise
//! than a younger kernel writes it must not hide that a link came up.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NLMSG_ERROR, NetlinkBuffer, NetlinkHeader, NetlinkMessage,
    NlasIterator,
};
use netlink_packet_route::link::{LinkFlags, LinkHeader, LinkMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

use wire::convert::usize_of;

use crate::NetError;

/// Room for received messages: what the kernel fills at most in one go.
const BUFFER_BYTES: usize = 32 * 1024;

/// Messages that are taken in before others get their turn.
const MESSAGES_A_TURN: u32 = 64;

/// Bytes of `nlmsghdr`.
const MESSAGE_HEADER: usize = 16;

/// Bytes of `ifinfomsg`.
const INTERFACE_HEADER: usize = 16;

/// Its number is 0, which is no protocol in the eyes of rustix.
const NETLINK_ROUTE: Option<Protocol> = None;

/// The multicast group of notifications of changed links (`RTMGRP_LINK`).
const LINK_GROUP: u32 = libc::RTMGRP_LINK.cast_unsigned();

/// A notification of rtnetlink about one interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InterfaceChange<'a> {
    /// Its index.
    pub index: i32,
    /// Its name.
    pub name: &'a str,
    /// It is up, and so is its peer.
    pub carrier: bool,
    /// It is gone.
    pub deleted: bool,
}

/// A socket that receives every change of the namespace's interfaces.
#[derive(Debug)]
pub(crate) struct Carriers {
    fd: OwnedFd,
    buffer: Vec<u8>,
    /// Changes may have been lost: all interfaces are to be asked for once the queue is empty.
    is_stale: bool,
}

impl Carriers {
    /// Subscribes, and asks for all interfaces as they are now.
    pub(crate) fn open() -> Result<Self, NetError> {
        let failed = |errno: Errno| NetError::new("watch the network interfaces", errno.into());
        let fd = socket_with(
            rustix::net::AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
            NETLINK_ROUTE,
        )
        .map_err(failed)?;
        bind(&fd, &SocketAddrNetlink::new(0, LINK_GROUP)).map_err(failed)?;
        let carriers = Self {
            fd,
            buffer: vec![0; BUFFER_BYTES],
            is_stale: false,
        };
        carriers.ask_for_all().map_err(failed)?;
        Ok(carriers)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Hands messages that wait to `each`: all, but for a bound after which others get their turn.
    pub(crate) fn receive(&mut self, mut each: impl FnMut(&InterfaceChange<'_>)) {
        for _ in 0..MESSAGES_A_TURN {
            match recv(&self.fd, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((length, _)) => {
                    let dump = parse(&self.buffer[..length], &mut each);
                    self.is_stale |= dump == Dump::Refused;
                }
                Err(Errno::INTR) => {}
                // Some were lost. What is asked for now could be lost in the same full queue, and the
                // kernel refuses to begin while an answer is under way.
                Err(Errno::NOBUFS) => self.is_stale = true,
                Err(Errno::AGAIN) => {
                    if self.is_stale {
                        self.is_stale = false;
                        if let Err(error) = self.ask_for_all() {
                            tracing::error!("cannot ask for the network interfaces: {error}");
                        }
                    }
                    return;
                }
                Err(error) => {
                    tracing::error!("cannot watch the network interfaces: {error}");
                    return;
                }
            }
        }
    }

    fn ask_for_all(&self) -> Result<(), Errno> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        let message = RouteNetlinkMessage::GetLink(LinkMessage::default());
        let mut request = NetlinkMessage::new(header, message.into());
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        send(&self.fd, &bytes, SendFlags::empty())?;
        Ok(())
    }
}

/// The meaning of a datagram for the answer to [`Carriers::ask_for_all`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dump {
    /// Nothing, or its parts.
    Given,
    /// Another answer is under way: it may lack what has changed since it began.
    Refused,
}

/// The interfaces in one datagram of messages. What is malformed or of another kind is skipped.
fn parse(mut bytes: &[u8], each: &mut impl FnMut(&InterfaceChange<'_>)) -> Dump {
    let mut dump = Dump::Given;
    while let Ok(message) = NetlinkBuffer::new_checked(bytes) {
        let length = usize_of(message.length());
        let kind = message.message_type();
        let Some(body) = bytes.get(MESSAGE_HEADER..length) else {
            return dump;
        };
        if kind == libc::RTM_NEWLINK || kind == libc::RTM_DELLINK {
            let deleted = kind == libc::RTM_DELLINK;
            if let Some(change) = interface(body, deleted) {
                each(&change);
            }
        } else if kind == NLMSG_ERROR && body.first_chunk() == Some(&(-libc::EBUSY).to_ne_bytes()) {
            dump = Dump::Refused;
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    dump
}

/// One `ifinfomsg` with its attributes.
fn interface(body: &[u8], deleted: bool) -> Option<InterfaceChange<'_>> {
    let header = LinkHeader::parse(body).ok()?;
    // Other families describe an interface as the member of a bridge and the like.
    if header.interface_family != AddressFamily::Unspec {
        return None;
    }
    let name = NlasIterator::new(body.get(INTERFACE_HEADER..)?)
        .map_while(Result::ok)
        .find(|attribute| attribute.kind() == libc::IFLA_IFNAME)?
        .into_inner();
    // The attribute's own header, then the name and its NUL.
    let name = std::ffi::CStr::from_bytes_until_nul(name.get(4..)?).ok()?;
    let up = LinkFlags::Up | LinkFlags::LowerUp;
    Some(InterfaceChange {
        index: i32::try_from(header.index).ok()?,
        name: name.to_str().ok()?,
        carrier: !deleted && header.flags.contains(up),
        deleted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message as the kernel sends it: header, `ifinfomsg`, an attribute that is skipped, name.
    fn message(kind: u16, index: i32, flags: u32, name: &str) -> Vec<u8> {
        let mut body = vec![0u8; INTERFACE_HEADER];
        body[4..8].copy_from_slice(&index.to_ne_bytes());
        body[8..12].copy_from_slice(&flags.to_ne_bytes());
        body.extend([5u16, 99].map(u16::to_ne_bytes).as_flattened());
        body.extend([1, 0, 0, 0]);
        let length = u16::try_from(4 + name.len() + 1).unwrap();
        body.extend(
            [length, libc::IFLA_IFNAME]
                .map(u16::to_ne_bytes)
                .as_flattened(),
        );
        body.extend(name.as_bytes());
        body.resize((body.len() + 1).next_multiple_of(4), 0);
        let total = u32::try_from(MESSAGE_HEADER + body.len()).unwrap();
        let mut bytes = total.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes
    }

    fn parsed(bytes: &[u8]) -> Vec<(i32, String, bool, bool)> {
        let mut all = Vec::new();
        parse(bytes, &mut |change: &InterfaceChange<'_>| {
            all.push((
                change.index,
                change.name.to_owned(),
                change.carrier,
                change.deleted,
            ));
        });
        all
    }

    #[test]
    fn an_interface_has_a_carrier_when_it_and_its_peer_are_up() {
        let up = libc::IFF_UP.cast_unsigned();
        let lower = libc::IFF_LOWER_UP.cast_unsigned();
        let mut bytes = message(libc::RTM_NEWLINK, 3, up | lower, "p1");
        bytes.extend(message(libc::RTM_NEWLINK, 4, up, "p2"));
        bytes.extend(message(libc::RTM_DELLINK, 5, up | lower, "p3"));
        assert_eq!(
            parsed(&bytes),
            [
                (3, "p1".to_owned(), true, false),
                (4, "p2".to_owned(), false, false),
                (5, "p3".to_owned(), false, true),
            ]
        );
    }

    #[test]
    fn a_refused_request_for_all_interfaces_is_told_from_other_errors() {
        let error = |errno: i32| {
            let mut bytes = 36u32.to_ne_bytes().to_vec();
            bytes.extend(NLMSG_ERROR.to_ne_bytes());
            bytes.extend([0; 10]);
            bytes.extend((-errno).to_ne_bytes());
            bytes.extend([0; 16]);
            bytes
        };
        let dump = |bytes: &[u8]| parse(bytes, &mut |_: &InterfaceChange<'_>| panic!("none"));
        assert_eq!(dump(&error(libc::EBUSY)), Dump::Refused);
        assert_eq!(dump(&error(libc::EPERM)), Dump::Given);
        assert_eq!(dump(&error(0)), Dump::Given, "an acknowledgement");
        assert_eq!(dump(&error(libc::EBUSY)[..17]), Dump::Given);
    }

    #[test]
    fn a_message_cut_short_anywhere_is_skipped() {
        let whole = message(libc::RTM_NEWLINK, 3, 0, "p1");
        for length in 0..whole.len() {
            assert_eq!(parsed(&whole[..length]), [], "{length} bytes");
        }
        // The same with lengths that fit, so that the cut lies in the attributes.
        for length in MESSAGE_HEADER..whole.len() - 4 {
            let mut cut = whole[..length].to_vec();
            cut[..4].copy_from_slice(&u32::try_from(length).unwrap().to_ne_bytes());
            assert_eq!(parsed(&cut), [], "{length} bytes");
        }
    }
}
