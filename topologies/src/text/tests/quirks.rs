//! ibnetdiscover's text as people have it.

use proptest::prelude::*;

use super::*;
use crate::AsBuilt;

const PAIR: &str = r#"vendid=0x2c9
switchguid=0x51(51)
Switch	4 "S-0000000000000051"		# "leaf" base port 0 lid 1 lmc 0
[1]	"H-0000000000000060"[1](61) 		# "node" lid 2 4xHDR

caguid=0x60
Ca	1 "H-0000000000000060"		# "node"
[1](61) 	"S-0000000000000051"[1]		# lid 2 lmc 0 "leaf" lid 1 4xHDR
"#;

fn described(text: &str) -> Description {
    read_description(text, None).unwrap_or_else(|error| panic!("{error} in\n{text}"))
}

fn warnings(text: &str) -> Vec<String> {
    described(text)
        .warnings
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn prompts_and_messages_of_programs_are_warnings_with_their_lines() {
    let text = format!(
        "[root@n01 ~]# ibnetdiscover\nsrc/query_smp.c:195; umad bad status 110\n{}\nuser@n01:~$ exit\n",
        PAIR.replace("\ncaguid", "ibwarn: [9] _do_madrpc: recv failed\ncaguid")
    );
    let read = described(&text);
    assert_eq!(read.graph, read_text(PAIR).unwrap());
    let warnings: Vec<String> = read.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 4, "{warnings:?}");
    assert_eq!(
        warnings[0],
        "line 1: this is neither a node, a port of a node, nor a setting: \"[root@n01 ~]# ibnetdiscover\""
    );
    assert!(warnings[2].starts_with("line 7: "), "{warnings:?}");
}

#[test]
fn the_example_of_the_manual_page_has_a_section_of_nodes_without_chassis() {
    let text = format!("#\n# Max of 3 hops discovered\n\nNon-Chassis Nodes\n\n{PAIR}");
    assert_eq!(read_text(&text), read_text(PAIR));
    let grouped = PAIR.replace("[1]\t\"H", "[1][ext 5]\t\"H").replace(
        "vendid",
        "Chassis 1 (guid 0x8f1)\nHostname: n01\n\n# Spine Nodes\nvendid",
    );
    assert_eq!(warnings(&grouped), [""; 0]);
    assert_eq!(read_text(&grouped), read_text(PAIR));
}

#[test]
fn names_hold_quotes_and_hashes_and_may_be_missing() {
    let name = r##"the "old" node #2"##;
    let text = PAIR.replace("# \"node\"", &format!("# \"{name}\""));
    assert!(read_text(&text).unwrap().find(name).is_some());
    let text = PAIR.replace("# \"node\"", "# \"\"");
    assert!(
        read_text(&text)
            .unwrap()
            .find("H-0000000000000060")
            .is_some()
    );
    let text = PAIR.replace("\"leaf\" base", "SW-6IB4 Voltaire base");
    assert!(read_text(&text).unwrap().find("SW-6IB4 Voltaire").is_some());
}

#[test]
fn the_guid_of_a_node_is_the_one_in_its_id() {
    let text = PAIR.replace("switchguid=0x51(51)\n", "switchguid=0x50(51)\n");
    let graph = read_text(&text).unwrap();
    assert!(graph.find_guid(wire::Guid(0x51)).is_some());
    assert_eq!(
        read_text(&PAIR.replace("switchguid=0x51(51)\n", "")),
        Ok(graph)
    );
}

#[test]
fn guids_that_are_blanked_out_are_made_up_with_a_warning() {
    let text = PAIR
        .replace("0000000000000051", "xxxxxxxxxxxxxxxx")
        .replace("0000000000000060", "xxxxxxxxxxxxxxxx")
        .replace("0x51(51)", "0xxxxxxxxxxxxxxxxx(xxxxxxxxxxxxxxxx)")
        .replace("0x60", "0xxxxxxxxxxxxxxxxx");
    let read = described(&text);
    assert_eq!(read.graph.links().count(), 1);
    let leaf = read.graph.node(read.graph.find("leaf").unwrap());
    let node = read.graph.node(read.graph.find("node").unwrap());
    assert_ne!(leaf.guid, node.guid);
    let warnings: Vec<String> = read.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 2);
    assert!(
        warnings[0].starts_with(
            "line 3: the GUID of \"S-xxxxxxxxxxxxxxxx leaf\" is not there: it is given 0x021be3"
        ),
        "{warnings:?}"
    );
}

#[test]
fn a_cable_that_only_one_end_names_is_left_out_if_others_connect_its_ends() {
    let two = "Switch 4 \"a\"\n[1] \"b\"[1]\n[2] \"b\"[2]\nSwitch 4 \"b\"\n[1] \"a\"[1]\n";
    assert_eq!(
        warnings(two),
        ["line 3: dangling link: port 2 of \"a\" leads to port 2 of \"b\", which is not connected"]
    );
    assert_eq!(read_text(two).unwrap().links().count(), 1);
    let alone = two
        .replace("[1] \"b\"[1]\n", "")
        .replace("[1] \"a\"[1]\n", "");
    assert_eq!(
        message(&alone),
        "2: dangling link: port 2 of \"a\" leads to port 2 of \"b\", which is not connected"
    );
}

#[test]
fn a_node_that_cannot_be_read_is_the_error_if_others_lead_to_it() {
    let text = PAIR.replace("Ca\t1 ", "Ca\t300 ");
    assert_eq!(
        message(&text),
        "7: the number of ports is missing or not 1 to 254"
    );
    let text = format!("{PAIR}Ca\t300 \"H-0000000000000070\"\n[1] \"x\"[1]\n");
    assert_eq!(
        warnings(&text),
        ["line 9: the number of ports is missing or not 1 to 254"]
    );
}

#[test]
fn what_is_said_twice_in_the_same_words_counts_once() {
    let text = format!("{PAIR}\n{PAIR}");
    let read = described(&text);
    assert_eq!(read.graph, read_text(PAIR).unwrap());
    assert_eq!(read.warnings.count(), 2);
    let other = text.replacen("Ca\t1 ", "Ca\t2 ", 1);
    assert!(message(&other).ends_with("is already used in line 7"));
}

#[test]
fn more_nodes_than_a_subnet_has_and_a_million_ports_are_one_error() {
    use core::fmt::Write as _;
    let mut text = String::new();
    for host in 0..60_000 {
        let _ = writeln!(text, "Ca 16 \"h{host}\"");
    }
    assert_eq!(
        message(&text),
        "49152: more than 49151 nodes: a subnet has no more LIDs"
    );
    let mut text = String::from("Switch 254 \"s\"\n");
    for line in 0..1_000_000 {
        let _ = writeln!(text, "[{}] \"h\"[1]", line + 1);
    }
    assert_eq!(
        read_description(&text, None).unwrap_err().to_string(),
        "2: dangling link: port 1 of \"s\" leads to \"h\", which is not defined"
    );
}

#[test]
fn more_cables_than_a_node_has_ports_are_refused_at_the_line_that_names_them() {
    use core::fmt::Write as _;
    let mut text = String::new();
    for switch in 0..300 {
        let _ = writeln!(text, "SwitchName=s{switch} Nodes=n[1-9]");
    }
    assert_eq!(message(&text), "255: \"n1\" would have more than 254 ports");
}

#[test]
fn a_text_that_is_cut_short_is_an_error_wherever_hosts_are_missing() {
    let graph = AsBuilt::new(3, 3, 2, 0, 1).graph().unwrap();
    let text = write_ibnetdiscover(&graph);
    // Switches come last here: a cut before the last loses what the first host's cable leads to, or others.
    let first = text.find("\n[").unwrap();
    let first = first + 2 + text[first + 1..].find('\n').unwrap();
    let last = text.rfind("Switch\t").unwrap();
    for cut in (first..last).step_by(97) {
        assert!(read_text(&text[..cut]).is_err(), "{cut}");
    }
}

#[test]
fn binary_data_and_other_texts_are_one_error_with_a_line() {
    for (text, wanted) in [
        ("root:x:0:0::/root:/bin/sh\n", "1: this is neither"),
        ("\u{1}\u{2}\u{3}", "1: character 1 holds no text"),
        ("{\"a\": 1}", "1: this is no JSON of a fabric"),
        ("{\"instances\": 1}", "1: this is no JSON of a fabric"),
        (
            "BlockName=b1 Nodes=n[1-4]\n",
            "1: blocks of nodes say nothing",
        ),
    ] {
        let message = read_description(text, None).unwrap_err().to_string();
        assert!(message.starts_with(wanted), "{message}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn fabrics_as_built_read_back_however_they_were_found(
        leaves in 1_u64..5, hosts in 1_u64..5, spines in 1_u64..4, cores in 0_u64..3,
        failed_percent in 0_u32..100, seed: u64,
    ) {
        let plan = AsBuilt { failed_percent, ..AsBuilt::new(leaves, hosts, spines, cores, seed) };
        let graph = plan.graph().unwrap();
        let text = write_as_found(&graph, seed);
        let read = described(&text);
        prop_assert_eq!(read.format, TextFormat::Ibnetdiscover);
        // Aggregation nodes share a description: their ids become their names.
        prop_assert_eq!(read_text(&write_ibnetdiscover(&read.graph)).unwrap(), read.graph.clone());
        prop_assert_eq!(shape(&read.graph), shape(&graph));
    }

    #[test]
    fn no_lines_make_a_reader_panic_or_disagree_with_themselves(
        lines in prop::collection::vec(
            "(Switch|Ca|Rt|\\[|caguid[=+]|SwitchName=|\\{ SW Ports:|CA: |SW +1 +1 0x|==\\()[0-9x \"#a\\]\\[=>,:{}-]{0,24}|\\PC{0,20}",
            0..12,
        ),
        format in 0_usize..8,
    ) {
        let text = lines.join("\n");
        let format = TextFormat::readable().nth(format);
        prop_assert_eq!(read_description(&text, format), read_description(&text, format));
    }
}

/// Nodes by GUID with what they are, and cables.
fn shape(graph: &Graph) -> Vec<String> {
    let end = |end: crate::Endpoint| format!("{}:{}", graph.node(end.node).guid, end.port);
    let nodes = graph.ids().map(|id| {
        let node = graph.node(id);
        format!(
            "{:?} {} {} {}",
            node.kind, node.guid, node.ports, node.description
        )
    });
    let cables = graph
        .links()
        .map(|(a, b)| format!("{}-{} {:?}", end(a), end(b), graph.rate(a)));
    nodes.chain(cables).collect()
}

#[test]
fn modules_and_aliases_of_ibsim_name_nodes_and_ports() {
    let text = "module=\"a\"\nSwitch 2 \"s\"\n@[2] \"up\"\n[1] \"h\"[1]\nHca 1 \"h\"\n[1] \"s\"[1]\n\
                module=\"\"\nSwitch 2 \"s\"\n[1] \"a@up\"\n";
    let graph = described(text).graph;
    assert_eq!(graph.len(), 3);
    let (inner, outer) = (graph.find("a#s").unwrap(), graph.find("s").unwrap());
    assert!(
        graph
            .cables(outer)
            .any(|(_, peer)| peer.node == inner && peer.port.get() == 2)
    );
    for (text, wanted) in [
        ("module=x\n", "1: the name of the module"),
        ("module=\"a#b\"\n", "1: the name of the module"),
        ("@[1] \"up\"\n", "1: a port without a node"),
        (
            "Switch 2 \"s\"\n@[3] \"up\"\n[1] \"x\"[1]",
            "2: this is neither",
        ),
        (
            "Switch 2 \"s\"\n@[1] \"up\"\n@[2] \"up\"\n",
            "3: the alias \"@up\" already means a port in line 2",
        ),
        ("Switch 2 \"s\"\n[1] \"@up\"\n", "2: dangling link"),
    ] {
        let error = read_description(text, None).unwrap_err().to_string();
        assert!(error.starts_with(wanted), "{error}");
    }
}
