//! Runs a schedule: brings a twin up, injects the faults, waits until the fabric is quiet again, and
//! checks what is left.

use std::panic::{AssertUnwindSafe, catch_unwind};

use sim::Interposer;

use crate::bed::Bed;
use crate::outcome::{Failure, FailureKind, Outcome};
use crate::schedule::Schedule;

/// Runs a schedule. A panic of the code under test is a failure like others.
#[must_use]
pub fn run(schedule: &Schedule) -> Outcome {
    run_with(schedule, &|| None)
}

/// Runs a schedule with something between the ends of all cables, which `interposer` makes: for
/// tests of the campaign itself.
#[must_use]
pub fn run_with(
    schedule: &Schedule,
    interposer: &dyn Fn() -> Option<Box<dyn Interposer>>,
) -> Outcome {
    let attempt = catch_unwind(AssertUnwindSafe(|| match schedule.is_managed {
        true => attempt(schedule, interposer()),
        false => crate::dataplane::run(schedule),
    }));
    attempt.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let what = text.unwrap_or("without a message").to_owned();
        Outcome::failed_before(FailureKind::Panic, what)
    })
}

fn attempt(schedule: &Schedule, interposer: Option<Box<dyn Interposer>>) -> Outcome {
    let mut bed = match Bed::new(schedule) {
        Ok(bed) => bed,
        Err(what) => return Outcome::failed_before(FailureKind::Setup, what),
    };
    if let Some(interposer) = interposer {
        bed.twin.interpose(interposer);
    }
    let failure = play(&mut bed).err();
    bed.outcome(failure)
}

fn play(bed: &mut Bed<'_>) -> Result<(), Failure> {
    if !bed.schedule.from_start {
        bed.come_up()?;
    }
    bed.run_schedule()?;
    if bed.has_liars() {
        return crate::lies::check(bed);
    }
    bed.settle()?;
    let expected = crate::tables::check(bed)?;
    crate::probes::check(bed, &expected)?;
    crate::keys::check(bed)?;
    bed.rest()
}
