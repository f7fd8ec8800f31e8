//! The control thread's side: requests in, events out.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TryRecvError, TrySendError};
use thiserror::Error;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use wire::PortNum;
use wire::udplink::UdpEndpoint;

use super::tap::Tap;
use crate::poll::{EventFd, register};
use crate::transport::{CableEnd, TunnelPeer};

/// A request of the control thread to the dataplane thread.
#[derive(Debug)]
pub(super) enum Request<C> {
    /// For the core.
    Command(C),
    /// UDP: the peer of a port.
    Connect(PortNum, UdpEndpoint),
    /// Tunnel: the peer of a port.
    ConnectTunnel(PortNum, Box<TunnelPeer>),
    /// Shared memory: the cable of a port.
    Attach(PortNum, Box<CableEnd>),
    /// Show a capture the packets of a port.
    Tap(Box<Tap>),
    /// End the capture of this number.
    Untap(u64),
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
    /// The thread has taken requests, or has ended.
    room: Arc<Notify>,
}

impl<C> Handle<C> {
    pub(super) fn new(requests: Sender<Request<C>>, wake: Arc<EventFd>, room: Arc<Notify>) -> Self {
        Self {
            requests,
            wake,
            room,
        }
    }

    /// Sends `request`, or gives it back if there is no room for it now.
    fn offer(&self, request: Request<C>) -> Result<Option<Request<C>>, RequestError> {
        match self.requests.try_send(request) {
            Ok(()) => {
                self.wake.signal();
                Ok(None)
            }
            Err(TrySendError::Full(request)) => Ok(Some(request)),
            Err(TrySendError::Disconnected(_)) => Err(RequestError::Ended),
        }
    }

    fn send(&self, request: Request<C>) -> Result<(), RequestError> {
        match self.offer(request)? {
            None => Ok(()),
            Some(_) => Err(RequestError::Full),
        }
    }

    /// Sends `request` as soon as there is room for it.
    async fn send_when_room(&self, mut request: Request<C>) -> Result<(), RequestError> {
        loop {
            let mut room = std::pin::pin!(self.room.notified());
            // From here on no room is missed.
            room.as_mut().enable();
            match self.offer(request)? {
                None => return Ok(()),
                Some(back) => request = back,
            }
            room.await;
        }
    }

    async fn send_within(
        &self,
        request: Request<C>,
        timeout: Duration,
    ) -> Result<(), RequestError> {
        let sent = tokio::time::timeout(timeout, self.send_when_room(request));
        sent.await.unwrap_or(Err(RequestError::Full))
    }

    /// Hands `command` to the core.
    ///
    /// # Errors
    /// [`RequestError`]
    pub fn command(&self, command: C) -> Result<(), RequestError> {
        self.send(Request::Command(command))
    }

    /// Puts `command` where the thread will find it, without waking it: [`Self::wake`] does that, once for
    /// many. `Some` is the command back if there is no room.
    ///
    /// # Errors
    /// [`RequestError::Ended`]
    pub fn queue(&self, command: C) -> Result<Option<C>, RequestError> {
        match self.requests.try_send(Request::Command(command)) {
            Ok(()) => Ok(None),
            Err(TrySendError::Full(Request::Command(command))) => Ok(Some(command)),
            Err(TrySendError::Full(_)) => Err(RequestError::Full),
            Err(TrySendError::Disconnected(_)) => Err(RequestError::Ended),
        }
    }

    /// Has the thread take what is queued.
    pub fn wake(&self) {
        self.wake.signal();
    }

    /// Hands `command` to the core; waits for room, `timeout` at most. If the future is dropped the
    /// command has been sent or not. To be called inside a tokio runtime with time.
    ///
    /// # Errors
    /// [`RequestError`]
    pub async fn command_within(&self, command: C, timeout: Duration) -> Result<(), RequestError> {
        self.send_within(Request::Command(command), timeout).await
    }

    /// UDP: the peer of `port` is `peer`. The link starts anew if that is another one, or another
    /// life of it, than before.
    ///
    /// # Errors
    /// [`RequestError`]
    pub fn connect(&self, port: PortNum, peer: UdpEndpoint) -> Result<(), RequestError> {
        self.send(Request::Connect(port, peer))
    }

    /// Tunnel: the peer of `port` is `peer`. The link starts anew if that is another one, or another
    /// life of it, than before.
    ///
    /// # Errors
    /// [`RequestError`]
    pub fn connect_tunnel(&self, port: PortNum, peer: TunnelPeer) -> Result<(), RequestError> {
        self.send(Request::ConnectTunnel(port, Box::new(peer)))
    }

    /// Shared memory: the cable of `port` is this one from now on. The link starts anew.
    ///
    /// # Errors
    /// [`RequestError`]
    pub fn attach(&self, port: PortNum, end: CableEnd) -> Result<(), RequestError> {
        self.send(Request::Attach(port, Box::new(end)))
    }

    /// Has the thread show a capture the packets of its port from now on.
    ///
    /// # Errors
    /// [`RequestError`]
    pub fn tap(&self, tap: Tap) -> Result<(), RequestError> {
        self.send(Request::Tap(Box::new(tap)))
    }

    /// Has the thread end the capture of that number.
    ///
    /// # Errors
    /// [`RequestError`]
    pub fn untap(&self, number: u64) -> Result<(), RequestError> {
        self.send(Request::Untap(number))
    }

    /// Has the thread send what is ready, and end.
    ///
    /// # Errors
    /// [`RequestError`]
    pub fn stop(&self) -> Result<(), RequestError> {
        self.send(Request::Stop)
    }

    /// As [`Self::stop`]; waits for room, `timeout` at most. To be called inside a tokio runtime with
    /// time.
    ///
    /// # Errors
    /// [`RequestError`]
    pub async fn stop_within(&self, timeout: Duration) -> Result<(), RequestError> {
        self.send_within(Request::Stop, timeout).await
    }
}

impl<C> Clone for Handle<C> {
    fn clone(&self) -> Self {
        Self {
            requests: self.requests.clone(),
            wake: Arc::clone(&self.wake),
            room: Arc::clone(&self.room),
        }
    }
}

impl<C> fmt::Debug for Handle<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

/// An event descriptor that two threads share, as tokio holds it.
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
            guard.get_inner().0.take()?;
            // It is unreadable from here on: the next signal makes it ready again.
            guard.clear_ready();
        }
    }
}

impl<E> fmt::Debug for Events<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}
