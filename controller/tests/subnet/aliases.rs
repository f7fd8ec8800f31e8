//! Alias GUIDs of ports, by GUIDInfoRecord.

use controller::control::Phase;
use controller::{SmConfig, SmEvent};
use topologies::NodeId;
use wire::attr::GuidInfo;
use wire::mad::{Mad, MadStatus, Method};
use wire::sa::{GuidInfoRecord, McMemberRecord, PathRecord, SaHeader, path_component};
use wire::{Gid, Guid};

use crate::administration::{ask, gid, query};
use crate::bed::Bed;
use crate::multicast::{CREATES, GROUP, NEEDED, member, reached};
use crate::up;

/// Components: LID and block, and the GUIDs from the first.
const BLOCK: u64 = 0b11;
const GUID: u64 = 1 << 4;
const ALIAS: Guid = Guid(0x1234_5678);

fn record(bed: &Bed, of: NodeId, guids: [u64; 8]) -> GuidInfoRecord {
    GuidInfoRecord {
        lid: bed.address(of).0,
        block: 0,
        guids: GuidInfo(guids.map(Guid)),
    }
}

/// The port's own GUID, and its aliases.
fn with_own(bed: &Bed, of: NodeId, aliases: [u64; 7]) -> [Guid; 8] {
    let mut guids = [gid(bed, of).guid(); 8];
    for (guid, alias) in guids[1..].iter_mut().zip(aliases) {
        *guid = Guid(alias);
    }
    guids
}

#[test]
fn a_port_is_given_aliases_which_it_has_when_the_answer_comes_and_is_reached_by() {
    let (mut bed, manager) = up("star-4");
    let [one, other] = ["h1", "h2"].map(|name| bed.id(name));
    let asked = record(&bed, one, [0, ALIAS.0, 0, 7, 0, 0, 0, 0]);
    // Of those named the second is asked for, the third is to be assigned.
    let set = query(Method::SET, BLOCK | GUID << 1 | GUID << 2, &asked);
    let answer = ask(&mut bed, one, manager, &set);
    assert_eq!(answer.status(), MadStatus::OK);
    let told: GuidInfoRecord = answer.sa_record().unwrap();
    let assigned = told.guids.0[2].0;
    assert_ne!(assigned, 0);
    let expected = with_own(&bed, one, [ALIAS.0, assigned, 0, 0, 0, 0, 0]);
    assert_eq!(told.guids.0, expected);
    assert_eq!(bed.get::<GuidInfo>(one, 0).0, expected, "the port has them");
    // The same again changes nothing, and another port does not get it.
    let again: GuidInfoRecord = ask(&mut bed, one, manager, &set).sa_record().unwrap();
    assert_eq!(again, told);
    let theirs = record(&bed, other, [0, ALIAS.0, 0, 0, 0, 0, 0, 0]);
    let mad = query(Method::SET, BLOCK | GUID << 1, &theirs);
    let answer = ask(&mut bed, other, manager, &mad);
    let told: GuidInfoRecord = answer.sa_record().unwrap();
    assert_eq!(told.guids.0, with_own(&bed, other, [0; 7]));
    // A path to the alias names it, and leads to the port.
    let path = PathRecord {
        sgid: gid(&bed, other),
        dgid: Gid::new(Gid::DEFAULT_PREFIX, ALIAS),
        ..PathRecord::default()
    };
    let mad = query(
        Method::GET,
        path_component::SGID | path_component::DGID,
        &path,
    );
    let answer = ask(&mut bed, other, manager, &mad);
    assert_eq!(answer.status(), MadStatus::OK);
    let found: PathRecord = answer.sa_record().unwrap();
    assert_eq!((found.sgid, found.dgid), (path.sgid, path.dgid));
    assert_eq!(found.dlid, bed.address(one).0);
    // It is told to all, until it is deleted.
    let get = query(Method::GET, 1, &record(&bed, one, [0; 8]));
    let told: GuidInfoRecord = ask(&mut bed, other, manager, &get).sa_record().unwrap();
    assert_eq!(told.guids.0, expected);
    let delete = query(Method::DELETE, BLOCK | GUID << 1, &asked);
    let answer = ask(&mut bed, one, manager, &delete);
    assert_eq!(answer.status(), MadStatus::OK);
    let left = with_own(&bed, one, [0, assigned, 0, 0, 0, 0, 0]);
    assert_eq!(bed.get::<GuidInfo>(one, 0).0, left);
    let answer = ask(&mut bed, other, manager, &mad);
    assert_eq!(answer.status(), MadStatus::SA_NO_RECORDS);
}

#[test]
fn a_port_that_was_restarted_is_given_its_aliases_again() {
    let (mut bed, manager) = up("star-4");
    let one = bed.id("h1");
    let set = query(
        Method::SET,
        BLOCK | GUID << 1,
        &record(&bed, one, [0, ALIAS.0, 0, 0, 0, 0, 0, 0]),
    );
    assert_eq!(ask(&mut bed, one, manager, &set).status(), MadStatus::OK);
    let expected = with_own(&bed, one, [ALIAS.0, 0, 0, 0, 0, 0, 0]);
    bed.set_behind_the_manager(one, 0, &GuidInfo::default());
    let info: wire::attr::PortInfo = bed.get(one, 1);
    // As after a restart it has no LID.
    let blank = wire::attr::PortInfo {
        lid: wire::Lid::ZERO,
        port_state: wire::attr::PortState::NoChange,
        port_phys_state: wire::attr::PortPhysState::NoChange,
        ..info
    };
    bed.set_behind_the_manager(one, 1, &blank);
    let now = bed.now;
    bed.manager(manager).resweep(now);
    bed.run_for(2_000_000_000);
    assert_eq!(bed.get::<GuidInfo>(one, 0).0, expected);
}

#[test]
fn aliases_that_cannot_be_say_why() {
    let (mut bed, manager) = up("star-4");
    let [one, other] = ["h1", "h2"].map(|name| bed.id(name));
    let good = record(&bed, one, [0, ALIAS.0, 0, 0, 0, 0, 0, 0]);
    let beyond = GuidInfoRecord { block: 1, ..good };
    let nowhere = GuidInfoRecord {
        lid: wire::Lid::new(999),
        ..good
    };
    for method in [Method::SET, Method::DELETE] {
        for (from, mask, record, status) in [
            (
                one,
                1 | GUID << 1,
                good,
                MadStatus::SA_INSUFFICIENT_COMPONENTS,
            ),
            (
                one,
                2 | GUID << 1,
                good,
                MadStatus::SA_INSUFFICIENT_COMPONENTS,
            ),
            (one, BLOCK | GUID, good, MadStatus::SA_REQUEST_INVALID),
            (one, BLOCK | GUID << 1, beyond, MadStatus::SA_NO_RECORDS),
            (one, BLOCK | GUID << 1, nowhere, MadStatus::SA_NO_RECORDS),
            (other, BLOCK | GUID << 1, good, MadStatus::SA_DENIED),
        ] {
            let mad = query(method, mask, &record);
            let answer = ask(&mut bed, from, manager, &mad);
            assert_eq!(answer.status(), status, "{mask:#x} {record:?}");
        }
    }
    // Another's own GUID is nobody's alias.
    let taken = gid(&bed, other).guid();
    let mad = query(
        Method::SET,
        BLOCK | GUID << 1,
        &record(&bed, one, [0, taken.0, 0, 0, 0, 0, 0, 0]),
    );
    let told: GuidInfoRecord = ask(&mut bed, one, manager, &mad).sa_record().unwrap();
    assert_eq!(told.guids.0, with_own(&bed, one, [0; 7]));
    // Who shows the SM_Key may ask for every port.
    let mut trusted: Mad = query(Method::SET, BLOCK | GUID << 1, &good);
    let header = trusted.sa_header().unwrap();
    trusted.set_sa_header(&SaHeader {
        sm_key: 1,
        ..header
    });
    let answer = ask(&mut bed, other, manager, &trusted);
    assert_eq!(answer.status(), MadStatus::OK);
}

/// Gives a port an alias as the second of its GUIDs.
fn give(bed: &mut Bed, of: NodeId, manager: NodeId) {
    let asked = record(bed, of, [0, ALIAS.0, 0, 0, 0, 0, 0, 0]);
    let set = query(Method::SET, BLOCK | GUID << 1, &asked);
    assert_eq!(ask(bed, of, manager, &set).status(), MadStatus::OK);
}

/// What administration tells of a port's GUIDs.
fn told(bed: &mut Bed, of: NodeId, manager: NodeId) -> [Guid; 8] {
    let get = query(Method::GET, 1, &record(bed, of, [0; 8]));
    let answer: GuidInfoRecord = ask(bed, of, manager, &get).sa_record().expect("a record");
    answer.guids.0
}

#[test]
fn aliases_outlive_the_manager_whether_it_is_restarted_or_another_one_takes_over() {
    let (mut bed, manager) = up("star-4");
    let [one, successor] = ["h1", "h3"].map(|name| bed.id(name));
    give(&mut bed, one, manager);
    let expected = with_own(&bed, one, [ALIAS.0, 0, 0, 0, 0, 0, 0]);
    let persisted = |bed: &Bed| {
        let texts = bed.events_reported.iter().rev();
        let mut texts = texts.filter_map(|(_, event)| match event {
            SmEvent::PersistAliases(text) => Some(text.clone()),
            _ => None,
        });
        texts.next()
    };
    let text = persisted(&bed);
    bed.stop(manager);
    let config = SmConfig {
        aliases: text.clone(),
        ..SmConfig::default()
    };
    bed.start(manager, config);
    bed.run_until(manager, |status| status.phase == Phase::Up);
    assert_eq!(told(&mut bed, one, manager), expected);
    // The next one has read nothing at its start.
    let config = SmConfig {
        priority: 3,
        ..SmConfig::default()
    };
    bed.start(successor, config);
    let is_standby = |phase: &Phase| matches!(phase, Phase::Standby { .. });
    bed.run_until(successor, |status| is_standby(&status.phase));
    bed.stop(manager);
    // Meanwhile the port is restarted: it is written anew.
    bed.set_behind_the_manager(one, 0, &GuidInfo::default());
    bed.run_until(successor, |status| status.phase == Phase::Up);
    assert_eq!(told(&mut bed, one, successor), expected);
    assert_eq!(bed.get::<GuidInfo>(one, 0).0, expected);
    // What is deleted is so for the next manager, too.
    let asked = record(&bed, one, [0; 8]);
    let delete = query(Method::DELETE, BLOCK | GUID << 1, &asked);
    let answer = ask(&mut bed, one, successor, &delete);
    assert_eq!(answer.status(), MadStatus::OK);
    let left = persisted(&bed).unwrap();
    assert!(!left.contains(&ALIAS.to_string()), "{left}");
}

#[test]
fn a_port_joins_by_an_alias_beside_its_own_gid_and_no_longer_than_it_has_it() {
    let (mut bed, manager) = up("star-4");
    let [one, other] = ["h1", "h2"].map(|name| bed.id(name));
    let by_alias = McMemberRecord {
        port_gid: Gid::new(Gid::DEFAULT_PREFIX, ALIAS),
        ..member(&bed, one)
    };
    let set = query(Method::SET, CREATES, &by_alias);
    let refused = ask(&mut bed, one, manager, &set);
    assert_eq!(refused.status(), MadStatus::SA_INVALID_GID);
    give(&mut bed, one, manager);
    let answer = ask(&mut bed, one, manager, &set);
    assert_eq!(answer.status(), MadStatus::OK);
    let joined: McMemberRecord = answer.sa_record().unwrap();
    assert_eq!((joined.port_gid, joined.mgid), (by_alias.port_gid, GROUP));
    let reaches = |bed: &Bed| reached(bed, other, joined.mlid).contains(&one);
    assert!(reaches(&bed));
    // Each membership is one of its own: the port hears the group until the last one ends.
    let own = query(Method::SET, CREATES, &member(&bed, one));
    assert_eq!(ask(&mut bed, one, manager, &own).status(), MadStatus::OK);
    let leave = query(Method::DELETE, NEEDED, &member(&bed, one));
    assert_eq!(ask(&mut bed, one, manager, &leave).status(), MadStatus::OK);
    assert!(reaches(&bed));
    let asked = record(&bed, one, [0; 8]);
    let delete = query(Method::DELETE, BLOCK | GUID << 1, &asked);
    assert_eq!(ask(&mut bed, one, manager, &delete).status(), MadStatus::OK);
    bed.run_for(50_000_000);
    assert!(!reaches(&bed));
    let gone = ask(&mut bed, one, manager, &set);
    assert_eq!(gone.status(), MadStatus::SA_INVALID_GID);
}
