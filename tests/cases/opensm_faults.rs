//! Links, switches, hosts and masters are lost and come back under stock OpenSM: the fabric carries on,
//! and no host has to be restarted.

use std::time::Duration;

use e2e::{Fabric, OpenSm, Transport, paced, within};

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
/// How long an echo may take on a loaded machine before it counts as lost. One that is lost never comes.
const ECHO: Duration = Duration::from_secs(2);
/// How often what must hold after SUBNET UP is asked: traps of other ends of a cable may have OpenSM write
/// tables anew meanwhile.
const TRIES: usize = 2;

/// Waits until OpenSM has the subnet up once more than `ups` times, and asserts that `holds` is `Ok` the first or
/// second time that it is asked then. If OpenSM has swept once more in the meantime, that sweep's end counts.
#[track_caller]
fn holds_after_up(
    sm: &mut OpenSm,
    ups: usize,
    what: &str,
    mut holds: impl FnMut() -> Result<(), String>,
) {
    let mut seen = ups;
    loop {
        within(LIMIT, what, || sm.check_log(SUBNET_UP, seen + 1));
        seen = sm.ups();
        let mut why = String::new();
        for _ in 0..TRIES {
            match holds() {
                Ok(()) => return,
                Err(last) => why = last,
            }
        }
        let log = sm.log();
        assert!(sm.ups() > seen, "{what}: {why}\nafter SUBNET UP:\n{log}");
    }
}

/// A fault, or its end, of which so many switches tell by a trap, after which `holds` must be `Ok` when OpenSM has the
/// subnet up. Returns when OpenSM has taken in all these traps and has swept: no later sweep is the fault's.
#[track_caller]
fn after(
    sm: &mut OpenSm,
    what: &str,
    traps: usize,
    fault: impl FnOnce(),
    holds: impl FnMut() -> Result<(), String>,
) {
    let (ups, before) = (sm.ups(), sm.log().matches(TRAP).count());
    fault();
    holds_after_up(sm, ups, what, holds);
    within(LIMIT, what, || {
        sm.check_log(TRAP, before + traps)?;
        let log = sm.log();
        match log.rfind(SUBNET_UP) > log.rfind(TRAP) {
            true => Ok(()),
            false => Err(log),
        }
    });
}

/// `Ok` if a host answers another one.
fn answers(fabric: &Fabric, pair: [&str; 2]) -> Result<(), String> {
    let outcome = fabric.call(&["ping", pair[0], pair[1], "-c", "1", "--timeout", "2000"]);
    match outcome.code {
        0 => Ok(()),
        _ => Err(outcome.to_string()),
    }
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
    let all_answer = || fabric.ping_all(ECHO);

    let pull = || call(&["link", "down", "s1.0.0:3"]);
    after(&mut sm, "a cable is pulled", 2, pull, all_answer);
    let plug = || call(&["link", "up", "s1.0.0:3"]);
    after(&mut sm, "a cable is plugged", 2, plug, all_answer);

    // Each of its four neighbours tells of it.
    let kill = || fabric.kill("s0.0.0");
    after(&mut sm, "a root is killed", 4, kill, all_answer);
    let restart = || call(&["restart", "s0.0.0"]);
    after(&mut sm, "a root is back", 4, restart, all_answer);

    let others_answer = || answers(&fabric, ["h3.1.0", "h2.0.0"]);
    let kill = || fabric.kill("h3.1.1");
    after(&mut sm, "a host is killed", 1, kill, others_answer);
    let restart = || call(&["restart", "h3.1.1"]);
    after(&mut sm, "a host is back", 1, restart, all_answer);
    sm.assert_only_errors(&SILENCE);
    drop(sm);
    fabric.down();
}

#[test]
fn a_second_opensm_takes_over_when_the_first_dies_and_lids_stay() {
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-2", &["--sm", "none"]);
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
    next.await_master(TAKEOVER, "the second has the subnet up");
    holds_after_up(&mut next, 0, "the master is killed", || {
        fabric.ping_all(ECHO)
    });
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
