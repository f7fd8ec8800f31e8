//! Requests and replies of the controller's local control socket.
//!
//! Messages are encoded by `wire::control` (bincode, capped), one message a `SOCK_SEQPACKET`
//! packet, one reply a request, in order.

use bincode::{Decode, Encode};
use wire::Guid;

pub use crate::log::{Happening, LogEntry, LogPage};

/// How many warnings, unreachable and missing devices a [`Status`] holds at most.
pub const LIST_MAX: usize = 32;

/// A request to the controller.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Request {
    /// Process id. Answered by [`Reply::Identity`].
    Identify,
    /// The state of the subnet. Answered by [`Reply::Status`].
    Status,
    /// What the manager has done since the log's entry with this number; a number that is larger than all tells the
    /// newest. Answered by [`Reply::Log`].
    Log {
        /// The last entry that is known; 0 for none.
        after: u64,
    },
    /// Discover the subnet anew at once. Answered by [`Reply::Done`] before the sweep ends;
    /// [`Status::generation`] tells when it has.
    Resweep,
    /// Exit. The subnet is left as it is.
    Shutdown,
}

/// The controller's reply.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Reply {
    /// Who the controller is.
    Identity {
        /// Process id.
        pid: u32,
    },
    /// How the subnet stands.
    Status(Box<Status>),
    /// Part of the log.
    Log(LogPage),
    /// Done.
    Done,
    /// The request could not be met: what was wrong, and what to do.
    Refused(String),
}

/// The phase of the subnet manager.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub enum Phase {
    /// Not started yet.
    #[default]
    Starting,
    /// Asking devices who they are and where their cables lead.
    Discovering,
    /// Computing LIDs and tables, and writing them into the devices.
    Programming,
    /// All that was found is programmed and Active.
    Up,
    /// Another subnet manager runs the subnet: this one polls it, and takes over when it is gone.
    Standby {
        /// Port GUID of the master.
        master: Guid,
    },
    /// Another subnet manager of lower priority (or higher GUID) is master too, as when two subnets are
    /// joined: this one writes nothing until the other has handed over.
    AwaitsHandover {
        /// Port GUID of the other master.
        master: Guid,
    },
    /// The master has disabled this manager: it does nothing until the master enables it.
    NotActive,
    /// The subnet cannot be brought up as asked. The manager goes on answering, and tries again
    /// when the fabric changes.
    Failed {
        /// What was wrong, and what to do.
        reason: String,
    },
}

/// A subnet manager beside another host.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct OtherManager {
    /// The name of its host.
    pub name: String,
    /// GUID of its port.
    pub guid: Guid,
    /// Its priority, 0..=15.
    pub priority: u8,
    /// Its state by the names of IBA 14.4.1: `discovering`, `standby`, `not active`, `master`.
    pub state: String,
}

/// A device that cannot be managed.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Unreachable {
    /// Its name, if it was once known; else the port that leads to it.
    pub name: String,
    /// Its GUID, if it was once known; else 0.
    pub guid: Guid,
    /// Why.
    pub reason: String,
}

/// How the subnet stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Status {
    /// What the manager is doing.
    pub phase: Phase,
    /// How many sweeps have been completed, programming included. It grows by one each time the
    /// subnet has come (or stayed) up after a sweep.
    pub generation: u64,
    /// Routing engine in use, with its parameters, e.g. `mlid on IBFT(4,3)`; empty before the
    /// first tables.
    pub engine: String,
    /// Whether `auto` is still to measure which engine serves the fabric best; that in use is one for now.
    pub unmeasured: bool,
    /// Whether something that was once there is missing (cables, devices).
    pub degraded: bool,
    /// LID mask control of the hosts.
    pub lmc: u8,
    /// Switches found.
    pub switches: u32,
    /// Channel adapters found.
    pub hosts: u32,
    /// Cables found, each counted once.
    pub links: u32,
    /// LIDs in use, those of every LID mask counted.
    pub lids_used: u32,
    /// Ports with a cable that are Active (both ends counted; management ports not).
    pub active_ports: u32,
    /// Priority of this manager, 0..=15.
    pub priority: u8,
    /// Other managers that the latest discovery has found, at most [`LIST_MAX`].
    pub managers: Vec<OtherManager>,
    /// The latest warnings, oldest first, at most [`LIST_MAX`].
    pub warnings: Vec<String>,
    /// Devices that were there or showed a link but cannot be managed, at most [`LIST_MAX`].
    pub unreachable: Vec<Unreachable>,
    /// Names of devices of the whole fabric that are not there now, at most [`LIST_MAX`].
    pub missing: Vec<String>,
    /// SMPs sent since the start, repetitions included.
    pub smps_sent: u64,
    /// SMPs that were not answered in time.
    pub smps_timed_out: u64,
    /// Messages dropped because the manager's host took them too slowly.
    pub messages_dropped: u64,
    /// Duration of the latest discovery, nanoseconds.
    pub discovery_ns: u64,
    /// Duration of the latest computation and programming, nanoseconds.
    pub programming_ns: u64,
    /// Forwarding-table blocks written by the latest programming.
    pub blocks_written: u64,
    /// Requests to subnet administration that this manager has taken since the start.
    pub sa_requests: u64,
}
