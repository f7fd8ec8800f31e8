//! What is asked of subnet administration: paths, and memberships in groups.

use link::Time;
use uverbs::cm::{PathEntry, errno as more};
use uverbs::errno;
use wire::mad::{AttributeId, Mad, MadStatus, Method};
use wire::sa::{PathRecord, SaHeader, path_component};
use wire::{Gid, Lid};

use super::commands::Done;
use super::events::event;
use super::{Connections, IdState};

/// Queries under way at most.
const QUERIES_MAX: usize = 4096;
/// How long the first answer is waited for; the time doubles with each further question.
const ANSWER_NS: u64 = 100_000_000;
/// The longest such time.
const ANSWER_NS_MAX: u64 = 1_600_000_000;
/// How long a path or an address may take, whatever a program says, milliseconds.
pub(super) const PATIENCE_MS: std::ops::RangeInclusive<u32> = 100..=60_000;
/// The bit of transaction ids that tells these requests from those of the host's groups; the upper half is 0 as of
/// all of the host's own.
pub(crate) const OF_CONNECTIONS: u64 = 1 << 31;
/// Bits of the numbers below it.
const TID_MASK: u32 = (1 << 31) - 1;

/// Whose query it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// The path of an id.
    Path(u32),
    /// A membership that is to be.
    Join(u32),
    /// One that has gone.
    Leave,
}

/// A query that waits for its answer.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) asker: Asker,
    mad: Mad,
    pub(super) due: Time,
    wait_ns: u64,
    end: Time,
}

impl Query {
    pub(super) fn is_of(&self, id: u32) -> bool {
        self.asker == Asker::Path(id)
    }
}

impl Connections {
    /// Asks; `false` if there are as many queries as there may be.
    pub(super) fn ask(&mut self, now: Time, asker: Asker, mut mad: Mad, patience_ms: u32) -> bool {
        if self.queries.len() >= QUERIES_MAX {
            return false;
        }
        loop {
            self.last_tid = (self.last_tid + 1) & TID_MASK;
            if !self.queries.contains_key(&self.last_tid) {
                break;
            }
        }
        mad.set_tid(OF_CONNECTIONS | u64::from(self.last_tid));
        let patience = patience_ms.clamp(*PATIENCE_MS.start(), *PATIENCE_MS.end());
        let query = Query {
            asker,
            mad,
            due: now + ANSWER_NS,
            wait_ns: ANSWER_NS,
            end: now + u64::from(patience) * 1_000_000,
        };
        self.queries.insert(self.last_tid, query);
        self.requests.push_back(mad);
        true
    }

    /// Asks again what was not answered, and gives up what has waited for long enough.
    pub(super) fn tick_queries(&mut self, now: Time) {
        let due = self.queries.iter().filter(|(_, query)| query.due <= now);
        let due: Vec<u32> = due.map(|(&tid, _)| tid).collect();
        for tid in due {
            let Some(query) = self.queries.get_mut(&tid) else {
                continue;
            };
            if now >= query.end {
                let asker = query.asker;
                self.queries.remove(&tid);
                self.failed(asker, -i32::from(more::ETIMEDOUT));
                continue;
            }
            query.wait_ns = (query.wait_ns * 2).min(ANSWER_NS_MAX);
            query.due = (now + query.wait_ns).min(query.end);
            let mad = query.mad;
            self.requests.push_back(mad);
        }
    }

    fn failed(&mut self, asker: Asker, status: i32) {
        match asker {
            Asker::Path(number) => {
                if let Some(id) = self.ids.get_mut(&number) {
                    id.state = IdState::Resolved;
                }
                self.tell(number, (event::ROUTE_ERROR, status), None);
            }
            Asker::Join(member) => self.join_failed(member, status),
            Asker::Leave => {}
        }
    }

    /// Takes an answer of subnet administration in.
    pub(crate) fn answered(&mut self, now: Time, mad: &Mad) {
        let tid = u32::try_from(mad.tid() & u64::from(TID_MASK)).unwrap_or_default();
        let Some(query) = self.queries.get_mut(&tid) else {
            return;
        };
        if query.mad.attr_id() != mad.attr_id() {
            return;
        }
        if mad.status() == MadStatus::BUSY {
            query.due = (now + ANSWER_NS).min(query.end);
            return;
        }
        let asker = query.asker;
        self.queries.remove(&tid);
        match (asker, mad.status()) {
            (Asker::Path(id), MadStatus::OK) => match mad.sa_record::<PathRecord>() {
                Ok(record) if record.dlid.is_unicast() => self.path_found(id, &record),
                _ => self.failed(asker, -i32::from(errno::EINVAL)),
            },
            (Asker::Join(member), status) => self.join_answered(now, member, status, mad),
            (Asker::Leave, _) => {}
            (Asker::Path(_), _) => self.failed(asker, -i32::from(more::EHOSTUNREACH)),
        }
    }

    fn path_found(&mut self, number: u32, record: &PathRecord) {
        if let Some(id) = self.ids.get_mut(&number) {
            id.path = Some(super::answers::entry(record));
            id.state = IdState::Routed;
            self.tell(number, (event::ROUTE_RESOLVED, 0), None);
        }
    }

    pub(super) fn resolve_route(&mut self, now: Time, number: u32, timeout_ms: u32) -> Done {
        let id = self.id(number)?;
        if id.state != IdState::Resolved {
            return Err(errno::EINVAL);
        }
        let peer = id.peer_gid;
        if peer == self.port.gid {
            let path = self.path_to_itself();
            let id = self.id(number)?;
            id.path = Some(path);
            id.state = IdState::Routed;
            self.tell(number, (event::ROUTE_RESOLVED, 0), None);
            return Ok(Vec::new());
        }
        let mad = self.path_query(peer);
        if !self.ask(now, Asker::Path(number), mad, timeout_ms) {
            return Err(errno::ENOMEM);
        }
        self.id(number)?.state = IdState::RouteQuery;
        Ok(Vec::new())
    }

    fn path_query(&self, peer: Gid) -> Mad {
        let mut mad = Mad::sa(Method::GET, AttributeId::PATH_RECORD, 0, 0);
        mad.set_sa_header(&SaHeader {
            component_mask: path_component::DGID
                | path_component::SGID
                | path_component::PKEY
                | path_component::REVERSIBLE
                | path_component::NUMB_PATH,
            ..SaHeader::default()
        });
        mad.set_sa_record(&PathRecord {
            dgid: peer,
            sgid: self.port.gid,
            pkey: self.port.own_pkey,
            reversible: true,
            numb_path: 1,
            ..PathRecord::default()
        });
        mad
    }

    fn path_to_itself(&self) -> PathEntry {
        PathEntry {
            dgid: self.port.gid.0,
            sgid: self.port.gid.0,
            dlid: self.port.lid.get(),
            slid: self.port.lid.get(),
            pkey: self.port.own_pkey,
            mtu: self.port.mtu,
            rate: self.port.rate,
            packet_life_time: 13,
            reversible: true,
            ..PathEntry::default()
        }
    }

    /// Which of the port's LIDs a path starts from.
    pub(super) fn path_bits(&self, slid: u16) -> u8 {
        let bits = slid & self.port.lids.saturating_sub(1);
        match Lid::new(slid).is_unicast() {
            true => u8::try_from(bits).unwrap_or_default(),
            false => 0,
        }
    }
}
