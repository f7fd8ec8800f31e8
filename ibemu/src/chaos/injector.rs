//! Does faults to the live fabric and takes them back.
//!
//! What may have to be taken back is noted before anything is done, so that an interrupt at any moment
//! leaves nothing behind. Processes are held by descriptor and are those that the fabric's journal,
//! their user and their programs say are the fabric's ([`crate::process`]).

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures_util::future;
use netio::process::{Pidfd, Signal};
use netio::transport::Transport;

use super::kind::FaultKind;
use super::remains::Missing;
use super::schedule::{Fault, Subject};
use crate::ask;
use crate::dir::FabricDir;
use crate::names::{CONTROLLERS, SUPERVISOR};
use crate::process::{self, ProcessId, Role};
use crate::state::FabricState;
use crate::supervisor::{
    self,
    protocol::{Request, Target},
};
use crate::verbs;

/// How often a bouncing cable is pulled and plugged.
const BOUNCES: u32 = 3;
/// How long it stays pulled, and plugged.
const BOUNCE_INTERVAL: Duration = Duration::from_millis(60);
/// How long a killed process may take to be gone.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a controller may take to say what it does.
const PHASE_TIMEOUT: Duration = Duration::from_secs(2);

/// A fault with its subject found: this process, these cables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Kill(Process),
    Stop(Process),
    Restart(Process),
    Pull(Vec<usize>),
    Bounce(usize),
}

/// A process of the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Process {
    Member(Target),
    Supervisor,
}

/// Faults that have to be undone.
#[derive(Debug)]
enum Undo {
    /// A process that was stopped.
    Continue(Pidfd),
    /// The supervisor that was killed.
    Supervise,
    /// A process that was killed or restarted, if it does not run.
    Run(Target),
    /// A cable.
    Plug(usize),
}

/// Does faults and takes them back.
pub(super) struct Injector<'a> {
    dir: &'a FabricDir,
    state: &'a FabricState,
    undo: RefCell<Vec<Rc<Undo>>>,
}

impl<'a> Injector<'a> {
    pub(super) fn new(dir: &'a FabricDir, state: &'a FabricState) -> Self {
        Self {
            dir,
            state,
            undo: RefCell::new(Vec::new()),
        }
    }

    /// Finds the subjects of faults.
    ///
    /// # Errors
    /// If a fault is of a controller and there is none in that phase.
    pub(super) async fn actions(&self, faults: &[Fault]) -> Result<Vec<Action>> {
        let reports = ask::subnets(self.dir, self.state, PHASE_TIMEOUT).await;
        let master = ask::master(&reports);
        let standby = (0..reports.len()).find(|&position| Some(position) != master);
        let controller = |position: Option<usize>| {
            let position = position.context("no controller does that")?;
            Ok(Process::Member(Target::Controller(u32::try_from(
                position,
            )?)))
        };
        let process = |subject: &Subject| match subject {
            Subject::Node(node) => Ok(Process::Member(Target::Device(u32::try_from(*node)?))),
            Subject::Master => controller(master),
            Subject::Standby => controller(standby),
            Subject::Supervisor => Ok(Process::Supervisor),
            Subject::Cables(_) => bail!("a cable is no process"),
        };
        let action = |fault: &Fault| {
            Ok(match (fault.kind, &fault.subject) {
                (FaultKind::CableBounce, Subject::Cables(cables)) => {
                    Action::Bounce(*cables.first().context("a cable")?)
                }
                (_, Subject::Cables(cables)) => Action::Pull(cables.clone()),
                (
                    FaultKind::SwitchStop | FaultKind::HostStop | FaultKind::ControllerStop,
                    subject,
                ) => Action::Stop(process(subject)?),
                (kind, subject) if kind.is_passing() => Action::Restart(process(subject)?),
                (_, subject) => Action::Kill(process(subject)?),
            })
        };
        faults.iter().map(action).collect()
    }

    /// The devices and cables that are down while faults last.
    pub(super) fn missing(&self, actions: &[Action]) -> Missing {
        let mut missing = Missing::default();
        for action in actions {
            match action {
                Action::Kill(process) | Action::Stop(process) | Action::Restart(process) => {
                    match process {
                        Process::Member(Target::Device(node)) => {
                            missing.nodes.extend(usize::try_from(*node));
                        }
                        Process::Member(Target::Controller(position)) => {
                            missing.controllers.extend(usize::try_from(*position));
                        }
                        Process::Supervisor => {}
                    }
                }
                Action::Pull(cables) => missing.cables.extend(cables),
                Action::Bounce(cable) => missing.cables.extend([*cable]),
            }
        }
        missing
    }

    /// A action in words.
    pub(super) fn describe(&self, action: &Action) -> String {
        match action {
            Action::Kill(process) => format!("kill -9 {}", self.name(*process)),
            Action::Stop(process) => format!("kill -STOP {}", self.name(*process)),
            Action::Restart(process) => format!("restart {}", self.name(*process)),
            Action::Pull(cables) => {
                let cables: Vec<String> = cables.iter().map(|&cable| self.cable(cable)).collect();
                format!("pull {}", cables.join(", "))
            }
            Action::Bounce(cable) => {
                format!("pull and plug {} {BOUNCES} times", self.cable(*cable))
            }
        }
    }

    fn name(&self, process: Process) -> &str {
        match process {
            Process::Member(Target::Device(node)) => {
                let node = usize::try_from(node).ok();
                let node = node.and_then(|node| self.state.nodes.get(node));
                node.map_or("a device", |node| node.name.as_str())
            }
            Process::Member(Target::Controller(position)) => {
                let position = usize::try_from(position).ok();
                let handle = position.and_then(|position| CONTROLLERS.get(position));
                handle.copied().unwrap_or("a controller")
            }
            Process::Supervisor => SUPERVISOR,
        }
    }

    fn cable(&self, cable: usize) -> String {
        let [a, b] = self.state.links[cable].map(|end| self.state.end_name(end));
        format!("{a} - {b}")
    }

    /// Executes all actions at once.
    ///
    /// # Errors
    /// What could not be done. A restart that fails because the supervisor is killed meanwhile is none.
    pub(super) async fn apply(&self, actions: &[Action]) -> Result<()> {
        let is_orphaned = actions.contains(&Action::Kill(Process::Supervisor));
        // Without a veth pair it is the supervisor that pulls a cable: before it is killed.
        let is_first = |action: &Action| {
            let is_asked =
                |&cable: &usize| self.state.medium(self.state.links[cable]) != Transport::Veth;
            matches!(action, Action::Pull(cables) if cables.iter().any(is_asked))
        };
        let (first, then): (Vec<&Action>, Vec<&Action>) =
            actions.iter().partition(|action| is_first(action));
        for actions in [first, then] {
            let done = future::join_all(actions.iter().map(|action| self.do_one(action))).await;
            for (action, done) in actions.iter().zip(done) {
                let is_asked = matches!(action, Action::Restart(_) | Action::Bounce(_));
                if !(is_orphaned && is_asked) {
                    done.with_context(|| self.describe(action))?;
                }
            }
        }
        Ok(())
    }

    async fn do_one(&self, action: &Action) -> Result<()> {
        match action {
            Action::Kill(process) => {
                let pidfd = self.hold(*process)?;
                self.note(match process {
                    Process::Member(target) => Undo::Run(*target),
                    Process::Supervisor => Undo::Supervise,
                });
                pidfd.signal(Signal::KILL)?;
                let ended = tokio::time::timeout(END_TIMEOUT, pidfd.ended()).await;
                ended.context("it was sent SIGKILL and does not end")??;
                Ok(())
            }
            Action::Stop(process) => {
                self.note(Undo::Continue(self.hold(*process)?));
                self.hold(*process)?.signal(Signal::STOP)?;
                Ok(())
            }
            Action::Restart(Process::Member(target)) => {
                self.note(Undo::Run(*target));
                self.restart(*target).await
            }
            Action::Restart(Process::Supervisor) => bail!("the supervisor is not restarted"),
            Action::Pull(cables) => {
                for &cable in cables {
                    self.note(Undo::Plug(cable));
                }
                let pulled = cables.iter().map(|&cable| self.set_cable(cable, false));
                future::try_join_all(pulled).await?;
                Ok(())
            }
            Action::Bounce(cable) => {
                self.note(Undo::Plug(*cable));
                for _ in 0..BOUNCES {
                    self.set_cable(*cable, false).await?;
                    tokio::time::sleep(BOUNCE_INTERVAL).await;
                    self.set_cable(*cable, true).await?;
                    tokio::time::sleep(BOUNCE_INTERVAL).await;
                }
                Ok(())
            }
        }
    }

    fn note(&self, undo: Undo) {
        self.undo.borrow_mut().push(Rc::new(undo));
    }

    async fn set_cable(&self, cable: usize, plugged: bool) -> Result<()> {
        let [end, peer] = self.state.links[cable];
        verbs::set_cable(self.dir, self.state, end, peer, plugged).await
    }

    async fn restart(&self, what: Target) -> Result<()> {
        let mut client = supervisor::ensure(self.dir).await?;
        client.ask(&Request::Restart { what }).await?;
        Ok(())
    }

    /// Takes hold of a process of the fabric that runs.
    fn hold(&self, process: Process) -> Result<Pidfd> {
        let id = self.running(process)?;
        let held = id.and_then(ProcessId::hold);
        held.with_context(|| format!("{} does not run", self.name(process)))
    }

    fn running(&self, process: Process) -> Result<Option<ProcessId>> {
        let role = self.role(process)?;
        let found = process::find(self.dir, &supervisor::recorded(self.dir))?;
        let same = found.into_iter().find(|found| found.role == role);
        Ok(same.map(|found| found.id))
    }

    /// The roles whose processes these actions end.
    ///
    /// # Errors
    /// If one is of no process of the fabric.
    pub(super) fn ended(&self, actions: &[Action]) -> Result<BTreeSet<Role>> {
        let ends = |action: &Action| match action {
            Action::Kill(process) | Action::Restart(process) => Some(*process),
            _ => None,
        };
        actions
            .iter()
            .filter_map(ends)
            .map(|process| self.role(process))
            .collect()
    }

    fn role(&self, process: Process) -> Result<Role> {
        Ok(match process {
            Process::Member(Target::Device(node)) => {
                Role::Device(self.state.nodes[usize::try_from(node)?].handle.clone())
            }
            Process::Member(Target::Controller(_)) => {
                Role::Controller(self.name(process).to_owned())
            }
            Process::Supervisor => Role::Supervisor,
        })
    }

    /// Takes back all that was done: stopped processes go on and the supervisor is there again, then
    /// the rest at once. What is taken back is not taken back again, unless this was interrupted.
    ///
    /// # Errors
    /// The first that could not be taken back; the others are, nevertheless.
    pub(super) async fn take_back(&self) -> Result<()> {
        let undo = self.undo.borrow().clone();
        let mut done = Vec::new();
        for undo in &undo {
            match undo.as_ref() {
                Undo::Continue(pidfd) => done.push(go_on(pidfd)),
                Undo::Supervise => done.push(supervisor::ensure(self.dir).await.map(drop)),
                Undo::Run(_) | Undo::Plug(_) => {}
            }
        }
        let targets: BTreeSet<Target> = undo.iter().filter_map(|undo| undo.target()).collect();
        let cables: BTreeSet<usize> = undo.iter().filter_map(|undo| undo.cable()).collect();
        let runs = future::join_all(targets.into_iter().map(|target| self.run_again(target)));
        let plugs = future::join_all(cables.into_iter().map(|cable| self.set_cable(cable, true)));
        let (runs, plugs) = future::join(runs, plugs).await;
        // Only now: all of it can be done again, should this have been interrupted.
        self.undo.borrow_mut().clear();
        done.into_iter().chain(runs).chain(plugs).collect()
    }

    /// Starts a process again if it does not run.
    async fn run_again(&self, target: Target) -> Result<()> {
        let process = Process::Member(target);
        let taken_back = async {
            if self.running(process)?.is_none() {
                self.restart(target).await?;
            }
            anyhow::Ok(())
        };
        let name = || format!("cannot start {} again", self.name(process));
        taken_back.await.with_context(name)
    }
}

impl Undo {
    fn target(&self) -> Option<Target> {
        match self {
            Self::Run(target) => Some(*target),
            _ => None,
        }
    }

    fn cable(&self) -> Option<usize> {
        match self {
            Self::Plug(cable) => Some(*cable),
            _ => None,
        }
    }
}

/// Makes a stopped process go on; one that has ended needs nothing.
fn go_on(pidfd: &Pidfd) -> Result<()> {
    match pidfd.signal(Signal::CONT) {
        Err(error) if error.raw_os_error() != Some(libc::ESRCH) => Err(error.into()),
        _ => Ok(()),
    }
}
