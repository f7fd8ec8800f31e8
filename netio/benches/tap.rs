//! What captures cost the dataplane thread: `cargo bench -p netio --bench tap`.
//!
//! A frame of 84 packets of 290 bytes, as many as a busy link has in one, is offered to the taps and these are flushed, as each round of the
//! thread does it. Prints the median over rounds, nanoseconds a frame.

#![allow(clippy::print_stdout, reason = "the figures")]
#![allow(clippy::unwrap_used, reason = "a benchmark ends where it goes wrong")]
#![allow(missing_docs, reason = "a program")]

use std::hint::black_box;
use std::time::Instant;

use link::Time;
use netio::dataplane::{Captured, Taps};
use wire::PortNum;
use wire::capture::{CaptureRequest, Direction};

const ROUNDS: usize = 101;
const FRAMES: u32 = 2000;
const PACKETS: usize = 84;
const PORT: PortNum = PortNum::new(1);

/// Records of data packets, LRH to VCRC.
fn frame() -> Vec<u8> {
    let len: u16 = 290;
    let words = ((len - 2) / 4).to_be_bytes();
    let mut record = vec![1, 0];
    record.extend(len.to_be_bytes());
    record.extend([0x00, 0x02, 0, 5, words[0], words[1], 0, 9]);
    record.resize(4 + usize::from(len), 0xaa);
    record.repeat(PACKETS)
}

/// Median time of one frame with these taps; `take` takes what was captured.
fn median_ns(taps: &mut Taps, mut take: impl FnMut()) -> f64 {
    let frame = frame();
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..FRAMES {
                taps.offer(PORT, Direction::Received, Time(1), black_box(&frame));
                black_box(taps.flush());
                take();
            }
            start.elapsed().as_secs_f64() * 1e9 / f64::from(FRAMES)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn main() {
    let request = |port, snap_len, filter: &str| CaptureRequest {
        port,
        direction: None,
        snap_len,
        filter: filter.parse().unwrap(),
    };
    println!(
        "no capture: {:.2} ns a frame of {PACKETS} packets",
        median_ns(&mut Taps::default(), || {})
    );
    for (what, port, snap_len, filter) in [
        ("a capture at another port", PortNum::new(2), u16::MAX, ""),
        (
            "a capture whose filter takes nothing",
            PORT,
            u16::MAX,
            "dlid=77",
        ),
        ("a capture of the first 64 bytes", PORT, 64, ""),
        ("a capture of whole packets", PORT, u16::MAX, ""),
    ] {
        let (tap, mut captured) = Captured::new(1, request(port, snap_len, filter));
        let mut taps = Taps::default();
        taps.add(tap);
        let ns = median_ns(&mut taps, || while captured.try_next().is_some() {});
        println!(
            "{what}: {ns:.2} ns a frame, {} packets lost",
            captured.lost()
        );
    }
}
