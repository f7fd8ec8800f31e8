//! Links in shared memory: a ring each way ([`crate::ring`]) and a doorbell for each end.
//!
//! The memory of a cable is made by whoever starts the processes, without a name and of a fixed size, and its descriptors
//! are handed to both ends: no other process can have it. A frame is the records alone. What the peer has written is
//! copied before it is looked at. A ring that makes no sense takes the link down until there is another one: a process that
//! is started again gets new ones.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::{LinkCounter, LinkCounters, ReceiveBatch, SendBatch, Sent};
use crate::NetError;
use crate::poll::EventFd;
use crate::random;
use crate::ring::{RING_WORDS, Receiver, RingError, Sender};
use crate::shared_memory::SharedMemory;

/// Words of the memory of a cable: a ring each way.
const CABLE_WORDS: usize = 2 * RING_WORDS;

/// A cable in shared memory, to be handed to both its ends.
#[derive(Debug)]
pub struct Cable {
    number: u64,
    memory: OwnedFd,
    doorbells: [OwnedFd; 2],
}

impl Cable {
    /// A new one.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn create() -> Result<Self, NetError> {
        let create = || {
            let (_, memory) = SharedMemory::create("ibemu-cable", CABLE_WORDS)?;
            let doorbells = [
                EventFd::new()?.into_descriptor(),
                EventFd::new()?.into_descriptor(),
            ];
            io::Result::Ok((memory, doorbells))
        };
        let (memory, doorbells) =
            create().map_err(|source| NetError::new("make a cable in shared memory", source))?;
        Ok(Self {
            number: random::number()?,
            memory,
            doorbells,
        })
    }

    /// Which it is: a random number, another one for each.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The descriptors for the end `second`, or for the other one: as [`CableEnd::open`] takes them.
    #[must_use]
    pub fn descriptors(&self, second: bool) -> [BorrowedFd<'_>; 3] {
        let [first_doorbell, second_doorbell] = &self.doorbells;
        let (own, peer) = match second {
            false => (first_doorbell, second_doorbell),
            true => (second_doorbell, first_doorbell),
        };
        [&self.memory, own, peer].map(AsFd::as_fd)
    }
}

/// One end of a [`Cable`].
#[derive(Debug)]
pub struct CableEnd {
    send: Sender,
    receive: Receiver,
    /// Rung by the peer.
    own: EventFd,
    peer: EventFd,
}

impl CableEnd {
    /// Opens one end by its descriptors, the `second` or the first.
    ///
    /// # Errors
    /// If they are not those of a cable, or the system refuses.
    pub fn open(descriptors: Vec<OwnedFd>, second: bool) -> Result<Self, NetError> {
        let what = "open the end of a cable in shared memory";
        let Ok([memory, own, peer]) = <[OwnedFd; 3]>::try_from(descriptors) else {
            return Err(NetError::refused(what, "three descriptors come with it"));
        };
        let failed = |source| NetError::new(what, source);
        let memory = Arc::new(SharedMemory::open(memory, CABLE_WORDS).map_err(failed)?);
        let second = usize::from(second);
        Ok(Self {
            send: Sender::new(Arc::clone(&memory), second),
            receive: Receiver::new(memory, 1 - second),
            own: EventFd::of_another(own).map_err(failed)?,
            peer: EventFd::of_another(peer).map_err(failed)?,
        })
    }
}

/// One end of a cable in shared memory, once there is one.
#[derive(Debug, Default)]
pub(crate) struct ShmLink {
    end: Option<CableEnd>,
}

impl ShmLink {
    /// Where the peer rings.
    pub(super) fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        self.end.as_ref().map(|end| end.own.as_fd())
    }

    /// Takes another cable in place of the one before.
    pub(crate) fn attach(&mut self, end: CableEnd) {
        self.end = Some(end);
    }

    /// Whether frames wait.
    #[inline]
    pub(crate) fn has_more(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.receive.has_more())
    }

    /// Copies the next frame into `batch`; `None` if there is none, or the ring makes no sense, after which the link has no
    /// cable any more. Afterwards, once for many, [`Self::has_taken`].
    #[inline]
    pub(crate) fn take<'a>(
        &mut self,
        batch: &'a mut ReceiveBatch,
        counters: &LinkCounters,
    ) -> Option<&'a [u8]> {
        let end = self.end.as_mut()?;
        match end.receive.receive(batch.room()) {
            Ok(length) => {
                counters.add(LinkCounter::FramesReceived);
                Some(batch.in_room(length?))
            }
            Err(error) => {
                self.give_up(error, counters);
                None
            }
        }
    }

    /// Wakes the peer if it waits for the room that was made.
    pub(crate) fn has_taken(&self, counters: &LinkCounters) {
        if let Some(end) = &self.end
            && end.receive.must_ring()
        {
            ring(&end.peer, counters);
        }
    }

    /// Writes the frames of `batch` from the `first`th on, and wakes the peer if it sleeps.
    pub(super) fn send(
        &mut self,
        batch: &SendBatch,
        first: usize,
        counters: &LinkCounters,
    ) -> Sent {
        let mut next = first;
        while next < batch.len() {
            let Some(end) = &mut self.end else {
                counters.add_many(LinkCounter::SendFailed, batch.len() - next);
                return Sent::All;
            };
            match end.send.send(batch.frame(next)) {
                Ok(true) => next += 1,
                Ok(false) => break,
                Err(error) => self.give_up(error, counters),
            }
        }
        counters.add_many(LinkCounter::FramesSent, next - first);
        if let Some(end) = &self.end
            && end.send.must_ring()
        {
            ring(&end.peer, counters);
        }
        match next == batch.len() {
            true => Sent::All,
            false => Sent::UntilRoom(next),
        }
    }

    /// Whether a frame of so many bytes can be sent. Without a cable it can: it is dropped.
    pub(crate) fn has_room_for(&mut self, length: usize, counters: &LinkCounters) -> bool {
        match self.end.as_mut().map(|end| end.send.has_room_for(length)) {
            Some(Ok(has_room)) => has_room,
            Some(Err(error)) => {
                self.give_up(error, counters);
                true
            }
            None => true,
        }
    }

    /// Whether it has a cable that makes sense.
    pub(crate) fn is_attached(&self) -> bool {
        self.end.is_some()
    }

    /// Says that this side sleeps until there is more, and, if it `waits_for_room`, until there is room. A fence follows,
    /// and a look at both.
    pub(crate) fn arm(&self, waits_for_room: bool) {
        if let Some(end) = &self.end {
            end.receive.arm();
            if waits_for_room {
                end.send.arm();
            }
        }
    }

    /// Says that it does not sleep any more.
    pub(crate) fn disarm(&self, waits_for_room: bool) {
        if let Some(end) = &self.end {
            end.receive.disarm();
            if waits_for_room {
                end.send.disarm();
            }
        }
    }

    /// Gives memory back that a busy time has taken.
    pub(crate) fn review(&mut self) {
        if let Some(end) = &mut self.end {
            end.send.review();
        }
    }

    #[cold]
    fn give_up(&mut self, error: RingError, counters: &LinkCounters) {
        counters.add(LinkCounter::RingBroken);
        tracing::error!(
            "the peer has put into shared memory what makes no sense ({error}): the link is down until the cable is \
             pulled and plugged, or one of the devices restarted"
        );
        self.end = None;
    }
}

fn ring(doorbell: &EventFd, counters: &LinkCounters) {
    counters.add(LinkCounter::Doorbells);
    doorbell.signal();
}
