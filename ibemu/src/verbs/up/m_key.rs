//! The M_Key that the user brings or has drawn (`--m-key`). It is copied into the fabric's directory,
//! which nobody else can read, so that a controller that is restarted has it; command lines, logs and
//! `fabric.json` hold its file's name only.

use std::path::Path;

use anyhow::Result;
use netio::secret_file::read_secret;
use wire::MKey;

use crate::cli::{Sm, Up};
use crate::dir::{self, FabricDir};
use crate::usage::UsageError;

/// What stands for a key to be drawn.
const RANDOM: &str = "random";

/// The key, if the subnet is to have one.
///
/// # Errors
/// [`UsageError`] if its file cannot be used, or no controller would set it.
pub(super) fn given(options: &Up) -> Result<Option<MKey>> {
    let Some(path) = &options.m_key else {
        return Ok(None);
    };
    if options.sm == Sm::None {
        let text =
            "--m-key is for ibemu's own controller; give your subnet manager its key yourself";
        return Err(UsageError(text.into()).into());
    }
    if path == Path::new(RANDOM) {
        return draw().map(Some);
    }
    let text = read_secret(path).map_err(|error| UsageError(error.to_string()))?;
    let key = MKey::read(&text)
        .map_err(|problem| UsageError(format!("{}, {problem}", path.display())))?;
    Ok(Some(key))
}

fn draw() -> Result<MKey> {
    loop {
        if let Some(key) = MKey::new(netio::random::number()?) {
            return Ok(key);
        }
    }
}

/// Puts the key where the controller and the commands that ask switches read it.
///
/// # Errors
/// If it cannot be written.
pub(super) fn keep(dir: &FabricDir, key: Option<MKey>) -> Result<()> {
    let Some(key) = key else {
        return Ok(());
    };
    Ok(dir.require()?.replace(dir::M_KEY, key.write().as_bytes())?)
}
