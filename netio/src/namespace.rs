//! Named network namespaces, as `ip netns` keeps them: a bind mount of the namespace on
//! `/run/netns/<name>`, so that `ip netns list`, `ip netns exec` and this module see the same.
//!
//! A thread enters a namespace for good ([`Namespace::enter`]); [`Namespace::run`] therefore uses a
//! thread of its own, and [`Namespace::join_command`] enters between fork and exec.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use crate::NetError;
use crate::error::check;

/// Where named namespaces are mounted.
pub const DIRECTORY: &str = "/run/netns";

/// An open namespace.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    file: File,
}

impl Namespace {
    /// Opens the namespace `name`.
    ///
    /// # Errors
    /// If there is none of that name, or it may not be opened.
    pub fn open(name: &str) -> Result<Self, NetError> {
        let file = File::open(path(name)?)
            .map_err(|source| NetError::new(format!("open network namespace {name}"), source))?;
        Ok(Self {
            name: name.to_owned(),
            file,
        })
    }

    /// Creates the namespace `name` and opens it. The loopback interface is left down.
    ///
    /// # Errors
    /// If the name is in use (`AlreadyExists`), or without the right to create namespaces.
    pub fn create(name: &str) -> Result<Self, NetError> {
        let path = path(name)?;
        let failed = |source| NetError::new(format!("create network namespace {name}"), source);
        make_directory()?;
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(|source| match source.kind() {
                io::ErrorKind::AlreadyExists => failed(source).with_remedy(
                    "it stands already: take the fabric of that name down, or choose another with --fabric",
                ),
                _ => failed(source),
            })?;
        let target = path.clone();
        on_own_thread(move || {
            // SAFETY: unshare takes one integer; it changes this short-lived thread only.
            check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
            mount(
                Path::new("/proc/thread-self/ns/net"),
                &target,
                libc::MS_BIND,
            )
        })
        .and_then(|()| File::open(&path))
        .map(|file| Self {
            name: name.to_owned(),
            file,
        })
        .map_err(|source| {
            // What was made halfway goes; the first error is the one worth telling.
            let _ = remove_mount(&path);
            failed(source)
        })
    }

    /// Deletes the namespace `name`: unmounts and unlinks it. It lives on while a process is in it.
    /// A name that does not exist is no error.
    ///
    /// # Errors
    /// If it may not be unmounted or unlinked.
    pub fn delete(name: &str) -> Result<(), NetError> {
        remove_mount(&path(name)?)
            .map_err(|source| NetError::new(format!("delete network namespace {name}"), source))
    }

    /// The names of all named namespaces, in ascending order.
    ///
    /// # Errors
    /// If the directory cannot be read; a missing one is an empty list.
    pub fn list() -> Result<Vec<String>, NetError> {
        let failed = |source| NetError::new(format!("list {DIRECTORY}"), source);
        let entries = match fs::read_dir(DIRECTORY) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            if let Ok(name) = entry.map_err(failed)?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Moves the calling thread into the namespace, for good.
    ///
    /// # Errors
    /// Without the right to (`CAP_SYS_ADMIN`).
    pub fn enter(&self) -> Result<(), NetError> {
        set_namespace(self.file.as_raw_fd()).map_err(|source| {
            NetError::new(format!("enter network namespace {}", self.name), source)
        })
    }

    /// Runs `work` on a thread inside the namespace and returns what it returns. Descriptors that
    /// it opens stay in the namespace wherever they are used.
    ///
    /// # Errors
    /// If the namespace cannot be entered or the thread not be started.
    ///
    /// # Panics
    /// If `work` panics.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NetError> {
        thread::scope(|scope| {
            let thread = thread::Builder::new()
                .stack_size(256 * 1024)
                .spawn_scoped(scope, || self.enter().map(|()| work()))
                .map_err(|source| NetError::new("start a thread", source))?;
            match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Has `command` start inside the namespace. The namespace must stay open until then.
    pub fn join_command(&self, command: &mut Command) {
        let fd = self.file.as_raw_fd();
        // SAFETY: between fork and exec only setns(2) is called, which is async-signal-safe and
        // allocates nothing; the descriptor is open in the child as it is in the parent.
        unsafe { command.pre_exec(move || set_namespace(fd)) };
    }

    /// Has `command` start inside the namespace with a `/sys` that shows it, as `ip netns exec`
    /// does: for programs that look at `/sys/class/net`. The namespace must stay open until then.
    pub fn join_command_with_sysfs(&self, command: &mut Command) {
        let fd = self.file.as_raw_fd();
        // SAFETY: between fork and exec only system calls on constants and on a descriptor that is
        // open in the child as in the parent are made; nothing allocates.
        unsafe {
            command.pre_exec(move || {
                set_namespace(fd)?;
                show_own_sysfs()
            });
        }
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The mount point of `name`. Names are one path component.
fn path(name: &str) -> Result<PathBuf, NetError> {
    if name.is_empty() || name.len() > 255 || name.starts_with('.') || name.contains(['/', '\0']) {
        return Err(NetError::refused(
            format!("use {name:?} as the name of a network namespace"),
            "names have 1 to 255 bytes, no slash and no leading dot",
        ));
    }
    Ok(Path::new(DIRECTORY).join(name))
}

fn set_namespace(fd: RawFd) -> io::Result<()> {
    // SAFETY: setns takes two integers; a descriptor that is no network namespace is refused.
    check(unsafe { libc::setns(fd, libc::CLONE_NEWNET) })?;
    Ok(())
}

/// Replaces `/sys` by one of the thread's network namespace, in a mount namespace of its own.
fn show_own_sysfs() -> io::Result<()> {
    // SAFETY: all strings are constants that end in NUL; no pointer outlives its call.
    unsafe {
        check(libc::unshare(libc::CLONE_NEWNS))?;
        check(libc::mount(
            c"".as_ptr(),
            c"/".as_ptr(),
            c"none".as_ptr(),
            libc::MS_SLAVE | libc::MS_REC,
            std::ptr::null(),
        ))?;
        // /sys may hold other mounts; a lazy unmount takes them along.
        libc::umount2(c"/sys".as_ptr(), libc::MNT_DETACH);
        check(libc::mount(
            c"sysfs".as_ptr(),
            c"/sys".as_ptr(),
            c"sysfs".as_ptr(),
            0,
            std::ptr::null(),
        ))?;
    }
    Ok(())
}

/// Makes the directory, shared, so that a namespace deleted in one mount namespace is deleted in
/// all (the property that `ip netns add` sets up as well).
fn make_directory() -> Result<(), NetError> {
    let directory = Path::new(DIRECTORY);
    let failed = |source| NetError::new(format!("set up {DIRECTORY}"), source);
    fs::create_dir_all(directory).map_err(failed)?;
    let share = libc::MS_SHARED | libc::MS_REC;
    if mount(Path::new(""), directory, share).is_err() {
        mount(directory, directory, libc::MS_BIND | libc::MS_REC).map_err(failed)?;
        mount(Path::new(""), directory, share).map_err(failed)?;
    }
    Ok(())
}

fn mount(source: &Path, target: &Path, flags: libc::c_ulong) -> io::Result<()> {
    let source = c_path(source)?;
    let target = c_path(target)?;
    // SAFETY: both paths end in NUL and live through the call; type and data are constants.
    check(unsafe {
        libc::mount(
            source.as_ptr(),
            target.as_ptr(),
            c"none".as_ptr(),
            flags,
            std::ptr::null(),
        )
    })?;
    Ok(())
}

fn remove_mount(path: &Path) -> io::Result<()> {
    let target = c_path(path)?;
    // SAFETY: the path ends in NUL and lives through the call.
    if let Err(error) = check(unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) }) {
        // EINVAL: not a mount point, a leftover of half a creation.
        if !matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOENT)) {
            return Err(error);
        }
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn c_path(path: &Path) -> io::Result<std::ffi::CString> {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}

/// Runs `work` on a thread that ends with it: for system calls that change the calling thread.
fn on_own_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        thread::Builder::new()
            .stack_size(64 * 1024)
            .spawn_scoped(scope, work)?
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_slash_is_refused() {
        for name in ["", "../x", "a/b", ".hidden"] {
            let error = Namespace::open(name).unwrap_err();
            assert!(error.to_string().contains("no slash"), "{error}");
        }
    }
}
