//! Finding the coordinates of a grid in its cables.
//!
//! In a product of graphs two cables at a switch that belong to different dimensions are two sides
//! of exactly one square without diagonals, and its opposite sides belong to the same dimensions.
//! Cables that span no such square belong to one dimension. These two rules divide the cables into
//! dimensions; a switch's position in a dimension is the part of the fabric that it is in once that
//! dimension's cables are taken out. Whether all of this really is a grid is then checked, so the
//! rules need not be right for graphs that are none.

use std::collections::BTreeMap;

use thiserror::Error;
use topologies::DisjointSets;

use crate::network::Network;

/// How a fabric is no grid that `dor` can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotGrid {
    /// There is nothing to route.
    #[error("there is no switch")]
    NoSwitch,
    /// Cables do not fall into dimensions in which all switches have a place.
    #[error("its cables are not those of a mesh, torus, ring or hypercube")]
    NoProduct,
    /// A dimension that is no row or ring.
    #[error("the {size} positions of one dimension form neither a row nor a ring")]
    NoLine {
        /// Positions in that dimension.
        size: usize,
    },
    /// More large rings than service levels have bits.
    #[error("{rings} dimensions are rings of five or more, {rings_max} at most can be told apart")]
    TooManyRings {
        /// How many there are.
        rings: usize,
        /// How many there may be.
        rings_max: usize,
    },
}

/// A dimension of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// Positions, at least 2; they count from 0.
    pub size: usize,
    /// Whether the last position is next to the first, beside being more than one step away.
    pub ring: bool,
}

impl Dimension {
    /// Whether the way from one position to another leads to larger ones: along a row there is one, and of
    /// the two round a ring the shorter is taken. Half way round, both directions take the same cables, so
    /// that answers pass where what they answer does: the pairs of even positions those between the two,
    /// and those of odd ones the others, or where one position is odd and the other even, on from the even
    /// one.
    #[must_use]
    pub fn leads_on(self, from: usize, to: usize) -> bool {
        if !self.ring {
            return to > from;
        }
        let ahead = (to + self.size - from) % self.size;
        match (2 * ahead).cmp(&self.size) {
            core::cmp::Ordering::Less => true,
            core::cmp::Ordering::Equal if ahead.is_multiple_of(2) => {
                (from < to) == from.is_multiple_of(2)
            }
            core::cmp::Ordering::Equal => from.is_multiple_of(2),
            core::cmp::Ordering::Greater => false,
        }
    }
}

/// The coordinates of all switches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    dimensions: Vec<Dimension>,
    /// By switch of the network, by dimension.
    places: Vec<Vec<usize>>,
    by_place: BTreeMap<Vec<usize>, usize>,
}

impl Grid {
    /// Finds coordinates. The first switch is at the first position of each ring; of the ends of a
    /// row, the one with the smaller first switch is first. Dimensions are in the order of the
    /// first switch's neighbours.
    ///
    /// # Errors
    /// [`NotGrid`].
    pub fn recognise(network: &Network) -> Result<Self, NotGrid> {
        let web = Web::new(network);
        if web.neighbours.is_empty() {
            return Err(NotGrid::NoSwitch);
        }
        let classes = web.dimensions();
        let mut order: Vec<usize> = Vec::new();
        for &(_, cable) in &web.neighbours[0] {
            if !order.contains(&classes[cable]) {
                order.push(classes[cable]);
            }
        }
        let mut places = vec![Vec::new(); web.neighbours.len()];
        let mut dimensions = Vec::new();
        for class in order {
            let (dimension, positions) = web.line(&classes, class)?;
            dimensions.push(dimension);
            for (place, position) in places.iter_mut().zip(positions) {
                place.push(position);
            }
        }
        let by_place = places.iter().cloned().zip(0..).collect();
        let grid = Self {
            dimensions,
            places,
            by_place,
        };
        grid.check(&web)?;
        Ok(grid)
    }

    /// Every place has one switch, and cables are where neighbours are and nowhere else.
    fn check(&self, web: &Web) -> Result<(), NotGrid> {
        let count: usize = self
            .dimensions
            .iter()
            .map(|dimension| dimension.size)
            .product();
        if count != self.places.len() || self.by_place.len() != count {
            return Err(NotGrid::NoProduct);
        }
        for (switch, neighbours) in web.neighbours.iter().enumerate() {
            let expected: usize = (0..self.dimensions.len())
                .map(|dimension| self.beside(switch, dimension).count())
                .sum();
            let are_beside = neighbours
                .iter()
                .all(|&(other, _)| self.dimension_of(switch, other).is_some());
            if expected != neighbours.len() || !are_beside {
                return Err(NotGrid::NoProduct);
            }
        }
        Ok(())
    }

    /// The positions next to a switch's in a dimension.
    fn beside(&self, switch: usize, dimension: usize) -> impl Iterator<Item = usize> + use<> {
        let Dimension { size, ring } = self.dimensions[dimension];
        let own = self.places[switch][dimension];
        let back = own.checked_sub(1).or(ring.then_some(size - 1));
        let on = if own + 1 < size {
            Some(own + 1)
        } else {
            ring.then_some(0)
        };
        back.into_iter().chain(on)
    }

    /// The dimensions in the order in which packets travel them.
    #[must_use]
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// A switch's position in each dimension.
    #[must_use]
    pub fn place(&self, switch: usize) -> &[usize] {
        &self.places[switch]
    }

    /// The switch at another position in one dimension.
    #[must_use]
    pub fn neighbour(&self, switch: usize, dimension: usize, position: usize) -> Option<usize> {
        let mut place = self.places[switch].clone();
        *place.get_mut(dimension)? = position;
        self.by_place.get(&place).copied()
    }

    /// The dimension in which two switches are neighbours, if they are.
    #[must_use]
    pub fn dimension_of(&self, a: usize, b: usize) -> Option<usize> {
        let (here, there) = (&self.places[a], &self.places[b]);
        let mut differing = (0..here.len()).filter(|&d| here[d] != there[d]);
        let dimension = differing.next()?;
        if differing.next().is_some() {
            return None;
        }
        self.beside(a, dimension)
            .any(|position| position == there[dimension])
            .then_some(dimension)
    }
}

/// Which switches are cabled to which, once each.
struct Web {
    /// By switch: neighbour and number of the cable, by neighbour.
    neighbours: Vec<Vec<(usize, usize)>>,
    cables: usize,
}

impl Web {
    fn new(network: &Network) -> Self {
        let mut numbers: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for channel in network.channels() {
            let pair = (channel.from.min(channel.to), channel.from.max(channel.to));
            let next = numbers.len();
            numbers.entry(pair).or_insert(next);
        }
        let mut neighbours = vec![Vec::new(); network.switches().len()];
        for (&(a, b), &number) in &numbers {
            neighbours[a].push((b, number));
            neighbours[b].push((a, number));
        }
        for list in &mut neighbours {
            list.sort_unstable();
        }
        Self {
            neighbours,
            cables: numbers.len(),
        }
    }

    fn cable(&self, a: usize, b: usize) -> Option<usize> {
        let list = &self.neighbours[a];
        let place = list.binary_search_by_key(&b, |&(other, _)| other).ok()?;
        Some(list[place].1)
    }

    /// By cable: a cable that stands for its dimension.
    fn dimensions(&self) -> Vec<usize> {
        let mut same = DisjointSets::new(self.cables);
        for (corner, list) in self.neighbours.iter().enumerate() {
            for (place, &(a, to_a)) in list.iter().enumerate() {
                for &(b, to_b) in &list[place + 1..] {
                    match self.square(corner, a, b) {
                        Some((from_a, from_b)) => {
                            same.join(to_a, from_b);
                            same.join(to_b, from_a);
                        }
                        None => {
                            same.join(to_a, to_b);
                        }
                    }
                }
            }
        }
        same.into_firsts()
    }

    /// The other two cables, from `a` and from `b`, of the only square that `a`, `corner` and `b`
    /// are corners of, if it has no diagonal.
    fn square(&self, corner: usize, a: usize, b: usize) -> Option<(usize, usize)> {
        if self.cable(a, b).is_some() {
            return None;
        }
        let mut opposite = self.neighbours[a].iter().filter_map(|&(other, from_a)| {
            let from_b = self.cable(b, other)?;
            (other != corner).then_some((from_a, from_b))
        });
        opposite.next().filter(|_| opposite.next().is_none())
    }

    /// The positions of all switches in one dimension.
    fn line(&self, classes: &[usize], class: usize) -> Result<(Dimension, Vec<usize>), NotGrid> {
        let parts = self.parts(classes, class);
        let size = parts.iter().max().map_or(0, |&last| last + 1);
        let mut beside: Vec<Vec<usize>> = vec![Vec::new(); size];
        for (switch, list) in self.neighbours.iter().enumerate() {
            for &(other, cable) in list {
                let (here, there) = (parts[switch], parts[other]);
                if classes[cable] == class && !beside[here].contains(&there) {
                    beside[here].push(there);
                }
            }
        }
        let refused = Err(NotGrid::NoLine { size });
        if size < 2 || (0..size).any(|part| beside[part].contains(&part) || beside[part].len() > 2)
        {
            return refused;
        }
        // Parts are numbered by their first switches.
        let end = (0..size).find(|&part| beside[part].len() < 2);
        let mut order = vec![end.unwrap_or(0)];
        while let Some(next) = order.last().and_then(|&last| {
            beside[last]
                .iter()
                .filter(|part| !order.contains(part))
                .min()
        }) {
            order.push(*next);
        }
        if order.len() != size {
            return refused;
        }
        let mut position = vec![0; size];
        for (place, &part) in order.iter().enumerate() {
            position[part] = place;
        }
        let dimension = Dimension {
            size,
            ring: end.is_none(),
        };
        Ok((
            dimension,
            parts.into_iter().map(|part| position[part]).collect(),
        ))
    }

    /// The connected parts that are left without one dimension's cables, by switch, numbered by
    /// their first switches.
    fn parts(&self, classes: &[usize], without: usize) -> Vec<usize> {
        let mut parts = vec![usize::MAX; self.neighbours.len()];
        let mut count = 0;
        for first in 0..parts.len() {
            if parts[first] != usize::MAX {
                continue;
            }
            parts[first] = count;
            let mut open = vec![first];
            while let Some(switch) = open.pop() {
                for &(other, cable) in &self.neighbours[switch] {
                    if classes[cable] != without && parts[other] == usize::MAX {
                        parts[other] = count;
                        open.push(other);
                    }
                }
            }
            count += 1;
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::tests::{graph, shuffled};

    fn sizes(name: &str) -> Result<Vec<(usize, bool)>, NotGrid> {
        let grid = Grid::recognise(&Network::new(&graph(name)))?;
        Ok(grid.dimensions().iter().map(|d| (d.size, d.ring)).collect())
    }

    #[test]
    fn grids_of_all_kinds_are_recognised() {
        assert_eq!(sizes("mesh-5x3-1"), Ok(vec![(3, false), (5, false)]));
        assert_eq!(sizes("torus-6x5-1"), Ok(vec![(5, true), (6, true)]));
        assert_eq!(sizes("torus-3x3x3-1"), Ok(vec![(3, true); 3]));
        assert_eq!(sizes("ring-7-2"), Ok(vec![(7, true)]));
        assert_eq!(sizes("hypercube-4-1"), Ok(vec![(2, false); 4]));
        assert_eq!(sizes("star-5"), Ok(vec![]));
        // A ring of four is two rows of two; a dimension of two with two cables is a row.
        assert_eq!(
            sizes("torus-5x4-1"),
            Ok(vec![(2, false), (2, false), (5, true)])
        );
        assert_eq!(sizes("torus-5x2-1"), Ok(vec![(2, false), (5, true)]));
    }

    #[test]
    fn places_are_those_of_the_generator() {
        let network = Network::new(&graph("mesh-3x4-1"));
        let grid = Grid::recognise(&network).unwrap();
        let mut seen: Vec<&[usize]> = (0..12).map(|switch| grid.place(switch)).collect();
        assert_eq!(seen[0], [0, 0]);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 12);
    }

    #[test]
    fn what_is_no_grid_is_refused() {
        assert_eq!(sizes("fat-tree-4-3"), Err(NotGrid::NoLine { size: 20 }));
        assert!(sizes("irregular-16-1-4-1").is_err());
        assert!(sizes("clos-3-2-3").is_err());
        let mut graph = graph("mesh-4x4-1");
        let cut = graph
            .links()
            .find(|(a, b)| {
                [a, b]
                    .iter()
                    .all(|end| graph.node(end.node).kind == topologies::NodeKind::Switch)
            })
            .unwrap();
        graph.disconnect(cut.0);
        assert!(Grid::recognise(&Network::new(&graph)).is_err());
        // Four switches, all cabled to each other.
        assert_eq!(sizes("irregular-4-1-3-1"), Err(NotGrid::NoLine { size: 4 }));
    }

    #[test]
    fn places_do_not_depend_on_the_order_of_the_graph() {
        let graph = graph("torus-3x5-1");
        let places = |graph| Grid::recognise(&Network::new(graph));
        assert_eq!(places(&graph), places(&shuffled(&graph, 2)));
    }
}
