//! Headers of link packets, flow control and the capture format itself.

use wire::{
    FlowControl, FlowOp, Format, Gid, GlobalRoute, Guid, Lid, Psn, Qpn, RecordKind, Sl, UdPacket,
    Vl, crc,
};

use crate::decode::{Case, judge};

fn datagram(global: Option<GlobalRoute>, payload: &[u8]) -> UdPacket<'_> {
    UdPacket {
        vl: Vl::constant(2),
        sl: Sl::constant(3),
        dlid: Lid::new(0x1234),
        slid: Lid::new(0x4321),
        global,
        solicited: true,
        pkey: 0x8001,
        dest_qp: Qpn::constant(0x11_2233),
        psn: Psn::constant(0x44_5566),
        qkey: 0x7788_99aa,
        src_qp: Qpn::constant(0xbb_ccdd),
        immediate: None,
        payload,
    }
}

/// The datagram with what tshark must show of its headers and check sums.
fn case(name: &'static str, packet: &UdPacket<'_>) -> Case {
    let mut bytes = vec![0; packet.len()];
    packet.emit(&mut bytes).unwrap();
    let icrc_at = bytes.len() - 6;
    Case::ud(name, packet)
        .field("infiniband.lrh.vl", packet.vl.get())
        .field("infiniband.lrh.lver", 0u8)
        .field("infiniband.lrh.sl", packet.sl.get())
        .field(
            "infiniband.lrh.lnh",
            if packet.global.is_some() { 3u8 } else { 2 },
        )
        .field("infiniband.lrh.dlid", packet.dlid.get())
        .field("infiniband.lrh.slid", packet.slid.get())
        .field(
            "infiniband.lrh.pktlen",
            u64::try_from(packet.len() / 4).unwrap(),
        )
        .field("infiniband.bth.se", packet.solicited)
        .field("infiniband.bth.m", true)
        .field("infiniband.bth.tver", 0u8)
        .field("infiniband.bth.p_key", packet.pkey)
        .field("infiniband.bth.destqp", packet.dest_qp.get())
        .field("infiniband.bth.a", false)
        .field("infiniband.bth.psn", packet.psn.get())
        .field("infiniband.deth.q_key", packet.qkey)
        .field("infiniband.deth.srcqp", packet.src_qp.get())
        .field("infiniband.invariant.crc", crc::icrc(&bytes[..icrc_at]))
        .field("infiniband.variant.crc", crc::vcrc(&bytes[..icrc_at + 4]))
}

#[test]
fn datagrams_with_and_without_global_route() {
    let global = GlobalRoute {
        tclass: 0xab,
        flow_label: 0xcdef1,
        hop_limit: 0x40,
        sgid: Gid::new(Gid::DEFAULT_PREFIX, Guid(0x0002_c903_00a1_b2c3)),
        dgid: Gid::new(Gid::DEFAULT_PREFIX, Guid(0x0002_c903_00d4_e5f6)),
    };
    let immediate = UdPacket {
        immediate: Some(0x0102_0304),
        ..datagram(None, &[9; 8])
    };
    judge(&[
        case("local", &datagram(None, &[7; 64]))
            .field("infiniband.bth.opcode", 0x64u8)
            .field("infiniband.bth.padcnt", 0u8)
            .field("data.len", 64u8),
        case("padded", &datagram(None, &[7; 61])).field("infiniband.bth.padcnt", 3u8),
        case("empty", &datagram(None, &[])),
        case("largest", &datagram(None, &[7; 4096])).field("data.len", 4096u16),
        case("global", &datagram(Some(global), &[7; 32]))
            .field("infiniband.grh.ipver", 6u8)
            .field("infiniband.grh.tclass", global.tclass)
            .field("infiniband.grh.flowlabel", global.flow_label)
            .field("infiniband.grh.paylen", 12u16 + 8 + 32 + 4)
            .field("infiniband.grh.nxthdr", 0x1bu8)
            .field("infiniband.grh.hoplmt", global.hop_limit)
            .text("infiniband.grh.sgid", "fe80::2:c903:a1:b2c3")
            .text("infiniband.grh.dgid", "fe80::2:c903:d4:e5f6"),
        // tshark lists immediate data twice.
        case("immediate", &immediate)
            .field("infiniband.bth.opcode", 0x65u8)
            .texts("infiniband.immdt", &["01:02:03:04", "01:02:03:04"]),
    ]);
}

#[test]
fn flow_control_packets_whatever_tshark_takes_their_second_byte_for() {
    let flow = |op: FlowOp, fctbs: u16, vl: u8, fccl: u16| {
        let packet = FlowControl {
            op,
            fctbs,
            vl: Vl::constant(vl),
            fccl,
        };
        let bytes = packet.to_bytes::<{ FlowControl::LEN }>();
        Case::new("flow control", RecordKind::FlowControl, bytes.to_vec())
            .field("infiniband_link.op", op as u8)
            .field("infiniband_link.fctbs", fctbs)
            .field("infiniband_link.vl", vl)
            .field("infiniband_link.fccl", fccl)
            .field("infiniband_link.lpcrc", crc::lpcrc(&bytes[..4]))
    };
    // The low two bits of FCTBS stand where an LRH has its LNH.
    judge(&[
        flow(FlowOp::Normal, 0xabc, 2, 0xdef),
        flow(FlowOp::Init, 0x001, 14, 0xfff),
        flow(FlowOp::Normal, 0x002, 0, 0),
        flow(FlowOp::Init, 0xfff, 7, 0x123),
    ]);
}

#[test]
fn records_carry_their_type_and_time() {
    // The capture writer of these tests stamps packet n with 1.5 n seconds.
    judge(&[
        case("first", &datagram(None, &[]))
            .field("erf.types.type", 21u8)
            .text("frame.time_epoch", "1.500000000"),
        Case::new("second", RecordKind::FlowControl, vec![0; 6])
            .field("erf.types.type", 25u8)
            .text("frame.time_epoch", "3.000000000"),
    ]);
}
