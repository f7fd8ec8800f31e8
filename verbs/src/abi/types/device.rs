//! Devices, GIDs, events.

use core::ffi::{c_char, c_int, c_void};

/// `IBV_SYSFS_NAME_MAX`.
pub(in crate::abi) const NAME_LEN: usize = 64;
/// `IBV_SYSFS_PATH_MAX`.
pub(in crate::abi) const PATH_LEN: usize = 256;

/// `struct ibv_device`.
#[derive(Debug)]
#[repr(C)]
pub struct Device {
    pub(in crate::abi) _ops: [usize; 2],
    pub(in crate::abi) node_type: c_int,
    pub(in crate::abi) transport_type: c_int,
    pub(in crate::abi) name: [c_char; NAME_LEN],
    pub(in crate::abi) dev_name: [c_char; NAME_LEN],
    pub(in crate::abi) dev_path: [c_char; PATH_LEN],
    pub(in crate::abi) ibdev_path: [c_char; PATH_LEN],
}

/// `union ibv_gid`, in network byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct Gid {
    pub(in crate::abi) raw: [u8; 16],
}

/// `struct ibv_gid_entry`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct GidEntry {
    pub(in crate::abi) gid: Gid,
    pub(in crate::abi) gid_index: u32,
    pub(in crate::abi) port_num: u32,
    pub(in crate::abi) gid_type: u32,
    pub(in crate::abi) ndev_ifindex: u32,
}

/// `struct ibv_grh`: all fields in network byte order.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Grh {
    pub(in crate::abi) version_tclass_flow: u32,
    pub(in crate::abi) paylen: u16,
    pub(in crate::abi) next_hdr: u8,
    pub(in crate::abi) hop_limit: u8,
    pub(in crate::abi) sgid: Gid,
    pub(in crate::abi) dgid: Gid,
}

/// `struct ibv_async_event`; `element` is a pointer to an object, or in its first bytes the number of a port.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AsyncEvent {
    pub(in crate::abi) element: *mut c_void,
    pub(in crate::abi) event_type: c_int,
}

/// `struct ibv_ece`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Ece {
    pub(in crate::abi) vendor_id: u32,
    pub(in crate::abi) options: u32,
    pub(in crate::abi) comp_mask: u32,
}
