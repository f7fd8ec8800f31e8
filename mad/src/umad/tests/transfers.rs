//! Transfers (RMPP) of programs.

use wire::sa::{RmppKind, SaHeader, rmpp_flag};

use super::*;
use crate::rmpp::{self, Progress, Receiver, Sender};
use crate::transaction::Timing;

/// The records of a table of so many bytes.
fn table(len: usize) -> Vec<u8> {
    (1..=251).cycle().take(len).collect()
}

const PEER: Timing = Timing {
    timeout_ns: 10 * MS,
    attempts: 5,
};

/// A peer's answer in segments.
fn peer(asked: &Mad, len: usize) -> Sender {
    let mut template = answer_to(asked);
    template.set_sa_header(&SaHeader {
        attribute_offset: 14,
        ..SaHeader::default()
    });
    Sender::new(&template, table(len), PEER).unwrap()
}

#[test]
fn a_table_comes_as_one_mad_whatever_of_it_is_lost_doubled_or_out_of_order() {
    for (length, turned) in [(10, false), (112, false), (5_000, false), (5_000, true)] {
        let mut bed = Bed::new();
        let sa = agent(MgmtClass::SUBN_ADM, 2, 1, &[]);
        let number = bed.register(sa).unwrap();
        bed.send(
            0,
            to(number, 100, 0),
            query(0xdead_0000_0000_0007).as_bytes(),
        );
        let asked = bed.sent()[0];
        let mut sender = peer(&asked, length);
        let (mut now, mut count) = (0, 0u32);
        while sender.progress() == Progress::Running {
            let mut segments: Vec<Mad> = std::iter::from_fn(|| sender.poll(Time(now))).collect();
            if turned {
                segments.reverse();
            }
            for segment in segments {
                count += 1;
                // Each fifth is lost, each third comes twice.
                let copies = if count % 5 == 2 {
                    0
                } else {
                    1 + u32::from(count % 3 == 0)
                };
                for _ in 0..copies {
                    bed.receive(now, &segment);
                }
            }
            for back in bed.sent() {
                sender.receive(Time(now), &back);
            }
            now += PEER.timeout_ns;
        }
        assert_eq!(sender.progress(), Progress::Done);
        let (header, mad) = bed.read().unwrap();
        assert_eq!((header.status, header.agent), (0, number));
        assert_eq!(mad[56..], table(length), "its true length");
        assert_eq!(mad[8..16], 0xdead_0000_0000_0007u64.to_be_bytes());
        assert!(bed.read().is_none(), "once");
        // What is kept of it, to acknowledge again, goes in the end.
        bed.server.tick(Time(now + 60_000 * MS));
        assert_eq!(bed.server.deadline(), None);
    }
}

#[test]
fn each_of_many_quick_requests_for_a_table_has_its_answer() {
    let mut bed = Bed::new();
    let id = bed.register(agent(MgmtClass::SUBN_ADM, 2, 1, &[])).unwrap();
    for tid in 1..=u64::try_from(TRANSFERS_MAX).unwrap() + 100 {
        bed.send(0, to(id, 1000, 3), query(tid).as_bytes());
        let asked = bed.sent().pop().expect("the request");
        let mut sender = peer(&asked, 300);
        // Each segment, then its acknowledgement.
        for _ in 0..4 {
            while let Some(segment) = sender.poll(Time(0)) {
                bed.receive(0, &segment);
            }
            for packet in bed.sent() {
                sender.receive(Time(0), &packet);
            }
        }
        let (header, mad) = bed.read().expect("an answer");
        assert_eq!((header.status, mad.len()), (0, 56 + 300), "request {tid}");
    }
}

#[test]
fn a_transfer_that_never_ends_is_given_up_and_its_sender_told() {
    let mut bed = Bed::new();
    let number = bed.register(agent(MgmtClass::SUBN_ADM, 2, 1, &[])).unwrap();
    bed.send(0, to(number, 100, 9), query(1).as_bytes());
    let asked = bed.sent()[0];
    let mut sender = peer(&asked, 5_000);
    bed.receive(0, &sender.poll(Time(0)).unwrap());
    assert_eq!(rmpp::header(&bed.sent()[0]).unwrap().kind, RmppKind::Ack);
    assert!(bed.read().is_none());
    let due = bed.server.deadline().unwrap();
    assert!(
        due > Time(900 * MS),
        "the request is not asked again meanwhile"
    );
    bed.server.tick(due);
    let abort = rmpp::header(&bed.sent()[0]).unwrap();
    assert_eq!(
        (abort.kind, abort.status),
        (RmppKind::Abort, rmpp::abort::TOO_LONG)
    );
    assert_eq!(bed.read().unwrap().0.status, UserMadHeader::TIMED_OUT);
    assert_eq!(bed.server.deadline(), None);
    assert_eq!(bed.server.counts().transfers_failed, 1);
}

#[test]
fn segments_that_lie_end_the_transfer() {
    let mut bed = Bed::new();
    let number = bed.register(agent(MgmtClass::SUBN_ADM, 2, 1, &[])).unwrap();
    bed.send(0, to(number, 100, 9), query(1).as_bytes());
    let asked = bed.sent()[0];
    let mut sender = peer(&asked, 5_000);
    let first = sender.poll(Time(0)).unwrap();
    bed.receive(0, &first);
    let _ack = bed.sent();
    // A segment far beyond the window.
    let mut beyond = first;
    let head = beyond.sa_header().unwrap();
    let rmpp = wire::sa::Rmpp {
        flags: rmpp_flag::ACTIVE,
        data1: 100_000,
        data2: 0,
        ..head.rmpp
    };
    beyond.set_sa_header(&SaHeader { rmpp, ..head });
    bed.receive(0, &beyond);
    let abort = rmpp::header(&bed.sent()[0]).unwrap();
    assert_eq!(abort.status, rmpp::abort::SEGMENT_TOO_BIG);
    assert_eq!(bed.read().unwrap().0.status, UserMadHeader::TIMED_OUT);
    // Its remaining segments and control packets of no transfer are counted, not answered.
    bed.receive(0, &first);
    assert!(bed.sent().is_empty() && bed.read().is_none());
    let (_, ack) = Receiver::new(Time(0), 1).receive(Time(0), &first);
    bed.register(agent(MgmtClass::SUBN_ADM, 2, 1, &[Method::GET_TABLE]))
        .unwrap();
    bed.receive(0, &ack.unwrap());
    assert!(bed.sent().is_empty() && bed.read().is_none());
    assert_eq!(bed.server.counts().stray_control, 1);
}

#[test]
fn a_table_goes_out_in_segments_and_control_packets_are_not_seen() {
    let mut bed = Bed::new();
    let serves = agent(MgmtClass::SUBN_ADM, 2, 1, &[Method::GET_TABLE]);
    let number = bed.register(serves).unwrap();
    let asked = query(0x0123_4567_89ab_cdef);
    bed.receive(0, &asked);
    assert_eq!(bed.read().unwrap().1, asked.as_bytes());
    let mut answer = answer_to(&asked).as_bytes().to_vec();
    // As OpenSM leaves it to the kernel: in use, no more.
    answer[24..28].copy_from_slice(&[1, 0, rmpp_flag::ACTIVE, 0]);
    answer.truncate(56);
    answer.extend(table(3_000));
    bed.send(0, to(number, 0, 0), &answer);
    let mut receiver = Receiver::new(Time(0), 1_000 * MS);
    let (mut now, mut progress) = (0, Progress::Running);
    let mut lost = std::collections::BTreeSet::new();
    while progress != Progress::Done {
        assert!(now < 60_000 * MS, "it comes to an end");
        for segment in bed.sent() {
            assert_eq!(segment.tid(), asked.tid());
            // Each third is lost when it is sent first.
            let number = rmpp::header(&segment).unwrap().data1;
            if number % 3 == 1 && lost.insert(number) {
                continue;
            }
            let (heard, back) = receiver.receive(Time(now), &segment);
            progress = heard;
            if let Some(back) = back {
                bed.receive(now, &back);
            }
        }
        now += 500 * MS;
        bed.server.tick(Time(now));
    }
    assert_eq!(receiver.into_payload(), table(3_000));
    assert!(bed.read().is_none(), "the program sees none of it");
    let open = &bed.server.descriptors[&bed.descriptor];
    assert_eq!((open.outgoing.len(), open.outgoing_bytes), (0, 0));
}

#[test]
fn a_receiver_that_dies_in_the_middle_of_a_transfer_ends_it() {
    let mut bed = Bed::new();
    let serves = agent(MgmtClass::SUBN_ADM, 2, 1, &[Method::GET_TABLE]);
    let number = bed.register(serves).unwrap();
    let mut answer = answer_to(&query(3)).as_bytes().to_vec();
    answer[26] = rmpp_flag::ACTIVE;
    answer.extend(table(3_000));
    bed.send(0, to(number, 0, 0), &answer);
    let mut packets = bed.sent();
    while let Some(due) = bed.server.deadline() {
        assert!(packets.len() < 100, "it ends");
        bed.server.tick(due);
        packets.extend(bed.sent());
    }
    let last = rmpp::header(packets.last().unwrap()).unwrap();
    assert_eq!(last.kind, RmppKind::Abort);
    assert!(bed.read().is_none() && bed.server.counts().transfers_failed == 1);
    // So does the end of the program that sends.
    bed.send(0, to(number, 0, 0), &answer);
    bed.server.close(bed.descriptor);
    assert_eq!(bed.server.deadline(), None);
}

#[test]
fn agents_that_know_no_rmpp_see_no_control_packets_and_those_that_do_it_themselves_see_all() {
    let mut bed = Bed::new();
    let plain = agent(MgmtClass::SUBN_ADM, 2, 0, &[Method::GET_TABLE]);
    bed.register(plain).unwrap();
    let user = AgentRequest {
        user_rmpp: true,
        methods: 1 << Method::GET_MULTI.0,
        ..plain
    };
    let user = bed.register(user).unwrap();
    let first = peer(&query(5), 900).poll(Time(0)).unwrap();
    let (_, ack) = Receiver::new(Time(0), 1).receive(Time(0), &first);
    let mut ack = ack.unwrap();
    assert_eq!(ack.method(), Method::GET_TABLE);
    bed.receive(0, &ack);
    assert!(bed.read().is_none() && bed.sent().is_empty());
    ack.set_method(Method::GET_MULTI);
    bed.receive(0, &ack);
    assert_eq!(bed.read().unwrap().0.agent, user);
    // Segments of an answer come to it one by one, without a transfer of the server's.
    bed.send(0, to(user, 100, 0), query(8).as_bytes());
    let asked = bed.sent()[0];
    let mut sender = peer(&asked, 900);
    let first = sender.poll(Time(0)).unwrap();
    for _ in 0..2 {
        bed.receive(0, &first);
        assert_eq!(bed.read().unwrap().1.len(), Mad::LEN);
    }
    assert!(bed.sent().is_empty(), "the program acknowledges");
}
