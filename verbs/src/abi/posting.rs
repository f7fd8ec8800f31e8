//! Posting work requests.

use core::ffi::c_int;

use rustix::io::Errno;
use uverbs::entry::{Data, Piece, Receive, Send, opcode, send_flag};

use super::number;
use super::pairs::{self, QpObject, RC, UC, UD};
use super::shared_receive;
use super::types::{Ah, Qp, RecvWr, SendWr, Sge, Srq};
use crate::connection::Result;
use crate::session::Session;
use crate::work_queue::WorkQueue;

/// `IBV_QPS_INIT`.
const INIT: u32 = 1;
/// `IBV_QPS_RTS`.
const RTS: u32 = 3;

/// Operations of each service, a bit each by the numbers of `ibv_wr_opcode`.
pub(super) const fn opcodes(service: u32) -> u32 {
    let sends = 1 << opcode::SEND | 1 << opcode::SEND_WITH_IMM;
    let writes = 1 << opcode::RDMA_WRITE | 1 << opcode::RDMA_WRITE_WITH_IMM;
    let answered = 1 << opcode::RDMA_READ
        | 1 << opcode::ATOMIC_CMP_AND_SWP
        | 1 << opcode::ATOMIC_FETCH_AND_ADD
        | 1 << opcode::SEND_WITH_INV;
    match service {
        RC => sends | writes | answered,
        UC => sends | writes,
        UD => sends,
        _ => 0,
    }
}

/// Whether a request carries a number in network byte order.
const fn has_immediate(code: u8) -> bool {
    matches!(code, opcode::SEND_WITH_IMM | opcode::RDMA_WRITE_WITH_IMM)
}

/// Immediate data as the host takes it; the key to invalidate is in the machine's byte order already.
pub(super) const fn immediate(code: u8, number: u32) -> u32 {
    match has_immediate(code) {
        true => u32::from_be(number),
        false => number,
    }
}

pub(super) const fn piece(sge: &Sge) -> Piece {
    Piece {
        address: sge.addr,
        length: sge.length,
        lkey: sge.lkey,
    }
}

/// The pieces of a request.
///
/// # Safety
/// The pointer is to so many, or there are none.
unsafe fn pieces<'a>(list: *const Sge, count: c_int, limit: u32) -> Result<&'a [Sge]> {
    let count = u32::try_from(count).map_err(|_| Errno::INVAL)?;
    if count > limit || count > 0 && list.is_null() {
        return Err(Errno::INVAL);
    }
    let count = usize::try_from(count).map_err(|_| Errno::INVAL)?;
    match count {
        0 => Ok(&[]),
        // SAFETY: as the caller promises.
        _ => Ok(unsafe { core::slice::from_raw_parts(list, count) }),
    }
}

/// Copies bytes of the program behind others, `limit` in all at most.
///
/// # Safety
/// The pointer is to so many bytes, or there are none.
pub(super) unsafe fn append(
    bytes: &mut Vec<u8>,
    from: *const u8,
    length: usize,
    limit: u32,
) -> Result<()> {
    let room = usize::try_from(limit).unwrap_or(usize::MAX) - bytes.len();
    match length {
        0 => Ok(()),
        length if length > room => Err(Errno::INVAL),
        length => {
            // SAFETY: as the caller promises.
            bytes.extend_from_slice(unsafe { core::slice::from_raw_parts(from, length) });
            Ok(())
        }
    }
}

/// The data of a send request.
///
/// # Safety
/// The list and, with inline data, what it names are there.
unsafe fn data(wr: &SendWr, queue: &WorkQueue) -> Result<Data> {
    let is_inline = wr.send_flags & u32::from(send_flag::INLINE) != 0;
    // Inline data may come in more pieces than fit into an entry, as it is copied.
    let limit = if is_inline {
        u32::MAX
    } else {
        queue.pieces_max
    };
    // SAFETY: as the caller promises.
    let list = unsafe { pieces(wr.sg_list, wr.num_sge, limit) }?;
    if !is_inline {
        return Ok(Data::Pieces(list.iter().map(piece).collect()));
    }
    let mut bytes = Vec::new();
    for sge in list {
        let from = core::ptr::with_exposed_provenance(
            usize::try_from(sge.addr).map_err(|_| Errno::INVAL)?,
        );
        let length = usize::try_from(sge.length).map_err(|_| Errno::INVAL)?;
        // SAFETY: as the caller promises.
        unsafe { append(&mut bytes, from, length, queue.inline_max) }?;
    }
    Ok(Data::Inline(bytes))
}

/// A send request as the host takes it.
///
/// # Safety
/// The request is valid, and its queue pair's.
unsafe fn send_request(object: &QpObject, wr: &SendWr) -> Result<Send> {
    let service = object.qp.qp_base.qp_type;
    let code = u8::try_from(wr.opcode).map_err(|_| Errno::INVAL)?;
    if 1u32
        .checked_shl(wr.opcode)
        .is_none_or(|bit| opcodes(service) & bit == 0)
    {
        return Err(Errno::INVAL);
    }
    let flags = u8::try_from(wr.send_flags).map_err(|_| Errno::INVAL)?;
    let known = send_flag::FENCE | send_flag::SIGNALED | send_flag::SOLICITED | send_flag::INLINE;
    if flags & !known != 0 {
        return Err(Errno::INVAL);
    }
    let is_atomic = matches!(
        code,
        opcode::ATOMIC_CMP_AND_SWP | opcode::ATOMIC_FETCH_AND_ADD
    );
    let [low, high] = wr.compare_add;
    let mut send = Send {
        wr_id: wr.wr_id,
        opcode: code,
        flags,
        immediate: immediate(code, wr.imm_data),
        remote_address: 0,
        rkey: 0,
        compare_add: 0,
        swap: 0,
        handle: 0,
        remote_qpn: 0,
        remote_qkey: 0,
        // SAFETY: as the caller promises.
        data: unsafe { data(wr, &object.queues.send) }?,
    };
    if service == UD {
        let handle = usize::try_from(wr.remote_addr).map_err(|_| Errno::INVAL)?;
        let handle = core::ptr::with_exposed_provenance::<Ah>(handle);
        // SAFETY: it is null or a handle of this library's, as the caller promises.
        send.handle = unsafe { handle.as_ref() }.ok_or(Errno::INVAL)?.handle;
        (send.remote_qpn, send.remote_qkey) = (low, high);
    } else if is_atomic {
        let bytes = [low.to_ne_bytes(), high.to_ne_bytes()].concat();
        let bytes = <[u8; 8]>::try_from(bytes).map_err(|_| Errno::INVAL)?;
        send.compare_add = u64::from_ne_bytes(bytes);
        (send.remote_address, send.swap, send.rkey) = (wr.remote_addr, wr.swap, wr.rkey);
    } else {
        (send.remote_address, send.rkey) = (wr.remote_addr, low);
    }
    Ok(send)
}

/// Whether a queue pair takes send requests in the state that the program has left it in.
pub(super) fn check_sends(object: &QpObject) -> Result<()> {
    match object.qp.qp_base.state < RTS {
        true => Err(Errno::INVAL),
        false => object.session.check(),
    }
}

/// A list of requests that are linked to each other.
trait Linked: Sized {
    /// The next one, or null.
    fn next(&self) -> *mut Self;
}

impl Linked for SendWr {
    fn next(&self) -> *mut Self {
        self.next
    }
}

impl Linked for RecvWr {
    fn next(&self) -> *mut Self {
        self.next
    }
}

/// Posts a list of requests, each as `write` has it.
///
/// # Safety
/// The list is valid, and `bad` is to room for a pointer.
unsafe fn post<W: Linked>(
    session: &Session,
    queue: &WorkQueue,
    (first, bad): (*mut W, *mut *mut W),
    write: impl Fn(&W, &mut Vec<u64>) -> Result<()>,
) -> c_int {
    let mut next = first;
    let mut failed = first;
    let (count, outcome) = queue.post(|words| {
        // What was written before has gone in: it is this one's turn to fail.
        failed = next;
        // SAFETY: the list ends with a null pointer.
        let request = unsafe { next.as_ref() }?;
        next = request.next();
        Some(write(request, words))
    });
    if count > 0 {
        session.ring(queue.doorbell);
    }
    match outcome {
        Ok(()) => 0,
        Err(error) => {
            // SAFETY: as the caller promises.
            unsafe { bad.write(failed) };
            number(error)
        }
    }
}

/// Posts send requests; an error number, and the first that was not posted.
///
/// # Safety
/// The queue pair is one of this library's, the requests are valid.
pub(super) unsafe extern "C" fn post_send(
    qp: *mut Qp,
    wr: *mut SendWr,
    bad: *mut *mut SendWr,
) -> c_int {
    // SAFETY: as the caller promises.
    let object = unsafe { pairs::object(qp) };
    if let Err(error) = check_sends(object) {
        // SAFETY: as the caller promises.
        unsafe { bad.write(wr) };
        return number(error);
    }
    // SAFETY: as the caller promises.
    unsafe {
        post(
            &object.session,
            &object.queues.send,
            (wr, bad),
            |wr, words| {
                send_request(object, wr)?.emit(words);
                Ok(())
            },
        )
    }
}

/// Posts receive requests.
///
/// # Safety
/// The requests are valid, and `bad` is to room for a pointer.
unsafe fn receive(
    session: &Session,
    queue: &WorkQueue,
    wr: *mut RecvWr,
    bad: *mut *mut RecvWr,
) -> c_int {
    if let Err(error) = session.check() {
        // SAFETY: as the caller promises.
        unsafe { bad.write(wr) };
        return number(error);
    }
    // SAFETY: as the caller promises.
    unsafe {
        post(session, queue, (wr, bad), |wr, words| {
            let list = pieces(wr.sg_list, wr.num_sge, queue.pieces_max)?;
            let request = Receive {
                wr_id: wr.wr_id,
                pieces: list.iter().map(piece).collect(),
            };
            request.emit(words);
            Ok(())
        })
    }
}

/// Posts receive requests to a queue pair; an error number, and the first that was not posted.
///
/// # Safety
/// The queue pair is one of this library's, the requests are valid.
pub(super) unsafe extern "C" fn post_recv(
    qp: *mut Qp,
    wr: *mut RecvWr,
    bad: *mut *mut RecvWr,
) -> c_int {
    // SAFETY: as the caller promises.
    let object = unsafe { pairs::object(qp) };
    if object.queues.is_shared || object.qp.qp_base.state < INIT {
        // SAFETY: as the caller promises.
        unsafe { bad.write(wr) };
        return number(Errno::INVAL);
    }
    // SAFETY: as the caller promises.
    unsafe { receive(&object.session, &object.queues.receive, wr, bad) }
}

/// Posts receive requests to a shared queue; an error number, and the first that was not posted.
///
/// # Safety
/// The queue is one of this library's, the requests are valid.
pub(super) unsafe extern "C" fn post_srq_recv(
    srq: *mut Srq,
    wr: *mut RecvWr,
    bad: *mut *mut RecvWr,
) -> c_int {
    // SAFETY: as the caller promises.
    let object = unsafe { shared_receive::object(srq) };
    // SAFETY: as the caller promises.
    unsafe { receive(&object.session, &object.queue, wr, bad) }
}
