//! `ibemu verify`, `ibemu compare`, `ibemu admit`.

use crate::{as_text, failed, file, ibemu, is_golden, json, printed};

#[test]
fn sound_tables_pass_with_their_figures() {
    let text = printed(&["verify", "fat-tree-4-3", "--routing", "mlid"]);
    is_golden("fat-tree-4-3.mlid.verify", &text);
    let report = json(&["verify", "torus-4x4-1", "--routing", "dfsssp", "--json"]);
    assert_eq!(
        (&report["ok"], &report["cycle"]),
        (&true.into(), &().into())
    );
    assert!(report["usage"]["data_vls"].as_u64().unwrap() >= 2);
}

#[test]
fn all_to_all_and_all_to_one_on_an_8_port_3_tree_are_as_calculated() {
    for (engine, to_one) in [("mlid", 1), ("slid", 16)] {
        let report = json(&["verify", "fat-tree-8-3", "--routing", engine, "--json"]);
        let loads = &report["quality"]["loads"];
        let all = &loads["all-to-all"];
        assert_eq!(
            (&all["max_up"], &all["max_down"]),
            (&124.into(), &124.into())
        );
        assert_eq!(loads["all-to-one-0"]["max_up"], to_one, "{engine}");
    }
}

#[test]
fn a_credit_loop_is_printed_with_switch_port_and_vl() {
    let ring = ["verify", "ring-5-1", "--routing", "minhop", "--no-quality"];
    let output = ibemu(&ring);
    assert_eq!(output.status.code(), Some(1));
    is_golden(
        "ring-5-1.minhop.verify",
        core::str::from_utf8(&output.stdout).unwrap(),
    );
    assert_eq!(output.stderr, b"ibemu: there is 1 problem\n");
}

#[test]
fn a_loop_and_a_missing_entry_are_named() {
    let good = printed(&[
        "route",
        "fat-tree-4-2",
        "--routing",
        "slid",
        "--dump",
        "lft",
    ]);
    let mut lines: Vec<&str> = good.lines().collect();
    let leaf = lines
        .iter()
        .position(|line| line.contains("(s1.0)"))
        .unwrap();
    // The leaf sends its own first host's packets up again, and drops its second's.
    let up = lines[leaf + 3].replacen("001 :", "003 :", 1);
    assert_ne!(up, lines[leaf + 3]);
    lines[leaf + 3] = &up;
    lines.remove(leaf + 4);
    let (_folder, path) = file("tables", &lines.join("\n"));
    let verify = ["verify", "fat-tree-4-2", "--tables", as_text(&path)];
    let output = ibemu(&[&verify[..], &["--no-quality"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("loop: packets for LID 1 do not arrive from s0.0"),
        "{text}"
    );
    assert!(text.contains("they go round"), "{text}");
    assert!(text.contains("unreachable: packets for LID 2 "), "{text}");
    assert!(text.contains("s1.0 has no entry"), "{text}");
}

#[test]
fn multicast_from_every_member_arrives_once() {
    for scheme in ["cyclic", "spanning-tree"] {
        let groups = ["--group", "all", "--group", "h0.0.0,h2.1.1,h3.0.0"];
        let tree = [
            "verify",
            "fat-tree-4-3",
            "--routing",
            "mlid",
            "--no-quality",
        ];
        let text = printed(&[&tree[..], &groups, &["--multicast", scheme]].concat());
        assert!(text.ends_with("nothing is wrong\n"), "{scheme}: {text}");
    }
}

#[test]
fn multicast_tables_of_one_s_own_are_followed() {
    let tree = "fat-tree-4-2";
    let group = ["--group", "h0.0,h1.0,h3.1", "--multicast", "cyclic"];
    let text = printed(&[&["route", tree, "--dump", "mft"], &group[..]].concat());
    let (_folder, path) = file("mft", &text);
    let verify = ["verify", tree, "--routing", "slid", "--no-quality", "--mft"];
    printed(&[&verify[..], &[as_text(&path)]].concat());

    // The second root forwards nothing any more, then to a port that it does not have.
    let root = text.find("(s0.1)").unwrap();
    let row = root + text[root..].find("0xc001").unwrap();
    let (before, rest) = text.split_at(row);
    let rest = rest.split_once('\n').unwrap().1;
    for (row, code, wanted) in [
        (
            "",
            1,
            "multicast to 0xc001 from h0.0: h3.1 port 1 gets no copy",
        ),
        (
            "0xc001                  x\n",
            2,
            "s0.1 has ports 0 to 4, not 6",
        ),
        ("0xc001      o\n", 2, "'o' where an x"),
    ] {
        let (_folder, path) = file("mft", &format!("{before}{row}{rest}"));
        let output = ibemu(&[&verify[..], &[as_text(&path)]].concat());
        assert_eq!(output.status.code(), Some(code));
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains(wanted), "{said}");
    }
}

#[test]
fn engines_stand_in_one_table_and_those_that_cannot_say_why() {
    let engines = "mlid,slid,updn,minhop,dfsssp,clos,dor";
    let compare = ["compare", "fat-tree-4-2", "--routing", engines];
    is_golden("fat-tree-4-2.compare", &printed(&compare));
    let report = json(&[&compare[..], &["--json"]].concat());
    assert_eq!(report["engines"].as_array().unwrap().len(), 6);
    assert_eq!(report["cannot"][0]["routing"], "dor");
}

#[test]
fn auto_is_compared_with_every_engine_that_it_has_measured() {
    let report = json(&["compare", "as-built-4-3-2-0-1", "--json"]);
    let lines = report["engines"].as_array().unwrap();
    let names: Vec<&str> = lines
        .iter()
        .map(|line| line["routing"].as_str().unwrap())
        .collect();
    assert_eq!(names[0], "auto");
    let taken = lines[0]["engine"].as_str().unwrap();
    let because = report["because"].as_str().unwrap();
    for engine in ["updn", "dfsssp", "nue"] {
        assert_eq!(names.contains(&engine), engine != taken, "{names:?}");
        assert!(engine == taken || because.contains(engine), "{because}");
    }
    let both = ["compare", "fat-tree-4-2", "--engines", "auto,updn,auto"];
    let printed = printed(&both);
    assert!(printed.contains("auto (mlid)"), "{printed}");
    assert!(printed.contains("\nauto: FT(4,2)\n"), "{printed}");
    assert_eq!(printed.matches("\nupdn").count(), 1, "{printed}");
}

#[test]
fn an_admission_fills_the_fabric_and_says_what_ran_out_first() {
    let fabric = ["admit", "irregular-4-2-3-1", "--rate", "1x", "--seed", "7"];
    is_golden("irregular-4-2-3-1.admit", &printed(&fabric));
    let report = json(&[&fabric[..], &["--tries", "40", "--json"]].concat());
    assert_eq!(
        (&report["total"], &report["tried"]),
        (&40.into(), &40.into())
    );
    assert_eq!(
        report["established"],
        serde_json::json!({"0": 10, "1": 10, "2": 10, "3": 10})
    );
}

#[test]
fn a_connection_that_does_not_fit_is_refused_with_the_link() {
    let (code, message) = failed(&[
        "verify",
        "star-2",
        "--routing",
        "minhop",
        "--rate",
        "1x",
        "--connection",
        "h0,h1,2.4G",
    ]);
    assert_eq!(code, 2);
    assert!(
        message.contains("h0,h1,2.4G: at port 1 of h0: "),
        "{message}"
    );
}
