//! A host with an internet address and its interface: what programs send, what other hosts send, and what subnet
//! administration answers.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hostd::addresses::{HostNumber, Network};
use hostd::control::{Reply, Request};
use hostd::{Command, Event, FromIp, HEADROOM, Host, IpPort, OUTGOING_MAX, ToIp};
use link::{Device as _, Input};
use wire::ipoib::{
    Arp, ArpOperation, BROADCAST_QKEY, Discovery, DiscoveryKind, Encapsulation, LinkAddress,
    broadcast_gid, ethertype, link_local, solicited_node,
};
use wire::{
    Format as _, Gid, GlobalRoute, Lid, Mad, Mtu, PortNum, Psn, Qpn, RecordKind, Sl, UdPacket, Vl,
};

use super::administration::{Administration, MANAGER, PORTS, gid};
use super::host::config;
use super::{Bench, LIDS, OWN, emitted, record};
use crate::Parts;
use crate::fields::Fields;

const PORT: PortNum = PortNum::new(1);
/// The queue pair of every interface.
const INTERFACE: Qpn = Qpn::constant(0x1b4);
/// The longest packet of the interface: what the port's MTU leaves.
const MTU_MAX: u16 = Mtu::Mtu2048.bytes() - 4;

/// The host, its number, and who else has addresses.
fn number(of: u8) -> HostNumber {
    HostNumber::new(u16::from(of % 4) + 1).expect("a small number")
}

fn ipv4(of: u8) -> Ipv4Addr {
    number(of).ipv4(Network::Interfaces)
}

fn ipv6(of: u8) -> Ipv6Addr {
    match of & 4 {
        0 => number(of).ipv6(),
        _ => link_local(gid(PORTS[usize::from(of % 4)])),
    }
}

struct Bed {
    bench: Bench<Host>,
    administration: Administration,
    /// Packets that the interface has handed in, and that it was told to have left.
    handed: u32,
    taken: u32,
    /// Requests to resolve an address, and how often each was answered.
    asked: BTreeMap<u64, u32>,
}

impl Bed {
    fn new() -> Self {
        let mut config = config();
        config.ip = vec![IpPort {
            port: PORT,
            number: number(0),
            interface: Some("ib0".into()),
        }];
        let host = Host::new(config).expect("a sound configuration");
        let mut bench = Bench::new(host, 1);
        bench.keeps = Some(INTERFACE);
        bench.activate(PORT, PORT, OWN);
        let mut bed = Self {
            bench,
            administration: Administration::default(),
            handed: 0,
            taken: 0,
            asked: BTreeMap::new(),
        };
        bed.settle();
        bed
    }

    /// Takes what has come out of the host.
    ///
    /// # Panics
    /// If it is not what an interface may send, be told, or answer.
    fn settle(&mut self) {
        for (_, mad) in self.bench.mads.drain(..) {
            self.administration.take(mad);
        }
        for (dlid, payload) in self.bench.datagrams.drain(..) {
            let is_named = self.administration.named.contains(&dlid);
            assert!(is_named, "nobody has said that anything is at LID {dlid}");
            check_sent(&payload);
        }
        while let Some(event) = self.bench.device.poll_event() {
            match event {
                Event::Ip { port, message } => {
                    assert_eq!(port, PORT);
                    self.told(&message);
                }
                Event::Control { token, reply } => {
                    let count = self.asked.get_mut(&token).expect("it was asked");
                    *count += 1;
                    let is_answer = matches!(reply, Reply::Resolved { .. } | Reply::Refused(_));
                    assert!(is_answer, "{reply:?}");
                }
                _ => {}
            }
        }
        assert!(self.taken <= self.handed, "more has left than there was");
    }

    fn told(&mut self, message: &FromIp) {
        match message {
            FromIp::Packet(bytes) => {
                let packet = bytes.get(HEADROOM..).expect("room for headers");
                assert_eq!(Some(packet.len()), length(packet), "one whole packet");
                let discovery = Discovery::of_packet(packet);
                assert!(
                    matches!(discovery, Ok(None)),
                    "the kernel has no link-layer addresses"
                );
            }
            FromIp::Taken(count) => self.taken += count,
            FromIp::Mtu(mtu) => assert!(*mtu <= MTU_MAX && *mtu >= 252, "{mtu}"),
        }
    }

    /// Packets of programs, one for each byte of the first field; the interface keeps to the room that there is.
    fn send(&mut self, fields: &mut Fields<'_>) {
        let count = u32::from(fields.byte() % 8) + 1;
        let room = u32::try_from(OUTGOING_MAX).expect("few") - (self.handed - self.taken);
        let packet = packet(fields);
        let with_room = [&[0; HEADROOM][..], &packet].concat();
        let count = count.min(room);
        let packets = (0..count).map(|_| with_room.clone()).collect();
        self.handed += count;
        let message = ToIp::Packets(packets);
        self.command(Command::Ip {
            port: PORT,
            message,
        });
    }

    fn command(&mut self, command: Command) {
        let now = self.bench.now;
        self.bench.device.handle(now, Input::Command(command));
        self.bench.exchange();
    }

    fn resolve(&mut self, fields: &mut Fields<'_>) {
        let token = u64::try_from(self.asked.len()).expect("few") + 1;
        self.asked.insert(token, 0);
        let (four, who) = (fields.flag(), fields.byte());
        let address: IpAddr = match four {
            true => ipv4(who).into(),
            false => ipv6(who).into(),
        };
        self.command(Command::Control {
            token,
            port: PORT,
            request: Request::Resolve { address },
        });
    }

    /// An answer or a report of subnet administration.
    fn administer(&mut self, mad: &Mad) {
        let packet = UdPacket::gmp(MANAGER, OWN, Sl::default(), Vl::default(), mad);
        let packet = emitted(&packet);
        self.bench.frame(PORT, &record(RecordKind::Data, &packet));
        self.bench.exchange();
    }

    /// A datagram of another host, to the interface or to the group of all.
    fn receive(&mut self, fields: &mut Fields<'_>) {
        let who = fields.byte() % 4;
        let options = fields.byte();
        let payload = payload(who, fields);
        let to_all = options & 1 != 0;
        let sgid = gid(PORTS[usize::from(who)]);
        let global = GlobalRoute {
            tclass: 0,
            flow_label: 0,
            hop_limit: 1,
            sgid,
            dgid: match to_all {
                true => broadcast_gid(0xffff, 2),
                false => gid(PORTS[0]),
            },
        };
        let packet = emitted(&UdPacket {
            vl: Vl::default(),
            sl: Sl::default(),
            dlid: if to_all { Lid::new(0xc000) } else { OWN },
            slid: LIDS[usize::from(who)],
            global: (to_all || options & 2 != 0).then_some(global),
            solicited: false,
            pkey: 0xffff,
            dest_qp: if to_all { Qpn::MULTICAST } else { INTERFACE },
            psn: Psn::default(),
            qkey: if options & 4 == 0 { BROADCAST_QKEY } else { 7 },
            src_qp: if options & 8 == 0 {
                INTERFACE
            } else {
                Qpn::GSI
            },
            immediate: None,
            payload: &payload,
        });
        self.bench.frame(PORT, &record(RecordKind::Data, &packet));
        self.bench.exchange();
    }

    /// Every answer comes, and the cable is in its port: what waits goes.
    fn finish(&mut self) {
        self.bench.renew(PORT, OWN);
        for _ in 0..40 {
            self.settle();
            for answer in self.administration.answer_all() {
                self.administer(&answer);
            }
            self.bench.pass(400_000_000);
        }
        self.settle();
    }
}

/// The length that an IP packet says it has.
fn length(packet: &[u8]) -> Option<usize> {
    let at = |at: usize| {
        Some(usize::from(u16::from_be_bytes(
            *packet.get(at..)?.first_chunk()?,
        )))
    };
    match packet.first()? >> 4 {
        4 => at(2),
        6 => Some(40 + at(4)?),
        _ => None,
    }
}

/// What the interface sends: IP packets, and of itself only its own addresses.
fn check_sent(payload: &[u8]) {
    let (header, packet) = Encapsulation::parse(payload).expect("an encapsulation");
    assert!(
        payload.len() <= usize::from(Mtu::Mtu256.bytes()),
        "{}",
        payload.len()
    );
    let own = LinkAddress {
        qpn: INTERFACE,
        gid: gid(PORTS[0]),
    };
    match header.ethertype {
        ethertype::ARP => {
            let (arp, _) = Arp::parse(packet).expect("ARP");
            assert_eq!((arp.sender, arp.sender_ip), (own, ipv4(0)));
        }
        ethertype::IPV4 | ethertype::IPV6 => {
            if let Ok(Some(message)) = Discovery::of_packet(packet) {
                assert_eq!(message.link, Some(own));
                assert!([ipv6(0), ipv6(4)].contains(&message.source), "{message:?}");
            }
        }
        other => panic!("no type of packet: {other:#x}"),
    }
}

/// An IP packet: version, who it is for, and what is in it.
fn packet(fields: &mut Fields<'_>) -> Vec<u8> {
    let (kind, who, proto) = (fields.byte() % 6, fields.byte(), fields.byte());
    let v4 = |to: Ipv4Addr, rest: &[u8]| {
        let len = u16::try_from(20 + rest.len()).expect("short").to_be_bytes();
        let head = [0x45, 0, len[0], len[1], 0, 0, 0, 0, 1, proto, 0, 0];
        [&head[..], &ipv4(0).octets(), &to.octets(), rest].concat()
    };
    let v6 = |to: Ipv6Addr, rest: &[u8]| {
        let len = u16::try_from(rest.len()).expect("short").to_be_bytes();
        let head = [0x60, 0, 0, 0, len[0], len[1], proto, 255];
        [&head[..], &ipv6(0).octets(), &to.octets(), rest].concat()
    };
    let rest = fields.rest();
    let rest = &rest[..rest.len().min(2100)];
    match kind {
        0 => v4(ipv4(who), rest),
        1 => v6(ipv6(who), rest),
        2 => v4(Ipv4Addr::new(224, 0, who & 1, who), rest),
        3 => v6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, who.into()), rest),
        4 => v4(Ipv4Addr::BROADCAST, rest),
        _ => rest.to_vec(),
    }
}

/// What another host sends: ARP, neighbour discovery, packets, or bytes.
fn payload(who: u8, fields: &mut Fields<'_>) -> Vec<u8> {
    let (kind, lies, of, to) = (
        fields.byte() % 5,
        fields.byte(),
        fields.byte(),
        fields.byte(),
    );
    let link = LinkAddress {
        qpn: if lies & 1 == 0 {
            INTERFACE
        } else {
            Qpn::truncate(9)
        },
        gid: match lies & 2 {
            0 => gid(PORTS[usize::from(who)]),
            _ => Gid([lies; 16]),
        },
    };
    let under = |kind: u16, packet: &[u8]| {
        let header = Encapsulation { ethertype: kind };
        let mut bytes = [&header.to_bytes::<{ Encapsulation::LEN }>()[..], packet].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    };
    match kind {
        0 => {
            let arp = Arp {
                operation: match lies & 4 {
                    0 => ArpOperation::Request,
                    _ => ArpOperation::Reply,
                },
                sender: link,
                sender_ip: ipv4(of),
                target: LinkAddress::default(),
                target_ip: ipv4(to),
            };
            let mut bytes = arp.to_bytes::<{ Arp::LEN }>();
            alter(&mut bytes, fields);
            under(ethertype::ARP, &bytes)
        }
        1 => {
            let target = ipv6(to);
            let message = Discovery {
                kind: match lies & 4 {
                    0 => DiscoveryKind::Solicitation,
                    _ => DiscoveryKind::Advertisement {
                        router: lies & 8 != 0,
                        solicited: lies & 16 != 0,
                        replaces: lies & 32 != 0,
                    },
                },
                source: ipv6(of),
                destination: solicited_node(target),
                target,
                link: (lies & 64 == 0).then_some(link),
            };
            let mut bytes = [0; Discovery::LEN_MAX];
            let len = message.emit(&mut bytes);
            alter(&mut bytes, fields);
            under(ethertype::IPV6, &bytes[..len])
        }
        2 | 3 => {
            let packet = packet(fields);
            let packet = &packet[..packet.len().min(240)];
            let kinds = [ethertype::IPV4, ethertype::IPV6];
            under(kinds[usize::from(kind & 1)], packet)
        }
        _ => {
            let rest = fields.rest();
            let mut bytes = rest[..rest.len().min(256)].to_vec();
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        }
    }
}

/// Changes single bytes: pairs of a place and what is added to it.
fn alter(bytes: &mut [u8], fields: &mut Fields<'_>) {
    for pair in fields.rest().chunks_exact(2).take(8) {
        let place = usize::from(pair[0]) % bytes.len();
        bytes[place] ^= pair[1];
    }
}

/// Each part is a step: one of those that any device can be handed, packets of the interface, a datagram of another host, an
/// answer of subnet administration, an address to be resolved.
///
/// # Panics
/// If a packet goes to a LID that nobody has named, tells another's address as the host's own, or is never told to have
/// left; if the interface is handed what is no whole packet; if an address is not resolved or refused exactly once.
pub(crate) fn internet(bytes: &[u8]) {
    let mut bed = Bed::new();
    for part in Parts::of(bytes) {
        let mut fields = Fields::of(part);
        let what = fields.byte() % 12;
        let _ = fields.byte();
        match what {
            8 => bed.send(&mut fields),
            9 => bed.receive(&mut fields),
            10 => {
                if let Some(answer) = bed.administration.answer(&mut fields) {
                    bed.administer(&answer);
                }
            }
            11 => bed.resolve(&mut fields),
            _ => {
                bed.bench.step(what, PORT, &mut fields);
            }
        }
        bed.settle();
    }
    bed.finish();
    assert_eq!(
        bed.taken, bed.handed,
        "every packet has left or was dropped"
    );
    assert!(
        bed.asked.values().all(|&count| count == 1),
        "{:?}",
        bed.asked
    );
    bed.bench.empty();
}

/// The life of an interface, with every kind of packet, answer and lie.
pub(crate) fn inputs() -> Vec<Vec<u8>> {
    let step = |what: u8, fields: &[u8]| [&[what, 0], fields].concat();
    let answer = || step(10, &[0, 0, 0]);
    // The group of all is joined: a request of the interface, which is made if it is refused.
    let joined = vec![answer(), answer(), step(6, &[100]), answer()];
    let udp = [0; 12];
    let sent: Vec<Vec<u8>> = (0..6)
        .map(|kind| step(8, &[&[0, kind, 1, 17][..], &udp].concat()))
        .collect();
    let mut heard = Vec::new();
    for kind in 0..5 {
        for lies in [0, 1, 2, 4, 4 | 16, 4 | 16 | 32, 64] {
            heard.push(step(9, &[1, 0, kind, lies, 1, 0]));
            heard.push(step(9, &[1, 1, kind, lies, 1, 0]));
        }
    }
    let answers: Vec<Vec<u8>> = (0..5)
        .map(|how| step(10, &[0, how, 1, 0, 0, 0x40, 0xff, 0xff]))
        .collect();
    let resolved = [step(11, &[0, 1]), step(11, &[1, 2]), step(11, &[0, 0])];
    let times = [
        step(6, &[100]),
        step(6, &[120]),
        step(7, &[1]),
        step(7, &[0]),
    ];
    let mut inputs = vec![Parts::join(&joined)];
    let rest = [&sent[..], &heard, &answers, &resolved, &times].concat();
    for one in &rest {
        let all = [
            &joined[..],
            &[one.clone(), answer()],
            &sent[..2],
            &[answer()],
        ];
        inputs.push(Parts::join(all.concat()));
    }
    for chunk in rest.chunks(10) {
        inputs.push(Parts::join([&joined[..], chunk, &answers, &times].concat()));
    }
    inputs
}
