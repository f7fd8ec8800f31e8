use link::Time;
use wire::mad::{AttributeId, Mad, Method, MgmtClass};
use wire::umad::UserMadHeader;
use wire::{Format, Lid, PortNum, Qpn, Sl};

use super::*;
use crate::local::{MadMessage, Registration};

mod transfers;

const MS: u64 = 1_000_000;
/// The lengths of a user MAD's header and of one with a datagram.
const HEAD: usize = UserMadHeader::LEN;
const WHOLE: usize = HEAD + Mad::LEN;

fn agent(class: MgmtClass, version: u8, rmpp_version: u8, methods: &[Method]) -> AgentRequest {
    AgentRequest {
        class: class.0,
        version,
        qpn: u8::from(!class.is_subnet_management()),
        oui: [0, 0x14, 5],
        rmpp_version,
        user_rmpp: false,
        methods: methods.iter().map(|method| 1 << method.0).sum(),
    }
}

/// A server, one descriptor of port 1, and what it has told the host.
struct Bed {
    server: Server,
    descriptor: u32,
}

impl Bed {
    fn new() -> Self {
        let mut server = Server::new(1);
        let descriptor = server.open(PortNum::new(1)).unwrap();
        let mut bed = Self { server, descriptor };
        assert!(matches!(
            bed.outputs()[..],
            [Output::Agent {
                message: ToAgent::Attach { .. },
                ..
            }]
        ));
        bed
    }

    fn outputs(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.server.poll_output()).collect()
    }

    /// Registers an agent; the host has room for it.
    fn register(&mut self, wanted: AgentRequest) -> Result<u32, Refusal> {
        self.server.register(7, self.descriptor, wanted);
        let mut outputs = self.outputs();
        if let [
            Output::Agent {
                message: ToAgent::RegisterMethods(Registration { class, .. }),
                ..
            },
        ] = outputs[..]
        {
            let registered = true;
            let message = FromAgent::Registered { class, registered };
            self.server.handle_agent(Time(0), self.descriptor, message);
            outputs = self.outputs();
        }
        match outputs[..] {
            [
                Output::Reply {
                    request: 7,
                    reply: Reply::Registered { agent },
                },
            ] => Ok(agent),
            [
                Output::Reply {
                    request: 7,
                    reply: Reply::Refused(refusal),
                },
            ] => Err(refusal),
            _ => panic!("{outputs:?}"),
        }
    }

    fn send(&mut self, now: u64, header: UserMadHeader, mad: &[u8]) {
        let bytes = agents::user_mad(&header, mad);
        self.server.handle_data(Time(now), self.descriptor, &bytes);
    }

    /// The MADs that the host has been told to send.
    fn sent(&mut self) -> Vec<Mad> {
        let sent = self.outputs().into_iter().map(|output| match output {
            Output::Agent {
                message: ToAgent::Send(message),
                ..
            } => Mad::from_bytes(*message.mad),
            other => panic!("{other:?}"),
        });
        sent.collect()
    }

    fn receive(&mut self, now: u64, mad: &Mad) {
        let message = FromAgent::Received(MadMessage {
            lid: Lid::new(9),
            qpn: Qpn::GSI,
            sl: Sl::default(),
            mad: Box::new(*mad.as_bytes()),
            way: None,
        });
        self.server
            .handle_agent(Time(now), self.descriptor, message);
    }

    /// What the program reads next.
    fn read(&mut self) -> Option<(UserMadHeader, Vec<u8>)> {
        let bytes = self.server.next_data(self.descriptor)?.to_vec();
        self.server.data_sent(self.descriptor);
        let (header, mad) = UserMadHeader::parse(&bytes).unwrap();
        assert_eq!(usize::try_from(header.length).unwrap(), bytes.len());
        Some((header, mad.to_vec()))
    }
}

fn to(agent: u32, timeout_ms: u32, retries: u32) -> UserMadHeader {
    UserMadHeader {
        agent,
        timeout_ms,
        retries,
        lid: 9,
        qpn: 1,
        ..UserMadHeader::default()
    }
}

fn query(tid: u64) -> Mad {
    Mad::sa(Method::GET_TABLE, AttributeId::NODE_RECORD, 0, tid)
}

fn answer_to(mad: &Mad) -> Mad {
    let mut answer = *mad;
    answer.set_method(Method(mad.method().0 | 0x80));
    answer
}

#[test]
fn an_answer_comes_to_the_agent_that_has_asked_with_its_transaction_id() {
    let mut bed = Bed::new();
    let sa = agent(MgmtClass::SUBN_ADM, 2, 0, &[]);
    let agents = [(); 2].map(|()| bed.register(sa).unwrap());
    assert_eq!(agents, [0, 1]);
    for agent in agents {
        bed.send(
            0,
            to(agent, 100, 0),
            query(0xaaaa_bbbb_0000_0001).as_bytes(),
        );
    }
    let sent = bed.sent();
    assert_ne!(sent[0].tid(), sent[1].tid(), "the agents' ids are apart");
    for (agent, mad) in agents.into_iter().zip(&sent).rev() {
        bed.receive(5, &answer_to(mad));
        let (header, mad) = bed.read().unwrap();
        assert_eq!((header.agent, header.status, header.lid), (agent, 0, 9));
        assert_eq!(mad.len(), Mad::LEN);
        assert_eq!(mad[8..16], 0xaaaa_bbbb_0000_0001u64.to_be_bytes());
        // A second answer finds no request.
        bed.receive(6, &answer_to(&sent[0]));
    }
    assert!(bed.read().is_none() && bed.server.deadline().is_none());
    assert_eq!(bed.server.counts().unexpected, 2);
}

#[test]
fn a_request_without_an_answer_is_sent_again_and_then_comes_back() {
    let mut bed = Bed::new();
    let number = bed.register(agent(MgmtClass::PERF, 1, 0, &[])).unwrap();
    let mut mad = query(5);
    mad.as_bytes_mut()[1] = MgmtClass::PERF.0;
    bed.send(0, to(number, 100, 2), mad.as_bytes());
    let first = bed.sent();
    for at in [100, 200] {
        assert_eq!(bed.server.deadline(), Some(Time(at * MS)));
        bed.server.tick(Time(at * MS));
        assert_eq!(bed.sent(), first);
        assert!(bed.read().is_none());
    }
    bed.server.tick(Time(300 * MS));
    let (header, mad) = bed.read().unwrap();
    assert_eq!(header.status, UserMadHeader::TIMED_OUT);
    assert_eq!(
        (mad.len(), u64::from(mad[15])),
        (24, 5),
        "as from the kernel"
    );
    // Too late.
    bed.receive(301 * MS, &answer_to(&first[0]));
    assert!(bed.read().is_none());
    // A request without a timeout is not kept, so an answer finds none.
    bed.send(0, to(number, 0, 2), first[0].as_bytes());
    assert_eq!(bed.sent().len(), 1);
    assert_eq!(bed.server.deadline(), None);
}

#[test]
fn registrations_out_of_range_are_refused() {
    let mut bed = Bed::new();
    let good = agent(MgmtClass::PERF, 1, 0, &[Method::GET]);
    let vendor = agent(MgmtClass(0x32), 1, 1, &[Method::GET]);
    let bad = [
        AgentRequest {
            class: 0x50,
            ..good
        },
        AgentRequest {
            class: 0x80,
            ..good
        },
        AgentRequest {
            version: 0x83,
            ..good
        },
        AgentRequest { qpn: 2, ..good },
        AgentRequest { qpn: 0, ..good },
        AgentRequest {
            rmpp_version: 2,
            ..vendor
        },
        AgentRequest {
            rmpp_version: 1,
            ..good
        },
        AgentRequest {
            user_rmpp: true,
            ..good
        },
        AgentRequest {
            oui: [0; 3],
            ..vendor
        },
        AgentRequest {
            class: 0x81,
            ..good
        },
        AgentRequest {
            class: 0,
            user_rmpp: true,
            ..good
        },
    ];
    for wanted in bad {
        assert_eq!(bed.register(wanted), Err(Refusal::Invalid), "{wanted:?}");
    }
}

#[test]
fn a_registration_that_the_host_refuses_leaves_no_agent() {
    let mut bed = Bed::new();
    let good = agent(MgmtClass::PERF, 1, 0, &[Method::GET]);
    // Another client has the class.
    bed.server.register(1, bed.descriptor, good);
    let _asked = bed.outputs();
    let (class, registered) = (good.class, false);
    let message = FromAgent::Registered { class, registered };
    bed.server.handle_agent(Time(0), bed.descriptor, message);
    let reply = Reply::Refused(Refusal::Invalid);
    assert_eq!(bed.outputs(), [Output::Reply { request: 1, reply }]);
    assert_eq!(bed.register(good), Ok(0));
    assert_eq!(
        bed.server.unregister(bed.descriptor, 5),
        Err(Refusal::Absent)
    );
    assert_eq!(bed.server.unregister(bed.descriptor, 0), Ok(()));
    assert!(matches!(
        bed.outputs()[..],
        [Output::Agent {
            message: ToAgent::UnregisterMethods(_),
            ..
        }]
    ));
    bed.server.register(2, 9999, good);
    let reply = Reply::Refused(Refusal::Absent);
    assert_eq!(bed.outputs(), [Output::Reply { request: 2, reply }]);
}

#[test]
fn agents_and_descriptors_are_bounded() {
    let mut bed = Bed::new();
    let asks = agent(MgmtClass::PERF, 1, 0, &[]);
    for number in 0..AGENTS_MAX {
        assert_eq!(bed.register(asks), Ok(u32::try_from(number).unwrap()));
    }
    assert_eq!(bed.register(asks), Err(Refusal::Full));
    assert_eq!(bed.server.unregister(bed.descriptor, 17), Ok(()));
    assert_eq!(bed.register(asks), Ok(17), "the lowest that is free");
    let port = PortNum::new(1);
    while bed.server.open(port).is_ok() {}
    assert_eq!(bed.server.open(port), Err(Refusal::Full));
    assert_eq!(bed.server.open(PortNum::new(2)), Err(Refusal::Absent));
    assert_eq!(bed.server.open(PortNum::new(0)), Err(Refusal::Absent));
    assert_eq!(bed.server.descriptors.len(), DESCRIPTORS_MAX);
    bed.server.close(bed.descriptor);
    assert!(bed.server.open(port).is_ok());
}

#[test]
fn what_cannot_be_sent_comes_back_with_the_status_of_the_kernels_call() {
    let mut bed = Bed::new();
    let perf = bed.register(agent(MgmtClass::PERF, 1, 0, &[])).unwrap();
    let sa = bed.register(agent(MgmtClass::SUBN_ADM, 2, 0, &[])).unwrap();
    let mad = query(1);
    let long = vec![3; Mad::LEN + 1];
    // An agent that is not there, another queue pair, one that is too long.
    let smp = Mad::lid_smp(Method::GET, AttributeId::NODE_INFO, 0, 1);
    bed.send(0, to(99, 100, 0), mad.as_bytes());
    bed.send(0, to(perf, 100, 0), smp.as_bytes());
    bed.send(0, to(sa, 100, 0), &long);
    for _ in 0..3 {
        let (header, mad) = bed.read().unwrap();
        assert_eq!((header.status, mad.len()), (UserMadHeader::INVALID, 24));
    }
    // The same transaction twice: the first goes on.
    bed.send(0, to(sa, 100, 0), mad.as_bytes());
    bed.send(0, to(sa, 100, 0), mad.as_bytes());
    assert_eq!(bed.read().unwrap().0.status, UserMadHeader::INVALID);
    let sent = bed.sent();
    assert_eq!(sent.len(), 1);
    bed.receive(1, &answer_to(&sent[0]));
    assert_eq!(bed.read().unwrap().0.status, 0);
    // Too short for a MAD, or for a header: no sender can be answered.
    bed.send(0, to(sa, 100, 0), &mad.as_bytes()[..35]);
    bed.server.handle_data(Time(0), bed.descriptor, &[0; 63]);
    assert!(bed.read().is_none() && bed.sent().is_empty());
    assert_eq!(bed.server.counts().malformed, 6);
}

#[test]
fn requests_beyond_what_may_be_in_flight_wait_and_those_beyond_come_back() {
    let mut bed = Bed::new();
    let number = bed.register(agent(MgmtClass::SUBN_ADM, 2, 0, &[])).unwrap();
    let all = u64::try_from(IN_FLIGHT_MAX + WAITING_MAX + 3).unwrap();
    let mut sent = Vec::new();
    for tid in 0..all {
        bed.send(0, to(number, 100, 0), query(tid).as_bytes());
        sent.extend(bed.sent());
    }
    assert_eq!(sent.len(), IN_FLIGHT_MAX);
    for _ in 0..3 {
        assert_eq!(bed.read().unwrap().0.status, UserMadHeader::NO_ROOM);
    }
    assert!(bed.read().is_none());
    bed.receive(1, &answer_to(&sent[0]));
    assert_eq!(bed.sent().len(), 1, "the next one goes out");
}

#[test]
fn a_program_that_does_not_read_loses_what_is_beyond_its_queue() {
    let mut bed = Bed::new();
    let methods = [Method::TRAP];
    let wanted = agent(MgmtClass::PERF, 1, 0, &methods);
    bed.register(wanted).unwrap();
    let mut trap = query(1);
    trap.as_bytes_mut()[1..4].copy_from_slice(&[MgmtClass::PERF.0, 1, Method::TRAP.0]);
    for _ in 0..QUEUE_MAX + 5 {
        bed.receive(0, &trap);
    }
    assert_eq!(bed.server.counts().queue_full, 5);
    let (header, mad) = bed.read().unwrap();
    assert_eq!((header.length, mad[3]), (u32::try_from(WHOLE).unwrap(), 5));
    // A method that it has not registered for.
    trap.set_method(Method::REPORT);
    bed.receive(0, &trap);
    assert_eq!(bed.server.counts().unexpected, 1);
}

#[test]
fn a_descriptor_that_is_closed_leaves_nothing() {
    let mut bed = Bed::new();
    let number = bed.register(agent(MgmtClass::SUBN_ADM, 2, 1, &[])).unwrap();
    bed.send(0, to(number, 100, 9), query(1).as_bytes());
    let asked = bed.sent();
    bed.server.close(bed.descriptor);
    let client = bed.descriptor;
    assert_eq!(bed.outputs(), [Output::AgentGone { client }]);
    bed.receive(0, &answer_to(&asked[0]));
    assert!(bed.outputs().is_empty() && bed.server.next_data(client).is_none());
    assert_eq!(bed.server.deadline(), None);
}
