//! Inputs to start from: some of each kind that is taken.

use link::Time;
use recording::{End, Entry};
use topologies::{parse, write_ibnetdiscover, write_net};
use wire::{
    AttributeId, FlowControl, FlowOp, Format, Guid, Lid, Mad, Method, PortNum, Sl, Training,
    UdPacket, Vl,
};

use crate::Parts;
use crate::device::{PORTS, recorded};

fn flow_control() -> Vec<u8> {
    let packet = FlowControl {
        op: FlowOp::Normal,
        fctbs: 3,
        vl: Vl::constant(1),
        fccl: 64,
    };
    packet.to_bytes::<{ FlowControl::LEN }>().to_vec()
}

fn training(heard_epoch: u32) -> Vec<u8> {
    let training = Training {
        guid: Guid(2),
        port: PortNum::new(1),
        epoch: 7,
        heard_epoch,
    };
    training.to_bytes::<{ Training::LEN }>().to_vec()
}

fn emitted(packet: &UdPacket<'_>) -> Vec<u8> {
    let mut bytes = vec![0; packet.len()];
    packet.emit(&mut bytes).expect("a packet");
    bytes
}

/// Link packets: flow control, SMPs by directed route and by LID, a management datagram.
///
/// # Panics
/// If one cannot be built, which no input changes.
#[must_use]
pub fn packets() -> Vec<Vec<u8>> {
    let path = [PortNum::new(1), PortNum::new(2)];
    let directed = Mad::directed_smp(Method::GET, AttributeId::PORT_INFO, 1, 1, &path);
    let directed = directed.expect("a short path");
    let routed = Mad::lid_smp(Method::SET, AttributeId::LINEAR_FORWARDING_TABLE, 0, 2);
    let counters = Mad::pma(Method::GET, AttributeId::PORT_COUNTERS, 0, 3);
    let (slid, dlid) = (Lid::new(1), Lid::new(2));
    vec![
        flow_control(),
        emitted(&UdPacket::smp(Lid::PERMISSIVE, Lid::PERMISSIVE, &directed)),
        emitted(&UdPacket::smp(slid, dlid, &routed)),
        emitted(&UdPacket::gmp(
            slid,
            dlid,
            Sl::constant(0),
            Vl::constant(0),
            &counters,
        )),
    ]
}

/// A record of this kind.
fn record(kind: u8, packet: &[u8]) -> Vec<u8> {
    let length = u16::try_from(packet.len()).expect("a short packet");
    [&[kind, 0], &length.to_be_bytes()[..], packet].concat()
}

/// Frames: each kind of record alone, and all of them with padding behind.
#[must_use]
pub fn frames() -> Vec<Vec<u8>> {
    let mut frames = vec![
        record(3, &training(0)),
        record(2, &flow_control()),
        record(4, &[]),
    ];
    let data = packets().into_iter().skip(1);
    frames.extend(data.map(|packet| record(1, &packet)));
    let mut all = frames.concat();
    all.extend([0; 16]);
    frames.push(all);
    frames
}

/// Topologies in the text of ibnetdiscover and of ibsim.
///
/// # Panics
/// If a name is none, which no input changes.
#[must_use]
pub fn topologies() -> Vec<Vec<u8>> {
    let names = ["star-2", "ring-3-1", "clos-2-2-2-2"];
    let graphs = names.map(|name| parse(name).expect("a name").graph);
    graphs
        .iter()
        .flat_map(|graph| [write_net(graph), write_ibnetdiscover(graph)])
        .map(String::into_bytes)
        .collect()
}

/// Sequences of frames: links come up, packets come, links go down.
#[must_use]
pub fn switch_inputs() -> Vec<Vec<u8>> {
    let step = |port: u8, frame: Vec<u8>| [&[port, 0, 10][..], &frame].concat();
    let mut up: Vec<Vec<u8>> = Vec::new();
    for port in 1..=PORTS {
        // The epoch of the switch's first link-up: its configuration's seed and one.
        for heard in [0, 1, 2] {
            up.push(step(port, record(3, &training(heard))));
        }
        up.push(step(port, record(2, &flow_control())));
    }
    let mut all = up.clone();
    for (frame, port) in frames().into_iter().zip((1..=PORTS).cycle()) {
        all.push(step(port, frame));
    }
    let alone = frames().into_iter().map(|frame| step(1, frame));
    let mut inputs: Vec<Vec<u8>> = alone.map(|part| Parts::join([part])).collect();
    inputs.extend([Parts::join(up), Parts::join(all)]);
    inputs
}

/// Recordings: whole, and as items behind the kind of a device.
///
/// # Panics
/// If one cannot be written, which no input changes.
#[must_use]
pub fn recordings() -> Vec<Vec<u8>> {
    let now = Time(1).0;
    let entries: Vec<Entry<'_, switchd::Command>> = vec![
        Entry::Carrier {
            now,
            port: PortNum::new(1),
            up: true,
        },
        Entry::Tick { now },
        Entry::End(End::Closed),
    ];
    let parts: Vec<Vec<u8>> = entries
        .iter()
        .map(|entry| wire::control::encode(entry).expect("an entry"))
        .collect();
    let whole = |host| recorded(host, parts.iter().map(Vec::as_slice));
    let items = |kind: u8| [&[kind][..], &Parts::join(&parts)].concat();
    vec![whole(false), whole(true), items(0), items(1)]
}
