//! Packets, records and every format of fixed length.

use core::fmt::Debug;

use wire::attr::{
    GuidInfo, LinearForwardingTable, MulticastForwardingTable, NodeDescription, NodeInfo, Notice,
    PKeyTable, PortInfo, SlToVlTable, SmInfo, SwitchInfo, Trap144, Trap256, Trap257, Trap259,
    TrapGid, TrapLid, VlArbTable,
};
use wire::ether::LinkEthernet;
use wire::pma::{
    ClassPortInfo, PortCounters, PortCountersExtended, PortRcvErrorDetails, PortXmitDiscardDetails,
};
use wire::sa::{
    InformInfo, LftRecord, LinkRecord, McMemberRecord, MftRecord, NodeRecord, PKeyTableRecord,
    PathRecord, PortInfoRecord, Rmpp, SaHeader, SmInfoRecord, SwitchInfoRecord,
};
use wire::tunnel::{PlainSeal, TunnelHeader};
use wire::udplink::UdpLinkHeader;
use wire::umad::UserMadHeader;
use wire::umad2sim::{Connect, ControlDatagram, DataDatagram, Vendor};
use wire::vendor::{QosChange, QosConnection, WindowGrant, WindowRequest, WindowState};
use wire::{
    Aeth, Bth, DataPacket, Delimiter, Deth, FlowControl, Format, Grh, Lrh, MadHeader, Records,
    Reth, TrafficKind, Training, UdPacket,
};

/// Whatever the bytes, a link packet parses or is refused; what parses can be looked into. The same
/// with a length and check sums that are right, so that what is behind them is reached.
///
/// # Panics
/// If check sums that were just computed are wrong, or a datagram that was read is another one when
/// it is written and read again.
pub(crate) fn packet(bytes: &[u8]) {
    look_into(bytes);
    let mut sealed = bytes.to_vec();
    if seal(&mut sealed) {
        look_into(&sealed);
        let packet = DataPacket::parse(&sealed);
        assert!(packet.is_err() || packet.is_ok_and(|packet| packet.check_vcrc().is_ok()));
    }
}

fn look_into(bytes: &[u8]) {
    let _ = TrafficKind::of_packet(bytes);
    let Ok(packet) = DataPacket::parse(bytes) else {
        return;
    };
    let _ = (packet.check_vcrc(), packet.check_icrc(), packet.transport());
    let Ok(datagram) = UdPacket::parse(&packet) else {
        return;
    };
    let _ = (datagram.mad(), TrafficKind::of_datagram(&datagram));
    let mut again = vec![0xa5; datagram.len()];
    datagram.emit(&mut again).expect("it came in a packet");
    let packet = DataPacket::parse(&again).expect("a packet that was written");
    assert!(packet.check_icrc().is_ok() && packet.check_vcrc().is_ok());
    assert_eq!(UdPacket::parse(&packet), Ok(datagram));
}

/// Gives `packet` the length that it has, and check sums that are right. `false` if it is too short
/// or too long for that.
pub(crate) fn seal(packet: &mut Vec<u8>) -> bool {
    const LEAST: usize = Lrh::LEN + Bth::LEN + 4 + 2;
    let body = packet.len().saturating_sub(2) / 4 * 4;
    packet.truncate(body + 2);
    let Ok(words) = u16::try_from(body / 4) else {
        return false;
    };
    if packet.len() < LEAST || words > 0x07ff {
        return false;
    }
    let [high, low] = words.to_be_bytes();
    packet[4] = packet[4] & 0xf8 | high;
    packet[5] = low;
    let icrc = wire::crc::icrc(&packet[..body - 4]).to_be_bytes();
    packet[body - 4..body].copy_from_slice(&icrc);
    let vcrc = wire::crc::vcrc(&packet[..body]).to_be_bytes();
    packet[body..].copy_from_slice(&vcrc);
    true
}

/// The records of a frame never reach past it.
///
/// # Panics
/// If they do.
pub(crate) fn records(bytes: &[u8]) {
    let records = Records::new(bytes).flatten();
    let total: usize = records
        .map(|record| record.bytes.len() + Delimiter::LEN)
        .sum();
    assert!(total <= bytes.len());
}

/// A format's name, its length, and the check of [`inverse`].
pub(crate) struct FormatCheck {
    pub(crate) name: &'static str,
    pub(crate) len: usize,
    check: fn(&[u8]),
}

const fn of<F: Format + Debug + PartialEq>() -> FormatCheck {
    FormatCheck {
        name: F::NAME,
        len: F::LEN,
        check: inverse::<F>,
    }
}

/// Bytes are refused, or are a value that is the same after it was written and read again.
fn inverse<F: Format + Debug + PartialEq>(bytes: &[u8]) {
    let Ok((value, rest)) = F::parse(bytes) else {
        return;
    };
    assert_eq!(rest.len(), bytes.len() - F::LEN, "{}", F::NAME);
    let mut again = vec![0xa5; F::LEN];
    value.emit(&mut again);
    match F::parse(&again) {
        Ok((other, _)) => assert_eq!(other, value, "{}", F::NAME),
        Err(error) => panic!("{}: {error}", F::NAME),
    }
}

/// Every format of fixed length of the crate `wire`.
pub(crate) const FORMATS: &[FormatCheck] = &[
    of::<Lrh>(),
    of::<Grh>(),
    of::<Bth>(),
    of::<Deth>(),
    of::<Reth>(),
    of::<Aeth>(),
    of::<FlowControl>(),
    of::<Training>(),
    of::<Delimiter>(),
    of::<UdpLinkHeader>(),
    of::<TunnelHeader>(),
    of::<PlainSeal>(),
    of::<LinkEthernet>(),
    of::<MadHeader>(),
    of::<NodeInfo>(),
    of::<NodeDescription>(),
    of::<SwitchInfo>(),
    of::<PortInfo>(),
    of::<GuidInfo>(),
    of::<PKeyTable>(),
    of::<SlToVlTable>(),
    of::<VlArbTable>(),
    of::<LinearForwardingTable>(),
    of::<MulticastForwardingTable>(),
    of::<SmInfo>(),
    of::<Notice>(),
    of::<TrapLid>(),
    of::<TrapGid>(),
    of::<Trap144>(),
    of::<Trap256>(),
    of::<Trap257>(),
    of::<Trap259>(),
    of::<Rmpp>(),
    of::<SaHeader>(),
    of::<NodeRecord>(),
    of::<PortInfoRecord>(),
    of::<LinkRecord>(),
    of::<PathRecord>(),
    of::<McMemberRecord>(),
    of::<InformInfo>(),
    of::<LftRecord>(),
    of::<MftRecord>(),
    of::<PKeyTableRecord>(),
    of::<SwitchInfoRecord>(),
    of::<SmInfoRecord>(),
    of::<ClassPortInfo>(),
    of::<PortCounters>(),
    of::<PortCountersExtended>(),
    of::<PortRcvErrorDetails>(),
    of::<PortXmitDiscardDetails>(),
    of::<QosConnection>(),
    of::<QosChange>(),
    of::<WindowRequest>(),
    of::<WindowState>(),
    of::<WindowGrant>(),
    of::<ControlDatagram>(),
    of::<Connect>(),
    of::<Vendor>(),
    of::<DataDatagram>(),
    of::<UserMadHeader>(),
];

/// The first byte says which format the others are read as.
pub(crate) fn formats(bytes: &[u8]) {
    if let Some((&which, bytes)) = bytes.split_first() {
        (FORMATS[usize::from(which) % FORMATS.len()].check)(bytes);
    }
}
