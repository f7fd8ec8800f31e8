//! What the flows of a run ask of their hosts, and what they answer, live and in virtual time.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use hostd::control::{Awaited, FlowReport, PERF_REPORTS_MAX, PerfRequest, Request, SINK_QPN, Step};
use wire::Gid;

use super::flows::{Flow, FlowSpec};
use crate::lids::HostLids;
use crate::paths::Path;
use crate::verify::Pair;

/// The number of a flow: whether it is a warm-up, its group, its position among those of its source and group.
const WARM_UP: u32 = 1 << 31;
const GROUP_SHIFT: u32 = 20;

/// What one host is to send.
#[derive(Debug)]
pub(super) struct SourceRequest {
    /// The host's position.
    pub(super) source: usize,
    /// Its flows.
    flows: Vec<Order>,
}

/// A flow, and what starts it.
#[derive(Debug)]
struct Order {
    spec: FlowSpec,
    request: PerfRequest,
    after: Vec<Awaited>,
}

/// A flow, its number at its source, and which flows it waits for, by their sources.
#[derive(Debug)]
pub(super) struct Numbered {
    pub(super) spec: FlowSpec,
    flow: u32,
    after: Vec<(usize, u32, u64)>,
}

impl SourceRequest {
    /// The flows of the host at position `source`, each by its path.
    ///
    /// # Errors
    /// If a destination has no LID that is wanted.
    pub(super) fn new(
        source: usize,
        specs: Vec<Numbered>,
        hosts: &[HostLids],
        path: impl Fn(usize) -> Path,
    ) -> Result<Self> {
        let flows = specs.into_iter().map(|numbered| {
            let Numbered { spec, flow, after } = numbered;
            let to = spec.pair.1;
            let request = request(&spec, flow, path(to), &hosts[to])?;
            let awaited = |(host, flow, packets): (usize, u32, u64)| Awaited {
                source: hosts[host].identity.lid,
                flow,
                packets,
            };
            let after = after.into_iter().map(awaited).collect();
            Ok(Order {
                spec,
                request,
                after,
            })
        });
        let flows = flows.collect::<Result<_>>()?;
        Ok(Self { source, flows })
    }

    /// How many flows it has.
    pub(super) fn flows(&self) -> usize {
        self.flows.len()
    }

    /// What starts its flows.
    pub(super) fn starts(&self) -> impl Iterator<Item = Request> {
        let mut by_start: BTreeMap<u32, Vec<PerfRequest>> = BTreeMap::new();
        let mut steps: BTreeMap<u32, Vec<Step>> = BTreeMap::new();
        let mut to_groups: BTreeMap<(u32, Gid), BTreeMap<u32, PerfRequest>> = BTreeMap::new();
        for order in &self.flows {
            let flow = order.request.clone();
            let start_ms = order.spec.start_ms;
            match (&order.spec.step, order.spec.mgid) {
                (_, Some(mgid)) => {
                    let of_group = to_groups.entry((start_ms, mgid)).or_default();
                    of_group.insert(flow.flow, flow);
                }
                (None, None) => by_start.entry(start_ms).or_default().push(flow),
                (Some(_), None) => steps.entry(start_ms).or_default().push(Step {
                    flow,
                    after: order.after.clone(),
                }),
            }
        }
        let start = |(delay_ms, flows)| Request::PerfStartAfter { delay_ms, flows };
        let start_steps = |(delay_ms, steps)| Request::PerfStartSteps { delay_ms, steps };
        let steps = steps.into_iter().map(start_steps);
        let start_to_group =
            |((delay_ms, mgid), flows): ((u32, Gid), BTreeMap<u32, PerfRequest>)| {
                let flows = flows.into_values().collect();
                Request::PerfStartGroup {
                    delay_ms,
                    mgid,
                    flows,
                }
            };
        let to_groups = to_groups.into_iter().map(start_to_group);
        by_start
            .into_iter()
            .map(start)
            .chain(steps)
            .chain(to_groups)
    }

    /// The groups that hosts have to join for its flows, by the hosts' positions.
    pub(super) fn memberships(&self) -> impl Iterator<Item = (usize, Gid)> {
        let all = self.flows.iter().filter_map(|order| {
            let (from, to) = order.spec.pair;
            Some((from, to, order.spec.mgid?))
        });
        all.flat_map(|(from, to, mgid)| [(from, mgid), (to, mgid)])
    }

    /// The flows that are measured, by what the host has reported.
    ///
    /// # Errors
    /// If a flow is not among the reports.
    pub(super) fn measured(&self, reports: &BTreeMap<u32, FlowReport>) -> Result<Vec<Flow>> {
        let measured = self.flows.iter().filter(|order| !order.spec.is_warm_up);
        let flows = measured.map(|order| {
            let report = reports.get(&order.request.flow).cloned();
            let report = report.context("it has forgotten a flow: was it restarted?")?;
            let spec = order.spec.clone();
            Ok(Flow { spec, report })
        });
        flows.collect()
    }
}

/// What starts flows, so many milliseconds later.
pub(super) fn delayed(start: Request, by_ms: u32) -> Request {
    let later = |delay_ms: u32| delay_ms.saturating_add(by_ms);
    match start {
        Request::PerfStartAfter { delay_ms, flows } => Request::PerfStartAfter {
            delay_ms: later(delay_ms),
            flows,
        },
        Request::PerfStartSteps { delay_ms, steps } => Request::PerfStartSteps {
            delay_ms: later(delay_ms),
            steps,
        },
        Request::PerfStartGroup {
            delay_ms,
            mgid,
            flows,
        } => Request::PerfStartGroup {
            delay_ms: later(delay_ms),
            mgid,
            flows,
        },
        other => other,
    }
}

/// The request that starts a flow.
fn request(spec: &FlowSpec, flow: u32, path: Path, to: &HostLids) -> Result<PerfRequest> {
    Ok(PerfRequest {
        flow,
        dlid: match spec.dlid_offset {
            Some(offset) => to.with_offset(offset)?,
            None => path.dlid,
        },
        qpn: SINK_QPN,
        size: spec.size,
        window: spec.window,
        rate: spec.rate,
        sl: spec.sl.unwrap_or(path.sl),
        count: spec.count,
        duration_ms: spec.duration_ms,
        seed: spec.seed,
    })
}

/// The number of the flow with which the page of reports behind this one begins; `None` if this is the last.
pub(super) fn next_page(page: &[FlowReport]) -> Option<u32> {
    let is_full = page.len() >= PERF_REPORTS_MAX;
    page.last().filter(|_| is_full)?.flow.checked_add(1)
}

/// The groups that hosts have to join, by the hosts' positions.
pub(super) fn memberships(requests: &[SourceRequest]) -> BTreeSet<(usize, Gid)> {
    requests
        .iter()
        .flat_map(SourceRequest::memberships)
        .collect()
}

/// By source, numbered.
pub(super) fn by_source(specs: Vec<FlowSpec>) -> BTreeMap<usize, Vec<Numbered>> {
    let mut of_source: BTreeMap<usize, u32> = BTreeMap::new();
    let mut to_groups: BTreeMap<(usize, Gid), u32> = BTreeMap::new();
    let number = |spec: &FlowSpec| {
        let warm_up = if spec.is_warm_up { WARM_UP } else { 0 };
        let position = of_source.entry(spec.pair.0).or_default();
        let mut next = || {
            *position += 1;
            warm_up | spec.group << GROUP_SHIFT | (*position - 1)
        };
        let flow = match spec.mgid {
            None => next(),
            Some(mgid) => *to_groups.entry((spec.pair.0, mgid)).or_insert_with(next),
        };
        (spec.pair.0, flow, spec.count)
    };
    let all: Vec<(usize, u32, u64)> = specs.iter().map(number).collect();
    let mut by_source: BTreeMap<usize, Vec<Numbered>> = BTreeMap::new();
    for (spec, &(source, flow, _)) in specs.into_iter().zip(&all) {
        let after = spec.step.iter().flat_map(|step| &step.after);
        let after = after.map(|&at| all[at]).collect();
        let numbered = Numbered { spec, flow, after };
        by_source.entry(source).or_default().push(numbered);
    }
    by_source
}

/// For each group of flows and each host that they go to: the group, the host's position, and what asks it for
/// the latencies of the flows that are measured, as far as the clocks of both their hosts are one (`is_timed`).
pub(super) fn latency_requests(
    requests: &[SourceRequest],
    hosts: &[HostLids],
    is_timed: impl Fn(Pair) -> bool,
) -> Vec<(u32, usize, Request)> {
    let sources_of = |sink: usize| {
        let sources = requests.iter().map(|request| request.source);
        let timed = sources.filter(|&source| is_timed((source, sink)));
        timed.map(|source| hosts[source].identity.lid).collect()
    };
    let of_flows = requests.iter().flat_map(|request| &request.flows);
    let sinks: BTreeSet<(u32, usize)> = of_flows
        .filter(|order| !order.spec.is_warm_up)
        .map(|order| (order.spec.group, order.spec.pair.1))
        .collect();
    let ask = |(group, sink): (u32, usize)| {
        let request = Request::SinkDurations {
            sources: sources_of(sink),
            first_flow: group << GROUP_SHIFT,
            last_flow: ((group + 1) << GROUP_SHIFT) - 1,
        };
        (group, sink, request)
    };
    sinks.into_iter().map(ask).collect()
}

/// As [`latency_requests`], of the jitter of some groups.
pub(super) fn jitter_requests(
    requests: &[SourceRequest],
    hosts: &[HostLids],
    groups: &BTreeSet<u32>,
    is_timed: impl Fn(Pair) -> bool,
) -> Vec<(u32, usize, Request)> {
    let all = latency_requests(requests, hosts, is_timed).into_iter();
    let wanted = all.filter(|(group, ..)| groups.contains(group));
    let of_jitter = wanted.map(|(group, sink, request)| match request {
        Request::SinkDurations {
            sources,
            first_flow,
            last_flow,
        } => {
            let request = Request::SinkJitter {
                sources,
                first_flow,
                last_flow,
            };
            (group, sink, request)
        }
        other => (group, sink, other),
    });
    of_jitter.collect()
}
