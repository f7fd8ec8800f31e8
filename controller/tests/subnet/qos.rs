//! Connections with promised bandwidth: asked for by datagrams, and read back from the ports.

use controller::control::Phase;
use controller::{QosChoice, SmConfig, SmEvent};
use mad::local::MadMessage;
use mad::sma::{Node as _, Priority};
use topologies::NodeId;
use wire::attr::VlArbEntry;
use wire::vendor::{QOS_CHANGE, QosCause, QosChange, QosConnection};
use wire::{Guid, Mad, MadStatus, Method, PortNum, Qpn, Sl, Vl};

use crate::bed::{Bed, Change};
use crate::{end, first_host, graph};

/// The link's rate in the bed: 4x QDR.
const LINK_BPS: u64 = 32_000_000_000;
/// Slots of a frame.
const FRAME: u64 = 64 * 255;

fn up(name: &str, vls: u8) -> (Bed, NodeId) {
    let mut bed = Bed::with_vls(graph(name), 1, vls);
    let host = first_host(&bed.graph);
    let config = SmConfig {
        qos: QosChoice::Vlarb01,
        ..SmConfig::default()
    };
    bed.start(host, config);
    bed.run_until_up(host);
    (bed, host)
}

fn send(bed: &mut Bed, from: NodeId, manager: NodeId, mad: &Mad) {
    let (lid, _) = bed.address(manager);
    let message = MadMessage {
        lid,
        qpn: Qpn::GSI,
        sl: Sl::default(),
        mad: Box::new(*mad.as_bytes()),
        way: None,
    };
    bed.write(from, &message);
}

fn answers(bed: &mut Bed, ns: u64) -> Vec<Mad> {
    bed.run_for(ns);
    let received = core::mem::take(&mut bed.received);
    let mads = received.into_iter().map(|(_, message)| message.mad);
    mads.map(|mad| Mad::from_bytes(*mad)).collect()
}

fn ask(bed: &mut Bed, from: NodeId, manager: NodeId, mad: &Mad) -> QosConnection {
    send(bed, from, manager, mad);
    let answers = answers(bed, 20_000_000);
    let [answer] = answers.as_slice() else {
        panic!("{answers:?}");
    };
    assert_eq!((answer.status(), answer.tid()), (MadStatus::OK, mad.tid()));
    answer.vendor_attribute().expect("the answer is readable")
}

fn wanted(bed: &Bed, from: &str, to: &str, rate_bps: u64) -> QosConnection {
    let port = |name| Guid(bed.graph.node(bed.id(name)).guid.0 + 1);
    QosConnection {
        source: port(from),
        destination: port(to),
        rate_bps,
        ..QosConnection::default()
    }
}

fn connect(bed: &mut Bed, manager: NodeId, tid: u64, asked: &QosConnection) -> QosConnection {
    let from = bed.id("h1");
    ask(bed, from, manager, &Mad::vendor(Method::SET, 0, tid, asked))
}

/// The slots of a VL at a port, in either table.
fn slots(bed: &Bed, name: &str, port: u8, priority: Priority, vl: u8) -> u64 {
    let at = end(bed, name, port);
    let table = bed.node(at.node).arbitration(at.port, priority);
    let own = |entry: &&VlArbEntry| entry.vl == Vl::constant(vl);
    let weights = table.iter().filter(own);
    weights.map(|entry| u64::from(entry.weight)).sum()
}

#[test]
fn an_idle_fabric_serves_best_effort_and_challenged_traffic() {
    let (bed, _) = up("star-4", 8);
    let at = end(&bed, "s0", 2);
    let row = bed.node(at.node).sl_to_vl(PortNum::new(1), at.port);
    let vls = [(0, 6), (1, 0), (5, 4), (9, 7), (15, 6)];
    for (sl, vl) in vls {
        assert_eq!(row[sl], Vl::constant(vl), "service level {sl}");
    }
    for (name, port) in [("s0", 2), ("h3", 1)] {
        assert_eq!(slots(&bed, name, port, Priority::Low, 6), FRAME / 5);
        assert_eq!(slots(&bed, name, port, Priority::Low, 7), 1);
        assert_eq!(slots(&bed, name, port, Priority::High, 4), 0);
    }
}

#[test]
fn hosts_that_go_on_asking_do_not_keep_responses_back() {
    let (mut bed, manager) = up("star-4", 8);
    let [patient, hasty] = ["h1", "h2"].map(|name| bed.id(name));
    let connection = wanted(&bed, "h1", "h3", LINK_BPS / 10);
    let asked = Mad::vendor(Method::SET, 0, 1, &connection);
    send(&mut bed, patient, manager, &asked);
    // While the tables of one connection are written, the request for the next has come.
    let small = wanted(&bed, "h2", "h3", LINK_BPS / 2000);
    for tid in 2..100 {
        let hurried = Mad::vendor(Method::SET, 0, tid, &small);
        send(&mut bed, hasty, manager, &hurried);
        bed.run_for(20_000);
        if bed.received.iter().any(|(to, _)| *to == patient) {
            return;
        }
    }
    panic!("no response in 2 ms");
}

#[test]
fn a_connection_owns_its_slots_on_its_path_and_nothing_else_is_touched() {
    let (mut bed, manager) = up("star-4", 8);
    bed.changes();
    let asked = wanted(&bed, "h1", "h3", LINK_BPS / 10);
    let made = connect(&mut bed, manager, 1, &asked);
    assert_eq!((made.cause, made.id), (QosCause::Granted, 1));
    assert_eq!(
        (made.sl, made.dlid),
        (Sl::constant(4), bed.address(bed.id("h3")).0)
    );
    let (there, back) = ([("h1", 1), ("s0", 4)], [("h3", 1), ("s0", 2)]);
    for (name, port) in there {
        assert_eq!(
            slots(&bed, name, port, Priority::Low, 3),
            FRAME / 10,
            "{name}"
        );
    }
    for (name, port) in back {
        assert_eq!(
            slots(&bed, name, port, Priority::Low, 3),
            1,
            "{name}: answers"
        );
    }
    let mut ports = [there, back].concat();
    ports.sort_unstable();
    let mut changed: Vec<(&str, u8)> = Vec::new();
    for (id, change) in bed.changes() {
        let Change::Arbitration(port, Priority::Low) = change else {
            panic!("{change:?}");
        };
        changed.push((&bed.graph.node(id).name, port.get()));
    }
    changed.sort_unstable();
    changed.dedup();
    assert_eq!(changed, ports);

    let release = Mad::vendor(Method::DELETE, 0, 2, &made);
    let from = bed.id("h3");
    assert_eq!(ask(&mut bed, from, manager, &release).id, 1);
    assert_eq!(slots(&bed, "s0", 4, Priority::Low, 3), 0);
    assert_eq!(slots(&bed, "s0", 4, Priority::Low, 6), FRAME / 5);
    let again = Mad::vendor(Method::DELETE, 0, 3, &made);
    let gone = ask(&mut bed, from, manager, &again);
    assert_eq!(gone.cause, QosCause::NoSuchConnection);
}

#[test]
fn a_connection_is_released_by_its_ends_or_the_managers_host_only() {
    let (mut bed, manager) = up("star-4", 8);
    assert_eq!(manager, bed.id("h0"));
    let stranger = bed.id("h2");
    for (id, by) in [(1, "h1"), (2, "h3"), (3, "h0")] {
        let asked = wanted(&bed, "h1", "h3", 64_000_000);
        let made = connect(&mut bed, manager, u64::from(id) * 10, &asked);
        assert_eq!(made.id, id);
        let release = |tid| Mad::vendor(Method::DELETE, 0, tid, &made);
        send(
            &mut bed,
            stranger,
            manager,
            &release(u64::from(id) * 10 + 1),
        );
        let refused = answers(&mut bed, 20_000_000);
        assert_eq!(refused[0].status(), MadStatus::SA_DENIED);
        let list = Mad::vendor(Method::GET, id, 5, &asked);
        assert_eq!(ask(&mut bed, stranger, manager, &list).id, id, "it stands");
        let from = bed.id(by);
        send(&mut bed, from, manager, &release(u64::from(id) * 10 + 2));
        bed.run_for(20_000_000);
        bed.received.clear();
        send(&mut bed, stranger, manager, &list);
        let gone = answers(&mut bed, 20_000_000);
        assert_eq!(gone[0].status(), MadStatus::SA_NO_RECORDS, "{by} may");
    }
}

#[test]
fn a_refusal_names_the_first_port_and_leaves_nothing_on_the_others() {
    let (mut bed, manager) = up("star-4", 8);
    let first = wanted(&bed, "h2", "h3", LINK_BPS / 2);
    assert_eq!(
        connect(&mut bed, manager, 1, &first).cause,
        QosCause::Granted
    );
    bed.changes();
    let second = wanted(&bed, "h1", "h3", LINK_BPS / 2);
    let refused = connect(&mut bed, manager, 2, &second);
    assert_eq!(refused.cause, QosCause::Bandwidth);
    assert_eq!(u64::from(refused.wanted), FRAME / 2);
    let switch = bed.graph.node(bed.id("s0")).guid;
    assert_eq!((refused.node, refused.port.get()), (switch, 4));
    assert_eq!(bed.changes(), []);
    let near = QosConnection {
        distance: 4,
        ..wanted(&bed, "h1", "h2", 64_000)
    };
    assert_eq!(
        connect(&mut bed, manager, 3, &near).cause,
        QosCause::Distance
    );
    let stranger = QosConnection {
        destination: Guid(5),
        ..second
    };
    let cause = connect(&mut bed, manager, 4, &stranger).cause;
    assert_eq!(cause, QosCause::NoSuchPort);
    let fast = wanted(&bed, "h1", "h2", LINK_BPS + 1);
    assert_eq!(connect(&mut bed, manager, 5, &fast).cause, QosCause::Rate);
    assert_eq!(bed.changes(), []);
}

#[test]
fn a_request_that_is_repeated_makes_one_connection() {
    let (mut bed, manager) = up("star-4", 8);
    let asked = Mad::vendor(Method::SET, 0, 9, &wanted(&bed, "h1", "h3", 64_000_000));
    let from = bed.id("h1");
    send(&mut bed, from, manager, &asked);
    send(&mut bed, from, manager, &asked);
    let first = answers(&mut bed, 20_000_000);
    send(&mut bed, from, manager, &asked);
    let again = answers(&mut bed, 20_000_000);
    let received = |mads: &[Mad]| mads[0].vendor_attribute::<QosConnection>().unwrap();
    assert_eq!(received(&first), received(&again));
    let list = Mad::vendor(Method::GET, 2, 10, &QosConnection::default());
    send(&mut bed, from, manager, &list);
    let none = answers(&mut bed, 20_000_000);
    assert_eq!(none[0].status(), MadStatus::SA_NO_RECORDS, "no second one");
}

#[test]
fn a_sweep_keeps_connections_and_moves_no_entry() {
    let (mut bed, manager) = up("star-4", 8);
    for (tid, to) in [(1, "h2"), (2, "h3")] {
        let asked = wanted(&bed, "h1", to, 640_000_000);
        connect(&mut bed, manager, tid, &asked);
    }
    let release = QosConnection {
        id: 1,
        ..QosConnection::default()
    };
    let from = bed.id("h1");
    ask(
        &mut bed,
        from,
        manager,
        &Mad::vendor(Method::DELETE, 0, 3, &release),
    );
    bed.changes();
    let now = bed.now;
    bed.manager(manager).resweep(now);
    bed.run_until_up(manager);
    assert_eq!(bed.changes(), []);
}

#[test]
fn a_connection_follows_its_path_round_a_broken_cable_or_is_dropped() {
    let (mut bed, manager) = up("ring-4-1", 8);
    let (from, rate) = (bed.id("h1"), LINK_BPS / 2);
    let asked = wanted(&bed, "h1", "h2", rate);
    assert_eq!(
        connect(&mut bed, manager, 1, &asked).cause,
        QosCause::Granted
    );
    let between = bed
        .graph
        .links()
        .find(|(a, b)| {
            [a.node, b.node]
                .iter()
                .all(|id| ["s1", "s2"].contains(&bed.graph.node(*id).name.as_str()))
        })
        .map(|(a, _)| a)
        .unwrap();
    bed.cut(between);
    bed.run_until_up(manager);
    // The long way leads from s0 to s3; a second connection of that rate finds no room there.
    let list = Mad::vendor(Method::GET, 0, 2, &asked);
    assert_eq!(ask(&mut bed, from, manager, &list).id, 1);
    let other = wanted(&bed, "h0", "h3", rate);
    assert_eq!(
        connect(&mut bed, manager, 3, &other).cause,
        QosCause::Bandwidth
    );
    bed.plug(between);
    bed.run_until_up(manager);
    assert_eq!(
        connect(&mut bed, manager, 4, &other).cause,
        QosCause::Granted
    );
    bed.cut(between);
    let status = bed.run_until_up(manager);
    let dropped = |text: &&String| text.contains("connection 1 from h1 to h2 is dropped");
    assert!(
        status.warnings.iter().any(|text| dropped(&text)),
        "{status:#?}"
    );
    // Its sender is notified until it answers.
    let change = answers(&mut bed, 100_000_000);
    let again = answers(&mut bed, 500_000_000);
    let [mad] = change.as_slice() else {
        panic!("{change:?}");
    };
    assert_eq!(again, change);
    assert_eq!((mad.method(), mad.attr_id()), (Method::SET, QOS_CHANGE));
    let QosChange(received) = mad.vendor_attribute().expect("a change");
    assert_eq!(
        (received.id, received.source, received.cause),
        (1, asked.source, QosCause::Bandwidth)
    );
    let mut heard = *mad;
    heard.set_method(Method::GET_RESP);
    send(&mut bed, from, manager, &heard);
    assert_eq!(answers(&mut bed, 10_000_000_000), []);
    let list = Mad::vendor(Method::GET, 0, 5, &asked);
    assert_eq!(
        ask(&mut bed, from, manager, &list).id,
        2,
        "the other stands"
    );
}

/// What the manager last wanted to be remembered of connections.
fn remembered(bed: &Bed) -> String {
    let texts = bed
        .events_reported
        .iter()
        .rev()
        .find_map(|(_, event)| match event {
            SmEvent::PersistConnections(text) => Some(text.clone()),
            _ => None,
        });
    texts.expect("something is to be remembered")
}

fn restart(bed: &mut Bed, manager: NodeId, connections: String) {
    let guid2lid = bed.persisted(manager);
    bed.stop(manager);
    let config = SmConfig {
        qos: QosChoice::Vlarb01,
        guid2lid,
        connections: Some(connections),
        ..SmConfig::default()
    };
    bed.start(manager, config);
    bed.run_until_up(manager);
}

#[test]
fn connections_outlive_the_manager_with_their_slots() {
    let (mut bed, manager) = up("star-4", 8);
    let from = bed.id("h1");
    let made: Vec<QosConnection> = [(1, "h2", 10), (2, "h3", 20), (3, "h3", 40)]
        .into_iter()
        .map(|(tid, to, share)| {
            let asked = wanted(&bed, "h1", to, LINK_BPS / share);
            connect(&mut bed, manager, tid, &asked)
        })
        .collect();
    let release = Mad::vendor(Method::DELETE, 0, 4, &made[1]);
    ask(&mut bed, from, manager, &release);
    let text = remembered(&bed);
    let slots_of = |bed: &Bed| {
        let ports = [("h1", 1), ("s0", 2), ("s0", 3), ("s0", 4), ("h3", 1)];
        ports.map(|(name, port)| [0, 1, 2, 3].map(|vl| slots(bed, name, port, Priority::Low, vl)))
    };
    let before = slots_of(&bed);
    restart(&mut bed, manager, text.clone());
    assert_eq!(slots_of(&bed), before);
    assert_eq!(bed.received, [], "no sender has to be notified");
    for (tid, id) in [(5, 0), (6, 2)] {
        let list = Mad::vendor(Method::GET, id, tid, &QosConnection::default());
        let expected = if id == 0 { &made[0] } else { &made[2] };
        assert_eq!(ask(&mut bed, from, manager, &list), *expected);
    }
    // Ids are not given again to others while they could be mistaken.
    let asked = wanted(&bed, "h1", "h2", 64_000);
    assert_eq!(connect(&mut bed, manager, 7, &asked).id, 4);
}

#[test]
fn a_connection_that_the_manager_finds_no_room_for_after_its_restart_is_dropped_and_told() {
    let (mut bed, manager) = up("star-4", 8);
    let asked = wanted(&bed, "h1", "h3", LINK_BPS / 2);
    connect(&mut bed, manager, 1, &asked);
    let more = remembered(&bed).replacen("connection 1 ", "connection 7 ", 1);
    let both = remembered(&bed) + more.lines().last().expect("a connection") + "\n";
    restart(&mut bed, manager, both);
    let change = answers(&mut bed, 100_000_000);
    let [mad] = change.as_slice() else {
        panic!("{change:?}");
    };
    let QosChange(received) = mad.vendor_attribute().expect("a change");
    assert_eq!((received.id, received.cause), (7, QosCause::Bandwidth));
    assert!(!remembered(&bed).contains("connection 7 "));
}

#[test]
fn one_vl_promises_nothing_and_warns() {
    let (mut bed, manager) = up("star-4", 1);
    let warnings = bed.status(manager).warnings;
    assert!(warnings.iter().any(|text| text.contains("two data VLs")));
    let asked = wanted(&bed, "h1", "h3", 64_000);
    assert_eq!(connect(&mut bed, manager, 1, &asked).cause, QosCause::Off);
}

#[test]
fn nonsense_is_answered_and_moves_nothing() {
    let (mut bed, manager) = up("star-4", 8);
    let from = bed.id("h1");
    bed.changes();
    let mut tid = 100;
    for byte in [0x00, 0x01, 0x02, 0x7f, 0xff] {
        for method in [Method::GET, Method::SET, Method::DELETE, Method::GET_TABLE] {
            for attribute in [0x0010, 0x0020, 0x0021, 0x0022, 0x0001, 0xffff] {
                tid += 1;
                let nothing = QosConnection::default();
                let mut mad = Mad::vendor(method, 0, tid, &nothing);
                mad.as_bytes_mut()[40..].fill(byte);
                mad.as_bytes_mut()[16..18].copy_from_slice(&u16::to_be_bytes(attribute));
                send(&mut bed, from, manager, &mad);
                let answers = answers(&mut bed, 5_000_000);
                let [answer] = answers.as_slice() else {
                    panic!("{mad:?}: {answers:?}");
                };
                assert_eq!(answer.method(), Method(method.0 | 0x80));
            }
        }
    }
    assert_eq!(bed.changes(), []);
}

#[test]
fn connections_pass_to_the_manager_that_takes_over() {
    let (mut bed, manager) = up("star-4", 8);
    let (from, successor) = (bed.id("h1"), bed.id("h2"));
    let asked = wanted(&bed, "h1", "h3", LINK_BPS / 10);
    let made = connect(&mut bed, manager, 1, &asked);
    let config = SmConfig {
        qos: QosChoice::Vlarb01,
        priority: 3,
        ..SmConfig::default()
    };
    bed.start(successor, config);
    bed.run_until(successor, |status| {
        matches!(status.phase, Phase::Standby { .. })
    });
    bed.changes();
    bed.stop(manager);
    bed.run_until(successor, |status| status.phase == Phase::Up);
    let changes = bed.changes();
    let is_settings = |(_, change): &(NodeId, Change)| matches!(change, Change::Port(..));
    assert!(changes.iter().all(is_settings), "{changes:?}");
    // Traps to the manager that has ended are still under way.
    let received = core::mem::take(&mut bed.received);
    let is_told = |(_, message): &(NodeId, MadMessage)| message.qpn == Qpn::GSI;
    assert!(
        !received.iter().any(is_told),
        "no sender has to be notified"
    );
    let list = Mad::vendor(Method::GET, 0, 2, &QosConnection::default());
    assert_eq!(ask(&mut bed, from, successor, &list), made);
}
