//! The outcome of a schedule.

use core::fmt;

/// The rule that was broken: what shrinking keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// The product panicked.
    Panic,
    /// The schedule cannot be set up.
    Setup,
    /// A checker that always runs: credits above a buffer, a datagram that came twice, back, changed
    /// or out of order.
    Checker,
    /// Packets wait for each other in a cycle, and the engine promises that they do not.
    Deadlock,
    /// A host's LID changed though the engine keeps LIDs.
    LidChanged,
    /// The manager does not bring up what is left of the fabric.
    NotUp,
    /// Not exactly the best manager is master in the end, or others do not stand by for it.
    Managers,
    /// A request without the M_Key has changed something, or was not counted or reported.
    MKey,
    /// Hosts of different partitions receive each other's packets.
    Partitions,
    /// The manager counts more devices than there are.
    NotBounded,
    /// The manager goes on sweeping without a cause.
    NotQuiet,
    /// Forwarding tables are not those that the engine computes for what is left.
    Tables,
    /// The tables do not do what the engine promises, or do not reach every LID.
    Routes,
    /// A host does not reach another by packets.
    Unreachable,
    /// Members of the group do not get each packet once.
    Multicast,
    /// A packet is lost, dropped, doubled or reordered after faults have ceased.
    Lossy,
    /// Packets or credits are missing when all is quiet.
    NotAtRest,
    /// More unicast datagrams are gone than were counted as lost and dropped.
    Balance,
}

impl FailureKind {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Panic => "panic",
            Self::Setup => "setup",
            Self::Checker => "checker",
            Self::Deadlock => "deadlock",
            Self::LidChanged => "lid-changed",
            Self::NotUp => "not-up",
            Self::NotQuiet => "not-quiet",
            Self::Managers => "managers",
            Self::MKey => "m-key",
            Self::Partitions => "partitions",
            Self::NotBounded => "not-bounded",
            Self::Tables => "tables",
            Self::Routes => "routes",
            Self::Unreachable => "unreachable",
            Self::Multicast => "multicast",
            Self::Lossy => "lossy",
            Self::NotAtRest => "not-at-rest",
            Self::Balance => "balance",
        }
    }
}

/// A failure: which rule, when in virtual time, and what exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which rule.
    pub kind: FailureKind,
    /// When it was found, nanoseconds after the cables were put in.
    pub at_ns: u64,
    /// What exactly.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, rest) = (self.at_ns / 1_000_000_000, self.at_ns % 1_000_000_000);
        write!(
            f,
            "{} at {seconds}.{rest:09} s: {}",
            self.kind.name(),
            self.what
        )
    }
}

/// The outcome of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The first failure, if any.
    pub failure: Option<Failure>,
    /// Covers tables, counters and verdict: the same schedule gives the same number everywhere.
    pub digest: u64,
    /// How long it took, nanoseconds of virtual time.
    pub virtual_ns: u64,
    /// Events that were handled.
    pub events: u64,
    /// Unicast datagrams between hosts.
    pub datagrams: u64,
}

impl Outcome {
    /// The outcome of a schedule that did not come to its end.
    pub(crate) fn failed_before(kind: FailureKind, what: String) -> Self {
        Self {
            failure: Some(Failure {
                kind,
                at_ns: 0,
                what,
            }),
            digest: 0,
            virtual_ns: 0,
            events: 0,
            datagrams: 0,
        }
    }
}
