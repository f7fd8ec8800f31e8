//! Requests to any device over its local control socket: cables and figures, never
//! configuration (that is a MAD over the fabric).
//!
//! One message a `SOCK_SEQPACKET`
//! packet, one reply a request, in order.

use crate::tunnel::CableSecret;
use crate::udplink::UdpEndpoint;
use crate::{Guid, PortNum};
use bincode::{Decode, Encode};

/// A request to a device.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum DeviceRequest {
    /// Asks for name, GUID and the like. Answered by [`DeviceReply::Identity`].
    Identify,
    /// The device's ends of its UDP cables and tunnels, with what the other ends must know of them. Answered
    /// by [`DeviceReply::Endpoints`].
    Endpoints,
    /// UDP: the other end of a port's cable is `peer`. Link-up starts anew if it has changed.
    Connect {
        /// The port.
        port: PortNum,
        /// The other end.
        peer: UdpEndpoint,
    },
    /// The cable of a port is pulled (`false`) or plugged (`true`).
    Cable {
        /// The port.
        port: PortNum,
        /// Whether it is plugged.
        plugged: bool,
    },
    /// State, VLs and counters of every port. Answered by [`DeviceReply::Ports`].
    Ports,
    /// Tell the peers that the links go down, then exit.
    Shutdown,
    /// Shared memory: the cable of a port is the one whose descriptors come with the request: the memory, the doorbell
    /// of this end, that of the other end. Link-up starts anew.
    Attach {
        /// The port.
        port: PortNum,
        /// Which cable: a random number.
        cable: u64,
        /// Whether this is the second of its two ends.
        second: bool,
    },
    /// The cables in shared memory that the ports have been given. Answered by [`DeviceReply::Attached`].
    Attached,
    /// What is in the buffers and queues of every port, and its credits, by virtual lane. Answered by
    /// [`DeviceReply::Lanes`].
    Lanes,
    /// Tunnel: the other end of a port's cable is `peer`, and its keys are made of `secret`. Link-up starts anew if either has
    /// changed.
    ConnectTunnel {
        /// The port.
        port: PortNum,
        /// The other end.
        peer: UdpEndpoint,
        /// The cable's secret, the same for both ends.
        secret: CableSecret,
    },
}

/// The reply of a device.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum DeviceReply {
    /// The device's name, GUID and the like.
    Identity {
        /// Node description.
        name: String,
        /// Node GUID.
        guid: Guid,
        /// Process id.
        pid: u32,
    },
    /// Ends of UDP cables and tunnels, in ascending order of port.
    Endpoints(Vec<(PortNum, UdpEndpoint)>),
    /// Every port's status, in ascending order of port.
    Ports(Vec<PortStatus>),
    /// Done.
    Done,
    /// The request could not be met: what was wrong, and what to do.
    Refused(String),
    /// The numbers of cables in shared memory, in ascending order of port.
    Attached(Vec<(PortNum, u64)>),
    /// Every port's data VLs, in ascending order of port; a switch's port 0 has none.
    Lanes(Vec<PortLanes>),
}

/// One port as its device sees it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct PortStatus {
    /// The port; 0 is a switch's management port.
    pub port: PortNum,
    /// Logical state: 1 Down, 2 Init, 3 Armed, 4 Active (IBA 14.2.5.6).
    pub state: u8,
    /// Base LID (port 0 of a switch, port 1 of a host; else 0).
    pub lid: u16,
    /// LID mask control.
    pub lmc: u8,
    /// Operational data VLs.
    pub vls: u8,
    /// MTU in use, bytes.
    pub mtu: u16,
    /// Counters by their specification names, and drops by reason, in a stable order.
    pub counters: Vec<(String, u64)>,
}

/// The data VLs of one port.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct PortLanes {
    /// The port.
    pub port: PortNum,
    /// VL 0 and on, as many as the port operates.
    pub lanes: Vec<LaneStatus>,
}

/// One virtual lane of a port. Blocks are of 64 bytes, as credits count them (IBA 7.9.4.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct LaneStatus {
    /// Blocks of the input buffer that packets take.
    pub input_used: u32,
    /// Blocks that the input buffer has.
    pub input_capacity: u32,
    /// Blocks of the output queue that packets take.
    pub output_used: u32,
    /// Blocks that the output queue has.
    pub output_capacity: u32,
    /// Blocks that the peer's buffer still takes.
    pub credits: u16,
    /// Words of 4 bytes sent since the device was started.
    pub xmit_words: u64,
    /// Nanoseconds since then during which data waited and had no credits.
    pub xmit_wait_ns: u64,
}
