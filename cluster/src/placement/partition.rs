//! The division of groups of devices among machines.

use std::collections::BTreeMap;

use metis::option::Seed;
use metis::{Idx, Real};
use topologies::Graph;
use wire::convert::saturate;

use super::{Groups, PlacementError};

/// The seed of METIS's choices.
const SEED: Idx = 1;
/// How far a machine may be above its share before a division with more cables between machines is taken, percent.
const IMBALANCE_MAX: u64 = 5;

/// The groups as METIS has graphs: neighbours and cables to them, group by group.
struct Weighted {
    /// Cables between groups.
    between: Vec<BTreeMap<usize, Idx>>,
    starts: Vec<Idx>,
    neighbours: Vec<Idx>,
    cables: Vec<Idx>,
    ports: Vec<Idx>,
}

impl Weighted {
    fn of(graph: &Graph, groups: &Groups) -> Self {
        let mut between: Vec<BTreeMap<usize, Idx>> = vec![BTreeMap::new(); groups.count];
        // A device without a cable costs its process.
        let mut ports: Vec<Idx> = vec![0; groups.count];
        for id in graph.ids() {
            let group = groups.of[id.index()];
            ports[group] += saturate::<Idx>(graph.cables(id).count().max(1));
        }
        for (a, b) in graph.links() {
            let [a, b] = [a, b].map(|end| groups.of[end.node.index()]);
            if a != b {
                *between[a].entry(b).or_default() += 1;
                *between[b].entry(a).or_default() += 1;
            }
        }
        let mut starts = vec![0];
        let (mut neighbours, mut cables) = (Vec::new(), Vec::new());
        for group in &between {
            for (&neighbour, &count) in group {
                neighbours.push(saturate(neighbour));
                cables.push(count);
            }
            starts.push(saturate(neighbours.len()));
        }
        Self {
            between,
            starts,
            neighbours,
            cables,
            ports,
        }
    }

    /// How far the machine that is farthest above its share is above it, percent.
    fn excess(&self, parts: &[usize], cpus: &[u32]) -> u64 {
        let mut ports = vec![0u64; cpus.len()];
        for (&part, &weight) in parts.iter().zip(&self.ports) {
            ports[part] += u64::from(weight.unsigned_abs());
        }
        let all: u64 = ports.iter().sum();
        let all_cpus: u64 = cpus.iter().map(|&cpus| u64::from(cpus)).sum();
        let each = ports.iter().zip(cpus);
        let percents = each.map(|(ports, &cpus)| {
            let share = (all * u64::from(cpus)).max(1);
            (ports * all_cpus * 100 / share).saturating_sub(100)
        });
        percents.max().unwrap_or(0)
    }

    /// How many cables join a group to the groups on `machine`.
    fn cables_to(&self, group: usize, parts: &[usize], machine: usize) -> Idx {
        let between = self.between[group].iter();
        let there = between.filter(|(neighbour, _)| parts[**neighbour] == machine);
        there.map(|(_, cables)| cables).sum()
    }
}

/// The machine of each group.
pub(super) fn divide(
    graph: &Graph,
    groups: &Groups,
    cpus: &[u32],
) -> Result<Vec<usize>, PlacementError> {
    let weighted = Weighted::of(graph, groups);
    if cpus.len() == 1 {
        return Ok(vec![0; groups.count]);
    }
    let mut parts = match groups.count > cpus.len() {
        true => best(&weighted, cpus)?,
        false => vec![0; groups.count],
    };
    while let Some(idle) = (0..cpus.len()).find(|machine| !parts.contains(machine)) {
        fill(&weighted, &mut parts, cpus, idle);
    }
    Ok(parts)
}

/// The better one of METIS's two divisions, by recursive bisection and into all parts at once.
fn best(weighted: &Weighted, cpus: &[u32]) -> Result<Vec<usize>, PlacementError> {
    let failed = |error: &dyn std::fmt::Display| PlacementError::Metis(error.to_string());
    let all: f64 = cpus.iter().map(|&cpus| f64::from(cpus)).sum();
    let shares: Vec<Real> = cpus.iter().map(|&cpus| share(cpus, all)).collect();
    let last = cpus.len() - 1;
    let mut divisions = Vec::new();
    for is_recursive in [true, false] {
        let mut found: Vec<Idx> = vec![0; weighted.ports.len()];
        let graph = metis::Graph::new(
            1,
            saturate(cpus.len()),
            &weighted.starts,
            &weighted.neighbours,
        )
        .map_err(|error| failed(&error))?
        .set_vwgt(&weighted.ports)
        .set_adjwgt(&weighted.cables)
        .set_tpwgts(&shares)
        .set_option(Seed(SEED));
        let cut = match is_recursive {
            true => graph.part_recursive(&mut found),
            false => graph.part_kway(&mut found),
        }
        .map_err(|error| failed(&error))?;
        let parts: Vec<usize> = found
            .into_iter()
            .map(|part| usize::try_from(part).unwrap_or(0).min(last))
            .collect();
        let excess = weighted.excess(&parts, cpus);
        divisions.push((excess.max(IMBALANCE_MAX), cut, excess, parts));
    }
    let best = divisions.into_iter().min();
    Ok(best.map(|(.., parts)| parts).unwrap_or_default())
}

/// A machine's share of the whole; METIS takes single precision.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a fraction between 0 and 1"
)]
fn share(cpus: u32, all: f64) -> Real {
    (f64::from(cpus) / all) as Real
}

/// Gives an idle machine the group whose leave costs the fewest cut cables, of the machine that has the most
/// to do for its processors among those with several groups.
fn fill(weighted: &Weighted, parts: &mut [usize], cpus: &[u32], idle: usize) {
    let mut ports = vec![0i64; cpus.len()];
    let mut groups = vec![0usize; cpus.len()];
    for (&part, &weight) in parts.iter().zip(&weighted.ports) {
        ports[part] += i64::from(weight);
        groups[part] += 1;
    }
    let busiest = (0..cpus.len())
        .filter(|&machine| groups[machine] > 1)
        .max_by(|&a, &b| {
            let [left, right] = [(a, b), (b, a)].map(|(x, y)| ports[x] * i64::from(cpus[y]));
            left.cmp(&right).then(b.cmp(&a))
        });
    let Some(busiest) = busiest else { return };
    let leaves = (0..parts.len())
        .filter(|&group| parts[group] == busiest)
        .min_by_key(|&group| (weighted.cables_to(group, parts, busiest), group));
    if let Some(group) = leaves {
        parts[group] = idle;
    }
}
