//! Direct queue pairs: who takes a datagram, how one is addressed, and that a prepared one is the same.

use link::Time;
use transport::{
    DIRECT_MAX, Data, Destination, DirectQp, DirectSend, Engine, GlobalPath, Limits, Memory,
    MemoryFault, PacketDrop, Partition, Path, Prepared, Refused, SendDrop, Taken,
};
use wire::{DataPacket, Deth, Gid, GlobalRoute, Lid, Psn, Qpn, Service, Sl, UdPacket, Vl};

use crate::bed::{Pair, SL, Setting, Side, datagram, port_attributes};

const GROUP: Gid = Gid([0xff; 16]);
const OTHER_GROUP: Gid = Gid([0xfe; 16]);
const QKEY: u32 = 0x1bed;
const NUMBER: Qpn = Qpn::constant(0x1b1);

/// Nobody's memory: direct queue pairs need none.
struct NoMemory;

impl Memory for NoMemory {
    fn read(&mut self, _: transport::SpaceId, _: u64, _: &mut [u8]) -> Result<(), MemoryFault> {
        Err(MemoryFault)
    }

    fn write(&mut self, _: transport::SpaceId, _: u64, _: &[u8]) -> Result<(), MemoryFault> {
        Err(MemoryFault)
    }

    fn atomic(
        &mut self,
        _: transport::SpaceId,
        _: u64,
        _: transport::Atomic,
    ) -> Result<u64, MemoryFault> {
        Err(MemoryFault)
    }
}

fn engine(lid: u16) -> Engine {
    Engine::new(Limits::default(), port_attributes(lid))
}

fn with_direct(lid: u16) -> (Engine, DirectQp) {
    let mut engine = engine(lid);
    let qp = engine.create_direct_qp(NUMBER, Some(QKEY)).unwrap();
    (engine, qp)
}

fn to(lid: u16, payload: &[u8]) -> DirectSend<'_> {
    DirectSend {
        dlid: Lid::new(lid),
        src_path_bits: 0,
        sl: SL,
        global: None,
        partition: Partition::First,
        dest_qp: NUMBER,
        qkey: QKEY,
        payload,
    }
}

fn to_group(mgid: Gid, qkey: u32) -> DirectSend<'static> {
    let global = GlobalRoute {
        tclass: 0,
        flow_label: 0,
        hop_limit: 1,
        sgid: Gid::default(),
        dgid: mgid,
    };
    DirectSend {
        global: Some(global),
        dest_qp: Qpn::MULTICAST,
        qkey,
        ..to(0xc001, b"all!")
    }
}

fn sent(engine: &mut Engine, from: DirectQp, send: &DirectSend<'_>) -> Vec<u8> {
    let mut out = vec![0xa5; 4300];
    let written = engine.send_direct(from, send, &mut out).unwrap();
    out.truncate(written.len);
    let packet = DataPacket::parse(&out).unwrap();
    packet.check_icrc().unwrap();
    packet.check_vcrc().unwrap();
    assert_eq!(packet.lrh().vl, written.vl);
    out
}

fn take(engine: &mut Engine, bytes: &[u8]) -> Result<Taken, PacketDrop> {
    let packet = DataPacket::parse(bytes).unwrap();
    let transport = packet.transport().unwrap();
    engine.receive(Time(0), &mut NoMemory, &packet, &transport)
}

#[test]
fn a_datagram_is_taken_by_the_queue_pair_of_its_number_with_its_key() {
    let (mut a, from) = with_direct(0x10);
    let (mut b, qp) = with_direct(0x20);
    let packet = sent(&mut a, from, &to(0x20, b"by reference"));
    let members = take(&mut b, &packet).unwrap().direct;
    assert!(members.contains(qp) && !members.is_empty());

    let drops = [
        (
            DirectSend {
                qkey: 1,
                ..to(0x20, b"word")
            },
            PacketDrop::QKey,
        ),
        (
            DirectSend {
                dest_qp: Qpn::constant(0x1b2),
                ..to(0x20, b"word")
            },
            PacketDrop::NoQueuePair,
        ),
        // The number of a group and the LID of a port, and the other way round.
        (
            DirectSend {
                dest_qp: Qpn::MULTICAST,
                ..to(0x20, b"word")
            },
            PacketDrop::NoQueuePair,
        ),
        (to(0xc001, b"word"), PacketDrop::NoQueuePair),
    ];
    for (send, drop) in drops {
        let packet = sent(&mut a, from, &send);
        assert_eq!(take(&mut b, &packet).err(), Some(drop), "{send:?}");
    }
    b.set_direct_qkey(qp, None);
    assert_eq!(take(&mut b, &packet).err(), Some(PacketDrop::State));
    b.set_direct_qkey(qp, Some(QKEY));
    assert!(take(&mut b, &packet).is_ok());
}

#[test]
fn a_packet_of_a_connection_to_a_direct_queue_pair_is_dropped() {
    let mut pair = Pair::new(&Setting::new(Service::Uc));
    let (mut direct, _) = with_direct(0x20);
    let a = &mut pair.sides[0];
    let data = Data::Inline(b"word");
    let send = transport::SendOperation::Send { immediate: None };
    a.engine
        .post_send(pair.now, a.qpn, &crate::bed::request(1, send, data))
        .unwrap();
    let mut packet = a.transmit(pair.now).unwrap();
    // BTH:DestQP.
    packet[8 + 5..8 + 8].copy_from_slice(&[0, 0x01, 0xb1]);
    assert_eq!(take(&mut direct, &packet).err(), Some(PacketDrop::Service));
}

#[test]
fn numbers_are_given_once_and_those_of_other_queue_pairs_never() {
    let mut engine = engine(0x10);
    for number in 0..u32::try_from(DIRECT_MAX).unwrap() {
        assert!(engine.create_direct_qp(Qpn::constant(number), None).is_ok());
        let again = engine.create_direct_qp(Qpn::constant(number), None);
        assert!(matches!(again, Err(Refused::Invalid(_))), "{again:?}");
    }
    let above = engine.create_direct_qp(Qpn::constant(0x400), None);
    assert!(matches!(above, Err(Refused::Invalid(_))), "{above:?}");
    let more = engine.create_direct_qp(Qpn::constant(0x3ff), None);
    assert!(matches!(more, Err(Refused::TooMany(_))), "{more:?}");
}

#[test]
fn a_group_s_datagram_comes_to_direct_queue_pairs_and_others_each_by_its_key() {
    let mut pair = Pair::new(&Setting::new(Service::Ud));
    let (mut a, from) = with_direct(0x10);
    let b = &mut pair.sides[1];
    let [one, other] = [0x1b1, 0x1b4].map(|number| {
        let number = Qpn::constant(number);
        b.engine.create_direct_qp(number, None).unwrap()
    });
    b.engine
        .set_direct_groups(one, [(GROUP, 0x1234), (OTHER_GROUP, 5)]);
    b.engine.set_direct_groups(other, [(GROUP, 7)]);
    b.engine.attach(b.qpn, GROUP).unwrap();
    b.post_receive(1, &[b.sge(0, 400)]);
    let mut who = |b: &mut Side, mgid, qkey| {
        let packet = sent(&mut a, from, &to_group(mgid, qkey));
        let packet = DataPacket::parse(&packet).unwrap();
        let transport = packet.transport().unwrap();
        let taken = b.engine.receive(Time(0), &mut b.ram, &packet, &transport)?;
        let is_in = |qp| taken.direct.contains(qp);
        Ok((is_in(one), is_in(other), b.received().len(), taken.missed))
    };
    assert_eq!(who(b, GROUP, 0x1234), Ok((true, false, 1, None)));
    // Its queue pair has no receive request any more.
    let missed = Some(PacketDrop::NoReceive);
    assert_eq!(who(b, GROUP, 0x1234), Ok((true, false, 0, missed)));
    let missed = Some(PacketDrop::QKey);
    assert_eq!(who(b, GROUP, 7), Ok((false, true, 0, missed)));
    assert_eq!(who(b, GROUP, 8), Err(PacketDrop::QKey));
    assert_eq!(
        who(b, OTHER_GROUP, 5),
        Err(PacketDrop::NoMember),
        "no multicast GID"
    );
    let unknown = Gid([0xff; 16].map(|byte: u8| byte ^ 1)).0;
    let unknown = Gid([&[0xff], &unknown[1..]].concat().try_into().unwrap());
    assert_eq!(who(b, unknown, 5), Err(PacketDrop::NoMember));
    assert!(b.engine.is_attached_beside(GROUP, one));
    b.engine.detach(b.qpn, GROUP).unwrap();
    b.engine.set_direct_groups(other, []);
    assert!(b.engine.is_attached(GROUP));
    assert!(!b.engine.is_attached_beside(GROUP, one), "it alone");
    b.engine.set_direct_groups(one, []);
    assert!(!b.engine.is_attached(GROUP));
}

#[test]
fn a_datagram_is_addressed_as_the_port_is_set() {
    let (mut engine, from) = with_direct(0x10);
    let mut port = port_attributes(0x10);
    port.lmc = wire::Lmc::constant(2);
    port.pkeys = vec![0, 0x8001, 0x0005, 0x8005];
    port.sl_to_vl[SL.index()] = Vl::constant(0);
    port.sl_to_vl[5] = Vl::constant(2);
    port.sl_to_vl[4] = Vl::MANAGEMENT;
    engine.set_port(port);
    let bytes = |send: &DirectSend<'_>, engine: &mut Engine| {
        let mut out = vec![0; 4300];
        let written = engine.send_direct(from, send, &mut out)?;
        out.truncate(written.len);
        Ok(out)
    };
    let own = to(0x20, b"word");
    let at_sl = |sl| DirectSend {
        sl: Sl::constant(sl),
        ..own
    };
    for (send, vl, slid, pkey) in [
        (own, 0, 0x10, 0x8001),
        (at_sl(5), 2, 0x10, 0x8001),
        (
            DirectSend {
                src_path_bits: 0xff,
                ..own
            },
            0,
            0x13,
            0x8001,
        ),
        (
            DirectSend {
                partition: Partition::Of(0x0005),
                ..own
            },
            0,
            0x10,
            0x8005,
        ),
        (
            DirectSend {
                partition: Partition::Of(0x0099),
                ..own
            },
            0,
            0x10,
            0x8001,
        ),
        (
            DirectSend {
                partition: Partition::At(2),
                ..own
            },
            0,
            0x10,
            0x0005,
        ),
    ] {
        let sent = bytes(&send, &mut engine).unwrap();
        let packet = UdPacket::parse(&DataPacket::parse(&sent).unwrap()).unwrap();
        let seen = (packet.vl.get(), packet.slid.get(), packet.pkey);
        assert_eq!(seen, (vl, slid, pkey), "{send:?}");
        assert_eq!(
            (packet.qkey, packet.src_qp, packet.payload),
            (QKEY, NUMBER, &b"word"[..])
        );
    }
    let long = vec![0; 20_000];
    for (send, drop) in [
        (at_sl(4), SendDrop::NoLane),
        (
            DirectSend {
                partition: Partition::At(0),
                ..own
            },
            SendDrop::Partition,
        ),
        (
            DirectSend {
                partition: Partition::At(9),
                ..own
            },
            SendDrop::Partition,
        ),
        (to(0x20, &long), SendDrop::TooLong),
    ] {
        assert_eq!(bytes(&send, &mut engine), Err(drop));
    }
}

#[test]
fn packets_are_numbered_whoever_and_however_they_are_sent() {
    let (mut engine, from) = with_direct(0x10);
    let send = to(0x20, b"word");
    let mut prepared = engine.prepare(from, &send).unwrap();
    for number in 0..6 {
        let bytes = match number % 2 {
            0 => sent(&mut engine, from, &send),
            _ => engine
                .send_prepared(&mut prepared, |_| {})
                .unwrap()
                .0
                .to_vec(),
        };
        let packet = UdPacket::parse(&DataPacket::parse(&bytes).unwrap()).unwrap();
        assert_eq!(packet.psn, Psn::truncate(number));
    }
}

/// What a fresh engine, set like this one, writes of the same datagram.
fn afresh(port: &transport::PortAttributes, send: &DirectSend<'_>, count: u32) -> Vec<u8> {
    let mut engine = Engine::new(Limits::default(), port.clone());
    let from = engine.create_direct_qp(NUMBER, Some(QKEY)).unwrap();
    let mut last = Vec::new();
    for _ in 0..=count {
        last = sent(&mut engine, from, send);
    }
    last
}

#[test]
fn a_prepared_datagram_is_what_would_be_written_anew_whatever_the_port_is_set_to() {
    let global = to_group(GROUP, 9).global;
    for global in [None, global] {
        let (mut engine, from) = with_direct(0x10);
        let send = DirectSend {
            global,
            ..to(0x20, b"12345678")
        };
        let mut prepared: Prepared = engine.prepare(from, &send).unwrap();
        let mut port = port_attributes(0x10);
        for count in 0..6u32 {
            match count {
                2 => port.lid = Lid::new(0x17),
                3 => port.pkeys = vec![0x8042],
                4 => port.sl_to_vl[SL.index()] = Vl::constant(1),
                _ => {}
            }
            engine.set_port(port.clone());
            let word = count.to_be_bytes();
            let fill = |payload: &mut [u8]| payload[..4].copy_from_slice(&word);
            let (bytes, vl) = engine.send_prepared(&mut prepared, fill).unwrap();
            let payload = [&word[..], b"5678"].concat();
            let send = DirectSend {
                payload: &payload,
                ..send
            };
            assert_eq!(bytes, afresh(&port, &send, count), "packet {count}");
            assert_eq!(bytes.len(), prepared.packet_len());
            assert_eq!(vl, port.sl_to_vl[SL.index()]);
        }
        prepared.set_dlid(Lid::new(0x21));
        let (bytes, _) = engine.send_prepared(&mut prepared, |_| {}).unwrap();
        assert_eq!(DataPacket::parse(bytes).unwrap().lrh().dlid, Lid::new(0x21));
        port.sl_to_vl[SL.index()] = Vl::MANAGEMENT;
        engine.set_port(port);
        let refused = engine.send_prepared(&mut prepared, |_| {});
        assert_eq!(refused.err(), Some(SendDrop::NoLane));
    }
}

#[test]
fn datagrams_of_direct_queue_pairs_and_of_programs_reach_each_other() {
    let mut pair = Pair::new(&Setting::new(Service::Ud));
    let a = &mut pair.sides[0];
    let direct = a
        .engine
        .create_direct_qp(Qpn::GSI, Some(Deth::QKEY_GSI))
        .unwrap();
    let b = &mut pair.sides[1];
    let path = Path {
        global: None::<GlobalPath>,
        ..Side::path(Lid::new(0x10))
    };
    let handle = b.engine.create_handle(b.pd, path).unwrap();
    let destination = Destination {
        handle,
        qpn: Qpn::GSI,
        qkey: Deth::QKEY_GSI & !(1 << 31),
    };
    let request = datagram(1, Data::Inline(b"word"), destination);
    b.engine.post_send(Time(0), b.qpn, &request).unwrap();
    let packet = b.transmit(Time(0)).unwrap();
    let a = &mut pair.sides[0];
    // A program cannot have the key of QP1: its highest bit stands for the program's own key (IBA 10.2.5).
    assert_eq!(take(&mut a.engine, &packet).err(), Some(PacketDrop::QKey));
    let b = &mut pair.sides[1];
    b.post_receive(4, &[b.sge(0, 100)]);
    let send = DirectSend {
        dest_qp: b.qpn,
        qkey: 0x1234,
        ..to(b.lid.get(), b"from QP1")
    };
    let bytes = sent(&mut pair.sides[0].engine, direct, &send);
    assert_eq!(pair.sides[1].receive(Time(0), &bytes), Ok(()));
    let b = &mut pair.sides[1];
    let done = b.received()[0];
    assert_eq!((done.wr_id, done.byte_len), (4, 48));
    assert_eq!(done.datagram.unwrap().src_qp, Qpn::GSI);
    assert_eq!(&b.ram.bytes[40..48], b"from QP1");
}

#[test]
fn no_datagram_of_a_direct_queue_pair_allocates() {
    let (mut engine, from) = with_direct(0x10);
    engine.set_direct_groups(from, [(GROUP, 3)]);
    let send = to(0x10, &[7; 256]);
    let mut prepared = engine.prepare(from, &send).unwrap();
    let mut out = vec![0; 4300];
    let made = allocation_counter::measure(|| {
        for _ in 0..1000 {
            let written = engine.send_direct(from, &send, &mut out).unwrap();
            assert!(take(&mut engine, &out[..written.len]).is_ok());
            let written = engine
                .send_direct(from, &to_group(GROUP, 3), &mut out)
                .unwrap();
            assert!(take(&mut engine, &out[..written.len]).is_ok());
            let (bytes, _) = engine.send_prepared(&mut prepared, |_| {}).unwrap();
            assert_eq!(bytes.len(), 290);
        }
    });
    assert_eq!(made.count_total, 0);
}
