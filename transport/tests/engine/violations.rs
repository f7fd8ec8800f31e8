//! Each violation of a key, a bound, a right or a state, and the NAK, the completion and the event in which it
//! ends.

mod cases;

use cases::{local_cases, remote_cases, right_cases, write};
use transport::{
    Access, Data, Event, MemoryFault, QpEvent, QpState, Remote, SendOperation, Status,
};
use wire::{
    AtomicEth, Bth, ExtendedHeaders, IbaPacket, NakCode, Opcode, Operation, Psn, Reth, Service,
    Syndrome, Vl,
};

use crate::bed::{ALL, BASE, Pair, SL, Setting, request};

#[test]
fn each_violation_ends_in_its_nak_completion_and_event() {
    let cases = remote_cases().into_iter().chain(right_cases());
    for case in cases.chain(local_cases()) {
        let mut pair = Pair::new(&case.setting);
        let b = &mut pair.sides[1];
        b.post_receive(1, &[b.sge(0, 64)]);
        b.post_receive(2, &[b.sge(64, 64)]);
        // Work before it succeeds, work behind it is flushed. A SEND without data would take a receive request.
        let mut expected = vec![];
        if case.setting.access != Access::NONE {
            pair.sides[0].post(pair.now, 6, write(Remote::default()), &[]);
            expected.push((6, Status::Success));
        }
        (case.post)(&mut pair);
        let a = &mut pair.sides[0];
        a.post(pair.now, 8, SendOperation::default(), &[a.sge(0, 8)]);
        pair.settle();

        let name = case.name;
        let [a, b] = &mut pair.sides;
        let sent: Vec<(u64, Status)> = a
            .sent()
            .iter()
            .map(|done| (done.wr_id, done.status))
            .collect();
        expected.extend([(7, case.end.sent), (8, Status::Flushed)]);
        assert_eq!(sent, expected, "{name}");
        assert_eq!(a.state(), QpState::Error, "{name}");
        let naks: Vec<NakCode> = pair.syndromes[1]
            .iter()
            .filter_map(|aeth| match aeth.decoded() {
                Some(Syndrome::Nak(code)) => Some(code),
                _ => None,
            })
            .collect();
        assert_eq!(naks, case.end.nak.into_iter().collect::<Vec<_>>(), "{name}");
        let received: Vec<(u64, Status)> = b
            .received()
            .iter()
            .map(|done| (done.wr_id, done.status))
            .collect();
        let expected = match (case.end.nak, case.end.received) {
            (None, _) => vec![],
            (_, first) => vec![(1, first.unwrap_or(Status::Flushed)), (2, Status::Flushed)],
        };
        assert_eq!(received, expected, "{name}");
        let told: Vec<QpEvent> = b
            .events()
            .into_iter()
            .filter_map(|event| match event {
                Event::QueuePair { event, .. } => Some(event),
                _ => None,
            })
            .collect();
        assert_eq!(
            told,
            case.end.event.into_iter().collect::<Vec<_>>(),
            "{name}"
        );
        let state = if case.end.nak.is_some() {
            QpState::Error
        } else {
            QpState::Rts
        };
        assert_eq!(b.state(), state, "{name}");
    }
}

/// A packet as a peer that keeps no rule would send it to the second side.
fn raw(
    pair: &Pair,
    operation: Operation,
    psn: u32,
    extended: ExtendedHeaders,
    len: usize,
) -> Vec<u8> {
    let packet = IbaPacket {
        vl: Vl::constant(3),
        sl: SL,
        dlid: pair.sides[1].lid,
        slid: pair.sides[0].lid,
        global: None,
        bth: Bth {
            opcode: Opcode::new(Service::Rc, operation),
            solicited: false,
            mig_req: true,
            pad: 0,
            tver: Bth::VERSION,
            pkey: 0xffff,
            fecn: false,
            becn: false,
            dest_qp: pair.sides[1].qpn,
            ack_req: true,
            psn: Psn::truncate(psn),
        },
        extended,
    };
    let mut out = vec![0; packet.len(len)];
    let written = packet.emit_with(len, &mut out, |raw| {
        raw.fill(7);
        Ok::<(), MemoryFault>(())
    });
    written.unwrap().unwrap();
    out
}

/// An operation, its headers, the length of its payload.
type Packet = (Operation, ExtendedHeaders, usize);

/// Which NAK a sequence of packets ends in.
fn nak_of(packets: &[Packet]) -> Option<NakCode> {
    let setting = Setting::new(Service::Rc);
    let mut pair = Pair::new(&setting);
    let b = &mut pair.sides[1];
    for wr_id in 0..4 {
        b.post_receive(wr_id, &[b.sge(0, 8192)]);
    }
    for (psn, &(operation, extended, len)) in (setting.psn..).zip(packets) {
        let bytes = raw(&pair, operation, psn, extended, len);
        let _ = pair.sides[1].receive(pair.now, &bytes);
    }
    while pair.carry(1) {}
    let last = pair.syndromes[1].last()?.decoded();
    match last {
        Some(Syndrome::Nak(code)) => {
            assert_eq!(pair.sides[1].state(), QpState::Error);
            Some(code)
        }
        _ => None,
    }
}

/// The headers that packets of these tests have.
struct Headers {
    none: ExtendedHeaders,
    atomic: ExtendedHeaders,
    key: u32,
}

impl Headers {
    fn new() -> Self {
        let none = ExtendedHeaders::default();
        let key = Pair::new(&Setting::new(Service::Rc)).sides[1].key;
        let atomic = ExtendedHeaders {
            atomic: Some(AtomicEth {
                va: BASE,
                rkey: key,
                swap_or_add: 1,
                compare: 0,
            }),
            ..none
        };
        Self { none, atomic, key }
    }

    fn reth(&self, dma_len: u32) -> ExtendedHeaders {
        ExtendedHeaders {
            reth: Some(Reth {
                va: BASE,
                rkey: self.key,
                dma_len,
            }),
            ..self.none
        }
    }
}

#[test]
fn packets_out_of_place_in_a_message_are_refused() {
    use Operation as O;
    let headers = Headers::new();
    let (none, atomic) = (headers.none, headers.atomic);
    let reth = |dma_len| headers.reth(dma_len);
    let invalid: [(&str, &[Packet]); 13] = [
        ("middle without first", &[(O::SendMiddle, none, 1024)]),
        ("last without first", &[(O::SendLast, none, 8)]),
        ("last of a WRITE without first", &[(O::WriteLast, none, 8)]),
        (
            "first within a message",
            &[(O::SendFirst, none, 1024), (O::SendFirst, none, 1024)],
        ),
        (
            "only within a message",
            &[(O::SendFirst, none, 1024), (O::SendOnly, none, 8)],
        ),
        (
            "READ within a message",
            &[(O::SendFirst, none, 1024), (O::ReadRequest, reth(8), 0)],
        ),
        (
            "atomic within a message",
            &[(O::SendFirst, none, 1024), (O::FetchAdd, atomic, 0)],
        ),
        (
            "SEND ends as WRITE",
            &[(O::SendFirst, none, 1024), (O::WriteLast, none, 8)],
        ),
        (
            "WRITE ends as SEND",
            &[(O::WriteFirst, reth(2000), 1024), (O::SendLast, none, 8)],
        ),
        ("first shorter than the MTU", &[(O::SendFirst, none, 1020)]),
        ("first longer than the MTU", &[(O::SendFirst, none, 1028)]),
        ("only longer than the MTU", &[(O::SendOnly, none, 1025)]),
        (
            "last without data",
            &[(O::SendFirst, none, 1024), (O::SendLast, none, 0)],
        ),
    ];
    for (name, packets) in invalid {
        assert_eq!(nak_of(packets), Some(NakCode::InvalidRequest), "{name}");
    }
}

#[test]
fn packets_with_another_length_than_told_and_reads_beyond_the_agreed_ones_are_refused() {
    use Operation as O;
    let headers = Headers::new();
    let (none, atomic) = (headers.none, headers.atomic);
    let reth = |dma_len| headers.reth(dma_len);
    let invalid: [(&str, &[Packet]); 7] = [
        (
            "WRITE with more data than told",
            &[(O::WriteOnly, reth(7), 8)],
        ),
        (
            "WRITE with less data than told",
            &[(O::WriteOnly, reth(9), 8)],
        ),
        (
            "WRITE of several packets with less data than told",
            &[(O::WriteFirst, reth(2000), 1024), (O::WriteLast, none, 975)],
        ),
        (
            "WRITE of more than 2^31 bytes",
            &[(O::WriteFirst, reth(0x8000_0001), 1024)],
        ),
        (
            "READ of more than 2^31 bytes",
            &[(O::ReadRequest, reth(0x8000_0001), 0)],
        ),
        ("READ with data", &[(O::ReadRequest, reth(8), 4)]),
        ("atomic with data", &[(O::CompareSwap, atomic, 4)]),
    ];
    for (name, packets) in invalid {
        assert_eq!(nak_of(packets), Some(NakCode::InvalidRequest), "{name}");
    }
    let read = (O::ReadRequest, reth(8), 0);
    assert_eq!(nak_of(&[read; 4]), None, "as many as were agreed");
    assert_eq!(
        nak_of(&[read; 5]),
        Some(NakCode::InvalidRequest),
        "one READ more"
    );
}

#[test]
fn a_key_that_goes_while_a_read_is_answered_ends_it() {
    let mut pair = Pair::new(&Setting::new(Service::Rc));
    let [a, b] = &mut pair.sides;
    let read = SendOperation::Read {
        remote: b.remote(0),
    };
    a.post(pair.now, 7, read, &[a.sge(0, 3000)]);
    pair.carry(0);
    pair.carry(1);
    let key = pair.sides[1].key;
    pair.sides[1].engine.deregister_region(key).unwrap();
    pair.settle();
    assert_eq!(pair.sides[0].sent()[0].status, Status::RemoteAccess);
}

#[test]
fn a_right_that_is_taken_away_while_a_read_is_answered_ends_it() {
    let mut pair = Pair::new(&Setting {
        region: ALL.with(Access::REMOTE_INVALIDATE),
        ..Setting::new(Service::Rc)
    });
    // The first message learns of receive requests for two more: the READ counts as a message too.
    let [a, b] = &mut pair.sides;
    for wr_id in 0..3 {
        b.post_receive(wr_id, &[]);
    }
    a.post(pair.now, 6, SendOperation::default(), &[]);
    pair.settle();
    let [a, b] = &mut pair.sides;
    assert_eq!((a.sent().len(), b.received().len()), (1, 1));
    let read = SendOperation::Read {
        remote: b.remote(0),
    };
    a.post(pair.now, 7, read, &[a.sge(0, 3000)]);
    let rkey = b.key;
    a.post(pair.now, 8, SendOperation::SendInvalidate { rkey }, &[]);
    // Both requests, and a packet of the answer.
    assert!(pair.carry(0) && pair.carry(0) && !pair.carry(0));
    assert_eq!(pair.sides[1].received()[0].invalidated, Some(rkey));
    pair.settle();
    let sent = pair.sides[0].sent();
    assert_eq!((sent[0].wr_id, sent[0].status), (7, Status::RemoteAccess));
}

#[test]
fn answers_that_make_no_sense_end_the_request() {
    let cases: [(Operation, usize); 4] = [
        (Operation::ReadResponseOnly, 8),
        (Operation::ReadResponseFirst, 1020),
        (Operation::ReadResponseLast, 1024),
        (Operation::AtomicAcknowledge, 0),
    ];
    for (operation, len) in cases {
        let setting = Setting::new(Service::Rc);
        let mut pair = Pair::new(&setting);
        let [a, b] = &mut pair.sides;
        // The second side reads from the first, whose answer is another one.
        let read = SendOperation::Read {
            remote: a.remote(0),
        };
        b.post(pair.now, 7, read, &[b.sge(0, 3000)]);
        b.transmit(pair.now).unwrap();
        let extended = ExtendedHeaders {
            aeth: Some(wire::Aeth {
                syndrome: 0x1f,
                msn: 1,
            }),
            atomic_ack: Some(wire::AtomicAckEth { original: 0 }),
            ..ExtendedHeaders::default()
        };
        let bytes = raw(&pair, operation, setting.psn, extended, len);
        let _ = pair.sides[1].receive(pair.now, &bytes);
        let sent = pair.sides[1].sent();
        assert_eq!(sent[0].status, Status::BadResponse, "{operation:?}");
    }
}

#[test]
fn requests_that_no_queue_pair_could_serve_are_refused_when_they_are_posted() {
    let mut pair = Pair::new(&Setting::new(Service::Rc));
    let a = &mut pair.sides[0];
    let piece = a.sge(0, 8);
    let remote = a.remote(0);
    let many = [piece; 5];
    let mut huge = [piece; 3];
    huge.iter_mut().for_each(|sge| sge.length = 1 << 30);
    let refused = [
        request(1, SendOperation::default(), Data::Scattered(&many)),
        request(2, SendOperation::default(), Data::Scattered(&huge)),
        request(
            3,
            SendOperation::FetchAdd { remote, add: 1 },
            Data::Scattered(&many[..2]),
        ),
        request(4, SendOperation::Read { remote }, Data::Inline(&[])),
    ];
    for request in refused {
        assert!(
            a.engine.post_send(pair.now, a.qpn, &request).is_err(),
            "{}",
            request.wr_id
        );
    }
    assert!(a.sent().is_empty());
    let mut pair = Pair::new(&Setting::new(Service::Uc));
    let a = &mut pair.sides[0];
    for operation in [
        SendOperation::Read { remote },
        SendOperation::FetchAdd { remote, add: 1 },
        SendOperation::SendInvalidate { rkey: 1 },
    ] {
        let sges = [piece];
        let request = request(1, operation, Data::Scattered(&sges));
        assert!(a.engine.post_send(pair.now, a.qpn, &request).is_err());
    }
}
