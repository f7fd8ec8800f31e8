use super::*;

fn graph(name: &str) -> Graph {
    Kind::parse(name).unwrap().graph().unwrap()
}

fn message(name: &str) -> String {
    Kind::parse(name).unwrap().graph().unwrap_err().to_string()
}

/// `"s0:3-s1:2"` for every cable between switches.
fn trunks(graph: &Graph) -> Vec<String> {
    let show = |end: Endpoint| format!("{}:{}", graph.node(end.node).name, end.port);
    graph
        .links()
        .filter(|(a, _)| graph.node(a.node).kind == NodeKind::Switch)
        .map(|(a, b)| format!("{}-{}", show(a), show(b)))
        .collect()
}

#[test]
fn hosts_take_the_first_ports_and_cables_follow_in_order_of_neighbour() {
    let ring = graph("ring-4-2");
    assert_eq!(
        trunks(&ring),
        ["s0:3-s1:3", "s0:4-s3:3", "s1:4-s2:3", "s2:4-s3:4"]
    );
    let h5 = ring.find("h5").unwrap();
    let (port, peer) = ring.cables(h5).next().unwrap();
    assert_eq!((port.get(), peer.port.get()), (1, 2));
    assert_eq!(ring.node(peer.node).name, "s2");
}

#[test]
fn parallel_cables_stand_side_by_side() {
    assert_eq!(
        trunks(&graph("clos-2-1-2-2")),
        [
            "leaf0:2-spine0:1",
            "leaf0:3-spine0:2",
            "leaf0:4-spine1:1",
            "leaf0:5-spine1:2",
            "leaf1:2-spine0:3",
            "leaf1:3-spine0:4",
            "leaf1:4-spine1:3",
            "leaf1:5-spine1:4",
        ]
    );
    assert_eq!(trunks(&graph("ring-2-1")), ["s0:2-s1:2", "s0:3-s1:3"]);
}

#[test]
fn meshes_and_tori_differ_by_the_cables_around_the_ends() {
    assert_eq!(trunks(&graph("mesh-2x3-1")).len(), 3 + 4);
    assert_eq!(trunks(&graph("torus-3x3-1")).len(), 18);
    assert_eq!(trunks(&graph("torus-2x3-1")).len(), 6 + 6);
    assert_eq!(trunks(&graph("mesh-2x2x2-1")).len(), 12);
    assert!(trunks(&graph("torus-1x1-3")).is_empty());
    // s5 of a 3x3 torus is row 1, column 2: neighbours in both directions, around the end.
    let torus = graph("torus-3x3-1");
    let neighbours: Vec<_> = torus
        .cables(torus.find("s5").unwrap())
        .skip(1)
        .map(|(_, peer)| torus.node(peer.node).name.clone())
        .collect();
    assert_eq!(neighbours, ["s2", "s3", "s4", "s8"]);
}

#[test]
fn a_hypercube_joins_switches_that_differ_in_one_bit() {
    let cube = graph("hypercube-3-2");
    assert_eq!(cube.hosts().count(), 16);
    let neighbours: Vec<_> = cube
        .cables(cube.find("s5").unwrap())
        .skip(2)
        .map(|(_, peer)| cube.node(peer.node).name.clone())
        .collect();
    assert_eq!(neighbours, ["s1", "s4", "s7"]);
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

#[test]
fn an_irregular_fabric_gives_each_switch_its_hosts_and_neighbours() {
    let irregular = graph("irregular-16-8-8-1");
    for switch in irregular.switches() {
        let cables: Vec<_> = irregular.cables(switch).collect();
        assert_eq!(cables.len(), 16);
        let neighbours: Vec<_> = cables[8..].iter().map(|(_, peer)| peer.node).collect();
        assert!(neighbours.is_sorted_by(|a, b| a < b));
    }
    assert_eq!(irregular, graph("irregular-16-8-8-1"));
    assert_ne!(irregular, graph("irregular-16-8-8-2"));
}

#[test]
fn impossible_numbers_are_refused_with_the_reason_and_what_is_allowed() {
    for (name, reason) in [
        (
            "mesh-0x0-1",
            "the size of a dimension is 0, allowed is 1 to",
        ),
        ("mesh-2x2-0", "HOSTS is 0, allowed is 1 to 254"),
        ("ring-1-1", "S (switches) is 1, allowed is 2 to"),
        ("star-0", "HOSTS is 0, allowed is 1 to 254"),
        ("star-255", "HOSTS is 255, allowed is 1 to 254"),
        ("hypercube-16-1", "D (dimensions) is 16, allowed is 1 to 15"),
        ("hypercube-15-1", "need 65536 LIDs, a subnet has 49151"),
        ("clos-0-1-1", "LEAVES is 0"),
        ("clos-4-200-30-2", "a leaf would need 260 ports"),
        ("clos-200-4-4-2", "a spine would need 400 ports"),
        ("torus-300x300-1", "need 180000 LIDs"),
        ("torus-3x3-251", "a switch would need 255 ports"),
        ("irregular-8-1-8-0", "at most 7 neighbours"),
        ("irregular-7-1-3-0", "one of the two must be even"),
        (
            "irregular-8-1-1-0",
            "cannot be connected; allowed is 2 to 7",
        ),
        ("irregular-0-1-1-0", "SWITCHES is 0"),
        ("irregular-300-1-254-0", "a switch would need 255 ports"),
    ] {
        let message = message(name);
        assert!(message.starts_with(name), "{message}");
        assert!(message.contains(reason), "{message}");
    }
}
