use controller::SmEvent;
use controller::control::Phase;

use crate::bed::Change;
use crate::{arrives, assert_connected, assert_programmed, end, entries, first_host, offline, up};

/// Rerouting is to be far below a second; light sweeps come every ten.
const SOON_NS: u64 = 300_000_000;

#[test]
fn the_loss_of_a_root_moves_only_entries_over_it_and_its_return_brings_all_back() {
    let (mut bed, host) = up("fat-tree-4-3");
    let tables = offline(&bed.graph);
    let before = entries(&bed, tables.top());
    let root = bed.id("s0.1.0");
    bed.changes();
    bed.kill(root);
    let killed = bed.now;
    let status = bed.run_until_up(host);
    assert!(bed.now.since_ns(killed) < SOON_NS, "{:?}", bed.now);
    assert!(status.degraded);
    assert_eq!((status.switches, status.hosts, status.lmc), (19, 16, 2));
    assert_eq!(status.missing, ["s0.1.0"]);
    let hosts: Vec<_> = bed.graph.hosts().collect();
    assert_connected(&bed, &hosts);

    let after = entries(&bed, tables.top());
    let switches: Vec<_> = bed.graph.switches().collect();
    for (switch, (old, new)) in switches.iter().zip(before.iter().zip(&after)) {
        if *switch == root {
            continue;
        }
        for (lid, (old, new)) in old.iter().zip(new).enumerate() {
            let over_root = bed
                .graph
                .peer(topologies::Endpoint {
                    node: *switch,
                    port: *old,
                })
                .is_some_and(|peer| peer.node == root);
            let below_root = over_root || old == new || {
                // Further down an entry moves only if the old way up led to the root.
                let lid = wire::Lid::new(u16::try_from(lid).unwrap());
                leads_over(&bed.graph, &tables, *switch, lid, root)
            };
            assert!(below_root, "{switch:?} moved LID {lid}: {old:?} to {new:?}");
        }
    }
    assert!(
        bed.events_reported.iter().any(|(_, event)| matches!(
            event,
            SmEvent::DeviceLost { name, .. } if name == "s0.1.0"
        )),
        "{:?}",
        bed.events_reported
    );

    bed.revive(root);
    bed.run_until(host, |status| status.phase == Phase::Up && !status.degraded);
    assert_programmed(&bed, &tables);
    assert_connected(&bed, &hosts);
    assert!(bed.events_reported.iter().any(|(_, event)| matches!(
        event,
        SmEvent::DeviceBack { name, .. } if name == "s0.1.0"
    )));
}

#[test]
fn a_returned_root_is_routed_over_only_once_the_ports_to_it_are_active() {
    let (mut bed, host) = up("fat-tree-4-3");
    let root = bed.id("s0.1.0");
    bed.kill(root);
    bed.run_until_up(host);
    bed.changes();
    bed.revive(root);
    bed.run_until(host, |status| status.phase == Phase::Up && !status.degraded);
    let changes = bed.changes();
    let below: Vec<_> = bed
        .ends(root)
        .iter()
        .map(|&end| bed.graph.peer(end).unwrap())
        .collect();
    assert_eq!(below.len(), 4);
    for end in below {
        let own: Vec<_> = changes.iter().filter(|(id, _)| *id == end.node).collect();
        let block = own
            .iter()
            .position(|(_, change)| matches!(change, Change::Block(_)));
        let active = own
            .iter()
            .rposition(|(_, change)| matches!(change, Change::Link(port, _) if *port == end.port));
        let (block, active) = (block.expect("a block"), active.expect("an activation"));
        assert!(active < block, "{:?}: {own:?}", end.node);
    }
}

/// Whether a packet in `switch` went over `via` by the whole fabric's tables.
fn leads_over(
    graph: &topologies::Graph,
    tables: &routing::Tables,
    switch: topologies::NodeId,
    lid: wire::Lid,
    via: topologies::NodeId,
) -> bool {
    let start = topologies::Endpoint {
        node: switch,
        port: wire::PortNum::MANAGEMENT,
    };
    let path = tables.path(graph, start, lid);
    path.hops.iter().any(|hop| hop.node == via)
}

/// The trap of the switch whose way to the manager was the cable itself is lost, and is repeated after a second.
#[test]
fn a_cable_pulled_or_plugged_makes_one_sweep_though_traps_of_it_come_late() {
    let (mut bed, host) = up("fat-tree-4-3");
    let cables: Vec<_> = bed
        .graph
        .links()
        .filter(|(a, b)| bed.node(a.node).is_switch() && bed.node(b.node).is_switch())
        .map(|(a, _)| a)
        .collect();
    let sweeps = |bed: &crate::bed::Bed| {
        let events = bed.events_reported.iter();
        events
            .filter(|(_, event)| matches!(event, SmEvent::SubnetUp(_)))
            .count()
    };
    for cable in cables {
        for change in [crate::bed::Bed::cut, crate::bed::Bed::plug] {
            let before = sweeps(&bed);
            change(&mut bed, cable);
            bed.run_until_up(host);
            bed.run_for(3_000_000_000);
            assert_eq!(sweeps(&bed), before + 1, "{cable:?}");
        }
    }
    assert_programmed(&bed, &offline(&bed.graph));
}

#[test]
fn the_loss_of_a_link_is_routed_around() {
    for name in ["fat-tree-4-3", "irregular-8-2-3-7"] {
        let (mut bed, host) = up(name);
        let cables: Vec<_> = bed
            .graph
            .links()
            .filter(|(a, b)| bed.node(a.node).is_switch() && bed.node(b.node).is_switch())
            .map(|(a, _)| a)
            .collect();
        let hosts: Vec<_> = bed.graph.hosts().collect();
        for cable in cables {
            bed.cut(cable);
            let cut = bed.now;
            bed.run_until_up(host);
            assert!(bed.now.since_ns(cut) < SOON_NS, "{name}");
            assert_connected(&bed, &hosts);
            bed.run_for(100_000_000);
            bed.plug(cable);
            let plugged = bed.now;
            bed.run_until_up(host);
            assert!(bed.now.since_ns(plugged) < SOON_NS, "{name}");
            assert_connected(&bed, &hosts);
            bed.run_for(100_000_000);
        }
        assert!(!bed.status(host).degraded);
        if name.starts_with("fat") {
            assert_programmed(&bed, &offline(&bed.graph));
        }
    }
}

#[test]
fn a_host_that_is_restarted_gets_its_lids_back_and_the_tables_stay() {
    let (mut bed, host) = up("irregular-8-2-3-7");
    let other = bed.graph.hosts().nth(3).unwrap();
    let address = bed.address(other);
    bed.kill(other);
    bed.run_until_up(host);
    assert_eq!(bed.address(other).0.get(), 0);
    bed.changes();
    bed.revive(other);
    bed.run_until_up(host);
    assert_eq!(bed.address(other), address);
    let first = first_host(&bed.graph);
    assert!(arrives(&bed, first, other, address.0));
}

/// The trap of the other end goes to the manager through the broken cable.
#[test]
fn a_cable_whose_loss_one_end_has_not_noticed_holds_no_sweep_up() {
    let (mut bed, host) = up("fat-tree-4-3");
    let broken = end(&bed, "s2.0.0", 3);
    bed.cut_unnoticed_by_the_peer(broken);
    let cut = bed.now;
    let status = bed.run_until(host, |status| status.phase == Phase::Up && status.degraded);
    assert!(bed.now.since_ns(cut) < 1_000_000_000, "{:?}", bed.now);
    assert_eq!((status.switches, status.hosts, status.links), (20, 16, 47));
}

#[test]
fn a_device_that_is_slow_for_a_while_is_not_lost_and_no_table_changes() {
    for name in ["h1.1.0", "s2.1.0", "s0.1.0"] {
        let (mut bed, host) = up("fat-tree-4-3");
        let device = bed.id(name);
        bed.changes();
        bed.events_reported.clear();
        // Nothing comes back from it until most repetitions have gone.
        bed.silence(device, true);
        let now = bed.now;
        bed.manager(host).resweep(now);
        bed.run_for(1_500_000_000);
        bed.silence(device, false);
        let status = bed.run_until_up(host);
        assert!(
            !status.degraded && status.unreachable.is_empty(),
            "{name}: {status:#?}"
        );
        let is_loss = |event: &SmEvent| matches!(event, SmEvent::DeviceLost { .. });
        let lost = bed.events_reported.iter().any(|(_, event)| is_loss(event));
        assert!(!lost, "{name}: {:?}", bed.events_reported);
        assert_eq!(bed.changes(), [], "{name}");
        assert_programmed(&bed, &offline(&bed.graph));
    }
}

#[test]
fn a_switch_that_was_restarted_between_two_sweeps_is_programmed_again() {
    let (mut bed, host) = up("fat-tree-4-3");
    let switch = bed.id("s1.2.1");
    bed.kill(switch);
    bed.revive(switch);
    bed.run_until(host, |status| {
        status.phase == Phase::Up && status.generation > 1
    });
    bed.run_for(1_000_000_000);
    assert_programmed(&bed, &offline(&bed.graph));
    let hosts: Vec<_> = bed.graph.hosts().collect();
    assert_connected(&bed, &hosts);
}

#[test]
fn a_light_sweep_finds_what_no_trap_told() {
    let (mut bed, host) = up("ring-5-2");
    bed.loss_per_mille = 1000;
    bed.cut(end(&bed, "s1", 3));
    bed.run_for(1_000_000);
    bed.loss_per_mille = 0;
    // Traps are repeated after half a second at the earliest; sweeps are every ten.
    let status = bed.run_until_up(host);
    assert!(status.degraded);
    let hosts: Vec<_> = bed.graph.hosts().collect();
    assert_connected(&bed, &hosts);
}

#[test]
fn a_fabric_at_rest_gets_light_sweeps_only() {
    let (mut bed, host) = up("fat-tree-4-3");
    let before = bed.status(host);
    bed.changes();
    bed.run_for(100_000_000_000);
    let after = bed.status(host);
    assert_eq!(after.generation, before.generation);
    assert_eq!(bed.changes(), []);
    let sent = after.smps_sent - before.smps_sent;
    // Ten seconds after the end of one light sweep the next begins: nine in a hundred seconds.
    let light = 20 + 1;
    // Every device, every port with a cable and port 0 of every switch, two LFT blocks of each switch, and
    // the P_Key table of each host.
    let read_back = 36 + (16 + 20 * 4 + 20) + 20 * 2 + 16;
    // The own port is looked at every 200 ms, each fiftieth time as a part of a light sweep.
    let glances = 10 * 49;
    assert_eq!(sent, 9 * (light + read_back) + glances, "each time");
}

#[test]
fn a_switch_that_dies_while_it_is_programmed_does_not_hold_up_the_others() {
    let (mut bed, host) = up("fat-tree-8-2");
    bed.cut(end(&bed, "s0.1", 1));
    bed.run_until(host, |status| status.phase == Phase::Programming);
    let root = bed.id("s0.2");
    bed.kill(root);
    let killed = bed.now;
    bed.run_until(host, |status| {
        status.phase == Phase::Up && status.switches == 11
    });
    assert!(bed.now.since_ns(killed) < SOON_NS);
    let hosts: Vec<_> = bed.graph.hosts().collect();
    assert_connected(&bed, &hosts);
}

#[test]
fn no_port_ever_leaves_active_by_the_managers_doing() {
    let (mut bed, host) = up("fat-tree-4-3");
    bed.changes();
    bed.kill(bed.id("s1.0.0"));
    bed.run_until_up(host);
    for (id, change) in bed.changes() {
        assert!(
            !matches!(change, Change::Link(..)),
            "{}: {change:?}",
            bed.graph.node(id).name
        );
    }
}

#[test]
fn the_managers_own_host_may_be_restarted() {
    let (mut bed, host) = up("fat-tree-4-3");
    let address = bed.address(host);
    bed.kill(host);
    bed.run_for(10_000_000);
    bed.revive(host);
    bed.reconnect(host);
    let revived = bed.now;
    bed.run_until_up(host);
    assert!(bed.now.since_ns(revived) < SOON_NS);
    assert_eq!(bed.address(host), address);
    assert_programmed(&bed, &offline(&bed.graph));
}

#[test]
fn a_cable_in_the_wrong_place_is_left_unused_and_the_tree_keeps_its_lids() {
    let (mut bed, host) = up("fat-tree-4-3");
    let tables = offline(&bed.graph);
    // The up links of two leaf switches of different halves, joined to each other.
    let (one, other) = (end(&bed, "s2.0.0", 3), end(&bed, "s2.3.1", 4));
    for cable in [one, other] {
        bed.cut(cable);
        bed.graph.disconnect(cable);
    }
    bed.graph.connect(one, other).unwrap();
    bed.plug(one);
    let status = bed.run_until(host, |status| {
        status.phase == Phase::Up && status.links == 47
    });
    bed.run_for(SOON_NS);
    assert!(status.engine.starts_with("mlid"), "{}", status.engine);
    assert!(
        status
            .warnings
            .iter()
            .any(|text| text.contains("does not belong into the fat tree")),
        "{:?}",
        status.warnings
    );
    for range in tables.lids.iter() {
        let end = range.end.unwrap();
        assert_eq!(bed.address(end.node), (range.base, range.lmc));
    }
    let hosts: Vec<_> = bed.graph.hosts().collect();
    assert_connected(&bed, &hosts);
}

#[test]
fn what_is_left_of_a_star_and_happens_to_be_a_fat_tree_keeps_its_lids() {
    // Five hosts at one switch are no fat tree, four are.
    let (mut bed, host) = up("star-5");
    let hosts: Vec<_> = bed.graph.hosts().collect();
    let before: Vec<_> = hosts.iter().map(|&id| bed.address(id)).collect();
    let taken = bed.status(host).engine;
    let lost = *hosts.last().unwrap();
    bed.kill(lost);
    let status = bed.run_until(host, |status| status.phase == Phase::Up && status.degraded);
    assert_eq!(status.engine, taken);
    let left = &hosts[..hosts.len() - 1];
    let after: Vec<_> = left.iter().map(|&id| bed.address(id)).collect();
    assert_eq!(after, before[..left.len()]);
    assert_connected(&bed, left);
}

#[test]
fn a_clos_fabric_that_loses_a_spine_keeps_its_lids() {
    let mut bed = crate::bed::Bed::new(crate::graph("clos-3-1-3"), 1);
    let host = first_host(&bed.graph);
    let config = controller::SmConfig {
        routing: routing::RoutingEngine::Clos,
        ..controller::SmConfig::default()
    };
    bed.start(host, config);
    bed.run_until_up(host);
    let hosts: Vec<_> = bed.graph.hosts().collect();
    let before: Vec<_> = hosts.iter().map(|&id| bed.address(id)).collect();
    let spine = bed.graph.switches().last().unwrap();
    bed.kill(spine);
    let status = bed.run_until(host, |status| status.phase == Phase::Up && status.degraded);
    assert!(status.engine.starts_with("updn"), "{}", status.engine);
    let after: Vec<_> = hosts.iter().map(|&id| bed.address(id)).collect();
    assert_eq!(after, before);
    assert_connected(&bed, &hosts);
}
