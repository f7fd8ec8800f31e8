//! A queue of fixed length whose places are used again with the memory that they own.

/// The queue. A place that is free keeps its last value, so that a vector in it need not be allocated anew.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    slots: Box<[T]>,
    head: usize,
    len: usize,
}

impl<T: Default> Ring<T> {
    pub(crate) fn new(capacity: u32) -> Self {
        let slots = (0..capacity).map(|_| T::default()).collect();
        Self {
            slots,
            head: 0,
            len: 0,
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len == self.slots.len()
    }

    fn slot(&self, index: usize) -> usize {
        let at = self.head + index;
        if at >= self.slots.len() {
            at - self.slots.len()
        } else {
            at
        }
    }

    /// The place behind the last one, to be filled; `None` if the queue is full.
    pub(crate) fn push(&mut self) -> Option<&mut T> {
        if self.is_full() {
            return None;
        }
        let at = self.slot(self.len);
        self.len += 1;
        Some(&mut self.slots[at])
    }

    /// The place before the first one, to be filled; `None` if the queue is full.
    pub(crate) fn push_front(&mut self) -> Option<&mut T> {
        if self.is_full() {
            return None;
        }
        self.head = self.head.checked_sub(1).unwrap_or(self.slots.len() - 1);
        self.len += 1;
        Some(&mut self.slots[self.head])
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        (index < self.len).then(|| &self.slots[self.slot(index)])
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        if index >= self.len {
            return None;
        }
        let at = self.slot(index);
        Some(&mut self.slots[at])
    }

    /// Frees the first place.
    pub(crate) fn pop(&mut self) {
        if self.len > 0 {
            self.head = self.slot(1);
            self.len -= 1;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_leave_in_the_order_in_which_they_came_however_often_the_queue_wraps() {
        let mut ring: Ring<u32> = Ring::new(3);
        let (mut pushed, mut popped) = (0, 0);
        for _ in 0..10 {
            while let Some(slot) = ring.push() {
                *slot = pushed;
                pushed += 1;
            }
            assert!(ring.is_full());
            for _ in 0..2 {
                assert_eq!(ring.get(0), Some(&popped));
                assert_eq!(ring.get_mut(1), Some(&mut (popped + 1)));
                ring.pop();
                popped += 1;
            }
        }
        assert_eq!((ring.len(), ring.get(1)), (1, None));
        ring.clear();
        ring.pop();
        assert_eq!((ring.len(), ring.get(0)), (0, None));
        for value in 0..3 {
            *ring.push_front().unwrap() = value;
        }
        assert!(ring.push_front().is_none());
        assert_eq!(
            [0, 1, 2].map(|index| ring.get(index).copied()),
            [Some(2), Some(1), Some(0)]
        );
    }
}
