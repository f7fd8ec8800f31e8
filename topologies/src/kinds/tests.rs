use proptest::prelude::*;

use super::*;
use crate::graph::{Endpoint, NodeKind};

/// The graph of a topology.
pub(super) fn graph(name: &str) -> Graph {
    read(name).unwrap().graph().unwrap()
}

/// `"s0:3-s1:2"` for every cable between switches.
pub(super) fn cables(name: &str) -> Vec<String> {
    let graph = graph(name);
    let show = |end: Endpoint| format!("{}:{}", graph.node(end.node).name, end.port);
    graph
        .links()
        .filter(|(a, _)| graph.node(a.node).kind == NodeKind::Switch)
        .map(|(a, b)| format!("{}-{}", show(a), show(b)))
        .collect()
}

/// The names of a node's neighbours, hosts first, in order of ports.
pub(super) fn neighbours(graph: &Graph, name: &str) -> Vec<String> {
    graph
        .cables(graph.find(name).unwrap())
        .map(|(_, peer)| graph.node(peer.node).name.clone())
        .collect()
}

/// Asserts that there is no such topology, for that reason.
#[track_caller]
pub(super) fn refused(name: &str, reason: &str) {
    let message = read(name).unwrap().graph().unwrap_err().to_string();
    assert!(message.starts_with(name), "{message}");
    assert!(message.contains(reason), "{message}");
}

#[test]
fn hosts_take_the_first_ports_and_cables_follow_in_order_of_neighbour() {
    let ring = graph("ring-4-2");
    assert_eq!(neighbours(&ring, "s3"), ["h6", "h7", "s0", "s2"]);
    let h5 = ring.find("h5").unwrap();
    let (port, peer) = ring.cables(h5).next().unwrap();
    assert_eq!((port.get(), peer.port.get()), (1, 2));
    assert_eq!(ring.node(peer.node).name, "s2");
}

#[test]
fn names_and_guids_count_in_order_of_hosts_and_of_switches() {
    let clos = graph("clos-2-2-1");
    let all: Vec<_> = clos
        .ids()
        .map(|id| format!("{} {:x}", clos.node(id).name, clos.node(id).guid.0))
        .collect();
    assert_eq!(
        all,
        [
            "h0 21be10000000010",
            "h1 21be10000000020",
            "h2 21be10000000030",
            "h3 21be10000000040",
            "leaf0 21be20000000010",
            "leaf1 21be20000000020",
            "spine0 21be20000000030",
        ]
    );
}

/// A name of that form: numbers in place of what stands in capitals, with or without what stands in
/// brackets.
fn example(form: &str, sizes: &[u64], numbers: &[u64], has_optional: bool) -> String {
    let form = match form.split_once('[') {
        Some((required, _)) if !has_optional => required.to_owned(),
        _ => form.replace(['[', ']'], ""),
    };
    let mut numbers = numbers.iter();
    let words = form.split('-').map(|word| match word {
        "XxY" => numbers::join(sizes, "x"),
        word if word.bytes().all(|byte| byte.is_ascii_uppercase()) => {
            numbers.next().unwrap().to_string()
        }
        word => word.to_owned(),
    });
    words.collect::<Vec<_>>().join("-")
}

proptest! {
    #[test]
    fn a_topology_of_any_kind_reads_back_from_its_name(
        sizes in prop::collection::vec(any::<u64>(), 1..4),
        // 1 may be left out of a name.
        numbers in prop::array::uniform8(2..u64::MAX),
        has_optional: bool,
    ) {
        for form in forms() {
            let name = example(form, &sizes, &numbers, has_optional);
            prop_assert_eq!(read(&name).unwrap().to_string(), name);
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,40}") {
        let _ = read(&text);
    }

    #[test]
    fn no_numbers_make_a_generator_panic(
        sizes in prop::collection::vec(any::<u64>(), 1..4),
        numbers in prop::array::uniform8(any::<u64>()),
        has_optional: bool,
    ) {
        for form in forms() {
            let name = example(form, &sizes, &numbers, has_optional);
            let _ = read(&name).unwrap().graph();
        }
    }
}

#[test]
fn every_name_begins_its_form_and_means_its_own_kind() {
    for kind in KINDS {
        let (name, form) = (kind.name, kind.form);
        assert!(form.starts_with(&format!("{name}-")), "{form}");
        let message = message(name);
        assert!(
            message.ends_with(&format!("the form is {form}")),
            "{message}"
        );
    }
}

fn message(given: &str) -> String {
    match read(given) {
        Ok(topology) => panic!("{given:?} is {topology}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_misspelt_kind_is_answered_with_the_kinds_that_are_close() {
    for (given, meant) in [
        ("fattree-4-3", "did you mean fat-tree-M-N?"),
        ("Torus-4x4-1", "did you mean torus-XxY-HOSTS?"),
        ("hyper-cube-3-1", "did you mean hypercube-D-HOSTS?"),
        ("irregualr-8-1-3-1", "did you mean irregular-"),
    ] {
        assert!(message(given).contains(meant), "{}", message(given));
    }
    let far = message("butterfly-3");
    assert!(!far.contains("did you mean"), "{far}");
    for form in forms() {
        assert!(far.contains(form), "{far}");
    }
}

#[test]
fn missing_or_malformed_numbers_are_answered_with_the_form() {
    for given in [
        "fat-tree",
        "fat-tree-4",
        "fat-tree-4-3-2",
        "fat-tree-4-x",
        "clos-1-2",
        "mesh-4-4-1",
        "mesh-4x-1",
        "star--1",
        "star-+1",
        "ring-99999999999999999999-1",
    ] {
        let message = message(given);
        assert!(message.contains("the form is"), "{message}");
    }
}
