//! `ibemu route`.

use serde_json::json as value;

use crate::{as_text, file, is_golden, json, printed};

#[test]
fn json_names_nodes_lids_and_ports() {
    let fat_tree = ["route", "fat-tree-4-2", "--routing", "mlid", "--json"];
    is_golden("fat-tree-4-2.mlid.json", &printed(&fat_tree));
    let layers = ["route", "ring-5-1", "--routing", "dfsssp", "--json"];
    is_golden("ring-5-1.dfsssp.json", &printed(&layers));
}

#[test]
fn what_a_fabric_is_built_of_is_told_where_it_is_recognised() {
    let told = |topology: &str| {
        let text = printed(&["route", topology, "--routing", "minhop"]);
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("structure: "));
        line.map(str::to_owned)
    };
    for (topology, structure) in [
        (
            "dragonfly-5-4-2",
            "5 groups of 4 switches, joined as in a dragonfly",
        ),
        (
            "directors-12-4-1-6-3",
            "1 director switch of 6 leaf and 3 spine boards",
        ),
        (
            "directors-12-4-2-6-3",
            "2 director switches of 6 leaf and 3 spine boards",
        ),
        (
            "fat-tree-4-3",
            "3 levels: 8 leaf, 8 spine and 4 core switches; 2 planes",
        ),
        ("clos-6-8-4-2", "2 levels: 6 leaf and 4 spine switches"),
        (
            "as-built-8-4-4-2-1",
            "3 levels: 8 leaf, 4 spine and 2 core switches",
        ),
    ] {
        assert_eq!(told(topology).as_deref(), Some(structure), "{topology}");
    }
    for topology in ["torus-4x4-1", "star-2"] {
        assert_eq!(told(topology), None, "{topology}");
    }
    let text = printed(&["topo", "fat-tree-4-3", "--format", "ibsim"]);
    let first = text.lines().next().unwrap();
    assert!(
        first.starts_with("# structure: 3 levels: 8 leaf"),
        "{first}"
    );
}

#[test]
fn paper_style_counts_as_mlid04_does_with_switches_behind_all_hosts() {
    let report = json(&[
        "route",
        "fat-tree-4-3",
        "--routing",
        "mlid",
        "--lid-base",
        "paper",
        "--json",
    ]);
    let nodes = report["nodes"].as_array().unwrap();
    let of = |name: &str| nodes.iter().find(|node| node["name"] == name).unwrap();
    let lids = ["h0.0.0", "h0.0.1", "h3.0.0"].map(|name| of(name)["lid"].as_u64().unwrap());
    assert_eq!(lids, [1, 5, 49]);
    assert_eq!(
        (&report["lmc"], &of("h0.0.0")["lmc"]),
        (&value!(2), &value!(2))
    );
    let switches = nodes.iter().filter(|node| node["type"] == "switch");
    let mut switch_lids: Vec<u64> = switches.map(|node| node["lid"].as_u64().unwrap()).collect();
    switch_lids.sort_unstable();
    assert_eq!(switch_lids, (65..=84).collect::<Vec<u64>>());
    for (switch, table) in report["lft"].as_object().unwrap() {
        let own = of(switch)["lid"].to_string();
        assert_eq!(table[&own], 0, "{switch} keeps its own LID");
        let ports = table.as_object().unwrap().values();
        assert!(ports.clone().all(|port| port.as_u64().unwrap() <= 4));
        assert_eq!(ports.len(), 84);
    }
}

#[test]
fn the_path_of_mlid04s_example_has_its_dlid() {
    // P(010) to P(000): the rank is cut to the common prefix, so that it is the first LID.
    let path = json(&[
        "route",
        "fat-tree-4-3",
        "--routing",
        "mlid",
        "--lid-base",
        "paper",
        "--path",
        "h0.1.0,h0.0.0",
        "--json",
    ]);
    assert_eq!(
        path,
        value!({"dlid": 1, "hops": [
            {"node": "h0.1.0", "in": null, "out": 1},
            {"node": "s2.0.1", "in": 1, "out": 3},
            {"node": "s1.0.0", "in": 2, "out": 1},
            {"node": "s2.0.0", "in": 3, "out": 1},
            {"node": "h0.0.0", "in": 1, "out": null},
        ]})
    );
}

#[test]
fn dumps_are_the_texts_of_dump_fts_and_guid2lid() {
    let tree = ["route", "fat-tree-4-2", "--routing", "slid", "--dump"];
    let dump = |what: &[&str]| printed(&[&tree[..], what].concat());
    is_golden("fat-tree-4-2.slid.lft", &dump(&["lft"]));
    is_golden("fat-tree-4-2.slid.lids", &dump(&["lids"]));
    let group = ["mft", "--multicast", "cyclic", "--group", "h0.0,h1.0,h3.1"];
    is_golden("fat-tree-4-2.cyclic.mft", &dump(&group));
}

#[test]
fn a_dump_comes_back_as_tables_of_one_s_own() {
    let ours = ["route", "irregular-8-2-3-1", "--routing", "updn"];
    let text = printed(&[&ours[..], &["--dump", "lft"]].concat());
    let (_folder, path) = file("tables", &text);
    let given = ["--routing", "file", "--tables", as_text(&path)];
    let back = ["route", "irregular-8-2-3-1"];
    let again = printed(&[&back[..], &given, &["--dump", "lft"]].concat());
    assert_eq!(again, text);
    let lft = |arguments: &[&str]| json(arguments)["lft"].clone();
    assert_eq!(
        lft(&[&back[..], &given, &["--json"]].concat()),
        lft(&[&ours[..], &["--json"]].concat())
    );
}

#[test]
fn groups_and_connections_have_tables_too() {
    let report = json(&[
        "route",
        "fat-tree-4-2",
        "--group",
        "h0.0,h1.0",
        "--connection",
        "h0.0,h1.0,64M",
        "--connection",
        "h1.0,h0.0,2M,dbts",
        "--rate",
        "1x",
        "--json",
    ]);
    assert_eq!(report["mft"]["s1.0"], value!({"49152": [1, 3]}));
    assert_eq!(report["mft"]["s0.0"], value!({"49152": [1, 2]}));
    assert_eq!(report["sl2vl"]["all"][13], 8);
    let of = |node: &str, port: &str, table: &str| report["vlarb"][node][port][table].clone();
    // 64 Mbit/s is 418 slots of SL 2; the other way 2 Mbit/s is 14 of SL 6.
    let low = of("s1.1", "1", "low");
    let slots = |vl: u64| -> u64 {
        let entries = low.as_array().unwrap().iter();
        entries
            .filter(|entry| entry[0] == vl)
            .map(|entry| entry[1].as_u64().unwrap())
            .sum()
    };
    assert_eq!((slots(2), slots(8), slots(9)), (418, 3264, 1));
    assert_eq!(of("s1.0", "1", "high"), value!([[6, 14]]));
    assert_eq!(of("h0.1", "1", "high"), value!([]));
}
