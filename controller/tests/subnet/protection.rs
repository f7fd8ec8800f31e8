//! The subnet protected by an M_Key.

use controller::control::Phase;
use controller::{ConfigError, Protection, Sm, SmConfig};
use mad::local::MadMessage;
use topologies::{NodeId, NodeKind};
use wire::attr::{Attribute, NodeInfo, PortInfo, PortPhysState, PortState, SmInfo, SmState};
use wire::mad::MadStatus;
use wire::sa::{PKeyTableRecord, PortInfoRecord, SaHeader, SaRecord, SmInfoRecord};
use wire::{AttributeId, Format as _, Lid, MKey, Mad, Method, PortNum, Qpn, SaKey, Sl};

use crate::administration::{ask as ask_administration, ask_table, is_ignored};
use crate::bed::Bed;
use crate::foreign::{is_warned, warnings};
use crate::{assert_programmed, end, first_host, graph, offline};

const KEY: u64 = 0xfeed_face_cafe_beef;
const SECOND_NS: u64 = 1_000_000_000;

fn protected(protect_bits: u8, lease_period_s: u16) -> SmConfig {
    SmConfig {
        protection: Some(Protection {
            m_key: MKey::new(KEY).expect("not zero"),
            protect_bits,
            lease_period_s,
        }),
        ..SmConfig::default()
    }
}

/// A fabric that a manager has protected, and the manager's host.
fn up(name: &str, protect_bits: u8, lease_period_s: u16) -> (Bed, NodeId) {
    let mut bed = Bed::new(graph(name), 1);
    let host = first_host(&bed.graph);
    bed.start(host, protected(protect_bits, lease_period_s));
    bed.run_until_up(host);
    bed.m_key = KEY;
    (bed, host)
}

/// PortInfo of the port of a node that holds the key.
fn guard(bed: &mut Bed, id: NodeId) -> PortInfo {
    bed.get(id, 0)
}

/// Sends a request by a route from a host, with that key.
fn ask(bed: &mut Bed, host: NodeId, method: Method, route: &[u8], m_key: u64) {
    let path: Vec<PortNum> = route.iter().copied().map(PortNum::new).collect();
    let mut mad = Mad::directed_smp(method, NodeInfo::ID, 0, 7, &path).expect("at most 63 hops");
    mad.set_m_key(m_key);
    send(bed, host, Lid::PERMISSIVE, &mad);
}

fn send(bed: &mut Bed, host: NodeId, lid: Lid, mad: &Mad) {
    let message = MadMessage {
        lid,
        qpn: Qpn::SMI,
        sl: Sl::default(),
        mad: Box::new(*mad.as_bytes()),
        way: None,
    };
    bed.write(host, &message);
}

#[test]
fn every_switch_and_host_gets_the_key_and_the_subnet_is_managed_with_it() {
    for protect_bits in 0..=3 {
        let (mut bed, host) = up("fat-tree-4-2", protect_bits, 60);
        assert_programmed(&bed, &offline(&bed.graph));
        for id in bed.graph.ids().collect::<Vec<_>>() {
            let info = guard(&mut bed, id);
            assert_eq!(info.m_key, KEY);
            assert_eq!(info.m_key_protect_bits, protect_bits);
            assert_eq!(info.m_key_lease_period, 60);
            assert_eq!(info.m_key_violations, 0);
        }
        bed.run_for(60 * SECOND_NS);
        bed.changes();
        let generation = bed.status(host).generation;
        bed.run_for(60 * SECOND_NS);
        assert_eq!(bed.changes(), [], "nothing differs from what is wanted");
        assert_eq!(bed.status(host).generation, generation);
        assert_eq!(bed.status(host).warnings, [""; 0]);

        bed.cut(end(&bed, "h3.1", 1));
        bed.run_until(host, |status| {
            status.hosts == 7 && status.phase == Phase::Up
        });
        bed.plug(end(&bed, "h3.1", 1));
        bed.run_until(host, |status| {
            status.hosts == 8 && status.phase == Phase::Up
        });
        let late = bed.id("h3.1");
        bed.kill(late);
        bed.run_until(host, |status| {
            status.hosts == 7 && status.phase == Phase::Up
        });
        bed.revive(late);
        bed.run_until(host, |status| {
            status.hosts == 8 && status.phase == Phase::Up
        });
        assert_eq!(
            guard(&mut bed, late).m_key,
            KEY,
            "one that has forgotten it"
        );
    }
}

#[test]
fn without_a_key_nothing_is_protected() {
    let (mut bed, _) = crate::up("star-4");
    for id in bed.graph.ids().collect::<Vec<_>>() {
        let info = guard(&mut bed, id);
        assert_eq!((info.m_key, info.m_key_protect_bits), (0, 0));
    }
}

#[test]
fn a_manager_that_is_restarted_with_the_key_changes_nothing_and_one_without_is_told() {
    for protect_bits in 1..=3 {
        let (mut bed, host) = up("fat-tree-4-2", protect_bits, 0);
        bed.stop(host);
        bed.changes();
        bed.start(host, protected(protect_bits, 0));
        let status = bed.run_until(host, |status| status.phase == Phase::Up);
        assert_eq!(status.blocks_written, 0);
        assert_eq!(bed.changes(), []);

        bed.stop(host);
        bed.start(host, SmConfig::default());
        bed.run_for(30 * SECOND_NS);
        assert_eq!(bed.changes(), [], "{protect_bits}");
        let status = bed.status(host);
        if protect_bits == 1 {
            assert!(warnings(&bed, host, "M_Key") > 0, "{status:?}");
        } else {
            assert!(status.unreachable.iter().any(|one| one.name == "this host"));
        }
    }
}

#[test]
fn a_request_with_a_wrong_key_is_refused_and_told_with_who_has_sent_it() {
    let (mut bed, host) = up("fat-tree-4-2", 1, 0);
    let switch = bed.id("s1.0");
    let asker = bed.id("h0.1");
    let info = guard(&mut bed, switch);
    let mut set = Mad::lid_smp(Method::SET, PortInfo::ID, 0, 9);
    set.set_smp_attribute(&PortInfo {
        m_key: 0,
        port_state: PortState::NoChange,
        port_phys_state: PortPhysState::NoChange,
        ..info
    });
    let (lid, _) = bed.address(switch);
    send(&mut bed, asker, lid, &set);
    bed.run_for(SECOND_NS);
    assert_eq!(guard(&mut bed, switch).m_key, KEY);
    assert!(guard(&mut bed, switch).m_key_violations > 0);
    let told = "s1.0 has refused a Set of PortInfo with a wrong M_Key, by h0.1 (LID ";
    assert!(is_warned(&bed, told), "{:?}", bed.events_reported);
    assert!(warnings(&bed, host, "(trap 256)") > 0);
}

#[test]
fn who_has_asked_by_a_directed_route_is_found_by_the_way_back() {
    let (mut bed, _) = up("fat-tree-4-2", 2, 0);
    let asker = bed.id("h1.0");
    // Up to a root and down to the first leaf.
    let way = [1, 3, 1];
    let mut at = end(&bed, "h1.0", 1);
    for port in &way[1..] {
        let node = bed.graph.peer(at).unwrap().node;
        at = topologies::Endpoint {
            node,
            port: PortNum::new(*port),
        };
    }
    let asked = bed.graph.peer(at).unwrap().node;
    let name = bed.graph.node(asked).name.clone();
    assert_eq!(bed.graph.node(asked).kind, NodeKind::Switch);
    ask(&mut bed, asker, Method::GET, &way, 0x1234);
    bed.run_for(SECOND_NS);
    let told = format!(
        "{name} has refused a Get of NodeInfo with a wrong M_Key, by h1.0, by a directed route"
    );
    assert!(is_warned(&bed, &told), "{:?}", bed.events_reported);
    assert!(bed.received.is_empty());
    ask(&mut bed, asker, Method::GET, &way, KEY);
    bed.run_for(SECOND_NS);
    assert_eq!(bed.received.len(), 1, "with the key it is answered");
}

#[test]
fn a_living_manager_keeps_the_lease_and_the_next_one_takes_back_what_has_expired() {
    let (mut bed, host) = up("star-4", 2, 5);
    let asker = bed.id("h2");
    for _ in 0..20 {
        ask(&mut bed, asker, Method::GET, &[1], 0);
        bed.run_for(SECOND_NS);
    }
    let switch = bed.id("s0");
    assert_eq!(guard(&mut bed, switch).m_key_protect_bits, 2);

    bed.stop(host);
    ask(&mut bed, asker, Method::GET, &[1], 0);
    bed.run_for(6 * SECOND_NS);
    bed.m_key = 0;
    let info = guard(&mut bed, switch);
    assert_eq!(
        (info.m_key_protect_bits, info.m_key),
        (0, KEY),
        "who takes over can read it"
    );
    bed.start(host, protected(2, 5));
    bed.run_until(host, |status| status.phase == Phase::Up);
    bed.m_key = KEY;
    assert_eq!(guard(&mut bed, switch).m_key_protect_bits, 2);
}

#[test]
fn the_key_shows_nowhere() {
    let (mut bed, host) = up("star-4", 1, 0);
    let asker = bed.id("h2");
    ask(&mut bed, asker, Method::SET, &[1], KEY + 1);
    bed.run_for(SECOND_NS);
    assert!(is_warned(&bed, "trap 256"));
    let mut texts = vec![
        format!("{:?}", protected(1, 0)),
        format!("{:?}", bed.status(host)),
    ];
    texts.extend(bed.events_reported.iter().map(|event| format!("{event:?}")));
    for key in [KEY, KEY + 1] {
        let shown = [format!("{key:x}"), format!("{key}")];
        for text in &texts {
            let has = shown
                .iter()
                .any(|shown| text.to_lowercase().contains(shown));
            assert!(!has, "{text}");
        }
    }
}

#[test]
fn subnet_administration_gives_the_key_to_nobody() {
    let (mut bed, host) = up("star-4", 1, 0);
    let asker = bed.id("h2");
    let all = Mad::sa(Method::GET_TABLE, PortInfoRecord::ID, 0, 77);
    let bytes = ask_table(&mut bed, asker, host, &all);
    let records = bytes.chunks(usize::from(PortInfoRecord::ATTRIBUTE_OFFSET) * 8);
    let records: Vec<PortInfoRecord> = records
        .map(|raw| PortInfoRecord::parse(raw).expect("a record").0)
        .collect();
    assert_eq!(records.len(), 5 + 4, "ports of the switch, and of hosts");
    assert!(records.iter().all(|one| one.port_info.m_key == 0));
    assert!(
        records
            .iter()
            .any(|one| one.port_info.m_key_protect_bits == 1)
    );
}

/// A request for all records of that kind, with that SM_Key.
fn with_key<R: SaRecord>(method: Method, sm_key: u64) -> Mad {
    let mut mad = Mad::sa(method, R::ID, 0, 77);
    mad.set_sa_header(&SaHeader {
        sm_key,
        ..SaHeader::default()
    });
    mad
}

fn with_sa_key() -> SmConfig {
    SmConfig {
        sa_key: SaKey::new(MKey::new(KEY).expect("a key")),
        ..SmConfig::default()
    }
}

#[test]
fn tables_of_partitions_are_shown_to_trusted_requests_only() {
    let mut bed = Bed::new(graph("star-4"), 1);
    let host = first_host(&bed.graph);
    let config = with_sa_key();
    assert!(!format!("{config:?}").contains(&KEY.to_string()));
    bed.start(host, config);
    bed.run_until_up(host);
    let asker = bed.id("h2");
    let request = with_key::<PKeyTableRecord>(Method::GET, 0);
    let answer = ask_administration(&mut bed, asker, host, &request);
    assert_eq!(answer.status(), MadStatus::SA_REQUEST_INVALID);
    // A wrong key is not answered (IBA C15-0.1.5).
    for sm_key in [1, KEY + 1] {
        let request = with_key::<PKeyTableRecord>(Method::GET, sm_key);
        assert!(is_ignored(&mut bed, asker, host, &request), "{sm_key:#x}");
        let request = with_key::<SmInfoRecord>(Method::GET_TABLE, sm_key);
        assert!(is_ignored(&mut bed, asker, host, &request), "{sm_key:#x}");
    }
    let request = with_key::<PKeyTableRecord>(Method::GET_TABLE, KEY);
    let bytes = ask_table(&mut bed, asker, host, &request);
    let records = bytes.chunks(usize::from(PKeyTableRecord::ATTRIBUTE_OFFSET) * 8);
    let records: Vec<PKeyTableRecord> = records
        .map(|raw| PKeyTableRecord::parse(raw).unwrap().0)
        .collect();
    assert_eq!(records.len(), 4, "one of each host");
    assert!(records.iter().all(|one| one.table.0[0] == 0xffff));
}

#[test]
fn a_manager_that_has_stood_by_trusts_the_same_key_as_before() {
    let mut bed = Bed::new(graph("star-4"), 1);
    let [low, high, asker] = ["h0", "h1", "h2"].map(|name| bed.id(name));
    bed.start(high, SmConfig::default());
    bed.run_until_up(high);
    let priority = SmConfig::default().priority - 1;
    bed.start(
        low,
        SmConfig {
            priority,
            ..with_sa_key()
        },
    );
    bed.run_until(low, |status| matches!(status.phase, Phase::Standby { .. }));
    bed.stop(high);
    bed.kill(high);
    bed.run_until(low, |status| status.phase == Phase::Up);
    let request = with_key::<PKeyTableRecord>(Method::GET, 1);
    assert!(is_ignored(&mut bed, asker, low, &request));
    let request = with_key::<PKeyTableRecord>(Method::GET, KEY);
    let answer = ask_administration(&mut bed, asker, low, &request);
    assert_ne!(answer.status(), MadStatus::SA_REQUEST_INVALID);
}

#[test]
fn the_sm_key_is_shown_to_trusted_requests_only() {
    let mut bed = Bed::new(graph("star-4"), 1);
    let [host, asker] = ["h0", "h2"].map(|name| bed.id(name));
    let config = SmConfig {
        sm_key: 0x5eed,
        ..with_sa_key()
    };
    bed.start(host, config);
    bed.run_until_up(host);
    for (sa_key, shown) in [(0, 0), (KEY, 0x5eed)] {
        let request = with_key::<SmInfoRecord>(Method::GET, sa_key);
        let answer = ask_administration(&mut bed, asker, host, &request);
        let record: SmInfoRecord = answer.sa_record().unwrap();
        assert_eq!(record.sm_info.sm_key, shown, "{sa_key:#x}");
    }
}

#[test]
fn the_sm_key_of_sm_info_is_shown_to_who_gives_the_m_key() {
    for (protect_bits, stranger) in [(0, Some(1)), (1, Some(0)), (2, None), (3, None)] {
        let (mut bed, host) = up("star-4", protect_bits, 0);
        let asker = bed.id("h2");
        let to = bed.address(host).0;
        for (m_key, shown) in [(KEY, Some(1)), (0, stranger), (KEY + 1, stranger)] {
            let mut mad = Mad::lid_smp(Method::GET, AttributeId::SM_INFO, 0, 5);
            mad.set_m_key(m_key);
            bed.received.clear();
            send(&mut bed, asker, to, &mad);
            bed.run_for(1_000_000);
            let answer = bed
                .received
                .pop()
                .map(|(_, answer)| Mad::from_bytes(*answer.mad));
            let key = answer.map(|answer| answer.smp_attribute::<SmInfo>().unwrap().sm_key);
            assert_eq!(key, shown, "protection {protect_bits}, M_Key {m_key:#x}");
        }
        // Nobody without the key disables it.
        let mut mad = Mad::lid_smp(Method::SET, AttributeId::SM_INFO, 3, 6);
        mad.set_smp_attribute(&SmInfo {
            guid: wire::Guid(9),
            sm_key: 1,
            act_count: 1,
            priority: 15,
            state: SmState::Master,
        });
        bed.received.clear();
        send(&mut bed, asker, to, &mad);
        bed.run_for(1_000_000);
        assert_eq!(bed.received, []);
    }
}

#[test]
fn a_protection_above_three_is_refused() {
    let error = Sm::new(protected(4, 0)).unwrap_err();
    let expected = ConfigError::OutOfRange {
        option: "protect_bits",
        value: 4,
        least: 0,
        most: 3,
    };
    assert_eq!(error, expected);
}
