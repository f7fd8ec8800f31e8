//! What librdmacm has the library translate between the kernel's structures and those of programs.

use super::types::{
    AhAttr, Gid, GlobalRoute, KernelAhAttr, KernelPathRecord, KernelQpAttr, PathRecord, QpAttr,
    QpCap,
};

fn ah_attr(from: &KernelAhAttr) -> AhAttr {
    AhAttr {
        grh: GlobalRoute {
            dgid: Gid { raw: from.dgid },
            flow_label: from.flow_label,
            sgid_index: from.sgid_index,
            hop_limit: from.hop_limit,
            traffic_class: from.traffic_class,
        },
        dlid: from.dlid,
        sl: from.sl,
        src_path_bits: from.src_path_bits,
        static_rate: from.static_rate,
        is_global: from.is_global,
        port_num: from.port_num,
    }
}

/// Translates an address vector.
///
/// # Safety
/// The pointers are to what their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_copy_ah_attr_from_kern(dst: *mut AhAttr, src: *const KernelAhAttr) {
    // SAFETY: as the caller promises.
    unsafe { dst.write(ah_attr(&*src)) };
}

/// Translates attributes of a queue pair. What the kernel's do not have stays as it is: the state to which the
/// queue pair is to go, and a limit of its rate.
///
/// # Safety
/// The pointers are to what their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_copy_qp_attr_from_kern(dst: *mut QpAttr, src: *const KernelQpAttr) {
    // SAFETY: as the caller promises.
    let (dst, src) = unsafe { (&mut *dst, &*src) };
    *dst = QpAttr {
        qp_state: dst.qp_state,
        cur_qp_state: src.cur_qp_state,
        path_mtu: src.path_mtu,
        path_mig_state: src.path_mig_state,
        qkey: src.qkey,
        rq_psn: src.rq_psn,
        sq_psn: src.sq_psn,
        dest_qp_num: src.dest_qp_num,
        qp_access_flags: src.qp_access_flags,
        cap: QpCap {
            max_send_wr: src.max_send_wr,
            max_recv_wr: src.max_recv_wr,
            max_send_sge: src.max_send_sge,
            max_recv_sge: src.max_recv_sge,
            max_inline_data: src.max_inline_data,
        },
        ah_attr: ah_attr(&src.ah_attr),
        alt_ah_attr: ah_attr(&src.alt_ah_attr),
        pkey_index: src.pkey_index,
        alt_pkey_index: src.alt_pkey_index,
        en_sqd_async_notify: src.en_sqd_async_notify,
        sq_draining: src.sq_draining,
        max_rd_atomic: src.max_rd_atomic,
        max_dest_rd_atomic: src.max_dest_rd_atomic,
        min_rnr_timer: src.min_rnr_timer,
        port_num: src.port_num,
        timeout: src.timeout,
        retry_cnt: src.retry_cnt,
        rnr_retry: src.rnr_retry,
        alt_port_num: src.alt_port_num,
        alt_timeout: src.alt_timeout,
        rate_limit: dst.rate_limit,
    };
}

/// Translates a path record.
///
/// # Safety
/// The pointers are to what their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_copy_path_rec_from_kern(
    dst: *mut PathRecord,
    src: *const KernelPathRecord,
) {
    // SAFETY: as the caller promises.
    let src = unsafe { &*src };
    let record = PathRecord {
        dgid: Gid { raw: src.dgid },
        sgid: Gid { raw: src.sgid },
        dlid: src.dlid,
        slid: src.slid,
        raw_traffic: src.raw_traffic.cast_signed(),
        flow_label: src.flow_label,
        hop_limit: src.hop_limit,
        traffic_class: src.traffic_class,
        reversible: src.reversible.cast_signed(),
        numb_path: src.numb_path,
        pkey: src.pkey,
        sl: src.sl,
        mtu_selector: src.mtu_selector,
        // A code of five values, in a field of four bytes.
        mtu: u8::try_from(src.mtu).unwrap_or_default(),
        rate_selector: src.rate_selector,
        rate: src.rate,
        packet_life_time_selector: src.packet_life_time_selector,
        packet_life_time: src.packet_life_time,
        preference: src.preference,
    };
    // SAFETY: as the caller promises.
    unsafe { dst.write(record) };
}

/// Translates a path record back.
///
/// # Safety
/// The pointers are to what their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_copy_path_rec_to_kern(
    dst: *mut KernelPathRecord,
    src: *const PathRecord,
) {
    // SAFETY: as the caller promises.
    let src = unsafe { &*src };
    let record = KernelPathRecord {
        dgid: src.dgid.raw,
        sgid: src.sgid.raw,
        dlid: src.dlid,
        slid: src.slid,
        raw_traffic: src.raw_traffic.cast_unsigned(),
        flow_label: src.flow_label,
        reversible: src.reversible.cast_unsigned(),
        mtu: src.mtu.into(),
        pkey: src.pkey,
        hop_limit: src.hop_limit,
        traffic_class: src.traffic_class,
        numb_path: src.numb_path,
        sl: src.sl,
        mtu_selector: src.mtu_selector,
        rate_selector: src.rate_selector,
        rate: src.rate,
        packet_life_time_selector: src.packet_life_time_selector,
        packet_life_time: src.packet_life_time,
        preference: src.preference,
    };
    // SAFETY: as the caller promises.
    unsafe { dst.write(record) };
}
