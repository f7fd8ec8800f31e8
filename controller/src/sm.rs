//! The subnet manager as its shell sees it.

use std::collections::VecDeque;

use link::{Deadline, Time, Why};
use mad::local::{FromAgent, ToAgent};

use crate::control::Status;
use crate::{ConfigError, SmConfig, SmEvent};

/// A subnet manager without IO. See the crate's documentation for how to run one.
#[derive(Debug)]
pub struct Sm {
    config: SmConfig,
    started: bool,
    transmit: VecDeque<ToAgent>,
    events: VecDeque<SmEvent>,
}

impl Sm {
    /// A manager that has not started: its first [`Sm::tick`] starts it.
    ///
    /// # Errors
    /// [`ConfigError`] names the option or the line of the GUID file that cannot be used.
    pub fn new(config: SmConfig) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            config,
            started: false,
            transmit: VecDeque::new(),
            events: VecDeque::new(),
        })
    }

    /// Takes in what has arrived on the host's MAD socket.
    pub fn handle(&mut self, now: Time, message: FromAgent) {
        let _ = (now, message, &self.config);
    }

    /// Starts the manager, and does what is due by `now`. Early and extra calls do no harm.
    pub fn tick(&mut self, now: Time) {
        let _ = now;
        self.started = true;
    }

    /// The next message for the host's MAD socket, oldest first. If the socket takes no more,
    /// keep the message and try again: nothing is lost but time.
    pub fn poll_transmit(&mut self) -> Option<ToAgent> {
        self.transmit.pop_front()
    }

    /// The next event, oldest first.
    pub fn poll_event(&mut self) -> Option<SmEvent> {
        self.events.pop_front()
    }

    /// Until when nothing is due without input; [`Time::ZERO`] before the first [`Sm::tick`].
    #[must_use]
    pub fn deadline(&self) -> Option<Deadline> {
        (!self.started).then_some(Deadline {
            at: Time::ZERO,
            why: Why::Transaction,
        })
    }

    /// Starts a full sweep as soon as the present one, if any, has ended.
    pub fn resweep(&mut self, now: Time) {
        let _ = now;
    }

    /// How the subnet stands.
    #[must_use]
    pub fn status(&self, now: Time) -> Status {
        let _ = now;
        Status::default()
    }
}
