//! Rings of a context: requests out of them, completions into them.

use std::io;
use std::os::fd::OwnedFd;

use hostd::ToVerbs;
use netio::event::EventPipe;
use netio::shared_memory::SharedMemory;
use thiserror::Error;
use uverbs::entry::{BadEntry, Completion, Receive, Send};
use uverbs::ring::{Consumer, Corrupt, Layout, Producer};

/// Requests of one message to the core at most.
const REQUESTS_A_MESSAGE: usize = 64;

/// A library has put something into a ring that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum Nonsense {
    /// An index.
    #[error(transparent)]
    Index(#[from] Corrupt),
    /// An entry.
    #[error(transparent)]
    Entry(#[from] BadEntry),
}

/// What a queue's requests are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Send requests of a queue pair.
    Send(u32),
    /// Receive requests of a queue pair.
    Receive(u32),
    /// Receive requests of a shared receive queue.
    Srq(u32),
}

/// A queue that the library fills.
#[derive(Debug)]
pub(super) struct WorkQueue {
    memory: SharedMemory,
    consumer: Consumer,
    pub(super) kind: Kind,
    /// An entry that is being read.
    words: Vec<u64>,
}

/// Memory for a ring.
pub(super) fn ring(entries: u32, stride: u32) -> io::Result<(Layout, SharedMemory, OwnedFd)> {
    // A queue of no places has a ring all the same: it stays empty.
    let layout = Layout::new(entries.max(1), stride).ok_or(io::ErrorKind::InvalidInput)?;
    let (memory, file) = SharedMemory::create("ibemu-verbs", layout.words())?;
    Ok((layout, memory, file))
}

impl WorkQueue {
    pub(super) fn new((layout, memory): (Layout, SharedMemory), kind: Kind) -> Self {
        Self {
            memory,
            consumer: Consumer::new(layout),
            kind,
            words: vec![0; layout.stride()],
        }
    }

    /// The next requests as a message, and whether there may be more.
    pub(super) fn take(&mut self) -> Result<Option<(ToVerbs, bool)>, Nonsense> {
        match self.kind {
            Kind::Send(qpn) => {
                let requests = self.parse(Send::parse)?;
                Ok(message(requests, |requests| ToVerbs::Send {
                    qpn,
                    requests,
                }))
            }
            Kind::Receive(qpn) => {
                let requests = self.parse(Receive::parse)?;
                Ok(message(requests, |requests| ToVerbs::Receive {
                    qpn,
                    requests,
                }))
            }
            Kind::Srq(srq) => {
                let requests = self.parse(Receive::parse)?;
                Ok(message(requests, |requests| ToVerbs::SrqReceive {
                    srq,
                    requests,
                }))
            }
        }
    }

    fn parse<T>(
        &mut self,
        parse: impl Fn(&[u64]) -> Result<T, BadEntry>,
    ) -> Result<Vec<T>, Nonsense> {
        let mut requests = Vec::new();
        while requests.len() < REQUESTS_A_MESSAGE
            && self.consumer.pop(self.memory.words(), &mut self.words)?
        {
            requests.push(parse(&self.words)?);
        }
        Ok(requests)
    }
}

fn message<T>(requests: Vec<T>, make: impl FnOnce(Vec<T>) -> ToVerbs) -> Option<(ToVerbs, bool)> {
    let more = requests.len() == REQUESTS_A_MESSAGE;
    (!requests.is_empty()).then(|| (make(requests), more))
}

/// A queue that the host fills.
#[derive(Debug)]
pub(super) struct CompletionRing {
    memory: SharedMemory,
    producer: Producer,
    /// Places that were asked for.
    pub(super) entries: u32,
    pub(super) channel: Option<u32>,
    pub(super) cookie: u64,
    /// It had no room, or its index makes no sense: it takes nothing more.
    is_over: bool,
}

impl CompletionRing {
    pub(super) fn new(
        (layout, memory): (Layout, SharedMemory),
        entries: u32,
        channel: Option<u32>,
        cookie: u64,
    ) -> Self {
        Self {
            memory,
            producer: Producer::new(layout),
            entries,
            channel,
            cookie,
            is_over: false,
        }
    }

    /// Puts other memory in its place.
    pub(super) fn replace(&mut self, (layout, memory): (Layout, SharedMemory), entries: u32) {
        self.memory = memory;
        self.entries = entries;
        self.producer = Producer::new(layout);
    }

    /// Completions that the program has not taken.
    pub(super) fn waiting(&mut self) -> u32 {
        self.producer
            .waiting(self.memory.words())
            .unwrap_or_default()
    }

    /// Puts completions in. `false`, once, if there is no room for one.
    pub(super) fn put(&mut self, completions: &[Completion]) -> bool {
        for completion in completions {
            if self.is_over {
                return true;
            }
            let pushed = self.producer.push(self.memory.words(), &completion.emit());
            if pushed != Ok(true) {
                self.is_over = true;
                return false;
            }
        }
        true
    }

    /// Tells the program of completions, if it has asked for that.
    pub(super) fn tell(&self, solicited: bool, channel: Option<&EventPipe>) {
        if !self.producer.take_arming(self.memory.words(), solicited) {
            return;
        }
        let told = channel.is_some_and(|pipe| pipe.write(&self.cookie.to_ne_bytes()));
        if !told {
            tracing::debug!("a completion event is lost: its channel is full, or there is none");
        }
    }
}
