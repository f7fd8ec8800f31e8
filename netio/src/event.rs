//! Event descriptors and pipes that are shared with programs: for tokio.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, ioctl_fionbio};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::poll::{EventFd, register};

/// An event descriptor that other processes signal.
#[derive(Debug)]
pub struct Doorbell {
    fd: AsyncFd<EventFd>,
}

impl Doorbell {
    /// A new one. To be called inside a tokio runtime with IO.
    ///
    /// # Errors
    /// The system's error.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            fd: register(EventFd::new()?, Interest::READABLE)?,
        })
    }

    /// The descriptor, to be sent to another process: writing the number 1, eight bytes, signals.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.fd.get_ref().as_fd()
    }

    /// Waits until it is signalled. Several signals may be one. Nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// The system's error.
    pub async fn rung(&self) -> io::Result<()> {
        loop {
            let mut guard = self.fd.readable().await?;
            if guard.get_inner().take()? {
                return Ok(());
            }
            guard.clear_ready();
        }
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
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_doorbell_rings_until_it_is_heard() {
        let doorbell = Doorbell::new().unwrap();
        let other = doorbell.descriptor().try_clone_to_owned().unwrap();
        signal(&other);
        signal(&other);
        let heard = tokio::time::timeout(Duration::from_secs(10), doorbell.rung());
        heard.await.unwrap().unwrap();
        let again = tokio::time::timeout(Duration::from_millis(1), doorbell.rung());
        assert!(again.await.is_err());
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
