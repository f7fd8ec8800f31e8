//! Named network namespaces, as `ip netns` keeps them: a bind mount of the namespace on
//! `/run/netns/<name>`, so that `ip netns list`, `ip netns exec` and this module see the same.
//!
//! A thread enters a namespace for good ([`Namespace::enter`]); [`Namespace::run`] therefore uses a
//! thread of its own, and [`Namespace::join_command`] enters between fork and exec.

mod device_nodes;

use std::ffi::{CStr, CString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;

use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive,
    mount_change, unmount,
};
use rustix::system::sethostname;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

pub use device_nodes::DeviceNodes;

use crate::NetError;

/// Where named namespaces are mounted.
pub const DIRECTORY: &str = "/run/netns";

/// Where the system lists classes of devices.
const CLASSES: &str = "/sys/class";
/// The system's names of hosts.
const HOSTS: &CStr = c"/etc/hosts";

/// An open namespace.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    /// Shared with the commands that are to start inside.
    fd: Arc<OwnedFd>,
}

impl Namespace {
    /// Opens the namespace `name`.
    ///
    /// # Errors
    /// If there is none of that name, or it may not be opened.
    pub fn open(name: &str) -> Result<Self, NetError> {
        let file = File::open(path(name)?)
            .map_err(|source| NetError::new(format!("open network namespace {name}"), source))?;
        Ok(Self::of(name, file))
    }

    fn of(name: &str, file: File) -> Self {
        Self {
            name: name.to_owned(),
            fd: Arc::new(file.into()),
        }
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
            // SAFETY: the table of descriptors stays shared; what is unshared changes this
            // short-lived thread only.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
            Ok(mount_bind("/proc/thread-self/ns/net", &target)?)
        })
        .and_then(|()| File::open(&path))
        .map(|file| Self::of(name, file))
        .map_err(|source| {
            // The half-made namespace is removed; the first error is the one to report.
            let _ = remove_mount(&path);
            failed(source)
        })
    }

    /// Deletes the namespace `name`: unmounts and unlinks it. It exists until the last process in
    /// it ends. A name that does not exist is no error.
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
        set_namespace(self.fd.as_fd()).map_err(|source| {
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

    /// Has `command` start inside the namespace, which stays open as long as the command is there.
    pub fn join_command(&self, command: &mut Command) {
        let fd = Arc::clone(&self.fd);
        // SAFETY: between fork and exec only setns(2) is called, which is async-signal-safe and
        // allocates nothing.
        unsafe { command.pre_exec(move || set_namespace(fd.as_fd())) };
    }

    /// [`Self::join_command`] with a `/sys` that shows the namespace, as `ip netns exec` does: for
    /// programs that look at `/sys/class/net`; and with `view`, as far as it can be shown.
    pub fn join_command_with_sysfs(&self, command: &mut Command, mut view: View) {
        let fd = Arc::clone(&self.fd);
        // SAFETY: between fork and exec only system calls on constants, on strings that are there already and on
        // an open descriptor are made; nothing allocates.
        unsafe {
            command.pre_exec(move || {
                set_namespace(fd.as_fd())?;
                show_own_sysfs()?;
                view.mount();
                Ok(())
            });
        }
    }
}

/// What a command finds in place of the system's own.
#[derive(Debug, Default)]
pub struct View {
    /// Folders below `/sys/class`.
    pub classes: Option<ClassFolders>,
    /// Files below `/dev/infiniband`.
    pub nodes: Option<DeviceNodes>,
    /// A file in place of `/etc/hosts`.
    pub hosts: Option<CString>,
    /// The name of the machine.
    pub host_name: Option<CString>,
}

impl View {
    /// Has `command` start in a mount namespace with this, if this process may make one.
    pub fn show_to(mut self, command: &mut Command) {
        let is_empty = self.classes.is_none() && self.nodes.is_none() && self.hosts.is_none();
        if is_empty && self.host_name.is_none() {
            return;
        }
        // SAFETY: between fork and exec only system calls on strings that are there already are made; nothing
        // allocates.
        unsafe {
            command.pre_exec(move || {
                // A program does without where this is not allowed.
                if own_mounts().is_ok() {
                    self.mount();
                }
                Ok(())
            });
        }
    }

    /// Shows what can be shown in this mount namespace: a program does without the rest. Allocates nothing.
    fn mount(&mut self) {
        if let Some(classes) = &self.classes {
            let _ = classes.mount();
        }
        if let Some(nodes) = &mut self.nodes {
            let _ = nodes.mount();
        }
        if let Some(hosts) = &self.hosts {
            let _ = mount_bind(hosts.as_c_str(), HOSTS);
        }
        if let Some(name) = &self.host_name {
            let _ = name_machine(name);
        }
    }
}

/// Folders that appear below `/sys/class`.
#[derive(Debug)]
pub struct ClassFolders {
    /// The options of the overlay.
    layers: CString,
    /// The entries of `/sys/class` that are replaced.
    folders: Vec<(CString, CString)>,
}

impl ClassFolders {
    /// What is below each of `trees` appears below `/sys/class`; of these the folders at `paths`, tree by tree,
    /// as they are at any time. `None` for paths that the options of an overlay cannot hold.
    #[must_use]
    pub fn new(trees: &[(PathBuf, PathBuf)]) -> Option<Self> {
        let mut layers = b"lowerdir=".to_vec();
        let mut folders = Vec::new();
        for (tree, path) in trees {
            let bytes = tree.as_os_str().as_bytes();
            if bytes.iter().any(|byte| b":,\\".contains(byte)) {
                return None;
            }
            layers.extend_from_slice(bytes);
            layers.push(b':');
            let to_c = |path: &Path| CString::new(path.as_os_str().as_bytes()).ok();
            folders.push((
                to_c(&tree.join(path))?,
                to_c(&Path::new(CLASSES).join(path))?,
            ));
        }
        layers.extend_from_slice(CLASSES.as_bytes());
        Some(Self {
            layers: CString::new(layers).ok()?,
            folders,
        })
    }

    /// Shows the folders in this mount namespace. Allocates nothing.
    fn mount(&self) -> io::Result<()> {
        let flags = MountFlags::empty();
        mount(
            c"overlay",
            c"/sys/class",
            c"overlay",
            flags,
            Some(self.layers.as_c_str()),
        )?;
        for (from, to) in &self.folders {
            mount_bind(from, to)?;
        }
        Ok(())
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
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

fn set_namespace(fd: BorrowedFd<'_>) -> io::Result<()> {
    // A descriptor that is no network namespace is refused.
    Ok(move_into_link_name_space(
        fd,
        Some(LinkNameSpaceType::Network),
    )?)
}

/// Moves the thread into a mount namespace of its own, to which others' mounts come and from which none go.
fn own_mounts() -> io::Result<()> {
    // SAFETY: the table of descriptors stays shared.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    let downstream = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    Ok(mount_change(c"/", downstream)?)
}

/// Gives the machine another name, for the thread alone.
fn name_machine(name: &CStr) -> io::Result<()> {
    // SAFETY: the table of descriptors stays shared.
    unsafe { unshare_unsafe(UnshareFlags::NEWUTS) }?;
    Ok(sethostname(name.to_bytes())?)
}

/// Replaces `/sys` by one of the thread's network namespace, in a mount namespace of its own.
fn show_own_sysfs() -> io::Result<()> {
    own_mounts()?;
    // /sys may hold other mounts; a lazy unmount takes them along. One that is not there is as good.
    let _ = unmount(c"/sys", UnmountFlags::DETACH);
    Ok(mount(
        c"sysfs",
        c"/sys",
        c"sysfs",
        MountFlags::empty(),
        None,
    )?)
}

/// Makes the directory, shared, so that a namespace deleted in one mount namespace is deleted in
/// all (the property that `ip netns add` sets up as well).
fn make_directory() -> Result<(), NetError> {
    let directory = Path::new(DIRECTORY);
    let failed = |cause| NetError::new(format!("set up {DIRECTORY}"), cause);
    fs::create_dir_all(directory).map_err(failed)?;
    let share = MountPropagationFlags::SHARED | MountPropagationFlags::REC;
    if mount_change(directory, share).is_err() {
        mount_bind_recursive(directory, directory)
            .and_then(|()| mount_change(directory, share))
            .map_err(|errno| failed(errno.into()))?;
    }
    Ok(())
}

fn remove_mount(path: &Path) -> io::Result<()> {
    match unmount(path, UnmountFlags::DETACH) {
        // INVAL: not a mount point, a leftover of half a creation.
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
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
