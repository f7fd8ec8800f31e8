//! Fault campaigns on a live fabric: rounds of faults drawn from a seed, under traffic, and after each
//! whether the fabric is whole again and how long that took. docs/reliability.md says what is done,
//! how heal time is defined and by which rules a campaign fails.
//!
//! ```text
//!  schedule (seed) --> injector ---faults---> processes, cables
//!                          |                       |
//!  round: since ... healed | taken back ... healed, whole, counters, processes, traffic --> report
//!                          |                       |
//!                      remains (pairs expected) --> prober (pairs that answer), monitor (which sweep)
//! ```

mod campaign;
mod checks;
mod injector;
mod kind;
mod monitor;
mod pressure;
mod probe;
mod remains;
mod report;
mod round;
mod schedule;
mod tables;
mod traffic;

pub use campaign::{Length, Plan, run};
pub use kind::{FaultKind, FaultKinds};
