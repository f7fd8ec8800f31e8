//! What this library does not have: it refuses with `EOPNOTSUPP`, which programs take as a device without it.
//!
//! Memory of other devices (DMA-buf) and of the adapter, objects of other processes (import), completion counters,
//! options that two adapters agree on (ECE), and everything that is private to libraries of drivers. Arguments
//! do not matter, so that none are declared.

use core::ffi::{c_int, c_void};

use rustix::io::Errno;

use super::{null, number};

macro_rules! refused {
    ($($(#[$doc:meta])* $name:ident -> $result:ty = $refuse:ident;)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> $result {
            $refuse(Errno::OPNOTSUPP)
        }
    )*};
}

refused! {
    /// Private functions that return an error number.
    verbs_refuse -> c_int = number;
    /// Private functions that return a pointer.
    verbs_refuse_pointer -> *mut c_void = null;
    /// Memory of another device: programs copy through memory of the host then.
    ibv_reg_dmabuf_mr -> *mut c_void = null;
    /// Regions of newer kinds of memory.
    ibv_reg_mr_ex -> *mut c_void = null;
    /// A handle for direct access to another device's memory.
    ibv_alloc_dmah -> *mut c_void = null;
    /// There are no such handles.
    ibv_dealloc_dmah -> c_int = number;
    /// There is no memory of the adapter.
    ibv_dm_export_dmabuf_fd -> c_int = number;
    /// Memory that the driver allocates: programs allocate their own.
    ibv_alloc_buf -> *mut c_void = null;
    /// Regions of such memory.
    ibv_reg_buf_mr -> *mut c_void = null;
    /// There is no such memory.
    ibv_export_buf_dmabuf_fd -> c_int = number;
    /// A device that another process has opened.
    ibv_import_device -> *mut c_void = null;
    /// A protection domain of another process.
    ibv_import_pd -> *mut c_void = null;
    /// A memory region of another process.
    ibv_import_mr -> *mut c_void = null;
    /// Memory of the adapter that another process has.
    ibv_import_dm -> *mut c_void = null;
    /// Options that two adapters agree on.
    ibv_query_ece -> c_int = number;
    /// Options that two adapters agree on.
    ibv_set_ece -> c_int = number;
    /// Completion counters.
    _ibv_query_comp_cntr_caps -> c_int = number;
    /// Completion counters.
    ibv_create_comp_cntr -> *mut c_void = null;
    /// Completion counters.
    ibv_destroy_comp_cntr -> c_int = number;
    /// Completion counters.
    ibv_set_comp_cntr -> c_int = number;
    /// Completion counters.
    ibv_set_err_comp_cntr -> c_int = number;
    /// Completion counters.
    ibv_inc_comp_cntr -> c_int = number;
    /// Completion counters.
    ibv_inc_err_comp_cntr -> c_int = number;
    /// Completion counters.
    ibv_read_comp_cntr -> c_int = number;
    /// Completion counters.
    ibv_read_err_comp_cntr -> c_int = number;
    /// Completion counters.
    ibv_qp_attach_comp_cntr -> c_int = number;
    /// Hardware addresses of Ethernet, which this link layer does not have.
    ibv_resolve_eth_l2_from_gid -> c_int = number;
}

macro_rules! ignored {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() {}
    )*};
}

ignored! {
    /// Libraries of drivers as they were before rdma-core: they find no device of theirs.
    ibv_register_driver;
    /// Nothing can have been imported.
    ibv_unimport_pd;
    /// Nothing can have been imported.
    ibv_unimport_mr;
    /// Nothing can have been imported.
    ibv_unimport_dm;
    /// There is no such memory.
    ibv_free_buf;
}
