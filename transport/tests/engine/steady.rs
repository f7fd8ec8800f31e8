//! A connection that has found its stride allocates nothing.

use transport::{SendOperation, Status};
use wire::{DataPacket, Mtu, Service};

use crate::bed::{Pair, Setting};

/// Messages of every kind in both directions, without what the bed itself allocates.
fn exchange(pair: &mut Pair, out: &mut [u8]) -> usize {
    let mut done = 0;
    for from in 0..2 {
        let to = 1 - from;
        let remote = pair.sides[to].remote(0);
        let receive = [pair.sides[to].sge(40_000, 10_000)];
        pair.sides[to].post_receive(1, &receive);
        pair.sides[to].post_receive(2, &receive);
        let own = &mut pair.sides[from];
        let (data, word) = ([own.sge(0, 5000), own.sge(20_000, 5000)], [own.sge(0, 8)]);
        let send = SendOperation::Send { immediate: None };
        let write = SendOperation::Write {
            remote,
            immediate: Some(1),
        };
        own.post(pair.now, 1, send, &data);
        own.post(pair.now, 2, write, &data);
        own.post(pair.now, 3, SendOperation::Read { remote }, &data);
        own.post(
            pair.now,
            4,
            SendOperation::FetchAdd { remote, add: 1 },
            &word,
        );
    }
    loop {
        let mut idle = true;
        for from in 0..2 {
            let side = &mut pair.sides[from];
            let sent = side.engine.transmit(pair.now, &mut side.ram, 0xffff, out);
            if let Some(sent) = sent {
                idle = false;
                let packet = DataPacket::parse(&out[..sent.len]).unwrap();
                let peer = &mut pair.sides[1 - from];
                let transport = packet.transport().unwrap();
                let _ = peer
                    .engine
                    .receive(pair.now, &mut peer.ram, &packet, &transport);
            }
        }
        if idle {
            break;
        }
    }
    for side in &mut pair.sides {
        for cq in [side.send_cq, side.receive_cq] {
            while let Some(completion) = side.engine.poll_cq(cq) {
                assert_eq!(completion.status, Status::Success);
                done += 1;
            }
        }
    }
    done
}

#[test]
fn no_packet_allocates_in_the_steady_state() {
    let mut pair = Pair::new(&Setting {
        mtu: Mtu::Mtu1024,
        ..Setting::new(Service::Rc)
    });
    let mut out = vec![0; 4300];
    // Every place of the rings is used once.
    for _ in 0..64 {
        exchange(&mut pair, &mut out);
    }
    let mut done = 0;
    let allocations = allocation_counter::measure(|| {
        for _ in 0..20 {
            done += exchange(&mut pair, &mut out);
        }
    });
    assert_eq!(done, 20 * 12);
    assert_eq!(allocations.count_total, 0);
}
