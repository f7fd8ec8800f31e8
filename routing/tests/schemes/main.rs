//! The papers' schemes beside MLID04, judged by the verifier, by what the papers say, and by golden
//! tables.
#![allow(clippy::unwrap_used, reason = "a test")]

mod clos;
mod credit_loops;
#[path = "../fabrics/mod.rs"]
mod fabrics;
mod ftree;
mod lash;
mod lid_assignment;
mod multicast;
mod nue;
mod qos;
mod support;
mod torus_2qos;
mod vls;
