//! What has been read of each port: sums, rates, and how the requests to its node went.

use link::Time;
use wire::convert::real;
use wire::pma::{PortCounters, PortCountersExtended, PortRcvErrorDetails};

use crate::accumulate::Accumulator;
use crate::model::{Counter, NodeCollection, Rates, Reading};

/// The counters of one port.
#[derive(Clone, Debug, Default)]
pub(super) struct PortBook {
    sums: Accumulator,
    rates: Rates,
    is_known: bool,
    pub(super) is_stale: bool,
    is_saturated: bool,
    resets: u32,
    /// When PortCountersExtended and PortCounters were read last.
    extended_at: Option<Time>,
    basic_at: Option<Time>,
    /// The details are behind the errors that PortCounters has shown.
    pub(super) details_due: bool,
}

impl PortBook {
    /// What a snapshot shows of it.
    pub(super) fn reading(&self) -> Reading {
        Reading {
            is_known: self.is_known,
            is_stale: self.is_stale,
            counters: *self.sums.sums(),
            rates: self.rates,
            resets: self.resets,
            is_saturated: self.is_saturated,
        }
    }

    /// Adds readings; counters that have begun anew count as one reset.
    fn read(&mut self, values: &[(Counter, u64)]) {
        let mut is_reset = false;
        for &(counter, raw) in values {
            is_reset |= self.sums.read(counter, raw);
        }
        self.resets += u32::from(is_reset);
    }

    pub(super) fn extended(&mut self, now: Time, read: &PortCountersExtended) {
        let before = *self.sums.sums();
        self.read(&[
            (Counter::XmitData, read.xmit_data),
            (Counter::RcvData, read.rcv_data),
            (Counter::XmitPkts, read.xmit_pkts),
            (Counter::RcvPkts, read.rcv_pkts),
            (Counter::UnicastXmitPkts, read.unicast_xmit_pkts),
            (Counter::UnicastRcvPkts, read.unicast_rcv_pkts),
            (Counter::MulticastXmitPkts, read.multicast_xmit_pkts),
            (Counter::MulticastRcvPkts, read.multicast_rcv_pkts),
        ]);
        if let Some(seconds) = seconds_since(&mut self.extended_at, now) {
            let sums = self.sums.sums();
            let rate = |counter| real(sums[counter] - before[counter]) / seconds;
            self.rates.xmit_bytes_per_s = 4.0 * rate(Counter::XmitData);
            self.rates.rcv_bytes_per_s = 4.0 * rate(Counter::RcvData);
            self.rates.xmit_pkts_per_s = rate(Counter::XmitPkts);
            self.rates.rcv_pkts_per_s = rate(Counter::RcvPkts);
        }
        self.is_known = true;
    }

    pub(super) fn basic(&mut self, now: Time, read: &PortCounters) {
        let before = *self.sums.sums();
        self.read(&[
            (Counter::SymbolErrors, read.symbol_error.into()),
            (
                Counter::LinkErrorRecoveries,
                read.link_error_recovery.into(),
            ),
            (Counter::LinkDowned, read.link_downed.into()),
            (Counter::RcvErrors, read.rcv_errors.into()),
            (
                Counter::RcvRemotePhysicalErrors,
                read.rcv_remote_physical_errors.into(),
            ),
            (
                Counter::RcvSwitchRelayErrors,
                read.rcv_switch_relay_errors.into(),
            ),
            (Counter::XmitDiscards, read.xmit_discards.into()),
            (
                Counter::XmitConstraintErrors,
                read.xmit_constraint_errors.into(),
            ),
            (
                Counter::RcvConstraintErrors,
                read.rcv_constraint_errors.into(),
            ),
            (
                Counter::LocalLinkIntegrityErrors,
                read.local_link_integrity_errors.into(),
            ),
            (
                Counter::ExcessiveBufferOverrunErrors,
                read.excessive_buffer_overrun_errors.into(),
            ),
            (Counter::Vl15Dropped, read.vl15_dropped.into()),
            (Counter::Qp1Dropped, read.qp1_dropped.into()),
            (Counter::XmitWait, read.xmit_wait.into()),
        ]);
        let sums = self.sums.sums();
        let more = |counter| sums[counter] > before[counter];
        self.details_due |= more(Counter::RcvErrors)
            || more(Counter::RcvSwitchRelayErrors)
            || more(Counter::ExcessiveBufferOverrunErrors);
        self.is_saturated = is_saturated(read);
        if let Some(seconds) = seconds_since(&mut self.basic_at, now) {
            let waited = sums[Counter::XmitWait] - before[Counter::XmitWait];
            self.rates.xmit_wait_per_s = real(waited) / seconds;
            self.rates.errors_per_s = real(sums.errors() - before.errors()) / seconds;
        }
    }

    pub(super) fn details(&mut self, read: &PortRcvErrorDetails) {
        self.read(&[
            (
                Counter::LocalPhysicalErrors,
                read.local_physical_errors.into(),
            ),
            (
                Counter::MalformedPktErrors,
                read.malformed_packet_errors.into(),
            ),
            (
                Counter::BufferOverrunErrors,
                read.buffer_overrun_errors.into(),
            ),
            (Counter::DlidMappingErrors, read.dlid_mapping_errors.into()),
            (Counter::VlMappingErrors, read.vl_mapping_errors.into()),
            (Counter::LoopingErrors, read.looping_errors.into()),
        ]);
        self.details_due = false;
    }

    /// The port could not be read for now: what it does is not known.
    pub(super) fn is_silent(&mut self) {
        self.is_stale = true;
        self.rates = Rates::default();
    }
}

/// The time since the last reading, which is `now` from here on; `None` at the first one.
fn seconds_since(last: &mut Option<Time>, now: Time) -> Option<f64> {
    let last = last.replace(now)?;
    let ns = now.0.saturating_sub(last.0);
    (ns > 0).then(|| real(ns) / 1e9)
}

/// Whether a counter that PortCountersExtended does not have is at its largest value.
fn is_saturated(read: &PortCounters) -> bool {
    let wide = [
        read.symbol_error,
        read.rcv_errors,
        read.rcv_remote_physical_errors,
        read.rcv_switch_relay_errors,
        read.xmit_discards,
        read.qp1_dropped,
        read.vl15_dropped,
    ];
    let narrow = [
        read.link_error_recovery,
        read.link_downed,
        read.xmit_constraint_errors,
        read.rcv_constraint_errors,
    ];
    let half = [
        read.local_link_integrity_errors,
        read.excessive_buffer_overrun_errors,
    ];
    wide.contains(&u16::MAX)
        || narrow.contains(&u8::MAX)
        || half.contains(&0xf)
        || read.xmit_wait == u32::MAX
}

/// How the requests to one node went in this sample.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeBook {
    pub(super) collection: NodeCollection,
    pub(super) asked_at: Option<Time>,
}
