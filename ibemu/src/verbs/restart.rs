//! `ibemu restart`: stops a device or a controller and starts it again.

use anyhow::{Context, Result};

use crate::cli::Restart;
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
/// If there is no such node, or it does not come back.
pub async fn run(fabric: &FabricName, options: &Restart) -> Result<()> {
    let dir = FabricDir::of(fabric);
    let state = FabricState::require(&dir)?;
    what_is_named(&dir, &state, &options.node).await?;
    output::line(format!("{} runs again", options.node))
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
