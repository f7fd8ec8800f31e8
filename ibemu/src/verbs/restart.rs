//! `ibemu restart`: stops a device or a controller, starts it again, and waits until a device is configured.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::cli::Restart;
use crate::configured::Before;
use crate::dir::FabricDir;
use crate::names::{CONTROLLERS, FabricName};
use crate::output;
use crate::state::FabricState;
use crate::supervisor::{
    self,
    protocol::{Request, Target},
};

/// Restarts what is named.
///
/// # Errors
/// If there is no such node, or it does not come back, or no subnet manager configures it although one is at work.
pub async fn run(fabric: &FabricName, options: &Restart) -> Result<()> {
    let dir = FabricDir::of(fabric);
    let state = FabricState::require(&dir)?;
    let name = &options.node;
    let limit = Duration::from_secs(options.timeout.into());
    let before = match state.find(name) {
        Ok(node) if !limit.is_zero() => {
            Some(Before::look(&dir, &state, state.device_of(node)).await)
        }
        _ => None,
    };
    what_is_named(&dir, &state, name).await?;
    if let Some(before) = before {
        let configured = before.wait(&dir, &state, limit).await;
        configured.with_context(|| format!("{name} runs again, but cannot be used yet"))?;
    }
    output::line(format!("{name} runs again"))
}

/// Restarts the device or controller of that name.
///
/// # Errors
/// As [`run`].
pub(crate) async fn what_is_named(dir: &FabricDir, state: &FabricState, name: &str) -> Result<()> {
    let what = match state.find(name) {
        Ok(node) => Target::Device(u32::try_from(state.device_of(node))?),
        Err(error) => {
            let position = CONTROLLERS.iter().position(|own| *own == name);
            let controller = position.ok_or(error)?;
            Target::Controller(u32::try_from(controller)?)
        }
    };
    let mut client = supervisor::ensure(dir).await?;
    let answer = client.ask(&Request::Restart { what }).await;
    answer.with_context(|| format!("cannot restart {name}"))?;
    Ok(())
}
