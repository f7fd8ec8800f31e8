//! What the manager tells: events for its shell, and the sweep_warnings report for who asks.

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
    /// Warnings that the last sweep gave.
    sweep_warnings: Vec<String>,
}

impl Report {
    /// Adds an event.
    pub(crate) fn push(&mut self, event: SmEvent) {
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
        self.push(SmEvent::Warning(text));
    }

    /// Replaces the warnings of the sweep before by those of the one that has just looked at the
    /// whole subnet: what it no longer says has been settled.
    pub(crate) fn replace_sweep_warnings(&mut self, warnings: Vec<String>) {
        let settled =
            |text: &String| self.sweep_warnings.contains(text) && !warnings.contains(text);
        self.status.warnings.retain(|text| !settled(text));
        for text in &warnings {
            self.warn(text.clone());
        }
        self.sweep_warnings = warnings;
    }

    /// Enters a phase.
    pub(crate) fn enter(&mut self, phase: Phase) {
        if self.status.phase == phase {
            return;
        }
        self.status.phase = phase.clone();
        if let Phase::Failed { reason } = &phase {
            self.push(SmEvent::Failed {
                reason: reason.clone(),
            });
        }
        self.push(SmEvent::Phase(phase));
    }

    /// Replaces the list of what cannot be managed.
    pub(crate) fn set_unreachable(&mut self, mut list: Vec<Unreachable>) {
        list.truncate(LIST_MAX);
        self.status.unreachable = list;
    }
}

/// Warnings of devices that are left out.
pub(crate) fn unreachable_warnings(list: &[Unreachable]) -> impl Iterator<Item = String> + '_ {
    list.iter()
        .take(LIST_MAX)
        .map(|Unreachable { name, reason, .. }| format!("{name} is left out: it {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_later_sweep_no_longer_says_is_settled() {
        let mut report = Report::default();
        report.warn("from elsewhere".into());
        report.replace_sweep_warnings(vec!["a cable is missing".into(), "a name is odd".into()]);
        report.replace_sweep_warnings(vec!["a name is odd".into()]);
        assert_eq!(report.status.warnings, ["from elsewhere", "a name is odd"]);
    }

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
