//! Forks.
//!
//! A region is memory of the process that registered it, and stays so: hosts read and write it through that
//! process. A child has copies of its own, as of all other memory, so that nothing has to be kept from it. What
//! the parent has opened is the parent's: in a child it refuses.

use core::ffi::{c_int, c_uint, c_void};

/// `IBV_FORK_UNNEEDED`.
const UNNEEDED: c_uint = 2;

/// Prepares for forks, for which nothing is to be done.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_fork_init() -> c_int {
    0
}

/// Whether forks have been prepared for: that is not needed.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_is_fork_initialized() -> c_uint {
    UNNEEDED
}

/// Keeps memory from children: not needed.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_dontfork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}

/// Gives memory to children again: not needed.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_dofork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}
