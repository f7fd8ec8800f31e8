//! Windows without interference (CLOS04): at a steady rate, what hosts have asked for becomes
//! connections that share no link, and each sender is sent its DLID.
//!
//! ```text
//!         request (next tick in one interval)      tick (nothing to do any more)
//!   Still ------------------------------> Waiting ----------------------------> Still
//!                                           |  ^
//!                    tick: decide, compare  |  | all answered
//!                                           v  |
//!     senders whose way ends or changes: Revoking ---> Draining ---> Granting: senders with a
//!                                          all answered     guard time     new way
//! ```
//!
//! First every sender that is to leave a tree is asked to stop, and only when all have answered
//! are the new ways given out: two senders never share a link because one heard sooner than the
//! other. What the first had sent may be under way then, so a guard time passes in between, a
//! sixteenth of a window: the paper does not specify it; packets that wait for no others take some
//! microseconds, but no message says when the last one has arrived. A tick that falls
//! due before all that waits, and is counted as late.
//!
//! A host that does not answer is asked [`RETRIES`] times more, then the window goes on without
//! it. Until it answers, what it asks for is put off, and now and then it is asked once to stop, so
//! that a host that comes back is noticed.

use std::collections::{BTreeMap, BTreeSet};

use link::Time;
use routing::RoutingEngine;
use routing::clos::{Clos, Controller, Mode, Reason};
use routing::network::Network;
use wire::convert::saturate;
use wire::vendor::{WindowGrant, WindowRequest, WindowState};
use wire::{Guid, Lid, Mad, MadStatus, Method, Qpn};

use mad::local::MadMessage;

use crate::exchange::{Exchange, Expired};
use crate::plan::Plan;
use crate::smp;
use crate::subnet::Subnet;

/// How long a grant may stay unanswered before it is sent again, nanoseconds.
const GRANT_TIMEOUT_NS: u64 = 20_000_000;
/// How often a grant is sent again.
const RETRIES: u8 = 10;
/// Grants that may be unanswered at a time.
const GRANTS_IN_FLIGHT: usize = 256;
/// Pairs that may be asked for at a time, for each host.
const PAIRS_PER_HOST: usize = 16;
const NS_PER_S: u64 = 1_000_000_000;
/// The part of a window for which packets under way may use links that are given to others next.
const GUARD_PART: u64 = 16;
/// An unresponsive host is probed every so many windows, by a grant of nothing.
const PROBE_WINDOWS: u32 = 60;

/// The hosts of a Clos fabric by number, and the trees between them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ClosFabric {
    /// Port GUID and base LID.
    hosts: Vec<(Guid, Lid)>,
    leaf_of: Vec<usize>,
    trees: usize,
}

impl ClosFabric {
    fn number(&self, guid: Guid) -> Option<usize> {
        self.hosts
            .binary_search_by_key(&guid, |&(guid, _)| guid)
            .ok()
    }
}

#[derive(Clone, Copy, Debug)]
struct PairRequest {
    pair: (Guid, Guid),
    /// Windows that it goes on for; [`WindowRequest::UNTIL_ENDED`] without end.
    left: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Waiting,
    Revoking,
    /// Until then.
    Draining(Time),
    Granting,
}

/// A route that a sender is granted: base LID of the destination, and the DLID.
type Route = (Lid, Lid);

/// A grant for one sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrantMessage {
    sender: Guid,
    to: Lid,
    grant: WindowGrant,
}

/// Windows, and the requests for them.
#[derive(Debug)]
pub(crate) struct Windows {
    interval_ns: u64,
    state: WindowState,
    fabric: Option<ClosFabric>,
    /// Where the hosts of the latest fabric are, by port GUID.
    addresses: BTreeMap<Guid, Lid>,
    controller: Option<Controller>,
    requests: Vec<PairRequest>,
    next_at: Option<Time>,
    step: Step,
    last_step: u32,
    exchange: Exchange<GrantMessage>,
    in_force: BTreeMap<Guid, Route>,
    /// What the window that is being granted gives to each sender.
    decided: BTreeMap<Guid, Route>,
    /// Hosts that have not answered, and the windows since they were last probed.
    unresponsive: BTreeMap<Guid, u32>,
}

/// A request that is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestError {
    /// The fabric has no windows.
    NoWindows,
    /// A LID that no host has.
    NoSuchHost,
    /// A host that asks for a connection to itself.
    ToItself,
    /// A pair of other hosts.
    OfOthers,
    /// As many pairs as there may be.
    TooMany,
}

impl RequestError {
    /// The answer to the requester.
    pub(crate) fn status(self) -> MadStatus {
        match self {
            Self::TooMany => MadStatus::BUSY,
            Self::OfOthers => MadStatus::SA_DENIED,
            Self::NoWindows => MadStatus::BAD_METHOD_ATTRIBUTE,
            Self::NoSuchHost | Self::ToItself => MadStatus::BAD_FIELD,
        }
    }
}

impl Windows {
    /// No windows yet; `rate` a second, at least 1.
    pub(crate) fn new(rate: u16) -> Self {
        Self {
            interval_ns: NS_PER_S / u64::from(rate.max(1)),
            state: WindowState {
                rate,
                ..WindowState::default()
            },
            fabric: None,
            addresses: BTreeMap::new(),
            controller: None,
            requests: Vec::new(),
            next_at: None,
            step: Step::Waiting,
            last_step: 0,
            exchange: Exchange::new(GRANTS_IN_FLIGHT, GRANT_TIMEOUT_NS),
            in_force: BTreeMap::new(),
            decided: BTreeMap::new(),
            unresponsive: BTreeMap::new(),
        }
    }

    /// Begins a session: hosts follow this run of the controller and no other.
    pub(crate) fn begin_session(&mut self, now: Time) {
        let [.., a, b, c, d] = (now.0 >> 10).to_be_bytes();
        self.state.session = u32::from_be_bytes([a, b, c, d]).max(1);
    }

    /// Follows a new plan. Connections start anew where hosts or trees are others.
    pub(crate) fn follow(&mut self, now: Time, subnet: &Subnet, plan: &Plan) {
        let fabric = fabric(subnet, plan);
        if fabric == self.fabric {
            return;
        }
        self.controller = fabric.as_ref().and_then(|fabric| {
            Controller::new(fabric.leaf_of.clone(), fabric.trees, Mode::Rearrange).ok()
        });
        let trees = fabric.as_ref().map_or(0, |fabric| fabric.trees);
        self.state.trees = saturate::<u16>(trees);
        if let Some(fabric) = &fabric {
            self.addresses = fabric.hosts.iter().copied().collect();
        }
        self.fabric = fabric;
        self.schedule_tick(now);
    }

    fn schedule_tick(&mut self, now: Time) {
        let at = now + self.interval_ns;
        self.next_at = self.next_at.or(Some(at));
    }

    /// The state of the windows.
    pub(crate) fn state(&self) -> WindowState {
        let count = |number: usize| saturate::<u16>(number);
        let waiting = self
            .controller
            .as_ref()
            .map_or(0, |one| one.waiting().len());
        let put_off = self
            .requests
            .iter()
            .filter(|ask| self.is_unresponsive(ask))
            .count();
        WindowState {
            connections: count(self.decided.len().max(self.in_force.len())),
            waiting: count(waiting + put_off),
            ..self.state
        }
    }

    /// Whether its source has not answered.
    fn is_unresponsive(&self, ask: &PairRequest) -> bool {
        self.unresponsive.contains_key(&ask.pair.0)
    }

    /// Takes in a request. `guid_of` finds the host that has a LID; `may_ask` tells whether the
    /// requester speaks for a pair.
    pub(crate) fn request(
        &mut self,
        now: Time,
        request: &WindowRequest,
        guid_of: impl Fn(Lid) -> Option<Guid>,
        may_ask: impl Fn([Guid; 2]) -> bool,
    ) -> Result<(), RequestError> {
        let fabric = self.fabric.as_ref().ok_or(RequestError::NoWindows)?;
        let host = |lid| {
            let guid = guid_of(lid).filter(|&guid| fabric.number(guid).is_some());
            guid.ok_or(RequestError::NoSuchHost)
        };
        let mut pairs = Vec::with_capacity(request.pairs.len());
        for (source, destination) in request.iter() {
            let pair = (host(source)?, host(destination)?);
            if pair.0 == pair.1 {
                return Err(RequestError::ToItself);
            }
            if !may_ask([pair.0, pair.1]) {
                return Err(RequestError::OfOthers);
            }
            pairs.push(pair);
        }
        let gone: BTreeSet<(Guid, Guid)> = pairs.iter().copied().collect();
        let mut asks = self.requests.clone();
        if request.windows == 0 {
            asks.retain(|ask| !gone.contains(&ask.pair));
        } else {
            for pair in pairs {
                let left = request.windows;
                match asks.iter_mut().find(|ask| ask.pair == pair) {
                    Some(ask) => ask.left = left,
                    None => asks.push(PairRequest { pair, left }),
                }
            }
        }
        if asks.len() > PAIRS_PER_HOST * fabric.hosts.len() {
            return Err(RequestError::TooMany);
        }
        self.requests = asks;
        self.schedule_tick(now);
        Ok(())
    }

    /// A host has answered.
    pub(crate) fn answered(&mut self, now: Time, answer: &Mad) {
        if let Some(message) = self.exchange.answered(now, answer.tid()) {
            self.unresponsive.remove(&message.sender);
            self.acknowledged(&message);
        }
    }

    fn acknowledged(&mut self, message: &GrantMessage) {
        if message.grant.dlid == Lid::ZERO {
            self.in_force.remove(&message.sender);
        } else {
            let route = (message.grant.destination, message.grant.dlid);
            self.in_force.insert(message.sender, route);
        }
    }

    /// Does what is due, and returns what is to be sent.
    pub(crate) fn run(&mut self, now: Time) -> Vec<MadMessage> {
        while let Some(expired) = self.exchange.expire(now) {
            let Expired::GivenUp(message) = expired else {
                continue;
            };
            // It counts as acknowledged: whether the grant arrived is unknown, and the others must not
            // wait.
            self.state.unanswered = self.state.unanswered.wrapping_add(1);
            self.unresponsive.insert(message.sender, 0);
            self.acknowledged(&message);
        }
        let mut messages = Vec::new();
        loop {
            while let Some((transaction, grant)) = self.exchange.next(now) {
                let mad = Mad::vendor(Method::SET, 0, transaction, &grant.grant);
                messages.push(smp::message(grant.to, Qpn::GSI, &mad));
            }
            if !self.exchange.is_idle() || !self.advance(now) {
                return messages;
            }
        }
    }

    /// Goes on when no grant is in flight. `false` if nothing is due.
    fn advance(&mut self, now: Time) -> bool {
        match self.step {
            Step::Waiting => {
                let Some(due) = self.next_at.filter(|&due| due <= now) else {
                    return false;
                };
                self.tick(now, due);
                let is_any_revoked = self.revoke();
                self.step = match is_any_revoked {
                    true => Step::Revoking,
                    // Nothing is under way.
                    false => Step::Draining(now),
                };
            }
            Step::Revoking => {
                self.step = Step::Draining(now + self.interval_ns / GUARD_PART);
            }
            Step::Draining(until) => {
                if until > now {
                    return false;
                }
                self.grant();
                self.step = Step::Granting;
            }
            Step::Granting => self.step = Step::Waiting,
        }
        true
    }

    /// Decides the next window.
    fn tick(&mut self, now: Time, due: Time) {
        self.decided = self.decide().unwrap_or_default();
        let waiting = self
            .controller
            .as_ref()
            .map_or(0, |one| one.waiting().len());
        let busy = !self.requests.is_empty() || waiting > 0 || !self.decided.is_empty();
        let next = due + self.interval_ns;
        if next < now {
            self.state.late = self.state.late.wrapping_add(1);
        }
        self.next_at = busy.then(|| next.max(now));
    }

    fn decide(&mut self) -> Option<BTreeMap<Guid, Route>> {
        let fabric = self.fabric.as_ref()?;
        let controller = self.controller.as_mut()?;
        self.requests.retain(|ask| {
            fabric.number(ask.pair.0).is_some() && fabric.number(ask.pair.1).is_some()
        });
        let (silent, heard): (Vec<&PairRequest>, Vec<&PairRequest>) = self
            .requests
            .iter()
            .partition(|ask| self.unresponsive.contains_key(&ask.pair.0));
        let requests: Vec<(usize, usize)> = heard
            .iter()
            .filter_map(|ask| Some((fabric.number(ask.pair.0)?, fabric.number(ask.pair.1)?)))
            .collect();
        // Requests that a window refuses as a whole were refused on receipt.
        let window = controller.window(&requests).ok()?;
        let count = |number: usize| saturate::<u32>(number);
        let blocked = |reason: Reason| reason == Reason::Blocked;
        let state = &mut self.state;
        state.window = state.window.wrapping_add(1);
        state.moved = state.moved.wrapping_add(count(window.moved.len()));
        let deferred = window.deferred.len() + silent.len();
        state.deferred = state.deferred.wrapping_add(count(deferred));
        let blocked = window.deferred.iter().filter(|pair| blocked(pair.reason));
        state.blocked = state.blocked.wrapping_add(count(blocked.count()));
        let mut decided = BTreeMap::new();
        let mut served = BTreeSet::new();
        for admitted in &window.admitted {
            let (source, _) = *fabric.hosts.get(admitted.source)?;
            let (destination, base) = *fabric.hosts.get(admitted.destination)?;
            let offset = u16::try_from(admitted.tree).ok()?;
            let dlid = Lid::new(base.get().saturating_add(offset));
            decided.insert(source, (base, dlid));
            served.insert((source, destination));
        }
        for ask in &mut self.requests {
            if ask.left != WindowRequest::UNTIL_ENDED && served.contains(&ask.pair) {
                ask.left -= 1;
            }
        }
        self.requests.retain(|ask| ask.left > 0);
        Some(decided)
    }

    fn send_grant(&mut self, sender: Guid, (destination, dlid): Route) {
        let Some(&to) = self.addresses.get(&sender) else {
            // A host that is not there cannot send.
            self.in_force.remove(&sender);
            return;
        };
        self.last_step = self.last_step.wrapping_add(1);
        let grant = WindowGrant {
            session: self.state.session,
            step: self.last_step,
            destination,
            dlid,
        };
        let retries = match self.unresponsive.contains_key(&sender) {
            true => 0,
            false => RETRIES,
        };
        self.exchange
            .push_probe(GrantMessage { sender, to, grant }, retries);
    }

    /// Unresponsive hosts that are to be probed again.
    fn due_probes(&mut self) -> Vec<Guid> {
        let asked: BTreeSet<Guid> = self.requests.iter().map(|ask| ask.pair.0).collect();
        self.unresponsive.retain(|host, _| asked.contains(host));
        let mut due = Vec::new();
        for (&host, windows) in &mut self.unresponsive {
            *windows += 1;
            if *windows >= PROBE_WINDOWS {
                *windows = 0;
                due.push(host);
            }
        }
        due
    }

    /// Revokes the grants of senders whose route ends or changes; whether there are any.
    fn revoke(&mut self) -> bool {
        let stale = |(sender, route): &(&Guid, &Route)| self.decided.get(*sender) != Some(*route);
        let stale: Vec<Guid> = self
            .in_force
            .iter()
            .filter(stale)
            .map(|(&sender, _)| sender)
            .collect();
        let is_any = !stale.is_empty();
        let tried = self.due_probes();
        let tried = tried
            .into_iter()
            .filter(|host| !self.in_force.contains_key(host));
        let stopped: Vec<Guid> = stale.into_iter().chain(tried).collect();
        for sender in stopped {
            self.send_grant(sender, (Lid::ZERO, Lid::ZERO));
        }
        is_any
    }

    /// Grants the senders that have a new route.
    fn grant(&mut self) {
        let new: Vec<(Guid, Route)> = self
            .decided
            .iter()
            .filter(|(sender, route)| self.in_force.get(*sender) != Some(*route))
            .map(|(&sender, &route)| (sender, route))
            .collect();
        for (sender, route) in new {
            self.send_grant(sender, route);
        }
    }

    /// When something is due without input.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let tick = match self.step {
            Step::Waiting => self.next_at,
            Step::Draining(until) if self.exchange.is_idle() => Some(until),
            Step::Revoking | Step::Draining(_) | Step::Granting => None,
        };
        match (tick, self.exchange.deadline()) {
            (Some(tick), Some(answer)) => Some(tick.min(answer)),
            (tick, answer) => tick.or(answer),
        }
    }
}

/// The Clos fabric that a plan is for, if it is for one.
fn fabric(subnet: &Subnet, plan: &Plan) -> Option<ClosFabric> {
    let tables = plan
        .tables
        .as_ref()
        .filter(|one| one.engine == RoutingEngine::Clos)?;
    let network = Network::new(&plan.graph);
    let clos = Clos::recognise(&plan.graph, &network).ok()?;
    let hosts = network.hosts().iter().map(|host| {
        let device = subnet.devices.get(host.end.node.index())?;
        let base = tables.lids.of(host.end)?.base;
        Some((device.end_port_guid(), base))
    });
    Some(ClosFabric {
        hosts: hosts.collect::<Option<_>>()?,
        leaf_of: clos.leaf_of().to_vec(),
        trees: clos.trees(),
    })
}
