//! The supervisor's main loop and its answers.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use daemon::control::Answer;
use daemon::signals::ShutdownSignals;
use futures::{StreamExt, stream};
use netio::seqpacket::Listener;
use tokio::sync::Mutex;
use tokio::task::LocalSet;

use wire::convert::usize_of;

use super::fleet::Fleet;
use super::journal::Journal;
use super::protocol::{Failure, PROCESSES_MAX, Progress, Reply, Request, Target};
use crate::ask;
use crate::dir::FabricDir;
use crate::state::{End, FabricState};

/// How long a question about progress waits for some.
const PROGRESS_PAUSE: Duration = Duration::from_millis(250);
/// Devices that are started before requests get a turn.
const STARTS_A_TURN: usize = 8;
/// Devices whose first answer is awaited at a time: they become ready about in the order in which
/// they were started.
const AWAITED_AT_ONCE: usize = 16;
/// How long the controller may take to hear that something has changed.
const LOOK_ROUND_PATIENCE: Duration = Duration::from_secs(2);
/// Descriptors a process needs besides: one a device, and connections to a few of them.
const FILES_BESIDES: u64 = 512;

/// Runs the supervisor of the fabric in `path` until it is told to leave.
///
/// # Errors
/// If there is no such fabric, or it has a supervisor already.
pub fn run(path: &Path) -> Result<()> {
    daemon::logging::to_stderr(tracing::level_filters::LevelFilter::INFO);
    netio::process::new_session();
    let dir = FabricDir::at(path)?;
    let state = FabricState::require(&dir)?;
    let files = u64::try_from(state.nodes.len())? + FILES_BESIDES;
    netio::process::raise_open_files(files).context("cannot raise the limit of open files")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    LocalSet::new().block_on(&runtime, watch_over(dir, state))
}

async fn watch_over(dir: FabricDir, state: FabricState) -> Result<()> {
    // Whoever holds the socket is the supervisor: only then is anything touched.
    let listener = Listener::bind(&dir.control("supervisor"))?;
    let mut leave = ShutdownSignals::new().context("cannot listen to signals")?;
    let (journal, past) = Journal::open(&dir)?;
    let fleet = Rc::new(Fleet::new(dir, state, journal, &past));
    fleet.adopt().await?;
    tracing::info!("watching over fabric {}", fleet.state.fabric);
    let server = Server {
        fleet,
        changes: Rc::new(Mutex::new(())),
    };
    let served = daemon::control::serve(&listener, move |request| {
        let server = server.clone();
        async move { Answer::from(server.answer(request).await) }
    });
    tokio::select! {
        ended = served => ended.context("the control socket failed"),
        () = leave.next() => {
            tracing::info!("told to leave; the devices run on");
            Ok(())
        }
    }
}

#[derive(Clone)]
struct Server {
    fleet: Rc<Fleet>,
    /// Held by whoever starts, stops or plugs.
    changes: Rc<Mutex<()>>,
}

impl Server {
    async fn answer(&self, request: Request) -> Reply {
        match request {
            Request::Hello => Reply::Hello {
                pid: std::process::id(),
            },
            Request::Start => self.start(),
            Request::Progress { seen } => self.progress(&seen).await,
            Request::StartController => done(self.start_controller().await),
            Request::Processes { skip } => self.processes(skip),
            Request::Cable {
                node,
                port,
                plugged,
            } => done(self.cable(node, port, plugged).await),
            Request::Restart { what } => done(self.restart(what).await),
        }
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
                .zip(&fleet.state.nodes)
                .map(|(node, _)| Target::Device(node))
        };
        for (count, target) in devices().enumerate() {
            if !fleet.is_running(target) {
                fleet.start(target).map_err(|error| (Some(target), error))?;
            }
            fleet.progress.send_modify(|progress| progress.started += 1);
            if count % STARTS_A_TURN == 0 {
                tokio::task::yield_now().await;
            }
        }
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
        // After the pause the caller hears that nothing has changed, and can look round itself.
        let _ = tokio::time::timeout(PROGRESS_PAUSE, further).await;
        Reply::Progress(self.fleet.progress.borrow().clone())
    }

    async fn start_controller(&self) -> Result<()> {
        let _changes = self.changes.lock().await;
        let fleet = &self.fleet;
        fleet.check(Target::Controller)?;
        if !fleet.is_running(Target::Controller) {
            fleet.start(Target::Controller)?;
        }
        fleet.ready(Target::Controller).await
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
        self.look_round().await;
        Ok(())
    }

    /// Has the controller look at the subnet now. Switches send traps when a cable changes; between
    /// the controller's own host and its first switch there is nobody who could.
    async fn look_round(&self) {
        if !self.fleet.is_running(Target::Controller) {
            return;
        }
        if let Err(error) = ask::resweep(&self.fleet.dir, LOOK_ROUND_PATIENCE).await {
            tracing::warn!("the controller was not told of a change: {error:#}");
        }
    }

    async fn restart(&self, what: Target) -> Result<()> {
        let _changes = self.changes.lock().await;
        let fleet = &self.fleet;
        fleet.check(what)?;
        fleet.stop(what).await?;
        fleet.start(what)?;
        if let Err(error) = fleet.ready(what).await {
            bail!("{} was started but {error:#}", fleet.name(what));
        }
        match fleet.node(what) {
            Some(node) => fleet.rejoin(node).await?,
            None => return Ok(()),
        }
        self.look_round().await;
        Ok(())
    }
}

fn done(result: Result<()>) -> Reply {
    match result {
        Ok(()) => Reply::Done,
        Err(error) => Reply::Refused(format!("{error:#}")),
    }
}
