//! The M_Key that the user brings or has drawn (`--m-key`), and the SM_Key of trusted requests
//! (`--sa-key`). A key is copied into the fabric's directory,
//! which no other user can read, so that a controller that is restarted has it; command lines, logs and
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
    read_or_draw(path).map(Some)
}

fn draw() -> Result<MKey> {
    loop {
        if let Some(key) = MKey::new(netio::random::number()?) {
            return Ok(key);
        }
    }
}

/// The SM_Key of trusted requests to subnet administration, if the user chooses one.
///
/// # Errors
/// As [`given`].
pub(super) fn given_sa_key(options: &Up) -> Result<Option<MKey>> {
    let Some(path) = &options.sa_key else {
        return Ok(None);
    };
    if options.sm == Sm::None {
        let text = "--sa-key is for ibemu's own controller; OpenSM has sa_key in its configuration";
        return Err(UsageError(text.into()).into());
    }
    read_or_draw(path).map(Some)
}

fn read_or_draw(path: &Path) -> Result<MKey> {
    if path == Path::new(RANDOM) {
        return draw();
    }
    let text = read_secret(path).map_err(|error| UsageError(error.to_string()))?;
    let key = MKey::read(&text)
        .map_err(|problem| UsageError(format!("{}, {problem}", path.display())))?;
    Ok(key)
}

/// Puts the keys where the controller and the commands that ask switches read it.
///
/// # Errors
/// If it cannot be written.
pub(super) fn keep(dir: &FabricDir, m_key: Option<MKey>, sa_key: Option<MKey>) -> Result<()> {
    for (name, key) in [(dir::M_KEY, m_key), (dir::SA_KEY, sa_key)] {
        if let Some(key) = key {
            dir.require()?.replace(name, key.write().as_bytes())?;
        }
    }
    Ok(())
}
