//! Every format of fixed length: golden vectors both ways, every truncated length, round trips.
//!
//! The vectors of `link` and `management` were laid out by hand from the clauses that the types
//! cite, each field with a value of its own; stock tshark judges the same layouts in
//! `tests/tshark.rs`. Those of `openib` are answers of OpenSM and ibsim.

#![allow(clippy::unwrap_used)]

mod check;
mod control;
mod link;
mod management;
mod openib;
mod packet;
mod records;
mod round_trip;
