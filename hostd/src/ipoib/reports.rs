//! Subscriptions to what subnet administration reports (InformInfo): ports that come and go, groups that end.

use link::Time;
use wire::attr::{Notice, TrapGid, trap};
use wire::mad::{Mad, MadStatus, Method};
use wire::sa::{InformInfo, SaHeader};
use wire::{AttributeId, Format as _, Gid, Qpn};

use super::{ATTEMPTS, answer_timeout_ns};

/// Of what: ports in and out of service, groups deleted.
const TRAPS: [u16; 3] = [
    trap::GID_IN_SERVICE,
    trap::GID_OUT_OF_SERVICE,
    trap::MULTICAST_GROUP_DELETED,
];

#[derive(Clone, Copy, Debug, Default)]
struct Subscription {
    due: Option<Time>,
    attempts: u32,
    tid: Option<u32>,
}

/// What is subscribed to.
#[derive(Debug, Default)]
pub(super) struct Reports {
    wanted: bool,
    all: [Subscription; TRAPS.len()],
}

/// What a report says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// A port has come or gone.
    Port(Gid),
    /// A group has ended.
    Group(Gid),
}

impl Reports {
    /// Reports are wanted from now on.
    pub(super) fn want(&mut self, now: Time) {
        if !self.wanted {
            self.wanted = true;
            self.renew(now);
        }
    }

    /// Whether they are.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// The administrator may have lost the subscriptions.
    pub(super) fn renew(&mut self, now: Time) {
        if self.wanted {
            self.all = [Subscription {
                due: Some(now),
                ..Subscription::default()
            }; TRAPS.len()];
        }
    }

    /// Nobody answers.
    pub(super) fn rest(&mut self) {
        self.all = Default::default();
    }

    /// When something is due.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.all.iter().filter_map(|one| one.due).min()
    }

    /// The next request that is due, with that transaction id.
    pub(super) fn poll(&mut self, now: Time, tid: u32) -> Option<Mad> {
        let mut all = self.all.iter_mut().zip(TRAPS);
        let (one, number) = all.find(|(one, _)| one.due.is_some_and(|due| due <= now))?;
        if one.attempts >= ATTEMPTS {
            // Without reports ways are asked for again when they are old, or fail.
            *one = Subscription::default();
            return None;
        }
        one.due = Some(now + answer_timeout_ns(one.attempts));
        one.attempts += 1;
        one.tid = Some(tid);
        let id = AttributeId::INFORM_INFO;
        let mut mad = Mad::sa(Method::SET, id, 0, u64::from(tid));
        mad.set_sa_header(&SaHeader::default());
        mad.set_sa_record(&InformInfo {
            gid: Gid::default(),
            lid_first: wire::Lid::new(InformInfo::ANY),
            lid_last: wire::Lid::ZERO,
            is_generic: true,
            subscribe: true,
            notice_type: InformInfo::ANY,
            trap_number: number,
            qpn: Qpn::GSI,
            resp_time: RESPONSE_TIME,
            producer_type: InformInfo::ANY_PRODUCER,
        });
        Some(mad)
    }

    /// Takes in an answer. Whether it was asked for.
    pub(super) fn answered(&mut self, mad: &Mad) -> bool {
        let is_asked = |one: &&mut Subscription| one.tid.map(u64::from) == Some(mad.tid());
        let Some(one) = self.all.iter_mut().find(is_asked) else {
            return false;
        };
        if mad.status() != MadStatus::BUSY {
            *one = Subscription::default();
        }
        true
    }
}

/// How soon a report is answered: 4.096 us times two to this power, about a second.
const RESPONSE_TIME: u8 = 18;

/// What a report says; `None` for others than those subscribed to.
pub(super) fn read(mad: &Mad) -> Option<Report> {
    let (notice, _) = Notice::parse(mad.sa_data()).ok()?;
    let (TrapGid { gid }, _) = TrapGid::parse(&notice.details).ok()?;
    match notice.trap_number {
        _ if !notice.is_generic => None,
        trap::GID_IN_SERVICE | trap::GID_OUT_OF_SERVICE => Some(Report::Port(gid)),
        trap::MULTICAST_GROUP_DELETED => Some(Report::Group(gid)),
        _ => None,
    }
}
