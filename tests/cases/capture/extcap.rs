//! Stock tshark finds the ports of a fabric among its interfaces, and captures at one.

use std::path::Path;
use std::process::{Command, Stdio};

use e2e::{Fabric, Outcome, Transport, ibemu_command, within};

use super::LIMIT;

/// tshark with that extcap folder. To root it shows the system's only, whatever the environment says: over which it is mounted, for
/// this program alone.
fn tshark_with(folder: &Path) -> Command {
    if netio::process::effective_uid() != 0 {
        let mut tshark = Command::new("tshark");
        tshark.env("WIRESHARK_EXTCAP_DIR", folder);
        return tshark;
    }
    let folders = Outcome::of(Command::new("tshark").args(["-G", "folders"])).success();
    let mut lines = folders.stdout.lines();
    let path = lines.find_map(|line| line.strip_prefix("Extcap path:"));
    let path = path.expect("an extcap folder").trim();
    let mut tshark = Command::new("unshare");
    let script = "mount --bind \"$0\" \"$1\" && shift && exec tshark \"$@\"";
    tshark.args(["--mount", "--propagation", "private", "sh", "-c", script]);
    tshark.arg(folder).arg(path);
    tshark
}

#[test]
fn tshark_lists_the_ports_of_a_fabric_and_captures_at_one() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &["--no-ip"]);
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join("extcap");
    let place = folder.to_str().expect("UTF-8");
    let call = |arguments: &[&str]| Outcome::of(ibemu_command(&["extcap"]).args(arguments));
    let _ = call(&["--install", "--folder", place]).success();
    let _ = call(&["--install", "--folder", place]).success();
    let tshark = || tshark_with(&folder);

    let listed = Outcome::of(tshark().arg("-D")).success();
    let interface = |end: &str| format!("ibemu.{}.{end}", fabric.name());
    for (end, shown) in [
        ("h0.1", "h0:1"),
        ("h1.1", "h1:1"),
        ("s0.1", "s0:1"),
        ("s0.2", "s0:2"),
    ] {
        let display = format!("(ibemu {} {shown})", fabric.name());
        let is_it = |line: &&str| line.contains(&interface(end)) && line.contains(&display);
        assert!(
            listed.stdout.lines().any(|line| is_it(&line)),
            "{shown}: {listed}"
        );
    }

    let mut capturing = tshark_with(&folder);
    capturing.args([
        "-i",
        &interface("s0.2"),
        "-f",
        "vl=0",
        "-c",
        "6",
        "-T",
        "fields",
    ]);
    capturing.args(["-e", "infiniband.lrh.vl", "-e", "_ws.malformed"]);
    let child = capturing
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.expect("tshark runs");
    within(LIMIT, "tshark has had its packets", || {
        let _ = fabric.call(&["ping", "h0", "h1", "--count", "3"]).success();
        match child.try_wait() {
            Ok(Some(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    let output = child.wait_with_output().expect("tshark ends");
    let captured = Outcome::told("tshark -i".to_owned(), &output).success();
    let lines: Vec<&str> = captured.stdout.lines().map(str::trim_end).collect();
    assert_eq!(lines, ["0x00"; 6], "{captured}");

    // What cannot be begun ends the pipe: otherwise Wireshark waits for its first byte without end.
    for (port, filter, told) in [
        (interface("s0.2"), "port 80", "port 80"),
        ("ibemu.x".to_owned(), "", "ibemu.x"),
    ] {
        let pipe = home.path().join(told);
        let _ = Outcome::of(Command::new("mkfifo").arg(&pipe)).success();
        let ended = {
            let pipe = pipe.clone();
            std::thread::spawn(move || std::fs::read(pipe))
        };
        let fifo = pipe.to_str().expect("UTF-8");
        let capture = [
            ["--capture", "--extcap-interface", &port],
            ["--fifo", fifo, "--extcap-capture-filter"],
        ];
        let outcome = call(&[&capture.concat()[..], &[filter]].concat());
        assert_ne!(outcome.code, 0, "{outcome}");
        assert!(outcome.stderr.contains(told), "{outcome}");
        within(LIMIT, "the pipe ends", || match ended.is_finished() {
            true => Ok(()),
            false => Err(outcome.to_string()),
        });
        assert_eq!(
            ended.join().expect("no panic").expect("a pipe"),
            Vec::<u8>::new()
        );
    }
    let refused =
        Outcome::of(tshark().args(["-i", &interface("s0.2"), "-f", "port 80", "-c", "1"]));
    assert_ne!(refused.code, 0, "{refused}");
    let config = call(&["--extcap-interface", &interface("h0.1"), "--extcap-config"]).success();
    assert!(config.stdout.contains("{call=--snaplen}"), "{config}");
    call(&["--extcap-interface", "ibemu.x", "--extcap-dlts"]).fails_with(1, "ibemu.x");
    call(&[]).fails_with(2, "--install");

    let _ = call(&["--uninstall", "--folder", place]).success();
    call(&["--uninstall", "--folder", place]).fails_with(1, "not there");
    std::fs::write(folder.join("ibemu"), "#!/bin/sh\n").expect("a file");
    call(&["--install", "--folder", place]).fails_with(1, "another program");
    call(&["--uninstall", "--folder", place]).fails_with(1, "another program");
    fabric.down();
}

#[test]
fn a_fabric_with_many_ports_is_one_interface_and_the_port_an_option_of_it() {
    let fabric = Fabric::up(
        Transport::Shm,
        "fat-tree-8-2",
        &["--no-ip", "--verify", "none"],
    );
    let extcap = |arguments: &[&str]| Outcome::of(ibemu_command(&["extcap"]).args(arguments));
    let interface = format!("ibemu.{}", fabric.name());
    let listed = extcap(&["--extcap-interfaces"]).success();
    let own = listed
        .stdout
        .lines()
        .filter(|line| line.contains(&interface));
    let own: Vec<&str> = own.collect();
    let ports = 2 * fabric.status()["links"]["total"].as_u64().expect("a count");
    let display = format!("{{display=ibemu {}, one of {ports} ports}}", fabric.name());
    assert_eq!(own, [format!("interface {{value={interface}}}{display}")]);
    let of = ["--extcap-interface", &interface];
    let config = extcap(&[&of[..], &["--extcap-config"]].concat()).success();
    assert!(config.stdout.contains("{call=--port}"), "{config}");
    let dlts = extcap(&[&of[..], &["--extcap-dlts"]].concat()).success();
    assert!(dlts.stdout.contains("{number=197}"), "{dlts}");

    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    let fifo = pipe.to_str().expect("UTF-8");
    let capture = [&of[..], &["--capture", "--fifo", fifo]].concat();
    for (port, told) in [
        (&[][..], "--port NODE:PORT"),
        (&["--port", "s9.9:1"], "s9.9"),
    ] {
        let _ = Outcome::of(Command::new("mkfifo").arg(&pipe)).success();
        let ended = {
            let pipe = pipe.clone();
            std::thread::spawn(move || std::fs::read(pipe))
        };
        extcap(&[&capture[..], port].concat()).fails_with(1, told);
        assert_eq!(
            ended.join().expect("no panic").expect("a pipe"),
            Vec::<u8>::new()
        );
        std::fs::remove_file(&pipe).expect("the pipe is there");
    }
    // A port that is chosen is captured at.
    let _ = Outcome::of(Command::new("mkfifo").arg(&pipe)).success();
    let mut capturing = ibemu_command(&["extcap"]);
    capturing.args(&capture).args(["--port", "s0.0:1"]);
    let mut capturing = capturing.spawn().expect("ibemu runs");
    let mut tshark = Command::new("tshark");
    tshark.args([
        "-i",
        fifo,
        "-c",
        "4",
        "-T",
        "fields",
        "-e",
        "infiniband.lrh.vl",
    ]);
    let output = tshark.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = output.expect("tshark runs");
    within(LIMIT, "tshark has had its packets", || {
        let _ = fabric.call(&["ping", "--all", "--count", "1"]).success();
        match child.try_wait() {
            Ok(Some(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    let shown = Outcome::told(
        "tshark".to_owned(),
        &child.wait_with_output().expect("it ends"),
    );
    assert_eq!(shown.success().stdout.lines().count(), 4);
    within(LIMIT, "the capture ends with its reader", || {
        let _ = fabric.call(&["ping", "--all", "--count", "1"]).success();
        match capturing.try_wait() {
            Ok(Some(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    fabric.down();
}
