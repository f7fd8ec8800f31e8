//! A log file that does not grow without end.
//!
//! At a given length the file `NAME` becomes `NAME.1`, in place of an older one, and a new `NAME`
//! begins: the two hold twice the length at most. Where no other file can be made, the log begins anew
//! in the one that is open. Standard output and standard error of the process follow if they lead
//! to the file, so that a panic's message is in the log.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::fstat;
use rustix::stdio::{dup2_stderr, dup2_stdout};
use wire::convert::u64_of;

use crate::NetError;
use crate::directory::PrivateDirectory;

/// A log file.
#[derive(Debug)]
pub struct LogFile {
    directory: PrivateDirectory,
    name: String,
    file: File,
    /// Its length, bytes: as found, and what was written since.
    length: u64,
    bytes_max: u64,
}

impl LogFile {
    /// Opens the file at `path`, to be appended to, and sets it aside when it would become longer
    /// than `bytes_max`.
    ///
    /// # Errors
    /// If it cannot be written; if its directory belongs to another user or can be written to by
    /// one.
    pub fn open(path: &Path, bytes_max: u64) -> Result<Self, NetError> {
        let what = || format!("log to {}", path.display());
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(NetError::refused(what(), "it is not the path of a file"));
        };
        let name = name
            .to_str()
            .ok_or_else(|| NetError::refused(what(), "its name is not UTF-8"))?;
        let parent = if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        };
        let directory = PrivateDirectory::open(parent)?;
        let file = directory.append(name)?;
        let length = file
            .metadata()
            .map_err(|cause| NetError::new(what(), cause))?
            .len();
        Ok(Self {
            directory,
            name: name.to_owned(),
            file,
            length,
            bytes_max,
        })
    }

    /// Appends `line`, which is all in one file.
    ///
    /// # Errors
    /// What the file system says. A part of the line may have been written.
    pub fn write_all(&mut self, line: &[u8]) -> io::Result<()> {
        let length = self.length.saturating_add(u64_of(line.len()));
        if self.length > 0 && length > self.bytes_max {
            self.begin_anew();
        }
        self.length = self.length.saturating_add(u64_of(line.len()));
        self.file.write_all(line)
    }

    fn begin_anew(&mut self) {
        match self.replace() {
            Ok(new) => {
                let old = std::mem::replace(&mut self.file, new);
                redirect(&old, &self.file);
            }
            // There may be no room for another file; the log is bounded nevertheless.
            Err(_) => {
                let _ = self.file.set_len(0);
            }
        }
        self.length = 0;
    }

    /// Sets the file aside; the one that takes its place.
    fn replace(&self) -> Result<File, NetError> {
        let draft = format!("{}.new", self.name);
        let new = self.directory.append(&draft)?;
        self.directory
            .rename(&self.name, &format!("{}.1", self.name))?;
        self.directory.rename(&draft, &self.name)?;
        Ok(new)
    }
}

/// Leads standard output and standard error to `new` if they lead to `old`.
fn redirect(old: &File, new: &File) {
    let same = |other: std::os::fd::BorrowedFd<'_>| match (fstat(old), fstat(other)) {
        (Ok(old), Ok(other)) => (old.st_dev, old.st_ino) == (other.st_dev, other.st_ino),
        _ => false,
    };
    // Where that fails they lead to the older file, as before.
    if same(io::stdout().as_fd()) {
        let _ = dup2_stdout(new);
    }
    if same(io::stderr().as_fd()) {
        let _ = dup2_stderr(new);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_log_goes_on_where_it_was_and_is_never_longer_than_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.log");
        fs::write(&path, "before\n").unwrap();
        let mut log = LogFile::open(&path, 30).unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        for number in 10..14 {
            log.write_all(format!("line {number}\n").as_bytes())
                .unwrap();
        }
        assert_eq!(read("x.log.1"), "before\nline 10\nline 11\n");
        assert_eq!(read("x.log"), "line 12\nline 13\n");
        log.write_all(&[b'y'; 100]).unwrap();
        assert_eq!(read("x.log.1"), "line 12\nline 13\n");
        assert_eq!(read("x.log").len(), 100, "one line is never divided");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_log_that_cannot_be_set_aside_begins_anew_in_the_same_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.log");
        let mut log = LogFile::open(&path, 30).unwrap();
        // The name of the draft is taken by what cannot be opened as a file.
        fs::create_dir(folder.path().join("x.log.new")).unwrap();
        for number in 0..100 {
            log.write_all(format!("line {number}\n").as_bytes())
                .unwrap();
            assert!(fs::metadata(&path).unwrap().len() <= 30);
        }
        assert!(fs::read_to_string(&path).unwrap().ends_with("line 99\n"));
    }
}
