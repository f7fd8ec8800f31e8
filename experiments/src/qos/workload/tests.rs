use routing::qos::link_rate;
use wire::Vl;

use super::*;
use sim::FaultPlan;
use sim::PACKET_BYTES_MIN;

fn model(packet_bytes: u16) -> Model {
    Model {
        packet_bytes,
        crossbar_at_link_rate: false,
        ..Model::mlid04(DATA_VLS)
    }
}

#[test]
fn intervals_are_packet_times_by_the_ratio_of_link_rate_to_connection_rate() {
    // 256 bytes take 1,024 ns of 4 ns a byte; 250 Mbit/s are a tenth of 2.5 Gbit/s.
    assert_eq!(
        interval_ps(&model(256), 250_000_000, link_rate::X1),
        10_240_000
    );
    // VLARB01: 2,048 bits at 64 kbit/s are 32 ms apart; times 1.25, 40 ms.
    assert_eq!(
        interval_ps(&model(256), 64_000, link_rate::X1),
        40_000_000_000
    );
    assert_eq!(interval_ps(&model(256), 0, u64::MAX), u64::MAX);
}

#[test]
fn thresholds_are_parts_of_the_interval() {
    let stream = Stream {
        from: 0,
        to: 1,
        level: 3,
        rate_bps: 250_000_000,
        interval_ps: 10_240_000,
    };
    let plan = thresholds(&stream);
    assert_eq!(plan.delays_ns, [320, 640, 1280, 2560, 5120, 7680, 10240]);
    assert_eq!(
        plan.jitter_ns,
        [
            -10240, -7680, -5120, -2560, -1280, 1280, 2560, 5120, 7680, 10240
        ]
    );
}

fn filled(tries: u32) -> (QosFabric, Admission) {
    let graph = topologies::parse("mesh-2x1-2").unwrap().graph;
    let fabric = QosFabric::new(&graph, RoutingEngine::Updn).unwrap();
    let how = FillOptions {
        tries,
        retries: 100,
        seed: 3,
    };
    let filled = fabric.fill(Layout::Interleaved, link_rate::X1, how);
    let admission = filled.unwrap().0;
    (fabric, admission)
}

#[test]
fn each_connection_is_a_flow_of_its_source_and_each_port_has_its_tables() {
    let (fabric, admission) = filled(12);
    let model = model(256);
    let streams = streams(&fabric, &admission, &model, link_rate::X1);
    assert_eq!(streams.len(), 12);
    let span = Span {
        warmup_ns: 0,
        measure_ns: 10_000,
    };
    let workload = workload(&fabric, &admission, &streams, &model, (span, true, 1));
    let count = |host: u32| streams.iter().filter(|stream| stream.from == host).count();
    for (host, sources) in (0u32..).zip(&workload.hosts) {
        // Best effort to each of the three others.
        assert_eq!(sources.len(), count(host) + 3, "host {host}");
    }
    assert_eq!(workload.flows.len(), 13);
    assert_eq!(workload.check(4, &model), Ok(()));
    // Four hosts and both sides of five cables.
    assert_eq!(workload.vl_tables.arbitration.len(), 10);
    for ((port, tables), (end, link)) in
        workload.vl_tables.arbitration.iter().zip(admission.links())
    {
        assert_eq!(*port, end);
        let weights = tables.low.iter().map(|entry| u32::from(entry.weight));
        assert_eq!(weights.sum::<u32>(), link.used());
    }
    let vls = workload.vl_tables.sl2vl.unwrap();
    assert_eq!([vls[0], vls[3], vls[8]], [0, 3, 8].map(Vl::truncate));
}

#[test]
fn a_packet_in_an_empty_network_takes_the_time_calculated_by_hand() {
    let graph = topologies::parse("star-2").unwrap().graph;
    let fabric = QosFabric::new(&graph, RoutingEngine::Updn).unwrap();
    let how = FillOptions {
        tries: 1,
        retries: 1,
        seed: 1,
    };
    let (admission, _) = fabric.fill(Layout::Contiguous, link_rate::X1, how).unwrap();
    let model = model(PACKET_BYTES_MIN);
    let streams = streams(&fabric, &admission, &model, link_rate::X1);
    // A connection of 8 to 64 kbit/s: packets of 32 bytes 5 to 40 ms apart.
    let span = Span {
        warmup_ns: 0,
        measure_ns: 50_000_000,
    };
    let workload = workload(&fabric, &admission, &streams, &model, (span, false, 1));
    let record = fabric
        .routed
        .run_workload(&model, &workload, &FaultPlan::default())
        .unwrap();
    let flow = &record.flows[0];
    assert!(flow.delivered > 0);
    // Two flights of 20 ns, 100 ns of routing, 128 ns for 32 bytes: cut through.
    assert_eq!((flow.delay_min_ns, flow.delay_max_ns), (268, 268));
    assert_eq!(flow.delays[0], flow.delivered);
}
