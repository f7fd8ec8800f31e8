//! Tables as text.

use proptest::prelude::*;
use routing::dump::{self, DumpError, DumpProblem};
use routing::{LidBase, Options};
use wire::{Guid, Lid, PortNum};

use crate::support::{checked, fabric};

#[test]
fn tables_read_back_from_their_dump_with_owners() {
    for (name, engine) in [
        ("fat-tree-4-3", "mlid"),
        ("irregular-8-2-3-1", "updn"),
        ("star-3", "minhop"),
    ] {
        let graph = fabric(name);
        let tables = checked(&graph, engine, &Options::default());
        let text = dump::write(&graph, &tables);
        let dumps = dump::read(&text).unwrap();
        assert_eq!(dumps.len(), graph.switches().count());
        for (id, dump) in graph.switches().zip(&dumps) {
            let node = graph.node(id);
            assert_eq!((dump.guid, &dump.name), (node.guid, &node.name));
            assert_eq!(dump.lid, tables.lids.of_node(id).map(|range| range.base));
            for lid in (1..=tables.top().get()).map(Lid::new) {
                assert_eq!(dump.lft.get(lid), tables.lft(id).get(lid));
                let owner = tables.lids.owner(lid).map(|range| range.guid);
                assert_eq!(dump.owners.get(&lid).copied(), owner);
            }
        }
    }
}

#[test]
fn the_text_has_the_form_that_dump_fts_gives() {
    let graph = fabric("fat-tree-4-1");
    let options = Options {
        lid_base: LidBase::Paper,
        ..Options::default()
    };
    let tables = checked(&graph, "mlid", &options);
    assert_eq!(
        dump::write(&graph, &tables),
        "\
Unicast lids [0x0-0x5] of switch Lid 5 guid 0x021be20000000010 (s0):
  Lid  Out   Destination
       Port     Info
0x0001 001 : (Channel Adapter portguid 0x021be10000000011: 'h0')
0x0002 002 : (Channel Adapter portguid 0x021be10000000021: 'h1')
0x0003 003 : (Channel Adapter portguid 0x021be10000000031: 'h2')
0x0004 004 : (Channel Adapter portguid 0x021be10000000041: 'h3')
0x0005 000 : (Switch portguid 0x021be20000000010: 's0')
5 valid lids dumped
"
    );
}

#[test]
fn what_dump_fts_and_opensm_print_reads() {
    let diags = "\
Unicast lids [0x0-0x24] of switch DR path slid 0; dlid 0; 0,1,3,3,4,2 guid 0x021be20000000140 (s2.3.1):
  Lid  Out   Destination
       Port     Info 
0x0001 003 : (Channel Adapter portguid 0x021be10000000011: 'h0.0.0')
0x000d 000 : (Switch portguid 0x021be20000000140: 's2.3.1')
0x0024 001 : (unknown node and type)
3 valid lids dumped 
";
    let opensm = "\
Unicast lids [0-36] of switch Lid 13 guid 0x021be20000000140 ('s2.3.1'):
0x0001 003 # Channel Adapter portguid 0x021be10000000011: 'h0.0.0'
0x000d 000 # Switch portguid 0x021be20000000140: 's2.3.1'
0x0024 001 # unknown node and type
36 lids dumped
";
    let lids = [None, Some(Lid::new(13))];
    for (text, lid) in [diags, opensm].into_iter().zip(lids) {
        let [dump] = &dump::read(text).unwrap()[..] else {
            panic!("one switch")
        };
        assert_eq!((&dump.name[..], dump.lid), ("s2.3.1", lid));
        assert_eq!(dump.guid, Guid(0x021b_e200_0000_0140));
        let ports = [1, 2, 13, 36].map(|lid| dump.lft.get(Lid::new(lid)));
        assert_eq!(ports, [3, 255, 0, 1].map(PortNum::new));
        let owner = dump.owners.get(&Lid::new(1));
        assert_eq!(owner, Some(&Guid(0x021b_e100_0000_0011)));
        assert_eq!(dump.owners.len(), 2);
    }
}

#[test]
fn wrong_lines_are_named() {
    let switch = "Unicast lids [0x0-0x5] of switch Lid 5 guid 0x10 (s0):\n";
    let refused = |text: String| {
        let error = dump::read(&text).unwrap_err();
        (error.line, error.problem)
    };
    let one = Guid(0x10);
    for (text, line, problem) in [
        (String::new(), 1, DumpProblem::Empty),
        ("0x0001 001 :".to_owned(), 1, DumpProblem::NoSwitch),
        ("Unicast lids of switch".to_owned(), 1, DumpProblem::NoGuid),
        (
            "Multicast mlids [0xc000-..]".to_owned(),
            1,
            DumpProblem::Multicast,
        ),
        (
            format!("{switch}{switch}"),
            2,
            DumpProblem::SwitchTwice(one),
        ),
        (
            format!("{switch}0x0000 001"),
            2,
            DumpProblem::BadLid("0x0000".to_owned()),
        ),
        (
            format!("{switch}0xc000 001"),
            2,
            DumpProblem::BadLid("0xc000".to_owned()),
        ),
        (
            format!("{switch}0x0001 256"),
            2,
            DumpProblem::BadPort("256".to_owned()),
        ),
        (
            format!("{switch}0x0001"),
            2,
            DumpProblem::BadPort(String::new()),
        ),
        (
            format!("{switch}0x0001 001\n0x0001 002"),
            3,
            DumpProblem::LidTwice(Lid::new(1)),
        ),
        (
            "hello".to_owned(),
            1,
            DumpProblem::NotUnderstood("hello".to_owned()),
        ),
    ] {
        assert_eq!(refused(text), (line, problem));
    }
}

#[test]
fn lids_have_a_line_for_each_port() {
    let graph = fabric("star-2");
    let tables = checked(&graph, "minhop", &Options::default());
    assert_eq!(
        dump::write_lids(&tables),
        "\
0x021be10000000011 0x0001 0x0001
0x021be10000000021 0x0002 0x0002
0x021be20000000010 0x0003 0x0003
"
    );
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(
        lines in prop::collection::vec(
            "(Unicast lids|0x0001|[0-9]+ valid lids dumped|Lid | guid 0x1| \\(|\\PC{0,8}){0,5}", 0..8)
    ) {
        let _ = dump::read(&lines.join("\n"));
    }
}

#[test]
fn more_tables_than_a_subnet_has_switches_are_one_error_and_soon_found() {
    use core::fmt::Write as _;
    let (mut unicast, mut multicast) = (String::new(), String::new());
    for guid in 1..=60_000 {
        let _ = writeln!(
            unicast,
            "Unicast lids [0x0-0x1] of switch Lid 1 guid {guid:#x} (s):"
        );
        let _ = writeln!(
            multicast,
            "Multicast mlids [0xc000-0xc01f] of switch Lid 1 guid {guid:#x} (s):"
        );
    }
    let error = DumpError {
        line: 49_152,
        problem: DumpProblem::TooManySwitches,
    };
    assert_eq!(dump::read(&unicast), Err(error.clone()));
    assert_eq!(dump::read_mft(&multicast), Err(error));
}
