//! Connections of programs beside hosts, by the commands that librdmacm writes.

use std::net::Ipv4Addr;

use hostd::control::{Reply, Request};
use hostd::{ClientId, Command, Event, FromCm, ToCm};
use link::PortConfig;
use mad::local::{MadMessage, ToAgent};
use uverbs::cm::{CmReply, errno as more};
use uverbs::errno;
use wire::attr::MulticastForwardingTable;
use wire::mad::{AttributeId, Mad, MadStatus, Method, MgmtClass};
use wire::sa::{McMemberRecord, PathRecord};
use wire::{Gid, Guid, Lid, Qpn, Sl};

use crate::bed::{Bed, CLIENT};
use crate::manage::bring_up_star;

/// Hosts 1 and 2 of the star have programs; beside host 0 is subnet administration.
const SERVER: (usize, ClientId) = (1, ClientId(3 << 28));
const CLIENT_SIDE: (usize, ClientId) = (2, ClientId((3 << 28) + 1));
/// Of all groups.
const MLID: Lid = Lid::new(0xc005);
const TCP: u16 = 0x0106;
const UDP: u16 = 0x0111;
const PORT: u16 = 7174;
const ADDR_RESOLVED: u32 = 0;
const ADDR_ERROR: u32 = 1;
const ROUTE_RESOLVED: u32 = 2;
const ROUTE_ERROR: u32 = 3;
const CONNECT_REQUEST: u32 = 4;
const CONNECT_RESPONSE: u32 = 5;
const UNREACHABLE: u32 = 7;
const REJECTED: u32 = 8;
const ESTABLISHED: u32 = 9;
const DISCONNECTED: u32 = 10;
const MULTICAST_JOIN: u32 = 12;
const TIMEWAIT_EXIT: u32 = 15;

fn ip(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 73, 0, u8::try_from(host + 1).unwrap())
}

/// `struct sockaddr_in` in the room of `struct sockaddr_in6`.
fn address(ip: Ipv4Addr, port: u16) -> Vec<u8> {
    let mut bytes = vec![2, 0];
    bytes.extend(port.to_be_bytes());
    bytes.extend(ip.octets());
    bytes.resize(28, 0);
    bytes
}

/// A command with room for `room` bytes of answer.
fn command(number: u32, body: &[u8], room: u16) -> Vec<u8> {
    let mut bytes = number.to_ne_bytes().to_vec();
    bytes.extend(u16::try_from(body.len()).unwrap().to_ne_bytes());
    bytes.extend(room.to_ne_bytes());
    bytes.extend(body);
    bytes
}

/// An event that a program has been told.
#[derive(Clone, Debug)]
struct Told {
    uid: u64,
    id: u32,
    event: u32,
    status: i32,
    parameters: Vec<u8>,
}

struct Lab {
    bed: Bed,
    /// Whether subnet administration answers.
    serves: bool,
}

impl Lab {
    fn new() -> Self {
        let mut bed = Bed::star_with_addresses(3, PortConfig::default());
        bring_up_star(&mut bed, 3);
        let mut table = MulticastForwardingTable::default();
        table.0[usize::from(MLID.get() & 0x1f)] = 0b1110;
        let id = AttributeId::MULTICAST_FORWARDING_TABLE;
        let answer = bed.directed(Method::SET, id, 0, &[1], |mad| {
            mad.set_smp_attribute(&table)
        });
        assert_eq!(answer.status().without_direction(), MadStatus::OK);
        let class = MgmtClass::SUBN_ADM.0;
        let message = ToAgent::Register { class };
        let client = CLIENT;
        bed.command(0, Command::Mad { client, message });
        let mut lab = Self { bed, serves: true };
        // Interfaces become members of the group of all.
        lab.pass(1_000_000_000);
        for (host, client) in [SERVER, CLIENT_SIDE] {
            lab.open(host, client);
        }
        lab
    }

    fn open(&mut self, host: usize, client: ClientId) {
        let message = ToCm::Open;
        self.bed.command(host, Command::Cm { client, message });
        assert_eq!(self.reply(host, client), CmReply::default());
    }

    fn port_guid(&mut self, host: usize) -> Guid {
        self.bed
            .at(host)
            .identity()
            .port_guid(wire::PortNum::new(1))
    }

    fn reply(&mut self, host: usize, client: ClientId) -> CmReply {
        self.bed.until(|bed| {
            let events = &mut bed.events[host];
            let is_reply = |event: &Event| {
                matches!(event, Event::Cm { client: of, message: FromCm::Reply(_) } if *of == client)
            };
            match events.remove(events.iter().position(is_reply)?)? {
                Event::Cm {
                    message: FromCm::Reply(reply),
                    ..
                } => Some(reply),
                _ => None,
            }
        })
    }

    fn write(&mut self, (host, client): (usize, ClientId), bytes: Vec<u8>) -> CmReply {
        self.write_from((host, client), bytes, None)
    }

    fn write_from(
        &mut self,
        (host, client): (usize, ClientId),
        bytes: Vec<u8>,
        from: Option<ClientId>,
    ) -> CmReply {
        let value = Vec::new();
        let message = ToCm::Command { bytes, value, from };
        self.bed.command(host, Command::Cm { client, message });
        self.reply(host, client)
    }

    /// A command that succeeds.
    fn done(&mut self, who: (usize, ClientId), bytes: Vec<u8>) -> Vec<u8> {
        let reply = self.write(who, bytes);
        assert_eq!(reply.errno, 0);
        reply.bytes
    }

    fn create(&mut self, who: (usize, ClientId), uid: u64, space: u16) -> u32 {
        let mut body = uid.to_ne_bytes().to_vec();
        body.extend([0; 8]);
        body.extend(space.to_ne_bytes());
        body.extend([if space == UDP { 4 } else { 2 }, 0, 0, 0, 0, 0]);
        let id = self.done(who, command(0, &body, 4));
        u32::from_ne_bytes(id.try_into().unwrap())
    }

    fn of_id(number: u32, id: u32, second: u32) -> Vec<u8> {
        let body = [id.to_ne_bytes(), second.to_ne_bytes()].concat();
        command(number, &body, 0)
    }

    /// A command whose id stands behind a pointer.
    fn behind_pointer(number: u32, id: u32, second: u32, room: u16) -> Vec<u8> {
        let body = [&[0; 8][..], &id.to_ne_bytes(), &second.to_ne_bytes()].concat();
        command(number, &body, room)
    }

    fn listen(&mut self, who: (usize, ClientId), uid: u64, space: u16) -> u32 {
        let id = self.create(who, uid, space);
        self.done(who, Self::bind(id, Ipv4Addr::UNSPECIFIED, PORT));
        self.done(who, Self::of_id(7, id, 0));
        id
    }

    fn bind(id: u32, ip: Ipv4Addr, port: u16) -> Vec<u8> {
        let body = [&[0; 8][..], &address(ip, port), &id.to_ne_bytes()].concat();
        command(2, &body, 0)
    }

    fn resolve(&mut self, who: (usize, ClientId), id: u32, to: Ipv4Addr) -> CmReply {
        let body = [vec![0; 28], address(to, PORT)].concat();
        let body = [&body[..], &id.to_ne_bytes(), &2000u32.to_ne_bytes()].concat();
        self.write(who, command(3, &body, 0))
    }

    /// The next event of a channel; subnet administration answers meanwhile.
    fn event(&mut self, who: (usize, ClientId)) -> Told {
        for _ in 0..4000 {
            let reply = self.write(who, command(12, &[0; 8], 336));
            if reply.errno == 0 {
                let word = |at: usize| reply.bytes[at..at + 4].try_into().unwrap();
                return Told {
                    uid: u64::from_ne_bytes(reply.bytes[..8].try_into().unwrap()),
                    id: u32::from_ne_bytes(word(8)),
                    event: u32::from_ne_bytes(word(12)),
                    status: i32::from_ne_bytes(word(16)),
                    parameters: reply.bytes[20..].to_vec(),
                };
            }
            assert_eq!(reply.errno, more::EAGAIN);
            self.pass(10_000_000);
        }
        panic!("no event");
    }

    /// Lets time pass; subnet administration answers meanwhile.
    fn pass(&mut self, ns: u64) {
        let end = self.bed.now + ns;
        while self.bed.now < end {
            if self.serves {
                self.administrate();
            }
            self.bed.run(10_000_000);
        }
    }

    fn administrate(&mut self) {
        while let Some((message, request)) = self.bed.receive_mad(0, CLIENT) {
            let from = message.lid;
            let mut answer = request;
            answer.answer(MadStatus::OK);
            match request.attr_id() {
                AttributeId::PATH_RECORD => {
                    let asked: PathRecord = request.sa_record().unwrap();
                    let guids = [0, 1, 2].map(|host| self.port_guid(host));
                    let to = guids.iter().position(|guid| *guid == asked.dgid.guid());
                    let to = self.bed.at(to.unwrap()).lid();
                    answer.set_sa_record(&PathRecord {
                        dlid: to,
                        slid: from,
                        mtu: 4,
                        rate: 3,
                        packet_life_time: 12,
                        ..asked
                    });
                }
                AttributeId::MC_MEMBER_RECORD => {
                    let asked: McMemberRecord = request.sa_record().unwrap();
                    let mlid = MLID;
                    answer.set_sa_record(&McMemberRecord { mlid, ..asked });
                }
                // Reports are asked for; there are none.
                _ => {}
            }
            self.answer(from, &answer);
        }
    }

    fn answer(&mut self, to: Lid, mad: &Mad) {
        let message = ToAgent::Send(MadMessage {
            lid: to,
            qpn: Qpn::GSI,
            sl: Sl::default(),
            mad: Box::new(*mad.as_bytes()),
            way: None,
        });
        let client = CLIENT;
        self.bed.command(0, Command::Mad { client, message });
    }

    /// An id whose way to the server is known.
    fn routed(&mut self, uid: u64, space: u16) -> u32 {
        let who = CLIENT_SIDE;
        let id = self.create(who, uid, space);
        assert_eq!(self.resolve(who, id, ip(1)).errno, 0);
        assert_eq!(self.event(who).event, ADDR_RESOLVED);
        self.done(who, Self::of_id(4, id, 2000));
        assert_eq!(self.event(who).event, ROUTE_RESOLVED);
        id
    }

    fn connect(&mut self, id: u32, qpn: u32, private_data: &[u8]) {
        let mut body = parameters(qpn, private_data);
        body.extend(id.to_ne_bytes());
        body.resize(288, 0);
        self.done(CLIENT_SIDE, command(6, &body, 0));
    }

    fn accept(&mut self, who: (usize, ClientId), id: u32, uid: u64, qpn: Option<u32>) -> CmReply {
        let mut body = uid.to_ne_bytes().to_vec();
        body.extend(match qpn {
            Some(qpn) => parameters(qpn, b"welcome"),
            None => vec![0; 272],
        });
        body.extend(id.to_ne_bytes());
        body.resize(296, 0);
        self.write(who, command(8, &body, 0))
    }

    fn destroy(&mut self, who: (usize, ClientId), id: u32) -> u32 {
        let reported = self.done(who, Self::behind_pointer(1, id, 0, 4));
        u32::from_ne_bytes(reported.try_into().unwrap())
    }

    /// A connection that stands: the ids of server and client.
    fn established(&mut self) -> (u32, u32) {
        self.listen(SERVER, 1, TCP);
        let client = self.routed(2, TCP);
        self.connect(client, 0x5_0001, b"hello");
        let request = self.event(SERVER);
        assert_eq!((request.event, request.uid), (CONNECT_REQUEST, 1));
        assert_eq!(request.parameters[8..13], *b"hello");
        assert_eq!(self.accept(SERVER, request.id, 3, Some(0x6_0001)).errno, 0);
        let response = self.event(CLIENT_SIDE);
        assert_eq!((response.event, response.id), (CONNECT_RESPONSE, client));
        assert_eq!(response.parameters[8..15], *b"welcome");
        assert_eq!(self.accept(CLIENT_SIDE, client, 0, None).errno, 0);
        let up = self.event(SERVER);
        assert_eq!((up.event, up.uid, up.id), (ESTABLISHED, 3, request.id));
        (request.id, client)
    }
}

/// `struct rdma_ucm_conn_param`.
fn parameters(qpn: u32, private_data: &[u8]) -> Vec<u8> {
    let mut bytes = qpn.to_ne_bytes().to_vec();
    bytes.extend([0; 4]);
    bytes.extend(private_data);
    bytes.resize(264, 0);
    bytes.push(u8::try_from(private_data.len()).unwrap());
    bytes.extend([0, 4, 5, 1, 6, 7, 1]);
    bytes
}

/// The 32-bit numbers of an answer.
fn words(bytes: &[u8]) -> Vec<u32> {
    let (words, _) = bytes.as_chunks();
    words.iter().map(|word| u32::from_ne_bytes(*word)).collect()
}

#[test]
fn programs_connect_and_disconnect_and_their_queue_pairs_fit() {
    let mut lab = Lab::new();
    let (server, client) = lab.established();
    let mut qp = |who, id, state| words(&lab.done(who, Lab::behind_pointer(11, id, state, 144)));
    // Mask, state, ..., number of the first packet in, out, queue pair of the peer.
    let (rtr, rts) = (qp(CLIENT_SIDE, client, 2), qp(CLIENT_SIDE, client, 3));
    let (peer_rtr, peer_rts) = (qp(SERVER, server, 2), qp(SERVER, server, 3));
    assert_eq!(
        (rtr[0], rtr[1]),
        (
            0x1 | 0x80 | 0x100 | 0x1000 | 0x8000 | 0x2_0000 | 0x10_0000,
            2
        )
    );
    assert_eq!((rtr[8], peer_rtr[8]), (0x6_0001, 0x5_0001));
    assert_eq!((rtr[6], peer_rtr[6]), (peer_rts[7], rts[7]));
    assert_ne!(rts[7], peer_rts[7], "each direction has numbers of its own");
    let dlid = |attributes: &[u32]| attributes[10 + 6].to_ne_bytes();
    let server_lid = lab.bed.at(1).lid().get().to_ne_bytes();
    assert_eq!(dlid(&rtr)[..2], server_lid);

    lab.done(CLIENT_SIDE, Lab::of_id(10, client, 0));
    for (who, id) in [(SERVER, server), (CLIENT_SIDE, client)] {
        let down = lab.event(who);
        assert_eq!((down.event, down.id), (DISCONNECTED, id));
    }
    assert_eq!(lab.event(CLIENT_SIDE).event, TIMEWAIT_EXIT);
    assert_eq!(lab.event(SERVER).event, TIMEWAIT_EXIT);
    // ADDR_RESOLVED, ROUTE_RESOLVED, CONNECT_RESPONSE, DISCONNECTED, TIMEWAIT_EXIT.
    assert_eq!(lab.destroy(CLIENT_SIDE, client), 5);
    assert_eq!(lab.destroy(SERVER, server), 3);
}

#[test]
fn the_peer_of_a_program_that_ends_is_told() {
    let mut lab = Lab::new();
    let (server, _) = lab.established();
    let client = CLIENT_SIDE.1;
    lab.bed.command(CLIENT_SIDE.0, Command::CmGone { client });
    let down = lab.event(SERVER);
    assert_eq!((down.event, down.id), (DISCONNECTED, server));
}

#[test]
fn where_nobody_listens_a_connection_is_refused_and_where_nobody_is_it_is_not_tried() {
    let mut lab = Lab::new();
    let client = lab.routed(2, TCP);
    lab.connect(client, 0x5_0001, b"");
    let refused = lab.event(CLIENT_SIDE);
    assert_eq!((refused.event, refused.status), (REJECTED, 8));
    let id = lab.create(CLIENT_SIDE, 4, TCP);
    let unknown = Ipv4Addr::new(10, 73, 9, 9);
    assert_eq!(lab.resolve(CLIENT_SIDE, id, unknown).errno, 0);
    let failed = lab.event(CLIENT_SIDE);
    assert_eq!((failed.event, failed.status), (ADDR_ERROR, -110));
    // The id is as it was, and may try again.
    let elsewhere = Ipv4Addr::new(192, 0, 2, 1);
    let refused = lab.resolve(CLIENT_SIDE, id, elsewhere);
    assert_eq!(refused.errno, more::ENETUNREACH, "there are no routers");
    assert_eq!(lab.resolve(CLIENT_SIDE, id, ip(1)).errno, 0);
    assert_eq!(lab.event(CLIENT_SIDE).event, ADDR_RESOLVED);
    let datagram = lab.routed(5, UDP);
    lab.connect(datagram, 0, b"");
    let refused = lab.event(CLIENT_SIDE);
    assert_eq!((refused.event, refused.status), (UNREACHABLE, 1));
}

#[test]
fn without_subnet_administration_there_is_no_route() {
    let mut lab = Lab::new();
    let id = lab.create(CLIENT_SIDE, 4, TCP);
    assert_eq!(lab.resolve(CLIENT_SIDE, id, ip(1)).errno, 0);
    assert_eq!(lab.event(CLIENT_SIDE).event, ADDR_RESOLVED);
    lab.serves = false;
    lab.done(CLIENT_SIDE, Lab::of_id(4, id, 500));
    let failed = lab.event(CLIENT_SIDE);
    assert_eq!((failed.event, failed.status), (ROUTE_ERROR, -110));
}

#[test]
fn a_queue_pair_of_datagrams_is_found() {
    let mut lab = Lab::new();
    lab.listen(SERVER, 1, UDP);
    let client = lab.routed(2, UDP);
    lab.connect(client, 0, b"who");
    let request = lab.event(SERVER);
    assert_eq!((request.event, request.uid), (CONNECT_REQUEST, 1));
    let accepted = lab.accept(SERVER, request.id, 7, Some(0x7_0001));
    assert_eq!(accepted.errno, 0);
    let found = lab.event(CLIENT_SIDE);
    assert_eq!((found.event, found.id), (ESTABLISHED, client));
    let found = words(&found.parameters);
    assert_eq!(found[..2], [0x7_0001, 0x0123_4567]);
}

#[test]
fn a_program_joins_a_group_and_leaves_it() {
    let mut lab = Lab::new();
    let id = lab.create(SERVER, 1, UDP);
    lab.done(SERVER, Lab::bind(id, ip(1), 0));
    let group = address(Ipv4Addr::new(239, 1, 2, 3), 0);
    let body = [&[0; 8][..], &9u64.to_ne_bytes(), &group, &id.to_ne_bytes()].concat();
    let member = lab.done(SERVER, command(16, &body, 4));
    let member = u32::from_ne_bytes(member.try_into().unwrap());
    let joined = lab.event(SERVER);
    assert_eq!(
        (joined.event, joined.uid, joined.id),
        (MULTICAST_JOIN, 9, member)
    );
    let gid = &joined.parameters[8..24];
    assert_eq!(
        gid,
        [
            0xff, 0x12, 0x40, 1, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 15, 1, 2, 3
        ]
    );
    let reported = lab.done(SERVER, Lab::behind_pointer(17, member, 0, 4));
    assert_eq!(reported, 1u32.to_ne_bytes());
    assert_eq!(lab.destroy(SERVER, id), 1);
}

/// How often a host has told subnet administration that it leaves a group.
fn leaves(lab: &mut Lab) -> usize {
    let mut count = 0;
    while let Some((message, request)) = lab.bed.receive_mad(0, CLIENT) {
        let is_membership = request.attr_id() == AttributeId::MC_MEMBER_RECORD;
        count += usize::from(is_membership && request.method() == Method::DELETE);
        let mut answer = request;
        answer.answer(MadStatus::OK);
        lab.answer(message.lid, &answer);
    }
    count
}

#[test]
fn a_group_is_left_when_the_last_of_those_who_need_it_at_the_host_has_left() {
    let mut lab = Lab::new();
    let id = lab.create(SERVER, 1, UDP);
    lab.done(SERVER, Lab::bind(id, ip(1), 0));
    let group = address(Ipv4Addr::new(239, 1, 2, 3), 0);
    let join = [&[0; 8][..], &9u64.to_ne_bytes(), &group, &id.to_ne_bytes()].concat();
    let join = |lab: &mut Lab| {
        let member = lab.done(SERVER, command(16, &join, 4));
        assert_eq!(lab.event(SERVER).event, MULTICAST_JOIN);
        u32::from_ne_bytes(member.try_into().unwrap())
    };
    let mgid = Gid([
        0xff, 0x12, 0x40, 1, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 15, 1, 2, 3,
    ]);
    let ask = |lab: &mut Lab, token: u64, request: Request| {
        let port = wire::PortNum::new(1);
        let command = Command::Control {
            token,
            port,
            request,
        };
        lab.bed.command(SERVER.0, command);
    };
    let told = |lab: &mut Lab, of: u64| {
        let events = &mut lab.bed.events[SERVER.0];
        let is_reply =
            |event: &Event| matches!(event, Event::Control { token, .. } if *token == of);
        events
            .iter()
            .position(is_reply)
            .and_then(|at| events.remove(at))
    };

    // The program leaves, the operator stays; then the other way round.
    let member = join(&mut lab);
    let send_only = false;
    ask(&mut lab, 1 << 40, Request::Join { mgid, send_only });
    lab.pass(100_000_000);
    assert!(told(&mut lab, 1 << 40).is_some(), "it has joined");
    lab.done(SERVER, Lab::behind_pointer(17, member, 0, 4));
    lab.bed.run(100_000_000);
    assert_eq!(leaves(&mut lab), 0, "the operator's membership needs it");
    let member = join(&mut lab);
    ask(&mut lab, 1 << 41, Request::Leave { mgid });
    lab.bed.run(100_000_000);
    assert_eq!(leaves(&mut lab), 0, "the program needs it");
    match told(&mut lab, 1 << 41) {
        Some(Event::Control {
            reply: Reply::Membership(_),
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
    let second = join(&mut lab);
    lab.done(SERVER, Lab::behind_pointer(17, member, 0, 4));
    lab.bed.run(100_000_000);
    assert_eq!(
        leaves(&mut lab),
        0,
        "there is a second membership of the program's"
    );
    lab.done(SERVER, Lab::behind_pointer(17, second, 0, 4));
    lab.bed.run(50_000_000);
    assert_eq!(leaves(&mut lab), 1);
}

#[test]
fn ids_of_others_and_nonsense_are_refused() {
    let mut lab = Lab::new();
    let (server, client) = lab.established();
    let (other, stranger) = (CLIENT_SIDE.0, ClientId((3 << 28) + 9));
    lab.open(other, stranger);
    let who = (other, stranger);
    for bytes in [
        Lab::of_id(10, client, 0),
        Lab::behind_pointer(1, client, 0, 4),
        Lab::behind_pointer(11, client, 2, 144),
        Lab::behind_pointer(18, client, 0, 4),
    ] {
        assert_eq!(lab.write(who, bytes).errno, errno::ENOENT);
    }
    assert_eq!(
        lab.write(who, command(99, &[0; 300], 0)).errno,
        more::ENOSYS
    );
    assert_eq!(lab.write(who, command(3, &[0; 10], 0)).errno, errno::EINVAL);
    assert_eq!(lab.write(who, vec![1, 2, 3]).errno, errno::EINVAL);
    let mut lies = command(12, &[0; 8], 336);
    lies[4] = 200;
    assert_eq!(lab.write(who, lies).errno, errno::EINVAL);
    let id = lab.create(who, 1, TCP);
    let not_own = Lab::bind(id, ip(1), 80);
    assert_eq!(lab.write(who, not_own).errno, more::EADDRNOTAVAIL);
    lab.done(who, Lab::bind(id, ip(2), 80));
    let second = lab.create(who, 2, TCP);
    let taken = Lab::bind(second, ip(2), 80);
    assert_eq!(lab.write(who, taken).errno, more::EADDRINUSE);
    // Who knows the other channel moves an id, and its events go with it.
    lab.done(CLIENT_SIDE, Lab::of_id(10, client, 0));
    lab.bed.run(1_000_000);
    let moving = Lab::behind_pointer(18, client, 0, 4);
    let moved = lab.write_from(who, moving, Some(CLIENT_SIDE.1));
    assert_eq!((moved.errno, moved.bytes), (0, 3u32.to_ne_bytes().to_vec()));
    assert_eq!(lab.event(who).event, DISCONNECTED);
    assert_eq!(lab.event(SERVER).id, server);
}

#[test]
fn a_token_is_there_while_events_wait() {
    let mut lab = Lab::new();
    // The neighbour is known from here on.
    let first = lab.routed(1, TCP);
    lab.destroy(CLIENT_SIDE, first);
    lab.bed.events[CLIENT_SIDE.0].clear();
    let id = lab.create(CLIENT_SIDE, 4, TCP);
    assert_eq!(lab.resolve(CLIENT_SIDE, id, ip(1)).errno, 0);
    let tokens = |lab: &mut Lab| {
        let events = &mut lab.bed.events[CLIENT_SIDE.0];
        let is_token = |event: &Event| {
            matches!(
                event,
                Event::Cm {
                    message: FromCm::Token,
                    ..
                }
            )
        };
        let count = events.iter().filter(|event| is_token(event)).count();
        events.retain(|event| !is_token(event));
        count
    };
    assert_eq!(tokens(&mut lab), 1);
    let reply = lab.write(CLIENT_SIDE, command(12, &[0; 8], 336));
    assert!(reply.take_token);
    assert_eq!(lab.resolve(CLIENT_SIDE, id, ip(1)).errno, errno::EINVAL);
    let second = lab.create(CLIENT_SIDE, 5, TCP);
    assert_eq!(lab.resolve(CLIENT_SIDE, second, ip(1)).errno, 0);
    assert_eq!(tokens(&mut lab), 1);
    let destroyed = lab.write(CLIENT_SIDE, Lab::behind_pointer(1, second, 0, 4));
    assert!(destroyed.take_token, "its event has gone with it");
    assert_eq!(destroyed.bytes, 0u32.to_ne_bytes());
}

#[test]
fn a_host_that_has_stopped_is_not_found_and_one_that_stops_later_is_not_reached() {
    let mut lab = Lab::new();
    lab.bed.stop(SERVER.0);
    let id = lab.create(CLIENT_SIDE, 1, TCP);
    let begin = lab.bed.now;
    assert_eq!(lab.resolve(CLIENT_SIDE, id, ip(1)).errno, 0);
    let failed = lab.event(CLIENT_SIDE);
    assert_eq!((failed.event, failed.status), (ADDR_ERROR, -110));
    // The program waits for two seconds ([`Lab::resolve`]).
    let waited_ms = lab.bed.now.since_ns(begin) / 1_000_000;
    assert!((2000..2100).contains(&waited_ms), "{waited_ms}");

    let mut lab = Lab::new();
    let id = lab.routed(2, TCP);
    lab.bed.stop(SERVER.0);
    lab.connect(id, 0x5_0001, b"");
    let failed = lab.event(CLIENT_SIDE);
    assert_eq!((failed.event, failed.status), (UNREACHABLE, -110));
}

#[test]
fn an_address_that_is_asked_for_is_of_no_use_to_who_has_gone() {
    let mut lab = Lab::new();
    let gone = lab.create(CLIENT_SIDE, 1, TCP);
    assert_eq!(lab.resolve(CLIENT_SIDE, gone, ip(1)).errno, 0);
    let again = lab.resolve(CLIENT_SIDE, gone, ip(1));
    assert_eq!(again.errno, errno::EINVAL, "it is being asked for");
    assert_eq!(lab.destroy(CLIENT_SIDE, gone), 0);
    let other = lab.create(CLIENT_SIDE, 2, TCP);
    assert_eq!(lab.resolve(CLIENT_SIDE, other, ip(1)).errno, 0);
    let found = lab.event(CLIENT_SIDE);
    assert_eq!(
        (found.event, found.id, found.uid),
        (ADDR_RESOLVED, other, 2)
    );
    lab.pass(5_000_000_000);
    let none = lab.write(CLIENT_SIDE, command(12, &[0; 8], 336));
    assert_eq!(none.errno, more::EAGAIN);
}
