//! Events of a subnet manager, for its shell.

use wire::Guid;

use crate::control::Phase;

/// One thing to log or to act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SmEvent {
    /// The phase has changed.
    Phase(Phase),
    /// A sweep has ended and everything found is programmed.
    SubnetUp(UpSummary),
    /// The subnet cannot be brought up as asked; the manager goes on.
    Failed {
        /// What was wrong, and what to do.
        reason: String,
    },
    /// Something worth a look.
    Warning(String),
    /// A device that was part of the subnet no longer is.
    DeviceLost {
        /// Its name.
        name: String,
        /// Its node GUID.
        guid: Guid,
    },
    /// A device has become part of the subnet again.
    DeviceBack {
        /// Its name.
        name: String,
        /// Its node GUID.
        guid: Guid,
    },
    /// LIDs or the expected fabric have changed: replace the `guid2lid` file by this text, whole,
    /// so that a later manager ([`crate::SmConfig::guid2lid`]) keeps them.
    Persist(String),
    /// This manager takes over from another one: read what was last persisted, by whichever manager,
    /// and hand it to [`crate::Sm::recall`] before any further input.
    Recall,
    /// Connections with promised bandwidth have come, gone or changed: replace the `connections` file
    /// by this text, whole, so that a later manager ([`crate::SmConfig::connections`]) keeps them.
    PersistConnections(String),
    /// Multicast groups as they are in the switches now have changed: replace the `groups` file by this
    /// text, whole, so that a later manager ([`crate::SmConfig::groups`]) keeps them.
    PersistGroups(String),
    /// Alias GUIDs of ports have changed: replace the `aliases` file by this text, whole, so that a later manager
    /// ([`crate::SmConfig::aliases`]) keeps them.
    PersistAliases(String),
}

/// The state of the subnet after a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpSummary {
    /// How many sweeps have been completed, this one counted.
    pub generation: u64,
    /// Routing engine in use.
    pub engine: String,
    /// Switches.
    pub switches: u32,
    /// Channel adapters.
    pub hosts: u32,
    /// Cables.
    pub links: u32,
    /// Whether something that was once there is missing.
    pub degraded: bool,
    /// Forwarding-table blocks written.
    pub blocks_written: u64,
    /// Time from the start of the sweep, nanoseconds.
    pub duration_ns: u64,
}
