//! Files below `/dev/infiniband`, for programs that look for one before they ask a library.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, mkdir, open, symlink};
use rustix::mount::{
    MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, move_mount, open_tree, unmount,
};

/// Where they appear.
const DEV: &str = "/dev";
/// Where the layer with them is put together, for a moment: a folder that every system has.
const PLACE: &core::ffi::CStr = c"/tmp";
/// The folder in it.
const FOLDER: &core::ffi::CStr = c"/tmp/infiniband";

/// Files below `/dev/infiniband` that stand for devices: links to `/dev/null`, which is a device of characters that
/// everybody may open. They are in a layer over `/dev`, which goes with the mount namespace.
#[derive(Debug)]
pub struct DeviceNodes {
    links: Vec<CString>,
    /// What is mounted below `/dev`, and would be covered.
    kept: Vec<CString>,
    /// Handles of these, while `/dev` is covered. It has room for all.
    held: Vec<OwnedFd>,
}

impl DeviceNodes {
    /// Those of these names; `None` for one that is no name of a file, or if the system does not say what is mounted.
    #[must_use]
    pub fn new(names: &[String]) -> Option<Self> {
        let link = |name: &String| match name.is_empty() || name.contains('/') {
            true => None,
            false => CString::new(format!("/tmp/infiniband/{name}")).ok(),
        };
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let to_c = |path: PathBuf| CString::new(path.as_os_str().as_bytes()).ok();
        let kept: Vec<CString> = mounts_below(Path::new(DEV), &mounts)
            .into_iter()
            .filter_map(to_c)
            .collect();
        Some(Self {
            links: names.iter().map(link).collect::<Option<_>>()?,
            held: Vec::with_capacity(kept.len()),
            kept,
        })
    }

    /// Shows them in this mount namespace. Allocates nothing.
    pub(super) fn mount(&mut self) -> io::Result<()> {
        let clone = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_RECURSIVE;
        for path in &self.kept {
            self.held.push(open_tree(CWD, path, clone)?);
        }
        let flags = MountFlags::empty();
        mount(c"tmpfs", PLACE, c"tmpfs", flags, Some(c"mode=0755"))?;
        let layered = self.make_links().and_then(|()| {
            let layers = c"lowerdir=/tmp:/dev";
            Ok(mount(c"overlay", c"/dev", c"overlay", flags, Some(layers))?)
        });
        unmount(PLACE, UnmountFlags::DETACH)?;
        layered?;
        // Over a layer that is of a user's own namespace no device can be opened.
        if let Err(error) = open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
            unmount(c"/dev", UnmountFlags::DETACH)?;
            return Err(error.into());
        }
        for (tree, path) in self.held.iter().zip(&self.kept) {
            let source = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
            move_mount(tree, c"", CWD, path, source)?;
        }
        Ok(())
    }

    fn make_links(&self) -> io::Result<()> {
        mkdir(FOLDER, Mode::from_raw_mode(0o755))?;
        for link in &self.links {
            symlink(c"/dev/null", link)?;
        }
        Ok(())
    }
}

/// Where something is mounted below a folder, by the kernel's list; not what is below one of these.
fn mounts_below(folder: &Path, list: &str) -> Vec<PathBuf> {
    let points = list.lines().filter_map(|line| line.split(' ').nth(4));
    // The kernel writes spaces and the like as octal numbers behind a backslash: no name of a device's folder.
    let points = points.filter(|point| !point.contains('\\')).map(Path::new);
    let below = |point: &&Path| *point != folder && point.starts_with(folder);
    let mut outermost: Vec<PathBuf> = Vec::new();
    for point in points.filter(below).collect::<BTreeSet<_>>() {
        if !outermost.iter().any(|outer| point.starts_with(outer)) {
            outermost.push(point.to_owned());
        }
    }
    outermost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted_below_a_folder_is_found_once_and_without_what_is_inside() {
        let list = "\
22 27 0:21 / /proc rw - proc proc rw
24 27 0:6 / /dev rw - devtmpfs devtmpfs rw
26 24 0:24 / /dev/pts rw - devpts devpts rw
29 26 0:24 / /dev/pts/deep rw - devpts devpts rw
30 24 0:24 / /dev/pts rw - devpts devpts rw
31 24 0:25 / /dev/with\\040space rw - tmpfs tmpfs rw
32 27 0:26 / /devices rw - tmpfs tmpfs rw
25 24 0:23 / /dev/shm rw - tmpfs tmpfs rw
";
        let found = mounts_below(Path::new("/dev"), list);
        assert_eq!(found, ["/dev/pts", "/dev/shm"].map(PathBuf::from));
    }

    #[test]
    fn a_name_that_is_none_is_refused() {
        for name in ["", "a/b", "a\0b"] {
            assert!(DeviceNodes::new(&[name.to_owned()]).is_none(), "{name:?}");
        }
    }
}
