//! Heal times in virtual time over many seeds: `heal TOPOLOGY HOST,HOST,... FIRST..END ROUNDS`.

use campaign::heal::{Heal, HealPlan, measure};

/// How many of the longest are shown.
const SHOWN: usize = 12;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((plan, seeds)) = read(&arguments) else {
        eprintln!("heal TOPOLOGY HOST,HOST,... FIRST..END ROUNDS");
        std::process::exit(2);
    };
    let mut heals: Vec<(u64, Heal)> = Vec::new();
    for seed in seeds {
        match measure(&HealPlan {
            seed,
            ..plan.clone()
        }) {
            Ok(measured) => heals.extend(measured.into_iter().map(|heal| (seed, heal))),
            Err(error) => eprintln!("seed {seed}: {error}"),
        }
    }
    let all = heals.len();
    heals.retain(|(_, heal)| heal.ns > 0);
    heals.sort_by_key(|(_, heal)| heal.ns);
    let ms = |share: usize| {
        let last = heals.len().saturating_sub(1);
        let heal = heals.get((heals.len() * share / 100).min(last));
        heal.map_or(0, |(_, heal)| heal.ns / 1_000_000)
    };
    eprintln!(
        "{all} measurements, in {} something broke: p50 {} ms, p99 {} ms, worst {} ms",
        heals.len(),
        ms(50),
        ms(99),
        ms(100)
    );
    for (seed, heal) in heals.iter().rev().take(SHOWN) {
        let Heal {
            round,
            since,
            faults,
            ..
        } = heal;
        let ms = heal.ns / 1_000_000;
        eprintln!("seed {seed} round {round}, since the {since:?}: {ms} ms: {faults}");
        for line in &heal.log {
            eprintln!("    {line}");
        }
    }
}

fn read(arguments: &[String]) -> Option<(HealPlan, core::ops::Range<u64>)> {
    let [topology, managers, seeds, rounds] = arguments else {
        return None;
    };
    let (first, end) = seeds.split_once("..")?;
    let plan = HealPlan {
        topology: topology.clone(),
        managers: managers.split(',').map(str::to_owned).collect(),
        seed: 0,
        rounds: rounds.parse().ok()?,
    };
    Some((plan, first.parse().ok()?..end.parse().ok()?))
}
