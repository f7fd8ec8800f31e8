//! The heuristics of LID07 for one destination. Each gives every path of a [`Problem`] the number
//! of its configuration; numbers run from 0 without gaps, and no two configurations could be
//! merged (the paper's minimal configuration set).

use wire::convert::saturate;

use super::splits::{Configuration, Problem};

/// Paths one after another, each into the first configuration that it fits.
fn first_fit(problem: &Problem<'_>, order: impl IntoIterator<Item = usize>) -> Vec<u32> {
    let mut configurations: Vec<Configuration> = Vec::new();
    let mut numbers = vec![0; problem.len()];
    for path in order {
        let fitting = configurations
            .iter()
            .position(|configuration| configuration.fits(problem, path));
        let number = fitting.unwrap_or_else(|| {
            configurations.push(Configuration::new(problem.switches()));
            configurations.len() - 1
        });
        configurations[number].insert(problem, path);
        numbers[path] = saturate::<u32>(number);
    }
    numbers
}

/// `greedy`: fit as many paths as possible into a configuration, in the order in which they come,
/// then begin the next. (To put every path into the first configuration that it fits gives the
/// same.)
#[must_use]
pub fn greedy(problem: &Problem<'_>) -> Vec<u32> {
    first_fit(problem, 0..problem.len())
}

/// Which path is assigned first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// The paper's S: switches with the fewest split paths, paths of the smallest degree.
    Smallest,
    /// The paper's L: switches with the most split paths, paths of the largest degree.
    Largest,
}

impl First {
    fn sort(self, numbers: &mut [usize], key: impl Fn(usize) -> u32) {
        match self {
            Self::Smallest => numbers.sort_by_key(|&number| (key(number), number)),
            Self::Largest => {
                numbers.sort_by_key(|&number| (core::cmp::Reverse(key(number)), number));
            }
        }
    }
}

/// `color`: colours the split graph. Configurations are extracted one after another, each taking
/// the paths left in a fixed order of degree; the degree counts every source's path.
#[must_use]
pub fn color(problem: &Problem<'_>, first: First) -> Vec<u32> {
    let degrees: Vec<u32> = problem
        .split_graph()
        .iter()
        .map(|splits| splits.iter().map(|path| problem.weight(path)).sum())
        .collect();
    let mut order: Vec<usize> = (0..problem.len()).collect();
    first.sort(&mut order, |path| degrees[path]);
    first_fit(problem, order)
}

/// `split-merge`: begins with one set of all paths. Switches at which paths split are taken in
/// order of how many paths cross them; at each, every set is divided by the channel that its paths
/// leave by, and paths that do not cross the switch stay with the largest part. In the end each
/// set goes into the first configuration that it can be merged with.
#[must_use]
pub fn split_merge(problem: &Problem<'_>, first: First) -> Vec<u32> {
    let mut crossing = vec![0; problem.switches()];
    let mut leaves_by: Vec<Option<u32>> = vec![None; problem.switches()];
    let mut splitting = vec![false; problem.switches()];
    for path in 0..problem.len() {
        for (switch, channel) in problem.steps(path) {
            crossing[switch] += problem.weight(path);
            splitting[switch] |= leaves_by[switch].is_some_and(|other| other != channel);
            leaves_by[switch] = Some(channel);
        }
    }
    let mut order: Vec<usize> = (0..problem.switches())
        .filter(|&switch| splitting[switch])
        .collect();
    first.sort(&mut order, |switch| crossing[switch]);

    let mut sets: Vec<Vec<usize>> = vec![(0..problem.len()).collect()];
    for switch in order {
        sets = sets
            .into_iter()
            .flat_map(|set| divide(problem, set, switch))
            .collect();
    }
    merge(problem, &sets)
}

fn divide(problem: &Problem<'_>, set: Vec<usize>, switch: usize) -> Vec<Vec<usize>> {
    let mut parts: std::collections::BTreeMap<u32, Vec<usize>> = Default::default();
    let mut elsewhere = Vec::new();
    for path in set {
        let leaving = problem.steps(path).find(|&(at, _)| at == switch);
        match leaving {
            Some((_, channel)) => parts.entry(channel).or_default().push(path),
            None => elsewhere.push(path),
        }
    }
    let weight = |part: &Vec<usize>| part.iter().map(|&path| problem.weight(path)).sum::<u32>();
    let largest = parts
        .iter()
        .max_by_key(|&(&channel, part)| (weight(part), core::cmp::Reverse(channel)))
        .map(|(&channel, _)| channel);
    match largest.and_then(|channel| parts.get_mut(&channel)) {
        Some(part) => {
            part.append(&mut elsewhere);
            part.sort_unstable();
            parts.into_values().collect()
        }
        None => vec![elsewhere],
    }
}

fn merge(problem: &Problem<'_>, sets: &[Vec<usize>]) -> Vec<u32> {
    let mut configurations: Vec<Configuration> = Vec::new();
    let mut numbers = vec![0; problem.len()];
    for set in sets {
        let mut own = Configuration::new(problem.switches());
        for &path in set {
            own.insert(problem, path);
        }
        let fitting = configurations.iter().position(|other| other.agrees(&own));
        let number = fitting.unwrap_or(configurations.len());
        match configurations.get_mut(number) {
            Some(configuration) => configuration.merge(&own),
            None => configurations.push(own),
        }
        for &path in set {
            numbers[path] = saturate::<u32>(number);
        }
    }
    numbers
}
