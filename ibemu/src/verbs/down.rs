//! `ibemu down`: takes a fabric down.

use anyhow::{Result, bail};

use crate::cli::Down;
use crate::dir::{self, FabricDir};
use crate::names::FabricName;
use crate::output;
use crate::state::FabricState;
use crate::teardown;

/// Takes down `fabric`, or all.
///
/// # Errors
/// If there is no such fabric, or something cannot be removed.
pub async fn run(fabric: &FabricName, options: &Down) -> Result<()> {
    if !options.all {
        return one(fabric).await;
    }
    let fabrics = dir::fabrics()?;
    if fabrics.is_empty() {
        return output::line(format!("no fabric in {}", dir::runtime().display()));
    }
    let mut failed = Vec::new();
    for fabric in &fabrics {
        if let Err(error) = one(fabric).await {
            failed.push(format!("{fabric}: {error:#}"));
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        bail!("{}", failed.join("\n"))
    }
}

async fn one(fabric: &FabricName) -> Result<()> {
    let dir = FabricDir::of(fabric);
    let state = FabricState::load(&dir).ok().flatten();
    let removed = teardown::down(&dir).await?;
    if let Some(FabricState { job: Some(job), .. }) = state {
        return output::line(format!(
            "fabric {fabric} is down on the {} machines of job {}",
            job.machines.len(),
            job.id
        ));
    }
    let Some(removed) = removed else {
        bail!(
            "there is no fabric {fabric} ({} does not exist)",
            dir.path().display()
        );
    };
    let guests = match removed.guests {
        0 => String::new(),
        guests => format!(", {guests} of them started by exec"),
    };
    output::line(format!(
        "fabric {fabric} is down: {} processes ended{guests}, {} namespaces removed",
        removed.processes + removed.guests,
        removed.namespaces
    ))
}
