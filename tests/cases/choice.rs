//! What `auto` takes stays what it is: over a restart of the controller, and into the next fabric.

use std::collections::BTreeMap;
use std::time::Duration;

use e2e::{Fabric, Transport, within};
use serde_json::Value;

use crate::engines::read_back;

/// No fat tree; `auto` measures it, and takes something else than the engine that a test writes into the file.
const TOPOLOGY: &str = "as-built-4-3-2-0-1";
const HOST: &str = "h0";

/// The controller's status once it is up and has completed more sweeps than `generation`.
fn status(fabric: &Fabric, generation: u64) -> Value {
    within(Duration::from_secs(20), "the controller is up", || {
        let status = fabric.status()["sm"].clone();
        let is_new = status["generation"].as_u64() > Some(generation);
        match status["phase"] == "up" && is_new {
            true => Ok(status),
            false => Err(format!("{status:#}")),
        }
    })
}

fn engine(status: &Value) -> String {
    status["engine"].as_str().expect("an engine").to_owned()
}

fn file(fabric: &Fabric) -> String {
    std::fs::read_to_string(fabric.dir().join("guid2lid")).expect("the file is there")
}

/// LIDs by GUID.
fn lids(file: &str) -> BTreeMap<String, String> {
    let lines = file.lines().filter_map(|line| line.strip_prefix("lid "));
    lines
        .filter_map(|line| line.split_once(' '))
        .map(|(guid, lid)| (guid.to_owned(), lid.to_owned()))
        .collect()
}

#[test]
fn the_choice_of_auto_and_its_tables_outlive_the_controller() {
    let fabric = Fabric::up(Transport::Udp, TOPOLOGY, &[]);
    let before = engine(&status(&fabric, 0));
    assert!(before.contains("against"), "measured: {before}");
    let (kept, routes) = (file(&fabric), read_back(&fabric, HOST));
    let _ = fabric.call(&["restart", "controller"]).success();
    assert_eq!(engine(&status(&fabric, 0)), before);
    assert_eq!(read_back(&fabric, HOST), routes);
    assert_eq!(file(&fabric), kept);
    fabric.all_pairs().expect("every pair answers");
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn a_fabric_that_is_given_the_file_of_an_earlier_one_takes_its_engine_and_lids_without_measuring() {
    let first = Fabric::up(Transport::Udp, TOPOLOGY, &[]);
    let taken = engine(&status(&first, 0));
    let kept = file(&first);
    first.down();
    let line = kept.lines().find(|line| line.starts_with("engine "));
    let line = line.expect("the choice");
    assert!(!taken.starts_with("nue"), "{taken}");
    // A manager that measured again would choose the first one's engine, and give another reason.
    let other = kept.replace(line, "engine nue as it was");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("guid2lid");
    std::fs::write(&path, &other).expect("it is written");
    let path = path.to_str().expect("a path in UTF-8");
    let second = Fabric::up(Transport::Udp, TOPOLOGY, &["--guid2lid", path]);
    assert_eq!(engine(&status(&second, 0)), "nue (as it was)");
    assert_eq!(lids(&file(&second)), lids(&kept));
    second.all_pairs().expect("every pair answers");
    second.assert_no_errors_logged();
    second.down();
}
