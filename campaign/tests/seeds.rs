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
            failure.map(|failure| failure.to_string()).unwrap_or_default()
        );
    }
}

#[test]
fn seeds_0_to_50_hold() {
    small(0..50);
}

#[test]
fn the_same_seed_gives_the_same_outcome() {
    let limits = Limits { devices: 3..=12 };
    let outcome = |seed| run(&Schedule::from_seed(seed, &limits));
    let [once, again] = [0, 0].map(|_| (0..3).map(outcome).collect::<Vec<Outcome>>());
    assert_eq!(once, again);
    assert!(once.iter().all(|outcome| outcome.digest != 0));
}
