//! Every fuzz target on its seeds, on inputs that are kept, and on some new mutations of both: what
//! fuzzing asserts is asserted by every run of the tests.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use fuzz::run::{self, Failure};
use fuzz::{Layout, Mutator, Parts, Source, TARGETS, Target};

/// Seed of the mutations. Another one: `cargo run -p ibemu-fuzz -- --seed N --executions N`.
const SEED: u64 = 1;

/// New inputs of a target for each of its shares, and at least.
const MUTATIONS: (u64, u64) = (10, 40);

fn check(name: &str) {
    let target = fuzz::find(name).unwrap();
    let pool = run::inputs(target).unwrap();
    assert!(!pool.is_empty(), "{name} has no seeds");
    let (each, least) = MUTATIONS;
    let executions = (u64::from(target.share) * each).max(least);
    let mut tally = run::run_all(target, &pool);
    tally.add(run::run_mutations(target, &pool, SEED, executions, |_| {}));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz");
    let told = tally.failures.iter().map(|failure| {
        let path = run::save(&folder, failure).unwrap();
        format!(
            "seed {SEED}: {}: {}\n  cargo run -p ibemu-fuzz -- --target {name} --replay {}",
            failure.fault.place,
            failure.fault.message,
            path.display()
        )
    });
    let told: Vec<String> = told.collect();
    assert!(told.is_empty(), "{name} fails:\n{}", told.join("\n"));
}

macro_rules! targets {
    ($($test:ident: $name:literal),* $(,)?) => {
        $(#[test]
        fn $test() {
            check($name);
        })*

        /// The names of all targets that are tested here.
        const TESTED: &[&str] = &[$($name),*];
    };
}

targets! {
    any_bytes_are_a_link_packet_or_refused: "packet",
    the_records_of_a_frame_never_reach_past_it: "records",
    every_format_survives_being_written_and_read_again: "formats",
    every_message_survives_being_written_and_read_again: "messages",
    other_machines_are_believed_only_what_they_prove: "cluster",
    any_text_is_a_key_or_refused: "keys",
    any_text_is_a_filter_of_captures_or_refused: "filters",
    any_text_is_partitions_or_refused: "partitions",
    any_text_is_a_trace_or_refused: "traces",
    any_text_is_a_list_of_guids_or_refused: "guid-lists",
    any_text_is_a_fabric_or_refused: "topologies",
    any_text_is_tables_or_refused: "tables",
    any_text_is_a_plan_or_refused: "plans",
    any_text_names_adapters_for_both_libraries_or_none: "environment",
    any_lines_are_windows_or_refused: "windows",
    any_bytes_are_results_or_refused: "results",
    a_manager_takes_what_another_has_left_or_refuses_it: "memory",
    the_supervisor_takes_what_another_has_left_or_refuses_it: "supervisor-files",
    a_transfer_arrives_as_it_was_sent_or_ends: "rmpp",
    histories_are_refused_or_the_same_when_written_again: "histories",
    any_file_is_replayed_or_refused: "recordings",
    programs_of_libibumad_are_answered_whatever_they_send: "umad2sim",
    programs_of_the_hosts_libibumad_are_answered_whatever_they_send: "ibumad",
    a_ring_is_a_queue_and_survives_any_peer: "ring",
    a_tunnel_brings_what_was_sent_whatever_the_network_does: "tunnel",
    the_library_of_programs_takes_whatever_a_host_tells: "libibumad",
    work_ends_once_whatever_a_consumer_asks_and_a_peer_sends: "transport",
    nothing_harms_a_switch: "switch",
    nothing_harms_a_host: "host",
    a_program_of_verbs_harms_no_other_whatever_its_rings_hold: "verbs",
    packets_of_the_interface_leave_and_addresses_are_resolved_once: "ipoib",
    nothing_outlasts_the_channels_of_connections: "connections",
    nothing_harms_a_subnet_manager: "manager",
    a_hostile_host_harms_no_other: "subnet",
}

#[test]
fn every_target_is_tested_and_has_a_share() {
    let names = TARGETS.each_ref().map(|target| target.name);
    assert_eq!(names, TESTED);
    assert!(TARGETS.iter().all(|target| target.share > 0));
    assert_eq!(TARGETS.iter().map(|target| target.share).sum::<u32>(), 1000);
}

#[test]
fn every_source_of_bytes_has_a_target() {
    for source in Source::ALL {
        let reads = |target: &&Target| target.sources.contains(&source);
        assert!(TARGETS.iter().any(|target| reads(&target)), "{source:?}");
    }
}

#[test]
fn kept_inputs_are_those_of_targets() {
    for folder in ["corpus", "regressions"] {
        let Ok(entries) = std::fs::read_dir(run::home().join(folder)) else {
            continue;
        };
        for entry in entries {
            let name = entry.unwrap().file_name();
            assert!(
                fuzz::find(name.to_str().unwrap()).is_some(),
                "{folder}/{name:?}"
            );
        }
    }
}

#[test]
fn a_failure_is_caught_told_and_made_small() {
    let target = Target {
        name: "planted",
        sources: &[],
        drives: "a fault",
        layout: Layout::Bytes,
        share: 1,
        run: |bytes| assert!(!bytes.contains(&0x17), "a byte {}", 0x17),
        seeds: || vec![vec![1; 100]],
    };
    let pool = (target.seeds)();
    assert!(run::run_all(&target, &pool).failures.is_empty());
    let tally = run::run_mutations(&target, &pool, SEED, 50_000, |_| {});
    assert_eq!(tally.executions, 50_000);
    let [Failure { input, fault, .. }] = &tally.failures[..] else {
        panic!("{} places", tally.failures.len());
    };
    assert_eq!(
        (input.as_slice(), fault.message.as_str()),
        (&[0x17][..], "a byte 23")
    );
    assert!(fault.place.contains("targets.rs:"), "{}", fault.place);
}

#[test]
fn the_same_seed_makes_the_same_mutations() {
    for layout in [Layout::Bytes, Layout::Text, Layout::Parts] {
        let pool = [
            b"one two\n3".to_vec(),
            Parts::join([[1, 2], [3, 4]]),
            Vec::new(),
        ];
        let make = |seed| {
            let mut mutator = Mutator::new(seed);
            let mut input = Vec::new();
            let all = (0..200).map(|_| {
                mutator.change(layout, &pool, &mut input);
                input.clone()
            });
            all.collect::<Vec<_>>()
        };
        assert_eq!(make(1), make(1));
        assert_ne!(make(1), make(2));
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
