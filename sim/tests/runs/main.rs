//! Whole runs of fabrics in virtual time.

#![allow(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

mod deadlock;
mod faults;
mod load;
mod service_levels;
mod twin;
mod verbs;
mod workload;
