//! What is due when: one time for each key.

use std::collections::{BTreeMap, BTreeSet};

use link::Time;

/// Times at which something is due.
#[derive(Debug)]
pub(super) struct Agenda<K> {
    by_time: BTreeSet<(Time, K)>,
    by_key: BTreeMap<K, Time>,
}

impl<K> Default for Agenda<K> {
    fn default() -> Self {
        Self {
            by_time: BTreeSet::new(),
            by_key: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Copy> Agenda<K> {
    /// Makes `key` due at that time in place of any other.
    pub(super) fn set(&mut self, key: K, at: Time) {
        self.clear(key);
        self.by_time.insert((at, key));
        self.by_key.insert(key, at);
    }

    /// Nothing is due for `key`.
    pub(super) fn clear(&mut self, key: K) {
        if let Some(at) = self.by_key.remove(&key) {
            self.by_time.remove(&(at, key));
        }
    }

    /// Nothing is due at all.
    pub(super) fn clear_all(&mut self) {
        self.by_time.clear();
        self.by_key.clear();
    }

    /// Takes what is due, the earliest first.
    pub(super) fn take_due(&mut self, now: Time) -> Option<K> {
        let &(at, key) = self.by_time.first()?;
        if at > now {
            return None;
        }
        self.clear(key);
        Some(key)
    }

    /// When the first is due.
    pub(super) fn first(&self) -> Option<Time> {
        self.by_time.first().map(|&(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_due_once_at_the_time_that_was_set_last() {
        let at = |ns: u64| Time::ZERO + ns;
        let mut agenda = Agenda::default();
        agenda.set('a', at(5));
        agenda.set('b', at(3));
        agenda.set('a', at(1));
        assert_eq!(agenda.first(), Some(at(1)));
        assert_eq!(agenda.take_due(at(0)), None);
        assert_eq!(agenda.take_due(at(9)), Some('a'));
        agenda.clear('b');
        assert_eq!(agenda.take_due(at(9)), None);
        assert_eq!(agenda.first(), None);
    }
}
