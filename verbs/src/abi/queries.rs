//! What a device, its port and its tables are like.

use core::ffi::{c_char, c_int, c_uint};

use rustix::io::Errno;
use uverbs::{DeviceAttributes, PortAttributes};

use super::context::session;
use super::types::{Context, DeviceAttr, DeviceAttrEx, Gid, GidEntry, PortAttr};
use super::{minus_one, number};
use crate::connection::Result;

/// `ibv_device_attr.device_cap_flags`: counters of wrong P_Keys and Q_Keys, `cur_qp_state`, events of ports, a
/// system image GUID, RNR NAKs.
const DEVICE_FLAGS: c_uint = 1 << 1 | 1 << 2 | 1 << 7 | 1 << 10 | 1 << 11 | 1 << 12;
/// `IBV_ATOMIC_HCA`: among the adapter's own operations.
const ATOMICS_OF_ADAPTER: c_uint = 1;
/// Pages of 4 KiB and any multiple.
const PAGE_SIZES: u64 = 0xffff_f000;
/// `IBV_LINK_LAYER_INFINIBAND`.
const INFINIBAND: u8 = 1;
/// NDR, the fastest link that a byte of `ibv_port_attr` can tell.
const SPEED_MAX: u16 = 128;
/// Where newer releases have the speed as a number of four bytes.
const SPEED_EX: core::ops::Range<usize> = 52..56;
/// Bytes of `ibv_port_attr` as the function of 2005 has it: up to `flags`.
const SHORT_PORT: usize = core::mem::offset_of!(PortAttr, port_cap_flags2);

/// The only port of a device.
fn check_port(port: u32) -> Result<()> {
    match port {
        1 => Ok(()),
        _ => Err(Errno::INVAL),
    }
}

/// # Safety
/// The context is open.
unsafe fn describe(context: *mut Context) -> Result<DeviceAttributes> {
    // SAFETY: as the caller promises.
    unsafe { session(context) }.describe()
}

fn int(number: u32) -> c_int {
    c_int::try_from(number).unwrap_or(c_int::MAX)
}

fn firmware() -> [c_char; 64] {
    let mut version = [0; 64];
    for (to, byte) in version
        .iter_mut()
        .zip(env!("CARGO_PKG_VERSION").bytes().take(63))
    {
        *to = c_char::from_ne_bytes([byte]);
    }
    version
}

fn device_attr(device: &DeviceAttributes) -> DeviceAttr {
    DeviceAttr {
        fw_ver: firmware(),
        node_guid: device.node_guid.to_be(),
        sys_image_guid: device.sys_image_guid.to_be(),
        max_mr_size: device.max_mr_size,
        page_size_cap: PAGE_SIZES,
        vendor_id: device.vendor_id,
        vendor_part_id: device.vendor_part_id,
        hw_ver: device.hw_ver,
        max_qp: int(device.max_qp),
        max_qp_wr: int(device.max_qp_wr),
        device_cap_flags: DEVICE_FLAGS,
        max_sge: int(device.max_sge),
        max_sge_rd: int(device.max_sge),
        max_cq: int(device.max_cq),
        max_cqe: int(device.max_cqe),
        max_mr: int(device.max_mr),
        max_pd: int(device.max_pd),
        max_qp_rd_atom: int(device.max_qp_rd_atom),
        max_ee_rd_atom: 0,
        max_res_rd_atom: int(device.max_qp_rd_atom.saturating_mul(device.max_qp)),
        max_qp_init_rd_atom: int(device.max_qp_init_rd_atom),
        max_ee_init_rd_atom: 0,
        atomic_cap: ATOMICS_OF_ADAPTER,
        max_ee: 0,
        max_rdd: 0,
        max_mw: 0,
        max_raw_ipv6_qp: 0,
        max_raw_ethy_qp: 0,
        max_mcast_grp: int(device.max_mcast_grp),
        max_mcast_qp_attach: int(device.max_mcast_qp_attach),
        max_total_mcast_qp_attach: int(device
            .max_mcast_grp
            .saturating_mul(device.max_mcast_qp_attach)),
        max_ah: int(device.max_ah),
        max_fmr: 0,
        max_map_per_fmr: 0,
        max_srq: int(device.max_srq),
        max_srq_wr: int(device.max_srq_wr),
        max_srq_sge: int(device.max_srq_sge),
        max_pkeys: device.port.pkey_tbl_len,
        local_ca_ack_delay: 0,
        phys_port_cnt: 1,
    }
}

fn port_attr(port: &PortAttributes) -> PortAttr {
    PortAttr {
        state: port.state.into(),
        max_mtu: port.max_mtu.into(),
        active_mtu: port.active_mtu.into(),
        gid_tbl_len: int(port.gid_tbl_len),
        port_cap_flags: port.port_cap_flags,
        max_msg_sz: port.max_msg_sz,
        bad_pkey_cntr: port.bad_pkey_cntr,
        qkey_viol_cntr: port.qkey_viol_cntr,
        pkey_tbl_len: port.pkey_tbl_len,
        lid: port.lid,
        sm_lid: port.sm_lid,
        lmc: port.lmc,
        max_vl_num: port.max_vl_num,
        sm_sl: port.sm_sl,
        subnet_timeout: port.subnet_timeout,
        init_type_reply: port.init_type_reply,
        active_width: port.active_width,
        active_speed: u8::try_from(port.active_speed.min(SPEED_MAX)).unwrap_or_default(),
        phys_state: port.phys_state,
        link_layer: INFINIBAND,
        flags: 0,
        port_cap_flags2: 0,
    }
}

/// What the device can do.
///
/// # Safety
/// The context is open; the pointer is to room for the attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_device(context: *mut Context, attr: *mut DeviceAttr) -> c_int {
    // SAFETY: as the caller promises.
    match unsafe { describe(context) } {
        Ok(device) => {
            // SAFETY: as the caller promises.
            unsafe { attr.write(device_attr(&device)) };
            0
        }
        Err(error) => number(error),
    }
}

/// What the device can do, as far as `size` bytes of the structure go.
///
/// # Safety
/// The context is open; `attr` is to room for so many bytes; `input` is null or to a mask.
pub(super) unsafe extern "C" fn query_device_ex(
    context: *mut Context,
    input: *const u32,
    attr: *mut DeviceAttrEx,
    size: usize,
) -> c_int {
    // SAFETY: as the caller promises.
    let refused = unsafe { input.as_ref() }.is_some_and(|&mask| mask != 0);
    if refused || size < size_of::<DeviceAttr>() {
        return number(Errno::INVAL);
    }
    // SAFETY: as the caller promises.
    let device = match unsafe { describe(context) } {
        Ok(device) => device,
        Err(error) => return number(error),
    };
    let whole = DeviceAttrEx {
        orig_attr: device_attr(&device),
        comp_mask: 0,
        odp_caps: [0; 3],
        completion_timestamp_mask: u64::MAX,
        // Completions are stamped in nanoseconds.
        hca_core_clock: 1_000_000,
        device_cap_flags_ex: DEVICE_FLAGS.into(),
        tso_caps: [0; 2],
        rss_caps: [0; 4],
        max_wq_type_rq: 0,
        packet_pacing_caps: [0; 3],
        raw_packet_caps: 0,
        tm_caps: [0; 5],
        cq_mod_caps: [0; 2],
        max_dm_size: 0,
        pci_atomic_caps: [0; 3],
        xrc_odp_caps: 0,
        phys_port_cnt_ex: 1,
    };
    let known = size.min(size_of::<DeviceAttrEx>());
    // SAFETY: there is room for `size` bytes, as the caller promises.
    unsafe {
        attr.cast::<u8>().write_bytes(0, size);
        attr.cast::<u8>()
            .copy_from_nonoverlapping((&raw const whole).cast(), known);
    }
    0
}

/// The port, as far as `size` bytes of the structure go.
///
/// # Safety
/// The context is open; `attr` is to room for so many bytes.
pub(super) unsafe extern "C" fn query_port(
    context: *mut Context,
    port: u8,
    attr: *mut PortAttr,
    size: usize,
) -> c_int {
    // SAFETY: as the caller promises.
    let described = check_port(port.into()).and_then(|()| unsafe { describe(context) });
    let device = match described {
        Ok(device) => device,
        Err(error) => return number(error),
    };
    let whole = port_attr(&device.port);
    let known = size.min(size_of::<PortAttr>());
    // SAFETY: there is room for `size` bytes, as the caller promises.
    unsafe {
        attr.cast::<u8>().write_bytes(0, size);
        attr.cast::<u8>()
            .copy_from_nonoverlapping((&raw const whole).cast(), known);
        if size >= SPEED_EX.end {
            let speed = attr.byte_add(SPEED_EX.start).cast::<u32>();
            speed.write_unaligned(device.port.active_speed.into());
        }
    }
    0
}

/// The port, as the function of 2005 has it.
///
/// # Safety
/// The context is open; the pointer is to room for the attributes up to `flags`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_port(
    context: *mut Context,
    port: u8,
    attr: *mut PortAttr,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { query_port(context, port, attr, SHORT_PORT) }
}

/// The rate of the port in units of 100 Mbit/s.
///
/// # Safety
/// The context is open; the pointer is to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_port_speed(
    context: *mut Context,
    port: u32,
    speed: *mut u64,
) -> c_int {
    // SAFETY: as the caller promises.
    let described = check_port(port).and_then(|()| unsafe { describe(context) });
    match described {
        Ok(device) => {
            let lanes = match device.port.active_width {
                1 => 1,
                2 => 4,
                4 => 8,
                8 => 12,
                16 => 2,
                _ => 0,
            };
            let lane = match device.port.active_speed {
                1 => 25,
                2 => 50,
                4 | 8 => 100,
                16 => 140,
                32 => 250,
                64 => 500,
                128 => 1000,
                256 => 2000,
                _ => 0,
            };
            // SAFETY: as the caller promises.
            unsafe { speed.write(lanes * lane) };
            0
        }
        Err(error) => number(error),
    }
}

/// An entry of the GID table; zero if it is empty.
///
/// # Safety
/// The context is open.
pub(super) unsafe fn gid(context: *mut Context, port: u32, index: u32) -> Result<[u8; 16]> {
    check_port(port)?;
    // SAFETY: as the caller promises.
    let device = unsafe { describe(context) }?;
    if index >= device.port.gid_tbl_len {
        return Err(Errno::INVAL);
    }
    let mut gids = device.port.gids.into_iter();
    let index = usize::try_from(index).map_err(|_| Errno::INVAL)?;
    Ok(gids.nth(index).unwrap_or_default())
}

/// An entry of the GID table; -1 if there is none.
///
/// # Safety
/// The context is open; the pointer is to room for a GID.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_gid(
    context: *mut Context,
    port: u8,
    index: c_int,
    to: *mut Gid,
) -> c_int {
    let index = u32::try_from(index).map_err(|_| Errno::INVAL);
    // SAFETY: as the caller promises.
    match index.and_then(|index| unsafe { gid(context, port.into(), index) }) {
        Ok(raw) => {
            // SAFETY: as the caller promises; programs' unions need not be aligned.
            unsafe { to.cast::<[u8; 16]>().write_unaligned(raw) };
            0
        }
        Err(error) => minus_one(error),
    }
}

/// An entry of the GID table with what belongs to it; `ENODATA` if it is empty.
///
/// # Safety
/// The context is open; `entry` is to room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_ex(
    context: *mut Context,
    port: u32,
    index: u32,
    entry: *mut GidEntry,
    flags: u32,
    size: usize,
) -> c_int {
    if flags != 0 {
        return number(Errno::OPNOTSUPP);
    }
    // SAFETY: as the caller promises.
    match unsafe { gid(context, port, index) } {
        Ok([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]) => number(Errno::NODATA),
        Ok(raw) => {
            // SAFETY: as the caller promises.
            unsafe { write_entry(entry.cast(), size, raw, index) };
            0
        }
        Err(error) => number(error),
    }
}

/// # Safety
/// The pointer is to room for `size` bytes.
unsafe fn write_entry(to: *mut u8, size: usize, raw: [u8; 16], index: u32) {
    let whole = GidEntry {
        gid: Gid { raw },
        gid_index: index,
        port_num: 1,
        gid_type: 0,
        ndev_ifindex: 0,
    };
    let known = size.min(size_of::<GidEntry>());
    // SAFETY: as the caller promises.
    unsafe {
        to.write_bytes(0, size);
        to.copy_from_nonoverlapping((&raw const whole).cast(), known);
    }
}

/// All GIDs; how many, or a negative error number.
///
/// # Safety
/// The context is open; `entries` is to room for `max_entries` of `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_table(
    context: *mut Context,
    entries: *mut GidEntry,
    max_entries: usize,
    flags: u32,
    size: usize,
) -> isize {
    let refuse = |error: Errno| -> isize { isize::try_from(-number(error)).unwrap_or(-1) };
    if flags != 0 {
        return refuse(Errno::OPNOTSUPP);
    }
    // SAFETY: as the caller promises.
    let device = match unsafe { describe(context) } {
        Ok(device) => device,
        Err(error) => return refuse(error),
    };
    let mut count = 0;
    for (index, raw) in (0u32..).zip(device.port.gids) {
        if raw == [0; 16] {
            continue;
        }
        if count >= max_entries {
            return refuse(Errno::INVAL);
        }
        // SAFETY: there is room for so many, as the caller promises.
        unsafe { write_entry(entries.cast::<u8>().add(count * size), size, raw, index) };
        count += 1;
    }
    isize::try_from(count).unwrap_or(isize::MAX)
}

/// The kind of a GID (`ibv_query_gid_type`, which is private to rdma-core): InfiniBand's.
///
/// # Safety
/// The context is open; the pointer is to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verbs_query_gid_type(
    context: *mut Context,
    port: u8,
    index: c_uint,
    kind: *mut c_uint,
) -> c_int {
    // SAFETY: as the caller promises.
    match unsafe { gid(context, port.into(), index) } {
        Ok(_) => {
            // SAFETY: as the caller promises.
            unsafe { kind.write(0) };
            0
        }
        Err(error) => minus_one(error),
    }
}

/// # Safety
/// The context is open.
unsafe fn pkeys(context: *mut Context, port: u8) -> Result<Vec<u16>> {
    check_port(port.into())?;
    // SAFETY: as the caller promises.
    let mut port = unsafe { describe(context) }?.port;
    port.pkeys.resize(port.pkey_tbl_len.into(), 0);
    Ok(port.pkeys)
}

/// An entry of the P_Key table, in network byte order; -1 if there is none.
///
/// # Safety
/// The context is open; the pointer is to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_pkey(
    context: *mut Context,
    port: u8,
    index: c_int,
    pkey: *mut u16,
) -> c_int {
    // SAFETY: as the caller promises.
    let found = unsafe { pkeys(context, port) }.and_then(|keys| {
        let index = usize::try_from(index).map_err(|_| Errno::INVAL)?;
        keys.get(index).copied().ok_or(Errno::INVAL)
    });
    match found {
        Ok(key) => {
            // SAFETY: as the caller promises.
            unsafe { pkey.write(key.to_be()) };
            0
        }
        Err(error) => minus_one(error),
    }
}

/// The index of a P_Key, which is in network byte order; -1 if the table does not have it.
///
/// # Safety
/// The context is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_pkey_index(context: *mut Context, port: u8, pkey: u16) -> c_int {
    // SAFETY: as the caller promises.
    let found = unsafe { pkeys(context, port) }.and_then(|keys| {
        let mut keys = keys.into_iter();
        let index = keys.position(|key| key.to_be() == pkey);
        index.ok_or(Errno::INVAL)
    });
    match found {
        Ok(index) => c_int::try_from(index).unwrap_or(-1),
        Err(error) => minus_one(error),
    }
}
