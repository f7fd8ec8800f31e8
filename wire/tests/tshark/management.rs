//! Performance management and subnet administration.

use wire::attr::{NodeDescription, NodeInfo, NodeType, PortInfo};
use wire::pma::{ClassPortInfo, PortCounters, PortCountersExtended};
use wire::sa::{
    McMemberRecord, NodeRecord, PathRecord, PortInfoRecord, Rmpp, RmppKind, SaHeader, SaRecord,
    Selector, rmpp_flag,
};
use wire::{AttributeId, Format, Gid, Guid, Lid, Mad, Method, PortNum};

use crate::decode::{Case, judge};
use crate::fixtures;

const TID: u64 = 0x0102_0304_0506_0708;

fn gid(low: u64) -> Gid {
    Gid::new(Gid::DEFAULT_PREFIX, Guid(low))
}

fn pma<A: Format>(attr_id: AttributeId, attribute: &A) -> Case {
    let mut mad = Mad::pma(Method::GET_RESP, attr_id, 0, TID);
    mad.set_pma_attribute(attribute);
    Case::gmp(A::NAME, &mad)
        .field("infiniband.mad.mgmtclass", 4u8)
        .field("infiniband.mad.classversion", 1u8)
        .field("infiniband.mad.method", 0x81u8)
        .field("infiniband.mad.transactionid", TID)
        .field("infiniband.mad.attributeid", attr_id.0)
}

/// With values of which tshark shows each.
fn class_port_info() -> ClassPortInfo {
    ClassPortInfo {
        capability_mask: 0x1304,
        redirect_gid: gid(1),
        redirect_tc_sl_fl: 0x21f2_2324,
        trap_gid: gid(2),
        trap_tc_sl_fl: 0x71e2_7374,
        ..fixtures::class_port_info()
    }
}

fn with_class_port_info(case: Case) -> Case {
    case.field("infiniband.classportinfo.baseversion", 1u8)
        .field("infiniband.classportinfo.classversion", 2u8)
        .field("infiniband.classportinfo.capabilitymask", 0x1304u16)
        .field(
            "infiniband.classportinfo.capabilitymask2",
            0x0506_0708u32 >> 5,
        )
        .field("infiniband.classportinfo.resptimevalue", 0x12u8)
        .text("infiniband.classportinfo.redirectgid", "fe80::1")
        .field("infiniband.classportinfo.redirecttc", 0x21u8)
        .field("infiniband.classportinfo.redirectsl", 0xfu8)
        .field("infiniband.classportinfo.redirectfl", 0x2_2324u32)
        .field("infiniband.classportinfo.redirectlid", 0x3132u16)
        .field("infiniband.classportinfo.redirectpkey", 0x4142u16)
        .field("infiniband.classportinfo.redirectqp", 0x51_5253u32)
        .field("infiniband.classportinfo.redirectqkey", 0x6162_6364u32)
        .text("infiniband.classportinfo.trapgid", "fe80::2")
        .field("infiniband.classportinfo.traptc", 0x71u8)
        .field("infiniband.classportinfo.trapsl", 0xeu8)
        .field("infiniband.classportinfo.trapfl", 0x2_7374u32)
        .field("infiniband.classportinfo.traplid", 0x8182u16)
        .field("infiniband.classportinfo.trappkey", 0x9192u16)
        .field("infiniband.classportinfo.trapqp", 0xb1_b2b3u32)
        .field("infiniband.classportinfo.trapqkey", 0xc1c2_c3c4u32)
}

fn with_counters(case: Case, counters: &PortCounters) -> Case {
    case.field("infiniband.portcounters.portselect", 1u8)
        .field(
            "infiniband.portcounters.counterselect",
            counters.counter_select,
        )
        .field(
            "infiniband.portcounters.symbolerrorcounter",
            counters.symbol_error,
        )
        .field("infiniband.portcounters.linkerrorrecoverycounter", 6u8)
        .field(
            "infiniband.portcounters.linkdownedcounter",
            counters.link_downed,
        )
        .field("infiniband.portcounters.portrcverrors", counters.rcv_errors)
        .field(
            "infiniband.portcounters.portrcvremotephysicalerrors",
            0x0a0bu16,
        )
        .field(
            "infiniband.portcounters.portrcvswitchrelayerrors",
            0x0c0du16,
        )
        .field(
            "infiniband.portcounters.portxmitdiscards",
            counters.xmit_discards,
        )
        .field("infiniband.portcounters.portxmitconstrainterrors", 0x10u8)
        .field("infiniband.portcounters.portrcvconstrainterrors", 0x11u8)
        .field("infiniband.portcounters.locallinkintegrityerrors", 1u8)
        .field("infiniband.portcounters.excessivebufferoverrunerrors", 3u8)
        .field("infiniband.portcounters.vl15dropped", counters.vl15_dropped)
        .field("infiniband.portcounters.portxmitdata", counters.xmit_data)
        .field("infiniband.portcounters.portrcvdata", counters.rcv_data)
        .field("infiniband.portcounters.portxmitpkts", counters.xmit_pkts)
        .field("infiniband.portcounters.portrcvpkts", counters.rcv_pkts)
}

fn with_extended_counters(case: Case, extended: &PortCountersExtended) -> Case {
    case.field("infiniband.portcounters_ext.portselect", 1u8)
        .field(
            "infiniband.portcounters_ext.counterselect",
            extended.counter_select,
        )
        .field(
            "infiniband.portcounters_ext.portxmitdata",
            extended.xmit_data,
        )
        .field("infiniband.portcounters_ext.portrcvdata", extended.rcv_data)
        .field(
            "infiniband.portcounters_ext.portxmitpkts",
            extended.xmit_pkts,
        )
        .field("infiniband.portcounters_ext.portrcvpkts", extended.rcv_pkts)
        .field(
            "infiniband.portcounters_ext.portunicastxmitpkts",
            extended.unicast_xmit_pkts,
        )
        .field(
            "infiniband.portcounters_ext.portunicastrcvpkts",
            extended.unicast_rcv_pkts,
        )
        .field(
            "infiniband.portcounters_ext.portmulticastxmitpkts",
            0x3838_3838_3838_3838u64,
        )
        .field(
            "infiniband.portcounters_ext.portmulticastrcvpkts",
            0x4040_4040_4040_4040u64,
        )
}

#[test]
fn counters() {
    let counters = fixtures::port_counters();
    let extended = fixtures::port_counters_extended();
    judge(&[
        with_counters(pma(AttributeId::PORT_COUNTERS, &counters), &counters),
        with_extended_counters(
            pma(AttributeId::PORT_COUNTERS_EXTENDED, &extended),
            &extended,
        ),
        with_class_port_info(pma(AttributeId::CLASS_PORT_INFO, &class_port_info())),
    ]);
}

fn sa_header() -> SaHeader {
    SaHeader {
        rmpp: Rmpp {
            version: Rmpp::VERSION,
            kind: RmppKind::Data,
            resp_time: 0x10,
            flags: rmpp_flag::ACTIVE | rmpp_flag::FIRST | rmpp_flag::LAST,
            status: 0,
            data1: 1,
            data2: 84,
        },
        sm_key: 0x1112_1314_1516_1718,
        attribute_offset: 0,
        component_mask: 0x3132_3334_3536_3738,
    }
}

/// The record in an answer with the header of a single segment, and in one without RMPP.
fn sa<R: SaRecord>(record: &R) -> [Case; 2] {
    let mut segment = Mad::sa(Method::GET_TABLE_RESP, R::ID, 0, TID);
    let header = SaHeader {
        attribute_offset: R::ATTRIBUTE_OFFSET,
        ..sa_header()
    };
    segment.set_sa_header(&header);
    segment.set_sa_record(record);
    let mut plain = Mad::sa(Method::GET_RESP, R::ID, 0, TID);
    plain.set_sa_header(&SaHeader {
        rmpp: Rmpp::default(),
        ..header
    });
    plain.set_sa_record(record);
    let segment = Case::gmp(R::NAME, &segment)
        .field("infiniband.mad.method", 0x92u8)
        .field("infiniband.rmpp.rmppversion", 1u8)
        .field("infiniband.rmpp.rmpptype", 1u8)
        // Five bits and three by the specification; tshark takes four and four.
        .field("infiniband.rmpp.rresptime", 0x10u8 >> 1)
        .field("infiniband.rmpp.rmppflags", 7u8)
        .field("infiniband.rmpp.rmppstatus", 0u8)
        .field("infiniband.rmpp.segmentnumber", 1u8)
        .field("infiniband.rmpp.payloadlength", 84u8);
    let plain = Case::gmp(R::NAME, &plain).field("infiniband.mad.method", 0x81u8);
    [segment, plain].map(|case| {
        case.field("infiniband.mad.mgmtclass", 3u8)
            .field("infiniband.mad.classversion", 2u8)
            .field("infiniband.mad.attributeid", R::ID.0)
            .field("infiniband.sa.smkey", header.sm_key)
            .field("infiniband.sa.attributeoffset", header.attribute_offset)
            .field("infiniband.sa.componentmask", header.component_mask)
    })
}

fn with_path(case: Case, path: &PathRecord) -> Case {
    case.text("infiniband.pathrecord.dgid", "fe80::3")
        .text("infiniband.pathrecord.sgid", "fe80::4")
        .field("infiniband.pathrecord.dlid", path.dlid.get())
        .field("infiniband.pathrecord.slid", path.slid.get())
        .field("infiniband.pathrecord.rawtraffic", path.raw_traffic)
        .field("infiniband.pathrecord.flowlabel", path.flow_label)
        .field("infiniband.pathrecord.hoplimit", path.hop_limit)
        .field("infiniband.pathrecord.tclass", path.tclass)
        .field("infiniband.pathrecord.reversible", path.reversible)
        .field("infiniband.pathrecord.numbpath", path.numb_path)
        .field("infiniband.pathrecord.p_key", path.pkey)
        .field("infiniband.pathrecord.sl", path.sl.get())
        .field("infiniband.pathrecord.mtuselector", path.mtu_selector as u8)
        .field("infiniband.pathrecord.mtu", path.mtu)
        .field(
            "infiniband.pathrecord.rateselector",
            path.rate_selector as u8,
        )
        .field("infiniband.pathrecord.rate", path.rate)
        .field("infiniband.pathrecord.packetlifetimeselector", 3u8)
        .field(
            "infiniband.pathrecord.packetlifetime",
            path.packet_life_time,
        )
        .field("infiniband.pathrecord.preference", path.preference)
}

fn with_group(case: Case, group: &McMemberRecord) -> Case {
    case.text(
        "infiniband.mcmemberrecord.mgid",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    )
    .text("infiniband.mcmemberrecord.portgid", "fe80::5")
    .field("infiniband.mcmemberrecord.q_key", group.qkey)
    .field("infiniband.mcmemberrecord.mlid", group.mlid.get())
    .field(
        "infiniband.mcmemberrecord.mtuselector",
        group.mtu_selector as u8,
    )
    .field("infiniband.mcmemberrecord.mtu", group.mtu)
    .field("infiniband.mcmemberrecord.tclass", group.tclass)
    .field("infiniband.mcmemberrecord.p_key", group.pkey)
    .field(
        "infiniband.mcmemberrecord.rateselector",
        group.rate_selector as u8,
    )
    .field("infiniband.mcmemberrecord.rate", group.rate)
    .field("infiniband.mcmemberrecord.packetlifetimeselector", 2u8)
    .field(
        "infiniband.mcmemberrecord.packetlifetime",
        group.packet_life_time,
    )
    .field("infiniband.mcmemberrecord.sl", group.sl.get())
    .field("infiniband.mcmemberrecord.flowlabel", group.flow_label)
    .field("infiniband.mcmemberrecord.hoplimit", group.hop_limit)
    .field("infiniband.mcmemberrecord.scope", group.scope)
    .field("infiniband.mcmemberrecord.joinstate", group.join_state)
    .field("infiniband.mcmemberrecord.proxyjoin", group.proxy_join)
}

#[test]
fn paths_and_groups() {
    let path = PathRecord {
        service_id: 0,
        dgid: gid(3),
        sgid: gid(4),
        qos_class: 0,
        ..fixtures::path_record()
    };
    let group = McMemberRecord {
        mgid: Gid([0xff; 16]),
        port_gid: gid(5),
        rate_selector: Selector::LessThan,
        ..fixtures::mc_member_record()
    };
    let mut cases = Vec::new();
    cases.extend(sa(&path).map(|case| with_path(case, &path)));
    cases.extend(sa(&group).map(|case| with_group(case, &group)));
    judge(&cases);
}

#[test]
fn nodes_ports_and_links() {
    let node = NodeRecord {
        lid: Lid::new(0xa1a2),
        node_info: NodeInfo {
            base_version: 1,
            class_version: 1,
            node_type: NodeType::ChannelAdapter,
            num_ports: 1,
            system_image_guid: Guid(1),
            node_guid: Guid(2),
            port_guid: Guid(3),
            partition_cap: 32,
            device_id: 4,
            revision: 5,
            local_port_num: PortNum::new(1),
            vendor_id: 6,
        },
        description: NodeDescription::new("h0.1"),
    };
    let port = PortInfoRecord {
        lid: Lid::new(0xa1a2),
        port: PortNum::new(0xb1),
        options: 0,
        port_info: PortInfo {
            diag_code: 0x1234,
            guid_cap: 7,
            ..PortInfo::default()
        },
    };
    let link = fixtures::link_record();
    let mut cases = Vec::new();
    cases.extend(sa(&node).map(|case| {
        case.field("infiniband.sa.lid", node.lid.get())
            .field("infiniband.nodeinfo.nodeguid", 2u8)
            .field("infiniband.nodeinfo.vendorid", 6u8)
            .text("infiniband.nodedescription.nodestring", "h0.1")
    }));
    cases.extend(sa(&port).map(|case| {
        case.field("infiniband.sa.endportlid", port.lid.get())
            .field("infiniband.sa.portnum", port.port.get())
            .field("infiniband.portinfo.diagcode", port.port_info.diag_code)
            .field("infiniband.portinfo.guidcap", port.port_info.guid_cap)
    }));
    cases.extend(sa(&link).map(|case| {
        case.field("infiniband.linkrecord.fromlid", link.from_lid.get())
            .field("infiniband.linkrecord.fromport", link.from_port.get())
            .field("infiniband.linkrecord.toport", link.to_port.get())
            .field("infiniband.linkrecord.tolid", link.to_lid.get())
    }));
    judge(&cases);
}
