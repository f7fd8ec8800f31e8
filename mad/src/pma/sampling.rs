//! PortSamplesControl and PortSamplesResult: what a port counts within an interval (IBA 16.1.3.2, 16.1.3.4).
//!
//! ```text
//!           Set(PortSamplesControl)            SampleStart over            SampleInterval over
//!  +------+ ------------------> +----------+ --------------> +---------+ ---------------> +------+
//!  | Done |                     | Starting |                 | Running |                  | Done |
//!  +------+                     +----------+                 +---------+                  +------+
//! ```
//!
//! A node has one mechanism. A `Set` while it is at work changes nothing (the answer tells its status). What is
//! counted at both ends of the interval is read when its time has come, by [`Sampling::poll`].

use core::ops::RangeInclusive;

use link::{SpecCounters, Time};
use wire::PortNum;
use wire::convert::saturate;
use wire::mad::{Mad, MadStatus};
use wire::pma::{
    PortSamplesControl, PortSamplesResult, SAMPLE_COUNTERS, SampleStatus, sample_select,
};

use super::{XMIT_WAIT_TICK_NS, selected};

/// Tick: 4 ns times (this + 1) is a microsecond.
const TICK: u8 = 249;
const TICK_NS: u64 = 1000;
/// CounterMask: the counter can be any of the mandatory quantities.
const MANDATORY: u8 = 1;

type Values = [u64; SAMPLE_COUNTERS];

/// The sampling mechanism of a node.
#[derive(Debug, Default)]
pub(super) struct Sampling {
    /// The request; its status is [`Sampling::state`]'s.
    control: PortSamplesControl,
    state: State,
}

/// How far the sampling is.
#[derive(Debug)]
enum State {
    Done(Values),
    Starting { at: Time },
    Running { until: Time, before: Values },
}

impl Default for State {
    fn default() -> Self {
        Self::Done([0; SAMPLE_COUNTERS])
    }
}

impl Sampling {
    /// When something is to be read.
    pub(super) fn deadline(&self) -> Option<Time> {
        match self.state {
            State::Done(_) => None,
            State::Starting { at } => Some(at),
            State::Running { until, .. } => Some(until),
        }
    }

    /// Reads what has come due at `now`.
    pub(super) fn poll<'c>(
        &mut self,
        now: Time,
        ports: RangeInclusive<u8>,
        counts: impl Fn(PortNum) -> &'c SpecCounters,
    ) {
        if self.deadline().is_none_or(|at| at > now) {
            return;
        }
        let selected = selected(self.control.port_select, ports);
        let values = self.read(selected.unwrap_or(RangeInclusive::new(1, 0)), counts);
        if let State::Starting { .. } = self.state {
            let interval_ns = u64::from(self.control.sample_interval) * TICK_NS;
            self.state = State::Running {
                until: now + interval_ns,
                before: values,
            };
            if interval_ns > 0 {
                return;
            }
        }
        if let State::Running { before, .. } = self.state {
            let counted = core::array::from_fn(|at| values[at].wrapping_sub(before[at]));
            self.state = State::Done(counted);
        }
    }

    /// The present values of the selected counters of `ports`.
    fn read<'c>(
        &self,
        ports: RangeInclusive<u8>,
        counts: impl Fn(PortNum) -> &'c SpecCounters,
    ) -> Values {
        let mut values = [0u64; SAMPLE_COUNTERS];
        for counts in ports.map(|port| counts(PortNum::new(port))) {
            for (value, &select) in values.iter_mut().zip(&self.control.counter_select) {
                let counted = match select {
                    sample_select::XMIT_DATA => counts.xmit_data_words,
                    sample_select::RCV_DATA => counts.rcv_data_words,
                    sample_select::XMIT_PKTS => counts.xmit_pkts,
                    sample_select::RCV_PKTS => counts.rcv_pkts,
                    sample_select::XMIT_WAIT => counts.xmit_wait_ns / XMIT_WAIT_TICK_NS,
                    _ => 0,
                };
                *value = value.wrapping_add(counted);
            }
        }
        values
    }

    fn status(&self) -> SampleStatus {
        match self.state {
            State::Done(_) => SampleStatus::Done,
            State::Starting { .. } => SampleStatus::Starting,
            State::Running { .. } => SampleStatus::Running,
        }
    }

    /// Answers PortSamplesControl, whose AttributeModifier is the number of the mechanism.
    pub(super) fn control(
        &mut self,
        now: Time,
        mad: &mut Mad,
        set: bool,
        ports: RangeInclusive<u8>,
    ) -> MadStatus {
        let Ok(asked) = mad.pma_attribute::<PortSamplesControl>() else {
            return MadStatus::BAD_FIELD;
        };
        if mad.attr_mod() != 0 || selected(asked.port_select, ports).is_none() {
            return MadStatus::BAD_FIELD;
        }
        if set && self.status() == SampleStatus::Done {
            let known = sample_select::NONE..=sample_select::XMIT_WAIT;
            if !asked
                .counter_select
                .iter()
                .all(|select| known.contains(select))
            {
                return MadStatus::BAD_FIELD;
            }
            self.control = asked;
            self.state = State::Starting {
                at: now + u64::from(asked.sample_start) * TICK_NS,
            };
        }
        mad.set_pma_attribute(&PortSamplesControl {
            port_select: asked.port_select,
            tick: TICK,
            counter_width: PortSamplesControl::WIDTH_32,
            counter_masks: [MANDATORY; SAMPLE_COUNTERS],
            sample_mechanisms: 0,
            sample_status: self.status(),
            option_mask: 0,
            vendor_mask: 0,
            samples_only_option_mask: 0,
            ..self.control
        });
        MadStatus::OK
    }

    /// Answers a Get of PortSamplesResult.
    pub(super) fn result(&self, mad: &mut Mad) -> MadStatus {
        if mad.attr_mod() != 0 {
            return MadStatus::BAD_FIELD;
        }
        let counters = match self.state {
            State::Done(counted) => counted.map(saturate::<u32>),
            State::Starting { .. } | State::Running { .. } => [0; SAMPLE_COUNTERS],
        };
        mad.set_pma_attribute(&PortSamplesResult {
            tag: self.control.tag,
            sample_status: self.status(),
            counters,
        });
        MadStatus::OK
    }
}
