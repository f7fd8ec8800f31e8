//! Tables as they were when they had been checked against the papers, byte for byte.
//!
//! A golden file has a line for each node: its name, and for a host base LID and LMC, for a switch
//! its LID and the ports for LIDs 1, 2, 3 and so on (`-` for none). `GOLDEN=write` in the
//! environment writes the files instead of comparing.

#![allow(
    clippy::disallowed_methods,
    reason = "golden files are read and, on request, written"
)]

use core::fmt::Write as _;
use std::path::PathBuf;

use routing::{LidBase, Options, Tables};
use topologies::Graph;
use wire::PortNum;

use crate::support::{checked, fabric, is_switch};

fn text(graph: &Graph, tables: &Tables) -> String {
    let mut out = String::new();
    for id in graph.ids() {
        let range = tables.lids.of_node(id).unwrap();
        write!(out, "{} {}", graph.node(id).name, range.base).unwrap();
        if is_switch(graph, id) {
            out.push(':');
            for port in &tables.lft(id).entries()[1..] {
                match *port {
                    PortNum::NONE => out.push_str(" -"),
                    port => write!(out, " {port}").unwrap(),
                }
            }
        } else {
            write!(out, " {}", range.lmc).unwrap();
        }
        out.push('\n');
    }
    out
}

fn compare(topology: &str, engine: &str, lid_base: LidBase) {
    let graph = fabric(topology);
    let options = Options {
        lid_base,
        ..Options::default()
    };
    let found = text(&graph, &checked(&graph, engine, &options));
    let style = match lid_base {
        LidBase::Aligned => "aligned",
        LidBase::Paper => "paper",
    };
    let name = format!("{topology}.{engine}.{style}");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(&name);
    if std::env::var_os("GOLDEN").is_some_and(|value| value == "write") {
        std::fs::write(&path, &found).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap();
    assert!(found == wanted, "{name} is different:\n{found}");
}

#[test]
fn fat_tree_tables_are_the_golden_ones() {
    for topology in ["fat-tree-4-2", "fat-tree-4-3", "fat-tree-8-2"] {
        for lid_base in [LidBase::Paper, LidBase::Aligned] {
            compare(topology, "mlid", lid_base);
        }
        for engine in ["slid", "updn", "minhop"] {
            compare(topology, engine, LidBase::Aligned);
        }
    }
}

#[test]
fn tables_of_other_fabrics_are_the_golden_ones() {
    for topology in ["torus-3x3-1", "irregular-8-2-3-1", "clos-3-2-2-2"] {
        for engine in ["updn", "minhop"] {
            compare(topology, engine, LidBase::Aligned);
        }
    }
}
