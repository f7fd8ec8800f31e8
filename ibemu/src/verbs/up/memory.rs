//! What the controller is to remember before it has seen anything: the file `guid2lid` of an earlier fabric
//! (`--guid2lid`), else what `auto` has taken for the topology, which is measured here already, so that the
//! controller need not measure it once more.

use anyhow::Result;
use controller::{KeptChoice, guid2lid_of};

use crate::cli::{Sm, Up};
use crate::dir::{self, FabricDir};
use crate::usage::{self, UsageError};

/// A file that the user brings.
#[derive(Debug)]
pub(super) struct Given {
    text: String,
    /// What `auto` had taken.
    pub(super) choice: Option<KeptChoice>,
}

/// The file, if the user brings one.
///
/// # Errors
/// [`UsageError`] with file and line if it cannot be read, or no controller would use it.
pub(super) fn given(options: &Up) -> Result<Option<Given>> {
    let Some(path) = &options.guid2lid else {
        return Ok(None);
    };
    if options.sm == Sm::None {
        let text = "--guid2lid is for ibemu's own controller, and --sm none starts none";
        return Err(UsageError(text.to_owned()).into());
    }
    let text = usage::text_of(path, "guid2lid file")?;
    let choice = KeptChoice::read(&text)
        .map_err(|problem| UsageError(format!("{}: {problem}", path.display())))?;
    Ok(Some(Given { text, choice }))
}

/// Puts the text where the controller reads it.
///
/// # Errors
/// If it cannot be written.
pub(super) fn keep(
    dir: &FabricDir,
    given: Option<&Given>,
    taken: Option<&KeptChoice>,
) -> Result<()> {
    let text = match (given, taken) {
        (Some(given), _) => given.text.clone(),
        (None, Some(taken)) => guid2lid_of(taken),
        (None, None) => return Ok(()),
    };
    Ok(dir.require()?.replace(dir::GUID2LID, text.as_bytes())?)
}
