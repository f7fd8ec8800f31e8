//! Answers that take more than one datagram, on their way (RMPP, IBA 13.6).

use std::collections::BTreeMap;

use link::Time;
use mad::local::{MadMessage, MadWay};
use mad::rmpp::{Progress, Sender};
use mad::transaction::Timing;
use wire::{Lid, Mad, MadStatus, Qpn};

use crate::smp::message;

/// Transfers under way at most, and bytes of their records; further requests are answered BUSY. A program that
/// ends before it has acknowledged all leaves a transfer until its last attempt, so that many are none of the
/// manager's work.
const TRANSFERS_MAX: usize = 1024;
const BYTES_MAX: usize = 64 << 20;
/// How long an acknowledgement may take, and how often a segment is sent.
const TIMING: Timing = Timing {
    timeout_ns: 500_000_000,
    attempts: 6,
};

/// The answers under way, by asker and transaction.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    senders: BTreeMap<(Lid, Qpn, u64), Transfer>,
}

/// An answer under way.
#[derive(Debug)]
struct Transfer {
    sender: Sender,
    /// Bytes of its records.
    bytes: usize,
    /// By which the request has come.
    way: Option<MadWay>,
}

impl Transfers {
    /// Starts an answer.
    ///
    /// # Errors
    /// The status to answer with instead, if it is too long or there are too many.
    pub(super) fn start(
        &mut self,
        to: &MadMessage,
        template: &Mad,
        records: Vec<u8>,
    ) -> Result<(), MadStatus> {
        let key = (to.lid, to.qpn, template.tid());
        // A request that is repeated while its answer is under way starts no second transfer.
        if self.senders.contains_key(&key) {
            return Ok(());
        }
        let bytes = records.len();
        let under_way: usize = self.senders.values().map(|one| one.bytes).sum();
        let has_room = under_way == 0 || under_way.saturating_add(bytes) <= BYTES_MAX;
        if self.senders.len() >= TRANSFERS_MAX || !has_room {
            return Err(MadStatus::BUSY);
        }
        let sender = Sender::new(template, records, TIMING).ok_or(MadStatus::SA_NO_RESOURCES)?;
        let way = to.way;
        let transfer = Transfer { sender, bytes, way };
        self.senders.insert(key, transfer);
        Ok(())
    }

    /// Takes in an ACK, STOP or ABORT of a requester.
    pub(super) fn receive(&mut self, now: Time, from: &MadMessage, mad: &Mad) {
        if let Some(one) = self.senders.get_mut(&(from.lid, from.qpn, mad.tid())) {
            one.sender.receive(now, mad);
        }
    }

    /// The datagrams to send at `now`.
    pub(super) fn poll(&mut self, now: Time) -> Vec<MadMessage> {
        let mut out = Vec::new();
        for (&(lid, qpn, _), one) in &mut self.senders {
            while let Some(mad) = one.sender.poll(now) {
                let way = one.way;
                let segment = message(lid, qpn, &mad);
                out.push(MadMessage { way, ..segment });
            }
        }
        self.senders
            .retain(|_, one| one.sender.progress() == Progress::Running);
        out
    }

    /// When something is due.
    pub(super) fn deadline(&self) -> Option<Time> {
        let senders = self.senders.values();
        senders.filter_map(|one| one.sender.deadline()).min()
    }
}

#[cfg(test)]
mod tests {
    use wire::{AttributeId, Method};

    use super::*;

    fn start(transfers: &mut Transfers, tid: u64, bytes: usize) -> Result<(), MadStatus> {
        let template = Mad::sa(Method::GET_TABLE_RESP, AttributeId::NODE_RECORD, 0, tid);
        let from = message(Lid::new(7), Qpn::GSI, &template);
        transfers.start(&from, &template, vec![0; bytes])
    }

    #[test]
    fn every_segment_goes_by_the_way_by_which_its_request_has_come() {
        let mut transfers = Transfers::default();
        let global = mad::local::MadGlobalRoute {
            flow_label: 5,
            ..Default::default()
        };
        let way = Some(MadWay {
            path_bits: 2,
            pkey_index: 1,
            global: Some(global),
        });
        let template = Mad::sa(Method::GET_TABLE_RESP, AttributeId::NODE_RECORD, 0, 1);
        let from = message(Lid::new(7), Qpn::GSI, &template);
        let from = MadMessage { way, ..from };
        transfers.start(&from, &template, vec![0; 1000]).unwrap();
        let segments = transfers.poll(Time(1));
        assert!(!segments.is_empty());
        assert!(segments.iter().all(|segment| segment.way == way));
    }

    #[test]
    fn transfers_are_bounded_by_their_bytes_and_by_a_large_number() {
        let mut transfers = Transfers::default();
        for tid in 0..1024 {
            assert_eq!(start(&mut transfers, tid, 1000), Ok(()), "number {tid}");
        }
        assert_eq!(start(&mut transfers, 1024, 1000), Err(MadStatus::BUSY));
        assert_eq!(start(&mut transfers, 5, 1000), Ok(()), "a repetition");
        let mut transfers = Transfers::default();
        for tid in 0..4 {
            assert_eq!(start(&mut transfers, tid, 16 << 20), Ok(()));
        }
        assert_eq!(start(&mut transfers, 4, 1000), Err(MadStatus::BUSY));
    }
}
