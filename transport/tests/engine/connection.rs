//! Every operation, of every length that matters, at every MTU.

use transport::{Data, QpEvent, SendOperation, Status, WorkKind};
use wire::{Mtu, Service};

use crate::bed::{Pair, Setting, pattern, request};

const MTUS: [Mtu; 5] = [
    Mtu::Mtu256,
    Mtu::Mtu512,
    Mtu::Mtu1024,
    Mtu::Mtu2048,
    Mtu::Mtu4096,
];

fn lengths(mtu: Mtu) -> Vec<usize> {
    let mtu = usize::from(mtu.bytes());
    vec![0, 1, mtu - 1, mtu, mtu + 1, 2 * mtu, 3 * mtu + 5]
}

/// A fresh pair whose first side's memory has a pattern.
fn pair(service: Service, mtu: Mtu) -> Pair {
    let mut pair = Pair::new(&Setting {
        mtu,
        ..Setting::new(service)
    });
    let len = pair.sides[0].ram.bytes.len();
    pair.sides[0].ram.bytes = pattern(1, len);
    pair
}

#[test]
fn sends_arrive_whole_at_every_length_and_mtu() {
    for service in [Service::Rc, Service::Uc] {
        for mtu in MTUS {
            let mut pair = pair(service, mtu);
            let [a, b] = &mut pair.sides;
            for (wr_id, len) in (0u64..).zip(lengths(mtu)) {
                let immediate = (wr_id % 2 == 0).then_some(0xabcd);
                // Gathered from two pieces, scattered into two others.
                let first = len / 3;
                let from = [a.sge(7, first), a.sge(7 + first, len - first)];
                b.post_receive(wr_id, &[b.sge(0, len / 2), b.sge(40_000, len - len / 2)]);
                a.post(pair.now, wr_id, SendOperation::Send { immediate }, &from);
            }
            pair.settle();
            let [a, b] = &mut pair.sides;
            let received = b.received();
            assert_eq!(received.len(), lengths(mtu).len());
            for (completion, (wr_id, len)) in received.iter().zip((0u64..).zip(lengths(mtu))) {
                assert_eq!(completion.status, Status::Success);
                assert_eq!(
                    (
                        completion.wr_id,
                        completion.byte_len as usize,
                        completion.kind
                    ),
                    (wr_id, len, WorkKind::Receive)
                );
                assert_eq!(completion.immediate, (wr_id % 2 == 0).then_some(0xabcd));
            }
            // The last one is what the memory holds.
            let len = *lengths(mtu).last().unwrap();
            assert_eq!(b.ram.bytes[..len / 2], a.ram.bytes[7..7 + len / 2]);
            assert_eq!(
                b.ram.bytes[40_000..40_000 + len - len / 2],
                a.ram.bytes[7 + len / 2..7 + len]
            );
            let sent: Vec<u64> = a.sent().iter().map(|completion| completion.wr_id).collect();
            assert_eq!(sent, (0..7).collect::<Vec<u64>>());
        }
    }
}

#[test]
fn writes_arrive_where_they_are_told_and_their_immediate_data_completes_a_receive() {
    for service in [Service::Rc, Service::Uc] {
        for mtu in MTUS {
            for (wr_id, len) in (0u64..).zip(lengths(mtu)) {
                let mut pair = pair(service, mtu);
                let [a, b] = &mut pair.sides;
                b.post_receive(9, &[]);
                let immediate = (wr_id % 2 == 1).then_some(77);
                let remote = b.remote(501);
                a.post(
                    pair.now,
                    wr_id,
                    SendOperation::Write { remote, immediate },
                    &[a.sge(3, len)],
                );
                pair.settle();
                let [a, b] = &mut pair.sides;
                assert_eq!(b.ram.bytes[501..501 + len], a.ram.bytes[3..3 + len]);
                assert!(b.ram.bytes[..501].iter().all(|&byte| byte == 0));
                assert!(b.ram.bytes[501 + len..].iter().all(|&byte| byte == 0));
                let received = b.received();
                assert_eq!(received.len(), usize::from(immediate.is_some()));
                for completion in received {
                    assert_eq!(completion.kind, WorkKind::ReceiveWrite);
                    assert_eq!((completion.wr_id, completion.immediate), (9, Some(77)));
                    assert_eq!(completion.byte_len as usize, len);
                }
                assert_eq!(a.sent().len(), 1);
            }
        }
    }
}

#[test]
fn reads_bring_what_the_peer_has_and_several_are_under_way_at_once() {
    for mtu in MTUS {
        let mut pair = pair(Service::Rc, mtu);
        let [a, b] = &mut pair.sides;
        let mut at = 0;
        for (wr_id, len) in (0u64..).zip(lengths(mtu)) {
            let remote = a.remote(at);
            b.post(
                pair.now,
                wr_id,
                SendOperation::Read { remote },
                &[b.sge(at, len)],
            );
            at += len;
        }
        pair.settle();
        let [a, b] = &mut pair.sides;
        assert_eq!(b.ram.bytes[..at], a.ram.bytes[..at]);
        let sent = b.sent();
        let read: Vec<usize> = sent.iter().map(|done| done.byte_len as usize).collect();
        assert_eq!(read, lengths(mtu));
        assert!(sent.iter().all(|done| done.kind == WorkKind::Read));
    }
}

#[test]
fn atomics_return_the_original_value_and_change_memory_once() {
    let mut pair = Pair::new(&Setting::new(Service::Rc));
    let [a, b] = &mut pair.sides;
    b.ram.bytes[64..72].copy_from_slice(&5u64.to_ne_bytes());
    let remote = b.remote(64);
    let swap = |compare, swap| SendOperation::CompareSwap {
        remote,
        compare,
        swap,
    };
    let operations = [
        SendOperation::FetchAdd { remote, add: 10 },
        swap(15, 100),
        swap(15, 200),
        SendOperation::FetchAdd {
            remote,
            add: u64::MAX,
        },
    ];
    for (index, operation) in operations.into_iter().enumerate() {
        a.post(pair.now, index as u64, operation, &[a.sge(index * 8, 8)]);
    }
    pair.settle();
    let [a, b] = &mut pair.sides;
    let value = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap());
    let originals: Vec<u64> = a.ram.bytes[..32].chunks(8).map(value).collect();
    assert_eq!(originals, [5, 15, 100, 100]);
    assert_eq!(value(&b.ram.bytes[64..72]), 99);
    let kinds: Vec<WorkKind> = a.sent().iter().map(|done| done.kind).collect();
    use WorkKind::{CompareSwap, FetchAdd};
    assert_eq!(kinds, [FetchAdd, CompareSwap, CompareSwap, FetchAdd]);
}

#[test]
fn inline_data_is_copied_by_the_call() {
    let mut pair = Pair::new(&Setting::new(Service::Rc));
    let [a, b] = &mut pair.sides;
    let mut data = pattern(3, 200);
    let send = SendOperation::Send { immediate: None };
    a.engine
        .post_send(pair.now, a.qpn, &request(1, send, Data::Inline(&data)))
        .unwrap();
    let sent = data.clone();
    data.fill(0);
    let long = [0; 257];
    let long = request(2, send, Data::Inline(&long));
    assert!(a.engine.post_send(pair.now, a.qpn, &long).is_err());
    b.post_receive(1, &[b.sge(0, 200)]);
    pair.settle();
    assert_eq!(pair.sides[1].ram.bytes[..200], sent);
}

#[test]
fn only_signaled_requests_complete_unless_they_fail() {
    let mut pair = Pair::new(&Setting {
        signal_all: false,
        ..Setting::new(Service::Rc)
    });
    let [a, b] = &mut pair.sides;
    for wr_id in 0..6 {
        b.post_receive(wr_id, &[b.sge(0, 8)]);
        let sges = [a.sge(0, 8)];
        let send = SendOperation::Send { immediate: None };
        let mut request = request(wr_id, send, Data::Scattered(&sges));
        request.signaled = wr_id % 3 == 2;
        a.engine.post_send(pair.now, a.qpn, &request).unwrap();
    }
    pair.settle();
    let [a, b] = &mut pair.sides;
    let sent: Vec<u64> = a.sent().iter().map(|done| done.wr_id).collect();
    assert_eq!((sent, b.received().len()), (vec![2, 5], 6));
    let sges = [a.sge(0, 8)];
    let mut unsignaled = request(7, SendOperation::default(), Data::Scattered(&sges));
    unsignaled.signaled = false;
    a.engine.post_send(pair.now, a.qpn, &unsignaled).unwrap();
    a.fail(pair.now);
    assert_eq!(a.sent()[0].status, Status::Flushed);
}

#[test]
fn a_connection_with_a_global_route_takes_packets_of_that_route_only() {
    let mut pair = Pair::new(&Setting::new(Service::Rc));
    let gids = [0x10, 0x20].map(|lid| crate::bed::port_attributes(lid).gids[0]);
    let change = |state, path| transport::QpModify {
        state: Some(state),
        path,
        ..transport::QpModify::default()
    };
    use transport::QpState::{Rts, Sqd};
    for (side, peer) in [(0, 1), (1, 0)] {
        let path = transport::Path {
            global: Some(transport::GlobalPath {
                dgid: gids[peer],
                hop_limit: 1,
                ..transport::GlobalPath::default()
            }),
            ..crate::bed::Side::path(pair.sides[peer].lid)
        };
        // The second side follows later.
        if side == 1 {
            let a = &mut pair.sides[0];
            a.post(pair.now, 1, SendOperation::default(), &[a.sge(0, 8)]);
            let packet = a.transmit(pair.now).unwrap();
            let dropped = pair.sides[1].receive(pair.now, &packet);
            assert_eq!(dropped, Err(transport::PacketDrop::Peer));
        }
        let own = &mut pair.sides[side];
        for modify in [
            change(Sqd, None),
            change(Sqd, Some(path)),
            change(Rts, None),
        ] {
            own.engine.modify_qp(pair.now, own.qpn, &modify).unwrap();
        }
    }
    let b = &mut pair.sides[1];
    b.post_receive(1, &[b.sge(0, 8)]);
    pair.settle_in_time();
    assert_eq!(pair.sides[0].sent()[0].status, Status::Success);
}

#[test]
fn the_first_packet_before_rts_is_told_once() {
    let setting = Setting::new(Service::Rc);
    let mut pair = Pair::new(&setting);
    // The second side goes back and stops at RTR.
    let (lid, qpn) = (pair.sides[0].lid, pair.sides[0].qpn);
    let b = &mut pair.sides[1];
    let reset = transport::QpModify {
        state: Some(transport::QpState::Reset),
        ..transport::QpModify::default()
    };
    b.engine.modify_qp(pair.now, b.qpn, &reset).unwrap();
    for modify in &crate::bed::steps(&setting, lid, qpn)[..2] {
        b.engine.modify_qp(pair.now, b.qpn, modify).unwrap();
    }
    let [a, b] = &mut pair.sides;
    for wr_id in 0..2 {
        b.post_receive(wr_id, &[b.sge(0, 8)]);
        a.post(pair.now, wr_id, SendOperation::default(), &[a.sge(0, 8)]);
    }
    pair.settle();
    let b = &mut pair.sides[1];
    let established = transport::Event::QueuePair {
        qpn: b.qpn,
        event: QpEvent::CommunicationEstablished,
    };
    assert_eq!(b.events(), [established]);
    assert_eq!(pair.sides[0].sent().len(), 2, "RTR acknowledges");
}
