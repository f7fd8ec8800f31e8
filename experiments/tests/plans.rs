//! Plans: the same bytes whatever the number of threads, interruptions survived, files whole.

#![allow(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use experiments::{ExperimentError, Options, Plan, Results, batch, report, run};

const PLAN: &str = r#"
name = "small"
title = "A small plan"
paper = "MLID04"
topologies = ["fat-tree-4-2"]
schemes = ["slid", "mlid"]
vls = [1]
packet_bytes = 32
loads = [0.03, 0.1]
warmup_ns = 5000
measure_ns = 10000
runs = 2
observations = [1, 2]

[[traffic]]
pattern = "uniform"

[[band]]
scheme = "mlid"
over = "slid"
vls = 1
traffic = "uniform"
min = 0.8
max = 1.3
"#;

fn attempt(out: &Path, threads: usize) -> Result<Results, ExperimentError> {
    let plan = Plan::parse("small.toml", PLAN).unwrap();
    let options = Options {
        quick: false,
        seed: 7,
        threads,
    };
    run(&plan, options, out, &|_, _| {})
}

fn bytes(results: &Results) -> Vec<Vec<u8>> {
    results
        .files
        .iter()
        .map(|file| fs::read(file).unwrap())
        .collect()
}

#[test]
fn plans_that_would_write_the_same_files_are_refused() {
    let out = tempfile::tempdir().unwrap();
    let plan = Plan::parse("small.toml", PLAN).unwrap();
    let options = Options {
        quick: true,
        seed: 7,
        threads: 2,
    };
    let twice = batch(&[plan.clone(), plan], options, out.path(), &|_, _| {});
    assert!(matches!(twice, Err(ExperimentError::SameName(name)) if name == "small"));
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0);
    let index = PLAN.replace("\"small\"", "\"index\"");
    let refused = Plan::parse("index.toml", &index).unwrap_err().to_string();
    assert!(refused.contains("line 2: name"), "{refused}");
}

#[test]
fn the_same_plan_and_seed_give_the_same_bytes_on_any_number_of_threads() {
    let out = tempfile::tempdir().unwrap();
    let first = attempt(&out.path().join("a"), 1).unwrap();
    let second = attempt(&out.path().join("b"), 4).unwrap();
    assert_eq!(first.points, 8);
    assert_eq!(bytes(&first), bytes(&second));
    let band = &first.statements[0];
    assert_eq!(band.holds, Some(true), "{band:?}");
    let [csv, json, html] = &first.files;
    let csv = fs::read_to_string(csv).unwrap();
    assert_eq!(csv.lines().count(), 9);
    let columns = |line: &str| line.split(',').count();
    assert!(csv.lines().all(|line| columns(line) == 20), "{csv}");
    let json: serde_json::Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    assert_eq!(json["points"].as_array().unwrap().len(), 8);
    let html = fs::read_to_string(html).unwrap();
    assert!(html.contains("<svg") && html.contains("pass") && !html.contains("NaN"));
}

#[test]
fn an_interrupted_plan_keeps_the_points_that_were_finished() {
    let out = tempfile::tempdir().unwrap();
    let whole = attempt(&out.path().join("whole"), 1).unwrap();
    // A file where the results go makes the attempt fail after all points are done.
    let broken = out.path().join("broken");
    fs::create_dir_all(broken.join("small.csv")).unwrap();
    let error = attempt(&broken, 2).unwrap_err().to_string();
    assert!(error.contains("small.csv"), "{error}");
    let kept = || {
        let entries = fs::read_dir(&broken).unwrap().filter_map(Result::ok);
        let mut folders =
            entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(".small"));
        folders
            .next()
            .map(|folder| fs::read_dir(folder.path()).unwrap().count())
    };
    assert_eq!(kept(), Some(8));
    fs::remove_dir(broken.join("small.csv")).unwrap();
    let plan = Plan::parse("small.toml", PLAN).unwrap();
    let options = Options {
        quick: false,
        seed: 7,
        threads: 1,
    };
    let calls = AtomicUsize::new(0);
    let progress = |_, total| {
        assert_eq!(total, 8);
        calls.fetch_add(1, Ordering::Relaxed);
    };
    let results = run(&plan, options, &broken, &progress).unwrap();
    assert_eq!(calls.into_inner(), 9, "at the start and for each point");
    assert_eq!(bytes(&results), bytes(&whole));
    assert_eq!(kept(), None, "what is no longer needed goes");
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("file");
    fs::write(&file, "").unwrap();
    let error = attempt(&file.join("inside"), 1).unwrap_err().to_string();
    assert!(error.contains("inside"), "{error}");
}

#[test]
fn the_page_over_all_results_counts_what_holds_and_links_to_each_report() {
    let out = tempfile::tempdir().unwrap();
    let error = report(out.path()).unwrap_err().to_string();
    assert!(error.contains("no results here"), "{error}");
    let results = attempt(out.path(), 2).unwrap();
    let (overviews, page) = report(out.path()).unwrap();
    let count = |holds| {
        results
            .statements
            .iter()
            .filter(|v| v.holds == holds)
            .count()
    };
    assert_eq!(overviews.len(), 1);
    assert_eq!(overviews[0].plan, "small");
    let counts = [Some(true), Some(false), None].map(count);
    assert_eq!(overviews[0].counts, counts);
    assert_eq!(overviews[0].failed.len(), counts[1]);
    let html = fs::read_to_string(page).unwrap();
    assert!(html.contains("href=\"small.html\""), "{html}");
    assert!(
        html.contains("1 plan:") && html.contains("<polyline"),
        "{html}"
    );
    assert!(!html.contains(&results.statements[0].expected), "{html}");
    fs::write(out.path().join("other.json"), "{").unwrap();
    let error = report(out.path()).unwrap_err().to_string();
    assert!(error.contains("other.json"), "{error}");
    // Its links are named after plans.
    let small = fs::read_to_string(&results.files[1]).unwrap();
    let other = small.replacen("\"small\"", "\"javascript:x//\"", 1);
    assert_ne!(other, small);
    fs::write(out.path().join("other.json"), other).unwrap();
    assert!(matches!(
        report(out.path()),
        Err(ExperimentError::Unreadable { .. })
    ));
}

#[test]
fn a_statement_that_does_not_hold_says_why_in_the_report_and_in_the_json() {
    let out = tempfile::tempdir().unwrap();
    let text = PLAN.replace("min = 0.8\nmax = 1.3", "min = 8.0\nmax = 9.0");
    let why = "The band is that of another network.";
    let text = format!(
        "{text}\n[[explain]]\nstatement = \"saturation mlid/slid\"\nwhy = \"{why}\"\n\
         [[paper_points]]\nplot = \"uniform\"\nname = \"mlid\"\npoints = [[0.05, 700.0]]\n"
    );
    let plan = Plan::parse("small.toml", &text).unwrap();
    let options = Options {
        quick: false,
        seed: 7,
        threads: 2,
    };
    let results = run(&plan, options, out.path(), &|_, _| {}).unwrap();
    let failed = &results.statements[0];
    assert_eq!(
        (failed.holds, failed.why.as_deref()),
        (Some(false), Some(why))
    );
    let [_, json, html] = &results.files;
    let json: serde_json::Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    assert_eq!(json["verdicts"][0]["why"], why);
    assert_eq!(json["verdicts"][1].get("why"), None);
    let html = fs::read_to_string(html).unwrap();
    assert!(html.contains(why) && html.contains("<details>"), "{html}");
    assert!(
        html.contains("mlid, MLID04") && html.contains("<td>700</td>"),
        "{html}"
    );
    let (overviews, _) = report(out.path()).unwrap();
    assert_eq!(overviews[0].failed[0].why.as_deref(), Some(why));
    let wrong = format!("{PLAN}\n[[explain]]\nstatement = \"x\"\n");
    let error = Plan::parse("small.toml", &wrong).unwrap_err().to_string();
    assert!(error.contains("why"), "{error}");
}

#[test]
fn an_explanation_of_no_statement_is_an_error_when_the_results_are_written() {
    let out = tempfile::tempdir().unwrap();
    let attempt = |text: &str, quick: bool| {
        let plan = Plan::parse("small.toml", text).unwrap();
        let options = Options {
            quick,
            seed: 7,
            threads: 2,
        };
        run(&plan, options, out.path(), &|_, _| {})
    };
    let explain = "\n[[explain]]\nstatement = \"saturation mlod/slid\"\nwhy = \"Because.\"\n";
    let error = attempt(&format!("{PLAN}{explain}"), false).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("small: [[explain]] \"saturation mlod/slid\""),
        "{text}"
    );
    assert!(out.path().join("small.html").exists());
    // The reduced plan may leave statements of the whole one out, but not explain what it has not.
    let fewer = format!("{PLAN}{explain}\n[quick]\nruns = 1\n");
    attempt(&fewer, true).unwrap();
    let own =
        format!("{PLAN}[quick]\nruns = 1\n[[quick.explain]]\nstatement = \"x1\"\nwhy = \"y\"\n");
    assert!(
        attempt(&own, true)
            .unwrap_err()
            .to_string()
            .contains("\"x1\"")
    );
}

#[test]
fn vls_follow_the_engine_unless_the_plan_says_otherwise() {
    let out = tempfile::tempdir().unwrap();
    let attempt = |change: &[(&str, &str)]| {
        let text = PLAN.split("[[band]]").next().unwrap();
        let mut text = text
            .replace("fat-tree-4-2", "ring-5-2")
            .replace("\"slid\", \"mlid\"", "\"dor\", \"dfsssp\"")
            .replace("vls = [1]", "vls = [2]")
            .replace("[0.03, 0.1]", "[0.2]")
            .replace("observations = [1, 2]", "");
        for (from, to) in change {
            assert!(text.contains(from));
            text = text.replace(from, to);
        }
        let plan = Plan::parse("small.toml", &text).unwrap();
        let options = Options {
            quick: false,
            seed: 7,
            threads: 2,
        };
        run(&plan, options, out.path(), &|_, _| {})
    };
    let found = |results: Results| results.statements[0].clone();
    let by_engine = found(attempt(&[]).unwrap());
    assert_eq!(by_engine.measured, "0 of 4 points", "{by_engine:?}");
    let drawn = [("runs = 2", "runs = 2\nvl_choice = \"random\"")];
    let drawn = found(attempt(&[drawn[0], ("10000", "40000")]).unwrap());
    assert_eq!(drawn.holds, Some(false), "{drawn:?}");
    let refused = attempt(&[("vls = [2]", "vls = [2, 1]")]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "ring-5-2, 1 VLs: dor needs 2 data VLs to be free of deadlock on this fabric, ports have 1"
    );
}

#[test]
fn several_plans_give_what_each_gives_alone_and_one_that_fails_harms_no_other() {
    let out = tempfile::tempdir().unwrap();
    let alone = attempt(&out.path().join("alone"), 1).unwrap();
    let together = out.path().join("together");
    fs::create_dir_all(together.join("broken.csv")).unwrap();
    let plan = |name| {
        let text = PLAN.replace("\"small\"", &format!("\"{name}\""));
        Plan::parse("plan.toml", &text).unwrap()
    };
    let plans = [plan("broken"), plan("small")];
    let options = Options {
        quick: false,
        seed: 7,
        threads: 3,
    };
    let outcomes = batch(&plans, options, &together, &|_, _| {}).unwrap();
    let error = outcomes[0].as_ref().unwrap_err().to_string();
    assert!(error.contains("broken.csv"), "{error}");
    assert_eq!(bytes(outcomes[1].as_ref().unwrap()), bytes(&alone));
}

#[test]
fn a_trace_is_played_under_every_scheme_and_is_told_where_it_is_wrong() {
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("trace.csv");
    let text = "group,two,h0.1 h1.0\n0,h0.0,h3.1,32,0\n0,h0.0,two,32,0\n";
    let plan = |text: &str| {
        fs::write(&file, text).unwrap();
        let plan = format!(
            "kind = \"trace\"\nname = \"played\"\ntitle = \"A trace\"\n\
             topology = \"fat-tree-4-2\"\nfile = {file:?}\nschemes = [\"mlid\", \"slid\"]\n\
             vls = [1]\npacket_bytes = 32\nlimit_ns = 100000\n"
        );
        Plan::parse("plan.toml", &plan)
    };
    let options = Options {
        quick: false,
        seed: 1,
        threads: 2,
    };
    let results = run(&plan(text).unwrap(), options, out.path(), &|_, _| {}).unwrap();
    assert_eq!(results.points, 2);
    assert!(results.statements.iter().all(|v| v.holds == Some(true)));
    let csv = fs::read_to_string(&results.files[0]).unwrap();
    // Three deliveries of two packets. The first one's last byte leaves the leaf's only input
    // buffer 20 + 100 + 128 ns after it was sent; then the second goes, and ends after four
    // cables, three switches and its own length: 4 x 20 + 3 x 100 + 128 ns.
    let line = csv.lines().nth(1).unwrap();
    let fields: Vec<&str> = line.split(',').collect();
    assert_eq!(
        fields[..7],
        ["fat-tree-4-2", "mlid", "1", "2", "3", "3", "0"]
    );
    assert_eq!(fields[10], (248 + 508).to_string(), "{csv}");
    let json = fs::read(&results.files[1]).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(
        json["conditions"]["Host sink"],
        "a host takes each packet out of its input buffer as it comes in"
    );
    // Engines with service levels of their own use them, unless the plan says that the trace's count.
    let ring = "0,h0,h2,32,9\n0,h1,h0,32,3\n";
    let on_ring = |line: &str| {
        fs::write(&file, ring).unwrap();
        let text = format!(
            "kind = \"trace\"\nname = \"ring\"\ntitle = \"A ring\"\ntopology = \"ring-5-1\"\n\
             file = {file:?}\nschemes = [\"dor\"]\nvls = [1]\npacket_bytes = 32\n\
             limit_ns = 100000\n{line}"
        );
        let plan = Plan::parse("ring.toml", &text).unwrap();
        run(&plan, options, out.path(), &|_, _| {})
    };
    let refused = on_ring("").unwrap_err();
    let why = std::error::Error::source(&refused).unwrap().to_string();
    assert!(why.starts_with("dor needs 2 data VLs"), "{refused}: {why}");
    let results = on_ring("vl_choice = \"trace\"\n").unwrap();
    assert!(results.statements.iter().all(|v| v.holds == Some(true)));
    let error = plan(&text.replace("h3.1", "h9.9")).unwrap_err().to_string();
    assert!(error.contains("line 5: file"), "{error}");
    assert!(
        error.contains("trace.csv, line 2") && error.contains("h9.9"),
        "{error}"
    );
    fs::remove_file(&file).unwrap();
}
