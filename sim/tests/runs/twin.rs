//! The twin of a live fabric: its manager brings it up by packets, its hosts reach each other.

use std::collections::BTreeMap;

use hostd::control::{PingRequest, Reply, Request};
use link::{Counts, Pacing, PortConfig};
use sim::{Fault, FaultKind, FaultPlan, Twin, TwinConfig};
use topologies::Graph;
use wire::{Lid, PortNum, Sl};

const SECOND_NS: u64 = 1_000_000_000;

/// Brings a fabric up and lets all hosts ping all others; what all ports have counted.
fn pings(name: &str, port: PortConfig) -> (u64, BTreeMap<(String, PortNum), Counts>) {
    let graph = topologies::parse(name).unwrap().graph;
    let config = TwinConfig {
        port,
        ..TwinConfig::default()
    };
    let mut twin = Twin::new(&graph, &config).unwrap();
    let status = twin.run_until_up(10 * SECOND_NS).unwrap();
    assert_eq!(
        usize::try_from(status.hosts).unwrap(),
        graph.hosts().count()
    );
    ping_all(&mut twin, &graph);
    (twin.now().0, twin.counts())
}

/// All hosts reach all others.
fn ping_all(twin: &mut Twin, graph: &Graph) {
    let hosts: Vec<String> = graph
        .hosts()
        .map(|id| graph.node(id).name.clone())
        .collect();
    let targets: Vec<Lid> = hosts
        .iter()
        .map(|host| twin.host(host).unwrap().lid())
        .collect();
    for host in &hosts {
        let request = Request::Ping(PingRequest {
            targets: targets.clone(),
            count: 3,
            interval_us: 100,
            size: 290,
            sl: Sl::constant(0),
            pkey: 0,
            timeout_ms: 1000,
        });
        let token = twin.request(host, request).unwrap();
        let Reply::Ping(results) = twin.reply(token, 10 * SECOND_NS).unwrap() else {
            panic!("a ping is answered as such");
        };
        assert!(
            results.iter().all(|result| result.received == 3),
            "{host}: {results:?}"
        );
    }
}

#[test]
fn a_fat_tree_comes_up_by_its_manager_and_all_hosts_reach_all_others() {
    let (_, counts) = pings("fat-tree-4-2", PortConfig::default());
    assert!(counts.values().all(|counts| counts.drops.total() == 0));
}

#[test]
fn an_irregular_fabric_at_the_rate_of_its_links_does_the_same_each_time() {
    let port = PortConfig {
        pacing: Pacing::EXACT,
        ..PortConfig::default()
    };
    let first = pings("irregular-6-2-3-5", port);
    assert_eq!(first, pings("irregular-6-2-3-5", port));
}

#[test]
fn a_host_that_is_not_there_is_named() {
    let graph = topologies::parse("star-2").unwrap().graph;
    let mut twin = Twin::new(&graph, &TwinConfig::default()).unwrap();
    let error = twin.request("nobody", Request::Identity).unwrap_err();
    assert_eq!(error.to_string(), "there is no host \"nobody\"");
}

#[test]
fn the_manager_routes_round_a_switch_that_crashes_and_takes_it_back() {
    let graph = topologies::parse("fat-tree-4-2").unwrap().graph;
    let fault = |seconds: u64, what| Fault {
        at_ns: seconds * SECOND_NS,
        what,
    };
    let config = TwinConfig {
        faults: FaultPlan {
            faults: vec![
                fault(3, FaultKind::Crash("s0.0".to_owned())),
                fault(6, FaultKind::Restart("s0.0".to_owned())),
            ],
            seed: 1,
        },
        ..TwinConfig::default()
    };
    let mut twin = Twin::new(&graph, &config).unwrap();
    let whole = twin.run_until_up(2 * SECOND_NS).unwrap();
    for (until, switches) in [(5, whole.switches - 1), (9, whole.switches)] {
        let left = (until * SECOND_NS).saturating_sub(twin.now().0);
        twin.run_for(left);
        let status = twin.status();
        assert_eq!(status.switches, switches, "{status:?}");
        ping_all(&mut twin, &graph);
    }
}
