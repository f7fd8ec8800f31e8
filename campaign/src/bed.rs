//! A twin under a schedule: what is wrong with it at each moment, and what its hosts send.
//!
//! Faults overlap. What a cable or a device suffers is computed from all faults that are active, so
//! that the end of one does not end another.

use std::collections::{BTreeMap, BTreeSet};

use controller::SmConfig;
use controller::control::{Phase, Status};
use hostd::control::{MulticastSend, PerfRequest, PingRequest, Reply, Request, SINK_QPN};
use link::{Pacing, PortConfig, Time};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use routing::RoutingEngine;
use sim::{CableEnd, FaultKind as CableFault, FaultPlan, Twin, TwinConfig};
use switchd::Timing;
use topologies::{Endpoint, Graph, NodeId};
use wire::{Gid, Lid, LinkRate, LinkSpeed, LinkWidth, Lmc, Mtu, Sl, convert};

use crate::hostile::{self, Shot, Victims};
use crate::outcome::{Failure, FailureKind, Outcome};
use crate::schedule::{Fault, FaultKind, Schedule, TrafficKind};

/// Checkers are asked at least this often, nanoseconds.
const LOOK_NS: u64 = 20_000_000;
/// A fabric without faults comes up within this time, nanoseconds.
const UP_NS_MAX: u64 = 60_000_000_000;
/// When faults have ceased, the manager is done within this time, nanoseconds.
const SETTLED_NS_MAX: u64 = 60_000_000_000;
/// The manager is done when it has not swept anew for so long, nanoseconds: longer than the longest
/// time after which it retries (10 s).
const QUIET_NS: u64 = 12_000_000_000;
/// The same at the start, where nothing has gone wrong yet.
const FIRST_QUIET_NS: u64 = 300_000_000;
/// Lost flow control is repeated within this time, nanoseconds: two keep-alives and more.
const REPEATED_NS: u64 = 1_230_000_000;
/// Looks at a fabric that rests.
const RESTS: u32 = 4;
/// Bytes of datagrams that hosts send, LRH to VCRC.
pub(crate) const DATAGRAM_BYTES: u16 = 226;

/// The MTU of all ports.
const MTU: Mtu = Mtu::Mtu256;

/// A twin under a schedule.
pub(crate) struct Bed<'s> {
    pub(crate) schedule: &'s Schedule,
    pub(crate) twin: Twin,
    pub(crate) graph: Graph,
    pub(crate) hosts: Vec<NodeId>,
    switches: Vec<NodeId>,
    cables: Vec<(Endpoint, Endpoint)>,
    active: BTreeSet<usize>,
    /// LIDs of hosts when the whole fabric was up first.
    lids: BTreeMap<NodeId, Lid>,
    /// Hosts that have asked to join the group, and have not been started anew since.
    /// With the requests, which may be refused in the end.
    members: BTreeMap<NodeId, u64>,
    flows: u32,
    multicasts: u32,
    random: ChaCha8Rng,
}

/// What happens at a moment.
#[derive(Clone, Copy)]
enum Action {
    End(usize),
    Begin(usize),
    Send(usize),
}

/// The group of all multicast traffic.
pub(crate) fn group() -> Gid {
    Gid([
        0xff, 0x12, 0x1b, 0xed, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xa9,
    ])
}

fn port(schedule: &Schedule) -> PortConfig {
    let config = PortConfig {
        mtu: MTU,
        vls: schedule.vls,
        rate: LinkRate {
            width: LinkWidth::X1,
            speed: LinkSpeed::Sdr,
        },
        pacing: match schedule.is_paced {
            true => Pacing::EXACT,
            false => Pacing::Unpaced,
        },
        ..PortConfig::default()
    };
    let packet = usize::from(link::blocks(config.packet_bytes_max())) * link::BLOCK_BYTES;
    PortConfig {
        buffer_bytes: packet * usize::from(schedule.buffer),
        output_bytes: packet * 2,
        ..config
    }
}

fn config(schedule: &Schedule) -> TwinConfig {
    let milliseconds = |ms: u32| u64::from(ms) * 1_000_000;
    TwinConfig {
        flight_ns: schedule.flight_ns,
        port: port(schedule),
        timing: Timing {
            routing_delay_ns: 100,
            ..Timing::default()
        },
        manager: SmConfig {
            routing: schedule.engine,
            lmc: schedule.lmc.and_then(|lmc| Lmc::new(lmc).ok()),
            timeout_ns: milliseconds(schedule.timeout_ms),
            retries: schedule.retries,
            sweep_interval_ns: milliseconds(schedule.sweep_ms),
            multicast: schedule.trees,
            ..SmConfig::default()
        },
        faults: FaultPlan {
            faults: Vec::new(),
            seed: schedule.seed,
        },
    }
}

impl<'s> Bed<'s> {
    pub(crate) fn new(schedule: &'s Schedule) -> Result<Self, String> {
        let graph = schedule.graph().map_err(|error| error.to_string())?;
        let twin = Twin::new(&graph, &config(schedule)).map_err(|error| error.to_string())?;
        Ok(Self {
            schedule,
            twin,
            hosts: graph.hosts().collect(),
            switches: graph.switches().collect(),
            cables: graph.links().collect(),
            graph,
            active: BTreeSet::new(),
            lids: BTreeMap::new(),
            members: BTreeMap::new(),
            flows: 0,
            multicasts: 0,
            random: ChaCha8Rng::seed_from_u64(sim::mix(schedule.seed, 1)),
        })
    }

    pub(crate) fn fail<T>(&self, kind: FailureKind, what: impl Into<String>) -> Result<T, Failure> {
        Err(Failure {
            kind,
            at_ns: self.twin.now().0,
            what: what.into(),
        })
    }

    /// Lets time pass, and asks the checkers.
    pub(crate) fn advance(&mut self, until: Time) -> Result<(), Failure> {
        while self.twin.now() < until {
            let left = until.since_ns(self.twin.now());
            self.twin.run_for(left.min(LOOK_NS));
            if let Some(violation) = self.twin.violations().first() {
                return Err(Failure {
                    kind: FailureKind::Checker,
                    at_ns: violation.at.0,
                    what: violation.what.clone(),
                });
            }
        }
        Ok(())
    }

    pub(crate) fn pass(&mut self, ns: u64) -> Result<(), Failure> {
        let until = self.twin.now() + ns;
        self.advance(until)
    }

    /// The whole fabric comes up, and nothing goes wrong.
    pub(crate) fn come_up(&mut self) -> Result<(), Failure> {
        self.wait_until_quiet(FIRST_QUIET_NS, UP_NS_MAX)?;
        self.lids = self.host_lids();
        Ok(())
    }

    pub(crate) fn host_lids(&self) -> BTreeMap<NodeId, Lid> {
        let lid = |&id: &NodeId| Some((id, self.twin.host(&self.graph.node(id).name)?.lid()));
        self.hosts.iter().filter_map(lid).collect()
    }

    /// Does all that the schedule holds, until faults cease.
    pub(crate) fn misbehave(&mut self) -> Result<(), Failure> {
        let start = self.twin.now();
        let schedule = self.schedule;
        let length_us = schedule.length_us;
        let mut actions: Vec<(u64, Action)> = Vec::new();
        for (at, fault) in schedule.faults.iter().enumerate() {
            actions.push((fault.at_us.min(length_us), Action::Begin(at)));
            if let Some(end_us) = self.end_us(fault) {
                actions.push((end_us, Action::End(at)));
            }
        }
        for (at, traffic) in schedule.traffic.iter().enumerate() {
            actions.push((traffic.at_us.min(length_us), Action::Send(at)));
        }
        actions.sort_by_key(|&(at_us, _)| at_us);
        for (at_us, action) in actions {
            self.advance(start + at_us * 1000)?;
            match action {
                Action::Begin(at) => self.change(at, true)?,
                Action::End(at) => self.change(at, false)?,
                Action::Send(at) => self.send(schedule.traffic[at].what),
            }
            self.check_lids()?;
        }
        self.advance(start + length_us * 1000)
    }

    /// When a fault ends; `None`: never.
    fn end_us(&self, fault: &Fault) -> Option<u64> {
        let length_us = self.schedule.length_us;
        if fault.for_us > 0 {
            return Some(fault.at_us.saturating_add(fault.for_us).min(length_us));
        }
        // What is never seen whole may be nothing that its engine could route.
        let may_last = !self.schedule.from_start && !self.is_vital(fault.what);
        let lasts = fault.what.is_outage() && may_last;
        (!lasts).then_some(length_us)
    }

    /// Whether the manager's host is nothing without it.
    fn is_vital(&self, what: FaultKind) -> bool {
        let Some(own) = self.twin.manager_host() else {
            return false;
        };
        let mut neighbours = self.graph.cables(own);
        match what {
            FaultKind::Cut { cable } => self
                .cable(cable)
                .is_some_and(|(one, other)| one.node == own || other.node == own),
            FaultKind::HostCrash { host } => self.host(host) == Some(own),
            FaultKind::SwitchCrash { switch } => {
                let switch = self.switch(switch);
                neighbours.any(|(_, peer)| Some(peer.node) == switch)
            }
            _ => false,
        }
    }

    fn cable(&self, number: u32) -> Option<(Endpoint, Endpoint)> {
        pick(&self.cables, number)
    }

    fn host(&self, number: u32) -> Option<NodeId> {
        pick(&self.hosts, number)
    }

    fn switch(&self, number: u32) -> Option<NodeId> {
        pick(&self.switches, number)
    }

    fn active(&self) -> impl Iterator<Item = FaultKind> {
        let faults = &self.schedule.faults;
        self.active
            .iter()
            .filter_map(|&at| Some(faults.get(at)?.what))
    }

    /// A fault begins or ends.
    fn change(&mut self, at: usize, begins: bool) -> Result<(), Failure> {
        match begins {
            true => self.active.insert(at),
            false => self.active.remove(&at),
        };
        let what = self.schedule.faults[at].what;
        match what {
            FaultKind::Loss { cable, .. }
            | FaultKind::Damage { cable, .. }
            | FaultKind::CreditLoss { cable, .. }
            | FaultKind::Duplication { cable, .. }
            | FaultKind::Delay { cable, .. } => self.disturb(cable),
            FaultKind::Cut { cable } => {
                let wanted = self.cable(cable);
                let is_cut = self.active().any(
                    |other| matches!(other, FaultKind::Cut { cable } if self.cable(cable) == wanted),
                );
                match (wanted, is_cut) {
                    (Some((end, _)), true) => self.twin.cut(end),
                    (Some((end, _)), false) => self.twin.plug(end),
                    (None, _) => {}
                }
                Ok(())
            }
            FaultKind::SwitchCrash { switch } => {
                self.crash(self.switch(switch));
                Ok(())
            }
            FaultKind::HostCrash { host } => {
                self.crash(self.host(host));
                Ok(())
            }
            FaultKind::ManagerCrash => {
                let is_down = self.active().any(|other| other == FaultKind::ManagerCrash);
                match is_down {
                    true => self.twin.crash_manager(),
                    false => {
                        if let Err(error) = self.twin.restart_manager() {
                            return self.fail(FailureKind::NotUp, error.to_string());
                        }
                    }
                }
                Ok(())
            }
            FaultKind::Hostile { host, what, count } if begins => {
                self.attack(host, what, count);
                Ok(())
            }
            // Full hosts take packets in at once.
            FaultKind::Hostile { .. } | FaultKind::SlowDrain { .. } => Ok(()),
        }
    }

    /// Sets all that a cable suffers.
    fn disturb(&mut self, number: u32) -> Result<(), Failure> {
        let Some(wanted) = self.cable(number) else {
            return Ok(());
        };
        let [mut loss, mut damage, mut credits, mut double, mut late] = [0; 5];
        let mut late_ns = 0;
        for what in self.active() {
            let (cable, to, ppm) = match what {
                FaultKind::Loss { cable, ppm } => (cable, &mut loss, ppm),
                FaultKind::Damage { cable, ppm } => (cable, &mut damage, ppm),
                FaultKind::CreditLoss { cable, ppm } => (cable, &mut credits, ppm),
                FaultKind::Duplication { cable, ppm } => (cable, &mut double, ppm),
                FaultKind::Delay { cable, ppm, by_us } => {
                    if self.cable(cable) == Some(wanted) {
                        late_ns = late_ns.max(u64::from(by_us) * 1000);
                    }
                    (cable, &mut late, ppm)
                }
                _ => continue,
            };
            if self.cable(cable) == Some(wanted) {
                *to = ppm.max(*to);
            }
        }
        for end in [wanted.0, wanted.1] {
            let end = CableEnd {
                node: self.graph.node(end.node).name.clone(),
                port: end.port,
            };
            let all = [
                CableFault::Rates {
                    end: end.clone(),
                    loss_ppm: loss,
                    corruption_ppm: damage,
                },
                CableFault::CreditLoss {
                    end: end.clone(),
                    loss_ppm: credits,
                },
                CableFault::Unrest {
                    end,
                    duplication_ppm: double,
                    delay_ppm: late,
                    delay_ns_max: late_ns,
                },
            ];
            for fault in all {
                if let Err(error) = self.twin.disturb(fault) {
                    return self.fail(FailureKind::Setup, error.to_string());
                }
            }
        }
        Ok(())
    }

    fn crash(&mut self, node: Option<NodeId>) {
        let Some(node) = node else { return };
        let is_down = self.active().any(|what| match what {
            FaultKind::SwitchCrash { switch } => self.switch(switch) == Some(node),
            FaultKind::HostCrash { host } => self.host(host) == Some(node),
            _ => false,
        });
        match is_down {
            true => {
                self.members.remove(&node);
                self.twin.crash(node);
            }
            false => self.twin.restart(node),
        }
    }

    fn attack(&mut self, host: u32, what: crate::schedule::Hostility, count: u32) {
        let Some(attacker) = self.host(host) else {
            return;
        };
        let name = self.graph.node(attacker).name.clone();
        let switches = self.switches.iter().map(|&id| &self.graph.node(id).name);
        let lids = switches.filter_map(|name| Some(self.twin.switch(name)?.lid()));
        let switches: Vec<Lid> = lids.filter(|lid| lid.is_unicast()).collect();
        let own = self.twin.manager_host().map(|id| &self.graph.node(id).name);
        let manager = own.and_then(|name| Some(self.twin.host(name)?.lid()));
        let victims = Victims {
            manager: manager.unwrap_or_default(),
            switches: &switches,
            vls: self.schedule.vls,
        };
        let port = wire::PortNum::new(1);
        for _ in 0..count {
            match hostile::shot(what, victims, &mut self.random) {
                Some(Shot::Mad(message)) => {
                    // The host is one of the twin's.
                    let _ = self.twin.say(&name, message);
                }
                Some(Shot::Packet(packet)) if !self.twin.is_down(attacker) => {
                    let node = attacker;
                    self.twin.inject(Endpoint { node, port }, &packet);
                }
                Some(Shot::Packet(_)) | None => {}
            }
        }
    }

    /// Starts what hosts send. What a host refuses, because it has no LID yet or the other is
    /// itself, is not sent.
    fn send(&mut self, what: TrafficKind) {
        match what {
            TrafficKind::Pings {
                host,
                count,
                interval_us,
            } => {
                let own = self.host(host);
                let lids = self.host_lids().into_iter();
                let targets = lids
                    .filter(|&(id, lid)| Some(id) != own && lid.is_unicast())
                    .map(|(_, lid)| lid);
                let request = Request::Ping(PingRequest {
                    targets: targets.collect(),
                    count,
                    interval_us,
                    size: DATAGRAM_BYTES,
                    sl: Sl::default(),
                    pkey: 0,
                    timeout_ms: 100,
                });
                self.request(own, request);
            }
            TrafficKind::Flow {
                from,
                to,
                window,
                count,
                rate_kbps,
            } => {
                let Some((from, to)) = self.host(from).zip(self.host(to)) else {
                    return;
                };
                let lid = self.host_lids().get(&to).copied().unwrap_or_default();
                let rate = u64::from(rate_kbps) * 1000;
                let request = self.flow(lid, (window, rate), count.into(), Sl::default());
                self.request(Some(from), Request::PerfStart(request));
            }
            TrafficKind::Join { host } => {
                let join = Request::Join {
                    mgid: group(),
                    send_only: false,
                };
                if let Some(member) = self.host(host)
                    && let Some(token) = self.taken(member, join)
                {
                    self.members.insert(member, token);
                }
            }
            TrafficKind::Multicast { host, count } => {
                let request = self.multicast(count);
                self.request(self.host(host), request);
            }
        }
    }

    /// A request for a run of multicast packets.
    pub(crate) fn multicast(&mut self, count: u32) -> Request {
        self.multicasts += 1;
        Request::MulticastSend(MulticastSend {
            mgid: group(),
            run: self.multicasts,
            count: count.max(1),
            size: DATAGRAM_BYTES,
        })
    }

    /// A flow with a number of its own.
    pub(crate) fn flow(
        &mut self,
        dlid: Lid,
        (window, rate): (u32, u64),
        count: u64,
        sl: Sl,
    ) -> PerfRequest {
        self.flows += 1;
        PerfRequest {
            flow: self.flows,
            dlid,
            qpn: SINK_QPN,
            size: DATAGRAM_BYTES,
            window,
            rate,
            sl,
            count: count.max(1),
            duration_ms: 0,
            seed: self.schedule.seed,
        }
    }

    /// Asks a host for something, and does not wait for the answer.
    fn request(&mut self, host: Option<NodeId>, request: Request) {
        if let Some(host) = host
            && !self.twin.is_down(host)
        {
            let name = self.graph.node(host).name.clone();
            // The host is one of the twin's.
            let _ = self.twin.request(&name, request);
        }
    }

    /// Asks a host for something; the request, if it is not refused at once.
    fn taken(&mut self, host: NodeId, request: Request) -> Option<u64> {
        if self.twin.is_down(host) {
            return None;
        }
        let name = self.graph.node(host).name.clone();
        let token = self.twin.request(&name, request).ok()?;
        match self.twin.reply(token, 0) {
            Ok(Reply::Refused(_)) => None,
            _ => Some(token),
        }
    }

    /// Whether a host has asked to join the group, has not been refused that, and has not been started
    /// anew since.
    pub(crate) fn is_member(&mut self, host: NodeId) -> bool {
        let token = self.members.get(&host).copied();
        let reply = token.map(|token| self.twin.reply(token, 0));
        !matches!(reply, None | Some(Ok(Reply::Refused(_))))
    }

    /// Asks a host for something and waits for the answer.
    pub(crate) fn ask(&mut self, host: NodeId, request: Request) -> Option<Reply> {
        let name = self.graph.node(host).name.clone();
        let token = self.twin.request(&name, request).ok()?;
        self.twin.reply(token, 10_000_000_000).ok()
    }

    /// Engines that keep LIDs keep them whatever goes wrong.
    pub(crate) fn check_lids(&self) -> Result<(), Failure> {
        let follows_paths = matches!(
            self.schedule.engine,
            RoutingEngine::PathSelection | RoutingEngine::ShortestWidest | RoutingEngine::Renaming
        );
        if follows_paths {
            return Ok(());
        }
        for (id, lid) in self.host_lids() {
            let before = self.lids.get(&id).copied().unwrap_or(lid);
            if lid != before && lid != Lid::ZERO {
                let name = &self.graph.node(id).name;
                let what = format!("{name} had LID {before} and has LID {lid}");
                return self.fail(FailureKind::LidChanged, what);
            }
        }
        Ok(())
    }

    /// Faults have ceased: the manager brings up what is left, and then rests.
    pub(crate) fn settle(&mut self) -> Result<(), Failure> {
        let sweeps_ns = 4 * u64::from(self.schedule.sweep_ms) * 1_000_000;
        self.wait_until_quiet(QUIET_NS.max(sweeps_ns), SETTLED_NS_MAX)?;
        self.check_lids()?;
        self.end_flows();
        self.pass(REPEATED_NS)
    }

    fn wait_until_quiet(&mut self, quiet_ns: u64, within_ns: u64) -> Result<(), Failure> {
        let surviving = self.twin.surviving();
        let limit = self.twin.now() + within_ns;
        let mut since = self.twin.now();
        let mut generation = None;
        loop {
            self.pass(LOOK_NS)?;
            let status = self.twin.status();
            let wrong = not_up(&status, &surviving);
            let now = self.twin.now();
            if wrong.is_some() || generation != Some(status.generation) {
                generation = Some(status.generation);
                since = now;
            }
            if wrong.is_none() && now.since_ns(since) >= quiet_ns {
                return Ok(());
            }
            if now >= limit {
                return match wrong {
                    Some(what) => self.fail(FailureKind::NotUp, what),
                    None => self.fail(
                        FailureKind::NotQuiet,
                        format!(
                            "sweep {} and no end: {:?}",
                            status.generation, status.warnings
                        ),
                    ),
                };
            }
        }
    }

    /// Hosts forget their flows, also those whose destination is gone and that still ask for it.
    fn end_flows(&mut self) {
        let sources: Vec<Lid> = self.host_lids().into_values().collect();
        for host in self.hosts.clone() {
            let sources = sources.clone();
            self.request(Some(host), Request::PerfClear { sources });
        }
    }

    /// Nothing is under way any more: nothing is missing.
    pub(crate) fn rest(&mut self) -> Result<(), Failure> {
        self.end_flows();
        // A manager and its hosts still talk now and then: what is stuck is so at every look.
        let mut found = None;
        for _ in 0..RESTS {
            self.pass(REPEATED_NS)?;
            found = self.twin.unrest().into_iter().next();
            if found.is_none() {
                break;
            }
        }
        if let Some(what) = found {
            return self.fail(FailureKind::NotAtRest, what);
        }
        let counts = self.twin.datagrams();
        let gone = i128::from(counts.sent) - i128::from(counts.delivered);
        let accounted = i128::from(counts.dropped) + i128::from(counts.lost);
        if gone < 0 || gone > accounted {
            return self.fail(FailureKind::Balance, format!("{counts:?}"));
        }
        Ok(())
    }

    /// What came of it.
    pub(crate) fn outcome(&self, failure: Option<Failure>) -> Outcome {
        let counters = self.twin.run_counters();
        let counts = self.twin.datagrams();
        let mut digest = 0;
        let mut add = |value: u64| digest = sim::mix(digest ^ value, 1);
        for value in [
            self.twin.now().0,
            counters.events,
            counters.frames,
            counters.lost,
            counters.corrupted,
            counters.duplicated,
            counts.sent,
            counts.delivered,
            counts.copies,
            counts.dropped,
        ] {
            add(value);
        }
        for &id in &self.switches {
            let switch = self.twin.switch(&self.graph.node(id).name);
            let blocks = (0..4).filter_map(|block| Some(switch?.linear_block(block)));
            blocks.flatten().for_each(|port| add(port.get().into()));
        }
        for byte in failure.iter().flat_map(|failure| failure.what.bytes()) {
            add(byte.into());
        }
        Outcome {
            failure,
            digest,
            virtual_ns: self.twin.now().0,
            events: counters.events,
            datagrams: counts.sent,
        }
    }
}

/// What is not yet as it must be for a manager to be done; `None` if nothing.
fn not_up(status: &Status, surviving: &Graph) -> Option<String> {
    let [switches, hosts] = [surviving.switches().count(), surviving.hosts().count()];
    let [switches, hosts] = [switches, hosts].map(convert::saturate::<u32>);
    let links: u32 = convert::saturate(surviving.links().count());
    let is_whole = (status.switches, status.hosts, status.links) == (switches, hosts, links);
    if status.phase == Phase::Up && is_whole && status.unreachable.is_empty() {
        return None;
    }
    Some(format!(
        "the manager is {:?} with {} switches, {} hosts, {} links of {switches}, {hosts}, {links}; \
         unreachable: {:?}; warnings: {:?}",
        status.phase,
        status.switches,
        status.hosts,
        status.links,
        status.unreachable,
        status.warnings
    ))
}

/// The one of that number, modulo how many there are.
pub(crate) fn pick<T: Copy>(all: &[T], number: u32) -> Option<T> {
    let at = usize::try_from(number).ok()?.checked_rem(all.len())?;
    all.get(at).copied()
}
