//! QoS: connections with promised bandwidth (VLARB01), the paths on which they stand, and what the
//! ports' tables must therefore hold.
//!
//! [`Admission`] knows what each link has promised. With each new plan every connection is checked:
//! while links and paths are as they were, no entry changes; a connection whose path has changed
//! releases its slots and is admitted anew; one that no longer fits is dropped. Its sender is
//! notified of that, and of a changed DLID or service level ([`change_notices`]).
//!
//! Connections outlive the manager ([`connections_file`]): the next one admits them anew, in the
//! order in which they were granted. Each gets its slots again, though perhaps in other entries of
//! a table than before.
//!
//! Unclassified traffic is best effort, on service level 0
//! ([`routing::qos::ServiceLevels::BestEffortFirst`]): management datagrams of QP1 use it, and must
//! pass before any connection stands.
//!
//! A VL without arbitration entries sends nothing, so each connection also owns one slot on every
//! link of the path back from its destination to its source's base LID: replies on its service
//! level would be lost otherwise. VLARB01 considers one direction only.

mod admission;
mod change_notices;
mod connections_file;
mod ports;
mod requests;

use std::collections::BTreeMap;

use link::Time;
use mad::local::MadMessage;
use routing::qos::Admission;
use topologies::Endpoint;
use wire::vendor::{QosCause, QosConnection};
use wire::{Guid, Lid, Mad, MadStatus, Method, PortNum, Qpn};

use crate::ConfigError;
use crate::fabric::Fabric;
use crate::plan::Plan;
use crate::smp::message;
use crate::subnet::Subnet;
use crate::vendor;

use admission::{Reservation, admit, follows_plan, new_admission, path};
use change_notices::ChangeNotices;
pub(crate) use ports::{high_limit, sl2vl, vl_arbitration};
use requests::{Added, Datagram, Requests};

/// The most connections.
const CONNECTIONS_MAX: usize = 65_536;

/// A connection that was granted.
#[derive(Clone, Debug)]
struct Connection {
    granted: QosConnection,
    /// Its slots; `None` until it is admitted under the current plan.
    reservation: Option<Reservation>,
    /// The output ports of its path, by node GUID.
    path: Vec<(Guid, PortNum)>,
}

/// Connections and the requests for them.
#[derive(Debug, Default)]
pub(crate) struct Qos {
    enabled: bool,
    /// What each link of the current plan has promised; `None` while nothing can be promised.
    admission: Option<Admission>,
    connections: BTreeMap<u32, Connection>,
    /// Why nothing can be promised under the current plan, if so.
    refusal: Option<String>,
    last_id: u32,
    requests: Requests,
    change_notices: ChangeNotices,
}

impl Qos {
    /// `enabled`: whether bandwidth is promised at all. `persisted`: the text that
    /// [`Self::connections_text`] gave to an earlier manager.
    ///
    /// # Errors
    /// [`ConfigError::ConnectionsFile`].
    pub(crate) fn new(enabled: bool, persisted: Option<&str>) -> Result<Self, ConfigError> {
        let connections = match persisted {
            Some(text) if enabled => connections_file::parse(text)?,
            _ => Vec::new(),
        };
        let not_admitted = |granted: QosConnection| Connection {
            granted,
            reservation: None,
            path: Vec::new(),
        };
        Ok(Self {
            enabled,
            last_id: connections.iter().map(|one| one.id).max().unwrap_or(0),
            connections: connections
                .into_iter()
                .map(|one| (one.id, not_admitted(one)))
                .collect(),
            ..Self::default()
        })
    }

    /// What a later manager needs to know; `None` if no bandwidth is promised at all.
    pub(crate) fn connections_text(&self) -> Option<String> {
        let connections = self.connections.values();
        self.enabled
            .then(|| connections_file::write(connections.map(|connection| &connection.granted)))
    }

    /// What each link has promised, if anything can be promised.
    pub(crate) fn admission(&self) -> Option<&Admission> {
        self.admission.as_ref()
    }

    /// Why nothing can be promised under the current plan, if so.
    pub(crate) fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// The tables are written: the notices to send to senders of connections that have changed.
    pub(crate) fn release_notices(&mut self, now: Time) -> Vec<MadMessage> {
        self.change_notices.release(now)
    }

    /// The notices to send again.
    pub(crate) fn poll_notices(&mut self, now: Time) -> Vec<MadMessage> {
        self.change_notices.poll(now)
    }

    /// A sender has answered a notice.
    pub(crate) fn notice_acknowledged(&mut self, answer: &Mad) {
        self.change_notices.answered(answer.tid());
    }

    /// When a notice is to be sent again.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.change_notices.deadline()
    }

    /// Takes in a request from the host at `lid`. Returns the response, unless it waits for tables.
    pub(crate) fn request(&mut self, now: Time, lid: Lid, request: &Mad) -> Option<Mad> {
        match request.method() {
            Method::SET | Method::DELETE => match self.requests.add(now, lid, request) {
                Added::Waiting => None,
                Added::Repeated(response) => Some(response),
                Added::Full => Some(vendor::response(request, MadStatus::BUSY)),
            },
            Method::GET => {
                let mut found = self.connections.range(request.attr_mod()..);
                Some(match found.next() {
                    Some((_, connection)) => {
                        let mut response = vendor::response(request, MadStatus::OK);
                        response.set_vendor_attribute(&connection.granted);
                        response
                    }
                    None => vendor::response(request, MadStatus::SA_NO_RECORDS),
                })
            }
            _ => Some(vendor::response(request, MadStatus::BAD_METHOD_ATTRIBUTE)),
        }
    }

    /// Serves the requests that wait; `is_up`: whether the subnet is up. `true` if there were any:
    /// then tables are to be written.
    pub(crate) fn serve(&mut self, fabric: &Fabric, is_up: bool) -> bool {
        let mut served = false;
        while let Some(Datagram { lid, mad }) = self.requests.next() {
            served = true;
            let mad = self.serve_one(fabric, is_up, lid, &mad);
            self.requests.respond(Datagram { lid, mad });
        }
        served
    }

    fn serve_one(&mut self, fabric: &Fabric, is_up: bool, lid: Lid, request: &Mad) -> Mad {
        let Ok(asked) = request.vendor_attribute::<QosConnection>() else {
            return vendor::response(request, MadStatus::BAD_FIELD);
        };
        let known = self.connections.get(&asked.id).map(|one| &one.granted);
        let answer = if request.method() == Method::DELETE {
            if known.is_some_and(|one| !fabric.may_act_for(lid, [one.source, one.destination])) {
                // While the subnet is not up, LIDs tell nothing of who asks.
                let status = match is_up {
                    true => MadStatus::SA_DENIED,
                    false => MadStatus::BUSY,
                };
                return vendor::response(request, status);
            }
            self.release(&asked)
        } else if is_up {
            self.connect(&fabric.subnet, &fabric.plan, &asked)
        } else {
            QosConnection {
                cause: QosCause::NotUp,
                ..asked
            }
        };
        let mut response = vendor::response(request, MadStatus::OK);
        response.set_vendor_attribute(&answer);
        response
    }

    /// The tables are written: the responses to send. One whose connection has been dropped in the
    /// meantime says so.
    pub(crate) fn take_responses(&mut self, now: Time) -> Vec<MadMessage> {
        let connections = &self.connections;
        let responses = self.requests.take_responses(now, |mad| {
            if let Ok(mut answer) = mad.vendor_attribute::<QosConnection>()
                && mad.method() != Method::DELETE_RESP
                && answer.cause == QosCause::Granted
                && !connections.contains_key(&answer.id)
            {
                answer.cause = QosCause::NoPath;
                mad.set_vendor_attribute(&answer);
            }
        });
        responses
            .iter()
            .map(|Datagram { lid, mad }| message(*lid, Qpn::GSI, mad))
            .collect()
    }

    /// Admits a connection on every link of its path or on none; the answer tells which.
    fn connect(&mut self, subnet: &Subnet, plan: &Plan, asked: &QosConnection) -> QosConnection {
        let refused = |cause| QosConnection { cause, ..*asked };
        let Some(admission) = &mut self.admission else {
            return refused(QosCause::Off);
        };
        if self.connections.len() >= CONNECTIONS_MAX {
            return refused(QosCause::TooMany);
        }
        let (answer, reservation) = admit(subnet, plan, admission, asked);
        if reservation.is_none() {
            return answer;
        }
        self.last_id = (1..=u32::MAX)
            .map(|step| self.last_id.wrapping_add(step))
            .find(|id| *id != 0 && !self.connections.contains_key(id))
            .unwrap_or(1);
        let granted = QosConnection {
            id: self.last_id,
            ..answer
        };
        let connection = Connection {
            granted,
            reservation,
            path: path(subnet, plan, &granted),
        };
        self.connections.insert(granted.id, connection);
        granted
    }

    /// Releases a connection; the answer describes it.
    fn release(&mut self, asked: &QosConnection) -> QosConnection {
        let Some(connection) = self.connections.remove(&asked.id) else {
            return QosConnection {
                cause: QosCause::NoSuchConnection,
                ..*asked
            };
        };
        self.change_notices.forget(asked.id);
        if let (Some(admission), Some(reservation)) = (&mut self.admission, connection.reservation)
        {
            reservation.release(admission);
        }
        connection.granted
    }

    /// There is no plan any more: nothing can be promised until the next.
    pub(crate) fn withdraw(&mut self) {
        self.admission = None;
    }

    /// Admits the connections that stand under a new plan. Returns warnings.
    pub(crate) fn replan(&mut self, subnet: &Subnet, plan: &Plan) -> Vec<String> {
        if !self.enabled {
            return Vec::new();
        }
        let old = self.admission.take();
        self.refusal = None;
        let new = match new_admission(subnet, plan) {
            Ok(new) => new,
            Err(reason) => return self.drop_all(subnet, plan, &reason),
        };
        let rates = |admission: &Admission| -> Vec<(Endpoint, u64)> {
            let links = admission.links();
            links.map(|(end, link)| (end, link.link_bps())).collect()
        };
        let unchanged =
            old.filter(|old| old.options() == new.options() && rates(old) == rates(&new));
        if unchanged.is_none() {
            for connection in self.connections.values_mut() {
                connection.reservation = None;
            }
        }
        let mut admission = unchanged.unwrap_or(new);
        let warnings = self.readmit(subnet, plan, &mut admission);
        self.admission = Some(admission);
        warnings
    }

    /// Nothing can be promised under the new plan.
    fn drop_all(&mut self, subnet: &Subnet, plan: &Plan, reason: &str) -> Vec<String> {
        self.refusal = Some(format!("--qos vlarb01: {reason}; no bandwidth is promised"));
        let mut warnings = Vec::new();
        for lost in core::mem::take(&mut self.connections).into_values() {
            let lost = QosConnection {
                cause: QosCause::Off,
                ..lost.granted
            };
            warnings.push(dropped(subnet, &lost));
            self.notify_sender(subnet, plan, lost);
        }
        warnings
    }

    fn readmit(&mut self, subnet: &Subnet, plan: &Plan, admission: &mut Admission) -> Vec<String> {
        let moved: Vec<u32> = self
            .connections
            .iter()
            .filter(|(_, connection)| {
                let stays = |reservation| {
                    follows_plan(subnet, plan, admission, &connection.granted, reservation)
                };
                !connection.reservation.is_some_and(stays)
            })
            .map(|(&id, _)| id)
            .collect();
        // All slots are released before the first connection is admitted anew.
        for id in &moved {
            let connection = self.connections.get_mut(id);
            if let Some(reservation) = connection.and_then(|one| one.reservation.take()) {
                reservation.release(admission);
            }
        }
        // Connections that keep their path come before those that need another one.
        let (same_path, new_path): (Vec<u32>, Vec<u32>) = moved.into_iter().partition(|id| {
            let connection = self.connections.get(id);
            connection.is_some_and(|one| one.path == path(subnet, plan, &one.granted))
        });
        let mut warnings = Vec::new();
        for id in same_path.into_iter().chain(new_path) {
            let Some(connection) = self.connections.get_mut(&id) else {
                continue;
            };
            let (answer, reservation) = admit(subnet, plan, admission, &connection.granted);
            if reservation.is_none() {
                warnings.push(dropped(subnet, &answer));
                self.connections.remove(&id);
                self.notify_sender(subnet, plan, answer);
                continue;
            }
            let before = connection.granted;
            connection.granted = answer;
            connection.reservation = reservation;
            connection.path = path(subnet, plan, &answer);
            if (answer.dlid, answer.sl) != (before.dlid, before.sl) {
                warnings.push(format!(
                    "connection {id} must use another destination LID or service level from now \
                     on: LID {}, SL {}",
                    answer.dlid, answer.sl
                ));
                self.notify_sender(subnet, plan, answer);
            }
        }
        warnings
    }

    /// Notifies the sender of a connection of its change, if the sender is there.
    fn notify_sender(&mut self, subnet: &Subnet, plan: &Plan, change: QosConnection) {
        let sender = subnet.find_end_port(change.source);
        match sender.and_then(|index| plan.lid(index)) {
            Some((lid, _)) => self.change_notices.add(lid, change),
            None => self.change_notices.forget(change.id),
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_while_the_subnet_is_not_up_is_busy_and_not_denied() {
        let mut qos = Qos::new(true, None).unwrap();
        let granted = QosConnection {
            id: 1,
            ..QosConnection::default()
        };
        let connection = Connection {
            granted,
            reservation: None,
            path: Vec::new(),
        };
        qos.connections.insert(1, connection);
        let release = Mad::vendor(Method::DELETE, 0, 7, &granted);
        let mut status = |is_up| {
            let answer = qos.serve_one(&Fabric::default(), is_up, Lid::new(4), &release);
            answer.status()
        };
        assert_eq!(status(false), MadStatus::BUSY);
        assert_eq!(status(true), MadStatus::SA_DENIED);
        assert!(qos.connections.contains_key(&1), "it stands");
    }
}
