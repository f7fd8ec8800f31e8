use wire::Format;
use wire::mad::Method;
use wire::pma::{PortRcvErrorDetails, PortXmitDiscardDetails};

use super::*;

mod arrays;
mod sampling;

fn ask<A: Format>(
    pma: &mut Pma,
    counts: &[Counts],
    method: Method,
    id: AttributeId,
    attribute: &A,
) -> (MadStatus, Mad) {
    let mut mad = Mad::pma(method, id, 0, 7);
    mad.set_pma_attribute(attribute);
    let counts = all(counts);
    assert!(pma.handle(Time(0), &mut mad, |port| &counts[port.index()]));
    assert_eq!((mad.method(), mad.tid()), (method.response(), 7));
    (mad.status(), mad)
}

/// What the ports have counted, with nothing dropped.
fn all(spec: &[Counts]) -> Vec<link::Counts> {
    let one = |spec: &Counts| link::Counts {
        spec: spec.clone(),
        ..link::Counts::default()
    };
    spec.iter().map(one).collect()
}

fn basic(pma: &mut Pma, counts: &[Counts], method: Method, wanted: PortCounters) -> PortCounters {
    let (status, mad) = ask(pma, counts, method, AttributeId::PORT_COUNTERS, &wanted);
    assert_eq!(status, MadStatus::OK);
    mad.pma_attribute().unwrap()
}

fn counts() -> Vec<Counts> {
    let one = Counts {
        xmit_pkts: 10,
        rcv_errors: 3,
        xmit_wait_ns: 2_500_000,
        local_link_integrity_errors: 40,
        xmit_data_words: 1 << 40,
        multicast_rcv_pkts: 9,
        ..Counts::default()
    };
    vec![Counts::default(), one.clone(), one]
}

fn of_port(port: u8) -> PortCounters {
    PortCounters {
        port_select: PortNum::new(port),
        ..PortCounters::default()
    }
}

#[test]
fn counters_stop_at_the_width_of_their_field() {
    let got = basic(&mut Pma::new(2), &counts(), Method::GET, of_port(2));
    assert_eq!(
        (got.xmit_pkts, got.rcv_errors, got.xmit_wait),
        (10, 3, 2500)
    );
    assert_eq!(
        (got.xmit_data, got.local_link_integrity_errors),
        (u32::MAX, 15)
    );
}

#[test]
fn a_set_changes_the_selected_counters_of_the_selected_port_only() {
    let (mut pma, mut counts) = (Pma::new(2), counts());
    let wanted = PortCounters {
        counter_select: select::RCV_ERRORS,
        rcv_errors: 1,
        ..of_port(1)
    };
    let got = basic(&mut pma, &counts, Method::SET, wanted);
    assert_eq!((got.rcv_errors, got.xmit_pkts), (1, 10));
    counts[1].rcv_errors += 2;
    assert_eq!(
        basic(&mut pma, &counts, Method::GET, of_port(1)).rcv_errors,
        3
    );
    assert_eq!(
        basic(&mut pma, &counts, Method::GET, of_port(2)).rcv_errors,
        3
    );
}

#[test]
fn all_ports_are_added_up_and_cleared_together() {
    let (mut pma, counts) = (Pma::new(2), counts());
    assert_eq!(
        basic(&mut pma, &counts, Method::GET, of_port(0xff)).xmit_pkts,
        20
    );
    let clear = PortCounters {
        counter_select: 0xffff,
        counter_select2: select2::XMIT_WAIT,
        ..of_port(0xff)
    };
    let got = basic(&mut pma, &counts, Method::SET, clear);
    assert_eq!(got, clear);
    assert_eq!(
        basic(&mut pma, &counts, Method::GET, of_port(2)),
        of_port(2)
    );
}

#[test]
fn extended_counters_are_64_bits_wide_and_cleared_apart() {
    let (mut pma, counts) = (Pma::new(2), counts());
    let wanted = PortCountersExtended {
        port_select: PortNum::new(1),
        counter_select: select_extended::XMIT_PKTS,
        ..PortCountersExtended::default()
    };
    let id = AttributeId::PORT_COUNTERS_EXTENDED;
    let (status, mad) = ask(&mut pma, &counts, Method::SET, id, &wanted);
    let got: PortCountersExtended = mad.pma_attribute().unwrap();
    assert_eq!(status, MadStatus::OK);
    assert_eq!(
        (got.xmit_pkts, got.xmit_data, got.multicast_rcv_pkts),
        (0, 1 << 40, 9)
    );
    assert_eq!(
        basic(&mut pma, &counts, Method::GET, of_port(1)).xmit_pkts,
        10
    );
}

#[test]
fn unknown_ports_attributes_and_methods_are_refused_by_status() {
    let (mut pma, counts) = (Pma::new(2), counts());
    let mut status = |method, id, port| ask(&mut pma, &counts, method, id, &of_port(port)).0;
    let get = Method::GET;
    assert_eq!(
        status(get, AttributeId::PORT_COUNTERS, 3),
        MadStatus::BAD_FIELD
    );
    assert_eq!(
        status(get, AttributeId::PORT_COUNTERS, 0),
        MadStatus::BAD_FIELD
    );
    let unknown = AttributeId::LINK_RECORD;
    assert_eq!(status(get, unknown, 1), MadStatus::BAD_METHOD_ATTRIBUTE);
    let info = AttributeId::CLASS_PORT_INFO;
    assert_eq!(
        status(Method::SET, info, 1),
        MadStatus::BAD_METHOD_ATTRIBUTE
    );
    assert_eq!(status(Method(0x12), info, 1), MadStatus::BAD_METHOD);
    let mut old = Mad::pma(get, info, 0, 1);
    old.as_bytes_mut()[2] = 2;
    let counts = all(&counts);
    assert!(pma.handle(Time(0), &mut old, |port| &counts[port.index()]));
    assert_eq!(old.status(), MadStatus::BAD_VERSION);
    let mut response = Mad::pma(Method::GET_RESP, info, 0, 1);
    assert!(!pma.handle(Time(0), &mut response, |port| &counts[port.index()]));
}

/// Drops of two ports, counted as a port counts them.
fn dropped() -> [link::Counts; 3] {
    use link::DropReason::{
        BadIcrc, BadVcrc, BadVl, HeadOfQueue, LinkDown, LoopBack, NeighborMtu, NoRoute,
        OutputInactive, TooLong,
    };
    let mut ports = [(); 3].map(|()| link::Counts::default());
    for (port, count, reason) in [
        (1, 1, BadVcrc),
        (1, 2, BadIcrc),
        (1, 3, BadVl),
        (1, 4, TooLong),
        (1, 5, NoRoute),
        (1, 6, LoopBack),
        (2, 7, OutputInactive),
        (2, 8, LinkDown),
        (2, 9, NeighborMtu),
        (2, 70_000, HeadOfQueue),
        (2, 1, BadVcrc),
    ] {
        ports[port].drop_many(reason, count);
    }
    ports
}

fn details<A: Format>(pma: &mut Pma, method: Method, id: AttributeId, wanted: &A) -> A {
    let mut mad = Mad::pma(method, id, 0, 7);
    mad.set_pma_attribute(wanted);
    let counts = dropped();
    assert!(pma.handle(Time(0), &mut mad, |port| &counts[port.index()]));
    assert_eq!(mad.status(), MadStatus::OK);
    mad.pma_attribute().unwrap()
}

#[test]
fn details_split_errors_and_discards_by_cause() {
    let mut pma = Pma::new(2);
    let all_ports = PortNum::new(0xff);
    let wanted = PortRcvErrorDetails {
        port_select: all_ports,
        ..PortRcvErrorDetails::default()
    };
    let id = AttributeId::PORT_RCV_ERROR_DETAILS;
    let received = details(&mut pma, Method::GET, id, &wanted);
    let expected = PortRcvErrorDetails {
        local_physical_errors: 4,
        malformed_packet_errors: 7,
        dlid_mapping_errors: 5,
        looping_errors: 6,
        ..wanted
    };
    assert_eq!(received, expected);

    let id = AttributeId::PORT_XMIT_DISCARD_DETAILS;
    let wanted = PortXmitDiscardDetails {
        port_select: PortNum::new(2),
        ..PortXmitDiscardDetails::default()
    };
    let sent = details(&mut pma, Method::GET, id, &wanted);
    assert_eq!(
        (sent.inactive_discards, sent.neighbor_mtu_discards),
        (15, 9)
    );
    assert_eq!(sent.sw_hoq_lifetime_limit_discards, u16::MAX);
}

#[test]
fn details_that_are_cleared_begin_anew_and_the_others_stay() {
    let mut pma = Pma::new(2);
    let id = AttributeId::PORT_XMIT_DISCARD_DETAILS;
    let first_only = PortXmitDiscardDetails {
        port_select: PortNum::new(2),
        counter_select: 1,
        ..PortXmitDiscardDetails::default()
    };
    let cleared = details(&mut pma, Method::SET, id, &first_only);
    assert_eq!(
        (cleared.inactive_discards, cleared.neighbor_mtu_discards),
        (0, 9)
    );
    let mut mad = Mad::pma(Method::GET, id, 0, 7);
    mad.set_pma_attribute(&PortXmitDiscardDetails {
        port_select: PortNum::new(3),
        ..first_only
    });
    let counts = dropped();
    assert!(pma.handle(Time(0), &mut mad, |port| &counts[port.index()]));
    assert_eq!(mad.status(), MadStatus::BAD_FIELD);
}
