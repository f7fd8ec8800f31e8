//! What a program holds of an adapter's objects.

use core::ffi::{c_int, c_uint, c_void};

use libc::{pthread_cond_t, pthread_mutex_t};

use super::{Context, DataBuf, Sge};

/// `struct ibv_pd`.
#[derive(Debug)]
#[repr(C)]
pub struct Pd {
    pub(in crate::abi) context: *mut Context,
    pub(in crate::abi) handle: u32,
}

/// `struct ibv_mr`.
#[derive(Debug)]
#[repr(C)]
pub struct Mr {
    pub(in crate::abi) context: *mut Context,
    pub(in crate::abi) pd: *mut Pd,
    pub(in crate::abi) addr: *mut c_void,
    pub(in crate::abi) length: usize,
    pub(in crate::abi) handle: u32,
    pub(in crate::abi) lkey: u32,
    pub(in crate::abi) rkey: u32,
}

/// `struct ibv_ah`.
#[derive(Debug)]
#[repr(C)]
pub struct Ah {
    pub(in crate::abi) context: *mut Context,
    pub(in crate::abi) pd: *mut Pd,
    pub(in crate::abi) handle: u32,
}

/// `struct ibv_comp_channel`.
#[derive(Debug)]
#[repr(C)]
pub struct CompChannel {
    pub(in crate::abi) context: *mut Context,
    pub(in crate::abi) fd: c_int,
    pub(in crate::abi) refcnt: c_int,
}

/// `struct ibv_cq`.
#[repr(C)]
pub struct Cq {
    pub(in crate::abi) context: *mut Context,
    pub(in crate::abi) channel: *mut CompChannel,
    pub(in crate::abi) cq_context: *mut c_void,
    pub(in crate::abi) handle: u32,
    pub(in crate::abi) cqe: c_int,
    pub(in crate::abi) mutex: pthread_mutex_t,
    pub(in crate::abi) cond: pthread_cond_t,
    pub(in crate::abi) comp_events_completed: u32,
    pub(in crate::abi) async_events_completed: u32,
}

type ReadU32 = Option<unsafe extern "C" fn(*mut CqEx) -> u32>;
type ReadU64 = Option<unsafe extern "C" fn(*mut CqEx) -> u64>;
type ReadU16 = Option<unsafe extern "C" fn(*mut CqEx) -> u16>;
type ReadU8 = Option<unsafe extern "C" fn(*mut CqEx) -> u8>;

/// `struct ibv_cq_ex`. Its first fields are those of [`Cq`].
#[repr(C)]
pub struct CqEx {
    pub(in crate::abi) base: Cq,
    pub(in crate::abi) comp_mask: u32,
    pub(in crate::abi) status: c_uint,
    pub(in crate::abi) wr_id: u64,
    pub(in crate::abi) start_poll: Option<unsafe extern "C" fn(*mut CqEx, *mut u32) -> c_int>,
    pub(in crate::abi) next_poll: Option<unsafe extern "C" fn(*mut CqEx) -> c_int>,
    pub(in crate::abi) end_poll: Option<unsafe extern "C" fn(*mut CqEx)>,
    pub(in crate::abi) read_opcode: ReadU32,
    pub(in crate::abi) read_vendor_err: ReadU32,
    pub(in crate::abi) read_byte_len: ReadU32,
    pub(in crate::abi) read_imm_data: ReadU32,
    pub(in crate::abi) read_qp_num: ReadU32,
    pub(in crate::abi) read_src_qp: ReadU32,
    pub(in crate::abi) read_wc_flags: ReadU32,
    pub(in crate::abi) read_slid: ReadU32,
    pub(in crate::abi) read_sl: ReadU8,
    pub(in crate::abi) read_dlid_path_bits: ReadU8,
    pub(in crate::abi) read_completion_ts: ReadU64,
    pub(in crate::abi) read_cvlan: ReadU16,
    pub(in crate::abi) read_flow_tag: ReadU32,
    pub(in crate::abi) read_tm_info: Option<unsafe extern "C" fn(*mut CqEx, *mut c_void)>,
    pub(in crate::abi) read_completion_wallclock_ns: ReadU64,
}

/// `struct ibv_srq`.
#[repr(C)]
pub struct Srq {
    pub(in crate::abi) context: *mut Context,
    pub(in crate::abi) srq_context: *mut c_void,
    pub(in crate::abi) pd: *mut Pd,
    pub(in crate::abi) handle: u32,
    pub(in crate::abi) mutex: pthread_mutex_t,
    pub(in crate::abi) cond: pthread_cond_t,
    pub(in crate::abi) events_completed: u32,
}

/// `struct ibv_qp`.
#[repr(C)]
pub struct Qp {
    pub(in crate::abi) context: *mut Context,
    pub(in crate::abi) qp_context: *mut c_void,
    pub(in crate::abi) pd: *mut Pd,
    pub(in crate::abi) send_cq: *mut Cq,
    pub(in crate::abi) recv_cq: *mut Cq,
    pub(in crate::abi) srq: *mut Srq,
    pub(in crate::abi) handle: u32,
    pub(in crate::abi) qp_num: u32,
    pub(in crate::abi) state: c_uint,
    pub(in crate::abi) qp_type: c_uint,
    pub(in crate::abi) mutex: pthread_mutex_t,
    pub(in crate::abi) cond: pthread_cond_t,
    pub(in crate::abi) events_completed: u32,
}

/// A pointer to a queue pair with its builders of work requests.
type This = *mut QpEx;

/// The functions of `struct ibv_qp_ex`, in its order.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct QpExOps {
    pub(in crate::abi) wr_atomic_cmp_swp: Option<unsafe extern "C" fn(This, u32, u64, u64, u64)>,
    pub(in crate::abi) wr_atomic_fetch_add: Option<unsafe extern "C" fn(This, u32, u64, u64)>,
    pub(in crate::abi) wr_bind_mw:
        Option<unsafe extern "C" fn(This, *mut c_void, u32, *const c_void)>,
    pub(in crate::abi) wr_local_inv: Option<unsafe extern "C" fn(This, u32)>,
    pub(in crate::abi) wr_rdma_read: Option<unsafe extern "C" fn(This, u32, u64)>,
    pub(in crate::abi) wr_rdma_write: Option<unsafe extern "C" fn(This, u32, u64)>,
    pub(in crate::abi) wr_rdma_write_imm: Option<unsafe extern "C" fn(This, u32, u64, u32)>,
    pub(in crate::abi) wr_send: Option<unsafe extern "C" fn(This)>,
    pub(in crate::abi) wr_send_imm: Option<unsafe extern "C" fn(This, u32)>,
    pub(in crate::abi) wr_send_inv: Option<unsafe extern "C" fn(This, u32)>,
    pub(in crate::abi) wr_send_tso: Option<unsafe extern "C" fn(This, *mut c_void, u16, u16)>,
    pub(in crate::abi) wr_set_ud_addr: Option<unsafe extern "C" fn(This, *mut Ah, u32, u32)>,
    pub(in crate::abi) wr_set_xrc_srqn: Option<unsafe extern "C" fn(This, u32)>,
    pub(in crate::abi) wr_set_inline_data: Option<unsafe extern "C" fn(This, *mut c_void, usize)>,
    pub(in crate::abi) wr_set_inline_data_list:
        Option<unsafe extern "C" fn(This, usize, *const DataBuf)>,
    pub(in crate::abi) wr_set_sge: Option<unsafe extern "C" fn(This, u32, u64, u32)>,
    pub(in crate::abi) wr_set_sge_list: Option<unsafe extern "C" fn(This, usize, *const Sge)>,
    pub(in crate::abi) wr_start: Option<unsafe extern "C" fn(This)>,
    pub(in crate::abi) wr_complete: Option<unsafe extern "C" fn(This) -> c_int>,
    pub(in crate::abi) wr_abort: Option<unsafe extern "C" fn(This)>,
    pub(in crate::abi) wr_atomic_write: Option<unsafe extern "C" fn(This, u32, u64, *const c_void)>,
}

/// `struct ibv_qp_ex`, with the member that releases from 45 on have behind those of 44.
#[repr(C)]
pub struct QpEx {
    pub(in crate::abi) qp_base: Qp,
    pub(in crate::abi) comp_mask: u64,
    pub(in crate::abi) wr_id: u64,
    pub(in crate::abi) wr_flags: c_uint,
    pub(in crate::abi) ops: QpExOps,
    pub(in crate::abi) wr_flush: Option<unsafe extern "C" fn(This, u32, u64, usize, u8, u8)>,
}
