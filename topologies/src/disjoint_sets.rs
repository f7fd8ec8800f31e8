//! Disjoint sets of numbers (union-find). A set is known by its smallest member.

/// Sets of the numbers from 0 to one less than their count.
#[derive(Clone, Debug)]
pub struct DisjointSets {
    /// By number: another member of its set that is not larger, or itself.
    parent: Vec<usize>,
}

impl DisjointSets {
    /// `count` sets of one number each.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self {
            parent: (0..count).collect(),
        }
    }

    /// The smallest member of a number's set. Halves the path there, so that the cost of many calls is
    /// nearly constant.
    ///
    /// # Panics
    /// If there is no such number.
    pub fn first(&mut self, mut number: usize) -> usize {
        while self.parent[number] != number {
            self.parent[number] = self.parent[self.parent[number]];
            number = self.parent[number];
        }
        number
    }

    /// Makes one set of the sets of two numbers; whether they were two.
    ///
    /// # Panics
    /// If there is no such number.
    pub fn join(&mut self, a: usize, b: usize) -> bool {
        let (a, b) = (self.first(a), self.first(b));
        self.parent[a.max(b)] = a.min(b);
        a != b
    }

    /// By number: the smallest member of its set.
    #[must_use]
    pub fn into_firsts(mut self) -> Vec<usize> {
        (0..self.parent.len())
            .map(|number| self.first(number))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_known_by_its_smallest_member_in_whatever_order_it_was_joined() {
        let mut sets = DisjointSets::new(7);
        for (a, b) in [(5, 6), (3, 5), (6, 1), (2, 4)] {
            assert!(sets.join(a, b));
        }
        assert!(!sets.join(6, 3), "they are one already");
        assert_eq!(sets.first(6), 1);
        assert_eq!(sets.into_firsts(), [0, 1, 2, 1, 2, 1, 1]);
    }
}
