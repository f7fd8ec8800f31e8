//! A subnet that is protected by keys, under stock infiniband-diags.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::{Fabric, Transport, diags, ibnetdiscover, within};
use tempfile::TempDir;

const KEY: &str = "0x1b3dfeed5eed0c0d";
const RECOVERY: Duration = Duration::from_secs(30);

/// A file with the key that nobody else can read.
fn key_file() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("key");
    fs::write(&path, format!("# of this test\n{KEY}\n")).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("permissions");
    (folder, path)
}

fn protected(topology: &str, protection: &str) -> (Fabric, TempDir) {
    let (folder, path) = key_file();
    let path = path.to_str().expect("UTF-8");
    let options = ["--m-key", path, "--m-key-protection", protection];
    (Fabric::up(Transport::Udp, topology, &options), folder)
}

/// The files of a directory and those below it, but for sockets.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a directory").flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files(&entry.path())),
            Ok(kind) if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found
}

/// The command lines and environments of all processes that this user may read.
fn processes() -> Vec<(PathBuf, Vec<u8>)> {
    let numbers = fs::read_dir("/proc").expect("/proc").flatten();
    let folders = numbers.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
    });
    folders
        .flat_map(|folder| ["cmdline", "environ"].map(|name| folder.join(name)))
        .filter_map(|path| Some((path.clone(), fs::read(path).ok()?)))
        .collect()
}

fn holds_key(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).to_lowercase();
    let digits = KEY.trim_start_matches("0x");
    let number = u64::from_str_radix(digits, 16).expect("hexadecimal");
    text.contains(digits) || text.contains(&number.to_string())
}

#[test]
fn stock_diagnostics_are_answered_only_with_the_m_key_and_others_are_told() {
    let (fabric, _folder) = protected("fat-tree-4-2", "2");
    fabric.all_pairs().expect("data needs no M_Key");
    let lid = fabric.device("s1.0")["lid"].to_string();
    let query = |options: &[&str]| {
        let call = [
            &["smpquery"],
            options,
            &["-t", "300", "portinfo", &lid, "0"],
        ]
        .concat();
        diags(&fabric, "h1.1", &call)
    };
    let refused = query(&[]);
    assert_ne!(refused.code, 0, "{refused}");
    let wrong = query(&["-y", "0x1"]);
    assert_ne!(wrong.code, 0, "{wrong}");
    let answered = query(&["-y", KEY, "-K"]).success();
    assert!(answered.stdout.contains(KEY), "{answered}");
    let line = |name: &str| {
        let mut lines = answered.stdout.lines();
        let line = lines.find(|line| line.starts_with(name));
        line.and_then(|line| line.rsplit('.').next())
            .map(str::to_owned)
    };
    assert_eq!(line("ProtectBits:").as_deref(), Some("2"), "{answered}");
    assert_ne!(line("MkeyViolations:").as_deref(), Some("0"), "{answered}");

    within(RECOVERY, "the status tells of the requests", || {
        let status = fabric.status();
        let text = status["sm"]["warnings"].to_string();
        let told = "s1.0 has refused a Get of PortInfo with a wrong M_Key, by h1.1 (LID";
        match text.contains(told) {
            true => Ok(()),
            false => Err(text),
        }
    });
    // Our own commands know the key.
    let _ = fabric.call(&["path", "h0.0", "h3.1"]).success();
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn with_protection_of_what_is_set_stock_diagnostics_read_and_set_only_with_the_m_key() {
    let (fabric, _folder) = protected("star-4", "1");
    let listed = ibnetdiscover(&fabric, "h1");
    assert!(listed.contains("h2"), "{listed}");
    let lid = fabric.device("s0")["lid"].to_string();
    let port = "3";
    let active = |wanted: u64| {
        within(RECOVERY, "so many links are active", || {
            let active = fabric.status()["links"]["active"].as_u64();
            match active == Some(wanted) {
                true => Ok(()),
                false => Err(format!("{active:?} are")),
            }
        });
    };
    let shown = diags(&fabric, "h1", &["smpquery", "-K", "portinfo", &lid, "0"]).success();
    assert!(!holds_key(shown.stdout.as_bytes()), "{shown}");
    let disable = ["ibportstate", "-t", "300", &lid, port, "disable"];
    let refused = diags(&fabric, "h1", &disable);
    assert_ne!(refused.code, 0, "{refused}");
    active(4);
    let set = |what: &str| diags(&fabric, "h1", &["ibportstate", "-y", KEY, &lid, port, what]);
    let _ = set("disable").success();
    active(3);
    let _ = set("enable").success();
    active(4);
    fabric.down();
}

#[test]
fn the_m_key_outlives_the_controller_and_shows_in_no_command_line_log_or_status() {
    let (fabric, _folder) = protected("fat-tree-4-2", "2");
    let lid = fabric.device("s0.0")["lid"].to_string();
    let before = fabric.status()["sm"]["generation"].as_u64();
    assert_eq!(before.map(|number| number > 0), Some(true));
    let _ = fabric.call(&["restart", "controller"]).success();
    within(RECOVERY, "the new controller has the subnet up", || {
        let status = fabric.status();
        match (&status["sm"]["phase"], &status["sm"]["switches"]) {
            (phase, switches) if phase == "up" && switches == 6 => Ok(()),
            _ => Err(status["sm"].to_string()),
        }
    });
    let _ = fabric.call(&["restart", "s0.0"]).success();
    within(
        RECOVERY,
        "a switch that was restarted has the key again",
        || {
            let asked = [
                "smpquery", "-t", "300", "-K", "-y", KEY, "portinfo", &lid, "0",
            ];
            let asked = diags(&fabric, "h0.0", &asked);
            match holds_key(asked.stdout.as_bytes()) {
                true => Ok(()),
                false => Err(asked.to_string()),
            }
        },
    );
    let wrong = ["smpquery", "-t", "300", "-y", "0x1", "nodeinfo", &lid];
    assert_ne!(diags(&fabric, "h0.0", &wrong).code, 0);

    for text in [
        fabric.call(&["status"]).success().stdout,
        fabric.status().to_string(),
    ] {
        assert!(!holds_key(text.as_bytes()), "{text}");
    }
    for path in files(&fabric.dir()) {
        let is_key = path.file_name().is_some_and(|name| name == "m_key");
        let bytes = fs::read(&path).expect("a file");
        assert_eq!(holds_key(&bytes), is_key, "{}", path.display());
        if is_key {
            let mode = fs::metadata(&path).expect("a file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
    for (path, bytes) in processes() {
        assert!(!holds_key(&bytes), "{}", path.display());
    }
    fabric.down();
}

#[test]
fn a_key_file_that_others_can_read_or_that_holds_no_key_is_refused_before_anything_is_made() {
    let (_folder, path) = key_file();
    let name = path.to_str().expect("UTF-8");
    let up = |options: &[&str]| {
        let fabric = Fabric::planned(Transport::Udp);
        let outcome = fabric.try_up("star-2", options);
        fabric.assert_gone();
        outcome
    };
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("permissions");
    up(&["--m-key", name]).fails_with(2, "chmod 600");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("permissions");
    fs::write(&path, "0\n").expect("a file");
    up(&["--m-key", name]).fails_with(2, "line 1");
    up(&["--m-key", "/nowhere"]).fails_with(2, "/nowhere");
    up(&["--m-key", "random", "--sm", "none"]).fails_with(2, "your subnet manager");
    up(&["--m-key-protection", "2"]).fails_with(2, "--m-key");
    up(&["--m-key", "random", "--m-key-protection", "4"]).fails_with(2, "0..=3");
}
