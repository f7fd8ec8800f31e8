//! Multicast: copies, the ingress port, members that wait.

use link::DropReason;
use wire::attr::SwitchInfo;

use crate::bed::{Bed, Plan, datagram, lid, port};

const GROUP: u16 = 0xc005;

fn star() -> Bed {
    let mut bed = Bed::star(Plan::default(), 4);
    bed.set_group(&[1], GROUP, &[1, 2, 3]);
    bed
}

#[test]
fn every_member_but_the_sender_s_port_gets_one_copy() {
    let mut bed = star();
    bed.send_data(1, GROUP, 3);
    bed.send_data(4, GROUP, 4);
    assert_eq!(bed.hosts[0].data(), [(4, 4)]);
    assert_eq!(bed.hosts[1].data(), [(1, 3), (4, 4)]);
    assert_eq!(bed.hosts[2].data(), [(1, 3), (4, 4)]);
    assert_eq!(bed.hosts[3].data(), []);
    assert_eq!(bed.switches[0].packets_inside(), 0);
    let counts = bed.switches[0].port(port(2)).unwrap().counts();
    assert_eq!(counts.spec.multicast_xmit_pkts, 2);
}

#[test]
fn a_member_that_takes_nothing_holds_up_only_its_own_copies() {
    let mut bed = star();
    bed.hosts[2].takes = false;
    let mut offered = Vec::new();
    for mark in 0..40 {
        if bed.offer(0, &datagram(1, GROUP, 0, 0, 290, mark)) {
            offered.push((1, mark));
        }
        bed.run();
    }
    let reached = bed.hosts[1].data().len();
    assert!(reached < offered.len(), "the head of the VL waits");
    assert!(bed.switches[0].packets_inside() > 0);
    bed.hosts[2].takes = true;
    bed.run();
    assert_eq!(bed.hosts[1].data(), offered, "each once, in order");
    assert_eq!(bed.hosts[2].data(), offered);
    assert_eq!(bed.switches[0].packets_inside(), 0);
}

#[test]
fn a_copy_for_a_port_that_is_down_is_dropped_and_counted() {
    let mut bed = star();
    bed.set_group(&[1], GROUP, &[2, 7]);
    bed.send_data(1, GROUP, 1);
    assert_eq!(bed.hosts[1].data(), [(1, 1)]);
    assert_eq!(bed.drops(0, 7, DropReason::OutputInactive), 1);
    assert_eq!(bed.switches[0].packets_inside(), 0);
}

#[test]
fn a_group_that_nobody_set_up_goes_to_the_default_port() {
    let mut bed = star();
    bed.send_data(1, 0xc123, 1);
    assert!((1..4).all(|host| bed.hosts[host].data().is_empty()));
    let mut info: SwitchInfo = bed.get(&[1], 0);
    info.default_multicast_primary_port = port(4);
    info.default_multicast_not_primary_port = port(2);
    info.multicast_fdb_top = lid(0xc3ff);
    info.port_state_change = false;
    bed.set(&[1], 0, &info);
    bed.send_data(1, 0xc123, 2);
    bed.send_data(4, 0xc123, 3);
    assert_eq!(bed.hosts[3].data(), [(1, 2)]);
    assert_eq!(bed.hosts[1].data(), [(4, 3)]);
}

#[test]
fn a_group_without_row_and_default_port_is_lost_as_an_unknown_lid_is() {
    let mut bed = star();
    bed.send_data(1, 0xc123, 1);
    assert_eq!(bed.drops(0, 1, DropReason::NoRoute), 1, "no block");
    bed.send_data(2, GROUP + 1, 2);
    assert_eq!(bed.drops(0, 2, DropReason::NoRoute), 1, "an empty row");
    let counts = bed.switches[0].port(port(1)).unwrap().counts();
    assert_eq!(counts.spec.rcv_switch_relay_errors, 1);
    assert_eq!(bed.switches[0].copies(), (0, 0), "dropped, not absorbed");
    assert_eq!(bed.switches[0].packets_inside(), 0);
    bed.send_data(1, GROUP, 3);
    assert_eq!(bed.hosts[1].data(), [(1, 3)], "the VL goes on");
}

#[test]
fn a_group_of_ports_that_the_switch_lacks_is_lost_with_a_reason() {
    let mut bed = star();
    bed.set_group(&[1], GROUP, &[0, 9]);
    bed.send_data(1, GROUP, 1);
    assert_eq!(bed.drops(0, 1, DropReason::NoRoute), 1);
    assert_eq!(bed.switches[0].copies(), (0, 0), "dropped, not absorbed");
    assert_eq!(bed.switches[0].packets_inside(), 0);
}

#[test]
fn a_group_with_no_other_member_is_no_drop() {
    let mut bed = star();
    bed.set_group(&[1], GROUP, &[1]);
    bed.send_data(1, GROUP, 1);
    let drops = &bed.switches[0].port(port(1)).unwrap().counts().drops;
    assert_eq!(drops.total(), 0);
    assert_eq!(bed.switches[0].packets_inside(), 0);
}
