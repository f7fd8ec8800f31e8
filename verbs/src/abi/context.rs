//! Opening and closing devices: the context and its tables of functions.

use core::ffi::{c_int, c_void};
use core::mem::offset_of;
use std::os::fd::{FromRawFd as _, IntoRawFd as _, OwnedFd};
use std::sync::{Arc, Once};

use rustix::io::{Errno, ioctl_fionbio};

use super::devices::{self, DeviceObject};
use super::types::{Context, ContextOps, Device, VerbsContext};
use super::{FORKS, null, number};
use super::{completion, extended_queues, pairs, posting, queries, shared_receive};
use crate::connection::Result;
use crate::session::Session;

/// A context as this library makes it: what a program sees is inside.
#[repr(C)]
pub(super) struct ContextObject {
    table: VerbsContext,
    session: Arc<Session>,
}

/// Where a program's pointer points in the object.
const OFFSET: usize = offset_of!(ContextObject, table) + offset_of!(VerbsContext, context);

/// `ibv_context.abi_compat` of a context that is part of a `verbs_context`.
const EXTENDED: usize = usize::MAX;

/// The session of a context.
///
/// # Safety
/// The context is one of this library's, not closed.
pub(super) unsafe fn session<'a>(context: *mut Context) -> &'a Arc<Session> {
    // SAFETY: each context of this library is part of such an object, as the caller promises.
    unsafe { &(*context.byte_sub(OFFSET).cast::<ContextObject>()).session }
}

/// The functions that programs call through the context.
const fn operations() -> ContextOps {
    ContextOps {
        _compat_query_device: Some(queries::ibv_query_device),
        _compat_query_port: Some(queries::ibv_query_port),
        _compat_alloc_pd: [None; 5],
        alloc_mw: None,
        bind_mw: None,
        dealloc_mw: None,
        _compat_create_cq: None,
        poll_cq: Some(completion::poll_cq),
        req_notify_cq: Some(completion::req_notify_cq),
        _compat_cq_event: [None; 7],
        post_srq_recv: Some(posting::post_srq_recv),
        _compat_create_qp: [None; 4],
        post_send: Some(posting::post_send),
        post_recv: Some(posting::post_recv),
        _compat_create_ah: [None; 5],
    }
}

/// Memory windows, device memory, XRC, parent domains, on-demand paging, flows and indirection tables are
/// absent: the header's functions refuse them then.
const fn table(device: *mut Device, async_fd: c_int) -> VerbsContext {
    VerbsContext {
        query_port: Some(queries::query_port),
        advise_mr: [None; 13],
        alloc_parent_domain: None,
        dealloc_td: None,
        alloc_td: None,
        modify_cq: None,
        post_srq_ops: None,
        destroy_rwq_ind_table: [None; 5],
        query_rt_values: None,
        create_cq_ex: Some(extended_queues::create_cq_ex),
        private: core::ptr::null_mut(),
        query_device_ex: Some(queries::query_device_ex),
        ibv_destroy_flow: [None; 4],
        open_qp: None,
        create_qp_ex: Some(pairs::create_qp_ex),
        get_srq_num: None,
        create_srq_ex: Some(shared_receive::create_srq_ex),
        open_xrcd: None,
        close_xrcd: None,
        _placeholder: 0,
        sz: size_of::<VerbsContext>(),
        context: Context {
            device,
            ops: operations(),
            // There is no device file; programs duplicate the descriptor to hand it on, which `ibv_import_device` refuses.
            cmd_fd: async_fd,
            async_fd,
            num_comp_vectors: 1,
            mutex: libc::PTHREAD_MUTEX_INITIALIZER,
            abi_compat: core::ptr::without_provenance_mut::<c_void>(EXTENDED),
        },
    }
}

/// Has forks counted from now on.
fn count_forks() {
    static ONCE: Once = Once::new();
    extern "C" fn forked() {
        FORKS.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
    }
    ONCE.call_once(|| {
        // SAFETY: the function only counts, which is permitted in a child.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    });
}

fn open(device: &DeviceObject) -> Result<(Session, OwnedFd)> {
    count_forks();
    let (session, _, events) = Session::open(&device.place, device.port)?;
    ioctl_fionbio(&events, false)?;
    Ok((session, events))
}

/// Opens a device; null if that fails.
///
/// # Safety
/// The device is of a list that is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_open_device(device: *mut Device) -> *mut Context {
    // SAFETY: as the caller promises, it is an object of this library's.
    let object = unsafe { &*device.cast::<DeviceObject>() };
    let (session, events) = match open(object) {
        Ok(opened) => opened,
        Err(error) => return null(error),
    };
    object.hold();
    let object = Box::into_raw(Box::new(ContextObject {
        table: table(device, events.into_raw_fd()),
        session: Arc::new(session),
    }));
    // SAFETY: the offset is inside the object.
    unsafe { object.byte_add(OFFSET).cast() }
}

/// Closes a device. What was made by it and not destroyed is destroyed at the host, and is not to be used.
///
/// # Safety
/// The context is open, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_close_device(context: *mut Context) -> c_int {
    if context.is_null() {
        return number(Errno::INVAL);
    }
    // SAFETY: it was made by ibv_open_device of such a box, and is given up.
    let object = unsafe { Box::from_raw(context.byte_sub(OFFSET).cast::<ContextObject>()) };
    let Context {
        device, async_fd, ..
    } = object.table.context;
    // SAFETY: the descriptor is the context's own.
    drop(unsafe { OwnedFd::from_raw_fd(async_fd) });
    // SAFETY: the context has held it.
    unsafe { devices::release(device) };
    0
}
