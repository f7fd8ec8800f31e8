//! What cannot be: one message, exit code 1, nothing left.

use std::process::Command;

use e2e::{Cluster, Outcome, ibemu};

#[test]
fn what_cannot_be_is_refused_in_one_message_and_leaves_nothing() {
    let cluster = Cluster::up(3);
    let refused = |arguments: &[&str], part: &str| {
        let outcome = cluster.ibemu(arguments);
        outcome.fails_with(1, part);
        let messages = outcome
            .stderr
            .lines()
            .filter(|line| line.starts_with("ibemu: "));
        assert_eq!(messages.count(), 1, "{outcome}");
        let jobs = cluster.run("head", &["squeue", "--noheader"]).success();
        assert_eq!(jobs.stdout.trim(), "", "{arguments:?}");
    };
    let up = |more: &[&'static str]| [&["up", "ring-4-1", "--slurm"], more].concat();
    refused(&up(&[]), "is for the inside of an allocation");
    refused(&up(&["-N", "1"]), "the allocation has 1 machine");
    refused(&up(&["-N", "9"]), "Slurm gives no machines");
    refused(
        &["up", "star-3", "--slurm", "-N", "3"],
        "hosts stay on the machine of their switch",
    );
    let wrong = cluster.folder().join("placement");
    std::fs::write(&wrong, "n7 s0\n").expect("a file");
    let wrong = wrong.to_str().expect("UTF-8").to_owned();
    let by_hand = [
        "up",
        "ring-4-1",
        "--slurm",
        "-N",
        "3",
        "--placement",
        &wrong,
    ];
    refused(
        &by_hand,
        "line 1: there is no machine n7: write a number from 0 to 2, or one of n1, n2, n3",
    );

    // Another build on one machine: the file is the same, and one byte longer.
    let other = cluster.folder().join("ibemu");
    std::fs::copy(ibemu(), &other).expect("a copy");
    std::fs::write(
        cluster.folder().join("longer"),
        [std::fs::read(ibemu()).expect("a program"), vec![0]].concat(),
    )
    .expect("a copy");
    for name in ["switchd", "hostd", "controller"] {
        std::os::unix::fs::symlink(ibemu().with_file_name(name), cluster.folder().join(name))
            .expect("a link");
    }
    let longer = cluster.folder().join("longer");
    let bind = |machine: &str, from: &str| {
        let [from, to] = [cluster.folder().join(from), other.clone()];
        let _ = cluster
            .run(
                machine,
                &[
                    "mount",
                    "--bind",
                    from.to_str().expect("UTF-8"),
                    to.to_str().expect("UTF-8"),
                ],
            )
            .success();
    };
    let unbind = |machine: &str| {
        let _ = cluster
            .run(machine, &["umount", other.to_str().expect("UTF-8")])
            .success();
    };
    let _ = Outcome::of(Command::new("chmod").arg("755").arg(&longer)).success();
    let again = |part: &str| {
        let outcome = Outcome::of(&mut cluster.command(
            "head",
            &[
                other.to_str().expect("UTF-8"),
                "up",
                "ring-4-1",
                "--slurm",
                "-N",
                "3",
            ],
        ));
        outcome.fails_with(1, part);
        assert_eq!(
            outcome
                .stderr
                .lines()
                .filter(|line| line.starts_with("ibemu: "))
                .count(),
            1,
            "{outcome}"
        );
    };
    bind("n2", "longer");
    again("the same build has to be on all machines");
    unbind("n2");

    // No program at that path: no common folder.
    bind("n3", "placement");
    again("ibemu has to stand at one path on all 3");
    unbind("n3");

    // Where the third machine has no way to the first one, it is told at once.
    let inside = |machine: &str, command: &[&str]| {
        let namespace = cluster.namespace(machine);
        let mut ip = Command::new("ip");
        let _ = Outcome::of(ip.args(["netns", "exec", &namespace]).args(command)).success();
    };
    let route = |what| inside("n3", &["ip", "route", what, "blackhole", "10.87.0.2/32"]);
    route("add");
    refused(&up(&["-N", "3"]), "n3 cannot reach n1");
    route("del");

    // A filter that says nothing: connections from the third one to the first, but for Slurm's, are dropped.
    let filter = |what| {
        let from = ["INPUT", "--source", "10.87.0.4", "--protocol", "tcp"];
        let which = ["--syn", "!", "--dport", "6818", "--jump", "DROP"];
        inside("n1", &[&["iptables", what], &from[..], &which].concat());
    };
    filter("--append");
    refused(&up(&["-N", "3"]), "n3 cannot reach n1");
    filter("--delete");

    // The same of the datagrams of cables.
    let filter = |what| {
        let from = [
            "INPUT",
            "--source",
            "10.87.0.4",
            "--protocol",
            "udp",
            "--jump",
            "DROP",
        ];
        inside("n1", &[&["iptables", what], &from[..]].concat());
    };
    filter("--append");
    refused(
        &up(&["-N", "3", "--timeout", "3"]),
        "between n1 and n3: do UDP datagrams pass in both directions, or are ports filtered?",
    );
    filter("--delete");

    // MUNGE's commands are missing on one machine.
    let hide = |what: &[&str]| cluster.run("n2", what).success();
    let _ = hide(&["mount", "--bind", "/dev/null", "/usr/bin/unmunge"]);
    refused(
        &up(&["-N", "3"]),
        "n2: cannot ask unmunge: MUNGE has to be on all machines of a job, or on none",
    );
    let _ = hide(&["umount", "/usr/bin/unmunge"]);

    // No Slurm where this is called.
    let program = ibemu().to_str().expect("UTF-8").to_owned();
    let nowhere = ["env", "PATH=/nonexistent", &program];
    let without = cluster.run("head", &[&nowhere[..], &up(&["-N", "3"])].concat());
    without.fails_with(1, "cannot run salloc: is Slurm installed here?");

    a_job_that_waits_goes_with_whom_it_was_for(&cluster);
    cluster.assert_nothing_left();
}

/// `up` is asked to end while its machines are in use: its job leaves the queue.
fn a_job_that_waits_goes_with_whom_it_was_for(cluster: &Cluster) {
    let _ = cluster
        .run(
            "head",
            &["salloc", "--no-shell", "--exclusive", "--nodes=3"],
        )
        .success();
    let holder = cluster.job();
    let program = ibemu();
    let program = program.to_str().expect("UTF-8");
    let interrupted = [
        "timeout",
        "--preserve-status",
        "--signal=TERM",
        "2",
        program,
        "up",
        "ring-4-1",
        "--slurm",
        "-N",
        "3",
    ];
    cluster
        .run("head", &interrupted)
        .fails_with(1, "interrupted: nothing was begun");
    assert_eq!(cluster.job(), holder, "the job that waited is gone");
    let _ = cluster.run("head", &["scancel", &holder]).success();
    cluster.wait_until("the machines are given back", || {
        let jobs = cluster.run("head", &["squeue", "--noheader"]).success();
        match jobs.stdout.trim() {
            "" => Ok(()),
            jobs => Err(jobs.to_owned()),
        }
    });
}
