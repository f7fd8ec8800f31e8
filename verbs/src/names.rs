//! What the library calls statuses, events and the like. Programs print these and compare them, so the words are
//! those of libibverbs.

use core::ffi::CStr;

const UNKNOWN: &CStr = c"unknown";

fn at(names: &'static [&'static CStr], index: Option<u32>) -> &'static CStr {
    let index = index.and_then(|index| usize::try_from(index).ok());
    let name = index.and_then(|index| names.get(index));
    name.copied().unwrap_or(UNKNOWN)
}

/// The kind of a node, by the numbers of `ibv_node_type`.
pub(crate) fn node_type(kind: i32) -> &'static CStr {
    const NAMES: &[&CStr] = &[
        c"InfiniBand channel adapter",
        c"InfiniBand switch",
        c"InfiniBand router",
        c"iWARP NIC",
        c"usNIC",
        c"usNIC UDP",
        c"unspecified",
    ];
    let from_one = u32::try_from(kind)
        .ok()
        .and_then(|kind| kind.checked_sub(1));
    at(NAMES, from_one)
}

/// PortState.
pub(crate) fn port_state(state: u32) -> &'static CStr {
    const NAMES: &[&CStr] = &[
        c"no state change (NOP)",
        c"down",
        c"init",
        c"armed",
        c"active",
        c"active defer",
    ];
    at(NAMES, Some(state))
}

/// An asynchronous event, by the numbers of `ibv_event_type`.
pub(crate) fn event_type(event: u32) -> &'static CStr {
    const NAMES: &[&CStr] = &[
        c"CQ error",
        c"local work queue catastrophic error",
        c"invalid request local work queue error",
        c"local access violation work queue error",
        c"communication established",
        c"send queue drained",
        c"path migrated",
        c"path migration request error",
        c"local catastrophic error",
        c"port active",
        c"port error",
        c"LID change",
        c"P_Key change",
        c"SM change",
        c"SRQ catastrophic error",
        c"SRQ limit reached",
        c"last WQE reached",
        c"client reregistration",
        c"GID table change",
        c"WQ fatal",
    ];
    at(NAMES, Some(event))
}

/// The status of a completion, by the numbers of `ibv_wc_status`.
pub(crate) fn wc_status(status: u32) -> &'static CStr {
    const NAMES: &[&CStr] = &[
        c"success",
        c"local length error",
        c"local QP operation error",
        c"local EE context operation error",
        c"local protection error",
        c"Work Request Flushed Error",
        c"memory management operation error",
        c"bad response error",
        c"local access error",
        c"remote invalid request error",
        c"remote access error",
        c"remote operation error",
        c"transport retry counter exceeded",
        c"RNR retry counter exceeded",
        c"local RDD violation error",
        c"remote invalid RD request",
        c"aborted error",
        c"invalid EE context number",
        c"invalid EE context state",
        c"fatal error",
        c"response timeout error",
        c"general error",
        c"TM error",
        c"TM software rendezvous",
    ];
    at(NAMES, Some(status))
}

/// The operation of a send request, by the numbers of `ibv_wr_opcode`.
pub(crate) fn send_opcode(opcode: u32) -> &'static CStr {
    const NAMES: &[&CStr] = &[
        c"rdma-write",
        c"rdma-write-with-imm",
        c"send",
        c"send-with-imm",
        c"rdma-read",
        c"atomic-cmp-and-swp",
        c"atomic-fetch-and-add",
        c"local-inv",
        c"bind-mw",
        c"send-with-inv",
        c"tso",
        c"driver1",
        UNKNOWN,
        UNKNOWN,
        c"flush",
        c"atomic-write",
    ];
    at(NAMES, Some(opcode))
}
