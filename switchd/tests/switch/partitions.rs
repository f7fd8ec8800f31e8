//! Partitions at the external ports, and of port 0.

use link::DropReason;
use wire::attr::{Notice, PKeyTable, PortInfo, Trap257, Trap259};
use wire::mad::Method;
use wire::pma::PortCounters;
use wire::{
    AttributeId, DataPacket, Format as _, Gid, GlobalRoute, Mad, Psn, Qpn, Sl, UdPacket, Vl,
};

use crate::bed::{Bed, Plan, lid, port};

const GROUP: u16 = 0xc005;

/// A datagram with that P_Key, with or without a GRH.
fn keyed(slid: u16, dlid: u16, pkey: u16, mark: u8, is_global: bool) -> Vec<u8> {
    let global = GlobalRoute {
        tclass: 0,
        flow_label: 0,
        hop_limit: 1,
        sgid: Gid([1; 16]),
        dgid: Gid([0xff; 16]),
    };
    let datagram = UdPacket {
        vl: Vl::constant(0),
        sl: Sl::constant(2),
        dlid: lid(dlid),
        slid: lid(slid),
        global: is_global.then_some(global),
        solicited: false,
        pkey,
        dest_qp: Qpn::constant(9),
        psn: Psn::default(),
        qkey: 1,
        src_qp: Qpn::constant(8),
        immediate: None,
        payload: &[mark; 16],
    };
    let mut raw = vec![0; datagram.len()];
    datagram.emit(&mut raw).unwrap();
    raw
}

/// What hosts have got, by source and mark.
fn got(bed: &mut Bed, host: usize) -> Vec<(u16, u8)> {
    let data = bed.hosts[host].data();
    bed.hosts[host].received.clear();
    data
}

fn send(bed: &mut Bed, from: usize, packet: &[u8]) {
    assert!(bed.offer(from, packet));
    bed.run();
}

/// Sets the keys of a port of the switch and what it enforces.
fn enforce(bed: &mut Bed, number: u8, keys: &[u16], inbound: bool, outbound: bool) {
    let mut table = PKeyTable::default();
    table.0[..keys.len()].copy_from_slice(keys);
    bed.set(&[1], PKeyTable::switch_modifier(port(number), 0), &table);
    let info = PortInfo {
        partition_enforcement_inbound: inbound,
        partition_enforcement_outbound: outbound,
        ..bed.port_info(&[1], number)
    };
    bed.set(&[1], number.into(), &info);
}

/// The notices that host 0, as subnet manager, has got.
fn notices(bed: &mut Bed) -> Vec<Notice> {
    bed.pass(1_000_000);
    let received = core::mem::take(&mut bed.hosts[0].received);
    let mads = received.iter().filter_map(|(_, bytes)| {
        let packet = DataPacket::parse(bytes).unwrap();
        UdPacket::parse(&packet).unwrap().mad().ok()
    });
    let traps = mads.filter(|mad| mad.method() == Method::TRAP);
    traps.map(|mad| mad.smp_attribute().unwrap()).collect()
}

#[test]
fn without_enforcement_every_key_passes() {
    let mut bed = Bed::star(Plan::default(), 3);
    enforce(&mut bed, 2, &[0x8005], false, false);
    enforce(&mut bed, 3, &[0x8006], false, false);
    send(&mut bed, 1, &keyed(2, 3, 0x8001, 7, false));
    assert_eq!(got(&mut bed, 2), [(2, 7)]);
}

#[test]
fn a_port_lets_in_only_what_is_of_one_of_its_partitions() {
    let mut bed = Bed::star(Plan::default(), 3);
    enforce(&mut bed, 2, &[0x8005, 0x7fff], true, false);
    let passes = [
        (0x8005, true),
        (0x0005, true),
        (0xffff, true),
        (0x7fff, true),
        (0x8006, false),
        (0x0006, false),
    ];
    for is_global in [false, true] {
        for (pkey, passes) in passes {
            let before = bed.drops(0, 2, DropReason::RcvPartition);
            send(&mut bed, 1, &keyed(2, 3, pkey, 7, is_global));
            assert_eq!(got(&mut bed, 2).len(), usize::from(passes), "{pkey:#x}");
            let dropped = bed.drops(0, 2, DropReason::RcvPartition) - before;
            assert_eq!(dropped, u64::from(!passes), "{pkey:#x}");
        }
    }
    send(&mut bed, 2, &keyed(3, 2, 0x8006, 7, false));
    assert_eq!(
        got(&mut bed, 1),
        [(3, 7)],
        "what goes out there is not looked at"
    );
    let counts = bed.switches[0].port(port(2)).unwrap().counts();
    assert_eq!(counts.spec.rcv_constraint_errors, 4);
    assert_eq!(bed.port_info(&[1], 2).p_key_violations, 4);
    assert_eq!(bed.switches[0].packets_inside(), 0);
}

#[test]
fn a_port_lets_out_only_what_has_one_of_its_keys_copies_too() {
    let mut bed = Bed::star(Plan::default(), 4);
    bed.set_group(&[1], GROUP, &[1, 2, 3, 4]);
    enforce(&mut bed, 3, &[0x0005], false, true);
    send(&mut bed, 1, &keyed(2, 3, 0x0005, 1, false));
    assert_eq!(
        bed.drops(0, 3, DropReason::XmitPartition),
        1,
        "limited members do not hear each other"
    );
    enforce(&mut bed, 3, &[0x8005], false, true);
    send(&mut bed, 1, &keyed(2, 3, 0x0005, 2, false));
    assert_eq!(got(&mut bed, 2), [(2, 2)]);
    send(&mut bed, 1, &keyed(2, GROUP, 0x8006, 3, true));
    assert_eq!(got(&mut bed, 2), []);
    assert_eq!(got(&mut bed, 3), [(2, 3)]);
    assert_eq!(bed.drops(0, 3, DropReason::XmitPartition), 2);
    send(&mut bed, 1, &keyed(2, GROUP, 0x8005, 4, true));
    assert_eq!(got(&mut bed, 2), [(2, 4)]);
    let counts = bed.switches[0].port(port(3)).unwrap().counts();
    assert_eq!(counts.spec.xmit_constraint_errors, 2);
    assert_eq!(bed.switches[0].packets_inside(), 0);
    let (copies, replicated) = bed.switches[0].copies();
    assert_eq!((copies, replicated), (6, 2), "each copy made or dropped");
}

#[test]
fn a_packet_to_a_group_that_may_leave_nowhere_ends_in_the_switch() {
    let mut bed = Bed::star(Plan::default(), 3);
    bed.set_group(&[1], GROUP, &[2, 3]);
    enforce(&mut bed, 3, &[0x8005], false, true);
    send(&mut bed, 1, &keyed(2, GROUP, 0x8006, 3, true));
    send(&mut bed, 1, &keyed(2, GROUP, 0x8006, 4, true));
    assert_eq!(bed.drops(0, 3, DropReason::XmitPartition), 2);
    assert_eq!(bed.switches[0].packets_inside(), 0);
}

#[test]
fn what_is_stopped_is_told_to_the_subnet_manager() {
    let mut bed = Bed::star(Plan::default(), 3);
    enforce(&mut bed, 2, &[0x8005], true, false);
    notices(&mut bed);
    for mark in 0..5 {
        send(&mut bed, 1, &keyed(2, 3, 0x8006, mark, false));
    }
    let notices = notices(&mut bed);
    assert_eq!(notices[0].trap_number, 259);
    assert_eq!(notices[0].issuer_lid, lid(100));
    let (details, _) = Trap259::parse(&notices[0].details).unwrap();
    assert_eq!(
        (details.slid, details.dlid, details.p_key),
        (lid(2), lid(3), 0x8006)
    );
    assert_eq!((details.switch, details.port), (lid(100), port(2)));
    assert_eq!(
        (details.sl, details.dest_qp),
        (Sl::constant(2), Qpn::constant(9))
    );
    assert_eq!(details.valid, 0x2f);
    assert!(
        notices.len() <= 2,
        "five packets are not reported one by one"
    );
    assert_eq!(bed.port_info(&[1], 2).p_key_violations, 5);
}

/// A request for counters to QP1 of the switch, with these keys.
fn counters(pkey: u16, qkey: u32) -> Vec<u8> {
    let mut mad = Mad::pma(Method::GET, AttributeId::PORT_COUNTERS, 0, 0x77);
    mad.set_pma_attribute(&PortCounters {
        port_select: port(1),
        ..PortCounters::default()
    });
    let datagram = UdPacket {
        pkey,
        qkey,
        ..UdPacket::gmp(lid(2), lid(100), Sl::default(), Vl::default(), &mad)
    };
    let mut raw = vec![0; datagram.len()];
    datagram.emit(&mut raw).unwrap();
    raw
}

#[test]
fn queue_pair_1_of_a_switch_checks_keys_and_answers_in_the_partition_of_the_request() {
    let mut bed = Bed::star(Plan::default(), 2);
    let mut table = PKeyTable::default();
    table.0[..2].copy_from_slice(&[0x7fff, 0x8005]);
    bed.set(&[1], 0, &table);
    notices(&mut bed);
    bed.hosts[1].received.clear();
    for (pkey, answer) in [
        (0xffff, Some(0x7fff)),
        (0x0005, Some(0x8005)),
        (0x7fff, None),
        (0x8006, None),
    ] {
        send(&mut bed, 1, &counters(pkey, wire::Deth::QKEY_GSI));
        let received = core::mem::take(&mut bed.hosts[1].received);
        let keys = received.iter().map(|(_, bytes)| {
            let packet = DataPacket::parse(bytes).unwrap();
            UdPacket::parse(&packet).unwrap().pkey
        });
        assert_eq!(
            keys.collect::<Vec<_>>(),
            Vec::from_iter(answer),
            "{pkey:#x}"
        );
    }
    send(&mut bed, 1, &counters(0xffff, 0x1234));
    let notices = notices(&mut bed);
    let details = |number: u16| {
        let notice = notices
            .iter()
            .find(|notice| notice.trap_number == number)
            .unwrap();
        Trap257::parse(&notice.details).unwrap().0
    };
    assert_eq!(details(257).key, 0x7fff, "the first is reported at once");
    assert_eq!((details(258).key, details(258).slid), (0x1234, lid(2)));
    let info = bed.port_info(&[1], 0);
    assert_eq!((info.p_key_violations, info.q_key_violations), (2, 1));
}
