//! A context's connection to its host: requests, and the replies with their descriptors.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use netio::seqpacket::{BlockingConnection, WithDescriptors};
use rustix::io::Errno;
use uverbs::{Reply, Request};

/// Why something did not work, as an error number of C.
pub(crate) type Result<T> = std::result::Result<T, Errno>;

/// How long the host may take to answer.
const HOST_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection; requests of several threads go one after the other.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: Mutex<BlockingConnection>,
    /// A reply has not come in time or made no sense: what comes now may belong to another request.
    broken: AtomicBool,
}

/// An error of the system as an error number of C.
pub(crate) fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

impl Connection {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let connected = BlockingConnection::connect(path, HOST_TIMEOUT);
        Ok(Self {
            socket: Mutex::new(connected.map_err(|error| errno(&error.cause))?),
            broken: AtomicBool::new(false),
        })
    }

    /// Asks the host; its reply, and the descriptors that came with it.
    pub(crate) fn ask(
        &self,
        request: &Request,
        sent: &[BorrowedFd<'_>],
    ) -> Result<(Reply, Vec<OwnedFd>)> {
        let message = wire::control::encode(request).map_err(|_| Errno::INVAL)?;
        let socket = self.socket.lock().map_err(|_| Errno::IO)?;
        if self.broken.load(Ordering::Relaxed) {
            return Err(Errno::IO);
        }
        match exchange(&socket, &message, sent) {
            Some((Reply::Refused { errno, .. }, _)) => {
                Err(Errno::from_raw_os_error(errno.max(1).into()))
            }
            Some(replied) => Ok(replied),
            None => {
                self.broken.store(true, Ordering::Relaxed);
                Err(Errno::IO)
            }
        }
    }
}

/// Repeats what a signal of the program has interrupted.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> Option<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other.ok(),
        }
    }
}

fn exchange(
    socket: &BlockingConnection,
    message: &[u8],
    sent: &[BorrowedFd<'_>],
) -> Option<(Reply, Vec<OwnedFd>)> {
    uninterrupted(|| socket.send_with(message, sent))?;
    let received: Option<WithDescriptors> = uninterrupted(|| socket.receive_with())?;
    let (message, descriptors) = received?;
    let reply = wire::control::decode(&message).ok()?;
    Some((reply, descriptors))
}
