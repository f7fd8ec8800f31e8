//! The signals that ask a daemon to shut down.

use std::future::Future;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT of the process, from the moment that this is made.
#[derive(Debug)]
pub struct ShutdownSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl ShutdownSignals {
    /// Starts to listen. To be called inside a tokio runtime with IO.
    ///
    /// # Errors
    /// If the handlers cannot be installed.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Resolves at the next of them.
    pub async fn next(&mut self) {
        tokio::pin! {
            let terminate = self.terminate.recv();
            let interrupt = self.interrupt.recv();
        }
        std::future::poll_fn(|context| {
            if terminate.as_mut().poll(context).is_ready() {
                return std::task::Poll::Ready(());
            }
            interrupt.as_mut().poll(context).map(drop)
        })
        .await;
    }
}
