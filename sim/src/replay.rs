//! Replaying a recording: the same core, built with the same configuration, is handed what the
//! recorded one was handed, and must do the same, byte for byte.
//!
//! Cores read no clock and draw nothing that their inputs do not determine, so a recording of a
//! live device holds all that it takes ([`recording`]). What differs is the program: a
//! recording of a fault replays to the same fault until it is repaired, at any pace, under a
//! debugger, without the fabric around it.

use std::fmt;
use std::io::Read;

use bincode::{Decode, Encode};
use hostd::{Host, HostConfig};
use link::{Device, FrameBuf, Input, Time};
use recording::{Ending, Entry, Header, Kind, ReadError, Reader};
use switchd::{Switch, SwitchConfig};
use thiserror::Error;
use wire::control::ControlError;
use wire::{PortNum, convert};

/// The largest frame that a recording may ask for, bytes: sixteen times that of a veth.
const FRAME_ROOM_MAX: u64 = 1 << 20;

/// Why a recording cannot be replayed.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// What the device was built with makes no sense.
    #[error("the recording of the {} {name} holds no usable configuration: {why}", kind.name())]
    Config {
        /// What it was.
        kind: Kind,
        /// Its name.
        name: String,
        /// Why not.
        why: String,
    },
    /// A frame of a size that no daemon offers.
    #[error("entry {entry}: a frame with room for {bytes} bytes; at most {FRAME_ROOM_MAX}")]
    Room {
        /// Which entry.
        entry: u64,
        /// Its room.
        bytes: u64,
    },
}

/// The result of a replay.
#[derive(Debug)]
pub struct Replayed {
    /// What was recorded.
    pub header: Header,
    /// Entries replayed, up to the divergence if there is one.
    pub entries: u64,
    /// Inputs among them.
    pub inputs: u64,
    /// Frames pulled among them.
    pub pulls: u64,
    /// Events among them.
    pub events: u64,
    /// Nanoseconds from the first entry to the last.
    pub elapsed_ns: u64,
    /// How the recording ends; `None` if a divergence came before.
    pub ending: Option<Ending>,
    /// The first divergence.
    pub divergence: Option<Box<Divergence>>,
}

/// Where the output of a replayed core differs from the recorded one.
#[derive(Debug, PartialEq, Eq)]
pub struct Divergence {
    /// Which entry, from 1.
    pub entry: u64,
    /// When it was recorded; of an event, when the input before it was.
    pub now: Time,
    /// The last input before it: its entry, and what it was.
    pub input: Option<(u64, ReplayedInput)>,
    /// The output that differs.
    pub output: Output,
    /// Its bytes as recorded.
    pub expected: Vec<u8>,
    /// Its bytes now.
    pub got: Vec<u8>,
}

/// An input of a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayedInput {
    /// A frame.
    Frame {
        /// On this port.
        port: PortNum,
        /// So long.
        bytes: usize,
    },
    /// A cable is there, or is not.
    Carrier {
        /// In this port.
        port: PortNum,
        /// Whether it is.
        up: bool,
    },
    /// A deadline.
    Tick,
    /// A command: which.
    Command(String),
}

impl fmt::Display for ReplayedInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame { port, bytes } => write!(f, "a frame of {bytes} bytes on port {port}"),
            Self::Carrier { port, up: true } => write!(f, "a carrier on port {port}"),
            Self::Carrier { port, up: false } => write!(f, "no carrier on port {port}"),
            Self::Tick => write!(f, "a tick"),
            Self::Command(command) => write!(f, "command {command}"),
        }
    }
}

/// An output of a core.
#[derive(Debug, PartialEq, Eq)]
pub enum Output {
    /// A frame.
    Frame {
        /// For this port.
        port: PortNum,
        /// Its records, as recorded and now.
        records: (u64, u64),
    },
    /// An event.
    Event {
        /// As recorded.
        expected: String,
        /// Now.
        got: String,
    },
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry {} at {:?}", self.entry, self.now)?;
        if let Some((entry, what)) = &self.input {
            write!(f, ", after input {entry} ({what})")?;
        }
        let (expected, got) = (self.expected.len(), self.got.len());
        match &self.output {
            Output::Frame { port, records } => write!(
                f,
                ": a frame for port {port}: expected {expected} bytes in {} records, got {got} \
                 bytes in {}",
                records.0, records.1
            )?,
            Output::Event {
                expected: recorded,
                got: replayed,
            } => write!(f, ": an event: expected {recorded}, got {replayed}")?,
        }
        let same = |(one, other): &(&u8, &u8)| one == other;
        let at = self.expected.iter().zip(&self.got).take_while(same).count();
        match (self.expected.get(at), self.got.get(at)) {
            (Some(expected), Some(got)) => {
                write!(f, "; byte {at} is {got:#04x}, not {expected:#04x}")
            }
            (None, None) => Ok(()),
            _ => write!(f, "; the first {at} bytes agree"),
        }
    }
}

/// Replays a recording up to its end or the first divergence. `source` is read in small pieces, so
/// let it be buffered.
///
/// # Errors
/// [`ReplayError`]: damage is found where it is, also behind what has been replayed.
pub fn replay(source: impl Read) -> Result<Replayed, ReplayError> {
    let reader = Reader::new(source)?;
    let header = reader.header().clone();
    match header.kind {
        Kind::Switch => {
            let config: SwitchConfig = config(&header)?;
            let switch = Switch::new(&config).map_err(|error| unusable(&header, error))?;
            Player::new(switch, reader).play()
        }
        Kind::Host => {
            let config: HostConfig = config(&header)?;
            let host = Host::new(config).map_err(|error| unusable(&header, error))?;
            Player::new(host, reader).play()
        }
    }
}

fn config<C: Decode<()>>(header: &Header) -> Result<C, ReplayError> {
    wire::control::decode(&header.config).map_err(|error: ControlError| unusable(header, error))
}

fn unusable(header: &Header, why: impl fmt::Display) -> ReplayError {
    ReplayError::Config {
        kind: header.kind,
        name: header.name.clone(),
        why: why.to_string(),
    }
}

/// A core and what it is to do.
struct Player<D: Device, R> {
    device: D,
    reader: Reader<R>,
    /// Which entry is replayed, from 1.
    entry: u64,
    /// The one behind it, once it has been read to see whether it belongs to it.
    next: Option<Result<Option<Entry<'static, D::Command>>, ReadError>>,
    memory: Vec<u8>,
    /// The last input: its entry, when, and what.
    input: Option<(u64, ReplayedInput)>,
    first: Option<Time>,
    now: Time,
    inputs: u64,
    pulls: u64,
    events: u64,
}

impl<D, R> Player<D, R>
where
    D: Device<Command: Decode<()> + fmt::Debug, Event: Encode + Decode<()> + fmt::Debug>,
    R: Read,
{
    fn new(device: D, reader: Reader<R>) -> Self {
        Self {
            device,
            reader,
            entry: 0,
            next: None,
            memory: Vec::new(),
            input: None,
            first: None,
            now: Time::ZERO,
            inputs: 0,
            pulls: 0,
            events: 0,
        }
    }

    fn play(mut self) -> Result<Replayed, ReplayError> {
        let mut divergence = None;
        while divergence.is_none()
            && let Some(entry) = self.next_entry()?
        {
            divergence = self.step(entry)?.map(Box::new);
        }
        Ok(Replayed {
            header: self.reader.header().clone(),
            entries: match divergence {
                None => self.reader.entries(),
                Some(_) => self.entry,
            },
            inputs: self.inputs,
            pulls: self.pulls,
            events: self.events,
            elapsed_ns: self.now.since_ns(self.first.unwrap_or(self.now)),
            ending: self.reader.ending().filter(|_| divergence.is_none()),
            divergence,
        })
    }

    /// The next entry; the device has what its call reads beside its input.
    fn next_entry(&mut self) -> Result<Option<Entry<'static, D::Command>>, ReadError> {
        let entry = match self.next.take() {
            Some(next) => next?,
            None => self.reader.next_entry()?,
        };
        self.entry = self.reader.entries();
        if entry.as_ref().is_none_or(|entry| entry.now().is_none()) {
            return Ok(entry);
        }
        let mut reads = Vec::new();
        loop {
            match self.reader.next_entry() {
                Ok(Some(Entry::Reads { bytes })) => reads.extend_from_slice(&bytes),
                next => {
                    self.next = Some(next);
                    break;
                }
            }
        }
        if !reads.is_empty() {
            self.device.replay_reads(&reads);
        }
        Ok(entry)
    }

    fn step(
        &mut self,
        entry: Entry<'static, D::Command>,
    ) -> Result<Option<Divergence>, ReplayError> {
        if let Some(now) = entry.now() {
            self.now = now;
            self.first.get_or_insert(now);
        }
        match entry {
            Entry::Pull {
                port,
                room,
                records,
                bytes,
                ..
            } => self.pull(port, room, records, &bytes),
            Entry::Event { bytes } => Ok(self.event(&bytes)),
            Entry::Frame {
                port, ago, bytes, ..
            } => {
                let input = Input::Frame {
                    port,
                    head: self.now - ago.0,
                    tail: self.now - ago.1,
                    bytes: &bytes,
                };
                let handed = ReplayedInput::Frame {
                    port,
                    bytes: bytes.len(),
                };
                self.feed(handed, input);
                Ok(None)
            }
            Entry::Carrier { port, up, .. } => {
                self.feed(
                    ReplayedInput::Carrier { port, up },
                    Input::Carrier { port, up },
                );
                Ok(None)
            }
            Entry::Tick { .. } => {
                self.feed(ReplayedInput::Tick, Input::Tick);
                Ok(None)
            }
            Entry::Command { command, .. } => {
                let handed = ReplayedInput::Command(described(&command));
                self.feed(handed, Input::Command(command));
                Ok(None)
            }
            // The reader keeps the end to itself; reads without a call are of no use.
            Entry::End(_) | Entry::Reads { .. } => Ok(None),
        }
    }

    fn feed(&mut self, handed: ReplayedInput, input: Input<'_, D::Command>) {
        self.inputs += 1;
        self.input = Some((self.entry, handed));
        self.device.handle(self.now, input);
    }

    fn pull(
        &mut self,
        port: PortNum,
        (room, records_max): (u64, u64),
        records: u64,
        expected: &[u8],
    ) -> Result<Option<Divergence>, ReplayError> {
        self.pulls += 1;
        let too_much = ReplayError::Room {
            entry: self.entry,
            bytes: room,
        };
        let len = usize::try_from(room)
            .ok()
            .filter(|_| room <= FRAME_ROOM_MAX)
            .ok_or(too_much)?;
        if self.memory.len() < len {
            self.memory.resize(len, 0);
        }
        let records_max = convert::usize_of(records_max);
        let mut frame = FrameBuf::new(&mut self.memory[..len], records_max);
        let got = self.device.transmit(self.now, port, &mut frame);
        let got_records = convert::u64_of(got);
        if got_records == records && frame.as_bytes() == expected {
            return Ok(None);
        }
        let got = frame.as_bytes().to_vec();
        let records = (records, got_records);
        Ok(Some(self.divergence(
            Output::Frame { port, records },
            expected,
            got,
        )))
    }

    fn event(&mut self, expected: &[u8]) -> Option<Divergence> {
        self.events += 1;
        let event = self.device.poll_event();
        // What cannot be encoded was not recorded either.
        let encode = |event: &D::Event| wire::control::encode(event).unwrap_or_default();
        let got = event.as_ref().map(encode).unwrap_or_default();
        if event.is_some() && got == expected {
            return None;
        }
        let recorded: Result<D::Event, _> = wire::control::decode(expected);
        let output = Output::Event {
            expected: recorded.map_or_else(|_| "one unknown".to_owned(), |event| described(&event)),
            got: event.as_ref().map_or("none".to_owned(), described),
        };
        Some(self.divergence(output, expected, got))
    }

    fn divergence(&self, output: Output, expected: &[u8], got: Vec<u8>) -> Divergence {
        Divergence {
            entry: self.entry,
            now: self.now,
            input: self.input.clone(),
            output,
            expected: expected.to_vec(),
            got,
        }
    }
}

/// A command or event in a line that can be read.
fn described(event: &impl fmt::Debug) -> String {
    const LONGEST: usize = 200;
    let text = format!("{event:?}");
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{} ..", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests;
