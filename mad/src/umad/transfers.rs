//! Transfers by RMPP that the server handles for agents.

use link::Time;
use wire::mad::{Mad, MgmtClass};
use wire::sa::RmppKind;
use wire::umad::UserMadHeader;

use super::agents::is_response;
use super::data::message;
use super::{Descriptor, Output, Outstanding, Server, TRANSFER_BYTES_MAX, TRANSFERS_MAX};
use crate::local::MadMessage;
use crate::rmpp::{self, Progress, Receiver, Sender};
use crate::transaction::Timing;

/// How long a segment waits for its acknowledgement at most.
const SEGMENT_TIMEOUT_NS: u64 = 500_000_000;
/// How often a segment is sent at least.
const SEGMENT_ATTEMPTS: u8 = 4;
/// How long a receiver waits for the next segment: longer than a sender repeats one.
const PROGRESS_TIMEOUT_NS: u64 = 4_000_000_000;
/// How long a complete transfer goes on acknowledging segments that come again.
const LINGER_NS: u64 = 2_000_000_000;

/// Which transfer a packet is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TransferKey {
    lid: u16,
    class: u8,
    /// The method of its data.
    method: u8,
    tid: u64,
}

impl TransferKey {
    /// The transfer of which `mad` is a data segment.
    fn of_data(lid: u16, mad: &Mad) -> Self {
        Self {
            lid,
            class: mad.class().0,
            method: mad.method().0,
            tid: mad.tid(),
        }
    }

    /// The transfer that `mad`, from its receiver, controls.
    fn of_control(lid: u16, mad: &Mad) -> Self {
        Self {
            method: mad.method().0 ^ 0x80,
            ..Self::of_data(lid, mad)
        }
    }
}

/// A transfer to the fabric.
#[derive(Debug)]
pub(super) struct Outgoing {
    header: UserMadHeader,
    /// The transaction id that the program gave it.
    tid: u64,
    first: Box<Mad>,
    sender: Sender,
    bytes: usize,
}

impl Outgoing {
    /// A transfer of `payload` in datagrams like `mad`; `None` if it is too long.
    pub(super) fn new(
        header: UserMadHeader,
        tid: u64,
        mad: &Mad,
        payload: Vec<u8>,
    ) -> Option<(TransferKey, Self)> {
        let asked = super::data::timing(&header);
        let timing = Timing {
            timeout_ns: match asked.timeout_ns {
                0 => SEGMENT_TIMEOUT_NS,
                timeout_ns => timeout_ns.min(SEGMENT_TIMEOUT_NS),
            },
            attempts: asked.attempts.max(SEGMENT_ATTEMPTS),
        };
        let bytes = payload.len();
        let transfer = Self {
            header,
            tid,
            first: Box::new(*mad),
            sender: Sender::new(mad, payload, timing)?,
            bytes,
        };
        Some((TransferKey::of_data(header.lid, mad), transfer))
    }

    pub(super) fn agent(&self) -> u32 {
        self.header.agent
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.sender.deadline()
    }
}

/// A transfer from the fabric.
#[derive(Debug)]
pub(super) struct Incoming {
    agent: u32,
    receiver: Receiver,
    /// Its first segment.
    first: Box<Mad>,
    /// The header that the program reads: where the transfer comes from.
    header: UserMadHeader,
    /// The request that it answers.
    request: Option<Outstanding>,
    /// Until when a complete transfer acknowledges what comes again.
    lingers_until: Option<Time>,
    deadline: Time,
}

impl Incoming {
    pub(super) fn agent(&self) -> u32 {
        self.agent
    }

    pub(super) fn deadline(&self) -> Time {
        self.deadline
    }
}

impl Descriptor {
    /// Whether one more transfer of so many bytes can be sent.
    pub(super) fn has_room_for(&self, bytes: usize) -> bool {
        self.outgoing.len() < TRANSFERS_MAX
            && self.outgoing_bytes.saturating_add(bytes) <= TRANSFER_BYTES_MAX
    }

    /// Forgets the oldest of the complete transfers from the fabric if there are as many as may be.
    fn make_room(&mut self) {
        if self.incoming.len() < TRANSFERS_MAX {
            return;
        }
        let complete = self.incoming.iter();
        let complete = complete.filter_map(|(&key, it)| Some((it.lingers_until?, key)));
        if let Some((_, oldest)) = complete.min() {
            self.incoming.remove(&oldest);
        }
    }
}

impl Server {
    /// Does what is due in the transfers of a descriptor.
    pub(super) fn poll_transfers(&mut self, now: Time, descriptor: u32) {
        let Some(open) = self.descriptors.get_mut(&descriptor) else {
            return;
        };
        let outgoing = open.outgoing.iter();
        let due: Vec<TransferKey> = outgoing
            .filter(|(_, transfer)| transfer.deadline().is_some_and(|at| at <= now))
            .map(|(&key, _)| key)
            .collect();
        for key in due {
            self.poll_transfer(now, descriptor, key);
        }
        let Some(open) = self.descriptors.get_mut(&descriptor) else {
            return;
        };
        let late = |_: &TransferKey, transfer: &mut Incoming| transfer.deadline <= now;
        let late: Vec<Incoming> = open
            .incoming
            .extract_if(.., late)
            .map(|(_, it)| it)
            .collect();
        for transfer in late {
            if transfer.lingers_until.is_none() {
                let abort = Receiver::abort_late(&transfer.first);
                let message = message(&transfer.header, false, &abort);
                let client = descriptor;
                self.outputs.push_back(Output::Agent { client, message });
                self.end_incoming(descriptor, transfer);
            }
        }
    }

    /// Sends the packets of a transfer that may be sent now, and ends one that is done.
    pub(super) fn poll_transfer(&mut self, now: Time, descriptor: u32, key: TransferKey) {
        let Some(open) = self.descriptors.get_mut(&descriptor) else {
            return;
        };
        let Some(transfer) = open.outgoing.get_mut(&key) else {
            return;
        };
        while let Some(packet) = transfer.sender.poll(now) {
            let message = message(&transfer.header, false, &packet);
            let client = descriptor;
            self.outputs.push_back(Output::Agent { client, message });
        }
        let progress = transfer.sender.progress();
        if progress == Progress::Running {
            return;
        }
        let Some(done) = open.outgoing.remove(&key) else {
            return;
        };
        open.outgoing_bytes -= done.bytes;
        if let Progress::Failed(_) = progress {
            self.counts.transfers_failed += 1;
        }
        let awaits_answer = !is_response(done.first.method()) && done.header.timeout_ms > 0;
        if awaits_answer {
            let request = Outstanding {
                header: done.header,
                mad: done.first,
                tid: done.tid,
            };
            match progress {
                Progress::Done => self.await_answer(now, descriptor, request),
                _ => self.timed_out(descriptor, request),
            }
        }
    }

    /// A packet of RMPP for an agent that leaves it to the server.
    pub(super) fn received_rmpp(
        &mut self,
        now: Time,
        descriptor: u32,
        agent: u32,
        from: &MadMessage,
        mad: &Mad,
    ) {
        let lid = from.lid.get();
        match rmpp::header(mad).map(|rmpp| rmpp.kind) {
            Some(RmppKind::Data) => self.received_segment(now, descriptor, agent, from, mad),
            Some(RmppKind::Stop | RmppKind::Abort) if self.is_incoming(descriptor, lid, mad) => {
                self.received_segment(now, descriptor, agent, from, mad);
            }
            _ => self.received_control(now, descriptor, lid, mad),
        }
    }

    fn is_incoming(&self, descriptor: u32, lid: u16, mad: &Mad) -> bool {
        let open = self.descriptors.get(&descriptor);
        let key = TransferKey::of_data(lid, mad);
        open.is_some_and(|open| open.incoming.contains_key(&key))
    }

    fn received_control(&mut self, now: Time, descriptor: u32, lid: u16, mad: &Mad) {
        let key = TransferKey::of_control(lid, mad);
        let open = self.descriptors.get_mut(&descriptor);
        let Some(transfer) = open.and_then(|open| open.outgoing.get_mut(&key)) else {
            self.counts.stray_control += 1;
            return;
        };
        transfer.sender.receive(now, mad);
        self.poll_transfer(now, descriptor, key);
    }

    fn received_segment(
        &mut self,
        now: Time,
        descriptor: u32,
        agent: u32,
        from: &MadMessage,
        mad: &Mad,
    ) {
        let key = TransferKey::of_data(from.lid.get(), mad);
        let Some(open) = self.descriptors.get_mut(&descriptor) else {
            return;
        };
        let known = open.incoming.contains_key(&key);
        if !known {
            open.make_room();
            if open.incoming.len() >= TRANSFERS_MAX {
                // The request that it answers goes on waiting.
                self.counts.unexpected += 1;
                return;
            }
            let request = match is_response(mad.method()) {
                true => open.in_flight.finish(mad.tid()),
                false => None,
            };
            let is_asked = request.is_some() || !is_response(mad.method());
            if !is_asked {
                self.counts.unexpected += 1;
                return;
            }
            let transfer = Incoming {
                agent,
                receiver: Receiver::new(now, PROGRESS_TIMEOUT_NS),
                first: Box::new(*mad),
                header: super::deliver::header_of(agent, from),
                request,
                lingers_until: None,
                deadline: now + PROGRESS_TIMEOUT_NS,
            };
            open.incoming.insert(key, transfer);
        }
        let Some(transfer) = open.incoming.get_mut(&key) else {
            return;
        };
        let (progress, back) = transfer.receiver.receive(now, mad);
        transfer.deadline = transfer
            .lingers_until
            .unwrap_or(transfer.receiver.deadline().unwrap_or(now + LINGER_NS));
        if let Some(back) = back {
            let message = message(&transfer.header, false, &back);
            let client = descriptor;
            self.outputs.push_back(Output::Agent { client, message });
        }
        match progress {
            Progress::Running => {}
            Progress::Done => self.complete(now, descriptor, key),
            Progress::Failed(_) => {
                if let Some(transfer) = open.incoming.remove(&key) {
                    self.end_incoming(descriptor, transfer);
                }
            }
        }
        self.start_waiting(now, descriptor);
    }

    /// Gives a program a transfer that is complete; once.
    fn complete(&mut self, now: Time, descriptor: u32, key: TransferKey) {
        let open = self.descriptors.get_mut(&descriptor);
        let Some(transfer) = open.and_then(|open| open.incoming.get_mut(&key)) else {
            return;
        };
        if transfer.lingers_until.is_some() {
            return;
        }
        transfer.lingers_until = Some(now + LINGER_NS);
        transfer.deadline = now + LINGER_NS;
        let mut first = *transfer.first;
        if let Some(request) = transfer.request.take() {
            first.set_tid(request.tid);
        }
        let at = rmpp::data_offset(MgmtClass(key.class)).unwrap_or(Mad::LEN);
        let mut whole = first.as_bytes()[..at].to_vec();
        whole.append(&mut transfer.receiver.take_payload());
        let header = transfer.header;
        self.queue(descriptor, &header, &whole);
    }

    /// A transfer has ended before it was complete.
    fn end_incoming(&mut self, descriptor: u32, transfer: Incoming) {
        if transfer.lingers_until.is_some() {
            return;
        }
        self.counts.transfers_failed += 1;
        if let Some(request) = transfer.request {
            self.timed_out(descriptor, request);
        }
    }
}
