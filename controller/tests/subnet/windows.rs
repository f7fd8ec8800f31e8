//! Windows without interference: hosts confirm their grants, and granted paths share no link.

use std::collections::{BTreeMap, BTreeSet};

use controller::SmConfig;
use mad::local::MadMessage;
use routing::RoutingEngine;
use topologies::{Endpoint, NodeId};
use wire::vendor::{WindowGrant, WindowRequest, WindowState};
use wire::{Lid, Mad, MadStatus, Method, PortNum, Qpn, Sl};

use crate::bed::Bed;
use crate::graph;

const WINDOW_NS: u64 = 1_000_000_000 / 60;
/// A link is not granted again for at least so long after its last user was asked to leave it.
const GUARD_NS: u64 = WINDOW_NS / 16;

/// A Clos fabric and the grants that its hosts hold. The manager runs beside a host of its own.
struct ClosFabric {
    bed: Bed,
    manager: NodeId,
    granted: BTreeMap<NodeId, Lid>,
    answers: Vec<Mad>,
    /// Grants that senders have received.
    grants: usize,
    /// Hosts that ignore grants.
    unresponsive: BTreeSet<NodeId>,
    /// Since the fabric was brought up.
    elapsed_ns: u64,
    /// When links were left on request of the manager.
    left: BTreeMap<Endpoint, u64>,
    /// The shortest time after which such a link was granted again.
    reused_after_ns: Option<u64>,
}

impl ClosFabric {
    fn bring_up(name: &str) -> Self {
        let mut bed = Bed::new(graph(name), 3);
        let manager = bed.graph.hosts().last().expect("there is a host");
        let config = SmConfig {
            routing: RoutingEngine::Clos,
            ..SmConfig::default()
        };
        bed.start(manager, config);
        bed.run_until_up(manager);
        Self {
            bed,
            manager,
            granted: BTreeMap::new(),
            answers: Vec::new(),
            grants: 0,
            unresponsive: BTreeSet::new(),
            elapsed_ns: 0,
            left: BTreeMap::new(),
            reused_after_ns: None,
        }
    }

    fn hosts(&self) -> Vec<NodeId> {
        let hosts = self.bed.graph.hosts();
        hosts.filter(|&host| host != self.manager).collect()
    }

    fn send(&mut self, from: NodeId, mad: &Mad) {
        let (lid, _) = self.bed.address(self.manager);
        let message = MadMessage {
            lid,
            qpn: Qpn::GSI,
            sl: Sl::default(),
            mad: Box::new(*mad.as_bytes()),
            way: None,
        };
        self.bed.write(from, &message);
    }

    /// Lets time pass in small steps; hosts follow their grants. No link is shared after any step.
    fn run(&mut self, ns: u64) {
        for _ in 0..ns / 100_000 {
            self.bed.run_for(100_000);
            self.elapsed_ns += 100_000;
            for (host, message) in core::mem::take(&mut self.bed.received) {
                let mut mad = Mad::from_bytes(*message.mad);
                if mad.method() != Method::SET {
                    self.answers.push(mad);
                    continue;
                }
                if self.unresponsive.contains(&host) {
                    continue;
                }
                let grant: WindowGrant = mad.vendor_attribute().expect("a grant");
                self.grants += 1;
                self.follow(host, grant.dlid);
                mad.set_method(Method::GET_RESP);
                self.send(host, &mad);
            }
            self.assert_no_link_is_shared();
        }
    }

    fn follow(&mut self, host: NodeId, dlid: Lid) {
        if dlid != Lid::ZERO {
            for out in self.path(host, dlid) {
                let left = self.left.get(&out).map(|&ns| self.elapsed_ns - ns);
                self.reused_after_ns = self.reused_after_ns.into_iter().chain(left).min();
            }
            self.granted.insert(host, dlid);
        } else if let Some(dlid) = self.granted.remove(&host) {
            for out in self.path(host, dlid) {
                self.left.insert(out, self.elapsed_ns);
            }
        }
    }

    fn peer(&self, end: Endpoint) -> Endpoint {
        self.bed.graph.peer(end).expect("there is a cable")
    }

    /// Output ports of switches that a packet takes.
    fn path(&self, source: NodeId, dlid: Lid) -> Vec<Endpoint> {
        let mut at = self.peer(self.bed.ends(source)[0]);
        let mut path = Vec::new();
        while self.bed.node(at.node).is_switch() {
            let port = self.bed.node(at.node).exit(dlid);
            assert!(port != PortNum::NONE && path.len() < 3, "{dlid} is lost");
            let out = Endpoint {
                node: at.node,
                port,
            };
            path.push(out);
            at = self.peer(out);
        }
        path
    }

    fn assert_no_link_is_shared(&self) {
        let mut used = BTreeSet::new();
        for (&source, &dlid) in &self.granted {
            for out in self.path(source, dlid) {
                assert!(used.insert(out), "{out:?} is shared: {:?}", self.granted);
            }
        }
    }

    /// Each source asks for itself. The first refusal, if there is one.
    fn ask(&mut self, windows: u16, pairs: &[(NodeId, NodeId)]) -> MadStatus {
        for &pair in pairs {
            self.ask_as(pair.0, windows, pair);
        }
        self.run(2_000_000);
        let answers = core::mem::take(&mut self.answers);
        assert_eq!(answers.len(), pairs.len());
        let mut statuses = answers.iter().map(Mad::status);
        statuses
            .find(|&status| status != MadStatus::OK)
            .unwrap_or(MadStatus::OK)
    }

    fn ask_as(&mut self, from: NodeId, windows: u16, (source, destination): (NodeId, NodeId)) {
        let lid = |host| self.bed.address(host).0;
        let pair = [(lid(source), lid(destination))];
        let request = WindowRequest::of(windows, &pair);
        self.send(from, &Mad::vendor(Method::SET, 0, 1, &request));
    }

    fn state(&mut self) -> WindowState {
        let from = self.hosts()[0];
        self.send(
            from,
            &Mad::vendor(Method::GET, 0, 2, &WindowState::default()),
        );
        self.run(2_000_000);
        let answer = self.answers.pop().expect("an answer has come");
        answer.vendor_attribute().expect("a state")
    }
}

#[test]
fn each_sender_is_granted_a_path_of_its_own_and_stopped_in_the_end() {
    let mut fabric = ClosFabric::bring_up("clos-4-4-4");
    let hosts = fabric.hosts();
    let shifted = hosts.iter().cycle().skip(5);
    let pairs: Vec<_> = hosts.iter().copied().zip(shifted.copied()).collect();
    let status = fabric.ask(WindowRequest::UNTIL_ENDED, &pairs);
    assert_eq!(status, MadStatus::OK);
    fabric.run(3 * WINDOW_NS);
    assert_eq!(fabric.granted.len(), pairs.len());
    for (source, destination) in &pairs {
        let (base, lmc) = fabric.bed.address(*destination);
        assert!(fabric.granted[source].belongs_to(base, lmc));
    }
    assert_eq!(fabric.ask(0, &pairs), MadStatus::OK);
    fabric.run(3 * WINDOW_NS);
    assert!(fabric.granted.is_empty());
    assert_eq!(fabric.state().connections, 0);
}

#[test]
fn standing_connections_are_moved_for_new_ones_without_a_moment_of_sharing() {
    let mut fabric = ClosFabric::bring_up("clos-4-4-4");
    let hosts = fabric.hosts();
    let mut to: Vec<NodeId> = hosts.clone();
    to.rotate_left(5);
    let pairs: Vec<_> = hosts.iter().copied().zip(to.iter().copied()).collect();
    fabric.ask(WindowRequest::UNTIL_ENDED, &pairs);
    let mut random: usize = 7;
    for _ in 0..40 {
        // Two senders exchange their destinations, while all others go on.
        random = (random * 75 + 74) % 65_537;
        let (one, other) = (random % hosts.len(), (random / 16) % hosts.len());
        if one == other || hosts[one] == to[other] || hosts[other] == to[one] {
            continue;
        }
        let both = |to: &[NodeId]| [(hosts[one], to[one]), (hosts[other], to[other])];
        fabric.ask(0, &both(&to));
        to.swap(one, other);
        fabric.ask(WindowRequest::UNTIL_ENDED, &both(&to));
        fabric.run(2 * WINDOW_NS);
        assert_eq!(fabric.granted.len(), hosts.len());
    }
    let state = fabric.state();
    assert!(state.moved > 0, "{state:?}");
    assert_eq!((state.blocked, state.unanswered), (0, 0), "{state:?}");
    let reused = fabric
        .reused_after_ns
        .expect("links pass from one to another");
    assert!(reused >= GUARD_NS, "{reused} ns after it was left");
}

#[test]
fn a_host_that_does_not_answer_is_put_off_until_it_does_and_others_go_on() {
    let mut fabric = ClosFabric::bring_up("clos-2-2-2");
    let hosts = fabric.hosts();
    let (silent, lively) = (hosts[1], hosts[0]);
    fabric.ask(WindowRequest::UNTIL_ENDED, &[(lively, hosts[2])]);
    fabric.run(2 * WINDOW_NS);
    fabric.unresponsive.insert(silent);
    fabric.ask(WindowRequest::UNTIL_ENDED, &[(silent, lively)]);
    fabric.run(40 * WINDOW_NS);
    let before = fabric.state();
    assert!(before.unanswered > 0, "{before:?}");
    fabric.run(30 * WINDOW_NS);
    let after = fabric.state();
    assert!(fabric.granted.contains_key(&lively) && !fabric.granted.contains_key(&silent));
    let counts = (after.connections, after.waiting, after.blocked);
    assert_eq!(counts, (1, 1, 0), "{after:?}");
    // Put off in every window, which begin as before.
    assert!(after.deferred - before.deferred >= 25, "{after:?}");
    assert!(after.window - before.window >= 25, "{after:?}");
    fabric.unresponsive.clear();
    fabric.run(130 * WINDOW_NS);
    assert!(
        fabric.granted.contains_key(&silent),
        "it has answered again"
    );
    assert_eq!(fabric.state().connections, 2);
}

#[test]
fn two_senders_to_one_destination_take_turns() {
    let mut fabric = ClosFabric::bring_up("clos-2-2-2");
    let hosts = fabric.hosts();
    let pairs = [(hosts[0], hosts[2]), (hosts[1], hosts[2])];
    assert_eq!(fabric.ask(1, &pairs), MadStatus::OK);
    let mut seen = BTreeSet::new();
    for _ in 0..4 {
        fabric.run(WINDOW_NS);
        assert!(fabric.granted.len() <= 1);
        seen.extend(fabric.granted.keys().copied());
    }
    assert_eq!(seen, BTreeSet::from([hosts[0], hosts[1]]));
    assert!(fabric.state().deferred > 0);
}

#[test]
fn a_connection_that_goes_on_is_granted_once() {
    let mut fabric = ClosFabric::bring_up("clos-2-2-2");
    let hosts = fabric.hosts();
    fabric.ask(WindowRequest::UNTIL_ENDED, &[(hosts[0], hosts[2])]);
    fabric.run(10 * WINDOW_NS);
    assert_eq!(fabric.grants, 1);
    assert!(fabric.state().window >= 9);
}

#[test]
fn a_host_that_is_gone_does_not_hold_up_the_others() {
    let mut fabric = ClosFabric::bring_up("clos-2-2-2");
    let hosts = fabric.hosts();
    fabric.bed.silence(hosts[0], true);
    let pairs = [(hosts[1], hosts[2])];
    fabric.bed.loss_per_mille = 200;
    // Each try may be lost, and its answer too.
    for _ in 0..20 {
        if !fabric.granted.is_empty() {
            break;
        }
        let lids = pairs.map(|(a, b)| (fabric.bed.address(a).0, fabric.bed.address(b).0));
        let request = WindowRequest::of(WindowRequest::UNTIL_ENDED, &lids);
        fabric.send(hosts[1], &Mad::vendor(Method::SET, 0, 1, &request));
        fabric.run(4 * WINDOW_NS);
    }
    assert!(fabric.granted.contains_key(&hosts[1]));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut fabric = ClosFabric::bring_up("clos-2-2-2");
    let hosts = fabric.hosts();
    assert_eq!(fabric.ask(1, &[(hosts[0], hosts[0])]), MadStatus::BAD_FIELD);
    let spine = fabric.bed.graph.switches().last().expect("a switch");
    assert_eq!(fabric.ask(1, &[(hosts[0], spine)]), MadStatus::BAD_FIELD);
    assert_eq!(fabric.state().connections, 0);
}

#[test]
fn windows_between_other_hosts_are_neither_asked_for_nor_ended() {
    let mut fabric = ClosFabric::bring_up("clos-2-2-2");
    let (hosts, manager) = (fabric.hosts(), fabric.manager);
    let pair = (hosts[0], hosts[2]);
    let mut asked = |from, windows| {
        fabric.ask_as(from, windows, pair);
        fabric.run(3 * WINDOW_NS);
        (
            fabric.answers.pop().map(|mad| mad.status()),
            fabric.granted.len(),
        )
    };
    let (denied, done) = (Some(MadStatus::SA_DENIED), Some(MadStatus::OK));
    assert_eq!(asked(hosts[1], WindowRequest::UNTIL_ENDED), (denied, 0));
    assert_eq!(asked(hosts[2], WindowRequest::UNTIL_ENDED), (done, 1));
    assert_eq!(asked(hosts[1], 0), (denied, 1));
    assert_eq!(asked(hosts[0], 0), (done, 0));
    // The manager's own host speaks for all; the answer stays there.
    assert_eq!(asked(manager, WindowRequest::UNTIL_ENDED), (None, 1));
}

#[test]
fn a_broken_cable_ends_the_windows_and_packets_go_round_it() {
    let mut fabric = ClosFabric::bring_up("clos-2-2-2");
    let (hosts, manager) = (fabric.hosts(), fabric.manager);
    fabric.ask(WindowRequest::UNTIL_ENDED, &[(hosts[0], hosts[2])]);
    fabric.run(2 * WINDOW_NS);
    assert_eq!(fabric.granted.len(), 1);
    let cable = fabric.path(hosts[0], fabric.granted[&hosts[0]])[0];
    fabric.bed.cut(cable);
    let status = fabric.bed.run_until_up(manager);
    assert!(status.engine.starts_with("updn"), "{}", status.engine);
    crate::assert_connected(&fabric.bed, &hosts);
    fabric.granted.clear();
    fabric.run(3 * WINDOW_NS);
    assert_eq!(fabric.state().trees, 0);
    fabric.bed.plug(cable);
    let status = fabric.bed.run_until_up(manager);
    assert_eq!(status.engine, "clos");
    fabric.run(3 * WINDOW_NS);
    assert_eq!(fabric.granted.len(), 1, "it is still asked for");
}
