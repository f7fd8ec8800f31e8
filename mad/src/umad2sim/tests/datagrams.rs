//! Datagrams of programs and of the fabric.

use super::*;

#[test]
fn an_answer_goes_to_the_requester_with_addresses_turned_round() {
    let mut server = server(8);
    let slots = [
        connect(&mut server, 1, false),
        connect(&mut server, 2, false),
    ];
    for slot in slots {
        put(&mut server, Time(0), slot, &request(0xffff_0005_0000_0007));
    }
    let mads = sent(&outputs(&mut server));
    for (slot, mad) in slots.into_iter().zip(mads) {
        assert_eq!(mad.tid(), u64::from(slot) << 48 | 0x0005_0000_0007);
        assert_eq!(mad.hop_pointer(), 0);
        server.handle_agent(Time(5), slot, answered(mad));
        server.handle_agent(Time(6), slot, answered(mad));
        let got = read(&mut server, slot).unwrap();
        assert_eq!((got.mad.tid(), got.status, got.len), (mad.tid(), 0, 256));
        assert_eq!(got.dlid, Lid::PERMISSIVE);
        assert!(
            read(&mut server, slot).is_none(),
            "the second answer is dropped"
        );
    }
    assert_eq!((server.counts().unexpected, server.deadline()), (2, None));
}

#[test]
fn a_table_of_one_segment_is_as_long_as_its_records() {
    for (flags, data2, len) in [
        (0b111, 20 + 32, 36 + 20 + 32),
        (0b111, 20, 56),
        (0b111, 60_000, 256),
        (0b011, 900, 256),
        (0b000, 20, 256),
    ] {
        let mut server = server(8);
        let slot = connect(&mut server, 1, false);
        let mut asked = request(7);
        asked.mad = Mad::sa(Method::GET_TABLE, AttributeId::NODE_RECORD, 0, 7);
        put(&mut server, Time(0), slot, &asked);
        let mut answer = sent(&outputs(&mut server))[0];
        answer.set_method(Method::GET_TABLE_RESP);
        let mut header = answer.sa_header().unwrap();
        header.rmpp.kind = RmppKind::Data;
        (header.rmpp.flags, header.rmpp.data2) = (flags, data2);
        answer.set_sa_header(&header);
        server.handle_agent(Time(1), slot, unsolicited(answer));
        assert_eq!(read(&mut server, slot).unwrap().len, len);
    }
}

#[test]
fn a_silent_fabric_gives_every_request_back_after_three_tries() {
    let mut server = server(8);
    let slot = connect(&mut server, 1, false);
    put(&mut server, Time(0), slot, &request(7));
    let mut tries = sent(&outputs(&mut server)).len();
    for at in [200 * MS, 400 * MS] {
        assert_eq!(server.deadline(), Some(Time(at)));
        server.tick(Time(at));
        tries += sent(&outputs(&mut server)).len();
        assert!(server.next_data(slot).is_none());
    }
    server.tick(Time(600 * MS));
    let back = read(&mut server, slot).unwrap();
    assert_eq!(tries, 3);
    assert_eq!(back.status, DataDatagram::TIMED_OUT);
    assert_eq!(
        back.mad.method(),
        Method::GET,
        "the request itself, no answer"
    );
    assert_eq!((server.deadline(), server.counts().timed_out), (None, 1));
}

#[test]
fn no_more_requests_than_allowed_are_under_way_and_none_is_forgotten() {
    let mut server = server(3);
    let slot = connect(&mut server, 1, false);
    for tid in 0..10 {
        put(&mut server, Time(0), slot, &request(tid));
    }
    let mut order = Vec::new();
    let mut fabric: VecDeque<Mad> = sent(&outputs(&mut server)).into();
    assert_eq!(fabric.len(), 3);
    while let Some(mad) = fabric.pop_front() {
        order.push(mad.tid());
        server.handle_agent(Time(1), slot, answered(mad));
        fabric.extend(sent(&outputs(&mut server)));
    }
    assert_eq!(order, (0..10).collect::<Vec<u64>>());
    assert_eq!(std::iter::from_fn(|| read(&mut server, slot)).count(), 10);
}

#[test]
fn requests_and_traps_reach_the_subnet_manager_only_and_of_its_classes_only() {
    let mut server = server(8);
    let manager = connect(&mut server, 1, true);
    let other = connect(&mut server, 2, false);
    let trap = Mad::lid_smp(Method::TRAP, AttributeId::NOTICE, 0, 5);
    server.handle_agent(Time(0), other, unsolicited(trap));
    assert!(server.next_data(other).is_none());
    server.handle_agent(Time(0), manager, unsolicited(trap));
    let got = read(&mut server, manager).unwrap();
    assert_eq!(got.mad, trap, "as it came");
    let foreign = Mad::pma(Method::GET, AttributeId::PORT_COUNTERS, 0, 5);
    server.handle_agent(Time(0), manager, unsolicited(foreign));
    assert!(server.next_data(manager).is_none());
    assert_eq!(server.counts().unexpected, 2);
}

#[test]
fn what_has_no_answer_is_passed_on_and_not_waited_for() {
    let mut server = server(8);
    let manager = connect(&mut server, 1, true);
    for method in [Method::TRAP_REPRESS, Method::GET_RESP, Method::SEND] {
        let mut datagram = request(0x1234_5678_9abc_def0);
        datagram.mad.set_method(method);
        put(&mut server, Time(0), manager, &datagram);
        let mads = sent(&outputs(&mut server));
        assert_eq!(mads, [datagram.mad], "{method}: as it came");
    }
    assert_eq!(server.deadline(), None);
}

fn trap(tid: u64) -> DataDatagram {
    let mut datagram = request(tid);
    datagram.dlid = Lid::new(3);
    datagram.mad = Mad::lid_smp(Method::TRAP, AttributeId::NOTICE, 0, tid);
    datagram
}

#[test]
fn a_trap_is_waited_for_until_it_is_repressed() {
    let mut server = server(8);
    let manager = connect(&mut server, 1, true);
    put(&mut server, Time(0), manager, &trap(7));
    let mut repress = sent(&outputs(&mut server))[0];
    repress.set_method(Method::TRAP_REPRESS);
    server.handle_agent(Time(1), manager, unsolicited(repress));
    assert_eq!(read(&mut server, manager).unwrap().mad, repress);
    assert_eq!(server.deadline(), None);
}

#[test]
fn a_trap_that_is_not_repressed_comes_back_as_timed_out() {
    let mut server = server(8);
    let manager = connect(&mut server, 1, true);
    put(&mut server, Time(0), manager, &trap(7));
    while let Some(at) = server.deadline() {
        server.tick(at);
    }
    let back = read(&mut server, manager).unwrap();
    assert_eq!(back.status, DataDatagram::TIMED_OUT);
    assert_eq!(back.mad.method(), Method::TRAP);
}

#[test]
fn a_program_that_does_not_read_holds_no_other_up() {
    let mut server = server(8);
    let (slow, quick) = (
        connect(&mut server, 1, false),
        connect(&mut server, 2, false),
    );
    let ask = |server: &mut TestServer, slot: u16, tid: u64| {
        put(server, Time(0), slot, &request(tid));
        for mad in sent(&outputs(server)) {
            server.handle_agent(Time(0), slot, answered(mad));
        }
    };
    for tid in 0..=u64::try_from(QUEUE_MAX).unwrap() {
        ask(&mut server, slow, tid);
    }
    for tid in 0..u64::try_from(QUEUE_MIN).unwrap() {
        ask(&mut server, quick, tid);
    }
    assert_eq!(server.counts().queue_full, 1);
    assert!(read(&mut server, quick).is_some());
    for tid in 1000..1002 {
        ask(&mut server, quick, tid);
    }
    assert_eq!(
        server.counts().queue_full,
        2,
        "all together hold as many as they may"
    );
}

#[test]
fn a_program_that_dies_leaves_nothing_behind() {
    let mut server = server(2);
    let (dead, alive) = (
        connect(&mut server, 1, true),
        connect(&mut server, 2, false),
    );
    for tid in 0..5 {
        put(&mut server, Time(0), dead, &request(tid));
    }
    put(&mut server, Time(0), alive, &request(9));
    outputs(&mut server);
    server.program_gone(Time(1), dead);
    let after = outputs(&mut server);
    assert!(after.contains(&Output::AgentGone { slot: dead }));
    assert_eq!(sent(&after).len(), 1, "the living one's request moves up");
    put(&mut server, Time(1), dead, &request(1));
    assert_eq!(server.counts().malformed, 1);
    assert_eq!(connect(&mut server, 3, true), dead);
}

#[test]
fn what_a_flood_leaves_to_be_done_is_bounded() {
    let mut server = server(4);
    let slot = connect(&mut server, 1, false);
    let mut report = request(1);
    report.mad.set_method(Method::SEND);
    let guid = control(ControlKind::GET_GUID, slot, &[]);
    let datagrams = 2 * OUTPUTS_MAX;
    for _ in 0..datagrams / 2 {
        put(&mut server, Time(1), slot, &report);
        server.handle_control(Time(1), "ctl", &guid);
    }
    assert_eq!(outputs(&mut server).len(), OUTPUTS_MAX);
    let dropped = datagrams - OUTPUTS_MAX;
    assert_eq!(server.counts().overloaded, dropped as u64);
    server.handle_control(Time(2), "ctl", &guid);
    assert_eq!(answer(&outputs(&mut server)).kind, ControlKind::GET_GUID);
}
