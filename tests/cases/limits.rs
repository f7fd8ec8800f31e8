//! What runs out - room on the disk, places at sockets, names that others have taken - ends no process
//! of a fabric, and is named.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use e2e::{Fabric, Outcome, Transport, ibemu};
use netio::seqpacket::BlockingConnection;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(20);

/// Brings a fabric up with its files on a disk of its own, mounted with `options` in a private mount
/// namespace, and takes it down again. Says `left` on standard error if something stays.
fn up_on_a_disk(disk: &Path, options: &str) -> Outcome {
    let kept_logs = tempfile::tempdir().expect("a folder");
    let script = r#"
        mount -t tmpfs -o "mode=0700,$OPTIONS" ibemu "$IBEMU_RUNTIME_DIR" || exit 77
        "$IBEMU" up star-2 --fabric x --transport udp --verify none
        code=$?
        [ "$code" -ne 0 ] || "$IBEMU" status --fabric x >&2 || code=78
        [ "$code" -ne 0 ] || "$IBEMU" down --fabric x >&2 || code=79
        [ ! -e "$IBEMU_RUNTIME_DIR/x" ] || echo left >&2
        exit "$code"
    "#;
    Outcome::of(
        Command::new("unshare")
            .args(["--mount", "sh", "-c", script])
            .env("OPTIONS", options)
            .env("IBEMU", ibemu())
            .env("IBEMU_RUNTIME_DIR", disk)
            .env("TMPDIR", kept_logs.path()),
    )
}

#[test]
fn up_on_a_full_disk_names_the_cause_or_does_without_logs() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut failed, mut stood) = (0, 0);
    let pages = [1, 2, 3, 4, 6, 8, 32].map(|pages| format!("size={}k", 4 * pages));
    let inodes = [4, 7, 10].map(|inodes| format!("nr_inodes={inodes}"));
    for options in pages.iter().chain(&inodes) {
        let outcome = up_on_a_disk(folder.path(), options);
        assert!(
            !outcome.stderr.contains("panicked") && !outcome.stderr.contains("left\n"),
            "{options}: {outcome}"
        );
        if outcome.code == 0 {
            stood += 1;
        } else {
            failed += 1;
            outcome.fails_with(1, "No space left on device");
        }
    }
    assert!(failed > 0 && stood > 0, "{failed} failed, {stood} stood");
}

/// Clients of a socket that ask nothing.
fn crowd(fabric: &Fabric, socket: &str) -> Vec<BlockingConnection> {
    let path = fabric.dir().join(socket);
    (0..200)
        .map(|number| {
            BlockingConnection::connect(&path, CONNECT)
                .unwrap_or_else(|error| panic!("client {number} of {socket}: {error}"))
        })
        .collect()
}

#[test]
fn two_hundred_idle_clients_at_each_socket_keep_no_other_out() {
    netio::process::raise_open_files(2000).expect("open files");
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    let sockets = [
        "h0.ctl",
        "s0.ctl",
        "h0.mad",
        "controller.ctl",
        "supervisor.sock",
    ];
    let crowds = sockets.map(|socket| crowd(&fabric, socket));
    let status = fabric.status();
    for device in status["devices"].as_array().expect("devices") {
        assert_eq!(device["state"], "running", "{device}");
    }
    assert_eq!(status["sm"]["phase"], "up", "{status:#}");
    fabric.all_pairs().expect("all pairs answer");
    drop(crowds);
    fabric.assert_no_errors_logged();
    fabric.down();
}

/// The base of the abstract names of a host's sockets, as a program beside it is told.
fn umad_base(fabric: &Fabric, host: &str) -> String {
    let told = fabric.call(&["exec", "--umad2sim", host, "printenv", "IBSIM_SOCKNAME"]);
    told.success().stdout.trim().to_owned()
}

#[test]
fn a_host_whose_names_were_taken_while_it_was_down_comes_back_under_others() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    let before = umad_base(&fabric, "h1");
    let pid = fabric.pid("h1").to_string();
    let killed = Outcome::of(Command::new("kill").args(["-9", &pid]));
    let _ = killed.success();
    let taken = ["ctl", "out0"].map(|part| {
        let name = format!("{before}:{part}\0");
        let address = SocketAddr::from_abstract_name(name).expect("an address");
        e2e::within(CONNECT, "the name is free", || {
            UnixDatagram::bind_addr(&address).map_err(|error| error.to_string())
        })
    });
    let _ = fabric.call(&["restart", "h1"]).success();
    assert_ne!(umad_base(&fabric, "h1"), before);
    drop(taken);
    fabric.down();
}
