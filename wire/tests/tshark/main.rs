//! Stock tshark as the judge: a capture with packets of each kind must decode without
//! "Malformed", and each field that tshark shows must have the value that was put in.
//!
//! Needs `tshark` (Debian package of the same name, 4.0 or later) and fails without it. Heuristic
//! decoders that take the payload for something else are switched off.

#![allow(clippy::unwrap_used)]

#[path = "../fixtures/mod.rs"]
mod fixtures;

mod connections;
mod decode;
mod link;
mod management;
mod ports;
mod subnet;
mod transport;
