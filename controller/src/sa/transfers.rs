//! Answers that take more than one datagram, on their way (RMPP, IBA 13.6).

use std::collections::BTreeMap;

use link::Time;
use mad::local::MadMessage;
use mad::rmpp::{Progress, Sender};
use mad::transaction::Timing;
use wire::{Lid, Mad, MadStatus, Qpn};

use crate::smp::message;

/// Transfers under way at most; further requests are answered BUSY.
const TRANSFERS_MAX: usize = 32;
/// How long an acknowledgement may take, and how often a segment is sent.
const TIMING: Timing = Timing {
    timeout_ns: 500_000_000,
    attempts: 6,
};

/// The answers under way, by asker and transaction.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    senders: BTreeMap<(Lid, Qpn, u64), Sender>,
}

impl Transfers {
    /// Starts an answer.
    ///
    /// # Errors
    /// The status to answer with instead, if it is too long or there are too many.
    pub(super) fn start(
        &mut self,
        to: (Lid, Qpn),
        template: &Mad,
        records: Vec<u8>,
    ) -> Result<(), MadStatus> {
        let key = (to.0, to.1, template.tid());
        // A request that is repeated while its answer is under way starts no second transfer.
        if self.senders.contains_key(&key) {
            return Ok(());
        }
        if self.senders.len() >= TRANSFERS_MAX {
            return Err(MadStatus::BUSY);
        }
        let sender = Sender::new(template, records, TIMING).ok_or(MadStatus::SA_NO_RESOURCES)?;
        self.senders.insert(key, sender);
        Ok(())
    }

    /// Takes in an ACK, STOP or ABORT of a requester.
    pub(super) fn receive(&mut self, now: Time, from: &MadMessage, mad: &Mad) {
        if let Some(sender) = self.senders.get_mut(&(from.lid, from.qpn, mad.tid())) {
            sender.receive(now, mad);
        }
    }

    /// The datagrams to send at `now`.
    pub(super) fn poll(&mut self, now: Time) -> Vec<MadMessage> {
        let mut out = Vec::new();
        for (&(lid, qpn, _), sender) in &mut self.senders {
            while let Some(mad) = sender.poll(now) {
                out.push(message(lid, qpn, &mad));
            }
        }
        self.senders
            .retain(|_, sender| sender.progress() == Progress::Running);
        out
    }

    /// When something is due.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.senders.values().filter_map(Sender::deadline).min()
    }
}
