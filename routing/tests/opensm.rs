//! OpenSM takes our dump as its routing, and what it then has in the switches is our tables; and its own
//! engines compared with ours of the same names.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(
    clippy::disallowed_methods,
    reason = "other programs read and write files"
)]

#[path = "../../topologies/tests/ibsim/process.rs"]
mod ibsim;

use std::collections::BTreeMap;
use std::path::Path;

use ibsim::Ibsim;
use routing::dump::LevelDump;
use routing::quality::{Pattern, link_loads};
use routing::{Options, Report, RoutingEngine, Tables, dump, verify};
use topologies::{Endpoint, Graph, parse, write_net};
use wire::{Guid, PortNum};

/// Runs a program beside ibsim in a folder.
fn run(ibsim: &Ibsim, program: &str, arguments: &[&str], directory: &Path) -> String {
    ibsim.output(program, arguments, |command| {
        command
            .current_dir(directory)
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("OSM_CACHE_DIR", directory)
            .env("OSM_TMP_DIR", directory)
    })
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
    run(
        &ibsim,
        "opensm",
        &["-o", "-f", "opensm.log", "-R", "file", "-U", "tables"],
        directory.path(),
    );
    let log = std::fs::read_to_string(path("opensm.log")).unwrap();
    assert!(log.contains("SUBNET UP"), "{log}");
    assert!(!log.contains("ERR") && !log.contains("PARSE"), "{log}");
    let installed = run(&ibsim, "dump_fts", &[], directory.path());
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

/// What OpenSM's own engine puts into the switches, and its log.
fn routed_by_opensm(topology: &str, engine: &str) -> (Graph, Tables, String) {
    let graph = parse(topology).unwrap().graph;
    let case = format!("{engine}-{topology}");
    let (tables, log) = routed_by_opensm_with(&graph, &case, &["-R", engine], "");
    let taken = format!("{engine} tables configured on all switches");
    assert!(log.contains(&taken), "{log}");
    (graph, tables, log)
}

/// The same with other options; `settings` is the file `settings`.
fn routed_by_opensm_with(
    graph: &Graph,
    case: &str,
    options: &[&str],
    settings: &str,
) -> (Tables, String) {
    let (tables, log, _) = dumped_by_opensm(graph, case, options, settings);
    (tables, log)
}

/// The same, with its dump of SL-to-VL tables if it has written one.
fn dumped_by_opensm(
    graph: &Graph,
    case: &str,
    options: &[&str],
    settings: &str,
) -> (Tables, String, Option<LevelDump>) {
    let directory = tempfile::tempdir().unwrap();
    let path = |file: &str| directory.path().join(file);
    std::fs::write(path("fabric.net"), write_net(graph)).unwrap();
    std::fs::write(path("settings"), settings).unwrap();
    let ibsim = Ibsim::start(&path("fabric.net"), case);
    let once = [
        "-o",
        "-f",
        "opensm.log",
        "-D",
        "0x43",
        "--dump_files_dir",
        ".",
    ];
    run(
        &ibsim,
        "opensm",
        &[&once, options].concat(),
        directory.path(),
    );
    let log = std::fs::read_to_string(path("opensm.log")).unwrap();
    let options = Options {
        given: Some(dump::read(&run(&ibsim, "dump_fts", &[], directory.path())).unwrap()),
        ..Options::default()
    };
    let tables = RoutingEngine::File.route(graph, &options).unwrap();
    let levels = std::fs::read_to_string(path("opensm-sl2vl.dump"));
    let levels = levels.ok().map(|text| dump::read_levels(&text).unwrap());
    (tables, log, levels)
}

/// Tables of our engine with so many VLs, and a report on them.
fn routed_by_us(graph: &Graph, engine: RoutingEngine, vls: u8) -> (Tables, Report) {
    let options = Options {
        data_vls: Some(vls),
        ..Options::default()
    };
    let tables = engine.route(graph, &options).unwrap();
    let report = verify(graph, &tables, tables.promises);
    assert!(report.is_ok(), "{}", report.describe(graph));
    (tables, report)
}

fn busiest(graph: &Graph, tables: &Tables) -> u64 {
    link_loads(graph, tables, Pattern::AllToAll).max
}

/// The nodes on the longest path between two hosts.
fn longest(graph: &Graph, tables: &Tables) -> usize {
    let hosts = || graph.hosts().filter_map(|host| tables.lids.of_node(host));
    let lengths = hosts().flat_map(|from| {
        let from = from.end.unwrap();
        hosts().map(move |to| tables.path(graph, from, to.base).hops.len())
    });
    lengths.max().unwrap()
}

#[test]
fn lash_has_the_hops_of_opensms_on_no_more_vls() {
    for topology in ["ring-5-1", "torus-5x5-1", "fat-tree-4-3", "hypercube-4-1"] {
        let (graph, theirs, log) = routed_by_opensm(topology, "lash");
        let (_, rest) = log.split_once("Lanes needed: ").expect("a number of lanes");
        let (vls, _) = rest.split_once(',').unwrap();
        let (ours, report) = routed_by_us(&graph, RoutingEngine::Lash, vls.parse().unwrap());
        let of_theirs = verify(&graph, &theirs, theirs.promises);
        assert_eq!(
            (longest(&graph, &ours), report.not_minimal),
            (longest(&graph, &theirs), of_theirs.not_minimal),
            "{topology}"
        );
        // Theirs lets packets of switches without hosts close a credit loop on one VL, which ours go round.
        if topology != "fat-tree-4-3" {
            assert_eq!(report.hops_max, of_theirs.hops_max, "{topology}");
        }
        assert_eq!(report.switch_cycle, None, "{topology}");
        assert!(
            busiest(&graph, &ours) <= busiest(&graph, &theirs),
            "{topology}"
        );
    }
}

#[test]
fn nue_on_one_vl_is_no_worse_than_opensms() {
    for topology in ["ring-5-1", "torus-5x5-1", "fat-tree-4-3", "hypercube-4-1"] {
        // OpenSM's takes one VL by default.
        let (graph, theirs, _) = routed_by_opensm(topology, "nue");
        let of_theirs = verify(&graph, &theirs, theirs.promises);
        assert_eq!(of_theirs.cycle, None, "{topology}");
        let (ours, report) = routed_by_us(&graph, RoutingEngine::Nue, 1);
        // Theirs lets packets of switches without hosts close a credit loop, which ours go round.
        assert_eq!(report.switch_cycle, None, "{topology}");
        assert!(
            longest(&graph, &ours) <= longest(&graph, &theirs),
            "{topology}"
        );
        assert!(report.not_minimal <= of_theirs.not_minimal, "{topology}");
        assert!(
            busiest(&graph, &ours) <= busiest(&graph, &theirs),
            "{topology}"
        );
    }
}

#[test]
fn ftree_is_no_worse_than_opensms_on_trees_that_it_takes() {
    for topology in ["fat-tree-4-3", "fat-tree-8-2", "clos-4-4-4-2"] {
        let (graph, theirs, _) = routed_by_opensm(topology, "ftree");
        let (ours, report) = routed_by_us(&graph, RoutingEngine::Ftree, 1);
        assert_eq!(report.not_minimal, 0, "{topology}");
        assert!(
            busiest(&graph, &ours) <= busiest(&graph, &theirs),
            "{topology}"
        );
    }
}

/// A torus of 6 by 5 switches.
struct SixByFive {
    graph: Graph,
    /// The configuration that OpenSM's engine needs: the first dimension is that of s0 and s1, as ours is.
    settings: String,
}

impl SixByFive {
    const OPTIONS: [&str; 5] = ["-Q", "-R", "torus-2QoS", "--torus_config", "settings"];

    fn new() -> Self {
        let graph = parse("torus-5x6-1").unwrap().graph;
        let guid = |name: &str| graph.node(graph.find(name).unwrap()).guid;
        let settings = format!(
            "torus 6 5 1\nxp_link {0} {1}\nyp_link {0} {2}\nx_dateline -1\ny_dateline -1\n",
            guid("s0"),
            guid("s1"),
            guid("s6")
        );
        Self { graph, settings }
    }

    fn without_a_cable(&self) -> Graph {
        let mut damaged = self.graph.clone();
        let [node, other] = ["s7", "s8"].map(|name| self.graph.find(name).unwrap());
        let mut cables = self.graph.cables(node);
        let (port, _) = cables.find(|(_, peer)| peer.node == other).unwrap();
        damaged.disconnect(Endpoint { node, port });
        damaged
    }

    fn without_a_switch(&self) -> Graph {
        self.graph.without(&["s15".to_owned(), "h15".to_owned()])
    }
}

#[test]
fn torus_2qos_has_the_hops_of_opensms_with_and_without_a_cable() {
    let torus = SixByFive::new();
    let damaged = torus.without_a_cable();
    for (case, graph) in [
        ("torus-2QoS", &torus.graph),
        ("torus-2QoS-damaged", &damaged),
    ] {
        let (theirs, log) =
            routed_by_opensm_with(graph, case, &SixByFive::OPTIONS, &torus.settings);
        assert!(log.contains("torus-2QoS tables configured"), "{log}");
        let of_theirs = verify(graph, &theirs, theirs.promises);
        let (ours, report) = routed_by_us(graph, RoutingEngine::Torus2Qos, 2);
        assert_eq!(
            (report.hops_max, report.not_minimal),
            (of_theirs.hops_max, of_theirs.not_minimal),
            "{case}"
        );
        assert!(busiest(graph, &ours) <= busiest(graph, &theirs), "{case}");
    }
}

#[test]
fn torus_2qos_with_eight_vls_has_the_sl_to_vl_tables_of_opensms_on_both_levels() {
    let torus = SixByFive::new();
    let (without_cable, without_switch) = (torus.without_a_cable(), torus.without_a_switch());
    for (case, graph) in [
        ("whole", &torus.graph),
        ("without-a-cable", &without_cable),
        ("without-a-switch", &without_switch),
    ] {
        let case = format!("torus-2QoS-levels-{case}");
        let (_, log, levels) = dumped_by_opensm(graph, &case, &SixByFive::OPTIONS, &torus.settings);
        assert!(log.contains("torus-2QoS tables configured"), "{log}");
        let (ours, _) = routed_by_us(graph, RoutingEngine::Torus2Qos, 8);
        let assignment = ours.vl_assignment.unwrap();
        assert_eq!(
            (assignment.data_vls, assignment.has_second_level),
            (8, true)
        );
        let mut compared = 0;
        for row in levels.unwrap().sl2vl {
            let node = graph.find_guid(row.guid).unwrap();
            let (entry, exit) = row.ports;
            let is_here = |port: PortNum| graph.peer(Endpoint { node, port }).is_some();
            if is_here(exit) && (is_here(entry) || entry == PortNum::MANAGEMENT) {
                let table = assignment.table(node, entry, exit);
                assert_eq!(*table, row.vls, "{case}: {} {entry} {exit}", row.guid);
                compared += 1;
            }
        }
        // From each of five ports and port 0 to each of five, but for what is missing.
        assert!(compared > 29 * 26, "{case}: {compared}");
    }
}
