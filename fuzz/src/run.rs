//! Running targets: on seeds and kept inputs, on mutations of them, and until what has failed is
//! small.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::{Duration, Instant};

use crate::{Mutator, Target};

/// Runs that one minimisation may take.
const MINIMISE_RUNS: u32 = 4000;

thread_local! {
    /// Whether a panic of this thread is a target's.
    static IN_TARGET: Cell<bool> = const { Cell::new(false) };
    /// The message of the last failure.
    static LAST: RefCell<Fault> = RefCell::new(Fault::default());
}

/// Why a target has panicked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// Where: file and line.
    pub place: String,
    /// Its message.
    pub message: String,
}

/// An input on which a target panics.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The target's name.
    pub target: &'static str,
    /// The input, as small as it was made.
    pub input: Vec<u8>,
    /// Why.
    pub fault: Fault,
}

/// The results of a number of executions.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Executions.
    pub executions: u64,
    /// Time that they took.
    pub elapsed: Duration,
    /// The longest one.
    pub longest: Duration,
    /// Those that have failed, one for each place.
    pub failures: Vec<Failure>,
}

impl Tally {
    /// Adds those of another one.
    pub fn add(&mut self, other: Self) {
        self.executions += other.executions;
        self.elapsed += other.elapsed;
        self.longest = self.longest.max(other.longest);
        for failure in other.failures {
            self.keep(failure);
        }
    }

    fn keep(&mut self, failure: Failure) {
        let is_same = |known: &Failure| known.fault.place == failure.fault.place;
        if !self.failures.iter().any(is_same) {
            self.failures.push(failure);
        }
    }
}

/// Panics of targets are caught and told with their input; those of others are told as ever.
fn catch_panics() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IN_TARGET.get() {
                return before(info);
            }
            let payload = info.payload();
            let text = payload
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned());
            let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
            let place = info
                .location()
                .map(|at| format!("{}:{}", at.file(), at.line()));
            LAST.set(Fault {
                place: place.unwrap_or_default(),
                message: text.unwrap_or_default(),
            });
        }));
    });
}

/// Runs a target once.
///
/// # Errors
/// [`Fault`] if it panics.
pub fn attempt(target: &Target, input: &[u8]) -> Result<(), Fault> {
    catch_panics();
    IN_TARGET.set(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    IN_TARGET.set(false);
    outcome.map_err(|_| LAST.take())
}

/// A smaller input that fails at the same place: pieces are left out, then bytes made zero.
#[must_use]
pub fn minimise(target: &Target, input: &[u8], fault: &Fault) -> Vec<u8> {
    let mut runs = 0;
    let mut fails = |input: &[u8]| {
        runs += 1;
        runs <= MINIMISE_RUNS
            && attempt(target, input).is_err_and(|other| other.place == fault.place)
    };
    let mut small = input.to_vec();
    let mut piece = small.len().next_power_of_two() / 2;
    while piece > 0 {
        let mut at = 0;
        while at < small.len() {
            let mut shorter = small.clone();
            shorter.drain(at..(at + piece).min(small.len()));
            if fails(&shorter) {
                small = shorter;
            } else {
                at += piece;
            }
        }
        piece /= 2;
    }
    for at in 0..small.len() {
        let mut simpler = small.clone();
        simpler[at] = 0;
        if simpler != small && fails(&simpler) {
            small = simpler;
        }
    }
    small
}

/// The inputs to start from: the target's seeds, then the files that are kept for it, those of
/// faults that were once found among them.
///
/// # Errors
/// If a file cannot be read.
pub fn inputs(target: &Target) -> io::Result<Vec<Vec<u8>>> {
    let mut inputs = (target.seeds)();
    for folder in ["corpus", "regressions"] {
        inputs.extend(corpus_inputs(folder, target)?);
    }
    Ok(inputs)
}

fn corpus_inputs(folder: &str, target: &Target) -> io::Result<Vec<Vec<u8>>> {
    let folder = home().join(folder).join(target.name);
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder)?;
    let paths: io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths?;
    paths.sort();
    paths.iter().map(fs::read).collect()
}

/// The folder of this package.
#[must_use]
pub fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a target on each of `inputs`.
pub fn run_all(target: &Target, inputs: &[Vec<u8>]) -> Tally {
    let mut tally = Tally::default();
    for input in inputs {
        execute(target, input, &mut tally);
    }
    tally
}

/// Runs a target on `executions` mutations of `pool`, those of `seed`. `before` sees each input
/// before it runs.
pub fn run_mutations(
    target: &Target,
    pool: &[Vec<u8>],
    seed: u64,
    executions: u64,
    mut before: impl FnMut(&[u8]),
) -> Tally {
    let mut tally = Tally::default();
    let mut mutator = Mutator::new(seed);
    let mut input = Vec::new();
    for _ in 0..executions {
        mutator.change(target.layout, pool, &mut input);
        before(&input);
        execute(target, &input, &mut tally);
    }
    tally
}

fn execute(target: &Target, input: &[u8], tally: &mut Tally) {
    let begin = Instant::now();
    let outcome = attempt(target, input);
    let took = begin.elapsed();
    tally.executions += 1;
    tally.elapsed += took;
    tally.longest = tally.longest.max(took);
    let Err(fault) = outcome else {
        return;
    };
    if tally
        .failures
        .iter()
        .any(|known| known.fault.place == fault.place)
    {
        return;
    }
    tally.keep(Failure {
        target: target.name,
        input: minimise(target, input, &fault),
        fault,
    });
}

/// Writes the input of a failure into `folder`; the file.
///
/// # Errors
/// If it cannot be written.
pub fn save(folder: &Path, failure: &Failure) -> io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let mark = crc32fast::hash(&failure.input);
    let path = folder.join(format!("{}-{mark:08x}", failure.target));
    fs::write(&path, &failure.input)?;
    Ok(path)
}
