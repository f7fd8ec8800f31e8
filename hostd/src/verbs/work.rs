//! Work of contexts: requests in, completions out.

use std::collections::VecDeque;

use link::Time;
use transport::{
    AhId, Arming, Completion, CqId, Data, Destination, Event, QpModify, QpState, ReceiveRequest,
    Remote, SendOperation, SendRequest, Sge, SrqId, WorkKind,
};
use uverbs::entry::{self, Piece, Receive, Send, opcode, send_flag};
use wire::Qpn;

use super::attributes::{completion, event_of};
use super::{Engine, FromVerbs, Object, Verbs, event};
use crate::clients::ClientId;

/// Completions of one message at most.
const COMPLETIONS_A_MESSAGE: usize = 1024;
/// `IBV_WC_LOC_QP_OP_ERR`.
const LOCAL_OPERATION: u32 = 2;

/// Requests of a queue that are with the transport: the programs' names of them, which the transport knows by
/// their place in the order.
#[derive(Debug, Default)]
pub(super) struct Pending {
    names: VecDeque<u64>,
    /// The place of the first of them.
    first: u64,
}

impl Pending {
    /// The place that the next request gets.
    fn next(&self) -> u64 {
        self.first.wrapping_add(self.names.len() as u64)
    }

    fn push(&mut self, wr_id: u64) {
        self.names.push_back(wr_id);
    }

    /// The request at a place has completed, and all before it: its name, and how many that are.
    fn retire(&mut self, place: u64) -> Option<(u64, u32)> {
        let index = usize::try_from(place.wrapping_sub(self.first)).ok()?;
        let name = *self.names.get(index)?;
        self.names.drain(..=index);
        self.first = place.wrapping_add(1);
        Some((name, u32::try_from(index + 1).ok()?))
    }

    /// All requests are forgotten.
    pub(super) fn clear(&mut self) {
        self.first = self.next();
        self.names.clear();
    }
}

fn pieces(pieces: &[Piece], into: &mut Vec<Sge>) {
    into.clear();
    into.extend(pieces.iter().map(|piece| Sge {
        address: piece.address,
        length: piece.length,
        lkey: piece.lkey,
    }));
}

/// What a request does; `None` if there is no such operation.
fn operation(send: &Send) -> Option<SendOperation> {
    let remote = Remote {
        va: send.remote_address,
        rkey: send.rkey,
    };
    let immediate = Some(send.immediate);
    Some(match send.opcode {
        opcode::RDMA_WRITE => SendOperation::Write {
            remote,
            immediate: None,
        },
        opcode::RDMA_WRITE_WITH_IMM => SendOperation::Write { remote, immediate },
        opcode::SEND => SendOperation::Send { immediate: None },
        opcode::SEND_WITH_IMM => SendOperation::Send { immediate },
        opcode::RDMA_READ => SendOperation::Read { remote },
        opcode::ATOMIC_CMP_AND_SWP => SendOperation::CompareSwap {
            remote,
            compare: send.compare_add,
            swap: send.swap,
        },
        opcode::ATOMIC_FETCH_AND_ADD => SendOperation::FetchAdd {
            remote,
            add: send.compare_add,
        },
        opcode::SEND_WITH_INV => SendOperation::SendInvalidate {
            rkey: send.immediate,
        },
        _ => return None,
    })
}

impl Verbs {
    /// Queues send requests. One that the transport refuses, which a library does not let through, completes in
    /// error.
    pub(super) fn post_sends(
        &mut self,
        engine: &mut Engine,
        now: Time,
        client: ClientId,
        number: u32,
        requests: &[Send],
    ) {
        let Ok(qpn) = self.queue_pair(client, number) else {
            return;
        };
        for send in requests {
            let Some(owned) = self.qps.get_mut(&qpn) else {
                return;
            };
            let operation = operation(send);
            let flag = |flag: u8| send.flags & flag != 0;
            let data = match &send.data {
                entry::Data::Pieces(list) => {
                    pieces(list, &mut self.sges);
                    Data::Scattered(&self.sges)
                }
                entry::Data::Inline(bytes) => Data::Inline(bytes),
            };
            let is_datagram = owned.config.service == wire::Service::Ud;
            let request = SendRequest {
                wr_id: owned.sends.next(),
                operation: operation.unwrap_or_default(),
                data,
                signaled: flag(send_flag::SIGNALED),
                fence: flag(send_flag::FENCE),
                solicited: flag(send_flag::SOLICITED),
                destination: is_datagram.then_some(Destination {
                    handle: AhId(send.handle),
                    qpn: Qpn::truncate(send.remote_qpn),
                    qkey: send.remote_qkey,
                }),
            };
            let posted = operation.is_some() && engine.post_send(now, qpn, &request).is_ok();
            if posted {
                owned.sends.push(send.wr_id);
            } else {
                let kind = request.operation.kind();
                let cq = owned.config.send_cq;
                self.refuse(engine, now, client, (cq, qpn), (send.wr_id, kind));
            }
        }
    }

    /// Queues receive requests.
    pub(super) fn post_receives(
        &mut self,
        engine: &mut Engine,
        now: Time,
        client: ClientId,
        number: u32,
        requests: &[Receive],
    ) {
        let Ok(qpn) = self.queue_pair(client, number) else {
            return;
        };
        for receive in requests {
            let Some(owned) = self.qps.get_mut(&qpn) else {
                return;
            };
            pieces(&receive.pieces, &mut self.sges);
            let request = ReceiveRequest {
                wr_id: owned.receives.next(),
                sges: &self.sges,
            };
            match engine.post_receive(qpn, &request) {
                Ok(()) => owned.receives.push(receive.wr_id),
                Err(_) => {
                    let cq = owned.config.receive_cq;
                    let what = (receive.wr_id, WorkKind::Receive);
                    self.refuse(engine, now, client, (cq, qpn), what);
                }
            }
        }
    }

    /// Queues receive requests of a shared receive queue. What is refused is forgotten: there is no queue pair
    /// that it could complete for.
    pub(super) fn post_shared(
        &mut self,
        engine: &mut Engine,
        client: ClientId,
        srq: u32,
        requests: &[Receive],
    ) {
        let srq = SrqId(srq);
        if self.srq_owners.get(&srq) != Some(&client) {
            return;
        }
        for receive in requests {
            pieces(&receive.pieces, &mut self.sges);
            let request = ReceiveRequest {
                wr_id: receive.wr_id,
                sges: &self.sges,
            };
            let _ = engine.post_srq_receive(srq, &request);
        }
    }

    /// Completes a request that the transport does not take.
    fn refuse(
        &mut self,
        engine: &mut Engine,
        now: Time,
        client: ClientId,
        (cq, qpn): (CqId, Qpn),
        (wr_id, kind): (u64, WorkKind),
    ) {
        // What was queued before completes before.
        self.settle(engine, now);
        let completion = entry::Completion {
            wr_id,
            status: LOCAL_OPERATION,
            opcode: kind as u32,
            qpn: qpn.get(),
            retired: 1,
            time_ns: now.0,
            ..entry::Completion::default()
        };
        let message = FromVerbs::Completions {
            cq: cq.0,
            solicited: true,
            completions: vec![completion],
        };
        self.push(client, message);
    }

    /// A ring had no room for a completion: its queue is in error, and so are the queue pairs that complete
    /// there (IBA 10.10.2.3).
    pub(super) fn overrun(&mut self, engine: &mut Engine, now: Time, client: ClientId, cq: CqId) {
        if self.cq_owners.get(&cq) != Some(&client) {
            return;
        }
        let of = Object::Cq(cq.0);
        let kind = event::CQ_ERR;
        self.push(client, FromVerbs::Event { kind, of });
        let uses = |config: &transport::QpConfig| config.send_cq == cq || config.receive_cq == cq;
        let users = self.qps.iter().filter(|(_, owned)| uses(&owned.config));
        let users: Vec<Qpn> = users.map(|(&qpn, _)| qpn).collect();
        let error = QpModify {
            state: Some(QpState::Error),
            ..QpModify::default()
        };
        for qpn in users {
            // One in RESET has no such change, and nothing that could be lost.
            if engine.modify_qp(now, qpn, &error).is_ok() {
                let of = Object::QueuePair(qpn.get());
                let kind = event::QP_FATAL;
                self.push(client, FromVerbs::Event { kind, of });
            }
        }
    }

    /// Hands out what the transport has completed, and its events. To be called after each call of the
    /// transport.
    pub(crate) fn settle(&mut self, engine: &mut Engine, now: Time) {
        let mut solicited = Vec::new();
        while let Some(event) = engine.poll_event() {
            self.tell(engine, event, &mut solicited);
        }
        while let Some(cq) = engine.poll_filled() {
            let solicited = solicited.contains(&cq);
            self.hand_out(engine, now, cq, solicited);
        }
    }

    fn tell(&mut self, engine: &mut Engine, told: Event, solicited: &mut Vec<CqId>) {
        let (owner, kind, of) = match told {
            Event::Completion(cq) => {
                solicited.push(cq);
                // It exists: it has just told.
                let _ = engine.arm_cq(cq, Arming::Solicited);
                return;
            }
            Event::CqError(cq) => (
                self.cq_owners.get(&cq).copied(),
                event::CQ_ERR,
                Object::Cq(cq.0),
            ),
            Event::SrqLimitReached(srq) => (
                self.srq_owners.get(&srq).copied(),
                event::SRQ_LIMIT_REACHED,
                Object::Srq(srq.0),
            ),
            Event::QueuePair { qpn, event } => (
                self.qps.get(&qpn).map(|owned| owned.owner),
                event_of(event),
                Object::QueuePair(qpn.get()),
            ),
        };
        if let Some(owner) = owner {
            self.push(owner, FromVerbs::Event { kind, of });
        }
    }

    fn hand_out(&mut self, engine: &mut Engine, now: Time, cq: CqId, solicited: bool) {
        let Some(&owner) = self.cq_owners.get(&cq) else {
            return;
        };
        loop {
            let mut completions = Vec::new();
            while completions.len() < COMPLETIONS_A_MESSAGE
                && let Some(done) = engine.poll_cq(cq)
            {
                completions.extend(self.named(now, &done));
            }
            if completions.is_empty() {
                return;
            }
            let message = FromVerbs::Completions {
                cq: cq.0,
                solicited,
                completions,
            };
            self.push(owner, message);
        }
    }

    /// A completion with the program's name of its request.
    fn named(&mut self, now: Time, done: &Completion) -> Option<entry::Completion> {
        let owned = self.qps.get_mut(&done.qpn)?;
        let is_receive = matches!(done.kind, WorkKind::Receive | WorkKind::ReceiveWrite);
        let named = match (is_receive, owned.config.srq) {
            (true, Some(_)) => Some((done.wr_id, 1)),
            (true, None) => owned.receives.retire(done.wr_id),
            (false, _) => owned.sends.retire(done.wr_id),
        };
        Some(completion(done, named?, now.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_retires_what_was_before_it() {
        let mut pending = Pending::default();
        let mut places = Vec::new();
        for name in 10..15 {
            places.push(pending.next());
            pending.push(name);
        }
        assert_eq!(pending.retire(places[1]), Some((11, 2)));
        assert_eq!(pending.retire(places[1]), None, "it has completed");
        assert_eq!(pending.retire(places[2]), Some((12, 1)));
        pending.clear();
        assert_eq!(pending.retire(places[4]), None, "forgotten");
        let place = pending.next();
        pending.push(20);
        assert_eq!(pending.retire(place), Some((20, 1)));
    }
}
