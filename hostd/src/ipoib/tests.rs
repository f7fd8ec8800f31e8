//! Interfaces and an administrator, without IO.

use wire::ipoib::{Arp, ArpOperation};
use wire::mad::{MadStatus, Method};
use wire::sa::{McMemberRecord, PathRecord, mc_member_component};
use wire::{AttributeId, Format as _, Qpn};

use super::packets::with_headroom;
use super::*;

const MLID: Lid = Lid::new(0xc001);

fn gid(number: u16) -> Gid {
    Gid::new(
        Gid::DEFAULT_PREFIX,
        Guid(0x0200_0000_0000_0000 | u64::from(number)),
    )
}

fn lid(number: u16) -> Lid {
    Lid::new(number + 100)
}

/// The interface with that number, of an Active port.
fn interface(number: u16) -> Ipoib {
    let config = IpPort {
        port: PortNum::new(1),
        number: HostNumber::new(number).expect("in range"),
        interface: Some("ib0".to_owned()),
    };
    let mut ip = Ipoib::new(&config, gid(number).guid());
    ip.set_port(Time::ZERO, view(number), false);
    ip
}

fn view(number: u16) -> PortView {
    PortView {
        is_active: true,
        sm_lid: Lid::new(1),
        lid: lid(number),
        gid: gid(number),
        pkey: 0xffff,
        mtu: Mtu::Mtu4096,
    }
}

/// The administrator's answer: it grants every membership and knows the way to every port.
fn answer(request: &Mad) -> Mad {
    let mut mad = *request;
    mad.answer(MadStatus::OK);
    match mad.attr_id() {
        AttributeId::MC_MEMBER_RECORD => {
            let record: McMemberRecord = mad.sa_record().expect("a record");
            mad.set_sa_record(&McMemberRecord {
                mlid: MLID,
                qkey: wire::ipoib::BROADCAST_QKEY,
                mtu: Mtu::Mtu4096.code(),
                ..record
            });
        }
        AttributeId::PATH_RECORD => {
            let record: PathRecord = mad.sa_record().expect("a record");
            let [.., high, low] = record.dgid.0;
            mad.set_sa_record(&PathRecord {
                dlid: lid(u16::from_be_bytes([high, low])),
                mtu: Mtu::Mtu4096.code(),
                ..record
            });
        }
        _ => {}
    }
    mad
}

/// Sends all requests of an interface, and answers them; what was asked for.
fn serve(now: Time, ip: &mut Ipoib) -> Vec<AttributeId> {
    let mut asked = Vec::new();
    while let Some(request) = ip.poll_request(now) {
        asked.push(request.attr_id());
        ip.answered(now, &answer(&request));
    }
    asked
}

/// Carries all datagrams between two interfaces until none is left.
fn carry(now: Time, ends: &mut [Ipoib; 2]) {
    for _ in 0..16 {
        for from in 0..2 {
            serve(now, &mut ends[from]);
            while let Some(outgoing) = ends[from].next_outgoing() {
                let sgid = outgoing.group.map(|_| ends[from].port.gid);
                let payload = outgoing.payload().to_vec();
                let to = &mut ends[1 - from];
                if outgoing.dlid == to.port.lid || outgoing.group.is_some() {
                    let src_qp = IPOIB_QPN;
                    to.receive(
                        now,
                        Incoming {
                            src_qp,
                            sgid,
                            payload: &payload,
                        },
                    );
                }
            }
        }
    }
}

fn packets(ip: &mut Ipoib) -> Vec<Vec<u8>> {
    let events = std::iter::from_fn(|| ip.poll_event());
    let packets = events.filter_map(|event| match event {
        FromIp::Packet(packet) => Some(packet[HEADROOM..].to_vec()),
        _ => None,
    });
    packets.collect()
}

fn counted(ip: &Ipoib, name: &str) -> u64 {
    let found = ip.counts().named().find(|(known, _)| known == name);
    found.map_or(0, |(_, count)| count)
}

fn ipv4_packet(from: Ipv4Addr, to: Ipv4Addr, len: u16) -> Vec<u8> {
    let mut packet = vec![0; usize::from(len)];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    packet[9] = 17;
    packet[12..16].copy_from_slice(&from.octets());
    packet[16..20].copy_from_slice(&to.octets());
    packet
}

fn ipv6_packet(from: Ipv6Addr, to: Ipv6Addr) -> Vec<u8> {
    let mut packet = vec![0; 48];
    packet[0] = 0x60;
    packet[5] = 8;
    packet[6] = 17;
    packet[8..24].copy_from_slice(&from.octets());
    packet[24..40].copy_from_slice(&to.octets());
    packet
}

fn send(now: Time, ip: &mut Ipoib, packet: &[u8]) {
    ip.handle_packets(now, ToIp::Packets(vec![with_headroom(packet)]));
}

fn at(ms: u64) -> Time {
    Time::ZERO + ms * 1_000_000
}

fn pair() -> [Ipoib; 2] {
    let mut ends = [interface(1), interface(2)];
    carry(at(0), &mut ends);
    ends
}

#[test]
fn the_first_packet_waits_for_address_and_way_and_all_arrive_in_order() {
    let mut ends = pair();
    let [from, to] = [ends[0].ipv4, ends[1].ipv4];
    for len in [40, 50, 60] {
        send(at(1), &mut ends[0], &ipv4_packet(from, to, len));
    }
    carry(at(1), &mut ends);
    let came: Vec<usize> = packets(&mut ends[1]).iter().map(Vec::len).collect();
    assert_eq!(came, [40, 50, 60]);
    let asked = serve(at(2), &mut ends[0]);
    assert_eq!(asked, [], "the way is known");
    let [from, to] = [ends[0].ipv6, ends[1].ipv6];
    let packet = ipv6_packet(from, to);
    send(at(3), &mut ends[0], &packet);
    carry(at(3), &mut ends);
    assert_eq!(packets(&mut ends[1]), [packet]);
    assert_eq!(counted(&ends[0], "ip.sent"), 4);
    assert_eq!(counted(&ends[1], "ip.received"), 4);
}

#[test]
fn the_mtu_follows_the_group_of_all() {
    let mut ip = interface(1);
    serve(at(0), &mut ip);
    assert_eq!(ip.poll_event(), Some(FromIp::Mtu(4092)));
    let packet = ipv4_packet(ip.ipv4, Ipv4Addr::new(10, 73, 0, 9), 4093);
    send(at(1), &mut ip, &packet);
    assert_eq!(counted(&ip, "ip.dropped.too-long"), 1);
}

#[test]
fn who_does_not_answer_is_given_up_and_the_requests_are_told() {
    let mut ip = interface(1);
    serve(at(0), &mut ip);
    let absent = IpAddr::from(Ipv4Addr::new(10, 73, 0, 9));
    ip.resolve(at(0), Asker::Control(7), absent);
    let mut questions = 0;
    for ms in 0..4000 {
        serve(at(ms), &mut ip);
        while ip.next_outgoing().is_some() {
            questions += 1;
        }
        if let Some(resolved) = ip.poll_resolved() {
            assert_eq!(resolved, (Asker::Control(7), Err(Unresolved::NoAnswer)));
            assert_eq!((questions, ms), (4, 3750));
            return;
        }
    }
    panic!("no answer within 4 s");
}

#[test]
fn an_own_address_and_a_neighbours_are_resolved() {
    let mut ends = pair();
    let asker = Asker::Control(1);
    let own = ends[0].ipv4;
    ends[0].resolve(at(1), asker, own.into());
    let link = ends[0].link_address();
    assert_eq!(ends[0].poll_resolved(), Some((asker, Ok(link))));
    let other = ends[1].ipv4;
    ends[0].resolve(at(1), asker, other.into());
    assert_eq!(ends[0].poll_resolved(), None);
    carry(at(1), &mut ends);
    let link = ends[1].link_address();
    assert_eq!(ends[0].poll_resolved(), Some((asker, Ok(link))));
}

/// An ARP packet about `ip` at `link`, from the queue pair and port of `sender`.
fn tell(ip: &mut Ipoib, now: Time, arp: &Arp, sender: LinkAddress) {
    let mut payload = vec![0x08, 0x06, 0, 0];
    payload.extend(arp.to_bytes::<{ Arp::LEN }>());
    let incoming = Incoming {
        src_qp: sender.qpn,
        sgid: Some(sender.gid),
        payload: &payload,
    };
    ip.receive(now, incoming);
}

#[test]
fn lies_about_addresses_are_refused_or_probed() {
    let mut ends = pair();
    let [ours, theirs] = [ends[0].ipv4, ends[1].ipv4];
    send(at(1), &mut ends[0], &ipv4_packet(ours, theirs, 40));
    carry(at(1), &mut ends);
    let [us, liar] = [
        ends[0].link_address(),
        LinkAddress {
            qpn: IPOIB_QPN,
            gid: gid(66),
        },
    ];
    let lie = Arp {
        operation: ArpOperation::Reply,
        sender: liar,
        sender_ip: theirs,
        target: us,
        target_ip: ours,
    };
    tell(&mut ends[0], at(2), &lie, liar);
    assert_eq!(
        ends[0].neighbours.link(theirs.into()),
        Some(ends[1].link_address())
    );
    carry(at(2), &mut ends);
    let link = ends[0].neighbours.link(theirs.into());
    assert_eq!(link, Some(ends[1].link_address()), "it has answered");
    // In another's name, about this port's own address, and unasked of one that is not known.
    let them = ends[1].link_address();
    tell(&mut ends[0], at(3), &lie, them);
    assert_eq!(counted(&ends[0], "ip.dropped.lie"), 1);
    let conflict = Arp {
        sender_ip: ours,
        ..lie
    };
    tell(&mut ends[0], at(3), &conflict, liar);
    assert_eq!(counted(&ends[0], "ip.dropped.conflict"), 1);
    let stranger = Ipv4Addr::new(10, 73, 9, 9);
    tell(
        &mut ends[0],
        at(3),
        &Arp {
            sender_ip: stranger,
            ..lie
        },
        liar,
    );
    assert_eq!(ends[0].neighbours.link(stranger.into()), None);
}

#[test]
fn a_flood_of_strangers_leaves_bounded_tables() {
    let mut ip = interface(1);
    serve(at(0), &mut ip);
    let ours = ip.ipv4;
    for number in 2..10_000u16 {
        let sender = LinkAddress {
            qpn: IPOIB_QPN,
            gid: gid(number),
        };
        let [c, d] = number.to_be_bytes();
        let question = Arp {
            operation: ArpOperation::Request,
            sender,
            sender_ip: Ipv4Addr::new(10, 73, c, d),
            target: LinkAddress::default(),
            target_ip: ours,
        };
        tell(&mut ip, at(u64::from(number)), &question, sender);
    }
    let first = Ipv4Addr::new(10, 73, 0, 2);
    let last = Ipv4Addr::new(10, 73, 0x27, 0x0f);
    assert_eq!(ip.neighbours.link(first.into()), None);
    assert!(ip.neighbours.link(last.into()).is_some());
}

#[test]
fn what_is_cut_or_nonsense_is_dropped_with_a_reason() {
    let mut ip = interface(1);
    serve(at(0), &mut ip);
    let from = Ipv4Addr::new(10, 73, 0, 2);
    let whole = [&[8, 0, 0, 0][..], &ipv4_packet(from, ip.ipv4, 40)].concat();
    let mut take = |payload: &[u8]| {
        let incoming = Incoming {
            src_qp: IPOIB_QPN,
            sgid: None,
            payload,
        };
        ip.receive(at(1), incoming);
    };
    for len in 0..whole.len() {
        take(&whole[..len]);
    }
    take(&[8, 0, 0, 0, 0x65, 0, 0, 1]);
    take(&[0x88, 0xb5, 0, 0, 1]);
    take(&[0x08, 0x06, 0, 0, 0, 32]);
    take(&[0x86, 0xdd, 0, 0, 0x60, 0, 0, 0, 0xff, 0xff]);
    assert_eq!(counted(&ip, "ip.dropped.malformed"), 44 + 3);
    assert_eq!(counted(&ip, "ip.dropped.unknown-type"), 1);
    assert_eq!(packets(&mut ip), [] as [Vec<u8>; 0]);
}

#[test]
fn registration_anew_joins_and_asks_for_ways_again() {
    let mut ends = pair();
    let [from, to] = [ends[0].ipv4, ends[1].ipv4];
    send(at(1), &mut ends[0], &ipv4_packet(from, to, 40));
    carry(at(1), &mut ends);
    ends[0].set_port(at(2), view(1), false);
    assert_eq!(serve(at(2), &mut ends[0]), [], "nothing has changed");
    ends[0].set_port(at(3), view(1), true);
    let again = serve(at(3), &mut ends[0]);
    assert!(again.contains(&AttributeId::MC_MEMBER_RECORD), "{again:?}");
    assert!(again.contains(&AttributeId::INFORM_INFO), "{again:?}");
    send(at(4), &mut ends[0], &ipv4_packet(from, to, 40));
    assert_eq!(serve(at(4), &mut ends[0]), [AttributeId::PATH_RECORD]);
    let down = PortView {
        is_active: false,
        ..view(1)
    };
    ends[0].set_port(at(5), down, false);
    assert_eq!(serve(at(5), &mut ends[0]), []);
    ends[0].set_port(at(6), view(1), false);
    assert_eq!(serve(at(6), &mut ends[0])[0], AttributeId::MC_MEMBER_RECORD);
}

#[test]
fn a_missing_group_of_all_is_made_and_a_refusal_is_asked_about_again() {
    let mut ip = interface(1);
    let refuse = |ip: &mut Ipoib, now: Time| {
        let request = ip.poll_request(now).expect("a request");
        let mut refusal = request;
        refusal.answer(MadStatus::SA_REQUEST_INVALID);
        ip.answered(now, &refusal);
        request.sa_header().expect("a header").component_mask
    };
    let joins = refuse(&mut ip, at(0));
    assert_eq!(joins & mc_member_component::QKEY, 0);
    let makes = refuse(&mut ip, at(0));
    assert_ne!(makes & mc_member_component::QKEY, 0);
    assert!(ip.poll_request(at(4999)).is_none());
    let packet = ipv4_packet(ip.ipv4, Ipv4Addr::new(10, 73, 0, 9), 40);
    send(at(10), &mut ip, &packet);
    assert_eq!(counted(&ip, "ip.dropped.not-joined"), 1);
    serve(at(5000), &mut ip);
    assert!(ip.qkey().is_some());
}

#[test]
fn a_program_that_listens_joins_its_group_and_leaves_it() {
    let mut ip = interface(1);
    serve(at(0), &mut ip);
    let group: Ipv4Addr = "239.1.2.3".parse().expect("an address");
    let mgid = wire::ipoib::ipv4_group_gid(group, 0xffff, 2);
    let report = |kind: u8| {
        let mut packet = ipv4_packet(Ipv4Addr::new(10, 73, 0, 1), group, 28);
        packet[9] = 2;
        packet[20] = kind;
        packet[24..28].copy_from_slice(&group.octets());
        packet
    };
    send(at(1), &mut ip, &report(0x16));
    assert!(serve(at(1), &mut ip).contains(&AttributeId::MC_MEMBER_RECORD));
    assert!(ip.take_changed());
    assert!(ip.heard().any(|(heard, _)| heard == mgid));
    assert!(ip.next_outgoing().is_none(), "reports stay here");
    send(at(2), &mut ip, &report(0x17));
    let leave = ip.poll_request(at(2)).expect("a request");
    assert_eq!(leave.method(), Method::DELETE);
    ip.answered(at(2), &answer(&leave));
    assert!(ip.take_changed());
    assert!(ip.heard().all(|(heard, _)| heard != mgid));
}

#[test]
fn a_group_that_nobody_is_in_takes_no_packets() {
    let mut ip = interface(1);
    serve(at(0), &mut ip);
    let group: Ipv4Addr = "239.9.9.9".parse().expect("an address");
    let packet = ipv4_packet(ip.ipv4, group, 40);
    send(at(1), &mut ip, &packet);
    while let Some(request) = ip.poll_request(at(1)) {
        let mut refusal = request;
        refusal.answer(MadStatus::SA_REQUEST_INVALID);
        ip.answered(at(1), &refusal);
    }
    assert_eq!(counted(&ip, "ip.dropped.no-group"), 1);
    assert!(ip.next_outgoing().is_none());
}

#[test]
fn a_report_that_a_port_has_gone_has_its_way_asked_for_again() {
    let mut ends = pair();
    let [from, to] = [ends[0].ipv4, ends[1].ipv4];
    send(at(1), &mut ends[0], &ipv4_packet(from, to, 40));
    carry(at(1), &mut ends);
    let mut report = Mad::sa(Method::REPORT, AttributeId::NOTICE, 0, 1);
    let mut notice = wire::attr::Notice::link_state_change(lid(2));
    notice.trap_number = wire::attr::trap::GID_OUT_OF_SERVICE;
    wire::attr::TrapGid { gid: gid(2) }.emit(&mut notice.details);
    notice.emit(report.sa_data_mut());
    ends[0].reported(at(2), &report);
    send(at(3), &mut ends[0], &ipv4_packet(from, to, 40));
    assert_eq!(serve(at(3), &mut ends[0]), [AttributeId::PATH_RECORD]);
}

#[test]
fn without_an_interface_addresses_are_answered_and_packets_are_not_taken() {
    let config = IpPort {
        port: PortNum::new(1),
        number: HostNumber::new(2).expect("in range"),
        interface: None,
    };
    let mut other = Ipoib::new(&config, gid(2).guid());
    other.set_port(Time::ZERO, view(2), false);
    let mut asking = Ipoib::new(
        &IpPort {
            number: HostNumber::new(1).expect("in range"),
            ..config
        },
        gid(1).guid(),
    );
    asking.set_port(Time::ZERO, view(1), false);
    let mut ends = [asking, other];
    carry(at(0), &mut ends);
    let wanted = Ipv4Addr::new(127, 73, 0, 2);
    ends[0].resolve(at(1), Asker::Control(3), wanted.into());
    carry(at(1), &mut ends);
    let link = LinkAddress {
        qpn: Qpn::constant(0x1b4),
        gid: gid(2),
    };
    assert_eq!(ends[0].poll_resolved(), Some((Asker::Control(3), Ok(link))));
    let packet = ipv4_packet(ends[0].ipv4, wanted, 40);
    send(at(2), &mut ends[0], &packet);
    carry(at(2), &mut ends);
    assert_eq!(counted(&ends[1], "ip.dropped.no-interface"), 1);
}
