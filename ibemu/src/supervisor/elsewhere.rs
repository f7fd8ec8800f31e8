//! Processes on other machines of a job: their agents start and end them, and report how they have ended.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use cluster::message::Order;
use futures_util::{StreamExt, stream};
use wire::convert::{saturate, usize_of};

use super::cables::AT_ONCE;
use super::fleet::{Fleet, Running, TERMINATE_TIMEOUT};
use super::protocol::Target;
use crate::machines::{Hub, HubEvent};
use crate::state::End;

/// How long a process of another machine may take to end before it is killed: what it may take on this one, and the way
/// there.
const STOP_TIMEOUT: Duration = TERMINATE_TIMEOUT;

impl Fleet {
    /// The other machines and the one of them that a process runs on; `None` if it runs on this one.
    pub(super) fn elsewhere(&self, target: Target) -> Option<(Rc<Hub>, usize)> {
        let node = self.node(target)?;
        if self.state.is_here(node) {
            return None;
        }
        let job = self.state.job.as_ref()?;
        Some((Rc::clone(self.hub.as_ref()?), job.placement[node]))
    }

    pub(super) async fn start_elsewhere(
        self: &Rc<Self>,
        hub: &Hub,
        machine: usize,
        target: Target,
    ) -> Result<()> {
        let node = position(target);
        let pid = hub.order(machine, Order::Start { node }).await?;
        self.count_start(target);
        tracing::info!(
            pid,
            "{} started on {}",
            self.name(target),
            hub.name(machine)
        );
        if let Some(member) = self.members.borrow_mut().get_mut(&target) {
            member.settling = false;
            member.is_lost = false;
            member.running = Some(Running {
                pid,
                pidfd: None,
                child: None,
            });
        }
        let ended = self.early.borrow_mut().remove(&(node, pid));
        if let Some(how) = ended {
            self.ended_elsewhere(node, pid, how).await;
        }
        Ok(())
    }

    /// Terminates a process of another machine, and has it killed if it does not end in time.
    pub(super) async fn stop_elsewhere(
        &self,
        hub: &Hub,
        machine: usize,
        target: Target,
    ) -> Result<()> {
        self.begin_stop(target);
        let node = position(target);
        if !self.is_running(target) {
            return Ok(());
        }
        hub.order(machine, Order::Stop { node, kill: false })
            .await?;
        if self.gone(target, STOP_TIMEOUT).await.is_err() {
            tracing::warn!("{} does not terminate: it is killed", self.name(target));
            hub.order(machine, Order::Stop { node, kill: true }).await?;
        }
        Ok(())
    }

    /// A process of another machine has ended.
    async fn ended_elsewhere(&self, node: u32, pid: u32, how: String) {
        let target = Target::Device(node);
        let stopped = {
            let mut members = self.members.borrow_mut();
            let Some(member) = members.get_mut(&target) else {
                return;
            };
            let is_it = |running: &Running| running.pid == pid && running.pidfd.is_none();
            if !member.running.as_ref().is_some_and(is_it) {
                self.early.borrow_mut().insert((node, pid), how);
                return;
            }
            member.running = None;
            member.settling = true;
            member.stopping
        };
        let stopped = if stopped { " (restart)" } else { "" };
        self.record_end(target, format!("{how}{stopped}")).await;
    }

    /// A machine is lost, and with it all its devices.
    async fn machine_lost(&self, machine: usize) {
        let Some(job) = &self.state.job else { return };
        let name = &job.machines[machine].name;
        let devices =
            (0..self.state.devices().len()).filter(|&node| job.placement[node] == machine);
        let mut lost = Vec::new();
        for node in devices {
            let target = Self::target(node);
            if let Some(member) = self.members.borrow_mut().get_mut(&target)
                && member.running.take().is_some()
            {
                member.is_lost = true;
                member.settling = true;
                lost.push(target);
            }
        }
        stream::iter(lost)
            .for_each_concurrent(AT_ONCE, |target| {
                self.record_end(target, format!("is lost with its machine {name}"))
            })
            .await;
    }

    /// Acts on what another machine reports; why the fabric ends, if it has to.
    pub(super) fn hear(self: &Rc<Self>, event: HubEvent) -> Option<String> {
        let fleet = Rc::clone(self);
        match event {
            HubEvent::Ended {
                machine,
                node,
                pid,
                how,
            } => {
                let job = self.state.job.as_ref()?;
                if job.placement.get(usize_of(node)) != Some(&machine) {
                    tracing::warn!("machine {machine} reports the end of what is not its own");
                    return None;
                }
                tokio::task::spawn_local(
                    async move { fleet.ended_elsewhere(node, pid, how).await },
                );
                None
            }
            HubEvent::Lost { machine, why } => {
                let job = self.state.job.as_ref()?;
                let name = &job.machines[machine].name;
                tracing::warn!("machine {name} is lost: {why}");
                if !job.no_kill {
                    return Some(format!(
                        "machine {name} is lost ({why}); with --no-kill the rest would go on"
                    ));
                }
                tokio::task::spawn_local(async move { fleet.machine_lost(machine).await });
                None
            }
            HubEvent::GatewayLeft { why } => Some(why),
        }
    }

    /// Has the other machine of a cable make its memory.
    pub(super) async fn join_elsewhere(&self, ends: [End; 2]) -> Option<Result<()>> {
        let (hub, machine) = self.elsewhere(Self::target(ends[0].node))?;
        let ends = ends.map(|end| (saturate::<u32>(end.node), end.port));
        Some(hub.order(machine, Order::Join { ends }).await.map(drop))
    }
}

fn position(target: Target) -> u32 {
    match target {
        Target::Device(node) => node,
        Target::Controller(controller) => controller,
    }
}

/// Whether the supervisor of the fabric in a directory is a stand-in for one on another machine.
pub(super) fn is_gateway(state: &crate::state::FabricState) -> bool {
    state.job.as_ref().is_some_and(|job| job.here.is_none())
}

/// Why there is no fabric, if the machine of `up` has written it down.
pub(super) fn failure(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path.join(crate::machines::FAILURE)).ok()?;
    Some(text.trim().to_owned())
}
