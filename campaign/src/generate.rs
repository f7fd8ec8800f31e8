//! Schedules from seeds.

use core::ops::RangeInclusive;

use controller::PartitionEnforcement;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use routing::multicast::Scheme;
use routing::{Options, RoutingEngine};
use strum::VariantArray as _;
use wire::Lmc;

use crate::schedule::{
    Division, Fault, FaultKind, Hostility, KeyProtection, Lie, Schedule, Standby, Traffic,
    TrafficKind,
};

/// Draws of a topology before a star is taken.
const DRAWS_MAX: u32 = 1000;
/// The seed's own generator, apart from those that a run draws from.
const STREAM: u64 = 0x7363_6865_6475_6c65;
/// How many schedules have no manager.
const UNMANAGED: f64 = 0.2;
/// How many schedules have managers in standby, M_Keys and partitions, each.
const WITH_STANDBYS: f64 = 0.3;
const WITH_M_KEY: f64 = 0.25;
const WITH_PARTITIONS: f64 = 0.15;
/// In how many schedules a host answers falsely.
const WITH_LIES: f64 = 0.12;
/// Faults of a schedule at most.
const FAULTS_MAX: u32 = 12;

/// The limits of what is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Switches and hosts together, 2 to 10,000.
    pub devices: RangeInclusive<usize>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { devices: 3..=24 }
    }
}

impl Schedule {
    /// The schedule of a seed: the same on every machine.
    #[must_use]
    pub fn from_seed(seed: u64, limits: &Limits) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(sim::split_mix(STREAM, seed));
        let random = &mut random;
        let topology = topology(limits, random);
        let mut schedule = Self::of(&topology);
        schedule.seed = random.random();
        schedule.vls = [1, 2, 4, 8][random.random_range(0..4)];
        schedule.lmc = [None, None, Some(0), Some(1), Some(2)][random.random_range(0..5)];
        schedule.engine = engine(&schedule, random);
        schedule.trees = trees(&schedule, random);
        schedule.buffer = random.random_range(1..=8);
        schedule.is_paced = random.random_bool(0.7);
        schedule.flight_ns = [20, 100, 1000, 5000][random.random_range(0..4)];
        schedule.sweep_ms = [200, 500, 1000, 3000][random.random_range(0..4)];
        schedule.timeout_ms = [5, 20, 50, 200][random.random_range(0..4)];
        schedule.retries = random.random_range(1..=4);
        schedule.from_start = random.random_bool(0.2);
        schedule.length_us = random.random_range(200_000..=4_000_000);
        draw_managers(&mut schedule, random);
        draw_traffic(&mut schedule, random);
        draw_faults(&mut schedule, random);
        if random.random_bool(UNMANAGED) {
            leave_alone(&mut schedule, random);
        }
        schedule
    }
}

fn topology(limits: &Limits, random: &mut ChaCha8Rng) -> String {
    for _ in 0..DRAWS_MAX {
        let name = any_topology(limits, random);
        let fits = |devices: usize| limits.devices.contains(&devices);
        if topologies::parse(&name).is_ok_and(|topology| fits(topology.graph.len())) {
            return name;
        }
    }
    let hosts = limits.devices.start().saturating_sub(1).max(1);
    format!("star-{hosts}")
}

fn any_topology(limits: &Limits, random: &mut ChaCha8Rng) -> String {
    let most = wire::convert::u64_of(*limits.devices.end()).max(4);
    let mut up_to = |limit: u64| random.random_range(1..=limit.min(most).max(1));
    let hosts = up_to(3);
    match up_to(8) {
        1 => format!("fat-tree-{}-{}", 2 * up_to(4), up_to(3)),
        2 => format!("clos-{}-{hosts}-{}-{}", up_to(6), up_to(4), up_to(2)),
        3 => format!("hypercube-{}-{hosts}", up_to(4)),
        4 => {
            let sizes: Vec<String> = (0..up_to(3)).map(|_| (up_to(4) + 1).to_string()).collect();
            format!("mesh-{}-{hosts}", sizes.join("x"))
        }
        5 => {
            let sizes: Vec<String> = (0..up_to(2)).map(|_| (up_to(4) + 1).to_string()).collect();
            format!("torus-{}-{hosts}", sizes.join("x"))
        }
        6 => format!("ring-{}-{hosts}", up_to(7) + 2),
        7 => format!("star-{}", up_to(12) + 1),
        _ => {
            let (switches, degree) = (up_to(most / 2) + 2, up_to(4) + 1);
            format!("irregular-{switches}-{hosts}-{degree}-{}", up_to(1000))
        }
    }
}

/// An engine that applies to the whole fabric.
fn engine(schedule: &Schedule, random: &mut ChaCha8Rng) -> RoutingEngine {
    let graph = match schedule.graph() {
        Ok(graph) => graph,
        Err(_) => return RoutingEngine::Updn,
    };
    let options = Options {
        lmc: schedule.lmc.and_then(|lmc| Lmc::new(lmc).ok()),
        data_vls: Some(schedule.vls),
        ..Options::default()
    };
    // Engines that need more than a graph give no tables here.
    for _ in RoutingEngine::VARIANTS {
        let engine = any(RoutingEngine::VARIANTS, random);
        if engine.route(&graph, &options).is_ok() {
            return engine;
        }
    }
    RoutingEngine::Updn
}

/// A multicast scheme that applies.
fn trees(schedule: &Schedule, random: &mut ChaCha8Rng) -> Scheme {
    let is_fat_tree = schedule.topology.starts_with("fat-tree");
    match is_fat_tree && random.random_bool(0.3) {
        true => Scheme::Cyclic,
        false => Scheme::SpanningTree,
    }
}

fn draw_managers(schedule: &mut Schedule, random: &mut ChaCha8Rng) {
    if random.random_bool(WITH_STANDBYS) {
        schedule.priority = random.random_range(0..16);
        for _ in 0..random.random_range(1..3) {
            schedule.standbys.push(Standby {
                host: random.random_range(0..64),
                // Equals, too.
                priority: [schedule.priority, random.random_range(0..16)]
                    [random.random_range(0..2)],
            });
        }
    }
    if random.random_bool(WITH_M_KEY) {
        schedule.m_key = Some(KeyProtection {
            protect_bits: random.random_range(0..4),
            lease_s: [0, 1, 15][random.random_range(0..3)],
        });
    }
    if random.random_bool(WITH_PARTITIONS) {
        schedule.partitions = Some(Division {
            count: random.random_range(1..4),
            enforcement: any(PartitionEnforcement::VARIANTS, random),
        });
    }
}

fn draw_traffic(schedule: &mut Schedule, random: &mut ChaCha8Rng) {
    let length_us = schedule.length_us;
    let add = |schedule: &mut Schedule, at_us: u64, what: TrafficKind| {
        schedule.traffic.push(Traffic { at_us, what });
    };
    for _ in 0..random.random_range(0..4) {
        let what = TrafficKind::Pings {
            host: random.random_range(0..64),
            count: random.random_range(1..20),
            interval_us: random.random_range(10..100_000),
        };
        add(schedule, random.random_range(0..length_us), what);
    }
    for _ in 0..random.random_range(0..6) {
        let what = TrafficKind::Flow {
            from: random.random_range(0..64),
            to: random.random_range(0..64),
            window: random.random_range(1..64),
            count: random.random_range(1..1000),
            rate_kbps: [0, 0, 1_000, 20_000][random.random_range(0..4)],
        };
        add(schedule, random.random_range(0..length_us), what);
    }
    if random.random_bool(0.4) {
        let members: Vec<u32> = (0..random.random_range(2..8))
            .map(|_| random.random_range(0..64))
            .collect();
        for &host in &members {
            let at_us = random.random_range(0..length_us / 2);
            add(schedule, at_us, TrafficKind::Join { host });
        }
        for _ in 0..random.random_range(0..4) {
            let what = TrafficKind::Multicast {
                host: members[random.random_range(0..members.len())],
                count: random.random_range(1..50),
            };
            add(
                schedule,
                random.random_range(length_us / 4..length_us),
                what,
            );
        }
    }
}

fn draw_faults(schedule: &mut Schedule, random: &mut ChaCha8Rng) {
    // Many schedules have one kind of fault or a few faults, some have many.
    let most = [1, 3, FAULTS_MAX][random.random_range(0..3)];
    for _ in 0..random.random_range(1..=most) {
        let what = any_fault(schedule, random);
        let at_us = random.random_range(0..schedule.length_us);
        let most_us = schedule.length_us;
        let for_us = match what.is_outage() && random.random_bool(0.25) {
            true => 0,
            // Short faults find races.
            false => match random.random_bool(0.5) {
                true => random.random_range(1..=20_000),
                false => random.random_range(1..=most_us),
            },
        };
        schedule.faults.push(Fault {
            at_us,
            for_us,
            what,
        });
    }
    if random.random_bool(WITH_LIES) {
        schedule.faults.push(Fault {
            at_us: random.random_range(0..schedule.length_us),
            for_us: random.random_range(0..2) * random.random_range(1..=schedule.length_us),
            what: FaultKind::Lies {
                host: random.random_range(0..64),
                about: any(Lie::VARIANTS, random),
            },
        });
    }
}

/// Makes it a schedule of microseconds without a manager, in which hosts drain slowly.
fn leave_alone(schedule: &mut Schedule, random: &mut ChaCha8Rng) {
    const SHORTER: u64 = 10_000;
    schedule.is_managed = false;
    schedule.standbys.clear();
    schedule.m_key = None;
    schedule.partitions = None;
    schedule.length_us = (schedule.length_us / SHORTER).max(50);
    for _ in 0..random.random_range(0..8) {
        let what = TrafficKind::Flow {
            from: random.random_range(0..64),
            to: random.random_range(0..64),
            window: 1,
            count: random.random_range(1..200),
            rate_kbps: random.random_range(500_000..4_000_000),
        };
        schedule.traffic.push(Traffic { at_us: 0, what });
    }
    for traffic in &mut schedule.traffic {
        traffic.at_us /= SHORTER;
    }
    for fault in &mut schedule.faults {
        fault.at_us /= SHORTER;
        fault.for_us = match fault.for_us {
            0 => 0,
            for_us => (for_us / SHORTER).max(1),
        };
    }
    for _ in 0..random.random_range(0..3) {
        schedule.faults.push(Fault {
            at_us: random.random_range(0..schedule.length_us),
            for_us: random.random_range(1..=schedule.length_us),
            what: FaultKind::SlowDrain {
                host: random.random_range(0..64),
                ns: random.random_range(100..20_000),
            },
        });
    }
}

fn any<T: Copy>(all: &[T], random: &mut ChaCha8Rng) -> T {
    all[random.random_range(0..all.len())]
}

/// Schedules with managers in standby have more faults of managers.
fn any_fault(schedule: &Schedule, random: &mut ChaCha8Rng) -> FaultKind {
    if !schedule.standbys.is_empty() && random.random_bool(0.4) {
        let manager = random.random_range(0..3);
        return match random.random_range(0..3) {
            0 | 1 => FaultKind::ManagerCrash { manager },
            _ => FaultKind::ManagerStop { manager },
        };
    }
    let cable = random.random_range(0..4096);
    let ppm = [100, 10_000, 100_000, 500_000][random.random_range(0..4)];
    let node = random.random_range(0..4096);
    match random.random_range(0..13) {
        0 => FaultKind::Loss { cable, ppm },
        1 => FaultKind::Damage { cable, ppm },
        2 => FaultKind::CreditLoss { cable, ppm },
        3 => FaultKind::Duplication { cable, ppm },
        4 => FaultKind::Delay {
            cable,
            ppm,
            by_us: [10, 1000, 300_000][random.random_range(0..3)],
        },
        5..=7 => FaultKind::Cut { cable },
        8 | 9 => FaultKind::SwitchCrash { switch: node },
        10 => FaultKind::HostCrash { host: node },
        11 => match random.random_bool(0.7) {
            true => FaultKind::ManagerCrash { manager: 0 },
            false => FaultKind::ManagerStop { manager: 0 },
        },
        _ => FaultKind::Hostile {
            host: node,
            what: any(Hostility::VARIANTS, random),
            count: random.random_range(1..200),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_gives_a_schedule_within_the_limits_that_reads_back() {
        let limits = Limits { devices: 4..=16 };
        for seed in 0..300 {
            let schedule = Schedule::from_seed(seed, &limits);
            let devices = schedule.graph().unwrap().len();
            assert!(limits.devices.contains(&devices), "{seed}: {schedule}");
            assert_eq!(schedule.to_string().parse(), Ok(schedule));
        }
    }

    #[test]
    fn seeds_reach_every_kind_of_fault_traffic_and_most_engines() {
        use std::collections::BTreeSet;
        let schedules: Vec<Schedule> = (0..300)
            .map(|seed| Schedule::from_seed(seed, &Limits::default()))
            .collect();
        let faults = schedules.iter().flat_map(|schedule| &schedule.faults);
        let faults: BTreeSet<&str> = faults.map(|fault| fault.what.name()).collect();
        assert_eq!(faults.len(), 13, "{faults:?}");
        assert!(
            schedules
                .iter()
                .any(|schedule| schedule.standbys.len() == 2)
        );
        assert!(schedules.iter().any(|schedule| schedule.m_key.is_some()));
        assert!(
            schedules
                .iter()
                .any(|schedule| schedule.partitions.is_some())
        );
        let engines: BTreeSet<RoutingEngine> =
            schedules.iter().map(|schedule| schedule.engine).collect();
        assert!(engines.len() >= 12, "{engines:?}");
    }
}
