//! Credits over a pair of ports: no buffer overruns, no credit is lost, an idle link carries few updates.

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

#[test]
fn a_sender_stops_when_the_buffer_is_full_and_goes_on_when_it_is_emptied() {
    let mut pair = Pair::active(config());
    let now = pair.now;
    for _ in 0..20 {
        let _ = pair.ends[0].offer(now, 0, 290);
        pair.settle();
    }
    let buffered = pair.ends[0].spec().xmit_pkts;
    assert_eq!(buffered, 12, "64 blocks hold 12 packets of 5");
    pair.pass(1_000_000_000);
    assert_eq!(pair.ends[0].spec().xmit_pkts, 12);
    assert!(pair.ends[0].port.counts().drops.total() == 0);
    pair.ends[1].drain();
    pair.settle();
    assert_eq!(pair.ends[0].spec().xmit_pkts, 20);
    assert!(pair.ends[0].spec().xmit_wait_ns >= 1_000_000_000);
}

#[test]
fn a_vl_without_credits_does_not_hold_up_another() {
    let mut pair = Pair::active(config());
    let now = pair.now;
    for vl in [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1] {
        pair.ends[0].offer(now, vl, 290).unwrap();
    }
    pair.settle();
    pair.ends[1].drain();
    let on_vl = pair.ends[1].taken.iter().filter(|(vl, _)| vl.get() == 1);
    assert_eq!(on_vl.count(), 1);
}

#[test]
fn vl15_needs_no_credits_goes_first_and_drops_what_does_not_fit() {
    let small = PortConfig {
        vl15_packets: 3,
        ..config()
    };
    let mut pair = Pair::active(small);
    let now = pair.now;
    pair.ends[0].offer(now, 0, 290).unwrap();
    pair.ends[0].offer(now, 15, 290).unwrap();
    pair.step(0, &mut || false);
    pair.ends[1].drain();
    pair.ends[1].taken.clear();
    for _ in 0..5 {
        pair.ends[0].offer(now, 15, 290).unwrap();
        pair.settle();
    }
    assert_eq!(pair.ends[1].dropped(DropReason::Vl15Full), 2);
    assert_eq!(pair.ends[1].spec().vl15_dropped, 2);
}

#[test]
fn flow_control_is_a_small_part_of_what_is_said() {
    let roomy = PortConfig {
        buffer_bytes: 128 * 1024,
        ..config()
    };
    let mut pair = Pair::active(roomy);
    pair.settle();
    let before = pair.frames[1];
    for _ in 0..2000 {
        let now = pair.now;
        pair.ends[0].offer(now, 0, 290).unwrap();
        pair.settle();
        pair.ends[1].drain();
        pair.settle();
    }
    let answers = pair.frames[1] - before;
    assert!(
        answers <= 2000 * 5 / 512 + 1,
        "{answers} flow-control frames"
    );
}

#[test]
fn a_buffer_of_one_packet_passes_packets_one_by_one() {
    let tiny = PortConfig {
        buffer_bytes: 384,
        ..config()
    };
    let mut pair = Pair::active(tiny);
    for sent in 1..=50 {
        let now = pair.now;
        pair.ends[0].offer(now, 1, 290).unwrap();
        pair.settle();
        pair.ends[1].drain();
        pair.settle();
        assert_eq!(pair.ends[1].taken.len(), sent);
    }
}

#[test]
fn a_starving_sender_learns_of_lost_credits_long_before_the_keep_alive() {
    let mut pair = Pair::active(config());
    pair.settle();
    let now = pair.now;
    for _ in 0..12 {
        pair.ends[0].offer(now, 0, 290).unwrap();
    }
    pair.settle_lossy(&mut || true);
    pair.ends[0].offer(now, 0, 290).unwrap();
    pair.pass(timeouts().keepalive_ns / 8);
    pair.ends[1].drain();
    assert_eq!(
        pair.ends[1].taken.len(),
        1,
        "12 were lost, and are not waited for"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Frames of data and of flow control are lost at random in both directions: no buffer is
    /// ever overrun, and when the loss ends everything flows again.
    #[test]
    fn credits_never_exceed_buffers_under_random_loss(
        seed in any::<u64>(),
        buffer_blocks in 6usize..200,
        loss in 0.0f64..0.6,
    ) {
        let lossy = PortConfig { buffer_bytes: buffer_blocks * 64, ..config() };
        let mut pair = Pair::active(lossy);
        pair.settle();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut dice = ChaCha8Rng::seed_from_u64(seed ^ 1);
        for _ in 0..300 {
            let now = pair.now;
            let from = rng.random_range(0..2);
            let vl = rng.random_range(0..2);
            let bytes = 34 + 4 * rng.random_range(0..64);
            if let Err(Refusal::Full(packet)) = pair.ends[from].offer(now, vl, bytes) {
                packet.release(&mut pair.ends[from].pool);
            }
            pair.settle_lossy(&mut || dice.random_bool(loss));
            if rng.random_bool(0.4) {
                pair.ends[1 - from].drain();
            }
            if rng.random_bool(0.2) {
                pair.pass_lossy(30_000_000, &mut || dice.random_bool(loss));
            }
            for end in &pair.ends {
                prop_assert_eq!(end.dropped(DropReason::BufferOverrun), 0);
            }
        }
        // A link that went down under the loss may need a moment.
        pair.pass(3 * timeouts().silence_ns);
        for _ in 0..200 {
            pair.ends.iter_mut().for_each(End::drain);
            pair.settle();
        }
        pair.pass(timeouts().keepalive_ns);
        for end in &pair.ends {
            prop_assert_ne!(end.port.state(), PortState::Down);
            for vl in 0..2 {
                let available = end.port.credits(Vl::constant(vl));
                prop_assert_eq!(usize::from(available), buffer_blocks, "a leak of credits");
            }
            prop_assert_eq!(end.pool.handles(), 0, "a leak of memory");
        }
    }

    #[test]
    fn bytes_of_any_kind_are_counted_and_never_a_panic(
        frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..400), 0..50),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let mut pair = Pair::active(config());
        for frame in frames {
            pair.hand_in(0, &frame);
        }
        for (at, byte) in flips {
            let mut frame = data_record(&raw_packet(0, 290));
            let at = at.index(frame.len());
            frame[at] ^= byte;
            pair.hand_in(0, &frame);
            frame.truncate(at);
            pair.hand_in(0, &frame);
        }
        pair.ends[0].drain();
        pair.settle();
        prop_assert!(pair.ends[0].pool.handles() == 0);
    }
}

#[test]
fn a_link_that_comes_up_again_with_a_fresh_peer_knows_no_credits_of_the_last_one() {
    let mut pair = Pair::active(config());
    let now = pair.now;
    for _ in 0..10 {
        pair.ends[0].offer(now, 0, 290).unwrap();
        pair.ends[1].offer(now, 0, 290).unwrap();
        pair.settle();
        pair.ends.iter_mut().for_each(End::drain);
    }
    pair.settle();
    let fresh = PortConfig {
        epoch_seed: 5_000,
        ..config()
    };
    pair.ends[1] = End::new(fresh, 2);
    for up in [false, true] {
        pair.set_carrier(0, up);
    }
    pair.set_carrier(1, true);
    pair.settle();
    assert_eq!(pair.states(), [PortState::Init; 2]);
    for end in &pair.ends {
        let credits = end.port.credits(Vl::constant(0));
        assert_eq!(credits, 64, "never more than the buffer of 4096 bytes");
    }
}
