use hostd::queue_pair::{FromQueuePair, IncomingDatagram, OutgoingDatagram, ToQueuePair};
use hostd::{ClientId, Command, Event};
use link::{DropReason, PortConfig};
use mad::local::{FromAgent, ToAgent};
use wire::attr::{
    MulticastForwardingTable, Notice, PKeyTable, PortInfo, PortPhysState, PortState, Trap257,
};
use wire::mad::{AttributeId, Mad, MadStatus, Method};
use wire::{Format as _, Gid, Lid, Qpn, Sl};

use crate::bed::{Bed, CLIENT, lid};
use crate::manage::bring_up_star;

const QKEY: u32 = 0x77;
const GROUP: Gid = Gid([
    0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
]);

fn command_queue_pair(bed: &mut Bed, host: usize, message: ToQueuePair) {
    bed.command(
        host,
        Command::Datagram {
            client: CLIENT,
            message,
        },
    );
}

fn heard(bed: &mut Bed, host: usize) -> Option<FromQueuePair> {
    let events = &mut bed.events[host];
    let at = events
        .iter()
        .position(|event| matches!(event, Event::Datagram { .. }))?;
    match events.remove(at)? {
        Event::Datagram { message, .. } => Some(message),
        _ => None,
    }
}

fn open(bed: &mut Bed, host: usize) -> Qpn {
    command_queue_pair(
        bed,
        host,
        ToQueuePair::Open {
            qpn: None,
            qkey: QKEY,
        },
    );
    match bed.until(|bed| heard(bed, host)) {
        FromQueuePair::Opened { qpn } => qpn,
        other => panic!("{other:?}"),
    }
}

fn received(bed: &mut Bed, host: usize) -> IncomingDatagram {
    match bed.until(|bed| heard(bed, host)) {
        FromQueuePair::Received(datagram) => datagram,
        other => panic!("{other:?}"),
    }
}

fn to(lid: Lid, qpn: Qpn, qkey: u32) -> OutgoingDatagram {
    OutgoingDatagram {
        lid,
        gid: None,
        sl: Sl::default(),
        qpn,
        qkey,
        immediate: Some(9),
        payload: b"hello".to_vec(),
    }
}

fn dropped(bed: &mut Bed, host: usize, reason: DropReason) -> u64 {
    bed.at(host).port().counts().drops[reason]
}

#[test]
fn a_datagram_reaches_the_program_that_opened_the_queue_pair() {
    let mut bed = Bed::star(2, PortConfig::default());
    bring_up_star(&mut bed, 2);
    let (from, there) = (open(&mut bed, 0), open(&mut bed, 1));
    command_queue_pair(
        &mut bed,
        0,
        ToQueuePair::Send {
            qpn: from,
            datagram: to(lid(2), there, QKEY),
        },
    );
    let datagram = received(&mut bed, 1);
    assert_eq!(
        (datagram.lid, datagram.qpn, datagram.to),
        (lid(1), from, there)
    );
    assert_eq!(
        (datagram.immediate, datagram.payload.as_slice()),
        (Some(9), b"hello".as_slice())
    );

    for (qpn, qkey, reason) in [
        (there, QKEY + 1, DropReason::BadQkey),
        (Qpn::constant(0x9999), QKEY, DropReason::NoQueuePair),
    ] {
        command_queue_pair(
            &mut bed,
            0,
            ToQueuePair::Send {
                qpn: from,
                datagram: to(lid(2), qpn, qkey),
            },
        );
        bed.run(1_000_000);
        assert_eq!(
            (heard(&mut bed, 1), dropped(&mut bed, 1, reason)),
            (None, 1)
        );
    }
}

#[test]
fn what_a_program_may_not_do_is_refused() {
    let mut bed = Bed::star(2, PortConfig::default());
    bring_up_star(&mut bed, 2);
    let own = open(&mut bed, 0);
    let long = OutgoingDatagram {
        payload: vec![0; 2049],
        ..to(lid(2), own, QKEY)
    };
    let refused = [
        ToQueuePair::Open {
            qpn: Some(Qpn::GSI),
            qkey: 0,
        },
        ToQueuePair::Open {
            qpn: Some(own),
            qkey: 0,
        },
        ToQueuePair::Close {
            qpn: Qpn::constant(5),
        },
        ToQueuePair::Send {
            qpn: own,
            datagram: long,
        },
        ToQueuePair::Send {
            qpn: own,
            datagram: to(lid(0xc001), own, QKEY),
        },
        ToQueuePair::Send {
            qpn: own,
            datagram: to(Lid::PERMISSIVE, own, QKEY),
        },
        ToQueuePair::Attach {
            qpn: own,
            mgid: Gid([0; 16]),
        },
    ];
    for message in refused {
        command_queue_pair(&mut bed, 0, message.clone());
        let answer = bed.until(|bed| heard(bed, 0));
        assert!(
            matches!(answer, FromQueuePair::Refused(_)),
            "{message:?}: {answer:?}"
        );
    }
    let other = ClientId(99);
    bed.command(0, Command::DatagramGone { client: other });
    command_queue_pair(&mut bed, 0, ToQueuePair::Close { qpn: own });
    bed.run(1_000_000);
    assert_eq!(heard(&mut bed, 0), None, "closed without a word");
}

#[test]
fn a_multicast_datagram_reaches_every_member_once_and_no_other_host() {
    let mut bed = Bed::star(4, PortConfig::default());
    bring_up_star(&mut bed, 4);
    let mut table = MulticastForwardingTable::default();
    table.0[1] = 0b1111 << 1;
    let answer = bed.directed(
        Method::SET,
        AttributeId::MULTICAST_FORWARDING_TABLE,
        0,
        &[1],
        |mad| {
            mad.set_smp_attribute(&table);
        },
    );
    assert_eq!(answer.status().without_direction(), MadStatus::OK);
    let own = [0, 1, 2, 3].map(|host| open(&mut bed, host));
    for host in [0, 1, 2] {
        command_queue_pair(
            &mut bed,
            host,
            ToQueuePair::Attach {
                qpn: own[host],
                mgid: GROUP,
            },
        );
    }
    let datagram = OutgoingDatagram {
        gid: Some(GROUP),
        ..to(lid(0xc001), Qpn::MULTICAST, QKEY)
    };
    command_queue_pair(
        &mut bed,
        0,
        ToQueuePair::Send {
            qpn: own[0],
            datagram,
        },
    );
    bed.run(1_000_000);
    for host in [0, 1, 2] {
        let datagram = received(&mut bed, host);
        assert_eq!(
            (datagram.to, datagram.lid, datagram.dlid),
            (own[host], lid(1), lid(0xc001))
        );
        assert_eq!(datagram.gids.map(|(_, group)| group), Some(GROUP));
        assert_eq!(heard(&mut bed, host), None, "host {host} hears it once");
    }
    assert_eq!(heard(&mut bed, 3), None);
    assert_eq!(dropped(&mut bed, 3, DropReason::NotForUs), 1);
}

#[test]
fn a_packet_of_another_partition_is_dropped() {
    let mut bed = Bed::star(2, PortConfig::default());
    bring_up_star(&mut bed, 2);
    let (from, there) = (open(&mut bed, 0), open(&mut bed, 1));
    let mut keys = PKeyTable::default();
    let mut set = |bed: &mut Bed, key: u16| {
        keys.0[0] = key;
        bed.directed(Method::SET, AttributeId::PKEY_TABLE, 0, &[1, 2], |mad| {
            mad.set_smp_attribute(&keys);
        });
    };
    // Ours is 0xffff: the default partition, full member.
    for (key, passes) in [(0x7fff, true), (0x8001, false), (0xffff, true)] {
        set(&mut bed, key);
        let before = dropped(&mut bed, 1, DropReason::RcvPartition);
        command_queue_pair(
            &mut bed,
            0,
            ToQueuePair::Send {
                qpn: from,
                datagram: to(lid(2), there, QKEY),
            },
        );
        bed.run(1_000_000);
        assert_eq!(heard(&mut bed, 1).is_some(), passes, "{key:#x}");
        let after = dropped(&mut bed, 1, DropReason::RcvPartition);
        assert_eq!(after - before, u64::from(!passes));
    }
    assert_eq!(port_info(&mut bed).p_key_violations, 1);
}

/// PortInfo of the second host.
fn port_info(bed: &mut Bed) -> PortInfo {
    let answer = bed.directed(Method::GET, AttributeId::PORT_INFO, 1, &[1, 2], |_| {});
    answer.smp_attribute().unwrap()
}

#[test]
fn wrong_keys_are_told_to_the_subnet_manager() {
    let mut bed = Bed::star(2, PortConfig::default());
    bring_up_star(&mut bed, 2);
    let (from, there) = (open(&mut bed, 0), open(&mut bed, 1));
    let info = PortInfo {
        master_sm_lid: lid(1),
        port_state: PortState::NoChange,
        port_phys_state: PortPhysState::NoChange,
        ..port_info(&mut bed)
    };
    bed.directed(Method::SET, AttributeId::PORT_INFO, 1, &[1, 2], |mad| {
        mad.set_smp_attribute(&info);
    });
    let mut keys = PKeyTable::default();
    keys.0[0] = 0x8001;
    let send = |bed: &mut Bed, qkey: u32| {
        // The first host stands for the subnet manager, but not while a test asks a question: a trap
        // must not come between that and its answer.
        let mad = |message| Command::Mad {
            client: CLIENT,
            message,
        };
        bed.command(0, mad(ToAgent::Register { class: 1 }));
        bed.events[0].clear();
        let datagram = to(lid(2), there, qkey);
        command_queue_pair(
            bed,
            0,
            ToQueuePair::Send {
                qpn: from,
                datagram,
            },
        );
        bed.run(100_000_000);
        bed.command(0, mad(ToAgent::Unregister { class: 1 }));
        let traps = bed.events[0].iter().filter_map(|event| match event {
            Event::Mad {
                message: FromAgent::Received(message),
                ..
            } => Some(Mad::from_bytes(*message.mad)),
            _ => None,
        });
        let traps = traps.filter(|mad| mad.method() == Method::TRAP);
        let notices: Vec<Notice> = traps.map(|mad| mad.smp_attribute().unwrap()).collect();
        bed.events[0].clear();
        notices.first().copied()
    };
    assert_eq!(send(&mut bed, QKEY), None);
    let notice = send(&mut bed, QKEY + 1).expect("a trap");
    assert_eq!((notice.trap_number, notice.issuer_lid), (258, lid(2)));
    let (details, _) = Trap257::parse(&notice.details).unwrap();
    assert_eq!((details.slid, details.dlid), (lid(1), lid(2)));
    assert_eq!(
        (details.key, details.src_qp, details.dest_qp),
        (QKEY + 1, from, there)
    );
    bed.directed(Method::SET, AttributeId::PKEY_TABLE, 0, &[1, 2], |mad| {
        mad.set_smp_attribute(&keys);
    });
    let notice = send(&mut bed, QKEY).expect("a trap");
    assert_eq!(notice.trap_number, 257);
    let (details, _) = Trap257::parse(&notice.details).unwrap();
    assert_eq!((details.key, details.slid), (0xffff, lid(1)));
    let info = port_info(&mut bed);
    assert_eq!((info.p_key_violations, info.q_key_violations), (1, 1));
}
