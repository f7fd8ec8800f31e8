//! The interface of routing engines, and their options.

use std::collections::BTreeSet;

use topologies::Graph;
use wire::{Guid, Lmc};

use crate::dump::{LevelDump, SwitchDump};
use crate::error::RoutingError;
use crate::fat_tree::FatTreeLabels;
use crate::lids::{KnownLids, LidBase, LidRange, Lids, Lmcs, assign};
use crate::network::Network;
use crate::routing_engine::RoutingEngine;
use crate::tables::Tables;

/// Data VLs that ports have unless something else is asked for, on a live fabric as without one.
pub const DATA_VLS: u8 = 4;

/// Options of a routing engine. The defaults are those of a live fabric.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// LMC of host ports; `None` leaves it to the engine: as many LIDs as there are paths and room
    /// for (`mlid`), or one (all others).
    pub lmc: Option<Lmc>,
    /// Whether enhanced ports 0 of switches have as many LIDs as [`Options::lmc`] says; they have one otherwise, as base
    /// ports 0 do always (OpenSM's `lmc_esp0`). Engines that count LIDs by labels or paths (`mlid`, `slid`, `clos`,
    /// those of LID07) ignore it.
    pub lmc_esp0: bool,
    /// Where host LIDs begin.
    pub lid_base: LidBase,
    /// LIDs that ports had before. Engines whose LIDs follow from labels (`mlid`, `slid`) ignore
    /// it.
    pub known: KnownLids,
    /// Whether ports that are known keep their LIDs and their number whatever [`Options::lmc`] says:
    /// `auto` then takes only engines that leave them as they are.
    pub keep_lids: bool,
    /// Labels of the fat tree that this fabric was when it was whole; engines for fat trees then
    /// look for these and do not recognise the fabric anew.
    pub labels: Option<FatTreeLabels>,
    /// Data VLs that every port has, for engines that need more than one; `None` for
    /// [`DATA_VLS`].
    pub data_vls: Option<u8>,
    /// Node GUIDs of the switches that are the top level, for engines with an order of the switches;
    /// empty: they are found.
    pub roots: BTreeSet<Guid>,
    /// Node or port GUIDs of hosts that say nothing about levels (storage, gateways), wherever they are
    /// attached.
    pub io_guids: BTreeSet<Guid>,
    /// Node or port GUIDs of the hosts that alone say where the lowest level is; empty: all but
    /// [`Options::io_guids`].
    pub compute_guids: BTreeSet<Guid>,
    /// What `auto` takes, without measuring, on a fabric that is no fat tree; `None`: what it has measured
    /// to be the best.
    pub unmeasured: Option<RoutingEngine>,
    /// Tables for the engine `file` to take, as [`crate::dump::read`] gives them.
    pub given: Option<Vec<SwitchDump>>,
    /// Service levels and SL-to-VL tables for the engine `file` to put onto these tables, as
    /// [`crate::dump::read_levels`] gives them; none: all packets on SL 0 and VL 0.
    pub given_levels: Vec<LevelDump>,
}

impl Options {
    /// Data VLs that every port has.
    #[must_use]
    pub fn data_vls(&self) -> u8 {
        self.data_vls.unwrap_or(DATA_VLS)
    }

    /// The LIDs that follow for any fabric, one a host unless an LMC is asked for, and how many
    /// ports lost those that they had.
    ///
    /// # Errors
    /// [`RoutingError::LidSpaceExhausted`].
    pub(crate) fn assign(&self, network: &Network) -> Result<(Lids, usize), RoutingError> {
        let lmc = self.lmc.unwrap_or_default();
        let lmcs = Lmcs {
            hosts: lmc,
            enhanced: if self.lmc_esp0 { lmc } else { Lmc::default() },
        };
        assign(network, lmcs, self.lid_base, &self.known, self.keep_lids)
    }

    /// How many ports that are here these LIDs give others than they had.
    pub(crate) fn moved(&self, lids: &Lids) -> usize {
        let here = lids.iter().filter(|range| range.end.is_some());
        let is_moved = |range: &&LidRange| {
            let had = self.known.get(&range.guid);
            had.is_some_and(|&had| had != (range.base, range.lmc))
        };
        here.filter(is_moved).count()
    }
}

/// A routing algorithm. A pure function: the same fabric and options give the same tables,
/// whatever the order of the graph's nodes.
pub(crate) trait Engine: Sync {
    /// Whether `auto` may take it: its tables are free of deadlock wherever it gives any, with the VLs
    /// there are, and it serves fabrics of users, not comparisons with a paper.
    fn is_candidate(&self) -> bool {
        false
    }

    /// Whether it takes [`Options::lmc`]; if not, its tables give each port as many LIDs as they need.
    fn takes_lmc(&self) -> bool {
        true
    }

    /// Whether ports keep their LIDs while the fabric changes: how many a port needs does not depend on paths.
    fn keeps_lids(&self) -> bool {
        true
    }

    /// LIDs and tables for that fabric. `network` is the graph as [`Network::new`] numbers it.
    ///
    /// # Errors
    /// [`RoutingError`] if the engine cannot apply, or LIDs do not suffice.
    fn route(
        &self,
        graph: &Graph,
        network: &Network,
        options: &Options,
    ) -> Result<Tables, RoutingError>;
}
