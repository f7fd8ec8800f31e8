//! Reading a recording: whole items, and how they end.

use std::io::{self, Read};

use bincode::Decode;
use thiserror::Error;
use wire::control::{MESSAGE_LEN_MAX, decode};
use wire::convert::usize_of;

use crate::entry::{End, Entry, Header, Kind};
use crate::write::{ITEM_HEAD, MAGIC, VERSION};

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
