//! The supervisor's table of the processes of one fabric.
//!
//! ```text
//!            spawn              its pidfd is readable         its peers are notified
//!   absent ---------> running ------------------------> ended ---------------> absent
//! ```
//!
//! One task a process waits for its end. When a process ends, the devices at the other ends of its
//! cables are notified at once, so that none waits for its silence limit.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Child;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use netio::process::{Pidfd, Signal};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use wire::convert::{saturate, usize_of};

use super::journal::{self, Entry, History, Journal};
use super::protocol::{Process, Progress, Target};
use super::spawn;
use super::targets::{controller_handle, describe, ignore_absent, place, targets};
use crate::ask::{self, DeviceClient};
use crate::dir::FabricDir;
use crate::logs;
use crate::machines::Hub;
use crate::process::{self, ProcessId, Role};
use crate::state::{End, FabricState};

/// How long a started process may take until it answers.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a process may take to terminate before it is killed.
pub(super) const TERMINATE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a process that was killed may take to end, and its peers to be notified.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
/// The interval at which a starting process is polled: first, longest.
const READY_POLL_INTERVAL: (Duration, Duration) =
    (Duration::from_millis(2), Duration::from_millis(64));

/// All processes of a fabric but the supervisor itself.
pub(super) struct Fleet {
    pub(super) dir: FabricDir,
    pub(super) state: FabricState,
    /// What each connected port leads to.
    pub(super) peers: BTreeMap<End, End>,
    /// One entry a cable that is pulled by request: its smaller end.
    pub(super) pulled: RefCell<BTreeSet<End>>,
    pub(super) progress: watch::Sender<Progress>,
    pub(super) members: RefCell<BTreeMap<Target, Member>>,
    journal: RefCell<Journal>,
    /// Notified whenever a process has ended and its peers are notified.
    settled: Notify,
    /// The other machines, of a fabric on several.
    pub(super) hub: Option<Rc<Hub>>,
    /// Processes of other machines whose end was reported before their start.
    pub(super) early: RefCell<BTreeMap<(u32, u32), String>>,
}

#[derive(Debug, Default)]
pub(super) struct Member {
    pub(super) running: Option<Running>,
    /// Whether its peers are still being notified of its end.
    pub(super) settling: bool,
    /// Whether its end was requested.
    pub(super) stopping: bool,
    /// Whether its machine is lost.
    pub(super) is_lost: bool,
    restarts: u32,
    ever_started: bool,
    exit: Option<String>,
}

#[derive(Debug)]
pub(super) struct Running {
    pub(super) pid: u32,
    /// Takes hold of it; `None` for one on another machine.
    pub(super) pidfd: Option<Rc<Pidfd>>,
    /// To be reaped; `None` for one that a predecessor started, or on another machine.
    pub(super) child: Option<Child>,
}

impl Fleet {
    pub(super) fn new(
        dir: FabricDir,
        state: FabricState,
        journal: Journal,
        history: &History,
    ) -> Self {
        let peers = state.peers();
        let mut members = BTreeMap::new();
        for target in targets(&state) {
            let mut member = Member::default();
            if let Some(history) = history.processes.get(&target) {
                member.restarts = history.restarts;
                member.ever_started = true;
                member.exit = history.exit.clone();
                member.settling = history.running;
            }
            members.insert(target, member);
        }
        Self {
            dir,
            state,
            peers,
            pulled: RefCell::new(history.pulled.clone()),
            progress: watch::Sender::new(Progress::default()),
            members: RefCell::new(members),
            journal: RefCell::new(journal),
            settled: Notify::new(),
            hub: None,
            early: RefCell::default(),
        }
    }

    /// Takes over the processes that a predecessor has started, and records those that have ended
    /// meanwhile.
    pub(super) async fn adopt(self: &Rc<Self>) -> Result<()> {
        let by_handle: BTreeMap<&str, u32> = self
            .state
            .devices()
            .iter()
            .zip(0u32..)
            .map(|(node, position)| (node.handle.as_str(), position))
            .collect();
        let controllers: BTreeMap<&str, u32> = self
            .state
            .controllers()
            .map(|(_, handle)| handle)
            .zip(0..)
            .collect();
        for found in process::find(&self.dir, &journal::recorded(&self.dir))? {
            let target = match &found.role {
                Role::Device(handle) => match by_handle.get(handle.as_str()) {
                    Some(&node) => Target::Device(node),
                    None => continue,
                },
                Role::Controller(handle) => match controllers.get(handle.as_str()) {
                    Some(&controller) => Target::Controller(controller),
                    None => continue,
                },
                Role::Supervisor => continue,
            };
            if let Some(pidfd) = found.id.hold() {
                tracing::info!(pid = found.id.pid, "{} adopted", self.name(target));
                self.watch(target, found.id, pidfd, None);
            }
        }
        let unseen: Vec<Target> = self
            .members
            .borrow()
            .iter()
            .filter(|(_, member)| member.settling)
            .map(|(target, _)| *target)
            .collect();
        for target in unseen {
            self.record_end(target, "ended while no supervisor was running".to_owned())
                .await;
        }
        Ok(())
    }

    /// The handle of a process, which names its log.
    pub(super) fn handle(&self, target: Target) -> &str {
        match target {
            Target::Device(node) => &self.state.nodes[usize_of(node)].handle,
            Target::Controller(controller) => controller_handle(controller),
        }
    }

    /// The name of a process for messages.
    pub(super) fn name(&self, target: Target) -> &str {
        match target {
            Target::Device(node) => &self.state.nodes[usize_of(node)].name,
            Target::Controller(controller) => controller_handle(controller),
        }
    }

    /// The position of a device; `None` for a controller.
    pub(super) fn node(&self, target: Target) -> Option<usize> {
        match target {
            Target::Device(node) => usize::try_from(node).ok(),
            Target::Controller(_) => None,
        }
    }

    /// The controllers of the fabric.
    pub(super) fn controllers(&self) -> impl Iterator<Item = Target> + use<> {
        let count = self.state.sm_nodes.len();
        (0..saturate(count)).map(Target::Controller)
    }

    /// Whether there is such a process in this fabric.
    pub(super) fn check(&self, target: Target) -> Result<()> {
        if self.members.borrow().contains_key(&target) {
            return Ok(());
        }
        match target {
            Target::Controller(_) if self.state.sm_nodes.is_empty() => bail!(
                "fabric {} was brought up with --sm none: it has no controller",
                self.state.fabric
            ),
            Target::Controller(_) => bail!("there is no {}", self.name(target)),
            Target::Device(node) => bail!("there is no node number {node}"),
        }
    }

    pub(super) fn is_running(&self, target: Target) -> bool {
        let members = self.members.borrow();
        members
            .get(&target)
            .is_some_and(|member| member.running.is_some())
    }

    /// The state of every process, in order.
    pub(super) fn processes(&self) -> Vec<Process> {
        self.members
            .borrow()
            .values()
            .map(|member| Process {
                pid: member.running.as_ref().map(|running| running.pid),
                restarts: member.restarts,
                exit: member.exit.clone(),
                is_lost: member.is_lost,
            })
            .collect()
    }

    /// The connected ports of a node, in ascending order.
    pub(super) fn ends(&self, node: usize) -> Vec<End> {
        let first = End { node, port: 0 };
        let last = End {
            node,
            port: u8::MAX,
        };
        self.peers
            .range(first..=last)
            .map(|(&end, _)| end)
            .collect()
    }

    /// Starts the process of `target`, on its machine, and watches it.
    pub(super) async fn start(self: &Rc<Self>, target: Target) -> Result<()> {
        match self.elsewhere(target) {
            Some((hub, machine)) => self.start_elsewhere(&hub, machine, target).await,
            None => self.start_here(target),
        }
    }

    fn start_here(self: &Rc<Self>, target: Target) -> Result<()> {
        let ends = self
            .node(target)
            .map_or_else(Vec::new, |node| self.ends(node));
        let spawned = spawn::spawn(&self.dir, &self.state, target, &ends)?;
        let pidfd = Pidfd::open(spawned.process.id.pid)?;
        let restarts = self.count_start(target);
        let (node, controller) = place(target);
        self.journal.borrow_mut().add(&Entry::Started {
            node,
            controller,
            process: spawned.process,
            restarts,
        });
        let id = spawned.process.id;
        tracing::info!(pid = id.pid, "{} started", self.name(target));
        self.watch(target, id, pidfd, Some(spawned.child));
        Ok(())
    }

    /// How often a process that starts now was started again.
    pub(super) fn count_start(&self, target: Target) -> u32 {
        let mut members = self.members.borrow_mut();
        let member = members.entry(target).or_default();
        if member.ever_started {
            member.restarts += 1;
        }
        member.ever_started = true;
        member.stopping = false;
        member.restarts
    }

    fn watch(self: &Rc<Self>, target: Target, id: ProcessId, pidfd: Pidfd, child: Option<Child>) {
        let pidfd = Rc::new(pidfd);
        if let Some(member) = self.members.borrow_mut().get_mut(&target) {
            member.settling = false;
            member.running = Some(Running {
                pid: id.pid,
                pidfd: Some(Rc::clone(&pidfd)),
                child,
            });
        }
        let fleet = Rc::clone(self);
        tokio::task::spawn_local(async move {
            if let Err(error) = pidfd.ended().await {
                tracing::warn!("{} cannot be watched: {error}", fleet.name(target));
                return;
            }
            let how = fleet.reap(target);
            fleet.record_end(target, how).await;
        });
    }

    /// Removes the ended process and returns how it ended.
    fn reap(&self, target: Target) -> String {
        let mut members = self.members.borrow_mut();
        let Some(member) = members.get_mut(&target) else {
            return String::new();
        };
        member.settling = true;
        let running = member.running.take();
        let stopped = if member.stopping { " (restart)" } else { "" };
        let how = match running.and_then(|running| running.child) {
            Some(mut child) => match child.wait() {
                Ok(status) => describe(status),
                Err(error) => format!("ended, exit status unknown: {error}"),
            },
            None => "ended, exit status unknown (an earlier supervisor had started it)".to_owned(),
        };
        format!("{how}{stopped}")
    }

    /// Records the end and notifies the peers.
    pub(super) async fn record_end(&self, target: Target, how: String) {
        let expected = {
            let mut members = self.members.borrow_mut();
            let member = members.entry(target).or_default();
            member.exit = Some(how.clone());
            member.stopping
        };
        if expected {
            tracing::info!("{} {how}", self.name(target));
        } else {
            tracing::warn!("{} {how}", self.name(target));
        }
        let (node, controller) = place(target);
        self.journal.borrow_mut().add(&Entry::Ended {
            node,
            controller,
            how,
        });
        if let Some(node) = self.node(target) {
            self.unplug_peers(node).await;
        }
        if let Some(member) = self.members.borrow_mut().get_mut(&target) {
            member.settling = false;
        }
        self.settled.notify_waiters();
    }

    /// Terminates the process of `target`, and kills it if it does not end in time; returns when
    /// its peers are notified.
    ///
    /// # Errors
    /// If it can be neither terminated nor killed, or is still there some time after it was killed.
    pub(super) async fn stop(&self, target: Target) -> Result<()> {
        if let Some((hub, machine)) = self.elsewhere(target) {
            self.stop_elsewhere(&hub, machine, target).await?;
            return self.gone(target, KILL_TIMEOUT).await;
        }
        let pidfd = self.begin_stop(target);
        if let Some(pidfd) = pidfd {
            let name = || format!("cannot stop {}", self.name(target));
            ignore_absent(pidfd.signal(Signal::TERM)).with_context(name)?;
            if tokio::time::timeout(TERMINATE_TIMEOUT, pidfd.ended())
                .await
                .is_err()
            {
                tracing::warn!("{} does not terminate: it is killed", self.name(target));
                ignore_absent(pidfd.signal(Signal::KILL)).with_context(name)?;
            }
        }
        self.gone(target, KILL_TIMEOUT).await
    }

    /// Notes that the end of a process is asked for; what takes hold of it, if it runs on this machine.
    pub(super) fn begin_stop(&self, target: Target) -> Option<Rc<Pidfd>> {
        let mut members = self.members.borrow_mut();
        let member = members.get_mut(&target)?;
        member.stopping = true;
        member.running.as_ref()?.pidfd.as_ref().map(Rc::clone)
    }

    /// Waits until a process that was stopped has ended and its peers are notified, for `limit` at most.
    pub(super) async fn gone(&self, target: Target, limit: Duration) -> Result<()> {
        let ended = async {
            loop {
                let settled = self.settled.notified();
                let is_gone = {
                    let members = self.members.borrow();
                    let member = members.get(&target);
                    member.is_none_or(|member| member.running.is_none() && !member.settling)
                };
                if is_gone {
                    return;
                }
                settled.await;
            }
        };
        if tokio::time::timeout(limit, ended).await.is_ok() {
            return Ok(());
        }
        let name = self.name(target);
        let members = self.members.borrow();
        match members
            .get(&target)
            .and_then(|member| member.running.as_ref())
        {
            Some(running) => bail!(
                "{name} was killed and is still there after {limit:?}: the kernel holds process {pid} \
                 (/proc/{pid}/wchan names where)",
                pid = running.pid
            ),
            None => bail!("{name} has ended, but its peers were not notified within {limit:?}"),
        }
    }

    /// Waits until the process of `target` answers on its control socket.
    pub(super) async fn ready(&self, target: Target) -> Result<()> {
        let deadline = Instant::now() + READY_TIMEOUT;
        let mut pause = READY_POLL_INTERVAL.0;
        loop {
            let answered = self.identify(target).await;
            let Err(error) = answered else { return Ok(()) };
            if !self.is_running(target) {
                bail!("{}", self.exit_with_last_log_line(target));
            }
            if Instant::now() > deadline {
                return Err(error).context(format!("no answer within {READY_TIMEOUT:?}"));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(READY_POLL_INTERVAL.1);
        }
    }

    async fn identify(&self, target: Target) -> Result<()> {
        let Some(node) = self.node(target) else {
            let handle = self.handle(target);
            return ask::identify_controller(&self.dir, handle, ask::REQUEST_TIMEOUT).await;
        };
        let node = &self.state.nodes[node];
        let mut client = DeviceClient::connect(&self.dir, node, ask::REQUEST_TIMEOUT).await?;
        client.ask(&wire::control::DeviceRequest::Identify).await?;
        Ok(())
    }

    /// How the process of `target` ended, with the last line of its log.
    pub(super) fn exit_with_last_log_line(&self, target: Target) -> String {
        let members = self.members.borrow();
        let exit = members.get(&target).and_then(|member| member.exit.clone());
        let how = exit.unwrap_or_else(|| "does not run".to_owned());
        format!(
            "{how}{}",
            logs::log_tail_note(&self.dir, self.handle(target))
        )
    }

    /// Records a pulled or plugged cable.
    pub(super) fn record_cable(&self, end: End, plugged: bool) {
        let mut pulled = self.pulled.borrow_mut();
        if plugged {
            pulled.remove(&end);
        } else {
            pulled.insert(end);
        }
        self.journal
            .borrow_mut()
            .add(&Entry::Cable { end, plugged });
    }
}

#[cfg(test)]
mod tests;
