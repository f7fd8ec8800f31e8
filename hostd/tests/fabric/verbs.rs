//! Verbs of programs beside hosts: connections, datagrams, groups, contexts that end.

use hostd::{Command, Event, FromVerbs, Object, ToVerbs};
use link::DropReason;
use uverbs::entry::{Data, Send, opcode, wc_flag};
use uverbs::{AddressAttributes, GlobalAttributes, QpInit, Reply, Request, errno};
use wire::PortNum;
use wire::attr::{MulticastForwardingTable, PortState};
use wire::control::{DeviceReply, DeviceRequest};
use wire::mad::{AttributeId, MadStatus, Method};

use crate::lab::*;
use crate::manage::set_port;

#[test]
fn a_connection_sends_writes_reads_and_does_atomics_in_the_memory_of_programs() {
    let mut lab = Lab::star(2);
    let [a, b] = lab.pair();
    let text: Vec<u8> = (0..20_000u32).map(|n| n.to_le_bytes()[0]).collect();
    lab.put(a.0, 0, &text);
    lab.receive(b, vec![receive(1, piece(b.0, 30_000, 20_000))]);
    let mut send = request(
        2,
        opcode::SEND_WITH_IMM,
        Data::Pieces(vec![piece(a.0, 0, 20_000)]),
    );
    send.immediate = 0xabcd;
    lab.send(a, vec![send]);
    let got = lab.completion(b.0);
    assert_eq!((got.wr_id, got.status, got.opcode), (1, SUCCESS, 128));
    assert_eq!((got.byte_len, got.qpn, got.retired), (20_000, b.1, 1));
    assert_eq!((got.immediate, got.flags), (0xabcd, wc_flag::WITH_IMM));
    assert_eq!(lab.get(b.0, 30_000, 20_000), text);
    assert_eq!(lab.completion(a.0).wr_id, 2);

    let remote = |mut send: Send, at: u64| {
        (send.remote_address, send.rkey) = (BASE + at, b.0.key);
        send
    };
    // Of three, the last one has a completion: it frees the places of all.
    let quiet = |wr_id| Send {
        flags: 0,
        ..remote(
            request(wr_id, opcode::RDMA_WRITE, Data::Inline(b"inline".to_vec())),
            wr_id,
        )
    };
    let last = request(9, opcode::RDMA_WRITE, Data::Pieces(vec![piece(a.0, 5, 10)]));
    lab.send(a, vec![quiet(0), quiet(6), remote(last, 12)]);
    let done = lab.completion(a.0);
    assert_eq!((done.wr_id, done.status, done.retired), (9, SUCCESS, 3));
    let expected = [b"inlineinline".as_slice(), &text[5..15]].concat();
    assert_eq!(lab.get(b.0, 0, 22), expected);

    let read = request(
        3,
        opcode::RDMA_READ,
        Data::Pieces(vec![piece(a.0, 50_000, 9_000)]),
    );
    lab.send(a, vec![remote(read, 30_000)]);
    assert_eq!(lab.completion(a.0).status, SUCCESS);
    assert_eq!(lab.get(a.0, 50_000, 9_000), text[..9_000]);

    lab.put(b.0, 64, &40u64.to_ne_bytes());
    let result = || Data::Pieces(vec![piece(a.0, 80, 8)]);
    let mut add = remote(request(4, opcode::ATOMIC_FETCH_AND_ADD, result()), 64);
    add.compare_add = 2;
    let mut swap = remote(request(5, opcode::ATOMIC_CMP_AND_SWP, result()), 64);
    (swap.compare_add, swap.swap) = (42, 7);
    lab.send(a, vec![add]);
    assert_eq!(lab.completion(a.0).opcode, 4);
    assert_eq!(lab.get(a.0, 80, 8), 40u64.to_ne_bytes());
    lab.send(a, vec![swap]);
    assert_eq!(lab.completion(a.0).status, SUCCESS);
    assert_eq!(lab.get(a.0, 80, 8), 42u64.to_ne_bytes());
    assert_eq!(lab.get(b.0, 64, 8), 7u64.to_ne_bytes());
}

#[test]
fn memory_that_a_program_has_not_registered_is_out_of_reach() {
    let mut lab = Lab::star(2);
    let [a, b] = lab.pair();
    // Another program on the same host as the peer, with a region of its own.
    let stranger = lab.program(1, 300);
    let mut write = request(1, opcode::RDMA_WRITE, Data::Inline(b"x".to_vec()));
    (write.remote_address, write.rkey) = (BASE, stranger.key);
    lab.send(a, vec![write.clone(), write]);
    let statuses: Vec<u32> = std::iter::from_fn(|| Some(lab.completions(a.0)))
        .flatten()
        .map(|done| done.status)
        .take(2)
        .collect();
    assert_eq!(statuses, [REMOTE_ACCESS, FLUSHED]);
    assert_eq!(lab.get(stranger, 0, 1), [0]);
    // The peer's program is told of the violation.
    let event = lab.heard((1, b.0.client), |message| match *message {
        FromVerbs::Event { kind, of } => Some((kind, of)),
        _ => None,
    });
    assert_eq!(event, (3, Object::QueuePair(b.1)));

    // Nor can a context name what another one has made.
    let refused = [
        Request::DeallocPd { pd: b.0.pd },
        Request::DeregMr { key: b.0.key },
        Request::DestroyCq { cq: b.0.cq },
        Request::DestroyQp { qpn: b.1 },
        Request::QueryQp { qpn: b.1 },
        register(b.0.pd, ALL),
        Request::CreateQp(Box::new(init(b.0, RC))),
    ];
    for request in refused {
        let reply = lab.ask(1, stranger.client, request.clone());
        let is_absent = matches!(reply, Reply::Refused { errno, .. } if errno == errno::ENOENT);
        assert!(is_absent, "{request:?}: {reply:?}");
    }
    let posted = ToVerbs::Send {
        qpn: b.1,
        requests: vec![request(1, opcode::SEND, Data::Inline(vec![1]))],
    };
    lab.tell(1, stranger.client, posted);
    lab.bed.run(1_000_000);
}

#[test]
fn a_context_that_ends_takes_all_it_has_made_with_it() {
    let mut lab = Lab::star(2);
    let [a, b] = lab.pair();
    let srq = Request::CreateSrq {
        pd: b.0.pd,
        max_wr: 8,
        max_sge: 1,
        cookie: 0,
    };
    lab.handle((1, b.0.client), srq);
    let attributes = AddressAttributes {
        dlid: 1,
        port_num: 1,
        ..AddressAttributes::default()
    };
    let pd = b.0.pd;
    lab.handle((1, b.0.client), Request::CreateAh { pd, attributes });
    lab.receive(b, vec![receive(1, piece(b.0, 0, 100))]);
    let client = b.0.client;
    lab.bed.command(1, Command::VerbsGone { client });
    // The program's memory goes with it.
    lab.spaces.0.lock().unwrap().remove(&client.0);
    lab.send(a, vec![request(1, opcode::SEND, Data::Inline(vec![1; 9]))]);
    let done = lab.completion(a.0);
    assert_eq!((done.wr_id, done.status), (1, RETRY_EXCEEDED));
    assert_eq!(lab.drops(1, DropReason::NoQueuePair), 8);
    let reply = lab.ask(1, client, Request::AllocPd);
    assert!(matches!(reply, Reply::Refused { .. }), "{reply:?}");
    // Its number can be another context's, which has nothing.
    let again = lab.program(1, client.0);
    let reply = lab.ask(1, client, Request::DestroyQp { qpn: b.1 });
    assert!(matches!(reply, Reply::Refused { .. }), "{reply:?}");
    assert_ne!(again.key, b.0.key);
}

#[test]
fn a_connection_survives_a_pulled_cable_by_its_retries() {
    let mut lab = Lab::star(2);
    let [a, b] = lab.pair();
    let plug = |lab: &mut Lab, plugged| {
        let port = PortNum::new(1);
        let reply = lab
            .bed
            .ask_device(1, DeviceRequest::Cable { port, plugged });
        assert_eq!(reply, DeviceReply::Done);
    };
    for number in 0..8 {
        let place = piece(b.0, number * 4_000, 4_000);
        lab.receive(b, vec![receive(number, place)]);
    }
    plug(&mut lab, false);
    let text = vec![9; 4_000];
    lab.put(a.0, 0, &text);
    let sends = (0..8).map(|wr_id| {
        let data = Data::Pieces(vec![piece(a.0, 0, 4_000)]);
        request(wr_id, opcode::SEND, data)
    });
    lab.send(a, sends.collect());
    lab.bed.run(20_000_000);
    plug(&mut lab, true);
    lab.bed.settle();
    for state in [PortState::Armed, PortState::Active] {
        for (path, port) in [([1, 2].as_slice(), 1), (&[1], 2)] {
            set_port(&mut lab.bed, path, port, |info| info.port_state = state);
        }
    }
    let mut received = Vec::new();
    while received.len() < 8 {
        received.extend(lab.completions(b.0));
    }
    let names: Vec<u64> = received.iter().map(|done| done.wr_id).collect();
    assert_eq!(
        names,
        (0..8).collect::<Vec<u64>>(),
        "each once and in order"
    );
    assert!(received.iter().all(|done| done.status == SUCCESS));
    assert_eq!(lab.get(b.0, 28_000, 4_000), text);
    let down_and_up: Vec<u32> = (0..2)
        .map(|_| {
            lab.heard((1, b.0.client), |message| match *message {
                FromVerbs::Event {
                    kind,
                    of: Object::Port,
                } if kind == 9 || kind == 10 => Some(kind),
                _ => None,
            })
        })
        .collect();
    assert_eq!(down_and_up, [10, 9]);
}

#[test]
fn queue_pairs_of_one_host_are_connected_without_the_link() {
    let mut lab = Lab::star(1);
    let program = lab.program(0, 5);
    let ends = [0; 2].map(|_| (program, lab.qp(program, RC)));
    lab.connect(ends[0], ends[1]);
    let text: Vec<u8> = (0..30_000u32).map(|n| n.to_le_bytes()[1]).collect();
    lab.put(program, 0, &text);
    let mut write = request(
        1,
        opcode::RDMA_WRITE,
        Data::Pieces(vec![piece(program, 0, 30_000)]),
    );
    (write.remote_address, write.rkey) = (BASE + 30_000, program.key);
    lab.send(ends[0], vec![write]);
    assert_eq!(lab.completion(program).status, SUCCESS);
    assert_eq!(lab.get(program, 30_000, 30_000), text);
}

#[test]
fn a_multicast_datagram_reaches_every_attached_queue_pair_once() {
    let mut lab = Lab::star(3);
    let mut table = MulticastForwardingTable::default();
    table.0[1] = 0b111 << 1;
    let id = AttributeId::MULTICAST_FORWARDING_TABLE;
    let answer = lab.bed.directed(Method::SET, id, 0, &[1], |mad| {
        mad.set_smp_attribute(&table);
    });
    assert_eq!(answer.status().without_direction(), MadStatus::OK);
    // Two listeners beside the sender's host, one on another, and one that is not attached.
    let listeners = [(0, 10), (0, 11), (1, 12), (2, 13)].map(|(host, number)| {
        let program = lab.program(host, number);
        (program, ready(&mut lab, program))
    });
    for &(program, qpn) in &listeners[..3] {
        let gid = GROUP.0;
        let reply = lab.ask(
            program.host,
            program.client,
            Request::AttachMcast { qpn, gid },
        );
        assert_eq!(reply, Reply::Done);
    }
    for end in listeners {
        lab.receive(end, vec![receive(1, piece(end.0, 0, 2_000))]);
    }
    let (sender, qpn) = listeners[0];
    let attributes = AddressAttributes {
        dlid: 0xc001,
        port_num: 1,
        global: Some(GlobalAttributes {
            dgid: GROUP.0,
            hop_limit: 1,
            ..GlobalAttributes::default()
        }),
        ..AddressAttributes::default()
    };
    let pd = sender.pd;
    let handle = lab.handle((0, sender.client), Request::CreateAh { pd, attributes });
    let datagram = Send {
        handle,
        remote_qpn: 0xff_ffff,
        remote_qkey: QKEY,
        ..request(9, opcode::SEND, Data::Inline(b"to all".to_vec()))
    };
    lab.send((sender, qpn), vec![datagram]);
    for (end, _) in &listeners[1..3] {
        let got = lab.completion(*end);
        assert_eq!((got.wr_id, got.status, got.byte_len), (1, SUCCESS, 46));
        assert_eq!((got.src_qp, got.slid, got.flags), (qpn, 1, wc_flag::GRH));
        assert_eq!(lab.get(*end, 40, 6), b"to all");
    }
    let mut own = Vec::new();
    while own.len() < 2 {
        own.extend(lab.completions(sender));
    }
    let kinds: Vec<u32> = own.iter().map(|done| done.opcode).collect();
    assert!(kinds.contains(&0) && kinds.contains(&128), "{kinds:?}");
    lab.bed.run(10_000_000);
    let (deaf, _) = listeners[3];
    let silent =
        |event: &Event| !matches!(event, Event::Verbs { client, .. } if *client == deaf.client);
    assert!(lab.bed.events[2].iter().all(silent));
}

#[test]
fn what_a_library_does_not_let_through_completes_in_error() {
    let mut lab = Lab::star(2);
    let [a, _] = lab.pair();
    let bad = [
        request(1, 99, Data::Inline(vec![1])),
        request(2, opcode::SEND, Data::Inline(vec![1; 65])),
        request(3, opcode::SEND, Data::Pieces(vec![piece(a.0, 0, 1); 3])),
    ];
    lab.send(a, bad.to_vec());
    let mut statuses = Vec::new();
    while statuses.len() < 3 {
        let completions = lab.completions(a.0);
        statuses.extend(completions.iter().map(|done| (done.wr_id, done.status)));
    }
    assert_eq!(statuses, [(1, 2), (2, 2), (3, 2)]);
    let (program, qpn) = a;
    let cq = program.cq;
    lab.tell(0, program.client, ToVerbs::Overrun { cq });
    let mut events = Vec::new();
    while events.len() < 2 {
        events.push(lab.heard((0, program.client), |message| match *message {
            FromVerbs::Event { kind, of } if of != Object::Port => Some((kind, of)),
            _ => None,
        }));
    }
    assert_eq!(events, [(0, Object::Cq(cq)), (1, Object::QueuePair(qpn))]);
    let Reply::QpAttributes(now) = lab.ask(0, program.client, Request::QueryQp { qpn }) else {
        panic!("no attributes");
    };
    assert_eq!(now.qp_state, 6);
}

#[test]
fn limits_of_a_context_are_told_as_such() {
    let mut lab = Lab::star(1);
    let program = lab.program(0, 1);
    let of = (0, program.client);
    let with = |change: &dyn Fn(&mut QpInit)| {
        let mut init = init(program, RC);
        change(&mut init);
        Request::CreateQp(Box::new(init))
    };
    let mut refuse = |request: Request, errno: u16| {
        let reply = lab.ask(of.0, of.1, request.clone());
        let told = matches!(reply, Reply::Refused { errno: told, .. } if told == errno);
        assert!(told, "{request:?}: {reply:?}");
    };
    refuse(with(&|init| init.qp_type = 8), errno::EOPNOTSUPP);
    refuse(with(&|init| init.qp_type = 10), errno::EOPNOTSUPP);
    refuse(with(&|init| init.cap.max_send_wr = u32::MAX), errno::EINVAL);
    refuse(create_cq(0), errno::EINVAL);
    refuse(create_cq(u32::MAX), errno::EINVAL);
    refuse(register(program.pd, 1 << 4), errno::EOPNOTSUPP);
    refuse(register(program.pd, 2), errno::EINVAL);
    refuse(Request::DeallocPd { pd: program.pd }, errno::EBUSY);
    refuse(Request::CreateChannel, errno::EINVAL);
    let mut made = 0;
    while let Reply::Cq { .. } = lab.ask(of.0, of.1, create_cq(1 << 18)) {
        made += 1;
    }
    assert_eq!(made, 15, "four million completions in all");
}
