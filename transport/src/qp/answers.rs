//! How a requester handles answers: acknowledgements, data, refusals (IBA 9.7.5.1, 9.7.7).

use wire::{Aeth, NakCode, Operation, Psn, Syndrome};

use super::{Context, Incoming, QueuePair};
use crate::shared::PacketDrop;
use crate::status::Status;
use crate::work::SendOperation;

impl QueuePair {
    /// Handles an answer of the peer.
    pub(crate) fn receive_answer(
        &mut self,
        cx: &mut Context<'_>,
        packet: &Incoming<'_>,
    ) -> Result<(), PacketDrop> {
        let psn = packet.headers.bth.psn;
        let (una, max) = (self.requester.una(), self.requester.max());
        let syndrome = match packet.headers.extended.aeth {
            Some(aeth) => Some((aeth.decoded().ok_or(PacketDrop::Malformed)?, aeth)),
            None => None,
        };
        if psn.since(una) >= max.since(una) {
            // The latest acknowledgement may come again with more credits.
            if psn.plus(1) == una
                && let Some((Syndrome::Ack(code), aeth)) = syndrome
            {
                self.adopt_credits(code, &aeth);
            }
            return Err(PacketDrop::Ghost);
        }
        match (packet.operation, syndrome) {
            (Operation::Acknowledge, Some((Syndrome::Ack(code), aeth))) => {
                self.adopt_credits(code, &aeth);
                if !self.acknowledge_before(cx, psn.plus(1)) {
                    self.recover(cx);
                }
            }
            (Operation::Acknowledge, Some((Syndrome::RnrNak(code), _))) => {
                self.receive_rnr(cx, psn, code);
            }
            (Operation::Acknowledge, Some((Syndrome::Nak(code), _))) => {
                self.receive_nak(cx, psn, code);
            }
            (_, None | Some((Syndrome::Ack(_), _))) => {
                if let Some((Syndrome::Ack(code), aeth)) = syndrome {
                    self.adopt_credits(code, &aeth);
                }
                self.receive_data(cx, packet)?;
            }
            _ => return Err(PacketDrop::Malformed),
        }
        self.fail_blocked(cx);
        self.check_drained(cx.shared);
        Ok(())
    }

    fn adopt_credits(&mut self, code: u8, aeth: &Aeth) {
        self.requester
            .adopt_credits(Syndrome::credits(code), aeth.msn);
    }

    /// Takes all packets before `end` for acknowledged; `false` if the answer to a READ or an atomic is
    /// missing among them.
    fn acknowledge_before(&mut self, cx: &mut Context<'_>, end: Psn) -> bool {
        while self.requester.una() != end {
            let una = self.requester.una();
            let Some(work) = self.requester.queue.get(0) else {
                return true;
            };
            if work.operation.is_answered() {
                return false;
            }
            let rest = work.packets - una.since(work.psn);
            let acknowledged = end.since(una);
            if acknowledged < rest {
                self.requester
                    .progress(cx.now, acknowledged, &self.attributes);
                return true;
            }
            self.requester.progress(cx.now, rest, &self.attributes);
            self.complete_head(cx, Status::Success);
        }
        true
    }

    /// Something is lost: it is repeated, once until there is progress or a timeout.
    fn recover(&mut self, cx: &mut Context<'_>) {
        if self.requester.note_loss() {
            self.repeat(cx);
        }
    }

    fn receive_rnr(&mut self, cx: &mut Context<'_>, psn: Psn, code: u8) {
        if !self.acknowledge_before(cx, psn) {
            return self.recover(cx);
        }
        if self.requester.is_waiting() {
            return;
        }
        if self.requester.take_rnr_retry(self.attributes.rnr_retry) {
            self.requester.go_back();
            self.requester.wait_until(cx.now + Syndrome::rnr_ns(code));
        } else {
            self.fail_head(cx, Status::RnrRetryExceeded);
        }
    }

    fn receive_nak(&mut self, cx: &mut Context<'_>, psn: Psn, code: NakCode) {
        if !self.acknowledge_before(cx, psn) {
            // A READ before it may be what is refused: its data comes in answer to it, and so does its NAK.
            return self.recover(cx);
        }
        let status = match code {
            NakCode::PsnSequenceError => return self.recover(cx),
            NakCode::InvalidRequest | NakCode::InvalidRdRequest => Status::RemoteInvalidRequest,
            NakCode::RemoteAccessError => Status::RemoteAccess,
            NakCode::RemoteOperationalError => Status::RemoteOperation,
        };
        self.fail_head(cx, status);
    }

    /// Data that answers a READ or an atomic. It acknowledges everything before it.
    fn receive_data(
        &mut self,
        cx: &mut Context<'_>,
        packet: &Incoming<'_>,
    ) -> Result<(), PacketDrop> {
        let psn = packet.headers.bth.psn;
        if !self.acknowledge_before(cx, psn) {
            self.recover(cx);
            return Err(PacketDrop::Sequence);
        }
        let Some(work) = self.requester.queue.get(0) else {
            return Err(PacketDrop::Ghost);
        };
        let stored = match work.operation {
            SendOperation::Read { .. } if packet.operation != Operation::AtomicAcknowledge => {
                self.store_read(cx, packet)
            }
            SendOperation::CompareSwap { .. } | SendOperation::FetchAdd { .. } => {
                self.store_atomic(cx, packet)
            }
            _ => Err(Status::BadResponse),
        };
        match stored {
            Ok(true) => self.complete_head(cx, Status::Success),
            Ok(false) => {}
            Err(status) => self.fail_head(cx, status),
        }
        Ok(())
    }

    /// Stores a packet of a READ's answer: whether it is the last.
    fn store_read(&mut self, cx: &mut Context<'_>, packet: &Incoming<'_>) -> Result<bool, Status> {
        let mtu = self.attributes.mtu();
        let Some(work) = self.requester.queue.get(0) else {
            return Err(Status::BadResponse);
        };
        let index = work.answered;
        let from = index as usize * mtu;
        let is_last = index + 1 == work.packets;
        let expected = (work.len as usize).saturating_sub(from).min(mtu);
        if packet.payload.len() != expected || packet.operation.is_end() != is_last {
            return Err(Status::BadResponse);
        }
        let requester = &mut self.requester;
        let (Some(work), behind) = (requester.queue.get(0), &mut requester.behind) else {
            return Err(Status::BadResponse);
        };
        let (mut copier, stages) = cx.copier(self.config.pd);
        copier.permits_scatter(&work.sges, from, expected)?;
        behind.put(stages, from, packet.payload, is_last, |at, bytes| {
            copier.scatter(&work.sges, at, bytes)
        })?;
        if let Some(work) = self.requester.queue.get_mut(0) {
            work.answered += 1;
        }
        self.requester.progress(cx.now, 1, &self.attributes);
        Ok(is_last)
    }

    fn store_atomic(
        &mut self,
        cx: &mut Context<'_>,
        packet: &Incoming<'_>,
    ) -> Result<bool, Status> {
        let (Some(work), Some(answer)) = (
            self.requester.queue.get(0),
            packet.headers.extended.atomic_ack,
        ) else {
            return Err(Status::BadResponse);
        };
        let original = answer.original.to_ne_bytes();
        self.copier(cx).scatter(&work.sges, 0, &original)?;
        self.requester.progress(cx.now, 1, &self.attributes);
        Ok(true)
    }
}
