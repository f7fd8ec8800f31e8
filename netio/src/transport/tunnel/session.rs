//! Two lives of the ends of a tunnel, without sockets: datagrams to records and back.
//!
//! ```text
//! records ─► Retry ─► header, payload ─► sealed ─► datagram
//! records ◄─ whole ones ◄─ Retry ◄─ replay window ◄─ opened ◄─ datagram
//! ```
//!
//! Nothing that is not the peer's changes anything: the header's version and key, the number of the datagram, and the
//! seal are checked in this order, before anything is noted. Then order is [`Retry`]'s.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;

use link::Time;
use link::retry::{Arrival, Heading, Limits, Retry};
use wire::convert::{saturate, usize_of};
use wire::record::{STREAM_RECORD_MAX, record_length, whole_records};
use wire::tunnel::{CableSecret, LinkSecurity, PlainSeal, SEAL_BYTES, TunnelHeader};
use wire::udplink::UdpEndpoint;
use wire::{Delimiter, Format, ParseError};

use super::keys::DirectionKey;
use super::replay::{Number, ReplayWindow};
use crate::transport::{LinkCounter, LinkCounters};

/// Bytes of a datagram besides its payload.
pub const OVERHEAD_BYTES: usize = TunnelHeader::LEN + SEAL_BYTES;

/// Room that has to be in front of received datagrams: for the beginning of a record that came before.
pub const RECORD_ROOM: usize = STREAM_RECORD_MAX.next_multiple_of(4096);

/// Why the peer's stream of records makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A record is none.
    Record(ParseError),
    /// The first record of a datagram begins elsewhere than the peer says.
    FirstRecord {
        /// Where the peer says.
        stated: Option<u16>,
        /// Where it does.
        found: Option<u16>,
    },
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record(error) => error.fmt(f),
            Self::FirstRecord { stated, found } => {
                write!(f, "first record at {stated:?}, found at {found:?}")
            }
        }
    }
}

/// A life of the one end with a life of the other.
#[derive(Debug)]
pub struct Session {
    security: LinkSecurity,
    own: UdpEndpoint,
    peer: UdpEndpoint,
    send_key: DirectionKey,
    receive_key: DirectionKey,
    /// Number of the next datagram.
    counter: u64,
    window: ReplayWindow,
    retry: Retry,
    /// The beginning of a record whose end has not come.
    begun: Vec<u8>,
}

impl Session {
    /// One in which nothing was sent yet.
    #[must_use]
    pub fn new(
        security: LinkSecurity,
        secret: &CableSecret,
        own: UdpEndpoint,
        peer: UdpEndpoint,
    ) -> Self {
        Self {
            security,
            own,
            peer,
            send_key: DirectionKey::new(secret, &own, &peer),
            receive_key: DirectionKey::new(secret, &peer, &own),
            counter: 0,
            window: ReplayWindow::default(),
            retry: Retry::new(Limits::default()),
            begun: Vec::new(),
        }
    }

    /// A number that no other session has.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.send_key.number()
    }

    /// What is sent, and what is to be sent again.
    pub fn retry(&mut self) -> &mut Retry {
        &mut self.retry
    }

    /// When something has to be sent at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.retry.deadline()
    }

    /// Writes the next datagram into `room`; its length, which is all of it but for the last one of several. `None` if there is
    /// nothing to send.
    pub fn write(&mut self, now: Time, room: &mut [u8], counters: &LinkCounters) -> Option<usize> {
        let payload_max = room.len().checked_sub(OVERHEAD_BYTES)?;
        let segment = self.retry.next(now, payload_max)?;
        let heading = segment.heading;
        let header = TunnelHeader {
            security: self.security,
            nak: heading.nak,
            key_id: self.send_key.id(),
            counter: self.counter,
            position: heading.position,
            acknowledged: heading.acknowledged,
            round: heading.round,
            heard_round: heading.heard_round,
            first_record: heading.first_record.unwrap_or(TunnelHeader::NO_RECORD),
        };
        let length = OVERHEAD_BYTES + segment.payload.len();
        let (head, behind) = room[..length].split_at_mut(TunnelHeader::LEN);
        let (payload, seal) = behind.split_at_mut(segment.payload.len());
        header.emit(head);
        payload.copy_from_slice(segment.payload);
        match self.security {
            LinkSecurity::Aes128Gcm => {
                seal.copy_from_slice(&self.send_key.seal(self.counter, head, payload));
            }
            LinkSecurity::None => PlainSeal {
                secret: self.peer.secret,
                epoch: self.own.epoch,
            }
            .emit(seal),
        }
        // 2^64 datagrams take longer than any process lives.
        self.counter += 1;
        if segment.is_repeated {
            counters.add(LinkCounter::TunnelRepeated);
        }
        if heading.nak {
            counters.add(LinkCounter::TunnelNaksSent);
        }
        Some(length)
    }

    /// The records of datagrams that stand back to back at `datagrams` in `memory`, each of `each` bytes but for the last,
    /// which may be shorter. In front of them are [`RECORD_ROOM`] bytes of room.
    ///
    /// # Errors
    /// [`Broken`]: the peer, and nobody else, has sent what makes no sense. The session is of no more use.
    pub fn receive<'a>(
        &mut self,
        now: Time,
        memory: &'a mut [u8],
        datagrams: Range<usize>,
        each: usize,
        counters: &LinkCounters,
    ) -> Result<&'a [u8], Broken> {
        let start = datagrams.start - self.begun.len();
        memory[start..datagrams.start].copy_from_slice(&self.begun);
        // Where the records that have come end, and where the next one begins, at or behind the last payload's beginning.
        let (mut end, mut record) = (datagrams.start, start);
        let mut from = datagrams.start;
        while from < datagrams.end {
            let to = datagrams.end.min(from + each.max(1));
            counters.add(LinkCounter::FramesReceived);
            match self.open(now, memory, from..to, end, counters) {
                Ok(Some(payload)) => {
                    let until = end + payload.bytes;
                    record = first_record(memory, record, end, until).map_err(Broken::Record)?;
                    let found = (end..until).contains(&record);
                    let found = found.then(|| saturate(record - end));
                    if payload.is_whole && found != payload.first_record {
                        let stated = payload.first_record;
                        return Err(Broken::FirstRecord { stated, found });
                    }
                    end = until;
                }
                Ok(None) => {}
                Err(why) => counters.add(why),
            }
            from = to;
        }
        let stream = &memory[start..end];
        let whole = whole_records(stream).map_err(Broken::Record)?;
        self.begun.clear();
        self.begun.extend_from_slice(&stream[whole..]);
        Ok(&memory[start..start + whole])
    }

    /// Opens the datagram at `at`. If it is the peer's, new and next in order, its payload then stands at `into`, which is
    /// not behind the datagram's own payload.
    fn open(
        &mut self,
        now: Time,
        memory: &mut [u8],
        at: Range<usize>,
        into: usize,
        counters: &LinkCounters,
    ) -> Result<Option<Payload>, LinkCounter> {
        let (header, _) =
            TunnelHeader::parse(&memory[at.clone()]).map_err(|_| LinkCounter::Foreign)?;
        if header.security != self.security || at.len() < OVERHEAD_BYTES {
            return Err(LinkCounter::Foreign);
        }
        let number = self.window.check(header.counter);
        let payload_at = at.start + TunnelHeader::LEN;
        let bytes = match self.security {
            LinkSecurity::Aes128Gcm => {
                if header.key_id != self.receive_key.id() {
                    return Err(LinkCounter::StaleEpoch);
                }
                if number == Number::Repeated {
                    return Err(LinkCounter::Replayed);
                }
                let mut covered = [0; TunnelHeader::LEN];
                covered.copy_from_slice(&memory[at.start..payload_at]);
                let sealed = &mut memory[into..at.end];
                self.receive_key
                    .open(header.counter, &covered, sealed, payload_at - into)
                    .ok_or(LinkCounter::Forged)?
            }
            LinkSecurity::None => {
                let behind = at.end - SEAL_BYTES;
                let (seal, _) =
                    PlainSeal::parse(&memory[behind..at.end]).map_err(|_| LinkCounter::Foreign)?;
                if seal.secret != self.own.secret {
                    return Err(LinkCounter::WrongSecret);
                }
                if seal.epoch != self.peer.epoch || header.key_id != self.receive_key.id() {
                    return Err(LinkCounter::StaleEpoch);
                }
                if number == Number::Repeated {
                    return Err(LinkCounter::Replayed);
                }
                memory.copy_within(payload_at..behind, into);
                behind - payload_at
            }
        };
        self.window.take(header.counter);
        match number {
            Number::Ahead { missing } => {
                counters.add_many(LinkCounter::TunnelMissing, usize_of(missing));
            }
            _ => counters.add(LinkCounter::TunnelLate),
        }
        self.take(now, &header, memory, into, bytes, counters)
    }

    /// Takes in a datagram of the peer whose payload stands at `into`.
    fn take(
        &mut self,
        now: Time,
        header: &TunnelHeader,
        memory: &mut [u8],
        into: usize,
        bytes: usize,
        counters: &LinkCounters,
    ) -> Result<Option<Payload>, LinkCounter> {
        let first_record = header.first_record;
        let heading = Heading {
            position: header.position,
            acknowledged: header.acknowledged,
            round: header.round,
            heard_round: header.heard_round,
            nak: header.nak,
            first_record: (first_record != TunnelHeader::NO_RECORD).then_some(first_record),
        };
        let arrival = self.retry.take(now, &heading, bytes);
        if arrival != Arrival::Malformed && header.nak {
            counters.add(LinkCounter::TunnelNaksReceived);
        }
        match arrival {
            Arrival::Next { skip } => {
                memory.copy_within(into + skip..into + bytes, into);
                Ok(Some(Payload {
                    bytes: bytes - skip,
                    is_whole: skip == 0,
                    first_record: heading.first_record,
                }))
            }
            Arrival::Bare => Ok(None),
            Arrival::Duplicate => {
                counters.add(LinkCounter::TunnelDuplicates);
                Ok(None)
            }
            Arrival::Gap => {
                counters.add(LinkCounter::TunnelGaps);
                Ok(None)
            }
            Arrival::Malformed => Err(LinkCounter::Malformed),
        }
    }
}

/// A payload that goes on where the last one ended.
struct Payload {
    bytes: usize,
    /// Nothing of it has come before.
    is_whole: bool,
    first_record: Option<u16>,
}

/// Where the first record at or behind `from` begins, as far as `until` tells; one begins at `record`.
fn first_record(
    memory: &[u8],
    mut record: usize,
    from: usize,
    until: usize,
) -> Result<usize, ParseError> {
    while record < from {
        match memory[record..until].first_chunk::<{ Delimiter::LEN }>() {
            Some(delimiter) => record += record_length(delimiter)?,
            // Not even its delimiter has come: the next one begins later.
            None => break,
        }
    }
    Ok(record)
}

/// The sessions that an end has had, as many as are kept: none is taken up again, because its numbers have been used.
#[derive(Debug, Default)]
pub(super) struct Past(VecDeque<u64>);

impl Past {
    /// Far more than a cable has in a fabric's life.
    const KEPT: usize = 1024;

    pub(super) fn holds(&self, number: u64) -> bool {
        self.0.contains(&number)
    }

    pub(super) fn add(&mut self, number: u64) {
        if self.0.len() == Self::KEPT {
            self.0.pop_front();
        }
        self.0.push_back(number);
    }
}
