//! Connections with promised bandwidth (VLARB01): who has asked for one, on which path it stands,
//! and what the ports' tables must therefore hold.
//!
//! The links' books ([`Admission`]) belong to the plan, since they follow its paths; what was asked
//! for is kept here, so that it outlives a plan. With each new plan every connection is looked at
//! again: while links and paths are as they were nothing moves, not an entry; a connection whose
//! path has changed gives its slots back and asks anew; one that no longer fits is dropped. Its
//! sender is told of that, and of a DLID or service level that has changed ([`changes`]).
//!
//! Connections outlive the manager ([`memory`]): a new one asks for all of them anew, in the order in
//! which they were granted. Each gets its slots again, though perhaps in other entries of a table
//! than before.
//!
//! Unclassified traffic is best effort, on service level 0 ([`routing::qos::ServiceLevels::BestEffortFirst`]):
//! management datagrams of QP1 travel there, and must before any connection stands.
//!
//! A lane without entries sends nothing, so each connection also owns one slot on every link of the
//! way back from its destination to its source's base LID: what is answered on its service level
//! would be lost otherwise. VLARB01 speaks of one direction only.

mod books;
mod changes;
mod memory;
mod ports;

use std::collections::{BTreeMap, VecDeque};

use link::Time;
use mad::local::MadMessage;
use routing::qos::Admission;
use topologies::Endpoint;
use wire::vendor::{QosCause, QosConnection};
use wire::{Guid, Lid, Mad, PortNum};

use crate::ConfigError;
use crate::plan::Plan;
use crate::subnet::Subnet;

use books::{Held, admit, is_in_place, open, path};
use changes::Changes;
pub(crate) use ports::{high_limit, lanes, weights};

/// The most connections.
const CONNECTIONS_MAX: usize = 65_536;
/// Requests that wait for their turn at most.
const INBOX_MAX: usize = 64;
/// Answers that are kept for the case that the request is repeated.
const ANSWERED_MAX: usize = 64;
/// How long they are kept, nanoseconds.
const ANSWERED_NS: u64 = 5_000_000_000;

/// A connection that was granted.
#[derive(Clone, Debug)]
struct Granted {
    asked: QosConnection,
    /// In the books of the plan.
    held: Option<Held>,
    /// The output ports of its path, by node GUID.
    path: Vec<(Guid, PortNum)>,
}

/// A request or answer, and whose it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Letter {
    /// Who asks.
    pub(crate) from: Lid,
    /// The datagram.
    pub(crate) mad: Mad,
}

/// Connections and the requests for them.
#[derive(Debug, Default)]
pub(crate) struct Quality {
    on: bool,
    granted: BTreeMap<u32, Granted>,
    last_id: u32,
    /// Requests that wait until nothing else is under way.
    inbox: VecDeque<Letter>,
    /// Answers that wait until the tables are written.
    outbox: Vec<Letter>,
    answered: VecDeque<(Time, Letter)>,
    /// What senders are to hear.
    changes: Changes,
}

impl Quality {
    /// `on`: whether tables are to be filled at all. `remembered`: what [`Self::memory`] gave to an
    /// earlier manager.
    ///
    /// # Errors
    /// [`ConfigError::ConnectionsFile`].
    pub(crate) fn new(on: bool, remembered: Option<&str>) -> Result<Self, ConfigError> {
        let connections = match remembered {
            Some(text) if on => memory::parse(text)?,
            _ => Vec::new(),
        };
        let standing = |asked: QosConnection| Granted {
            asked,
            held: None,
            path: Vec::new(),
        };
        Ok(Self {
            on,
            last_id: connections.iter().map(|one| one.id).max().unwrap_or(0),
            granted: connections
                .into_iter()
                .map(|one| (one.id, standing(one)))
                .collect(),
            ..Self::default()
        })
    }

    /// What a later manager needs to know; `None` if no bandwidth is promised at all.
    pub(crate) fn memory(&self) -> Option<String> {
        let granted = self.granted.values();
        self.on
            .then(|| memory::write(granted.map(|granted| &granted.asked)))
    }

    /// What senders are to hear now that the tables are written.
    pub(crate) fn tell(&mut self, now: Time) -> Vec<MadMessage> {
        self.changes.tell(now)
    }

    /// What they have not answered, and are to hear again.
    pub(crate) fn repeat(&mut self, now: Time) -> Vec<MadMessage> {
        self.changes.poll(now)
    }

    /// A sender has heard.
    pub(crate) fn heard(&mut self, answer: &Mad) {
        self.changes.answered(answer.tid());
    }

    /// When something is to be told again.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.changes.deadline()
    }

    /// Takes in a request. Returns an answer if it has been given before; `Err` if too many wait.
    pub(crate) fn enqueue(&mut self, now: Time, from: Lid, mad: &Mad) -> Result<Option<Mad>, Full> {
        self.answered
            .retain(|(at, _)| now.since_ns(*at) < ANSWERED_NS);
        let same = |letter: &Letter| letter.from == from && letter.mad.tid() == mad.tid();
        let again = self.answered.iter().find(|(_, letter)| same(letter));
        if let Some((_, letter)) = again {
            return Ok(Some(letter.mad));
        }
        if self.inbox.iter().chain(&self.outbox).any(same) {
            return Ok(None);
        }
        if self.inbox.len() >= INBOX_MAX {
            return Err(Full);
        }
        self.inbox.push_back(Letter { from, mad: *mad });
        Ok(None)
    }

    /// The next request, oldest first.
    pub(crate) fn next(&mut self) -> Option<Letter> {
        self.inbox.pop_front()
    }

    /// Keeps an answer until [`Self::finish`].
    pub(crate) fn answer(&mut self, letter: Letter) {
        self.outbox.push(letter);
    }

    /// The tables are written: the answers that may go. One whose connection has been dropped in
    /// the meantime says so.
    pub(crate) fn finish(&mut self, now: Time) -> Vec<Letter> {
        let mut letters = core::mem::take(&mut self.outbox);
        for letter in &mut letters {
            if let Ok(mut told) = letter.mad.vendor_attribute::<QosConnection>()
                && letter.mad.method() == wire::Method::GET_RESP
                && told.cause == QosCause::Granted
                && !self.granted.contains_key(&told.id)
            {
                told.cause = QosCause::NoPath;
                letter.mad.set_vendor_attribute(&told);
            }
            if self.answered.len() == ANSWERED_MAX {
                self.answered.pop_front();
            }
            self.answered.push_back((now, *letter));
        }
        letters
    }

    /// The first connection whose id is `from` or higher.
    pub(crate) fn list(&self, from: u32) -> Option<QosConnection> {
        let (_, granted) = self.granted.range(from..).next()?;
        Some(granted.asked)
    }

    /// Admits a connection on every link of its path or on none; the answer says which.
    pub(crate) fn connect(
        &mut self,
        subnet: &Subnet,
        plan: &mut Plan,
        asked: &QosConnection,
    ) -> QosConnection {
        let refused = |cause| QosConnection { cause, ..*asked };
        if !self.on || plan.quality.is_none() {
            return refused(QosCause::Off);
        }
        if self.granted.len() >= CONNECTIONS_MAX {
            return refused(QosCause::TooMany);
        }
        let (answer, held) = admit(subnet, plan, asked);
        let Some(held) = held else {
            return answer;
        };
        self.last_id = (1..=u32::MAX)
            .map(|step| self.last_id.wrapping_add(step))
            .find(|id| *id != 0 && !self.granted.contains_key(id))
            .unwrap_or(1);
        let answer = QosConnection {
            id: self.last_id,
            ..answer
        };
        let granted = Granted {
            asked: answer,
            held: Some(held),
            path: path(subnet, plan, &answer),
        };
        self.granted.insert(answer.id, granted);
        answer
    }

    /// Releases a connection; the answer says what it was.
    pub(crate) fn release(&mut self, plan: &mut Plan, asked: &QosConnection) -> QosConnection {
        let Some(granted) = self.granted.remove(&asked.id) else {
            return QosConnection {
                cause: QosCause::NoSuchConnection,
                ..*asked
            };
        };
        self.changes.forget(asked.id);
        if let (Some(books), Some(held)) = (&mut plan.quality, granted.held) {
            held.release(books);
        }
        granted.asked
    }

    /// Opens the books of a new plan, and enters the connections that stand. `old` are the books
    /// of the plan before. Returns what is worth telling.
    pub(crate) fn carry_over(
        &mut self,
        subnet: &Subnet,
        plan: &mut Plan,
        old: Option<Admission>,
    ) -> Vec<String> {
        if !self.on {
            return Vec::new();
        }
        let books = match open(subnet, plan) {
            Ok(books) => books,
            Err(why) => {
                let mut notices = vec![format!("--qos vlarb01: {why}; no bandwidth is promised")];
                for lost in core::mem::take(&mut self.granted).into_values() {
                    let lost = QosConnection {
                        cause: QosCause::Off,
                        ..lost.asked
                    };
                    notices.push(dropped(subnet, &lost));
                    self.changed(subnet, plan, lost);
                }
                return notices;
            }
        };
        let rates = |books: &Admission| -> Vec<(Endpoint, u64)> {
            let links = books.links();
            links.map(|(end, link)| (end, link.link_bps())).collect()
        };
        let kept =
            old.filter(|old| old.options() == books.options() && rates(old) == rates(&books));
        if kept.is_none() {
            for granted in self.granted.values_mut() {
                granted.held = None;
            }
        }
        plan.quality = Some(kept.unwrap_or(books));
        self.readmit(subnet, plan)
    }

    fn readmit(&mut self, subnet: &Subnet, plan: &mut Plan) -> Vec<String> {
        let moved: Vec<u32> = self
            .granted
            .iter()
            .filter(|(_, granted)| {
                let stays = |held| is_in_place(subnet, plan, &granted.asked, held);
                !granted.held.is_some_and(stays)
            })
            .map(|(&id, _)| id)
            .collect();
        // All slots that are given back are there before the first is asked for again.
        for id in &moved {
            let held = self.granted.get_mut(id).and_then(|one| one.held.take());
            if let (Some(books), Some(held)) = (&mut plan.quality, held) {
                held.release(books);
            }
        }
        // Whoever keeps its path comes before those that need another one.
        let (stay, go): (Vec<u32>, Vec<u32>) = moved.into_iter().partition(|id| {
            let granted = self.granted.get(id);
            granted.is_some_and(|granted| granted.path == path(subnet, plan, &granted.asked))
        });
        let mut notices = Vec::new();
        for id in stay.into_iter().chain(go) {
            let Some(granted) = self.granted.get_mut(&id) else {
                continue;
            };
            let (answer, held) = admit(subnet, plan, &granted.asked);
            if held.is_none() {
                notices.push(dropped(subnet, &answer));
                self.granted.remove(&id);
                self.changed(subnet, plan, answer);
                continue;
            }
            let moved = (answer.dlid, answer.sl) != (granted.asked.dlid, granted.asked.sl);
            granted.asked = answer;
            granted.held = held;
            granted.path = path(subnet, plan, &answer);
            if moved {
                notices.push(format!(
                    "connection {id} must use another destination LID or service level from now \
                     on: LID {}, SL {}",
                    answer.dlid, answer.sl
                ));
                self.changed(subnet, plan, answer);
            }
        }
        notices
    }

    /// The sender of a connection is to hear what has become of it, if it is there.
    fn changed(&mut self, subnet: &Subnet, plan: &Plan, change: QosConnection) {
        let sender = subnet.find_end_port(change.source);
        match sender.and_then(|index| plan.lid(index)) {
            Some((lid, _)) => self.changes.add(lid, change),
            None => self.changes.forget(change.id),
        }
    }
}

/// Too many requests wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

fn dropped(subnet: &Subnet, lost: &QosConnection) -> String {
    let name = |guid| {
        let index = subnet.find_end_port(guid);
        index.map_or_else(|| guid.to_string(), |index| subnet.devices[index].label())
    };
    format!(
        "connection {} from {} to {} is dropped: its path has changed and there is no room for it \
         ({:?})",
        lost.id,
        name(lost.source),
        name(lost.destination),
        lost.cause
    )
}
