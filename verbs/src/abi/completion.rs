//! Completion queues, channels, and what is told by them.

use core::ffi::{c_int, c_uint, c_void};
use std::os::fd::{FromRawFd as _, IntoRawFd as _, OwnedFd};
use std::sync::Arc;

use rustix::io::{Errno, ioctl_fionbio};
use uverbs::Request;
use uverbs::entry::Completion;
use uverbs::ring::Arming;

use super::context::session;
use super::extended_queues::{self, Poll};
use super::types::{CompChannel, Context, Cq, CqEx, Wc};
use super::{minus_one, null, number, read_event};
use crate::completion_queue::CompletionQueue;
use crate::connection::Result;
use crate::events::Events;
use crate::session::Session;

/// `IBV_WC_WITH_IMM`.
const WITH_IMM: u32 = 2;

/// A channel as this library makes it: what a program sees is at its front.
#[repr(C)]
struct ChannelObject {
    channel: CompChannel,
    handle: u32,
}

/// A completion queue as this library makes it: what a program sees is at its front.
#[repr(C)]
pub(super) struct CqObject {
    pub(super) cq: CqEx,
    pub(super) session: Arc<Session>,
    pub(super) queue: CompletionQueue,
    cookie: u64,
    /// Of its channel.
    completions: Events,
    /// Asynchronous ones.
    pub(super) events: Events,
    pub(super) poll: Poll,
}

/// # Safety
/// The queue is one of this library's.
pub(super) unsafe fn object<'a>(cq: *mut Cq) -> &'a CqObject {
    // SAFETY: each queue of this library is part of such an object, as the caller promises.
    unsafe { &*cq.cast::<CqObject>() }
}

/// Makes a completion channel; null if that fails.
///
/// # Safety
/// The context is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_comp_channel(context: *mut Context) -> *mut CompChannel {
    // SAFETY: as the caller promises.
    let made = unsafe { session(context) }.number_and_descriptor(&Request::CreateChannel);
    let made = made.and_then(|(handle, pipe)| {
        ioctl_fionbio(&pipe, false)?;
        Ok((handle, pipe))
    });
    match made {
        Ok((handle, pipe)) => {
            let channel = CompChannel {
                context,
                fd: pipe.into_raw_fd(),
                refcnt: 0,
            };
            Box::into_raw(Box::new(ChannelObject { channel, handle })).cast()
        }
        Err(error) => null(error),
    }
}

/// Destroys a channel that no queue uses.
///
/// # Safety
/// It is one of this library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut CompChannel) -> c_int {
    let object = channel.cast::<ChannelObject>();
    // SAFETY: as the caller promises.
    let (context, handle) = unsafe { ((*channel).context, (*object).handle) };
    // SAFETY: its context is open.
    let session = unsafe { session(context) };
    match session.run(&Request::DestroyChannel { channel: handle }) {
        Ok(()) => {
            // SAFETY: it was made of such a box, and is given up; the descriptor is its own.
            unsafe {
                drop(OwnedFd::from_raw_fd((*channel).fd));
                drop(Box::from_raw(object));
            }
            0
        }
        Err(error) => number(error),
    }
}

/// Makes a queue.
///
/// # Safety
/// The context is open; the channel is null or one of this library's.
pub(super) unsafe fn create(
    context: *mut Context,
    entries: u32,
    cq_context: *mut c_void,
    channel: *mut CompChannel,
    vector: u32,
) -> Result<*mut CqObject> {
    if entries == 0 || vector != 0 {
        return Err(Errno::INVAL);
    }
    // SAFETY: as the caller promises.
    let session = unsafe { session(context) };
    let cookie = session.new_cookie()?;
    // SAFETY: as the caller promises.
    let handle = unsafe { channel.cast::<ChannelObject>().as_ref() }.map(|object| object.handle);
    let request = Request::CreateCq {
        entries,
        channel: handle,
        cookie,
    };
    let (cq, entries, ring) = session.completion_queue(&request)?;
    let queue = match CompletionQueue::new(&ring, entries) {
        Ok(queue) => queue,
        Err(error) => {
            let _ = session.run(&Request::DestroyCq { cq });
            return Err(error);
        }
    };
    let base = Cq {
        context,
        channel,
        cq_context,
        handle: cq,
        cqe: c_int::try_from(entries).unwrap_or(c_int::MAX),
        mutex: libc::PTHREAD_MUTEX_INITIALIZER,
        cond: libc::PTHREAD_COND_INITIALIZER,
        comp_events_completed: 0,
        async_events_completed: 0,
    };
    let object = Box::into_raw(Box::new(CqObject {
        cq: extended_queues::functions(base),
        session: Arc::clone(session),
        queue,
        cookie,
        completions: Events::default(),
        events: Events::default(),
        poll: Poll::default(),
    }));
    session.place_object(cookie, object.expose_provenance());
    // SAFETY: as the caller promises; contexts' other queues of the channel are made by other calls.
    if let Some(channel) = unsafe { channel.as_ref() } {
        count(channel, 1);
    }
    Ok(object)
}

/// Counts the queues of a channel, which programs may look at.
fn count(channel: &CompChannel, by: c_int) {
    let references = (&raw const channel.refcnt).cast_mut();
    // SAFETY: it is a number of the channel's, aligned, and only changed here.
    let references = unsafe { core::sync::atomic::AtomicI32::from_ptr(references) };
    references.fetch_add(by, core::sync::atomic::Ordering::Relaxed);
}

/// Makes a completion queue; null if that fails.
///
/// # Safety
/// The context is open; the channel is null or one of this library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_cq(
    context: *mut Context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut CompChannel,
    comp_vector: c_int,
) -> *mut Cq {
    let numbers = u32::try_from(cqe).and_then(|cqe| Ok((cqe, u32::try_from(comp_vector)?)));
    let made = numbers.map_err(|_| Errno::INVAL).and_then(|(cqe, vector)| {
        // SAFETY: as the caller promises.
        unsafe { create(context, cqe, cq_context, channel, vector) }
    });
    match made {
        Ok(object) => object.cast(),
        Err(error) => null(error),
    }
}

/// Changes how many completions a queue holds.
///
/// # Safety
/// The queue is one of this library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_resize_cq(cq: *mut Cq, cqe: c_int) -> c_int {
    // SAFETY: as the caller promises.
    let (object, handle) = unsafe { (object(cq), (*cq).handle) };
    let Some(wanted) = u32::try_from(cqe).ok().filter(|&wanted| wanted > 0) else {
        return number(Errno::INVAL);
    };
    let resized = object.queue.resize(|waiting| {
        if usize::try_from(wanted).is_ok_and(|wanted| wanted < waiting) {
            return Err(Errno::INVAL);
        }
        let request = Request::ResizeCq {
            cq: handle,
            entries: wanted,
        };
        let (_, entries, ring) = object.session.completion_queue(&request)?;
        Ok((ring, entries))
    });
    match resized {
        Ok(entries) => {
            // SAFETY: as the caller promises.
            unsafe { (*cq).cqe = c_int::try_from(entries).unwrap_or(c_int::MAX) };
            0
        }
        Err(error) => number(error),
    }
}

/// Destroys a completion queue that no queue pair uses, when the program has acknowledged its events.
///
/// # Safety
/// It is one of this library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_cq(cq: *mut Cq) -> c_int {
    // SAFETY: as the caller promises.
    let (object, handle, channel) = unsafe { (object(cq), (*cq).handle, (*cq).channel) };
    if let Err(error) = object.session.run(&Request::DestroyCq { cq: handle }) {
        return number(error);
    }
    object.session.forget_object(object.cookie);
    object.completions.wait();
    object.events.wait();
    // SAFETY: the channel is null, or lives as long as its queues.
    if let Some(channel) = unsafe { channel.as_ref() } {
        count(channel, -1);
    }
    // SAFETY: it was made of such a box, and is given up.
    drop(unsafe { Box::from_raw(cq.cast::<CqObject>()) });
    0
}

/// Waits for an event of a channel; -1 if that fails.
///
/// # Safety
/// The channel is one of this library's, the pointers are to room for pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ibv_get_cq_event(
    channel: *mut CompChannel,
    cq: *mut *mut Cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    // SAFETY: as the caller promises.
    let (context, fd) = unsafe { ((*channel).context, (*channel).fd) };
    // SAFETY: its context is open.
    let session = unsafe { session(context) };
    if let Err(error) = session.check() {
        return minus_one(error);
    }
    loop {
        let mut bytes = [0; 8];
        if read_event(fd, &mut bytes).is_none() {
            return -1;
        }
        let found = session.with_object(u64::from_ne_bytes(bytes), |place| {
            let found = core::ptr::with_exposed_provenance_mut::<CqObject>(place);
            // SAFETY: the queue is not destroyed while its cookie is kept.
            let object = unsafe { &*found };
            object.completions.given();
            object.queue.disarmed();
            found.cast::<Cq>()
        });
        if let Some(found) = found {
            // SAFETY: as the caller promises; the queue waits until its event is acknowledged.
            unsafe {
                cq.write(found);
                cq_context.write((*found).cq_context);
            }
            return 0;
        }
    }
}

/// Acknowledges events of a queue.
///
/// # Safety
/// The queue is one of this library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_cq_events(cq: *mut Cq, nevents: c_uint) {
    // SAFETY: as the caller promises.
    unsafe { object(cq) }.completions.acknowledged(nevents);
}

/// Immediate data as programs have it: in network byte order; an invalidated key in the machine's.
pub(super) const fn immediate(completion: &Completion) -> u32 {
    match completion.flags & WITH_IMM {
        0 => completion.immediate,
        _ => completion.immediate.to_be(),
    }
}

fn wc(completion: &Completion) -> Wc {
    Wc {
        wr_id: completion.wr_id,
        status: completion.status,
        opcode: completion.opcode,
        vendor_err: completion.vendor_err,
        byte_len: completion.byte_len,
        imm_data: immediate(completion),
        qp_num: completion.qpn,
        src_qp: completion.src_qp,
        wc_flags: completion.flags,
        pkey_index: completion.pkey_index,
        slid: completion.slid,
        sl: completion.sl,
        dlid_path_bits: completion.dlid_path_bits,
    }
}

/// Takes completions; how many, or -1.
///
/// # Safety
/// The queue is one of this library's, with room for so many completions at `to`.
pub(super) unsafe extern "C" fn poll_cq(cq: *mut Cq, num_entries: c_int, to: *mut Wc) -> c_int {
    // SAFETY: as the caller promises.
    let object = unsafe { object(cq) };
    if let Err(error) = object.session.check() {
        return minus_one(error);
    }
    let enough = usize::try_from(num_entries).unwrap_or_default();
    let mut at = 0;
    let polled = object.queue.poll(enough, |completion| {
        object.session.retire(&completion);
        // SAFETY: no more than `num_entries` come, for which there is room.
        unsafe { to.add(at).write(wc(&completion)) };
        at += 1;
    });
    match polled {
        Ok(count) => c_int::try_from(count).unwrap_or(num_entries),
        Err(error) => minus_one(error),
    }
}

/// Asks for an event at the next completion, or the next solicited one.
///
/// # Safety
/// The queue is one of this library's.
pub(super) unsafe extern "C" fn req_notify_cq(cq: *mut Cq, solicited_only: c_int) -> c_int {
    // SAFETY: as the caller promises.
    let object = unsafe { object(cq) };
    let arming = match solicited_only {
        0 => Arming::Next,
        _ => Arming::Solicited,
    };
    match object
        .session
        .check()
        .and_then(|()| object.queue.arm(arming))
    {
        Ok(()) => 0,
        Err(error) => number(error),
    }
}
