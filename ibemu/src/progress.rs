//! The progress display of a verb that takes its time: one line a phase on standard error; on a terminal
//! also a progress line.

use std::io::{self, IsTerminal, Write as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output;

/// How often the progress line is redrawn, a second.
const DRAWN_A_SECOND: u8 = 10;

/// The phases so far.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    begun: Instant,
    phase: Option<(&'static str, Instant)>,
    seconds: Vec<(&'static str, Duration)>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let target = ProgressDrawTarget::stderr_with_hz(DRAWN_A_SECOND);
            let bar = ProgressBar::with_draw_target(None, target);
            // The template is a constant that parses; without it the default one does.
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self {
            bar,
            begun: Instant::now(),
            phase: None,
            seconds: Vec::new(),
        }
    }

    /// Whether the progress line can be seen.
    pub(crate) fn is_terminal(&self) -> bool {
        self.bar.is_some()
    }

    /// Prints a permanent line.
    pub(crate) fn print(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| write_line(text)),
            None => write_line(text),
        }
    }

    /// Begins a phase, which ends the one before.
    pub(crate) fn begin(&mut self, phase: &'static str) {
        self.end();
        self.phase = Some((phase, Instant::now()));
        self.show(phase);
    }

    /// Updates the progress line of the phase.
    pub(crate) fn show(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(output::printable(text).into_owned());
            bar.tick();
        }
    }

    /// Ends the phase with a line about its result.
    pub(crate) fn done(&mut self, what: &str) {
        let taken = self.end();
        self.print(&format!("{:8.3} s  {what}", taken.as_secs_f64()));
    }

    fn end(&mut self) -> Duration {
        let Some((phase, since)) = self.phase.take() else {
            return Duration::ZERO;
        };
        let taken = since.elapsed();
        self.seconds.push((phase, taken));
        taken
    }

    /// Clears the progress line.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Seconds per phase, and in all.
    pub(crate) fn seconds(&self) -> String {
        let phases: Vec<String> = self
            .seconds
            .iter()
            .map(|(phase, taken)| format!("{phase} {:.2}", taken.as_secs_f64()))
            .collect();
        format!(
            "{}; in all {:.2}",
            phases.join(", "),
            self.begun.elapsed().as_secs_f64()
        )
    }
}

fn write_line(text: &str) {
    // An unreadable progress display stops nothing.
    let _ = writeln!(io::stderr().lock(), "{}", output::printable(text));
}
