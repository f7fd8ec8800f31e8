//! ibsim loads what we write, and ibnetdiscover, run against it, prints what we read.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "ibsim/process.rs"]
mod process;

use std::io::Write as _;

use process::Ibsim;

use topologies::{
    AsBuilt, Graph, NodeKind, TextFormat, parse, read_description, read_text, write_net,
};

/// A running ibsim with the fabric of a text.
fn simulated(net: &str, case: &str) -> Ibsim {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(net.as_bytes()).unwrap();
    // It has read the file when it is started.
    Ibsim::start(file.path(), case)
}

/// What a program of infiniband-diags prints.
fn printed(ibsim: &Ibsim, program: &str, arguments: &[&str]) -> String {
    ibsim.output(program, arguments, |command| command)
}

/// Nodes and cables by name, whatever the order of nodes.
fn picture(graph: &Graph) -> (Vec<String>, Vec<String>) {
    let mut nodes: Vec<_> = graph
        .ids()
        .map(|id| {
            let node = graph.node(id);
            let kind = match node.kind {
                NodeKind::Switch => "switch",
                NodeKind::Host => "host",
            };
            format!("{kind} {} {} {}", node.name, node.guid, node.ports)
        })
        .collect();
    nodes.sort();
    let mut cables: Vec<_> = graph
        .links()
        .map(|(a, b)| {
            let mut ends = [a, b].map(|end| format!("{}:{}", graph.node(end.node).name, end.port));
            ends.sort();
            ends.join(" ")
        })
        .collect();
    cables.sort();
    (nodes, cables)
}

const POD: &str = "Switch 4 \"leaf\"\n[1] \"h0\"[1]\n[2] \"h1\"[1]\n@[4] \"up\"\n\n\
                   Hca 1 \"h0\"\n[1] \"leaf\"[1]\n\nHca 1 \"h1\"\n[1] \"leaf\"[2]\n\n";

#[test]
fn modules_aliases_and_included_files_are_what_ibsim_makes_of_them() {
    let mut pod = tempfile::NamedTempFile::new().unwrap();
    pod.write_all(POD.as_bytes()).unwrap();
    let pod = pod.path().to_str().unwrap();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write!(
        file,
        "module=\"east\"\ninclude \"{pod}\"\nmodule=\"west\"\ninclude \"{pod}\"\n\
         Switch 4 \"spare\"\n[2] \"west@up\"\n[3] \"core\"[3]\n\n\
         Switch 4 \"core\"\n[1] \"east@up\"\n[3] \"spare\"[3]\n"
    )
    .unwrap();
    let graph = parse(file.path().to_str().unwrap()).unwrap().graph;
    let (nodes, cables) = picture(&graph);
    assert!(nodes.iter().any(|node| node.contains("east#leaf")));
    assert!(cables.contains(&"east#leaf:4 west#core:1".to_owned()));
    assert!(cables.contains(&"west#leaf:4 west#spare:2".to_owned()));
    let ibsim = Ibsim::start(file.path(), "modules");
    let read = read_text(&printed(&ibsim, "ibnetdiscover", &[])).unwrap();
    assert_eq!(picture(&read), (nodes, cables));
}

fn survives_ibsim(name: &str, case: &str) {
    let graph = parse(name).unwrap().graph;
    let ibsim = simulated(&write_net(&graph), case);
    let printed = printed(&ibsim, "ibnetdiscover", &[]);
    let read = read_text(&printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
    assert_eq!(picture(&read), picture(&graph));
}

#[test]
fn a_fat_tree_goes_through_ibsim_and_ibnetdiscover_unchanged() {
    survives_ibsim("fat-tree-4-3", "tree");
}

#[test]
fn parallel_cables_go_through_ibsim_and_ibnetdiscover_unchanged() {
    survives_ibsim("clos-3-2-2-2", "clos");
}

#[test]
fn an_irregular_fabric_goes_through_ibsim_and_ibnetdiscover_unchanged() {
    survives_ibsim("irregular-8-2-3-1", "irregular");
}

#[test]
fn whatever_form_the_programs_print_is_the_same_fabric() {
    let plan = AsBuilt {
        has_aggregation_nodes: false,
        has_mixed_speeds: false,
        ..AsBuilt::new(3, 3, 2, 1, 4)
    };
    let graph = plan.graph().unwrap();
    let ibsim = simulated(&write_net(&graph), "forms");
    let (nodes, cables) = picture(&graph);
    for (program, arguments, format) in [
        (
            "ibnetdiscover",
            &["-g", "-f"][..],
            TextFormat::Ibnetdiscover,
        ),
        ("ibnetdiscover", &["-p"], TextFormat::Ports),
        ("iblinkinfo", &["-l"], TextFormat::Iblinkinfo),
    ] {
        let printed = printed(&ibsim, program, arguments);
        let read =
            read_description(&printed, None).unwrap_or_else(|error| panic!("{error}\n{printed}"));
        assert_eq!(read.format, format);
        let (seen_nodes, seen_cables) = picture(&read.graph);
        assert_eq!(seen_cables, cables, "{program} {arguments:?}");
        if format == TextFormat::Ibnetdiscover {
            assert_eq!(seen_nodes, nodes);
        }
    }
}

#[test]
fn names_that_are_no_ids_go_through_ibsim_as_descriptions() {
    let text = "Switch 3 \"a\" # \"core switch, row 7/U1\"\n[2] \"b\"[1]\n\n\
                Ca 1 \"b\" # \"node 1 HCA-1\"\n[1] \"a\"[2]\n";
    let graph = read_text(text).unwrap();
    let ibsim = simulated(&write_net(&graph), "names");
    let read = read_text(&printed(&ibsim, "ibnetdiscover", &[])).unwrap();
    assert_eq!(picture(&read), picture(&graph));
}
