//! The interface of routing engines, and their options.

use topologies::Graph;
use wire::Lmc;

use crate::dump::SwitchDump;
use crate::error::RoutingError;
use crate::fat_tree::FatTreeLabels;
use crate::lids::{KnownLids, LidBase, Lids, assign};
use crate::network::Network;
use crate::tables::Tables;

/// Options of a routing engine. The defaults are those of a live fabric.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// LMC of host ports; `None` leaves it to the engine: as many LIDs as there are paths and room
    /// for (`mlid`), or one (all others).
    pub lmc: Option<Lmc>,
    /// Where host LIDs begin.
    pub lid_base: LidBase,
    /// LIDs that ports had before. Engines whose LIDs follow from labels (`mlid`, `slid`) ignore
    /// it.
    pub known: KnownLids,
    /// Labels of the fat tree that this fabric was when it was whole; engines for fat trees then
    /// look for these and do not recognise the fabric anew.
    pub labels: Option<FatTreeLabels>,
    /// Data VLs that every port has, for engines that need more than one; `None` for 8.
    pub data_vls: Option<u8>,
    /// Tables for the engine `file` to take, as [`crate::dump::read`] gives them.
    pub given: Option<Vec<SwitchDump>>,
}

impl Options {
    /// Data VLs that every port has.
    #[must_use]
    pub fn data_vls(&self) -> u8 {
        self.data_vls.unwrap_or(8)
    }

    /// The LIDs that follow for any fabric, one a host unless an LMC is asked for, and how many
    /// ports lost those that they had.
    ///
    /// # Errors
    /// [`RoutingError::LidSpaceExhausted`].
    pub(crate) fn assign(&self, network: &Network) -> Result<(Lids, usize), RoutingError> {
        let lmc = self.lmc.unwrap_or_default();
        assign(network, lmc, self.lid_base, &self.known)
    }
}

/// A routing algorithm. A pure function: the same fabric and options give the same tables,
/// whatever the order of the graph's nodes.
pub(crate) trait Engine: Sync {
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
