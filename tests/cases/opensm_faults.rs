//! Links, switches, hosts and masters are lost and come back under stock OpenSM: the fabric carries on,
//! and no host has to be restarted.

use std::time::{Duration, Instant};

use e2e::{Fabric, OpenSm, Transport, paced, within};

/// How long OpenSM may take on a loaded machine to notice a fault.
const LIMIT: Duration = Duration::from_secs(60);
/// How long a takeover may take on a loaded machine.
const TAKEOVER: Duration = Duration::from_secs(10);
/// How long a takeover takes at most, but for the time by which a loaded machine wakes everybody late.
const TAKEOVER_MAX: Duration = Duration::from_secs(2);
/// How soon after SUBNET UP traffic runs again.
const AFTER_UP: Duration = Duration::from_secs(1);
/// OpenSM's own words.
const SUBNET_UP: &str = "SUBNET UP";
/// How long an echo may take before it counts as lost.
const ECHO: Duration = Duration::from_millis(500);

/// Waits until OpenSM has the subnet up once more than `ups` times, and asserts that `holds` is `Ok` when
/// it is asked within [`AFTER_UP`] of that. When ports go down or come up one after the other OpenSM sweeps
/// several times: what does not hold after one sweep has to hold after a further one.
#[track_caller]
fn holds_after_up(
    sm: &mut OpenSm,
    ups: usize,
    what: &str,
    mut holds: impl FnMut() -> Result<(), String>,
) {
    let mut seen = ups;
    let mut why = "OpenSM has not noticed".to_owned();
    loop {
        seen = within(LIMIT, what, || match sm.check_log(SUBNET_UP, seen + 1) {
            Ok(()) => Ok(sm.ups()),
            Err(log) => Err(format!("{why}\n{log}")),
        });
        let since = Instant::now();
        while since.elapsed() <= AFTER_UP {
            match holds() {
                Ok(()) => return,
                Err(last) => why = last,
            }
        }
    }
}

/// `Ok` if a host answers another one.
fn answers(fabric: &Fabric, pair: [&str; 2]) -> Result<(), String> {
    let outcome = fabric.call(&["ping", pair[0], pair[1], "-c", "1", "--timeout", "200"]);
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

    let ups = sm.ups();
    call(&["link", "down", "s1.0.0:3"]);
    holds_after_up(&mut sm, ups, "a cable is pulled", || fabric.ping_all(ECHO));
    let ups = sm.ups();
    call(&["link", "up", "s1.0.0:3"]);
    holds_after_up(&mut sm, ups, "a cable is plugged", || fabric.ping_all(ECHO));

    let ups = sm.ups();
    fabric.kill("s0.0.0");
    holds_after_up(&mut sm, ups, "a root is killed", || fabric.ping_all(ECHO));
    let ups = sm.ups();
    call(&["restart", "s0.0.0"]);
    holds_after_up(&mut sm, ups, "a root is back", || fabric.ping_all(ECHO));

    let ups = sm.ups();
    fabric.kill("h3.1.1");
    holds_after_up(&mut sm, ups, "a host is killed", || {
        answers(&fabric, ["h3.1.0", "h2.0.0"])
    });
    let ups = sm.ups();
    call(&["restart", "h3.1.1"]);
    holds_after_up(&mut sm, ups, "a host is back", || fabric.ping_all(ECHO));
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
