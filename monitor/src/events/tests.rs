//! A listener without IO, notices in words, changes between snapshots, and a reader that is too slow.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use controller::control::{Happening, LogEntry};
use link::Time;
use mad::local::MadMessage;
use proptest::prelude::*;
use tokio::sync::mpsc;
use wire::attr::{Notice, PortInfo, Trap144, Trap256, Trap257, Trap259, TrapGid, TrapPort, trap};
use wire::mad::MadStatus;
use wire::sa::InformInfo;
use wire::{AttributeId, Format as _, Gid, Guid, Lid, Mad, Method, PortNum, Qpn, Sl};

use super::changes::between;
use super::controllers;
use super::event::{Event, Kind};
use super::listener::{Deaf, Learned, Listener, Output};
use super::names::Names;
use super::notice;
use super::queue::Queue;
use crate::model::{
    Device, DeviceFacts, Fabric, Node, NodeKind, PhysicalState, Port, PortState, ProcessFacts,
    Snapshot,
};

const OWN: Lid = Lid::new(7);
const MANAGER: Lid = Lid::new(3);
const SECOND: u64 = 1_000_000_000;

/// A look at the own port, answered.
fn look(listener: &mut Listener, now: Time, manager: Lid) -> Result<Option<Learned>, Deaf> {
    let Ok(Some(Output::Look(mut mad))) = listener.poll(now) else {
        panic!("a look is due");
    };
    mad.set_method(Method::GET_RESP);
    mad.set_smp_attribute(&PortInfo {
        lid: OWN,
        master_sm_lid: manager,
        ..PortInfo::default()
    });
    listener.answered(now, &mad)
}

/// The request that is due.
fn request(listener: &mut Listener, now: Time) -> (Lid, Mad, InformInfo) {
    let Ok(Some(Output::Ask(lid, mad))) = listener.poll(now) else {
        panic!("a request is due");
    };
    assert_eq!(
        (mad.method(), mad.attr_id()),
        (Method::SET, AttributeId::INFORM_INFO)
    );
    (lid, mad, mad.sa_record().expect("InformInfo"))
}

fn answer(
    listener: &mut Listener,
    now: Time,
    request: &Mad,
    status: MadStatus,
) -> Result<Option<Learned>, Deaf> {
    let mut mad = *request;
    mad.set_method(Method::GET_RESP);
    mad.set_status(status);
    listener.answered(now, &mad)
}

/// A listener that has subscribed at second 0.
fn subscribed() -> Listener {
    let mut listener = Listener::new(Time(0), 1);
    let learned = look(&mut listener, Time(0), MANAGER);
    assert_eq!(learned, Ok(Some(Learned::Manager(MANAGER))));
    let (to, mad, info) = request(&mut listener, Time(0));
    assert_eq!(to, MANAGER);
    assert!(info.subscribe && info.is_generic);
    assert_eq!(info.trap_number, InformInfo::ANY);
    let learned = answer(&mut listener, Time(0), &mad, MadStatus::OK);
    assert_eq!(learned, Ok(Some(Learned::Subscribed)));
    assert_eq!(listener.poll(Time(0)), Ok(None));
    listener
}

fn report(from: Lid, tid: u64, notice: &Notice) -> MadMessage {
    let mut mad = Mad::sa(Method::REPORT, AttributeId::NOTICE, 0, tid);
    notice.emit(mad.sa_data_mut());
    MadMessage {
        lid: from,
        qpn: Qpn::GSI,
        sl: Sl::default(),
        mad: Box::new(*mad.as_bytes()),
        way: None,
    }
}

#[test]
fn a_subscription_is_renewed_and_ended_with_what_it_began_with() {
    let mut listener = subscribed();
    for second in 1..5 {
        let learned = look(&mut listener, Time(second * SECOND), MANAGER);
        assert_eq!(learned, Ok(None));
        assert_eq!(listener.poll(Time(second * SECOND)), Ok(None));
    }
    let _ = look(&mut listener, Time(5 * SECOND), MANAGER);
    let (_, mad, first) = request(&mut listener, Time(5 * SECOND));
    let renewed = answer(&mut listener, Time(5 * SECOND), &mad, MadStatus::OK);
    assert_eq!(renewed, Ok(None), "it stood already");
    listener.end(Time(6 * SECOND));
    assert!(!listener.is_over());
    let (_, mad, last) = request(&mut listener, Time(6 * SECOND));
    let ended = InformInfo {
        subscribe: false,
        ..first
    };
    assert_eq!(last, ended);
    let _ = answer(&mut listener, Time(6 * SECOND), &mad, MadStatus::OK);
    assert!(listener.is_over());
}

#[test]
fn a_manager_that_is_gone_does_not_hold_the_end_up_for_more_than_a_second() {
    let mut listener = subscribed();
    listener.end(Time(0));
    let mut now = Time(0);
    while !listener.is_over() {
        let _ = listener.poll(now);
        now = listener.deadline().max(now);
        assert!(now <= Time(SECOND), "{now:?}");
        if listener.poll(now).is_ok_and(|output| output.is_none()) && listener.is_over() {
            break;
        }
    }
}

#[test]
fn another_manager_is_subscribed_at_and_its_reports_are_taken() {
    let mut listener = subscribed();
    let other = Lid::new(9);
    let learned = look(&mut listener, Time(SECOND), other);
    assert_eq!(learned, Ok(Some(Learned::Manager(other))));
    assert_eq!(request(&mut listener, Time(SECOND)).0, other);
    let notice = Notice::link_state_change(Lid::new(2));
    assert_eq!(
        listener.reported(Time(SECOND), &report(MANAGER, 1, &notice)),
        None
    );
    assert_eq!(listener.strange, 1, "the old one's are not");
    let taken = listener.reported(Time(SECOND), &report(other, 1, &notice));
    assert!(taken.is_some_and(|(_, told)| told == Some(notice)));
}

#[test]
fn refusal_silence_and_the_lack_of_a_manager_are_told_apart() {
    let mut listener = Listener::new(Time(0), 1);
    assert_eq!(
        look(&mut listener, Time(0), Lid::ZERO),
        Err(Deaf::NoManager)
    );

    let mut listener = Listener::new(Time(0), 1);
    let _ = look(&mut listener, Time(0), MANAGER);
    let (_, mad, _) = request(&mut listener, Time(0));
    let busy = answer(&mut listener, Time(0), &mad, MadStatus::BUSY);
    assert_eq!(busy, Ok(None), "it is asked again");
    let (_, mad, _) = request(&mut listener, Time(SECOND / 2));
    let status = MadStatus::SA_NO_RESOURCES;
    let refused = answer(&mut listener, Time(SECOND / 2), &mad, status);
    let refused = refused.expect_err("a refusal").to_string();
    assert!(refused.contains("as many subscriptions"), "{refused}");

    let mut listener = Listener::new(Time(0), 1);
    let _ = look(&mut listener, Time(0), MANAGER);
    let silent = (0..100).find_map(|half| {
        let now = Time(half * SECOND / 2);
        match listener.poll(now) {
            Ok(Some(Output::Look(mut mad))) => {
                mad.set_method(Method::GET_RESP);
                mad.set_smp_attribute(&PortInfo {
                    lid: OWN,
                    master_sm_lid: MANAGER,
                    ..PortInfo::default()
                });
                let _ = listener.answered(now, &mad);
                listener.poll(now).err()
            }
            other => other.err(),
        }
    });
    assert_eq!(silent, Some(Deaf::Silent { lid: MANAGER }));

    let mut listener = Listener::new(Time(0), 1);
    let silent = (0..10).find_map(|second| listener.poll(Time(second * SECOND)).err());
    assert_eq!(silent, Some(Deaf::HostSilent));
}

#[test]
fn a_report_is_answered_each_time_and_told_once() {
    let mut listener = subscribed();
    let notice = Notice::link_state_change(Lid::new(2));
    let (first, told) = listener
        .reported(Time(1), &report(MANAGER, 5, &notice))
        .expect("a report");
    assert_eq!(told, Some(notice));
    assert_eq!((first.method(), first.tid()), (Method::REPORT_RESP, 5));
    let (again, told) = listener
        .reported(Time(2), &report(MANAGER, 5, &notice))
        .expect("a report");
    assert_eq!((again, told), (first, None));
    let (_, told) = listener
        .reported(Time(3), &report(MANAGER, 6, &notice))
        .expect("a report");
    assert_eq!(told, Some(notice), "the same has happened again");
}

#[test]
fn a_gid_that_the_host_itself_has_subscribed_to_is_told_once() {
    let mut listener = subscribed();
    let mut notice = Notice::link_state_change(Lid::new(2));
    notice.trap_number = trap::GID_OUT_OF_SERVICE;
    let mut told = |at: u64, tid, notice: &Notice| {
        let report = report(MANAGER, tid, notice);
        listener.reported(Time(at), &report).expect("a report").1
    };
    assert!(told(0, 1, &notice).is_some());
    assert!(told(1000, 2, &notice).is_none());
    notice.trap_number = trap::GID_IN_SERVICE;
    assert!(told(2000, 3, &notice).is_some());
    assert!(told(SECOND, 4, &notice).is_some(), "later it is another");
}

proptest! {
    #[test]
    fn whatever_is_reported_nothing_panics_and_memory_is_bounded(
        bytes in proptest::collection::vec(any::<u8>(), 256),
        method in prop_oneof![Just(0x06u8), any::<u8>()],
        class in prop_oneof![Just(0x03u8), Just(0x81), any::<u8>()],
        lid in prop_oneof![Just(MANAGER.get()), any::<u16>()],
        is_generic in any::<bool>(),
        number in prop_oneof![64u16..=67, 128u16..=131, 144u16..=145, 256u16..=259, any::<u16>()],
    ) {
        let mut raw = [0; 256];
        raw.copy_from_slice(&bytes);
        (raw[1], raw[2], raw[3]) = (class, 2, method);
        raw[16..18].copy_from_slice(&AttributeId::NOTICE.0.to_be_bytes());
        let data = 56;
        raw[data] = u8::from(is_generic) << 7 | raw[data] & 0x7f;
        raw[data + 4..data + 6].copy_from_slice(&number.to_be_bytes());
        let message = MadMessage {
            lid: Lid::new(lid),
            qpn: Qpn::GSI,
            sl: Sl::default(),
            mad: Box::new(raw),
            way: None,
        };
        let mut listener = subscribed();
        if let Some((_, Some(heard))) = listener.reported(Time(1), &message) {
            prop_assert_eq!(heard.trap_number, number);
            let mut names = Names::default();
            names.learn(&fabric());
            let event = notice::event(&heard, &names);
            prop_assert_eq!(event.kind, Kind::Trap);
            prop_assert!(event.text.len() < 400 && event.fields.len() < 16);
        }
        let _ = listener.answered(Time(2), &Mad::from_bytes(raw));
    }
}

/// A switch `s0` with LID 2 and a host `h1` with LIDs 8 to 11 at its port 1.
fn fabric() -> Fabric {
    let node = |name: &str, kind, guid, lid, first_port, port_count| Node {
        guid,
        system_image_guid: guid,
        name: name.to_owned(),
        kind,
        vendor_id: 0,
        device_id: 0,
        revision: 0,
        lid,
        is_present: true,
        first_port,
        port_count,
    };
    let port = |node, number, guid, lid, lmc, peer| Port {
        node,
        number,
        guid,
        lid,
        lmc,
        state: PortState::Active,
        physical_state: PhysicalState::LinkUp,
        width: None,
        speed: None,
        mtu: 0,
        vls: 1,
        peer,
    };
    Fabric {
        generation: 1,
        nodes: vec![
            node("s0", NodeKind::Switch, 0x10, 2, 0, 2),
            node("h1", NodeKind::Host, 0x20, 8, 2, 1),
        ],
        ports: vec![
            port(0, 0, 0x10, 2, 0, None),
            port(0, 1, 0x10, 2, 0, Some(2)),
            port(1, 1, 0x21, 8, 2, Some(1)),
        ],
    }
}

fn told(number: u16, issuer: u16, details: &impl wire::Format) -> Event {
    let mut names = Names::default();
    names.learn(&fabric());
    let mut notice = Notice::link_state_change(Lid::new(issuer));
    notice.trap_number = number;
    notice.details = [0; 54];
    details.emit(&mut notice.details);
    notice::event(&notice, &names)
}

#[test]
fn notices_are_told_with_the_names_of_devices_and_ports() {
    let gid = Gid::new(Gid::DEFAULT_PREFIX, Guid(0x21));
    let event = told(trap::GID_OUT_OF_SERVICE, 3, &TrapGid { gid });
    assert_eq!(event.text, "h1 is out of service (trap 65)");
    assert_eq!((event.device.as_deref(), event.port), (Some("h1"), Some(1)));
    assert_eq!(event.fields["gid"], "fe80::21");

    let unknown = Gid::new(Gid::DEFAULT_PREFIX, Guid(0x99));
    let event = told(trap::GID_IN_SERVICE, 3, &TrapGid { gid: unknown });
    assert_eq!(event.text, "GID fe80::99 is in service (trap 64)");
    assert_eq!(event.device, None);

    let lid = wire::attr::TrapLid { lid: Lid::new(2) };
    let event = told(trap::LINK_STATE_CHANGE, 2, &lid);
    assert_eq!(event.text, "a link of s0 has changed its state (trap 128)");
    assert_eq!(event.fields["name"], "link state change");
    assert_eq!((event.device.as_deref(), event.port), (Some("s0"), None));

    let at = TrapPort {
        lid: Lid::new(2),
        port: PortNum::new(4),
    };
    let event = told(trap::BUFFER_OVERRUN, 2, &at);
    assert_eq!(
        event.text,
        "port 4 of s0: excessive buffer overrun threshold reached (trap 130)"
    );
    assert_eq!(event.port, Some(4));

    let change = Trap144 {
        lid: Lid::new(9),
        other_local_changes: true,
        capability_mask: 2,
        change_flags: Trap144::NODE_DESCRIPTION_CHANGE,
    };
    let event = told(trap::CAPABILITY_CHANGE, 9, &change);
    assert_eq!(event.text, "h1 has changed its node description (trap 144)");

    let event = told(300, 12, &lid);
    assert_eq!(
        event.text, "LID 12 reports trap 300",
        "h1 has four LIDs only"
    );
}

#[test]
fn notices_of_wrong_keys_name_who_has_sent_what_and_no_key() {
    let request = Trap256 {
        lid: Lid::new(8),
        method: Method::SET,
        attr_id: AttributeId::PORT_INFO,
        attr_mod: 0,
        m_key: 0x5ec2_e700_0000_0001,
        route: None,
    };
    let event = told(trap::BAD_M_KEY, 2, &request);
    assert!(
        event.text.starts_with("s0 has refused a request"),
        "{}",
        event.text
    );
    assert!(event.text.contains("from h1"), "{}", event.text);
    let json = serde_json::to_string(&event).expect("JSON");
    assert!(!json.contains("5ec2"), "{json}");

    let packet = Trap257 {
        slid: Lid::new(8),
        key: 0x1234_5678,
        ..Trap257::default()
    };
    let event = told(trap::BAD_Q_KEY, 2, &packet);
    assert!(event.text.contains("wrong Q_Key"), "{}", event.text);
    let json = serde_json::to_string(&event).expect("JSON");
    assert!(!json.contains("305419896"), "{json}");

    let packet = Trap259 {
        slid: Lid::new(8),
        dlid: Lid::new(2),
        p_key: 0x7fff,
        port: PortNum::new(1),
        ..Trap259::default()
    };
    let event = told(trap::BAD_P_KEY_SWITCH, 2, &packet);
    assert_eq!(
        event.text,
        "port 1 of s0 has stopped a packet from h1 to s0 with P_Key 0x7fff (trap 259)"
    );
}

fn snapshot(fabric: Fabric) -> Snapshot {
    Snapshot {
        sequence: 1,
        at_ms: 1000,
        fabric: Arc::new(fabric),
        ..Snapshot::default()
    }
}

fn texts(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.text.as_str()).collect()
}

#[test]
fn a_host_that_leaves_and_its_cable_are_told_and_so_is_their_return() {
    let before = snapshot(fabric());
    let mut gone = fabric();
    gone.generation = 2;
    gone.nodes[1].is_present = false;
    for port in &mut gone.ports[1..] {
        port.state = PortState::Down;
        port.peer = None;
    }
    let after = snapshot(gone);
    let events = between(&before, &after);
    assert_eq!(
        texts(&events),
        [
            "h1 has left the subnet",
            "the cable s0:1 - h1:1 is down, was active"
        ]
    );
    assert_eq!(events[1].device.as_deref(), Some("s0"));
    assert_eq!((events[1].port, events[1].at_ms), (Some(1), 1000));
    let events = between(&after, &before);
    assert_eq!(
        texts(&events),
        [
            "h1 is in the subnet",
            "the cable s0:1 - h1:1 is active, was down"
        ]
    );
    assert_eq!(between(&Snapshot::default(), &before), []);
}

#[test]
fn drops_are_told_by_reason_as_they_are_counted_also_after_a_restart() {
    let facts = |at_ms, no_route| {
        let reasons = BTreeMap::from([("no_route".to_owned(), no_route)]);
        let device = Device {
            at_ms,
            lanes: BTreeMap::new(),
            drops: BTreeMap::from([(1, reasons)]),
        };
        Snapshot {
            devices: vec![DeviceFacts(Arc::new(device))].into(),
            ..snapshot(fabric())
        }
    };
    let text = |before: &Snapshot, after: &Snapshot| {
        let events = between(before, after);
        events.into_iter().map(|event| event.text).next()
    };
    let told = "port 1 of s0 has dropped packets: 5 no_route";
    assert_eq!(text(&facts(1, 10), &facts(2, 15)).as_deref(), Some(told));
    assert_eq!(text(&facts(1, 10), &facts(2, 5)).as_deref(), Some(told));
    assert_eq!(text(&facts(1, 10), &facts(2, 10)), None);
    assert_eq!(text(&facts(0, 0), &facts(2, 10)), None, "never asked");
}

#[test]
fn processes_that_end_and_begin_are_told() {
    let with = |pid, restarts| Snapshot {
        processes: vec![ProcessFacts {
            name: "h1".to_owned(),
            role: "host".to_owned(),
            pid,
            restarts,
            ..ProcessFacts::default()
        }]
        .into(),
        ..Snapshot::default()
    };
    let (runs, ended, again) = (with(Some(10), 0), with(None, 0), with(Some(12), 1));
    let told = |before, after| {
        let events = between(before, after);
        events.into_iter().map(|event| event.text).next()
    };
    assert_eq!(
        told(&runs, &ended).as_deref(),
        Some("h1 does not run any more")
    );
    assert_eq!(told(&ended, &again).as_deref(), Some("h1 runs, process 12"));
    assert_eq!(
        told(&runs, &again).as_deref(),
        Some("h1 was started again, process 12 after 10")
    );
    assert_eq!(told(&Snapshot::default(), &runs), None);
}

#[test]
fn what_a_controller_has_logged_is_told_with_the_moment_at_which_it_was() {
    let told = |what| {
        let entry = LogEntry {
            number: 1,
            age_ns: 3_000_000_000,
            what,
        };
        controllers::event("controller2", &entry)
    };
    let begun = told(Happening::SweepBegun {
        cause: "trap 128 of s0".to_owned(),
    });
    assert_eq!(begun.text, "a sweep begins: trap 128 of s0");
    assert_eq!(begun.fields["controller"], "controller2");
    let age_ms = crate::wall::now_ms() - begun.at_ms;
    assert!((3000..63_000).contains(&age_ms), "{age_ms}");
    let ended = told(Happening::SweepEnded {
        generation: 4,
        duration_ns: 12_340_000,
        switches: 6,
        hosts: 8,
        links: 15,
        is_degraded: true,
    });
    assert_eq!(
        ended.text,
        "a sweep has ended after 12.3 ms: 6 switches, 8 hosts, 15 cables; something is missing"
    );
    let routed = told(Happening::Routed {
        engine: "updn".to_owned(),
        before: Some("mlid".to_owned()),
        blocks: 3,
    });
    assert_eq!(
        routed.text,
        "routed by updn, was mlid; 3 blocks of tables written"
    );
}

#[test]
fn a_slow_reader_is_told_how_many_events_it_has_lost() {
    let (sender, mut receiver) = mpsc::channel(3);
    let lost = Arc::new(AtomicU64::new(0));
    let queue = Queue::new(sender, Arc::clone(&lost));
    let event = |text: &str| Event::new(Kind::Trap, text);
    for text in ["1", "2", "3", "4", "5"] {
        queue.push(event(text));
    }
    assert_eq!(lost.load(Ordering::Relaxed), 2);
    let mut read = Vec::new();
    while let Ok(event) = receiver.try_recv() {
        read.push(event.text);
    }
    assert_eq!(read, ["1", "2", "3"]);
    queue.push(event("6"));
    queue.push(event("7"));
    let told = receiver.try_recv().expect("an event");
    assert_eq!((told.kind, &told.fields["count"]), (Kind::Lost, &2.into()));
    assert_eq!(receiver.try_recv().expect("an event").text, "6");
    assert_eq!(receiver.try_recv().expect("an event").text, "7");
}
