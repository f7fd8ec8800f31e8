//! The libibumad that `ibemu exec` puts before the system's, as programs of C see it.

mod adapters;
mod exporter;
mod ways;

use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::{Fabric, Outcome, Transport, diags};

/// Compiles a program that relies on libibumad, against the distribution's headers.
fn compiled(folder: &Path, source: &str) -> PathBuf {
    let program = folder.join(source.trim_end_matches(".c"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("cases/libibumad")
        .join(source);
    let mut compiler = Command::new("cc");
    compiler
        .args(["-Wall", "-Wno-deprecated-declarations", "-pthread", "-o"])
        .args([program.as_os_str(), source.as_os_str()])
        .arg("-libumad");
    let compiled = Outcome::of(&mut compiler);
    assert!(
        !compiled.stderr.contains("infiniband/umad.h: No such file"),
        "infiniband/umad.h is missing: install libibumad-dev"
    );
    let _ = compiled.success();
    program
}

#[test]
fn a_program_relies_on_agents_timeouts_threads_and_forks() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = compiled(folder.path(), "program.c");
    for transport in [Transport::Veth, Transport::Udp, Transport::Shm] {
        let fabric = Fabric::up(transport, "star-2", &[]);
        let host = "h0";
        let mut call = fabric.command(&["exec", host]);
        let outcome = Outcome::of(call.arg(&program)).success();
        assert_eq!(outcome.stdout, "ok\n");
        let address = "lid 4660 qpn 1 qkey 0x80010000 sl 3 path_bits 0 pkey_index 0x0";
        for dump in ["umad: agent id 0 status 0 ", "umad address: "] {
            let is_dump = |line: &str| line.starts_with(dump) && line.contains(address);
            assert!(outcome.stderr.lines().any(is_dump), "{outcome}");
        }
        fabric.assert_no_errors_logged();
        fabric.down();
    }
}

#[test]
fn all_names_of_newer_releases_are_there_in_their_versions_and_do_what_they_say() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = compiled(folder.path(), "symbols.c");
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    let mut call = fabric.command(&["exec", "h0"]);
    let outcome = Outcome::of(call.arg(&program));
    assert_eq!(outcome.success().stdout, "ok\n");
    fabric.down();
}

#[test]
fn files_of_the_driver_say_what_the_diagnostic_tools_say() {
    let fabric = Fabric::up(Transport::Veth, "star-2", &[]);
    let host = "h0";
    let says = |command: &[&str]| diags(&fabric, host, command).success().stdout;
    let status = says(&["ibstatus"]);
    let stat = says(&["ibstat"]);
    let lid = stat
        .lines()
        .find_map(|line| line.trim().strip_prefix("Base lid: "))
        .expect("a LID");
    let lid: u16 = lid.parse().expect("a number");
    for told in [
        "Infiniband device 'ibemu0' port 1 status:".to_owned(),
        format!("base lid:\t {lid:#x}\n"),
        "state:\t\t 4: ACTIVE\n".to_owned(),
        "phys state:\t 5: LinkUp\n".to_owned(),
    ] {
        assert!(status.contains(&told), "{told:?} in {status}");
    }
    // What the fabric does at rest comes between two looks: the files are not newer than what was
    // asked after them, and not older than what was asked before.
    let counters = "/sys/class/infiniband/ibemu0/ports/1/counters/port_xmit_packets";
    let script = format!("perfquery -x; cat {counters}; perfquery -x");
    let told = says(&["bash", "-c", &script]);
    let numbers: Vec<u64> = told
        .lines()
        .filter_map(|line| match line.strip_prefix("PortXmitPkts:") {
            Some(number) => number.trim_start_matches('.').parse().ok(),
            None => line.parse().ok(),
        })
        .collect();
    let [_, file, after] = numbers[..] else {
        panic!("{told}");
    };
    assert!(file > 0 && file <= after, "{told}");
    fabric.down();
}
