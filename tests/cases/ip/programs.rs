//! Stock programs of sockets over `ib0`.

use std::fs;
use std::process::Command;

use e2e::{Fabric, Outcome, Transport, within};

use super::{Beside, PATIENCE, exec, ping};

#[test]
fn curl_fetches_from_a_web_server_by_name() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let page: String = (0..40_000).map(|line| format!("line {line}\n")).collect();
    fs::write(folder.path().join("page"), &page).expect("a file");
    let path = folder.path().to_str().expect("UTF-8");
    let fabric = Fabric::up(Transport::Veth, "star-2", &["--unpaced"]);
    let serve = [
        "python3",
        "-m",
        "http.server",
        "--bind",
        "::",
        "--directory",
        path,
        "8080",
    ];
    let _server = Beside::start(&fabric, "h1", &serve);
    for version in ["-4", "-6"] {
        let fetch = [
            "curl",
            "--silent",
            "--show-error",
            "--fail",
            version,
            "http://h1:8080/page",
        ];
        let told = within(PATIENCE, "the server answers", || {
            let told = exec(&fabric, "h0", &fetch);
            match told.code {
                0 => Ok(told),
                _ => Err(told.to_string()),
            }
        });
        assert!(told.stdout == page, "{} bytes have come", told.stdout.len());
    }
    fabric.assert_no_errors_logged();
    fabric.down();
}

/// The MTU of a host's interface, as its kernel has it.
fn mtu(fabric: &Fabric, host: &str) -> String {
    let told = exec(fabric, host, &["ip", "-o", "link", "show", "ib0"]).success();
    let mut words = told.stdout.split_whitespace();
    let _ = words.find(|word| *word == "mtu");
    words.next().unwrap_or_default().to_owned()
}

#[test]
fn the_interfaces_have_the_mtu_of_their_partition() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("partitions.conf");
    fs::write(&file, "Default = 0x7fff, ipoib, mtu=5 : ALL = full ;\n").expect("a file");
    let partitions = ["--partitions", file.to_str().expect("UTF-8")];
    for (options, expected) in [(&[][..], "2044"), (&partitions[..], "4092")] {
        let options = [&["--mtu", "4096"], options].concat();
        let fabric = Fabric::up(Transport::Veth, "star-2", &options);
        within(PATIENCE, "the interface follows its group", || {
            match mtu(&fabric, "h0") == expected && mtu(&fabric, "h1") == expected {
                true => Ok(()),
                false => Err(mtu(&fabric, "h0")),
            }
        });
        ping(&fabric, "-4", "h0", "h1");
        // The largest that goes in one piece, and one byte more.
        let largest: usize = expected.parse::<usize>().expect("a number") - 28;
        for (size, fits) in [(largest, true), (largest + 1, false)] {
            let (size, seconds) = (size.to_string(), if fits { "30" } else { "1" });
            let ping = [
                "ping", "-4", "-M", "do", "-c", "1", "-w", seconds, "-s", &size, "h1",
            ];
            let told = exec(&fabric, "h0", &ping);
            assert_eq!(told.code == 0, fits, "{told}");
        }
        fabric.assert_no_errors_logged();
        fabric.down();
    }
}

/// Where `tests/run.sh` unpacks Debian's openssh-server.
const SSHD: &str = "/usr/local/lib/ibemu-tests/sshd/usr/sbin/sshd";

#[test]
fn ssh_logs_in_to_a_host_by_its_name() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| {
        let path = folder.path().join(name);
        path.to_str().expect("UTF-8").to_owned()
    };
    for key in ["host", "user"] {
        let make = ["-q", "-t", "ed25519", "-N", "", "-f", &at(key)];
        let _ = Outcome::of(Command::new("ssh-keygen").args(make)).success();
    }
    fs::copy(at("user.pub"), at("keys")).expect("a file");
    // The server separates its privileges in an empty folder of root's.
    let empty = std::path::Path::new("/run/sshd");
    let is_there = empty.exists();
    fs::create_dir_all(empty).expect("a folder");
    fs::set_permissions(empty, fs::Permissions::from_mode(0o755)).expect("a folder");
    // Its user for that is made by the package's installation; here it is there for the server alone.
    let users = fs::read_to_string("/etc/passwd").expect("a file");
    let users = format!("{users}sshd:x:64999:65534::/run/sshd:/usr/sbin/nologin\n");
    fs::write(at("passwd"), users).expect("a file");
    let settings = format!(
        "HostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n",
        at("host"),
        at("keys")
    );
    fs::write(at("sshd_config"), settings).expect("a file");
    let fabric = Fabric::up(Transport::Veth, "star-2", &["--unpaced"]);
    let serve = format!(
        "mount --bind {} /etc/passwd && exec {SSHD} -D -e -f {}",
        at("passwd"),
        at("sshd_config")
    );
    let _server = Beside::start(&fabric, "h1", &["sh", "-c", &serve]);
    let (identity, known) = (at("user"), format!("UserKnownHostsFile={}", at("known")));
    let call = [
        "ssh",
        "-F",
        "none",
        "-i",
        &identity,
        "-o",
        "StrictHostKeyChecking=no",
        "-o",
        &known,
        "-o",
        "BatchMode=yes",
        "root@h1",
        "echo $SSH_CONNECTION",
    ];
    let told = within(PATIENCE, "the server answers", || {
        let told = exec(&fabric, "h0", &call);
        match told.code {
            0 => Ok(told.stdout),
            _ => Err(told.to_string()),
        }
    });
    let words: Vec<&str> = told.split_whitespace().collect();
    assert!(
        matches!(words[..], [from, _, to, "22"] if from.ends_with(":1") && to.ends_with(":2") || from == "10.73.0.1" && to == "10.73.0.2"),
        "{told}"
    );
    fabric.assert_no_errors_logged();
    fabric.down();
    if !is_there {
        let _ = fs::remove_dir(empty);
    }
}
