//! Send requests that are built by calls (`ibv_wr_*`) instead of a structure.
//!
//! From `ibv_wr_start` to `ibv_wr_complete` or `ibv_wr_abort` the queue is one thread's. Requests are posted all or
//! none, at the end; what is wrong with one is told then.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};

use rustix::io::Errno;
use uverbs::entry::{Data, Send, opcode, send_flag};

use super::extended_queues::Turn;
use super::number;
use super::pairs::{QpObject, RC, UC, UD};
use super::posting::{append, check_sends, immediate, piece};
use super::types::{Ah, DataBuf, Qp, QpEx, QpExOps, Sge};
use crate::connection::Result;

/// Builders of operations of a service: `ibv_qp_create_send_ops_flags`.
pub(super) const fn operations(service: u32) -> u64 {
    let (write, write_imm, send, send_imm) = (1, 2, 4, 8);
    let (read, compare_swap, fetch_add, send_inv) = (1 << 4, 1 << 5, 1 << 6, 1 << 9);
    let writes = write | write_imm;
    let sends = send | send_imm;
    match service {
        RC => writes | sends | read | compare_swap | fetch_add | send_inv,
        UC => writes | sends,
        UD => sends,
        _ => 0,
    }
}

/// The requests that a thread builds.
#[derive(Debug, Default)]
pub(super) struct Builder {
    turn: Turn,
    built: UnsafeCell<Built>,
}

#[derive(Debug, Default)]
struct Built {
    requests: Vec<Send>,
    /// What was wrong first.
    error: Option<Errno>,
}

/// What a program sees of a queue pair.
pub(super) const fn functions(qp_base: Qp) -> QpEx {
    QpEx {
        qp_base,
        comp_mask: 0,
        wr_id: 0,
        wr_flags: 0,
        ops: QpExOps {
            wr_atomic_cmp_swp: Some(atomic_cmp_swp),
            wr_atomic_fetch_add: Some(atomic_fetch_add),
            wr_bind_mw: Some(bind_mw),
            wr_local_inv: Some(local_inv),
            wr_rdma_read: Some(rdma_read),
            wr_rdma_write: Some(rdma_write),
            wr_rdma_write_imm: Some(rdma_write_imm),
            wr_send: Some(send),
            wr_send_imm: Some(send_imm),
            wr_send_inv: Some(send_inv),
            wr_send_tso: Some(send_tso),
            wr_set_ud_addr: Some(set_ud_addr),
            wr_set_xrc_srqn: Some(set_xrc_srqn),
            wr_set_inline_data: Some(set_inline_data),
            wr_set_inline_data_list: Some(set_inline_data_list),
            wr_set_sge: Some(set_sge),
            wr_set_sge_list: Some(set_sge_list),
            wr_start: Some(start),
            wr_complete: Some(complete),
            wr_abort: Some(abort),
            wr_atomic_write: Some(atomic_write),
        },
        wr_flush: Some(flush),
    }
}

type This = *mut QpEx;

/// # Safety
/// The queue pair is one of this library's, and this thread's turn.
unsafe fn built<'a>(qp: This) -> &'a mut Built {
    let object = qp.cast::<QpObject>();
    // SAFETY: as the caller promises: no other thread has a reference to it.
    unsafe { &mut *(*object).builder.built.get() }
}

/// Begins a request.
///
/// # Safety
/// As of [`built`].
unsafe fn begin(qp: This, code: u8, change: impl FnOnce(&mut Send)) {
    // SAFETY: as the caller promises.
    let (wr_id, flags, built) = unsafe { ((*qp).wr_id, (*qp).wr_flags, built(qp)) };
    let known = send_flag::FENCE | send_flag::SIGNALED | send_flag::SOLICITED;
    let flags = u8::try_from(flags)
        .ok()
        .map(|flags| flags & !send_flag::INLINE);
    let Some(flags) = flags.filter(|flags| flags & !known == 0) else {
        built.error.get_or_insert(Errno::INVAL);
        return;
    };
    let mut send = Send {
        wr_id,
        opcode: code,
        flags,
        immediate: 0,
        remote_address: 0,
        rkey: 0,
        compare_add: 0,
        swap: 0,
        handle: 0,
        remote_qpn: 0,
        remote_qkey: 0,
        data: Data::Pieces(Vec::new()),
    };
    change(&mut send);
    built.requests.push(send);
}

/// Changes the request that is being built.
///
/// # Safety
/// As of [`built`].
unsafe fn change(qp: This, change: impl FnOnce(&mut Send) -> Result<()>) {
    // SAFETY: as the caller promises.
    let built = unsafe { built(qp) };
    let changed = built
        .requests
        .last_mut()
        .ok_or(Errno::INVAL)
        .and_then(change);
    if let Err(error) = changed {
        built.error.get_or_insert(error);
    }
}

/// An operation that this device does not have.
///
/// # Safety
/// As of [`built`].
unsafe fn refuse(qp: This) {
    // SAFETY: as the caller promises.
    unsafe { built(qp) }.error.get_or_insert(Errno::OPNOTSUPP);
}

// SAFETY, of all that follow: programs call them through a queue pair of this library's, between its start and
// its completion or abortion, so that it is the thread's turn.

unsafe extern "C" fn atomic_cmp_swp(qp: This, rkey: u32, remote: u64, compare: u64, swap: u64) {
    // SAFETY: see above.
    unsafe {
        begin(qp, opcode::ATOMIC_CMP_AND_SWP, |send| {
            (send.rkey, send.remote_address) = (rkey, remote);
            (send.compare_add, send.swap) = (compare, swap);
        });
    }
}

unsafe extern "C" fn atomic_fetch_add(qp: This, rkey: u32, remote: u64, add: u64) {
    // SAFETY: see above.
    unsafe {
        begin(qp, opcode::ATOMIC_FETCH_AND_ADD, |send| {
            (send.rkey, send.remote_address, send.compare_add) = (rkey, remote, add);
        });
    }
}

unsafe extern "C" fn rdma_read(qp: This, rkey: u32, remote: u64) {
    // SAFETY: see above.
    unsafe {
        begin(qp, opcode::RDMA_READ, |send| {
            (send.rkey, send.remote_address) = (rkey, remote);
        });
    }
}

unsafe extern "C" fn rdma_write(qp: This, rkey: u32, remote: u64) {
    // SAFETY: see above.
    unsafe {
        begin(qp, opcode::RDMA_WRITE, |send| {
            (send.rkey, send.remote_address) = (rkey, remote);
        });
    }
}

unsafe extern "C" fn rdma_write_imm(qp: This, rkey: u32, remote: u64, imm_data: u32) {
    let code = opcode::RDMA_WRITE_WITH_IMM;
    // SAFETY: see above.
    unsafe {
        begin(qp, code, |send| {
            (send.rkey, send.remote_address) = (rkey, remote);
            send.immediate = immediate(code, imm_data);
        });
    }
}

unsafe extern "C" fn send(qp: This) {
    // SAFETY: see above.
    unsafe { begin(qp, opcode::SEND, |_| {}) };
}

unsafe extern "C" fn send_imm(qp: This, imm_data: u32) {
    let code = opcode::SEND_WITH_IMM;
    // SAFETY: see above.
    unsafe { begin(qp, code, |send| send.immediate = immediate(code, imm_data)) };
}

unsafe extern "C" fn send_inv(qp: This, rkey: u32) {
    // SAFETY: see above.
    unsafe { begin(qp, opcode::SEND_WITH_INV, |send| send.immediate = rkey) };
}

unsafe extern "C" fn bind_mw(qp: This, _mw: *mut c_void, _rkey: u32, _info: *const c_void) {
    // SAFETY: see above.
    unsafe { refuse(qp) };
}

unsafe extern "C" fn local_inv(qp: This, _rkey: u32) {
    // SAFETY: see above.
    unsafe { refuse(qp) };
}

unsafe extern "C" fn send_tso(qp: This, _header: *mut c_void, _length: u16, _mss: u16) {
    // SAFETY: see above.
    unsafe { refuse(qp) };
}

unsafe extern "C" fn atomic_write(qp: This, _rkey: u32, _remote: u64, _data: *const c_void) {
    // SAFETY: see above.
    unsafe { refuse(qp) };
}

unsafe extern "C" fn flush(qp: This, _rkey: u32, _remote: u64, _len: usize, _kind: u8, _level: u8) {
    // SAFETY: see above.
    unsafe { refuse(qp) };
}

unsafe extern "C" fn set_xrc_srqn(qp: This, _srqn: u32) {
    // SAFETY: see above.
    unsafe { refuse(qp) };
}

unsafe extern "C" fn set_ud_addr(qp: This, ah: *mut Ah, remote_qpn: u32, remote_qkey: u32) {
    // SAFETY: see above; the handle is null or one of this library's.
    unsafe {
        let handle = ah.as_ref().map(|ah| ah.handle);
        change(qp, |send| {
            send.handle = handle.ok_or(Errno::INVAL)?;
            (send.remote_qpn, send.remote_qkey) = (remote_qpn, remote_qkey);
            Ok(())
        });
    }
}

/// # Safety
/// As of [`built`]; the pieces are there.
unsafe fn set_inline(qp: This, parts: impl Iterator<Item = (*const u8, usize)>) {
    // SAFETY: as the caller promises.
    unsafe {
        let object = &*qp.cast::<QpObject>();
        let limit = object.queues.send.inline_max;
        change(qp, |send| {
            let mut bytes = Vec::new();
            for (from, length) in parts {
                append(&mut bytes, from, length, limit)?;
            }
            send.data = Data::Inline(bytes);
            Ok(())
        });
    }
}

unsafe extern "C" fn set_inline_data(qp: This, addr: *mut c_void, length: usize) {
    // SAFETY: see above; there are so many bytes.
    unsafe { set_inline(qp, core::iter::once((addr.cast_const().cast(), length))) };
}

unsafe extern "C" fn set_inline_data_list(qp: This, count: usize, list: *const DataBuf) {
    // SAFETY: see above; there are so many pieces.
    unsafe {
        let part = |at: usize| {
            let buffer = &*list.add(at);
            (buffer.addr.cast_const().cast(), buffer.length)
        };
        set_inline(qp, (0..count).map(part));
    }
}

unsafe extern "C" fn set_sge(qp: This, lkey: u32, addr: u64, length: u32) {
    let sge = Sge { addr, length, lkey };
    // SAFETY: see above; there is one piece.
    unsafe { set_sge_list(qp, 1, &raw const sge) };
}

unsafe extern "C" fn set_sge_list(qp: This, count: usize, list: *const Sge) {
    // SAFETY: see above; there are so many pieces.
    unsafe {
        let object = &*qp.cast::<QpObject>();
        let limit = usize::try_from(object.queues.send.pieces_max).unwrap_or(usize::MAX);
        change(qp, |send| {
            if count > limit {
                return Err(Errno::INVAL);
            }
            let pieces = (0..count).map(|at| piece(&*list.add(at)));
            send.data = Data::Pieces(pieces.collect());
            Ok(())
        });
    }
}

unsafe extern "C" fn start(qp: This) {
    let object = qp.cast::<QpObject>();
    // SAFETY: the queue pair is one of this library's; behind the turn it is this thread's.
    unsafe {
        (*object).builder.turn.take();
        let built = built(qp);
        built.requests.clear();
        built.error = None;
    }
}

unsafe extern "C" fn complete(qp: This) -> c_int {
    // SAFETY: the queue pair is one of this library's.
    let object = unsafe { &*qp.cast::<QpObject>() };
    // SAFETY: see above.
    let built = unsafe { built(qp) };
    let outcome = match built.error {
        Some(error) => Err(error),
        None => check_sends(object).and_then(|()| post(object, &built.requests)),
    };
    object.builder.turn.end();
    match outcome {
        Ok(()) => 0,
        Err(error) => number(error),
    }
}

fn post(object: &QpObject, requests: &[Send]) -> Result<()> {
    let queue = &object.queues.send;
    let mut requests = requests.iter();
    if !queue.has_room(requests.len()) {
        return Err(Errno::NOMEM);
    }
    let (count, outcome) = queue.post(|words| {
        requests.next()?.emit(words);
        Some(Ok(()))
    });
    if count > 0 {
        object.session.ring(queue.doorbell);
    }
    outcome
}

unsafe extern "C" fn abort(qp: This) {
    let object = qp.cast::<QpObject>();
    // SAFETY: see above.
    unsafe {
        built(qp).requests.clear();
        (*object).builder.turn.end();
    }
}
