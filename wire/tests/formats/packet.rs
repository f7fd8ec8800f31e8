//! Whole link packets.

use proptest::prelude::*;
use wire::packet::MAD_PACKET_LEN;
use wire::{
    AttributeId, DataPacket, EmitError, Gid, GlobalRoute, Lid, Lrh, Mad, Method, ParseError, Psn,
    Qpn, Sl, UdPacket, Vl, crc,
};

use crate::check::hex;

fn smallest() -> UdPacket<'static> {
    UdPacket {
        vl: Vl::constant(1),
        sl: Sl::constant(2),
        dlid: Lid::new(0x0304),
        slid: Lid::new(0x0506),
        global: None,
        solicited: true,
        pkey: 0xffff,
        dest_qp: Qpn::constant(0x070809),
        psn: Psn::constant(0x0a0b0c),
        qkey: 0x0d0e_0f10,
        src_qp: Qpn::constant(0x111213),
        immediate: None,
        payload: &[0x14, 0x15, 0x16, 0x17, 0x18],
    }
}

fn emitted(packet: &UdPacket<'_>) -> Vec<u8> {
    let mut out = vec![0xa5; packet.len() + 4];
    assert_eq!(packet.emit(&mut out).unwrap(), packet.len());
    assert_eq!(
        out.split_off(packet.len()),
        [0xa5; 4],
        "bytes behind it are not touched"
    );
    out
}

#[test]
fn a_datagram_is_laid_out_as_the_specification_says() {
    let bytes = emitted(&smallest());
    let expected = hex(
        "10 22 0304 000a 0506  64 f0 ffff 00 070809 00 0a0b0c  0d0e0f10 00 111213
         1415161718 000000",
    );
    assert_eq!(bytes[..expected.len()], expected);
    assert_eq!(bytes.len(), expected.len() + 6);
    let packet = DataPacket::parse(&bytes).unwrap();
    packet.check_icrc().unwrap();
    packet.check_vcrc().unwrap();
    assert_eq!(UdPacket::parse(&packet).unwrap(), smallest());
}

#[test]
fn global_route_and_immediate_data_stand_where_they_belong() {
    let global = GlobalRoute {
        tclass: 0x21,
        flow_label: 0x32546,
        hop_limit: 0x40,
        sgid: Gid([0x51; 16]),
        dgid: Gid([0x61; 16]),
    };
    let ud = UdPacket {
        global: Some(global),
        immediate: Some(0x7172_7374),
        payload: &[0x81; 4],
        ..smallest()
    };
    let bytes = emitted(&ud);
    let expected = hex("10 23 0304 0014 0506  6 21 32546 0020 1b 40
         51515151515151515151515151515151 61616161616161616161616161616161
         65 c0 ffff 00 070809 00 0a0b0c  0d0e0f10 00 111213  71727374  81818181");
    assert_eq!(bytes[..bytes.len() - 10], expected[..expected.len() - 4]);
    assert_eq!(bytes[..expected.len()], expected);
    let packet = DataPacket::parse(&bytes).unwrap();
    packet.check_icrc().unwrap();
    packet.check_vcrc().unwrap();
    assert_eq!(UdPacket::parse(&packet).unwrap(), ud);
}

#[test]
fn a_management_datagram_takes_290_bytes_on_the_link() {
    let mad = Mad::lid_smp(Method::GET, AttributeId::NODE_INFO, 0, 7);
    let smp = UdPacket::smp(Lid::new(1), Lid::new(2), &mad);
    assert_eq!((smp.len(), MAD_PACKET_LEN), (290, 290));
    let bytes = emitted(&smp);
    let packet = DataPacket::parse(&bytes).unwrap();
    assert_eq!(packet.lrh().vl, Vl::MANAGEMENT);
    let back = UdPacket::parse(&packet).unwrap();
    assert_eq!(
        (back.dest_qp, back.src_qp, back.qkey),
        (Qpn::SMI, Qpn::SMI, 0)
    );
    assert_eq!(back.mad().unwrap(), mad);

    let gmp = UdPacket::gmp(smp.slid, smp.dlid, Sl::constant(3), Vl::constant(1), &mad);
    let bytes = emitted(&gmp);
    let back = UdPacket::parse(&DataPacket::parse(&bytes).unwrap()).unwrap();
    assert_eq!(
        (back.dest_qp, back.src_qp, back.qkey),
        (Qpn::GSI, Qpn::GSI, 0x8001_0000)
    );
    assert_eq!((back.sl, back.vl), (Sl::constant(3), Vl::constant(1)));
}

#[test]
fn a_payload_that_is_no_management_datagram_is_refused_as_one() {
    let error = smallest().mad().unwrap_err();
    assert_eq!(
        error,
        ParseError::LengthMismatch {
            what: "MAD",
            stated: 256,
            actual: 5
        }
    );
}

#[test]
fn every_truncated_packet_is_refused() {
    let bytes = emitted(&smallest());
    for len in 0..bytes.len() {
        let error = DataPacket::parse(&bytes[..len]).unwrap_err();
        if len < Lrh::LEN {
            assert_eq!(
                error,
                ParseError::Truncated {
                    what: "LRH",
                    need: 8,
                    have: len
                }
            );
        } else {
            let (stated, what) = (bytes.len(), "LRH:PktLen");
            assert_eq!(
                error,
                ParseError::LengthMismatch {
                    what,
                    stated,
                    actual: len
                }
            );
        }
    }
}

#[test]
fn a_packet_of_consistent_length_but_too_short_for_its_headers_is_refused() {
    let mut bytes = emitted(&UdPacket {
        immediate: Some(1),
        payload: &[],
        ..smallest()
    });
    for words in (0..u16::try_from(bytes.len() / 4).unwrap()).rev() {
        bytes[4..6].copy_from_slice(&words.to_be_bytes());
        bytes.truncate(usize::from(words) * 4 + 2);
        let parsed = DataPacket::parse(&bytes).and_then(|packet| UdPacket::parse(&packet));
        let error = parsed.unwrap_err();
        match words {
            0..2 => assert!(matches!(error, ParseError::Truncated { what: "LRH", .. })),
            2..5 => assert_eq!(
                error,
                ParseError::BadValue {
                    what: "LRH:PktLen",
                    value: u64::from(words)
                }
            ),
            _ => assert!(
                matches!(error, ParseError::Truncated { .. }),
                "{words}: {error}"
            ),
        }
    }
}

#[test]
fn what_headers_say_wrongly_is_refused_by_name() {
    let global = GlobalRoute {
        tclass: 0,
        flow_label: 0,
        hop_limit: 0,
        sgid: Gid::default(),
        dgid: Gid::default(),
    };
    let local = emitted(&smallest());
    let routed = emitted(&UdPacket {
        global: Some(global),
        ..smallest()
    });
    let refused = |bytes: &[u8], at: usize, to: u8| {
        let mut bytes = bytes.to_vec();
        bytes[at] = to;
        DataPacket::parse(&bytes)
            .and_then(|packet| UdPacket::parse(&packet))
            .unwrap_err()
    };
    let version = |what, value, expected| ParseError::BadVersion {
        what,
        value,
        expected,
    };
    let value = |what, value| ParseError::BadValue { what, value };
    assert_eq!(refused(&local, 0, 0x11), version("LRH", 1, 0));
    assert_eq!(
        refused(&local, 1, 0x20),
        value("LRH:LNH of an IBA packet", 0)
    );
    assert_eq!(refused(&local, 9, 0x01), version("BTH", 1, 0));
    assert_eq!(
        refused(&local, 8, 0x04),
        value("BTH:OpCode of an unreliable datagram", 4)
    );
    assert_eq!(refused(&routed, 8, 0x40), version("GRH", 4, 6));
    assert_eq!(refused(&routed, 14, 0x11), value("GRH:NxtHdr", 0x11));
    let mismatch = ParseError::LengthMismatch {
        what: "GRH:PayLen",
        stated: 33,
        actual: 32,
    };
    assert_eq!(refused(&routed, 13, 33), mismatch);

    let empty = emitted(&UdPacket {
        payload: &[],
        ..smallest()
    });
    let mismatch = ParseError::LengthMismatch {
        what: "BTH:PadCnt",
        stated: 1,
        actual: 0,
    };
    assert_eq!(refused(&empty, 9, 0x10), mismatch);
}

#[test]
fn a_flipped_bit_is_found_by_the_vcrc_and_only_by_the_icrc_where_that_covers_it() {
    let bytes = emitted(&smallest());
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            let Ok(packet) = DataPacket::parse(&damaged) else {
                continue;
            };
            assert!(matches!(
                packet.check_vcrc(),
                Err(ParseError::BadCrc { what: "VCRC", .. })
            ));
            let invariant = !(at == 0 || at == 12 || at >= bytes.len() - 2);
            // A packet that claims to be raw has no ICRC.
            let raw = at == 1 && bit == 1;
            assert_eq!(
                packet.check_icrc().is_err(),
                invariant && !raw,
                "byte {at} bit {bit}"
            );
        }
    }
}

#[test]
fn a_lane_changed_in_place_leaves_a_packet_that_checks() {
    let mut bytes = emitted(&smallest());
    let packet = DataPacket::parse(&bytes).unwrap();
    let (words, to) = (packet.lrh().pkt_len_words, Vl::constant(14));
    let vcrc = crc::vcrc_update_vl(packet.vcrc(), words, packet.lrh().vl, to);
    let vcrc_at = bytes.len() - 2;
    bytes[0] = to.get() << 4;
    bytes[vcrc_at..].copy_from_slice(&vcrc.to_be_bytes());
    let packet = DataPacket::parse(&bytes).unwrap();
    packet.check_vcrc().unwrap();
    packet.check_icrc().unwrap();
}

#[test]
fn a_packet_without_room_or_too_long_for_pktlen_is_not_written() {
    let packet = smallest();
    let mut out = vec![0; packet.len()];
    let need = out.len();
    for have in 0..need {
        let error = packet.emit(&mut out[..have]).unwrap_err();
        assert_eq!(
            error,
            EmitError::NoRoom {
                what: "UD packet",
                need,
                have
            }
        );
    }
    let payload = vec![0; 0x7ff * 4 - 32 + 1];
    let too_long = UdPacket {
        payload: &payload,
        ..smallest()
    };
    let mut out = vec![0; 70_000];
    let error = too_long.emit(&mut out).unwrap_err();
    assert_eq!(
        error,
        EmitError::TooLong {
            what: "UD packet",
            len: 8194,
            max: 8190
        }
    );
    let longest = UdPacket {
        payload: &payload[..payload.len() - 1],
        ..smallest()
    };
    assert_eq!(longest.emit(&mut out).unwrap(), 8190);
    DataPacket::parse(&out[..8190])
        .unwrap()
        .check_vcrc()
        .unwrap();
}

prop_compose! {
    fn any_global()(
        tclass: u8,
        flow_label in 0u32..0x0010_0000,
        hop_limit: u8,
        sgid: [u8; 16],
        dgid: [u8; 16],
    ) -> GlobalRoute {
        GlobalRoute { tclass, flow_label, hop_limit, sgid: Gid(sgid), dgid: Gid(dgid) }
    }
}

proptest! {
    #[test]
    fn parse_inverts_emit(
        vl_sl: (u8, u8),
        lids: (u16, u16),
        global in proptest::option::of(any_global()),
        solicited: bool,
        pkey: u16,
        numbers: (u32, u32, u32),
        qkey: u32,
        immediate: Option<u32>,
        payload in proptest::collection::vec(any::<u8>(), 0..4097),
    ) {
        let ud = UdPacket {
            vl: Vl::truncate(vl_sl.0),
            sl: Sl::truncate(vl_sl.1),
            dlid: Lid::new(lids.0),
            slid: Lid::new(lids.1),
            global,
            solicited,
            pkey,
            dest_qp: Qpn::truncate(numbers.0),
            psn: Psn::truncate(numbers.1),
            qkey,
            src_qp: Qpn::truncate(numbers.2),
            immediate,
            payload: &payload,
        };
        let bytes = emitted(&ud);
        let packet = DataPacket::parse(&bytes).unwrap();
        prop_assert_eq!(packet.lrh().packet_bytes(), bytes.len());
        prop_assert!(packet.check_vcrc().is_ok());
        prop_assert!(packet.check_icrc().is_ok());
        prop_assert_eq!(UdPacket::parse(&packet).unwrap(), ud);
    }

    #[test]
    fn no_bytes_make_a_parser_panic(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..400),
        fit_length: bool,
    ) {
        if fit_length && bytes.len() >= 8 {
            // Past the first checks: a length that agrees and a version that is known.
            let words = u16::try_from(bytes.len().saturating_sub(2) / 4).unwrap();
            bytes.truncate(usize::from(words) * 4 + 2);
            bytes[0] &= 0xf0;
            bytes[4..6].copy_from_slice(&words.to_be_bytes());
        }
        if let Ok(packet) = DataPacket::parse(&bytes) {
            let _ = packet.check_vcrc();
            let _ = packet.check_icrc();
            let _ = packet.transport();
            let _ = UdPacket::parse(&packet).map(|ud| ud.mad());
        }
        let records = wire::Records::new(&bytes).count();
        prop_assert!(records <= bytes.len() / 4 + 1, "every step takes a delimiter");
    }
}
