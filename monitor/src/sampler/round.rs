//! One sample, without IO: which requests are sent, which answers are awaited, and what comes of them.
//!
//! Ports of one node are asked one after the other, so that their requests and answers share frames on the way. Every
//! port is asked for PortCountersExtended; for PortCounters, whose errors change seldom, all ports of a small fabric
//! and in turn [`BASIC_MAX`] of a large one; for the details of errors only where there were new ones.

use link::Time;
use mad::transaction::{Due, Timing, Transactions};
use wire::pma::{PortCounters, PortCountersExtended, PortRcvErrorDetails};
use wire::{AttributeId, Format, Lid, Mad, Method, PortNum};

use super::book::{NodeBook, PortBook};
use crate::client::lower;
use crate::model::{Fabric, NodeKind, PortState};

/// Requests that may be unanswered at a time: at first, at least after samples in which some had to be repeated, and at most after
/// others.
/// The more there are, the fewer wake-ups a sample takes; slow links carry fewer in time.
const WINDOW: usize = 256;
const WINDOW_MIN: usize = 32;
const WINDOW_MAX: usize = 1024;
/// Ports that are asked for PortCounters in one sample.
pub(super) const BASIC_MAX: usize = 1024;
/// How long an answer is waited for, and how often is asked.
const TIMING: Timing = Timing {
    timeout_ns: 400_000_000,
    attempts: 2,
};

/// What a port is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attribute {
    Extended,
    Basic,
    Details,
}

impl Attribute {
    const fn id(self) -> AttributeId {
        match self {
            Self::Extended => AttributeId::PORT_COUNTERS_EXTENDED,
            Self::Basic => AttributeId::PORT_COUNTERS,
            Self::Details => AttributeId::PORT_RCV_ERROR_DETAILS,
        }
    }
}

/// A request: an attribute of the port at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) place: usize,
    pub(super) attribute: Attribute,
}

/// What has been read so far, by place of the port and of the node.
#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) ports: Vec<PortBook>,
    pub(super) nodes: Vec<NodeBook>,
    /// The places of nodes in the order in which they are asked: hosts after the switch that they are at, so that what is sent
    /// to neighbours travels together.
    order: Vec<usize>,
    /// Where the next sample begins with PortCounters.
    basic_from: usize,
    /// How many times [`WINDOW`] was halved (negative) or doubled.
    window_steps: i8,
}

impl Books {
    /// Makes room for what the fabric has.
    pub(super) fn fit(&mut self, fabric: &Fabric) {
        self.ports
            .resize_with(fabric.ports.len(), PortBook::default);
        self.nodes
            .resize_with(fabric.nodes.len(), NodeBook::default);
        let switch_of = |place: usize| {
            let node = &fabric.nodes[place];
            let peer = fabric.ports_of(node).find_map(|(_, port)| port.peer);
            let at = peer.and_then(|peer| fabric.ports.get(peer));
            match node.kind {
                NodeKind::Switch => (place, false),
                _ => (at.map_or(place, |port| port.node), true),
            }
        };
        self.order = (0..fabric.nodes.len()).collect();
        self.order.sort_by_key(|&place| switch_of(place));
    }

    /// Requests that may be unanswered at a time in the next sample.
    pub(super) fn window(&self) -> usize {
        let steps = u32::from(self.window_steps.unsigned_abs());
        match self.window_steps < 0 {
            true => (WINDOW >> steps).max(WINDOW_MIN),
            false => (WINDOW << steps).min(WINDOW_MAX),
        }
    }

    /// A sample has ended.
    fn adapt(&mut self, is_slow: bool) {
        let step = if is_slow { -1 } else { 1 };
        self.window_steps = (self.window_steps + step).clamp(-3, 2);
    }

    /// The requests of the next sample, in order, into `queries`.
    pub(super) fn plan(&mut self, fabric: &Fabric, queries: &mut Vec<Query>) {
        queries.clear();
        let ports = fabric.ports.len();
        let (from, count) = (self.basic_from, ports.min(BASIC_MAX));
        self.basic_from = if ports == 0 {
            0
        } else {
            (from + count) % ports
        };
        let is_turn = |place: usize| (place + ports - from) % ports < count;
        let nodes = self
            .order
            .iter()
            .filter_map(|&place| fabric.nodes.get(place));
        for node in nodes.filter(|node| node.is_present) {
            let mut asked = fabric
                .ports_of(node)
                .filter(|(_, port)| port.number != 0 && Lid::new(port.lid).is_unicast());
            let Some(first) = asked.next() else {
                continue;
            };
            // One request is enough to find out whether who was silent answers now.
            let was_silent = self.nodes[first.1.node].collection.is_timeout;
            let rest = asked.take_while(|_| !was_silent);
            for (place, port) in std::iter::once(first).chain(rest) {
                let mut ask = |attribute| queries.push(Query { place, attribute });
                ask(Attribute::Extended);
                // What has gone down is worth to be known at once.
                if is_turn(place) || port.state == PortState::Down {
                    ask(Attribute::Basic);
                }
                if self.ports[place].details_due {
                    ask(Attribute::Details);
                }
            }
        }
    }
}

/// The datagrams of requests, made once: a request sets the port and the transaction id.
#[derive(Debug)]
pub(super) struct Templates {
    mads: [Mad; 3],
}

impl Templates {
    pub(super) fn new() -> Self {
        let all = [Attribute::Extended, Attribute::Basic, Attribute::Details];
        Self {
            mads: all.map(|attribute| Mad::pma(Method::GET, attribute.id(), 0, 0)),
        }
    }

    fn request(&mut self, attribute: Attribute, port: PortNum, tid: u32) -> &Mad {
        let mad = &mut self.mads[attribute as usize];
        mad.set_tid(tid.into());
        match attribute {
            Attribute::Extended => mad.set_pma_attribute(&PortCountersExtended {
                port_select: port,
                ..PortCountersExtended::default()
            }),
            Attribute::Basic => mad.set_pma_attribute(&PortCounters {
                port_select: port,
                ..PortCounters::default()
            }),
            Attribute::Details => mad.set_pma_attribute(&PortRcvErrorDetails {
                port_select: port,
                ..PortRcvErrorDetails::default()
            }),
        }
        mad
    }
}

/// A sample under way.
#[derive(Debug)]
pub(super) struct Round<'a> {
    fabric: &'a Fabric,
    books: &'a mut Books,
    queries: std::slice::Iter<'a, Query>,
    templates: &'a mut Templates,
    outstanding: Transactions<Query>,
    /// Requests sent, repetitions included.
    pub(super) requests: u64,
    /// Repetitions, but of requests that were given up.
    repeated: u64,
}

impl<'a> Round<'a> {
    pub(super) fn new(
        fabric: &'a Fabric,
        books: &'a mut Books,
        queries: &'a [Query],
        templates: &'a mut Templates,
    ) -> Self {
        books.nodes.fill(NodeBook::default());
        let window = books.window();
        Self {
            fabric,
            books,
            queries: queries.iter(),
            templates,
            outstanding: Transactions::new(window),
            requests: 0,
            repeated: 0,
        }
    }

    /// The end of the sample; how many requests it took.
    pub(super) fn end(self) -> u64 {
        // What is slow answers a repeated request, what is gone none.
        self.books.adapt(self.repeated > 0);
        self.requests
    }

    /// Whether all is answered or given up.
    pub(super) fn is_over(&self) -> bool {
        self.outstanding.is_empty() && self.queries.as_slice().is_empty()
    }

    /// When a request is due again.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.outstanding.deadline()
    }

    /// The next request to be sent, and where to; one that is due again goes first. `tid`: its transaction id, if
    /// it is a new one.
    pub(super) fn next(&mut self, now: Time, tid: impl FnOnce() -> u32) -> Option<(Lid, &Mad)> {
        let (tid, query) = match self.due(now) {
            Some(again) => again,
            None => {
                if self.outstanding.room() == 0 {
                    return None;
                }
                let query = *self.queries.next()?;
                let tid = tid();
                self.outstanding
                    .start(now, tid.into(), TIMING, query)
                    .ok()?;
                (tid, query)
            }
        };
        self.requests += 1;
        let port = &self.fabric.ports[query.place];
        self.books.nodes[port.node].asked_at.get_or_insert(now);
        let number = PortNum::new(port.number);
        let mad = self.templates.request(query.attribute, number, tid);
        Some((Lid::new(port.lid), mad))
    }

    /// A request that has to be sent again; those that are given up are noted.
    fn due(&mut self, now: Time) -> Option<(u32, Query)> {
        loop {
            match self.outstanding.poll(now)? {
                Due::Retry { tid, request } => {
                    self.repeated += 1;
                    return Some((lower(tid), *request));
                }
                Due::TimedOut { request, .. } => {
                    self.repeated -= u64::from(TIMING.attempts) - 1;
                    let node = self.fabric.ports[request.place].node;
                    self.books.nodes[node].collection.is_timeout = true;
                    self.books.ports[request.place].is_silent();
                }
            }
        }
    }

    /// An answer has come from `lid`.
    pub(super) fn answered(&mut self, now: Time, lid: Lid, mad: &Mad) {
        let tid = u64::from(lower(mad.tid()));
        let Some(&query) = self.outstanding.get(tid) else {
            return;
        };
        let port = &self.fabric.ports[query.place];
        if lid.get() != port.lid || mad.attr_id() != query.attribute.id() {
            return;
        }
        self.outstanding.finish(tid);
        let node = &mut self.books.nodes[port.node];
        if let Some(asked_at) = node.asked_at {
            let ns = now.0.saturating_sub(asked_at.0);
            node.collection.duration_s = wire::convert::real(ns) / 1e9;
        }
        let book = &mut self.books.ports[query.place];
        let number = port.number;
        let is_read = mad.status().0 == 0
            && match query.attribute {
                Attribute::Extended => {
                    let read = parse::<PortCountersExtended>(mad, number, |it| it.port_select);
                    read.map(|read| book.extended(now, &read)).is_some()
                }
                Attribute::Basic => {
                    let read = parse::<PortCounters>(mad, number, |it| it.port_select);
                    read.map(|read| book.basic(now, &read)).is_some()
                }
                Attribute::Details => {
                    let read = parse::<PortRcvErrorDetails>(mad, number, |it| it.port_select);
                    // Devices need not have them: they are not asked again until errors are counted.
                    book.details_due = false;
                    read.map(|read| book.details(&read)).is_some()
                }
            };
        if is_read {
            book.is_stale = false;
        } else if query.attribute == Attribute::Details {
            book.details_due = false;
        } else {
            node.collection.is_error = true;
            book.is_silent();
        }
    }
}

/// The attribute of an answer, if it is of that port.
fn parse<A: Format>(mad: &Mad, port: u8, of: impl Fn(&A) -> PortNum) -> Option<A> {
    let read = mad.pma_attribute::<A>().ok()?;
    (of(&read).get() == port).then_some(read)
}
