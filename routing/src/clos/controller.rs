//! The connection controller: windows of requests in, trees out.

use std::collections::{BTreeMap, BTreeSet};

use super::ControlError;
use super::paull::Paull;
use super::shape::{NonBlocking, hosts_max};

/// Whether connections in place may be moved for new ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// They may. With `trees >= n` no admissible request is ever blocked.
    #[default]
    Rearrange,
    /// They may not; `trees >= 2n - 1` is required, and nothing is ever blocked.
    Strict,
}

/// A connection of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Admitted {
    /// The host that sends.
    pub source: usize,
    /// The host that receives.
    pub destination: usize,
    /// The routing tree: the offset of the DLID from the destination's BaseLID. 0 within a leaf,
    /// where no tree is used.
    pub tree: usize,
}

/// A connection that stood in the window before and has changed its tree. Its sender must know
/// the new DLID before the window begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moved {
    /// The host that sends.
    pub source: usize,
    /// The host that receives.
    pub destination: usize,
    /// The tree that it had.
    pub from: usize,
    /// The tree that it has now.
    pub to: usize,
}

/// Why a request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Its source sends to another destination in this window.
    SourceBusy,
    /// Its destination receives from another source in this window.
    DestinationBusy,
    /// No tree is left; only with fewer trees than hosts at a leaf.
    Blocked,
}

/// A request that waits for a later window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deferred {
    /// The host that would send.
    pub source: usize,
    /// The host that would receive.
    pub destination: usize,
    /// Why it waits.
    pub reason: Reason,
}

/// The result of a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// All connections of the window, those that go on among them, by source.
    pub admitted: Vec<Admitted>,
    /// Those of them that had another tree in the window before, by source.
    pub moved: Vec<Moved>,
    /// Requests that wait, in the order in which they will be looked at again.
    pub deferred: Vec<Deferred>,
}

/// Hands out trees, window by window.
///
/// A connection lasts for the windows in which it is asked for: a pair that is asked for again
/// goes on, with its tree unless it must move, and one that is not is over. Requests that waited
/// come before new ones and are asked for by waiting, so that every request is served in the end;
/// then a pair that goes on may have to wait in its turn.
#[derive(Clone, Debug)]
pub struct Controller {
    leaf_of: Vec<usize>,
    mode: Mode,
    paull: Paull<usize>,
    /// By source: destination, and tree if it has one.
    connections: BTreeMap<usize, (usize, Option<usize>)>,
    waiting: Vec<(usize, usize)>,
    waiting_max: usize,
}

impl Controller {
    /// A controller without connections. `leaf_of` gives the leaf of each host; there are `trees`
    /// routing trees. A window that would leave more than 16 inadmissible requests for each host
    /// waiting is refused.
    ///
    /// # Errors
    /// [`ControlError::NoTree`]; [`ControlError::TooFewTrees`] in [`Mode::Strict`].
    pub fn new(leaf_of: Vec<usize>, trees: usize, mode: Mode) -> Result<Self, ControlError> {
        let hosts = hosts_max(&leaf_of);
        if trees == 0 {
            return Err(ControlError::NoTree);
        }
        if mode == Mode::Strict && NonBlocking::of(trees, hosts) != NonBlocking::Strictly {
            return Err(ControlError::TooFewTrees {
                trees,
                hosts,
                needed: 2 * hosts - 1,
            });
        }
        let leaves = leaf_of.iter().max().map_or(0, |&last| last + 1);
        Ok(Self {
            waiting_max: 16 * leaf_of.len(),
            paull: Paull::new(leaves, trees),
            leaf_of,
            mode,
            connections: BTreeMap::new(),
            waiting: Vec::new(),
        })
    }

    /// The Paull matrix as it stands; connections are known by their source.
    #[must_use]
    pub fn matrix(&self) -> &Paull<usize> {
        &self.paull
    }

    /// The requests that wait, in the order in which they will be looked at.
    #[must_use]
    pub fn waiting(&self) -> &[(usize, usize)] {
        &self.waiting
    }

    /// Decides the next window from `(source, destination)` requests. The same pair twice counts
    /// once.
    ///
    /// # Errors
    /// [`ControlError::NoSuchHost`], [`ControlError::ToItself`], [`ControlError::TooManyWaiting`];
    /// nothing changes then.
    pub fn window(&mut self, requests: &[(usize, usize)]) -> Result<Window, ControlError> {
        let hosts = self.leaf_of.len();
        for &(source, destination) in requests {
            if let Some(host) = [source, destination]
                .into_iter()
                .find(|&host| host >= hosts)
            {
                return Err(ControlError::NoSuchHost { host, hosts });
            }
            if source == destination {
                return Err(ControlError::ToItself(source));
            }
        }
        let mut seen = BTreeSet::new();
        let asked: Vec<(usize, usize)> = self
            .waiting
            .iter()
            .chain(requests)
            .copied()
            .filter(|&pair| seen.insert(pair))
            .collect();
        let (chosen, mut deferred) = admissible(&asked);
        if deferred.len() > self.waiting_max {
            return Err(ControlError::TooManyWaiting {
                waiting: deferred.len(),
                waiting_max: self.waiting_max,
            });
        }
        let before = self.connections.clone();
        self.release_all_but(&chosen);
        for (source, destination) in chosen {
            if !self.connections.contains_key(&source) && !self.admit(source, destination) {
                deferred.push(Deferred {
                    source,
                    destination,
                    reason: Reason::Blocked,
                });
            }
        }
        let order: BTreeMap<(usize, usize), usize> = asked.into_iter().zip(0..).collect();
        deferred.sort_by_key(|pair| order.get(&(pair.source, pair.destination)));
        self.waiting = deferred
            .iter()
            .map(|pair| (pair.source, pair.destination))
            .collect();
        Ok(self.report(&before, deferred))
    }

    fn release_all_but(&mut self, chosen: &[(usize, usize)]) {
        let keep: BTreeSet<(usize, usize)> = chosen.iter().copied().collect();
        let (leaf_of, paull) = (&self.leaf_of, &mut self.paull);
        self.connections
            .retain(|&source, &mut (destination, tree)| {
                let stays = keep.contains(&(source, destination));
                if let (false, Some(tree)) = (stays, tree) {
                    paull.remove(leaf_of[source], leaf_of[destination], tree);
                }
                stays
            });
    }

    fn admit(&mut self, source: usize, destination: usize) -> bool {
        let (row, column) = (self.leaf_of[source], self.leaf_of[destination]);
        if row == column {
            self.connections.insert(source, (destination, None));
            return true;
        }
        let found = match self.mode {
            Mode::Strict => self
                .paull
                .connect(source, row, column)
                .map(|tree| (tree, Vec::new())),
            Mode::Rearrange => self.paull.rearrange(source, row, column),
        };
        let Some((tree, moves)) = found else {
            return false;
        };
        for step in moves {
            if let Some((_, tree)) = self.connections.get_mut(&step.connection) {
                *tree = Some(step.to);
            }
        }
        self.connections.insert(source, (destination, Some(tree)));
        true
    }

    fn report(
        &self,
        before: &BTreeMap<usize, (usize, Option<usize>)>,
        deferred: Vec<Deferred>,
    ) -> Window {
        let admitted = self
            .connections
            .iter()
            .map(|(&source, &(destination, tree))| Admitted {
                source,
                destination,
                tree: tree.unwrap_or(0),
            })
            .collect();
        let moved = self
            .connections
            .iter()
            .filter_map(|(&source, &(destination, tree))| {
                let &(old_destination, old) = before.get(&source)?;
                let (from, to) = (old?, tree?);
                (old_destination == destination && from != to).then_some(Moved {
                    source,
                    destination,
                    from,
                    to,
                })
            })
            .collect();
        Window {
            admitted,
            moved,
            deferred,
        }
    }
}

/// First come, first served: a source and a destination are in one pair at most.
fn admissible(asked: &[(usize, usize)]) -> (Vec<(usize, usize)>, Vec<Deferred>) {
    let (mut sources, mut destinations) = (BTreeSet::new(), BTreeSet::new());
    let (mut chosen, mut deferred) = (Vec::new(), Vec::new());
    for &(source, destination) in asked {
        let reason = if sources.contains(&source) {
            Reason::SourceBusy
        } else if destinations.contains(&destination) {
            Reason::DestinationBusy
        } else {
            sources.insert(source);
            destinations.insert(destination);
            chosen.push((source, destination));
            continue;
        };
        deferred.push(Deferred {
            source,
            destination,
            reason,
        });
    }
    (chosen, deferred)
}

#[cfg(test)]
mod tests;
