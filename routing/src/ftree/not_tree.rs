//! Why a fabric is no tree.

use thiserror::Error;
use wire::PortNum;

/// How a fabric is no tree that `ftree` can use. Switches are named as in the graph.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotTree {
    /// A cable beside the levels.
    #[error(
        "the cable from port {port} of {switch} to port {other_port} of {other} joins two switches of \
         level {level} (leaf switches are level 0); in a tree every cable leads one level up or down"
    )]
    SameLevel {
        /// A switch.
        switch: String,
        /// Its port.
        port: PortNum,
        /// The switch at the other end.
        other: String,
        /// Its port.
        other_port: PortNum,
        /// The level of both.
        level: u32,
    },
    /// Two switches that no path joins which first goes up and then down, and no detour that is free
    /// of deadlock.
    #[error(
        "no path from {from} to {to} goes first up and then down, and no detour between them is free \
         of deadlock"
    )]
    NoPath {
        /// A switch.
        from: String,
        /// A switch.
        to: String,
    },
    /// No switch has a host.
    #[error("no switch has a host, so that there is no lowest level")]
    NoHost,
}
