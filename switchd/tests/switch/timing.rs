//! Virtual time: routing delay, cut-through, crossbar, and that no time is invented.

use link::{DropReason, Pacing, PortConfig, Time};
use switchd::Timing;
use wire::{LinkRate, LinkSpeed, LinkWidth};

use crate::bed::{Bed, Plan, datagram};

/// The network of MLID04: 1x links (4 ns a byte), 20 ns of flight, 100 ns of routing, one packet
/// in and one packet out.
fn model(crossbar_ps_per_byte: u64) -> Plan {
    let plan = Plan::default();
    Plan {
        port: PortConfig {
            rate: LinkRate {
                width: LinkWidth::X1,
                speed: LinkSpeed::Sdr,
            },
            pacing: Pacing::EXACT,
            vcrc_takes_time: false,
            buffer_bytes: 384,
            output_bytes: 64,
            ..plan.port
        },
        timing: Timing {
            routing_delay_ns: 100,
            crossbar_ps_per_byte,
        },
        flight_ns: 20,
        records: 1,
        ..plan
    }
}

/// When packets were wholly there at a host, since `start`.
fn arrivals(bed: &Bed, host: usize, start: Time) -> Vec<u64> {
    let times = bed.hosts[host].received.iter();
    times.map(|&(at, _)| at.since_ns(start)).collect()
}

fn quiet(bed: &mut Bed) -> Time {
    bed.pass(1_000_000);
    bed.hosts.iter_mut().for_each(|host| host.received.clear());
    bed.now
}

#[test]
fn an_unloaded_packet_takes_flight_routing_and_byte_time_once() {
    let mut bed = Bed::star(model(0), 2);
    let start = quiet(&mut bed);
    // 64 bytes from LRH to ICRC.
    bed.offer(0, &datagram(1, 2, 0, 0, 66, 1));
    bed.pass(10_000);
    assert_eq!(
        arrivals(&bed, 1, start),
        [20 + 100 + 20 + 256],
        "cut-through"
    );
}

#[test]
fn packets_of_one_flow_follow_each_other_at_the_rate_of_the_link() {
    let mut bed = Bed::star(model(0), 2);
    let start = quiet(&mut bed);
    let mut offered = 0;
    while offered < 10 {
        if bed.offer(0, &datagram(1, 2, 0, 0, 66, 1)) {
            offered += 1;
        } else {
            bed.pass(1);
        }
        bed.run();
    }
    bed.pass(100_000);
    let times = arrivals(&bed, 1, start);
    assert_eq!(times.len(), 10);
    let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(
        gaps.iter().all(|&gap| gap >= 256),
        "never above the link's rate: {gaps:?}"
    );
    assert!(
        gaps.iter().all(|&gap| gap <= 256 + 100 + 20 + 20),
        "{gaps:?}"
    );
}

#[test]
fn two_inputs_of_one_output_take_turns() {
    let mut bed = Bed::star(model(4000), 3);
    let start = quiet(&mut bed);
    let mut offered = [0; 2];
    while offered != [20, 20] {
        for (host, count) in (0..).zip(&mut offered) {
            let source = u16::try_from(host).unwrap() + 1;
            if *count < 20 && bed.offer(host, &datagram(source, 3, 0, 0, 66, *count)) {
                *count += 1;
            }
        }
        bed.run();
        bed.pass(1);
    }
    bed.pass(100_000);
    let data = bed.hosts[2].data();
    let early = data[..20].iter().filter(|&&(slid, _)| slid == 1).count();
    assert!((8..=12).contains(&early), "{early} of the first 20");
    let times = arrivals(&bed, 2, start);
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= 256));
}

#[test]
fn an_input_buffer_is_free_when_the_packet_s_tail_has_crossed() {
    // Without time in the crossbar the tail leaves as it comes; with a crossbar of half the
    // link's rate the next packet of the same VL has to wait for it.
    let spacing = |crossbar| {
        let mut bed = Bed::star(model(crossbar), 2);
        let start = quiet(&mut bed);
        let mut offered = 0;
        while offered < 6 {
            if bed.offer(0, &datagram(1, 2, 0, 0, 66, 1)) {
                offered += 1;
            }
            bed.run();
            bed.pass(1);
        }
        bed.pass(100_000);
        let times = arrivals(&bed, 1, start);
        (times[5] - times[0]) / 5
    };
    assert!(spacing(8000) >= 512);
    assert!(spacing(0) < 512);
}

#[test]
fn jumping_from_deadline_to_deadline_and_fine_ticks_give_the_same_trace() {
    let trace = |tick_ns: u64| {
        let mut bed = Bed::star(model(4000), 4);
        let start = quiet(&mut bed);
        for round in 0..8 {
            for host in 1..=3u16 {
                let packet = datagram(host, 4, 0, 0, 66 + 32 * usize::from(host), round);
                bed.offer(usize::from(host) - 1, &packet);
            }
            let until = bed.now + 3000;
            while bed.now < until {
                bed.pass(tick_ns.min(until.since_ns(bed.now)));
            }
        }
        bed.pass(100_000);
        let order = bed.hosts[3].data();
        (arrivals(&bed, 3, start), order)
    };
    let jumped = trace(3000);
    assert!(jumped.0.len() > 10);
    assert_eq!(jumped, trace(7));
}

#[test]
fn an_idle_fabric_keeps_its_links_for_hours() {
    let mut bed = Bed::star(Plan::default(), 3);
    bed.pass(3600 * 1_000_000_000);
    bed.send_data(1, 3, 1);
    assert_eq!(bed.hosts[2].data(), [(1, 1)]);
    assert_eq!(bed.drops(0, 3, DropReason::LinkDown), 0);
    assert_eq!(bed.link_timeouts().keepalive_ns, 250_000_000);
}
