//! Link-up, states, and what ends a link.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

fn changes(end: &End) -> Vec<(PortState, PortState, Cause)> {
    let change = |event: &PortEvent| {
        let PortEvent::StateChanged { from, to, cause } = *event;
        (from, to, cause)
    };
    end.events.iter().map(change).collect()
}

#[test]
fn a_plugged_cable_brings_both_ends_to_init_in_a_few_frames() {
    let mut pair = Pair::new(config());
    pair.settle();
    assert_eq!(pair.states(), [PortState::Init; 2]);
    assert!(pair.frames.iter().sum::<usize>() <= 8, "{:?}", pair.frames);
    for end in &pair.ends {
        let link_up = (PortState::Down, PortState::Init, Cause::Link);
        assert_eq!(changes(end), [link_up]);
        assert_eq!(end.port.credits(Vl::constant(1)), 64, "4096 bytes");
        assert_eq!(end.port.physical(), PhysicalState::LinkUp);
    }
    assert_eq!(pair.ends[0].port.peer().unwrap().port, PortNum::new(2));
}

#[test]
fn a_cable_plugged_at_one_end_later_comes_up_at_once() {
    let mut pair = Pair::new(config());
    pair.set_carrier(1, false);
    pair.settle();
    pair.pass(10_000_000_000);
    assert_eq!(pair.states(), [PortState::Down; 2]);
    assert!(pair.frames[0] <= 60, "a call a keep-alive, not a storm");
    pair.set_carrier(1, true);
    pair.settle();
    assert_eq!(pair.states(), [PortState::Init; 2]);
}

#[test]
fn a_link_comes_up_over_a_cable_that_loses_most_frames() {
    let patient = PortConfig {
        timeouts: LinkTimeouts {
            silence_ns: 60_000_000_000,
            ..timeouts()
        },
        ..config()
    };
    let mut pair = Pair::new(patient);
    let mut dice = ChaCha8Rng::seed_from_u64(1);
    let mut lose = || dice.random_bool(0.7);
    pair.settle_lossy(&mut lose);
    pair.pass_lossy(5_000_000_000, &mut lose);
    assert_eq!(pair.states(), [PortState::Init; 2]);
}

#[test]
fn an_idle_link_stays_up_on_a_few_keep_alives() {
    let mut pair = Pair::active(config());
    pair.settle();
    let before = pair.frames;
    pair.pass(10_000_000_000);
    assert_eq!(pair.states(), [PortState::Active; 2]);
    for (before, after) in before.iter().zip(pair.frames) {
        let frames = after - before;
        assert!((40..=55).contains(&frames), "{frames} frames in 10 s");
    }
}

#[test]
fn keep_alives_of_a_link_that_carries_something_now_and_then_go_along_with_it() {
    let mut pair = Pair::active(config());
    pair.settle();
    let before = pair.frames;
    for _ in 0..30 {
        pair.pass(timeouts().keepalive_ns / 3);
        for end in [0, 1] {
            pair.ends[end].offer(pair.now, 0, 290).unwrap();
            pair.settle();
            pair.ends[1 - end].drain();
        }
    }
    for (before, after) in before.iter().zip(pair.frames) {
        let frames = after - before;
        assert!(
            (30..=31).contains(&frames),
            "{frames} frames for 30 packets"
        );
    }
}

#[test]
fn silence_takes_the_link_down_and_the_peer_brings_it_back() {
    let mut pair = Pair::active(config());
    pair.settle();
    pair.pass_lossy(timeouts().silence_ns * 2, &mut || true);
    assert_eq!(pair.states(), [PortState::Down; 2]);
    assert_eq!(
        changes(&pair.ends[1]),
        [(PortState::Active, PortState::Down, Cause::Link)]
    );
    assert_eq!(pair.ends[1].spec().link_downed, 1);
    pair.pass(timeouts().keepalive_ns);
    assert_eq!(pair.states(), [PortState::Init; 2]);
}

#[test]
fn a_pulled_plug_is_told_to_the_peer() {
    let mut pair = Pair::active(config());
    pair.settle();
    let End { port, pool, .. } = &mut pair.ends[0];
    port.set_plugged(pair.now, false, pool);
    pair.settle();
    assert_eq!(pair.states(), [PortState::Down; 2]);
    assert_eq!(pair.ends[0].port.physical(), PhysicalState::Polling);
    let End { port, pool, .. } = &mut pair.ends[0];
    port.set_plugged(pair.now, true, pool);
    pair.settle();
    assert_eq!(pair.states(), [PortState::Init; 2]);
}

#[test]
fn a_lost_carrier_takes_the_link_down_at_once() {
    let mut pair = Pair::active(config());
    pair.set_carrier(0, false);
    assert_eq!(pair.ends[0].port.state(), PortState::Down);
    assert!(
        !pair.ends[0].port.is_ready(pair.now),
        "without a peer no frame is sent"
    );
}

#[test]
fn a_restarted_peer_is_noticed_by_its_epoch_and_its_credits_start_anew() {
    let mut pair = Pair::active(config());
    let now = pair.now;
    pair.ends[0].offer(now, 0, 290).unwrap();
    pair.settle();
    assert_eq!(pair.ends[0].port.credits(Vl::constant(0)), 59);
    let restarted = PortConfig {
        epoch_seed: 1234,
        ..config()
    };
    pair.ends[1] = End::new(restarted, 2);
    pair.set_carrier(1, true);
    pair.settle();
    assert_eq!(pair.states(), [PortState::Init; 2]);
    assert_eq!(pair.ends[0].spec().link_downed, 1);
    assert_eq!(pair.ends[0].port.credits(Vl::constant(0)), 64);
}

#[test]
fn management_sets_a_link_down_and_it_comes_up_anew() {
    let mut pair = Pair::active(config());
    pair.set_state(0, LinkCommand::Down);
    pair.settle();
    assert_eq!(pair.states(), [PortState::Init; 2]);
    assert_eq!(
        changes(&pair.ends[0]),
        [
            (PortState::Active, PortState::Down, Cause::Management),
            (PortState::Down, PortState::Init, Cause::Link),
        ]
    );
}

#[test]
fn only_vl15_passes_before_the_port_is_armed() {
    let mut pair = Pair::new(config());
    pair.settle();
    let now = pair.now;
    let refused = pair.ends[0].offer(now, 0, 290);
    assert!(matches!(
        refused,
        Err(Refusal::Dropped(DropReason::OutputInactive))
    ));
    pair.ends[0].offer(now, 15, 290).unwrap();
    pair.hand_in(1, &data_record(&raw_packet(0, 290)));
    pair.settle();
    pair.ends[1].drain();
    assert_eq!(pair.ends[1].taken, [(Vl::MANAGEMENT, 290)]);
    assert_eq!(pair.ends[1].dropped(DropReason::PortNotReady), 1);
}

#[test]
fn an_armed_port_takes_data_and_becomes_active_by_it() {
    let mut pair = Pair::new(config());
    pair.settle();
    for at in 0..2 {
        pair.set_state(at, LinkCommand::Arm);
    }
    let now = pair.now;
    assert!(pair.ends[1].offer(now, 0, 290).is_err(), "it sends none");
    pair.set_state(0, LinkCommand::Activate);
    pair.ends[0].offer(now, 0, 290).unwrap();
    pair.settle();
    assert_eq!(pair.states(), [PortState::Active; 2]);
    let last = changes(&pair.ends[1]).pop();
    assert_eq!(
        last,
        Some((PortState::Armed, PortState::Active, Cause::Data))
    );
    assert!(pair.ends[1].offer(now, 0, 290).is_ok());
}

#[test]
fn nothing_is_taken_in_while_the_link_is_down() {
    let mut pair = Pair::new(config());
    pair.hand_in(0, &data_record(&raw_packet(15, 290)));
    assert_eq!(pair.ends[0].dropped(DropReason::PortNotReady), 1);
    assert_eq!(pair.ends[0].port.arrived(), 0);
}

#[test]
fn jumping_from_deadline_to_deadline_and_fine_ticks_give_the_same_trace() {
    let run = |tick_ns: Option<u64>| {
        let mut pair = Pair::new(config());
        let mut trace = Vec::new();
        pair.settle();
        pair.ends.iter_mut().for_each(|end| end.events.clear());
        let end = pair.now + 3_000_000_000;
        let mut silent = false;
        while pair.now < end {
            let due = pair
                .deadline()
                .map_or(end, |due| due.at.max(pair.now))
                .min(end);
            pair.now = tick_ns.map_or(due, |ns| due.min(pair.now + ns));
            silent |= pair.now.since_ns(Time(1_000_000_000)) >= 700_000_000;
            let before = pair.frames;
            pair.tick();
            pair.settle_lossy(&mut || silent);
            if pair.frames != before || pair.ends.iter().any(|end| !end.events.is_empty()) {
                let events: Vec<_> = pair
                    .ends
                    .iter_mut()
                    .map(|end| core::mem::take(&mut end.events))
                    .collect();
                trace.push((pair.now, pair.frames, events));
            }
        }
        trace
    };
    let jumped = run(None);
    assert!(jumped.len() > 10);
    assert_eq!(jumped, run(Some(1_000_003)));
}

#[test]
fn a_port_without_a_cable_polls_unless_it_is_switched_off() {
    let built = |config| Port::new(PortNum::new(1), config, 0).unwrap();
    assert_eq!(built(config()).physical(), PhysicalState::Polling);
    let off = PortConfig {
        is_enabled: false,
        ..config()
    };
    let mut port = built(off);
    assert_eq!(port.physical(), PhysicalState::Disabled);
    let mut pool = Pool::new(1 << 20);
    port.set_carrier(Time::ZERO, true, &mut pool);
    assert_eq!(
        port.physical(),
        PhysicalState::Disabled,
        "a cable is no command"
    );
    port.execute(Time::ZERO, LinkCommand::Poll, &mut pool)
        .unwrap();
    assert_eq!(port.physical(), PhysicalState::Polling);
    port.set_carrier(Time::ZERO, false, &mut pool);
    port.execute(Time::ZERO, LinkCommand::Disable, &mut pool)
        .unwrap();
    assert_eq!(port.physical(), PhysicalState::Disabled);
}
