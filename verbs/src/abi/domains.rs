//! Protection domains and memory regions.

use core::ffi::{c_int, c_uint, c_void};

use rustix::io::Errno;
use uverbs::{RegionInit, Request};

use super::context::session;
use super::types::{Context, Mr, Pd};
use super::{minus_one, null, number};
use crate::connection::Result;

/// Of `ibv_access_flags` what a provider may pass over: hints from bit 20 on, and that pages are huge.
const HINTS: c_uint = 0x3ff0_0000 | 1 << 7;
/// `IBV_REREG_MR_CHANGE_TRANSLATION`.
const CHANGE_TRANSLATION: c_int = 1;
/// `IBV_REREG_MR_CHANGE_PD`.
const CHANGE_PD: c_int = 2;
/// `IBV_REREG_MR_CHANGE_ACCESS`.
const CHANGE_ACCESS: c_int = 4;
/// `IBV_REREG_MR_ERR_INPUT`: the region is as it was.
const REREG_INPUT: c_int = -1;

/// A region as this library makes it: what a program sees is at its front.
#[repr(C)]
struct MrObject {
    mr: Mr,
    access: c_uint,
    iova: u64,
}

/// Makes a protection domain; null if that fails.
///
/// # Safety
/// The context is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_alloc_pd(context: *mut Context) -> *mut Pd {
    // SAFETY: as the caller promises.
    match unsafe { session(context) }.number(&Request::AllocPd) {
        Ok(handle) => Box::into_raw(Box::new(Pd { context, handle })),
        Err(error) => null(error),
    }
}

/// Destroys a protection domain that nothing uses.
///
/// # Safety
/// It was made by [`ibv_alloc_pd`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dealloc_pd(pd: *mut Pd) -> c_int {
    // SAFETY: as the caller promises.
    let (context, handle) = unsafe { ((*pd).context, (*pd).handle) };
    // SAFETY: its context is open.
    match unsafe { session(context) }.run(&Request::DeallocPd { pd: handle }) {
        Ok(()) => {
            // SAFETY: it was made of a box, and is given up.
            drop(unsafe { Box::from_raw(pd) });
            0
        }
        Err(error) => number(error),
    }
}

/// # Safety
/// The domain is one of this library's.
unsafe fn region(
    pd: *mut Pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> Result<RegionInit> {
    // SAFETY: as the caller promises.
    let pd = unsafe { &*pd };
    is_mapped(addr.addr(), length)?;
    Ok(RegionInit {
        pd: pd.handle,
        address: u64::try_from(addr.addr()).map_err(|_| Errno::INVAL)?,
        length: u64::try_from(length).map_err(|_| Errno::INVAL)?,
        iova,
        access: access & !HINTS,
    })
}

/// Pages that one look covers.
const PAGES_A_LOOK: usize = 4096;

/// Looks whether a range of addresses is mapped in all its pages, as a kernel does that pins them.
///
/// # Errors
/// `EFAULT` if it is not, `EINVAL` if it goes beyond the last address.
fn is_mapped(start: usize, length: usize) -> Result<()> {
    let end = start.checked_add(length).ok_or(Errno::INVAL)?;
    let page = rustix::param::page_size();
    let mut found = [0; PAGES_A_LOOK];
    let mut at = start - start % page;
    while at < end {
        let bytes = (end - at).min(PAGES_A_LOOK * page);
        // SAFETY: it does not touch the range, and writes a byte for each page of it, for which there is room.
        let outcome = unsafe {
            libc::mincore(
                core::ptr::without_provenance_mut(at),
                bytes,
                found.as_mut_ptr(),
            )
        };
        if outcome != 0 {
            return Err(Errno::FAULT);
        }
        at += bytes;
    }
    Ok(())
}

/// Registers memory that requests and peers know by other addresses; null if that fails.
///
/// # Safety
/// The domain is one of this library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova2(
    pd: *mut Pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut Mr {
    // SAFETY: as the caller promises.
    let region = unsafe { region(pd, addr, length, iova, access) };
    // SAFETY: as the caller promises, its context is open.
    let session = unsafe { session((*pd).context) };
    match region.and_then(|region| session.number(&Request::RegMr(region))) {
        Ok(key) => {
            let object = MrObject {
                mr: Mr {
                    // SAFETY: as the caller promises.
                    context: unsafe { (*pd).context },
                    pd,
                    addr,
                    length,
                    handle: key,
                    lkey: key,
                    rkey: key,
                },
                access,
                iova,
            };
            Box::into_raw(Box::new(object)).cast()
        }
        Err(error) => null(error),
    }
}

/// As [`ibv_reg_mr_iova2`].
///
/// # Safety
/// As of [`ibv_reg_mr_iova2`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova(
    pd: *mut Pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut Mr {
    // SAFETY: as the caller promises.
    unsafe { ibv_reg_mr_iova2(pd, addr, length, iova, access.cast_unsigned()) }
}

/// Registers memory; null if that fails.
///
/// # Safety
/// As of [`ibv_reg_mr_iova2`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr(
    pd: *mut Pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut Mr {
    let iova = u64::try_from(addr.addr()).unwrap_or_default();
    // SAFETY: as the caller promises.
    unsafe { ibv_reg_mr_iova2(pd, addr, length, iova, access.cast_unsigned()) }
}

/// Registers a region anew: it keeps its keys.
///
/// # Safety
/// The region is one of this library's, and so is the domain if it changes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_rereg_mr(
    mr: *mut Mr,
    flags: c_int,
    pd: *mut Pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    let object = unsafe { &mut *mr.cast::<MrObject>() };
    let known = CHANGE_TRANSLATION | CHANGE_PD | CHANGE_ACCESS;
    let has = |flag: c_int| flags & flag != 0;
    let invalid = flags & !known != 0
        || has(CHANGE_TRANSLATION) && (length == 0 || addr.is_null())
        || has(CHANGE_PD) && pd.is_null()
        || access != 0 && !has(CHANGE_ACCESS);
    if invalid {
        let _ = minus_one(Errno::INVAL);
        return REREG_INPUT;
    }
    let mut next = (
        object.mr.pd,
        object.mr.addr,
        object.mr.length,
        object.iova,
        object.access,
    );
    if has(CHANGE_PD) {
        next.0 = pd;
    }
    if has(CHANGE_TRANSLATION) {
        let iova = u64::try_from(addr.addr()).unwrap_or_default();
        (next.1, next.2, next.3) = (addr, length, iova);
    }
    if has(CHANGE_ACCESS) {
        next.4 = access.cast_unsigned();
    }
    // SAFETY: the domain is the region's own or as the caller promises.
    let region = unsafe { region(next.0, next.1, next.2, next.3, next.4) };
    // SAFETY: its context is open.
    let session = unsafe { session(object.mr.context) };
    let key = object.mr.lkey;
    match region.and_then(|region| session.run(&Request::ReregMr { key, region })) {
        Ok(()) => {
            (
                object.mr.pd,
                object.mr.addr,
                object.mr.length,
                object.iova,
                object.access,
            ) = next;
            0
        }
        Err(error) => {
            let _ = minus_one(error);
            REREG_INPUT
        }
    }
}

/// Deregisters a region.
///
/// # Safety
/// It is one of this library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dereg_mr(mr: *mut Mr) -> c_int {
    // SAFETY: as the caller promises.
    let (context, key) = unsafe { ((*mr).context, (*mr).lkey) };
    // SAFETY: its context is open.
    match unsafe { session(context) }.run(&Request::DeregMr { key }) {
        Ok(()) => {
            // SAFETY: it was made of such a box, and is given up.
            drop(unsafe { Box::from_raw(mr.cast::<MrObject>()) });
            0
        }
        Err(error) => number(error),
    }
}
