//! The twin of a live fabric: its manager brings it up by packets, its hosts reach each other.

use std::collections::BTreeMap;

use hostd::control::{PerfRequest, PingRequest, Reply, Request, SINK_QPN};
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

fn file(name: &str) -> Graph {
    let path = format!("{}/../topologies/files/{name}", env!("CARGO_MANIFEST_DIR"));
    topologies::parse(&path).unwrap().graph
}

fn identity(twin: &mut Twin, host: &str) -> hostd::control::HostIdentity {
    let token = twin.request(host, Request::Identity).unwrap();
    match twin.reply(token, SECOND_NS).unwrap() {
        Reply::Identity(identity) => identity,
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_port_of_an_adapter_has_a_lid_and_reaches_all_others() {
    let graph = file("two-rails.net");
    let mut twin = Twin::new(&graph, &TwinConfig::default()).unwrap();
    let status = twin.run_until_up(10 * SECOND_NS).unwrap();
    assert_eq!(status.hosts, 8, "two ports of four adapters");
    let ports: Vec<String> = (1..=4)
        .flat_map(|host| [1, 2].map(|port| format!("node{host}:{port}")))
        .collect();
    let mut lids: Vec<Lid> = Vec::new();
    for port in &ports {
        let identity = identity(&mut twin, port);
        let number = u64::from(identity.port.get());
        assert_eq!(identity.port_guid.0 - identity.guid.0, number);
        lids.push(identity.lid);
    }
    for port in &ports {
        let request = Request::Ping(PingRequest {
            targets: lids.clone(),
            count: 1,
            interval_us: 100,
            size: 290,
            sl: Sl::constant(0),
            pkey: 0,
            timeout_ms: 1000,
        });
        let token = twin.request(port, request).unwrap();
        let Reply::Ping(results) = twin.reply(token, 10 * SECOND_NS).unwrap() else {
            panic!("a ping is answered as such");
        };
        let all = results.iter().all(|result| result.received == 1);
        assert!(all, "{port}: {results:?}");
    }
    lids.sort_unstable();
    lids.dedup();
    assert_eq!(lids.len(), 8, "each has its own");
}

#[test]
fn a_link_of_a_quarter_of_the_width_takes_four_times_as_long() {
    let graph = file("quirks.ibnetdiscover");
    let config = TwinConfig {
        port: PortConfig {
            pacing: Pacing::EXACT,
            ..PortConfig::default()
        },
        ..TwinConfig::default()
    };
    let mut twin = Twin::new(&graph, &config).unwrap();
    twin.run_until_up(10 * SECOND_NS).unwrap();
    let mut elapsed_ns = |to: &str| {
        let dlid = identity(&mut twin, to).lid;
        let request = Request::PerfStart(PerfRequest {
            flow: 1,
            dlid,
            qpn: SINK_QPN,
            size: 2048,
            window: 64,
            rate: 0,
            sl: Sl::constant(0),
            count: 2000,
            duration_ms: 0,
            seed: 1,
        });
        let from = "node03 HCA-1";
        let token = twin.request(from, request).unwrap();
        assert_eq!(twin.reply(token, SECOND_NS).unwrap(), Reply::Done);
        twin.run_for(SECOND_NS);
        let token = twin.request(from, Request::PerfReport { flow: 1 }).unwrap();
        let Reply::Perf(report) = twin.reply(token, SECOND_NS).unwrap() else {
            panic!("a report is answered as such");
        };
        assert_eq!((report.delivered, report.lost), (2000, 0));
        report.elapsed_ns
    };
    let (fast, slow) = (elapsed_ns("node05 HCA-1"), elapsed_ns("node04 HCA-1"));
    let tenths = slow * 10 / fast;
    assert!((38..=42).contains(&tenths), "4x {fast} ns, 1x {slow} ns");
}

#[test]
fn a_host_that_is_not_there_is_named() {
    let graph = topologies::parse("star-2").unwrap().graph;
    let mut twin = Twin::new(&graph, &TwinConfig::default()).unwrap();
    let error = twin.request("h9", Request::Identity).unwrap_err();
    assert_eq!(error.to_string(), "there is no host \"h9\"");
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
