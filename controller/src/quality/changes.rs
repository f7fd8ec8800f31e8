//! What has become of connections that stood, for those who send on them: told until it is
//! answered, or given up.
//!
//! ```text
//!  add --> waiting --tables written--> due --room--> under way --answer, or no attempt left--> gone
//! ```
//!
//! Of each connection only the latest change is told: an older one that is still under way is given
//! up for it, or its repetition might be the last that the sender hears.

use std::collections::BTreeMap;

use link::Time;
use mad::local::MadMessage;
use mad::transaction::{Due, Timing, Transactions};
use tracing::warn;
use wire::vendor::{QosChange, QosConnection};
use wire::{Lid, Mad, Method, Qpn};

use super::CONNECTIONS_MAX;
use crate::smp::message;

/// Changes that wait for their answer at most; further ones wait for their turn.
const UNDER_WAY_MAX: usize = 4096;
/// How long an answer may take, and how often a change is told.
const TIMING: Timing = Timing {
    timeout_ns: 500_000_000,
    attempts: 10,
};
/// Upper half of their transaction ids.
const CHANGE_TIDS: u64 = 0x5143_0000_0000_0000;

/// Changes by connection, at most [`CONNECTIONS_MAX`], with the LID of the host that is to hear.
type ByConnection = BTreeMap<u32, (Lid, QosConnection)>;

/// A change under way.
#[derive(Debug)]
struct Told {
    connection: u32,
    letter: MadMessage,
}

/// The changes that wait, and those under way.
#[derive(Debug)]
pub(super) struct Changes {
    /// Until the tables are as the changes say.
    waiting: ByConnection,
    /// Now that they are, until there is room.
    due: ByConnection,
    told: Transactions<Told>,
    /// By connection: the transaction under way.
    tids: BTreeMap<u32, u64>,
    last_tid: u64,
}

impl Default for Changes {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            due: BTreeMap::new(),
            told: Transactions::new(UNDER_WAY_MAX),
            tids: BTreeMap::new(),
            last_tid: CHANGE_TIDS,
        }
    }
}

impl Changes {
    /// Keeps a change for the host at that LID until [`Self::tell`]; what was to be told of the same
    /// connection before is not any more.
    pub(super) fn add(&mut self, to: Lid, change: QosConnection) {
        self.forget(change.id);
        if self.waiting.len() + self.due.len() < CONNECTIONS_MAX {
            self.waiting.insert(change.id, (to, change));
        } else {
            warn!(id = change.id, "too many changes of connections to tell");
        }
    }

    /// Nothing is to be told of a connection any more.
    pub(super) fn forget(&mut self, connection: u32) {
        self.waiting.remove(&connection);
        self.due.remove(&connection);
        if let Some(tid) = self.tids.remove(&connection) {
            self.told.finish(tid);
        }
    }

    /// The tables are as the changes say: what is to be sent now.
    pub(super) fn tell(&mut self, now: Time) -> Vec<MadMessage> {
        self.due.append(&mut self.waiting);
        self.start(now)
    }

    /// Tells as many as there is room for.
    fn start(&mut self, now: Time) -> Vec<MadMessage> {
        let mut out = Vec::new();
        while self.told.room() > 0
            && let Some((connection, (to, change))) = self.due.pop_first()
        {
            self.last_tid = CHANGE_TIDS | (self.last_tid.wrapping_add(1) & 0xffff_ffff);
            let mad = Mad::vendor(Method::SET, 0, self.last_tid, &QosChange(change));
            let letter = message(to, Qpn::GSI, &mad);
            let told = Told {
                connection,
                letter: letter.clone(),
            };
            if self.told.start(now, self.last_tid, TIMING, told).is_ok() {
                self.tids.insert(connection, self.last_tid);
                out.push(letter);
            }
        }
        out
    }

    /// A host has answered.
    pub(super) fn answered(&mut self, tid: u64) {
        if let Some(told) = self.told.finish(tid) {
            self.tids.remove(&told.connection);
        }
    }

    /// What is to be sent at `now`: again, or because there is room.
    pub(super) fn poll(&mut self, now: Time) -> Vec<MadMessage> {
        let mut out = Vec::new();
        while let Some(due) = self.told.poll(now) {
            match due {
                Due::Again { request, .. } => out.push(request.letter.clone()),
                Due::GivenUp { request, .. } => {
                    self.tids.remove(&request.connection);
                    warn!(
                        id = request.connection,
                        "the sender of a connection does not answer what it is told of it"
                    );
                }
            }
        }
        out.append(&mut self.start(now));
        out
    }

    /// When something is due.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.told.deadline()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Sl;

    fn change(id: u32, sl: u8) -> QosConnection {
        QosConnection {
            id,
            sl: Sl::truncate(sl),
            ..QosConnection::default()
        }
    }

    fn lid() -> Lid {
        Lid::new(7)
    }

    /// Connection and level that letters tell, and their transactions.
    fn read(letters: &[MadMessage]) -> (Vec<(u32, u8)>, Vec<u64>) {
        let mads = letters.iter().map(|letter| Mad::from_bytes(*letter.mad));
        mads.map(|mad| {
            let QosChange(change) = mad.vendor_attribute().unwrap();
            ((change.id, change.sl.get()), mad.tid())
        })
        .unzip()
    }

    #[test]
    fn a_change_is_told_when_the_tables_are_written_and_again_until_it_is_answered() {
        let mut changes = Changes::default();
        changes.add(lid(), change(3, 1));
        assert!(changes.poll(Time(0)).is_empty(), "nothing is written yet");
        let (first, tids) = read(&changes.tell(Time(0)));
        assert_eq!(first, [(3, 1)]);
        let later = changes.deadline().unwrap();
        assert_eq!(read(&changes.poll(later)), (first, tids.clone()));
        changes.answered(tids[0]);
        assert_eq!(changes.deadline(), None);
        assert!(changes.tids.is_empty());
    }

    #[test]
    fn an_older_change_is_never_repeated_after_a_newer_one() {
        let mut changes = Changes::default();
        changes.add(lid(), change(3, 1));
        let (_, old) = read(&changes.tell(Time(0)));
        changes.add(lid(), change(3, 2));
        assert_eq!(changes.deadline(), None, "the old one is over");
        let (told, new) = read(&changes.tell(Time(1)));
        assert_eq!(told, [(3, 2)]);
        // A late answer to the old one says nothing of the new one.
        changes.answered(old[0]);
        assert_eq!(read(&changes.poll(Time(600_000_000))).0, [(3, 2)]);
        changes.answered(new[0]);
        assert!(changes.poll(Time(2_000_000_000)).is_empty());
        changes.add(lid(), change(4, 0));
        changes.forget(4);
        assert!(changes.tell(Time(3_000_000_000)).is_empty());
    }

    #[test]
    fn changes_without_room_are_told_as_others_are_answered_or_given_up() {
        let mut changes = Changes::default();
        let count = u32::try_from(UNDER_WAY_MAX).unwrap() + 2;
        for id in 1..=count {
            changes.add(lid(), change(id, 0));
        }
        let (told, tids) = read(&changes.tell(Time(0)));
        assert_eq!(told.len(), UNDER_WAY_MAX);
        assert!(changes.poll(Time(1)).is_empty());
        changes.answered(tids[0]);
        assert_eq!(read(&changes.poll(Time(2))).0, [(count - 1, 0)]);
        let mut now = Time(2);
        let mut last = Vec::new();
        while let Some(due) = changes.deadline() {
            assert!(due > now, "time goes on");
            now = due;
            last.extend(read(&changes.poll(now)).0);
        }
        assert!(last.contains(&(count, 0)), "when the others are given up");
        assert!(changes.tids.is_empty());
    }
}
