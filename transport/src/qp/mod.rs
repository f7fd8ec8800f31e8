//! One queue pair: its requester, its responder and what both share.

pub(crate) mod answers;
pub(crate) mod datagram;
pub(crate) mod requester;
pub(crate) mod responder;
pub(crate) mod saved;

use link::Time;
use wire::{Bth, ExtendedHeaders, IbaPacket, Lid, Opcode, Operation, Psn, Qpn, Service, Sl};

use crate::attributes::{Path, QpAttributes, QpConfig, QpModify, QpState};
use crate::completion::Completion;
use crate::error::Refused;
use crate::event::{Event, QpEvent};
use crate::ids::PdId;
use crate::memory::{Copier, Memory};
use crate::modify;
use crate::qp::requester::Requester;
use crate::qp::responder::Responder;
use crate::ring::Ring;
use crate::shared::{PacketDrop, Shared};
use crate::stage::Stages;
use crate::status::{Status, WorkKind};
use crate::work::{ReceiveRequest, ReceiveWork};

/// The parts of the engine that a queue pair needs to handle an input.
pub(crate) struct Context<'a> {
    pub(crate) now: Time,
    pub(crate) shared: &'a mut Shared,
    pub(crate) memory: &'a mut dyn Memory,
}

impl Context<'_> {
    /// What copies data of a domain's queue pairs, and buffers for it.
    pub(crate) fn copier(&mut self, pd: PdId) -> (Copier<'_>, &mut Stages) {
        let Shared {
            regions, stages, ..
        } = &mut *self.shared;
        let copier = Copier {
            regions,
            memory: &mut *self.memory,
            pd,
        };
        (copier, stages)
    }
}

/// A packet that has come, with its headers.
pub(crate) struct Incoming<'a> {
    pub(crate) headers: IbaPacket,
    pub(crate) operation: Operation,
    pub(crate) payload: &'a [u8],
}

/// A queue pair.
#[derive(Debug)]
pub(crate) struct QueuePair {
    pub(crate) qpn: Qpn,
    pub(crate) config: QpConfig,
    pub(crate) attributes: QpAttributes,
    pub(crate) requester: Requester,
    pub(crate) responder: Responder,
    pub(crate) receives: Ring<ReceiveWork>,
    /// Whether the consumer wants to hear that the send queue is drained.
    drained_event: bool,
    /// Events that can come once a connection and have come: bits of [`QpEvent`].
    told: u8,
    /// Whether the engine has it in a ring of those that may send, and of which service level.
    pub(crate) in_ring: Option<Sl>,
    /// Its entry in the engine's timers.
    pub(crate) timer: Option<Time>,
    /// Multicast groups that it is attached to.
    pub(crate) groups: u32,
}

impl QueuePair {
    pub(crate) fn new(qpn: Qpn, config: QpConfig) -> Self {
        let own = match config.srq {
            Some(_) => 0,
            None => config.capabilities.receive_requests,
        };
        Self {
            qpn,
            config,
            attributes: QpAttributes::default(),
            requester: Requester::new(config.capabilities.send_requests),
            responder: Responder::new(),
            receives: Ring::new(own),
            drained_event: false,
            told: 0,
            in_ring: None,
            timer: None,
            groups: 0,
        }
    }

    pub(crate) const fn state(&self) -> QpState {
        self.attributes.state
    }

    /// Whether it takes packets from its peer.
    pub(crate) const fn receives(&self) -> bool {
        matches!(
            self.state(),
            QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe
        )
    }

    /// Changes attributes and state.
    pub(crate) fn modify(&mut self, shared: &mut Shared, modify: &QpModify) -> Result<(), Refused> {
        let from = self.state();
        let to = modify::check(self.config.service, from, modify)?;
        self.check_values(shared, modify)?;
        self.apply(modify);
        match to {
            QpState::Reset => self.reset(shared),
            QpState::Error => {
                self.fail(shared);
                return Ok(());
            }
            QpState::Sqd if from == QpState::Rts => {
                self.attributes.draining = true;
                self.drained_event = modify.drained_event.unwrap_or(false);
            }
            QpState::Rtr if from == QpState::Init => {
                self.responder
                    .connect(self.attributes.rq_psn, self.attributes.max_dest_rd_atomic);
            }
            QpState::Rts if from == QpState::Rtr => self.requester.connect(&self.attributes),
            QpState::Rts => self.attributes.draining = false,
            _ => {}
        }
        self.attributes.state = to;
        if from == QpState::Sqd || to == QpState::Sqd {
            self.requester.adopt(&self.attributes);
            self.responder.resize(self.attributes.max_dest_rd_atomic);
        }
        self.check_drained(shared);
        Ok(())
    }

    fn check_values(&self, shared: &Shared, modify: &QpModify) -> Result<(), Refused> {
        let at_most = |value: Option<u8>, max: u8| value.is_none_or(|value| value <= max);
        if let Some(index) = modify.pkey_index
            && shared.pkey(index) == 0
        {
            return Err(Refused::Invalid("the index names no partition of the port"));
        }
        if modify.port.is_some_and(|port| port != shared.port.number) {
            return Err(Refused::Invalid("the port is not this engine's"));
        }
        if let Some(path) = &modify.path {
            shared.check_path(path)?;
            if !path.dlid.is_unicast() {
                return Err(Refused::Invalid("a connection has a unicast LID"));
            }
        }
        if modify.path_mtu.is_some_and(|mtu| mtu > shared.port.mtu) {
            return Err(Refused::Invalid("the path MTU is above the port's"));
        }
        if !at_most(modify.max_rd_atomic, shared.limits.rd_atomic)
            || !at_most(modify.max_dest_rd_atomic, shared.limits.rd_atomic)
        {
            return Err(Refused::Invalid(
                "so many READs and atomics are not supported",
            ));
        }
        if !at_most(modify.timeout, 31) || !at_most(modify.min_rnr_timer, 31) {
            return Err(Refused::Invalid("a timer code has five bits"));
        }
        if !at_most(modify.retry_count, 7) || !at_most(modify.rnr_retry, 7) {
            return Err(Refused::Invalid("a count of retries has three bits"));
        }
        Ok(())
    }

    fn apply(&mut self, modify: &QpModify) {
        fn set<T>(to: &mut T, from: Option<T>) {
            if let Some(value) = from {
                *to = value;
            }
        }
        let own = &mut self.attributes;
        set(&mut own.access, modify.access);
        set(&mut own.pkey_index, modify.pkey_index);
        set(&mut own.port, modify.port);
        set(&mut own.qkey, modify.qkey);
        set(&mut own.path, modify.path);
        set(&mut own.dest_qpn, modify.dest_qpn);
        set(&mut own.rq_psn, modify.rq_psn);
        set(&mut own.sq_psn, modify.sq_psn);
        set(&mut own.max_rd_atomic, modify.max_rd_atomic);
        set(&mut own.max_dest_rd_atomic, modify.max_dest_rd_atomic);
        set(&mut own.min_rnr_timer, modify.min_rnr_timer);
        set(&mut own.timeout, modify.timeout);
        set(&mut own.retry_count, modify.retry_count);
        set(&mut own.rnr_retry, modify.rnr_retry);
        own.path_mtu = modify.path_mtu.or(own.path_mtu);
    }

    /// Its attributes, with the present sequence numbers.
    pub(crate) fn query(&self) -> QpAttributes {
        QpAttributes {
            rq_psn: self.responder.expected(),
            sq_psn: self.requester.next(),
            ..self.attributes
        }
    }

    /// Forgets everything: its requests and their completions too.
    fn reset(&mut self, shared: &mut Shared) {
        for cq in [self.config.send_cq, self.config.receive_cq] {
            if let Some(queue) = shared.cqs.get_mut(cq.place()) {
                queue.forget(self.qpn);
            }
        }
        self.give_back(shared);
        self.attributes = QpAttributes::default();
        self.requester.reset();
        self.responder.reset();
        self.receives.clear();
        self.told = 0;
        self.drained_event = false;
    }

    /// Goes to the error state: everything that waits is flushed in order.
    pub(crate) fn fail(&mut self, shared: &mut Shared) {
        if matches!(self.state(), QpState::Error | QpState::Reset) {
            return;
        }
        self.attributes.state = QpState::Error;
        self.attributes.draining = false;
        self.flush_sends(shared);
        if self.responder.has_taken() {
            self.responder.release();
            let wr_id = self.responder.taken.wr_id;
            self.complete_receive(shared, self.flushed(wr_id, WorkKind::Receive), false);
        }
        while let Some(work) = self.receives.get(0) {
            let wr_id = work.wr_id;
            self.receives.pop();
            self.complete_receive(shared, self.flushed(wr_id, WorkKind::Receive), false);
        }
        if self.config.srq.is_some() {
            self.tell_once(shared, QpEvent::LastRequestReached);
        }
    }

    pub(crate) fn flush_sends(&mut self, shared: &mut Shared) {
        while let Some(work) = self.requester.queue.get(0) {
            let (wr_id, kind) = (work.wr_id, work.operation.kind());
            self.requester.queue.pop();
            self.complete_send(shared, self.flushed(wr_id, kind));
        }
        self.requester.stop();
    }

    pub(crate) fn flushed(&self, wr_id: u64, kind: WorkKind) -> Completion {
        self.completion(wr_id, Status::Flushed, kind)
    }

    pub(crate) const fn completion(
        &self,
        wr_id: u64,
        status: Status,
        kind: WorkKind,
    ) -> Completion {
        Completion {
            wr_id,
            status,
            kind,
            byte_len: 0,
            qpn: self.qpn,
            immediate: None,
            invalidated: None,
            datagram: None,
        }
    }

    pub(crate) fn complete_send(&mut self, shared: &mut Shared, completion: Completion) {
        if !shared.complete(self.config.send_cq, completion, false) {
            self.overrun(shared);
        }
    }

    pub(crate) fn complete_receive(
        &mut self,
        shared: &mut Shared,
        completion: Completion,
        solicited: bool,
    ) {
        if !shared.complete(self.config.receive_cq, completion, solicited) {
            self.overrun(shared);
        }
    }

    /// A completion could not be queued.
    fn overrun(&mut self, shared: &mut Shared) {
        self.tell_once(shared, QpEvent::Fatal);
        self.fail(shared);
    }

    pub(crate) fn tell_once(&mut self, shared: &mut Shared, event: QpEvent) {
        let bit = 1 << event as u8;
        if self.told & bit == 0 {
            self.told |= bit;
            shared.tell(self.qpn, event);
        }
    }

    /// Tells that the send queue is drained, once it is.
    pub(crate) fn check_drained(&mut self, shared: &mut Shared) {
        if self.attributes.draining && self.requester.is_idle() {
            self.attributes.draining = false;
            if std::mem::take(&mut self.drained_event) {
                shared.tell(self.qpn, QpEvent::SendQueueDrained);
            }
        }
    }

    /// Queues a receive request of its own queue.
    pub(crate) fn post_receive(
        &mut self,
        shared: &mut Shared,
        request: &ReceiveRequest<'_>,
    ) -> Result<(), Refused> {
        if self.config.srq.is_some() {
            return Err(Refused::Invalid(
                "the queue pair takes from a shared receive queue: post there",
            ));
        }
        if request.sges.len() > self.config.capabilities.receive_sges as usize {
            return Err(Refused::Invalid(
                "a scatter list has as many pieces as its queue was created for",
            ));
        }
        match self.state() {
            QpState::Reset => return Err(Refused::State(QpState::Reset)),
            QpState::Error => {
                let flushed = self.flushed(request.wr_id, WorkKind::Receive);
                self.complete_receive(shared, flushed, false);
                return Ok(());
            }
            _ => {}
        }
        let slot = self.receives.push().ok_or(Refused::Full("receive queue"))?;
        slot.fill(request);
        Ok(())
    }

    /// Takes the next receive request; `false` if there is none.
    pub(crate) fn take_receive(&mut self, shared: &mut Shared) -> bool {
        if let Some(id) = self.config.srq {
            let Some(srq) = shared.srq_mut(id) else {
                return false;
            };
            return match srq.take(&mut self.responder.taken) {
                Some(reached) => {
                    if reached {
                        shared.events.push_back(Event::SrqLimitReached(id));
                    }
                    self.responder.hold();
                    true
                }
                None => false,
            };
        }
        let Some(work) = self.receives.get_mut(0) else {
            return false;
        };
        std::mem::swap(work, &mut self.responder.taken);
        self.receives.pop();
        self.responder.hold();
        true
    }

    /// Puts the request of a message that will not end back into the shared receive queue that it is from: it is
    /// for another message, of whichever queue pair.
    pub(crate) fn give_back(&mut self, shared: &mut Shared) {
        if self.responder.has_taken()
            && let Some(queue) = self.config.srq.and_then(|srq| shared.srq_mut(srq))
        {
            self.responder.release();
            queue.give_back(&mut self.responder.taken);
        }
    }

    pub(crate) fn copier<'a>(&self, cx: &'a mut Context<'_>) -> Copier<'a> {
        Copier {
            regions: &cx.shared.regions,
            memory: &mut *cx.memory,
            pd: self.config.pd,
        }
    }

    /// The service level of the next packet; `None` of a datagram whose address handle has gone.
    pub(crate) fn sl(&self, shared: &Shared) -> Option<Sl> {
        if self.config.service != Service::Ud {
            return Some(self.attributes.path.sl);
        }
        let destination = self.requester.queue.get(0)?.destination?;
        Some(shared.handle(destination.handle)?.path.sl)
    }

    /// The headers of a packet on a path.
    pub(crate) fn headers(
        &self,
        shared: &Shared,
        path: &Path,
        operation: Operation,
        psn: Psn,
    ) -> IbaPacket {
        IbaPacket {
            vl: shared.vl(path.sl),
            sl: path.sl,
            dlid: path.dlid,
            slid: shared.slid(path),
            global: shared.global(path),
            bth: Bth {
                opcode: Opcode::new(self.config.service, operation),
                solicited: false,
                mig_req: true,
                pad: 0,
                tver: Bth::VERSION,
                pkey: shared.pkey(self.attributes.pkey_index),
                fecn: false,
                becn: false,
                dest_qp: self.attributes.dest_qpn,
                ack_req: false,
                psn,
            },
            extended: ExtendedHeaders::default(),
        }
    }

    /// Whether a packet of a connection comes from the peer, to the LID that the peer was told, and by the
    /// same global route if there is one (IBA 9.6.1).
    fn is_from_peer(&self, shared: &Shared, headers: &IbaPacket) -> bool {
        let path = &self.attributes.path;
        let own = shared.global(path);
        let same_route = match (own, headers.global) {
            (None, None) => true,
            (Some(own), Some(peer)) => own.dgid == peer.sgid && own.sgid == peer.dgid,
            _ => false,
        };
        if !same_route {
            return false;
        }
        let to = shared.path_bits(headers.dlid);
        let local: (Lid, Option<u8>) = (headers.slid, to);
        local == (path.dlid, Some(path.src_path_bits))
    }

    /// Handles a packet.
    pub(crate) fn receive(
        &mut self,
        cx: &mut Context<'_>,
        packet: &Incoming<'_>,
    ) -> Result<(), PacketDrop> {
        if !self.receives() {
            return Err(PacketDrop::State);
        }
        let bth = &packet.headers.bth;
        if !cx.shared.admits_pkey(self.attributes.pkey_index, bth.pkey) {
            return Err(PacketDrop::PKey);
        }
        if self.config.service == Service::Ud {
            return self.receive_datagram(cx, packet);
        }
        if !self.is_from_peer(cx.shared, &packet.headers) {
            return Err(PacketDrop::Peer);
        }
        if !packet.operation.is_request() {
            return self.receive_answer(cx, packet);
        }
        if self.state() == QpState::Rtr {
            self.tell_once(cx.shared, QpEvent::CommunicationEstablished);
        }
        match self.config.service {
            Service::Rc => self.receive_request(cx, packet),
            Service::Uc | Service::Ud => self.receive_unreliable(cx, packet),
        }
    }

    /// Whether it has a packet to send now.
    pub(crate) fn has_output(&self, now: Time) -> bool {
        self.responder_has_output() || self.requester_has_output(now)
    }

    /// Writes the next packet: its length, or `None` if there is none.
    pub(crate) fn transmit(&mut self, cx: &mut Context<'_>, out: &mut [u8]) -> Option<usize> {
        if self.responder_has_output()
            && let Some(len) = self.transmit_answer(cx, out)
        {
            return Some(len);
        }
        let len = match self.config.service {
            Service::Ud => self.transmit_datagram(cx, out),
            Service::Rc | Service::Uc => self.transmit_request(cx, out),
        };
        self.check_drained(cx.shared);
        len
    }

    /// When it has something to do without a packet.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.requester.deadline()
    }
}
