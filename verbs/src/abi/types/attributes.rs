//! Attributes of devices, ports, paths and queues.

use core::ffi::{c_char, c_int, c_uint, c_void};

use super::{CompChannel, Cq, Gid, Pd, Srq};

/// `struct ibv_device_attr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DeviceAttr {
    pub(in crate::abi) fw_ver: [c_char; 64],
    /// In network byte order, as the next one.
    pub(in crate::abi) node_guid: u64,
    pub(in crate::abi) sys_image_guid: u64,
    pub(in crate::abi) max_mr_size: u64,
    pub(in crate::abi) page_size_cap: u64,
    pub(in crate::abi) vendor_id: u32,
    pub(in crate::abi) vendor_part_id: u32,
    pub(in crate::abi) hw_ver: u32,
    pub(in crate::abi) max_qp: c_int,
    pub(in crate::abi) max_qp_wr: c_int,
    pub(in crate::abi) device_cap_flags: c_uint,
    pub(in crate::abi) max_sge: c_int,
    pub(in crate::abi) max_sge_rd: c_int,
    pub(in crate::abi) max_cq: c_int,
    pub(in crate::abi) max_cqe: c_int,
    pub(in crate::abi) max_mr: c_int,
    pub(in crate::abi) max_pd: c_int,
    pub(in crate::abi) max_qp_rd_atom: c_int,
    pub(in crate::abi) max_ee_rd_atom: c_int,
    pub(in crate::abi) max_res_rd_atom: c_int,
    pub(in crate::abi) max_qp_init_rd_atom: c_int,
    pub(in crate::abi) max_ee_init_rd_atom: c_int,
    pub(in crate::abi) atomic_cap: c_uint,
    pub(in crate::abi) max_ee: c_int,
    pub(in crate::abi) max_rdd: c_int,
    pub(in crate::abi) max_mw: c_int,
    pub(in crate::abi) max_raw_ipv6_qp: c_int,
    pub(in crate::abi) max_raw_ethy_qp: c_int,
    pub(in crate::abi) max_mcast_grp: c_int,
    pub(in crate::abi) max_mcast_qp_attach: c_int,
    pub(in crate::abi) max_total_mcast_qp_attach: c_int,
    pub(in crate::abi) max_ah: c_int,
    pub(in crate::abi) max_fmr: c_int,
    pub(in crate::abi) max_map_per_fmr: c_int,
    pub(in crate::abi) max_srq: c_int,
    pub(in crate::abi) max_srq_wr: c_int,
    pub(in crate::abi) max_srq_sge: c_int,
    pub(in crate::abi) max_pkeys: u16,
    pub(in crate::abi) local_ca_ack_delay: u8,
    pub(in crate::abi) phys_port_cnt: u8,
}

/// `struct ibv_device_attr_ex`. What this device does not have is zero and stands here as bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DeviceAttrEx {
    pub(in crate::abi) orig_attr: DeviceAttr,
    pub(in crate::abi) comp_mask: u32,
    /// On-demand paging: `general_caps`, then by transport.
    pub(in crate::abi) odp_caps: [u64; 3],
    pub(in crate::abi) completion_timestamp_mask: u64,
    /// In kHz.
    pub(in crate::abi) hca_core_clock: u64,
    pub(in crate::abi) device_cap_flags_ex: u64,
    pub(in crate::abi) tso_caps: [u32; 2],
    pub(in crate::abi) rss_caps: [u64; 4],
    pub(in crate::abi) max_wq_type_rq: u32,
    pub(in crate::abi) packet_pacing_caps: [u32; 3],
    pub(in crate::abi) raw_packet_caps: u32,
    pub(in crate::abi) tm_caps: [u32; 5],
    pub(in crate::abi) cq_mod_caps: [u16; 2],
    pub(in crate::abi) max_dm_size: u64,
    pub(in crate::abi) pci_atomic_caps: [u16; 3],
    pub(in crate::abi) xrc_odp_caps: u32,
    pub(in crate::abi) phys_port_cnt_ex: u32,
}

/// `struct ibv_port_attr`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct PortAttr {
    pub(in crate::abi) state: c_uint,
    pub(in crate::abi) max_mtu: c_uint,
    pub(in crate::abi) active_mtu: c_uint,
    pub(in crate::abi) gid_tbl_len: c_int,
    pub(in crate::abi) port_cap_flags: u32,
    pub(in crate::abi) max_msg_sz: u32,
    pub(in crate::abi) bad_pkey_cntr: u32,
    pub(in crate::abi) qkey_viol_cntr: u32,
    pub(in crate::abi) pkey_tbl_len: u16,
    pub(in crate::abi) lid: u16,
    pub(in crate::abi) sm_lid: u16,
    pub(in crate::abi) lmc: u8,
    pub(in crate::abi) max_vl_num: u8,
    pub(in crate::abi) sm_sl: u8,
    pub(in crate::abi) subnet_timeout: u8,
    pub(in crate::abi) init_type_reply: u8,
    pub(in crate::abi) active_width: u8,
    pub(in crate::abi) active_speed: u8,
    pub(in crate::abi) phys_state: u8,
    pub(in crate::abi) link_layer: u8,
    pub(in crate::abi) flags: u8,
    pub(in crate::abi) port_cap_flags2: u16,
}

/// `struct ibv_global_route`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct GlobalRoute {
    pub(in crate::abi) dgid: Gid,
    pub(in crate::abi) flow_label: u32,
    pub(in crate::abi) sgid_index: u8,
    pub(in crate::abi) hop_limit: u8,
    pub(in crate::abi) traffic_class: u8,
}

/// `struct ibv_ah_attr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct AhAttr {
    pub(in crate::abi) grh: GlobalRoute,
    pub(in crate::abi) dlid: u16,
    pub(in crate::abi) sl: u8,
    pub(in crate::abi) src_path_bits: u8,
    pub(in crate::abi) static_rate: u8,
    pub(in crate::abi) is_global: u8,
    pub(in crate::abi) port_num: u8,
}

/// `struct ibv_srq_attr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SrqAttr {
    pub(in crate::abi) max_wr: u32,
    pub(in crate::abi) max_sge: u32,
    pub(in crate::abi) srq_limit: u32,
}

/// `struct ibv_srq_init_attr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SrqInitAttr {
    pub(in crate::abi) srq_context: *mut c_void,
    pub(in crate::abi) attr: SrqAttr,
}

/// `struct ibv_srq_init_attr_ex`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SrqInitAttrEx {
    pub(in crate::abi) srq_context: *mut c_void,
    pub(in crate::abi) attr: SrqAttr,
    pub(in crate::abi) comp_mask: u32,
    pub(in crate::abi) srq_type: c_uint,
    pub(in crate::abi) pd: *mut Pd,
    pub(in crate::abi) xrcd: *mut c_void,
    pub(in crate::abi) cq: *mut Cq,
    pub(in crate::abi) tm_cap: [u32; 2],
}

/// `struct ibv_cq_init_attr_ex`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CqInitAttr {
    pub(in crate::abi) cqe: u32,
    pub(in crate::abi) cq_context: *mut c_void,
    pub(in crate::abi) channel: *mut CompChannel,
    pub(in crate::abi) comp_vector: u32,
    pub(in crate::abi) wc_flags: u64,
    pub(in crate::abi) comp_mask: u32,
    pub(in crate::abi) flags: u32,
    pub(in crate::abi) parent_domain: *mut Pd,
}

/// `struct ibv_modify_cq_attr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ModifyCqAttr {
    pub(in crate::abi) attr_mask: u32,
    pub(in crate::abi) moderate: [u16; 2],
}

/// `struct ibv_qp_cap`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct QpCap {
    pub(in crate::abi) max_send_wr: u32,
    pub(in crate::abi) max_recv_wr: u32,
    pub(in crate::abi) max_send_sge: u32,
    pub(in crate::abi) max_recv_sge: u32,
    pub(in crate::abi) max_inline_data: u32,
}

/// `struct ibv_qp_init_attr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct QpInitAttr {
    pub(in crate::abi) qp_context: *mut c_void,
    pub(in crate::abi) send_cq: *mut Cq,
    pub(in crate::abi) recv_cq: *mut Cq,
    pub(in crate::abi) srq: *mut Srq,
    pub(in crate::abi) cap: QpCap,
    pub(in crate::abi) qp_type: c_uint,
    pub(in crate::abi) sq_sig_all: c_int,
}

/// `struct ibv_qp_init_attr_ex`. Its first fields are those of [`QpInitAttr`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct QpInitAttrEx {
    pub(in crate::abi) qp_context: *mut c_void,
    pub(in crate::abi) send_cq: *mut Cq,
    pub(in crate::abi) recv_cq: *mut Cq,
    pub(in crate::abi) srq: *mut Srq,
    pub(in crate::abi) cap: QpCap,
    pub(in crate::abi) qp_type: c_uint,
    pub(in crate::abi) sq_sig_all: c_int,
    pub(in crate::abi) comp_mask: u32,
    pub(in crate::abi) pd: *mut Pd,
    pub(in crate::abi) xrcd: *mut c_void,
    pub(in crate::abi) create_flags: u32,
    pub(in crate::abi) max_tso_header: u16,
    pub(in crate::abi) rwq_ind_tbl: *mut c_void,
    pub(in crate::abi) rx_hash_conf: [u64; 3],
    pub(in crate::abi) source_qpn: u32,
    pub(in crate::abi) send_ops_flags: u64,
}

/// `struct ibv_qp_attr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct QpAttr {
    pub(in crate::abi) qp_state: c_uint,
    pub(in crate::abi) cur_qp_state: c_uint,
    pub(in crate::abi) path_mtu: c_uint,
    pub(in crate::abi) path_mig_state: c_uint,
    pub(in crate::abi) qkey: u32,
    pub(in crate::abi) rq_psn: u32,
    pub(in crate::abi) sq_psn: u32,
    pub(in crate::abi) dest_qp_num: u32,
    pub(in crate::abi) qp_access_flags: c_uint,
    pub(in crate::abi) cap: QpCap,
    pub(in crate::abi) ah_attr: AhAttr,
    pub(in crate::abi) alt_ah_attr: AhAttr,
    pub(in crate::abi) pkey_index: u16,
    pub(in crate::abi) alt_pkey_index: u16,
    pub(in crate::abi) en_sqd_async_notify: u8,
    pub(in crate::abi) sq_draining: u8,
    pub(in crate::abi) max_rd_atomic: u8,
    pub(in crate::abi) max_dest_rd_atomic: u8,
    pub(in crate::abi) min_rnr_timer: u8,
    pub(in crate::abi) port_num: u8,
    pub(in crate::abi) timeout: u8,
    pub(in crate::abi) retry_cnt: u8,
    pub(in crate::abi) rnr_retry: u8,
    pub(in crate::abi) alt_port_num: u8,
    pub(in crate::abi) alt_timeout: u8,
    pub(in crate::abi) rate_limit: u32,
}
