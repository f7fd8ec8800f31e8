//! Refusals name what is allowed instead.

use crate::{as_text, failed, file, ibemu};

fn is_usage(arguments: &[&str], words: &[&str]) {
    let (code, message) = failed(arguments);
    assert_eq!(code, 2, "{arguments:?}: {message}");
    for word in words {
        assert!(message.contains(word), "{arguments:?}: {message}");
    }
}

#[test]
fn engines_that_are_not_there_or_cannot_apply() {
    is_usage(
        &["route", "star-2", "--routing", "ospf"],
        &["ospf", "mlid", "dfsssp", "file"],
    );
    is_usage(
        &["route", "ring-5-1", "--routing", "mlid"],
        &["m-port n-tree"],
    );
    is_usage(&["route", "ring-5-1", "--routing", "clos"], &["two stages"]);
    is_usage(
        &["route", "fat-tree-4-2", "--routing", "mlid", "--lmc", "3"],
        &["LMC 3", "0 to 1"],
    );
    is_usage(&["route", "fat-tree-4-2", "--lmc", "8"], &["0..=7"]);
    is_usage(
        &["route", "fat-tree-32-3", "--routing", "updn", "--lmc", "3"],
        &["LMC 3", "49151"],
    );
    is_usage(
        &["route", "torus-5x5-1", "--routing", "dfsssp", "--vls", "1"],
        &["dfsssp", "have 1"],
    );
    is_usage(
        &["compare", "star-2", "--routing", "minhop,ospf"],
        &["ospf"],
    );
}

#[test]
fn topologies_and_nodes_that_are_not_there() {
    is_usage(&["route", "fat-tre-4-3"], &["fat-tre-4-3"]);
    is_usage(&["route", "star-2", "--path", "h0,h7"], &["h7", "h0"]);
    is_usage(
        &["route", "star-2", "--path", "h0"],
        &["SOURCE,DESTINATION"],
    );
    is_usage(
        &[
            "verify",
            "star-2",
            "--routing",
            "minhop",
            "--group",
            "h0,h9",
        ],
        &["h9"],
    );
}

#[test]
fn nodes_that_are_to_say_where_levels_are_and_are_not_there() {
    for verb in ["route", "compare"] {
        for (option, given, what) in [
            ("--roots", "spine0,spine7", "no switch \"spine7\""),
            ("--roots", "h0", "no switch \"h0\""),
            ("--io-guids", "no/such/file", "no file no/such/file"),
            ("--compute-guids", "leaf0", "no host \"leaf0\""),
        ] {
            is_usage(
                &[verb, "clos-2-2-2", option, given],
                &[option, what, "GUIDs", "ibemu topo"],
            );
        }
    }
    let (_folder, path) = file("roots", "0x021be2000000beef\n");
    let path = as_text(&path);
    is_usage(
        &["route", "clos-2-2-2", "--roots", path],
        &[
            "--roots",
            path,
            "no switch 0x021be2000000beef",
            "leave it out",
        ],
    );
}

#[test]
fn tables_with_their_line() {
    let head = "Unicast lids [0x0-0x3] of switch Lid 3 guid 0x021be20000000010 (s0):\n";
    for (text, words) in [
        (format!("{head}0x0001 x"), ["line 2", "\"x\" is not a port"]),
        (format!("{head}0x0001 009"), ["line 2", "ports 0 to 2"]),
        (
            head.replace("0x021be20000000010", "0x0000000000000001"),
            ["line 1", "no switch 0x0000000000000001"],
        ),
        (String::new(), ["line 1", "no table"]),
    ] {
        let (_folder, path) = file("tables", &text);
        let name = as_text(&path);
        is_usage(
            &["verify", "star-2", "--tables", name],
            &[name, words[0], words[1]],
        );
    }
    is_usage(&["verify", "star-2", "--tables", "/nowhere"], &["/nowhere"]);
    is_usage(
        &[
            "route",
            "star-2",
            "--routing",
            "updn",
            "--tables",
            "/nowhere",
        ],
        &["--routing file"],
    );
    is_usage(&["route", "star-2", "--routing", "file"], &["--tables"]);
    is_usage(&["verify", "star-2"], &["--routing", "--tables"]);
}

#[test]
fn a_packet_that_does_not_arrive_is_no_usage_error() {
    let head = "Unicast lids [0x0-0x3] of switch Lid 3 guid 0x021be20000000010 (s0):\n";
    let (_folder, path) = file("tables", &format!("{head}0x0001 001\n0x0003 000\n"));
    let given = ["--routing", "file", "--tables", as_text(&path)];
    let (code, message) = failed(&[&["route", "star-2", "--path", "h0,h1"], &given[..]].concat());
    assert_eq!(code, 1, "{message}");
    assert!(message.contains("h1"), "{message}");
}

#[test]
fn help_says_what_each_column_means() {
    for (verb, columns) in [
        ("route", &["ENTRIES", "LMC"][..]),
        ("verify", &["NOT MINIMAL", "FOLLOWED", "HOPS"]),
        ("compare", &["EBB", "ALL-TO-ALL", "DEADLOCK", "PAIRS"]),
        ("lids", &["PER DESTINATION", "FLOWS", "LOAD"]),
        ("admit", &["ESTABLISHED"]),
        ("window", &["ADMITTED", "MOVED", "DEFERRED"]),
    ] {
        let output = ibemu(&[verb, "--help"]);
        assert!(output.status.success());
        let help = String::from_utf8(output.stdout).unwrap();
        for column in columns {
            assert!(help.contains(column), "{verb}: {column}");
        }
    }
}
