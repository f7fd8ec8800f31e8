//! What makes a connection reliable, and what it does when nothing helps (IBA 9.7).

mod endings;
mod late;

use transport::{Data, QpState, SendOperation, Status};
use wire::{NakCode, Service, Syndrome};

use crate::bed::{Pair, Setting, Side, request};

fn reliable() -> Setting {
    Setting::new(Service::Rc)
}

/// A request of `len` bytes from the first side, with a receive request of the second.
fn send(pair: &mut Pair, wr_id: u64, len: usize) {
    let [a, b] = &mut pair.sides;
    b.post_receive(wr_id, &[b.sge(0, len)]);
    a.post(pair.now, wr_id, SendOperation::default(), &[a.sge(0, len)]);
}

fn statuses(side: &mut Side) -> Vec<(u64, Status)> {
    side.sent()
        .iter()
        .map(|done| (done.wr_id, done.status))
        .collect()
}

/// Has the first side know of so many receive requests, of 10,000 bytes each.
fn learn_credits(pair: &mut Pair, requests: u64) {
    let b = &mut pair.sides[1];
    for wr_id in 0..=requests {
        b.post_receive(wr_id, &[b.sge(0, 10_000)]);
    }
    let a = &mut pair.sides[0];
    a.post(pair.now, 0, SendOperation::default(), &[]);
    pair.settle();
    assert_eq!(
        (pair.sides[0].sent().len(), pair.sides[1].received().len()),
        (1, 1)
    );
}

/// Lets a side send while the other one hears nothing.
fn lose(pair: &mut Pair, from: usize) -> usize {
    std::iter::from_fn(|| pair.sides[from].transmit(pair.now)).count()
}

fn pass(pair: &mut Pair, ns: u64) {
    pair.now = pair.now + ns;
    for side in &mut pair.sides {
        side.engine.tick(pair.now, &mut side.ram);
    }
}

#[test]
fn one_acknowledgement_covers_everything_that_has_come() {
    let mut pair = Pair::new(&reliable());
    // As many as a credit code can tell.
    learn_credits(&mut pair, 12);
    let before = pair.packets[1];
    let a = &mut pair.sides[0];
    for wr_id in 0..10 {
        a.post(pair.now, wr_id, SendOperation::default(), &[a.sge(0, 3000)]);
    }
    while pair.carry(0) {}
    assert!(pair.sides[0].sent().is_empty());
    while pair.carry(1) {}
    assert_eq!(pair.packets[1] - before, 1);
    assert_eq!(pair.sides[0].sent().len(), 10);
}

#[test]
fn credits_tell_how_many_messages_may_be_under_way() {
    let mut pair = Pair::new(&reliable());
    let [a, b] = &mut pair.sides;
    for wr_id in 0..3 {
        b.post_receive(wr_id, &[b.sge(0, 8)]);
    }
    for wr_id in 0..6 {
        a.post(pair.now, wr_id, SendOperation::default(), &[a.sge(0, 8)]);
    }
    // Nothing is known yet: one packet.
    assert!(pair.carry(0) && !pair.carry(0));
    assert!(pair.carry(1));
    assert_eq!(pair.syndromes[1][0].decoded(), Some(Syndrome::Ack(2)));
    // Two more messages have credits, and no other.
    assert!(pair.carry(0) && pair.carry(0) && !pair.carry(0));
    // Without credits one packet asks.
    assert!(pair.carry(1) && pair.carry(0) && !pair.carry(0));
    assert!(pair.carry(1));
    let last = pair.syndromes[1].last().unwrap().decoded();
    assert_eq!(last, Some(Syndrome::RnrNak(1)));
}

#[test]
fn a_shared_receive_queue_tells_no_credits() {
    let mut pair = Pair::new(&Setting {
        srq: true,
        ..reliable()
    });
    for wr_id in 0..6 {
        send(&mut pair, wr_id, 8);
    }
    pair.settle();
    let unlimited = Syndrome::Ack(Syndrome::CREDITS_INVALID);
    assert!(
        pair.syndromes[1]
            .iter()
            .all(|aeth| aeth.decoded() == Some(unlimited))
    );
    assert_eq!(pair.sides[1].received().len(), 6);
}

#[test]
fn a_requester_waits_as_long_as_a_peer_without_receive_requests_asks_and_gives_up_in_the_end() {
    let setting = Setting {
        rnr_retry: 2,
        ..reliable()
    };
    let mut pair = Pair::new(&setting);
    let a = &mut pair.sides[0];
    for wr_id in 0..2 {
        a.post(pair.now, wr_id, SendOperation::default(), &[a.sge(0, 8)]);
    }
    for attempt in 1..=3 {
        assert!(pair.carry(0) && pair.carry(1));
        assert_eq!(pair.packets[0], attempt);
        if attempt < 3 {
            // Timer code 1 is 10 us.
            pass(&mut pair, 9_999);
            assert!(!pair.carry(0));
            pass(&mut pair, 1);
        }
    }
    use Status::{Flushed, RnrRetryExceeded};
    assert_eq!(
        statuses(&mut pair.sides[0]),
        [(0, RnrRetryExceeded), (1, Flushed)]
    );
}

#[test]
fn a_receive_request_that_comes_in_time_ends_the_wait() {
    let mut pair = Pair::new(&Setting {
        rnr_retry: 1,
        ..reliable()
    });
    for wr_id in 0..3 {
        let a = &mut pair.sides[0];
        a.post(pair.now, wr_id, SendOperation::default(), &[a.sge(0, 8)]);
        assert!(pair.carry(0) && pair.carry(1));
        let b = &mut pair.sides[1];
        b.post_receive(wr_id, &[b.sge(0, 8)]);
        pass(&mut pair, 10_000);
        pair.settle();
    }
    let success = |wr_id| (wr_id, Status::Success);
    assert_eq!(
        statuses(&mut pair.sides[0]),
        [success(0), success(1), success(2)]
    );
}

#[test]
fn what_is_not_answered_is_repeated_as_often_as_agreed() {
    let setting = Setting {
        retry_count: 3,
        ..reliable()
    };
    let mut pair = Pair::new(&setting);
    send(&mut pair, 0, 8);
    send(&mut pair, 1, 8);
    for _ in 0..4 {
        assert_eq!(lose(&mut pair, 0), 1);
        // 4.096 us * 2^8.
        pass(&mut pair, 4096 * 256 - 1);
        assert_eq!(lose(&mut pair, 0), 0);
        pass(&mut pair, 1);
    }
    use Status::{Flushed, RetryExceeded};
    assert_eq!(
        statuses(&mut pair.sides[0]),
        [(0, RetryExceeded), (1, Flushed)]
    );
    assert_eq!(pair.sides[0].state(), QpState::Error);
}

#[test]
fn progress_restores_the_retries() {
    let setting = Setting {
        retry_count: 1,
        ..reliable()
    };
    let mut pair = Pair::new(&setting);
    for wr_id in 0..5 {
        send(&mut pair, wr_id, 8);
        lose(&mut pair, 0);
        pass(&mut pair, 4096 * 256);
        pair.settle();
    }
    assert!(
        statuses(&mut pair.sides[0])
            .iter()
            .all(|&(_, status)| status == Status::Success)
    );
}

#[test]
fn without_a_timeout_an_answer_is_awaited_for_ever() {
    let mut pair = Pair::new(&Setting {
        timeout: 0,
        ..reliable()
    });
    send(&mut pair, 0, 8);
    lose(&mut pair, 0);
    assert_eq!(pair.sides[0].engine.deadline(), None);
}

#[test]
fn a_missing_packet_is_asked_for_once() {
    let mut pair = Pair::new(&reliable());
    learn_credits(&mut pair, 1);
    let a = &mut pair.sides[0];
    a.post(pair.now, 1, SendOperation::default(), &[a.sge(0, 8 * 1024)]);
    // The first packet is lost, the others come.
    pair.sides[0].transmit(pair.now).unwrap();
    while pair.carry(0) {}
    let before = pair.syndromes[1].len();
    while pair.carry(1) {}
    let naks: Vec<_> = pair.syndromes[1][before..]
        .iter()
        .map(|aeth| aeth.decoded())
        .collect();
    assert_eq!(naks, [Some(Syndrome::Nak(NakCode::PsnSequenceError))]);
    pair.settle();
    assert_eq!(statuses(&mut pair.sides[0]), [(1, Status::Success)]);
    assert_eq!(pair.sides[1].received().len(), 1);
}

#[test]
fn a_repeated_send_is_acknowledged_and_not_delivered_again() {
    let mut pair = Pair::new(&reliable());
    send(&mut pair, 0, 8);
    send(&mut pair, 1, 8);
    let packet = pair.sides[0].transmit(pair.now).unwrap();
    for _ in 0..3 {
        pair.sides[1].receive(pair.now, &packet).unwrap();
    }
    assert_eq!(pair.sides[1].received().len(), 1);
    assert!(pair.carry(1));
    assert_eq!(statuses(&mut pair.sides[0]).len(), 1);
}

#[test]
fn a_repeated_atomic_is_answered_from_what_was_kept() {
    let mut pair = Pair::new(&reliable());
    let [a, b] = &mut pair.sides;
    let add = SendOperation::FetchAdd {
        remote: b.remote(0),
        add: 3,
    };
    a.post(pair.now, 0, add, &[a.sge(0, 8)]);
    let packet = pair.sides[0].transmit(pair.now).unwrap();
    for _ in 0..3 {
        pair.sides[1].receive(pair.now, &packet).unwrap();
        assert!(
            pair.sides[1].transmit(pair.now).is_some(),
            "answered each time"
        );
    }
    assert_eq!(
        pair.sides[1].ram.bytes[..8],
        3u64.to_ne_bytes(),
        "executed once"
    );
}

#[test]
fn a_read_whose_answer_is_lost_in_part_is_asked_for_from_there() {
    let mut pair = Pair::new(&reliable());
    let [a, b] = &mut pair.sides;
    b.ram.bytes = crate::bed::pattern(5, b.ram.bytes.len());
    let read = SendOperation::Read {
        remote: b.remote(0),
    };
    a.post(pair.now, 0, read, &[a.sge(0, 5000)]);
    pair.carry(0);
    assert!(pair.carry(1) && pair.carry(1));
    // The third packet is lost; the fourth tells.
    pair.sides[1].transmit(pair.now).unwrap();
    let before = pair.packets[1];
    pair.settle();
    // 5,000 bytes are five packets: the fourth in vain, then the third to fifth.
    assert_eq!(pair.packets[1] - before, 1 + 3);
    let [a, b] = &mut pair.sides;
    assert_eq!(a.ram.bytes[..5000], b.ram.bytes[..5000]);
    assert_eq!(statuses(a), [(0, Status::Success)]);
}

#[test]
fn a_read_answer_acknowledges_what_came_before_it() {
    let mut pair = Pair::new(&reliable());
    let remote = pair.sides[1].remote(0);
    let a = &mut pair.sides[0];
    let write = SendOperation::Write {
        remote,
        immediate: None,
    };
    a.post(pair.now, 0, write, &[a.sge(0, 8)]);
    a.post(pair.now, 1, SendOperation::Read { remote }, &[a.sge(8, 8)]);
    while pair.carry(0) {}
    assert!(pair.carry(1));
    let done = statuses(&mut pair.sides[0]);
    assert_eq!(done, [(0, Status::Success), (1, Status::Success)]);
}

#[test]
fn reads_under_way_are_as_many_as_agreed_and_a_fence_waits_for_them() {
    let mut pair = Pair::new(&Setting {
        rd_atomic: 2,
        ..reliable()
    });
    let remote = pair.sides[1].remote(0);
    let a = &mut pair.sides[0];
    for wr_id in 0..3 {
        a.post(
            pair.now,
            wr_id,
            SendOperation::Read { remote },
            &[a.sge(0, 8)],
        );
    }
    let sges = [a.sge(0, 8)];
    let write = SendOperation::Write {
        remote,
        immediate: None,
    };
    let mut fenced = request(3, write, Data::Scattered(&sges));
    fenced.fence = true;
    a.engine.post_send(pair.now, a.qpn, &fenced).unwrap();
    assert!(pair.carry(0) && pair.carry(0) && !pair.carry(0));
    assert!(pair.carry(1));
    assert!(
        pair.carry(0) && !pair.carry(0),
        "the third READ, and not the WRITE"
    );
    while pair.carry(1) {}
    assert!(pair.carry(0), "the WRITE");
    pair.settle();
    assert_eq!(pair.sides[0].sent().len(), 4);
}

#[test]
fn answers_to_nothing_are_dropped() {
    let mut pair = Pair::new(&reliable());
    send(&mut pair, 0, 8);
    pair.carry(0);
    let answer = pair.sides[1].transmit(pair.now).unwrap();
    let a = &mut pair.sides[0];
    assert_eq!(a.receive(pair.now, &answer), Ok(()));
    for _ in 0..2 {
        assert_eq!(
            a.receive(pair.now, &answer),
            Err(transport::PacketDrop::Ghost)
        );
    }
    assert_eq!(a.sent().len(), 1);
}
