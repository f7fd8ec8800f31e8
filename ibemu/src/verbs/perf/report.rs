//! The report of `ibemu perf`.

use std::time::Duration;

use anyhow::Result;
use hostd::control::{FlowReport, FlowState, Latency};
use serde::Serialize;

use wire::TrafficKind;
use wire::convert::{nanoseconds, saturate};

use super::Flow;
use crate::accounting::{Account, AtPort};
use crate::cli::Perf;
use crate::drops::Drops;
use crate::lids::{HostLids, LeftOut};
use crate::output::{self, Align, Table};
use crate::quantity::{bit_rate, duration, per_second};

/// Flows that are listed; with more, only the totals are printed.
const LISTED_MAX: usize = 32;
/// Places of drops, of waiting packets and of missing ones that are listed; the rest is counted.
const PLACES_MAX: usize = 20;

/// A run and its results.
pub(super) struct RunOutcome<'a> {
    /// The hosts that took part.
    pub(super) hosts: &'a [HostLids],
    /// The flows between them, whose sources answer.
    pub(super) flows: &'a [Flow],
    /// Where all packets are.
    pub(super) account: &'a Account,
    /// The hosts that did not take part, or not to the end.
    pub(super) left_out: &'a [LeftOut],
    /// How long it took.
    pub(super) elapsed: Duration,
    /// Whether an interrupt has ended it.
    pub(super) interrupted: bool,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    size: u16,
    interrupted: bool,
    total: Total<'a>,
    packets: &'a Account,
    unreachable: &'a [LeftOut],
    flows: Vec<FlowJson<'a>>,
}

/// All flows together.
#[derive(Debug, Default, Serialize)]
struct Total<'a> {
    flows: usize,
    offered: u64,
    sent: u64,
    delivered: u64,
    lost: u64,
    duplicates: u64,
    reordered: u64,
    bytes_delivered: u64,
    elapsed_ns: u64,
    packets_per_second: u64,
    bits_per_second: u64,
    latency: LatencyJson,
    dropped: Option<&'a Drops>,
}

#[derive(Debug, Serialize)]
struct FlowJson<'a> {
    source: &'a str,
    destination: &'a str,
    dlid: u16,
    state: &'static str,
    offered: u64,
    sent: u64,
    delivered: u64,
    lost: u64,
    duplicates: u64,
    reordered: u64,
    stalls: u64,
    bytes_delivered: u64,
    elapsed_ns: u64,
    latency: LatencyJson,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
struct LatencyJson {
    samples: u64,
    min_ns: u64,
    mean_ns: u64,
    p50_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    max_ns: u64,
}

impl From<Latency> for LatencyJson {
    fn from(latency: Latency) -> Self {
        Self {
            samples: latency.samples,
            min_ns: latency.min_ns,
            mean_ns: latency.mean_ns,
            p50_ns: latency.p50_ns,
            p90_ns: latency.p90_ns,
            p99_ns: latency.p99_ns,
            p999_ns: latency.p999_ns,
            max_ns: latency.max_ns,
        }
    }
}

/// Prints the table, or JSON.
pub(super) fn print(ran: &RunOutcome<'_>, options: &Perf) -> Result<()> {
    let RunOutcome { hosts, flows, .. } = *ran;
    let total = total(ran);
    if options.json {
        let flows = flows.iter().map(|flow| flow_json(hosts, flow)).collect();
        return output::json(&Report {
            size: options.size,
            interrupted: ran.interrupted,
            total,
            packets: ran.account,
            unreachable: ran.left_out,
            flows,
        });
    }
    LeftOut::print(ran.left_out)?;
    if flows.len() <= LISTED_MAX {
        output::line(table(hosts, flows))?;
    }
    output::line(format!(
        "{} flows: {} offered, {} delivered, {} lost; {} packets/s, {}",
        total.flows,
        total.offered,
        total.delivered,
        total.lost,
        total.packets_per_second,
        bit_rate(total.bits_per_second)
    ))?;
    output::line(format!(
        "one-way latency: {}",
        latency_line(&total.latency, total.flows)
    ))?;
    print_account(ran.account)
}

/// Where the packets are: a line for each kind, then the places.
fn print_account(account: &Account) -> Result<()> {
    output::line("")?;
    output::line(packets(account))?;
    let place = |at: &AtPort| {
        let AtPort {
            device,
            port,
            kind,
            reason,
            packets,
        } = at;
        let why = reason.as_ref().map_or("waiting", String::as_str);
        format!("{device}:{port} {packets} {kind} {why}")
    };
    places("dropped", account.drops.iter().map(place))?;
    places("under way", account.under_way.iter().map(place))?;
    let cables = account.on_cables.iter().map(|cable| {
        format!(
            "{} to {} {} packets of any kind",
            cable.from, cable.to, cable.packets
        )
    });
    places("on or lost on cables", cables)?;
    places("restarted, counts lost", account.restarted.iter().cloned())?;
    places("silent, counts missing", account.silent.iter().cloned())?;
    let other = account.other_drops();
    let other = other
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"));
    places("dropped besides, management and other packets", other)
}

fn packets(account: &Account) -> Table {
    let mut table = Table::new(&[
        ("PACKETS", Align::Left),
        ("SENT", Align::Right),
        ("DELIVERED", Align::Right),
        ("DROPPED", Align::Right),
        ("UNDER WAY", Align::Right),
        ("UNACCOUNTED", Align::Right),
    ]);
    for kind in TrafficKind::ALL {
        let Some(sums) = account.kinds.get(kind.name()) else {
            continue;
        };
        table.row([
            kind.name().to_owned(),
            sums.sent.to_string(),
            sums.delivered.to_string(),
            sums.dropped.values().sum::<u64>().to_string(),
            sums.under_way.to_string(),
            sums.unaccounted.to_string(),
        ]);
    }
    table
}

/// A line that lists places, if there are any.
fn places(what: &str, all: impl Iterator<Item = String>) -> Result<()> {
    let all: Vec<String> = all.collect();
    if all.is_empty() {
        return Ok(());
    }
    let listed = all[..all.len().min(PLACES_MAX)].join(", ");
    let more = match all.len().saturating_sub(PLACES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    output::line(format!("{what}: {listed}{more}"))
}

fn total<'a>(ran: &RunOutcome<'a>) -> Total<'a> {
    let (flows, elapsed) = (ran.flows, ran.elapsed);
    let sum =
        |field: fn(&FlowReport) -> u64| flows.iter().map(|(_, flow)| field(flow)).sum::<u64>();
    // Flows start one after another: the time that they have in common is the longest one.
    let longest = flows
        .iter()
        .map(|(_, flow)| flow.elapsed_ns)
        .max()
        .unwrap_or(0);
    let elapsed_ns = longest.min(nanoseconds(elapsed));
    let bytes = sum(|flow| flow.bytes_delivered);
    Total {
        flows: flows.len(),
        offered: sum(|flow| flow.offered),
        sent: sum(|flow| flow.sent),
        delivered: sum(|flow| flow.delivered),
        lost: sum(|flow| flow.lost),
        duplicates: sum(|flow| flow.duplicates),
        reordered: sum(|flow| flow.reordered),
        bytes_delivered: bytes,
        elapsed_ns,
        packets_per_second: per_second(sum(|flow| flow.delivered), elapsed_ns),
        bits_per_second: per_second(bytes.saturating_mul(8), elapsed_ns),
        latency: together(flows),
        dropped: Some(&ran.account.all_drops),
    }
}

/// The latencies of all flows. Percentiles of several flows are the largest among them: what every
/// flow keeps.
fn together(flows: &[Flow]) -> LatencyJson {
    let measured: Vec<&Latency> = flows
        .iter()
        .map(|(_, flow)| &flow.latency)
        .filter(|latency| latency.samples > 0)
        .collect();
    let largest =
        |field: fn(&Latency) -> u64| measured.iter().map(|one| field(one)).max().unwrap_or(0);
    let samples: u64 = measured.iter().map(|latency| latency.samples).sum();
    let weighted: u128 = measured
        .iter()
        .map(|latency| u128::from(latency.mean_ns) * u128::from(latency.samples))
        .sum();
    let mean = weighted.checked_div(u128::from(samples)).unwrap_or(0);
    LatencyJson {
        samples,
        min_ns: measured
            .iter()
            .map(|latency| latency.min_ns)
            .min()
            .unwrap_or(0),
        mean_ns: saturate::<u64>(mean),
        p50_ns: largest(|latency| latency.p50_ns),
        p90_ns: largest(|latency| latency.p90_ns),
        p99_ns: largest(|latency| latency.p99_ns),
        p999_ns: largest(|latency| latency.p999_ns),
        max_ns: largest(|latency| latency.max_ns),
    }
}

/// One line; with several flows the percentiles are bounds that every flow keeps.
fn latency_line(latency: &LatencyJson, flows: usize) -> String {
    if latency.samples == 0 {
        return "not measured".to_owned();
    }
    let bound = if flows > 1 { "<= " } else { "" };
    format!(
        "min {}, mean {}, median {bound}{}, 99 % {bound}{}, 99.9 % {bound}{}, max {}",
        duration(latency.min_ns),
        duration(latency.mean_ns),
        duration(latency.p50_ns),
        duration(latency.p99_ns),
        duration(latency.p999_ns),
        duration(latency.max_ns)
    )
}

fn state_name(state: FlowState) -> &'static str {
    match state {
        FlowState::Running => "running",
        FlowState::Draining => "draining",
        FlowState::Finished => "finished",
        FlowState::Abandoned => "abandoned",
    }
}

fn flow_json<'a>(hosts: &'a [HostLids], (pair, flow): &Flow) -> FlowJson<'a> {
    FlowJson {
        source: &hosts[pair.0].identity.name,
        destination: &hosts[pair.1].identity.name,
        dlid: flow.dlid.get(),
        state: state_name(flow.state),
        offered: flow.offered,
        sent: flow.sent,
        delivered: flow.delivered,
        lost: flow.lost,
        duplicates: flow.duplicates,
        reordered: flow.reordered,
        stalls: flow.stalls,
        bytes_delivered: flow.bytes_delivered,
        elapsed_ns: flow.elapsed_ns,
        latency: flow.latency.into(),
    }
}

fn table(hosts: &[HostLids], flows: &[Flow]) -> Table {
    let mut table = Table::new(&[
        ("FROM", Align::Left),
        ("TO", Align::Left),
        ("OFFERED", Align::Right),
        ("DELIVERED", Align::Right),
        ("LOST", Align::Right),
        ("PACKETS/S", Align::Right),
        ("RATE", Align::Right),
        ("MEDIAN", Align::Right),
        ("99 %", Align::Right),
    ]);
    for (pair, flow) in flows {
        let bits = flow.bytes_delivered.saturating_mul(8);
        table.row([
            hosts[pair.0].identity.name.clone(),
            hosts[pair.1].identity.name.clone(),
            flow.offered.to_string(),
            flow.delivered.to_string(),
            flow.lost.to_string(),
            per_second(flow.delivered, flow.elapsed_ns).to_string(),
            bit_rate(per_second(bits, flow.elapsed_ns)),
            duration(flow.latency.p50_ns),
            duration(flow.latency.p99_ns),
        ]);
    }
    table
}
