//! Stock OpenSM on live fabrics: its routing engines, its options, and what it makes of them. One
//! fabric stays up for several OpenSMs, one after the other. No log has an error.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::{Fabric, OpenSm, Outcome, Transport, diags, ibemu_command, named, within};
use topologies::{Graph, NodeKind};

/// How long something may take on a loaded machine.
const LIMIT: Duration = Duration::from_secs(30);

fn graph(topology: &str) -> Graph {
    topologies::parse(topology).expect("a topology").graph
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// The tables of all switches, by switch and line, as stock `dump_fts` reads them beside `host`.
fn tables(fabric: &Fabric, host: &str) -> String {
    diags(fabric, host, &["dump_fts"]).success().stdout
}

/// Lines of a dump that are entries, by switch.
fn entries(dump: &str) -> BTreeMap<String, Vec<String>> {
    let mut switches = BTreeMap::new();
    let mut current = String::new();
    for line in dump.lines() {
        if line.starts_with("Unicast lids") {
            current = line.split("guid ").nth(1).unwrap_or_default().to_owned();
            switches.insert(current.clone(), Vec::new());
        } else if line.starts_with("0x") {
            let entry = line.split(" : ").next().unwrap_or_default().to_owned();
            switches.entry(current.clone()).or_default().push(entry);
        }
    }
    switches
}

#[test]
fn every_engine_of_opensm_routes_all_pairs_of_a_fat_tree() {
    let fabric = Fabric::up(
        Transport::Veth,
        "fat-tree-4-2",
        &["--sm", "none", "--vls", "8"],
    );
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dump = folder.path().join("lfts");
    for engine in [
        "minhop", "dnup", "ftree", "lash", "dor", "dfsssp", "sssp", "nue", "updn",
    ] {
        let sm = OpenSm::start(
            &fabric,
            "h0.0",
            &["-R", &format!("{engine},no_fallback"), "-Q"],
        );
        fabric
            .all_pairs()
            .unwrap_or_else(|why| panic!("{engine}: {why}"));
        sm.assert_no_errors();
    }
    // The tables of updn, as a file.
    let before = tables(&fabric, "h3.1");
    fs::write(&dump, &before).expect("a file");
    let minhop = OpenSm::start(&fabric, "h0.0", &["-R", "minhop"]);
    drop(minhop);
    let sm = OpenSm::start(&fabric, "h0.0", &["-R", "file", "-U", text(&dump)]);
    assert_eq!(entries(&tables(&fabric, "h3.1")), entries(&before));
    fabric.all_pairs().expect("the tables of the file");
    sm.assert_no_errors();
    drop(sm);
    fabric.assert_no_errors_logged();
    fabric.down();
}

/// The seed of a two-dimensional torus of three by three switches, in the syntax of torus-2QoS.
fn torus_seed(topology: &str) -> String {
    let graph = graph(topology);
    let guid = |name: &str| {
        let node = graph.node(graph.find(name).expect("a switch of that name"));
        format!("{:#018x}", node.guid.0)
    };
    let (origin, right, down) = (guid("s0"), guid("s1"), guid("s3"));
    format!("torus 3 3 1\nxp_link {origin} {right}\nyp_link {origin} {down}\n")
}

#[test]
fn engines_with_service_levels_of_their_own_route_a_torus() {
    let topology = "torus-3x3-1";
    let options = ["--sm", "none", "--vls", "8"];
    let fabric = Fabric::up(Transport::Udp, topology, &options);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let seed = folder.path().join("torus-2QoS.conf");
    fs::write(&seed, torus_seed(topology)).expect("a file");
    for engine in ["torus-2QoS", "lash", "dfsssp", "nue", "dor"] {
        let options = [
            "-R",
            &format!("{engine},no_fallback"),
            "-Q",
            "--torus_config",
            text(&seed),
        ];
        let sm = OpenSm::start_with(&fabric, "h4", &options, "max_op_vls 4\nnue_max_num_vls 0");
        fabric
            .all_pairs()
            .unwrap_or_else(|why| panic!("{engine}: {why}"));
        sm.assert_no_errors();
    }
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn ports_have_as_many_lids_as_opensm_is_told() {
    let fabric = Fabric::up(Transport::Udp, "irregular-8-2-4-7", &["--sm", "none"]);
    for lmc in ["3", "0", "1", "2"] {
        let sm = OpenSm::start(&fabric, "h3", &["--lmc", lmc, "--maxsmps", "0"]);
        let device = fabric.device("h5");
        assert_eq!(device["lmc"].to_string(), lmc, "{device}");
        let last = (1 << lmc.parse::<u32>().expect("a number")) - 1;
        for offset in [0, last] {
            let ping = [
                "ping",
                "h5",
                "h11",
                "-c",
                "1",
                "--dlid-offset",
                &offset.to_string(),
            ];
            let _ = fabric.call(&ping).success();
        }
        fabric
            .all_pairs()
            .unwrap_or_else(|why| panic!("LMC {lmc}: {why}"));
        sm.assert_no_errors();
    }
    fabric.assert_no_errors_logged();
    fabric.down();
}

/// The values after the dots of a line `name:....value` of a diagnostic tool.
fn value(printed: &str, name: &str) -> String {
    let found = printed.lines().find_map(|line| {
        let rest = line.trim_start().strip_prefix(name)?;
        Some(rest.trim_start_matches([':', '.', ' ']).to_owned())
    });
    found.unwrap_or_else(|| panic!("no {name} in {printed}"))
}

/// All hosts join a group. OpenSM answers before it has written the tables: that is waited for.
fn join_all(fabric: &Fabric, graph: &Graph) {
    let _ = fabric.call(&["mcast", "join", "all"]).success();
    let leaves = graph.switches().filter(|&switch| {
        let mut ends = graph.cables(switch).map(|(_, end)| end.node);
        ends.any(|node| graph.node(node).kind == NodeKind::Host)
    });
    let leaves: Vec<&str> = leaves.map(|id| graph.node(id).name.as_str()).collect();
    within(LIMIT, "every leaf leads to its hosts and up", || {
        let tables = fabric.call(&["mcast", "tables", "--json"]).success().json();
        let leads = |leaf: &&str| {
            let rows = tables[leaf].as_object().into_iter().flatten();
            rows.filter_map(|(_, ports)| ports.as_array())
                .any(|ports| ports.len() > 2)
        };
        match leaves.iter().all(leads) {
            true => Ok(()),
            false => Err(tables.to_string()),
        }
    });
}

#[test]
fn partitions_qos_tables_and_groups_are_as_opensm_is_told() {
    let topology = "fat-tree-4-2";
    let fabric = Fabric::up(Transport::Udp, topology, &["--sm", "none", "--vls", "8"]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let partitions = folder.path().join("partitions.conf");
    let graph = graph(topology);
    let port = |name: &str| {
        let node = graph.node(graph.find(name).expect("a host"));
        format!("{:#018x}", node.guid.0 + 1)
    };
    let text_of = format!(
        "Default=0x7fff, ipoib : ALL=full;\nred=0x0005 : {}=full, {};\n",
        port("h1.0"),
        port("h2.1")
    );
    fs::write(&partitions, text_of).expect("a file");
    let settings = "qos_max_vls 4\nqos_high_limit 7\nqos_vlarb_high 0:11,1:22\n\
                    qos_vlarb_low 0:33,1:44,2:55\n\
                    qos_sl2vl 0,1,2,3,0,1,2,3,0,1,2,3,0,1,2,3";
    let options = ["-P", text(&partitions), "-Q"];
    let sm = OpenSm::start_with(&fabric, "h0.0", &options, settings);
    fabric.all_pairs().expect("in the default partition");
    let lid = |name: &str| fabric.device(name)["lid"].to_string();
    let keys = |name: &str| {
        let query = ["smpquery", "pkeys", &lid(name)];
        diags(&fabric, "h3.0", &query).success().stdout
    };
    assert!(keys("h1.0").contains("0x8005"), "{}", keys("h1.0"));
    assert!(keys("h2.1").contains("0x0005"), "{}", keys("h2.1"));
    assert!(!keys("h3.1").contains("0005"), "{}", keys("h3.1"));
    let query = ["smpquery", "vlarb", &lid("h1.0")];
    let arbitration = diags(&fabric, "h3.0", &query).success().stdout;
    assert!(arbitration.contains("|0x21|0x2C|0x37|"), "{arbitration}");
    assert!(arbitration.contains("|0xB |0x16|"), "{arbitration}");
    let query = ["smpquery", "sl2vl", &lid("h1.0")];
    let levels = diags(&fabric, "h3.0", &query).success().stdout;
    assert!(levels.contains("| 0| 1| 2| 3| 0| 1| 2| 3|"), "{levels}");

    // The broadcast group that the partition has, and one that hosts make.
    let groups = diags(&fabric, "h2.0", &["saquery", "-g"]).success().stdout;
    assert_eq!(value(&groups, "Mlid"), "0xC000", "{groups}");
    join_all(&fabric, &graph);
    let test = ["mcast", "test", "--group", "all", "--count", "20", "--json"];
    let report = fabric.call(&test).success().json();
    assert_eq!(report["copies_received"], report["copies_expected"]);
    assert_eq!(report["members"], 8);
    sm.assert_no_errors();
    drop(sm);
    fabric.assert_no_errors_logged();
    fabric.down();
}

/// A ring of three switches with two hosts and a router, as ibnetdiscover prints it.
fn ring_with_a_router(folder: &Path) -> PathBuf {
    let printed = Outcome::of(&mut ibemu_command(&["topo", "ring-3-1"])).success();
    let host = format!("{:016x}", {
        let graph = graph("ring-3-1");
        graph.node(graph.find("h2").expect("a host")).guid.0
    });
    let digits = host.trim_start_matches('0');
    let text = printed
        .stdout
        .replace(&format!("caguid=0x{digits}"), &format!("rtguid=0x{digits}"))
        .replace(&format!("Ca\t1 \"H-{host}"), &format!("Rt\t1 \"R-{host}"))
        .replace(&format!("\"H-{host}"), &format!("\"R-{host}"));
    let path = folder.join("ring.topo");
    fs::write(&path, text).expect("a file");
    path
}

#[test]
fn opensm_configures_once_answers_its_console_and_routes_by_prefix() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let topology = ring_with_a_router(folder.path());
    let fabric = Fabric::up(Transport::Veth, text(&topology), &["--sm", "none"]);
    let mut once = OpenSm::spawn(&fabric, "h0", &["-o"]);
    once.wait_for_end();
    assert_eq!(once.ups(), 1);
    once.assert_no_errors();
    let _ = fabric.call(&["ping", "h0", "h1", "-c", "2"]).success();

    let routes = folder.path().join("prefix-routes.conf");
    let port = |name: &str| {
        let graph = graph("ring-3-1");
        graph.node(graph.find(name).expect("a host")).guid.0 + 1
    };
    fs::write(
        &routes,
        format!("0xfec0000000000000 {:#018x}\n", port("h2")),
    )
    .expect("a file");
    let settings = format!("prefix_routes_file {}", routes.display());
    let mut sm = OpenSm::start_with(&fabric, "h0", &["-q", "local"], &settings);
    let gid = |prefix: u64, guid: u64| Ipv6Addr::from(u128::from(prefix) << 64 | u128::from(guid));
    let (own, foreign) = (gid(0xfe80 << 48, port("h1")), gid(0xfec0 << 48, 7));
    let pair = format!("{own}-{foreign}");
    let record = diags(&fabric, "h1", &["saquery", "--sgid-to-dgid", &pair]);
    let record = record.success().stdout;
    let lid = fabric.device("h2")["lid"].to_string();
    assert_eq!(value(&record, "dlid"), lid, "{record}");

    let _ = sm.console("");
    let status = sm.console("status");
    for told in ["SM State", "Master", "Routing Engine", "minhop"] {
        assert!(status.contains(told), "{status}");
    }
    let ports = sm.console("portstatus");
    assert!(ports.contains("12 active"), "{ports}");
    let ups = sm.ups();
    let _ = sm.console("resweep heavy");
    sm.wait_for_up(ups + 1);
    sm.assert_no_errors();
    drop(sm);
    fabric.assert_no_errors_logged();
    fabric.down();
}

/// Settings of OpenSM's congestion control manager, and what devices then have by ibccquery.
const CONGESTION_CONTROL: &str = "congestion_control TRUE\ncc_key 0x77\n\
     cc_sw_cong_setting_control_map 0x1f\ncc_sw_cong_setting_threshold 0x0f\n\
     cc_sw_cong_setting_packet_size 8\ncc_sw_cong_setting_marking_rate 10\n\
     cc_ca_cong_setting_control_map 0x5\ncc_ca_cong_setting_ccti_timer 0 150\n\
     cc_cct 0:0,0:1,1:7,2:9";
const SWITCH_HAS: [(&str, &str); 4] = [
    ("Control_Map", "0x0000001f"),
    ("Threshold", "0x0f"),
    ("Packet_Size", "8"),
    ("Marking_Rate", "10"),
];

/// Waits until a device answers this query of congestion control so.
fn has_congestion_settings(fabric: &Fabric, query: [&str; 2], expected: &[(&str, &str)]) {
    let call = [&["ibccquery", "-c", "0x77"][..], &query].concat();
    within(LIMIT, "congestion control is set", || {
        let printed = diags(fabric, "h1", &call).success().stdout;
        let holds = |&(name, wanted): &(&str, &str)| value(&printed, name) == wanted;
        match expected.iter().all(holds) {
            true => Ok(()),
            false => Err(printed),
        }
    });
}

/// The performance manager's names of counters, and the switch's own.
const COUNTED: [(&str, &str); 4] = [
    ("xmit_data", "PortXmitData"),
    ("rcv_data", "PortRcvData"),
    ("xmit_pkts", "PortXmitPkts"),
    ("rcv_pkts", "PortRcvPkts"),
];

/// A port's line in the file to which OpenSM's performance manager dumps all counters, by column.
fn dumped(folder: &Path, node: &str, port: u8) -> BTreeMap<String, String> {
    let text = fs::read_to_string(folder.join("opensm_port_counters.log")).unwrap_or_default();
    let rows = text.lines().map(|line| line.split('\t').map(str::to_owned));
    let mut columns: Vec<String> = Vec::new();
    for row in rows {
        let row: Vec<String> = row.collect();
        if row.first().is_some_and(|first| first == "Name") {
            columns = row;
            continue;
        }
        let line: BTreeMap<String, String> = columns.iter().cloned().zip(row).collect();
        if line.get("Name").is_some_and(|name| name == node)
            && line.get("Port") == Some(&port.to_string())
        {
            return line;
        }
    }
    BTreeMap::new()
}

#[test]
fn opensms_performance_manager_reads_the_counters_that_switches_have_and_congestion_control_is_set()
{
    let fabric = Fabric::up(Transport::Udp, "ring-3-1", &["--sm", "none", "--no-ip"]);
    // Switches only: on the cable of h2 are then only the packets of its own traffic.
    let counting = "perfmgr TRUE\nperfmgr_sweep_time_s 1\nperfmgr_ignore_cas TRUE";
    let settings = format!("{counting}\n{CONGESTION_CONTROL}");
    let mut sm = OpenSm::start_with(&fabric, "h0", &["-q", "local"], &settings);
    let lid = |name: &str| fabric.device(name)["lid"].to_string();
    has_congestion_settings(&fabric, ["SS", &lid("s1")], &SWITCH_HAS);
    let of_host = [("Control_Map", "0x0005"), ("CCTI_Timer", "150")];
    has_congestion_settings(&fabric, ["CS", &lid("h1")], &of_host);
    has_congestion_settings(&fabric, ["CT", &lid("h1")], &[("CCTI_Limit", "3")]);
    let _ = sm.console("");
    let perf = ["perf", "h1", "h2", "--count", "500", "--json"];
    let report = fabric.call(&perf).success().json();
    assert_eq!(report["total"]["lost"], 0);
    let of_host = graph("ring-3-1");
    let switch = of_host.find("s2").expect("a switch");
    let host = of_host.find("h2").expect("a host");
    let mut cables = of_host.cables(switch);
    let (number, _) = cables
        .find(|(_, end)| end.node == host)
        .expect("a cable to h2");
    let name = format!("s2:{}", number.get());
    within(LIMIT, "the performance manager has read s2", || {
        let ports = fabric.switch_ports("s2");
        let port = ports.iter().find(|status| status.port == number);
        let counters = named(port.expect("the port of h2"));
        let wanted = COUNTED.map(|(column, counter)| (column, counters[counter].to_string()));
        let printed = sm.console(&format!("perfmgr pc {name}"));
        let holds = |(name, count): &(&str, String)| {
            printed.lines().any(|line| {
                let mut words = line.split_whitespace();
                words.next() == Some(name) && words.nth(1) == Some(count)
            })
        };
        if !wanted.iter().all(holds) {
            return Err(format!("{wanted:?} in {printed}"));
        }
        let _ = sm.console("perfmgr dump_counters mach");
        let dump = dumped(sm.folder(), "s2", number.get());
        match wanted
            .iter()
            .all(|(name, count)| dump.get(*name) == Some(count))
        {
            true => Ok(()),
            false => Err(format!("{wanted:?} in {dump:?}")),
        }
    });
    sm.assert_no_errors();
    drop(sm);
    fabric.assert_no_errors_logged();
    fabric.down();
}
