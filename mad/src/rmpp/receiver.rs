//! The side that wants the records.

use link::Time;
use wire::Mad;
use wire::sa::{DATA_LEN, Rmpp, RmppKind, rmpp_flag};

use super::{CLASS_HEADER, PAYLOAD_MAX, WINDOW, abort, control, header};

/// What has become of a transfer with a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// More is to come.
    More,
    /// All records are there; an answer without RMPP is complete at once.
    Complete,
    /// The transfer has ended with this status of [`abort`].
    Failed(u8),
}

/// A transfer at its receiver. It keeps no timer of its own but the moment after which nothing is
/// awaited: the sender repeats what is lost.
#[derive(Debug)]
pub struct Receiver {
    /// The last segment that came in order.
    received: u32,
    window_last: u32,
    payload: Vec<u8>,
    /// Bytes of records, as the first segment states; 0: it does not say.
    stated: usize,
    patience_ns: u64,
    gives_up: Time,
    complete: bool,
}

impl Receiver {
    /// Waits for a transfer; without progress it is given up after `patience_ns`.
    #[must_use]
    pub fn new(now: Time, patience_ns: u64) -> Self {
        Self {
            received: 0,
            window_last: 1,
            payload: Vec::new(),
            stated: 0,
            patience_ns,
            gives_up: now + patience_ns,
            complete: false,
        }
    }

    /// When the transfer is given up unless something comes.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        (!self.complete).then_some(self.gives_up)
    }

    /// The records.
    #[must_use]
    pub fn into_payload(self) -> Vec<u8> {
        self.payload
    }

    /// Takes in a packet of the transfer: what has become of it, and the packet to send back.
    pub fn hear(&mut self, now: Time, mad: &Mad) -> (Heard, Option<Mad>) {
        let Some(rmpp) = header(mad) else {
            // One datagram without RMPP: an error, or a single record.
            self.payload = mad.sa_data().to_vec();
            self.complete = true;
            return (Heard::Complete, None);
        };
        if rmpp.version != Rmpp::VERSION {
            return refuse(mad, abort::BAD_VERSION);
        }
        match rmpp.kind {
            RmppKind::Data => self.segment(now, mad, &rmpp),
            RmppKind::Stop | RmppKind::Abort => (Heard::Failed(rmpp.status), None),
            RmppKind::Ack | RmppKind::None => refuse(mad, abort::BAD_TYPE),
        }
    }

    fn segment(&mut self, now: Time, mad: &Mad, rmpp: &Rmpp) -> (Heard, Option<Mad>) {
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
            true => Heard::Complete,
            false => Heard::More,
        };
        if self.complete || number != self.received + 1 {
            // Out of order or again: the sender learns from where to go on.
            return (status(self.complete), Some(self.acknowledge(mad)));
        }
        let stated = |len: u32| usize::try_from(len).unwrap_or(usize::MAX);
        let mut part = DATA_LEN;
        if last && (!first || rmpp.data2 > 0) {
            let len = rmpp.data2.checked_sub(CLASS_HEADER).map(stated);
            match len.filter(|&len| len <= DATA_LEN) {
                Some(len) => part = len,
                None => return refuse(mad, abort::INCONSISTENT_LAST),
            }
        } else if first {
            let segments = rmpp.data2.div_ceil(CLASS_HEADER + 200);
            self.stated = stated(rmpp.data2.saturating_sub(segments * CLASS_HEADER));
        }
        if self.payload.len() + part > PAYLOAD_MAX {
            let stop = control(
                mad,
                true,
                RmppKind::Stop,
                abort::RESOURCES_EXHAUSTED,
                (0, 0),
            );
            return (Heard::Failed(abort::RESOURCES_EXHAUSTED), Some(stop));
        }
        self.payload.extend_from_slice(&mad.sa_data()[..part]);
        if last && self.stated > 0 && self.payload.len() != self.stated {
            return refuse(mad, abort::INCONSISTENT_LAST);
        }
        self.received = number;
        self.gives_up = now + self.patience_ns;
        self.complete = last;
        if last || number == self.window_last {
            self.window_last = number.saturating_add(WINDOW);
            return (status(last), Some(self.acknowledge(mad)));
        }
        (Heard::More, None)
    }

    fn acknowledge(&self, mad: &Mad) -> Mad {
        let data = (self.received, self.window_last);
        control(mad, true, RmppKind::Ack, 0, data)
    }
}

fn refuse(mad: &Mad, status: u8) -> (Heard, Option<Mad>) {
    let packet = control(mad, true, RmppKind::Abort, status, (0, 0));
    (Heard::Failed(status), Some(packet))
}
