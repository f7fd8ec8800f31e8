//! Files that people and other programs write: topologies, tables, partitions, keys, plans, traces.

use std::cell::LazyCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use controller::Partitions;
use experiments::{Plan, Trace};
use routing::network::Network;
use routing::{dump, guid_list};
use topologies::{
    Graph, TextFormat, parse, read_description, read_text, write_ibnetdiscover, write_net,
};
use wire::capture::{CapturedPackets, Filter};
use wire::{MKey, RecordKind};

use crate::fields::Fields;

thread_local! {
    /// The fabric that tables and traces are about.
    static GRAPH: LazyCell<Graph> =
        LazyCell::new(|| parse("fat-tree-4-2").expect("a topology").graph);
}

/// Whether two fabrics have the same nodes and cables.
fn is_same(one: &Graph, other: &Graph) -> bool {
    let nodes =
        |graph: &Graph| -> Vec<_> { graph.ids().map(|id| graph.node(id).clone()).collect() };
    nodes(one) == nodes(other) && one.links().eq(other.links())
}

/// Any text is a fabric or an error with a line; a fabric survives being written and read again.
///
/// # Panics
/// If it does not.
pub(crate) fn topology(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for format in TextFormat::readable() {
        let _ = read_description(&text, Some(format));
    }
    let Ok(graph) = read_text(&text) else {
        return;
    };
    for text in [write_net(&graph), write_ibnetdiscover(&graph)] {
        match read_text(&text) {
            Ok(again) => assert_eq!(again.links().count(), graph.links().count(), "{text}"),
            Err(error) => panic!("{error}\n{text}"),
        }
    }
    let text = TextFormat::Json.write(&graph).expect("it is written");
    let again = read_text(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    // Blanks around names are gone by now.
    let text = TextFormat::Json.write(&again).expect("it is written");
    let last = read_text(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert!(is_same(&last, &again), "JSON holds all: {text}");
    if let Some(text) = TextFormat::Slurm.write(&graph) {
        let _ = read_text(&text);
    }
    let text = write_net(&graph);
    let again = read_text(&text).expect("read above");
    assert!(is_same(
        &again,
        &read_text(&write_net(&again)).expect("as before")
    ));
}

/// Any text is tables or an error with a line; tables fit the fabric or are refused, and those that
/// fit survive being written and read again. The first byte says whether unicast or multicast.
///
/// # Panics
/// If they do not.
pub(crate) fn tables(bytes: &[u8]) {
    let mut fields = Fields::of(bytes);
    let multicast = fields.byte() == b'm';
    let text = String::from_utf8_lossy(fields.rest());
    GRAPH.with(|graph| match multicast {
        true => multicast_tables(graph, &text),
        false => unicast_tables(graph, &text),
    });
}

fn unicast_tables(graph: &Graph, text: &str) {
    let _ = dump::read_levels(text);
    let Ok(dumps) = dump::read(text) else {
        return;
    };
    let network = Network::new(graph);
    let Ok(tables) = routing::file::tables(graph, &network, &dumps) else {
        return;
    };
    let _ = routing::file::check(graph, &tables);
    let again = dump::read(&dump::write(graph, &tables)).expect("what was written");
    let entries =
        |dumps: &[dump::SwitchDump]| -> usize { dumps.iter().map(|one| one.lines.len()).sum() };
    assert!(
        entries(&again) <= entries(&dumps),
        "entries to nowhere are left out"
    );
}

fn multicast_tables(graph: &Graph, text: &str) {
    if let Ok(dumps) = dump::read_mft(text) {
        let _ = routing::file::multicast_tables(graph, &dumps);
    }
}

/// Any text is partitions in OpenSM's syntax or an error with a line; numbers are in range and
/// distinct.
///
/// # Panics
/// If they are not.
pub(crate) fn partitions(bytes: &[u8]) {
    let Ok(partitions) = Partitions::read(&String::from_utf8_lossy(bytes)) else {
        return;
    };
    let numbers: Vec<u16> = partitions.all().iter().map(|one| one.number).collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    assert!(
        numbers.iter().all(|number| (1..=0x7fff).contains(number)),
        "{numbers:?}"
    );
    assert_eq!(
        numbers.last(),
        Some(&0x7fff),
        "the default partition is there"
    );
}

/// Any text is a key or refused, and an error never shows it.
///
/// # Panics
/// If a key is another one when it is written and read again.
pub(crate) fn key(bytes: &[u8]) {
    if let Ok(key) = MKey::read(&String::from_utf8_lossy(bytes)) {
        assert_eq!(MKey::read(&key.write()), Ok(key));
    }
}

/// The first line is the filter of a capture or refused; a filter survives being written and read again. What is behind is taken or not
/// as a packet, and as messages of packets.
///
/// # Panics
/// If a filter is another one when it is written and read again.
pub(crate) fn filter(bytes: &[u8]) {
    let end = bytes.iter().position(|&byte| byte == b'\n');
    let (text, packet) = bytes.split_at(end.unwrap_or(bytes.len()));
    let packet = packet.get(1..).unwrap_or_default();
    let _ = CapturedPackets::new(packet).count();
    let Ok(filter) = String::from_utf8_lossy(text).parse::<Filter>() else {
        return;
    };
    assert!(filter.is_bounded());
    assert_eq!(filter.to_string().parse(), Ok(filter.clone()));
    for kind in [RecordKind::Data, RecordKind::FlowControl] {
        let _ = filter.takes(kind, packet);
    }
}

/// Any text is a list of GUIDs or an error with a line; a list survives being written and read again.
///
/// # Panics
/// If it does not.
pub(crate) fn guids(bytes: &[u8]) {
    if let Ok(guids) = guid_list::read(&String::from_utf8_lossy(bytes)) {
        assert_eq!(guid_list::read(&guid_list::write(&guids)), Ok(guids));
    }
}

/// Any text is a plan or an error with a line; a plan has points.
///
/// # Panics
/// If the reduced plan has more points than the whole one has room for.
pub(crate) fn plan(bytes: &[u8]) {
    if let Ok(plan) = Plan::parse("plan.toml", &String::from_utf8_lossy(bytes)) {
        let _ = plan.points();
        assert!(!plan.name().is_empty());
    }
}

/// Any text is a trace of a fabric's hosts or an error with a line.
///
/// # Panics
/// If packets are out of order, or one names a flow or group that is not there.
pub(crate) fn trace(bytes: &[u8]) {
    GRAPH.with(|graph| {
        let Ok(trace) = Trace::parse(&String::from_utf8_lossy(bytes), graph) else {
            return;
        };
        assert_eq!(trace.hosts.len(), graph.hosts().count());
        assert_eq!(trace.groups.len(), trace.group_names.len());
        for requests in &trace.hosts {
            assert!(requests.is_sorted_by_key(|request| request.at_ps));
        }
        for flow in 0..trace.flows.len() {
            let flow = u32::try_from(flow).expect("few flows");
            assert!(trace.names(graph, flow).is_some());
        }
    });
}

/// Any value names adapters, for both libraries the same ones, and what is read is the same when it is written
/// and read again.
///
/// # Panics
/// If it is not.
pub(crate) fn environment(bytes: &[u8]) {
    let value = OsStr::from_bytes(bytes);
    let places = ibumad::environment::parse(value);
    assert!(places.len() <= ibumad::environment::ADAPTERS_MAX);
    assert!(
        places
            .iter()
            .all(|place| ibumad::environment::is_name(&place.name))
    );
    let of_verbs = verbs::environment::parse(value);
    let names = |place: &verbs::environment::Place| place.name.clone();
    assert!(
        of_verbs
            .iter()
            .map(names)
            .eq(places.iter().map(|place| place.name.clone())),
        "both libraries find the same adapters"
    );
    let again = ibumad::environment::value(&places).expect("what was read");
    assert_eq!(ibumad::environment::parse(&again), places);
}
