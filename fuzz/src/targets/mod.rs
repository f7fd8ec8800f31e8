//! What the targets do, by what they read.

pub(crate) mod cluster;
pub(crate) mod device;
pub(crate) mod histories;
pub(crate) mod ibumad;
pub(crate) mod libraries;
mod mads;
pub(crate) mod manager;
pub(crate) mod messages;
pub(crate) mod packets;
pub(crate) mod reports;
pub(crate) mod ring;
mod steps;
pub(crate) mod subnet;
pub(crate) mod texts;
pub(crate) mod transfers;
pub(crate) mod transport;
pub(crate) mod tunnel;
pub(crate) mod umad;
