//! Traffic in virtual time: the same flows between the same hosts, without processes and in no hurry.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use daemon::signals::ShutdownSignals;
use hostd::control::{FlowReport, FlowsProgress, Histogram, Reply, Request, SinkFlow};
use link::Time;
use sim::{Twin, TwinConfig};
use topologies::Graph;
use wire::control::PortStatus;
use wire::convert::usize_of;
use wire::{Gid, Lid};

use super::bench::Stuck;
use super::flows::{Flow, FlowSpec};
use super::requests::{
    SourceRequest, by_source, jitter_requests, latency_requests, memberships, next_page,
};
use super::run::RunOutcome;
use crate::accounting::{Account, Layout};
use crate::ask::unexpected;
use crate::lids::{HostLids, LeftOut};
use crate::paths::Path;
use crate::progress::Progress;
use crate::state::End;

/// How long the subnet may take to come up, nanoseconds.
const UP_NS: u64 = 600_000_000_000;
/// How long a host may take to answer what it is asked of its own, nanoseconds.
const ANSWER_NS: u64 = 1_000_000;
/// How long a host may take to join a group, nanoseconds.
const JOIN_NS: u64 = 60_000_000_000;
/// Time that passes between two looks at running flows, nanoseconds.
const LOOK_NS: u64 = 10_000_000;
/// How long packets under way are waited for after an interrupt, and at the end, nanoseconds.
const DRAIN_NS: u64 = 1_000_000_000;

/// A fabric whose subnet is up.
pub(crate) struct VirtualFabric {
    twin: Twin,
    /// The hosts that can send.
    pub(crate) hosts: Vec<HostLids>,
    left_out: Vec<LeftOut>,
}

/// A run and how it was.
pub(crate) struct VirtualRun {
    /// Its results.
    pub(crate) outcome: RunOutcome,
    /// What the simulator's checkers have found, if anything.
    pub(crate) findings: Vec<String>,
}

impl VirtualFabric {
    /// Brings a fabric up.
    ///
    /// # Errors
    /// If it cannot be built, or does not come up.
    pub(crate) fn new(graph: &Graph, config: &TwinConfig) -> Result<Self> {
        let mut twin = Twin::new(graph, config)?;
        if let Err(error) = twin.run_until_up(UP_NS) {
            let warnings = twin.status().warnings;
            let last = warnings.last().map_or("", String::as_str);
            return Err(error)
                .with_context(|| format!("the subnet manager does not bring it up: {last}"));
        }
        let (mut hosts, mut left_out) = (Vec::new(), Vec::new());
        for id in graph.hosts() {
            let name = &graph.node(id).name;
            match ask(&mut twin, name, Request::Identity)? {
                Reply::Identity(identity) if identity.lid != Lid::ZERO => {
                    let node = id.index();
                    hosts.push(HostLids { node, identity });
                }
                Reply::Identity(_) => left_out.push(LeftOut {
                    name: name.clone(),
                    reason: "no cable leads to it, or none to the subnet manager".to_owned(),
                }),
                other => return Err(unexpected(&other)),
            }
        }
        Ok(Self {
            twin,
            hosts,
            left_out,
        })
    }

    /// Sends traffic, and waits until it has ended. An interrupt (SIGINT, SIGTERM) ends the flows, and what was
    /// delivered until then is reported.
    ///
    /// # Errors
    /// If a flow cannot be started.
    pub(crate) async fn run(
        mut self,
        flows: Vec<FlowSpec>,
        groups: u32,
        jitter_of: &BTreeSet<u32>,
    ) -> Result<VirtualRun> {
        let mut leave = ShutdownSignals::new().context("cannot listen to signals")?;
        let requests = self.requests(flows)?;
        for (host, mgid) in memberships(&requests) {
            self.join(host, mgid)?;
        }
        let layout = layout(self.twin.graph());
        let before = self.ports();
        let begun = self.twin.now();
        for request in &requests {
            for start in request.starts() {
                match self.ask(request.source, start)? {
                    Reply::Done => {}
                    Reply::Refused(why) => {
                        bail!("{}: {why}", self.hosts[request.source].identity.name)
                    }
                    other => return Err(unexpected(&other)),
                }
            }
        }
        let mut progress = Progress::new();
        progress.begin("flows");
        let interrupted = self.wait(&requests, begun, &mut leave, &progress).await?;
        let elapsed = Duration::from_nanos(self.twin.now().since_ns(begun));
        progress.clear();
        let account = self.settle(&layout, before);
        let mut measured = Vec::new();
        for request in &requests {
            measured.extend(request.measured(&self.reports(request.source)?)?);
        }
        self.count_copies(&mut measured)?;
        let asked = latency_requests(&requests, &self.hosts, |_| true);
        let latencies = self.durations(asked, groups)?;
        let asked = jitter_requests(&requests, &self.hosts, jitter_of, |_| true);
        let jitter = self.durations(asked, groups)?;
        let findings = self.findings();
        Ok(VirtualRun {
            outcome: RunOutcome {
                hosts: self.hosts,
                flows: measured,
                latencies,
                jitter,
                account,
                left_out: self.left_out,
                elapsed,
                interrupted,
                untimed: 0,
            },
            findings,
        })
    }

    fn ask(&mut self, host: usize, request: Request) -> Result<Reply> {
        ask(&mut self.twin, &self.hosts[host].identity.name, request)
    }

    /// What each source is to send, by the paths that subnet administration names.
    fn requests(&self, specs: Vec<FlowSpec>) -> Result<Vec<SourceRequest>> {
        let requests = by_source(specs).into_iter().map(|(source, specs)| {
            let to: BTreeSet<usize> = specs.iter().map(|flow| flow.spec.pair.1).collect();
            let paths = to.into_iter().map(|to| Ok((to, self.path(source, to)?)));
            let paths: BTreeMap<usize, Path> = paths.collect::<Result<_>>()?;
            SourceRequest::new(source, specs, &self.hosts, |to| paths[&to])
        });
        requests.collect()
    }

    fn path(&self, from: usize, to: usize) -> Result<Path> {
        let (from, to) = (&self.hosts[from].identity, &self.hosts[to].identity);
        let record = self.twin.path_record(from.port_guid, to.port_guid);
        let record = record.with_context(|| {
            format!(
                "subnet administration has no path from {} to {}",
                from.name, to.name
            )
        })?;
        Ok(Path {
            dlid: record.dlid,
            sl: record.sl,
            pkey: record.pkey,
            is_apart: false,
        })
    }

    /// Until all flows have ended; whether an interrupt has ended them.
    async fn wait(
        &mut self,
        requests: &[SourceRequest],
        begun: Time,
        leave: &mut ShutdownSignals,
        progress: &Progress,
    ) -> Result<bool> {
        let mut stop_by: Option<Time> = None;
        let mut stuck = Stuck::default();
        loop {
            // Signals are looked at between two steps.
            let is_left = tokio::select! {
                biased;
                () = leave.next() => true,
                () = tokio::task::yield_now() => false,
            };
            if is_left {
                if stop_by.is_some() {
                    return Ok(true);
                }
                stop_by = Some(self.twin.now() + DRAIN_NS);
                for request in requests {
                    self.ask(request.source, Request::PerfStopAll)?;
                }
            }
            self.twin.run_for(LOOK_NS);
            let mut sum = FlowsProgress::default();
            for request in requests {
                match self.ask(request.source, Request::PerfProgress)? {
                    Reply::PerfProgress(of_host) => sum.add(of_host),
                    other => return Err(unexpected(&other)),
                }
            }
            let seconds = Duration::from_nanos(self.twin.now().since_ns(begun)).as_secs_f64();
            progress.show(&format!(
                "{seconds:.2} s of virtual time: {} of {} flows under way, {} packets delivered",
                sum.under_way, sum.flows, sum.delivered
            ));
            if sum.under_way == 0 || stuck.is_at_last(sum) {
                return Ok(stop_by.is_some());
            }
            if stop_by.is_some_and(|by| self.twin.now() >= by) {
                return Ok(stop_by.is_some());
            }
        }
    }

    /// Where all packets are, once none moves any more.
    fn settle(&mut self, layout: &Layout, before: Vec<Vec<PortStatus>>) -> Account {
        let limit = self.twin.now() + DRAIN_NS;
        loop {
            let account = Account::between(layout, before.clone(), self.ports());
            if account.is_complete() || self.twin.now() >= limit {
                return account;
            }
            self.twin.run_for(LOOK_NS);
        }
    }

    fn ports(&self) -> Vec<Vec<PortStatus>> {
        let nodes = self.twin.graph().ids();
        nodes.map(|node| self.twin.ports(node)).collect()
    }

    /// All flows of a host's source, by number.
    fn reports(&mut self, host: usize) -> Result<BTreeMap<u32, FlowReport>> {
        let mut all = BTreeMap::new();
        let mut next = Some(0);
        while let Some(from) = next {
            let some = match self.ask(host, Request::PerfReports { from })? {
                Reply::PerfAll(some) => some,
                other => return Err(unexpected(&other)),
            };
            next = next_page(&some);
            all.extend(some.into_iter().map(|flow| (flow.flow, flow)));
        }
        Ok(all)
    }

    fn durations(
        &mut self,
        asked: Vec<(u32, usize, Request)>,
        groups: u32,
    ) -> Result<Vec<Histogram>> {
        let mut together = vec![Histogram::default(); usize_of(groups)];
        for (group, sink, request) in asked {
            match self.ask(sink, request)? {
                Reply::Durations(durations) => together[usize_of(group)].add(&durations),
                other => return Err(unexpected(&other)),
            }
        }
        Ok(together)
    }

    fn join(&mut self, host: usize, mgid: Gid) -> Result<()> {
        let request = Request::Join {
            mgid,
            send_only: false,
        };
        let token = self
            .twin
            .request(&self.hosts[host].identity.name, request)?;
        match self.twin.reply(token, JOIN_NS)? {
            Reply::Membership(_) => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Puts what sinks have counted into flows to groups, when no further copy has come for a while.
    fn count_copies(&mut self, flows: &mut [Flow]) -> Result<()> {
        let mut changed = self.twin.now();
        loop {
            let mut is_same = true;
            for flow in flows.iter_mut().filter(|flow| flow.lacks_copies()) {
                let (from, to) = flow.spec.pair;
                let key = (self.hosts[from].identity.lid, flow.report.flow);
                let before = flow.report.delivered;
                if let Some(counted) = self.sink(to)?.get(&key) {
                    flow.take_counts(counted);
                }
                is_same &= flow.report.delivered == before;
            }
            if !is_same {
                changed = self.twin.now();
            }
            let is_over = self.twin.now() >= changed + DRAIN_NS;
            if is_over || !flows.iter().any(Flow::lacks_copies) {
                return Ok(());
            }
            self.twin.run_for(LOOK_NS);
        }
    }

    /// All flows that a host's sink has counted, by source and number.
    fn sink(&mut self, host: usize) -> Result<BTreeMap<(Lid, u32), SinkFlow>> {
        let mut all = BTreeMap::new();
        loop {
            let skip = u32::try_from(all.len())?;
            match self.ask(host, Request::SinkReport { skip })? {
                Reply::Sink(some) if some.is_empty() => return Ok(all),
                Reply::Sink(some) => {
                    let by_flow = some.into_iter();
                    all.extend(by_flow.map(|flow| ((flow.source, flow.flow), flow)));
                }
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// What the checkers have found.
    fn findings(&self) -> Vec<String> {
        let violations = self.twin.violations().iter();
        let deadlock = self.twin.find_deadlock();
        violations
            .map(ToString::to_string)
            .chain(deadlock.map(|deadlock| deadlock.to_string()))
            .collect()
    }
}

fn ask(twin: &mut Twin, host: &str, request: Request) -> Result<Reply> {
    let token = twin.request(host, request)?;
    Ok(twin.reply(token, ANSWER_NS)?)
}

fn layout(graph: &Graph) -> Layout {
    let links = graph.links().map(|(one, other)| {
        [one, other].map(|end| End {
            node: end.node.index(),
            port: end.port.get(),
        })
    });
    Layout {
        names: graph.ids().map(|id| graph.node(id).name.clone()).collect(),
        links: links.collect(),
    }
}
