//! What `auto` takes, and that `updn` finds the levels of fabrics as machine rooms have them.

use proptest::prelude::*;
use routing::quality::{Pattern, effective_bisection_bandwidth, link_loads};
use routing::{LoopOf, Options, RoutingEngine, Tables, Warning, verify};
use topologies::{AsBuilt, Endpoint, Graph, Node, NodeId, NodeKind};
use wire::{Guid, Lmc, PortNum};

use crate::support::{bytes, checked, checked_report, fabric, route, shuffled};

fn vls(data_vls: u8) -> Options {
    Options {
        data_vls: Some(data_vls),
        ..Options::default()
    }
}

fn busiest(graph: &Graph, tables: &Tables) -> u64 {
    link_loads(graph, tables, Pattern::AllToAll).max
}

fn bisection(graph: &Graph, tables: &Tables) -> f64 {
    effective_bisection_bandwidth(graph, tables, 40, 7).mean
}

/// A fabric made by hand.
#[derive(Default)]
struct Draft {
    graph: Graph,
    ports: Vec<u8>,
}

impl Draft {
    fn node(&mut self, name: String, kind: NodeKind) -> NodeId {
        let number = self.graph.len() as u64 + 1;
        let first = match kind {
            NodeKind::Switch => 0x5000,
            NodeKind::Host => 0x100_0000,
        };
        let guid = Guid(first + 0x100 * number);
        let node = Node::new(name, kind, guid, 100);
        self.ports.push(0);
        self.graph.add(node).unwrap()
    }

    fn switches(&mut self, name: &str, count: usize) -> Vec<NodeId> {
        (0..count)
            .map(|number| self.node(format!("{name}{number}"), NodeKind::Switch))
            .collect()
    }

    fn end(&mut self, node: NodeId) -> Endpoint {
        let port = &mut self.ports[node.index()];
        *port += 1;
        let port = PortNum::new(*port);
        Endpoint { node, port }
    }

    fn join(&mut self, a: NodeId, b: NodeId) {
        let (a, b) = (self.end(a), self.end(b));
        self.graph.connect(a, b).unwrap();
    }

    fn hosts(&mut self, switch: NodeId, count: usize) {
        for number in 0..count {
            let name = format!("{}.h{number}", self.graph.node(switch).name);
            let host = self.node(name, NodeKind::Host);
            self.join(host, switch);
        }
    }

    /// An aggregation node, which says what it is.
    fn aggregation_node(&mut self, switch: NodeId) {
        let name = format!("{} Aggregation Node", self.graph.node(switch).name);
        let node = self.node(name, NodeKind::Host);
        self.join(node, switch);
    }

    fn all(&mut self, below: &[NodeId], above: &[NodeId]) {
        for &a in below {
            for &b in above {
                self.join(a, b);
            }
        }
    }
}

/// 16 leaves of 8 hosts, 8 spines.
fn leaf_and_spine(draft: &mut Draft) -> (Vec<NodeId>, Vec<NodeId>) {
    let (leaves, spines) = (draft.switches("leaf", 16), draft.switches("spine", 8));
    draft.all(&leaves, &spines);
    for &leaf in &leaves {
        draft.hosts(leaf, 8);
    }
    (leaves, spines)
}

/// Up*/down* tables that are as good as shortest paths without regard to deadlock, or nearly so.
fn assert_serves(graph: &Graph) -> Tables {
    let tables = checked(graph, "updn", &Options::default());
    let any = route(graph, "minhop", &Options::default());
    let (own, least) = (busiest(graph, &tables), busiest(graph, &any));
    assert!(own * 100 <= least * 115, "{own} against {least}");
    let (own, most) = (bisection(graph, &tables), bisection(graph, &any));
    assert!(own >= 0.95 * most, "{own} against {most}");
    assert_eq!(checked_report(graph, &tables).switch_cycle, None);
    tables
}

#[test]
fn a_fat_tree_whose_engine_has_no_use_for_the_lmc_is_routed_by_another_one() {
    for (topology, lmc) in [("star-12", 2), ("fat-tree-4-3", 3)] {
        let options = Options {
            lmc: Some(Lmc::constant(lmc)),
            ..Options::default()
        };
        let tables = checked(&fabric(topology), "auto", &options);
        assert_ne!(tables.engine, RoutingEngine::Mlid);
        let host = tables.lids.iter().next().unwrap();
        assert_eq!(host.lmc.get(), lmc);
        let because = tables.because.unwrap();
        assert!(because.contains("has no use for LMC"), "{because}");
    }
}

#[test]
fn aggregation_nodes_on_every_switch_make_no_leaves_of_spines() {
    let mut draft = Draft::default();
    let (leaves, spines) = leaf_and_spine(&mut draft);
    for &switch in leaves.iter().chain(&spines) {
        draft.aggregation_node(switch);
    }
    let tables = assert_serves(&draft.graph);
    // Those of spines reach each other by a turn below a leaf.
    let pairs = 8 * 7;
    assert_eq!(tables.warnings, [Warning::Detours { pairs }]);
}

#[test]
fn a_box_of_its_own_is_told_from_an_aggregation_node_by_the_system_image_guid() {
    let mut draft = Draft::default();
    let (_, spines) = leaf_and_spine(&mut draft);
    draft.hosts(spines[0], 1);
    let network = routing::network::Network::new(&draft.graph);
    let mut hosts = network.hosts().iter();
    assert!(hosts.all(|host| !host.is_aggregation_node));
    let fabric = AsBuilt::new(4, 3, 2, 0, 1).graph().unwrap();
    let network = routing::network::Network::new(&fabric);
    let is_named = |host: &routing::network::HostPort| {
        fabric.node(host.end.node).name.starts_with("aggregation")
    };
    let mut hosts = network.hosts().iter();
    assert!(hosts.all(|host| host.is_aggregation_node == is_named(host)));
}

#[test]
fn storage_on_some_spines_and_a_leaf_with_few_hosts_leave_the_levels_as_they_are() {
    let mut draft = Draft::default();
    let (_, spines) = leaf_and_spine(&mut draft);
    draft.hosts(spines[0], 2);
    draft.hosts(spines[3], 1);
    assert_serves(&draft.graph);
    let service = draft.switches("service", 1);
    draft.all(&service, &spines);
    draft.hosts(service[0], 1);
    assert_serves(&draft.graph);
}

#[test]
fn two_cores_with_hosts_on_their_spines_are_both_used() {
    // No leaf has both cores: `left` and `right` share only `both`.
    let mut draft = Draft::default();
    let (left, right) = (draft.switches("left", 6), draft.switches("right", 6));
    let both = draft.switches("both", 4);
    let (a, b) = (draft.switches("a", 4), draft.switches("b", 4));
    draft.all(&left, &a);
    draft.all(&right, &b);
    draft.all(&both, &a);
    draft.all(&both, &b);
    for &leaf in left.iter().chain(&right).chain(&both) {
        draft.hosts(leaf, 4);
    }
    for &spine in a.iter().chain(&b) {
        draft.aggregation_node(spine);
    }
    let tables = checked(&draft.graph, "updn", &Options::default());
    let detours = tables.warnings.iter();
    let detours: Vec<_> = detours
        .filter(|warning| matches!(warning, Warning::Detours { .. }))
        .collect();
    assert_eq!(detours.len(), 1, "{:?}", tables.warnings);
    // From `left` to `right` all packets must pass a leaf between the cores.
    let report = checked_report(&draft.graph, &tables);
    assert_eq!((report.hosts_unreachable, report.cycle), (0, None));
}

#[test]
fn hosts_that_are_named_as_storage_do_not_count_and_those_named_as_compute_alone_do() {
    let mut draft = Draft::default();
    let (leaves, spines) = leaf_and_spine(&mut draft);
    // So much storage on spines that these look like leaves.
    for &spine in &spines[..6] {
        draft.hosts(spine, 8);
    }
    let guid_of = |name: &str| {
        let node = draft.graph.find(name).unwrap();
        draft.graph.node(node).guid
    };
    let at = |switches: &[NodeId]| {
        let hosts = switches.iter().flat_map(|&switch| {
            let name = &draft.graph.node(switch).name;
            (0..8).map(move |number| format!("{name}.h{number}"))
        });
        hosts.map(|name| guid_of(&name)).collect()
    };
    let order_of = |options: &Options| {
        let tables = checked(&draft.graph, "updn", options);
        let order = |switch: &NodeId| tables.order(*switch).unwrap();
        let lowest_spine = spines.iter().map(order).max().unwrap();
        lowest_spine < leaves.iter().map(order).min().unwrap()
    };
    let io_guids = at(&spines[..6]);
    assert!(order_of(&Options {
        io_guids,
        ..Options::default()
    }));
    let compute_guids = at(&leaves);
    assert!(order_of(&Options {
        compute_guids,
        ..Options::default()
    }));
}

#[test]
fn named_roots_are_the_top_and_such_as_serve_nobody_give_way_with_a_warning() {
    let graph = fabric("torus-3x3-1");
    let root = graph.switches().nth(4).unwrap();
    let named = |guid| Options {
        roots: [guid].into(),
        ..Options::default()
    };
    let tables = checked(&graph, "updn", &named(graph.node(root).guid));
    assert_eq!(tables.order(root), Some(0));
    assert_eq!(tables.warnings, []);
    let tables = checked(&graph, "updn", &named(Guid(0xdead)));
    let warning = Warning::RootsUnfit { here: 0, named: 1 };
    assert_eq!(tables.warnings, [warning]);
}

#[test]
fn the_best_engine_is_taken_and_the_reason_names_the_others() {
    let torus = fabric("torus-5x5-2");
    let taken = |options: &Options| {
        let tables = checked(&torus, "auto", options);
        let vls = tables.vl_assignment.as_ref();
        (vls.map_or(1, |vls| vls.data_vls), tables.because.unwrap())
    };
    let (used, because) = taken(&vls(4));
    assert_ne!(used, 1);
    assert!(because.contains("updn "), "{because}");
    let (used, because) = taken(&vls(1));
    assert_eq!(used, 1);
    assert!(because.contains("not dfsssp: dfsssp needs"), "{because}");
    let tree = checked(&fabric("fat-tree-4-3"), "auto", &vls(4));
    assert_eq!(tree.because.as_deref(), Some("FT(4,3)"));
}

/// What the reason says of an engine: its score, or why it was left out.
fn said_of<'a>(because: &'a str, engine: &str) -> Option<&'a str> {
    let mut words = because.split([',', ';']).map(str::trim);
    words.find(|words| words.contains(engine))
}

#[test]
fn lash_and_torus_2qos_are_measured_where_they_apply() {
    let torus = fabric("torus-6x6-1");
    let because = |graph: &Graph, data_vls| {
        let tables = checked(graph, "auto", &vls(data_vls));
        tables.because.unwrap()
    };
    let whole = because(&torus, 4);
    for engine in ["lash ", "torus-2qos "] {
        assert!(said_of(&whole, engine).is_some(), "{whole}");
    }
    // Where a cable is missing only `torus-2qos` has dimension order.
    let is_switch = |node| torus.node(node).kind == NodeKind::Switch;
    let mut between = torus
        .links()
        .filter(|&(a, b)| is_switch(a.node) && is_switch(b.node));
    let mut damaged = torus.clone();
    damaged.disconnect(between.next().unwrap().0);
    let four = because(&damaged, 4);
    for engine in ["lash ", "torus-2qos "] {
        assert!(said_of(&four, engine).is_some(), "{four}");
    }
    let one = because(&damaged, 1);
    for engine in ["not lash", "not torus-2qos"] {
        let said = said_of(&one, engine).unwrap();
        assert!(said.contains("data VLs"), "{one}");
    }
    // A mesh is no torus, which is nothing to be told.
    let mesh = because(&fabric("mesh-4x4-1"), 4);
    assert_eq!(said_of(&mesh, "torus-2qos"), None);
}

#[test]
fn engines_that_would_give_ports_other_lids_are_not_taken_where_these_are_to_be_kept() {
    let graph = fabric("fat-tree-4-3");
    let known = route(&graph, "updn", &Options::default()).lids.known();
    for keep_lids in [false, true] {
        let options = Options {
            known: known.clone(),
            keep_lids,
            ..Options::default()
        };
        let tables = checked(&graph, "auto", &options);
        let is_kept = known.iter().all(|(&guid, &had)| {
            let range = tables.lids.of_guid(guid).unwrap();
            (range.base, range.lmc) == had
        });
        assert_eq!(is_kept, keep_lids);
        assert_eq!(tables.engine == RoutingEngine::Mlid, !keep_lids);
    }
}

prop_compose! {
    /// Oversubscribed, damaged, with service hosts on spines, aggregation nodes, two rails.
    fn as_built()(
        leaves in 2_u64..8, hosts in 2_u64..6, spines in 1_u64..5, cores in 0_u64..3,
        seed in any::<u64>(), uplinks_max in 1_u64..4, failed_percent in 0_u32..25,
        service_hosts in 0_u64..4, has_aggregation_nodes in any::<bool>(),
        dual_rail_percent in 0_u32..60,
    ) -> Graph {
        let fabric = AsBuilt {
            uplinks_max,
            failed_percent,
            service_hosts,
            has_aggregation_nodes,
            dual_rail_percent,
            ..AsBuilt::new(leaves, hosts, spines, cores, seed)
        };
        fabric.graph().unwrap()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn on_fabrics_as_built_all_are_reached_without_credit_loops_and_cables_are_evenly_loaded(
        graph in as_built(), seed in any::<u64>()
    ) {
        let tables = checked(&graph, "auto", &vls(4));
        let report = checked_report(&graph, &tables);
        prop_assert_eq!(report.hosts_unreachable + report.switches_unreachable, 0);
        prop_assert_eq!(report.cycle, None);
        // Balanced shortest paths without regard to deadlock are near the best that there can be.
        let any = busiest(&graph, &route(&graph, "minhop", &vls(4)));
        let own = busiest(&graph, &tables);
        prop_assert!(own <= 2 * any, "{} against {} of minhop", own, any);
        let other = shuffled(&graph, seed);
        let again = checked(&other, "auto", &vls(4));
        prop_assert_eq!(tables.engine, again.engine);
        prop_assert_eq!(tables.because.clone(), again.because.clone());
        prop_assert_eq!(bytes(&graph, &tables), bytes(&other, &again));
    }
}

/// Whatever the VLs: what is taken lets no packets wait for each other, of switches' own ports neither, or says so.
#[test]
fn what_auto_takes_has_no_credit_loop_of_any_kind_on_any_number_of_vls() {
    for name in [
        "as-built-8-6-4-2-7",
        "as-built-12-9-6-3-3",
        "as-built-10-4-6-3-2",
        "dragonfly-5-4-2",
        "directors-12-4-2-6-3",
        "irregular-16-2-4-1",
    ] {
        let graph = fabric(name);
        for data_vls in [1, 2, 4, 8] {
            let tables = route(&graph, "auto", &vls(data_vls));
            let report = verify(&graph, &tables, tables.promises);
            let loops: Vec<LoopOf> = report.credit_loops().map(|(packets, _)| packets).collect();
            if tables.warnings.contains(&Warning::SwitchLoop) {
                assert_eq!(loops, [LoopOf::Switches], "{name} on {data_vls}");
            } else {
                assert_eq!(loops, [], "{name} on {data_vls}");
            }
        }
    }
}
