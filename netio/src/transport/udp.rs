//! Links over UDP: one connected socket a cable, and a link header in front of the records.
//!
//! Every process on the machine can send to a port, and take one that is free. What makes a datagram the
//! peer's is therefore what it carries ([`wire::udplink`]): the secret of this end, which only the
//! peer is told, and the epoch of the peer's life, which only this end is told. Both go over control
//! sockets. A datagram without them is dropped and counted, whatever it holds, and changes nothing.
//!
//! | sender | why it is not taken |
//! |---|---|
//! | a stranger on another port | the socket is connected: the kernel drops it |
//! | one that has taken the port of a peer that has ended | does not know this end's secret: what this end sends carries the peer's |
//! | the same, repeating what it was sent by this end, or what an earlier life of this end was sent | as above: the secret of each direction, and of each life, is another one |
//! | an earlier or later life of the peer on the same port | its epoch is another one, until this end is told of it |
//!
//! A cable neither reorders nor duplicates; UDP may. The header's sequence sorts that out: what is
//! older than the last datagram taken is dropped.
//!
//! Being told of another peer, or of another life of the same one, starts the link anew, so that no
//! side sends under credits of an earlier life.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use wire::Format;
use wire::udplink::{LinkSecret, Sequence, UdpEndpoint, UdpLinkHeader};

use super::{LinkCounter, RECEIVE_BUFFER_BYTES, size_buffers};
use crate::NetError;
use crate::random;

/// Bytes of the link header.
pub(super) const HEADER_BYTES: usize = UdpLinkHeader::LEN;

/// More datagrams than a receive buffer can hold: the kernel gives twice what is asked for, and
/// charges the shortest with more than this many bytes.
const WAITING_MAX: usize = 2 * RECEIVE_BUFFER_BYTES / 512;

/// One end of a UDP cable.
#[derive(Debug)]
pub(crate) struct UdpLink {
    socket: UdpSocket,
    own: UdpEndpoint,
    peer: Option<Peer>,
    /// Of the next datagram sent. It counts on when the peer changes: its receiver may have seen
    /// this epoch before.
    sequence: Sequence,
}

#[derive(Debug)]
struct Peer {
    endpoint: UdpEndpoint,
    /// The sequence that should follow the last datagram taken.
    next: Option<Sequence>,
}

impl UdpLink {
    pub(super) fn open(address: SocketAddr) -> Result<Self, NetError> {
        let failed = |source| NetError::new(format!("open a UDP socket on {address}"), source);
        let socket = UdpSocket::bind(address).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        size_buffers(socket.as_fd());
        let own = UdpEndpoint {
            address: socket.local_addr().map_err(failed)?,
            secret: LinkSecret(random::number()?),
            epoch: random::number()?,
        };
        Ok(Self {
            socket,
            own,
            peer: None,
            sequence: Sequence(0),
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The address and numbers of this end that its peer needs.
    pub(super) fn endpoint(&self) -> UdpEndpoint {
        self.own
    }

    /// Connects to `peer`; whether it is another one, or another life of it, than before.
    pub(super) fn connect(&mut self, peer: UdpEndpoint) -> Result<bool, NetError> {
        if self.peer.as_ref().is_some_and(|old| old.endpoint == peer) {
            return Ok(false);
        }
        self.socket.connect(peer.address).map_err(|source| {
            let what = format!("connect {} to {}", self.own.address, peer.address);
            NetError::new(what, source)
        })?;
        discard_waiting(&self.socket);
        self.peer = Some(Peer {
            endpoint: peer,
            next: None,
        });
        Ok(true)
    }

    pub(super) fn write_header(&mut self, header: &mut [u8]) {
        // Nothing is sent before there is a peer: a link without one has no carrier.
        let peer = self.peer.as_ref();
        UdpLinkHeader {
            sequence: self.sequence,
            secret: peer.map_or(LinkSecret(0), |peer| peer.endpoint.secret),
            epoch: self.own.epoch,
        }
        .emit(header);
        self.sequence = self.sequence.next();
    }

    /// The records behind the link header, if the datagram is the peer's and in time. How many
    /// datagrams before it never came is the second value.
    pub(super) fn records<'a>(
        &mut self,
        datagram: &'a [u8],
    ) -> Result<(&'a [u8], u32), LinkCounter> {
        let peer = self.peer.as_mut().ok_or(LinkCounter::Foreign)?;
        let (header, records) = UdpLinkHeader::parse(datagram).map_err(|_| LinkCounter::Foreign)?;
        if header.secret != self.own.secret {
            return Err(LinkCounter::WrongSecret);
        }
        if header.epoch != peer.endpoint.epoch {
            return Err(LinkCounter::StaleEpoch);
        }
        let missing = match peer.next {
            Some(next) => header.sequence.steps_from(next),
            None => 0,
        };
        // The number wraps: "later" is within half of its range ahead.
        if missing.cast_signed() < 0 {
            return Err(LinkCounter::OutOfOrder);
        }
        peer.next = Some(header.sequence.next());
        Ok((records, missing))
    }
}

/// Discards datagrams that wait: those that came before the connection may be from any sender.
pub(super) fn discard_waiting(socket: &UdpSocket) {
    let mut byte = [0u8; 1];
    for _ in 0..WAITING_MAX {
        match socket.recv(&mut byte) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

    fn pair() -> (UdpLink, UdpLink) {
        let mut one = UdpLink::open(ANY).unwrap();
        let mut other = UdpLink::open(ANY).unwrap();
        assert!(one.connect(other.endpoint()).unwrap());
        assert!(other.connect(one.endpoint()).unwrap());
        (one, other)
    }

    fn datagram(link: &mut UdpLink) -> Vec<u8> {
        let mut bytes = vec![0xa5; HEADER_BYTES + 3];
        link.write_header(&mut bytes[..HEADER_BYTES]);
        bytes
    }

    fn with(link: &mut UdpLink, change: impl FnOnce(&mut UdpLinkHeader)) -> Vec<u8> {
        let mut bytes = datagram(link);
        let (mut header, _) = UdpLinkHeader::parse(&bytes).unwrap();
        change(&mut header);
        header.emit(&mut bytes);
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
    }

    #[test]
    fn a_gap_of_more_than_sixteen_bits_is_a_gap() {
        let (mut one, mut other) = pair();
        other.records(&datagram(&mut one)).unwrap();
        let far = with(&mut one, |header| header.sequence.0 += 40_000);
        assert_eq!(other.records(&far), Ok((&[0xa5; 3][..], 40_000)));
    }

    #[test]
    fn without_the_secret_no_datagram_changes_anything() {
        let (mut one, mut other) = pair();
        let wrong = [0, 1, u64::MAX].map(|epoch| {
            with(&mut one, |header| {
                header.secret.0 ^= 1;
                header.epoch = epoch;
                header.sequence.0 = 1 << 30;
            })
        });
        for datagram in &wrong {
            assert_eq!(other.records(datagram), Err(LinkCounter::WrongSecret));
        }
        assert_eq!(other.records(&datagram(&mut one)), Ok((&[0xa5; 3][..], 0)));
    }

    #[test]
    fn what_an_end_sends_does_not_tell_how_to_send_to_it() {
        let (mut one, mut other) = pair();
        let heard = datagram(&mut one);
        assert_eq!(one.records(&heard), Err(LinkCounter::WrongSecret));
        // The sender's secret for the process that has taken the port of `other`.
        let (header, _) = UdpLinkHeader::parse(&heard).unwrap();
        let reflected = with(&mut other, |forged| forged.secret = header.secret);
        assert_eq!(one.records(&reflected), Err(LinkCounter::WrongSecret));
    }

    /// Another life of `link`: its socket is another one, so its numbers are others.
    fn restarted(link: UdpLink) -> UdpLink {
        let address = link.own.address;
        drop(link);
        UdpLink::open(address).unwrap()
    }

    #[test]
    fn another_life_of_the_peer_is_taken_once_this_end_is_told_of_it_and_the_old_one_is_not() {
        let (mut one, mut other) = pair();
        let before = datagram(&mut one);
        other.records(&datagram(&mut one)).unwrap();
        let mut again = restarted(one);
        assert!(again.connect(other.endpoint()).unwrap());
        assert_eq!(
            other.records(&datagram(&mut again)),
            Err(LinkCounter::StaleEpoch)
        );
        assert!(
            other.connect(again.endpoint()).unwrap(),
            "the address is the same, the life is not"
        );
        assert_eq!(
            other.records(&datagram(&mut again)),
            Ok((&[0xa5; 3][..], 0))
        );
        assert_eq!(other.records(&before), Err(LinkCounter::StaleEpoch));
    }

    #[test]
    fn what_an_earlier_life_was_sent_is_worth_nothing_in_the_next() {
        let (mut one, other) = pair();
        let overheard = datagram(&mut one);
        let mut again = restarted(other);
        again.connect(one.endpoint()).unwrap();
        assert_eq!(again.records(&overheard), Err(LinkCounter::WrongSecret));
    }

    #[test]
    fn what_is_no_datagram_of_a_link_is_foreign() {
        let (mut one, mut other) = pair();
        let good = datagram(&mut one);
        for length in 0..HEADER_BYTES {
            assert_eq!(other.records(&good[..length]), Err(LinkCounter::Foreign));
        }
        let mut bad = good.clone();
        bad[0] ^= 0x80;
        assert_eq!(other.records(&bad), Err(LinkCounter::Foreign));
        let mut alone = UdpLink::open(ANY).unwrap();
        assert_eq!(alone.records(&good), Err(LinkCounter::Foreign));
    }

    #[test]
    fn connecting_to_the_same_peer_again_changes_nothing() {
        let (mut one, mut other) = pair();
        other.records(&datagram(&mut one)).unwrap();
        assert!(!other.connect(one.endpoint()).unwrap());
        let repeated = with(&mut one, |header| header.sequence.0 = 0);
        assert_eq!(other.records(&repeated), Err(LinkCounter::OutOfOrder));
    }

    #[test]
    fn a_peer_that_is_connected_to_again_after_another_one_goes_on_counting() {
        let (mut one, mut other) = pair();
        for _ in 0..3 {
            other.records(&datagram(&mut one)).unwrap();
        }
        let third = UdpLink::open(ANY).unwrap();
        one.connect(third.endpoint()).unwrap();
        one.connect(other.endpoint()).unwrap();
        assert_eq!(other.records(&datagram(&mut one)), Ok((&[0xa5; 3][..], 0)));
    }

    #[test]
    fn what_was_sent_before_the_connection_is_never_seen() {
        let mut link = UdpLink::open(ANY).unwrap();
        let to = link.own.address;
        let stranger = UdpSocket::bind(ANY).unwrap();
        stranger.send_to(b"from a stranger", to).unwrap();
        let peer = UdpLink::open(ANY).unwrap();
        link.connect(peer.endpoint()).unwrap();
        stranger.send_to(b"again", to).unwrap();
        let mut byte = [0u8; 1];
        let error = link.socket.recv(&mut byte).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
}
