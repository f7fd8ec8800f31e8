//! Harness of the end-to-end tests: fabrics of real processes, brought up and looked at with the
//! `ibemu` command as a user has it, and taken down without a trace.
//!
//! Every fabric gets a name of its own, so tests and a user's fabrics never meet. Dropping a
//! [`Fabric`] takes it down; [`Fabric::down`] also asserts that nothing is left behind.

mod binary;
mod capture;
mod cluster;
mod fabric;
mod live;
mod pace;
mod station;
mod stock;
mod traces;

pub use binary::{ibemu, ibemu_command};
pub use capture::{capture, tshark_fields};
pub use cluster::Cluster;
pub use fabric::{Fabric, Outcome, kill};
pub use live::{Smps, named};
pub use netio::transport::Transport;
pub use pace::paced;
pub use station::Station;
pub use stock::{OpenSm, diags, ibnetdiscover, umad2sim};
pub use traces::Traces;

use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(5);

/// Waits until `holds` returns `Ok`, or panics with its last `Err` once `limit` has passed.
///
/// This is how a test says "within 3 s": an `Ok` that comes after the limit fails as well. The
/// pause between two questions leaves the fabric its
/// two cores; nothing depends on its length.
///
/// # Panics
/// If `holds` has not returned `Ok` in time.
#[track_caller]
pub fn within<T>(limit: Duration, what: &str, mut holds: impl FnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        let answer = holds();
        let elapsed = start.elapsed();
        match answer {
            Ok(value) if elapsed <= limit => return value,
            Ok(_) => panic!("{what}: only after {elapsed:?}, not within {limit:?}"),
            Err(why) if elapsed > limit => panic!("{what}: not within {limit:?}: {why}"),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_in_time_is_returned() {
        let mut asked = 0;
        let value = within(Duration::from_secs(60), "the third answer", || {
            asked += 1;
            if asked < 3 {
                Err(asked.to_string())
            } else {
                Ok(asked)
            }
        });
        assert_eq!(value, 3);
    }

    #[test]
    #[should_panic(expected = "only after")]
    fn what_holds_too_late_fails() {
        let limit = Duration::from_millis(1);
        let start = Instant::now();
        within(limit, "an answer", || {
            while start.elapsed() <= 2 * limit {
                std::hint::spin_loop();
            }
            Ok(())
        });
    }

    #[test]
    #[should_panic(expected = "not within 0ns: no")]
    fn what_never_holds_fails_with_its_last_reason() {
        within::<()>(Duration::ZERO, "an answer", || Err("no".into()));
    }
}
