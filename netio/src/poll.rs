//! `epoll` and event descriptors: where the dataplane thread sleeps, and what wakes it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use wire::convert::saturate;

use crate::error::{check, is_would_block};

/// How many ready descriptors one wait returns at most.
const EVENTS_MAX: usize = 64;

/// A ready descriptor: the token it was added with, and what it is ready for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    /// The token given to [`Epoll::add`].
    pub token: u64,
    /// It can be written.
    pub writable: bool,
}

/// A level-triggered epoll instance.
#[derive(Debug)]
pub(crate) struct Epoll {
    fd: OwnedFd,
    events: [libc::epoll_event; EVENTS_MAX],
    ready: usize,
}

impl Epoll {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: epoll_create1 takes one integer and returns a new descriptor or -1.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        Ok(Self {
            // SAFETY: the descriptor was returned by the call just made; nobody else owns it.
            fd: unsafe { OwnedFd::from_raw_fd(fd) },
            events: [libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX],
            ready: 0,
        })
    }

    /// Watches `fd` for input under `token`.
    pub(crate) fn add(&self, fd: RawFd, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, false)
    }

    /// Watches `fd` for input, and for room to write if `writable`.
    pub(crate) fn modify(&self, fd: RawFd, token: u64, writable: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, writable)
    }

    fn control(
        &self,
        operation: libc::c_int,
        fd: RawFd,
        token: u64,
        writable: bool,
    ) -> io::Result<()> {
        let wanted = if writable {
            libc::EPOLLIN | libc::EPOLLOUT
        } else {
            libc::EPOLLIN
        };
        let mut event = libc::epoll_event {
            events: wanted.cast_unsigned(),
            u64: token,
        };
        // SAFETY: both descriptors are plain integers to the kernel; `event` is valid to read.
        check(unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), operation, fd, &raw mut event) })?;
        Ok(())
    }

    /// Sleeps until a descriptor is ready or `timeout_ns` have passed (`None`: for ever). The ready
    /// ones are in [`Self::ready`]. An interruption by a signal is an empty result.
    pub(crate) fn wait(&mut self, timeout_ns: Option<u64>) -> io::Result<()> {
        let mut spec = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let spec_pointer = match timeout_ns {
            None => std::ptr::null(),
            Some(ns) => {
                spec.tv_sec = saturate::<libc::time_t>(ns / 1_000_000_000);
                spec.tv_nsec = libc::c_long::try_from(ns % 1_000_000_000).unwrap_or(0);
                &raw const spec
            }
        };
        let mask: *const libc::sigset_t = std::ptr::null();
        // SAFETY: the event array is valid for EVENTS_MAX entries, the timespec (or null) for the
        // call's time, and a null mask leaves the signals as they are. The wrapper of this call is
        // younger than the oldest C library that we run on.
        let result = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.fd.as_raw_fd(),
                self.events.as_mut_ptr(),
                EVENTS_MAX,
                spec_pointer,
                mask,
                8usize,
            )
        };
        self.ready = 0;
        match usize::try_from(result) {
            Ok(ready) => {
                self.ready = ready.min(EVENTS_MAX);
                Ok(())
            }
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(()),
                error => Err(error),
            },
        }
    }

    /// How many descriptors the last wait found ready.
    pub(crate) fn len(&self) -> usize {
        self.ready
    }

    /// The `index`th descriptor that the last wait found ready.
    pub(crate) fn ready(&self, index: usize) -> Ready {
        let event = self.events[index];
        Ready {
            token: event.u64,
            writable: event.events & libc::EPOLLOUT.cast_unsigned() != 0,
        }
    }
}

/// Has the tokio runtime watch `inner`'s descriptor. `inner` must keep one descriptor open as long as
/// it lives, as everything with [`AsFd`] here does.
pub(crate) fn register<T: AsFd + AsRawFd>(inner: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: `AsFd` lends a descriptor for as long as `inner` lives, and all types that this is
    // called with own theirs (or borrow it for their own lifetime) and never change it.
    unsafe { AsyncFd::register_with_interest(inner, interest) }.map_err(io::Error::from)
}

/// An event descriptor: one thread signals, another sees it readable.
#[derive(Debug)]
pub(crate) struct EventFd(OwnedFd);

impl EventFd {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: eventfd takes two integers and returns a new descriptor or -1.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: the descriptor was returned by the call just made; nobody else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Makes it readable. A counter that is full is readable already, so no error matters.
    pub(crate) fn signal(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: `one` is 8 readable bytes.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Makes it unreadable again; whether it was readable.
    pub(crate) fn take(&self) -> io::Result<bool> {
        let mut count = [0u8; 8];
        // SAFETY: `count` is 8 writable bytes.
        let result = unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), 8) };
        match crate::error::check_len(result) {
            Ok(_) => Ok(true),
            Err(error) if is_would_block(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_at_its_timeout_and_finds_what_was_signalled() {
        let mut epoll = Epoll::new().unwrap();
        let event = EventFd::new().unwrap();
        epoll.add(event.as_raw_fd(), 7).unwrap();
        epoll.wait(Some(1_000)).unwrap();
        assert_eq!(epoll.len(), 0);
        event.signal();
        event.signal();
        epoll.wait(None).unwrap();
        assert_eq!(epoll.len(), 1);
        assert_eq!(epoll.ready(0).token, 7);
        assert!(!epoll.ready(0).writable);
        assert!(event.take().unwrap());
        assert!(!event.take().unwrap(), "two signals are one wake-up");
    }
}
