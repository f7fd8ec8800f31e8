//! The host's MAD socket: programs beside the host that send management datagrams through it.
//!
//! Each connection is a client of the host. What a client does not read waits in a queue of its
//! own; when that is full, further messages for it are dropped, which its own timeouts handle. A
//! full command queue of the dataplane thread delays the client that sends, no other; a command
//! that cannot be sent for two seconds is dropped and counted.
//!
//! When all places are taken and another client comes, the one that has been idle for longest is
//! disconnected; never one that has registered for requests, as a subnet manager does: it may have
//! nothing to say for long.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use daemon::clients::ClientSlot;
use daemon::control::{ControlError, serve_connections};
use hostd::{ClientId, Command};
use mad::local::{FromAgent, ToAgent};
use netio::dataplane::{Handle, RequestError};
use netio::seqpacket::{Connection, Listener};
use tokio::sync::mpsc;

/// The first client number of this socket; the lower ones are ports and slots of the other ones.
pub(super) const FIRST_CLIENT: u32 = 1 << 24;

/// Messages that wait for one client to read at most.
const QUEUE_MAX: usize = 8192;

/// Packets of a client that are taken at a time.
const BURST_MAX: usize = 64;

/// From so many bytes on a packet to a client takes no more messages.
const PACKET_BYTES: usize = 32 * 1024;

/// How long a command may wait for room in the dataplane thread's queue. A thread whose queue is full
/// for so long is stuck.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(2);

/// Sends commands of the MAD sockets' clients to the dataplane thread.
#[derive(Debug)]
pub(super) struct CommandSender {
    handle: Handle<Command>,
    /// MADs dropped that the core has not counted yet.
    dropped: Cell<u32>,
    /// Commands are queued that the dataplane thread has not been woken for.
    unseen: Cell<bool>,
}

impl CommandSender {
    pub(super) fn new(handle: Handle<Command>) -> Self {
        Self {
            handle,
            dropped: Cell::new(0),
            unseen: Cell::new(false),
        }
    }

    /// Queues `command` for the host, which takes it at the next [`Self::flush`]: one wake-up is for many, and
    /// what they send travels together. Where there is no room it is sent as by [`Self::send`].
    pub(super) async fn queue(&self, command: Command) {
        match self.handle.queue(command) {
            Ok(None) => self.unseen.set(true),
            Ok(Some(command)) => {
                self.flush();
                self.send(command).await;
            }
            Err(_) => {}
        }
    }

    /// Has the host take what is queued.
    pub(super) fn flush(&self) {
        if self.unseen.take() {
            self.handle.wake();
        }
    }

    /// Sends `command` to the host. One that cannot be sent in time is dropped, which is reported
    /// to the host when its queue has room again.
    pub(super) async fn send(&self, command: Command) {
        self.report_drops();
        let sent = self.handle.command_within(command, COMMAND_TIMEOUT);
        match sent.await {
            // No command is waited for once the thread has ended: the shutdown would wait for it too.
            Ok(()) | Err(RequestError::Ended) => return,
            Err(RequestError::Full) => {}
        }
        self.dropped.set(self.dropped.get().saturating_add(1));
        tracing::warn!(
            "the dataplane thread's command queue is full: a MAD client's command was dropped"
        );
    }

    /// Reports drops to the host, if its queue has room.
    fn report_drops(&self) {
        let count = self.dropped.get();
        if count > 0 && self.handle.command(Command::MadsDropped { count }).is_ok() {
            self.dropped.set(0);
        }
    }
}

/// The clients of the MAD socket.
#[derive(Debug)]
pub(super) struct MadServer {
    commands: CommandSender,
    clients: RefCell<BTreeMap<ClientId, Client>>,
    last: Cell<u32>,
}

#[derive(Debug)]
struct Client {
    queue: mpsc::Sender<FromAgent>,
    place: Rc<ClientSlot>,
}

impl MadServer {
    pub(super) fn new(handle: Handle<Command>) -> Self {
        Self {
            commands: CommandSender::new(handle),
            clients: RefCell::default(),
            last: Cell::new(FIRST_CLIENT),
        }
    }

    /// Serves clients until accepting fails.
    pub(super) async fn serve(self: &Rc<Self>, listener: &Listener) -> io::Result<()> {
        let client = |connection, place| {
            let server = Rc::clone(self);
            async move { server.client(&connection, Rc::new(place)).await }
        };
        serve_connections(listener, client).await
    }

    /// Queues a message of the host for a client.
    pub(super) fn on_message(&self, client: ClientId, message: FromAgent) {
        let clients = self.clients.borrow();
        let Some(to) = clients.get(&client) else {
            return;
        };
        if let FromAgent::Registered {
            registered: true, ..
        } = message
        {
            to.place.pin();
        }
        if to.queue.try_send(message).is_err() {
            tracing::debug!(
                client = client.0,
                "the client reads too slowly: MAD dropped"
            );
        }
    }

    /// Serves one client until it disconnects.
    async fn client(&self, connection: &Connection, place: Rc<ClientSlot>) {
        let client = self.next_client();
        let (sender, queue) = mpsc::channel(QUEUE_MAX);
        let entry = Client {
            queue: sender,
            place: Rc::clone(&place),
        };
        self.clients.borrow_mut().insert(client, entry);
        let error = tokio::select! {
            ended = self.exchange(client, connection, &place, queue) => match ended {
                Ok(never) => match never {},
                Err(error) => error,
            },
            () = place.evicted() => ControlError::Closed,
        };
        tracing::debug!(
            client = client.0,
            "the MAD client has disconnected: {error}"
        );
        self.clients.borrow_mut().remove(&client);
        self.commands.send(Command::MadGone { client }).await;
    }

    /// A number that no client has.
    fn next_client(&self) -> ClientId {
        let clients = self.clients.borrow();
        loop {
            let next = self.last.get() + 1;
            let number = match next < super::cm::FIRST_CLIENT {
                true => next,
                false => FIRST_CLIENT,
            };
            self.last.set(number);
            if !clients.contains_key(&ClientId(number)) {
                return ClientId(number);
            }
        }
    }

    /// Hands a client's packet to the host, and with it those that wait behind it. Whether one had several messages.
    async fn take_all(
        &self,
        client: ClientId,
        connection: &Connection,
        first: Vec<u8>,
    ) -> Result<bool, ControlError> {
        let mut next = Some(first);
        let mut taken = 0;
        let mut has_several = false;
        while let Some(packet) = next.take() {
            match self.take(client, &packet).await {
                Ok(messages) => has_several |= messages > 1,
                Err(error) => {
                    self.commands.flush();
                    return Err(error);
                }
            }
            taken += 1;
            if taken < BURST_MAX {
                // The end of the connection shows again when it is waited for.
                next = connection.try_receive().ok().flatten();
            }
        }
        self.commands.flush();
        Ok(has_several)
    }

    /// Queues the messages of a packet; how many there were.
    async fn take(&self, client: ClientId, packet: &[u8]) -> Result<usize, ControlError> {
        let mut rest = packet;
        let mut messages = 0;
        loop {
            let message: ToAgent;
            (message, rest) = wire::control::decode_first(rest)?;
            self.commands.queue(Command::Mad { client, message }).await;
            messages += 1;
            if rest.is_empty() {
                return Ok(messages);
            }
        }
    }

    async fn exchange(
        &self,
        client: ClientId,
        connection: &Connection,
        place: &ClientSlot,
        mut queue: mpsc::Receiver<FromAgent>,
    ) -> Result<Infallible, ControlError> {
        let mut waiting: Option<Vec<u8>> = None;
        // What a client sends in one packet it takes in one.
        let mut packet_bytes = 0;
        loop {
            tokio::select! {
                sent = connection.send(waiting.as_deref().unwrap_or_default()), if waiting.is_some() => {
                    sent?;
                    waiting = None;
                }
                Some(message) = queue.recv(), if waiting.is_none() => {
                    waiting = send_all(connection, message, &mut queue, packet_bytes)?;
                }
                message = connection.receive() => {
                    let message = message?.ok_or(ControlError::Closed)?;
                    place.begin_request();
                    if self.take_all(client, connection, message).await? {
                        packet_bytes = PACKET_BYTES;
                    }
                    place.end_request();
                }
            }
        }
    }
}

/// Sends `message` and what else is in the queue until the client takes no more; the packet that
/// it did not take. A packet takes further messages up to `packet_bytes`.
fn send_all(
    connection: &Connection,
    message: FromAgent,
    queue: &mut mpsc::Receiver<FromAgent>,
    packet_bytes: usize,
) -> Result<Option<Vec<u8>>, ControlError> {
    let mut next = Some(message);
    while let Some(message) = next {
        let mut bytes = wire::control::encode(&message)?;
        while bytes.len() < packet_bytes
            && let Ok(message) = queue.try_recv()
        {
            wire::control::append(&message, &mut bytes)?;
        }
        match connection.try_send(&bytes) {
            Ok(()) => next = queue.try_recv().ok(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Some(bytes)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use hostd::{Host, HostConfig};
    use link::{Hardware, PortConfig};
    use netio::dataplane::{self, Settings};
    use wire::Guid;

    use super::*;

    #[tokio::test]
    async fn a_command_for_a_dataplane_that_has_ended_is_not_waited_for() {
        let config = HostConfig {
            name: "h0".to_owned(),
            guid: Guid(1),
            pid: 1,
            ports: 1,
            hardware: Hardware::default(),
            port: PortConfig::default(),
            ip: Vec::new(),
            traffic_tick_ns: HostConfig::LIVE_TRAFFIC_TICK_NS,
        };
        let settings = Settings {
            name: "h0".to_owned(),
            frame_packets: 1,
        };
        let core = Host::new(config).unwrap();
        let running = dataplane::spawn(settings, Vec::new(), move || core).unwrap();
        running.handle.stop().unwrap();
        running.thread.join().unwrap();
        let commands = CommandSender::new(running.handle);
        let client = ClientId(1);
        let mut sent = pin!(commands.send(Command::MadGone { client }));
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(sent.as_mut().poll(&mut context), Poll::Ready(()));
    }
}
