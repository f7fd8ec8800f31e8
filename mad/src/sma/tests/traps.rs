use wire::Lid;
use wire::attr::{Notice, PortInfo, PortPhysState, PortState};
use wire::mad::{AttributeId, Mad, Method};

use super::super::*;
use super::fake::{Bench, Fake, port};

const S: u64 = 1_000_000_000;

/// A node whose port `number` knows its own LID 5 and its subnet manager's, 1.
fn managed(node: Fake, number: u32) -> Bench {
    let mut bench = Bench::new(node);
    let mut info: PortInfo = bench.get(number);
    info.lid = Lid::new(5);
    info.master_sm_lid = Lid::new(1);
    info.subnet_timeout = 18;
    info.port_state = PortState::NoChange;
    info.port_phys_state = PortPhysState::NoChange;
    bench.set(number, &info).unwrap();
    bench
}

fn number(trap: &OutgoingTrap) -> u16 {
    trap.mad.smp_attribute::<Notice>().unwrap().trap_number
}

#[test]
fn a_change_of_a_link_is_told_until_it_is_repressed() {
    let mut sma = managed(Fake::switch(), 0).sma;
    sma.link_changed(Time(S));
    let trap = sma.poll_trap(Time(S)).unwrap();
    assert_eq!(
        (trap.dlid, trap.slid, number(&trap)),
        (Lid::new(1), Lid::new(5), 128)
    );
    assert_eq!(trap.mad.method(), Method::TRAP);
    assert!(sma.poll_trap(Time(S)).is_none());
    let again_at = sma.deadline().unwrap();
    assert_eq!(again_at, Time(S) + (4096 << 18), "SubnetTimeOut");
    assert_eq!(sma.poll_trap(again_at), Some(trap.clone()));
    sma.traps.repress(0xdead_beef_0000_0000 | trap.mad.tid());
    assert_eq!(sma.deadline(), None);
}

#[test]
fn a_wrong_m_key_is_told_to_the_subnet_manager() {
    let mut bench = managed(Fake::switch(), 0);
    let mut info: PortInfo = bench.get(0);
    info.m_key = 7;
    info.m_key_protect_bits = 1;
    bench.set(0, &info).unwrap();
    assert!(bench.sma.poll_trap(Time(S)).is_none());
    let mut mad = Mad::lid_smp(Method::SET, AttributeId::PORT_INFO, 3, 1);
    mad.set_smp_attribute(&info);
    assert!(bench.ask(mad).is_none());
    let trap = bench.sma.poll_trap(Time(S)).unwrap();
    let notice: Notice = trap.mad.smp_attribute().unwrap();
    assert_eq!((notice.trap_number, notice.issuer_lid), (256, Lid::new(5)));
    assert_eq!(notice.details[6], Method::SET.0);
    assert_eq!(notice.details[8..14], [0, 0x15, 0, 0, 0, 3]);
}

#[test]
fn a_trap_that_is_not_repressed_ends_by_itself() {
    let mut sma = managed(Fake::switch(), 0).sma;
    sma.link_changed(Time(S));
    let mut sent = 0;
    while let Some(at) = sma.deadline() {
        assert!(sma.poll_trap(at).is_some());
        sent += 1;
    }
    assert_eq!(sent, 16);
}

#[test]
fn a_second_change_is_not_repressed_with_the_first() {
    let mut sma = managed(Fake::switch(), 0).sma;
    sma.link_changed(Time(S));
    let first = sma.poll_trap(Time(S)).unwrap();
    for change in 1..36 {
        sma.link_changed(Time(S) + change);
    }
    assert!(
        sma.poll_trap(Time(S) + 40).is_none(),
        "a burst of changes is reported twice, not 36 times"
    );
    sma.traps.repress(first.mad.tid());
    let at = sma.deadline().unwrap();
    assert!(at <= Time(S) + S / 10);
    let second = sma.poll_trap(at).unwrap();
    assert_ne!(second.mad.tid(), first.mad.tid());
    sma.traps.repress(second.mad.tid());
    assert_eq!(sma.deadline(), None);
}

#[test]
fn without_a_subnet_manager_no_trap_is_sent() {
    let mut bench = Bench::new(Fake::switch());
    bench.sma.link_changed(Time(S));
    assert_eq!(bench.sma.deadline(), None);
}

#[test]
fn a_new_subnet_manager_beside_a_host_is_told_once_a_change() {
    let Bench { node, mut sma, .. } = managed(Fake::adapter(), 1);
    sma.set_is_sm(Time(S), &node, port(1), true);
    sma.set_is_sm(Time(S), &node, port(1), true);
    assert!(sma.is_sm(port(1)));
    let trap = sma.poll_trap(Time(S)).unwrap();
    assert_eq!(number(&trap), 144);
    assert!(sma.poll_trap(Time(S)).is_none());
}

#[test]
fn what_has_not_been_repressed_is_told_to_the_next_subnet_manager_at_once() {
    let mut bench = managed(Fake::switch(), 0);
    bench.sma.link_changed(Time(S));
    let before = bench.sma.poll_trap(Time(S)).unwrap();
    assert_eq!(before.dlid, Lid::new(1));
    bench.now = Time(S + S / 10);
    let mut info: PortInfo = bench.get(0);
    bench.set(0, &info).unwrap();
    assert!(
        bench.sma.poll_trap(bench.now).is_none(),
        "the manager is the same"
    );
    info.master_sm_lid = Lid::new(7);
    bench.set(0, &info).unwrap();
    let after = bench.sma.poll_trap(bench.now).unwrap();
    assert_eq!((after.dlid, after.slid), (Lid::new(7), Lid::new(5)));
    assert_eq!(after.mad, before.mad);
    bench.sma.traps.repress(before.mad.tid());
    assert_eq!(bench.sma.deadline(), None);
}
