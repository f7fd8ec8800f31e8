//! The host's verbs socket: programs with queue pairs, each with a library that speaks [`uverbs`].
//!
//! ```text
//!  connection --- requests ----> VerbsServer --- Command::Verbs --->+
//!             <-- replies ------             <-- FromVerbs::Reply --+
//!                                                                   |  dataplane thread
//!  rings, when the doorbell rings ----> Ringed ---------------------+  (Host)
//!  completion rings, channels, events <-------- FromVerbs ----------+
//! ```
//!
//! Each connection has a task, which forwards requests one after the other. What stands in the rings is taken by the
//! dataplane thread, before each input, so that the core sees both in the order of the program; completions go into
//! their rings there, too. A library whose rings make no sense is disconnected.

mod device;
mod memory;
mod queues;
mod rings;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use daemon::clients::ClientSlot;
use daemon::control::{ControlError, serve_many_connections};
use hostd::{ClientId, Command, FromVerbs, ToVerbs};
use netio::dataplane::{Handle, RequestError};
use netio::event::Doorbells;
use netio::process_memory::ProcessMemory;
use netio::seqpacket::{Connection, Listener};
use tokio::sync::oneshot;
use uverbs::{Reply, Request, errno};
use wire::PortNum;

use device::Shared;
pub(super) use device::{Contexts, Ringed};
pub(super) use memory::Programs;
use rings::{Opening, Rings};

/// The first client number of this socket.
pub(super) const FIRST_CLIENT: u32 = 1 << 30;

/// Contexts at most.
const CONTEXTS_MAX: usize = 1024;
/// How long a command may wait for room in the dataplane thread's queue. A thread whose queue is full for so
/// long is stuck.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// The contexts of the verbs socket.
pub(super) struct VerbsServer {
    handle: Handle<Command>,
    programs: Programs,
    contexts: Contexts,
    doorbells: Doorbells,
    /// Where the core's reply goes.
    replies: RefCell<BTreeMap<ClientId, oneshot::Sender<Reply>>>,
    last: Cell<u32>,
}

/// A reply and the descriptors that go with it.
struct Answer {
    reply: Reply,
    descriptors: Vec<OwnedFd>,
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self {
            reply,
            descriptors: Vec::new(),
        }
    }
}

fn refused(errno: u16, why: impl ToString) -> Answer {
    let why = why.to_string();
    Reply::Refused { errno, why }.into()
}

/// A context whose task runs; what both threads have of it goes with it.
struct Open<'a> {
    server: &'a VerbsServer,
    client: ClientId,
    shared: Arc<Shared>,
    doorbell: OwnedFd,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.server.contexts.all().remove(&self.client);
        self.server.programs.remove(self.client);
        self.server.doorbells.remove(&self.doorbell);
    }
}

impl VerbsServer {
    pub(super) fn new(
        handle: Handle<Command>,
        programs: Programs,
        contexts: Contexts,
        doorbells: Doorbells,
    ) -> Self {
        Self {
            handle,
            programs,
            contexts,
            doorbells,
            replies: RefCell::default(),
            last: Cell::new(FIRST_CLIENT),
        }
    }

    /// Serves programs until accepting fails.
    pub(super) async fn serve(self: &Rc<Self>, listener: &Listener) -> Result<()> {
        let client = |connection, place| {
            let server = Rc::clone(self);
            async move { server.client(&connection, place).await }
        };
        let served = serve_many_connections(listener, CONTEXTS_MAX, client);
        served.await.context("the verbs socket failed")
    }

    /// Passes a reply of the core to its context's task.
    pub(super) fn on_message(&self, client: ClientId, message: FromVerbs) {
        if let FromVerbs::Reply(reply) = message
            && let Some(waiting) = self.replies.borrow_mut().remove(&client)
        {
            // A task that has ended needs no reply.
            let _ = waiting.send(reply);
        }
    }

    /// A number that no context has.
    fn next_client(&self) -> ClientId {
        let contexts = self.contexts.all();
        loop {
            let next = self.last.get() + 1;
            let number = match next < super::ibumad::FIRST_CLIENT {
                true => next,
                false => FIRST_CLIENT,
            };
            self.last.set(number);
            if !contexts.contains_key(&ClientId(number)) {
                return ClientId(number);
            }
        }
    }

    /// Serves one connection until it ends.
    async fn client(&self, connection: &Connection, place: ClientSlot) {
        let client = self.next_client();
        let ended = tokio::select! {
            ended = self.exchange(client, connection, &place) => ended,
            () = place.evicted() => Ok(()),
        };
        if let Err(error) = ended {
            tracing::debug!(client = client.0, "a verbs context has ended: {error}");
        }
        self.replies.borrow_mut().remove(&client);
        // What the program had must go, however long the dataplane thread takes.
        while let Err(RequestError::Full) = self.command(Command::VerbsGone { client }).await {}
    }

    async fn command(&self, command: Command) -> Result<(), RequestError> {
        self.handle.command_within(command, COMMAND_TIMEOUT).await
    }

    async fn exchange(
        &self,
        client: ClientId,
        connection: &Connection,
        place: &ClientSlot,
    ) -> Result<(), ControlError> {
        let Some((message, descriptors)) = connection.receive_with().await? else {
            return Ok(());
        };
        place.begin_request();
        let request = wire::control::decode(&message)?;
        let (open, opening) = match self.prepare(client, &request, descriptors) {
            Ok(opened) => opened,
            Err(refusal) => return send(connection, &refusal).await,
        };
        let Request::Open { port, .. } = request else {
            return Ok(());
        };
        let port = PortNum::new(port);
        let reply = self.ask(client, ToVerbs::Open { port }).await?;
        if !matches!(reply, Reply::Opened(_)) {
            return send(connection, &reply.into()).await;
        }
        // It may have nothing to say for long.
        place.pin();
        let descriptors = [&open.doorbell, &opening.page, &opening.events].map(AsFd::as_fd);
        let reply = wire::control::encode(&reply)?;
        connection.send_with(&reply, &descriptors).await?;
        drop(opening);
        self.run(client, connection, &open.shared).await
    }

    /// Makes what a context shares with its program, or refuses it.
    fn prepare(
        &self,
        client: ClientId,
        request: &Request,
        mut descriptors: Vec<OwnedFd>,
    ) -> Result<(Open<'_>, Opening), Answer> {
        let &Request::Open { version, .. } = request else {
            return Err(refused(errno::EINVAL, "the first request is Open"));
        };
        if version != uverbs::VERSION {
            let own = uverbs::VERSION;
            let why = format!("the library's protocol is {version}, the host's {own}");
            return Err(refused(errno::EINVAL, why));
        }
        let (Some(memory), true) = (descriptors.pop(), descriptors.is_empty()) else {
            return Err(refused(errno::EINVAL, "one descriptor comes with Open"));
        };
        let memory = ProcessMemory::new(memory).map_err(|error| refused(errno::EINVAL, error))?;
        let no_memory = |error| refused(errno::ENOMEM, error);
        let (rings, opening) = Rings::new().map_err(no_memory)?;
        let doorbell = self.doorbells.add().map_err(no_memory)?;
        let shared = Arc::new(Shared::new(rings));
        self.programs.insert(client, memory);
        self.contexts.all().insert(client, Arc::clone(&shared));
        let open = Open {
            server: self,
            client,
            shared,
            doorbell,
        };
        Ok((open, opening))
    }

    /// Has the core answer.
    async fn ask(&self, client: ClientId, message: ToVerbs) -> Result<Reply, ControlError> {
        let (sender, reply) = oneshot::channel();
        self.replies.borrow_mut().insert(client, sender);
        let sent = self.command(Command::Verbs { client, message }).await;
        sent.map_err(|_| ControlError::Closed)?;
        reply.await.map_err(|_| ControlError::Closed)
    }

    /// Serves the requests of a context.
    async fn run(
        &self,
        client: ClientId,
        connection: &Connection,
        shared: &Shared,
    ) -> Result<(), ControlError> {
        loop {
            tokio::select! {
                message = connection.receive_with() => {
                    let Some((message, _)) = message? else {
                        return Ok(());
                    };
                    let request = wire::control::decode(&message)?;
                    let answer = self.answer(client, shared, request).await?;
                    send(connection, &answer).await?;
                }
                () = shared.attention.notified() => {
                    if let Some(error) = shared.rings().nonsense() {
                        tracing::warn!(client = client.0, "a program is disconnected: {error}");
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Answers a request.
    async fn answer(
        &self,
        client: ClientId,
        shared: &Shared,
        request: Request,
    ) -> Result<Answer, ControlError> {
        match request {
            Request::Open { .. } => Ok(refused(errno::EINVAL, "the context is open")),
            Request::CreateChannel => Ok(shared.rings().create_channel()),
            Request::DestroyChannel { channel } => Ok(shared.rings().destroy_channel(channel)),
            request => {
                let same = shared.rings().unchanged(&request);
                if let Some(same) = same {
                    // The core takes up what the program has posted before: the completions of that are among those
                    // which must have room.
                    let _ = self.ask(client, ToVerbs::Request(same)).await?;
                }
                let prepared = shared.rings().prepare(&request);
                let prepared = match prepared {
                    Ok(prepared) => prepared,
                    Err(refusal) => return Ok(refusal),
                };
                let message = ToVerbs::Request(request.clone());
                let reply = self.ask(client, message).await?;
                Ok(shared.rings().finish(&request, prepared, reply))
            }
        }
    }
}

async fn send(connection: &Connection, answer: &Answer) -> Result<(), ControlError> {
    let reply = wire::control::encode(&answer.reply)?;
    let descriptors: Vec<BorrowedFd<'_>> = answer.descriptors.iter().map(AsFd::as_fd).collect();
    Ok(connection.send_with(&reply, &descriptors).await?)
}
