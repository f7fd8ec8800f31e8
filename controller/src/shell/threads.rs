//! Threads for what takes the manager long to compute.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use controller::{Done, Sm, Work};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Results that wait at most: the manager gives one work of each of two kinds at a time.
const WAITING_MAX: usize = 2;

/// The threads, by their results.
#[derive(Debug)]
pub(super) struct Threads {
    sender: Sender<std::thread::Result<Done>>,
    results: Receiver<std::thread::Result<Done>>,
}

impl Threads {
    pub(super) fn new() -> Self {
        let (sender, results) = channel(WAITING_MAX);
        Self { sender, results }
    }

    /// Starts a thread for everything that the manager gives.
    pub(super) fn start(&self, sm: &mut Sm) {
        while let Some(work) = sm.poll_work() {
            self.start_one(work);
        }
    }

    fn start_one(&self, work: Work) {
        let sender = self.sender.clone();
        let run = move || {
            let done = catch_unwind(AssertUnwindSafe(|| work.run()));
            // The receiver is gone when the manager has ended.
            let _ = sender.blocking_send(done);
        };
        // Not tokio's: a process that is to end does not wait for it.
        std::thread::spawn(run);
    }

    /// The next result. A panic of a thread goes on in this one.
    pub(super) async fn next(&mut self) -> Done {
        match self.results.recv().await {
            Some(Ok(done)) => done,
            Some(Err(panic)) => resume_unwind(panic),
            // The sender lives as long as the receiver does.
            None => std::future::pending().await,
        }
    }
}
