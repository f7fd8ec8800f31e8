//! What C programs call: the functions of `infiniband/umad.h` and `infiniband/umad_str.h`, and the
//! structures that they share with their callers.
//!
//! What the functions do is in the other modules; here is what passes between C and Rust, and all of the
//! crate's `unsafe`. A null pointer where one must not be is refused; other pointers are taken as valid, as
//! every library of C takes them. Errors are negative error numbers as the header says, and in `errno`.
#![allow(unsafe_code)]

pub mod adapters;
pub mod mads;
pub mod pairs;
pub mod ports;
pub mod strings;

use core::ffi::{CStr, c_char, c_int, c_uint};

use rustix::io::Errno;

/// `UMAD_CA_NAME_LEN`.
const NAME_LEN: usize = 20;
/// `UMAD_CA_MAX_PORTS`.
const PORTS_LEN: usize = 10;

/// `struct ib_mad_addr`: the fields from the queue pair to the flow label are in network byte order.
#[derive(Debug)]
#[repr(C)]
pub struct MadAddress {
    qpn: u32,
    qkey: u32,
    lid: u16,
    sl: u8,
    path_bits: u8,
    grh_present: u8,
    gid_index: u8,
    hop_limit: u8,
    traffic_class: u8,
    gid: [u8; 16],
    flow_label: u32,
    pkey_index: u16,
    reserved: [u8; 6],
}

/// `struct ib_user_mad`, without the MAD that follows.
#[derive(Debug)]
#[repr(C)]
pub struct UserMad {
    agent_id: u32,
    status: u32,
    timeout_ms: u32,
    retries: u32,
    length: u32,
    address: MadAddress,
}

/// `struct umad_port`.
#[derive(Debug)]
#[repr(C)]
pub struct Port {
    ca_name: [c_char; NAME_LEN],
    portnum: c_int,
    base_lid: c_uint,
    lmc: c_uint,
    sm_lid: c_uint,
    sm_sl: c_uint,
    state: c_uint,
    phys_state: c_uint,
    rate: c_uint,
    /// In network byte order, as the next two.
    capmask: u32,
    gid_prefix: u64,
    port_guid: u64,
    pkeys_size: c_uint,
    pkeys: *mut u16,
    link_layer: [c_char; NAME_LEN],
}

/// `struct umad_ca`.
#[derive(Debug)]
#[repr(C)]
pub struct Ca {
    ca_name: [c_char; NAME_LEN],
    node_type: c_uint,
    numports: c_int,
    fw_ver: [c_char; 20],
    ca_type: [c_char; 40],
    hw_ver: [c_char; 20],
    /// In network byte order, as the next one.
    node_guid: u64,
    system_guid: u64,
    ports: [*mut Port; PORTS_LEN],
}

/// `struct umad_reg_attr`.
#[derive(Debug)]
#[repr(C)]
pub struct RegistrationAttributes {
    mgmt_class: u8,
    mgmt_class_version: u8,
    flags: u32,
    method_mask: [u64; 2],
    oui: u32,
    rmpp_version: u8,
}

/// `struct umad_device_node`.
#[derive(Debug)]
#[repr(C)]
pub struct DeviceNode {
    next: *mut DeviceNode,
    ca_name: *const c_char,
}

/// `struct umad_ca_pair`.
#[derive(Debug)]
#[repr(C)]
pub struct CaPair {
    smi_name: [c_char; NAME_LEN],
    smi_preferred_port: u32,
    gsi_name: [c_char; NAME_LEN],
    gsi_preferred_port: u32,
}

const _: () = {
    assert!(size_of::<MadAddress>() == 44);
    assert!(size_of::<UserMad>() == wire::umad::UserMadHeader::LEN);
    assert!(size_of::<Port>() == 112);
    assert!(size_of::<Ca>() == 208);
    assert!(size_of::<RegistrationAttributes>() == 32);
    assert!(size_of::<CaPair>() == 48);
};

/// Sets `errno`, and gives the number back as functions here return it.
fn fail(error: Errno) -> c_int {
    // SAFETY: the address is this thread's own errno, always.
    unsafe { *libc::__errno_location() = error.raw_os_error() };
    -error.raw_os_error()
}

/// The text behind a pointer; `None` for a null pointer and what is no UTF-8, which no adapter is called.
///
/// # Safety
/// The pointer is null or to a string that ends with a NUL and is valid as long as `'a`.
unsafe fn text<'a>(pointer: *const c_char) -> Option<&'a str> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().ok()
}

/// A name as C keeps it, cut to leave room for its NUL.
fn array<const N: usize>(text: &str) -> [c_char; N] {
    let mut array = [0; N];
    let room = N.saturating_sub(1);
    for (to, byte) in array.iter_mut().take(room).zip(text.bytes()) {
        *to = c_char::from_ne_bytes([byte]);
    }
    array
}
