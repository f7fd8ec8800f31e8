//! Notices to the senders of connections that were dropped or moved: each is sent until it is
//! answered, or given up.
//!
//! ```text
//!  add --> waiting --tables written--> ready --room--> in flight --answer, or no attempt left--> done
//! ```
//!
//! Of each connection only the latest change is sent: an older one in flight is given up for it,
//! or its repetition might be the last that the sender receives.

use std::collections::BTreeMap;

use link::Time;
use mad::local::MadMessage;
use mad::transaction::{Due, Timing, Transactions};
use tracing::warn;
use wire::vendor::{QosChange, QosConnection};
use wire::{Lid, Mad, Method, Qpn};

use super::CONNECTIONS_MAX;
use crate::smp::message;

/// Notices in flight at most; further ones wait for their turn.
const IN_FLIGHT_MAX: usize = 4096;
/// How long an answer may take, and how often a notice is sent.
const TIMING: Timing = Timing {
    timeout_ns: 500_000_000,
    attempts: 10,
};
/// Upper half of their transaction ids.
const NOTICE_TIDS: u64 = 0x5143_0000_0000_0000;

/// Changes by connection, at most [`CONNECTIONS_MAX`], with the LID of the sender's host.
type ByConnection = BTreeMap<u32, (Lid, QosConnection)>;

/// A notice in flight.
#[derive(Debug)]
struct InFlight {
    connection: u32,
    datagram: MadMessage,
}

/// The notices that wait, and those in flight.
#[derive(Debug)]
pub(super) struct ChangeNotices {
    /// Until the tables match the notices.
    waiting: ByConnection,
    /// Now that they are, until there is room.
    ready: ByConnection,
    in_flight: Transactions<InFlight>,
    /// By connection: the transaction in flight.
    tids: BTreeMap<u32, u64>,
    last_tid: u64,
}

impl Default for ChangeNotices {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            ready: BTreeMap::new(),
            in_flight: Transactions::new(IN_FLIGHT_MAX),
            tids: BTreeMap::new(),
            last_tid: NOTICE_TIDS,
        }
    }
}

impl ChangeNotices {
    /// Keeps a change for the host at that LID until [`Self::release`]. It replaces an earlier change
    /// of the same connection.
    pub(super) fn add(&mut self, to: Lid, change: QosConnection) {
        self.forget(change.id);
        if self.waiting.len() + self.ready.len() < CONNECTIONS_MAX {
            self.waiting.insert(change.id, (to, change));
        } else {
            warn!(
                id = change.id,
                "too many connection changes wait to be sent"
            );
        }
    }

    /// Drops the notices of a connection.
    pub(super) fn forget(&mut self, connection: u32) {
        self.waiting.remove(&connection);
        self.ready.remove(&connection);
        if let Some(tid) = self.tids.remove(&connection) {
            self.in_flight.finish(tid);
        }
    }

    /// The tables match the notices: the messages to send now.
    pub(super) fn release(&mut self, now: Time) -> Vec<MadMessage> {
        self.ready.append(&mut self.waiting);
        self.start(now)
    }

    /// Starts as many as there is room for.
    fn start(&mut self, now: Time) -> Vec<MadMessage> {
        let mut out = Vec::new();
        while self.in_flight.room() > 0
            && let Some((connection, (to, change))) = self.ready.pop_first()
        {
            self.last_tid = NOTICE_TIDS | (self.last_tid.wrapping_add(1) & 0xffff_ffff);
            let mad = Mad::vendor(Method::SET, 0, self.last_tid, &QosChange(change));
            let datagram = message(to, Qpn::GSI, &mad);
            let notice = InFlight {
                connection,
                datagram: datagram.clone(),
            };
            if self
                .in_flight
                .start(now, self.last_tid, TIMING, notice)
                .is_ok()
            {
                self.tids.insert(connection, self.last_tid);
                out.push(datagram);
            }
        }
        out
    }

    /// A host has answered.
    pub(super) fn answered(&mut self, tid: u64) {
        if let Some(notice) = self.in_flight.finish(tid) {
            self.tids.remove(&notice.connection);
        }
    }

    /// What is to be sent at `now`: again, or because there is room.
    pub(super) fn poll(&mut self, now: Time) -> Vec<MadMessage> {
        let mut out = Vec::new();
        while let Some(due) = self.in_flight.poll(now) {
            match due {
                Due::Retry { request, .. } => out.push(request.datagram.clone()),
                Due::TimedOut { request, .. } => {
                    self.tids.remove(&request.connection);
                    warn!(
                        id = request.connection,
                        "the sender of a connection does not answer the notice of its change"
                    );
                }
            }
        }
        out.append(&mut self.start(now));
        out
    }

    /// When something is due.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.in_flight.deadline()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Sl;

    fn change(id: u32, sl: u8) -> QosConnection {
        QosConnection {
            id,
            sl: Sl::constant(sl),
            ..QosConnection::default()
        }
    }

    fn lid() -> Lid {
        Lid::new(7)
    }

    /// Connection and level that datagrams tell, and their transactions.
    fn read(datagrams: &[MadMessage]) -> (Vec<(u32, u8)>, Vec<u64>) {
        let mads = datagrams
            .iter()
            .map(|datagram| Mad::from_bytes(*datagram.mad));
        mads.map(|mad| {
            let QosChange(change) = mad.vendor_attribute().unwrap();
            ((change.id, change.sl.get()), mad.tid())
        })
        .unzip()
    }

    #[test]
    fn a_change_is_told_when_the_tables_are_written_and_again_until_it_is_answered() {
        let mut notices = ChangeNotices::default();
        notices.add(lid(), change(3, 1));
        assert!(notices.poll(Time(0)).is_empty(), "nothing is written yet");
        let (first, tids) = read(&notices.release(Time(0)));
        assert_eq!(first, [(3, 1)]);
        let later = notices.deadline().unwrap();
        assert_eq!(read(&notices.poll(later)), (first, tids.clone()));
        notices.answered(tids[0]);
        assert_eq!(notices.deadline(), None);
        assert!(notices.tids.is_empty());
    }

    #[test]
    fn an_older_change_is_never_repeated_after_a_newer_one() {
        let mut notices = ChangeNotices::default();
        notices.add(lid(), change(3, 1));
        let (_, old) = read(&notices.release(Time(0)));
        notices.add(lid(), change(3, 2));
        assert_eq!(notices.deadline(), None, "the old one is over");
        let (sent, new) = read(&notices.release(Time(1)));
        assert_eq!(sent, [(3, 2)]);
        // A late answer to the old notice does not answer the new one.
        notices.answered(old[0]);
        assert_eq!(read(&notices.poll(Time(600_000_000))).0, [(3, 2)]);
        notices.answered(new[0]);
        assert!(notices.poll(Time(2_000_000_000)).is_empty());
        notices.add(lid(), change(4, 0));
        notices.forget(4);
        assert!(notices.release(Time(3_000_000_000)).is_empty());
    }

    #[test]
    fn changes_without_room_are_told_as_others_are_answered_or_given_up() {
        let mut notices = ChangeNotices::default();
        let count = u32::try_from(IN_FLIGHT_MAX).unwrap() + 2;
        for id in 1..=count {
            notices.add(lid(), change(id, 0));
        }
        let (sent, tids) = read(&notices.release(Time(0)));
        assert_eq!(sent.len(), IN_FLIGHT_MAX);
        assert!(notices.poll(Time(1)).is_empty());
        notices.answered(tids[0]);
        assert_eq!(read(&notices.poll(Time(2))).0, [(count - 1, 0)]);
        let mut now = Time(2);
        let mut last = Vec::new();
        while let Some(due) = notices.deadline() {
            assert!(due > now, "time goes on");
            now = due;
            last.extend(read(&notices.poll(now)).0);
        }
        assert!(last.contains(&(count, 0)), "when the others are given up");
        assert!(notices.tids.is_empty());
    }
}
