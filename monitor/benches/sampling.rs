//! What sampling a live fabric costs: time of a sample, CPU of the sampler and of the fabric's processes, and how long it
//! takes to render what is scraped.
//!
//! `benches/monitor.sh [TOPOLOGY] [SECONDS]` brings a fabric up and calls this:
//! `cargo bench -p monitor --bench sampling -- MAD_SOCKET SECONDS PID..`
//!
//! CPU is what the scheduler says of the processes named and of this one, in a window of SECONDS without a sampler and then in
//! one with it; the difference is the cost. Rendering is the median of nine.

#![allow(clippy::unwrap_used, reason = "a benchmark ends where it goes wrong")]
#![allow(clippy::print_stdout, reason = "the figures")]
#![allow(missing_docs, reason = "a program")]

use std::time::{Duration, Instant};

use monitor::{Format, Options, Sampler, Source, render};
use wire::{PortNum, SaKey};

const RENDERS: usize = 9;

/// CPU seconds of all these processes' threads together, as the scheduler counts them: clock ticks miss who runs shortly and often.
fn cpu_s(pids: &[u32]) -> f64 {
    let threads = |pid| {
        std::fs::read_dir(format!("/proc/{pid}/task"))
            .into_iter()
            .flatten()
    };
    let all = pids.iter().flat_map(threads).flatten();
    let ns = all.filter_map(|thread| {
        let told = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        told.split(' ').next()?.parse::<u64>().ok()
    });
    wire::convert::real(ns.sum()) / 1e9
}

/// Part of a core that the processes take in the next `window`.
fn share(pids: &[u32], window: Duration) -> f64 {
    let (begun, before) = (Instant::now(), cpu_s(pids));
    std::thread::sleep(window);
    (cpu_s(pids) - before) / begun.elapsed().as_secs_f64()
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|it| it != "--bench")
        .collect();
    let [socket, seconds, pids @ ..] = arguments.as_slice() else {
        println!("usage: sampling MAD_SOCKET SECONDS PID..");
        return;
    };
    let window = Duration::from_secs(seconds.parse().unwrap());
    let mut pids: Vec<u32> = pids.iter().map(|pid| pid.parse().unwrap()).collect();
    pids.push(std::process::id());
    let idle = share(&pids, window);

    let source = Source {
        mad_socket: socket.into(),
        port: PortNum::new(1),
        sa_key: SaKey::default(),
        devices: Vec::new(),
        controllers: Vec::new(),
    };
    let options = Options {
        // The first look at the fabric is the only one: what repeats is sampling.
        discovery_interval: Duration::from_secs(3600),
        ..Options::default()
    };
    let sampler = Sampler::start(source, options).unwrap();
    let mut samples = sampler.subscribe();
    let first = Instant::now();
    while sampler.current().sequence < 2 {
        assert!(
            first.elapsed() < Duration::from_secs(60),
            "{:?}",
            sampler.current().collection
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    let begun = sampler.current().sequence;
    let sampling = share(&pids, window);
    let snapshot = samples.borrow_and_update().clone();
    let count = snapshot.sequence - begun;
    println!("ports {}, cabled {}", snapshot.fabric.ports.len(), {
        let cabled = snapshot
            .fabric
            .ports
            .iter()
            .filter(|port| port.peer.is_some());
        cabled.count()
    });
    println!(
        "samples {count} in {} s, the last: {:?}",
        window.as_secs(),
        snapshot.collection
    );
    println!(
        "CPU without {:.1} %, with {:.1} %, cost {:.1} % of a core",
        100.0 * idle,
        100.0 * sampling,
        100.0 * (sampling - idle)
    );
    for format in [Format::OpenMetrics, Format::Text] {
        let mut took: Vec<(Duration, usize)> = (0..RENDERS)
            .map(|_| {
                let begun = Instant::now();
                let text = render(&snapshot, format);
                (begun.elapsed(), text.len())
            })
            .collect();
        took.sort_unstable();
        let (time, bytes) = took[RENDERS / 2];
        println!(
            "render {format:?}: {:.1} ms, {bytes} bytes",
            time.as_secs_f64() * 1e3
        );
    }
}
