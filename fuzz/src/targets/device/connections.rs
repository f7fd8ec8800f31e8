//! A host with channels of connections: what programs write to their `/dev/infiniband/rdma_cm`, what peers send, and what
//! subnet administration answers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use hostd::addresses::HostNumber;
use hostd::{ClientId, Command, Event, FromCm, Host, IpPort, ToCm};
use link::{Device as _, Input};
use uverbs::cm::errno as more;
use uverbs::errno;
use wire::cm::{
    CmPath, Drep, Dreq, IpCmHeader, Mra, PORT_SPACE_TCP, PORT_SPACE_UDP, Rej, RejReason, Rep, Req,
    Rtu, SidrRep, SidrReq, SidrStatus, Subject, id, ip_service,
};
use wire::mad::Mad;
use wire::{Format as _, Guid, Lid, PortNum, Psn, Qpn, RecordKind, Sl, UdPacket, Vl};

use super::administration::{Administration, MANAGER, PORTS, gid};
use super::host::config;
use super::{Bench, LIDS, OWN, emitted, record};
use crate::Parts;
use crate::fields::Fields;

const PORT: PortNum = PortNum::new(1);
/// Channels of an input; one more looks at what is left.
const CHANNELS: u32 = 3;
const CLIENTS: u32 = 3 << 28;
/// Ports of services.
const SERVICES: [u16; 2] = [7174, 7175];
const SPACES: [u16; 2] = [PORT_SPACE_TCP, PORT_SPACE_UDP];
/// Numbers of commands.
const CREATE: u32 = 0;
const DESTROY: u32 = 1;
const BIND: u32 = 2;
const LISTEN: u32 = 7;
const GET_EVENT: u32 = 12;
/// Of each command: its length without header, and where it names an id and has addresses.
const COMMANDS: [(u32, usize, Option<usize>, &[usize]); 21] = [
    (CREATE, 24, None, &[]),
    (DESTROY, 16, Some(8), &[]),
    (BIND, 40, Some(36), &[8]),
    (3, 64, Some(56), &[0, 28]),
    (4, 8, Some(0), &[]),
    (5, 16, Some(8), &[]),
    (6, 288, Some(272), &[]),
    (LISTEN, 8, Some(0), &[]),
    (8, 296, Some(280), &[]),
    (9, 264, Some(0), &[]),
    (10, 4, Some(0), &[]),
    (11, 16, Some(8), &[]),
    (GET_EVENT, 8, None, &[]),
    (14, 24, Some(8), &[]),
    (15, 8, Some(0), &[]),
    (16, 48, Some(44), &[16]),
    (17, 16, Some(8), &[]),
    (18, 16, Some(8), &[]),
    (19, 16, Some(8), &[]),
    (20, 136, Some(0), &[8]),
    (24, 24, Some(0), &[]),
];
/// How long the last message of a connection that nobody answers takes.
const SILENT_NS: u64 = 100_000_000_000;

fn ip(of: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 73, 0, of % 4 + 1)
}

/// What is known of a channel.
#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    has_token: bool,
    replies: u32,
}

struct Bed {
    bench: Bench<Host>,
    administration: Administration,
    channels: BTreeMap<ClientId, Channel>,
    /// Ids that programs were told.
    ids: BTreeSet<u32>,
    /// Numbers by which the host names its connections.
    numbers: Vec<u32>,
    /// Messages of communication management since they were last taken.
    sent: Vec<Mad>,
    last_reply: Option<uverbs::cm::CmReply>,
}

impl Bed {
    fn new() -> Self {
        // Time passes in steps in which a link would go down.
        let mut config = config();
        config.port.timeouts.silence_ns = 1 << 60;
        // Nobody answers for other addresses: connections are to the host itself, or peers ask for them.
        config.ip = vec![IpPort {
            port: PORT,
            number: HostNumber::new(1).expect("in range"),
            interface: Some("ib0".into()),
        }];
        let peer = config.port;
        let host = Host::new(config).expect("a sound configuration");
        let mut bench = Bench::with_peers(host, 1, &peer);
        bench.activate(PORT, PORT, OWN);
        let mut bed = Self {
            bench,
            administration: Administration::default(),
            channels: BTreeMap::new(),
            ids: BTreeSet::new(),
            numbers: Vec::new(),
            sent: Vec::new(),
            last_reply: None,
        };
        bed.settle();
        for client in 0..CHANNELS {
            bed.open(ClientId(CLIENTS + client));
        }
        bed
    }

    /// Takes what has come out of the host.
    ///
    /// # Panics
    /// If a program is told something that it did not ask for, or has a token too many.
    fn settle(&mut self) {
        for (_, mad) in self.bench.mads.drain(..) {
            // The class has requests of general management, too, which are answered as such.
            if !mad.is_cm() {
                self.administration.take(mad);
                continue;
            }
            let number = mad.as_bytes()[24..].first_chunk().copied();
            let number = number.map_or(0, u32::from_be_bytes);
            if number != 0 && !self.numbers.contains(&number) && self.numbers.len() < 64 {
                self.numbers.push(number);
            }
            self.sent.push(mad);
        }
        while let Some(event) = self.bench.device.poll_event() {
            let Event::Cm { client, message } = event else {
                continue;
            };
            let channel = self.channels.get_mut(&client);
            let channel = channel.expect("nothing is told to a channel that has ended");
            match message {
                FromCm::Token => {
                    assert!(!channel.has_token, "one token at a time");
                    channel.has_token = true;
                }
                FromCm::Reply(reply) => {
                    channel.replies += 1;
                    if reply.take_token {
                        assert!(channel.has_token, "there is a token to take");
                        channel.has_token = false;
                    }
                    self.last_reply = Some(reply);
                }
            }
        }
    }

    /// Hands a message of a program in.
    ///
    /// # Panics
    /// If it is not answered exactly once.
    fn ask(&mut self, client: ClientId, message: ToCm) -> uverbs::cm::CmReply {
        self.settle();
        let replies = |bed: &Self| bed.channels.get(&client).map_or(0, |one| one.replies);
        let before = replies(self);
        self.last_reply = None;
        let command = Command::Cm { client, message };
        let now = self.bench.now;
        self.bench.device.handle(now, Input::Command(command));
        self.settle();
        assert_eq!(replies(self), before + 1, "answered at once, and once");
        self.bench.exchange();
        self.settle();
        self.last_reply.take().expect("it was there")
    }

    fn open(&mut self, client: ClientId) {
        self.channels.entry(client).or_default();
        let reply = self.ask(client, ToCm::Open);
        assert_eq!(reply.errno, 0);
    }

    fn close(&mut self, client: ClientId) {
        self.channels.remove(&client);
        let now = self.bench.now;
        let gone = Input::Command(Command::CmGone { client });
        self.bench.device.handle(now, gone);
        self.bench.exchange();
        self.settle();
    }

    /// Writes a command of an open channel, with room for any answer.
    ///
    /// # Panics
    /// If there is an event without token or a token without event.
    fn write(&mut self, client: ClientId, number: u32, body: &[u8], from: Option<ClientId>) -> u16 {
        let mut bytes = number.to_ne_bytes().to_vec();
        bytes.extend(
            u16::try_from(body.len())
                .expect("a short body")
                .to_ne_bytes(),
        );
        bytes.extend(512_u16.to_ne_bytes());
        bytes.extend(body);
        let waits = self.channels.get(&client).is_some_and(|one| one.has_token);
        let value = 3u32.to_ne_bytes().to_vec();
        let reply = self.ask(client, ToCm::Command { bytes, value, from });
        if number == GET_EVENT {
            match reply.errno {
                0 => assert!(waits, "an event without a token"),
                more::EAGAIN => assert!(!waits, "a token without an event"),
                _ => {}
            }
        }
        let at = match number {
            CREATE => Some(0),
            GET_EVENT => Some(8),
            _ => None,
        };
        let told = at.and_then(|at| reply.bytes.get(at..)?.first_chunk().copied());
        if let Some(id) = told.filter(|_| reply.errno == 0) {
            self.ids.insert(u32::from_ne_bytes(id));
        }
        reply.errno
    }

    fn id(&self, fields: &mut Fields<'_>) -> u32 {
        let place = usize::from(fields.byte()) % (self.ids.len() + 1);
        self.ids.iter().nth(place).copied().unwrap_or(0)
    }

    /// A command, with an id and addresses that mean something, of one of the channels.
    fn command(&mut self, fields: &mut Fields<'_>) {
        let client = ClientId(CLIENTS + u32::from(fields.byte()) % CHANNELS);
        let (number, len, id_at, addresses) = fields.one_of(&COMMANDS);
        let id = self.id(fields);
        let (host, port) = (fields.byte(), fields.byte());
        let from = fields
            .flag()
            .then_some(ClientId(CLIENTS + u32::from(host) % CHANNELS));
        let mut body = fields.rest().to_vec();
        body.resize(len, 0);
        for &at in addresses {
            let [high, low] = SERVICES[usize::from(port) % 2].to_be_bytes();
            let ip = if host & 4 == 0 {
                ip(host)
            } else {
                Ipv4Addr::UNSPECIFIED
            };
            // The address that a program binds before it asks may be left out.
            let family = if number == 3 && at == 0 { 0 } else { 2 };
            let address = [&[family, 0, high, low][..], &ip.octets()].concat();
            body[at..at + 8].copy_from_slice(&address);
        }
        if let Some(at) = id_at {
            body[at..at + 4].copy_from_slice(&id.to_ne_bytes());
        }
        if number == CREATE {
            body[16..18].copy_from_slice(&SPACES[usize::from(port) % 2].to_ne_bytes());
            body[18] = if port & 1 == 0 { 2 } else { 4 };
        }
        if self.channels.contains_key(&client) {
            self.write(client, number, &body, from);
        }
    }

    /// Any bytes as a command.
    fn noise(&mut self, fields: &mut Fields<'_>) {
        let client = ClientId(CLIENTS + u32::from(fields.byte()) % CHANNELS);
        if self.channels.contains_key(&client) {
            let bytes = fields.rest().to_vec();
            let (value, from) = (Vec::new(), None);
            self.ask(client, ToCm::Command { bytes, value, from });
        }
    }

    /// A management datagram on QP1.
    fn deliver(&mut self, from: Lid, mad: &Mad) {
        let packet = UdPacket::gmp(from, OWN, Sl::default(), Vl::default(), mad);
        let packet = emitted(&packet);
        self.bench.frame(PORT, &record(RecordKind::Data, &packet));
        self.bench.exchange();
    }

    /// A message of a peer, some bytes of which are changed.
    fn peer(&mut self, fields: &mut Fields<'_>) {
        let (kind, from) = (fields.byte(), fields.one_of(&LIDS));
        let (own, place, port) = (u32::from(fields.byte() % 8), fields.byte(), fields.byte());
        let known = self
            .numbers
            .get(usize::from(place) % (self.numbers.len() + 1));
        let mut mad = message(kind, own, known.copied().unwrap_or(0), port);
        let bytes = mad.as_bytes_mut();
        for change in fields.rest().chunks_exact(2).take(8) {
            bytes[24 + usize::from(change[0]) % 232] ^= change[1];
        }
        self.deliver(from, &mad);
    }

    /// All programs have ended, and nobody answers.
    ///
    /// # Panics
    /// If something is left of them.
    fn finish(&mut self) {
        for client in 0..CHANNELS {
            self.close(ClientId(CLIENTS + client));
        }
        self.bench.renew(PORT, OWN);
        for _ in 0..24 {
            self.bench.pass(SILENT_NS);
            self.settle();
            for answer in self.administration.answer_all() {
                self.deliver(MANAGER, &answer);
            }
        }
        self.sent.clear();
        self.bench.pass(SILENT_NS);
        self.settle();
        assert!(self.sent.is_empty(), "nothing is said of what is gone");
        self.check_services();
        self.check_ids();
    }

    /// Nobody listens: a request is refused, once.
    fn check_services(&mut self) {
        for (space, port) in SPACES.into_iter().zip(0..) {
            let kind = if space == PORT_SPACE_TCP { 0 } else { 7 };
            self.sent.clear();
            self.deliver(LIDS[2], &message(kind, 0x77, 0, port));
            self.settle();
            let [answer] = &self.sent[..] else {
                panic!("{} answers", self.sent.len());
            };
            match answer.attr_id() {
                id::REJ => {
                    let rej: Rej = answer.cm_message().expect("a refusal");
                    assert_eq!(rej.reason, RejReason::INVALID_SERVICE_ID);
                }
                _ => {
                    let rep: SidrRep = answer.cm_message().expect("an answer");
                    assert_eq!(rep.status, SidrStatus::UNSUPPORTED);
                }
            }
        }
    }

    /// No id is left, and every port is free.
    fn check_ids(&mut self) {
        let client = ClientId(CLIENTS + CHANNELS);
        self.open(client);
        for id in self.ids.clone() {
            let body = [&[0; 8][..], &id.to_ne_bytes(), &[0; 4]].concat();
            assert_eq!(self.write(client, DESTROY, &body, None), errno::ENOENT);
        }
        assert_eq!(self.write(client, GET_EVENT, &[0; 8], None), more::EAGAIN);
        for space in SPACES {
            for port in SERVICES {
                self.ids.clear();
                let mut body = vec![0; 24];
                body[16..18].copy_from_slice(&space.to_ne_bytes());
                body[18] = if space == PORT_SPACE_UDP { 4 } else { 2 };
                assert_eq!(self.write(client, CREATE, &body, None), 0);
                let id = self.ids.first().expect("it has a number").to_ne_bytes();
                let [high, low] = port.to_be_bytes();
                let mut body = vec![0; 40];
                body[8..12].copy_from_slice(&[2, 0, high, low]);
                body[36..].copy_from_slice(&id);
                assert_eq!(
                    self.write(client, BIND, &body, None),
                    0,
                    "port {port} is free"
                );
                let body = [&id[..], &[0; 4]].concat();
                assert_eq!(self.write(client, LISTEN, &body, None), 0);
            }
        }
        self.close(client);
    }
}

/// A message of a peer: of its own connection `own`, about the host's `known`.
fn message(kind: u8, own: u32, known: u32, port: u8) -> Mad {
    let space = SPACES[usize::from(port) % 2];
    let service_id = ip_service(space, SERVICES[usize::from(port >> 1) % 2]);
    let subjects = [Subject::Req, Subject::Rep, Subject::Other];
    let subject = subjects[usize::from(port) % 3];
    let qpn = Qpn::truncate(0x500 + own);
    let header = IpCmHeader {
        source_port: 9,
        source: ip(1).into(),
        destination: ip(0).into(),
    };
    let header = header.to_bytes::<{ IpCmHeader::LEN }>();
    let tid = u64::from(own);
    match kind % 9 {
        0 => Mad::cm(tid, &req(own, service_id, qpn, &header)),
        1 => Mad::cm(tid, &rep(own, known, qpn)),
        2 => Mad::cm(
            tid,
            &Rtu {
                local_comm_id: own,
                remote_comm_id: known,
                private_data: [0; 224],
            },
        ),
        3 => Mad::cm(
            tid,
            &Rej {
                local_comm_id: own,
                remote_comm_id: known,
                message: subject,
                info_len: 0,
                reason: RejReason::CONSUMER,
                info: [0; 72],
                private_data: [0; Rej::PRIVATE_LEN],
            },
        ),
        4 => Mad::cm(
            tid,
            &Mra {
                local_comm_id: own,
                remote_comm_id: known,
                message: subject,
                service_timeout: port & 0x1f,
                private_data: [0; 222],
            },
        ),
        5 => Mad::cm(
            tid,
            &Dreq {
                local_comm_id: own,
                remote_comm_id: known,
                remote_qpn: qpn,
                private_data: [0; 220],
            },
        ),
        6 => Mad::cm(
            tid,
            &Drep {
                local_comm_id: own,
                remote_comm_id: known,
                private_data: [0; 224],
            },
        ),
        7 => {
            let mut private_data = [0; SidrReq::PRIVATE_LEN];
            private_data[..IpCmHeader::LEN].copy_from_slice(&header);
            let request = SidrReq {
                request_id: own,
                pkey: 0xffff,
                service_id,
                private_data,
            };
            Mad::cm(tid, &request)
        }
        _ => Mad::cm(
            tid,
            &SidrRep {
                request_id: known,
                status: SidrStatus(port % 4),
                info_len: 0,
                qpn,
                service_id,
                qkey: 7,
                info: [0; 72],
                private_data: [0; SidrRep::PRIVATE_LEN],
            },
        ),
    }
}

fn req(own: u32, service_id: u64, qpn: Qpn, header: &[u8]) -> Req {
    let path = CmPath {
        local_lid: LIDS[2],
        remote_lid: OWN,
        local_gid: gid(PORTS[1]),
        remote_gid: gid(PORTS[0]),
        flow_label: 0,
        packet_rate: 3,
        traffic_class: 0,
        hop_limit: 0,
        sl: Sl::default(),
        subnet_local: true,
        local_ack_timeout: 10,
    };
    let mut private_data = [0; Req::PRIVATE_LEN];
    private_data[..header.len()].copy_from_slice(header);
    Req {
        local_comm_id: own,
        service_id,
        local_ca_guid: Guid(0x21),
        local_qkey: 0,
        local_qpn: qpn,
        responder_resources: 1,
        initiator_depth: 1,
        remote_cm_response_timeout: 10,
        transport_service: 0,
        end_to_end_flow_control: false,
        starting_psn: Psn::default(),
        local_cm_response_timeout: 10,
        retry_count: 3,
        pkey: 0xffff,
        path_mtu: 1,
        rnr_retry_count: 3,
        max_cm_retries: 3,
        srq: false,
        primary: path,
        alternate: CmPath {
            local_lid: Lid::ZERO,
            remote_lid: Lid::ZERO,
            ..path
        },
        private_data,
    }
}

fn rep(own: u32, known: u32, qpn: Qpn) -> Rep {
    Rep {
        local_comm_id: own,
        remote_comm_id: known,
        local_qkey: 0,
        local_qpn: qpn,
        starting_psn: Psn::default(),
        responder_resources: 1,
        initiator_depth: 1,
        target_ack_delay: 5,
        failover_accepted: 0,
        end_to_end_flow_control: false,
        rnr_retry_count: 3,
        srq: false,
        local_ca_guid: Guid(0x21),
        private_data: [0; Rep::PRIVATE_LEN],
    }
}

/// Each part is a step: one of those that any device can be handed, a command of a program, any bytes as one, a message of a
/// peer, an answer of subnet administration, a channel that ends or opens.
///
/// # Panics
/// If a command is not answered at once and once; if a channel has a token without events or events without one, or hears
/// something after its end; if ids, ports, services or connections outlast the channels that they belong to.
pub(crate) fn connections(bytes: &[u8]) {
    let mut bed = Bed::new();
    for part in Parts::of(bytes) {
        let mut fields = Fields::of(part);
        let what = fields.byte() % 13;
        let _ = fields.byte();
        match what {
            8 => bed.command(&mut fields),
            9 => bed.noise(&mut fields),
            10 => bed.peer(&mut fields),
            11 => {
                if let Some(answer) = bed.administration.answer(&mut fields) {
                    bed.deliver(MANAGER, &answer);
                }
            }
            12 => {
                let client = ClientId(CLIENTS + u32::from(fields.byte()) % CHANNELS);
                match bed.channels.contains_key(&client) {
                    true => bed.close(client),
                    false => bed.open(client),
                }
            }
            _ => {
                bed.bench.step(what, PORT, &mut fields);
            }
        }
        bed.settle();
    }
    bed.finish();
    bed.bench.empty();
}

/// Connections of both sides and of datagrams from beginning to end, with every command and message on the way.
pub(crate) fn inputs() -> Vec<Vec<u8>> {
    let step = |what: u8, fields: &[u8]| [&[what, 0], fields].concat();
    let place = |number: u32| {
        let found = COMMANDS.iter().position(|command| command.0 == number);
        u8::try_from(found.expect("a command")).expect("few")
    };
    // Channel, command, id, host, port, whether it is moved.
    let write = |number, id, host, port: u8, body: &[u8]| {
        let head = [0, place(number), id, host, port, 1];
        step(8, &[&head[..], body].concat())
    };
    let event = || write(GET_EVENT, 0, 0, 0, &[]);
    let answer = || step(11, &[0, 0, 0]);
    let parameters = [&[0, 5, 0, 0][..], &[0; 267], &[1]].concat();
    let accepted = [&[9, 0, 0, 0, 0, 0, 0, 0][..], &parameters].concat();
    let peer = |kind: u8, own: u8, known: u8, port: u8| step(10, &[kind, 2, own, known, port]);
    let mut inputs = Vec::new();
    for space in 0..2 {
        let listen = [
            write(CREATE, 0, 0, space, &[]),
            write(BIND, 0, 4, 0, &[]),
            write(LISTEN, 0, 0, 0, &[]),
        ];
        let asked = if space == 0 { 0 } else { 7 };
        let passive = [
            &listen[..],
            &[
                peer(asked, 1, 0, space),
                event(),
                write(11, 1, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]),
            ],
            &[write(8, 1, 0, 0, &accepted), peer(2, 1, 0, 0), event()],
        ];
        let passive = passive.concat();
        let active = [
            &[
                write(CREATE, 0, 0, space, &[]),
                write(3, 0, 1, 0, &[]),
                answer(),
                event(),
            ][..],
            &[
                write(4, 0, 0, 0, &[0, 0, 0, 0, 0xd0, 7]),
                answer(),
                event(),
                write(19, 0, 0, 0, &[]),
            ],
            &[
                write(6, 0, 0, 0, &parameters),
                peer(if space == 0 { 1 } else { 8 }, 1, 0, 0),
                event(),
            ],
            &[write(8, 0, 0, 0, &[0; 8])],
        ];
        let active = active.concat();
        let group = [
            write(16, 0, 200, 0, &[]),
            answer(),
            event(),
            write(17, 1, 0, 0, &[]),
        ];
        for standing in [&passive, &active] {
            inputs.push(Parts::join(standing));
            let ends = [
                vec![write(10, 1, 0, 0, &[]), peer(6, 1, 0, 0), event()],
                vec![peer(5, 1, 0, 0), event(), step(6, &[120]), event()],
                vec![write(DESTROY, 0, 0, 0, &[]), write(DESTROY, 1, 0, 0, &[])],
                vec![step(12, &[0]), step(12, &[0])],
                vec![
                    peer(0, 1, 0, 0),
                    peer(3, 1, 0, 0),
                    peer(4, 1, 0, 0),
                    step(6, &[110]),
                ],
                vec![
                    write(18, 0, 0, 0, &[]),
                    write(14, 0, 0, 0, &[]),
                    write(24, 0, 0, 0, &[]),
                ],
                group.to_vec(),
            ];
            for end in ends {
                inputs.push(Parts::join([&standing[..], &end].concat()));
            }
        }
    }
    let each: Vec<Vec<u8>> = COMMANDS
        .iter()
        .map(|command| write(command.0, 0, 1, 0, &[]))
        .collect();
    let created = [write(CREATE, 0, 0, 0, &[])];
    inputs.push(Parts::join([&created[..], &each].concat()));
    let messages: Vec<Vec<u8>> = (0..9).map(|kind| peer(kind, 1, 0, 0)).collect();
    inputs.push(Parts::join(
        [&created[..], &messages, &[step(9, &[0, 1, 2, 3])]].concat(),
    ));
    inputs
}
