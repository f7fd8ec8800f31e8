//! Writing multicast tables when somebody has joined or left.

use link::Time;

use crate::control::Phase;
use crate::sm::Sm;
use crate::sweep::Activity;
use crate::writer::Programming;

impl Sm {
    /// Starts to write multicast tables that have changed. `false` if there are none.
    pub(crate) fn serve_groups(&mut self) -> bool {
        let up = matches!(self.report.status.phase, Phase::Up);
        if !up || !self.groups.is_dirty() {
            return false;
        }
        self.groups.start_writing();
        self.activity = Activity::WritingMulticast(Box::new(Programming::of_groups()));
        true
    }

    /// They are written: those who wait are answered.
    pub(crate) fn multicast_written(&mut self, now: Time, programming: &Programming) {
        let silent = !programming.unreachable(&self.subnet).is_empty();
        if silent || programming.needs_resweep() {
            self.request_sweep(now);
        }
        self.release_answers();
    }
}
