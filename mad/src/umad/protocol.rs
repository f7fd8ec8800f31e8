//! Requests of the client library other than sending and receiving, and their replies.

use bincode::{Decode, Encode};
use wire::{Lid, Lmc, PortNum, Sl};

/// A request on a connection that is not a port's descriptor.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Request {
    /// Asks for the adapter's description. Answered by [`Reply::Adapter`].
    Describe,
    /// From the answer on, [`Reply::Done`], this connection is a descriptor of the port, and carries user
    /// MADs only.
    Open {
        /// The port, from 1.
        port: PortNum,
        /// Chosen by the client at random: other connections name this descriptor by it.
        descriptor: u128,
    },
    /// Registers an agent. Answered by [`Reply::Registered`].
    Register {
        /// The descriptor whose agent it is.
        descriptor: u128,
        /// The class and methods of an agent.
        agent: AgentRequest,
    },
    /// Ends an agent. Answered by [`Reply::Done`].
    Unregister {
        /// The descriptor whose agent it is.
        descriptor: u128,
        /// The agent.
        agent: u32,
    },
    /// Sends a user MAD that is longer than a message: so many bytes follow in messages of their own, header
    /// first. Answered by [`Reply::Done`] when all have come.
    Send {
        /// The descriptor whose agent sends it.
        descriptor: u128,
        /// How many bytes.
        length: u32,
    },
    /// Keep files that describe the adapter as its driver's do, below `infiniband/<name>` of a folder of the
    /// host's, for as long as this connection stands. Answered by [`Reply::Sysfs`] when they are there.
    Sysfs {
        /// The adapter's name.
        name: String,
    },
    /// Asks for the file that sets the port's IsSM while a program has it open. Answered by
    /// [`Reply::IsSmFile`].
    IsSmFile {
        /// The port, from 1.
        port: PortNum,
    },
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Reply {
    /// To [`Request::Describe`].
    Adapter(Box<Adapter>),
    /// To [`Request::Register`].
    Registered {
        /// The agent's number, from 0.
        agent: u32,
    },
    /// To [`Request::IsSmFile`].
    IsSmFile {
        /// Its path.
        path: String,
    },
    /// To [`Request::Sysfs`].
    Sysfs {
        /// The path of the folder.
        path: String,
    },
    /// It is done.
    Done,
    /// It is not done.
    Refused(Refusal),
}

/// Why something is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Refusal {
    /// A value is out of range, or another agent has what was asked for.
    Invalid,
    /// There is no such port, descriptor or agent.
    Absent,
    /// There are as many as there may be.
    Full,
    /// The host did not do it; its log says why.
    Failed,
}

/// An agent as a program asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct AgentRequest {
    /// Management class; 0: an agent that only asks, in any class of its queue pair.
    pub class: u8,
    /// Version of the class.
    pub version: u8,
    /// Queue pair 0 or 1.
    pub qpn: u8,
    /// The vendor's OUI, where datagrams of the class hold one.
    pub oui: [u8; 3],
    /// Version of RMPP that the host is to handle for it; 0: none.
    pub rmpp_version: u8,
    /// Whether the program handles RMPP itself.
    pub user_rmpp: bool,
    /// Which unsolicited methods it is given, a bit each.
    pub methods: u128,
}

/// A channel adapter as its driver describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Adapter {
    /// Node GUID.
    pub node_guid: u64,
    /// System image GUID.
    pub system_image_guid: u64,
    /// Node description.
    pub description: String,
    /// The vendor, 24 bits.
    pub vendor_id: u32,
    /// The vendor's number of the device.
    pub device_id: u16,
    /// Device revision.
    pub revision: u32,
    /// Its ports, from 1.
    pub ports: Vec<AdapterPort>,
}

/// A port of a channel adapter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct AdapterPort {
    /// Its number.
    pub number: PortNum,
    /// Subnet prefix.
    pub gid_prefix: u64,
    /// GUIDs, the port's own first.
    pub guids: Vec<u64>,
    /// Base LID.
    pub lid: Lid,
    /// How many low bits of the LID are free.
    pub lmc: Lmc,
    /// LID of the master subnet manager.
    pub sm_lid: Lid,
    /// Service level to it.
    pub sm_sl: Sl,
    /// PortState, 1 to 4.
    pub state: u8,
    /// PortPhysicalState.
    pub physical_state: u8,
    /// CapabilityMask.
    pub capabilities: u32,
    /// LinkWidthActive.
    pub width: u8,
    /// LinkSpeedActive, LinkSpeedExtActive and LinkSpeedExtActive2.
    pub speed: [u8; 3],
    /// The P_Key table.
    pub pkeys: Vec<u16>,
    /// The port's counters, by the names of the driver's files.
    pub counters: Vec<(String, u64)>,
}
