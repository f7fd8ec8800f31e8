//! The ways to other ports, as subnet administration tells them (PathRecord), kept until something says that they
//! may have changed.

use std::collections::BTreeMap;

use link::Time;
use wire::mad::{Mad, MadStatus, Method};
use wire::sa::{PathRecord, SaHeader, path_component as component};
use wire::{AttributeId, Gid, Lid, Mtu, Sl};

use super::agenda::Agenda;
use super::{ATTEMPTS, answer_timeout_ns};

/// Ways at most; the one that was not used for longest gives way.
const PATHS_MAX: usize = 8192;
/// How long a way is used before it is asked for again.
const REFRESH_NS: u64 = 300_000_000_000;
/// How long a port that cannot be reached is not asked for again.
const REFUSED_NS: u64 = 1_000_000_000;

/// A way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) dlid: Lid,
    pub(super) sl: Sl,
    /// The longest payload on it, bytes.
    pub(super) mtu: u16,
}

#[derive(Debug, Default)]
struct Entry {
    path: Option<Path>,
    /// When it is asked for again, if it is used.
    refresh_at: Time,
    attempts: u32,
    /// Of the request that waits for an answer.
    tid: Option<u32>,
    last_used: Time,
}

/// What is known of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// It.
    Path(Path),
    /// It is being asked for.
    Asked,
    /// There is none.
    Refused,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Paths {
    entries: BTreeMap<Gid, Entry>,
    agenda: Agenda<Gid>,
}

impl Paths {
    /// The way to a port; it is asked for if it is not known, or has been for long.
    pub(super) fn find(&mut self, now: Time, to: Gid) -> Known {
        if !self.entries.contains_key(&to) && self.entries.len() >= PATHS_MAX {
            self.evict();
        }
        let entry = self.entries.entry(to).or_default();
        entry.last_used = now;
        let is_due = entry.refresh_at <= now;
        if entry.tid.is_none() && is_due {
            entry.attempts = 0;
            entry.refresh_at = now + REFRESH_NS;
            self.agenda.set(to, now);
            return entry.path.map_or(Known::Asked, Known::Path);
        }
        match entry.path {
            Some(path) => Known::Path(path),
            None if entry.tid.is_some() || entry.refresh_at.since_ns(now) > REFUSED_NS => {
                Known::Asked
            }
            None => Known::Refused,
        }
    }

    fn evict(&mut self) {
        let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.last_used);
        if let Some((&gid, _)) = oldest {
            self.forget(gid);
        }
    }

    /// A way may have changed: it is asked for when it is needed.
    pub(super) fn forget(&mut self, to: Gid) {
        self.entries.remove(&to);
        self.agenda.clear(to);
    }

    /// All may have changed.
    pub(super) fn forget_all(&mut self) {
        self.entries.clear();
        self.agenda.clear_all();
    }

    /// When something is due.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.agenda.first()
    }

    /// The next request that is due, with that transaction id, of a port with this GID in a partition. `Err`: a
    /// port of which nothing could be learnt.
    pub(super) fn poll(
        &mut self,
        now: Time,
        tid: u32,
        own: Gid,
        pkey: u16,
    ) -> Option<Result<Mad, Gid>> {
        let to = self.agenda.take_due(now)?;
        let entry = self.entries.get_mut(&to)?;
        if entry.attempts >= ATTEMPTS {
            entry.tid = None;
            entry.refresh_at = now + REFUSED_NS;
            // A way that is known is used on.
            return Some(Err(to));
        }
        self.agenda.set(to, now + answer_timeout_ns(entry.attempts));
        entry.attempts += 1;
        entry.tid = Some(tid);
        let mut mad = Mad::sa(Method::GET, AttributeId::PATH_RECORD, 0, u64::from(tid));
        mad.set_sa_header(&SaHeader {
            component_mask: component::DGID
                | component::SGID
                | component::PKEY
                | component::NUMB_PATH,
            ..SaHeader::default()
        });
        mad.set_sa_record(&PathRecord {
            dgid: to,
            sgid: own,
            pkey,
            numb_path: 1,
            ..PathRecord::default()
        });
        Some(Ok(mad))
    }

    /// Takes in an answer: of which port something is known now. `None`: it was not asked for.
    pub(super) fn answered(&mut self, now: Time, mad: &Mad) -> Option<Gid> {
        let is_asked = |entry: &Entry| entry.tid.map(u64::from) == Some(mad.tid());
        let found = self.entries.iter_mut().find(|(_, entry)| is_asked(entry));
        let (&to, entry) = found?;
        if mad.status() == MadStatus::BUSY {
            // It is asked again when its time is over.
            return None;
        }
        entry.tid = None;
        self.agenda.clear(to);
        let record: Option<PathRecord> = mad.sa_record().ok();
        let record = record.filter(|record| {
            mad.status() == MadStatus::OK && record.dgid == to && record.dlid.is_unicast()
        });
        entry.path = record.map(|record| Path {
            dlid: record.dlid,
            sl: record.sl,
            mtu: Mtu::from_code(record.mtu).map_or(0, Mtu::bytes),
        });
        entry.refresh_at = match entry.path {
            Some(_) => now + REFRESH_NS,
            None => now + REFUSED_NS,
        };
        Some(to)
    }
}
