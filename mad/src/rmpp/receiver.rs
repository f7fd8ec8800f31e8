//! The receiving side of a transfer.

use link::Time;
use wire::Mad;
use wire::convert::usize_of;
use wire::sa::{Rmpp, RmppKind, rmpp_flag};

use super::{Layout, PAYLOAD_MAX, Progress, WINDOW, abort, control, header};

/// A transfer at its receiver. Its only timer is the one after which the transfer has failed: the
/// sender repeats what is lost.
#[derive(Debug)]
pub struct Receiver {
    /// The last segment that came in order.
    received: u32,
    window_last: u32,
    payload: Vec<u8>,
    /// Bytes of records, as the first segment states; 0: unknown.
    stated_len: usize,
    progress_timeout_ns: u64,
    deadline: Time,
    complete: bool,
}

impl Receiver {
    /// Waits for a transfer; it fails after `progress_timeout_ns` without progress.
    #[must_use]
    pub fn new(now: Time, progress_timeout_ns: u64) -> Self {
        Self {
            received: 0,
            window_last: 1,
            payload: Vec::new(),
            stated_len: 0,
            progress_timeout_ns,
            deadline: now + progress_timeout_ns,
            complete: false,
        }
    }

    /// When the transfer fails unless a segment arrives.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        (!self.complete).then_some(self.deadline)
    }

    /// The records.
    #[must_use]
    pub fn into_payload(self) -> Vec<u8> {
        self.payload
    }

    /// Takes the records out of a complete transfer, which goes on acknowledging what comes again.
    #[must_use]
    pub fn take_payload(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.payload)
    }

    /// The packet that ends a transfer which has taken too long; `mad` is one of its segments.
    #[must_use]
    pub fn abort_late(mad: &Mad) -> Mad {
        control(mad, true, RmppKind::Abort, abort::TOO_LONG, (0, 0))
    }

    /// Handles a packet of the transfer; returns the transfer's progress and the packet to send
    /// back. A peer that has not begun a transfer is sent none: it may not support RMPP, and would take such a
    /// packet for a request.
    pub fn receive(&mut self, now: Time, mad: &Mad) -> (Progress, Option<Mad>) {
        let Some(rmpp) = header(mad) else {
            // A datagram without RMPP is a whole transfer: an error, or a single record.
            self.payload = Layout::of(mad.class()).data(mad).to_vec();
            self.complete = true;
            return (Progress::Done, None);
        };
        let first = rmpp_flag::ACTIVE | rmpp_flag::FIRST;
        let begins = rmpp.kind == RmppKind::Data && rmpp.flags & first == first;
        if self.received == 0 && !begins {
            let status = match rmpp.kind {
                RmppKind::Data => abort::INCONSISTENT_FIRST,
                RmppKind::Stop | RmppKind::Abort => rmpp.status,
                RmppKind::Ack | RmppKind::None => abort::BAD_TYPE,
            };
            return (Progress::Failed(status), None);
        }
        if rmpp.version != Rmpp::VERSION {
            return refuse(mad, abort::BAD_VERSION);
        }
        match rmpp.kind {
            RmppKind::Data => self.segment(now, mad, &rmpp),
            RmppKind::Stop | RmppKind::Abort => (Progress::Failed(rmpp.status), None),
            RmppKind::Ack | RmppKind::None => refuse(mad, abort::BAD_TYPE),
        }
    }

    fn segment(&mut self, now: Time, mad: &Mad, rmpp: &Rmpp) -> (Progress, Option<Mad>) {
        let number = rmpp.data1;
        let first = rmpp.flags & rmpp_flag::FIRST != 0;
        let last = rmpp.flags & rmpp_flag::LAST != 0;
        if first != (number == 1) {
            return refuse(mad, abort::INCONSISTENT_FIRST);
        }
        if number > self.window_last {
            return refuse(mad, abort::SEGMENT_TOO_BIG);
        }
        let status = |complete| match complete {
            true => Progress::Done,
            false => Progress::Running,
        };
        if self.complete || number != self.received + 1 {
            // Out of order or again: the sender learns from where to go on.
            return (status(self.complete), Some(self.acknowledge(mad)));
        }
        let layout = Layout::of(mad.class());
        let mut part = layout.data_len();
        if last && (!first || rmpp.data2 > 0) {
            let len = rmpp.data2.checked_sub(layout.class_header());
            match len.map(usize_of).filter(|&len| len <= layout.data_len()) {
                Some(len) => part = len,
                None => return refuse(mad, abort::INCONSISTENT_LAST),
            }
        } else if first {
            self.stated_len = layout.records_of(rmpp.data2);
        }
        if self.payload.len() + part > PAYLOAD_MAX {
            let stop = control(
                mad,
                true,
                RmppKind::Stop,
                abort::RESOURCES_EXHAUSTED,
                (0, 0),
            );
            return (Progress::Failed(abort::RESOURCES_EXHAUSTED), Some(stop));
        }
        self.payload.extend_from_slice(&layout.data(mad)[..part]);
        if last && self.stated_len > 0 && self.payload.len() != self.stated_len {
            return refuse(mad, abort::INCONSISTENT_LAST);
        }
        self.received = number;
        self.deadline = now + self.progress_timeout_ns;
        self.complete = last;
        if last || number == self.window_last {
            self.window_last = number.saturating_add(WINDOW);
            return (status(last), Some(self.acknowledge(mad)));
        }
        (Progress::Running, None)
    }

    fn acknowledge(&self, mad: &Mad) -> Mad {
        let data = (self.received, self.window_last);
        control(mad, true, RmppKind::Ack, 0, data)
    }
}

fn refuse(mad: &Mad, status: u8) -> (Progress, Option<Mad>) {
    let packet = control(mad, true, RmppKind::Abort, status, (0, 0));
    (Progress::Failed(status), Some(packet))
}
