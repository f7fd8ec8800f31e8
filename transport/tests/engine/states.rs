//! States of a queue pair: which changes there are, and with which attributes (IBA 11.2.5.2).

use link::Time;
use transport::{Access, Path, QpModify, QpState, Refused, SendOperation, Status, service_of_type};
use wire::{Lid, Mtu, PortNum, Psn, Qpn, Service};

use crate::bed::{Pair, Setting, Side, steps};

use QpState::{Error, Init, Reset, Rtr, Rts, Sqd, Sqe};

const NOW: Time = Time(0);
const STATES: [QpState; 7] = [Reset, Init, Rtr, Rts, Sqd, Sqe, Error];
const SERVICES: [Service; 3] = [Service::Rc, Service::Uc, Service::Ud];

fn to(state: QpState) -> QpModify {
    QpModify {
        state: Some(state),
        ..QpModify::default()
    }
}

/// A side whose queue pair is in a state.
fn side_in(service: Service, state: QpState) -> Side {
    let setting = Setting::new(service);
    let mut side = Side::new(0x10, &setting);
    let peer = (Lid::new(0x20), Qpn::constant(0x1_0400));
    for modify in steps(&setting, peer.0, peer.1) {
        if side.state() == state {
            return side;
        }
        side.engine.modify_qp(NOW, side.qpn, &modify).unwrap();
    }
    match state {
        Sqd | Error => side.engine.modify_qp(NOW, side.qpn, &to(state)).unwrap(),
        // A send request that fails: its local key is none.
        Sqe if service == Service::Uc => {
            let mut sge = side.sge(0, 8);
            sge.lkey = 0;
            side.post(NOW, 1, SendOperation::default(), &[sge]);
            assert!(side.transmit(NOW).is_none());
        }
        Sqe => {
            let path = Side::path(Lid::new(0x20));
            let handle = side.engine.create_handle(side.pd, path).unwrap();
            let mut sge = side.sge(0, 8);
            sge.lkey = 0;
            let sges = [sge];
            let destination = transport::Destination {
                handle,
                qpn: peer.1,
                qkey: 1,
            };
            let request = crate::bed::datagram(1, transport::Data::Scattered(&sges), destination);
            side.engine.post_send(NOW, side.qpn, &request).unwrap();
            assert!(side.transmit(NOW).is_none());
        }
        _ => {}
    }
    assert_eq!(side.state(), state);
    side
}

/// What a change requires, with values that are right.
fn required(service: Service, from: QpState, state: QpState) -> QpModify {
    let setting = Setting::new(service);
    let [init, rtr, rts] = steps(&setting, Lid::new(0x20), Qpn::constant(0x1_0400));
    match (from, state) {
        (Reset, Init) => init,
        (Init, Rtr) => rtr,
        (Rtr, Rts) => rts,
        _ => to(state),
    }
}

/// The changes that the specification has, by service.
fn exists(service: Service, from: QpState, state: QpState) -> bool {
    match (from, state) {
        (Reset, Error) => false,
        (_, Reset | Error) => true,
        (Sqe, Rts) => service != Service::Rc,
        _ => matches!(
            (from, state),
            (Reset, Init) | (Init, Init | Rtr) | (Rtr, Rts) | (Rts, Rts | Sqd) | (Sqd, Sqd | Rts)
        ),
    }
}

#[test]
fn a_queue_pair_makes_the_changes_of_the_specification_and_no_others() {
    for service in SERVICES {
        for from in STATES {
            if service == Service::Rc && from == Sqe {
                continue;
            }
            for state in STATES {
                let mut side = side_in(service, from);
                let modify = required(service, from, state);
                let changed = side.engine.modify_qp(NOW, side.qpn, &modify);
                if exists(service, from, state) {
                    assert_eq!(changed, Ok(()), "{service:?}: {from} to {state}");
                    assert_eq!(side.state(), state);
                } else {
                    let refused = Refused::Transition { from, to: state };
                    assert_eq!(changed, Err(refused), "{service:?}: {from} to {state}");
                    assert_eq!(side.state(), from);
                }
            }
        }
    }
}

/// One attribute at a time, with a value that is right.
fn attributes() -> Vec<(&'static str, QpModify)> {
    let none = QpModify::default();
    let with = |set: fn(&mut QpModify)| {
        let mut modify = none;
        set(&mut modify);
        modify
    };
    vec![
        ("current_state", none),
        ("access", with(|m| m.access = Some(Access::REMOTE_READ))),
        ("pkey_index", with(|m| m.pkey_index = Some(1))),
        ("port", with(|m| m.port = Some(PortNum::new(1)))),
        ("qkey", with(|m| m.qkey = Some(7))),
        ("path", with(|m| m.path = Some(Side::path(Lid::new(9))))),
        ("path_mtu", with(|m| m.path_mtu = Some(Mtu::Mtu512))),
        ("dest_qpn", with(|m| m.dest_qpn = Some(Qpn::constant(5)))),
        ("rq_psn", with(|m| m.rq_psn = Some(Psn::constant(5)))),
        ("sq_psn", with(|m| m.sq_psn = Some(Psn::constant(5)))),
        ("max_rd_atomic", with(|m| m.max_rd_atomic = Some(1))),
        (
            "max_dest_rd_atomic",
            with(|m| m.max_dest_rd_atomic = Some(1)),
        ),
        ("min_rnr_timer", with(|m| m.min_rnr_timer = Some(1))),
        ("timeout", with(|m| m.timeout = Some(1))),
        ("retry_count", with(|m| m.retry_count = Some(1))),
        ("rnr_retry", with(|m| m.rnr_retry = Some(1))),
        ("drained_event", with(|m| m.drained_event = Some(true))),
    ]
}

/// Names of the attributes that a change permits beyond those that it requires (tables 91 to 94).
fn optional(service: Service, from: QpState, state: QpState) -> &'static [&'static str] {
    use Service::{Rc, Uc, Ud};
    match (service, from, state) {
        (Ud, Init, Init) => &["pkey_index", "port", "qkey"],
        (_, Init, Init) => &["pkey_index", "port", "access"],
        (Ud, Init, Rtr) => &["pkey_index", "qkey"],
        (_, Init, Rtr) => &["access", "pkey_index"],
        (Ud, Rtr | Rts | Sqd | Sqe, Rts) => &["current_state", "qkey"],
        (Uc, Rtr | Rts | Sqd | Sqe, Rts) => &["current_state", "access"],
        (Rc, Rtr | Rts | Sqd, Rts) => &["current_state", "access", "min_rnr_timer"],
        (_, Rts, Sqd) => &["drained_event"],
        (Ud, Sqd, Sqd) => &["pkey_index", "qkey"],
        (Uc, Sqd, Sqd) => &["path", "access", "pkey_index"],
        (Rc, Sqd, Sqd) => &[
            "port",
            "path",
            "timeout",
            "retry_count",
            "rnr_retry",
            "max_rd_atomic",
            "max_dest_rd_atomic",
            "access",
            "pkey_index",
            "min_rnr_timer",
        ],
        _ => &[],
    }
}

/// Puts an attribute into a change; `false` if it is there already.
fn merge(modify: &mut QpModify, other: &QpModify, from: QpState, name: &str) -> bool {
    macro_rules! take {
        ($($field:ident)*) => {
            $(if name == stringify!($field) {
                let fresh = modify.$field.is_none();
                modify.$field = modify.$field.or(other.$field);
                return fresh;
            })*
        };
    }
    if name == "current_state" {
        modify.current_state = Some(from);
        return true;
    }
    take!(access pkey_index port qkey path path_mtu dest_qpn rq_psn sq_psn max_rd_atomic
        max_dest_rd_atomic min_rnr_timer timeout retry_count rnr_retry drained_event);
    panic!("{name}");
}

#[test]
fn each_attribute_is_required_permitted_or_refused_as_the_tables_say() {
    for service in SERVICES {
        for from in STATES {
            if service == Service::Rc && from == Sqe {
                continue;
            }
            for state in STATES
                .into_iter()
                .filter(|&state| exists(service, from, state))
            {
                for (name, attribute) in attributes() {
                    let mut side = side_in(service, from);
                    let mut modify = required(service, from, state);
                    if !merge(&mut modify, &attribute, from, name) {
                        continue;
                    }
                    let changed = side.engine.modify_qp(NOW, side.qpn, &modify);
                    let permitted = optional(service, from, state).contains(&name);
                    let what = format!("{service:?}: {from} to {state} with {name}");
                    if permitted {
                        assert_eq!(changed, Ok(()), "{what}");
                    } else {
                        let attribute = name;
                        let refused = Refused::NotPermitted {
                            from,
                            to: state,
                            attribute,
                        };
                        assert_eq!(changed, Err(refused), "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn each_required_attribute_is_missed() {
    for service in SERVICES {
        for (from, state) in [(Reset, Init), (Init, Rtr), (Rtr, Rts)] {
            let mut side = side_in(service, from);
            let mut modify = to(state);
            let whole = required(service, from, state);
            // As long as one is missing the change is refused with its name, which is then given.
            for _ in 0..20 {
                match side.engine.modify_qp(NOW, side.qpn, &modify) {
                    Ok(()) => break,
                    Err(Refused::Missing { attribute, .. }) => {
                        assert!(merge(&mut modify, &whole, from, attribute), "{attribute}");
                    }
                    Err(other) => panic!("{other}"),
                }
            }
            assert_eq!(modify, whole);
            assert_eq!(side.state(), state);
        }
    }
}

#[test]
fn values_out_of_range_are_refused_and_change_nothing() {
    let rc = Service::Rc;
    let path = |dlid: u16, src_path_bits| Path {
        src_path_bits,
        ..Side::path(Lid::new(dlid))
    };
    let global = Path {
        global: Some(transport::GlobalPath {
            sgid_index: 1,
            ..transport::GlobalPath::default()
        }),
        ..path(9, 0)
    };
    type Set = fn(&mut QpModify);
    let wrong: [(QpState, Set); 9] = [
        (Init, |m| m.pkey_index = Some(3)),
        (Init, |m| m.pkey_index = Some(99)),
        (Init, |m| m.port = Some(PortNum::new(2))),
        (Rtr, |m| m.max_dest_rd_atomic = Some(17)),
        (Rtr, |m| m.min_rnr_timer = Some(32)),
        (Rts, |m| m.timeout = Some(32)),
        (Rts, |m| m.retry_count = Some(8)),
        (Rts, |m| m.rnr_retry = Some(8)),
        (Rts, |m| m.max_rd_atomic = Some(17)),
    ];
    let before = |state| match state {
        Init => Reset,
        Rtr => Init,
        _ => Rtr,
    };
    for (index, (state, set)) in wrong.into_iter().enumerate() {
        let mut side = side_in(rc, before(state));
        let mut modify = required(rc, before(state), state);
        set(&mut modify);
        let asked = side.engine.query_qp(side.qpn);
        let changed = side.engine.modify_qp(NOW, side.qpn, &modify);
        assert!(
            matches!(changed, Err(Refused::Invalid(_))),
            "{index}: {changed:?}"
        );
        assert_eq!(side.engine.query_qp(side.qpn), asked);
    }
    for path in [
        path(0, 0),
        path(0xffff, 0),
        path(0xc001, 0),
        path(9, 2),
        global,
    ] {
        let mut side = side_in(rc, Init);
        let mut modify = required(rc, Init, Rtr);
        modify.path = Some(path);
        let changed = side.engine.modify_qp(NOW, side.qpn, &modify);
        assert!(matches!(changed, Err(Refused::Invalid(_))), "{path:?}");
    }
    let mut side = side_in(rc, Rts);
    let modify = QpModify {
        current_state: Some(Sqd),
        ..to(Rts)
    };
    let changed = side.engine.modify_qp(NOW, side.qpn, &modify);
    assert_eq!(changed, Err(Refused::State(Rts)));
}

#[test]
fn what_this_engine_does_not_have_is_refused_as_not_supported() {
    let alternate = QpModify {
        alternate_path: Some(Side::path(Lid::new(3))),
        ..to(Rts)
    };
    let migration = QpModify {
        migration_state: Some(0),
        ..to(Rts)
    };
    for modify in [alternate, migration] {
        let mut side = side_in(Service::Rc, Rts);
        let changed = side.engine.modify_qp(NOW, side.qpn, &modify);
        assert!(matches!(changed, Err(Refused::NotSupported(_))));
    }
    let services: Vec<_> = (0..=10).map(service_of_type).collect();
    assert_eq!(
        services[2..5],
        [Ok(Service::Rc), Ok(Service::Uc), Ok(Service::Ud)]
    );
    for kind in [8, 9, 10] {
        assert!(
            matches!(services[kind], Err(Refused::NotSupported(_))),
            "{kind}"
        );
    }
    assert!(matches!(services[7], Err(Refused::Invalid(_))));
    assert!(Access::from_bits(0xf).is_ok());
    // Relaxed ordering may be ignored; memory windows and zero-based regions may not.
    assert_eq!(Access::from_bits(1 << 20).unwrap(), Access::NONE);
    for bits in [1 << 4, 1 << 5, 1 << 6] {
        assert!(matches!(
            Access::from_bits(bits),
            Err(Refused::NotSupported(_))
        ));
    }
}

#[test]
fn work_is_taken_in_the_states_that_have_it() {
    for service in [Service::Rc, Service::Uc] {
        for state in STATES {
            if service == Service::Rc && state == Sqe {
                continue;
            }
            let mut side = side_in(service, state);
            side.sent();
            let receive = transport::ReceiveRequest {
                wr_id: 1,
                sges: &[],
            };
            let posted = side.engine.post_receive(side.qpn, &receive);
            let takes = state != Reset;
            assert_eq!(posted.is_ok(), takes, "receive in {state}");
            let data = transport::Data::Scattered(&[]);
            let request = crate::bed::request(2, SendOperation::default(), data);
            let posted = side.engine.post_send(NOW, side.qpn, &request);
            let takes = matches!(state, Rts | Sqd | Sqe | Error);
            assert_eq!(posted.is_ok(), takes, "send in {state}");
            let flushed = side
                .sent()
                .iter()
                .any(|done| done.status == Status::Flushed);
            assert_eq!(flushed, matches!(state, Sqe | Error), "flushed in {state}");
        }
    }
}

#[test]
fn a_reset_forgets_everything_and_the_queue_pair_can_be_used_again() {
    let setting = Setting::new(Service::Rc);
    let mut pair = Pair::new(&setting);
    for round in 0..3 {
        let [a, b] = &mut pair.sides;
        b.post_receive(round, &[b.sge(0, 8)]);
        b.post_receive(99, &[b.sge(0, 8)]);
        a.post(pair.now, round, SendOperation::default(), &[a.sge(0, 8)]);
        a.post(
            pair.now,
            98,
            SendOperation::Read {
                remote: b.remote(0),
            },
            &[a.sge(0, 8)],
        );
        pair.carry(0);
        pair.carry(1);
        let peers = [
            (pair.sides[1].lid, pair.sides[1].qpn),
            (pair.sides[0].lid, pair.sides[0].qpn),
        ];
        let [a, b] = &mut pair.sides;
        assert_eq!(a.sent().len(), 1);
        assert_eq!(b.received().len(), 1);
        for (side, (lid, qpn)) in pair.sides.iter_mut().zip(peers) {
            side.engine
                .modify_qp(pair.now, side.qpn, &to(Reset))
                .unwrap();
            assert!(side.transmit(pair.now).is_none());
            side.connect(pair.now, &setting, lid, qpn);
        }
        assert!(pair.sides.iter_mut().all(|side| side.sent().is_empty()));
    }
}
