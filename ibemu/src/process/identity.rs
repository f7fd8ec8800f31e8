//! The user of a process, and what it runs. Every user can start a process with any command line and any
//! environment; its user and its executable are what the kernel states.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Child;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::ProcessId;

/// A file, whatever its path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileId {
    /// The file system's device.
    device: u64,
    /// The file's number on it.
    inode: u64,
}

impl FileId {
    /// The file at `path`, links followed.
    ///
    /// # Errors
    /// If there is none, or it may not be looked at.
    pub fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        })
    }

    /// What process `pid` runs, even if that file was replaced meanwhile; `None` for another user's
    /// process (unless asked by root).
    #[must_use]
    pub fn executable(pid: u32) -> Option<Self> {
        Self::of(Path::new(&format!("/proc/{pid}/exe"))).ok()
    }
}

/// A process as it is written into the fabric's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessRecord {
    /// Which it is.
    #[serde(flatten)]
    pub id: ProcessId,
    /// What it runs; unknown in files of earlier versions.
    #[serde(default)]
    pub executable: Option<FileId>,
}

impl ProcessRecord {
    /// The process that has number `pid` now; `None` if there is none.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let executable = FileId::executable(pid);
        ProcessId::of(pid).map(|id| Self { id, executable })
    }

    /// A child that has not been waited for, see [`ProcessId::of_child`].
    #[must_use]
    pub fn of_child(child: &Child) -> Option<Self> {
        let executable = FileId::executable(child.id());
        ProcessId::of_child(child).map(|id| Self { id, executable })
    }

    /// The calling process.
    ///
    /// # Errors
    /// If `/proc` is not mounted.
    pub fn own() -> Result<Self> {
        Self::of(std::process::id()).context("cannot read /proc/self/stat; is /proc mounted?")
    }

    /// Whether it still runs, as user `uid`, what it ran when it was written down.
    #[must_use]
    pub fn is_alive_as(&self, uid: u32) -> bool {
        let same_program =
            || self.executable.is_none() || self.executable == FileId::executable(self.id.pid);
        self.id.is_alive() && runs_as(self.id.pid, uid) && same_program()
    }
}

/// Whether both the real and the effective user of process `pid` are `uid`.
#[must_use]
pub fn runs_as(pid: u32, uid: u32) -> bool {
    let status = fs::read(format!("/proc/{pid}/status")).unwrap_or_default();
    real_and_effective(&String::from_utf8_lossy(&status)) == Some([uid, uid])
}

/// The first two user ids in the text of `/proc/<pid>/status`. The command's name comes before
/// them, but without line ends: the kernel escapes them.
fn real_and_effective(status: &str) -> Option<[u32; 2]> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let mut ids = line.split_ascii_whitespace().map(str::parse);
    Some([ids.next()?.ok()?, ids.next()?.ok()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_ids_are_read_from_the_status() {
        let status = "Name:\tUid: 7\nUmask:\t0022\nUid:\t1000\t0\t0\t0\nGid:\t5\t5\t5\t5\n";
        assert_eq!(real_and_effective(status), Some([1000, 0]));
        assert_eq!(real_and_effective("Name:\tx\n"), None);
    }

    #[test]
    fn a_record_fits_its_process_its_user_and_its_program_only() {
        let own = ProcessRecord::own().unwrap();
        let uid = netio::process::effective_uid();
        assert!(own.is_alive_as(uid));
        assert!(!own.is_alive_as(uid + 1));
        let other = ProcessRecord {
            executable: FileId::of(Path::new("/proc/self/status")).ok(),
            ..own
        };
        assert!(!other.is_alive_as(uid));
    }

    #[test]
    fn a_record_of_an_earlier_version_has_no_executable() {
        let record: ProcessRecord = serde_json::from_str(r#"{"pid":7,"start":8}"#).unwrap();
        assert_eq!((record.id.pid, record.executable), (7, None));
        let own = ProcessRecord::own().unwrap();
        let text = serde_json::to_string(&own).unwrap();
        assert_eq!(serde_json::from_str::<ProcessRecord>(&text).unwrap(), own);
    }
}
