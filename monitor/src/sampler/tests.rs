//! Samples of a made-up fabric: a switch with two ports, one of which leads to a host.

use std::sync::Arc;

use link::Time;
use wire::attr::{NodeDescription, NodeInfo, NodeType, PortInfo, PortState as WireState};
use wire::pma::{PortCounters, PortCountersExtended};
use wire::sa::{LinkRecord, NodeRecord, PortInfoRecord};
use wire::{AttributeId, Guid, Lid, Mad, Method, PortNum};

use super::discovery::{Tables, update};
use super::round::{Books, Round, Templates};
use crate::model::{Counter, Fabric, PortState, Snapshot};

fn node(lid: u16, node_type: NodeType, guid: u64, name: &str) -> NodeRecord {
    NodeRecord {
        lid: Lid::new(lid),
        node_info: NodeInfo {
            base_version: 1,
            class_version: 1,
            node_type,
            num_ports: if node_type == NodeType::Switch { 2 } else { 1 },
            system_image_guid: Guid(guid),
            node_guid: Guid(guid),
            port_guid: Guid(guid + 1),
            partition_cap: 1,
            device_id: 1,
            revision: 0,
            local_port_num: PortNum::new(1),
            vendor_id: 1,
        },
        description: NodeDescription::new(name),
    }
}

fn port(lid: u16, number: u8, state: WireState) -> PortInfoRecord {
    PortInfoRecord {
        lid: Lid::new(lid),
        port: PortNum::new(number),
        options: 0,
        port_info: PortInfo {
            port_state: state,
            link_width_active: 2,
            link_speed_active: 4,
            link_speed_ext_active: 2,
            ..PortInfo::default()
        },
    }
}

fn tables() -> Tables {
    Tables {
        nodes: vec![
            node(5, NodeType::ChannelAdapter, 0x10, "h \"0\""),
            node(3, NodeType::Switch, 2, "s0"),
        ],
        ports: vec![
            port(3, 0, WireState::Active),
            port(3, 1, WireState::Active),
            port(3, 2, WireState::Down),
            port(5, 1, WireState::Active),
        ],
        links: vec![LinkRecord {
            from_lid: Lid::new(3),
            from_port: PortNum::new(1),
            to_port: PortNum::new(1),
            to_lid: Lid::new(5),
        }],
    }
}

fn discovered() -> Fabric {
    let mut fabric = Fabric::default();
    assert!(update(&mut fabric, &tables()));
    fabric
}

/// One sample at `now`: every request is answered by `answer`, or not. How many were sent.
fn sample(
    fabric: &Fabric,
    books: &mut Books,
    mut now: Time,
    answer: impl Fn(Lid, &Mad) -> Option<Mad>,
) -> u64 {
    let (mut queries, mut templates) = (Vec::new(), Templates::new());
    books.fit(fabric);
    books.plan(fabric, &mut queries);
    let mut round = Round::new(fabric, books, &queries, &mut templates);
    let mut tid = 0;
    while !round.is_over() {
        let mut answers = Vec::new();
        while let Some((lid, mad)) = round.next(now, || {
            tid += 1;
            tid
        }) {
            answers.extend(answer(lid, mad).map(|mad| (lid, mad)));
        }
        for (lid, mad) in &answers {
            round.answered(now, *lid, mad);
        }
        if let Some(due) = round.deadline() {
            now = due.max(now);
        }
    }
    round.end()
}

/// What a device answers that has sent `words` on each port.
fn answered(mad: &Mad, words: u64) -> Mad {
    let mut answer = *mad;
    answer.set_method(Method::GET_RESP);
    if mad.attr_id() == AttributeId::PORT_COUNTERS_EXTENDED {
        let asked = mad.pma_attribute::<PortCountersExtended>().unwrap();
        answer.set_pma_attribute(&PortCountersExtended {
            xmit_data: words,
            ..asked
        });
    } else if mad.attr_id() == AttributeId::PORT_COUNTERS {
        let asked = mad.pma_attribute::<PortCounters>().unwrap();
        answer.set_pma_attribute(&PortCounters {
            rcv_errors: 1,
            ..asked
        });
    }
    answer
}

/// A snapshot of the fabric, whose ports have each sent 1000 words.
pub(crate) fn star() -> Snapshot {
    let (fabric, mut books) = (discovered(), Books::default());
    let _ = sample(&fabric, &mut books, Time(1), |_, mad| {
        Some(answered(mad, 1000))
    });
    Snapshot {
        sequence: 1,
        at_ms: 1_700_000_000_000,
        readings: books.ports.iter().map(|port| port.reading()).collect(),
        nodes: books.nodes.iter().map(|node| node.collection).collect(),
        fabric: Arc::new(fabric),
        ..Snapshot::default()
    }
}

#[test]
fn tables_become_nodes_ports_and_cables_that_keep_their_places() {
    let mut fabric = discovered();
    assert_eq!(fabric.nodes.len(), 2);
    let switch = fabric.node(Guid(2)).unwrap();
    let host = fabric.node_named("h \"0\"").unwrap();
    let (here, there) = (
        fabric.port(switch, 1).unwrap(),
        fabric.port(host, 1).unwrap(),
    );
    assert_eq!(fabric.ports[here].peer, Some(there));
    assert_eq!(fabric.ports[there].peer, Some(here));
    assert_eq!(fabric.ports[here].data_bits_per_s(), 100_000_000_000);
    let down = &fabric.ports[fabric.port(switch, 2).unwrap()];
    assert_eq!((down.state, down.data_bits_per_s()), (PortState::Down, 0));
    assert!(!update(&mut fabric, &tables()), "nothing new");

    let before = fabric.clone();
    let mut without = tables();
    without.nodes.remove(0);
    without.links.clear();
    assert!(update(&mut fabric, &without));
    assert!(!fabric.nodes[host].is_present);
    assert_eq!(fabric.ports[here].peer, None);
    assert!(update(&mut fabric, &tables()));
    assert_eq!(
        (&fabric.nodes, &fabric.ports),
        (&before.nodes, &before.ports)
    );
}

#[test]
fn rates_follow_from_two_samples_and_a_cleared_counter_goes_on() {
    let (fabric, mut books) = (discovered(), Books::default());
    let place = fabric.port(fabric.node(Guid(2)).unwrap(), 1).unwrap();
    let second = 1_000_000_000;
    for (at, words) in [(1, 1000), (2, 1250), (3, 50)] {
        let _ = sample(&fabric, &mut books, Time(at * second), |_, mad| {
            Some(answered(mad, words))
        });
    }
    let reading = books.ports[place].reading();
    assert_eq!(reading.counters[Counter::XmitData], 1300);
    assert_eq!((reading.resets, reading.is_stale), (1, false));
    assert!(
        (reading.rates.xmit_bytes_per_s - 200.0).abs() < 1e-6,
        "{reading:?}"
    );
    assert_eq!(reading.counters[Counter::RcvErrors], 1);
}

#[test]
fn a_node_that_is_silent_is_asked_by_one_request_until_it_answers() {
    let (fabric, mut books) = (discovered(), Books::default());
    let silent = |lid: Lid, mad: &Mad| (lid.get() != 3).then(|| answered(mad, 1));
    let switch = fabric.node(Guid(2)).unwrap();
    let first = sample(&fabric, &mut books, Time(1), silent);
    assert!(books.nodes[switch].collection.is_timeout);
    let place = fabric.port(switch, 1).unwrap();
    assert!(books.ports[place].reading().is_stale);
    let second = sample(&fabric, &mut books, Time(2), silent);
    assert!(second < first, "{second} of {first}");
    let all = |_: Lid, mad: &Mad| Some(answered(mad, 1));
    let _ = sample(&fabric, &mut books, Time(3), all);
    let _ = sample(&fabric, &mut books, Time(4), all);
    assert!(!books.nodes[switch].collection.is_timeout);
    assert!(
        fabric
            .ports_of(&fabric.nodes[switch])
            .skip(1)
            .all(|(place, _)| {
                let reading = books.ports[place].reading();
                reading.is_known && !reading.is_stale
            })
    );
}

#[test]
fn answers_of_others_and_of_other_ports_are_no_readings() {
    let (fabric, mut books) = (discovered(), Books::default());
    let nonsense = |_: Lid, mad: &Mad| {
        let mut answer = answered(mad, 9);
        answer.as_bytes_mut()[65] ^= 0x40;
        Some(answer)
    };
    let _ = sample(&fabric, &mut books, Time(1), nonsense);
    assert!(books.nodes.iter().all(|node| node.collection.is_error));
    assert!(books.ports.iter().all(|port| !port.reading().is_known));
}

#[test]
fn a_host_is_asked_right_after_the_switch_that_it_is_at() {
    let mut more = tables();
    more.nodes.insert(0, node(4, NodeType::Switch, 1, "s1"));
    more.ports.push(port(4, 1, WireState::Active));
    let mut fabric = Fabric::default();
    assert!(update(&mut fabric, &more));
    let (mut books, mut queries) = (Books::default(), Vec::new());
    books.fit(&fabric);
    books.plan(&fabric, &mut queries);
    let nodes = queries.iter().map(|query| fabric.ports[query.place].node);
    let mut names: Vec<&str> = nodes.map(|node| &*fabric.nodes[node].name).collect();
    names.dedup();
    assert_eq!(names, ["s1", "s0", "h \"0\""]);
}

#[test]
fn more_is_asked_at_a_time_while_answers_come_in_time_and_less_once_they_come_late() {
    let (fabric, mut books) = (discovered(), Books::default());
    let all = |_: Lid, mad: &Mad| Some(answered(mad, 1));
    let windows = [1, 2, 3].map(|at| {
        let _ = sample(&fabric, &mut books, Time(at), all);
        books.window()
    });
    assert_eq!(windows, [512, 1024, 1024]);
    // The first requests are lost on the way, their repetitions are answered.
    let late = [4, 5, 6, 7, 8, 9].map(|at| {
        let asked = std::cell::Cell::new(0);
        let second = |_: Lid, mad: &Mad| {
            asked.set(asked.get() + 1);
            (asked.get() > 6).then(|| answered(mad, 1))
        };
        let _ = sample(&fabric, &mut books, Time(at), second);
        books.window()
    });
    assert_eq!(late, [512, 256, 128, 64, 32, 32]);
    // Who is gone slows nobody down.
    let _ = sample(&fabric, &mut books, Time(10), |_, _| None);
    assert_eq!(books.window(), 64);
}
