use hostd::{ClientId, Command, Event};
use link::{DropReason, PortConfig};
use mad::local::{FromAgent, ToAgent};
use wire::attr::{
    NodeDescription, NodeInfo, Notice, PortInfo, PortPhysState, PortState, Trap144, capability,
};
use wire::mad::{AttributeId, Mad, MadStatus, Method, MgmtClass};
use wire::pma::PortCounters;
use wire::{Format, Lid, PortNum};

use crate::bed::{Bed, CLIENT, lid};
use crate::manage::{bring_up_pair, bring_up_star, set_port};

fn register(bed: &mut Bed, host: usize, client: ClientId, class: u8) -> bool {
    bed.command(
        host,
        Command::Mad {
            client,
            message: ToAgent::Register { class },
        },
    );
    bed.until(|bed| {
        bed.events[host].iter().rev().find_map(|event| match event {
            Event::Mad {
                client: c,
                message:
                    FromAgent::Registered {
                        class: k,
                        registered,
                    },
            } if (*c, *k) == (client, class) => Some(*registered),
            _ => None,
        })
    })
}

#[test]
fn a_directed_route_reaches_the_own_agent_the_switch_and_the_host_behind() {
    let mut bed = Bed::star(2, PortConfig::default());
    for (path, name) in [([].as_slice(), "h0"), (&[1], "s0"), (&[1, 2], "h1")] {
        let id = AttributeId::NODE_DESCRIPTION;
        let answer = bed.directed(Method::GET, id, 0, path, |_| {});
        let description: NodeDescription = answer.smp_attribute().unwrap();
        assert_eq!(description.as_str(), name);
        assert_eq!(
            (answer.hop_pointer(), answer.method()),
            (0, Method::GET_RESP)
        );
        assert_eq!(answer.status().without_direction(), MadStatus::OK);
    }
    let answer = bed.directed(Method::GET, AttributeId::NODE_INFO, 0, &[1, 2], |_| {});
    let info: NodeInfo = answer.smp_attribute().unwrap();
    assert_eq!(info.port_guid.0, info.node_guid.0 + 1);
    assert_eq!(info.local_port_num, PortNum::new(1));
    assert_eq!(answer.return_path()[..3], [0, 1, 1]);
}

#[test]
fn smps_by_lid_reach_any_host_and_the_own_agent() {
    let mut bed = Bed::star(3, PortConfig::default());
    bring_up_star(&mut bed, 3);
    for (to, name) in [(1, "h0"), (3, "h2"), (4, "s0")] {
        let mad = Mad::lid_smp(
            Method::GET,
            AttributeId::NODE_DESCRIPTION,
            0,
            0x1234_0000_0001,
        );
        let answer = bed.exchange(lid(to), &mad);
        let description: NodeDescription = answer.smp_attribute().unwrap();
        assert_eq!(description.as_str(), name);
        assert_eq!(answer.tid(), 0x1234_0000_0001);
    }
}

#[test]
fn performance_counters_are_answered_near_and_far() {
    let mut bed = Bed::star(2, PortConfig::default());
    bring_up_star(&mut bed, 2);
    for to in [1, 2, 3] {
        let mut mad = Mad::pma(Method::GET, AttributeId::PORT_COUNTERS, 0, 5);
        let port_select = PortNum::new(1);
        mad.set_pma_attribute(&PortCounters {
            port_select,
            ..PortCounters::default()
        });
        let answer = bed.exchange(lid(to), &mad);
        assert_eq!(
            (answer.method(), answer.status()),
            (Method::GET_RESP, MadStatus::OK)
        );
        let counters: PortCounters = answer.pma_attribute().unwrap();
        assert_eq!(counters.port_select, port_select);
    }
}

#[test]
fn a_class_has_one_client_which_gets_unsolicited_datagrams() {
    let mut bed = Bed::back_to_back(PortConfig::default());
    bring_up_pair(&mut bed);
    let (first, second) = (ClientId(8), ClientId(9));
    assert!(register(&mut bed, 1, first, 0x03));
    assert!(!register(&mut bed, 1, second, 0x03));
    let mad = {
        let mut mad = Mad::pma(Method::GET, AttributeId::PATH_RECORD, 0, 77);
        mad.as_bytes_mut()[1] = MgmtClass::SUBN_ADM.0;
        mad
    };
    bed.send_mad(0, CLIENT, lid(2), &mad);
    let (message, asked) = bed.until(|bed| bed.receive_mad(1, first));
    assert_eq!((message.lid, asked.class()), (lid(1), MgmtClass::SUBN_ADM));
    let mut answer = asked;
    answer.set_method(Method::GET_RESP);
    bed.send_mad(1, first, message.lid, &answer);
    let (_, got) = bed.until(|bed| bed.receive_mad(0, CLIENT));
    assert_eq!((got.method(), got.tid()), (Method::GET_RESP, 77));

    bed.command(1, Command::MadGone { client: first });
    assert!(
        register(&mut bed, 1, second, 0x03),
        "the class is free again"
    );
}

#[test]
fn a_subnet_manager_shows_in_the_capability_mask_and_the_change_is_a_trap() {
    let mut bed = Bed::back_to_back(PortConfig::default());
    bring_up_pair(&mut bed);
    let manager = ClientId(3);
    assert!(register(&mut bed, 0, manager, 0x01));
    bed.command(
        1,
        Command::Mad {
            client: CLIENT,
            message: ToAgent::SetIsSm(true),
        },
    );
    let (message, trap) = bed.until(|bed| bed.receive_mad(0, manager));
    assert_eq!((message.lid, trap.method()), (lid(2), Method::TRAP));
    let notice: Notice = trap.smp_attribute().unwrap();
    let (change, _) = Trap144::parse(&notice.details).unwrap();
    assert_eq!((notice.trap_number, change.lid), (144, lid(2)));
    assert_ne!(change.capability_mask & capability::IS_SM, 0);

    let (_, again) = bed.until(|bed| bed.receive_mad(0, manager));
    assert_eq!(again, trap, "repeated until it is repressed");
    let mut repress = again;
    repress.set_method(Method::TRAP_REPRESS);
    bed.send_mad(0, manager, lid(2), &repress);
    bed.run(5_000_000_000);
    assert!(bed.receive_mad(0, manager).is_none());

    let answer = bed.directed(Method::GET, AttributeId::PORT_INFO, 0, &[1], |_| {});
    let info: PortInfo = answer.smp_attribute().unwrap();
    assert_ne!(info.capability_mask & capability::IS_SM, 0);
    bed.command(1, Command::MadGone { client: CLIENT });
    let answer = bed.directed(Method::GET, AttributeId::PORT_INFO, 0, &[1], |_| {});
    let info: PortInfo = answer.smp_attribute().unwrap();
    assert_eq!(info.capability_mask & capability::IS_SM, 0);
}

#[test]
fn sm_info_is_for_the_manager_beside_the_host_and_refused_without_one() {
    let mut bed = Bed::back_to_back(PortConfig::default());
    let answer = bed.directed(Method::GET, AttributeId::SM_INFO, 0, &[1], |_| {});
    assert_eq!(
        answer.status().without_direction(),
        MadStatus::BAD_METHOD_ATTRIBUTE
    );
    let manager = ClientId(4);
    assert!(register(&mut bed, 1, manager, 0x81));
    let path = [PortNum::new(1)];
    let mad = Mad::directed_smp(Method::GET, AttributeId::SM_INFO, 0, 9, &path).unwrap();
    bed.send_mad(0, CLIENT, Lid::PERMISSIVE, &mad);
    let (message, mut asked) = bed.until(|bed| bed.receive_mad(1, manager));
    assert_eq!(
        (message.lid, asked.attr_id()),
        (Lid::PERMISSIVE, AttributeId::SM_INFO)
    );
    asked.set_method(Method::GET_RESP);
    asked.set_returning(true);
    bed.send_mad(1, manager, Lid::PERMISSIVE, &asked);
    let (_, got) = bed.until(|bed| bed.receive_mad(0, CLIENT));
    assert_eq!((got.method(), got.tid()), (Method::GET_RESP, 9));
}

#[test]
fn a_host_answers_to_all_its_lids() {
    let mut bed = Bed::back_to_back(PortConfig::default());
    bring_up_pair(&mut bed);
    set_port(&mut bed, &[1], 1, |info| {
        info.lid = lid(8);
        info.lmc = wire::Lmc::constant(2);
    });
    for to in 8..12 {
        let mad = Mad::pma(Method::GET, AttributeId::CLASS_PORT_INFO, 0, to.into());
        bed.send_mad(0, CLIENT, lid(to), &mad);
        let (message, answer) = bed.until(|bed| bed.receive_mad(0, CLIENT));
        assert_eq!(message.lid, lid(to), "from the LID that was asked");
        assert_eq!(answer.status(), MadStatus::OK);
    }
}

#[test]
fn a_directed_route_may_start_at_the_switch_that_a_lid_leads_to() {
    let mut bed = Bed::star(3, PortConfig::default());
    bring_up_star(&mut bed, 3);
    for (path, name) in [
        ([3].as_slice(), "h2"),
        (&[2], "h1"),
        (&[1], "h0"),
        (&[], "s0"),
    ] {
        let path: Vec<PortNum> = path.iter().copied().map(PortNum::new).collect();
        let id = AttributeId::NODE_DESCRIPTION;
        let mut mad = Mad::directed_smp(Method::GET, id, 0, 5, &path).unwrap();
        mad.set_dr_slid(lid(1));
        let answer = bed.exchange(lid(4), &mad);
        let description: NodeDescription = answer.smp_attribute().unwrap();
        assert_eq!((description.as_str(), answer.tid()), (name, 5));
    }
}

#[test]
fn a_port_that_is_told_to_go_down_answers_first_and_comes_up_again() {
    let mut bed = Bed::back_to_back(PortConfig::default());
    bring_up_pair(&mut bed);
    let after = set_port(&mut bed, &[1], 1, |info| info.port_state = PortState::Down);
    assert_eq!(after.lid, lid(2), "the answer has come");
    bed.until(|bed| (bed.at(0).port().state() == link::PortState::Down).then_some(()));
    bed.settle();
    for host in [0, 1] {
        assert_eq!(bed.at(host).port().state(), link::PortState::Init);
    }
    set_port(&mut bed, &[1], 1, |info| {
        info.port_phys_state = PortPhysState::Disabled
    });
    bed.settle();
    assert_eq!(bed.at(1).port().physical(), link::PhysicalState::Disabled);
}

#[test]
fn what_the_shell_had_to_drop_is_counted_with_its_reason() {
    let mut bed = Bed::star(2, PortConfig::default());
    bed.command(0, Command::MadsDropped { count: 3 });
    let drops = &bed.at(0).port().counts().drops;
    assert_eq!(drops[DropReason::ReceiverFull], 3);
}
