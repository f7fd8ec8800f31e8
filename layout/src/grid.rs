//! Meshes, tori, rings and hypercubes: switches by their coordinates.
//!
//! One ring alone is drawn as one. Else dimensions go to the right and down in turn: those beyond the second
//! repeat the whole of the earlier ones side by side.

use std::f64::consts::TAU;

use routing::dor::Grid;
use routing::network::Network;
use topologies::Graph;

use crate::Place;
use crate::hosts::{self, Attached, PITCH};

/// Between two switches, beside the room of their hosts.
const GAP: f64 = 3.0;
/// Between two copies of the dimensions before, for each unit of their size.
const APART: f64 = 1.25;

/// Places, and which cables lead from one end of a dimension to the other, past what is between.
pub(crate) fn places(
    graph: &Graph,
    network: &Network,
    grid: &Grid,
    attached: &Attached,
) -> (Vec<Place>, Vec<bool>) {
    let block = hosts::columns(attached.most()) as f64 * PITCH;
    let cell = block + GAP;
    let mut places = vec![Place::default(); graph.len()];
    if let [ring] = grid.dimensions()
        && ring.ring
    {
        let radius = ring.size as f64 * cell / TAU;
        for (number, &switch) in network.switches().iter().enumerate() {
            let turn = grid.place(number)[0] as f64 / ring.size as f64 * TAU;
            let (sine, cosine) = turn.sin_cos();
            places[switch.index()] = Place {
                x: radius * sine,
                y: -radius * cosine,
            };
            let hosts = attached.at(switch);
            let middle = radius + block / 2.0 + 1.5;
            let top = Place {
                x: middle * sine,
                y: -middle * cosine - block / 2.0 + PITCH / 2.0,
            };
            hosts::block(hosts, top, &mut places);
        }
        return (places, Vec::new());
    }
    let steps = steps(grid, cell);
    for (number, &switch) in network.switches().iter().enumerate() {
        let mut place = Place::default();
        for (dimension, (&position, &step)) in grid.place(number).iter().zip(&steps).enumerate() {
            let way = position as f64 * step;
            if dimension % 2 == 0 {
                place.x += way;
            } else {
                place.y += way;
            }
        }
        places[switch.index()] = place;
        let top = Place {
            x: place.x + block / 2.0 + 0.75,
            y: place.y + 1.75,
        };
        hosts::block(attached.at(switch), top, &mut places);
    }
    (places, round(graph, network, grid))
}

/// By dimension: how far two neighbouring positions are apart.
fn steps(grid: &Grid, cell: f64) -> Vec<f64> {
    let mut size = [cell, cell];
    let mut steps = Vec::new();
    for (number, dimension) in grid.dimensions().iter().enumerate() {
        let axis = &mut size[number % 2];
        let step = if number < 2 { *axis } else { *axis * APART };
        steps.push(step);
        *axis = step * dimension.size as f64;
    }
    steps
}

/// By cable: whether its ends are in one dimension and not next to each other.
fn round(graph: &Graph, network: &Network, grid: &Grid) -> Vec<bool> {
    let place = |node| Some(grid.place(network.switch(node)?));
    let is_round = |a, b| {
        let (Some(a), Some(b)) = (place(a), place(b)) else {
            return false;
        };
        let mut away = a.iter().zip(b).map(|(a, b)| a.abs_diff(*b));
        away.any(|away| away > 1)
    };
    let links = graph.links();
    links.map(|(a, b)| is_round(a.node, b.node)).collect()
}
