//! Connections with promised bandwidth (VLARB01): who has asked for one, on which path it stands,
//! and what the ports' tables must therefore hold.
//!
//! The links' admission ([`Admission`]) belong to the plan, since they follow its paths; what was asked
//! for is kept here, so that it outlives a plan. With each new plan every connection is looked at
//! again: while links and paths are as they were nothing moves, not an entry; a connection whose
//! path has changed gives its slots back and asks anew; one that no longer fits is dropped. Its
//! sender is told of that, and of a DLID or service level that has changed ([`change_notices`]).
//!
//! Connections outlive the manager ([`connections_file`]): a new one asks for all of them anew, in the order in
//! which they were connection. Each gets its slots again, though perhaps in other entries of a table
//! than before.
//!
//! Unclassified traffic is best effort, on service level 0 ([`routing::qos::ServiceLevels::BestEffortFirst`]):
//! management datagrams of QP1 travel there, and must before any connection stands.
//!
//! A lane without entries sends nothing, so each connection also owns one slot on every link of the
//! way back from its destination to its source's base LID: what is answered on its service level
//! would be lost otherwise. VLARB01 speaks of one direction only.

mod admission;
mod change_notices;
mod connections_file;
mod ports;

use std::collections::{BTreeMap, VecDeque};

use link::Time;
use mad::local::MadMessage;
use routing::qos::Admission;
use topologies::Endpoint;
use wire::vendor::{QosCause, QosConnection};
use wire::{Guid, Lid, Mad, PortNum};

use crate::ConfigError;
use crate::plan::Plan;
use crate::subnet::Subnet;

use admission::{Reservation, admit, follows_plan, new_admission, path};
use change_notices::ChangeNotices;
pub(crate) use ports::{high_limit, sl2vl, vl_arbitration};

/// The most connections.
const CONNECTIONS_MAX: usize = 65_536;
/// Requests that wait for their turn at most.
const REQUESTS_MAX: usize = 64;
/// Answers that are kept for the case that the request is repeated.
const ANSWERED_MAX: usize = 64;
/// How long they are kept, nanoseconds.
const ANSWERED_NS: u64 = 5_000_000_000;

/// A connection that was connection.
#[derive(Clone, Debug)]
struct Connection {
    asked: QosConnection,
    /// In the admission of the plan.
    reservation: Option<Reservation>,
    /// The output ports of its path, by node GUID.
    path: Vec<(Guid, PortNum)>,
}

/// A request or answer, and whose it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram {
    /// Who asks.
    pub(crate) from: Lid,
    /// The datagram.
    pub(crate) mad: Mad,
}

/// Connections and the requests for them.
#[derive(Debug, Default)]
pub(crate) struct Qos {
    enabled: bool,
    connections: BTreeMap<u32, Connection>,
    last_id: u32,
    /// Requests that wait until nothing else is under way.
    requests: VecDeque<Datagram>,
    /// Answers that wait until the tables are written.
    responses: Vec<Datagram>,
    answered: VecDeque<(Time, Datagram)>,
    /// What senders are to hear.
    change_notices: ChangeNotices,
}

impl Qos {
    /// `enabled`: whether tables are to be filled at all. `persisted`: what [`Self::connections_file`] gave to an
    /// earlier manager.
    ///
    /// # Errors
    /// [`ConfigError::ConnectionsFile`].
    pub(crate) fn new(enabled: bool, persisted: Option<&str>) -> Result<Self, ConfigError> {
        let connections = match persisted {
            Some(text) if enabled => connections_file::parse(text)?,
            _ => Vec::new(),
        };
        let standing = |asked: QosConnection| Connection {
            asked,
            reservation: None,
            path: Vec::new(),
        };
        Ok(Self {
            enabled,
            last_id: connections.iter().map(|one| one.id).max().unwrap_or(0),
            connections: connections
                .into_iter()
                .map(|one| (one.id, standing(one)))
                .collect(),
            ..Self::default()
        })
    }

    /// What a later manager needs to know; `None` if no bandwidth is promised at all.
    pub(crate) fn connections_text(&self) -> Option<String> {
        let connection = self.connections.values();
        self.enabled
            .then(|| connections_file::write(connection.map(|connection| &connection.asked)))
    }

    /// What senders are to hear now that the tables are written.
    pub(crate) fn release_notices(&mut self, now: Time) -> Vec<MadMessage> {
        self.change_notices.release(now)
    }

    /// What they have not answered, and are to hear again.
    pub(crate) fn poll_notices(&mut self, now: Time) -> Vec<MadMessage> {
        self.change_notices.poll(now)
    }

    /// A sender has heard.
    pub(crate) fn notice_acknowledged(&mut self, answer: &Mad) {
        self.change_notices.answered(answer.tid());
    }

    /// When something is to be told again.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.change_notices.deadline()
    }

    /// Takes in a request. Returns an answer if it has been given before; `Err` if too many wait.
    pub(crate) fn enqueue(&mut self, now: Time, from: Lid, mad: &Mad) -> Result<Option<Mad>, Full> {
        self.answered
            .retain(|(at, _)| now.since_ns(*at) < ANSWERED_NS);
        let same = |datagram: &Datagram| datagram.from == from && datagram.mad.tid() == mad.tid();
        let again = self.answered.iter().find(|(_, datagram)| same(datagram));
        if let Some((_, datagram)) = again {
            return Ok(Some(datagram.mad));
        }
        if self.requests.iter().chain(&self.responses).any(same) {
            return Ok(None);
        }
        if self.requests.len() >= REQUESTS_MAX {
            return Err(Full);
        }
        self.requests.push_back(Datagram { from, mad: *mad });
        Ok(None)
    }

    /// The next request, oldest first.
    pub(crate) fn next(&mut self) -> Option<Datagram> {
        self.requests.pop_front()
    }

    /// Keeps an answer until [`Self::finish`].
    pub(crate) fn answer(&mut self, datagram: Datagram) {
        self.responses.push(datagram);
    }

    /// The tables are written: the answers that may go. One whose connection has been dropped in
    /// the meantime says so.
    pub(crate) fn finish(&mut self, now: Time) -> Vec<Datagram> {
        let mut datagrams = core::mem::take(&mut self.responses);
        for datagram in &mut datagrams {
            if let Ok(mut told) = datagram.mad.vendor_attribute::<QosConnection>()
                && datagram.mad.method() == wire::Method::GET_RESP
                && told.cause == QosCause::Granted
                && !self.connections.contains_key(&told.id)
            {
                told.cause = QosCause::NoPath;
                datagram.mad.set_vendor_attribute(&told);
            }
            if self.answered.len() == ANSWERED_MAX {
                self.answered.pop_front();
            }
            self.answered.push_back((now, *datagram));
        }
        datagrams
    }

    /// The first connection whose id is `from` or higher.
    pub(crate) fn list(&self, from: u32) -> Option<QosConnection> {
        let (_, connection) = self.connections.range(from..).next()?;
        Some(connection.asked)
    }

    /// Admits a connection on every link of its path or on none; the answer says which.
    pub(crate) fn connect(
        &mut self,
        subnet: &Subnet,
        plan: &mut Plan,
        asked: &QosConnection,
    ) -> QosConnection {
        let refused = |cause| QosConnection { cause, ..*asked };
        if !self.enabled || plan.admission.is_none() {
            return refused(QosCause::Off);
        }
        if self.connections.len() >= CONNECTIONS_MAX {
            return refused(QosCause::TooMany);
        }
        let (answer, reservation) = admit(subnet, plan, asked);
        let Some(reservation) = reservation else {
            return answer;
        };
        self.last_id = (1..=u32::MAX)
            .map(|step| self.last_id.wrapping_add(step))
            .find(|id| *id != 0 && !self.connections.contains_key(id))
            .unwrap_or(1);
        let answer = QosConnection {
            id: self.last_id,
            ..answer
        };
        let connection = Connection {
            asked: answer,
            reservation: Some(reservation),
            path: path(subnet, plan, &answer),
        };
        self.connections.insert(answer.id, connection);
        answer
    }

    /// Releases a connection; the answer says what it was.
    pub(crate) fn release(&mut self, plan: &mut Plan, asked: &QosConnection) -> QosConnection {
        let Some(connection) = self.connections.remove(&asked.id) else {
            return QosConnection {
                cause: QosCause::NoSuchConnection,
                ..*asked
            };
        };
        self.change_notices.forget(asked.id);
        if let (Some(admission), Some(reservation)) = (&mut plan.admission, connection.reservation)
        {
            reservation.release(admission);
        }
        connection.asked
    }

    /// Opens the admission of a new plan, and enters the connections that stand. `old` are the admission
    /// of the plan before. Returns what is worth telling.
    pub(crate) fn replan(
        &mut self,
        subnet: &Subnet,
        plan: &mut Plan,
        old: Option<Admission>,
    ) -> Vec<String> {
        if !self.enabled {
            return Vec::new();
        }
        let admission = match new_admission(subnet, plan) {
            Ok(admission) => admission,
            Err(why) => {
                let mut notices = vec![format!("--qos vlarb01: {why}; no bandwidth is promised")];
                for lost in core::mem::take(&mut self.connections).into_values() {
                    let lost = QosConnection {
                        cause: QosCause::Off,
                        ..lost.asked
                    };
                    notices.push(dropped(subnet, &lost));
                    self.notify_sender(subnet, plan, lost);
                }
                return notices;
            }
        };
        let rates = |admission: &Admission| -> Vec<(Endpoint, u64)> {
            let links = admission.links();
            links.map(|(end, link)| (end, link.link_bps())).collect()
        };
        let kept = old
            .filter(|old| old.options() == admission.options() && rates(old) == rates(&admission));
        if kept.is_none() {
            for connection in self.connections.values_mut() {
                connection.reservation = None;
            }
        }
        plan.admission = Some(kept.unwrap_or(admission));
        self.readmit(subnet, plan)
    }

    fn readmit(&mut self, subnet: &Subnet, plan: &mut Plan) -> Vec<String> {
        let moved: Vec<u32> = self
            .connections
            .iter()
            .filter(|(_, connection)| {
                let stays =
                    |reservation| follows_plan(subnet, plan, &connection.asked, reservation);
                !connection.reservation.is_some_and(stays)
            })
            .map(|(&id, _)| id)
            .collect();
        // All slots that are given back are there before the first is asked for again.
        for id in &moved {
            let reservation = self
                .connections
                .get_mut(id)
                .and_then(|one| one.reservation.take());
            if let (Some(admission), Some(reservation)) = (&mut plan.admission, reservation) {
                reservation.release(admission);
            }
        }
        // Whoever keeps its path comes before those that need another one.
        let (stay, go): (Vec<u32>, Vec<u32>) = moved.into_iter().partition(|id| {
            let connection = self.connections.get(id);
            connection
                .is_some_and(|connection| connection.path == path(subnet, plan, &connection.asked))
        });
        let mut notices = Vec::new();
        for id in stay.into_iter().chain(go) {
            let Some(connection) = self.connections.get_mut(&id) else {
                continue;
            };
            let (answer, reservation) = admit(subnet, plan, &connection.asked);
            if reservation.is_none() {
                notices.push(dropped(subnet, &answer));
                self.connections.remove(&id);
                self.notify_sender(subnet, plan, answer);
                continue;
            }
            let moved = (answer.dlid, answer.sl) != (connection.asked.dlid, connection.asked.sl);
            connection.asked = answer;
            connection.reservation = reservation;
            connection.path = path(subnet, plan, &answer);
            if moved {
                notices.push(format!(
                    "connection {id} must use another destination LID or service level from now \
                     on: LID {}, SL {}",
                    answer.dlid, answer.sl
                ));
                self.notify_sender(subnet, plan, answer);
            }
        }
        notices
    }

    /// The sender of a connection is to hear what has become of it, if it is there.
    fn notify_sender(&mut self, subnet: &Subnet, plan: &Plan, change: QosConnection) {
        let sender = subnet.find_end_port(change.source);
        match sender.and_then(|index| plan.lid(index)) {
            Some((lid, _)) => self.change_notices.add(lid, change),
            None => self.change_notices.forget(change.id),
        }
    }
}

/// Too many requests wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

fn dropped(subnet: &Subnet, lost: &QosConnection) -> String {
    let name = |guid| {
        let index = subnet.find_end_port(guid);
        index.map_or_else(|| guid.to_string(), |index| subnet.devices[index].label())
    };
    format!(
        "connection {} from {} to {} is dropped: its path has changed and there is no room for it \
         ({:?})",
        lost.id,
        name(lost.source),
        name(lost.destination),
        lost.cause
    )
}
