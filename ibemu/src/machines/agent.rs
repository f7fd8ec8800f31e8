//! `ibemu agent`: the process of a job step on one of its machines.
//!
//! ```text
//! srun -- keeper ----> worker (rank 0: the supervisor) ----> switchd, hostd, controllers
//!           |             ended with the keeper (SIGTERM)      ended with the worker (SIGKILL)
//!           `-- adopts what loses its parent, and removes what is left when the worker has ended, however it ended
//! ```
//!
//! Slurm finds processes by their parents, unless it has cgroups: so none may lose its parent unnoticed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command};
use std::rc::Rc;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use cluster::message::{Hello, Message, Order, TEXT_BYTES_MAX};
use cluster::slurm;
use daemon::logging::{LogArgs, LogLevel};
use daemon::signals::ShutdownSignals;
use netio::process::{Pidfd, Signal};
use tokio::net::TcpListener;
use tokio::task::LocalSet;
use wire::convert::usize_of;

use super::hub::Hub;
use super::rendezvous::{self, Place, Step};
use super::streams::Streams;
use super::wire::{Outgoing, Wire};
use super::{build, gather};
use crate::addresses;
use crate::dir::{self, FabricDir};
use crate::names::FabricName;
use crate::setup;
use crate::state::{End, FabricState};
use crate::supervisor;
use crate::teardown;

/// `ibemu agent`.
#[derive(Debug, Args)]
pub struct Agent {
    /// The names of the job's machines, in the order of ranks
    #[arg(long, value_delimiter = ',', required = true)]
    machines: Vec<String>,
    /// Does the work; without it, keeps the process that does
    #[arg(long)]
    work: bool,
}

/// Keeps the worker, or is it.
///
/// # Errors
/// If the fabric does not end as it was asked to.
pub fn run(fabric: &FabricName, options: &Agent) -> Result<()> {
    let dir = own_dir(fabric)?;
    match options.work {
        true => work(&dir, &options.machines),
        false => keep(&dir, fabric, options),
    }
}

/// The fabric's directory on this machine of the job.
fn own_dir(fabric: &FabricName) -> Result<FabricDir> {
    let variable = |name| {
        std::env::var(name).with_context(|| format!("{name} is missing: is this a job of Slurm?"))
    };
    Ok(FabricDir::of_job(
        fabric,
        &variable(slurm::JOB)?,
        &variable(slurm::MACHINE)?,
    ))
}

fn keep(dir: &FabricDir, fabric: &FabricName, options: &Agent) -> Result<()> {
    netio::process::adopt_orphans().context("cannot adopt processes")?;
    let runtime = runtime()?;
    runtime.block_on(async {
        let mut leave = ShutdownSignals::new().context("cannot listen to signals")?;
        // What a predecessor was killed in the middle of, for instance before Slurm has queued the job again.
        teardown::here(dir).await?;
        let mut command = Command::new(netio::process::own_executable()?);
        command
            .args(["--fabric", fabric.as_str(), "agent", "--work", "--machines"])
            .arg(options.machines.join(","));
        netio::process::end_with_parent(&mut command, Signal::TERM);
        let mut worker = command.spawn().context("cannot start the agent")?;
        let pidfd = Pidfd::open(worker.id())?;
        let ended = loop {
            tokio::select! {
                ended = pidfd.ended() => break ended,
                () = leave.next() => {
                    // Signals that come once more are as good.
                    let _ = pidfd.signal(Signal::TERM);
                }
            }
        };
        ended.context("cannot wait for the agent")?;
        let status = worker.wait()?;
        teardown::here(dir).await?;
        match (status.code(), status.signal()) {
            (Some(0), _) => Ok(()),
            // It has said why.
            (Some(code), _) => std::process::exit(code),
            (_, signal) => bail!(
                "the agent of {} was ended by signal {}",
                std::env::var(slurm::MACHINE).unwrap_or_default(),
                signal.unwrap_or_default()
            ),
        }
    })
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.context("cannot start the runtime")
}

fn work(dir: &FabricDir, names: &[String]) -> Result<()> {
    let step = Step::join()?;
    if step.size() != names.len() {
        bail!(
            "the job step has {} processes on {} machines",
            step.size(),
            names.len()
        );
    }
    let runtime = runtime()?;
    LocalSet::new().block_on(&runtime, async {
        let outcome = match step.rank() {
            0 => lead(dir, names, step).await,
            rank => follow(dir, names, rank, step).await,
        };
        // Orderly, where what is killed would leave a recording torn; the supervisor waits for it.
        teardown::here(dir).await?;
        outcome
    })
}

/// Rank 0: gathers the others, and supervises the fabric.
async fn lead(dir: &FabricDir, names: &[String], step: Step) -> Result<()> {
    let mut leave = ShutdownSignals::new().context("cannot listen to signals")?;
    let own = rendezvous::own_address(names[1..].iter().map(String::as_str))?;
    let listener = TcpListener::bind((own, 0)).await;
    let listener = listener.with_context(|| format!("cannot listen at {own}"))?;
    let place = Place {
        address: listener.local_addr()?,
        secret: cluster::session::Secret::draw()?,
        has_munge: rendezvous::has_munge(),
    };
    let build = build::own()?;
    let line = place.line()?;
    crate::output::line(&line)?;
    step.tell(&place)?;
    let gathered = tokio::select! {
        gathered = gather::gather(listener, &place, names, build) => gathered?,
        () = leave.next() => bail!("ended before the fabric was there"),
    };
    let addresses = gathered.addresses(own);
    let mut gathered = gathered;
    let mut files = gather::files(&mut gathered.gateway).await?;
    let prepared = prepare(dir, &mut files, &addresses);
    let state = match prepared {
        Ok(state) => state,
        Err(error) => {
            let why = format!("{}: {error:#}", names[0]);
            for wire in gathered.agents.values().chain([&gathered.gateway]) {
                wire.outgoing.send(Message::Refused(why.clone())).await;
            }
            return Err(error);
        }
    };
    for wire in gathered.agents.values() {
        gather::send_files(&wire.outgoing, &files).await;
    }
    let (hub, events) = Hub::new(dir, &state, gathered)?;
    supervisor::in_job(dir.clone(), state, hub, events, leave).await
}

/// Writes the fabric's files, with the machines' addresses.
fn prepare(
    dir: &FabricDir,
    files: &mut BTreeMap<String, Vec<u8>>,
    addresses: &BTreeMap<usize, std::net::IpAddr>,
) -> Result<FabricState> {
    let text = files
        .get(dir::STATE)
        .context("there is no state among the files")?;
    let mut state = FabricState::read(text)?;
    let job = state.job.as_mut().context("the fabric is of no job")?;
    for (machine, place) in job.machines.iter_mut().enumerate() {
        place.address = addresses.get(&machine).copied();
    }
    files.insert(dir::STATE.to_owned(), state.write()?);
    settle(dir, files, 0)
}

/// Makes the fabric's directory of one machine.
fn settle(
    dir: &FabricDir,
    files: &BTreeMap<String, Vec<u8>>,
    machine: usize,
) -> Result<FabricState> {
    dir.create()?;
    let directory = dir.require()?;
    for (name, content) in files {
        match name.as_str() {
            dir::HOSTS => directory.replace_for_all(name, content)?,
            _ => directory.replace(name, content)?,
        }
    }
    let text = files
        .get(dir::STATE)
        .context("there is no state among the files")?;
    let mut state = FabricState::read(text)?;
    state.job.as_mut().context("the fabric is of no job")?.here = Some(machine);
    state.save(dir)?;
    let files = u64::try_from(state.devices().len())? * 4 + supervisor::FILES_BESIDES;
    netio::process::raise_open_files(files).context("cannot raise the limit of open files")?;
    Ok(state)
}

/// Makes the namespaces and cables of this machine, if the fabric has some.
pub(crate) async fn prepare_machine(state: &FabricState) -> Result<()> {
    if state.options.transport.has_namespaces() {
        setup::check_prerequisites()?;
        setup::check_names(state)?;
        if !state.options.no_ip {
            addresses::check_interfaces().context(
                "/dev/net/tun cannot be used, which hosts' interfaces ib0 need (modprobe tun there, or --no-ip)",
            )?;
        }
        setup::create(state, |_, _| {}).await?;
    }
    Ok(())
}

/// Another rank: does what the supervisor asks for, until it is gone or says so.
async fn follow(dir: &FabricDir, names: &[String], rank: usize, step: Step) -> Result<()> {
    let mut leave = ShutdownSignals::new().context("cannot listen to signals")?;
    let (own, leader) = (&names[rank], &names[0]);
    let place = step.learn().with_context(|| own.clone())?;
    // What takes long comes before the connection, which must not be silent.
    let build = build::own()?;
    let wire = Wire::connect(place.address, place.secret.clone()).await;
    let mut wire =
        wire.map_err(|error| rendezvous::unreachable(own, leader, place.address, &error))?;
    greet(&wire, &place, build, Some(rank), own).await?;
    let serving = serve(dir, &mut wire, rank, leader);
    tokio::select! {
        ended = serving => ended,
        () = leave.next() => {
            let why = format!("{own} was asked to end");
            wire.outgoing.send(Message::End { why }).await;
            Ok(())
        }
    }
}

/// Says who this is.
pub(super) async fn greet(
    wire: &Wire,
    place: &Place,
    build: String,
    rank: Option<usize>,
    machine: &str,
) -> Result<()> {
    let credential = match place.has_munge {
        true => Some(rendezvous::munge(&gather::hex(&wire.binding)).context(machine.to_owned())?),
        false => None,
    };
    let hello = Hello {
        build,
        rank: rank.map(u32::try_from).transpose()?,
        machine: machine.to_owned(),
        credential,
    };
    wire.outgoing.send(Message::Hello(hello)).await;
    Ok(())
}

async fn serve(dir: &FabricDir, wire: &mut Wire, rank: usize, leader: &str) -> Result<()> {
    let lost = || format!("the supervisor on {leader} is lost");
    match wire.incoming.next().await.with_context(lost)? {
        Message::Welcome => {}
        Message::Refused(why) | Message::End { why } => bail!("{why}"),
        _ => bail!("{leader} says something else than welcome"),
    }
    let files = gather::files(wire).await?;
    let state = settle(dir, &files, rank)?;
    let _logs = daemon::logging::start(&LogArgs {
        log_level: LogLevel::Info,
        log: Some(dir.log("agent")),
        log_bytes: state.options.links.log_bytes,
    });
    let served = state.sockets_of(rank);
    let streams = Streams::new(dir, wire.outgoing.clone(), false, served);
    streams.stand_for(&state.sockets_beside(Some(rank)))?;
    let worker = Rc::new(Worker {
        dir: dir.clone(),
        peers: state.peers(),
        state,
        outgoing: wire.outgoing.clone(),
        children: RefCell::default(),
    });
    loop {
        match wire.incoming.next().await.with_context(lost)? {
            Message::Order { number, order } => {
                let worker = Rc::clone(&worker);
                tokio::task::spawn_local(async move { worker.obey(number, order).await });
            }
            Message::End { why } | Message::Refused(why) if why.is_empty() => return Ok(()),
            Message::End { why } | Message::Refused(why) => bail!("{why}"),
            message => streams.take(message),
        }
    }
}

/// The devices of one machine.
struct Worker {
    dir: FabricDir,
    state: FabricState,
    peers: BTreeMap<End, End>,
    outgoing: Outgoing,
    children: RefCell<BTreeMap<u32, Rc<Pidfd>>>,
}

impl Worker {
    async fn obey(self: Rc<Self>, number: u32, order: Order) {
        let done = match order {
            Order::Prepare => prepare_machine(&self.state).await.map(|()| 0),
            Order::Start { node } => self.start(node),
            Order::Stop { node, kill } => self.stop(node, kill).map(|()| 0),
            Order::Join { ends } => self.join(ends).await.map(|()| 0),
        };
        let outcome = done.map_err(|error| bounded(format!("{error:#}")));
        self.outgoing.send(Message::Done { number, outcome }).await;
    }

    fn check(&self, node: u32) -> Result<usize> {
        let position = usize_of(node);
        let is_own = position < self.state.devices().len() && self.state.is_here(position);
        is_own
            .then_some(position)
            .with_context(|| format!("device {node} is not on this machine"))
    }

    fn start(self: &Rc<Self>, node: u32) -> Result<u32> {
        let position = self.check(node)?;
        if self.children.borrow().contains_key(&node) {
            bail!("{} runs already", self.state.nodes[position].name);
        }
        let first = End {
            node: position,
            port: 0,
        };
        let last = End {
            node: position,
            port: u8::MAX,
        };
        let ends: Vec<End> = self
            .peers
            .range(first..=last)
            .map(|(&end, _)| end)
            .collect();
        let child = supervisor::spawn_device(&self.dir, &self.state, node, &ends)?;
        let pid = child.id();
        let pidfd = Rc::new(Pidfd::open(pid)?);
        self.children.borrow_mut().insert(node, Rc::clone(&pidfd));
        tokio::task::spawn_local(Rc::clone(self).watch(node, child, pidfd));
        Ok(pid)
    }

    async fn watch(self: Rc<Self>, node: u32, mut child: Child, pidfd: Rc<Pidfd>) {
        if let Err(error) = pidfd.ended().await {
            tracing::warn!("device {node} cannot be watched: {error}");
        }
        let handle = &self.state.nodes[usize_of(node)].handle;
        let how = match child.wait() {
            // One that ends by itself says why in its log, which is on this machine.
            Ok(status) if status.code().is_some_and(|code| code != 0) => {
                let note = crate::logs::log_tail_note(&self.dir, handle);
                format!("{}{note}", supervisor::describe(status))
            }
            Ok(status) => supervisor::describe(status),
            Err(error) => format!("ended, exit status unknown: {error}"),
        };
        self.children.borrow_mut().remove(&node);
        let ended = Message::Ended {
            node,
            pid: child.id(),
            how: bounded(how),
        };
        self.outgoing.send(ended).await;
    }

    fn stop(&self, node: u32, kill: bool) -> Result<()> {
        self.check(node)?;
        let children = self.children.borrow();
        // One that has ended is reported so.
        let Some(pidfd) = children.get(&node) else {
            return Ok(());
        };
        let signal = match kill {
            true => Signal::KILL,
            false => Signal::TERM,
        };
        supervisor::ignore_absent(pidfd.signal(signal))?;
        Ok(())
    }

    async fn join(&self, ends: [(u32, u8); 2]) -> Result<()> {
        let [a, b] = ends;
        let end = |(node, port): (u32, u8)| {
            let node = self.check(node)?;
            Ok::<_, anyhow::Error>(End { node, port })
        };
        let ends = [end(a)?, end(b)?];
        if self.peers.get(&ends[0]) != Some(&ends[1]) {
            return Err(anyhow!("there is no such cable"));
        }
        supervisor::join_here(&self.dir, &self.state, ends, crate::ask::REQUEST_TIMEOUT).await
    }
}

/// A text that fits a message.
fn bounded(text: String) -> String {
    text.chars().take(TEXT_BYTES_MAX / 4).collect()
}
