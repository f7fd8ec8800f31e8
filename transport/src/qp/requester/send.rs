//! Sending requests: which packet is next, how it looks, and what comes of it when it has left.

use link::Time;
use wire::{AtomicEth, ExtendedHeaders, Operation, Reth, Service};

use super::{ACK_EVERY, Requester, SendWork, WINDOW_PACKETS};
use crate::attributes::QpState;
use crate::memory::Remote;
use crate::qp::{Context, QueuePair};
use crate::stage::Part;
use crate::status::Status;
use crate::work::SendOperation;

impl QueuePair {
    /// Whether the requester may send a packet now.
    pub(crate) fn requester_has_output(&self, now: Time) -> bool {
        let requester = &self.requester;
        let sends = match self.state() {
            QpState::Rts => true,
            // What is begun is ended, and what is lost repeated.
            QpState::Sqd => requester.cursor_packet > 0 || requester.next.is_before(requester.max),
            _ => false,
        };
        if !sends || requester.blocked.is_some() || requester.rnr_until.is_some_and(|at| at > now) {
            return false;
        }
        let Some(work) = requester.queue.get(requester.cursor) else {
            return false;
        };
        if self.config.service != Service::Rc {
            return true;
        }
        let under_way = requester.next.since(requester.una);
        if work.cursor_is_at_start(requester) {
            if work.operation.is_answered() && requester.reads >= self.attributes.max_rd_atomic {
                return false;
            }
            if work.fence && requester.reads > 0 {
                return false;
            }
        }
        under_way < WINDOW_PACKETS && (requester.has_credit(work) || under_way == 0)
    }

    /// Writes the next packet of a connection.
    pub(crate) fn transmit_request(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut [u8],
    ) -> Option<usize> {
        if !self.requester_has_output(cx.now) {
            return None;
        }
        self.requester.rnr_until = None;
        let mtu = self.attributes.mtu();
        let requester = &mut self.requester;
        let at_start = requester.cursor_packet == 0;
        let next = requester.next;
        let work = requester.queue.get_mut(requester.cursor)?;
        if at_start {
            work.psn = next;
            work.answered = 0;
        }
        let requester = &self.requester;
        let work = requester.queue.get(requester.cursor)?;
        let index = if work.operation.is_answered() {
            work.answered
        } else {
            requester.cursor_packet
        };
        let is_last = index + 1 == work.packets || work.operation.is_answered();
        let from = index as usize * mtu;
        let operation = packet_operation(work.operation, index == 0, index + 1 == work.packets);
        let mut headers = self.headers(
            cx.shared,
            &self.attributes.path,
            operation,
            work.psn.plus(index),
        );
        let remaining = work.len - u32::try_from(from).unwrap_or(work.len);
        let payload = match work.operation.is_answered() {
            true => 0,
            false => (remaining as usize).min(mtu),
        };
        fill_extended(&mut headers.extended, work, remaining, index);
        headers.bth.solicited = is_last && work.solicited && work.operation.takes_receive();
        let credit = requester.has_credit(work);
        headers.bth.ack_req = self.config.service == Service::Rc
            && (is_last
                || !credit
                || next.get().is_multiple_of(ACK_EVERY)
                || next.since(requester.una) + 1 >= WINDOW_PACKETS);
        // A gather list with a wrong key must not be noticed by the peer: no packet leaves.
        let is_staged = !work.is_inline && !work.operation.is_answered();
        let part = Part {
            message: work.psn,
            from,
            rest: if is_staged {
                remaining as usize
            } else {
                payload
            },
            begins: index == 0,
        };
        let mut ahead = std::mem::take(&mut self.requester.ahead);
        let requester = &self.requester;
        let work = requester.queue.get(requester.cursor)?;
        let (mut copier, stages) = cx.copier(self.config.pd);
        let written = headers.emit_with(payload, out, |raw| {
            ahead.fill(stages, part, raw, |from, out| {
                work.gather(&mut copier, from, out)
            })
        });
        self.requester.ahead = ahead;
        match written {
            Ok(Ok(len)) => {
                self.advance(cx, is_last);
                Some(len)
            }
            Ok(Err(status)) => self.block(cx, status),
            Err(_) => self.block(cx, Status::LocalOperation),
        }
    }

    /// Moves the cursor behind the packet that has been written.
    fn advance(&mut self, cx: &mut Context<'_>, is_last: bool) {
        let requester = &mut self.requester;
        let Some(work) = requester.queue.get(requester.cursor) else {
            return;
        };
        let is_answered = work.operation.is_answered();
        if is_answered {
            requester.next = work.psn.plus(work.packets);
        } else {
            requester.next = requester.next.plus(1);
        }
        if is_last {
            requester.cursor += 1;
            requester.cursor_packet = 0;
            requester.reads += u8::from(is_answered);
        } else {
            requester.cursor_packet += 1;
        }
        if requester.max.is_before(requester.next) {
            requester.max = requester.next;
        }
        if self.config.service == Service::Rc {
            if requester.overdue_at.is_none() {
                requester.overdue_at = self.attributes.timeout_ns().map(|ns| cx.now + ns);
            }
            return;
        }
        // Nothing answers: what has left is done.
        requester.una = requester.next;
        if is_last {
            self.complete_head(cx, Status::Success);
        }
    }

    /// The request at the cursor cannot be sent: it fails once all before it are done.
    fn block(&mut self, cx: &mut Context<'_>, status: Status) -> Option<usize> {
        self.requester.blocked = Some(status);
        self.fail_blocked(cx);
        None
    }

    /// Fails the request that could not be sent, if it is the first.
    pub(crate) fn fail_blocked(&mut self, cx: &mut Context<'_>) {
        if self.requester.cursor == 0
            && let Some(status) = self.requester.blocked.take()
        {
            self.fail_head(cx, status);
        }
    }

    /// The first request ends, with success or not; its completion is queued if it is to have one.
    pub(crate) fn complete_head(&mut self, cx: &mut Context<'_>, status: Status) {
        let Some(work) = self.requester.queue.get(0) else {
            return;
        };
        let mut completion = self.completion(work.wr_id, status, work.operation.kind());
        if work.operation.is_answered() {
            completion.byte_len = work.len;
        }
        let tell = work.signaled || status != Status::Success;
        self.requester.pop();
        if tell {
            self.complete_send(cx.shared, completion);
        }
    }

    /// The first request fails, and with it the send queue: of a reliable connection the queue pair.
    pub(crate) fn fail_head(&mut self, cx: &mut Context<'_>, status: Status) {
        self.complete_head(cx, status);
        if self.config.service == Service::Rc {
            self.fail(cx.shared);
        } else if self.state() != QpState::Error {
            self.attributes.state = QpState::Sqe;
            self.attributes.draining = false;
            self.flush_sends(cx.shared);
        }
    }

    /// Does what is due: a wait for the peer that is over, an answer that is overdue.
    pub(crate) fn tick(&mut self, cx: &mut Context<'_>) {
        let requester = &mut self.requester;
        if requester.rnr_until.is_some_and(|at| at <= cx.now) {
            requester.rnr_until = None;
        }
        if requester.overdue_at.is_none_or(|at| at > cx.now) {
            return;
        }
        requester.overdue_at = None;
        if requester.una == requester.max {
            return;
        }
        requester.clear_loss();
        self.repeat(cx);
    }

    /// Goes back to what is not acknowledged, or gives up.
    pub(crate) fn repeat(&mut self, cx: &mut Context<'_>) {
        if self.requester.take_retry() {
            self.requester.go_back();
        } else {
            self.fail_head(cx, Status::RetryExceeded);
        }
    }
}

impl SendWork {
    fn cursor_is_at_start(&self, requester: &Requester) -> bool {
        requester.cursor_packet == 0 || self.operation.is_answered()
    }
}

/// The operation of a packet of a message.
fn packet_operation(operation: SendOperation, first: bool, last: bool) -> Operation {
    use Operation as O;
    use SendOperation as Op;
    match (operation, first, last) {
        (Op::Read { .. }, ..) => O::ReadRequest,
        (Op::CompareSwap { .. }, ..) => O::CompareSwap,
        (Op::FetchAdd { .. }, ..) => O::FetchAdd,
        (Op::Write { .. }, true, false) => O::WriteFirst,
        (Op::Write { .. }, false, false) => O::WriteMiddle,
        (Op::Write { immediate, .. }, false, true) => match immediate {
            None => O::WriteLast,
            Some(_) => O::WriteLastImm,
        },
        (Op::Write { immediate, .. }, true, true) => match immediate {
            None => O::WriteOnly,
            Some(_) => O::WriteOnlyImm,
        },
        (_, true, false) => O::SendFirst,
        (_, false, false) => O::SendMiddle,
        (Op::SendInvalidate { .. }, false, true) => O::SendLastInvalidate,
        (Op::SendInvalidate { .. }, true, true) => O::SendOnlyInvalidate,
        (Op::Send { immediate }, false, true) => match immediate {
            None => O::SendLast,
            Some(_) => O::SendLastImm,
        },
        (Op::Send { immediate }, true, true) => match immediate {
            None => O::SendOnly,
            Some(_) => O::SendOnlyImm,
        },
    }
}

/// The extended headers; those that the packet's opcode does not have are not written. A READ that is
/// repeated in part asks for `remaining` bytes, from packet `index` on.
fn fill_extended(extended: &mut ExtendedHeaders, work: &SendWork, remaining: u32, index: u32) {
    let reth = |remote: Remote, done: u32| Reth {
        va: remote.va.wrapping_add(u64::from(done)),
        rkey: remote.rkey,
        dma_len: work.len - done,
    };
    let atomic = |remote: Remote, swap_or_add, compare| AtomicEth {
        va: remote.va,
        rkey: remote.rkey,
        swap_or_add,
        compare,
    };
    match work.operation {
        SendOperation::Send { immediate } => extended.immediate = immediate,
        SendOperation::SendInvalidate { rkey } => extended.invalidate = Some(rkey),
        SendOperation::Write { remote, immediate } => {
            extended.immediate = immediate;
            if index == 0 {
                extended.reth = Some(reth(remote, 0));
            }
        }
        SendOperation::Read { remote } => {
            extended.reth = Some(reth(remote, work.len - remaining));
        }
        SendOperation::CompareSwap {
            remote,
            compare,
            swap,
        } => extended.atomic = Some(atomic(remote, swap, compare)),
        SendOperation::FetchAdd { remote, add } => extended.atomic = Some(atomic(remote, add, 0)),
    }
}
