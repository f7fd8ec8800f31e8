//! The socket of the host's libibumad: programs that use the kernel's user MADs, the server that does for
//! them what a kernel does, and the host behind it.

use std::collections::BTreeSet;

use hostd::{ClientId, Command, Event, Host, HostConfig};
use link::{Device, Input, PortConfig, Time};
use mad::local::{FromAgent, MadMessage, ToAgent};
use mad::rmpp;
use mad::umad::{
    AgentRequest, DESCRIPTORS_MAX, OUTPUTS_MAX, Output, Refusal, Reply, Request, Server,
};
use wire::control::{decode, encode};
use wire::sa::{Rmpp, RmppKind, rmpp_flag};
use wire::umad::UserMadHeader;
use wire::{AttributeId, Format as _, Guid, Lid, Mad, Method, MgmtClass, PortNum, Qpn, Sl};

use crate::Parts;
use crate::fields::Fields;

/// Ports of the host.
const PORTS: u8 = 2;
/// Descriptors that steps speak of.
const DESCRIPTORS: u128 = 4;
/// How often a request or a segment is due at most: as many attempts as a byte counts, and an end.
const DUE_MAX: u64 = 257;
/// Where method and RMPP's header stand in a MAD.
const METHOD_AT: usize = 3;
const RMPP_AT: usize = wire::MadHeader::LEN;
/// Bytes of a user MAD that is longer than a message at most.
const LONG_MAX: usize = 1 << 17;

/// The server, its host, and what the shell of the daemon keeps for them.
struct Bench {
    now: Time,
    server: Server,
    host: Host,
    /// Descriptors by the number that their programs have chosen, from 0.
    open: [Option<u32>; DESCRIPTORS as usize],
    /// Requests that have not been answered, by the number that the shell gave them.
    asked: BTreeSet<u64>,
    last_request: u64,
    /// The MAD that the server has sent last, and as which client.
    sent: Option<(u32, MadMessage)>,
    /// What can become due: user MADs and datagrams that were handed in.
    handed_in: u64,
}

impl Bench {
    fn new() -> Self {
        let config = HostConfig {
            name: "h0".to_owned(),
            guid: Guid(0x10),
            pid: 1,
            ports: PORTS,
            hardware: link::Hardware::default(),
            port: PortConfig::default(),
            ip: Vec::new(),
            traffic_tick_ns: HostConfig::LIVE_TRAFFIC_TICK_NS,
        };
        Self {
            now: Time(1),
            server: Server::new(PORTS),
            host: Host::new(config).expect("a sound configuration"),
            open: [None; DESCRIPTORS as usize],
            asked: BTreeSet::new(),
            last_request: 0,
            sent: None,
            handed_in: 0,
        }
    }

    /// Executes the server's outputs and hands it the host's messages, until neither has more.
    fn settle(&mut self) {
        assert!(self.server.outputs_waiting() < 2 * OUTPUTS_MAX);
        loop {
            while let Some(output) = self.server.poll_output() {
                let command = match output {
                    Output::Reply { request, reply } => {
                        assert!(self.asked.remove(&request), "one answer a request");
                        let bytes = encode(&reply).expect("a message that goes into a packet");
                        assert_eq!(decode::<Reply>(&bytes).ok(), Some(reply));
                        continue;
                    }
                    Output::Agent { client, message } => {
                        if let ToAgent::Send(mad) = &message {
                            self.sent = Some((client, mad.clone()));
                        }
                        let client = ClientId(client);
                        Command::Mad { client, message }
                    }
                    Output::AgentGone { client } => {
                        let client = ClientId(client);
                        Command::MadGone { client }
                    }
                };
                self.host.handle(self.now, Input::Command(command));
            }
            let Some(event) = self.host.poll_event() else {
                break;
            };
            if let Event::Mad { client, message } = event {
                self.handed_in += 1;
                self.server.handle_agent(self.now, client.0, message);
            }
        }
    }

    fn descriptor(&self, name: u128) -> Option<u32> {
        self.open[usize::try_from(name % DESCRIPTORS).expect("few")]
    }

    /// A message on a connection that is no descriptor, as the shell takes it.
    fn request(&mut self, bytes: &[u8]) {
        let Ok(request) = decode::<Request>(bytes) else {
            return;
        };
        self.last_request += 1;
        let number = self.last_request;
        match request {
            Request::Describe => {
                self.asked.insert(number);
                self.server.describe(number);
            }
            Request::Open { port, descriptor } => {
                let place = usize::try_from(descriptor % DESCRIPTORS).expect("few");
                if self.open[place].is_none() {
                    let opened = self.server.open(port);
                    assert_eq!(opened.is_err(), !self.server.has_port(port));
                    self.open[place] = opened.ok();
                }
            }
            Request::Register { descriptor, agent } => {
                if let Some(open) = self.descriptor(descriptor) {
                    self.asked.insert(number);
                    self.server.register(number, open, agent);
                }
            }
            Request::Unregister { descriptor, agent } => {
                if let Some(open) = self.descriptor(descriptor) {
                    let ended = self.server.unregister(open, agent);
                    assert!(matches!(ended, Ok(()) | Err(Refusal::Absent)));
                }
            }
            // The shell collects them.
            Request::Send { .. } | Request::Sysfs { .. } | Request::IsSmFile { .. } => {}
        }
    }

    /// A user MAD of a program.
    fn data(&mut self, descriptor: u32, bytes: &[u8]) {
        self.handed_in += 1;
        self.server.handle_data(self.now, descriptor, bytes);
    }

    /// A program reads what waits for it.
    fn read(&mut self, descriptor: u32) {
        let Some(bytes) = self.server.next_data(descriptor) else {
            return;
        };
        let (header, mad) = UserMadHeader::parse(bytes).expect("a header");
        assert_eq!(usize::try_from(header.length), Ok(bytes.len()));
        assert!(mad.len() >= wire::MadHeader::LEN);
        self.server.data_sent(descriptor);
    }

    /// The fabric answers the MAD that was sent last: as its responder would, but for some bytes.
    fn answer(&mut self, mut fields: Fields<'_>) {
        let Some((client, message)) = self.sent.clone() else {
            return;
        };
        let kind = fields.byte();
        let mut bytes = *message.mad;
        let rmpp = rmpp::header(&Mad::from_bytes(bytes)).filter(|_| kind.is_multiple_of(4));
        match kind % 4 {
            // As an acknowledgement or another packet of RMPP, whose receiver turns methods round.
            0 | 1 => bytes[METHOD_AT] ^= 0x80,
            2 => bytes[METHOD_AT] |= 0x80,
            _ => {}
        }
        if let Some(mut rmpp) = rmpp {
            rmpp.kind = fields.one_of(&[RmppKind::Ack, RmppKind::Stop, RmppKind::Abort]);
            rmpp.data2 = fields.four() % 1000;
            rmpp.emit(&mut bytes[RMPP_AT..]);
        }
        for _ in 0..fields.byte() % 8 {
            let at = usize::from(fields.byte());
            bytes[at] = fields.byte();
        }
        let message = MadMessage {
            mad: Box::new(bytes),
            ..message
        };
        self.handed_in += 1;
        let message = FromAgent::Received(message);
        self.server.handle_agent(self.now, client, message);
    }

    fn step(&mut self, part: &[u8]) {
        let mut fields = Fields::of(part);
        let what = fields.byte();
        let descriptor = self.descriptor(fields.byte().into());
        match what % 10 {
            0 | 1 => self.request(fields.rest()),
            2 | 3 => {
                if let Some(open) = descriptor {
                    self.data(open, fields.rest());
                }
            }
            4 => {
                if let Some(open) = descriptor {
                    let times = usize::from(fields.two());
                    let bytes = fields.rest();
                    let fits = LONG_MAX / bytes.len().max(1);
                    self.data(open, &bytes.repeat(times.min(fits)));
                }
            }
            5 => {
                if let Some(open) = descriptor {
                    self.read(open);
                }
            }
            6 => {
                self.now = self.now + fields.nanoseconds();
                self.server.tick(self.now);
                self.host.handle(self.now, Input::Tick);
            }
            7 => self.answer(fields),
            8 => {
                let client = descriptor.unwrap_or_else(|| fields.byte().into());
                if let Ok(message) = decode(fields.rest()) {
                    self.handed_in += 1;
                    self.server.handle_agent(self.now, client, message);
                }
            }
            _ => match (fields.byte() % 3, descriptor) {
                (0, Some(open)) => {
                    self.open
                        .iter_mut()
                        .filter(|one| **one == descriptor)
                        .for_each(|one| *one = None);
                    self.server.close(open);
                }
                (1, _) => {
                    let port = PortNum::new(fields.byte());
                    self.server.set_is_sm(port, fields.flag());
                }
                _ => self.server.forget(u64::from(fields.two())),
            },
        }
        self.settle();
    }
}

/// Each part is a step: a message on the socket, a user MAD, one that is read, time that passes, an answer of
/// the fabric or anything else that the host tells, the end of a program.
///
/// # Panics
/// If a request of a program is answered twice, what a program reads is no user MAD, requests and transfers
/// go on for ever, or there are more descriptors than places.
pub(crate) fn ibumad(bytes: &[u8]) {
    let mut bench = Bench::new();
    for part in Parts::of(bytes) {
        bench.step(part);
    }
    let mut left = (bench.handed_in + 1) * DUE_MAX;
    while let Some(due) = bench.server.deadline() {
        left = left
            .checked_sub(1)
            .expect("no request or transfer goes on for ever");
        bench.now = bench.now.max(due);
        bench.server.tick(bench.now);
        bench.settle();
    }
    for open in bench.open.into_iter().flatten() {
        while bench.server.next_data(open).is_some() {
            bench.read(open);
        }
        bench.server.close(open);
    }
    assert_eq!(bench.server.deadline(), None, "no client is left");
    assert!(bench.open.iter().flatten().count() <= DESCRIPTORS_MAX);
}

fn user_mad(header: &UserMadHeader, mad: &[u8]) -> Vec<u8> {
    [&header.to_bytes::<{ UserMadHeader::LEN }>()[..], mad].concat()
}

fn request(request: &Request) -> Vec<u8> {
    let bytes = encode(request).expect("a short message");
    [&[0, 0][..], &bytes].concat()
}

fn register(class: MgmtClass, rmpp_version: u8, methods: &[Method]) -> Vec<u8> {
    request(&Request::Register {
        descriptor: 0,
        agent: AgentRequest {
            class: class.0,
            version: match class {
                MgmtClass::SUBN_ADM => 2,
                _ => 1,
            },
            qpn: u8::from(!class.is_subnet_management()),
            oui: [0; 3],
            rmpp_version,
            user_rmpp: false,
            methods: methods.iter().map(|method| 1 << method.0).sum(),
        },
    })
}

/// The first segment of a table, as a responder of subnet administration sends it.
fn segmented_table() -> Mad {
    let mut table = Mad::sa(Method::GET_TABLE_RESP, AttributeId::NODE_RECORD, 0, 7);
    let first = Rmpp {
        version: Rmpp::VERSION,
        kind: RmppKind::Data,
        flags: rmpp_flag::ACTIVE | rmpp_flag::FIRST,
        data1: 1,
        data2: 2000,
        ..Rmpp::default()
    };
    first.emit(&mut table.as_bytes_mut()[RMPP_AT..]);
    table
}

/// The step in which the agent hands a datagram over.
fn received(mad: &Mad) -> Vec<u8> {
    let message = encode(&FromAgent::Received(MadMessage {
        lid: Lid::new(3),
        qpn: Qpn::GSI,
        sl: Sl::default(),
        mad: Box::new(*mad.as_bytes()),
        way: None,
    }));
    [&[8, 0][..], &message.expect("a short message")].concat()
}

fn send(header: &UserMadHeader, mad: &Mad) -> Vec<u8> {
    [&[2, 0][..], &user_mad(header, mad.as_bytes())].concat()
}

/// A request to the own host, by the directed route without a hop.
fn own_request(header: &UserMadHeader) -> Vec<u8> {
    let directed = Mad::directed_smp(Method::GET, AttributeId::NODE_INFO, 0, 5, &[]);
    let smi = UserMadHeader {
        agent: 0,
        qpn: 0,
        lid: 0xffff,
        ..*header
    };
    send(&smi, &directed.expect("a short path"))
}

/// A table that is longer than a datagram.
fn long(header: &UserMadHeader, table: &Mad) -> Vec<u8> {
    [
        &[4, 0, 0, 20][..],
        &user_mad(header, table.as_bytes()),
        &[1; 900],
    ]
    .concat()
}

/// Programs that open ports, register, ask, send and receive long MADs, and leave.
pub(crate) fn inputs() -> Vec<Vec<u8>> {
    let (port, descriptor, agent) = (PortNum::new(1), 0, 0);
    let open = request(&Request::Open { port, descriptor });
    let header = UserMadHeader {
        timeout_ms: 100,
        retries: 2,
        qpn: 1,
        lid: 4,
        ..UserMadHeader::default()
    };
    let asked = Mad::sa(Method::GET_TABLE, AttributeId::NODE_RECORD, 0, 6);
    let table = segmented_table();
    let read: Vec<u8> = vec![5, 0];
    let time: Vec<u8> = vec![6, 0, 110];
    let answer: Vec<u8> = vec![7, 0, 2, 0];
    let acknowledge: Vec<u8> = vec![7, 0, 0, 0, 0, 0, 0, 9, 0];
    let segment: Vec<u8> = vec![7, 0, 3, 2, 25, 3, 29, 1];
    let received = received(&table);
    let long = long(&header, &table);
    let describe = request(&Request::Describe);
    let unregister = request(&Request::Unregister { descriptor, agent });
    let smp_agent = register(MgmtClass::SUBN_DIR, 0, &[Method::TRAP]);
    let sa_agent = register(MgmtClass::SUBN_ADM, 1, &[Method::GET, Method::GET_TABLE]);
    let asking_agent = register(MgmtClass(0), 1, &[]);
    let close: Vec<u8> = vec![9, 0, 0];
    let is_sm: Vec<u8> = vec![9, 0, 1, 1, 0];
    let own = own_request(&header);
    let far = send(&header, &asked);
    let all = [
        &open,
        &smp_agent,
        &sa_agent,
        &is_sm,
        &describe,
        &own,
        &far,
        &long,
        &received,
        &time,
        &answer,
        &acknowledge,
        &segment,
        &read,
        &unregister,
        &close,
    ];
    let inputs: Vec<Vec<&Vec<u8>>> = vec![
        vec![&describe],
        vec![&open, &close],
        vec![&open, &smp_agent, &own, &read, &unregister],
        vec![&open, &smp_agent, &own, &time, &time, &read],
        vec![&open, &sa_agent, &far, &answer, &read],
        vec![&open, &asking_agent, &far, &segment, &segment, &read],
        vec![&open, &sa_agent, &received, &received, &time, &time, &read],
        vec![
            &open,
            &sa_agent,
            &long,
            &acknowledge,
            &time,
            &acknowledge,
            &acknowledge,
        ],
        all.to_vec(),
    ];
    inputs.into_iter().map(Parts::join).collect()
}
