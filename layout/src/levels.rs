//! Trees: a row a level, the leaf switches above blocks of their hosts.
//!
//! Within a row switches are ordered by the mean place of their neighbours in the rows beside it, up and down
//! several times, beginning with the order of the graph; of all orders seen the one with the shortest cables is taken
//! (the barycentre method of Sugiyama, Tagawa and Toda, 1981).

use routing::Tiers;
use routing::network::Network;
use topologies::Graph;

use crate::Place;
use crate::hosts::{self, Attached, PITCH};

/// How often rows are ordered anew, each time up and down.
const SWEEPS: usize = 8;
/// The height of a level for each unit of the map's width, within bounds.
const STEEPNESS: f64 = 0.14;
const HEIGHT_MIN: f64 = 5.0;
const HEIGHT_MAX: f64 = 40.0;
/// Between the blocks of two leaf switches.
const GAP: f64 = 1.2;

/// Rows of switches, numbers of the network, the leaf switches first.
type Rows = Vec<Vec<usize>>;

struct Drawing<'a> {
    /// By switch: its neighbours, one entry a cable.
    neighbours: Vec<Vec<usize>>,
    level_of: &'a [usize],
    /// By switch: how much room it takes in its row.
    widths: Vec<f64>,
}

pub(crate) fn places(
    graph: &Graph,
    network: &Network,
    tiers: &Tiers,
    attached: &Attached,
) -> Vec<Place> {
    let switches = network.switches();
    let mut neighbours = vec![Vec::new(); switches.len()];
    for channel in network.channels() {
        neighbours[channel.from].push(channel.to);
    }
    let width = |&switch: &_| {
        let columns = hosts::columns(attached.at(switch).len()).max(1);
        columns as f64 * PITCH + GAP
    };
    let drawing = Drawing {
        neighbours,
        level_of: &tiers.level_of,
        widths: switches.iter().map(width).collect(),
    };
    let x = drawing.best(drawing.rows(network, tiers.levels.len()));
    let wide = x.iter().copied().fold(0.0, f64::max) * 2.0;
    let height = (wide * STEEPNESS).clamp(HEIGHT_MIN, HEIGHT_MAX);
    let mut places = vec![Place::default(); graph.len()];
    for (number, &switch) in switches.iter().enumerate() {
        let below = tiers.levels.len() - 1 - tiers.level_of[number];
        let place = Place {
            x: x[number],
            y: below as f64 * height,
        };
        places[switch.index()] = place;
        let top = Place {
            y: place.y + 2.0 * PITCH,
            ..place
        };
        hosts::block(attached.at(switch), top, &mut places);
    }
    places
}

impl Drawing<'_> {
    /// Switches by level, in the order of the graph.
    fn rows(&self, network: &Network, levels: usize) -> Rows {
        let mut rows = vec![Vec::new(); levels];
        let mut order: Vec<usize> = (0..self.level_of.len()).collect();
        order.sort_by_key(|&switch| network.switches()[switch]);
        for switch in order {
            rows[self.level_of[switch]].push(switch);
        }
        rows
    }

    /// By switch its place in the best order found.
    fn best(&self, mut rows: Rows) -> Vec<f64> {
        let mut best = self.spread(&rows);
        let mut least = self.length(&best);
        for _ in 0..SWEEPS {
            let last = rows.len() - 1;
            for row in (1..=last).chain((0..last).rev()) {
                self.order(&mut rows, row);
                let x = self.spread(&rows);
                let length = self.length(&x);
                if length < least {
                    (best, least) = (x, length);
                }
            }
        }
        best
    }

    /// Every row as wide as the widest, around 0.
    fn spread(&self, rows: &Rows) -> Vec<f64> {
        let total = |row: &Vec<usize>| row.iter().map(|&switch| self.widths[switch]).sum::<f64>();
        let widest = rows.iter().map(total).fold(0.0, f64::max);
        let mut x = vec![0.0; self.widths.len()];
        for row in rows {
            let stretch = widest / total(row).max(f64::MIN_POSITIVE);
            let mut left = -widest / 2.0;
            for &switch in row {
                let room = self.widths[switch] * stretch;
                x[switch] = left + room / 2.0;
                left += room;
            }
        }
        x
    }

    /// Orders a row by the mean place of each switch's neighbours; who has the same keeps the order.
    fn order(&self, rows: &mut Rows, row: usize) {
        let x = self.spread(rows);
        let mean = |switch: usize| {
            let neighbours = &self.neighbours[switch];
            let sum: f64 = neighbours.iter().map(|&other| x[other]).sum();
            match neighbours.len() {
                0 => x[switch],
                count => sum / count as f64,
            }
        };
        let mut keyed: Vec<(f64, usize)> = rows[row]
            .iter()
            .map(|&switch| (mean(switch), switch))
            .collect();
        // Sums in another order differ in the last bits.
        keyed.sort_by(|(a, _), (b, _)| crate::rounded(*a).total_cmp(&crate::rounded(*b)));
        rows[row] = keyed.into_iter().map(|(_, switch)| switch).collect();
    }

    /// How long all cables are, sideways.
    fn length(&self, x: &[f64]) -> f64 {
        let of = |(switch, others): (usize, &Vec<usize>)| {
            let away = |&other: &usize| (x[other] - x[switch]).abs();
            others.iter().map(away).sum::<f64>()
        };
        crate::rounded(self.neighbours.iter().enumerate().map(of).sum())
    }
}
