//! Why there are no tables, and what is worth knowing about the tables that there are.

use core::fmt;

use thiserror::Error;
use wire::{Guid, Lid, Lmc};

use crate::clos::{NotClos, TREES_MAX};
use crate::dor::NotGrid;
use crate::fat_tree::NotFatTree;
use crate::file::FileError;
use crate::lid_assignment::LidError;

/// Why an engine gives no tables.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RoutingError {
    /// No engine of that name.
    #[error("no routing engine is called {name:?}; there are {known}")]
    UnknownEngine {
        /// What was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The engine is for fat trees only, and this is none.
    #[error("{engine} needs an m-port n-tree, and this fabric is none: {reason}")]
    NotFatTree {
        /// The engine.
        engine: &'static str,
        /// What is different.
        reason: NotFatTree,
    },
    /// The number of paths between two hosts is no power of two, so that no LMC describes it.
    #[error(
        "mlid needs a power of two paths between hosts; a {ports}-port {levels}-tree has {paths}. \
         slid works on it"
    )]
    PathsNotPowerOfTwo {
        /// m.
        ports: u8,
        /// n.
        levels: u8,
        /// `(m/2)^(n-1)`.
        paths: u32,
    },
    /// An LMC that the engine has no use for.
    #[error("{engine} has no use for LMC {lmc} here: allowed is 0 to {max}")]
    LmcTooLarge {
        /// The engine.
        engine: &'static str,
        /// What was asked for.
        lmc: Lmc,
        /// The largest that it can use on this fabric.
        max: u8,
    },
    /// More LIDs wanted than there are.
    #[error(
        "{hosts} host ports with LMC {lmc} and {switches} switches need LIDs up to {wanted}, the \
         last unicast LID is {}",
        Lid::UNICAST_LAST
    )]
    LidSpaceExhausted {
        /// Host ports.
        hosts: u64,
        /// LMC of each.
        lmc: Lmc,
        /// Switches, one LID each.
        switches: u64,
        /// The last LID that they would take.
        wanted: u64,
    },
    /// The engine is for Clos fabrics only, and this is none.
    #[error("clos needs two stages, every leaf with the same cables to every spine: {0}")]
    NotClos(#[from] NotClos),
    /// More routing trees than a port can have LIDs.
    #[error("{trees} routing trees (spines times cables): a port has LIDs for {TREES_MAX} at most")]
    TooManyTrees {
        /// How many there are.
        trees: usize,
    },
    /// An LMC that does not give a LID for each routing tree.
    #[error("{trees} routing trees need as many LIDs; LMC {lmc} gives {}", lmc.lids())]
    LmcTooSmall {
        /// What was asked for.
        lmc: Lmc,
        /// How many trees there are.
        trees: usize,
    },
    /// The engine is for grids only, and this is none that it can use.
    #[error("dor needs a mesh, torus, ring or hypercube: {0}")]
    NotGrid(#[from] NotGrid),
    /// More data lanes needed than there are.
    #[error(
        "{engine} needs {wanted} data VLs to be free of deadlock on this fabric, ports have {have}"
    )]
    VlsExhausted {
        /// The engine.
        engine: &'static str,
        /// How many would do.
        wanted: usize,
        /// How many there are.
        have: u8,
    },
    /// Tables that were given do not fit.
    #[error(transparent)]
    File(#[from] FileError),
    /// Paths, or their assignment to LIDs, fail (LID07).
    #[error(transparent)]
    LidAssignment(#[from] LidError),
    /// The labels that the fabric had do not describe what it is now.
    #[error("the fabric is no longer the recognised fat tree: {0}")]
    LabelsDoNotFit(LabelsDoNotFit),
}

/// In what way a fabric is more than, or other than, the tree that it was.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LabelsDoNotFit {
    /// A node that has come since.
    #[error("{name:?} ({guid}) has no label")]
    NewNode {
        /// Its name.
        name: String,
        /// Its GUID.
        guid: Guid,
    },
    /// A cable that the tree does not have.
    #[error("a cable joins port {} of {:?} and port {} of {:?}", ends[0].1, ends[0].0, ends[1].1, ends[1].0)]
    NewCable {
        /// Names and ports.
        ends: Box<[(String, wire::PortNum); 2]>,
    },
}

/// Something about tables that a user should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// MLID04's LMC is larger than allowed or than LIDs are left for.
    LmcCapped {
        /// What the scheme asks for: log2 of the number of paths.
        wanted: u8,
        /// What was taken.
        taken: Lmc,
    },
    /// A fat tree whose number of paths is no power of two: one LID a host.
    SlidInstead {
        /// `(m/2)^(n-1)`.
        paths: u32,
    },
    /// Known LIDs that could not be kept.
    LidsChanged {
        /// How many ports lost the LIDs that they had.
        ports: usize,
    },
    /// Devices or cables of the tree that are missing now.
    Degraded {
        /// Missing or isolated switches.
        switches: usize,
        /// Missing or isolated hosts.
        hosts: usize,
        /// Missing cables between switches that are there.
        cables: usize,
    },
    /// Switches with hosts that no path joins which first goes up and then down. Their packets take
    /// a way round that turns upwards again, in one branch of the fabric only, where that cannot
    /// deadlock.
    Detours {
        /// How many (switch, destination switch) pairs.
        pairs: usize,
    },
    /// Entries beside the scheme's own paths that turn packets upwards after they went down: who
    /// follows the path selection never meets them.
    Turns {
        /// How many (switch, LID) pairs.
        entries: usize,
    },
    /// Switches for which no table was given.
    NoTable {
        /// How many.
        switches: usize,
    },
    /// LIDs in tables that were given whose owner nobody names.
    NoOwner {
        /// How many.
        lids: usize,
    },
    /// Ports whose base LID is no multiple of their number of LIDs, which InfiniBand demands.
    Unaligned {
        /// How many.
        ports: usize,
    },
    /// Switches that no path joins, although cables do.
    NoPath {
        /// How many (switch, destination switch) pairs have no path.
        pairs: usize,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LmcCapped { wanted, taken } => write!(
                f,
                "LMC {taken} instead of {wanted}: no more LIDs fit; several paths share a LID"
            ),
            Self::SlidInstead { paths } => write!(
                f,
                "{paths} paths are no power of two: one LID a host (slid) instead of mlid"
            ),
            Self::LidsChanged { ports } => {
                write!(f, "{ports} ports could not keep the LIDs that they had")
            }
            Self::Degraded {
                switches,
                hosts,
                cables,
            } => write!(
                f,
                "the fat tree is degraded: {switches} switches, {hosts} hosts and {cables} other \
                 cables are missing"
            ),
            Self::Detours { pairs } => write!(
                f,
                "hosts of {pairs} pairs of switches have no up*/down* path and take a detour that \
                 is free of deadlock"
            ),
            Self::Turns { entries } => write!(
                f,
                "{entries} entries that no selected path uses turn packets upwards after they went down"
            ),
            Self::NoTable { switches } => write!(f, "{switches} switches have no table"),
            Self::NoOwner { lids } => {
                write!(
                    f,
                    "{lids} LIDs have entries and no port that is here owns them"
                )
            }
            Self::Unaligned { ports } => write!(
                f,
                "{ports} ports have base LIDs that are no multiple of their number of LIDs: no \
                 live fabric can use them"
            ),
            Self::NoPath { pairs } => write!(f, "{pairs} pairs of switches have no path"),
        }
    }
}
