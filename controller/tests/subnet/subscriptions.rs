//! Reports of traps to hosts that have subscribed to them (InformInfo).

use mad::local::MadMessage;
use routing::multicast::Scheme;
use topologies::NodeId;
use wire::attr::{Notice, TrapGid, trap};
use wire::mad::{Mad, MadStatus, Method};
use wire::sa::InformInfo;
use wire::{Format as _, Gid, Lid, Qpn, Sl};

use crate::administration::{ask, gid, query};
use crate::bed::Bed;
use crate::multicast::{CREATES, GROUP, NEEDED, join, member, members, up};

/// A host asks to be told of generic traps of this number.
fn subscribe(bed: &mut Bed, manager: NodeId, listener: NodeId, trap_number: u16) {
    let wish = InformInfo {
        gid: Gid::default(),
        lid_first: Lid::PERMISSIVE,
        lid_last: Lid::ZERO,
        is_generic: true,
        subscribe: true,
        notice_type: InformInfo::ANY,
        trap_number,
        qpn: Qpn::default(),
        resp_time: 18,
        producer_type: InformInfo::ANY_PRODUCER,
    };
    let answer = ask(bed, listener, manager, &query(Method::SET, 0, &wish));
    assert_eq!(answer.status(), MadStatus::OK);
}

#[test]
fn subscribers_are_told_of_groups_that_come_and_go_until_they_answer() {
    let (mut bed, manager) = up("star-4", Scheme::SpanningTree);
    let hosts = members(&bed);
    let (listener, member_host) = (hosts[0], hosts[1]);
    subscribe(&mut bed, manager, listener, trap::MULTICAST_GROUP_CREATED);
    let mad = query(Method::SET, CREATES, &member(&bed, member_host));
    let message = |bed: &Bed, mad: &Mad| MadMessage {
        lid: bed.address(manager).0,
        qpn: Qpn::GSI,
        sl: Sl::default(),
        mad: Box::new(*mad.as_bytes()),
        way: None,
    };
    let join = message(&bed, &mad);
    bed.write(member_host, &join);
    bed.run_for(5_000_000_000);
    let reports: Vec<Mad> = std::mem::take(&mut bed.received)
        .into_iter()
        .filter(|&(host, _)| host == listener)
        .map(|(_, message)| Mad::from_bytes(*message.mad))
        .collect();
    assert_eq!(reports.len(), 3, "no report was answered");
    let (notice, _) = Notice::parse(reports[0].sa_data()).unwrap();
    assert_eq!(notice.trap_number, trap::MULTICAST_GROUP_CREATED);
    assert_eq!(notice.details[6..22], GROUP.0);

    let leave = query(Method::DELETE, NEEDED, &member(&bed, member_host));
    let left = ask(&mut bed, member_host, manager, &leave);
    assert_eq!(left.status(), MadStatus::OK);
    let join = message(&bed, &mad);
    bed.write(member_host, &join);
    bed.run_for(500_000_000);
    let to_listener = |bed: &mut Bed| -> Vec<Mad> {
        let received = std::mem::take(&mut bed.received).into_iter();
        let own = received.filter(|&(host, _)| host == listener);
        own.map(|(_, message)| Mad::from_bytes(*message.mad))
            .collect()
    };
    let mut report = to_listener(&mut bed)[0];
    report.set_method(Method::REPORT_RESP);
    let thanks = message(&bed, &report);
    bed.write(listener, &thanks);
    bed.run_for(5_000_000_000);
    assert_eq!(to_listener(&mut bed), [], "answered: not sent again");
}

#[test]
fn a_subscriber_that_has_left_the_subnet_is_forgotten() {
    let (mut bed, manager) = up("star-4", Scheme::SpanningTree);
    let hosts = members(&bed);
    let (listener, member_host) = (hosts[0], hosts[1]);
    subscribe(&mut bed, manager, listener, InformInfo::ANY);
    bed.kill(listener);
    bed.run_until_up(manager);
    bed.revive(listener);
    bed.run_until_up(manager);
    bed.run_for(5_000_000_000);
    bed.received.clear();
    join(&mut bed, manager, member_host);
    bed.run_for(5_000_000_000);
    let reports = bed.received.iter().filter(|(host, _)| *host == listener);
    assert_eq!(reports.count(), 0);
}

#[test]
fn subscribers_are_told_of_ports_that_leave_the_subnet_and_come_back() {
    let (mut bed, manager) = up("star-4", Scheme::SpanningTree);
    let hosts = members(&bed);
    let (listener, other) = (hosts[0], hosts[1]);
    let gid = gid(&bed, other);
    for number in [trap::GID_OUT_OF_SERVICE, trap::GID_IN_SERVICE] {
        subscribe(&mut bed, manager, listener, number);
    }
    bed.received.clear();
    let told = |bed: &mut Bed| -> Vec<(u16, Gid)> {
        let received = std::mem::take(&mut bed.received).into_iter();
        let reports = received.filter(|&(host, _)| host == listener);
        let notices = reports.map(|(_, message)| {
            let mad = Mad::from_bytes(*message.mad);
            let (notice, _) = Notice::parse(mad.sa_data()).unwrap();
            let (details, _) = TrapGid::parse(&notice.details).unwrap();
            (notice.trap_number, details.gid)
        });
        let mut notices: Vec<_> = notices.collect();
        notices.dedup();
        notices
    };
    bed.kill(other);
    bed.run_until_up(manager);
    bed.run_for(100_000_000);
    assert_eq!(told(&mut bed), [(trap::GID_OUT_OF_SERVICE, gid)]);
    bed.revive(other);
    bed.run_until_up(manager);
    bed.run_for(100_000_000);
    assert_eq!(told(&mut bed), [(trap::GID_IN_SERVICE, gid)]);
}
