//! What happens in a round, and how it is taken back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use link::Time;
use rand::RngExt;
use rand::seq::IteratorRandom;
use rand_chacha::ChaCha8Rng;
use sim::{Interposer, Passage, Twin};
use topologies::{Endpoint, Graph, NodeId};

use super::START_NS;

/// A cable that bounces is out for so long, and in for so long, nanoseconds.
const BOUNCE_NS: u64 = 60_000_000;
/// How often it does.
const BOUNCES: u64 = 3;
/// The longest time that faults last beyond healing, nanoseconds.
const HOLD_NS_MAX: u64 = 1_000_000_000;
/// The longest time that brief faults last, nanoseconds.
const BRIEF_NS_MAX: u64 = 600_000_000;

/// One thing that goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// A manager is killed, and started when faults are taken back.
    ManagerKill(usize),
    /// A manager stands still.
    ManagerStop(usize),
    /// A manager is killed, and started again at once.
    ManagerRestart(usize),
    /// A device is killed.
    Kill(NodeId),
    /// A device is silent.
    Stop(NodeId),
    /// A device is killed, and started again at once.
    Restart(NodeId),
    /// Cables are pulled.
    Pull(Vec<Endpoint>),
    /// A cable is pulled and put in again, several times.
    Bounce(Endpoint),
}

/// What happens at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Round {
    pub(super) faults: Vec<Fault>,
    /// Whether they are taken back before anything has healed.
    pub(super) is_brief: bool,
    /// How long they last, from then on or from when all has healed, nanoseconds.
    pub(super) hold_ns: u64,
}

impl Round {
    /// The master's manager fails, and one or two other things with it.
    pub(super) fn draw(random: &mut ChaCha8Rng, graph: &Graph, master: usize) -> Self {
        let mut faults = vec![match random.random_range(0..10u8) {
            0..=5 => Fault::ManagerKill(master),
            6..=7 => Fault::ManagerStop(master),
            _ => Fault::ManagerRestart(master),
        }];
        let others = if random.random_bool(0.25) { 2 } else { 1 };
        while faults.len() <= others {
            let fault = other(random, graph);
            if !faults.iter().any(|known| known.meets(&fault, graph)) {
                faults.push(fault);
            }
        }
        let is_brief = random.random_bool(0.25);
        let longest = if is_brief { BRIEF_NS_MAX } else { HOLD_NS_MAX };
        Self {
            faults,
            is_brief,
            hold_ns: random.random_range(0..=longest),
        }
    }

    /// What happens, in words.
    pub(super) fn text(&self, graph: &Graph) -> String {
        let faults: Vec<String> = self.faults.iter().map(|fault| fault.text(graph)).collect();
        let brief = if self.is_brief { " (brief)" } else { "" };
        format!("{}{brief}", faults.join(", "))
    }
}

fn other(random: &mut ChaCha8Rng, graph: &Graph) -> Fault {
    let kind = random.random_range(0..9u8);
    let device = match kind % 2 {
        0 => graph.switches().choose(random),
        _ => graph.hosts().choose(random),
    };
    let count = if kind == 7 {
        random.random_range(2..=4)
    } else {
        1
    };
    let cables = graph.links().map(|(end, _)| end).sample(random, count);
    match (kind, device, cables.first()) {
        (0 | 1, Some(device), _) => Fault::Kill(device),
        (2 | 3, Some(device), _) => Fault::Stop(device),
        (4 | 5, Some(device), _) => Fault::Restart(device),
        (8, _, Some(&cable)) => Fault::Bounce(cable),
        _ => Fault::Pull(cables),
    }
}

impl Fault {
    /// The devices and cables that it is about.
    fn places(&self, graph: &Graph) -> (Option<NodeId>, Vec<Endpoint>) {
        match self {
            Self::ManagerKill(_) | Self::ManagerStop(_) | Self::ManagerRestart(_) => {
                (None, Vec::new())
            }
            Self::Kill(node) | Self::Stop(node) | Self::Restart(node) => {
                let cables = graph.cables(*node);
                let ends = cables.map(|(port, _)| Endpoint { node: *node, port });
                (Some(*node), ends.collect())
            }
            Self::Pull(ends) => (None, ends.clone()),
            Self::Bounce(end) => (None, vec![*end]),
        }
    }

    /// Whether two faults are about the same cable or device.
    fn meets(&self, other: &Self, graph: &Graph) -> bool {
        let both = |ends: Vec<Endpoint>| -> BTreeSet<Endpoint> {
            let peers = ends.iter().filter_map(|&end| graph.peer(end));
            peers.chain(ends.iter().copied()).collect()
        };
        let [one, other] = [self, other].map(|fault| both(fault.places(graph).1));
        !one.is_disjoint(&other)
    }

    fn text(&self, graph: &Graph) -> String {
        let name = |node: NodeId| &graph.node(node).name;
        let cable = |end: &Endpoint| {
            let peer = graph.peer(*end).map_or(end.node, |peer| peer.node);
            format!("{}-{}", name(end.node), name(peer))
        };
        match self {
            Self::ManagerKill(at) => format!("manager {at} killed"),
            Self::ManagerStop(at) => format!("manager {at} stopped"),
            Self::ManagerRestart(at) => format!("manager {at} restarted"),
            Self::Kill(node) => format!("{} killed", name(*node)),
            Self::Stop(node) => format!("{} stopped", name(*node)),
            Self::Restart(node) => format!("{} restarted", name(*node)),
            Self::Pull(ends) => {
                let cables: Vec<String> = ends.iter().map(cable).collect();
                format!("{} pulled", cables.join(" and "))
            }
            Self::Bounce(end) => format!("{} bounces", cable(end)),
        }
    }
}

/// Devices that are silent: nothing leaves them and nothing comes to them.
#[derive(Clone, Debug)]
pub(super) struct Silence {
    graph: Arc<Graph>,
    silent: Arc<Mutex<BTreeSet<NodeId>>>,
}

impl Silence {
    pub(super) fn new(graph: &Graph) -> Self {
        Self {
            graph: Arc::new(graph.clone()),
            silent: Arc::default(),
        }
    }

    /// Whether a device is silent.
    pub(super) fn has(&self, node: NodeId) -> bool {
        self.with(|silent| silent.contains(&node))
    }

    fn with<T>(&self, what: impl FnOnce(&mut BTreeSet<NodeId>) -> T) -> T {
        let mut silent = match self.silent.lock() {
            Ok(silent) => silent,
            Err(poisoned) => poisoned.into_inner(),
        };
        what(&mut silent)
    }
}

impl Interposer for Silence {
    fn pass(&mut self, _: Time, from: Endpoint, _: &mut [u8]) -> Passage {
        let to = self.graph.peer(from);
        if self.has(from.node) || to.is_some_and(|to| self.has(to.node)) {
            return Passage::Never;
        }
        Passage::Once
    }
}

/// What is done at a moment.
#[derive(Clone, Debug)]
enum Action {
    Kill(NodeId),
    Start(NodeId),
    Silence(NodeId, bool),
    Pull(Endpoint),
    Plug(Endpoint),
    KillManager(usize),
    StartManager(usize),
    StopManager(usize),
    ContinueManager(usize),
}

/// What is done and is still to be done.
#[derive(Debug)]
pub(super) struct Faults {
    pub(super) silence: Silence,
    /// Managers that do not run.
    pub(super) missing_managers: BTreeSet<usize>,
    ahead: BTreeMap<(Time, usize), Action>,
    back: Vec<(u64, Action)>,
}

impl Faults {
    pub(super) fn new(silence: Silence) -> Self {
        Self {
            silence,
            missing_managers: BTreeSet::new(),
            ahead: BTreeMap::new(),
            back: Vec::new(),
        }
    }

    /// A round begins.
    pub(super) fn begin(&mut self, now: Time, round: &Round) {
        let (mut actions, mut back) = (Vec::new(), Vec::new());
        for fault in &round.faults {
            match fault {
                Fault::ManagerKill(at) => {
                    actions.push((0, Action::KillManager(*at)));
                    back.push((START_NS, Action::StartManager(*at)));
                }
                Fault::ManagerStop(at) => {
                    actions.push((0, Action::StopManager(*at)));
                    back.push((0, Action::ContinueManager(*at)));
                }
                Fault::ManagerRestart(at) => {
                    actions.push((0, Action::KillManager(*at)));
                    actions.push((START_NS, Action::StartManager(*at)));
                }
                Fault::Kill(node) => {
                    actions.push((0, Action::Kill(*node)));
                    back.push((START_NS, Action::Start(*node)));
                }
                Fault::Stop(node) => {
                    actions.push((0, Action::Silence(*node, true)));
                    back.push((0, Action::Silence(*node, false)));
                }
                Fault::Restart(node) => {
                    actions.push((0, Action::Kill(*node)));
                    actions.push((START_NS, Action::Start(*node)));
                }
                Fault::Pull(ends) => {
                    actions.extend(ends.iter().map(|&end| (0, Action::Pull(end))));
                    back.extend(ends.iter().map(|&end| (0, Action::Plug(end))));
                }
                Fault::Bounce(end) => {
                    for bounce in 0..BOUNCES {
                        let at = 2 * bounce * BOUNCE_NS;
                        actions.push((at, Action::Pull(*end)));
                        actions.push((at + BOUNCE_NS, Action::Plug(*end)));
                    }
                }
            }
        }
        self.back = back;
        self.plan(now, actions);
    }

    /// What is left of them is taken back.
    pub(super) fn take_back(&mut self, now: Time) {
        let back = core::mem::take(&mut self.back);
        self.plan(now, back);
    }

    fn plan(&mut self, now: Time, actions: Vec<(u64, Action)>) {
        for (number, (at, action)) in actions.into_iter().enumerate() {
            self.ahead.insert((now + at, number), action);
        }
    }

    /// Whether nothing is to be done.
    pub(super) fn are_done(&self) -> bool {
        self.ahead.is_empty()
    }

    /// Does what is due.
    pub(super) fn act(&mut self, twin: &mut Twin) {
        while let Some(entry) = self.ahead.first_entry()
            && entry.key().0 <= twin.now()
        {
            match entry.remove() {
                Action::Kill(node) => twin.crash(node),
                Action::Start(node) => twin.restart(node),
                Action::Silence(node, true) => {
                    self.silence.with(|silent| silent.insert(node));
                }
                Action::Silence(node, false) => {
                    self.silence.with(|silent| silent.remove(&node));
                }
                Action::Pull(end) => twin.unplug(end),
                Action::Plug(end) => twin.plug(end),
                Action::KillManager(at) => {
                    self.missing_managers.insert(at);
                    twin.crash_manager(at);
                }
                Action::StartManager(at) => {
                    self.missing_managers.remove(&at);
                    // What managers have kept can be read, as the checkers of the campaign see to.
                    let _ = twin.restart_manager(at);
                }
                Action::StopManager(at) => {
                    self.missing_managers.insert(at);
                    twin.stop_manager(at);
                }
                Action::ContinueManager(at) => {
                    self.missing_managers.remove(&at);
                    twin.continue_manager(at);
                }
            }
        }
    }
}
