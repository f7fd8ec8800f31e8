//! Requests and replies over a local socket: one message a packet, one reply a request, in order.
//!
//! The codec is `wire::control`'s (capped bincode). A server serves a bounded number of clients; when
//! more come, idle ones are disconnected ([`crate::clients`]). A message that does not decode ends its
//! sender's connection.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use bincode::{Decode, Encode};
use thiserror::Error;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;

use crate::clients::{ClientSlot, Clients};
use netio::NetError;
use netio::seqpacket::{BlockingConnection, Connection, Listener};

/// Clients that a server has at once. For a further one an idle one has to leave; if none is idle,
/// it waits.
pub const CLIENTS_MAX: usize = 64;

/// Why a request got no reply.
#[derive(Debug, Error)]
pub enum ControlError {
    /// The socket cannot be reached.
    #[error(transparent)]
    Unreachable(#[from] NetError),
    /// The connection failed or timed out.
    #[error("the control connection failed: {0}")]
    Io(#[from] io::Error),
    /// The peer has closed the connection: it has exited, does not know the request, or needed the
    /// place of this client for another one while it was idle.
    #[error("the peer closed the control connection without a reply")]
    Closed,
    /// No reply within the time.
    #[error("no reply within {0:?}")]
    TimedOut(Duration),
    /// A message does not encode or decode: the peer is of another version.
    #[error(transparent)]
    Codec(#[from] wire::control::ControlError),
}

/// A blocking client.
#[derive(Debug)]
pub struct ControlClient {
    connection: BlockingConnection,
    timeout: Duration,
}

impl ControlClient {
    /// Connects to the socket at `path`; every request then waits `timeout` at most.
    ///
    /// # Errors
    /// If no process listens there, or the listener is another user's.
    pub fn connect(path: &Path, timeout: Duration) -> Result<Self, ControlError> {
        let connection = BlockingConnection::connect(path, timeout)?;
        Ok(Self {
            connection,
            timeout,
        })
    }

    /// Sends `request` and waits for its reply. After an error the connection is out of step and
    /// must be dropped.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn request<Req: Encode, Rep: Decode<()>>(
        &mut self,
        request: &Req,
    ) -> Result<Rep, ControlError> {
        let timed_out = |error: io::Error| match error.kind() {
            io::ErrorKind::WouldBlock => ControlError::TimedOut(self.timeout),
            io::ErrorKind::BrokenPipe => ControlError::Closed,
            _ => ControlError::Io(error),
        };
        self.connection
            .send(&wire::control::encode(request)?)
            .map_err(timed_out)?;
        let reply = self.connection.receive().map_err(timed_out)?;
        Ok(wire::control::decode(&reply.ok_or(ControlError::Closed)?)?)
    }
}

/// A client under tokio.
#[derive(Debug)]
pub struct AsyncControlClient {
    connection: Connection,
    timeout: Duration,
}

impl AsyncControlClient {
    /// Connects to the socket at `path`; every request then waits `timeout` at most. To be called
    /// inside a tokio runtime with IO and time.
    ///
    /// # Errors
    /// If no process listens there, or the listener is another user's.
    pub async fn connect(path: &Path, timeout: Duration) -> Result<Self, ControlError> {
        let connection = Connection::connect(path).await?;
        Ok(Self {
            connection,
            timeout,
        })
    }

    /// Sends `request` and waits for its reply. After an error the connection is out of step and
    /// must be dropped.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub async fn request<Req: Encode, Rep: Decode<()>>(
        &mut self,
        request: &Req,
    ) -> Result<Rep, ControlError> {
        self.request_with(request, &[]).await
    }

    /// As [`Self::request`], with copies of descriptors.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub async fn request_with<Req: Encode, Rep: Decode<()>>(
        &mut self,
        request: &Req,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Rep, ControlError> {
        let message = wire::control::encode(request)?;
        let exchange = async {
            self.connection.send_with(&message, descriptors).await?;
            self.connection.receive().await
        };
        let reply = tokio::time::timeout(self.timeout, exchange)
            .await
            .map_err(|_| ControlError::TimedOut(self.timeout))?
            .map_err(|error| match error.kind() {
                io::ErrorKind::BrokenPipe => ControlError::Closed,
                _ => ControlError::Io(error),
            })?;
        Ok(wire::control::decode(&reply.ok_or(ControlError::Closed)?)?)
    }
}

/// Requests that another thread answers: each is known by a token until its reply comes.
#[derive(Debug)]
pub struct Pending<Rep> {
    waiting: RefCell<BTreeMap<u64, oneshot::Sender<Rep>>>,
    last: Cell<u64>,
}

impl<Rep> Default for Pending<Rep> {
    fn default() -> Self {
        Self {
            waiting: RefCell::default(),
            last: Cell::new(0),
        }
    }
}

impl<Rep> Pending<Rep> {
    /// A new token, and where the reply to it will come. The receiver sees an error if the reply
    /// never comes.
    pub fn begin(&self) -> (u64, oneshot::Receiver<Rep>) {
        let token = self.last.get() + 1;
        self.last.set(token);
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.waiting.borrow_mut();
        // Clients that have left wait no longer; there are at most as many others as clients.
        waiting.retain(|_, sender| !sender.is_closed());
        waiting.insert(token, sender);
        (token, receiver)
    }

    /// The reply to a token has come.
    pub fn finish(&self, token: u64, reply: Rep) {
        if let Some(sender) = self.waiting.borrow_mut().remove(&token) {
            // A client that has left misses nothing.
            let _ = sender.send(reply);
        }
    }
}

/// The answer of a handler.
#[derive(Debug)]
pub struct Answer<Rep> {
    /// The reply.
    pub reply: Rep,
    /// Is notified when the reply has gone: for a server that then ends.
    pub sent: Option<Rc<Notify>>,
}

impl<Rep> From<Rep> for Answer<Rep> {
    fn from(reply: Rep) -> Self {
        Self { reply, sent: None }
    }
}

/// Serves the clients of `listener` as [`serve_connections`] does. `handler` makes the reply of each
/// request.
///
/// # Errors
/// When accepting fails.
pub async fn serve<Req, Rep, H, F>(listener: &Listener, handler: H) -> io::Result<()>
where
    Req: Decode<()> + 'static,
    Rep: Encode + 'static,
    H: Fn(Req) -> F + Clone + 'static,
    F: Future<Output = Answer<Rep>> + 'static,
{
    serve_with_descriptors(listener, move |request, _| handler(request)).await
}

/// As [`serve`]; `handler` also gets the descriptors that have come with the request.
///
/// # Errors
/// When accepting fails.
pub async fn serve_with_descriptors<Req, Rep, H, F>(
    listener: &Listener,
    handler: H,
) -> io::Result<()>
where
    Req: Decode<()> + 'static,
    Rep: Encode + 'static,
    H: Fn(Req, Vec<OwnedFd>) -> F + Clone + 'static,
    F: Future<Output = Answer<Rep>> + 'static,
{
    let client = |connection: Connection, slot: ClientSlot| {
        let handler = handler.clone();
        async move {
            if let Err(error) = serve_client(&connection, handler, &slot).await {
                tracing::debug!("a control connection ended: {error}");
            }
        }
    };
    serve_connections(listener, client).await
}

/// Accepts connections, and serves each by the future that `client` makes of it and its place among
/// [`CLIENTS_MAX`]. To be run inside a [`tokio::task::LocalSet`]; dropping the future ends all
/// connections.
///
/// # Errors
/// When accepting fails.
pub async fn serve_connections<F>(
    listener: &Listener,
    client: impl Fn(Connection, ClientSlot) -> F,
) -> io::Result<()>
where
    F: Future<Output = ()> + 'static,
{
    serve_many_connections(listener, CLIENTS_MAX, client).await
}

/// As [`serve_connections`], with so many places.
///
/// # Errors
/// When accepting fails.
pub async fn serve_many_connections<F>(
    listener: &Listener,
    places: usize,
    client: impl Fn(Connection, ClientSlot) -> F,
) -> io::Result<()>
where
    F: Future<Output = ()> + 'static,
{
    let clients = Clients::new(places);
    let mut tasks = JoinSet::new();
    loop {
        let connection = listener.accept().await?;
        let slot = clients.acquire().await;
        while tasks.try_join_next().is_some() {}
        tasks.spawn_local(client(connection, slot));
    }
}

async fn serve_client<Req, Rep, H, F>(
    connection: &Connection,
    handler: H,
    slot: &ClientSlot,
) -> Result<(), ControlError>
where
    Req: Decode<()>,
    Rep: Encode,
    H: Fn(Req, Vec<OwnedFd>) -> F,
    F: Future<Output = Answer<Rep>>,
{
    loop {
        let message = tokio::select! {
            biased;
            message = connection.receive_with() => message?,
            () = slot.evicted() => None,
        };
        let Some((message, descriptors)) = message else {
            return Ok(());
        };
        slot.begin_request();
        let answer = handler(wire::control::decode(&message)?, descriptors).await;
        let reply = wire::control::encode(&answer.reply)?;
        slot.end_request();
        // A client that does not read its replies is idle too.
        let sent_reply = tokio::select! {
            biased;
            sent = connection.send(&reply) => Some(sent),
            () = slot.evicted() => None,
        };
        if let Some(sent) = answer.sent {
            sent.notify_one();
        }
        match sent_reply {
            Some(sent) => sent?,
            None => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::LocalSet;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);

    async fn double(request: u32) -> Answer<Vec<u32>> {
        vec![request, request * 2].into()
    }

    /// Serves clients until `work` is done.
    async fn serve_while(listener: &Listener, work: impl Future<Output = ()>) {
        LocalSet::new()
            .run_until(async {
                tokio::select! {
                    ended = serve(listener, double) => panic!("{ended:?}"),
                    () = work => {}
                }
            })
            .await;
    }

    #[tokio::test]
    async fn every_request_gets_its_reply_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s.ctl");
        let listener = Listener::bind(&path).unwrap();
        let work = async {
            let mut client = AsyncControlClient::connect(&path, TIMEOUT).await.unwrap();
            for request in 0..10u32 {
                let reply: Vec<u32> = client.request(&request).await.unwrap();
                assert_eq!(reply, [request, request * 2]);
            }
        };
        serve_while(&listener, work).await;
    }

    #[tokio::test]
    async fn more_clients_than_the_limit_are_served_as_others_leave() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s.ctl");
        let listener = Listener::bind(&path).unwrap();
        let work = async {
            let mut clients = crowd(&path, CLIENTS_MAX + 1, 0).await;
            for client in &mut clients[..CLIENTS_MAX] {
                let _: Vec<u32> = client.request(&1u32).await.unwrap();
            }
            let mut last = clients.pop().unwrap();
            drop(clients);
            let reply: Vec<u32> = last.request(&4u32).await.unwrap();
            assert_eq!(reply, [4, 8]);
        };
        serve_while(&listener, work).await;
    }

    /// That many clients, each of which has asked that often.
    async fn crowd(path: &Path, count: usize, requests: u32) -> Vec<AsyncControlClient> {
        let mut clients = Vec::with_capacity(count);
        for _ in 0..count {
            let mut client = AsyncControlClient::connect(path, TIMEOUT).await.unwrap();
            for request in 0..requests {
                let _: Vec<u32> = client.request(&request).await.unwrap();
            }
            clients.push(client);
        }
        clients
    }

    #[tokio::test]
    async fn two_hundred_idle_clients_keep_nobody_out() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s.ctl");
        let listener = Listener::bind(&path).unwrap();
        let work = async {
            let silent = crowd(&path, 200, 0).await;
            let idle = crowd(&path, 100, 1).await;
            for request in 0..10u32 {
                let mut client = AsyncControlClient::connect(&path, TIMEOUT).await.unwrap();
                let reply: Vec<u32> = client.request(&request).await.unwrap();
                assert_eq!(reply, [request, request * 2]);
            }
            drop((silent, idle));
        };
        serve_while(&listener, work).await;
    }

    #[tokio::test]
    async fn a_message_that_does_not_decode_ends_the_connection_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s.ctl");
        let listener = Listener::bind(&path).unwrap();
        let work = async {
            let hostile = Connection::connect(&path).await.unwrap();
            hostile.send(&[0xff; 3]).await.unwrap();
            assert_eq!(hostile.receive().await.unwrap(), None);
            let client_path = path.clone();
            let reply: Vec<u32> = tokio::task::spawn_blocking(move || {
                ControlClient::connect(&client_path, TIMEOUT)
                    .unwrap()
                    .request(&21u32)
                    .unwrap()
            })
            .await
            .unwrap();
            assert_eq!(reply, [21, 42]);
        };
        serve_while(&listener, work).await;
    }
}
