//! Whole runs: what a fabric in virtual time must always do.

#![allow(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

mod deadlock;
mod faults;
mod load;
mod service_levels;
mod twin;
mod workload;
