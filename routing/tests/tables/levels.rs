//! Service levels and SL-to-VL tables that were computed elsewhere.

use proptest::prelude::*;
use routing::dump::{self, DumpProblem, LevelSource};
use routing::file::{LevelError, give_levels};
use routing::{DATA_VLS, Options, RoutingEngine, Tables, Warning, verify};
use topologies::{AsBuilt, Graph};
use wire::{Guid, Lid, Sl};

use crate::support::{checked, fabric};

/// The same tables as a file gives them.
fn from_file(graph: &Graph, tables: &Tables) -> Tables {
    let options = Options {
        given: Some(dump::read(&dump::write(graph, tables)).unwrap()),
        ..Options::default()
    };
    RoutingEngine::File.route(graph, &options).unwrap()
}

fn has_cycle(graph: &Graph, tables: &Tables) -> bool {
    verify(graph, tables, tables.promises).cycle.is_some()
}

fn levels(texts: &[&str]) -> Vec<dump::LevelDump> {
    let read = |text: &&str| dump::read_levels(text).unwrap();
    texts.iter().map(read).collect()
}

#[test]
fn tables_that_deadlock_on_one_vl_pass_with_their_service_levels() {
    for (name, engine) in [
        ("ring-6-2", "dfsssp"),
        ("torus-3x4-1", "dfsssp"),
        ("torus-5x5-1", "dor"),
    ] {
        let graph = fabric(name);
        let tables = checked(&graph, engine, &Options::default());
        let sls = dump::write_sls(&graph, &tables);
        let sl2vl = dump::write_sl2vl(&graph, &tables);
        let mut given = from_file(&graph, &tables);
        assert!(has_cycle(&graph, &given), "{name}");
        give_levels(&graph, &mut given, &levels(&[&sls, &sl2vl]), DATA_VLS).unwrap();
        assert!(!has_cycle(&graph, &given), "{name}");
        assert_eq!(given.warnings, [], "{name}");
        let vls = |tables: &Tables| tables.vl_assignment.as_ref().unwrap().data_vls;
        assert_eq!(vls(&given), vls(&tables), "{name}");
        assert_eq!(dump::write_sls(&graph, &given), sls);
        let mut given = from_file(&graph, &tables);
        give_levels(&graph, &mut given, &levels(&[&sls]), DATA_VLS).unwrap();
        assert!(!has_cycle(&graph, &given), "{name}");
        assert_eq!(given.warnings, [Warning::NoSl2Vl], "{name}");
    }
}

#[test]
fn service_levels_of_a_fabric_as_built_come_back() {
    for seed in 0..3 {
        let graph = AsBuilt::new(4, 3, 3, 2, seed)
            .graph()
            .unwrap()
            .in_guid_order();
        let tables = checked(&graph, "dfsssp", &Options::default());
        let texts = [
            dump::write_sls(&graph, &tables),
            dump::write_sl2vl(&graph, &tables),
        ];
        let mut given = from_file(&graph, &tables);
        let dumps = levels(&[&texts[0], &texts[1]]);
        give_levels(&graph, &mut given, &dumps, DATA_VLS).unwrap();
        assert_eq!(dump::write_sls(&graph, &given), texts[0]);
        assert!(!has_cycle(&graph, &given));
    }
}

#[test]
fn hosts_at_one_switch_may_have_service_levels_of_their_own() {
    let graph = fabric("ring-5-2");
    let tables = checked(&graph, "dfsssp", &Options::default());
    // The first host of each switch keeps to VL 0, where all packets together deadlock; the second to its levels.
    let text = dump::write_sls(&graph, &tables);
    let mut given = from_file(&graph, &tables);
    let mut own = levels(&[&text]);
    give_levels(&graph, &mut given, &own, DATA_VLS).unwrap();
    assert!(!has_cycle(&graph, &given));
    let firsts: Vec<Guid> = graph
        .hosts()
        .step_by(2)
        .map(|host| graph.node(host).port_guid(wire::PortNum::new(1)))
        .collect();
    let is_first = |source: &LevelSource| match source {
        LevelSource::Guid(guid) => firsts.contains(guid),
        LevelSource::Lid(_) => false,
    };
    for dump in own[0].sls.iter_mut().filter(|dump| is_first(&dump.source)) {
        for (_, sl) in &mut dump.sls {
            *sl = Sl::default();
        }
    }
    give_levels(&graph, &mut given, &own, DATA_VLS).unwrap();
    assert!(has_cycle(&graph, &given));
}

#[test]
fn what_opensm_and_saquery_print_reads() {
    let graph = fabric("star-2");
    let mut tables = checked(&graph, "minhop", &Options::default());
    let plugin = "\
Channel Adapter 0x021be10000000011, base LID 1, \"h0\", port 1
# LID  : SL : MTU : RATE
0x0002 : 1  : 4   : 3   
0x0003 : UNREACHABLE

Switch 0x021be20000000010, base LID 3, \"s0\", port 0
# LID  : SL : MTU : RATE
0x0001 : 2  : 4   : 3   

";
    let records = "\
PathRecord dump:
\t\tservice_id..............0x0000000000000000
\t\tdgid....................fe80::21b:e100:0:11
\t\tsgid....................fe80::21b:e100:0:21
\t\tdlid....................1
\t\tslid....................2
\t\thop_flow_raw............0x0
\t\tqos_class...............0x0
\t\tsl......................0x3
\t\tmtu.....................0x84
PathRecord dump:
\t\tdlid....................0
\t\tslid....................0
\t\tsl......................0x0
PathRecord dump:
\t\tdlid....................49152
\t\tslid....................2
\t\tsl......................0x5
";
    let sl2vl = "\
Switch 0x021be20000000010, base LID 3, \"s0\"
#in out : 0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15
#--------------------------------------------------------
0   1   : 0  1  2  3  0  1  2  3  0  1  2  3  0  1  2  15
1   2   : 0  2  2  3  0  1  2  3  0  1  2  3  0  1  2  15
#--------------------------------------------------------

Channel Adapter 0x021be10000000011, base LID 1, \"h0\"
0   0   : 0  1  2  3  0  1  2  3  0  1  2  3  0  1  2  15
";
    give_levels(
        &graph,
        &mut tables,
        &levels(&[plugin, records, sl2vl]),
        DATA_VLS,
    )
    .unwrap();
    let assignment = tables.vl_assignment.as_ref().unwrap();
    let sl = |guid: u64, lid| {
        let range = tables.lids.iter().find(|range| range.guid == Guid(guid));
        assignment
            .sl_from(&graph, range.unwrap().end.unwrap(), Lid::new(lid))
            .get()
    };
    assert_eq!(sl(0x021b_e100_0000_0011, 2), 1);
    assert_eq!(sl(0x021b_e100_0000_0021, 1), 3);
    assert_eq!(sl(0x021b_e200_0000_0010, 1), 2);
    assert_eq!(assignment.by_ports.len(), 1);
    assert_eq!(tables.warnings, []);
}

#[test]
fn service_levels_that_do_not_fit_are_refused_with_the_line() {
    let graph = fabric("star-2");
    let refused = |text: &str| {
        let mut tables = checked(&graph, "minhop", &Options::default());
        let error = give_levels(&graph, &mut tables, &levels(&[text]), DATA_VLS);
        error.unwrap_err()
    };
    assert_eq!(
        refused("Channel Adapter 0x99, base LID 1\n0x0002 : 1\n"),
        LevelError::NoSuchGuid {
            line: 1,
            guid: Guid(0x99)
        }
    );
    assert_eq!(
        refused("PathRecord dump:\n dlid....1\n slid....9\n sl....0x1\n"),
        LevelError::NoSuchLid {
            line: 4,
            lid: Lid::new(9)
        }
    );
    let error = refused("Channel Adapter 0x021be10000000011, base LID 1\n0x0002 : 4\n");
    assert!(
        error
            .to_string()
            .contains("SL 4 is in use, and ports have 4 data VLs"),
        "{error}"
    );
    let row = "0 9 : 0 1 2 3 0 1 2 3 0 1 2 3 0 1 2 15\n";
    let error = refused(&format!("Switch 0x021be20000000010, base LID 3\n{row}"));
    assert!(
        error
            .to_string()
            .starts_with("line 2: the fabric has no switch"),
        "{error}"
    );
    for (text, problem) in [
        ("0x0002 : 1\n", DumpProblem::NoPort),
        (row, DumpProblem::NoPort),
        ("Switch 0x1\n0x0002 : 16\n", DumpProblem::BadSl("16".into())),
        (
            "Switch 0x1\n0xc000 : 1\n",
            DumpProblem::BadLid("0xc000".into()),
        ),
        ("Switch 0x1\n0 1 : 0 1\n", DumpProblem::BadVl(String::new())),
        ("", DumpProblem::Empty),
    ] {
        assert_eq!(
            dump::read_levels(text).unwrap_err().problem,
            problem,
            "{text:?}"
        );
    }
}

#[test]
fn pairs_without_a_level_are_counted() {
    let graph = fabric("star-3");
    let mut tables = checked(&graph, "minhop", &Options::default());
    let text = "Channel Adapter 0x021be10000000011, base LID 1\n0x0002 : 0\n0x0004 : 0\n";
    give_levels(&graph, &mut tables, &levels(&[text]), DATA_VLS).unwrap();
    assert_eq!(tables.warnings, [Warning::NoLevel { pairs: 5 }]);
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(
        lines in prop::collection::vec(
            "(Switch 0x1|PathRecord dump:|0x0001 : |1 2 : 0 1 |sl\\.\\.\\.|dlid\\.\\.|\\PC{0,8}){0,4}", 0..8)
    ) {
        let _ = dump::read_levels(&lines.join("\n"));
    }
}
