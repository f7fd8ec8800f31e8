//! Harness of the end-to-end tests: fabrics of real processes, brought up and looked at with the
//! `ibemu` command as a user has it, and taken down without a trace.
//!
//! Every fabric gets a name of its own, so tests and a user's fabrics never meet. Dropping a
//! [`Fabric`] takes it down; [`Fabric::down`] also asserts that nothing is left behind.

mod fabric;
mod live;
mod stock;
mod traces;

pub use fabric::{Fabric, Outcome, Transport, ibemu, ibemu_command};
pub use live::{Smps, named};
pub use stock::{OpenSm, diags, ibnetdiscover, umad2sim};
pub use traces::Traces;

use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(5);

/// Waits until `holds` returns `Ok`, or panics with its last `Err` once `within` has passed.
///
/// This is how a test says "within 3 s". The pause between two questions leaves the fabric its two
/// cores; nothing depends on its length.
///
/// # Panics
/// If `holds` has not returned `Ok` in time.
pub fn within<T>(limit: Duration, what: &str, mut holds: impl FnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        match holds() {
            Ok(value) => return value,
            Err(why) if start.elapsed() > limit => panic!("{what}: not within {limit:?}: {why}"),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}
