use std::fs;

use clap::Parser;
use wire::Guid;

use super::*;
use crate::cli::{Cli, Verb};
use crate::dir::FabricDir;

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

/// A file with two-port adapters, a host with two adapters, a router and aggregation nodes.
fn quirks(options: &[&str]) -> Result<FabricState> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../topologies/files");
    let path = format!("{folder}/quirks.ibnetdiscover");
    let arguments: Vec<&str> = [path.as_str()]
        .into_iter()
        .chain(options.iter().copied())
        .collect();
    plan(&arguments)
}

#[test]
fn every_port_of_a_host_with_a_cable_is_a_host_and_one_process_serves_them() {
    let state = quirks(&[]).unwrap();
    let first = state.find("node01 mlx4_0").unwrap();
    let second = state.find("node01 mlx4_0:2").unwrap();
    assert_eq!(
        state.find("node01_mlx4_0:2").unwrap(),
        second,
        "by its handle"
    );
    assert_eq!(state.find("node01").unwrap(), first, "by the host's name");
    assert_eq!(
        (state.device_of(second), state.nodes[second].port),
        (first, 2)
    );
    assert_eq!(state.namespace(second), state.namespace(first));
    assert_eq!(state.nodes[second].port_guid(), Guid(0x0002_c903_0000_2012));
    let only_second = state.find("node02 mlx4_0").unwrap();
    assert_eq!(state.nodes[only_second].port, 2, "port 1 has no cable");
    let hosts = state
        .devices()
        .iter()
        .filter(|node| node.kind == Kind::Host);
    assert_eq!((hosts.count(), state.hosts().count()), (10, 11));
    assert!(state.find("node01 mlx4_0:3").is_err());
}

#[test]
fn the_subnet_manager_chooses_a_host_with_programs() {
    let state = quirks(&[]).unwrap();
    // The aggregation nodes come first in the file.
    let chosen = &state.nodes[state.sm_nodes[0].node];
    assert_eq!(chosen.name, "node01 mlx4_0");
    assert_eq!(
        state.real_hosts().count(),
        8,
        "without router and aggregation nodes"
    );
}

#[test]
fn the_adapters_of_one_host_share_a_namespace() {
    let state = quirks(&["--fabric", "x"]).unwrap();
    let adapters = ["node06 mlx5_0", "node06 mlx5_1"].map(|name| state.find(name).unwrap());
    let numbers = adapters.map(|adapter| state.nodes[adapter].adapter);
    assert_eq!(numbers, [0, 1]);
    for adapter in adapters {
        assert_eq!(state.namespace(adapter), Some("x.node06"));
    }
    let interfaces = adapters.map(|node| state.interface(End { node, port: 1 }));
    assert_eq!(interfaces, ["p1", "a1p1"]);
    let alone = state.find("node03 HCA-1").unwrap();
    assert_eq!(state.namespace(alone), Some("x.node03_HCA-1"));
}

#[test]
fn up_may_take_longer_the_larger_the_fabric_is() {
    let of = |arguments: &[&str]| plan(arguments).unwrap().timeout_s();
    assert_eq!(of(&["star-2"]), 120);
    assert_eq!(of(&["star-2", "--timeout", "7"]), 7);
    assert!(of(&["fat-tree-16-3"]) > 300);
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
    assert_eq!(times(&["fat-tree-8-3"]), (375, 1125));
    assert_eq!(times(&["fat-tree-16-3"]), (3000, 9000));
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
    let newer = text.replacen("\"version\":4", "\"version\":5", 1);
    fs::write(dir.state(), newer).unwrap();
    let version = format!("{:#}", FabricState::load(&dir).unwrap_err());
    assert!(version.contains("version 5"), "{version}");
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

#[test]
fn what_is_written_reads_back_and_what_it_speaks_of_is_there() {
    let state = plan(&["star-2", "--transport", "udp", "--sm-node", "h1"]).unwrap();
    let text = String::from_utf8(state.write().unwrap()).unwrap();
    let again = FabricState::read(text.as_bytes()).unwrap();
    assert_eq!((again.nodes, again.links), (state.nodes, state.links));
    for (from, to, problem) in [
        (
            r#"{"node":2,"port":1}"#,
            r#"{"node":3,"port":1}"#,
            "node 3, and has 3",
        ),
        (
            r#""priority":8"#,
            r#""priority":8,"node":7"#,
            "duplicate field",
        ),
        (
            r#"{"node":1,"priority":8}"#,
            r#"{"node":9,"priority":8}"#,
            "node 9, and has 3",
        ),
        (
            r#""port":1,"device":null"#,
            r#""port":1,"device":1"#,
            "further port",
        ),
        (r#""version":4"#, r#""version":2"#, "of version 2"),
        ("{", "[", "expected"),
    ] {
        assert!(text.contains(from), "{from} in {text}");
        let error = FabricState::read(text.replace(from, to).as_bytes()).unwrap_err();
        assert!(format!("{error:#}").contains(problem), "{error:#}");
    }
}

#[test]
fn a_port_of_a_host_is_found_by_its_guid_and_by_its_cable() {
    let state = quirks(&[]).unwrap();
    for node in state.hosts() {
        let name = &state.nodes[node].name;
        assert_eq!(state.node_at(state.host_end(node)), node, "{name}");
        assert_eq!(&state.port_name(state.nodes[node].port_guid()), name);
    }
    // Its GUID is neither the node's nor the one behind it.
    let second = state.port_name(Guid(0x0002_c903_0000_2012));
    assert_eq!(second, "node01 mlx4_0:2");
    assert_eq!(state.port_name(Guid(1)), Guid(1).to_string());
}
