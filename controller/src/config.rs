//! The configuration of a subnet manager.

use std::collections::BTreeSet;

use routing::RoutingEngine;
use routing::multicast::Scheme;
use strum::{EnumMessage, IntoStaticStr, VariantArray};
use thiserror::Error;
use wire::convert::u64_of;
use wire::{Guid, Lmc, SaKey};

use crate::{PartitionEnforcement, Partitions, Protection};

/// Options of an [`crate::Sm`]. [`SmConfig::default`] suits a fabric of any size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmConfig {
    /// Which routing engine to use.
    pub routing: RoutingEngine,
    /// For [`RoutingEngine::File`]: the tables, in the text of dump_fts ([`routing::dump`]).
    pub tables: Option<String>,
    /// Service levels and SL-to-VL tables for these tables, in texts that [`routing::dump::read_levels`] reads;
    /// none: all packets on SL 0.
    pub levels: Vec<String>,
    /// LID mask control of the hosts; `None`: what the engine wants (MLID: as much as the LID
    /// space holds; others: 0). [`RoutingEngine::File`] and the engines of LID07 give each port its
    /// own and ignore this one.
    pub lmc: Option<Lmc>,
    /// Whether enhanced ports 0 of switches have that LMC, too; 0 otherwise.
    pub lmc_esp0: bool,
    /// Node GUIDs of the switches of the top level, for engines with an order of the switches; empty:
    /// they are found.
    pub roots: BTreeSet<Guid>,
    /// Node or port GUIDs of hosts that do not make leaves of the switches that they are at.
    pub io_guids: BTreeSet<Guid>,
    /// Node or port GUIDs of the hosts that alone do; empty: all others.
    pub compute_guids: BTreeSet<Guid>,
    /// How many SMPs may be unanswered at a time, 1..=4096.
    pub smps_in_flight: usize,
    /// How long an SMP may stay unanswered before it is sent again, nanoseconds, at least
    /// 1,000,000. Not scaled by the fabric's time scale.
    pub timeout_ns: u64,
    /// How often an unanswered SMP is sent again before its device is left out, 0..=100.
    pub retries: u8,
    /// Time between light sweeps, nanoseconds; 0 for none (then only traps and requests start a
    /// sweep).
    pub sweep_interval_ns: u64,
    /// How long the manager waits after a trap for further traps before it sweeps, nanoseconds.
    pub trap_delay_ns: u64,
    /// Priority among subnet managers (IBA 14.4.1), 0..=15; the highest is master.
    pub priority: u8,
    /// The M_Key that protects the ports of the subnet; `None`: what ports hold is left as it is, and
    /// requests give the key 0.
    pub protection: Option<Protection>,
    /// The SM_Key of requests that subnet administration trusts.
    pub sa_key: SaKey,
    /// Which ports belong to which partitions; `None`: all are full members of the default one, and
    /// other keys are left as they are.
    pub partitions: Option<Partitions>,
    /// What switches check at the ports towards hosts, where there are partitions.
    pub partition_enforcement: PartitionEnforcement,
    /// SM_Key: managers that show another one are not trusted. 0 trusts all, but managers with a key
    /// do not trust this one. OpenSM's default is 1.
    pub sm_key: u64,
    /// How long a manager in standby waits after one poll of the master's SMInfo before the next,
    /// nanoseconds, 1,000,000..=60,000,000,000.
    pub poll_interval_ns: u64,
    /// How often an unanswered poll is sent again before the master counts as gone, 0..=100. Each waits
    /// [`Self::timeout_ns`] or, over slow paths, longer.
    pub poll_retries: u8,
    /// Whether connections may be promised bandwidth.
    pub qos: QosChoice,
    /// How multicast groups are given trees.
    pub multicast: Scheme,
    /// How many windows a second are decided on a Clos fabric (CLOS04), 1..=1000.
    pub windows_per_s: u16,
    /// Whether the shell runs what takes long ([`crate::Sm::poll_work`]) on threads of its own, so that the
    /// manager goes on meanwhile. Otherwise the manager does it at once, as suits virtual time.
    pub computes_apart: bool,
    /// What the last [`crate::SmEvent::Persist`] carried (the `guid2lid` file), if anything.
    pub guid2lid: Option<String>,
    /// What the last [`crate::SmEvent::PersistConnections`] carried (the `connections` file), if
    /// anything.
    pub connections: Option<String>,
    /// What the last [`crate::SmEvent::PersistGroups`] carried (the `groups` file), if anything.
    pub groups: Option<String>,
    /// What the last [`crate::SmEvent::PersistAliases`] carried (the `aliases` file), if anything.
    pub aliases: Option<String>,
}

impl Default for SmConfig {
    fn default() -> Self {
        Self {
            routing: RoutingEngine::Auto,
            tables: None,
            levels: Vec::new(),
            lmc: None,
            lmc_esp0: false,
            roots: BTreeSet::new(),
            io_guids: BTreeSet::new(),
            compute_guids: BTreeSet::new(),
            smps_in_flight: 128,
            timeout_ns: 200_000_000,
            retries: 4,
            sweep_interval_ns: 10_000_000_000,
            trap_delay_ns: 2_000_000,
            priority: 8,
            protection: None,
            sa_key: SaKey::default(),
            partitions: None,
            partition_enforcement: PartitionEnforcement::Both,
            sm_key: 1,
            poll_interval_ns: 200_000_000,
            poll_retries: 2,
            qos: QosChoice::None,
            multicast: Scheme::SpanningTree,
            windows_per_s: 60,
            computes_apart: false,
            guid2lid: None,
            connections: None,
            groups: None,
            aliases: None,
        }
    }
}

/// What managers persist for those that come after them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// The text of the latest [`crate::SmEvent::Persist`] of whichever manager, if there is any.
    pub guid2lid: Option<String>,
    /// The text of the latest [`crate::SmEvent::PersistConnections`], if there is any.
    pub connections: Option<String>,
    /// The text of the latest [`crate::SmEvent::PersistGroups`], if there is any.
    pub groups: Option<String>,
    /// The text of the latest [`crate::SmEvent::PersistAliases`], if there is any.
    pub aliases: Option<String>,
}

/// Whether connections may be promised bandwidth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum QosChoice {
    /// No: all VLs alike.
    #[default]
    None,
    /// By arbitration tables (VLARB01); what is in no connection is best effort.
    Vlarb01,
}
wire::choice!(QosChoice, "quality of service");

/// A configuration that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A number outside its range.
    #[error("{option} is {value}; it must be {least} to {most}")]
    OutOfRange {
        /// The option.
        option: &'static str,
        /// What was given.
        value: u64,
        /// Its least value.
        least: u64,
        /// Its greatest value.
        most: u64,
    },
    /// [`RoutingEngine::File`] without tables.
    #[error("--routing file needs tables (--tables), and no other routing takes any")]
    Tables,
    /// Service levels without tables.
    #[error("service levels (--sls) are for tables of one's own (--tables)")]
    Levels,
    /// The text of the tables cannot be read.
    #[error("the tables cannot be read: {0}")]
    TablesText(#[from] routing::dump::DumpError),
    /// The text of the connections is damaged.
    #[error("connections, line {line}: {problem}; repair the line or remove the file")]
    ConnectionsFile {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// The text of the groups is damaged.
    #[error("groups, line {line}: {problem}; repair the line or remove the file")]
    GroupsFile {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// The text of the alias GUIDs is damaged.
    #[error("aliases, line {line}: {problem}; repair the line or remove the file")]
    AliasesFile {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// The text of the GUID file is damaged.
    #[error("guid2lid, line {line}: {problem}; repair the line or remove the file")]
    GuidFile {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
}

impl SmConfig {
    /// Checks the ranges, and that tables come with the routing that takes them.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`], [`ConfigError::Tables`].
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let protect_bits = self
            .protection
            .map_or(0, |protection| protection.protect_bits);
        let protect_bits_max = u64::from(Protection::PROTECT_BITS_MAX);
        let ranges = [
            ("protect_bits", u64::from(protect_bits), 0, protect_bits_max),
            ("smps_in_flight", u64_of(self.smps_in_flight), 1, 4096),
            ("timeout_ns", self.timeout_ns, 1_000_000, u64::MAX),
            ("retries", u64::from(self.retries), 0, 100),
            ("priority", u64::from(self.priority), 0, 15),
            (
                "poll_interval_ns",
                self.poll_interval_ns,
                1_000_000,
                60_000_000_000,
            ),
            ("poll_retries", u64::from(self.poll_retries), 0, 100),
            ("windows_per_s", u64::from(self.windows_per_s), 1, 1000),
        ];
        for (option, value, least, most) in ranges {
            if value < least || value > most {
                return Err(ConfigError::OutOfRange {
                    option,
                    value,
                    least,
                    most,
                });
            }
        }
        if self.tables.is_some() != (self.routing == RoutingEngine::File) {
            return Err(ConfigError::Tables);
        }
        if self.tables.is_none() && !self.levels.is_empty() {
            return Err(ConfigError::Levels);
        }
        Ok(())
    }
}
