//! Hosts that make up switches: two with cables to each other, or a fabric without end.

use controller::control::Phase;
use controller::{SmConfig, SmEvent};
use routing::RoutingEngine;
use routing::multicast::Scheme;
use topologies::NodeId;
use wire::attr::{Attribute, NodeInfo, NodeType, PortInfo, PortPhysState, PortState, SwitchInfo};
use wire::{Guid, Mad, MadStatus, PortNum};

use crate::bed::{Bed, Lie};
use crate::lies::{RETRIED_NS, assert_healed, others};
use crate::{assert_connected, assert_programmed, entries, first_host, graph, offline};

/// Answers as two switches with two cables between them, the first of which has the host's cable in its port 1. Their
/// GUIDs are `guids`.
pub(crate) fn two_switches(mad: &mut Mad, guids: [u64; 2]) {
    let (at, end) = (mad.hop_pointer().into(), usize::from(mad.hop_count()));
    // A port of one is joined to a port of the other: 2 to 1, and 3 to 2.
    let mut place = Some((0, 1));
    for &exit in mad.initial_path()[at..=end].iter().skip(1) {
        place = match (place, exit) {
            (Some((0, _)), exit @ 2..=3) => Some((1, exit - 1)),
            (Some((1, _)), exit @ 1..=2) => Some((0, exit + 1)),
            _ => None,
        };
    }
    let Some((switch, entry)) = place else {
        return mad.set_status(MadStatus::BAD_FIELD);
    };
    let guid = Guid(guids[switch]);
    let ports = if switch == 0 { 3 } else { 2 };
    match mad.attr_id() {
        NodeInfo::ID => mad.set_smp_attribute(&NodeInfo {
            base_version: 1,
            class_version: 1,
            node_type: NodeType::Switch,
            num_ports: ports,
            system_image_guid: guid,
            node_guid: guid,
            port_guid: guid,
            partition_cap: 32,
            device_id: 0,
            revision: 0,
            local_port_num: PortNum::new(entry),
            vendor_id: 0,
        }),
        PortInfo::ID => mad.set_smp_attribute(&PortInfo {
            port_state: PortState::Active,
            port_phys_state: PortPhysState::LinkUp,
            local_port_num: PortNum::new(entry),
            ..PortInfo::default()
        }),
        SwitchInfo::ID => {
            let mut data = [0; 64];
            data[..2].copy_from_slice(&0xc000u16.to_be_bytes());
            *mad.smp_data_mut() = data;
        }
        _ => {}
    }
    mad.set_status(MadStatus::OK);
}

/// The entries of all hosts but the liar are as they were.
fn assert_unchanged(bed: &Bed, before: &[Vec<PortNum>], liar: NodeId) {
    let after = entries(bed, offline(&bed.graph).top());
    for other in others(bed, liar) {
        let (base, lmc) = bed.address(other);
        let lids = base.index()..base.index() + usize::from(lmc.lids());
        for (old, new) in before.iter().zip(&after) {
            assert_eq!(old[lids.clone()], new[lids.clone()], "{lids:?}");
        }
    }
}

#[test]
fn made_up_switches_do_not_make_others_lose_what_is_missing() {
    // Unknown ones, and such that one has the GUID of the switch that is away.
    for claims_the_missing in [false, true] {
        let mut bed = Bed::new(graph("fat-tree-4-3"), 1);
        let host = first_host(&bed.graph);
        bed.start(host, SmConfig::default());
        bed.run_until_up(host);
        let (root, liar) = (bed.id("s0.0.0"), bed.id("h3.1.1"));
        let missing = bed.graph.node(root).guid.0;
        bed.kill(root);
        bed.run_until(host, |status| {
            status.phase == Phase::Up && status.missing.len() == 1
        });
        let before = entries(&bed, offline(&bed.graph).top());
        let second = if claims_the_missing { missing } else { 0xbad1 };
        let lie = move |mad: &mut Mad| two_switches(mad, [0xbad0, second]);
        bed.pretend = Some((liar, Box::new(lie)));
        let now = bed.now;
        bed.manager(host).resweep(now);
        bed.run_until_up(host);
        let status = bed.status(host);
        let seen = status.switches as usize;
        assert_eq!(seen, bed.graph.switches().count() + 1, "{status:?}");
        assert!(status.degraded);
        assert_unchanged(&bed, &before, liar);
        // What is remembered is the fabric with the root that is away.
        bed.pretend = None;
        let now = bed.now;
        bed.manager(host).resweep(now);
        bed.run_for(RETRIED_NS);
        let status = bed.status(host);
        assert_eq!(status.missing, ["s0.0.0"]);
        assert!(status.engine.starts_with("mlid"), "{}", status.engine);
        assert_unchanged(&bed, &before, liar);
        bed.revive(root);
        bed.run_for(RETRIED_NS);
        bed.run_until(host, |status| status.phase == Phase::Up && !status.degraded);
        assert_programmed(&bed, &offline(&bed.graph));
    }
}

/// What was persisted last.
fn persisted(bed: &Bed) -> Option<String> {
    let mut events = bed.events_reported.iter().rev();
    events.find_map(|(_, event)| match event {
        SmEvent::Persist(text) => Some(text.clone()),
        _ => None,
    })
}

/// What is remembered is the whole fabric, with the liar where its cable leads to, for a manager that is started now, too.
fn assert_remembered(bed: &mut Bed, host: NodeId, missing: &[&str], engine: &str) {
    for is_restarted in [false, true] {
        if is_restarted {
            let guid2lid = persisted(bed);
            bed.stop(host);
            let config = SmConfig {
                guid2lid,
                ..SmConfig::default()
            };
            bed.start(host, config);
            bed.run_until_up(host);
        }
        bed.run_for(RETRIED_NS);
        let status = bed.status(host);
        assert_eq!(status.phase, Phase::Up);
        assert_eq!(status.missing, missing, "restarted: {is_restarted}");
        assert_eq!(status.degraded, !missing.is_empty());
        assert!(status.engine.starts_with(engine), "{}", status.engine);
    }
}

#[test]
fn made_up_switches_are_not_remembered_while_nothing_is_missing() {
    // Of unknown GUIDs, or the host's own; from before the manager starts, or from when all is up.
    for has_own_guid in [false, true] {
        for is_early in [true, false] {
            let mut bed = Bed::new(graph("fat-tree-4-2"), 1);
            let host = first_host(&bed.graph);
            let liar = bed.id("h3.1");
            let own = bed.graph.node(liar).guid.0;
            let first = if has_own_guid { own } else { 0xbad0 };
            let lie = move |mad: &mut Mad| two_switches(mad, [first, 0xbad1]);
            if is_early {
                bed.pretend = Some((liar, Box::new(lie)));
                bed.start(host, SmConfig::default());
                bed.run_until_up(host);
            } else {
                bed.start(host, SmConfig::default());
                bed.run_until_up(host);
                bed.run_for(RETRIED_NS);
                let before = entries(&bed, offline(&bed.graph).top());
                bed.pretend = Some((liar, Box::new(lie)));
                let now = bed.now;
                bed.manager(host).resweep(now);
                bed.run_until_up(host);
                assert_unchanged(&bed, &before, liar);
                // They are part of the fabric as long as they are there.
                let status = bed.status(host);
                let switches = bed.graph.switches().count() + 2;
                assert_eq!(status.switches as usize, switches, "{status:?}");
                assert_eq!(status.degraded, !has_own_guid);
                assert_eq!(status.missing.is_empty(), has_own_guid, "{status:?}");
                // The liar is gone, and with it what it has made up.
                bed.pretend = None;
                bed.kill(liar);
                bed.run_for(RETRIED_NS);
                assert_remembered(&mut bed, host, &["h3.1"], "mlid");
                bed.revive(liar);
            }
            bed.pretend = None;
            let now = bed.now;
            bed.manager(host).resweep(now);
            bed.run_for(RETRIED_NS);
            // What `auto` takes for a fabric that comes up stays.
            let engine = if is_early { "" } else { "mlid" };
            assert_remembered(&mut bed, host, &[], engine);
            assert_connected(&bed, &bed.graph.hosts().collect::<Vec<_>>());
            if !is_early {
                assert_programmed(&bed, &offline(&bed.graph));
            }
        }
    }
}

#[test]
fn made_up_switches_leave_a_fat_tree_its_engine_and_its_trees() {
    for routing in [RoutingEngine::Slid, RoutingEngine::Updn] {
        let config = SmConfig {
            routing,
            multicast: Scheme::Cyclic,
            ..SmConfig::default()
        };
        let mut bed = Bed::new(graph("fat-tree-4-2"), 1);
        let host = first_host(&bed.graph);
        let liar = bed.id("h3.1");
        bed.start(host, config.clone());
        bed.run_until_up(host);
        bed.run_for(RETRIED_NS);
        let lie = |mad: &mut Mad| two_switches(mad, [0xbad0, 0xbad1]);
        bed.pretend = Some((liar, Box::new(lie)));
        let now = bed.now;
        bed.manager(host).resweep(now);
        bed.run_until_up(host);
        assert_connected(&bed, &others(&bed, liar));
        // A manager that is started now knows them from the file only.
        let guid2lid = persisted(&bed);
        bed.stop(host);
        bed.start(host, SmConfig { guid2lid, ..config });
        let status = bed.run_until_up(host);
        let switches = bed.graph.switches().count() + 2;
        assert_eq!(status.switches as usize, switches, "{status:?}");
        assert_connected(&bed, &others(&bed, liar));
    }
}

#[test]
fn a_new_switch_is_remembered_unless_a_host_was_in_its_place() {
    // s0 has a free port: a host's, which is away from the start, or which was seen.
    for was_seen in [false, true] {
        let mut bed = Bed::new(graph("ring-4-2"), 1);
        let host = first_host(&bed.graph);
        let place = bed.id("h5");
        if !was_seen {
            bed.kill(place);
        }
        bed.start(host, SmConfig::default());
        bed.run_until_up(host);
        bed.run_for(RETRIED_NS);
        if !was_seen {
            bed.revive(place);
        }
        let lie = |mad: &mut Mad| two_switches(mad, [0xbad0, 0xbad1]);
        bed.pretend = Some((place, Box::new(lie)));
        let now = bed.now;
        bed.manager(host).resweep(now);
        bed.run_until_up(host);
        bed.run_for(RETRIED_NS);
        assert_eq!(bed.status(host).switches, 6, "it is taken up");
        bed.pretend = None;
        bed.kill(place);
        bed.run_for(RETRIED_NS);
        let status = bed.status(host);
        let lost = if was_seen { 1 } else { 2 };
        assert_eq!(status.missing.len(), lost, "{status:?}");
        assert_eq!(status.missing.contains(&"h5".to_owned()), was_seen);
    }
}

/// Answers as a fabric without end: each port of each device leads to another switch of 254 ports.
fn endless(mad: &mut Mad) {
    let (at, end) = (mad.hop_pointer().into(), usize::from(mad.hop_count()));
    let path = &mad.initial_path()[at..=end];
    // Paths differ by their exit ports behind the host.
    let guid = path.iter().skip(1).fold(0xbad, |guid: u64, &port| {
        guid.wrapping_mul(1_000_003).wrapping_add(port.into())
    });
    match mad.attr_id() {
        NodeInfo::ID => mad.set_smp_attribute(&NodeInfo {
            base_version: 1,
            class_version: 1,
            node_type: NodeType::Switch,
            num_ports: 254,
            system_image_guid: Guid(guid),
            node_guid: Guid(guid),
            port_guid: Guid(guid),
            partition_cap: 32,
            device_id: 0,
            revision: 0,
            local_port_num: PortNum::new(1),
            vendor_id: 0,
        }),
        PortInfo::ID => mad.set_smp_attribute(&PortInfo {
            port_state: PortState::Init,
            port_phys_state: PortPhysState::LinkUp,
            ..PortInfo::default()
        }),
        SwitchInfo::ID => {
            let mut data = [0; 64];
            data[..2].copy_from_slice(&0xc000u16.to_be_bytes());
            *mad.smp_data_mut() = data;
        }
        _ => {}
    }
    mad.set_status(MadStatus::OK);
}

#[test]
fn a_host_that_fakes_a_fabric_without_end_is_given_up_after_a_bounded_number_of_requests() {
    // From before the manager starts, and when all is up.
    for is_early in [true, false] {
        let mut bed = Bed::new(graph("fat-tree-4-2"), 1);
        let host = first_host(&bed.graph);
        let liar = bed.id("h2.1");
        let lie: Lie = Box::new(endless);
        if is_early {
            bed.pretend = Some((liar, lie));
            bed.start(host, SmConfig::default());
        } else {
            bed.start(host, SmConfig::default());
            bed.run_until_up(host);
            bed.pretend = Some((liar, lie));
            let now = bed.now;
            bed.manager(host).resweep(now);
        }
        let status = bed.run_until_up(host);
        assert!(status.smps_sent < 40_000, "{}", status.smps_sent);
        assert_eq!((status.switches, status.hosts, status.links), (6, 7, 15));
        let told = |text: &&String| text.contains("fabric without end");
        assert_eq!(
            status.warnings.iter().filter(told).count(),
            1,
            "{:?}",
            status.warnings
        );
        assert_eq!(status.unreachable.len(), 1);
        assert_connected(&bed, &others(&bed, liar));
        // It is looked at again, and less is spent on it.
        bed.run_for(30_000_000_000);
        let again = bed.status(host);
        let sweeps = again.generation - status.generation;
        assert!(sweeps > 0);
        let spent = (again.smps_sent - status.smps_sent) / sweeps;
        assert!(spent < 4_000, "{spent} requests a sweep");
        bed.pretend = None;
        assert_healed(bed, host, liar);
    }
}
