//! The buffers of a port: what has come in on a VL, and what waits to leave by one.

//!
//! Most VLs hold one packet or none most of the time. So the packet at the head lies in the VL
//! itself, beside its credits: a VL is a few cache lines in one place.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use crate::credits::{ReceiveCredits, SendCredits};
use crate::{Packet, Payload, Time};

/// Packets in order. One that comes while there is none is in place; it is not moved, and neither are those
/// behind it.
#[derive(Debug, Default)]
pub(crate) struct Fifo {
    first: Option<Packet>,
    /// Those behind it, or all where it has gone.
    rest: VecDeque<Packet>,
}

impl Fifo {
    #[inline]
    pub(crate) fn front(&self) -> Option<&Packet> {
        self.first.as_ref().or_else(|| self.rest.front())
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none() && self.rest.is_empty()
    }

    /// Adds a packet; what it gives is where it lies.
    #[inline(always)]
    pub(crate) fn push_back(&mut self, packet: Packet) -> &mut Packet {
        if self.is_empty() {
            self.first.insert(packet)
        } else {
            self.rest.push_back_mut(packet)
        }
    }

    /// Takes the head out, of which only the payload is wanted.
    #[inline]
    pub(crate) fn pop_payload(&mut self) -> Option<Payload> {
        match self.first.take() {
            None => Some(self.rest.pop_front()?.payload),
            Some(first) => Some(first.payload),
        }
    }

    pub(crate) fn release_memory(&mut self) {
        self.rest.shrink_to_fit();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Packet> {
        self.first.iter().chain(&self.rest)
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<Packet> {
        match self.first.take() {
            None => self.rest.pop_front(),
            first => first,
        }
    }
}

/// The input buffer and the output queue of one VL.
///
/// Flow control is about both, so that they lie side by side.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct VlBuffers {
    pub(crate) input: VlBuffer,
    pub(crate) output: VlQueue,
}

impl VlBuffers {
    /// Reads each of its lines of memory, see [`Port::read_ahead`](crate::Port::read_ahead).
    #[inline]
    pub(crate) fn read_ahead(&self) -> u64 {
        let input = self.input.queue.first.as_ref();
        let output = self.output.queue.first.as_ref();
        u64::from(self.input.credits.needs_update())
            ^ input.map_or(0, |packet| packet.entered.0)
            ^ u64::from(self.output.used)
            ^ output.map_or(0, |packet| packet.entered.0)
    }
}

/// The buffers of all VLs of a port, those of VL 0 in place: where there is one VL, they lie beside what else a packet needs.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Lanes {
    first: VlBuffers,
    others: Box<[VlBuffers]>,
}

impl Lanes {
    /// The buffers of `vls` VLs, 1 at least.
    pub(crate) fn new(vls: u8, mut make: impl FnMut() -> VlBuffers) -> Self {
        Self {
            first: make(),
            others: (1..vls).map(|_| make()).collect(),
        }
    }

    #[inline]
    pub(crate) fn get(&self, vl: usize) -> Option<&VlBuffers> {
        match vl.checked_sub(1) {
            None => Some(&self.first),
            Some(at) => self.others.get(at),
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, vl: usize) -> Option<&mut VlBuffers> {
        match vl.checked_sub(1) {
            None => Some(&mut self.first),
            Some(at) => self.others.get_mut(at),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &VlBuffers> {
        core::iter::once(&self.first).chain(&self.others)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut VlBuffers> {
        core::iter::once(&mut self.first).chain(&mut self.others)
    }
}

impl Index<usize> for Lanes {
    type Output = VlBuffers;

    #[inline]
    fn index(&self, vl: usize) -> &VlBuffers {
        match vl.checked_sub(1) {
            None => &self.first,
            Some(at) => &self.others[at],
        }
    }
}

impl IndexMut<usize> for Lanes {
    #[inline]
    fn index_mut(&mut self, vl: usize) -> &mut VlBuffers {
        match vl.checked_sub(1) {
            None => &mut self.first,
            Some(at) => &mut self.others[at],
        }
    }
}

/// The input buffer of one VL.
#[derive(Debug)]
pub(crate) struct VlBuffer {
    pub(crate) credits: ReceiveCredits,
    pub(crate) queue: Fifo,
}

impl VlBuffer {
    pub(crate) fn new(capacity: u32, packet: u16) -> Self {
        Self {
            credits: ReceiveCredits::new(capacity, packet),
            queue: Fifo::default(),
        }
    }
}

/// The output queue of one VL.
#[derive(Debug)]
pub(crate) struct VlQueue {
    pub(crate) credits: SendCredits,
    used: u32,
    capacity: u32,
    /// Since when the packet at the head has been there.
    head_since: Time,
    queue: Fifo,
}

impl VlQueue {
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            credits: SendCredits::default(),
            used: 0,
            capacity,
            head_since: Time::ZERO,
            queue: Fifo::default(),
        }
    }

    /// Blocks that packets take, and how many there are. An empty queue takes any packet: the first may exceed the second.
    pub(crate) const fn used_of(&self) -> (u32, u32) {
        (self.used, self.capacity)
    }

    /// Whether a packet of `blocks` fits; an empty buffer takes any.
    #[inline]
    pub(crate) fn has_room(&self, blocks: u16) -> bool {
        self.used == 0 || self.used + u32::from(blocks) <= self.capacity
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    #[inline]
    pub(crate) fn head(&self) -> Option<&Packet> {
        self.queue.front()
    }

    /// Whether there is a packet and credits for it.
    #[inline]
    pub(crate) fn can_send(&self) -> bool {
        self.queue
            .front()
            .is_some_and(|packet| self.credits.allows(packet.blocks()))
    }

    /// Adds a packet; what it gives is where it lies.
    #[inline(always)]
    pub(crate) fn push(&mut self, now: Time, packet: Packet) -> &mut Packet {
        if self.queue.is_empty() {
            self.head_since = now;
        }
        self.used += u32::from(packet.blocks());
        self.queue.push_back(packet)
    }

    /// Takes the head out of the queue; its blocks stay taken until [`VlQueue::free`].
    #[inline]
    pub(crate) fn pop(&mut self, now: Time) -> Option<Packet> {
        let packet = self.queue.pop_front()?;
        self.head_since = now;
        Some(packet)
    }

    /// The same where only the payload is wanted.
    #[inline]
    pub(crate) fn pop_payload(&mut self, now: Time) -> Option<Payload> {
        let payload = self.queue.pop_payload()?;
        self.head_since = now;
        Some(payload)
    }

    /// Frees the blocks of a packet that was popped.
    #[inline]
    pub(crate) fn free(&mut self, blocks: u16) {
        self.used = self.used.saturating_sub(u32::from(blocks));
    }

    /// When the head is at its limit, if it may stay for `head_ns` at the head and for
    /// `device_ns` in the device.
    #[inline]
    pub(crate) fn expires_at(&self, head_ns: u64, device_ns: u64) -> Time {
        self.queue.front().map_or(Time::NEVER, |packet| {
            (self.head_since + head_ns).min(packet.entered + device_ns)
        })
    }

    /// Since when the head has been there.
    #[inline]
    pub(crate) fn head_since(&self) -> Time {
        self.head_since
    }

    pub(crate) fn release_memory(&mut self) {
        self.queue.release_memory();
    }

    /// Takes everything out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Packet> {
        self.used = 0;
        std::iter::from_fn(|| self.queue.pop_front())
    }

    /// All packets, in order.
    pub(crate) fn packets(&self) -> impl Iterator<Item = &Packet> {
        self.queue.iter()
    }
}
