//! How long something takes without what the machine's other work adds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long the yardstick sleeps at a time.
const TICK: Duration = Duration::from_millis(5);

/// Runs `work`, and says how long it took but for the time by which a thread that does nothing else than
/// sleep was woken late meanwhile: on a machine whose processors are all taken, every step of `work` waits
/// for as long.
pub fn paced<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let yardstick = scope.spawn(|| {
            let mut late = Duration::ZERO;
            while !is_done.load(Ordering::Relaxed) {
                let asleep = Instant::now();
                std::thread::sleep(TICK);
                late += asleep.elapsed().saturating_sub(TICK);
            }
            late
        });
        let start = Instant::now();
        let value = work();
        let elapsed = start.elapsed();
        is_done.store(true, Ordering::Relaxed);
        let late = yardstick.join().expect("the yardstick only sleeps");
        (value, elapsed.saturating_sub(late))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_takes_longer_than_it_has_taken() {
        let start = Instant::now();
        let (value, paced) = paced(|| {
            std::thread::sleep(4 * TICK);
            7
        });
        assert_eq!(value, 7);
        assert!(paced <= start.elapsed());
    }
}
