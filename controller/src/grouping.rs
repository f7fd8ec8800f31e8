//! Writing multicast tables when somebody has joined or left.

use link::Time;

use crate::control::Phase;
use crate::program::Programming;
use crate::sm::Sm;
use crate::sweep::Activity;

impl Sm {
    /// Starts to write multicast tables that have changed. `false` if there are none.
    pub(crate) fn serve_groups(&mut self) -> bool {
        let up = matches!(self.report.status.phase, Phase::Up);
        if !up || !self.groups.is_dirty() {
            return false;
        }
        self.groups.start_writing();
        self.activity = Activity::Grouping(Box::new(Programming::of_groups()));
        true
    }

    /// They are written: those who wait are answered.
    pub(crate) fn grouped(&mut self, now: Time, programming: &Programming) {
        let silent = !programming.unreachable(&self.subnet).is_empty();
        if silent || programming.unsettled() {
            self.want_sweep(now);
        }
        self.release_answers();
    }
}
