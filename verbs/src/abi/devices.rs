//! The list of devices.
//!
//! No host serves verbs yet, so that the list is empty, as on a machine without adapters.

use core::ffi::{c_char, c_int};

use rustix::io::Errno;

use super::types::{Context, Device};
use super::{null, set_errno};

/// The devices, and behind them a null pointer; null if there is no memory for them. How many there are is
/// written to `num_devices` unless that is null.
///
/// # Safety
/// The pointer is null or to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_list(num_devices: *mut c_int) -> *mut *mut Device {
    // SAFETY: it is null or to a number, as the caller promises.
    if let Some(count) = unsafe { num_devices.as_mut() } {
        *count = 0;
    }
    // SAFETY: memory for a pointer, zeroed, is asked for.
    let list: *mut *mut Device = unsafe { libc::calloc(1, size_of::<*mut Device>()) }.cast();
    if list.is_null() {
        set_errno(Errno::NOMEM);
    }
    list
}

/// Frees a list of devices.
///
/// # Safety
/// The list is one of [`ibv_get_device_list`], and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_device_list(list: *mut *mut Device) {
    // SAFETY: it comes from calloc, as the caller promises.
    unsafe { libc::free(list.cast()) };
}

/// The name of a device.
///
/// # Safety
/// The device is of a list that is not freed, or has been opened.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_name(device: *mut Device) -> *const c_char {
    // SAFETY: as the caller promises.
    unsafe { (*device).name.as_ptr() }
}

/// Opens a device.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_open_device(_device: *mut Device) -> *mut Context {
    null(Errno::NODEV)
}
