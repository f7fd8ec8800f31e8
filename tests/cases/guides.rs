//! Commands of the guides, as their readers give them: what a page says, works.

use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::{Outcome, ibemu};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The commands of a page: its blocks of this language, one after the other.
fn blocks(page: &str, language: &str) -> String {
    let opening = format!("```{language}");
    let mut within = false;
    let mut text = String::new();
    for line in page.lines() {
        match line {
            "```" => within = false,
            line if line == opening => within = true,
            line if within => text += &format!("{line}\n"),
            _ => {}
        }
    }
    text
}

/// Runs a script of bash to its end or its first failure, in namespaces of its own, with ibemu on PATH: fabrics of a page have
/// the name that `up` gives them.
fn run(script: &str, folder: &Path, variables: &[(&str, &str)]) -> Outcome {
    let binaries = ibemu().parent().expect("a folder").to_owned();
    let path = std::env::var("PATH").expect("PATH");
    let prepared = "mount -t proc proc /proc; mount -t tmpfs tmpfs /run; ip link set lo up; exec bash -euc \"$1\"";
    Outcome::of(
        Command::new("unshare")
            .args([
                "--mount",
                "--net",
                "--pid",
                "--fork",
                "--kill-child",
                "bash",
                "-ec",
                prepared,
                "bash",
            ])
            .arg(script)
            .current_dir(folder)
            .env("PATH", format!("{}:{path}", binaries.display()))
            .envs(variables.iter().copied()),
    )
}

#[track_caller]
fn works(name: &str) {
    let path = root().join("docs/guides").join(name);
    let page = std::fs::read_to_string(&path).expect("a guide");
    let script = blocks(&page, "sh");
    assert!(
        script.contains("ibemu down") || !script.contains("ibemu up"),
        "{name} leaves its fabric"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let _ = run(&script, folder.path(), &[]).success();
}

#[test]
fn an_administrator_tries_her_cluster_under_her_opensm() {
    works("administrator.md");
}

#[test]
fn an_author_tries_an_exporter_of_counters() {
    works("exporter.md");
}

#[test]
fn a_researcher_tries_tables_of_an_engine() {
    works("researcher.md");
}

#[test]
fn an_author_tries_a_program_of_verbs() {
    works("ci.md");
}

#[test]
fn a_lecturer_shows_it_all_in_order() {
    works("lecture.md");
}

#[test]
fn every_guide_is_tried() {
    let known = [
        "administrator.md",
        "ci.md",
        "exporter.md",
        "lecture.md",
        "researcher.md",
    ];
    let folder = std::fs::read_dir(root().join("docs/guides")).expect("a folder");
    let mut names: Vec<String> = folder
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("UTF-8")
        })
        .collect();
    names.sort();
    assert_eq!(names, known);
}

/// A text of YAML as JSON.
fn yaml(text: &str) -> serde_json::Value {
    let program =
        "import json, sys, yaml; json.dump(yaml.safe_load(sys.argv[1]), sys.stdout, default=str)";
    Outcome::of(Command::new("python3").args(["-c", program, text]))
        .success()
        .json()
}

/// The script of a workflow's job: its own steps, and those of the action where it is used.
fn steps(workflow: &serde_json::Value, action: &serde_json::Value) -> String {
    let mut script = String::new();
    let mut add = |run: &str| script += &format!("(\n{run}\n)\n");
    for step in workflow["jobs"]["fabric"]["steps"]
        .as_array()
        .expect("steps")
    {
        if let Some(run) = step["run"].as_str() {
            add(run);
        }
        let used = step["uses"].as_str().unwrap_or_default();
        if !used.starts_with("OWNER/ibemu@") {
            continue;
        }
        let input = |name: &str| {
            let given = step["with"][name].as_str();
            let default = || action["inputs"][name]["default"].as_str();
            given.or_else(default).expect("an input").to_owned()
        };
        let condition = format!("inputs.do == '{}'", input("do"));
        for part in action["runs"]["steps"].as_array().expect("steps") {
            if part["if"] == condition.as_str() {
                assert_eq!(part["shell"], "bash");
                let variables = format!(
                    "export TOPOLOGY='{}' OPTIONS='{}'\n",
                    input("topology"),
                    input("options")
                );
                add(&(variables + part["run"].as_str().expect("a step of the shell")));
            }
        }
    }
    script
}

#[test]
fn the_action_and_the_workflow_that_uses_it_bring_a_fabric_up_run_programs_and_take_it_down() {
    let read = |path: PathBuf| std::fs::read_to_string(path).expect("a file");
    let action = yaml(&read(root().join("action.yml")));
    let guide = read(root().join("docs/guides/ci.md"));
    let script = steps(&yaml(&blocks(&guide, "yaml")), &action);
    for what in ["apt-get install", "ibv_rc_pingpong", "down --all"] {
        assert!(script.contains(what), "no {what} in {script}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let action = root().canonicalize().expect("a path");
    let action = action.to_str().expect("UTF-8");
    let ran = run(
        &(script + "! ibemu status\n"),
        folder.path(),
        &[("GITHUB_ACTION_PATH", action)],
    );
    let _ = ran.success();
}
