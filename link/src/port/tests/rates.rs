//! Width and speed: what management enables, what training agrees on, and the pace of the link.

use wire::LinkRates;

use super::*;
use crate::{LinkCommand, Pacing, PhysicalState};

const fn rate(width: LinkWidth, speed: LinkSpeed) -> LinkRate {
    LinkRate { width, speed }
}

const EDR: LinkRate = rate(LinkWidth::X4, LinkSpeed::Edr);

/// An active pair whose ends can do 4x EDR.
fn edr_pair() -> Pair {
    Pair::active(PortConfig {
        rate: EDR,
        pacing: Pacing::EXACT,
        ..config()
    })
}

fn rates(pair: &Pair) -> [LinkRate; 2] {
    [pair.ends[0].port.rate(), pair.ends[1].port.rate()]
}

#[test]
fn a_link_retrains_to_the_best_that_both_ends_enable() {
    let mut pair = edr_pair();
    assert_eq!(rates(&pair), [EDR; 2]);
    let all = LinkRates::up_to(EDR);
    let up_to_qdr = all.with_extended_speeds(0, 0).with_fdr10(false);
    pair.ends[1]
        .port
        .set_enabled_rates(up_to_qdr.with_widths(1));
    pair.settle();
    assert_eq!(rates(&pair), [EDR; 2], "not before it trains again");
    pair.set_state(0, LinkCommand::Poll);
    pair.settle();
    assert_eq!(pair.states(), [PortState::Init; 2]);
    assert_eq!(rates(&pair), [rate(LinkWidth::X1, LinkSpeed::Qdr); 2]);
    // Which end retrains does not matter, nor which has the choice.
    pair.ends[1].port.set_enabled_rates(all);
    pair.ends[0]
        .port
        .set_enabled_rates(up_to_qdr.with_base_speeds(3));
    pair.set_state(1, LinkCommand::Down);
    pair.settle();
    assert_eq!(rates(&pair), [rate(LinkWidth::X4, LinkSpeed::Ddr); 2]);
}

#[test]
fn ends_of_different_rates_meet_at_the_lesser() {
    let slow = PortConfig {
        rate: rate(LinkWidth::X1, LinkSpeed::Hdr),
        epoch_seed: 77,
        ..config()
    };
    let fast = PortConfig {
        rate: EDR,
        ..config()
    };
    let mut pair = Pair::new(fast);
    pair.ends[1] = End::new(slow, 2);
    pair.set_carrier(1, true);
    pair.settle();
    assert_eq!(rates(&pair), [rate(LinkWidth::X1, LinkSpeed::Edr); 2]);
}

#[test]
fn ends_without_a_common_speed_stay_in_polling_until_they_have_one() {
    let mut pair = edr_pair();
    let all = LinkRates::up_to(EDR);
    let edr_only = all
        .with_base_speeds(0)
        .with_fdr10(false)
        .with_extended_speeds(2, 0);
    pair.ends[0].port.set_enabled_rates(edr_only);
    pair.ends[1]
        .port
        .set_enabled_rates(all.with_extended_speeds(0, 0));
    pair.set_state(0, LinkCommand::Poll);
    pair.settle();
    pair.pass(2_000_000_000);
    assert_eq!(pair.states(), [PortState::Down; 2]);
    for end in &pair.ends {
        assert_eq!(end.port.physical(), PhysicalState::Polling);
    }
    pair.ends[1].port.set_enabled_rates(all);
    pair.pass(timeouts().keepalive_ns);
    assert_eq!(pair.states(), [PortState::Init; 2], "by itself");
    assert_eq!(rates(&pair), [EDR; 2]);
}

#[test]
fn packets_leave_at_the_pace_of_the_agreed_rate() {
    let mut pair = edr_pair();
    // Five packets of 250 bytes: the last starts when four have left.
    let start_of_the_fifth_ns = |pair: &mut Pair| {
        let before = pair.ends[0].spec().xmit_pkts;
        for _ in 0..5 {
            pair.ends[0].offer(pair.now, 0, 250).unwrap();
        }
        let start = pair.now;
        pair.settle();
        while pair.ends[0].spec().xmit_pkts < before + 5 {
            pair.pass(1);
            pair.ends[1].drain();
        }
        pair.now.since_ns(start)
    };
    assert_eq!(start_of_the_fifth_ns(&mut pair), 4 * 20, "12.5 GB/s");
    pair.ends[1]
        .port
        .set_enabled_rates(LinkRates::up_to(sdr_1x()));
    pair.set_state(0, LinkCommand::Poll);
    pair.settle();
    for state in [LinkCommand::Arm, LinkCommand::Activate] {
        pair.set_state(0, state);
        pair.set_state(1, state);
    }
    pair.settle();
    pair.pass(1000);
    assert_eq!(start_of_the_fifth_ns(&mut pair), 4 * 1000, "0.25 GB/s");
}

#[test]
fn a_command_that_takes_the_link_down_waits_for_what_is_on_vl15() {
    for command in [LinkCommand::Down, LinkCommand::Poll, LinkCommand::Disable] {
        let mut pair = Pair::active(config());
        let now = pair.now;
        let End { port, pool, .. } = &mut pair.ends[0];
        for _ in 0..2 {
            let smp = packet(pool, now, 15, 290);
            port.offer(now, Vl::MANAGEMENT, smp, pool).unwrap();
        }
        port.execute_after_management(now, command, pool);
        assert_eq!(port.state(), PortState::Active);
        pair.settle();
        pair.ends[1].drain();
        assert_eq!(pair.ends[1].taken.len(), 2, "{command:?}: they have left");
        let polls = command != LinkCommand::Disable;
        let after = if polls {
            PortState::Init
        } else {
            PortState::Down
        };
        assert_eq!(pair.states(), [after; 2], "{command:?}");
    }
}

#[test]
fn a_command_that_waits_is_carried_out_when_the_link_goes_down_before() {
    let mut pair = Pair::active(config());
    let now = pair.now;
    let End { port, pool, .. } = &mut pair.ends[0];
    let smp = packet(pool, now, 15, 290);
    port.offer(now, Vl::MANAGEMENT, smp, pool).unwrap();
    port.execute_after_management(now, LinkCommand::Disable, pool);
    pair.set_carrier(0, false);
    pair.set_carrier(0, true);
    pair.settle();
    assert_eq!(pair.ends[0].port.physical(), PhysicalState::Disabled);
    pair.pass(timeouts().silence_ns);
    assert_eq!(pair.states(), [PortState::Down; 2]);
}
