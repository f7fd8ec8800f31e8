//! What leaves when: checks on the way in, arbitration, pacing, lifetimes.

use wire::attr::VlArbEntry;

use super::*;
use crate::Pacing;

/// Offers `count` packets of 290 bytes on `vl`; how many were taken.
fn fill(end: &mut End, now: Time, vl: u8, count: usize) -> usize {
    (0..count)
        .take_while(|_| offer_or_release(end, now, vl))
        .count()
}

fn offer_or_release(end: &mut End, now: Time, vl: u8) -> bool {
    match end.offer(now, vl, 290) {
        Ok(()) => true,
        Err(Refusal::Full(packet)) => {
            packet.release(&mut end.pool);
            false
        }
        Err(Refusal::Dropped(reason)) => panic!("{}", reason.name()),
    }
}

#[test]
fn damaged_packets_are_dropped_for_the_right_reason() {
    type Damage = fn(&mut Vec<u8>);
    let cases: [(&str, DropReason, Damage); 7] = [
        ("a flipped bit", DropReason::BadVcrc, |p| p[100] ^= 1),
        ("a VL that is not operational", DropReason::BadVl, |p| {
            *p = raw_packet(7, 290);
        }),
        ("a version that is not 0", DropReason::BadVersion, |p| {
            p[0] |= 1
        }),
        ("DLID 0", DropReason::BadDlid, |p| {
            p[2..4].fill(0);
            mend_vcrc(p);
        }),
        (
            "the permissive DLID on a data VL",
            DropReason::BadDlid,
            |p| {
                p[2..4].fill(0xff);
                mend_vcrc(p);
            },
        ),
        ("more than the MTU", DropReason::TooLong, |p| {
            *p = raw_packet(0, 514)
        }),
        ("a data packet on VL15", DropReason::BadManagement, |p| {
            *p = raw_packet(0, 100);
            p[0] = 0xf0;
            mend_vcrc(p);
        }),
    ];
    for (what, reason, damage) in cases {
        let mut pair = Pair::active(config());
        let mut packet = raw_packet(0, 290);
        damage(&mut packet);
        pair.hand_in(1, &data_record(&packet));
        assert_eq!(pair.ends[1].dropped(reason), 1, "{what}");
        assert_eq!(pair.ends[1].spec().rcv_errors, 1, "{what}");
        assert_eq!(pair.ends[1].port.arrived(), 0, "{what}");
    }
}

fn mend_vcrc(packet: &mut [u8]) {
    let at = packet.len() - 2;
    let vcrc = wire::crc::vcrc(&packet[..at]);
    packet[at..].copy_from_slice(&vcrc.to_be_bytes());
}

#[test]
fn a_damaged_record_is_dropped_alone() {
    let mut pair = Pair::active(config());
    let mut wrong_length = data_record(&raw_packet(0, 290));
    wrong_length[3] -= 1;
    wrong_length.pop();
    let frame = [wrong_length, data_record(&raw_packet(1, 290))].concat();
    pair.hand_in(1, &frame);
    pair.ends[1].drain();
    assert_eq!(pair.ends[1].taken, [(Vl::constant(1), 290)]);
    assert_eq!(pair.ends[1].dropped(DropReason::BadLength), 1);
}

#[test]
fn packets_and_words_are_counted_at_both_ends() {
    let mut pair = Pair::active(config());
    let now = pair.now;
    pair.ends[0].offer(now, 0, 290).unwrap();
    pair.ends[0].offer(now, 15, 290).unwrap();
    pair.settle();
    let (sent, received) = (pair.ends[0].spec(), pair.ends[1].spec());
    assert_eq!((sent.xmit_pkts, sent.xmit_data_words), (2, 144));
    assert_eq!((received.rcv_pkts, received.rcv_data_words), (2, 144));
    assert_eq!((sent.unicast_xmit_pkts, received.unicast_rcv_pkts), (2, 2));
}

#[test]
fn a_packet_above_the_neighbour_s_mtu_is_discarded() {
    let large = PortConfig {
        mtu: Mtu::Mtu2048,
        buffer_bytes: 8192,
        output_bytes: 8192,
        ..config()
    };
    let mut pair = Pair::active(large);
    let now = pair.now;
    pair.ends[0].port.set_neighbor_mtu(Mtu::Mtu256);
    let refused = pair.ends[0].offer(now, 0, 514);
    assert!(matches!(
        refused,
        Err(Refusal::Dropped(DropReason::NeighborMtu))
    ));
    assert_eq!(pair.ends[0].spec().xmit_discards, 1);
    pair.ends[0].port.set_neighbor_mtu(Mtu::Mtu4096);
    assert_eq!(
        pair.ends[0].port.neighbor_mtu(),
        Mtu::Mtu2048,
        "not above its own"
    );
}

#[test]
fn an_exactly_paced_port_sends_at_the_rate_of_its_link() {
    let paced = PortConfig {
        rate: sdr_1x(),
        pacing: Pacing::EXACT,
        ..config()
    };
    let mut pair = Pair::active(paced);
    let now = pair.now;
    assert_eq!(fill(&mut pair.ends[0], now, 0, 5), 5);
    pair.settle();
    assert_eq!(pair.ends[0].spec().xmit_pkts, 1);
    pair.pass(4 * 290 * 4 - 1);
    assert_eq!(pair.ends[0].spec().xmit_pkts, 4);
    pair.pass(1);
    assert_eq!(pair.ends[0].spec().xmit_pkts, 5, "4 ns a byte");
}

#[test]
fn a_packet_on_its_way_out_keeps_its_buffer_until_it_has_left() {
    let model = PortConfig {
        rate: sdr_1x(),
        pacing: Pacing::EXACT,
        output_bytes: 320,
        mtu: Mtu::Mtu256,
        ..config()
    };
    let mut pair = Pair::active(model);
    let now = pair.now;
    assert_eq!(fill(&mut pair.ends[0], now, 0, 2), 1, "one packet out");
    pair.settle();
    assert_eq!(fill(&mut pair.ends[0], now, 0, 1), 0, "it is on the link");
    pair.pass(290 * 4);
    let now = pair.now;
    assert_eq!(fill(&mut pair.ends[0], now, 0, 1), 1);
}

#[test]
fn a_live_port_keeps_the_rate_in_bursts() {
    let live = PortConfig {
        rate: sdr_1x(),
        pacing: Pacing::live(1.0).unwrap(),
        ..config()
    };
    let mut pair = Pair::active(live);
    let start = pair.now;
    while pair.now.since_ns(start) < 100_000_000 {
        let now = pair.now;
        let before = pair.frames[0];
        fill(&mut pair.ends[0], now, 0, 1000);
        pair.settle();
        pair.ends[1].drain();
        pair.settle();
        if pair.frames[0] == before {
            let due = pair.ends[0].port.deadline().unwrap();
            pair.now = pair.now.max(due.at);
        }
    }
    let bytes = pair.ends[0].spec().xmit_pkts * 290;
    let error = (bytes * 4).abs_diff(100_000_000);
    assert!(
        error <= 15_000_000,
        "{bytes} bytes in 100 ms at 4 ns a byte"
    );
}

#[test]
fn vls_share_the_link_by_their_weights() {
    let mut pair = Pair::active(config());
    let entry = |vl, weight| VlArbEntry {
        vl: Vl::constant(vl),
        weight,
    };
    let table = [entry(0, 15), entry(1, 5)];
    pair.ends[0].port.arbiter_mut().set_low(table);
    for _ in 0..400 {
        let now = pair.now;
        for vl in 0..2 {
            fill(&mut pair.ends[0], now, vl, 100);
        }
        let mut memory = [0; 294];
        let mut frame = FrameBuf::new(&mut memory, 1);
        let End { port, pool, .. } = &mut pair.ends[0];
        port.transmit(now, &mut frame, pool);
        pair.hand_in(1, frame.as_bytes());
        pair.ends[1].drain();
        pair.step(1, &mut || false);
    }
    let count = |number| {
        pair.ends[1]
            .taken
            .iter()
            .filter(|(vl, _)| vl.get() == number)
            .count()
    };
    let (heavy, light) = (count(0), count(1));
    assert!(heavy.abs_diff(3 * light) <= 3, "{heavy} and {light}");
}

#[test]
fn a_vl_without_weight_never_sends_and_wakes_nobody() {
    let mut pair = Pair::active(config());
    pair.settle();
    let now = pair.now;
    let only_vl_1 = VlArbEntry {
        vl: Vl::constant(1),
        weight: 1,
    };
    pair.ends[0].port.arbiter_mut().set_low([only_vl_1]);
    fill(&mut pair.ends[0], now, 0, 1);
    assert!(!pair.ends[0].port.is_ready(now));
    fill(&mut pair.ends[0], now, 1, 1);
    pair.settle();
    assert_eq!(pair.ends[0].spec().xmit_pkts, 1);
}

#[test]
fn a_packet_that_stays_too_long_at_the_head_of_its_queue_is_discarded() {
    let mut pair = Pair::active(config());
    let now = pair.now;
    pair.ends[0].port.set_head_of_queue_life_ns(Some(1000));
    fill(&mut pair.ends[0], now, 0, 14);
    pair.settle();
    assert_eq!(pair.ends[0].spec().xmit_pkts, 12, "credits for no more");
    pair.pass(999);
    assert_eq!(pair.ends[0].dropped(DropReason::HeadOfQueue), 0);
    pair.pass(1);
    assert_eq!(pair.ends[0].dropped(DropReason::HeadOfQueue), 1);
    pair.pass(1000);
    assert_eq!(
        pair.ends[0].dropped(DropReason::HeadOfQueue),
        2,
        "a limit of its own"
    );
    assert_eq!(pair.ends[0].spec().xmit_discards, 2);
    assert!(pair.ends[0].port.is_idle(Vl::constant(0)));
}

#[test]
fn a_packet_that_is_in_the_device_for_too_long_is_discarded() {
    let mut pair = Pair::active(config());
    let now = pair.now;
    pair.ends[0].port.set_device_life_ns(crate::life_time_ns(1));
    fill(&mut pair.ends[0], now, 0, 14);
    pair.settle();
    pair.pass(8192);
    assert_eq!(
        pair.ends[0].dropped(DropReason::Lifetime),
        2,
        "both at once"
    );
}

#[test]
fn lifetimes_run_on_the_time_scale_of_the_link() {
    let slow = PortConfig {
        pacing: Pacing::live(1000.0).unwrap(),
        ..config()
    };
    let mut pair = Pair::active(slow);
    let now = pair.now;
    pair.ends[0].port.set_head_of_queue_life_ns(Some(10_000));
    pair.pass(1_000_000_000);
    fill(&mut pair.ends[0], now, 0, 14);
    pair.settle();
    pair.pass(9_999_999);
    assert_eq!(pair.ends[0].dropped(DropReason::HeadOfQueue), 0);
}

#[test]
fn what_waits_when_the_link_goes_down_is_dropped_and_counted() {
    let mut pair = Pair::active(config());
    let now = pair.now;
    fill(&mut pair.ends[0], now, 0, 14);
    pair.settle();
    pair.set_carrier(0, false);
    assert_eq!(pair.ends[0].dropped(DropReason::LinkDown), 2);
    assert_eq!(pair.ends[0].pool.handles(), 0);
}
