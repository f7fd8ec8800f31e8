//! Programs that judge a whole fabric: osmtest, ibdiagnet and ibdmchk.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;

use e2e::{Fabric, OpenSm, Outcome, Station, Transport, ibemu_command, umad2sim};
use topologies::parse;

/// Runs flows of osmtest beside a host, with a short timeout: some flows make requests on purpose that are
/// not answered.
fn osmtest_passes(fabric: &Fabric, flows: &[&str]) {
    let mut station = Station::beside(fabric, "h1.0");
    for flow in flows {
        let line = format!("osmtest -f {flow} -t 250 -i inventory -l osmtest.log");
        let outcome = station.run(&line).success();
        assert!(outcome.stdout.contains("\" PASS"), "{outcome}");
    }
}

/// Inventory; all validations: of the inventory, of services, events, multicast; QoS tables; traps 64 and 65.
#[test]
fn osmtest_passes_all_its_flows_of_opensm() {
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-2", &["--sm", "none"]);
    let manager = OpenSm::start(&fabric, "h0.0", &[]);
    osmtest_passes(&fabric, &["c", "a", "q", "t -w 1"]);
    drop(manager);
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn osmtest_passes_all_its_flows_of_our_controller() {
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-2", &[]);
    osmtest_passes(&fabric, &["c", "a", "q", "t -w 1"]);
    fabric.assert_no_errors_logged();
    fabric.down();
}

/// Four LIDs a port, and requests that come with a GRH.
#[test]
fn osmtest_passes_all_its_flows_of_our_controller_with_four_lids_a_port_and_grhs() {
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-2", &["--lmc", "2"]);
    osmtest_passes(&fabric, &["c", "a -G", "q", "t -w 1"]);
    fabric.assert_no_errors_logged();
    fabric.down();
}

/// ibdmchk beside files that OpenSM has dumped, and whether it ended by a fault.
fn checked_routes(folder: &Path) -> (String, Option<i32>) {
    let mut command = std::process::Command::new("ibdmchk");
    command
        .current_dir(folder)
        .args(["-s", "opensm-subnet.lst"]);
    command.args(["-f", "opensm.fdbs", "-m", "opensm.mcfdbs"]);
    let output = command.output().expect("ibdmchk is installed (ibutils)");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (text, output.status.signal())
}

/// Brings a subnet up once on ibsim, in a network namespace of its own, by an OpenSM that dumps its files into
/// the folder.
fn dump_on_ibsim(topology: &str, host: &str, folder: &Path) {
    let mut topo = ibemu_command(&["topo", topology, "--format", "ibsim"]);
    let net = Outcome::of(&mut topo).success().stdout;
    std::fs::write(folder.join("net"), net).expect("a file");
    let script = "ibsim -s -n net >ibsim.log 2>&1 </dev/null & simulator=$!\n\
         until grep -q @sim:ctl /proc/net/unix; do sleep 0.05; done\n\
         LD_PRELOAD=$CLIENT opensm -o -D 0x43 --dump_files_dir . -f opensm.log --pidfile pid >out 2>&1\n\
         kill -9 $simulator\n";
    let mut command = std::process::Command::new("timeout");
    command.args(["60", "unshare", "-n", "sh", "-c", script]);
    command.current_dir(folder).env("SIM_HOST", host);
    command.env("CLIENT", umad2sim());
    for name in ["OSM_TMP_DIR", "OSM_CACHE_DIR"] {
        command.env(name, folder);
    }
    let _ = Outcome::of(&mut command);
}

/// ibdmchk ends by a fault of its own (in CrdLoopCleanup, after its last line): from ibsim's files as from these.
#[test]
fn ibdmchk_finds_every_route_and_no_credit_loop_and_ends_as_on_ibsim() {
    let topology = "fat-tree-4-3";
    let dumps = ["-D", "0x43"];
    let fabric = Fabric::up(Transport::Udp, topology, &["--sm", "none"]);
    let manager = OpenSm::start(&fabric, "h0.0.0", &dumps);
    let (text, ended) = checked_routes(manager.folder());
    drop(manager);
    fabric.down();
    for found in [
        "-I- Defined 36/36 systems/nodes",
        "-I- Scanned:240 CA to CA paths",
        "-I- no credit loops found",
    ] {
        assert!(text.contains(found), "{found}: {text}");
    }
    assert!(!text.contains("-E-"), "{text}");
    let folder = tempfile::tempdir().expect("a temporary folder");
    dump_on_ibsim(topology, "h0.0.0", folder.path());
    let (of_ibsim, ended_on_ibsim) = checked_routes(folder.path());
    assert!(of_ibsim.contains("-I- no credit loops found"), "{of_ibsim}");
    assert_eq!(ended, ended_on_ibsim, "{text}");
}

#[test]
fn ibdiagnet_finds_the_whole_fabric_and_nothing_wrong_in_it() {
    let topology = "mesh-2x1-2";
    let fabric = Fabric::up(Transport::Udp, topology, &[]);
    let graph = parse(topology).expect("a topology").graph;
    let mut station = Station::beside(&fabric, "h0");
    let outcome = station.run("ibdiagnet -c 1 -skip ipoib -o found").success();
    let (switches, hosts) = (graph.switches().count(), graph.hosts().count());
    let nodes = format!(
        " {} nodes ({switches} Switches & {hosts} CA-s) discovered.",
        graph.len()
    );
    assert!(outcome.stdout.contains(&nodes), "{outcome}");
    assert!(!outcome.stdout.contains("-E-"), "{outcome}");
    for found in [
        "No bad Guids were found",
        "No bad Links",
        "No illegal PM counters",
    ] {
        assert!(outcome.stdout.contains(found), "{found}: {outcome}");
    }
    let outcome = station.run("cat found/ibdiagnet.lst").success();
    let listed = topologies::read_text(&outcome.stdout).expect("a list of nodes and cables");
    assert_eq!(listed.links().count(), graph.links().count());
    drop(station);
    fabric.assert_no_errors_logged();
    fabric.down();
}
