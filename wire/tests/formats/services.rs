//! Performance management and subnet administration: attributes, headers and records.

use wire::attr::{
    LinearForwardingTable, MulticastForwardingTable, NodeDescription, SmInfo, SmState,
};
use wire::pma::{ClassPortInfo, PortCounters, PortCountersExtended};
use wire::sa::{
    InformInfo, LftRecord, LinkRecord, McMemberRecord, MftRecord, NodeRecord, PathRecord,
    PortInfoRecord, Rmpp, RmppKind, SaHeader, Selector, SmInfoRecord, rmpp_flag,
};
use wire::{Gid, Guid, Lid, PortNum, Qpn, Sl};

use crate::attributes::{NODE_INFO, PORT_INFO, node_info, port_info};
use crate::check::{bad, gid, golden, refused};

#[test]
fn class_port_info() {
    let value = ClassPortInfo {
        base_version: 1,
        class_version: 2,
        capability_mask: 0x0304,
        capability_mask2: 0x0506_0708 >> 5,
        resp_time_value: 0x12,
        redirect_gid: gid("11111111 22222222 33333333 44444444"),
        redirect_tc_sl_fl: 0x2122_2324,
        redirect_lid: Lid::new(0x3132),
        redirect_pkey: 0x4142,
        redirect_qp: Qpn::truncate(0x515253),
        redirect_qkey: 0x6162_6364,
        trap_gid: gid("55555555 66666666 77777777 88888888"),
        trap_tc_sl_fl: 0x7172_7374,
        trap_lid: Lid::new(0x8182),
        trap_pkey: 0x9192,
        trap_hop_limit: 0xa1,
        trap_qp: Qpn::truncate(0xb1b2b3),
        trap_qkey: 0xc1c2_c3c4,
    };
    golden(
        &value,
        "01 02 0304 05060712 11111111222222223333333344444444 21222324 3132 4142 00 515253
         61626364 55555555666666667777777788888888 71727374 8182 9192 a1 b1b2b3 c1c2c3c4",
    );
}

#[test]
fn port_counters() {
    let value = PortCounters {
        port_select: PortNum::new(0x01),
        counter_select: 0x0203,
        symbol_error: 0x0405,
        link_error_recovery: 0x06,
        link_downed: 0x07,
        rcv_errors: 0x0809,
        rcv_remote_physical_errors: 0x0a0b,
        rcv_switch_relay_errors: 0x0c0d,
        xmit_discards: 0x0e0f,
        xmit_constraint_errors: 0x10,
        rcv_constraint_errors: 0x11,
        counter_select2: 0x12,
        local_link_integrity_errors: 1,
        excessive_buffer_overrun_errors: 3,
        qp1_dropped: 0x1415,
        vl15_dropped: 0x1617,
        xmit_data: 0x1819_1a1b,
        rcv_data: 0x1c1d_1e1f,
        xmit_pkts: 0x2021_2223,
        rcv_pkts: 0x2425_2627,
        xmit_wait: 0x2829_2a2b,
    };
    let text: String = (0..44u8).map(|byte| format!("{byte:02x}")).collect();
    golden(&value, &text);
}

#[test]
fn port_counters_extended() {
    let value = PortCountersExtended {
        port_select: PortNum::new(0x01),
        counter_select: 0x0203,
        xmit_data: 0x0808_0808_0808_0808,
        rcv_data: 0x1010_1010_1010_1010,
        xmit_pkts: 0x1818_1818_1818_1818,
        rcv_pkts: 0x2020_2020_2020_2020,
        unicast_xmit_pkts: 0x2828_2828_2828_2828,
        unicast_rcv_pkts: 0x3030_3030_3030_3030,
        multicast_xmit_pkts: 0x3838_3838_3838_3838,
        multicast_rcv_pkts: 0x4040_4040_4040_4040,
    };
    let counters: String = (1..9u8)
        .map(|index| format!("{:02x}", index * 8).repeat(8))
        .collect();
    golden(&value, &format!("00 01 0203 00000000 {counters}"));
}

const RMPP: &str = "01 02 fb 05 06070809 0a0b0c0d";

fn rmpp() -> Rmpp {
    Rmpp {
        version: Rmpp::VERSION,
        kind: RmppKind::Ack,
        resp_time: Rmpp::RESP_TIME_NONE,
        flags: rmpp_flag::ACTIVE | rmpp_flag::FIRST,
        status: 5,
        data1: 0x0607_0809,
        data2: 0x0a0b_0c0d,
    }
}

#[test]
fn rmpp_and_sa_header() {
    golden(&rmpp(), RMPP);
    assert_eq!(refused::<Rmpp>(RMPP, 1, 5), bad("RMPPType", 5));
    let value = SaHeader {
        rmpp: rmpp(),
        sm_key: 0x1112_1314_1516_1718,
        attribute_offset: 0x2122,
        component_mask: 0x3132_3334_3536_3738,
    };
    let text = format!("{RMPP} 1112131415161718 2122 0000 3132333435363738");
    golden(&value, &text);
    assert_eq!(refused::<SaHeader>(&text, 1, 0xff), bad("RMPPType", 0xff));
}

#[test]
fn path_record() {
    let value = PathRecord {
        service_id: 0x0102_0304_0506_0708,
        dgid: gid("11111111 22222222 33333333 44444444"),
        sgid: gid("55555555 66666666 77777777 88888888"),
        dlid: Lid::new(0x1112),
        slid: Lid::new(0x2122),
        raw_traffic: true,
        flow_label: 0xabcde,
        hop_limit: 0x31,
        tclass: 0x41,
        reversible: true,
        numb_path: 0x12,
        pkey: 0x5152,
        qos_class: 0x616,
        sl: Sl::truncate(2),
        mtu_selector: Selector::Exactly,
        mtu: 4,
        rate_selector: Selector::LessThan,
        rate: 3,
        packet_life_time_selector: Selector::Largest,
        packet_life_time: 0x12,
        preference: 0x71,
    };
    golden(
        &value,
        "0102030405060708 11111111222222223333333344444444 55555555666666667777777788888888
         1112 2122 80abcde 31 41 92 5152 6162 84 43 d2 71 000000000000"
            .replace("80abcde", "8abcde")
            .as_str(),
    );
}

#[test]
fn mc_member_record() {
    let value = McMemberRecord {
        mgid: gid("ff12401b ffff0000 00000000 ffffffff"),
        port_gid: gid("55555555 66666666 77777777 88888888"),
        qkey: 0x0000_0b1b,
        mlid: Lid::new(0xc001),
        mtu_selector: Selector::Exactly,
        mtu: 5,
        tclass: 0x11,
        pkey: 0x2122,
        rate_selector: Selector::GreaterThan,
        rate: 7,
        packet_life_time_selector: Selector::Exactly,
        packet_life_time: 0x13,
        sl: Sl::truncate(6),
        flow_label: 0xabcde,
        hop_limit: 0x31,
        scope: 2,
        join_state: McMemberRecord::JOIN_FULL,
        proxy_join: true,
    };
    golden(
        &value,
        "ff12401bffff000000000000ffffffff 55555555666666667777777788888888 00000b1b c001 85 11
         2122 07 93 6 abcde 31 21 80 0000",
    );
}

#[test]
fn records_around_attributes() {
    let record = NodeRecord {
        lid: Lid::new(0xa1a2),
        node_info: node_info(),
        description: NodeDescription::new("s0.0"),
    };
    let text = format!("a1a2 0000 {NODE_INFO} 73302e30 {}", "00".repeat(60));
    golden(&record, &text);
    assert_eq!(
        refused::<NodeRecord>(&text, 6, 0),
        bad("NodeInfo:NodeType", 0)
    );

    let record = PortInfoRecord {
        lid: Lid::new(0xa1a2),
        port: PortNum::new(0xb1),
        options: 0xc1,
        port_info: port_info(),
    };
    let text = format!("a1a2 b1 c1 {}", PORT_INFO.replace("64 5a b7", "64 5a 87"));
    golden(&record, &text);
    assert_eq!(
        refused::<PortInfoRecord>(&text, 36, 0x65),
        bad("PortInfo:PortState", 5)
    );

    let record = LinkRecord {
        from_lid: Lid::new(0x0102),
        from_port: PortNum::new(3),
        to_port: PortNum::new(4),
        to_lid: Lid::new(0x0506),
    };
    golden(&record, "0102 03 04 0506");
}

#[test]
fn records_of_tables_managers_and_subscriptions_match_their_bytes() {
    let mut lft = LinearForwardingTable::default();
    lft.0[0] = PortNum::new(0x11);
    lft.0[63] = PortNum::new(0x22);
    let record = LftRecord {
        lid: Lid::new(0x0102),
        block: 0x0304,
        table: lft,
    };
    let text = format!("0102 0304 00000000 11{}22", "ff".repeat(62));
    golden(&record, &text);

    let mut mft = MulticastForwardingTable::default();
    mft.0[0] = 0x1112;
    mft.0[31] = 0x2122;
    let record = MftRecord {
        lid: Lid::new(0x0102),
        position: 0xa,
        block: 0x1fe,
        table: mft,
    };
    let text = format!("0102 a1fe 00000000 1112{}2122", "0000".repeat(30));
    golden(&record, &text);

    let record = SmInfoRecord {
        lid: Lid::new(0x0102),
        sm_info: SmInfo {
            guid: Guid(0x0102_0304_0506_0708),
            sm_key: 0x1112_1314_1516_1718,
            act_count: 0x2122_2324,
            priority: 0xe,
            state: SmState::Master,
        },
    };
    let text = "0102 0000 0102030405060708 1112131415161718 21222324 e3";
    golden(&record, text);

    let subscription = InformInfo {
        gid: Gid([0xfe; 16]),
        lid_first: Lid::new(0x0102),
        lid_last: Lid::new(0x0304),
        is_generic: true,
        subscribe: true,
        notice_type: 0x0506,
        trap_number: 0x0708,
        qpn: Qpn::truncate(0x090a0b),
        resp_time: 0x12,
        producer_type: 0x0c0d0e,
    };
    let text = format!(
        "{} 0102 0304 0000 01 01 0506 0708 090a0b 12 00 0c0d0e",
        "fe".repeat(16)
    );
    golden(&subscription, &text);
}
