//! Directories that no other user can change, and their files.
//!
//! What such a directory holds decides which processes are ended and which files are appended to. So it
//! must belong to this process's user or to root, and no other user may write to it. Files are
//! opened relative to its descriptor, so that it cannot be exchanged for another one meanwhile, and
//! symbolic links in it are never followed.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fchmod, fstat, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;

use crate::NetError;
use crate::process::effective_uid;

/// Advice for a directory that is not safe to use.
const REMEDY: &str =
    "set IBEMU_RUNTIME_DIR to a directory of your own that no other user can write to";

/// Permission of group and others to write.
const OTHERS_WRITE: u32 = 0o022;

/// An open directory that belongs to this process's user or to root, and that no other user can
/// change.
#[derive(Debug)]
pub struct PrivateDirectory {
    fd: OwnedFd,
    path: PathBuf,
}

impl PrivateDirectory {
    /// Opens the directory at `path`, which is no symbolic link.
    ///
    /// # Errors
    /// `NotFound` if there is none; `PermissionDenied` if another user owns it or can write to it.
    pub fn open(path: &Path) -> Result<Self, NetError> {
        // Without a slash at the end, behind which a symbolic link would be followed.
        let path: PathBuf = path.components().collect();
        Self::open_at(CWD, &path, path.clone())
    }

    /// Opens the directory `name` in this one.
    ///
    /// # Errors
    /// As [`PrivateDirectory::open`].
    pub fn open_below(&self, name: &str) -> Result<Self, NetError> {
        Self::open_at(&self.fd, Path::new(name), self.path.join(name))
    }

    fn open_at(
        parent: impl std::os::fd::AsFd,
        name: &Path,
        path: PathBuf,
    ) -> Result<Self, NetError> {
        let what = || format!("use the directory {}", path.display());
        let refused = |why: String| {
            let cause = io::Error::new(io::ErrorKind::PermissionDenied, why);
            NetError::new(what(), cause).with_remedy(REMEDY)
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match openat(parent, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOTDIR | Errno::LOOP) => {
                return Err(refused("it is a symbolic link, or no directory".to_owned()));
            }
            Err(errno) => return Err(NetError::new(what(), errno.into()).with_remedy(REMEDY)),
        };
        let status = fstat(&fd).map_err(|errno| NetError::new(what(), errno.into()))?;
        if status.st_uid != effective_uid() && status.st_uid != 0 {
            return Err(refused(format!(
                "it belongs to user {}, not to user {}",
                status.st_uid,
                effective_uid()
            )));
        }
        if status.st_mode & OTHERS_WRITE != 0 {
            return Err(refused(format!(
                "other users can write to it (mode {:04o})",
                status.st_mode & 0o7777
            )));
        }
        Ok(Self { fd, path })
    }

    /// Its path, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the directory `name` in this one, for this user only.
    ///
    /// # Errors
    /// `AlreadyExists` if there is something of that name; else what the file system says.
    pub fn create_below(&self, name: &str) -> Result<(), NetError> {
        mkdirat(&self.fd, name, Mode::RWXU).map_err(|errno| self.failed("create", name, errno))
    }

    /// The content of the file `name`.
    ///
    /// # Errors
    /// `NotFound` if there is none; else what the file system says, also of a symbolic link.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, NetError> {
        let mut file = self.open_file("read", name, OFlags::RDONLY)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)
            .map_err(|error| NetError::new(self.what("read", name), error))?;
        Ok(bytes)
    }

    /// Opens the file `name` to be read.
    ///
    /// # Errors
    /// As [`PrivateDirectory::read`].
    pub fn open_to_read(&self, name: &str) -> Result<File, NetError> {
        self.open_file("read", name, OFlags::RDONLY)
    }

    /// Opens the file `name` so that everything written is appended; makes it if it is not there.
    ///
    /// # Errors
    /// The file system's error, also for a symbolic link.
    pub fn append(&self, name: &str) -> Result<File, NetError> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
        self.open_file("append to", name, flags)
    }

    /// Gives the file `name` this content, so that a reader finds the old one or the new one, never
    /// half of it.
    ///
    /// # Errors
    /// The file system's error. Then the old content stands, and nothing else is left.
    pub fn replace(&self, name: &str, content: &[u8]) -> Result<(), NetError> {
        self.replace_with(name, content, Mode::RUSR | Mode::WUSR)
    }

    /// As [`Self::replace`], a file that other users can read where they can reach it.
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub fn replace_for_all(&self, name: &str, content: &[u8]) -> Result<(), NetError> {
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        self.replace_with(name, content, mode)
    }

    fn replace_with(&self, name: &str, content: &[u8], mode: Mode) -> Result<(), NetError> {
        let draft = format!("{name}.new");
        let replaced = self.write_and_rename(&draft, name, content, mode);
        if replaced.is_err() {
            // On a full disk it would keep room from others. It may not be there.
            let _ = unlinkat(&self.fd, &draft, AtFlags::empty());
        }
        replaced
    }

    fn write_and_rename(
        &self,
        draft: &str,
        name: &str,
        content: &[u8],
        mode: Mode,
    ) -> Result<(), NetError> {
        let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::CREATE;
        let mut file = self.open_file("write", draft, flags)?;
        file.write_all(content)
            .map_err(|error| NetError::new(self.what("write", draft), error))?;
        // The umask does not count.
        fchmod(&file, mode).map_err(|errno| self.failed("write", draft, errno))?;
        renameat(&self.fd, draft, &self.fd, name).map_err(|errno| self.failed("write", name, errno))
    }

    /// Gives the file `from` the name `to`; one that had it goes.
    ///
    /// # Errors
    /// `NotFound` if there is none; else what the file system says.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), NetError> {
        renameat(&self.fd, from, &self.fd, to).map_err(|errno| self.failed("rename", from, errno))
    }

    fn open_file(&self, verb: &str, name: &str, flags: OFlags) -> Result<File, NetError> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR)
            .map(File::from)
            .map_err(|errno| self.failed(verb, name, errno))
    }

    fn what(&self, verb: &str, name: &str) -> String {
        format!("{verb} {}", self.path.join(name).display())
    }

    fn failed(&self, verb: &str, name: &str, errno: Errno) -> NetError {
        let remedy = match errno {
            Errno::LOOP => "it is a symbolic link, which ibemu never makes there: remove it",
            Errno::ACCESS | Errno::PERM => REMEDY,
            _ => "",
        };
        NetError::new(self.what(verb, name), errno.into()).with_remedy(remedy)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    fn refusal(path: &Path) -> String {
        let error = PrivateDirectory::open(path).unwrap_err();
        assert_eq!(error.cause.kind(), io::ErrorKind::PermissionDenied);
        error.to_string()
    }

    #[test]
    fn a_directory_of_another_user_or_one_that_others_write_to_or_a_link_is_refused() {
        assert_eq!(
            effective_uid(),
            0,
            "this test gives a directory to another user: run it as root (tests/run.sh does)"
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        assert_eq!(
            PrivateDirectory::open(&path).unwrap_err().cause.kind(),
            io::ErrorKind::NotFound
        );
        fs::create_dir(&path).unwrap();
        for (mode, accepted) in [
            (0o700, true),
            (0o755, true),
            (0o775, false),
            (0o1777, false),
        ] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(PrivateDirectory::open(&path).is_ok(), accepted, "{mode:o}");
        }
        let open = refusal(&path);
        assert!(
            open.contains("mode 1777") && open.contains("IBEMU_RUNTIME_DIR"),
            "{open}"
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(refusal(&link).contains("symbolic link"));
        assert!(
            refusal(&link.join("")).contains("symbolic link"),
            "a slash at the end"
        );
        chown(&path, Some(65534), None).unwrap();
        assert!(refusal(&path).contains("belongs to user 65534"));
    }

    #[test]
    fn a_link_among_the_files_is_never_followed() {
        let folder = tempfile::tempdir().unwrap();
        let directory = PrivateDirectory::open(folder.path()).unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, folder.path().join("x.log")).unwrap();
        symlink(&victim, folder.path().join("state.new")).unwrap();
        directory.append("x.log").unwrap_err();
        directory.read("x.log").unwrap_err();
        directory.replace("state", b"1").unwrap_err();
        directory.open_below("x.log").unwrap_err();
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
    }

    #[test]
    fn a_file_that_cannot_be_replaced_leaves_no_draft() {
        let folder = tempfile::tempdir().unwrap();
        let directory = PrivateDirectory::open(folder.path()).unwrap();
        fs::create_dir(folder.path().join("state")).unwrap();
        directory.replace("state", b"1").unwrap_err();
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn files_are_appended_to_replaced_and_read() {
        let folder = tempfile::tempdir().unwrap();
        let top = PrivateDirectory::open(folder.path()).unwrap();
        top.create_below("x").unwrap();
        let directory = top.open_below("x").unwrap();
        for text in ["a", "b"] {
            let mut file = directory.append("log").unwrap();
            file.write_all(text.as_bytes()).unwrap();
            directory.replace("state", text.as_bytes()).unwrap();
        }
        assert_eq!(directory.read("log").unwrap(), b"ab");
        assert_eq!(directory.read("state").unwrap(), b"b");
        let mode = fs::metadata(directory.path().join("state"))
            .unwrap()
            .permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        directory.replace_for_all("names", b"c").unwrap();
        let names = fs::metadata(directory.path().join("names")).unwrap();
        assert_eq!(names.permissions().mode() & 0o777, 0o644);
    }
}
