//! How long a fabric takes to heal: the master's controller fails together with something else, and
//! virtual time is measured until all pairs of hosts reach each other again.
//!
//! ```text
//!   faults ──── all pairs that what is left connects ──── hold ──── taken back ──── all pairs
//!     └───────────────── since the fault ─┘                             └─ since the return ─┘
//! ```
//!
//! As `ibemu chaos` does on a live fabric, without what depends on the machine: processes take no time to
//! compute, and start within `START_NS`. A pair is connected when every LID of the one is reached from the other
//! by the tables in the switches, over ports that are Active at both ends. No packet is sent to find that
//! out. Several rounds follow on each other, so that what one leaves is there for the next.

mod faults;
mod reach;

use controller::SmConfig;
use controller::control::Phase;
use link::{LinkTimeouts, PortConfig, Time};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use sim::{Twin, TwinConfig};
use topologies::Graph;

use faults::{Faults, Round, Silence};
use reach::Reach;

/// How often pairs are looked at, nanoseconds: times are too long by up to that.
const LOOK_NS: u64 = 5_000_000;
/// A fabric without faults comes up within this time, nanoseconds.
const UP_NS_MAX: u64 = 60_000_000_000;
/// What has not healed after this time does not, nanoseconds.
const HEAL_NS_MAX: u64 = 30_000_000_000;
/// All pairs have been connected for so long before it counts as healed, nanoseconds.
const STEADY_NS: u64 = 250_000_000;
/// Until a process that is started does something, nanoseconds.
const START_NS: u64 = 50_000_000;
/// Propagation delay of a cable, nanoseconds: what a frame takes from one process to the next.
const FLIGHT_NS: u64 = 20_000;
/// Keep-alive and silence limit of the 384 cables of fat-tree-8-3, nanoseconds.
const TIMEOUTS: LinkTimeouts = LinkTimeouts {
    keepalive_ns: 375_000_000,
    silence_ns: 1_125_000_000,
};

/// A fabric, its managers and what happens to it.
#[derive(Clone, Debug)]
pub struct HealPlan {
    /// The fabric, by the name of its topology.
    pub topology: String,
    /// The hosts beside which managers run, the best first.
    pub managers: Vec<String>,
    /// What is drawn.
    pub seed: u64,
    /// Rounds, one after the other on the same fabric.
    pub rounds: u32,
}

/// Since when time is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// The faults.
    Fault,
    /// The moment at which they are taken back.
    Return,
}

/// How long it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heal {
    /// The round, from 1.
    pub round: u32,
    /// What happened.
    pub faults: String,
    /// Since when.
    pub since: Since,
    /// Until all pairs were connected for good, nanoseconds; 0 if none was disconnected.
    pub ns: u64,
    /// What the managers told meanwhile, with nanoseconds since the fault or return.
    pub log: Vec<String>,
}

/// A twin in a round.
#[derive(Debug)]
struct Bench {
    twin: Twin,
    graph: Graph,
    reach: Reach,
    faults: Faults,
    log: Vec<String>,
}

/// Runs a plan: what healed, and when.
///
/// # Errors
/// What cannot be built, or does not heal.
pub fn measure(plan: &HealPlan) -> Result<Vec<Heal>, String> {
    let mut random = ChaCha8Rng::seed_from_u64(plan.seed);
    let mut bench = Bench::new(plan)?;
    let mut heals = Vec::new();
    for number in 1..=plan.rounds {
        let master = bench.master().ok_or("no manager is master")?;
        let round = Round::draw(&mut random, &bench.graph, master);
        bench
            .run(number, &round, &mut heals)
            .map_err(|error| format!("round {number}: {}: {error}", round.text(&bench.graph)))?;
    }
    Ok(heals)
}

fn config(plan: &HealPlan) -> TwinConfig {
    let manager = |priority: u8| SmConfig {
        priority,
        ..SmConfig::default()
    };
    let others = (0..8u8).rev().zip(plan.managers.iter().skip(1));
    TwinConfig {
        flight_ns: FLIGHT_NS,
        port: PortConfig {
            timeouts: TIMEOUTS,
            ..PortConfig::default()
        },
        manager: manager(8),
        further_managers: others
            .map(|(priority, name)| (name.clone(), manager(priority)))
            .collect(),
        ..TwinConfig::default()
    }
}

impl Bench {
    fn new(plan: &HealPlan) -> Result<Self, String> {
        let graph = topologies::parse(&plan.topology).map_err(|error| error.to_string())?;
        let graph = graph.graph;
        let mut twin = Twin::new(&graph, &config(plan)).map_err(|error| error.to_string())?;
        let silence = Silence::new(&graph);
        twin.interpose(Box::new(silence.clone()));
        let mut bench = Self {
            faults: Faults::new(silence),
            reach: Reach::default(),
            twin,
            graph,
            log: Vec::new(),
        };
        let limit = bench.twin.now() + UP_NS_MAX;
        while !bench.rests() {
            bench.twin.run_for(LOOK_NS);
            if bench.twin.now() > limit {
                return Err("the fabric does not come up".to_owned());
            }
        }
        bench.reach = Reach::of(&mut bench.twin, &bench.graph);
        Ok(bench)
    }

    /// The manager that is master of a subnet that is up.
    fn master(&self) -> Option<usize> {
        let mut all = 0..self.twin.managers();
        all.find(|&at| {
            let status = self.twin.status_of(at);
            status.is_some_and(|status| status.phase == Phase::Up)
        })
    }

    /// Whether one manager is master of the whole fabric, the others stand by, and none has anything to do.
    fn rests(&self) -> bool {
        let (switches, hosts) = (self.graph.switches().count(), self.graph.hosts().count());
        let mut masters = 0;
        for at in 0..self.twin.managers() {
            let Some(status) = self.twin.status_of(at) else {
                return false;
            };
            let is_whole = (status.switches, status.hosts)
                == (
                    wire::convert::saturate::<u32>(switches),
                    wire::convert::saturate::<u32>(hosts),
                );
            match status.phase {
                Phase::Up if is_whole && !status.degraded => masters += 1,
                Phase::Standby { .. } => {}
                _ => return false,
            }
            if self.twin.is_sweep_due(at) == Some(true) {
                return false;
            }
        }
        masters == 1
    }

    /// Lets time pass up to the next look, and does what is due.
    fn step(&mut self, since: Time) {
        let before = self.phases();
        self.twin.run_for(LOOK_NS);
        let after = self.phases();
        for (at, (before, after)) in before.iter().zip(&after).enumerate() {
            if before != after {
                let ms = self.twin.now().since_ns(since) / 1_000_000;
                self.log.push(format!("{ms} ms: manager {at} {after}"));
            }
        }
        self.faults.act(&mut self.twin);
    }

    fn phases(&self) -> Vec<String> {
        let all = 0..self.twin.managers();
        all.map(|at| match self.twin.status_of(at) {
            Some(status) => format!(
                "{:?}, sweep {}, {} switches, {} hosts",
                status.phase, status.generation, status.switches, status.hosts
            ),
            None => "does not run".to_owned(),
        })
        .collect()
    }

    fn is_connected(&self) -> bool {
        self.reach
            .is_connected(&self.twin, &self.graph, &self.faults)
    }

    /// Looks until all pairs have been connected for a while, and `is_done`. Nanoseconds until the last one
    /// that was not.
    fn heal(&mut self, is_done: impl Fn(&Self) -> bool) -> Result<u64, String> {
        let start = self.twin.now();
        self.log.clear();
        self.faults.act(&mut self.twin);
        let mut healed = start;
        loop {
            self.step(start);
            let now = self.twin.now();
            if !self.is_connected() {
                healed = now;
            }
            if self.faults.are_done() && now.since_ns(healed) >= STEADY_NS && is_done(self) {
                return Ok(healed.since_ns(start));
            }
            if now.since_ns(start) > HEAL_NS_MAX {
                return Err(format!("it does not heal: {:?}", self.log));
            }
        }
    }

    fn run(&mut self, number: u32, round: &Round, heals: &mut Vec<Heal>) -> Result<(), String> {
        let faults = round.text(&self.graph);
        let mut record = |since, ns, log: &Vec<String>| {
            heals.push(Heal {
                round: number,
                faults: faults.clone(),
                since,
                ns,
                log: log.clone(),
            });
        };
        self.faults.begin(self.twin.now(), round);
        if round.is_brief {
            let (start, hold_ns) = (self.twin.now(), round.hold_ns);
            self.heal_for(start, hold_ns);
        } else {
            let ns = self.heal(|_| true)?;
            record(Since::Fault, ns, &self.log);
            let start = self.twin.now();
            self.heal_for(start, round.hold_ns);
        }
        self.faults.take_back(self.twin.now());
        let ns = self.heal(Self::rests)?;
        record(Since::Return, ns, &self.log);
        Ok(())
    }

    fn heal_for(&mut self, start: Time, ns: u64) {
        self.faults.act(&mut self.twin);
        while self.twin.now().since_ns(start) < ns || !self.faults.are_done() {
            self.step(start);
        }
    }
}
