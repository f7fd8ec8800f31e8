//! Which link-layer address has which internet address.
//!
//! ```text
//!            needed                    heard                        30 s unused or older, and needed
//!  (nothing) -------> Asking(1..=4) ------------> Reachable --------------------+
//!                       |  ^                         ^                          v
//!                       |  +---- four unanswered ----|--------------------- Probing(1..=4): used on meanwhile,
//!        four unanswered|                            +------- heard ----------- asked by unicast
//!                       v
//!                    (nothing): what waited is dropped
//! ```
//!
//! Only who is asked is believed at once. One who says unasked that a neighbour has another link-layer address now has
//! the known one probed: if that still answers, it stays.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use link::Time;
use wire::ipoib::LinkAddress;

use super::Asker;
use super::agenda::Agenda;

/// Neighbours at most; the one that was not used for longest gives way.
const NEIGHBOURS_MAX: usize = 8192;
/// Packets that wait for one neighbour at most; the oldest gives way.
const WAITING_MAX: usize = 64;
/// Packets that wait for all neighbours at most.
const WAITING_IN_ALL_MAX: usize = 4096;
/// Requests to resolve an address that wait for one neighbour at most.
const RESOLVERS_MAX: usize = 256;
/// How long a neighbour is used before it is asked whether it is still there.
const REACHABLE_NS: u64 = 30_000_000_000;
/// How long the first question waits for its answer; the time doubles with each.
const ANSWER_NS: u64 = 250_000_000;
/// Questions before a neighbour is given up, 3.75 s after the first.
const QUESTIONS: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asking,
    Reachable,
    Probing,
}

#[derive(Debug)]
struct Neighbour {
    state: State,
    /// Of one that is not being asked for the first time.
    link: Option<LinkAddress>,
    /// When it was heard last.
    heard: Time,
    last_used: Time,
    questions: u32,
    waiting: VecDeque<Vec<u8>>,
    resolvers: Vec<Asker>,
}

/// A question to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Question {
    /// Whose address is asked for.
    pub(super) ip: IpAddr,
    /// Whom it is sent to; all, if nobody is known.
    pub(super) link: Option<LinkAddress>,
}

/// A neighbour that has not answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lost {
    /// What it was.
    pub(super) link: Option<LinkAddress>,
    /// Packets that waited for it.
    pub(super) dropped: usize,
    /// Requests that waited for it.
    pub(super) resolvers: Vec<Asker>,
}

/// What is due.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// A question.
    Ask(Question),
    /// One has gone.
    Lost(Lost),
}

/// Packets that are dropped to make room, or because there is none.
pub(super) type Dropped = usize;

/// All neighbours.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    entries: BTreeMap<IpAddr, Neighbour>,
    agenda: Agenda<IpAddr>,
    /// Packets that wait for all of them.
    waiting: usize,
    /// Requests whose neighbour has given way.
    evicted: Vec<Asker>,
}

impl Neighbours {
    /// The link-layer address of a neighbour that is needed; it is asked for if it is not known, or has not been heard
    /// for long.
    pub(super) fn find(&mut self, now: Time, ip: IpAddr) -> Option<LinkAddress> {
        let Some(neighbour) = self.entries.get_mut(&ip) else {
            self.insert(now, ip, State::Asking, None);
            self.agenda.set(ip, now);
            return None;
        };
        neighbour.last_used = now;
        if neighbour.state == State::Reachable && now.since_ns(neighbour.heard) > REACHABLE_NS {
            neighbour.probe();
            self.agenda.set(ip, now);
        }
        neighbour.link
    }

    fn insert(
        &mut self,
        now: Time,
        ip: IpAddr,
        state: State,
        link: Option<LinkAddress>,
    ) -> Dropped {
        let dropped = match self.entries.len() >= NEIGHBOURS_MAX {
            true => self.evict(),
            false => 0,
        };
        let neighbour = Neighbour {
            state,
            link,
            heard: now,
            last_used: now,
            questions: 0,
            waiting: VecDeque::new(),
            resolvers: Vec::new(),
        };
        self.entries.insert(ip, neighbour);
        dropped
    }

    fn evict(&mut self) -> Dropped {
        let oldest = self.entries.iter().min_by_key(|(_, one)| one.last_used);
        let Some((&ip, _)) = oldest else {
            return 0;
        };
        let lost = self.remove(ip);
        self.evicted.extend(lost.resolvers);
        lost.dropped
    }

    fn remove(&mut self, ip: IpAddr) -> Lost {
        self.agenda.clear(ip);
        let Some(gone) = self.entries.remove(&ip) else {
            return Lost {
                link: None,
                dropped: 0,
                resolvers: Vec::new(),
            };
        };
        self.waiting -= gone.waiting.len();
        Lost {
            link: gone.link,
            dropped: gone.waiting.len(),
            resolvers: gone.resolvers,
        }
    }

    /// Has a packet wait for a neighbour that [`Self::find`] has been asked for.
    pub(super) fn hold(&mut self, ip: IpAddr, packet: Vec<u8>) -> Dropped {
        let Some(neighbour) = self.entries.get_mut(&ip) else {
            return 1;
        };
        if self.waiting >= WAITING_IN_ALL_MAX && neighbour.waiting.is_empty() {
            return 1;
        }
        neighbour.waiting.push_back(packet);
        self.waiting += 1;
        if neighbour.waiting.len() <= WAITING_MAX && self.waiting <= WAITING_IN_ALL_MAX {
            return 0;
        }
        self.waiting -= 1;
        neighbour.waiting.pop_front();
        1
    }

    /// Has a request wait for a neighbour. `false`: too many do.
    pub(super) fn wait(&mut self, ip: IpAddr, asker: Asker) -> bool {
        let Some(neighbour) = self.entries.get_mut(&ip) else {
            return false;
        };
        let has_room = neighbour.resolvers.len() < RESOLVERS_MAX;
        if has_room {
            neighbour.resolvers.push(asker);
        }
        has_room
    }

    /// A neighbour has told its link-layer address: in answer to a question, or not. One that is not known is
    /// remembered if it asks for this port (`asks_us`). Packets that were dropped for it.
    pub(super) fn hear(
        &mut self,
        now: Time,
        ip: IpAddr,
        link: LinkAddress,
        is_answer: bool,
        asks_us: bool,
    ) -> Dropped {
        let Some(neighbour) = self.entries.get_mut(&ip) else {
            return match asks_us {
                true => self.insert(now, ip, State::Reachable, Some(link)),
                false => 0,
            };
        };
        let is_asked = is_answer && neighbour.state != State::Reachable;
        // An answer of the one that is being probed, or to a question to all.
        let is_believed = neighbour.link.is_none_or(|known| known == link);
        if is_believed && (is_asked || neighbour.link.is_some() || asks_us) {
            neighbour.state = State::Reachable;
            neighbour.link = Some(link);
            neighbour.heard = now;
            self.agenda.clear(ip);
        } else if !is_believed && neighbour.state == State::Reachable {
            neighbour.probe();
            self.agenda.set(ip, now);
        }
        0
    }

    /// The link-layer address of a neighbour.
    pub(super) fn link(&self, ip: IpAddr) -> Option<LinkAddress> {
        self.entries.get(&ip)?.link
    }

    /// Whether a neighbour has that link-layer address.
    pub(super) fn is_known(&self, ip: IpAddr, link: LinkAddress) -> bool {
        self.link(ip) == Some(link)
    }

    /// Whether packets wait for a neighbour.
    pub(super) fn has_waiting(&self, ip: IpAddr) -> bool {
        let neighbour = self.entries.get(&ip);
        neighbour.is_some_and(|neighbour| !neighbour.waiting.is_empty())
    }

    /// Takes a packet that waits for a neighbour.
    pub(super) fn take_waiting(&mut self, ip: IpAddr) -> Option<Vec<u8>> {
        let packet = self.entries.get_mut(&ip)?.waiting.pop_front()?;
        self.waiting -= 1;
        Some(packet)
    }

    /// Drops the packets that wait for a neighbour. How many there were.
    pub(super) fn drop_waiting(&mut self, ip: IpAddr) -> Dropped {
        let Some(neighbour) = self.entries.get_mut(&ip) else {
            return 0;
        };
        let dropped = neighbour.waiting.len();
        neighbour.waiting.clear();
        self.waiting -= dropped;
        dropped
    }

    /// The requests that wait for a neighbour.
    pub(super) fn take_resolvers(&mut self, ip: IpAddr) -> Vec<Asker> {
        let neighbour = self.entries.get_mut(&ip);
        neighbour.map_or_else(Vec::new, |one| std::mem::take(&mut one.resolvers))
    }

    /// Requests whose neighbour had to give way to others.
    pub(super) fn take_evicted(&mut self) -> Vec<Asker> {
        std::mem::take(&mut self.evicted)
    }

    /// The neighbours with that link-layer address's port for which packets wait.
    pub(super) fn waiting_at(&self, gid: wire::Gid) -> Vec<IpAddr> {
        let is_there = |one: &Neighbour| {
            !one.waiting.is_empty() && one.link.is_some_and(|link| link.gid == gid)
        };
        let found = self.entries.iter().filter(|(_, one)| is_there(one));
        found.map(|(&ip, _)| ip).collect()
    }

    /// What is due.
    pub(super) fn poll(&mut self, now: Time) -> Option<Due> {
        loop {
            let ip = self.agenda.take_due(now)?;
            let Some(neighbour) = self.entries.get_mut(&ip) else {
                continue;
            };
            if neighbour.questions < QUESTIONS {
                let wait_ns = ANSWER_NS << neighbour.questions;
                neighbour.questions += 1;
                self.agenda.set(ip, now + wait_ns);
                let link = neighbour.link;
                return Some(Due::Ask(Question { ip, link }));
            }
            let lost = neighbour.link.take();
            let is_needed = !neighbour.waiting.is_empty() || !neighbour.resolvers.is_empty();
            if neighbour.state == State::Probing && is_needed {
                neighbour.state = State::Asking;
                neighbour.questions = 0;
                self.agenda.set(ip, now);
                return Some(Due::Lost(Lost {
                    link: lost,
                    dropped: 0,
                    resolvers: Vec::new(),
                }));
            }
            return Some(Due::Lost(Lost {
                link: lost,
                ..self.remove(ip)
            }));
        }
    }

    /// When something is due.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.agenda.first()
    }
}

impl Neighbour {
    fn probe(&mut self) {
        self.state = State::Probing;
        self.questions = 0;
    }
}
