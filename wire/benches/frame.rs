//! How long a receiver takes to find the packets in a full frame: `cargo bench -p wire --bench
//! frame`. Prints the median over rounds, nanoseconds a record of 290 bytes.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::hint::black_box;
use std::time::Instant;

use wire::{
    AttributeId, DataPacket, Delimiter, Format, Lid, Lrh, Mad, Method, RecordKind, Records,
    UdPacket,
};

const RECORDS: usize = 200;
const ROUNDS: usize = 2001;

fn frame() -> Vec<u8> {
    let mad = Mad::lid_smp(Method::GET, AttributeId::NODE_INFO, 0, 1);
    let packet = UdPacket::smp(Lid::new(1), Lid::new(2), &mad);
    let mut record = vec![0; Delimiter::LEN + packet.len()];
    let len = u16::try_from(packet.len()).unwrap();
    Delimiter {
        kind: RecordKind::Data,
        len,
    }
    .emit(&mut record);
    packet.emit(&mut record[Delimiter::LEN..]).unwrap();
    record.repeat(RECORDS)
}

/// Median time a record, in nanoseconds.
fn median_ns(frame: &[u8], mut take: impl FnMut(&[u8]) -> u32) -> f64 {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            let mut sum = 0u32;
            for record in Records::new(black_box(frame)) {
                sum = sum.wrapping_add(take(record.unwrap().bytes));
            }
            black_box(sum);
            start.elapsed().as_secs_f64() * 1e9 / RECORDS as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn main() {
    let frame = frame();
    let lrh = median_ns(&frame, |bytes| {
        u32::from(Lrh::parse(bytes).unwrap().0.dlid.get())
    });
    let packet = median_ns(&frame, |bytes| {
        u32::from(DataPacket::parse(bytes).unwrap().lrh().dlid.get())
    });
    let checked = median_ns(&frame, |bytes| {
        let packet = DataPacket::parse(bytes).unwrap();
        packet.check_vcrc().unwrap();
        u32::from(packet.lrh().dlid.get())
    });
    println!(
        "record and LRH {lrh:.1} ns, with its checks {packet:.1} ns, with VCRC {checked:.1} ns"
    );
}
