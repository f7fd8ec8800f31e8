//! The memory of programs, as the queue pairs of a port read and write it.
//!
//! The core does no IO: what reads and writes is handed in ([`crate::Host::set_memory`]). What it answers is an
//! input of the core like any other, so it can be recorded, and a recording replays without the programs.
//!
//! ```text
//!  an access, recorded:  | 0: refused |   or   | 1: done | what was read, if it reads |
//! ```

use std::fmt;

use transport::{Atomic, Memory, MemoryFault, SpaceId};

/// There are no programs: each access is refused.
#[derive(Debug)]
struct NoMemory;

impl Memory for NoMemory {
    fn read(&mut self, _: SpaceId, _: u64, _: &mut [u8]) -> Result<(), MemoryFault> {
        Err(MemoryFault)
    }

    fn write(&mut self, _: SpaceId, _: u64, _: &[u8]) -> Result<(), MemoryFault> {
        Err(MemoryFault)
    }

    fn atomic(&mut self, _: SpaceId, _: u64, _: Atomic) -> Result<u64, MemoryFault> {
        Err(MemoryFault)
    }
}

/// What becomes of the answers of memory.
#[derive(Clone, Copy, Debug)]
enum Mode {
    Plain,
    /// They are kept until they are taken.
    Recorded,
    /// They are those kept, from the index on; memory is not asked.
    Replayed(usize),
}

/// Memory of programs, and the recording of what it answers.
pub(crate) struct ProgramMemory {
    memory: Box<dyn Memory + Send>,
    mode: Mode,
    answers: Vec<u8>,
}

impl ProgramMemory {
    pub(crate) fn none() -> Self {
        Self::new(Box::new(NoMemory))
    }

    pub(crate) fn new(memory: Box<dyn Memory + Send>) -> Self {
        Self {
            memory,
            mode: Mode::Plain,
            answers: Vec::new(),
        }
    }

    pub(crate) fn record(&mut self) {
        self.mode = Mode::Recorded;
    }

    /// What was answered since it was last emptied.
    pub(crate) fn recorded(&mut self) -> &mut Vec<u8> {
        &mut self.answers
    }

    pub(crate) fn replay(&mut self, answers: &[u8]) {
        self.mode = Mode::Replayed(0);
        self.answers.clear();
        self.answers.extend_from_slice(answers);
    }

    fn note(&mut self, done: bool, read: &[u8]) {
        if let Mode::Recorded = self.mode {
            self.answers.push(u8::from(done));
            self.answers.extend_from_slice(read);
        }
    }

    /// The next answer of a recording, with so many bytes read; refused if there is none. `None` if memory is to
    /// be asked.
    fn replayed(&mut self, len: usize) -> Option<Result<&[u8], MemoryFault>> {
        let Mode::Replayed(at) = &mut self.mode else {
            return None;
        };
        Some(next_answer(&self.answers, at, len))
    }
}

/// The next answer of a recording, with so many bytes read; refused if there is none.
fn next_answer<'a>(answers: &'a [u8], at: &mut usize, len: usize) -> Result<&'a [u8], MemoryFault> {
    let rest = answers.get(*at..).unwrap_or_default();
    let (&done, rest) = rest.split_first().ok_or(MemoryFault)?;
    *at += 1;
    if done == 0 {
        return Err(MemoryFault);
    }
    let read = rest.get(..len).ok_or(MemoryFault)?;
    *at += len;
    Ok(read)
}

impl Memory for ProgramMemory {
    fn read(&mut self, space: SpaceId, address: u64, out: &mut [u8]) -> Result<(), MemoryFault> {
        if let Some(answer) = self.replayed(out.len()) {
            out.copy_from_slice(answer?);
            return Ok(());
        }
        let outcome = self.memory.read(space, address, out);
        self.note(outcome.is_ok(), if outcome.is_ok() { out } else { &[] });
        outcome
    }

    fn write(&mut self, space: SpaceId, address: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        if let Some(answer) = self.replayed(0) {
            return answer.map(|_| ());
        }
        let outcome = self.memory.write(space, address, bytes);
        self.note(outcome.is_ok(), &[]);
        outcome
    }

    fn atomic(
        &mut self,
        space: SpaceId,
        address: u64,
        operation: Atomic,
    ) -> Result<u64, MemoryFault> {
        if let Some(answer) = self.replayed(8) {
            return Ok(u64::from_le_bytes(answer?.try_into().unwrap_or_default()));
        }
        let outcome = self.memory.atomic(space, address, operation);
        match outcome {
            Ok(original) => self.note(true, &original.to_le_bytes()),
            Err(MemoryFault) => self.note(false, &[]),
        }
        outcome
    }
}

impl fmt::Debug for ProgramMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = &self.mode;
        f.debug_struct("ProgramMemory").field("mode", mode).finish()
    }
}
