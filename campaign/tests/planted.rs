//! Faults that no device should have, planted between the ends of cables: the campaign finds each
//! within a bounded number of seeds, and by the checker that is there for it.

use std::collections::BTreeSet;

use campaign::{FailureKind, Limits, Schedule, run_with};
use link::Time;
use sim::{Interposer, Passage};
use topologies::Endpoint;
use wire::mad::{AttributeId, Method, MgmtClass};
use wire::{Delimiter, FlowControl, Format, Mad, PortNum, RecordKind, Records, Training};

/// Bytes before the MAD in the record of an SMP: delimiter, LRH, BTH, DETH.
const MAD_AT: usize = Delimiter::LEN + 8 + 12 + 8;
/// When a device begins to be faulty: the fabric has come up.
const FROM: Time = Time(100_000_000);
/// A port that no switch here has.
const NOWHERE: u8 = 254;

/// How many seeds it takes until a planted fault is found, and how. At most `most`.
fn found(most: u64, plant: &dyn Fn() -> Option<Box<dyn Interposer>>) -> BTreeSet<FailureKind> {
    // What `seeds.rs` runs without it, and nothing fails.
    let limits = Limits { devices: 3..=7 };
    for seed in 0..most {
        let schedule = Schedule::from_seed(seed, &limits);
        if let Some(failure) = run_with(&schedule, plant).failure {
            return BTreeSet::from([failure.kind]);
        }
    }
    panic!("not found by {most} seeds");
}

/// The MAD of a frame that carries one packet, an SMP.
fn smp(frame: &[u8]) -> Option<Mad> {
    let is_management = frame.get(Delimiter::LEN)? >> 4 == 15;
    let bytes = frame.get(MAD_AT..MAD_AT + Mad::LEN)?;
    (is_management && frame[0] == RecordKind::Data as u8)
        .then(|| Mad::parse(bytes).ok().map(|(mad, _)| mad))?
}

/// A port that loses a block of its buffer with each packet of more than 200 bytes: the credits are
/// never given again.
#[derive(Debug, Default)]
struct LostCredit;

impl Interposer for LostCredit {
    fn pass(&mut self, now: Time, from: Endpoint, frame: &mut [u8]) -> Passage {
        if now < FROM || from.node.index() != 0 {
            return Passage::Once;
        }
        let mut at = 0;
        let lengths: Vec<(RecordKind, usize)> = Records::new(frame)
            .filter_map(Result::ok)
            .map(|record| (record.kind, record.bytes.len()))
            .collect();
        for (kind, length) in lengths {
            let bytes = &mut frame[at + Delimiter::LEN..at + Delimiter::LEN + length];
            if kind == RecordKind::FlowControl
                && let Ok((mut control, _)) = FlowControl::parse(bytes)
                && control.vl.get() == 0
            {
                control.fccl = control.fccl.wrapping_sub(1) % FlowControl::MODULUS;
                control.emit(bytes);
            }
            at += Delimiter::LEN + length;
        }
        Passage::Once
    }
}

#[test]
fn a_credit_that_is_never_given_again_is_found() {
    let kinds = found(3, &|| Some(Box::new(LostCredit)));
    assert_eq!(kinds, BTreeSet::from([FailureKind::NotAtRest]));
}

/// A switch that writes another port into its table than it was told, once, and that answers what it
/// was told.
#[derive(Debug, Default)]
struct WrongEntry {
    /// Transaction, place in the block and port of the one that it got wrong.
    wrong: Option<(u64, usize, u8)>,
}

impl Interposer for WrongEntry {
    fn pass(&mut self, _: Time, _: Endpoint, frame: &mut [u8]) -> Passage {
        let Some(mad) = smp(frame) else {
            return Passage::Once;
        };
        if mad.attr_id() != AttributeId::LINEAR_FORWARDING_TABLE || mad.attr_mod() != 0 {
            return Passage::Once;
        }
        // The block stands behind the headers of MAD and SMP.
        let entries = MAD_AT + 64;
        match self.wrong {
            None if mad.method() == Method::SET => {
                let block = &frame[entries..entries + 64];
                let used = block.iter().rposition(|&port| port != PortNum::NONE.get());
                if let Some(at) = used {
                    self.wrong = Some((mad.tid(), at, block[at]));
                    rewrite(frame, entries + at, NOWHERE);
                }
            }
            Some((_, at, port))
                if mad.method() == Method::GET_RESP && frame[entries + at] == NOWHERE =>
            {
                rewrite(frame, entries + at, port);
            }
            _ => {}
        }
        Passage::Once
    }
}

/// Changes a byte of a packet in a frame, and its CRCs.
fn rewrite(frame: &mut [u8], at: usize, byte: u8) {
    frame[at] = byte;
    let packet = &mut frame[Delimiter::LEN..];
    let end = packet.len();
    let icrc = wire::crc::icrc(&packet[..end - 6]).to_be_bytes();
    packet[end - 6..end - 2].copy_from_slice(&icrc);
    let vcrc = wire::crc::vcrc(&packet[..end - 2]).to_be_bytes();
    packet[end - 2..].copy_from_slice(&vcrc);
}

#[test]
fn an_entry_that_is_not_what_was_written_is_found() {
    let kinds = found(3, &|| Some(Box::<WrongEntry>::default()));
    assert_eq!(kinds, BTreeSet::from([FailureKind::Tables]));
}

/// A device that answers training with the epoch that it heard first, whatever it hears later.
#[derive(Debug, Default)]
struct StaleEpoch {
    /// By end: what it heard first, and when it last said so.
    heard: std::collections::BTreeMap<Endpoint, (u32, Time)>,
}

impl Interposer for StaleEpoch {
    fn pass(&mut self, now: Time, from: Endpoint, frame: &mut [u8]) -> Passage {
        let training = Records::new(frame)
            .filter_map(Result::ok)
            .find(|record| record.kind == RecordKind::Training)
            .and_then(|record| Training::parse(record.bytes).ok());
        let Some((training, _)) = training else {
            return Passage::Once;
        };
        if training.heard_epoch == 0 {
            return Passage::Once;
        }
        let first = (training.heard_epoch, now);
        let (first, said_at) = self.heard.entry(from).or_insert(first);
        let first = *first;
        if first == training.heard_epoch {
            return Passage::Once;
        }
        // Both ends answer at once: not for ever at the speed of the cable.
        if now.since_ns(*said_at) < 100_000_000 {
            return Passage::Never;
        }
        *said_at = now;
        let stale = Training {
            heard_epoch: first,
            ..training
        };
        stale.emit(&mut frame[Delimiter::LEN..]);
        Passage::Once
    }
}

#[test]
fn an_epoch_from_before_a_restart_is_found() {
    let kinds = found(12, &|| Some(Box::<StaleEpoch>::default()));
    assert_eq!(kinds, BTreeSet::from([FailureKind::NotUp]));
}

/// A switch that sends every hundredth datagram twice.
#[derive(Debug, Default)]
struct Doubler(u32);

impl Interposer for Doubler {
    fn pass(&mut self, _: Time, _: Endpoint, frame: &mut [u8]) -> Passage {
        let is_data = frame.first() == Some(&(RecordKind::Data as u8));
        if !is_data || frame[Delimiter::LEN] >> 4 == 15 {
            return Passage::Once;
        }
        self.0 += 1;
        match self.0 % 100 {
            0 => Passage::Twice,
            _ => Passage::Once,
        }
    }
}

#[test]
fn a_datagram_that_is_sent_twice_is_found() {
    let kinds = found(3, &|| Some(Box::<Doubler>::default()));
    assert_eq!(kinds, BTreeSet::from([FailureKind::Checker]));
}

/// Hosts that ask to join a group once and never again: by end of a cable and SLID, who has asked.
#[derive(Debug, Default)]
struct NoRetry(BTreeSet<(Endpoint, u16)>);

impl Interposer for NoRetry {
    fn pass(&mut self, _: Time, from: Endpoint, frame: &mut [u8]) -> Passage {
        let bytes = frame.get(MAD_AT..MAD_AT + Mad::LEN).unwrap_or_default();
        let is_join = Mad::parse(bytes).is_ok_and(|(mad, _)| {
            mad.class() == MgmtClass::SUBN_ADM
                && mad.method() == Method::SET
                && mad.attr_id() == AttributeId::MC_MEMBER_RECORD
        });
        let slid = frame.get(Delimiter::LEN + 6..Delimiter::LEN + 8);
        let slid = slid.map_or(0, |slid| u16::from_be_bytes([slid[0], slid[1]]));
        match is_join && !self.0.insert((from, slid)) {
            true => Passage::Never,
            false => Passage::Once,
        }
    }
}

#[test]
fn a_request_that_is_never_repeated_is_found() {
    let kinds = found(60, &|| Some(Box::<NoRetry>::default()));
    assert_eq!(kinds, BTreeSet::from([FailureKind::Multicast]));
}
