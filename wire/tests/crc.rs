//! The check sums against a second, bit-serial implementation and against published packets.
//!
//! Where the vectors come from:
//! - The 52 bytes with ICRC 0x9625B75A are the sample packet of IBA 7.8.3 (Table 29), quoted with
//!   its masked bytes on the linux-rdma mailing list (J. Gunthorpe, E. Biggers, 29 January 2025).
//!   It proves polynomial, bit order, byte order and the mask of a packet without GRH.
//! - The RoCEv2 packet was built by scapy 2.5.0 (`scapy.contrib.roce`), which computes the ICRC
//!   itself. RoCE puts eight bytes of ones where the LRH would be, as IBA does for packets with
//!   GRH. It proves polynomial and byte order of the bit-serial ICRC once more.
//! - VCRC and LPCRC: polynomial 0x100B, seed and complement of ones, low bit first (IBA 7.8.2),
//!   by shifting single bits here. Capture cards of Endace use the same register (0xD008, the
//!   reflected polynomial). No public capture with intact VCRCs was found.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use wire::bth::Bth;
use wire::{DataPacket, Format, GlobalRoute, Grh, Lrh, Psn, Qpn, Sl, UdPacket, Vl, crc};

/// A CRC as IBA draws it: a shift register fed with the low bit of each byte first, preset to
/// ones, complemented at the end. The polynomial lacks its highest term. The first bit out of the
/// register is the low bit of the first byte on the wire.
fn serial(width: u32, polynomial: u64, bytes: &[u8]) -> Vec<u8> {
    let ones = (1u64 << width) - 1;
    let mut register = ones;
    for byte in bytes {
        for bit in 0..8 {
            let out = (register >> (width - 1)) & 1;
            let fed = u64::from((byte >> bit) & 1) ^ out;
            register = ((register << 1) & ones) ^ if fed == 1 { polynomial } else { 0 };
        }
    }
    register ^= ones;
    (0..width / 8)
        .map(|byte| {
            (0..8).fold(0, |value, bit| {
                let coefficient = (register >> (width - 1 - byte * 8 - bit)) & 1;
                value | (u8::try_from(coefficient).unwrap() << bit)
            })
        })
        .collect()
}

fn serial_vcrc(bytes: &[u8]) -> u16 {
    u16::from_be_bytes(serial(16, 0x100b, bytes).try_into().unwrap())
}

/// Polynomial of Ethernet, without any mask.
fn serial_crc32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(serial(32, 0x04c1_1db7, bytes).try_into().unwrap())
}

/// ICRC with the variant fields of IBA 7.8.1 replaced by ones, field by field.
fn serial_icrc(packet: &[u8]) -> u32 {
    let mut masked = packet.to_vec();
    let (mut lrh, rest) = Lrh::parse(packet).unwrap();
    let bth_at = if lrh.lnh == wire::Lnh::IbaGlobal {
        masked[..Lrh::LEN].fill(0xff);
        let (mut grh, _) = Grh::parse(rest).unwrap();
        grh.tclass = 0xff;
        grh.flow_label = 0x000f_ffff;
        grh.hop_limit = 0xff;
        grh.emit(&mut masked[Lrh::LEN..]);
        Lrh::LEN + Grh::LEN
    } else {
        lrh.vl = Vl::MAX;
        lrh.emit(&mut masked);
        Lrh::LEN
    };
    masked[bth_at + 4] = 0xff;
    serial_crc32(&masked)
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// The sample packet as its table lists it, with the VL masked, and with VL 7.
const SAMPLE: &str = "f0 12 37 5c 00 0e 17 d2 0a 20 24 87 ff 87 b1 b3 00 0d ec 2a 01 71 0a 1c 01 5d
    40 02 38 f2 7a 05 00 00 00 0e bb 88 4d 85 fd 5c fb a4 72 8b c0 69 0e d4 00 00";

#[test]
fn the_sample_packet_of_the_specification_has_its_icrc_on_every_vl() {
    let mut packet = hex(SAMPLE);
    assert_eq!(
        serial_crc32(&packet),
        0x9625_b75a,
        "the bit-serial implementation"
    );
    for vl in 0..=15 {
        packet[0] = vl << 4;
        packet[12] = vl;
        assert_eq!(crc::icrc(&packet), 0x9625_b75a, "VL and Resv8a are masked");
    }
    packet[1] ^= 0x10;
    assert_ne!(crc::icrc(&packet), 0x9625_b75a, "the service level is not");
}

#[test]
fn the_bit_serial_icrc_agrees_with_a_roce_packet_of_scapy() {
    let frame = hex(
        "02fc0000000502fc000000010800 4508004c0001000005119a8b0a0102030a040506 c00012b700385d12
         6400ffff0011223300445566 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
         eeb4f901",
    );
    let (ip_at, udp_at, bth_at) = (14, 34, 42);
    let mut pseudo = vec![0xff; 8];
    pseudo.extend_from_slice(&frame[ip_at..frame.len() - 4]);
    let mut ones = |at: usize| pseudo[at - ip_at + 8] = 0xff;
    // IPv4 type of service, time to live and check sum; UDP check sum; BTH Resv8a.
    for at in [
        ip_at + 1,
        ip_at + 8,
        ip_at + 10,
        ip_at + 11,
        udp_at + 6,
        udp_at + 7,
        bth_at + 4,
    ] {
        ones(at);
    }
    let icrc = u32::from_be_bytes(frame[frame.len() - 4..].try_into().unwrap());
    assert_eq!(serial_crc32(&pseudo), icrc);
}

#[test]
fn a_packet_with_grh_keeps_its_icrc_whatever_a_router_changes() {
    let global = GlobalRoute {
        tclass: 1,
        flow_label: 2,
        hop_limit: 3,
        sgid: wire::Gid([4; 16]),
        dgid: wire::Gid([5; 16]),
    };
    let mut ud = sample_ud(&[7; 40], Some(global));
    let mut out = [0; 256];
    let len = ud.emit(&mut out).unwrap();
    let before = crc::icrc(&out[..len - 6]);
    assert_eq!(before, serial_icrc(&out[..len - 6]));

    ud.vl = Vl::constant(9);
    ud.sl = Sl::constant(9);
    ud.dlid = wire::Lid::new(99);
    ud.slid = wire::Lid::new(98);
    ud.global = Some(GlobalRoute {
        tclass: 0xaa,
        flow_label: 0xbbbbb,
        hop_limit: 0xcc,
        ..global
    });
    let len = ud.emit(&mut out).unwrap();
    assert_eq!(crc::icrc(&out[..len - 6]), before);

    ud.global = Some(GlobalRoute {
        sgid: wire::Gid([6; 16]),
        ..global
    });
    let len = ud.emit(&mut out).unwrap();
    assert_ne!(crc::icrc(&out[..len - 6]), before, "the GIDs are covered");
}

#[test]
fn a_sum_over_less_than_the_headers_does_not_panic() {
    let global = [0xff; Lrh::LEN + Grh::LEN + Bth::LEN];
    let local = [0xfe; Lrh::LEN + Bth::LEN];
    for len in 0..global.len() {
        let (global, local) = (&global[..len], &local[..len.min(local.len())]);
        assert_eq!(
            crc::icrc(global) == 0,
            len == 0,
            "complement of ones over nothing"
        );
        assert_eq!(crc::icrc(local) == 0, local.is_empty());
    }
}

#[test]
fn vcrc_agrees_with_the_bit_serial_one_at_every_length_of_a_packet() {
    // From the shortest packet to the longest of the largest MTU: both implementations behind it.
    let bytes: Vec<u8> = (0..4224u32)
        .map(|at| (at * 151 % 251).to_le_bytes()[0])
        .collect();
    for len in (0..700).chain((700..bytes.len()).step_by(97)) {
        assert_eq!(
            crc::vcrc(&bytes[..len]),
            serial_vcrc(&bytes[..len]),
            "{len} bytes"
        );
    }
}

#[test]
fn a_changed_lane_updates_the_vcrc_as_computing_it_again_would() {
    let bytes: Vec<u8> = (0..4224u32)
        .map(|at| (at * 89 % 253).to_le_bytes()[0])
        .collect();
    for words in (5..64u16).chain([72, 80, 128, 264, 520, 1032, 1056]) {
        let mut packet = bytes[..usize::from(words) * 4].to_vec();
        for (from, to) in [(0, 15), (3, 4), (7, 7), (15, 1), (0, 8)] {
            let (from, to) = (Vl::truncate(from), Vl::truncate(to));
            packet[0] = from.get() << 4;
            let before = crc::vcrc(&packet);
            packet[0] = to.get() << 4;
            let after = crc::vcrc(&packet);
            assert_eq!(
                crc::vcrc_update_vl(before, words, from, to),
                after,
                "{words} words"
            );
            let wrong = crc::vcrc_update_vl(before ^ 0x0100, words, from, to);
            assert_eq!(wrong, after ^ 0x0100, "a wrong VCRC stays wrong");
        }
    }
}

#[test]
fn the_lane_update_holds_for_the_longest_packet_that_pktlen_can_state() {
    let mut packet = vec![0x5a; usize::from(Lrh::PKT_LEN_MAX) * 4];
    packet[0] = 0x20;
    let before = crc::vcrc(&packet);
    packet[0] = 0xd0;
    let (from, to) = (Vl::constant(2), Vl::constant(13));
    assert_eq!(
        crc::vcrc_update_vl(before, Lrh::PKT_LEN_MAX, from, to),
        crc::vcrc(&packet)
    );
}

fn sample_ud(payload: &[u8], global: Option<GlobalRoute>) -> UdPacket<'_> {
    UdPacket {
        vl: Vl::constant(2),
        sl: Sl::constant(3),
        dlid: wire::Lid::new(0x1234),
        slid: wire::Lid::new(0x4321),
        global,
        solicited: false,
        pkey: 0xffff,
        dest_qp: Qpn::constant(0x11_2233),
        psn: Psn::constant(0x44_5566),
        qkey: 0x8001_0000,
        src_qp: Qpn::constant(0x77_8899),
        immediate: None,
        payload,
    }
}

proptest! {
    #[test]
    fn icrc_vcrc_and_lpcrc_agree_with_the_bit_serial_ones(
        payload in proptest::collection::vec(any::<u8>(), 0..600),
        gids in any::<Option<([u8; 16], [u8; 16])>>(),
        flow_label in 0u32..0x0010_0000,
        numbers in any::<[u8; 4]>(),
    ) {
        let [tclass, hop_limit, vl, resv8a] = numbers;
        let global = gids.map(|(sgid, dgid)| GlobalRoute {
            tclass,
            flow_label,
            hop_limit,
            sgid: wire::Gid(sgid),
            dgid: wire::Gid(dgid),
        });
        let mut ud = sample_ud(&payload, global);
        ud.vl = Vl::truncate(vl);
        let mut out = vec![0; ud.len()];
        ud.emit(&mut out).unwrap();
        // A switch may mark congestion: Resv8a changes under the same ICRC.
        let bth_at = if global.is_some() { 48 } else { 8 };
        out[bth_at + 4] = resv8a;
        let icrc_at = out.len() - 6;
        prop_assert_eq!(crc::icrc(&out[..icrc_at]), serial_icrc(&out[..icrc_at]));
        prop_assert!(DataPacket::parse(&out).unwrap().check_icrc().is_ok());
        prop_assert_eq!(crc::vcrc(&out), serial_vcrc(&out));
        prop_assert_eq!(crc::lpcrc(&numbers), serial_vcrc(&numbers));
    }
}
