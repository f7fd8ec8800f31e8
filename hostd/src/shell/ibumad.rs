//! The socket of the host's libibumad: programs that were written for the kernel's user MADs.
//!
//! [`mad::umad::Server`] owns agents, timeouts and transfers; here are its connections. One that opens a
//! port carries user MADs from then on, as a file of the kernel's does, and is shared by all processes that
//! have the descriptor. Others carry requests about the adapter, or about a descriptor, which they name by its
//! 128 random bits.
//!
//! One task executes the server's outputs, one runs its timers, each connection has one, and each port whose
//! file for IsSM a program has asked for has one that watches whether a program has it open ([`files`]).

mod files;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use daemon::args::DeviceArgs;
use daemon::clients::ClientSlot;
use daemon::control::{ControlError, serve_many_connections};
use hostd::{ClientId, Command, HostConfig};
use mad::local::FromAgent;
use mad::umad::{
    DESCRIPTORS_MAX, Output, PART_BYTES, Refusal, Reply, Request, Server, USER_MAD_BYTES_MAX,
};
use netio::clock;
use netio::dataplane::Handle;
use netio::seqpacket::{Connection, Listener};
use tokio::sync::{Notify, oneshot};
use wire::PortNum;
use wire::convert::usize_of;

use super::mads::CommandSender;
use super::{sysfs, timers};
use files::{DeviceFiles, IsSmWatch, SYSFS_WATCHERS_MAX};

/// The first client number of this socket.
pub(super) const FIRST_CLIENT: u32 = 1 << 31;

/// Connections that ask, beside the descriptors.
const ASKING_MAX: usize = 64;
/// How long the host may take to answer what a program asks.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a program may take to send a long user MAD whose length it has told, and then the host to have room.
const LONG_TIMEOUT: Duration = Duration::from_secs(5);
/// Actions that may wait before programs are read no further.
const OUTPUTS_HIGH: usize = 4096;

/// The server, its socket and its connections.
pub(super) struct Ibumad {
    device: DeviceFiles,
    commands: CommandSender,
    server: RefCell<Server>,
    /// The descriptors by the 128-bit numbers that their programs chose.
    descriptors: RefCell<BTreeMap<u128, u32>>,
    /// Signals that the server may have data for a descriptor.
    data_ready: RefCell<BTreeMap<u32, Rc<Notify>>>,
    /// Where the answer to a request goes.
    asking: RefCell<BTreeMap<u64, oneshot::Sender<Reply>>>,
    last_request: Cell<u64>,
    /// How many connections keep the adapter's files up to date.
    sysfs_watchers: Cell<usize>,
    /// What these files hold, by the adapter's name.
    sysfs_written: RefCell<sysfs::Written>,
    /// The tasks that watch the files for IsSM.
    is_sm: RefCell<BTreeMap<PortNum, IsSmWatch>>,
    /// The server may have outputs.
    changed: Notify,
    /// The server may have another deadline.
    deadline_changed: Notify,
    /// The server has fewer outputs than [`OUTPUTS_HIGH`].
    drained: Notify,
}

impl Ibumad {
    pub(super) fn new(device: &DeviceArgs, config: &HostConfig, handle: Handle<Command>) -> Self {
        Self {
            device: DeviceFiles::new(device, &config.ip),
            commands: CommandSender::new(handle),
            server: RefCell::new(Server::new(config.ports)),
            descriptors: RefCell::default(),
            data_ready: RefCell::default(),
            asking: RefCell::default(),
            last_request: Cell::new(0),
            sysfs_watchers: Cell::new(0),
            sysfs_written: RefCell::default(),
            is_sm: RefCell::default(),
            changed: Notify::new(),
            deadline_changed: Notify::new(),
            drained: Notify::new(),
        }
    }

    /// Serves programs until accepting fails.
    pub(super) async fn serve(this: &Rc<Self>, listener: &Listener) -> Result<()> {
        let client = |connection, place| {
            let this = Rc::clone(this);
            async move { Self::client(this, connection, place).await }
        };
        let places = DESCRIPTORS_MAX + SYSFS_WATCHERS_MAX + ASKING_MAX;
        tokio::select! {
            failed = serve_many_connections(listener, places, client) => {
                failed.context("the socket of libibumad failed")
            }
            () = this.run_timers() => Ok(()),
            () = this.execute_outputs() => Ok(()),
        }
    }

    /// Passes a message of the host to the server.
    pub(super) fn on_message(&self, client: ClientId, message: FromAgent) {
        let client = client.0 - FIRST_CLIENT;
        self.with_server(|server| server.handle_agent(clock::now(), client, message));
    }

    /// Lets `call` change the server, and wakes the tasks that depend on it.
    fn with_server<T>(&self, call: impl FnOnce(&mut Server) -> T) -> T {
        let mut server = self.server.borrow_mut();
        let result = call(&mut server);
        self.changed.notify_one();
        self.deadline_changed.notify_one();
        for (&descriptor, ready) in self.data_ready.borrow().iter() {
            if server.next_data(descriptor).is_some() {
                ready.notify_one();
            }
        }
        result
    }

    async fn run_timers(&self) {
        let deadline = || self.server.borrow().deadline();
        let tick = |now| self.with_server(|server| server.tick(now));
        timers::run(&self.deadline_changed, deadline, tick).await;
    }

    /// Executes the server's outputs in order.
    async fn execute_outputs(&self) {
        loop {
            let (output, waiting) = {
                let mut server = self.server.borrow_mut();
                (server.poll_output(), server.outputs_waiting())
            };
            if waiting < OUTPUTS_HIGH {
                self.drained.notify_waiters();
            }
            match output {
                None => {
                    self.commands.flush();
                    self.changed.notified().await;
                }
                Some(Output::Agent { client, message }) => {
                    let client = ClientId(FIRST_CLIENT + client);
                    self.commands.queue(Command::Mad { client, message }).await;
                }
                Some(Output::AgentGone { client }) => {
                    let client = ClientId(FIRST_CLIENT + client);
                    self.commands.queue(Command::MadGone { client }).await;
                }
                Some(Output::Reply { request, reply }) => {
                    let asking = self.asking.borrow_mut().remove(&request);
                    // A client that has left needs no answer.
                    let _ = asking.map(|asking| asking.send(reply));
                }
            }
        }
    }

    /// Serves one connection until it ends.
    async fn client(this: Rc<Self>, connection: Connection, place: ClientSlot) {
        let ended = tokio::select! {
            ended = Self::answer(&this, &connection, &place) => ended,
            () = place.evicted() => Err(ControlError::Closed),
        };
        match ended {
            Ok(Some((name, descriptor))) => {
                let ended = this.exchange(descriptor, &connection).await;
                let error = ended.err();
                tracing::debug!(descriptor, ?error, "a descriptor was closed");
                this.descriptors.borrow_mut().remove(&name);
                this.data_ready.borrow_mut().remove(&descriptor);
                this.with_server(|server| server.close(descriptor));
            }
            Ok(None) => {}
            Err(error) => tracing::debug!("a program's connection has ended: {error}"),
        }
    }

    /// Answers requests until one has made the connection a descriptor, or it ends.
    async fn answer(
        this: &Rc<Self>,
        connection: &Connection,
        place: &ClientSlot,
    ) -> Result<Option<(u128, u32)>, ControlError> {
        while let Some(message) = connection.receive().await? {
            place.begin_request();
            let (reply, opened) = match wire::control::decode(&message)? {
                Request::Open { port, descriptor } => match this.open(port, descriptor) {
                    Ok(number) => {
                        // It may have nothing to say for long.
                        place.pin();
                        (Reply::Done, Some((descriptor, number)))
                    }
                    Err(refusal) => (Reply::Refused(refusal), None),
                },
                Request::Send { descriptor, length } => {
                    let sent = this.send_long(connection, descriptor, length).await?;
                    (sent, None)
                }
                Request::IsSmFile { port } => (Self::is_sm_file(this, port), None),
                Request::Sysfs { name } => {
                    return this
                        .keep_sysfs(connection, place, &name)
                        .await
                        .map(|()| None);
                }
                request => (this.ask(request).await, None),
            };
            let sent = connection.send(&wire::control::encode(&reply)?).await;
            if opened.is_some() {
                return Ok(opened);
            }
            sent?;
            place.end_request();
        }
        Ok(None)
    }

    fn open(&self, port: PortNum, name: u128) -> Result<u32, Refusal> {
        if self.descriptors.borrow().contains_key(&name) {
            return Err(Refusal::Invalid);
        }
        let number = self.with_server(|server| server.open(port))?;
        self.descriptors.borrow_mut().insert(name, number);
        let ready = Rc::new(Notify::new());
        self.data_ready.borrow_mut().insert(number, ready);
        Ok(number)
    }

    fn descriptor(&self, name: u128) -> Result<u32, Refusal> {
        let descriptors = self.descriptors.borrow();
        descriptors.get(&name).copied().ok_or(Refusal::Absent)
    }

    /// Has the server answer a request.
    async fn ask(&self, request: Request) -> Reply {
        let number = self.last_request.get() + 1;
        self.last_request.set(number);
        let (sender, answer) = oneshot::channel();
        self.asking.borrow_mut().insert(number, sender);
        let asked = match request {
            Request::Describe => {
                self.with_server(|server| server.describe(number));
                Ok(None)
            }
            Request::Register { descriptor, agent } => self.descriptor(descriptor).map(|open| {
                self.with_server(|server| server.register(number, open, agent));
                None
            }),
            Request::Unregister { descriptor, agent } => self
                .descriptor(descriptor)
                .and_then(|open| self.with_server(|server| server.unregister(open, agent)))
                .map(|()| Some(Reply::Done)),
            Request::Open { .. }
            | Request::Send { .. }
            | Request::Sysfs { .. }
            | Request::IsSmFile { .. } => Err(Refusal::Invalid),
        };
        let reply = match asked {
            Ok(None) => match tokio::time::timeout(ANSWER_TIMEOUT, answer).await {
                Ok(Ok(reply)) => reply,
                Ok(Err(_)) | Err(_) => {
                    tracing::warn!("the host has not answered a program in time");
                    Reply::Refused(Refusal::Failed)
                }
            },
            Ok(Some(reply)) => reply,
            Err(refusal) => Reply::Refused(refusal),
        };
        self.asking.borrow_mut().remove(&number);
        self.with_server(|server| server.forget(number));
        reply
    }

    /// Takes in a user MAD that is longer than a message. A program that does not send all of it in time loses its
    /// connection: what may still come of it cannot be told from a request.
    async fn send_long(
        &self,
        connection: &Connection,
        descriptor: u128,
        length: u32,
    ) -> Result<Reply, ControlError> {
        let length = usize_of(length);
        if length > USER_MAD_BYTES_MAX {
            return Ok(Reply::Refused(Refusal::Invalid));
        }
        let mut bytes = Vec::new();
        let parts = async {
            while bytes.len() < length {
                let part = connection.receive().await?.ok_or(ControlError::Closed)?;
                bytes.extend_from_slice(&part);
            }
            Ok::<(), ControlError>(())
        };
        let Ok(received) = tokio::time::timeout(LONG_TIMEOUT, parts).await else {
            let have = bytes.len();
            tracing::warn!(
                "a program has sent {have} of {length} bytes of a user MAD in {LONG_TIMEOUT:?}: \
                 its connection is closed"
            );
            return Err(ControlError::TimedOut(LONG_TIMEOUT));
        };
        received?;
        match self.descriptor(descriptor) {
            Ok(open) if bytes.len() == length => {
                if (tokio::time::timeout(LONG_TIMEOUT, self.room()).await).is_err() {
                    tracing::warn!("no room for a user MAD of {length} bytes in {LONG_TIMEOUT:?}");
                    return Ok(Reply::Refused(Refusal::Failed));
                }
                self.with_server(|server| server.handle_data(clock::now(), open, &bytes));
                Ok(Reply::Done)
            }
            Ok(_) => Ok(Reply::Refused(Refusal::Invalid)),
            Err(refusal) => Ok(Reply::Refused(refusal)),
        }
    }

    /// Waits until what programs send need not wait long.
    async fn room(&self) {
        loop {
            let drained = self.drained.notified();
            if self.server.borrow().outputs_waiting() < OUTPUTS_HIGH {
                return;
            }
            drained.await;
        }
    }

    /// Carries user MADs until the last process that has the descriptor closes it.
    async fn exchange(
        &self,
        descriptor: u32,
        connection: &Connection,
    ) -> Result<Infallible, ControlError> {
        let ready = self.data_ready.borrow().get(&descriptor).map(Rc::clone);
        let ready = ready.ok_or(ControlError::Closed)?;
        let sent = Cell::new(0);
        loop {
            let receive = async {
                self.room().await;
                connection.receive().await
            };
            tokio::select! {
                message = receive => {
                    let bytes = message?.ok_or(ControlError::Closed)?;
                    self.with_server(|server| server.handle_data(clock::now(), descriptor, &bytes));
                }
                error = self.send_all(descriptor, connection, &ready, &sent) => return Err(error.into()),
            }
        }
    }

    /// Sends what the server has for a descriptor, for ever, in parts where it is long; of the first one
    /// `sent` bytes have gone. Returns the error that ends it.
    async fn send_all(
        &self,
        descriptor: u32,
        connection: &Connection,
        ready: &Notify,
        sent: &Cell<usize>,
    ) -> io::Error {
        loop {
            let part = {
                let server = self.server.borrow();
                server.next_data(descriptor).map(|bytes| {
                    let rest = bytes.get(sent.get()..).unwrap_or_default();
                    let part = &rest[..rest.len().min(PART_BYTES)];
                    (part.to_vec(), part.len() == rest.len())
                })
            };
            let Some((part, is_last)) = part else {
                ready.notified().await;
                continue;
            };
            if let Err(error) = connection.send(&part).await {
                return error;
            }
            if is_last {
                sent.set(0);
                self.server.borrow_mut().data_sent(descriptor);
            } else {
                sent.set(sent.get() + part.len());
            }
        }
    }
}
