//! What C programs call: the functions of `infiniband/verbs.h`, those that librdmacm and the libraries of
//! drivers need besides, and the structures that they share with their callers.
//!
//! What passes between C and Rust is here, with all of the crate's `unsafe`. Pointers are taken as valid, as
//! every library of C takes them; a null pointer where libibverbs has a meaning for one keeps it. Functions fail
//! as those of libibverbs do: with an error number, or with -1 or a null pointer and `errno`.
#![allow(unsafe_code)]

pub mod convert;
pub mod devices;
pub mod files;
pub mod fork;
#[cfg(test)]
mod layout_tests;
pub mod refused;
pub mod strings;
pub mod types;

use core::ffi::c_int;
use core::ptr::null_mut;

use rustix::io::Errno;

/// Sets `errno`.
fn set_errno(error: Errno) {
    // SAFETY: the address is this thread's own errno, always.
    unsafe { *libc::__errno_location() = error.raw_os_error() };
}

/// An error as functions tell it that return error numbers: positive, and in `errno` too.
fn number(error: Errno) -> c_int {
    set_errno(error);
    error.raw_os_error()
}

/// An error as functions tell it that return pointers.
fn null<T>(error: Errno) -> *mut T {
    set_errno(error);
    null_mut()
}

/// An error as functions tell it that return -1.
fn minus_one(error: Errno) -> c_int {
    set_errno(error);
    -1
}
