//! A subscription to reports through one host, without IO: what to send, and what comes of what is received.
//!
//! ```text
//!                 own port: LID, manager's LID (once a second)
//!                        │
//!   start ──> [ unsubscribed ] ── Set(InformInfo) ──> [ subscribed ] ── end ──> Set(unsubscribe) ──> over
//!                        ^                                │ another manager, another LID,
//!                        └────────────────────────────────┘ or after RENEW_NS: the manager may be a new one
//! ```
//!
//! Reports are answered, also those that come again because an answer was lost; each is told once. A report is taken from
//! the subnet manager's port and general services only, whatever it holds.

use std::collections::VecDeque;

use link::Time;
use mad::local::{MadMessage, Registration};
use thiserror::Error;
use wire::attr::{Notice, PortInfo, trap};
use wire::mad::{MadStatus, MgmtClass};
use wire::sa::{InformInfo, SaHeader};
use wire::{AttributeId, Format as _, Gid, Lid, Mad, Method, Qpn};

/// Time between two looks at the own port.
const LOOK_NS: u64 = 1_000_000_000;
/// Looks in a row that may remain without an answer.
const LOOKS_MAX: u32 = 3;
/// How long an answer is waited for.
const TIMEOUT_NS: u64 = 500_000_000;
/// How often is asked.
const ATTEMPTS: u32 = 6;
/// How often is asked for the end: a second in all.
const END_ATTEMPTS: u32 = 2;
/// Time after which a subscription is renewed: a manager that was restarted has forgotten it.
const RENEW_NS: u64 = 5_000_000_000;
/// Transaction ids of reports that are remembered: those that come again are among the latest.
const REPORTS_KEPT: usize = 1024;
/// Reports of one GID that come so soon after each other are one: the host itself has subscribed to some of them as well.
const TWICE_NS: u64 = 200_000_000;
/// How soon reports are answered: 4.096 us times two to this power, about a second.
const RESPONSE_TIME: u8 = 18;

/// What the host gives to whoever has registered for it.
pub(super) fn reports() -> Registration {
    Registration {
        class: MgmtClass::SUBN_ADM.0,
        version: 2,
        oui: [0; 3],
        methods: 1 << Method::REPORT.0,
    }
}

/// Why nothing can be heard through this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum Deaf {
    #[error("no subnet manager has set up its port (ibemu status)")]
    NoManager,
    #[error("subnet administration at LID {lid} does not answer")]
    Silent { lid: Lid },
    #[error(
        "subnet administration at LID {lid} refuses the subscription (status {status}{})", meaning(*.status)
    )]
    Refused { lid: Lid, status: MadStatus },
    #[error("the host does not answer")]
    HostSilent,
}

/// What a status of subnet administration means, for those that a subscription gets.
fn meaning(status: MadStatus) -> &'static str {
    match status {
        MadStatus::SA_NO_RESOURCES => {
            ": it holds as many subscriptions as it can, of this port or in all"
        }
        MadStatus::SA_REQUEST_INVALID => ": the request is invalid, or this port may not subscribe",
        MadStatus::BAD_METHOD | MadStatus::BAD_METHOD_ATTRIBUTE => {
            ": this subnet manager does not report traps"
        }
        _ => "",
    }
}

/// What is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// A Get of the own port's attribute.
    Look(Mad),
    /// A request to subnet administration.
    Ask(Lid, Mad),
}

/// What has become known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Learned {
    /// The subnet manager's LID.
    Manager(Lid),
    /// Reports come from now on.
    Subscribed,
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Request {
    subscribe: bool,
    to: Lid,
    tid: u32,
    due: Time,
    attempts: u32,
}

/// The subscription of one host's port.
#[derive(Debug)]
pub(super) struct Listener {
    sa_key: u64,
    last_tid: u32,
    look_at: Time,
    look_tid: Option<u32>,
    looks_unanswered: u32,
    /// The own LID and the manager's.
    port: Option<(Lid, Lid)>,
    request: Option<Request>,
    /// Until when the subscription holds without a renewal; `None` while there is none.
    subscribed_until: Option<Time>,
    is_ending: bool,
    taken: VecDeque<(Lid, u64)>,
    last_gid: Option<(Time, Notice)>,
    /// Datagrams that were no reports of the subnet manager.
    pub(super) strange: u64,
}

impl Listener {
    pub(super) fn new(now: Time, sa_key: u64) -> Self {
        Self {
            sa_key,
            last_tid: 0,
            look_at: now,
            look_tid: None,
            looks_unanswered: 0,
            port: None,
            request: None,
            subscribed_until: None,
            is_ending: false,
            taken: VecDeque::new(),
            last_gid: None,
            strange: 0,
        }
    }

    /// Ends the subscription: [`Self::is_over`] when that is done.
    pub(super) fn end(&mut self, now: Time) {
        self.is_ending = true;
        let may_stand = self.subscribed_until.is_some() || self.request.is_some();
        self.request = self.port.filter(|_| may_stand).map(|(_, to)| Request {
            subscribe: false,
            to,
            tid: 0,
            due: now,
            attempts: 0,
        });
    }

    /// Whether it has ended.
    pub(super) fn is_over(&self) -> bool {
        self.is_ending && self.request.is_none()
    }

    /// When something is due.
    pub(super) fn deadline(&self) -> Time {
        let request = self.request.map(|request| request.due);
        let renewal = self.subscribed_until.filter(|_| request.is_none());
        let all = [request, renewal].into_iter().flatten();
        all.fold(self.look_at, Time::min)
    }

    /// What is to be sent at `now`; `None` if nothing is.
    pub(super) fn poll(&mut self, now: Time) -> Result<Option<Output>, Deaf> {
        if self.look_at <= now && !self.is_ending {
            return self.look(now).map(Some);
        }
        if let Some((_, to)) = self.port
            && self.request.is_none()
            && !self.is_ending
            && self.subscribed_until.is_none_or(|until| until <= now)
        {
            self.request = Some(Request {
                subscribe: true,
                to,
                tid: 0,
                due: now,
                attempts: 0,
            });
        }
        match self.request {
            Some(request) if request.due <= now => self.ask(now, request),
            _ => Ok(None),
        }
    }

    fn look(&mut self, now: Time) -> Result<Output, Deaf> {
        if self.look_tid.is_some() {
            self.looks_unanswered += 1;
        }
        if self.looks_unanswered >= LOOKS_MAX {
            return Err(Deaf::HostSilent);
        }
        self.look_at = now + LOOK_NS;
        let tid = self.next_tid();
        self.look_tid = Some(tid);
        let mad = Mad::lid_smp(Method::GET, AttributeId::PORT_INFO, 0, tid.into());
        Ok(Output::Look(mad))
    }

    fn ask(&mut self, now: Time, mut request: Request) -> Result<Option<Output>, Deaf> {
        let attempts = if request.subscribe {
            ATTEMPTS
        } else {
            END_ATTEMPTS
        };
        if request.attempts >= attempts {
            self.request = None;
            return match request.subscribe {
                true => Err(Deaf::Silent { lid: request.to }),
                // A manager that is gone has no subscriptions either.
                false => Ok(None),
            };
        }
        request.tid = self.next_tid();
        request.attempts += 1;
        request.due = now + TIMEOUT_NS;
        self.request = Some(request);
        let id = AttributeId::INFORM_INFO;
        let mut mad = Mad::sa(Method::SET, id, 0, request.tid.into());
        mad.set_sa_header(&SaHeader {
            sm_key: self.sa_key,
            ..SaHeader::default()
        });
        mad.set_sa_record(&subscription(request.subscribe));
        Ok(Some(Output::Ask(request.to, mad)))
    }

    fn next_tid(&mut self) -> u32 {
        self.last_tid = self.last_tid.wrapping_add(1).max(1);
        self.last_tid
    }

    /// Takes in an answer.
    pub(super) fn answered(&mut self, now: Time, mad: &Mad) -> Result<Option<Learned>, Deaf> {
        let tid = Some(crate::client::lower(mad.tid()));
        if mad.class().is_subnet_management() && self.look_tid == tid {
            self.look_tid = None;
            self.looks_unanswered = 0;
            let port = mad.smp_attribute::<PortInfo>().ok();
            return self
                .looked(port.map_or((Lid::ZERO, Lid::ZERO), |it| (it.lid, it.master_sm_lid)));
        }
        let Some(request) = self.request.filter(|request| Some(request.tid) == tid) else {
            return Ok(None);
        };
        if mad.class() != MgmtClass::SUBN_ADM || mad.status() == MadStatus::BUSY {
            return Ok(None);
        }
        self.request = None;
        if !request.subscribe {
            return Ok(None);
        }
        if mad.status() != MadStatus::OK {
            return Err(Deaf::Refused {
                lid: request.to,
                status: mad.status(),
            });
        }
        let before = self.subscribed_until.replace(now + RENEW_NS);
        Ok(before.is_none().then_some(Learned::Subscribed))
    }

    /// The own LID and the manager's are known.
    fn looked(&mut self, port: (Lid, Lid)) -> Result<Option<Learned>, Deaf> {
        let (own, manager) = port;
        if !own.is_unicast() || !manager.is_unicast() {
            return Err(Deaf::NoManager);
        }
        let before = self.port.replace(port);
        if before == Some(port) {
            return Ok(None);
        }
        self.subscribed_until = None;
        if !self.is_ending {
            self.request = None;
        }
        Ok(Some(Learned::Manager(manager)))
    }

    /// Takes in an unsolicited datagram: its answer, and its notice if it is a new one.
    pub(super) fn reported(
        &mut self,
        now: Time,
        message: &MadMessage,
    ) -> Option<(Mad, Option<Notice>)> {
        let mut mad = Mad::from_bytes(*message.mad);
        let is_report = reports().is_for(&mad) && mad.attr_id() == AttributeId::NOTICE;
        let is_from_manager = self.port.is_some_and(|(_, sm)| sm == message.lid);
        if !is_report || !is_from_manager || message.qpn != Qpn::GSI {
            self.strange = self.strange.saturating_add(1);
            return None;
        }
        let notice = Notice::parse(mad.sa_data()).ok().map(|(notice, _)| notice);
        let id = (message.lid, mad.tid());
        let is_new = !self.taken.contains(&id);
        if is_new {
            if self.taken.len() == REPORTS_KEPT {
                self.taken.pop_front();
            }
            self.taken.push_back(id);
        }
        mad.set_method(Method::REPORT_RESP);
        let notice = notice.filter(|_| is_new);
        let notice = notice.filter(|notice| !self.is_told(now, notice));
        Some((mad, notice))
    }

    /// Whether a notice of a GID was told a moment ago.
    fn is_told(&mut self, now: Time, notice: &Notice) -> bool {
        let is_of_gid = (trap::GID_IN_SERVICE..=trap::MULTICAST_GROUP_DELETED)
            .contains(&notice.trap_number)
            && notice.is_generic;
        if !is_of_gid {
            return false;
        }
        let last = self.last_gid.replace((now, *notice));
        last.is_some_and(|(at, last)| last == *notice && now.since_ns(at) < TWICE_NS)
    }
}

/// The subscription to all generic traps of all ports, or its end: that has to name the same.
fn subscription(subscribe: bool) -> InformInfo {
    InformInfo {
        gid: Gid::default(),
        lid_first: Lid::new(InformInfo::ANY),
        lid_last: Lid::ZERO,
        is_generic: true,
        subscribe,
        notice_type: InformInfo::ANY,
        trap_number: InformInfo::ANY,
        qpn: Qpn::GSI,
        resp_time: RESPONSE_TIME,
        producer_type: InformInfo::ANY_PRODUCER,
    }
}
