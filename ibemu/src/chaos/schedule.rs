//! Which faults come in which round: a function of seed, fabric and kinds, and of nothing that is
//! measured, so that the same seed gives the same faults on any machine.
//!
//! Kinds are dealt from a shuffled pack that holds each once, so that after as many rounds as there
//! are kinds all of them have come. A kind that has no target left in a round stays in the pack.

use std::collections::BTreeSet;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::kind::FaultKind;
use crate::state::{End, FabricState};

/// How many cables are pulled at once, least and most.
const CABLES: (usize, usize) = (2, 4);
/// Draws of a target that no other fault of the round has, before the kind waits for another round.
const DRAWS_MAX: u32 = 16;
/// The longest time that faults last beyond healing, milliseconds.
const HOLD_MS_MAX: u32 = 1_000;
/// The longest time that brief faults last, milliseconds.
const BRIEF_MS_MAX: u32 = 600;

/// The devices and cables of a fabric that can fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Inventory {
    pub switches: Vec<usize>,
    pub hosts: Vec<usize>,
    pub cables: Vec<[End; 2]>,
    pub controllers: usize,
}

impl Inventory {
    pub(super) fn of(state: &FabricState) -> Self {
        // A host with several cabled ports is one process.
        let is_device = |&host: &usize| state.nodes[host].device.is_none();
        let hosts = state.hosts().filter(is_device);
        Self {
            switches: state.switches().collect(),
            hosts: hosts.collect(),
            cables: state.links.clone(),
            controllers: state.sm_nodes.len(),
        }
    }

    /// Whether a fabric like this can have faults of `kind`.
    pub(super) fn has(&self, kind: FaultKind) -> bool {
        match kind {
            FaultKind::SwitchKill | FaultKind::SwitchStop | FaultKind::SwitchRestart => {
                !self.switches.is_empty()
            }
            FaultKind::HostKill | FaultKind::HostStop | FaultKind::HostRestart => {
                !self.hosts.is_empty()
            }
            FaultKind::ControllerKill
            | FaultKind::ControllerStop
            | FaultKind::ControllerRestart => self.controllers > 0,
            FaultKind::StandbyKill => self.controllers > 1,
            FaultKind::SupervisorKill => true,
            FaultKind::CablePull | FaultKind::CableBounce => !self.cables.is_empty(),
            FaultKind::CablesPull => self.cables.len() >= CABLES.0,
        }
    }
}

/// The target of a fault.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Subject {
    /// A switch or host, by position.
    Node(usize),
    /// The controller that is master when the round begins.
    Master,
    /// The first controller that stands by when the round begins.
    Standby,
    Supervisor,
    /// Cables, by position in the fabric's list.
    Cables(Vec<usize>),
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Fault {
    pub kind: FaultKind,
    pub subject: Subject,
}

/// The faults of one round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Round {
    /// From 1.
    pub number: u32,
    /// All at once.
    pub faults: Vec<Fault>,
    /// Whether they are taken back without waiting until traffic has healed.
    pub is_brief: bool,
    /// How long they last, from then on or from the moment when traffic has healed.
    pub hold_ms: u32,
}

impl Round {
    /// Whether nothing is left to take back when its faults are done.
    pub(super) fn is_passing(&self) -> bool {
        self.faults.iter().all(|fault| fault.kind.is_passing())
    }

    pub(super) fn kinds(&self) -> Vec<FaultKind> {
        self.faults.iter().map(|fault| fault.kind).collect()
    }
}

/// All rounds of a seed, one after the other.
#[derive(Debug)]
pub(super) struct Schedule {
    random: ChaCha8Rng,
    inventory: Inventory,
    kinds: Vec<FaultKind>,
    pack: Vec<FaultKind>,
    last: u32,
}

impl Schedule {
    /// The schedule of faults of `kinds`, all of which the fabric can have.
    pub(super) fn new(seed: u64, inventory: Inventory, kinds: &[FaultKind]) -> Self {
        Self {
            random: ChaCha8Rng::seed_from_u64(seed),
            inventory,
            kinds: kinds.to_vec(),
            pack: Vec::new(),
            last: 0,
        }
    }

    /// The next round.
    pub(super) fn next_round(&mut self) -> Round {
        // Most rounds have one fault, some two, few three.
        let count = match self.random.random_range(0..10u8) {
            0..=5 => 1,
            6..=8 => 2,
            _ => 3,
        };
        let mut faults: Vec<Fault> = Vec::new();
        for _ in 0..count {
            if self.pack.is_empty() {
                self.pack = self.kinds.clone();
                self.pack.shuffle(&mut self.random);
            }
            let waiting = self.pack.clone();
            for (place, kind) in waiting.into_iter().enumerate() {
                if let Some(fault) = self.draw(kind, &faults) {
                    self.pack.remove(place);
                    faults.push(fault);
                    break;
                }
            }
        }
        let is_brief = self.random.random_bool(0.25);
        let longest = if is_brief { BRIEF_MS_MAX } else { HOLD_MS_MAX };
        self.last += 1;
        Round {
            number: self.last,
            faults,
            is_brief,
            hold_ms: self.random.random_range(0..=longest),
        }
    }

    /// A fault of `kind` at something that none of `others` has.
    fn draw(&mut self, kind: FaultKind, others: &[Fault]) -> Option<Fault> {
        for _ in 0..DRAWS_MAX {
            let subject = self.subject(kind)?;
            if others
                .iter()
                .all(|other| !overlap(&other.subject, &subject))
            {
                return Some(Fault { kind, subject });
            }
        }
        None
    }

    fn subject(&mut self, kind: FaultKind) -> Option<Subject> {
        let (random, inventory) = (&mut self.random, &self.inventory);
        let one = |random: &mut ChaCha8Rng, of: &[usize]| {
            (!of.is_empty()).then(|| Subject::Node(of[random.random_range(0..of.len())]))
        };
        match kind {
            FaultKind::SwitchKill | FaultKind::SwitchStop | FaultKind::SwitchRestart => {
                one(random, &inventory.switches)
            }
            FaultKind::HostKill | FaultKind::HostStop | FaultKind::HostRestart => {
                one(random, &inventory.hosts)
            }
            FaultKind::ControllerKill
            | FaultKind::ControllerStop
            | FaultKind::ControllerRestart => Some(Subject::Master),
            FaultKind::StandbyKill => Some(Subject::Standby),
            FaultKind::SupervisorKill => Some(Subject::Supervisor),
            FaultKind::CablePull | FaultKind::CableBounce => Some(cables(random, inventory, 1)),
            FaultKind::CablesPull => {
                let most = CABLES.1.min(inventory.cables.len());
                let count = random.random_range(CABLES.0..=most);
                Some(cables(random, inventory, count))
            }
        }
    }
}

/// So many different cables.
fn cables(random: &mut ChaCha8Rng, inventory: &Inventory, count: usize) -> Subject {
    let mut drawn = BTreeSet::new();
    while drawn.len() < count {
        drawn.insert(random.random_range(0..inventory.cables.len()));
    }
    Subject::Cables(drawn.into_iter().collect())
}

/// Whether two faults would happen to the same thing.
fn overlap(a: &Subject, b: &Subject) -> bool {
    match (a, b) {
        (Subject::Cables(a), Subject::Cables(b)) => a.iter().any(|cable| b.contains(cable)),
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use strum::VariantArray as _;

    use super::*;

    fn inventory() -> Inventory {
        let cable = |port| [End { node: 0, port }, End { node: 4, port }];
        Inventory {
            switches: vec![0, 4],
            hosts: vec![1, 2, 3],
            cables: (1..=6).map(cable).collect(),
            controllers: 2,
        }
    }

    fn rounds(seed: u64, kinds: &[FaultKind], count: usize) -> Vec<Round> {
        let mut schedule = Schedule::new(seed, inventory(), kinds);
        (0..count).map(|_| schedule.next_round()).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_rounds_and_another_seed_others() {
        let all = FaultKind::VARIANTS;
        assert_eq!(rounds(7, all, 50), rounds(7, all, 50));
        assert_ne!(rounds(7, all, 50), rounds(8, all, 50));
    }

    #[test]
    fn every_kind_comes_within_as_many_rounds_as_there_are_kinds() {
        for seed in 0..50 {
            let all = FaultKind::VARIANTS;
            let come: BTreeSet<FaultKind> = rounds(seed, all, all.len())
                .iter()
                .flat_map(Round::kinds)
                .collect();
            assert_eq!(come.len(), all.len(), "seed {seed}");
        }
    }

    #[test]
    fn faults_of_a_round_happen_to_different_things() {
        for round in rounds(3, FaultKind::VARIANTS, 500) {
            assert!((1..=3).contains(&round.faults.len()), "{round:?}");
            for (place, fault) in round.faults.iter().enumerate() {
                let others = &round.faults[..place];
                assert!(
                    others
                        .iter()
                        .all(|other| !overlap(&other.subject, &fault.subject)),
                    "{round:?}"
                );
            }
        }
    }

    #[test]
    fn a_fabric_without_a_standby_has_no_standby_to_kill() {
        let alone = Inventory {
            controllers: 1,
            ..inventory()
        };
        assert!(!alone.has(FaultKind::StandbyKill));
        assert!(alone.has(FaultKind::ControllerKill));
    }
}
