//! Packets that wait for each other in a cycle.
//!
//! The head of an input VL waits for room in its output VL, which waits for credits: for room
//! in one input VL of the next switch. So every VL with a blocked head points to one other
//! VL, and a cycle among those pointers is a deadlock. A head counts as blocked
//! when it has been there for long and its output has no credits for it; congestion makes long
//! chains of blocked heads, but only routes with a credit loop make a cycle of them.

use core::fmt;

use wire::{PortNum, Vl};

/// An input VL of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputVl {
    /// The switch's name.
    pub switch: String,
    /// The port that packets came in on.
    pub port: PortNum,
    /// The VL.
    pub vl: Vl,
}

impl fmt::Display for InputVl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, port {}, VL {})", self.switch, self.port, self.vl)
    }
}

/// Input VLs, the head of each of which waits for room in the next, and the last for the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// The VLs in order, from the one that stands first in the topology.
    pub cycle: Vec<InputVl>,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for buffer in &self.cycle {
            write!(f, "{buffer} -> ")?;
        }
        match self.cycle.first() {
            Some(first) => write!(f, "{first}"),
            None => Ok(()),
        }
    }
}

/// The first cycle of a graph in which every place points to one other at most.
pub(crate) fn cycle_in(next: &[Option<usize>]) -> Option<Vec<usize>> {
    // By place: in which walk it was seen; 0 for none.
    let mut seen = vec![0usize; next.len()];
    for start in 0..next.len() {
        let walk = start + 1;
        let mut at = start;
        while seen[at] == 0 {
            seen[at] = walk;
            let Some(to) = next[at] else {
                break;
            };
            at = to;
        }
        if seen[at] != walk || next[at].is_none() {
            continue;
        }
        let mut cycle = vec![at];
        let mut to = next[at]?;
        while to != at {
            cycle.push(to);
            to = next[to]?;
        }
        let smallest = cycle.iter().enumerate().min_by_key(|&(_, place)| place);
        let turn = smallest.map_or(0, |(turn, _)| turn);
        cycle.rotate_left(turn);
        return Some(cycle);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_no_cycles_and_cycles_begin_with_their_first_place() {
        assert_eq!(cycle_in(&[Some(1), Some(2), None, Some(2)]), None);
        assert_eq!(
            cycle_in(&[Some(3), None, Some(1), Some(4), Some(2), Some(0)]),
            None
        );
        assert_eq!(
            cycle_in(&[Some(3), None, Some(5), Some(5), Some(2), Some(4)]),
            Some(vec![2, 5, 4])
        );
        assert_eq!(cycle_in(&[None, Some(1)]), Some(vec![1]));
    }
}
