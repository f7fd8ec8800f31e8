//! The Paull matrix and rearrangement.
//!
//! Row `i`, column `j` holds the trees of the connections from leaf `i` to leaf `j`. Each tree has
//! one link up from `i` and one down to `j`, so a tree stands at most once in a row and once in a
//! column. A connection that finds no tree free in both its row and its column takes a tree `a`
//! that is free in its row; the connection that has `a` in the column changes to `b`, a tree that
//! is free there, the one that has `b` in that one's row changes to `a`, and so on. The chain never
//! comes back, as `b` is free in the column where it began (Paull 1962; Hui's rearrangement).

use super::shape::NonBlocking;

/// A connection that changes its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Move<K> {
    /// The connection.
    pub connection: K,
    /// The tree that it had.
    pub from: usize,
    /// The tree that it has now.
    pub to: usize,
}

/// A connection's place in the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell<K> {
    connection: K,
    row: usize,
    column: usize,
}

/// The matrix; connections are known by keys `K`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paull<K> {
    /// `rows[leaf][tree]`, and the same cells by column.
    rows: Vec<Vec<Option<Cell<K>>>>,
    columns: Vec<Vec<Option<Cell<K>>>>,
}

impl<K: Copy + PartialEq> Paull<K> {
    /// An empty matrix.
    #[must_use]
    pub fn new(leaves: usize, trees: usize) -> Self {
        Self {
            rows: vec![vec![None; trees]; leaves],
            columns: vec![vec![None; trees]; leaves],
        }
    }

    fn trees(&self) -> usize {
        self.rows.first().map_or(0, Vec::len)
    }

    /// The connection that sends from a leaf into a tree.
    #[must_use]
    pub fn sender(&self, leaf: usize, tree: usize) -> Option<K> {
        self.rows[leaf][tree].map(|cell| cell.connection)
    }

    /// The connection that a leaf receives from a tree.
    #[must_use]
    pub fn receiver(&self, leaf: usize, tree: usize) -> Option<K> {
        self.columns[leaf][tree].map(|cell| cell.connection)
    }

    /// Enters a connection into the first tree that is free at both leaves, moving none.
    pub fn connect(&mut self, connection: K, row: usize, column: usize) -> Option<usize> {
        let tree = (0..self.trees())
            .find(|&tree| self.rows[row][tree].is_none() && self.columns[column][tree].is_none())?;
        self.put(
            Cell {
                connection,
                row,
                column,
            },
            tree,
        );
        Some(tree)
    }

    /// Enters a connection and moves others for it if need be, as few as one exchange of two trees
    /// can do. `None` if its row or its column is full; with as many trees as a leaf has hosts that
    /// never happens to admissible traffic ([`NonBlocking::Rearrangeably`]).
    pub fn rearrange(
        &mut self,
        connection: K,
        row: usize,
        column: usize,
    ) -> Option<(usize, Vec<Move<K>>)> {
        if let Some(tree) = self.connect(connection, row, column) {
            return Some((tree, Vec::new()));
        }
        let free = |cells: &[Option<Cell<K>>]| -> Vec<usize> {
            (0..cells.len())
                .filter(|&tree| cells[tree].is_none())
                .collect()
        };
        let mut best: Option<(usize, Vec<Move<K>>)> = None;
        for a in free(&self.rows[row]) {
            for &b in &free(&self.columns[column]) {
                let chains = [
                    (a, self.chain(self.columns[column][a], a, b, Side::Row)),
                    (b, self.chain(self.rows[row][b], b, a, Side::Column)),
                ];
                for (tree, moves) in chains {
                    if best
                        .as_ref()
                        .is_none_or(|(_, other)| moves.len() < other.len())
                    {
                        best = Some((tree, moves));
                    }
                }
            }
        }
        let (tree, moves) = best?;
        let cells: Vec<Option<Cell<K>>> = moves.iter().map(|step| self.take(step)).collect();
        for (cell, step) in cells.into_iter().flatten().zip(&moves) {
            self.put(cell, step.to);
        }
        self.put(
            Cell {
                connection,
                row,
                column,
            },
            tree,
        );
        Some((tree, moves))
    }

    /// The moves that let `first` change from tree `from` to `to`: the connection that has `to` on
    /// `side` of it changes to `from`, and so on.
    fn chain(&self, first: Option<Cell<K>>, from: usize, to: usize, side: Side) -> Vec<Move<K>> {
        let mut moves = Vec::new();
        let (mut next, mut from, mut to, mut side) = (first, from, to, side);
        while let Some(cell) = next {
            moves.push(Move {
                connection: cell.connection,
                from,
                to,
            });
            next = match side {
                Side::Row => self.rows[cell.row][to],
                Side::Column => self.columns[cell.column][to],
            };
            (from, to) = (to, from);
            side = match side {
                Side::Row => Side::Column,
                Side::Column => Side::Row,
            };
        }
        moves
    }

    fn take(&mut self, step: &Move<K>) -> Option<Cell<K>> {
        let cell = self
            .rows
            .iter()
            .find_map(|row| row[step.from].filter(|cell| cell.connection == step.connection))?;
        self.remove(cell.row, cell.column, step.from);
        Some(cell)
    }

    fn put(&mut self, cell: Cell<K>, tree: usize) {
        self.rows[cell.row][tree] = Some(cell);
        self.columns[cell.column][tree] = Some(cell);
    }

    /// Takes out the connection from one leaf to another in a tree.
    pub fn remove(&mut self, row: usize, column: usize, tree: usize) {
        self.rows[row][tree] = None;
        self.columns[column][tree] = None;
    }

    /// What the matrix promises where a leaf has `hosts` hosts at most.
    #[must_use]
    pub fn non_blocking(&self, hosts: usize) -> NonBlocking {
        NonBlocking::of(self.trees(), hosts)
    }
}

#[derive(Clone, Copy)]
enum Side {
    Row,
    Column,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn two_hosts_and_two_trees_exchange_as_in_the_textbook() {
        // Leaf 0 sends in tree 0, leaf 1 receives in tree 1: a connection from 0 to 1 must move one.
        let mut matrix = Paull::new(3, 2);
        assert_eq!(matrix.connect('a', 0, 2), Some(0));
        assert_eq!(matrix.connect('b', 2, 0), Some(0));
        assert_eq!(matrix.connect('x', 2, 1), Some(1));
        assert_eq!(matrix.clone().connect('c', 0, 1), None);
        let moved = Move {
            connection: 'a',
            from: 0,
            to: 1,
        };
        assert_eq!(matrix.rearrange('c', 0, 1), Some((0, vec![moved])));
        for leaf in 0..3 {
            for tree in 0..2 {
                if let Some(key) = matrix.sender(leaf, tree) {
                    let receivers = (0..3).filter(|&to| matrix.receiver(to, tree) == Some(key));
                    assert_eq!(receivers.count(), 1);
                }
            }
        }
    }

    #[test]
    fn one_tree_fewer_than_strict_operation_needs_can_block_and_rearrangement_helps() {
        for hosts in 2..6 {
            let trees = 2 * hosts - 2;
            // Leaf 0 sends in the first n - 1 trees, leaf 1 receives in the other n - 1.
            let mut matrix = Paull::new(2 + trees, trees);
            for tree in 0..trees {
                let (row, column) = if tree < hosts - 1 {
                    (0, 2 + tree)
                } else {
                    (2 + tree, 1)
                };
                let cell = Cell {
                    connection: tree,
                    row,
                    column,
                };
                matrix.put(cell, tree);
            }
            assert_eq!(matrix.clone().connect(99, 0, 1), None);
            let (_, moves) = matrix.rearrange(99, 0, 1).unwrap();
            assert_eq!(moves.len(), 1);
        }
    }

    /// Connections as they come and go: (row, column) pairs by key.
    fn check(
        matrix: &Paull<usize>,
        connections: &[(usize, usize, usize)],
    ) -> Result<(), TestCaseError> {
        let cells: usize = matrix.rows.iter().flatten().flatten().count();
        prop_assert_eq!(cells, connections.len());
        for &(key, row, column) in connections {
            let tree = matrix.rows[row]
                .iter()
                .position(|cell| cell.is_some_and(|cell| cell.connection == key));
            prop_assert!(tree.is_some());
            prop_assert_eq!(matrix.receiver(column, tree.unwrap()), Some(key));
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn n_trees_never_block_and_no_tree_is_used_twice_at_a_leaf(
            hosts in 1usize..5,
            leaves in 2usize..6,
            extra in 0usize..3,
            steps in prop::collection::vec((0usize..30, 0usize..30, 0usize..3), 1..80),
        ) {
            let trees = hosts + extra;
            let mut matrix = Paull::new(leaves, trees);
            let mut connections: Vec<(usize, usize, usize)> = Vec::new();
            for (key, (row, column, release)) in steps.into_iter().enumerate() {
                let (row, column) = (row % leaves, column % leaves);
                if release == 0 && !connections.is_empty() {
                    let (key, row, column) = connections.remove((row + column) % connections.len());
                    let tree = (0..trees).find(|&tree| matrix.sender(row, tree) == Some(key));
                    matrix.remove(row, column, tree.unwrap());
                } else {
                    let sends = connections.iter().filter(|c| c.1 == row).count();
                    let receives = connections.iter().filter(|c| c.2 == column).count();
                    if sends == hosts || receives == hosts {
                        continue;
                    }
                    let before = matrix.clone();
                    let strict = matrix.clone().connect(key, row, column);
                    let Some((_, moves)) = matrix.rearrange(key, row, column) else {
                        return Err(TestCaseError::fail(format!("blocked: {before:?}")));
                    };
                    prop_assert_eq!(strict.is_some(), moves.is_empty());
                    if trees + 1 >= 2 * hosts {
                        prop_assert!(moves.is_empty());
                    }
                    // Paull: fewer moves than twice the leaves, by the shorter of two chains.
                    prop_assert!(moves.len() < 2 * leaves);
                    connections.push((key, row, column));
                }
                check(&matrix, &connections)?;
            }
        }
    }
}
