//! Local sockets that keep message bounds: `AF_UNIX SOCK_SEQPACKET`, for tokio and blocking.
//!
//! Both ends check the other's credentials: only processes of the same user, or root, are spoken
//! to. Messages have a limit ([`MESSAGE_BYTES_MAX`]); a longer one ends the connection.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::net::{RecvFlags, recv};
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::NetError;
use crate::error::check;
use crate::poll::register;
use crate::process::effective_uid;

/// The longest message, bytes.
pub const MESSAGE_BYTES_MAX: usize = wire::control::MESSAGE_LEN_MAX;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// The longest path that fits into a socket address (`sun_path` less its NUL).
const PATH_BYTES_MAX: usize = 107;

/// Time between two attempts to accept a connection while the system lacks descriptors or memory.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// How long a connection may wait for room in the listener's backlog.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A socket that connections come in on. Its path goes with it.
#[derive(Debug)]
pub struct Listener {
    fd: AsyncFd<Socket>,
    path: PathBuf,
}

impl Listener {
    /// Listens at `path`. A socket that nobody listens on any more is replaced. To be called
    /// inside a tokio runtime with IO.
    ///
    /// # Errors
    /// `AddrInUse` if somebody listens there; else the error of the file system.
    pub fn bind(path: &Path) -> Result<Self, NetError> {
        let failed = |source| NetError::new(format!("listen on {}", path.display()), source);
        let (address, _directory) = address(path).map_err(failed)?;
        let socket =
            Socket::new(Domain::UNIX, Type::SEQPACKET.nonblocking(), None).map_err(failed)?;
        match socket.bind(&address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                remove_stale(path, &address).map_err(failed)?;
                socket.bind(&address).map_err(failed)?;
            }
            other => other.map_err(failed)?,
        }
        socket.listen(BACKLOG).map_err(failed)?;
        Ok(Self {
            fd: register(socket, Interest::READABLE).map_err(failed)?,
            path: path.to_owned(),
        })
    }

    /// The next connection. Those of other users are closed and logged. While the system has no
    /// descriptor or memory for one, connections wait. To be called inside a tokio runtime with
    /// time.
    ///
    /// # Errors
    /// If the socket fails.
    pub async fn accept(&self) -> io::Result<Connection> {
        let mut short = false;
        loop {
            let accepted = self
                .fd
                .async_io(Interest::READABLE, |socket| socket.accept())
                .await;
            let socket = match accepted {
                Ok((socket, _)) => socket,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) if is_shortage(&error) => {
                    if !short {
                        tracing::warn!("{}: connections wait: {error}", self.path.display());
                    }
                    short = true;
                    tokio::time::sleep(ACCEPT_RETRY).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            if let Err(error) = check_peer(&socket) {
                tracing::warn!("{}: connection refused: {error}", self.path.display());
                continue;
            }
            match Connection::new(socket) {
                Ok(connection) => return Ok(connection),
                Err(error) => {
                    // The runtime can watch no more at the moment; those that it watches go on.
                    tracing::warn!("{}: a connection was closed: {error}", self.path.display());
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }
}

/// Whether the system lacks what a connection takes; others may give it back.
fn is_shortage(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

impl Drop for Listener {
    fn drop(&mut self) {
        // A path that is gone already is as good.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A connection under tokio.
#[derive(Debug)]
pub struct Connection {
    fd: AsyncFd<Socket>,
}

impl Connection {
    /// Connects to `path`. To be called inside a tokio runtime with IO.
    ///
    /// # Errors
    /// `NotFound` or `ConnectionRefused` if nobody listens, `PermissionDenied` if the listener is
    /// another user's.
    pub fn connect(path: &Path) -> Result<Self, NetError> {
        connect(path)
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

    /// The next message if one waits; `None` when the peer has left.
    ///
    /// # Errors
    /// As [`Self::receive`], and `WouldBlock` if none waits.
    pub fn try_receive(&self) -> io::Result<Option<Vec<u8>>> {
        received(receive(self.fd.get_ref()))
    }

    /// The next message; `None` when the peer has left. Nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// `InvalidData` if the peer sends one longer than [`MESSAGE_BYTES_MAX`].
    pub async fn receive(&self) -> io::Result<Option<Vec<u8>>> {
        received(self.fd.async_io(Interest::READABLE, receive).await)
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
        connect(path)
            .and_then(|socket| {
                socket.set_read_timeout(Some(timeout))?;
                socket.set_write_timeout(Some(timeout))?;
                size_send_buffer(&socket);
                Ok(Self { socket })
            })
            .map_err(|source| connect_error(path, source))
    }

    /// Sends one message.
    ///
    /// # Errors
    /// As [`Connection::send`], and `WouldBlock` at the timeout.
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        check_length(message)?;
        send(&self.socket, message)
    }

    /// The next message; `None` when the peer has left.
    ///
    /// # Errors
    /// As [`Connection::receive`], and `WouldBlock` at the timeout.
    pub fn receive(&self) -> io::Result<Option<Vec<u8>>> {
        received(receive(&self.socket))
    }
}

/// A peer that left with messages of ours unread has left, no more.
fn received(result: io::Result<Option<Vec<u8>>>) -> io::Result<Option<Vec<u8>>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(None),
        other => other,
    }
}

fn connect(path: &Path) -> io::Result<Socket> {
    let (address, _directory) = address(path)?;
    let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None)?;
    socket.set_write_timeout(Some(CONNECT_TIMEOUT))?;
    socket.connect(&address)?;
    socket.set_write_timeout(None)?;
    check_peer(&socket)?;
    Ok(socket)
}

fn connect_error(path: &Path, source: io::Error) -> NetError {
    let absent = matches!(
        source.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    );
    let foreign = source.kind() == io::ErrorKind::PermissionDenied;
    let error = NetError::new(format!("connect to {}", path.display()), source);
    if absent {
        error.with_remedy("nobody listens there; is the fabric up?")
    } else if foreign {
        error.with_remedy("it belongs to another user; act as that user or as root")
    } else {
        error
    }
}

/// The address of `path`. One that is too long for an address is reached through its directory's
/// descriptor, which must live until the address has been used.
fn address(path: &Path) -> io::Result<(SockAddr, Option<File>)> {
    if path.as_os_str().len() <= PATH_BYTES_MAX {
        return Ok((SockAddr::unix(path)?, None));
    }
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    };
    let directory = File::options()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
        .open(directory)?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name);
    Ok((SockAddr::unix(short)?, Some(directory)))
}

/// Removes the socket at `path` if nobody listens on it.
fn remove_stale(path: &Path, address: &SockAddr) -> io::Result<()> {
    let probe = Socket::new(Domain::UNIX, Type::SEQPACKET.nonblocking(), None)?;
    match probe.connect(address) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        _ => Err(io::Error::from_raw_os_error(libc::EADDRINUSE)),
    }
}

/// Whether the peer runs as this process's user, or as root.
fn check_peer(socket: &Socket) -> io::Result<()> {
    // By hand: rustix's type for this has no value for process 0, which is what the kernel tells of a
    // peer in another pid namespace.
    let mut credentials = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut length = libc::socklen_t::try_from(size_of::<libc::ucred>()).unwrap_or(0);
    // SAFETY: `credentials` is writable for `length` bytes, which is its size.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut length,
        )
    })?;
    if credentials.uid == 0 || credentials.uid == effective_uid() {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("the peer's user is {}", credentials.uid),
    ))
}

/// Room for two of the longest messages. Where the system's limit is lower, long messages fail with
/// `EMSGSIZE`.
fn size_send_buffer(socket: &Socket) {
    let wanted = 2 * MESSAGE_BYTES_MAX;
    if socket.send_buffer_size().is_ok_and(|size| size < wanted) {
        // Short messages work without.
        let _ = socket.set_send_buffer_size(wanted);
    }
}

fn check_length(message: &[u8]) -> io::Result<()> {
    if message.is_empty() || message.len() > MESSAGE_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "a message has 1 to {MESSAGE_BYTES_MAX} bytes, not {}",
                message.len()
            ),
        ));
    }
    Ok(())
}

fn send(socket: &Socket, message: &[u8]) -> io::Result<()> {
    socket
        .send_with_flags(message, libc::MSG_NOSIGNAL)
        .map(drop)
}

/// Receives one message: its length first, so that only that much is allocated.
fn receive(socket: &Socket) -> io::Result<Option<Vec<u8>>> {
    let length = socket.recv_with_flags(&mut [], libc::MSG_PEEK | libc::MSG_TRUNC)?;
    if length == 0 {
        return Ok(None);
    }
    if length > MESSAGE_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a message of {length} bytes, above the limit of {MESSAGE_BYTES_MAX}"),
        ));
    }
    let mut message = Vec::with_capacity(length);
    recv(socket, spare_capacity(&mut message), RecvFlags::empty())?;
    Ok(Some(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(directory: &tempfile::TempDir) -> PathBuf {
        directory.path().join("s")
    }

    #[tokio::test]
    async fn messages_keep_their_bounds_and_the_end_is_seen() {
        let directory = tempfile::tempdir().unwrap();
        let listener = Listener::bind(&path(&directory)).unwrap();
        let client = Connection::connect(&path(&directory)).unwrap();
        let server = listener.accept().await.unwrap();
        client.send(b"one").await.unwrap();
        client.send(&vec![7; MESSAGE_BYTES_MAX]).await.unwrap();
        assert_eq!(server.receive().await.unwrap().unwrap(), b"one");
        let long = server.receive().await.unwrap().unwrap();
        assert_eq!(long.len(), MESSAGE_BYTES_MAX);
        drop(client);
        assert_eq!(server.receive().await.unwrap(), None);
    }

    #[tokio::test]
    async fn an_overlong_message_is_refused_at_the_sender() {
        let directory = tempfile::tempdir().unwrap();
        let _listener = Listener::bind(&path(&directory)).unwrap();
        let client = Connection::connect(&path(&directory)).unwrap();
        let error = client.send(&vec![0; MESSAGE_BYTES_MAX + 1]).await;
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = path(&directory);
        // A socket whose owner was killed leaves its path behind.
        let dead = Socket::new(Domain::UNIX, Type::SEQPACKET, None).unwrap();
        dead.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        drop(dead);
        assert!(path.exists());

        let listener = Listener::bind(&path).unwrap();
        let error = Listener::bind(&path).unwrap_err();
        assert_eq!(error.cause.kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        assert!(!path.exists());
        let error = Connection::connect(&path).unwrap_err();
        assert!(error.to_string().contains("nobody listens"), "{error}");
    }

    #[tokio::test]
    async fn a_path_longer_than_a_socket_address_works() {
        let directory = tempfile::tempdir().unwrap();
        let deep = directory.path().join("d".repeat(120));
        std::fs::create_dir(&deep).unwrap();
        let path = deep.join("name.ctl");
        let listener = Listener::bind(&path).unwrap();
        let client = Connection::connect(&path).unwrap();
        let server = listener.accept().await.unwrap();
        client.send(b"x").await.unwrap();
        assert_eq!(server.receive().await.unwrap().unwrap(), b"x");
    }
}
