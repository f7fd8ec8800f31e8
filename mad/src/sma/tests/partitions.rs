use wire::attr::{
    Notice, PKeyTable, PortInfo, PortPhysState, PortState, SwitchInfo, Trap257, Trap259,
};
use wire::mad::{AttributeId, MadStatus};
use wire::{Format, Lid, Qpn, Sl};

use super::super::*;
use super::fake::{Bench, Fake, port};

const S: u64 = 1_000_000_000;

/// PortInfo of a port as a Set that changes nothing.
fn keep(bench: &mut Bench, number: u32) -> PortInfo {
    PortInfo {
        port_state: PortState::NoChange,
        port_phys_state: PortPhysState::NoChange,
        p_key_violations: 0xffff,
        q_key_violations: 0xffff,
        ..bench.get(number)
    }
}

/// A node whose agent knows its own LID 5 and its subnet manager's, 1.
fn managed(node: Fake) -> Bench {
    let mut bench = Bench::new(node);
    let info = PortInfo {
        lid: Lid::new(5),
        master_sm_lid: Lid::new(1),
        ..keep(&mut bench, 0)
    };
    bench.set(0, &info).unwrap();
    bench
}

fn packet() -> Trap257 {
    Trap257 {
        slid: Lid::new(7),
        dlid: Lid::new(5),
        key: 0x8005,
        sl: Sl::constant(3),
        src_qp: Qpn::constant(0x111),
        dest_qp: Qpn::constant(0x222),
        ..Trap257::default()
    }
}

fn trap(bench: &mut Bench) -> Notice {
    let trap = bench.sma.poll_trap(bench.now).unwrap();
    assert_eq!((trap.dlid, trap.slid), (Lid::new(1), Lid::new(5)));
    trap.mad.smp_attribute().unwrap()
}

#[test]
fn the_tables_of_a_switch_s_ports_are_kept_and_given_to_its_dataplane() {
    let mut bench = Bench::new(Fake::switch());
    let info: SwitchInfo = bench.get(0);
    assert_eq!(info.partition_enforcement_cap, 32);
    assert!(info.inbound_enforcement_cap && info.outbound_enforcement_cap);
    let mut table = PKeyTable::default();
    table.0[3] = 0x8005;
    for number in [1, 20] {
        let at = PKeyTable::switch_modifier(port(number), 0);
        assert_eq!(bench.get::<PKeyTable>(at), PKeyTable::default());
        bench.set(at, &table).unwrap();
        assert_eq!(bench.get::<PKeyTable>(at), table);
        assert_eq!(bench.node.pkeys[&port(number)], table.0);
    }
    bench.set(0, &table).unwrap();
    assert_eq!(bench.node.pkeys.len(), 2, "port 0 is the agent's own");
    for modifier in [PKeyTable::switch_modifier(port(21), 0), 1, 1 << 24] {
        let status = bench.status(Method::GET, AttributeId::PKEY_TABLE, modifier);
        assert_eq!(status, MadStatus::BAD_FIELD, "{modifier:#x}");
    }
}

#[test]
fn enforcement_is_set_at_external_ports_only() {
    let mut bench = managed(Fake::switch());
    for number in [0, 3] {
        let info = PortInfo {
            partition_enforcement_inbound: true,
            partition_enforcement_outbound: number == 0,
            ..keep(&mut bench, number)
        };
        let after = bench.set(number, &info).unwrap();
        assert_eq!(after.partition_enforcement_inbound, number == 3);
        assert!(!after.partition_enforcement_outbound);
    }
    let settings = bench.sma.settings(port(3));
    assert!(settings.partitions_in && !settings.partitions_out);
    assert_eq!(bench.node.settings[&port(3)], settings);
}

#[test]
fn wrong_keys_of_packets_are_counted_apart_and_told() {
    for node in [Fake::switch(), Fake::adapter()] {
        let mut bench = managed(node);
        let number = u8::from(!bench.node.identity().is_switch());
        let identity = bench.node.identity().clone();
        let packet = packet();
        for _ in 0..3 {
            let at = port(number);
            let key = PacketKey::PKey;
            bench
                .sma
                .packet_key_violated(bench.now, &identity, at, key, &packet);
        }
        let (at, key) = (port(number), PacketKey::QKey);
        bench
            .sma
            .packet_key_violated(bench.now, &identity, at, key, &packet);
        let info: PortInfo = bench.get(0);
        assert_eq!((info.p_key_violations, info.q_key_violations), (3, 1));
        for trap_number in [257, 258] {
            let notice = trap(&mut bench);
            assert_eq!(notice.trap_number, trap_number);
            assert_eq!(notice.notice_type, Notice::TYPE_SECURITY);
            assert_eq!(notice.producer_type, if number == 0 { 2 } else { 1 });
            assert_eq!(Trap257::parse(&notice.details).unwrap().0, packet);
        }
        assert!(
            bench.sma.poll_trap(bench.now).is_none(),
            "three are told once"
        );
        let info = keep(&mut bench, 0);
        assert_eq!(bench.set(0, &info).unwrap().p_key_violations, 3);
        let reset = PortInfo {
            p_key_violations: 0,
            ..info
        };
        let after = bench.set(0, &reset).unwrap();
        assert_eq!((after.p_key_violations, after.q_key_violations), (0, 1));
    }
}

#[test]
fn what_a_port_of_a_switch_stops_is_counted_there_and_told_with_the_switch() {
    let mut bench = managed(Fake::switch());
    bench.now = Time(S);
    let packet = Trap259 {
        valid: Trap259::PKEY,
        p_key: 0x8005,
        port: port(4),
        ..Trap259::default()
    };
    bench.sma.p_key_blocked(bench.now, 0xfff0, &packet);
    let notice = trap(&mut bench);
    assert_eq!((notice.trap_number, notice.issuer_lid), (259, Lid::new(5)));
    let expected = Trap259 {
        switch: Lid::new(5),
        ..packet
    };
    assert_eq!(Trap259::parse(&notice.details).unwrap().0, expected);
    bench.sma.p_key_blocked(bench.now, 0xfff0, &packet);
    assert_eq!(bench.get::<PortInfo>(4).p_key_violations, 0xffff);
    assert_eq!(bench.get::<PortInfo>(3).p_key_violations, 0);
}
