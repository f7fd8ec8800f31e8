//! Management packets over the switch's own links.

use link::{Device as _, DropReason, FrameBuf, Input, PortState};
use wire::attr::{
    LinearForwardingTable, NodeDescription, NodeInfo, Notice, PortInfo, PortPhysState,
    PortState as WantedState, SwitchInfo, VlArbEntry, VlArbTable,
};
use wire::mad::MgmtClass;
use wire::pma::PortCounters;
use wire::{AttributeId, DataPacket, Guid, Lid, Mad, MadHeader, Method, PortNum, Sl, UdPacket, Vl};

use crate::bed::{Bed, Plan, Plug, datagram, lid, port, record};

fn line_of_two() -> Bed {
    let cables = [
        (Plug::Host(0), Plug::Switch(0, 1)),
        (Plug::Switch(0, 8), Plug::Switch(1, 7)),
    ];
    Bed::new(Plan::default(), 2, 1, &cables)
}

#[test]
fn directed_routes_reach_switches_that_have_no_tables() {
    let mut bed = line_of_two();
    let near: NodeInfo = bed.get(&[1], 0);
    let far: NodeInfo = bed.get(&[1, 8], 0);
    assert_eq!(
        (near.node_guid, near.local_port_num),
        (Guid(0x1000), port(1))
    );
    assert_eq!((far.node_guid, far.local_port_num), (Guid(0x1001), port(7)));
    assert_eq!(far.num_ports, 8);
    let name: NodeDescription = bed.get(&[1, 8], 0);
    assert_eq!(name, NodeDescription::new("s1"));
}

#[test]
fn a_route_over_a_port_that_is_not_there_or_down_gets_no_answer() {
    let mut bed = line_of_two();
    for path in [&[1, 3][..], &[1, 200], &[1, 8, 6]] {
        let request = bed.directed(Method::GET, path, 0);
        assert!(request.ask::<NodeInfo>(None).is_none(), "{path:?}");
    }
    assert_eq!(bed.drops(0, 3, DropReason::OutputInactive), 1);
    assert_eq!(bed.drops(0, 1, DropReason::BadMad), 1);
}

#[test]
fn port_info_shows_states_and_obeys() {
    let mut bed = line_of_two();
    let info: PortInfo = bed.get(&[1], 8);
    assert_eq!(info.port_state, WantedState::Init);
    assert_eq!(info.port_phys_state, PortPhysState::LinkUp);
    bed.activate(&[1], 8);
    assert_eq!(bed.state(0, 8), PortState::Active);
    assert_eq!(bed.get::<PortInfo>(&[1], 8).port_state, WantedState::Active);
    let mut info = bed.port_info(&[1], 8);
    info.port_phys_state = PortPhysState::Disabled;
    bed.set(&[1], 8, &info);
    assert_eq!(bed.state(0, 8), PortState::Down);
    assert_eq!(bed.state(1, 7), PortState::Down, "the peer was notified");
    info.port_phys_state = PortPhysState::Polling;
    bed.set(&[1], 8, &info);
    assert_eq!(bed.state(0, 8), PortState::Init);
    let unplugged: PortInfo = bed.get(&[1], 5);
    assert_eq!(unplugged.port_state, WantedState::Down);
}

#[test]
fn the_response_to_a_command_that_takes_its_own_way_down_leaves_first() {
    for (state, physical) in [
        (WantedState::Down, PortPhysState::NoChange),
        (WantedState::NoChange, PortPhysState::Polling),
        (WantedState::NoChange, PortPhysState::Disabled),
    ] {
        let mut bed = line_of_two();
        let mut info = bed.port_info(&[1, 8], 7);
        info.port_state = state;
        info.port_phys_state = physical;
        bed.set(&[1, 8], 7, &info);
        bed.run();
        let after = match physical {
            PortPhysState::Disabled => PortState::Down,
            _ => PortState::Init,
        };
        assert_eq!(bed.state(1, 7), after, "{state:?} {physical:?}");
        assert_eq!(bed.state(0, 8), after, "{state:?} {physical:?}");
    }
}

#[test]
fn a_link_retrains_to_the_width_and_speed_that_port_info_enables() {
    let mut bed = line_of_two();
    let before = bed.port_info(&[1, 8], 7);
    assert_eq!((before.link_width_active, before.link_speed_active), (2, 1));
    let wanted = PortInfo {
        link_width_enabled: 1,
        port_phys_state: PortPhysState::Polling,
        ..before
    };
    bed.set(&[1, 8], 7, &wanted);
    for (path, number) in [(&[1, 8][..], 7), (&[1], 8)] {
        let after = bed.port_info(path, number);
        assert_eq!(after.link_width_active, 1, "port {number}");
    }
    assert_eq!(bed.port_info(&[1], 8).link_width_enabled, 3);
}

#[test]
fn an_illegal_step_of_a_port_s_state_is_refused() {
    let mut bed = line_of_two();
    let mut info = bed.port_info(&[1], 8);
    info.port_state = WantedState::Active;
    let answer = bed.directed(Method::SET, &[1], 8).ask(Some(&info)).unwrap();
    assert_eq!(answer.status().0 & 0x7fff, 0x1c);
    assert_eq!(bed.state(0, 8), PortState::Init);
}

#[test]
fn tables_read_back_as_they_were_written() {
    let mut bed = line_of_two();
    let mut linear = LinearForwardingTable::default();
    linear.0[63] = port(8);
    bed.set(&[1], 767, &linear);
    assert_eq!(bed.get::<LinearForwardingTable>(&[1], 767), linear);
    let mut arbitration = VlArbTable::default();
    arbitration.0[31] = VlArbEntry {
        vl: Vl::constant(2),
        weight: 200,
    };
    let modifier = VlArbTable::modifier(VlArbTable::HIGH_SECOND, port(8));
    bed.set(&[1], modifier, &arbitration);
    assert_eq!(bed.get::<VlArbTable>(&[1], modifier), arbitration);
    let beyond = bed
        .directed(Method::GET, &[1], 768)
        .ask::<LinearForwardingTable>(None);
    assert_ne!(beyond.unwrap().status().0 & 0x7fff, 0);
}

#[test]
fn lid_routed_smps_are_answered_and_forwarded() {
    let mut bed = line_of_two();
    bed.set_lid(&[1], 10);
    bed.set_lid(&[1, 8], 11);
    bed.set_routes(&[1], &[(1, 1), (10, 0), (11, 8)]);
    bed.set_routes(&[1, 8], &[(1, 7), (10, 7), (11, 0)]);
    for (dlid, guid) in [(10, 0x1000), (11, 0x1001)] {
        let mad = Mad::lid_smp(Method::GET, AttributeId::NODE_INFO, 0, 0);
        let answer = bed.ask(mad, lid(1), lid(dlid)).expect("an answer");
        let info: NodeInfo = answer.smp_attribute().unwrap();
        assert_eq!(info.node_guid, Guid(guid));
    }
    let nowhere = Mad::lid_smp(Method::GET, AttributeId::NODE_INFO, 0, 0);
    assert!(bed.ask(nowhere, lid(1), lid(12)).is_none());
    assert_eq!(bed.drops(0, 1, DropReason::NoRoute), 1);
}

fn traps(bed: &Bed) -> Vec<Notice> {
    let mads = bed.hosts[0].received.iter().filter_map(|(_, bytes)| {
        let packet = DataPacket::parse(bytes).unwrap();
        UdPacket::parse(&packet).unwrap().mad().ok()
    });
    mads.filter(|mad| mad.method() == Method::TRAP)
        .map(|mad| mad.smp_attribute().unwrap())
        .collect()
}

#[test]
fn a_trap_without_a_route_counts_at_port_0() {
    let mut bed = line_of_two();
    bed.set_lid(&[1], 10);
    // Nothing leads to the subnet manager's LID.
    bed.set_routes(&[1], &[(10, 0)]);
    bed.hosts[0].received.clear();
    bed.plug(Plug::Switch(0, 8), false);
    bed.run();
    assert_eq!(traps(&bed), []);
    let dropped = (0..=8).map(|number| bed.drops(0, number, DropReason::NoRoute));
    let dropped: Vec<u64> = dropped.collect();
    assert_eq!(dropped, [1, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bed.switches[0].packets_inside(), 0);
}

#[test]
fn a_port_that_goes_down_or_comes_up_raises_trap_128_until_it_is_repressed() {
    let mut bed = line_of_two();
    bed.plug(Plug::Switch(0, 8), false);
    bed.run();
    assert_eq!(traps(&bed), [], "no subnet manager is known yet");
    bed.plug(Plug::Switch(0, 8), true);
    bed.set_lid(&[1], 10);
    bed.set_routes(&[1], &[(1, 1), (10, 0)]);
    bed.hosts[0].received.clear();
    bed.plug(Plug::Switch(0, 8), false);
    bed.run();
    let heard = traps(&bed);
    assert_eq!(heard.len(), 1);
    assert_eq!((heard[0].trap_number, heard[0].issuer_lid), (128, lid(10)));
    assert!(bed.get::<SwitchInfo>(&[1], 0).port_state_change);
    bed.pass(30_000_000_000);
    let repeated = traps(&bed).len();
    assert!((2..=16).contains(&repeated), "{repeated} traps in 30 s");
    let tid = bed.hosts[0]
        .received
        .iter()
        .find_map(|(_, bytes)| {
            let packet = DataPacket::parse(bytes).unwrap();
            let mad = UdPacket::parse(&packet).unwrap().mad().ok()?;
            (mad.method() == Method::TRAP).then(|| mad.tid())
        })
        .unwrap();
    let mut repress = Mad::lid_smp(Method::TRAP_REPRESS, AttributeId::NOTICE, 0, tid);
    repress.set_tid(tid);
    let mut raw = [0; 290];
    UdPacket::smp(lid(1), lid(10), &repress)
        .emit(&mut raw)
        .unwrap();
    bed.offer(0, &raw);
    bed.run();
    bed.hosts[0].received.clear();
    bed.pass(30_000_000_000);
    assert_eq!(traps(&bed), []);
}

#[test]
fn the_port_state_change_bit_is_cleared_by_writing_it() {
    let mut bed = line_of_two();
    let mut info: SwitchInfo = bed.get(&[1], 0);
    assert!(info.port_state_change, "links have come up");
    info.port_state_change = true;
    bed.set(&[1], 0, &info);
    assert!(!bed.get::<SwitchInfo>(&[1], 0).port_state_change);
}

#[test]
fn counters_are_read_and_cleared_over_qp1() {
    let mut bed = Bed::star(Plan::default(), 2);
    bed.send_data(1, 2, 1);
    let get = MadHeader::request(
        MgmtClass::PERF,
        Method::GET,
        AttributeId::PORT_COUNTERS,
        0,
        99,
    );
    let mut mad = Mad::new(&get);
    let waiting_vls = PortCounters {
        port_select: port(2),
        ..PortCounters::default()
    };
    mad.set_pma_attribute(&waiting_vls);
    let mut raw = [0; 290];
    let request = UdPacket::gmp(lid(1), lid(100), Sl::constant(0), Vl::constant(0), &mad);
    request.emit(&mut raw).unwrap();
    bed.hosts[0].received.clear();
    assert!(bed.offer(0, &raw));
    bed.run();
    let (_, bytes) = bed.hosts[0].received.last().expect("an answer");
    let packet = DataPacket::parse(bytes).unwrap();
    packet.check_icrc().unwrap();
    let answer = UdPacket::parse(&packet).unwrap();
    assert_eq!((answer.slid, answer.dlid), (lid(100), lid(1)));
    let mad = answer.mad().unwrap();
    assert_eq!(mad.tid(), 99);
    let counters: PortCounters = mad.pma_attribute().unwrap();
    assert_eq!(counters.xmit_pkts, 1);
    assert_eq!(counters.xmit_data, 72);
}

#[test]
fn an_answer_without_a_route_is_counted_where_the_request_came_in() {
    let mut bed = Bed::star(Plan::default(), 2);
    let get = MadHeader::request(
        MgmtClass::PERF,
        Method::GET,
        AttributeId::PORT_COUNTERS,
        0,
        99,
    );
    let mut mad = Mad::new(&get);
    mad.set_pma_attribute(&PortCounters {
        port_select: port(2),
        ..PortCounters::default()
    });
    // From a LID that no table names.
    let request = UdPacket::gmp(lid(77), lid(100), Sl::constant(0), Vl::constant(0), &mad);
    let mut raw = [0; 290];
    request.emit(&mut raw).unwrap();
    let before = bed.drops(0, 1, DropReason::NoRoute);
    assert!(bed.offer(0, &raw));
    bed.run();
    assert_eq!(bed.drops(0, 1, DropReason::NoRoute), before + 1);
    assert_eq!(bed.switches[0].packets_inside(), 0);
}

#[test]
fn a_datagram_for_port_0_behind_a_waiting_packet_is_answered_when_that_one_has_left() {
    let mut bed = Bed::star(Plan::default(), 3);
    let now = bed.now;
    let mut mad = Mad::new(&MadHeader::request(
        MgmtClass::PERF,
        Method::GET,
        AttributeId::PORT_COUNTERS,
        0,
        99,
    ));
    mad.set_pma_attribute(&PortCounters {
        port_select: port(2),
        ..PortCounters::default()
    });
    let mut raw = [0; 290];
    UdPacket::gmp(lid(1), lid(100), Sl::truncate(0), Vl::truncate(0), &mad)
        .emit(&mut raw)
        .unwrap();
    // More than the output VL of port 2 holds, then the datagram: all on one input VL.
    let data = record(&datagram(1, 2, 0, 0, 290, 1));
    let frame = [data.repeat(5), record(&raw)].concat();
    let switch = &mut bed.switches[0];
    let input = Input::Frame {
        port: port(1),
        head: now,
        tail: now,
        bytes: &frame,
    };
    switch.handle(now, input);
    assert_eq!(switch.packets_inside(), 6, "the datagram waits");
    let mut memory = vec![0; 60_000];
    let mut sent = 0;
    for _ in 0..8 {
        for number in switch.ready(now).iter() {
            let mut frame = FrameBuf::new(&mut memory, 1000);
            switch.transmit(now, number, &mut frame);
            sent += usize::from(number == port(1));
        }
    }
    assert_eq!(switch.packets_inside(), 0, "nothing waits for a frame");
    assert!(sent > 0, "the answer has left by port 1");
}

#[test]
fn data_for_port_0_that_is_no_management_is_dropped() {
    let mut bed = Bed::star(Plan::default(), 2);
    bed.send_data(1, 100, 1);
    assert_eq!(bed.drops(0, 1, DropReason::NoQueuePair), 1);
    assert_eq!(bed.switches[0].packets_inside(), 0);
}

#[test]
fn a_damaged_smp_is_dropped_before_anyone_acts_on_it() {
    let mut bed = line_of_two();
    let mad = Mad::directed_smp(
        Method::GET,
        AttributeId::NODE_INFO,
        0,
        5,
        &[PortNum::new(1)],
    );
    let mut raw = [0; 290];
    let smp = mad.unwrap();
    UdPacket::smp(Lid::PERMISSIVE, Lid::PERMISSIVE, &smp)
        .emit(&mut raw)
        .unwrap();
    // The VCRC is right, the ICRC is not.
    raw[200] ^= 1;
    let vcrc = wire::crc::vcrc(&raw[..288]);
    raw[288..].copy_from_slice(&vcrc.to_be_bytes());
    assert!(bed.offer(0, &raw));
    bed.run();
    assert_eq!(bed.drops(0, 1, DropReason::BadIcrc), 1);
}
