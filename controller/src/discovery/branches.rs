//! What a discovery spends on devices that no sweep has seen before.
//!
//! A host can answer as if a fabric without end were behind it. So requests to devices that the whole
//! fabric does not have are counted by the tree of how they were found. When there are more than
//! [`STRANGERS_MAX`], the branch into which three quarters of them go is given up: it and all devices in it
//! are left out. Where the fabric is known, that is what the first stranger leads to; while it
//! is brought up, the last device that still leads to so many. A large fabric that comes up has no such branch
//! beyond its first switch: then the limit doubles.
//!
//! A branch that was given up by the sweep before is given up anew after [`SUSPECTS_MAX`] requests. After
//! [`GIVEN_UP_MAX`] branches no further stranger is looked at.

use std::collections::BTreeSet;

use wire::{Guid, PortNum};

use crate::subnet::Index;

/// Requests to strangers after which a branch is sought that most of them go into.
const STRANGERS_MAX: u64 = 32_768;
/// Requests into a branch that the sweep before has given up.
const SUSPECTS_MAX: u64 = 1_024;
/// Branches that one sweep gives up at most.
const GIVEN_UP_MAX: usize = 16;

/// A device in the tree of how devices were found.
#[derive(Debug)]
struct Entry {
    via: Option<(Index, PortNum)>,
    is_stranger: bool,
    /// Requests to it and through its ports, if it is a stranger.
    cost: u64,
    /// The device by which its branch begins, if that was given up before.
    suspect: Option<Index>,
    is_given_up: bool,
}

/// The tree of how devices were found.
#[derive(Debug, Default)]
pub(super) struct Branches {
    /// By device; who was found through another one comes after it.
    entries: Vec<Entry>,
    /// Ports whose branches the sweep before has given up.
    suspects: BTreeSet<(Guid, PortNum)>,
    /// Requests to strangers in branches that have not been given up.
    cost: u64,
    /// How often the limit has doubled.
    doublings: u32,
    given_up: usize,
}

/// A branch that is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GivenUp {
    /// The port that leads to it.
    pub(super) via: (Index, PortNum),
    /// Requests that have gone into it.
    pub(super) cost: u64,
}

impl Branches {
    /// No device yet. `suspects`: ports whose branches the sweep before has given up.
    pub(super) fn new(suspects: BTreeSet<(Guid, PortNum)>) -> Self {
        Self {
            suspects,
            ..Self::default()
        }
    }

    /// Whether another stranger is looked at.
    pub(super) fn admit_strangers(&self) -> bool {
        self.given_up < GIVEN_UP_MAX
    }

    /// Whether a device is in a branch that has been given up.
    pub(super) fn is_given_up(&self, index: Index) -> bool {
        self.entries
            .get(index)
            .is_some_and(|entry| entry.is_given_up)
    }

    /// The next device has been found through a port, given with the GUID of its device.
    pub(super) fn add(&mut self, via: Option<((Index, PortNum), Guid)>, is_stranger: bool) {
        let own = self.entries.len();
        let suspect = via.and_then(|((before, port), guid)| {
            let inherited = self.entries.get(before).and_then(|entry| entry.suspect);
            inherited.or_else(|| self.suspects.contains(&(guid, port)).then_some(own))
        });
        self.entries.push(Entry {
            via: via.map(|(end, _)| end),
            is_stranger,
            cost: 0,
            suspect,
            is_given_up: false,
        });
    }

    /// Requests go to a device, or through its ports. The branch that is given up for it, if one is.
    pub(super) fn spend(&mut self, index: Index, requests: u64) -> Option<GivenUp> {
        let entry = self.entries.get_mut(index)?;
        if !entry.is_stranger || entry.is_given_up {
            return None;
        }
        entry.cost += requests;
        self.cost += requests;
        let suspect = entry.suspect;
        let is_over = self.cost > STRANGERS_MAX << self.doublings.min(32);
        if suspect.is_none() && !is_over {
            return None;
        }
        let totals = self.totals();
        if let Some(suspect) = suspect.filter(|&at| totals[at] > SUSPECTS_MAX) {
            return self.give_up(suspect, &totals);
        }
        if !is_over {
            return None;
        }
        match self.heaviest(&totals) {
            Some(at) => self.give_up(at, &totals),
            None => {
                self.doublings += 1;
                None
            }
        }
    }

    /// By device: what its branch has cost.
    fn totals(&self) -> Vec<u64> {
        let mut totals = vec![0; self.entries.len()];
        for (at, entry) in self.entries.iter().enumerate().rev() {
            if entry.is_given_up {
                continue;
            }
            totals[at] += entry.cost;
            if let Some((before, _)) = entry.via {
                totals[before] += totals[at];
            }
        }
        totals
    }

    /// The device that begins the branch into which most requests go, beyond the first switch.
    fn heaviest(&self, totals: &[u64]) -> Option<Index> {
        let mut children = vec![Vec::new(); self.entries.len()];
        for (at, entry) in self.entries.iter().enumerate() {
            if let Some((before, _)) = entry.via {
                children[before].push(at);
            }
        }
        // The own host, and the switch next to it.
        let is_known = self.entries.iter().skip(1).any(|entry| !entry.is_stranger);
        let (mut at, mut depth) = (0, 0);
        let is_heavy = |child: &Index| totals[*child] >= self.cost / 4 * 3;
        while let Some(child) = children[at].iter().copied().find(|child| is_heavy(child)) {
            (at, depth) = (child, depth + 1);
            if is_known && depth > 1 && self.entries[at].is_stranger {
                break;
            }
        }
        (depth > 1).then_some(at)
    }

    fn give_up(&mut self, first: Index, totals: &[u64]) -> Option<GivenUp> {
        let via = self.entries[first].via?;
        let cost = totals[first];
        self.cost -= cost;
        self.given_up += 1;
        self.entries[first].is_given_up = true;
        for at in first + 1..self.entries.len() {
            let before = self.entries[at].via.map(|(before, _)| before);
            if before.is_some_and(|before| self.entries[before].is_given_up) {
                self.entries[at].is_given_up = true;
            }
        }
        Some(GivenUp { via, cost })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn via(index: Index, port: u8) -> Option<((Index, PortNum), Guid)> {
        let guid = Guid(wire::convert::u64_of(index));
        Some(((index, PortNum::new(port)), guid))
    }

    /// The own host, a switch, two more switches, and a host at the last.
    fn subnet(is_stranger: bool) -> Branches {
        let mut branches = Branches::default();
        branches.add(None, is_stranger);
        for before in 0..3 {
            branches.add(via(before, 1), is_stranger);
        }
        branches.add(via(3, 7), true);
        branches
    }

    #[test]
    fn what_most_requests_go_into_is_given_up_with_all_behind_it() {
        for is_stranger in [true, false] {
            let mut branches = subnet(is_stranger);
            let mut given_up = None;
            let mut last = 4;
            while given_up.is_none() {
                branches.add(via(4, 2), true);
                last += 1;
                given_up = branches.spend(last, 257);
            }
            let given_up = given_up.unwrap();
            assert_eq!(given_up.via, (3, PortNum::new(7)));
            assert!((STRANGERS_MAX..STRANGERS_MAX + 300).contains(&given_up.cost));
            assert!((4..=last).all(|index| branches.is_given_up(index)));
            assert!((0..4).all(|index| !branches.is_given_up(index)));
            assert_eq!(branches.spend(last, 1_000_000), None, "it counts no more");
        }
    }

    #[test]
    fn a_chain_of_strangers_behind_what_is_known_is_given_up_where_it_begins() {
        let mut branches = subnet(false);
        let given_up = (4..).find_map(|before| {
            branches.add(via(before, 2), true);
            branches.spend(before + 1, 1_000)
        });
        assert_eq!(given_up.unwrap().via, (3, PortNum::new(7)));
    }

    #[test]
    fn a_large_fabric_that_comes_up_is_not_given_up() {
        let mut branches = Branches::default();
        branches.add(None, true);
        branches.add(via(0, 1), true);
        for port in 1..=4 {
            branches.add(via(1, port), true);
        }
        for turn in 0..100_000 {
            assert_eq!(branches.spend(2 + turn % 4, 10), None);
        }
        assert_eq!(branches.doublings, 5);
    }

    #[test]
    fn what_was_given_up_before_is_given_up_sooner_unless_it_is_small() {
        let mut branches = Branches::new(BTreeSet::from([(Guid(3), PortNum::new(7))]));
        branches.add(None, false);
        for before in 0..3 {
            branches.add(via(before, 1), false);
        }
        branches.add(via(3, 7), true);
        branches.add(via(4, 1), true);
        assert_eq!(branches.spend(4, SUSPECTS_MAX), None);
        let given_up = branches.spend(5, 1).unwrap();
        assert_eq!(given_up.via, (3, PortNum::new(7)));
        assert_eq!(given_up.cost, SUSPECTS_MAX + 1);
    }

    #[test]
    fn so_many_branches_are_given_up_and_then_strangers_are_not_looked_at() {
        let mut branches = subnet(false);
        for port in 1..=16 {
            assert!(branches.admit_strangers());
            branches.add(via(2, port), true);
            assert!(
                branches
                    .spend(4 + usize::from(port), STRANGERS_MAX + 1)
                    .is_some()
            );
        }
        assert!(!branches.admit_strangers());
    }
}
