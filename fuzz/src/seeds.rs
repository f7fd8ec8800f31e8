//! Inputs to start from: some of each kind that is taken. Those of whole devices stand beside them.

mod descriptions;
mod messages;
mod umad2sim;

use clap::Parser as _;
use ibemu::cli::{Cli, Verb};
use ibemu::process::{ProcessId, ProcessRecord};
use ibemu::state::FabricState;
use routing::dump;
use topologies::{Graph, parse};
use wire::umad2sim::ControlKind;
use wire::{
    AttributeId, FlowControl, FlowOp, Format, Guid, Lid, Mad, Method, PortNum, Qpn, Sl, Training,
    UdPacket, Vl,
};

use crate::Parts;
use crate::targets::packets::FORMATS;

pub(crate) use descriptions::{guid_lists, topologies};
pub(crate) use messages::messages;
pub(crate) use umad2sim::umad_inputs;

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
        rates: wire::LinkRates::NONE,
    };
    training.to_bytes::<{ Training::LEN }>().to_vec()
}

fn emitted(packet: &UdPacket<'_>) -> Vec<u8> {
    let mut bytes = vec![0; packet.len()];
    packet.emit(&mut bytes).expect("a packet");
    bytes
}

/// Link packets: flow control, SMPs by directed route and by LID, a management datagram, one with a
/// global route and immediate data.
pub(crate) fn packets() -> Vec<Vec<u8>> {
    let path = [PortNum::new(1), PortNum::new(2)];
    let directed = Mad::directed_smp(Method::GET, AttributeId::PORT_INFO, 1, 1, &path);
    let directed = directed.expect("a short path");
    let routed = Mad::lid_smp(Method::SET, AttributeId::LINEAR_FORWARDING_TABLE, 0, 2);
    let counters = Mad::pma(Method::GET, AttributeId::PORT_COUNTERS, 0, 3);
    let (slid, dlid) = (Lid::new(1), Lid::new(2));
    let (sl, vl) = (Sl::constant(0), Vl::constant(0));
    let global = UdPacket {
        global: Some(wire::GlobalRoute {
            sgid: wire::Gid([0x20; 16]),
            dgid: wire::Gid([0xff; 16]),
            tclass: 0,
            flow_label: 0,
            hop_limit: 64,
        }),
        immediate: Some(5),
        dest_qp: Qpn::constant(9),
        payload: b"payload",
        ..UdPacket::gmp(slid, Lid::new(0xc000), sl, vl, &counters)
    };
    vec![
        flow_control(),
        emitted(&UdPacket::smp(Lid::PERMISSIVE, Lid::PERMISSIVE, &directed)),
        emitted(&UdPacket::smp(slid, dlid, &routed)),
        emitted(&UdPacket::gmp(slid, dlid, sl, vl, &counters)),
        emitted(&global),
    ]
}

/// A record of this kind.
fn record(kind: u8, packet: &[u8]) -> Vec<u8> {
    let length = u16::try_from(packet.len()).expect("a short packet");
    [&[kind, 0], &length.to_be_bytes()[..], packet].concat()
}

/// Frames: each kind of record alone, and all of them with padding behind.
pub(crate) fn frames() -> Vec<Vec<u8>> {
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

/// Each format: zeros, ones, and bytes that count.
pub(crate) fn formats() -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    for (which, format) in (0u8..).zip(FORMATS) {
        let len = format.len + 1;
        let counted: Vec<u8> = (0..=0xff).cycle().take(len).collect();
        for bytes in [vec![0; len], vec![0xff; len], counted] {
            inputs.push([&[which][..], &bytes].concat());
        }
    }
    let connect = umad2sim::umad_control(ControlKind::CONNECT, 0);
    inputs.push([&[index_of("umad2sim control datagram")][..], &connect].concat());
    inputs
}

fn index_of(format: &str) -> u8 {
    let at = FORMATS.iter().position(|one| one.name == format);
    u8::try_from(at.expect("a format")).expect("few formats")
}

fn graphs(names: &[&str]) -> Vec<Graph> {
    names
        .iter()
        .map(|name| parse(name).expect("a topology").graph)
        .collect()
}

/// Tables in the text of dump_fts, and a short one.
pub(crate) fn tables() -> Vec<Vec<u8>> {
    let graph = &graphs(&["fat-tree-4-2"])[0];
    let engine = routing::RoutingEngine::Updn;
    let tables = engine
        .route(graph, &routing::Options::default())
        .expect("tables");
    let switch = graph.node(graph.switches().next().expect("a switch")).guid;
    let short = format!(
        "Unicast lids [0x0-0x2] of switch Lid 1 guid {switch} (s):\n0x0001 000 : (a portguid {switch}: 's')\n"
    );
    let groups = format!(
        "mMulticast mlids [0xc000-0xc01f] of switch Lid 9 guid {switch} (s0.0):\n     Ports: 0 1 2 3 4\n MLid\n0xc000        x x   x\n1 valid mlids dumped\n"
    );
    vec![
        format!(" {}", dump::write(graph, &tables)).into_bytes(),
        format!(" {short}").into_bytes(),
        groups.into_bytes(),
    ]
}

/// Partitions in OpenSM's syntax.
pub(crate) fn partitions() -> Vec<Vec<u8>> {
    [
        "Default = 0x7fff, ipoib : ALL = limited, SELF = full ;\n",
        "Red = 5 : 0x021be10000000021 = full, 0x021be10000000031 ;  # guids\nBlue = 6, defmember = full : ALL_CAS ;",
        "A : ALL_SWITCHES=both, SELF ;\nB , ipoib, rate=3, mtu=4, sl=0, scope=2 : ALL;",
        "",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// Keys.
pub(crate) fn keys() -> Vec<Vec<u8>> {
    [
        "0x1\n",
        "# a key\n\n0xffffffffffffffff # it\n",
        "0x0",
        "1",
        "0x1\n0x2\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// Filters of captures, with a packet behind.
pub(crate) fn filters() -> Vec<Vec<u8>> {
    let packets = packets().into_iter().cycle();
    let texts = [
        "",
        "vl=15,mad=smp",
        "vl=0-7,lnh=global,control",
        "dlid=0xc000-0xffff,slid=3,qp=0x10000",
        "mad=sa,mad=0x81,mad",
    ];
    let with_packet = |(text, packet): (&str, Vec<u8>)| [text.as_bytes(), b"\n", &packet].concat();
    texts.into_iter().zip(packets).map(with_packet).collect()
}

/// A plan of each kind.
pub(crate) fn plans() -> Vec<Vec<u8>> {
    const TRACE: &str = "kind = \"trace\"\nname = \"afternoon\"\ntitle = \"One afternoon\"\n\
        topology = \"fat-tree-4-2\"\nfile = \"afternoon.csv\"\nschemes = [\"mlid\", \"updn\"]\n\
        vls = [1, 2]\npacket_bytes = 1056\nlimit_ns = 10000000\n";
    [
        include_str!("../../experiments/plans/clos-latency.toml"),
        include_str!("../../experiments/plans/clos-moves.toml"),
        include_str!("../../experiments/plans/lid-path-selection.toml"),
        include_str!("../../experiments/plans/mcast-fig17.toml"),
        include_str!("../../experiments/plans/mlid-fig13.toml"),
        include_str!("../../experiments/plans/vlarb-irregular.toml"),
        include_str!("../../experiments/plans/vlarb-tables.toml"),
        TRACE,
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// Traces.
pub(crate) fn traces() -> Vec<Vec<u8>> {
    [
        "# comment\ngroup,east,h0.0 h0.1 h1.0\ntime_ns,source,destination,bytes,sl\n\
         0,h0.0,h1.0,288,0\n12.5,h1.0,h0.0,32,1\n40,h0.0,east,1056,0\n",
        "0,h0.0,\"h1.0\",4128,15\n86400000000000,h0.1,h0.0,32,0\n",
        "0.001,h0.0,h1.0,288,0\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// Values of the environment variable that names a program's adapters.
pub(crate) fn environments() -> Vec<Vec<u8>> {
    [
        "ibemu0=/run/ibemu/ib/h0.0.0.ibumad",
        "mlx5_0=/tmp/a=b: c/h1.ibumad\nmlx5_1=/tmp/ibemu-7/ib/h1.ibumad\n",
        "\n=\nno path\na/b=/s\nib0=\nx=.\ny=/\nz=/a/..\nw=/a/.b",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// Files of managers, each behind the byte that says which it is.
pub(crate) fn memories() -> Vec<Vec<u8>> {
    const RECORD: &str = "ff12401bffff000000000000ffffffff0000000000000000000000000000000000000b1b\
        c0008400ffff8300000000000000000000000000";
    let text = |which: char, text: &str| format!("{which}version 1\n{text}").into_bytes();
    vec![
        text(
            '\0',
            "lid 0x0000000000000011 4 2\nswitch 0x0000000000000001 4 the first switch\n\
             host 0x0000000000000010 1 h0\ncable 0x0000000000000001 3 0x0000000000000010 1\n",
        ),
        text(
            '\u{1}',
            "connection 1 0x11 0x22 64000000 db 8 4 52\nconnection 2 0x22 0x11 1 dbts 0 0 1\n",
        ),
        text(
            '\u{2}',
            &format!(
                "group {RECORD}\nmlid 0 49152\nmember 0x0000000000000011 1\nmember 0x12 7 of 0x13\n"
            ),
        ),
        text(
            '\u{3}',
            "alias 0x0000000000000011 1 0x0000000000000b0b\nalias 0x11 255 0x021be3a000000007\n",
        ),
    ]
}

/// `fabric.json` of a fabric as it is planned, and a journal.
pub(crate) fn supervisor_files() -> Vec<Vec<u8>> {
    const JOURNAL: &str = "\u{1}{\"event\":\"supervisor\",\"process\":{\"pid\":9,\"start\":7,\"executable\":null}}\n\
        {\"event\":\"started\",\"node\":0,\"controller\":0,\"process\":{\"pid\":10,\"start\":7,\"executable\":{\"device\":1,\"inode\":2}},\"restarts\":1}\n\
        {\"event\":\"started\",\"node\":null,\"controller\":1,\"process\":{\"pid\":11,\"start\":7},\"restarts\":0}\n\
        {\"event\":\"ended\",\"node\":0,\"controller\":0,\"how\":\"killed\"}\n\
        {\"event\":\"cable\",\"end\":{\"node\":3,\"port\":1},\"plugged\":false}\n";
    let planned = [
        &[
            "ibemu",
            "up",
            "star-2",
            "--transport",
            "udp",
            "--sm-node",
            "h0,h1",
        ][..],
        &[
            "ibemu",
            "up",
            "ring-3-1",
            "--transport",
            "veth",
            "--vls",
            "4",
        ],
    ];
    let mut inputs = vec![JOURNAL.as_bytes().to_vec()];
    for arguments in planned {
        let Verb::Up(options) = Cli::parse_from(arguments).verb else {
            unreachable!("the verb is up");
        };
        let process = ProcessRecord {
            id: ProcessId { pid: 7, start: 8 },
            executable: None,
        };
        let fabric = "ib".parse().expect("a name");
        let graph = &graphs(&[arguments[2]])[0];
        let state = FabricState::plan(&fabric, graph, arguments[2].to_owned(), &options, process);
        let text = state.and_then(|state| state.write()).expect("a state");
        inputs.push([&[0][..], &text].concat());
    }
    inputs
}

/// Transfers: without faults, and with each.
pub(crate) fn transfers() -> Vec<Vec<u8>> {
    let head: &[u8] = &[0x10, 0, 0, 13, 3];
    let deliver: &[u8] = &[0, 0];
    let acknowledge: &[u8] = &[1, 0];
    let mut inputs = Vec::new();
    for length in [0u16, 1, 200, 201, 5000, 60_000] {
        let mut steps = vec![[&length.to_be_bytes()[..], &[0, 13, 3]].concat()];
        for _ in 0..60 {
            steps.extend([deliver.to_vec(), acknowledge.to_vec()]);
        }
        inputs.push(Parts::join(steps));
    }
    let faults: [&[u8]; 7] = [
        &[0, 6],
        &[0, 7],
        &[0, 8],
        &[0, 9, 1, 27, 1],
        &[1, 9, 1, 35, 1],
        &[1, 10, 1, 3, 2, 0x92],
        &[0, 11, 80],
    ];
    for fault in faults {
        let steps = [
            head,
            deliver,
            acknowledge,
            fault,
            deliver,
            acknowledge,
            &[0, 11, 81],
            deliver,
            acknowledge,
        ];
        inputs.push(Parts::join(steps));
    }
    inputs
}
