//! Hosts that answer with another device's identity: they are left out with a warning, the others are
//! served, and when they answer correctly again they are back.

use controller::SmConfig;
use controller::control::Phase;
use topologies::NodeId;
use wire::attr::{Attribute, NodeDescription, NodeInfo, NodeType, PortInfo, SwitchInfo};
use wire::sa::McMemberRecord;
use wire::{Guid, Lid, Mad, MadStatus, Method, PortNum};

use crate::administration::{ask, query};
use crate::bed::{Bed, Lie};
use crate::multicast::{CREATES, member};
use crate::{assert_connected, assert_programmed, entries, first_host, graph, offline};

/// Retries of a sweep that has left something out come after 10 s at the latest.
pub(crate) const RETRIED_NS: u64 = 12_000_000_000;

/// A lie about NodeInfo.
fn about_node(change: impl Fn(&mut NodeInfo) + 'static) -> Lie {
    Box::new(move |mad: &mut Mad| {
        if mad.attr_id() == NodeInfo::ID
            && let Ok(mut info) = mad.smp_attribute::<NodeInfo>()
        {
            change(&mut info);
            mad.set_smp_attribute(&info);
        }
    })
}

/// What a node says it is.
fn node_info(bed: &mut Bed, name: &str) -> NodeInfo {
    let id = bed.id(name);
    bed.get(id, 0)
}

/// Hosts but one.
pub(crate) fn others(bed: &Bed, liar: NodeId) -> Vec<NodeId> {
    bed.graph.hosts().filter(|&id| id != liar).collect()
}

/// A fabric in which a host lies, from before the manager starts or from when all is up.
fn lied_to(name: &str, liar: &str, is_early: bool, lie: impl Fn(&mut Bed) -> Lie) -> (Bed, NodeId) {
    let mut bed = Bed::new(graph(name), 1);
    let host = first_host(&bed.graph);
    let liar = bed.id(liar);
    let lie = lie(&mut bed);
    if is_early {
        bed.lie(liar, Some(lie));
        bed.start(host, SmConfig::default());
    } else {
        bed.start(host, SmConfig::default());
        bed.run_until_up(host);
        bed.lie(liar, Some(lie));
        let now = bed.now;
        bed.manager(host).resweep(now);
    }
    bed.run_until_up(host);
    bed.run_for(RETRIED_NS);
    (bed, host)
}

fn assert_left_out(bed: &Bed, host: NodeId, liar: NodeId) {
    let status = bed.status(host);
    assert!(
        matches!(
            status.phase,
            Phase::Up | Phase::Discovering | Phase::Programming
        ),
        "{status:?}"
    );
    assert_eq!(
        status.hosts as usize,
        bed.graph.hosts().count() - 1,
        "{status:?}"
    );
    assert_eq!(
        status.switches as usize,
        bed.graph.switches().count(),
        "{status:?}"
    );
    assert_eq!(
        status.links as usize,
        bed.graph.links().count() - 1,
        "{status:?}"
    );
    assert!(!status.unreachable.is_empty());
    assert!(
        status
            .warnings
            .iter()
            .any(|text| text.contains("is left out: it claims")),
        "{:?}",
        status.warnings
    );
    assert_connected(bed, &others(bed, liar));
}

/// It tells the truth again: all is as if it had never lied.
pub(crate) fn assert_healed(mut bed: Bed, host: NodeId, liar: NodeId) {
    bed.lie(liar, None);
    bed.run_for(RETRIED_NS);
    bed.run_until(host, |status| status.phase == Phase::Up);
    let status = bed.status(host);
    assert_eq!(status.hosts as usize, bed.graph.hosts().count());
    assert_eq!(status.links as usize, bed.graph.links().count());
    assert_eq!(status.unreachable, []);
    let hosts: Vec<_> = bed.graph.hosts().collect();
    assert_connected(&bed, &hosts);
}

#[test]
fn a_host_that_claims_the_guid_of_a_switch_is_left_out_whoever_was_found_first() {
    for switch in ["s0", "s2"] {
        for is_early in [true, false] {
            let (bed, host) = lied_to("ring-4-2", "h2", is_early, |bed| {
                let guid = node_info(bed, switch).node_guid;
                about_node(move |info| info.node_guid = guid)
            });
            let liar = bed.id("h2");
            assert_left_out(&bed, host, liar);
            assert_healed(bed, host, liar);
        }
    }
}

#[test]
fn a_host_that_says_what_a_switch_says_gets_no_cable_of_that_switch() {
    // To port 1 of s2 there leads a cable of another switch, to port 4 that of a host.
    for port in [1, 4] {
        for is_early in [true, false] {
            let (bed, host) = lied_to("ring-4-2", "h3", is_early, |bed| {
                let switch = node_info(bed, "s2");
                about_node(move |info| {
                    *info = NodeInfo {
                        local_port_num: PortNum::new(port),
                        ..switch
                    };
                })
            });
            let liar = bed.id("h3");
            assert_left_out(&bed, host, liar);
            assert_healed(bed, host, liar);
        }
    }
}

#[test]
fn a_port_that_leads_to_itself_stops_nobody() {
    let (bed, host) = lied_to("star-4", "h2", true, |bed| {
        let switch = node_info(bed, "s0");
        let id = bed.id("h2");
        let end = bed.ends(id)[0];
        let port = bed.graph.peer(end).expect("there is a cable").port;
        about_node(move |info| {
            *info = NodeInfo {
                local_port_num: port,
                ..switch
            };
        })
    });
    let liar = bed.id("h2");
    assert_left_out(&bed, host, liar);
    assert_healed(bed, host, liar);
}

#[test]
fn a_host_keeps_its_lids_when_another_one_says_that_it_is_that_host() {
    // h1 is found before h6, h7 after it.
    for liar in ["h1", "h7"] {
        let (mut bed, host) = lied_to("ring-4-2", liar, false, |bed| {
            let victim = node_info(bed, "h6");
            about_node(move |info| *info = victim)
        });
        let liar = bed.id(liar);
        assert_left_out(&bed, host, liar);
        let victim = bed.id("h6");
        let before = bed.address(victim);
        bed.lie(liar, None);
        bed.run_for(RETRIED_NS);
        assert_programmed(&bed, &offline(&bed.graph));
        assert_eq!(bed.address(victim), before);
        assert_healed(bed, host, liar);
    }
}

#[test]
fn a_host_that_claims_the_guid_of_another_ones_port_is_left_out() {
    let (bed, host) = lied_to("ring-4-2", "h7", false, |bed| {
        let victim = node_info(bed, "h6").port_guid;
        about_node(move |info| info.port_guid = victim)
    });
    let liar = bed.id("h7");
    assert_left_out(&bed, host, liar);
    assert_healed(bed, host, liar);
}

#[test]
fn a_host_that_says_it_is_a_switch_and_has_no_tables_is_left_out() {
    for is_early in [true, false] {
        let (bed, host) = lied_to("fat-tree-4-2", "h2.1", is_early, |_| {
            Box::new(|mad: &mut Mad| {
                let is_returning = mad.is_returning();
                if let (NodeInfo::ID, Ok(info)) = (mad.attr_id(), mad.smp_attribute::<NodeInfo>()) {
                    mad.set_smp_attribute(&NodeInfo {
                        node_type: NodeType::Switch,
                        num_ports: 254,
                        ..info
                    });
                }
                mad.set_status(MadStatus::OK);
                mad.set_returning(is_returning);
            })
        });
        let liar = bed.id("h2.1");
        assert_left_out(&bed, host, liar);
        assert_healed(bed, host, liar);
    }
}

#[test]
fn descriptions_of_the_form_that_makes_others_unique_stop_nobody() {
    let mut bed = Bed::new(graph("star-5"), 1);
    let host = first_host(&bed.graph);
    let guid = bed.graph.node(bed.id("h1")).guid;
    for (name, description) in [
        ("h1", "twin".to_owned()),
        ("h2", "twin".to_owned()),
        ("h3", format!("twin#{guid}")),
    ] {
        let id = bed.id(name);
        let lie: Lie = Box::new(move |mad: &mut Mad| {
            if mad.attr_id() == NodeDescription::ID {
                mad.smp_data_mut().fill(0);
                mad.smp_data_mut()[..description.len()].copy_from_slice(description.as_bytes());
            }
        });
        bed.lie(id, Some(lie));
    }
    bed.start(host, SmConfig::default());
    let status = bed.run_until_up(host);
    assert_eq!((status.switches, status.hosts), (1, 5));
    assert_connected(&bed, &bed.graph.hosts().collect::<Vec<_>>());
}

/// What a host says that takes itself for a switch with forwarding tables.
pub(crate) fn switch_with(multicast_fdb_cap: u16) -> Lie {
    Box::new(move |mad: &mut Mad| {
        let is_returning = mad.is_returning();
        match mad.attr_id() {
            NodeInfo::ID => {
                if let Ok(info) = mad.smp_attribute::<NodeInfo>() {
                    mad.set_smp_attribute(&NodeInfo {
                        node_type: NodeType::Switch,
                        port_guid: info.node_guid,
                        ..info
                    });
                }
            }
            SwitchInfo::ID => {
                let mut data = [0; 64];
                // LinearFDBCap and MulticastFDBCap.
                data[..2].copy_from_slice(&0xc000u16.to_be_bytes());
                data[4..6].copy_from_slice(&multicast_fdb_cap.to_be_bytes());
                // PartitionEnforcementCap, as a switch that could check packets itself.
                data[14..16].copy_from_slice(&32u16.to_be_bytes());
                *mad.smp_data_mut() = data;
            }
            _ => {}
        }
        mad.set_status(MadStatus::OK);
        mad.set_returning(is_returning);
    })
}

/// Joins a group of that number and returns its multicast LID.
fn join(bed: &mut Bed, manager: NodeId, host: NodeId, group: u8) -> Lid {
    let mut record = member(bed, host);
    record.mgid.0[15] = group;
    let answer = ask(bed, host, manager, &query(Method::SET, CREATES, &record));
    assert_eq!(answer.status(), MadStatus::OK, "group {group}");
    answer.sa_record::<McMemberRecord>().expect("a record").mlid
}

#[test]
fn a_host_that_takes_itself_for_a_switch_takes_no_multicast_from_others() {
    for rows in [0, 1] {
        let mut bed = Bed::new(graph("star-4"), 1);
        let host = first_host(&bed.graph);
        let liar = bed.id("h3");
        bed.lie(liar, Some(switch_with(rows)));
        bed.start(host, SmConfig::default());
        let status = bed.run_until_up(host);
        assert_eq!((status.switches, status.hosts), (2, 3), "{status:?}");
        let (one, switch) = (bed.id("h1"), bed.id("s0"));
        let mlids = [1, 2].map(|group| join(&mut bed, host, one, group));
        assert_ne!(mlids[0], mlids[1]);
        for mlid in mlids {
            assert_eq!(bed.node(switch).group(mlid).len(), 1, "{rows} {mlid}");
        }
    }
}

#[test]
fn a_switch_with_a_smaller_table_ends_no_groups() {
    // A switch between others, which says of itself what is not so from when groups are there.
    let mut bed = Bed::new(graph("ring-4-2"), 1);
    let host = first_host(&bed.graph);
    bed.start(host, SmConfig::default());
    bed.run_until_up(host);
    let (one, other, small) = (bed.id("h1"), bed.id("h6"), bed.id("s2"));
    let mlids = [1, 2].map(|group| join(&mut bed, host, one, group));
    bed.lie(
        small,
        Some(Box::new(|mad: &mut Mad| {
            if mad.attr_id() == SwitchInfo::ID {
                mad.smp_data_mut()[4..6].copy_from_slice(&1u16.to_be_bytes());
            }
        })),
    );
    let now = bed.now;
    bed.manager(host).resweep(now);
    let status = bed.run_until_up(host);
    assert!(
        status
            .warnings
            .iter()
            .any(|text| text.contains("carries no multicast")),
        "{:?}",
        status.warnings
    );
    let joined = [1, 2].map(|group| join(&mut bed, host, other, group));
    assert_eq!(joined, mlids);
    for mlid in mlids {
        assert_eq!(bed.node(small).group(mlid), []);
        // h1, and the way to h6 that does not lead over s2.
        assert_eq!(bed.node(bed.id("s0")).group(mlid).len(), 2);
        assert_eq!(bed.node(bed.id("s3")).group(mlid).len(), 2);
    }
}

#[test]
fn a_device_without_a_guid_stops_nobody() {
    let (bed, host) = lied_to("star-4", "h2", true, |_| {
        about_node(|info| {
            info.node_guid = Guid(0);
            info.port_guid = Guid(0);
        })
    });
    let liar = bed.id("h2");
    assert_left_out(&bed, host, liar);
    assert_healed(bed, host, liar);
}

#[test]
fn a_host_with_new_guids_does_not_make_others_lose_what_is_missing() {
    let strangers: [fn(&mut NodeInfo); 2] = [
        |info| {
            info.node_guid = Guid(0xbad0);
            info.port_guid = Guid(0xbad1);
        },
        // A host that is away.
        |_| {},
    ];
    for stranger in strangers {
        let mut bed = Bed::new(graph("fat-tree-4-3"), 1);
        let host = first_host(&bed.graph);
        bed.start(host, SmConfig::default());
        bed.run_until_up(host);
        let (root, liar, away) = (bed.id("s0.0.0"), bed.id("h3.1.1"), bed.id("h2.0.0"));
        let victim = node_info(&mut bed, "h2.0.0");
        bed.kill(root);
        bed.kill(away);
        bed.run_until(host, |status| {
            status.phase == Phase::Up && status.missing.len() == 2
        });
        let before = entries(&bed, offline(&bed.graph).top());
        bed.lie(
            liar,
            Some(about_node(move |info| {
                let own = *info;
                stranger(info);
                if *info == own {
                    *info = victim;
                }
            })),
        );
        let now = bed.now;
        bed.manager(host).resweep(now);
        bed.run_until_up(host);
        let status = bed.status(host);
        assert!(status.engine.starts_with("mlid"), "{}", status.engine);
        assert!(status.degraded);
        assert!(
            status.missing.contains(&"s0.0.0".to_owned()),
            "{:?}",
            status.missing
        );
        // Only the entries of the liar and of the one that it claims to be may differ.
        let lids = |id| {
            let (base, lmc) = bed.address(id);
            base.index()..base.index() + usize::from(lmc.lids())
        };
        let after = entries(&bed, offline(&bed.graph).top());
        let others: Vec<_> = bed
            .graph
            .hosts()
            .filter(|&id| id != liar && id != away)
            .collect();
        for (old, new) in before.iter().zip(&after) {
            for &other in &others {
                assert_eq!(old[lids(other)], new[lids(other)]);
            }
        }
        bed.lie(liar, None);
        bed.revive(root);
        bed.revive(away);
        bed.run_for(RETRIED_NS);
        bed.run_until(host, |status| status.phase == Phase::Up && !status.degraded);
        assert_programmed(&bed, &offline(&bed.graph));
    }
}

/// A lie about NodeInfo and the LID of the port.
fn stranger_with(lid: Lid) -> Lie {
    let mut stranger: Lie = about_node(|info| {
        info.node_guid = Guid(0xbad0);
        info.port_guid = Guid(0xbad1);
    });
    Box::new(move |mad: &mut Mad| {
        stranger(mad);
        if mad.attr_id() == PortInfo::ID
            && let Ok(mut info) = mad.smp_attribute::<PortInfo>()
        {
            info.lid = lid;
            mad.set_smp_attribute(&info);
        }
    })
}

#[test]
fn a_host_with_a_new_guid_does_not_get_the_lid_of_one_that_is_away() {
    let mut bed = Bed::new(graph("star-4"), 1);
    let host = first_host(&bed.graph);
    bed.start(host, SmConfig::default());
    bed.run_until_up(host);
    bed.run_for(RETRIED_NS);
    let (liar, away) = (bed.id("h2"), bed.id("h3"));
    let before = [liar, away].map(|id| bed.address(id));
    bed.kill(away);
    bed.run_until(host, |status| {
        status.phase == Phase::Up && status.hosts == 3
    });
    bed.lie(liar, Some(stranger_with(before[1].0)));
    let now = bed.now;
    bed.manager(host).resweep(now);
    bed.run_until_up(host);
    let lid = bed.address(liar).0;
    assert!(before.iter().all(|&(known, _)| known != lid), "{lid}");
    // Both have lost their LIDs when they are what they were.
    bed.lie(liar, None);
    bed.kill(liar);
    bed.run_for(RETRIED_NS);
    for id in [liar, away] {
        bed.revive(id);
    }
    bed.run_for(RETRIED_NS);
    bed.run_until(host, |status| {
        status.phase == Phase::Up && status.hosts == 4
    });
    assert_eq!([liar, away].map(|id| bed.address(id)), before);
}
