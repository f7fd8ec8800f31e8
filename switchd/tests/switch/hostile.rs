//! Damaged, truncated, foreign and hostile frames: counted, never a panic, nothing leaks.

use link::{Device, Input};
use proptest::prelude::*;
use wire::{AttributeId, Lid, Mad, Method, PortNum, UdPacket};

use crate::bed::{Bed, Plan, datagram, port, record};

/// Frames that a switch would take: data to each kind of LID, SMPs, flow control, training.
fn valid_frames() -> Vec<Vec<u8>> {
    let path = [PortNum::new(1), PortNum::new(2)];
    let directed = Mad::directed_smp(Method::SET, AttributeId::PORT_INFO, 2, 1, &path).unwrap();
    let table = AttributeId::LINEAR_FORWARDING_TABLE;
    let routed = Mad::lid_smp(Method::SET, table, 0, 2);
    let smp = |slid, dlid, mad: &Mad| {
        let mut raw = [0; 290];
        UdPacket::smp(slid, dlid, mad).emit(&mut raw).unwrap();
        record(&raw)
    };
    let mut out = vec![
        record(&datagram(1, 2, 0, 0, 290, 1)),
        record(&datagram(1, 0xc005, 0, 0, 98, 1)),
        record(&datagram(1, 100, 3, 2, 290, 1)),
        smp(Lid::PERMISSIVE, Lid::PERMISSIVE, &directed),
        smp(Lid::new(1), Lid::new(100), &routed),
        vec![2, 0, 0, 6, 0x00, 0x10, 0x00, 0x40, 0, 0],
        vec![4, 0, 0, 0],
    ];
    out.push(out.concat());
    out
}

fn check(bed: &mut Bed) {
    bed.run();
    bed.pass(10_000_000_000);
    assert_eq!(bed.switches[0].packets_inside(), 0, "nothing stays");
}

fn hand_in(bed: &mut Bed, number: u8, bytes: &[u8]) {
    let now = bed.now;
    let input = Input::Frame {
        port: port(number),
        head: now,
        tail: now,
        bytes,
    };
    bed.switches[0].handle(now, input);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn random_bytes_are_counted_and_dropped(
        frames in prop::collection::vec(
            (0u8..12, prop::collection::vec(any::<u8>(), 0..600)), 1..40),
    ) {
        let mut bed = Bed::star(Plan::default(), 3);
        for (number, bytes) in frames {
            hand_in(&mut bed, number, &bytes);
        }
        check(&mut bed);
    }

    #[test]
    fn mutated_frames_are_never_a_panic(
        mutations in prop::collection::vec(
            (any::<prop::sample::Index>(), 1u8..4, any::<prop::sample::Index>(), any::<u8>(),
             any::<bool>(), any::<bool>()),
            1..60),
    ) {
        let mut bed = Bed::star(Plan::default(), 3);
        bed.set_group(&[1], 0xc005, &[1, 2, 3]);
        let frames = valid_frames();
        for (frame, number, at, byte, truncate, mend) in mutations {
            let mut bytes = frame.get(&frames).clone();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if truncate {
                bytes.truncate(at);
            }
            if mend && bytes.len() > 20 {
                mend_crcs(&mut bytes);
            }
            hand_in(&mut bed, number, &bytes);
        }
        check(&mut bed);
    }
}

/// Makes the check sums of a frame's only record right again, so that what is behind them is
/// reached.
fn mend_crcs(frame: &mut [u8]) {
    let end = frame.len();
    let icrc = wire::crc::icrc(&frame[4..end - 6]);
    frame[end - 6..end - 2].copy_from_slice(&icrc.to_be_bytes());
    let vcrc = wire::crc::vcrc(&frame[4..end - 2]);
    frame[end - 2..].copy_from_slice(&vcrc.to_be_bytes());
}
