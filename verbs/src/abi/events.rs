//! Asynchronous events.

use core::ffi::{c_int, c_void};

use uverbs::AsyncEvent as HostEvent;

use super::completion::CqObject;
use super::context::session;
use super::pairs::QpObject;
use super::shared_receive::SrqObject;
use super::types::{AsyncEvent, Context};
use super::{minus_one, read_event};
use crate::events::Events;

/// What an event is of.
#[derive(Clone, Copy)]
enum Of {
    CompletionQueue,
    QueuePair,
    SharedReceiveQueue,
    Port,
}

/// By `ibv_event_type`.
const fn of(kind: u32) -> Of {
    match kind {
        0 => Of::CompletionQueue,
        1..=7 | 16 => Of::QueuePair,
        14 | 15 => Of::SharedReceiveQueue,
        _ => Of::Port,
    }
}

/// The events of an object.
///
/// # Safety
/// The object is one of this library's of that kind.
unsafe fn events<'a>(kind: u32, object: *mut c_void) -> Option<&'a Events> {
    // SAFETY: as the caller promises.
    unsafe {
        match of(kind) {
            Of::CompletionQueue => Some(&(*object.cast::<CqObject>()).events),
            Of::QueuePair => Some(&(*object.cast::<QpObject>()).events),
            Of::SharedReceiveQueue => Some(&(*object.cast::<SrqObject>()).events),
            Of::Port => None,
        }
    }
}

/// Waits for an asynchronous event; -1 if that fails.
///
/// # Safety
/// The context is open, the pointer is to room for an event.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ibv_get_async_event(
    context: *mut Context,
    event: *mut AsyncEvent,
) -> c_int {
    // SAFETY: as the caller promises.
    let (session, fd) = unsafe { (session(context), (*context).async_fd) };
    if let Err(error) = session.check() {
        return minus_one(error);
    }
    loop {
        let mut bytes = [0; HostEvent::BYTES];
        if read_event(fd, &mut bytes).is_none() {
            return -1;
        }
        let told = HostEvent::parse(&bytes);
        let element = match of(told.kind) {
            Of::Port => usize::try_from(told.port)
                .ok()
                .map(core::ptr::without_provenance_mut),
            _ => session.with_object(told.cookie, |place| {
                let object = core::ptr::with_exposed_provenance_mut::<c_void>(place);
                // SAFETY: it is not destroyed while its cookie is kept, and cookies are given to one object.
                if let Some(events) = unsafe { events(told.kind, object) } {
                    events.given();
                }
                object
            }),
        };
        if let (Some(element), Ok(event_type)) = (element, c_int::try_from(told.kind)) {
            // SAFETY: as the caller promises.
            unsafe {
                event.write(AsyncEvent {
                    element,
                    event_type,
                });
            }
            return 0;
        }
    }
}

/// Acknowledges an asynchronous event.
///
/// # Safety
/// The event was given by [`ibv_get_async_event`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_async_event(event: *mut AsyncEvent) {
    // SAFETY: as the caller promises: its object waits for this.
    unsafe {
        let event = &*event;
        if let Some(events) = events(event.event_type.cast_unsigned(), event.element) {
            events.acknowledged(1);
        }
    }
}
