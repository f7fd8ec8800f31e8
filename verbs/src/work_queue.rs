//! Queues of work requests: send queues, receive queues, shared receive queues.

use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use netio::shared_memory::SharedMemory;
use rustix::io::Errno;
use uverbs::ring::{Layout, Producer};

use crate::connection::{Result, errno};

/// A queue that this program fills and the host empties.
#[derive(Debug)]
pub(crate) struct WorkQueue {
    memory: SharedMemory,
    producer: Mutex<Producer>,
    /// Requests that have no completion yet.
    outstanding: AtomicU32,
    /// Requests that may have none at most.
    requests_max: u32,
    /// Pieces of a request at most.
    pub(crate) pieces_max: u32,
    /// Inline bytes of a request at most.
    pub(crate) inline_max: u32,
    /// Its number at the doorbell.
    pub(crate) doorbell: u32,
}

/// What a queue takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) requests: u32,
    pub(crate) pieces: u32,
    pub(crate) inline_bytes: u32,
    /// Words of an entry.
    pub(crate) stride: u32,
    pub(crate) doorbell: u32,
}

impl WorkQueue {
    /// The queue in a memory file of the host's.
    pub(crate) fn new(file: &OwnedFd, shape: Shape) -> Result<Self> {
        let layout = Layout::new(shape.requests.max(1), shape.stride).ok_or(Errno::IO)?;
        Ok(Self {
            memory: SharedMemory::open(file, layout.words()).map_err(|error| errno(&error))?,
            producer: Mutex::new(Producer::new(layout)),
            outstanding: AtomicU32::new(0),
            requests_max: shape.requests,
            pieces_max: shape.pieces,
            inline_max: shape.inline_bytes,
            doorbell: shape.doorbell,
        })
    }

    /// Puts requests in, each as `write` leaves its words in the buffer that it is given, which is empty. How many
    /// have gone in, and why not more.
    pub(crate) fn post(
        &self,
        mut write: impl FnMut(&mut Vec<u64>) -> Option<Result<()>>,
    ) -> (usize, Result<()>) {
        let Ok(mut producer) = self.producer.lock() else {
            return (0, Err(Errno::IO));
        };
        let mut words = Vec::with_capacity(producer.layout().stride());
        let mut count = 0;
        loop {
            words.clear();
            match write(&mut words) {
                None => return (count, Ok(())),
                Some(Err(error)) => return (count, Err(error)),
                Some(Ok(())) => {}
            }
            if self.outstanding.load(Ordering::Acquire) >= self.requests_max {
                return (count, Err(Errno::NOMEM));
            }
            self.outstanding.fetch_add(1, Ordering::AcqRel);
            match producer.push(self.memory.words(), &words) {
                Ok(true) => count += 1,
                other => {
                    let _ = self.retire(1);
                    let error = if other.is_ok() {
                        Errno::NOMEM
                    } else {
                        Errno::IO
                    };
                    return (count, Err(error));
                }
            }
        }
    }

    /// Whether so many requests can be posted now.
    pub(crate) fn has_room(&self, count: usize) -> bool {
        let outstanding = self.outstanding.load(Ordering::Acquire);
        let free = self.requests_max.saturating_sub(outstanding);
        usize::try_from(free).is_ok_and(|free| count <= free)
    }

    /// So many requests are done. How many are not.
    pub(crate) fn retire(&self, count: u32) -> u32 {
        let less = |outstanding: u32| Some(outstanding.saturating_sub(count));
        let before = self
            .outstanding
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        before.unwrap_or_default().saturating_sub(count)
    }

    /// The queue pair has been reset: no request is left.
    pub(crate) fn clear(&self) {
        self.outstanding.store(0, Ordering::Release);
    }
}
