//! Damaged, truncated, foreign and hostile frames: counted, never a panic, nothing leaks.

use link::{Device, DropReason, Input};
use proptest::prelude::*;
use wire::{
    AttributeId, DataPacket, FlowControl, Format, Lid, Mad, Method, PortNum, Records, Training,
    UdPacket,
};

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

/// Ports of the switch under test, and those of them with a cable.
const PORTS: u8 = 8;
const PLUGGED: u8 = 3;

/// What a port must count for one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Refused {
    /// Its delimiter is wrong.
    Record,
    /// It is a flow-control or training record with a wrong check sum.
    Control,
    /// It is a data packet with a wrong length, header or check sum.
    Packet,
}

impl Refused {
    const ALL: [Self; 3] = [Self::Record, Self::Control, Self::Packet];

    /// The reasons under which it may be counted.
    const fn reasons(self) -> &'static [DropReason] {
        match self {
            Self::Record => &[DropReason::BadRecord],
            Self::Control => &[DropReason::BadControl],
            Self::Packet => &[
                DropReason::BadLength,
                DropReason::BadVersion,
                DropReason::BadVcrc,
            ],
        }
    }
}

/// A record of this kind around `body`.
fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).unwrap().to_be_bytes();
    [&[kind, 0], &length[..], body].concat()
}

/// One record that no port may take, and how it is refused.
fn refused_record() -> impl Strategy<Value = (Vec<u8>, Refused)> {
    let bytes = |length| prop::collection::vec(any::<u8>(), length);
    prop_oneof![
        (5u8.., bytes(0..64)).prop_map(|(kind, body)| (framed(kind, &body), Refused::Record)),
        bytes(7..64).prop_map(|body| (framed(2, &body), Refused::Record)),
        bytes(1..24).prop_map(|body| (framed(3, &body), Refused::Record)),
        bytes(1..64).prop_map(|body| (framed(4, &body), Refused::Record)),
        bytes(0..6).prop_map(|body| (framed(1, &body), Refused::Packet)),
        bytes(6..7).prop_map(|mut body| {
            if FlowControl::parse(&body).is_ok() {
                body[0] ^= 1;
            }
            (framed(2, &body), Refused::Control)
        }),
        bytes(24..25).prop_map(|mut body| {
            if Training::parse(&body).is_ok() {
                body[4] ^= 1;
            }
            (framed(3, &body), Refused::Control)
        }),
        (2u16..70, bytes(282..283)).prop_map(|(words, mut body)| {
            body.truncate(usize::from(words) * 4 + 2);
            body[4..6].copy_from_slice(&words.to_be_bytes());
            if DataPacket::parse(&body).is_ok_and(|packet| packet.check_vcrc().is_ok()) {
                *body.last_mut().unwrap() ^= 1;
            }
            (framed(1, &body), Refused::Packet)
        }),
    ]
}

/// Drops that each port counts, by reason.
fn counted(bed: &Bed, number: u8, reasons: &[DropReason]) -> u64 {
    let drops = reasons.iter().map(|&reason| bed.drops(0, number, reason));
    drops.sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn random_bytes_are_counted_and_dropped(
        frames in prop::collection::vec(
            (0u8..12, prop::collection::vec(any::<u8>(), 0..600)), 1..40),
    ) {
        let mut bed = Bed::star(Plan::default(), PLUGGED.into());
        let mut expected = [0; PORTS as usize + 1];
        for (number, bytes) in frames {
            hand_in(&mut bed, number, &bytes);
            if let Some(expected) = expected.get_mut(usize::from(number)) {
                *expected += match number {
                    0 => 0,
                    _ => Records::new(&bytes).count() as u64,
                };
            }
        }
        for number in 1..=PORTS {
            let drops = counted(&bed, number, DropReason::ALL);
            prop_assert_eq!(drops, expected[usize::from(number)], "port {}", number);
        }
        check(&mut bed);
    }

    #[test]
    fn records_that_cannot_be_taken_are_counted_by_reason(
        frames in prop::collection::vec(
            (1u8..=PORTS, prop::collection::vec(refused_record(), 1..8), any::<bool>()), 1..40),
    ) {
        let mut bed = Bed::star(Plan::default(), PLUGGED.into());
        let mut expected = vec![[0; Refused::ALL.len()]; usize::from(PORTS) + 1];
        let mut not_ready = vec![0; usize::from(PORTS) + 1];
        for (number, records, cut) in frames {
            let mut bytes: Vec<u8> = records.iter().flat_map(|(bytes, _)| bytes).copied().collect();
            let port = usize::from(number);
            if cut {
                // A delimiter whose length leads past the frame.
                bytes.extend([1, 0, 0, 200, 7]);
            }
            hand_in(&mut bed, number, &bytes);
            if number > PLUGGED {
                not_ready[port] += records.len() as u64 + u64::from(cut);
                continue;
            }
            expected[port][Refused::Record as usize] += u64::from(cut);
            for (_, refused) in records {
                expected[port][refused as usize] += 1;
            }
        }
        for number in 1..=PORTS {
            let port = usize::from(number);
            for refused in Refused::ALL {
                let drops = counted(&bed, number, refused.reasons());
                prop_assert_eq!(
                    drops, expected[port][refused as usize], "port {}: {:?}", number, refused
                );
            }
            let drops = counted(&bed, number, &[DropReason::PortNotReady]);
            prop_assert_eq!(drops, not_ready[port], "port {}", number);
            let all: u64 = expected[port].iter().sum::<u64>() + not_ready[port];
            prop_assert_eq!(counted(&bed, number, DropReason::ALL), all, "port {}", number);
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
        for (frame, number, at, byte, truncate, fix_checksum) in mutations {
            let mut bytes = frame.get(&frames).clone();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if truncate {
                bytes.truncate(at);
            }
            if fix_checksum && bytes.len() > 20 {
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
