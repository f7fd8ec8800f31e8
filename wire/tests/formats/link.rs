//! Headers of link packets, and what carries link packets between processes.

use wire::ether::LinkEthernet;
use wire::udplink::{LinkSecret, Sequence, UdpLinkHeader};
use wire::{
    Aeth, Bth, Delimiter, Deth, FlowControl, FlowOp, Format, Gid, Grh, Guid, Lid, Lnh, Lrh, Opcode,
    ParseError, PortNum, Psn, Qpn, RecordKind, Reth, Sl, Training, Vl,
};

use crate::check::{golden, hex, refused};

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

#[test]
fn training() {
    let value = Training {
        guid: Guid(0x0002_c903_00a1_b2c3),
        port: PortNum::new(7),
        epoch: 0x1122_3344,
        heard_epoch: 0x5566_7788,
    };
    golden(&value, TRAINING);
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
fn a_sequence_number_is_later_across_the_wrap_and_never_both_ways() {
    let at = Sequence;
    assert!(at(1).is_after(at(0)));
    assert!(at(0).is_after(at(0xffff_ffff)));
    assert!(!at(0xffff_ffff).is_after(at(0)));
    assert!(!at(5).is_after(at(5)));
    assert!(at(0x7fff_ffff).is_after(at(0)));
    assert!(
        !at(0x8000_0000).is_after(at(0)),
        "half way round counts as old, either way"
    );
    assert!(!at(0).is_after(at(0x8000_0000)));
    assert_eq!(at(0xffff_ffff).next(), at(0));
    assert_eq!(at(2).steps_from(at(0xffff_fffe)), 4);
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
