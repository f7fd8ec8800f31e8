//! `ibemu run`: a program beside several hosts at once.

use std::process::Command;

use e2e::{Fabric, Outcome, Transport, within};
use tempfile::TempDir;

use super::{Running, START};

/// How many processes have a word in their command line.
fn running(word: &str) -> usize {
    let processes = std::fs::read_dir("/proc").expect("it can be listed");
    let lines = processes.filter_map(|entry| {
        let line = std::fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).into_owned())
    });
    // This process, `ibemu run` and `ibemu exec` name the whole script.
    lines
        .filter(|line| line.split('\0').any(|argument| argument == word))
        .count()
}

#[test]
fn each_process_knows_its_rank_and_its_host_and_is_told_apart() {
    let fabric = Fabric::up(Transport::Udp, "star-4", &[]);
    let script =
        "echo $IBEMU_RANK of $IBEMU_RANKS; cat $IBEMU_HOSTFILE >&2; ibv_devices >/dev/null";
    let told = fabric
        .call(&["run", "-n", "3", "--", "sh", "-c", script])
        .success();
    let mut lines: Vec<&str> = told.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["h0: 0 of 3", "h1: 1 of 3", "h2: 2 of 3"]);
    let mut lines: Vec<&str> = told.stderr.lines().collect();
    lines.sort_unstable();
    let all = ["h0", "h1", "h2"].map(|by| ["h0", "h1", "h2"].map(|of| format!("{by}: {of}")));
    assert_eq!(lines, all.concat());
    let named = [
        "run",
        "--hosts",
        "h3,h1",
        "--",
        "sh",
        "-c",
        "echo $IBEMU_NODE $IBEMU_HOSTS",
    ];
    let told = fabric.call(&named).success().stdout;
    let mut lines: Vec<&str> = told.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["h1: h1 h3,h1", "h3: h3 h3,h1"]);
    for (arguments, code, why) in [
        (
            &["run", "-n", "5", "--", "true"][..],
            2,
            "there are 4 hosts",
        ),
        (&["run", "-n", "0", "--", "true"], 2, "1 to 65536"),
        (&["run", "--hosts", "h1,h1", "--", "true"], 2, "named twice"),
        (&["run", "--hosts", "s0", "--", "true"], 1, "switch"),
        (&["run", "--", "/nonexistent"], 127, "cannot run"),
    ] {
        fabric.call(arguments).fails_with(code, why);
    }
    fabric.down();
}

#[test]
fn the_first_failure_ends_all_processes_and_is_the_exit_code() {
    let fabric = Fabric::up(Transport::Udp, "star-3", &[]);
    let pause = format!("31{:06}", std::process::id());
    // One waits with a child in a session of its own, one fails when the other is there, by the third's word.
    let script = format!(
        "case $IBEMU_RANK in 0) setsid sleep {pause} & sleep {pause};; \
         1) sleep {pause};; 2) until [ $(pgrep -xcf 'sleep {pause}') = 3 ]; do :; done; exit 7;; esac"
    );
    let told = fabric.call(&["run", "--", "sh", "-c", &script]);
    told.fails_with(7, "h2 has ended with exit code 7");
    assert_eq!(running(&pause), 0);
    fabric.down();
}

#[test]
fn an_interrupted_run_leaves_nothing() {
    let fabric = Fabric::up(Transport::Udp, "star-3", &[]);
    let pause = format!("32{:06}", std::process::id());
    let mut run = Running::start(&mut fabric.command(&["run", "--", "sleep", &pause]));
    let asleep = || running(&pause);
    within(START, "all processes run", || match asleep() {
        // `ibemu run` names it too.
        4 => Ok(()),
        other => Err(other.to_string()),
    });
    run.interrupt();
    let told: Outcome = run.end();
    assert_eq!(told.code, 130, "{told}");
    assert_eq!(asleep(), 0);
    let left = std::fs::read_dir(fabric.dir()).expect("it can be listed");
    let names = left.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    assert!(names.into_iter().all(|name| !name.starts_with("run-")));
    fabric.down();
}

/// A ring of ranks that add up what all have.
const RING: &str = include_str!("ring.c");

#[test]
fn a_collective_that_asks_libibverbs_for_its_functions_by_name_and_version_adds_up_over_a_ring() {
    let folder = TempDir::new().expect("a folder");
    let (source, program) = (folder.path().join("ring.c"), folder.path().join("ring"));
    std::fs::write(&source, RING).expect("it can be written");
    let mut compiler = Command::new("cc");
    compiler.args(["-Wall", "-Wextra", "-Werror", "-o"]);
    let _ = Outcome::of(compiler.args([&program, &source]).arg("-ldl")).success();
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-2", &[]);
    let [folder, program] = [folder.path(), &program].map(|path| path.to_string_lossy());
    let told = fabric
        .call(&["run", "-n", "6", "--", &program, &folder])
        .success();
    for rank in 0..6 {
        assert!(
            told.stdout.contains(&format!("rank {rank}: 0 wrong")),
            "{told}"
        );
    }
    fabric.assert_no_errors_logged();
    fabric.down();
}
