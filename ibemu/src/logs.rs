//! The logs of a fabric's processes.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::dir::FabricDir;

/// How much of a log's end is read.
const TAIL_BYTES: u64 = 8 * 1024;
/// The longest line that is quoted, characters.
const QUOTED_MAX: usize = 400;

/// The last line of a log that is not blank.
#[must_use]
pub fn last_line(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))
        .ok()?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(line.chars().take(QUOTED_MAX).collect())
}

/// Copies the fabric's logs to a new directory under the system's temporary one, and returns it;
/// `None` if there is none.
///
/// # Errors
/// If they cannot be copied.
pub fn keep(dir: &FabricDir) -> Result<Option<PathBuf>> {
    let logs = dir.logs();
    let Ok(entries) = fs::read_dir(&logs) else {
        return Ok(None);
    };
    let kept = fresh_directory(dir)?;
    let failed = || format!("cannot copy the logs to {}", kept.display());
    let mut copied = 0;
    for entry in entries {
        let entry = entry.with_context(failed)?;
        if entry.metadata().with_context(failed)?.len() > 0 {
            fs::copy(entry.path(), kept.join(entry.file_name())).with_context(failed)?;
            copied += 1;
        }
    }
    if copied == 0 {
        fs::remove_dir(&kept).with_context(failed)?;
        return Ok(None);
    }
    Ok(Some(kept))
}

/// A new directory that only this user can read.
fn fresh_directory(dir: &FabricDir) -> Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt;
    let parent = std::env::temp_dir();
    let process = std::process::id();
    for attempt in 0..1000 {
        let path = parent.join(format!("ibemu-{}-logs-{process}-{attempt}", dir.fabric()));
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot create {}", path.display()));
            }
        }
    }
    anyhow::bail!("too many kept logs in {}; remove some", parent.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_found_behind_blank_ones_and_in_long_logs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.log");
        assert_eq!(last_line(&path), None);
        fs::write(&path, "").unwrap();
        assert_eq!(last_line(&path), None);
        fs::write(
            &path,
            format!("{}first\nlast\n\n  \n", "x\n".repeat(20_000)),
        )
        .unwrap();
        assert_eq!(last_line(&path).as_deref(), Some("last"));
    }

    #[test]
    fn kept_logs_outlive_the_directory_and_empty_ones_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let dir = FabricDir::at(&folder.path().join("ib")).unwrap();
        dir.create().unwrap();
        assert_eq!(keep(&dir).unwrap(), None);
        fs::write(dir.log("s0"), "trouble\n").unwrap();
        fs::write(dir.log("h0"), "").unwrap();
        let kept = keep(&dir).unwrap().unwrap();
        dir.remove().unwrap();
        assert_eq!(
            fs::read_to_string(kept.join("s0.log")).unwrap(),
            "trouble\n"
        );
        assert!(!kept.join("h0.log").exists());
        fs::remove_dir_all(kept).unwrap();
    }
}
