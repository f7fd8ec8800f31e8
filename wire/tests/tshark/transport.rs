//! Headers of reliable and unreliable connections.

use std::convert::Infallible;

use wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, ExtendedHeaders, IbaPacket, Lid, NakCode, Opcode,
    Operation, Psn, Qpn, RecordKind, Reth, Service, Sl, Syndrome, Vl, crc,
};

use crate::decode::{Case, judge};

/// A packet with what tshark must show of its base header and check sums.
fn case(name: &'static str, opcode: Opcode, extended: ExtendedHeaders, payload: &[u8]) -> Case {
    let packet = IbaPacket {
        vl: Vl::constant(2),
        sl: Sl::constant(3),
        dlid: Lid::new(0x1234),
        slid: Lid::new(0x4321),
        global: None,
        bth: Bth {
            opcode,
            solicited: false,
            mig_req: true,
            pad: 0,
            tver: Bth::VERSION,
            pkey: 0x8001,
            fecn: false,
            becn: false,
            dest_qp: Qpn::constant(0x11_2233),
            ack_req: true,
            psn: Psn::constant(0x44_5566),
        },
        extended,
    };
    let mut bytes = vec![0; packet.len(payload.len())];
    let written = packet.emit_with(payload.len(), &mut bytes, |raw| {
        raw.copy_from_slice(payload);
        Ok::<(), Infallible>(())
    });
    assert_eq!(written, Ok(Ok(bytes.len())));
    let icrc_at = bytes.len() - 6;
    Case::new(name, RecordKind::Data, bytes.clone())
        .field("infiniband.bth.opcode", opcode.0)
        .field("infiniband.bth.destqp", 0x11_2233u32)
        .field("infiniband.bth.a", true)
        .field("infiniband.bth.psn", 0x44_5566u32)
        .field(
            "infiniband.bth.padcnt",
            u64::try_from(payload.len().next_multiple_of(4) - payload.len()).unwrap(),
        )
        .field("infiniband.invariant.crc", crc::icrc(&bytes[..icrc_at]))
        .field("infiniband.variant.crc", crc::vcrc(&bytes[..icrc_at + 4]))
}

fn rc(operation: Operation) -> Opcode {
    Opcode::new(Service::Rc, operation)
}

const NONE: ExtendedHeaders = ExtendedHeaders {
    deth: None,
    reth: None,
    atomic: None,
    aeth: None,
    atomic_ack: None,
    immediate: None,
    invalidate: None,
};

fn immediate() -> ExtendedHeaders {
    ExtendedHeaders {
        immediate: Some(0x0102_0304),
        ..NONE
    }
}

fn reth() -> ExtendedHeaders {
    ExtendedHeaders {
        reth: Some(Reth {
            va: 0x0011_2233_4455_6677,
            rkey: 0x8899_aabb,
            dma_len: 0x0001_0203,
        }),
        ..NONE
    }
}

fn with_reth(case: Case) -> Case {
    case.field("infiniband.reth.va", 0x0011_2233_4455_6677u64)
        .field("infiniband.reth.r_key", 0x8899_aabbu32)
        .field("infiniband.reth.dmalen", 0x0001_0203u32)
}

/// tshark lists immediate data twice.
fn with_immediate(case: Case) -> Case {
    case.texts("infiniband.immdt", &["01:02:03:04", "01:02:03:04"])
}

#[test]
fn sends_and_writes() {
    use Operation as O;
    let mut cases = Vec::new();
    for service in [Service::Rc, Service::Uc] {
        let plain = [
            ("send first", O::SendFirst),
            ("send middle", O::SendMiddle),
            ("send last", O::SendLast),
            ("send only", O::SendOnly),
            ("write middle", O::WriteMiddle),
            ("write last", O::WriteLast),
        ];
        for (name, operation) in plain {
            let case = case(name, Opcode::new(service, operation), NONE, &[7; 64]);
            cases.push(case.field("data.len", 64u8));
        }
        for (name, operation) in [
            ("send last with immediate", O::SendLastImm),
            ("send only with immediate", O::SendOnlyImm),
            ("write last with immediate", O::WriteLastImm),
        ] {
            let case = case(name, Opcode::new(service, operation), immediate(), &[7; 62]);
            cases.push(with_immediate(case));
        }
        for (name, operation) in [("write first", O::WriteFirst), ("write only", O::WriteOnly)] {
            let case = case(name, Opcode::new(service, operation), reth(), &[7; 256]);
            cases.push(with_reth(case));
        }
        let both = ExtendedHeaders {
            immediate: Some(0x0102_0304),
            ..reth()
        };
        let opcode = Opcode::new(service, O::WriteOnlyImm);
        let case = case("write only with immediate", opcode, both, &[7; 32]);
        cases.push(with_immediate(with_reth(case)));
    }
    judge(&cases);
}

#[test]
fn sends_that_invalidate() {
    let headers = ExtendedHeaders {
        invalidate: Some(0xa1a2_a3a4),
        ..NONE
    };
    let case = |name, operation| {
        // tshark lists the key twice.
        case(name, rc(operation), headers, &[7; 16])
            .texts("infiniband.ieth", &["a1:a2:a3:a4", "a1:a2:a3:a4"])
    };
    judge(&[
        case("send last with invalidate", Operation::SendLastInvalidate),
        case("send only with invalidate", Operation::SendOnlyInvalidate),
    ]);
}

#[test]
fn reads_and_atomics() {
    let aeth = ExtendedHeaders {
        aeth: Some(Aeth {
            syndrome: Syndrome::Ack(Syndrome::CREDITS_INVALID).bits(),
            msn: 0x0a_0b0c,
        }),
        ..NONE
    };
    let atomic = ExtendedHeaders {
        atomic: Some(AtomicEth {
            va: 0x0011_2233_4455_6678,
            rkey: 0x8899_aabb,
            swap_or_add: 0x1111_2222_3333_4444,
            compare: 0x5555_6666_7777_8888,
        }),
        ..NONE
    };
    let original = ExtendedHeaders {
        atomic_ack: Some(AtomicAckEth {
            original: 0x9999_aaaa_bbbb_cccc,
        }),
        ..aeth
    };
    let read = |name, operation| {
        case(name, rc(operation), aeth, &[7; 256]).field("infiniband.aeth.msn", 0x0a_0b0cu32)
    };
    let request = |name, operation| {
        case(name, rc(operation), atomic, &[])
            .field("infiniband.atomiceth.swapdt", 0x1111_2222_3333_4444u64)
            .field("infiniband.atomiceth.cmpdt", 0x5555_6666_7777_8888u64)
    };
    judge(&[
        with_reth(case("read", rc(Operation::ReadRequest), reth(), &[])),
        read("read response first", Operation::ReadResponseFirst),
        read("read response last", Operation::ReadResponseLast),
        read("read response only", Operation::ReadResponseOnly),
        case(
            "read response middle",
            rc(Operation::ReadResponseMiddle),
            NONE,
            &[7; 256],
        ),
        request("compare and swap", Operation::CompareSwap),
        request("fetch and add", Operation::FetchAdd),
        case(
            "atomic acknowledge",
            rc(Operation::AtomicAcknowledge),
            original,
            &[],
        )
        .field("infiniband.aeth.msn", 0x0a_0b0cu32)
        .field(
            "infiniband.atomicacketh.origremdt",
            0x9999_aaaa_bbbb_ccccu64,
        ),
    ]);
}

#[test]
fn acknowledgements_of_each_syndrome() {
    let acknowledge = |name, syndrome: Syndrome| {
        let headers = ExtendedHeaders {
            aeth: Some(Aeth {
                syndrome: syndrome.bits(),
                msn: 0x00_0105,
            }),
            ..NONE
        };
        case(name, Opcode::RC_ACKNOWLEDGE, headers, &[])
            .field("infiniband.aeth.msn", 0x00_0105u32)
            .field("infiniband.aeth.syndrome", syndrome.bits())
    };
    let opcode = "infiniband.aeth.syndrome.opcode";
    let error = "infiniband.aeth.syndrome.error_code";
    judge(&[
        acknowledge("ack", Syndrome::Ack(7))
            .field(opcode, 0u8)
            .field("infiniband.aeth.syndrome.credit_count", 7u8),
        acknowledge("receiver not ready", Syndrome::RnrNak(14))
            .field(opcode, 1u8)
            .field("infiniband.aeth.syndrome.timer", 14u8),
        acknowledge("sequence", Syndrome::Nak(NakCode::PsnSequenceError))
            .field(opcode, 3u8)
            .field(error, 0u8),
        acknowledge("invalid request", Syndrome::Nak(NakCode::InvalidRequest)).field(error, 1u8),
        acknowledge("access", Syndrome::Nak(NakCode::RemoteAccessError)).field(error, 2u8),
        acknowledge("operation", Syndrome::Nak(NakCode::RemoteOperationalError)).field(error, 3u8),
    ]);
}

#[test]
fn datagrams() {
    let headers = ExtendedHeaders {
        deth: Some(Deth {
            qkey: 0x7788_99aa,
            src_qp: Qpn::constant(0xbb_ccdd),
        }),
        ..immediate()
    };
    judge(&[with_immediate(case(
        "datagram",
        Opcode::UD_SEND_ONLY_IMM,
        headers,
        &[7; 61],
    ))
    .field("infiniband.deth.q_key", 0x7788_99aau32)
    .field("infiniband.deth.srcqp", 0xbb_ccddu32)]);
}
