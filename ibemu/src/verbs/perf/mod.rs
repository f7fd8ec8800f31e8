//! `ibemu perf`: traffic between hosts.
//!
//! Every flow is one source sending to one destination's counting queue pair, which acknowledges;
//! the source keeps the counts of both ends. Where all packets are, those of data, of queries,
//! acknowledgements and reports, is the difference of all devices' counts before and after
//! ([`crate::accounting`]).

mod report;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use daemon::signals::ShutdownSignals;
use futures_util::{StreamExt, TryStreamExt, stream};
use hostd::control::{
    FLOWS_MAX, FlowReport, FlowState, PerfRequest, Reply, Request, SINK_FLOWS_MAX, SINK_QPN,
    SinkFlow,
};
use tokio::time::Instant;
use wire::convert::saturate;
use wire::{Lid, Sl};

use crate::accounting::Ledger;
use crate::ask::{DeviceClient, REQUEST_TIMEOUT, unexpected};
use crate::cli::Perf;
use crate::dir::FabricDir;
use crate::lids::{self, HostLids, LeftOut};
use crate::names::FabricName;
use crate::paths::{self, Path};
use crate::state::FabricState;
use crate::usage::UsageError;
use crate::verify::{self, Pair};

/// How long to send without `--count` and `--seconds`, milliseconds.
const DURATION_MS: u32 = 5_000;
/// How long to send at most, seconds: what 32 bits of milliseconds hold.
const SECONDS_MAX: f64 = 4_294_967.0;
/// The window of a host's flows together without `--window`, packets.
const WINDOW: u32 = 256;
/// How many hosts are requested at a time.
const AT_ONCE: usize = 16;
/// The interval at which running flows are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Timeout of the drain of stopped flows.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends traffic and reports on it.
///
/// # Errors
/// If flows cannot be started, or were abandoned.
pub async fn run(fabric: &FabricName, options: &Perf) -> Result<()> {
    let dir = FabricDir::of(fabric);
    let state = FabricState::require(&dir)?;
    if options.window == Some(0) && options.rate.is_none() {
        return Err(UsageError("--window 0 needs --rate".to_owned()).into());
    }
    if options.seconds.is_some_and(|seconds| seconds > SECONDS_MAX) {
        return Err(UsageError(format!("--seconds: at most {SECONDS_MAX}")).into());
    }
    let Involved {
        hosts,
        pairs,
        mut left_out,
    } = involved(&dir, &state, options).await?;
    let bench = Bench {
        dir: &dir,
        state: &state,
        options,
        hosts: &hosts,
    };
    // From here on an interrupt ends the flows.
    let mut leave = ShutdownSignals::new().context("cannot listen to signals")?;
    bench.check_idle().await?;
    bench.clear().await?;
    let ledger = Ledger::open(&dir, &state).await;
    let started = Instant::now();
    if let Err(error) = bench.start(&pairs).await {
        // What was started is not left behind; the first error says what is wrong.
        let _ = bench.clear().await;
        return Err(error);
    }
    let (flows, gone) = bench.finish(&pairs, &mut leave).await;
    let elapsed = started.elapsed();
    let account = ledger.settle(&dir, &state).await;
    let flows = bench.with_counts_of_sinks(flows).await;
    // A host that has gone has nothing left to forget.
    let _ = bench.clear().await;
    left_out.extend(gone);
    let ran = report::RunOutcome {
        hosts: &hosts,
        flows: &flows,
        account: &account,
        left_out: &left_out,
        elapsed,
    };
    report::print(&ran, options)?;
    verdict(&flows, &left_out)
}

/// What went wrong, if anything did.
fn verdict(flows: &[Flow], left_out: &[LeftOut]) -> Result<()> {
    let abandoned = flows
        .iter()
        .filter(|(_, flow)| flow.state == FlowState::Abandoned)
        .count();
    let abandoned = (abandoned > 0).then(|| {
        format!(
            "{abandoned} of {} flows were abandoned: their sinks did not reply",
            flows.len()
        )
    });
    let wrong: Vec<String> = abandoned
        .into_iter()
        .chain(LeftOut::verdict(left_out))
        .collect();
    if wrong.is_empty() {
        Ok(())
    } else {
        bail!(wrong.join("; "))
    }
}

/// The hosts that take part, who sends to whom among them, and the hosts that cannot take part.
struct Involved {
    hosts: Vec<HostLids>,
    pairs: Vec<Pair>,
    left_out: Vec<LeftOut>,
}

async fn involved(dir: &FabricDir, state: &FabricState, options: &Perf) -> Result<Involved> {
    if let (Some(source), Some(destination)) = (&options.source, &options.destination) {
        let source = lids::of_host(dir, state, state.find_host(source)?).await?;
        let destination = lids::of_host(dir, state, state.find_host(destination)?).await?;
        return Ok(Involved {
            hosts: vec![source, destination],
            pairs: vec![(0, 1)],
            left_out: Vec::new(),
        });
    }
    let (hosts, left_out) = lids::reachable(dir, state, state.hosts()).await;
    if hosts.len() < 2 {
        LeftOut::print(&left_out)?;
        bail!(
            "--all needs two hosts that can be reached, and of {} there are {} (ibemu status)",
            state.hosts().count(),
            hosts.len()
        );
    }
    if hosts.len() > FLOWS_MAX {
        bail!(
            "--all among {} hosts is more than the {FLOWS_MAX} flows that a host holds",
            hosts.len()
        );
    }
    let pairs = verify::all_pairs(hosts.len());
    Ok(Involved {
        hosts,
        pairs,
        left_out,
    })
}

struct Bench<'a> {
    dir: &'a FabricDir,
    state: &'a FabricState,
    options: &'a Perf,
    hosts: &'a [HostLids],
}

/// A flow with the pair that it runs between.
type Flow = (Pair, FlowReport);

impl Bench<'_> {
    async fn client(&self, host: usize) -> Result<DeviceClient> {
        let node = &self.state.nodes[self.hosts[host].node];
        DeviceClient::connect(self.dir, node, REQUEST_TIMEOUT).await
    }

    async fn order(client: &mut DeviceClient, request: &Request) -> Result<()> {
        match client.host(request).await? {
            Reply::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// All flows of a host's source.
    async fn reports(&self, host: usize) -> Result<Vec<FlowReport>> {
        let mut client = self.client(host).await?;
        let mut all: Vec<FlowReport> = Vec::new();
        loop {
            let from = all.last().map_or(0, |last| last.flow.saturating_add(1));
            match client.host(&Request::PerfReports { from }).await? {
                Reply::PerfAll(some) if some.is_empty() => return Ok(all),
                Reply::PerfAll(some) => all.extend(some),
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// Refuses to disturb traffic that runs.
    async fn check_idle(&self) -> Result<()> {
        let hosts = 0..self.hosts.len();
        let reports: Vec<Vec<FlowReport>> = stream::iter(hosts)
            .map(|host| self.reports(host))
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        for (host, flows) in self.hosts.iter().zip(&reports) {
            let busy =
                |flow: &FlowReport| matches!(flow.state, FlowState::Running | FlowState::Draining);
            if flows.iter().any(busy) {
                bail!(
                    "{} is sending traffic already: another ibemu perf runs on this fabric",
                    host.identity.name
                );
            }
        }
        Ok(())
    }

    /// Forgets what has run.
    async fn clear(&self) -> Result<()> {
        stream::iter(0..self.hosts.len())
            .map(|host| async move {
                let sources = self.hosts.iter().map(|host| host.identity.lid).collect();
                let request = Request::PerfClear { sources };
                Self::order(&mut self.client(host).await?, &request).await
            })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    /// The request that starts the flow of `pair`; its number is the destination's position.
    fn request(&self, pair: Pair, path: Path) -> Result<PerfRequest> {
        let options = self.options;
        let flows = if options.all {
            u32::try_from(self.hosts.len() - 1)?
        } else {
            1
        };
        let rate = options
            .rate
            .map_or(0, |rate| (rate.0 / u64::from(flows)).max(1));
        let duration_ms = match (options.count, options.seconds) {
            (Some(_), _) => 0,
            (None, None) => DURATION_MS,
            (None, Some(seconds)) => {
                saturate::<u32>(Duration::from_secs_f64(seconds).as_millis()).max(1)
            }
        };
        let seed = [options.seed, u64::try_from(pair.0)?, u64::try_from(pair.1)?];
        Ok(PerfRequest {
            flow: u32::try_from(pair.1)?,
            dlid: match options.dlid_offset {
                Some(offset) => self.hosts[pair.1].with_offset(offset)?,
                None => path.dlid,
            },
            qpn: SINK_QPN,
            size: options.size,
            window: options.window.unwrap_or((WINDOW / flows).max(1)),
            rate,
            sl: options.sl.map_or(Ok(path.sl), Sl::new)?,
            count: options.count.unwrap_or(0),
            duration_ms,
            seed: seed.iter().fold(0, |mixed: u64, &part| {
                mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(part)
            }),
        })
    }

    async fn start(&self, pairs: &[Pair]) -> Result<()> {
        stream::iter(pairs.chunk_by(|a, b| a.0 == b.0))
            .map(|same| async move {
                let source = same[0].0;
                let to: Vec<&HostLids> = same.iter().map(|pair| &self.hosts[pair.1]).collect();
                let paths = paths::from_host(self.dir, self.state, &self.hosts[source], &to).await;
                let mut client = self.client(source).await?;
                for (&pair, path) in same.iter().zip(paths) {
                    let request = Request::PerfStart(self.request(pair, path)?);
                    Self::order(&mut client, &request).await?;
                }
                anyhow::Ok(())
            })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    /// Waits until all flows have ended; an interrupt ends them early. Also the hosts that have
    /// ceased to answer, whose flows are not among the others.
    async fn finish(
        &self,
        pairs: &[Pair],
        leave: &mut ShutdownSignals,
    ) -> (Vec<Flow>, Vec<LeftOut>) {
        let mut stop_by: Option<Instant> = None;
        let mut gone: BTreeMap<usize, String> = BTreeMap::new();
        loop {
            let flows = self.look(pairs, &mut gone).await;
            let ended =
                |flow: &Flow| matches!(flow.1.state, FlowState::Finished | FlowState::Abandoned);
            if flows.iter().all(ended) || stop_by.is_some_and(|by| Instant::now() > by) {
                let left_out = gone.into_iter().map(|(host, reason)| LeftOut {
                    name: self.hosts[host].identity.name.clone(),
                    reason,
                });
                return (flows, left_out.collect());
            }
            tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                () = leave.next() => {
                    self.stop(pairs, &mut gone).await;
                    stop_by = Some(Instant::now() + DRAIN_TIMEOUT);
                }
            }
        }
    }

    /// The flows, and for those that were abandoned what their sinks have counted since the last
    /// report that reached the source, where the sinks answer.
    async fn with_counts_of_sinks(&self, mut flows: Vec<Flow>) -> Vec<Flow> {
        let abandoned = |flow: &&mut Flow| flow.1.state == FlowState::Abandoned;
        let mut sinks: BTreeMap<usize, BTreeMap<(Lid, u32), SinkFlow>> = BTreeMap::new();
        for (pair, flow) in flows.iter_mut().filter(abandoned) {
            let counted = match sinks.entry(pair.1) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(self.sink(pair.1).await.unwrap_or_default()),
            };
            let source = self.hosts[pair.0].identity.lid;
            let Some(sink) = counted.get(&(source, flow.flow)) else {
                continue;
            };
            flow.delivered = sink.received.min(flow.sent);
            flow.lost = flow.sent - flow.delivered;
            flow.duplicates = sink.duplicates;
            flow.reordered = sink.reordered;
            flow.bytes_delivered = sink.bytes;
        }
        flows
    }

    /// All flows that a host's sink has counted, by source and number.
    async fn sink(&self, host: usize) -> Result<BTreeMap<(Lid, u32), SinkFlow>> {
        let mut client = self.client(host).await?;
        let mut all = BTreeMap::new();
        for _ in 0..=SINK_FLOWS_MAX {
            let skip = u32::try_from(all.len())?;
            match client.host(&Request::SinkReport { skip }).await? {
                Reply::Sink(some) if some.is_empty() => break,
                Reply::Sink(some) => {
                    all.extend(
                        some.into_iter()
                            .map(|flow| ((flow.source, flow.flow), flow)),
                    );
                }
                other => return Err(unexpected(&other)),
            }
        }
        Ok(all)
    }

    /// The flows of all sources that answer; `gone` are those that do not, and why.
    async fn look(&self, pairs: &[Pair], gone: &mut BTreeMap<usize, String>) -> Vec<Flow> {
        let mut all = Vec::with_capacity(pairs.len());
        for same in pairs.chunk_by(|a, b| a.0 == b.0) {
            let source = same[0].0;
            if gone.contains_key(&source) {
                continue;
            }
            match self.flows_of(same).await {
                Ok(flows) => all.extend(flows),
                Err(error) => {
                    gone.insert(source, format!("{error:#}"));
                }
            }
        }
        all
    }

    /// The flows of pairs with one source.
    async fn flows_of(&self, pairs: &[Pair]) -> Result<Vec<Flow>> {
        let source = pairs[0].0;
        let by_number: BTreeMap<u32, FlowReport> = self
            .reports(source)
            .await?
            .into_iter()
            .map(|flow| (flow.flow, flow))
            .collect();
        let flow_of = |&pair: &Pair| {
            let flow = by_number.get(&u32::try_from(pair.1)?);
            let flow = flow.context("it has forgotten a flow: was it restarted?")?;
            Ok((pair, flow.clone()))
        };
        pairs.iter().map(flow_of).collect()
    }

    async fn stop(&self, pairs: &[Pair], gone: &mut BTreeMap<usize, String>) {
        for same in pairs.chunk_by(|a, b| a.0 == b.0) {
            let source = same[0].0;
            if !gone.contains_key(&source)
                && let Err(error) = self.stop_flows_of(same).await
            {
                gone.insert(source, format!("{error:#}"));
            }
        }
    }

    async fn stop_flows_of(&self, pairs: &[Pair]) -> Result<()> {
        let mut client = self.client(pairs[0].0).await?;
        for pair in pairs {
            let flow = u32::try_from(pair.1)?;
            Self::order(&mut client, &Request::PerfStop { flow }).await?;
        }
        Ok(())
    }
}
