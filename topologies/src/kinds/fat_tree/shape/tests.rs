use std::collections::BTreeMap;

use super::*;

fn shapes() -> impl Iterator<Item = FatTree> {
    [
        (2, 1),
        (2, 4),
        (4, 1),
        (4, 2),
        (4, 3),
        (4, 4),
        (6, 3),
        (8, 2),
        (8, 3),
        (16, 2),
    ]
    .into_iter()
    .map(|(m, n)| FatTree::new(m, n).unwrap())
}

fn digits_of(name: &str) -> Vec<u32> {
    name[1..]
        .split('.')
        .map(|digit| digit.parse().unwrap())
        .collect()
}

/// The rule of MLID04, section 3, word for word, on labels as lists of digits.
fn rule_connects(
    n: usize,
    half: u32,
    (level, w, k): (u32, &[u32], u32),
    (level_below, w_below, k_below): (u32, &[u32], u32),
) -> bool {
    let l = level as usize;
    let mut without = w_below.to_vec();
    let digit = without.remove(l);
    level_below == level + 1
        && w[..n - 2] == without[..]
        && k == digit
        && k_below == w[n - 2] + half
}

#[test]
fn every_cable_follows_the_papers_rule_and_none_is_missing() {
    for tree in shapes() {
        let graph = tree.graph().unwrap();
        let (n, half) = (usize::from(tree.levels()), tree.half());
        for (a, b) in graph.links() {
            let (node_a, node_b) = (graph.node(a.node), graph.node(b.node));
            let (k_a, k_b) = (u32::from(a.port.get()) - 1, u32::from(b.port.get()) - 1);
            if node_a.kind == NodeKind::Host {
                let (p, w) = (digits_of(&node_a.name), digits_of(&node_b.name));
                assert_eq!(w[0] as usize, n - 1);
                assert_eq!(w[1..], p[..n - 1]);
                assert_eq!(k_b, p[n - 1]);
            } else {
                let (w_a, w_b) = (digits_of(&node_a.name), digits_of(&node_b.name));
                let (up, down) = ((w_a[0], &w_a[1..], k_a), (w_b[0], &w_b[1..], k_b));
                assert!(rule_connects(n, half, up, down), "{up:?} {down:?}");
            }
        }
        let cables = graph.links().count();
        let ends = tree.hosts() as usize + tree.switches() as usize * usize::from(tree.ports());
        assert_eq!(2 * cables, ends, "every port has a cable");
    }
}

#[test]
fn the_papers_examples_of_wiring_hold_in_ft_4_3() {
    let graph = FatTree::new(4, 3).unwrap().graph().unwrap();
    let peer = |name: &str, port| {
        let end = Endpoint {
            node: graph.find(name).unwrap(),
            port: PortNum::new(port),
        };
        let peer = graph.peer(end).unwrap();
        (graph.node(peer.node).name.clone(), peer.port.get())
    };
    // SW<01, 0>_1 and SW<10, 1>_3; SW<20, 2>_1 and P(211) is a slip for SW<21, 2>_1.
    assert_eq!(peer("s0.0.1", 2), ("s1.1.0".to_owned(), 4));
    assert_eq!(peer("s2.2.1", 2), ("h2.1.1".to_owned(), 1));
    assert_eq!(graph.hosts().count(), 16);
    assert_eq!(graph.switches().count(), 20);
}

#[test]
fn labels_numbers_and_places_agree() {
    for tree in shapes() {
        let ordinals: Vec<_> = tree.labels().map(|label| tree.ordinal(label)).collect();
        assert!(ordinals.iter().copied().eq(0..tree.switches() as usize));
        for (ordinal, label) in (0..).zip(tree.labels()) {
            assert_eq!(tree.label_at(ordinal), Some(label));
            let digits = tree.switch_digits(label);
            assert_eq!(tree.switch(label.level, &digits), Some(label));
            for j in 0..tree.half() {
                if let Some((parent, k)) = tree.above(label, j) {
                    assert_eq!(tree.below(parent, k), Below::Switch(label, j));
                } else {
                    assert_eq!(label.level, 0);
                }
            }
        }
        assert_eq!(tree.label_at(tree.switches()), None);
        for pid in 0..tree.hosts() {
            assert_eq!(tree.pid(&tree.host_digits(pid)), Some(pid));
            let leaf = tree.leaf_of(pid);
            let k = tree.host_digit(pid, tree.levels() - 1);
            assert_eq!(tree.below(leaf, k), Below::Host(pid));
        }
    }
}

#[test]
fn a_switch_is_above_exactly_the_hosts_that_its_down_ports_lead_to() {
    for tree in shapes() {
        // From the leaves up: the hosts below each switch, found by walking.
        let mut found: BTreeMap<SwitchLabel, Vec<u32>> = BTreeMap::new();
        let labels: Vec<_> = tree.labels().collect();
        for &label in labels.iter().rev() {
            let mut hosts = Vec::new();
            for k in 0..tree.down_ports(label.level) {
                match tree.below(label, k) {
                    Below::Host(pid) => hosts.push(pid),
                    Below::Switch(child, _) => hosts.extend(&found[&child]),
                }
            }
            let above: Vec<_> = (0..tree.hosts())
                .filter(|&pid| tree.is_above(label, pid))
                .collect();
            hosts.sort_unstable();
            assert_eq!(hosts, above);
            found.insert(label, hosts);
        }
    }
}

#[test]
fn shapes_that_cannot_be_are_refused_with_what_is_allowed() {
    let message = |m, n| FatTree::new(m, n).unwrap_err().to_string();
    assert!(message(5, 3).contains("5 ports a switch is odd"));
    assert!(message(256, 2).contains("M (ports a switch) is 256, allowed is 2 to 254"));
    assert!(message(0, 2).contains("allowed is 2 to 254"));
    assert!(message(4, 0).contains("N (levels) is 0, allowed is 1 to 64"));
    let large = message(64, 3);
    assert!(large.contains("65536 hosts and 5120 switches"), "{large}");
    assert!(message(254, 64).contains("a subnet has 49151"));
}
