//! Objects by number: an index, and a generation that tells an object from the one that had its place before.

use std::collections::VecDeque;

/// Where an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) index: u32,
    pub(crate) generation: u8,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u8,
    value: Option<T>,
}

/// Objects by place, at most as many as told. Freed places are used again as late as possible.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: VecDeque<u32>,
    max: u32,
}

impl<T> Slab<T> {
    pub(crate) const fn new(max: u32) -> Self {
        Self {
            slots: Vec::new(),
            free: VecDeque::new(),
            max,
        }
    }

    /// Keeps an object; `None` if there are as many as there may be.
    pub(crate) fn insert(&mut self, value: T) -> Option<Place> {
        let known = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        let index = if known < self.max {
            self.slots.push(Slot {
                generation: 1,
                value: None,
            });
            known
        } else {
            self.free.pop_front()?
        };
        let slot = &mut self.slots[index as usize];
        slot.value = Some(value);
        Some(Place {
            index,
            generation: slot.generation,
        })
    }

    #[inline]
    pub(crate) fn get(&self, place: Place) -> Option<&T> {
        let slot = self.slots.get(place.index as usize)?;
        slot.value
            .as_ref()
            .filter(|_| slot.generation == place.generation)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, place: Place) -> Option<&mut T> {
        let slot = self.slots.get_mut(place.index as usize)?;
        let right = slot.generation == place.generation;
        slot.value.as_mut().filter(|_| right)
    }

    /// The object at an index, of whatever generation.
    #[inline]
    pub(crate) fn at_mut(&mut self, index: u32) -> Option<&mut T> {
        self.slots.get_mut(index as usize)?.value.as_mut()
    }

    pub(crate) fn remove(&mut self, place: Place) -> Option<T> {
        let slot = self.slots.get_mut(place.index as usize)?;
        if slot.generation != place.generation {
            return None;
        }
        let value = slot.value.take()?;
        // 0 is never a generation, so that no key of an object is 0.
        slot.generation = slot.generation.checked_add(1).unwrap_or(1);
        self.free.push_back(place.index);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_found_by_its_own_place_only() {
        let mut slab = Slab::new(1);
        let first = slab.insert('a').unwrap();
        assert_eq!(slab.insert('b'), None, "full");
        assert_eq!(slab.remove(first), Some('a'));
        let second = slab.insert('b').unwrap();
        assert_eq!(second.index, first.index);
        assert_eq!((slab.get(first), slab.get(second)), (None, Some(&'b')));
        assert_eq!(slab.remove(first), None);
        *slab.get_mut(second).unwrap() = 'c';
        assert_eq!(slab.at_mut(0), Some(&mut 'c'));
    }

    #[test]
    fn generations_wrap_round_without_zero() {
        let mut slab = Slab::new(1);
        for turn in 0..600 {
            let place = slab.insert(turn).unwrap();
            assert_ne!(place.generation, 0);
            slab.remove(place);
        }
    }
}
