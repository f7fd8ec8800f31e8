//! What the sampler sees of a live fabric, against what the devices and the fabric's tools say.

use std::sync::Arc;
use std::time::Duration;

use e2e::{Fabric, Transport, named, within};
use monitor::model::{Counter, NodeKind, Port, PortState};
use monitor::{Options, Sampler, Snapshot, Source};
use wire::{LinkSpeed, LinkWidth, PortNum, SaKey};

/// How long a state of the fabric may take to come about.
const LIMIT: Duration = Duration::from_secs(30);

/// Samples the fabric through a host, five times a second.
fn sampler(fabric: &Fabric, host: &str) -> Sampler {
    let source = Source {
        mad_socket: fabric.dir().join(format!("{host}.mad")),
        port: PortNum::new(1),
        sa_key: SaKey::default(),
        devices: Vec::new(),
        controllers: Vec::new(),
    };
    let options = Options {
        interval: Duration::from_millis(200),
        ..Options::default()
    };
    Sampler::start(source, options).expect("a sampler starts")
}

/// The first snapshot in which that holds.
#[track_caller]
fn sees(sampler: &Sampler, what: &str, holds: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
    within(LIMIT, what, || {
        let snapshot = sampler.current();
        match holds(&snapshot) {
            true => Ok(snapshot),
            false => Err(format!("{:?}", snapshot.collection)),
        }
    })
}

fn port(snapshot: &Snapshot, name: &str, number: u8) -> usize {
    let node = snapshot.fabric.node_named(name).expect("a node");
    snapshot.fabric.port(node, number).expect("a port")
}

#[test]
fn devices_cables_and_counters_are_those_of_the_fabric() {
    let options = ["--no-ip", "--speed", "edr", "--vls", "4"];
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-2", &options);
    let sampler = sampler(&fabric, "h0.0");
    let snapshot = sees(&sampler, "all counters are read", |snapshot| {
        snapshot.sequence > 0 && snapshot.collection.timeouts + snapshot.collection.errors == 0
    });
    let known = &snapshot.fabric;
    let count = |kind| known.nodes.iter().filter(|node| node.kind == kind).count();
    assert_eq!((count(NodeKind::Switch), count(NodeKind::Host)), (6, 8));
    let cabled = |port: &&Port| port.peer.is_some();
    let cabled: Vec<&Port> = known.ports.iter().filter(cabled).collect();
    assert_eq!(cabled.len(), 2 * 16, "each cable has two ends");
    for port in &cabled {
        assert_eq!(port.state, PortState::Active, "{port:?}");
        assert_eq!(
            (port.width, port.speed),
            (Some(LinkWidth::X4), Some(LinkSpeed::Edr))
        );
        assert_eq!((port.vls, port.data_bits_per_s()), (4, 100_000_000_000));
        let peer = &known.ports[port.peer.expect("a peer")];
        assert_eq!(known.ports[peer.peer.expect("a peer")].number, port.number);
    }

    let sent = ["perf", "h0.0", "h3.1", "--count", "500", "--size", "1024"];
    let _ = fabric.call(&sent).success();
    let at = port(&snapshot, "h3.1", 1);
    let unicast = || named(&fabric.host_ports("h3.1")[0])["PortUnicastRcvPkts"];
    assert!(unicast() >= 500);
    // Each look is a few packets more: what is sampled lies between what the port says before and after.
    within(LIMIT, "the host's counters are seen", || {
        let before = unicast();
        let sequence = sampler.current().sequence;
        let later = sees(&sampler, "two more samples", |now| {
            now.sequence > sequence + 1
        });
        let after = unicast();
        let seen = later.reading(at).counters[Counter::UnicastRcvPkts];
        match (before..=after).contains(&seen) {
            true => Ok(()),
            false => Err(format!("{seen} of {before} to {after}")),
        }
    });
    let later = sampler.current();
    let counters = later.reading(at).counters;
    assert!(counters[Counter::RcvData] * 4 >= 500 * 1024);
    assert_eq!(counters.errors(), 0);
    assert!(!sampler.history(at, Duration::from_secs(60)).is_empty());
    let json = serde_json::to_string(&*later).expect("JSON");
    let read: Snapshot = serde_json::from_str(&json).expect("a snapshot");
    assert_eq!(read.fabric, later.fabric, "types go to and from JSON");
    assert_eq!(read.reading(at).counters, later.reading(at).counters);
    fabric.down();
}

#[test]
fn a_restarted_host_and_a_pulled_cable_show_and_no_counter_runs_backwards() {
    let fabric = Fabric::up(Transport::Udp, "star-3", &["--no-ip"]);
    let sampler = sampler(&fabric, "h1");
    let first = sees(&sampler, "a sample", |now| now.sequence > 0);
    let at = port(&first, "h2", 1);
    let _ = fabric
        .call(&["perf", "h1", "h2", "--count", "300"])
        .success();
    let is_counted = |now: &Snapshot| now.reading(at).counters[Counter::RcvPkts] >= 300;
    let before = sees(&sampler, "packets", is_counted).reading(at);

    let _ = fabric.call(&["restart", "h2"]).success();
    let restarted = sees(&sampler, "the restart", |now| now.reading(at).resets > 0).reading(at);
    for (counter, sum) in restarted.counters.iter() {
        assert!(sum >= before.counters[counter], "{}", counter.name());
    }

    let peer = first.fabric.ports[at].peer.expect("a cable");
    let (switch, end) = first.fabric.at(peer).expect("a switch");
    let switch_end = format!("{}:{}", switch.name, end.number);
    let _ = fabric.call(&["link", "down", &switch_end]).success();
    let place = first.fabric.ports[at].node;
    // Between the trap and the end of its sweep subnet administration tells what it has found so far.
    let pulled = sees(&sampler, "the cable is gone", |now| {
        sampler.discover();
        let (here, there) = (&now.fabric.ports[at], &now.fabric.ports[peer]);
        let is_cut = here.peer.is_none() && there.state == PortState::Down;
        is_cut && !now.fabric.nodes[place].is_present
    });
    assert!(pulled.reading(at).counters[Counter::RcvPkts] >= before.counters[Counter::RcvPkts]);

    let _ = fabric.call(&["link", "up", &switch_end]).success();
    let back = sees(&sampler, "the cable is back", |now| {
        sampler.discover();
        now.fabric.ports[at].peer == Some(peer) && !now.reading(at).is_stale
    });
    assert_eq!(
        back.fabric.nodes.len(),
        first.fabric.nodes.len(),
        "it has its place"
    );
    fabric.down();
}

#[test]
fn a_host_that_does_not_run_is_said_so_and_sampling_goes_on_when_it_does() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &["--no-ip"]);
    let sampler = sampler(&fabric, "h1");
    let _ = sees(&sampler, "a sample", |now| now.sequence > 0);
    fabric.kill("h1");
    let failed = sees(&sampler, "the end", |now| now.collection.failure.is_some());
    let why = failed.collection.failure.clone().unwrap_or_default();
    assert!(
        why.contains("ibemu status") || why.contains("MAD socket"),
        "{why}"
    );
    assert!(
        failed.sequence > 0 && !failed.fabric.nodes.is_empty(),
        "what was known is kept"
    );
    let _ = fabric.call(&["restart", "h1"]).success();
    let _ = sees(&sampler, "it goes on", |now| {
        now.sequence > failed.sequence && now.collection.failure.is_none()
    });
    fabric.down();
}
