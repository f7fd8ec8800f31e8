//! Runs fuzz targets on mutations of their inputs, for as long as wanted, on any compiler.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use fuzz::run::{self, Failure, Tally};
use fuzz::{TARGETS, Target};

/// Pieces that the executions of a target are cut into: what one thread runs at a time.
const PIECES: u64 = 64;

/// Runs fuzz targets on mutations of their seeds, of `fuzz/corpus` and of `fuzz/regressions`. Ends
/// with 1 if an input fails. The same seed and executions run the same inputs, whatever the jobs.
#[derive(Debug, Parser)]
struct Options {
    /// Executions in all: shared among the targets, or for each of those given with --target
    #[arg(long, default_value_t = 1_000_000)]
    executions: u64,
    /// Seed of the mutations
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only this target; may be given several times
    #[arg(long, value_name = "NAME")]
    target: Vec<String>,
    /// Threads
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// An execution that takes longer than this, seconds, ends the program as a failure
    #[arg(long, default_value_t = 60)]
    limit: u64,
    /// Where inputs that fail are written
    #[arg(long, default_value = "target/fuzz", value_name = "FOLDER")]
    failures: PathBuf,
    /// Run this input once, with --target, and let it fail as it does
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Write the seeds of each target into FOLDER/TARGET, for libFuzzer, and run nothing
    #[arg(long, value_name = "FOLDER")]
    write_seeds: Option<PathBuf>,
    /// List the targets and run nothing
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            print_line(&format!("ibemu-fuzz: {error}"));
            ExitCode::from(2)
        }
    }
}

/// Whether nothing has failed.
fn run(options: &Options) -> Result<bool, String> {
    let targets = chosen(&options.target)?;
    if options.list {
        for target in targets {
            let Target {
                name,
                drives,
                share,
                ..
            } = target;
            print_line(&format!("{name:<18}{share:>5}  {drives}"));
        }
        return Ok(true);
    }
    if let Some(folder) = &options.write_seeds {
        return write_seeds(folder, &targets).map(|()| true);
    }
    if let Some(path) = &options.replay {
        let [target] = targets[..] else {
            return Err("--replay needs one --target".to_owned());
        };
        let input = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        (target.run)(&input);
        print_line(&format!(
            "{}: {} does not fail",
            target.name,
            path.display()
        ));
        return Ok(true);
    }
    campaign(options, &targets)
}

fn chosen(names: &[String]) -> Result<Vec<&'static Target>, String> {
    if names.is_empty() {
        return Ok(TARGETS.iter().collect());
    }
    let find =
        |name: &String| fuzz::find(name).ok_or_else(|| format!("no target {name}: see --list"));
    names.iter().map(find).collect()
}

fn write_seeds(folder: &Path, targets: &[&Target]) -> Result<(), String> {
    for target in targets {
        let folder = folder.join(target.name);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            let path = folder.join(format!("seed-{number:03}"));
            fs::write(&path, seed).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(())
}

/// A target, its inputs, and what has come of them so far.
struct Work {
    target: &'static Target,
    pool: Vec<Vec<u8>>,
    executions: u64,
    tally: Mutex<Tally>,
}

/// The input that a thread runs.
struct Running {
    target: &'static str,
    input: Vec<u8>,
    since: Instant,
}

fn campaign(options: &Options, targets: &[&'static Target]) -> Result<bool, String> {
    let mut work = Vec::new();
    for target in targets {
        let pool = run::inputs(target).map_err(|error| format!("{}: {error}", target.name))?;
        let executions = match options.target.is_empty() {
            true => options.executions * u64::from(target.share) / 1000,
            false => options.executions,
        };
        let tally = Mutex::new(run::run_all(target, &pool));
        work.push(Work {
            target,
            pool,
            executions,
            tally,
        });
    }
    let next = AtomicUsize::new(0);
    let running: Vec<Mutex<Option<Running>>> =
        (0..options.jobs.max(1)).map(|_| Mutex::default()).collect();
    let begin = Instant::now();
    thread::scope(|scope| {
        let threads: Vec<_> = running
            .iter()
            .map(|place| scope.spawn(|| take_pieces(options.seed, &work, &next, place)))
            .collect();
        while !threads.iter().all(thread::ScopedJoinHandle::is_finished) {
            thread::sleep(Duration::from_millis(100));
            stop_if_stuck(options, &running);
        }
    });
    let mut sound = true;
    let mut all = 0;
    for work in &work {
        let tally = locked(&work.tally);
        all += tally.executions;
        print_line(&line(work.target, &tally));
        for failure in &tally.failures {
            sound = false;
            tell(&options.failures, failure)?;
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    print_line(&format!("{all} executions in {seconds:.0} s"));
    Ok(sound)
}

/// Runs pieces of work until there are none left.
fn take_pieces(seed: u64, work: &[Work], next: &AtomicUsize, place: &Mutex<Option<Running>>) {
    let pieces = usize::try_from(PIECES).unwrap_or(1);
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let Some(work) = work.get(number / pieces) else {
            *locked(place) = None;
            return;
        };
        let piece = (number % pieces) as u64;
        let executions = work.executions / PIECES + u64::from(piece < work.executions % PIECES);
        let name = crc32fast::hash(work.target.name.as_bytes());
        let seed = seed ^ u64::from(name) << 32 ^ piece << 16;
        let tally = run::run_mutations(work.target, &work.pool, seed, executions, |input| {
            let mut running = locked(place);
            let now = running.get_or_insert_with(|| Running {
                target: "",
                input: Vec::new(),
                since: Instant::now(),
            });
            now.target = work.target.name;
            now.input.clear();
            now.input.extend_from_slice(input);
            now.since = Instant::now();
        });
        locked(&work.tally).add(tally);
    }
}

/// Ends the program with the input that runs for longer than the limit, if there is one.
fn stop_if_stuck(options: &Options, running: &[Mutex<Option<Running>>]) {
    for place in running {
        let running = locked(place);
        let Some(now) = &*running else {
            continue;
        };
        if now.since.elapsed() > Duration::from_secs(options.limit) {
            let failure = Failure {
                target: now.target,
                input: now.input.clone(),
                fault: run::Fault {
                    place: String::new(),
                    message: format!("runs for longer than {} s", options.limit),
                },
            };
            if let Err(error) = tell(&options.failures, &failure) {
                print_line(&error);
            }
            std::process::exit(1);
        }
    }
}

fn line(target: &Target, tally: &Tally) -> String {
    let seconds = tally.elapsed.as_secs_f64();
    let rate = tally.executions as f64 / seconds.max(1e-9);
    format!(
        "{:<18}{:>12} executions {:>10.0}/s, longest {:>8.3} ms, {} failures",
        target.name,
        tally.executions,
        rate,
        tally.longest.as_secs_f64() * 1e3,
        tally.failures.len()
    )
}

/// Writes down an input that fails, and says how to run it again.
fn tell(folder: &Path, failure: &Failure) -> Result<(), String> {
    let path = run::save(folder, failure)
        .map_err(|error| format!("cannot write into {}: {error}", folder.display()))?;
    let Failure {
        target,
        input,
        fault,
    } = failure;
    print_line(&format!(
        "{target} fails on {} bytes: {}: {}\n  cargo run -p ibemu-fuzz -- --target {target} --replay {}",
        input.len(),
        fault.place,
        fault.message,
        path.display()
    ));
    Ok(())
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A closed standard output is no reason to panic.
fn print_line(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
