//! Unreliable datagrams: keys, partitions, the place of the global route header, multicast.

use link::Time;
use transport::{
    Data, Destination, GlobalPath, PacketDrop, Path, QpConfig, QpModify, QpState, Status,
};
use wire::{DataPacket, Gid, Grh, IbaPacket, Lid, Mtu, Qpn, Service};

use crate::bed::{Pair, Setting, Side, capabilities, datagram, pattern, port_attributes, steps};

const GROUP: Gid = Gid([0xff; 16]);

fn pair() -> Pair {
    let mut pair = Pair::new(&Setting::new(Service::Ud));
    let len = pair.sides[0].ram.bytes.len();
    pair.sides[0].ram.bytes = pattern(2, len);
    pair
}

fn to(pair: &mut Pair, path: Path, qpn: Qpn, qkey: u32) -> Destination {
    let a = &mut pair.sides[0];
    let handle = a.engine.create_handle(a.pd, path).unwrap();
    Destination { handle, qpn, qkey }
}

/// To the second side's queue pair.
fn unicast(pair: &mut Pair) -> Destination {
    let (lid, qpn) = (pair.sides[1].lid, pair.sides[1].qpn);
    to(pair, Side::path(lid), qpn, 0x1234)
}

fn send(pair: &mut Pair, len: usize, destination: Destination) {
    let a = &mut pair.sides[0];
    let sges = [a.sge(0, len)];
    let request = datagram(1, Data::Scattered(&sges), destination);
    a.engine.post_send(pair.now, a.qpn, &request).unwrap();
}

fn global(dgid: Gid, dlid: u16) -> Path {
    Path {
        global: Some(GlobalPath {
            dgid,
            sgid_index: 0,
            flow_label: 0x12345,
            hop_limit: 9,
            tclass: 7,
        }),
        ..Side::path(Lid::new(dlid))
    }
}

#[test]
fn a_datagram_begins_behind_forty_bytes_with_or_without_a_global_route() {
    for with_grh in [false, true] {
        let mut pair = pair();
        let (lid, qpn) = (pair.sides[1].lid, pair.sides[1].qpn);
        let path = match with_grh {
            true => global(port_attributes(0x20).gids[0], lid.get()),
            false => Side::path(lid),
        };
        let destination = to(&mut pair, path, qpn, 0x1234);
        let b = &mut pair.sides[1];
        b.post_receive(5, &[b.sge(0, 40), b.sge(1000, 300)]);
        send(&mut pair, 300, destination);
        pair.settle();
        let [a, b] = &mut pair.sides;
        let done = b.received()[0];
        assert_eq!((done.wr_id, done.byte_len), (5, 340));
        let info = done.datagram.unwrap();
        assert_eq!(
            (info.src_qp, info.slid, info.sl),
            (a.qpn, a.lid, crate::bed::SL)
        );
        assert_eq!(
            (info.has_grh, info.dlid_path_bits, info.pkey_index),
            (with_grh, 0, 0)
        );
        assert_eq!(b.ram.bytes[1000..1300], a.ram.bytes[..300]);
        if with_grh {
            let (grh, _) = <Grh as wire::Format>::parse(&b.ram.bytes[..40]).unwrap();
            assert_eq!((grh.tclass, grh.flow_label, grh.hop_limit), (7, 0x12345, 9));
            assert_eq!(grh.sgid, port_attributes(0x10).gids[0]);
            // BTH, DETH, 300 bytes, ICRC.
            assert_eq!(grh.pay_len, 12 + 8 + 300 + 4);
        }
        assert_eq!(a.sent()[0].status, Status::Success);
    }
}

#[test]
fn a_datagram_with_another_key_or_partition_is_dropped() {
    let mut pair = pair();
    let right = unicast(&mut pair);
    let b = &mut pair.sides[1];
    b.post_receive(1, &[b.sge(0, 400)]);
    let cases = [
        (0x1235, Err(PacketDrop::QKey)),
        (0x1234, Ok(())),
        // The highest bit has the sender's own key sent, which is the same here.
        (0x8000_0000, Err(PacketDrop::NoReceive)),
    ];
    for (qkey, expected) in cases {
        send(&mut pair, 8, Destination { qkey, ..right });
        let packet = pair.sides[0].transmit(pair.now).unwrap();
        assert_eq!(pair.sides[1].receive(pair.now, &packet), expected);
    }
    // Both are limited members of the partition; and another partition.
    for (index, expected) in [(2, PacketDrop::PKey), (1, PacketDrop::PKey)] {
        for side in &mut pair.sides {
            let sqd = QpModify {
                state: Some(QpState::Sqd),
                ..QpModify::default()
            };
            side.engine.modify_qp(pair.now, side.qpn, &sqd).unwrap();
        }
        let change = |pkey_index| QpModify {
            pkey_index: Some(pkey_index),
            ..QpModify::default()
        };
        let rts = QpModify {
            state: Some(QpState::Rts),
            ..QpModify::default()
        };
        let [a, b] = &mut pair.sides;
        a.engine.modify_qp(pair.now, a.qpn, &change(index)).unwrap();
        b.engine.modify_qp(pair.now, b.qpn, &change(2)).unwrap();
        for side in [a, b] {
            side.engine.modify_qp(pair.now, side.qpn, &rts).unwrap();
        }
        send(&mut pair, 8, right);
        let packet = pair.sides[0].transmit(pair.now).unwrap();
        assert_eq!(
            pair.sides[1].receive(pair.now, &packet),
            Err(expected),
            "{index}"
        );
    }
}

#[test]
fn a_datagram_that_is_too_long_fails_or_is_dropped_and_the_receive_request_stays() {
    let mut pair = pair();
    let destination = unicast(&mut pair);
    let b = &mut pair.sides[1];
    b.post_receive(1, &[b.sge(0, 100)]);
    send(&mut pair, 61, destination);
    let packet = pair.sides[0].transmit(pair.now).unwrap();
    assert_eq!(
        pair.sides[1].receive(pair.now, &packet),
        Err(PacketDrop::Refused)
    );
    send(&mut pair, 60, destination);
    pair.settle();
    assert_eq!(pair.sides[1].received()[0].byte_len, 100);
    assert_eq!(pair.sides[0].sent().len(), 2);
    // Longer than the port's MTU: the sender's own fault, and the rest is flushed.
    send(&mut pair, 4097, destination);
    send(&mut pair, 8, destination);
    pair.settle();
    let statuses: Vec<Status> = pair.sides[0]
        .sent()
        .iter()
        .map(|done| done.status)
        .collect();
    assert_eq!(statuses, [Status::LocalLength, Status::Flushed]);
    assert_eq!(pair.sides[0].state(), QpState::Sqe);
}

#[test]
fn a_datagram_waits_for_no_handle_that_was_destroyed() {
    let mut pair = pair();
    let destination = unicast(&mut pair);
    send(&mut pair, 8, destination);
    let a = &mut pair.sides[0];
    a.engine.destroy_handle(destination.handle).unwrap();
    assert!(a.transmit(pair.now).is_none());
    assert_eq!(a.sent()[0].status, Status::LocalOperation);
    let sges = [a.sge(0, 8)];
    let request = datagram(2, Data::Scattered(&sges), destination);
    assert!(a.engine.post_send(pair.now, a.qpn, &request).is_err());
}

#[test]
fn what_the_subnet_manager_sets_of_the_port_shows_in_packets() {
    let mut pair = pair();
    let destination = unicast(&mut pair);
    let mut port = port_attributes(0x44);
    port.mtu = Mtu::Mtu256;
    port.pkeys[0] = 0x8123;
    pair.sides[0].engine.set_port(port.clone());
    assert_eq!(pair.sides[0].engine.port(), &port);
    send(&mut pair, 256, destination);
    let bytes = pair.sides[0].transmit(pair.now).unwrap();
    let (headers, _) = IbaPacket::parse(&DataPacket::parse(&bytes).unwrap()).unwrap();
    assert_eq!((headers.slid, headers.bth.pkey), (Lid::new(0x44), 0x8123));
    send(&mut pair, 257, destination);
    pair.settle();
    assert_eq!(pair.sides[0].sent()[1].status, Status::LocalLength);
}

#[test]
fn service_levels_that_may_not_send_now_wait() {
    let mut pair = pair();
    let destination = unicast(&mut pair);
    send(&mut pair, 8, destination);
    let a = &mut pair.sides[0];
    let own = 1 << crate::bed::SL.get();
    assert!(a.engine.is_ready(own) && !a.engine.is_ready(!own));
    assert_eq!(a.engine.ready_sls(), own);
    let mut out = [0; 4300];
    assert_eq!(
        a.engine.transmit(pair.now, &mut a.ram, !own, &mut out),
        None
    );
    assert!(
        a.engine
            .transmit(pair.now, &mut a.ram, own, &mut out)
            .is_some()
    );
    assert!(!a.engine.is_ready(0xffff));
}

/// A second queue pair of the second side, with this key.
fn further(pair: &mut Pair, qkey: u32) -> Qpn {
    let setting = Setting::new(Service::Ud);
    let b = &mut pair.sides[1];
    let config = QpConfig {
        service: Service::Ud,
        pd: b.pd,
        send_cq: b.send_cq,
        receive_cq: b.receive_cq,
        srq: None,
        capabilities: capabilities(4),
        signal_all: true,
    };
    let qpn = b.engine.create_qp(config).unwrap();
    for mut modify in steps(&setting, Lid::ZERO, Qpn::default()) {
        modify.qkey = modify.qkey.map(|_| qkey);
        b.engine.modify_qp(Time(0), qpn, &modify).unwrap();
    }
    let sges = [b.sge(2000, 400)];
    let request = transport::ReceiveRequest {
        wr_id: 8,
        sges: &sges,
    };
    b.engine.post_receive(qpn, &request).unwrap();
    qpn
}

#[test]
fn a_group_s_datagram_comes_to_each_queue_pair_that_is_attached_and_has_its_key() {
    let mut pair = pair();
    let members = [
        further(&mut pair, 0x1234),
        further(&mut pair, 0x1234),
        further(&mut pair, 9),
    ];
    let b = &mut pair.sides[1];
    b.post_receive(1, &[b.sge(0, 400)]);
    for qpn in members {
        b.engine.attach(qpn, GROUP).unwrap();
        b.engine.attach(qpn, GROUP).unwrap();
    }
    let destination = to(&mut pair, global(GROUP, 0xc005), Qpn::MULTICAST, 0x1234);
    send(&mut pair, 20, destination);
    let packet = pair.sides[0].transmit(pair.now).unwrap();
    let b = &mut pair.sides[1];
    assert_eq!(
        b.receive(pair.now, &packet),
        Err(PacketDrop::QKey),
        "of the third"
    );
    let received: Vec<(Qpn, u64)> = b
        .received()
        .iter()
        .map(|done| (done.qpn, done.wr_id))
        .collect();
    assert_eq!(
        received,
        [(members[0], 8), (members[1], 8)],
        "not to the one that is not attached"
    );
    for qpn in members {
        b.engine.detach(qpn, GROUP).unwrap();
    }
    assert!(b.engine.detach(members[0], GROUP).is_err());
    assert_eq!(b.receive(pair.now, &packet), Err(PacketDrop::NoMember));
    let connected = Pair::new(&Setting::new(Service::Rc));
    let [mut a, _] = connected.sides;
    assert!(
        a.engine.attach(a.qpn, GROUP).is_err(),
        "connections have no multicast"
    );
}

#[test]
fn packets_that_are_not_for_a_queue_pair_are_dropped_with_the_reason() {
    let mut connected = Pair::new(&Setting::new(Service::Rc));
    let a = &mut connected.sides[0];
    a.post(connected.now, 1, transport::SendOperation::default(), &[]);
    let packet = a.transmit(connected.now).unwrap();
    // Another LID than the one that the queue pair is connected to, and another one of the port's.
    for (at, lid, expected) in [
        (6, 0x11u16, PacketDrop::Peer),
        (2, 0x21, PacketDrop::Peer),
        (2, 0x20, PacketDrop::State),
    ] {
        let mut packet = packet.clone();
        packet[at..at + 2].copy_from_slice(&lid.to_be_bytes());
        if expected == PacketDrop::State {
            let b = &mut connected.sides[1];
            b.fail(connected.now);
        }
        let dropped = connected.sides[1].receive(connected.now, &packet);
        assert_eq!(dropped, Err(expected));
    }
    let mut datagrams = pair();
    // The number of a queue pair of datagrams is the same in this bed.
    let dropped = datagrams.sides[1].receive(Time(0), &packet);
    assert_eq!(dropped, Err(PacketDrop::Service));
    let mut unknown = packet.clone();
    unknown[8] = 0x15;
    let dropped = datagrams.sides[1].receive(Time(0), &unknown);
    assert_eq!(dropped, Err(PacketDrop::Malformed));
    let mut other = packet;
    other[15] = 0x77;
    let dropped = datagrams.sides[1].receive(Time(0), &other);
    assert_eq!(dropped, Err(PacketDrop::NoQueuePair));
}
