//! The logs of a fabric's processes.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write as _};
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::dir::{self, FabricDir};

/// How much of a log's end is read.
const TAIL_BYTES: u64 = 8 * 1024;
/// Room that a log must have for its last words to be complete: more than what is left of a block of
/// the disk.
const ROOM_BYTES: usize = 8 * 1024;
/// The longest line that is quoted, characters.
const QUOTED_MAX: usize = 400;

/// The last line of a log that is not blank; of the older file, if the log has just begun anew.
#[must_use]
pub fn last_line(dir: &FabricDir, handle: &str) -> Option<String> {
    let logs = dir.open().ok()??.open_below(dir::LOGS).ok()?;
    let last = |name: String| last_line_of(logs.open_to_read(&name).ok()?);
    last(format!("{handle}.log")).or_else(|| last(format!("{handle}.log.1")))
}

fn last_line_of(mut file: File) -> Option<String> {
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))
        .ok()?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(line.chars().take(QUOTED_MAX).collect())
}

/// The end of the log of a process that has ended, to be shown behind how it ended: the last line, and
/// why it may be missing others, if nothing can be written there (a full disk). Empty if there is
/// nothing to say.
#[must_use]
pub fn log_tail_note(dir: &FabricDir, handle: &str) -> String {
    let line = last_line(dir, handle);
    let line = line.map_or_else(String::new, |line| {
        format!("; last line of its log: {line}")
    });
    match try_to_write(dir, handle) {
        Ok(()) => line,
        Err(error) => format!("{line}; its log cannot be written: {error:#}"),
    }
}

/// Writes blank lines behind a log, and takes them away again: whether there was room for words.
fn try_to_write(dir: &FabricDir, handle: &str) -> Result<()> {
    let mut file = dir.append_log(handle)?;
    let length = file.metadata()?.len();
    let written = file.write_all(&[b'\n'; ROOM_BYTES]);
    file.set_len(length)?;
    Ok(written?)
}

/// Copies the fabric's logs to a new directory under the system's temporary one, and returns it;
/// `None` if there is none.
///
/// # Errors
/// If they cannot be copied.
pub fn keep(dir: &FabricDir) -> Result<Option<PathBuf>> {
    let Some(directory) = dir.open()? else {
        return Ok(None);
    };
    let Ok(logs) = directory.open_below(dir::LOGS) else {
        return Ok(None);
    };
    let entries = fs::read_dir(logs.path())
        .with_context(|| format!("cannot read {}", logs.path().display()))?;
    let kept = fresh_directory(dir)?;
    let failed = || format!("cannot copy the logs to {}", kept.display());
    let mut copied = 0;
    for entry in entries {
        let entry = entry.with_context(failed)?;
        let name = entry.file_name();
        if let Some(name) = name.to_str()
            && entry.metadata().with_context(failed)?.len() > 0
        {
            let mut log = logs.open_to_read(name)?;
            let mut copy = File::create_new(kept.join(name)).with_context(failed)?;
            io::copy(&mut log, &mut copy).with_context(failed)?;
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
        let dir = FabricDir::at(&folder.path().join("ib")).unwrap();
        dir.create().unwrap();
        let path = dir.log("x");
        assert_eq!(last_line(&dir, "x"), None);
        fs::write(&path, "").unwrap();
        assert_eq!(last_line(&dir, "x"), None);
        fs::write(
            &path,
            format!("{}first\nlast\n\n  \n", "x\n".repeat(20_000)),
        )
        .unwrap();
        assert_eq!(last_line(&dir, "x").as_deref(), Some("last"));
        fs::rename(&path, dir.logs().join("x.log.1")).unwrap();
        fs::write(&path, "").unwrap();
        assert_eq!(last_line(&dir, "x").as_deref(), Some("last"));
    }

    #[test]
    fn the_note_names_the_last_line_and_what_keeps_a_log_from_being_written() {
        let folder = tempfile::tempdir().unwrap();
        let dir = FabricDir::at(&folder.path().join("ib")).unwrap();
        dir.create().unwrap();
        assert_eq!(log_tail_note(&dir, "x"), "");
        fs::write(dir.log("x"), "why\n").unwrap();
        assert_eq!(log_tail_note(&dir, "x"), "; last line of its log: why");
        assert_eq!(fs::read_to_string(dir.log("x")).unwrap(), "why\n");
        fs::create_dir(dir.log("y")).unwrap();
        let words = log_tail_note(&dir, "y");
        assert!(
            words.contains("cannot be written") && words.contains("directory"),
            "{words}"
        );
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
