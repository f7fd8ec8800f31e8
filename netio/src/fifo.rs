//! A named pipe of which it can be seen whether a process has it open for reading.
//!
//! The pipe carries nothing. A process that opens it for reading is seen for as long as it, or a process
//! that it has passed the descriptor to, runs and does not close it: the kernel counts readers.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags, inotify, mknodat, open};
use rustix::io::{Errno, read};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::NetError;
use crate::poll::register;

/// Room for some events of one watched file; more are read in another go.
const EVENT_BYTES: usize = 1024;

/// A pipe and its readers. Its path goes with it.
#[derive(Debug)]
pub struct ReaderWatch {
    path: PathBuf,
    /// Readable when a process has opened the pipe.
    opened: AsyncFd<OwnedFd>,
    /// The writing end, while there are readers: it reports an error when the last one has gone.
    writer: Option<AsyncFd<OwnedFd>>,
}

impl ReaderWatch {
    /// Makes the pipe at `path`, for this user only. A file that is there already is replaced. To be called
    /// inside a tokio runtime with IO.
    ///
    /// # Errors
    /// The system's error.
    pub fn create(path: &Path) -> Result<Self, NetError> {
        let failed = |cause| NetError::new(format!("make the pipe {}", path.display()), cause);
        Self::make(path).map_err(failed)
    }

    fn make(path: &Path) -> io::Result<Self> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, path, FileType::Fifo, mode, 0)?;
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let opened = inotify::init(flags)?;
        inotify::add_watch(&opened, path, inotify::WatchFlags::OPEN)?;
        Ok(Self {
            path: path.to_owned(),
            opened: register(opened, Interest::READABLE)?,
            writer: None,
        })
    }

    /// Waits until the first reader has come, or the last one has gone; whether there are readers now.
    /// Nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// The system's error.
    pub async fn changed(&mut self) -> io::Result<bool> {
        match &self.writer {
            Some(writer) => {
                wait_for_error(writer).await?;
                self.writer = None;
                Ok(false)
            }
            None => loop {
                // A process that opens it after this attempt leaves an event.
                match open_writer(&self.path)? {
                    Some(writer) => {
                        self.writer = Some(register(writer, Interest::ERROR)?);
                        // That was an opening too.
                        drain(self.opened.get_ref())?;
                        return Ok(true);
                    }
                    None => {
                        let drained = |opened: &OwnedFd| drain(opened);
                        let mut ready = self.opened.readable().await?;
                        ready.clear_ready();
                        drained(self.opened.get_ref())?;
                    }
                }
            },
        }
    }
}

impl Drop for ReaderWatch {
    fn drop(&mut self) {
        // A path that is gone already is as good.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The writing end, if the pipe has a reader.
fn open_writer(path: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    match open(path, flags, Mode::empty()) {
        Ok(writer) => Ok(Some(writer)),
        Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Waits until a pipe has no readers.
async fn wait_for_error(writer: &AsyncFd<OwnedFd>) -> io::Result<()> {
    loop {
        let mut ready = writer.ready(Interest::ERROR).await?;
        let mut polled = [PollFd::new(writer.get_ref(), PollFlags::empty())];
        poll(&mut polled, Some(&Timespec::default()))?;
        if polled[0].revents().contains(PollFlags::ERR) {
            return Ok(());
        }
        // Another reader has come meanwhile.
        ready.clear_ready();
    }
}

/// Reads the events that wait.
fn drain(opened: &OwnedFd) -> io::Result<()> {
    let mut events = [0; EVENT_BYTES];
    loop {
        match read(opened, &mut events) {
            Ok(_) => {}
            Err(Errno::AGAIN) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::OpenOptionsExt;
    use std::time::Duration;

    use super::*;

    fn reader(path: &Path) -> File {
        let mut options = File::options();
        let options = options.read(true).custom_flags(libc::O_NONBLOCK);
        options.open(path).unwrap()
    }

    async fn within<T>(future: impl Future<Output = T>) -> T {
        let waited = tokio::time::timeout(Duration::from_secs(10), future).await;
        waited.expect("a change is seen")
    }

    #[tokio::test]
    async fn readers_are_seen_to_come_and_to_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("issm");
        std::fs::write(&path, "of an earlier life").unwrap();
        let mut watch = ReaderWatch::create(&path).unwrap();
        for _ in 0..3 {
            let first = reader(&path);
            assert!(within(watch.changed()).await.unwrap());
            let second = reader(&path);
            drop(first);
            let pending = tokio::time::timeout(Duration::from_millis(20), watch.changed());
            assert!(pending.await.is_err(), "one reader is left");
            drop(second);
            assert!(!within(watch.changed()).await.unwrap());
        }
        // Coming and going between two looks leaves nothing.
        drop(reader(&path));
        let pending = tokio::time::timeout(Duration::from_millis(20), watch.changed());
        assert!(pending.await.is_err());
        drop(watch);
        assert!(!path.exists());
    }
}
