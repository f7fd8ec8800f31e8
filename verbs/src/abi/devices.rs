//! The list of devices: each port of each adapter is one, as each port has state of its own.

use core::ffi::{c_char, c_int};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;

use super::set_errno;
use super::types::{Device, NAME_LEN, PATH_LEN};
use crate::environment::{self, Place};
use crate::session::Session;

/// `IBV_NODE_CA`.
const CHANNEL_ADAPTER: c_int = 1;
/// `IBV_TRANSPORT_IB`.
const INFINIBAND: c_int = 0;
/// Ports of an adapter that are looked for at most.
const PORTS_MAX: u8 = 254;

/// A device as this library makes it: what a program sees is at its front.
#[repr(C)]
pub(super) struct DeviceObject {
    device: Device,
    /// Libraries of drivers look for their functions here, and at no device of theirs find none.
    _no_driver: [u64; 8],
    references: AtomicUsize,
    guid: u64,
    index: c_int,
    pub(super) place: Place,
    pub(super) port: u8,
}

impl DeviceObject {
    /// It is used once more.
    pub(super) fn hold(&self) {
        self.references.fetch_add(1, Ordering::Relaxed);
    }
}

/// It is used once less, and freed when it is not used at all.
///
/// # Safety
/// It has been held.
pub(super) unsafe fn release(device: *mut Device) {
    let object = device.cast::<DeviceObject>();
    // SAFETY: it is held as the caller promises, so that it is there.
    if unsafe { (*object).references.fetch_sub(1, Ordering::AcqRel) } == 1 {
        // SAFETY: it was made of a box, and nothing uses it any more.
        drop(unsafe { Box::from_raw(object) });
    }
}

fn array<const N: usize>(text: &str) -> [c_char; N] {
    let mut array = [0; N];
    let room = N.saturating_sub(1);
    for (to, byte) in array.iter_mut().take(room).zip(text.bytes()) {
        *to = c_char::from_ne_bytes([byte]);
    }
    array
}

fn object(index: usize, place: &Place, port: u8, guid: u64) -> DeviceObject {
    let name = match port {
        1 => place.name.clone(),
        port => format!("{}_{port}", place.name),
    };
    let node = format!("uverbs{index}");
    let path = format!("/sys/class/infiniband_verbs/{node}");
    let device = Device {
        _ops: [0; 2],
        node_type: CHANNEL_ADAPTER,
        transport_type: INFINIBAND,
        ibdev_path: array::<PATH_LEN>(&format!("/sys/class/infiniband/{name}")),
        name: array::<NAME_LEN>(&name),
        dev_name: array(&node),
        dev_path: array(&path),
    };
    DeviceObject {
        device,
        _no_driver: [0; 8],
        references: AtomicUsize::new(1),
        guid,
        index: c_int::try_from(index).unwrap_or(-1),
        place: place.clone(),
        port,
    }
}

/// All devices: those of the first adapter first, of it the preferred port first.
fn all() -> Vec<DeviceObject> {
    let mut devices = Vec::new();
    for (position, place) in environment::places().into_iter().enumerate() {
        let mut ports = Vec::new();
        for port in 1..=PORTS_MAX {
            match Session::open(&place, port) {
                Ok((_, attributes, _)) => ports.push((port, attributes.node_guid)),
                Err(_) => break,
            }
        }
        if let Some(preferred) = environment::preferred_port().filter(|_| position == 0) {
            ports.sort_by_key(|&(port, _)| port != preferred);
        }
        for (port, guid) in ports {
            devices.push(object(devices.len(), &place, port, guid));
        }
    }
    devices
}

/// The devices that have been told of: an address each. They stay, as programs (librdmacm) compare lists by the
/// addresses of devices.
static KNOWN: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// The device that was told of before, or this one from now on; held once for the list.
fn known(device: DeviceObject) -> *mut Device {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let is_same = |address: &&usize| {
        let object = **address as *const DeviceObject;
        // SAFETY: devices that are known are never freed.
        let object = unsafe { &*object };
        object.place == device.place
            && (object.port, object.guid, object.index) == (device.port, device.guid, device.index)
    };
    if let Some(address) = known.iter().find(is_same) {
        let object = *address as *mut DeviceObject;
        // SAFETY: as above.
        unsafe { (*object).hold() };
        return object.cast();
    }
    device.hold();
    let object = Box::into_raw(Box::new(device));
    known.push(object as usize);
    object.cast()
}

/// The devices, and behind them a null pointer; null if there is no memory for them. How many there are is
/// written to `num_devices` unless that is null.
///
/// # Safety
/// The pointer is null or to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_list(num_devices: *mut c_int) -> *mut *mut Device {
    let devices = all();
    let count = devices.len();
    // SAFETY: memory for so many pointers, zeroed, is asked for.
    let list: *mut *mut Device =
        unsafe { libc::calloc(count + 1, size_of::<*mut Device>()) }.cast();
    let told = if list.is_null() { 0 } else { count };
    // SAFETY: it is null or to a number, as the caller promises.
    if let Some(count) = unsafe { num_devices.as_mut() } {
        *count = c_int::try_from(told).unwrap_or(c_int::MAX);
    }
    if list.is_null() {
        set_errno(Errno::NOMEM);
        return list;
    }
    for (at, device) in devices.into_iter().enumerate() {
        // SAFETY: there is room for each.
        unsafe { list.add(at).write(known(device)) };
    }
    list
}

/// Frees a list of devices. Devices that have been opened stay.
///
/// # Safety
/// The list is one of [`ibv_get_device_list`], and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_device_list(list: *mut *mut Device) {
    for at in 0.. {
        // SAFETY: a null pointer is behind the devices.
        let device = unsafe { list.add(at).read() };
        if device.is_null() {
            break;
        }
        // SAFETY: the list has held it.
        unsafe { release(device) };
    }
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
    unsafe { (&raw const (*device).name).cast() }
}

/// The node GUID of a device, in network byte order.
///
/// # Safety
/// As of [`ibv_get_device_name`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_guid(device: *mut Device) -> u64 {
    // SAFETY: as the caller promises, it is an object of this library's.
    unsafe { (*device.cast::<DeviceObject>()).guid.to_be() }
}

/// The number of a device in the list.
///
/// # Safety
/// As of [`ibv_get_device_name`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_index(device: *mut Device) -> c_int {
    // SAFETY: as the caller promises, it is an object of this library's.
    unsafe { (*device.cast::<DeviceObject>()).index }
}
