//! What ends a queue pair's work, and the events that tell of it.

use transport::{Access, Arming, Event, QpEvent, QpModify, RegionConfig, SpaceId};

use super::*;
use crate::bed::BASE;

#[test]
fn a_drained_queue_ends_what_is_begun_and_tells() {
    let mut pair = Pair::new(&reliable());
    send(&mut pair, 0, 3000);
    send(&mut pair, 1, 8);
    pair.carry(0);
    pair.carry(1);
    let a = &mut pair.sides[0];
    let drain = QpModify {
        state: Some(QpState::Sqd),
        drained_event: Some(true),
        ..QpModify::default()
    };
    a.engine.modify_qp(pair.now, a.qpn, &drain).unwrap();
    assert!(a.engine.query_qp(a.qpn).unwrap().draining);
    pair.settle();
    let a = &mut pair.sides[0];
    assert_eq!(
        statuses(a),
        [(0, Status::Success)],
        "the second has not begun"
    );
    let event = QpEvent::SendQueueDrained;
    assert_eq!(a.events(), [Event::QueuePair { qpn: a.qpn, event }]);
    let rts = QpModify {
        state: Some(QpState::Rts),
        ..QpModify::default()
    };
    a.engine.modify_qp(pair.now, a.qpn, &rts).unwrap();
    pair.settle();
    assert_eq!(statuses(&mut pair.sides[0]), [(1, Status::Success)]);
}

#[test]
fn the_error_state_flushes_both_queues_in_order_and_what_is_posted_later() {
    let mut pair = Pair::new(&reliable());
    let a = &mut pair.sides[0];
    for wr_id in 0..3 {
        a.post_receive(10 + wr_id, &[a.sge(0, 8)]);
        a.post(pair.now, wr_id, SendOperation::default(), &[a.sge(0, 8)]);
    }
    a.fail(pair.now);
    a.post_receive(13, &[]);
    a.post(pair.now, 3, SendOperation::default(), &[]);
    use Status::Flushed;
    assert_eq!(
        statuses(a),
        [(0, Flushed), (1, Flushed), (2, Flushed), (3, Flushed)]
    );
    let received: Vec<_> = a
        .received()
        .iter()
        .map(|done| (done.wr_id, done.status))
        .collect();
    assert_eq!(
        received,
        [(10, Flushed), (11, Flushed), (12, Flushed), (13, Flushed)]
    );
    assert!(!pair.carry(0));
}

#[test]
fn a_queue_pair_with_a_shared_queue_tells_when_it_takes_no_more() {
    let mut pair = Pair::new(&Setting {
        srq: true,
        ..reliable()
    });
    let a = &mut pair.sides[0];
    a.post_receive(1, &[a.sge(0, 8)]);
    a.fail(pair.now);
    assert!(
        a.received().is_empty(),
        "the request stays in the shared queue"
    );
    let event = QpEvent::LastRequestReached;
    assert_eq!(a.events(), [Event::QueuePair { qpn: a.qpn, event }]);
}

#[test]
fn a_solicited_message_raises_a_solicited_only_event() {
    let mut pair = Pair::new(&reliable());
    let b = &mut pair.sides[1];
    let cq = b.receive_cq;
    b.engine.arm_cq(cq, Arming::Solicited).unwrap();
    send(&mut pair, 0, 8);
    pair.settle();
    assert!(pair.sides[1].events().is_empty());
    let [a, b] = &mut pair.sides;
    b.post_receive(1, &[b.sge(0, 8)]);
    let sges = [a.sge(0, 8)];
    let mut solicited = request(1, SendOperation::default(), Data::Scattered(&sges));
    solicited.solicited = true;
    a.engine.post_send(pair.now, a.qpn, &solicited).unwrap();
    pair.settle();
    assert_eq!(pair.sides[1].events(), [Event::Completion(cq)]);
    // Armed for any, the next one wakes, and only that.
    let b = &mut pair.sides[1];
    b.engine.arm_cq(cq, Arming::Next).unwrap();
    b.engine.arm_cq(cq, Arming::Solicited).unwrap();
    send(&mut pair, 2, 8);
    send(&mut pair, 3, 8);
    pair.settle();
    assert_eq!(pair.sides[1].events(), [Event::Completion(cq)]);
}

#[test]
fn a_completion_queue_that_overruns_takes_its_queue_pairs_with_it() {
    let mut pair = Pair::new(&Setting {
        cq_depth: 2,
        ..reliable()
    });
    for wr_id in 0..4 {
        send(&mut pair, wr_id, 8);
    }
    pair.settle();
    let b = &mut pair.sides[1];
    assert_eq!(b.received().len(), 2, "what had come stays");
    assert_eq!(b.state(), QpState::Error);
    let event = QpEvent::Fatal;
    let fatal = Event::QueuePair { qpn: b.qpn, event };
    assert_eq!(b.events(), [Event::CqError(b.receive_cq), fatal]);
}

#[test]
fn a_send_takes_a_region_s_remote_rights_away_if_it_permits_that() {
    let mut pair = Pair::new(&reliable());
    let [a, b] = &mut pair.sides;
    let config = RegionConfig {
        pd: b.pd,
        space: SpaceId(0),
        address: BASE,
        iova: 0x1000,
        length: 64,
        access: Access::LOCAL_WRITE
            .with(Access::REMOTE_WRITE)
            .with(Access::REMOTE_INVALIDATE),
    };
    let rkey = b.engine.register_region(config).unwrap();
    let remote = transport::Remote { va: 0x1008, rkey };
    let write = SendOperation::Write {
        remote,
        immediate: None,
    };
    a.ram.bytes[..8].fill(9);
    b.post_receive(0, &[b.sge(1000, 8)]);
    a.post(pair.now, 0, write, &[a.sge(0, 8)]);
    a.post(
        pair.now,
        1,
        SendOperation::SendInvalidate { rkey },
        &[a.sge(0, 8)],
    );
    a.post(pair.now, 2, write, &[a.sge(0, 8)]);
    pair.settle();
    let [a, b] = &mut pair.sides;
    use Status::{RemoteAccess, Success};
    assert_eq!(statuses(a), [(0, Success), (1, Success), (2, RemoteAccess)]);
    assert_eq!(b.received()[0].invalidated, Some(rkey));
    assert_eq!(b.ram.bytes[8..16], [9; 8], "by the region's own addresses");
}
