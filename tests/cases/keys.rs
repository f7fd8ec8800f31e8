//! A subnet that is protected by keys, under stock infiniband-diags.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use e2e::{Fabric, Transport, diags, ibnetdiscover, within};
use tempfile::TempDir;
use topologies::{Endpoint, Graph};
use wire::PortNum;

/// A key that no other test has: command lines of stock programs show theirs.
static KEY: LazyLock<String> =
    LazyLock::new(|| format!("0x1b3dfeed{:08x}", 0x5000_0000 | std::process::id()));
const RECOVERY: Duration = Duration::from_secs(30);

/// A file with the key that no other user can read.
fn key_file() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("key");
    fs::write(&path, format!("# of this test\n{}\n", *KEY)).expect("a file");
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
        let call = [&["smpquery"], options, &["portinfo", &lid, "0"]].concat();
        diags(&fabric, "h1.1", &call)
    };
    let refused = query(&["-t", "300"]);
    assert_ne!(refused.code, 0, "{refused}");
    let wrong = query(&["-t", "300", "-y", "0x1"]);
    assert_ne!(wrong.code, 0, "{wrong}");
    let answered = query(&["-y", &KEY, "-K"]).success();
    assert!(answered.stdout.contains(KEY.as_str()), "{answered}");
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
    let set = |what: &str| {
        diags(
            &fabric,
            "h1",
            &["ibportstate", "-y", &KEY, &lid, port, what],
        )
    };
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
                "smpquery", "-t", "300", "-K", "-y", &KEY, "portinfo", &lid, "0",
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

/// The port GUID of a host.
fn port_guid(graph: &Graph, name: &str) -> String {
    let host = graph.find(name).expect("a host");
    format!("{:#x}", graph.node(host).guid.0 + 1)
}

/// A stock program reads the P_Key tables of a host and of its switch port.
fn stock_programs_read_the_tables(fabric: &Fabric, graph: &Graph) {
    let lid = |name: &str| fabric.device(name)["lid"].to_string();
    let table = |asked: &[&str]| {
        let call = [&["smpquery", "pkeys"], asked].concat();
        diags(fabric, "h0", &call).success().stdout
    };
    let held = table(&[&lid("h2")]);
    assert!(held.contains("0x7fff 0x0005 0x0000"), "{held}");
    let at = graph.peer(Endpoint {
        node: graph.find("h1").expect("a host"),
        port: PortNum::new(1),
    });
    let at = at.expect("a cable").port.to_string();
    let held = table(&[&lid("s0"), &at]);
    assert!(held.contains("0xffff 0x8005 0x0000"), "{held}");
}

#[test]
fn hosts_of_other_partitions_do_not_reach_each_other_and_that_is_said() {
    let graph = topologies::parse("star-4").expect("a topology").graph;
    let guid = |name: &str| port_guid(&graph, name);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("partitions.conf");
    let text = format!(
        "Red = 0x5 : {} = full, {} ;\nBlue = 0x6 : {} = full ;\n",
        guid("h1"),
        guid("h2"),
        guid("h3")
    );
    fs::write(&path, &text).expect("a file");
    let name = path.to_str().expect("UTF-8");
    let fabric = Fabric::planned(Transport::Udp);
    let up = fabric.try_up("star-4", &["--partitions", name]).success();
    // h0 is the manager's, so a full member of the default partition.
    assert!(up.stdout.contains("all 8 pairs of hosts answer"), "{up}");
    assert!(up.stdout.contains("4 others have no partition"), "{up}");
    for (from, to) in [("h1", "h2"), ("h2", "h1"), ("h0", "h3"), ("h3", "h0")] {
        let _ = fabric.call(&["ping", from, to, "--count", "2"]).success();
    }
    let apart = "no partition in common";
    for (from, to) in [("h1", "h3"), ("h3", "h2")] {
        fabric.call(&["ping", from, to]).fails_with(1, apart);
        fabric.call(&["path", from, to]).fails_with(1, apart);
    }
    let all = fabric.call(&["ping", "--all"]);
    assert!(all.stdout.contains(apart), "{all}");

    stock_programs_read_the_tables(&fabric, &graph);
    let lid = |name: &str| fabric.device(name)["lid"].to_string();

    // Counters of a limited member are for full ones: the default partition's queue pair 1.
    let _ = diags(&fabric, "h0", &["perfquery", &lid("h3"), "1"]).success();
    let asked = diags(&fabric, "h1", &["perfquery", "-t", "300", &lid("h3"), "1"]);
    assert_ne!(asked.code, 0, "{asked}");
    within(RECOVERY, "the status tells of it", || {
        let text = fabric.status()["sm"]["warnings"].to_string();
        match text.contains("h3 has dropped a packet of h1 with P_Key 0x7fff") {
            true => Ok(()),
            false => Err(text),
        }
    });
    let _ = fabric.call(&["restart", "h2"]).success();
    within(
        RECOVERY,
        "a restarted host is in its partition again",
        || {
            let ping = fabric.call(&["ping", "h1", "h2", "--count", "1"]);
            match ping.code {
                0 => Ok(()),
                _ => Err(ping.to_string()),
            }
        },
    );
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn partitions_that_cannot_be_read_are_refused_with_their_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("partitions.conf");
    let name = path.to_str().expect("UTF-8");
    let up = |options: &[&str]| {
        let fabric = Fabric::planned(Transport::Udp);
        let outcome = fabric.try_up("star-2", options);
        fabric.assert_gone();
        outcome
    };
    fs::write(&path, "Red = 5 : ALL ;\nBlue = 6 : h1 ;\n").expect("a file");
    up(&["--partitions", name]).fails_with(2, "line 2: \"h1\" is no port");
    up(&["--partitions", "/nowhere"]).fails_with(2, "/nowhere");
    up(&["--partitions", name, "--sm", "none"]).fails_with(2, "-P");
}

#[test]
fn subnet_administration_shows_tables_and_members_to_requests_with_its_key() {
    let (_folder, path) = key_file();
    let name = path.to_str().expect("UTF-8");
    let fabric = Fabric::up(Transport::Udp, "star-3", &["--sa-key", name]);
    let asked = |options: &[&str]| {
        let call = [&["saquery"], options, &["PKTR"]].concat();
        diags(&fabric, "h1", &call)
    };
    // Without an option saquery gives 1, the key that OpenSM trusts by itself: one that is wrong is not answered.
    let refused = asked(&[]);
    assert!(!refused.stdout.contains("PKeyTable"), "{refused}");
    let shown = asked(&["--smkey", &KEY]).success();
    assert!(shown.stdout.contains("0xffff"), "{shown}");
    let group = fabric.call(&["mcast", "join", "h1", "h2"]).success();
    let groups = fabric.call(&["mcast", "groups"]).success();
    assert!(
        groups.stdout.contains("h1"),
        "our own commands know it: {groups}{group}"
    );
    for (path, bytes) in processes() {
        assert!(!holds_key(&bytes), "{}", path.display());
    }
    fabric.down();
}
