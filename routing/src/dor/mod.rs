//! `dor`: dimension-order routing on meshes, tori, rings and hypercubes.
//!
//! **Coordinates** ([`Grid`]) are found from the cables alone, whatever the names: a fabric
//! is a grid if it is the Cartesian product of rows and rings of switches (a hypercube is one of
//! rows of two; a ring of four is two such rows).
//!
//! **Paths** settle one dimension after another: along a row straight on, round a ring the shorter
//! way; half way round both directions take the same cables ([`Dimension::leads_on`]).
//! Parallel cables are taken in turn by LID. Rows cannot form a credit loop.
//!
//! **Rings** of five or more can. Each such ring has a *dateline*, the cable between its last and
//! its first position. A packet whose path crosses it travels the whole ring on VL 1, others on
//! VL 0. Paths on VL 0 never cross the dateline; those on VL 1 go at most half way round and
//! cross it, so none reaches the far side of the ring from before and after. So each VL of a ring
//! has a place that its paths do not cross. The SL of a packet has a bit for each ring; the output
//! port's SL-to-VL table picks the bit of its own dimension. Hence two data VLs and at most four
//! rings of that size (16 levels).
//!
//! Cost: switches times neighbours squared for the coordinates; switches times LIDs for the tables.

use topologies::Graph;
use wire::{Lid, PortNum, Sl, Vl};

use crate::engine::{Engine, Options};
use crate::error::{EngineError, RoutingError, Warning};
use crate::network::Network;
use crate::routing_engine::RoutingEngine;
use crate::tables::{Promises, Tables};
use crate::targets::{Target, rows, targets};
use crate::vl_assignment::{SlToVl, VlAssignment};

pub use crate::grid::{Dimension, Grid, NotGrid};

/// The least ring that can form a credit loop.
const RING_MIN: usize = 5;
/// How many such rings 16 service levels distinguish, one bit each.
const RINGS_MAX: usize = 4;

impl From<NotGrid> for RoutingError {
    fn from(reason: NotGrid) -> Self {
        Self::NotApplicable {
            needs: "dor needs a mesh, torus, ring or hypercube",
            reason: EngineError::new(reason),
        }
    }
}

/// The engine.
pub(crate) struct Dor;

impl Engine for Dor {
    fn is_candidate(&self) -> bool {
        true
    }

    fn route(
        &self,
        graph: &Graph,
        network: &Network,
        options: &Options,
    ) -> Result<Tables, RoutingError> {
        let grid = Grid::recognise(network)?;
        let rings = rings(&grid);
        if rings.len() > RINGS_MAX {
            return Err(NotGrid::TooManyRings {
                rings: rings.len(),
                rings_max: RINGS_MAX,
            }
            .into());
        }
        let needed = 1 + usize::from(!rings.is_empty());
        if usize::from(options.data_vls()) < needed {
            return Err(RoutingError::VlsExhausted {
                engine: RoutingEngine::Dor,
                needed,
                have: options.data_vls(),
            });
        }
        let (lids, changed) = options.assign(network)?;
        let targets = targets(network, &lids);
        let paths = Paths {
            network,
            grid: &grid,
        };
        let rows = rows(network, &lids, &targets, |switch, place| {
            let target = &targets[place];
            paths.next(switch, target.switch, target.lid)
        });
        let promises = Promises {
            up_down: false,
            minimal: true,
            deadlock_free: true,
            from_hosts_only: false,
        };
        let mut tables = Tables::generic(RoutingEngine::Dor, network, lids, rows, promises);
        if !rings.is_empty() {
            tables.vl_assignment = Some(paths.vl_assignment(graph, &rings, &targets));
        }
        tables.warnings.extend(Warning::lids_changed(changed));
        Ok(tables)
    }
}

/// The dimensions that need a dateline.
fn rings(grid: &Grid) -> Vec<usize> {
    (0..grid.dimensions().len())
        .filter(|&dimension| {
            let Dimension { size, ring } = grid.dimensions()[dimension];
            ring && size >= RING_MIN
        })
        .collect()
}

struct Paths<'a> {
    network: &'a Network,
    grid: &'a Grid,
}

impl Paths<'_> {
    /// The dimension that a packet travels next, and the position that it goes to.
    fn step(&self, switch: usize, target: usize) -> Option<(usize, usize)> {
        let (here, there) = (self.grid.place(switch), self.grid.place(target));
        let dimension = (0..here.len()).find(|&d| here[d] != there[d])?;
        let along = self.grid.dimensions()[dimension];
        let (size, from, to) = (along.size, here[dimension], there[dimension]);
        let forwards = along.leads_on(from, to);
        let next = if forwards {
            (from + 1) % size
        } else {
            (from + size - 1) % size
        };
        Some((dimension, next))
    }

    /// The channel towards a target; `None` at the target.
    fn next(&self, switch: usize, target: usize, lid: Lid) -> Option<usize> {
        let (dimension, position) = self.step(switch, target)?;
        let to = self.grid.neighbour(switch, dimension, position)?;
        let cables: Vec<usize> = self
            .network
            .leaving(switch)
            .filter(|&channel| self.network.channels()[channel].to == to)
            .collect();
        cables.get(lid.index() % cables.len().max(1)).copied()
    }

    /// Service levels of all paths, and SL-to-VL tables.
    fn vl_assignment(&self, graph: &Graph, rings: &[usize], targets: &[Target]) -> VlAssignment {
        let mut assignment = VlAssignment::identity(graph, 2);
        for (source, &node) in self.network.switches().iter().enumerate() {
            for target in targets {
                let sl = self.sl(source, target.switch, rings);
                if sl != Sl::default() {
                    assignment.set_sl(node, target.lid, sl);
                }
            }
        }
        // With one such ring the SL is the VL everywhere.
        if rings.len() > 1 {
            self.sl2vl(graph, rings, &mut assignment);
        }
        assignment
    }

    /// A bit for each ring whose dateline the path crosses.
    fn sl(&self, source: usize, target: usize, rings: &[usize]) -> Sl {
        let mut sl = 0u8;
        let mut at = source;
        while let Some((dimension, position)) = self.step(at, target) {
            let crosses = self.grid.place(at)[dimension].abs_diff(position) > 1;
            if let (true, Some(bit)) = (crosses, rings.iter().position(|&ring| ring == dimension)) {
                sl |= 1 << bit;
            }
            let Some(next) = self.grid.neighbour(at, dimension, position) else {
                break;
            };
            at = next;
        }
        Sl::constant(sl)
    }

    fn sl2vl(&self, graph: &Graph, rings: &[usize], assignment: &mut VlAssignment) {
        for channel in self.network.channels() {
            let dimension = self.grid.dimension_of(channel.from, channel.to);
            let bit = dimension.and_then(|own| rings.iter().position(|&ring| ring == own));
            let mut table = SlToVl::default();
            if let Some(bit) = bit {
                for (sl, vl) in (0u8..).zip(&mut table) {
                    *vl = Vl::constant(sl >> bit & 1);
                }
            }
            let node = self.network.switches()[channel.from];
            for entry in (0..=graph.node(node).ports).map(PortNum::new) {
                assignment
                    .by_ports
                    .insert((node, entry, channel.port), table);
            }
        }
    }
}
