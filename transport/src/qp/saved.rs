//! READs and atomics of the peer, kept until so many newer ones have come: what is still to be answered, and
//! what a repeated request is answered from (IBA 9.4.5, 9.7.5.1.5).

use wire::Psn;

use crate::memory::Remote;
use crate::ring::Ring;

/// A READ or an atomic.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Saved {
    /// The number of its request, and of the first packet of its answer.
    pub(crate) psn: Psn,
    /// Packets of its answer.
    pub(crate) packets: u32,
    /// The message sequence number of its answer.
    pub(crate) msn: u32,
    pub(crate) kind: SavedKind,
    /// The part of the answer that is still to be sent.
    pub(crate) pending: Option<Pending>,
    /// The last packet of the answer has been sent before.
    pub(crate) was_sent: bool,
}

/// What is still to be sent of an answer, as packets of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    /// The packet that the latest request began with.
    pub(crate) first: u32,
    pub(crate) next: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum SavedKind {
    Read { remote: Remote, len: u32 },
    Atomic { original: u64 },
}

impl Default for SavedKind {
    fn default() -> Self {
        Self::Atomic { original: 0 }
    }
}

/// The kept ones, oldest first.
#[derive(Debug)]
pub(crate) struct SavedRequests {
    ring: Ring<Saved>,
}

impl SavedRequests {
    pub(crate) fn new(count: u8) -> Self {
        Self {
            ring: Ring::new(u32::from(count)),
        }
    }

    /// Keeps so many from now on; the newest stay.
    pub(crate) fn resize(&mut self, count: u8) {
        let mut ring: Ring<Saved> = Ring::new(u32::from(count));
        let kept = self.ring.len().min(usize::from(count));
        for index in self.ring.len() - kept..self.ring.len() {
            if let (Some(slot), Some(saved)) = (ring.push(), self.ring.get(index)) {
                *slot = *saved;
            }
        }
        self.ring = ring;
    }

    pub(crate) fn clear(&mut self) {
        self.ring.clear();
    }

    /// Whether one more can be kept: not if the oldest has not been answered yet. One whose answer is only to be sent again gives way: the
    /// peer has had it, if late, as it would ask for no more otherwise.
    pub(crate) fn has_room(&self) -> bool {
        !self.ring.is_full()
            || self
                .ring
                .get(0)
                .is_some_and(|oldest| oldest.pending.is_none() || oldest.was_sent)
    }

    /// Keeps a request that is to be answered; [`Self::has_room`] must hold.
    pub(crate) fn push(&mut self, saved: Saved) {
        if self.ring.is_full() {
            self.ring.pop();
        }
        if let Some(slot) = self.ring.push() {
            *slot = saved;
        }
    }

    /// The oldest that is still to be answered.
    pub(crate) fn pending_mut(&mut self) -> Option<&mut Saved> {
        let index = (0..self.ring.len()).find(|&index| {
            self.ring
                .get(index)
                .is_some_and(|saved| saved.pending.is_some())
        })?;
        self.ring.get_mut(index)
    }

    pub(crate) fn has_pending(&self) -> bool {
        (0..self.ring.len()).any(|index| {
            self.ring
                .get(index)
                .is_some_and(|saved| saved.pending.is_some())
        })
    }

    /// The request whose answer has the packet of this number.
    pub(crate) fn find_mut(&mut self, psn: Psn) -> Option<&mut Saved> {
        let index = (0..self.ring.len()).find(|&index| {
            self.ring
                .get(index)
                .is_some_and(|saved| psn.since(saved.psn) < saved.packets)
        })?;
        self.ring.get_mut(index)
    }

    /// Has an answer sent again from its packet `from` on, unless that will be sent anyway.
    pub(crate) fn repeat(saved: &mut Saved, from: u32) {
        if saved.pending.is_none_or(|pending| pending.next > from) {
            saved.pending = Some(Pending {
                first: from,
                next: from,
            });
        }
    }

    /// Forgets what is still to be sent.
    pub(crate) fn abandon(&mut self) {
        while let Some(saved) = self.pending_mut() {
            saved.pending = None;
        }
    }
}
