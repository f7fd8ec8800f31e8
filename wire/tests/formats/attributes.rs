//! Attributes of subnet management.

use wire::attr::{
    GuidInfo, LinearForwardingTable, MulticastForwardingTable, NodeDescription, NodeInfo, Notice,
    PKeyTable, PortInfo, SlToVlTable, SmInfo, Trap256, Trap259, TrapGid, TrapLid, VlArbEntry,
    VlArbTable, VlCount, trap,
};
use wire::{AttributeId, Format, Guid, Lid, MKey, MKeyError, Mad, Method, PortNum, Sl, Vl};

use crate::check::{bad, gid, golden, hex, refused};
use crate::fixtures::{self, node_info, port_info};

pub(crate) const NODE_INFO: &str = "01 02 03 24 0102030405060708 1112131415161718 2122232425262728
    3132 4142 51525354 61 717273";

#[test]
fn node_info_and_its_node_types() {
    golden(&node_info(), NODE_INFO);
    for node_type in [0, 4, 0x12, 0xff] {
        let error = refused::<NodeInfo>(NODE_INFO, 2, node_type);
        assert_eq!(error, bad("NodeInfo:NodeType", u64::from(node_type)));
    }
}

#[test]
fn node_description() {
    let zeros = "00".repeat(60);
    golden(&NodeDescription::new("h0.1"), &format!("68302e31 {zeros}"));
    let long = NodeDescription::new(&"ä".repeat(40));
    assert_eq!(long.as_str(), "ä".repeat(32));
    assert_eq!(NodeDescription([0xff; 64]).as_str(), "");
    assert_eq!(NodeDescription([b'x'; 64]).to_string(), "x".repeat(64));
}

#[test]
fn switch_info() {
    let value = fixtures::switch_info();
    golden(
        &value,
        "c000 0102 0304 0506 07 08 09 95 0a0b 0c0d a8 00 c0ff",
    );
}

#[test]
fn guid_info() {
    let value = GuidInfo(std::array::from_fn(|index| {
        Guid(0x0101 * (index as u64 + 1))
    }));
    let text: String = (1..=8)
        .map(|index| format!("000000000000{index:02x}{index:02x}"))
        .collect();
    golden(&value, &text);
}

#[test]
fn pkey_table() {
    let mut value = PKeyTable::default();
    value.0[0] = PKeyTable::DEFAULT_FULL;
    value.0[31] = 0x1234;
    golden(&value, &format!("ffff {} 1234", "00".repeat(60)));
    assert_eq!(PKeyTable::switch_modifier(PortNum::new(5), 2), 0x0005_0002);
}

#[test]
fn sl_to_vl_table() {
    let value =
        SlToVlTable([15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0].map(Vl::truncate));
    golden(&value, "fedcba98 76543210");
    assert_eq!(value.vl(Sl::constant(3)), Vl::constant(12));
    let modifier = SlToVlTable::switch_modifier(PortNum::new(3), PortNum::new(9));
    assert_eq!(modifier, 0x0000_0309);
}

#[test]
fn vl_arbitration_table() {
    let mut value = VlArbTable::default();
    value.0[0] = VlArbEntry {
        vl: Vl::constant(14),
        weight: 255,
    };
    value.0[31] = VlArbEntry {
        vl: Vl::constant(1),
        weight: 2,
    };
    golden(&value, &format!("0eff {} 0102", "00".repeat(60)));
    let modifier = VlArbTable::modifier(VlArbTable::HIGH_SECOND, PortNum::new(36));
    assert_eq!(modifier, 0x0004_0024);
}

#[test]
fn forwarding_tables() {
    let mut linear = LinearForwardingTable::default();
    linear.0[1] = PortNum::new(3);
    golden(&linear, &format!("ff03 {}", "ff".repeat(62)));

    let mut multicast = MulticastForwardingTable::default();
    multicast.0[2] = 0x8001;
    golden(&multicast, &format!("0000 0000 8001 {}", "00".repeat(58)));
    let modifier = MulticastForwardingTable::modifier(15, 0x1ff);
    assert_eq!(modifier, 0xf000_01ff);
    assert_eq!(
        MulticastForwardingTable::from_modifier(modifier),
        (15, 0x1ff)
    );
}

const SM_INFO: &str = "0102030405060708 1112131415161718 21222324 e2";

#[test]
fn sm_info() {
    let value = fixtures::sm_info();
    golden(&value, SM_INFO);
    assert_eq!(
        refused::<SmInfo>(SM_INFO, 20, 0xe4),
        bad("SMInfo:SMState", 4)
    );
}

#[test]
fn notices() {
    let zeros = |count| "00".repeat(count);
    golden(
        &Notice::link_state_change(Lid::new(0x0102)),
        &format!("81 000002 0080 0102 0000 0102 {}", zeros(52)),
    );
    let change = fixtures::local_change();
    golden(
        &Notice::local_change(Notice::PRODUCER_CHANNEL_ADAPTER, change),
        &format!(
            "84 000001 0090 0304 0000 0000 0304 00 01 05060708 0001 {}",
            zeros(42)
        ),
    );
    golden(&change, "0000 0304 00 01 05060708 0001");
    golden(
        &TrapLid {
            lid: Lid::new(0x0102),
        },
        "0102",
    );
    let in_service = TrapGid {
        gid: gid("fe80000000000000 0102030405060708"),
    };
    golden(
        &in_service,
        "000000000000 fe80000000000000 0102030405060708",
    );

    let mut details = [0; 54];
    in_service.emit(&mut details);
    let vendor = Notice {
        is_generic: false,
        notice_type: Notice::TYPE_EMPTY,
        producer_type: 0x0002_c903,
        trap_number: trap::GID_IN_SERVICE,
        issuer_lid: Lid::new(9),
        toggle: true,
        count: 0x7ffe,
        details,
    };
    let tail = zeros(32);
    golden(
        &vendor,
        &format!("7f 02c903 0040 0009 fffe 000000000000 fe80000000000000 0102030405060708 {tail}"),
    );
}

#[test]
fn the_details_of_a_wrong_m_key() {
    let zeros = |count| "00".repeat(count);
    let directed = fixtures::bad_m_key();
    let details = format!(
        "0000 0304 ffff 02 00 0015 05060708 1112131415161718 00 83 090806 {}",
        zeros(27)
    );
    golden(&directed, &details);
    golden(
        &Notice::bad_m_key(Notice::PRODUCER_SWITCH, Lid::new(0x0102), &directed),
        &format!("82 000002 0100 0102 0000 {details}"),
    );
    let routed = Trap256 {
        route: None,
        ..directed
    };
    golden(
        &routed,
        &format!(
            "0000 0304 0000 02 00 0015 05060708 1112131415161718 00 00 {}",
            zeros(30)
        ),
    );
    let shown = format!("{directed:?}");
    assert!(!shown.contains("1229"), "{shown} must not show the key");
}

#[test]
fn the_details_of_a_wrong_p_key_or_q_key() {
    let gids = format!("{} {}", "11".repeat(16), "22".repeat(16));
    golden(
        &fixtures::bad_packet_key(),
        &format!("0000 0102 0304 05060708 90 0a0b0c 00 0d0e0f {gids}"),
    );
    let packet = fixtures::bad_packet_key();
    let valid = Trap259::LID1 | Trap259::LID2 | Trap259::PKEY | Trap259::SL | Trap259::QP2;
    let at_switch = Trap259 {
        valid,
        slid: packet.slid,
        dlid: packet.dlid,
        p_key: 0x0506,
        sl: packet.sl,
        src_qp: packet.src_qp,
        dest_qp: packet.dest_qp,
        sgid: packet.sgid,
        dgid: packet.dgid,
        switch: Lid::new(0x3132),
        port: PortNum::new(0x33),
    };
    golden(
        &at_switch,
        &format!("002f 0102 0304 0506 90 0a0b0c 00 0d0e0f {gids} 3132 33"),
    );
}

#[test]
fn the_way_of_a_request_is_told_as_far_as_a_notice_holds_it() {
    let path: Vec<PortNum> = (1..=40).map(PortNum::new).collect();
    let mut smp = Mad::directed_smp(Method::GET, AttributeId::NODE_INFO, 0, 1, &path).unwrap();
    for (entry, port) in smp.return_path_mut()[1..].iter_mut().zip(101..) {
        *entry = port;
    }
    let route = Trap256::of(Lid::PERMISSIVE, &smp).route.unwrap();
    assert!(route.is_truncated);
    assert_eq!(route.ports(), (101..=130).collect::<Vec<u8>>());
    let routed = Mad::lid_smp(Method::GET, AttributeId::NODE_INFO, 0, 1);
    assert_eq!(Trap256::of(Lid::new(3), &routed).route, None);
}

#[test]
fn a_file_of_one_m_key_is_read_and_its_faults_are_told_without_showing_it() {
    let read = |text: &str| MKey::read(text).map(MKey::get);
    assert_eq!(read("0x1234\n"), Ok(0x1234));
    assert_eq!(read("# ours\n\n 0xffffffffffffffff # all\n"), Ok(u64::MAX));
    let key = MKey::new(0xab).unwrap();
    assert_eq!(MKey::read(&key.write()), Ok(key));
    assert_eq!(MKey::new(0), None);
    assert_eq!(read("# none\n"), Err(MKeyError::Empty));
    assert_eq!(read("0x1\n0x2\n"), Err(MKeyError::Second(2)));
    for text in [
        "0x0",
        "1234",
        "0x",
        "0x+12",
        "0x12345678901234567",
        "0x12 34",
    ] {
        let error = read(&format!("#\n{text}\n")).unwrap_err();
        assert_eq!(error, MKeyError::NoKey(2), "{text}");
    }
    assert!(!format!("{key:?}").contains("ab"));
    assert!(!MKeyError::NoKey(1).to_string().contains("1234"));
}

pub(crate) const PORT_INFO: &str = "0102030405060708 1112131415161718 2122 3132 41424344 5152 6162
    71 72 73 02  64 5a b7 41 59 3c 81 82 83 d5 f2 49
    9192 a1a2 b1b2 c1 d3 15 e6 f1f2 35 010203 1112 21 1f";

#[test]
fn port_info_field_by_field() {
    // Lmc's three bits stand under five others: 0x87 with the reserved ones zero.
    let text = PORT_INFO.replace("64 5a b7", "64 5a 87");
    golden(&port_info(), &text);
    let (with_reserved, _) = PortInfo::parse(&hex(PORT_INFO)).unwrap();
    assert_eq!(
        with_reserved,
        port_info(),
        "reserved bits are not looked at"
    );
    assert_eq!(port_info().width(), Some(wire::LinkWidth::X4));
    assert_eq!(
        port_info().speed(),
        Some(wire::LinkSpeed::Xdr),
        "the second extended speed counts"
    );
}

#[test]
fn a_port_info_that_changes_nothing_is_all_zero() {
    golden(&PortInfo::default(), &"00".repeat(64));
}

#[test]
fn reserved_codes_in_port_info_are_refused_by_name() {
    let refused = |at, to| refused::<PortInfo>(PORT_INFO, at, to);
    assert_eq!(refused(32, 0x65), bad("PortInfo:PortState", 5));
    assert_eq!(refused(33, 0x8a), bad("PortInfo:PortPhysicalState", 8));
    assert_eq!(refused(36, 0x69), bad("PortInfo:NeighborMTU", 6));
    assert_eq!(refused(37, 0x6c), bad("PortInfo:VLCap", 6));
    assert_eq!(refused(41, 0xd6), bad("PortInfo:MTUCap", 6));
    assert_eq!(refused(43, 0x69), bad("PortInfo:OperationalVLs", 6));
}

#[test]
fn vl_counts_know_their_codes() {
    for (code, vls) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 15)] {
        let count = VlCount::from_code(code).unwrap();
        assert_eq!((count.code(), count.vls()), (code, vls));
        assert_eq!(VlCount::at_most(vls), Some(count));
    }
    assert_eq!(VlCount::from_code(0), None);
    assert_eq!(VlCount::from_code(6), None);
    assert_eq!(VlCount::at_most(0), None);
    assert_eq!(VlCount::at_most(14), Some(VlCount::Eight));
    assert_eq!(VlCount::at_most(16), Some(VlCount::Fifteen));
}
