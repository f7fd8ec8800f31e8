//! The matrix of diagnostic tools: stock programs of Debian 12, unchanged, each compared with what is
//! true of the fabric.
//!
//! Each row is a command line and a comparison. All rows run on four fabrics: a fat tree and an
//! irregular fabric with several LIDs a port, under our controller and under OpenSM.

mod classes;
mod counters;
mod crowd;
mod details;
mod discovery;
mod document;
mod local;
mod ports;
mod printed;
mod records;
mod routes;
mod row;
mod services;
mod speeds;
mod states;
mod suites;
mod tables;
mod truth;

use e2e::{Fabric, OpenSm, Transport};

use row::Row;
use truth::{Manager, Truth};

/// A fat tree, and an irregular fabric that has four LIDs a port.
const FAT_TREE: &str = "fat-tree-4-3";
const IRREGULAR: &str = "irregular-8-2-4-7";

/// Every row by its subject, in the order of the document.
const PARTS: [(&str, &[Row]); 11] = [
    ("Discovery", discovery::ROWS),
    ("Own port, addresses, subnet manager", local::ROWS),
    ("Forwarding tables and paths", routes::ROWS),
    ("Attributes of nodes and ports", ports::ROWS),
    ("Counters", counters::ROWS),
    (
        "Counters by virtual lane, service level and operation",
        details::ROWS,
    ),
    ("Congestion control, and a vendor's class", classes::ROWS),
    ("Subnet administration", records::ROWS),
    ("Tables and services of subnet administration", tables::ROWS),
    ("Services", services::ROWS),
    ("States of ports", states::ROWS),
];

/// Runs every row, with the servers that some need.
#[track_caller]
fn run(truth: &Truth<'_>) {
    let rows: Vec<Row> = PARTS.iter().flat_map(|(_, rows)| *rows).copied().collect();
    let _servers = services::Servers::start(truth);
    row::run(truth, &rows);
}

// Exact tables and counters are of fabrics without internet addresses.

fn under_our_controller(topology: &str, options: &[&str]) {
    let fabric = Fabric::up(Transport::Udp, topology, &[options, &["--no-ip"]].concat());
    let sm = fabric.status()["sm"]["node"]
        .as_str()
        .expect("a host")
        .to_owned();
    run(&Truth::of(&fabric, topology, Manager::Ours, &sm));
    fabric.assert_no_errors_logged();
    fabric.down();
}

fn under_opensm(topology: &str, sm: &str, options: &[&str]) {
    let fabric = Fabric::up(Transport::Udp, topology, &["--sm", "none", "--no-ip"]);
    let manager = OpenSm::start(&fabric, sm, options);
    run(&Truth::of(&fabric, topology, Manager::OpenSm, sm));
    manager.assert_no_errors();
    drop(manager);
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn tools_print_what_is_true_of_a_fat_tree_under_our_controller() {
    under_our_controller(FAT_TREE, &[]);
}

#[test]
fn tools_print_what_is_true_of_an_irregular_fabric_with_four_lids_a_port_under_our_controller() {
    under_our_controller(IRREGULAR, &["--lmc", "2"]);
}

#[test]
fn tools_print_what_is_true_of_a_fat_tree_under_opensm() {
    under_opensm(FAT_TREE, "h0.0.0", &[]);
}

#[test]
fn tools_print_what_is_true_of_an_irregular_fabric_with_four_lids_a_port_under_opensm() {
    under_opensm(IRREGULAR, "h3", &["--lmc", "2"]);
}

#[test]
fn the_document_lists_every_tool() {
    document::assert_lists(&PARTS);
}
