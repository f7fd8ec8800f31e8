//! Recordings: everything that a device was handed by its shell, and everything that it gave back,
//! so that the same core can be run through the same life again.
//!
//! ```text
//! "ibemurec" | version, 4 bytes | item: header | item: entry | ... | item: End
//!
//!  item: | length, 4 bytes | CRC-32 of the length | CRC-32 of the bytes | the bytes |
//! ```
//!
//! Numbers in front of an item are little-endian; its bytes are a message of [`wire::control`]. The
//! length has a check of its own, so that a damaged length is distinguished from a file that was cut
//! short.
//! A recording without [`Entry::End`] is of a device that was killed, or whose disk was full: what
//! is there is whole.
//!
//! Entries follow the contract of [`Device`](link::Device): what goes in by `handle` (one of the
//! inputs), what is pulled by `transmit`, what is taken by `poll_event`, in the order of the calls.
//! `ready` and `deadline` change nothing and are not recorded.

use std::borrow::Cow;
use std::io::{self, Read};

use bincode::{Decode, Encode};
use link::{Input, Time};
use thiserror::Error;
use wire::PortNum;
use wire::control::{ControlError, MESSAGE_LEN_MAX, append, decode};
use wire::convert::{saturate, usize_of};

#[cfg(test)]
mod tests;

/// How every recording begins.
pub const MAGIC: [u8; 8] = *b"ibemurec";
/// The version of the format; what is in the messages counts in.
pub const VERSION: u32 = 2;

/// Bytes in front of an item.
const ITEM_HEAD: usize = 12;

/// The header of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Header {
    /// The kind of device.
    pub kind: Kind,
    /// Its node description.
    pub name: String,
    /// The configuration of its core: a message of [`wire::control`] that holds the configuration
    /// of the kind (`switchd::SwitchConfig`, `hostd::HostConfig`).
    pub config: Vec<u8>,
}

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Kind {
    /// A switch.
    Switch,
    /// A host.
    Host,
}

impl Kind {
    /// The name of the kind.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Switch => "switch",
            Self::Host => "host",
        }
    }
}

/// One call of a device's shell. `C` is the device's command, or a reference to one.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Entry<'a, C> {
    /// [`Input::Frame`].
    Frame {
        /// When it was handed in, nanoseconds.
        now: u64,
        /// The port.
        port: PortNum,
        /// Nanoseconds from the first bit's arrival to `now`, and from the last bit's.
        ago: (u64, u64),
        /// The records.
        bytes: Cow<'a, [u8]>,
    },
    /// [`Input::Carrier`].
    Carrier {
        /// When, nanoseconds.
        now: u64,
        /// The port.
        port: PortNum,
        /// Whether there is a peer.
        up: bool,
    },
    /// [`Input::Tick`].
    Tick {
        /// When, nanoseconds.
        now: u64,
    },
    /// [`Input::Command`].
    Command {
        /// When, nanoseconds.
        now: u64,
        /// The command.
        command: C,
    },
    /// A call of `transmit`.
    Pull {
        /// When, nanoseconds.
        now: u64,
        /// The port.
        port: PortNum,
        /// Bytes and records for which the frame had room.
        room: (u64, u64),
        /// How many records the device put in.
        records: u64,
        /// They.
        bytes: Cow<'a, [u8]>,
    },
    /// A call of `poll_event` that returned an event.
    Event {
        /// The event as a message of [`wire::control`].
        bytes: Cow<'a, [u8]>,
    },
    /// Nothing more was recorded.
    End(End),
}

/// How a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum End {
    /// With the device.
    Closed,
    /// More happened than could be written: what followed is missing.
    Overrun,
}

impl<C> Entry<'_, C> {
    /// When it happened; `None` for what has no time of its own.
    #[must_use]
    pub const fn now(&self) -> Option<Time> {
        match *self {
            Self::Frame { now, .. }
            | Self::Carrier { now, .. }
            | Self::Tick { now }
            | Self::Command { now, .. }
            | Self::Pull { now, .. } => Some(Time(now)),
            Self::Event { .. } | Self::End(_) => None,
        }
    }
}

impl<'a, C> Entry<'a, &'a C> {
    /// The entry of an input.
    #[must_use]
    pub fn of_input(now: Time, input: &'a Input<'a, C>) -> Self {
        let Time(ns) = now;
        match *input {
            Input::Frame {
                port,
                head,
                tail,
                bytes,
            } => Self::Frame {
                now: ns,
                port,
                ago: (now.since_ns(head), now.since_ns(tail)),
                bytes: Cow::Borrowed(bytes),
            },
            Input::Carrier { port, up } => Self::Carrier { now: ns, port, up },
            Input::Tick => Self::Tick { now: ns },
            Input::Command(ref command) => Self::Command { now: ns, command },
        }
    }
}

/// Puts the beginning of a recording behind what is in `out`.
///
/// # Errors
/// If the header is longer than a message may be.
pub fn begin(out: &mut Vec<u8>, header: &Header) -> Result<(), ControlError> {
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    item(out, header)
}

/// Puts an entry behind what is in `out`; after an error, that is as before.
///
/// # Errors
/// If the entry is longer than a message may be.
pub fn write<C: Encode>(out: &mut Vec<u8>, entry: &Entry<'_, C>) -> Result<(), ControlError> {
    item(out, entry)
}

fn item<T: Encode>(out: &mut Vec<u8>, message: &T) -> Result<(), ControlError> {
    let start = out.len();
    out.extend_from_slice(&[0; ITEM_HEAD]);
    let len = append(message, out).inspect_err(|_| out.truncate(start))?;
    let head = head_of(&out[start + ITEM_HEAD..], len);
    out[start..start + ITEM_HEAD].copy_from_slice(&head);
    Ok(())
}

fn head_of(bytes: &[u8], len: usize) -> [u8; ITEM_HEAD] {
    // Messages are capped far below 4 GiB.
    let length = saturate::<u32>(len).to_le_bytes();
    let checks = [crc32fast::hash(&length), crc32fast::hash(bytes)];
    let mut head = [0; ITEM_HEAD];
    head[..4].copy_from_slice(&length);
    head[4..8].copy_from_slice(&checks[0].to_le_bytes());
    head[8..].copy_from_slice(&checks[1].to_le_bytes());
    head
}

/// Why a recording cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// It is none.
    #[error("this is no recording: it does not begin with \"ibemurec\"")]
    NotARecording,
    /// It is of another version.
    #[error("the recording is of version {found}; this program reads version {VERSION}")]
    Version {
        /// Which.
        found: u32,
    },
    /// It ends before it says what was recorded.
    #[error("the recording ends within its header")]
    NoHeader,
    /// Bytes are not what was written.
    #[error("the recording is damaged: {}, at byte {offset}: {what}", named(*item))]
    Damaged {
        /// Which item: 0 is the header, entries count from 1.
        item: u64,
        /// Where in the file it begins.
        offset: u64,
        /// What is wrong with it.
        what: String,
    },
    /// It cannot be read.
    #[error("cannot read the recording: {0}")]
    Io(#[from] io::Error),
}

fn named(item: u64) -> String {
    match item {
        0 => "its header".to_owned(),
        entry => format!("entry {entry}"),
    }
}

/// How the entries of a recording end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With an end entry.
    Recorded(End),
    /// After a whole entry, without an end entry: the device was killed, or still runs.
    Unterminated,
    /// Within an entry, which is left out.
    Truncated,
}

/// Reads a recording, an entry at a time.
#[derive(Debug)]
pub struct Reader<R> {
    source: R,
    header: Header,
    /// Items read, the header among them.
    items: u64,
    offset: u64,
    ending: Option<Ending>,
    memory: Vec<u8>,
}

impl<R: Read> Reader<R> {
    /// Reads what was recorded. `source` is read in small pieces, so let it be buffered.
    ///
    /// # Errors
    /// [`ReadError`]
    pub fn new(source: R) -> Result<Self, ReadError> {
        let mut reader = Self {
            source,
            header: Header {
                kind: Kind::Switch,
                name: String::new(),
                config: Vec::new(),
            },
            items: 0,
            offset: 0,
            ending: None,
            memory: Vec::new(),
        };
        let mut begin = [0; 12];
        let read = fill(&mut reader.source, &mut begin)?;
        let (magic, version) = begin.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(ReadError::NotARecording);
        }
        if read < begin.len() {
            return Err(ReadError::NoHeader);
        }
        let found = le(version);
        if found != VERSION {
            return Err(ReadError::Version { found });
        }
        reader.offset = 12;
        reader.header = reader.item()?.ok_or(ReadError::NoHeader)?;
        Ok(reader)
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// How many entries have been read, an [`Entry::End`] among them.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.items.saturating_sub(1)
    }

    /// How the recording ends, once [`Reader::next_entry`] has returned `None`.
    #[must_use]
    pub fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// The next entry; `None` at the end. [`Entry::End`] is not returned: see [`Reader::ending`].
    ///
    /// # Errors
    /// [`ReadError::Damaged`] and [`ReadError::Io`].
    pub fn next_entry<C: Decode<()>>(&mut self) -> Result<Option<Entry<'static, C>>, ReadError> {
        if self.ending.is_some() {
            return Ok(None);
        }
        let start = self.offset;
        let entry = self.item()?;
        let Some(Entry::End(end)) = entry else {
            return Ok(entry);
        };
        let mut rest = [0];
        if fill(&mut self.source, &mut rest)? != 0 {
            return Err(ReadError::Damaged {
                item: self.entries(),
                offset: start,
                what: "it says that nothing follows, but something does".to_owned(),
            });
        }
        self.ending = Some(Ending::Recorded(end));
        Ok(None)
    }

    fn item<T: Decode<()>>(&mut self) -> Result<Option<T>, ReadError> {
        let mut head = [0; ITEM_HEAD];
        let read = fill(&mut self.source, &mut head)?;
        if read < ITEM_HEAD {
            self.ending = Some(if read == 0 {
                Ending::Unterminated
            } else {
                Ending::Truncated
            });
            return Ok(None);
        }
        let start = self.offset;
        let length = le(&head[..4]);
        let len = usize_of(length);
        if crc32fast::hash(&head[..4]) != le(&head[4..8]) || len > MESSAGE_LEN_MAX {
            return Err(self.damaged(start, "its length was changed".to_owned()));
        }
        self.memory.resize(len, 0);
        if fill(&mut self.source, &mut self.memory)? < len {
            self.ending = Some(Ending::Truncated);
            return Ok(None);
        }
        if crc32fast::hash(&self.memory) != le(&head[8..]) {
            return Err(self.damaged(start, "its bytes were changed".to_owned()));
        }
        let message =
            decode(&self.memory).map_err(|error| self.damaged(start, error.to_string()))?;
        self.items += 1;
        self.offset += u64::from(length) + 12;
        Ok(Some(message))
    }

    fn damaged(&self, offset: u64, what: String) -> ReadError {
        ReadError::Damaged {
            item: self.items,
            offset,
            what,
        }
    }
}

/// Reads until `memory` is full or the source ends; how many bytes.
fn fill(source: &mut impl Read, memory: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < memory.len() {
        match source.read(&mut memory[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn le(bytes: &[u8]) -> u32 {
    bytes
        .first_chunk()
        .map_or(0, |word| u32::from_le_bytes(*word))
}
