//! A host that is fed nonsense: nothing panics, everything that is dropped is counted, and the
//! host works afterwards.

#![allow(clippy::unwrap_used, reason = "tests")]

use hostd::control::{PerfRequest, PingRequest, Reply, Request, SERVICE_QKEY};
use hostd::{ClientId, Command, Event, Host, HostConfig};
use link::{Device, FrameBuf, Input, PortConfig, PortState, Time};
use mad::local::{MadMessage, ToAgent};
use proptest::prelude::*;
use wire::attr::{self, PortInfo};
use wire::mad::{AttributeId, Mad, Method};
use wire::{
    Delimiter, FlowControl, FlowOp, Format, Guid, Lid, PortNum, Psn, Qpn, RecordKind, Sl, Training,
    UdPacket, Vl,
};

const PORT: PortNum = PortNum::new(1);

fn record(kind: RecordKind, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0; Delimiter::LEN];
    Delimiter {
        kind,
        len: u16::try_from(bytes.len()).unwrap(),
    }
    .emit(&mut out);
    out.extend_from_slice(bytes);
    out
}

/// A host and a hand-made peer.
struct Bench {
    host: Host,
    now: Time,
}

impl Bench {
    /// A host with LID 5 whose port is Active.
    fn active() -> Self {
        let config = HostConfig {
            name: "h".to_owned(),
            guid: Guid(0x100),
            pid: 1,
            ports: 1,
            hardware: link::Hardware::default(),
            port: PortConfig::default(),
            ip: Vec::new(),
            traffic_tick_ns: 0,
        };
        let mut bench = Self {
            host: Host::new(config).unwrap(),
            now: Time(1 << 30),
        };
        bench.host.handle(
            bench.now,
            Input::Carrier {
                port: PORT,
                up: true,
            },
        );
        bench.train();
        for state in [attr::PortState::Armed, attr::PortState::Active] {
            let info = PortInfo {
                lid: Lid::new(5),
                port_state: state,
                ..PortInfo::default()
            };
            let id = AttributeId::PORT_INFO;
            let mut mad = Mad::directed_smp(Method::SET, id, 1, 1, &[]).unwrap();
            mad.set_smp_attribute(&info);
            bench.mad(&mad, Lid::PERMISSIVE, Qpn::SMI);
        }
        assert_eq!(bench.host.port().state(), PortState::Active);
        bench.pull();
        bench
    }

    /// Opens the link as a peer does.
    fn train(&mut self) {
        let mut heard = 0;
        for _ in 0..20 {
            let mut training = [0; Training::LEN];
            let guid = Guid(0x200);
            Training {
                guid,
                port: PORT,
                epoch: 77,
                heard_epoch: heard,
                rates: wire::LinkRates::NONE,
            }
            .emit(&mut training);
            let mut frame = record(RecordKind::Training, &training);
            for vl in 0..8 {
                let flow = FlowControl {
                    op: FlowOp::Init,
                    fctbs: 0,
                    vl: Vl::truncate(vl),
                    fccl: 2000,
                };
                let mut bytes = [0; FlowControl::LEN];
                flow.emit(&mut bytes);
                frame.extend(record(RecordKind::FlowControl, &bytes));
            }
            self.frame(&frame);
            heard = self.host.port().epoch();
            self.pull();
            self.now = self.now + 10_000_000;
        }
    }

    fn frame(&mut self, bytes: &[u8]) {
        let (head, tail) = (self.now, self.now);
        self.host.handle(
            self.now,
            Input::Frame {
                port: PORT,
                head,
                tail,
                bytes,
            },
        );
    }

    fn mad(&mut self, mad: &Mad, lid: Lid, qpn: Qpn) {
        let mad = Box::new(*mad.as_bytes());
        let message = ToAgent::Send(MadMessage {
            lid,
            qpn,
            sl: Sl::default(),
            mad,
            way: None,
        });
        let client = ClientId(1);
        self.host
            .handle(self.now, Input::Command(Command::Mad { client, message }));
    }

    /// Takes out everything; the replies on the control socket among it.
    fn pull(&mut self) -> Vec<Reply> {
        for _ in 0..100 {
            let mut memory = [0; 9000];
            let mut frame = FrameBuf::new(&mut memory, usize::MAX);
            if self.host.ready(self.now).is_empty()
                || self.host.transmit(self.now, PORT, &mut frame) == 0
            {
                break;
            }
        }
        let events = std::iter::from_fn(|| self.host.poll_event());
        let replies = events.filter_map(|event| match event {
            Event::Control { reply, .. } => Some(reply),
            _ => None,
        });
        replies.collect()
    }

    fn ask(&mut self, request: Request) -> Vec<Reply> {
        let command = Command::Control {
            token: 1,
            port: PortNum::new(1),
            request,
        };
        self.host.handle(self.now, Input::Command(command));
        self.pull()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Frame(Vec<u8>),
    Record(RecordKind, Vec<u8>),
    Datagram {
        vl: u8,
        dlid: u16,
        qpn: u32,
        qkey: u32,
        pkey: u16,
        payload: Vec<u8>,
    },
    Smp {
        dlid: u16,
        bytes: Vec<u8>,
    },
    Mad {
        lid: u16,
        qpn: u32,
        bytes: Vec<u8>,
    },
    Carrier(bool),
    Perf(u32, u16, u32, u64),
    Ping(u16, u32),
    Wait(u64),
}

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..max)
}

/// Mostly a management datagram of a class and method that mean something.
fn mad() -> impl Strategy<Value = Vec<u8>> {
    let class = prop_oneof![
        Just(0x01u8),
        Just(0x81),
        Just(0x03),
        Just(0x04),
        any::<u8>()
    ];
    let method = prop_oneof![
        Just(1u8),
        Just(2),
        Just(5),
        Just(7),
        Just(0x81),
        any::<u8>()
    ];
    let attribute = prop_oneof![0u8..0x40, any::<u8>()];
    let hops = prop_oneof![Just((0u8, 0u8)), Just((1, 1)), any::<(u8, u8)>()];
    (
        class,
        method,
        attribute,
        hops,
        prop::collection::vec(any::<u8>(), 256),
    )
        .prop_map(|(class, method, attribute, (pointer, count), mut mad)| {
            mad[..4].copy_from_slice(&[1, class, 1, method]);
            (mad[6], mad[7]) = (pointer, count);
            (mad[16], mad[17]) = (0, attribute);
            if count < 2 {
                mad[32..36].fill(0xff);
                mad[129] = 1;
            }
            mad
        })
}

fn step() -> impl Strategy<Value = Step> {
    let lid = || {
        prop_oneof![
            Just(5u16),
            Just(0xffff),
            Just(0),
            Just(0xc001),
            any::<u16>()
        ]
    };
    let qpn = || prop_oneof![0u32..3, 0x1b0u32..0x1b5, any::<u32>()];
    let qkey = prop_oneof![Just(SERVICE_QKEY), Just(0x8001_0000), any::<u32>()];
    let pkey = prop_oneof![Just(0xffffu16), any::<u16>()];
    let payload = prop_oneof![
        bytes(300),
        mad(),
        bytes(100).prop_map(|rest| [b"ping\x01", rest.as_slice()].concat()),
        bytes(100).prop_map(|rest| [b"perf\x01", rest.as_slice()].concat()),
        bytes(100).prop_map(|rest| [b"perf\x02", rest.as_slice()].concat()),
        bytes(200).prop_map(|rest| [b"perf\x04", rest.as_slice()].concat()),
    ];
    let kind = prop_oneof![
        Just(RecordKind::Data),
        Just(RecordKind::FlowControl),
        Just(RecordKind::Training),
        Just(RecordKind::LinkDown),
    ];
    prop_oneof![
        2 => bytes(400).prop_map(Step::Frame),
        2 => (kind, bytes(300)).prop_map(|(kind, bytes)| Step::Record(kind, bytes)),
        8 => (0u8..16, lid(), qpn(), qkey, pkey, payload).prop_map(
            |(vl, dlid, qpn, qkey, pkey, payload)| Step::Datagram {
                vl, dlid, qpn, qkey, pkey, payload,
            }
        ),
        6 => (lid(), mad()).prop_map(|(dlid, bytes)| Step::Smp { dlid, bytes }),
        6 => (lid(), qpn(), mad()).prop_map(|(lid, qpn, bytes)| Step::Mad { lid, qpn, bytes }),
        1 => any::<bool>().prop_map(Step::Carrier),
        1 => (any::<u32>(), any::<u16>(), any::<u32>(), any::<u64>())
            .prop_map(|(flow, size, window, rate)| Step::Perf(flow, size, window, rate)),
        1 => (lid(), any::<u32>()).prop_map(|(lid, count)| Step::Ping(lid, count)),
        3 => (0u64..2_000_000_000).prop_map(Step::Wait),
    ]
}

fn datagram(step: &Step) -> Option<UdPacket<'_>> {
    let Step::Datagram {
        vl,
        dlid,
        qpn,
        qkey,
        pkey,
        payload,
    } = step
    else {
        return None;
    };
    Some(UdPacket {
        vl: Vl::truncate(*vl),
        sl: Sl::truncate(*vl),
        dlid: Lid::new(*dlid),
        slid: Lid::new(9),
        global: None,
        solicited: false,
        pkey: *pkey,
        dest_qp: Qpn::truncate(*qpn),
        psn: Psn::default(),
        qkey: *qkey,
        src_qp: Qpn::constant(1),
        immediate: None,
        payload,
    })
}

fn play(bench: &mut Bench, step: &Step) {
    if let Some(datagram) = datagram(step) {
        let mut packet = vec![0; datagram.len()];
        datagram.emit(&mut packet).unwrap();
        bench.frame(&record(RecordKind::Data, &packet));
    }
    match step {
        Step::Frame(bytes) => bench.frame(bytes),
        Step::Record(kind, bytes) => bench.frame(&record(*kind, bytes)),
        Step::Datagram { .. } => {}
        Step::Smp { dlid, bytes } => {
            let mad = Mad::from_bytes(bytes.as_slice().try_into().unwrap());
            let packet = UdPacket::smp(Lid::new(9), Lid::new(*dlid), &mad);
            let mut out = vec![0; packet.len()];
            packet.emit(&mut out).unwrap();
            bench.frame(&record(RecordKind::Data, &out));
        }
        Step::Mad { lid, qpn, bytes } => {
            let mad = Mad::from_bytes(bytes.as_slice().try_into().unwrap());
            bench.mad(&mad, Lid::new(*lid), Qpn::truncate(*qpn));
        }
        Step::Carrier(up) => {
            bench.host.handle(
                bench.now,
                Input::Carrier {
                    port: PORT,
                    up: *up,
                },
            );
        }
        Step::Perf(flow, size, window, rate) => {
            bench.ask(Request::PerfStart(PerfRequest {
                flow: *flow,
                dlid: Lid::new(9),
                qpn: Qpn::constant(0x1b1),
                size: *size,
                window: *window,
                rate: *rate,
                sl: Sl::constant(3),
                count: 0,
                duration_ms: 0,
                seed: *rate,
            }));
        }
        Step::Ping(lid, count) => {
            bench.ask(Request::Ping(PingRequest {
                targets: vec![Lid::new(*lid)],
                count: *count,
                interval_us: 1,
                size: 98,
                sl: Sl::default(),
                pkey: 0,
                timeout_ms: 1,
            }));
        }
        Step::Wait(ns) => {
            bench.now = bench.now + *ns;
            bench.host.handle(bench.now, Input::Tick);
        }
    }
    bench.pull();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn nothing_that_a_host_is_fed_harms_it(steps in prop::collection::vec(step(), 1..80)) {
        let mut bench = Bench::active();
        for step in &steps {
            play(&mut bench, step);
        }
        let replies = bench.ask(Request::Identity);
        let identified =
            replies.iter().any(|reply| matches!(reply, Reply::Identity(id) if id.name == "h"));
        prop_assert!(identified, "{replies:?}");
        bench.host.handle(bench.now, Input::Carrier { port: PORT, up: false });
        bench.pull();
        prop_assert_eq!(bench.host.packets_inside(), 0, "a leak");
    }
}

#[test]
fn every_single_damaged_byte_of_a_ping_is_noticed() {
    let mut bench = Bench::active();
    let payload = [b"ping\x01", [0; 59].as_slice()].concat();
    let step = Step::Datagram {
        vl: 0,
        dlid: 5,
        qpn: 0x1b0,
        qkey: SERVICE_QKEY,
        pkey: 0xffff,
        payload,
    };
    let datagram = datagram(&step).unwrap();
    let mut packet = vec![0; datagram.len()];
    datagram.emit(&mut packet).unwrap();
    let good = record(RecordKind::Data, &packet);
    let sent = |bench: &Bench| bench.host.port().counts().spec.xmit_pkts;
    let before = sent(&bench);
    for at in 0..good.len() {
        let mut damaged = good.clone();
        damaged[at] ^= 0x10;
        bench.frame(&damaged);
        bench.pull();
        // The delimiter's reserved byte means nothing.
        if at == 1 {
            continue;
        }
        assert_eq!(
            sent(&bench),
            before + u64::from(at > 1),
            "byte {at} is answered"
        );
    }
    bench.frame(&good);
    bench.pull();
    assert_eq!(sent(&bench), before + 2);
}
