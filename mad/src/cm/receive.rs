//! What comes from peers.

use link::Time;
use wire::cm::{
    Apr, Drep, Dreq, Lap, Mra, Rej, RejReason, Rep, Req, Rtu, SidrRep, SidrReq, SidrStatus,
    Subject, id,
};
use wire::{Mad, Qpn};

use super::connection::{Connection, State};
use super::consumer::padded;
use super::{
    Agent, CONNECTIONS_MAX, CmEvent, CmId, REQUESTS_MAX, Route, SERVICE_TIMEOUT, WAIT_NS,
    timeout_ns,
};

impl Agent {
    /// Takes a datagram in. Whether it is a message of communication management that makes sense.
    pub fn receive(&mut self, now: Time, from: Route, mad: &Mad) -> bool {
        if !mad.is_cm() || !from.lid.is_unicast() {
            return false;
        }
        let tid = mad.tid();
        let taken = match mad.attr_id() {
            id::REQ => mad.cm_message().map(|req| self.req(now, from, tid, req)),
            id::MRA => mad.cm_message().map(|mra| self.mra(now, from, &mra)),
            id::REJ => mad.cm_message().map(|rej| self.rej(now, from, rej)),
            id::REP => mad.cm_message().map(|rep| self.rep(now, from, tid, rep)),
            id::RTU => mad.cm_message().map(|rtu| self.rtu(from, &rtu)),
            id::DREQ => mad
                .cm_message()
                .map(|dreq| self.dreq(now, from, tid, &dreq)),
            id::DREP => mad.cm_message().map(|drep| self.drep(now, from, &drep)),
            id::LAP => mad.cm_message().map(|lap| self.lap(from, tid, &lap)),
            id::SIDR_REQ => mad.cm_message().map(|req| self.sidr_req(from, tid, req)),
            id::SIDR_REP => mad.cm_message().map(|rep| self.sidr_rep(from, rep)),
            _ => return false,
        };
        taken.is_ok()
    }

    /// The connection that a message names: by our number, or, where that is 0, by the peer's.
    fn named(&self, from: Route, local: u32, remote: u32) -> Option<u32> {
        let known = match local {
            0 => self.by_peer.get(&(from.lid, remote, false)).copied()?,
            local => local,
        };
        let connection = self.connections.get(&known)?;
        let is_peer = connection.route.lid == from.lid && !connection.is_datagram;
        let is_same = connection.remote_id == 0 || connection.remote_id == remote || remote == 0;
        (is_peer && is_same).then_some(known)
    }

    fn state_of(&self, id: u32) -> Option<State> {
        self.connections.get(&id).map(|connection| connection.state)
    }

    /// Refuses a request for which there is no connection.
    fn reject_unknown(
        &mut self,
        to: Route,
        tid: u64,
        remote: u32,
        message: Subject,
        reason: RejReason,
    ) {
        let rej = Rej {
            local_comm_id: 0,
            remote_comm_id: remote,
            message,
            info_len: 0,
            reason,
            info: [0; 72],
            private_data: [0; Rej::PRIVATE_LEN],
        };
        self.send(to, Mad::cm(tid, &rej));
    }

    fn req(&mut self, now: Time, from: Route, tid: u64, req: Req) {
        let remote = req.local_comm_id;
        if let Some(&id) = self.by_peer.get(&(from.lid, remote, false)) {
            return self.repeated_req(id);
        }
        let refuse = |agent: &mut Self, reason| {
            agent.reject_unknown(from, tid, remote, Subject::Req, reason);
        };
        if !self.services.contains(&req.service_id) {
            return refuse(self, RejReason::INVALID_SERVICE_ID);
        }
        if req.transport_service > 1 {
            return refuse(self, RejReason::INVALID_TRANSPORT);
        }
        if remote == 0 || req.local_qpn == Qpn::default() {
            return refuse(self, RejReason::NO_QP);
        }
        if self.is_stale(now, from, req.local_qpn, None) {
            return refuse(self, RejReason::STALE_CONNECTION);
        }
        if self.connections.len() >= CONNECTIONS_MAX || self.waiting >= REQUESTS_MAX {
            return refuse(self, RejReason::NO_RESOURCES);
        }
        let id = self.draw_id();
        let wait_ns = timeout_ns(req.local_cm_response_timeout);
        let connection = Connection {
            state: State::ReqReceived,
            route: from,
            remote_id: remote,
            own_qpn: Qpn::default(),
            remote_qpn: req.local_qpn,
            message: None,
            tid,
            attempts_left: 0,
            wait_ns: wait_ns.clamp(*WAIT_NS.start(), *WAIT_NS.end()),
            due: None,
            retries: req.max_cm_retries,
            ack_timeout: req.primary.local_ack_timeout,
            is_datagram: false,
            service_id: req.service_id,
            is_owned: true,
        };
        self.insert(id, connection);
        self.events.push_back(CmEvent::Requested {
            id: CmId(id),
            req: Box::new(req),
            route: from,
        });
    }

    /// A REQ that has come before: its answer is lost, or not there yet.
    fn repeated_req(&mut self, id: u32) {
        match self.state_of(id) {
            Some(State::ReqReceived) => self.ask_for_patience(id, Subject::Req),
            Some(State::RepSent) => self.repeat(id),
            _ => {}
        }
    }

    fn ask_for_patience(&mut self, id: u32, message: Subject) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        let mra = Mra {
            local_comm_id: id,
            remote_comm_id: connection.remote_id,
            message,
            service_timeout: SERVICE_TIMEOUT,
            private_data: [0; 222],
        };
        let (route, mad) = (connection.route, Mad::cm(connection.tid, &mra));
        self.send(route, mad);
    }

    /// Whether the peer's queue pair has a connection already, other than `own`. That one is ended.
    fn is_stale(&mut self, now: Time, from: Route, qpn: Qpn, own: Option<u32>) -> bool {
        let Some(&old) = self.by_peer_qpn.get(&(from.lid, qpn)) else {
            return false;
        };
        if Some(old) == own {
            return false;
        }
        let ends = matches!(
            self.state_of(old),
            Some(State::Established | State::RepSent)
        );
        if ends && let Some(connection) = self.remove(old) {
            self.send_dreq(now, old, connection);
        }
        true
    }

    fn mra(&mut self, now: Time, from: Route, mra: &Mra) {
        let Some(id) = self.named(from, mra.remote_comm_id, mra.local_comm_id) else {
            return;
        };
        let fits = matches!(
            (self.state_of(id), mra.message),
            (Some(State::ReqSent), Subject::Req) | (Some(State::RepSent), Subject::Rep)
        );
        if fits && let Some(mut connection) = self.remove(id) {
            let longer = timeout_ns(mra.service_timeout).min(*WAIT_NS.end());
            connection.due = Some(now + longer + connection.wait_ns);
            self.insert(id, connection);
        }
    }

    fn rej(&mut self, now: Time, from: Route, rej: Rej) {
        let Some(id) = self.named(from, rej.remote_comm_id, rej.local_comm_id) else {
            return;
        };
        let Some(connection) = self.remove(id) else {
            return;
        };
        let own = CmId(id);
        let rej = Box::new(rej);
        match connection.state {
            State::ReqSent | State::ReqReceived => {
                // The consumer may not have heard of the request yet.
                self.tell(&connection, CmEvent::Refused { id: own, rej });
            }
            State::RepSent | State::RepReceived => {
                self.tell(&connection, CmEvent::Refused { id: own, rej });
                self.enter_time_wait(now, id, connection.abandoned());
            }
            State::Established => {
                self.tell(&connection, CmEvent::Disconnected { id: own });
                self.enter_time_wait(now, id, connection);
            }
            _ => self.insert(id, connection),
        }
    }

    fn rep(&mut self, now: Time, from: Route, tid: u64, rep: Rep) {
        let (local, remote) = (rep.remote_comm_id, rep.local_comm_id);
        let known = match local {
            0 => None,
            local => self.named(from, local, remote),
        };
        let Some(id) = known else {
            let reason = RejReason::INVALID_COMM_ID;
            return self.reject_unknown(from, tid, remote, Subject::Rep, reason);
        };
        match self.state_of(id) {
            Some(State::ReqSent) => {}
            Some(State::RepReceived) => return self.ask_for_patience(id, Subject::Rep),
            // The RTU is lost.
            Some(State::Established) => return self.repeat(id),
            _ => return,
        }
        if remote == 0 || rep.local_qpn == Qpn::default() {
            return self.reject_unknown(from, tid, remote, Subject::Rep, RejReason::NO_QP);
        }
        if self.is_stale(now, from, rep.local_qpn, Some(id)) {
            let reason = RejReason::STALE_CONNECTION;
            return self.reject_unknown(from, tid, remote, Subject::Rep, reason);
        }
        let Some(mut connection) = self.remove(id) else {
            return;
        };
        connection.remote_id = remote;
        connection.remote_qpn = rep.local_qpn;
        connection.rests(State::RepReceived);
        let rep = Box::new(rep);
        self.tell(&connection, CmEvent::Granted { id: CmId(id), rep });
        self.insert(id, connection);
    }

    fn rtu(&mut self, from: Route, rtu: &Rtu) {
        let known = self.named(from, rtu.remote_comm_id, rtu.local_comm_id);
        if let Some(id) = known
            && self.state_of(id) == Some(State::RepSent)
        {
            self.establish(id);
        }
    }

    /// The peer of a granted connection is ready.
    pub(super) fn establish(&mut self, id: u32) {
        let Some(mut connection) = self.remove(id) else {
            return;
        };
        connection.rests(State::Established);
        self.tell(&connection, CmEvent::Established { id: CmId(id) });
        self.insert(id, connection);
    }

    fn dreq(&mut self, now: Time, from: Route, tid: u64, dreq: &Dreq) {
        let drep = Drep {
            local_comm_id: dreq.remote_comm_id,
            remote_comm_id: dreq.local_comm_id,
            private_data: [0; 224],
        };
        let drep = Mad::cm(tid, &drep);
        let Some(id) = self.named(from, dreq.remote_comm_id, dreq.local_comm_id) else {
            // Its sender waits for nothing else (12.9.8.3.3).
            return self.send(from, drep);
        };
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        if dreq.remote_qpn != connection.own_qpn {
            return;
        }
        match connection.state {
            State::Established | State::RepSent | State::RepReceived | State::DreqSent => {
                self.send(from, drep);
                if let Some(connection) = self.remove(id) {
                    self.tell(&connection, CmEvent::Disconnected { id: CmId(id) });
                    self.enter_time_wait(now, id, connection);
                }
            }
            State::TimeWait => self.send(from, drep),
            _ => {}
        }
    }

    fn drep(&mut self, now: Time, from: Route, drep: &Drep) {
        let known = self.named(from, drep.remote_comm_id, drep.local_comm_id);
        if let Some(id) = known
            && self.state_of(id) == Some(State::DreqSent)
            && let Some(connection) = self.remove(id)
        {
            self.tell(&connection, CmEvent::Disconnected { id: CmId(id) });
            self.enter_time_wait(now, id, connection);
        }
    }

    fn lap(&mut self, from: Route, tid: u64, lap: &Lap) {
        let known = self.named(from, lap.remote_comm_id, lap.local_comm_id);
        if known.and_then(|id| self.state_of(id)) == Some(State::Established) {
            let apr = Apr {
                local_comm_id: lap.remote_comm_id,
                remote_comm_id: lap.local_comm_id,
                info_len: 0,
                status: Apr::NOT_SUPPORTED,
                info: [0; 72],
                private_data: [0; 148],
            };
            self.send(from, Mad::cm(tid, &apr));
        }
    }

    fn sidr_req(&mut self, from: Route, tid: u64, req: SidrReq) {
        let remote = req.request_id;
        if let Some(&id) = self.by_peer.get(&(from.lid, remote, true)) {
            if self.state_of(id) == Some(State::SidrAnswered) {
                self.repeat(id);
            }
            return;
        }
        let is_full = self.connections.len() >= CONNECTIONS_MAX || self.waiting >= REQUESTS_MAX;
        if remote == 0 || is_full || !self.services.contains(&req.service_id) {
            let status = match is_full {
                true => SidrStatus::REJECTED,
                false => SidrStatus::UNSUPPORTED,
            };
            let rep = SidrRep {
                request_id: remote,
                status,
                info_len: 0,
                qpn: Qpn::default(),
                service_id: req.service_id,
                qkey: 0,
                info: [0; 72],
                private_data: padded(&[]),
            };
            return self.send(from, Mad::cm(tid, &rep));
        }
        let id = self.draw_id();
        let connection = Connection {
            state: State::SidrReceived,
            route: from,
            remote_id: remote,
            own_qpn: Qpn::default(),
            remote_qpn: Qpn::default(),
            message: None,
            tid,
            attempts_left: 0,
            wait_ns: 0,
            due: None,
            retries: 0,
            ack_timeout: 0,
            is_datagram: true,
            service_id: req.service_id,
            is_owned: true,
        };
        self.insert(id, connection);
        self.events.push_back(CmEvent::QueuePairRequested {
            id: CmId(id),
            req: Box::new(req),
            route: from,
        });
    }

    fn sidr_rep(&mut self, from: Route, rep: SidrRep) {
        let id = rep.request_id;
        let waits = |connection: &Connection| {
            connection.state == State::SidrSent && connection.route.lid == from.lid
        };
        if self.connections.get(&id).is_some_and(waits)
            && let Some(connection) = self.remove(id)
        {
            let event = CmEvent::Answered {
                id: CmId(id),
                rep: Box::new(rep),
            };
            self.tell(&connection, event);
        }
    }
}
