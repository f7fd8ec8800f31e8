use wire::attr::{Attribute, NodeInfo, Notice, PortInfo, PortPhysState, PortState, Trap256};
use wire::mad::{AttributeId, Mad, MadStatus, Method};
use wire::{Format, Lid};

use super::super::*;
use super::fake::{ASKER, Bench, Fake, port};

const KEY: u64 = 0x1234_5678_9abc_def0;
const OTHER: u64 = 77;
const S: u64 = 1_000_000_000;
const GET: Method = Method::GET;

/// PortInfo with these components and no change of state.
fn wanted(bench: &mut Bench, protect_bits: u8, lease_period_s: u16) -> PortInfo {
    PortInfo {
        lid: Lid::new(5),
        master_sm_lid: Lid::new(1),
        subnet_timeout: 18,
        m_key: KEY,
        m_key_protect_bits: protect_bits,
        m_key_lease_period: lease_period_s,
        port_state: PortState::NoChange,
        port_phys_state: PortPhysState::NoChange,
        ..bench.get(0)
    }
}

/// A node whose key is [`KEY`]; the bench gives another one from now on.
fn guarded(node: Fake, protect_bits: u8, lease_period_s: u16) -> Bench {
    let mut bench = Bench::new(node);
    let info = wanted(&mut bench, protect_bits, lease_period_s);
    bench.set(0, &info).unwrap();
    bench.m_key = OTHER;
    bench
}

fn nodes() -> [Fake; 2] {
    [Fake::switch(), Fake::adapter()]
}

/// Whether a Get without the key is answered, and what PortInfo then shows of the key.
fn visible_key(bench: &mut Bench) -> Option<u64> {
    let key = core::mem::replace(&mut bench.m_key, OTHER);
    let answer = bench.ask(Mad::lid_smp(GET, AttributeId::PORT_INFO, 0, 1));
    bench.m_key = key;
    answer.map(|mad| mad.smp_attribute::<PortInfo>().unwrap().m_key)
}

fn violate(bench: &mut Bench) {
    let key = core::mem::replace(&mut bench.m_key, OTHER);
    let set = Mad::lid_smp(Method::SET, AttributeId::PORT_INFO, 0, 1);
    assert!(bench.ask(set).is_none());
    bench.m_key = key;
}

/// PortInfo as a manager with the key reads it.
fn read(bench: &mut Bench) -> PortInfo {
    let key = core::mem::replace(&mut bench.m_key, KEY);
    let info = bench.get(0);
    bench.m_key = key;
    info
}

#[test]
fn what_each_protection_level_answers_without_the_key() {
    for (protect_bits, get) in [(0, Some(KEY)), (1, Some(0)), (2, None), (3, None)] {
        for node in nodes() {
            let mut bench = guarded(node, protect_bits, 0);
            assert_eq!(visible_key(&mut bench), get, "{protect_bits}");
            let node_info = Mad::lid_smp(GET, AttributeId::NODE_INFO, 0, 1);
            assert_eq!(bench.ask(node_info).is_some(), get.is_some());
            violate(&mut bench);
            let refused_gets = if get.is_none() { 2 } else { 0 };
            let info = read(&mut bench);
            assert_eq!(info.m_key_violations, 1 + refused_gets);
            assert_eq!((info.m_key, info.m_key_protect_bits), (KEY, protect_bits));
        }
    }
}

#[test]
fn a_key_of_a_switch_guards_all_its_attributes_by_whatever_port_they_are_asked() {
    let mut bench = guarded(Fake::switch(), 2, 0);
    for arrival in [0, 1, 20] {
        bench.arrival = port(arrival);
        for id in [
            AttributeId::SWITCH_INFO,
            AttributeId::LINEAR_FORWARDING_TABLE,
        ] {
            assert!(bench.ask(Mad::lid_smp(GET, id, 0, 1)).is_none());
        }
    }
    bench.m_key = KEY;
    assert_eq!(
        bench.status(GET, AttributeId::SWITCH_INFO, 0),
        MadStatus::OK
    );
}

#[test]
fn a_key_of_zero_admits_every_key() {
    for node in nodes() {
        let mut bench = Bench::new(node);
        let info = PortInfo {
            m_key: 0,
            ..wanted(&mut bench, 3, 1)
        };
        bench.set(0, &info).unwrap();
        bench.m_key = OTHER;
        assert_eq!(bench.get::<PortInfo>(0).m_key_violations, 0);
        bench.set(0, &info).unwrap();
    }
}

#[test]
fn a_violation_starts_the_lease_and_its_end_takes_the_protection_away() {
    let mut bench = guarded(Fake::switch(), 2, 3);
    bench.now = Time(100 * S);
    assert_eq!(
        visible_key(&mut bench),
        None,
        "it runs only from a violation on"
    );
    bench.now = Time(102 * S);
    violate(&mut bench);
    bench.now = Time(103 * S - 1);
    assert_eq!(
        visible_key(&mut bench),
        None,
        "a second violation starts it no second time"
    );
    bench.now = Time(103 * S);
    assert_eq!(
        visible_key(&mut bench),
        Some(KEY),
        "three seconds after the first"
    );
    assert_eq!(read(&mut bench).m_key_protect_bits, 0);
    violate(&mut bench);
    assert_eq!(
        read(&mut bench).m_key_violations,
        4,
        "the key still guards what is set"
    );

    let info = wanted(&mut bench, 2, 3);
    bench.m_key = KEY;
    bench.set(0, &info).unwrap();
    assert_eq!(
        visible_key(&mut bench),
        None,
        "reset by a manager with the key"
    );
}

#[test]
fn any_request_with_the_key_ends_the_lease() {
    let requests = [
        Mad::lid_smp(GET, AttributeId::NODE_INFO, 0, 1),
        Mad::lid_smp(Method::TRAP_REPRESS, AttributeId::NOTICE, 0, 1),
    ];
    for request in requests {
        let mut bench = guarded(Fake::adapter(), 2, 3);
        violate(&mut bench);
        bench.now = Time(2 * S);
        bench.m_key = KEY;
        bench.ask(request);
        bench.now = Time(1000 * S);
        assert_eq!(visible_key(&mut bench), None);
    }
}

#[test]
fn without_a_lease_period_the_protection_stays() {
    let mut bench = guarded(Fake::adapter(), 2, 0);
    violate(&mut bench);
    bench.now = Time(1_000_000 * S);
    assert_eq!(visible_key(&mut bench), None);
}

#[test]
fn violations_stop_at_the_greatest_number_and_only_a_zero_resets_them() {
    let mut bench = guarded(Fake::adapter(), 1, 0);
    for _ in 0..70_000 {
        violate(&mut bench);
    }
    assert_eq!(read(&mut bench).m_key_violations, 0xffff);
    bench.m_key = KEY;
    let mut info = wanted(&mut bench, 1, 0);
    info.m_key_violations = 5;
    assert_eq!(bench.set(0, &info).unwrap().m_key_violations, 0xffff);
    info.m_key_violations = 0;
    assert_eq!(bench.set(0, &info).unwrap().m_key_violations, 0);
}

fn bad_m_key(bench: &mut Bench) -> Option<Trap256> {
    let trap = bench.sma.poll_trap(bench.now)?;
    let notice: Notice = trap.mad.smp_attribute().unwrap();
    assert_eq!((notice.trap_number, notice.issuer_lid), (256, Lid::new(5)));
    assert_eq!(notice.notice_type, Notice::TYPE_SECURITY);
    assert_eq!((trap.dlid, trap.slid), (Lid::new(1), Lid::new(5)));
    Some(Trap256::parse(&notice.details).unwrap().0)
}

#[test]
fn a_trap_reports_requester_attribute_and_key() {
    for node in nodes() {
        let mut bench = guarded(node, 2, 0);
        let routed = Mad::lid_smp(Method::SET, AttributeId::PORT_INFO, 3, 1);
        assert!(bench.ask(routed).is_none());
        let details = bad_m_key(&mut bench).unwrap();
        assert_eq!((details.lid, details.route), (ASKER, None));
        assert_eq!(
            (
                details.method,
                details.attr_id,
                details.attr_mod,
                details.m_key
            ),
            (Method::SET, AttributeId::PORT_INFO, 3, OTHER)
        );

        bench.now = Time(S);
        let path = [4, 2].map(port);
        let mut directed = Mad::directed_smp(GET, NodeInfo::ID, 0, 1, &path).unwrap();
        directed.return_path_mut()[1..3].copy_from_slice(&[7, 8]);
        assert!(bench.ask(directed).is_none());
        let details = bad_m_key(&mut bench).unwrap();
        let route = details.route.unwrap();
        assert_eq!((details.method, details.attr_id), (GET, NodeInfo::ID));
        assert_eq!(
            (route.ports(), route.dr_slid),
            (&[7, 8][..], Lid::PERMISSIVE)
        );
        assert!(!route.is_truncated);
    }
}

#[test]
fn a_trap_is_repressed_with_the_key_only_and_a_repress_without_it_raises_none() {
    let mut bench = guarded(Fake::switch(), 1, 0);
    violate(&mut bench);
    let trap = bench.sma.poll_trap(bench.now).unwrap();
    let due = bench.sma.deadline();
    assert!(due.is_some());
    let repress = Mad::lid_smp(Method::TRAP_REPRESS, AttributeId::NOTICE, 0, trap.mad.tid());
    assert!(bench.ask(repress).is_none());
    assert_eq!(bench.sma.deadline(), due, "nothing ended, nothing raised");
    assert_eq!(read(&mut bench).m_key_violations, 2);
    bench.m_key = KEY;
    assert!(bench.ask(repress).is_none());
    assert_eq!(bench.sma.deadline(), None);
}

#[test]
fn a_burst_of_violations_is_told_at_the_pace_of_traps() {
    let mut bench = guarded(Fake::switch(), 1, 0);
    let mut told = 0;
    for step in 0..1000 {
        bench.now = Time(step * S / 1000);
        violate(&mut bench);
        while bench.sma.poll_trap(bench.now).is_some() {
            told += 1;
        }
    }
    assert!((1..=21).contains(&told), "{told} in a second");
}

#[test]
fn the_driver_of_an_adapter_reads_without_the_key_and_is_not_shown_it() {
    let mut bench = guarded(Fake::adapter(), 3, 0);
    let Bench { sma, node, now, .. } = &mut bench;
    let mut get = Mad::lid_smp(GET, AttributeId::PORT_INFO, 0, 1);
    sma.read_own(*now, node, &mut get, port(1));
    assert_eq!(get.status(), MadStatus::OK);
    let info: PortInfo = get.smp_attribute().unwrap();
    assert_eq!((info.lid, info.m_key), (Lid::new(5), 0));
    let mut set = Mad::lid_smp(Method::SET, AttributeId::PORT_INFO, 0, 1);
    sma.read_own(*now, node, &mut set, port(1));
    assert_eq!(set.status(), MadStatus::BAD_METHOD);
    assert_eq!(read(&mut bench).m_key_violations, 0);
}
