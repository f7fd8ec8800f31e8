use wire::mad::{AttributeId, Method};

use super::*;

const SWITCH: Smi = Smi {
    switch: true,
    ports: 36,
};
const ADAPTER: Smi = Smi {
    switch: false,
    ports: 1,
};

fn port(number: u8) -> PortNum {
    PortNum::new(number)
}

/// A directed-route request along `path` (output ports), not yet sent.
fn request(path: &[u8]) -> Mad {
    let path: Vec<PortNum> = path.iter().map(|&number| port(number)).collect();
    Mad::directed_smp(Method::GET, AttributeId::NODE_INFO, 0, 1, &path).unwrap()
}

fn answered(mut smp: Mad) -> Mad {
    smp.set_returning(true);
    smp
}

#[test]
fn a_request_goes_hop_by_hop_to_its_end_and_the_answer_comes_back() {
    let path = [1, 5, 17];
    let arrivals = [9, 20, 1];
    let mut smp = request(&path);
    assert_eq!(ADAPTER.route(&mut smp, Origin::Here), Action::Send(port(1)));
    for (hop, &arrival) in arrivals.iter().enumerate() {
        assert_eq!(usize::from(smp.hop_pointer()), hop + 1);
        let last = hop + 1 == path.len();
        let smi = if last { ADAPTER } else { SWITCH };
        let expected = match last {
            true => Action::Handle,
            false => Action::Send(port(path[hop + 1])),
        };
        assert_eq!(smi.route(&mut smp, Origin::Port(port(arrival))), expected);
    }
    assert_eq!(smp.hop_pointer(), 4);
    assert_eq!(smp.return_path()[..4], [0, 9, 20, 1]);

    let mut smp = answered(smp);
    assert_eq!(ADAPTER.route(&mut smp, Origin::Here), Action::Send(port(1)));
    assert_eq!(
        SWITCH.route(&mut smp, Origin::Port(port(17))),
        Action::Send(port(20))
    );
    assert_eq!(
        SWITCH.route(&mut smp, Origin::Port(port(5))),
        Action::Send(port(9))
    );
    assert_eq!(
        ADAPTER.route(&mut smp, Origin::Port(port(1))),
        Action::Handle
    );
    assert_eq!(smp.hop_pointer(), 0);
}

#[test]
fn a_request_without_hops_is_delivered_here_and_so_is_its_answer() {
    for smi in [SWITCH, ADAPTER] {
        let mut smp = request(&[]);
        assert_eq!(smi.route(&mut smp, Origin::Here), Action::Handle);
        let mut smp = answered(smp);
        assert_eq!(smi.route(&mut smp, Origin::Here), Action::Handle);
        assert_eq!(smp.hop_pointer(), 0);
    }
}

/// What the SMI does for each hop pointer of a route of `count` hops, as letters: deliver,
/// forward, `p`ointer refused, `c`hannel adapter refused.
fn row(smi: Smi, origin: Origin, returning: bool, count: u8) -> String {
    (0..=count + 3)
        .map(|pointer| {
            let mut smp = request(&vec![1; usize::from(count)]);
            smp.return_path_mut().fill(1);
            smp.set_hop_pointer(pointer);
            if returning {
                smp = answered(smp);
            }
            let before = smp;
            let action = smi.route(&mut smp, origin);
            match action {
                Action::Discard(_) => assert_eq!(before, smp, "nothing is written"),
                _ if returning => assert_eq!(smp.hop_pointer(), pointer - 1),
                _ => assert_eq!(smp.hop_pointer(), pointer + 1),
            }
            match action {
                Action::ToLid(lid) => panic!("to {lid}"),
                Action::Handle => 'D',
                Action::Send(_) => 'F',
                Action::Discard(Discard::HopPointer) => 'p',
                Action::Discard(Discard::ThroughChannelAdapter) => 'c',
                Action::Discard(other) => panic!("{other}"),
            }
        })
        .collect()
}

#[test]
fn every_hop_pointer_is_checked_against_the_hop() {
    let link = Origin::Port(port(1));
    // Hop pointer 0, 1, 2 ... count + 3.
    let table = [
        (SWITCH, Origin::Here, false, 0, "Dppp"),
        (SWITCH, Origin::Here, false, 3, "Fpppppp"),
        (SWITCH, Origin::Here, true, 0, "pDpp"),
        (SWITCH, Origin::Here, true, 3, "ppppFpp"),
        (SWITCH, link, false, 0, "pppp"),
        (SWITCH, link, false, 3, "pFFDppp"),
        (SWITCH, link, true, 0, "pppp"),
        (SWITCH, link, true, 3, "pDFFppp"),
        (ADAPTER, Origin::Here, false, 0, "Dppp"),
        (ADAPTER, Origin::Here, false, 3, "Fpppppp"),
        (ADAPTER, Origin::Here, true, 0, "pDpp"),
        (ADAPTER, Origin::Here, true, 3, "ppppFpp"),
        (ADAPTER, link, false, 0, "pppp"),
        (ADAPTER, link, false, 3, "pccDppp"),
        (ADAPTER, link, true, 0, "pppp"),
        (ADAPTER, link, true, 3, "pDccppp"),
    ];
    for (smi, origin, returning, count, expected) in table {
        let found = row(smi, origin, returning, count);
        assert_eq!(
            found, expected,
            "{smi:?} {origin:?} returning {returning} of {count} hops"
        );
    }
}

#[test]
fn a_path_that_names_no_port_is_discarded() {
    for wrong in [0, 37, 255] {
        let mut smp = request(&[1, wrong]);
        smp.set_hop_pointer(1);
        let action = SWITCH.route(&mut smp, Origin::Port(port(3)));
        assert_eq!(action, Action::Discard(Discard::NoSuchPort));
        let action = ADAPTER.route(&mut request(&[wrong.max(2)]), Origin::Here);
        assert_eq!(action, Action::Discard(Discard::NoSuchPort));
    }
}

#[test]
fn sixty_three_hops_are_the_limit() {
    let mut smp = request(&[1; 63]);
    smp.set_hop_pointer(63);
    assert_eq!(
        SWITCH.route(&mut smp, Origin::Port(port(36))),
        Action::Handle
    );
    assert_eq!(smp.return_path()[63], 36);
    for count in [64, 255] {
        smp.set_hop_count(count);
        for pointer in [0, 1, 64, 255] {
            smp.set_hop_pointer(pointer);
            let action = SWITCH.route(&mut smp, Origin::Port(port(36)));
            assert_eq!(action, Action::Discard(Discard::HopCount));
        }
    }
}

#[test]
fn a_route_may_start_by_lid_and_its_answer_ends_by_lid() {
    let requester = Lid::new(7);
    let mut smp = request(&[5, 17]);
    smp.set_dr_slid(requester);
    assert_eq!(
        SWITCH.route(&mut smp, Origin::Lid(port(2))),
        Action::Send(port(5))
    );
    assert_eq!(
        SWITCH.route(&mut smp, Origin::Port(port(9))),
        Action::Send(port(17))
    );
    assert_eq!(
        ADAPTER.route(&mut smp, Origin::Port(port(1))),
        Action::Handle
    );
    let mut smp = answered(smp);
    assert_eq!(ADAPTER.route(&mut smp, Origin::Here), Action::Send(port(1)));
    assert_eq!(
        SWITCH.route(&mut smp, Origin::Port(port(17))),
        Action::Send(port(9))
    );
    assert_eq!(
        SWITCH.route(&mut smp, Origin::Port(port(5))),
        Action::ToLid(requester)
    );
    assert_eq!(
        ADAPTER.route(&mut smp, Origin::Lid(port(1))),
        Action::Handle
    );
    assert_eq!(smp.hop_pointer(), 0);
}

#[test]
fn a_directed_part_without_hops_is_answered_where_the_lid_leads() {
    let mut smp = request(&[]);
    smp.set_dr_slid(Lid::new(7));
    assert_eq!(SWITCH.route(&mut smp, Origin::Lid(port(2))), Action::Handle);
    let mut smp = answered(smp);
    assert_eq!(
        SWITCH.route(&mut smp, Origin::Here),
        Action::ToLid(Lid::new(7))
    );
}

#[test]
fn lids_that_do_not_fit_the_route_are_refused() {
    let mut smp = request(&[1, 2]);
    assert_eq!(
        SWITCH.route(&mut smp, Origin::Lid(port(2))),
        Action::Discard(Discard::DrSlid)
    );
    smp.set_dr_dlid(Lid::new(5));
    for origin in [Origin::Here, Origin::Port(port(2)), Origin::Lid(port(2))] {
        assert_eq!(
            SWITCH.route(&mut smp, origin),
            Action::Discard(Discard::EndsByLid)
        );
    }
    let mut smp = answered(request(&[1, 2]));
    smp.set_hop_pointer(1);
    smp.set_dr_slid(Lid::ZERO);
    let action = SWITCH.route(&mut smp, Origin::Port(port(2)));
    assert_eq!(action, Action::Discard(Discard::DrSlid));
}
