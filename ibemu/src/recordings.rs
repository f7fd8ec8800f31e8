//! Folders and files of recordings.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::usage::UsageError;

/// Written into a folder to see whether that works, and removed again.
const PROBE: &str = ".probe";

/// Makes a folder for recordings; its absolute path.
///
/// # Errors
/// [`UsageError`] if there is something in it already: recordings of several fabrics would be
/// taken for one; else if it cannot be made or written to.
pub fn prepare(folder: &Path) -> Result<PathBuf> {
    let failed = || format!("cannot record to {}", folder.display());
    fs::create_dir_all(folder).with_context(failed)?;
    let folder = fs::canonicalize(folder).with_context(failed)?;
    if fs::read_dir(&folder).with_context(failed)?.next().is_some() {
        return Err(UsageError(format!(
            "--record {}: the folder is not empty; name a new one",
            folder.display()
        ))
        .into());
    }
    let probe = folder.join(PROBE);
    fs::write(&probe, PROBE)
        .and_then(|()| fs::remove_file(&probe))
        .with_context(failed)?;
    Ok(folder)
}

/// The file for the recording of a device that is started now: `<handle>.rec`, and after a restart
/// `<handle>.2.rec` and so on.
#[must_use]
pub fn file(folder: &Path, handle: &str) -> PathBuf {
    let first = folder.join(format!("{handle}.rec"));
    let later = (2u32..).map(|life| folder.join(format!("{handle}.{life}.rec")));
    // A folder holds fewer files than there are numbers.
    std::iter::once(first.clone())
        .chain(later)
        .find(|path| !path.exists())
        .unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_life_of_a_device_has_a_file_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        for expected in ["s0.rec", "s0.2.rec", "s0.3.rec"] {
            let path = file(folder.path(), "s0");
            assert_eq!(path, folder.path().join(expected));
            fs::write(path, "").unwrap();
        }
        assert!(file(folder.path(), "s1").ends_with("s1.rec"));
    }

    #[test]
    fn a_folder_that_is_not_empty_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let new = folder.path().join("a/b");
        assert_eq!(prepare(&new).unwrap(), fs::canonicalize(&new).unwrap());
        let error = prepare(folder.path()).unwrap_err();
        assert!(error.downcast_ref::<UsageError>().is_some(), "{error}");
    }
}
