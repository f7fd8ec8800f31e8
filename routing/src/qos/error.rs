//! Why a connection is refused.

use thiserror::Error;
use topologies::Endpoint;

/// The resource that a link lacks for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Cause {
    /// Slots: the link's bandwidth is promised already.
    #[error("{wanted} slots of a frame are wanted and {left} are left")]
    Bandwidth {
        /// Slots that the connection needs.
        wanted: u32,
        /// Slots that are not promised yet.
        left: u32,
    },
    /// Entries of the arbitration table.
    #[error("{wanted} more entries of the arbitration table are wanted and {free} are free")]
    Entries {
        /// Entries that the connection needs beside those that its VL has.
        wanted: usize,
        /// Entries that are free.
        free: usize,
    },
}

/// Why a request fails. Nothing is changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum QosError {
    /// A rate of zero, of a connection or of a link.
    #[error("a rate of 0 bit/s")]
    NoRate,
    /// A rate above the link's.
    #[error("{rate_bps} bit/s do not fit on a link of {link_bps} bit/s")]
    RateAboveLink {
        /// What is wanted, in bits per second.
        rate_bps: u64,
        /// What the link carries, in bits per second.
        link_bps: u64,
    },
    /// Best effort and challenged traffic have no connections.
    #[error("connections are made for DBTS and DB traffic only")]
    NotDedicated,
    /// A share that is not a percentage.
    #[error("{0} % reserved for best effort: at most 100 are there")]
    NoSuchShare(u8),
    /// A path without links.
    #[error("the path has no link")]
    EmptyPath,
    /// A path that uses an output port twice.
    #[error("the path leaves {0:?} twice")]
    PortTwice(Endpoint),
    /// A path over a port that has no cable.
    #[error("there is no link at {0:?}")]
    NoSuchLink(Endpoint),
    /// A link that cannot take the connection.
    #[error("at {at:?}: {cause}")]
    Refused {
        /// The output port, the first such on the path.
        at: Endpoint,
        /// The resource that it lacks.
        cause: Cause,
    },
    /// A connection that does not exist (any more).
    #[error("there is no connection {0}")]
    NoSuchConnection(u64),
}
