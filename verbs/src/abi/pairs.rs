//! Queue pairs.

use core::ffi::c_int;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use uverbs::entry::{receive_stride, send_stride};
use uverbs::{Capabilities, QpAttributes, QpInit, Reply, Request, attribute};

use super::builders::{self, Builder};
use super::completion;
use super::context::session;
use super::handles;
use super::shared_receive;
use super::types::{AhAttr, Context, Cq, Pd, Qp, QpAttr, QpCap, QpEx, QpInitAttr, QpInitAttrEx};
use super::{null, number};
use crate::connection::Result;
use crate::events::Events;
use crate::session::{Queues, Session};
use crate::work_queue::{Shape, WorkQueue};

/// `IBV_QPT_RC`.
pub(super) const RC: u32 = 2;
/// `IBV_QPT_UC`.
pub(super) const UC: u32 = 3;
/// `IBV_QPT_UD`.
pub(super) const UD: u32 = 4;

/// `IBV_QP_INIT_ATTR_PD`.
const WITH_PD: u32 = 1;
/// `IBV_QP_INIT_ATTR_CREATE_FLAGS`.
const WITH_CREATE_FLAGS: u32 = 1 << 2;
/// `IBV_QP_INIT_ATTR_SEND_OPS_FLAGS`.
const WITH_SEND_OPS: u32 = 1 << 6;
/// `IBV_MIG_MIGRATED`.
const MIGRATED: u32 = 0;
/// `IBV_QPS_RESET`.
const RESET: u32 = 0;

/// A queue pair as this library makes it: what a program sees is at its front.
#[repr(C)]
pub(super) struct QpObject {
    pub(super) qp: QpEx,
    /// Whether the program has asked for builders of send requests.
    is_extended: bool,
    pub(super) session: Arc<Session>,
    pub(super) queues: Queues,
    pub(super) builder: Builder,
    cap: QpCap,
    signal_all: bool,
    cookie: u64,
    pub(super) events: Events,
}

/// # Safety
/// The queue pair is one of this library's.
pub(super) unsafe fn object<'a>(qp: *mut Qp) -> &'a QpObject {
    // SAFETY: each queue pair of this library is part of such an object, as the caller promises.
    unsafe { &*qp.cast::<QpObject>() }
}

fn capabilities(cap: &QpCap) -> Capabilities {
    Capabilities {
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline_data: cap.max_inline_data,
    }
}

/// The send queue, and the receive queue or that which is shared.
///
/// # Safety
/// The shared queue is null or one of this library's.
unsafe fn queues(
    init: &QpInitAttr,
    cap: &Capabilities,
    doorbells: [u32; 2],
    descriptors: &[OwnedFd],
) -> Result<Queues> {
    let [send_doorbell, receive_doorbell] = doorbells;
    let send = Shape {
        requests: cap.max_send_wr,
        pieces: cap.max_send_sge,
        inline_bytes: cap.max_inline_data,
        stride: send_stride(cap.max_send_sge, cap.max_inline_data),
        doorbell: send_doorbell,
    };
    let receive = Shape {
        requests: cap.max_recv_wr,
        pieces: cap.max_recv_sge,
        inline_bytes: 0,
        stride: receive_stride(cap.max_recv_sge),
        doorbell: receive_doorbell,
    };
    let mut rings = descriptors.iter();
    let mut ring = || rings.next().ok_or(Errno::PROTO);
    let send = Arc::new(WorkQueue::new(ring()?, send)?);
    let receive = match init.srq.is_null() {
        true => Arc::new(WorkQueue::new(ring()?, receive)?),
        // SAFETY: as the caller promises.
        false => Arc::clone(unsafe { &shared_receive::object(init.srq).queue }),
    };
    Ok(Queues {
        send,
        receive,
        is_shared: !init.srq.is_null(),
    })
}

/// Makes a queue pair, with builders of these operations if there are any.
///
/// # Safety
/// The domain, the completion queues and the shared receive queue are ones of this library's.
unsafe fn create(pd: *mut Pd, init: &QpInitAttr, operations: Option<u64>) -> Result<*mut QpObject> {
    if init.send_cq.is_null() || init.recv_cq.is_null() {
        return Err(Errno::INVAL);
    }
    // SAFETY: as the caller promises.
    let (context, domain, send_cq, recv_cq, srq) = unsafe {
        let srq = init.srq.as_ref().map(|srq| srq.handle);
        (
            (*pd).context,
            (*pd).handle,
            (*init.send_cq).handle,
            (*init.recv_cq).handle,
            srq,
        )
    };
    // SAFETY: its context is open.
    let session = unsafe { session(context) };
    let cookie = session.new_cookie()?;
    let made = session.queues(&Request::CreateQp(Box::new(QpInit {
        pd: domain,
        qp_type: init.qp_type,
        send_cq,
        recv_cq,
        srq,
        cap: capabilities(&init.cap),
        sq_sig_all: init.sq_sig_all != 0,
        cookie,
    })))?;
    let (
        Reply::Qp {
            qpn,
            cap,
            send_doorbell,
            receive_doorbell,
        },
        descriptors,
    ) = made
    else {
        return Err(Errno::PROTO);
    };
    let doorbells = [send_doorbell, receive_doorbell];
    // SAFETY: as the caller promises.
    let queues = match unsafe { queues(init, &cap, doorbells, &descriptors) } {
        Ok(queues) => queues,
        Err(error) => {
            let _ = session.run(&Request::DestroyQp { qpn });
            return Err(error);
        }
    };
    session.insert(qpn, queues.clone());
    let base = Qp {
        context,
        qp_context: init.qp_context,
        pd,
        send_cq: init.send_cq,
        recv_cq: init.recv_cq,
        srq: init.srq,
        handle: qpn,
        qp_num: qpn,
        state: RESET,
        qp_type: init.qp_type,
        mutex: libc::PTHREAD_MUTEX_INITIALIZER,
        cond: libc::PTHREAD_COND_INITIALIZER,
        events_completed: 0,
    };
    let object = Box::into_raw(Box::new(QpObject {
        qp: builders::functions(base),
        is_extended: operations.is_some(),
        session: Arc::clone(session),
        queues,
        builder: Builder::default(),
        cap: QpCap {
            max_send_wr: cap.max_send_wr,
            max_recv_wr: cap.max_recv_wr,
            max_send_sge: cap.max_send_sge,
            max_recv_sge: cap.max_recv_sge,
            max_inline_data: cap.max_inline_data,
        },
        signal_all: init.sq_sig_all != 0,
        cookie,
        events: Events::default(),
    }));
    session.place_object(cookie, object.expose_provenance());
    Ok(object)
}

fn check_type(kind: u32) -> Result<()> {
    match kind {
        RC | UC | UD => Ok(()),
        _ => Err(Errno::OPNOTSUPP),
    }
}

/// Makes a queue pair; null if that fails. Its sizes are written to the attributes.
///
/// # Safety
/// The domain and the queues that the attributes name are ones of this library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_qp(pd: *mut Pd, init: *mut QpInitAttr) -> *mut Qp {
    // SAFETY: as the caller promises.
    let init = unsafe { &mut *init };
    // SAFETY: as the caller promises.
    let made = check_type(init.qp_type).and_then(|()| unsafe { create(pd, init, None) });
    match made {
        Ok(object) => {
            // SAFETY: it has just been made.
            init.cap = unsafe { (*object).cap };
            object.cast()
        }
        Err(error) => null(error),
    }
}

/// Makes a queue pair, with builders of send requests if that is asked for; null if that fails, `EOPNOTSUPP` if
/// it asks for what this device does not have.
///
/// # Safety
/// As of [`ibv_create_qp`].
pub(super) unsafe extern "C" fn create_qp_ex(
    _context: *mut Context,
    init: *mut QpInitAttrEx,
) -> *mut Qp {
    // SAFETY: as the caller promises.
    let whole = unsafe { &*init };
    let has = |flag: u32| whole.comp_mask & flag != 0;
    let operations = has(WITH_SEND_OPS).then_some(whole.send_ops_flags);
    let known = WITH_PD | WITH_CREATE_FLAGS | WITH_SEND_OPS;
    if whole.comp_mask & !known != 0
        || has(WITH_CREATE_FLAGS) && whole.create_flags != 0
        || check_type(whole.qp_type).is_err()
        || operations.is_some_and(|wanted| wanted & !builders::operations(whole.qp_type) != 0)
    {
        return null(Errno::OPNOTSUPP);
    }
    if !has(WITH_PD) || whole.pd.is_null() {
        return null(Errno::INVAL);
    }
    // SAFETY: its first fields are those of the shorter structure.
    let short = unsafe { &mut *init.cast::<QpInitAttr>() };
    // SAFETY: as the caller promises.
    match unsafe { create(whole.pd, short, operations) } {
        Ok(object) => {
            // SAFETY: it has just been made.
            short.cap = unsafe { (*object).cap };
            object.cast()
        }
        Err(error) => null(error),
    }
}

/// A queue pair with builders; null if it was not made with any.
///
/// # Safety
/// The queue pair is one of this library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_qp_to_qp_ex(qp: *mut Qp) -> *mut QpEx {
    // SAFETY: as the caller promises.
    match unsafe { object(qp) }.is_extended {
        true => qp.cast(),
        false => core::ptr::null_mut(),
    }
}

fn to_host(attr: &QpAttr) -> QpAttributes {
    QpAttributes {
        qp_state: attr.qp_state,
        cur_qp_state: attr.cur_qp_state,
        path_mtu: attr.path_mtu,
        qkey: attr.qkey,
        rq_psn: attr.rq_psn,
        sq_psn: attr.sq_psn,
        dest_qp_num: attr.dest_qp_num,
        qp_access_flags: attr.qp_access_flags,
        ah_attr: handles::to_host(&attr.ah_attr),
        pkey_index: attr.pkey_index,
        en_sqd_async_notify: attr.en_sqd_async_notify != 0,
        sq_draining: false,
        max_rd_atomic: attr.max_rd_atomic,
        max_dest_rd_atomic: attr.max_dest_rd_atomic,
        min_rnr_timer: attr.min_rnr_timer,
        port_num: attr.port_num,
        timeout: attr.timeout,
        retry_cnt: attr.retry_cnt,
        rnr_retry: attr.rnr_retry,
    }
}

fn from_host(attributes: &QpAttributes, cap: QpCap) -> QpAttr {
    QpAttr {
        qp_state: attributes.qp_state,
        cur_qp_state: attributes.cur_qp_state,
        path_mtu: attributes.path_mtu,
        path_mig_state: MIGRATED,
        qkey: attributes.qkey,
        rq_psn: attributes.rq_psn,
        sq_psn: attributes.sq_psn,
        dest_qp_num: attributes.dest_qp_num,
        qp_access_flags: attributes.qp_access_flags,
        cap,
        ah_attr: handles::from_host(&attributes.ah_attr),
        alt_ah_attr: AhAttr::default(),
        pkey_index: attributes.pkey_index,
        alt_pkey_index: 0,
        en_sqd_async_notify: attributes.en_sqd_async_notify.into(),
        sq_draining: attributes.sq_draining.into(),
        max_rd_atomic: attributes.max_rd_atomic,
        max_dest_rd_atomic: attributes.max_dest_rd_atomic,
        min_rnr_timer: attributes.min_rnr_timer,
        port_num: attributes.port_num,
        timeout: attributes.timeout,
        retry_cnt: attributes.retry_cnt,
        rnr_retry: attributes.rnr_retry,
        alt_port_num: 0,
        alt_timeout: 0,
        rate_limit: 0,
    }
}

/// Removes the completions of a queue pair that is destroyed or reset. Receive requests of a shared queue that
/// they end have their places free again.
///
/// # Safety
/// The queue pair's completion queues are ones of this library's.
unsafe fn purge(object: &QpObject) -> Result<()> {
    let qpn = object.qp.qp_base.qp_num;
    let queues: [*mut Cq; 2] = [object.qp.qp_base.send_cq, object.qp.qp_base.recv_cq];
    for cq in queues {
        // SAFETY: as the caller promises.
        let cq = unsafe { completion::object(cq) };
        cq.queue
            .purge(qpn, |completion| object.session.retire(completion))?;
    }
    object.queues.send.clear();
    if !object.queues.is_shared {
        object.queues.receive.clear();
    }
    Ok(())
}

/// Changes a queue pair.
///
/// # Safety
/// The queue pair is one of this library's, the attributes are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_qp(qp: *mut Qp, attr: *mut QpAttr, mask: c_int) -> c_int {
    // SAFETY: as the caller promises.
    let (object, attr) = unsafe { (object(qp), &*attr) };
    let mask = mask.cast_unsigned();
    let request = Request::ModifyQp {
        qpn: object.qp.qp_base.qp_num,
        mask,
        attributes: Box::new(to_host(attr)),
    };
    if let Err(error) = object.session.run(&request) {
        return number(error);
    }
    if mask & attribute::STATE != 0 {
        if attr.qp_state == RESET {
            // SAFETY: a queue pair's completion queues live as long as it does.
            let purged = unsafe { purge(object) };
            if let Err(error) = purged {
                return number(error);
            }
        }
        // SAFETY: as the caller promises.
        unsafe { (&raw mut (*qp).state).write(attr.qp_state) };
    }
    0
}

/// What a queue pair is set to, and what it was made with.
///
/// # Safety
/// The queue pair is one of this library's, the pointers are to room for attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_qp(
    qp: *mut Qp,
    attr: *mut QpAttr,
    _mask: c_int,
    init: *mut QpInitAttr,
) -> c_int {
    // SAFETY: as the caller promises.
    let object = unsafe { object(qp) };
    let base = &object.qp.qp_base;
    match object.session.query_queue_pair(base.qp_num) {
        Ok(attributes) => {
            let made = QpInitAttr {
                qp_context: base.qp_context,
                send_cq: base.send_cq,
                recv_cq: base.recv_cq,
                srq: base.srq,
                cap: object.cap,
                qp_type: base.qp_type,
                sq_sig_all: object.signal_all.into(),
            };
            // SAFETY: as the caller promises.
            unsafe {
                attr.write(from_host(&attributes, object.cap));
                init.write(made);
                (&raw mut (*qp).state).write(attributes.qp_state);
            }
            0
        }
        Err(error) => number(error),
    }
}

/// Whether data is written to memory in the order of its bytes: a program that polls memory may not rely on it.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_query_qp_data_in_order(_qp: *mut Qp, _operation: u32, _flags: u32) -> c_int {
    0
}

/// Destroys a queue pair, when the program has acknowledged its events.
///
/// # Safety
/// It is one of this library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_qp(qp: *mut Qp) -> c_int {
    // SAFETY: as the caller promises.
    let object = unsafe { object(qp) };
    let qpn = object.qp.qp_base.qp_num;
    if let Err(error) = object.session.run(&Request::DestroyQp { qpn }) {
        return number(error);
    }
    // SAFETY: a queue pair's completion queues live as long as it does. A queue that makes no sense has been told
    // of by polling it.
    let _ = unsafe { purge(object) };
    object.session.remove(qpn);
    object.session.forget_object(object.cookie);
    object.events.wait();
    // SAFETY: it was made of such a box, and is given up.
    drop(unsafe { Box::from_raw(qp.cast::<QpObject>()) });
    0
}
