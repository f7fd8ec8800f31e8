//! Recording a device that runs: its [`recording`] to a file, off the dataplane thread.
//!
//! ```text
//!  shell --- calls ---> Recorded ---> device core
//!                          |  a buffer of entries
//!                          v
//!                  bounded channel ---> writer thread ---> file
//! ```
//!
//! A device that is not recorded is not wrapped, so it pays nothing. One that is never waits for
//! the file: when the writer is 32 MiB behind, the recording ends, which its last
//! entry and the log say; the device goes on.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use bincode::Encode;
use crossbeam_channel::{Receiver, Sender, TrySendError};
use link::{Deadline, Device, FrameBuf, Input, PortSet, Time};
use recording::{End, Entry, Header};
use wire::PortNum;
use wire::control::ControlError;
use wire::convert::u64_of;

use netio::NetError;

/// Buffers that wait for the writer at most. A buffer is handed over early while none waits, and at
/// [`BUFFER_BYTES`] else.
const BUFFERS_MAX: usize = 512;

/// The length at which a buffer is handed over, bytes; the last entry may reach beyond.
const BUFFER_BYTES: usize = 64 * 1024;

/// The longest part of what a call has read, bytes.
const READS_PART: usize = 64 * 1024;

/// The stack of a writer thread, bytes.
const STACK_BYTES: usize = 128 * 1024;

/// An entry without a command.
type Plain<'a> = Entry<'a, ()>;

/// A file that is being written, and the thread that writes it.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    full: Sender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
    overrun: Arc<AtomicBool>,
    writer: JoinHandle<()>,
}

/// The thread that writes a recording.
#[derive(Debug)]
pub struct Writer(JoinHandle<()>);

impl Writer {
    /// Waits until everything is in the file; the recorded device must have been dropped.
    pub fn finish(self) {
        if self.0.join().is_err() {
            tracing::error!("the writer of the recording has panicked");
        }
    }
}

impl Recording {
    /// Opens the file, which must not be there yet, writes its header and starts the writer.
    ///
    /// # Errors
    /// If the file or the thread cannot be had.
    pub fn start(path: &Path, header: &Header) -> Result<Self, NetError> {
        let failed = |cause| NetError::new(format!("record to {}", path.display()), cause);
        let mut begin = Vec::new();
        recording::begin(&mut begin, header).map_err(|error| failed(io::Error::other(error)))?;
        let mut file = File::create_new(path).map_err(failed)?;
        file.write_all(&begin).map_err(|cause| {
            // A file with half a header cannot be replayed.
            let _ = std::fs::remove_file(path);
            failed(cause)
        })?;
        let (full, to_write) = crossbeam_channel::bounded(BUFFERS_MAX);
        let (give_back, empty) = crossbeam_channel::bounded(BUFFERS_MAX);
        let overrun = Arc::new(AtomicBool::new(false));
        let job = Job {
            file,
            path: path.to_owned(),
            to_write,
            give_back,
            overrun: Arc::clone(&overrun),
        };
        let writer = thread::Builder::new()
            .name("recording".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || job.run())
            .map_err(failed)?;
        tracing::info!("recording to {}", path.display());
        Ok(Self {
            path: path.to_owned(),
            full,
            empty,
            overrun,
            writer,
        })
    }

    /// The device as it is to be run in its place, and the writer to be waited for at the end.
    pub fn of<D>(self, mut device: D) -> (Recorded<D>, Writer)
    where
        D: Device<Command: Encode, Event: Encode>,
    {
        device.record_reads();
        let recorded = Recorded {
            device,
            reads: Vec::new(),
            buffer: Vec::with_capacity(BUFFER_BYTES),
            channels: Some(WriterChannels {
                path: self.path,
                full: self.full,
                empty: self.empty,
                overrun: self.overrun,
            }),
        };
        (recorded, Writer(self.writer))
    }
}

/// The state of the writer thread.
struct Job {
    file: File,
    path: PathBuf,
    to_write: Receiver<Vec<u8>>,
    give_back: Sender<Vec<u8>>,
    overrun: Arc<AtomicBool>,
}

impl Job {
    /// Writes what comes until the device is gone.
    fn run(mut self) {
        if let Err(error) = self.write() {
            tracing::error!(
                "the recording {} ends here: {error}; the device goes on",
                self.path.display()
            );
        }
    }

    fn write(&mut self) -> io::Result<()> {
        while let Ok(mut buffer) = self.to_write.recv() {
            self.file.write_all(&buffer)?;
            buffer.clear();
            // A full channel has enough of them.
            let _ = self.give_back.try_send(buffer);
        }
        if self.overrun.load(Ordering::Acquire) {
            let mut end = Vec::new();
            recording::write(&mut end, &Plain::End(End::Overrun)).map_err(io::Error::other)?;
            self.file.write_all(&end)?;
        }
        Ok(())
    }
}

/// The device's side of a recording.
#[derive(Debug)]
struct WriterChannels {
    path: PathBuf,
    full: Sender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
    overrun: Arc<AtomicBool>,
}

/// A device that is recorded.
#[derive(Debug)]
pub struct Recorded<D> {
    device: D,
    /// What the last call has read beside its input.
    reads: Vec<u8>,
    /// Entries that have not been handed over.
    buffer: Vec<u8>,
    /// `None` once the recording has ended.
    channels: Option<WriterChannels>,
}

impl<D> Recorded<D> {
    fn record<C: Encode>(&mut self, entry: &Entry<'_, C>) {
        if self.channels.is_none() {
            return;
        }
        let noted = recording::write(&mut self.buffer, entry);
        if let Err(error) = noted {
            self.abort(&error);
        } else if self.buffer.len() >= BUFFER_BYTES {
            self.flush();
        }
    }

    /// Hands the buffer over if the writer waits for it.
    fn flush_if_idle(&mut self) {
        let waits = |channels: &WriterChannels| channels.full.is_empty();
        if !self.buffer.is_empty() && self.channels.as_ref().is_some_and(waits) {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let Some(channels) = &self.channels else {
            return;
        };
        let next = channels.empty.try_recv().unwrap_or_default();
        match channels
            .full
            .try_send(std::mem::replace(&mut self.buffer, next))
        {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                tracing::error!(
                    "the recording {} ends here: the disk is too slow; the device \
                     goes on",
                    channels.path.display()
                );
                channels.overrun.store(true, Ordering::Release);
                self.end();
            }
            // The writer has logged the error.
            Err(TrySendError::Disconnected(_)) => self.end(),
        }
    }

    fn abort(&mut self, error: &ControlError) {
        if let Some(channels) = &self.channels {
            tracing::error!(
                "the recording {} ends here: {error}; the device goes on",
                channels.path.display()
            );
            channels.overrun.store(true, Ordering::Release);
        }
        self.flush_if_idle();
        self.end();
    }

    fn end(&mut self) {
        self.channels = None;
        self.buffer = Vec::new();
    }
}

impl<D> Drop for Recorded<D> {
    /// Nothing waits for the device any more, so it may wait for the writer.
    fn drop(&mut self) {
        let Some(channels) = self.channels.take() else {
            return;
        };
        let closed = Plain::End(End::Closed);
        // After a panic the last word is the panic's.
        if thread::panicking() || recording::write(&mut self.buffer, &closed).is_ok() {
            let _ = channels.full.send(std::mem::take(&mut self.buffer));
        }
    }
}

impl<D> Recorded<D>
where
    D: Device<Command: Encode, Event: Encode>,
{
    /// Records what the call has read beside its input.
    fn record_reads(&mut self) {
        let mut reads = std::mem::take(&mut self.reads);
        reads.clear();
        self.device.take_reads(&mut reads);
        for part in reads.chunks(READS_PART) {
            self.record(&Plain::Reads { bytes: part.into() });
        }
        self.reads = reads;
    }
}

impl<D> Device for Recorded<D>
where
    D: Device<Command: Encode, Event: Encode>,
{
    type Command = D::Command;
    type Event = D::Event;

    fn handle(&mut self, now: Time, input: Input<'_, D::Command>) {
        self.record(&Entry::of_input(now, &input));
        self.device.handle(now, input);
        self.record_reads();
    }

    fn ready(&self, now: Time) -> PortSet {
        self.device.ready(now)
    }

    fn transmit(&mut self, now: Time, port: PortNum, frame: &mut FrameBuf<'_>) -> usize {
        let (start, room) = (frame.len(), frame.room());
        let records = self.device.transmit(now, port, frame);
        self.record(&Plain::Pull {
            now: now.0,
            port,
            room: (u64_of(room.0), u64_of(room.1)),
            records: u64_of(records),
            bytes: frame.as_bytes()[start..].into(),
        });
        self.record_reads();
        records
    }

    /// A shell takes events until there are none, once a round: the time to hand over.
    fn poll_event(&mut self) -> Option<D::Event> {
        let Some(event) = self.device.poll_event() else {
            self.flush_if_idle();
            return None;
        };
        match wire::control::encode(&event) {
            Ok(bytes) => self.record(&Plain::Event {
                bytes: bytes.into(),
            }),
            Err(error) => self.abort(&error),
        }
        Some(event)
    }

    fn deadline(&self) -> Option<Deadline> {
        self.device.deadline()
    }
}

#[cfg(test)]
mod tests;
