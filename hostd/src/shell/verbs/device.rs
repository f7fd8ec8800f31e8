//! What stands around the core on the dataplane thread: it takes work from the rings before each input, so that
//! a request posted before a packet was sent is there when the packet comes, and puts completions into theirs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hostd::{ClientId, Command, Event, FromVerbs, ToVerbs};
use link::{Deadline, Device, FrameBuf, Input, PortSet, Time};
use tokio::sync::Notify;
use wire::PortNum;

use super::rings::Rings;

/// A context, as both threads have it.
pub(super) struct Shared {
    rings: Mutex<Rings>,
    /// The program is to be disconnected.
    pub(super) attention: Notify,
}

impl Shared {
    pub(super) fn new(rings: Rings) -> Self {
        Self {
            rings: Mutex::new(rings),
            attention: Notify::new(),
        }
    }

    pub(super) fn rings(&self) -> MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All contexts, as both threads have them.
#[derive(Clone, Default)]
pub(in crate::shell) struct Contexts(Arc<Mutex<BTreeMap<ClientId, Arc<Shared>>>>);

impl Contexts {
    pub(super) fn all(&self) -> MutexGuard<'_, BTreeMap<ClientId, Arc<Shared>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The core with the rings of its programs.
pub(in crate::shell) struct Ringed<D> {
    core: D,
    contexts: Contexts,
    /// Work that has been taken and not been handed in; empty between calls.
    work: Vec<(ClientId, Vec<ToVerbs>)>,
}

impl<D: Device<Command = Command, Event = Event>> Ringed<D> {
    pub(in crate::shell) fn new(core: D, contexts: Contexts) -> Self {
        Self {
            core,
            contexts,
            work: Vec::new(),
        }
    }

    /// Hands work to the core; whether there was any.
    fn take_work(&mut self, now: Time) -> bool {
        for (&client, context) in self.contexts.all().iter() {
            let mut work = Vec::new();
            let taken = context.rings().take_work(&mut work);
            if taken.is_err() {
                context.attention.notify_one();
            }
            if !work.is_empty() {
                self.work.push((client, work));
            }
        }
        let any = !self.work.is_empty();
        for (client, work) in self.work.drain(..) {
            for message in work {
                let command = Command::Verbs { client, message };
                self.core.handle(now, Input::Command(command));
            }
        }
        any
    }

    /// Passes a message to its program; the event if it is for the control thread.
    fn deliver(&self, event: Event) -> Option<Event> {
        let Event::Verbs { client, message } = event else {
            return Some(event);
        };
        if let FromVerbs::Reply(_) = message {
            return Some(Event::Verbs { client, message });
        }
        let all = self.contexts.all();
        let context = all.get(&client)?;
        match message {
            FromVerbs::Reply(_) => {}
            FromVerbs::Completions {
                cq,
                solicited,
                completions,
            } => context.rings().complete(cq, solicited, &completions),
            FromVerbs::Event { kind, of } => context.rings().event(kind, of),
        }
        None
    }
}

impl<D: Device<Command = Command, Event = Event>> Device for Ringed<D> {
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, now: Time, input: Input<'_, Command>) {
        self.take_work(now);
        self.core.handle(now, input);
    }

    fn ready(&self, now: Time) -> PortSet {
        self.core.ready(now)
    }

    fn transmit(&mut self, now: Time, port: PortNum, frame: &mut FrameBuf<'_>) -> usize {
        self.core.transmit(now, port, frame)
    }

    fn poll_event(&mut self) -> Option<Event> {
        loop {
            let event = self.core.poll_event()?;
            if let Some(event) = self.deliver(event) {
                return Some(event);
            }
        }
    }

    fn look(&mut self, now: Time) -> bool {
        self.take_work(now)
    }

    fn may_sleep(&self) -> bool {
        let all = self.contexts.all();
        let rung = all.values().filter(|context| context.rings().sleep());
        rung.count() == 0
    }

    fn deadline(&self) -> Option<Deadline> {
        self.core.deadline()
    }
}
