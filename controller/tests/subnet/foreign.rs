//! What others do to the subnet: keys, writes, devices out of reach, warnings whose cause has gone.

use controller::control::Phase;
use controller::{SmConfig, SmEvent};
use topologies::NodeId;
use wire::attr::{
    LinearForwardingTable, PortInfo, PortPhysState, PortState, SlToVlTable, VlArbEntry, VlArbTable,
};
use wire::{PortNum, Vl};

use crate::bed::Bed;
use crate::{assert_connected, assert_programmed, end, first_host, graph, offline, up};

/// A light sweep comes every ten seconds, and mends within the next.
const MENDED_NS: u64 = 11_000_000_000;

pub(crate) fn is_warned(bed: &Bed, text: &str) -> bool {
    bed.events_reported
        .iter()
        .any(|(_, event)| matches!(event, SmEvent::Warning(warning) if warning.contains(text)))
}

pub(crate) fn warnings(bed: &Bed, host: NodeId, text: &str) -> usize {
    let warnings = bed.status(host).warnings;
    warnings.iter().filter(|one| one.contains(text)).count()
}

#[test]
fn what_is_more_than_63_hops_away_is_told() {
    let mut bed = Bed::new(graph("ring-130-1"), 1);
    let host = first_host(&bed.graph);
    bed.start(host, SmConfig::default());
    let status = bed.run_until_up(host);
    // 62 switches each way, and the one in the middle; hosts of all but the last two.
    assert_eq!((status.switches, status.hosts), (125, 123));
    let told = status
        .warnings
        .iter()
        .find(|text| text.contains("63 hops"))
        .unwrap_or_else(|| panic!("{:?}", status.warnings));
    assert!(
        told.starts_with("what 4 ports lead to is left out"),
        "{told}"
    );
    let example = bed.id("s62");
    let guid = bed.graph.node(example).guid.to_string();
    assert!(told.contains("of s62") && told.contains(&guid), "{told}");
    assert!(is_warned(&bed, "63 hops"));
}

#[test]
fn a_warning_of_no_link_goes_when_the_cable_is_plugged() {
    let mut bed = Bed::new(graph("star-4"), 1);
    let host = first_host(&bed.graph);
    let port = bed.ends(host)[0];
    bed.cut(port);
    bed.start(host, SmConfig::default());
    bed.run_for(2_000_000_000);
    assert_eq!(warnings(&bed, host, "no link"), 1);
    bed.plug(port);
    bed.run_until(host, |status| status.phase == Phase::Up);
    assert_eq!(bed.status(host).warnings, [""; 0]);
}

#[test]
fn a_warning_of_a_device_that_could_not_be_written_goes_when_it_answers_again() {
    let (mut bed, host) = up("star-4");
    let silent = bed.id("h2");
    bed.silence(silent, true);
    let now = bed.now;
    bed.manager(host).resweep(now);
    bed.run_for(5_000_000_000);
    assert!(warnings(&bed, host, "is left out") > 0);
    bed.silence(silent, false);
    bed.run_for(20_000_000_000);
    assert_eq!(bed.status(host).warnings, [""; 0]);
}

/// Sets an M_Key at the end port of a node.
fn lock(bed: &mut Bed, id: NodeId, m_key_protect_bits: u8) {
    let info: PortInfo = bed.get(id, 0);
    let locked = PortInfo {
        m_key: 0x1234,
        m_key_protect_bits,
        port_state: PortState::NoChange,
        port_phys_state: PortPhysState::NoChange,
        ..info
    };
    bed.set_behind_the_manager(id, 0, &locked);
}

#[test]
fn an_m_key_that_somebody_sets_is_told_whether_or_not_it_hides_the_device() {
    for protection in [0, 1, 2] {
        let (mut bed, host) = up("ring-4-1");
        let switch = bed.id("s2");
        lock(&mut bed, switch, protection);
        bed.run_for(2 * MENDED_NS);
        let told = warnings(&bed, host, "M_Key");
        assert!(told > 0, "{protection}: {:?}", bed.status(host).warnings);
        assert!(is_warned(&bed, "M_Key") && is_warned(&bed, "s2"));
        // A change of state that cannot be cleared: the switch says nothing, and that is told.
        bed.cut(end(&bed, "s2", 3));
        bed.run_for(2 * MENDED_NS);
        let status = bed.status(host);
        let name = status.unreachable.iter().map(|one| &one.name);
        assert!(name.clone().count() > 0, "{protection}: {status:?}");
        assert!(is_warned(&bed, "trap 256"), "{protection}");
        assert!(warnings(&bed, host, "M_Key") > 0);
    }
}

/// Heavy sweeps in a hundred seconds.
fn sweeps(bed: &mut Bed, host: NodeId) -> u64 {
    let before = bed.status(host).generation;
    bed.run_for(100_000_000_000);
    bed.status(host).generation - before
}

#[test]
fn sweeps_for_the_sake_of_a_locked_switch_become_rare() {
    for protection in [1, 2] {
        let (mut bed, host) = up("ring-4-1");
        let switch = bed.id("s2");
        let nowhere = LinearForwardingTable([PortNum::NONE; 64]);
        bed.set_behind_the_manager(switch, 0, &nowhere);
        lock(&mut bed, switch, protection);
        // It answers, but a block that must be written cannot be.
        bed.run_for(30_000_000_000);
        let count = sweeps(&mut bed, host);
        assert!((5..=20).contains(&count), "{protection}: {count}");
        // A change of state that cannot be cleared.
        bed.cut(end(&bed, "s2", 3));
        bed.run_for(30_000_000_000);
        let count = sweeps(&mut bed, host);
        assert!((5..=20).contains(&count), "{protection}: {count}");
    }
}

#[test]
fn a_switch_that_falls_silent_is_found_without_waiting_for_all_its_tables() {
    let mut bed = Bed::with_vls(graph("ring-4-1"), 1, 4);
    let host = first_host(&bed.graph);
    let config = SmConfig {
        smps_in_flight: 1,
        ..SmConfig::default()
    };
    bed.start(host, config);
    bed.run_until_up(host);
    bed.run_for(MENDED_NS);
    let switch = bed.id("s2");
    bed.silence(switch, true);
    let start = bed.now;
    bed.run_until(host, |status| status.phase != Phase::Up);
    // The rest of the interval, five tries of one request, and those of few more.
    assert!(bed.now < start + 13_000_000_000, "{:?}", bed.now);
}

#[test]
fn a_foreign_write_is_corrected_within_two_light_sweeps_and_reported() {
    let mut bed = Bed::with_vls(graph("ring-4-1"), 1, 4);
    let host = first_host(&bed.graph);
    bed.start(host, SmConfig::default());
    bed.run_until_up(host);
    let (switch, tables) = (bed.id("s2"), offline(&bed.graph));
    bed.run_for(MENDED_NS);
    bed.changes();

    let nowhere = LinearForwardingTable([PortNum::NONE; 64]);
    bed.set_behind_the_manager(switch, 0, &nowhere);
    // One input of an output for which all inputs were set at once.
    let at = end(&bed, "s2", 1).port;
    let (input, modifier) = (
        PortNum::new(2),
        SlToVlTable::switch_modifier(PortNum::new(2), at),
    );
    let row: SlToVlTable = bed.get(switch, modifier);
    bed.set_behind_the_manager(switch, modifier, &SlToVlTable([Vl::truncate(3); 16]));
    let arbitration = VlArbTable::modifier(VlArbTable::LOW_FIRST, at);
    let entries: VlArbTable = bed.get(switch, arbitration);
    bed.set_behind_the_manager(switch, arbitration, &VlArbTable::default());
    let other = bed.id("h3");
    let info: PortInfo = bed.get(other, 1);
    let changed = PortInfo {
        subnet_timeout: 3,
        port_state: PortState::NoChange,
        port_phys_state: PortPhysState::NoChange,
        ..info
    };
    bed.set_behind_the_manager(other, 1, &changed);

    bed.run_for(MENDED_NS);
    assert_programmed(&bed, &tables);
    let hosts: Vec<_> = bed.graph.hosts().collect();
    assert_connected(&bed, &hosts);
    assert_eq!(bed.get::<SlToVlTable>(switch, modifier), row, "{input}");
    assert_eq!(bed.get::<VlArbTable>(switch, arbitration), entries);
    assert_eq!(
        bed.get::<PortInfo>(other, 1).subnet_timeout,
        info.subnet_timeout
    );
    for what in [
        "LFT block 0 of s2",
        "SLtoVL table",
        "VLArb block",
        "PortInfo of port 1 of h3",
    ] {
        assert!(is_warned(&bed, what), "{what}: {:?}", bed.events_reported);
    }
    assert!(warnings(&bed, host, "another program") > 0);
    bed.run_for(MENDED_NS);
    assert_eq!(warnings(&bed, host, "another program"), 0, "it is repaired");
}

#[test]
fn verification_reads_a_bounded_number_in_each_light_sweep_and_all_in_turn() {
    let (mut bed, host) = up("fat-tree-8-2");
    bed.run_for(1_000_000_000);
    let mut sent = bed.status(host).smps_sent;
    let rounds = 4;
    for _ in 0..rounds {
        bed.run_for(10_000_000_000);
        let now = bed.status(host).smps_sent;
        let light = 1 + bed.graph.switches().count();
        // And the own port every 200 ms.
        let most = 256 + light as u64 + 50;
        assert!(now - sent <= most, "{}", now - sent);
        sent = now;
    }
    // A write to the device that is read last in a turn is found as well.
    let last = bed.graph.switches().last().unwrap();
    let block: LinearForwardingTable = bed.get(last, 0);
    let nowhere = LinearForwardingTable([PortNum::NONE; 64]);
    assert_ne!(block, nowhere);
    bed.set_behind_the_manager(last, 0, &nowhere);
    bed.run_for(rounds * 10_000_000_000);
    assert_eq!(bed.get::<LinearForwardingTable>(last, 0), block);
}

#[test]
fn a_manager_that_takes_over_leaves_no_arbitration_of_the_one_before_in_any_block() {
    let mut bed = Bed::with_vls(graph("ring-4-1"), 1, 4);
    let host = first_host(&bed.graph);
    bed.start(host, SmConfig::default());
    bed.run_until_up(host);
    let switch = bed.id("s2");
    let at = end(&bed, "s2", 1).port;
    let written = |bed: &mut Bed| {
        let blocks = VlArbTable::LOW_FIRST..=VlArbTable::HIGH_SECOND;
        blocks
            .map(|block| bed.get::<VlArbTable>(switch, VlArbTable::modifier(block, at)))
            .collect::<Vec<_>>()
    };
    let wanted = written(&mut bed);
    drop(bed.stop(host));
    let entry = VlArbEntry {
        vl: Vl::constant(1),
        weight: 9,
    };
    for block in [
        VlArbTable::LOW_SECOND,
        VlArbTable::HIGH_FIRST,
        VlArbTable::HIGH_SECOND,
    ] {
        let modifier = VlArbTable::modifier(block, at);
        bed.set_behind_the_manager(switch, modifier, &VlArbTable([entry; 32]));
    }
    bed.start(host, SmConfig::default());
    bed.run_until_up(host);
    assert_eq!(written(&mut bed), wanted);
}
