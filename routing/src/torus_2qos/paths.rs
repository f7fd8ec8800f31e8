//! Steps from switch to switch in a damaged torus, and the VLs that they take.

use wire::Lid;

use super::RINGS_MAX;
use super::whole::Whole;
use crate::grid::{Dimension, Grid};
use crate::network::Network;
use crate::vl_assignment::SECOND_LEVEL;

/// The least ring that can form a credit loop.
const RING_MIN: usize = 5;

/// The dimensions that have a dateline.
pub(super) fn rings(grid: &Grid) -> Vec<usize> {
    let is_large = |&dimension: &usize| {
        let Dimension { size, ring } = grid.dimensions()[dimension];
        ring && size >= RING_MIN
    };
    (0..grid.dimensions().len()).filter(is_large).collect()
}

pub(super) struct Paths<'a> {
    /// The fabric as it is.
    network: &'a Network,
    grid: &'a Grid,
    rings: Vec<usize>,
    /// By switch of the whole torus: whether it has no cable to another switch any more.
    missing: Vec<bool>,
    /// How many VLs a level of service has.
    level_vls: u8,
    /// Whether the second level of service has VLs of its own, behind those of the first.
    has_second_level: bool,
}

impl<'a> Paths<'a> {
    /// Paths for ports of so many data VLs.
    pub(super) fn new(network: &'a Network, whole: &'a Whole, data_vls: u8) -> Self {
        let here = network.switches().len();
        let is_missing =
            |switch: usize| here > 1 && (switch >= here || network.leaving(switch).is_empty());
        let mut paths = Self {
            network,
            grid: &whole.grid,
            rings: rings(&whole.grid),
            missing: (0..whole.network.switches().len())
                .map(is_missing)
                .collect(),
            level_vls: 0,
            has_second_level: false,
        };
        // All that a level may come to need, if there are as many for both; else what it needs now.
        let most = 2 * paths.ring_vls();
        let has_room = |vls: u8| paths.rings.len() < RINGS_MAX && 2 * vls <= data_vls;
        let level_vls = if has_room(most) { most } else { paths.vls() };
        (paths.has_second_level, paths.level_vls) = (has_room(level_vls), level_vls);
        paths
    }

    fn has_missing(&self) -> bool {
        self.missing.contains(&true)
    }

    /// How many VLs datelines take.
    fn ring_vls(&self) -> u8 {
        if self.rings.is_empty() { 1 } else { 2 }
    }

    /// How many data VLs the paths need on one level of service.
    pub(super) fn vls(&self) -> u8 {
        self.ring_vls() * if self.has_missing() { 2 } else { 1 }
    }

    pub(super) fn has_second_level(&self) -> bool {
        self.has_second_level
    }

    /// How many data VLs the levels have.
    pub(super) fn vls_of_all_levels(&self) -> u8 {
        self.level_vls * if self.has_second_level { 2 } else { 1 }
    }

    /// The cable towards a target: of parallel ones they are taken in turn by LID.
    pub(super) fn next(&self, switch: usize, target: usize, lid: Lid) -> Option<usize> {
        let to = self.step(switch, target)?;
        let cables: Vec<usize> = self.cables(switch, to).collect();
        cables.get(lid.index() % cables.len().max(1)).copied()
    }

    fn cables(&self, from: usize, to: usize) -> impl Iterator<Item = usize> + '_ {
        let here = self.network.switches().len();
        let leaving = (from < here).then(|| self.network.leaving(from));
        leaving
            .into_iter()
            .flatten()
            .filter(move |&channel| self.network.channels()[channel].to == to)
    }

    /// The switch that a packet goes to next.
    fn step(&self, at: usize, target: usize) -> Option<usize> {
        let (here, there) = (self.grid.place(at), self.grid.place(target));
        let mut differing = (0..here.len()).filter(|&d| here[d] != there[d]);
        let dimension = differing.next()?;
        let next = self.along(at, dimension, there[dimension])?;
        if !self.missing[next] {
            return Some(next);
        }
        // The packet has come beside the missing switch, where it would turn.
        let early = differing.next()?;
        let next = self.along(at, early, there[early])?;
        (!self.missing[next]).then_some(next)
    }

    /// The next switch on the way to a position in one dimension: the shorter way if it is whole, else
    /// the long one. The position itself may be the missing switch's.
    fn along(&self, at: usize, dimension: usize, to: usize) -> Option<usize> {
        let forwards = self.is_forwards(at, dimension, to);
        [forwards, !forwards].into_iter().find_map(|forwards| {
            let first = self.neighbour(at, dimension, forwards)?;
            let mut from = at;
            loop {
                let next = self.neighbour(from, dimension, forwards)?;
                let arrives = self.grid.place(next)[dimension] == to;
                if arrives && self.missing[next] {
                    return Some(first);
                }
                // Also where there is a switch too few.
                self.cables(from, next).next()?;
                if arrives {
                    return Some(first);
                }
                from = next;
            }
        })
    }

    /// Whether the shorter way, of the whole torus, leads to larger positions.
    fn is_forwards(&self, at: usize, dimension: usize, to: usize) -> bool {
        let from = self.grid.place(at)[dimension];
        self.grid.dimensions()[dimension].leads_on(from, to)
    }

    /// The switch beside another in a dimension of the whole torus.
    fn neighbour(&self, at: usize, dimension: usize, forwards: bool) -> Option<usize> {
        let Dimension { size, ring } = self.grid.dimensions()[dimension];
        let from = self.grid.place(at)[dimension];
        let position = match (forwards, from) {
            (true, last) if last + 1 == size => ring.then_some(0)?,
            (true, from) => from + 1,
            (false, 0) => ring.then_some(size - 1)?,
            (false, from) => from - 1,
        };
        self.grid.neighbour(at, dimension, position)
    }

    /// A bit for each ring whose dateline the path across the whole torus crosses.
    pub(super) fn sl(&self, source: usize, target: usize) -> u8 {
        let mut sl = 0;
        for (bit, &dimension) in self.rings.iter().enumerate() {
            let from = self.grid.place(source)[dimension];
            let to = self.grid.place(target)[dimension];
            let crosses = if self.is_forwards(source, dimension, to) {
                to < from
            } else {
                to > from
            };
            if from != to && crosses {
                sl |= 1 << bit;
            }
        }
        sl
    }

    /// The VL of a packet of that SL that comes to switch `at` from another switch, or from a host, and
    /// goes on to switch `to`.
    pub(super) fn vl(&self, from: Option<usize>, at: usize, to: usize, sl: u8) -> u8 {
        let onward = self.grid.dimension_of(at, to);
        let bit = self.rings.iter().position(|&ring| onward == Some(ring));
        let is_second = self.has_second_level && sl & SECOND_LEVEL != 0;
        let first = if is_second { self.level_vls } else { 0 };
        let own = first + bit.map_or(0, |bit| sl >> bit & 1);
        let before = from.and_then(|from| self.grid.dimension_of(from, at));
        let is_against =
            matches!((before, onward), (Some(before), Some(onward)) if before > onward);
        if is_against && self.level_vls > self.ring_vls() {
            own + self.ring_vls()
        } else {
            own
        }
    }
}
