use hostd::control::{PingRequest, PingResult, Reply, Request};
use link::PortConfig;
use wire::control::{DeviceReply, DeviceRequest};
use wire::{Lid, Sl};

use crate::bed::{Bed, CABLE_NS, lid, port};
use crate::manage::{bring_up_pair, bring_up_star, others};

fn ping(bed: &mut Bed, host: usize, targets: Vec<Lid>, count: u32, size: u16) -> Vec<PingResult> {
    let request = PingRequest {
        targets,
        count,
        interval_us: 100,
        size,
        sl: Sl::default(),
        pkey: 0,
        timeout_ms: 50,
    };
    match bed.ask(host, Request::Ping(request)) {
        Reply::Ping(results) => results,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_ping_reports_the_responder_and_the_round_trip_time() {
    let mut bed = Bed::back_to_back(PortConfig::default());
    bring_up_pair(&mut bed);
    let results = ping(&mut bed, 0, vec![lid(2)], 5, 290);
    let result = &results[0];
    assert_eq!((result.sent, result.received), (5, 5));
    assert_eq!(
        (result.responder.as_str(), result.responder_lid),
        ("h1", lid(2))
    );
    assert_eq!(
        (result.rtt.min_ns, result.rtt.max_ns),
        (2 * CABLE_NS, 2 * CABLE_NS)
    );
}

#[test]
fn all_pairs_of_a_star_are_asked_at_once() {
    let mut bed = Bed::star(6, PortConfig::default());
    bring_up_star(&mut bed, 6);
    for host in 0..6 {
        let targets: Vec<Lid> = (1..=6).map(lid).collect();
        let results = ping(&mut bed, host, targets, 1, 98);
        for (number, result) in results.iter().enumerate() {
            assert_eq!(result.received, 1, "{host} to {number}");
            assert_eq!(result.responder, format!("h{number}"));
        }
        assert_eq!(
            results[host].rtt.max_ns, 0,
            "to itself: nothing leaves the host"
        );
    }
}

#[test]
fn an_unassigned_lid_times_out() {
    let mut bed = Bed::star(2, PortConfig::default());
    bring_up_star(&mut bed, 2);
    let results = ping(&mut bed, 0, vec![lid(40), lid(2)], 2, 98);
    assert_eq!((results[0].sent, results[0].received), (2, 0));
    assert_eq!(
        (results[0].rtt.samples, results[0].responder.as_str()),
        (0, "")
    );
    assert_eq!(results[1].received, 2);
}

#[test]
fn a_ping_of_the_largest_size_passes_and_a_larger_one_is_refused() {
    let mut bed = Bed::back_to_back(PortConfig::default());
    bring_up_pair(&mut bed);
    let results = ping(&mut bed, 0, vec![lid(2)], 1, 2048 + 34);
    assert_eq!(results[0].received, 1);
    for size in [0, 94, 2048 + 35] {
        let request = PingRequest {
            targets: vec![lid(2)],
            count: 1,
            interval_us: 0,
            size,
            sl: Sl::default(),
            pkey: 0,
            timeout_ms: 1,
        };
        assert!(
            matches!(bed.ask(0, Request::Ping(request)), Reply::Refused(_)),
            "{size}"
        );
    }
}

#[test]
fn a_host_reports_its_identity_addresses_and_port_counters() {
    let mut bed = Bed::star(2, PortConfig::default());
    bring_up_star(&mut bed, 2);
    ping(&mut bed, 0, others(2), 3, 98);
    let Reply::Identity(identity) = bed.ask(1, Request::Identity) else {
        panic!("no identity");
    };
    assert_eq!(
        (identity.name.as_str(), identity.lid, identity.sm_lid),
        ("h1", lid(2), lid(1))
    );
    assert_eq!((identity.state, identity.mtu), (4, 2048));
    let Reply::Device(DeviceReply::Ports(ports)) =
        bed.ask(1, Request::Device(DeviceRequest::Ports))
    else {
        panic!("no ports");
    };
    assert_eq!((ports[0].port, ports[0].lid, ports[0].vls), (port(1), 2, 2));
    let drops = ports[0]
        .counters
        .iter()
        .filter(|(name, _)| name.starts_with("drop."));
    assert_eq!(drops.count(), 0, "{:?}", ports[0].counters);
}
