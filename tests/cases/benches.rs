//! Scripts for benchmarks clean up after themselves. What they call stands in front of the system's programs
//! here, so that neither rights nor the programs are needed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

/// Namespaces are files; what runs in one runs here.
const IP: &str = r#"#!/usr/bin/env bash
case "$1 $2" in
    "netns add") : >"$SPACES/$3" ;;
    "netns delete") rm "$SPACES/$3" ;;
    "netns exec") shift 3 && exec "$@" ;;
esac
"#;
/// A server that stays, and a client that fails if it is to.
const IPERF3: &str = r#"#!/usr/bin/env bash
case "$1" in
    --server) echo "$$" >"$SPACES/../server" && exec sleep 600 ;;
    --client) exit "$CLIENT" ;;
esac
"#;
/// The server's port is open once its process is known.
const SS: &str = "#!/bin/sh\n[ -s \"$SPACES/../server\" ] && echo LISTEN '*:5201'\n";

fn peer_bridge(folder: &Path, client: &str) -> Output {
    let (bin, spaces) = (folder.join("bin"), folder.join("spaces"));
    for folder in [&bin, &spaces] {
        fs::create_dir_all(folder).expect("it is there");
    }
    for (name, text) in [
        ("ip", IP),
        ("iperf3", IPERF3),
        ("ss", SS),
        ("python3", "#!/bin/sh\necho 7\n"),
    ] {
        fs::write(bin.join(name), text).expect("it is there");
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(bin.join(name), executable).expect("it is there");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let path = format!(
        "{}:{}",
        bin.display(),
        std::env::var("PATH").expect("it is there")
    );
    let script = root.join("benches/peer-bridge.sh");
    let mut command = Command::new(script);
    command.args(["1", "2"]).env("PATH", path);
    command.env("SPACES", &spaces).env("CLIENT", client);
    command.output().expect("it is there")
}

#[test]
fn the_peer_for_live_benches_leaves_no_namespace_and_no_server() {
    for (client, printed, is_done) in [("0", "7\n7\n", true), ("1", "7\n", false)] {
        let folder = tempfile::tempdir().expect("it is there");
        let output = peer_bridge(folder.path(), client);
        assert_eq!(output.status.success(), is_done, "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), printed);
        let mut left = fs::read_dir(folder.path().join("spaces")).expect("it is there");
        assert!(left.next().is_none(), "namespaces are left: {output:?}");
        let server = fs::read_to_string(folder.path().join("server")).expect("it is there");
        let process = Path::new("/proc").join(server.trim());
        assert!(!process.exists(), "the server is left");
    }
}
