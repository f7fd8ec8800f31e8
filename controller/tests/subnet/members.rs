//! Memberships of multicast groups: which port may join and leave in which name, how groups are named, and by which way
//! answers go.

use std::collections::BTreeSet;

use controller::{Sm, SmConfig};
use link::Time;
use mad::local::{FromAgent, MadGlobalRoute, MadMessage, MadWay, ToAgent};
use routing::multicast::Scheme;
use topologies::NodeId;
use wire::mad::{MadStatus, Method};
use wire::sa::{McMemberRecord, mc_member_component as component};
use wire::{Gid, Guid};

use crate::administration::{ask, gid, query};
use crate::bed::Bed;
use crate::multicast::{CREATES, NEEDED, join, member, members, reached, up};

#[test]
fn an_mgid_is_allocated_in_the_scope_asked_for_and_is_never_that_of_another_group() {
    let (mut bed, manager) = up("star-4", Scheme::SpanningTree);
    let [one, other] = [bed.id("h1"), bed.id("h2")];
    let create = |bed: &mut Bed, host: NodeId, mgid: Gid, scope: Option<u8>| {
        let record = McMemberRecord {
            mgid,
            scope: scope.unwrap_or(9),
            ..member(bed, host)
        };
        let mask = scope.map_or(CREATES, |_| CREATES | component::SCOPE);
        let answer = ask(bed, host, manager, &query(Method::SET, mask, &record));
        let made = answer.sa_record::<McMemberRecord>().expect("a record");
        assert!(answer.status() != MadStatus::OK || made.scope == made.mgid.0[1] & 0x0f);
        (answer.status(), made.mgid)
    };
    let number = |mgid: Gid, scope: u8| {
        let prefix = [0xff, 0x10 | scope, 0xa0, 0x1b, 0xfe, 0x80, 0, 0, 0, 0, 0, 0];
        assert_eq!(mgid.0[..12], prefix, "o15-0.1.7");
        u32::from_be_bytes(mgid.0[12..].try_into().expect("four bytes"))
    };
    // Without a scope a group is this subnet's, and no port names a group so itself (o15-0.1.6).
    let (_, local) = create(&mut bed, one, Gid::default(), None);
    let mut next = local;
    next.0[15] += 1;
    let (refused, _) = create(&mut bed, one, next, None);
    assert_eq!(refused, MadStatus::SA_REQUEST_INVALID);
    let (_, allocated) = create(&mut bed, other, Gid::default(), None);
    assert!(number(allocated, 2) > number(local, 2));
    // In a wider scope it may be named so by a port, and then is not allocated.
    let (_, wide) = create(&mut bed, one, Gid::default(), Some(5));
    let mut next = wide;
    next.0[15] += 1;
    assert_eq!(create(&mut bed, one, next, None), (MadStatus::OK, next));
    let (_, allocated) = create(&mut bed, other, Gid::default(), Some(5));
    assert!(number(allocated, 5) > number(next, 5));
}

#[test]
fn a_group_is_named_by_a_multicast_gid_without_reserved_flags() {
    let (mut bed, manager) = up("star-3", Scheme::SpanningTree);
    let host = members(&bed)[0];
    for (at, value, status) in [
        (0, 0xfa, MadStatus::SA_REQUEST_INVALID),
        (0, 0, MadStatus::SA_REQUEST_INVALID),
        (1, 0x22, MadStatus::SA_REQUEST_INVALID),
        (1, 0x1f, MadStatus::OK),
        (1, 0x02, MadStatus::OK),
    ] {
        let mut record = member(&bed, host);
        record.mgid.0[at] = value;
        let mad = query(Method::SET, CREATES, &record);
        let answer = ask(&mut bed, host, manager, &mad);
        assert_eq!(answer.status(), status, "{at} {value:#x}");
    }
}

/// o15-0.2.1.
#[test]
fn a_port_joins_in_the_name_of_another_and_what_a_port_has_joined_itself_only_it_changes() {
    let (mut bed, manager) = up("fat-tree-4-2", Scheme::SpanningTree);
    let hosts = members(&bed);
    let (one, other, third) = (hosts[0], hosts[1], hosts[2]);
    let set = query(Method::SET, CREATES, &member(&bed, other));
    let leave = query(Method::DELETE, NEEDED, &member(&bed, other));
    let answer = ask(&mut bed, one, manager, &set);
    assert_eq!(answer.status(), MadStatus::OK);
    let record: McMemberRecord = answer.sa_record().expect("a record");
    assert!(record.proxy_join && record.port_gid == gid(&bed, other));
    assert_eq!(reached(&bed, third, record.mlid), BTreeSet::from([other]));
    assert_eq!(
        ask(&mut bed, third, manager, &leave).status(),
        MadStatus::OK
    );
    // What the port has joined itself, after another or before.
    for first in [one, other] {
        assert_eq!(ask(&mut bed, first, manager, &set).status(), MadStatus::OK);
        let answer = ask(&mut bed, other, manager, &set);
        let record: McMemberRecord = answer.sa_record().expect("a record");
        assert!(answer.status() == MadStatus::OK && !record.proxy_join);
        for mad in [&set, &leave] {
            let refused = ask(&mut bed, one, manager, mad);
            assert_eq!(refused.status(), MadStatus::SA_REQUEST_INVALID);
        }
        assert_eq!(
            ask(&mut bed, other, manager, &leave).status(),
            MadStatus::OK
        );
    }
}

#[test]
fn joins_that_cannot_be_say_why() {
    let (mut bed, manager) = up("fat-tree-4-2", Scheme::SpanningTree);
    let hosts = members(&bed);
    let (one, other) = (hosts[0], hosts[1]);
    let good = member(&bed, one);
    let cases = [
        (NEEDED, good, MadStatus::SA_INSUFFICIENT_COMPONENTS),
        (
            CREATES & !component::PORT_GID,
            good,
            MadStatus::SA_INSUFFICIENT_COMPONENTS,
        ),
        (
            CREATES,
            McMemberRecord {
                join_state: McMemberRecord::JOIN_SEND_ONLY,
                ..good
            },
            MadStatus::SA_REQUEST_INVALID,
        ),
        (
            CREATES,
            McMemberRecord {
                port_gid: Gid::new(Gid::DEFAULT_PREFIX, wire::Guid(5)),
                ..good
            },
            MadStatus::SA_INVALID_GID,
        ),
        (
            CREATES,
            McMemberRecord {
                mgid: good.port_gid,
                ..good
            },
            MadStatus::SA_REQUEST_INVALID,
        ),
        (
            CREATES,
            McMemberRecord {
                pkey: 0x8001,
                ..good
            },
            MadStatus::SA_REQUEST_INVALID,
        ),
    ];
    for (mask, record, status) in cases {
        let mad = query(Method::SET, mask, &record);
        assert_eq!(
            ask(&mut bed, one, manager, &mad).status(),
            status,
            "{record:?}"
        );
    }
    let leave = query(Method::DELETE, NEEDED, &good);
    let refused = ask(&mut bed, one, manager, &leave);
    assert_eq!(refused.status(), MadStatus::SA_REQUEST_INVALID, "no member");
    join(&mut bed, manager, one);
    let wrong_key = McMemberRecord {
        qkey: 7,
        ..member(&bed, other)
    };
    let mad = query(Method::SET, NEEDED | component::QKEY, &wrong_key);
    let refused = ask(&mut bed, other, manager, &mad);
    assert_eq!(refused.status(), MadStatus::SA_REQUEST_INVALID);
    let mad = query(Method::SET, NEEDED, &member(&bed, other));
    assert_eq!(ask(&mut bed, other, manager, &mad).status(), MadStatus::OK);
}

/// IBA 13.5.4.
#[test]
fn an_answer_goes_by_the_way_by_which_its_request_has_come() {
    let global = MadGlobalRoute {
        gid_index: 1,
        remote: Gid::new(Gid::DEFAULT_PREFIX, Guid(5)),
        flow_label: 6,
        hop_limit: 7,
        traffic_class: 8,
    };
    let by_grh = MadWay {
        path_bits: 3,
        pkey_index: 2,
        global: Some(global),
    };
    for way in [Some(by_grh), Some(MadWay::default()), None] {
        let mut sm = Sm::new(SmConfig::default()).unwrap();
        sm.tick(Time::ZERO);
        while sm.poll_transmit().is_some() {}
        let record = McMemberRecord::default();
        for method in [Method::GET, Method::GET_TABLE, Method::SET] {
            let mad = query(method, 0, &record);
            let request = MadMessage {
                lid: wire::Lid::new(7),
                qpn: wire::Qpn::GSI,
                sl: wire::Sl::default(),
                mad: Box::new(*mad.as_bytes()),
                way,
            };
            sm.handle(Time(1), FromAgent::Received(request));
            let Some(ToAgent::Send(answer)) = sm.poll_transmit() else {
                panic!("{method} is answered");
            };
            assert_eq!((answer.lid.get(), answer.way), (7, way), "{method}");
        }
    }
}
