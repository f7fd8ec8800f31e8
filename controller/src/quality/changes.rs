//! What has become of connections that stood, for those who send on them: told until it is
//! answered, or given up.

use std::collections::VecDeque;

use link::Time;
use mad::local::MadMessage;
use mad::transaction::{Due, Timing, Transactions};
use wire::vendor::{QosChange, QosConnection};
use wire::{Lid, Mad, Method, Qpn};

use crate::smp::message;

/// Changes that wait for their answer at most, and that wait to be sent; further ones are not told.
const CHANGES_MAX: usize = 4096;
/// How long an answer may take, and how often a change is told.
const TIMING: Timing = Timing {
    timeout_ns: 500_000_000,
    attempts: 10,
};
/// Upper half of their transaction ids.
const CHANGE_TIDS: u64 = 0x5143_0000_0000_0000;

/// The changes that wait, and those under way.
#[derive(Debug)]
pub(super) struct Changes {
    waiting: VecDeque<(Lid, QosConnection)>,
    told: Transactions<MadMessage>,
    last_tid: u64,
}

impl Default for Changes {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            told: Transactions::new(CHANGES_MAX),
            last_tid: CHANGE_TIDS,
        }
    }
}

impl Changes {
    /// Keeps a change for the host at that LID until [`Self::tell`].
    pub(super) fn add(&mut self, to: Lid, change: QosConnection) {
        if self.waiting.len() < CHANGES_MAX {
            self.waiting.push_back((to, change));
        }
    }

    /// The tables are as the changes say: what is to be sent now.
    pub(super) fn tell(&mut self, now: Time) -> Vec<MadMessage> {
        let mut out = Vec::new();
        while self.told.room() > 0
            && let Some((to, change)) = self.waiting.pop_front()
        {
            self.last_tid = CHANGE_TIDS | (self.last_tid.wrapping_add(1) & 0xffff_ffff);
            let mad = Mad::vendor(Method::SET, 0, self.last_tid, &QosChange(change));
            let letter = message(to, Qpn::GSI, &mad);
            if self
                .told
                .start(now, self.last_tid, TIMING, letter.clone())
                .is_ok()
            {
                out.push(letter);
            }
        }
        out
    }

    /// A host has answered.
    pub(super) fn answered(&mut self, tid: u64) {
        self.told.finish(tid);
    }

    /// What is to be sent again at `now`.
    pub(super) fn poll(&mut self, now: Time) -> Vec<MadMessage> {
        let mut out = Vec::new();
        while let Some(due) = self.told.poll(now) {
            if let Due::Again { request, .. } = due {
                out.push(request.clone());
            }
        }
        out
    }

    /// When something is due.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.told.deadline()
    }
}
