//! Alias GUIDs of ports, asked for of subnet administration as adapters' drivers do for virtual functions: our
//! controller serves them as OpenSM does.

use std::time::Duration;

use e2e::{Fabric, OpenSm, Transport, diags, within};
use wire::attr::GuidInfo;
use wire::mad::{MadStatus, Method};
use wire::sa::GuidInfoRecord;
use wire::{Guid, Lid};

const WRITTEN: Duration = Duration::from_secs(30);
/// Components of GUIDInfoRecord: LID and block, and the GUIDs from the first.
const BLOCK: u64 = 0b11;
const GUID: u64 = 1 << 4;
const ALIAS: &str = "0x00a1a5000000000b";

fn lid(fabric: &Fabric, host: &str) -> u16 {
    let lid = fabric.device(host)["lid"].as_u64().expect("a LID");
    u16::try_from(lid).expect("a LID")
}

fn saquery(fabric: &Fabric, options: &[&str]) -> String {
    let call = [&["saquery"], options].concat();
    let outcome = diags(fabric, "h2", &call);
    format!("{}{}", outcome.stdout, outcome.stderr)
}

/// h1 has an alias set and one assigned, is reached by the first, and gives it back.
fn aliases_are_given_and_taken_away(fabric: &Fabric, manager: &str) {
    let [sm, own] = [manager, "h1"].map(|host| Lid::new(lid(fabric, host)));
    let mut host = fabric.smps("h1");
    let alias = u64::from_str_radix(&ALIAS[2..], 16).expect("a GUID");
    let mut asked = GuidInfoRecord {
        lid: own,
        block: 0,
        guids: GuidInfo::default(),
    };
    asked.guids.0[3] = Guid(alias);
    let answer = host.ask_administration(sm, Method::SET, BLOCK | GUID << 3 | GUID << 5, &asked);
    assert_eq!(answer.status(), MadStatus::OK);
    let told: GuidInfoRecord = answer.sa_record().expect("a record");
    assert_eq!(told.guids.0[3], Guid(alias));
    let assigned = told.guids.0[5];
    assert_ne!(assigned, Guid(0));
    // OpenSM answers before it has written the port.
    let await_table = |host: &mut e2e::Smps, wanted: [Guid; 2]| {
        within(WRITTEN, "the port has its aliases", || {
            let table = host.get::<GuidInfo>(own, 0).0;
            match [table[3], table[5]] == wanted {
                true => Ok(()),
                false => Err(format!("{table:?}")),
            }
        });
    };
    await_table(&mut host, [Guid(alias), assigned]);
    let printed = diags(
        fabric,
        "h2",
        &["smpquery", "GUIDInfo", &own.get().to_string()],
    );
    let printed = printed.success().stdout;
    assert!(printed.contains(ALIAS), "{printed}");
    let records = saquery(fabric, &["GIR", &own.get().to_string()]);
    assert!(records.contains(ALIAS), "{records}");
    let [gid, source] = ["fe80::a1:a500:0:b".to_owned(), port_gid(fabric, "h2")];
    let path = ["PR", "--sgid", &source, "--dgid", &gid];
    let records = saquery(fabric, &path);
    let dlid = format!("dlid....................{}", own.get());
    let is_found = |records: &str| {
        let mut lines = records.lines().map(|line| line.to_lowercase());
        lines.any(|line| line.trim_start().starts_with(&dlid))
    };
    assert!(is_found(&records) && records.contains(&gid), "{records}");
    let delete = host.ask_administration(sm, Method::DELETE, BLOCK | GUID << 3, &asked);
    assert_eq!(delete.status(), MadStatus::OK);
    await_table(&mut host, [Guid(0), assigned]);
    let records = saquery(fabric, &path);
    assert!(!is_found(&records), "{records}");
}

/// The GID of a host's port.
fn port_gid(fabric: &Fabric, host: &str) -> String {
    let printed = diags(fabric, host, &["ibaddr", "-g"]).success().stdout;
    let gid = printed.split_whitespace().last().expect("a GID");
    gid.to_owned()
}

#[test]
fn a_port_is_given_aliases_by_our_controller() {
    let fabric = Fabric::up(Transport::Udp, "star-3", &[]);
    let manager = fabric.status()["sm"]["node"]
        .as_str()
        .expect("a host")
        .to_owned();
    aliases_are_given_and_taken_away(&fabric, &manager);
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn a_port_is_given_aliases_by_opensm() {
    let fabric = Fabric::up(Transport::Udp, "star-3", &["--sm", "none"]);
    let manager = OpenSm::start(&fabric, "h0", &[]);
    aliases_are_given_and_taken_away(&fabric, "h0");
    drop(manager);
    fabric.down();
}
