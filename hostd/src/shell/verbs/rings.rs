//! One context: what is shared with its program.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;

use hostd::{Object, ToVerbs};
use netio::event::EventPipe;
use netio::shared_memory::SharedMemory;
use uverbs::entry::{COMPLETION_WORDS, Completion, receive_stride, send_stride};
use uverbs::ring::Layout;
use uverbs::{AsyncEvent, QpInit, Reply, Request, doorbell, errno};

use super::queues::{CompletionRing, Kind, Nonsense, WorkQueue, ring};
use super::{Answer, refused};

/// Messages to the core that one call takes from a queue at most.
const MESSAGES_A_QUEUE: usize = 4;
/// Channels of a context at most.
const CHANNELS_MAX: usize = 1024;

/// A queue pair's cookie and doorbells.
#[derive(Clone, Copy, Debug)]
struct QueuePair {
    cookie: u64,
    send: u32,
    receive: Option<u32>,
}

/// What is made of a request before the core is asked.
pub(super) struct Prepared {
    rings: Vec<(Layout, SharedMemory)>,
    descriptors: Vec<OwnedFd>,
    doorbells: Vec<u32>,
}

/// What is shared with the program of a context. Both threads have it: the dataplane thread takes work and puts
/// completions in, the control thread makes and destroys.
pub(super) struct Rings {
    page: SharedMemory,
    events: EventPipe,
    channels: BTreeMap<u32, EventPipe>,
    last_channel: u32,
    cqs: BTreeMap<u32, CompletionRing>,
    /// By doorbell.
    queues: BTreeMap<u32, WorkQueue>,
    free_doorbells: BTreeSet<u32>,
    doorbells: u32,
    qps: BTreeMap<u32, QueuePair>,
    /// Cookie and doorbell.
    srqs: BTreeMap<u32, (u64, u32)>,
    /// Completion queues whose ring has had no room.
    overrun: Vec<u32>,
    /// Why the program is to be disconnected.
    nonsense: Option<Nonsense>,
}

/// What is sent to a program whose context is open.
pub(super) struct Opening {
    pub(super) page: OwnedFd,
    pub(super) events: OwnedFd,
}

impl Rings {
    pub(super) fn new() -> io::Result<(Self, Opening)> {
        let (page, page_file) = SharedMemory::create("ibemu-doorbell", doorbell::WORDS)?;
        let (events, reader) = EventPipe::new()?;
        let rings = Self {
            page,
            events,
            channels: BTreeMap::new(),
            last_channel: 0,
            cqs: BTreeMap::new(),
            queues: BTreeMap::new(),
            free_doorbells: BTreeSet::new(),
            doorbells: 0,
            qps: BTreeMap::new(),
            srqs: BTreeMap::new(),
            overrun: Vec::new(),
            nonsense: None,
        };
        let opening = Opening {
            page: page_file,
            events: reader,
        };
        Ok((rings, opening))
    }

    /// Puts completions into their ring, and tells the program if it has asked for that.
    pub(super) fn complete(&mut self, cq: u32, solicited: bool, completions: &[Completion]) {
        let Some(ring) = self.cqs.get_mut(&cq) else {
            return;
        };
        if !ring.put(completions) {
            self.overrun.push(cq);
        }
        let channel = ring.channel.and_then(|channel| self.channels.get(&channel));
        ring.tell(solicited, channel);
    }

    /// Tells the program of an asynchronous event.
    pub(super) fn event(&self, kind: u32, of: Object) {
        let cookie = match of {
            Object::Port => Some(0),
            Object::QueuePair(qpn) => self.qps.get(&qpn).map(|pair| pair.cookie),
            Object::Cq(cq) => self.cqs.get(&cq).map(|ring| ring.cookie),
            Object::Srq(srq) => self.srqs.get(&srq).map(|srq| srq.0),
        };
        let Some(cookie) = cookie else {
            return;
        };
        let port = u32::from(of == Object::Port);
        let event = AsyncEvent { kind, port, cookie };
        if !self.events.write(&event.emit()) {
            tracing::debug!(kind, "an asynchronous event is lost: its pipe is full");
        }
    }

    /// Why the program is to be disconnected, if it is.
    pub(super) fn nonsense(&self) -> Option<Nonsense> {
        self.nonsense
    }

    /// Says that the host sleeps. Whether it must not.
    pub(super) fn sleep(&self) -> bool {
        doorbell::sleep(self.page.words()) || !self.overrun.is_empty()
    }

    /// Hands out what stands in the rings. What is left rings again.
    pub(super) fn take_work(&mut self, work: &mut Vec<ToVerbs>) -> Result<(), Nonsense> {
        if self.nonsense.is_some() {
            return Ok(());
        }
        let taken = self.take_rings(work);
        if let Err(nonsense) = taken {
            self.nonsense = Some(nonsense);
        }
        taken
    }

    fn take_rings(&mut self, work: &mut Vec<ToVerbs>) -> Result<(), Nonsense> {
        let overrun = std::mem::take(&mut self.overrun);
        work.extend(overrun.into_iter().map(|cq| ToVerbs::Overrun { cq }));
        let page = self.page.words();
        doorbell::wake(page);
        let mut rung = Vec::new();
        doorbell::take(page, |queue| rung.push(queue));
        for number in rung {
            // A doorbell without a queue is none.
            let Some(queue) = self.queues.get_mut(&number) else {
                continue;
            };
            for _ in 0..MESSAGES_A_QUEUE {
                let Some((message, more)) = queue.take()? else {
                    break;
                };
                work.push(message);
                if !more {
                    break;
                }
                // Looked at again in the next call, if this one does not come so far.
                let _ = doorbell::ring(page, number);
            }
        }
        Ok(())
    }

    fn new_doorbell(&mut self) -> Option<u32> {
        if let Some(free) = self.free_doorbells.pop_first() {
            return Some(free);
        }
        let next = self.doorbells;
        (next < doorbell::QUEUES_MAX).then(|| {
            self.doorbells = next + 1;
            next
        })
    }

    fn free_doorbell(&mut self, number: u32) {
        self.queues.remove(&number);
        self.free_doorbells.insert(number);
    }

    pub(super) fn create_channel(&mut self) -> Answer {
        if self.channels.len() >= CHANNELS_MAX {
            return refused(errno::ENOMEM, "a context has 1024 channels at most");
        }
        match EventPipe::new() {
            Ok((pipe, reader)) => {
                self.last_channel = self.last_channel.wrapping_add(1);
                let number = self.last_channel;
                self.channels.insert(number, pipe);
                Answer {
                    reply: Reply::Handle(number),
                    descriptors: vec![reader],
                }
            }
            Err(error) => refused(errno::ENOMEM, error),
        }
    }

    pub(super) fn destroy_channel(&mut self, channel: u32) -> Answer {
        let used = |ring: &CompletionRing| ring.channel == Some(channel);
        if self.cqs.values().any(used) {
            return refused(errno::EBUSY, "a completion queue uses the channel");
        }
        match self.channels.remove(&channel) {
            Some(_) => Reply::Done.into(),
            None => refused(errno::ENOENT, "there is no such channel of this context"),
        }
    }

    /// The resizing of the same completion queue that changes nothing, if the request is to resize one.
    pub(super) fn unchanged(&self, request: &Request) -> Option<Request> {
        let &Request::ResizeCq { cq, .. } = request else {
            return None;
        };
        let entries = self.cqs.get(&cq)?.entries;
        Some(Request::ResizeCq { cq, entries })
    }

    /// Makes what a request needs, or refuses it.
    pub(super) fn prepare(&mut self, request: &Request) -> Result<Prepared, Answer> {
        let shapes = match request {
            Request::CreateCq {
                entries, channel, ..
            } => {
                let known = |channel: &u32| self.channels.contains_key(channel);
                if channel.as_ref().is_some_and(|channel| !known(channel)) {
                    let why = "there is no such channel of this context";
                    return Err(refused(errno::ENOENT, why));
                }
                vec![(*entries, completion_words(), false)]
            }
            Request::ResizeCq { cq, entries } => {
                if self
                    .cqs
                    .get_mut(cq)
                    .is_some_and(|ring| ring.waiting() > *entries)
                {
                    return Err(refused(errno::EINVAL, "more completions wait than that"));
                }
                vec![(*entries, completion_words(), false)]
            }
            Request::CreateSrq {
                max_wr, max_sge, ..
            } => vec![(*max_wr, receive_stride(*max_sge), true)],
            Request::CreateQp(init) => shapes_of(init),
            _ => Vec::new(),
        };
        let mut prepared = Prepared {
            rings: Vec::new(),
            descriptors: Vec::new(),
            doorbells: Vec::new(),
        };
        for (entries, stride, has_doorbell) in shapes {
            let made = ring(entries, stride).map_err(|error| match error.kind() {
                io::ErrorKind::InvalidInput => refused(errno::EINVAL, "the size of a queue"),
                _ => refused(errno::ENOMEM, error),
            });
            let doorbell = has_doorbell.then(|| self.new_doorbell());
            let outcome = match (made, doorbell) {
                (Ok(_), Some(None)) => Err(refused(errno::ENOMEM, "there is no doorbell left")),
                (Ok(ring), number) => Ok((ring, number.flatten())),
                (Err(refusal), number) => {
                    prepared.doorbells.extend(number.flatten());
                    Err(refusal)
                }
            };
            match outcome {
                Ok(((layout, memory, file), number)) => {
                    prepared.rings.push((layout, memory));
                    prepared.descriptors.push(file);
                    prepared.doorbells.extend(number);
                }
                Err(refusal) => {
                    self.undo(prepared);
                    return Err(refusal);
                }
            }
        }
        Ok(prepared)
    }

    fn undo(&mut self, prepared: Prepared) {
        for number in prepared.doorbells {
            self.free_doorbell(number);
        }
    }

    /// Takes over what was prepared, or undoes it, as the core has answered.
    pub(super) fn finish(&mut self, request: &Request, prepared: Prepared, reply: Reply) -> Answer {
        match (request, reply) {
            (
                &Request::CreateCq {
                    channel, cookie, ..
                },
                reply @ Reply::Cq { cq, entries },
            ) => {
                let mut rings = prepared.rings.into_iter();
                let ring = rings
                    .next()
                    .map(|ring| CompletionRing::new(ring, entries, channel, cookie));
                self.cqs.extend(ring.map(|ring| (cq, ring)));
                with(reply, prepared.descriptors)
            }
            (Request::ResizeCq { .. }, reply @ Reply::Cq { cq, entries }) => {
                for (ring, memory) in self.cqs.get_mut(&cq).into_iter().zip(prepared.rings) {
                    ring.replace(memory, entries);
                }
                with(reply, prepared.descriptors)
            }
            (
                &Request::CreateSrq { cookie, .. },
                Reply::Srq {
                    srq,
                    max_wr,
                    max_sge,
                    ..
                },
            ) => {
                let doorbells =
                    self.install(prepared.rings, &prepared.doorbells, &[Kind::Srq(srq)]);
                let doorbell = doorbells.first().copied().unwrap_or_default();
                self.srqs.insert(srq, (cookie, doorbell));
                let reply = Reply::Srq {
                    srq,
                    max_wr,
                    max_sge,
                    doorbell,
                };
                with(reply, prepared.descriptors)
            }
            (Request::CreateQp(init), Reply::Qp { qpn, cap, .. }) => {
                let kinds = [Kind::Send(qpn), Kind::Receive(qpn)];
                let doorbells = self.install(prepared.rings, &prepared.doorbells, &kinds);
                let pair = QueuePair {
                    cookie: init.cookie,
                    send: doorbells.first().copied().unwrap_or_default(),
                    receive: doorbells.get(1).copied(),
                };
                self.qps.insert(qpn, pair);
                let reply = Reply::Qp {
                    qpn,
                    cap,
                    send_doorbell: pair.send,
                    receive_doorbell: pair.receive.unwrap_or_default(),
                };
                with(reply, prepared.descriptors)
            }
            (request, Reply::Done) => {
                self.forget(request);
                Reply::Done.into()
            }
            (_, reply) => {
                self.undo(prepared);
                reply.into()
            }
        }
    }

    fn install(
        &mut self,
        rings: Vec<(Layout, SharedMemory)>,
        doorbells: &[u32],
        kinds: &[Kind],
    ) -> Vec<u32> {
        for ((ring, &kind), &number) in rings.into_iter().zip(kinds).zip(doorbells) {
            self.queues.insert(number, WorkQueue::new(ring, kind));
        }
        doorbells.to_vec()
    }

    /// Takes away what was made for an object that is destroyed.
    fn forget(&mut self, request: &Request) {
        match request {
            Request::DestroyCq { cq } => {
                self.cqs.remove(cq);
            }
            Request::DestroySrq { srq } => {
                let srq = self.srqs.remove(srq);
                if let Some((_, number)) = srq {
                    self.free_doorbell(number);
                }
            }
            Request::DestroyQp { qpn } => {
                let pair = self.qps.remove(qpn);
                if let Some(pair) = pair {
                    self.free_doorbell(pair.send);
                    pair.receive
                        .into_iter()
                        .for_each(|number| self.free_doorbell(number));
                }
            }
            _ => {}
        }
    }
}

fn with(reply: Reply, descriptors: Vec<OwnedFd>) -> Answer {
    Answer { reply, descriptors }
}

fn completion_words() -> u32 {
    u32::try_from(COMPLETION_WORDS).unwrap_or(u32::MAX)
}

/// Entries and words of a queue pair's rings, which have doorbells.
fn shapes_of(init: &QpInit) -> Vec<(u32, u32, bool)> {
    let cap = &init.cap;
    let send = send_stride(cap.max_send_sge, cap.max_inline_data);
    let mut shapes = vec![(cap.max_send_wr, send, true)];
    if init.srq.is_none() {
        shapes.push((cap.max_recv_wr, receive_stride(cap.max_recv_sge), true));
    }
    shapes
}
