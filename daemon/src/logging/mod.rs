//! Logs: one line an event: time, level, span, message, fields.
//!
//! The level is the only filter, so that the start of a daemon compiles no expressions. Lines of
//! level ERROR hold the word ` ERROR `, by which tests find them.
//!
//! A peer that makes a daemon log lines must not be able to end it or to fill the disk by that:
//!
//! - a line that cannot be written (a full disk, a closed pipe) is left out, and counted in the next
//!   line that can;
//! - a file has a length at which it is set aside, and the one that was set aside before goes
//!   ([`netio::log_file`]);
//! - one place of the program writes [`BURST`] lines at once and one every [`INTERVAL`] from then on;
//!   how many it left out stands in front of its next line. The levels DEBUG and TRACE are meant to
//!   be complete and are bounded by the length of the file only.

mod level;
mod limit;
mod sink;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::format;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::layer::{Context, SubscriberExt as _};

pub use level::LogLevel;
use limit::Limiter;
pub use limit::{BURST, INTERVAL};
use netio::log_file::LogFile;
use sink::{Sink, Writer};

/// The length of a log file unless one is asked for, bytes: 8 MiB.
pub const LOG_BYTES: u64 = 8 << 20;

/// The least length that may be asked for, bytes.
pub const LOG_BYTES_MIN: u64 = 4096;

/// The target of lines that count lines that were left out.
const LEFT_OUT: &str = "left-out";

/// What is logged, and where to.
#[derive(Clone, Debug, clap::Args)]
pub struct LogArgs {
    /// The least severe events to log.
    #[arg(long, default_value_t = LogLevel::Info, help = LogLevel::help())]
    pub log_level: LogLevel,

    /// Log to the end of this file and not to stderr; no other user may be able to write to its
    /// directory
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,

    /// Length at which the log becomes FILE.1 and a new one begins, bytes, 4096 or more
    #[arg(long, value_name = "BYTES", default_value_t = LOG_BYTES,
          value_parser = clap::value_parser!(u64).range(LOG_BYTES_MIN..))]
    pub log_bytes: u64,
}

/// The logs of this process. To be dropped at its end: the counts of lines left out are written then.
#[derive(Debug)]
#[must_use]
pub struct Logs {
    limiter: Arc<Mutex<Limiter>>,
}

/// Sends the events of the whole process where `options` say; to stderr, with an error first, if
/// the file cannot be opened. A second call has no effect.
///
/// Also makes writing beyond the process's limit of file sizes (`ulimit -f`) an error in place of
/// its end.
pub fn start(options: &LogArgs) -> Logs {
    netio::process::survive_file_size_limit();
    let file = options.log.as_deref();
    let opened = file.map(|path| LogFile::open(path, options.log_bytes));
    let (sink, failed) = match opened {
        Some(Ok(file)) => (Sink::file(file), None),
        Some(Err(error)) => (Sink::stderr(), Some(error)),
        None => (Sink::stderr(), None),
    };
    let (subscriber, logs) = subscriber(options.log_level.into(), sink);
    // A second subscriber is refused: the first one stays, which is what the doc promises.
    let _ = tracing::subscriber::set_global_default(subscriber);
    if let Some(error) = failed {
        tracing::error!("{error}; the log goes to standard error");
    }
    logs
}

fn subscriber(level: LevelFilter, sink: Sink) -> (impl Subscriber + Send + Sync, Logs) {
    let limiter = Arc::new(Mutex::new(Limiter::default()));
    let writer = sink.writer();
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_target(false)
        // They would be written to stderr, with a panic if that fails too.
        .log_internal_errors(false)
        .with_writer({
            let writer = writer.clone();
            move || writer.clone()
        });
    let limit = Limit {
        limiter: Arc::clone(&limiter),
        writer,
        begin: Instant::now(),
    };
    let subscriber = tracing_subscriber::registry()
        .with(level)
        .with(lines)
        .with(limit);
    (subscriber, Logs { limiter })
}

impl Drop for Logs {
    fn drop(&mut self) {
        let left_out = lock(&self.limiter).take_all();
        for (place, count) in left_out {
            tracing::warn!(target: LEFT_OUT, "{count} messages of {place} were left out");
        }
    }
}

fn lock(limiter: &Mutex<Limiter>) -> std::sync::MutexGuard<'_, Limiter> {
    limiter.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Refuses the lines of a place of the program that writes too many.
struct Limit {
    limiter: Arc<Mutex<Limiter>>,
    writer: Writer,
    begin: Instant,
}

impl<S: Subscriber> Layer<S> for Limit {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        if *metadata.level() > Level::INFO || metadata.target() == LEFT_OUT {
            return true;
        }
        let left_out = lock(&self.limiter).admit(metadata, self.begin.elapsed());
        if let Some(count @ 1..) = left_out {
            self.write_count(count);
        }
        left_out.is_some()
    }
}

impl Limit {
    /// Writes a line by hand: an event within an event may be lost.
    fn write_count(&self, count: u64) {
        let mut line = String::new();
        // A clock that cannot be written leaves the line without a time.
        let _ = SystemTime.format_time(&mut format::Writer::new(&mut line));
        line += &format!("  WARN {count} messages like the next one were left out\n");
        // A sink takes everything.
        let _ = self.writer.clone().write_all(line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tracing::subscriber::with_default;
    use wire::convert::{u64_of, usize_of};

    use super::*;

    const LEVEL: LevelFilter = LevelFilter::DEBUG;

    fn folder_with(bytes_max: u64) -> (tempfile::TempDir, PathBuf, Sink) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.log");
        let sink = Sink::file(LogFile::open(&path, bytes_max).unwrap());
        (folder, path, sink)
    }

    #[test]
    fn a_flood_of_one_message_is_cut_and_counted_and_hides_no_other() {
        let (_folder, path, sink) = folder_with(LOG_BYTES);
        let (subscriber, logs) = subscriber(LEVEL, sink);
        let started = Instant::now();
        let text = with_default(subscriber, || {
            for number in 0..20_000 {
                tracing::warn!(number, "a stranger knocks");
            }
            tracing::error!("something else");
            drop(logs);
            fs::read_to_string(&path).unwrap()
        });
        let lines: Vec<&str> = text.lines().collect();
        let passed = started.elapsed().as_millis() / INTERVAL.as_millis();
        // In between, each line stands behind one that counts.
        let most = u128::from(BURST) + 2 * passed + 4;
        assert!(u64_of(lines.len()) >= u64::from(BURST), "{}", lines.len());
        assert!(u128::from(u64_of(lines.len())) <= most, "{}", lines.len());
        let other = lines[lines.len() - 2];
        assert!(other.contains("ERROR something else"), "{other}");
        let last = lines[lines.len() - 1];
        assert!(last.contains("were left out"), "{last}");
    }

    #[test]
    fn a_place_that_has_been_quiet_tells_first_how_many_it_left_out() {
        let (_folder, path, sink) = folder_with(LOG_BYTES);
        let (subscriber, _logs) = subscriber(LEVEL, sink);
        let text = with_default(subscriber, || {
            let knock = |number: u32| tracing::warn!(number, "a stranger knocks");
            for number in 0..BURST * 3 {
                knock(number);
            }
            let begin = Instant::now();
            while begin.elapsed() <= INTERVAL {
                std::hint::spin_loop();
            }
            knock(u32::MAX);
            fs::read_to_string(&path).unwrap()
        });
        let counted: u32 = text
            .lines()
            .filter(|line| line.contains("left out"))
            .map(|line| {
                let mut words = line.split_whitespace().rev();
                let count = words.find_map(|word| word.parse::<u32>().ok());
                count.unwrap()
            })
            .sum();
        let written = text.matches("a stranger knocks").count();
        assert_eq!(usize_of(counted) + written, usize_of(BURST * 3 + 1));
    }

    #[test]
    fn details_that_were_asked_for_are_complete_and_bounded_by_the_file() {
        let bytes_max = 64 * 1024;
        let (folder, path, sink) = folder_with(bytes_max);
        let (subscriber, _logs) = subscriber(LEVEL, sink);
        with_default(subscriber, || {
            for number in 0..5_000 {
                tracing::debug!(number, "one of many");
            }
        });
        let older = fs::read_to_string(folder.path().join("x.log.1")).unwrap();
        let text = older + &fs::read_to_string(&path).unwrap();
        assert!(u64_of(text.len()) <= 2 * bytes_max);
        let numbers: Vec<u32> = text
            .lines()
            .map(|line| line.rsplit_once("number=").unwrap().1.parse().unwrap())
            .collect();
        assert_eq!(numbers.last(), Some(&4_999));
        assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
