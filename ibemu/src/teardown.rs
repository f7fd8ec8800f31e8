//! Removes what `up` has created, and only that, even if part of it is gone already.
//!
//! In order: the supervisor (so that it restarts nothing), devices and controller, programs that
//! `exec` has started, namespaces (their veth pairs go with them), the fabric's directory. Every
//! step is taken as far as it goes; running it again takes up what is left.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result};
use netio::namespace::Namespace;

use crate::dir::FabricDir;
use crate::machines::{self, Job};
use crate::net::Net;
use crate::process::{self, Found, ProcessId, ProcessRecord, Role};
use crate::state::{FabricState, Stage};
use crate::supervisor::{self, protocol::Request};

/// How long killed processes may take to end: 1,344 of them give back their memory.
const KILL_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a fabric on several machines may take to end, and how often it is looked for.
const GONE_TIMEOUT: Duration = Duration::from_secs(20);
const GONE_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long programs that `exec` has started may take to terminate.
const EXEC_GRACE: Duration = Duration::from_secs(1);
/// How long devices that are recorded may take to terminate, so that their recordings are complete.
const RECORDED_GRACE: Duration = Duration::from_secs(10);
/// How often the processes are looked for again, in case one was started meanwhile.
const ROUNDS_MAX: usize = 5;

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Processes of the fabric.
    pub processes: usize,
    /// Programs that `ibemu exec` had started.
    pub guests: usize,
    /// Network namespaces.
    pub namespaces: usize,
}

/// Removes the fabric in `dir`, on all its machines; `None` if there is none.
///
/// # Errors
/// If something cannot be removed; what could be, is.
pub async fn down(dir: &FabricDir) -> Result<Option<Removed>> {
    if let Ok(Some(FabricState { job: Some(job), .. })) = FabricState::load(dir) {
        end_job(dir, &job).await;
    }
    here(dir).await
}

/// Has the supervisor of a fabric on several machines end it; waits until this machine's directory is gone. Whatever is still
/// here then is removed without it.
async fn end_job(dir: &FabricDir, job: &Job) {
    let asked = match supervisor::Client::connect(dir).await {
        Ok(mut client) => client.ask(&Request::End).await.is_ok(),
        Err(_) => false,
    };
    let gone = async {
        while dir.exists() {
            tokio::time::sleep(GONE_POLL_INTERVAL).await;
        }
    };
    if asked && tokio::time::timeout(GONE_TIMEOUT, gone).await.is_ok() {
        return;
    }
    if job.here.is_none() && job.is_own {
        machines::release(&job.id, machines::RELEASE_TIMEOUT).await;
    }
}

/// Removes what is on this machine of the fabric in `dir`; `None` if there is nothing.
///
/// # Errors
/// As [`down`].
pub async fn here(dir: &FabricDir) -> Result<Option<Removed>> {
    // What another user put there must not be used.
    drop(dir.open()?);
    // A damaged state must not prevent removal: what can be found without it is removed.
    let state = FabricState::load(dir).ok().flatten();
    let namespaces = match &state {
        Some(state) => existing(&state.namespaces_here())?,
        // Whose label they have may be another fabric of that name, on this machine alone.
        None if dir.is_of_job() => Vec::new(),
        None => labelled(dir).await?,
    };
    let recorded = supervisor::recorded(dir);
    let nothing_else = || Ok::<bool, anyhow::Error>(process::find(dir, &recorded)?.is_empty());
    if state.is_none() && !dir.exists() && namespaces.is_empty() && nothing_else()? {
        return Ok(None);
    }
    let mut removed = Removed {
        processes: kill_processes(dir, state.as_ref(), &recorded)?,
        ..Removed::default()
    };
    removed.guests = kill_exec_programs(dir, &namespaces)?;
    for name in &namespaces {
        Namespace::delete(name)?;
        removed.namespaces += 1;
    }
    dir.remove()?;
    Ok(Some(removed))
}

fn kill_processes(
    dir: &FabricDir,
    state: Option<&FabricState>,
    recorded: &[ProcessRecord],
) -> Result<usize> {
    let owner = dir.owner();
    let own = ProcessId::own()?;
    if let Some(state) = state
        && state.stage == Stage::Creating
        && state.up.id != own
        && state.up.is_alive_as(owner)
    {
        // An `up` that is still at work would go on creating.
        process::kill_all(&[state.up.id], KILL_TIMEOUT)?;
    }
    let grace = state.and_then(|state| state.options.record.as_ref().map(|_| RECORDED_GRACE));
    let mut killed = 0;
    for _ in 0..ROUNDS_MAX {
        let found = process::find(dir, recorded)?;
        if found.is_empty() {
            // Processes of the journal that are no longer recognised by their arguments.
            let alive: Vec<ProcessId> = recorded
                .iter()
                .filter(|record| record.is_alive_as(owner))
                .map(|record| record.id)
                .collect();
            process::kill_all(&alive, KILL_TIMEOUT)?;
            return Ok(killed + alive.len());
        }
        let (supervisors, others): (Vec<Found>, Vec<Found>) = found
            .into_iter()
            .partition(|found| found.role == Role::Supervisor);
        for (group, grace) in [(supervisors, None), (others, grace)] {
            let ids: Vec<ProcessId> = group.iter().map(|found| found.id).collect();
            match grace {
                Some(grace) => process::end_all(&ids, grace, KILL_TIMEOUT)?,
                None => process::kill_all(&ids, KILL_TIMEOUT)?,
            }
            killed += ids.len();
        }
    }
    anyhow::bail!(
        "processes of fabric {} keep appearing; run `ibemu down` again",
        dir.fabric()
    )
}

fn kill_exec_programs(dir: &FabricDir, namespaces: &[String]) -> Result<usize> {
    let guests = process::find_exec_programs(dir, namespaces)?;
    let ids: Vec<ProcessId> = guests.iter().map(|(id, _)| *id).collect();
    process::end_all(&ids, EXEC_GRACE, KILL_TIMEOUT)?;
    Ok(ids.len())
}

/// Those of `planned` that exist.
fn existing(planned: &[String]) -> Result<Vec<String>> {
    if planned.is_empty() {
        return Ok(Vec::new());
    }
    let all = Namespace::list()?;
    // The adapters of one host share one.
    let planned: BTreeSet<&String> = planned.iter().collect();
    let there = planned
        .into_iter()
        .filter(|name| all.binary_search(name).is_ok());
    Ok(there.cloned().collect())
}

/// The namespaces that carry the fabric's label: how they are found when its state is lost.
async fn labelled(dir: &FabricDir) -> Result<Vec<String>> {
    if netio::process::effective_uid() != 0 {
        return Ok(Vec::new());
    }
    let prefix = dir.fabric().namespace("");
    let label = dir.fabric().label();
    let mut names = Vec::new();
    for name in Namespace::list()? {
        if !name.starts_with(&prefix) {
            continue;
        }
        // One that cannot be entered is a stale mount point, or belongs to another user.
        let Ok(net) = Net::open(&name) else { continue };
        let found = net
            .label()
            .await
            .with_context(|| format!("cannot read the label of {name}"))?;
        if found.as_deref() == Some(label.as_str()) {
            names.push(name);
        }
    }
    Ok(names)
}
