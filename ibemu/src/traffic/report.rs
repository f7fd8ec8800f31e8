//! The report of a run.

mod files;
mod perftest;

use anyhow::Result;
use hostd::control::{FlowReport, FlowState, Histogram, Latency};
use serde::Serialize;

use wire::TrafficKind;
use wire::convert::{nanoseconds, real, u64_of, usize_of};

use super::calibrate::Calibration;
use super::collective_report::{CollectiveJson, CollectiveRun};
use super::constant::{ConstantJson, ConstantRun};
use super::flows::Flow;
use super::run::RunOutcome;
use crate::accounting::{Account, AtPort};
use crate::drops::Drops;
use crate::lids::{HostLids, LeftOut};
use crate::output::{self, Align, Table};
use crate::quantity::{bit_rate, duration, per_second};
pub(crate) use files::write;
pub(crate) use perftest::print as print_perftest;

/// Flows that are listed; with more, only the totals are printed.
const LISTED_MAX: usize = 32;
/// Places of drops, of waiting packets and of missing ones that are listed; the rest is counted.
const PLACES_MAX: usize = 20;

/// What a plan says of its flows, as far as reports need it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct About<'a> {
    /// Names of the groups of flows, where there are any.
    pub(crate) groups: &'a [String],
    /// Groups that are collective operations.
    pub(crate) collectives: &'a [CollectiveRun],
    /// Groups of constant bit rate.
    pub(crate) constants: &'a [ConstantRun],
    /// Whether this machine keeps the pace, if that was asked for.
    pub(crate) calibration: Option<Calibration>,
}

impl<'a> About<'a> {
    fn collectives_of(&self, ran: &RunOutcome) -> Vec<CollectiveJson> {
        let outcomes = self.collectives.iter().map(|run| run.outcome(&ran.flows));
        outcomes.collect()
    }

    fn constants_of(&self, ran: &RunOutcome) -> Vec<ConstantJson<'a>> {
        let outcome = |run: &ConstantRun| {
            let group = usize_of(run.group);
            let (latency, jitter) = (ran.latencies.get(group)?, ran.jitter.get(group)?);
            Some(run.outcome(self.groups.get(group)?, latency, jitter))
        };
        self.constants.iter().filter_map(outcome).collect()
    }
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    size: Option<u16>,
    interrupted: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    collectives: Vec<CollectiveJson>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    constant_rate: Vec<ConstantJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    calibration: Option<Calibration>,
    total: Total<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<Group<'a>>,
    packets: &'a Account,
    unreachable: &'a [LeftOut],
    flows: Vec<FlowJson<'a>>,
}

/// All flows together.
#[derive(Debug, Serialize)]
struct Total<'a> {
    #[serde(flatten)]
    sums: Sums,
    dropped: &'a Drops,
}

/// The flows of a group together.
#[derive(Debug, Serialize)]
struct Group<'a> {
    name: &'a str,
    #[serde(flatten)]
    sums: Sums,
}

/// What has become of packets, of one flow or of several together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
struct Counts {
    /// Packets that rates, counts and times have asked for: `delivered + lost + unsent + abandoned`.
    offered: u64,
    sent: u64,
    delivered: u64,
    lost: u64,
    /// Packets that were asked for and not sent: links or windows did not let them.
    unsent: u64,
    /// Packets that were still to come of flows that were given up.
    abandoned: u64,
    duplicates: u64,
    reordered: u64,
    stalls: u64,
    bytes_delivered: u64,
}

impl Counts {
    fn of(flow: &FlowReport) -> Self {
        Self {
            offered: flow.offered,
            sent: flow.sent,
            delivered: flow.delivered,
            // What is still under way when all is at rest will not come.
            lost: flow.lost + flow.in_flight,
            unsent: flow.offered.saturating_sub(flow.sent + flow.abandoned),
            abandoned: flow.abandoned,
            duplicates: flow.duplicates,
            reordered: flow.reordered,
            stalls: flow.stalls,
            bytes_delivered: flow.bytes_delivered,
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            offered: self.offered + other.offered,
            sent: self.sent + other.sent,
            delivered: self.delivered + other.delivered,
            lost: self.lost + other.lost,
            unsent: self.unsent + other.unsent,
            abandoned: self.abandoned + other.abandoned,
            duplicates: self.duplicates + other.duplicates,
            reordered: self.reordered + other.reordered,
            stalls: self.stalls + other.stalls,
            bytes_delivered: self.bytes_delivered + other.bytes_delivered,
        }
    }
}

/// Some flows together.
#[derive(Debug, Serialize)]
struct Sums {
    flows: usize,
    #[serde(flatten)]
    counts: Counts,
    elapsed_ns: u64,
    packets_per_second: u64,
    bits_per_second: u64,
    /// Jain's index of what the flows have delivered in relation to what they offered: 1 for equal shares,
    /// 1/n where one of n flows has all.
    fairness: Option<f64>,
    latency: LatencyJson,
}

#[derive(Debug, Serialize)]
struct FlowJson<'a> {
    source: &'a str,
    destination: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    dlid: u16,
    size: u16,
    state: &'static str,
    #[serde(flatten)]
    counts: Counts,
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
///
/// # Errors
/// If standard output cannot be written to.
pub(crate) fn print(ran: &RunOutcome, about: &About<'_>, json: bool) -> Result<()> {
    let RunOutcome { hosts, flows, .. } = ran;
    let groups = about.groups;
    let collectives = about.collectives_of(ran);
    let constants = about.constants_of(ran);
    let all = sums(ran, |_| true);
    let of_groups = groups.iter().zip(0..).map(|(name, number)| Group {
        name,
        sums: sums(ran, |group| group == number),
    });
    let of_groups: Vec<Group<'_>> = of_groups.collect();
    if json {
        let name = |group| groups.get(usize_of(group)).map(String::as_str);
        let flow = |flow| flow_json(hosts, flow, name);
        return output::json(&Report {
            size: common_size(flows),
            interrupted: ran.interrupted,
            collectives,
            constant_rate: constants,
            calibration: about.calibration,
            total: Total {
                sums: all,
                dropped: &ran.account.all_drops,
            },
            groups: of_groups,
            packets: &ran.account,
            unreachable: &ran.left_out,
            flows: flows.iter().map(flow).collect(),
        });
    }
    LeftOut::print(&ran.left_out)?;
    if flows.len() <= LISTED_MAX {
        output::line(table(hosts, flows))?;
    }
    if of_groups.len() > 1 {
        output::line(group_table(&of_groups))?;
    }
    if !collectives.is_empty() {
        output::line(CollectiveJson::table(&collectives))?;
    }
    if !constants.is_empty() {
        output::line(ConstantJson::table(&constants))?;
    }
    let counts = all.counts;
    output::line(format!(
        "{} flows: {} offered, {} delivered, {} lost{}{}; {} packets/s, {}{}",
        all.flows,
        counts.offered,
        counts.delivered,
        counts.lost,
        some(counts.unsent, "not sent"),
        some(counts.abandoned, "abandoned"),
        all.packets_per_second,
        bit_rate(all.bits_per_second),
        fairness(all.fairness.filter(|_| all.flows > 1)),
    ))?;
    output::line(format!("one-way latency: {}", latency_line(&all.latency)))?;
    if ran.untimed > 0 {
        output::line(format!(
            "  without {} flows between machines, whose clocks are not one: ibemu ping measures round trips",
            ran.untimed
        ))?;
    }
    if let Some(calibration) = &about.calibration {
        output::line(calibration.line())?;
    }
    print_account(&ran.account)
}

/// A part of a line, if there are any.
fn some(packets: u64, what: &str) -> String {
    match packets {
        0 => String::new(),
        packets => format!(", {packets} {what}"),
    }
}

fn fairness(index: Option<f64>) -> String {
    index.map_or_else(String::new, |index| format!("; fairness {index:.3}"))
}

/// The packet length that all flows have.
fn common_size(flows: &[Flow]) -> Option<u16> {
    let size = flows.first()?.spec.size;
    flows
        .iter()
        .all(|flow| flow.spec.size == size)
        .then_some(size)
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

/// What all flows together have delivered, bits a second.
pub(crate) fn bits_per_second(ran: &RunOutcome) -> u64 {
    sums(ran, |_| true).bits_per_second
}

/// The flows of those groups together.
fn sums(ran: &RunOutcome, wanted: impl Fn(u32) -> bool) -> Sums {
    let flows = ran.flows.iter().filter(|flow| wanted(flow.spec.group));
    let flows: Vec<&FlowReport> = flows.map(|flow| &flow.report).collect();
    let all = flows.iter().map(|flow| Counts::of(flow));
    let counts = all.fold(Counts::default(), Counts::and);
    // Flows start one after another: the time that they have in common is the longest one.
    let longest = flows.iter().map(|flow| flow.elapsed_ns).max().unwrap_or(0);
    let elapsed_ns = longest.min(nanoseconds(ran.elapsed));
    let mut latency = Histogram::default();
    for (of_group, _) in ran
        .latencies
        .iter()
        .zip(0..)
        .filter(|&(_, group)| wanted(group))
    {
        latency.add(of_group);
    }
    Sums {
        flows: flows.len(),
        counts,
        elapsed_ns,
        packets_per_second: per_second(counts.delivered, elapsed_ns),
        bits_per_second: per_second(counts.bytes_delivered.saturating_mul(8), elapsed_ns),
        fairness: jain(&flows),
        latency: latency.summary().into(),
    }
}

/// Jain's index of fairness, (sum x)^2 / (n sum x^2), where x is the part of what a flow offered that was delivered, or
/// without a rate, when that is always all, what was delivered. `None` if nothing was.
fn jain(flows: &[&FlowReport]) -> Option<f64> {
    let is_closed = flows
        .iter()
        .all(|flow| flow.offered == flow.sent + flow.abandoned);
    let part = |flow: &&FlowReport| match is_closed {
        true => real(flow.delivered),
        false => real(flow.delivered) / real(flow.offered.max(1)),
    };
    let (sum, squares) = flows
        .iter()
        .map(part)
        .fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    (squares > 0.0).then(|| sum * sum / (real(u64_of(flows.len())) * squares))
}

/// One line.
fn latency_line(latency: &LatencyJson) -> String {
    if latency.samples == 0 {
        return "not measured".to_owned();
    }
    format!(
        "min {}, mean {}, median {}, 99 % {}, 99.9 % {}, max {}",
        duration(latency.min_ns),
        duration(latency.mean_ns),
        duration(latency.p50_ns),
        duration(latency.p99_ns),
        duration(latency.p999_ns),
        duration(latency.max_ns)
    )
}

fn group_table(groups: &[Group<'_>]) -> Table {
    let mut table = Table::new(&[
        ("GROUP", Align::Left),
        ("FLOWS", Align::Right),
        ("OFFERED", Align::Right),
        ("DELIVERED", Align::Right),
        ("LOST", Align::Right),
        ("RATE", Align::Right),
        ("FAIRNESS", Align::Right),
        ("MEDIAN", Align::Right),
        ("99 %", Align::Right),
    ]);
    for Group { name, sums } in groups {
        table.row([
            (*name).to_owned(),
            sums.flows.to_string(),
            sums.counts.offered.to_string(),
            sums.counts.delivered.to_string(),
            sums.counts.lost.to_string(),
            bit_rate(sums.bits_per_second),
            sums.fairness
                .map_or_else(|| "-".to_owned(), |index| format!("{index:.3}")),
            duration(sums.latency.p50_ns),
            duration(sums.latency.p99_ns),
        ]);
    }
    table
}

fn state_name(state: FlowState) -> &'static str {
    match state {
        FlowState::Running => "running",
        FlowState::Draining => "draining",
        FlowState::Finished => "finished",
        FlowState::Abandoned => "abandoned",
    }
}

fn flow_json<'a>(
    hosts: &'a [HostLids],
    Flow { spec, report: flow }: &Flow,
    name: impl Fn(u32) -> Option<&'a str>,
) -> FlowJson<'a> {
    FlowJson {
        source: &hosts[spec.pair.0].identity.name,
        destination: &hosts[spec.pair.1].identity.name,
        group: name(spec.group),
        dlid: flow.dlid.get(),
        size: flow.size,
        state: state_name(flow.state),
        counts: Counts::of(flow),
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
    for Flow { spec, report: flow } in flows {
        let pair = spec.pair;
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
