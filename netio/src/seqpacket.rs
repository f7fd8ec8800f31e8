//! Local sockets that keep message bounds: `AF_UNIX SOCK_SEQPACKET`, for tokio and blocking.
//!
//! Both ends check the other's credentials: messages pass only between processes of the same user, or with
//! root's. Messages have a limit ([`MESSAGE_BYTES_MAX`]); a longer one ends the connection.

mod descriptors;
mod listener;
mod socket;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::net::{SendFlags, SocketAddrUnix, getsockname};
use socket2::{Domain, SockRef, Socket, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::NetError;
use crate::poll::register;
pub use descriptors::{DESCRIPTORS_MAX, WithDescriptors};
pub use listener::Listener;
use socket::{
    CONNECT_TIMEOUT, address, check_length, check_peer, connect_error, connect_from, receive, send,
    size_send_buffer, unless_reset,
};

/// The longest message, bytes.
pub const MESSAGE_BYTES_MAX: usize = wire::control::MESSAGE_LEN_MAX;

/// Time between two attempts to connect under tokio while the listener's backlog is full.
const CONNECT_RETRY: Duration = Duration::from_millis(20);

/// Attempts to connect under tokio, which last [`CONNECT_TIMEOUT`].
const CONNECT_ATTEMPTS: u128 = CONNECT_TIMEOUT.as_millis() / CONNECT_RETRY.as_millis();

/// A connection under tokio.
#[derive(Debug)]
pub struct Connection {
    fd: AsyncFd<Socket>,
}

impl Connection {
    /// Connects to `path`; waits a bounded time while the listener's backlog is full. To be called
    /// inside a tokio runtime with IO and time.
    ///
    /// # Errors
    /// `NotFound` or `ConnectionRefused` if no process listens, `PermissionDenied` if the listener is
    /// another user's, `WouldBlock` if its backlog stays full for five seconds.
    pub async fn connect(path: &Path) -> Result<Self, NetError> {
        let connecting = async {
            let (address, _directory) = address(path)?;
            let socket = Socket::new(Domain::UNIX, Type::SEQPACKET.nonblocking(), None)?;
            // The kernel does not tell when there is room in the backlog of a local socket.
            for _ in 0..CONNECT_ATTEMPTS {
                match socket.connect(&address) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        tokio::time::sleep(CONNECT_RETRY).await;
                    }
                    other => return other.map(|()| socket),
                }
            }
            Err(io::Error::from_raw_os_error(libc::EAGAIN))
        };
        connecting
            .await
            .and_then(|socket| check_peer(&socket).map(|()| socket))
            .and_then(Self::new)
            .map_err(|source| connect_error(path, source))
    }

    fn new(socket: Socket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        size_send_buffer(&socket);
        Ok(Self {
            fd: register(socket, Interest::READABLE | Interest::WRITABLE)?,
        })
    }

    /// Sends one message; waits while the peer's queue is full. If the future is dropped the message
    /// has gone whole or not at all.
    ///
    /// # Errors
    /// `InvalidInput` if it is empty or longer than [`MESSAGE_BYTES_MAX`]; `BrokenPipe` if the
    /// peer has left.
    pub async fn send(&self, message: &[u8]) -> io::Result<()> {
        check_length(message)?;
        self.fd
            .async_io(Interest::WRITABLE, |socket| send(socket, message))
            .await
    }

    /// Sends one message if the peer's queue has room now.
    ///
    /// # Errors
    /// As [`Self::send`], and `WouldBlock` if there is no room.
    pub fn try_send(&self, message: &[u8]) -> io::Result<()> {
        check_length(message)?;
        send(self.fd.get_ref(), message)
    }

    /// As [`Self::send`], with copies of descriptors, [`DESCRIPTORS_MAX`] at most.
    ///
    /// # Errors
    /// As [`Self::send`]; `InvalidInput` for too many descriptors.
    pub async fn send_with(
        &self,
        message: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        check_length(message)?;
        let send = |socket: &Socket| descriptors::send(socket, message, descriptors);
        self.fd.async_io(Interest::WRITABLE, send).await
    }

    /// As [`Self::receive`], with the descriptors that come with the message.
    ///
    /// # Errors
    /// As [`Self::receive`]; `InvalidData` for more than [`DESCRIPTORS_MAX`] descriptors.
    pub async fn receive_with(&self) -> io::Result<Option<WithDescriptors>> {
        let received = self.fd.async_io(Interest::READABLE, descriptors::receive);
        unless_reset(received.await)
    }

    /// The next message if one waits; `None` when the peer has left.
    ///
    /// # Errors
    /// As [`Self::receive`], and `WouldBlock` if none waits.
    pub fn try_receive(&self) -> io::Result<Option<Vec<u8>>> {
        unless_reset(receive(self.fd.get_ref()))
    }

    /// The next message; `None` when the peer has left. Nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// `InvalidData` if the peer sends one longer than [`MESSAGE_BYTES_MAX`].
    pub async fn receive(&self) -> io::Result<Option<Vec<u8>>> {
        unless_reset(self.fd.async_io(Interest::READABLE, receive).await)
    }
}

/// A blocking connection.
#[derive(Debug)]
pub struct BlockingConnection {
    socket: Socket,
}

impl BlockingConnection {
    /// Connects to `path`; sending and receiving then take `timeout` at most.
    ///
    /// # Errors
    /// As [`Connection::connect`].
    pub fn connect(path: &Path, timeout: Duration) -> Result<Self, NetError> {
        Self::connect_as(path, None, timeout)
    }

    /// As [`Self::connect`], with an abstract name (unix(7)) as this end's own address: every process
    /// that has the descriptor can read it there ([`name_of`]).
    ///
    /// # Errors
    /// As [`Connection::connect`], and `AddrInUse` if another socket of this network namespace has the name.
    pub fn connect_named(path: &Path, name: &str, timeout: Duration) -> Result<Self, NetError> {
        Self::connect_as(path, Some(name), timeout)
    }

    fn connect_as(path: &Path, name: Option<&str>, timeout: Duration) -> Result<Self, NetError> {
        let connected = connect_from(path, name).and_then(|socket| {
            socket.set_read_timeout(Some(timeout))?;
            socket.set_write_timeout(Some(timeout))?;
            size_send_buffer(&socket);
            Ok(Self { socket })
        });
        connected.map_err(|source| connect_error(path, source))
    }

    /// The descriptor, which does not block any more; it is closed on exec.
    ///
    /// # Errors
    /// The system's error.
    pub fn into_descriptor(self) -> io::Result<OwnedFd> {
        self.socket.set_nonblocking(true)?;
        Ok(self.socket.into())
    }

    /// The descriptor, which programs that this process becomes inherit: the connection stands as long as one
    /// of them has it.
    ///
    /// # Errors
    /// The system's error.
    pub fn into_inherited(self) -> io::Result<OwnedFd> {
        let descriptor: OwnedFd = self.socket.into();
        fcntl_setfd(&descriptor, FdFlags::empty())?;
        Ok(descriptor)
    }

    /// Sends one message.
    ///
    /// # Errors
    /// As [`Connection::send`], and `WouldBlock` at the timeout.
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        check_length(message)?;
        send(&self.socket, message)
    }

    /// Sends one message with copies of descriptors, [`DESCRIPTORS_MAX`] at most.
    ///
    /// # Errors
    /// As [`Self::send`]; `InvalidInput` for too many descriptors.
    pub fn send_with(&self, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        check_length(message)?;
        descriptors::send(&self.socket, message, descriptors)
    }

    /// As [`Self::receive`], with the descriptors that come with the message.
    ///
    /// # Errors
    /// As [`Self::receive`]; `InvalidData` for more than [`DESCRIPTORS_MAX`] descriptors.
    pub fn receive_with(&self) -> io::Result<Option<WithDescriptors>> {
        unless_reset(descriptors::receive(&self.socket))
    }

    /// The next message; `None` when the peer has left.
    ///
    /// # Errors
    /// As [`Connection::receive`], and `WouldBlock` at the timeout.
    pub fn receive(&self) -> io::Result<Option<Vec<u8>>> {
        unless_reset(receive(&self.socket))
    }
}

/// Sends one message by a socket that another part of the program owns, with the end of a socket pair, and waits for
/// the reply by the other end. Waits while the peer's queue is full.
///
/// # Errors
/// The system's error; `UnexpectedEof` if the peer leaves without a reply.
pub fn send_with_reply(socket: BorrowedFd<'_>, message: &[u8]) -> io::Result<Vec<u8>> {
    check_length(message)?;
    let (own, theirs) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None)?;
    let sender = SockRef::from(&socket);
    loop {
        match descriptors::send(&sender, message, &[theirs.as_fd()]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait_for_room(socket)?,
            sent => break sent?,
        }
    }
    drop(theirs);
    loop {
        match receive(&own) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            received => break received?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

fn wait_for_room(socket: BorrowedFd<'_>) -> io::Result<()> {
    let mut waiting = [PollFd::from_borrowed_fd(socket, PollFlags::OUT)];
    match rustix::event::poll(&mut waiting, None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Sends one message by a local socket of any kind that another process has handed over, if it takes it now.
///
/// # Errors
/// The system's error: it may be no socket, closed, or full.
pub fn reply_to(socket: impl AsFd, message: &[u8]) -> io::Result<()> {
    check_length(message)?;
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::net::send(socket, message, flags)?;
    Ok(())
}

/// The abstract name that a socket was given as its own address; `None` if it has none.
#[must_use]
pub fn name_of(socket: impl AsFd) -> Option<String> {
    let address = getsockname(socket).ok()?;
    let address = SocketAddrUnix::try_from(address).ok()?;
    String::from_utf8(address.abstract_name()?.to_vec()).ok()
}
