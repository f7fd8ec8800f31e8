//! The experiment of VLARB01, section 5.2: how many random connections a fabric takes.
//!
//! Connections are tried in turn for the four bands of DB traffic. Source, destination and rate
//! are drawn anew until one is admitted; when `retries` draws in a row fail for a band, the fill
//! ends. So all bands have the same number of connections, give or take one.
//!
//! With few draws the fill ends when the links between switches are full; only with thousands does
//! chance find the short paths and low rates that fill those of the hosts too, as the paper's
//! Figure 5 shows. 16 switches with 64 hosts at 1x then take 2,280 to 2,400 connections (the paper:
//! 2,518 to 2,679), at which point mostly entries are missing: 50 entries hold 78 % of a frame.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use topologies::Endpoint;

use wire::convert::{real, u64_of};

use super::admission::{Admission, Request};
use super::class::{Band, Class};
use super::error::QosError;
use super::slots::FRAME_SLOTS;

/// The least and the largest rate of each band, in bits per second. (The paper's list has the
/// third begin at 64 kbps, against its own classification.)
pub const RATES_BPS: [(u64, u64); 4] = [
    (8_000, 64_000),
    (64_001, 1_550_000),
    (1_550_001, 64_000_000),
    (64_000_001, 300_000_000),
];

/// How to fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FillOptions {
    /// Connections to try.
    pub tries: u32,
    /// Draws for one connection before the fill ends.
    pub retries: u32,
    /// What the random numbers start from.
    pub seed: u64,
}

impl Default for FillOptions {
    fn default() -> Self {
        Self {
            tries: 3072,
            retries: 10_000,
            seed: 1,
        }
    }
}

/// The result of a fill.
#[derive(Clone, Debug, PartialEq)]
pub struct FillReport {
    /// Connections tried; below the number asked for if a band ran out of draws.
    pub tried: u32,
    /// Connections established on SL of each band.
    pub established: [u32; 4],
    /// Draws refused for want of bandwidth.
    pub refused_bandwidth: u32,
    /// Draws refused for want of table entries.
    pub refused_entries: u32,
    /// The first refusal.
    pub first_refusal: Option<QosError>,
    /// Mean over all links of slots owned by connections, as a share of the frame.
    pub load_mean: f64,
    /// The most of any link.
    pub load_max: f64,
}

impl FillReport {
    /// Connections established in all.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.established.iter().sum()
    }
}

/// Fills `fabric` with random connections between `hosts` hosts. `path(source, destination)`
/// gives the output ports between two of them, numbered from 0.
///
/// # Errors
/// What [`Admission::request`] gives but refusals for want of bandwidth or entries: a path that
/// the fabric does not have, or links slower than a band's largest rate.
pub fn fill(
    fabric: &mut Admission,
    hosts: usize,
    path: impl Fn(usize, usize) -> Vec<Endpoint>,
    options: FillOptions,
) -> Result<FillReport, QosError> {
    let mut random = ChaCha8Rng::seed_from_u64(options.seed);
    let mut report = FillReport {
        tried: 0,
        established: [0; 4],
        refused_bandwidth: 0,
        refused_entries: 0,
        first_refusal: None,
        load_mean: 0.0,
        load_max: 0.0,
    };
    let idle = loads(fabric);
    let bands = Band::ALL.into_iter().enumerate().cycle();
    for ((index, band), _) in bands.zip(0..options.tries) {
        report.tried += 1;
        let mut admitted = false;
        for _ in 0..options.retries {
            if hosts < 2 {
                break;
            }
            let source = random.random_range(0..hosts);
            let destination = (source + random.random_range(1..hosts)) % hosts;
            let (least, most) = RATES_BPS[index];
            let request = Request {
                class: Class::Dedicated(band),
                rate_bps: random.random_range(least..=most),
                path: &path(source, destination),
            };
            match fabric.request(&request) {
                Ok(_) => {
                    admitted = true;
                    break;
                }
                Err(refusal @ QosError::Refused { cause, .. }) => {
                    match cause {
                        super::Cause::Bandwidth { .. } => report.refused_bandwidth += 1,
                        super::Cause::Entries { .. } => report.refused_entries += 1,
                    }
                    report.first_refusal.get_or_insert(refusal);
                }
                Err(other) => return Err(other),
            }
        }
        if !admitted {
            break;
        }
        report.established[index] += 1;
    }
    let full = loads(fabric);
    let shares: Vec<f64> = idle
        .iter()
        .zip(&full)
        .map(|(idle, full)| f64::from(full - idle) / f64::from(FRAME_SLOTS))
        .collect();
    let count = real(u64_of(shares.len().max(1)));
    report.load_mean = shares.iter().sum::<f64>() / count;
    report.load_max = shares.iter().copied().fold(0.0, f64::max);
    Ok(report)
}

fn loads(fabric: &Admission) -> Vec<u32> {
    fabric.links().map(|(_, link)| link.used()).collect()
}

#[cfg(test)]
mod tests;
