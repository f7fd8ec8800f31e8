//! The other formats.

use proptest::prelude::*;
use wire::choice::Choice as _;
use wire::{Guid, LinkSpeed};

use super::*;
use crate::AsBuilt;
use crate::graph::Endpoint;

fn read(text: &str) -> Description {
    read_description(text, None).unwrap_or_else(|error| panic!("{error} in\n{text}"))
}

/// `leaf:1-node:1 4xHDR` for every cable, sorted.
fn cables(graph: &Graph) -> Vec<String> {
    let end = |end: Endpoint| format!("{}:{}", graph.node(end.node).name, end.port);
    let mut cables: Vec<String> = graph
        .links()
        .map(|(a, b)| {
            let mut ends = [end(a), end(b)];
            ends.sort();
            let rate = graph.rate(a).map(words::rate_word).unwrap_or_default();
            format!("{}-{} {rate}", ends[0], ends[1])
                .trim_end()
                .to_owned()
        })
        .collect();
    cables.sort();
    cables
}

const LST: &str = "\
{ SW Ports:24 SystemGUID:0000000000000050 NodeGUID:0000000000000051 PortGUID:0000000000000051 VenID:0002C9 DevID:D2F2 Rev:000000A0 {leaf {1} LID: x} LID:0002 PN:14 } { CA-SM Ports:02 SystemGUID:0000000000000060 NodeGUID:0000000000000060 PortGUID:0000000000000062 VenID:000002C9 DevID:10210000 Rev:00000000 {node HCA-1} LID:0005 PN:02 } PHY=4x LOG=ACT SPD=50
{ SW Ports:24 SystemGUID:0000000000000050 NodeGUID:0000000000000051 PortGUID:0000000000000051 VenID:0002C9 DevID:D2F2 Rev:000000A0 {leaf {1} LID: x} LID:0002 PN:01 } { SW Ports:24 SystemGUID:0000000000000070 NodeGUID:0000000000000071 PortGUID:0000000000000071 VenID:0002C9 DevID:D2F2 Rev:000000A0 {spine} LID:0003 PN:01 } PHY=4x LOG=ACT SPD=100
";

#[test]
fn lst_files_say_a_cable_a_line_from_one_end_or_from_both() {
    let one = read(LST);
    assert_eq!(one.format, TextFormat::Lst);
    assert_eq!(
        cables(&one.graph),
        [
            "leaf {1} LID: x:1-spine:1 4xNDR",
            "leaf {1} LID: x:20-node HCA-1:2 4xHDR"
        ]
    );
    let node = one.graph.node(one.graph.find("node HCA-1").unwrap());
    assert_eq!(
        (node.device_id, node.ports, node.vendor_id),
        (0x1021, 2, 0x2c9)
    );
    assert_eq!(node.port_guid(wire::PortNum::new(2)), Guid(0x62));
    let turned: Vec<String> = LST
        .lines()
        .map(|line| {
            let (a, rest) = line.split_once("} { ").unwrap();
            let (b, tail) = rest.split_once("} PHY").unwrap();
            format!("{{ {b}}} {a}}} PHY{tail}")
        })
        .collect();
    let both = read(&format!("{LST}{}", turned.join("\n")));
    assert_eq!(both.graph, one.graph);
    assert_eq!(both.warnings.count(), 0);
    let without = LST
        .replace("{leaf {1} LID: x} ", "")
        .replace("{spine} ", "");
    assert_eq!(read(&without).graph.links().count(), 2);
    let cut = LST.replace("PN:02 }", "PN:02");
    assert!(
        message(&cut).starts_with("1: this is neither"),
        "{}",
        message(&cut)
    );
}

#[test]
fn names_that_look_like_lines_of_another_format_do_not_hide_the_format() {
    for name in [
        "x LID:1 } { SW NodeGUID:2",
        "a 1 1[  ] ==( 4X 25 Gbps )==> 1 2[  ] b",
        "SwitchName=a",
    ] {
        let mut graph = crate::parse("star-2").unwrap().graph;
        let host = graph.hosts().next().unwrap();
        let mut renamed = Graph::new();
        for id in graph.ids() {
            let mut node = graph.node(id).clone();
            if id == host {
                node.name = name.to_owned();
                node.description = name.to_owned();
            }
            renamed.add(node).unwrap();
        }
        for (a, b) in graph.links() {
            renamed.connect(a, b).unwrap();
        }
        graph = renamed;
        for format in [TextFormat::Json, TextFormat::Ibnetdiscover] {
            let text = format.write(&graph).unwrap();
            let read = read(&text);
            assert_eq!(read.format, format);
            assert_eq!(cables(&read.graph), cables(&graph));
        }
    }
}

const PORTS: &str = "\
SW     1  1 0x0000000000000051 4x HDR - CA     5  1 0x0000000000000061 ( 'leaf' - 'it's node 1' )
SW     1  2 0x0000000000000051 4x FDR10 - CA     6  2 0x0000000000000062 ( 'leaf' - 'it's node 1' )
SW     1  3 0x0000000000000051 4x SDR                                    'leaf'
CA     6  2 0x0000000000000062 4x FDR10 - SW     1  2 0x0000000000000051 ( 'it's node 1' - 'leaf' )
CA     5  1 0x0000000000000061 4x HDR - SW     1  1 0x0000000000000051 ( 'it's node 1' - 'leaf' )
";

#[test]
fn the_ports_report_says_a_port_a_line() {
    let read = read(PORTS);
    assert_eq!(read.format, TextFormat::Ports);
    assert_eq!(
        cables(&read.graph),
        ["it's node 1:1-leaf:1 4xHDR", "it's node 1:2-leaf:2 4xFDR10"]
    );
    let node = read.graph.node(read.graph.find("it's node 1").unwrap());
    assert_eq!((node.guid, node.ports), (Guid(0x61), 2));
    assert_eq!(read.graph.node(read.graph.find("leaf").unwrap()).ports, 3);
}

const LINKS: &str = r#"CA: node HCA-1:
      0x0000000000000061      5    1[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>       1    2[  ] "MF0;leaf:X/U1" ( )
Switch: 0x0000000000000051 MF0;leaf:X/U1:
           1    1[  ] ==(                Down/ Polling)==>             [  ] "" ( )
           1    2[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>       5    1[  ] "node HCA-1" ( )
           1    3[  ] ==( 4X      10.0 Gbps (FDR10) Active/  LinkUp)==>       7    1[ 4] "other "x" (a)" (Could be 14.0625 Gbps)
CA: other "x" (a):
      0x0000000000000071      7    1[  ] ==( 4X      10.0 Gbps (FDR10) Active/  LinkUp)==>       1    3[  ] "MF0;leaf:X/U1" ( )
"#;

#[test]
fn iblinkinfo_says_links_below_headings() {
    let all = read(LINKS);
    assert_eq!(all.format, TextFormat::Iblinkinfo);
    assert_eq!(
        cables(&all.graph),
        [
            "MF0;leaf:X/U1:2-node HCA-1:1 4xEDR",
            "MF0;leaf:X/U1:3-other \"x\" (a):1 4xFDR10"
        ]
    );
    assert_eq!(all.warnings.count(), 0);
    assert!(
        all.graph
            .ids()
            .all(|id| all.graph.node(id).disabled_ports.is_empty())
    );
    let start = LINKS.find("Switch").unwrap();
    let end = LINKS.find("CA: other").unwrap();
    let switches = read(&LINKS[start..end]);
    assert_eq!(cables(&switches.graph), cables(&all.graph));
    let warnings: Vec<String> = switches.warnings.iter().map(ToString::to_string).collect();
    // The two hosts have no GUIDs there.
    let [warning, _, _] = &warnings[..] else {
        panic!("{warnings:?}");
    };
    assert!(
        warning.starts_with("line 3: \"node HCA-1\" has no line of its own"),
        "{warning}"
    );
}

#[test]
fn iblinkinfo_says_which_ports_are_switched_off_and_json_keeps_it() {
    let text = LINKS.replace("Down/ Polling", "Down/Disabled");
    let said = read(&text).graph;
    let leaf = |graph: &Graph| graph.node(graph.switches().next().unwrap()).clone();
    assert!(leaf(&said).disabled_ports.iter().eq(&[1]));
    let again = read(&TextFormat::Json.write(&said).unwrap()).graph;
    assert_eq!(leaf(&again), leaf(&said));
    // A cable in a port says that it is on, whatever a line says.
    let both = text.replace("Active/  LinkUp)==>       5 ", "Down/Disabled)==>       5 ");
    assert!(leaf(&read(&both).graph).disabled_ports.iter().eq(&[1]));
    let wrong = TextFormat::Json.write(&said).unwrap().replace(
        "\"disabled_ports\": [\n        1\n",
        "\"disabled_ports\": [\n        4\n",
    );
    let error = super::read_description(&wrong, None).unwrap_err();
    assert!(error.to_string().contains("no port 4"), "{error}");
}

#[test]
fn iblinkinfo_says_whole_links_in_lines() {
    let text = r#"0x0000000000000061 "        node HCA-1"      5    1[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>  0x0000000000000051      1    2[  ] "leaf" ( )
0x0000000000000051 "              leaf"      1    1[  ] ==(                Down/ Polling)==>             [  ] "" ( )
0x0000000000000051 "              leaf"      1    2[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>  0x0000000000000061      5    1[  ] "node HCA-1" ( )
"#;
    let read = read(text);
    assert_eq!(read.format, TextFormat::Iblinkinfo);
    assert_eq!(cables(&read.graph), ["leaf:2-node HCA-1:1 4xNDR"]);
    assert_eq!(read.graph.switches().count(), 1);
}

#[test]
fn slurms_tree_has_a_cable_for_each_pair_and_topographs_names() {
    let text = "# switch.2.1=spine 1\nSwitchName=switch.2.1 Switches=switch.1.[1-2]\n\
                # switch.1.1=leaf-1\nSwitchName=switch.1.1 Nodes=n[08-09] LinkSpeed=1 # rack 1\n\
                switchname=switch.1.2 \\\n  nodes=n10\nMaxNodes=3\n";
    let tree = read(text);
    assert_eq!(tree.format, TextFormat::Slurm);
    assert_eq!(
        cables(&tree.graph),
        [
            "leaf-1:1-n08:1",
            "leaf-1:2-n09:1",
            "leaf-1:3-spine 1:1",
            "n10:1-switch switch.1.2:1",
            "spine 1:2-switch switch.1.2:2"
        ]
        .map(|cable| cable.replace("switch switch.1.2", "switch.1.2"))
    );
    assert_eq!(tree.warnings.count(), 1);
    for (text, wanted) in [
        (
            "SwitchName=a Switches=b\n",
            "1: no line describes the switch \"b\"",
        ),
        (
            "SwitchName=a Switches=a\n",
            "1: the switch \"a\" cannot be under itself",
        ),
        ("SwitchName=a Nodes=b[1\n", "1: \"b[1\" is no list of names"),
        (
            "SwitchName=a Nodes=b[1-300]\n",
            "1: \"a\" would have more than 254 ports",
        ),
        (
            "SwitchName=a Nodes=b[1-99999]\n",
            "1: \"b[1-99999]\" is no list",
        ),
        (
            "SwitchName=a Nodes=b\nSwitchName=a Nodes=c\n",
            "2: the node id \"a\"",
        ),
    ] {
        assert!(message(text).starts_with(wanted), "{}", message(text));
    }
}

#[test]
fn topographs_instances_stand_under_their_layers() {
    let text = r#"{"instances": [
        {"id": "I1", "network_layers": ["leaf-a", "spine"], "labels": {}},
        {"id": "I2", "network_layers": ["leaf-a", "spine"]},
        {"id": "I3", "network_layers": ["leaf-b", "spine"]}]}"#;
    let read = read(text);
    assert_eq!(read.format, TextFormat::Topograph);
    assert_eq!(
        cables(&read.graph),
        [
            "I1:1-leaf-a:1",
            "I2:1-leaf-a:2",
            "I3:1-leaf-b:1",
            "leaf-a:3-spine:1",
            "leaf-b:2-spine:2"
        ]
    );
}

#[test]
fn a_format_that_is_given_is_not_looked_for() {
    let error = read_description(LST, Some(TextFormat::Slurm)).unwrap_err();
    assert!(
        error.to_string().starts_with("1: this is neither"),
        "{error}"
    );
    for format in TextFormat::readable() {
        assert!(
            read_description("", Some(format)).is_err(),
            "{}",
            format.name()
        );
    }
}

#[test]
fn ibsims_options_say_width_and_speed() {
    let text = "Switch 2 \"a\"\n[1] \"b\" [2] w=8 s=2\nSwitch 2 \"b\"\n[2]\t\"a\"[1]\tw=3 e=15\n";
    let read = read(text);
    assert_eq!(read.format, TextFormat::Ibsim);
    assert_eq!(cables(&read.graph), ["a:1-b:2 12xDDR"]);
}

#[test]
fn drawings_hold_every_node_and_cable_whatever_their_names() {
    let text = "Switch 2 \"a\" # \"say \\\"x\\\" #1\"\n[1] \"b\"[1]\nHca 1 \"b\"\n[1] \"a\"[1]\n";
    let graph = read(text).graph;
    assert_eq!(
        TextFormat::Dot.write(&graph).unwrap(),
        "graph fabric {\n  \"say \\\\\\\"x\\\\\\\" #1\" [shape=box];\n  \"b\" [shape=ellipse];\n  \
         \"say \\\\\\\"x\\\\\\\" #1\" -- \"b\" [taillabel=\"1\", headlabel=\"1\"];\n}\n"
    );
    assert_eq!(
        TextFormat::Mermaid.write(&graph).unwrap(),
        "flowchart BT\n  n0[\"say \\#quot;x\\#quot; #35;1\"]\n  n1([\"b\"])\n  n0 ---|\"1 - 1\"| n1\n"
    );
}

#[test]
fn slurm_has_the_hosts_of_switches_with_others_below_under_a_switch_of_their_own() {
    let graph = AsBuilt {
        failed_percent: 0,
        service_hosts: 1,
        loopbacks: 0,
        dual_rail_percent: 0,
        ..AsBuilt::new(2, 16, 1, 0, 5)
    };
    let text = TextFormat::Slurm.write(&graph.graph().unwrap()).unwrap();
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[0].starts_with("SwitchName=leaf0 Nodes=h"), "{text}");
    assert_eq!(lines[2], "SwitchName=spine0-nodes Nodes=service0");
    assert_eq!(
        lines[3],
        "SwitchName=spine0 Switches=leaf[0-1],spine0-nodes"
    );
    assert!(read(&text).warnings.count() == 0);
}

/// Pairs of names that a cable connects.
fn pairs(graph: &Graph) -> std::collections::BTreeSet<[String; 2]> {
    let name = |end: Endpoint| graph.node(end.node).name.clone();
    let sorted = graph.links().map(|(a, b)| {
        let mut ends = [name(a), name(b)];
        ends.sort();
        ends
    });
    sorted.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn json_holds_all_of_a_fabric(
        leaves in 1_u64..5, hosts in 1_u64..5, spines in 1_u64..4, cores in 0_u64..3, seed: u64,
    ) {
        let graph = AsBuilt::new(leaves, hosts, spines, cores, seed).graph().unwrap();
        let found = read(&write_as_found(&graph, seed)).graph;
        for graph in [graph, found] {
            let text = TextFormat::Json.write(&graph).unwrap();
            prop_assert_eq!(read(&text).graph, graph);
        }
    }

    #[test]
    fn slurm_holds_who_is_next_to_whom(leaves in 1_u64..6, hosts in 1_u64..6, spines in 1_u64..4) {
        let graph = kinds::read(&format!("clos-{leaves}-{hosts}-{spines}")).unwrap().graph().unwrap();
        let text = TextFormat::Slurm.write(&graph).unwrap();
        prop_assert_eq!(pairs(&read(&text).graph), pairs(&graph));
    }
}

#[test]
fn a_name_that_is_another_nodes_id_is_no_id_in_ibsims_text() {
    let text = "switchguid=0x60\nSwitch 1 \"a\" # \"S-0000000000000070\"\nSwitch 1 \"S-0000000000000071\" # \"xxxxx\"\n";
    let graph = read(text).graph;
    assert_eq!(
        graph
            .find("S-0000000000000070")
            .map(|id| graph.node(id).guid),
        Some(Guid(0x60))
    );
    assert_eq!(read(&write_net(&graph)).graph, graph);
}

#[test]
fn every_speed_has_its_word_in_ibsims_options() {
    for &speed in LinkSpeed::VARIANTS {
        for &width in wire::LinkWidth::VARIANTS {
            let mut graph = kinds::read("star-2").unwrap().graph().unwrap();
            let host = graph.hosts().next().unwrap();
            let here = Endpoint {
                node: host,
                port: wire::PortNum::new(1),
            };
            let there = graph.disconnect(here).unwrap();
            let rate = wire::LinkRate { width, speed };
            graph.connect_at(here, there, Some(rate)).unwrap();
            assert_eq!(read_text(&write_ibnetdiscover(&graph)).unwrap(), graph);
            // ibsim knows neither: they have no bit of their own in LinkSpeed and LinkSpeedExt.
            if !matches!(speed, LinkSpeed::Fdr10 | LinkSpeed::Xdr) {
                assert_eq!(read_text(&write_net(&graph)).unwrap(), graph);
            }
        }
    }
}
