//! `ibemu restart`: stops a device or the controller and starts it again.

use anyhow::{Context, Result};

use crate::cli::Restart;
use crate::dir::FabricDir;
use crate::names::FabricName;
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
        Ok(node) => Target::Device(u32::try_from(node)?),
        Err(_) if options.node == "controller" => Target::Controller,
        Err(error) => return Err(error),
    };
    let mut client = supervisor::ensure(&dir).await?;
    client
        .ask(&Request::Restart { what })
        .await
        .with_context(|| format!("cannot restart {}", options.node))?;
    output::line(format!("{} runs again", options.node))
}
