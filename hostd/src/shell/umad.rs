//! The sockets of programs that were written for libibumad: the protocol of ibsim's client library.
//!
//! [`mad::umad2sim::Server`] implements the protocol; here are its sockets. One task executes the
//! server's outputs, one receives from the control socket, one runs its timers, and each connected
//! program has one for its data socket and one that waits for its process to end.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use daemon::args::DeviceArgs;
use hostd::{ClientId, Command};
use mad::local::{FromAgent, ToAgent};
use mad::umad2sim::{Output, Server, ServerConfig};
use netio::clock;
use netio::datagram::{AbstractSocket, Address, Credentials};
use netio::dataplane::Handle;
use netio::process::{Pidfd, effective_uid};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use wire::PortNum;

use super::mads::{CommandSender, FIRST_CLIENT};
use super::timers;

/// Longer than any datagram of the protocol, so that an overlong one is detected.
const DATAGRAM_BYTES: usize = 512;

/// How long an answer may wait for room at its program, which is where it reads its answers: one
/// that does not read for so long is stuck.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(100);

/// Slots are below this. (The server uses the number itself for transactions of its own.)
const SLOT_LIMIT: u16 = u16::MAX;

/// The port and slot of a client of these sockets; `None` for clients of the other one.
pub(super) fn slot(client: ClientId) -> Option<(u8, u16)> {
    let slot = u16::try_from(client.0 & u32::from(u16::MAX)).ok()?;
    let port = u8::try_from(client.0 >> 16).ok()?;
    (client.0 < FIRST_CLIENT).then_some((port, slot))
}

const _: () = assert!(
    FIRST_CLIENT == 1 << 24,
    "the port's number above the slot's"
);

/// The server and its sockets.
pub(super) struct Umad {
    base: String,
    /// The port of the host that its programs see.
    port: u8,
    commands: CommandSender,
    control: AbstractSocket,
    server: RefCell<Server<Address>>,
    programs: RefCell<BTreeMap<u16, Program>>,
    /// The data socket of the next program. It is bound before the program connects: from then on the names
    /// show in `/proc/net/unix`, and another process could have taken the next one.
    spare: RefCell<Option<(u16, AbstractSocket)>>,
    /// The server may have outputs, or another deadline.
    changed: Notify,
    /// The same, for the task that keeps time.
    deadline_changed: Notify,
}

/// A connected program.
struct Program {
    /// Signals that the server may have data for it.
    data_ready: Rc<Notify>,
    tasks: [JoinHandle<()>; 2],
}

impl Program {
    /// Ends its tasks, and returns when they have closed its socket: the name is free for the next program.
    async fn end(mut self) {
        for task in &mut self.tasks {
            task.abort();
            // A task that was aborted ends with an error.
            let _ = task.await;
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Umad {
    /// Binds `<base>:ctl`, for ports from 2 on `<base>.<port>:ctl`, and before it becomes known the first
    /// program's data socket.
    pub(super) fn open(
        base: &str,
        device: &DeviceArgs,
        port: u8,
        handle: Handle<Command>,
    ) -> Result<Self> {
        let base = match port {
            1 => base.to_owned(),
            _ => format!("{base}.{port}"),
        };
        let spare = (0, AbstractSocket::bind(&format!("{base}:out0"))?);
        let mut control = AbstractSocket::bind(&format!("{base}:ctl"))?;
        control.enable_credentials()?;
        let server = Server::new(ServerConfig {
            name: device.name.clone(),
            guid: device.guid,
            timing: ServerConfig::TIMING,
            in_flight_max: ServerConfig::IN_FLIGHT_MAX,
        });
        Ok(Self {
            base,
            port,
            commands: CommandSender::new(handle),
            control,
            server: RefCell::new(server),
            programs: RefCell::default(),
            spare: RefCell::new(Some(spare)),
            changed: Notify::new(),
            deadline_changed: Notify::new(),
        })
    }

    /// Serves programs until a socket fails.
    pub(super) async fn serve(this: &Rc<Self>) -> Result<()> {
        tokio::select! {
            failed = this.receive_control() => failed.context("the umad2sim control socket failed"),
            () = this.run_timers() => Ok(()),
            () = Self::execute_outputs(this) => Ok(()),
        }
    }

    /// Passes a message of the host to the program in `slot`.
    pub(super) fn on_message(&self, slot: u16, message: FromAgent) {
        self.with_server(|server| server.handle_agent(clock::now(), slot, message));
    }

    /// Lets `call` change the server, and wakes all tasks that depend on it.
    fn with_server(&self, call: impl FnOnce(&mut Server<Address>)) {
        call(&mut self.server.borrow_mut());
        self.changed.notify_one();
        self.deadline_changed.notify_one();
        for program in self.programs.borrow().values() {
            program.data_ready.notify_one();
        }
    }

    async fn receive_control(&self) -> io::Result<()> {
        let mut buffer = [0; DATAGRAM_BYTES];
        loop {
            let (length, from) = self.control.receive(&mut buffer).await?;
            if !is_authorised(from.credentials) {
                tracing::warn!("a process of another user was refused: {from:?}");
                continue;
            }
            let bytes = &buffer[..length];
            self.keep_spare();
            self.with_server(|server| server.handle_control(clock::now(), from.address, bytes));
        }
    }

    /// Binds a data socket for the next program, unless there is one, and offers its slot to the
    /// server. Names that other processes have taken are passed over.
    fn keep_spare(&self) {
        let mut spare = self.spare.borrow_mut();
        if spare.is_none() {
            let programs = self.programs.borrow();
            let server = self.server.borrow();
            *spare = (0..SLOT_LIMIT)
                .filter(|slot| !programs.contains_key(slot) && !server.is_connected(*slot))
                .find_map(|slot| {
                    let socket = AbstractSocket::bind(&format!("{}:out{slot}", self.base));
                    socket.ok().map(|socket| (slot, socket))
                });
        }
        if let Some((slot, _)) = &*spare {
            self.server.borrow_mut().offer_slot(*slot);
        }
    }

    /// The data socket of `slot`: the spare one, if that is its slot.
    fn data_socket(&self, slot: u16) -> Result<AbstractSocket> {
        match self.spare.take() {
            Some((prepared, socket)) if prepared == slot => Ok(socket),
            _ => Ok(AbstractSocket::bind(&format!("{}:out{slot}", self.base))?),
        }
    }

    async fn run_timers(&self) {
        let deadline = || self.server.borrow().deadline();
        let tick = |now| self.with_server(|server| server.tick(now));
        timers::run(&self.deadline_changed, deadline, tick).await;
    }

    /// Executes the server's outputs in order.
    async fn execute_outputs(this: &Rc<Self>) {
        loop {
            let output = this.server.borrow_mut().poll_output();
            let Some(output) = output else {
                this.changed.notified().await;
                continue;
            };
            match output {
                Output::Control { to, bytes } => this.answer(&to, &*bytes).await,
                Output::Open { slot, id } => {
                    this.attach(slot).await;
                    if let Err(error) = Self::open_slot(this, slot, id) {
                        tracing::warn!("{error:#}");
                        this.with_server(|server| server.program_gone(clock::now(), slot));
                    }
                }
                Output::Close { slot } => {
                    let program = this.programs.borrow_mut().remove(&slot);
                    if let Some(program) = program {
                        program.end().await;
                    }
                }
                Output::Agent { slot, message } => {
                    let client = this.client(slot);
                    this.commands.send(Command::Mad { client, message }).await;
                }
                Output::AgentGone { slot } => {
                    let client = this.client(slot);
                    this.commands.send(Command::MadGone { client }).await;
                }
            }
        }
    }

    fn client(&self, slot: u16) -> ClientId {
        ClientId(u32::from(self.port) << 16 | u32::from(slot))
    }

    /// Makes the client of `slot` one of this port.
    async fn attach(&self, slot: u16) {
        let client = self.client(slot);
        let port = PortNum::new(self.port);
        let message = ToAgent::Attach { port };
        self.commands.send(Command::Mad { client, message }).await;
    }

    async fn answer(&self, to: &Address, bytes: &[u8]) {
        let sent = self.control.send_to(bytes, to);
        match tokio::time::timeout(ANSWER_TIMEOUT, sent).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!("the program has disconnected: {error}"),
            Err(_) => tracing::warn!("a program does not read its answers"),
        }
    }

    /// Opens the data socket of `slot`, for the program that gave `id`, its process's number.
    fn open_slot(this: &Rc<Self>, slot: u16, id: u32) -> Result<()> {
        let socket = this.data_socket(slot)?;
        socket.connect(&format!("{}:in{id}", this.base))?;
        let data_ready = Rc::new(Notify::new());
        let data = Rc::clone(this).exchange(slot, socket, Rc::clone(&data_ready));
        let end = Rc::clone(this).watch_process(slot, id);
        let tasks = [
            tokio::task::spawn_local(data),
            tokio::task::spawn_local(end),
        ];
        let program = Program { data_ready, tasks };
        this.programs.borrow_mut().insert(slot, program);
        this.keep_spare();
        Ok(())
    }

    /// Serves a program's data socket until the program has disconnected.
    async fn exchange(self: Rc<Self>, slot: u16, socket: AbstractSocket, data_ready: Rc<Notify>) {
        let mut buffer = [0; DATAGRAM_BYTES];
        let error = loop {
            tokio::select! {
                received = socket.receive(&mut buffer) => match received {
                    Ok((length, _)) => {
                        let bytes = &buffer[..length];
                        self.with_server(|server| server.handle_data(clock::now(), slot, bytes));
                    }
                    Err(error) => break error,
                },
                error = self.send_all(slot, &socket, &data_ready) => break error,
            }
        };
        tracing::debug!(slot, "the program has disconnected: {error}");
        self.with_server(|server| server.program_gone(clock::now(), slot));
    }

    /// Sends what the server has for a program, for ever; a full socket is waited for. Returns
    /// the error that ends it.
    async fn send_all(&self, slot: u16, socket: &AbstractSocket, data_ready: &Notify) -> io::Error {
        loop {
            let datagram = self.server.borrow().next_data(slot).copied();
            let Some(datagram) = datagram else {
                data_ready.notified().await;
                continue;
            };
            match socket.send(&datagram).await {
                Ok(()) => self.server.borrow_mut().data_sent(slot),
                Err(error) => return error,
            }
        }
    }

    /// Waits for the end of a program's process. One that is of another pid namespace cannot be
    /// watched; its closed socket is noticed when something is sent to it.
    async fn watch_process(self: Rc<Self>, slot: u16, id: u32) {
        let Ok(process) = Pidfd::open(id) else {
            return;
        };
        if process.ended().await.is_ok() {
            self.with_server(|server| server.program_gone(clock::now(), slot));
        }
    }
}

/// Whether the sender is root or this process's user. Every process of the network namespace can send to an
/// abstract name.
fn is_authorised(credentials: Option<Credentials>) -> bool {
    credentials.is_some_and(|peer| peer.uid == 0 || peer.uid == effective_uid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_and_the_own_user_are_served() {
        let of = |uid| Some(Credentials { pid: 7, uid });
        assert!(is_authorised(of(0)) && is_authorised(of(effective_uid())));
        assert!(!is_authorised(of(effective_uid() + 1)));
        assert!(!is_authorised(None), "the kernel has stated none");
    }
}
