//! An opened device: the functions that programs call through it.

use core::ffi::{c_int, c_uint, c_void};

use libc::pthread_mutex_t;

use super::{
    Cq, CqEx, CqInitAttr, Device, DeviceAttr, DeviceAttrEx, ModifyCqAttr, Pd, PortAttr, Qp,
    QpInitAttrEx, RecvWr, SendWr, Srq, SrqInitAttrEx, Wc,
};

/// A function that is absent, or that no program calls through the table any more.
pub(in crate::abi) type Absent = Option<unsafe extern "C" fn()>;

/// `struct ibv_context_ops`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ContextOps {
    pub(in crate::abi) _compat_query_device:
        Option<unsafe extern "C" fn(*mut Context, *mut DeviceAttr) -> c_int>,
    pub(in crate::abi) _compat_query_port:
        Option<unsafe extern "C" fn(*mut Context, u8, *mut PortAttr) -> c_int>,
    pub(in crate::abi) _compat_alloc_pd: [Absent; 5],
    pub(in crate::abi) alloc_mw: Option<unsafe extern "C" fn(*mut Pd, c_uint) -> *mut c_void>,
    pub(in crate::abi) bind_mw: Absent,
    pub(in crate::abi) dealloc_mw: Absent,
    pub(in crate::abi) _compat_create_cq: Absent,
    pub(in crate::abi) poll_cq: Option<unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int>,
    pub(in crate::abi) req_notify_cq: Option<unsafe extern "C" fn(*mut Cq, c_int) -> c_int>,
    pub(in crate::abi) _compat_cq_event: [Absent; 7],
    pub(in crate::abi) post_srq_recv:
        Option<unsafe extern "C" fn(*mut Srq, *mut RecvWr, *mut *mut RecvWr) -> c_int>,
    pub(in crate::abi) _compat_create_qp: [Absent; 4],
    pub(in crate::abi) post_send:
        Option<unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int>,
    pub(in crate::abi) post_recv:
        Option<unsafe extern "C" fn(*mut Qp, *mut RecvWr, *mut *mut RecvWr) -> c_int>,
    pub(in crate::abi) _compat_create_ah: [Absent; 5],
}

/// `struct ibv_context`.
#[repr(C)]
pub struct Context {
    pub(in crate::abi) device: *mut Device,
    pub(in crate::abi) ops: ContextOps,
    pub(in crate::abi) cmd_fd: c_int,
    pub(in crate::abi) async_fd: c_int,
    pub(in crate::abi) num_comp_vectors: c_int,
    pub(in crate::abi) mutex: pthread_mutex_t,
    pub(in crate::abi) abi_compat: *mut c_void,
}

/// `struct verbs_context`: programs reach it from the [`Context`] at its end, and look for a function in it
/// if `sz` says that the table is as long. It grows at its front, so that a program that was built with newer
/// headers finds the functions of newer releases absent.
#[repr(C)]
pub struct VerbsContext {
    pub(in crate::abi) query_port:
        Option<unsafe extern "C" fn(*mut Context, u8, *mut PortAttr, usize) -> c_int>,
    /// On-demand paging, null regions, counters, device memory, flow actions, rate limits.
    pub(in crate::abi) advise_mr: [Absent; 13],
    pub(in crate::abi) alloc_parent_domain: Absent,
    pub(in crate::abi) dealloc_td: Absent,
    pub(in crate::abi) alloc_td: Absent,
    pub(in crate::abi) modify_cq: Option<unsafe extern "C" fn(*mut Cq, *mut ModifyCqAttr) -> c_int>,
    pub(in crate::abi) post_srq_ops: Absent,
    /// Work queues with an indirection table.
    pub(in crate::abi) destroy_rwq_ind_table: [Absent; 5],
    pub(in crate::abi) query_rt_values: Absent,
    pub(in crate::abi) create_cq_ex:
        Option<unsafe extern "C" fn(*mut Context, *mut CqInitAttr) -> *mut CqEx>,
    pub(in crate::abi) private: *mut c_void,
    pub(in crate::abi) query_device_ex:
        Option<unsafe extern "C" fn(*mut Context, *const u32, *mut DeviceAttrEx, usize) -> c_int>,
    pub(in crate::abi) ibv_destroy_flow: [Absent; 4],
    pub(in crate::abi) open_qp: Absent,
    pub(in crate::abi) create_qp_ex:
        Option<unsafe extern "C" fn(*mut Context, *mut QpInitAttrEx) -> *mut Qp>,
    pub(in crate::abi) get_srq_num: Absent,
    pub(in crate::abi) create_srq_ex:
        Option<unsafe extern "C" fn(*mut Context, *mut SrqInitAttrEx) -> *mut Srq>,
    pub(in crate::abi) open_xrcd: Absent,
    pub(in crate::abi) close_xrcd: Absent,
    pub(in crate::abi) _placeholder: u64,
    pub(in crate::abi) sz: usize,
    pub(in crate::abi) context: Context,
}
