//! Completion queues (IBA 11.2.8, 11.4.2).

use std::collections::VecDeque;

use wire::{Lid, Qpn, Sl};

use crate::status::{Status, WorkKind};

/// The end of a work request. Of one that failed, only `wr_id`, `status` and `qpn` have a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The consumer's name of the request.
    pub wr_id: u64,
    /// How it ended.
    pub status: Status,
    /// The kind of work.
    pub kind: WorkKind,
    /// Bytes received, or read by READs and atomics. Of a datagram with the 40 bytes of the global route
    /// header.
    pub byte_len: u32,
    /// The queue pair that it was asked of.
    pub qpn: Qpn,
    /// Immediate data of the peer.
    pub immediate: Option<u32>,
    /// The remote key that the peer's SEND invalidated.
    pub invalidated: Option<u32>,
    /// Of a received datagram.
    pub datagram: Option<DatagramInfo>,
}

/// Where a datagram comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramInfo {
    /// The queue pair that sent it.
    pub src_qp: Qpn,
    /// The LID that it comes from.
    pub slid: Lid,
    /// Service level.
    pub sl: Sl,
    /// The low bits of the LID that it was sent to, beyond the port's base LID; 0 of a multicast datagram.
    pub dlid_path_bits: u8,
    /// Whether the first 40 bytes hold a global route header.
    pub has_grh: bool,
    /// The index of its partition in the port's table.
    pub pkey_index: u16,
}

/// For which completion a queue tells the consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Arming {
    /// The next one of a solicited message, or of a request that failed.
    Solicited,
    /// The next one.
    Next,
}

/// Completions that a new queue has memory for; more is allocated when they come.
const AT_ONCE: usize = 1024;

/// A completion queue.
#[derive(Debug)]
pub(crate) struct CompletionQueue {
    completions: VecDeque<Completion>,
    depth: usize,
    armed: Option<Arming>,
    overrun: bool,
    /// Whether it is in the list of those that have got completions.
    pub(crate) listed: bool,
    /// Queue pairs that complete here: once for each of their two queues.
    pub(crate) users: u32,
}

/// The outcome of adding a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queued {
    /// It waits for the consumer.
    Quietly,
    /// It does, and the consumer is to be told.
    WithEvent,
    /// The queue was full: from now on it takes nothing.
    Overrun,
    /// The queue had been full before.
    Lost,
}

impl CompletionQueue {
    pub(crate) fn new(depth: u32) -> Self {
        let depth = depth as usize;
        Self {
            completions: VecDeque::with_capacity(depth.min(AT_ONCE)),
            depth,
            armed: None,
            overrun: false,
            listed: false,
            users: 0,
        }
    }

    pub(crate) fn push(&mut self, completion: Completion, solicited: bool) -> Queued {
        if self.overrun {
            return Queued::Lost;
        }
        if self.completions.len() >= self.depth {
            self.overrun = true;
            return Queued::Overrun;
        }
        let solicited = solicited || completion.status != Status::Success;
        self.completions.push_back(completion);
        match self.armed {
            Some(Arming::Next) => {}
            Some(Arming::Solicited) if solicited => {}
            _ => return Queued::Quietly,
        }
        self.armed = None;
        Queued::WithEvent
    }

    pub(crate) fn pop(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// Arms the queue. A request for any completion is not weakened by one for solicited ones.
    pub(crate) fn arm(&mut self, arming: Arming) {
        self.armed = self.armed.max(Some(arming));
    }

    /// Forgets the completions of a queue pair that is reset or destroyed.
    pub(crate) fn forget(&mut self, qpn: Qpn) {
        self.completions.retain(|completion| completion.qpn != qpn);
    }

    /// Changes how many completions it holds; `false` if more wait already.
    pub(crate) fn resize(&mut self, depth: u32) -> bool {
        let depth = depth as usize;
        if depth < self.completions.len() {
            return false;
        }
        self.depth = depth;
        true
    }
}
