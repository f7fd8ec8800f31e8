//! Event descriptors and pipes that are shared with programs.

use std::io::{self, PipeReader, PipeWriter};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::{Errno, ioctl_fionbio};

/// Descriptors that one call finds signalled at most.
const SIGNALS_A_CALL: usize = 64;

/// Event descriptors that other processes signal, for the dataplane thread.
///
/// Each is watched for the moment at which it is signalled: its counter is never read, so a process that
/// has it can neither take signals of another one nor keep the thread awake.
#[derive(Clone, Debug)]
pub struct Doorbells(Arc<OwnedFd>);

impl Doorbells {
    /// None yet.
    ///
    /// # Errors
    /// The system's error.
    pub fn new() -> io::Result<Self> {
        let fd = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self(Arc::new(fd)))
    }

    /// A new descriptor, to be sent to another process: writing the number 1, eight bytes, signals.
    ///
    /// # Errors
    /// The system's error.
    pub fn add(&self) -> io::Result<OwnedFd> {
        let doorbell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&*self.0, &doorbell, epoll::EventData::new_u64(0), flags)?;
        Ok(doorbell)
    }

    /// Watches a descriptor of this process for the moments at which there is more to read.
    ///
    /// # Errors
    /// The system's error.
    pub fn watch(&self, descriptor: impl AsFd) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        Ok(epoll::add(
            &*self.0,
            descriptor,
            epoll::EventData::new_u64(0),
            flags,
        )?)
    }

    /// Watches a descriptor no longer, though another process may have it still.
    pub fn remove(&self, doorbell: &OwnedFd) {
        // One that is not watched is as good.
        let _ = epoll::delete(&*self.0, doorbell);
    }

    /// Forgets the signals so far. Whether there were any.
    pub(crate) fn clear(&self) -> io::Result<bool> {
        let mut any = false;
        loop {
            let mut events = [MaybeUninit::uninit(); SIGNALS_A_CALL];
            let (seen, rest) = match epoll::wait(&*self.0, &mut events, Some(&Timespec::default()))
            {
                Ok(found) => found,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            any |= !seen.is_empty();
            if !rest.is_empty() {
                return Ok(any);
            }
        }
    }
}

impl AsFd for Doorbells {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Signals an event descriptor of another process.
pub fn signal(descriptor: impl AsFd) {
    // A counter that is full is readable already, so no error matters.
    let _ = rustix::io::write(descriptor, &1u64.to_ne_bytes());
}

/// The end of a pipe to which short messages are written without waiting.
#[derive(Debug)]
pub struct EventPipe(PipeWriter);

impl EventPipe {
    /// A new pipe, and its other end, to be sent to another process. It does not block either end's
    /// process unless that asks for it: reading blocks.
    ///
    /// # Errors
    /// The system's error.
    pub fn new() -> io::Result<(Self, OwnedFd)> {
        let (reader, writer): (PipeReader, PipeWriter) = io::pipe()?;
        ioctl_fionbio(&writer, true)?;
        Ok((Self(writer), reader.into()))
    }

    /// Writes a message of at most 512 bytes, whole or not at all. Whether there was room for it and the other
    /// end is open.
    pub fn write(&self, message: &[u8]) -> bool {
        loop {
            match rustix::io::write(&self.0, message) {
                Ok(written) => return written == message.len(),
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_signal_is_seen_once_and_none_of_a_descriptor_that_was_removed() {
        let doorbells = Doorbells::new().unwrap();
        let all: Vec<OwnedFd> = (0..100).map(|_| doorbells.add().unwrap()).collect();
        assert!(!doorbells.clear().unwrap());
        for _ in 0..2 {
            all.iter().for_each(signal);
            assert!(doorbells.clear().unwrap());
            assert!(!doorbells.clear().unwrap());
        }
        doorbells.remove(&all[0]);
        signal(&all[0]);
        assert!(!doorbells.clear().unwrap());
    }

    #[test]
    fn a_pipe_takes_messages_whole_until_it_is_full_or_its_reader_has_gone() {
        let (pipe, reader) = EventPipe::new().unwrap();
        let mut written = 0u64;
        while pipe.write(&written.to_ne_bytes()) {
            written += 1;
        }
        assert!(written >= 512, "{written}");
        let mut reader = File::from(reader);
        for expected in 0..written {
            let mut message = [0; 8];
            reader.read_exact(&mut message).unwrap();
            assert_eq!(u64::from_ne_bytes(message), expected);
        }
        assert!(pipe.write(&[1]));
        drop(reader);
        assert!(!pipe.write(&[1]));
    }
}
