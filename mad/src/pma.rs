//! The performance management agent: what answers requests for a port's counters (IBA 16.1).
//!
//! The counters of the dataplane never decrease. What a `Set` writes, mostly zero, is kept here as
//! the difference, so that a monitoring program that clears counters does not change what the local
//! control socket reports. 32-bit and narrower counters stop at their largest value.

mod arrays;
mod details;
mod sampling;

use core::ops::RangeInclusive;

use link::{SpecCounters as Counts, Time};
use wire::PortNum;
use wire::convert::saturate;
use wire::mad::{AttributeId, Mad, MadHeader, MadStatus};
use wire::pma::{
    ClassPortInfo, CounterArrayId, PortCounters, PortCountersExtended, PortExtendedSpeedsCounters,
    capability, select, select_extended, select2,
};

use crate::access::{Access, access};

/// Version of the class of performance management (IBA 16.1).
const CLASS_VERSION: u8 = 1;
/// PortSelect: all ports, added up.
const ALL_PORTS: u8 = 0xff;
/// RespTimeValue: about 0.27 s.
const RESP_TIME_VALUE: u8 = 16;
/// PortXmitWait counts microseconds: a 32-bit counter of nanoseconds would be full in 4 s.
const XMIT_WAIT_TICK_NS: u64 = 1000;

/// Access to one counter.
type Counter = fn(&mut Counts) -> &mut u64;

/// The counters of PortCounters with their bits of CounterSelect.
const BASIC: [(u16, Counter); 16] = [
    (select::SYMBOL_ERROR, |c| &mut c.symbol_errors),
    (select::LINK_ERROR_RECOVERY, |c| {
        &mut c.link_error_recoveries
    }),
    (select::LINK_DOWNED, |c| &mut c.link_downed),
    (select::RCV_ERRORS, |c| &mut c.rcv_errors),
    (select::RCV_REMOTE_PHYSICAL_ERRORS, |c| {
        &mut c.rcv_remote_physical_errors
    }),
    (select::RCV_SWITCH_RELAY_ERRORS, |c| {
        &mut c.rcv_switch_relay_errors
    }),
    (select::XMIT_DISCARDS, |c| &mut c.xmit_discards),
    (select::XMIT_CONSTRAINT_ERRORS, |c| {
        &mut c.xmit_constraint_errors
    }),
    (select::RCV_CONSTRAINT_ERRORS, |c| {
        &mut c.rcv_constraint_errors
    }),
    (select::LOCAL_LINK_INTEGRITY_ERRORS, |c| {
        &mut c.local_link_integrity_errors
    }),
    (select::EXCESSIVE_BUFFER_OVERRUN_ERRORS, |c| {
        &mut c.excessive_buffer_overruns
    }),
    (select::VL15_DROPPED, |c| &mut c.vl15_dropped),
    (select::XMIT_DATA, |c| &mut c.xmit_data_words),
    (select::RCV_DATA, |c| &mut c.rcv_data_words),
    (select::XMIT_PKTS, |c| &mut c.xmit_pkts),
    (select::RCV_PKTS, |c| &mut c.rcv_pkts),
];

/// PortXmitWait, the one counter of CounterSelect2.
const XMIT_WAIT: Counter = |c| &mut c.xmit_wait_ns;

/// The counters of PortCountersExtended with their bits of CounterSelect.
const EXTENDED: [(u16, Counter); 8] = [
    (select_extended::XMIT_DATA, |c| &mut c.xmit_data_words),
    (select_extended::RCV_DATA, |c| &mut c.rcv_data_words),
    (select_extended::XMIT_PKTS, |c| &mut c.xmit_pkts),
    (select_extended::RCV_PKTS, |c| &mut c.rcv_pkts),
    (select_extended::UNICAST_XMIT_PKTS, |c| {
        &mut c.unicast_xmit_pkts
    }),
    (select_extended::UNICAST_RCV_PKTS, |c| {
        &mut c.unicast_rcv_pkts
    }),
    (select_extended::MULTICAST_XMIT_PKTS, |c| {
        &mut c.multicast_xmit_pkts
    }),
    (select_extended::MULTICAST_RCV_PKTS, |c| {
        &mut c.multicast_rcv_pkts
    }),
];

/// The agent of one node.
#[derive(Debug)]
pub struct Pma {
    /// By port number, what is subtracted from each counter when it is read: one set for
    /// PortCounters and one for PortCountersExtended, which are cleared apart.
    basic: Vec<Counts>,
    extended: Vec<Counts>,
    details: details::Baselines,
    arrays: arrays::Arrays,
    sampling: sampling::Sampling,
    is_switch: bool,
    /// The ports that the agent answers for.
    first: u8,
    last: u8,
}

impl Pma {
    /// The agent of a switch with external ports `1..=ports`, all counters as they stand.
    #[must_use]
    pub fn new(ports: u8) -> Self {
        Self {
            is_switch: true,
            ..Self::of_ports(1, ports)
        }
    }

    /// The agent behind one port of a channel adapter: it answers for that port.
    #[must_use]
    pub fn of_port(port: PortNum) -> Self {
        Self::of_ports(port.get(), port.get())
    }

    fn of_ports(first: u8, last: u8) -> Self {
        let all = vec![Counts::default(); usize::from(last) + 1];
        Self {
            basic: all.clone(),
            extended: all,
            details: details::Baselines::new(last),
            arrays: arrays::Arrays::default(),
            sampling: sampling::Sampling::default(),
            is_switch: false,
            first,
            last,
        }
    }

    /// Answers `mad` in place. `all` gives what an external port has counted. Returns `false` if
    /// there is nothing to answer: it is no request.
    pub fn handle<'c>(
        &mut self,
        now: Time,
        mad: &mut Mad,
        all: impl Fn(PortNum) -> &'c link::Counts,
    ) -> bool {
        self.poll(now, &all);
        let counts = |port| &all(port).spec;
        let set = match access(mad, CLASS_VERSION) {
            Ok(Access::Get) => false,
            Ok(Access::Set) => true,
            Err(is_answered) => return is_answered,
        };
        let status = match mad.attr_id() {
            AttributeId::CLASS_PORT_INFO if !set => {
                mad.set_pma_attribute(&class_port_info());
                MadStatus::OK
            }
            AttributeId::PORT_COUNTERS => self.port_counters(mad, set, counts),
            AttributeId::PORT_COUNTERS_EXTENDED => self.port_counters_extended(mad, set, counts),
            AttributeId::PORT_RCV_ERROR_DETAILS | AttributeId::PORT_XMIT_DISCARD_DETAILS => {
                let ports = self.first..=self.last;
                self.details
                    .handle(mad, set, ports, |port| &all(port).drops)
            }
            AttributeId::PORT_EXTENDED_SPEEDS_COUNTERS => self.extended_speeds(mad),
            AttributeId::PORT_SAMPLES_CONTROL => {
                let ports = self.first..=self.last;
                self.sampling.control(now, mad, set, ports)
            }
            AttributeId::PORT_SAMPLES_RESULT if !set => self.sampling.result(mad),
            id => match CounterArrayId::of(id) {
                Some(CounterArrayId::SwPortVlCongestion) if !self.is_switch => {
                    MadStatus::BAD_METHOD_ATTRIBUTE
                }
                Some(id) => {
                    let ports = self.first..=self.last;
                    self.arrays.handle(id, mad, set, ports, &all)
                }
                None => MadStatus::BAD_METHOD_ATTRIBUTE,
            },
        };
        mad.answer(status);
        true
    }

    /// When [`Pma::poll`] is due: a sampling starts or ends.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.sampling.deadline()
    }

    /// Reads the counters of a sampling that starts or ends at `now`.
    pub fn poll<'c>(&mut self, now: Time, all: impl Fn(PortNum) -> &'c link::Counts) {
        let ports = self.first..=self.last;
        self.sampling.poll(now, ports, |port| &all(port).spec);
    }

    /// PortExtendedSpeedsCounters: records have no line code, and nothing in it that could be wrong.
    fn extended_speeds(&self, mad: &mut Mad) -> MadStatus {
        let Ok(asked) = mad.pma_attribute::<PortExtendedSpeedsCounters>() else {
            return MadStatus::BAD_FIELD;
        };
        if self.ports(asked.port_select).is_none() {
            return MadStatus::BAD_FIELD;
        }
        mad.set_pma_attribute(&PortExtendedSpeedsCounters {
            port_select: asked.port_select,
            counter_select: asked.counter_select,
            ..PortExtendedSpeedsCounters::default()
        });
        MadStatus::OK
    }

    fn ports(&self, select: PortNum) -> Option<RangeInclusive<u8>> {
        selected(select, self.first..=self.last)
    }

    fn port_counters<'c>(
        &mut self,
        mad: &mut Mad,
        set: bool,
        counts: impl Fn(PortNum) -> &'c Counts,
    ) -> MadStatus {
        let Ok(request) = mad.pma_attribute::<PortCounters>() else {
            return MadStatus::BAD_FIELD;
        };
        let Some(ports) = self.ports(request.port_select) else {
            return MadStatus::BAD_FIELD;
        };
        if set {
            let mut values = from_wire(&request);
            for port in ports.clone() {
                let mut now = counts(PortNum::new(port)).clone();
                let base = &mut self.basic[usize::from(port)];
                for (bit, counter) in BASIC {
                    if request.counter_select & bit != 0 {
                        rebase(counter, &mut now, base, &mut values);
                    }
                }
                if request.counter_select2 & select2::XMIT_WAIT != 0 {
                    rebase(XMIT_WAIT, &mut now, base, &mut values);
                }
            }
        }
        let counters = BASIC.iter().map(|&(_, counter)| counter).chain([XMIT_WAIT]);
        let sum = sum_of_ports(&self.basic, ports, counters, counts);
        mad.set_pma_attribute(&to_wire(&request, &sum));
        MadStatus::OK
    }

    fn port_counters_extended<'c>(
        &mut self,
        mad: &mut Mad,
        set: bool,
        counts: impl Fn(PortNum) -> &'c Counts,
    ) -> MadStatus {
        let Ok(request) = mad.pma_attribute::<PortCountersExtended>() else {
            return MadStatus::BAD_FIELD;
        };
        let Some(ports) = self.ports(request.port_select) else {
            return MadStatus::BAD_FIELD;
        };
        if set {
            let mut values = from_wire_extended(&request);
            for port in ports.clone() {
                let mut now = counts(PortNum::new(port)).clone();
                let base = &mut self.extended[usize::from(port)];
                for (bit, counter) in EXTENDED {
                    if request.counter_select & bit != 0 {
                        rebase(counter, &mut now, base, &mut values);
                    }
                }
            }
        }
        let counters = EXTENDED.iter().map(|&(_, counter)| counter);
        let sum = sum_of_ports(&self.extended, ports, counters, counts);
        mad.set_pma_attribute(&PortCountersExtended {
            port_select: request.port_select,
            counter_select: request.counter_select,
            xmit_data: sum.xmit_data_words,
            rcv_data: sum.rcv_data_words,
            xmit_pkts: sum.xmit_pkts,
            rcv_pkts: sum.rcv_pkts,
            unicast_xmit_pkts: sum.unicast_xmit_pkts,
            unicast_rcv_pkts: sum.unicast_rcv_pkts,
            multicast_xmit_pkts: sum.multicast_xmit_pkts,
            multicast_rcv_pkts: sum.multicast_rcv_pkts,
        });
        MadStatus::OK
    }
}

/// The ports that PortSelect names, of `ports`; `None` if it names none of them.
fn selected(select: PortNum, ports: RangeInclusive<u8>) -> Option<RangeInclusive<u8>> {
    match select.get() {
        ALL_PORTS => Some(ports),
        port => ports.contains(&port).then_some(port..=port),
    }
}

fn class_port_info() -> ClassPortInfo {
    ClassPortInfo {
        base_version: MadHeader::BASE_VERSION,
        class_version: CLASS_VERSION,
        capability_mask: capability::PMA_ALL_PORT_SELECT
            | capability::PMA_EXTENDED_WIDTH
            | capability::PMA_XMIT_WAIT,
        resp_time_value: RESP_TIME_VALUE,
        ..ClassPortInfo::default()
    }
}

/// Sets the baseline so that `counter` reads as in `values`.
fn rebase(counter: Counter, now: &mut Counts, base: &mut Counts, values: &mut Counts) {
    *counter(base) = counter(now).wrapping_sub(*counter(values));
}

/// The sum over `ports` of each counter, less its baseline.
fn sum_of_ports<'c>(
    base: &[Counts],
    ports: RangeInclusive<u8>,
    counters: impl Iterator<Item = Counter> + Clone,
    counts: impl Fn(PortNum) -> &'c Counts,
) -> Counts {
    let mut sum = Counts::default();
    for port in ports {
        let mut now = counts(PortNum::new(port)).clone();
        let mut base = base[usize::from(port)].clone();
        for counter in counters.clone() {
            let value = counter(&mut now).wrapping_sub(*counter(&mut base));
            let total = counter(&mut sum);
            *total = total.saturating_add(value);
        }
    }
    sum
}

fn to_wire(request: &PortCounters, sum: &Counts) -> PortCounters {
    PortCounters {
        port_select: request.port_select,
        counter_select: request.counter_select,
        counter_select2: request.counter_select2,
        symbol_error: saturate(sum.symbol_errors),
        link_error_recovery: saturate(sum.link_error_recoveries),
        link_downed: saturate(sum.link_downed),
        rcv_errors: saturate(sum.rcv_errors),
        rcv_remote_physical_errors: saturate(sum.rcv_remote_physical_errors),
        rcv_switch_relay_errors: saturate(sum.rcv_switch_relay_errors),
        xmit_discards: saturate(sum.xmit_discards),
        xmit_constraint_errors: saturate(sum.xmit_constraint_errors),
        rcv_constraint_errors: saturate(sum.rcv_constraint_errors),
        local_link_integrity_errors: saturate::<u8>(sum.local_link_integrity_errors).min(0x0f),
        excessive_buffer_overrun_errors: saturate::<u8>(sum.excessive_buffer_overruns).min(0x0f),
        qp1_dropped: 0,
        vl15_dropped: saturate(sum.vl15_dropped),
        xmit_data: saturate(sum.xmit_data_words),
        rcv_data: saturate(sum.rcv_data_words),
        xmit_pkts: saturate(sum.xmit_pkts),
        rcv_pkts: saturate(sum.rcv_pkts),
        xmit_wait: saturate(sum.xmit_wait_ns / XMIT_WAIT_TICK_NS),
    }
}

fn from_wire(request: &PortCounters) -> Counts {
    Counts {
        symbol_errors: request.symbol_error.into(),
        link_error_recoveries: request.link_error_recovery.into(),
        link_downed: request.link_downed.into(),
        rcv_errors: request.rcv_errors.into(),
        rcv_remote_physical_errors: request.rcv_remote_physical_errors.into(),
        rcv_switch_relay_errors: request.rcv_switch_relay_errors.into(),
        xmit_discards: request.xmit_discards.into(),
        xmit_constraint_errors: request.xmit_constraint_errors.into(),
        rcv_constraint_errors: request.rcv_constraint_errors.into(),
        local_link_integrity_errors: request.local_link_integrity_errors.into(),
        excessive_buffer_overruns: request.excessive_buffer_overrun_errors.into(),
        vl15_dropped: request.vl15_dropped.into(),
        xmit_data_words: request.xmit_data.into(),
        rcv_data_words: request.rcv_data.into(),
        xmit_pkts: request.xmit_pkts.into(),
        rcv_pkts: request.rcv_pkts.into(),
        xmit_wait_ns: u64::from(request.xmit_wait) * XMIT_WAIT_TICK_NS,
        ..Counts::default()
    }
}

fn from_wire_extended(request: &PortCountersExtended) -> Counts {
    Counts {
        xmit_data_words: request.xmit_data,
        rcv_data_words: request.rcv_data,
        xmit_pkts: request.xmit_pkts,
        rcv_pkts: request.rcv_pkts,
        unicast_xmit_pkts: request.unicast_xmit_pkts,
        unicast_rcv_pkts: request.unicast_rcv_pkts,
        multicast_xmit_pkts: request.multicast_xmit_pkts,
        multicast_rcv_pkts: request.multicast_rcv_pkts,
        ..Counts::default()
    }
}

#[cfg(test)]
mod tests;
