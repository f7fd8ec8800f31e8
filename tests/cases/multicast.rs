//! Packets to a group come to each member once, whatever the scheme, by the tables that are computed
//! offline; and subnet administration says so to stock programs.

use std::collections::BTreeMap;
use std::time::Duration;

use e2e::{Fabric, OpenSm, Outcome, Transport, umad2sim, within};
use routing::multicast::{Mgid, Multicast, Options, Role, Scheme};
use serde_json::Value;
use topologies::Graph;
use wire::{Guid, Lid};

/// No groups but those of the test: hosts with internet addresses are members of one.
const WITHOUT_IP: [&str; 1] = ["--no-ip"];
const WITHOUT_IP_CYCLIC: [&str; 3] = ["--no-ip", "--multicast", "cyclic"];

const GROUP: &str = "ff12:1bed::1";
/// How long something may take on a loaded machine.
const LIMIT: Duration = Duration::from_secs(20);

/// `ibemu mcast test` of all hosts that leaves them in the group.
fn all_send(fabric: &Fabric, count: &str) -> Value {
    let test = [
        "mcast", "test", "--group", "all", "--count", count, "--keep", "--json",
    ];
    let report = fabric.call(&test).success().json();
    assert_eq!(report["copies_received"], report["copies_expected"]);
    assert_eq!(report["duplicates"], 0);
    report
}

/// By switch and multicast LID: ports, from the live switches.
fn live_tables(fabric: &Fabric) -> BTreeMap<String, BTreeMap<String, Vec<u8>>> {
    let tables = fabric.call(&["mcast", "tables", "--json"]).success().json();
    serde_json::from_value(tables).expect("tables by switch and multicast LID")
}

/// Members and their multicast LIDs, from subnet administration.
fn members(fabric: &Fabric) -> BTreeMap<String, u16> {
    asked_for_members(fabric).unwrap_or_else(|why| panic!("{why}"))
}

/// The same, or why subnet administration does not answer, as while its controller starts.
fn asked_for_members(fabric: &Fabric) -> Result<BTreeMap<String, u16>, String> {
    let groups = fabric.call(&["mcast", "groups", "--json"]);
    if groups.code != 0 {
        return Err(groups.to_string());
    }
    let groups = groups.json();
    let groups = groups.as_array().expect("groups");
    let group = groups.iter().find(|group| group["mgid"] == GROUP);
    let members = group.and_then(|group| group["members"].as_array());
    let member = |member: &Value| {
        let name = member["name"].as_str()?.to_owned();
        let mlid = u16::try_from(member["mlid"].as_u64()?).ok()?;
        Some((name, mlid))
    };
    let members = members.into_iter().flatten();
    Ok(members.map(|it| member(it).expect("a member")).collect())
}

/// Asserts that the switches hold what is computed offline for the group's members, and no more.
fn tables_are_those_computed(fabric: &Fabric, graph: &Graph, scheme: Scheme) {
    assert_eq!(live_tables(fabric), computed(fabric, graph, scheme));
}

/// The same within a time: members are reported at once, but tables are written one after the other, and only
/// a request to join is answered after they are written.
fn tables_become_those_computed(fabric: &Fabric, graph: &Graph, scheme: Scheme) {
    within(LIMIT, "the tables are those computed", || {
        let (live, computed) = (live_tables(fabric), computed(fabric, graph, scheme));
        match live == computed {
            true => Ok(()),
            false => Err(format!("{live:?}, computed {computed:?}")),
        }
    });
}

/// By switch and multicast LID: ports, as computed offline for the group's members.
fn computed(
    fabric: &Fabric,
    graph: &Graph,
    scheme: Scheme,
) -> BTreeMap<String, BTreeMap<String, Vec<u8>>> {
    let options = Options {
        scheme,
        ..Options::default()
    };
    let mut offline = Multicast::new(graph, &options).expect("there are trees");
    let members = members(fabric);
    let port = |name: &str| {
        let host = graph.find(name).expect("the topology has that host");
        Guid(graph.node(host).guid.0 + 1)
    };
    for name in members.keys() {
        offline
            .join(Mgid(1), port(name), Role::Receives)
            .expect("a host joins");
    }
    let mut computed: BTreeMap<String, BTreeMap<String, Vec<u8>>> = BTreeMap::new();
    for switch in graph.switches() {
        let rows = computed.entry(graph.node(switch).name.clone()).or_default();
        for (name, mlid) in &members {
            let own: Lid = offline.dlid(Mgid(1), port(name)).expect("a member");
            let ports = offline.mft(switch).get(own);
            let ports: Vec<u8> = ports.iter().map(wire::PortNum::get).collect();
            if !ports.is_empty() {
                rows.insert(format!("{mlid:#06x}"), ports);
            }
        }
    }
    computed
}

fn graph(topology: &str) -> Graph {
    topologies::parse(topology).expect("a topology").graph
}

#[test]
fn cyclic_multicast_from_all_sixteen_hosts_comes_once_to_each() {
    for transport in [Transport::Veth, Transport::Udp, Transport::Shm] {
        let fabric = Fabric::up(transport, "fat-tree-4-3", &WITHOUT_IP_CYCLIC);
        let report = all_send(&fabric, "50");
        assert_eq!(report["members"], 16);
        let mut mlids: Vec<u64> = report["mlids"]
            .as_object()
            .expect("a multicast LID for each member")
            .values()
            .filter_map(Value::as_u64)
            .collect();
        mlids.sort_unstable();
        mlids.dedup();
        assert_eq!(mlids.len(), 4, "one for each offset");
        tables_are_those_computed(&fabric, &graph("fat-tree-4-3"), Scheme::Cyclic);
        fabric.assert_no_errors_logged();
        fabric.down();
    }
}

#[test]
fn spanning_tree_multicast_comes_once_to_each_on_any_fabric() {
    for (transport, topology) in [
        (Transport::Udp, "fat-tree-4-3"),
        (Transport::Veth, "irregular-8-2-4-7"),
    ] {
        let fabric = Fabric::up(transport, topology, &WITHOUT_IP);
        all_send(&fabric, "50");
        tables_are_those_computed(&fabric, &graph(topology), Scheme::SpanningTree);
        fabric.assert_no_errors_logged();
        fabric.down();
    }
}

#[test]
fn a_host_that_has_left_gets_nothing_more_and_an_empty_group_leaves_no_row() {
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-2", &WITHOUT_IP_CYCLIC);
    all_send(&fabric, "5");
    let _ = fabric.call(&["mcast", "leave", "h1.0"]).success();
    tables_are_those_computed(&fabric, &graph("fat-tree-4-2"), Scheme::Cyclic);
    let before = unwanted(&fabric, "h1.0");
    let others = ["h0.0", "h0.1", "h1.1", "h2.0", "h2.1", "h3.0", "h3.1"];
    let group = others.join(",");
    let test = ["mcast", "test", "--group", &group, "--count", "20"];
    let _ = fabric.call(&test).success();
    assert_eq!(unwanted(&fabric, "h1.0"), before);
    assert!(members(&fabric).is_empty());
    for (switch, rows) in live_tables(&fabric) {
        assert!(rows.is_empty(), "{switch}: {rows:?}");
    }
    fabric.down();
}

/// Packets that have come to a host without a member of their group.
fn unwanted(fabric: &Fabric, host: &str) -> Value {
    fabric.device(host)["drops"].clone()
}

#[test]
fn groups_survive_a_root_that_dies_and_a_controller_that_starts_anew() {
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-3", &WITHOUT_IP_CYCLIC);
    all_send(&fabric, "5");
    let again = |what: &str| {
        within(Duration::from_secs(10), what, || {
            let test = [
                "mcast",
                "test",
                "--group",
                "all",
                "--count",
                "5",
                "--timeout",
                "1",
                "--keep",
            ];
            let outcome = fabric.call(&test);
            if outcome.code == 0 {
                Ok(())
            } else {
                Err(outcome.to_string())
            }
        });
    };
    let root = fabric.pid("s0.0.1").to_string();
    let killed = Outcome::of(std::process::Command::new("kill").args(["-9", &root]));
    assert_eq!(killed.code, 0, "{killed}");
    again("all members hear each other without a root");
    let _ = fabric.call(&["restart", "s0.0.1"]).success();
    within(Duration::from_secs(10), "the full tables return", || {
        match fabric.status()["sm"]["degraded"].as_bool() {
            Some(false) => Ok(()),
            other => Err(format!("degraded: {other:?}")),
        }
    });
    again("all members hear each other with the root back");
    tables_become_those_computed(&fabric, &graph("fat-tree-4-3"), Scheme::Cyclic);
    let _ = fabric.call(&["restart", "controller"]).success();
    within(
        Duration::from_secs(10),
        "hosts have registered anew",
        || match asked_for_members(&fabric)?.len() {
            16 => Ok(()),
            other => Err(format!("{other} members")),
        },
    );
    again("all members hear each other under a new manager");
    fabric.down();
}

#[test]
fn a_member_whose_cable_was_pulled_joins_again_by_itself() {
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-2", &WITHOUT_IP);
    let _ = fabric.call(&["mcast", "join", "all"]).success();
    let _ = fabric.call(&["link", "down", "h1.0:1"]).success();
    let members_are = |count: usize| {
        let what = format!("the group has {count} members");
        within(Duration::from_secs(5), &what, || {
            match asked_for_members(&fabric)?.len() {
                found if found == count => Ok(()),
                found => Err(format!("{found} members")),
            }
        });
    };
    members_are(7);
    let _ = fabric.call(&["link", "up", "h1.0:1"]).success();
    members_are(8);
    tables_become_those_computed(&fabric, &graph("fat-tree-4-2"), Scheme::SpanningTree);
    fabric.down();
}

/// What stock `saquery` prints beside a host.
fn saquery(fabric: &Fabric, host: &str, arguments: &[&str]) -> String {
    let _ = umad2sim();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = fabric.command(&["exec", host, "saquery"]);
    command.args(arguments).current_dir(folder.path());
    Outcome::of(&mut command).success().stdout
}

#[test]
fn stock_saquery_is_answered() {
    let fabric = Fabric::up(Transport::Udp, "star-3", &WITHOUT_IP);
    let join = ["mcast", "join", "h1", "--mgid", "ff12:1bed::7"];
    let _ = fabric.call(&join).success();
    let info = saquery(&fabric, "h2", &["-c"]);
    assert!(info.contains("Class version............2"), "{info}");
    let lid = fabric.device("h1")["lid"].as_u64().expect("a LID");
    let node = saquery(&fabric, "h2", &["NR", &lid.to_string()]);
    assert!(node.contains("h1"), "{node}");
    let managers = saquery(&fabric, "h2", &["SMIR"]);
    assert_eq!(
        managers.matches("SMInfoRecord dump").count(),
        1,
        "{managers}"
    );
    let unknown = saquery(&fabric, "h2", &["NR", "77"]);
    assert!(!unknown.contains("NodeRecord dump"), "{unknown}");
    let group = saquery(&fabric, "h2", &["MCMR", "--mgid", "ff12:1bed::7"]);
    assert!(group.contains("ff12:1bed::7"), "{group}");
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn stock_opensm_carries_the_groups_of_our_hosts() {
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-2", &["--sm", "none", "--no-ip"]);
    let sm = OpenSm::start(&fabric, "h0.0", &[]);
    // OpenSM answers a join before it has written the tables.
    within(Duration::from_secs(30), "copies come once to each", || {
        let test = [
            "mcast",
            "test",
            "--group",
            "all",
            "--count",
            "5",
            "--timeout",
            "1",
            "--keep",
        ];
        let outcome = fabric.call(&test);
        if outcome.code == 0 {
            Ok(())
        } else {
            Err(outcome.to_string())
        }
    });
    sm.assert_no_errors();
    drop(sm);
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn a_scheme_that_does_not_fit_the_fabric_says_what_does() {
    let fabric = Fabric::planned(Transport::Udp);
    let refused = fabric.try_up("ring-5-1", &["--multicast", "cyclic"]);
    refused.fails_with(2, "--multicast spanning-tree");
    fabric.assert_gone();
}
