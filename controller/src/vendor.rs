//! Requests of the project's own management class: connections with promised bandwidth, and
//! windows. Formats in [`wire::vendor`].
//!
//! A request for a connection waits until no sweep is under way; then the links' books are
//! consulted, the arbitration blocks that change are written, and the answer goes when the devices
//! have confirmed them. Requests are told apart by sender and transaction id: one that is repeated
//! because its answer was late makes no second connection.

use link::Time;
use mad::local::MadMessage;
use wire::vendor::{
    QOS_CHANGE, QOS_CONNECTION, QosCause, QosConnection, WINDOW_REQUEST, WINDOW_STATE,
};
use wire::{Mad, MadHeader, MadStatus, Method, Qpn};

use crate::control::Phase;
use crate::qos::{Datagram, Full};
use crate::sm::{Job, Sm};
use crate::smp::message;
use crate::sweep::Activity;
use crate::windows::RequestError;
use crate::writer::Programming;

impl Sm {
    /// A program on some host asks.
    pub(crate) fn vendor_request(&mut self, now: Time, from: &MadMessage, request: &Mad) {
        let answer = match (request.method(), request.attr_id()) {
            (Method::SET | Method::DELETE, QOS_CONNECTION) => {
                match self.qos.enqueue(now, from.lid, request) {
                    Ok(None) => return,
                    Ok(Some(again)) => again,
                    Err(Full) => answer(request, MadStatus::BUSY),
                }
            }
            (Method::GET, QOS_CONNECTION) => match self.qos.list(request.attr_mod()) {
                Some(connection) => {
                    let mut found = answer(request, MadStatus::OK);
                    found.set_vendor_attribute(&connection);
                    found
                }
                None => answer(request, MadStatus::SA_NO_RECORDS),
            },
            (Method::SET, WINDOW_REQUEST) => self.window_request(now, request),
            (Method::GET, WINDOW_STATE) => {
                let mut found = answer(request, MadStatus::OK);
                found.set_vendor_attribute(&self.windows.state());
                found
            }
            _ => answer(request, MadStatus::BAD_METHOD_ATTRIBUTE),
        };
        self.send(message(from.lid, Qpn::GSI, &answer));
    }

    /// A host answers what it was told.
    pub(crate) fn vendor_answer(&mut self, now: Time, answer: &Mad) {
        match answer.attr_id() {
            QOS_CHANGE => self.qos.notice_acknowledged(answer),
            _ => self.windows.answered(now, answer),
        }
    }

    /// Tells senders of connections what has become of them, now that the tables say so.
    pub(crate) fn send_qos_notices(&mut self, now: Time) {
        for change in self.qos.release_notices(now) {
            self.send(change);
        }
    }

    /// Tells them again what they have not answered.
    pub(crate) fn repeat_qos_notices(&mut self, now: Time) {
        for change in self.qos.poll_notices(now) {
            self.send(change);
        }
    }

    fn window_request(&mut self, now: Time, request: &Mad) -> Mad {
        let Ok(wanted) = request.vendor_attribute() else {
            return answer(request, MadStatus::BAD_FIELD);
        };
        let (subnet, plan) = (&self.subnet, &self.plan);
        let guid_of = |lid| {
            let end = plan.tables.as_ref()?.lids.owner(lid)?.end?;
            Some(subnet.devices.get(end.node.index())?.end_port_guid())
        };
        let status = match self.windows.request(now, &wanted, guid_of) {
            Ok(()) => MadStatus::OK,
            Err(RequestError::TooMany) => MadStatus::BUSY,
            Err(RequestError::NoWindows) => MadStatus::BAD_METHOD_ATTRIBUTE,
            Err(RequestError::NoSuchHost | RequestError::ToItself) => MadStatus::BAD_FIELD,
        };
        answer(request, status)
    }

    /// Serves the requests for connections that wait. Called when nothing else is under way;
    /// `false` if there was nothing to do.
    pub(crate) fn serve_connections(&mut self, now: Time) -> bool {
        let mut served = false;
        while let Some(letter) = self.qos.next() {
            served = true;
            let answer = self.serve_connection(&letter.mad);
            self.qos.answer(Datagram {
                mad: answer,
                ..letter
            });
        }
        if served {
            self.activity = Activity::WritingQos(Box::new(Programming::of_lanes()));
            return true;
        }
        let letters = self.qos.finish(now);
        let any = !letters.is_empty();
        for Datagram { from, mad } in letters {
            self.send(message(from, Qpn::GSI, &mad));
        }
        any
    }

    fn serve_connection(&mut self, request: &Mad) -> Mad {
        let Ok(asked) = request.vendor_attribute::<QosConnection>() else {
            return answer(request, MadStatus::BAD_FIELD);
        };
        let told = if request.method() == Method::DELETE {
            self.qos.release(&mut self.plan, &asked)
        } else if self.report.status.phase == Phase::Up {
            self.qos.connect(&self.subnet, &mut self.plan, &asked)
        } else {
            QosConnection {
                cause: QosCause::NotUp,
                ..asked
            }
        };
        let mut answer = answer(request, MadStatus::OK);
        answer.set_vendor_attribute(&told);
        answer
    }

    /// The arbitration tables are written, or as far as devices answer.
    pub(crate) fn qos_written(&mut self, now: Time, programming: &Programming) {
        if programming.needs_resweep() {
            self.request_sweep(now);
        }
        self.persist();
    }

    /// Sends what windows have to tell.
    pub(crate) fn run_windows(&mut self, now: Time) {
        for told in self.windows.run(now) {
            self.send(told);
        }
    }

    /// Queues the writes of a stage.
    pub(crate) fn push_writes(&mut self, writes: Vec<crate::writer::Write>) {
        for write in writes {
            self.exchange.push(Job::Write(write), self.config.retries);
        }
    }
}

fn answer(request: &Mad, status: MadStatus) -> Mad {
    let mut answer = *request;
    let header = request.header();
    answer.set_header(&MadHeader {
        method: Method(header.method.0 | 0x80),
        status,
        ..header
    });
    answer
}
