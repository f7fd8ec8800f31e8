//! Switches and hosts, wired in virtual time and configured by management packets over their
//! links.

#![allow(clippy::unwrap_used, reason = "all of this is test code")]

mod allocation;
mod bed;
mod forwarding;
mod hostile;
mod management;
mod multicast;
mod partitions;
mod timing;
