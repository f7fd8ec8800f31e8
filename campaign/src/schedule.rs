//! A schedule: a fabric, the traffic of its hosts, and faults with their times.
//!
//! A schedule is written and read as one line of words, so that a failure can be replayed, also by a
//! later version whose generator draws others. Devices and cables are named by numbers, which count
//! modulo how many there are: so the same fault is possible on a smaller fabric.

use controller::PartitionEnforcement;
use routing::RoutingEngine;
use routing::multicast::Scheme;
use strum::{EnumMessage, IntoStaticStr, VariantArray};
use topologies::{Graph, TopologyError};

/// The longest schedule, in microseconds of virtual time.
pub const LENGTH_US_MAX: u64 = 600_000_000;
/// Flows, pings, groups and faults of a schedule at most, each.
pub const ITEMS_MAX: usize = 256;
/// Managers in standby of a schedule at most.
pub const STANDBYS_MAX: usize = 7;
/// Partitions of a schedule at most.
pub const PARTITIONS_MAX: u8 = 16;

/// A schedule. Times are microseconds from the moment at which the fabric was up (or, of
/// [`Schedule::from_start`], in which its cables were put in).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The seed of what cables lose and of hostile datagrams.
    pub seed: u64,
    /// Whether a subnet manager runs; else tables are written before the start, and packets are all
    /// that there is.
    pub is_managed: bool,
    /// The fabric, by the name of its topology.
    pub topology: String,
    /// How it is routed.
    pub engine: RoutingEngine,
    /// LID mask control of the hosts, 0 to 7; `None`: what the engine wants.
    pub lmc: Option<u8>,
    /// Data VLs of all ports: 1, 2, 4 or 8.
    pub vls: u8,
    /// Packets of the MTU that the input buffer of a VL holds, 1 to 32.
    pub buffer: u8,
    /// Whether links have the rate of 1x SDR; otherwise they are as fast as credits allow.
    pub is_paced: bool,
    /// Propagation delay of a cable, nanoseconds.
    pub flight_ns: u64,
    /// How multicast groups get their trees.
    pub trees: Scheme,
    /// Time between two light sweeps, milliseconds.
    pub sweep_ms: u32,
    /// How long the manager waits for the answer to an SMP, milliseconds.
    pub timeout_ms: u32,
    /// How often it repeats an SMP.
    pub retries: u8,
    /// The priority of the manager beside the first host, 0 to 15.
    pub priority: u8,
    /// Further managers.
    pub standbys: Vec<Standby>,
    /// How the managers protect the ports by an M_Key, if they do.
    pub m_key: Option<KeyProtection>,
    /// Into which partitions hosts are divided, if they are.
    pub partitions: Option<Division>,
    /// Whether faults begin at the start, while the fabric comes up.
    pub from_start: bool,
    /// When faults cease: loss, damage and delay end, and devices and cables that are to return have
    /// returned.
    pub length_us: u64,
    /// The traffic of hosts.
    pub traffic: Vec<Traffic>,
    /// The faults.
    pub faults: Vec<Fault>,
}

/// A manager beside another host than the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standby {
    /// Which host; a second one beside a host that has one is left out.
    pub host: u32,
    /// Its priority, 0 to 15.
    pub priority: u8,
}

/// How ports are protected by an M_Key, which follows from the schedule's seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyProtection {
    /// M_KeyProtectBits, 0 to 3.
    pub protect_bits: u8,
    /// M_KeyLeasePeriod, seconds; 0: for ever.
    pub lease_s: u16,
}

/// Hosts in partitions: host `i` is a full member of partition `i` modulo their number, and every third
/// host a limited one of the next. All are limited members of the default partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// How many partitions, 1 to [`PARTITIONS_MAX`].
    pub count: u8,
    /// What switches check.
    pub enforcement: PartitionEnforcement,
}

impl Schedule {
    /// The fabric.
    ///
    /// # Errors
    /// [`TopologyError`]: there is no such topology.
    pub fn graph(&self) -> Result<Graph, TopologyError> {
        Ok(topologies::parse(&self.topology)?.graph)
    }
}

/// Traffic of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// When it begins.
    pub at_us: u64,
    /// What it is.
    pub what: TrafficKind,
}

/// Kinds of traffic. Hosts are named by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficKind {
    /// Echo requests from one host to all others.
    Pings {
        /// The host that asks.
        host: u32,
        /// Requests to each.
        count: u32,
        /// Microseconds from one to the next.
        interval_us: u32,
    },
    /// A flow of datagrams with a window.
    Flow {
        /// The host that sends.
        from: u32,
        /// The host that receives.
        to: u32,
        /// Packets in flight at most.
        window: u32,
        /// Packets in all.
        count: u32,
        /// Kilobits a second; 0: as fast as it goes.
        rate_kbps: u32,
    },
    /// A host joins the group.
    Join {
        /// The host.
        host: u32,
    },
    /// A host that is in the group sends to it.
    Multicast {
        /// The host.
        host: u32,
        /// Packets.
        count: u32,
    },
}

/// A fault and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When.
    pub at_us: u64,
    /// For how long; 0: crashes, cuts and false answers last until the end, all else until faults cease.
    pub for_us: u64,
    /// What.
    pub what: FaultKind,
}

/// Kinds of faults. Rates are in millionths and hold for both directions of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Packets are lost on a cable.
    Loss {
        /// The cable.
        cable: u32,
        /// How many, per million.
        ppm: u32,
    },
    /// Packets are damaged on a cable.
    Damage {
        /// The cable.
        cable: u32,
        /// How many, per million.
        ppm: u32,
    },
    /// Flow control is lost on a cable.
    CreditLoss {
        /// The cable.
        cable: u32,
        /// How much, per million.
        ppm: u32,
    },
    /// Management packets come twice on a cable.
    Duplication {
        /// The cable.
        cable: u32,
        /// How many, per million.
        ppm: u32,
    },
    /// Management packets come late on a cable, so that later ones overtake them.
    Delay {
        /// The cable.
        cable: u32,
        /// How many, per million.
        ppm: u32,
        /// By how much at most, microseconds.
        by_us: u32,
    },
    /// A cable is pulled.
    Cut {
        /// The cable.
        cable: u32,
    },
    /// A switch crashes.
    SwitchCrash {
        /// The switch.
        switch: u32,
    },
    /// A host crashes.
    HostCrash {
        /// The host.
        host: u32,
    },
    /// A subnet manager is killed; it always returns.
    ManagerCrash {
        /// The manager; 0 is the one beside the first host.
        manager: u32,
    },
    /// A subnet manager is stopped (SIGSTOP), and continued.
    ManagerStop {
        /// The manager.
        manager: u32,
    },
    /// A host's answers to subnet management are false.
    Lies {
        /// The host.
        host: u32,
        /// About what.
        about: Lie,
    },
    /// A host drains slowly: it takes packets out of its buffers at a low rate; only without a manager.
    SlowDrain {
        /// The host.
        host: u32,
        /// From one packet to the next, nanoseconds.
        ns: u32,
    },
    /// A host sends hostile management datagrams.
    Hostile {
        /// The host.
        host: u32,
        /// What.
        what: Hostility,
        /// How many.
        count: u32,
    },
}

/// What a hostile host sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Hostility {
    /// Packets of random bytes with right CRCs, on VL15.
    Noise,
    /// MADs of random contents of the classes that managers serve.
    Random,
    /// Sets of forwarding tables, SL-to-VL tables and states, as a manager would send them.
    Sets,
    /// Traps of events that have not happened, to the manager.
    Traps,
    /// Answers to requests that were never sent, to the manager.
    Answers,
    /// Sets of SMInfo with another SM_Key: handovers and orders of a master that is none.
    Orders,
    /// Sets of what only an M_Key protects: PortInfo, SwitchInfo, P_Key tables and more, without the
    /// key. None where there is no M_Key: they would take effect, and stay.
    Settings,
}
wire::choice!(Hostility, "hostile datagrams");

/// What is false in a host's answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Lie {
    /// It is a switch with 254 ports, and every port has a link.
    Ports,
    /// LIDs: of others, multicast ones, with the widest mask.
    Lids,
    /// GUIDs: others in each answer, or the first switch's.
    Guids,
    /// A manager of priority 15 runs there, which is master and shows another SM_Key.
    Manager,
    /// Everything: the attribute is random bytes.
    Everything,
    /// What is there: two switches with two cables between them are in its place, the first of an unknown GUID or the
    /// host's.
    Switches,
}
wire::choice!(Lie, "lie");

impl FaultKind {
    /// Whether it may last until the end, so that the remaining fabric is smaller.
    #[must_use]
    pub const fn is_outage(&self) -> bool {
        matches!(
            self,
            Self::Cut { .. }
                | Self::SwitchCrash { .. }
                | Self::HostCrash { .. }
                | Self::Lies { .. }
        )
    }

    /// Its name in a schedule.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Loss { .. } => "loss",
            Self::Damage { .. } => "damage",
            Self::CreditLoss { .. } => "credit-loss",
            Self::Duplication { .. } => "duplication",
            Self::Delay { .. } => "delay",
            Self::Cut { .. } => "cut",
            Self::SwitchCrash { .. } => "switch-crash",
            Self::HostCrash { .. } => "host-crash",
            Self::ManagerCrash { .. } => "manager-crash",
            Self::ManagerStop { .. } => "manager-stop",
            Self::Lies { .. } => "lies",
            Self::SlowDrain { .. } => "slow-drain",
            Self::Hostile { .. } => "hostile",
        }
    }
}
