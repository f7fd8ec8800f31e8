use proptest::prelude::*;

use super::*;
use crate::error::TextError;
use crate::graph::{Graph, NodeKind};
use crate::kinds;

mod formats;
mod quirks;

/// The error, or the first warning.
fn message(text: &str) -> String {
    match read_description(text, None) {
        Ok(description) => {
            let warning = description.warnings.iter().next().unwrap().clone();
            format!("{}: {}", warning.line, warning.problem)
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_kind_reads_back_from_both_formats_with_names_guids_ports_and_order() {
    for name in [
        "fat-tree-4-3",
        "clos-3-2-2-2",
        "hypercube-3-1",
        "torus-2x3-2",
        "irregular-8-2-3-5",
        "star-5",
    ] {
        let graph = kinds::read(name).unwrap().graph().unwrap();
        assert_eq!(read_text(&write_net(&graph)).unwrap(), graph, "{name}");
        assert_eq!(
            read_text(&write_ibnetdiscover(&graph)).unwrap(),
            graph,
            "{name}"
        );
    }
}

const NET: &str = r#"# example
Switch	8 "Switch1"
[1]	"Hca1"[1]
[3]	"Switch2"[3]   w=12
[4]	"Switch2"[4]

Switch 8 "Switch2"
[3]	"Switch1"[3]
[4]	"Switch1"[4]

Hca	2 "Hca1"
[1]	"Switch1"
Hca	2 "Hca2"
"#;

#[test]
fn guids_that_no_line_gives_count_as_ibsim_counts() {
    let graph = read_text(NET).unwrap();
    let guid = |name| graph.node(graph.find(name).unwrap()).guid.0;
    assert_eq!(guid("Switch1"), 0x20_0000);
    assert_eq!(guid("Switch2"), 0x20_0001);
    assert_eq!(guid("Hca1"), 0x10_0000);
    assert_eq!(guid("Hca2"), 0x10_0003);
    assert_eq!(graph.links().count(), 3);
}

#[test]
fn guid_lines_set_the_next_guid_absolutely_or_from_the_last_base() {
    let graph = read_text(
        "switchguid=0x50(50)\nSwitch 1 \"a\"\nswitchguid+8\nSwitch 1 \"b\"\nSwitch 1 \"c\"\n",
    )
    .unwrap();
    let guids: Vec<_> = graph.ids().map(|id| graph.node(id).guid.0).collect();
    assert_eq!(guids, [0x50, 0x58, 0x59]);
}

#[test]
fn descriptions_are_names_unless_two_nodes_share_one() {
    let graph = read_text(
        "Ca\t1 \"H-1\"\t# \"node01 HCA-1\"\nCa\t1 \"H-2\"\t# \"same\"\nCa 1 \"H-3\" # \"same\"\n",
    )
    .unwrap();
    let names: Vec<_> = graph.ids().map(|id| &graph.node(id).name).collect();
    assert_eq!(names, ["node01 HCA-1", "H-2", "H-3"]);
    assert!(graph.hosts().count() == 3);
    assert_eq!(read_text(&write_net(&graph)).unwrap().len(), 3);
}

const QUIRKS: &str = r#"#
vendid=0x2c9
devid=0xd2f2
sysimgguid=0x50
switchguid=0x51(51)
Switch	65 "S-0000000000000051"		# "MF0;leaf:MQM9701/U1" enhanced port 0 lid 73 lmc 0
[1]	"H-0000000000000060"[1](60) 		# "node01 mlx5_0" lid 3 4xNDR
[2]	"H-0000000000000070"[2](72) 		# "node02 mlx4_0" lid 4 1xSDR
[3]	"R-0000000000000080"[1](81) 		# "router" lid 5 2xHDR
[65]	"H-0000000000000090"[1](90) 		# "Aggregation Node" lid 6 4xNDR
[64]	"H-00000000000000a0"[1](a0) 		# "Aggregation Node" lid 7 4xFDR10

vendid=0x2c9
devid=0x1021
sysimgguid=0x60
caguid=0x60
Ca	1 "H-0000000000000060"		# "node01 mlx5_0"
[1](60) 	"S-0000000000000051"[1]		# lid 3 lmc 0 "MF0;leaf:MQM9701/U1" lid 73 4xNDR

caguid=0x70
Ca	2 "H-0000000000000070"		# "node02 mlx4_0"
[2](72) 	"S-0000000000000051"[2]		# lid 4 lmc 0 "MF0;leaf:MQM9701/U1" lid 73 1xSDR

rtguid=0x80
Rt	2 "R-0000000000000080"		# "router"
[1](81) 	"S-0000000000000051"[3]		# lid 5 lmc 0 "MF0;leaf:MQM9701/U1" lid 73 2xHDR

caguid=0x90
Ca	1 "H-0000000000000090"		# "Aggregation Node"
[1](90) 	"S-0000000000000051"[65]		# lid 6 lmc 0 "MF0;leaf:MQM9701/U1" lid 73 4xNDR

caguid=0xa0
Ca	1 "H-00000000000000a0"		# "Aggregation Node"
[1](a0) 	"S-0000000000000051"[64]		# lid 7 lmc 0 "MF0;leaf:MQM9701/U1" lid 73 4xFDR10
"#;

#[test]
fn a_file_says_who_a_device_is_and_how_fast_its_links_are() {
    let graph = read_text(QUIRKS).unwrap();
    let node = |guid| graph.node(graph.find_guid(wire::Guid(guid)).unwrap());
    let leaf = node(0x51);
    assert_eq!(
        (leaf.vendor_id, leaf.device_id, leaf.system_image_guid.0),
        (0x2c9, 0xd2f2, 0x50)
    );
    assert!(leaf.enhanced_port0);
    let port_guid = |guid, port| node(guid).port_guid(wire::PortNum::new(port)).0;
    assert_eq!([port_guid(0x60, 1), port_guid(0x70, 2)], [0x60, 0x72]);
    let silent = node(0x70);
    assert_eq!(
        (silent.vendor_id, silent.system_image_guid.0),
        (crate::VENDOR_ID, 0x70)
    );
    assert!(node(0x80).is_router && !silent.is_router);
    for guid in [0x90, 0xa0] {
        assert_eq!(node(guid).description, "Aggregation Node");
        assert_eq!(node(guid).name, format!("H-{guid:016x}"));
    }
    let switch = graph.find_guid(wire::Guid(0x51)).unwrap();
    let rates = [1, 2, 3, 64].map(|port| {
        let port = wire::PortNum::new(port);
        let rate = graph.rate(crate::Endpoint { node: switch, port }).unwrap();
        (rate.width.lanes(), rate.speed)
    });
    use wire::LinkSpeed::{Fdr10, Hdr, Ndr, Sdr};
    assert_eq!(rates, [(4, Ndr), (1, Sdr), (2, Hdr), (4, Fdr10)]);
    assert_eq!(read_text(&write_ibnetdiscover(&graph)).unwrap(), graph);
}

#[test]
fn names_that_ibsim_cannot_take_become_descriptions() {
    let graph = read_text("Switch 2 \"x\" # \"MF0;core-switch:SX6036/U1\"\n").unwrap();
    let text = write_net(&graph);
    assert!(
        text.contains("\"S-0000000000200000\"\t# \"MF0;core-switch:SX6036/U1\""),
        "{text}"
    );
    assert_eq!(read_text(&text).unwrap(), graph);
}

#[test]
fn wrong_lines_are_named_with_what_is_wrong() {
    let missing = NET.replace("Switch 8 \"Switch2\"", "Switch 8 \"Switch3\"");
    assert_eq!(
        message(&missing),
        "4: dangling link: port 3 of \"Switch1\" leads to \"Switch2\", which is not defined"
    );
    let one_sided = NET.replace("[4]\t\"Switch1\"[4]\n", "");
    assert_eq!(
        message(&one_sided),
        "5: dangling link: port 4 of \"Switch1\" leads to port 4 of \"Switch2\", which is not \
         connected"
    );
    let crossed = NET.replace("[4]\t\"Switch1\"[4]\n", "[4]\t\"Switch1\"[5]\n");
    assert!(message(&crossed).ends_with("which leads to port 5 of \"Switch1\""));
    for (line, wanted) in [
        ("Switch 0 \"x\"", "1: the number of ports"),
        ("Switch 255 \"x\"", "1: the number of ports"),
        ("Switch x", "1: the node id"),
        ("Swich 8 \"x\"", "1: this is neither"),
        ("[1] \"x\"[1]", "1: a port without a node"),
        ("caguid=0xzz", "1: \"0xzz\" is not a GUID"),
        ("devid=0x12345", "1: \"0x12345\" is no device number"),
        ("vendid=2c9", "1: \"2c9\" is no vendor number"),
        (
            "include \"other.net\"",
            "1: include: only files include others",
        ),
        (
            "Ca 1 \"a\"\n[2] \"a\"[1]",
            "2: port 2 of \"a\": it has ports 1 to 1",
        ),
        ("Ca 1 \"a\"\n[x] \"a\"[1]", "2: port x of \"a\""),
        (
            "Ca 1 \"a\"\nCa 1 \"a\"",
            "2: the node id \"a\" is already used in line 1",
        ),
        (
            "Ca 2 \"a\"\n[1] \"b\"\n[1] \"c\"",
            "3: port 1 of \"a\" is already connected in line 2",
        ),
        (
            "caguid=1\nCa 1 \"a\"\ncaguid=1\nCa 1 \"b\"",
            "4: node \"b\": the GUID",
        ),
        (
            "Ca 1 \"a\"\n[1] \"a\"[1]",
            "2: port 1 of \"a\" already has a cable",
        ),
        ("# nothing\n", "1: no node is defined"),
        ("", "1: no node is defined"),
    ] {
        assert!(message(line).starts_with(wanted), "{}", message(line));
    }
}

fn random_graph() -> impl Strategy<Value = Graph> {
    let node = (any::<bool>(), 1_u8..6, "[a-z ;:/\\-.A-Z0-9]{1,40}");
    let cables = prop::collection::vec((0_usize..8, 1_u8..6, 0_usize..8, 1_u8..6), 0..20);
    (prop::collection::vec(node, 1..8), cables).prop_map(|(nodes, cables)| {
        let mut graph = Graph::new();
        for (index, (switch, ports, name)) in nodes.into_iter().enumerate() {
            let kind = if switch {
                NodeKind::Switch
            } else {
                NodeKind::Host
            };
            // The index keeps names apart; the quote marks the end that trimming leaves alone.
            let name = format!("{name}_{index}");
            let guid = wire::Guid(1 << (index * 4));
            let _ = graph.add(crate::graph::Node::new(name, kind, guid, ports));
        }
        for (a, a_port, b, b_port) in cables {
            let end = |node: usize, port| crate::graph::Endpoint {
                node: crate::graph::NodeId::from_index(node % graph.len()),
                port: wire::PortNum::new(port),
            };
            let (a, b) = (end(a, a_port), end(b, b_port));
            let _ = graph.connect(a, b);
        }
        graph
    })
}

proptest! {
    #[test]
    fn any_graph_reads_back_from_both_formats(graph in random_graph()) {
        prop_assert_eq!(&read_text(&write_net(&graph)).unwrap(), &graph);
        prop_assert_eq!(&read_text(&write_ibnetdiscover(&graph)).unwrap(), &graph);
    }

    #[test]
    fn no_text_makes_the_reader_panic(
        lines in prop::collection::vec("((Switch|Ca|\\[|caguid[=+]|@)[0-9x \"#a\\]\\[]{0,12}|\\PC{0,20})", 0..12)
    ) {
        let _: Result<Graph, TextError> = read_text(&lines.join("\n"));
    }
}

#[test]
fn what_controls_a_terminal_is_refused_with_its_line() {
    for (character, shown) in [
        ('\u{1b}', "\\u{1b}"),
        ('\u{9b}', "\\u{9b}"),
        ('\u{7f}', "\\u{7f}"),
    ] {
        let text = format!("Switch\t1 \"s0\"\t# \"a{character}]0;x\"\n");
        let error = read_text(&format!("# first line\n{text}")).unwrap_err();
        assert_eq!(error.line, 2);
        let message = error.to_string();
        assert!(
            message.contains("character 19") && message.contains(shown),
            "{message}"
        );
        assert!(!message.contains(character), "{message:?}");
    }
}
