//! Completion queues: rings that the host fills.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard};

use netio::shared_memory::SharedMemory;
use rustix::io::Errno;
use uverbs::entry::{COMPLETION_WORDS, Completion};
use uverbs::ring::{Arming, Consumer, Layout};

use crate::connection::{Result, errno};
use crate::patience;

#[derive(Debug)]
struct Ring {
    memory: SharedMemory,
    consumer: Consumer,
}

impl Ring {
    fn new(file: &OwnedFd, entries: u32) -> Result<Self> {
        let stride = u32::try_from(COMPLETION_WORDS).map_err(|_| Errno::IO)?;
        let layout = Layout::new(entries, stride).ok_or(Errno::IO)?;
        Ok(Self {
            memory: SharedMemory::open(file, layout.words()).map_err(|error| errno(&error))?,
            consumer: Consumer::new(layout),
        })
    }

    fn pop(&mut self) -> Result<Option<Completion>> {
        let mut words = [0; COMPLETION_WORDS];
        match self.consumer.pop(self.memory.words(), &mut words) {
            Ok(true) => Ok(Some(Completion::parse(&words))),
            Ok(false) => Ok(None),
            Err(_) => Err(Errno::IO),
        }
    }
}

#[derive(Debug)]
struct State {
    ring: Ring,
    /// Completions that have been taken out of the ring before the program asked for them.
    taken: VecDeque<Completion>,
    /// How it was armed since the program was last told.
    armed: Option<Arming>,
}

/// A completion queue.
#[derive(Debug)]
pub(crate) struct CompletionQueue {
    state: Mutex<State>,
}

impl CompletionQueue {
    /// The queue in a memory file of the host's.
    pub(crate) fn new(file: &OwnedFd, entries: u32) -> Result<Self> {
        let state = State {
            ring: Ring::new(file, entries)?,
            taken: VecDeque::new(),
            armed: None,
        };
        Ok(Self {
            state: Mutex::new(state),
        })
    }

    fn state(&self) -> Result<MutexGuard<'_, State>> {
        self.state.lock().map_err(|_| Errno::IO)
    }

    /// Takes completions, each given to `take`, until that says that it is enough. How many.
    pub(crate) fn poll(&self, enough: usize, mut take: impl FnMut(Completion)) -> Result<usize> {
        let mut state = self.state()?;
        let mut count = 0;
        while count < enough {
            let completion = match state.taken.pop_front() {
                Some(completion) => Some(completion),
                None => state.ring.pop()?,
            };
            match completion {
                Some(completion) => take(completion),
                None => break,
            }
            count += 1;
        }
        drop(state);
        match count {
            0 => patience::wait(),
            _ => patience::found(),
        }
        Ok(count)
    }

    /// Asks to be told of the next completion.
    pub(crate) fn arm(&self, arming: Arming) -> Result<()> {
        let mut state = self.state()?;
        if state.armed != Some(Arming::Next) {
            state.armed = Some(arming);
        }
        state.ring.consumer.arm(state.ring.memory.words(), arming);
        Ok(())
    }

    /// The program has been told.
    pub(crate) fn disarmed(&self) {
        if let Ok(mut state) = self.state() {
            state.armed = None;
        }
    }

    /// Removes the completions of a queue pair that is no more, or has been reset; each is given to `removed`.
    pub(crate) fn purge(&self, qpn: u32, mut removed: impl FnMut(&Completion)) -> Result<()> {
        let mut state = self.state()?;
        while let Some(completion) = state.ring.pop()? {
            state.taken.push_back(completion);
        }
        state.taken.retain(|completion| {
            let stays = completion.qpn != qpn;
            if !stays {
                removed(completion);
            }
            stays
        });
        Ok(())
    }

    /// Goes on in a new ring, which `exchange` has the host make while the old one is not polled.
    pub(crate) fn resize(
        &self,
        exchange: impl FnOnce(usize) -> Result<(OwnedFd, u32)>,
    ) -> Result<u32> {
        let mut state = self.state()?;
        while let Some(completion) = state.ring.pop()? {
            state.taken.push_back(completion);
        }
        let (file, entries) = exchange(state.taken.len())?;
        let ring = Ring::new(&file, entries)?;
        while let Some(completion) = state.ring.pop()? {
            state.taken.push_back(completion);
        }
        state.ring = ring;
        if let Some(arming) = state.armed {
            state.ring.consumer.arm(state.ring.memory.words(), arming);
        }
        Ok(entries)
    }
}
