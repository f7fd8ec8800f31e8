//! Devices as they are: what a file says of a fabric is what stock programs show of the fabric that was
//! brought up from it.

use std::collections::BTreeSet;

use e2e::{Fabric, Transport, diags, ibnetdiscover};
use topologies::{Endpoint, Graph};

/// Adapters with two ports, a router, aggregation nodes, a cable from a switch to itself, mixed speeds.
fn file() -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../topologies/files");
    format!("{folder}/quirks.ibnetdiscover")
}

/// Bits a second that arrive from one host at another.
fn throughput(fabric: &Fabric, from: &str, to: &str) -> f64 {
    let report = fabric.call(&["perf", from, to, "--seconds", "2", "--json"]);
    let report = report.success().json();
    let rate = report["total"]["bits_per_second"].as_f64();
    rate.unwrap_or_else(|| panic!("{report:#}"))
}

#[test]
fn a_file_comes_up_and_stock_programs_show_what_it_says() {
    // The subnet manager runs beside node01, and so does ibnetdiscover: its client library makes its own
    // port's GUID of the node's.
    let fabric = Fabric::up(Transport::Veth, &file(), &["--time-scale", "1000"]);
    let asked = topologies::parse(&file())
        .expect("the file is readable")
        .graph;
    for (host, port) in [("node01 mlx4_0", ""), ("node01 mlx4_0", ":2")] {
        let text = ibnetdiscover(&fabric, &format!("{host}{port}"));
        let seen = topologies::read_text(&text).expect("ibnetdiscover's text is readable");
        assert_eq!(seen.in_guid_order(), asked.in_guid_order(), "{text}");
    }
    fabric.all_pairs().expect("all ports answer all others");
    let to_second = fabric.call(&["ping", "node05 HCA-1", "node01 mlx4_0:2"]);
    assert!(to_second.success().stdout.contains("node01 mlx4_0:2"));
    let unplugged = diags(
        &fabric,
        "node02 mlx4_0",
        &["smpquery", "portinfo", "-D", "0", "1"],
    );
    assert!(
        unplugged.success().stdout.contains("Down"),
        "port 1 has no cable"
    );
    let router = fabric.device("IB router");
    assert_eq!(router["kind"], "host", "{router:#}");

    let fast = throughput(&fabric, "node03 HCA-1", "node05 HCA-1");
    let slow = throughput(&fabric, "node03 HCA-1", "node04 HCA-1");
    assert!((3.0..5.0).contains(&(fast / slow)), "4x {fast}, 1x {slow}");
    fabric.assert_no_errors_logged();
    fabric.down();
}

/// Every node with GUID, box, ports and description, and every cable, whatever the order and the rates.
fn picture(graph: &Graph) -> BTreeSet<String> {
    let nodes = graph.ids().map(|id| {
        let node = graph.node(id);
        let (image, ports) = (node.system_image_guid, node.ports);
        format!(
            "{} in {image}, {ports} ports: {}",
            node.guid, node.description
        )
    });
    let cables = graph.links().map(|(a, b)| {
        let mut ends = [a, b].map(|end| format!("{}:{}", graph.node(end.node).guid, end.port));
        ends.sort();
        ends.join(" - ")
    });
    nodes.chain(cables).collect()
}

#[test]
fn a_dragonfly_and_directors_come_up_and_ibnetdiscover_gives_them_again() {
    for (topology, structure) in [
        (
            "dragonfly-3-3-2",
            "3 groups of 3 switches, joined as in a dragonfly",
        ),
        (
            "directors-4-2-2-2-2",
            "2 director switches of 2 leaf and 2 spine boards",
        ),
    ] {
        let asked = topologies::parse(topology).expect("a topology").graph;
        let fabric = Fabric::planned(Transport::Udp);
        let up = fabric.try_up(topology, &[]).success();
        assert!(up.stdout.contains(structure), "{up}");
        fabric.all_pairs().expect("every pair answers");
        let host = asked.hosts().next().expect("a host");
        let text = ibnetdiscover(&fabric, &asked.node(host).name);
        let seen = topologies::read_text(&text).expect("ibnetdiscover's text is readable");
        assert_eq!(picture(&seen), picture(&asked), "{topology}");
        fabric.assert_no_errors_logged();
        fabric.down();
    }
}

#[test]
fn an_enhanced_port_0_answers_by_all_its_lids_and_stock_programs_show_its_lmc() {
    let options = ["--routing", "updn", "--lmc", "2", "--lmc-esp0"];
    let fabric = Fabric::up(Transport::Udp, &file(), &options);
    let host = "node01 mlx4_0";
    let switch = "MF0;leaf:SX6036/U1";
    let lid = fabric.device(switch)["lid"].as_u64().expect("a LID");
    assert_eq!(lid % 4, 0);
    let text = ibnetdiscover(&fabric, host);
    let line = format!("\"{switch}\" enhanced port 0 lid {lid} lmc 2");
    assert!(text.contains(&line), "{text}");
    let mut base = text.lines().filter(|line| line.contains("base port 0"));
    assert!(base.all(|line| line.ends_with("lmc 0")), "{text}");
    let said = |command: &[&str]| diags(&fabric, host, command).success().stdout;
    for lid in lid..lid + 4 {
        let lid = lid.to_string();
        assert!(said(&["smpquery", "nodedesc", &lid]).contains(switch));
        assert!(said(&["perfquery", &lid, "1"]).contains("PortSelect"));
        let records = said(&["saquery", "NR", &lid]);
        assert!(records.contains(switch), "{records}");
    }
    let info = said(&["smpquery", "portinfo", &lid.to_string(), "0"]);
    let lmc = info.lines().find(|line| line.starts_with("LMC:"));
    assert!(lmc.is_some_and(|line| line.ends_with(".2")), "{info}");
    let records = said(&["saquery", "PIR", &lid.to_string()]);
    let has_lmc = |line: &str| line.to_lowercase().contains("lmc") && line.ends_with('2');
    assert!(records.lines().any(has_lmc), "{records}");
    fabric.assert_no_errors_logged();
    fabric.down();
}

/// What iblinkinfo prints of a switch with a port that looks for a peer and one that is switched off.
const PORTS: &str = "CA: node1 HCA-1:
      0x0002c90300000061      5    1[  ] ==( 4X          10.0 Gbps Active/  LinkUp)==>       1    2[  ] \"leaf\" ( )
CA: node2 HCA-1:
      0x0002c90300000071      6    1[  ] ==( 4X          10.0 Gbps Active/  LinkUp)==>       1    3[  ] \"leaf\" ( )
Switch: 0x0002c90300000051 leaf:
           1    1[  ] ==(                Down/ Polling)==>             [  ] \"\" ( )
           1    2[  ] ==( 4X          10.0 Gbps Active/  LinkUp)==>       5    1[  ] \"node1 HCA-1\" ( )
           1    3[  ] ==( 4X          10.0 Gbps Active/  LinkUp)==>       6    1[  ] \"node2 HCA-1\" ( )
           1    4[  ] ==(                Down/Disabled)==>             [  ] \"\" ( )
";

#[test]
fn ports_without_a_cable_poll_or_are_switched_off_as_the_file_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("links");
    std::fs::write(&file, PORTS).expect("the description is written");
    let file = file.to_str().expect("a path");
    let asked = topologies::parse(file).expect("the file is readable").graph;
    let fabric = Fabric::up(Transport::Udp, file, &[]);
    let host = "node1 HCA-1";
    let text = diags(&fabric, host, &["iblinkinfo"]).success().stdout;
    let seen = topologies::read_text(&text).expect("iblinkinfo's text is readable");
    assert_eq!(seen.in_guid_order(), asked.in_guid_order(), "{text}");
    for (port, physical) in [("1", "Polling"), ("4", "Disabled")] {
        let info = diags(&fabric, host, &["smpquery", "portinfo", "-D", "0,1", port]);
        let info = info.success().stdout;
        let said = |name: &str| {
            let mut lines = info.lines();
            let line = lines.find(|line| line.starts_with(name));
            line.and_then(|line| line.rsplit('.').next())
                .map(str::to_owned)
        };
        assert_eq!(said("LinkState:").as_deref(), Some("Down"), "{info}");
        assert_eq!(said("PhysLinkState:").as_deref(), Some(physical), "{info}");
    }
    fabric.assert_no_errors_logged();
    fabric.down();
}

/// Two hosts with two adapters each, which this site calls rails.
const RAILS: &str = "Switch 4 \"s\"\n[1] \"a0\"[1]\n[2] \"a1\"[1]\n[3] \"b0\"[1]\n[4] \"b1\"[1]\n\n\
                     Hca 1 \"a0\" # \"node1 rail0\"\n[1] \"s\"[1]\n\nHca 1 \"a1\" # \"node1 rail1\"\n[1] \"s\"[2]\n\n\
                     Hca 1 \"b0\" # \"node2 rail0\"\n[1] \"s\"[3]\n\nHca 1 \"b1\" # \"node2 rail1\"\n[1] \"s\"[4]\n";

#[test]
fn adapters_with_names_of_a_site_are_those_of_one_host() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rails.net");
    std::fs::write(&path, RAILS).expect("a file");
    let path = path.to_str().expect("a path");
    let fabric = Fabric::up(Transport::Udp, path, &["--adapter-names", "rail?"]);
    fabric.all_pairs().expect("every port answers all others");
    for host in ["node1", "node2"] {
        let listed = diags(&fabric, host, &["ibstat", "-l"]).success();
        assert_eq!(listed.stdout, "rail0\nrail1\n", "{listed}");
    }
    fabric.down();
}

#[test]
fn a_part_of_a_fabric_comes_up_as_the_topology_that_is_left() {
    let leave_out = [
        "--without",
        "h0.*",
        "--only",
        "h?.0.*",
        "--hosts-per-leaf",
        "1",
    ];
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-3", &leave_out);
    let seen = topologies::read_text(&ibnetdiscover(&fabric, "h1.0.0")).expect("a fabric");
    let hosts = |graph: &Graph| -> BTreeSet<String> {
        graph
            .hosts()
            .map(|id| graph.node(id).name.clone())
            .collect()
    };
    let left = ["h1.0.0", "h2.0.0", "h3.0.0"].map(str::to_owned);
    assert_eq!(hosts(&seen), BTreeSet::from(left));
    let described = [
        &["topo", "fat-tree-4-3", "--format", "ibnetdiscover"][..],
        &leave_out,
    ]
    .concat();
    let described = e2e::ibemu_command(&described).output().expect("a topology");
    let described = String::from_utf8(described.stdout).expect("text");
    let described = topologies::read_text(&described).expect("ibemu's text is readable");
    // The description says nothing of rates.
    let cables = |graph: &Graph| -> BTreeSet<[String; 2]> {
        let end = |end: Endpoint| format!("{}:{}", graph.node(end.node).name, end.port);
        let both = graph.links().map(|(one, other)| [end(one), end(other)]);
        both.map(|mut ends| {
            ends.sort();
            ends
        })
        .collect()
    };
    assert_eq!(cables(&seen).len(), 21);
    assert_eq!(cables(&seen), cables(&described));
    fabric.all_pairs().expect("all hosts that are left answer");
    fabric.down();
}
