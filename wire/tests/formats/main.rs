//! Every format of fixed length: golden vectors both ways, every truncated length, round trips.
//!
//! The vectors of `link`, `mad`, `attributes`, `services`, `cm` and `vendor` were laid out by hand from the clauses that the types
//! cite, each field with a value of its own; stock tshark judges the same layouts in
//! `tests/tshark`. Those of `openib` are answers of OpenSM and ibsim.

#![allow(clippy::unwrap_used)]

#[path = "../fixtures/mod.rs"]
mod fixtures;

mod attributes;
mod check;
mod cm;
mod control;
mod iba;
mod link;
mod mad;
mod openib;
mod packet;
mod rates;
mod records;
mod round_trip;
mod services;
mod vendor;
