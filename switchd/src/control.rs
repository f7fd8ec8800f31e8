//! Requests to a switch over its local control socket.

use bincode::{Decode, Encode};
use wire::control::{DeviceReply, DeviceRequest};

/// A request to a switch.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Request {
    /// A request that any device serves. Answered by [`Reply::Device`].
    Device(DeviceRequest),
}

/// The reply of a switch.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Reply {
    /// The answer to [`Request::Device`].
    Device(DeviceReply),
}
