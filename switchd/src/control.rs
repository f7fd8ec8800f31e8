//! Requests to a switch over its local control socket.

use bincode::{Decode, Encode};
use wire::PortNum;
use wire::control::{DeviceReply, DeviceRequest};

/// A request to a switch.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Request {
    /// A request that any device serves. Answered by [`Reply::Device`].
    Device(DeviceRequest),
    /// Drops by reason. Answered by [`Reply::Drops`].
    Drops,
}

/// The reply of a switch.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Reply {
    /// The answer to [`Request::Device`].
    Device(DeviceReply),
    /// Each port that has dropped something, in ascending order.
    Drops(Vec<PortDrops>),
}

/// The drops of one port.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct PortDrops {
    /// The port.
    pub port: PortNum,
    /// Each reason for which something was dropped with its count, in a stable order.
    pub reasons: Vec<(String, u64)>,
}
