//! Channels: descriptors in place of the device's, and commands to the host.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use netio::seqpacket::{BlockingConnection, send_with_reply};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::net::{RecvFlags, recv};
use uverbs::cm::{CmReply, CmRequest, SOCKET, VERSION, errno};

/// Descriptors that can be channels: those below.
const DESCRIPTORS: usize = 1 << 16;
/// How long the host may take to open a channel.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// The number of the channel of each descriptor; 0 for none.
static CHANNELS: [AtomicU64; DESCRIPTORS] = [const { AtomicU64::new(0) }; DESCRIPTORS];

fn slot(descriptor: i32) -> Option<&'static AtomicU64> {
    CHANNELS.get(usize::try_from(descriptor).ok()?)
}

/// The number of a descriptor's channel; 0 if it is none.
pub(crate) fn number(descriptor: i32) -> u64 {
    slot(descriptor).map_or(0, |slot| slot.load(Ordering::Acquire))
}

pub(crate) fn forget(descriptor: i32) {
    if let Some(slot) = slot(descriptor)
        && slot.load(Ordering::Relaxed) != 0
    {
        slot.store(0, Ordering::Release);
    }
}

pub(crate) fn remember(descriptor: i32, channel: u64) -> Result<(), Errno> {
    let slot = slot(descriptor).ok_or(Errno::MFILE)?;
    slot.store(channel, Ordering::Release);
    Ok(())
}

/// The host's socket, as `ibemu exec` has told it; `None` for a program that was not started so.
pub(crate) fn socket() -> Option<PathBuf> {
    std::env::var_os(SOCKET).map(PathBuf::from)
}

/// Opens a channel with the flags of `open`: the descriptor and its number.
///
/// # Errors
/// `ENODEV` if the host does not answer, or `EMFILE`.
pub(crate) fn open(flags: OFlags) -> Result<(OwnedFd, u64), Errno> {
    let path = socket().ok_or(Errno::NOENT)?;
    let no_device = |_| Errno::NODEV;
    let connection = BlockingConnection::connect(&path, OPEN_TIMEOUT).map_err(no_device)?;
    let open = CmRequest::Open { version: VERSION };
    let message = wire::control::encode(&open).map_err(|_| Errno::IO)?;
    connection.send(&message).map_err(|_| Errno::NODEV)?;
    let reply = connection.receive().ok().flatten().ok_or(Errno::NODEV)?;
    let reply: CmReply = wire::control::decode(&reply).map_err(|_| Errno::IO)?;
    if reply.errno != 0 {
        return Err(Errno::from_raw_os_error(reply.errno.into()));
    }
    let number = <[u8; 8]>::try_from(reply.bytes).map_err(|_| Errno::IO)?;
    let descriptor = connection.into_descriptor().map_err(|_| Errno::IO)?;
    if !flags.contains(OFlags::NONBLOCK) {
        let all = fcntl_getfl(&descriptor)?;
        fcntl_setfl(&descriptor, all - OFlags::NONBLOCK)?;
    }
    if !flags.contains(OFlags::CLOEXEC) {
        fcntl_setfd(&descriptor, FdFlags::empty())?;
    }
    rustix::net::sockopt::set_socket_timeout(
        &descriptor,
        rustix::net::sockopt::Timeout::Recv,
        None,
    )?;
    Ok((descriptor, u64::from_ne_bytes(number)))
}

/// What became of a command.
pub(crate) enum Outcome {
    /// It is done: what the kernel would have written.
    Done(Vec<u8>),
    /// An event was asked for, and none waits.
    NoEvent,
}

/// Has the host do a command.
///
/// # Errors
/// What the host says; `ENODEV` if it is gone.
pub(crate) fn command(
    descriptor: BorrowedFd<'_>,
    bytes: Vec<u8>,
    value: Vec<u8>,
    other: u64,
) -> Result<Outcome, Errno> {
    let request = CmRequest::Command {
        bytes,
        value,
        channel: other,
    };
    let message = wire::control::encode(&request).map_err(|_| Errno::IO)?;
    let reply = send_with_reply(descriptor, &message).map_err(|error| {
        // The number is another file's by now, closed without this library's knowledge.
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(errno @ (Errno::NOTSOCK | Errno::BADF)) => errno,
            _ => Errno::NODEV,
        }
    })?;
    let reply: CmReply = wire::control::decode(&reply).map_err(|_| Errno::IO)?;
    if reply.take_token {
        // One that another thread has taken is not there any more.
        let _ = recv(descriptor, &mut [0u8; 8][..], RecvFlags::DONTWAIT);
    }
    match reply.errno {
        0 => Ok(Outcome::Done(reply.bytes)),
        errno::EAGAIN => Ok(Outcome::NoEvent),
        errno => Err(Errno::from_raw_os_error(errno.into())),
    }
}

/// Whether waiting is not wanted.
pub(crate) fn is_nonblocking(descriptor: impl AsFd) -> bool {
    fcntl_getfl(descriptor).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK))
}
