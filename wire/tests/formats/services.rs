//! Performance management and subnet administration: attributes, headers and records.

use wire::attr::{
    LinearForwardingTable, MulticastForwardingTable, NodeDescription, SmInfo, SmState,
};
use wire::sa::{
    InformInfo, LftRecord, MftRecord, NodeRecord, PortInfoRecord, Rmpp, RmppKind, SaHeader,
    SmInfoRecord, rmpp_flag,
};
use wire::{Gid, Guid, Lid, PortNum, Qpn};

use crate::attributes::{NODE_INFO, PORT_INFO};
use crate::check::{bad, golden, refused};
use crate::fixtures;
use crate::fixtures::{node_info, port_info};

#[test]
fn class_port_info() {
    let value = fixtures::class_port_info();
    golden(
        &value,
        "01 02 0304 05060712 11111111222222223333333344444444 21222324 3132 4142 00 515253
         61626364 55555555666666667777777788888888 71727374 8182 9192 a1 b1b2b3 c1c2c3c4",
    );
}

#[test]
fn port_counters() {
    let value = fixtures::port_counters();
    let text: String = (0..44u8).map(|byte| format!("{byte:02x}")).collect();
    golden(&value, &text);
}

#[test]
fn port_counters_extended() {
    let value = fixtures::port_counters_extended();
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
    let value = fixtures::path_record();
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
    let value = fixtures::mc_member_record();
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

    let record = fixtures::link_record();
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
        qpn: Qpn::constant(0x090a0b),
        resp_time: 0x12,
        producer_type: 0x0c0d0e,
    };
    let text = format!(
        "{} 0102 0304 0000 01 01 0506 0708 090a0b 12 00 0c0d0e",
        "fe".repeat(16)
    );
    golden(&subscription, &text);
}
