//! What a program asks wrongly ends in the status of its completion or the errno of its call, and disturbs nothing.

use std::process::Command;

use e2e::{Fabric, Outcome, Transport};

const PROGRAM: &str = include_str!("refused.c");

/// A host whose two ports are joined by a switch.
const TOPOLOGY: &str = r#"
Switch 2 "leaf"
[1] "both HCA-1"[1]
[2] "both HCA-1"[2]

Hca 2 "both HCA-1"
[1] "leaf"[1]
[2] "leaf"[2]
"#;

/// Numbers of `ibv_wc_status` (IBA 10.10.3; 9.7.5 has the answers that they come from), and of Linux's errors.
const TOLD: &str = "\
WRITE with a key of nothing: status 10
WRITE beyond a region: status 10
READ without the region's right: status 10
WRITE with a key that was given up: status 10
WRITE without the queue pair's right: status 9
atomic at half a number: status 9
SEND with a local key of nothing: status 4
SEND longer than its receive request: status 9
its receive request: status 1
SEND without a receive request: status 13
SEND to a queue pair that is not there: status 12
SEND to a LID without a path: status 12
SEND: status 0
its receive request: status 0
datagram longer than the MTU: status 1
a queue pair of too many requests: errno 22
a queue pair of too many pieces: errno 22
a queue pair of too much inline data: errno 22
a queue pair of a service that is refused: errno 95
a completion queue of too many: errno 22
a completion queue of none: errno 22
a region that may be written and not read: errno 22
a region of no memory: errno 14
a handle of a port that is not there: errno 22
a GID that is not there: errno 22
a domain that is used: errno 16
a completion queue that is used: errno 16
a state that does not follow: errno 22
a request of too many pieces: errno 22
a request of an operation that is not there: errno 22
a request that the queue has no room for: errno 12
a request before the queue pair is connected: errno 22
";

#[test]
fn what_is_asked_wrongly_ends_in_its_status_or_errno_and_the_next_request_is_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("refused.c"), PROGRAM).expect("it can be written");
    std::fs::write(at("both.net"), TOPOLOGY).expect("it can be written");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-Wall", "-Wextra", "-Werror"])
        .arg(at("refused.c"));
    compiler.arg("-libverbs").arg("-o").arg(at("refused"));
    let _ = Outcome::of(&mut compiler).success();
    let topology = at("both.net");
    let fabric = Fabric::up(Transport::Udp, topology.to_str().expect("UTF-8"), &[]);
    let mut call = fabric.command(&["exec", "both_HCA-1"]);
    let told = Outcome::of(call.arg(at("refused"))).success();
    assert_eq!(told.stdout, TOLD);
    fabric.assert_no_errors_logged();
    fabric.down();
}
