//! Names of classes, methods, attributes and statuses (IBA 13.4, 14.2, 15.2, 12.7).

use core::ffi::CStr;

type Table = &'static [(u16, &'static CStr)];

const UNKNOWN: &CStr = c"<unknown>";

fn find(table: Table, key: u16) -> Option<&'static CStr> {
    let mut entries = table.iter();
    entries.find(|&&(id, _)| id == key).map(|&(_, name)| name)
}

const CLASSES: Table = &[
    (0x01, c"Subn"),
    (0x81, c"Subn"),
    (0x03, c"SubnAdm"),
    (0x04, c"Perf"),
    (0x05, c"BM"),
    (0x06, c"DevMgt"),
    (0x07, c"ComMgt"),
    (0x08, c"SNMP"),
    (0x10, c"DevAdm"),
    (0x11, c"BootMgt"),
    (0x12, c"BIS"),
    (0x21, c"CongestionManagment"),
];

/// The name of a management class.
pub(crate) fn class(class: u8) -> &'static CStr {
    find(CLASSES, class.into()).unwrap_or(match class {
        0x09..=0x0f | 0x30..=0x4f => c"Vendor",
        0x13..=0x2f => c"Application",
        _ => UNKNOWN,
    })
}

const METHODS: Table = &[
    (0x01, c"Get"),
    (0x02, c"Set"),
    (0x03, c"Send"),
    (0x05, c"Trap"),
    (0x06, c"Report"),
    (0x07, c"TrapRepress"),
    (0x81, c"GetResp"),
    (0x86, c"ReportResp"),
];

const SA_METHODS: Table = &[
    (0x12, c"GetTable"),
    (0x13, c"GetTraceTable"),
    (0x14, c"GetMulti"),
    (0x15, c"Delete"),
    (0x92, c"GetTableResp"),
    (0x94, c"GetMultiResp"),
    (0x95, c"DeleteResp"),
];

const SUBNET_ADMINISTRATION: u8 = 0x03;

/// The name of a method of a class.
pub(crate) fn method(class: u8, method: u8) -> &'static CStr {
    let special = match class {
        SUBNET_ADMINISTRATION => find(SA_METHODS, method.into()),
        _ => None,
    };
    let name = special.or_else(|| find(METHODS, method.into()));
    name.unwrap_or(UNKNOWN)
}

const ATTRIBUTES: Table = &[
    (0x0001, c"Class Port Info"),
    (0x0002, c"Notice"),
    (0x0003, c"Inform Info"),
];

const SM_ATTRIBUTES: Table = &[
    (0x0010, c"NodeDescription"),
    (0x0011, c"NodeInfo"),
    (0x0012, c"SwitchInfo"),
    (0x0014, c"GUIDInfo"),
    (0x0015, c"PortInfo"),
    (0x0016, c"P_KeyTable"),
    (0x0017, c"SLtoVLMappingTable"),
    (0x0018, c"VLArbitrationTable"),
    (0x0019, c"LinearForwardingTable"),
    (0x001a, c"RandomForwardingTable"),
    (0x001b, c"MulticastForwardingTable"),
    (0x0020, c"SMInfo"),
    (0x0030, c"VendorDiag"),
    (0x0031, c"LedInfo"),
    (0x0032, c"CableInfo"),
    (0x0033, c"PortInfoExtended"),
];

const SA_ATTRIBUTES: Table = &[
    (0x0011, c"NodeRecord"),
    (0x0012, c"PortInfoRecord"),
    (0x0013, c"SLtoVLMappingTableRecord"),
    (0x0014, c"SwitchInfoRecord"),
    (0x0015, c"LinearForwardingTableRecord"),
    (0x0016, c"RandomForwardingTableRecord"),
    (0x0017, c"MulticastForwardingTableRecord"),
    (0x0018, c"SMInfoRecord"),
    (0x0020, c"LinkRecord"),
    (0x0030, c"GuidInfoRecord"),
    (0x0031, c"ServiceRecord"),
    (0x0033, c"P_KeyTableRecord"),
    (0x0035, c"PathRecord"),
    (0x0036, c"VLArbitrationTableRecord"),
    (0x0038, c"MCMemberRecord"),
    (0x0039, c"TraceRecord"),
    (0x003a, c"MultiPathRecord"),
    (0x003b, c"ServiceAssociationRecord"),
    (0x00f3, c"InformInfoRecord"),
];

const CM_ATTRIBUTES: Table = &[
    (0x0010, c"ConnectRequest"),
    (0x0011, c"MsgRcptAck"),
    (0x0012, c"ConnectReject"),
    (0x0013, c"ConnectReply"),
    (0x0014, c"ReadyToUse"),
    (0x0015, c"DisconnectRequest"),
    (0x0016, c"DisconnectReply"),
    (0x0017, c"ServiceIDResReq"),
    (0x0018, c"ServiceIDResReqResp"),
    (0x0019, c"LoadAlternatePath"),
    (0x001a, c"AlternatePathResponse"),
    (0x001b, c"SuggestAlternatePath"),
    (0x001c, c"SuggestPathResponse"),
];

/// The name of an attribute of a class.
pub(crate) fn attribute(class: u8, attribute: u16) -> &'static CStr {
    let special = match class {
        0x01 | 0x81 => SM_ATTRIBUTES,
        SUBNET_ADMINISTRATION => SA_ATTRIBUTES,
        0x07 => CM_ATTRIBUTES,
        _ => &[],
    };
    let name = find(special, attribute).or_else(|| find(ATTRIBUTES, attribute));
    name.unwrap_or(UNKNOWN)
}

/// What the low byte of a status says, which all classes share.
pub(crate) fn common_status(status: u16) -> &'static CStr {
    match (status & 1, status & 2, status >> 2 & 7) {
        (1, _, _) => c"Busy",
        (_, 2, _) => c"Redirection required",
        (_, _, 1) => c"Bad Version",
        (_, _, 2) => c"Method not supported",
        (_, _, 3) => c"Method/Attribute combo not supported",
        (_, _, 7) => c"Invalid attribute/modifier field",
        _ => c"Success",
    }
}

/// What the high byte of a status says in subnet administration.
pub(crate) fn sa_status(status: u16) -> &'static CStr {
    match status >> 8 {
        0 => c"Success",
        1 => c"No Resources",
        2 => c"Request Invalid",
        3 => c"No Records",
        4 => c"Too Many Records",
        5 => c"Invalid GID",
        6 => c"Insufficient Components",
        7 => c"Request Denied",
        8 => c"Priority Suggested",
        _ => c"Undefined Error",
    }
}
