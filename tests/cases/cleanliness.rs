//! `down` removes what `up` made and only that, whatever was killed in between.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use e2e::{Fabric, Outcome, Transport, kill};

#[test]
fn nothing_is_left_after_down_even_when_everything_was_killed() {
    for transport in [
        Transport::Veth,
        Transport::Udp,
        Transport::Shm,
        Transport::Tunnel,
    ] {
        let fabric = Fabric::up(transport, "fat-tree-4-2", &[]);
        let status = fabric.status();
        let devices = status["devices"].as_array().expect("devices");
        fabric.kill("supervisor");
        for device in devices.iter().take(4) {
            let pid = device["pid"].as_i64();
            kill(pid.and_then(|pid| i32::try_from(pid).ok()).expect("a pid"));
        }
        fabric.down();
    }
}

#[test]
fn nothing_is_left_after_up_was_killed_half_way() {
    let fabric = Fabric::planned(Transport::Veth);
    // From the first line of progress on, at every line: killed there, cleaned by `down`.
    for lines in 1..=4 {
        let mut command = fabric.up_command("fat-tree-4-3", &[]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut up = command.spawn().expect("up starts");
        let mut progress = BufReader::new(up.stderr.take().expect("stderr")).lines();
        for _ in 0..lines {
            if progress.next().is_none() {
                break;
            }
        }
        up.kill().expect("up is killed");
        let _ = up.wait().expect("up ends");
        let down = fabric.call(&["down"]);
        assert!(
            down.code == 0 || down.stderr.contains("no fabric"),
            "{down}"
        );
    }
    fabric.assert_gone();
}

#[test]
fn an_interrupted_up_cleans_up_after_itself() {
    let fabric = Fabric::planned(Transport::Veth);
    let mut command = fabric.up_command("fat-tree-4-3", &[]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut up = command.spawn().expect("up starts");
    let mut progress = BufReader::new(up.stderr.take().expect("stderr")).lines();
    let _ = progress.next();
    let _ = Outcome::of(std::process::Command::new("kill").args(["-INT", &up.id().to_string()]));
    // Read on, so that a full pipe never holds it up.
    let said: Vec<String> = progress.map_while(Result::ok).collect();
    let status = up.wait().expect("up ends");
    assert_eq!(status.code(), Some(1), "{said:?}");
    fabric.assert_gone();
}

#[test]
fn down_touches_no_namespace_that_up_did_not_make() {
    let fabric = Fabric::up(Transport::Veth, "star-2", &[]);
    // One that looks like the fabric's own.
    let stranger = format!("{}.stranger", fabric.name());
    let add = Outcome::of(std::process::Command::new("ip").args(["netns", "add", &stranger]));
    assert_eq!(add.code, 0, "{add}");
    let _ = fabric.call(&["down"]).success();
    let stands = std::path::Path::new("/run/netns").join(&stranger).exists();
    let _ = Outcome::of(std::process::Command::new("ip").args(["netns", "delete", &stranger]));
    assert!(stands, "down removed a namespace that it did not make");
    fabric.assert_gone();
}

#[test]
fn a_name_in_use_is_refused_and_what_uses_it_stays() {
    let fabric = Fabric::planned(Transport::Veth);
    let taken = format!("{}.h1", fabric.name());
    let add = Outcome::of(std::process::Command::new("ip").args(["netns", "add", &taken]));
    assert_eq!(add.code, 0, "{add}");
    let refused = fabric.try_up("star-2", &[]);
    let stands = std::path::Path::new("/run/netns").join(&taken).exists();
    let _ = Outcome::of(std::process::Command::new("ip").args(["netns", "delete", &taken]));
    refused.fails_with(1, &taken);
    assert!(stands, "the namespace in use was removed");
    fabric.assert_gone();
}

#[test]
fn a_second_up_of_one_name_is_refused_and_the_first_stands() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    fabric.try_up("star-2", &[]).fails_with(1, "down");
    fabric.all_pairs().expect("the first fabric still stands");
    fabric.down();
}
