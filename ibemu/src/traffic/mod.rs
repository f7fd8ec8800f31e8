//! Traffic between hosts, as `ibemu perf` and `ibemu traffic` send it.
//!
//! Every flow is one source sending to one destination's counting queue pair, which acknowledges;
//! the source keeps the counts of both ends. Where all packets are, those of data, of queries,
//! acknowledgements and reports, is the difference of all devices' counts before and after
//! ([`crate::accounting`]).
//!
//! ```text
//!   flows ──> idle? counts before, paths ──> start ──> how far? ... ──> reports, latencies, counts after
//!                                               └──────── interrupt: stop ────^
//! ```
//!
//! All that needs an answer of the fabric is asked before the first packet: traffic between all hosts keeps
//! them busy. From then on each host is asked once for each step, all of them at the same time.

mod bench;
mod calibrate;
mod collective;
mod collective_report;
mod constant;
mod error_text;
mod flows;
mod pattern;
mod plan;
mod report;
mod requests;
mod run;
mod virtual_time;

pub(crate) use calibrate::{Calibration, REFERENCE};
pub(crate) use flows::{DURATION_MS, FlowSpec, Share, seed_of};
pub(crate) use pattern::Pattern;
use pattern::PatternError;
pub(crate) use plan::{ByteText, GroupPlan, RateText, TrafficPlan, What, milliseconds};
pub(crate) use report::{About, bits_per_second, print, print_perftest, write};
pub(crate) use run::{Participants, run, verdict};
pub(crate) use virtual_time::VirtualFabric;
