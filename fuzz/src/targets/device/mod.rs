//! Whole devices, each port of which has a well-behaved peer at the other end of its cable and
//! a hostile source of packets.

mod administration;
mod connections;
mod host;
mod internet;
mod recording;
mod switch;
mod verbs;

use link::{Arrival, Device, FrameBuf, Input, LinkCommand, Pool, Port, PortConfig, Time};
use wire::attr::{Attribute, PortInfo, PortState as WantedState, VlCount};
use wire::{
    DataPacket, Lid, Mad, Method, MgmtClass, Mtu, PortNum, Psn, Qpn, RecordKind, Records, Sl,
    UdPacket, Vl,
};

use crate::fields::Fields;
use crate::targets::mads::{self, M_KEY, knows_key};
use crate::targets::packets::seal;

pub(crate) use connections::{connections, inputs as connections_inputs};
pub(crate) use host::{host, host_inputs};
pub(crate) use internet::{inputs as internet_inputs, internet};
pub(crate) use recording::{recording, recordings};
pub(crate) use switch::{switch, switch_inputs};
pub(crate) use verbs::{inputs as verbs_inputs, requests as verbs_requests, verbs};

/// Frames that pass in one exchange at most, each way: a host with something to send has more for
/// ever.
const EXCHANGES: usize = 24;

/// LIDs that packets of an input are for and from: the device's own, others that it knows, multicast
/// and none.
const LIDS: [Lid; 8] = [
    Lid::new(5),
    Lid::new(1),
    Lid::new(2),
    Lid::new(3),
    Lid::PERMISSIVE,
    Lid::new(0xc000),
    Lid::new(0xc001),
    Lid::ZERO,
];

/// The device's own LID.
const OWN: Lid = LIDS[0];

/// A device that targets can drive.
trait Core: Device {
    /// One of its ports.
    fn port(&self, number: PortNum) -> Option<&Port>;
    /// Packets that have not left it.
    fn inside(&self) -> usize;
}

/// The other end of a cable.
struct Peer {
    port: Port,
    pool: Pool,
}

/// A device, its peers, and what comes out of it.
struct Bench<D> {
    device: D,
    now: Time,
    peers: Vec<Peer>,
    memory: Vec<u8>,
    /// MADs that have come out since they were last taken, by port.
    mads: Vec<(PortNum, Mad)>,
    /// The queue pair whose datagrams are kept.
    keeps: Option<Qpn>,
    /// LIDs and contents of those that have come out since they were last taken.
    datagrams: Vec<(Lid, Vec<u8>)>,
}

/// Small buffers, so that an input fills them.
fn port_config() -> PortConfig {
    PortConfig {
        mtu: Mtu::Mtu256,
        vls: 4,
        buffer_bytes: 2048,
        output_bytes: 1024,
        vl15_packets: 8,
        ..PortConfig::default()
    }
}

impl<D: Core> Bench<D> {
    /// The device with cables in its ports 1 to `ports`; links come up.
    fn new(device: D, ports: u8) -> Self {
        Self::with_peers(device, ports, &port_config())
    }

    /// The same with peers of another configuration.
    fn with_peers(device: D, ports: u8, config: &PortConfig) -> Self {
        let peer = |_| Peer {
            port: Port::new(PortNum::new(1), *config, 0).expect("a sound configuration"),
            pool: Pool::new(config.bytes_max() * 2),
        };
        let mut bench = Self {
            device,
            now: Time(1 << 30),
            peers: (0..ports).map(peer).collect(),
            memory: vec![0; 16_384],
            mads: Vec::new(),
            keeps: None,
            datagrams: Vec::new(),
        };
        for number in bench.numbers() {
            bench.carrier(number, true);
        }
        bench.bring_up();
        bench
    }

    fn numbers(&self) -> impl Iterator<Item = PortNum> + use<D> {
        let ports = u8::try_from(self.peers.len()).expect("few ports");
        (1..=ports).map(PortNum::new)
    }

    /// Pulls or plugs the cable of a port.
    fn carrier(&mut self, port: PortNum, up: bool) {
        self.device.handle(self.now, Input::Carrier { port, up });
        if let Some(peer) = self.peers.get_mut(port.index() - 1) {
            peer.port.set_carrier(self.now, up, &mut peer.pool);
        }
    }

    /// Lets links that have a carrier come up, as far as Init.
    fn bring_up(&mut self) {
        for _ in 0..6 {
            self.pass(20_000_000);
        }
    }

    /// Lets time pass, and what is due happen.
    fn pass(&mut self, ns: u64) {
        self.now = self.now + ns;
        self.device.handle(self.now, Input::Tick);
        for peer in &mut self.peers {
            peer.port.tick(self.now, &mut peer.pool);
        }
        self.exchange();
    }

    /// Pulls the cable of a port, plugs it again, and makes the port Active.
    fn renew(&mut self, port: PortNum, lid: Lid) {
        self.carrier(port, false);
        self.pass(2_000_000_000);
        self.carrier(port, true);
        self.bring_up();
        self.activate(port, port, lid);
    }

    /// Hands the device a frame. Every record of it must be counted: a packet as received or refused,
    /// anything else that is wrong as dropped.
    fn frame(&mut self, port: PortNum, bytes: &[u8]) {
        let before = self.counted(port);
        let now = self.now;
        let (head, tail) = (now, now);
        let input = Input::Frame {
            port,
            head,
            tail,
            bytes,
        };
        self.device.handle(now, input);
        let (Some(before), Some(after)) = (before, self.counted(port)) else {
            return;
        };
        let records = Records::new(bytes).flatten();
        let packets = records
            .filter(|record| record.kind == RecordKind::Data)
            .count();
        assert_eq!(
            after - before,
            packets as u64,
            "packets counted on port {port}"
        );
    }

    /// Packets that a port has taken in or refused.
    fn counted(&self, port: PortNum) -> Option<u64> {
        let spec = &self.device.port(port)?.counts().spec;
        Some(spec.rcv_pkts + spec.rcv_refused_pkts)
    }

    /// Carries frames between the device and its peers both ways, until neither has
    /// more or it has been enough.
    fn exchange(&mut self) {
        for _ in 0..EXCHANGES {
            let mut quiet = true;
            for number in self.device.ready(self.now).iter() {
                let mut frame = FrameBuf::new(&mut self.memory, 64);
                quiet &= self.device.transmit(self.now, number, &mut frame) == 0;
                let Some(peer) = self.peers.get_mut(number.index().wrapping_sub(1)) else {
                    continue;
                };
                let bytes = frame.as_bytes();
                peer.take(self.now, bytes);
                for record in Records::new(bytes).flatten() {
                    let Ok(packet) = DataPacket::parse(record.bytes) else {
                        continue;
                    };
                    packet.check_vcrc().expect("what a device sends is sound");
                    let Ok(datagram) = UdPacket::parse(&packet) else {
                        continue;
                    };
                    self.mads
                        .extend(datagram.mad().ok().map(|mad| (number, mad)));
                    if self.keeps == Some(datagram.src_qp) {
                        self.datagrams
                            .push((datagram.dlid, datagram.payload.to_vec()));
                    }
                }
            }
            for (peer, number) in self.peers.iter_mut().zip((1..).map(PortNum::new)) {
                if !peer.port.is_ready(self.now) {
                    continue;
                }
                let mut frame = FrameBuf::new(&mut self.memory, 64);
                if peer.port.transmit(self.now, &mut frame, &mut peer.pool) == 0 {
                    continue;
                }
                quiet = false;
                let (port, head, tail) = (number, self.now, self.now);
                let bytes = frame.as_bytes();
                let input = Input::Frame {
                    port,
                    head,
                    tail,
                    bytes,
                };
                self.device.handle(self.now, input);
            }
            if quiet {
                break;
            }
        }
    }

    /// Sends an SMP that knows the M_Key on a port; the answer.
    fn ask(&mut self, port: PortNum, mut mad: Mad) -> Option<Mad> {
        mad.set_m_key(M_KEY);
        mad.set_tid(0x7e57);
        if mad.class() == MgmtClass::SUBN_DIR {
            mad.set_hop_pointer(1);
        }
        self.mads.clear();
        let packet = emitted(&UdPacket::smp(Lid::PERMISSIVE, Lid::PERMISSIVE, &mad));
        self.frame(port, &record(RecordKind::Data, &packet));
        self.exchange();
        let answers = self.mads.drain(..).map(|(_, mad)| mad);
        let mut answers = answers.filter(|answer| answer.method().is_response());
        answers.find(|answer| answer.tid() == mad.tid() && answer.attr_id() == mad.attr_id())
    }

    /// Reads an attribute of the device by way of a port.
    fn get<A: Attribute>(&mut self, port: PortNum, modifier: u32) -> Option<A> {
        let request = directed(Method::GET, modifier, None::<&A>);
        self.ask(port, request)?.smp_attribute().ok()
    }

    /// Sets an attribute of the device.
    ///
    /// # Panics
    /// If it refuses.
    fn set<A: Attribute>(&mut self, port: PortNum, modifier: u32, value: &A) {
        let answer = self.ask(port, directed(Method::SET, modifier, Some(value)));
        let status = answer.map(|answer| answer.status().without_direction().0);
        assert_eq!(status, Some(0), "{} {modifier:#x}", A::NAME);
    }

    /// Configures a port, protects it by the M_Key, and makes it Active, and its peer too.
    fn activate(&mut self, port: PortNum, number: PortNum, lid: Lid) {
        for state in [WantedState::Armed, WantedState::Active] {
            let info = PortInfo {
                m_key: M_KEY,
                m_key_protect_bits: 2,
                lid,
                master_sm_lid: LIDS[1],
                port_state: if number == PortNum::MANAGEMENT {
                    WantedState::NoChange
                } else {
                    state
                },
                neighbor_mtu: Some(Mtu::Mtu256),
                operational_vls: Some(VlCount::Four),
                ..PortInfo::default()
            };
            self.set(port, number.get().into(), &info);
        }
        if let Some(peer) = self.peers.get_mut(number.index().wrapping_sub(1)) {
            for state in [LinkCommand::Arm, LinkCommand::Activate] {
                let _ = peer.port.execute(self.now, state, &mut peer.pool);
            }
            while peer.port.poll_event().is_some() {}
        }
        self.exchange();
    }

    /// Does what the bytes of a step say that any device can be handed; whether they say so.
    fn step(&mut self, what: u8, port: PortNum, fields: &mut Fields<'_>) -> bool {
        if knows_key(fields.rest()) {
            return true;
        }
        match what {
            0 => self.frame(port, fields.rest()),
            1 => {
                let kinds = [
                    RecordKind::Data,
                    RecordKind::FlowControl,
                    RecordKind::Training,
                    RecordKind::LinkDown,
                ];
                let kind = fields.one_of(&kinds);
                self.frame(port, &record(kind, fields.rest()));
            }
            2 => {
                let mut packet = fields.rest().to_vec();
                seal(&mut packet);
                self.frame(port, &record(RecordKind::Data, &packet));
            }
            3 => {
                let (slid, dlid) = (fields.one_of(&LIDS), fields.one_of(&LIDS));
                let mad = mads::mad(fields);
                let packet = emitted(&UdPacket::smp(slid, dlid, &mad));
                self.frame(port, &record(RecordKind::Data, &packet));
            }
            4 => {
                let (slid, dlid) = (fields.one_of(&LIDS), fields.one_of(&LIDS));
                let level = fields.byte();
                let (sl, vl) = (Sl::truncate(level >> 4), Vl::truncate(level & 3));
                let mad = mads::mad(fields);
                let packet = emitted(&UdPacket::gmp(slid, dlid, sl, vl, &mad));
                self.frame(port, &record(RecordKind::Data, &packet));
            }
            5 => {
                let packet = datagram(fields);
                self.frame(port, &record(RecordKind::Data, &packet));
            }
            6 => self.pass(fields.nanoseconds()),
            7 => {
                let up = fields.flag();
                self.carrier(port, up);
            }
            _ => return false,
        }
        self.exchange();
        true
    }

    /// Pulls all cables and waits: nothing may stay inside.
    fn empty(&mut self) {
        for number in self.numbers() {
            self.carrier(number, false);
        }
        for _ in 0..4 {
            self.pass(10_000_000_000);
        }
        while self.device.poll_event().is_some() {}
        assert_eq!(self.device.inside(), 0, "nothing stays");
    }
}

impl Peer {
    /// Takes in a frame and the packets that it carries.
    fn take(&mut self, now: Time, bytes: &[u8]) {
        self.port
            .receive(Arrival::whole(now), bytes, &mut self.pool);
        for vl in (0..16).map(Vl::truncate) {
            while let Some(packet) = self.port.consume(vl) {
                packet.release(&mut self.pool);
            }
        }
        while self.port.poll_event().is_some() {}
    }
}

/// A directed request to the device at the other end of the cable.
fn directed<A: Attribute>(method: Method, modifier: u32, value: Option<&A>) -> Mad {
    let path = [PortNum::new(1)];
    let mad = Mad::directed_smp(method, A::ID, modifier, 0, &path);
    let mut mad = mad.expect("a short path");
    if let Some(value) = value {
        mad.set_smp_attribute(value);
    }
    mad
}

/// A datagram of unreliable service: addresses, keys and a global route from the next bytes, the
/// others as payload.
fn datagram(fields: &mut Fields<'_>) -> Vec<u8> {
    let (slid, dlid) = (fields.one_of(&LIDS), fields.one_of(&LIDS));
    let level = fields.byte();
    let qpns = [0u32, 1, 0x1b0, 0x1b1, 0x1b2, 0x1b3, 0x400, 0xff_ffff];
    let qkeys = [0x1bed, 0x8001_0000, 7, 0];
    let dest_qp = Qpn::truncate(fields.one_of(&qpns));
    let src_qp = Qpn::truncate(fields.one_of(&qpns));
    let qkey = fields.one_of(&qkeys);
    let options = fields.byte();
    let psn = fields.two();
    let payload = fields.rest();
    let mut payload = payload[..payload.len().min(2048)].to_vec();
    payload.resize(payload.len().next_multiple_of(4), 0);
    let global = (options & 1 == 1).then_some(wire::GlobalRoute {
        sgid: wire::Gid([0x20; 16]),
        dgid: wire::Gid([0xff; 16]),
        tclass: 0,
        flow_label: 0,
        hop_limit: 64,
    });
    emitted(&UdPacket {
        vl: Vl::truncate(level & 7),
        sl: Sl::truncate(level >> 4),
        dlid,
        slid,
        global,
        solicited: options & 2 != 0,
        pkey: if options & 4 == 0 { 0xffff } else { psn },
        dest_qp,
        psn: Psn::truncate(psn.into()),
        qkey,
        src_qp,
        immediate: (options & 8 != 0).then_some(9),
        payload: &payload,
    })
}

fn emitted(packet: &UdPacket<'_>) -> Vec<u8> {
    let mut bytes = vec![0; packet.len()];
    packet
        .emit(&mut bytes)
        .expect("a packet that is not too long");
    bytes
}

/// A frame of one record; what is too long for one is cut.
pub(crate) fn record(kind: RecordKind, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).unwrap_or(u16::MAX);
    let mut frame = vec![0; wire::Delimiter::LEN];
    wire::Format::emit(&wire::Delimiter { kind, len: length }, &mut frame);
    frame.extend(&body[..usize::from(length)]);
    frame
}
