//! Attributes that are arrays of counters: by virtual lane (VL), by service level, by opcode. What a `Set`
//! writes is kept as a difference, as for the other counters.
//!
//! Counters of what this link layer cannot get wrong are 0 for ever but for what a `Set` writes: flow control
//! is guarded by silence of the whole link, so no VL misses an update by itself, and no port marks packets.

use core::ops::RangeInclusive;
use std::collections::BTreeMap;

use link::Counts;
use wire::PortNum;
use wire::convert::saturate;
use wire::mad::{Mad, MadStatus};
use wire::pma::{COUNTERS_MAX, CounterArrayId};

use super::{XMIT_WAIT_TICK_NS, selected};

/// The opcode that stands for all: stock programs write nothing else when they clear counters. So packets of
/// this one (Send First on a reliable connection) cannot be counted alone.
const ALL_OP_CODES: u8 = 0;
/// Words of 4 bytes in a kilobyte.
const WORDS_PER_KILOBYTE: u64 = 256;

type Values = [u64; COUNTERS_MAX];

/// What is subtracted from each counter of an attribute of a port when it is read.
#[derive(Clone, Copy, Debug, Default)]
struct Baseline {
    op_code: u8,
    values: Values,
}

/// The arrays of all ports.
#[derive(Debug, Default)]
pub(super) struct Arrays {
    /// By attribute and port; none until it is set. As many as there are attributes and ports at most.
    baselines: BTreeMap<(CounterArrayId, u8), Baseline>,
}

impl Arrays {
    /// Answers attribute `id` for `ports`.
    pub(super) fn handle<'c>(
        &mut self,
        id: CounterArrayId,
        mad: &mut Mad,
        set: bool,
        ports: RangeInclusive<u8>,
        counts: impl Fn(PortNum) -> &'c Counts,
    ) -> MadStatus {
        let mut array = mad.counter_array(id);
        let Some(ports) = selected(array.port_select, ports) else {
            return MadStatus::BAD_FIELD;
        };
        let unit = unit(id);
        let mut sums = [0u64; COUNTERS_MAX];
        let mut op_code = 0;
        for port in ports {
            let counts = counts(PortNum::new(port));
            let mut base = self.baselines.get(&(id, port)).copied().unwrap_or_default();
            if set {
                if id.has_op_code() && base.op_code != array.op_code {
                    // The counters of another opcode start at 0.
                    base.op_code = array.op_code;
                    base.values = counted(id, counts, base.op_code);
                }
                let now = counted(id, counts, base.op_code);
                let counters = now.iter().zip(array.counters).take(id.counters());
                for (number, (now, written)) in counters.enumerate() {
                    if array.counter_select >> number & 1 != 0 {
                        base.values[number] = now.wrapping_sub(u64::from(written) * unit);
                    }
                }
                self.baselines.insert((id, port), base);
            }
            op_code = base.op_code;
            let now = counted(id, counts, base.op_code);
            for (sum, (now, base)) in sums.iter_mut().zip(now.iter().zip(base.values)) {
                *sum = sum.saturating_add(now.wrapping_sub(base) / unit);
            }
        }
        let most = id.width().max();
        array.counters = sums.map(|sum| saturate::<u32>(sum).min(most));
        array.op_code = op_code;
        mad.set_counter_array(id, &array);
        MadStatus::OK
    }
}

/// How much of what the link layer counts is one of what the attribute counts.
const fn unit(id: CounterArrayId) -> u64 {
    match id {
        CounterArrayId::VlXmitWait => XMIT_WAIT_TICK_NS,
        CounterArrayId::VlOpData => WORDS_PER_KILOBYTE,
        _ => 1,
    }
}

/// What a port has counted for an attribute.
fn counted(id: CounterArrayId, counts: &Counts, op_code: u8) -> Values {
    let details = &counts.details;
    let first_two = |first: u64, second: u64| {
        let mut values = [0; COUNTERS_MAX];
        (values[0], values[1]) = (first, second);
        values
    };
    let sum = |values: &Values| values.iter().sum();
    let op_code = (op_code != ALL_OP_CODES).then_some(op_code);
    match id {
        CounterArrayId::OpRcvCounters => {
            let (pkts, words) = details.received_by_vl(op_code);
            first_two(sum(&pkts), sum(&words))
        }
        CounterArrayId::FlowCtlCounters => first_two(details.xmit_flow_pkts, details.rcv_flow_pkts),
        CounterArrayId::VlOpPackets => details.received_by_vl(op_code).0,
        CounterArrayId::VlOpData => details.received_by_vl(op_code).1,
        CounterArrayId::VlXmitWait => details.by_level(|level| level.xmit_wait_ns_of_vl),
        CounterArrayId::SwPortVlCongestion => details.by_level(|level| level.expired_pkts_of_vl),
        CounterArrayId::RcvConCtrl => first_two(
            sum(&details.by_level(|level| level.rcv_fecn_pkts_of_sl)),
            sum(&details.by_level(|level| level.rcv_becn_pkts_of_sl)),
        ),
        CounterArrayId::SlRcvFecn => details.by_level(|level| level.rcv_fecn_pkts_of_sl),
        CounterArrayId::SlRcvBecn => details.by_level(|level| level.rcv_becn_pkts_of_sl),
        CounterArrayId::XmitDataSl => details.by_level(|level| level.xmit_words_of_sl),
        CounterArrayId::RcvDataSl => details.by_level(|level| level.rcv_words_of_sl),
        CounterArrayId::VlXmitFlowCtlUpdateErrors
        | CounterArrayId::XmitConCtrl
        | CounterArrayId::VlXmitTimeCong => [0; COUNTERS_MAX],
    }
}
