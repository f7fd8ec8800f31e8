//! `ibemu sim` as its users meet it: wrong plans, interruptions, full disks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use e2e::{Outcome, ibemu, ibemu_command, within};

/// A few points, each some tenths of a second.
const PLAN: &str = r#"
name = "points"
title = "Some points"
paper = "MLID04"
topologies = ["fat-tree-4-3"]
schemes = ["slid", "mlid"]
vls = [1]
packet_bytes = 32
loads = [0.02, 0.04, 0.06]
warmup_ns = 100000
measure_ns = 100000

[[traffic]]
pattern = "uniform"
"#;

const START: Duration = Duration::from_secs(60);

/// A folder with the plan, changed, in it.
fn with_plan(from: &str, to: &str) -> (tempfile::TempDir, PathBuf) {
    assert!(PLAN.contains(from));
    let folder = tempfile::tempdir().expect("a folder");
    let plan = folder.path().join("plan.toml");
    fs::write(&plan, PLAN.replacen(from, to, 1)).expect("the plan");
    (folder, plan)
}

fn run(plan: &Path, out: &Path) -> Command {
    let mut command = ibemu_command(&["sim", "run"]);
    command.arg(plan).arg("--out").arg(out);
    command
}

#[test]
fn a_wrong_plan_is_refused_with_file_line_and_what_is_allowed() {
    for (from, to, parts) in [
        ("vls", "lanes_of = 3\nvls", &["line 7", "lanes_of"][..]),
        ("[0.02, 0.04, 0.06]", "[-1.0]", &["line 9", "above 0"]),
        ("[0.02, 0.04, 0.06]", "[]", &["line 9", "at least one"]),
        ("[1]", "[3]", &["line 7", "1, 2, 4, 8 or 15"]),
        ("fat-tree-4-3", "fat-tree-7-3", &["line 5", "even"]),
        ("\"slid\", ", "\"slod\", ", &["line 6", "slod"]),
    ] {
        let (folder, plan) = with_plan(from, to);
        let out = folder.path().join("out");
        let outcome = Outcome::of(&mut run(&plan, &out));
        outcome.fails_with(2, "plan.toml");
        for part in parts {
            outcome.fails_with(2, part);
        }
        assert!(!out.exists(), "nothing is made for a plan that cannot be");
    }
}

#[test]
fn a_plan_that_was_killed_goes_on_with_the_points_that_it_has() {
    let (folder, plan) = with_plan("name", "name");
    let [whole, broken] = ["whole", "broken"].map(|name| folder.path().join(name));
    let _ = Outcome::of(&mut run(&plan, &whole)).success();
    let mut command = run(&plan, &broken);
    command.args(["--threads", "1"]).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::null()).spawn().expect("ibemu");
    let kept = || -> Option<Vec<PathBuf>> {
        let folders = fs::read_dir(&broken).ok()?.filter_map(Result::ok);
        let folder = folders
            .map(|entry| entry.path())
            .find(|path| path.is_dir())?;
        let points = fs::read_dir(folder).ok()?.filter_map(Result::ok);
        let points = points.map(|entry| entry.path());
        let mut points: Vec<PathBuf> = points
            .filter(|path| path.extension().is_some_and(|kind| kind == "json"))
            .collect();
        points.sort();
        (!points.is_empty()).then_some(points)
    };
    let point = within(START, "a first point", || kept().ok_or("none".to_owned())).remove(0);
    child.kill().expect("a child of ours");
    child.wait().expect("a child of ours");
    assert!(!broken.join("points.csv").exists(), "killed before its end");
    // What was kept is taken, not run again: a number that no run gives comes through.
    let text = fs::read_to_string(&point).expect("a point");
    let mut value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    value["packets"] = 987_654_321u64.into();
    fs::write(&point, value.to_string()).expect("a point");
    let _ = Outcome::of(&mut run(&plan, &broken)).success();
    let csv = |out: &Path| fs::read_to_string(out.join("points.csv")).expect("results");
    let (whole, broken) = (csv(&whole), csv(&broken));
    assert_eq!(whole.lines().count(), broken.lines().count());
    let differ = |(one, other): &(&str, &str)| one != other;
    let lines = whole.lines().zip(broken.lines()).filter(differ);
    let differing: Vec<_> = lines.collect();
    assert_eq!(differing.len(), 1, "{differing:?}");
    assert!(differing[0].1.contains("987654321"), "{differing:?}");
}

#[test]
fn a_disk_that_is_full_is_told_and_leaves_nothing_half_written() {
    let (folder, plan) = with_plan("name", "name");
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).expect("a folder");
    // 16 KiB hold some points and no report; the mount is gone with its namespace.
    let script = r#"mount -t tmpfs -o size=16k none "$2" || exit 99
        "$0" sim run "$1" --out "$2"; code=$?; ls -A "$2"; exit $code"#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]);
    let outcome = Outcome::of(command.arg(ibemu()).arg(&plan).arg(&disk));
    outcome.fails_with(1, "No space left on device");
    assert_eq!(outcome.stderr.matches("No space").count(), 1, "{outcome}");
    let left = outcome
        .stdout
        .lines()
        .filter(|line| line.starts_with("points"));
    assert_eq!(left.count(), 0, "{outcome}");
    let parts = outcome
        .stdout
        .lines()
        .filter(|line| line.ends_with(".part"));
    assert_eq!(parts.count(), 0, "{outcome}");
}

#[test]
fn a_page_over_results_says_what_holds_and_results_that_are_missing_are_named() {
    let (folder, plan) = with_plan("name", "name");
    let out = folder.path().join("out");
    let report = |folder: &Path| Outcome::of(ibemu_command(&["sim", "report"]).arg(folder));
    report(&out).fails_with(1, "out");
    let _ = Outcome::of(&mut run(&plan, &out)).success();
    let printed = report(&out).success();
    assert!(
        printed.stdout.contains("points: 1 hold, 0 do not"),
        "{printed}"
    );
    assert!(out.join("index.html").exists());
    let again = Outcome::of(&mut run(&plan, &folder.path().join("again"))).success();
    assert!(again.stdout.contains("points: 6 points"), "{again}");
    for kind in ["csv", "json", "html"] {
        let read = |folder: &str| fs::read(Path::new(folder).join(format!("points.{kind}")));
        let one = read(&out.to_string_lossy()).expect("results");
        let other = read(&folder.path().join("again").to_string_lossy()).expect("results");
        assert_eq!(one, other, "{kind}: the same bytes");
    }
}
