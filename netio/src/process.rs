//! Processes by descriptor (never by a number that may have been given to another), and limits.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, geteuid, getpid, getppid, getrlimit, pidfd_open,
    pidfd_send_signal, set_child_subreaper, set_parent_process_death_signal, setrlimit, setsid,
};
use tokio::io::Interest;

use crate::NetError;
use crate::poll::register;

pub use rustix::process::Signal;

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
        let fd = i32::try_from(pid)
            .ok()
            .and_then(Pid::from_raw)
            .ok_or(Errno::SRCH)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
            .map_err(|cause| NetError::new(format!("take hold of process {pid}"), cause.into()))?;
        Ok(Self { pid, fd })
    }

    /// The process's number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends `signal` to the process.
    ///
    /// # Errors
    /// `ESRCH` if it has ended and was reaped, `EPERM` if it is another user's.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.fd, signal)?)
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
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
        match poll(&mut fds, Some(&timeout)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
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

/// Has the process of `command` receive `signal` when the thread that starts it ends. It does not start if that has
/// ended already.
pub fn end_with_parent(command: &mut Command, signal: Signal) {
    let parent = getpid();
    // SAFETY: between fork and exec only prctl(2) and getppid(2) are called, which are async-signal-safe and
    // allocate nothing.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(signal))?;
            match getppid() == Some(parent) {
                true => Ok(()),
                false => Err(Errno::SRCH.into()),
            }
        });
    }
}

/// Makes the calling process the parent of those among its descendants whose own parent ends, so that none is lost.
///
/// # Errors
/// The system's error.
pub fn adopt_orphans() -> io::Result<()> {
    // Any process number but none turns it on.
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// A connected local socket that this process has inherited as `descriptor` and nobody else in it uses. It is
/// closed on exec from now on.
///
/// # Errors
/// `InvalidInput` for a number that is no descriptor of a socket, or one of standard input, output and error.
pub fn inherited_stream(descriptor: i32) -> io::Result<UnixStream> {
    let refused = || io::Error::from(io::ErrorKind::InvalidInput);
    if descriptor <= libc::STDERR_FILENO {
        return Err(refused());
    }
    // SAFETY: fstat(2) of any number is sound; it fails for one that is no descriptor.
    let is_socket = unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        libc::fstat(descriptor, &raw mut status) == 0
            && status.st_mode & libc::S_IFMT == libc::S_IFSOCK
    };
    if !is_socket {
        return Err(refused());
    }
    // SAFETY: it is open, and the caller says that it is its own.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC)?;
    Ok(descriptor.into())
}

/// Raises the soft limit of open files to the hard one (as root: to `wanted` if that is more) and
/// returns the limit that now holds.
///
/// # Errors
/// If the limit cannot be set.
pub fn raise_open_files(wanted: u64) -> io::Result<u64> {
    // `None` is no limit.
    let at_most = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
    let limit = getrlimit(Resource::Nofile);
    if at_most(limit.current) >= wanted {
        return Ok(at_most(limit.current));
    }
    let more = Rlimit {
        current: Some(wanted),
        maximum: limit.maximum.map(|maximum| maximum.max(wanted)),
    };
    if setrlimit(Resource::Nofile, more).is_ok() {
        return Ok(wanted);
    }
    let current = at_most(limit.maximum).min(wanted);
    let less = Rlimit {
        current: Some(current),
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, less)?;
    Ok(current)
}

/// Puts the calling thread under `SCHED_BATCH`: a woken thread then no longer pre-empts the one
/// that woke it, so a sender fills its frame before the receiver runs. Failure is harmless.
pub fn schedule_as_batch() {
    let parameters = libc::sched_param { sched_priority: 0 };
    // rustix does not have this call.
    // SAFETY: `parameters` is a valid sched_param; 0 names the calling thread.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters) } < 0 {
        tracing::debug!("SCHED_BATCH refused: {}", io::Error::last_os_error());
    }
}

/// Makes a write beyond the limit of file sizes (`RLIMIT_FSIZE`) fail with `EFBIG`; without this it
/// ends the process. Programs that the process starts inherit it.
pub fn survive_file_size_limit() {
    // SAFETY: to ignore a signal runs no code of ours in a handler. The call fails for numbers that are
    // no signals only.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Makes the calling process the leader of a session without terminal: the signals of the terminal
/// it was started from no longer reach it. A leader of a process group stays where it is.
pub fn new_session() {
    // It fails, and changes nothing, for leaders of a group.
    let _ = setsid();
}

/// Bytes of a page of memory.
#[must_use]
pub fn page_bytes() -> u64 {
    wire::convert::u64_of(rustix::param::page_size())
}

/// The calling process's effective user id.
#[must_use]
pub fn effective_uid() -> u32 {
    geteuid().as_raw()
}

/// What this machine is called.
#[must_use]
pub fn host_name() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
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
        pidfd.signal(Signal::TERM).unwrap();
        assert!(pidfd.wait(Duration::from_secs(10)).unwrap());
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
        assert_eq!(
            pidfd.signal(Signal::TERM).unwrap_err().raw_os_error(),
            Some(libc::ESRCH),
            "the number may be another's by now, the descriptor never is"
        );
    }

    #[tokio::test]
    async fn the_end_of_a_process_can_be_awaited() {
        let mut child = sleeper();
        let pidfd = Pidfd::open(child.id()).unwrap();
        pidfd.signal(Signal::KILL).unwrap();
        tokio::time::timeout(Duration::from_secs(10), pidfd.ended())
            .await
            .unwrap()
            .unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_process_that_is_to_end_with_its_parent_ends_with_the_thread_that_started_it() {
        let mut child = std::thread::spawn(|| {
            let mut command = Command::new("sleep");
            end_with_parent(command.arg("1000"), Signal::KILL);
            command.spawn().unwrap()
        })
        .join()
        .unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn what_is_no_socket_is_not_taken_for_an_inherited_one() {
        use std::os::fd::IntoRawFd;
        for wrong in [-1, 0, 2, 100_000] {
            assert!(inherited_stream(wrong).is_err(), "{wrong}");
        }
        let (one, mut other) = UnixStream::pair().unwrap();
        let mut taken = inherited_stream(one.into_raw_fd()).unwrap();
        io::Write::write_all(&mut taken, b"x").unwrap();
        let mut byte = [0];
        io::Read::read_exact(&mut other, &mut byte).unwrap();
        assert_eq!(&byte, b"x");
    }

    #[test]
    fn the_limit_of_open_files_is_at_least_what_it_was() {
        let before = raise_open_files(0).unwrap();
        assert!(raise_open_files(before).unwrap() >= before);
    }
}
