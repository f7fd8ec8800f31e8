//! The control thread's side: requests in, events out.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, TryRecvError, TrySendError};
use thiserror::Error;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use wire::PortNum;

use crate::poll::{EventFd, register};

/// A request of the control thread to the dataplane thread.
#[derive(Debug)]
pub(super) enum Request<C> {
    /// For the core.
    Command(C),
    /// UDP: the peer of a port.
    Connect(PortNum, SocketAddr),
    /// Send what is ready, then end.
    Stop,
}

/// Why a request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RequestError {
    /// The dataplane thread is hundreds of requests behind.
    #[error("the dataplane takes no more requests at the moment; try again")]
    Full,
    /// The dataplane thread has ended: it never takes a request again.
    #[error("the dataplane thread has ended")]
    Ended,
}

/// A running dataplane thread.
#[derive(Debug)]
pub struct Running<C, E> {
    /// Sends it requests.
    pub handle: Handle<C>,
    /// Its events.
    pub events: Events<E>,
    /// Ends with it. A panic of the core is a panic of this thread.
    pub thread: JoinHandle<()>,
}

/// Sends requests to a dataplane thread. Requests are taken in the order in which they are sent.
pub struct Handle<C> {
    requests: Sender<Request<C>>,
    wake: Arc<EventFd>,
}

impl<C> Handle<C> {
    pub(super) fn new(requests: Sender<Request<C>>, wake: Arc<EventFd>) -> Self {
        Self { requests, wake }
    }

    fn send(&self, request: Request<C>) -> Result<(), RequestError> {
        self.requests
            .try_send(request)
            .map_err(|error| match error {
                TrySendError::Full(_) => RequestError::Full,
                TrySendError::Disconnected(_) => RequestError::Ended,
            })?;
        self.wake.signal();
        Ok(())
    }

    /// Hands `command` to the core.
    ///
    /// # Errors
    /// [`RequestError`]
    pub fn command(&self, command: C) -> Result<(), RequestError> {
        self.send(Request::Command(command))
    }

    /// UDP: the peer of `port` receives at `peer`. The link starts anew if that is another address
    /// than before.
    ///
    /// # Errors
    /// [`RequestError`]
    pub fn connect(&self, port: PortNum, peer: SocketAddr) -> Result<(), RequestError> {
        self.send(Request::Connect(port, peer))
    }

    /// Has the thread send what is ready, and end.
    ///
    /// # Errors
    /// [`RequestError`]
    pub fn stop(&self) -> Result<(), RequestError> {
        self.send(Request::Stop)
    }
}

impl<C> Clone for Handle<C> {
    fn clone(&self) -> Self {
        Self {
            requests: self.requests.clone(),
            wake: Arc::clone(&self.wake),
        }
    }
}

impl<C> fmt::Debug for Handle<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

/// An event descriptor that two threads share, as tokio wants to hold it.
struct Shared(Arc<EventFd>);

impl AsFd for Shared {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Shared {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// The events of a dataplane thread.
pub struct Events<E> {
    receiver: Receiver<E>,
    wake: AsyncFd<Shared>,
}

impl<E> Events<E> {
    pub(super) fn new(receiver: Receiver<E>, wake: Arc<EventFd>) -> io::Result<Self> {
        Ok(Self {
            receiver,
            wake: register(Shared(wake), Interest::READABLE)?,
        })
    }

    /// The next event; `None` when the thread has ended. Nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// If the runtime cannot wait.
    pub async fn next(&mut self) -> io::Result<Option<E>> {
        loop {
            match self.receiver.try_recv() {
                Ok(event) => return Ok(Some(event)),
                Err(TryRecvError::Disconnected) => return Ok(None),
                Err(TryRecvError::Empty) => {}
            }
            let mut guard = self.wake.readable().await?;
            if !guard.get_inner().0.take()? {
                guard.clear_ready();
            }
        }
    }
}

impl<E> fmt::Debug for Events<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}
