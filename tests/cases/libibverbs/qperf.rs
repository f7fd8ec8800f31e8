//! qperf: a server that stays, and its measurements of every service and operation.

use e2e::{Fabric, Outcome, Transport, within};

use super::{Running, START, free_port, is_listening};

/// What it measures, for a second each.
const TESTS: [&str; 9] = [
    "rc_bi_bw",
    "rc_lat",
    "uc_bw",
    "ud_bi_bw",
    "ud_lat",
    "rc_rdma_write_lat",
    "rc_rdma_read_bw",
    "ver_rc_compare_swap",
    "ver_rc_fetch_add",
];

#[test]
fn qperf_measures_every_service_and_operation_and_finds_atomics_right() {
    let fabric = Fabric::up(Transport::Shm, "star-2", &[]);
    let port = free_port();
    let number = port.to_string();
    let mut call = fabric.command(&["exec", "h0", "qperf", "-lp", &number]);
    let mut server = Running::start(&mut call);
    within(START, "the server listens", || {
        match is_listening(port) || server.has_ended() {
            true => Ok(()),
            false => Err(number.clone()),
        }
    });
    let client = ["exec", "h1", "qperf", "-lp", &number, "-t", "1", "h0"];
    let told = fabric.call(&[&client[..], &TESTS].concat());
    let told = told.success().stdout;
    for test in TESTS {
        let of_test = told.split(&format!("{test}:\n")).nth(1);
        let figure = of_test.and_then(|lines| lines.lines().next());
        let is_figure = |line: &str| line.contains(" =  ") && !line.contains(" =  0 ");
        assert!(figure.is_some_and(is_figure), "{test}: {told}");
    }
    let quit = ["exec", "h1", "qperf", "-lp", &number, "h0", "quit"];
    let _ = Outcome::of(&mut fabric.command(&quit));
    let _ = server.end().success();
    fabric.assert_no_errors_logged();
    fabric.down();
}
