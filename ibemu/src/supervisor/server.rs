//! The supervisor's main loop and its control requests.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use cluster::message::Order;
use daemon::control::Answer;
use daemon::logging::{LogArgs, LogLevel};
use daemon::signals::ShutdownSignals;
use futures_util::{StreamExt, stream};
use netio::seqpacket::Listener;
use tokio::sync::{Mutex, Notify, mpsc};
use tokio::task::LocalSet;

use wire::convert::usize_of;

use super::elsewhere::is_gateway;
use super::fleet::Fleet;
use super::journal::{Entry, Journal};
use super::protocol::{Failure, PROCESSES_MAX, Progress, Reply, Request, Target};
use crate::ask;
use crate::dir::FabricDir;
use crate::machines::{self, Hub, HubEvent};
use crate::process::ProcessRecord;
use crate::state::{End, FabricState};

/// How long a progress request waits for progress.
const PROGRESS_TIMEOUT: Duration = Duration::from_millis(250);
/// Devices that are started before requests are served again.
const STARTS_A_TURN: usize = 8;
/// Devices whose first answer is awaited at a time: they become ready about in the order in which
/// they were started.
const AWAITED_AT_ONCE: usize = 16;
/// Timeout of a request to the controller to sweep.
const RESWEEP_TIMEOUT: Duration = Duration::from_secs(2);
/// Descriptors a process needs besides: one a device, and connections to a few of them.
pub(crate) const FILES_BESIDES: u64 = 512;

/// Runs the supervisor of the fabric in `path` until SIGTERM or SIGINT.
///
/// # Errors
/// If there is no such fabric, or it has a supervisor already.
pub fn run(path: &Path) -> Result<()> {
    netio::process::new_session();
    let dir = FabricDir::at(path)?;
    let state = FabricState::require(&dir)?;
    let _logs = daemon::logging::start(&LogArgs {
        log_level: LogLevel::Info,
        log: Some(dir.log("supervisor")),
        log_bytes: state.options.links.log_bytes,
    });
    let files = u64::try_from(state.devices().len())? + FILES_BESIDES;
    netio::process::raise_open_files(files).context("cannot raise the limit of open files")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    if is_gateway(&state) {
        return LocalSet::new().block_on(&runtime, machines::gateway(dir, state));
    }
    LocalSet::new().block_on(&runtime, serve_fabric(dir, state))
}

/// Supervises a fabric on several machines until it ends; what is left on this machine is for the caller to remove.
///
/// # Errors
/// Why it has ended, if nobody has asked for it.
pub(crate) async fn in_job(
    dir: FabricDir,
    state: FabricState,
    hub: Rc<Hub>,
    mut events: mpsc::Receiver<HubEvent>,
    mut leave: ShutdownSignals,
) -> Result<()> {
    let _logs = daemon::logging::start(&LogArgs {
        log_level: LogLevel::Info,
        log: Some(dir.log("supervisor")),
        log_bytes: state.options.links.log_bytes,
    });
    let prepared = prepare(&state, &hub).await;
    if let Err(error) = prepared {
        hub.end(&format!("{error:#}")).await;
        return Err(error);
    }
    let listener = Listener::bind(&dir.control("supervisor"))?;
    let (journal, history) = Journal::open(&dir)?;
    let mut fleet = Fleet::new(dir, state, journal, &history);
    fleet.hub = Some(Rc::clone(&hub));
    let server = Server {
        fleet: Rc::new(fleet),
        changes: Rc::new(Mutex::new(())),
        ending: Rc::default(),
    };
    let (fleet, ending) = (Rc::clone(&server.fleet), Rc::clone(&server.ending));
    hub.tell_ready().await;
    tracing::info!(
        "supervising fabric {} on several machines",
        fleet.state.fabric
    );
    let served = daemon::control::serve(&listener, move |request| {
        let server = server.clone();
        async move { Answer::from(server.answer(request).await) }
    });
    tokio::pin!(served);
    let why = loop {
        tokio::select! {
            ended = &mut served => break ended.err().map(|error| format!("the control socket failed: {error}")),
            () = leave.next() => break Some("Slurm ends the job".to_owned()),
            () = ending.notified() => break None,
            event = events.recv() => {
                let Some(event) = event else { break None };
                if let Some(why) = fleet.hear(event) {
                    break Some(why).filter(|why| !why.is_empty());
                }
            }
        }
    };
    let text = why.clone().unwrap_or_default();
    tracing::info!(
        "the fabric ends: {}",
        if text.is_empty() { "on request" } else { &text }
    );
    hub.end(&text).await;
    match why {
        Some(why) => bail!("{why}"),
        None => Ok(()),
    }
}

/// Has every machine make its namespaces and cables.
async fn prepare(state: &FabricState, hub: &Rc<Hub>) -> Result<()> {
    let others = hub
        .machines()
        .into_iter()
        .map(|machine| async move { hub.order(machine, Order::Prepare).await.map(drop) });
    let others = futures_util::future::try_join_all(others);
    let own = machines::prepare_machine(state);
    futures_util::try_join!(others, own)?;
    Ok(())
}

async fn serve_fabric(dir: FabricDir, state: FabricState) -> Result<()> {
    // The process that has bound the socket is the supervisor; nothing is changed before that.
    let listener = Listener::bind(&dir.control("supervisor"))?;
    let mut leave = ShutdownSignals::new().context("cannot listen to signals")?;
    let (mut journal, history) = Journal::open(&dir)?;
    journal.add(&Entry::Supervisor {
        process: ProcessRecord::own()?,
    });
    let fleet = Rc::new(Fleet::new(dir, state, journal, &history));
    fleet.adopt().await?;
    tracing::info!("supervising fabric {}", fleet.state.fabric);
    let server = Server {
        fleet,
        changes: Rc::new(Mutex::new(())),
        ending: Rc::default(),
    };
    server.connect_adopted();
    let served = daemon::control::serve(&listener, move |request| {
        let server = server.clone();
        async move { Answer::from(server.answer(request).await) }
    });
    tokio::select! {
        ended = served => ended.context("the control socket failed"),
        () = leave.next() => {
            tracing::info!("terminating on request; the devices keep running");
            Ok(())
        }
    }
}

#[derive(Clone)]
struct Server {
    fleet: Rc<Fleet>,
    /// Held while a process is started or stopped, or a cable is plugged.
    changes: Rc<Mutex<()>>,
    /// Notified when a fabric on several machines is to end.
    ending: Rc<Notify>,
}

impl Server {
    async fn answer(&self, request: Request) -> Reply {
        match request {
            Request::Hello => Reply::Hello {
                pid: std::process::id(),
            },
            Request::Start => self.start(),
            Request::Progress { seen } => self.progress(&seen).await,
            Request::StartControllers => done(self.start_controllers().await),
            Request::Processes { skip } => self.processes(skip),
            Request::Cable {
                node,
                port,
                plugged,
            } => done(self.cable(node, port, plugged).await),
            Request::Restart { what } => done(self.restart(what).await),
            Request::End => self.end(),
        }
    }

    /// Sends adopted devices the ends of their cables, besides serving requests.
    fn connect_adopted(&self) {
        let server = self.clone();
        tokio::task::spawn_local(async move {
            let _changes = server.changes.lock().await;
            server.fleet.connect_adopted().await;
        });
    }

    fn end(&self) -> Reply {
        if self.fleet.hub.is_none() {
            return Reply::Refused("the fabric is on one machine".to_owned());
        }
        let ending = Rc::clone(&self.ending);
        tokio::task::spawn_local(async move {
            // The reply goes first.
            tokio::task::yield_now().await;
            ending.notify_one();
        });
        Reply::Done
    }

    fn start(&self) -> Reply {
        let server = self.clone();
        tokio::task::spawn_local(async move {
            let _changes = server.changes.lock().await;
            server.fleet.progress.send_replace(Progress::default());
            if let Err((target, error)) = server.start_devices().await {
                let failure = Failure {
                    handle: target
                        .map_or("supervisor", |target| server.fleet.handle(target))
                        .to_owned(),
                    reason: format!("{error:#}"),
                };
                tracing::warn!("{}: {}", failure.handle, failure.reason);
                server
                    .fleet
                    .progress
                    .send_modify(|progress| progress.failed = Some(failure));
            }
        });
        Reply::Done
    }

    async fn start_devices(&self) -> Result<(), (Option<Target>, anyhow::Error)> {
        let fleet = &self.fleet;
        let devices = || {
            (0u32..)
                .zip(fleet.state.devices())
                .map(|(node, _)| Target::Device(node))
        };
        // Those of other machines are started side by side.
        let mut started = stream::iter(devices().enumerate())
            .map(|(count, target)| async move {
                if count % STARTS_A_TURN == 0 {
                    tokio::task::yield_now().await;
                }
                if !fleet.is_running(target) {
                    fleet
                        .start(target)
                        .await
                        .map_err(|error| (Some(target), error))?;
                }
                Ok(())
            })
            .buffered(STARTS_A_TURN);
        while let Some(outcome) = started.next().await {
            outcome?;
            fleet.progress.send_modify(|progress| progress.started += 1);
        }
        drop(started);
        let mut ready = stream::iter(devices())
            .map(|target| async move { (target, fleet.ready(target).await) })
            .buffer_unordered(AWAITED_AT_ONCE);
        while let Some((target, answered)) = ready.next().await {
            answered.map_err(|error| (Some(target), error))?;
            fleet.progress.send_modify(|progress| progress.ready += 1);
        }
        fleet.connect_all().await.map_err(|error| (None, error))?;
        fleet.progress.send_modify(|progress| progress.done = true);
        Ok(())
    }

    async fn progress(&self, seen: &Progress) -> Reply {
        let mut watched = self.fleet.progress.subscribe();
        let further = watched.wait_for(|progress| progress != seen);
        // After the timeout the caller learns that nothing has changed, and can check the fabric
        // itself.
        let _ = tokio::time::timeout(PROGRESS_TIMEOUT, further).await;
        Reply::Progress(self.fleet.progress.borrow().clone())
    }

    async fn start_controllers(&self) -> Result<()> {
        let _changes = self.changes.lock().await;
        let fleet = &self.fleet;
        fleet.check(Target::Controller(0))?;
        for target in fleet.controllers() {
            if !fleet.is_running(target) {
                fleet.start(target).await?;
            }
        }
        for target in fleet.controllers() {
            fleet.ready(target).await?;
        }
        Ok(())
    }

    fn processes(&self, skip: u32) -> Reply {
        let skip = usize_of(skip);
        let all = self.fleet.processes().into_iter();
        Reply::Processes(all.skip(skip).take(PROCESSES_MAX).collect())
    }

    async fn cable(&self, node: u32, port: u8, plugged: bool) -> Result<()> {
        let _changes = self.changes.lock().await;
        self.fleet.check(Target::Device(node))?;
        let node = usize::try_from(node)?;
        self.fleet.pull_or_plug(End { node, port }, plugged).await?;
        self.resweep().await;
        Ok(())
    }

    /// Makes the controllers sweep the subnet now, or poll their master. Switches send traps when a
    /// cable changes, but none can report the cable between a controller's own host and its first
    /// switch.
    async fn resweep(&self) {
        for target in self.fleet.controllers() {
            if !self.fleet.is_running(target) {
                continue;
            }
            let handle = self.fleet.handle(target);
            if let Err(error) = ask::resweep(&self.fleet.dir, handle, RESWEEP_TIMEOUT).await {
                tracing::warn!("{handle} was not notified of a change: {error:#}");
            }
        }
    }

    async fn restart(&self, what: Target) -> Result<()> {
        let _changes = self.changes.lock().await;
        let fleet = &self.fleet;
        fleet.check(what)?;
        fleet.stop(what).await?;
        fleet.start(what).await?;
        if let Err(error) = fleet.ready(what).await {
            bail!("{} was started but {error:#}", fleet.name(what));
        }
        match fleet.node(what) {
            Some(node) => fleet.rejoin(node).await?,
            None => return Ok(()),
        }
        self.resweep().await;
        Ok(())
    }
}

fn done(result: Result<()>) -> Reply {
    match result {
        Ok(()) => Reply::Done,
        Err(error) => Reply::Refused(format!("{error:#}")),
    }
}
