//! Subscriptions to traps (InformInfo, IBA 13.4.8.3), and the reports in flight.

use std::collections::BTreeSet;

use link::Time;
use mad::local::MadMessage;
use mad::transaction::{Due, Timing, Transactions};
use wire::attr::Notice;
use wire::sa::InformInfo;
use wire::{AttributeId, Format as _, Lid, Mad, Method, Qpn};

use crate::smp::message;

/// Subscriptions at most.
const SUBSCRIPTIONS_MAX: usize = 1024;
/// Reports that wait for their answer at most; further ones are not sent.
const REPORTS_MAX: usize = 1024;
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
    entries: BTreeSet<(Lid, Qpn, InformInfo)>,
    reports: Transactions<MadMessage>,
    last_tid: u64,
    out: Vec<MadMessage>,
}

impl Default for Subscriptions {
    fn default() -> Self {
        Self {
            entries: BTreeSet::new(),
            reports: Transactions::new(REPORTS_MAX),
            last_tid: REPORT_TIDS,
            out: Vec::new(),
        }
    }
}

impl Subscriptions {
    /// Adds or ends a subscription. `false`: there are too many, or there is none to end.
    pub(super) fn set(&mut self, subscriber: (Lid, Qpn), info: &InformInfo) -> bool {
        let key = InformInfo {
            subscribe: true,
            qpn: Qpn::default(),
            resp_time: 0,
            ..*info
        };
        let entry = (subscriber.0, subscriber.1, key);
        if !info.subscribe {
            return self.entries.remove(&entry);
        }
        if self.entries.len() >= SUBSCRIPTIONS_MAX && !self.entries.contains(&entry) {
            return false;
        }
        self.entries.insert(entry);
        true
    }

    /// Reports a notice to all that have subscribed to it.
    pub(super) fn report(&mut self, now: Time, notice: &Notice) {
        let to: BTreeSet<(Lid, Qpn)> = self
            .entries
            .iter()
            .filter(|(_, _, info)| matches(info, notice))
            .map(|&(lid, qpn, _)| (lid, qpn))
            .collect();
        for (lid, qpn) in to {
            self.last_tid = REPORT_TIDS | (self.last_tid.wrapping_add(1) & 0xffff_ffff);
            let mut mad = Mad::sa(Method::REPORT, AttributeId::NOTICE, 0, self.last_tid);
            notice.emit(mad.sa_data_mut());
            let report = message(lid, qpn, &mad);
            if self
                .reports
                .start(now, self.last_tid, TIMING, report.clone())
                .is_ok()
            {
                self.out.push(report);
            }
        }
    }

    /// A subscriber has answered.
    pub(super) fn answered(&mut self, tid: u64) {
        self.reports.finish(tid);
    }

    /// The reports to send at `now`.
    pub(super) fn poll(&mut self, now: Time) -> Vec<MadMessage> {
        let mut out = core::mem::take(&mut self.out);
        while let Some(due) = self.reports.poll(now) {
            if let Due::Retry { request, .. } = due {
                out.push(request.clone());
            }
        }
        out
    }

    /// When something is due.
    pub(super) fn deadline(&self) -> Option<Time> {
        match self.out.is_empty() {
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
