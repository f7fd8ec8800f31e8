//! Random connected regular graphs of switches (LID07 evaluates on such).
//!
//! Stubs (ends of cables that are not joined yet) are paired at random. Pairs that would make a loop
//! or a second cable between two switches are undone, and their stubs are paired anew in another
//! round. A pairing that cannot be completed is discarded. A dense graph is made as the complement of a sparse one.

use std::collections::{BTreeMap, BTreeSet};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

/// How many pairings are tried. One in ten or more succeeds.
const ATTEMPTS_MAX: usize = 10_000;

/// The cables of a random connected simple graph of `switches` with `degree` neighbours each:
/// pairs of switches, the smaller first, in order. The same numbers give the same graph.
///
/// `switches * degree` is even, `degree` below `switches`, and 2 or more unless `switches` is
/// below 3. `None` if that does not hold, or if [`ATTEMPTS_MAX`] pairings have failed.
pub(crate) fn connected(switches: usize, degree: usize, seed: u64) -> Option<Vec<(usize, usize)>> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    for _ in 0..ATTEMPTS_MAX {
        let dense = degree > (switches - 1) / 2;
        let sparse_degree = if dense { switches - 1 - degree } else { degree };
        let Some(sparse) = pairing(switches, sparse_degree, &mut random) else {
            continue;
        };
        let edges = if dense {
            complement(switches, &sparse)
        } else {
            sparse
        };
        if is_connected(switches, &edges) {
            return Some(edges.into_iter().collect());
        }
    }
    None
}

fn pairing(
    switches: usize,
    degree: usize,
    random: &mut ChaCha8Rng,
) -> Option<BTreeSet<(usize, usize)>> {
    let mut edges = BTreeSet::new();
    let mut stubs: Vec<usize> = (0..switches)
        .flat_map(|switch| core::iter::repeat_n(switch, degree))
        .collect();
    while !stubs.is_empty() {
        stubs.shuffle(random);
        let mut left: BTreeMap<usize, usize> = BTreeMap::new();
        for pair in stubs.chunks_exact(2) {
            let edge = (pair[0].min(pair[1]), pair[0].max(pair[1]));
            if edge.0 == edge.1 || !edges.insert(edge) {
                *left.entry(edge.0).or_default() += 1;
                *left.entry(edge.1).or_default() += 1;
            }
        }
        if !can_go_on(&edges, &left) {
            return None;
        }
        stubs = left
            .into_iter()
            .flat_map(|(switch, count)| core::iter::repeat_n(switch, count))
            .collect();
    }
    Some(edges)
}

/// Whether two of the switches with stubs left are not neighbours yet.
fn can_go_on(edges: &BTreeSet<(usize, usize)>, left: &BTreeMap<usize, usize>) -> bool {
    left.is_empty()
        || left
            .keys()
            .any(|&a| left.keys().any(|&b| a < b && !edges.contains(&(a, b))))
}

fn complement(switches: usize, edges: &BTreeSet<(usize, usize)>) -> BTreeSet<(usize, usize)> {
    (0..switches)
        .flat_map(|a| (a + 1..switches).map(move |b| (a, b)))
        .filter(|edge| !edges.contains(edge))
        .collect()
}

fn is_connected(switches: usize, edges: &BTreeSet<(usize, usize)>) -> bool {
    let mut neighbours = vec![Vec::new(); switches];
    for &(a, b) in edges {
        neighbours[a].push(b);
        neighbours[b].push(a);
    }
    let mut seen = vec![false; switches];
    let mut open = vec![0];
    seen[0] = true;
    while let Some(switch) = open.pop() {
        for &next in &neighbours[switch] {
            if !core::mem::replace(&mut seen[next], true) {
                open.push(next);
            }
        }
    }
    seen.into_iter().all(|reached| reached)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn degrees(switches: usize, edges: &[(usize, usize)]) -> Vec<usize> {
        let mut degrees = vec![0; switches];
        for &(a, b) in edges {
            degrees[a] += 1;
            degrees[b] += 1;
        }
        degrees
    }

    #[test]
    fn graphs_are_simple_connected_and_regular_from_sparse_to_complete() {
        for (switches, degree) in [(2, 1), (3, 2), (8, 3), (40, 2), (16, 8), (16, 13), (9, 8)] {
            for seed in 0..20 {
                let edges = connected(switches, degree, seed).unwrap();
                assert!(degrees(switches, &edges).iter().all(|&d| d == degree));
                let set: BTreeSet<_> = edges.iter().copied().collect();
                assert_eq!(set.len(), edges.len());
                assert!(edges.iter().all(|(a, b)| a < b));
                assert!(is_connected(switches, &set));
            }
        }
    }

    #[test]
    fn the_seed_alone_decides() {
        assert_eq!(connected(16, 8, 7), connected(16, 8, 7));
        assert_ne!(connected(16, 8, 7), connected(16, 8, 8));
    }
}
