//! Workloads: every traffic source delivers what arithmetic says, flow by flow.

use std::sync::Arc;

use routing::RoutingEngine;
use routing::multicast::Scheme;
use sim::{
    AddressVector, Arbitration, ConstantRate, Destination, FaultPlan, FlowPlan, Group, Model,
    Pattern, RoutedFabric, SendRequest, SlChoice, TrafficSource, Until, VlTables, Workload,
    WorkloadResult,
};
use topologies::Endpoint;
use wire::attr::VlArbEntry;
use wire::{PortNum, Sl, Vl};

/// Model of MLID04 with packets of up to so many bytes.
fn model(vls: u8, packet_bytes: u16) -> Model {
    Model {
        packet_bytes,
        ..Model::mlid04(vls)
    }
}

fn fabric(name: &str, engine: RoutingEngine) -> RoutedFabric {
    let graph = topologies::parse(name).unwrap().graph;
    RoutedFabric::new(&graph, engine).unwrap()
}

fn play(prepared: &RoutedFabric, model: &Model, workload: &Workload) -> WorkloadResult {
    let record = prepared
        .run_workload(model, workload, &FaultPlan::default())
        .unwrap();
    assert_eq!(record.violations, []);
    assert_eq!(record.deadlock, None);
    assert!(record.drops.is_empty(), "{:?}", record.drops);
    assert!(record.balance.is_balanced());
    record
}

fn on_level(to: Destination, sl: u8, flow: u32) -> AddressVector {
    AddressVector {
        to,
        dlid: None,
        sl: Some(Sl::constant(sl)),
        flow,
    }
}

fn constant(
    address: AddressVector,
    bytes: u16,
    interval_ps: u64,
    packets: Option<u64>,
) -> TrafficSource {
    TrafficSource::ConstantRate(ConstantRate {
        address,
        bytes,
        first_ps: 0,
        interval_ps,
        packets,
    })
}

fn message(to: Destination, bytes: u32) -> TrafficSource {
    let request = SendRequest {
        at_ps: 0,
        address: on_level(to, 0, 0),
        bytes,
    };
    TrafficSource::Messages(Arc::new([request]))
}

/// Two flights, one routing, and the bytes of a packet at 4 ns each, on a star.
fn star_ns(bytes: u64) -> u64 {
    20 + 100 + 20 + 4 * bytes
}

#[test]
fn a_constant_flow_delivers_a_packet_an_interval_each_after_the_same_time() {
    let mut workload = Workload::empty(4, 1, Until::Delivered(10_000_000));
    // A packet of 64 bytes each 1000.5 ns.
    let address = AddressVector::to_host(1, 0);
    workload.hosts[0].push(constant(address, 64, 1_000_500, Some(100)));
    workload.flows[0] = FlowPlan {
        delays_ns: vec![star_ns(64) - 1, star_ns(64), star_ns(64) + 1],
        interval_ps: 1_000_500,
        jitter_ns: vec![-1, 0, 1],
    };
    let record = play(
        &fabric("star-4", RoutingEngine::Minhop),
        &model(1, 256),
        &workload,
    );
    let flow = &record.flows[0];
    assert!(record.is_complete);
    assert_eq!(
        (flow.offered, flow.expected, flow.delivered),
        (100, 100, 100)
    );
    assert_eq!(flow.bytes, 6400);
    assert_eq!(flow.delays, [0, 100, 0, 0]);
    assert_eq!(flow.delay_sum_ns, 100 * star_ns(64));
    // Times of generation are rounded up to nanoseconds: half a nanosecond early or late in turn.
    assert_eq!(flow.jitter, [0, 49, 50, 0]);
    assert_eq!(flow.completed_ns, 99_050 + star_ns(64));
}

#[test]
fn an_endless_constant_flow_delivers_as_many_packets_as_there_are_intervals() {
    let mut workload = Workload::empty(4, 1, Until::At(1_000_000));
    workload.hosts[2].push(constant(AddressVector::to_host(3, 0), 256, 3_000_000, None));
    let record = play(
        &fabric("star-4", RoutingEngine::Minhop),
        &model(1, 256),
        &workload,
    );
    // At 0, 3000, ... 999000 ns; the last is still in flight.
    assert_eq!(record.flows[0].offered, 1_000_000u64.div_ceil(3000));
    assert_eq!(record.flows[0].delivered, record.flows[0].offered - 1);
    assert_eq!(record.ended_ns, 1_000_000);
}

#[test]
fn a_backlogged_flow_fills_its_link() {
    let mut workload = Workload::empty(4, 1, Until::At(1_000_000));
    workload.hosts[0].push(TrafficSource::Backlogged {
        address: AddressVector::to_host(1, 0),
        bytes: 256,
        first_ps: 0,
    });
    let mut model = model(1, 256);
    // One packet in flight does not fill a link; two do.
    model.input_packets = 2.try_into().unwrap();
    model.output_packets = 2.try_into().unwrap();
    let prepared = fabric("star-4", RoutingEngine::Minhop);
    let record = play(&prepared, &model, &workload);
    // A 1x link carries a quarter of a byte a nanosecond.
    let full = 1_000_000 / 4;
    let bytes = record.flows[0].bytes;
    assert!((full - 512..=full).contains(&bytes), "{bytes}");
    let host = prepared.graph().hosts().next().unwrap();
    let port = record.ports.iter().find(|port| port.port.node == host);
    assert!((full - 256..=full + 256).contains(&port.unwrap().bytes()));
}

#[test]
fn packets_of_any_length_take_the_time_of_their_bytes() {
    for bytes in [32u16, 36, 256, 1000, 4128] {
        let mut workload = Workload::empty(4, 1, Until::Delivered(1_000_000));
        let address = AddressVector::to_host(1, 0);
        workload.hosts[0].push(constant(address, bytes, 20_000_000, Some(3)));
        let record = play(
            &fabric("star-4", RoutingEngine::Minhop),
            &model(1, 4128),
            &workload,
        );
        let flow = &record.flows[0];
        let expected = star_ns(u64::from(bytes));
        assert_eq!((flow.delay_min_ns, flow.delay_max_ns), (expected, expected));
    }
}

#[test]
fn one_packet_by_multicast_comes_to_every_member_when_the_path_and_its_bytes_say() {
    // FT(4, 2): eight hosts, four leaf switches; another leaf is three switches away.
    for (scheme, engine) in [
        (Scheme::Cyclic, RoutingEngine::Mlid),
        (Scheme::SpanningTree, RoutingEngine::Mlid),
    ] {
        let mut workload = Workload::empty(8, 1, Until::Delivered(1_000_000));
        workload.scheme = scheme;
        workload.groups.push(Group {
            members: (0..8).collect(),
        });
        workload.hosts[0].push(constant(
            on_level(Destination::Group(0), 0, 0),
            32,
            1,
            Some(1),
        ));
        let prepared = fabric("fat-tree-4-2", engine);
        let record = play(&prepared, &Model::mlid04(1), &workload);
        let flow = &record.flows[0];
        assert_eq!((flow.offered, flow.expected, flow.delivered), (1, 7, 7));
        assert_eq!(flow.delay_min_ns, 2 * 20 + 100 + 128);
        assert_eq!(flow.delay_max_ns, 4 * 20 + 3 * 100 + 128);
        assert!(record.is_complete);
        // One copy on the cable of each host, none back to the sender.
        let sent: u64 = record.ports.iter().map(sim::PortRecord::packets).sum();
        assert_eq!(sent - 1, record.traversals);
        assert_eq!(record.balance.injected, 1);
    }
}

#[test]
fn multicast_from_all_to_random_groups_is_delivered_exactly_once() {
    for scheme in [Scheme::Cyclic, Scheme::SpanningTree] {
        let mut workload = Workload::empty(16, 16, Until::Delivered(10_000_000));
        workload.scheme = scheme;
        let mut due = 0;
        for host in 0..16u32 {
            // Every third or so, the sender among them or not.
            let members: Vec<u32> = (0..16).filter(|to| (to * 7 + host * 5) % 3 != 0).collect();
            let others = members.iter().filter(|&&member| member != host).count();
            due += 10 * u64::try_from(others).unwrap();
            workload.groups.push(Group { members });
            let address = on_level(Destination::Group(host), 0, host);
            let requests = [SendRequest {
                at_ps: 0,
                address,
                bytes: 10 * 224,
            }];
            let at = usize::try_from(host).unwrap();
            workload.hosts[at].push(TrafficSource::Messages(Arc::new(requests)));
        }
        let prepared = fabric("fat-tree-4-3", RoutingEngine::Mlid);
        let record = play(&prepared, &model(1, 256), &workload);
        let delivered: u64 = record.flows.iter().map(|flow| flow.delivered).sum();
        assert_eq!(delivered, due);
        assert!(record.is_complete, "{scheme:?}");
        assert_eq!(record.balance.delivered, due);
    }
}

#[test]
fn a_message_to_each_member_by_unicast_takes_a_packet_time_a_member_and_one_path() {
    let mut workload = Workload::empty(8, 1, Until::Delivered(1_000_000));
    workload.groups.push(Group {
        members: (0..8).collect(),
    });
    workload.hosts[0].push(message(Destination::Each(0), 1));
    let mut model = model(1, 36);
    model.input_packets = 2.try_into().unwrap();
    model.output_packets = 2.try_into().unwrap();
    let record = play(
        &fabric("fat-tree-4-2", RoutingEngine::Mlid),
        &model,
        &workload,
    );
    let flow = &record.flows[0];
    assert_eq!((flow.offered, flow.delivered), (7, 7));
    // The last of seven leaves when six have: then three switches, four cables, its own bytes.
    assert_eq!(flow.completed_ns, 6 * 144 + 4 * 20 + 3 * 100 + 144);
}

#[test]
fn a_message_is_cut_into_packets_of_the_model_s_size_and_a_last_short_one() {
    let mut workload = Workload::empty(4, 1, Until::Delivered(10_000_000));
    workload.hosts[0].push(message(Destination::Host(1), 4096 + 4096 + 5));
    let record = play(
        &fabric("star-4", RoutingEngine::Minhop),
        &model(1, 4128),
        &workload,
    );
    let flow = &record.flows[0];
    assert_eq!(flow.delivered, 3);
    assert_eq!(flow.bytes, 2 * 4128 + 32 + 8);
}

#[test]
fn service_levels_that_share_a_virtual_lane_take_turns_and_weights_share_a_link() {
    let prepared = fabric("star-4", RoutingEngine::Minhop);
    let mut workload = Workload::empty(4, 3, Until::At(2_000_000));
    for (sl, flow) in [(0, 0), (1, 1), (2, 2)] {
        workload.hosts[0].push(TrafficSource::Backlogged {
            address: on_level(Destination::Host(1), sl, flow),
            bytes: 256,
            first_ps: 0,
        });
    }
    // Levels 0 and 1 on VL 0, level 2 on VL 1, which has three times the weight of VL 0.
    let mut sl2vl = [Vl::default(); 16];
    sl2vl[2] = Vl::constant(1);
    let entry = |vl, weight| VlArbEntry {
        vl: Vl::constant(vl),
        weight,
    };
    // A packet of 258 bytes spends five units of weight.
    let tables = Arbitration {
        high: Vec::new(),
        low: vec![entry(0, 20), entry(1, 60)],
        high_limit: 255,
    };
    let graph = prepared.graph();
    let cables = graph.ids().flat_map(|node| {
        graph
            .cables(node)
            .map(move |(port, _)| Endpoint { node, port })
    });
    workload.vl_tables = Arc::new(VlTables {
        sl2vl: Some(sl2vl),
        arbitration: cables.map(|port| (port, tables.clone())).collect(),
        ..VlTables::default()
    });
    let mut model = model(2, 256);
    model.input_packets = 8.try_into().unwrap();
    model.output_packets = 8.try_into().unwrap();
    let record = play(&prepared, &model, &workload);
    let bytes: Vec<f64> = record
        .flows
        .iter()
        .map(|flow| f64::from(u32::try_from(flow.bytes).unwrap()))
        .collect();
    let full = 2_000_000.0 / 4.0;
    for (share, expected) in bytes.iter().zip([1.0 / 8.0, 1.0 / 8.0, 3.0 / 4.0]) {
        assert!((share / full - expected).abs() < 0.02, "{bytes:?}");
    }
    let out = record
        .ports
        .iter()
        .find(|port| port.port.port == PortNum::new(2));
    assert!(out.unwrap().vls[1].bytes > 2 * out.unwrap().vls[0].bytes);
}

#[test]
fn ideal_credits_never_stall_a_link_whose_packet_lands_as_they_overtake_it() {
    // All hosts to all others in the same order: an incast on each in turn. A count that was taken
    // back stood until the keep-alive, 15 ms later.
    let mut workload = Workload::empty(32, 1, Until::Delivered(100_000_000));
    workload.groups.push(Group {
        members: (0..32).collect(),
    });
    for sources in &mut workload.hosts {
        sources.push(message(Destination::Each(0), 1));
    }
    let record = play(
        &fabric("fat-tree-8-2", RoutingEngine::Mlid),
        &Model::mlid04(1),
        &workload,
    );
    assert_eq!(record.flows[0].delivered, 32 * 31);
    // 31 packets of 128 ns one behind the other, without competing traffic; six times that is ample.
    let least = 31 * 128;
    assert!(
        (least..6 * least + 10_000).contains(&record.completed_ns()),
        "{}",
        record.completed_ns()
    );
}

#[test]
fn an_explicit_dlid_takes_another_path_to_the_same_host() {
    let prepared = fabric("fat-tree-4-2", RoutingEngine::Mlid);
    let graph = prepared.graph();
    let hosts: Vec<_> = graph.hosts().collect();
    let range = prepared.tables().lids.of_node(hosts[7]).unwrap();
    let mut paths = Vec::new();
    for dlid in range.lids() {
        let mut workload = Workload::empty(8, 1, Until::Delivered(1_000_000));
        let address = AddressVector {
            dlid: Some(dlid),
            ..AddressVector::to_host(7, 0)
        };
        workload.hosts[0].push(constant(address, 32, 1000, Some(5)));
        let record = play(&prepared, &Model::mlid04(1), &workload);
        assert_eq!(record.flows[0].delivered, 5);
        let used = record.ports.iter().filter(|port| port.packets() == 5);
        paths.push(used.map(|port| port.port).collect::<Vec<_>>());
    }
    assert_eq!(paths.len(), 2);
    assert_ne!(paths[0], paths[1]);
}

#[test]
fn drawn_sources_end_and_what_finds_no_place_is_refused_and_counted() {
    let mut workload = Workload::empty(16, 1, Until::Delivered(10_000_000));
    workload.backlog = 4;
    for sources in &mut workload.hosts {
        sources.push(TrafficSource::Patterned {
            pattern: Pattern::Uniform,
            sl_choice: SlChoice::Random,
            bytes_per_ns: 0.5,
            flow: 0,
            until_ns: 20_000,
        });
    }
    let record = play(
        &fabric("fat-tree-4-3", RoutingEngine::Mlid),
        &model(2, 32),
        &workload,
    );
    let flow = &record.flows[0];
    assert!(flow.refused > 0);
    assert_eq!(flow.delivered, flow.offered - flow.refused);
    assert!(!record.is_complete, "refused packets never come");
    // A packet each 64 ns, the first one at a random moment of the first interval.
    assert!((16 * 312..=16 * 313).contains(&flow.offered));
}

#[test]
fn backlogged_flows_have_places_of_their_own() {
    let mut workload = Workload::empty(4, 4, Until::At(1_000_000));
    workload.backlog = 1;
    for flow in 0..3 {
        workload.hosts[0].push(TrafficSource::Backlogged {
            address: on_level(Destination::Host(1), 0, flow),
            bytes: 256,
            first_ps: 0,
        });
    }
    workload.hosts[0].push(constant(
        AddressVector::to_host(2, 3),
        256,
        100_000_000,
        Some(5),
    ));
    let record = play(
        &fabric("star-4", RoutingEngine::Minhop),
        &model(1, 256),
        &workload,
    );
    let delivered: Vec<u64> = record.flows.iter().map(|flow| flow.delivered).collect();
    let backlogged = &delivered[..3];
    let (least, most) = (backlogged.iter().min(), backlogged.iter().max());
    assert!(least.unwrap() + 1 >= *most.unwrap(), "{delivered:?}");
    assert!(least.unwrap() > &100, "{delivered:?}");
    assert_eq!((delivered[3], record.flows[3].refused), (5, 0));
}

#[test]
fn what_makes_no_sense_is_refused_with_its_place() {
    let prepared = fabric("star-4", RoutingEngine::Minhop);
    let refused = |workload: &Workload| {
        let error = prepared.run_workload(&model(1, 256), workload, &FaultPlan::default());
        error.unwrap_err().to_string()
    };
    let empty = Workload::empty(4, 1, Until::At(1));
    let with = |source| {
        let mut workload = empty.clone();
        workload.hosts[2].push(source);
        workload
    };
    assert!(refused(&Workload::empty(3, 1, Until::At(1))).contains("3 hosts"));
    let long = refused(&with(constant(AddressVector::to_host(1, 0), 260, 1, None)));
    assert!(
        long.contains("host 2, traffic source 0") && long.contains("32 to 256"),
        "{long}"
    );
    assert!(
        refused(&with(constant(AddressVector::to_host(2, 0), 64, 1, None))).contains("the sender")
    );
    assert!(refused(&with(constant(AddressVector::to_host(4, 0), 64, 1, None))).contains("0 to 3"));
    assert!(refused(&with(constant(AddressVector::to_host(1, 1), 64, 1, None))).contains("flow 1"));
    assert!(refused(&with(message(Destination::Group(0), 1))).contains("group 0"));
    assert!(refused(&with(message(Destination::Host(1), 0))).contains("a message of 0 bytes"));
    let mut grouped = empty.clone();
    grouped.groups.push(Group {
        members: vec![1, 1],
    });
    assert!(refused(&grouped).contains("twice"));
    let mut off_vl = with(TrafficSource::Patterned {
        pattern: Pattern::Uniform,
        sl_choice: SlChoice::Random,
        bytes_per_ns: 0.1,
        flow: 0,
        until_ns: 1,
    });
    off_vl.vl_tables = Arc::new(VlTables {
        sl2vl: Some([Vl::constant(3); 16]),
        ..VlTables::default()
    });
    assert!(refused(&off_vl).contains("goes to VL 3"));
}
