//! What programs on the hosts have asked for, and devices have to be written for.

use link::Time;

use super::Sm;
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
        self.outbox.send_all(responses);
        if self.qos.serve(&self.fabric, self.report.is_up()) {
            self.start_writing(Purpose::Qos);
            return true;
        }
        any
    }
}
