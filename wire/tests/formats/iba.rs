//! Packets of every transport service.

use std::convert::Infallible;

use proptest::prelude::*;
use wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, DataPacket, Deth, EmitError, ExtendedHeaders, Gid,
    GlobalRoute, IbaPacket, Lid, Opcode, ParseError, Psn, Qpn, Reth, Sl, UdPacket, Vl,
};

use crate::check::hex;

/// Every extended header that the opcode has, with a value of its own.
fn extended(opcode: Opcode) -> ExtendedHeaders {
    use wire::iba::Extension as E;
    let has = |wanted: E| opcode.extensions().unwrap().contains(&wanted);
    ExtendedHeaders {
        deth: has(E::Deth).then_some(Deth {
            qkey: 0x1112_1314,
            src_qp: Qpn::constant(0x151617),
        }),
        reth: has(E::Reth).then_some(Reth {
            va: 0x2122_2324_2526_2728,
            rkey: 0x292a_2b2c,
            dma_len: 0x2d2e_2f30,
        }),
        atomic: has(E::Atomic).then_some(AtomicEth {
            va: 0x3132_3334_3536_3738,
            rkey: 0x393a_3b3c,
            swap_or_add: 0x4142_4344_4546_4748,
            compare: 0x5152_5354_5556_5758,
        }),
        aeth: has(E::Aeth).then_some(Aeth {
            syndrome: 0x1f,
            msn: 0x616263,
        }),
        atomic_ack: has(E::AtomicAck).then_some(AtomicAckEth {
            original: 0x7172_7374_7576_7778,
        }),
        immediate: has(E::Immediate).then_some(0x8182_8384),
        invalidate: has(E::Invalidate).then_some(0x9192_9394),
    }
}

fn packet(opcode: Opcode, global: Option<GlobalRoute>) -> IbaPacket {
    IbaPacket {
        vl: Vl::constant(1),
        sl: Sl::constant(2),
        dlid: Lid::new(0x0304),
        slid: Lid::new(0x0506),
        global,
        bth: Bth {
            opcode,
            solicited: false,
            mig_req: true,
            pad: 0,
            tver: Bth::VERSION,
            pkey: 0xffff,
            fecn: false,
            becn: false,
            dest_qp: Qpn::constant(0x070809),
            ack_req: true,
            psn: Psn::constant(0x0a0b0c),
        },
        extended: extended(opcode),
    }
}

fn emitted(packet: &IbaPacket, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0xa5; packet.len(payload.len())];
    let written = packet.emit_with(payload.len(), &mut out, |raw| {
        raw.copy_from_slice(payload);
        Ok::<(), Infallible>(())
    });
    assert_eq!(written, Ok(Ok(out.len())));
    out
}

fn opcodes() -> impl Iterator<Item = Opcode> {
    (0..=u8::MAX)
        .map(Opcode)
        .filter(|opcode| opcode.parts().is_some())
}

const GLOBAL: GlobalRoute = GlobalRoute {
    tclass: 0x21,
    flow_label: 0x32546,
    hop_limit: 0x40,
    sgid: Gid([0x51; 16]),
    dgid: Gid([0x61; 16]),
};

#[test]
fn a_packet_of_each_opcode_parses_to_what_was_emitted_with_and_without_global_route() {
    for opcode in opcodes() {
        for global in [None, Some(GLOBAL)] {
            for len in 0..9 {
                let payload = vec![0x99; len];
                let sent = packet(opcode, global);
                let bytes = emitted(&sent, &payload);
                let whole = DataPacket::parse(&bytes).unwrap();
                whole.check_icrc().unwrap();
                whole.check_vcrc().unwrap();
                let (mut read, content) = IbaPacket::parse(&whole).unwrap();
                assert_eq!(usize::from(read.bth.pad), (4 - len % 4) % 4);
                read.bth.pad = 0;
                assert_eq!((read, content), (sent, &payload[..]), "{opcode:?}");
            }
        }
    }
}

#[test]
fn headers_stand_where_the_opcode_has_them() {
    let write = packet(Opcode(0x0b), None);
    let expected = hex("10 22 0304 000c 0506  0b 70 ffff 00 070809 80 0a0b0c
         2122232425262728 292a2b2c 2d2e2f30  81828384  a1000000");
    assert_eq!(emitted(&write, &[0xa1])[..expected.len()], expected);
    let swap = packet(Opcode(0x13), None);
    let expected = hex("10 22 0304 000d 0506  13 40 ffff 00 070809 80 0a0b0c
         3132333435363738 393a3b3c 4142434445464748 5152535455565758");
    assert_eq!(emitted(&swap, &[])[..expected.len()], expected);
    let answer = packet(Opcode(0x12), None);
    let expected = hex("10 22 0304 0009 0506  12 40 ffff 00 070809 80 0a0b0c
         1f 616263 7172737475767778");
    assert_eq!(emitted(&answer, &[])[..expected.len()], expected);
}

#[test]
fn a_datagram_is_the_same_by_either_way() {
    let mut sent = packet(Opcode::UD_SEND_ONLY_IMM, Some(GLOBAL));
    sent.bth.ack_req = false;
    let bytes = emitted(&sent, b"seven b");
    let datagram = UdPacket::parse(&DataPacket::parse(&bytes).unwrap()).unwrap();
    let mut again = vec![0; datagram.len()];
    datagram.emit(&mut again).unwrap();
    assert_eq!(bytes, again);
}

#[test]
fn what_does_not_fit_is_refused() {
    let sent = packet(Opcode(0x04), None);
    let fill = |_: &mut [u8]| Ok::<(), Infallible>(());
    let short = sent.emit_with(8, &mut [0; 33], fill).unwrap_err();
    let (need, have, what) = (34, 33, "IBA packet");
    assert_eq!(short, EmitError::NoRoom { what, need, have });
    let long = sent.emit_with(9000, &mut [0; 9100], fill).unwrap_err();
    assert!(matches!(long, EmitError::TooLong { .. }));
    let failed = sent.emit_with(8, &mut [0; 64], |_| Err("no memory"));
    assert_eq!(failed, Ok(Err("no memory")));
}

#[test]
fn an_opcode_without_meaning_and_truncated_headers_are_refused() {
    let bytes = emitted(&packet(Opcode(0x0c), None), &[]);
    let parse = |bytes: &[u8]| IbaPacket::parse(&DataPacket::parse(bytes).unwrap()).map(|_| ());
    assert_eq!(parse(&bytes), Ok(()));
    let mut other = bytes.clone();
    other[8] = 0x15;
    let what = "BTH:OpCode";
    assert_eq!(
        parse(&other),
        Err(ParseError::BadValue { what, value: 0x15 })
    );
    // An atomic request has a longer header than a READ.
    other[8] = 0x13;
    assert!(matches!(parse(&other), Err(ParseError::Truncated { .. })));
    // A SEND would have no content but three bytes of padding less than nothing.
    let mut padded = emitted(&packet(Opcode(0x04), None), &[]);
    padded[9] |= 0x30;
    let mismatch = parse(&padded).unwrap_err();
    assert!(matches!(
        mismatch,
        ParseError::LengthMismatch {
            stated: 3,
            actual: 0,
            ..
        }
    ));
}

proptest! {
    #[test]
    fn any_packet_of_consistent_length_is_parsed_or_refused(
        mut bytes in proptest::collection::vec(any::<u8>(), 5..80)
    ) {
        bytes.resize(bytes.len() / 4 * 4 + 22, 0);
        bytes[0] &= 0xf0;
        bytes[1] = (bytes[1] & 0xf0) | 2;
        let words = u16::try_from(bytes.len() / 4).unwrap();
        bytes[4..6].copy_from_slice(&words.to_be_bytes());
        bytes[9] &= 0xf0;
        let packet = DataPacket::parse(&bytes).unwrap();
        if let Ok((headers, payload)) = IbaPacket::parse(&packet) {
            prop_assert!(headers.payload_at() + payload.len() + 6 <= bytes.len());
        }
    }
}
