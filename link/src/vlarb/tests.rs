use proptest::prelude::*;

use super::*;

fn entry(vl: u8, weight: u8) -> VlArbEntry {
    VlArbEntry {
        vl: Vl::constant(vl),
        weight,
    }
}

fn arbiter(high: &[(u8, u8)], low: &[(u8, u8)], limit: u8) -> Arbiter {
    let mut arbiter = Arbiter::new(1);
    arbiter.set_high(high.iter().map(|&(vl, weight)| entry(vl, weight)));
    arbiter.set_low(low.iter().map(|&(vl, weight)| entry(vl, weight)));
    arbiter.set_limit(limit);
    arbiter
}

/// Sends `packets` packets of `bytes` each from VLs that always have more; bytes by VL.
fn shares(arbiter: &mut Arbiter, sendable: u16, packets: usize, bytes: usize) -> [usize; 16] {
    let mut sent = [0; 16];
    for _ in 0..packets {
        let Some(vl) = arbiter.pick(sendable) else {
            break;
        };
        arbiter.spend(bytes);
        sent[vl.index()] += bytes;
    }
    sent
}

fn picks(arbiter: &mut Arbiter, sendable: u16, packets: usize, bytes: usize) -> Vec<u8> {
    (0..packets)
        .map_while(|_| {
            let vl = arbiter.pick(sendable)?;
            arbiter.spend(bytes);
            Some(vl.get())
        })
        .collect()
}

#[test]
fn nothing_is_chosen_when_nothing_can_be_sent() {
    let mut arbiter = arbiter(&[(0, 1)], &[(1, 1)], 255);
    assert_eq!(arbiter.pick(0), None);
    assert_eq!(arbiter.pick(0b100), None, "a VL in no table never sends");
}

#[test]
fn weights_round_up_to_whole_packets() {
    let mut arbiter = arbiter(&[], &[(0, 1), (1, 1)], 255);
    assert_eq!(picks(&mut arbiter, 0b11, 4, 4096), [0, 1, 0, 1]);
    arbiter.set_low([entry(0, 6), entry(1, 5)]);
    assert_eq!(
        picks(&mut arbiter, 0b11, 6, 320),
        [0, 0, 1, 0, 0, 1],
        "six units begin a second packet of five"
    );
}

#[test]
fn an_entry_of_weight_0_is_passed_over() {
    let mut arbiter = arbiter(&[], &[(0, 0), (1, 1)], 255);
    assert_eq!(picks(&mut arbiter, 0b11, 3, 64), [1, 1, 1]);
    assert_eq!(
        picks(&mut arbiter, 0b01, 3, 64),
        [],
        "weight 0 is no weight"
    );
}

#[test]
fn an_idle_vl_gives_its_turn_away_and_keeps_no_claim() {
    let mut arbiter = arbiter(&[], &[(0, 2), (1, 2)], 255);
    assert_eq!(picks(&mut arbiter, 0b10, 5, 64), [1, 1, 1, 1, 1]);
    assert_eq!(picks(&mut arbiter, 0b11, 5, 64), [1, 0, 0, 1, 1]);
}

#[test]
fn an_interrupted_turn_goes_on_where_it_stopped() {
    let mut arbiter = arbiter(&[(2, 10)], &[(0, 3), (1, 3)], 255);
    assert_eq!(picks(&mut arbiter, 0b011, 2, 64), [0, 0]);
    assert_eq!(picks(&mut arbiter, 0b111, 3, 64), [2, 2, 2]);
    assert_eq!(picks(&mut arbiter, 0b011, 4, 64), [0, 1, 1, 1]);
}

#[test]
fn an_unlimited_high_table_starves_the_low_one() {
    let mut arbiter = arbiter(&[(1, 1)], &[(0, 255)], 255);
    let sent = shares(&mut arbiter, 0b11, 10_000, 290);
    assert_eq!(sent[0], 0);
}

#[test]
fn limit_0_lets_one_low_packet_follow_each_high_one() {
    let mut arbiter = arbiter(&[(1, 255)], &[(0, 255)], 0);
    assert_eq!(picks(&mut arbiter, 0b11, 6, 290), [1, 0, 1, 0, 1, 0]);
}

#[test]
fn the_limit_counts_bytes_of_high_priority_between_low_packets() {
    let mut arbiter = arbiter(&[(1, 255)], &[(0, 1)], 2);
    let first = picks(&mut arbiter, 0b11, 10, 2048);
    assert_eq!(
        first,
        [1, 1, 1, 1, 0, 1, 1, 1, 1, 0],
        "2 x 4096 bytes, then one"
    );
}

#[test]
fn the_limit_starts_anew_when_low_priority_had_nothing_to_send() {
    let mut arbiter = arbiter(&[(1, 255)], &[(0, 1)], 1);
    assert_eq!(picks(&mut arbiter, 0b10, 5, 2048), [1, 1, 1, 1, 1]);
    assert_eq!(picks(&mut arbiter, 0b11, 3, 2048), [1, 0, 1]);
}

#[test]
fn low_priority_never_starves_under_a_limit() {
    let mut arbiter = arbiter(&[(1, 255), (2, 255)], &[(0, 1), (3, 1)], 1);
    let sent = shares(&mut arbiter, 0b1111, 100_000, 1024);
    let low = sent[0] + sent[3];
    assert_eq!(
        sent[0], sent[3],
        "and shares what it gets by its own weights"
    );
    assert_eq!(
        low * 4,
        sent[1] + sent[2],
        "one packet of 1024 a 4096 bytes"
    );
}

#[test]
fn a_lone_entry_sends_for_ever() {
    let mut arbiter = arbiter(&[(2, 255)], &[(1, 1)], 255);
    // 128 GiB are 2^31 units of weight, spent here in as large packets as a unit count holds.
    let half = usize::try_from(1_u64 << 36).expect("64-bit sizes");
    for (sendable, vl) in [(0b100, 2), (0b010, 1)] {
        assert_eq!(picks(&mut arbiter, sendable, 8, half), [vl; 8]);
        arbiter.spend(64);
        assert_eq!(picks(&mut arbiter, sendable, 1, 64), [vl]);
    }
    // The weight is not owed to a table that is written later.
    arbiter.set_low([entry(0, 1), entry(1, 1)]);
    assert_eq!(picks(&mut arbiter, 0b11, 4, 64), [0, 1, 0, 1]);
}

#[test]
fn a_lone_vl_gives_high_priority_its_bytes_as_others_do() {
    // The same VL in one entry, and in two.
    for low in [&[(0, 64)][..], &[(0, 64), (0, 64)]] {
        let mut arbiter = arbiter(&[(1, 255)], low, 1);
        let half_of_the_limit = picks(&mut arbiter, 0b10, 2, 1024);
        assert_eq!(half_of_the_limit, [1, 1]);
        arbiter.set_high([]);
        assert_eq!(picks(&mut arbiter, 0b01, 1, 1024), [0]);
        arbiter.set_high([entry(1, 255)]);
        assert_eq!(picks(&mut arbiter, 0b11, 5, 1024), [1, 1, 1, 1, 0]);
    }
}

#[test]
fn an_arbiter_that_nobody_configured_shares_equally() {
    let mut arbiter = Arbiter::new(4);
    let sent = shares(&mut arbiter, 0xffff, 64 * 4 * 100, 64);
    let each = 64 * 100 * 64;
    assert_eq!(sent[..5], [each, each, each, each, 0]);
}

proptest! {
    /// With packets of one block, a backlogged VL's share is its share of the weights.
    #[test]
    fn shares_follow_weights(
        weights in prop::collection::vec((0u8..15, 0u8..=255), 1..=64),
        idle in any::<u16>(),
    ) {
        let mut arbiter = arbiter(&[], &weights, 255);
        let busy = !idle & 0x7fff;
        let weight_of = |number: u8| -> usize {
            weights.iter().filter(|&&(vl, _)| vl == number).map(|&(_, w)| usize::from(w)).sum()
        };
        let round: usize = (0..15).filter(|number| busy & (1 << number) != 0).map(weight_of).sum();
        prop_assume!(round > 0);
        let rounds = 20;
        let sent = shares(&mut arbiter, busy, round * rounds, 64);
        for number in 0..15u8 {
            let expected = if busy & (1 << number) == 0 { 0 } else { weight_of(number) * rounds * 64 };
            prop_assert_eq!(sent[usize::from(number)], expected, "VL {}", number);
        }
    }

    /// With packets longer than a block, an entry overdraws by less than a packet a turn.
    #[test]
    fn shares_of_long_packets_follow_the_rounded_weights(
        weights in prop::collection::vec(1u8..=255, 2..=15),
        blocks in 1usize..=66,
    ) {
        let table: Vec<(u8, u8)> = (0..).zip(weights.iter().copied()).collect();
        let mut arbiter = arbiter(&[], &table, 255);
        let packets_of = |weight: u8| usize::from(weight).div_ceil(blocks);
        let round: usize = weights.iter().copied().map(packets_of).sum();
        let sent = shares(&mut arbiter, 0x7fff, round * 3, blocks * 64);
        for (number, &weight) in weights.iter().enumerate() {
            prop_assert_eq!(sent[number], packets_of(weight) * 3 * blocks * 64);
        }
    }

    /// Whatever the tables, some VL with weight and a packet is chosen.
    #[test]
    fn the_arbiter_is_work_conserving(
        high in prop::collection::vec((0u8..=15, 0u8..=3), 0..=64),
        low in prop::collection::vec((0u8..=15, 0u8..=3), 0..=64),
        limit in prop_oneof![Just(0), Just(1), Just(255)],
        masks in prop::collection::vec(any::<u16>(), 1..200),
    ) {
        let mut arbiter = arbiter(&high, &low, limit);
        let weighted = high.iter().chain(&low)
            .filter(|&&(vl, weight)| weight > 0 && vl < 15)
            .fold(0u16, |mask, &(vl, _)| mask | (1 << vl));
        for sendable in masks {
            let chosen = arbiter.pick(sendable);
            prop_assert_eq!(chosen.is_some(), sendable & weighted != 0);
            if let Some(vl) = chosen {
                prop_assert!(sendable & (1 << vl.get()) != 0);
                arbiter.spend(300);
            }
        }
    }
}
