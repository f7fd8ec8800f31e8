//! RMPP: a transfer between a sender and a receiver over a path that loses, doubles, delays and
//! changes segments.

use std::collections::VecDeque;

use link::Time;
use mad::rmpp::{PAYLOAD_MAX, Progress, Receiver, Sender};
use mad::transaction::Timing;
use wire::sa::SaHeader;
use wire::{AttributeId, Mad, Method};

use crate::Parts;
use crate::fields::Fields;

/// Datagrams that wait in one direction at most; further ones are lost.
const WAITING_MAX: usize = 512;

/// What a path does to the next datagram of one direction.
#[derive(Clone, Copy)]
enum Deed {
    Deliver,
    Lose,
    Double,
    Last,
    Change,
    Foreign,
    Wait,
}

const DEEDS: [Deed; 12] = [
    Deed::Deliver,
    Deed::Deliver,
    Deed::Deliver,
    Deed::Deliver,
    Deed::Deliver,
    Deed::Deliver,
    Deed::Lose,
    Deed::Double,
    Deed::Last,
    Deed::Change,
    Deed::Foreign,
    Deed::Wait,
];

/// A transfer and what is under way.
struct Path {
    now: Time,
    sender: Sender,
    receiver: Receiver,
    received: Progress,
    to_receiver: VecDeque<Mad>,
    to_sender: VecDeque<Mad>,
    /// Whether a datagram was changed or made up.
    tampered: bool,
}

impl Path {
    fn push(queue: &mut VecDeque<Mad>, mad: Mad) {
        if queue.len() < WAITING_MAX {
            queue.push_back(mad);
        }
    }

    fn send(&mut self) {
        while let Some(mad) = self.sender.poll(self.now) {
            Self::push(&mut self.to_receiver, mad);
        }
    }

    fn receive(&mut self, mad: &Mad) {
        if self.received != Progress::Running && self.received != Progress::Done {
            return;
        }
        let (progress, answer) = self.receiver.receive(self.now, mad);
        self.received = progress;
        if let Some(answer) = answer {
            Self::push(&mut self.to_sender, answer);
        }
    }

    /// One step: the fields say in which direction, and what is done.
    fn step(&mut self, fields: &mut Fields<'_>) {
        let forward = fields.flag();
        let deed = fields.one_of(&DEEDS);
        let queue = match forward {
            true => &mut self.to_receiver,
            false => &mut self.to_sender,
        };
        let mut mads = Vec::new();
        match deed {
            Deed::Deliver => mads.extend(queue.pop_front()),
            Deed::Lose => drop(queue.pop_front()),
            Deed::Double => mads.extend(queue.front().copied()),
            Deed::Last => mads.extend(queue.pop_back()),
            Deed::Change => {
                if let Some(mut mad) = queue.pop_front() {
                    for _ in 0..=fields.byte() % 4 {
                        // From RMPP's header on most of the time.
                        let at = usize::from(fields.byte());
                        mad.as_bytes_mut()[at] ^= fields.byte();
                    }
                    self.tampered = true;
                    mads.push(mad);
                }
            }
            Deed::Foreign => {
                let mut bytes = [0; Mad::LEN];
                let made_up = fields.rest();
                let len = made_up.len().min(Mad::LEN);
                bytes[..len].copy_from_slice(&made_up[..len]);
                self.tampered = true;
                mads.push(Mad::from_bytes(bytes));
            }
            Deed::Wait => self.now = self.now + fields.nanoseconds(),
        }
        for mad in mads {
            match forward {
                true => self.receive(&mad),
                false => self.sender.receive(self.now, &mad),
            }
        }
        self.send();
    }
}

/// The first part says how much is sent, from which header; each other part is a step.
///
/// # Panics
/// If a transfer without interference arrives changed, the receiver holds more than
/// [`PAYLOAD_MAX`], or the sender does not end.
pub(crate) fn rmpp(bytes: &[u8]) {
    let mut parts = Parts::of(bytes);
    let mut head = Fields::of(parts.next().unwrap_or_default());
    let length = usize::from(head.two());
    let mut template = Mad::sa(Method::GET_TABLE_RESP, AttributeId::NODE_RECORD, 0, 7);
    template.set_sa_header(&SaHeader {
        attribute_offset: head.two(),
        ..SaHeader::default()
    });
    let payload: Vec<u8> = (0..=250).cycle().take(length).collect();
    let timing = Timing {
        timeout_ns: 1_000_000,
        attempts: head.byte() % 8 + 1,
    };
    let now = Time(1);
    let mut path = Path {
        now,
        sender: Sender::new(&template, payload.clone(), timing).expect("it is short"),
        receiver: Receiver::new(now, 50_000_000),
        received: Progress::Running,
        to_receiver: VecDeque::new(),
        to_sender: VecDeque::new(),
        tampered: false,
    };
    path.send();
    for part in parts {
        path.step(&mut Fields::of(part));
    }
    // No more answers: the sender gives up.
    for _ in 0..=u16::from(timing.attempts) {
        let Some(due) = path.sender.deadline() else {
            break;
        };
        path.now = path.now.max(due);
        path.to_receiver.clear();
        path.send();
    }
    assert_eq!(path.sender.deadline(), None, "the sender ends");
    let done = path.received == Progress::Done;
    let arrived = path.receiver.into_payload();
    assert!(arrived.len() <= PAYLOAD_MAX);
    if done && !path.tampered {
        assert_eq!(arrived, payload, "what arrives is what was sent");
    }
    if path.sender.progress() == Progress::Done && !path.tampered {
        assert!(done, "an acknowledged transfer has arrived");
    }
}
