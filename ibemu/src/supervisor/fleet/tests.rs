use clap::Parser as _;

use super::*;
use crate::cli::{Cli, Verb};
use crate::process::ProcessRecord;
use crate::supervisor::journal::ProcessHistory;

/// A fleet whose first device was running when the supervisor before ended, and that settles no more.
fn unsettled() -> Fleet {
    let line = ["ibemu", "up", "star-2"];
    let Verb::Up(up) = Cli::try_parse_from(line).unwrap().verb else {
        panic!("not up");
    };
    let dir = FabricDir::at(std::path::Path::new("/run/ibemu/ib")).unwrap();
    let topology = topologies::parse(&up.topology).unwrap();
    let own = ProcessRecord::own().unwrap();
    let state = FabricState::plan(dir.fabric(), &topology.graph, topology.name, &up, own).unwrap();
    let mut history = History::default();
    let process = ProcessHistory {
        process: ProcessRecord::own().unwrap(),
        restarts: 0,
        exit: None,
        running: true,
    };
    history.processes.insert(Target::Device(0), process);
    Fleet::new(dir, state, Journal::nowhere(), &history)
}

fn gone(fleet: &Fleet, target: Target) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_time().build().unwrap();
    runtime.block_on(fleet.gone(target, Duration::from_millis(5)))
}

#[test]
fn a_process_that_does_not_end_is_waited_for_no_longer_than_said_and_named() {
    let fleet = unsettled();
    gone(&fleet, Target::Device(1)).unwrap();
    let why = gone(&fleet, Target::Device(0)).unwrap_err().to_string();
    assert!(why.starts_with(fleet.name(Target::Device(0))), "{why}");
    assert!(why.contains("not notified within 5ms"), "{why}");
    // One that is there still: this process, which nothing has killed.
    let own = ProcessRecord::own().unwrap().id;
    let running = Running {
        pid: own.pid,
        pidfd: Some(Rc::new(Pidfd::open(own.pid).unwrap())),
        child: None,
    };
    let mut members = fleet.members.borrow_mut();
    members.get_mut(&Target::Device(0)).unwrap().running = Some(running);
    drop(members);
    let why = gone(&fleet, Target::Device(0)).unwrap_err().to_string();
    assert!(why.contains(&format!("holds process {}", own.pid)), "{why}");
}
