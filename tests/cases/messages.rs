//! What cannot be done says what was wrong, where, and what to do; and leaves nothing behind.

use std::collections::BTreeMap;
use std::fs::File;
use std::process::{Command, Stdio};

use e2e::{Fabric, Outcome, Transport, ibemu, ibemu_command};
use serde_json::json;

#[test]
fn a_topology_that_cannot_be_is_a_usage_error_with_its_reason() {
    for (topology, reason) in [
        ("fat-tree-5-2", "even"),
        ("fat-tree-4", "fat-tree-M-N"),
        ("fat-tre-4-3", "fat-tree"),
        ("mesh-0x3-1", "mesh"),
        ("irregular-4-1-5-1", "degree"),
        ("fat-tree-64-4", "LID"),
        ("no/such/file.topo", "no/such/file.topo"),
    ] {
        let fabric = Fabric::planned(Transport::Udp);
        let refused = fabric.try_up(topology, &[]);
        assert_eq!(refused.code, 2, "{refused}");
        assert!(
            refused
                .stderr
                .to_lowercase()
                .contains(&reason.to_lowercase()),
            "no {reason:?} in {refused}"
        );
        fabric.assert_gone();
    }
}

#[test]
fn a_dangling_link_in_a_file_is_told_with_its_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("broken.net");
    std::fs::write(
        &path,
        "Switch 4 \"s0\"\n[1] \"h0\"[1]\n[2] \"h9\"[1]\n\nHca 1 \"h0\"\n[1] \"s0\"[1]\n",
    )
    .expect("a file");
    let fabric = Fabric::planned(Transport::Udp);
    let refused = fabric.try_up(path.to_str().expect("UTF-8"), &[]);
    refused.fails_with(2, "h9");
    refused.fails_with(2, "line 3");
    fabric.assert_gone();
}

#[test]
fn a_routing_that_cannot_be_applied_says_why_and_leaves_nothing() {
    let fabric = Fabric::planned(Transport::Udp);
    let refused = fabric.try_up("ring-5-1", &["--routing", "mlid"]);
    refused.fails_with(2, "mlid");
    fabric.assert_gone();
}

#[test]
fn options_that_do_not_go_together_are_refused_before_anything_starts() {
    for (topology, options, word) in [
        ("star-2", &["--qos", "vlarb01", "--vls", "1"][..], "--vls"),
        ("star-2", &["--windows", "60"], "--routing clos"),
        (
            "fat-tree-4-2",
            &["--routing", "mlid", "--lmc", "3"],
            "LMC 3",
        ),
        ("star-2", &["--sm", "none", "--qos", "vlarb01"], "--sm none"),
        (
            "star-2",
            &["--sm", "none", "--routing", "file", "--tables", "/x"],
            "/x",
        ),
    ] {
        let fabric = Fabric::planned(Transport::Udp);
        let refused = fabric.try_up(topology, options);
        refused.fails_with(2, word);
        assert!(!refused.stderr.contains("fabric"), "it began: {refused}");
        fabric.assert_gone();
    }
}

#[test]
fn an_unknown_node_or_port_is_named() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    for call in [
        &["ping", "h0", "h7"][..],
        &["path", "h7", "h0"],
        &["exec", "h7", "true"],
        &["restart", "h7"],
        &["link", "down", "h7:1"],
    ] {
        let refused = fabric.call(call);
        assert_ne!(refused.code, 0, "{refused}");
        assert!(refused.stderr.contains("h7"), "{refused}");
    }
    let refused = fabric.call(&["link", "down", "s0:9"]);
    assert_ne!(refused.code, 0, "{refused}");
    assert!(refused.stderr.contains('9'), "{refused}");
    fabric.down();
}

#[test]
fn a_fabric_that_does_not_exist_is_an_error_of_one_line() {
    for verb in [
        &["status"][..],
        &["down"],
        &["ping", "h0", "h1"],
        &["exec", "h0", "true"],
        &["events"],
    ] {
        let mut arguments = vec![verb[0], "--fabric", "nosuchfabric"];
        arguments.extend(&verb[1..]);
        let refused = Outcome::of(&mut ibemu_command(&arguments));
        refused.fails_with(1, "nosuchfabric");
    }
}

/// Every option of `ibemu up`, and its default as the help tells it.
const DEFAULTS_OF_UP: &[(&str, &str)] = &[
    ("--fabric", "ib]"),
    ("--only", "all]"),
    ("--without", "all stay]"),
    ("--hosts-per-leaf", "all]"),
    ("--shrink", "the whole]"),
    ("--slurm", "all on this machine]"),
    ("--nodes", "those of the job in which this is called]"),
    ("--salloc", "none]"),
    ("--placement", "computed, as `ibemu place` shows it]"),
    ("--no-kill", "everything ends]"),
    ("--transport", "veth]"),
    ("--tunnel", "none]"),
    ("--link-security", "aes-128-gcm]"),
    ("--tunnel-mtu", "what the path takes]"),
    ("--no-ip", "all have them]"),
    ("--seed", "1]"),
    ("--verify", "all up to 64 hosts, sample above]"),
    ("--record", "no recording]"),
    ("--timeout", "120, and one more for every 5 devices"),
    ("--guid2lid", "none]"),
    ("--sm", "ibemu]"),
    ("--sm-key", "1]"),
    (
        "--sm-node",
        "the first host that is no router and no aggregation node; priorities 8, 7, ...]",
    ),
    ("--routing", "auto]"),
    ("--tables", "none]"),
    ("--sls", "all packets on SL 0]"),
    ("--lmc", "what the routing engine wants;"),
    ("--lmc-esp0", "they have one LID]"),
    ("--adapter-names", "what drivers and rdma-core call them,"),
    ("--m-key", "no M_Key, as OpenSM's]"),
    ("--m-key-protection", "1]"),
    ("--m-key-lease", "0]"),
    ("--sa-key", "1, as OpenSM's"),
    (
        "--partitions",
        "all are full members of the default partition]",
    ),
    ("--partition-enforcement", "both]"),
    ("--qos", "none]"),
    ("--windows", "60]"),
    ("--multicast", "spanning-tree]"),
    ("--roots", "they are found]"),
    (
        "--io-guids",
        "aggregation nodes, and few hosts beside many others, are known by themselves]",
    ),
    ("--compute-guids", "all others]"),
    ("--vls", "4]"),
    ("--mtu", "2048]"),
    ("--web", "no page;"),
    ("--width", "4x]"),
    ("--speed", "qdr]"),
    ("--time-scale", "100]"),
    ("--unpaced", "paced]"),
    ("--buffer", "65536]"),
    ("--frame-packets", "as many as are waiting and fit]"),
    ("--keepalive-ms", "250,"),
    (
        "--silence-ms",
        "four times --keepalive-ms, beyond 1000 three times]",
    ),
    ("--log-level", "info]"),
    ("--log-bytes", "8388608]"),
];

/// The options of a help text with what it says about each, in one line.
fn options_in(help: &str) -> BTreeMap<String, String> {
    let mut options = BTreeMap::new();
    let mut current = String::new();
    for line in help.lines() {
        // `  -s, --size <BYTES>` or `      --size <BYTES>`; what is said of it stands further in.
        let behind = line.trim_start();
        if behind.starts_with('-')
            && line.len() - behind.len() <= 6
            && let Some(option) = line.split_whitespace().find(|word| word.starts_with("--"))
        {
            current = option.to_owned();
        }
        if !current.is_empty() {
            let text: &mut String = options.entry(current.clone()).or_default();
            for word in line.split_whitespace() {
                text.push_str(word);
                text.push(' ');
            }
        }
    }
    options
}

#[test]
fn every_option_of_up_is_in_its_help_with_its_default() {
    let help = Outcome::of(&mut ibemu_command(&["up", "--help"]))
        .success()
        .stdout;
    let mut options = options_in(&help);
    options.remove("--help");
    let expected: BTreeMap<&str, &str> = DEFAULTS_OF_UP.iter().copied().collect();
    let names: Vec<&str> = options.keys().map(String::as_str).collect();
    let known: Vec<&str> = expected.keys().copied().collect();
    assert_eq!(names, known, "options in:\n{help}");
    for (option, default) in expected {
        let wanted = format!("[default: {default}");
        assert!(
            options[option].contains(&wanted),
            "no {wanted:?} in {:?}",
            options[option]
        );
    }
}

#[test]
fn an_option_that_is_left_out_has_the_default_of_the_help() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    let record = std::fs::read_to_string(fabric.dir().join("fabric.json")).expect("fabric.json");
    let record: serde_json::Value = serde_json::from_str(&record).expect("JSON");
    let options = &record["options"];
    for (key, default) in [
        ("no_ip", json!(false)),
        ("seed", json!(1)),
        ("verify", json!(null)),
        ("timeout", json!(null)),
        ("sm", json!("ibemu")),
        ("sm_node", json!(null)),
        ("sm_key", json!(1)),
        ("routing", json!("auto")),
        ("guid2lid", json!(null)),
        ("lmc", json!(null)),
        ("qos", json!("none")),
        ("windows", json!(null)),
        ("multicast", json!("spanning-tree")),
    ] {
        assert_eq!(options[key], default, "{key} in {options:#}");
    }
    for (key, default) in [
        ("vls", json!(4)),
        ("mtu", json!("2048")),
        ("width", json!("4x")),
        ("speed", json!("qdr")),
        ("time_scale", json!(100.0)),
        ("unpaced", json!(false)),
        ("buffer", json!(65_536)),
        ("frame_packets", json!(null)),
        ("keepalive_ms", json!(null)),
        ("log_level", json!("info")),
        ("log_bytes", json!(8_388_608)),
    ] {
        assert_eq!(options["links"][key], default, "{key} in {options:#}");
    }
    fabric.down();
}

/// Runs `ibemu` as a user without privileges.
fn unprivileged(arguments: &[&str], runtime: &std::path::Path) -> Outcome {
    let mut command = Command::new("setpriv");
    command
        .args([
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            "--no-new-privs",
        ])
        .arg(ibemu_copy(runtime))
        .args(arguments)
        .env("IBEMU_RUNTIME_DIR", runtime.join("run"))
        .env("TMPDIR", runtime.join("run"))
        .env_remove("XDG_RUNTIME_DIR")
        .current_dir("/tmp");
    Outcome::of(&mut command)
}

/// The binaries in a folder that any user may enter.
fn ibemu_copy(folder: &std::path::Path) -> std::path::PathBuf {
    let source = ibemu();
    let bin = folder.join("bin");
    if !bin.exists() {
        std::fs::create_dir(&bin).expect("a folder");
        for name in ["ibemu", "switchd", "hostd", "controller"] {
            std::fs::copy(source.with_file_name(name), bin.join(name)).expect("a copy");
        }
    }
    bin.join("ibemu")
}

/// A folder of the user `nobody`.
fn unprivileged_users_folder() -> tempfile::TempDir {
    let folder = tempfile::Builder::new()
        .prefix("ibemu")
        .tempdir_in("/tmp")
        .expect("a folder");
    std::fs::create_dir(folder.path().join("run")).expect("a folder");
    std::os::unix::fs::chown(folder.path().join("run"), Some(65534), Some(65534)).expect("chown");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), mode).expect("chmod");
    folder
}

#[test]
fn udp_needs_no_privilege() {
    let folder = unprivileged_users_folder();
    let up = [
        "up",
        "fat-tree-4-2",
        "--fabric",
        "plain",
        "--transport",
        "udp",
    ];
    let _ = unprivileged(&up, folder.path()).success();
    let ping = unprivileged(&["ping", "--fabric", "plain", "--all"], folder.path());
    let down = unprivileged(&["down", "--fabric", "plain"], folder.path());
    let _ = (ping.success(), down.success());
    assert!(!folder.path().join("run/plain").exists());
}

#[test]
fn veth_without_privileges_names_the_remedy() {
    let folder = unprivileged_users_folder();
    let up = ["up", "star-2", "--fabric", "plain", "--transport", "veth"];
    let refused = unprivileged(&up, folder.path());
    refused.fails_with(1, "--transport udp");
    assert!(!folder.path().join("run/plain").exists());
}

/// Standard output that takes nothing, and what `up` says of it.
fn unwritable() -> [(Stdio, Option<&'static str>); 2] {
    let full = File::options().write(true).open("/dev/full");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    [
        (
            full.expect("/dev/full").into(),
            Some("is up, but its summary could not be written"),
        ),
        // The reader is gone: no message, no error.
        (writer.into(), None),
    ]
}

#[test]
fn up_whose_summary_cannot_be_written_ends_with_0_and_the_fabric_stands() {
    for (stdout, told) in unwritable() {
        let fabric = Fabric::planned(Transport::Udp);
        let mut command = fabric.up_command("star-2", &["--verify", "none"]);
        let output = command
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(Stdio::piped())
            .spawn()
            .and_then(std::process::Child::wait_with_output)
            .expect("ibemu starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        let is_told = stderr.contains("could not be written");
        assert_eq!(is_told, told.is_some(), "{stderr}");
        assert!(stderr.contains(told.unwrap_or_default()), "{stderr}");
        fabric.all_pairs().expect("the fabric stands");
        fabric.down();
    }
    for (stdout, _) in unwritable() {
        let fabric = Fabric::planned(Transport::Udp);
        let mut command = fabric.up_command("fat-tree-5-2", &[]);
        let status = command
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(Stdio::null())
            .status()
            .expect("ibemu starts");
        assert_eq!(status.code(), Some(2), "a usage error stays one");
        fabric.assert_gone();
    }
}
