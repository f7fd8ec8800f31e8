//! The lines of the matrix, and running them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use e2e::{Outcome, Station};
use topologies::Endpoint;

use super::printed::Verdict;
use super::truth::{Counters, Truth};

/// Tools that run at once.
const AT_ONCE: usize = 4;

/// Compares what a tool printed with what is true.
pub(crate) type Check = fn(&Truth<'_>, &Outcome) -> Verdict;
/// The port whose counters a tool prints.
pub(crate) type Place = fn(&Truth<'_>) -> Endpoint;
/// Compares what a tool printed with a port's counters before it ran and after.
pub(crate) type CounterCheck = fn(&Truth<'_>, &Outcome, &Counters, &Counters) -> Verdict;

/// How what is printed is compared.
#[derive(Clone, Copy)]
pub(crate) enum Comparison {
    /// With what does not change.
    Output(Check),
    /// With the counters of a port.
    Counters(Place, CounterCheck),
}

/// What is expected of a tool.
#[derive(Clone, Copy)]
pub(crate) enum Expected {
    /// It works, and prints what is true.
    Works,
    /// It is refused: why.
    Refused(&'static str),
    /// It tells that it was refused, and ends as if it had worked.
    Reported(&'static str),
}

/// One line of the matrix.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    /// The command line. `{name}` stands for what [`Truth::word`] gives.
    pub(crate) line: &'static str,
    /// What is compared, in the words of the document.
    pub(crate) compared: &'static str,
    pub(crate) expected: Expected,
    pub(crate) check: Comparison,
    /// Whether it changes the fabric, or a file that all programs share, so that it runs after the
    /// others and alone.
    pub(crate) is_alone: bool,
}

/// A tool that works.
pub(crate) const fn works(line: &'static str, compared: &'static str, check: Check) -> Row {
    Row {
        line,
        compared,
        expected: Expected::Works,
        check: Comparison::Output(check),
        is_alone: false,
    }
}

/// A tool that works and prints counters of the port `place`.
pub(crate) const fn reads(
    line: &'static str,
    compared: &'static str,
    place: Place,
    check: CounterCheck,
) -> Row {
    Row {
        line,
        compared,
        expected: Expected::Works,
        check: Comparison::Counters(place, check),
        is_alone: false,
    }
}

/// A tool that is refused, and why; `check` sees what it says.
pub(crate) const fn refused(line: &'static str, why: &'static str, check: Check) -> Row {
    Row {
        line,
        compared: "it fails at once and says so",
        expected: Expected::Refused(why),
        check: Comparison::Output(check),
        is_alone: false,
    }
}

/// A tool that is refused, says so, and ends with exit code 0.
pub(crate) const fn reported(line: &'static str, why: &'static str, check: Check) -> Row {
    Row {
        compared: "it says so at once",
        expected: Expected::Reported(why),
        ..refused(line, why, check)
    }
}

impl Row {
    /// The same, after all others and alone.
    pub(crate) const fn alone(self) -> Self {
        Self {
            is_alone: true,
            ..self
        }
    }

    /// Runs the tool and compares.
    fn run(&self, truth: &Truth<'_>, station: &mut Station) -> Verdict {
        let line = truth.fill(self.line);
        let before = match self.check {
            Comparison::Output(_) => Counters::new(),
            Comparison::Counters(place, _) => truth.counters(place(truth)),
        };
        let outcome = station.run(&line);
        let verdict = match (self.expected, outcome.code) {
            (_, 124) => Err("it did not end within 200 s".to_owned()),
            (_, 139 | 134) => Err("it crashed".to_owned()),
            (Expected::Works | Expected::Reported(_), code) if code != 0 => {
                Err(format!("exit code {code}"))
            }
            (Expected::Refused(_), 0) => Err("it was to be refused".to_owned()),
            _ => match self.check {
                Comparison::Output(check) => check(truth, &outcome),
                Comparison::Counters(place, check) => {
                    check(truth, &outcome, &before, &truth.counters(place(truth)))
                }
            },
        };
        verdict.map_err(|why| format!("{}: {why}\n{}", self.line, beginning(&outcome)))
    }
}

/// The first lines of what a tool printed, for a report.
fn beginning(outcome: &Outcome) -> String {
    let text = outcome.to_string();
    let lines = text.lines().take(40).map(|line| format!("    {line}\n"));
    lines.collect()
}

/// Runs all rows beside the host `here`, and tells of every one that differs.
///
/// # Panics
/// If one does.
#[track_caller]
pub(crate) fn run(truth: &Truth<'_>, rows: &[Row]) {
    let differing = Mutex::new(Vec::new());
    let (alone, together): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.is_alone);
    let next = AtomicUsize::new(0);
    let work = |rows: &[&Row]| {
        let mut station = Station::beside(truth.fabric, &truth.name(truth.here));
        while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(why) = row.run(truth, &mut station) {
                differing.lock().expect("no panic").push(why);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| work(&together));
        }
    });
    next.store(0, Ordering::Relaxed);
    work(&alone);
    let differing = differing.into_inner().expect("no panic");
    assert!(
        differing.is_empty(),
        "{} of {} tools differ from what is true\n{}",
        differing.len(),
        rows.len(),
        differing.join("\n")
    );
}
