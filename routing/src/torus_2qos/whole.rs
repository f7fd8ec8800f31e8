//! The torus that a damaged one was.
//!
//! In a torus all switches have equally many neighbours. Where some have fewer, cables have failed, or the
//! switch between them. Pairs of such switches are joined, and one switch is put between others, or a
//! column of several, in every way until the result is a torus; ways that join near switches come first. A
//! cable that failed had its ends three hops apart in what is left, or two in a ring of three, unless more
//! failed beside it. Of the neighbours of a column two that are one hop apart were at different switches of it,
//! and two that are two hops apart mostly at the same.

use topologies::{Endpoint, Graph, Node, NodeId, NodeKind};
use wire::{Guid, PortNum};

use super::NotTorus;
use crate::grid::Grid;
use crate::network::Network;

/// How many ways to complete a torus are tried, for each number of missing switches.
const ATTEMPTS_MAX: usize = 400;
/// How many steps of the search there are in all: most lead to no torus to be tried.
const STEPS_MAX: usize = 20_000;
/// How many switches of a column may be missing.
const MISSING_MAX: usize = 4;

/// A torus without damage. Switches that are here have the numbers that they have in the damaged one.
pub(super) struct Whole {
    pub(super) network: Network,
    pub(super) grid: Grid,
}

impl Whole {
    /// The torus that a fabric is or was.
    pub(super) fn of(graph: &Graph, network: &Network) -> Result<Self, NotTorus> {
        let as_it_is = Grid::recognise(network);
        let reason = match as_it_is {
            Ok(grid) => {
                return Ok(Self {
                    network: network.clone(),
                    grid,
                });
            }
            Err(reason) => reason,
        };
        let (open, degree) = open_ends(network);
        let none = NotTorus::Grid {
            reason,
            ends: open.len(),
        };
        // More than that cannot be a few failures, and is not worth a search.
        if open.len() > 4 * degree.max(2) || !may_be_of_a_torus(network) {
            return Err(none);
        }
        Search::new(graph, network, open, degree).run().ok_or(none)
    }
}

/// Switches with fewer neighbours than the one with the most, once for each that is missing; and how many that one
/// has.
fn open_ends(network: &Network) -> (Vec<usize>, usize) {
    let degrees: Vec<usize> = (0..network.switches().len())
        .map(|switch| neighbours(network, switch).len())
        .collect();
    let degree = degrees.iter().copied().max().unwrap_or(0);
    let mut open = Vec::new();
    for (switch, &own) in degrees.iter().enumerate() {
        open.extend(core::iter::repeat_n(switch, degree - own));
    }
    (open, degree)
}

/// Whether no two switches have more neighbours in common than two in a torus have, damaged or not: those on one
/// ring at most the two beside both, others the two corners between them.
fn may_be_of_a_torus(network: &Network) -> bool {
    let count = network.switches().len();
    let all: Vec<Vec<usize>> = (0..count)
        .map(|switch| neighbours(network, switch))
        .collect();
    let mut shared = vec![0; count];
    all.iter().enumerate().all(|(one, own)| {
        shared.fill(0);
        let beyond = own.iter().flat_map(|&between| &all[between]);
        let mut others = beyond.filter(|&&other| other != one);
        others.all(|&other| {
            shared[other] += 1;
            shared[other] <= 2
        })
    })
}

struct Search<'a> {
    graph: &'a Graph,
    network: &'a Network,
    /// Switches with fewer neighbours than others, once for each that is missing.
    open: Vec<usize>,
    /// By place in `open`: hops to all switches.
    hops: Vec<Vec<Option<u32>>>,
    /// How many neighbours a switch of the torus has.
    degree: usize,
    attempts: usize,
    steps: usize,
}

/// Switches to be added, and the places in [`Search::open`] beside them so far.
struct Column {
    /// By switch of the column: how many it has room for.
    room: Vec<usize>,
    members: Vec<Vec<usize>>,
    /// Places that are joined in pairs.
    left: Vec<usize>,
}

impl<'a> Search<'a> {
    fn new(graph: &'a Graph, network: &'a Network, open: Vec<usize>, degree: usize) -> Self {
        let hops = open.iter().map(|&switch| network.hops_to(switch)).collect();
        Self {
            graph,
            network,
            open,
            hops,
            degree,
            attempts: 0,
            steps: 0,
        }
    }

    fn run(&mut self) -> Option<Whole> {
        let left: Vec<usize> = (0..self.open.len()).collect();
        self.join(&left, &mut Vec::new(), &[])
            .or_else(|| self.with_a_switch())
            .or_else(|| (2..=MISSING_MAX).find_map(|count| self.with_a_column(count)))
    }

    /// Whether there has been enough of it.
    fn is_at_an_end(&self) -> bool {
        self.attempts >= ATTEMPTS_MAX || self.steps >= STEPS_MAX
    }

    /// Counts a step; whether it is still one of those that there may be.
    fn may_go_on(&mut self) -> bool {
        self.steps += 1;
        !self.is_at_an_end()
    }

    /// Joins what is left in pairs, beside `joined`, and tries the result. `around` are the neighbours of
    /// switches to be added, which are cabled one to the next.
    fn join(
        &mut self,
        left: &[usize],
        joined: &mut Vec<(usize, usize)>,
        around: &[Vec<usize>],
    ) -> Option<Whole> {
        if !self.may_go_on() {
            return None;
        }
        let Some(&one) = left.first() else {
            return self.attempt(joined, around);
        };
        let from = self.open[one];
        let mut others: Vec<usize> = left[1..].to_vec();
        others.retain(|&other| {
            let to = self.open[other];
            to != from
                && !neighbours(self.network, from).contains(&to)
                && !joined.contains(&(from, to))
        });
        others.sort_by_key(|&other| (self.hops[one][self.open[other]], other));
        let mut tried = Vec::new();
        for other in others {
            let to = self.open[other];
            if self.is_at_an_end() {
                return None;
            }
            if tried.contains(&to) {
                continue;
            }
            tried.push(to);
            let mut rest: Vec<usize> = left.to_vec();
            rest.retain(|&place| place != one && place != other);
            joined.push((from, to));
            let found = self.join(&rest, joined, around);
            joined.pop();
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Puts a switch between as many others as a switch of the torus has neighbours.
    fn with_a_switch(&mut self) -> Option<Whole> {
        if self.open.len() < self.degree {
            return None;
        }
        let mut chosen: Vec<usize> = (0..self.degree).collect();
        loop {
            let around: Vec<usize> = chosen.iter().map(|&place| self.open[place]).collect();
            if around.windows(2).all(|pair| pair[0] != pair[1]) {
                let left: Vec<usize> = (0..self.open.len())
                    .filter(|place| !chosen.contains(place))
                    .collect();
                let found = self.join(&left, &mut Vec::new(), &[around]);
                if found.is_some() {
                    return found;
                }
            }
            if !self.may_go_on() {
                return None;
            }
            // The next choice in lexical order.
            let last = self.open.len() - self.degree;
            let place = (0..self.degree).rfind(|&place| chosen[place] < last + place)?;
            chosen[place] += 1;
            for later in place + 1..self.degree {
                chosen[later] = chosen[later - 1] + 1;
            }
        }
    }

    /// Puts a column of so many switches, each cabled to the next, between others.
    fn with_a_column(&mut self, count: usize) -> Option<Whole> {
        let own = self.degree.checked_sub(2)?;
        let mut column = Column {
            // The first and the last have one neighbour more.
            room: (0..count)
                .map(|at| own + usize::from(at == 0) + usize::from(at + 1 == count))
                .collect(),
            members: vec![Vec::new(); count],
            left: Vec::new(),
        };
        let ends: usize = column.room.iter().sum();
        let spare = self.open.len().checked_sub(ends)?;
        self.attempts = 0;
        // Those that are near each other one after another.
        let mut order: Vec<usize> = (0..self.open.len()).collect();
        order.sort_by_key(|&place| (self.hops.first().map(|hops| hops[self.open[place]]), place));
        self.fill(&order, spare, &mut column)
    }

    /// Puts the rest of the places beside switches of the column, or leaves them to be joined in pairs.
    fn fill(&mut self, rest: &[usize], spare: usize, column: &mut Column) -> Option<Whole> {
        if !self.may_go_on() {
            return None;
        }
        let Some((&place, rest)) = rest.split_first() else {
            let around: Vec<Vec<usize>> = (column.members.iter())
                .map(|members| members.iter().map(|&place| self.open[place]).collect())
                .collect();
            let left = column.left.clone();
            return self.join(&left, &mut Vec::new(), &around);
        };
        let apart = |other: &usize| self.hops[place][self.open[*other]];
        let mut choices: Vec<(usize, usize)> = Vec::new();
        for (at, members) in column.members.iter().enumerate() {
            let is_near = members.iter().any(|other| apart(other) <= Some(1));
            if members.len() < column.room[at] && !is_near {
                let fitting = members.iter().filter(|other| apart(other) == Some(2));
                choices.push((fitting.count(), at));
            }
        }
        choices.sort_by_key(|&(fitting, at)| (core::cmp::Reverse(fitting), at));
        for (_, at) in choices {
            if self.is_at_an_end() {
                return None;
            }
            column.members[at].push(place);
            let found = self.fill(rest, spare, column);
            column.members[at].pop();
            if found.is_some() {
                return found;
            }
        }
        if column.left.len() < spare {
            column.left.push(place);
            let found = self.fill(rest, spare, column);
            column.left.pop();
            return found;
        }
        None
    }

    fn attempt(&mut self, joined: &[(usize, usize)], around: &[Vec<usize>]) -> Option<Whole> {
        self.attempts += 1;
        let mut graph = self.graph.clone();
        let node = |switch: usize| self.network.switches()[switch];
        for &(a, b) in joined {
            connect(&mut graph, node(a), node(b))?;
        }
        let mut before = None;
        for (number, around) in (1..).zip(around) {
            let ports = u8::try_from(around.len() + 2).ok()?;
            let guid = Guid(self.network.switch_guids().last()?.0.checked_add(number)?);
            let name = (0..).map(|number| format!("missing{number}"));
            let name = name
                .take(graph.len() + 1)
                .find(|name| graph.find(name).is_none())?;
            let added = graph.add(Node::new(name, NodeKind::Switch, guid, ports));
            let added = added.ok()?;
            for &switch in around {
                connect(&mut graph, added, node(switch))?;
            }
            if let Some(before) = before.replace(added) {
                connect(&mut graph, before, added)?;
            }
        }
        let network = Network::new(&graph);
        let grid = Grid::recognise(&network).ok()?;
        Some(Whole { network, grid })
    }
}

/// The switches that a switch has cables to.
fn neighbours(network: &Network, switch: usize) -> Vec<usize> {
    let by_neighbour = network.leaving_by_neighbour(switch).iter();
    let mut neighbours: Vec<usize> = by_neighbour
        .map(|&channel| network.channels()[channel].to)
        .collect();
    neighbours.dedup();
    neighbours
}

/// A cable between the first free ports of two nodes.
fn connect(graph: &mut Graph, a: NodeId, b: NodeId) -> Option<()> {
    let free = |graph: &Graph, node: NodeId| {
        let ends = (1..=graph.node(node).ports).map(|port| Endpoint {
            node,
            port: PortNum::new(port),
        });
        let mut ends = ends.filter(|&end| graph.peer(end).is_none());
        ends.next()
    };
    let (from, to) = (free(graph, a)?, free(graph, b)?);
    graph.connect(from, to).ok()
}
