//! rdma-core's own tests of libibverbs, by its Python module: none fails, and what is skipped is known.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use e2e::{Fabric, Outcome, Transport};

/// Where `tests/run.sh` unpacks Debian's python3-pyverbs.
const UNPACKED: &str = "/usr/local/lib/ibemu-tests/pyverbs/usr";
/// Tests that run, at least: those of devices, protection domains, memory regions, completion queues, queue pairs, address
/// handles, extended queues, atomics, events and forks.
const RUN_MIN: usize = 75;

/// Reasons of the tests to skip themselves, and what is behind them.
const SKIPS: [(&str, &str); 22] = [
    (
        "Can not run the test over non MLX5 device",
        "for another adapter",
    ),
    ("Could not open mlx5 context", "for another adapter"),
    (
        "Can not run the test over non EFA device",
        "for another adapter",
    ),
    ("ODP is not supported", "refused: on-demand paging"),
    (
        "Device memory is not supported",
        "refused: memory of the adapter",
    ),
    (
        "doesn't have net interface",
        "no interface over UDP; tests of librdmacm are our own",
    ),
    (
        "Allocating dmabuf is not supported",
        "the machine has no graphics device",
    ),
    (
        "cuda-python 12.0+ must be installed",
        "the machine has no graphics device",
    ),
    (
        "PCI device must be passed by the user",
        "for another adapter",
    ),
    ("Must be run by root on Ethernet link layer", "for Ethernet"),
    (
        "To Create RAW QP must be done by root on Ethernet link layer",
        "for Ethernet",
    ),
    ("skip RoCE test", "for Ethernet"),
    (
        "No supported port is up, can't run traffic",
        "source ports of UDP: for Ethernet",
    ),
    ("Create XRCD is not supported", "refused: XRC"),
    (
        "Reg MR with MW access is not supported",
        "refused: memory windows",
    ),
    (
        "Create memory window of type 3 is not supported",
        "refused: memory windows",
    ),
    (
        "Create custom mr with additional access flags",
        "refused: memory windows",
    ),
    ("Parent Domain is not supported", "refused: parent domains"),
    (
        "huge pages of size 2M allocated",
        "the machine has none set aside",
    ),
    (
        "Extended CQ is not supported",
        "tag matching, time stamps: of other adapters",
    ),
    (
        "Extended QP is not supported",
        "atomic writes: of other adapters",
    ),
    (
        "mporting a device is not supported",
        "refused: objects of other processes",
    ),
];
/// More of them, which are about clocks.
const CLOCKS: [&str; 3] = [
    "Query device real time is not supported",
    "Converting timestamp to nanoseconds is not supported",
    "Create Extended CQ is not supported",
];

/// rdma-core's tests, beside a host.
fn tests(fabric: &Fabric) -> Command {
    let unpacked = Path::new(UNPACKED);
    let folder = unpacked.join("share/doc/rdma-core");
    assert!(
        folder.join("tests/run_tests.py").exists(),
        "{} is missing: tests/run.sh unpacks python3-pyverbs",
        folder.display()
    );
    let mut call = fabric.command(&["exec", "h0", "/usr/bin/python3", "tests/run_tests.py"]);
    call.args(["--dev", "ibemu0", "--port", "1", "-v"])
        .current_dir(&folder)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PYTHONPATH", unpacked.join("lib/python3/dist-packages"));
    call
}

/// They connect programs of one host over its address on `ib0`.
const CONNECTING: [&str; 10] = [
    "async_ex_leave_multicast_traffic",
    "async_ex_multicast_traffic",
    "async_multicast_traffic",
    "async_read",
    "async_reject_traffic",
    "async_traffic",
    "async_traffic_external_qp",
    "async_udp_traffic",
    "async_write",
    "sync_traffic",
];

/// They ask `ip` for the interface's link-layer address, which a TUN device does not have, and make no use of it on InfiniBand.
const IP: &str = r#"#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin ip "$@" | sed 's/"link_type":"none"/"link_type":"none","address":""/'
"#;

#[test]
fn the_tests_of_rdma_core_about_connections_pass_over_ib0() {
    let folder = tempfile::tempdir().expect("a folder");
    let ip = folder.path().join("ip");
    std::fs::write(&ip, IP).expect("it can be written");
    std::fs::set_permissions(&ip, std::fs::Permissions::from_mode(0o755)).expect("its own file");
    let fabric = Fabric::up(Transport::Veth, "star-2", &["--silence-ms", "20000"]);
    let path = std::env::var("PATH").expect("a path");
    let mut call = tests(&fabric);
    call.args(["-k", "tests.test_rdmacm"])
        .env("PATH", format!("{}:{path}", folder.path().display()));
    let told = Outcome::of(&mut call).success();
    for name in CONNECTING {
        let start = format!("test_rdmacm_{name} (");
        let mut lines = told.stderr.lines();
        let passed = lines.any(|line| line.starts_with(&start) && line.ends_with("... ok"));
        assert!(passed, "{name}: {told}");
    }
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn the_tests_of_rdma_core_pass_and_skip_only_what_is_refused_or_for_other_adapters() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &["--silence-ms", "20000"]);
    let told = Outcome::of(&mut tests(&fabric));
    let lines = || told.stderr.lines();
    let failed: Vec<&str> = lines()
        .filter(|line| line.starts_with("FAIL: ") || line.starts_with("ERROR: "))
        .collect();
    assert!(failed.is_empty(), "{failed:?}: {told}");
    assert!(
        lines().any(|line| line.starts_with("Ran ")),
        "it ends: {told}"
    );
    let passed = lines().filter(|line| line.ends_with("... ok")).count();
    assert!(passed >= RUN_MIN, "{passed} have run: {told}");
    let skipped = lines().filter_map(|line| line.split_once("... skipped "));
    let is_known = |reason: &str| {
        let known = SKIPS.iter().map(|(known, _)| known).chain(&CLOCKS);
        known.into_iter().any(|known| reason.contains(known))
    };
    let unknown: Vec<(&str, &str)> = skipped.filter(|(_, reason)| !is_known(reason)).collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
    fabric.assert_no_errors_logged();
    fabric.down();
}
