//! Programs that judge a whole fabric: osmtest, ibdiagnet and ibdmchk.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;

use e2e::{Fabric, OpenSm, Outcome, Station, Transport, ibemu_command, umad2sim};
use topologies::parse;

/// A fabric that is judged, and the host beside which. On the second one our updn keeps packets free of deadlock on one
/// VL: ibdmchk would need a file that says their service levels. OpenSM's minhop promises no such thing there.
struct Judged {
    topology: &'static str,
    host: &'static str,
    options: &'static [&'static str],
    of_opensm: &'static [&'static str],
    /// Whether OpenSM's tables are free of credit loops.
    is_free_of_loops: bool,
}

const FAT_TREE: Judged = Judged {
    topology: super::FAT_TREE,
    host: "h1.0.0",
    options: &[],
    of_opensm: &[],
    is_free_of_loops: true,
};
const IRREGULAR: Judged = Judged {
    topology: super::IRREGULAR,
    host: "h5",
    options: &["--lmc", "2", "--routing", "updn"],
    of_opensm: &["--lmc", "2"],
    is_free_of_loops: false,
};

/// Has ibdiagnet wait for 5 s for each answer and not 0.1 s, which a loaded machine does not keep: a line of its
/// script, in this shell's view of it only.
const PATIENT: &str = "script=$(ls /usr/lib/*/ibdiagnet*/ibdebug.tcl) && \
    sed 's/ibis_set_transaction_timeout 100 /ibis_set_transaction_timeout 5000 /' $script >patient.tcl && \
    grep -q 'timeout 5000' patient.tcl && mount --bind patient.tcl $script";

/// Runs a flow of osmtest, with a short timeout: some flows make requests on purpose that are not answered.
fn osmtest(station: &mut Station, flow: &str) -> Outcome {
    station.run(&format!(
        "osmtest -f {flow} -t 250 -i inventory -l osmtest.log"
    ))
}

#[track_caller]
fn osmtest_passes(station: &mut Station, flows: &[&str]) {
    for flow in flows {
        let outcome = osmtest(station, flow).success();
        assert!(outcome.stdout.contains("\" PASS"), "{outcome}");
    }
}

/// ibdiagnet finds the whole fabric and nothing wrong in it, and ibdmchk in what ibdiagnet has read every route and no
/// credit loop.
#[track_caller]
fn nothing_is_wrong(station: &mut Station, topology: &str, is_free_of_loops: bool) {
    let graph = parse(topology).expect("a topology").graph;
    let _ = station.run(PATIENT).success();
    let found = "ibdiagnet -c 1 -skip ipoib -o found";
    let outcome = station.run(found).success();
    let (switches, hosts) = (graph.switches().count(), graph.hosts().count());
    let nodes = format!(
        " {} nodes ({switches} Switches & {hosts} CA-s) discovered.",
        graph.len()
    );
    for found in [
        nodes.as_str(),
        "No bad Guids were found",
        "No bad Links",
        "No illegal PM counters",
    ] {
        assert!(outcome.stdout.contains(found), "{found}: {outcome}");
    }
    assert!(!outcome.stdout.contains("-E-"), "{outcome}");
    let outcome = station.run("cat found/ibdiagnet.lst").success();
    let listed = topologies::read_text(&outcome.stdout).expect("a list of nodes and cables");
    assert_eq!(listed.links().count(), graph.links().count());
    let files = ["-s found/ibdiagnet.lst", "-f found/ibdiagnet.fdbs"].join(" ");
    // It ends by a fault of its own after its last line.
    let outcome = station.run(&format!("ibdmchk {files} -m found/ibdiagnet.mcfdbs"));
    all_routes_are_found(&outcome.stdout, graph.len(), hosts);
    if is_free_of_loops {
        no_loops_are_found(&outcome.stdout);
    }
}

#[track_caller]
fn all_routes_are_found(text: &str, nodes: usize, hosts: usize) {
    for found in [
        format!("-I- Defined {nodes}/{nodes} systems/nodes"),
        format!("-I- Scanned:{} CA to CA paths", hosts * (hosts - 1)),
    ] {
        assert!(text.contains(&found), "{found}: {text}");
    }
    let is_fault = |line: &&str| line.contains("-E-") && !line.contains("credit loops in routing");
    assert!(!text.lines().any(|line| is_fault(&line)), "{text}");
}

#[track_caller]
fn no_loops_are_found(text: &str) {
    assert!(text.contains("-I- no credit loops found"), "{text}");
}

/// All flows of osmtest: inventory; all validations: of the inventory, of services, events, multicast; QoS tables;
/// traps 64 and 65.
fn under_our_controller(judged: &Judged, all: &str) {
    let fabric = Fabric::up(Transport::Udp, judged.topology, judged.options);
    let mut station = Station::beside(&fabric, judged.host);
    osmtest_passes(&mut station, &["c", all, "q", "t -w 1"]);
    nothing_is_wrong(&mut station, judged.topology, true);
    drop(station);
    fabric.assert_no_errors_logged();
    fabric.down();
}

fn under_opensm(judged: &Judged, sm: &str, osmtest: impl FnOnce(&mut Station)) {
    let fabric = Fabric::up(Transport::Udp, judged.topology, &["--sm", "none"]);
    let manager = OpenSm::start(&fabric, sm, judged.of_opensm);
    let mut station = Station::beside(&fabric, judged.host);
    osmtest(&mut station);
    nothing_is_wrong(&mut station, judged.topology, judged.is_free_of_loops);
    drop(station);
    drop(manager);
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn suites_find_nothing_wrong_in_a_fat_tree_under_our_controller() {
    under_our_controller(&FAT_TREE, "a");
}

/// Requests come with a GRH.
#[test]
fn suites_find_nothing_wrong_in_an_irregular_fabric_with_four_lids_a_port_under_our_controller() {
    under_our_controller(&IRREGULAR, "a -G");
}

#[test]
fn suites_find_nothing_wrong_in_a_fat_tree_under_opensm() {
    under_opensm(&FAT_TREE, "h0.0.0", |station| {
        osmtest_passes(station, &["c", "a", "q", "t -w 1"]);
    });
}

/// But for OpenSM's own paths from a port to itself, which osmtest does not expect.
#[test]
fn suites_find_nothing_wrong_in_an_irregular_fabric_with_four_lids_a_port_under_opensm() {
    under_opensm(&IRREGULAR, "h3", |station| {
        osmtest_passes(station, &["c", "q", "t -w 1"]);
        let outcome = osmtest(station, "a");
        assert!(outcome.code != 0 && outcome.code != 124, "{outcome}");
        let log = station.run("cat osmtest.log").success();
        let paths = "ERR 0095: Unexpected path SLID";
        assert!(log.stdout.contains(paths), "{outcome}");
    });
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
    all_routes_are_found(&text, 36, 16);
    no_loops_are_found(&text);
    let folder = tempfile::tempdir().expect("a temporary folder");
    dump_on_ibsim(topology, "h0.0.0", folder.path());
    let (of_ibsim, ended_on_ibsim) = checked_routes(folder.path());
    assert!(of_ibsim.contains("-I- no credit loops found"), "{of_ibsim}");
    assert_eq!(ended, ended_on_ibsim, "{text}");
}
