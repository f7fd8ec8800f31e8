use wire::attr::{NodeInfo, NodeType};
use wire::mad::{AttributeId, MadStatus, Method};
use wire::sa::RmppKind;
use wire::umad2sim::{Connect, ControlDatagram, ControlKind, Vendor};
use wire::{Format, PortNum, Sl};

use super::*;
use crate::local::{FromAgent, MadMessage};

mod datagrams;
mod nonsense;

const MS: u64 = 1_000_000;
type TestServer = Server<&'static str>;

fn server(in_flight_max: usize) -> TestServer {
    Server::new(ServerConfig {
        name: "h0.1".to_owned(),
        guid: Guid(0x0100),
        timing: ServerConfig::TIMING,
        in_flight_max,
    })
}

fn outputs(server: &mut TestServer) -> Vec<Output<&'static str>> {
    std::iter::from_fn(|| server.poll_output()).collect()
}

fn control(kind: ControlKind, client: u16, data: &[u8]) -> [u8; 80] {
    let mut datagram = ControlDatagram {
        client: client.into(),
        kind,
        len: 0,
        data: [0; 64],
    };
    datagram.data[..data.len()].copy_from_slice(data);
    datagram.to_bytes()
}

fn connect_bytes(id: u32, is_sm: bool, node: &str) -> [u8; 80] {
    let connect = Connect {
        id,
        qp: 0,
        is_sm,
        node: Connect::node_bytes(node),
    };
    control(
        ControlKind::CONNECT,
        0,
        &connect.to_bytes::<{ Connect::LEN }>(),
    )
}

/// The one control answer among outputs.
fn answer(outputs: &[Output<&'static str>]) -> ControlDatagram {
    let mut answers = outputs.iter().filter_map(|output| match output {
        Output::Control { bytes, .. } => Some(ControlDatagram::parse(&**bytes).unwrap().0),
        _ => None,
    });
    let answer = answers.next().expect("an answer");
    assert!(answers.next().is_none(), "one answer");
    answer
}

/// Connects a program and returns its slot.
fn connect(server: &mut TestServer, id: u32, is_sm: bool) -> u16 {
    server.handle_control(Time(0), "ctl", &connect_bytes(id, is_sm, ""));
    let answer = answer(&outputs(server));
    assert_eq!(answer.kind, ControlKind::CONNECT);
    let (connect, _) = Connect::parse(&answer.data).unwrap();
    assert_eq!(connect.node_name(), Some("h0.1"));
    u16::try_from(connect.id).unwrap()
}

fn request(tid: u64) -> DataDatagram {
    let path = [1, 2].map(PortNum::new);
    let mad = Mad::directed_smp(Method::GET, AttributeId::NODE_INFO, 0, tid, &path).unwrap();
    DataDatagram {
        dlid: Lid::PERMISSIVE,
        slid: Lid::PERMISSIVE,
        dest_qp: Qpn::SMI,
        src_qp: Qpn::SMI,
        status: 0,
        len: 256,
        mad,
    }
}

fn put(server: &mut TestServer, now: Time, slot: u16, datagram: &DataDatagram) {
    server.handle_data(now, slot, &datagram.to_bytes::<288>());
}

/// The MADs that the host is asked to send.
fn sent(outputs: &[Output<&'static str>]) -> Vec<Mad> {
    let sent = outputs.iter().filter_map(|output| match output {
        Output::Agent {
            message: ToAgent::Send(message),
            ..
        } => Some(Mad::from_bytes(*message.mad)),
        Output::Agent {
            message: ToAgent::ReadOwn(bytes),
            ..
        } => Some(Mad::from_bytes(**bytes)),
        _ => None,
    });
    sent.collect()
}

fn answered(mut mad: Mad) -> FromAgent {
    mad.set_method(Method::GET_RESP);
    mad.set_returning(true);
    unsolicited(mad)
}

fn unsolicited(mad: Mad) -> FromAgent {
    FromAgent::Received(MadMessage {
        lid: Lid::PERMISSIVE,
        qpn: Qpn::SMI,
        sl: Sl::default(),
        mad: Box::new(*mad.as_bytes()),
        way: None,
    })
}

/// The next datagram for a program.
fn read(server: &mut TestServer, slot: u16) -> Option<DataDatagram> {
    let (datagram, _) = DataDatagram::parse(server.next_data(slot)?).unwrap();
    server.data_sent(slot);
    Some(datagram)
}

#[test]
fn a_program_connects_to_this_host_and_to_no_other() {
    let mut server = server(8);
    for node in ["", "h0.1", "0x0000000000000100"] {
        server.handle_control(Time(0), "ctl", &connect_bytes(77, false, node));
        let outputs = outputs(&mut server);
        assert_eq!(answer(&outputs).kind, ControlKind::CONNECT, "{node:?}");
        assert!(outputs.contains(&Output::Open { slot: 0, id: 77 }));
    }
    server.handle_control(Time(0), "ctl", &connect_bytes(78, false, "h9"));
    assert_eq!(answer(&outputs(&mut server)).kind, ControlKind::ERROR);
}

#[test]
fn a_program_gets_the_slot_that_was_offered_unless_another_has_it() {
    let mut server = server(8);
    server.offer_slot(700);
    assert_eq!(connect(&mut server, 1, false), 700);
    assert!(server.is_connected(700));
    server.offer_slot(700);
    assert_eq!(connect(&mut server, 2, false), 0);
}

#[test]
fn slots_go_beyond_nine_and_are_used_again() {
    let mut server = server(8);
    for id in 0..u32::from(SLOTS_MAX) {
        assert_eq!(u32::from(connect(&mut server, 1000 + id, false)), id);
    }
    server.handle_control(Time(0), "ctl", &connect_bytes(1, false, ""));
    assert_eq!(answer(&outputs(&mut server)).kind, ControlKind::ERROR);
    server.program_gone(Time(0), 12);
    let gone = outputs(&mut server);
    assert_eq!(
        gone,
        [Output::AgentGone { slot: 12 }, Output::Close { slot: 12 }]
    );
    assert_eq!(connect(&mut server, 1, false), 12);
    assert_eq!(server.programs().find(|&(_, id)| id == 1), Some((12, 1)));
}

#[test]
fn only_one_program_is_subnet_manager_and_the_bit_goes_with_it() {
    let mut server = server(8);
    server.handle_control(Time(0), "ctl", &connect_bytes(1, true, ""));
    let received = outputs(&mut server);
    assert!(received.contains(&Output::Agent {
        slot: 0,
        message: ToAgent::SetIsSm(true)
    }));
    for class in [0x01, 0x81, 0x03] {
        assert!(received.contains(&Output::Agent {
            slot: 0,
            message: ToAgent::Register { class }
        }));
    }
    server.handle_control(Time(0), "ctl", &connect_bytes(2, true, ""));
    assert_eq!(answer(&outputs(&mut server)).kind, ControlKind::ERROR);
    let other = connect(&mut server, 3, false);
    server.handle_control(
        Time(0),
        "ctl",
        &control(ControlKind::SET_IS_SM, other, &[1]),
    );
    assert_eq!(answer(&outputs(&mut server)).kind, ControlKind::ERROR);
    server.handle_control(Time(0), "ctl", &control(ControlKind::SET_IS_SM, 0, &[0]));
    let received = outputs(&mut server);
    assert!(received.contains(&Output::Agent {
        slot: 0,
        message: ToAgent::SetIsSm(false)
    }));
    server.handle_control(
        Time(0),
        "ctl",
        &control(ControlKind::SET_IS_SM, other, &[1]),
    );
    assert_eq!(answer(&outputs(&mut server)).kind, ControlKind::SET_IS_SM);
    server.handle_control(
        Time(0),
        "ctl",
        &control(ControlKind::DISCONNECT, other, &[]),
    );
    let gone = outputs(&mut server);
    assert_eq!(answer(&gone).kind, ControlKind::DISCONNECT);
    assert!(
        gone.contains(&Output::AgentGone { slot: other }),
        "the host clears IsSM"
    );
}

#[test]
fn questions_about_the_host_are_answered_by_its_agent() {
    let mut server = server(8);
    let slot = connect(&mut server, 1, false);
    server.handle_control(Time(0), "me", &control(ControlKind::GET_VENDOR, slot, &[]));
    let asked = outputs(&mut server);
    let mut mad = sent(&asked)[0];
    assert_eq!(
        (mad.attr_id(), mad.hop_count()),
        (AttributeId::NODE_INFO, 0)
    );
    mad.set_smp_attribute(&NodeInfo {
        base_version: 1,
        class_version: 1,
        node_type: NodeType::ChannelAdapter,
        num_ports: 1,
        system_image_guid: Guid(1),
        node_guid: Guid(1),
        port_guid: Guid(2),
        partition_cap: 32,
        device_id: 77,
        revision: 3,
        local_port_num: PortNum::new(1),
        vendor_id: 0x02_1bed,
    });
    server.handle_agent(Time(0), slot, answered(mad));
    let reply = answer(&outputs(&mut server));
    let (vendor, _) = Vendor::parse(&reply.data).unwrap();
    assert_eq!(
        (vendor.vendor_id, vendor.part_id, vendor.hw_version),
        (0x02_1bed, 77, 3)
    );

    server.handle_control(
        Time(0),
        "me",
        &control(ControlKind::GET_PORT_INFO, slot, &[0]),
    );
    let mad = sent(&outputs(&mut server))[0];
    assert_eq!(mad.attr_id(), AttributeId::PORT_INFO);
    let mut refused = mad;
    refused.set_status(MadStatus::BAD_FIELD);
    server.handle_agent(Time(0), slot, answered(refused));
    assert_eq!(answer(&outputs(&mut server)).kind, ControlKind::ERROR);
}

#[test]
fn a_question_that_the_agent_leaves_open_is_refused_in_the_end() {
    let mut server = server(8);
    let slot = connect(&mut server, 1, false);
    server.handle_control(Time(0), "me", &control(ControlKind::GET_PKEYS, slot, &[]));
    outputs(&mut server);
    while let Some(at) = server.deadline() {
        server.tick(at);
    }
    assert_eq!(answer(&outputs(&mut server)).kind, ControlKind::ERROR);
}

#[test]
fn what_is_no_control_request_has_no_answer_and_unknown_ones_an_error() {
    let mut server = server(8);
    let slot = connect(&mut server, 1, false);
    let good = control(ControlKind::GET_GUID, slot, &[]);
    server.handle_control(Time(0), "me", &good[..79]);
    server.handle_control(Time(0), "me", &[good.as_slice(), &[0]].concat());
    server.handle_control(Time(0), "me", &[0; 80]);
    assert_eq!(
        (outputs(&mut server), server.counts().malformed),
        (vec![], 3)
    );
    for (kind, client) in [(ControlKind(11), slot), (ControlKind::GET_GUID, 9)] {
        server.handle_control(Time(0), "me", &control(kind, client, &[]));
        assert_eq!(answer(&outputs(&mut server)).kind, ControlKind::ERROR);
    }
    server.handle_control(Time(0), "me", &good);
    assert_eq!(
        answer(&outputs(&mut server)).data[..8],
        0x0100u64.to_be_bytes()
    );
}
