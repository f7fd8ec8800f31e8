//! Tables that were computed elsewhere.

use proptest::prelude::*;
use routing::dump::{self, SwitchDump};
use routing::file::FileError;
use routing::{
    DeliveryFailure, LidBase, Options, Problem, Promises, RoutingEngine, RoutingError, Tables,
    Warning, verify,
};
use topologies::Graph;
use wire::{Guid, Lid, PortNum};

use crate::support::{bytes, checked, fabric, shuffled};

fn given(graph: &Graph, text: &str) -> Result<Tables, RoutingError> {
    let options = Options {
        given: Some(dump::read(text).unwrap()),
        ..Options::default()
    };
    RoutingEngine::File.route(graph, &options)
}

fn refused(graph: &Graph, text: &str) -> FileError {
    let error = given(graph, text).unwrap_err();
    let reason = error.reason::<FileError>();
    reason.unwrap_or_else(|| panic!("{error}")).clone()
}

/// `0x0001 003 : (Channel Adapter ..)` without what is in brackets.
fn without_owners(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| line.split(" : (").next().unwrap_or(line).to_owned() + "\n");
    lines.collect()
}

#[test]
fn tables_come_back_from_their_dump_as_they_were() {
    for (name, engine) in [
        ("fat-tree-4-3", "mlid"),
        ("irregular-8-2-3-1", "path-selection"),
        ("clos-3-2-2-2", "clos"),
        ("star-3", "minhop"),
    ] {
        let graph = fabric(name);
        let tables = checked(&graph, engine, &Options::default());
        let text = dump::write(&graph, &tables);
        let back = given(&graph, &text).unwrap();
        assert_eq!(bytes(&graph, &back), bytes(&graph, &tables), "{name}");
        assert_eq!(
            (back.engine, &back.warnings[..]),
            (RoutingEngine::File, &[][..])
        );
        assert_eq!(dump::write(&graph, &back), text);
    }
}

#[test]
fn tables_of_a_clos_fabric_are_judged_alike_computed_and_read_back() {
    for name in ["clos-3-2-2-2", "clos-4-4-4", "fat-tree-4-2"] {
        let graph = fabric(name);
        let tables = checked(&graph, "clos", &Options::default());
        let back = given(&graph, &dump::write(&graph, &tables)).unwrap();
        let judged = |tables: &Tables| {
            let promises = Promises {
                deadlock_free: true,
                ..tables.promises
            };
            let report = verify(&graph, tables, promises);
            assert!(report.is_ok(), "{name}: {}", report.describe(&graph));
            let cycles = (report.cycle.clone(), report.switch_cycle.clone());
            (report.pairs, report.hops_max, report.not_minimal, cycles)
        };
        assert_eq!(judged(&back), judged(&tables), "{name}");
        assert_eq!(
            routing::file::check(&graph, &back).unwrap(),
            Vec::<String>::new()
        );
    }
}

#[test]
fn owners_that_the_text_does_not_name_follow_from_the_tables() {
    let graph = fabric("fat-tree-4-3");
    let tables = checked(&graph, "mlid", &Options::default());
    let text = without_owners(&dump::write(&graph, &tables)).replace(" of switch Lid ", " of ");
    assert!(!text.contains("portguid"));
    let back = given(&graph, &text).unwrap();
    assert_eq!(bytes(&graph, &back), bytes(&graph, &tables));
}

#[test]
fn the_order_of_nodes_and_tables_makes_no_difference() {
    let graph = fabric("irregular-8-2-3-1");
    let tables = checked(&graph, "updn", &Options::default());
    let mut dumps = dump::read(&dump::write(&graph, &tables)).unwrap();
    dumps.reverse();
    let options = Options {
        given: Some(dumps),
        ..Options::default()
    };
    for seed in 0..3 {
        let other = shuffled(&graph, seed);
        let back = RoutingEngine::File.route(&other, &options).unwrap();
        assert_eq!(bytes(&other, &back), bytes(&graph, &tables));
    }
}

#[test]
fn nothing_is_promised_of_them_and_what_they_do_is_found() {
    let graph = fabric("fat-tree-4-2");
    let tables = checked(&graph, "slid", &Options::default());
    let text = dump::write(&graph, &tables);
    let back = given(&graph, &text).unwrap();
    let nothing = Promises {
        from_hosts_only: true,
        ..Promises::default()
    };
    assert_eq!(back.promises, nothing);
    assert!(verify(&graph, &back, back.promises).is_ok());

    // One leaf switch sends packets for the first host of another back up.
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let leaf = lines
        .iter()
        .position(|line| line.contains("(s1.0)"))
        .unwrap();
    let entry = leaf + 3;
    assert!(lines[entry].starts_with("0x0001 001"), "{}", lines[entry]);
    lines[entry] = lines[entry].replacen("001 :", "003 :", 1);
    let looping = given(&graph, &lines.join("\n")).unwrap();
    let report = verify(&graph, &looping, looping.promises);
    assert!(report.problems.iter().any(|problem| matches!(
        problem,
        Problem::Unreachable { lid, failure: DeliveryFailure::Loop(_), .. } if lid.get() == 1
    )));
}

#[test]
fn what_does_not_fit_the_fabric_is_named_with_its_line() {
    let graph = fabric("star-2");
    let switch = graph.node(graph.switches().next().unwrap()).guid;
    let head = format!("Unicast lids [0x0-0x3] of switch Lid 3 guid {switch} (s0):\n");
    let other = head.replace(&switch.to_string(), "0x0000000000000999");
    assert_eq!(
        refused(&graph, &other),
        FileError::NoSuchSwitch {
            line: 1,
            name: "s0".to_owned(),
            guid: Guid(0x999)
        }
    );
    assert_eq!(
        refused(&graph, &format!("{head}\n0x0001 003 :")),
        FileError::NoSuchPort {
            line: 3,
            switch: "s0".to_owned(),
            port: PortNum::new(3),
            ports: 2
        }
    );
    let twice = format!("{head}0x0003 001 : (Channel Adapter portguid 0x0000000000000007: 'x')");
    assert_eq!(
        refused(&graph, &twice),
        FileError::TwoOwners {
            line: 2,
            lid: Lid::new(3),
            owner: switch,
            other: Guid(7)
        }
    );
    let scattered = format!("{head}0x0001 001 :\n0x0002 001 :\n0x0004 001 :");
    assert!(matches!(
        refused(&graph, &scattered),
        FileError::Scattered { count: 3, .. }
    ));
    let missing = RoutingEngine::File.route(&graph, &Options::default());
    assert_eq!(missing.unwrap_err().reason(), Some(&FileError::NotGiven));
}

#[test]
fn missing_switches_ports_without_lids_and_unaligned_lids_are_noticed() {
    let graph = fabric("fat-tree-4-2");
    let options = Options {
        lid_base: LidBase::Paper,
        ..Options::default()
    };
    let tables = checked(&graph, "mlid", &options);
    let mut dumps: Vec<SwitchDump> = dump::read(&dump::write(&graph, &tables)).unwrap();
    dumps.pop();
    let options = Options {
        given: Some(dumps),
        ..Options::default()
    };
    let back = RoutingEngine::File.route(&graph, &options).unwrap();
    assert_eq!(
        back.warnings,
        [
            Warning::NoTable { switches: 1 },
            Warning::Unaligned { ports: 8 }
        ]
    );
    let star = fabric("star-3");
    let switch = star.node(star.switches().next().unwrap()).guid;
    let one = format!("Unicast lids of switch Lid 4 guid {switch} (s0):\n0x0004 000\n0x0001 001");
    let partial = given(&star, &one).unwrap();
    let report = verify(&star, &partial, partial.promises);
    let nameless = report
        .problems
        .iter()
        .filter(|problem| matches!(problem, Problem::NoLid(_)));
    assert_eq!(nameless.count(), 2);
}

proptest! {
    #[test]
    fn no_tables_make_the_engine_or_the_verifier_panic_or_hang(
        changes in prop::collection::vec((0usize..84, 0u16..70, 0u8..7), 0..20),
        owners in any::<bool>(),
    ) {
        let graph = fabric("fat-tree-4-2");
        let tables = checked(&graph, "mlid", &Options::default());
        let mut text = dump::write(&graph, &tables);
        for (line, lid, port) in changes {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            if let Some(entry) = lines.get_mut(line).filter(|line| line.starts_with("0x")) {
                *entry = format!("{lid:#06x} {port:03} : (unknown node and type)");
            }
            text = lines.join("\n");
        }
        if !owners {
            text = without_owners(&text);
        }
        if let Ok(dumps) = dump::read(&text) {
            let options = Options { given: Some(dumps), ..Options::default() };
            if let Ok(tables) = RoutingEngine::File.route(&graph, &options) {
                let demanded = Promises { up_down: true, minimal: true, deadlock_free: true, from_hosts_only: false };
                let report = verify(&graph, &tables, demanded);
                prop_assert!(report.problem_count >= report.problems.len() as u64);
                prop_assert!(!report.describe(&graph).to_string().is_empty());
            }
        }
    }
}
