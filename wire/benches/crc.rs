//! How long the check sums of a packet take, by its length: `cargo bench -p wire --bench crc`.
//!
//! Prints the median over rounds, nanoseconds a call.

#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use wire::{Vl, crc};

const ROUNDS: usize = 101;
const CALLS: u32 = 4000;

/// Median time of one call, in nanoseconds.
fn median_ns(mut call: impl FnMut() -> u32) -> f64 {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..CALLS {
                black_box(call());
            }
            start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn main() {
    println!(
        "{:>7} {:>9} {:>9} {:>14}",
        "bytes", "vcrc ns", "icrc ns", "vcrc update ns"
    );
    for words in [1u16, 8, 72, 79, 80, 128, 264, 520, 1032] {
        let packet: Vec<u8> = (0..words * 4)
            .map(|at| at.to_le_bytes()[0].wrapping_mul(7))
            .collect();
        let vcrc = median_ns(|| u32::from(crc::vcrc(black_box(&packet))));
        let icrc = median_ns(|| crc::icrc(black_box(&packet)));
        let (from, to) = (Vl::constant(3), Vl::constant(5));
        let update = median_ns(|| {
            u32::from(crc::vcrc_update_vl(
                black_box(0x1234),
                words,
                from,
                black_box(to),
            ))
        });
        println!("{:>7} {vcrc:>9.1} {icrc:>9.1} {update:>14.1}", packet.len());
    }
}
