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
    let what = match state.find(&options.node) {
        Ok(node) => Target::Device(u32::try_from(state.device_of(node))?),
        Err(error) => {
            let position = CONTROLLERS.iter().position(|name| *name == options.node);
            let controller = position.ok_or(error)?;
            Target::Controller(u32::try_from(controller)?)
        }
    };
    let mut client = supervisor::ensure(&dir).await?;
    client
        .ask(&Request::Restart { what })
        .await
        .with_context(|| format!("cannot restart {}", options.node))?;
    output::line(format!("{} runs again", options.node))
}
