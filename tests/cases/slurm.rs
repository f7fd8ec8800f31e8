//! Fabrics on several machines: a real Slurm, whose machines are namespaces on this host.

use std::process::Command;
use std::time::{Duration, Instant};

use e2e::{Cluster, Outcome, ibemu};
use serde_json::Value;

mod refusals;
mod verbs;

/// Within which time a machine that is gone is found.
const FOUND: Duration = Duration::from_secs(3);

/// The machine of each device, from `ibemu status`.
fn machine(cluster: &Cluster, device: &str) -> String {
    let machine = &cluster.device(device)["machine"];
    machine.as_str().expect("a machine").to_owned()
}

/// The cables between machines, as `ibemu place` names them: one end each.
fn cut(topology: &str) -> Vec<String> {
    let place = ["place", topology, "-N", "3", "--json"];
    let report = Outcome::of(Command::new(ibemu()).args(place))
        .success()
        .json();
    let cut = report["cut"].as_array().expect("cables").iter();
    cut.map(|cable| cable["ends"][0].as_str().expect("an end").to_owned())
        .collect()
}

fn names(status: &Value, kind: &str, state: &str) -> Vec<String> {
    let devices = status["devices"].as_array().expect("devices").iter();
    devices
        .filter(|device| device["kind"] == kind && device["state"] == state)
        .map(|device| device["name"].as_str().expect("a name").to_owned())
        .collect()
}

#[test]
fn batch_jobs_have_opensm_in_them_and_run_points_to_the_same_bytes() {
    let cluster = Cluster::up(3);
    opensm_and_connections_of_clos_fabrics_in_a_batch_job(&cluster);
    points_as_tasks_of_an_array(&cluster);
    the_page(&cluster);
}

#[test]
fn whatever_ends_a_job_nothing_is_left_and_a_lost_machine_takes_its_devices_alone() {
    let cluster = Cluster::up(3);
    whatever_ends_it(&cluster);
    it_is_queued_again(&cluster);
    // Its machine stays away.
    a_machine_is_lost(&cluster);
}

#[test]
fn a_fat_tree_on_three_machines_works_as_on_one_and_leaves_nothing() {
    let cluster = Cluster::up(3);
    let up = cluster
        .ibemu(&[
            "up",
            "fat-tree-4-3",
            "--slurm",
            "-N",
            "3",
            "--qos",
            "vlarb01",
            "--vls",
            "8",
        ])
        .success();
    assert!(
        up.stdout.contains("over veth, on the 3 machines of job"),
        "{up}"
    );
    assert!(up.stdout.contains("verified  all 240 pairs"), "{up}");
    let machines = ["h0.0.0", "h1.0.0", "h2.0.0", "h3.1.1"].map(|host| machine(&cluster, host));
    assert!(machines.contains(&"n1".to_owned()) && machines.contains(&"n3".to_owned()));
    let status = cluster.ibemu(&["status", "--json"]).success().json();
    assert_eq!(status["links"]["active"], status["links"]["total"]);

    // A program beside a host runs on the host's machine, and finds the whole fabric.
    let there = cluster.ibemu(&["exec", "h3.1.1", "hostname"]).success();
    assert_eq!(there.stdout.trim(), "h3.1.1", "{there}");
    let found = cluster
        .ibemu(&["exec", "h3.1.1", "ibnetdiscover"])
        .success();
    assert_eq!(found.stdout.matches("Ca\t").count(), 16, "{found}");
    assert_eq!(cluster.ibemu(&["exec", "h3.1.1", "false"]).code, 1);

    verbs::programs_of_internet_addresses_reach_hosts_elsewhere(&cluster);
    verbs::work_everywhere(&cluster);
    verbs::lost_datagrams_are_repeated(&cluster);

    let perf = cluster.ibemu(&["perf", "--all", "--count", "3"]).success();
    assert!(
        perf.stdout
            .contains("flows between machines, whose clocks are not one"),
        "{perf}"
    );
    assert!(perf.stdout.contains("one-way latency: min"), "{perf}");

    // A cable between machines is pulled, a switch and a host are killed: the fabric heals.
    let cable = &cut("fat-tree-4-3")[0];
    let _ = cluster.ibemu(&["link", "down", cable]).success();
    let all = ["ping", "--all", "--timeout", "10000"];
    let all_pairs = || match cluster.ibemu(&all) {
        outcome if outcome.code == 0 => Ok(()),
        outcome => Err(outcome.to_string()),
    };
    cluster.wait_until("the fabric routes round the cable", all_pairs);
    let _ = cluster.ibemu(&["link", "up", cable]).success();
    for device in ["s1.3.0", "h3.1.0"] {
        let on = machine(&cluster, device);
        let pid = cluster.device(device)["pid"].to_string();
        let _ = cluster.run(&on, &["kill", "-KILL", &pid]).success();
        cluster.wait_until("the end is noticed", || match cluster.device(device) {
            entry if entry["state"] == "ended" && entry["exit"] == "was killed (signal 9)" => {
                Ok(())
            }
            entry => Err(entry.to_string()),
        });
        let _ = cluster.ibemu(&["restart", device]).success();
    }
    cluster.wait_until("all pairs answer", all_pairs);
    let down = cluster.ibemu(&["down"]).success();
    assert!(down.stdout.contains("is down on the 3 machines"), "{down}");
    cluster.assert_nothing_left();
    let jobs = cluster.run("head", &["squeue", "--noheader"]).success();
    assert_eq!(jobs.stdout.trim(), "", "the allocation went back");
}

fn opensm_and_connections_of_clos_fabrics_in_a_batch_job(cluster: &Cluster) {
    let program = ibemu();
    let script = format!(
        "#!/bin/bash
        set -e
        PATH={}:$PATH
        ibemu up irregular-6-2-3-1 --slurm --sm none --transport shm
        ibemu exec h11 opensm -f - >opensm.log 2>&1 &
        until grep -q 'SUBNET UP' opensm.log; do sleep 0.1; done
        ibemu exec h0 ibnetdiscover | grep -c '^Ca'
        ibemu exec h0 saquery --list >nodes
        ibemu ping h0 h11 --timeout 10000
        ibemu down
        ibemu up clos-4-4-4 --slurm --routing clos --transport udp
        ibemu clos run --count 2 --seed 11 --packets 100
        ibemu clos state
        ibemu down
        ",
        program.parent().expect("a folder").display()
    );
    let path = cluster.folder().join("job");
    std::fs::write(&path, script).expect("a script");
    let sbatch = ["sbatch", "--wait", "--nodes=3", "--output=job.out", "job"];
    let outcome = cluster.run("head", &sbatch);
    let said = std::fs::read_to_string(cluster.folder().join("job.out")).unwrap_or_default();
    assert_eq!(outcome.code, 0, "{said}");
    assert!(said.contains("5 sent, 5 answered"), "{said}");
    assert!(said.contains("4 trees"), "{said}");
    cluster.assert_nothing_left();
}

fn a_machine_is_lost(cluster: &Cluster) {
    let up = [
        "up",
        "fat-tree-4-3",
        "--slurm",
        "-N",
        "3",
        "--no-kill",
        "--salloc=--no-kill",
        "--verify",
        "none",
    ];
    let _ = cluster.ibemu(&up).success();
    let host = machine(cluster, "h0.0.0");
    assert_eq!(
        host, "n1",
        "the subnet manager's host is on the first machine"
    );
    let begun = Instant::now();
    cluster.crash("n3");
    let lost = cluster.wait_until("the machine is missed", || {
        let status = cluster.ibemu(&["status", "--json"]).success().json();
        match names(&status, "switch", "lost") {
            lost if lost.is_empty() => Err(status.to_string()),
            _ => Ok(status),
        }
    });
    assert!(
        begun.elapsed() < FOUND + Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    let hosts = names(&lost, "host", "running");
    assert!(!hosts.is_empty() && names(&lost, "host", "lost").len() + hosts.len() == 16);
    cluster.wait_until("the rest is routed round it", || {
        for far in &hosts[1..] {
            let ping =
                cluster.ibemu(&["ping", &hosts[0], far, "--count", "1", "--timeout", "5000"]);
            if ping.code != 0 {
                return Err(ping.to_string());
            }
        }
        Ok(())
    });
    let gone = &names(&lost, "switch", "lost")[0];
    cluster
        .ibemu(&["restart", gone])
        .fails_with(1, "its machine n3 is lost");
    let _ = cluster.ibemu(&["down"]).success();
    cluster.wait_until("nothing is left", || match cluster.remains() {
        left if left.lines().all(|line| line.starts_with("n3")) => Ok(()),
        left => Err(left),
    });
}

fn whatever_ends_it(cluster: &Cluster) {
    let up = ["up", "ring-4-1", "--slurm", "-N", "3", "--verify", "none"];
    for what in [
        "scancel",
        "time limit",
        "keeper",
        "worker",
        "supervisor",
        "gateway",
        "term",
    ] {
        let _ = cluster.ibemu(&up).success();
        let job = cluster.job();
        let kill = |machine: &str, signal: &str, pattern: &str| {
            let script = format!(
                "kill -{signal} $(ps -e -o pid=,args= | grep '{pattern}' | awk '{{print $1}}' | head -1)"
            );
            let _ = cluster.run(machine, &["bash", "-c", &script]).success();
        };
        match what {
            "scancel" => drop(cluster.run("head", &["scancel", &job]).success()),
            "time limit" => {
                let update = [
                    "scontrol",
                    "update",
                    &format!("jobid={job}"),
                    "endtime=now+1",
                ];
                drop(cluster.run("head", &update).success());
            }
            "keeper" => kill("n2", "KILL", "[i]bemu --fabric ib agent --machines"),
            "worker" => kill("n2", "KILL", "[i]bemu --fabric ib agent --work"),
            "supervisor" => kill("n1", "KILL", "[i]bemu --fabric ib agent --work"),
            "gateway" => kill("head", "KILL", "[i]bemu supervisor"),
            _ => kill("n3", "TERM", "[i]bemu --fabric ib agent --machines"),
        }
        cluster.wait_until(what, || match cluster.remains() {
            // A directory stays where its keeper is killed, with nothing that runs; the next one removes it.
            left if left
                .lines()
                .all(|line| line.starts_with("head: /run") && what == "gateway") =>
            {
                Ok(())
            }
            left => Err(left),
        });
        let _ = cluster.ibemu(&["down"]);
        let _ = cluster.run("head", &["scancel", &job]);
        cluster.assert_nothing_left();
    }
}

fn it_is_queued_again(cluster: &Cluster) {
    let program = ibemu();
    let script = format!(
        "#!/bin/bash
        PATH={}:$PATH
        ibemu up ring-4-1 --slurm || exit 1
        echo run ${{SLURM_RESTART_COUNT:-0}}
        [[ -n $SLURM_RESTART_COUNT ]] || {{ scontrol requeue $SLURM_JOB_ID; sleep 60; }}
        ibemu ping --all --timeout 10000 && ibemu down
        ",
        program.parent().expect("a folder").display()
    );
    std::fs::write(cluster.folder().join("again"), script).expect("a script");
    let sbatch = [
        "sbatch",
        "--parsable",
        "--requeue",
        "--open-mode=append",
        "--nodes=3",
        "--output=again.out",
        "again",
    ];
    let job = cluster
        .run("head", &sbatch)
        .success()
        .stdout
        .trim()
        .to_owned();
    let said = || std::fs::read_to_string(cluster.folder().join("again.out")).unwrap_or_default();
    let queued = |format: &str| {
        let squeue = ["squeue", "--noheader", format, "--jobs", &job];
        let listed = cluster.run("head", &squeue);
        listed.stdout.trim().to_owned()
    };
    cluster.wait_until("it is queued again", || match queued("--format=%T %r") {
        state if state == "PENDING BeginTime" && said().contains("run 0") => Ok(()),
        state => Err(format!("{state}\n{}", said())),
    });
    // Slurm would wait for two minutes. It takes a run that begins in the second in which the one before ended for a part of that.
    let which = format!("jobid={job}");
    let start = ["scontrol", "update", &which, "starttime=now+2"];
    let _ = cluster.run("head", &start).success();
    cluster.wait_until("the second run is over", || {
        match queued("--format=%T %r") {
            state if state.is_empty() => Ok(()),
            state => Err(format!("{state}\n{}", said())),
        }
    });
    assert!(said().contains("run 1"), "{}", said());
    assert!(said().contains("is down on the 3 machines"), "{}", said());
    cluster.assert_nothing_left();
}

fn points_as_tasks_of_an_array(cluster: &Cluster) {
    let here = cluster.folder().join("here");
    let batch = ["sim", "batch", "mlid-observation5", "--quick", "--out"];
    let alone = Outcome::of(Command::new(ibemu()).args(batch).arg(&here)).success();
    let there = cluster.folder().join("there");
    let there = there.to_str().expect("UTF-8");
    let by_slurm = [&batch[..], &[there, "--slurm", "--array", "4"]].concat();
    let by_slurm = cluster.ibemu(&by_slurm).success();
    let same = |text: &str| text.replace("/here/", "/there/");
    assert_eq!(same(&alone.stdout), by_slurm.stdout);
    let files = |folder: &std::path::Path| {
        let entries = std::fs::read_dir(folder).expect("results");
        let mut files: Vec<_> = entries
            .map(|entry| {
                let path = entry.expect("an entry").path();
                (
                    path.file_name().map(std::ffi::OsStr::to_owned),
                    std::fs::read(&path).expect("a file"),
                )
            })
            .collect();
        files.sort();
        files
    };
    assert_eq!(files(&here), files(there.as_ref()));
}

fn the_page(cluster: &Cluster) {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/slurm.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let mut script = String::from("set -e\n");
    let mut within = false;
    for line in page.lines() {
        match line {
            "```" => within = false,
            "```sh" => within = true,
            line if within => script += &format!("{line}\n"),
            _ => {}
        }
    }
    assert!(
        script.contains("ibemu up") && script.contains("--array"),
        "{script}"
    );
    let program = ibemu();
    let path = std::env::var("PATH").expect("PATH");
    let mut command = cluster.command("head", &["bash", "-c", &script]);
    command.env(
        "PATH",
        format!("{}:{path}", program.parent().expect("a folder").display()),
    );
    let _ = Outcome::of(&mut command).success();
    cluster.assert_nothing_left();
}
