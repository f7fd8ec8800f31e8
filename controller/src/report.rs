//! What the manager tells: events for its shell, and the standing report for who asks.

use std::collections::VecDeque;

use crate::SmEvent;
use crate::control::{LIST_MAX, Phase, Status, Unreachable};

/// How many events wait at most; the oldest go first.
const EVENTS_MAX: usize = 4096;

/// Events and status.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// What is reported; counters of SMPs are filled in when it is asked for.
    pub(crate) status: Status,
    events: VecDeque<SmEvent>,
}

impl Report {
    /// Adds an event.
    pub(crate) fn tell(&mut self, event: SmEvent) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// The oldest event.
    pub(crate) fn poll(&mut self) -> Option<SmEvent> {
        self.events.pop_front()
    }

    /// Adds a warning. One that is still in the list of warnings is not told again.
    pub(crate) fn warn(&mut self, text: String) {
        let warnings = &mut self.status.warnings;
        if warnings.contains(&text) {
            return;
        }
        if warnings.len() == LIST_MAX {
            warnings.remove(0);
        }
        warnings.push(text.clone());
        self.tell(SmEvent::Warning(text));
    }

    /// Enters a phase.
    pub(crate) fn enter(&mut self, phase: Phase) {
        if self.status.phase == phase {
            return;
        }
        self.status.phase = phase.clone();
        if let Phase::Failed { reason } = &phase {
            self.tell(SmEvent::Failed {
                reason: reason.clone(),
            });
        }
        self.tell(SmEvent::Phase(phase));
    }

    /// Replaces the list of what cannot be managed; what is new on it is warned of.
    pub(crate) fn unreachable(&mut self, mut list: Vec<Unreachable>) {
        list.truncate(LIST_MAX);
        for device in &list {
            if !self.status.unreachable.contains(device) {
                let Unreachable { name, reason, .. } = device;
                self.warn(format!("{name} is left out: it {reason}"));
            }
        }
        self.status.unreachable = list;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_that_stands_is_told_once_and_the_list_is_bounded() {
        let mut report = Report::default();
        report.warn("the same".into());
        report.warn("the same".into());
        assert!(report.poll().is_some());
        assert!(report.poll().is_none());
        for number in 0..LIST_MAX {
            report.warn(number.to_string());
        }
        assert_eq!(report.status.warnings.len(), LIST_MAX);
        assert_eq!(report.status.warnings[0], "0");
    }
}
