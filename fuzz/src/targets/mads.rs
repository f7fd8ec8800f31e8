//! Management datagrams with headers that mean something, from the bytes of an input.

use wire::mad::{AttributeId, Mad, MadHeader, MadStatus, Method, MgmtClass};
use wire::{Lid, PortNum};

use crate::fields::Fields;

/// The M_Key of protected ports. No request of a target holds it, whatever the input: a request without
/// it must change nothing.
pub(crate) const M_KEY: u64 = 0x9d3b_50c7_e1f2_6a84;

/// Whether the M_Key stands somewhere in `bytes`.
pub(crate) fn knows_key(bytes: &[u8]) -> bool {
    let key = M_KEY.to_be_bytes();
    let other = M_KEY.to_le_bytes();
    let mut windows = bytes.windows(key.len());
    windows.any(|window| window == key || window == other)
}

const CLASSES: [MgmtClass; 6] = [
    MgmtClass::SUBN_LID,
    MgmtClass::SUBN_DIR,
    MgmtClass::SUBN_ADM,
    MgmtClass(0x04),
    wire::vendor::CLASS,
    MgmtClass(0x07),
];

const METHODS: [u8; 12] = [
    0x01, 0x02, 0x05, 0x12, 0x81, 0x06, 0x07, 0x15, 0x92, 0x86, 0x03, 0x14,
];

const ATTRIBUTES: [u16; 32] = [
    0x01, 0x02, 0x03, 0x10, 0x11, 0x12, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1b, 0x1d, 0x20, 0x21,
    0x22, 0x31, 0x33, 0x34, 0x35, 0x36, 0x38, 0x39, 0xf3, 0x13, 0x30, 0x3a, 0x00, 0xff00, 0x72,
    0x61,
];

/// A datagram: class, method, attribute, modifier, status, transaction id and hops from the next 16
/// bytes, and the others behind its header. One of subnet management never knows the M_Key.
pub(crate) fn mad(fields: &mut Fields<'_>) -> Mad {
    let class = fields.byte();
    let method = fields.byte();
    let attribute = fields.byte();
    let modifier = fields.two();
    let hops = fields.byte();
    let tid = fields.four();
    let high: [u8; 6] = fields.array();
    let pick = |byte: u8, len: usize| usize::from(byte & 0x3f) % len;
    let header = MadHeader {
        base_version: if high[0] == 0xff {
            high[1]
        } else {
            MadHeader::BASE_VERSION
        },
        class: match class {
            0xc0.. => MgmtClass(high[2]),
            _ => CLASSES[pick(class, CLASSES.len())],
        },
        class_version: 1,
        method: match method {
            0xc0.. => Method(high[3]),
            _ => Method(METHODS[pick(method, METHODS.len())]),
        },
        status: MadStatus(u16::from(high[4]) << 8 | u16::from(high[5])),
        tid: u64::from(tid),
        attr_id: match attribute {
            0xc0.. => AttributeId(modifier),
            _ => AttributeId(ATTRIBUTES[pick(attribute, ATTRIBUTES.len())]),
        },
        attr_mod: u32::from(modifier & 0xff) | u32::from(modifier >> 8) << 16,
        ..MadHeader::request(MgmtClass::SUBN_LID, Method::GET, AttributeId(0), 0, 0)
    };
    let class = header.class;
    let class_version = if class == MgmtClass::SUBN_ADM { 2 } else { 1 };
    let mut mad = Mad::new(&MadHeader {
        class_version,
        ..header
    });
    let bytes = mad.as_bytes_mut();
    for (to, byte) in bytes[24..].iter_mut().zip(fields.rest()) {
        *to = *byte;
    }
    if class == MgmtClass::SUBN_DIR {
        mad.set_hop_pointer(hops >> 4);
        mad.set_hop_count(hops & 0x0f);
        if hops & 0x0f < 4 {
            mad.set_dr_slid(Lid::PERMISSIVE);
            mad.set_dr_dlid(Lid::PERMISSIVE);
        }
    }
    if class == wire::vendor::CLASS {
        let [_, oui @ ..] = wire::vendor::OUI.to_be_bytes();
        mad.as_bytes_mut()[37..40].copy_from_slice(&oui);
    }
    if mad.m_key() == M_KEY {
        mad.set_m_key(0);
    }
    mad
}

/// The bytes of which [`mad`] makes a request like this one.
///
/// # Panics
/// If [`mad`] makes none with this class, method or attribute.
pub(crate) fn fields_of(of: &Mad) -> Vec<u8> {
    let header = of.header();
    let place = |found: Option<usize>| u8::try_from(found.expect("one that is known")).unwrap_or(0);
    let class = place(CLASSES.iter().position(|&class| class == header.class));
    let method = place(METHODS.iter().position(|&method| method == header.method.0));
    let attribute = place(ATTRIBUTES.iter().position(|&id| id == header.attr_id.0));
    let [_, position, _, block] = header.attr_mod.to_be_bytes();
    let hops = of.hop_pointer() << 4 | of.hop_count();
    let mut bytes = vec![class, method, attribute];
    bytes.extend([position, block]);
    bytes.push(hops);
    bytes.extend(&header.tid.to_be_bytes()[4..]);
    bytes.extend([0; 6]);
    bytes.extend(&of.as_bytes()[24..]);
    let used = bytes
        .iter()
        .rposition(|&byte| byte != 0)
        .map_or(0, |at| at + 1);
    bytes.truncate(used.max(16));
    bytes
}

/// Requests of every class, with attributes that mean something.
pub(crate) fn requests() -> Vec<Mad> {
    let mut all = Vec::new();
    let ports: [&[PortNum]; 2] = [&[], &[PortNum::new(1), PortNum::new(2)]];
    for path in ports {
        for (method, attribute) in [
            (Method::GET, AttributeId::NODE_INFO),
            (Method::GET, AttributeId::PORT_INFO),
            (Method::SET, AttributeId::SWITCH_INFO),
            (Method::GET, AttributeId::SM_INFO),
            (Method::SET, AttributeId::PKEY_TABLE),
            (Method::SET, AttributeId::SL_TO_VL_TABLE),
            (Method::SET, AttributeId::VL_ARB_TABLE),
        ] {
            all.extend(Mad::directed_smp(method, attribute, 1, 0x10, path));
        }
    }
    all.extend(routed_smps());
    all.push(Mad::pma(Method::GET, AttributeId::PORT_COUNTERS, 0, 0x15));
    all.push(Mad::pma(Method::SET, AttributeId::PORT_COUNTERS, 0, 0x16));
    all.extend(sa_requests());
    all.extend(vendor_requests());
    all
}

fn routed_smps() -> [Mad; 4] {
    use wire::attr::{LinearForwardingTable, Notice, PortInfo, SmInfo, SmState};

    let mut routes = Mad::lid_smp(Method::SET, AttributeId::LINEAR_FORWARDING_TABLE, 0, 0x11);
    routes.set_smp_attribute(&LinearForwardingTable([PortNum::new(1); 64]));
    let mut port = Mad::lid_smp(Method::SET, AttributeId::PORT_INFO, 1, 0x12);
    port.set_smp_attribute(&PortInfo {
        m_key: 5,
        lid: Lid::new(9),
        ..PortInfo::default()
    });
    let mut trap = Mad::lid_smp(Method::TRAP, AttributeId::NOTICE, 0, 0x13);
    trap.set_smp_attribute(&Notice::link_state_change(Lid::new(1)));
    let mut manager = Mad::lid_smp(Method::GET_RESP, AttributeId::SM_INFO, 0, 0x14);
    manager.set_smp_attribute(&SmInfo {
        guid: wire::Guid(0x21),
        sm_key: 1,
        act_count: 3,
        priority: 15,
        state: SmState::Master,
    });
    [routes, port, trap, manager]
}

fn sa_requests() -> Vec<Mad> {
    use wire::sa::{McMemberRecord, PathRecord, SaHeader};

    let mut all = Vec::new();
    for (method, attribute) in [
        (Method::GET_TABLE, AttributeId::NODE_RECORD),
        (Method::GET_TABLE, AttributeId::PORT_INFO_RECORD),
        (Method::GET, AttributeId::PATH_RECORD),
        (Method::SET, AttributeId::MC_MEMBER_RECORD),
        (Method::SET, AttributeId::INFORM_INFO),
        (Method::GET, AttributeId::CLASS_PORT_INFO),
    ] {
        let mut mad = Mad::sa(method, attribute, 0, 0x17);
        mad.set_sa_header(&SaHeader {
            component_mask: 0x03,
            ..SaHeader::default()
        });
        match attribute {
            AttributeId::PATH_RECORD => mad.set_sa_record(&PathRecord::default()),
            AttributeId::MC_MEMBER_RECORD => mad.set_sa_record(&McMemberRecord {
                mgid: wire::Gid([0xff; 16]),
                join_state: 1,
                ..McMemberRecord::default()
            }),
            _ => {}
        }
        all.push(mad);
    }
    all
}

fn vendor_requests() -> [Mad; 3] {
    use wire::vendor::{QosConnection, WindowRequest, WindowState};

    [
        Mad::vendor(
            Method::SET,
            0,
            0x18,
            &QosConnection {
                rate_bps: 64_000_000,
                ..QosConnection::default()
            },
        ),
        Mad::vendor(
            Method::SET,
            0,
            0x19,
            &WindowRequest {
                windows: 2,
                pairs: [(Lid::new(2), Lid::new(3)); wire::vendor::PAIRS_MAX],
            },
        ),
        Mad::vendor(Method::GET, 0, 0x1a, &WindowState::default()),
    ]
}
