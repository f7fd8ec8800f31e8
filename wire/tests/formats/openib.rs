//! Answers of stock OpenSM and ibsim, read and written again.

use std::fmt::Debug;

use wire::attr::{
    GuidInfo, LinearForwardingTable, NodeDescription, NodeInfo, NodeType, PKeyTable, PortInfo,
    PortPhysState, PortState, SlToVlTable, SmInfo, SmState, SwitchInfo, VlArbTable, VlCount,
};
use wire::pma::{ClassPortInfo, PortCounters, PortCountersExtended, capability};
use wire::sa::{
    McMemberRecord, NodeRecord, PathRecord, PortInfoRecord, SaHeader, SaRecord, Selector,
    mc_member_component as component,
};
use wire::umad2sim::{Connect, ControlDatagram, ControlKind, Vendor};
use wire::{
    AttributeId, Format, Gid, Guid, Lid, Mad, MadHeader, MadStatus, Method, MgmtClass, Mtu, Vl,
};

use crate::check::{golden, hex};

/// The bytes of a vector, with its trailing zeros up to `len`.
fn vector(name: &str, len: usize) -> Vec<u8> {
    let text = include_str!("../vectors/openib.txt");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let mut bytes = hex(line.unwrap());
    bytes.resize(len, 0);
    bytes
}

/// Parses a vector, and checks that it is emitted byte for byte as it came.
fn read<F: Format + Debug + PartialEq>(name: &str) -> F {
    let bytes = vector(name, F::LEN);
    let (value, _) = F::parse(&bytes).unwrap();
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    golden(&value, &text);
    value
}

#[test]
fn nodes_of_a_simulated_fabric() {
    let host: NodeInfo = read("smp_node_info");
    assert_eq!(
        (host.node_type, host.num_ports),
        (NodeType::ChannelAdapter, 1)
    );
    assert_eq!(
        (host.node_guid, host.port_guid),
        (Guid(0x10_0002), Guid(0x10_0003))
    );
    assert_eq!((host.partition_cap, host.vendor_id), (0x40, 0));
    let switch: NodeInfo = read("smp_switch_node_info");
    assert_eq!((switch.node_type, switch.num_ports), (NodeType::Switch, 4));
    assert_eq!(switch.node_guid, switch.port_guid);
    assert_eq!(
        read::<NodeDescription>("smp_node_description").as_str(),
        "h1"
    );
    assert_eq!(read::<GuidInfo>("smp_guid_info").0[0], host.port_guid);
    let info: SwitchInfo = read("smp_switch_info");
    assert_eq!(
        (
            info.linear_fdb_cap,
            info.multicast_fdb_cap,
            info.linear_fdb_top
        ),
        (30_720, 1024, 3)
    );
    assert_eq!(info.life_time_value, 0x12);
}

#[test]
fn ports_that_opensm_has_set_up() {
    let host: PortInfo = read("smp_port_info");
    assert_eq!(host.gid_prefix, Gid::DEFAULT_PREFIX);
    assert_eq!((host.lid, host.master_sm_lid), (Lid::new(3), Lid::new(1)));
    assert_eq!(
        (host.port_state, host.port_phys_state),
        (PortState::Active, PortPhysState::LinkUp)
    );
    assert_eq!(
        (host.mtu_cap, host.neighbor_mtu),
        (Some(Mtu::Mtu2048), Some(Mtu::Mtu2048))
    );
    assert_eq!(
        (host.vl_cap, host.operational_vls),
        (Some(VlCount::Eight), Some(VlCount::Eight))
    );
    assert_eq!(
        (host.vl_arbitration_high_cap, host.vl_arbitration_low_cap),
        (8, 8)
    );
    assert_eq!(host.width(), Some(wire::LinkWidth::X4));
    assert_eq!(host.link_speed_ext_supported, 0);
    let switch: PortInfo = read("smp_switch_port_info");
    assert_eq!(
        (switch.port_state, switch.hoq_life),
        (PortState::Active, 0x10)
    );
    assert_eq!(
        read::<PKeyTable>("smp_pkey_table").0[..2],
        [PKeyTable::DEFAULT_FULL, 0]
    );
}

#[test]
fn tables_that_opensm_has_written() {
    let sl_to_vl: SlToVlTable = read("smp_sl_to_vl");
    assert_eq!(
        sl_to_vl.0.map(Vl::get),
        [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7]
    );
    let low: VlArbTable = read("smp_vl_arb");
    let entries: Vec<_> = low.0[..8]
        .iter()
        .map(|entry| (entry.vl.get(), entry.weight))
        .collect();
    assert_eq!(
        entries,
        [
            (0, 0),
            (1, 4),
            (2, 4),
            (3, 4),
            (4, 4),
            (5, 4),
            (6, 4),
            (7, 4)
        ]
    );
    let high: VlArbTable = read("smp_switch_vl_arb_high");
    assert_eq!((high.0[0].vl.get(), high.0[0].weight), (0, 4));
    let linear: LinearForwardingTable = read("smp_linear_forwarding_table");
    assert_eq!(
        linear.0[..5]
            .iter()
            .map(|port| port.get())
            .collect::<Vec<_>>(),
        [255, 1, 0, 2, 255]
    );
    let sm: SmInfo = read("smp_sm_info");
    assert_eq!(
        (sm.guid, sm.priority, sm.state),
        (Guid(0x10_0001), 0, SmState::Master)
    );
}

#[test]
fn counters_of_a_port() {
    let info: ClassPortInfo = read("pma_class_port_info");
    let mask = capability::PMA_EXTENDED_WIDTH | capability::PMA_XMIT_WAIT;
    assert_eq!((info.capability_mask, info.resp_time_value), (mask, 0x12));
    let counters: PortCounters = read("pma_port_counters");
    assert_eq!(counters.counter_select, 0xffff);
    assert_eq!((counters.xmit_pkts, counters.rcv_pkts), (21, 21));
    assert_eq!(
        counters.xmit_data,
        21 * 72,
        "words of a packet without VCRC"
    );
    let extended: PortCountersExtended = read("pma_port_counters_extended");
    assert_eq!((extended.xmit_data, extended.rcv_pkts), (1512, 21));
}

#[test]
fn records_that_opensm_answered() {
    let info: ClassPortInfo = read("sa_class_port_info");
    assert_eq!(
        (
            info.class_version,
            info.redirect_qp.get(),
            info.redirect_qkey
        ),
        (2, 1, 0x8001_0000)
    );

    let path: PathRecord = read("sa_path_record");
    assert_eq!((path.dlid, path.slid), (Lid::new(1), Lid::new(3)));
    assert_eq!(path.sgid, Gid::new(Gid::DEFAULT_PREFIX, Guid(0x10_0003)));
    assert_eq!(
        (path.reversible, path.numb_path, path.pkey),
        (true, 0, 0xffff)
    );
    assert_eq!(
        (path.mtu_selector, path.mtu),
        (Selector::Exactly, Mtu::Mtu2048.code())
    );
    assert_eq!((path.rate_selector, path.rate), (Selector::Exactly, 3));
    assert_eq!(
        (path.packet_life_time_selector, path.packet_life_time),
        (Selector::Exactly, 18)
    );

    let node: NodeRecord = read("sa_node_record");
    assert_eq!((node.lid, node.description.as_str()), (Lid::new(3), "h1"));
    let port: PortInfoRecord = read("sa_port_info_record");
    assert_eq!((port.lid, port.port.get()), (Lid::new(3), 1));
    assert_eq!(port.port_info, read("smp_port_info"));

    let group: McMemberRecord = read("sa_mc_member_record");
    assert_eq!((group.mlid, group.qkey), (Lid::new(0xc001), 0x0b1b));
    assert_eq!(
        (group.scope, group.join_state),
        (2, McMemberRecord::JOIN_FULL)
    );
}

#[test]
fn distances_of_records_are_those_of_opensm() {
    let offset = |name| read::<SaHeader>(name).attribute_offset;
    assert_eq!(
        offset("sa_header_of_path_record"),
        PathRecord::ATTRIBUTE_OFFSET
    );
    assert_eq!(
        offset("sa_header_of_node_record"),
        NodeRecord::ATTRIBUTE_OFFSET
    );
    assert_eq!(
        offset("sa_header_of_port_info_record"),
        PortInfoRecord::ATTRIBUTE_OFFSET
    );
    let header: SaHeader = read("sa_header_of_mc_member_record");
    assert_eq!(header.attribute_offset, McMemberRecord::ATTRIBUTE_OFFSET);
    let asked = component::MGID
        | component::PORT_GID
        | component::QKEY
        | component::TCLASS
        | component::PKEY
        | component::SL
        | component::FLOW_LABEL
        | component::JOIN_STATE;
    assert_eq!(header.component_mask & asked, asked);
}

#[test]
fn a_query_without_an_answer_says_so() {
    let header: MadHeader = read("sa_mad_header_without_record");
    assert_eq!(
        (header.class, header.class_version),
        (MgmtClass::SUBN_ADM, 2)
    );
    assert_eq!(
        (header.method, header.attr_id),
        (Method::GET_RESP, AttributeId::LINK_RECORD)
    );
    assert_eq!(header.status, MadStatus::SA_NO_RECORDS);
}

#[test]
fn a_directed_answer_shows_both_paths() {
    let bytes = vector("smp_directed_mad", Mad::LEN);
    let (mad, _) = Mad::parse(&bytes).unwrap();
    assert_eq!(
        (mad.class(), mad.method()),
        (MgmtClass::SUBN_DIR, Method::GET_RESP)
    );
    assert!(mad.is_returning());
    assert_eq!(mad.hop_count(), 2);
    assert_eq!(
        (mad.dr_slid(), mad.dr_dlid()),
        (Lid::PERMISSIVE, Lid::PERMISSIVE)
    );
    assert_eq!(mad.initial_path()[..4], [0, 1, 1, 0]);
    assert_eq!(mad.return_path()[..4], [1, 2, 1, 0]);
    assert_eq!(
        mad.smp_attribute::<SmInfo>().unwrap().state,
        SmState::Master
    );
}

#[test]
fn what_ibsim_says_to_a_client() {
    let reply: ControlDatagram = read("umad2sim_connect_reply");
    assert_eq!((reply.kind, reply.len), (ControlKind::CONNECT, 44));
    let (connect, _) = Connect::parse(&reply.data).unwrap();
    assert_eq!(
        (connect.id, connect.is_sm, connect.node_name()),
        (1, false, Some("h1"))
    );

    let reply: ControlDatagram = read("umad2sim_vendor_reply");
    let (vendor, _) = Vendor::parse(&reply.data).unwrap();
    let expected = Vendor {
        vendor_id: 0,
        part_id: 0,
        hw_version: 0xa1,
        fw_version: 1,
    };
    assert_eq!((reply.kind, vendor), (ControlKind::GET_VENDOR, expected));

    let reply: ControlDatagram = read("umad2sim_node_info_reply");
    let (info, _) = NodeInfo::parse(&reply.data).unwrap();
    assert_eq!(info.node_type, NodeType::ChannelAdapter);
}
