use mad::local::MadMessage;
use mad::rmpp::{Progress, Receiver, Sender};
use mad::transaction::Timing;
use topologies::NodeId;
use wire::mad::{AttributeId, Mad, MadStatus, Method};
use wire::pma::ClassPortInfo;
use wire::sa::{
    LftRecord, MultiPathRecord, NodeRecord, PathRecord, PortInfoRecord, RmppKind, SaHeader,
    SaRecord, Selector, ServiceRecord, multi_path_component, path_component, rmpp_flag,
    service_component,
};
use wire::{Format as _, Gid, Guid, Mtu, PortNum, Qpn, Sl};

use crate::bed::Bed;
use crate::{offline, up};

/// Asks for a table and takes it in, segment by segment.
pub(crate) fn ask_table(bed: &mut Bed, from: NodeId, manager: NodeId, query: &Mad) -> Vec<u8> {
    let (lid, _) = bed.address(manager);
    let send = |bed: &mut Bed, mad: &Mad| {
        let mad = Box::new(*mad.as_bytes());
        let (qpn, sl) = (Qpn::GSI, Sl::default());
        bed.write(
            from,
            &MadMessage {
                lid,
                qpn,
                sl,
                mad,
                way: None,
            },
        );
        bed.run_for(1_000_000);
    };
    let mut receiver = Receiver::new(bed.now, 1_000_000_000);
    send(bed, query);
    loop {
        assert!(!bed.received.is_empty(), "a segment has come");
        // The bed lets packets overtake each other.
        let mut packets = std::mem::take(&mut bed.received);
        packets.sort_by_key(|(_, packet)| packet.mad[28..32].to_vec());
        let mut steps = Vec::new();
        for (to, packet) in packets {
            assert_eq!(to, from);
            let packet = Mad::from_bytes(*packet.mad);
            let (progress, back) = receiver.receive(bed.now, &packet);
            steps.push(progress);
            if let Some(back) = back {
                send(bed, &back);
            }
        }
        if steps.contains(&Progress::Done) {
            return receiver.into_payload();
        }
    }
}

/// Sends a query from a host to the manager and returns the answer.
pub(crate) fn ask(bed: &mut Bed, from: NodeId, manager: NodeId, query: &Mad) -> Mad {
    let (lid, _) = bed.address(manager);
    bed.write(
        from,
        &MadMessage {
            lid,
            qpn: Qpn::GSI,
            sl: Sl::default(),
            mad: Box::new(*query.as_bytes()),
            way: None,
        },
    );
    bed.run_for(1_000_000);
    let (to, answer) = bed.received.pop().expect("an answer has come");
    assert_eq!((to, answer.qpn), (from, Qpn::GSI));
    let answer = Mad::from_bytes(*answer.mad);
    assert_eq!(answer.tid(), query.tid());
    let expected = match query.method() {
        Method::SET => Method::GET_RESP,
        method => Method(method.0 | 0x80),
    };
    assert_eq!(answer.method(), expected);
    answer
}

/// Whether a query of a host is not answered.
pub(crate) fn is_ignored(bed: &mut Bed, from: NodeId, manager: NodeId, query: &Mad) -> bool {
    let (lid, _) = bed.address(manager);
    let message = MadMessage {
        lid,
        qpn: Qpn::GSI,
        sl: Sl::default(),
        mad: Box::new(*query.as_bytes()),
        way: None,
    };
    bed.received.clear();
    bed.write(from, &message);
    bed.run_for(10_000_000);
    bed.received.is_empty()
}

pub(crate) fn query<R: SaRecord>(method: Method, mask: u64, record: &R) -> Mad {
    let mut mad = Mad::sa(method, R::ID, 0, 77);
    mad.set_sa_header(&SaHeader {
        component_mask: mask,
        ..SaHeader::default()
    });
    mad.set_sa_record(record);
    mad
}

pub(crate) fn gid(bed: &Bed, id: NodeId) -> Gid {
    let guid = bed.graph.node(id).guid.0 + 1;
    Gid::new(Gid::DEFAULT_PREFIX, Guid(guid))
}

#[test]
fn a_path_goes_to_the_lid_that_the_scheme_selects() {
    let (mut bed, manager) = up("fat-tree-4-3");
    let tables = offline(&bed.graph);
    let hosts: Vec<_> = bed.graph.hosts().collect();
    let source = bed.id("h1.0.1");
    for &destination in &hosts {
        let asked = PathRecord {
            sgid: gid(&bed, source),
            dgid: gid(&bed, destination),
            ..PathRecord::default()
        };
        let mask = path_component::SGID | path_component::DGID;
        let mad = query(Method::GET, mask, &asked);
        let answer = ask(&mut bed, source, manager, &mad);
        assert_eq!(answer.status(), MadStatus::OK);
        let path: PathRecord = answer.sa_record().unwrap();
        assert_eq!(
            Some(path.dlid),
            tables.dlid_between(source, destination),
            "{destination:?}"
        );
        assert_eq!(path.slid, bed.address(source).0);
        assert_eq!((path.sgid, path.dgid), (asked.sgid, asked.dgid));
        assert_eq!((path.pkey, path.mtu), (0xffff, Mtu::Mtu2048.code()));
        assert_eq!(path.rate, 7, "4x QDR is 40 Gb/s");
        assert_eq!(path.mtu_selector, Selector::Exactly);
    }
}

#[test]
fn a_table_of_paths_by_lid_has_one_record_behind_rmpp() {
    let (mut bed, manager) = up("fat-tree-4-2");
    let (source, destination) = (bed.id("h1.0"), bed.id("h2.1"));
    let dlid = wire::Lid::new(bed.address(destination).0.get() + 1);
    let asked = PathRecord {
        slid: bed.address(source).0,
        dlid,
        numb_path: 1,
        ..PathRecord::default()
    };
    let mask = path_component::SLID | path_component::DLID | path_component::NUMB_PATH;
    let mad = query(Method::GET_TABLE, mask, &asked);
    let answer = ask(&mut bed, source, manager, &mad);
    let header = answer.sa_header().unwrap();
    assert_eq!(
        header.rmpp.flags,
        rmpp_flag::ACTIVE | rmpp_flag::FIRST | rmpp_flag::LAST
    );
    assert_eq!((header.rmpp.data1, header.rmpp.data2), (1, 20 + 64));
    assert_eq!(header.attribute_offset, 8);
    let path: PathRecord = answer.sa_record().unwrap();
    assert_eq!((path.dlid, path.dgid), (dlid, gid(&bed, destination)));
}

#[test]
fn queries_that_cannot_be_met_say_why() {
    let (mut bed, manager) = up("fat-tree-4-2");
    let source = bed.id("h1.0");
    let own = gid(&bed, source);
    let path = PathRecord {
        sgid: own,
        dgid: Gid::new(Gid::DEFAULT_PREFIX, Guid(0xdead)),
        pkey: 0x8001,
        ..PathRecord::default()
    };
    let both = path_component::SGID | path_component::DGID;
    let to_itself = PathRecord { dgid: own, ..path };
    let mut old = query(Method::GET, both, &path);
    old.as_bytes_mut()[2] = 1;
    for (mad, status) in [
        (query(Method::GET, both, &path), MadStatus::SA_NO_RECORDS),
        (
            query(Method::GET, path_component::SGID, &path),
            MadStatus::SA_INSUFFICIENT_COMPONENTS,
        ),
        (
            query(Method::GET, both | path_component::PKEY, &to_itself),
            MadStatus::SA_NO_RECORDS,
        ),
        (
            query(Method::SET, both, &path),
            MadStatus::BAD_METHOD_ATTRIBUTE,
        ),
        (query(Method::SEND, both, &path), MadStatus::BAD_METHOD),
        (
            Mad::sa(Method::GET, AttributeId(0x0039), 0, 77),
            MadStatus::BAD_METHOD_ATTRIBUTE,
        ),
        (old, MadStatus::BAD_VERSION),
        (
            Mad::sa(Method::GET, AttributeId::NODE_RECORD, 0, 77),
            MadStatus::SA_TOO_MANY_RECORDS,
        ),
    ] {
        assert_eq!(ask(&mut bed, source, manager, &mad).status(), status);
    }
}

#[test]
fn nodes_and_ports_are_found_by_lid_and_by_guid() {
    let (mut bed, manager) = up("fat-tree-4-2");
    let (asker, root) = (bed.id("h1.0"), bed.id("s0.1"));
    let (lid, _) = bed.address(root);
    let mut by_lid = Mad::sa(Method::GET, AttributeId::NODE_RECORD, 0, 1);
    by_lid.set_sa_header(&SaHeader {
        component_mask: 1,
        ..SaHeader::default()
    });
    by_lid.sa_data_mut()[..2].copy_from_slice(&lid.get().to_be_bytes());
    let mut by_guid = Mad::sa(Method::GET, AttributeId::NODE_RECORD, 0, 2);
    by_guid.set_sa_header(&SaHeader {
        component_mask: 1 << 7,
        ..SaHeader::default()
    });
    let guid = bed.graph.node(root).guid;
    by_guid.sa_data_mut()[16..24].copy_from_slice(&guid.0.to_be_bytes());
    for mad in [by_lid, by_guid] {
        let answer = ask(&mut bed, asker, manager, &mad);
        let record: NodeRecord = answer.sa_record().unwrap();
        assert_eq!((record.lid, record.node_info.node_guid), (lid, guid));
        assert_eq!(record.description.as_str(), "s0.1");
    }
    let mut port = Mad::sa(Method::GET, AttributeId::PORT_INFO_RECORD, 0, 3);
    port.set_sa_header(&SaHeader {
        component_mask: 3,
        ..SaHeader::default()
    });
    port.sa_data_mut()[..2].copy_from_slice(&lid.get().to_be_bytes());
    port.sa_data_mut()[2] = 4;
    let answer = ask(&mut bed, asker, manager, &port);
    let record: PortInfoRecord = answer.sa_record().unwrap();
    assert_eq!((record.lid, record.port), (lid, PortNum::new(4)));
    assert_eq!(record.port_info.port_state, wire::attr::PortState::Active);
}

#[test]
fn class_port_info_names_the_version() {
    let (mut bed, manager) = up("fat-tree-4-2");
    let asker = bed.id("h1.0");
    let mad = Mad::sa(Method::GET, AttributeId::CLASS_PORT_INFO, 0, 4);
    let answer = ask(&mut bed, asker, manager, &mad);
    assert_eq!(answer.status(), MadStatus::OK);
    let (info, _) = ClassPortInfo::parse(answer.sa_data()).unwrap();
    assert_eq!((info.base_version, info.class_version), (1, 2));
    assert_eq!(tables_lmc(&bed), 1);
}

fn tables_lmc(bed: &Bed) -> u8 {
    bed.address(bed.id("h0.0")).1.get()
}

#[test]
fn whole_tables_come_segment_by_segment() {
    let (mut bed, manager) = up("fat-tree-4-3");
    let asker = bed.id("h1.0.1");
    let all = |id| Mad::sa(Method::GET_TABLE, id, 0, 9);
    let nodes = ask_table(&mut bed, asker, manager, &all(AttributeId::NODE_RECORD));
    let names: Vec<String> = nodes
        .chunks_exact(112)
        .map(|raw| {
            NodeRecord::parse(raw)
                .unwrap()
                .0
                .description
                .as_str()
                .to_owned()
        })
        .collect();
    assert_eq!(names.len(), 36);
    assert!(names.iter().any(|name| name == "s0.0.1"), "{names:?}");
    let links = ask_table(&mut bed, asker, manager, &all(AttributeId::LINK_RECORD));
    assert_eq!(links.len() / 8, 96, "each cable from both ends");
    let ports = ask_table(
        &mut bed,
        asker,
        manager,
        &all(AttributeId::PORT_INFO_RECORD),
    );
    assert_eq!(ports.len() / 72, 20 * 5 + 16);
    let tables = offline(&bed.graph);
    let lft = all(AttributeId::LINEAR_FORWARDING_TABLE_RECORD);
    let blocks = ask_table(&mut bed, asker, manager, &lft);
    for raw in blocks.chunks_exact(72) {
        let (record, _) = LftRecord::parse(raw).unwrap();
        let owner = tables.lids.owner(record.lid).and_then(|range| range.end);
        let lft = tables.lft(owner.unwrap().node);
        assert_eq!(record.table.0, lft.block(usize::from(record.block)));
    }
    assert_eq!(
        blocks.len() / 72,
        20 * tables.lft(bed.id("s0.0.1")).blocks()
    );
    let mut from_here = query(
        Method::GET_TABLE,
        path_component::SGID,
        &PathRecord {
            sgid: gid(&bed, asker),
            ..PathRecord::default()
        },
    );
    from_here.set_tid(10);
    let paths = ask_table(&mut bed, asker, manager, &from_here);
    assert_eq!(paths.len() / 64, 36);
}

#[test]
fn services_are_registered_found_and_deleted() {
    let (mut bed, manager) = up("fat-tree-4-2");
    let source = bed.id("h1.0");
    let mut service = ServiceRecord {
        id: 0x1122,
        gid: gid(&bed, source),
        pkey: 0xffff,
        ..ServiceRecord::default()
    };
    service.name[..5].copy_from_slice(b"store");
    let named = service_component::ID | service_component::GID;
    let set = query(Method::SET, named, &service);
    let answer = ask(&mut bed, source, manager, &set);
    assert_eq!(
        (answer.status(), answer.method()),
        (MadStatus::OK, Method::GET_RESP)
    );
    let elsewhere = bed.id("h2.1");
    let stolen = ask(&mut bed, elsewhere, manager, &set);
    assert_eq!(stolen.status(), MadStatus::SA_REQUEST_INVALID);
    let find = query(Method::GET, service_component::NAME, &service);
    let found = ask(&mut bed, elsewhere, manager, &find);
    let expected = ServiceRecord {
        lease_s: ServiceRecord::FOR_EVER,
        ..service
    };
    assert_eq!(found.sa_record(), Ok(expected));
    let delete = query(Method::DELETE, named, &service);
    let deleted = ask(&mut bed, source, manager, &delete);
    assert_eq!(deleted.method(), Method::DELETE_RESP);
    let gone = ask(&mut bed, elsewhere, manager, &find);
    assert_eq!(gone.status(), MadStatus::SA_NO_RECORDS);
}

#[test]
fn paths_between_several_ports_come_as_one_table() {
    let (mut bed, manager) = up("fat-tree-4-2");
    let ends = ["h1.0", "h2.1", "h0.1"].map(|name| bed.id(name));
    let mut asked = MultiPathRecord {
        sgid_count: 1,
        dgid_count: 2,
        ..MultiPathRecord::default()
    };
    for (place, &end) in asked.gids.iter_mut().zip(&ends) {
        *place = gid(&bed, end);
    }
    let mask = multi_path_component::SGID_COUNT | multi_path_component::DGID_COUNT;
    let answer = ask(
        &mut bed,
        ends[0],
        manager,
        &query(Method::GET_MULTI, mask, &asked),
    );
    assert_eq!(answer.method(), Method::GET_MULTI_RESP);
    let header = answer.sa_header().unwrap();
    assert_eq!((header.rmpp.data1, header.attribute_offset), (1, 8));
    assert_eq!(header.rmpp.data2, 20 + 2 * 64, "two paths");
    let path: PathRecord = answer.sa_record().unwrap();
    assert_eq!((path.sgid, path.dgid), (asked.gids[0], asked.gids[1]));
    // The request may be a transfer of its own, whose one segment is acknowledged.
    let mut plain = query(Method::GET_MULTI, mask, &asked);
    plain.set_tid(78);
    let timing = Timing {
        timeout_ns: 1,
        attempts: 1,
    };
    let mut sender = Sender::new(&plain, plain.sa_data().to_vec(), timing).unwrap();
    let segment = sender.poll(bed.now).unwrap();
    bed.received.clear();
    let first = ask(&mut bed, ends[0], manager, &segment);
    let (_, second) = bed
        .received
        .pop()
        .expect("an acknowledgement and a segment");
    let both = [first, Mad::from_bytes(*second.mad)];
    let kinds = both.map(|mad| mad.sa_header().unwrap().rmpp.kind);
    assert!(kinds.contains(&RmppKind::Ack) && kinds.contains(&RmppKind::Data));
    let nobody = MultiPathRecord {
        sgid_count: 1,
        dgid_count: 1,
        ..MultiPathRecord::default()
    };
    let unknown = query(Method::GET_MULTI, mask, &nobody);
    let refused = ask(&mut bed, ends[0], manager, &unknown);
    assert_eq!(refused.status(), MadStatus::SA_INVALID_GID);
    let long = MultiPathRecord {
        dgid_count: 200,
        ..asked
    };
    let refused = ask(
        &mut bed,
        ends[0],
        manager,
        &query(Method::GET_MULTI, mask, &long),
    );
    assert_eq!(refused.status(), MadStatus::SA_REQUEST_INVALID);
}

/// As OpenSM tells them: whole tables and ports by number.
#[test]
fn tables_of_a_port_without_a_cable_are_told_too() {
    let (mut bed, manager) = up("fat-tree-4-2");
    let asker = bed.id("h1.0");
    let root = bed.id("s0.1");
    let end = bed.ends(root)[0];
    bed.cut(end);
    bed.run_until_up(manager);
    let (lid, _) = bed.address(root);
    let mut of_root = |id: AttributeId, mask: u64, rest: &[u8]| {
        let mut mad = Mad::sa(Method::GET_TABLE, id, 0, 9);
        mad.set_sa_header(&SaHeader {
            component_mask: mask,
            sm_key: 1,
            ..SaHeader::default()
        });
        mad.sa_data_mut()[..2].copy_from_slice(&lid.get().to_be_bytes());
        mad.sa_data_mut()[2..2 + rest.len()].copy_from_slice(rest);
        ask_table(&mut bed, asker, manager, &mad).len()
    };
    let port = end.port.get();
    let levels = AttributeId::SL_TO_VL_TABLE_RECORD;
    assert_eq!(of_root(levels, 1, &[]), 25 * 16, "from 0 to 4 to 0 to 4");
    assert_eq!(of_root(levels, 0b101, &[0, port]), 5 * 16);
    let arbitration = AttributeId::VL_ARB_TABLE_RECORD;
    assert_eq!(of_root(arbitration, 1, &[]), 5 * 4 * 72);
    assert_eq!(of_root(arbitration, 0b11, &[port]), 4 * 72);
    assert_eq!(of_root(AttributeId::PORT_INFO_RECORD, 0b11, &[port]), 72);
    let keys = AttributeId::PKEY_TABLE_RECORD;
    assert_eq!(of_root(keys, 0b111, &[0, 0, port]), 72);
}
