//! The responder of a connection: which packets it takes, what it does with them, how it answers
//! (IBA 9.7.4, 9.7.5, 9.8).

mod answer;
mod execute;

use wire::{NakCode, Operation, Psn, Syndrome};

use super::saved::{Saved, SavedKind, SavedRequests};
use super::{Context, Incoming, QueuePair};
use crate::event::QpEvent;
use crate::memory::Remote;
use crate::shared::{PacketDrop, Shared};
use crate::stage::{ReadAhead, WriteBehind};
use crate::status::{Status, WorkKind};
use crate::work::ReceiveWork;

/// The message of which packets are coming in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    None,
    Send,
    Write { remote: Remote, len: u32 },
}

/// The acknowledgement that is due to the requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    /// Everything before the expected packet has come.
    Ack,
    /// This packet is refused, or not taken now.
    Refusal { psn: Psn, syndrome: Syndrome },
}

/// Why a packet is not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// No receive request waits.
    NoReceive,
    /// It is the requester's fault.
    Refused(NakCode),
    /// It is the fault of the receive request, which ends with the status.
    Local(Status, NakCode),
}

/// The state of a connection about its peer's requests.
#[derive(Debug)]
pub(crate) struct Responder {
    expected: Psn,
    /// Messages that are done, modulo 2^24.
    msn: u32,
    message: Message,
    /// Bytes of the message that have come.
    received: u64,
    /// The receive request of the message, if `holds`.
    pub(crate) taken: ReceiveWork,
    holds: bool,
    /// Of the message.
    behind: WriteBehind,
    saved: SavedRequests,
    saved_max: u8,
    /// Of the READ that is being answered.
    ahead: ReadAhead,
    reply: Option<Reply>,
    /// Whether the requester has been told that it must go back: what comes until then is dropped.
    lost: bool,
}

impl Responder {
    pub(crate) fn new() -> Self {
        Self {
            expected: Psn::default(),
            msn: 0,
            message: Message::None,
            received: 0,
            taken: ReceiveWork::default(),
            holds: false,
            behind: WriteBehind::default(),
            saved: SavedRequests::new(0),
            saved_max: 0,
            ahead: ReadAhead::default(),
            reply: None,
            lost: false,
        }
    }

    pub(crate) fn connect(&mut self, expected: Psn, saved_max: u8) {
        self.expected = expected;
        self.resize(saved_max);
    }

    /// Keeps so many READs and atomics from now on.
    pub(crate) fn resize(&mut self, saved_max: u8) {
        if self.saved_max != saved_max {
            self.saved.resize(saved_max);
            self.saved_max = saved_max;
        }
    }

    pub(crate) fn reset(&mut self) {
        self.expected = Psn::default();
        self.msn = 0;
        self.abandon_message();
        self.holds = false;
        self.saved.clear();
        self.reply = None;
        self.lost = false;
    }

    pub(crate) const fn expected(&self) -> Psn {
        self.expected
    }

    pub(crate) fn hold(&mut self) {
        self.holds = true;
    }

    pub(crate) fn release(&mut self) {
        self.holds = false;
    }

    pub(crate) const fn has_taken(&self) -> bool {
        self.holds
    }

    /// Forgets the message that is coming in; its receive request is for the next one.
    fn abandon_message(&mut self) {
        self.message = Message::None;
        self.received = 0;
        self.behind.abandon();
    }

    fn end_message(&mut self) {
        self.abandon_message();
        self.msn = self.msn.wrapping_add(1) & 0x00ff_ffff;
    }

    fn is_in_sequence(&self, operation: Operation) -> bool {
        if operation.is_start() {
            return self.message == Message::None;
        }
        match self.message {
            Message::None => false,
            Message::Send => operation.is_send(),
            Message::Write { .. } => operation.is_write(),
        }
    }
}

impl QueuePair {
    /// Handles a request on a reliable connection.
    pub(crate) fn receive_request(
        &mut self,
        cx: &mut Context<'_>,
        packet: &Incoming<'_>,
    ) -> Result<(), PacketDrop> {
        let psn = packet.headers.bth.psn;
        if psn.is_before(self.responder.expected) {
            return self.receive_duplicate(packet);
        }
        if psn != self.responder.expected {
            if !self.responder.lost {
                self.refuse(Syndrome::Nak(NakCode::PsnSequenceError));
            }
            return Err(PacketDrop::Sequence);
        }
        match self.execute(cx, packet) {
            Ok(()) => {
                let responder = &mut self.responder;
                responder.lost = false;
                if matches!(responder.reply, Some(Reply::Refusal { .. })) {
                    responder.reply = None;
                }
                // A READ or an atomic is answered by data.
                let by_data = !packet.operation.is_send() && !packet.operation.is_write();
                if packet.headers.bth.ack_req && !by_data {
                    responder.reply = Some(Reply::Ack);
                }
                Ok(())
            }
            Err(Fault::NoReceive) => {
                self.refuse(Syndrome::RnrNak(self.attributes.min_rnr_timer));
                Err(PacketDrop::NoReceive)
            }
            Err(Fault::Refused(code)) => {
                self.refuse_for_good(cx.shared, code);
                Err(PacketDrop::Refused)
            }
            Err(Fault::Local(status, code)) => {
                self.fail_receive(cx.shared, status);
                self.refuse_for_good(cx.shared, code);
                Err(PacketDrop::Refused)
            }
        }
    }

    /// The requester must go back to the expected packet.
    fn refuse(&mut self, syndrome: Syndrome) {
        let psn = self.responder.expected;
        self.responder.lost = true;
        self.responder.reply = Some(Reply::Refusal { psn, syndrome });
    }

    /// The requester is told, and the queue pair goes to the error state.
    fn refuse_for_good(&mut self, shared: &mut Shared, code: NakCode) {
        self.refuse(Syndrome::Nak(code));
        match code {
            NakCode::RemoteAccessError => self.tell_once(shared, QpEvent::AccessViolation),
            NakCode::InvalidRequest | NakCode::InvalidRdRequest => {
                self.tell_once(shared, QpEvent::InvalidRequest);
            }
            NakCode::PsnSequenceError | NakCode::RemoteOperationalError => {}
        }
        self.fail(shared);
    }

    /// The receive request of the message ends in an error.
    pub(crate) fn fail_receive(&mut self, shared: &mut Shared, status: Status) {
        if self.responder.holds {
            self.responder.release();
            let wr_id = self.responder.taken.wr_id;
            let completion = self.completion(wr_id, status, WorkKind::Receive);
            self.complete_receive(shared, completion, false);
        }
    }

    /// A request that has come before: its answer may be lost.
    fn receive_duplicate(&mut self, packet: &Incoming<'_>) -> Result<(), PacketDrop> {
        let psn = packet.headers.bth.psn;
        let extended = &packet.headers.extended;
        let responder = &mut self.responder;
        match packet.operation {
            Operation::ReadRequest => {
                let (Some(saved), Some(reth)) = (responder.saved.find_mut(psn), extended.reth)
                else {
                    return Err(PacketDrop::Sequence);
                };
                let index = psn.since(saved.psn);
                let from = index as usize * self.attributes.mtu();
                let SavedKind::Read { remote, len } = saved.kind else {
                    return Err(PacketDrop::Sequence);
                };
                let rest = len.saturating_sub(u32::try_from(from).unwrap_or(u32::MAX));
                let same = remote.plus(from as u64)
                    == (Remote {
                        va: reth.va,
                        rkey: reth.rkey,
                    });
                if !same || reth.dma_len != rest {
                    return Err(PacketDrop::Sequence);
                }
                SavedRequests::repeat(saved, index);
            }
            Operation::CompareSwap | Operation::FetchAdd => {
                let saved = responder.saved.find_mut(psn);
                let is_atomic = |saved: &&mut Saved| matches!(saved.kind, SavedKind::Atomic { .. });
                match saved.filter(is_atomic) {
                    Some(saved) => SavedRequests::repeat(saved, 0),
                    None => return Err(PacketDrop::Sequence),
                }
            }
            _ => {
                responder.reply.get_or_insert(Reply::Ack);
            }
        }
        Ok(())
    }

    /// Handles a request on an unreliable connection: what is wrong is dropped with the rest of its message.
    pub(crate) fn receive_unreliable(
        &mut self,
        cx: &mut Context<'_>,
        packet: &Incoming<'_>,
    ) -> Result<(), PacketDrop> {
        let psn = packet.headers.bth.psn;
        let starts = packet.operation.is_start();
        if psn != self.responder.expected || starts {
            self.responder.abandon_message();
        }
        self.responder.expected = psn.plus(1);
        if !starts && self.responder.message == Message::None {
            return Err(PacketDrop::Sequence);
        }
        let executed = self.execute_at(cx, packet, psn);
        let Err(fault) = executed else {
            return Ok(());
        };
        self.responder.abandon_message();
        match fault {
            Fault::NoReceive => return Err(PacketDrop::NoReceive),
            Fault::Refused(_) | Fault::Local(Status::LocalLength, _) => {}
            Fault::Local(status, _) => {
                self.fail_receive(cx.shared, status);
                self.fail(cx.shared);
            }
        }
        Err(PacketDrop::Refused)
    }
}
