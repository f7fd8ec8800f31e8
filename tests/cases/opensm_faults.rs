//! Links, switches, hosts and masters are lost and come back under stock OpenSM: the fabric carries on,
//! and no host has to be restarted.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use e2e::{Fabric, OpenSm, Transport, paced, within};
use serde_json::Value;

/// How long OpenSM may take on a loaded machine to notice a fault.
const LIMIT: Duration = Duration::from_secs(60);
/// How long a takeover may take on a loaded machine.
const TAKEOVER: Duration = Duration::from_secs(10);
/// The longest takeover, without the time by which a loaded machine wakes its processes late.
const TAKEOVER_MAX: Duration = Duration::from_secs(2);
/// OpenSM's own words.
const SUBNET_UP: &str = "SUBNET UP";
/// OpenSM's words for a trap that it takes in.
const TRAP: &str = "Received Generic Notice";
/// The time from SUBNET UP until all pairs of hosts have answered, without that by which a loaded machine wakes its
/// processes late.
const HEALED_MAX: Duration = Duration::from_secs(1);
/// How long an echo may take before it counts as lost: so many fit into [`HEALED_MAX`] that one that is lost
/// while traps of other ends of a cable have OpenSM write tables anew can be asked for again.
const ECHO: &str = "200";

/// The time from when OpenSM is seen to have the subnet up once more than `ups` times until each of so many hosts
/// has answered each other one; if it sweeps once more before they have, that sweep's end counts.
#[track_caller]
fn healed_after_up(
    sm: &mut OpenSm,
    ups: usize,
    what: &str,
    fabric: &Fabric,
    hosts: u64,
) -> Duration {
    let mut seen = ups;
    loop {
        within(LIMIT, what, || sm.check_log(SUBNET_UP, seen + 1));
        seen = sm.ups();
        let (healed, took) = paced(|| {
            let start = Instant::now();
            loop {
                match all_answer(fabric, hosts) {
                    Err(_) if sm.ups() > seen => return Ok(false),
                    Err(_) if start.elapsed() < TAKEOVER => {}
                    asked => return asked.map(|()| true),
                }
            }
        });
        match healed {
            Ok(true) => return took,
            Ok(false) => {}
            Err(why) => panic!("{what}: {why}\nafter SUBNET UP:\n{}", sm.log()),
        }
    }
}

/// A fault, or its end, of which so many switches tell by a trap. All pairs of so many hosts answer again within a
/// second of SUBNET UP. Returns when OpenSM has taken in all these traps and has swept: no later sweep is the fault's.
#[track_caller]
fn heals(
    sm: &mut OpenSm,
    what: &str,
    traps: usize,
    fault: impl FnOnce(),
    (fabric, hosts): (&Fabric, u64),
) {
    let (ups, before) = (sm.ups(), sm.log().matches(TRAP).count());
    fault();
    let took = healed_after_up(sm, ups, what, fabric, hosts);
    assert!(took < HEALED_MAX, "{what}: {took:?} after SUBNET UP");
    within(LIMIT, what, || {
        sm.check_log(TRAP, before + traps)?;
        let log = sm.log();
        match log.rfind(SUBNET_UP) > log.rfind(TRAP) {
            true => Ok(()),
            false => Err(log),
        }
    });
}

/// `Ok` if so many hosts are reached and each answers each other one.
fn all_answer(fabric: &Fabric, hosts: u64) -> Result<(), String> {
    let call = ["ping", "--all", "--count", "1", "--timeout", ECHO, "--json"];
    let outcome = fabric.call(&call);
    let told: Value = serde_json::from_str(&outcome.stdout).map_err(|_| outcome.to_string())?;
    let pairs = hosts * (hosts - 1);
    match told["answered"] == pairs && told["pairs"] == pairs {
        true => Ok(()),
        false => Err(outcome.to_string()),
    }
}

/// The process of each device.
fn processes(fabric: &Fabric) -> BTreeMap<String, Value> {
    let status = fabric.status();
    let devices = status["devices"].as_array().expect("devices");
    let process = |device: &Value| (device["name"].to_string(), device["pid"].clone());
    devices.iter().map(process).collect()
}

/// What OpenSM logs of a cable or device that is lost while it asks across it: each request that it gives up, and a path
/// that is asked for between its loss and the tables that lead round it.
const SILENCE: [&str; 6] = [
    "ERR 5411", "ERR 3113", "ERR 3119", "ERR 3120", "ERR 331D", "ERR 1F05",
];
/// What it logs of a host that answers that it has no manager any more, as a Linux host does.
const NO_MANAGER: &str = "ERR 3111: Received MAD with error status = 0xC";

#[test]
fn links_switches_and_hosts_are_lost_and_come_back_under_opensm() {
    let fabric = Fabric::up(Transport::Veth, "fat-tree-4-3", &["--sm", "none"]);
    let mut sm = OpenSm::start(&fabric, "h0.0.0", &[]);
    let call = |verb: &[&str]| drop(fabric.call(verb).success());
    let before = processes(&fabric);
    let all = (&fabric, 16);

    let pull = || call(&["link", "down", "s1.0.0:3"]);
    heals(&mut sm, "a cable is pulled", 2, pull, all);
    let plug = || call(&["link", "up", "s1.0.0:3"]);
    heals(&mut sm, "a cable is plugged", 2, plug, all);

    // Each of its four neighbours tells of it.
    let kill = || fabric.kill("s0.0.0");
    heals(&mut sm, "a root is killed", 4, kill, all);
    let restart = || call(&["restart", "s0.0.0"]);
    heals(&mut sm, "a root is back", 4, restart, all);

    let kill = || fabric.kill("h3.1.1");
    heals(&mut sm, "a host is killed", 1, kill, (&fabric, 15));
    let restart = || call(&["restart", "h3.1.1"]);
    heals(&mut sm, "a host is back", 1, restart, all);
    sm.assert_only_errors(&SILENCE);

    // Nobody stands by: the next one finds a subnet that is as the first one left it.
    drop(sm);
    let mut sm = OpenSm::spawn(&fabric, "h2.1.0", &[]);
    let took = healed_after_up(&mut sm, 0, "another master", &fabric, 16);
    assert!(took < HEALED_MAX, "{took:?} after SUBNET UP");
    sm.assert_no_errors();
    drop(sm);
    let mut after = processes(&fabric);
    after.retain(|name, process| before.get(name) != Some(process));
    let restarted: Vec<&String> = after.keys().collect();
    assert_eq!(restarted, ["\"h3.1.1\"", "\"s0.0.0\""]);
    fabric.down();
}

#[test]
fn a_second_opensm_takes_over_when_the_first_dies_and_lids_stay() {
    a_second_opensm_takes_over(Transport::Udp);
}

#[test]
fn a_second_opensm_takes_over_in_shared_memory_too() {
    a_second_opensm_takes_over(Transport::Shm);
}

fn a_second_opensm_takes_over(transport: Transport) {
    let fabric = Fabric::up(transport, "fat-tree-4-2", &["--sm", "none"]);
    let master = OpenSm::start(&fabric, "h0.0", &["-p", "9"]);
    let mut next = OpenSm::spawn(&fabric, "h3.1", &["-p", "5"]);
    next.await_standby(LIMIT, "the second stands by", 1);
    let before = fabric.device("h2.0")["lid"].clone();
    let ((), took) = paced(|| {
        drop(master);
        within(TAKEOVER, "the second is master", || {
            next.check_log("Entering MASTER state", 1)
        });
    });
    assert!(took < TAKEOVER_MAX, "{took:?}");
    let took = healed_after_up(&mut next, 0, "the master is killed", &fabric, 8);
    assert!(took < HEALED_MAX, "{took:?} after SUBNET UP");
    assert_eq!(fabric.device("h2.0")["lid"], before);
    next.assert_only_errors(&[NO_MANAGER]);
    drop(next);
    fabric.assert_no_errors_logged();
    fabric.down();
}

/// Each host asks OpenSM for its paths to the 127 others, a table of many segments. What ends such a
/// transfer must never come to OpenSM as a query of its own (`ERR 1F02`).
#[test]
fn tables_of_paths_for_all_hosts_leave_no_error_in_opensms_log() {
    let fabric = Fabric::up(Transport::Udp, "fat-tree-8-3", &["--sm", "none"]);
    let sm = OpenSm::start(&fabric, "h0.0.0", &["--maxsmps", "32"]);
    fabric
        .all_pairs()
        .expect("OpenSM's tables reach every pair");
    sm.assert_no_errors();
    drop(sm);
    fabric.down();
}
