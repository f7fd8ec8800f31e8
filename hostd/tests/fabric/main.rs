//! Hosts in a fabric in virtual time, managed by hand through the first host's MAD client.

#![allow(clippy::unwrap_used, reason = "tests")]

mod accounting;
mod bed;
mod connections;
mod datagram;
mod grants;
mod groups;
mod lab;
mod manage;
mod management;
mod ping;
mod traffic;
mod verbs;
mod way;
