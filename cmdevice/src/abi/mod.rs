//! What the functions in `shims.c` ask.
//!
//! What passes between C and Rust is here, with all of the crate's `unsafe`. Pointers are taken as valid, as the kernel's
//! device would refuse others; a command that is too short is refused.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::{BorrowedFd, IntoRawFd};

use rustix::fs::OFlags;
use rustix::io::Errno;
use uverbs::cm::{COMMAND_BYTES_MAX, DEVICE, response_offset};

use crate::channel::{self, Outcome};

/// What is no channel.
const NOT_OURS: c_int = -2;
/// `RDMA_USER_CM_CMD_SET_OPTION` and `RDMA_USER_CM_CMD_MIGRATE_ID`.
const SET_OPTION: u32 = 14;
const MIGRATE_ID: u32 = 18;

unsafe extern "C-unwind" {
    /// The C library's, in which a thread can be cancelled.
    fn recv(fd: c_int, buffer: *mut c_void, length: usize, flags: c_int) -> isize;
    /// The one in `shims.c`, or the C library's.
    fn write(fd: c_int, bytes: *const c_void, length: usize) -> isize;
}

fn fail(error: Errno) {
    // SAFETY: the address is this thread's own errno, always.
    unsafe { *libc::__errno_location() = error.raw_os_error() };
}

/// Opens the device: a descriptor, or -1 and `errno`. -2 for another path, or without a host.
///
/// # Safety
/// `path` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibemu_cm_open(path: *const c_char, flags: c_int) -> c_int {
    if path.is_null() {
        return NOT_OURS;
    }
    // SAFETY: as the caller promises.
    let path = unsafe { CStr::from_ptr(path) };
    if path.to_bytes() != DEVICE.as_bytes() || channel::socket().is_none() {
        return NOT_OURS;
    }
    let flags = OFlags::from_bits_retain(flags.cast_unsigned());
    let opened = channel::open(flags).and_then(|(descriptor, number)| {
        let descriptor = descriptor.into_raw_fd();
        match channel::remember(descriptor, number) {
            Ok(()) => Ok(descriptor),
            Err(error) => {
                // SAFETY: it has just been opened here, and nobody else knows of it.
                unsafe { libc::close(descriptor) };
                Err(error)
            }
        }
    });
    opened.unwrap_or_else(|error| {
        fail(error);
        -1
    })
}

/// Whether a descriptor is a channel.
#[unsafe(no_mangle)]
pub extern "C" fn ibemu_cm_is_channel(descriptor: c_int) -> c_int {
    (channel::number(descriptor) != 0).into()
}

/// A descriptor is closed.
#[unsafe(no_mangle)]
pub extern "C" fn ibemu_cm_forget(descriptor: c_int) {
    channel::forget(descriptor);
}

/// Does a command that is written to a channel: its length, or -1 and `errno`.
///
/// A thread can be cancelled while it waits for an event: nothing is to be dropped here then.
///
/// # Safety
/// `bytes` has `length` bytes, and the pointers in a command have room for what the kernel would write.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ibemu_cm_write(
    descriptor: c_int,
    bytes: *const c_void,
    length: usize,
) -> isize {
    loop {
        // SAFETY: as the caller promises.
        match unsafe { command(descriptor, bytes.cast(), length) } {
            Ok(Some(())) => return isize::try_from(length).unwrap_or(isize::MAX),
            Ok(None) => {}
            Err(Errno::NOTSOCK | Errno::BADF) => {
                channel::forget(descriptor);
                // SAFETY: as the caller promises; it is no channel any more.
                return unsafe { write(descriptor, bytes, length) };
            }
            Err(error) => {
                fail(error);
                return -1;
            }
        }
        let mut token = 0u8;
        // SAFETY: the buffer has one byte. Looks only: the token tells all threads.
        let got = unsafe { recv(descriptor, (&raw mut token).cast(), 1, libc::MSG_PEEK) };
        match got {
            0 => {
                fail(Errno::NODEV);
                return -1;
            }
            ..0 => return -1,
            _ => {}
        }
    }
}

/// Does a command; `None` if it is to be repeated when an event waits.
///
/// # Safety
/// As of [`ibemu_cm_write`].
unsafe fn command(descriptor: c_int, bytes: *const u8, length: usize) -> Result<Option<()>, Errno> {
    if !(8..=COMMAND_BYTES_MAX).contains(&length) || bytes.is_null() {
        return Err(Errno::INVAL);
    }
    // SAFETY: as the caller promises.
    let written = unsafe { core::slice::from_raw_parts(bytes, length) }.to_vec();
    let number = |at: usize| {
        let field = written
            .get(at..at + 4)
            .and_then(|field| field.try_into().ok());
        field.map_or(0, u32::from_ne_bytes)
    };
    let pointer = |at: usize| {
        let field = written
            .get(at..at + 8)
            .and_then(|field| field.try_into().ok());
        let address = field.map_or(0, u64::from_ne_bytes);
        usize::try_from(address).unwrap_or_default()
    };
    let (name, mut value, mut other) = (number(0), Vec::new(), 0);
    if name == SET_OPTION {
        let (from, len) = (pointer(8), usize::try_from(number(28)).unwrap_or_default());
        if from == 0 || len > COMMAND_BYTES_MAX {
            return Err(Errno::INVAL);
        }
        // SAFETY: as the caller promises, the option is there.
        value = unsafe { core::slice::from_raw_parts(from as *const u8, len) }.to_vec();
    }
    if name == MIGRATE_ID {
        other = channel::number(number(20).cast_signed());
    }
    let answer = response_offset(name).map(pointer);
    // SAFETY: the descriptor is open as long as the caller, who writes to it, does not close it.
    let socket = unsafe { BorrowedFd::borrow_raw(descriptor) };
    match channel::command(socket, written, value, other)? {
        Outcome::Done(bytes) => {
            if let Some(to @ 1..) = answer {
                // SAFETY: the host sends as many bytes at most as the command says there is room for.
                unsafe {
                    core::ptr::copy_nonoverlapping(bytes.as_ptr(), to as *mut u8, bytes.len());
                }
            }
            Ok(Some(()))
        }
        Outcome::NoEvent if channel::is_nonblocking(socket) => Err(Errno::AGAIN),
        Outcome::NoEvent => Ok(None),
    }
}
