//! Partitions: tables, enforcement, and what subnet administration tells whom.

use controller::control::Phase;
use controller::{PartitionEnforcement, Partitions, SmConfig};
use mad::local::MadMessage;
use topologies::NodeId;
use wire::attr::{PKeyTable, PortInfo};
use wire::mad::{MadStatus, Method};
use wire::sa::{
    McMemberRecord, PathRecord, SaHeader, SaRecord, mc_member_component, path_component,
};
use wire::{Format as _, Gid, Mad, PortNum, Qpn, Sl};

use crate::administration::{ask, ask_table, gid, query};
use crate::bed::{Bed, Change};
use crate::foreign::{is_warned, warnings};
use crate::lies::switch_with;
use crate::made_up::two_switches;
use crate::{end, first_host, graph};

const MENDED_NS: u64 = 11_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// The four members of star-4: h0 with the manager, and two partitions beside the default one.
const TEXT: &str = "\
Red = 5, ipoib : {h1}=full, {h2}=limited, {h3}=limited ;
Blue = 6 : {h3}=full, {h2}=full ;
";

/// The port GUID of a host, as partitions name it.
fn port(bed: &Bed, name: &str) -> String {
    format!("{:#x}", bed.graph.node(bed.id(name)).guid.0 + 1)
}

fn text(bed: &Bed) -> String {
    ["h0", "h1", "h2", "h3"]
        .iter()
        .fold(TEXT.to_owned(), |text, name| {
            text.replace(&format!("{{{name}}}"), &port(bed, name))
        })
}

fn config(text: &str, partition_enforcement: PartitionEnforcement) -> SmConfig {
    SmConfig {
        partitions: Some(Partitions::read(text).expect("partitions")),
        partition_enforcement,
        ..SmConfig::default()
    }
}

fn up_with(enforcement: PartitionEnforcement) -> (Bed, NodeId) {
    let mut bed = Bed::new(graph("star-4"), 1);
    let host = first_host(&bed.graph);
    let text = text(&bed);
    bed.start(host, config(&text, enforcement));
    bed.run_until_up(host);
    (bed, host)
}

fn up() -> (Bed, NodeId) {
    up_with(PartitionEnforcement::Both)
}

/// The keys of a port.
fn keys(bed: &mut Bed, name: &str, number: u8) -> Vec<u16> {
    let id = bed.id(name);
    let modifier = match number {
        0 => 0,
        number => PKeyTable::switch_modifier(PortNum::new(number), 0),
    };
    let table: PKeyTable = bed.get(id, modifier);
    let empty = table.0.iter().position(|&key| key == 0).unwrap_or(32);
    assert!(table.0[empty..].iter().all(|&key| key == 0), "{table:?}");
    table.0[..empty].to_vec()
}

/// The port of the switch to which a host's cable leads.
fn towards(bed: &Bed, name: &str) -> u8 {
    bed.graph
        .peer(end(bed, name, 1))
        .expect("a cable")
        .port
        .get()
}

#[test]
fn every_port_holds_the_keys_of_its_partitions_the_default_one_s_first() {
    let (mut bed, host) = up();
    assert_eq!(
        keys(&mut bed, "h0", 0),
        [0xffff],
        "the manager's own is a full member"
    );
    assert_eq!(keys(&mut bed, "h1", 0), [0x7fff, 0x8005]);
    assert_eq!(keys(&mut bed, "h2", 0), [0x7fff, 0x0005, 0x8006]);
    assert_eq!(keys(&mut bed, "h3", 0), [0x7fff, 0x0005, 0x8006]);
    assert_eq!(keys(&mut bed, "s0", 0), [0x7fff]);
    for (name, expected) in [("h0", &[0xffff][..]), ("h2", &[0xffff, 0x8005, 0x8006])] {
        let at = towards(&bed, name);
        assert_eq!(
            keys(&mut bed, "s0", at),
            expected,
            "limited members' packets pass"
        );
        let switch = bed.id("s0");
        let info: PortInfo = bed.get(switch, at.into());
        assert!(info.partition_enforcement_inbound && info.partition_enforcement_outbound);
    }
    bed.run_for(30 * SECOND_NS);
    bed.changes();
    let generation = bed.status(host).generation;
    bed.run_for(60 * SECOND_NS);
    assert_eq!(bed.changes(), [], "nothing differs from what is wanted");
    assert_eq!(bed.status(host).generation, generation);
    assert_eq!(bed.status(host).warnings, [""; 0]);
}

#[test]
fn a_host_that_takes_itself_for_a_switch_hears_no_other_partition() {
    let mut bed = Bed::new(graph("star-4"), 1);
    let host = first_host(&bed.graph);
    let text = text(&bed);
    let liar = bed.id("h3");
    bed.lie(liar, Some(switch_with(1024)));
    bed.start(host, config(&text, PartitionEnforcement::Out));
    let status = bed.run_until_up(host);
    assert_eq!((status.switches, status.hosts), (2, 3), "{status:?}");
    let at = towards(&bed, "h3");
    let switch = bed.id("s0");
    let info: PortInfo = bed.get(switch, at.into());
    assert!(info.partition_enforcement_outbound);
    assert_eq!(keys(&mut bed, "s0", at), [0xffff], "those of a switch");
}

#[test]
fn a_host_that_makes_up_switches_hears_no_other_partition() {
    let mut bed = Bed::new(graph("star-4"), 1);
    let host = first_host(&bed.graph);
    let text = text(&bed);
    let liar = bed.id("h3");
    let lie = |mad: &mut Mad| two_switches(mad, [0xbad0, 0xbad1]);
    bed.pretend = Some((liar, Box::new(lie)));
    bed.start(host, config(&text, PartitionEnforcement::Out));
    let status = bed.run_until_up(host);
    assert_eq!((status.switches, status.hosts), (3, 3), "{status:?}");
    let at = towards(&bed, "h3");
    let switch = bed.id("s0");
    let info: PortInfo = bed.get(switch, at.into());
    assert!(info.partition_enforcement_outbound);
    assert_eq!(keys(&mut bed, "s0", at), [0xffff], "those of a switch");
}

#[test]
fn switches_check_in_the_directions_that_are_asked_for_and_between_themselves_never() {
    for (enforcement, expected) in [
        (PartitionEnforcement::In, (true, false)),
        (PartitionEnforcement::Out, (false, true)),
        (PartitionEnforcement::Off, (false, false)),
    ] {
        let mut bed = Bed::new(graph("ring-4-1"), 1);
        let host = first_host(&bed.graph);
        bed.start(host, config("A=5:ALL=full;", enforcement));
        bed.run_until_up(host);
        for switch in bed.graph.switches().collect::<Vec<_>>() {
            for at in bed.ends(switch) {
                let peer = bed.graph.peer(at).unwrap().node;
                let is_host = bed.graph.hosts().any(|id| id == peer);
                let info: PortInfo = bed.get(switch, at.port.get().into());
                let enforced = (
                    info.partition_enforcement_inbound,
                    info.partition_enforcement_outbound,
                );
                assert_eq!(enforced, if is_host { expected } else { (false, false) });
            }
        }
    }
}

#[test]
fn without_partitions_tables_and_ports_are_as_ever() {
    let (mut bed, _) = crate::up("star-4");
    assert_eq!(keys(&mut bed, "h1", 0), [0xffff]);
    assert_eq!(keys(&mut bed, "s0", 1), [0_u16; 0]);
    let switch = bed.id("s0");
    assert!(!bed.get::<PortInfo>(switch, 1).partition_enforcement_inbound);
}

#[test]
fn a_table_that_somebody_changes_or_a_host_that_has_lost_it_is_written_again() {
    let (mut bed, host) = up();
    bed.run_for(MENDED_NS);
    let other = bed.id("h2");
    bed.set_behind_the_manager(other, 0, &PKeyTable([0xffff; 32]));
    let switch = bed.id("s0");
    let at = PKeyTable::switch_modifier(PortNum::new(towards(&bed, "h1")), 0);
    bed.set_behind_the_manager(switch, at, &PKeyTable::default());
    bed.run_for(2 * MENDED_NS);
    assert_eq!(keys(&mut bed, "h2", 0), [0x7fff, 0x0005, 0x8006]);
    assert_eq!(bed.get::<PKeyTable>(switch, at).0[..2], [0xffff, 0x8005]);
    assert!(
        is_warned(&bed, "P_Key table of port 1 of h2"),
        "{:?}",
        bed.events_reported
    );
    assert_eq!(warnings(&bed, host, "P_Key table"), 0, "repaired");

    for lost in [other, switch] {
        let before = bed.status(host).generation;
        bed.kill(lost);
        bed.run_for(2 * SECOND_NS);
        bed.revive(lost);
        bed.run_until(host, |status| {
            status.phase == Phase::Up && status.hosts == 4 && status.generation > before
        });
        bed.run_for(2 * MENDED_NS);
        assert_eq!(keys(&mut bed, "h2", 0), [0x7fff, 0x0005, 0x8006]);
        assert_eq!(bed.get::<PKeyTable>(switch, at).0[..2], [0xffff, 0x8005]);
    }
}

#[test]
fn a_manager_that_is_restarted_with_the_same_partitions_changes_nothing() {
    let (mut bed, host) = up();
    bed.stop(host);
    bed.changes();
    let text = text(&bed);
    bed.start(host, config(&text, PartitionEnforcement::Both));
    bed.run_until(host, |status| status.phase == Phase::Up);
    let changes = bed.changes();
    let tables = changes
        .iter()
        .filter(|(_, change)| matches!(change, Change::Partitions(_)));
    assert_eq!(tables.count(), 0);
    assert_eq!(changes, []);
}

#[test]
fn a_port_with_more_keys_than_its_table_holds_is_told() {
    let mut bed = Bed::new(graph("star-4"), 1);
    let host = first_host(&bed.graph);
    let many: String = (1..40)
        .map(|number| format!("P={number}:ALL=full;"))
        .collect();
    bed.start(host, config(&many, PartitionEnforcement::Both));
    bed.run_until_up(host);
    assert!(
        warnings(
            &bed,
            host,
            "h2 is in partitions of 40 keys, and its table holds 32"
        ) > 0
    );
    assert_eq!(keys(&mut bed, "h2", 0).len(), 32);
}

/// The path record from one host to another, as the first asks for it.
fn path(
    bed: &mut Bed,
    manager: NodeId,
    from: &str,
    to: &str,
    pkey: Option<u16>,
) -> Result<u16, MadStatus> {
    let (source, destination) = (bed.id(from), bed.id(to));
    let asked = PathRecord {
        sgid: gid(bed, source),
        dgid: gid(bed, destination),
        pkey: pkey.unwrap_or_default(),
        ..PathRecord::default()
    };
    let by_key = if pkey.is_some() {
        path_component::PKEY
    } else {
        0
    };
    let mask = path_component::SGID | path_component::DGID | by_key;
    let answer = ask(bed, source, manager, &query(Method::GET, mask, &asked));
    match answer.status() {
        MadStatus::OK => Ok(answer
            .sa_record::<PathRecord>()
            .expect("a path record")
            .pkey),
        status => Err(status),
    }
}

#[test]
fn paths_are_told_in_a_partition_that_both_ends_share_and_no_others() {
    let (mut bed, host) = up();
    let none = Err(MadStatus::SA_NO_RECORDS);
    // Limited and full member of the default partition.
    assert_eq!(path(&mut bed, host, "h1", "h0", None), Ok(0x7fff));
    assert_eq!(path(&mut bed, host, "h1", "h2", None), Ok(0x8005));
    assert_eq!(path(&mut bed, host, "h2", "h1", None), Ok(0x0005));
    // Both are limited members of the default partition and of the first.
    assert_eq!(path(&mut bed, host, "h2", "h3", None), Ok(0x8006));
    assert_eq!(path(&mut bed, host, "h2", "h2", None), Ok(0x7fff));
    for (key, expected) in [
        (0x8006, Ok(0x8006)),
        (6, Ok(0x8006)),
        (0x8005, none),
        (0x7fff, none),
        (9, none),
    ] {
        assert_eq!(
            path(&mut bed, host, "h2", "h3", Some(key)),
            expected,
            "{key:#x}"
        );
    }
    let mut lone = Bed::new(graph("star-4"), 1);
    let host = first_host(&lone.graph);
    lone.start(host, config("", PartitionEnforcement::Both));
    lone.run_until_up(host);
    assert_eq!(path(&mut lone, host, "h1", "h2", None), none);
    // A table of all paths that a host may know.
    let asker = lone.id("h1");
    let asked = PathRecord {
        sgid: gid(&lone, asker),
        numb_path: 1,
        ..PathRecord::default()
    };
    let mask = path_component::SGID | path_component::NUMB_PATH;
    let table = query(Method::GET_TABLE, mask, &asked);
    let bytes = ask_table(&mut lone, asker, host, &table);
    let stride = usize::from(PathRecord::ATTRIBUTE_OFFSET) * 8;
    let to: Vec<Gid> = bytes
        .chunks(stride)
        .map(|raw| PathRecord::parse(raw).unwrap().0.dgid)
        .collect();
    assert_eq!(to.len(), 2, "the manager's and its own: {to:?}");
}

/// Asks to join, or to make, a group.
fn join(
    bed: &mut Bed,
    manager: NodeId,
    name: &str,
    mgid: Gid,
    pkey: Option<u16>,
) -> Result<McMemberRecord, MadStatus> {
    let host = bed.id(name);
    let record = McMemberRecord {
        mgid,
        port_gid: gid(bed, host),
        join_state: McMemberRecord::JOIN_FULL,
        pkey: pkey.unwrap_or_default(),
        qkey: 0x0b1b,
        ..McMemberRecord::default()
    };
    let needed =
        mc_member_component::MGID | mc_member_component::PORT_GID | mc_member_component::JOIN_STATE;
    let creating = mc_member_component::PKEY
        | mc_member_component::QKEY
        | mc_member_component::SL
        | mc_member_component::FLOW_LABEL
        | mc_member_component::TCLASS;
    let mask = if pkey.is_some() {
        needed | creating
    } else {
        needed
    };
    let request = query(Method::SET, mask, &record);
    let (lid, _) = bed.address(manager);
    let message = MadMessage {
        lid,
        qpn: Qpn::GSI,
        sl: Sl::default(),
        mad: Box::new(*request.as_bytes()),
        way: None,
    };
    bed.write(host, &message);
    // The answer comes when the tables are written.
    bed.run_for(100_000_000);
    let (_, answer) = bed.received.pop().expect("an answer has come");
    let answer = Mad::from_bytes(*answer.mad);
    match answer.status() {
        MadStatus::OK => Ok(answer.sa_record().expect("a record")),
        status => Err(status),
    }
}

/// The broadcast group of a partition.
fn broadcast(pkey: u16) -> Gid {
    let [high, low] = pkey.to_be_bytes();
    Gid([
        0xff, 0x12, 0x40, 0x1b, high, low, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
    ])
}

#[test]
fn groups_are_joined_and_made_in_one_s_own_partitions_only() {
    let (mut bed, host) = up();
    let invalid = Err(MadStatus::SA_REQUEST_INVALID);
    let red = broadcast(0x8005);
    for name in ["h1", "h2"] {
        assert_eq!(
            join(&mut bed, host, name, red, None).map(|record| record.pkey),
            Ok(0x8005)
        );
    }
    // Blue has no ipoib, and the default partition neither.
    let blue = broadcast(0x8006);
    assert_eq!(
        join(&mut bed, host, "h3", blue, None),
        Err(MadStatus::SA_INSUFFICIENT_COMPONENTS)
    );
    assert_eq!(join(&mut bed, host, "h1", blue, Some(0x8006)), invalid);
    assert_eq!(
        join(&mut bed, host, "h3", blue, Some(6)).map(|record| record.pkey),
        Ok(0x8006)
    );
    assert_eq!(join(&mut bed, host, "h1", blue, None), invalid);
    assert_eq!(
        join(&mut bed, host, "h2", blue, None).map(|record| record.pkey),
        Ok(0x8006)
    );

    let groups = |bed: &mut Bed, name: &str, sm_key: u64| {
        let mut all = Mad::sa(Method::GET_TABLE, McMemberRecord::ID, 0, 77);
        all.set_sa_header(&SaHeader {
            sm_key,
            ..SaHeader::default()
        });
        let asker = bed.id(name);
        let bytes = ask_table(bed, asker, host, &all);
        let stride = usize::from(McMemberRecord::ATTRIBUTE_OFFSET) * 8;
        let records = bytes.chunks(stride);
        let mut mgids: Vec<Gid> = records
            .map(|raw| McMemberRecord::parse(raw).unwrap().0.mgid)
            .collect();
        mgids.dedup();
        mgids
    };
    assert_eq!(groups(&mut bed, "h1", 0), [red]);
    assert_eq!(groups(&mut bed, "h2", 0), [red, blue]);
}

#[test]
fn paths_to_groups_are_told_to_members_of_their_partition_only() {
    let (mut bed, host) = up();
    let (red, blue) = (broadcast(0x8005), broadcast(0x8006));
    for (name, mgid, pkey) in [("h1", red, None), ("h3", blue, Some(6)), ("h2", blue, None)] {
        let _joined = join(&mut bed, host, name, mgid, pkey).unwrap();
    }
    let (source, mask) = (bed.id("h1"), path_component::SGID | path_component::DGID);
    for (mgid, expected) in [(red, MadStatus::OK), (blue, MadStatus::SA_NO_RECORDS)] {
        let asked = PathRecord {
            sgid: gid(&bed, source),
            dgid: mgid,
            ..PathRecord::default()
        };
        let answer = ask(&mut bed, source, host, &query(Method::GET, mask, &asked));
        assert_eq!(answer.status(), expected, "{mgid}");
    }
    // Members of another partition get no path to a group, and no record has another key than the one asked for.
    let by_key = mask | path_component::PKEY;
    let source = bed.id("h2");
    for (asker, mask, pkey, expected) in [
        ("h1", mask, 0, MadStatus::SA_NO_RECORDS),
        ("h3", mask, 0, MadStatus::OK),
        ("h3", by_key, 6, MadStatus::OK),
        ("h3", by_key, 0x8005, MadStatus::SA_NO_RECORDS),
    ] {
        let asked = PathRecord {
            sgid: gid(&bed, source),
            dgid: blue,
            pkey,
            ..PathRecord::default()
        };
        let beside = bed.id(asker);
        let answer = ask(&mut bed, beside, host, &query(Method::GET, mask, &asked));
        assert_eq!(answer.status(), expected, "{asker} {pkey:#x}");
    }
}
