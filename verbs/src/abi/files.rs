//! Files of sysfs, which some programs read by functions of the library.

use core::ffi::{CStr, c_char, c_int};
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::sync::OnceLock;

use super::minus_one;
use super::types::PATH_LEN;
use rustix::io::Errno;

/// Where sysfs is, unless the variable says otherwise.
const SYSFS: &str = "/sys";
/// The variable.
const SYSFS_PATH: &str = "SYSFS_PATH";

/// Where sysfs is: `/sys`, or what the variable `SYSFS_PATH` says, but in a program that runs with another
/// user's rights.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    static PATH: OnceLock<CString> = OnceLock::new();
    let path = PATH.get_or_init(|| {
        let told = match rustix::process::getuid() == rustix::process::geteuid() {
            true => std::env::var_os(SYSFS_PATH),
            false => None,
        };
        let mut path = told.map_or_else(|| SYSFS.into(), |path| path.into_vec());
        path.truncate(PATH_LEN);
        while path.last() == Some(&b'/') {
            path.pop();
        }
        CString::new(path).unwrap_or_default()
    });
    path.as_ptr()
}

/// Reads a file below a folder, without the line break at its end; how many bytes it has, -1 if that fails or
/// there is no room for a NUL behind them.
///
/// # Safety
/// `dir` and `file` are strings, `buf` has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_read_sysfs_file(
    dir: *const c_char,
    file: *const c_char,
    buf: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: they are strings, as the caller promises.
    let (dir, file) = unsafe { (CStr::from_ptr(dir), CStr::from_ptr(file)) };
    let path = [dir.to_bytes(), b"/", file.to_bytes()].concat();
    let path = OsStr::from_bytes(&path);
    let mut bytes = Vec::new();
    let limit = u64::try_from(size).unwrap_or(u64::MAX);
    let read = File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
    if let Err(error) = read {
        return minus_one(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    }
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    if bytes.len() >= size {
        return minus_one(Errno::OVERFLOW);
    }
    // SAFETY: the bytes and a NUL are no more than `size`.
    unsafe {
        buf.cast::<u8>()
            .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        buf.add(bytes.len()).write(0);
    }
    c_int::try_from(bytes.len()).unwrap_or(c_int::MAX)
}
