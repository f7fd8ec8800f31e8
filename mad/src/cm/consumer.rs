//! What the consumer wants.

use link::Time;
use wire::cm::{Dreq, Rej, RejReason, Rep, Req, SidrRep, SidrReq, SidrStatus, Subject};
use wire::{Mad, Qpn};

use super::connection::{Connection, State};
use super::{Agent, CONNECTIONS_MAX, CmError, CmId, Route, WAIT_NS, rtu, timeout_ns};

/// Why the consumer refuses, and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: RejReason,
    /// Additional information; what is beyond 72 bytes is left out.
    pub info: Vec<u8>,
    /// Private data; what is beyond 148 bytes is left out.
    pub private_data: Vec<u8>,
}

impl Refusal {
    /// Without more words.
    #[must_use]
    pub fn because(reason: RejReason) -> Self {
        Self {
            reason,
            info: Vec::new(),
            private_data: Vec::new(),
        }
    }
}

fn wait_ns(code: u8) -> u64 {
    timeout_ns(code).clamp(*WAIT_NS.start(), *WAIT_NS.end())
}

impl Agent {
    /// Asks a peer for a connection. The communication id of `req` is chosen here.
    ///
    /// # Errors
    /// [`CmError::Full`].
    pub fn connect(&mut self, now: Time, route: Route, mut req: Req) -> Result<CmId, CmError> {
        if self.connections.len() >= CONNECTIONS_MAX {
            return Err(CmError::Full);
        }
        let id = self.draw_id();
        req.local_comm_id = id;
        let tid = self.next_tid();
        let mut connection = Connection {
            state: State::ReqSent,
            route,
            remote_id: 0,
            own_qpn: req.local_qpn,
            remote_qpn: Qpn::default(),
            message: None,
            tid,
            attempts_left: 0,
            wait_ns: wait_ns(req.remote_cm_response_timeout),
            due: None,
            retries: req.max_cm_retries,
            ack_timeout: req.primary.local_ack_timeout,
            is_datagram: false,
            service_id: req.service_id,
            is_owned: true,
        };
        connection.awaits(now, State::ReqSent, Mad::cm(tid, &req));
        self.insert(id, connection);
        self.repeat(id);
        Ok(CmId(id))
    }

    /// Takes a connection out if it is in a state that `fits`.
    fn take(&mut self, id: CmId, fits: impl Fn(State) -> bool) -> Result<Connection, CmError> {
        let connection = self.connections.get(&id.0).ok_or(CmError::NoConnection)?;
        if !connection.is_owned {
            return Err(CmError::NoConnection);
        }
        if !fits(connection.state) {
            return Err(CmError::State);
        }
        self.remove(id.0).ok_or(CmError::NoConnection)
    }

    /// Grants a connection that a peer asks for. The communication ids of `rep` are put in here.
    ///
    /// # Errors
    /// [`CmError`]: it does not wait for this.
    pub fn grant(&mut self, now: Time, id: CmId, mut rep: Rep) -> Result<(), CmError> {
        let mut connection = self.take(id, |state| state == State::ReqReceived)?;
        rep.local_comm_id = id.0;
        rep.remote_comm_id = connection.remote_id;
        connection.own_qpn = rep.local_qpn;
        connection.awaits(now, State::RepSent, Mad::cm(connection.tid, &rep));
        self.insert(id.0, connection);
        self.repeat(id.0);
        Ok(())
    }

    /// The queue pair of a granted connection is ready.
    ///
    /// # Errors
    /// [`CmError`]: the connection is not granted.
    pub fn ready(&mut self, id: CmId) -> Result<(), CmError> {
        let mut connection = self.take(id, |state| state == State::RepReceived)?;
        let message = Mad::cm(connection.tid, &rtu(id.0, connection.remote_id));
        connection.rests(State::Established);
        connection.message = Some(Box::new(message));
        self.insert(id.0, connection);
        self.repeat(id.0);
        Ok(())
    }

    /// Refuses what a peer asks, or what it has granted.
    ///
    /// # Errors
    /// [`CmError`]: there is nothing to refuse.
    pub fn refuse(&mut self, now: Time, id: CmId, refusal: &Refusal) -> Result<(), CmError> {
        let refusable = |state| {
            matches!(
                state,
                State::ReqReceived | State::RepReceived | State::RepSent
            )
        };
        let connection = self.take(id, refusable)?;
        self.send_rej(&connection, id.0, refusal);
        if connection.state != State::ReqReceived {
            self.enter_time_wait(now, id.0, connection.abandoned());
        }
        Ok(())
    }

    /// Ends a connection.
    ///
    /// # Errors
    /// [`CmError`]: it is not established.
    pub fn disconnect(&mut self, now: Time, id: CmId) -> Result<(), CmError> {
        let stands = |state| matches!(state, State::Established | State::RepSent);
        let connection = self.take(id, stands)?;
        self.send_dreq(now, id.0, connection);
        Ok(())
    }

    pub(super) fn send_dreq(&mut self, now: Time, id: u32, mut connection: Connection) {
        let dreq = Dreq {
            local_comm_id: id,
            remote_comm_id: connection.remote_id,
            remote_qpn: connection.remote_qpn,
            private_data: [0; 220],
        };
        let mad = Mad::cm(self.next_tid(), &dreq);
        connection.awaits(now, State::DreqSent, mad);
        self.insert(id, connection);
        self.repeat(id);
    }

    /// The consumer hears no more of a connection or a request; what is left to be said to the peer is said.
    pub fn forget(&mut self, now: Time, id: CmId) {
        let Some(connection) = self.remove(id.0) else {
            return;
        };
        let id = id.0;
        match connection.state {
            State::ReqSent => self.reject(&connection, id, RejReason::TIMEOUT),
            State::ReqReceived => self.reject(&connection, id, RejReason::CONSUMER),
            State::RepSent | State::RepReceived => {
                self.reject(&connection, id, RejReason::CONSUMER);
                self.enter_time_wait(now, id, connection.abandoned());
            }
            State::Established => self.send_dreq(now, id, connection.abandoned()),
            State::DreqSent | State::TimeWait | State::SidrAnswered => {
                self.insert(id, connection.abandoned());
            }
            State::SidrSent => {}
            State::SidrReceived => {
                self.insert(id, connection);
                // It is there, and waits for this.
                let _ = self.answer(now, CmId(id), SidrStatus::REJECTED, None, &[]);
            }
        }
        self.events.retain(|event| event.id() != CmId(id));
    }

    /// Data has come for a queue pair: its peer is ready, whether or not its RTU comes.
    pub fn data_has_come(&mut self, qpn: Qpn) {
        let Some(&id) = self.by_own_qpn.get(&qpn) else {
            return;
        };
        self.presume_ready(CmId(id));
    }

    /// The consumer knows that the peer of a granted connection is ready.
    pub fn presume_ready(&mut self, id: CmId) {
        let waits = self.connections.get(&id.0);
        if waits.is_some_and(|connection| connection.state == State::RepSent) {
            self.establish(id.0);
        }
    }

    /// Asks a peer for the queue pair of a service. The request's number is chosen here.
    ///
    /// # Errors
    /// [`CmError::Full`].
    pub fn ask(
        &mut self,
        now: Time,
        route: Route,
        mut req: SidrReq,
        (response_timeout, retries): (u8, u8),
    ) -> Result<CmId, CmError> {
        if self.connections.len() >= CONNECTIONS_MAX {
            return Err(CmError::Full);
        }
        let id = self.draw_id();
        req.request_id = id;
        let tid = self.next_tid();
        let mut connection = Connection {
            state: State::SidrSent,
            route,
            remote_id: 0,
            own_qpn: Qpn::default(),
            remote_qpn: Qpn::default(),
            message: None,
            tid,
            attempts_left: 0,
            wait_ns: wait_ns(response_timeout),
            due: None,
            retries,
            ack_timeout: 0,
            is_datagram: true,
            service_id: req.service_id,
            is_owned: true,
        };
        connection.awaits(now, State::SidrSent, Mad::cm(tid, &req));
        self.insert(id, connection);
        self.repeat(id);
        Ok(CmId(id))
    }

    /// Answers a request for a queue pair: its number and Q_Key, or why there is none.
    ///
    /// # Errors
    /// [`CmError`]: nothing is asked.
    pub fn answer(
        &mut self,
        now: Time,
        id: CmId,
        status: SidrStatus,
        queue_pair: Option<(Qpn, u32)>,
        private_data: &[u8],
    ) -> Result<(), CmError> {
        let mut connection = self.take(id, |state| state == State::SidrReceived)?;
        let (qpn, qkey) = queue_pair.unwrap_or_default();
        let rep = SidrRep {
            request_id: connection.remote_id,
            status,
            info_len: 0,
            qpn,
            service_id: connection.service_id,
            qkey,
            info: [0; 72],
            private_data: padded(private_data),
        };
        let mad = Mad::cm(connection.tid, &rep);
        connection.rests(State::SidrAnswered);
        connection.message = Some(Box::new(mad));
        connection.due = Some(now + super::TIME_WAIT_NS_MAX);
        connection.is_owned = false;
        self.insert(id.0, connection);
        self.repeat(id.0);
        Ok(())
    }

    pub(super) fn reject(&mut self, connection: &Connection, id: u32, reason: RejReason) {
        self.send_rej(connection, id, &Refusal::because(reason));
    }

    fn send_rej(&mut self, connection: &Connection, id: u32, refusal: &Refusal) {
        let message = match connection.state {
            State::ReqReceived => Subject::Req,
            State::RepReceived => Subject::Rep,
            _ => Subject::Other,
        };
        let rej = Rej {
            local_comm_id: id,
            remote_comm_id: connection.remote_id,
            message,
            info_len: u8::try_from(refusal.info.len().min(72)).unwrap_or(72),
            reason: refusal.reason,
            info: padded(&refusal.info),
            private_data: padded(&refusal.private_data),
        };
        self.send(connection.route, Mad::cm(connection.tid, &rej));
    }
}

impl super::CmEvent {
    /// Of which connection or request it tells.
    #[must_use]
    pub fn id(&self) -> CmId {
        match self {
            Self::Requested { id, .. }
            | Self::Granted { id, .. }
            | Self::Refused { id, .. }
            | Self::Established { id }
            | Self::Unreachable { id }
            | Self::Disconnected { id }
            | Self::TimeWaitOver { id }
            | Self::QueuePairRequested { id, .. }
            | Self::Answered { id, .. } => *id,
        }
    }
}

/// The bytes, and zeros behind them; what is beyond is left out.
pub(super) fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    let len = bytes.len().min(N);
    out[..len].copy_from_slice(&bytes[..len]);
    out
}
