//! `parse` inverts `emit` for every format, and no bytes make a parser panic.
//!
//! Values are drawn by parsing random bytes: every value that a format has is reached, and only
//! those. Formats that refuse most bytes (a check sum, a version, an enumeration) have those bytes
//! put right first.

use std::fmt::Debug;

use proptest::prelude::*;
use wire::{Format, ParseError, crc};

/// Emitting what was parsed and parsing that again gives the same value, and the same bytes from
/// then on; whatever stands in the buffer before.
fn parse_inverts_emit<F: Format + Debug + PartialEq>(bytes: &[u8]) -> Result<(), TestCaseError> {
    let (value, rest) = match F::parse(bytes) {
        Ok(parsed) => parsed,
        Err(error) => return Err(TestCaseError::fail(format!("{}: {error}", F::NAME))),
    };
    prop_assert!(rest.is_empty());
    let mut first = vec![0xa5; F::LEN];
    value.emit(&mut first);
    let (again, _) = F::parse(&first).unwrap();
    prop_assert_eq!(&again, &value);
    let mut second = vec![0x5a; F::LEN];
    again.emit(&mut second);
    prop_assert_eq!(first, second);
    Ok(())
}

/// One property a format: its name, its type, and what puts random bytes right.
macro_rules! round_trips {
    ($($name:ident: $format:ty, $repair:expr;)*) => {
        mod parse_inverts_emit {
            use super::*;
            proptest! {
                $(#[test]
                fn $name(mut bytes in proptest::collection::vec(any::<u8>(), <$format>::LEN)) {
                    let repair: fn(&mut [u8]) = $repair;
                    repair(&mut bytes);
                    super::parse_inverts_emit::<$format>(&bytes)?;
                })*
            }
        }
        mod any_bytes {
            use super::*;
            proptest! {
                $(#[test]
                fn $name(bytes in proptest::collection::vec(any::<u8>(), 0..<$format>::LEN + 9)) {
                    let parsed = <$format>::parse(&bytes);
                    if bytes.len() < <$format>::LEN {
                        let truncated = matches!(parsed, Err(ParseError::Truncated { .. }));
                        prop_assert!(truncated, "{:?}", parsed);
                    }
                })*
            }
        }
    };
}

fn nothing(_: &mut [u8]) {}

/// Keeps `byte`'s upper nibble at most `high` and its lower nibble at most `low`.
fn at_most(byte: &mut u8, high: u8, low: u8) {
    *byte = (((*byte >> 4) % (high + 1)) << 4) | ((*byte & 0x0f) % (low + 1));
}

fn port_info(raw: &mut [u8]) {
    at_most(&mut raw[32], 15, 4);
    at_most(&mut raw[33], 7, 15);
    at_most(&mut raw[36], 5, 15);
    at_most(&mut raw[37], 5, 15);
    at_most(&mut raw[41], 15, 5);
    at_most(&mut raw[43], 5, 15);
}

fn node_type(byte: &mut u8) {
    *byte = *byte % 3 + 1;
}

/// Puts the check sum behind the bytes that it covers.
fn lpcrc(raw: &mut [u8]) {
    let at = raw.len() - 2;
    let crc = crc::lpcrc(&raw[..at]);
    raw[at..].copy_from_slice(&crc.to_be_bytes());
}

round_trips! {
    lrh: wire::Lrh, nothing;
    grh: wire::Grh, |raw| raw[0] = 0x60 | (raw[0] & 0x0f);
    bth: wire::Bth, nothing;
    deth: wire::Deth, nothing;
    reth: wire::Reth, nothing;
    aeth: wire::Aeth, nothing;
    atomic_eth: wire::AtomicEth, nothing;
    atomic_ack_eth: wire::AtomicAckEth, nothing;
    flow_control: wire::FlowControl, |raw| {
        at_most(&mut raw[0], 1, 15);
        lpcrc(raw);
    };
    delimiter: wire::Delimiter, |raw| raw[0] = raw[0] % 4 + 1;
    training: wire::Training, |raw| {
        raw[0] = 1;
        raw[15] |= 1;
        // Reserved bytes are part of the sum and are emitted as zero.
        raw[2..4].fill(0);
        raw[20..22].fill(0);
        lpcrc(raw);
    };
    udp_link: wire::udplink::UdpLinkHeader, |raw| raw[0] = 2;
    tunnel: wire::tunnel::TunnelHeader, |raw| {
        raw[0] = 3;
        raw[1] &= 5;
    };
    tunnel_plain_seal: wire::tunnel::PlainSeal, nothing;
    ethernet: wire::ether::LinkEthernet, |raw| raw[12..].copy_from_slice(&[0x88, 0xb5]);
    mad_header: wire::MadHeader, nothing;
    node_info: wire::attr::NodeInfo, |raw| node_type(&mut raw[2]);
    node_description: wire::attr::NodeDescription, nothing;
    switch_info: wire::attr::SwitchInfo, nothing;
    guid_info: wire::attr::GuidInfo, nothing;
    port_info_attribute: wire::attr::PortInfo, port_info;
    pkey_table: wire::attr::PKeyTable, nothing;
    sl_to_vl_table: wire::attr::SlToVlTable, nothing;
    vl_arb_table: wire::attr::VlArbTable, nothing;
    linear_forwarding_table: wire::attr::LinearForwardingTable, nothing;
    multicast_forwarding_table: wire::attr::MulticastForwardingTable, nothing;
    sm_info: wire::attr::SmInfo, |raw| at_most(&mut raw[20], 15, 3);
    notice: wire::attr::Notice, nothing;
    trap_lid: wire::attr::TrapLid, nothing;
    trap_gid: wire::attr::TrapGid, nothing;
    trap_port: wire::attr::TrapPort, nothing;
    trap_144: wire::attr::Trap144, nothing;
    trap_145: wire::attr::Trap145, nothing;
    trap_256: wire::attr::Trap256, nothing;
    trap_257: wire::attr::Trap257, nothing;
    trap_259: wire::attr::Trap259, nothing;
    class_port_info: wire::pma::ClassPortInfo, nothing;
    port_counters: wire::pma::PortCounters, nothing;
    port_counters_extended: wire::pma::PortCountersExtended, nothing;
    port_rcv_error_details: wire::pma::PortRcvErrorDetails, nothing;
    port_xmit_discard_details: wire::pma::PortXmitDiscardDetails, nothing;
    rmpp: wire::sa::Rmpp, |raw| raw[1] %= 5;
    sa_header: wire::sa::SaHeader, |raw| raw[1] %= 5;
    path_record: wire::sa::PathRecord, nothing;
    mc_member_record: wire::sa::McMemberRecord, nothing;
    node_record: wire::sa::NodeRecord, |raw| node_type(&mut raw[6]);
    port_info_record: wire::sa::PortInfoRecord, |raw| port_info(&mut raw[4..]);
    link_record: wire::sa::LinkRecord, nothing;
    lft_record: wire::sa::LftRecord, nothing;
    pkey_table_record: wire::sa::PKeyTableRecord, nothing;
    mft_record: wire::sa::MftRecord, nothing;
    switch_info_record: wire::sa::SwitchInfoRecord, nothing;
    sm_info_record: wire::sa::SmInfoRecord, |bytes| bytes[24] &= 0xf3;
    inform_info: wire::sa::InformInfo, nothing;
    qos_connection: wire::vendor::QosConnection, |raw| {
        raw[4] %= 2;
        raw[7] %= 11;
    };
    qos_change: wire::vendor::QosChange, |raw| {
        raw[4] %= 2;
        raw[7] %= 11;
    };
    window_request: wire::vendor::WindowRequest, nothing;
    window_state: wire::vendor::WindowState, nothing;
    window_grant: wire::vendor::WindowGrant, nothing;
    cm_req: wire::cm::Req, nothing;
    cm_mra: wire::cm::Mra, |raw| raw[8] &= 0x80;
    cm_rej: wire::cm::Rej, |raw| raw[8] &= 0x80;
    cm_rep: wire::cm::Rep, nothing;
    cm_rtu: wire::cm::Rtu, nothing;
    cm_dreq: wire::cm::Dreq, nothing;
    cm_drep: wire::cm::Drep, nothing;
    cm_lap: wire::cm::Lap, nothing;
    cm_apr: wire::cm::Apr, nothing;
    cm_sidr_req: wire::cm::SidrReq, nothing;
    cm_sidr_rep: wire::cm::SidrRep, nothing;
    ip_cm_header: wire::cm::IpCmHeader, |raw| {
        raw[0] &= 0x0f;
        raw[1] = 0x40 | (raw[1] & 0x20);
    };
    umad2sim_control: wire::umad2sim::ControlDatagram, |raw| {
        raw[..4].copy_from_slice(&[0xef, 0xbe, 0xad, 0xde]);
    };
    umad2sim_connect: wire::umad2sim::Connect, nothing;
    umad2sim_vendor: wire::umad2sim::Vendor, nothing;
    umad2sim_data: wire::umad2sim::DataDatagram, |raw| {
        raw[8] = 0;
        raw[12] = 0;
    };
}
