use controller::SmConfig;
use controller::control::Phase;
use wire::attr::{SmInfo, SmState};
use wire::mad::{AttributeId, Mad, MadStatus, Method};
use wire::{Lid, PortNum, Qpn, Sl};

use crate::bed::Bed;
use crate::{assert_connected, assert_programmed, end, graph, offline, up};

fn with_priority(priority: u8) -> SmConfig {
    SmConfig {
        priority,
        ..SmConfig::default()
    }
}

#[test]
fn of_two_managers_the_one_of_higher_priority_is_master_and_the_other_takes_over() {
    let mut bed = Bed::new(graph("fat-tree-4-2"), 1);
    let (low, high) = (bed.id("h0.0"), bed.id("h3.1"));
    bed.start(low, with_priority(3));
    bed.start(high, with_priority(9));
    bed.run_until(high, |status| status.phase == Phase::Up);
    let master = bed.graph.node(high).guid.0 + 1;
    let status = bed.run_until(low, |status| matches!(status.phase, Phase::Standby { .. }));
    assert_eq!(
        status.phase,
        Phase::Standby {
            master: wire::Guid(master)
        }
    );
    assert!(
        status.warnings[0].contains("standing by"),
        "{:?}",
        status.warnings
    );
    assert_programmed(&bed, &offline(&bed.graph));
    bed.run_for(20_000_000_000);
    assert_eq!(bed.status(high).phase, Phase::Up);
    assert!(matches!(bed.status(low).phase, Phase::Standby { .. }));

    bed.stop(high);
    bed.kill(high);
    bed.run_until(low, |status| status.phase == Phase::Up);
    let rest: Vec<_> = bed.graph.hosts().filter(|&id| id != high).collect();
    assert_connected(&bed, &rest);
}

#[test]
fn a_better_manager_that_comes_later_takes_the_subnet_over() {
    let mut bed = Bed::new(graph("fat-tree-4-2"), 1);
    let (low, high) = (bed.id("h0.0"), bed.id("h3.1"));
    bed.start(low, with_priority(3));
    bed.run_until_up(low);
    bed.start(high, with_priority(9));
    bed.run_until(high, |status| status.phase == Phase::Up);
    bed.run_until(low, |status| matches!(status.phase, Phase::Standby { .. }));
    bed.run_for(20_000_000_000);
    assert_eq!(bed.status(high).phase, Phase::Up);
}

#[test]
fn an_sminfo_request_is_answered_by_lid_and_by_directed_route() {
    let (mut bed, host) = up("fat-tree-4-2");
    let asker = bed.id("h1.0");
    let (lid, _) = bed.address(host);
    let lid_routed = Mad::lid_smp(Method::GET, AttributeId::SM_INFO, 0, 5);
    let route = [1, 3, 1, 1].map(PortNum::new);
    // From h1.0 up to a root, and down to the leaf and first host of the other half.
    assert_eq!(
        bed.graph.peer(end(&bed, "h1.0", 1)).unwrap().node,
        bed.id("s1.1")
    );
    let directed = Mad::directed_smp(Method::GET, AttributeId::SM_INFO, 0, 6, &route).unwrap();
    for (mad, to) in [(lid_routed, lid), (directed, Lid::PERMISSIVE)] {
        bed.write(
            asker,
            &mad::local::MadMessage {
                lid: to,
                qpn: Qpn::SMI,
                sl: Sl::default(),
                mad: Box::new(*mad.as_bytes()),
            },
        );
        bed.run_for(1_000_000);
        let (_, answer) = bed.received.pop().expect("an answer has come");
        let answer = Mad::from_bytes(*answer.mad);
        assert_eq!(answer.tid(), mad.tid());
        assert_eq!(answer.status().without_direction(), MadStatus::OK);
        let info: SmInfo = answer.smp_attribute().unwrap();
        assert_eq!((info.state, info.priority), (SmState::Master, 8));
        assert_eq!(info.guid.0, bed.graph.node(host).guid.0 + 1);
    }
}
