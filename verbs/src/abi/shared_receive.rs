//! Shared receive queues.

use core::ffi::c_int;
use std::sync::Arc;

use rustix::io::Errno;
use uverbs::entry::receive_stride;
use uverbs::{Reply, Request};

use super::context::session;
use super::types::{Context, Pd, Srq, SrqAttr, SrqInitAttr, SrqInitAttrEx};
use super::{null, number};
use crate::connection::Result;
use crate::events::Events;
use crate::session::Session;
use crate::work_queue::{Shape, WorkQueue};

/// `IBV_SRQ_MAX_WR`.
const MAX_WR: c_int = 1;
/// `IBV_SRQ_LIMIT`.
const LIMIT: c_int = 2;

/// A shared receive queue as this library makes it: what a program sees is at its front.
#[repr(C)]
pub(super) struct SrqObject {
    srq: Srq,
    pub(super) session: Arc<Session>,
    pub(super) queue: Arc<WorkQueue>,
    cookie: u64,
    max_wr: u32,
    pub(super) events: Events,
}

/// # Safety
/// The queue is one of this library's.
pub(super) unsafe fn object<'a>(srq: *mut Srq) -> &'a SrqObject {
    // SAFETY: each queue of this library is part of such an object, as the caller promises.
    unsafe { &*srq.cast::<SrqObject>() }
}

/// # Safety
/// The domain is one of this library's.
unsafe fn create(pd: *mut Pd, init: &SrqInitAttr) -> Result<(*mut SrqObject, SrqAttr)> {
    // SAFETY: as the caller promises.
    let domain = unsafe { &*pd };
    // SAFETY: its context is open.
    let session = unsafe { session(domain.context) };
    let cookie = session.new_cookie()?;
    let made = session.queues(&Request::CreateSrq {
        pd: domain.handle,
        max_wr: init.attr.max_wr,
        max_sge: init.attr.max_sge,
        cookie,
    })?;
    let (
        Reply::Srq {
            srq,
            max_wr,
            max_sge,
            doorbell,
        },
        descriptors,
    ) = made
    else {
        return Err(Errno::PROTO);
    };
    let shape = Shape {
        requests: max_wr,
        pieces: max_sge,
        inline_bytes: 0,
        stride: receive_stride(max_sge),
        doorbell,
    };
    let ring = descriptors.first().ok_or(Errno::PROTO);
    let queue = match ring.and_then(|ring| WorkQueue::new(ring, shape)) {
        Ok(queue) => queue,
        Err(error) => {
            let _ = session.run(&Request::DestroySrq { srq });
            return Err(error);
        }
    };
    let object = Box::into_raw(Box::new(SrqObject {
        srq: Srq {
            context: domain.context,
            srq_context: init.srq_context,
            pd,
            handle: srq,
            mutex: libc::PTHREAD_MUTEX_INITIALIZER,
            cond: libc::PTHREAD_COND_INITIALIZER,
            events_completed: 0,
        },
        session: Arc::clone(session),
        queue: Arc::new(queue),
        cookie,
        max_wr,
        events: Events::default(),
    }));
    session.place_object(cookie, object.expose_provenance());
    let attr = SrqAttr {
        max_wr,
        max_sge,
        srq_limit: init.attr.srq_limit,
    };
    Ok((object, attr))
}

/// Makes a shared receive queue; null if that fails. Its sizes are written to the attributes.
///
/// # Safety
/// The domain is one of this library's, the attributes are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_srq(pd: *mut Pd, init: *mut SrqInitAttr) -> *mut Srq {
    // SAFETY: as the caller promises.
    let init = unsafe { &mut *init };
    // SAFETY: as the caller promises.
    match unsafe { create(pd, init) } {
        Ok((object, attr)) => {
            init.attr = attr;
            object.cast()
        }
        Err(error) => null(error),
    }
}

/// Queues of extended connections, or with matching of tags, which this device does not have: the header's
/// function calls [`ibv_create_srq`] for others.
pub(super) unsafe extern "C" fn create_srq_ex(
    _context: *mut Context,
    _init: *mut SrqInitAttrEx,
) -> *mut Srq {
    null(Errno::OPNOTSUPP)
}

/// Has an event told when fewer requests are left than a limit. The size stays.
///
/// # Safety
/// The queue is one of this library's, the attributes are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_srq(srq: *mut Srq, attr: *mut SrqAttr, mask: c_int) -> c_int {
    // SAFETY: as the caller promises.
    let (object, handle, attr) = unsafe { (object(srq), (*srq).handle, &*attr) };
    if mask & !(MAX_WR | LIMIT) != 0 {
        return number(Errno::INVAL);
    }
    if mask & MAX_WR != 0 {
        return number(Errno::OPNOTSUPP);
    }
    if mask & LIMIT == 0 {
        return 0;
    }
    if attr.srq_limit > object.max_wr {
        return number(Errno::INVAL);
    }
    let request = Request::ModifySrq {
        srq: handle,
        limit: attr.srq_limit,
    };
    match object.session.run(&request) {
        Ok(()) => 0,
        Err(error) => number(error),
    }
}

/// The sizes of a queue, and its limit.
///
/// # Safety
/// The queue is one of this library's, the pointer is to room for attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_srq(srq: *mut Srq, attr: *mut SrqAttr) -> c_int {
    // SAFETY: as the caller promises.
    let (object, handle) = unsafe { (object(srq), (*srq).handle) };
    match object.session.number(&Request::QuerySrq { srq: handle }) {
        Ok(srq_limit) => {
            let told = SrqAttr {
                max_wr: object.max_wr,
                max_sge: object.queue.pieces_max,
                srq_limit,
            };
            // SAFETY: as the caller promises.
            unsafe { attr.write(told) };
            0
        }
        Err(error) => number(error),
    }
}

/// Destroys a queue that no queue pair uses, when the program has acknowledged its events.
///
/// # Safety
/// It is one of this library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_srq(srq: *mut Srq) -> c_int {
    // SAFETY: as the caller promises.
    let (object, handle) = unsafe { (object(srq), (*srq).handle) };
    if let Err(error) = object.session.run(&Request::DestroySrq { srq: handle }) {
        return number(error);
    }
    object.session.forget_object(object.cookie);
    object.events.wait();
    // SAFETY: it was made of such a box, and is given up.
    drop(unsafe { Box::from_raw(srq.cast::<SrqObject>()) });
    0
}
