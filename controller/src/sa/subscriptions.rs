//! Subscriptions to traps (InformInfo, IBA 13.4.8.3), and the reports in flight.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use link::Time;
use mad::local::MadMessage;
use mad::transaction::{Due, Timing, Transactions};
use wire::attr::{Notice, TrapGid, trap};
use wire::sa::{DATA_LEN, InformInfo, InformInfoRecord};
use wire::{AttributeId, Format as _, Gid, Guid, Lid, Mad, MadStatus, Method, Qpn};

use crate::smp::message;

/// Subscriptions at most.
const SUBSCRIPTIONS_MAX: usize = 1024;
/// Subscriptions of one port at most: more than there are kinds of traps.
const PORT_SUBSCRIPTIONS_MAX: usize = 32;
/// Reports that wait for their answer at most; further ones are sent when there is room.
const REPORTS_MAX: usize = 256;
/// Reports that are still to be sent at most: a switch that is lost takes its hosts along, of which all others are told.
/// Further ones are not sent.
const WAITING_MAX: usize = 65_536;
/// How long an answer may take, and how often a report is sent.
const TIMING: Timing = Timing {
    timeout_ns: 1_000_000_000,
    attempts: 3,
};
/// Upper half of the transaction ids of reports.
const REPORT_TIDS: u64 = 0x5250_0000_0000_0000;

/// The subscriptions, and the reports under way.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    /// Each with the GUID of the subscriber's port.
    entries: BTreeMap<(Lid, Qpn, InformInfo), Guid>,
    /// The ports that the last sweep has left in service.
    in_service: BTreeSet<Guid>,
    reports: Transactions<MadMessage>,
    /// Reports that are still to be sent, and to whom.
    waiting: VecDeque<(Lid, Qpn, Notice)>,
    last_tid: u64,
}

impl Default for Subscriptions {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            in_service: BTreeSet::new(),
            reports: Transactions::new(REPORTS_MAX),
            waiting: VecDeque::new(),
            last_tid: REPORT_TIDS,
        }
    }
}

impl Subscriptions {
    /// Adds or ends a subscription. `false`: there are too many, or there is none to end.
    pub(super) fn set(&mut self, port: Guid, subscriber: (Lid, Qpn), info: &InformInfo) -> bool {
        let key = InformInfo {
            subscribe: true,
            qpn: Qpn::default(),
            resp_time: 0,
            ..*info
        };
        let entry = (subscriber.0, subscriber.1, key);
        if !info.subscribe {
            return self.entries.remove(&entry).is_some();
        }
        let of_port = self.entries.values().filter(|&&other| other == port);
        let is_full =
            self.entries.len() >= SUBSCRIPTIONS_MAX || of_port.count() >= PORT_SUBSCRIPTIONS_MAX;
        if is_full && !self.entries.contains_key(&entry) {
            return false;
        }
        self.entries.insert(entry, port);
        true
    }

    /// Ends the subscriptions of ports that are not there any more, or have another LID.
    pub(super) fn retain(&mut self, is_there: impl Fn(Guid, Lid) -> bool) {
        self.entries
            .retain(|&(lid, ..), &mut port| is_there(port, lid));
    }

    /// The subscriptions of ports that are `shown`, or of one subscriber (the first component), numbered for
    /// each.
    pub(super) fn records(
        &self,
        mask: u64,
        data: &[u8; DATA_LEN],
        shown: impl Fn(Guid) -> bool,
    ) -> Result<Vec<InformInfoRecord>, MadStatus> {
        let (by_subscriber, by_number) = (1 << 0, 1 << 1);
        let invalid = MadStatus::SA_REQUEST_INVALID;
        if mask & !(by_subscriber | by_number) != 0 {
            return Err(invalid);
        }
        let (asked, _) = InformInfoRecord::parse(data).map_err(|_| invalid)?;
        let mut numbers: BTreeMap<Guid, u16> = BTreeMap::new();
        let mut records = Vec::new();
        for (&(_, qpn, info), &port) in &self.entries {
            let number = numbers.entry(port).or_default();
            let record = InformInfoRecord {
                subscriber: Gid::new(Gid::DEFAULT_PREFIX, port),
                number: *number,
                info: InformInfo { qpn, ..info },
            };
            *number = number.saturating_add(1);
            let matches = (mask & by_subscriber == 0 || record.subscriber == asked.subscriber)
                && (mask & by_number == 0 || record.number == asked.number);
            if matches && shown(port) {
                records.push(record);
            }
        }
        Ok(records)
    }

    /// A sweep has left these ports in service: reports who has come and gone since the one before.
    pub(super) fn set_ports(&mut self, sm_lid: Lid, ports: BTreeSet<Guid>) {
        let before = core::mem::replace(&mut self.in_service, ports);
        let gone = before.difference(&self.in_service).copied();
        let come = self.in_service.difference(&before).copied();
        let gone = gone.map(|port| (trap::GID_OUT_OF_SERVICE, port));
        let come = come.map(|port| (trap::GID_IN_SERVICE, port));
        let changes: Vec<(u16, Guid)> = gone.chain(come).collect();
        for (number, port) in changes {
            let gid = Gid::new(Gid::DEFAULT_PREFIX, port);
            self.report_gid(sm_lid, number, gid);
        }
    }

    /// Reports that something has become of a GID: traps 64 to 67 (IBA 14.2.5.1).
    pub(super) fn report_gid(&mut self, sm_lid: Lid, number: u16, gid: Gid) {
        let mut details = [0; 54];
        TrapGid { gid }.emit(&mut details);
        let notice = Notice {
            is_generic: true,
            notice_type: Notice::TYPE_SUBNET_MANAGEMENT,
            producer_type: Notice::PRODUCER_CLASS_MANAGER,
            trap_number: number,
            issuer_lid: sm_lid,
            toggle: false,
            count: 0,
            details,
        };
        self.report(&notice);
    }

    /// Reports a notice to all that have subscribed to it.
    pub(super) fn report(&mut self, notice: &Notice) {
        let to: BTreeSet<(Lid, Qpn)> = self
            .entries
            .keys()
            .filter(|(_, _, info)| matches(info, notice))
            .map(|&(lid, qpn, _)| (lid, qpn))
            .collect();
        for (lid, qpn) in to {
            if self.waiting.len() < WAITING_MAX {
                self.waiting.push_back((lid, qpn, *notice));
            }
        }
    }

    /// A report that is sent now.
    fn start(&mut self, now: Time, (lid, qpn, notice): (Lid, Qpn, Notice)) -> Option<MadMessage> {
        self.last_tid = REPORT_TIDS | (self.last_tid.wrapping_add(1) & 0xffff_ffff);
        let mut mad = Mad::sa(Method::REPORT, AttributeId::NOTICE, 0, self.last_tid);
        notice.emit(mad.sa_data_mut());
        let report = message(lid, qpn, &mad);
        let started = self
            .reports
            .start(now, self.last_tid, TIMING, report.clone());
        started.is_ok().then_some(report)
    }

    /// A subscriber has answered.
    pub(super) fn answered(&mut self, tid: u64) {
        self.reports.finish(tid);
    }

    /// The reports to send at `now`.
    pub(super) fn poll(&mut self, now: Time) -> Vec<MadMessage> {
        let mut out = Vec::new();
        while let Some(due) = self.reports.poll(now) {
            if let Due::Retry { request, .. } = due {
                out.push(request.clone());
            }
        }
        while self.reports.room() > 0
            && let Some(next) = self.waiting.pop_front()
        {
            out.extend(self.start(now, next));
        }
        out
    }

    /// When something is due.
    pub(super) fn deadline(&self) -> Option<Time> {
        match self.waiting.is_empty() || self.reports.room() == 0 {
            true => self.reports.deadline(),
            false => Some(Time::ZERO),
        }
    }
}

fn matches(info: &InformInfo, notice: &Notice) -> bool {
    let lid = info.lid_first.get() == InformInfo::ANY
        || (info.lid_first..=info.lid_last).contains(&notice.issuer_lid);
    let kind =
        info.notice_type == InformInfo::ANY || info.notice_type == u16::from(notice.notice_type);
    let number = info.trap_number == InformInfo::ANY || info.trap_number == notice.trap_number;
    let producer = info.producer_type == InformInfo::ANY_PRODUCER
        || info.producer_type == notice.producer_type;
    info.is_generic == notice.is_generic && lid && kind && number && producer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(trap: u16) -> InformInfo {
        InformInfo {
            gid: Gid::default(),
            lid_first: Lid::PERMISSIVE,
            lid_last: Lid::ZERO,
            is_generic: true,
            subscribe: true,
            notice_type: InformInfo::ANY,
            trap_number: trap,
            qpn: Qpn::default(),
            resp_time: 18,
            producer_type: InformInfo::ANY_PRODUCER,
        }
    }

    #[test]
    fn subscriptions_are_bounded_for_each_port_and_in_all() {
        let mut subscriptions = Subscriptions::default();
        let mut subscribe = |port: u16, trap| {
            let from = (Lid::new(port), Qpn::GSI);
            subscriptions.set(Guid(port.into()), from, &info(trap))
        };
        for port in 0..32 {
            for trap in 0..32 {
                assert!(subscribe(port, trap), "{port} {trap}");
            }
            assert!(!subscribe(port, 32), "the 33rd of a port");
            assert!(subscribe(port, 31), "a repetition");
        }
        assert!(!subscribe(32, 0), "the 1025th in all");
    }

    #[test]
    fn reports_beyond_those_under_way_wait_and_are_sent_as_others_are_answered() {
        let mut subscriptions = Subscriptions::default();
        for port in 1..=1000_u16 {
            let any = info(InformInfo::ANY);
            assert!(subscriptions.set(Guid(port.into()), (Lid::new(port), Qpn::GSI), &any));
        }
        subscriptions.report(&Notice::link_state_change(Lid::new(7)));
        let mut told = Vec::new();
        while subscriptions.deadline() == Some(Time::ZERO) {
            let sent = subscriptions.poll(Time(1));
            assert!(sent.len() <= REPORTS_MAX);
            for report in sent {
                told.push(report.lid.get());
                subscriptions.answered(Mad::from_bytes(*report.mad).tid());
            }
        }
        assert_eq!(told, (1..=1000).collect::<Vec<u16>>());
        assert_eq!(subscriptions.deadline(), None);
    }

    #[test]
    fn subscriptions_are_told_as_records_numbered_for_each_port() {
        let mut subscriptions = Subscriptions::default();
        for (lid, port, trap) in [(1, 1, 64), (1, 1, 65), (2, 2, 64)] {
            assert!(subscriptions.set(Guid(port), (Lid::new(lid), Qpn::GSI), &info(trap)));
        }
        let found = |mask, data: &[u8; DATA_LEN], port: Option<u64>| {
            let shown = |guid: Guid| port.is_none_or(|port| guid.0 == port);
            let records = subscriptions.records(mask, data, shown).unwrap();
            let told = |record: &InformInfoRecord| {
                assert!(record.info.subscribe && record.info.qpn == Qpn::GSI);
                (
                    record.subscriber.guid().0,
                    record.number,
                    record.info.trap_number,
                )
            };
            records.iter().map(told).collect::<Vec<_>>()
        };
        let none = [0; DATA_LEN];
        assert_eq!(found(0, &none, None), [(1, 0, 64), (1, 1, 65), (2, 0, 64)]);
        assert_eq!(found(0, &none, Some(2)), [(2, 0, 64)], "its own alone");
        let mut of_one = none;
        of_one[..16].copy_from_slice(&Gid::new(Gid::DEFAULT_PREFIX, Guid(1)).0);
        of_one[17] = 1;
        assert_eq!(found(0b11, &of_one, None), [(1, 1, 65)]);
        let unknown = subscriptions.records(1 << 4, &none, |_| true);
        assert_eq!(unknown, Err(MadStatus::SA_REQUEST_INVALID));
    }

    #[test]
    fn subscriptions_of_ports_that_have_gone_are_dropped_and_make_room() {
        let mut subscriptions = Subscriptions::default();
        for (lid, port) in [(1, 1), (2, 2), (3, 3)] {
            assert!(subscriptions.set(Guid(port), (Lid::new(lid), Qpn::GSI), &info(64)));
        }
        // Port 2 has left, and port 3 has another LID.
        subscriptions.retain(|port, lid| (port, lid.get()) == (Guid(1), 1));
        let unsubscribe = InformInfo {
            subscribe: false,
            ..info(64)
        };
        let left = [1, 2, 3].map(|lid| {
            let from = (Lid::new(lid), Qpn::GSI);
            subscriptions.set(Guid(lid.into()), from, &unsubscribe)
        });
        assert_eq!(left, [true, false, false]);
    }
}
