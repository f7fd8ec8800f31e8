//! Collective operations as traces: which rank sends how many bytes to which other, and what it waits for.
//!
//! ```text
//!  ring-allreduce          tree-allreduce                    alltoall
//!  step t: rank r sends    two binary trees, half of the     step k: rank r sends bytes/n to r + k
//!  chunk r - t to r + 1;   bytes each: up once both          and receives from r - k
//!  2(n - 1) steps          children have sent, then down
//! ```
//!
//! A rank goes on when what it has sent is sent and what it was to receive has come, as `MPI_Sendrecv` ends.
//! Nothing is computed: reduction takes no time. The trees are those of NCCL (Sanders, Speck, Träff 2009): every
//! rank is within one of the two and a leaf of the other; each half goes in pieces, so that the levels work at once.

use std::fmt;
use std::str::FromStr;

use hostd::control::FLOWS_MAX;
use thiserror::Error;
use wire::convert::u64_of;

/// Pieces of each half of [`Collective::TreeAllreduce`], if it has as many packets.
const PIECES: usize = 8;
/// The most iterations: with more, no host would hold their transfers.
pub(super) const ITERATIONS_MAX: u32 = 512;

/// A collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collective {
    /// Reduce-scatter and allgather round a ring.
    RingAllreduce,
    /// Reduction up and broadcast down two binary trees.
    TreeAllreduce,
    /// Every rank has a part for every other one, one partner after another.
    Alltoall,
}

/// Bytes of one rank for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Transfer {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) bytes: u64,
    pub(super) iteration: u32,
    /// Which transfers its sender has to have sent, or received, before: positions in the list of all.
    pub(super) after: Vec<usize>,
}

/// How large an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) ranks: usize,
    /// Of each rank, as NCCL's tests count: what is reduced, or sent to all ranks together.
    pub(super) bytes: u64,
    pub(super) iterations: u32,
    /// Bytes of a transfer that a packet holds.
    pub(super) packet: u64,
}

/// An operation that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum CollectiveError {
    #[error("{0} hosts: a collective needs two")]
    Ranks(usize),
    #[error("bytes {bytes}: at least one for each of {ranks} ranks")]
    Bytes { bytes: u64, ranks: usize },
    #[error(
        "{collective} among {ranks} ranks, {iterations} times: a rank would have {flows} transfers, and a host holds \
         {FLOWS_MAX}: fewer iterations, or fewer hosts (hosts = [\"GLOB\"])"
    )]
    Transfers {
        collective: Collective,
        ranks: usize,
        iterations: u32,
        flows: usize,
    },
}

impl Collective {
    pub(super) const ALL: [Self; 3] = [Self::RingAllreduce, Self::TreeAllreduce, Self::Alltoall];

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::RingAllreduce => "ring-allreduce",
            Self::TreeAllreduce => "tree-allreduce",
            Self::Alltoall => "alltoall",
        }
    }

    /// What the busiest link carries at least, of a rank's bytes: NCCL's factor between `algbw` and `busbw`, as
    /// numerator and denominator.
    pub(super) fn bus_factor(self, ranks: usize) -> (u64, u64) {
        let ranks = u64_of(ranks);
        match self {
            Self::RingAllreduce | Self::TreeAllreduce => (2 * (ranks - 1), ranks),
            Self::Alltoall => (ranks - 1, ranks),
        }
    }

    /// All transfers.
    ///
    /// # Errors
    /// [`CollectiveError`]: too few ranks or bytes, or more transfers than a host holds.
    pub(super) fn transfers(self, size: Size) -> Result<Vec<Transfer>, CollectiveError> {
        let Size { ranks, bytes, .. } = size;
        if ranks < 2 {
            return Err(CollectiveError::Ranks(ranks));
        }
        // Each rank's chunk, or each half, has a byte at least.
        if bytes < u64_of(ranks) {
            return Err(CollectiveError::Bytes { bytes, ranks });
        }
        let each = match self {
            Self::RingAllreduce => 2 * (ranks - 1),
            Self::Alltoall => ranks - 1,
            // Up once, and down to two children, in one tree; up in the other.
            Self::TreeAllreduce => 4 * pieces(bytes / 2, size.packet),
        };
        let flows = each.saturating_mul(usize::try_from(size.iterations).unwrap_or(usize::MAX));
        if flows > FLOWS_MAX {
            return Err(CollectiveError::Transfers {
                collective: self,
                ranks,
                iterations: size.iterations,
                flows,
            });
        }
        Ok(match self {
            Self::RingAllreduce => {
                let to = |_, rank: usize| (rank + 1) % ranks;
                let chunk = |step: usize, rank: usize| (rank + 2 * ranks - step) % ranks;
                let bytes = |step, rank| part(bytes, chunk(step, rank), ranks);
                stepped(size, 2 * (ranks - 1), to, bytes)
            }
            Self::Alltoall => {
                let to = |step: usize, rank: usize| (rank + step + 1) % ranks;
                stepped(size, ranks - 1, to, |step, rank| {
                    part(bytes, to(step, rank), ranks)
                })
            }
            Self::TreeAllreduce => trees(size),
        })
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Collective {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut all = Self::ALL.into_iter();
        all.find(|collective| collective.name() == text).ok_or(())
    }
}

/// The bytes of part `part` of `of`, which differ by one at most.
fn part(bytes: u64, part: usize, of: usize) -> u64 {
    let end = |parts: usize| u128::from(bytes) * u128::from(u64_of(parts)) / u128::from(u64_of(of));
    u64::try_from(end(part + 1) - end(part)).unwrap_or(bytes)
}

/// Into how many pieces a half goes.
fn pieces(half: u64, packet: u64) -> usize {
    let packets = half.div_ceil(packet.max(1)).max(1);
    usize::try_from(packets).unwrap_or(PIECES).min(PIECES)
}

/// Every rank sends one transfer a step, and goes on when that is sent and the step's other one has come.
fn stepped(
    size: Size,
    steps: usize,
    to: impl Fn(usize, usize) -> usize,
    bytes: impl Fn(usize, usize) -> u64,
) -> Vec<Transfer> {
    let ranks = size.ranks;
    let mut all: Vec<Transfer> = Vec::new();
    // What each rank has sent and received in the step before.
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); ranks];
    for iteration in 0..size.iterations {
        for step in 0..steps {
            let mut now: Vec<Vec<usize>> = vec![Vec::new(); ranks];
            for (from, after) in before.into_iter().enumerate() {
                let to = to(step, from);
                now[from].push(all.len());
                now[to].push(all.len());
                all.push(Transfer {
                    from,
                    to,
                    bytes: bytes(step, from),
                    iteration,
                    after,
                });
            }
            before = now;
        }
    }
    all
}

/// The parent of a vertex of the first tree of NCCL among `vertices`, and `None` of vertex 0, its root.
fn parent(vertex: usize, vertices: usize) -> Option<usize> {
    let bit = 1usize.checked_shl(vertex.trailing_zeros())?;
    let up = (vertex ^ bit) | (bit << 1);
    Some(if up < vertices { up } else { vertex ^ bit })
}

/// One of the two trees, by rank.
struct Tree {
    root: usize,
    parents: Vec<Option<usize>>,
    children: Vec<Vec<usize>>,
}

impl Tree {
    /// The first tree has rank 0 as its root; in the second, ranks are mirrored, or shifted if their number is odd.
    fn new(second: bool, ranks: usize) -> Self {
        let rank_of = |vertex: usize| match (second, ranks % 2) {
            (false, _) => vertex,
            (true, 0) => ranks - 1 - vertex,
            (true, _) => (vertex + 1) % ranks,
        };
        let mut tree = Self {
            root: rank_of(0),
            parents: vec![None; ranks],
            children: vec![Vec::new(); ranks],
        };
        for vertex in 0..ranks {
            if let Some(up) = parent(vertex, ranks) {
                tree.parents[rank_of(vertex)] = Some(rank_of(up));
                tree.children[rank_of(up)].push(rank_of(vertex));
            }
        }
        tree
    }
}

/// Where the transfers of one piece of one tree are in the list: from each rank to its parent, and back.
#[derive(Clone)]
struct Edges {
    up: Vec<usize>,
    down: Vec<usize>,
}

fn trees(size: Size) -> Vec<Transfer> {
    let both = [false, true].map(|second| Tree::new(second, size.ranks));
    let mut all: Vec<Transfer> = Vec::new();
    // What ends the iteration before, for each rank.
    let mut ended: Vec<Vec<usize>> = vec![Vec::new(); size.ranks];
    for iteration in 0..size.iterations {
        let mut ends: Vec<Vec<usize>> = vec![Vec::new(); size.ranks];
        for (number, tree) in both.iter().enumerate() {
            let half = part(size.bytes, number, 2);
            let pieces = pieces(size.bytes / 2, size.packet);
            let mut last: Option<Edges> = None;
            for piece in 0..pieces {
                let bytes = part(half, piece, pieces).max(1);
                let edges = edges(tree, all.len());
                let transfer = |from, to, after| Transfer {
                    from,
                    to,
                    bytes,
                    iteration,
                    after,
                };
                let first = |rank: usize| match piece {
                    0 => ended[rank].clone(),
                    _ => Vec::new(),
                };
                for (rank, up) in parents(tree) {
                    let mut after = first(rank);
                    after.extend(tree.children[rank].iter().map(|&child| edges.up[child]));
                    after.extend(last.iter().map(|last| last.up[rank]));
                    all.push(transfer(rank, up, after));
                }
                for (rank, up) in parents(tree) {
                    let mut after = Vec::new();
                    if up == tree.root {
                        after.extend(first(up));
                        after.extend(tree.children[up].iter().map(|&child| edges.up[child]));
                    } else {
                        after.push(edges.down[up]);
                    }
                    after.extend(last.iter().map(|last| last.down[rank]));
                    all.push(transfer(up, rank, after));
                }
                last = Some(edges);
            }
            for (rank, up) in parents(tree) {
                let Some(last) = &last else { continue };
                ends[rank].push(last.down[rank]);
                ends[up].push(last.down[rank]);
                if up == tree.root {
                    ends[up].push(last.up[rank]);
                }
            }
        }
        ended = ends;
    }
    all
}

/// Each rank but the root, and its parent.
fn parents(tree: &Tree) -> impl Iterator<Item = (usize, usize)> {
    let all = tree.parents.iter().enumerate();
    all.filter_map(|(rank, &up)| Some((rank, up?)))
}

/// Where the transfers of a piece will be that begin at position `at`.
fn edges(tree: &Tree, at: usize) -> Edges {
    let ranks = tree.parents.len();
    let (mut up, mut down) = (vec![at; ranks], vec![at; ranks]);
    for (position, (rank, _)) in parents(tree).enumerate() {
        up[rank] = at + position;
        down[rank] = at + (ranks - 1) + position;
    }
    Edges { up, down }
}

#[cfg(test)]
mod tests;
