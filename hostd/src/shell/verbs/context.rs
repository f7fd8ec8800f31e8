//! One context: what is shared with its program.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;

use hostd::{FromVerbs, Object, ToVerbs};
use netio::event::{Doorbell, EventPipe};
use netio::shared_memory::SharedMemory;
use tokio::sync::{Notify, oneshot};
use uverbs::entry::{COMPLETION_WORDS, receive_stride, send_stride};
use uverbs::ring::Layout;
use uverbs::{AsyncEvent, QpInit, Reply, Request, doorbell, errno};

use super::queues::{CompletionRing, Kind, Nonsense, WorkQueue, ring};
use super::{Answer, refused};

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

/// A context.
pub(super) struct Context {
    pub(super) doorbell: Doorbell,
    page: SharedMemory,
    /// What goes to the program when the context is open: the reply, the doorbell page, the pipe of events.
    opening: RefCell<(Option<Reply>, Option<(OwnedFd, OwnedFd)>)>,
    events: EventPipe,
    reply: RefCell<Option<oneshot::Sender<Reply>>>,
    channels: RefCell<BTreeMap<u32, EventPipe>>,
    last_channel: Cell<u32>,
    cqs: RefCell<BTreeMap<u32, CompletionRing>>,
    /// By doorbell.
    queues: RefCell<BTreeMap<u32, WorkQueue>>,
    free_doorbells: RefCell<BTreeSet<u32>>,
    doorbells: Cell<u32>,
    qps: RefCell<BTreeMap<u32, QueuePair>>,
    /// Cookie and doorbell.
    srqs: RefCell<BTreeMap<u32, (u64, u32)>>,
    /// Completion queues whose ring has had no room.
    overrun: RefCell<Vec<u32>>,
    /// There is something in `overrun`.
    pub(super) attention: Notify,
}

impl Context {
    pub(super) fn new() -> io::Result<Self> {
        let (page, page_file) = SharedMemory::create("ibemu-doorbell", doorbell::WORDS)?;
        let (events, reader) = EventPipe::new()?;
        Ok(Self {
            doorbell: Doorbell::new()?,
            page,
            opening: RefCell::new((None, Some((page_file, reader)))),
            events,
            reply: RefCell::default(),
            channels: RefCell::default(),
            last_channel: Cell::new(0),
            cqs: RefCell::default(),
            queues: RefCell::default(),
            free_doorbells: RefCell::default(),
            doorbells: Cell::new(0),
            qps: RefCell::default(),
            srqs: RefCell::default(),
            overrun: RefCell::default(),
            attention: Notify::new(),
        })
    }

    pub(super) fn set_opened(&self, reply: Reply) {
        self.opening.borrow_mut().0 = Some(reply);
    }

    /// What goes to the program when the context is open; once.
    pub(super) fn opened(&self) -> Option<(Reply, OwnedFd, OwnedFd)> {
        let (reply, files) = &mut *self.opening.borrow_mut();
        let (page, events) = files.take()?;
        Some((reply.take()?, page, events))
    }

    /// Where the core's next reply arrives.
    pub(super) fn expect_reply(&self) -> oneshot::Receiver<Reply> {
        let (sender, receiver) = oneshot::channel();
        self.reply.replace(Some(sender));
        receiver
    }

    /// Takes a message of the core.
    pub(super) fn take(&self, message: FromVerbs) {
        match message {
            FromVerbs::Reply(reply) => {
                let waiting = self.reply.take();
                // A task that has ended needs no reply.
                let _ = waiting.map(|waiting| waiting.send(reply));
            }
            FromVerbs::Completions {
                cq,
                solicited,
                completions,
            } => {
                let mut cqs = self.cqs.borrow_mut();
                let Some(ring) = cqs.get_mut(&cq) else {
                    return;
                };
                if !ring.put(&completions) {
                    self.overrun.borrow_mut().push(cq);
                    self.attention.notify_one();
                }
                let channels = self.channels.borrow();
                let channel = ring.channel.and_then(|channel| channels.get(&channel));
                ring.tell(solicited, channel);
            }
            FromVerbs::Event { kind, of } => self.event(kind, of),
        }
    }

    fn event(&self, kind: u32, of: Object) {
        let cookie = match of {
            Object::Port => Some(0),
            Object::QueuePair(qpn) => self.qps.borrow().get(&qpn).map(|pair| pair.cookie),
            Object::Cq(cq) => self.cqs.borrow().get(&cq).map(|ring| ring.cookie),
            Object::Srq(srq) => self.srqs.borrow().get(&srq).map(|srq| srq.0),
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

    /// The next work of the rings, and whether there may be more. If not, the host may sleep: it is woken by the
    /// doorbell.
    pub(super) fn work(&self) -> Result<(Vec<ToVerbs>, bool), Nonsense> {
        let overrun = self.overrun.take();
        let mut work: Vec<ToVerbs> = overrun
            .into_iter()
            .map(|cq| ToVerbs::Overrun { cq })
            .collect();
        let page = self.page.words();
        doorbell::wake(page);
        let mut rung = Vec::new();
        doorbell::take(page, |queue| rung.push(queue));
        let mut queues = self.queues.borrow_mut();
        for number in rung {
            // A doorbell without a queue is none.
            let Some(queue) = queues.get_mut(&number) else {
                continue;
            };
            if let Some((message, more)) = queue.take()? {
                work.push(message);
                if more {
                    // Looked at again in the next round.
                    let _ = doorbell::ring(page, number);
                }
            }
        }
        let more = !work.is_empty() || doorbell::sleep(page);
        Ok((work, more))
    }

    fn new_doorbell(&self) -> Option<u32> {
        if let Some(free) = self.free_doorbells.borrow_mut().pop_first() {
            return Some(free);
        }
        let next = self.doorbells.get();
        (next < doorbell::QUEUES_MAX).then(|| {
            self.doorbells.set(next + 1);
            next
        })
    }

    fn free_doorbell(&self, number: u32) {
        self.queues.borrow_mut().remove(&number);
        self.free_doorbells.borrow_mut().insert(number);
    }

    pub(super) fn create_channel(&self) -> Answer {
        let mut channels = self.channels.borrow_mut();
        if channels.len() >= CHANNELS_MAX {
            return refused(errno::ENOMEM, "a context has 1024 channels at most");
        }
        match EventPipe::new() {
            Ok((pipe, reader)) => {
                let number = self.last_channel.get().wrapping_add(1);
                self.last_channel.set(number);
                channels.insert(number, pipe);
                Answer {
                    reply: Reply::Handle(number),
                    descriptors: vec![reader],
                }
            }
            Err(error) => refused(errno::ENOMEM, error),
        }
    }

    pub(super) fn destroy_channel(&self, channel: u32) -> Answer {
        let used = |ring: &CompletionRing| ring.channel == Some(channel);
        if self.cqs.borrow().values().any(used) {
            return refused(errno::EBUSY, "a completion queue uses the channel");
        }
        match self.channels.borrow_mut().remove(&channel) {
            Some(_) => Reply::Done.into(),
            None => refused(errno::ENOENT, "there is no such channel of this context"),
        }
    }

    /// Makes what a request needs, or refuses it.
    pub(super) fn prepare(&self, request: &Request) -> Result<Prepared, Answer> {
        let shapes = match request {
            Request::CreateCq {
                entries, channel, ..
            } => {
                let known = |channel: &u32| self.channels.borrow().contains_key(channel);
                if channel.as_ref().is_some_and(|channel| !known(channel)) {
                    let why = "there is no such channel of this context";
                    return Err(refused(errno::ENOENT, why));
                }
                vec![(*entries, completion_words(), false)]
            }
            Request::ResizeCq { cq, entries } => {
                let mut cqs = self.cqs.borrow_mut();
                if cqs
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

    fn undo(&self, prepared: Prepared) {
        for number in prepared.doorbells {
            self.free_doorbell(number);
        }
    }

    /// Takes over what was prepared, or undoes it, as the core has answered.
    pub(super) fn finish(&self, request: &Request, prepared: Prepared, reply: Reply) -> Answer {
        match (request, reply) {
            (
                &Request::CreateCq {
                    channel, cookie, ..
                },
                reply @ Reply::Cq { cq, .. },
            ) => {
                let mut rings = prepared.rings.into_iter();
                let ring = rings
                    .next()
                    .map(|ring| CompletionRing::new(ring, channel, cookie));
                self.cqs.borrow_mut().extend(ring.map(|ring| (cq, ring)));
                with(reply, prepared.descriptors)
            }
            (Request::ResizeCq { .. }, reply @ Reply::Cq { cq, .. }) => {
                let mut cqs = self.cqs.borrow_mut();
                for (ring, memory) in cqs.get_mut(&cq).into_iter().zip(prepared.rings) {
                    ring.replace(memory);
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
                self.srqs.borrow_mut().insert(srq, (cookie, doorbell));
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
                self.qps.borrow_mut().insert(qpn, pair);
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
        &self,
        rings: Vec<(Layout, SharedMemory)>,
        doorbells: &[u32],
        kinds: &[Kind],
    ) -> Vec<u32> {
        let mut queues = self.queues.borrow_mut();
        for ((ring, &kind), &number) in rings.into_iter().zip(kinds).zip(doorbells) {
            queues.insert(number, WorkQueue::new(ring, kind));
        }
        doorbells.to_vec()
    }

    /// Takes away what was made for an object that is destroyed.
    fn forget(&self, request: &Request) {
        match request {
            Request::DestroyCq { cq } => {
                self.cqs.borrow_mut().remove(cq);
            }
            Request::DestroySrq { srq } => {
                let srq = self.srqs.borrow_mut().remove(srq);
                if let Some((_, number)) = srq {
                    self.free_doorbell(number);
                }
            }
            Request::DestroyQp { qpn } => {
                let pair = self.qps.borrow_mut().remove(qpn);
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
