//! The host's verbs socket: programs with queue pairs, each with a library that speaks [`uverbs`].
//!
//! ```text
//!  connection --- requests ----> Context ---- Command::Verbs ---> dataplane thread (Host)
//!  rings, when the doorbell rings --^                                |
//!  completion rings, channels, events <---- FromVerbs ---------------+
//! ```
//!
//! Each connection has a task: it forwards requests one after the other, and before each what stands in the rings,
//! so that the core sees both in the order of the program. Completions go into their rings as the core tells them.
//! A library whose rings make no sense is disconnected.

mod context;
mod memory;
mod queues;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use daemon::clients::ClientSlot;
use daemon::control::{ControlError, serve_many_connections};
use hostd::{ClientId, Command, FromVerbs, ToVerbs};
use netio::dataplane::{Handle, RequestError};
use netio::process_memory::ProcessMemory;
use netio::seqpacket::{Connection, Listener};
use uverbs::{Reply, Request, errno};
use wire::PortNum;

use context::Context;
pub(super) use memory::Programs;

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
    contexts: RefCell<BTreeMap<ClientId, Rc<Context>>>,
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

impl VerbsServer {
    pub(super) fn new(handle: Handle<Command>, programs: Programs) -> Self {
        Self {
            handle,
            programs,
            contexts: RefCell::default(),
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

    /// Passes a message of the core to its context.
    pub(super) fn on_message(&self, client: ClientId, message: FromVerbs) {
        let context = self.contexts.borrow().get(&client).map(Rc::clone);
        if let Some(context) = context {
            context.take(message);
        }
    }

    /// A number that no context has.
    fn next_client(&self) -> ClientId {
        let contexts = self.contexts.borrow();
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
        let opened = self.contexts.borrow_mut().remove(&client);
        self.programs.remove(client);
        if opened.is_some() {
            // What the program had must go, however long the dataplane thread takes.
            while let Err(RequestError::Full) = self.command(Command::VerbsGone { client }).await {}
        }
    }

    async fn command(&self, command: Command) -> Result<(), RequestError> {
        self.handle.command_within(command, COMMAND_TIMEOUT).await
    }

    /// Sends a message of a context to the core.
    async fn tell(&self, client: ClientId, message: ToVerbs) -> Result<(), ControlError> {
        let sent = self.command(Command::Verbs { client, message }).await;
        sent.map_err(|_| ControlError::Closed)
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
        let opened = self.open(client, &request, descriptors).await?;
        let context = match opened {
            Ok(context) => context,
            Err(answer) => return send(connection, &answer).await,
        };
        // It may have nothing to say for long.
        place.pin();
        if let Some((reply, page, events)) = context.opened() {
            let doorbell = context.doorbell.descriptor();
            let descriptors = [doorbell, page.as_fd(), events.as_fd()];
            let reply = wire::control::encode(&reply)?;
            connection.send_with(&reply, &descriptors).await?;
        }
        self.run(client, connection, &context).await
    }

    /// Opens a context, or refuses it.
    async fn open(
        &self,
        client: ClientId,
        request: &Request,
        mut descriptors: Vec<OwnedFd>,
    ) -> Result<Result<Rc<Context>, Answer>, ControlError> {
        let &Request::Open { version, port } = request else {
            return Ok(Err(refused(errno::EINVAL, "the first request is Open")));
        };
        if version != uverbs::VERSION {
            let why = format!(
                "the library's protocol is {version}, the host's {}",
                uverbs::VERSION
            );
            return Ok(Err(refused(errno::EINVAL, why)));
        }
        let (Some(memory), true) = (descriptors.pop(), descriptors.is_empty()) else {
            return Ok(Err(refused(
                errno::EINVAL,
                "one descriptor comes with Open",
            )));
        };
        let memory = match ProcessMemory::new(memory) {
            Ok(memory) => memory,
            Err(error) => return Ok(Err(refused(errno::EINVAL, error))),
        };
        let context = match Context::new() {
            Ok(context) => Rc::new(context),
            Err(error) => return Ok(Err(refused(errno::ENOMEM, error))),
        };
        self.programs.insert(client, memory);
        self.contexts
            .borrow_mut()
            .insert(client, Rc::clone(&context));
        let port = PortNum::new(port);
        match self.ask(client, &context, ToVerbs::Open { port }).await? {
            reply @ Reply::Opened(_) => {
                context.set_opened(reply);
                Ok(Ok(context))
            }
            reply => Ok(Err(reply.into())),
        }
    }

    /// Has the core answer.
    async fn ask(
        &self,
        client: ClientId,
        context: &Context,
        message: ToVerbs,
    ) -> Result<Reply, ControlError> {
        let reply = context.expect_reply();
        self.tell(client, message).await?;
        reply.await.map_err(|_| ControlError::Closed)
    }

    /// Serves a context: its requests, its rings.
    async fn run(
        &self,
        client: ClientId,
        connection: &Connection,
        context: &Rc<Context>,
    ) -> Result<(), ControlError> {
        loop {
            self.take_work(client, context).await?;
            tokio::select! {
                message = connection.receive_with() => {
                    let Some((message, _)) = message? else {
                        return Ok(());
                    };
                    let request = wire::control::decode(&message)?;
                    // What was posted before comes before.
                    self.take_work(client, context).await?;
                    let answer = self.answer(client, context, request).await?;
                    send(connection, &answer).await?;
                }
                rung = context.doorbell.rung() => rung?,
                () = context.attention.notified() => {}
            }
        }
    }

    /// Forwards what stands in the rings, until the host may sleep.
    async fn take_work(&self, client: ClientId, context: &Context) -> Result<(), ControlError> {
        loop {
            let (work, more) = context.work().map_err(|error| {
                tracing::warn!(client = client.0, "a program is disconnected: {error}");
                ControlError::Closed
            })?;
            for message in work {
                self.tell(client, message).await?;
            }
            if !more {
                return Ok(());
            }
            tokio::task::yield_now().await;
        }
    }

    /// Answers a request.
    async fn answer(
        &self,
        client: ClientId,
        context: &Rc<Context>,
        request: Request,
    ) -> Result<Answer, ControlError> {
        match request {
            Request::Open { .. } => Ok(refused(errno::EINVAL, "the context is open")),
            Request::CreateChannel => Ok(context.create_channel()),
            Request::DestroyChannel { channel } => Ok(context.destroy_channel(channel)),
            request => {
                let prepared = match context.prepare(&request) {
                    Ok(prepared) => prepared,
                    Err(refusal) => return Ok(refusal),
                };
                let message = ToVerbs::Request(request.clone());
                let reply = self.ask(client, context, message).await?;
                Ok(context.finish(&request, prepared, reply))
            }
        }
    }
}

async fn send(connection: &Connection, answer: &Answer) -> Result<(), ControlError> {
    let reply = wire::control::encode(&answer.reply)?;
    let descriptors: Vec<BorrowedFd<'_>> = answer.descriptors.iter().map(AsFd::as_fd).collect();
    Ok(connection.send_with(&reply, &descriptors).await?)
}
