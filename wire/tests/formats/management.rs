//! Management datagrams, their attributes and records.

use wire::attr::{
    GuidInfo, LinearForwardingTable, MulticastForwardingTable, NodeDescription, NodeInfo, NodeType,
    Notice, PKeyTable, PortInfo, PortPhysState, PortState, SlToVlTable, SmInfo, SmState,
    SwitchInfo, Trap144, TrapGid, TrapLid, VlArbEntry, VlArbTable, VlCount, trap,
};
use wire::pma::{ClassPortInfo, PortCounters, PortCountersExtended};
use wire::sa::{
    LinkRecord, McMemberRecord, NodeRecord, PathRecord, PortInfoRecord, Rmpp, RmppKind, SaHeader,
    Selector, rmpp_flag,
};
use wire::{
    AttributeId, EmitError, Format, Gid, Guid, Lid, Lmc, Mad, MadHeader, MadStatus, Method,
    MgmtClass, Mtu, ParseError, PortNum, Qpn, Sl, Vl,
};

use crate::check::{golden, hex, refused};

fn gid(text: &str) -> Gid {
    Gid(hex(text).try_into().unwrap())
}

fn bad(what: &'static str, value: u64) -> ParseError {
    ParseError::BadValue { what, value }
}

#[test]
fn mad_header() {
    let value = MadHeader {
        base_version: 1,
        class: MgmtClass::SUBN_DIR,
        class_version: 2,
        method: Method::GET_RESP,
        status: MadStatus(0x801c),
        class_specific: 0x0304,
        tid: 0x0506_0708_090a_0b0c,
        attr_id: AttributeId::PORT_INFO,
        attr_mod: 0x0d0e_0f10,
    };
    golden(
        &value,
        "01 81 02 81 801c 0304 05060708090a0b0c 0015 0000 0d0e0f10",
    );
    assert!(value.method.is_response());
    assert!(value.class.is_subnet_management());
    assert_eq!(value.status.without_direction(), MadStatus::BAD_FIELD);
}

#[test]
fn a_mad_gives_back_the_header_it_was_made_of() {
    let header = MadHeader::request(
        MgmtClass::SUBN_ADM,
        Method::GET_TABLE,
        AttributeId::PATH_RECORD,
        7,
        0x1_0000_0002,
    );
    let mut mad = Mad::new(&header);
    assert_eq!((mad.header(), header.class_version), (header, 2));
    mad.set_method(Method::GET_TABLE_RESP);
    mad.set_status(MadStatus::SA_NO_RECORDS);
    mad.set_tid(9);
    mad.set_attr_mod(8);
    let changed = MadHeader {
        method: Method::GET_TABLE_RESP,
        status: MadStatus::SA_NO_RECORDS,
        tid: 9,
        attr_mod: 8,
        ..header
    };
    assert_eq!(mad.header(), changed);
    let (copy, rest) = Mad::parse(mad.as_bytes()).unwrap();
    assert_eq!((copy, rest), (mad, &[][..]));
    for have in 0..Mad::LEN {
        let error = Mad::parse(&mad.as_bytes()[..have]).unwrap_err();
        assert_eq!(
            error,
            ParseError::Truncated {
                what: "MAD",
                need: 256,
                have
            }
        );
    }
}

#[test]
fn a_directed_smp_is_laid_out_as_the_specification_says() {
    let path = [1, 7, 3].map(PortNum::truncate);
    let (get, node_info) = (Method::GET, AttributeId::NODE_INFO);
    let mut mad = Mad::directed_smp(get, node_info, 0, 0x0102, &path).unwrap();
    let bytes = mad.as_bytes();
    assert_eq!(
        bytes[..24],
        hex("01810101 0000 00 03 0000000000000102 0011 0000 00000000")
    );
    assert_eq!(bytes[24..36], hex("0000000000000000 ffff ffff"));
    assert_eq!(bytes[128..132], [0, 1, 7, 3]);
    assert!(
        bytes[36..128]
            .iter()
            .chain(&bytes[132..])
            .all(|&byte| byte == 0)
    );

    mad.set_m_key(0x1112_1314_1516_1718);
    mad.set_hop_pointer(2);
    mad.set_dr_slid(Lid::truncate(0x191a));
    mad.set_dr_dlid(Lid::truncate(0x1b1c));
    mad.set_returning(true);
    mad.set_status(MadStatus(mad.status().0 | MadStatus::BAD_FIELD.0));
    mad.return_path_mut()[1] = 4;
    assert_eq!(mad.as_bytes()[4..8], hex("801c 02 03"));
    assert_eq!(mad.as_bytes()[24..36], hex("1112131415161718 191a 1b1c"));
    assert_eq!(mad.as_bytes()[192..194], [0, 4]);
    assert!(mad.is_returning());
    mad.set_returning(false);
    assert_eq!(
        (mad.is_returning(), mad.status()),
        (false, MadStatus::BAD_FIELD)
    );
    assert_eq!((mad.hop_pointer(), mad.hop_count()), (2, 3));
    assert_eq!(mad.m_key(), 0x1112_1314_1516_1718);
    assert_eq!(
        (mad.dr_slid(), mad.dr_dlid()),
        (Lid::truncate(0x191a), Lid::truncate(0x1b1c))
    );
    assert_eq!((mad.initial_path()[2], mad.return_path()[1]), (7, 4));
}

#[test]
fn a_directed_route_has_at_most_63_hops() {
    let path = [PortNum::truncate(1); 300];
    let smp = |hops: usize| {
        Mad::directed_smp(Method::GET, AttributeId::NODE_INFO, 0, 0, &path[..hops])
            .map(|mad| mad.hop_count())
    };
    assert_eq!(smp(63), Ok(63));
    for len in [64, 255, 256, 300] {
        assert_eq!(
            smp(len),
            Err(EmitError::TooLong {
                what: "directed route",
                len,
                max: 63
            })
        );
    }
}

#[test]
fn an_attribute_in_a_datagram_is_read_back_and_leaves_no_old_bytes() {
    let mut smp = Mad::lid_smp(Method::SET, AttributeId::SM_INFO, 0, 0);
    smp.smp_data_mut().fill(0xee);
    let info = SmInfo {
        guid: Guid(1),
        sm_key: 2,
        act_count: 3,
        priority: 4,
        state: SmState::Master,
    };
    smp.set_smp_attribute(&info);
    assert_eq!(smp.smp_attribute::<SmInfo>().unwrap(), info);
    assert!(smp.smp_data()[SmInfo::LEN..].iter().all(|&byte| byte == 0));
    assert_eq!(smp.as_bytes()[64 + 20], 0x43);

    let mut pma = Mad::pma(Method::GET, AttributeId::PORT_COUNTERS, 0, 0);
    let counters = PortCounters {
        xmit_wait: 5,
        ..PortCounters::default()
    };
    pma.set_pma_attribute(&counters);
    assert_eq!(pma.pma_attribute::<PortCounters>().unwrap(), counters);
    assert_eq!(pma.as_bytes()[64 + 43], 5);

    let mut sa = Mad::sa(Method::GET, AttributeId::LINK_RECORD, 0, 0);
    let header = SaHeader {
        component_mask: 6,
        ..SaHeader::default()
    };
    let link = LinkRecord {
        from_lid: Lid::truncate(1),
        from_port: PortNum::truncate(2),
        to_port: PortNum::truncate(3),
        to_lid: Lid::truncate(4),
    };
    sa.sa_data_mut().fill(0xee);
    sa.set_sa_header(&header);
    sa.set_sa_record(&link);
    assert_eq!(sa.sa_header().unwrap(), header);
    assert_eq!(sa.sa_record::<LinkRecord>().unwrap(), link);
    assert_eq!(
        sa.as_bytes()[48..64],
        hex("0000000000000006 0001020300040000")
    );
    assert!(
        sa.sa_data()[LinkRecord::LEN..]
            .iter()
            .all(|&byte| byte == 0)
    );
}

const NODE_INFO: &str = "01 02 03 24 0102030405060708 1112131415161718 2122232425262728
    3132 4142 51525354 61 717273";

fn node_info() -> NodeInfo {
    NodeInfo {
        base_version: 1,
        class_version: 2,
        node_type: NodeType::Router,
        num_ports: 0x24,
        system_image_guid: Guid(0x0102_0304_0506_0708),
        node_guid: Guid(0x1112_1314_1516_1718),
        port_guid: Guid(0x2122_2324_2526_2728),
        partition_cap: 0x3132,
        device_id: 0x4142,
        revision: 0x5152_5354,
        local_port_num: PortNum::truncate(0x61),
        vendor_id: 0x71_7273,
    }
}

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
    let value = SwitchInfo {
        linear_fdb_cap: 0xc000,
        random_fdb_cap: 0x0102,
        multicast_fdb_cap: 0x0304,
        linear_fdb_top: 0x0506,
        default_port: PortNum::truncate(7),
        default_multicast_primary_port: PortNum::truncate(8),
        default_multicast_not_primary_port: PortNum::truncate(9),
        life_time_value: 0x12,
        port_state_change: true,
        optimized_sl_to_vl: 1,
        lids_per_port: 0x0a0b,
        partition_enforcement_cap: 0x0c0d,
        inbound_enforcement_cap: true,
        outbound_enforcement_cap: false,
        filter_raw_inbound_cap: true,
        filter_raw_outbound_cap: false,
        enhanced_port0: true,
        multicast_fdb_top: Lid::truncate(0xc0ff),
    };
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
    assert_eq!(
        PKeyTable::switch_modifier(PortNum::truncate(5), 2),
        0x0005_0002
    );
}

#[test]
fn sl_to_vl_table() {
    let value =
        SlToVlTable([15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0].map(Vl::truncate));
    golden(&value, "fedcba98 76543210");
    assert_eq!(value.vl(Sl::truncate(3)), Vl::truncate(12));
    let modifier = SlToVlTable::switch_modifier(PortNum::truncate(3), PortNum::truncate(9));
    assert_eq!(modifier, 0x0000_0309);
}

#[test]
fn vl_arbitration_table() {
    let mut value = VlArbTable::default();
    value.0[0] = VlArbEntry {
        vl: Vl::truncate(14),
        weight: 255,
    };
    value.0[31] = VlArbEntry {
        vl: Vl::truncate(1),
        weight: 2,
    };
    golden(&value, &format!("0eff {} 0102", "00".repeat(60)));
    let modifier = VlArbTable::modifier(VlArbTable::HIGH_SECOND, PortNum::truncate(36));
    assert_eq!(modifier, 0x0004_0024);
}

#[test]
fn forwarding_tables() {
    let mut linear = LinearForwardingTable::default();
    linear.0[1] = PortNum::truncate(3);
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
    let value = SmInfo {
        guid: Guid(0x0102_0304_0506_0708),
        sm_key: 0x1112_1314_1516_1718,
        act_count: 0x2122_2324,
        priority: 14,
        state: SmState::Standby,
    };
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
        &Notice::link_state_change(Lid::truncate(0x0102)),
        &format!("81 000002 0080 0102 0000 0102 {}", zeros(52)),
    );
    let change = Trap144 {
        lid: Lid::truncate(0x0304),
        other_local_changes: true,
        capability_mask: 0x0506_0708,
        change_flags: Trap144::NODE_DESCRIPTION_CHANGE,
    };
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
            lid: Lid::truncate(0x0102),
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
        issuer_lid: Lid::truncate(9),
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

const PORT_INFO: &str = "0102030405060708 1112131415161718 2122 3132 41424344 5152 6162
    71 72 73 02  64 5a b7 41 59 3c 81 82 83 d5 f2 49
    9192 a1a2 b1b2 c1 d3 15 e6 f1f2 00 010203 1112 21 1f";

fn port_info() -> PortInfo {
    PortInfo {
        m_key: 0x0102_0304_0506_0708,
        gid_prefix: 0x1112_1314_1516_1718,
        lid: Lid::truncate(0x2122),
        master_sm_lid: Lid::truncate(0x3132),
        capability_mask: 0x4142_4344,
        diag_code: 0x5152,
        m_key_lease_period: 0x6162,
        local_port_num: PortNum::truncate(0x71),
        link_width_enabled: 0x72,
        link_width_supported: 0x73,
        link_width_active: 2,
        link_speed_supported: 6,
        port_state: PortState::Active,
        port_phys_state: PortPhysState::LinkUp,
        link_down_default_state: 0xa,
        m_key_protect_bits: 2,
        lmc: Lmc::truncate(7),
        link_speed_active: 4,
        link_speed_enabled: 1,
        neighbor_mtu: Some(Mtu::Mtu4096),
        master_sm_sl: Sl::truncate(9),
        vl_cap: Some(VlCount::Four),
        init_type: 0xc,
        vl_high_limit: 0x81,
        vl_arbitration_high_cap: 0x82,
        vl_arbitration_low_cap: 0x83,
        init_type_reply: 0xd,
        mtu_cap: Some(Mtu::Mtu4096),
        vl_stall_count: 7,
        hoq_life: 0x12,
        operational_vls: Some(VlCount::Eight),
        partition_enforcement_inbound: true,
        partition_enforcement_outbound: false,
        filter_raw_inbound: false,
        filter_raw_outbound: true,
        m_key_violations: 0x9192,
        p_key_violations: 0xa1a2,
        q_key_violations: 0xb1b2,
        guid_cap: 0xc1,
        client_reregister: true,
        mcast_pkey_trap_suppression: 2,
        subnet_timeout: 0x13,
        resp_time_value: 0x15,
        local_phy_errors: 0xe,
        overrun_errors: 6,
        max_credit_hint: 0xf1f2,
        link_round_trip_latency: 0x01_0203,
        capability_mask2: 0x1112,
        link_speed_ext_active: 2,
        link_speed_ext_supported: 1,
        link_speed_ext_enabled: 0x1f,
    }
}

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
        Some(wire::LinkSpeed::Edr),
        "the extended speed counts"
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
fn lane_counts_know_their_codes_and_lanes() {
    for (code, lanes) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 15)] {
        let count = VlCount::from_code(code).unwrap();
        assert_eq!((count.code(), count.lanes()), (code, lanes));
        assert_eq!(VlCount::at_most(lanes), Some(count));
    }
    assert_eq!(VlCount::from_code(0), None);
    assert_eq!(VlCount::from_code(6), None);
    assert_eq!(VlCount::at_most(0), None);
    assert_eq!(VlCount::at_most(14), Some(VlCount::Eight));
    assert_eq!(VlCount::at_most(16), Some(VlCount::Fifteen));
}

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
        redirect_lid: Lid::truncate(0x3132),
        redirect_pkey: 0x4142,
        redirect_qp: Qpn::truncate(0x515253),
        redirect_qkey: 0x6162_6364,
        trap_gid: gid("55555555 66666666 77777777 88888888"),
        trap_tc_sl_fl: 0x7172_7374,
        trap_lid: Lid::truncate(0x8182),
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
        port_select: PortNum::truncate(0x01),
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
        port_select: PortNum::truncate(0x01),
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
        dlid: Lid::truncate(0x1112),
        slid: Lid::truncate(0x2122),
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
        mlid: Lid::truncate(0xc001),
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
        lid: Lid::truncate(0xa1a2),
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
        lid: Lid::truncate(0xa1a2),
        port: PortNum::truncate(0xb1),
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
        from_lid: Lid::truncate(0x0102),
        from_port: PortNum::truncate(3),
        to_port: PortNum::truncate(4),
        to_lid: Lid::truncate(0x0506),
    };
    golden(&record, "0102 03 04 0506");
}
