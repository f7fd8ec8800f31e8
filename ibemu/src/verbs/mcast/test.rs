//! `ibemu mcast test`: every member sends and counts.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use hostd::control::{MulticastSource, Reply, Request};
use serde::Serialize;
use wire::convert::u64_of;
use wire::{Gid, Guid};

use super::{GROUP_TIMEOUT, Test, change, named};
use crate::ask::{self, DeviceClient};
use crate::dir::FabricDir;
use crate::lids::LeftOut;
use crate::output;
use crate::state::FabricState;

/// The interval at which counts are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Wrong counts that are listed; the rest is counted.
const LISTED_MAX: usize = 20;

/// Packets that a member has received from another.
#[derive(Debug, Serialize)]
struct Misdelivery {
    source: String,
    destination: String,
    received: u64,
    duplicates: u64,
    expected: u32,
}

#[derive(Debug, Serialize)]
struct Report {
    mgid: String,
    members: usize,
    mlids: BTreeMap<String, u16>,
    packets_sent: u64,
    copies_expected: u64,
    copies_received: u64,
    duplicates: u64,
    wrong: Vec<Misdelivery>,
    unreachable: Vec<LeftOut>,
}

/// By receiver and source: packets received.
type Counts = BTreeMap<(usize, Guid), MulticastSource>;

pub(super) async fn run(dir: &FabricDir, state: &FabricState, options: &Test) -> Result<()> {
    let (hosts, left_out) = named(dir, state, &options.group).await?;
    let mgid = options.mgid.gid();
    let join = Request::Join {
        mgid,
        send_only: false,
    };
    let joined = change(dir, state, &hosts, &join).await?;
    let run = options.load.run();
    let counts = send_and_count(dir, state, options, &hosts, run).await;
    if !options.keep {
        change(dir, state, &hosts, &Request::Leave { mgid }).await?;
    }
    let counts = counts?;
    let mlids = joined.iter().map(|(host, membership)| {
        let name = state.nodes[*host].name.clone();
        (name, membership.mlid.get())
    });
    let report = Report {
        unreachable: left_out,
        ..judge(state, options, &hosts, run, &counts, mlids.collect())
    };
    if options.json {
        output::json(&report)?;
    } else {
        LeftOut::print(&report.unreachable)?;
        print(&report)?;
    }
    let incomplete = (!report.wrong.is_empty()).then(|| {
        format!(
            "{} of {} pairs of members did not get each packet once",
            report.wrong.len(),
            hosts.len() * hosts.len()
        )
    });
    let wrong: Vec<String> = incomplete
        .into_iter()
        .chain(LeftOut::verdict(&report.unreachable))
        .collect();
    if wrong.is_empty() {
        Ok(())
    } else {
        bail!(wrong.join("; "))
    }
}

async fn send_and_count(
    dir: &FabricDir,
    state: &FabricState,
    options: &Test,
    hosts: &[usize],
    run: u32,
) -> Result<Counts> {
    let request = options.load.request(options.mgid.gid(), run);
    let request = &request;
    let each = hosts.iter().map(|&host| async move {
        let mut client = DeviceClient::connect(dir, &state.nodes[host], GROUP_TIMEOUT).await?;
        match client.host(request).await? {
            Reply::Done => Ok(()),
            other => Err(ask::unexpected(&other)),
        }
    });
    futures_util::future::try_join_all(each).await?;
    let mut clients: Vec<(usize, DeviceClient)> = Vec::with_capacity(hosts.len());
    for &host in hosts {
        let client = DeviceClient::connect(dir, &state.nodes[host], GROUP_TIMEOUT).await?;
        clients.push((host, client));
    }
    let limit = Duration::from_secs(u64::from(options.timeout));
    let copies = |counts: &Counts| -> u64 { of_run(counts, run).map(|it| it.received).sum() };
    let sources = u64::try_from(hosts.len())?;
    let expected = sources * sources * u64::from(options.load.count);
    let mut counts = poll(&mut clients, options.mgid.gid()).await?;
    let mut last_change = Instant::now();
    while copies(&counts) < expected && last_change.elapsed() < limit {
        tokio::time::sleep(POLL_INTERVAL).await;
        let now = poll(&mut clients, options.mgid.gid()).await?;
        if copies(&now) != copies(&counts) {
            last_change = Instant::now();
        }
        counts = now;
    }
    // A duplicate may arrive after the last packet that was awaited.
    tokio::time::sleep(POLL_INTERVAL).await;
    poll(&mut clients, options.mgid.gid()).await
}

fn of_run(counts: &Counts, run: u32) -> impl Iterator<Item = &MulticastSource> {
    counts.values().filter(move |source| source.run == run)
}

async fn poll(clients: &mut [(usize, DeviceClient)], mgid: Gid) -> Result<Counts> {
    let mut counts = Counts::new();
    for (host, client) in clients {
        let mut skip = 0;
        loop {
            let request = Request::MulticastReport { mgid, skip };
            let sources = match client.host(&request).await? {
                Reply::Multicast(sources) => sources,
                other => return Err(ask::unexpected(&other)),
            };
            if sources.is_empty() {
                break;
            }
            skip += u32::try_from(sources.len())?;
            counts.extend(
                sources
                    .into_iter()
                    .map(|source| ((*host, source.source), source)),
            );
        }
    }
    Ok(counts)
}

fn judge(
    state: &FabricState,
    options: &Test,
    hosts: &[usize],
    run: u32,
    counts: &Counts,
    mlids: BTreeMap<String, u16>,
) -> Report {
    let expected = options.load.count;
    let mut wrong = Vec::new();
    for &destination in hosts {
        for &source in hosts {
            let guid = state.nodes[source].port_guid();
            let counted = counts.get(&(destination, guid));
            let counted = counted.filter(|counted| counted.run == run);
            let received = counted.map_or(0, |counted| counted.received);
            let duplicates = counted.map_or(0, |counted| counted.duplicates);
            if received != u64::from(expected) || duplicates != 0 {
                wrong.push(Misdelivery {
                    source: state.nodes[source].name.clone(),
                    destination: state.nodes[destination].name.clone(),
                    received,
                    duplicates,
                    expected,
                });
            }
        }
    }
    let members = u64_of(hosts.len());
    Report {
        mgid: options.mgid.gid().to_string(),
        members: hosts.len(),
        mlids,
        packets_sent: members * u64::from(expected),
        copies_expected: members * members * u64::from(expected),
        copies_received: of_run(counts, run).map(|source| source.received).sum(),
        duplicates: of_run(counts, run).map(|source| source.duplicates).sum(),
        wrong,
        unreachable: Vec::new(),
    }
}

fn print(report: &Report) -> Result<()> {
    for wrong in report.wrong.iter().take(LISTED_MAX) {
        output::line(format!(
            "{} to {}: {} of {} packets, {} of them again",
            wrong.source, wrong.destination, wrong.received, wrong.expected, wrong.duplicates
        ))?;
    }
    if report.wrong.len() > LISTED_MAX {
        output::line(format!("and {} more", report.wrong.len() - LISTED_MAX))?;
    }
    output::line(format!(
        "{} members of {} sent {} packets: {} of {} copies came, {} came again",
        report.members,
        report.mgid,
        report.packets_sent,
        report.copies_received,
        report.copies_expected,
        report.duplicates
    ))
}
