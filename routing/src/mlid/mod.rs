//! The MLID and SLID schemes of MLID04: tables of a fat tree from its labels alone, with the ports
//! that the cables are really in. On a degraded tree only those entries move that must
//! ([`route_degraded`]).

mod layout;
mod tables;
mod wiring;

use topologies::Graph;

use crate::engine::{Engine, Options};
use crate::error::RoutingError;
use crate::fat_tree::{FatTreeLabels, recognise};
use crate::network::Network;
use crate::tables::Tables;
use layout::Scheme;

/// Multiple LIDs (MLID04 section 4): `LMC = log2((m/2)^(n-1))`, so that every path between two
/// hosts has a LID of its own.
///
/// * Tables: equations (1) and (2). Cost: switches x LIDs, one copy of memory.
/// * Path selection: [`Tables::dlid_for`], section 4.2.
/// * Where the scheme's LMC does not fit (it is above 7, or hosts and switches need more than
///   0xbfff LIDs), the largest LMC `c` that fits is taken: offset `o` of a host stands for
///   `o + 2^c (PID mod 2^(L-c))` in equation (2), L being the scheme's LMC. `c = L` is the paper's
///   scheme, `c = 0` is [`Slid`].
/// * LIDs of switches, of which the paper does not speak, stand behind those of all hosts. They are
///   reached upwards through the ancestors that lead there; switches that no path up and then down
///   joins (two roots, say) reach each other by a turn below one leaf switch, see [`Tables`].
pub(crate) struct Mlid;

/// A single LID a host (MLID04 section 5 leaves the scheme open): equation (2) with `lid - 1`
/// replaced by the PID, which agrees with figure 7. Works for every even m.
pub(crate) struct Slid;

impl Engine for Mlid {
    fn route(
        &self,
        graph: &Graph,
        _network: &Network,
        options: &Options,
    ) -> Result<Tables, RoutingError> {
        build(graph, options, Scheme::Mlid)
    }
}

impl Engine for Slid {
    fn route(
        &self,
        graph: &Graph,
        _network: &Network,
        options: &Options,
    ) -> Result<Tables, RoutingError> {
        build(graph, options, Scheme::Slid)
    }
}

fn build(graph: &Graph, options: &Options, scheme: Scheme) -> Result<Tables, RoutingError> {
    match &options.labels {
        Some(labels) => {
            labels.fit(graph).map_err(RoutingError::LabelsDoNotFit)?;
            tables::build(graph, labels, options, scheme)
        }
        None => {
            let labels = recognise(graph).map_err(|reason| RoutingError::NotFatTree {
                engine: scheme.engine(),
                reason,
            })?;
            tables::build(graph, &labels, options, scheme)
        }
    }
}

/// MLID tables (SLID where the number of paths is no power of two) of a fabric that was recognised
/// when it was whole, as it is now: LIDs and LMC stay, and so does every entry that still leads to
/// its destination. An entry whose port is dead, or leads to where no path leads down any more,
/// moves to another parent that still has one. Entries towards what is not there at all stay, for
/// its return, unless their port is dead.
///
/// Paths still go up and then down. Where two switches have no such path left they take a detour
/// (see [`crate::Warning::Detours`]).
///
/// # Errors
/// [`RoutingError::LabelsDoNotFit`] if there are nodes or cables that the tree does not have;
/// otherwise as the engines.
pub fn route_degraded(
    labels: &FatTreeLabels,
    graph: &Graph,
    options: &Options,
) -> Result<Tables, RoutingError> {
    let tree = labels.tree();
    let scheme = if tree.power(tree.levels() - 1).is_power_of_two() {
        Scheme::Mlid
    } else {
        Scheme::Slid
    };
    let options = Options {
        labels: Some(labels.clone()),
        ..options.clone()
    };
    build(graph, &options, scheme)
}
