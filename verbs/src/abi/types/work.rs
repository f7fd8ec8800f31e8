//! Work requests and completions.

use core::ffi::{c_int, c_uint, c_void};

/// `struct ibv_sge`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sge {
    pub(in crate::abi) addr: u64,
    pub(in crate::abi) length: u32,
    pub(in crate::abi) lkey: u32,
}

/// `struct ibv_data_buf`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DataBuf {
    pub(in crate::abi) addr: *mut c_void,
    pub(in crate::abi) length: usize,
}

/// `struct ibv_send_wr`. The unions are what their largest members are: `wr` is that of atomics, whose places
/// the others share.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SendWr {
    pub(in crate::abi) wr_id: u64,
    pub(in crate::abi) next: *mut SendWr,
    pub(in crate::abi) sg_list: *mut Sge,
    pub(in crate::abi) num_sge: c_int,
    pub(in crate::abi) opcode: c_uint,
    pub(in crate::abi) send_flags: c_uint,
    /// In network byte order; or the key to invalidate, in the machine's.
    pub(in crate::abi) imm_data: u32,
    /// `wr.rdma.remote_addr`, `wr.atomic.remote_addr`, `wr.ud.ah`.
    pub(in crate::abi) remote_addr: u64,
    /// `wr.atomic.compare_add`; `wr.rdma.rkey`; `wr.ud.remote_qpn` and `wr.ud.remote_qkey`.
    pub(in crate::abi) compare_add: [u32; 2],
    /// `wr.atomic.swap`.
    pub(in crate::abi) swap: u64,
    /// `wr.atomic.rkey`.
    pub(in crate::abi) rkey: u32,
    pub(in crate::abi) _padding: u32,
    /// `qp_type.xrc.remote_srqn`.
    pub(in crate::abi) remote_srqn: u32,
    /// `bind_mw`, `tso`.
    pub(in crate::abi) rest: [u64; 6],
}

/// `struct ibv_recv_wr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RecvWr {
    pub(in crate::abi) wr_id: u64,
    pub(in crate::abi) next: *mut RecvWr,
    pub(in crate::abi) sg_list: *mut Sge,
    pub(in crate::abi) num_sge: c_int,
}

/// `struct ibv_wc`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Wc {
    pub(in crate::abi) wr_id: u64,
    pub(in crate::abi) status: c_uint,
    pub(in crate::abi) opcode: c_uint,
    pub(in crate::abi) vendor_err: u32,
    pub(in crate::abi) byte_len: u32,
    /// In network byte order; or the key that was invalidated, in the machine's.
    pub(in crate::abi) imm_data: u32,
    pub(in crate::abi) qp_num: u32,
    pub(in crate::abi) src_qp: u32,
    pub(in crate::abi) wc_flags: c_uint,
    pub(in crate::abi) pkey_index: u16,
    pub(in crate::abi) slid: u16,
    pub(in crate::abi) sl: u8,
    pub(in crate::abi) dlid_path_bits: u8,
}
