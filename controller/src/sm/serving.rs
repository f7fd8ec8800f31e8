//! What programs on the hosts have asked for, and devices have to be written for.

use link::Time;
use wire::mad::MadStatus;
use wire::vendor::{QosCause, QosConnection};
use wire::{Guid, Mad, Method};

use super::Sm;
use crate::log::Happening;
use crate::schedule::Cause;
use crate::writer::Purpose;

impl Sm {
    /// Starts to write multicast tables that have changed. `false` if there are none.
    pub(super) fn serve_groups(&mut self) -> bool {
        if !self.report.is_up() || !self.groups.is_dirty() {
            return false;
        }
        self.groups.start_writing();
        self.start_writing(Purpose::Multicast);
        true
    }

    /// Starts to write alias GUIDs that have changed. `false` if there are none.
    pub(super) fn serve_aliases(&mut self) -> bool {
        let has_changed = self.report.is_up() && self.aliases.start_writing();
        if has_changed {
            self.start_writing(Purpose::Guids);
        }
        has_changed
    }

    /// Sends the responses for which tables have been written, then serves the requests for
    /// connections that wait. `false` if there was nothing to do.
    ///
    /// Responses come first: else hosts that go on asking would keep them back without end.
    pub(super) fn serve_qos(&mut self, now: Time) -> bool {
        let responses = self.qos.take_responses(now);
        let any = !responses.is_empty();
        for response in &responses {
            self.log_connection(&Mad::from_bytes(*response.mad));
        }
        self.outbox.send_all(responses);
        if self.qos.serve(&self.fabric, self.report.is_up()) {
            self.start_writing(Purpose::Qos);
            return true;
        }
        any
    }

    fn log_connection(&mut self, response: &Mad) {
        let Ok(connection) = response.vendor_attribute::<QosConnection>() else {
            return;
        };
        if response.status() != MadStatus::OK {
            return;
        }
        let outcome = match (response.method(), connection.cause) {
            (Method::DELETE_RESP, QosCause::Granted) => "released",
            (Method::DELETE_RESP, _) => return,
            (_, QosCause::Granted) => "admitted",
            (_, _) => "refused",
        };
        let name_of = |port: Guid| {
            let names = self.inventory.names();
            let subnet = &self.fabric.subnet;
            let device = subnet
                .find_end_port(port)
                .map(|at| subnet.devices[at].label());
            device.or_else(|| names.get(&port).cloned())
        };
        let name = |port: Guid| name_of(port).unwrap_or_else(|| format!("port {port}"));
        self.report.note(Happening::Connection {
            id: connection.id,
            source: name(connection.source),
            destination: name(connection.destination),
            rate_bps: connection.rate_bps,
            outcome: outcome.to_owned(),
        });
    }

    /// Why a sweep begins, for people.
    pub(super) fn words_of(&self, cause: Cause) -> String {
        match cause {
            Cause::Start => "the manager has started".to_owned(),
            Cause::Trap(number, issuer) => format!("trap {number} of {}", self.name_of(issuer)),
            Cause::Request => "it was asked for".to_owned(),
            Cause::Change => "a device shows a change of which no trap has told".to_owned(),
            Cause::Overtaken => "something has changed during the sweep before".to_owned(),
            Cause::Incomplete => "the sweep before has left something out".to_owned(),
            Cause::OwnHost => "the manager's host was restarted or has no link".to_owned(),
            Cause::Managers => "another manager has come, gone or handed over".to_owned(),
            Cause::Measured => "measurement has chosen another routing engine".to_owned(),
        }
    }
}
