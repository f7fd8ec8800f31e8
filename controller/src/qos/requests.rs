//! Requests for connections on their way through the manager.
//!
//! ```text
//!   add --> waiting --next--> served --respond--> response --take--> sent, kept for repetitions
//!                             (by Qos)             until the tables are written
//! ```
//!
//! A request is known by its sender and transaction id: one that is repeated because its response
//! was late makes no second connection.

use std::collections::VecDeque;

use link::Time;
use wire::{Lid, Mad};

/// Requests that wait for their turn at most.
const WAITING_MAX: usize = 64;
/// Responses that are kept in case the request is repeated.
const SENT_MAX: usize = 64;
/// How long they are kept, nanoseconds.
const SENT_NS: u64 = 5_000_000_000;

/// A request or response, and the LID of the requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Datagram {
    /// LID of the requester.
    pub(super) lid: Lid,
    /// The datagram.
    pub(super) mad: Mad,
}

/// The outcome of adding a request.
#[expect(
    clippy::large_enum_variant,
    reason = "returned and matched at once, never stored"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// It waits, perhaps since an earlier copy of it.
    Waiting,
    /// It was answered before.
    Repeated(Mad),
    /// Too many wait.
    Full,
}

/// The requests that wait, and the responses to them.
#[derive(Debug, Default)]
pub(super) struct Requests {
    waiting: VecDeque<Datagram>,
    /// Responses that wait until the tables are written.
    responses: Vec<Datagram>,
    sent: VecDeque<(Time, Datagram)>,
}

impl Requests {
    /// Takes in a request.
    pub(super) fn add(&mut self, now: Time, lid: Lid, mad: &Mad) -> Added {
        self.sent.retain(|(at, _)| now.since_ns(*at) < SENT_NS);
        let same = |other: &Datagram| other.lid == lid && other.mad.tid() == mad.tid();
        if let Some((_, response)) = self.sent.iter().find(|(_, response)| same(response)) {
            return Added::Repeated(response.mad);
        }
        if self.waiting.iter().chain(&self.responses).any(same) {
            return Added::Waiting;
        }
        if self.waiting.len() >= WAITING_MAX {
            return Added::Full;
        }
        self.waiting.push_back(Datagram { lid, mad: *mad });
        Added::Waiting
    }

    /// The next request, oldest first.
    pub(super) fn next(&mut self) -> Option<Datagram> {
        self.waiting.pop_front()
    }

    /// Keeps a response until [`Self::take_responses`].
    pub(super) fn respond(&mut self, response: Datagram) {
        self.responses.push(response);
    }

    /// The tables are written: the responses to send. `update` may correct each first.
    pub(super) fn take_responses(&mut self, now: Time, update: impl Fn(&mut Mad)) -> Vec<Datagram> {
        let mut responses = core::mem::take(&mut self.responses);
        for response in &mut responses {
            update(&mut response.mad);
            if self.sent.len() == SENT_MAX {
                self.sent.pop_front();
            }
            self.sent.push_back((now, *response));
        }
        responses
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Method;
    use wire::vendor::QosConnection;

    const NOW: Time = Time(1);

    fn request(tid: u64) -> Mad {
        Mad::vendor(Method::SET, 0, tid, &QosConnection::default())
    }

    fn lid(lid: u16) -> Lid {
        Lid::new(lid)
    }

    #[test]
    fn a_repeated_request_is_served_once_and_answered_alike() {
        let mut requests = Requests::default();
        assert_eq!(requests.add(NOW, lid(7), &request(1)), Added::Waiting);
        assert_eq!(requests.add(NOW, lid(7), &request(1)), Added::Waiting);
        let served = requests.next().expect("it waits");
        assert_eq!(requests.next(), None, "the repetition is no second request");
        requests.respond(served);
        assert_eq!(requests.add(NOW, lid(7), &request(1)), Added::Waiting);
        assert_eq!(requests.next(), None);
        let sent = requests.take_responses(NOW, |mad| mad.set_method(Method::GET_RESP));
        assert_eq!(sent.len(), 1);
        assert_eq!(
            requests.add(NOW, lid(7), &request(1)),
            Added::Repeated(sent[0].mad)
        );
        // Another host may use the same transaction id, and after a while so may this one.
        assert_eq!(requests.add(NOW, lid(8), &request(1)), Added::Waiting);
        let later = NOW + SENT_NS;
        assert_eq!(requests.add(later, lid(7), &request(1)), Added::Waiting);
    }

    #[test]
    fn a_bounded_number_of_requests_waits() {
        let mut requests = Requests::default();
        for tid in 0..64 {
            assert_eq!(requests.add(NOW, lid(7), &request(tid)), Added::Waiting);
        }
        assert_eq!(requests.add(NOW, lid(7), &request(64)), Added::Full);
        requests.next();
        assert_eq!(requests.add(NOW, lid(7), &request(64)), Added::Waiting);
    }
}
