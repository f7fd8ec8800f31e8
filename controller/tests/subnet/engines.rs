//! Every routing engine through management datagrams: LIDs, tables, VLs, and what subnet
//! administration says of them.

use controller::control::{Phase, Status};
use controller::{ConfigError, Sm, SmConfig};
use mad::sma::Node as _;
use routing::{Options, RoutingEngine, Tables, dump, verify};
use topologies::{Endpoint, Graph, NodeId, NodeKind};
use wire::sa::{PathRecord, SaHeader, path_component};
use wire::{AttributeId, Gid, Mad, MadStatus, Method, PortNum, Sl};

use crate::administration::ask;
use crate::bed::Bed;
use crate::{assert_connected, assert_programmed, end, first_host, graph};

const VLS: u8 = 4;

fn config(routing: &str) -> SmConfig {
    SmConfig {
        routing: routing.parse().expect("an engine"),
        ..SmConfig::default()
    }
}

fn up(topology: &str, config: SmConfig) -> (Bed, NodeId) {
    let mut bed = Bed::with_vls(graph(topology), 1, VLS);
    let host = first_host(&bed.graph);
    bed.start(host, config);
    bed.run_until_up(host);
    (bed, host)
}

fn offline(graph: &Graph, routing: &str) -> Tables {
    let engine: RoutingEngine = routing.parse().expect("an engine");
    let options = Options {
        data_vls: Some(VLS),
        ..Options::default()
    };
    engine.route(graph, &options).expect("there are tables")
}

fn end_port(bed: &Bed, host: NodeId) -> Endpoint {
    bed.ends(host)[0]
}

/// What administration says of packets from one host to another; with `sl`, of that level only.
fn path(
    bed: &mut Bed,
    manager: NodeId,
    [from, to]: [NodeId; 2],
    sl: Option<Sl>,
) -> Result<PathRecord, MadStatus> {
    let guid = |bed: &Bed, host| routing::port_guid(&bed.graph, end_port(bed, host));
    let gid = |bed: &Bed, host| Gid::new(Gid::DEFAULT_PREFIX, guid(bed, host));
    let mut query = Mad::sa(Method::GET, AttributeId::PATH_RECORD, 0, 7);
    query.set_sa_record(&PathRecord {
        sgid: gid(bed, from),
        dgid: gid(bed, to),
        numb_path: 1,
        sl: sl.unwrap_or_default(),
        ..PathRecord::default()
    });
    let of_sl = sl.map_or(0, |_| path_component::SL);
    query.set_sa_header(&SaHeader {
        component_mask: path_component::SGID
            | path_component::DGID
            | path_component::NUMB_PATH
            | of_sl,
        ..SaHeader::default()
    });
    let answer = ask(bed, from, manager, &query);
    match answer.status() {
        MadStatus::OK => Ok(answer.sa_record().expect("a path")),
        refused => Err(refused),
    }
}

/// Every switch and host has the engine's table for every pair of connected ports.
fn assert_vls(bed: &Bed, tables: &Tables) {
    let assignment = tables.vl_assignment.as_ref().expect("the engine has VLs");
    for id in bed.graph.ids() {
        let own = Endpoint {
            node: id,
            port: PortNum::MANAGEMENT,
        };
        let outputs = bed.ends(id);
        let is_switch = bed.graph.node(id).kind == NodeKind::Switch;
        let inputs = [own]
            .into_iter()
            .chain(outputs.iter().copied().filter(|_| is_switch));
        for input in inputs {
            for output in &outputs {
                let held = bed.node(id).sl_to_vl(input.port, output.port);
                assert_eq!(
                    held,
                    *assignment.table(id, input.port, output.port),
                    "{input:?} {output:?}"
                );
            }
        }
    }
}

/// For each pair of hosts a path record has the DLID and the level of the engine.
fn assert_paths(bed: &mut Bed, manager: NodeId, tables: &Tables) -> Vec<Sl> {
    let hosts: Vec<NodeId> = bed.graph.hosts().collect();
    let mut levels = Vec::new();
    for &from in hosts.iter().filter(|&&host| host != manager) {
        for &to in hosts.iter().filter(|&&host| host != from) {
            let record = path(bed, manager, [from, to], None).expect("a path");
            let dlid = tables.dlid_between(from, to).expect("a LID");
            assert_eq!(record.dlid, dlid);
            let level = tables
                .vl_assignment
                .as_ref()
                .map_or(Sl::default(), |assignment| {
                    assignment.sl_from(&bed.graph, end_port(bed, from), dlid)
                });
            assert_eq!(record.sl, level);
            levels.push(level);
        }
    }
    levels
}

/// Why a manager fails, having installed nothing.
fn refused(topology: &str, config: SmConfig) -> String {
    let mut bed = Bed::new(graph(topology), 1);
    let host = first_host(&bed.graph);
    bed.start(host, config);
    let status = bed.run_until(host, |status| matches!(status.phase, Phase::Failed { .. }));
    assert!(
        bed.graph
            .switches()
            .all(|id| bed.node(id).top() == wire::Lid::ZERO)
    );
    match status.phase {
        Phase::Failed { reason } => reason,
        _ => unreachable!("just waited for"),
    }
}

#[test]
fn every_engine_comes_up_with_the_tables_that_are_computed_offline() {
    for (topology, routing) in [
        ("fat-tree-4-3", "slid"),
        ("irregular-8-2-3-7", "updn"),
        ("irregular-8-2-3-7", "minhop"),
        ("irregular-8-2-3-7", "dfsssp"),
        ("irregular-8-2-3-7", "nue"),
        ("irregular-8-2-3-7", "lash"),
        ("clos-3-2-2", "ftree"),
        ("torus-3x3-1", "torus-2qos"),
        ("irregular-8-2-3-7", "path-selection"),
        ("irregular-8-2-3-7", "shortest-widest"),
        ("irregular-8-2-3-7", "renaming"),
        ("irregular-8-2-3-7", "fully-explicit"),
        ("mesh-3x3-1", "dor"),
        ("hypercube-3-1", "dor"),
        ("clos-3-2-2", "clos"),
    ] {
        let (mut bed, host) = up(topology, config(routing));
        let tables = offline(&bed.graph, routing);
        assert_programmed(&bed, &tables);
        let hosts: Vec<NodeId> = bed.graph.hosts().collect();
        assert_connected(&bed, &hosts);
        assert_paths(&mut bed, host, &tables);
        assert!(bed.status(host).engine.starts_with(routing));
    }
}

#[test]
fn levels_and_lanes_of_an_engine_are_in_every_port_and_in_every_path_record() {
    for (topology, routing) in [
        ("ring-6-1", "dfsssp"),
        ("torus-3x5-1", "dfsssp"),
        ("ring-6-1", "nue"),
        ("ring-6-1", "lash"),
        ("torus-5x3-1", "torus-2qos"),
        ("ring-5-2", "dor"),
        ("torus-5x5-1", "dor"),
    ] {
        let (mut bed, host) = up(topology, config(routing));
        let tables = offline(&bed.graph, routing);
        assert_programmed(&bed, &tables);
        assert_vls(&bed, &tables);
        let levels = assert_paths(&mut bed, host, &tables);
        let used: std::collections::BTreeSet<Sl> = levels.into_iter().collect();
        assert!(used.len() > 1, "{topology} by {routing} needs levels");
    }
}

#[test]
fn a_path_is_found_on_the_second_level_of_service_where_the_engine_has_one() {
    let (mut bed, host) = up("torus-5x3-1", config("torus-2qos"));
    let tables = offline(&bed.graph, "torus-2qos");
    assert!(tables.vl_assignment.expect("VLs").has_second_level);
    let hosts: Vec<NodeId> = bed.graph.hosts().filter(|&other| other != host).collect();
    for &to in &hosts[1..] {
        let ends = [hosts[0], to];
        let level = path(&mut bed, host, ends, None).expect("a path").sl;
        let second = Sl::constant(level.get() | routing::SECOND_LEVEL);
        let found = path(&mut bed, host, ends, Some(second)).expect("a path");
        assert_eq!(found.sl, second);
        let other = Sl::constant(second.get() ^ 1);
        assert!(path(&mut bed, host, ends, Some(other)).is_err());
    }
}

#[test]
fn a_path_on_another_level_than_the_engines_is_none() {
    let (mut bed, host) = up("ring-6-1", config("dfsssp"));
    let tables = offline(&bed.graph, "dfsssp");
    let hosts: Vec<NodeId> = bed.graph.hosts().filter(|&other| other != host).collect();
    let ends = [hosts[0], hosts[1]];
    let level = path(&mut bed, host, ends, None).expect("a path").sl;
    let other = Sl::constant(level.get() ^ 1);
    assert!(path(&mut bed, host, ends, Some(level)).is_ok());
    assert_eq!(
        path(&mut bed, host, ends, Some(other)),
        Err(MadStatus::SA_NO_RECORDS)
    );
    assert!(tables.vl_assignment.is_some());
}

#[test]
fn a_manager_that_takes_over_finds_lanes_as_it_wants_them_and_writes_nothing() {
    let (mut bed, host) = up("torus-5x5-1", config("dor"));
    let text = bed.persisted(host);
    bed.stop(host);
    bed.changes();
    bed.start(
        host,
        SmConfig {
            guid2lid: text,
            ..config("dor")
        },
    );
    bed.run_until_up(host);
    assert_eq!(bed.changes(), []);
    // The next one has another engine, which needs all levels spread over the VLs.
    bed.stop(host);
    bed.start(host, config("updn"));
    bed.run_until_up(host);
    for id in bed.graph.switches() {
        for output in bed.ends(id) {
            let vls = bed.node(id).sl_to_vl(PortNum::MANAGEMENT, output.port);
            assert!((0u8..).zip(vls).all(|(sl, vl)| vl.get() == sl % VLS));
        }
    }
}

#[test]
fn engines_that_cannot_apply_say_so_and_nothing_is_installed() {
    let reason = refused("ring-6-1", config("dfsssp"));
    assert!(reason.contains("needs 2 data VLs"), "{reason}");
    assert!(reason.contains("ports have 1"), "{reason}");
    let reason = refused("irregular-8-2-3-7", config("dor"));
    assert!(
        reason.contains("mesh, torus, ring or hypercube"),
        "{reason}"
    );
}

/// An end of the first cable between two switches.
fn first_cable(graph: &Graph) -> Endpoint {
    let is_switch = |node| graph.node(node).kind == NodeKind::Switch;
    let mut cables = graph.links().map(|(a, b)| [a, b]);
    let cable = cables.find(|ends| ends.iter().all(|end| is_switch(end.node)));
    cable.expect("a cable between switches")[0]
}

fn cut_a_cable(bed: &mut Bed) -> Endpoint {
    let end = first_cable(&bed.graph);
    bed.cut(end);
    end
}

fn told_of(status: &Status, part: &str) -> bool {
    status.warnings.iter().any(|text| text.contains(part))
}

#[test]
fn when_dimension_order_no_longer_applies_its_tables_stay_and_are_repaired() {
    let (mut bed, host) = up("mesh-3x3-1", config("dor"));
    let tables = offline(&bed.graph, "dor");
    let hosts: Vec<NodeId> = bed.graph.hosts().collect();
    let end = cut_a_cable(&mut bed);
    let status = bed.run_until_up(host);
    assert!(
        told_of(&status, "--routing dor: dor needs a mesh"),
        "{:?}",
        status.warnings
    );
    assert!(told_of(&status, "rerouted"), "{:?}", status.warnings);
    assert!(status.engine.contains("rerouted"), "{}", status.engine);
    assert_connected(&bed, &hosts);
    for range in tables.lids.iter() {
        let end = range.end.expect("all ports are here");
        assert_eq!(bed.address(end.node), (range.base, range.lmc));
    }
    // A manager that starts on the damaged fabric does the same.
    let text = bed.persisted(host);
    bed.stop(host);
    bed.changes();
    bed.start(
        host,
        SmConfig {
            guid2lid: text,
            ..config("dor")
        },
    );
    let status = bed.run_until_up(host);
    assert!(told_of(&status, "rerouted"), "{:?}", status.warnings);
    assert_eq!(bed.changes(), []);

    bed.plug(end);
    let status = bed.run_until(host, |status| status.phase == Phase::Up && !status.degraded);
    assert_programmed(&bed, &tables);
    assert_eq!(status.warnings, [""; 0]);
    assert_eq!(status.engine, "dor");
}

#[test]
fn when_vls_no_longer_suffice_the_tables_stay_and_are_repaired() {
    // One VL is enough for the whole cube, not for what is left of it.
    let mut bed = Bed::new(graph("hypercube-3-1"), 1);
    let host = first_host(&bed.graph);
    bed.start(host, config("dfsssp"));
    assert_eq!(bed.run_until_up(host).warnings, [""; 0]);
    let end = end(&bed, "s0", 4);
    bed.cut(end);
    let status = bed.run_until_up(host);
    assert!(told_of(&status, "data VLs"), "{:?}", status.warnings);
    let hosts: Vec<NodeId> = bed.graph.hosts().collect();
    assert_connected(&bed, &hosts);
}

fn with_file(text: &str) -> SmConfig {
    SmConfig {
        tables: Some(text.to_owned()),
        ..config("file")
    }
}

#[test]
fn tables_from_a_file_are_installed_with_the_lids_that_they_name() {
    for (topology, routing) in [
        ("fat-tree-4-3", "slid"),
        ("irregular-8-2-3-7", "path-selection"),
    ] {
        let tables = offline(&graph(topology), routing);
        let (bed, host) = up(topology, with_file(&dump::write(&graph(topology), &tables)));
        assert_programmed(&bed, &tables);
        assert_eq!(bed.status(host).engine, "file");
        let hosts: Vec<NodeId> = bed.graph.hosts().collect();
        assert_connected(&bed, &hosts);
    }
}

#[test]
fn a_file_that_does_not_serve_the_fabric_is_refused_and_nothing_is_installed() {
    let whole = graph("ring-5-1");
    let text = dump::write(&whole, &offline(&whole, "updn"));
    let first = whole.switches().next().expect("a switch");
    let guid = whole.node(first).guid.to_string();
    for (from, to, reason) in [
        (guid.as_str(), "0x000000000000dead", "has no switch"),
        (" 001 :", " 077 :", "has ports 0 to"),
        ("\n0x0001", "\n# 0x0001", "has no entry"),
    ] {
        assert!(text.contains(from), "no {from:?} in {text}");
        let broken = text.replacen(from, to, 1);
        let refusal = refused("ring-5-1", with_file(&broken));
        assert!(refusal.contains(reason), "{reason}: {refusal}");
    }
    let missing_switch: String = {
        let second = text[1..].find("Unicast lids").expect("several switches") + 1;
        text[second..].to_owned()
    };
    let refusal = refused("ring-5-1", with_file(&missing_switch));
    assert!(refusal.contains("has no"), "{refusal}");
}

#[test]
fn text_that_is_no_table_is_a_matter_of_the_configuration() {
    let error = Sm::new(with_file("Unicast lids\nnonsense\n")).expect_err("no table");
    assert!(error.to_string().contains("line 1"), "{error}");
    let without = Sm::new(config("file")).expect_err("no tables at all");
    assert_eq!(without, ConfigError::Tables);
    let unwanted = SmConfig {
        routing: RoutingEngine::Updn,
        ..with_file("")
    };
    assert_eq!(
        Sm::new(unwanted).expect_err("updn takes none"),
        ConfigError::Tables
    );
}

#[test]
fn tables_from_a_file_stay_when_a_cable_or_switch_is_missing() {
    let whole = graph("fat-tree-4-2");
    let tables = offline(&whole, "mlid");
    let (mut bed, host) = up("fat-tree-4-2", with_file(&dump::write(&whole, &tables)));
    let root = bed.id("s0.0");
    bed.changes();
    bed.kill(root);
    let status = bed.run_until_up(host);
    assert!(
        told_of(&status, "do not lead where they should"),
        "{:?}",
        status.warnings
    );
    let report = verify(&whole, &tables, tables.promises);
    assert!(report.is_ok());
    for id in bed.graph.switches().filter(|&id| id != root) {
        assert_eq!(
            bed.node(id).lft()[..=tables.top().index()],
            *tables.lft(id).entries()
        );
    }
    bed.revive(root);
    let status = bed.run_until(host, |status| status.phase == Phase::Up && !status.degraded);
    assert_programmed(&bed, &tables);
    assert!(!told_of(&status, "do not lead"), "{:?}", status.warnings);
}
