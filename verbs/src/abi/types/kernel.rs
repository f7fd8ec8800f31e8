//! What librdmacm has the library translate: attributes as the kernel writes them, and path records.

use core::ffi::c_int;

use super::Gid;

/// `struct ib_uverbs_ah_attr`, with its `grh`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct KernelAhAttr {
    pub(in crate::abi) dgid: [u8; 16],
    pub(in crate::abi) flow_label: u32,
    pub(in crate::abi) sgid_index: u8,
    pub(in crate::abi) hop_limit: u8,
    pub(in crate::abi) traffic_class: u8,
    pub(in crate::abi) grh_reserved: u8,
    pub(in crate::abi) dlid: u16,
    pub(in crate::abi) sl: u8,
    pub(in crate::abi) src_path_bits: u8,
    pub(in crate::abi) static_rate: u8,
    pub(in crate::abi) is_global: u8,
    pub(in crate::abi) port_num: u8,
    pub(in crate::abi) reserved: u8,
}

/// `struct ib_uverbs_qp_attr`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct KernelQpAttr {
    pub(in crate::abi) qp_attr_mask: u32,
    pub(in crate::abi) qp_state: u32,
    pub(in crate::abi) cur_qp_state: u32,
    pub(in crate::abi) path_mtu: u32,
    pub(in crate::abi) path_mig_state: u32,
    pub(in crate::abi) qkey: u32,
    pub(in crate::abi) rq_psn: u32,
    pub(in crate::abi) sq_psn: u32,
    pub(in crate::abi) dest_qp_num: u32,
    pub(in crate::abi) qp_access_flags: u32,
    pub(in crate::abi) ah_attr: KernelAhAttr,
    pub(in crate::abi) alt_ah_attr: KernelAhAttr,
    pub(in crate::abi) max_send_wr: u32,
    pub(in crate::abi) max_recv_wr: u32,
    pub(in crate::abi) max_send_sge: u32,
    pub(in crate::abi) max_recv_sge: u32,
    pub(in crate::abi) max_inline_data: u32,
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
    pub(in crate::abi) reserved: [u8; 5],
}

/// `struct ib_user_path_rec`; the LIDs, the P_Key and the flow label are in network byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct KernelPathRecord {
    pub(in crate::abi) dgid: [u8; 16],
    pub(in crate::abi) sgid: [u8; 16],
    pub(in crate::abi) dlid: u16,
    pub(in crate::abi) slid: u16,
    pub(in crate::abi) raw_traffic: u32,
    pub(in crate::abi) flow_label: u32,
    pub(in crate::abi) reversible: u32,
    pub(in crate::abi) mtu: u32,
    pub(in crate::abi) pkey: u16,
    pub(in crate::abi) hop_limit: u8,
    pub(in crate::abi) traffic_class: u8,
    pub(in crate::abi) numb_path: u8,
    pub(in crate::abi) sl: u8,
    pub(in crate::abi) mtu_selector: u8,
    pub(in crate::abi) rate_selector: u8,
    pub(in crate::abi) rate: u8,
    pub(in crate::abi) packet_life_time_selector: u8,
    pub(in crate::abi) packet_life_time: u8,
    pub(in crate::abi) preference: u8,
}

/// `struct ibv_sa_path_rec`, in the byte orders of [`KernelPathRecord`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PathRecord {
    pub(in crate::abi) dgid: Gid,
    pub(in crate::abi) sgid: Gid,
    pub(in crate::abi) dlid: u16,
    pub(in crate::abi) slid: u16,
    pub(in crate::abi) raw_traffic: c_int,
    pub(in crate::abi) flow_label: u32,
    pub(in crate::abi) hop_limit: u8,
    pub(in crate::abi) traffic_class: u8,
    pub(in crate::abi) reversible: c_int,
    pub(in crate::abi) numb_path: u8,
    pub(in crate::abi) pkey: u16,
    pub(in crate::abi) sl: u8,
    pub(in crate::abi) mtu_selector: u8,
    pub(in crate::abi) mtu: u8,
    pub(in crate::abi) rate_selector: u8,
    pub(in crate::abi) rate: u8,
    pub(in crate::abi) packet_life_time_selector: u8,
    pub(in crate::abi) packet_life_time: u8,
    pub(in crate::abi) preference: u8,
}
