//! Connections of constant bit rate (VLARB01): each flow of such a group sends at the rate of its connection, on the
//! service level of its class and band, and is judged in inter-arrival times (IAT): how many packets come within
//! parts of it, and by how much they come closer together or further apart than they were sent.

use hostd::control::Histogram;
use routing::qos::{Band, Class, ServiceLevels};
use serde::{Deserialize, Serialize};
use wire::Sl;
use wire::convert::real;

use super::flows::FlowSpec;
use crate::output::{Align, Table};
use crate::quantity::{bit_rate, duration};

/// Parts of an IAT with which delays are compared: VLARB01's, in 32nds.
const DELAYS_32: [u64; 7] = [1, 2, 4, 8, 16, 24, 32];
/// Parts of an IAT with which jitter is compared, in eighths.
const JITTER_8: [u64; 5] = [1, 2, 4, 6, 8];
/// By when packets are due, in IAT, if nothing is given.
pub(super) const DEADLINE: f64 = 1.0;

/// The promise to a group's flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ConstantClass {
    /// Dedicated bandwidth.
    Db,
    /// Dedicated bandwidth, time sensitive.
    Dbts,
}

impl ConstantClass {
    fn name(self) -> &'static str {
        match self {
            Self::Db => "db",
            Self::Dbts => "dbts",
        }
    }

    /// The service level of a connection with that rate on a link at full speed, as `ibemu qos` has them.
    pub(super) fn sl(self, rate_bps: u64) -> Sl {
        let band = Band::of(rate_bps);
        ServiceLevels::BestEffortFirst.sl(match self {
            Self::Db => Class::Dedicated(band),
            Self::Dbts => Class::TimeSensitive(band),
        })
    }
}

/// A group of such flows.
#[derive(Clone, Debug)]
pub(crate) struct ConstantRun {
    pub(crate) group: u32,
    class: ConstantClass,
    sl: Sl,
    rate: u64,
    interval_ns: u64,
    /// IAT.
    deadline: f64,
}

/// A part of an IAT, and which share of packets is within it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Within {
    intervals: f64,
    percent: f64,
}

/// How the flows of a group kept their times.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ConstantJson<'a> {
    group: &'a str,
    class: &'static str,
    sl: u8,
    /// Of each flow, as it sends.
    rate_bits_per_second: u64,
    interval_ns: u64,
    packets: u64,
    deadline_intervals: f64,
    /// Packets that came after their deadline.
    late: u64,
    delays: Vec<Within>,
    jitter: Vec<Within>,
}

impl ConstantRun {
    /// The group whose flows are like that one.
    pub(super) fn new(class: ConstantClass, deadline: f64, flow: &FlowSpec) -> Self {
        let bits = u64::from(flow.size) * 8;
        Self {
            group: flow.group,
            class,
            sl: flow.sl.unwrap_or_default(),
            rate: flow.rate,
            interval_ns: (bits * 1_000_000_000 / flow.rate.max(1)).max(1),
            deadline,
        }
    }

    /// How it went, by the latencies and the jitter of its packets.
    pub(super) fn outcome<'a>(
        &self,
        group: &'a str,
        latency: &Histogram,
        jitter: &Histogram,
    ) -> ConstantJson<'a> {
        let within = |of: &Histogram, parts: u64, whole: u64| Within {
            intervals: real(parts) / real(whole),
            percent: percent(of.within(self.interval_ns * parts / whole), of.samples),
        };
        // Of a deadline in parts of an IAT, a thousandth is enough.
        let thousandths = wire::convert::saturate::<u64>(
            std::time::Duration::from_secs_f64(self.deadline).as_millis(),
        );
        let due_ns = self.interval_ns.saturating_mul(thousandths) / 1000;
        ConstantJson {
            group,
            class: self.class.name(),
            sl: self.sl.get(),
            rate_bits_per_second: self.rate,
            interval_ns: self.interval_ns,
            packets: latency.samples,
            deadline_intervals: self.deadline,
            late: latency.samples - latency.within(due_ns).min(latency.samples),
            delays: DELAYS_32.map(|parts| within(latency, parts, 32)).into(),
            jitter: JITTER_8.map(|parts| within(jitter, parts, 8)).into(),
        }
    }
}

fn percent(part: u64, of: u64) -> f64 {
    match of {
        0 => 100.0,
        of => 100.0 * real(part) / real(of),
    }
}

impl ConstantJson<'_> {
    /// Its name, and its shares of packets by part of an IAT: delays, jitter.
    pub(super) fn curves(&self) -> (&str, [Vec<(f64, f64)>; 2]) {
        let points = |all: &[Within]| all.iter().map(|one| (one.intervals, one.percent)).collect();
        (self.group, [points(&self.delays), points(&self.jitter)])
    }

    /// One line a group.
    pub(super) fn table(all: &[Self]) -> Table {
        let mut table = Table::new(&[
            ("CONSTANT RATE", Align::Left),
            ("CLASS", Align::Left),
            ("SL", Align::Right),
            ("RATE", Align::Right),
            ("IAT", Align::Right),
            ("PACKETS", Align::Right),
            ("LATE", Align::Right),
            ("JITTER <= IAT/8", Align::Right),
        ]);
        for one in all {
            let jitter = one.jitter.first().map_or(100.0, |within| within.percent);
            table.row([
                one.group.to_owned(),
                one.class.to_owned(),
                one.sl.to_string(),
                bit_rate(one.rate_bits_per_second),
                duration(one.interval_ns),
                one.packets.to_string(),
                one.late.to_string(),
                format!("{jitter:.2} %"),
            ]);
        }
        table
    }
}
