//! The host's MAD socket: programs beside the host that send management datagrams through it.
//!
//! Each connection is a client of the host. What a client does not read waits in a queue of its
//! own; when that is full, further messages for it are dropped, and its own timeouts mend that.
//! What the dataplane thread does not take at once holds up the client that sent it, no other; what
//! it does not take in two seconds is dropped and counted.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use daemon::control::{CLIENTS_MAX, ControlError};
use hostd::{ClientId, Command};
use mad::local::{FromAgent, ToAgent};
use netio::dataplane::Handle;
use netio::seqpacket::{Connection, Listener};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// The first client number of this socket; the lower ones are slots of the other one.
pub(super) const FIRST_CLIENT: u32 = 1 << 16;

/// Messages that wait for one client to read at most.
const QUEUE_MAX: usize = 8192;

/// Time between two attempts to hand the dataplane thread an order that it did not take.
const PATIENCE: Duration = Duration::from_millis(1);

/// Attempts to hand it one: some two seconds. A thread that takes nothing for so long is stuck.
const ATTEMPTS: u32 = 2000;

/// The dataplane thread as clients of MAD sockets reach it.
#[derive(Debug)]
pub(super) struct Orders {
    handle: Handle<Command>,
    /// MADs dropped that the core has not counted yet.
    dropped: Cell<u32>,
}

impl Orders {
    pub(super) fn new(handle: Handle<Command>) -> Self {
        Self {
            handle,
            dropped: Cell::new(0),
        }
    }

    /// Hands `command` to the host. One that it does not take in time is dropped, which the host
    /// counts when it takes orders again.
    pub(super) async fn give(&self, command: &Command) {
        for _ in 0..ATTEMPTS {
            self.confess();
            match self.handle.command(command.clone()) {
                Ok(()) => return,
                Err(_) => tokio::time::sleep(PATIENCE).await,
            }
        }
        self.dropped.set(self.dropped.get().saturating_add(1));
        tracing::warn!("the dataplane thread takes no orders: a MAD client's was dropped");
    }

    /// Tells the host what was dropped, if it listens.
    fn confess(&self) {
        let count = self.dropped.get();
        if count > 0 && self.handle.command(Command::MadsDropped { count }).is_ok() {
            self.dropped.set(0);
        }
    }
}

/// The clients of the MAD socket.
#[derive(Debug)]
pub(super) struct MadServer {
    orders: Orders,
    clients: RefCell<BTreeMap<ClientId, mpsc::Sender<FromAgent>>>,
    last: Cell<u32>,
}

impl MadServer {
    pub(super) fn new(handle: Handle<Command>) -> Self {
        Self {
            orders: Orders::new(handle),
            clients: RefCell::default(),
            last: Cell::new(FIRST_CLIENT),
        }
    }

    /// Serves clients until no more can be accepted.
    pub(super) async fn serve(self: &Rc<Self>, listener: &Listener) -> io::Result<()> {
        let mut tasks = JoinSet::new();
        loop {
            while tasks.try_join_next().is_some() {}
            if tasks.len() >= CLIENTS_MAX {
                tasks.join_next().await;
                continue;
            }
            let connection = listener.accept().await?;
            let server = Rc::clone(self);
            tasks.spawn_local(async move { server.client(&connection).await });
        }
    }

    /// The host has something for a client.
    pub(super) fn hear(&self, client: ClientId, message: FromAgent) {
        if let Some(queue) = self.clients.borrow().get(&client)
            && queue.try_send(message).is_err()
        {
            tracing::debug!(
                client = client.0,
                "the client reads too slowly: MAD dropped"
            );
        }
    }

    /// Serves one client from its first word to its last.
    async fn client(&self, connection: &Connection) {
        let client = ClientId(self.last.get().checked_add(1).unwrap_or(FIRST_CLIENT));
        self.last.set(client.0);
        let (sender, queue) = mpsc::channel(QUEUE_MAX);
        self.clients.borrow_mut().insert(client, sender);
        let Err(error) = self.converse(client, connection, queue).await;
        tracing::debug!(client = client.0, "the MAD client has left: {error}");
        self.clients.borrow_mut().remove(&client);
        self.orders.give(&Command::MadGone { client }).await;
    }

    async fn converse(
        &self,
        client: ClientId,
        connection: &Connection,
        mut queue: mpsc::Receiver<FromAgent>,
    ) -> Result<Infallible, ControlError> {
        let mut waiting: Option<Vec<u8>> = None;
        loop {
            tokio::select! {
                sent = connection.send(waiting.as_deref().unwrap_or_default()), if waiting.is_some() => {
                    sent?;
                    waiting = None;
                }
                Some(message) = queue.recv(), if waiting.is_none() => {
                    waiting = send_all(connection, message, &mut queue)?;
                }
                message = connection.receive() => {
                    let message = message?.ok_or(ControlError::Closed)?;
                    let message: ToAgent = wire::control::decode(&message)?;
                    self.orders.give(&Command::Mad { client, message }).await;
                }
            }
        }
    }
}

/// Sends `message` and what else is in the queue until the client takes no more; the message that
/// it did not take.
fn send_all(
    connection: &Connection,
    message: FromAgent,
    queue: &mut mpsc::Receiver<FromAgent>,
) -> Result<Option<Vec<u8>>, ControlError> {
    let mut next = Some(message);
    while let Some(message) = next {
        let bytes = wire::control::encode(&message)?;
        match connection.try_send(&bytes) {
            Ok(()) => next = queue.try_recv().ok(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Some(bytes)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}
