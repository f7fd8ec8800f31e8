//! Processes by descriptor (never by a number that may have been given to another), and limits.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::Interest;

use wire::convert::saturate;

use crate::NetError;
use crate::error::check;
use crate::poll::register;

/// A process held by its descriptor: signals reach this process or none.
#[derive(Debug)]
pub struct Pidfd {
    pid: u32,
    fd: OwnedFd,
}

impl Pidfd {
    /// Takes hold of process `pid`.
    ///
    /// # Errors
    /// If there is no such process (`ESRCH`), or the kernel is older than 5.3.
    pub fn open(pid: u32) -> Result<Self, NetError> {
        // SAFETY: pidfd_open takes two integers and returns a new descriptor or -1.
        let result = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let fd = libc::c_int::try_from(result)
            .map_err(io::Error::other)
            .and_then(check)
            .map_err(|source| NetError::new(format!("take hold of process {pid}"), source))?;
        // SAFETY: the descriptor was returned by the call just made; nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { pid, fd })
    }

    /// The process's number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends `signal` (`libc::SIGTERM`, ...) to the process.
    ///
    /// # Errors
    /// `ESRCH` if it has ended and was reaped, `EPERM` if it is another user's.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        let info: *const libc::siginfo_t = std::ptr::null();
        // SAFETY: the descriptor is a pidfd; a null siginfo asks for the one kill(2) would send.
        let result = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.fd.as_raw_fd(),
                signal,
                info,
                0,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Whether the process has ended (it may still wait to be reaped by its parent).
    ///
    /// # Errors
    /// If the descriptor cannot be polled.
    pub fn has_ended(&self) -> io::Result<bool> {
        self.wait(Duration::ZERO)
    }

    /// Waits until the process has ended, `timeout` at most; whether it has.
    ///
    /// # Errors
    /// If the descriptor cannot be polled.
    pub fn wait(&self, timeout: Duration) -> io::Result<bool> {
        let mut poll = libc::pollfd {
            fd: self.fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let timeout_ms = saturate::<i32>(timeout.as_millis());
        // SAFETY: `poll` is one valid pollfd.
        match check(unsafe { libc::poll(&raw mut poll, 1, timeout_ms) }) {
            Ok(ready) => Ok(ready > 0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Resolves when the process has ended. To be called inside a tokio runtime with IO.
    ///
    /// # Errors
    /// If the descriptor cannot be registered with the runtime.
    pub async fn ended(&self) -> io::Result<()> {
        let fd = register(self.fd.as_fd(), Interest::READABLE)?;
        loop {
            let mut guard = fd.readable().await?;
            if self.has_ended()? {
                return Ok(());
            }
            guard.clear_ready();
        }
    }
}

impl AsFd for Pidfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Raises the soft limit of open files to the hard one (as root: to `wanted` if that is more) and
/// returns the limit that now holds.
///
/// # Errors
/// If the limit can be neither read nor set.
pub fn raise_open_files(wanted: u64) -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid rlimit to write to.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    if limit.rlim_cur >= wanted {
        return Ok(limit.rlim_cur);
    }
    let more = libc::rlimit {
        rlim_cur: wanted,
        rlim_max: limit.rlim_max.max(wanted),
    };
    // SAFETY: `more` is a valid rlimit to read.
    if check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const more) }).is_ok() {
        return Ok(more.rlim_cur);
    }
    limit.rlim_cur = limit.rlim_max.min(wanted);
    // SAFETY: `limit` is a valid rlimit to read.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })?;
    Ok(limit.rlim_cur)
}

/// Puts the calling thread under `SCHED_BATCH`: a woken thread then no longer pre-empts the one
/// that woke it, so a sender fills its frame before the receiver runs. Failure is harmless.
pub fn schedule_as_batch() {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: `parameters` is a valid sched_param; 0 names the calling thread.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters) } < 0 {
        tracing::debug!("SCHED_BATCH refused: {}", io::Error::last_os_error());
    }
}

/// Makes the calling process the leader of a session without terminal: the signals of the terminal
/// it was started from no longer reach it. A leader of a process group stays where it is.
pub fn new_session() {
    // SAFETY: setsid takes nothing; it fails (and changes nothing) for leaders of a group.
    unsafe { libc::setsid() };
}

/// The calling process's effective user id.
#[must_use]
pub fn effective_uid() -> u32 {
    // SAFETY: geteuid takes nothing and always succeeds.
    unsafe { libc::geteuid() }
}

/// Where the running program is: other binaries of the project stand beside it.
///
/// # Errors
/// If the system does not tell (`/proc` not mounted).
pub fn own_executable() -> Result<PathBuf, NetError> {
    std::env::current_exe().map_err(|source| NetError::new("find the running program", source))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    use super::*;

    fn sleeper() -> std::process::Child {
        Command::new("sleep")
            .arg("1000")
            .stdin(Stdio::null())
            .spawn()
            .unwrap()
    }

    #[test]
    fn a_process_is_ended_through_its_descriptor() {
        let mut child = sleeper();
        let pidfd = Pidfd::open(child.id()).unwrap();
        assert!(!pidfd.has_ended().unwrap());
        pidfd.signal(libc::SIGTERM).unwrap();
        assert!(pidfd.wait(Duration::from_secs(10)).unwrap());
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
        assert_eq!(
            pidfd.signal(libc::SIGTERM).unwrap_err().raw_os_error(),
            Some(libc::ESRCH),
            "the number may be another's by now, the descriptor never is"
        );
    }

    #[tokio::test]
    async fn the_end_of_a_process_can_be_awaited() {
        let mut child = sleeper();
        let pidfd = Pidfd::open(child.id()).unwrap();
        pidfd.signal(libc::SIGKILL).unwrap();
        tokio::time::timeout(Duration::from_secs(10), pidfd.ended())
            .await
            .unwrap()
            .unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn the_limit_of_open_files_is_at_least_what_it_was() {
        let before = raise_open_files(0).unwrap();
        assert!(raise_open_files(before).unwrap() >= before);
    }
}
