//! `ibemu ping`: echo packets between hosts.

use anyhow::{Context, Result, bail};
use hostd::control::{Latency, PingRequest, PingResult, Reply, Request};
use serde::Serialize;
use serde_json::json;
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

/// Pings one host from another, or all from all.
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

impl From<&Latency> for Rtt {
    fn from(latency: &Latency) -> Self {
        Self {
            samples: latency.samples,
            min_ns: latency.min_ns,
            mean_ns: latency.mean_ns,
            p50_ns: latency.p50_ns,
            p90_ns: latency.p90_ns,
            p99_ns: latency.p99_ns,
            max_ns: latency.max_ns,
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
        count: options.count.unwrap_or(COUNTS.0),
        interval_us: options.interval,
        size: options.size,
        sl,
        pkey: path.pkey,
        timeout_ms: options.timeout,
    };
    let node = &state.nodes[from.node];
    let mut client = DeviceClient::connect(dir, node, verify::reply_timeout(&request)).await?;
    let result = match client.host(&Request::Ping(request)).await? {
        Reply::Ping(results) => results.into_iter().next(),
        other => return Err(ask::unexpected(&other)),
    };
    let result = result.context("the host reports no result")?;
    if options.json {
        output::json(&json!({
            "source": source, "source_lid": from.identity.lid.get(),
            "destination": destination, "dlid": dlid.get(), "sl": sl.get(),
            "path": way.as_ref().ok(),
            "sent": result.sent, "received": result.received,
            "responder": result.responder, "rtt": Rtt::from(&result.rtt),
        }))?;
    } else {
        summarize(&result)?;
    }
    check(&result, &to, destination)
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

fn summarize(result: &PingResult) -> Result<()> {
    output::line(format!(
        "{} sent, {} answered",
        result.sent, result.received
    ))?;
    if result.rtt.samples > 0 {
        let rtt = &result.rtt;
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

fn check(result: &PingResult, to: &HostLids, destination: &str) -> Result<()> {
    if result.received == 0 {
        bail!("{destination} does not answer");
    }
    if result.responder_lid != to.identity.lid {
        bail!("{} has answered, not {destination}", result.responder);
    }
    if result.received < result.sent {
        bail!(
            "{} of {} requests were not answered",
            result.sent - result.received,
            result.sent
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
    let results = verify::ping_pairs(dir, state, &hosts, &pairs, echo, |_| {}).await;
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
            "unreachable": self.left_out,
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
