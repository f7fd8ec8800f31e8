//! The listening side.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::Connection;
use super::socket::{address, check_peer};
use crate::NetError;
use crate::poll::register;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// Time between two attempts to accept a connection while the system lacks descriptors or memory.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// A socket that connections come in on. Its path goes with it.
#[derive(Debug)]
pub struct Listener {
    fd: AsyncFd<Socket>,
    path: PathBuf,
}

impl Listener {
    /// Listens at `path`. A socket without a listening process is replaced. To be called
    /// inside a tokio runtime with IO.
    ///
    /// # Errors
    /// `AddrInUse` if a process listens there; else the error of the file system.
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

/// Removes the socket at `path` if no process listens on it.
fn remove_stale(path: &Path, address: &SockAddr) -> io::Result<()> {
    let probe = Socket::new(Domain::UNIX, Type::SEQPACKET.nonblocking(), None)?;
    match probe.connect(address) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        _ => Err(io::Error::from_raw_os_error(libc::EADDRINUSE)),
    }
}
