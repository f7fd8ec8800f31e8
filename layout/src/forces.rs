//! Anything else: switches that repel each other and are drawn together by their cables.
//!
//! Fruchterman and Reingold's method (1991) from a circle in the order of the graph: every pair repels by the
//! square of the distance wanted over the distance, every cable attracts by the square of the distance over it, and
//! a step is no longer than a temperature that falls. A weak pull to the middle keeps parts together that no cable joins.
//! Cost: iterations times the square of the switches.

use std::f64::consts::{PI, TAU};

use routing::network::Network;
use topologies::Graph;

use crate::Place;
use crate::hosts::{Attached, PITCH};

/// Iterations of a small fabric; fewer where pairs are many.
const ITERATIONS: usize = 300;
const ITERATIONS_MIN: usize = 20;
/// Forces between pairs that are computed at most, as long as there are [`ITERATIONS_MIN`].
const PAIRS_MAX: usize = 30_000_000;
/// Between two switches, beside the room of their hosts.
const GAP: f64 = 4.0;
/// The pull to the middle, for each unit of distance from it.
const GRAVITY: f64 = 0.02;
/// Below this distance two switches are as if they were so far apart.
const NEAR: f64 = 0.01;

pub(crate) fn places(graph: &Graph, network: &Network, attached: &Attached) -> Vec<Place> {
    let switches = network.switches();
    let ring = Ring::of(attached.most());
    let mut at = circle(switches.len(), GAP + 2.0 * ring.radius);
    settle(network, GAP + 2.0 * ring.radius, &mut at);
    let mut places = vec![Place::default(); graph.len()];
    for (&switch, &place) in switches.iter().zip(&at) {
        places[switch.index()] = place;
        let hosts = attached.at(switch);
        let is_alone = switches.len() == 1;
        // Away from the middle, where other switches' cables are not.
        let outwards = place.y.atan2(place.x);
        let arc = if is_alone { TAU } else { PI * 1.2 };
        for (number, &host) in hosts.iter().enumerate() {
            let share = (number as f64 + 0.5) / hosts.len() as f64 - 0.5;
            let (sine, cosine) = (outwards + share * arc).sin_cos();
            places[host] = Place {
                x: place.x + ring.radius * cosine,
                y: place.y + ring.radius * sine,
            };
        }
    }
    places
}

/// The circle around a switch on whose outer part its hosts stand.
struct Ring {
    radius: f64,
}

impl Ring {
    fn of(hosts: usize) -> Self {
        let needed = hosts as f64 * PITCH / (PI * 1.2);
        Self {
            radius: if hosts == 0 { 0.0 } else { needed.max(2.0) },
        }
    }
}

/// The start: all on one circle.
fn circle(count: usize, wanted: f64) -> Vec<Place> {
    if count < 2 {
        return vec![Place::default(); count];
    }
    let radius = wanted * (count as f64).sqrt() / 2.0;
    let place = |number: usize| {
        let (sine, cosine) = (number as f64 / count as f64 * TAU).sin_cos();
        Place {
            x: radius * sine,
            y: -radius * cosine,
        }
    };
    (0..count).map(place).collect()
}

fn settle(network: &Network, wanted: f64, at: &mut [Place]) {
    let count = at.len();
    let iterations = (PAIRS_MAX / (count * count).max(1)).clamp(ITERATIONS_MIN, ITERATIONS);
    let hottest = wanted * (count as f64).sqrt() / 4.0;
    for iteration in 0..iterations {
        let temperature = hottest * (1.0 - iteration as f64 / iterations as f64);
        let mut push = vec![Place::default(); count];
        for a in 0..count {
            for b in a + 1..count {
                let (dx, dy) = (at[b].x - at[a].x, at[b].y - at[a].y);
                let square = (dx * dx + dy * dy).max(NEAR * NEAR);
                let force = wanted * wanted / square;
                push[a].x -= dx * force;
                push[a].y -= dy * force;
                push[b].x += dx * force;
                push[b].y += dy * force;
            }
        }
        for channel in network.channels() {
            let (a, b) = (at[channel.from], at[channel.to]);
            let force = (b.x - a.x).hypot(b.y - a.y) / wanted;
            // Both directions of a cable are channels.
            push[channel.from].x += (b.x - a.x) * force;
            push[channel.from].y += (b.y - a.y) * force;
        }
        for (place, push) in at.iter_mut().zip(&push) {
            let (x, y) = (push.x - place.x * GRAVITY, push.y - place.y * GRAVITY);
            let length = x.hypot(y).max(NEAR);
            let step = length.min(temperature);
            place.x += x / length * step;
            place.y += y / length * step;
        }
    }
}
