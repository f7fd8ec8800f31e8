//! The host's sockets for programs' `/dev/infiniband/rdma_cm`: each connection is a channel, each command brings the
//! socket for its reply ([`uverbs::cm`]).
//!
//! A channel has a task. It takes the next command when the core has answered the last one.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use daemon::clients::ClientSlot;
use daemon::control::{ControlError, serve_many_connections};
use hostd::{ClientId, Command, FromCm, ToCm};
use netio::dataplane::{Handle, RequestError};
use netio::seqpacket::{Connection, Listener, reply_to};
use tokio::sync::mpsc;
use uverbs::cm::{CmReply, CmRequest, TOKEN};
use uverbs::errno;

/// The first client number of this socket, behind those of the umad2sim sockets and before those of verbs.
pub(super) const FIRST_CLIENT: u32 = 3 << 28;

/// Channels at most.
const CHANNELS_MAX: usize = 1024;
/// Messages of the core that wait for a channel's task at most: a reply, and tokens.
const MESSAGES_MAX: usize = 8;
/// How long a command may wait for room in the dataplane thread's queue.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

struct Channel {
    messages: mpsc::Sender<FromCm>,
    /// The number that its program knows it by, and no other one: ids move between channels of who knows both.
    secret: u64,
}

/// The channels of the socket.
pub(super) struct CmServer {
    handle: Handle<Command>,
    channels: RefCell<BTreeMap<ClientId, Channel>>,
    last: Cell<u32>,
}

impl CmServer {
    pub(super) fn new(handle: Handle<Command>) -> Self {
        Self {
            handle,
            channels: RefCell::default(),
            last: Cell::new(FIRST_CLIENT),
        }
    }

    /// Serves programs until accepting fails.
    pub(super) async fn serve(self: &Rc<Self>, listener: &Listener) -> Result<()> {
        let client = |connection, place| {
            let server = Rc::clone(self);
            async move { server.client(&connection, place).await }
        };
        let served = serve_many_connections(listener, CHANNELS_MAX, client);
        served.await.context("the socket of connections failed")
    }

    /// Passes a message of the core to its channel's task.
    pub(super) fn on_message(&self, client: ClientId, message: FromCm) {
        if let Some(channel) = self.channels.borrow().get(&client)
            && channel.messages.try_send(message).is_err()
        {
            // One reply a command and one token a reply: the task has ended.
            tracing::debug!(client = client.0, "a channel takes no more messages");
        }
    }

    /// A number that no channel has.
    fn next_client(&self) -> ClientId {
        let channels = self.channels.borrow();
        loop {
            let next = self.last.get() + 1;
            let number = match next < super::verbs::FIRST_CLIENT {
                true => next,
                false => FIRST_CLIENT,
            };
            self.last.set(number);
            if !channels.contains_key(&ClientId(number)) {
                return ClientId(number);
            }
        }
    }

    /// Serves one connection until it ends.
    async fn client(&self, connection: &Connection, place: ClientSlot) {
        let client = self.next_client();
        let (sender, messages) = mpsc::channel(MESSAGES_MAX);
        let Ok(secret @ 1..) = netio::random::number() else {
            return;
        };
        let channel = Channel {
            messages: sender,
            secret,
        };
        self.channels.borrow_mut().insert(client, channel);
        let ended = tokio::select! {
            ended = self.exchange((client, secret), connection, &place, messages) => ended,
            () = place.evicted() => Ok(()),
        };
        if let Err(error) = ended {
            tracing::debug!(
                client = client.0,
                "a channel of connections has ended: {error}"
            );
        }
        self.channels.borrow_mut().remove(&client);
        // What the program had must go, however long the dataplane thread takes.
        while let Err(RequestError::Full) = self.command(Command::CmGone { client }).await {}
    }

    async fn command(&self, command: Command) -> Result<(), RequestError> {
        self.handle.command_within(command, COMMAND_TIMEOUT).await
    }

    async fn exchange(
        &self,
        (client, secret): (ClientId, u64),
        connection: &Connection,
        place: &ClientSlot,
        mut messages: mpsc::Receiver<FromCm>,
    ) -> Result<(), ControlError> {
        let Some(message) = connection.receive().await? else {
            return Ok(());
        };
        place.begin_request();
        let request: CmRequest = wire::control::decode(&message)?;
        if request
            != (CmRequest::Open {
                version: uverbs::cm::VERSION,
            })
        {
            let refusal = wire::control::encode(&CmReply::refused(errno::EINVAL))?;
            return Ok(connection.send(&refusal).await?);
        }
        self.tell(client, ToCm::Open).await?;
        let Some(FromCm::Reply(_)) = messages.recv().await else {
            return Ok(());
        };
        let opened = CmReply {
            bytes: secret.to_ne_bytes().to_vec(),
            ..CmReply::default()
        };
        connection.send(&wire::control::encode(&opened)?).await?;
        // It may have nothing to say for long.
        place.pin();
        let mut waiting: Option<OwnedFd> = None;
        loop {
            tokio::select! {
                message = connection.receive_with(), if waiting.is_none() => {
                    let Some((message, mut descriptors)) = message? else {
                        return Ok(());
                    };
                    let request: CmRequest = wire::control::decode(&message)?;
                    let (CmRequest::Command { bytes, value, channel }, Some(socket), true) =
                        (request, descriptors.pop(), descriptors.is_empty())
                    else {
                        return Err(ControlError::Closed);
                    };
                    waiting = Some(socket);
                    let from = self.channel_of(channel);
                    self.tell(client, ToCm::Command { bytes, value, from }).await?;
                }
                message = messages.recv() => match (message, waiting.take()) {
                    (Some(FromCm::Reply(reply)), Some(socket)) => {
                        // Who does not wait for its reply any more needs none.
                        let _ = reply_to(&socket, &wire::control::encode(&reply)?);
                    }
                    (Some(FromCm::Token), socket) => {
                        waiting = socket;
                        connection.try_send(TOKEN)?;
                    }
                    (Some(FromCm::Reply(_)), None) => {}
                    (None, _) => return Ok(()),
                }
            }
        }
    }

    async fn tell(&self, client: ClientId, message: ToCm) -> Result<(), ControlError> {
        let sent = self.command(Command::Cm { client, message }).await;
        sent.map_err(|_| ControlError::Closed)
    }

    /// The channel with a number; 0 is none's.
    fn channel_of(&self, number: u64) -> Option<ClientId> {
        let channels = self.channels.borrow();
        let mut all = channels.iter();
        let found = all.find(|(_, channel)| channel.secret == number);
        found.map(|(client, _)| *client)
    }
}
