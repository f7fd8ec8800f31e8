//! Groups: joined and left by records, carried by tables that are written before members get their answers.

use std::collections::BTreeSet;

use controller::SmConfig;
use controller::control::Phase;
use routing::multicast::{Mgid, Multicast, Options, Role, Scheme};
use topologies::NodeId;
use wire::attr::{MulticastForwardingTable, SwitchInfo};
use wire::mad::{MadStatus, Method};
use wire::sa::{McMemberRecord, PathRecord, mc_member_component as component, path_component};
use wire::{Gid, Lid};

use crate::administration::{ask, gid, query};
use crate::bed::{Bed, Change};
use crate::{first_host, graph};

pub(crate) const GROUP: Gid = Gid([0xff, 0x12, 0x1b, 0xed, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
pub(crate) const NEEDED: u64 = component::MGID | component::PORT_GID | component::JOIN_STATE;
pub(crate) const CREATES: u64 = NEEDED
    | component::QKEY
    | component::PKEY
    | component::SL
    | component::TCLASS
    | component::FLOW_LABEL;

pub(crate) fn up(name: &str, multicast: Scheme) -> (Bed, NodeId) {
    let mut bed = Bed::new(graph(name), 1);
    let manager = first_host(&bed.graph);
    let config = SmConfig {
        multicast,
        ..SmConfig::default()
    };
    bed.start(manager, config);
    bed.run_until_up(manager);
    (bed, manager)
}

pub(crate) fn member(bed: &Bed, host: NodeId) -> McMemberRecord {
    McMemberRecord {
        mgid: GROUP,
        port_gid: gid(bed, host),
        qkey: 0x1bed,
        pkey: 0xffff,
        join_state: McMemberRecord::JOIN_FULL,
        ..McMemberRecord::default()
    }
}

/// Hosts without a manager beside them: the bed hands them what they receive.
pub(crate) fn members(bed: &Bed) -> Vec<NodeId> {
    bed.graph.hosts().skip(1).collect()
}

pub(crate) fn join(bed: &mut Bed, manager: NodeId, host: NodeId) -> Lid {
    let mad = query(Method::SET, CREATES, &member(bed, host));
    let answer = ask(bed, host, manager, &mad);
    assert_eq!(answer.status(), MadStatus::OK);
    answer.sa_record::<McMemberRecord>().expect("a record").mlid
}

/// What the switches hold is what is computed offline for these members, LID by LID.
fn assert_tables(bed: &Bed, scheme: Scheme, hosts: &[(NodeId, Lid)]) {
    let options = Options {
        scheme,
        ..Options::default()
    };
    let mut offline = Multicast::new(&bed.graph, &options).expect("there are trees");
    for &(host, _) in hosts {
        offline
            .join(Mgid(1), gid(bed, host).guid(), Role::Receives)
            .expect("a host joins");
    }
    let used: BTreeSet<Lid> = hosts.iter().map(|&(_, mlid)| mlid).collect();
    for switch in bed.graph.switches() {
        for &(host, mlid) in hosts {
            let wanted = offline
                .dlid(Mgid(1), gid(bed, host).guid())
                .expect("a member");
            let wanted: Vec<_> = offline.mft(switch).get(wanted).iter().collect();
            assert_eq!(bed.node(switch).group(mlid), wanted, "{mlid} {switch:?}");
        }
        for row in 0xc000..0xc040 {
            let mlid = Lid::new(row);
            let held = bed.node(switch).group(mlid);
            assert!(used.contains(&mlid) || held.is_empty(), "{mlid}: {held:?}");
        }
    }
}

fn every_host_joins_and_leaves(name: &str, scheme: Scheme) {
    let (mut bed, manager) = up(name, scheme);
    let hosts = members(&bed);
    let mut joined: Vec<(NodeId, Lid)> = Vec::new();
    for &host in &hosts {
        let mlid = join(&mut bed, manager, host);
        joined.push((host, mlid));
        assert_tables(&bed, scheme, &joined);
    }
    while let Some((host, _)) = joined.pop() {
        let mad = query(Method::DELETE, NEEDED, &member(&bed, host));
        let answer = ask(&mut bed, host, manager, &mad);
        assert_eq!(answer.status(), MadStatus::OK);
        if !joined.is_empty() {
            assert_tables(&bed, scheme, &joined);
        }
    }
    for switch in bed.graph.switches() {
        assert_eq!(bed.node(switch).group(Lid::MULTICAST_FIRST), []);
    }
}

#[test]
fn tables_follow_every_join_and_leave_on_cyclic_trees() {
    every_host_joins_and_leaves("fat-tree-4-3", Scheme::Cyclic);
}

#[test]
fn tables_follow_every_join_and_leave_on_a_spanning_tree() {
    every_host_joins_and_leaves("irregular-8-2-3-7", Scheme::SpanningTree);
}

#[test]
fn a_join_or_leave_writes_the_blocks_that_it_must_and_nothing_else() {
    let (mut bed, manager) = up("fat-tree-4-3", Scheme::Cyclic);
    let options = Options {
        scheme: Scheme::Cyclic,
        ..Options::default()
    };
    let mut offline = Multicast::new(&bed.graph, &options).unwrap();
    let written = |bed: &mut Bed| -> BTreeSet<(NodeId, usize, usize)> {
        let changes = bed.changes().into_iter();
        let block = |(switch, change)| match change {
            Change::Groups(block, position) => Some((switch, block.into(), position.into())),
            Change::MulticastTop(_) => None,
            other => panic!("{other:?} of {switch:?}"),
        };
        changes.filter_map(block).collect()
    };
    bed.changes();
    for host in members(&bed) {
        join(&mut bed, manager, host);
        let port = gid(&bed, host).guid();
        let joined = offline.join(Mgid(1), port, Role::Receives).unwrap();
        let changes = joined.changes.into_iter();
        let wanted: BTreeSet<_> = changes
            .map(|it| (it.switch, it.block, it.position))
            .collect();
        assert_eq!(written(&mut bed), wanted);
    }
    for host in members(&bed) {
        let leave = query(Method::DELETE, NEEDED, &member(&bed, host));
        let answer = ask(&mut bed, host, manager, &leave);
        assert_eq!(answer.status(), MadStatus::OK);
        let changes = offline.leave(Mgid(1), gid(&bed, host).guid()).unwrap();
        let changes = changes.into_iter();
        let wanted: BTreeSet<_> = changes
            .map(|it| (it.switch, it.block, it.position))
            .collect();
        assert_eq!(written(&mut bed), wanted);
    }
}

#[test]
fn a_foreign_write_to_a_multicast_table_is_corrected_and_reported() {
    let (mut bed, manager) = up("fat-tree-4-2", Scheme::SpanningTree);
    let hosts = members(&bed);
    let joined: Vec<(NodeId, Lid)> = hosts
        .iter()
        .map(|&host| (host, join(&mut bed, manager, host)))
        .collect();
    let mlid = joined[0].1;
    let switch = bed
        .graph
        .switches()
        .find(|&id| !bed.node(id).group(mlid).is_empty());
    let switch = switch.expect("a switch of the tree");
    let modifier = MulticastForwardingTable::modifier(0, 0);
    let nowhere = MulticastForwardingTable::default();
    assert_ne!(
        bed.get::<MulticastForwardingTable>(switch, modifier),
        nowhere
    );
    bed.set_behind_the_manager(switch, modifier, &nowhere);
    bed.run_for(11_000_000_000);
    assert_tables(&bed, Scheme::SpanningTree, &joined);
    let name = &bed.graph.node(switch).name;
    let what = format!("MFT block 0, position 0, of {name} ");
    let is_told = |text: &String| text.starts_with(&what);
    let warnings = bed.status(manager).warnings;
    assert!(warnings.iter().any(is_told), "{warnings:?}");
    bed.run_for(11_000_000_000);
    assert_eq!(bed.status(manager).warnings, [""; 0]);
}

#[test]
fn a_cyclic_group_has_a_multicast_lid_for_each_offset() {
    let (mut bed, manager) = up("fat-tree-4-3", Scheme::Cyclic);
    let hosts = members(&bed);
    let lids: BTreeSet<Lid> = hosts
        .iter()
        .map(|&host| join(&mut bed, manager, host))
        .collect();
    assert_eq!(lids.len(), 4);
}

#[test]
fn tables_are_computed_anew_when_the_fabric_changes_and_members_keep_their_lids() {
    let (mut bed, manager) = up("fat-tree-4-3", Scheme::Cyclic);
    let hosts = members(&bed);
    let joined: Vec<(NodeId, Lid)> = hosts
        .iter()
        .map(|&host| (host, join(&mut bed, manager, host)))
        .collect();
    let root = bed.id("s0.0.1");
    bed.kill(root);
    bed.run_until_up(manager);
    bed.run_for(50_000_000);
    for &(source, mlid) in &joined {
        let reached = reached(&bed, source, mlid);
        let wanted: BTreeSet<NodeId> = hosts.iter().copied().filter(|&h| h != source).collect();
        assert_eq!(reached, wanted, "{mlid} from {source:?}");
    }
    bed.revive(root);
    bed.run_until(manager, |status| !status.degraded && status.switches == 20);
    bed.run_for(50_000_000);
    assert_tables(&bed, Scheme::Cyclic, &joined);
}

/// The hosts that a packet reaches by what the switches hold, each once.
pub(crate) fn reached(bed: &Bed, source: NodeId, mlid: Lid) -> BTreeSet<NodeId> {
    let mut reached = BTreeSet::new();
    let start = bed.ends(source)[0];
    let mut open = vec![bed.graph.peer(start).expect("a cable")];
    let mut steps = 0;
    while let Some(entry) = open.pop() {
        steps += 1;
        assert!(steps < 1_000, "a loop");
        if bed.graph.hosts().any(|host| host == entry.node) {
            assert!(reached.insert(entry.node), "twice");
            continue;
        }
        for port in bed.node(entry.node).group(mlid) {
            let end = topologies::Endpoint {
                node: entry.node,
                port,
            };
            if port != entry.port {
                open.push(bed.graph.peer(end).expect("a cable"));
            }
        }
    }
    reached
}

#[test]
fn a_join_at_a_manager_that_does_not_know_the_subnet_yet_is_to_be_repeated() {
    let (mut bed, manager) = up("fat-tree-4-2", Scheme::SpanningTree);
    let host = members(&bed)[0];
    drop(bed.stop(manager));
    bed.start(manager, SmConfig::default());
    let mad = query(Method::SET, CREATES, &member(&bed, host));
    let answer = ask(&mut bed, host, manager, &mad);
    assert_eq!(answer.status(), MadStatus::BUSY);
    bed.run_until_up(manager);
    join(&mut bed, manager, host);
}

#[test]
fn a_path_to_a_group_names_its_multicast_lid() {
    let (mut bed, manager) = up("fat-tree-4-2", Scheme::Cyclic);
    let hosts = members(&bed);
    let mlid = join(&mut bed, manager, hosts[0]);
    let asked = PathRecord {
        sgid: gid(&bed, hosts[0]),
        dgid: GROUP,
        ..PathRecord::default()
    };
    let mask = path_component::SGID | path_component::DGID;
    let mad = query(Method::GET, mask, &asked);
    let answer = ask(&mut bed, hosts[0], manager, &mad);
    assert_eq!(answer.sa_record::<PathRecord>().unwrap().dlid, mlid);
}

#[test]
fn the_broadcast_group_of_ip_over_infiniband_is_there_from_the_start() {
    let (mut bed, manager) = up("star-3", Scheme::SpanningTree);
    let host = members(&bed)[0];
    let broadcast = McMemberRecord {
        mgid: Gid([
            0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
        ]),
        ..member(&bed, host)
    };
    let mad = query(Method::GET, component::MGID, &broadcast);
    let answer = ask(&mut bed, host, manager, &mad);
    let record: McMemberRecord = answer.sa_record().unwrap();
    assert_eq!((record.qkey, record.pkey, record.mtu), (0x0b1b, 0xffff, 4));
    let mad = query(Method::SET, NEEDED, &broadcast);
    let joined = ask(&mut bed, host, manager, &mad);
    assert_eq!(joined.status(), MadStatus::OK);
    let record: McMemberRecord = joined.sa_record().unwrap();
    assert_eq!(record.mlid, Lid::MULTICAST_FIRST);
}

#[test]
fn a_new_manager_clears_what_it_knows_nothing_of() {
    let (mut bed, manager) = up("fat-tree-4-2", Scheme::SpanningTree);
    for host in members(&bed) {
        join(&mut bed, manager, host);
    }
    drop(bed.stop(manager));
    bed.start(manager, SmConfig::default());
    bed.run_until_up(manager);
    for switch in bed.graph.switches() {
        assert_eq!(bed.node(switch).group(Lid::MULTICAST_FIRST), []);
    }
}

#[test]
fn a_manager_that_takes_over_keeps_groups_with_their_lids_and_tables() {
    for (name, scheme) in [
        ("fat-tree-4-3", Scheme::Cyclic),
        ("irregular-8-2-3-7", Scheme::SpanningTree),
    ] {
        let (mut bed, manager) = up(name, scheme);
        let successor = bed.graph.hosts().last().expect("a host");
        let hosts: Vec<NodeId> = members(&bed).into_iter().take(5).collect();
        let joined: Vec<(NodeId, Lid)> = hosts
            .iter()
            .map(|&host| (host, join(&mut bed, manager, host)))
            .collect();
        let config = SmConfig {
            multicast: scheme,
            priority: 3,
            ..SmConfig::default()
        };
        bed.start(successor, config);
        bed.run_until(successor, |status| {
            matches!(status.phase, Phase::Standby { .. })
        });
        bed.changes();
        bed.stop(manager);
        bed.run_until(successor, |status| status.phase == Phase::Up);
        let is_written = |(_, change): &(NodeId, Change)| matches!(change, Change::Groups(..));
        let changes = bed.changes();
        assert!(!changes.iter().any(is_written), "{name}: {changes:?}");
        assert_tables(&bed, scheme, &joined);

        // Of five members four join again, as they were asked to.
        let (silent, rejoined) = joined.split_last().expect("members");
        for &(host, mlid) in rejoined {
            assert_eq!(join(&mut bed, successor, host), mlid);
        }
        bed.run_for(29_000_000_000);
        assert_tables(&bed, scheme, &joined);
        bed.run_for(2_000_000_000);
        assert_tables(&bed, scheme, rejoined);
        let left = silent.0;
        assert!(!rejoined.iter().any(|&(host, _)| host == left));
    }
}

#[test]
fn the_top_of_a_multicast_table_is_raised_once_its_blocks_are_written_and_lowered_when_they_are_empty()
 {
    let (mut bed, manager) = up("fat-tree-4-2", Scheme::SpanningTree);
    let switches: Vec<NodeId> = bed.graph.switches().collect();
    let none = Lid::UNICAST_LAST;
    let block = Lid::new(0xc01f);
    let top = |bed: &mut Bed, switch: NodeId| bed.get::<SwitchInfo>(switch, 0).multicast_fdb_top;
    for &switch in &switches {
        assert_eq!(top(&mut bed, switch), none, "as OpenSM writes it");
    }
    bed.changes();
    let hosts: Vec<NodeId> = members(&bed).into_iter().take(2).collect();
    let mut mlid = none;
    for &host in &hosts {
        mlid = join(&mut bed, manager, host);
    }
    let changes = bed.changes();
    let of = |changes: &[(NodeId, Change)], switch: NodeId| -> Vec<Change> {
        let all = changes.iter().filter(|(id, _)| *id == switch);
        all.map(|(_, change)| change.clone()).collect()
    };
    let mut filled = Vec::new();
    for &switch in &switches {
        let changes = of(&changes, switch);
        let is_used = !bed.node(switch).group(mlid).is_empty();
        if is_used {
            let raised = changes
                .iter()
                .position(|one| *one == Change::MulticastTop(block));
            let raised = raised.expect("the top is raised");
            let is_written = |one: &Change| matches!(one, Change::Groups(..));
            assert!(changes[..raised].iter().any(is_written), "{changes:?}");
            filled.push(switch);
        }
        assert_eq!(top(&mut bed, switch) == block, is_used, "{changes:?}");
    }
    assert!(!filled.is_empty() && filled.len() < switches.len());
    for &host in &hosts {
        let mad = query(Method::DELETE, NEEDED, &member(&bed, host));
        assert_eq!(ask(&mut bed, host, manager, &mad).status(), MadStatus::OK);
    }
    bed.run_for(50_000_000);
    let changes = bed.changes();
    for switch in filled {
        let changes = of(&changes, switch);
        let lowered = changes.last();
        assert_eq!(lowered, Some(&Change::MulticastTop(none)), "{changes:?}");
        assert!(changes.len() > 1, "{changes:?}");
    }
}
