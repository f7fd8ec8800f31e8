//! Objects: keys, references among objects, limits.

use link::Time;
use transport::{
    Access, AhId, CqId, Engine, Event, Limits, PdId, QpConfig, QpModify, QpState, ReceiveRequest,
    Refused, RegionConfig, SpaceId, SrqId,
};
use wire::{Gid, Lid, Qpn, Service};

use crate::bed::{ALL, BASE, Pair, Setting, Side, capabilities, port_attributes};

const NOW: Time = Time(0);

fn engine() -> Engine {
    let limits = Limits {
        protection_domains: 2,
        regions: 2,
        address_handles: 2,
        completion_queues: 2,
        shared_receive_queues: 2,
        queue_pairs: 2,
        groups: 2,
        group_members: 1,
        ..Limits::default()
    };
    Engine::new(limits, port_attributes(0x10))
}

fn region(pd: PdId) -> RegionConfig {
    RegionConfig {
        pd,
        space: SpaceId(3),
        address: BASE,
        iova: BASE,
        length: 100,
        access: ALL,
    }
}

fn queue_pair(pd: PdId, cq: CqId) -> QpConfig {
    QpConfig {
        service: Service::Ud,
        pd,
        send_cq: cq,
        receive_cq: cq,
        srq: None,
        capabilities: capabilities(4),
        signal_all: true,
    }
}

#[test]
fn a_key_s_low_byte_rotates_and_old_keys_open_nothing() {
    let mut engine = engine();
    let pd = engine.create_pd().unwrap();
    let mut keys = Vec::new();
    for _ in 0..200 {
        let key = engine.register_region(region(pd)).unwrap();
        assert!(!keys.contains(&key) && key != 0);
        engine.deregister_region(key).unwrap();
        assert_eq!(
            engine.deregister_region(key),
            Err(Refused::NoSuch("memory region"))
        );
        keys.push(key);
    }
}

#[test]
fn a_region_that_is_registered_anew_keeps_its_key_and_changes_its_domain() {
    let mut engine = engine();
    let [first, second] = [(); 2].map(|()| engine.create_pd().unwrap());
    let key = engine.register_region(region(first)).unwrap();
    let wrong = RegionConfig {
        length: 0,
        ..region(second)
    };
    assert!(engine.reregister_region(key, wrong).is_err());
    let nowhere = engine.reregister_region(key, region(PdId(77)));
    assert_eq!(nowhere, Err(Refused::NoSuch("protection domain")));
    assert!(engine.destroy_pd(first).is_err(), "it is as it was");
    engine.reregister_region(key, region(second)).unwrap();
    engine.destroy_pd(first).unwrap();
    assert!(engine.destroy_pd(second).is_err(), "it is there now");
    engine.deregister_region(key).unwrap();
    let gone = engine.reregister_region(key, region(second));
    assert_eq!(gone, Err(Refused::NoSuch("memory region")));
    engine.destroy_pd(second).unwrap();
}

#[test]
fn regions_that_make_no_sense_are_refused() {
    let mut engine = engine();
    let pd = engine.create_pd().unwrap();
    let wrong = [
        RegionConfig {
            length: 0,
            ..region(pd)
        },
        RegionConfig {
            address: u64::MAX - 98,
            ..region(pd)
        },
        RegionConfig {
            iova: u64::MAX - 98,
            ..region(pd)
        },
        RegionConfig {
            access: Access::REMOTE_WRITE,
            ..region(pd)
        },
        RegionConfig {
            access: Access::REMOTE_ATOMIC,
            ..region(pd)
        },
        RegionConfig {
            pd: PdId(77),
            ..region(pd)
        },
    ];
    for config in wrong {
        assert!(engine.register_region(config).is_err(), "{config:?}");
    }
    let last = RegionConfig {
        address: u64::MAX - 99,
        ..region(pd)
    };
    let key = engine.register_region(last).unwrap();
    engine.deregister_region(key).unwrap();
    assert_eq!(
        engine.destroy_pd(pd),
        Ok(()),
        "refused regions use no domain"
    );
}

#[test]
fn what_is_in_use_is_not_destroyed() {
    let mut engine = engine();
    let pd = engine.create_pd().unwrap();
    let cq = engine.create_cq(4).unwrap();
    let srq = engine.create_srq(pd, 4, 1).unwrap();
    let config = QpConfig {
        srq: Some(srq),
        ..queue_pair(pd, cq)
    };
    let qpn = engine.create_qp(config).unwrap();
    let handle = engine.create_handle(pd, Side::path(Lid::new(5))).unwrap();
    let key = engine.register_region(region(pd)).unwrap();
    let group = Gid([0xff; 16]);
    engine.attach(qpn, group).unwrap();
    assert!(engine.has_queue_pair(qpn) && engine.is_attached(group));

    assert_eq!(engine.destroy_qp(qpn), Err(Refused::InUse("queue pair")));
    engine.detach(qpn, group).unwrap();
    assert_eq!(
        engine.destroy_cq(cq),
        Err(Refused::InUse("completion queue"))
    );
    assert_eq!(
        engine.destroy_srq(srq),
        Err(Refused::InUse("shared receive queue"))
    );
    engine.destroy_qp(qpn).unwrap();
    assert!(!engine.has_queue_pair(qpn) && !engine.is_attached(group));
    engine.destroy_cq(cq).unwrap();
    let in_use = Err(Refused::InUse("protection domain"));
    assert_eq!(engine.destroy_pd(pd), in_use);
    engine.destroy_srq(srq).unwrap();
    assert_eq!(engine.destroy_pd(pd), in_use);
    engine.destroy_handle(handle).unwrap();
    assert_eq!(engine.destroy_pd(pd), in_use);
    engine.deregister_region(key).unwrap();
    engine.destroy_pd(pd).unwrap();

    assert!(engine.destroy_pd(pd).is_err());
    assert!(engine.destroy_cq(cq).is_err());
    assert!(engine.destroy_srq(srq).is_err());
    assert!(engine.destroy_handle(handle).is_err());
    assert!(engine.destroy_qp(qpn).is_err());
}

#[test]
fn there_are_as_many_objects_as_there_may_be() {
    let mut engine = engine();
    let pd = engine.create_pd().unwrap();
    engine.create_pd().unwrap();
    assert_eq!(
        engine.create_pd(),
        Err(Refused::TooMany("protection domains"))
    );
    let cq = engine.create_cq(4).unwrap();
    engine.create_cq(4).unwrap();
    assert_eq!(
        engine.create_cq(4),
        Err(Refused::TooMany("completion queues"))
    );
    for _ in 0..2 {
        engine.create_srq(pd, 1, 1).unwrap();
        engine.create_handle(pd, Side::path(Lid::new(5))).unwrap();
        engine.register_region(region(pd)).unwrap();
        engine.create_qp(queue_pair(pd, cq)).unwrap();
    }
    let too_many = |refused: Refused| matches!(refused, Refused::TooMany(_));
    assert!(too_many(engine.create_srq(pd, 1, 1).unwrap_err()));
    assert!(too_many(
        engine
            .create_handle(pd, Side::path(Lid::new(5)))
            .unwrap_err()
    ));
    assert!(too_many(engine.register_region(region(pd)).unwrap_err()));
    assert!(too_many(engine.create_qp(queue_pair(pd, cq)).unwrap_err()));
}

#[test]
fn sizes_beyond_the_limits_and_objects_that_are_none_are_refused() {
    let mut engine = engine();
    let pd = engine.create_pd().unwrap();
    let other = engine.create_pd().unwrap();
    let cq = engine.create_cq(4).unwrap();
    let srq = engine.create_srq(other, 4, 1).unwrap();
    for depth in [0, u32::MAX] {
        assert!(engine.create_cq(depth).is_err());
    }
    assert!(engine.create_srq(pd, 0, 1).is_err());
    assert!(engine.create_srq(pd, u32::MAX, 1).is_err());
    assert!(engine.create_srq(pd, 1, 33).is_err());
    let right = queue_pair(pd, cq);
    let mut wrong = vec![
        QpConfig {
            pd: PdId(0),
            ..right
        },
        QpConfig {
            send_cq: CqId(0),
            ..right
        },
        QpConfig {
            receive_cq: CqId(0),
            ..right
        },
        QpConfig {
            srq: Some(SrqId(0)),
            ..right
        },
        // Of another domain.
        QpConfig {
            srq: Some(srq),
            ..right
        },
    ];
    let sizes: [fn(&mut transport::Capabilities); 5] = [
        |sizes| sizes.send_requests = u32::MAX,
        |sizes| sizes.receive_requests = u32::MAX,
        |sizes| sizes.send_sges = 33,
        |sizes| sizes.receive_sges = 33,
        |sizes| sizes.inline_bytes = 1025,
    ];
    for set in sizes {
        let mut config = right;
        set(&mut config.capabilities);
        wrong.push(config);
    }
    for config in wrong {
        assert!(engine.create_qp(config).is_err(), "{config:?}");
    }
    assert!(
        engine
            .create_handle(PdId(0), Side::path(Lid::new(5)))
            .is_err()
    );
    assert!(engine.create_handle(pd, Side::path(Lid::ZERO)).is_err());
    assert!(engine.destroy_handle(AhId(0)).is_err());
    assert!(engine.query_qp(Qpn::constant(0x1_0400)).is_err());
    let qpn = engine.create_qp(right).unwrap();
    assert!(engine.attach(qpn, Gid([0; 16])).is_err(), "no group");
    engine.destroy_qp(qpn).unwrap();
    engine.destroy_pd(pd).unwrap();
}

#[test]
fn a_completion_queue_grows_and_shrinks_to_what_waits() {
    let setting = Setting {
        cq_depth: 2,
        ..Setting::new(Service::Rc)
    };
    let mut pair = Pair::new(&setting);
    let a = &mut pair.sides[0];
    a.engine.resize_cq(a.receive_cq, 3).unwrap();
    for wr_id in 0..3 {
        a.post_receive(wr_id, &[]);
    }
    a.fail(NOW);
    assert!(a.engine.resize_cq(a.receive_cq, 2).is_err());
    assert!(a.events().is_empty(), "three fit");
    assert_eq!(a.received().len(), 3);
    a.engine.resize_cq(a.receive_cq, 1).unwrap();
    a.post_receive(3, &[]);
    a.post_receive(4, &[]);
    assert!(a.events().contains(&Event::CqError(a.receive_cq)));
    assert!(a.engine.resize_cq(CqId(0), 1).is_err());
}

#[test]
fn a_shared_receive_queue_tells_once_that_its_limit_is_reached() {
    let setting = Setting {
        srq: true,
        requests: 8,
        ..Setting::new(Service::Rc)
    };
    let mut pair = Pair::new(&setting);
    let b = &mut pair.sides[1];
    let srq = b.srq.unwrap();
    for wr_id in 0..8 {
        b.post_receive(wr_id, &[b.sge(0, 8)]);
    }
    let request = ReceiveRequest {
        wr_id: 9,
        sges: &[],
    };
    let full = b.engine.post_srq_receive(srq, &request);
    assert_eq!(full, Err(Refused::Full("shared receive queue")));
    assert!(
        b.engine.post_receive(b.qpn, &request).is_err(),
        "it has no queue of its own"
    );
    let many = [b.sge(0, 1); 5];
    let request = ReceiveRequest {
        wr_id: 9,
        sges: &many,
    };
    assert!(b.engine.post_srq_receive(srq, &request).is_err());
    b.engine.set_srq_limit(srq, 6).unwrap();
    assert_eq!(b.engine.srq_limit(srq), Ok(6));
    let mut told = Vec::new();
    for wr_id in 0..5 {
        let a = &mut pair.sides[0];
        a.post(
            NOW,
            wr_id,
            transport::SendOperation::default(),
            &[a.sge(0, 8)],
        );
        pair.settle();
        told.push(pair.sides[1].events().len());
    }
    assert_eq!(told, [0, 0, 1, 0, 0], "five are left, fewer than six");
    let b = &mut pair.sides[1];
    assert_eq!(b.engine.srq_limit(srq), Ok(0), "disarmed");
    let taken: Vec<u64> = b.received().iter().map(|done| done.wr_id).collect();
    assert_eq!(taken, [0, 1, 2, 3, 4]);
}

#[test]
fn a_request_of_a_message_that_does_not_end_serves_another_queue_pair_of_the_shared_receive_queue()
{
    let setting = Setting {
        srq: true,
        requests: 1,
        ..Setting::new(Service::Rc)
    };
    for is_reset in [false, true] {
        let mut pair = Pair::new(&setting);
        let [a, b] = &mut pair.sides;
        b.post_receive(7, &[b.sge(0, 2048)]);
        a.post(
            NOW,
            0,
            transport::SendOperation::default(),
            &[a.sge(0, 2048)],
        );
        assert!(pair.carry(0), "the first of two packets");
        let b = &mut pair.sides[1];
        if is_reset {
            let reset = QpModify {
                state: Some(QpState::Reset),
                ..QpModify::default()
            };
            b.engine.modify_qp(NOW, b.qpn, &reset).unwrap();
        } else {
            b.engine.destroy_qp(b.qpn).unwrap();
            b.qpn = b.new_qp(&setting);
        }
        assert!(b.received().is_empty());
        let [a, b] = &mut pair.sides;
        a.engine.destroy_qp(a.qpn).unwrap();
        a.qpn = a.new_qp(&setting);
        a.connect(NOW, &setting, b.lid, b.qpn);
        b.connect(NOW, &setting, a.lid, a.qpn);
        a.post(
            NOW,
            1,
            transport::SendOperation::default(),
            &[a.sge(0, 2048)],
        );
        pair.settle();
        let done: Vec<u64> = pair.sides[1]
            .received()
            .iter()
            .map(|done| done.wr_id)
            .collect();
        assert_eq!(done, [7], "reset: {is_reset}");
    }
}

#[test]
fn a_queue_pair_that_is_destroyed_sends_nothing_and_its_number_is_not_the_next_one_s() {
    let mut pair = Pair::new(&Setting::new(Service::Rc));
    let a = &mut pair.sides[0];
    a.post(NOW, 0, transport::SendOperation::default(), &[]);
    let old = a.qpn;
    a.engine.destroy_qp(old).unwrap();
    assert!(a.transmit(NOW).is_none());
    let config = QpConfig {
        service: Service::Rc,
        ..queue_pair(a.pd, a.send_cq)
    };
    let numbers: Vec<Qpn> = (0..100)
        .map(|_| {
            let qpn = a.engine.create_qp(config).unwrap();
            a.engine.destroy_qp(qpn).unwrap();
            qpn
        })
        .collect();
    assert!(!numbers.contains(&old));
}

#[test]
fn a_queue_that_has_got_completions_is_named_once() {
    let mut engine = engine();
    let pd = engine.create_pd().unwrap();
    let cq = engine.create_cq(8).unwrap();
    let qpn = engine.create_qp(queue_pair(pd, cq)).unwrap();
    let to = |state| transport::QpModify {
        state: Some(state),
        ..transport::QpModify::default()
    };
    for _ in 0..3 {
        let init = transport::QpModify {
            pkey_index: Some(0),
            port: Some(engine.port().number),
            qkey: Some(1),
            ..to(transport::QpState::Init)
        };
        engine.modify_qp(NOW, qpn, &init).unwrap();
        for wr_id in 0..2 {
            let receive = ReceiveRequest { wr_id, sges: &[] };
            engine.post_receive(qpn, &receive).unwrap();
        }
        assert_eq!(engine.poll_filled(), None);
        engine
            .modify_qp(NOW, qpn, &to(transport::QpState::Error))
            .unwrap();
        assert_eq!(engine.poll_filled(), Some(cq));
        assert_eq!(engine.poll_filled(), None);
        assert!(engine.poll_cq(cq).is_some() && engine.poll_cq(cq).is_some());
        engine
            .modify_qp(NOW, qpn, &to(transport::QpState::Reset))
            .unwrap();
    }
}
