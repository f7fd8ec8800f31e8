//! Completion queues that are polled one completion at a time (`ibv_cq_ex`).

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use uverbs::entry::Completion;

use super::completion::{self, CqObject};
use super::types::{Context, Cq, CqEx, CqInitAttr};
use super::{null, number};

/// `IBV_WC_STANDARD_FLAGS`, and the time of a completion by the adapter's clock.
const SUPPORTED_FIELDS: u64 = 0x7f | 1 << 7;
/// `IBV_CQ_INIT_ATTR_MASK_FLAGS`.
const WITH_FLAGS: u32 = 1;
/// `IBV_CREATE_CQ_ATTR_SINGLE_THREADED`: the program excludes its threads itself.
const SINGLE_THREADED: u32 = 1;

/// The completion that a thread looks at. From the start of a poll to its end the queue is that thread's.
#[derive(Debug, Default)]
pub(super) struct Poll {
    turn: Turn,
    current: UnsafeCell<Completion>,
}

/// The turn of one thread, from one call of the program to another.
#[derive(Debug, Default)]
pub(super) struct Turn(AtomicBool);

impl Turn {
    /// Waits for it.
    pub(super) fn take(&self) {
        while self.0.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
    }

    /// Ends it.
    pub(super) fn end(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// What a program sees of a queue.
pub(super) const fn functions(base: Cq) -> CqEx {
    CqEx {
        base,
        comp_mask: 0,
        status: 0,
        wr_id: 0,
        start_poll: Some(start_poll),
        next_poll: Some(next_poll),
        end_poll: Some(end_poll),
        read_opcode: Some(read_opcode),
        read_vendor_err: Some(read_vendor_err),
        read_byte_len: Some(read_byte_len),
        read_imm_data: Some(read_imm_data),
        read_qp_num: Some(read_qp_num),
        read_src_qp: Some(read_src_qp),
        read_wc_flags: Some(read_wc_flags),
        read_slid: Some(read_slid),
        read_sl: Some(read_sl),
        read_dlid_path_bits: Some(read_dlid_path_bits),
        read_completion_ts: Some(read_completion_ts),
        read_cvlan: Some(read_cvlan),
        read_flow_tag: Some(read_flow_tag),
        read_tm_info: Some(read_tm_info),
        read_completion_wallclock_ns: Some(read_completion_ts),
    }
}

/// Makes a queue; null if that fails, `EOPNOTSUPP` if it asks for what this device does not have.
///
/// # Safety
/// The context is open, the attributes are valid.
pub(super) unsafe extern "C" fn create_cq_ex(
    context: *mut Context,
    attr: *mut CqInitAttr,
) -> *mut CqEx {
    // SAFETY: as the caller promises.
    let attr = unsafe { &*attr };
    let flags = match attr.comp_mask & WITH_FLAGS {
        0 => 0,
        _ => attr.flags,
    };
    if attr.wc_flags & !SUPPORTED_FIELDS != 0
        || attr.comp_mask & !WITH_FLAGS != 0
        || flags & !SINGLE_THREADED != 0
    {
        return null(Errno::OPNOTSUPP);
    }
    // SAFETY: as the caller promises.
    let made = unsafe {
        completion::create(
            context,
            attr.cqe,
            attr.cq_context,
            attr.channel,
            attr.comp_vector,
        )
    };
    match made {
        Ok(object) => object.cast(),
        Err(error) => null(error),
    }
}

/// Goes on to the next completion.
///
/// # Safety
/// The queue is one of this library's, and this thread's turn.
unsafe fn advance(cq: *mut CqEx) -> c_int {
    let object = cq.cast::<CqObject>();
    // SAFETY: as the caller promises; it is this thread's turn.
    let (session, queue, current) = unsafe {
        (
            &(*object).session,
            &(*object).queue,
            (*object).poll.current.get(),
        )
    };
    let polled = queue.poll(1, |completion| {
        session.retire(&completion);
        // SAFETY: it is this thread's turn.
        unsafe {
            current.write(completion);
            (*cq).status = completion.status;
            (*cq).wr_id = completion.wr_id;
        }
    });
    match polled {
        Ok(0) => Errno::NOENT.raw_os_error(),
        Ok(_) => 0,
        Err(error) => number(error),
    }
}

unsafe extern "C" fn start_poll(cq: *mut CqEx, attr: *mut u32) -> c_int {
    // SAFETY: the pointer is null or to a mask.
    if unsafe { attr.as_ref() }.is_some_and(|&mask| mask != 0) {
        return number(Errno::INVAL);
    }
    // SAFETY: the queue is one of this library's.
    let object = unsafe { completion::object(cq.cast()) };
    if let Err(error) = object.session.check() {
        return number(error);
    }
    object.poll.turn.take();
    // SAFETY: as above, and it is this thread's turn.
    let advanced = unsafe { advance(cq) };
    if advanced != 0 {
        object.poll.turn.end();
    }
    advanced
}

unsafe extern "C" fn next_poll(cq: *mut CqEx) -> c_int {
    // SAFETY: the program has started a poll of it, and not ended it.
    unsafe { advance(cq) }
}

unsafe extern "C" fn end_poll(cq: *mut CqEx) {
    // SAFETY: the queue is one of this library's.
    unsafe { completion::object(cq.cast()) }.poll.turn.end();
}

/// # Safety
/// The queue is one of this library's, and this thread's turn.
unsafe fn current(cq: *mut CqEx) -> Completion {
    // SAFETY: as the caller promises.
    unsafe { completion::object(cq.cast()).poll.current.get().read() }
}

macro_rules! readers {
    ($($name:ident -> $type:ty = |$completion:ident| $value:expr;)*) => {$(
        unsafe extern "C" fn $name(cq: *mut CqEx) -> $type {
            // SAFETY: the program has started a poll of it, and not ended it.
            let $completion = unsafe { current(cq) };
            $value
        }
    )*};
}

readers! {
    read_opcode -> u32 = |completion| completion.opcode;
    read_vendor_err -> u32 = |completion| completion.vendor_err;
    read_byte_len -> u32 = |completion| completion.byte_len;
    read_imm_data -> u32 = |completion| completion::immediate(&completion);
    read_qp_num -> u32 = |completion| completion.qpn;
    read_src_qp -> u32 = |completion| completion.src_qp;
    read_wc_flags -> u32 = |completion| completion.flags;
    read_slid -> u32 = |completion| completion.slid.into();
    read_sl -> u8 = |completion| completion.sl;
    read_dlid_path_bits -> u8 = |completion| completion.dlid_path_bits;
    read_completion_ts -> u64 = |completion| completion.time_ns;
}

/// There are no VLANs: no queue can be made that has them.
unsafe extern "C" fn read_cvlan(_cq: *mut CqEx) -> u16 {
    0
}

/// There are no flows.
unsafe extern "C" fn read_flow_tag(_cq: *mut CqEx) -> u32 {
    0
}

/// There is no matching of tags.
unsafe extern "C" fn read_tm_info(_cq: *mut CqEx, _info: *mut c_void) {}
