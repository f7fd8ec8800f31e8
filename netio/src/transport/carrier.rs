//! Which interfaces of the namespace come, go, and have a peer that is up: one rtnetlink socket a
//! daemon.
//!
//! The messages are few and of one kind, so the two fields that matter (`ifinfomsg` and the name,
//! rtnetlink(7)) are read here; requests of every kind are the business of the `ibemu` command.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use wire::convert::usize_of;

use crate::NetError;
use crate::error::{check, check_len};

/// Room for received messages: what the kernel fills at most in one go.
const BUFFER_BYTES: usize = 32 * 1024;

/// Bytes of `nlmsghdr`.
const MESSAGE_HEADER: usize = 16;

/// Bytes of `ifinfomsg`.
const INTERFACE_HEADER: usize = 16;

/// What rtnetlink says about one interface.
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

/// A socket that hears of every change of the namespace's interfaces.
#[derive(Debug)]
pub(crate) struct Carriers {
    fd: OwnedFd,
    buffer: Vec<u8>,
}

impl Carriers {
    /// Subscribes, and asks for all interfaces as they are now.
    pub(crate) fn open() -> Result<Self, NetError> {
        let failed = |source| NetError::new("watch the network interfaces", source);
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: socket takes three integers and returns a new descriptor or -1.
        let fd = check(unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) })
            .map_err(failed)?;
        // SAFETY: the descriptor was returned by the call just made; nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: all fields of the structure are integers, for which zero is a valid value.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = u16::try_from(libc::AF_NETLINK).unwrap_or(0);
        address.nl_groups = u32::try_from(libc::RTMGRP_LINK).unwrap_or(0);
        let length = libc::socklen_t::try_from(size_of::<libc::sockaddr_nl>()).unwrap_or(0);
        // SAFETY: `address` is readable for `length` bytes.
        check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) })
            .map_err(failed)?;
        let carriers = Self {
            fd,
            buffer: vec![0; BUFFER_BYTES],
        };
        carriers.ask_for_all().map_err(failed)?;
        Ok(carriers)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Hands every message that waits to `each`.
    pub(crate) fn receive(&mut self, mut each: impl FnMut(&InterfaceChange<'_>)) {
        loop {
            // SAFETY: `buffer` is writable for its length.
            let received = check_len(unsafe {
                libc::recv(
                    self.fd.as_raw_fd(),
                    self.buffer.as_mut_ptr().cast(),
                    self.buffer.len(),
                    0,
                )
            });
            match received {
                Ok(length) => parse(&self.buffer[..length], &mut each),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::ENOBUFS) => {
                        // Some were lost; the answer to this tells how things stand now.
                        if let Err(error) = self.ask_for_all() {
                            tracing::error!("cannot ask for the network interfaces: {error}");
                            return;
                        }
                    }
                    Some(libc::EAGAIN) => return,
                    _ => {
                        tracing::error!("cannot watch the network interfaces: {error}");
                        return;
                    }
                },
            }
        }
    }

    fn ask_for_all(&self) -> io::Result<()> {
        const LENGTH: usize = MESSAGE_HEADER + INTERFACE_HEADER;
        let mut request = [0u8; LENGTH];
        let flags = u16::try_from(libc::NLM_F_REQUEST | libc::NLM_F_DUMP).unwrap_or(0);
        request[0..4].copy_from_slice(&u32::try_from(LENGTH).unwrap_or(0).to_ne_bytes());
        request[4..6].copy_from_slice(&libc::RTM_GETLINK.to_ne_bytes());
        request[6..8].copy_from_slice(&flags.to_ne_bytes());
        // SAFETY: `request` is readable for its length.
        check_len(unsafe { libc::send(self.fd.as_raw_fd(), request.as_ptr().cast(), LENGTH, 0) })?;
        Ok(())
    }
}

/// The interfaces in one datagram of messages. What is malformed or of another kind is skipped.
fn parse(mut bytes: &[u8], each: &mut impl FnMut(&InterfaceChange<'_>)) {
    while bytes.len() >= MESSAGE_HEADER {
        let length = usize_of(u32_at(bytes, 0));
        if length < MESSAGE_HEADER || length > bytes.len() {
            return;
        }
        let kind = u16_at(bytes, 4);
        if kind == libc::RTM_NEWLINK || kind == libc::RTM_DELLINK {
            let deleted = kind == libc::RTM_DELLINK;
            if let Some(change) = interface(&bytes[MESSAGE_HEADER..length], deleted) {
                each(&change);
            }
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
}

/// One `ifinfomsg` with its attributes.
fn interface(body: &[u8], deleted: bool) -> Option<InterfaceChange<'_>> {
    // Other families tell of an interface as the member of a bridge and the like.
    if body.len() < INTERFACE_HEADER || i32::from(body[0]) != libc::AF_UNSPEC {
        return None;
    }
    let index = i32::from_ne_bytes(body[4..8].try_into().ok()?);
    let flags = u32_at(body, 8);
    let wanted = (libc::IFF_UP | libc::IFF_LOWER_UP).cast_unsigned();
    let mut attributes = &body[INTERFACE_HEADER..];
    while attributes.len() >= 4 {
        let length = usize::from(u16_at(attributes, 0));
        if length < 4 || length > attributes.len() {
            return None;
        }
        if u16_at(attributes, 2) == libc::IFLA_IFNAME {
            let name = std::ffi::CStr::from_bytes_until_nul(&attributes[4..length]).ok()?;
            return Some(InterfaceChange {
                index,
                name: name.to_str().ok()?,
                carrier: !deleted && flags & wanted == wanted,
                deleted,
            });
        }
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    None
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
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
