use wire::Vl;
use wire::attr::{
    GuidInfo, LinearForwardingTable, MulticastForwardingTable, NodeDescription, NodeInfo, NodeType,
    PKeyTable, PortInfo, PortPhysState, PortState, SlToVlTable, SwitchInfo, VlArbEntry, VlArbTable,
};
use wire::mad::{AttributeId, Mad, MadStatus, Method};
use wire::{Guid, Lid, PortNum};

use super::super::*;
use super::fake::{Bench, Fake, port};

const GET: Method = Method::GET;
const SET: Method = Method::SET;

#[test]
fn a_node_says_what_it_is_and_by_which_port_it_was_asked() {
    let mut bench = Bench::new(Fake::switch());
    bench.arrival = port(17);
    let info: NodeInfo = bench.get(0);
    assert_eq!((info.node_type, info.num_ports), (NodeType::Switch, 20));
    assert_eq!(
        (info.local_port_num, info.port_guid),
        (port(17), Guid(0x0a00))
    );
    let name: NodeDescription = bench.get(0);
    assert_eq!(name.as_str(), "n1");

    let mut bench = Bench::new(Fake::adapter());
    let info: NodeInfo = bench.get(0);
    assert_eq!(
        (info.node_type, info.port_guid),
        (NodeType::ChannelAdapter, Guid(0x0a01))
    );
}

#[test]
fn what_a_node_does_not_have_is_refused_by_the_status_of_the_specification() {
    let unsupported = MadStatus::BAD_METHOD_ATTRIBUTE;
    let mut adapter = Bench::new(Fake::adapter());
    for id in [
        AttributeId::SWITCH_INFO,
        AttributeId::LINEAR_FORWARDING_TABLE,
        AttributeId::MULTICAST_FORWARDING_TABLE,
        AttributeId::RANDOM_FORWARDING_TABLE,
        AttributeId::SM_INFO,
        AttributeId::NOTICE,
        AttributeId::VENDOR_DIAG,
        AttributeId::LED_INFO,
        AttributeId(0xff00),
    ] {
        assert_eq!(adapter.status(GET, id, 0), unsupported, "{id}");
        assert_eq!(adapter.status(SET, id, 0), unsupported, "{id}");
    }
    assert_eq!(adapter.status(SET, AttributeId::NODE_INFO, 0), unsupported);
    assert_eq!(
        adapter.status(SET, AttributeId::NODE_DESCRIPTION, 0),
        unsupported
    );
    assert_eq!(
        adapter.status(Method::GET_TABLE, AttributeId::NODE_INFO, 0),
        MadStatus::BAD_METHOD
    );
    for version_at in [0, 2] {
        let mut mad = Mad::lid_smp(GET, AttributeId::NODE_INFO, 0, 1);
        mad.as_bytes_mut()[version_at] = 9;
        assert_eq!(adapter.ask(mad).unwrap().status(), MadStatus::BAD_VERSION);
    }
}

#[test]
fn modifiers_that_name_nothing_are_refused() {
    let mut switch = Bench::new(Fake::switch());
    let mut adapter = Bench::new(Fake::adapter());
    let bad = MadStatus::BAD_FIELD;
    for method in [GET, SET] {
        for (id, modifier) in [
            (AttributeId::PORT_INFO, 21),
            (AttributeId::PORT_INFO, 0x0001_0001),
            (AttributeId::LINEAR_FORWARDING_TABLE, 2),
            (AttributeId::LINEAR_FORWARDING_TABLE, 0x0001_0000),
            (AttributeId::MULTICAST_FORWARDING_TABLE, 2),
            (AttributeId::MULTICAST_FORWARDING_TABLE, 0x2000_0000),
            (AttributeId::PKEY_TABLE, 1),
            (AttributeId::PKEY_TABLE, 0x0015_0000),
            (AttributeId::GUID_INFO, 1),
            (AttributeId::SL_TO_VL_TABLE, 0x0000_0100),
            (AttributeId::SL_TO_VL_TABLE, 0x0000_0115),
            (AttributeId::SL_TO_VL_TABLE, 0x0000_1501),
            (AttributeId::SL_TO_VL_TABLE, 0x0004_0101),
            (AttributeId::VL_ARB_TABLE, 0x0001_0000),
            (AttributeId::VL_ARB_TABLE, 0x0001_0015),
            (AttributeId::VL_ARB_TABLE, 0x0000_0001),
            (AttributeId::VL_ARB_TABLE, 0x0005_0001),
        ] {
            assert_eq!(
                switch.status(method, id, modifier),
                bad,
                "{method} {id} {modifier:#x}"
            );
        }
        for (id, modifier) in [
            (AttributeId::PORT_INFO, 2),
            (AttributeId::PKEY_TABLE, 1),
            (AttributeId::VL_ARB_TABLE, 0x0001_0002),
        ] {
            assert_eq!(
                adapter.status(method, id, modifier),
                bad,
                "{method} {id} {modifier:#x}"
            );
        }
    }
    assert_eq!(
        switch.status(GET, AttributeId::SL_TO_VL_TABLE, 0x0003_0000),
        bad
    );
}

#[test]
fn forwarding_tables_are_written_block_by_block() {
    let mut bench = Bench::new(Fake::switch());
    let mut linear = LinearForwardingTable::default();
    linear.0[3] = port(9);
    assert_eq!(bench.set(1, &linear), Ok(linear));
    assert_eq!(bench.get::<LinearForwardingTable>(1), linear);
    assert_eq!(
        bench.get::<LinearForwardingTable>(0),
        LinearForwardingTable::default()
    );
    let mut multicast = MulticastForwardingTable::default();
    multicast.0[31] = 0x8001;
    let modifier = MulticastForwardingTable::modifier(1, 1);
    assert_eq!(bench.set(modifier, &multicast), Ok(multicast));
    let tables = bench.node.tables.as_ref().unwrap();
    assert_eq!(tables.multicast[&(1, 1)], multicast.0);
}

#[test]
fn switch_info_takes_limits_and_clears_the_change_bit_when_told() {
    let mut bench = Bench::new(Fake::switch());
    bench.sma.link_changed(Time(0));
    let mut info: SwitchInfo = bench.get(0);
    assert_eq!((info.linear_fdb_cap, info.multicast_fdb_cap), (128, 64));
    assert!(info.port_state_change && !info.enhanced_port0);
    info.linear_fdb_top = 127;
    info.life_time_value = 18;
    info.multicast_fdb_top = Lid::new(0xc010);
    info.port_state_change = false;
    assert!(
        bench.set(0, &info).unwrap().port_state_change,
        "a zero leaves the bit"
    );
    info.port_state_change = true;
    assert!(!bench.set(0, &info).unwrap().port_state_change);
    let tables = bench.node.tables.as_ref().unwrap();
    assert_eq!((tables.top, tables.life_time), (Lid::new(127), 18));
    assert_eq!(tables.multicast_top, Some(Lid::new(0xc010)));
    for change in [
        |info: &mut SwitchInfo| info.linear_fdb_top = 128,
        |info: &mut SwitchInfo| info.multicast_fdb_top = Lid::new(0xc040),
        |info: &mut SwitchInfo| info.multicast_fdb_top = Lid::new(7),
    ] {
        let mut wrong = info;
        change(&mut wrong);
        assert_eq!(bench.set(0, &wrong), Err(MadStatus::BAD_FIELD));
    }
}

#[test]
fn sl_to_vl_rows_are_set_for_one_pair_of_ports_or_for_many() {
    let mut bench = Bench::new(Fake::switch());
    let row = |vl: u8| SlToVlTable([Vl::constant(vl); 16]);
    assert_eq!(bench.set(0x0000_0203, &row(1)), Ok(row(1)));
    assert_eq!(bench.node.vls.len(), 1);
    assert_eq!(bench.get::<SlToVlTable>(0x0000_0203), row(1));
    bench.set(0x0002_0003, &row(2)).unwrap();
    assert_eq!(
        bench.node.vls.len(),
        21,
        "all inputs, with port 0, of output 3"
    );
    bench.set(0x0001_0200, &row(3)).unwrap();
    assert_eq!(bench.get::<SlToVlTable>(0x0000_0203), row(3));
    bench.set(0x0003_0000, &row(4)).unwrap();
    assert_eq!(bench.node.vls.len(), 21 * 20);
    assert!(bench.node.vls.values().all(|vls| *vls == row(4).0));

    let mut bench = Bench::new(Fake::adapter());
    assert_eq!(bench.set(0, &row(5)), Ok(row(5)));
    assert_eq!(bench.node.vls[&(port(0), port(1))], row(5).0);
}

#[test]
fn one_set_for_all_pairs_of_ports_is_one_write_for_each_output() {
    let mut bench = Bench::new(Fake::switch_of(254));
    let row = SlToVlTable([Vl::truncate(4); 16]);
    bench.set(0x0003_0000, &row).unwrap();
    assert_eq!(bench.node.vls.len(), 255 * 254);
    assert_eq!(bench.node.vl_writes, 254);
    bench.node.vl_writes = 0;
    bench.set(0x0002_0009, &row).unwrap();
    assert_eq!(bench.node.vl_writes, 1);
}

#[test]
fn halves_of_arbitration_tables_leave_the_other_half_alone() {
    let mut bench = Bench::new(Fake::switch());
    let half = |weight: u8| {
        VlArbTable(
            [VlArbEntry {
                vl: Vl::constant(1),
                weight,
            }; 32],
        )
    };
    let modifier = |block: u8| VlArbTable::modifier(block, port(7));
    for block in 1..=4 {
        assert_eq!(bench.set(modifier(block), &half(block)), Ok(half(block)));
    }
    for block in 1..=4 {
        assert_eq!(bench.get::<VlArbTable>(modifier(block)), half(block));
    }
    let high = bench.node.arbitration[&(port(7), Priority::High)];
    assert_eq!((high[31].weight, high[32].weight), (3, 4));
    let mut adapter = Bench::new(Fake::adapter());
    let own = VlArbTable::modifier(1, PortNum::MANAGEMENT);
    adapter.set(own, &half(9)).unwrap();
    assert!(
        adapter
            .node
            .arbitration
            .contains_key(&(port(1), Priority::Low))
    );
}

#[test]
fn partition_and_guid_tables_start_with_their_defaults_and_keep_what_is_set() {
    let mut bench = Bench::new(Fake::adapter());
    let mut keys: PKeyTable = bench.get(0);
    assert_eq!((keys.0[0], keys.0[1]), (0xffff, 0));
    keys.0[1] = 0x8001;
    bench.set(0, &keys).unwrap();
    assert_eq!(bench.sma.pkeys(port(1))[..2], [0xffff, 0x8001]);
    let mut guids: GuidInfo = bench.get(0);
    assert_eq!(guids.0[0], Guid(0x0a01));
    guids.0 = [Guid(5); 8];
    let after = bench.set(0, &guids).unwrap();
    assert_eq!(
        (after.0[0], after.0[1]),
        (Guid(0x0a01), Guid(5)),
        "its own GUID stays"
    );
}

#[test]
fn a_wrong_key_is_not_answered_and_counted_a_right_one_is() {
    let mut bench = Bench::new(Fake::adapter());
    let mut info: PortInfo = bench.get(0);
    info.port_state = PortState::NoChange;
    info.port_phys_state = PortPhysState::NoChange;
    info.m_key = 77;
    info.m_key_protect_bits = 0;
    bench.set(0, &info).unwrap();
    let set = Mad::lid_smp(SET, AttributeId::PORT_INFO, 0, 1);
    let get = Mad::lid_smp(GET, AttributeId::PORT_INFO, 0, 1);
    assert!(bench.ask(set).is_none());
    assert_eq!(
        bench.get::<PortInfo>(0).m_key,
        77,
        "protection 0 shows the key"
    );
    bench.m_key = 77;
    info.m_key_protect_bits = 1;
    bench.set(0, &info).unwrap();
    bench.m_key = 1;
    assert_eq!(bench.get::<PortInfo>(0).m_key, 0, "protection 1 hides it");
    bench.m_key = 77;
    info.m_key_protect_bits = 2;
    info.m_key_violations = 0;
    bench.set(0, &info).unwrap();
    bench.m_key = 1;
    assert!(bench.ask(get).is_none(), "protection 2 answers nothing");
    bench.m_key = 77;
    assert_eq!(bench.get::<PortInfo>(0).m_key_violations, 1);
}

#[test]
fn what_is_no_request_has_no_answer() {
    let mut bench = Bench::new(Fake::adapter());
    for method in [
        Method::GET_RESP,
        Method::TRAP,
        Method::SEND,
        Method::REPORT,
        Method(0xff),
    ] {
        assert!(
            bench
                .ask(Mad::lid_smp(method, AttributeId::NODE_INFO, 0, 1))
                .is_none()
        );
    }
    assert!(
        bench
            .ask(Mad::lid_smp(
                Method::TRAP_REPRESS,
                AttributeId::NOTICE,
                0,
                1
            ))
            .is_none()
    );
}

#[test]
fn the_answer_of_a_directed_route_turns_round() {
    let mut bench = Bench::new(Fake::adapter());
    let mad = Mad::directed_smp(GET, AttributeId::NODE_INFO, 0, 1, &[]).unwrap();
    assert!(bench.ask(mad).unwrap().is_returning());
    let mad = Mad::directed_smp(GET, AttributeId::SM_INFO, 0, 1, &[]).unwrap();
    let refused = bench.ask(mad).unwrap();
    assert!(refused.is_returning());
    assert_eq!(
        refused.status().without_direction(),
        MadStatus::BAD_METHOD_ATTRIBUTE
    );
}
