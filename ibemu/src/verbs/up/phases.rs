//! The phases of `ibemu up`, one after another, each with its own way to fail.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow};
use controller::control::{Phase, Status as Subnet};
use futures_util::{StreamExt, stream};
use netio::transport::Transport;
use tokio::time::{Instant, sleep, timeout_at};
use wire::Guid;

use crate::ask::{self, unexpected};
use crate::cli::{Sm, Verify};
use crate::dir::FabricDir;
use crate::engines;
use crate::lids;
use crate::linkup::{self, POLL_INTERVAL};
use crate::logs;
use crate::progress::Progress;
use crate::quantity::duration;
use crate::setup;
use crate::state::{End, FabricState};
use crate::supervisor::{
    self, Client,
    protocol::{self, Reply, Request},
};
use crate::verify::{self, Echo, PairResult};

/// Up to this many hosts every pair is verified without `--verify`.
const VERIFY_ALL_HOSTS_MAX: usize = 64;
/// How many devices are queried about their ports at a time.
const ASKED_AT_ONCE: usize = 16;
/// What is listed of many.
const LISTED_MAX: usize = 5;
/// The packet that verifies a pair: length in bytes, and how long its answer may take.
const ECHO_BYTES: u16 = 290;
const ECHO_TIMEOUT_MS: u32 = 10_000;

/// Why a phase has failed, and which process's log may hold the cause.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) error: anyhow::Error,
    /// The handle of the device, or of controller or supervisor.
    pub(super) handle: Option<String>,
    /// Whether the user has interrupted: then no log is quoted.
    pub(super) interrupted: bool,
}

impl Failed {
    pub(super) fn interrupted() -> Self {
        Self {
            error: anyhow!("interrupted: everything was removed"),
            handle: None,
            interrupted: true,
        }
    }

    fn at(handle: &str, error: anyhow::Error) -> Self {
        Self {
            error,
            handle: Some(handle.to_owned()),
            interrupted: false,
        }
    }
}

impl From<anyhow::Error> for Failed {
    fn from(error: anyhow::Error) -> Self {
        Self {
            error,
            handle: None,
            interrupted: false,
        }
    }
}

/// Summary of the fabric that is up.
#[derive(Debug, Default)]
pub(super) struct Summary {
    /// The controller's report; `None` without one.
    pub(super) subnet: Option<Subnet>,
    /// Which pairs were verified.
    pub(super) verified: Option<String>,
}

/// All phases.
pub(super) async fn all(
    dir: &FabricDir,
    state: &FabricState,
    progress: &mut Progress,
    deadline: Instant,
) -> Result<Summary, Failed> {
    if state.options.transport.has_namespaces() && state.job.is_none() {
        namespaces(state, progress).await?;
    }
    let mut supervisor = processes(dir, state, progress, deadline).await?;
    links(dir, state, &mut supervisor, progress, deadline).await?;
    if state.options.sm == Sm::None {
        return Ok(Summary::default());
    }
    let subnet = subnet(dir, state, &mut supervisor, progress, deadline).await?;
    let verified = pairs(dir, state, progress, deadline).await?;
    Ok(Summary {
        subnet: Some(subnet),
        verified,
    })
}

async fn namespaces(state: &FabricState, progress: &mut Progress) -> Result<(), Failed> {
    progress.begin("namespaces and cables");
    let names: BTreeSet<&String> = state.namespaces.iter().collect();
    let pairs = state.links.iter();
    let pairs = pairs.filter(|&&ends| state.medium(ends) == Transport::Veth);
    let (all, cables) = (names.len(), pairs.count());
    let created = setup::create(state, |namespaces, made| {
        progress.show(&format!(
            "{namespaces} of {all} namespaces, {made} of {cables} cables"
        ));
    });
    created.await?;
    progress.done(&format!("{all} namespaces, {cables} cables"));
    Ok(())
}

async fn processes(
    dir: &FabricDir,
    state: &FabricState,
    progress: &mut Progress,
    deadline: Instant,
) -> Result<Client, Failed> {
    progress.begin("processes");
    let mut supervisor = supervisor::launch(dir)
        .await
        .map_err(|error| Failed::at("supervisor", error))?;
    supervisor.ask(&Request::Start).await?;
    let all = state.devices().len();
    let mut seen = protocol::Progress::default();
    while !seen.done {
        let request = Request::Progress { seen: seen.clone() };
        let reply = timeout_at(deadline, supervisor.ask(&request)).await;
        seen = match reply {
            Ok(Ok(Reply::Progress(progress))) => progress,
            Ok(Ok(other)) => return Err(unexpected(&other).into()),
            Ok(Err(error)) => return Err(Failed::at("supervisor", error)),
            Err(_) => {
                return Err(too_long(
                    state,
                    &format!("{} of {all} devices answer", seen.ready),
                ));
            }
        };
        if let Some(failure) = &seen.failed {
            let reason = anyhow!("{} did not start: {}", failure.handle, failure.reason);
            return Err(Failed::at(&failure.handle, reason));
        }
        if Instant::now() > deadline {
            return Err(too_long(
                state,
                &format!("{} of {all} devices answer", seen.ready),
            ));
        }
        progress.show(&format!(
            "{} of {all} processes started, {} answer",
            seen.started, seen.ready
        ));
    }
    progress.done(&format!("{all} processes"));
    Ok(supervisor)
}

fn too_long(state: &FabricState, how_far: &str) -> Failed {
    anyhow!(
        "not up within {} s (--timeout): {how_far}",
        state.timeout_s()
    )
    .into()
}

/// Waits until every cable is in Init (or further) at both its ends.
async fn links(
    dir: &FabricDir,
    state: &FabricState,
    supervisor: &mut Client,
    progress: &mut Progress,
    deadline: Instant,
) -> Result<(), Failed> {
    progress.begin("links");
    let mut waiting: Vec<(usize, Vec<End>)> = by_node(state);
    let mut pause = POLL_INTERVAL.0;
    loop {
        let asked: Vec<(usize, Result<Vec<End>>)> =
            stream::iter(waiting)
                .map(|(node, ends)| async move {
                    (node, linkup::still_down(dir, state, node, ends).await)
                })
                .buffered(ASKED_AT_ONCE)
                .collect()
                .await;
        waiting = Vec::new();
        for (node, ends) in asked {
            match ends {
                Ok(ends) if ends.is_empty() => {}
                Ok(ends) => waiting.push((node, ends)),
                Err(error) => return Err(explain(dir, state, supervisor, node, error).await),
            }
        }
        if waiting.is_empty() {
            progress.done(&format!("{} links in Init", state.links.len()));
            return Ok(());
        }
        let down: Vec<End> = waiting.iter().flat_map(|(_, ends)| ends).copied().collect();
        if Instant::now() > deadline {
            let how_far = down_ends(state, &down);
            let handle = state.nodes[down[0].node].handle.clone();
            return Err(Failed::at(&handle, too_long(state, &how_far).error));
        }
        progress.show(&format!("{} ends of links are down", down.len()));
        sleep(pause).await;
        pause = (pause * 2).min(POLL_INTERVAL.1);
    }
}

/// Which ends of links are down, and between which machines no datagrams seem to pass.
fn down_ends(state: &FabricState, down: &[End]) -> String {
    let names: Vec<String> = down
        .iter()
        .take(LISTED_MAX)
        .map(|&end| state.end_name(end))
        .collect();
    let more = if down.len() > LISTED_MAX { ", ..." } else { "" };
    let mut text = format!(
        "{} ends of links are still down: {}{more}",
        down.len(),
        names.join(", ")
    );
    let peers = state.peers();
    let pairs: BTreeSet<[&str; 2]> = down
        .iter()
        .filter_map(|end| {
            let (job, peer) = (state.job.as_ref()?, peers.get(end)?);
            let mut pair = [end, peer].map(|end| job.machine_name(end.node));
            pair.sort_unstable();
            (pair[0] != pair[1]).then_some(pair)
        })
        .collect();
    for [one, other] in pairs {
        text.push_str(&format!(
            "; between {one} and {other}: do UDP datagrams pass in both directions, or are ports filtered?"
        ));
    }
    text
}

/// Every node's connected ports.
fn by_node(state: &FabricState) -> Vec<(usize, Vec<End>)> {
    let mut by_node: Vec<(usize, Vec<End>)> = (0..state.devices().len())
        .map(|node| (node, Vec::new()))
        .collect();
    for &end in state.links.iter().flatten() {
        by_node[end.node].1.push(end);
    }
    by_node.retain(|(_, ends)| !ends.is_empty());
    by_node
}

/// Why a device does not answer: how it ended, if it has.
async fn explain(
    dir: &FabricDir,
    state: &FabricState,
    supervisor: &mut Client,
    node: usize,
    error: anyhow::Error,
) -> Failed {
    let device = &state.nodes[node];
    let process = supervisor
        .processes()
        .await
        .ok()
        .and_then(|processes| processes.into_iter().nth(node));
    let error = match process {
        Some(process) if process.pid.is_none() => {
            let how = process.exit.unwrap_or_else(|| "has ended".to_owned());
            let words = logs::log_tail_note(dir, &device.handle);
            anyhow!("{} {how}{words}", device.name)
        }
        _ => error,
    };
    Failed::at(&device.handle, error)
}

/// Starts the controllers and waits until one of them has every device, and every port is Active.
async fn subnet(
    dir: &FabricDir,
    state: &FabricState,
    supervisor: &mut Client,
    progress: &mut Progress,
    deadline: Instant,
) -> Result<Subnet, Failed> {
    progress.begin("subnet");
    let failed = |error| Failed::at("controller", error);
    supervisor
        .ask(&Request::StartControllers)
        .await
        .map_err(failed)?;
    let mut pause = POLL_INTERVAL.0;
    loop {
        let mut reports = ask::subnets(dir, state, ask::REQUEST_TIMEOUT).await;
        let master = ask::master(&reports).unwrap_or(0);
        let others: Vec<Guid> = reports
            .iter()
            .flatten()
            .filter_map(|report| match report.phase {
                Phase::Standby { master } => Some(master),
                _ => None,
            })
            .collect();
        let is_foreign = others.len() == reports.len();
        let subnet = reports.swap_remove(master).map_err(failed)?;
        match &subnet.phase {
            Phase::Up if is_complete(state, &subnet) && !subnet.unmeasured => {
                progress.done(&format!("subnet up, {}", engines::name(&subnet.engine)));
                return Ok(subnet);
            }
            Phase::Failed { reason } => {
                return Err(failed(anyhow!(
                    "the controller cannot bring the subnet up: {reason}"
                )));
            }
            Phase::Standby { master } if is_foreign && !is_own(state, &others) => {
                return Err(failed(anyhow!(
                    "another subnet manager (port GUID {master}) runs the subnet"
                )));
            }
            _ => {}
        }
        let how_far = how_far(state, &subnet);
        if Instant::now() > deadline {
            return Err(failed(too_long(state, &how_far).error));
        }
        progress.show(&how_far);
        sleep(pause).await;
        pause = (pause * 2).min(POLL_INTERVAL.1);
    }
}

/// Whether one of these ports is of a host with a controller of the fabric: that may be about to take
/// over.
fn is_own(state: &FabricState, ports: &[Guid]) -> bool {
    let mut own = state
        .controllers()
        .map(|(sm_node, _)| state.nodes[sm_node.node].port_guid());
    own.any(|guid| ports.contains(&guid))
}

fn is_complete(state: &FabricState, subnet: &Subnet) -> bool {
    let count =
        |wanted: usize, found: u32| usize::try_from(found).is_ok_and(|found| found >= wanted);
    count(state.switches().count(), subnet.switches)
        && count(state.hosts().count(), subnet.hosts)
        && count(state.links.len() * 2, subnet.active_ports)
}

fn how_far(state: &FabricState, subnet: &Subnet) -> String {
    let missing: Vec<String> = subnet
        .unreachable
        .iter()
        .take(LISTED_MAX)
        .map(|device| format!("; {}: {}", device.name, device.reason))
        .collect();
    format!(
        "the subnet manager has found {} of {} switches and {} of {} hosts, {} of {} ports are \
         Active{}{}",
        subnet.switches,
        state.switches().count(),
        subnet.hosts,
        state.hosts().count(),
        subnet.active_ports,
        state.links.len() * 2,
        if subnet.unmeasured {
            ", and it is being measured which routing engine serves them best"
        } else {
            ""
        },
        missing.concat()
    )
}

/// Sends packets between pairs of hosts; what was verified, if anything was.
async fn pairs(
    dir: &FabricDir,
    state: &FabricState,
    progress: &mut Progress,
    deadline: Instant,
) -> Result<Option<String>, Failed> {
    let hosts = state.hosts().count();
    let all = hosts * hosts.saturating_sub(1);
    let pairs = match state.options.verify {
        Some(Verify::None) => return Ok(None),
        Some(Verify::All) => verify::all_pairs(hosts),
        Some(Verify::Sample) => verify::sampled_pairs(hosts, state.options.seed),
        None if hosts <= VERIFY_ALL_HOSTS_MAX => verify::all_pairs(hosts),
        None => verify::sampled_pairs(hosts, state.options.seed),
    };
    progress.begin("pairs");
    let hosts = lids::of_all(dir, state).await?;
    let echo = Echo {
        count: 1,
        interval_us: 0,
        size: ECHO_BYTES,
        sl: None,
        timeout_ms: ECHO_TIMEOUT_MS,
        dlid_offset: None,
    };
    let sweep = verify::ping_pairs(dir, state, &hosts, &pairs, echo, |done| {
        progress.show(&format!("{done} of {} pairs of hosts", pairs.len()));
    });
    let results = match timeout_at(deadline, sweep).await {
        Ok(results) => results,
        Err(_) => return Err(too_long(state, "pairs of hosts are being verified")),
    };
    let wrong: Vec<&PairResult> = results
        .iter()
        .filter(|result| result.fault.is_some() && !result.is_apart)
        .collect();
    if !wrong.is_empty() {
        let listed: Vec<String> = wrong
            .iter()
            .take(LISTED_MAX)
            .map(|result| {
                let name = |host: usize| &hosts[host].identity.name;
                format!(
                    "{} to {} ({})",
                    name(result.pair.0),
                    name(result.pair.1),
                    result.fault.as_deref().unwrap_or("")
                )
            })
            .collect();
        return Err(anyhow!(
            "{} of {} pairs of hosts do not answer: {}",
            wrong.len(),
            results.len(),
            listed.join(", ")
        )
        .into());
    }
    let verified = describe(&results, all);
    progress.done(&verified);
    Ok(Some(verified))
}

fn describe(results: &[PairResult], all: usize) -> String {
    let answered = results.iter().filter(|result| !result.is_apart);
    let mut rtts: Vec<u64> = answered.map(|result| result.ping.rtt.mean_ns).collect();
    rtts.sort_unstable();
    let median = rtts.get(rtts.len() / 2).copied().unwrap_or(0);
    let apart = results.len() - rtts.len();
    let which = if results.len() == all {
        format!("all {} pairs of hosts answer", all - apart)
    } else {
        format!("{} of {all} pairs of hosts, sampled, answer", rtts.len())
    };
    let others = match apart {
        0 => String::new(),
        _ => format!("; {apart} others have no partition in common"),
    };
    format!("{which}, median round trip {}{others}", duration(median))
}
