//! Messages for the host's MAD socket, until the shell takes them.
//!
//! A host that takes its messages slowly, or has crashed, does not make this grow: from
//! [`MESSAGES_MAX`] on MADs are dropped and counted. A request that is lost so is repeated, and who
//! waits for an answer asks again.

use std::collections::VecDeque;

use mad::local::{MadMessage, ToAgent};
use wire::MgmtClass;

/// Messages that wait at most: more than the widest window of requests (4096).
const MESSAGES_MAX: usize = 8192;

/// Messages in the order in which they are to go.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    messages: VecDeque<ToAgent>,
    dropped: u64,
}

impl Outbox {
    /// Adds a MAD.
    pub(crate) fn send(&mut self, message: MadMessage) {
        if self.messages.len() < MESSAGES_MAX {
            self.messages.push_back(ToAgent::Send(message));
        } else {
            self.dropped += 1;
        }
    }

    /// Adds several MADs.
    pub(crate) fn send_all(&mut self, messages: impl IntoIterator<Item = MadMessage>) {
        for message in messages {
            self.send(message);
        }
    }

    /// Registers for a class at the host, or says that this is a manager: a handful at the start.
    pub(crate) fn register(&mut self, message: ToAgent) {
        self.messages.push_back(message);
    }

    /// The oldest message.
    pub(crate) fn pop(&mut self) -> Option<ToAgent> {
        self.messages.pop_front()
    }

    /// Takes out subnet management that has not gone: what it says may no longer be so.
    pub(crate) fn withdraw_smps(&mut self) {
        // The class is the second byte of a MAD (IBA 13.4.2).
        let is_smp = |message: &ToAgent| matches!(message, ToAgent::Send(message) if MgmtClass(message.mad[1]).is_subnet_management());
        self.messages.retain(|message| !is_smp(message));
    }

    /// MADs dropped since the start because too many waited.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Lid, Mad, Qpn, Sl};

    fn message(class: MgmtClass) -> MadMessage {
        let mut bytes = [0; Mad::LEN];
        bytes[1] = class.0;
        MadMessage {
            lid: Lid::new(3),
            qpn: Qpn::GSI,
            sl: Sl::default(),
            mad: Box::new(bytes),
            way: None,
        }
    }

    #[test]
    fn beyond_the_limit_mads_are_dropped_and_counted_and_registrations_are_not() {
        let mut outbox = Outbox::default();
        outbox.send_all(core::iter::repeat_n(
            message(MgmtClass::SUBN_ADM),
            MESSAGES_MAX + 3,
        ));
        assert_eq!(outbox.dropped(), 3);
        outbox.register(ToAgent::SetIsSm(true));
        let taken: Vec<ToAgent> = core::iter::from_fn(|| outbox.pop()).collect();
        assert_eq!(taken.len(), MESSAGES_MAX + 1);
        assert_eq!(taken.last(), Some(&ToAgent::SetIsSm(true)));
        outbox.send(message(MgmtClass::SUBN_ADM));
        assert!(outbox.pop().is_some(), "there is room again");
    }

    #[test]
    fn only_subnet_management_is_withdrawn() {
        let mut outbox = Outbox::default();
        outbox.register(ToAgent::SetIsSm(true));
        for class in [
            MgmtClass::SUBN_LID,
            MgmtClass::SUBN_ADM,
            MgmtClass::SUBN_DIR,
        ] {
            outbox.send(message(class));
        }
        outbox.withdraw_smps();
        let left: Vec<ToAgent> = core::iter::from_fn(|| outbox.pop()).collect();
        let administration = ToAgent::Send(message(MgmtClass::SUBN_ADM));
        assert_eq!(left, [ToAgent::SetIsSm(true), administration]);
    }
}
