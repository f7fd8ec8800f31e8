//! User MADs in memory: their fields, and what they look like in text.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicI32, Ordering};
use std::io::Write as _;

use rustix::io::Errno;

use super::{MadAddress, UserMad, fail};

/// The level of messages: from 2 on each MAD that is sent is dumped.
static LEVEL: AtomicI32 = AtomicI32::new(0);

/// Whether what is sent is dumped.
pub(super) fn dumps_sends() -> bool {
    LEVEL.load(Ordering::Relaxed) > 1
}

/// Sets the level of messages unless it is negative; the level.
#[unsafe(no_mangle)]
pub extern "C" fn umad_debug(level: c_int) -> c_int {
    if level >= 0 {
        LEVEL.store(level, Ordering::Relaxed);
    }
    LEVEL.load(Ordering::Relaxed)
}

/// Nothing needs to be set up.
#[unsafe(no_mangle)]
pub extern "C" fn umad_init() -> c_int {
    0
}

/// Nothing needs to be taken down.
#[unsafe(no_mangle)]
pub extern "C" fn umad_done() -> c_int {
    0
}

/// Bytes of a user MAD before its MAD.
#[unsafe(no_mangle)]
pub extern "C" fn umad_size() -> usize {
    size_of::<UserMad>()
}

/// The MAD of a user MAD.
#[unsafe(no_mangle)]
pub extern "C" fn umad_get_mad(umad: *mut c_void) -> *mut c_void {
    match umad.is_null() {
        true => umad,
        false => umad.wrapping_byte_add(size_of::<UserMad>()),
    }
}

/// The address of a user MAD.
///
/// # Safety
/// The pointer is null or to a user MAD.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_get_mad_addr(umad: *mut UserMad) -> *mut MadAddress {
    if umad.is_null() {
        return core::ptr::null_mut();
    }
    // SAFETY: the pointer is to a user MAD, as the caller promises.
    unsafe { &raw mut (*umad).address }
}

/// The status of a user MAD.
///
/// # Safety
/// The pointer is null or to a user MAD.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_status(umad: *const UserMad) -> c_int {
    // SAFETY: the pointer is null or to a user MAD, as the caller promises.
    match unsafe { umad.as_ref() } {
        Some(umad) => umad.status.cast_signed(),
        None => fail(Errno::INVAL),
    }
}

/// Sets where a MAD goes; numbers in host byte order.
///
/// # Safety
/// The pointer is null or to a user MAD.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_set_addr(
    umad: *mut UserMad,
    dlid: c_int,
    dqp: c_int,
    sl: c_int,
    qkey: c_int,
) -> c_int {
    let [_, _, a, b] = dlid.to_be_bytes();
    let dlid = u16::from_ne_bytes([a, b]);
    // SAFETY: as the caller promises.
    unsafe {
        umad_set_addr_net(
            umad,
            dlid,
            dqp.cast_unsigned().to_be(),
            sl,
            qkey.cast_unsigned().to_be(),
        )
    }
}

/// Sets where a MAD goes; numbers but the service level in network byte order.
///
/// # Safety
/// The pointer is null or to a user MAD.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_set_addr_net(
    umad: *mut UserMad,
    dlid: u16,
    dqp: u32,
    sl: c_int,
    qkey: u32,
) -> c_int {
    // SAFETY: the pointer is null or to a user MAD, as the caller promises.
    let Some(umad) = (unsafe { umad.as_mut() }) else {
        return fail(Errno::INVAL);
    };
    let [.., sl] = sl.to_be_bytes();
    umad.address.qpn = dqp;
    umad.address.lid = dlid;
    umad.address.qkey = qkey;
    umad.address.sl = sl;
    0
}

/// Gives a MAD the GRH that an address says, whose flow label is in host byte order; a null address: none.
///
/// # Safety
/// The pointers are null or to a user MAD and an address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_set_grh(umad: *mut UserMad, address: *const MadAddress) -> c_int {
    // SAFETY: the pointer is null or to a user MAD, as the caller promises.
    let Some(umad) = (unsafe { umad.as_mut() }) else {
        return fail(Errno::INVAL);
    };
    // SAFETY: the pointer is null or to an address, as the caller promises.
    let Some(address) = (unsafe { address.as_ref() }) else {
        umad.address.grh_present = 0;
        return 0;
    };
    let to = &mut umad.address;
    to.grh_present = 1;
    to.gid = address.gid;
    to.flow_label = address.flow_label.to_be();
    to.hop_limit = address.hop_limit;
    to.traffic_class = address.traffic_class;
    0
}

/// Sets the index of a MAD's P_Key.
///
/// # Safety
/// The pointer is null or to a user MAD.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_set_pkey(umad: *mut UserMad, pkey_index: c_int) -> c_int {
    // SAFETY: the pointer is null or to a user MAD, as the caller promises.
    let Some(umad) = (unsafe { umad.as_mut() }) else {
        return fail(Errno::INVAL);
    };
    let [_, _, a, b] = pkey_index.to_be_bytes();
    umad.address.pkey_index = u16::from_be_bytes([a, b]);
    0
}

/// The index of a MAD's P_Key.
///
/// # Safety
/// The pointer is null or to a user MAD.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_get_pkey(umad: *const UserMad) -> c_int {
    // SAFETY: the pointer is null or to a user MAD, as the caller promises.
    match unsafe { umad.as_ref() } {
        Some(umad) => umad.address.pkey_index.into(),
        None => fail(Errno::INVAL),
    }
}

/// Writes an address to standard error.
///
/// # Safety
/// The pointer is null or to an address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_addr_dump(address: *const MadAddress) {
    // SAFETY: the pointer is null or to an address, as the caller promises.
    if let Some(address) = unsafe { address.as_ref() } {
        // A closed standard error does not matter.
        let _ = writeln!(std::io::stderr(), "umad address: {}", describe(address));
    }
}

/// Writes the header of a user MAD to standard error.
///
/// # Safety
/// The pointer is null or to a user MAD.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_dump(umad: *const UserMad) {
    // SAFETY: the pointer is null or to a user MAD, as the caller promises.
    if let Some(umad) = unsafe { umad.as_ref() } {
        let text = format!(
            "umad: agent id {} status {:x} timeout {} retries {} {}",
            umad.agent_id,
            umad.status,
            umad.timeout_ms,
            umad.retries,
            describe(&umad.address)
        );
        // A closed standard error does not matter.
        let _ = writeln!(std::io::stderr(), "{text}");
    }
}

fn describe(address: &MadAddress) -> String {
    let gid: String = address
        .gid
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!(
        "lid {} qpn {} qkey {:#x} sl {} path_bits {} pkey_index {:#x} grh_present {} gid_index {} \
         hop_limit {} traffic_class {} flow_label {:#x} gid 0x{gid}",
        u16::from_be(address.lid),
        u32::from_be(address.qpn),
        u32::from_be(address.qkey),
        address.sl,
        address.path_bits,
        address.pkey_index,
        address.grh_present,
        address.gid_index,
        address.hop_limit,
        address.traffic_class,
        u32::from_be(address.flow_label),
    )
}
