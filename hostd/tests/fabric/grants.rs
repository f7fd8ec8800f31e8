//! Flows that send only while the controller lets them, and by the LID that it names.

use hostd::control::{FlowState, PerfRequest, Reply, Request, SINK_QPN};
use link::PortConfig;
use wire::mad::{Mad, MadStatus, Method};
use wire::vendor::{QosCause, QosChange, QosConnection, WindowGrant, WindowState};
use wire::{Lid, Sl};

use crate::bed::{Bed, CLIENT, lid};
use crate::manage::bring_up_star;

fn start(bed: &mut Bed, number: u32, to: u16) {
    let request = PerfRequest {
        flow: number,
        dlid: lid(to),
        qpn: SINK_QPN,
        size: 290,
        window: 8,
        rate: 0,
        sl: Sl::default(),
        count: 0,
        duration_ms: 0,
        seed: 7,
    };
    let request = Request::PerfStartGranted(request);
    assert_eq!(bed.ask(1, request), Reply::Done);
}

/// The manager beside host 0 tells host 1.
fn grant(bed: &mut Bed, step: u32, destination: Lid, dlid: Lid) {
    let grant = WindowGrant {
        session: 5,
        step,
        destination,
        dlid,
    };
    let mad = Mad::vendor(Method::SET, 0, u64::from(step) + 100, &grant);
    let answer = bed.exchange(lid(2), &mad);
    assert_eq!(answer.status(), MadStatus::OK);
    assert_eq!(answer.vendor_attribute(), Ok(grant));
}

fn sent(bed: &mut Bed, flow: u32) -> u64 {
    match bed.ask(1, Request::PerfReport { flow }) {
        Reply::Perf(report) => {
            assert_eq!(report.state, FlowState::Running);
            report.sent
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_flow_waits_for_its_grant_and_stops_when_it_ends() {
    let mut bed = Bed::star(4, PortConfig::default());
    bring_up_star(&mut bed, 4);
    start(&mut bed, 1, 3);
    start(&mut bed, 2, 4);
    bed.run(10_000_000);
    assert_eq!((sent(&mut bed, 1), sent(&mut bed, 2)), (0, 0));

    grant(&mut bed, 1, lid(3), lid(3));
    bed.run(1_000_000);
    let first = sent(&mut bed, 1);
    assert!(first > 0 && sent(&mut bed, 2) == 0);

    grant(&mut bed, 2, Lid::ZERO, Lid::ZERO);
    let stopped = sent(&mut bed, 1);
    bed.run(10_000_000);
    assert_eq!(sent(&mut bed, 1), stopped);

    grant(&mut bed, 3, lid(4), lid(4));
    bed.run(1_000_000);
    assert!(sent(&mut bed, 2) > 0);
    assert_eq!(sent(&mut bed, 1), stopped);
}

#[test]
fn a_grant_that_comes_late_or_from_another_sender_is_not_followed() {
    let mut bed = Bed::star(4, PortConfig::default());
    bring_up_star(&mut bed, 4);
    start(&mut bed, 1, 3);
    grant(&mut bed, 8, Lid::ZERO, Lid::ZERO);
    grant(&mut bed, 7, lid(3), lid(3));
    bed.run(1_000_000);
    assert_eq!(sent(&mut bed, 1), 0, "older than the last");

    // Host 2 is not where the manager is.
    let forged = WindowGrant {
        session: 6,
        step: 1,
        destination: lid(3),
        dlid: lid(3),
    };
    let mad = Mad::vendor(Method::SET, 0, 1, &forged);
    bed.send_mad(2, CLIENT, lid(2), &mad);
    bed.run(1_000_000);
    assert_eq!(sent(&mut bed, 1), 0);
}

#[test]
fn what_is_no_grant_is_refused_by_status_where_the_class_has_no_server() {
    let mut bed = Bed::star(2, PortConfig::default());
    bring_up_star(&mut bed, 2);
    let nothing = WindowState::default();
    let mad = Mad::vendor(Method::GET, 0, 1, &nothing);
    let answer = bed.exchange(lid(2), &mad);
    assert_eq!(
        (answer.method(), answer.status()),
        (Method::GET_RESP, MadStatus::BAD_VERSION)
    );
    // What asks for no answer is dropped.
    bed.send_mad(
        0,
        CLIENT,
        lid(2),
        &Mad::vendor(Method::SEND, 0, 1, &nothing),
    );
    bed.run(1_000_000);
    let dropped = bed.at(1).port().counts().drops[link::DropReason::NotForUs];
    assert_eq!(dropped, 1);
}

#[test]
fn a_change_of_a_connection_is_answered_to_the_manager_only() {
    let mut bed = Bed::star(4, PortConfig::default());
    bring_up_star(&mut bed, 4);
    let change = QosChange(QosConnection {
        id: 3,
        cause: QosCause::Bandwidth,
        ..QosConnection::default()
    });
    // Twice: the answer may be lost.
    for _ in 0..2 {
        let mad = Mad::vendor(Method::SET, 0, 9, &change);
        let answer = bed.exchange(lid(2), &mad);
        assert_eq!(
            (answer.method(), answer.status()),
            (Method::GET_RESP, MadStatus::OK)
        );
        assert_eq!(answer.vendor_attribute(), Ok(change));
    }
    let before = bed.at(1).port().counts().drops[link::DropReason::BadMad];
    bed.send_mad(2, CLIENT, lid(2), &Mad::vendor(Method::SET, 0, 10, &change));
    bed.run(1_000_000);
    let after = bed.at(1).port().counts().drops[link::DropReason::BadMad];
    assert_eq!(after, before + 1, "host 2 is not where the manager is");
}
