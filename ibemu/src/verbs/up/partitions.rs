//! The partitions that the user brings (`--partitions`). They are checked before anything of the fabric is
//! created, and copied into the fabric's directory, so that a controller that is restarted finds them.

use anyhow::Result;
use controller::Partitions;

use crate::cli::{Sm, Up};
use crate::dir::{self, FabricDir};
use crate::usage::UsageError;

/// The longest text of partitions, bytes.
const BYTES_MAX: usize = 1 << 20;

/// The text of the partitions, if the user brings any.
///
/// # Errors
/// [`UsageError`] with file and line if it cannot be read, or no controller would use it.
pub(super) fn given(options: &Up) -> Result<Option<String>> {
    let Some(path) = &options.partitions else {
        return Ok(None);
    };
    if options.sm == Sm::None {
        let text = "--partitions is for ibemu's own controller; OpenSM takes the file by -P";
        return Err(UsageError(text.into()).into());
    }
    let text = topologies::read_bounded(path, "partition file", BYTES_MAX)
        .map_err(|error| UsageError(format!("cannot read {}: {error}", path.display())))?;
    Partitions::read(&text)
        .map_err(|problem| UsageError(format!("{}, {problem}", path.display())))?;
    Ok(Some(text))
}

/// Puts the text where the controller reads it.
///
/// # Errors
/// If it cannot be written.
pub(super) fn keep(dir: &FabricDir, text: Option<&str>) -> Result<()> {
    let Some(text) = text else {
        return Ok(());
    };
    Ok(dir.require()?.replace(dir::PARTITIONS, text.as_bytes())?)
}
