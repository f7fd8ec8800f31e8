//! `epoll` and event descriptors: where the dataplane thread sleeps, and what wakes it.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::{Errno, ioctl_fionbio};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use wire::convert::saturate;

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

/// An epoll instance.
pub(crate) struct Epoll {
    fd: OwnedFd,
    /// The descriptors that the last wait found ready.
    ready: Vec<Ready>,
}

impl Epoll {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            fd: epoll::create(CreateFlags::CLOEXEC)?,
            ready: Vec::with_capacity(EVENTS_MAX),
        })
    }

    /// Watches `fd` for input under `token`: each wait finds it as long as there is some.
    pub(crate) fn add(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        epoll::add(&self.fd, fd, EventData::new_u64(token), EventFlags::IN)?;
        Ok(())
    }

    /// Watches `fd` for input under `token`: a wait finds it when more has come since the last one that did, so
    /// that the kernel need not look again at what has been read.
    pub(crate) fn add_for_more(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&self.fd, fd, EventData::new_u64(token), flags)?;
        Ok(())
    }

    /// Watches a descriptor of [`Self::add_for_more`] also for room to write if `writable`. The next wait finds it if
    /// there is either.
    pub(crate) fn modify(&self, fd: impl AsFd, token: u64, writable: bool) -> io::Result<()> {
        let mut flags = EventFlags::IN | EventFlags::ET;
        flags.set(EventFlags::OUT, writable);
        epoll::modify(&self.fd, fd, EventData::new_u64(token), flags)?;
        Ok(())
    }

    /// Watches `fd` no longer, though another process may have it still.
    pub(crate) fn remove(&self, fd: impl AsFd) {
        // One that is not watched is as good.
        let _ = epoll::delete(&self.fd, fd);
    }

    /// Finds nothing ready, without looking.
    pub(crate) fn skip(&mut self) {
        self.ready.clear();
    }

    /// Sleeps until a descriptor is ready or `timeout_ns` have passed (`None`: for ever). The ready
    /// ones are in [`Self::ready`]. An interruption by a signal is an empty result.
    pub(crate) fn wait(&mut self, timeout_ns: Option<u64>) -> io::Result<()> {
        let timeout = timeout_ns.map(|ns| Timespec {
            tv_sec: saturate(ns / 1_000_000_000),
            tv_nsec: saturate(ns % 1_000_000_000),
        });
        self.ready.clear();
        let mut events = [MaybeUninit::uninit(); EVENTS_MAX];
        // epoll_pwait2 below, by rustix's feature linux_5_11: its timeout counts nanoseconds, that
        // of epoll_wait milliseconds.
        match epoll::wait(&self.fd, &mut events, timeout.as_ref()) {
            Ok((events, _)) => {
                self.ready.extend(events.iter().map(|event| {
                    let flags = event.flags;
                    Ready {
                        token: event.data.u64(),
                        writable: flags.contains(EventFlags::OUT),
                    }
                }));
                Ok(())
            }
            Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// How many descriptors the last wait found ready.
    pub(crate) fn len(&self) -> usize {
        self.ready.len()
    }

    /// The `index`th descriptor that the last wait found ready.
    pub(crate) fn ready(&self, index: usize) -> Ready {
        self.ready[index]
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
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(eventfd(0, flags)?))
    }

    /// An event descriptor that another process has made: signalling never waits.
    pub(crate) fn of_another(fd: OwnedFd) -> io::Result<Self> {
        ioctl_fionbio(&fd, true)?;
        Ok(Self(fd))
    }

    /// The descriptor.
    pub(crate) fn into_descriptor(self) -> OwnedFd {
        self.0
    }

    /// Makes it readable. A counter that is full is readable already, so no error matters.
    pub(crate) fn signal(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Makes it unreadable again; whether it was readable.
    pub(crate) fn take(&self) -> io::Result<bool> {
        match rustix::io::read(&self.0, &mut [0u8; 8]) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(error.into()),
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
    fn what_is_watched_for_more_is_found_once_each_time_that_there_is_more() {
        let mut epoll = Epoll::new().unwrap();
        let event = EventFd::new().unwrap();
        epoll.add_for_more(&event, 7).unwrap();
        let mut found = || {
            epoll.wait(Some(1_000)).unwrap();
            epoll.len()
        };
        event.signal();
        assert_eq!([found(), found()], [1, 0], "nobody has read it");
        event.signal();
        assert_eq!([found(), found()], [1, 0]);
        epoll.modify(&event, 7, true).unwrap();
        epoll.wait(None).unwrap();
        assert!(epoll.ready(0).writable);
    }

    #[test]
    fn a_wait_ends_at_its_timeout_and_finds_what_was_signalled() {
        let mut epoll = Epoll::new().unwrap();
        let event = EventFd::new().unwrap();
        epoll.add(&event, 7).unwrap();
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
