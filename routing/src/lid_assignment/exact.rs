//! The least number of configurations for one destination: the chromatic number of the split
//! graph. (Paths without a split in pairs have none as a set, so colour classes are exactly the
//! configurations.) The problem is NP-complete, so the search is given a number of steps.

use wire::convert::{saturate, usize_of};

use super::LidError;
use super::heuristics::{First, color};
use super::splits::{PathSet, Problem};

/// The fewest configurations, found by branch and bound over the split graph.
///
/// Paths that may share the configuration of another whatever that is, and paths with fewer splits
/// than configurations are certainly needed, are set aside first. The rest is coloured path by
/// path, the one with the fewest configurations left to it first (DSATUR), from the solution of
/// `color-l` down to the size of the largest clique found.
///
/// # Errors
/// [`LidError::TooHard`] if `steps_max` partial solutions do not decide it.
pub fn exact(problem: &Problem<'_>, steps_max: u64) -> Result<Vec<u32>, LidError> {
    let graph = problem.split_graph();
    let mut best = color(problem, First::Largest);
    let upper = best.iter().max().map_or(0, |&last| last + 1);
    let clique = largest_clique(&graph);
    if clique >= upper {
        return Ok(best);
    }
    let (core, aside) = reduce(&graph, clique);
    let mut search = Search {
        graph: &graph,
        core: &core,
        colours: vec![None; graph.len()],
        best: upper,
        solution: None,
        lower: clique,
        steps: steps_max,
    };
    if !search.extend(0) {
        return Err(LidError::TooHard {
            paths: problem.len(),
            steps_max,
        });
    }
    if let Some(mut colours) = search.solution {
        for (path, reason) in aside.into_iter().rev() {
            colours[path] = match reason {
                Excluded::Follows(other) => colours[other],
                Excluded::HasRoom(neighbours) => (0..).find(|&colour| {
                    neighbours
                        .iter()
                        .all(|&other| colours[other] != Some(colour))
                }),
            };
        }
        best = colours.into_iter().flatten().collect();
    }
    Ok(best)
}

/// The size of the largest clique that is found greedily, once from each vertex.
fn largest_clique(graph: &[PathSet]) -> u32 {
    let mut order: Vec<usize> = (0..graph.len()).collect();
    order.sort_by_key(|&path| core::cmp::Reverse(graph[path].iter().count()));
    let from = |first: &usize| {
        let mut clique = vec![*first];
        for &path in &order {
            if clique.iter().all(|&member| graph[member].contains(path)) {
                clique.push(path);
            }
        }
        saturate::<u32>(clique.len())
    };
    order.iter().map(from).max().unwrap_or(0)
}

/// Why a path need not be looked at in the search.
enum Excluded {
    /// It can have the configuration of this path: all its splits are that one's too.
    Follows(usize),
    /// It has fewer splits (with these paths) than there are configurations in any solution.
    HasRoom(Vec<usize>),
}

fn reduce(graph: &[PathSet], clique: u32) -> (Vec<usize>, Vec<(usize, Excluded)>) {
    let mut graph: Vec<PathSet> = graph.to_vec();
    let mut left: Vec<usize> = (0..graph.len()).collect();
    let mut aside = Vec::new();
    loop {
        let next = left.iter().copied().find_map(|path| {
            let neighbours: Vec<usize> = graph[path].iter().collect();
            if neighbours.len() < usize_of(clique) {
                return Some((path, Excluded::HasRoom(neighbours)));
            }
            let other = left.iter().copied().find(|&other| {
                other != path
                    && !graph[path].contains(other)
                    && graph[path].is_subset(&graph[other])
            })?;
            Some((path, Excluded::Follows(other)))
        });
        let Some((path, reason)) = next else {
            return (left, aside);
        };
        left.retain(|&other| other != path);
        for other in &left {
            graph[*other].remove(path);
        }
        aside.push((path, reason));
    }
}

struct Search<'a> {
    graph: &'a [PathSet],
    core: &'a [usize],
    colours: Vec<Option<u32>>,
    /// Colours of the best solution so far.
    best: u32,
    solution: Option<Vec<Option<u32>>>,
    lower: u32,
    steps: u64,
}

impl Search<'_> {
    /// Colours the rest of the core with fewer colours than the best; false if out of steps.
    fn extend(&mut self, used: u32) -> bool {
        if self.steps == 0 {
            return false;
        }
        self.steps -= 1;
        let Some(path) = self.most_constrained() else {
            self.best = used;
            self.solution = Some(self.colours.clone());
            return true;
        };
        for colour in 0..=used {
            // A new colour must leave the solution better than the best.
            if used.max(colour + 1) >= self.best {
                break;
            }
            let taken = self.graph[path]
                .iter()
                .any(|other| self.colours[other] == Some(colour));
            if taken {
                continue;
            }
            self.colours[path] = Some(colour);
            let decided = self.extend(used.max(colour + 1));
            self.colours[path] = None;
            if !decided {
                return false;
            }
            if self.best <= self.lower {
                return true;
            }
        }
        true
    }

    fn most_constrained(&self) -> Option<usize> {
        self.core
            .iter()
            .copied()
            .filter(|&path| self.colours[path].is_none())
            .max_by_key(|&path| {
                let (mut seen, mut open) = (0u128, 0usize);
                for other in self.graph[path].iter() {
                    match self.colours[other] {
                        Some(colour) => seen |= 1u128.checked_shl(colour).unwrap_or(0),
                        None => open += 1,
                    }
                }
                (seen.count_ones(), open, core::cmp::Reverse(path))
            })
    }
}
