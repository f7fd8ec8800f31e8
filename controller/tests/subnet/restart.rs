use controller::control::Phase;
use controller::{ConfigError, Sm, SmConfig};

use crate::bed::{Bed, Change};
use crate::{assert_connected, assert_programmed, entries, first_host, graph, offline, up};

#[test]
fn a_manager_that_is_restarted_changes_nothing() {
    for name in ["fat-tree-4-3", "irregular-8-2-3-7"] {
        for remembers in [true, false] {
            let (mut bed, host) = up(name);
            let guid2lid = bed.persisted(host).filter(|_| remembers);
            bed.stop(host);
            bed.changes();
            let config = SmConfig {
                guid2lid,
                ..SmConfig::default()
            };
            bed.start(host, config);
            let status = bed.run_until(host, |status| status.phase == Phase::Up);
            assert_eq!(status.blocks_written, 0);
            assert_eq!(bed.changes(), [], "{name}, memory: {remembers}");
        }
    }
}

#[test]
fn a_manager_that_starts_on_a_degraded_tree_keeps_labels_and_lids_from_its_file() {
    let (mut bed, host) = up("fat-tree-4-3");
    let guid2lid = bed.persisted(host);
    assert!(guid2lid.is_some());
    let root = bed.id("s0.0.0");
    bed.kill(root);
    bed.run_until_up(host);
    bed.stop(host);
    let held = entries(&bed, offline(&bed.graph).top());
    bed.changes();
    let config = SmConfig {
        guid2lid,
        ..SmConfig::default()
    };
    bed.start(host, config);
    let status = bed.run_until(host, |status| status.phase == Phase::Up);
    assert!(status.engine.starts_with("mlid"), "{}", status.engine);
    assert!(status.degraded);
    assert_eq!(status.lmc, 2);
    assert_eq!(bed.changes(), []);
    assert_eq!(entries(&bed, offline(&bed.graph).top()), held);
    bed.revive(root);
    bed.run_until(host, |status| status.phase == Phase::Up && !status.degraded);
    assert_programmed(&bed, &offline(&bed.graph));
}

#[test]
fn lids_stay_with_their_guids_when_the_fabric_grows() {
    let mut bed = Bed::new(graph("ring-5-2"), 1);
    let host = first_host(&bed.graph);
    let late: Vec<_> = bed.graph.hosts().skip(1).step_by(2).collect();
    for &id in &late {
        bed.kill(id);
    }
    bed.start(host, SmConfig::default());
    bed.run_until_up(host);
    let early: Vec<_> = bed.graph.ids().filter(|id| !late.contains(id)).collect();
    let addresses: Vec<_> = early.iter().map(|&id| bed.address(id)).collect();
    for id in late {
        bed.revive(id);
        bed.run_until_up(host);
    }
    let now: Vec<_> = early.iter().map(|&id| bed.address(id)).collect();
    assert_eq!(addresses, now);
    let hosts: Vec<_> = bed.graph.hosts().collect();
    assert_connected(&bed, &hosts);
}

#[test]
fn what_a_manager_persists_a_manager_reads_and_a_bad_line_is_refused_by_number() {
    let (bed, host) = up("fat-tree-4-2");
    let text = bed.persisted(host).unwrap();
    let config = |text: String| SmConfig {
        guid2lid: Some(text),
        ..SmConfig::default()
    };
    assert!(Sm::new(config(text.clone())).is_ok());
    let damaged = text.replacen("lid 0x", "lid 0y", 1);
    let line = damaged
        .lines()
        .position(|line| line.contains("0y"))
        .unwrap()
        + 1;
    match Sm::new(config(damaged)) {
        Err(ConfigError::GuidFile { line: named, .. }) => assert_eq!(named, line),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_restart_in_the_middle_of_programming_is_finished_by_the_next_manager() {
    let mut bed = Bed::new(graph("fat-tree-4-3"), 3);
    let host = first_host(&bed.graph);
    bed.start(host, SmConfig::default());
    bed.run_until(host, |status| status.phase == Phase::Programming);
    bed.run_for(300_000);
    let written = bed.changes();
    assert!(
        written
            .iter()
            .any(|(_, change)| matches!(change, Change::Block(_)))
    );
    bed.stop(host);
    bed.start(host, SmConfig::default());
    bed.run_until(host, |status| status.phase == Phase::Up);
    assert_programmed(&bed, &offline(&bed.graph));
}

#[test]
fn a_manager_that_starts_on_a_degraded_tree_has_cyclic_multicast_whatever_engine_routes_it() {
    let config = SmConfig {
        routing: routing::RoutingEngine::Updn,
        multicast: routing::multicast::Scheme::Cyclic,
        ..SmConfig::default()
    };
    let mut bed = Bed::new(graph("fat-tree-4-2"), 1);
    let host = first_host(&bed.graph);
    bed.start(host, config.clone());
    bed.run_until_up(host);
    let guid2lid = bed.persisted(host);
    bed.stop(host);
    let root = bed.id("s0.0");
    bed.kill(root);
    bed.start(host, SmConfig { guid2lid, ..config });
    let status = bed.run_until(host, |status| {
        !matches!(
            status.phase,
            Phase::Starting | Phase::Discovering | Phase::Programming
        )
    });
    assert_eq!((status.phase, status.degraded), (Phase::Up, true));
}
