//! The system calls below connections: addresses, credentials of the peer, one message each way.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::{RecvFlags, SocketAddrUnix, bind, recv};
use socket2::{Domain, SockAddr, Socket, Type};

use super::MESSAGE_BYTES_MAX;
use crate::NetError;
use crate::error::check;
use crate::process::effective_uid;

/// The longest path that fits into a socket address (`sun_path` less its NUL).
const PATH_BYTES_MAX: usize = 107;

/// How long a connection may wait for room in the listener's backlog.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Connects to `path`, from the abstract address `name` if there is one.
pub(super) fn connect_from(path: &Path, name: Option<&str>) -> io::Result<Socket> {
    let (address, _directory) = address(path)?;
    let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None)?;
    if let Some(name) = name {
        bind(
            &socket,
            &SocketAddrUnix::new_abstract_name(name.as_bytes())?,
        )?;
    }
    socket.set_write_timeout(Some(CONNECT_TIMEOUT))?;
    socket.connect(&address)?;
    socket.set_write_timeout(None)?;
    check_peer(&socket)?;
    Ok(socket)
}

pub(super) fn connect_error(path: &Path, source: io::Error) -> NetError {
    let absent = matches!(
        source.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    );
    let foreign = source.kind() == io::ErrorKind::PermissionDenied;
    let error = NetError::new(format!("connect to {}", path.display()), source);
    if absent {
        error.with_remedy("no process listens there; is the fabric up?")
    } else if foreign {
        error.with_remedy("it belongs to another user; act as that user or as root")
    } else {
        error
    }
}

/// The address of `path`. One that is too long for an address is reached through its directory's
/// descriptor, which must live until the address has been used.
pub(super) fn address(path: &Path) -> io::Result<(SockAddr, Option<File>)> {
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

/// Whether the peer runs as this process's user, or as root.
pub(super) fn check_peer(socket: &Socket) -> io::Result<()> {
    // By hand: rustix's type for this has no value for process 0, which is what the kernel states for a
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
pub(super) fn size_send_buffer(socket: &Socket) {
    let wanted = 2 * MESSAGE_BYTES_MAX;
    if socket.send_buffer_size().is_ok_and(|size| size < wanted) {
        // Short messages work without.
        let _ = socket.set_send_buffer_size(wanted);
    }
}

pub(super) fn check_length(message: &[u8]) -> io::Result<()> {
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

pub(super) fn send(socket: &Socket, message: &[u8]) -> io::Result<()> {
    socket
        .send_with_flags(message, libc::MSG_NOSIGNAL)
        .map(drop)
}

thread_local! {
    /// Room for a message, which is made at the first one: pages of it that no message reaches take no memory.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Receives one message, by one system call.
pub(super) fn receive(socket: &Socket) -> io::Result<Option<Vec<u8>>> {
    ROOM.with_borrow_mut(|room| {
        if room.is_empty() {
            *room = vec![0; MESSAGE_BYTES_MAX];
        }
        let (filled, length) = recv(socket, room.as_mut_slice(), RecvFlags::TRUNC)?;
        if length > MESSAGE_BYTES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a message of {length} bytes, above the limit of {MESSAGE_BYTES_MAX}"),
            ));
        }
        Ok((length > 0).then(|| room[..filled].to_vec()))
    })
}

/// What was received; a peer that closed with messages of this end unread counts as one that has left.
pub(super) fn unless_reset<T>(result: io::Result<Option<T>>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(None),
        other => other,
    }
}
