use link::Time;
use proptest::prelude::*;
use wire::sa::{RmppKind, SaHeader, rmpp_flag};
use wire::{AttributeId, Mad, Method};

use super::*;
use crate::transaction::Timing;

const TIMING: Timing = Timing {
    timeout_ns: 1_000,
    attempts: 8,
};

fn answer() -> Mad {
    let mut mad = Mad::sa(Method::GET_TABLE_RESP, AttributeId::NODE_RECORD, 0, 0x77);
    mad.set_sa_header(&SaHeader {
        attribute_offset: 14,
        component_mask: 3,
        ..SaHeader::default()
    });
    mad
}

fn records(len: usize) -> Vec<u8> {
    (0..=250).cycle().take(len).collect()
}

/// The packets sent and their times, until one side has ended; `lost` selects packets that never
/// arrive, `step` how time passes.
struct Run {
    trace: Vec<(u64, u8, u32)>,
    received: Progress,
    sent: Progress,
    payload: Vec<u8>,
}

fn run(len: usize, mut lost: impl FnMut(usize) -> bool, fine: bool) -> Run {
    let mut sender = Sender::new(&answer(), records(len), TIMING).unwrap();
    let mut receiver = Receiver::new(Time(0), 100_000);
    let (mut trace, mut now, mut packets) = (Vec::new(), Time(0), 0);
    let mut progress = Progress::Running;
    loop {
        while let Some(packet) = sender.poll(now) {
            let rmpp = header(&packet).unwrap();
            trace.push((now.0, rmpp.kind as u8, rmpp.data1));
            packets += 1;
            if lost(packets) {
                continue;
            }
            let (received, back) = receiver.receive(now, &packet);
            progress = received;
            let Some(back) = back else { continue };
            packets += 1;
            if !lost(packets) {
                sender.receive(now, &back);
            }
        }
        if sender.progress() != Progress::Running {
            break;
        }
        now = match fine {
            true => now + 1,
            false => sender.deadline().expect("something is due"),
        };
    }
    Run {
        trace,
        received: progress,
        sent: sender.progress(),
        payload: receiver.into_payload(),
    }
}

#[test]
fn segments_state_their_numbers_and_lengths() {
    let mut sender = Sender::new(&answer(), records(450), TIMING).unwrap();
    let first = sender.poll(Time(0)).unwrap();
    let rmpp = header(&first).unwrap();
    assert_eq!((rmpp.data1, rmpp.data2), (1, 450 + 3 * 20));
    assert_eq!(rmpp.flags, rmpp_flag::ACTIVE | rmpp_flag::FIRST);
    assert_eq!(first.sa_header().unwrap().attribute_offset, 14);
    assert!(sender.poll(Time(0)).is_none(), "the window is 1 at first");
    let mut receiver = Receiver::new(Time(0), 1_000);
    let (_, ack) = receiver.receive(Time(0), &first);
    let ack = ack.unwrap();
    assert_eq!(ack.method(), Method::GET_TABLE, "R is turned");
    assert_eq!(ack.tid(), 0x77);
    let rmpp = header(&ack).unwrap();
    assert_eq!((rmpp.kind, rmpp.data1, rmpp.data2), (RmppKind::Ack, 1, 65));
    sender.receive(Time(1), &ack);
    let rest: Vec<Mad> = std::iter::from_fn(|| sender.poll(Time(1))).collect();
    assert_eq!(rest.len(), 2);
    let last = header(&rest[1]).unwrap();
    assert_eq!((last.data1, last.data2), (3, 50 + 20));
    assert_eq!(last.flags, rmpp_flag::ACTIVE | rmpp_flag::LAST);
}

#[test]
fn a_single_segment_is_first_and_last() {
    let done = run(64, |_| false, false);
    assert_eq!(done.sent, Progress::Done);
    assert_eq!((done.received, done.payload), (Progress::Done, records(64)));
    assert_eq!(done.trace, [(0, 1, 1)]);
    assert_eq!(run(0, |_| false, false).payload, []);
}

#[test]
fn a_receiver_that_is_gone_ends_the_transfer() {
    let done = run(5_000, |_| true, false);
    assert_eq!(done.sent, Progress::Failed(abort::TOO_MANY_RETRIES));
    let (_, kind, _) = done.trace.last().unwrap();
    assert_eq!(*kind, RmppKind::Abort as u8);
    assert_eq!(done.trace.len(), usize::from(TIMING.attempts) + 1);
}

#[test]
fn jumping_from_deadline_to_deadline_and_ticking_finely_give_the_same_trace() {
    let lost = |packet: usize| packet.wrapping_mul(0x9e37_79b9) >> 9 & 7 == 3;
    let jumped = run(30_000, lost, false);
    let ticked = run(30_000, lost, true);
    assert_eq!(jumped.trace, ticked.trace);
    assert!(jumped.payload == records(30_000));
}

#[test]
fn what_breaks_the_rules_is_aborted_with_its_reason() {
    let control = |kind, data1, data2| control(&answer(), true, kind, 0, (data1, data2));
    let sent = |count: usize| {
        let mut sender = Sender::new(&answer(), records(1_000), TIMING).unwrap();
        for _ in 0..count {
            sender.poll(Time(0)).unwrap();
        }
        sender
    };
    let mut sender = sent(1);
    sender.receive(Time(0), &control(RmppKind::Ack, 2, 66));
    assert_eq!(sender.progress(), Progress::Failed(abort::SEGMENT_TOO_BIG));
    assert_eq!(header(&sender.poll(Time(0)).unwrap()).unwrap().status, 123);
    let mut sender = sent(1);
    sender.receive(Time(0), &control(RmppKind::Ack, 1, 0));
    assert_eq!(sender.progress(), Progress::Failed(abort::WINDOW_TOO_SMALL));
    let mut sender = sent(1);
    sender.receive(Time(0), &control(RmppKind::Stop, 0, 0));
    assert_eq!(sender.progress(), Progress::Failed(0));
    assert!(sender.poll(Time(0)).is_none(), "nothing is said to a Stop");

    let mut other = sent(0).poll(Time(0)).unwrap();
    let mut receiver = Receiver::new(Time(0), 1);
    let mut head = other.sa_header().unwrap();
    head.rmpp.data1 = 2;
    other.set_sa_header(&head);
    let (progress, abort) = receiver.receive(Time(0), &other);
    assert_eq!(progress, Progress::Failed(abort::INCONSISTENT_FIRST));
    assert_eq!(header(&abort.unwrap()).unwrap().kind, RmppKind::Abort);
}

/// A sender that names no length and never sends a last segment.
#[test]
fn segments_that_never_end_are_stopped_when_they_are_the_longest_transfer() {
    let mut mad = Sender::new(&answer(), records(450), TIMING)
        .unwrap()
        .poll(Time(0))
        .unwrap();
    let mut receiver = Receiver::new(Time(0), 1_000);
    let mut head = mad.sa_header().unwrap();
    head.rmpp.data2 = 0;
    let mut taken = 0;
    let (reason, packet) = loop {
        head.rmpp.data1 += u32::from(taken > 0);
        mad.set_sa_header(&head);
        match receiver.receive(Time(u64::from(head.rmpp.data1)), &mad) {
            (Progress::Running, _) => taken += 200,
            (Progress::Failed(reason), packet) => break (reason, packet.unwrap()),
            (Progress::Done, _) => panic!("there was no last segment"),
        }
        head.rmpp.flags = rmpp_flag::ACTIVE;
        assert!(taken <= PAYLOAD_MAX);
    };
    assert_eq!(taken, PAYLOAD_MAX / 200 * 200);
    assert_eq!(reason, abort::RESOURCES_EXHAUSTED);
    assert_eq!(header(&packet).unwrap().kind, RmppKind::Stop);
    assert_eq!(receiver.into_payload().len(), taken);
}

proptest! {
    #[test]
    fn records_arrive_whole_whatever_is_lost(
        len in 0usize..20_000,
        lost in prop::collection::btree_set(0usize..300, 0..80),
    ) {
        let done = run(len, |packet| lost.contains(&packet), false);
        // Eight losses of the same segment in a row end it.
        match done.sent {
            Progress::Done => prop_assert!(done.payload == records(len)),
            Progress::Failed(status) => {
                prop_assert_eq!(status, abort::TOO_MANY_RETRIES);
                prop_assert!(lost.len() >= 8);
            }
            Progress::Running => prop_assert!(false),
        }
    }

    #[test]
    fn nonsense_never_panics_and_never_takes_more_memory_than_it_brings(
        packets in prop::collection::vec((any::<[u8; 12]>(), any::<bool>()), 0..40)
    ) {
        let mut receiver = Receiver::new(Time(0), 1);
        let mut sender = Sender::new(&answer(), records(900), TIMING).unwrap();
        for (raw, tame) in &packets {
            let mut mad = answer();
            mad.as_bytes_mut()[24..36].copy_from_slice(raw);
            if *tame {
                mad.as_bytes_mut()[24..27].copy_from_slice(&[1, raw[1] % 5, 0xf9]);
                mad.as_bytes_mut()[28..31].fill(0);
            }
            let _ = receiver.receive(Time(0), &mad);
            sender.receive(Time(0), &mad);
            while sender.poll(Time(0)).is_some() {}
        }
        prop_assert!(receiver.into_payload().len() <= packets.len() * 200);
    }
}
