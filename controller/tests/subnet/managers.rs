use controller::SmConfig;
use controller::control::Phase;
use mad::local::{FromAgent, ToAgent};
use topologies::NodeId;
use wire::attr::{Notice, PortInfo, SmInfo, SmState, Trap144, capability};
use wire::mad::{AttributeId, Mad, MadStatus, Method};
use wire::{Lid, PortNum, Qpn, Sl};

use crate::bed::{Bed, Change};
use crate::{assert_connected, assert_programmed, end, entries, graph, offline, up};

fn with_priority(priority: u8) -> SmConfig {
    SmConfig {
        priority,
        ..SmConfig::default()
    }
}

/// A fabric, the host of a manager that stands by, and the host of the master.
fn master_and_standby() -> (Bed, NodeId, NodeId) {
    let mut bed = Bed::new(graph("fat-tree-4-2"), 1);
    let (low, high) = (bed.id("h0.0"), bed.id("h3.1"));
    bed.start(high, with_priority(9));
    bed.run_until_up(high);
    bed.start(low, with_priority(3));
    bed.run_until(low, |status| matches!(status.phase, Phase::Standby { .. }));
    (bed, low, high)
}

#[test]
fn of_two_managers_the_one_of_higher_priority_is_master_and_the_other_takes_over() {
    let mut bed = Bed::new(graph("fat-tree-4-2"), 1);
    let (low, high) = (bed.id("h0.0"), bed.id("h3.1"));
    bed.start(low, with_priority(3));
    bed.start(high, with_priority(9));
    bed.run_until(high, |status| status.phase == Phase::Up);
    let master = bed.graph.node(high).guid.0 + 1;
    let status = bed.run_until(low, |status| matches!(status.phase, Phase::Standby { .. }));
    assert_eq!(
        status.phase,
        Phase::Standby {
            master: wire::Guid(master)
        }
    );
    assert!(
        status.warnings[0].contains("standing by"),
        "{:?}",
        status.warnings
    );
    assert_programmed(&bed, &offline(&bed.graph));
    bed.run_for(20_000_000_000);
    assert_eq!(bed.status(high).phase, Phase::Up);
    assert!(matches!(bed.status(low).phase, Phase::Standby { .. }));

    bed.stop(high);
    bed.kill(high);
    bed.run_until(low, |status| status.phase == Phase::Up);
    let rest: Vec<_> = bed.graph.hosts().filter(|&id| id != high).collect();
    assert_connected(&bed, &rest);
}

#[test]
fn a_better_manager_that_comes_later_takes_the_subnet_over() {
    let mut bed = Bed::new(graph("fat-tree-4-2"), 1);
    let (low, high) = (bed.id("h0.0"), bed.id("h3.1"));
    bed.start(low, with_priority(3));
    bed.run_until_up(low);
    bed.start(high, with_priority(9));
    bed.run_until(high, |status| status.phase == Phase::Up);
    bed.run_until(low, |status| matches!(status.phase, Phase::Standby { .. }));
    bed.run_for(20_000_000_000);
    assert_eq!(bed.status(high).phase, Phase::Up);
}

/// Whether a change is more than settings of a port: a table or the state of a link.
fn is_disturbing(change: &Change) -> bool {
    !matches!(change, Change::Port(..))
}

#[test]
fn a_handover_moves_no_lid_and_no_table() {
    let mut bed = Bed::new(graph("fat-tree-4-3"), 1);
    let (low, high) = (bed.id("h0.0.0"), bed.id("h1.1.1"));
    bed.start(low, with_priority(3));
    bed.run_until_up(low);
    bed.changes();
    bed.start(high, with_priority(9));
    bed.run_until(high, |status| status.phase == Phase::Up);
    let disturbing: Vec<_> = bed
        .changes()
        .into_iter()
        .filter(|(_, change)| is_disturbing(change))
        .collect();
    assert_eq!(disturbing, []);
    assert_programmed(&bed, &offline(&bed.graph));
    let master = bed.address(high).0;
    let hosts: Vec<_> = bed.graph.hosts().collect();
    for host in hosts {
        assert_eq!(bed.get::<PortInfo>(host, 1).master_sm_lid, master);
    }
}

#[test]
fn a_master_makes_ports_active_before_it_hands_over_and_hands_over_all_the_same() {
    let mut bed = Bed::new(graph("fat-tree-4-2"), 1);
    let (low, high, away) = (bed.id("h0.0"), bed.id("h3.1"), bed.id("h2.0"));
    bed.start(low, with_priority(3));
    bed.run_until_up(low);
    // It does not run while a cable is plugged anew and a better manager is started.
    bed.halt(low);
    bed.kill(away);
    bed.run_for(1_000_000);
    bed.revive(away);
    bed.start(high, with_priority(9));
    bed.run_for(50_000_000);
    bed.proceed(low);
    let is_active = |bed: &Bed| bed.node(away).state(PortNum::new(1)) == link::PortState::Active;
    while !is_active(&bed) {
        bed.run_for(100_000);
        assert_ne!(bed.status(high).phase, Phase::Up);
        let phase = bed.status(low).phase;
        assert!(
            !matches!(phase, Phase::Standby { .. }),
            "handed over too soon"
        );
    }
    bed.run_until(high, |status| status.phase == Phase::Up);
    bed.run_until(low, |status| matches!(status.phase, Phase::Standby { .. }));
    assert_programmed(&bed, &offline(&bed.graph));
}

#[test]
fn a_manager_that_takes_over_makes_hosts_ports_active_before_it_reads_tables() {
    let (mut bed, low, high) = master_and_standby();
    let host = bed.id("h2.0");
    bed.stop(high);
    bed.kill(high);
    // Its cable is plugged anew while no manager is there.
    let end = bed.ends(host)[0];
    bed.cut(end);
    bed.plug(end);
    let port = PortNum::new(1);
    assert_ne!(bed.node(host).state(port), link::PortState::Active);
    while bed.node(host).state(port) != link::PortState::Active {
        bed.run_for(10_000);
    }
    let sent = bed.status(low).smps_sent;
    bed.run_until(low, |status| status.phase == Phase::Up);
    let tables = bed.graph.switches().count() as u64;
    let later = bed.status(low).smps_sent - sent;
    assert!(later >= tables, "{later} requests after that");
    let rest: Vec<_> = bed.graph.hosts().filter(|&id| id != high).collect();
    assert_connected(&bed, &rest);
}

#[test]
fn a_manager_in_standby_writes_nothing() {
    let (mut bed, _) = up("fat-tree-4-2");
    bed.changes();
    let other = bed.id("h3.1");
    bed.start(other, with_priority(3));
    bed.run_until(other, |status| {
        matches!(status.phase, Phase::Standby { .. })
    });
    bed.run_for(25_000_000_000);
    assert_eq!(bed.changes(), []);
    assert!(matches!(bed.status(other).phase, Phase::Standby { .. }));
    bed.manager(other).resweep(link::Time(0));
    bed.run_for(1_000_000_000);
    assert_eq!(bed.changes(), []);
}

#[test]
fn when_the_master_ends_the_next_one_takes_over_within_two_seconds_and_moves_nothing() {
    for dies_with_its_host in [false, true] {
        let mut bed = Bed::new(graph("fat-tree-4-3"), 1);
        let hosts: Vec<_> = ["h0.0.0", "h2.0.1", "h1.1.1"]
            .map(|name| bed.id(name))
            .into();
        for (&host, priority) in hosts.iter().zip([3, 6, 9]) {
            bed.start(host, with_priority(priority));
        }
        bed.run_until(hosts[2], |status| status.phase == Phase::Up);
        for &host in &hosts[..2] {
            bed.run_until(host, |status| matches!(status.phase, Phase::Standby { .. }));
        }
        let (gone, _) = bed.address(hosts[2]);
        let top = offline(&bed.graph).top();
        // LIDs of all others, and where switches send packets to them.
        let state = |bed: &Bed| {
            let others = bed.graph.ids().filter(|&id| id != hosts[2]);
            let lids: Vec<_> = others.map(|id| bed.address(id)).collect();
            let mut tables = entries(bed, top);
            for table in &mut tables {
                for lid in gone.get()..gone.get() + 4 {
                    table[usize::from(lid)] = PortNum::NONE;
                }
            }
            (lids, tables)
        };
        let before = state(&bed);
        bed.changes();
        let died = bed.now;
        bed.stop(hosts[2]);
        if dies_with_its_host {
            bed.kill(hosts[2]);
        }
        bed.run_until(hosts[1], |status| status.phase == Phase::Up);
        let took_ns = bed.now.since_ns(died);
        assert!(took_ns < 2_000_000_000, "{took_ns} ns");
        assert!(state(&bed) == before, "LIDs and tables stay");
        let disturbing: Vec<_> = bed
            .changes()
            .into_iter()
            .filter(|(_, change)| is_disturbing(change))
            .collect();
        if dies_with_its_host {
            let is_block = |(_, change): &(NodeId, Change)| matches!(change, Change::Block(_));
            assert!(disturbing.iter().all(is_block), "{disturbing:?}");
        } else {
            assert_eq!(disturbing, []);
        }
        let guid = bed.graph.node(hosts[1]).guid.0 + 1;
        let expected = Phase::Standby {
            master: wire::Guid(guid),
        };
        bed.run_until(hosts[0], |status| status.phase == expected);
    }
}

#[test]
fn a_master_that_hangs_holds_up_the_one_that_takes_over_by_its_polls_and_one_request() {
    let (mut bed, standby, master) = master_and_standby();
    let hung_at = bed.now;
    // Its host still says that there is a manager.
    drop(bed.hang(master));
    bed.run_until(standby, |status| status.phase == Phase::Up);
    let took_ns = bed.now.since_ns(hung_at);
    let config = SmConfig::default();
    let polls_ns = config.poll_interval_ns + 3 * config.timeout_ns;
    let limit_ns = polls_ns + config.timeout_ns + 100_000_000;
    assert!(took_ns < limit_ns, "{took_ns} ns");
}

/// Sends Set(SMInfo) to a manager, as the manager beside `from` would that is master, and returns the
/// status of the answer.
fn command(bed: &mut Bed, from: NodeId, to: NodeId, modifier: u32) -> MadStatus {
    let shown = SmInfo {
        guid: wire::Guid(bed.graph.node(from).guid.0 + 1),
        sm_key: 1,
        act_count: 1,
        priority: 15,
        state: SmState::Master,
    };
    let mut mad = Mad::lid_smp(Method::SET, AttributeId::SM_INFO, modifier, 5);
    mad.set_smp_attribute(&shown);
    let message = mad::local::MadMessage {
        lid: bed.address(to).0,
        qpn: Qpn::SMI,
        sl: Sl::default(),
        mad: Box::new(*mad.as_bytes()),
        way: None,
    };
    bed.write(from, &message);
    bed.run_for(1_000_000);
    let (_, answer) = bed.received.pop().expect("an answer has come");
    Mad::from_bytes(*answer.mad).status()
}

#[test]
fn a_disabled_manager_rests_until_it_is_told_to_stand_by() {
    const DISABLE: u32 = 3;
    const STANDBY: u32 = 4;
    const DISCOVER: u32 = 5;
    let (mut bed, master) = up("fat-tree-4-2");
    let (standby, other) = (bed.id("h3.1"), bed.id("h1.0"));
    bed.start(standby, with_priority(3));
    bed.run_until(standby, |status| {
        matches!(status.phase, Phase::Standby { .. })
    });
    bed.received.clear();
    assert_eq!(
        command(&mut bed, other, master, DISABLE),
        MadStatus::BAD_FIELD
    );
    assert_eq!(command(&mut bed, other, standby, DISABLE), MadStatus::OK);
    assert_eq!(bed.status(standby).phase, Phase::NotActive);
    assert_eq!(
        command(&mut bed, other, standby, DISCOVER),
        MadStatus::BAD_FIELD
    );
    // It does not even notice that the master is gone.
    bed.stop(master);
    bed.run_for(10_000_000_000);
    assert_eq!(bed.status(standby).phase, Phase::NotActive);
    assert_eq!(command(&mut bed, other, standby, STANDBY), MadStatus::OK);
    bed.run_until(standby, |status| status.phase == Phase::Up);
}

#[test]
fn in_standby_only_the_masters_own_trap_is_repressed() {
    let (mut bed, master) = up("fat-tree-4-2");
    let (standby, other) = (bed.id("h3.1"), bed.id("h1.0"));
    bed.start(standby, with_priority(3));
    bed.run_until(standby, |status| {
        matches!(status.phase, Phase::Standby { .. })
    });
    let now = bed.now;
    let mut manager = bed.hang(standby);
    // As OpenSM does on entering standby: to what was master when the trap was sent.
    for (from, is_repressed) in [(master, true), (other, false)] {
        let lid = bed.address(from).0;
        let change = Trap144 {
            lid,
            other_local_changes: false,
            capability_mask: capability::IS_SM,
            change_flags: 0,
        };
        let notice = Notice::local_change(Notice::PRODUCER_CHANNEL_ADAPTER, change);
        let mut trap = Mad::lid_smp(Method::TRAP, AttributeId::NOTICE, 0, 5);
        trap.set_smp_attribute(&notice);
        let message = |mad: &Mad| mad::local::MadMessage {
            lid,
            qpn: Qpn::SMI,
            sl: Sl::default(),
            mad: Box::new(*mad.as_bytes()),
            way: None,
        };
        manager.handle(now, FromAgent::Received(message(&trap)));
        trap.set_method(Method::TRAP_REPRESS);
        let expected = is_repressed.then(|| ToAgent::Send(message(&trap)));
        assert_eq!(manager.poll_transmit(), expected);
    }
}

#[test]
fn a_manager_with_another_key_is_told_of_and_left_alone() {
    let (mut bed, host) = up("fat-tree-4-2");
    let other = bed.id("h3.1");
    let config = SmConfig {
        sm_key: 2,
        ..with_priority(9)
    };
    bed.start(other, config);
    let status = bed.run_until(other, |status| status.phase == Phase::Up);
    let told = |text: &String| text.contains("h0.0 shows another SM_Key");
    assert!(status.warnings.iter().any(told), "{:?}", status.warnings);
    assert_eq!(bed.status(host).priority, 8);
}

#[test]
fn when_two_subnets_are_joined_the_lesser_master_hands_over() {
    let mut bed = Bed::new(graph("ring-6-1"), 1);
    let (low, high) = (bed.id("h0"), bed.id("h3"));
    let joints: Vec<_> = bed
        .graph
        .links()
        .map(|(a, _)| a)
        .filter(|&a| {
            let mut names =
                [a, bed.graph.peer(a).unwrap()].map(|end| bed.graph.node(end.node).name.clone());
            names.sort();
            [["s1", "s2"], ["s4", "s5"]]
                .iter()
                .any(|pair| names == *pair)
        })
        .collect();
    assert_eq!(joints.len(), 2);
    for &joint in &joints {
        bed.cut(joint);
    }
    bed.start(low, with_priority(3));
    bed.start(high, with_priority(9));
    for host in [low, high] {
        let status = bed.run_until(host, |status| status.phase == Phase::Up);
        assert_eq!((status.switches, status.hosts), (3, 3));
    }
    for &joint in &joints {
        bed.plug(joint);
    }
    bed.run_until(high, |status| {
        status.phase == Phase::Up && status.hosts == 6
    });
    bed.run_until(low, |status| matches!(status.phase, Phase::Standby { .. }));
    let hosts: Vec<_> = bed.graph.hosts().collect();
    bed.run_until(high, |status| {
        status.phase == Phase::Up && status.active_ports == 24
    });
    assert_connected(&bed, &hosts);
}

#[test]
fn a_master_that_loses_its_link_finds_the_new_master_when_it_is_back() {
    let (mut bed, low, high) = master_and_standby();
    let cable = end(&bed, "h3.1", 1);
    bed.cut(cable);
    bed.run_until(low, |status| status.phase == Phase::Up);
    bed.run_until(high, |status| status.phase == Phase::Discovering);
    bed.plug(cable);
    bed.run_until(high, |status| status.phase == Phase::Up);
    bed.run_until(low, |status| matches!(status.phase, Phase::Standby { .. }));
    assert_programmed(&bed, &offline(&bed.graph));
}

#[test]
fn a_master_whose_host_was_away_undoes_what_the_next_master_has_written() {
    for next_lives in [false, true] {
        let (mut bed, low, high) = master_and_standby();
        // The host is restarted, and its manager waits for it.
        let sm = bed.stop(high);
        bed.kill(high);
        bed.run_until(low, |status| status.phase == Phase::Up && status.degraded);
        if !next_lives {
            // The next master is gone as well, so that what it has written is not announced.
            bed.stop(low);
        }
        bed.revive(high);
        bed.resume(high, sm, true);
        let before = bed.status(high).generation;
        bed.run_until(high, |status| {
            status.phase == Phase::Up && status.generation > before
        });
        assert_programmed(&bed, &offline(&bed.graph));
    }
}

#[test]
fn a_master_that_did_not_run_for_a_while_undoes_what_the_next_master_has_written() {
    let (mut bed, low, high) = master_and_standby();
    let sm = bed.hang(high);
    let (root, hung_at) = (bed.id("s0.0"), bed.now);
    bed.kill(root);
    bed.run_until(low, |status| status.phase == Phase::Up && status.degraded);
    // Three polls and three requests of the discovery, 200 ms each, up to 200 ms before the first.
    let took_ns = bed.now.since_ns(hung_at);
    assert!(took_ns < 1_600_000_000, "{took_ns} ns");
    bed.revive(root);
    bed.resume(high, sm, false);
    bed.run_until(low, |status| matches!(status.phase, Phase::Standby { .. }));
    bed.run_until(high, |status| status.phase == Phase::Up && !status.degraded);
    assert_programmed(&bed, &offline(&bed.graph));
}

#[test]
fn an_sminfo_request_is_answered_by_lid_and_by_directed_route() {
    let (mut bed, host) = up("fat-tree-4-2");
    let asker = bed.id("h1.0");
    let (lid, _) = bed.address(host);
    let lid_routed = Mad::lid_smp(Method::GET, AttributeId::SM_INFO, 0, 5);
    let route = [1, 3, 1, 1].map(PortNum::new);
    // From h1.0 up to a root, and down to the leaf and first host of the other half.
    assert_eq!(
        bed.graph.peer(end(&bed, "h1.0", 1)).unwrap().node,
        bed.id("s1.1")
    );
    let directed = Mad::directed_smp(Method::GET, AttributeId::SM_INFO, 0, 6, &route).unwrap();
    for (mad, to) in [(lid_routed, lid), (directed, Lid::PERMISSIVE)] {
        bed.write(
            asker,
            &mad::local::MadMessage {
                lid: to,
                qpn: Qpn::SMI,
                sl: Sl::default(),
                mad: Box::new(*mad.as_bytes()),
                way: None,
            },
        );
        bed.run_for(1_000_000);
        let (_, answer) = bed.received.pop().expect("an answer has come");
        let answer = Mad::from_bytes(*answer.mad);
        assert_eq!(answer.tid(), mad.tid());
        assert_eq!(answer.status().without_direction(), MadStatus::OK);
        let info: SmInfo = answer.smp_attribute().unwrap();
        assert_eq!((info.state, info.priority), (SmState::Master, 8));
        assert_eq!(info.guid.0, bed.graph.node(host).guid.0 + 1);
    }
}
