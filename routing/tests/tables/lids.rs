//! Which LIDs ports get, and when they keep them.

use proptest::prelude::*;
use routing::{KnownLids, LidBase, Options, RoutingEngine, RoutingError, Warning};
use topologies::{Graph, host_guid, parse, switch_guid};
use wire::{Guid, Lid, Lmc};

use crate::support::{checked, fabric, route, shuffled, without};

fn port_guid(host: usize) -> Guid {
    Guid(host_guid(host).0 + 1)
}

fn options(lmc: u8, known: &[(Guid, u16, u8)]) -> Options {
    Options {
        lmc: Some(Lmc::constant(lmc)),
        known: known
            .iter()
            .map(|&(guid, lid, lmc)| (guid, (Lid::new(lid), Lmc::constant(lmc))))
            .collect(),
        ..Options::default()
    }
}

/// `"h0 4..8"` for every node.
fn lids(graph: &Graph, options: &Options) -> Vec<String> {
    let tables = checked(graph, "updn", options);
    graph
        .ids()
        .map(|id| {
            let range = tables.lids.of_node(id).unwrap();
            let first = range.base.get();
            format!(
                "{} {first}..{}",
                graph.node(id).name,
                first + range.lmc.lids()
            )
        })
        .collect()
}

/// The fabric with enhanced ports 0 at its switches but the first.
fn with_enhanced_ports(name: &str) -> Graph {
    let mut text = topologies::write_ibnetdiscover(&fabric(name));
    text = text.replace(" base port 0 ", " enhanced port 0 ");
    text = text.replacen(" enhanced port 0 ", " base port 0 ", 1);
    topologies::read_text(&text).unwrap()
}

#[test]
fn enhanced_ports_0_have_several_lids_if_that_is_wanted_and_all_lead_there() {
    let ring = with_enhanced_ports("ring-3-1");
    let plain = options(2, &[]);
    let wanted = Options {
        lmc_esp0: true,
        ..plain.clone()
    };
    let hosts = ["h0 4..8", "h1 8..12", "h2 12..16"];
    let with = |switches: [&'static str; 3]| [hosts, switches].concat();
    let sorted = |options: &Options| {
        let mut found = lids(&ring, options);
        found.sort();
        found
    };
    assert_eq!(
        sorted(&plain),
        with(["s0 16..17", "s1 17..18", "s2 18..19"])
    );
    let several = with(["s0 16..17", "s1 20..24", "s2 24..28"]);
    assert_eq!(sorted(&wanted), several);
    // What a port has, it keeps.
    let tables = checked(&ring, "updn", &wanted);
    let again = Options {
        known: tables.lids.known(),
        ..plain
    };
    assert_eq!(sorted(&again), several);
    for engine in ["ftree", "minhop", "dfsssp", "nue", "lash", "dor", "auto"] {
        for name in ["ring-5-2", "clos-3-2-2", "as-built-6-3-3-2-1"] {
            let graph = with_enhanced_ports(name);
            let Ok(tables) = (engine.parse::<RoutingEngine>().unwrap()).route(&graph, &wanted)
            else {
                continue;
            };
            // The further LIDs go by the way of the first, on its service level.
            for range in tables
                .lids
                .iter()
                .filter(|range| range.end.unwrap().port.get() == 0)
            {
                for lid in range.lids() {
                    for switch in graph.switches() {
                        let row = tables.lft(switch);
                        assert_eq!(row.get(lid), row.get(range.base), "{engine} {name}");
                        let vls = tables.vl_assignment.as_ref();
                        let sl = |lid| vls.map(|vls| vls.sl(switch, lid));
                        assert_eq!(sl(lid), sl(range.base), "{engine} {name}");
                    }
                }
            }
            let report = routing::verify(&graph, &tables, tables.promises);
            assert_eq!(report.switches_unreachable, 0, "{engine} {name}");
        }
    }
}

#[test]
fn hosts_come_first_aligned_and_switches_behind_with_one_each() {
    let ring = fabric("ring-3-1");
    assert_eq!(
        lids(&ring, &options(2, &[])),
        [
            "h0 4..8",
            "h1 8..12",
            "h2 12..16",
            "s0 16..17",
            "s1 17..18",
            "s2 18..19"
        ]
    );
    let paper = Options {
        lid_base: LidBase::Paper,
        ..options(2, &[])
    };
    assert_eq!(
        lids(&ring, &paper),
        [
            "h0 1..5",
            "h1 5..9",
            "h2 9..13",
            "s0 13..14",
            "s1 14..15",
            "s2 15..16"
        ]
    );
}

#[test]
fn known_lids_are_kept_and_others_go_round_them() {
    let known = [
        (port_guid(2), 4, 2),
        (switch_guid(1), 8, 0),
        (port_guid(0), 32, 2),
    ];
    assert_eq!(
        lids(&fabric("ring-3-1"), &options(2, &known)),
        [
            "h0 32..36",
            "h1 12..16",
            "h2 4..8",
            "s0 36..37",
            "s1 8..9",
            "s2 37..38"
        ]
    );
}

#[test]
fn known_lids_that_cannot_be_kept_are_given_anew_with_a_warning() {
    let ring = fabric("ring-3-1");
    for (what, known) in [
        ("wrong LMC", (port_guid(1), 8, 0)),
        ("not aligned", (port_guid(1), 9, 2)),
        ("multicast", (port_guid(1), 0xc000, 2)),
        ("zero", (port_guid(1), 0, 2)),
        ("past the end", (port_guid(1), 0xbffe, 2)),
        ("a switch with LMC", (switch_guid(0), 8, 2)),
    ] {
        let options = options(2, &[known]);
        let tables = checked(&ring, "updn", &options);
        assert_eq!(
            tables.warnings,
            [Warning::LidsChanged { ports: 1 }],
            "{what}"
        );
    }
    // Two claim one range: the smaller GUID keeps it.
    let both = options(2, &[(port_guid(0), 8, 2), (port_guid(1), 8, 2)]);
    assert_eq!(lids(&ring, &both)[..2], ["h0 8..12", "h1 4..8"]);
}

#[test]
fn ports_keep_their_lids_when_the_fabric_changes_and_returns() {
    let graph = fabric("irregular-8-2-3-1");
    let first = checked(&graph, "updn", &Options::default());
    let lost: Vec<_> = ["h3", "s5"].map(|name| graph.find(name).unwrap()).to_vec();
    let smaller = without(&graph, &lost, &[]);
    let with = |known: KnownLids| Options {
        known,
        ..Options::default()
    };
    let second = checked(&smaller, "updn", &with(first.lids.known()));
    for range in second.lids.iter().filter(|range| range.end.is_some()) {
        assert_eq!(first.lids.of_guid(range.guid).unwrap().base, range.base);
    }
    // The LIDs of lost ports are remembered, without an end.
    assert_eq!(second.lids.known(), first.lids.known());
    let absent = second.lids.iter().filter(|range| range.end.is_none());
    // Two hosts of the lost switch have no cable either.
    assert_eq!(absent.count(), 2 + 2);
    let third = checked(&graph, "updn", &with(second.lids.known()));
    assert_eq!(third.lids, first.lids);
    assert!(third.warnings.is_empty());
}

#[test]
fn lids_that_do_not_fit_are_refused_with_what_would_be_needed() {
    let graph = fabric("star-254");
    let wanted = RoutingEngine::Updn.route(&graph, &options(7, &[]));
    assert!(wanted.is_ok());
    let graph = fabric("clos-4-96-2");
    let refused = RoutingEngine::Updn
        .route(&graph, &options(7, &[]))
        .unwrap_err();
    assert_eq!(
        refused,
        RoutingError::LidSpaceExhausted {
            hosts: 384,
            lmc: Lmc::constant(7),
            switches: 6,
            last: 128 * 385 - 1 + 6,
        }
    );
    assert!(
        refused.to_string().contains("LIDs up to 49285"),
        "{refused}"
    );
}

#[test]
fn lids_reserved_for_the_absent_are_given_away_when_no_others_are_left() {
    let graph = fabric("star-2");
    let mut options = options(0, &[]);
    for number in 1..=Lid::UNICAST_LAST.get() {
        let lid = (Lid::new(number), Lmc::default());
        options.known.insert(Guid(u64::from(number)), lid);
    }
    let tables = checked(&graph, "updn", &options);
    assert_eq!(tables.top().get(), 3);
}

#[test]
fn ports_of_one_adapter_have_lids_and_paths_of_their_own() {
    let path = format!(
        "{}/../topologies/files/two-rails.net",
        env!("CARGO_MANIFEST_DIR")
    );
    let graph = parse(&path).unwrap().graph;
    for engine in ["updn", "minhop"] {
        let tables = checked(&graph, engine, &options(1, &[]));
        assert_eq!(tables.lids.iter().len(), 8 + 4);
        let shuffled = shuffled(&graph, 1);
        let again = route(&shuffled, engine, &options(1, &[]));
        assert_eq!(again.lids.known(), tables.lids.known());
    }
}

proptest! {
    #[test]
    fn whatever_is_known_lids_never_overlap_and_tables_work(
        known in prop::collection::vec((0_usize..20, any::<bool>(), 0_u16..80, 0_u8..4), 0..30),
        lmc in 0_u8..4,
    ) {
        let graph = fabric("ring-4-2");
        let known: Vec<_> = known
            .into_iter()
            .map(|(index, host, lid, lmc)| {
                let guid = if host { port_guid(index) } else { switch_guid(index) };
                (guid, lid, lmc)
            })
            .collect();
        let tables = checked(&graph, "updn", &options(lmc, &known));
        let mut owners = std::collections::BTreeSet::new();
        for range in tables.lids.iter() {
            prop_assert!(range.base.get().is_multiple_of(range.lmc.lids()));
            for lid in range.lids() {
                prop_assert!(lid.is_unicast());
                prop_assert!(owners.insert(lid));
                prop_assert_eq!(tables.lids.owner(lid), Some(range));
            }
        }
        let there = tables.lids.iter().filter(|range| range.end.is_some());
        prop_assert_eq!(there.count(), 8 + 4);
    }
}
