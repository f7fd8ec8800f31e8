use super::*;
use crate::cli::{Cli, Verb};
use crate::drops::tests::port;
use crate::process::ProcessRecord;
use clap::Parser;

fn star() -> FabricState {
    let cli = Cli::try_parse_from(["ibemu", "up", "star-2"]).unwrap();
    let Verb::Up(up) = cli.verb else {
        panic!("not up");
    };
    let topology = topologies::parse(&up.topology).unwrap();
    let own = ProcessRecord::own().unwrap();
    FabricState::plan(&cli.fabric, &topology.graph, topology.name, &up, own).unwrap()
}

fn device(pid: u32, ports: Vec<PortStatus>) -> Option<DeviceCounts> {
    Some(DeviceCounts { pid, ports })
}

/// By position: the counts of host h0, of the switch's two ports, and of host h1.
fn snapshot(
    state: &FabricState,
    h0: &[(&str, u64)],
    s0: [&[(&str, u64)]; 2],
    h1: &[(&str, u64)],
) -> Snapshot {
    let mut all: Snapshot = vec![None; state.nodes.len()];
    all[state.find("h0").unwrap()] = device(1, vec![port(1, h0)]);
    all[state.find("h1").unwrap()] = device(2, vec![port(1, h1)]);
    let ports = vec![port(0, &[]), port(1, s0[0]), port(2, s0[1])];
    all[state.find("s0").unwrap()] = device(3, ports);
    all
}

#[test]
fn what_was_sent_is_delivered_dropped_or_waits_and_each_has_its_place() {
    let state = star();
    let before = snapshot(
        &state,
        &[("sent.data", 100), ("queued.data", 2)],
        [&[("dropped.data.no-route", 5), ("drop.no-route", 5)], &[]],
        &[("delivered.data", 93)],
    );
    let after = snapshot(
        &state,
        &[("sent.data", 200), ("delivered.report", 1)],
        [
            &[("dropped.data.no-route", 5), ("drop.no-route", 7)],
            &[
                ("dropped.data.link-down", 10),
                ("drop.link-down", 11),
                ("queued.data", 4),
            ],
        ],
        &[("delivered.data", 181), ("sent.report", 1)],
    );
    let found = account(&Layout::of(&state), &before, &after);
    let data = &found.kinds["data"];
    assert_eq!((data.sent, data.delivered), (100, 88));
    assert_eq!(data.dropped, [("link-down".to_owned(), 10)].into());
    assert_eq!((data.under_way, data.unaccounted), (4, 0));
    let report = &found.kinds["report"];
    assert_eq!((report.sent, report.delivered), (1, 1));
    let place = |at: &AtPort| (at.device.clone(), at.port, at.packets);
    assert_eq!(place(&found.drops[0]), ("s0".to_owned(), 2, 10));
    assert_eq!(place(&found.under_way[0]), ("s0".to_owned(), 2, 4));
    assert!(!found.is_complete(), "packets are under way");
    let other = [("link-down".to_owned(), 1), ("no-route".to_owned(), 2)];
    assert_eq!(found.other_drops(), other.into(), "management");
    assert_eq!(found.on_cables, [], "nothing is missing");
}

#[test]
fn what_is_missing_is_looked_for_on_cables() {
    let state = star();
    let before = snapshot(&state, &[], [&[], &[]], &[]);
    let after = snapshot(
        &state,
        &[("sent.data", 10), ("PortXmitPkts", 12)],
        [
            &[
                ("PortRcvPkts", 9),
                ("RcvRefusedPkts", 1),
                ("PortXmitPkts", 3),
            ],
            &[("PortXmitPkts", 9)],
        ],
        &[("delivered.data", 8), ("PortRcvPkts", 9)],
    );
    let found = account(&Layout::of(&state), &before, &after);
    assert_eq!(found.kinds["data"].unaccounted, 2);
    let [cable, back] = found.on_cables.as_slice() else {
        panic!("{found:?}");
    };
    let way = |cable: &OnCable| format!("{} {} {}", cable.from, cable.to, cable.packets);
    assert_eq!(way(cable), "h0:1 s0:1 2");
    assert_eq!(way(back), "s0:1 h0:1 3");
}

#[test]
fn a_process_that_was_restarted_or_is_silent_is_named() {
    let state = star();
    let before = snapshot(&state, &[("sent.data", 90)], [&[], &[]], &[]);
    let mut after = snapshot(&state, &[("sent.data", 20)], [&[], &[]], &[]);
    let (h0, h1) = (state.find("h0").unwrap(), state.find("h1").unwrap());
    after[h0].as_mut().unwrap().pid = 77;
    after[h1] = None;
    let found = account(&Layout::of(&state), &before, &after);
    assert_eq!(found.restarted, ["h0"]);
    assert_eq!(found.silent, ["h1"]);
    assert_eq!(found.kinds["data"].sent, 20, "since it runs");
    assert_eq!(found.kinds["data"].unaccounted, 20);
}
