//! Events that a program has been given and has not acknowledged: an object lives until it has acknowledged those
//! of it.

use std::sync::{Condvar, Mutex};

/// The events of an object.
#[derive(Debug, Default)]
pub(crate) struct Events {
    waiting: Mutex<u32>,
    none_left: Condvar,
}

impl Events {
    /// The program is given one.
    pub(crate) fn given(&self) {
        if let Ok(mut waiting) = self.waiting.lock() {
            *waiting = waiting.saturating_add(1);
        }
    }

    /// The program acknowledges so many.
    pub(crate) fn acknowledged(&self, count: u32) {
        if let Ok(mut waiting) = self.waiting.lock() {
            *waiting = waiting.saturating_sub(count);
            self.none_left.notify_all();
        }
    }

    /// Waits until all are acknowledged.
    pub(crate) fn wait(&self) {
        let waiting = self.waiting.lock();
        let waited =
            waiting.and_then(|waiting| self.none_left.wait_while(waiting, |waiting| *waiting > 0));
        drop(waited);
    }
}
