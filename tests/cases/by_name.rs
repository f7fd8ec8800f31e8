//! Programs of verbs, of librdmacm and of MPI on a fabric of namespaces, where they find each other by name: their own TCP, and the
//! addresses that connections are made to, are those of `ib0`.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use e2e::{Fabric, Outcome, Transport, within};
use netio::process::{Pidfd, Signal};
use tempfile::TempDir;

use crate::libibverbs::Running;
use crate::libibverbs::mpi::{compiled, exchanges, remote_shell};

/// How long a program may take until it waits for its peer.
const START: Duration = Duration::from_secs(60);
/// How late answers may be where ranks, hosts and switches share few processors.
const UP: [&str; 2] = ["--silence-ms", "20000"];

fn exec(fabric: &Fabric, host: &str, program: &[&str]) -> Command {
    let mut call = fabric.command(&["exec", host]);
    call.args(program);
    call
}

/// Whether a program beside a host waits for connections at a TCP port.
fn is_listening(fabric: &Fabric, host: &str, port: u16) -> bool {
    let listing = exec(fabric, host, &["cat", "/proc/net/tcp", "/proc/net/tcp6"]);
    let told = Outcome::of(&mut { listing }).success().stdout;
    let ending = format!(":{port:04X}");
    told.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().take(4).collect();
        matches!(fields[..], [_, own, _, "0A"] if own.ends_with(&ending))
    })
}

/// Whether a program beside a host has begun to listen for connections of librdmacm.
fn listeners(fabric: &Fabric, host: &str) -> usize {
    let log = fabric.dir().join("log").join(format!("{host}.log"));
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.matches("a program listens for connections").count()
}

/// Runs a program beside two hosts; the first waits until `waits` says so, the second connects to it by its name. What the
/// second has printed.
fn pair(
    fabric: &Fabric,
    [server, client]: [&str; 2],
    programs: [&[&str]; 2],
    waits: impl Fn() -> bool,
) -> String {
    let mut waiting = Running::start(&mut exec(fabric, server, programs[0]));
    within(START, "the server listens", || {
        match waits() || waiting.has_ended() {
            true => Ok(()),
            false => Err(format!("{:?}", programs[0])),
        }
    });
    let mut running = Running::start(&mut exec(fabric, client, programs[1]));
    let told = running.end();
    if told.code != 0 {
        waiting.kill();
        panic!("{told}\n{}", waiting.end());
    }
    let _ = waiting.end().success();
    told.stdout
}

/// A command line that ends with the name of the server's host.
fn to<'a>(options: &[&'a str]) -> Vec<&'a str> {
    [options, &["h0.0"]].concat()
}

#[test]
fn perftest_and_programs_of_librdmacm_connect_to_a_host_by_its_name() {
    let fabric = Fabric::up(Transport::Veth, "fat-tree-4-2", &[]);
    let hosts = ["h0.0", "h3.1"];
    let by_tcp = || is_listening(&fabric, hosts[0], 18_515);
    for program in [
        &["ib_write_bw", "-F", "-n", "200", "-s", "4096", "-u", "18"][..],
        &["ib_send_lat", "-F", "-n", "100", "-s", "8", "-u", "18"],
    ] {
        let printed = pair(&fabric, hosts, [program, &to(program)], by_tcp);
        assert!(printed.contains("#bytes"), "{printed}");
    }
    for (server, client, says) in [
        (
            &["ib_send_bw", "-R", "-F", "-n", "100", "-s", "4096"][..],
            to(&["ib_send_bw", "-R", "-F", "-n", "100", "-s", "4096"]),
            "#bytes",
        ),
        (
            &["rping", "-s", "-V", "-C", "10"],
            to(&["rping", "-c", "-V", "-v", "-C", "10", "-a"]),
            "ping data: rdma-ping-9",
        ),
        (
            &["ucmatose", "-c", "2"],
            to(&["ucmatose", "-c", "2", "-s"]),
            "return status 0",
        ),
        (
            &["udaddy", "-c", "2"],
            to(&["udaddy", "-c", "2", "-s"]),
            "return status 0",
        ),
    ] {
        let before = listeners(&fabric, hosts[0]);
        let listens = || listeners(&fabric, hosts[0]) > before;
        let printed = pair(&fabric, hosts, [server, &client], listens);
        assert!(printed.contains(says), "{client:?}: {printed}");
    }
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn ucx_finds_its_peer_over_ib0_and_measures_by_verbs_and_by_tcp() {
    let fabric = Fabric::up(Transport::Veth, "star-2", &UP);
    for settings in [
        ["UCX_TLS=rc_v,self", "UCX_NET_DEVICES=ibemu0:1"],
        ["UCX_TLS=tcp,self", "UCX_NET_DEVICES=ib0"],
    ] {
        let program = [
            &["env", "UCX_RC_VERBS_TIMEOUT=20s"],
            &settings[..],
            &[
                "ucx_perftest",
                "-t",
                "tag_lat",
                "-s",
                "20000",
                "-n",
                "50",
                "-w",
                "5",
            ],
        ];
        let server = program.concat();
        let client = [&server[..], &["h0"]].concat();
        let listens = || is_listening(&fabric, "h0", 13_337);
        let printed = pair(&fabric, ["h0", "h1"], [&server, &client], listens);
        assert!(printed.contains("Final:"), "{settings:?}: {printed}");
    }
    fabric.assert_no_errors_logged();
    fabric.down();
}

/// Four hosts of as many leaves.
const RANKS: [&str; 4] = ["h0.0", "h1.0", "h2.0", "h3.0"];

/// A launcher of MPI beside a host without ranks, whose own messages to the others go over `ib0`. It has nothing of its host's in the
/// environment, which it hands on.
fn launcher(fabric: &Fabric, program: &str) -> Command {
    let mut call = exec(fabric, "h0.1", &["env", "-i", "HOME=/root"]);
    let path = std::env::var("PATH").expect("a path");
    call.arg(format!("PATH={path}"))
        .arg(format!("IBEMU={}", e2e::ibemu().display()))
        .arg(format!("IBEMU_FABRIC={}", fabric.name()))
        .arg(program);
    call
}

#[test]
fn open_mpi_exchanges_between_hosts_over_verbs_and_over_tcp_of_ib0() {
    let folder = TempDir::new().expect("a folder");
    let program = compiled("mpicc.openmpi", folder.path());
    let fabric = Fabric::up(Transport::Veth, "fat-tree-4-2", &UP);
    for messages in [
        &["--mca", "pml", "ucx", "--mca", "btl", "self"][..],
        &["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"],
    ] {
        let mut command = launcher(&fabric, "mpirun.openmpi");
        command
            .args(["--allow-run-as-root", "--mca", "plm_rsh_agent"])
            .arg(remote_shell())
            .args(["--mca", "orte_keep_fqdn_hostnames", "1"])
            .args(["--mca", "plm_rsh_no_tree_spawn", "1"])
            .args(["--mca", "oob_tcp_if_include", "ib0"])
            .args(["--mca", "btl_tcp_if_include", "ib0"])
            .args(["--mca", "mpi_yield_when_idle", "1"])
            .args(messages)
            .args(["-x", "UCX_TLS=rc_v,self"])
            .args(["-x", "UCX_NET_DEVICES=ibemu0:1"])
            .args(["-x", "UCX_RC_VERBS_TIMEOUT=20s"])
            .args(["--host", &RANKS.join(",")])
            .arg(&program);
        exchanges(&fabric, &mut command, &RANKS);
    }
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn mpich_exchanges_between_hosts_whose_launcher_meets_over_ib0() {
    let folder = TempDir::new().expect("a folder");
    let program = compiled("mpicc.mpich", folder.path());
    let fabric = Fabric::up(Transport::Veth, "fat-tree-4-2", &UP);
    let mut command = launcher(&fabric, "mpiexec.hydra");
    command
        .args(["-launcher", "ssh", "-launcher-exec"])
        .arg(remote_shell())
        .args(["-iface", "ib0"])
        .args(["-genv", "UCX_TLS", "rc_v,self"])
        .args(["-genv", "UCX_NET_DEVICES", "ibemu0:1"])
        .args(["-genv", "UCX_RC_VERBS_TIMEOUT", "20s"])
        .args(["-hosts", &RANKS.join(",")])
        .arg(&program);
    exchanges(&fabric, &mut command, &RANKS);
    fabric.assert_no_errors_logged();
    fabric.down();
}

/// All data has come by the time the ranks end; then MPICH 4.0 may wait for ever over TCP of UCX, on any network (docs/verbs.md), so
/// its launcher is interrupted when every rank has told what it got.
#[test]
fn mpich_exchanges_between_hosts_over_tcp_of_ib0() {
    let folder = TempDir::new().expect("a folder");
    let program = compiled("mpicc.mpich", folder.path());
    let fabric = Fabric::up(Transport::Veth, "fat-tree-4-2", &UP);
    let mut command = launcher(&fabric, "mpiexec.hydra");
    command
        .args(["-launcher", "ssh", "-launcher-exec"])
        .arg(remote_shell())
        .args(["-iface", "ib0"])
        .args(["-genv", "UCX_TLS", "tcp,self"])
        .args(["-genv", "UCX_NET_DEVICES", "ib0"])
        .args(["-hosts", &RANKS.join(",")])
        .arg(&program)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut child = command.spawn().expect("ibemu can be started");
    let output = BufReader::new(child.stdout.take().expect("its output"));
    let mut awaited: Vec<String> = RANKS
        .iter()
        .map(|host| format!("beside {host}: 0 wrong"))
        .chain(["wrong in all: 0".to_owned()])
        .collect();
    let mut told = Vec::new();
    for line in output.lines().map(|line| line.expect("text")) {
        awaited.retain(|words| !line.contains(words));
        told.push(line);
        if awaited.is_empty() {
            break;
        }
    }
    let launcher = Pidfd::open(child.id()).expect("it has not been waited for");
    launcher.signal(Signal::INT).expect("it may be ended");
    let _ = child.wait().expect("it can be waited for");
    assert!(awaited.is_empty(), "{awaited:?}: {told:#?}");
    fabric.assert_no_errors_logged();
    fabric.down();
}
