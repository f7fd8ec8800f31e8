//! `torus-2qos`: tori with failed cables and failed switches of one column, after OpenSM's engine of that name
//! (osm_torus.c, torus-2QoS(8)).
//!
//! **Problem.** `dor` needs a whole grid. A torus that has lost cables, or a switch, can still be routed
//! dimension by dimension if the paths that met the damage go another way, and if that way closes
//! no credit loop.
//!
//! **Coordinates** are those of the torus that the fabric was (`whole`); nothing need be configured. (A
//! single ring without one of its cables is a row, which is `dor`'s.)
//!
//! **Paths.** One dimension after another, the shorter way round each ring (half way round: as `dor`), and
//!
//! * *the long way round* where a cable or switch of the ring is missing on the shorter one. A ring that is
//!   broken at one place serves all its pairs so; one that is in two parts is refused.
//! * *an early turn* where the position that a packet heads for in its ring is the missing switch: beside it,
//!   it takes a step of the next dimension that it has to travel and comes back to its ring's
//!   dimension one row further. That second turn is against the order of dimensions. Where several switches
//!   that follow each other in the last dimension are missing, it goes on until it is past them.
//!
//! ```text
//!     +----+----D----+      S to D, T is missing: S > n in the first dimension; at n the early
//!     |    |    |    |      turn to I; at I the turn to r against the order; r > D
//!     +----I----r----+
//!     |    |         |
//!     S----n    T    +
//! ```
//!
//! **Service levels** are those of the whole torus, damaged or not: a bit for each ring of five or more,
//! set if the path across the whole torus crosses the ring's dateline (the cable between its last and
//! first position). A port's SL-to-VL table takes the bit of its own dimension as VL 0 or 1. A broken ring
//! can form no loop, so that it does not matter where its packets cross. The first hop after a turn
//! against the order takes VL 2 or 3: a loop around the missing switch would need that hop, and it has
//! these VLs for itself. So a torus without damage or with failed cables takes two data VLs, one with a
//! missing switch four (half of that without rings of five).
//!
//! **Second level of service** ([`SECOND_LEVEL`], torus-2QoS(8)). SL bit 3 is left
//! by up to three rings of five. Packets that have it set go the same way on as many further VLs. Where there
//! are VLs for both levels whatever is missing (eight with rings of five, as OpenSM asks for), turns against the order
//! have theirs from the beginning, and no failure changes an SL-to-VL table; where there are fewer, the
//! second level has VLs if there are as many as the first needs now, and else shares those. On cables to
//! hosts the second level has VL 1 and the first VL 0.
//!
//! | rings of five, | VLs that a level needs | VLs of the second, of 4 | of 8 |
//! |---|---|---|---|
//! | whole or without cables | 2 | 2, 3 | 4, 5 (6, 7) |
//! | without a switch | 4 | none of its own | 4 to 7 |
//!
//! What comes out is verified before it is given out. Missing switches that follow each other in another
//! dimension than the last, or are apart, can close a loop; those that do, and damage that leaves no way, are refused.
//!
//! Shapes: `S` switches, `L` LIDs, `d` neighbours. Cost: `S L` steps, each of a ring's size at most; up to
//! 400 times `S d^2` to find the whole torus.
//!
//! Differences from OpenSM's: coordinates are found and not configured; missing switches may be anywhere, but
//! are one column of four at most; a second level of service with fewer than eight VLs, too; rings of four count as two rows of two, as for `dor`, and
//! have no long way round.

mod paths;
mod whole;

use thiserror::Error;
use topologies::Graph;
use wire::{Lid, PortNum, Sl, Vl};

use crate::engine::{Engine, Options};
use crate::error::{EngineError, RoutingError, Warning};
use crate::grid::NotGrid;
use crate::network::Network;
use crate::routing_engine::RoutingEngine;
use crate::tables::{Lft, Promises, Tables};
use crate::targets::targets;
use crate::verify::{Channel, LoopOf, verify};
use crate::vl_assignment::{SECOND_LEVEL, SlToVl, VlAssignment};
use paths::Paths;
use whole::Whole;

/// How many rings of five or more service levels can tell apart.
const RINGS_MAX: usize = 4;

/// How a fabric is no torus that `torus-2qos` can use. Switches are named as in the graph.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotTorus {
    /// Neither a torus nor one that has lost a few cables or a switch.
    #[error(
        "{reason}, and with the {ends} neighbours that switches lack, joined in pairs or by one more \
         switch, it is none either"
    )]
    Grid {
        /// What is different as it is.
        reason: NotGrid,
        /// How many neighbours switches lack in all.
        ends: usize,
    },
    /// A dimension that is a row.
    #[error("dimension {dimension} is a row of {size} and no ring")]
    Row {
        /// The dimension, from 0.
        dimension: usize,
        /// Its positions.
        size: usize,
    },
    /// More large rings than service levels can tell apart.
    #[error("{rings} dimensions are rings of five or more, {rings_max} at most can be told apart")]
    TooManyRings {
        /// How many there are.
        rings: usize,
        /// How many there may be.
        rings_max: usize,
    },
    /// Damage that no path goes round.
    #[error("the damage leaves no way from {from} to {to} that is free of deadlock")]
    NoWay {
        /// A switch.
        from: String,
        /// A switch.
        to: String,
    },
    /// A credit loop.
    #[error("the damage leaves a credit loop: {0}")]
    Loop(String),
}

impl From<NotTorus> for RoutingError {
    fn from(reason: NotTorus) -> Self {
        Self::NotApplicable {
            needs: "torus-2qos needs a torus, with few failures",
            reason: EngineError::new(reason),
        }
    }
}

/// The engine.
pub(crate) struct Torus2Qos;

impl Engine for Torus2Qos {
    fn is_candidate(&self) -> bool {
        true
    }

    fn route(
        &self,
        graph: &Graph,
        network: &Network,
        options: &Options,
    ) -> Result<Tables, RoutingError> {
        let whole = Whole::of(graph, network)?;
        check_rings(&whole)?;
        let paths = Paths::new(network, &whole, options.data_vls());
        let needed = paths.vls();
        if options.data_vls() < needed {
            return Err(RoutingError::VlsExhausted {
                engine: RoutingEngine::Torus2Qos,
                needed: needed.into(),
                have: options.data_vls(),
            });
        }
        let (lids, changed) = options.assign(network)?;
        let targets = targets(network, &lids);
        let mut rows = vec![Lft::new(lids.top()); network.switches().len()];
        for target in &targets {
            for (switch, row) in rows.iter_mut().enumerate() {
                if switch == target.switch {
                    row.set(target.lid, target.port);
                } else if let Some(channel) = paths.next(switch, target.switch, target.lid) {
                    row.set(target.lid, network.channels()[channel].port);
                }
            }
        }
        let promises = Promises {
            up_down: false,
            minimal: false,
            deadlock_free: true,
            from_hosts_only: false,
        };
        let mut tables = Tables::generic(RoutingEngine::Torus2Qos, network, lids, rows, promises);
        if needed > 1 || paths.has_second_level() {
            let lids = targets.iter().map(|target| (target.lid, target.switch));
            tables.vl_assignment = Some(vl_assignment(graph, network, &paths, lids));
        }
        refuse_what_does_not_work(graph, network, &tables)?;
        tables.warnings.extend(Warning::lids_changed(changed));
        Ok(tables)
    }
}

fn check_rings(whole: &Whole) -> Result<(), NotTorus> {
    let dimensions = whole.grid.dimensions();
    let row = dimensions.iter().position(|one| !one.ring && one.size > 2);
    if let Some(dimension) = row {
        let size = dimensions[dimension].size;
        return Err(NotTorus::Row { dimension, size });
    }
    let rings = paths::rings(&whole.grid).len();
    if rings > RINGS_MAX {
        return Err(NotTorus::TooManyRings {
            rings,
            rings_max: RINGS_MAX,
        });
    }
    Ok(())
}

/// Service levels of all packets, and the tables of all pairs of ports.
fn vl_assignment(
    graph: &Graph,
    network: &Network,
    paths: &Paths<'_>,
    lids: impl Iterator<Item = (Lid, usize)>,
) -> VlAssignment {
    let mut assignment = VlAssignment::identity(graph, paths.vls_of_all_levels());
    if paths.has_second_level() {
        assignment.has_second_level = true;
        for (sl, vl) in (0u8..).zip(&mut assignment.sl2vl) {
            *vl = Vl::constant(u8::from(sl & SECOND_LEVEL != 0));
        }
    }
    for (lid, target) in lids {
        for (switch, &node) in network.switches().iter().enumerate() {
            let sl = paths.sl(switch, target);
            if sl != 0 {
                assignment.set_sl(node, lid, Sl::constant(sl));
            }
        }
    }
    for channel in network.channels() {
        let node = network.switches()[channel.from];
        for entry in (0..=graph.node(node).ports).map(PortNum::new) {
            let from = network
                .channel_by_port(channel.from, entry)
                .map(|back| network.channels()[back].to);
            let mut table = SlToVl::default();
            for (sl, vl) in (0u8..).zip(&mut table) {
                *vl = Vl::constant(paths.vl(from, channel.from, channel.to, sl));
            }
            let ports = (node, entry, channel.port);
            assignment.by_ports.insert(ports, table);
        }
    }
    assignment
}

fn refuse_what_does_not_work(
    graph: &Graph,
    network: &Network,
    tables: &Tables,
) -> Result<(), NotTorus> {
    let report = verify(graph, tables, tables.promises);
    let of_hosts = |&(packets, _): &(LoopOf, &[Channel])| packets != LoopOf::Switches;
    if let Some((_, cycle)) = report.credit_loops().find(of_hosts) {
        return Err(NotTorus::Loop(report.describe_cycle(graph, cycle)));
    }
    for problem in &report.problems {
        if let crate::verify::Problem::Unreachable { from, lid, .. } = problem {
            let owner = tables.lids.owner(*lid).and_then(|range| range.end);
            let to = owner.and_then(|end| network.last_hop(end));
            let name = |node| graph.node(node).name.clone();
            return Err(NotTorus::NoWay {
                from: name(*from),
                to: to.map_or_else(String::new, |(switch, _)| name(network.switches()[switch])),
            });
        }
    }
    Ok(())
}
