//! What C programs call: the functions of `infiniband/verbs.h`, those that librdmacm and the libraries of
//! drivers need besides, and the structures that they share with their callers.
//!
//! What passes between C and Rust is here, with all of the crate's `unsafe`. Pointers are taken as valid, as
//! every library of C takes them; a null pointer where libibverbs has a meaning for one keeps it. Functions fail
//! as those of libibverbs do: with an error number, or with -1 or a null pointer and `errno`.
#![allow(unsafe_code)]

mod builders;
pub mod completion;
pub mod context;
pub mod convert;
pub mod devices;
pub mod domains;
pub mod events;
mod extended_queues;
pub mod files;
pub mod fork;
pub mod handles;
#[cfg(test)]
mod layout_tests;
pub mod pairs;
mod posting;
pub mod queries;
pub mod refused;
pub mod shared_receive;
pub mod strings;
pub mod types;

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::AtomicU32;

use rustix::io::Errno;

/// How often this process and its ancestors have been forked since a device was opened first.
pub(crate) static FORKS: AtomicU32 = AtomicU32::new(0);

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

unsafe extern "C-unwind" {
    /// read(2) as the C library has it: a point at which a thread can be cancelled, which unwinds its stack from
    /// here.
    fn read(fd: c_int, buffer: *mut c_void, length: usize) -> isize;
}

/// Reads an event from a pipe; waits for one unless the program has set the descriptor otherwise. `None` if there
/// is none, or no more will come: `errno` says why. Holds nothing that would have to be dropped when the thread is
/// cancelled.
fn read_event<const N: usize>(fd: c_int, bytes: &mut [u8; N]) -> Option<()> {
    // SAFETY: there is room for as many bytes as are asked for.
    let count = unsafe { read(fd, bytes.as_mut_ptr().cast(), N) };
    match usize::try_from(count) {
        Ok(count) if count == N => Some(()),
        Ok(_) => {
            // The host has ended, or events are not whole, which the system does not do.
            set_errno(Errno::IO);
            None
        }
        Err(_) => None,
    }
}
