//! What the fuzz targets do with their bytes, as plain functions: libFuzzer calls them
//! (`fuzz/targets`), and so does a test on every seed and on mutations of it.
//!
//! A target panics if what it states does not hold. Inputs of several parts are cut from the bytes
//! by [`Parts`], so that a seed can be written down and a mutation changes one part.

mod device;
mod parsers;
mod parts;
pub mod seeds;

pub use device::{recording, switch};
pub use parsers::{packet, records, topology};
pub use parts::Parts;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, which is that of its program and of its corpus.
    pub name: &'static str,
    /// What it does with an input.
    pub run: fn(&[u8]),
    /// Inputs to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every target.
pub const TARGETS: [Target; 5] = [
    Target {
        name: "packet",
        run: packet,
        seeds: seeds::packets,
    },
    Target {
        name: "records",
        run: records,
        seeds: seeds::frames,
    },
    Target {
        name: "topology",
        run: topology,
        seeds: seeds::topologies,
    },
    Target {
        name: "switch",
        run: switch,
        seeds: seeds::switch_inputs,
    },
    Target {
        name: "recording",
        run: recording,
        seeds: seeds::recordings,
    },
];
