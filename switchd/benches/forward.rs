//! What one packet costs in the core of a switch: parse, VCRC check, tables, credits, both queues,
//! arbitration, VCRC update, copy into the outgoing frame.
//!
//! `cargo bench -p switchd --no-default-features --bench forward`
//!
//! Each round hands in one frame of packets of 290 bytes, pulls what leaves, and hands in the
//! credits for the next round. Reported is the median of the rounds, in nanoseconds a packet that
//! left. No sockets: this is the part of a switch's cost that is not IO.

#![allow(clippy::unwrap_used, reason = "a benchmark ends where it goes wrong")]
#![allow(clippy::disallowed_types, reason = "a benchmark measures real time")]
#![allow(clippy::print_stdout, reason = "the figures")]
#![allow(missing_docs, reason = "a program")]

#[path = "../tests/switch/bed.rs"]
#[allow(dead_code, reason = "shared with the tests")]
mod bed;

use std::time::Instant;

use bed::{Bed, Plan, datagram, port, record};
use link::{Device, FrameBuf, Input, PortConfig, Time};
use wire::attr::SlToVlTable;
use wire::{FlowControl, FlowOp, Format, Mtu, Vl};

/// Packets a frame: what fits into 60,000 bytes.
const PACKETS: usize = 204;
const PACKET_BYTES: usize = 290;
const ROUNDS: usize = 5000;
const VLS: u8 = 8;
const GROUP: u16 = 0xc005;

fn plan() -> Plan {
    let plan = Plan::default();
    Plan {
        port: PortConfig {
            mtu: Mtu::Mtu2048,
            vls: VLS,
            buffer_bytes: 128 * 1024,
            output_bytes: 16 * 1024,
            ..plan.port
        },
        ..plan
    }
}

/// Flow control of all VLs of a receiver that has taken everything.
fn credits(sent_blocks: &[u16; VLS as usize]) -> Vec<u8> {
    let mut frame = Vec::new();
    for (vl, sent) in (0..VLS).zip(sent_blocks) {
        let packet = FlowControl {
            op: FlowOp::Normal,
            fctbs: 0,
            vl: Vl::constant(vl),
            fccl: (sent + 2048) % FlowControl::MODULUS,
        };
        frame.extend([2, 0, 0, 6]);
        frame.extend(packet.to_bytes::<{ FlowControl::LEN }>());
    }
    frame
}

/// Runs the rounds; nanoseconds a packet that left.
fn measure(hosts: usize, prepare: impl Fn(&mut Bed), packets: &[Vec<u8>]) -> (f64, f64) {
    let mut bed = Bed::star(plan(), hosts);
    prepare(&mut bed);
    let frame: Vec<u8> = packets
        .iter()
        .cycle()
        .take(PACKETS)
        .flat_map(|p| record(p))
        .collect();
    let mut now = bed.now;
    let switch = &mut bed.switches[0];
    let mut sent = vec![[0u16; VLS as usize]; hosts + 1];
    let mut memory = vec![0; 61_000];
    let mut costs = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        for (number, sent) in (1u8..).zip(&sent[1..]) {
            hand_in(switch, now, number, &credits(sent));
        }
        now = now + 1;
        let mut left = 0;
        let start = Instant::now();
        hand_in(switch, now, 1, &frame);
        loop {
            let before = left;
            for number in switch.ready(now).iter() {
                let mut out = FrameBuf::new(&mut memory, usize::MAX);
                switch.transmit(now, number, &mut out);
                left += book(out.as_bytes(), &mut sent[number.index()]);
            }
            if left == before {
                break;
            }
        }
        let spent = start.elapsed();
        assert!(left >= PACKETS, "{left} packets left");
        costs.push(spent.as_secs_f64() * 1e9 / left as f64);
    }
    costs.sort_by(f64::total_cmp);
    (costs[ROUNDS / 2], costs[ROUNDS / 100])
}

fn hand_in(switch: &mut switchd::Switch, now: Time, number: u8, bytes: &[u8]) {
    let input = Input::Frame {
        port: port(number),
        head: now,
        tail: now,
        bytes,
    };
    switch.handle(now, input);
}

/// Counts the data packets of a frame, and their blocks by VL.
fn book(frame: &[u8], sent: &mut [u16; VLS as usize]) -> usize {
    let (mut at, mut packets) = (0, 0);
    while at < frame.len() {
        let len = usize::from(u16::from_be_bytes([frame[at + 2], frame[at + 3]]));
        if frame[at] == 1 {
            let vl = usize::from(frame[at + 4] >> 4);
            sent[vl] = (sent[vl] + 5) % FlowControl::MODULUS;
            packets += 1;
        }
        at += 4 + len;
    }
    packets
}

fn main() {
    let one_vl = [datagram(1, 2, 0, 0, PACKET_BYTES, 0)];
    let eight: Vec<_> = (0..VLS)
        .map(|vl| datagram(1, 2, vl, vl, PACKET_BYTES, 0))
        .collect();
    let group = [datagram(1, GROUP, 0, 0, PACKET_BYTES, 0)];
    let change_vl = |bed: &mut Bed| {
        let table = SlToVlTable([Vl::constant(5); 16]);
        bed.set(&[1], SlToVlTable::switch_modifier(port(1), port(2)), &table);
    };
    let cases: [(&str, (f64, f64)); 4] = [
        ("one VL", measure(2, |_| (), &one_vl)),
        ("one VL, changed", measure(2, change_vl, &one_vl)),
        ("eight VLs", measure(2, |_| (), &eight)),
        (
            "multicast, a copy of seven",
            measure(
                8,
                |bed| bed.set_group(&[1], GROUP, &[1, 2, 3, 4, 5, 6, 7, 8]),
                &group,
            ),
        ),
    ];
    println!(
        "packets of {PACKET_BYTES} bytes, {PACKETS} a frame, {ROUNDS} rounds: median (1st percentile)"
    );
    for (name, (median, low)) in cases {
        println!("{name:28} {median:6.1} ns ({low:.1})");
    }
}
