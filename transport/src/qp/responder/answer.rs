//! Answering the peer: acknowledgements, refusals, data (IBA 9.7.5).

use wire::{Aeth, AtomicAckEth, NakCode, Operation, Service, Syndrome};

use super::Reply;
use crate::attributes::QpState;
use crate::memory::{Access, Copier, Remote};
use crate::qp::saved::{Pending, SavedKind};
use crate::qp::{Context, QueuePair};
use crate::stage::Part;

impl QueuePair {
    /// Whether an answer is to be sent.
    pub(crate) fn responder_has_output(&self) -> bool {
        let responder = &self.responder;
        if self.receives() {
            return responder.reply.is_some() || responder.saved.has_pending();
        }
        // The refusal that has led to the error state is still told, behind the answers before it.
        self.state() == QpState::Error && matches!(responder.reply, Some(Reply::Refusal { .. }))
    }

    /// Writes the next answer.
    pub(crate) fn transmit_answer(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut [u8],
    ) -> Option<usize> {
        if self.config.service != Service::Rc {
            return None;
        }
        if self.responder.saved.has_pending()
            && let Some(len) = self.transmit_saved(cx, out)
        {
            return Some(len);
        }
        let responder = &self.responder;
        let (psn, syndrome) = match responder.reply? {
            Reply::Ack => (responder.expected.minus(1), self.ack()),
            Reply::Refusal { psn, syndrome } => (psn, syndrome),
        };
        let path = &self.attributes.path;
        let mut headers = self.headers(cx.shared, path, Operation::Acknowledge, psn);
        headers.extended.aeth = Some(Aeth {
            syndrome: syndrome.bits(),
            msn: responder.msn,
        });
        self.responder.reply = None;
        let filled = |_: &mut [u8]| Ok::<(), std::convert::Infallible>(());
        match headers.emit_with(0, out, filled) {
            Ok(Ok(len)) => Some(len),
            Ok(Err(never)) => match never {},
            Err(_) => None,
        }
    }

    /// An acknowledgement's syndrome: with the credits of the receive queue, if it is the queue pair's own.
    fn ack(&self) -> Syndrome {
        if self.config.srq.is_some() {
            return Syndrome::Ack(Syndrome::CREDITS_INVALID);
        }
        let held = usize::from(self.responder.holds);
        let available = u32::try_from(self.receives.len() + held).unwrap_or(u32::MAX);
        Syndrome::Ack(Syndrome::credit_code(available))
    }

    /// Writes the next packet of the oldest READ or atomic that is to be answered.
    fn transmit_saved(&mut self, cx: &mut Context<'_>, out: &mut [u8]) -> Option<usize> {
        let mtu = self.attributes.mtu();
        let ack = self.ack();
        let saved = *self.responder.saved.pending_mut()?;
        let pending = saved.pending?;
        let psn = saved.psn.plus(pending.next);
        let aeth = Aeth {
            syndrome: ack.bits(),
            msn: saved.msn,
        };
        let path = self.attributes.path;
        let is_last = pending.next + 1 == saved.packets;
        let written = match saved.kind {
            SavedKind::Atomic { original } => {
                let operation = Operation::AtomicAcknowledge;
                let mut headers = self.headers(cx.shared, &path, operation, psn);
                headers.extended.aeth = Some(aeth);
                headers.extended.atomic_ack = Some(AtomicAckEth { original });
                headers.emit_with(0, out, |_| Ok(()))
            }
            SavedKind::Read { remote, len } => {
                let operation = match (pending.next == pending.first, is_last) {
                    (true, false) => Operation::ReadResponseFirst,
                    (false, false) => Operation::ReadResponseMiddle,
                    (false, true) => Operation::ReadResponseLast,
                    (true, true) => Operation::ReadResponseOnly,
                };
                let from = pending.next as usize * mtu;
                let payload = (len as usize).saturating_sub(from).min(mtu);
                let mut headers = self.headers(cx.shared, &path, operation, psn);
                headers.extended.aeth = Some(aeth);
                let part = Part {
                    message: saved.psn,
                    from,
                    rest: (len as usize).saturating_sub(from),
                    begins: pending.next == pending.first,
                };
                headers.emit_with(payload, out, |raw| self.read_remote(cx, remote, part, raw))
            }
        };
        match written {
            Ok(Ok(len)) => {
                if let Some(saved) = self.responder.saved.pending_mut() {
                    saved.was_sent |= is_last;
                    saved.pending = (!is_last).then_some(Pending {
                        next: pending.next + 1,
                        ..pending
                    });
                }
                Some(len)
            }
            Ok(Err(code)) => {
                self.responder.saved.abandon();
                self.refuse_for_good(cx.shared, code);
                let syndrome = Syndrome::Nak(code);
                self.responder.reply = Some(Reply::Refusal { psn, syndrome });
                None
            }
            // The caller's buffer is too short: the requester asks again.
            Err(_) => {
                self.responder.saved.abandon();
                None
            }
        }
    }

    /// Reads a part of what the peer asked for. The key is looked at again: it may have gone meanwhile.
    fn read_remote(
        &mut self,
        cx: &mut Context<'_>,
        remote: Remote,
        part: Part,
        out: &mut [u8],
    ) -> Result<(), NakCode> {
        if out.is_empty() {
            return Ok(());
        }
        let pd = self.config.pd;
        let (
            Copier {
                regions, memory, ..
            },
            stages,
        ) = cx.copier(pd);
        let permitted = |from: usize, len: usize| {
            let len = u32::try_from(len).unwrap_or(u32::MAX);
            let piece = regions.remote(pd, remote.plus(from as u64), len, Access::REMOTE_READ);
            piece.ok_or(NakCode::RemoteAccessError)
        };
        permitted(part.from, out.len())?;
        let ahead = &mut self.responder.ahead;
        ahead.fill(stages, part, out, |from, out| {
            let piece = permitted(from, out.len())?;
            let read = memory.read(piece.space, piece.address, out);
            read.map_err(|_| NakCode::RemoteOperationalError)
        })
    }
}
