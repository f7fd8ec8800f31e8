//! Schedules from seeds and what has been found by them.

use campaign::{Limits, Outcome, Schedule, run};

/// Small fabrics: these tests run without optimisation.
fn small(seeds: core::ops::Range<u64>) {
    let limits = Limits { devices: 3..=7 };
    for seed in seeds {
        let schedule = Schedule::from_seed(seed, &limits);
        let failure = run(&schedule).failure;
        assert!(
            failure.is_none(),
            "seed {seed}: {}\nibemu sim campaign --schedule '{schedule}'",
            failure
                .map(|failure| failure.to_string())
                .unwrap_or_default()
        );
    }
}

#[test]
fn seeds_0_to_49_hold() {
    small(0..50);
}

#[test]
fn seeds_50_to_99_hold() {
    small(50..100);
}

#[test]
fn seeds_100_to_149_hold() {
    small(100..150);
}

#[test]
fn seeds_150_to_199_hold() {
    small(150..200);
}

#[test]
fn seeds_200_to_249_hold() {
    small(200..250);
}

#[test]
fn seeds_250_to_299_hold() {
    small(250..300);
}

#[test]
fn the_same_seed_gives_the_same_outcome() {
    let limits = Limits { devices: 3..=12 };
    let outcome = |seed| run(&Schedule::from_seed(seed, &limits));
    let [once, again] = [0, 0].map(|_| (0..3).map(outcome).collect::<Vec<Outcome>>());
    assert_eq!(once, again);
    assert!(once.iter().all(|outcome| outcome.digest != 0));
}

/// What campaigns have found, shrunk: all of it is mended.
const FOUND: [&str; 4] = [
    "topology=star-5 engine=auto length=923265 cut@923264+91:0",
    "topology=fat-tree-2-1 engine=updn trees=cyclic length=2336749 manager-crash@1154885+1181126 cut@1150000+0:1",
    "topology=clos-3-1-3 engine=clos length=2 switch-crash@1+0:3",
    "topology=star-2 engine=updn length=3405059 join@733494:1 host-crash@1053313+0:0 manager-crash@2955956+11990",
];

#[test]
fn what_was_found_is_mended() {
    for text in FOUND {
        let schedule: Schedule = text.parse().unwrap();
        assert_eq!(run(&schedule).failure, None, "{text}");
    }
}
