use std::fs;

use clap::Parser;

use super::*;
use crate::cli::{Cli, Verb};

fn plan(arguments: &[&str]) -> Result<FabricState> {
    let line = ["ibemu", "up"].iter().chain(arguments);
    let cli = Cli::try_parse_from(line).unwrap();
    let Verb::Up(up) = cli.verb else {
        panic!("not up");
    };
    let topology = topologies::parse(&up.topology).unwrap();
    let own = ProcessRecord::own().unwrap();
    FabricState::plan(&cli.fabric, &topology.graph, topology.name, &up, own)
}

#[test]
fn a_plan_names_every_node_namespace_and_cable() {
    let state = plan(&["fat-tree-4-2", "--fabric", "x"]).unwrap();
    assert_eq!((state.hosts().count(), state.switches().count()), (8, 6));
    assert_eq!(state.links.len(), 16);
    assert_eq!(state.namespaces.len(), 14);
    let host = state.find("h0.0").unwrap();
    assert_eq!(state.namespace(host), Some("x.h0.0"));
    assert_eq!(state.cable_counts()[host], 1);
    assert_eq!(state.peers().len(), 32);
    let first = SmNode {
        node: host,
        priority: 8,
    };
    assert_eq!(state.sm_nodes, [first], "the first host");
}

#[test]
fn over_udp_there_is_no_namespace() {
    let state = plan(&["star-2", "--transport", "udp", "--fabric", "x"]).unwrap();
    assert!(state.namespaces.is_empty());
    let host = state.find("h1").unwrap();
    assert_eq!(state.namespace(host), None);
}

#[test]
fn the_subnet_managers_host_must_be_a_host() {
    let missing = plan(&["star-2", "--sm-node", "h9"]).unwrap_err();
    let missing = format!("{missing:#}");
    assert!(
        missing.contains("h9") && missing.contains("h0 to h1"),
        "{missing}"
    );
    let switch = plan(&["star-2", "--sm-node", "s0"])
        .unwrap_err()
        .to_string();
    assert!(switch.contains("switch"), "{switch}");
    assert_eq!(plan(&["star-2", "--sm", "none"]).unwrap().sm_nodes, []);
}

#[test]
fn several_hosts_have_controllers_of_falling_priority_unless_told_otherwise() {
    let state = plan(&["star-4", "--sm-node", "h2,h0:3,h1"]).unwrap();
    let chosen: Vec<(&str, u8, &str)> = state
        .controllers()
        .map(|(sm, handle)| (state.nodes[sm.node].name.as_str(), sm.priority, handle))
        .collect();
    let expected = [
        ("h2", 8, "controller"),
        ("h0", 3, "controller2"),
        ("h1", 6, "controller3"),
    ];
    assert_eq!(chosen, expected);
    for (wrong, problem) in [
        ("h0,h0:4", "a host has one controller"),
        ("h0:16", "a priority from 0 to 15"),
        ("h0,", "NODE or NODE:PRIORITY"),
        ("h0,h1,h2,h3,h0,h1,h2,h3,h0", "at most 8"),
    ] {
        let error = plan(&["star-4", "--sm-node", wrong]).unwrap_err();
        assert!(format!("{error:#}").contains(problem), "{wrong}: {error:#}");
    }
}

#[test]
fn keep_alives_grow_rarer_with_the_fabric_unless_told_otherwise() {
    let times = |arguments: &[&str]| plan(arguments).unwrap().keepalive_and_silence_ms();
    assert_eq!(times(&["fat-tree-4-3"]), (250, 1000));
    assert_eq!(times(&["fat-tree-8-3"]), (500, 2000));
    assert_eq!(times(&["fat-tree-16-3"]), (3000, 12_000));
    assert_eq!(times(&["star-2", "--keepalive-ms", "10"]), (10, 40));
    let both = ["star-2", "--keepalive-ms", "10", "--silence-ms", "99"];
    assert_eq!(times(&both), (10, 99));
}

#[test]
fn what_is_saved_is_what_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let dir = FabricDir::at(&folder.path().join("ib")).unwrap();
    dir.create().unwrap();
    assert!(FabricState::load(&dir).unwrap().is_none());
    let mut state = plan(&["star-2", "--routing", "updn", "--time-scale", "2.5"]).unwrap();
    state.stage = Stage::Up;
    state.save(&dir).unwrap();
    let loaded = FabricState::load(&dir).unwrap().unwrap();
    assert_eq!(format!("{loaded:?}"), format!("{state:?}"));
}

#[test]
fn a_damaged_state_and_one_of_another_version_are_told_apart_from_none() {
    let folder = tempfile::tempdir().unwrap();
    let dir = FabricDir::at(&folder.path().join("ib")).unwrap();
    dir.create().unwrap();
    fs::write(dir.state(), "{").unwrap();
    let damaged = format!("{:#}", FabricState::load(&dir).unwrap_err());
    assert!(damaged.contains("damaged"), "{damaged}");
    let state = plan(&["star-2"]).unwrap();
    let text = serde_json::to_string(&state).unwrap();
    let newer = text.replacen("\"version\":3", "\"version\":4", 1);
    fs::write(dir.state(), newer).unwrap();
    let version = format!("{:#}", FabricState::load(&dir).unwrap_err());
    assert!(version.contains("version 4"), "{version}");
}

#[test]
fn nodes_are_found_by_name_and_by_handle() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.net");
    let text = "Switch 4 \"MF0;sw:1/U1\"\n[1] \"h0\"[1]\n\nHca 1 \"h0\"\n[1] \"MF0;sw:1/U1\"[1]\n";
    fs::write(&path, text).unwrap();
    let state = plan(&[path.to_str().unwrap()]).unwrap();
    let switch = state.find("MF0;sw:1/U1").unwrap();
    assert_eq!(state.find("MF0_sw_1_U1").unwrap(), switch);
    assert_eq!(state.namespace(switch), Some("ib.MF0_sw_1_U1"));
}
