//! `ibemu ping`: echo packets between hosts.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use daemon::signals::ShutdownSignals;
use hostd::control::{PingRequest, PingResult, Reply, Request};
use serde::Serialize;
use serde_json::json;
use tokio::time::{Instant, sleep_until};
use wire::convert::{saturate, u64_of, usize_of};
use wire::{Lid, Sl};

use super::path;
use crate::ask::{self, DeviceClient};
use crate::cli::Ping;
use crate::dir::FabricDir;
use crate::lids::{self, HostLids, LeftOut};
use crate::names::FabricName;
use crate::output;
use crate::paths;
use crate::quantity::duration;
use crate::state::FabricState;
use crate::verify::{self, Echo, PairResult};

/// Echo requests a pair without `--count`: between two hosts, between all.
const COUNTS: (u32, u32) = (5, 1);
/// Failed pairs that are listed; the rest is counted.
const LISTED_MAX: usize = 20;

/// Pings one host from another, or all from all. An interrupt (SIGINT, SIGTERM) ends it, and what was answered until
/// then is reported.
///
/// # Errors
/// Unless every request is answered by the host that it was meant for.
pub async fn run(fabric: &FabricName, options: &Ping) -> Result<()> {
    let dir = FabricDir::of(fabric);
    let state = FabricState::require(&dir)?;
    match (&options.source, &options.destination) {
        (Some(source), Some(destination)) => one(&dir, &state, options, source, destination).await,
        _ => all(&dir, &state, options).await,
    }
}

/// Round-trip times as JSON.
#[derive(Debug, Serialize)]
struct Rtt {
    samples: u64,
    min_ns: u64,
    mean_ns: u64,
    p50_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
    max_ns: u64,
}

/// Requests to one host and their answers.
#[derive(Debug, Default)]
struct Echoes {
    sent: u32,
    /// Round-trip times of the answers, nanoseconds.
    rtts: Vec<u64>,
    responder: String,
    responder_lid: Lid,
    interrupted: bool,
}

impl Echoes {
    /// Sends one request after the other, `count` in all.
    async fn run(client: &mut DeviceClient, request: PingRequest, count: u32) -> Result<Self> {
        let mut leave = ShutdownSignals::new().context("cannot listen to signals")?;
        let interval = Duration::from_micros(request.interval_us.into());
        let one = Request::Ping(PingRequest {
            count: 1,
            ..request
        });
        let mut echoes = Self::default();
        let mut due = Instant::now();
        while echoes.sent < count {
            let answer = async {
                sleep_until(due).await;
                due = Instant::now() + interval;
                client.host(&one).await
            };
            let reply = tokio::select! {
                reply = answer => reply?,
                () = leave.next() => {
                    echoes.interrupted = true;
                    break;
                }
            };
            match reply {
                Reply::Ping(results) => {
                    let result = results.into_iter().next();
                    echoes.take(result.context("the host reports no result")?);
                }
                other => return Err(ask::unexpected(&other)),
            }
        }
        echoes.rtts.sort_unstable();
        Ok(echoes)
    }

    fn take(&mut self, result: PingResult) {
        self.sent += result.sent;
        if result.received > 0 {
            self.rtts.push(result.rtt.mean_ns);
            self.responder = result.responder;
            self.responder_lid = result.responder_lid;
        }
    }

    fn received(&self) -> u32 {
        saturate::<u32>(self.rtts.len())
    }

    /// What at least so many percent of the round trips do not exceed.
    fn percentile(&self, percent: u64) -> u64 {
        let rank = (u64_of(self.rtts.len()) * percent).div_ceil(100);
        let rtt = self.rtts.get(usize_of(rank).saturating_sub(1));
        rtt.copied().unwrap_or(0)
    }

    fn rtt(&self) -> Rtt {
        let sum: u128 = self.rtts.iter().map(|&rtt| u128::from(rtt)).sum();
        let samples = u64_of(self.rtts.len());
        Rtt {
            samples,
            min_ns: self.rtts.first().copied().unwrap_or(0),
            mean_ns: saturate::<u64>(sum / u128::from(samples.max(1))),
            p50_ns: self.percentile(50),
            p90_ns: self.percentile(90),
            p99_ns: self.percentile(99),
            max_ns: self.rtts.last().copied().unwrap_or(0),
        }
    }
}

async fn one(
    dir: &FabricDir,
    state: &FabricState,
    options: &Ping,
    source: &str,
    destination: &str,
) -> Result<()> {
    let (from, to) = (state.find_host(source)?, state.find_host(destination)?);
    let from = lids::of_host(dir, state, from).await?;
    let to = lids::of_host(dir, state, to).await?;
    let path = paths::from_host(dir, state, &from, &[&to]).await;
    let path = path.first().context("a path for each destination")?;
    if path.is_apart {
        bail!("{source} does not reach {destination}: {}", verify::APART);
    }
    let dlid = match options.dlid_offset {
        Some(offset) => to.with_offset(offset)?,
        None => path.dlid,
    };
    let sl = options.sl.map_or(Ok(path.sl), Sl::new)?;
    let way = path::trace(dir, state, from.node, dlid).await;
    if !options.json {
        announce(&from, &to, dlid, &way)?;
    }
    let request = PingRequest {
        targets: vec![dlid],
        count: 1,
        interval_us: options.interval,
        size: options.size,
        sl,
        pkey: path.pkey,
        timeout_ms: options.timeout,
    };
    let node = &state.nodes[from.node];
    let mut client = DeviceClient::connect(dir, node, verify::reply_timeout(&request)).await?;
    let count = options.count.unwrap_or(COUNTS.0);
    let echoes = Echoes::run(&mut client, request, count).await?;
    if options.json {
        output::json(&json!({
            "source": source, "source_lid": from.identity.lid.get(),
            "destination": destination, "dlid": dlid.get(), "sl": sl.get(),
            "path": way.as_ref().ok(),
            "sent": echoes.sent, "received": echoes.received(), "interrupted": echoes.interrupted,
            "responder": echoes.responder, "rtt": echoes.rtt(),
        }))?;
    } else {
        summarize(&echoes)?;
    }
    check(&echoes, &to, destination)
}

fn announce(from: &HostLids, to: &HostLids, dlid: Lid, way: &Result<Vec<path::Hop>>) -> Result<()> {
    output::line(format!(
        "{} (LID {}) to {} (LID {}, DLID {dlid})",
        from.identity.name, from.identity.lid, to.identity.name, to.identity.lid
    ))?;
    match way {
        Ok(hops) => output::line(format!("path: {}", path::in_one_line(hops))),
        Err(error) => output::line(format!("path: unknown: {error:#}")),
    }
}

fn summarize(echoes: &Echoes) -> Result<()> {
    let ended = if echoes.interrupted {
        "; interrupted"
    } else {
        ""
    };
    output::line(format!(
        "{} sent, {} answered{ended}",
        echoes.sent,
        echoes.received()
    ))?;
    let rtt = echoes.rtt();
    if rtt.samples > 0 {
        output::line(format!(
            "round trip: min {}, mean {}, median {}, 99 % {}, max {}",
            duration(rtt.min_ns),
            duration(rtt.mean_ns),
            duration(rtt.p50_ns),
            duration(rtt.p99_ns),
            duration(rtt.max_ns)
        ))?;
    }
    Ok(())
}

fn check(echoes: &Echoes, to: &HostLids, destination: &str) -> Result<()> {
    if echoes.sent == 0 {
        bail!("interrupted before the first answer");
    }
    if echoes.received() == 0 {
        bail!("{destination} does not answer");
    }
    if echoes.responder_lid != to.identity.lid {
        bail!("{} has answered, not {destination}", echoes.responder);
    }
    if echoes.received() < echoes.sent {
        bail!(
            "{} of {} requests were not answered",
            echoes.sent - echoes.received(),
            echoes.sent
        );
    }
    Ok(())
}

async fn all(dir: &FabricDir, state: &FabricState, options: &Ping) -> Result<()> {
    let (hosts, left_out) = lids::reachable(dir, state, state.hosts()).await;
    if let Some(offset) = options.dlid_offset {
        for host in &hosts {
            host.with_offset(offset)?;
        }
    }
    let pairs = verify::all_pairs(hosts.len());
    let echo = Echo {
        count: options.count.unwrap_or(COUNTS.1),
        interval_us: options.interval,
        size: options.size,
        sl: options.sl.map(Sl::new).transpose()?,
        timeout_ms: options.timeout,
        dlid_offset: options.dlid_offset,
    };
    let mut leave = ShutdownSignals::new().context("cannot listen to signals")?;
    let (among, leave) = ((&hosts[..], &pairs[..]), leave.next());
    let results = verify::ping_pairs_until(dir, state, among, echo, |_| {}, leave).await;
    let interrupted = results.len() < pairs.len();
    let mut rtts: Vec<u64> = results
        .iter()
        .filter(|result| result.ping.rtt.samples > 0)
        .map(|result| result.ping.rtt.mean_ns)
        .collect();
    rtts.sort_unstable();
    let sweep = Sweep {
        hosts: &hosts,
        pairs: results.len(),
        failed: results
            .iter()
            .filter(|result| result.fault.is_some())
            .collect(),
        rtts,
        left_out: &left_out,
        interrupted,
    };
    if options.json {
        sweep.json()?;
    } else {
        sweep.print()?;
    }
    sweep.verdict()
}

/// The results of all pairs.
struct Sweep<'a> {
    hosts: &'a [HostLids],
    pairs: usize,
    failed: Vec<&'a PairResult>,
    /// Mean round-trip times of the pairs that answer, in ascending order.
    rtts: Vec<u64>,
    left_out: &'a [LeftOut],
    /// Whether an interrupt came before all pairs had been asked.
    interrupted: bool,
}

impl Sweep<'_> {
    fn name(&self, host: usize) -> &str {
        self.hosts[host].identity.name.as_str()
    }

    fn json(&self) -> Result<()> {
        let failed = self.failed.iter().map(|result| {
            json!({
                "source": self.name(result.pair.0), "destination": self.name(result.pair.1),
                "dlid": result.ping.dlid.get(), "wrong": result.fault,
            })
        });
        let failed: Vec<_> = failed.collect();
        let rtts = &self.rtts;
        output::json(&json!({
            "pairs": self.pairs, "answered": self.pairs - failed.len(), "failed": failed,
            "unreachable": self.left_out, "interrupted": self.interrupted,
            "rtt": {"min_ns": rtts.first(), "p50_ns": median(rtts), "max_ns": rtts.last()},
        }))
    }

    fn print(&self) -> Result<()> {
        LeftOut::print(self.left_out)?;
        for result in self.failed.iter().take(LISTED_MAX) {
            output::line(format!(
                "{} to {} (LID {}): {}",
                self.name(result.pair.0),
                self.name(result.pair.1),
                result.ping.dlid,
                result.fault.as_deref().unwrap_or("")
            ))?;
        }
        if self.failed.len() > LISTED_MAX {
            output::line(format!("and {} more", self.failed.len() - LISTED_MAX))?;
        }
        if self.interrupted {
            output::line("interrupted: other pairs were not asked")?;
        }
        output::line(all_in_one_line(self.pairs, self.failed.len(), &self.rtts))
    }

    fn verdict(&self) -> Result<()> {
        let silent = (!self.failed.is_empty()).then(|| {
            format!(
                "{} of {} pairs of hosts do not answer",
                self.failed.len(),
                self.pairs
            )
        });
        let wrong: Vec<String> = silent
            .into_iter()
            .chain(LeftOut::verdict(self.left_out))
            .collect();
        if wrong.is_empty() {
            Ok(())
        } else {
            bail!(wrong.join("; "))
        }
    }
}

fn all_in_one_line(pairs: usize, failed: usize, rtts: &[u64]) -> String {
    let times = match (rtts.first(), median(rtts), rtts.last()) {
        (Some(&min), Some(median), Some(&max)) => format!(
            "; round trip: min {}, median {}, max {}",
            duration(min),
            duration(median),
            duration(max)
        ),
        _ => String::new(),
    };
    format!("{} of {pairs} pairs of hosts answer{times}", pairs - failed)
}

/// The middle one of sorted values.
fn median(sorted: &[u64]) -> Option<u64> {
    sorted.get(sorted.len() / 2).copied()
}
