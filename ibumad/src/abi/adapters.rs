//! Adapters and ports as structures of C.

use core::ffi::{c_char, c_int, c_uint};
use core::ptr::null_mut;

use mad::umad::{Adapter, AdapterPort};
use rustix::io::Errno;

use super::{Ca, DeviceNode, NAME_LEN, PORTS_LEN, Port, array, fail, text};
use crate::client::{self, Result};
use crate::device::{self, Device};
use crate::environment::Place;

/// Node type of a channel adapter.
const CHANNEL_ADAPTER: c_uint = 1;

/// A port; its keys are to be freed.
fn port_of(device: &Device, port: &AdapterPort) -> Result<Port> {
    let keys = &port.pkeys;
    // SAFETY: memory for so many numbers, zeroed, is asked for.
    let pkeys: *mut u16 = unsafe { libc::calloc(keys.len().max(1), size_of::<u16>()) }.cast();
    if pkeys.is_null() {
        return Err(Errno::NOMEM);
    }
    for (index, &key) in keys.iter().enumerate() {
        // SAFETY: there is room for each.
        unsafe { pkeys.add(index).write(key) };
    }
    Ok(Port {
        ca_name: array(&device.place.name),
        portnum: port.number.get().into(),
        base_lid: port.lid.get().into(),
        lmc: port.lmc.get().into(),
        sm_lid: port.sm_lid.get().into(),
        sm_sl: port.sm_sl.get().into(),
        state: port.state.into(),
        phys_state: port.physical_state.into(),
        rate: port.gbit_per_second(),
        capmask: port.capabilities.to_be(),
        gid_prefix: port.gid_prefix.to_be(),
        port_guid: port.guid().to_be(),
        pkeys_size: c_uint::try_from(keys.len()).unwrap_or(c_uint::MAX),
        pkeys,
        link_layer: array("InfiniBand"),
    })
}

/// The adapter that a program means.
///
/// # Safety
/// The name is null or a string.
unsafe fn find(ca_name: *const c_char) -> Result<Device> {
    // SAFETY: as the caller promises.
    match unsafe { text(ca_name) } {
        Some(name) => device::by_name(name),
        None if ca_name.is_null() => device::resolve(None, 0, false).map(|(device, _)| device),
        None => Err(Errno::NODEV),
    }
}

fn ca_of(device: &Device) -> Result<Ca> {
    let adapter = &device.adapter;
    let mut ca = Ca {
        ca_name: array(&device.place.name),
        node_type: CHANNEL_ADAPTER,
        numports: 0,
        fw_ver: array(Adapter::FIRMWARE),
        ca_type: array(&adapter.model()),
        hw_ver: array(&format!("{:x}", adapter.revision)),
        node_guid: adapter.node_guid.to_be(),
        system_guid: adapter.system_image_guid.to_be(),
        ports: [null_mut(); PORTS_LEN],
    };
    for port in &adapter.ports {
        // There is room for ports 1 to 9, and for one of each number.
        let place = ca.ports.get_mut(port.number.index());
        let Some(place) = place.filter(|place| place.is_null()) else {
            continue;
        };
        let described = port_of(device, port).and_then(|described| {
            // SAFETY: memory for a port is asked for.
            let memory: *mut Port = unsafe { libc::calloc(1, size_of::<Port>()) }.cast();
            if memory.is_null() {
                // SAFETY: the keys come from calloc, and no other pointer to them exists.
                unsafe { libc::free(described.pkeys.cast()) };
                return Err(Errno::NOMEM);
            }
            // SAFETY: it is memory for a port, aligned as malloc aligns.
            unsafe { memory.write(described) };
            Ok(memory)
        });
        match described {
            Ok(memory) => {
                *place = memory;
                ca.numports = ca.numports.max(port.number.get().into());
            }
            Err(error) => {
                // SAFETY: the ports are this function's own.
                unsafe { release_ports(&mut ca) };
                return Err(error);
            }
        }
    }
    Ok(ca)
}

/// # Safety
/// The ports are null or were made by this library, and are not used otherwise.
unsafe fn release_ports(ca: &mut Ca) {
    for port in &mut ca.ports {
        let port = core::mem::replace(port, null_mut());
        if !port.is_null() {
            // SAFETY: it is a port of this library, which comes from calloc, as do its keys.
            unsafe {
                libc::free((*port).pkeys.cast());
                libc::free(port.cast());
            }
        }
    }
}

/// Makes the structures that [`umad_get_ca`] and [`umad_get_port`] give of what a host has answered, and frees them.
/// How many ports the program sees.
///
/// # Errors
/// `NOMEM`.
pub fn try_adapter(place: Place, adapter: Adapter) -> Result<usize> {
    let device = Device {
        position: 0,
        place,
        adapter,
    };
    for port in &device.adapter.ports {
        let mut described = port_of(&device, port)?;
        // SAFETY: it was just made.
        unsafe { umad_release_port(&raw mut described) };
    }
    let mut ca = ca_of(&device)?;
    let ports = ca.ports.iter().filter(|port| !port.is_null()).count();
    // SAFETY: its ports were just made.
    unsafe { release_ports(&mut ca) };
    Ok(ports)
}

/// Describes an adapter; null: the best one.
///
/// # Safety
/// The pointers are null or to a string and to room for an adapter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_get_ca(ca_name: *const c_char, ca: *mut Ca) -> c_int {
    if ca.is_null() {
        return fail(Errno::INVAL);
    }
    // SAFETY: as the caller promises.
    match unsafe { find(ca_name) }.and_then(|device| ca_of(&device)) {
        Ok(described) => {
            // SAFETY: it is not null, and room for an adapter as the caller promises.
            unsafe { ca.write(described) };
            0
        }
        Err(error) => fail(error),
    }
}

/// Frees what [`umad_get_ca`] has made.
///
/// # Safety
/// The pointer is null or to an adapter of [`umad_get_ca`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_release_ca(ca: *mut Ca) -> c_int {
    // SAFETY: the pointer is null or to an adapter, as the caller promises.
    let Some(ca) = (unsafe { ca.as_mut() }) else {
        return fail(Errno::NODEV);
    };
    // SAFETY: its ports were made by this library, as the caller promises.
    unsafe { release_ports(ca) };
    0
}

/// Describes a port; null and 0: the best one.
///
/// # Safety
/// The pointers are null or to a string and to room for a port.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_get_port(
    ca_name: *const c_char,
    portnum: c_int,
    port: *mut Port,
) -> c_int {
    // SAFETY: as the caller promises.
    let name = unsafe { text(ca_name) };
    if port.is_null() || name.is_none() && !ca_name.is_null() {
        return fail(Errno::INVAL);
    }
    let described = u8::try_from(portnum)
        .map_err(|_| Errno::NODEV)
        .and_then(|number| device::resolve(name, number, false))
        .and_then(|(device, number)| {
            let mut ports = device.adapter.ports.iter();
            let found = ports.find(|port| port.number.get() == number);
            port_of(&device, found.ok_or(Errno::NODEV)?)
        });
    match described {
        Ok(described) => {
            // SAFETY: it is not null, and room for a port as the caller promises.
            unsafe { port.write(described) };
            0
        }
        Err(error) => fail(error),
    }
}

/// Frees what [`umad_get_port`] has made.
///
/// # Safety
/// The pointer is null or to a port of [`umad_get_port`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_release_port(port: *mut Port) -> c_int {
    // SAFETY: the pointer is null or to a port, as the caller promises.
    let Some(port) = (unsafe { port.as_mut() }) else {
        return fail(Errno::NODEV);
    };
    let keys = core::mem::replace(&mut port.pkeys, null_mut());
    port.pkeys_size = 0;
    // SAFETY: the keys are null or come from calloc.
    unsafe { libc::free(keys.cast()) };
    0
}

/// The names of at most `max` adapters, in alphabetic order; how many.
///
/// # Safety
/// The pointer is null or to room for so many names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_get_cas_names(cas: *mut [c_char; NAME_LEN], max: c_int) -> c_int {
    let room = usize::try_from(max).unwrap_or_default();
    if cas.is_null() {
        return fail(Errno::INVAL);
    }
    let mut names: Vec<String> = device::places().into_iter().map(|it| it.name).collect();
    names.sort_unstable();
    names.truncate(room);
    for (index, name) in names.iter().enumerate() {
        // SAFETY: there is room for each, as the caller promises.
        unsafe { cas.add(index).write(array(name)) };
    }
    c_int::try_from(names.len()).unwrap_or(c_int::MAX)
}

/// The GUIDs of an adapter's ports from 0 on, in network byte order, 0 where there is no port; how many.
///
/// # Safety
/// The pointers are null or to a string and to room for `max` GUIDs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_get_ca_portguids(
    ca_name: *const c_char,
    portguids: *mut u64,
    max: c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    let device = match unsafe { find(ca_name) } {
        Ok(device) => device,
        Err(error) => return fail(error),
    };
    let ports = &device.adapter.ports;
    let highest = ports.iter().map(|port| port.number.index()).max();
    let count = highest.unwrap_or_default() + 1;
    if portguids.is_null() {
        return 0;
    }
    if count > usize::try_from(max).unwrap_or_default() {
        return fail(Errno::NOMEM);
    }
    for number in 0..count {
        let mut ports = ports.iter();
        let port = ports.find(|port| port.number.index() == number);
        let guid = port.map_or(0, AdapterPort::guid);
        // SAFETY: there is room for each, as the caller promises.
        unsafe { portguids.add(number).write(guid.to_be()) };
    }
    c_int::try_from(count).unwrap_or(c_int::MAX)
}

/// The path of the file that a subnet manager keeps open.
///
/// # Safety
/// The pointers are null or to a string and to room for `max` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_get_issm_path(
    ca_name: *const c_char,
    portnum: c_int,
    path: *mut c_char,
    max: c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    let name = unsafe { text(ca_name) };
    if path.is_null() || name.is_none() && !ca_name.is_null() {
        return fail(Errno::INVAL);
    }
    let room = usize::try_from(max).unwrap_or_default();
    let found = u8::try_from(portnum)
        .map_err(|_| Errno::NODEV)
        .and_then(|number| device::resolve(name, number, false))
        .and_then(|(device, port)| client::is_sm_file(&device.place, port));
    match found {
        Ok(found) if found.len() < room => {
            for (index, byte) in found.bytes().chain([0]).enumerate() {
                // SAFETY: there is room for them with the NUL, as the caller promises.
                unsafe { path.add(index).write(c_char::from_ne_bytes([byte])) };
            }
            0
        }
        Ok(_) => fail(Errno::NAMETOOLONG),
        Err(error) => fail(error),
    }
}

/// A list of the adapters, in the order in which they are preferred; null if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn umad_get_ca_device_list() -> *mut DeviceNode {
    let mut first = null_mut();
    for place in device::places().iter().rev() {
        let size = size_of::<DeviceNode>() + NAME_LEN;
        // SAFETY: memory for an entry and the name behind it is asked for.
        let node: *mut DeviceNode = unsafe { libc::calloc(1, size) }.cast();
        if node.is_null() {
            // SAFETY: the entries so far are this function's own.
            unsafe { umad_free_ca_device_list(first) };
            fail(Errno::NOMEM);
            return null_mut();
        }
        // SAFETY: it is memory for an entry with a name behind it.
        unsafe {
            let name = node.add(1).cast::<[c_char; NAME_LEN]>();
            name.write(array(&place.name));
            node.write(DeviceNode {
                next: first,
                ca_name: name.cast(),
            });
        }
        first = node;
    }
    first
}

/// Frees a list of adapters.
///
/// # Safety
/// The list is null or of [`umad_get_ca_device_list`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_free_ca_device_list(head: *mut DeviceNode) {
    let mut node = head;
    while !node.is_null() {
        // SAFETY: it is an entry of such a list, as the caller promises, and freed once.
        unsafe {
            let next = (*node).next;
            libc::free(node.cast());
            node = next;
        }
    }
}

/// Sorts a list of adapters by name. `size` is how many it has, or 0; another number is refused. An error is
/// a positive number.
///
/// # Safety
/// The pointer is null or to a list of [`umad_get_ca_device_list`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_sort_ca_device_list(
    head: *mut *mut DeviceNode,
    size: usize,
) -> c_int {
    // SAFETY: the pointer is null or to a list, as the caller promises.
    let Some(head) = (unsafe { head.as_mut() }) else {
        return Errno::INVAL.raw_os_error();
    };
    let mut nodes = Vec::new();
    let mut node = *head;
    while !node.is_null() {
        nodes.push(node);
        // SAFETY: it is an entry of such a list, as the caller promises.
        node = unsafe { (*node).next };
    }
    match (size, nodes.len()) {
        (1, _) | (0, 0 | 1) => return 0,
        (size, len) if size != 0 && size != len => return Errno::INVAL.raw_os_error(),
        _ => {}
    }
    // SAFETY: they are entries of such a list, whose names are strings.
    nodes.sort_by_key(|&node| unsafe { text((*node).ca_name) });
    let mut next = null_mut();
    for &node in nodes.iter().rev() {
        // SAFETY: it is an entry of such a list.
        unsafe { (*node).next = next };
        next = node;
    }
    *head = next;
    0
}
