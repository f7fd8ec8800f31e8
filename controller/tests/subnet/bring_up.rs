use controller::control::Phase;
use controller::{SmConfig, SmEvent};
use link::PortState;
use mad::sma::Node as _;
use routing::RoutingEngine;
use wire::{Lmc, Vl};

use crate::bed::Bed;
use crate::{assert_connected, assert_programmed, first_host, graph, offline, up};

#[test]
fn a_fat_tree_comes_up_with_the_tables_that_are_computed_offline() {
    let (bed, host) = up("fat-tree-4-3");
    assert_programmed(&bed, &offline(&bed.graph));
    let status = bed.status(host);
    assert_eq!((status.switches, status.hosts, status.links), (20, 16, 48));
    assert_eq!((status.lmc, status.lids_used), (2, 16 * 4 + 20));
    assert_eq!(status.active_ports, 96);
    assert!(status.engine.starts_with("mlid"), "{}", status.engine);
    assert!(!status.degraded);
    assert_eq!((status.generation, status.smps_timed_out), (1, 0));
    assert!(status.warnings.is_empty(), "{:?}", status.warnings);
    for id in bed.graph.ids() {
        for end in bed.ends(id) {
            assert_eq!(bed.node(id).state(end.port), PortState::Active);
        }
    }
}

#[test]
fn other_fabrics_come_up_and_every_host_reaches_every_other() {
    for name in [
        "irregular-8-2-3-7",
        "hypercube-3-1",
        "torus-3x3-1",
        "ring-5-2",
        "star-4",
        "clos-4-2-2",
    ] {
        let (bed, host) = up(name);
        assert_programmed(&bed, &offline(&bed.graph));
        let hosts: Vec<_> = bed.graph.hosts().collect();
        assert_connected(&bed, &hosts);
        let status = bed.status(host);
        assert_eq!(status.phase, Phase::Up, "{name}");
        assert!(status.warnings.is_empty(), "{name}: {:?}", status.warnings);
    }
}

#[test]
fn the_order_in_which_answers_come_does_not_show() {
    let tables = offline(&graph("fat-tree-4-3"));
    for seed in 2..12 {
        let mut bed = Bed::new(graph("fat-tree-4-3"), seed);
        let host = first_host(&bed.graph);
        bed.start(host, SmConfig::default());
        bed.run_until_up(host);
        assert_programmed(&bed, &tables);
    }
}

#[test]
fn the_manager_may_run_beside_any_host() {
    let mut bed = Bed::new(graph("fat-tree-4-3"), 1);
    let host = bed.id("h3.1.1");
    bed.start(host, SmConfig::default());
    bed.run_until_up(host);
    assert_programmed(&bed, &offline(&bed.graph));
}

#[test]
fn packets_lost_on_every_hop_delay_the_start_and_change_nothing() {
    let mut bed = Bed::new(graph("fat-tree-4-3"), 5);
    let host = first_host(&bed.graph);
    // An exchange crosses up to ten hops: one in four is lost.
    bed.loss_per_mille = 30;
    bed.start(host, SmConfig::default());
    let status = bed.run_until(host, |status| {
        let whole = (status.switches, status.hosts, status.links) == (20, 16, 48);
        status.phase == Phase::Up && status.unreachable.is_empty() && whole
    });
    assert!(status.smps_timed_out > 100);
    bed.loss_per_mille = 0;
    assert_programmed(&bed, &offline(&bed.graph));
}

#[test]
fn a_silent_switch_is_left_out_named_and_taken_in_when_it_answers() {
    let mut bed = Bed::new(graph("fat-tree-4-3"), 1);
    let host = first_host(&bed.graph);
    let root = bed.id("s0.0.1");
    bed.silence(root, true);
    bed.start(host, SmConfig::default());
    let status = bed.run_until_up(host);
    assert_eq!((status.switches, status.hosts), (19, 16));
    assert!(!status.unreachable.is_empty());
    assert!(
        status
            .warnings
            .iter()
            .any(|text| text.contains("behind port")),
        "{:?}",
        status.warnings
    );
    let hosts: Vec<_> = bed.graph.hosts().collect();
    assert_connected(&bed, &hosts);
    bed.silence(root, false);
    bed.run_until(host, |status| {
        status.phase == Phase::Up && status.switches == 20
    });
    assert_programmed(&bed, &offline(&bed.graph));
    assert!(bed.status(host).unreachable.is_empty());
}

#[test]
fn a_silent_host_does_not_keep_the_others_down() {
    let mut bed = Bed::new(graph("irregular-8-2-3-7"), 1);
    let host = first_host(&bed.graph);
    let silent = bed.graph.hosts().nth(5).unwrap();
    bed.silence(silent, true);
    bed.start(host, SmConfig::default());
    bed.run_until_up(host);
    let hosts: Vec<_> = bed.graph.hosts().filter(|&id| id != silent).collect();
    assert_connected(&bed, &hosts);
}

#[test]
fn the_lmc_that_is_asked_for_is_given() {
    for (name, lmc) in [("fat-tree-4-3", 1), ("ring-5-2", 3)] {
        let mut bed = Bed::new(graph(name), 1);
        let host = first_host(&bed.graph);
        let config = SmConfig {
            lmc: Some(Lmc::constant(lmc)),
            ..SmConfig::default()
        };
        bed.start(host, config);
        assert_eq!(bed.run_until_up(host).lmc, lmc);
        let hosts: Vec<_> = bed.graph.hosts().collect();
        for &id in &hosts {
            assert_eq!(bed.address(id).1.get(), lmc);
        }
        assert_connected(&bed, &hosts);
    }
}

#[test]
fn mlid_on_a_fabric_that_is_no_fat_tree_fails_with_the_reason_and_the_remedy() {
    let mut bed = Bed::new(graph("ring-5-2"), 1);
    let host = first_host(&bed.graph);
    let config = SmConfig {
        routing: RoutingEngine::Mlid,
        ..SmConfig::default()
    };
    bed.start(host, config);
    let status = bed.run_until(host, |status| matches!(status.phase, Phase::Failed { .. }));
    let Phase::Failed { reason } = status.phase else {
        unreachable!("just waited for");
    };
    assert!(reason.contains("m-port n-tree"), "{reason}");
    assert!(reason.contains("--routing auto"), "{reason}");
    assert!(
        bed.events_reported
            .iter()
            .any(|(_, event)| matches!(event, SmEvent::Failed { .. }))
    );
    bed.run_for(5_000_000_000);
    assert!(matches!(bed.status(host).phase, Phase::Failed { .. }));
}

#[test]
fn links_that_come_up_during_the_first_discovery_are_waited_for() {
    let mut bed = Bed::new(graph("fat-tree-4-3"), 1);
    let host = first_host(&bed.graph);
    let roots: Vec<_> = bed.graph.switches().take(4).collect();
    for &root in &roots {
        bed.kill(root);
    }
    bed.start(host, SmConfig::default());
    for root in roots {
        bed.run_for(200_000);
        bed.revive(root);
    }
    bed.run_until_up(host);
    assert_programmed(&bed, &offline(&bed.graph));
    assert_eq!(bed.status(host).generation, 1);
}

#[test]
fn several_lanes_share_service_levels_and_links() {
    let mut bed = Bed::with_vls(graph("fat-tree-4-2"), 1, 4);
    let host = first_host(&bed.graph);
    bed.start(host, SmConfig::default());
    bed.run_until_up(host);
    for id in bed.graph.ids() {
        for output in bed.ends(id) {
            let input = match bed.node(id).is_switch() {
                true => bed.ends(id)[0].port,
                false => wire::PortNum::MANAGEMENT,
            };
            let row = bed.node(id).sl_to_vl(input, output.port);
            let wanted: [Vl; 16] =
                core::array::from_fn(|sl| Vl::constant(u8::try_from(sl % 4).unwrap()));
            assert_eq!(row, wanted);
            let low = bed
                .node(id)
                .arbitration(output.port, mad::sma::Priority::Low);
            let vls: Vec<u8> = low
                .iter()
                .filter(|entry| entry.weight > 0)
                .map(|entry| entry.vl.get())
                .collect();
            assert_eq!(vls, [0, 1, 2, 3]);
        }
    }
}

#[test]
fn a_host_whose_cable_is_pulled_is_waited_for() {
    let mut bed = Bed::new(graph("star-3"), 1);
    let host = first_host(&bed.graph);
    let cable = bed.ends(host)[0];
    bed.cut(cable);
    bed.start(host, SmConfig::default());
    bed.run_for(3_000_000_000);
    let status = bed.status(host);
    assert_eq!(status.phase, Phase::Discovering);
    assert!(
        status.warnings[0].contains("no link"),
        "{:?}",
        status.warnings
    );
    bed.plug(cable);
    let status = bed.run_until_up(host);
    assert_eq!((status.switches, status.hosts), (1, 3));
}
