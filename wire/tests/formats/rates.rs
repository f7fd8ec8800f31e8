//! Link rates and payload sizes.

use wire::{LinkRate, LinkSpeed, LinkWidth, Mtu};

const WIDTHS: [LinkWidth; 5] = [
    LinkWidth::X1,
    LinkWidth::X2,
    LinkWidth::X4,
    LinkWidth::X8,
    LinkWidth::X12,
];
const SPEEDS: [LinkSpeed; 9] = [
    LinkSpeed::Sdr,
    LinkSpeed::Ddr,
    LinkSpeed::Qdr,
    LinkSpeed::Fdr10,
    LinkSpeed::Fdr,
    LinkSpeed::Edr,
    LinkSpeed::Hdr,
    LinkSpeed::Ndr,
    LinkSpeed::Xdr,
];

fn rate(width: LinkWidth, speed: LinkSpeed) -> LinkRate {
    LinkRate { width, speed }
}

#[test]
fn a_byte_takes_four_nanoseconds_on_one_lane_of_2_5_gigabits() {
    // MLID04 5.1: 4 ns a byte.
    let link = rate(LinkWidth::X1, LinkSpeed::Sdr);
    assert_eq!(link.data_rate_bits_per_s(), 2_000_000_000);
    assert_eq!(link.transmit_ps(1), 4000);
    assert_eq!(link.transmit_ps(256 + 32), 288 * 4000);
}

#[test]
fn times_are_rounded_up_and_never_overflow() {
    let link = rate(LinkWidth::X4, LinkSpeed::Hdr);
    assert_eq!(link.data_rate_bits_per_s(), 200_000_000_000);
    assert_eq!(link.transmit_ps(1), 40);
    let link = rate(LinkWidth::X1, LinkSpeed::Fdr);
    assert_eq!(link.transmit_ps(1), 587, "586.67 rounded up");
    assert_eq!(link.transmit_ps(0), 0);
    assert_eq!(link.transmit_ps(u64::MAX), u64::MAX);
}

#[test]
fn codes_of_width_and_speed_are_read_back() {
    for width in WIDTHS {
        assert_eq!(LinkWidth::from_code(width.code()), Some(width));
    }
    for speed in SPEEDS {
        let codes = (speed.code(), speed.extended_code(), speed.extended2_code());
        let back = LinkSpeed::from_codes(codes.0, codes.1, codes.2);
        // FDR10 is a vendor's extension, which PortInfo reports as QDR.
        let reported = if speed == LinkSpeed::Fdr10 {
            LinkSpeed::Qdr
        } else {
            speed
        };
        assert_eq!(back, Some(reported));
    }
    for code in [0, 3, 5, 32, 255] {
        assert_eq!(LinkWidth::from_code(code), None);
    }
    assert_eq!(LinkSpeed::from_codes(0, 0, 0), None);
    assert_eq!(LinkSpeed::from_codes(1, 3, 0), None);
}

#[test]
fn rates_have_the_codes_that_path_records_use() {
    use LinkSpeed::{Ddr, Edr, Fdr, Hdr, Ndr, Qdr, Sdr, Xdr};
    use LinkWidth::{X1, X2, X4, X8, X12};
    let codes = [
        (X1, Sdr, 2),
        (X4, Sdr, 3),
        (X12, Sdr, 4),
        (X1, Ddr, 5),
        (X4, Ddr, 6),
        (X4, Qdr, 7),
        (X12, Ddr, 8),
        (X8, Qdr, 9),
        (X12, Qdr, 10),
        (X1, Fdr, 11),
        (X4, Fdr, 12),
        (X8, Fdr, 13),
        (X12, Fdr, 14),
        (X1, Edr, 15),
        (X4, Edr, 16),
        (X8, Edr, 17),
        (X12, Edr, 18),
        (X2, Fdr, 19),
        (X2, Edr, 20),
        (X8, Hdr, 21),
        (X12, Hdr, 22),
        (X8, Ndr, 23),
        (X12, Ndr, 24),
        (X4, Xdr, 23),
        (X8, Xdr, 25),
    ];
    for (width, speed, code) in codes {
        assert_eq!(rate(width, speed).code(), Some(code), "{width:?} {speed:?}");
    }
    for (width, speed) in WIDTHS
        .into_iter()
        .flat_map(|width| SPEEDS.map(|speed| (width, speed)))
    {
        let without = (width, speed) == (X12, Xdr);
        let code = rate(width, speed).code();
        assert_eq!(code.is_none(), without, "{width:?} {speed:?}");
    }
}

#[test]
fn payload_sizes_know_their_codes_and_bytes() {
    for (code, bytes) in [(1, 256), (2, 512), (3, 1024), (4, 2048), (5, 4096)] {
        let mtu = Mtu::from_code(code).unwrap();
        assert_eq!((mtu.code(), mtu.bytes()), (code, bytes));
        assert_eq!(Mtu::from_bytes(bytes), Some(mtu));
    }
    for code in [0, 6, 255] {
        assert_eq!(Mtu::from_code(code), None);
    }
    assert_eq!(Mtu::from_bytes(1500), None);
    assert!(<Mtu as strum::VariantArray>::VARIANTS.is_sorted());
}
