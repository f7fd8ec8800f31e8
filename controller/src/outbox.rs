//! Messages for the host's MAD socket, until the shell takes them.

use std::collections::VecDeque;

use mad::local::{MadMessage, ToAgent};

/// Messages in the order in which they are to go.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    messages: VecDeque<ToAgent>,
}

impl Outbox {
    /// Adds a MAD.
    pub(crate) fn send(&mut self, message: MadMessage) {
        self.push(ToAgent::Send(message));
    }

    /// Adds several MADs.
    pub(crate) fn send_all(&mut self, messages: impl IntoIterator<Item = MadMessage>) {
        self.messages
            .extend(messages.into_iter().map(ToAgent::Send));
    }

    /// Adds any message.
    pub(crate) fn push(&mut self, message: ToAgent) {
        self.messages.push_back(message);
    }

    /// The oldest message.
    pub(crate) fn pop(&mut self) -> Option<ToAgent> {
        self.messages.pop_front()
    }
}
