//! A collective operation of a plan: its flows, and how long it took.

use hostd::control::FlowState;
use serde::Serialize;
use wire::convert::{saturate, u64_of};

use super::collective::{Collective, ITERATIONS_MAX, Size, Transfer};
use super::flows::{Flow, FlowSpec, StepSpec, seed_of};
use super::plan::{ByteText, GroupPlan, RateText, milliseconds};
use crate::output::{Align, Table};
use crate::quantity::{byte_rate, duration, per_second};

/// Packet length where none is given: an MTU of 2048 and headers, bytes.
const SIZE: u16 = 2082;
/// What is not payload of a packet: LRH, BTH, DETH, ICRC and VCRC, bytes.
const HEADERS: u16 = 34;
/// Bytes of each rank where none are given.
const BYTES: u64 = 1 << 20;
/// Packets of a transfer in flight at most, where nothing is given.
const WINDOW: u32 = 256;

/// A collective operation of a plan, on the hosts that there are.
#[derive(Clone, Debug)]
pub(crate) struct CollectiveRun {
    pub(super) group: u32,
    collective: Collective,
    /// Hosts by rank.
    ranks: Vec<usize>,
    size: Size,
    /// Transfers of all iterations.
    transfers: usize,
}

/// How a collective operation went, with the names that NCCL's tests have for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct CollectiveJson {
    operation: &'static str,
    ranks: usize,
    /// Of each rank.
    bytes: u64,
    iterations: u32,
    /// Transfers of one iteration.
    transfers: usize,
    /// Transfers of all iterations that have not arrived whole.
    incomplete: usize,
    /// From the beginning of the first iteration to the end of the last one, a part for each.
    time_ns: Option<u64>,
    /// How long each took, from the end of the one before.
    iteration_ns: Vec<u64>,
    /// Bytes of a rank over the time.
    algbw_bytes_per_second: Option<u64>,
    /// That of the busiest link if all were used as well as can be.
    busbw_bytes_per_second: Option<u64>,
}

impl CollectiveRun {
    /// What a group of a plan says of it.
    ///
    /// # Errors
    /// What is wrong with the group.
    pub(super) fn new(
        collective: Collective,
        group: &GroupPlan,
        hosts: &[&str],
        number: u32,
    ) -> Result<Self, String> {
        group.check()?;
        for (key, is_given) in [
            ("from", !group.from.is_empty()),
            ("to", !group.to.is_empty()),
            ("target", group.target.is_some()),
            ("count", group.count.is_some()),
            ("seconds", group.seconds.is_some()),
        ] {
            if is_given {
                return Err(format!(
                    "{key}: a collective has bytes, iterations and hosts"
                ));
            }
        }
        let iterations = group.iterations.unwrap_or(1);
        if !(1..=ITERATIONS_MAX).contains(&iterations) {
            return Err(format!("iterations {iterations}: 1 to {ITERATIONS_MAX}"));
        }
        let ranks = group.among(hosts)?;
        let packet = group.size.unwrap_or(SIZE).saturating_sub(HEADERS);
        let size = Size {
            ranks: ranks.len(),
            bytes: group.bytes.map_or(BYTES, |ByteText(bytes)| bytes),
            iterations,
            packet: u64::from(packet),
        };
        Ok(Self {
            group: number,
            collective,
            ranks,
            size,
            transfers: 0,
        })
    }

    /// Its flows, of which the first is the `from`-th of the run.
    ///
    /// # Errors
    /// That there are too few ranks or bytes, or too many transfers.
    pub(super) fn flows(
        &mut self,
        group: &GroupPlan,
        seed: u64,
        from: usize,
        warmup_ms: u32,
    ) -> Result<Vec<FlowSpec>, String> {
        let sl = group.sl.map(wire::Sl::new).transpose();
        let sl = sl.map_err(|error| error.to_string())?;
        let transfers = self.collective.transfers(self.size);
        let transfers = transfers.map_err(|error| error.to_string())?;
        self.transfers = transfers.len();
        let flow = |transfer: Transfer| {
            let pair = (self.ranks[transfer.from], self.ranks[transfer.to]);
            let rate = group.rate.map_or(0, |RateText(rate)| rate);
            let window = if rate == 0 { WINDOW } else { 0 };
            FlowSpec {
                pair,
                group: self.group,
                size: group.size.unwrap_or(SIZE),
                window: group.window.unwrap_or(window),
                rate,
                sl,
                dlid_offset: group.dlid_offset,
                count: transfer.bytes.div_ceil(self.size.packet).max(1),
                start_ms: milliseconds(group.start).saturating_add(warmup_ms),
                duration_ms: 0,
                seed: seed_of(seed.wrapping_add(u64::from(self.group)), pair),
                step: Some(StepSpec {
                    iteration: transfer.iteration,
                    after: transfer.after.iter().map(|&at| from + at).collect(),
                }),
                mgid: None,
                is_warm_up: false,
            }
        };
        Ok(transfers.into_iter().map(flow).collect())
    }

    /// How it went.
    pub(super) fn outcome(&self, flows: &[Flow]) -> CollectiveJson {
        let Size {
            ranks,
            bytes,
            iterations,
            ..
        } = self.size;
        let own: Vec<(u32, &Flow)> = flows
            .iter()
            .filter(|flow| flow.spec.group == self.group)
            .filter_map(|flow| Some((flow.spec.step.as_ref()?.iteration, flow)))
            .collect();
        let has_arrived = |flow: &Flow| {
            flow.report.state == FlowState::Finished && flow.report.delivered == flow.spec.count
        };
        let whole = own.iter().filter(|(_, flow)| has_arrived(flow)).count();
        let incomplete = self.transfers.saturating_sub(whole);
        let first = own.iter().filter(|&&(iteration, _)| iteration == 0);
        let begun = first.map(|(_, flow)| flow.report.began_ns).min();
        let mut iteration_ns = Vec::new();
        let mut last = begun.unwrap_or(0);
        for iteration in 0..iterations {
            let of_it = own.iter().filter(|&&(of, _)| of == iteration);
            let of_it: Vec<&Flow> = of_it.map(|&(_, flow)| flow).collect();
            let is_whole = of_it.len() == self.transfers / per(iterations)
                && of_it.iter().all(|flow| has_arrived(flow));
            let end = of_it.iter().map(|flow| flow.report.last_arrival_ns).max();
            let Some(end) = end.filter(|_| is_whole) else {
                break;
            };
            iteration_ns.push(end.saturating_sub(last));
            last = end;
        }
        let total = begun.map(|begun| last.saturating_sub(begun));
        let time_ns = total.filter(|_| incomplete == 0);
        let time_ns = time_ns.map(|total| total / u64::from(iterations).max(1));
        let algbw = time_ns.map(|ns| per_second(bytes, ns));
        let (more, less) = self.collective.bus_factor(ranks);
        let busbw = |algbw: u64| {
            let busbw = u128::from(algbw) * u128::from(more) / u128::from(less);
            saturate::<u64>(busbw)
        };
        CollectiveJson {
            operation: self.collective.name(),
            ranks,
            bytes,
            iterations,
            transfers: self.transfers / per(iterations),
            incomplete,
            time_ns,
            iteration_ns,
            algbw_bytes_per_second: algbw,
            busbw_bytes_per_second: algbw.map(busbw),
        }
    }
}

/// A divisor that is not 0.
fn per(iterations: u32) -> usize {
    usize::try_from(iterations).unwrap_or(usize::MAX).max(1)
}

impl CollectiveJson {
    /// What is wrong, if a transfer has not arrived whole.
    pub(super) fn verdict(&self) -> Option<String> {
        (self.incomplete > 0).then(|| {
            format!(
                "{}: {} of {} transfers did not arrive whole, or did not begin because what they wait for did not come",
                self.operation,
                self.incomplete,
                u64_of(self.transfers) * u64::from(self.iterations)
            )
        })
    }

    /// Its name, and how long each iteration took, nanoseconds.
    pub(super) fn iterations(&self) -> (&'static str, &[u64]) {
        (self.operation, &self.iteration_ns)
    }

    /// One line an operation, with the columns of NCCL's tests.
    pub(super) fn table(all: &[Self]) -> Table {
        let mut table = Table::new(&[
            ("COLLECTIVE", Align::Left),
            ("RANKS", Align::Right),
            ("SIZE(B)", Align::Right),
            ("ITERATIONS", Align::Right),
            ("TIME", Align::Right),
            ("ALGBW", Align::Right),
            ("BUSBW", Align::Right),
        ]);
        for one in all {
            let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
            table.row([
                one.operation.to_owned(),
                one.ranks.to_string(),
                one.bytes.to_string(),
                one.iterations.to_string(),
                or_none(one.time_ns.map(duration)),
                or_none(one.algbw_bytes_per_second.map(byte_rate)),
                or_none(one.busbw_bytes_per_second.map(byte_rate)),
            ]);
        }
        table
    }
}
