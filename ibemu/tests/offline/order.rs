//! What is printed does not depend on the order of lines in the topology's file.

use crate::{as_text, file, ibemu, printed};

/// The lines of a `.net` file in another order: records (a node with its ports) and the ports of each.
fn shuffled(text: &str, seed: usize) -> String {
    let place = |at: usize| (at + 1) * (2 * seed + 7919) % 10_007;
    let mut records: Vec<Vec<&str>> = text
        .split("\n\n")
        .skip(1)
        .map(|record| record.lines().collect())
        .collect();
    for record in &mut records {
        let is_port = |line: &&str| line.starts_with('[');
        let (ports, head): (Vec<&str>, Vec<&str>) = record.iter().partition(|line| is_port(line));
        let mut ports: Vec<(usize, &str)> = (0..).map(place).zip(ports).collect();
        ports.sort_unstable();
        let ports = ports.into_iter().map(|(_, line)| line);
        *record = head.into_iter().chain(ports).collect();
    }
    let mut records: Vec<(usize, Vec<&str>)> = (0..).map(place).zip(records).collect();
    records.sort_unstable();
    let records = records.into_iter().map(|(_, record)| record.join("\n"));
    format!(
        "# shuffled\n\n{}\n",
        records.collect::<Vec<_>>().join("\n\n")
    )
}

/// Both outputs and the exit code of each command.
fn said(commands: &[&[&str]], path: &str) -> Vec<String> {
    let run = |command: &&[&str]| {
        let arguments: Vec<&str> = command
            .iter()
            .map(|&word| if word == "FILE" { path } else { word })
            .collect();
        let output = ibemu(&arguments);
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        // Each file is in a folder of its own.
        let text = text.replace(path, "FILE");
        format!("{command:?} {:?}\n{text}", output.status.code())
    };
    commands.iter().map(run).collect()
}

#[test]
fn verify_route_and_compare_say_the_same_of_shuffled_lines() {
    let commands: [&[&str]; 9] = [
        &["verify", "FILE", "--routing", "minhop", "--json"],
        &["verify", "FILE", "--routing", "updn"],
        &["verify", "FILE", "--routing", "dfsssp", "--json"],
        &[
            "verify",
            "FILE",
            "--routing",
            "minhop",
            "--group",
            "all",
            "--no-quality",
        ],
        &["route", "FILE", "--routing", "dfsssp", "--json"],
        &["route", "FILE", "--routing", "minhop", "--dump", "lft"],
        &[
            "route",
            "FILE",
            "--routing",
            "minhop",
            "--group",
            "all",
            "--dump",
            "mft",
        ],
        &[
            "compare",
            "FILE",
            "--routing",
            "minhop,updn,mlid,dor,path-selection",
        ],
        &["lids", "FILE", "--json"],
    ];
    for topology in ["torus-5x5-1", "fat-tree-4-3", "irregular-8-2-4-3"] {
        let text = printed(&["topo", topology, "--format", "net"]);
        let (_folder, path) = file("topology", &text);
        let wanted = said(&commands, as_text(&path));
        for seed in 0..4 {
            let (_folder, path) = file("topology", &shuffled(&text, seed));
            for (found, wanted) in said(&commands, as_text(&path)).iter().zip(&wanted) {
                assert!(
                    found == wanted,
                    "{topology}, shuffle {seed}:\n{found}\nnot\n{wanted}"
                );
            }
        }
    }
}

#[test]
fn problems_of_given_tables_are_listed_in_one_order() {
    let text = printed(&["topo", "fat-tree-4-2", "--format", "net"]);
    let (_folder, path) = file("topology", &text);
    let lft = [
        "route",
        as_text(&path),
        "--routing",
        "slid",
        "--dump",
        "lft",
    ];
    let tables = printed(&lft);
    // Every other entry is missing.
    let kept: Vec<&str> = tables
        .lines()
        .enumerate()
        .filter(|(at, line)| !line.starts_with("0x") || at % 2 == 0)
        .map(|(_, line)| line)
        .collect();
    let (_tables_folder, tables) = file("tables", &kept.join("\n"));
    let verify: [&[&str]; 1] = [&[
        "verify",
        "FILE",
        "--tables",
        as_text(&tables),
        "--no-quality",
    ]];
    let wanted = said(&verify, as_text(&path));
    assert!(wanted[0].matches("unreachable").count() > 5, "{wanted:?}");
    for seed in 0..4 {
        let (_folder, path) = file("topology", &shuffled(&text, seed));
        assert_eq!(said(&verify, as_text(&path)), wanted);
    }
}
