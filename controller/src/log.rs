//! What the manager has done of late, for whoever asks its control socket: a bounded log.

use std::collections::VecDeque;

use bincode::{Decode, Encode};
use link::Time;

/// Entries that are kept; the oldest go first.
const ENTRIES_MAX: usize = 1024;
/// Entries of one [`LogPage`]: with texts of their greatest length it fits into a message.
const PAGE_MAX: usize = 128;
/// The longest text of an entry, bytes.
const TEXT_MAX: usize = 1024;

/// Part of the log, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct LogPage {
    /// Process id: numbers begin anew with each process.
    pub pid: u32,
    /// The number of the newest entry that there is; 0 for none.
    pub newest: u64,
    /// Entries behind the one that was named which are kept no longer.
    pub lost: u64,
    /// The entries behind it.
    pub entries: Vec<LogEntry>,
}

/// One thing that the manager has done.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LogEntry {
    /// Its number, from 1.
    pub number: u64,
    /// How long ago it was when the log was asked for, nanoseconds.
    pub age_ns: u64,
    /// What.
    pub what: Happening,
}

/// What the manager has done.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Happening {
    /// A sweep has begun. One that another sweep overtakes has no end of its own.
    SweepBegun {
        /// Why.
        cause: String,
    },
    /// A sweep has ended: everything found is programmed.
    SweepEnded {
        /// How many sweeps have been completed, this one counted.
        generation: u64,
        /// From its begin, nanoseconds.
        duration_ns: u64,
        /// Switches found.
        switches: u32,
        /// Channel adapters found.
        hosts: u32,
        /// Cables found.
        links: u32,
        /// Whether something that was once there is missing.
        is_degraded: bool,
    },
    /// Forwarding tables were written, or another routing engine is in use.
    Routed {
        /// The engine, with its parameters.
        engine: String,
        /// The one before, if it was another; empty before the first tables.
        before: Option<String>,
        /// Blocks written.
        blocks: u64,
    },
    /// The subnet cannot be brought up as asked, or something else is worth a look.
    Warning {
        /// What.
        text: String,
    },
    /// A connection with promised bandwidth.
    Connection {
        /// Its id; 0 if there is none.
        id: u32,
        /// Name of the host that sends.
        source: String,
        /// Name of the host that receives.
        destination: String,
        /// Mean rate in bits a second of a link at its full speed.
        rate_bps: u64,
        /// `admitted`, `refused` or `released`.
        outcome: String,
    },
}

/// The log.
#[derive(Debug, Default)]
pub(crate) struct Log {
    newest: u64,
    entries: VecDeque<(Time, Happening)>,
}

impl Log {
    /// Adds an entry.
    pub(crate) fn add(&mut self, now: Time, what: Happening) {
        if self.entries.len() == ENTRIES_MAX {
            self.entries.pop_front();
        }
        self.newest += 1;
        self.entries.push_back((now, bounded(what)));
    }

    /// The entries behind number `after`, as many as one message holds.
    pub(crate) fn page(&self, now: Time, after: u64) -> LogPage {
        let kept = self.newest - wire::convert::saturate::<u64>(self.entries.len());
        let first = after.max(kept);
        let skip = usize::try_from(first - kept).unwrap_or(usize::MAX);
        let entries = self.entries.iter().skip(skip).take(PAGE_MAX);
        let numbered = (first.saturating_add(1)..).zip(entries);
        LogPage {
            pid: 0,
            newest: self.newest,
            lost: first - after.min(first),
            entries: numbered
                .map(|(number, (at, what))| LogEntry {
                    number,
                    age_ns: now.since_ns(*at),
                    what: what.clone(),
                })
                .collect(),
        }
    }
}

/// With texts of a bounded length: names come from devices.
fn bounded(mut what: Happening) -> Happening {
    let cut = |text: &mut String| {
        let end = (0..=TEXT_MAX.min(text.len())).rev();
        let end = end.into_iter().find(|&at| text.is_char_boundary(at));
        text.truncate(end.unwrap_or(0));
    };
    match &mut what {
        Happening::SweepBegun { cause } => cut(cause),
        Happening::SweepEnded { .. } => {}
        Happening::Routed { engine, before, .. } => {
            cut(engine);
            before.iter_mut().for_each(cut);
        }
        Happening::Warning { text } => cut(text),
        Happening::Connection {
            source,
            destination,
            ..
        } => {
            cut(source);
            cut(destination);
        }
    }
    what
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(text: &str) -> Happening {
        Happening::Warning { text: text.into() }
    }

    #[test]
    fn entries_are_told_once_each_with_their_age_and_those_that_have_gone_are_counted() {
        let mut log = Log::default();
        assert_eq!(log.page(Time(0), 0), LogPage::default());
        for at in 1..=3 {
            log.add(Time(at), warning(&at.to_string()));
        }
        let page = log.page(Time(10), 1);
        let told: Vec<_> = page
            .entries
            .iter()
            .map(|it| (it.number, it.age_ns))
            .collect();
        assert_eq!((told, page.newest, page.lost), (vec![(2, 8), (3, 7)], 3, 0));
        assert_eq!(log.page(Time(10), 3).entries, []);
        assert_eq!(log.page(Time(10), u64::MAX).entries, []);
        for at in 0..2 * ENTRIES_MAX {
            log.add(Time(10), warning(&at.to_string()));
        }
        let mut after = 3;
        let mut lost = 0;
        let mut told = 0;
        loop {
            let page = log.page(Time(10), after);
            lost += page.lost;
            let Some(last) = page.entries.last() else {
                break;
            };
            after = last.number;
            told += page.entries.len();
        }
        assert_eq!((told, lost), (ENTRIES_MAX, 1024));
    }

    #[test]
    fn a_page_of_the_longest_texts_fits_into_a_message() {
        let mut log = Log::default();
        for _ in 0..ENTRIES_MAX {
            log.add(Time(0), warning(&"\u{e4}".repeat(TEXT_MAX)));
        }
        let page = log.page(Time(0), 0);
        assert_eq!(page.entries.len(), PAGE_MAX);
        assert!(wire::control::encode(&page).is_ok());
    }
}
