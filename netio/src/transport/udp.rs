//! Links over UDP: one connected socket a cable, and a link header in front of the records.
//!
//! A cable neither reorders nor duplicates; UDP may. The header's sequence sorts that out: what is
//! older than the last datagram taken is dropped. Its epoch tells one life of the peer from the
//! next: a datagram of an earlier epoch is dropped, one of a later epoch makes the link start anew,
//! so that no side sends under credits of an earlier life. A side starts a new epoch when it is notified of
//! another peer.
//!
//! Epochs start at the time of day and count up, so that also a restarted process on a fixed
//! address begins later than it ended.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use wire::Format;
use wire::udplink::{Sequence, UdpLinkHeader};

use super::{LinkCounter, size_buffers};
use crate::NetError;
use crate::clock;

/// Bytes of the link header.
pub(super) const HEADER_BYTES: usize = UdpLinkHeader::LEN;

/// One end of a UDP cable.
#[derive(Debug)]
pub(crate) struct UdpLink {
    socket: UdpSocket,
    local: SocketAddr,
    peer: Option<Peer>,
    /// Of what is sent.
    epoch: u16,
    /// Of the next datagram sent.
    sequence: Sequence,
}

#[derive(Debug)]
struct Peer {
    address: SocketAddr,
    /// The same number at both ends: datagrams that carry another are not of this cable.
    link_id: u16,
    /// Epoch of the last datagram taken, and the sequence that should follow.
    last: Option<(u16, Sequence)>,
    /// A later epoch has begun.
    restarted: bool,
}

impl UdpLink {
    pub(super) fn open(address: SocketAddr) -> Result<Self, NetError> {
        let failed = |source| NetError::new(format!("open a UDP socket on {address}"), source);
        let socket = UdpSocket::bind(address).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        size_buffers(socket.as_fd());
        let local = socket.local_addr().map_err(failed)?;
        Ok(Self {
            socket,
            local,
            peer: None,
            // About seconds.
            epoch: u16::try_from((clock::epoch() >> 10) & 0xffff).unwrap_or(0),
            sequence: Sequence(0),
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Connects to `address`; whether it is another peer than before.
    pub(super) fn connect(&mut self, address: SocketAddr) -> Result<bool, NetError> {
        if self
            .peer
            .as_ref()
            .is_some_and(|peer| peer.address == address)
        {
            return Ok(false);
        }
        self.socket.connect(address).map_err(|source| {
            NetError::new(format!("connect {} to {address}", self.local), source)
        })?;
        self.discard_waiting();
        self.peer = Some(Peer {
            address,
            link_id: link_id(self.local, address),
            last: None,
            restarted: false,
        });
        self.start_epoch();
        Ok(true)
    }

    /// What came before the connection may be anybody's.
    fn discard_waiting(&self) {
        let mut byte = [0u8; 1];
        // Bounded by what a receive buffer can hold of the smallest datagrams.
        for _ in 0..super::RECEIVE_BUFFER_BYTES / 512 {
            match self.socket.recv(&mut byte) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                _ => {}
            }
        }
    }

    fn start_epoch(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        self.sequence = Sequence(0);
    }

    pub(super) fn take_restart(&mut self) -> bool {
        self.peer
            .as_mut()
            .is_some_and(|peer| std::mem::take(&mut peer.restarted))
    }

    pub(super) fn write_header(&mut self, header: &mut [u8]) {
        let link_id = self.peer.as_ref().map_or(0, |peer| peer.link_id);
        UdpLinkHeader {
            link_id,
            epoch: self.epoch,
            sequence: self.sequence,
        }
        .emit(header);
        self.sequence = self.sequence.next();
    }

    /// The records behind the link header, if the datagram is this cable's and in time. How many
    /// datagrams before it never came is the second value.
    pub(super) fn records<'a>(
        &mut self,
        datagram: &'a [u8],
    ) -> Result<(&'a [u8], u16), LinkCounter> {
        let peer = self.peer.as_mut().ok_or(LinkCounter::Foreign)?;
        let (header, records) = UdpLinkHeader::parse(datagram).map_err(|_| LinkCounter::Foreign)?;
        if header.link_id != peer.link_id {
            return Err(LinkCounter::Foreign);
        }
        let mut missing = 0;
        if let Some((epoch, expected)) = peer.last {
            // Both numbers wrap: "later" is within half of their range ahead.
            let epochs_ahead = header.epoch.wrapping_sub(epoch).cast_signed();
            if epochs_ahead < 0 {
                return Err(LinkCounter::OldEpoch);
            }
            if epochs_ahead > 0 {
                peer.restarted = true;
            } else {
                missing = header.sequence.steps_from(expected);
                if missing.cast_signed() < 0 {
                    return Err(LinkCounter::OutOfOrder);
                }
            }
        }
        peer.last = Some((header.epoch, header.sequence.next()));
        Ok((records, missing))
    }
}

/// A number that both ends of a cable compute alike and that most other cables do not have.
fn link_id(one: SocketAddr, other: SocketAddr) -> u16 {
    one.port() ^ other.port()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (UdpLink, UdpLink) {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut one = UdpLink::open(address).unwrap();
        let mut other = UdpLink::open(address).unwrap();
        assert!(one.connect(other.local()).unwrap());
        assert!(other.connect(one.local()).unwrap());
        (one, other)
    }

    fn datagram(link: &mut UdpLink) -> Vec<u8> {
        let mut bytes = vec![0xa5; HEADER_BYTES + 3];
        link.write_header(&mut bytes[..HEADER_BYTES]);
        bytes
    }

    #[test]
    fn datagrams_in_order_are_taken_and_gaps_are_counted() {
        let (mut one, mut other) = pair();
        let sent: Vec<_> = (0..5).map(|_| datagram(&mut one)).collect();
        assert_eq!(other.records(&sent[0]), Ok((&[0xa5; 3][..], 0)));
        assert_eq!(other.records(&sent[3]), Ok((&[0xa5; 3][..], 2)));
        for late in [0, 2, 3] {
            assert_eq!(other.records(&sent[late]), Err(LinkCounter::OutOfOrder));
        }
        assert_eq!(other.records(&sent[4]), Ok((&[0xa5; 3][..], 0)));
        assert!(!other.take_restart());
    }

    #[test]
    fn a_later_epoch_starts_the_link_anew_and_an_earlier_one_is_dropped() {
        let (mut one, mut other) = pair();
        let before = datagram(&mut one);
        let leftover = datagram(&mut one);
        other.records(&before).unwrap();
        one.start_epoch();
        let after = datagram(&mut one);
        assert_eq!(other.records(&after), Ok((&[0xa5; 3][..], 0)));
        assert!(other.take_restart());
        assert!(!other.take_restart(), "reported once");
        assert_eq!(other.records(&leftover), Err(LinkCounter::OldEpoch));
    }

    #[test]
    fn what_is_not_of_this_cable_is_foreign() {
        let (mut one, mut other) = pair();
        let good = datagram(&mut one);
        for length in 0..HEADER_BYTES {
            assert_eq!(other.records(&good[..length]), Err(LinkCounter::Foreign));
        }
        for at in [0, 2, 3] {
            let mut bad = good.clone();
            bad[at] ^= 0x80;
            assert_eq!(other.records(&bad), Err(LinkCounter::Foreign), "byte {at}");
        }
        let mut alone = UdpLink::open(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        assert_eq!(alone.records(&good), Err(LinkCounter::Foreign));
    }

    #[test]
    fn connecting_to_the_same_peer_again_changes_nothing() {
        let (mut one, other) = pair();
        let epoch = one.epoch;
        assert!(!one.connect(other.local()).unwrap());
        assert_eq!(one.epoch, epoch);
    }

    #[test]
    fn what_was_sent_before_the_connection_is_never_seen() {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut link = UdpLink::open(address).unwrap();
        let stranger = UdpSocket::bind(address).unwrap();
        stranger.send_to(b"from a stranger", link.local()).unwrap();
        let peer = UdpSocket::bind(address).unwrap();
        link.connect(peer.local_addr().unwrap()).unwrap();
        stranger.send_to(b"again", link.local()).unwrap();
        let mut byte = [0u8; 1];
        let error = link.socket.recv(&mut byte).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
}
