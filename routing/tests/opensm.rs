//! OpenSM takes our dump as its routing, and what it then has in the switches is our tables.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(
    clippy::disallowed_methods,
    reason = "other programs read and write files"
)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use routing::{Options, RoutingEngine, dump};
use topologies::{parse, write_net};
use wire::{Guid, PortNum};

const CLIENT_LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so";

/// A running ibsim, ended with the test.
struct Ibsim {
    process: Child,
    /// Kept open: ibsim dies when nobody can read what it prints.
    _out: BufReader<ChildStdout>,
    socket: String,
}

impl Ibsim {
    fn start(net: &Path, case: &str) -> Self {
        let socket = format!("ibemu-routing-{case}-{}", std::process::id());
        let mut process = Command::new("stdbuf")
            .args(["-oL", "ibsim", "-s", "-n"])
            .arg(net)
            .env("IBSIM_SOCKNAME", &socket)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("stdbuf (coreutils) and ibsim (package ibsim-utils) are needed");
        let mut log = String::new();
        let mut out = BufReader::new(process.stdout.take().unwrap());
        while !log.contains("MaxMcastCap") {
            assert_ne!(out.read_line(&mut log).unwrap(), 0, "ibsim failed: {log}");
        }
        Self {
            process,
            _out: out,
            socket,
        }
    }

    fn run(&self, program: &str, arguments: &[&str], directory: &Path) -> String {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(directory)
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LD_PRELOAD", CLIENT_LIBRARY)
            .env("IBSIM_SOCKNAME", &self.socket)
            .env("OSM_CACHE_DIR", directory)
            .env("OSM_TMP_DIR", directory)
            .output()
            .expect("opensm and infiniband-diags are needed");
        assert!(output.status.success(), "{program}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Ibsim {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Port by switch and owner of the LID, since OpenSM gives LIDs of its own.
fn by_owner(text: &str) -> BTreeMap<(Guid, Guid), PortNum> {
    dump::read(text)
        .unwrap()
        .iter()
        .flat_map(|switch| {
            switch
                .owners
                .iter()
                .map(|(&lid, &owner)| ((switch.guid, owner), switch.lft.get(lid)))
        })
        .collect()
}

fn opensm_takes(topology: &str, name: &str) {
    let graph = parse(topology).unwrap().graph;
    let tables = name
        .parse::<RoutingEngine>()
        .unwrap()
        .route(&graph, &Options::default());
    let ours = dump::write(&graph, &tables.unwrap());
    let directory = tempfile::tempdir().unwrap();
    let path = |file: &str| directory.path().join(file);
    std::fs::write(path("fabric.net"), write_net(&graph)).unwrap();
    std::fs::write(path("tables"), &ours).unwrap();
    let ibsim = Ibsim::start(&path("fabric.net"), name);
    ibsim.run(
        "opensm",
        &["-o", "-f", "opensm.log", "-R", "file", "-U", "tables"],
        directory.path(),
    );
    let log = std::fs::read_to_string(path("opensm.log")).unwrap();
    assert!(log.contains("SUBNET UP"), "{log}");
    assert!(!log.contains("ERR") && !log.contains("PARSE"), "{log}");
    let installed = ibsim.run("dump_fts", &[], directory.path());
    assert_eq!(by_owner(&installed), by_owner(&ours));
}

#[test]
fn opensm_installs_slid_tables_of_a_fat_tree_as_they_are() {
    opensm_takes("fat-tree-4-3", "slid");
}

#[test]
fn opensm_installs_updn_tables_of_an_irregular_fabric_as_they_are() {
    opensm_takes("irregular-8-2-3-1", "updn");
}
