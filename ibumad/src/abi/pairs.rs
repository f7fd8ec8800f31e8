//! Pairs of an adapter for subnet management and one for general services: of ours, which do both, each is a
//! pair with itself.

use core::ffi::{c_char, c_int, c_uint};

use rustix::io::Errno;

use super::{CaPair, array, fail, text};
use crate::device::{self, Device};

/// PortState from which on a port counts as usable.
const INIT: u8 = 2;

fn pair_of(name: &str, port: u8) -> CaPair {
    CaPair {
        smi_name: array(name),
        smi_preferred_port: port.into(),
        gsi_name: array(name),
        gsi_preferred_port: port.into(),
    }
}

/// At most `max` pairs; how many.
///
/// # Safety
/// The pointer is null or to room for so many pairs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_get_smi_gsi_pairs(cas: *mut CaPair, max: usize) -> c_int {
    if cas.is_null() {
        return fail(Errno::INVAL);
    }
    let mut names: Vec<String> = device::all().map(|device| device.place.name).collect();
    names.sort_unstable();
    names.truncate(max);
    for (index, name) in names.iter().enumerate() {
        // SAFETY: there is room for each, as the caller promises.
        unsafe { cas.add(index).write(pair_of(name, 0)) };
    }
    c_int::try_from(names.len()).unwrap_or(c_int::MAX)
}

/// The port of an adapter that a pair prefers; one that is named together with the adapter counts whatever its
/// state.
fn preferred(device: &Device, number: u8, is_named: bool) -> Option<u8> {
    let ports = &device.adapter.ports;
    let usable = ports.iter().filter(|port| port.state >= INIT || is_named);
    let mut usable = usable.map(|port| port.number.get());
    match (number, ports.as_slice()) {
        (0, [_]) => usable.next(),
        (0, ports) => {
            let mut ports = ports.iter().filter(|port| port.state >= INIT);
            ports.next().map(|port| port.number.get())
        }
        (number, _) => usable.find(|&port| port == number),
    }
}

/// The pair of an adapter, or of the first that has a usable port.
///
/// # Safety
/// The pointers are null or to a string and to room for a pair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_get_smi_gsi_pair_by_ca_name(
    name: *const c_char,
    portnum: u8,
    ca_pair: *mut CaPair,
    _enforce_smi: c_uint,
) -> c_int {
    if ca_pair.is_null() {
        fail(Errno::INVAL);
        return -1;
    }
    // SAFETY: it is not null, and room for a pair as the caller promises.
    unsafe { ca_pair.write(pair_of("", 0)) };
    // SAFETY: as the caller promises.
    let wanted = unsafe { text(name) };
    let is_meant = |device: &Device| match wanted {
        Some(wanted) => device.place.name == wanted,
        None => name.is_null(),
    };
    let mut devices = device::all().filter(is_meant);
    let found = devices.find_map(|device| {
        let port = preferred(&device, portnum, wanted.is_some())?;
        Some(pair_of(&device.place.name, port))
    });
    match found {
        Some(pair) => {
            // SAFETY: it is not null, and room for a pair as the caller promises.
            unsafe { ca_pair.write(pair) };
            0
        }
        None => fail(Errno::NODEV),
    }
}
