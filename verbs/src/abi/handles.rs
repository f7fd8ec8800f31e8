//! Address handles and multicast groups.

use core::ffi::c_int;

use rustix::io::Errno;
use uverbs::{AddressAttributes, GlobalAttributes, Request};

use super::context::session;
use super::queries::gid;
use super::types::{Ah, AhAttr, Context, Gid, GlobalRoute, Grh, Pd, Qp, Wc};
use super::{minus_one, null, number};
use crate::connection::Result;

/// `IBV_WC_GRH`.
const WITH_GRH: u32 = 1;
/// NxtHdr of a global route header before InfiniBand's transport (IBA 8.3.5).
const NEXT_IBA: u8 = 0x1b;
/// IPVer of a global route header.
const VERSION: u32 = 6;

/// An address as the host takes it.
pub(super) fn to_host(attr: &AhAttr) -> AddressAttributes {
    let global = GlobalAttributes {
        dgid: attr.grh.dgid.raw,
        flow_label: attr.grh.flow_label,
        sgid_index: attr.grh.sgid_index,
        hop_limit: attr.grh.hop_limit,
        traffic_class: attr.grh.traffic_class,
    };
    AddressAttributes {
        global: (attr.is_global != 0).then_some(global),
        dlid: attr.dlid,
        sl: attr.sl,
        src_path_bits: attr.src_path_bits,
        static_rate: attr.static_rate,
        port_num: attr.port_num,
    }
}

/// An address as a program has it.
pub(super) fn from_host(address: &AddressAttributes) -> AhAttr {
    let global = address.global.unwrap_or_default();
    AhAttr {
        grh: GlobalRoute {
            dgid: Gid { raw: global.dgid },
            flow_label: global.flow_label,
            sgid_index: global.sgid_index,
            hop_limit: global.hop_limit,
            traffic_class: global.traffic_class,
        },
        dlid: address.dlid,
        sl: address.sl,
        src_path_bits: address.src_path_bits,
        static_rate: address.static_rate,
        is_global: address.global.is_some().into(),
        port_num: address.port_num,
    }
}

/// Makes an address handle; null if that fails.
///
/// # Safety
/// The domain is one of this library's; the pointer is to attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah(pd: *mut Pd, attr: *mut AhAttr) -> *mut Ah {
    // SAFETY: as the caller promises.
    let (domain, attr) = unsafe { (&*pd, &*attr) };
    let request = Request::CreateAh {
        pd: domain.handle,
        attributes: to_host(attr),
    };
    let context = domain.context;
    // SAFETY: its context is open.
    match unsafe { session(context) }.number(&request) {
        Ok(handle) => Box::into_raw(Box::new(Ah {
            context,
            pd,
            handle,
        })),
        Err(error) => null(error),
    }
}

/// Destroys an address handle.
///
/// # Safety
/// It is one of this library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_ah(ah: *mut Ah) -> c_int {
    // SAFETY: as the caller promises.
    let (context, handle) = unsafe { ((*ah).context, (*ah).handle) };
    // SAFETY: its context is open.
    match unsafe { session(context) }.run(&Request::DestroyAh { handle }) {
        Ok(()) => {
            // SAFETY: it was made of a box, and is given up.
            drop(unsafe { Box::from_raw(ah) });
            0
        }
        Err(error) => number(error),
    }
}

/// The global route back to the sender of a datagram.
///
/// # Safety
/// The context is open.
unsafe fn route_back(context: *mut Context, port: u8, grh: &Grh) -> Result<GlobalRoute> {
    let first = u32::from_be(grh.version_tclass_flow);
    let own = grh.dgid.raw;
    if own.first() == Some(&0xff) {
        return Err(Errno::INVAL);
    }
    if first >> 28 != VERSION || grh.next_hdr != NEXT_IBA {
        return Err(Errno::PROTONOSUPPORT);
    }
    let indexes = 0..=u8::MAX;
    for sgid_index in indexes {
        // SAFETY: as the caller promises.
        if unsafe { gid(context, port.into(), sgid_index.into()) }? == own {
            return Ok(GlobalRoute {
                dgid: grh.sgid,
                flow_label: first & 0xf_ffff,
                sgid_index,
                hop_limit: grh.hop_limit,
                traffic_class: u8::try_from(first >> 20 & 0xff).unwrap_or_default(),
            });
        }
    }
    Err(Errno::INVAL)
}

/// The address of the sender of a datagram; -1 if there is no way back.
///
/// # Safety
/// The context is open, the pointers are to what their types say; that to the header only if the completion says
/// that there is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_init_ah_from_wc(
    context: *mut Context,
    port: u8,
    wc: *mut Wc,
    grh: *mut Grh,
    attr: *mut AhAttr,
) -> c_int {
    // SAFETY: as the caller promises.
    let wc = unsafe { &*wc };
    let mut address = AhAttr {
        dlid: wc.slid,
        sl: wc.sl,
        src_path_bits: wc.dlid_path_bits,
        port_num: port,
        ..AhAttr::default()
    };
    if wc.wc_flags & WITH_GRH != 0 {
        // SAFETY: there is a header, as the caller promises; it stands in a buffer at any address.
        let grh = unsafe { grh.read_unaligned() };
        address.is_global = 1;
        // SAFETY: as the caller promises.
        match unsafe { route_back(context, port, &grh) } {
            Ok(route) => address.grh = route,
            Err(error) => return minus_one(error),
        }
    }
    // SAFETY: as the caller promises.
    unsafe { attr.write(address) };
    0
}

/// Makes a handle for the sender of a datagram; null if there is no way back.
///
/// # Safety
/// As of [`ibv_init_ah_from_wc`]; the domain is one of this library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah_from_wc(
    pd: *mut Pd,
    wc: *mut Wc,
    grh: *mut Grh,
    port: u8,
) -> *mut Ah {
    let mut attr = AhAttr::default();
    // SAFETY: as the caller promises.
    let known = unsafe { ibv_init_ah_from_wc((*pd).context, port, wc, grh, &raw mut attr) };
    match known {
        // SAFETY: as the caller promises.
        0 => unsafe { ibv_create_ah(pd, &raw mut attr) },
        _ => core::ptr::null_mut(),
    }
}

/// Attaches a queue pair of datagrams to a multicast group.
///
/// # Safety
/// The queue pair is one of this library's; the pointer is to a GID.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_attach_mcast(qp: *mut Qp, gid: *const Gid, _lid: u16) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { mcast(qp, gid, |qpn, gid| Request::AttachMcast { qpn, gid }) }
}

/// Detaches a queue pair from a multicast group.
///
/// # Safety
/// As of [`ibv_attach_mcast`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_detach_mcast(qp: *mut Qp, gid: *const Gid, _lid: u16) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { mcast(qp, gid, |qpn, gid| Request::DetachMcast { qpn, gid }) }
}

/// # Safety
/// As of [`ibv_attach_mcast`].
unsafe fn mcast(
    qp: *mut Qp,
    gid: *const Gid,
    request: impl FnOnce(u32, [u8; 16]) -> Request,
) -> c_int {
    // SAFETY: as the caller promises; programs' unions need not be aligned.
    let (context, qpn, gid) = unsafe {
        let raw = gid.cast::<[u8; 16]>().read_unaligned();
        ((*qp).context, (*qp).qp_num, raw)
    };
    // SAFETY: its context is open.
    match unsafe { session(context) }.run(&request(qpn, gid)) {
        Ok(()) => 0,
        Err(error) => number(error),
    }
}
