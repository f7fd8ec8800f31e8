//! Where captured packets go: a file, a ring of files, a pipe, lines of text.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result};
use tokio::sync::mpsc;
use wire::Format as _;
use wire::capture::{CapturedPacket, CapturedPackets, MessageHeader};
use wire::erf::{ErfWriter, Seen};

use super::line;

/// Several files, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Bytes after which the next file begins.
    pub file_bytes: u64,
    /// How many files are kept; the oldest is removed. `None`: all.
    pub files: Option<usize>,
}

type Out = BufWriter<Box<dyn Write + Send>>;

/// Where captured packets go.
pub struct Sink {
    to: To,
    /// What is added to times of the machine's monotonic clock.
    since_1970_ns: u64,
    /// Packets lost until the last message.
    lost: u64,
}

enum To {
    Capture(Capture),
    Lines(Out),
}

/// What a writer has done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    pub(super) captured: u64,
}

/// Why nothing more is written.
enum Stop {
    /// Whoever reads has had enough.
    Closed,
    Failed(Error),
}

impl Sink {
    /// A capture at `path`, or in a ring of files with names like it; `-` is standard output.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn capture(path: &Path, ring: Option<Ring>) -> Result<Self> {
        Ok(Self::to(To::Capture(Capture::create(path, ring)?)))
    }

    /// A line a packet on standard output.
    #[must_use]
    pub fn lines() -> Self {
        Self::to(To::Lines(BufWriter::new(Box::new(io::stdout()))))
    }

    fn to(to: To) -> Self {
        Self {
            to,
            since_1970_ns: netio::clock::monotonic_origin_ns(),
            lost: 0,
        }
    }

    /// Writes what comes, until no more does or `count` packets are written.
    pub(super) fn write_all(
        mut self,
        mut messages: mpsc::Receiver<Vec<u8>>,
        count: Option<u64>,
    ) -> Result<Written> {
        let mut written = Written::default();
        let mut outcome = Ok(());
        while outcome.is_ok()
            && count != Some(written.captured)
            && let Some(message) = messages.blocking_recv()
        {
            outcome = self.write(&message, count, &mut written.captured);
        }
        match outcome {
            Ok(()) | Err(Stop::Closed) => Ok(written),
            Err(Stop::Failed(error)) => {
                Err(error.context(format!("after {} packets", written.captured)))
            }
        }
    }

    fn write(&mut self, message: &[u8], count: Option<u64>, done: &mut u64) -> Result<(), Stop> {
        let (header, packets) = MessageHeader::parse(message)
            .map_err(|error| Stop::Failed(Error::new(error).context("the device is wrong")))?;
        // The device counts from 0 after a restart.
        let mut lost = header.lost.checked_sub(self.lost).unwrap_or(header.lost);
        self.lost = header.lost;
        for packet in CapturedPackets::new(packets) {
            if count == Some(*done) {
                break;
            }
            let packet = packet
                .map_err(|error| Stop::Failed(Error::new(error).context("the device is wrong")))?;
            self.one(&packet, std::mem::take(&mut lost))?;
            *done += 1;
        }
        let flushed = match &mut self.to {
            To::Capture(capture) => capture.flush(),
            To::Lines(out) => out.flush(),
        };
        flushed.map_err(|error| self.stop(error))
    }

    fn one(&mut self, packet: &CapturedPacket<'_>, lost: u64) -> Result<(), Stop> {
        let seen = Seen {
            time_ns: self.since_1970_ns.saturating_add(packet.header.at_ns),
            kind: packet.header.kind,
            direction: Some(packet.header.direction),
            wire_len: packet.header.wire_len.into(),
            lost,
        };
        let outcome = match &mut self.to {
            To::Capture(capture) => capture.add(&seen, packet.bytes),
            To::Lines(out) => writeln!(out, "{}", line::of(&seen, packet.bytes)),
        };
        outcome.map_err(|error| self.stop(error))
    }

    fn stop(&self, error: io::Error) -> Stop {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Stop::Closed;
        }
        let what = match &self.to {
            To::Capture(capture) => capture.current.display().to_string(),
            To::Lines(_) => "standard output".to_owned(),
        };
        Stop::Failed(Error::new(error).context(format!("cannot write {what}")))
    }
}

/// A capture file, or the last one of a ring.
struct Capture {
    writer: ErfWriter<Out>,
    /// The file that is being written.
    current: PathBuf,
    bytes: u64,
    ring: Option<Files>,
}

/// The files of a ring.
struct Files {
    ring: Ring,
    path: PathBuf,
    /// The number of the last one.
    last: u64,
    kept: VecDeque<PathBuf>,
}

impl Files {
    /// The path of the next file; the oldest goes if there are too many.
    fn next(&mut self) -> io::Result<PathBuf> {
        self.last += 1;
        let stem = self.path.file_stem().unwrap_or_default();
        let mut name = stem.to_os_string();
        name.push(format!("_{:05}", self.last));
        if let Some(extension) = self.path.extension() {
            name.push(".");
            name.push(extension);
        }
        let path = self.path.with_file_name(name);
        self.kept.push_back(path.clone());
        if self.ring.files.is_some_and(|files| self.kept.len() > files)
            && let Some(oldest) = self.kept.pop_front()
        {
            match fs::remove_file(oldest) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(path)
    }
}

impl Capture {
    fn create(path: &Path, ring: Option<Ring>) -> Result<Self> {
        let mut files = ring.map(|ring| Files {
            ring,
            path: path.to_owned(),
            last: 0,
            kept: VecDeque::new(),
        });
        let current = match &mut files {
            Some(files) => files.next()?,
            None => path.to_owned(),
        };
        let begun = open(&current).and_then(ErfWriter::new);
        let mut writer = begun.with_context(|| format!("cannot write {}", current.display()))?;
        writer
            .flush()
            .with_context(|| format!("cannot write {}", current.display()))?;
        Ok(Self {
            writer,
            current,
            bytes: 0,
            ring: files,
        })
    }

    fn add(&mut self, seen: &Seen, packet: &[u8]) -> io::Result<()> {
        if let Some(files) = &mut self.ring
            && self.bytes >= files.ring.file_bytes
        {
            self.writer.flush()?;
            self.current = files.next()?;
            self.writer = ErfWriter::new(open(&self.current)?)?;
            self.bytes = 0;
        }
        let written = self.writer.add(seen, packet)?;
        self.bytes += wire::convert::u64_of(written);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Opens a file, or standard output. A pipe is waited for until somebody reads it.
fn open(path: &Path) -> io::Result<Out> {
    if path == Path::new("-") {
        return Ok(BufWriter::new(Box::new(io::stdout())));
    }
    let is_pipe = fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
    let file = if is_pipe {
        OpenOptions::new().write(true).open(path)?
    } else {
        File::create(path)?
    };
    Ok(BufWriter::new(Box::new(file)))
}
