//! A packet as a line of text: link header, transport header, what a management datagram is about.

use std::fmt::Write as _;

use wire::capture::Direction;
use wire::erf::Seen;
use wire::{
    AttributeId, Bth, Deth, FlowControl, FlowOp, Format as _, Grh, Lnh, Lrh, MadHeader, Method,
    MgmtClass, Opcode, RecordKind, Service,
};

/// The line of a packet, of which `bytes` are the first.
pub(super) fn of(seen: &Seen, bytes: &[u8]) -> String {
    let (seconds, nanos) = (seen.time_ns / 1_000_000_000, seen.time_ns % 1_000_000_000);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let direction = match seen.direction {
        Some(Direction::Received) => "in ",
        Some(Direction::Sent) => "out",
        None => "-  ",
    };
    let mut line = format!("{hour:02}:{minute:02}:{second:02}.{nanos:09} {direction} ");
    if seen.lost > 0 {
        let _ = write!(line, "[{} lost] ", seen.lost);
    }
    match seen.kind {
        RecordKind::FlowControl => control(&mut line, bytes),
        _ => packet(&mut line, seen.wire_len, bytes),
    }
    line
}

fn control(line: &mut String, bytes: &[u8]) {
    let Ok((packet, _)) = FlowControl::parse(bytes) else {
        line.push_str("flow control, damaged");
        return;
    };
    let op = match packet.op {
        FlowOp::Normal => "normal",
        FlowOp::Init => "init",
    };
    let (vl, fctbs, fccl) = (packet.vl, packet.fctbs, packet.fccl);
    let _ = write!(line, "VL{vl} flow control {op} FCTBS {fctbs} FCCL {fccl}");
}

fn packet(line: &mut String, wire_len: usize, bytes: &[u8]) {
    let Ok((lrh, behind)) = Lrh::parse(bytes) else {
        let _ = write!(line, "{wire_len} bytes, too short for an LRH");
        return;
    };
    let (vl, sl, slid, dlid) = (lrh.vl, lrh.sl, lrh.slid.get(), lrh.dlid.get());
    let _ = write!(
        line,
        "VL{vl} SL{sl} {slid:#06x} > {dlid:#06x} {wire_len} bytes"
    );
    let behind = match lrh.lnh {
        Lnh::IbaLocal => behind,
        Lnh::IbaGlobal => match Grh::parse(behind) {
            Ok((grh, behind)) => {
                let _ = write!(line, " GRH > {}", grh.dgid);
                behind
            }
            Err(_) => return,
        },
        Lnh::Raw | Lnh::Ipv6Raw => {
            line.push_str(" raw");
            return;
        }
    };
    let Ok((bth, behind)) = Bth::parse(behind) else {
        return;
    };
    if bth.opcode.0 >> 5 != Service::Ud as u8 {
        let _ = write!(
            line,
            " {} QP {} PSN {}",
            operation(bth.opcode),
            bth.dest_qp,
            bth.psn
        );
        return;
    }
    let Ok((deth, payload)) = Deth::parse(behind) else {
        return;
    };
    let (src, dest) = (deth.src_qp, bth.dest_qp);
    let _ = write!(line, " {} QP {src} > {dest}", operation(bth.opcode));
    if dest.get() <= 1
        && let Ok((mad, _)) = MadHeader::parse(payload)
    {
        let _ = write!(line, " {}", about(&mad));
    }
}

/// Service and operation.
fn operation(opcode: Opcode) -> String {
    let Some((service, operation)) = opcode.parts() else {
        return format!("opcode {:#04x}", opcode.0);
    };
    let service = match service {
        Service::Rc => "RC",
        Service::Uc => "UC",
        Service::Ud => "UD",
    };
    format!("{service} {operation:?}")
}

/// What a management datagram is about.
fn about(mad: &MadHeader) -> String {
    let method = match mad.method {
        Method::GET => "Get",
        Method::SET => "Set",
        Method::SEND => "Send",
        Method::TRAP => "Trap",
        Method::REPORT => "Report",
        Method::TRAP_REPRESS => "TrapRepress",
        Method::GET_RESP => "GetResp",
        Method::REPORT_RESP => "ReportResp",
        Method::GET_TABLE => "GetTable",
        Method::GET_TABLE_RESP => "GetTableResp",
        Method::DELETE => "Delete",
        Method::DELETE_RESP => "DeleteResp",
        Method::GET_MULTI => "GetMulti",
        Method::GET_MULTI_RESP => "GetMultiResp",
        Method(other) => &format!("Method{other:#x}"),
    };
    let class = match mad.class {
        MgmtClass::SUBN_LID | MgmtClass::SUBN_DIR => "Subn",
        MgmtClass::SUBN_ADM => "SubnAdm",
        MgmtClass::PERF => "Perf",
        MgmtClass::BM => "BM",
        MgmtClass::COMM => "Com",
        MgmtClass::CONGESTION => "CC",
        MgmtClass(other) => &format!("Class{other:#x}"),
    };
    let attribute = match name(mad.class, mad.attr_id) {
        Some(name) => name.to_owned(),
        None => format!("{:#06x}", mad.attr_id.0),
    };
    let mut text = format!("{class}{method}({attribute}");
    if mad.attr_mod != 0 {
        let _ = write!(text, ", modifier {:#x}", mad.attr_mod);
    }
    text.push(')');
    if mad.class == MgmtClass::SUBN_DIR {
        let [pointer, count] = mad.class_specific.to_be_bytes();
        let _ = write!(text, " hop {pointer} of {count}");
    } else if mad.status.0 != 0 {
        let _ = write!(text, " status {:#06x}", mad.status.0);
    }
    let _ = write!(text, " tid {:#x}", mad.tid);
    text
}

/// The name of an attribute.
fn name(class: MgmtClass, id: AttributeId) -> Option<&'static str> {
    let general = match id {
        AttributeId::CLASS_PORT_INFO => Some("ClassPortInfo"),
        AttributeId::NOTICE => Some("Notice"),
        AttributeId::INFORM_INFO => Some("InformInfo"),
        _ => None,
    };
    general.or_else(|| match class {
        MgmtClass::SUBN_LID | MgmtClass::SUBN_DIR => subnet(id),
        MgmtClass::SUBN_ADM => administration(id),
        MgmtClass::PERF => performance(id),
        MgmtClass::COMM => connection(id),
        _ => None,
    })
}

fn subnet(id: AttributeId) -> Option<&'static str> {
    Some(match id {
        AttributeId::NODE_DESCRIPTION => "NodeDescription",
        AttributeId::NODE_INFO => "NodeInfo",
        AttributeId::SWITCH_INFO => "SwitchInfo",
        AttributeId::GUID_INFO => "GUIDInfo",
        AttributeId::PORT_INFO => "PortInfo",
        AttributeId::PKEY_TABLE => "P_KeyTable",
        AttributeId::SL_TO_VL_TABLE => "SLtoVLMappingTable",
        AttributeId::VL_ARB_TABLE => "VLArbitrationTable",
        AttributeId::LINEAR_FORWARDING_TABLE => "LinearForwardingTable",
        AttributeId::MULTICAST_FORWARDING_TABLE => "MulticastForwardingTable",
        AttributeId::SM_INFO => "SMInfo",
        AttributeId::PORT_INFO_EXTENDED => "PortInfoExtended",
        AttributeId::EXTENDED_PORT_INFO => "ExtendedPortInfo",
        _ => return None,
    })
}

fn administration(id: AttributeId) -> Option<&'static str> {
    Some(match id {
        AttributeId::NODE_RECORD => "NodeRecord",
        AttributeId::PORT_INFO_RECORD => "PortInfoRecord",
        AttributeId::SL_TO_VL_TABLE_RECORD => "SLtoVLMappingTableRecord",
        AttributeId::SWITCH_INFO_RECORD => "SwitchInfoRecord",
        AttributeId::LINEAR_FORWARDING_TABLE_RECORD => "LinearForwardingTableRecord",
        AttributeId::MULTICAST_FORWARDING_TABLE_RECORD => "MulticastForwardingTableRecord",
        AttributeId::SM_INFO_RECORD => "SMInfoRecord",
        AttributeId::INFORM_INFO_RECORD => "InformInfoRecord",
        AttributeId::LINK_RECORD => "LinkRecord",
        AttributeId::GUID_INFO_RECORD => "GuidInfoRecord",
        AttributeId::SERVICE_RECORD => "ServiceRecord",
        AttributeId::PKEY_TABLE_RECORD => "P_KeyTableRecord",
        AttributeId::PATH_RECORD => "PathRecord",
        AttributeId::VL_ARB_TABLE_RECORD => "VLArbitrationTableRecord",
        AttributeId::MC_MEMBER_RECORD => "MCMemberRecord",
        AttributeId::MULTI_PATH_RECORD => "MultiPathRecord",
        _ => return None,
    })
}

fn performance(id: AttributeId) -> Option<&'static str> {
    Some(match id {
        AttributeId::PORT_SAMPLES_CONTROL => "PortSamplesControl",
        AttributeId::PORT_SAMPLES_RESULT => "PortSamplesResult",
        AttributeId::PORT_COUNTERS => "PortCounters",
        AttributeId::PORT_COUNTERS_EXTENDED => "PortCountersExtended",
        _ => return None,
    })
}

fn connection(id: AttributeId) -> Option<&'static str> {
    Some(match id.0 {
        0x10 => "ConnectRequest",
        0x11 => "MsgRcptAck",
        0x12 => "ConnectReject",
        0x13 => "ConnectReply",
        0x14 => "ReadyToUse",
        0x15 => "DisconnectRequest",
        0x16 => "DisconnectReply",
        0x17 => "ServiceIDResReq",
        0x18 => "ServiceIDResReqResp",
        _ => return None,
    })
}
