//! Generation of packets and messages at a host: its traffic sources, merged in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use link::Time;
use wire::{Lid, Sl, convert};

use crate::model::{Model, PACKET_BYTES_MIN};
use crate::numbers::index;
use crate::pattern::Draw;
use crate::workload::{AddressVector, ConstantRate, Destination, SendRequest, TrafficSource};

/// The flow number of packets that are not counted by flow.
pub(crate) const NO_FLOW: u32 = u32::MAX;

/// Packets that have one place in a queue: one, a message's, or all of a backlogged flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueuedSend {
    pub(crate) generated: Time,
    pub(crate) to: Destination,
    /// [`Lid::ZERO`]: the one that the scheme chooses.
    pub(crate) dlid: Lid,
    /// `None`: the one that the routing engine gives for each DLID.
    pub(crate) sl: Option<Sl>,
    pub(crate) flow: u32,
    /// Of every packet but the last.
    pub(crate) bytes: u16,
    pub(crate) last_bytes: u16,
    /// Packets to one receiver.
    pub(crate) packets: u32,
    /// Packets still to go to this receiver.
    pub(crate) left: u32,
    /// Of [`Destination::Each`]: which member is being sent to.
    pub(crate) member: u32,
    pub(crate) endless: bool,
}

impl QueuedSend {
    fn single(generated: Time, address: &AddressVector, bytes: u16) -> Self {
        Self {
            generated,
            to: address.to,
            dlid: address.dlid.unwrap_or(Lid::ZERO),
            sl: address.sl,
            flow: address.flow,
            bytes,
            last_bytes: bytes,
            packets: 1,
            left: 1,
            member: 0,
            endless: false,
        }
    }

    /// A message cut into packets of at most `packet_bytes`.
    fn message(generated: Time, request: &SendRequest, packet_bytes: u16) -> Self {
        let payload = u32::from(packet_bytes.saturating_sub(PACKET_BYTES_MIN));
        // Without room for payload a packet counts for one byte, or no message would ever end.
        let packets = request.bytes.div_ceil(payload.max(1)).max(1);
        let rest = request.bytes.saturating_sub((packets - 1) * payload);
        let rest = rest.min(payload).next_multiple_of(4).min(payload);
        Self {
            last_bytes: PACKET_BYTES_MIN + convert::saturate::<u16>(rest),
            packets,
            left: packets,
            ..Self::single(generated, &request.address, packet_bytes)
        }
    }

    /// Bytes of the next packet.
    #[inline]
    pub(crate) fn next_bytes(&self) -> u16 {
        if self.left == 1 {
            self.last_bytes
        } else {
            self.bytes
        }
    }
}

/// One traffic source and its progress.
#[derive(Debug)]
enum Stream {
    Packets(Arc<[SendRequest]>, usize),
    Messages(Arc<[SendRequest]>, usize),
    ConstantRate(ConstantRate, u64),
    Backlogged(AddressVector, u16, u64),
    Patterned(Box<Paced>),
}

/// Packets of one size that a pattern draws, at a constant rate.
#[derive(Debug)]
pub(crate) struct Paced {
    draw: Draw,
    interval_ps: u64,
    next_ps: u128,
    /// The moment of that.
    next_at: Time,
    /// No packet is generated from then on.
    ends: Time,
    bytes: u16,
    flow: u32,
}

impl Paced {
    /// One each `interval_ps` from `start` until `ends`, the first at a random moment of the first
    /// interval.
    pub(crate) fn new(
        mut draw: Draw,
        interval_ps: u64,
        (start, ends): (Time, Time),
        bytes: u16,
        flow: u32,
    ) -> Self {
        let phase = draw.phase(interval_ps);
        let mut paced = Self {
            draw,
            interval_ps: interval_ps.max(1),
            next_ps: u128::from(start.0) * 1000 + u128::from(phase),
            next_at: Time::NEVER,
            ends,
            bytes,
            flow,
        };
        paced.look_ahead();
        paced
    }

    fn look_ahead(&mut self) {
        let at = u64::try_from(self.next_ps.div_ceil(1000)).map_or(Time::NEVER, Time);
        self.next_at = if at < self.ends { at } else { Time::NEVER };
    }

    #[inline]
    fn next_at(&self) -> Time {
        self.next_at
    }

    #[inline]
    fn next(&mut self) -> QueuedSend {
        let generated = self.next_at();
        self.next_ps += u128::from(self.interval_ps);
        self.look_ahead();
        let (to, sl) = self.draw.next();
        let address = AddressVector {
            to: Destination::Host(to),
            dlid: None,
            sl: sl.map(Sl::truncate),
            flow: self.flow,
        };
        QueuedSend::single(generated, &address, self.bytes)
    }
}

/// All that a host will ever send.
#[derive(Debug)]
pub(crate) enum Generator {
    /// One traffic source with a pattern.
    Paced(Box<Paced>),
    /// Any number of them.
    Merged(Merged),
}

impl Generator {
    /// When the next one is due.
    #[inline]
    pub(crate) fn next_at(&self) -> Time {
        match self {
            Self::Paced(paced) => paced.next_at(),
            Self::Merged(merged) => merged.next_at,
        }
    }

    /// Takes the next one.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<QueuedSend> {
        match self {
            Self::Paced(paced) => Some(paced.next()),
            Self::Merged(merged) => merged.next(),
        }
    }

    /// Whether something that ends is still to be generated.
    pub(crate) fn has_finite(&self) -> bool {
        match self {
            Self::Paced(paced) => paced.next_at() < Time::NEVER,
            Self::Merged(merged) => merged.finite > 0,
        }
    }
}

/// Traffic sources in the order of time; of requests of one moment, in the order of the sources.
#[derive(Debug)]
pub(crate) struct Merged {
    start: Time,
    packet_bytes: u16,
    streams: Vec<Stream>,
    /// When each stream that goes on has its next request, picoseconds from the start.
    due: BinaryHeap<Reverse<(u64, u32)>>,
    next_at: Time,
    /// Streams that go on and end some time.
    finite: usize,
}

impl Merged {
    /// The traffic sources of a host; `paced` makes those with a pattern, by their place.
    pub(crate) fn new(
        start: Time,
        model: &Model,
        sources: &[TrafficSource],
        paced: impl Fn(u64, &TrafficSource) -> Option<Paced>,
    ) -> Self {
        let mut merged = Self {
            start,
            packet_bytes: model.packet_bytes,
            streams: Vec::with_capacity(sources.len()),
            due: BinaryHeap::with_capacity(sources.len()),
            next_at: Time::NEVER,
            finite: 0,
        };
        for (place, source) in (0u64..).zip(sources) {
            let stream = match source {
                TrafficSource::Packets(requests) => Stream::Packets(Arc::clone(requests), 0),
                TrafficSource::Messages(requests) => Stream::Messages(Arc::clone(requests), 0),
                TrafficSource::ConstantRate(constant) => Stream::ConstantRate(*constant, 0),
                TrafficSource::Backlogged {
                    address,
                    bytes,
                    first_ps,
                } => Stream::Backlogged(*address, *bytes, *first_ps),
                TrafficSource::Patterned { .. } => match paced(place, source) {
                    Some(paced) => Stream::Patterned(Box::new(paced)),
                    None => continue,
                },
            };
            let at = crate::numbers::number(merged.streams.len());
            if let Some(due) = stream.due(start) {
                merged.due.push(Reverse((due, at)));
                merged.finite += usize::from(stream.is_finite());
            }
            merged.streams.push(stream);
        }
        merged.look_ahead();
        merged
    }

    fn look_ahead(&mut self) {
        let next = self.due.peek().map(|&Reverse((ps, _))| ps);
        self.next_at = next.map_or(Time::NEVER, |ps| self.start + ps.div_ceil(1000));
    }

    fn next(&mut self) -> Option<QueuedSend> {
        let Reverse((_, at)) = self.due.pop()?;
        let generated = self.next_at;
        let stream = self.streams.get_mut(index(at))?;
        let send = stream.take(generated, self.packet_bytes);
        match stream.due(self.start) {
            Some(due) => self.due.push(Reverse((due, at))),
            None => self.finite -= usize::from(stream.is_finite()),
        }
        self.look_ahead();
        send
    }
}

impl Stream {
    /// When its next request is due, picoseconds from the start; `None` if there is none.
    fn due(&self, start: Time) -> Option<u64> {
        match self {
            Self::Packets(requests, at) | Self::Messages(requests, at) => {
                requests.get(*at).map(|request| request.at_ps)
            }
            Self::ConstantRate(constant, sent) => {
                if constant.packets.is_some_and(|packets| *sent >= packets) {
                    return None;
                }
                let after = constant.interval_ps.checked_mul(*sent)?;
                constant.first_ps.checked_add(after)
            }
            Self::Backlogged(_, _, first_ps) => (*first_ps < u64::MAX).then_some(*first_ps),
            Self::Patterned(paced) => {
                let at = paced.next_at();
                let after = u128::from(start.0) * 1000;
                let ps = u64::try_from(paced.next_ps.saturating_sub(after)).ok();
                ps.filter(|_| at < Time::NEVER)
            }
        }
    }

    fn is_finite(&self) -> bool {
        match self {
            Self::ConstantRate(constant, _) => constant.packets.is_some(),
            Self::Backlogged(..) => false,
            Self::Packets(..) | Self::Messages(..) | Self::Patterned(_) => true,
        }
    }

    fn take(&mut self, generated: Time, packet_bytes: u16) -> Option<QueuedSend> {
        match self {
            Self::Packets(requests, at) => {
                let request = requests.get(*at)?;
                *at += 1;
                let bytes = u16::try_from(request.bytes).ok()?;
                Some(QueuedSend::single(generated, &request.address, bytes))
            }
            Self::Messages(requests, at) => {
                let request = requests.get(*at)?;
                *at += 1;
                Some(QueuedSend::message(generated, request, packet_bytes))
            }
            Self::ConstantRate(constant, sent) => {
                *sent += 1;
                Some(QueuedSend::single(
                    generated,
                    &constant.address,
                    constant.bytes,
                ))
            }
            Self::Backlogged(address, bytes, first_ps) => {
                // Its one send never ends.
                *first_ps = u64::MAX;
                Some(QueuedSend {
                    endless: true,
                    ..QueuedSend::single(generated, address, *bytes)
                })
            }
            Self::Patterned(paced) => Some(paced.next()),
        }
    }
}
