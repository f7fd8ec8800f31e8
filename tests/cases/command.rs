//! The command at a shell: what is shown again and again, what is left out, and how a command beside a node ends.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use e2e::{Fabric, Transport};
use serde_json::Value;

#[test]
fn status_shows_what_is_asked_for_until_its_reader_has_gone() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &["--no-ip"]);
    let whole = fabric.call(&["status"]).success().stdout.clone();
    let engine = fabric.status()["sm"]["engine"]
        .as_str()
        .expect("an engine")
        .to_owned();
    assert!(engine.contains(" ("), "no reason: {engine}");
    assert!(
        !whole.contains(&engine),
        "the reason was not asked for: {whole}"
    );
    let verbose = fabric
        .call(&["status", "--verbose"])
        .success()
        .stdout
        .clone();
    assert!(verbose.contains(&engine), "{verbose}");

    let names = |filter: &[&str]| -> Vec<String> {
        let mut arguments = vec!["status", "--json"];
        arguments.extend(filter.iter().flat_map(|glob| ["--filter", glob]));
        let status: Value = fabric.call(&arguments).success().json();
        let devices = status["devices"].as_array().expect("devices").iter();
        devices
            .map(|device| device["name"].as_str().expect("a name").to_owned())
            .collect()
    };
    assert_eq!(names(&["h*"]), ["h0", "h1"]);
    assert_eq!(names(&["switch", "controller"]), ["s0", "controller"]);
    assert_eq!(names(&["hung"]), [""; 0]);

    let mut watch = fabric
        .command(&["status", "--json", "--watch=0.01", "--filter", "h0"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("ibemu starts");
    let lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    for line in lines.take(3) {
        let status: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        assert_eq!(status["devices"][0]["state"], "running");
    }
    // The pipe is closed.
    assert!(watch.wait().expect("an end").success());
}

#[test]
fn a_command_that_cannot_be_run_beside_a_node_ends_as_at_a_shell() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &["--no-ip"]);
    let missing = fabric.call(&["exec", "h0", "no-such-program"]);
    missing.fails_with(127, "cannot run no-such-program");
    fabric
        .call(&["exec", "h0", "/etc/passwd"])
        .fails_with(126, "cannot run /etc/passwd");
    fabric
        .call(&["exec", "h0", "sh", "-c", "exit 7"])
        .fails_with(7, "");
    let beside_switch = fabric.call(&["exec", "s0", "true"]);
    assert_eq!(beside_switch.code, 0, "{beside_switch}");
    for words in ["s0 is a switch", "ibemu exec h0"] {
        assert!(beside_switch.stderr.contains(words), "{beside_switch}");
    }
}
