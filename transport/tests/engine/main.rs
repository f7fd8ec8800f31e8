//! The transport engine through its public interface: two engines and what lies between them.

#![allow(clippy::unwrap_used, reason = "tests")]

mod bed;
mod connection;
mod datagrams;
mod direct;
mod model;
mod objects;
mod reliable;
mod states;
mod steady;
mod violations;
