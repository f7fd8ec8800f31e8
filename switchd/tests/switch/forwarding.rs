//! Unicast: tables, VLs, fairness, back-pressure, drops.

use std::collections::BTreeMap;

use link::{DropReason, PortState};
use switchd::control::{Reply, Request};
use wire::attr::{SlToVlTable, SwitchInfo};
use wire::control::{DeviceReply, DeviceRequest};
use wire::{PortNum, Vl};

use crate::bed::{Bed, Plan, Plug, datagram, port};

/// What the ports of the first switch have dropped, as the control side sees it.
fn drops_by_port(bed: &mut Bed) -> BTreeMap<PortNum, Vec<(String, u64)>> {
    let Reply::Device(DeviceReply::Ports(ports)) =
        bed.control(0, Request::Device(DeviceRequest::Ports))
    else {
        panic!("not ports");
    };
    let mut drops = BTreeMap::new();
    for status in ports {
        let mut reasons = status.counters;
        reasons.retain(|(name, count)| name.starts_with("drop.") && *count > 0);
        if !reasons.is_empty() {
            drops.insert(status.port, reasons);
        }
    }
    drops
}

#[test]
fn a_packet_goes_where_the_linear_table_says() {
    let mut bed = Bed::star(Plan::default(), 3);
    bed.send_data(1, 3, 7);
    bed.send_data(2, 1, 8);
    assert_eq!(bed.hosts[2].data(), [(1, 7)]);
    assert_eq!(bed.hosts[0].data(), [(2, 8)]);
    assert_eq!(bed.hosts[1].data(), []);
    assert_eq!(bed.switches[0].packets_inside(), 0);
}

#[test]
fn packets_cross_several_switches() {
    let cables = [
        (Plug::Host(0), Plug::Switch(0, 1)),
        (Plug::Switch(0, 2), Plug::Switch(1, 3)),
        (Plug::Switch(1, 4), Plug::Switch(2, 5)),
        (Plug::Switch(2, 6), Plug::Host(1)),
    ];
    let mut bed = Bed::new(Plan::default(), 3, 2, &cables);
    let paths: [&[u8]; 3] = [&[1], &[1, 2], &[1, 2, 4]];
    let ports = [(1, 2), (3, 4), (5, 6)];
    for (at, (path, (back, forth))) in paths.into_iter().zip(ports).enumerate() {
        bed.set_lid(path, 10 + u16::try_from(at).unwrap());
        bed.set_routes(path, &[(1, back), (2, forth)]);
        bed.activate(path, back);
        bed.activate(path, forth);
    }
    bed.activate_hosts();
    bed.offer(0, &datagram(1, 2, 0, 0, 290, 5));
    bed.offer(1, &datagram(2, 1, 0, 0, 66, 6));
    bed.run();
    assert_eq!(bed.hosts[1].data(), [(1, 5)]);
    assert_eq!(bed.hosts[0].data(), [(2, 6)]);
}

#[test]
fn what_cannot_be_forwarded_is_dropped_for_a_reason() {
    let mut bed = Bed::star(Plan::default(), 2);
    bed.send_data(1, 50, 0);
    assert_eq!(bed.drops(0, 1, DropReason::NoRoute), 1, "no entry");
    bed.send_data(1, 4000, 0);
    assert_eq!(bed.drops(0, 1, DropReason::NoRoute), 2, "above the top");
    bed.send_data(1, 1, 0);
    assert_eq!(bed.drops(0, 1, DropReason::LoopBack), 1);
    bed.set_routes(&[1], &[(60, 5), (100, 0), (1, 1)]);
    bed.send_data(1, 60, 0);
    assert_eq!(
        bed.drops(0, 5, DropReason::OutputInactive),
        1,
        "no cable there"
    );
    let relay_errors = bed.switches[0].port(port(1)).unwrap();
    assert_eq!(relay_errors.counts().spec.rcv_switch_relay_errors, 3);
    assert_eq!(bed.switches[0].packets_inside(), 0);
    let drops = drops_by_port(&mut bed);
    assert_eq!(
        drops.keys().copied().collect::<Vec<_>>(),
        [port(1), port(5)]
    );
    assert_eq!(drops[&port(5)], [("drop.output-inactive".to_owned(), 1)]);
}

#[test]
fn the_vl_changes_by_the_sl_to_vl_table_and_the_packet_stays_whole() {
    let mut bed = Bed::star(Plan::default(), 2);
    let mut table = SlToVlTable::default();
    table.0[5] = Vl::constant(3);
    table.0[6] = Vl::MANAGEMENT;
    let modifier = SlToVlTable::switch_modifier(port(1), port(2));
    bed.set(&[1], modifier, &table);
    assert!(bed.offer(0, &datagram(1, 2, 5, 1, 290, 9)));
    assert!(bed.offer(0, &datagram(1, 2, 6, 1, 290, 9)));
    bed.run();
    let (_, bytes) = &bed.hosts[1].received[0];
    assert_eq!(bytes[0] >> 4, 3);
    assert_eq!(bed.hosts[1].data(), [(1, 9)], "both check sums hold");
    assert_eq!(bed.drops(0, 1, DropReason::SlToVl), 1, "VL 15 means drop");
    let input = bed.switches[0].port(port(1)).unwrap();
    assert_eq!(input.counts().spec.rcv_switch_relay_errors, 1);
}

#[test]
fn a_full_output_holds_back_its_inputs_and_loses_nothing() {
    let mut bed = Bed::star(Plan::default(), 4);
    bed.hosts[3].takes = false;
    let mut offered = 0;
    for mark in 0..60 {
        for host in 1..=3u16 {
            let packet = datagram(host, 4, 0, 0, 290, mark);
            if bed.offer(usize::from(host) - 1, &packet) {
                offered += 1;
            }
            bed.run();
        }
    }
    assert!(bed.switches[0].packets_inside() > 0);
    bed.hosts[3].takes = true;
    bed.run();
    assert_eq!(bed.hosts[3].data().len(), offered);
    assert_eq!(bed.switches[0].packets_inside(), 0);
    assert_eq!(drops_by_port(&mut bed), BTreeMap::new());
}

#[test]
fn inputs_share_a_congested_output_fairly() {
    let mut bed = Bed::star(Plan::default(), 4);
    bed.hosts[3].takes = false;
    for mark in 0..12 {
        for host in 1..=3u16 {
            bed.offer(usize::from(host) - 1, &datagram(host, 4, 0, 0, 290, mark));
            bed.run();
        }
    }
    bed.hosts[3].takes = true;
    for _ in 0..20 {
        for host in 1..=3u16 {
            for mark in 0..10 {
                bed.offer(usize::from(host) - 1, &datagram(host, 4, 0, 0, 290, mark));
            }
        }
        bed.run();
    }
    let data = bed.hosts[3].data();
    for host in 1..=3 {
        let share = data.iter().filter(|&&(slid, _)| slid == host).count();
        assert!(
            share.abs_diff(data.len() / 3) <= 1,
            "host {host}: {share} of {}",
            data.len()
        );
    }
    let window = &data[12..48];
    for host in 1..=3 {
        let share = window.iter().filter(|&&(slid, _)| slid == host).count();
        assert!(
            (9..=15).contains(&share),
            "host {host} in a stretch: {share} of 36"
        );
    }
}

#[test]
fn packets_of_one_flow_keep_their_order() {
    let mut bed = Bed::star(Plan::default(), 3);
    for mark in 0..100 {
        bed.offer(0, &datagram(1, 3, 0, 0, 290, mark));
        bed.offer(1, &datagram(2, 3, 0, 0, 100, mark));
        if mark % 7 == 0 {
            bed.run();
        }
    }
    bed.run();
    for source in [1, 2] {
        let marks: Vec<u8> = bed.hosts[2]
            .data()
            .into_iter()
            .filter(|&(slid, _)| slid == source)
            .map(|(_, mark)| mark)
            .collect();
        assert!(marks.is_sorted(), "{marks:?}");
    }
}

#[test]
fn a_congested_vl_does_not_hold_up_another() {
    let mut bed = Bed::star(Plan::default(), 3);
    bed.hosts[2].takes = false;
    for mark in 0..30 {
        bed.offer(0, &datagram(1, 3, 0, 0, 290, mark));
        bed.run();
    }
    bed.offer(0, &datagram(1, 2, 1, 1, 290, 77));
    bed.run();
    assert_eq!(bed.hosts[1].data(), [(1, 77)]);
}

#[test]
fn what_waits_for_a_port_that_goes_down_is_dropped_and_the_rest_flows() {
    let mut bed = Bed::star(Plan::default(), 3);
    bed.hosts[2].takes = false;
    for mark in 0..20 {
        assert!(bed.offer(0, &datagram(1, 3, 0, 0, 290, mark)));
        bed.run();
    }
    assert!(bed.offer(0, &datagram(1, 2, 0, 0, 290, 88)));
    bed.run();
    assert_eq!(bed.hosts[1].data(), [], "behind the head that waits");
    bed.plug(Plug::Switch(0, 3), false);
    bed.run();
    assert_eq!(bed.hosts[1].data(), [(1, 88)]);
    assert_eq!(bed.switches[0].packets_inside(), 0);
    assert!(bed.drops(0, 3, DropReason::LinkDown) > 0);
    assert!(bed.drops(0, 3, DropReason::OutputInactive) > 0);
}

#[test]
fn packets_older_than_the_switch_lifetime_are_dropped() {
    let mut bed = Bed::star(Plan::default(), 3);
    let mut info: SwitchInfo = bed.get(&[1], 0);
    info.life_time_value = 10;
    info.port_state_change = false;
    bed.set(&[1], 0, &info);
    bed.hosts[2].takes = false;
    for mark in 0..40 {
        bed.offer(0, &datagram(1, 3, 0, 0, 290, mark));
        bed.run();
    }
    bed.pass(2 * (4096 << 10));
    assert_eq!(bed.switches[0].packets_inside(), 0);
    assert!(bed.drops(0, 3, DropReason::Lifetime) > 0);
}

#[test]
fn the_control_side_sees_every_port_and_can_pull_its_cable() {
    let mut bed = Bed::star(Plan::default(), 2);
    let request = |request| Request::Device(request);
    let reply = bed.control(0, request(DeviceRequest::Ports));
    let Reply::Device(DeviceReply::Ports(ports)) = reply else {
        panic!("not ports");
    };
    let numbers: Vec<u8> = ports.iter().map(|status| status.port.get()).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!((ports[0].lid, ports[1].state, ports[3].state), (100, 4, 1));
    let pull = DeviceRequest::Cable {
        port: port(2),
        plugged: false,
    };
    let reply = bed.control(0, request(pull));
    assert_eq!(reply, Reply::Device(DeviceReply::Done));
    bed.run();
    assert_eq!(
        bed.hosts[1].port.state(),
        PortState::Down,
        "it was notified"
    );
    let wrong = DeviceRequest::Cable {
        port: PortNum::new(9),
        plugged: false,
    };
    let reply = bed.control(0, request(wrong));
    assert!(matches!(reply, Reply::Device(DeviceReply::Refused(_))));
    bed.control(0, request(DeviceRequest::Shutdown));
    bed.run();
    assert_eq!(bed.hosts[0].port.state(), PortState::Down);
}
