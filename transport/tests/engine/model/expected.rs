//! What must come of requests.

use std::collections::VecDeque;

use rand::{Rng, RngExt};
use transport::{Remote, SendOperation, WorkKind};

/// What must come of a send request.
#[derive(Clone, Debug)]
pub(super) enum Expected {
    Nothing,
    Data { landing: usize, bytes: Vec<u8> },
}

/// What must come of a message at the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) bytes: Vec<u8>,
    pub(super) immediate: Option<u32>,
    pub(super) kind: WorkKind,
}

/// What a side has asked for.
#[derive(Default)]
pub(super) struct Model {
    pub(super) posted: u64,
    pub(super) done: u64,
    pub(super) under_way: VecDeque<(u64, WorkKind, Expected)>,
    /// Messages that the peer must receive, in order.
    pub(super) messages: VecDeque<Message>,
    /// The peer's memory that this side writes to.
    pub(super) target: Vec<u8>,
    pub(super) counter: u64,
    pub(super) receives_posted: u64,
    pub(super) receives_done: u64,
}

impl Model {
    /// A random atomic on the peer's counter.
    pub(super) fn atomic(&mut self, remote: Remote, rng: &mut impl Rng) -> SendOperation {
        let add = rng.next_u64();
        if rng.random_bool(0.5) {
            self.counter = self.counter.wrapping_add(add);
            return SendOperation::FetchAdd { remote, add };
        }
        let compare = self.counter ^ u64::from(rng.random_bool(0.3));
        if compare == self.counter {
            self.counter = add;
        }
        SendOperation::CompareSwap {
            remote,
            compare,
            swap: add,
        }
    }

    /// Notes the message that the peer must receive of an operation, if it gets one.
    pub(super) fn expect_message(&mut self, operation: SendOperation, bytes: Vec<u8>) {
        let (immediate, kind) = match operation {
            SendOperation::Send { immediate } => (immediate, WorkKind::Receive),
            SendOperation::Write {
                immediate: Some(immediate),
                ..
            } => (Some(immediate), WorkKind::ReceiveWrite),
            _ => return,
        };
        self.messages.push_back(Message {
            bytes,
            immediate,
            kind,
        });
    }
}
