//! Datagrams of programs: keys, partitions, groups, and what the subnet manager hears of violations.

use hostd::{Command, Event};
use link::DropReason;
use mad::local::{FromAgent, ToAgent};
use uverbs::entry::{Completion, Data, Send, opcode, wc_flag};
use uverbs::{AddressAttributes, GlobalAttributes, Reply, Request};
use wire::attr::{
    MulticastForwardingTable, Notice, PKeyTable, PortInfo, PortPhysState, PortState, Trap257,
};
use wire::mad::{AttributeId, Mad, MadStatus, Method};
use wire::{Format as _, Qpn};

use crate::bed::{Bed, CLIENT, lid};
use crate::lab::{GROUP, Lab, Program, QKEY, SUCCESS, piece, ready, receive, request};

/// A program with a queue pair of datagrams on each host.
fn programs<const N: usize>(lab: &mut Lab) -> [(Program, u32); N] {
    std::array::from_fn(|host| {
        let program = lab.program(host, 100 + u32::try_from(host).unwrap());
        (program, ready(lab, program))
    })
}

/// A handle of a way to a LID, and to a group there.
fn way(lab: &mut Lab, of: Program, dlid: u16, is_group: bool) -> u32 {
    let global = GlobalAttributes {
        dgid: GROUP.0,
        hop_limit: 1,
        ..GlobalAttributes::default()
    };
    let attributes = AddressAttributes {
        dlid,
        port_num: 1,
        global: is_group.then_some(global),
        ..AddressAttributes::default()
    };
    let pd = of.pd;
    lab.handle((of.host, of.client), Request::CreateAh { pd, attributes })
}

fn hello(handle: u32, remote_qpn: u32, remote_qkey: u32) -> Send {
    Send {
        handle,
        remote_qpn,
        remote_qkey,
        immediate: 9,
        ..request(1, opcode::SEND_WITH_IMM, Data::Inline(b"hello".to_vec()))
    }
}

fn received(lab: &mut Lab, of: Program) -> Completion {
    let done = lab.completion(of);
    assert_eq!((done.opcode, done.status), (128, SUCCESS));
    done
}

#[test]
fn a_datagram_reaches_the_program_whose_queue_pair_number_and_key_it_has() {
    let mut lab = Lab::star(2);
    let [a, b] = programs(&mut lab);
    let there = way(&mut lab, a.0, 2, false);
    lab.receive(b, vec![receive(7, piece(b.0, 0, 100))]);
    lab.send(a, vec![hello(there, b.1, QKEY)]);
    let got = received(&mut lab, b.0);
    assert_eq!((got.wr_id, got.byte_len), (7, 45));
    assert_eq!((got.src_qp, got.slid, got.immediate), (a.1, 1, 9));
    assert_eq!(lab.get(b.0, 40, 5), b"hello");
    assert_eq!(lab.completion(a.0).status, SUCCESS);

    for (qpn, qkey, reason) in [
        (b.1, QKEY + 1, DropReason::BadQkey),
        (0x9999, QKEY, DropReason::NoQueuePair),
        // No receive request waits.
        (b.1, QKEY, DropReason::ReceiverFull),
    ] {
        lab.send(a, vec![hello(there, qpn, qkey)]);
        assert_eq!(lab.completion(a.0).status, SUCCESS);
        lab.bed.run(1_000_000);
        assert_eq!(lab.drops(1, reason), 1, "{reason:?}");
    }
}

#[test]
fn a_multicast_datagram_reaches_every_member_once_and_no_other_host() {
    let mut lab = Lab::star(4);
    let mut table = MulticastForwardingTable::default();
    table.0[1] = 0b1111 << 1;
    let id = AttributeId::MULTICAST_FORWARDING_TABLE;
    let answer = lab.bed.directed(Method::SET, id, 0, &[1], |mad| {
        mad.set_smp_attribute(&table);
    });
    assert_eq!(answer.status().without_direction(), MadStatus::OK);
    let ends: [_; 4] = programs(&mut lab);
    for (program, qpn) in &ends[..3] {
        let request = Request::AttachMcast {
            qpn: *qpn,
            gid: GROUP.0,
        };
        assert_eq!(lab.ask(program.host, program.client, request), Reply::Done);
    }
    // The last member has no receive request for it.
    for end in &ends[..2] {
        lab.receive(*end, vec![receive(1, piece(end.0, 0, 100)); 2]);
    }
    let [sender, member, full, stranger] = ends;
    let to_all = way(&mut lab, sender.0, 0xc001, true);
    lab.send(sender, vec![hello(to_all, Qpn::MULTICAST.get(), QKEY)]);
    let got = received(&mut lab, member.0);
    assert_eq!((got.slid, got.src_qp), (1, sender.1));
    assert_eq!(got.flags, wc_flag::GRH | wc_flag::WITH_IMM);
    let mut own = Vec::new();
    while own.len() < 2 {
        own.extend(lab.completions(sender.0));
    }
    lab.bed.run(1_000_000);
    for (host, (program, _)) in [sender, member, full, stranger].into_iter().enumerate() {
        let is_told = |event: &Event| matches!(event, Event::Verbs { client, .. } if *client == program.client);
        assert!(
            !lab.bed.events[host].iter().any(is_told),
            "host {host}: once"
        );
    }
    assert_eq!(lab.drops(2, DropReason::ReceiverFull), 1);
    assert_eq!(lab.drops(3, DropReason::NotForUs), 1);
    // A key that no member has.
    lab.send(sender, vec![hello(to_all, Qpn::MULTICAST.get(), QKEY + 1)]);
    lab.bed.run(1_000_000);
    for host in [0, 1, 2] {
        assert_eq!(lab.drops(host, DropReason::BadQkey), 1);
    }
}

#[test]
fn a_packet_of_another_partition_is_dropped() {
    let mut lab = Lab::star(2);
    let [a, b] = programs(&mut lab);
    let there = way(&mut lab, a.0, 2, false);
    let mut keys = PKeyTable::default();
    let mut set = |lab: &mut Lab, key: u16| {
        keys.0[0] = key;
        let id = AttributeId::PKEY_TABLE;
        lab.bed.directed(Method::SET, id, 0, &[1, 2], |mad| {
            mad.set_smp_attribute(&keys);
        });
    };
    // Ours is 0xffff: the default partition, full member.
    for (key, passes) in [(0x7fff, true), (0x8001, false), (0xffff, true)] {
        set(&mut lab, key);
        lab.receive(b, vec![receive(7, piece(b.0, 0, 100))]);
        let before = lab.drops(1, DropReason::RcvPartition);
        lab.send(a, vec![hello(there, b.1, QKEY)]);
        lab.bed.run(1_000_000);
        if passes {
            assert_eq!(received(&mut lab, b.0).wr_id, 7, "{key:#x}");
        }
        let after = lab.drops(1, DropReason::RcvPartition);
        assert_eq!(after - before, u64::from(!passes), "{key:#x}");
    }
    assert_eq!(port_info(&mut lab.bed).p_key_violations, 1);
}

/// PortInfo of the second host.
fn port_info(bed: &mut Bed) -> PortInfo {
    let answer = bed.directed(Method::GET, AttributeId::PORT_INFO, 1, &[1, 2], |_| {});
    answer.smp_attribute().unwrap()
}

/// Sends a datagram, and the first trap that the first host, which stands for the subnet manager, hears of it. It does not
/// while a test asks a question: a trap must not come between that and its answer.
fn trap_of(lab: &mut Lab, from: (Program, u32), send: Send) -> Option<Notice> {
    let mad = |message| Command::Mad {
        client: CLIENT,
        message,
    };
    lab.bed.command(0, mad(ToAgent::Register { class: 1 }));
    lab.bed.events[0].clear();
    lab.send(from, vec![send]);
    lab.bed.run(100_000_000);
    lab.bed.command(0, mad(ToAgent::Unregister { class: 1 }));
    let traps = lab.bed.events[0].iter().filter_map(|event| match event {
        Event::Mad {
            message: FromAgent::Received(message),
            ..
        } => Some(Mad::from_bytes(*message.mad)),
        _ => None,
    });
    let traps = traps.filter(|mad| mad.method() == Method::TRAP);
    let notices: Vec<Notice> = traps.map(|mad| mad.smp_attribute().unwrap()).collect();
    lab.bed.events[0].clear();
    notices.first().copied()
}

#[test]
fn wrong_keys_are_told_to_the_subnet_manager() {
    let mut lab = Lab::star(2);
    let [a, b] = programs(&mut lab);
    let there = way(&mut lab, a.0, 2, false);
    let info = PortInfo {
        master_sm_lid: lid(1),
        port_state: PortState::NoChange,
        port_phys_state: PortPhysState::NoChange,
        ..port_info(&mut lab.bed)
    };
    let id = AttributeId::PORT_INFO;
    lab.bed.directed(Method::SET, id, 1, &[1, 2], |mad| {
        mad.set_smp_attribute(&info);
    });
    lab.receive(b, vec![receive(7, piece(b.0, 0, 100)); 4]);
    assert_eq!(trap_of(&mut lab, a, hello(there, b.1, QKEY)), None);
    let notice = trap_of(&mut lab, a, hello(there, b.1, QKEY + 1)).expect("a trap");
    assert_eq!((notice.trap_number, notice.issuer_lid), (258, lid(2)));
    let (details, _) = Trap257::parse(&notice.details).unwrap();
    assert_eq!((details.slid, details.dlid), (lid(1), lid(2)));
    assert_eq!(
        (details.key, details.src_qp.get(), details.dest_qp.get()),
        (QKEY + 1, a.1, b.1)
    );
    let mut keys = PKeyTable::default();
    keys.0[0] = 0x8001;
    let id = AttributeId::PKEY_TABLE;
    lab.bed.directed(Method::SET, id, 0, &[1, 2], |mad| {
        mad.set_smp_attribute(&keys);
    });
    let notice = trap_of(&mut lab, a, hello(there, b.1, QKEY)).expect("a trap");
    assert_eq!(notice.trap_number, 257);
    let (details, _) = Trap257::parse(&notice.details).unwrap();
    assert_eq!((details.key, details.slid), (0xffff, lid(1)));
    let info = port_info(&mut lab.bed);
    assert_eq!((info.p_key_violations, info.q_key_violations), (1, 1));
    // The host's own queue pairs: nobody has the key of QP1.
    let notice = trap_of(&mut lab, a, hello(there, 1, QKEY));
    assert_eq!(
        notice.map(|notice| notice.trap_number),
        Some(257),
        "the partition comes first"
    );
}
