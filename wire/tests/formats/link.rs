//! Headers of link packets, and what carries link packets between processes.

use wire::ether::LinkEthernet;
use wire::tunnel::{CableSecret, LinkSecurity, PlainSeal, TunnelHeader};
use wire::udplink::{LinkSecret, Sequence, UdpLinkHeader};
use wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Delimiter, Deth, FlowControl, FlowOp, Format, Gid, Grh,
    Guid, Lid, LinkRate, LinkRates, LinkSpeed, LinkWidth, Lnh, Lrh, NakCode, Opcode, ParseError,
    PortNum, Psn, Qpn, RecordKind, Reth, Sl, Syndrome, Training, Vl,
};

use crate::check::{bad, golden, hex, refused};

#[test]
fn lrh() {
    let value = Lrh {
        vl: Vl::constant(0xf),
        lver: 0,
        sl: Sl::constant(0xa),
        lnh: Lnh::IbaLocal,
        dlid: Lid::new(0x1234),
        pkt_len_words: 0x7bc,
        slid: Lid::new(0xfedc),
    };
    golden(&value, "f0 a2 1234 07bc fedc");
    assert_eq!(value.packet_bytes(), 0x7bc * 4 + 2);
    assert_eq!(
        value.to_bytes::<{ Lrh::LEN }>(),
        hex("f0a2123407bcfedc")[..]
    );
}

#[test]
fn lrh_ignores_reserved_bits_and_emits_them_as_zero() {
    let (value, _) = Lrh::parse(&hex("f0 ae 1234 ffbc fedc")).unwrap();
    assert_eq!(value.pkt_len_words, 0x7bc);
    assert_eq!(
        value.to_bytes::<{ Lrh::LEN }>(),
        hex("f0a2123407bcfedc")[..]
    );
}

#[test]
fn every_link_next_header_has_its_bits() {
    for (bits, lnh) in [Lnh::Raw, Lnh::Ipv6Raw, Lnh::IbaLocal, Lnh::IbaGlobal]
        .iter()
        .enumerate()
    {
        assert_eq!(usize::from(lnh.bits()), bits);
        assert_eq!(Lnh::from_bits(lnh.bits() | 0xfc), *lnh);
    }
}

const GRH: &str = "6ab cdef1 0123 1b 40
    fe80000000000000 0002c90300a1b2c3  ff12401bffff0000 00000000deadbeef";

#[test]
fn grh() {
    let mut dgid = [0; 16];
    dgid.copy_from_slice(&hex("ff12401bffff000000000000deadbeef"));
    let value = Grh {
        tclass: 0xab,
        flow_label: 0xcdef1,
        pay_len: 0x0123,
        next_header: Grh::NEXT_HEADER,
        hop_limit: 0x40,
        sgid: Gid::new(Gid::DEFAULT_PREFIX, Guid(0x0002_c903_00a1_b2c3)),
        dgid: Gid(dgid),
    };
    golden(&value, GRH);
    assert_eq!(
        refused::<Grh>(GRH, 0, 0x4a),
        ParseError::BadVersion {
            what: "GRH",
            value: 4,
            expected: 6
        }
    );
}

#[test]
fn a_gid_is_shown_as_an_ipv6_address_and_knows_its_parts() {
    let gid = Gid::new(Gid::DEFAULT_PREFIX, Guid(0x0002_c903_00a1_b2c3));
    assert_eq!(gid.to_string(), "fe80::2:c903:a1:b2c3");
    assert_eq!(gid.prefix(), 0xfe80_0000_0000_0000);
    assert_eq!(gid.guid(), Guid(0x0002_c903_00a1_b2c3));
    assert!(!gid.is_multicast());
    assert!(Gid([0xff; 16]).is_multicast());
}

#[test]
fn bth() {
    let value = Bth {
        opcode: Opcode::UD_SEND_ONLY,
        solicited: true,
        mig_req: false,
        pad: 3,
        tver: 0,
        pkey: 0x8001,
        fecn: true,
        becn: false,
        dest_qp: Qpn::constant(0xabcdef),
        ack_req: true,
        psn: Psn::constant(0x123456),
    };
    golden(&value, "64 b0 8001 80 abcdef 80 123456");
    let value = Bth {
        opcode: Opcode::RC_ACKNOWLEDGE,
        solicited: false,
        mig_req: true,
        pad: 1,
        tver: 5,
        fecn: false,
        becn: true,
        ack_req: false,
        ..value
    };
    golden(&value, "11 55 8001 40 abcdef 00 123456");
}

#[test]
fn extended_transport_headers() {
    golden(
        &Deth {
            qkey: 0x8001_0000,
            src_qp: Qpn::constant(0x123456),
        },
        "80010000 00 123456",
    );
    golden(
        &Reth {
            va: 0x0123_4567_89ab_cdef,
            rkey: 0x1122_3344,
            dma_len: 0x5566_7788,
        },
        "0123456789abcdef 11223344 55667788",
    );
    golden(
        &Aeth {
            syndrome: 0x60,
            msn: 0xabcdef,
        },
        "60 abcdef",
    );
    golden(
        &AtomicEth {
            va: 0x0123_4567_89ab_cde8,
            rkey: 0x1122_3344,
            swap_or_add: 0x5566_7788_99aa_bbcc,
            compare: 0xddee_ff00_0102_0304,
        },
        "0123456789abcde8 11223344 5566778899aabbcc ddeeff0001020304",
    );
    golden(
        &AtomicAckEth {
            original: 0x5566_7788_99aa_bbcc,
        },
        "5566778899aabbcc",
    );
}

#[test]
fn syndromes() {
    for bits in 0..=u8::MAX {
        if let Some(syndrome) = Syndrome::from_bits(bits) {
            assert_eq!(syndrome.bits(), bits);
        }
    }
    let aeth = |syndrome| Aeth { syndrome, msn: 0 };
    let meaning = [
        (0x1f, Some(Syndrome::Ack(Syndrome::CREDITS_INVALID))),
        (0x2e, Some(Syndrome::RnrNak(14))),
        (0x40, None),
        (0x60, Some(Syndrome::Nak(NakCode::PsnSequenceError))),
        (0x61, Some(Syndrome::Nak(NakCode::InvalidRequest))),
        (0x62, Some(Syndrome::Nak(NakCode::RemoteAccessError))),
        (0x63, Some(Syndrome::Nak(NakCode::RemoteOperationalError))),
        (0x65, None),
        (0x80, None),
    ];
    for (bits, syndrome) in meaning {
        assert_eq!(aeth(bits).decoded(), syndrome);
    }
}

#[test]
fn credit_codes_are_those_of_table_47() {
    let table = [
        0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
        2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
    ];
    let computed: Vec<u32> = (0..31).filter_map(Syndrome::credits).collect();
    assert_eq!(computed, table);
    assert_eq!(Syndrome::credits(31), None);
    for (available, code) in [(0, 0), (5, 4), (6, 5), (1000, 19), (u32::MAX, 30)] {
        assert_eq!(Syndrome::credit_code(available), code);
    }
}

#[test]
fn rnr_timers_are_those_of_table_45() {
    let table_us = [
        655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920, 2560, 3840,
        5120, 7680, 10240, 15360, 20480, 30720, 40960, 61440, 81920, 122_880, 163_840, 245_760,
        327_680, 491_520,
    ];
    let computed: Vec<u64> = (0..32).map(|code| Syndrome::rnr_ns(code) / 1000).collect();
    assert_eq!(computed, table_us);
}

/// LPCRC by a bit-serial computation outside this project.
const FLOW: &str = "1abc 2def 1c0d";

#[test]
fn flow_control() {
    golden(
        &FlowControl {
            op: FlowOp::Init,
            fctbs: 0xabc,
            vl: Vl::constant(2),
            fccl: 0xdef,
        },
        FLOW,
    );
    golden(
        &FlowControl {
            op: FlowOp::Normal,
            fctbs: 0,
            vl: Vl::constant(0),
            fccl: 0,
        },
        "0000 0000 b362",
    );
}

#[test]
fn a_flow_control_packet_with_any_flipped_bit_is_refused() {
    for at in 0..FlowControl::LEN {
        for bit in 0..8 {
            let to = hex(FLOW)[at] ^ (1 << bit);
            let error = refused::<FlowControl>(FLOW, at, to);
            assert!(
                matches!(error, ParseError::BadCrc { what: "LPCRC", .. }),
                "{error}"
            );
        }
    }
}

#[test]
fn a_flow_control_packet_of_an_unknown_operation_is_refused() {
    let mut bytes = hex("2000 0000 0000");
    let crc = wire::crc::lpcrc(&bytes[..4]);
    bytes[4..].copy_from_slice(&crc.to_be_bytes());
    let error = FlowControl::parse(&bytes).unwrap_err();
    assert_eq!(
        error,
        ParseError::BadValue {
            what: "flow-control Op",
            value: 2
        }
    );
}

#[test]
fn delimiter() {
    golden(
        &Delimiter {
            kind: RecordKind::Data,
            len: 0x0122,
        },
        "01 00 0122",
    );
    golden(
        &Delimiter {
            kind: RecordKind::FlowControl,
            len: 6,
        },
        "02 00 0006",
    );
    golden(
        &Delimiter {
            kind: RecordKind::Training,
            len: 24,
        },
        "03 00 0018",
    );
    golden(
        &Delimiter {
            kind: RecordKind::LinkDown,
            len: 0,
        },
        "04 00 0000",
    );
    for kind in (0..=u8::MAX).filter(|kind| !(1..=4).contains(kind)) {
        assert_eq!(
            refused::<Delimiter>("01 00 0122", 0, kind),
            ParseError::BadValue {
                what: "record kind",
                value: u64::from(kind)
            }
        );
    }
}

/// Check sum by a bit-serial computation outside this project.
const TRAINING: &str = "01 07 0000 0002c90300a1b2c3 11223344 55667788 0000 f3d1";
/// The same with 1x, 4x and every speed up to EDR.
const TRAINING_WITH_RATES: &str = "01 07 0300 0002c90300a1b2c3 11223344 55667788 003f 2f0f";

#[test]
fn training() {
    let value = Training {
        guid: Guid(0x0002_c903_00a1_b2c3),
        port: PortNum::new(7),
        epoch: 0x1122_3344,
        heard_epoch: 0x5566_7788,
        rates: LinkRates::NONE,
    };
    golden(&value, TRAINING);
    let rates = LinkRates::up_to(LinkRate {
        width: LinkWidth::X4,
        speed: LinkSpeed::Edr,
    });
    golden(&Training { rates, ..value }, TRAINING_WITH_RATES);
    for at in 0..Training::LEN {
        let error = refused::<Training>(TRAINING, at, hex(TRAINING)[at] ^ 0x10);
        assert!(
            matches!(error, ParseError::BadCrc { .. }),
            "byte {at}: {error}"
        );
    }
}

#[test]
fn training_of_another_version_or_without_epoch_is_refused() {
    let with = |at: usize, bytes: &[u8]| {
        let mut raw = hex(TRAINING);
        raw[at..at + bytes.len()].copy_from_slice(bytes);
        let crc = wire::crc::lpcrc(&raw[..22]);
        raw[22..].copy_from_slice(&crc.to_be_bytes());
        Training::parse(&raw).unwrap_err()
    };
    assert_eq!(
        with(0, &[2]),
        ParseError::BadVersion {
            what: "training record",
            value: 2,
            expected: 1
        }
    );
    assert_eq!(
        with(12, &[0; 4]),
        ParseError::BadValue {
            what: "training epoch",
            value: 0
        }
    );
}

#[test]
fn udp_link_header() {
    let value = UdpLinkHeader {
        sequence: Sequence(0x0102_0304),
        secret: LinkSecret(0x0506_0708_090a_0b0c),
        epoch: 0x0d0e_0f10_1112_1314,
    };
    let bytes = "02 000000 01020304 05060708090a0b0c 0d0e0f1011121314";
    golden(&value, bytes);
    assert_eq!(
        refused::<UdpLinkHeader>(bytes, 0, 1),
        ParseError::BadVersion {
            what: "UDP link header",
            value: 1,
            expected: 2
        }
    );
}

#[test]
fn tunnel_header() {
    let value = TunnelHeader {
        security: LinkSecurity::Aes128Gcm,
        nak: true,
        key_id: 0x0102,
        counter: 0x0304_0506_0708_090a,
        position: 0x0b0c_0d0e_0f10_1112,
        acknowledged: 0x1314_1516_1718_191a,
        round: 0x1b,
        heard_round: 0x1c,
        first_record: 0x1d1e,
    };
    let bytes = "03 05 0102 030405060708090a 0b0c0d0e0f101112 131415161718191a 1b 1c 1d1e";
    golden(&value, bytes);
    assert_eq!(
        refused::<TunnelHeader>(bytes, 0, 2),
        ParseError::BadVersion {
            what: "tunnel header",
            value: 2,
            expected: 3
        }
    );
    for flags in [2, 8, 0x80, 0xff] {
        assert_eq!(
            refused::<TunnelHeader>(bytes, 1, flags),
            bad("protection of a tunnel", u64::from(flags))
        );
    }
}

#[test]
fn the_seal_of_a_tunnel_without_encryption() {
    let value = PlainSeal {
        secret: LinkSecret(0x0102_0304_0506_0708),
        epoch: 0x090a_0b0c_0d0e_0f10,
    };
    golden(&value, "0102030405060708 090a0b0c0d0e0f10");
}

#[test]
fn a_secret_of_a_cable_is_never_printed() {
    assert_eq!(format!("{:?}", CableSecret([7; 32])), "CableSecret(..)");
}

#[test]
fn steps_between_sequence_numbers_cross_the_wrap() {
    let at = Sequence;
    assert_eq!(at(0xffff_ffff).next(), at(0));
    assert_eq!(at(2).steps_from(at(0xffff_fffe)), 4);
    assert_eq!(at(5).steps_from(at(5)), 0);
    assert_eq!(at(0).steps_from(at(1)), 0xffff_ffff);
}

#[test]
fn ethernet() {
    let value = LinkEthernet {
        destination: LinkEthernet::BROADCAST,
        source: [2, 0, 0, 0, 0, 9],
    };
    golden(&value, "ffffffffffff 020000000009 88b5");
    assert_eq!(
        refused::<LinkEthernet>("ffffffffffff 020000000009 88b5", 13, 0xb6),
        ParseError::BadValue {
            what: "EtherType",
            value: 0x88b6
        }
    );
}
