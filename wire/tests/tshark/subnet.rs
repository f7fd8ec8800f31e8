//! Subnet management: every attribute, directed and LID routed.
//!
//! Where tshark 4.0 knows a field by an older layout than ours, the field is left out and the
//! reason stands beside it.

use wire::attr::{
    Attribute, GuidInfo, LinearForwardingTable, MulticastForwardingTable, NodeDescription,
    NodeInfo, NodeType, Notice, PKeyTable, SlToVlTable, VlArbEntry, VlArbTable, trap,
};
use wire::{AttributeId, Guid, Lid, Mad, MadStatus, Method, PortNum, Vl};

use crate::decode::{Case, judge};
use crate::fixtures;

const TID: u64 = 0x0102_0304_0506_0708;

/// The attribute in a directed answer and in a LID-routed one.
pub(crate) fn both<A: Attribute>(attribute: &A, attr_mod: u32) -> [Case; 2] {
    let path = [3, 7, 5].map(PortNum::new);
    let mut directed = Mad::directed_smp(Method::GET, A::ID, attr_mod, TID, &path).unwrap();
    directed.set_method(Method::GET_RESP);
    directed.set_smp_attribute(attribute);
    directed.set_returning(true);
    directed.set_hop_pointer(2);
    directed.return_path_mut()[1..4].copy_from_slice(&[9, 8, 6]);
    let mut routed = Mad::lid_smp(Method::GET_RESP, A::ID, attr_mod, TID);
    routed.set_smp_attribute(attribute);
    routed.set_m_key(0x1112_1314_1516_1718);
    let directed = Case::smp(A::NAME, &directed)
        .field("infiniband.mad.mgmtclass", 0x81u8)
        .field("infiniband.smpdirected.hoppointer", 2u8)
        .field("infiniband.smpdirected.hopcount", 3u8)
        .field("infiniband.smpdirected.drslid", 0xffffu16)
        .field("infiniband.smpdirected.drdlid", 0xffffu16);
    let routed = Case::smp(A::NAME, &routed)
        .field("infiniband.mad.mgmtclass", 0x01u8)
        .field("infiniband.mad.status", 0u8)
        .field("infiniband.smplid.mkey", 0x1112_1314_1516_1718u64);
    [directed, routed].map(|case| {
        case.field("infiniband.mad.baseversion", 1u8)
            .field("infiniband.mad.classversion", 1u8)
            .field("infiniband.mad.method", 0x81u8)
            .field("infiniband.mad.transactionid", TID)
            .field("infiniband.mad.attributeid", A::ID.0)
            .field("infiniband.mad.attributemodifier", attr_mod)
    })
}

#[test]
fn requests_of_every_attribute() {
    let ids = [
        AttributeId::NODE_DESCRIPTION,
        AttributeId::NODE_INFO,
        AttributeId::SWITCH_INFO,
        AttributeId::GUID_INFO,
        AttributeId::PORT_INFO,
        AttributeId::PKEY_TABLE,
        AttributeId::SL_TO_VL_TABLE,
        AttributeId::VL_ARB_TABLE,
        AttributeId::LINEAR_FORWARDING_TABLE,
        AttributeId::MULTICAST_FORWARDING_TABLE,
        AttributeId::SM_INFO,
        AttributeId::NOTICE,
    ];
    let cases: Vec<Case> = ids
        .into_iter()
        .flat_map(|id| {
            let path = [PortNum::new(1); 63];
            let directed = Mad::directed_smp(Method::GET, id, 1, TID, &path).unwrap();
            let routed = Mad::lid_smp(Method::SET, id, 2, TID);
            [
                Case::smp("directed request", &directed)
                    .field("infiniband.mad.method", 1u8)
                    .field("infiniband.mad.attributeid", id.0)
                    .field("infiniband.mad.attributemodifier", 1u8)
                    .field("infiniband.smpdirected.hopcount", 63u8)
                    .text(
                        "infiniband.smpdirected.initialpath",
                        &format!("00{}", ":01".repeat(63)),
                    ),
                Case::smp("LID-routed request", &routed)
                    .field("infiniband.mad.method", 2u8)
                    .field("infiniband.mad.attributeid", id.0)
                    .field("infiniband.mad.attributemodifier", 2u8),
            ]
        })
        .collect();
    judge(&cases);
}

#[test]
fn a_refusal_shows_its_status() {
    let mut refused = Mad::lid_smp(Method::GET_RESP, AttributeId::PORT_INFO, 99, TID);
    refused.set_status(MadStatus::BAD_FIELD);
    let mut directed =
        Mad::directed_smp(Method::GET_RESP, AttributeId::PORT_INFO, 99, TID, &[]).unwrap();
    directed.set_returning(true);
    directed.set_status(MadStatus(directed.status().0 | MadStatus::BAD_METHOD.0));
    judge(&[
        Case::smp("refused", &refused).field("infiniband.mad.status", 0x001cu16),
        Case::smp("refused", &directed).field("infiniband.smpdirected.smpstatus", 0x8008u16),
    ]);
}

#[test]
fn nodes() {
    let info = NodeInfo {
        node_type: NodeType::Switch,
        ..fixtures::node_info()
    };
    let switch = fixtures::switch_info();
    let mut cases = Vec::new();
    let description = NodeDescription::new("s0.0 of ibemu");
    cases.extend(
        both(&description, 0)
            .map(|case| case.text("infiniband.nodedescription.nodestring", "s0.0 of ibemu")),
    );
    cases.extend(both(&info, 0).map(|case| {
        case.field("infiniband.nodeinfo.baseversion", info.base_version)
            .field("infiniband.nodeinfo.classversion", info.class_version)
            .field("infiniband.nodeinfo.nodetype", info.node_type as u8)
            .field("infiniband.nodeinfo.numports", info.num_ports)
            .field(
                "infiniband.nodeinfo.systemimageguid",
                info.system_image_guid.0,
            )
            .field("infiniband.nodeinfo.nodeguid", info.node_guid.0)
            .field("infiniband.nodeinfo.portguid", info.port_guid.0)
            .field("infiniband.nodeinfo.partitioncap", info.partition_cap)
            .field("infiniband.nodeinfo.deviceid", info.device_id)
            .field("infiniband.nodeinfo.revision", info.revision)
            .field(
                "infiniband.nodeinfo.localportnum",
                info.local_port_num.get(),
            )
            .field("infiniband.nodeinfo.vendorid", info.vendor_id)
    }));
    cases.extend(both(&switch, 0).map(|case| {
        case.field("infiniband.switchinfo.linearfdbcap", switch.linear_fdb_cap)
            .field("infiniband.switchinfo.randomfdbcap", switch.random_fdb_cap)
            .field(
                "infiniband.switchinfo.multicastfdbcap",
                switch.multicast_fdb_cap,
            )
            .field("infiniband.switchinfo.linearfdbtop", switch.linear_fdb_top)
            .field("infiniband.switchinfo.defaultport", 7u8)
            .field("infiniband.switchinfo.defaultmulticastprimaryport", 8u8)
            .field("infiniband.switchinfo.defaultmulticastnotprimaryport", 9u8)
            .field(
                "infiniband.switchinfo.lifetimevalue",
                switch.life_time_value,
            )
            .field("infiniband.switchinfo.portstatechange", true)
            .field(
                "infiniband.switchinfo.optimizedsltovlmappingprogramming",
                1u8,
            )
            .field("infiniband.switchinfo.lidsperport", switch.lids_per_port)
            .field("infiniband.switchinfo.partitionenforcementcap", 0x0c0du16)
            .field("infiniband.switchinfo.inboundenforcementcap", true)
            .field("infiniband.switchinfo.outboundenforcementcap", false)
            .field("infiniband.switchinfo.filterrawinboundcap", true)
            .field("infiniband.switchinfo.filterrawoutboundcap", false)
            .field("infiniband.switchinfo.enhancedportzero", true)
    }));
    let guids = GuidInfo(std::array::from_fn(|at| {
        Guid(0xaa00 + u64::try_from(at).unwrap())
    }));
    cases.extend(
        both(&guids, 3)
            .map(|case| case.list("infiniband.switchinfo.guid", guids.0.map(|guid| guid.0))),
    );
    judge(&cases);
}

#[test]
fn tables() {
    let mut cases = Vec::new();
    let mut keys = PKeyTable::default();
    keys.0[0] = PKeyTable::DEFAULT_FULL;
    keys.0[1] = 0x7001;
    cases.extend(both(&keys, 0).map(|case| {
        case.list(
            "infiniband.p_keytable.membershiptype",
            keys.0.map(|key| key >> 15),
        )
        .list(
            "infiniband.p_keytable.p_keybase",
            keys.0.map(|key| key & 0x7fff),
        )
    }));

    let sl_to_vl =
        SlToVlTable([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15].map(Vl::truncate));
    let (even, odd): (Vec<u8>, Vec<u8>) = sl_to_vl
        .0
        .chunks_exact(2)
        .map(|pair| (pair[0].get(), pair[1].get()))
        .unzip();
    cases.extend(both(&sl_to_vl, 0x0102).map(|case| {
        case.list("infiniband.sltovlmappingtable.sltovlhighbits", even.clone())
            .list("infiniband.sltovlmappingtable.sltovllowbits", odd.clone())
    }));

    let arbitration = VlArbTable(std::array::from_fn(|at| {
        let at = u8::try_from(at).unwrap();
        VlArbEntry {
            vl: Vl::truncate(at),
            weight: 255 - at,
        }
    }));
    cases.extend(
        both(&arbitration, VlArbTable::modifier(3, PortNum::new(4))).map(|case| {
            case.list(
                "infiniband.vlarbitrationtable.vl",
                arbitration.0.map(|entry| entry.vl.get()),
            )
            .list(
                "infiniband.vlarbitrationtable.weight",
                arbitration.0.map(|entry| entry.weight),
            )
        }),
    );

    let linear = LinearForwardingTable(std::array::from_fn(|at| {
        PortNum::new(u8::try_from(at).unwrap() + 100)
    }));
    cases.extend(both(&linear, 5).map(|case| {
        case.list(
            "infiniband.linearforwardingtable.port",
            linear.0.map(PortNum::get),
        )
    }));

    let multicast = MulticastForwardingTable(std::array::from_fn(|at| {
        0xf000 + u16::try_from(at).unwrap()
    }));
    cases.extend(
        both(&multicast, MulticastForwardingTable::modifier(2, 7))
            .map(|case| // tshark shows half of the 32 entries.
            case.list("infiniband.multicastforwardingtable.portmask", multicast.0[..16].to_vec())),
    );
    judge(&cases);
}

#[test]
fn subnet_managers_and_their_notices() {
    let sm = fixtures::sm_info();
    let mut cases = Vec::new();
    cases.extend(both(&sm, 0).map(|case| {
        case.field("infiniband.sminfo.guid", sm.guid.0)
            .field("infiniband.sminfo.sm_key", sm.sm_key)
            .field("infiniband.sminfo.actcount", sm.act_count)
            .field("infiniband.sminfo.priority", sm.priority)
            .field("infiniband.sminfo.smstate", sm.state as u8)
    }));

    let link_state = Notice::link_state_change(Lid::new(0x0102));
    let change = fixtures::local_change();
    let local = Notice::local_change(Notice::PRODUCER_CHANNEL_ADAPTER, change);
    let shown = |notice: &Notice| {
        both(notice, 0).map(|case| {
            case.field("infiniband.notice.isgeneric", true)
                .field("infiniband.notice.type", notice.notice_type)
                .field(
                    "infiniband.notice.producertypevendorid",
                    notice.producer_type,
                )
                .field("infiniband.notice.trapnumberdeviceid", notice.trap_number)
                .field("infiniband.notice.issuerlid", notice.issuer_lid.get())
                .field("infiniband.notice.noticetoggle", notice.toggle)
                .field("infiniband.notice.noticecount", notice.count)
        })
    };
    cases.extend(shown(&link_state).map(|case| case.field("infiniband.trap.lidaddr", 0x0102u16)));
    cases.extend(shown(&local).map(|case| {
        case.field("infiniband.trap.lidaddr", change.lid.get())
            .field("infiniband.trap.otherlocalchanges", true)
            .field("infiniband.trap.capabilitymask", change.capability_mask)
            .field("infiniband.trap.nodedescriptionchange", true)
            .field("infiniband.trap.linkwidthenabledchange", false)
            .field("infiniband.trap.linkspeecenabledchange", false)
    }));
    judge(&cases);
}

#[test]
fn notices_of_wrong_keys() {
    let bad_m_key = fixtures::bad_m_key();
    let notice = Notice::bad_m_key(Notice::PRODUCER_SWITCH, Lid::new(0x0102), &bad_m_key);
    let mut cases = Vec::from(both(&notice, 0).map(|case| {
        case.field("infiniband.notice.trapnumberdeviceid", 256u16)
            .field("infiniband.trap.lidaddr", bad_m_key.lid.get())
            .field("infiniband.trap.drslid", 0xffffu16)
            .field("infiniband.trap.method", bad_m_key.method.0)
            .field("infiniband.trap.attributeid", bad_m_key.attr_id.0)
            .field("infiniband.trap.attributemodifier", bad_m_key.attr_mod)
            .field("infiniband.trap.mkey", bad_m_key.m_key)
            .field("infiniband.trap.drnotice", true)
            .field("infiniband.trap.drpathtruncated", false)
            .field("infiniband.trap.drhopcount", 3u8)
    }));
    let packet = fixtures::bad_packet_key();
    for number in [trap::BAD_P_KEY, trap::BAD_Q_KEY] {
        let producer = Notice::PRODUCER_CHANNEL_ADAPTER;
        let notice = Notice::bad_packet_key(number, producer, Lid::new(5), &packet);
        cases.extend(both(&notice, 0).map(|case| {
            case.field("infiniband.notice.trapnumberdeviceid", number)
                .field("infiniband.trap.lidaddr1", packet.slid.get())
                .field("infiniband.trap.lidaddr2", packet.dlid.get())
                .field("infiniband.trap.key", packet.key)
                .field("infiniband.trap.sl", packet.sl.get())
                .field("infiniband.trap.qp1", packet.src_qp.get())
                .field("infiniband.trap.qp2", packet.dest_qp.get())
        }));
    }
    judge(&cases);
}
