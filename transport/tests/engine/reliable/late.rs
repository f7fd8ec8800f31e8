//! Answers that come late: after they have been asked for again.

use super::*;
use crate::bed::pattern;

/// The packets that a side has now.
fn all(pair: &mut Pair, side: usize) -> Vec<Vec<u8>> {
    let now = pair.now;
    std::iter::from_fn(|| pair.sides[side].transmit(now)).collect()
}

#[test]
fn a_read_follows_one_whose_answer_was_late_and_is_being_sent_again() {
    let mut pair = Pair::new(&Setting {
        rd_atomic: 1,
        ..reliable()
    });
    pair.sides[1].ram.bytes[..8192].copy_from_slice(&pattern(1, 8192));
    for (wr_id, at) in [(0, 0), (1, 4096)] {
        let [a, b] = &mut pair.sides;
        let read = SendOperation::Read {
            remote: b.remote(at),
        };
        a.post(pair.now, wr_id, read, &[a.sge(at, 4096)]);
    }
    assert!(pair.carry(0));
    let answer = all(&mut pair, 1);
    assert_eq!(answer.len(), 4);
    // It takes so long that it is asked for again, and comes before that is answered.
    let a = &mut pair.sides[0];
    pair.now = a.engine.deadline().expect("an answer is due");
    a.engine.tick(pair.now, &mut a.ram);
    assert!(pair.carry(0), "the request goes once more");
    for packet in answer {
        let taken = pair.sides[0].receive(pair.now, &packet);
        assert_eq!(taken, Ok(()));
    }
    assert!(pair.carry(0), "the next request goes");
    pair.settle_in_time();
    let [a, b] = &mut pair.sides;
    assert_eq!(statuses(a), [(0, Status::Success), (1, Status::Success)]);
    assert_eq!(a.ram.bytes[..8192], b.ram.bytes[..8192]);
    assert_eq!(b.state(), QpState::Rts);
}
