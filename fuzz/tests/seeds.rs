//! Every fuzz target on its seeds, on what a fuzzer has found worth keeping, and on mutations of
//! both: what fuzzing asserts is asserted by every run of the tests.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use fuzz::{Parts, TARGETS, Target};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Mutations of each input.
const MUTATIONS: usize = 300;

/// Inputs that are kept in a folder of this package, if there are any: `corpus` is libFuzzer's,
/// `regressions` are those that once showed a fault.
fn kept(folder: &str, target: &Target) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(folder)
        .join(target.name);
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// A few changes of the kinds that fuzzers make.
fn mutate(input: &[u8], random: &mut impl Rng) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..random.random_range(1..4) {
        let at = random.random_range(0..=bytes.len());
        match random.random_range(0..5) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, random.random()),
            2 => {
                let end = random.random_range(at..=bytes.len().min(at + 32));
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            3 if at < bytes.len() => bytes[at] ^= 1 << random.random_range(0..8),
            _ if at < bytes.len() => bytes[at] = random.random(),
            _ => {}
        }
    }
    bytes
}

fn run(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let seeds = (target.seeds)();
    assert!(!seeds.is_empty());
    let kept = [kept("corpus", target), kept("regressions", target)];
    let mut random = ChaCha8Rng::seed_from_u64(1);
    for input in seeds.iter().chain(kept.iter().flatten()) {
        (target.run)(input);
        for _ in 0..MUTATIONS {
            (target.run)(&mutate(input, &mut random));
        }
    }
}

#[test]
fn any_bytes_are_a_link_packet_or_refused() {
    run("packet");
}

#[test]
fn the_records_of_a_frame_never_reach_past_it() {
    run("records");
}

#[test]
fn any_text_is_a_fabric_or_refused() {
    run("topology");
}

#[test]
fn any_frames_leave_a_switch() {
    run("switch");
}

#[test]
fn any_file_is_replayed_or_refused() {
    run("recording");
}

#[test]
fn every_target_has_a_program_for_libfuzzer() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("targets");
    let mut programs: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    programs.sort();
    let mut names = TARGETS.map(|target| target.name);
    names.sort_unstable();
    assert_eq!(programs, names);
    let manifest = include_str!("../Cargo.toml");
    for name in names {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
    }
}

#[test]
fn parts_are_cut_as_they_were_joined() {
    let parts: [&[u8]; 3] = [&[1, 2, 3], &[], &[4]];
    let bytes = Parts::join(parts);
    assert!(Parts::of(&bytes).eq(parts));
    assert!(Parts::of(&bytes[..3]).eq([&[1][..]]), "cut short");
    assert!(Parts::of(&[9]).eq([&[9][..]]), "shorter than a length");
}
