//! What the user says of the levels of the fabric (`--roots`, `--io-guids`, `--compute-guids`), as GUIDs
//! in the fabric's directory, so that a controller that is restarted finds them.

use anyhow::Result;
use routing::guid_list;

use crate::dir::{self, FabricDir};
use crate::levels::LevelGuids;

/// Puts the GUIDs where the controller reads them.
///
/// # Errors
/// If a file cannot be written.
pub(super) fn keep(dir: &FabricDir, levels: &LevelGuids) -> Result<()> {
    for (name, guids) in [
        (dir::ROOTS, &levels.roots),
        (dir::IO_GUIDS, &levels.io_guids),
        (dir::COMPUTE_GUIDS, &levels.compute_guids),
    ] {
        if !guids.is_empty() {
            dir.require()?
                .replace(name, guid_list::write(guids).as_bytes())?;
        }
    }
    Ok(())
}
