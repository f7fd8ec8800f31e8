//! Links over veth pairs: a packet socket that sees one EtherType on one interface.
//!
//! The socket is bound to the interface's index. When the interface is deleted the socket is of no
//! more use; when one of the same name comes up again, a new socket is bound to it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use wire::Format;
use wire::ether::LinkEthernet;

use super::{Attached, InterfaceChange, LinkCounter, size_buffers};
use crate::NetError;
use crate::error::check;

/// Bytes of the Ethernet header.
pub(super) const HEADER_BYTES: usize = LinkEthernet::LEN;

/// The header of every frame. There is one receiver behind a cable and it takes frames by their
/// type, so the addresses do not matter: all stations, and a local one.
const HEADER: LinkEthernet = LinkEthernet {
    destination: LinkEthernet::BROADCAST,
    source: [0x02, 0, 0, 0, 0, 0],
};

/// One end of a veth cable.
#[derive(Debug)]
pub(crate) struct VethLink {
    name: String,
    attached: Option<Socket>,
    carrier: bool,
}

#[derive(Debug)]
struct Socket {
    fd: OwnedFd,
    index: libc::c_int,
}

impl VethLink {
    /// Binds to the interface `name`. One that is not there is waited for.
    pub(super) fn open(name: &str) -> Result<Self, NetError> {
        let attached = match interface_index(name)? {
            Some(index) => Some(Socket::open(name, index)?),
            None => {
                tracing::warn!("there is no interface {name} yet; its link stays down");
                None
            }
        };
        Ok(Self {
            name: name.to_owned(),
            attached,
            carrier: false,
        })
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.attached.as_ref().map(|socket| socket.fd.as_fd())
    }

    pub(super) fn write_header(&self, header: &mut [u8]) {
        HEADER.emit(header);
    }

    pub(super) fn interface_changed(&mut self, change: &InterfaceChange<'_>) -> Option<Attached> {
        let index = self.attached.as_ref().map(|socket| socket.index);
        if change.deleted {
            if index != Some(change.index) {
                return None;
            }
            self.attached = None;
            return self.settle(false, true);
        }
        if change.name != self.name {
            return None;
        }
        let mut reopened = false;
        if index != Some(change.index) {
            self.attached = match Socket::open(&self.name, change.index) {
                Ok(socket) => Some(socket),
                Err(error) => {
                    tracing::error!("{error}");
                    None
                }
            };
            reopened = true;
        }
        let carrier = change.carrier && self.attached.is_some();
        self.settle(carrier, reopened)
    }

    fn settle(&mut self, carrier: bool, reopened: bool) -> Option<Attached> {
        if carrier == self.carrier && !reopened {
            return None;
        }
        self.carrier = carrier;
        Some(Attached { carrier, reopened })
    }
}

/// The records behind the Ethernet header.
pub(super) fn records(frame: &[u8]) -> Result<&[u8], LinkCounter> {
    LinkEthernet::parse(frame)
        .map(|(_, records)| records)
        .map_err(|_| LinkCounter::Foreign)
}

impl Socket {
    fn open(name: &str, index: libc::c_int) -> Result<Self, NetError> {
        let failed = |cause| NetError::new(format!("open a packet socket on {name}"), cause);
        // Without a protocol it receives nothing until the bind below.
        let fd = socket_with(
            AddressFamily::PACKET,
            SocketType::RAW,
            SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
            None,
        )
        .map_err(|errno| failed(errno.into()))?;
        // Past the queueing discipline: there is nothing to queue for on a cable.
        set_packet_option(&fd, libc::PACKET_QDISC_BYPASS).map_err(failed)?;
        set_packet_option(&fd, libc::PACKET_IGNORE_OUTGOING).map_err(failed)?;
        size_buffers(fd.as_fd());
        // rustix has neither addresses nor options of packet sockets.
        // SAFETY: all fields of the structure are integers, for which zero is a valid value.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = u16::try_from(libc::AF_PACKET).unwrap_or(0);
        address.sll_protocol = LinkEthernet::ETHER_TYPE.to_be();
        address.sll_ifindex = index;
        let length = libc::socklen_t::try_from(size_of::<libc::sockaddr_ll>()).unwrap_or(0);
        // SAFETY: `address` is readable for `length` bytes.
        check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) })
            .map_err(failed)?;
        Ok(Self { fd, index })
    }
}

fn set_packet_option(fd: &OwnedFd, option: libc::c_int) -> io::Result<()> {
    let on: libc::c_int = 1;
    let length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(0);
    // SAFETY: `on` is readable for its length.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            (&raw const on).cast(),
            length,
        )
    })?;
    Ok(())
}

/// The index of an interface; `None` if there is none of that name.
fn interface_index(name: &str) -> Result<Option<libc::c_int>, NetError> {
    // Any socket of the namespace does to ask with.
    let index = socket_with(
        AddressFamily::UNIX,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .and_then(|socket| name_to_index(socket, name));
    match index {
        Ok(index) => Ok(i32::try_from(index).ok().filter(|&index| index > 0)),
        Err(Errno::NODEV) => Ok(None),
        Err(errno) => Err(NetError::new(
            format!("find interface {name}"),
            errno.into(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_another_type_or_too_short_is_foreign() {
        let mut frame = [0u8; 20];
        assert_eq!(records(&frame), Err(LinkCounter::Foreign));
        HEADER.emit(&mut frame);
        assert_eq!(records(&frame), Ok(&[0u8; 6][..]));
        assert_eq!(records(&frame[..13]), Err(LinkCounter::Foreign));
    }
}
