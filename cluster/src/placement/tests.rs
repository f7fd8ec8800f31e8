use proptest::prelude::*;

use super::*;

fn graph(name: &str) -> Graph {
    topologies::parse(name).unwrap().graph
}

fn compute(graph: &Graph, cpus: &[u32]) -> Placement {
    Placement::compute(graph, &BTreeMap::new(), None, cpus).unwrap()
}

#[test]
fn a_fat_tree_is_cut_between_its_pods_and_no_host_leaves_its_switch() {
    // Each part of k has the cables of its share of the roots to the other parts: 1,024 (1 - 1/k) of
    // fat-tree-16-3's cables between pods and roots.
    let graph = graph("fat-tree-16-3");
    for (machines, cut) in [(2, 512), (4, 768), (8, 896)] {
        let placement = compute(&graph, &vec![1; machines]);
        assert_eq!(placement.cut(&graph).count(), cut, "{machines} machines");
        for load in placement.loads(&graph) {
            assert_eq!(load.hosts, 1024 / machines);
        }
    }
}

#[test]
fn a_machine_has_as_much_to_do_as_it_has_processors() {
    let graph = graph("torus-8x8-4");
    let loads = compute(&graph, &[4, 2, 2]).loads(&graph);
    let ports: Vec<usize> = loads.iter().map(|load| load.ports).collect();
    let all: usize = ports.iter().sum();
    for (ports, share) in ports.into_iter().zip([2, 4, 4]) {
        let wanted = all / share;
        assert!(
            ports.abs_diff(wanted) * 20 <= wanted,
            "{ports} ports, wanted {wanted}"
        );
    }
}

#[test]
fn hosts_stay_with_their_switch_and_adapters_with_their_host() {
    let graph = graph("irregular-16-4-3-1");
    let hosts: Vec<NodeId> = graph.hosts().collect();
    // Adapters of one host on different switches.
    let siblings = BTreeMap::from([(hosts[0], 7), (hosts[20], 7), (hosts[40], 7)]);
    let placement = Placement::compute(&graph, &siblings, None, &[1, 1, 1, 1]).unwrap();
    for &host in &hosts {
        let with = if siblings.contains_key(&host) {
            hosts[0]
        } else {
            host
        };
        let leaf = leaf(&graph, with).unwrap();
        assert_eq!(placement.machine(host), placement.machine(leaf));
    }
}

#[test]
fn the_host_of_the_subnet_manager_is_on_the_first_of_equal_machines() {
    let graph = graph("fat-tree-4-3");
    for host in graph.hosts() {
        let placement =
            Placement::compute(&graph, &BTreeMap::new(), Some(host), &[2, 2, 2]).unwrap();
        assert_eq!(placement.machine(host), 0);
    }
}

#[test]
fn what_cannot_be_divided_is_refused() {
    let star = graph("star-3");
    let refused = Placement::compute(&star, &BTreeMap::new(), None, &[1, 1]).unwrap_err();
    assert!(refused.to_string().contains("--placement"), "{refused}");
    let none = Placement::compute(&star, &BTreeMap::new(), None, &[]).unwrap_err();
    assert_eq!(none, PlacementError::Machines(0));
    let idle = Placement::compute(&star, &BTreeMap::new(), None, &[0]).unwrap_err();
    assert_eq!(idle, PlacementError::NoCpus(0));
}

#[test]
fn as_many_machines_as_switches_have_one_each() {
    let graph = graph("ring-5-1");
    let loads = compute(&graph, &[1; 5]).loads(&graph);
    assert!(
        loads
            .iter()
            .all(|load| load.switches == 1 && load.hosts == 1)
    );
}

const NAMES: [&str; 3] = ["n1", "n2", "n3"];

fn read(text: &str, graph: &Graph) -> Result<Placement, PlacementError> {
    let names = NAMES.map(|name| Some(name.to_owned()));
    Placement::read(text, graph, &BTreeMap::new(), &names)
}

#[test]
fn a_placement_by_hand_takes_names_numbers_and_patterns_and_hosts_follow_their_switch() {
    let graph = graph("ring-3-1");
    let placement = read("# by hand\n\n0 s*\nn3 s2\n1 s1\n 1  h0 \n", &graph).unwrap();
    let machine = |name| placement.machine(graph.find(name).unwrap());
    let switches = ["s0", "s1", "s2"].map(machine);
    assert_eq!(switches, [0, 1, 2]);
    let hosts = ["h0", "h1", "h2"].map(machine);
    assert_eq!(hosts, [1, 1, 2]);
    assert_eq!(read(&placement.lines(&graph), &graph).unwrap(), placement);
}

#[test]
fn a_wrong_placement_by_hand_names_its_line() {
    let graph = graph("ring-3-1");
    for (text, part) in [
        ("0", "line 1: write MACHINE NODE"),
        (
            "0 s0\n3 s1\n",
            "line 2: there is no machine 3: write a number from 0 to 2, or one of n1, n2, n3",
        ),
        ("0 x9", "no device that is called x9"),
        ("0 s0\n1 s1", "no line places s2"),
        ("0 *\n1 s1", "nothing is placed on machine 2"),
    ] {
        let error = read(text, &graph).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let text = "0 s0\n1 s1\n2 s2\n";
    let [a, b] = ["h0", "h1"].map(|name| graph.find(name).unwrap());
    let names = NAMES.map(|name| Some(name.to_owned()));
    let siblings = BTreeMap::from([(a, 0), (b, 0)]);
    let error = Placement::read(text, &graph, &siblings, &names).unwrap_err();
    assert!(error.to_string().contains("h0 and h1"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_machine_has_devices_and_the_same_call_gives_the_same_placement(
        switches in 3usize..24, seed in 1u64..50, machines in 1usize..6, cpus in prop::collection::vec(1u32..9, 6)
    ) {
        let machines = machines.min(switches);
        let graph = graph(&format!("irregular-{switches}-1-2-{seed}"));
        let cpus = &cpus[..machines];
        let placement = compute(&graph, cpus);
        prop_assert!(placement.loads(&graph).iter().all(|load| load.switches > 0));
        prop_assert_eq!(&placement, &compute(&graph, cpus));
    }

    #[test]
    fn any_text_is_a_placement_or_is_refused(text in ".{0,200}") {
        let _ = read(&text, &graph("ring-3-1"));
    }
}
