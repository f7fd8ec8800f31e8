//! Tools with a program at the other end: ibping and ibsysstat, whose servers run beside `far`.

use std::process::{Child, Stdio};
use std::time::Duration;

use e2e::{Fabric, Outcome, Station, within};

use super::printed::{Verdict, contains, lines_with, same};
use super::row::{Row, works};
use super::truth::Truth;

/// How long the servers may take to answer.
const START_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) const ROWS: &[Row] = &[
    works(
        "ibping -c 2 {far}",
        "two answers from that LID",
        |truth, outcome| {
            lines_with(&outcome.stdout, "Pong from ", 2)?;
            contains(
                &outcome.stdout,
                &format!("(Lid {}): time", truth.lid(truth.far)),
            )?;
            answered(outcome, 2)
        },
    ),
    works("ibping -f -c 500 {far}", "500 answers", |_, outcome| {
        answered(outcome, 500)
    }),
    works(
        "ibping -f -c 10 -G {far.port-guid}",
        "the same by GUID",
        |_, outcome| answered(outcome, 10),
    ),
    works("ibsysstat {far}", "it answers", |_, outcome| {
        contains(&outcome.stdout, "sysstat ping succeeded")
    }),
    works(
        "ibsysstat {far} cpu",
        "this machine's processors",
        |_, outcome| {
            let text =
                std::fs::read_to_string("/proc/cpuinfo").map_err(|error| error.to_string())?;
            let cpus = text
                .lines()
                .filter(|line| line.starts_with("processor"))
                .count();
            lines_with(&outcome.stdout, "cpu ", cpus)
        },
    ),
    works(
        "ibsysstat {far} host",
        "this machine's name",
        |_, outcome| {
            let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
            let name = name.map_err(|error| error.to_string())?;
            let printed = outcome.stdout.split('.').next().unwrap_or_default();
            same(
                "name",
                printed.trim(),
                name.trim().split('.').next().unwrap_or_default(),
            )
        },
    ),
];

fn answered(outcome: &Outcome, packets: u32) -> Verdict {
    let line = format!("{packets} packets transmitted, {packets} received, 0% packet loss");
    contains(&outcome.stdout, &line)
}

/// The servers of both tools.
pub(crate) struct Servers([Child; 2]);

impl Servers {
    /// Starts them beside `far`, and waits until they answer.
    ///
    /// # Panics
    /// If they do not.
    #[track_caller]
    pub(crate) fn start(truth: &Truth<'_>) -> Self {
        let far = truth.name(truth.far);
        let start = |fabric: &Fabric, program: &str| {
            let mut command = fabric.command(&["exec", &far, program, "-S"]);
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            command.spawn().expect("ibemu exec starts")
        };
        let servers = Self(["ibping", "ibsysstat"].map(|program| start(truth.fabric, program)));
        let mut station = Station::beside(truth.fabric, &truth.name(truth.here));
        for line in ["ibping -f -c 1 -t 200 {far}", "ibsysstat -t 200 {far}"] {
            within(START_TIMEOUT, line, || {
                let outcome = station.run(&truth.fill(line));
                let answers = [" 1 received", "ping succeeded"];
                match answers.iter().any(|answer| outcome.stdout.contains(answer)) {
                    true => Ok(()),
                    false => Err(outcome.to_string()),
                }
            });
        }
        servers
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        // `ibemu exec` becomes the command.
        for server in &mut self.0 {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}
