//! Faults that no device should have, planted between the ends of cables: the campaign finds each
//! within a bounded number of seeds, and by the checker that is there for it.

use std::collections::BTreeSet;

use campaign::{FailureKind, Limits, Schedule, TrafficKind, run_with};
use link::Time;
use sim::{Interposer, Passage};
use topologies::Endpoint;
use wire::attr::{PKeyTable, PortInfo, SmInfo, SmState};
use wire::mad::{AttributeId, Method, MgmtClass};
use wire::{Delimiter, FlowControl, Format, Mad, PortNum, RecordKind, Records, Training};

/// Bytes before the MAD in the record of an SMP: delimiter, LRH, BTH, DETH.
const MAD_AT: usize = Delimiter::LEN + 8 + 12 + 8;
/// When a device begins to be faulty: the fabric has come up.
const FROM: Time = Time(100_000_000);
/// A port that no switch here has.
const NOWHERE: u8 = 254;

/// The checkers that find a planted fault, with at most `most` seeds.
fn found(most: u64, plant: &dyn Fn() -> Option<Box<dyn Interposer>>) -> BTreeSet<FailureKind> {
    found_among(most, &|_| true, plant)
}

/// The same among the seeds whose schedules have what the fault is about.
fn found_among(
    most: u64,
    wanted: &dyn Fn(&Schedule) -> bool,
    plant: &dyn Fn() -> Option<Box<dyn Interposer>>,
) -> BTreeSet<FailureKind> {
    // What `seeds.rs` runs without it, and nothing fails.
    let limits = Limits { devices: 3..=7 };
    for seed in 0..most {
        let schedule = Schedule::from_seed(seed, &limits);
        if !wanted(&schedule) {
            continue;
        }
        if let Some(failure) = run_with(&schedule, plant).failure {
            eprintln!("found by seed {seed}: {failure}");
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

/// A switch that writes another port into its table than the Set has, once, and that answers with what
/// the Set has.
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
    seal(frame);
}

/// Puts another MAD into a frame.
fn replace(frame: &mut [u8], mad: &Mad) {
    frame[MAD_AT..MAD_AT + Mad::LEN].copy_from_slice(mad.as_bytes());
    seal(frame);
}

/// Gives the packet of a frame its CRCs.
fn seal(frame: &mut [u8]) {
    let packet = &mut frame[Delimiter::LEN..];
    let end = packet.len();
    let icrc = wire::crc::icrc(&packet[..end - 6]).to_be_bytes();
    packet[end - 6..end - 2].copy_from_slice(&icrc);
    let vcrc = wire::crc::vcrc(&packet[..end - 2]).to_be_bytes();
    packet[end - 2..].copy_from_slice(&vcrc);
}

#[test]
fn an_entry_that_is_not_what_was_written_is_found() {
    let kinds = found(7, &|| Some(Box::<WrongEntry>::default()));
    assert_eq!(kinds, BTreeSet::from([FailureKind::Tables]));
}

/// A device that answers training with the epoch that it heard first, whatever it hears later.
#[derive(Debug, Default)]
struct StaleEpoch {
    /// By end: what it heard first.
    heard: std::collections::BTreeMap<Endpoint, u32>,
}

impl Interposer for StaleEpoch {
    fn pass(&mut self, _: Time, from: Endpoint, frame: &mut [u8]) -> Passage {
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
        let first = *self.heard.entry(from).or_insert(training.heard_epoch);
        if first == training.heard_epoch {
            return Passage::Once;
        }
        let stale = Training {
            heard_epoch: first,
            rates: wire::LinkRates::NONE,
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

/// Hosts that ask to join a group once and never again: by end of a cable and SLID, those that have asked.
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
    let joins = |schedule: &Schedule| {
        let mut kinds = schedule.traffic.iter().map(|traffic| traffic.what);
        schedule.is_managed && kinds.any(|what| matches!(what, TrafficKind::Join { .. }))
    };
    let kinds = found_among(60, &joins, &|| Some(Box::<NoRetry>::default()));
    assert_eq!(kinds, BTreeSet::from([FailureKind::Multicast]));
}

/// Managers that do not see the priority of others: each takes all others for standbys of a lower one.
#[derive(Debug)]
struct NeverYields;

impl Interposer for NeverYields {
    fn pass(&mut self, _: Time, _: Endpoint, frame: &mut [u8]) -> Passage {
        if let Some(mut mad) = smp(frame)
            && mad.attr_id() == AttributeId::SM_INFO
            && mad.method() == Method::GET_RESP
            && let Ok(shown) = mad.smp_attribute::<SmInfo>()
        {
            mad.set_smp_attribute(&SmInfo {
                priority: 0,
                guid: wire::Guid(u64::MAX),
                state: SmState::Standby,
                ..shown
            });
            replace(frame, &mad);
        }
        Passage::Once
    }
}

#[test]
fn a_standby_that_never_yields_is_found() {
    let with_standbys = |schedule: &Schedule| !schedule.standbys.is_empty();
    let kinds = found_among(12, &with_standbys, &|| Some(Box::new(NeverYields)));
    assert_eq!(kinds, BTreeSet::from([FailureKind::Managers]));
}

/// Switches that take Sets of their forwarding tables with any M_Key.
#[derive(Debug, Default)]
struct UncheckedKey {
    /// The key, which the manager's own requests show.
    key: u64,
}

impl Interposer for UncheckedKey {
    fn pass(&mut self, _: Time, _: Endpoint, frame: &mut [u8]) -> Passage {
        let Some(mut mad) = smp(frame).filter(|mad| mad.method() == Method::SET) else {
            return Passage::Once;
        };
        if let (AttributeId::PORT_INFO, Ok(info)) = (mad.attr_id(), mad.smp_attribute::<PortInfo>())
            && info.m_key == mad.m_key()
        {
            self.key = info.m_key;
        }
        if mad.attr_id() == AttributeId::LINEAR_FORWARDING_TABLE && self.key != 0 {
            mad.set_m_key(self.key);
            replace(frame, &mad);
        }
        Passage::Once
    }
}

#[test]
fn an_m_key_that_is_not_checked_on_one_attribute_is_found() {
    let with_a_key = |schedule: &Schedule| schedule.m_key.is_some();
    let kinds = found_among(12, &with_a_key, &|| Some(Box::<UncheckedKey>::default()));
    assert_eq!(kinds, BTreeSet::from([FailureKind::MKey]));
}

/// Switches that keep no P_Key tables of their ports: they let all partitions pass and answer with what
/// they were sent.
#[derive(Debug, Default)]
struct NoPortTable {
    /// What was to be written, by directed route and modifier.
    written: std::collections::BTreeMap<(Vec<u8>, u32), PKeyTable>,
}

/// Where the initial path of a directed route stands in a MAD (IBA 14.2.1.2).
const PATH: core::ops::Range<usize> = 128..192;

impl Interposer for NoPortTable {
    fn pass(&mut self, _: Time, _: Endpoint, frame: &mut [u8]) -> Passage {
        let Some(mut mad) = smp(frame) else {
            return Passage::Once;
        };
        // The port of a switch is the upper half of the modifier (IBA 14.2.5.7).
        if mad.attr_id() != AttributeId::PKEY_TABLE || mad.attr_mod() >> 16 == 0 {
            return Passage::Once;
        }
        let mut all = PKeyTable::default();
        for (entry, key) in all.0.iter_mut().zip([0xffff, 0x8100, 0x8101, 0x8102]) {
            *entry = key;
        }
        let place = (mad.as_bytes()[PATH].to_vec(), mad.attr_mod());
        match mad.method() {
            Method::SET => {
                let Ok(table) = mad.smp_attribute::<PKeyTable>() else {
                    return Passage::Once;
                };
                if table != all {
                    self.written.insert(place, table);
                    mad.set_smp_attribute(&all);
                    replace(frame, &mad);
                }
            }
            Method::GET_RESP => {
                let is_ours = mad.smp_attribute() == Ok(all);
                if let Some(table) = self.written.get(&place).filter(|_| is_ours) {
                    mad.set_smp_attribute(table);
                    replace(frame, &mad);
                }
            }
            _ => {}
        }
        Passage::Once
    }
}

#[test]
fn a_partition_table_that_is_not_in_the_switch_port_is_found() {
    use controller::PartitionEnforcement::{Both, Out};
    let divided = |schedule: &Schedule| {
        let division = schedule.partitions;
        division.is_some_and(|division| {
            division.count > 1 && matches!(division.enforcement, Both | Out)
        })
    };
    let kinds = found_among(60, &divided, &|| Some(Box::<NoPortTable>::default()));
    assert_eq!(kinds, BTreeSet::from([FailureKind::Checker]));
}
