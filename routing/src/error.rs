//! Why an engine gives no tables, and warnings about those that it gives.

use core::error::Error;
use core::fmt;
use std::sync::Arc;

use wire::{Lid, Lmc};

use crate::fat_tree::{LabelsDoNotFit, NotFatTree};
use crate::routing_engine::RoutingEngine;

/// Why an engine gives no tables.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoutingError {
    /// The engine is for fat trees only, and this is none.
    #[error("{engine} needs an m-port n-tree, and this fabric is none: {reason}")]
    NotFatTree {
        /// The engine.
        engine: RoutingEngine,
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
        engine: RoutingEngine,
        /// What was asked for.
        lmc: Lmc,
        /// The largest that it can use on this fabric.
        max: u8,
    },
    /// More LIDs needed than there are.
    #[error(
        "{hosts} host ports with LMC {lmc} and {switches} switches need LIDs up to {last}, the \
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
        last: u64,
    },
    /// More routing trees than a port can have LIDs.
    #[error("{trees} routing trees (spines times cables): a port has LIDs for {trees_max} at most")]
    TooManyTrees {
        /// How many there are.
        trees: usize,
        /// How many there may be.
        trees_max: usize,
    },
    /// An LMC that does not give a LID for each routing tree.
    #[error("{trees} routing trees need as many LIDs; LMC {lmc} gives {}", lmc.lids())]
    LmcTooSmall {
        /// What was asked for.
        lmc: Lmc,
        /// How many trees there are.
        trees: usize,
    },
    /// More data VLs needed than there are.
    #[error(
        "{engine} needs {needed} data VLs to be free of deadlock on this fabric, ports have {have}"
    )]
    VlsExhausted {
        /// The engine.
        engine: RoutingEngine,
        /// How many would do.
        needed: usize,
        /// How many there are.
        have: u8,
    },
    /// `auto` has no engine whose tables can be taken: each with the reason.
    #[error("no routing engine serves this fabric: {0}")]
    NoCandidate(String),
    /// The engine is for another kind of fabric.
    #[error("{needs}: {reason}")]
    NotApplicable {
        /// What the engine needs.
        needs: &'static str,
        /// What is different.
        reason: EngineError,
    },
    /// What only this engine can run into.
    #[error(transparent)]
    Engine(EngineError),
    /// The labels that the fabric had do not describe what it is now.
    #[error("the fabric is no longer the recognised fat tree: {0}")]
    LabelsDoNotFit(LabelsDoNotFit),
}

impl RoutingError {
    /// The engine's own reason, if it is of that type.
    #[must_use]
    pub fn reason<E: Error + 'static>(&self) -> Option<&E> {
        match self {
            Self::NotApplicable { reason, .. } | Self::Engine(reason) => reason.0.downcast_ref(),
            _ => None,
        }
    }
}

/// The error of one engine behind a common type, so that callers do not depend on each engine's own.
#[derive(Clone, Debug)]
pub struct EngineError(Arc<dyn Error + Send + Sync>);

impl EngineError {
    /// Wraps an engine's own error.
    pub(crate) fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for EngineError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// Errors are equal if they say the same.
impl PartialEq for EngineError {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for EngineError {}

/// A warning about tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// MLID04's LMC is larger than allowed or than LIDs are left for.
    LmcCapped {
        /// What the scheme asks for: log2 of the number of paths.
        full: u8,
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
    /// a detour that turns upwards again, in one branch of the fabric only, where that cannot
    /// deadlock.
    Detours {
        /// How many (switch, destination switch) pairs.
        pairs: usize,
    },
    /// Entries beside the scheme's own paths that turn packets upwards after they went down:
    /// packets that follow the path selection never use them.
    Turns {
        /// How many (switch, LID) pairs.
        entries: usize,
    },
    /// Switches for which no table was given.
    NoTable {
        /// How many.
        switches: usize,
    },
    /// LIDs in tables that were given without an owner.
    NoOwner {
        /// How many.
        lids: usize,
    },
    /// Ports whose base LID is no multiple of their number of LIDs, which InfiniBand demands.
    Unaligned {
        /// How many.
        ports: usize,
    },
    /// Tables that were given without service levels.
    OneVl,
    /// Service levels that were given for some packets only.
    NoLevel {
        /// How many (host port, LID of another) pairs have none.
        pairs: u64,
    },
    /// Service levels that were given without SL-to-VL tables.
    NoSl2Vl,
    /// The switches that were named as roots leave pairs of switches without a path that is free of
    /// deadlock, or none of them is here.
    RootsUnfit {
        /// How many of them are here.
        here: usize,
        /// How many were named.
        named: usize,
    },
    /// Tables of `auto` in which packets of switches' own ports could deadlock, because all others that there are
    /// could, too.
    SwitchLoop,
    /// Switches that no path joins, although cables do.
    NoPath {
        /// How many (switch, destination switch) pairs have no path.
        pairs: usize,
    },
}

impl Warning {
    /// The warning that so many ports lost the LIDs that they had, if any did.
    pub(crate) fn lids_changed(ports: usize) -> Option<Self> {
        (ports > 0).then_some(Self::LidsChanged { ports })
    }

    /// The warning that so many pairs of switches with hosts take a detour, if any do.
    pub(crate) fn detours(pairs: usize) -> Option<Self> {
        (pairs > 0).then_some(Self::Detours { pairs })
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LmcCapped { full, taken } => write!(
                f,
                "LMC {taken} instead of {full}: no more LIDs fit; several paths share a LID"
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
            Self::OneVl => f.write_str(
                "no service levels are given: credit loops were judged with all packets on one VL, \
                 VL 0",
            ),
            Self::NoLevel { pairs } => write!(
                f,
                "{pairs} pairs of a host and a LID of another have no service level: SL 0 was taken"
            ),
            Self::NoSl2Vl => f.write_str(
                "no SL-to-VL tables are given: packets of SL n were taken to travel on VL n",
            ),
            Self::RootsUnfit { here, named } => write!(
                f,
                "the roots that were named ({here} of {named} are here) leave pairs of switches \
                 without a path that is free of deadlock, so that roots were found instead: name all \
                 switches of the top level (--roots)"
            ),
            Self::SwitchLoop => f.write_str(
                "packets from and to switches' own ports (general management) could deadlock with others under \
                 every engine: more VLs (--vls) may help",
            ),
            Self::NoPath { pairs } => write!(f, "{pairs} pairs of switches have no path"),
        }
    }
}
